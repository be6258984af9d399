//! A window of a mirrored level: for a rebuild, rows of the member that is filled; otherwise array sectors.

use super::{Found, Sweep};
use crate::core::{Batch, Core, write_io};
use crate::lock::Mode;
use crate::mirror_io::{read_any, readable, runs};
use crate::parity_io::{PAGE_SECTORS, rewrite, settle_writes};
use crate::status::{Event, SweepKind};
use crate::{Copy, MemberId};
use smallvec::SmallVec;
use std::ops::Range;
use stria_block::{Buffer, Data, Operation, bytes};

/// The array sectors whose copies lie in `rows` of a slot, as one range around them.
pub(super) fn sync_range(core: &Core, slot: usize, rows: &Range<u64>) -> Option<Range<u64>> {
    let mut around: Option<Range<u64>> = None;
    for (_, range) in member_runs(core, slot, rows) {
        around = Some(match around {
            Some(known) => known.start.min(range.start)..known.end.max(range.end),
            None => range,
        });
    }
    around
}

/// Rows of a slot and the array sectors that they are copies of.
fn member_runs(core: &Core, slot: usize, rows: &Range<u64>) -> Vec<(u64, Range<u64>)> {
    let mut found = Vec::new();
    let mut row = rows.start;
    while row < rows.end {
        let (array_sector, sectors) = core.geometry.array_sector_of(slot, row, rows.end - row);
        if let Some(start) = array_sector {
            found.push((row, start..start + sectors));
        }
        row += sectors;
    }
    found
}

pub(super) async fn window(core: &Core, sweep: &Sweep, window: Range<u64>) -> Result<Found, String> {
    match sweep.kind {
        SweepKind::Rebuild => {
            for fill in &sweep.fills {
                if fill_window(core, fill.slot, fill.member, &window).await.is_ok() {
                    continue;
                }
                // Page by page: what is lost at one place is noted as bad, the rest is filled.
                for row in window.clone().step_by(PAGE_SECTORS as usize) {
                    let page = row..window.end.min(row + PAGE_SECTORS);
                    let failed = core.members.borrow().get(fill.member).role == crate::MemberRole::Failed;
                    if !failed
                        && let Err(reason) = fill_window(core, fill.slot, fill.member, &page).await
                        && !core.mark_bad(fill.member, page).await
                    {
                        return Err(format!("{reason}, and the bad-block log has no room to say so"));
                    }
                }
            }
            core.record_barrier().await;
            let members = core.members.borrow();
            match sweep.fills.iter().find(|fill| members.get(fill.member).role == crate::MemberRole::Failed) {
                Some(fill) => Err(format!("member {} failed", members.get(fill.member).config.name)),
                None => Ok(Found::default()),
            }
        }
        SweepKind::Resync | SweepKind::Scrub { .. } => compare_window(core, sweep, window).await,
    }
}

/// Copies rows of one member from wherever their copies can be read.
async fn fill_window(core: &Core, slot: usize, member: MemberId, rows: &Range<u64>) -> Result<(), String> {
    let Some(range) = sync_range(core, slot, rows) else { return Ok(()) };
    let _guard = core.lock(range, Mode::Exclusive).await;
    let mut batch = Batch::new();
    let mut places: SmallVec<[(u64, u64, SmallVec<[Copy; 4]>); 8]> = SmallVec::new();
    for (row, range) in member_runs(core, slot, rows) {
        let mut next = range.start;
        while next < range.end {
            let (copies, sectors) = core.geometry.copies_of(next, range.end - next);
            let row = row + (next - range.start);
            // A replaced member is its own best source.
            let source = readable(core, &copies, sectors).into_iter().max_by_key(|(copy, _)| copy.slot == slot);
            let Some((copy, source)) = source else {
                return Err(format!("sectors {next}.. have no readable copy"));
            };
            batch.push(core.read_io(source, copy.start_sector, sectors));
            let mut copies = copies;
            copies.sort_by_key(|other| other.slot != copy.slot);
            places.push((row, sectors, copies));
            next += sectors;
        }
    }
    let mut writes = Batch::new();
    let mut claims = Vec::new();
    for ((row, sectors, copies), (result, operation)) in places.into_iter().zip(core.io(batch).await) {
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let mut buffer = into.into_iter().next().expect("one buffer was given");
        if result.is_err() {
            let mut unreadable: SmallVec<[usize; 4]> = std::iter::once(copies[0].slot).collect();
            let other = read_any(core, &copies, sectors, &mut unreadable).await;
            buffer = other.ok_or_else(|| format!("row {row} of slot {slot} has no readable copy"))?;
            mend(core, &copies, &unreadable, &buffer).await;
        }
        claims.push(buffer.claim());
        writes.push(write_io(member, row, buffer.freeze(), false));
    }
    let targets: SmallVec<[MemberId; 8]> = writes.iter().map(|_| member).collect();
    let outcomes = core.io(writes).await;
    let settled = settle_writes(core, &targets, outcomes.iter().map(|(result, _)| result));
    drop(outcomes);
    claims.into_iter().for_each(|claim| core.pool.borrow_mut().give_claim(claim));
    settled.map_err(|error| error.to_string())
}

/// Writes good bytes back to the copies that could not be read.
async fn mend(core: &Core, copies: &[Copy], unreadable: &[usize], good: &Buffer) {
    let data = Buffer::copy_of(good).freeze();
    for slot in unreadable {
        let copy = copies.iter().find(|copy| copy.slot == *slot).expect("it was read from");
        let member = core.members.borrow().slots()[*slot].member;
        if let Some(member) = member {
            rewrite(core, member, copy.start_sector, data.clone()).await;
        }
    }
}

/// Reads all copies of a range, and makes those that differ from the first like it, where that is asked for.
async fn compare_window(core: &Core, sweep: &Sweep, range: Range<u64>) -> Result<Found, String> {
    let _guard = core.lock(range.clone(), Mode::Exclusive).await;
    let mut batch = Batch::new();
    let mut places: Vec<(u64, u64, SmallVec<[(Copy, MemberId); 4]>)> = Vec::new();
    for (start, sectors, copies) in runs(core, range) {
        let there = readable(core, &copies, sectors);
        for (copy, member) in &there {
            batch.push(core.read_io(*member, copy.start_sector, sectors));
        }
        places.push((start, sectors, there));
    }
    let mut outcomes = core.io(batch).await.into_iter();
    let mut found = Found::default();
    let mut writes = Batch::new();
    let mut targets: SmallVec<[MemberId; 8]> = SmallVec::new();
    for (start, sectors, there) in places {
        let mut read: SmallVec<[(Copy, MemberId, Buffer); 4]> = SmallVec::new();
        let mut unreadable: SmallVec<[usize; 4]> = SmallVec::new();
        for ((copy, member), (result, operation)) in there.iter().zip(outcomes.by_ref()) {
            let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
            let buffer = into.into_iter().next().expect("one buffer was given");
            match result {
                Ok(()) => read.push((*copy, *member, buffer)),
                Err(_) => {
                    core.give_buffer(buffer);
                    unreadable.push(copy.slot);
                }
            }
        }
        if read.is_empty() {
            if there.is_empty() {
                continue;
            }
            // Nobody can read it here any more; a smaller request of a client may, so this is told and passed.
            core.event(Event::Unreadable { sync_sector: start, sectors });
            continue;
        }
        let (_, _, good) = read.remove(0);
        let copies: SmallVec<[Copy; 4]> = there.iter().map(|(copy, _)| *copy).collect();
        mend(core, &copies, &unreadable, &good).await;
        let mut differing = 0;
        let mut shared: Option<Data> = None;
        for (copy, member, buffer) in read {
            let pages = good.chunks(4096).zip(buffer.chunks(4096));
            let sectors_apart: u64 = pages.filter(|(a, b)| a != b).map(|(page, _)| (page.len() / 512) as u64).sum();
            core.give_buffer(buffer);
            if sectors_apart == 0 {
                continue;
            }
            differing = differing.max(sectors_apart);
            if sweep.kind != (SweepKind::Scrub { repair: false }) {
                let data = shared.get_or_insert_with(|| Buffer::copy_of(&good).freeze()).clone();
                debug_assert_eq!(data.len(), bytes(sectors));
                writes.push(write_io(member, copy.start_sector, data, false));
                targets.push(member);
            }
        }
        core.give_buffer(good);
        if differing > 0 {
            found.mismatch_sectors += differing;
            if matches!(sweep.kind, SweepKind::Scrub { .. }) {
                core.event(Event::Mismatch { sync_sector: start, sectors: differing, slot: None });
            }
        }
    }
    let outcomes = core.io(writes).await;
    settle_writes(core, &targets, outcomes.iter().map(|(result, _)| result)).map_err(|error| error.to_string())?;
    core.record_barrier().await;
    Ok(found)
}
