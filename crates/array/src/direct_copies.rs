//! Writes of copies that wait for nothing but their members: the range is free, superblocks are dirty and bits set. Most writes
//! of mirrors are of this kind and need no task.

use crate::MemberId;
use crate::core::{Core, Fate, Then, Waiting, shared};
use crate::no_space::{is_no_space, reconcile_copies};
use crate::parity_io::settle;
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Completion, IoError, Nanos, Operation, Request, Tag};

/// A write under way.
pub(crate) struct DirectCopies {
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

impl Core {
    /// Gives `send` a write for every copy and takes the operation out of the client's request. Returns `false` if it must wait
    /// for something, or no member can take it.
    pub fn write_copies_directly(&self, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) -> bool {
        let Request { start_sector, sectors, .. } = *request;
        let range = start_sector..start_sector + sectors;
        let (copies, run) = self.geometry.copies_of(start_sector, sectors);
        if run < sectors || !self.may_write_directly(&range) {
            return false;
        }
        let members = self.members.borrow();
        let mut targets: SmallVec<[(MemberId, u64); 4]> = SmallVec::new();
        for copy in &copies {
            for member in members.each_target(copy.slot) {
                targets.push((member, copy.start_sector));
            }
        }
        drop(members);
        if targets.is_empty() {
            return false;
        }
        let Some(lock) = self.locks.try_lock(&range) else { return false };
        self.begin_directly(&range);
        self.gate_client_write(&range);
        let operation = std::mem::replace(&mut request.operation, Operation::Flush);
        let Operation::Write { from, fua } = &operation else { unreachable!("this is a write") };
        let write = self.direct_copies.borrow().vacant_key();
        for &(member, start_sector) in &targets {
            let tag = self.note(member, start_sector, sectors, Waiting::Copy { write });
            let operation = Operation::Write { from: shared(from), fua: *fua };
            self.gate_member(member, start_sector, sectors, &operation);
            send(member, Request { tag, start_sector, sectors, operation });
        }
        let (tag, begun, pending) = (request.tag, self.now(), targets.len());
        let write = DirectCopies { tag, begun, range, lock, pending, failures: SmallVec::new(), operation };
        self.direct_copies.borrow_mut().insert(write);
        true
    }

    /// True if the end of a copy leaves nothing to do but to complete the client's request, once it is the last.
    pub fn ends_quietly(&self, key: usize) -> bool {
        let write = &self.direct_copies.borrow()[key];
        write.pending > 1 || (write.failures.is_empty() && !self.acks_are_held())
    }

    /// A copy was written and [ends quietly](Core::ends_quietly). The last one's completion becomes the client's.
    pub fn copy_ended(&self, key: usize, completion: &mut Completion) -> Fate {
        let mut writes = self.direct_copies.borrow_mut();
        writes[key].pending -= 1;
        if writes[key].pending > 0 {
            return Fate::Spent;
        }
        let write = writes.remove(key);
        drop(writes);
        self.write_ended(&write.range);
        *completion = self.end_direct_copies(write, Ok(()));
        Fate::Client
    }

    /// A copy has ended, with or without an error. Returns what to do if it was the last.
    pub fn copy_written(&self, key: usize, member: MemberId, result: Result<(), IoError>) -> Then {
        let mut writes = self.direct_copies.borrow_mut();
        let write = &mut writes[key];
        write.pending -= 1;
        if result.is_err() {
            write.failures.push((member, result));
        }
        if write.pending > 0 { Then::Nothing } else { Then::Settle(writes.remove(key)) }
    }

    fn end_direct_copies(&self, write: DirectCopies, result: Result<(), IoError>) -> Completion {
        self.locks.unlock(write.lock, &self.ready);
        self.steering.ended(write.begun, self.now());
        Completion { tag: write.tag, result, operation: write.operation }
    }
}

/// Ends a write that a member failed, or during which one was dropped: the drop must be durable first (R6), for which a task
/// waits.
pub(crate) async fn finish(core: Rc<Core>, write: DirectCopies) {
    let mut result = settle(&core, write.failures.iter().map(|(member, result)| (*member, result)));
    if result.as_ref().is_err_and(is_no_space) {
        let failed: SmallVec<[MemberId; 4]> = write.failures.iter().map(|(member, _)| *member).collect();
        result = reconcile_copies(&core, &write.range, &failed).await.and(result);
    }
    core.write_end(&write.range).await;
    core.gate_acknowledge(&result, write.failures.iter().map(|(member, _)| *member));
    core.done(core.end_direct_copies(write, result));
}
