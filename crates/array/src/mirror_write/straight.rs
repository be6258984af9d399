//! The driver that runs to completion: writes in one run of copies that wait for nothing but members. The range is free,
//! superblocks are dirty and bits set.

use super::{finish, send, targets};
use crate::MemberId;
use crate::core::Core;
use crate::member_requests::Waiting;
use crate::mirror_ledger::CopiesWrite;
use smallvec::SmallVec;
use std::rc::Rc;
use stria_block::{Operation, Request};

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
    let write = core.mirror_writes.next_key();
    send(&targets, from, *fua, |member, start_sector, operation| {
        let tag = core.note(member, start_sector, sectors, Waiting::Copy { write });
        core.gate_member(member, start_sector, sectors, &operation);
        to_member(member, Request { tag, start_sector, sectors, operation });
    });
    let (tag, begun, pending) = (request.tag, core.now(), targets.len());
    core.mirror_writes.begin(CopiesWrite { tag, begun, range, lock, pending, failures: SmallVec::new(), operation });
    true
}

/// Ends a write that a member failed, or during which one was dropped.
pub(crate) async fn end(core: Rc<Core>, write: CopiesWrite) {
    let result = finish(&core, &write.range, write.failures.iter().map(|(member, result)| (*member, result))).await;
    core.done(core.end_copies(write, result));
}
