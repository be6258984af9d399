//! Straight writes: those in one run of copies that wait for nothing but members. The range is free,
//! superblocks are dirty and bits set.

use super::{finish, send, targets};
use crate::address::sync_of_array;
use crate::core::Core;
use crate::member_requests::Waiting;
use crate::mirror_writes::CopiesWrite;
use crate::{ArraySector, MemberId, MemberSector};
use smallvec::SmallVec;
use std::rc::Rc;
use stria_block::{Operation, Request};

/// Gives `to_member` a write for every copy and takes the operation out of the client's request. Returns `false` if it must wait
/// for something, or no member can take it.
pub(super) fn begin(core: &Core, request: &mut Request, to_member: &mut impl FnMut(MemberId, Request)) -> bool {
    let sectors = request.sectors;
    let range = ArraySector::new(request.start_sector).run(sectors);
    let sync = sync_of_array(&range);
    let (copies, run) = core.geometry.copies_of(range.start, sectors);
    // A write over bad blocks waits for their list. A failed array refuses writes.
    if run < sectors || !core.may_write_directly(&sync) || core.members.borrow().need_tasks() {
        return false;
    }
    let targets = targets(core, &copies);
    if targets.is_empty() {
        return false;
    }
    let Some(lock) = core.locks.try_lock(&sync) else { return false };
    core.begin_directly(&sync);
    core.gate_client_write(&sync);
    let operation = std::mem::replace(&mut request.operation, Operation::Flush);
    let Operation::Write { from, fua } = &operation else { unreachable!("this is a write") };
    let write = core.mirror_writes.next_key();
    send(&targets, from, *fua, |member, start_sector, operation| {
        let tag = core.note(member, start_sector, sectors, Waiting::Copy { write });
        core.gate_member(member, start_sector, sectors, &operation);
        to_member(member, Request { tag, start_sector: start_sector.get(), sectors, operation });
    });
    let (tag, begun, pending) = (request.tag, core.now(), targets.len());
    core.mirror_writes.begin(CopiesWrite { tag, begun, range, lock, pending, failures: SmallVec::new(), operation });
    true
}

/// Ends a write that a member failed, or that may not be acknowledged at once.
pub(crate) async fn end(core: Rc<Core>, write: CopiesWrite) {
    // It is one run of copies, so a member that failed took nothing of it. Rows kept for each would cost every write.
    let all = MemberSector::ZERO..MemberSector::new(u64::MAX);
    let failures = write.failures.iter().map(|(member, result)| (*member, all.clone(), result));
    let result = finish(&core, &write.range, failures).await;
    core.done(core.end_copies(write, result));
}
