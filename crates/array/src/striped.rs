//! Levels without redundancy: linear and RAID 0. A request goes to one member or several, unchanged.

use crate::address::{Sectors, SweepSector};
use crate::core::{Core, FailedPart, array_range, lost};
use crate::member_requests::MemberIo;
use crate::personality::{Personality, Place, Run, Runs, Source, Zeroing};
use crate::plan::Presence;
use crate::segments::slice_segments;
use crate::status::SweepFault;
use crate::window::{Found, Work};
use crate::{ArraySector, MemberId, MemberSector, SyncSector};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Operation, Request, bytes};

pub(crate) enum Striped {}

/// Splits a range of the array into runs. `place` gives the slot and member sector of an array sector, and how far it is
/// contiguous there. Runs that touch on a member are joined.
pub(crate) fn runs(
    range: Range<ArraySector>,
    place: impl Fn(ArraySector, u64) -> (usize, MemberSector, u64),
) -> SmallVec<[Run; 8]> {
    let mut runs: SmallVec<[Run; 8]> = SmallVec::new();
    let mut next = range.start;
    while next < range.end {
        let (slot, start_sector, sectors) = place(next, range.end - next);
        let piece = (next - range.start, sectors);
        match runs.iter_mut().rev().find(|run| run.slot == slot) {
            Some(run) if run.start_sector + run.sectors == start_sector => {
                run.sectors += sectors;
                run.pieces.push(piece);
            }
            _ => runs.push(Run { slot, start_sector, sectors, pieces: smallvec![piece] }),
        }
        next += sectors;
    }
    runs
}

#[inline(always)]
fn place(core: &Core, sector: ArraySector, sectors: u64) -> (usize, MemberSector, u64) {
    let extent = core.geometry.extent(sector, sectors);
    (extent.slot, extent.start_sector, extent.sectors)
}

/// Sends a run of a write, or fails it where its member is missing.
fn send_run(core: &Rc<Core>, parent: usize, run: Run, operation: Operation) {
    let member = core.members.borrow().slots()[run.slot].member;
    match member {
        Some(member) => {
            let io = MemberIo { member, start_sector: run.start_sector, sectors: run.sectors, operation };
            // Also where the list is due that no longer names its sectors.
            let have_bad = core.members.borrow().have_bad_blocks();
            match have_bad {
                true => core.ready.spawn(write_over_bad_blocks(Rc::clone(core), parent, io)),
                false => core.send_part(parent, run.pieces, io),
            }
        }
        None => {
            let error = lost("request", &format!("the member in slot {} is missing", run.slot));
            core.part_done(parent, None, Err(error));
        }
    }
}

/// After a crash a list that still names what was written over would leave it unreadable (R73).
async fn write_over_bad_blocks(core: Rc<Core>, parent: usize, io: MemberIo) {
    let fua = matches!(io.operation, Operation::Write { fua: true, .. } | Operation::WriteZeroes { fua: true, .. });
    let (result, _) = core.io(std::iter::once(io).collect()).await.swap_remove(0);
    core.metadata.bad_blocks_written(&core.ready).await;
    let listed = if fua { core.bad_blocks_are_listed("write") } else { Ok(()) };
    core.part_done(parent, None, result.and(listed));
}

impl Personality for Striped {
    #[inline(always)]
    fn alone(core: &Core, request: &Request) -> Option<(MemberId, MemberSector)> {
        if !matches!(request.operation, Operation::Read { .. } | Operation::Write { .. }) {
            return None;
        }
        let (slot, member_sector, run) = place(core, ArraySector::new(request.start_sector), request.sectors);
        let members = core.members.borrow();
        let member = members.slots()[slot].member.filter(|_| run == request.sectors)?;
        let rows = member_sector.run(request.sectors);
        let writes = matches!(request.operation, Operation::Write { .. });
        let waits = writes && members.have_bad_blocks();
        (!waits && members.presence(slot, &rows) == Presence::Readable).then_some((member, member_sector))
    }

    fn read(core: &Core, range: Range<ArraySector>) -> Option<Runs> {
        let members = core.members.borrow();
        let source = |run: Run| {
            let rows = run.start_sector.run(run.sectors);
            let is_readable = members.presence(run.slot, &rows) == Presence::Readable;
            let member = members.slots()[run.slot].member.filter(|_| is_readable);
            (run, member.map_or(Source::Others, Source::Member))
        };
        Some(runs(range, |sector, sectors| place(core, sector, sectors)).into_iter().map(source).collect())
    }

    fn read_elsewhere(core: &Rc<Core>, part: FailedPart, _: usize) {
        part.deliver(core, None);
    }

    fn correct(core: &Rc<Core>, part: FailedPart, _: usize) {
        let error = part.error.clone();
        core.part_done(part.parent, Some((part.offset_sectors, part.into)), Err(error));
    }

    fn write(core: &Rc<Core>, request: &mut Request, _: &mut impl FnMut(MemberId, Request)) {
        let runs = runs(array_range(request), |sector, sectors| place(core, sector, sectors));
        let parent = core.begin(request, runs.len());
        let Operation::Write { from, fua } = &request.operation else { unreachable!("this is a write") };
        for run in runs {
            let piece = |&(offset, sectors): &(u64, u64)| slice_segments(from, bytes(offset), bytes(sectors));
            let operation = Operation::Write { from: run.pieces.iter().flat_map(piece).collect(), fua: *fua };
            send_run(core, parent, run, operation);
        }
    }

    fn clear(core: &Rc<Core>, mut request: Request, zeroing: Zeroing) {
        let runs = runs(array_range(&request), |sector, sectors| place(core, sector, sectors));
        let parent = core.begin(&mut request, runs.len());
        for run in runs {
            send_run(core, parent, run, zeroing.operation());
        }
    }

    fn extents(core: &Core, start_sector: ArraySector, sectors: u64) -> (usize, MemberSector, u64, Range<SyncSector>) {
        let (slot, row, sectors) = place(core, start_sector, sectors);
        (slot, row, sectors, SyncSector::ZERO..SyncSector::ZERO)
    }

    async fn read_from_others(_: &Core, _: &[MemberId], _: Place) -> Option<SmallVec<[(u64, Buffer); 1]>> {
        None
    }

    async fn recover_rows(_: &Core, _: usize, _: &Range<MemberSector>, _: &Range<SyncSector>) -> Option<Buffer> {
        None
    }

    fn recoverable(_: &Core, _: usize, _: &Range<MemberSector>) -> Vec<(Range<MemberSector>, Range<SyncSector>)> {
        Vec::new()
    }

    fn resync_piece(_: &Core, range: &Range<ArraySector>) -> (Range<SyncSector>, u64) {
        (SyncSector::ZERO..SyncSector::ZERO, range.sectors())
    }

    async fn resync(_: &Core, _: &Range<SyncSector>) -> Result<(), SweepFault> {
        Ok(())
    }

    async fn sweep(_: &Core, _: &Work<'_>, _: Range<SweepSector>) -> Result<Found, SweepFault> {
        Ok(Found::default())
    }
}
