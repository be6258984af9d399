//! The driver that runs to completion: writes in one run of copies that wait for nothing but members. The range is free,
//! superblocks are dirty and bits set.

use super::{finish, send, targets};
use crate::MemberId;
use crate::core::{Core, Fate, Then, Waiting};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Completion, IoError, Nanos, Operation, Request, Tag};

/// A write under way.
pub(crate) struct StraightCopies {
    tag: Tag,
    begun: Nanos,
    range: Range<u64>,
    lock: usize,
    /// Copies that are still being written.
    pending: usize,
    failures: SmallVec<[(MemberId, Result<(), IoError>); 1]>,
    /// The client's operation.
    operation: Operation,
}

/// Gives `to_member` a write for every copy and takes the operation out of the client's request. Returns `false` if it must wait
/// for something, or no member can take it.
pub(super) fn begin(core: &Core, request: &mut Request, to_member: &mut impl FnMut(MemberId, Request)) -> bool {
    let Request { start_sector, sectors, .. } = *request;
    let range = start_sector..start_sector + sectors;
    let (copies, run) = core.geometry.copies_of(start_sector, sectors);
    if run < sectors || !core.may_write_directly(&range) {
        return false;
    }
    let targets = targets(core, &copies);
    if targets.is_empty() {
        return false;
    }
    let Some(lock) = core.locks.try_lock(&range) else { return false };
    core.begin_directly(&range);
    core.gate_client_write(&range);
    let operation = std::mem::replace(&mut request.operation, Operation::Flush);
    let Operation::Write { from, fua } = &operation else { unreachable!("this is a write") };
    let write = core.straight_copies.borrow().vacant_key();
    send(&targets, from, *fua, |member, start_sector, operation| {
        let tag = core.note(member, start_sector, sectors, Waiting::Copy { write });
        core.gate_member(member, start_sector, sectors, &operation);
        to_member(member, Request { tag, start_sector, sectors, operation });
    });
    let (tag, begun, pending) = (request.tag, core.now(), targets.len());
    let write = StraightCopies { tag, begun, range, lock, pending, failures: SmallVec::new(), operation };
    core.straight_copies.borrow_mut().insert(write);
    true
}

impl Core {
    /// True if the end of a copy leaves nothing to do but to complete the client's request, once it is the last.
    pub fn ends_quietly(&self, key: usize) -> bool {
        let write = &self.straight_copies.borrow()[key];
        write.pending > 1 || (write.failures.is_empty() && !self.acks_are_held())
    }

    /// A copy was written and [ends quietly](Core::ends_quietly). The last one's completion becomes the client's.
    pub fn copy_ended(&self, key: usize, completion: &mut Completion) -> Fate {
        let mut writes = self.straight_copies.borrow_mut();
        writes[key].pending -= 1;
        if writes[key].pending > 0 {
            return Fate::Spent;
        }
        let write = writes.remove(key);
        drop(writes);
        self.write_ended(&write.range);
        *completion = self.end_straight_copies(write, Ok(()));
        Fate::Client
    }

    /// A copy has ended, with or without an error. Returns what to do if it was the last.
    pub fn copy_written(&self, key: usize, member: MemberId, result: Result<(), IoError>) -> Then {
        let mut writes = self.straight_copies.borrow_mut();
        let write = &mut writes[key];
        write.pending -= 1;
        if result.is_err() {
            write.failures.push((member, result));
        }
        if write.pending > 0 { Then::Nothing } else { Then::Finish(writes.remove(key)) }
    }

    #[inline]
    fn end_straight_copies(&self, write: StraightCopies, result: Result<(), IoError>) -> Completion {
        self.locks.unlock(write.lock, &self.ready);
        self.steering.ended(write.begun, self.now());
        Completion { tag: write.tag, result, operation: write.operation }
    }
}

/// Ends a write that a member failed, or during which one was dropped.
pub(crate) async fn end(core: Rc<Core>, write: StraightCopies) {
    let result = finish(&core, &write.range, write.failures.iter().map(|(member, result)| (*member, result))).await;
    core.done(core.end_straight_copies(write, result));
}
