//! Reads and corrections on RAID 1 and 10. [`mirror_write`](crate::mirror_write) writes.
//!
//! A read takes no lock: whatever copy it finds is one that a running write may leave. Where copies may differ after a crash, a
//! read [resyncs](crate::resync_on_read) them first (R36).

use crate::address::{Sectors, sync_of_array};
use crate::core::{Core, FailedPart, rewrite};
use crate::lock::Mode;
use crate::plan::Presence;
use crate::{ArraySector, Copy, MemberId};
use smallvec::SmallVec;
use std::ops::{Add, Range, Sub};
use std::rc::Rc;
use stria_block::{Buffer, Operation, bytes};

pub(crate) type Copies = SmallVec<[Copy; 4]>;

/// Runs of array sectors for which each copy lies in one piece.
pub(crate) fn runs(core: &Core, range: Range<ArraySector>) -> impl Iterator<Item = (ArraySector, u64, Copies)> + '_ {
    runs_by(range, |start, sectors| core.geometry.copies_of(start, sectors))
}

/// Runs of array sectors for reads, see [`copies_to_read`].
pub(crate) fn read_runs(core: &Core, range: Range<ArraySector>) -> impl Iterator<Item = (ArraySector, u64, Copies)> + '_ {
    runs_by(range, |start, sectors| copies_to_read(core, start, sectors))
}

/// Runs of array sectors for which the same copies are readable. Each is looked at when its turn comes.
pub(crate) fn alike_runs(core: &Core, range: Range<ArraySector>) -> impl Iterator<Item = (ArraySector, u64, Copies)> + '_ {
    runs_by(range, |start, sectors| {
        let (copies, run) = core.geometry.copies_of(start, sectors);
        let alike = alike_sectors(core, &copies, run);
        (copies, alike)
    })
}

fn runs_by(
    range: Range<ArraySector>,
    copies_of: impl Fn(ArraySector, u64) -> (Copies, u64),
) -> impl Iterator<Item = (ArraySector, u64, Copies)> {
    let mut next = range.start;
    std::iter::from_fn(move || {
        if next >= range.end {
            return None;
        }
        let (copies, sectors) = copies_of(next, range.end - next);
        let start = next;
        next += sectors;
        Some((start, sectors, copies))
    })
}

/// The copies of a range, and how far they go for reads. Where copies may differ, they go no further than the same copies are
/// readable: otherwise a client or sweep that reads a part of the range would take another copy for the first than one that
/// reads all of it (R14).
pub(crate) fn copies_to_read(core: &Core, start: ArraySector, sectors: u64) -> (Copies, u64) {
    let (copies, run) = core.geometry.copies_of(start, sectors);
    let alike = if may_be_inconsistent(core, &start.run(run)) { alike_sectors(core, &copies, run) } else { run };
    (copies, alike)
}

/// The number of sectors, from the first, for which the same copies are readable.
pub(crate) fn alike_sectors(core: &Core, copies: &[Copy], sectors: u64) -> u64 {
    let members = core.members.borrow();
    let alike = |copy: &Copy| members.alike_sectors(copy.slot, &copy.start_sector.run(sectors));
    copies.iter().map(alike).min().unwrap_or(sectors)
}

/// The copy to read (see [`choose`]), if one has all of a range in one piece.
pub(crate) fn choose_for_all(core: &Core, start: ArraySector, sectors: u64) -> Option<(Copy, MemberId)> {
    let (copies, run) = core.geometry.copies_of(start, sectors);
    if run < sectors {
        return None;
    }
    if may_be_inconsistent(core, &start.run(sectors)) {
        return None;
    }
    choose_alike(core, &copies, sectors)
}

/// The copies that can be read, with their members.
pub(crate) fn readable(core: &Core, copies: &[Copy], sectors: u64) -> SmallVec<[(Copy, MemberId); 4]> {
    let members = core.members.borrow();
    let there = |copy: &&Copy| members.presence(copy.slot, &copy.start_sector.run(sectors)) == Presence::Readable;
    copies
        .iter()
        .filter(there)
        .map(|copy| (*copy, members.slots()[copy.slot].member.expect("a readable slot has a member")))
        .collect()
}

/// True if a copy that was read still counts. Where copies may differ, the next copy counts as soon as the member is dropped
/// (R14).
pub(crate) fn is_there(core: &Core, copy: &Copy, member: MemberId) -> bool {
    core.members.borrow().slots()[copy.slot].member == Some(member)
}

/// True if a resync of these copies is still due.
pub(crate) fn may_be_inconsistent(core: &Core, range: &Range<ArraySector>) -> bool {
    !core.consistency.covers(&sync_of_array(range))
}

/// The copy to read: that of the responsive member with the fewest requests, on hard disks of equals the one with the nearest
/// head. Where copies may differ, as on a read-only array after a crash, it is the first, which a resync would copy (R14).
pub(crate) fn choose(core: &Core, start: ArraySector, copies: &[Copy], sectors: u64) -> Option<(Copy, MemberId)> {
    if may_be_inconsistent(core, &start.run(sectors)) {
        return readable(core, copies, sectors).into_iter().next();
    }
    choose_alike(core, copies, sectors)
}

#[inline]
fn choose_alike(core: &Core, copies: &[Copy], sectors: u64) -> Option<(Copy, MemberId)> {
    let members = core.members.borrow();
    // Equal queues are taken by address, so that idle drives share random reads.
    let first = ((copies[0].start_sector.get() / 128) as u32 % copies.len() as u32) as usize;
    let (before, from_first) = copies.split_at(first);
    let mut best: Option<((bool, usize, u64), Copy, MemberId)> = None;
    for copy in from_first.iter().chain(before) {
        if members.presence(copy.slot, &copy.start_sector.run(sectors)) != Presence::Readable {
            continue;
        }
        let id = members.slots()[copy.slot].member.expect("a readable slot has a member");
        let member = members.get(id);
        let distance = if member.limits.rotational { member.head_sector.get().abs_diff(copy.start_sector.get()) } else { 0 };
        let load = (member.is_unresponsive, member.in_flight, distance);
        if best.is_none_or(|(least, ..)| load < least) {
            best = Some((load, *copy, id));
        }
    }
    best.map(|(_, copy, id)| (copy, id))
}

/// Reads `sectors` from any copy except those of `unreadable` slots. Slots that fail are added to these.
pub(crate) async fn read_any(
    core: &Core,
    copies: &[Copy],
    sectors: u64,
    unreadable: &mut SmallVec<[usize; 4]>,
) -> Option<Buffer> {
    read_any_of(core, copies, sectors, unreadable, |_| true).await
}

/// As [`read_any`], from members for which `may_read` is true.
pub(crate) async fn read_any_of(
    core: &Core,
    copies: &[Copy],
    sectors: u64,
    unreadable: &mut SmallVec<[usize; 4]>,
    may_read: impl Fn(MemberId) -> bool,
) -> Option<Buffer> {
    loop {
        let mut there = readable(core, copies, sectors).into_iter();
        let (copy, member) = there.find(|&(copy, member)| !unreadable.contains(&copy.slot) && may_read(member))?;
        let outcomes = core.io(std::iter::once(core.read_io(member, copy.start_sector, sectors)).collect()).await;
        let (result, operation) = outcomes.into_iter().next().expect("one request, one end");
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let buffer = into.into_iter().next().expect("one buffer was given");
        let there = is_there(core, &copy, member);
        if result.is_ok() && there {
            return Some(buffer);
        }
        core.buffers.give(buffer);
        if there {
            unreadable.push(copy.slot);
        }
    }
}

/// Reads a range from copies other than that of the first of `slow`, and if possible from none of `slow`: one buffer for each run
/// of array sectors, with its offset. `None`: there is no other copy; or copies may differ, and only the first counts (R14).
pub(crate) async fn read_without(
    core: &Core,
    slow: &[MemberId],
    range: Range<ArraySector>,
) -> Option<SmallVec<[(u64, Buffer); 1]>> {
    let mut read = SmallVec::new();
    for (start, sectors, copies) in read_runs(core, range.clone()) {
        let mut unreadable = core.members.borrow().slots_of(slow);
        if readable(core, &copies, sectors).iter().all(|(copy, _)| unreadable.contains(&copy.slot)) {
            unreadable = core.members.borrow().slots_of(&slow[..1]);
        }
        let found = match may_be_inconsistent(core, &start.run(sectors)) {
            true => None,
            false => read_any(core, &copies, sectors, &mut unreadable).await,
        };
        let Some(buffer) = found else {
            read.into_iter().for_each(|(_, buffer)| core.buffers.give(buffer));
            return None;
        };
        read.push((start - range.start, buffer));
    }
    Some(read)
}

/// Reads a range that the copy in slot `failed` could not read, from the first copies that can, and writes it back. Where
/// copies may differ, only the unreadable blocks are taken from another copy, so that what was seen of the rest stays.
pub(crate) async fn read_corrected(core: &Core, range: Range<ArraySector>, copies: &[Copy], failed: usize) -> Option<Buffer> {
    let sectors = range.sectors();
    let (least, known) = if may_be_inconsistent(core, &range) {
        (core.members.borrow().block_sectors_of_all(), None)
    } else {
        (sectors, Some(failed))
    };
    let mut whole = core.buffers.take(sectors);
    let mut parts: Vec<Range<u64>> =
        read_runs(core, range.clone()).map(|(start, sectors, _)| start - range.start..start - range.start + sectors).collect();
    while let Some(part) = parts.pop() {
        let count = part.end - part.start;
        let at = |copy: &Copy| Copy { start_sector: copy.start_sector + part.start, ..*copy };
        let copies: SmallVec<[Copy; 4]> = copies.iter().map(at).collect();
        let mut unreadable: SmallVec<[usize; 4]> = known.into_iter().collect();
        let read = read_any(core, &copies, count, &mut unreadable).await;
        if count > least && !unreadable.is_empty() {
            read.into_iter().for_each(|buffer| core.buffers.give(buffer));
            parts.extend(halves(part, least));
            continue;
        }
        // The sectors may have been written meanwhile.
        let read = match read {
            None if known.is_some() => read_any(core, &copies, count, &mut SmallVec::new()).await,
            read => read,
        };
        let Some(buffer) = read else {
            let block = core.members.borrow().block_sectors_of_all();
            if count > block {
                // Copies may have failed at different sectors: parts may work where no whole run does.
                parts.extend(halves(part, block));
                continue;
            }
            core.buffers.give(whole);
            return None;
        };
        correct(core, &copies, &unreadable, &buffer).await;
        whole[bytes(part.start)..bytes(part.end)].copy_from_slice(&buffer);
        core.buffers.give(buffer);
    }
    Some(whole)
}

/// Splits a range of more than one block in two.
pub(crate) fn halves<T: std::marker::Copy + Add<u64, Output = T> + Sub<Output = u64>>(
    range: Range<T>,
    block_sectors: u64,
) -> [Range<T>; 2] {
    let middle = range.start + ((range.end - range.start) / 2).next_multiple_of(block_sectors);
    [range.start..middle, middle..range.end]
}

/// Writes good data back to the copies that could not be read.
pub(crate) async fn correct(core: &Core, copies: &[Copy], unreadable: &[usize], good: &Buffer) {
    if unreadable.is_empty() {
        return;
    }
    let data = Buffer::copy_of(good).freeze();
    for slot in unreadable {
        let copy = copies.iter().find(|copy| copy.slot == *slot).expect("it was read from");
        let member = core.members.borrow().slots()[*slot].member;
        if let Some(member) = member {
            rewrite(core, member, copy.start_sector, data.clone()).await;
        }
    }
}

/// A member could not read a part. Another copy answers, and is written back (read correction).
pub(crate) async fn correct_part(core: Rc<Core>, part: FailedPart, slot: usize) {
    let range = part.array_sector.run(part.sectors);
    let guard = core.lock(sync_of_array(&range), Mode::Exclusive).await;
    let copies = core.geometry.copies_of(range.start, part.sectors).0;
    let read = read_corrected(&core, range, &copies, slot).await;
    drop(guard);
    core.wait_for_ack_barrier().await;
    part.deliver(&core, read);
}
