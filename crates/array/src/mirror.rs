//! RAID 1 and 10: what the engine asks of them, and where it is done.

use crate::core::{Core, FailedPart};
use crate::mirror_io::{self, choose, choose_for_all, read_runs, readable};
use crate::personality::{Personality, Place, Run, Runs, Source, Zeroing};
use crate::status::SweepKind;
use crate::window::{Found, WINDOW_SECTORS, Work};
use crate::{MemberId, mirror_sweep, mirror_write};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Operation, Request};

/// 256 MiB: how much of the array a large trim or zeroing keeps locked.
const CLEAR_SECTORS: u64 = 1 << 19;

pub(crate) enum Mirror {}

impl Personality for Mirror {
    #[inline(always)]
    fn alone(core: &Core, request: &Request) -> Option<(MemberId, u64)> {
        if !matches!(request.operation, Operation::Read { .. }) {
            return None;
        }
        let (copy, member) = choose_for_all(core, request.start_sector, request.sectors)?;
        Some((member, copy.start_sector))
    }

    fn read(core: &Core, range: Range<u64>) -> Option<Runs> {
        if core.needs_resync_on_read(&range) {
            return None;
        }
        let run = |(start, sectors, copies): (u64, u64, mirror_io::Copies)| {
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
        let range = request.start_sector..request.end_sector();
        let parts = (range.end - range.start).div_ceil(CLEAR_SECTORS);
        let parent = core.begin(&mut request, parts as usize);
        for part in 0..parts {
            let start = range.start + part * CLEAR_SECTORS;
            let part = start..range.end.min(start + CLEAR_SECTORS);
            core.ready.spawn(mirror_write::clear_part(Rc::clone(core), parent, part, zeroing));
        }
    }

    fn extents(core: &Core, start_sector: u64, sectors: u64) -> (usize, u64, u64) {
        let (copies, sectors) = core.geometry.copies_of(start_sector, sectors);
        let readable = readable(core, &copies, sectors);
        let copy = readable.first().map_or(copies[0], |(copy, _)| *copy);
        (copy.slot, copy.start_sector, sectors)
    }

    async fn others_say(core: &Core, member: MemberId, place: Place) -> Option<SmallVec<[(u64, Buffer); 1]>> {
        let (array_sector, _, sectors) = place;
        mirror_io::read_without(core, member, array_sector..array_sector + sectors).await
    }

    async fn told_by_others(core: &Core, _: usize, _: &Range<u64>, sync: &Range<u64>) -> Option<Buffer> {
        let (copies, sectors) = core.geometry.copies_of(sync.start, sync.end - sync.start);
        mirror_io::read_any(core, &copies, sectors, &mut SmallVec::new()).await
    }

    fn resync_piece(_: &Core, range: &Range<u64>) -> (Range<u64>, u64) {
        (range.start..range.end.min(range.start + WINDOW_SECTORS), WINDOW_SECTORS)
    }

    async fn resync(core: &Core, range: &Range<u64>) -> Result<(), String> {
        mirror_sweep::compare_all(core, SweepKind::Resync, range.clone()).await.map(drop)
    }

    async fn sweep(core: &Core, work: &Work<'_>, window: Range<u64>) -> Result<Found, String> {
        mirror_sweep::window(core, work, window).await
    }
}
