//! RAID 1 and 10: what the engine asks of them, and where it is done.

use crate::address::{Sectors, SweepSector, array_of_sync, sync_of_array};
use crate::core::{Core, FailedPart, array_range};
use crate::mirror_io::{self, choose, choose_for_all, read_runs, readable};
use crate::parity_io::PAGE_SECTORS;
use crate::personality::{Personality, Place, Run, Runs, Source, Zeroing};
use crate::status::{SweepFault, SweepKind};
use crate::window::{Found, WINDOW_SECTORS, Work};
use crate::{ArraySector, MemberId, MemberSector, SyncSector, mirror_sweep, mirror_write};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Operation, Request};

/// 256 MiB: how much of the array a large trim or zeroing keeps locked.
const CLEAR_SECTORS: u64 = 1 << 19;

pub(crate) enum Mirror {}

impl Personality for Mirror {
    #[inline(always)]
    fn alone(core: &Core, request: &Request) -> Option<(MemberId, MemberSector)> {
        if !matches!(request.operation, Operation::Read { .. }) {
            return None;
        }
        let (copy, member) = choose_for_all(core, ArraySector::new(request.start_sector), request.sectors)?;
        Some((member, copy.start_sector))
    }

    fn read(core: &Core, range: Range<ArraySector>) -> Option<Runs> {
        if core.needs_resync_on_read(&sync_of_array(&range)) {
            return None;
        }
        let run = |(start, sectors, copies): (ArraySector, u64, mirror_io::Copies)| {
            let chosen = choose(core, start, &copies, sectors);
            let (copy, source) = chosen.map_or((copies[0], Source::Others), |(copy, member)| (copy, Source::Member(member)));
            let pieces = std::iter::once((start - range.start, sectors)).collect();
            (Run { slot: copy.slot, start_sector: copy.start_sector, sectors, pieces }, source)
        };
        Some(read_runs(core, range.clone()).map(run).collect())
    }

    fn read_elsewhere(core: &Rc<Core>, part: FailedPart, slot: usize) {
        // No copy has all of it, and several may have a part each.
        Self::correct(core, part, slot);
    }

    fn correct(core: &Rc<Core>, part: FailedPart, slot: usize) {
        core.ready.spawn(mirror_io::correct_part(Rc::clone(core), part, slot));
    }

    #[inline(always)]
    fn write(core: &Rc<Core>, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) {
        mirror_write::write(core, request, send);
    }

    fn clear(core: &Rc<Core>, mut request: Request, zeroing: Zeroing) {
        let range = array_range(&request);
        let parent = core.begin(&mut request, range.sectors().div_ceil(CLEAR_SECTORS) as usize);
        for part in range.in_steps(CLEAR_SECTORS) {
            core.ready.spawn(mirror_write::clear_part(Rc::clone(core), parent, part, zeroing));
        }
    }

    fn extents(core: &Core, start_sector: ArraySector, sectors: u64) -> (usize, MemberSector, u64, Range<SyncSector>) {
        let (copies, sectors) = core.geometry.copies_of(start_sector, sectors);
        let readable = readable(core, &copies, sectors);
        let copy = readable.first().map_or(copies[0], |(copy, _)| *copy);
        (copy.slot, copy.start_sector, sectors, sync_of_array(&start_sector.run(sectors)))
    }

    async fn read_from_others(core: &Core, slow: &[MemberId], place: Place) -> Option<SmallVec<[(u64, Buffer); 1]>> {
        let (array_sector, _, sectors) = place;
        mirror_io::read_without(core, slow, array_sector.run(sectors)).await
    }

    async fn recover_rows(core: &Core, _: usize, _: &Range<MemberSector>, sync: &Range<SyncSector>) -> Option<Buffer> {
        let (copies, sectors) = core.geometry.copies_of(array_of_sync(sync).start, sync.sectors());
        mirror_io::read_any(core, &copies, sectors, &mut SmallVec::new()).await
    }

    fn recoverable(core: &Core, slot: usize, rows: &Range<MemberSector>) -> Vec<(Range<MemberSector>, Range<SyncSector>)> {
        let pages = rows.in_steps(PAGE_SECTORS).flat_map(|page| mirror_sweep::member_runs(core, slot, &page));
        pages.map(|(row, range)| (row.run(range.sectors()), sync_of_array(&range))).collect()
    }

    fn resync_piece(_: &Core, range: &Range<ArraySector>) -> (Range<SyncSector>, u64) {
        let piece = range.start..range.end.min(range.start + WINDOW_SECTORS);
        (sync_of_array(&piece), WINDOW_SECTORS)
    }

    async fn resync(core: &Core, range: &Range<SyncSector>) -> Result<(), SweepFault> {
        mirror_sweep::compare_all(core, SweepKind::Resync, array_of_sync(range)).await.map(drop)
    }

    async fn sweep(core: &Core, work: &Work<'_>, window: Range<SweepSector>) -> Result<Found, SweepFault> {
        mirror_sweep::window(core, work, window).await
    }
}
