//! Writes on RAID 1 and 10. What a write does stands here, step by step:
//!
//! | step | what happens |
//! | --- | --- |
//! | lock | its array sectors, so that overlapping writes reach all copies in the same order; superblocks say dirty, and bits are durable (R1, R2) |
//! | send | every copy to its [targets] |
//! | finish | [members that failed](finish) are dropped, and the drops are durable (R6) |
//!
//! Two modules take these steps. [`straight`] runs a write to completion that lies in one run of copies and waits for nothing but
//! members. Most are of this kind. Every other write is a task, which may wait for anything.

mod straight;

pub(crate) use straight::end;

use crate::address::{Sectors, sync_of_array};
use crate::core::{BadCause, Core, drop_failed, lost};
use crate::lock::Mode;
use crate::member_requests::MemberIo;
use crate::mirror_io::runs;
use crate::mirror_writes::CopiesJob;
use crate::no_space::{NotTaken, reconcile_copies};
use crate::personality::Zeroing;
use crate::segments::{sectors_of, shared, slice_segments};
use crate::task::Worker;
use crate::{ArraySector, Copy, MemberId, MemberSector};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Data, IoError, Operation, Request, Segments, bytes};

/// A client's write.
#[inline]
pub(crate) fn write(core: &Rc<Core>, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) {
    if !straight::begin(core, request, send) {
        write_by_task(core, request);
    }
}

/// A client's write, by a task.
pub(crate) fn write_by_task(core: &Rc<Core>, request: &mut Request) {
    let parent = core.begin(request, 1);
    let Operation::Write { from, fua } = std::mem::replace(&mut request.operation, Operation::Flush) else {
        unreachable!("this is a write")
    };
    let write = CopiesJob { parent, start_sector: ArraySector::new(request.start_sector), from, fua };
    if let Some(worker) = core.mirror_writes.crew.hand(&core.ready, write) {
        core.ready.spawn(write_forever(Rc::clone(core), worker));
    }
}

/// The members that take a run of copies, replacements included, with the first sector on each.
#[inline]
fn targets(core: &Core, copies: &[Copy]) -> SmallVec<[(MemberId, MemberSector); 4]> {
    let members = core.members.borrow();
    let mut targets = SmallVec::new();
    for copy in copies {
        for member in members.each_target(copy.slot) {
            targets.push((member, copy.start_sector));
        }
    }
    targets
}

/// Sends a run to its targets.
#[inline]
fn send(
    targets: &[(MemberId, MemberSector)],
    from: &Segments<Data>,
    fua: bool,
    mut to: impl FnMut(MemberId, MemberSector, Operation),
) {
    for &(member, start_sector) in targets {
        to(member, start_sector, Operation::Write { from: shared(from), fua });
    }
}

/// Ends a write on its members. Those that failed are dropped, or have bad blocks where they lack space. It may be acknowledged
/// when this returns.
async fn finish<'a>(
    core: &Core,
    range: &Range<ArraySector>,
    results: impl Iterator<Item = (MemberId, Range<MemberSector>, &'a Result<(), IoError>)> + Clone,
) -> Result<(), IoError> {
    let not_taken = |(member, rows, result): (MemberId, Range<MemberSector>, &Result<(), IoError>)| {
        Some(NotTaken { member, rows, cause: BadCause::of(result.as_ref().err()?) })
    };
    let failed: SmallVec<[NotTaken; 4]> = results.clone().filter_map(not_taken).collect();
    let mut result = drop_failed(core, results.map(|(member, _, result)| (member, result)));
    if result.is_err() {
        // A copy that could not be dropped may hold what others do not.
        result = reconcile_copies(core, range, &failed).await.and(result);
    }
    let result = result.and(core.write_end(&sync_of_array(range)).await);
    core.gate_acknowledge(&result, failed.into_iter().map(|failed| failed.member));
    result
}

async fn write_forever(core: Rc<Core>, worker: Rc<Worker<CopiesJob>>) {
    loop {
        let CopiesJob { parent, start_sector, from, fua } = core.mirror_writes.crew.job(&core.ready, &worker).await;
        let range = start_sector.run(sectors_of(&from));
        let send_all = |batch| {
            for (start, sectors, copies) in runs(&core, range.clone()) {
                let data = slice_segments(&from, bytes(start - start_sector), bytes(sectors));
                send(&targets(&core, &copies), &data, fua, |member, start_sector, operation| {
                    core.send_in(batch, MemberIo { member, start_sector, sectors, operation });
                });
            }
        };
        let result = change(&core, &range, fua, send_all).await;
        core.part_done(parent, None, result);
    }
}

/// Zeroes a range on every copy.
pub(crate) async fn clear_part(core: Rc<Core>, parent: usize, range: Range<ArraySector>, zeroing: Zeroing) {
    let send_all = |batch| {
        for (member, rows) in member_ranges(&core, &range) {
            let operation = Zeroing { fast: false, ..zeroing }.operation();
            core.send_in(batch, MemberIo { member, start_sector: rows.start, sectors: rows.sectors(), operation });
        }
    };
    let result = change(&core, &range, zeroing.fua, send_all).await;
    core.part_done(parent, None, result);
}

/// Changes a range of array sectors under its lock; `send_all` sends the member requests, in a batch.
async fn change(core: &Core, range: &Range<ArraySector>, fua: bool, send_all: impl FnOnce(usize)) -> Result<(), IoError> {
    let guard = core.lock(sync_of_array(range), Mode::Exclusive).await;
    core.write_begin(&sync_of_array(range)).await?;
    // The only target on a failed array may be a member under rebuild. Data that it alone takes cannot be read.
    let has_failed = core.members.borrow().have_failed();
    if has_failed || runs(core, range.clone()).any(|(_, _, copies)| targets(core, &copies).is_empty()) {
        core.write_ended(&sync_of_array(range));
        return Err(lost("write", "no member is left to take a part of it"));
    }
    core.gate_client_write(&sync_of_array(range));
    let batch = core.member_requests.begin_batch(&core.ready);
    send_all(batch);
    let ended = core.member_requests.batch_ended(batch).await;
    let results = ended.iter().map(|ended| (ended.member, ended.start_sector.run(ended.sectors), &ended.result));
    let result = finish(core, range, results).await;
    core.member_requests.reuse(ended);
    drop(guard);
    match fua {
        true => result.and_then(|()| core.bad_blocks_are_listed("write")),
        false => result,
    }
}

/// The copies of a range as runs on members, with neighbours joined. Offset layouts give every second row before the first, so
/// rows are sorted before they are joined.
fn member_ranges(core: &Core, range: &Range<ArraySector>) -> SmallVec<[(MemberId, Range<MemberSector>); 8]> {
    let mut all: SmallVec<[(MemberId, Range<MemberSector>); 8]> = SmallVec::new();
    for (_, sectors, copies) in runs(core, range.clone()) {
        all.extend(targets(core, &copies).into_iter().map(|(member, start)| (member, start.run(sectors))));
    }
    all.sort_unstable_by_key(|(member, rows)| (*member, rows.start));
    all.dedup_by(|next, last| {
        let follows = next.0 == last.0 && next.1.start == last.1.end;
        if follows {
            last.1.end = next.1.end;
        }
        follows
    });
    all
}
