//! RAID 4, 5 and 6: what the engine asks of them, and where it is done.

use crate::address::{Sectors, SweepSector, rows_of_sweep, rows_of_sync, sync_of_rows};
use crate::coalesce::Part;
use crate::core::{Core, FailedPart};
use crate::log_record::LogRecord;
use crate::parity_io::{self, PAGE_SECTORS};
use crate::personality::{Personality, Place, Run, Runs, Source, Zeroing};
use crate::plan::Presence;
use crate::status::{SweepFault, SweepKind};
use crate::striped::runs;
use crate::window::{Found, WINDOW_SECTORS, Work};
use crate::{ArraySector, MemberId, MemberSector, StripeSector, SyncSector, parity_sweep, parity_write, parity_zeroing};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, ErrorKind, IoError, Operation, Request};

/// 32 MiB of each member at once: what a large trim or zeroing keeps locked.
const CLEAR_ROWS_SECTORS: u64 = 1 << 16;

pub(crate) enum Parity {}

/// The slot and row of an array sector, and how far it is contiguous there.
#[inline(always)]
pub(crate) fn place(core: &Core, sector: ArraySector, sectors: u64) -> (usize, MemberSector, u64) {
    let (stripe, index, in_strip) = core.geometry.strip_of(sector);
    let slot = usize::from(core.map(stripe).data[index]);
    let strip = core.geometry.strip_sectors();
    (slot, MemberSector::new(stripe * strip) + in_strip.get(), sectors.min(strip - in_strip.get()))
}

impl Personality for Parity {
    #[inline(always)]
    fn alone(core: &Core, request: &Request) -> Option<(MemberId, MemberSector)> {
        if !matches!(request.operation, Operation::Read { .. }) {
            return None;
        }
        let (slot, row, run) = place(core, ArraySector::new(request.start_sector), request.sectors);
        let members = core.members.borrow();
        let member = members.slots()[slot].member.filter(|_| run == request.sectors)?;
        let rows = row.run(request.sectors);
        let is_in_place = || !core.log.is_not_in_place(slot, &rows) && !members.get(member).is_unresponsive;
        let allows =
            members.presence(slot, &rows) == Presence::Readable && core.consistency.covers(&sync_of_rows(&rows)) && is_in_place();
        allows.then_some((member, row))
    }

    fn read(core: &Core, range: Range<ArraySector>) -> Option<Runs> {
        let rows = |run: &Run| run.start_sector.run(run.sectors);
        let found = runs(range, |sector, sectors| place(core, sector, sectors));
        if found.iter().any(|run| core.needs_resync_on_read(&sync_of_rows(&rows(run)))) {
            return None;
        }
        let members = core.members.borrow();
        let source = |run: Run| {
            let rows = rows(&run);
            let is_readable =
                members.presence(run.slot, &rows) == Presence::Readable && !core.log.is_not_in_place(run.slot, &rows);
            let source = match members.slots()[run.slot].member.filter(|_| is_readable) {
                Some(member) if members.get(member).is_unresponsive => Source::OthersFirst(member),
                Some(member) => Source::Member(member),
                None => Source::Others,
            };
            (run, source)
        };
        Some(found.into_iter().map(source).collect())
    }

    fn read_elsewhere(core: &Rc<Core>, part: FailedPart, slot: usize) {
        core.ready.spawn(parity_io::read_part(Rc::clone(core), part, slot));
    }

    fn correct(core: &Rc<Core>, part: FailedPart, slot: usize) {
        core.ready.spawn(parity_io::correct_part(Rc::clone(core), part, slot));
    }

    #[inline(always)]
    fn write(core: &Rc<Core>, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) {
        parity_write::write(core, request, send);
    }

    /// Zeroes full stripes on all members, parity included. The rest is written with zeros.
    fn clear(core: &Rc<Core>, mut request: Request, zeroing: Zeroing) {
        let range = request.start_sector..request.end_sector();
        let strip = core.geometry.strip_sectors();
        let width = strip * core.geometry.data_count() as u64;
        // Small requests leave old data or zeros, as the log promises of small writes. Where the space may be unmapped a log
        // record of zeros does that; otherwise they are written as data.
        let small = core.log.logs_new_data_of(request.sectors);
        let whole = range.start.div_ceil(width)..(range.end / width).max(range.start.div_ceil(width));
        let whole = if small && !zeroing.unmap { whole.start..whole.start } else { whole };
        let edges: SmallVec<[Range<u64>; 2]> = if whole.is_empty() {
            std::iter::once(range.clone()).collect()
        } else {
            let edges = [range.start..whole.start * width, whole.end * width..range.end];
            edges.into_iter().filter(|edge| !edge.is_empty()).collect()
        };
        if zeroing.fast && !edges.is_empty() {
            let error = IoError::new(
                ErrorKind::Unsupported,
                "parts of a stripe cannot be zeroed quickly: send the request without the fast flag",
            );
            return core.done(request.complete(Err(error)));
        }
        let one_append = core.log.is_newest_only();
        let stripes_per_part = match (CLEAR_ROWS_SECTORS / strip).max(1) {
            stripes if one_append => stripes.min(LogRecord::APPEND_COUNT_MAX as u64),
            stripes => stripes,
        };
        let mut pieces: SmallVec<[(u64, u64); 8]> = SmallVec::new();
        for edge in edges {
            let mut next = edge.start;
            while next < edge.end {
                let sectors = (edge.end - next).min(strip - next % strip);
                pieces.push((next, sectors));
                next += sectors;
            }
        }
        let parts = (whole.end - whole.start).div_ceil(stripes_per_part) as usize + pieces.len();
        let parent = core.begin(&mut request, parts);
        let mut stripe = whole.start;
        while stripe < whole.end {
            let end = whole.end.min(stripe + stripes_per_part);
            core.ready.spawn(parity_zeroing::zero_stripes(Rc::clone(core), parent, stripe..end, zeroing, small));
            stripe = end;
        }
        for (start, sectors) in pieces {
            let data = smallvec![core.buffers.zeros(sectors)];
            let start_sector = StripeSector::new(start % width);
            let part = Part { parent, start_sector, data, fua: zeroing.fua, small: true, alone: true, goes_on: false };
            parity_write::write_part(core, start / width, part);
        }
    }

    fn extents(core: &Core, start_sector: ArraySector, sectors: u64) -> (usize, MemberSector, u64, Range<SyncSector>) {
        let (slot, row, sectors) = place(core, start_sector, sectors);
        (slot, row, sectors, sync_of_rows(&row.run(sectors)))
    }

    async fn read_from_others(core: &Core, slow: &[MemberId], place: Place) -> Option<SmallVec<[(u64, Buffer); 1]>> {
        let (array_sector, row, sectors) = place;
        let read = parity_io::read_from_parity(core, slow, array_sector, row.run(sectors)).await?;
        Some(std::iter::once((0, read)).collect())
    }

    async fn recover_rows(core: &Core, slot: usize, rows: &Range<MemberSector>, _: &Range<SyncSector>) -> Option<Buffer> {
        parity_io::recover_rows(core, slot, rows).await
    }

    fn recoverable(core: &Core, _: usize, rows: &Range<MemberSector>) -> Vec<(Range<MemberSector>, Range<SyncSector>)> {
        let strip = core.geometry.strip_sectors();
        let mut pieces = Vec::new();
        for part in core.partition.parts(sync_of_rows(rows)) {
            let Range { start: mut next, end } = rows_of_sync(&part);
            while next < end {
                let piece = next.run((end - next).min(strip - next.get() % strip).min(PAGE_SECTORS));
                next = piece.end;
                pieces.push((piece.clone(), sync_of_rows(&piece)));
            }
        }
        pieces
    }

    fn resync_piece(core: &Core, range: &Range<ArraySector>) -> (Range<SyncSector>, u64) {
        let (_, row, sectors) = place(core, range.start, range.sectors().min(WINDOW_SECTORS));
        (sync_of_rows(&row.run(sectors)), sectors)
    }

    async fn resync(core: &Core, range: &Range<SyncSector>) -> Result<(), SweepFault> {
        let work = Work { kind: SweepKind::Resync, targets: &[] };
        parity_sweep::rows(core, &work, rows_of_sync(range)).await.map(drop)
    }

    async fn sweep(core: &Core, work: &Work<'_>, window: Range<SweepSector>) -> Result<Found, SweepFault> {
        parity_sweep::rows(core, work, rows_of_sweep(&window)).await
    }
}
