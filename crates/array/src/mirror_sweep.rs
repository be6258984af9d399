//! A window of a mirrored level: rows of the rebuilding member for a rebuild, array sectors otherwise.

use crate::address::{Sectors, SweepSector, array_of_sync, rows_of_sweep, sync_of_array, sync_of_sweep};
use crate::core::{BadCause, Core, write_for_sweep};
use crate::lock::Mode;
use crate::member::RebuildTarget;
use crate::member_requests::{Batch, write_io};
use crate::mirror_io::{alike_runs, copies_to_read, correct, halves, is_there, may_be_inconsistent, read_corrected, readable};
use crate::parity_io::PAGE_SECTORS;
use crate::status::{Event, SweepFault, SweepKind};
use crate::window::{Found, Work, check_health};
use crate::{ArraySector, Copy, MemberId, MemberSector, MemberState, SyncSector};
use smallvec::SmallVec;
use std::ops::Range;
use stria_block::{Buffer, Operation, bytes, ranges};

/// The range of the sync space around the array sectors whose copies lie in `rows` of a slot.
pub(crate) fn sync_range(core: &Core, slot: usize, rows: &Range<MemberSector>) -> Option<Range<SyncSector>> {
    array_range(core, slot, rows).map(|range| sync_of_array(&range))
}

/// The range around the array sectors whose copies lie in `rows` of a slot.
fn array_range(core: &Core, slot: usize, rows: &Range<MemberSector>) -> Option<Range<ArraySector>> {
    let mut around: Option<Range<ArraySector>> = None;
    for (_, range) in member_runs(core, slot, rows) {
        around = Some(match around {
            Some(known) => ranges::around(&known, &range),
            None => range,
        });
    }
    around
}

/// Rows of a slot and the array sectors that they are copies of, as far as this lane owns them.
pub(crate) fn member_runs(core: &Core, slot: usize, rows: &Range<MemberSector>) -> Vec<(MemberSector, Range<ArraySector>)> {
    let mut found = Vec::new();
    let mut row = rows.start;
    while row < rows.end {
        let (array_sector, sectors) = core.geometry.array_sector_of(slot, row, rows.end - row);
        if let Some(start) = array_sector {
            let parts = core.partition.parts(sync_of_array(&start.run(sectors))).map(|part| array_of_sync(&part));
            found.extend(parts.map(|part| (row + (part.start - start), part)));
        }
        row += sectors;
    }
    found
}

pub(crate) async fn window(core: &Core, work: &Work<'_>, window: Range<SweepSector>) -> Result<Found, SweepFault> {
    match work.kind {
        SweepKind::Rebuild => {
            let rows = rows_of_sweep(&window);
            for target in work.targets {
                if copy_window(core, target, &rows, false).await.is_ok() {
                    continue;
                }
                // Page by page: what is lost becomes a bad block, the rest is filled.
                for page in rows.in_steps(PAGE_SECTORS) {
                    if core.members.borrow().get(target.member).state != MemberState::Failed {
                        copy_window(core, target, &page, true).await?;
                    }
                }
            }
            core.wait_for_ack_barrier().await;
            let members = core.members.borrow();
            match work.targets.iter().find(|target| members.get(target.member).state == MemberState::Failed) {
                Some(target) => Err(SweepFault::TargetFailed { drive: members.get(target.member).config.name.clone() }),
                None => Ok(Found::default()),
            }
        }
        SweepKind::Resync | SweepKind::Scrub { .. } => compare_all(core, work.kind, array_of_sync(&sync_of_sweep(&window))).await,
    }
}

/// Compares copies of array sectors, in smaller parts where that is needed.
pub(crate) async fn compare_all(core: &Core, kind: SweepKind, range: Range<ArraySector>) -> Result<Found, SweepFault> {
    let mut all = Found::default();
    let mut parts = vec![range];
    while let Some(part) = parts.pop() {
        match compare(core, kind, part.clone()).await? {
            Some(found) => all.sectors += found.sectors,
            None => parts
                .extend(halves(part, core.members.borrow().block_sectors_of_all()).into_iter().filter(|part| !part.is_empty())),
        }
    }
    Ok(all)
}

/// Copies rows of one member from copies that can be read. Repeats that if a source is dropped meanwhile where copies may
/// differ (R14). `loses`: rows without such a copy become bad blocks.
async fn copy_window(core: &Core, target: &RebuildTarget, rows: &Range<MemberSector>, loses: bool) -> Result<(), SweepFault> {
    let &RebuildTarget { slot, member, .. } = target;
    let Some(range) = array_range(core, slot, rows) else { return Ok(()) };
    loop {
        let _guard = core.lock(sync_of_array(&range), Mode::Exclusive).await;
        match try_fill(core, slot, member, rows, &range).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(reason) if !loses => return Err(reason),
            Err(_) if core.members.borrow().get(member).state == MemberState::Failed => return Ok(()),
            Err(reason) => {
                check_health(core)?;
                // R89: under the lock, as what a client writes after it is good.
                return match core.mark_bad(member, rows.clone(), BadCause::Lost).await {
                    true => Ok(()),
                    false => Err(SweepFault::BadBlocksFull { reason: Box::new(reason) }),
                };
            }
        }
    }
}

/// Copies them once. Returns `false` if a source was dropped where copies may differ. Needs the lock on `around`.
async fn try_fill(
    core: &Core,
    slot: usize,
    member: MemberId,
    rows: &Range<MemberSector>,
    around: &Range<ArraySector>,
) -> Result<bool, SweepFault> {
    let mut sources: SmallVec<[(Copy, MemberId); 8]> = SmallVec::new();
    let mut batch = Batch::new();
    let mut places: SmallVec<[(MemberSector, Range<ArraySector>, MemberId, SmallVec<[Copy; 4]>); 8]> = SmallVec::new();
    // R14: where copies may differ, all are made like the one that is copied. That one may be dropped before a resync, and
    // clients would then read others that hold something else.
    let mut others: SmallVec<[SmallVec<[(MemberId, MemberSector); 2]>; 8]> = SmallVec::new();
    let differ = may_be_inconsistent(core, around);
    for (row, range) in member_runs(core, slot, rows) {
        let mut next = range.start;
        while next < range.end {
            let (copies, sectors) = copies_to_read(core, next, range.end - next);
            let row = row + (next - range.start);
            // A replaced member is its own best source. Where copies differ the first is, which clients read (R14).
            let readable = readable(core, &copies, sectors);
            let Some(&(copy, source)) = readable.iter().min_by_key(|(copy, _)| !differ && copy.slot != slot) else {
                return Err(SweepFault::NoCopy { start_sector: next.get() });
            };
            let rest = readable.iter().filter(|(_, member)| differ && *member != source);
            others.push(rest.map(|(copy, member)| (*member, copy.start_sector)).collect());
            batch.push(core.read_io(source, copy.start_sector, sectors));
            let mut copies = copies;
            copies.sort_by_key(|other| other.slot != copy.slot);
            sources.push((copy, source));
            places.push((row, next.run(sectors), source, copies));
            next += sectors;
        }
    }
    let outcomes = core.io(batch).await;
    let mut writes = Batch::new();
    let mut claims = Vec::new();
    for (((row, range, source, copies), others), (result, operation)) in places.into_iter().zip(others).zip(outcomes) {
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let mut buffer = into.into_iter().next().expect("one buffer was given");
        if result.is_err() || !is_there(core, &copies[0], source) {
            core.buffers.give(buffer);
            let other = read_corrected(core, range, &copies, copies[0].slot).await;
            buffer = other.ok_or(SweepFault::NoCopyOfRow { row: row.get(), slot })?;
        }
        claims.push(buffer.claim());
        let data = buffer.freeze();
        writes.extend(others.into_iter().map(|(other, row)| write_io(other, row, data.clone(), false)));
        writes.push(write_io(member, row, data, false));
    }
    let rewritten = write_for_sweep(core, writes).await;
    claims.into_iter().for_each(|claim| core.buffers.give_claim(claim));
    rewritten?;
    Ok(!may_be_inconsistent(core, around) || sources.iter().all(|(copy, source)| is_there(core, copy, *source)))
}

/// Reads all copies of a range and, where that is asked for, makes wrong ones like the others, page by page. What most of three
/// or more copies hold is right; if they do not decide, the first copy is.
///
/// Returns `None` if the range must be looked at again, in smaller parts where there are any: copies may differ and not all of
/// one can be read; or several could not be read, perhaps at different sectors; or every copy that was read was dropped or
/// replaced meanwhile.
async fn compare(core: &Core, kind: SweepKind, range: Range<ArraySector>) -> Result<Option<Found>, SweepFault> {
    let _guard = core.lock(sync_of_array(&range), Mode::Exclusive).await;
    let mut batch = Batch::new();
    let mut places: Vec<(ArraySector, u64, SmallVec<[(Copy, MemberId); 4]>)> = Vec::new();
    let divisible = range.sectors() > core.members.borrow().block_sectors_of_all();
    let failures_max = if may_be_inconsistent(core, &range) { 0 } else { 1 };
    for (start, sectors, copies) in alike_runs(core, range) {
        let there = readable(core, &copies, sectors);
        for (copy, member) in &there {
            batch.push(core.read_io(*member, copy.start_sector, sectors));
        }
        places.push((start, sectors, there));
    }
    let outcomes = core.io(batch).await;
    if divisible && outcomes.iter().filter(|(result, _)| result.is_err()).count() > failures_max {
        core.recycle(outcomes);
        return Ok(None);
    }
    let mut results = outcomes.iter().map(|(result, _)| result.is_ok());
    let has_lost_all_sources = |(_, _, there): &(ArraySector, u64, SmallVec<[(Copy, MemberId); 4]>)| {
        let stay = |(copy, member): &(Copy, MemberId)| is_there(core, copy, *member);
        let readable_count = there.iter().zip(results.by_ref()).filter(|(asked, ok)| *ok && stay(asked)).count();
        readable_count == 0 && !there.iter().all(stay)
    };
    if places.iter().any(has_lost_all_sources) {
        core.recycle(outcomes);
        return Ok(None);
    }
    let mut outcomes = outcomes.into_iter();
    let mut found = Found::default();
    let mut writes = Batch::new();
    for (start, sectors, there) in places {
        let mut read: SmallVec<[(Copy, Buffer); 4]> = SmallVec::new();
        let mut unreadable: SmallVec<[usize; 4]> = SmallVec::new();
        for ((copy, member), (result, operation)) in there.iter().zip(outcomes.by_ref()) {
            let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
            let buffer = into.into_iter().next().expect("one buffer was given");
            match result {
                Ok(()) if is_there(core, copy, *member) => read.push((*copy, buffer)),
                Ok(()) => core.buffers.give(buffer),
                Err(_) => {
                    core.buffers.give(buffer);
                    unreadable.push(copy.slot);
                }
            }
        }
        if read.is_empty() || read.len() + unreadable.len() == 1 {
            found.pass_over(kind, sectors);
        }
        if read.is_empty() {
            if unreadable.is_empty() {
                continue;
            }
            check_health(core)?;
            // No member can read it any more. A smaller request of a client may, so this is reported and passed over.
            core.event(Event::Unreadable { sync_sector: sync_of_array(&start.run(sectors)).start, sectors });
            continue;
        }
        let wrong = vote(core, kind, &mut read, start, &mut found);
        let (_, good) = read.swap_remove(0);
        read.into_iter().for_each(|(_, buffer)| core.buffers.give(buffer));
        let copies: SmallVec<[Copy; 4]> = there.iter().map(|(copy, _)| *copy).collect();
        correct(core, &copies, &unreadable, &good).await;
        if wrong.is_empty() || kind == (SweepKind::Scrub { repair: false }) {
            core.buffers.give(good);
            continue;
        }
        let good = good.freeze();
        for (copy, part) in wrong {
            let data = good.slice(part.start, part.len());
            for member in core.members.borrow().targets(copy.slot) {
                writes.push(write_io(member, copy.start_sector + (part.start / 512) as u64, data.clone(), false));
            }
        }
    }
    write_for_sweep(core, writes).await?;
    found.report(core, kind);
    core.wait_for_ack_barrier().await;
    Ok(Some(found))
}

/// Compares copies of array sectors from `start` on. What more than half of three or more copies hold is right. If they do not
/// decide, or a resync is due and every copy may be an honest version, the first copy is. A resync leaves other mismatches to
/// the scrub.
///
/// Returns the parts of copies that are wrong. The first buffer then holds what is right.
fn vote(
    core: &Core,
    kind: SweepKind,
    read: &mut [(Copy, Buffer)],
    start: ArraySector,
    found: &mut Found,
) -> SmallVec<[(Copy, Range<usize>); 4]> {
    let mut wrong: SmallVec<[(Copy, Range<usize>); 4]> = SmallVec::new();
    let ((_, first), others) = read.split_first_mut().expect("somebody could read");
    if others.iter().all(|(_, buffer)| buffer[..] == first[..]) {
        return wrong;
    }
    let count = read.len();
    for page in (0..read[0].1.len()).step_by(bytes(PAGE_SECTORS)) {
        let page = page..(page + bytes(PAGE_SECTORS)).min(read[0].1.len());
        let held = |index: usize| &read[index].1[page.clone()];
        let sectors = sync_of_array(&(start + (page.start / 512) as u64..start + (page.end / 512) as u64));
        let may_blame = core.consistency.covers(&sectors);
        if (1..count).all(|index| held(index) == held(0)) || (kind == SweepKind::Resync && may_blame) {
            continue;
        }
        let same = |index: usize| (0..count).filter(|&other| held(other) == held(index)).count();
        let most = (0..count).find(|&index| may_blame && count > 2 && same(index) * 2 > count);
        let right = most.unwrap_or(0);
        found.sectors.mismatch_sectors += sectors.sectors();
        if most.is_none() {
            found.blame(sectors.clone(), None);
        }
        for index in (0..count).filter(|&index| held(index) != held(right)) {
            let copy = read[index].0;
            if most.is_some() {
                found.blame(sectors.clone(), Some(copy.slot));
            }
            match wrong.iter_mut().rev().find(|(known, _)| *known == copy) {
                Some((_, part)) if part.end == page.start => part.end = page.end,
                _ => wrong.push((copy, page.clone())),
            }
        }
        if right > 0 {
            let (front, back) = read.split_at_mut(right);
            front[0].1[page.clone()].copy_from_slice(&back[0].1[page]);
        }
    }
    wrong
}
