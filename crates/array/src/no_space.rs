//! Members without space: a full file system under image files, a thin volume that cannot grow (R40, R46 to R49, R64 to R69, R85
//! to R87, R96).
//!
//! A write that a member has no space for fails with [`ErrorKind::NoSpace`](stria_block::ErrorKind::NoSpace), and the member
//! keeps its slot. Nothing is wrong with what it holds, and other members often lie on the same file system: dropping one after
//! the other would end the array.
//! A write sends parity before data where a lack of space for parity would do harm, and sends no data if parity finds none
//! ([`undo_parity`]).
//!
//! Before another write to the rows, they are made consistent again:
//!
//! - On parity levels parity follows the data, whichever of the new data arrived. Parity that cannot be written either becomes
//!   a bad block, durably ([`Core::mark_bad`]), until a later write replaces it.
//! - If a data strip is missing, its content exists in parity alone. Parity changes only by what members hold instead of the new
//!   data; if P itself had no space, the strip that was written becomes what it was there. Where neither is possible, rows that a
//!   member could not take become bad blocks there. So do rows of a write-behind that could not be brought to its place;
//!   therefore no write is acknowledged early where its place may need space of a file system
//!   ([`NoSpace::expect`](crate::space::NoSpace::expect)), which a trim may have given back
//!   ([`NoSpace::unmap`](crate::space::NoSpace::unmap)).
//! - Content that exists in parity alone is written to its place before the next write to these rows, or that write fails.
//!   Otherwise parity would move on with a write whose data another member has no space for, and could recover neither.
//! - Of copies those count that took the write, or the first if none did. The others have bad blocks there. When a member's list
//!   of bad blocks is half full, what it holds counts instead, and the other copies get that back.
//! - A member that is being rebuilt may leave at any time, and a start may begin its rebuild again. So what it holds counts for
//!   nothing: these rows become bad blocks there, and are filled from what counts. No member comes in sync before that is done.
//!
//! These bad blocks are filled as soon as there is space ([`refill`](crate::refill)).
//!
//! Metadata have their space from the start: a host allocates it. If a member finds none for them all the same (a copying file
//! system, a thin volume), that still costs it its slot: all members must have them (R15).

use crate::address::{Sectors, sync_of_rows};
use crate::core::{BadCause, Core, is_no_space, mark_half_written};
use crate::member_requests::{Ended, write_io};
use crate::mirror_io::{alike_runs, is_there, read_any_of, readable};
use crate::parity_code::{Parities, Unit, computed_parity, outputs};
use crate::parity_io::{read_units, reconstruct, recover_rows};
use crate::plan::{Presence, Rectangle, Strips};
use crate::segments::one_piece;
use crate::{ArraySector, Copy, DropCause, Flaw, MemberId, MemberSector, MemberState};
use smallvec::SmallVec;
use std::ops::Range;
use stria_block::{Buffer, Data, IoError, Operation, bytes};

/// R65: makes bad blocks of these rows on members that are being rebuilt. What they hold must not count instead of what members
/// in sync hold. Returns them, with their slots.
async fn discount_rebuilding(
    core: &Core,
    rows: impl Iterator<Item = (usize, Range<MemberSector>)>,
) -> SmallVec<[(usize, MemberId); 2]> {
    let mut discounted = SmallVec::new();
    for (slot, rows) in rows {
        let rebuilding = {
            let members = core.members.borrow();
            let is_rebuilding = |member: &MemberId| members.get(*member).state == MemberState::Rebuilding;
            members.slots()[slot].member.filter(is_rebuilding).filter(|_| members.presence(slot, &rows) == Presence::Readable)
        };
        if let Some(member) = rebuilding {
            discounted.push((slot, member));
            if !core.mark_bad(member, rows, BadCause::NoSpace).await {
                core.fail_member(member, DropCause::HalfWritten);
            }
        }
    }
    discounted
}

/// True if what a slot's member holds of these rows counts. A replacement whose source is dropped while a list of bad blocks is
/// written holds the slot, and is rebuilding (R64, R65).
fn counts(core: &Core, slot: usize, rows: &Range<MemberSector>) -> bool {
    let members = core.members.borrow();
    let is_in_sync = |member: MemberId| members.get(member).state == MemberState::InSync;
    members.presence(slot, rows) == Presence::Readable && members.slots()[slot].member.is_some_and(is_in_sync)
}

/// A part of a write that a member did not take.
pub(crate) struct NotTaken {
    pub member: MemberId,
    pub rows: Range<MemberSector>,
    pub cause: BadCause,
}

/// Decides which copies of a range count: those that took a write, or the first if none did. The others become bad blocks.
/// Needs the range's lock. `failed`: what members did not take of it.
pub(crate) async fn reconcile_copies(core: &Core, range: &Range<ArraySector>, failed: &[NotTaken]) -> Result<(), IoError> {
    let _reconciling = core.no_space.reconcile(&core.ready).await;
    let mut result = Ok(());
    for (start, sectors, copies) in alike_runs(core, range.clone()) {
        // What only a member under rebuild holds is all there is.
        if counted(core, &copies, sectors).is_empty() {
            continue;
        }
        discount_rebuilding(core, copies.iter().map(|copy| (copy.slot, copy.start_sector.run(sectors)))).await;
        // R85.
        if let Some((copy, member)) = scarce(core, &copies, sectors, failed)
            && take_copies_back(core, &copies, copy, member, sectors).await
        {
            result = result.and(align_filled(core, start.run(sectors)).await);
            continue;
        }
        // R64: a list may take minutes, and the member whose copy counted may be dropped meanwhile.
        while let Some((copy, member, cause)) = outdated(core, &copies, sectors, failed) {
            if !core.mark_bad(member, copy.start_sector.run(sectors), cause).await {
                // Only dropping the member keeps it from being read.
                core.fail_member(member, DropCause::NoSpace);
            }
        }
        result = result.and(align_filled(core, start.run(sectors)).await);
    }
    result
}

/// The copies that count, with their members.
fn counted(core: &Core, copies: &[Copy], sectors: u64) -> SmallVec<[(Copy, MemberId); 4]> {
    let mut there = readable(core, copies, sectors);
    there.retain(|(copy, _)| counts(core, copy.slot, &copy.start_sector.run(sectors)));
    there
}

/// Why a copy did not take all of a write; `None`: it took it.
fn cause_of(copy: &Copy, member: MemberId, sectors: u64, failed: &[NotTaken]) -> Option<BadCause> {
    let rows = copy.start_sector.run(sectors);
    // Of a large write a member may have taken other parts.
    failed.iter().filter(|failed| failed.member == member && failed.rows.overlaps(&rows)).map(|failed| failed.cause).min()
}

/// A copy that must not count: it did not take a write, and another copy took it. If no copy took it, the first one counts, and
/// every other is outdated.
fn outdated(core: &Core, copies: &[Copy], sectors: u64, failed: &[NotTaken]) -> Option<(Copy, MemberId, BadCause)> {
    let there = counted(core, copies, sectors);
    let took_it = there.iter().any(|(copy, member)| cause_of(copy, *member, sectors, failed).is_none());
    let others = if took_it { &there[..] } else { there.get(1..)? };
    others.iter().find_map(|(copy, member)| Some((*copy, *member, cause_of(copy, *member, sectors, failed)?)))
}

/// A copy that had no space for a write, of a member whose list of bad blocks is half full (R85). The other half of the list is
/// kept for rows in which no copy can undo a write. `None` as well if a part of the write was acknowledged and then lost.
fn scarce(core: &Core, copies: &[Copy], sectors: u64, failed: &[NotTaken]) -> Option<(Copy, MemberId)> {
    let there = counted(core, copies, sectors);
    let cause = |&(copy, member): &(Copy, MemberId)| cause_of(&copy, member, sectors, failed);
    let is_scarce = |member| core.members.borrow().get(member).list_is_half_full(core.partition.lane_count);
    let is_lost = there.iter().any(|copy| cause(copy) == Some(BadCause::Lost));
    there.iter().find(|copy| !is_lost && cause(copy) == Some(BadCause::NoSpace) && is_scarce(copy.1)).copied()
}

/// Writes to all other copies what `member` holds, which had no space for a write: old or new bytes in each sector. The other
/// members have space for that, since they took the write. `false`: `member` cannot be read, and nothing was written.
async fn take_copies_back(core: &Core, copies: &[Copy], copy: Copy, member: MemberId, sectors: u64) -> bool {
    let read = core.io(std::iter::once(core.read_io(member, copy.start_sector, sectors)).collect()).await;
    let held = read.iter().find_map(|(result, operation)| match operation {
        Operation::Read { into } if result.is_ok() && is_there(core, &copy, member) => {
            into.first().map(|held| Buffer::copy_of(held))
        }
        _ => None,
    });
    core.recycle(read);
    let Some(held) = held else { return false };
    for (copy, other) in counted(core, copies, sectors) {
        if other != member && write_if_other(core, other, &copy.start_sector.run(sectors), &held).await.is_err() {
            core.fail_member(other, DropCause::NoSpace);
        }
    }
    true
}

/// R47: writes to members that are being filled what the copy that counts holds. They may have taken a write that it lacks.
async fn align_filled(core: &Core, range: Range<ArraySector>) -> Result<(), IoError> {
    let mut result = Ok(());
    for (_, sectors, copies) in alike_runs(core, range) {
        let mut filled: SmallVec<[(MemberId, MemberSector); 4]> = SmallVec::new();
        for copy in &copies {
            let members = core.members.borrow();
            let is_filled = |member: &MemberId| members.get(*member).state != MemberState::InSync;
            filled.extend(members.each_target(copy.slot).filter(is_filled).map(|target| (target, copy.start_sector)));
        }
        if !filled.is_empty() {
            let is_in_sync = |member| core.members.borrow().get(member).state == MemberState::InSync;
            let held = read_any_of(core, &copies, sectors, &mut SmallVec::new(), is_in_sync).await;
            for (target, start_sector) in filled {
                let rows = start_sector.run(sectors);
                result = result.and(match &held {
                    Some(held) => write_if_other(core, target, &rows, held).await,
                    None => mark_half_written(core, target, rows, BadCause::NoSpace).await,
                });
            }
        }
    }
    result
}

/// Makes parity of the rows of a part of a stripe match the data, under the rows' lock, after members had no space for their
/// parts of a write. `failed`: their requests; where parity cannot follow, their rows become bad blocks.
pub(crate) async fn reconcile_parity(core: &Core, stripe: u64, part: &Rectangle, failed: &[&Ended]) -> Result<(), IoError> {
    if core.has(Flaw::LackOfSpaceIgnored) {
        return Ok(());
    }
    let _reconciling = core.no_space.reconcile(&core.ready).await;
    let (map, rows) = (core.map(stripe), core.geometry.rows_of_strip(stripe, &part.rows));
    let all = || map.parity.iter().chain(&map.data).map(|&slot| (usize::from(slot), rows.clone()));
    let mut discounted = discount_rebuilding(core, all()).await;
    let result = reconcile_in_sync(core, stripe, part, failed).await;
    // R64: a replacement whose source was dropped meanwhile.
    let known: SmallVec<[usize; 2]> = discounted.iter().map(|&(slot, _)| slot).collect();
    discounted.extend(discount_rebuilding(core, all().filter(|(slot, _)| !known.contains(slot))).await);
    for (slot, member) in discounted {
        refill_by_others(core, slot, member, &rows).await;
    }
    result
}

/// What parity members hold of the parts of a stripe before a write: slot, rows, and bytes. `None`: what the member holds there
/// does not count.
pub(crate) type ParityBefore = Vec<(usize, Range<MemberSector>, Option<Buffer>)>;

/// Reads parity of parts of a stripe under the lock of their rows, so that [`undo_parity`] can write it back.
pub(crate) async fn parity_before(core: &Core, stripe: u64, parts: &[Rectangle]) -> ParityBefore {
    let map = core.map(stripe);
    let mut before = ParityBefore::new();
    for part in parts {
        let rows = core.geometry.rows_of_strip(stripe, &part.rows);
        for (index, &slot) in map.parity.iter().enumerate() {
            let slot = usize::from(slot);
            let read = match counts(core, slot, &rows) {
                true => read_units(core, map, &[(Unit::Parity(index), rows.clone())], &mut Strips::new()).await,
                false => None,
            };
            before.push((slot, rows.clone(), read.and_then(|mut read| read.pop())));
        }
    }
    before
}

/// R46, R85: a member had no space for parity that was sent before data, so no data was sent. Parity becomes what it was: there
/// is space where it was taken.
pub(crate) async fn undo_parity(core: &Core, before: ParityBefore) -> Result<(), IoError> {
    if core.has(Flaw::LackOfSpaceIgnored) {
        return Ok(());
    }
    let _reconciling = core.no_space.reconcile(&core.ready).await;
    let mut result = Ok(());
    let mut unknown = Vec::new();
    for (slot, rows, bytes) in before {
        let rebuilding = discount_rebuilding(core, std::iter::once((slot, rows.clone()))).await;
        let targets = core.members.borrow().targets(slot);
        for member in targets {
            let is_discounted = rebuilding.iter().any(|&(_, other)| other == member);
            let was_good = is_discounted || !core.members.borrow().get(member).has_bad(&rows);
            if bytes.is_none() && was_good {
                unknown.push((slot, member, rows.clone()));
            }
            result = result.and(match &bytes {
                // Without space for it, it stays a bad block.
                Some(bytes) if is_discounted => write_back(core, member, &rows, Buffer::copy_of(bytes)).await.or(Ok(())),
                Some(bytes) => write_if_other(core, member, &rows, bytes).await,
                None => mark_half_written(core, member, rows.clone(), BadCause::NoSpace).await,
            });
        }
        bytes.into_iter().for_each(|bytes| core.buffers.give(bytes));
    }
    // A rebuild may have ended meanwhile, and then nothing else would fill these rows. Their members took the write, so they have
    // space.
    for (slot, member, rows) in unknown {
        refill_by_others(core, slot, member, &rows).await;
    }
    result
}

/// Fills bad blocks of a slot from the other members. They stay bad if the others do not suffice, or if there is no space.
async fn refill_by_others(core: &Core, slot: usize, member: MemberId, rows: &Range<MemberSector>) {
    // Until a resync that is due, parity may give other bytes than they had.
    if !core.consistency.covers(&sync_of_rows(rows)) {
        return;
    }
    let right = recover_rows(core, slot, rows).await;
    let is_there = core.members.borrow().each_target(slot).any(|target| target == member);
    if let Some(right) = right.filter(|_| is_there) {
        let _ = write_back(core, member, rows, right).await;
    }
}

async fn reconcile_in_sync(core: &Core, stripe: u64, part: &Rectangle, failed: &[&Ended]) -> Result<(), IoError> {
    let (map, rows) = (core.map(stripe), &core.geometry.rows_of_strip(stripe, &part.rows));
    let wanted: SmallVec<[(Unit, Range<MemberSector>); 8]> =
        (0..map.data.len()).map(|index| (Unit::Data(index), rows.clone())).collect();
    // R64: a member may be dropped while this waits, and its replacement then holds the slot.
    let mut filled: SmallVec<[(usize, MemberId); 4]>;
    let read = loop {
        filled =
            part.strips.clone().flat_map(|index| filled_of(core, map.data[index]).map(move |member| (index, member))).collect();
        if !map.data.iter().all(|&slot| counts(core, usize::from(slot), rows)) {
            break None;
        }
        let mut unreadable = Strips::new();
        let read = read_units(core, map, &wanted, &mut unreadable).await;
        // No member failed to read: one was dropped meanwhile.
        if read.is_some() || !unreadable.is_empty() {
            break read;
        }
    };
    let Some(data) = read else {
        if reconcile_without_strip(core, stripe, part, failed).await? {
            return Ok(());
        }
        let mut result = Ok(());
        for ended in failed {
            result = result.and(mark_half_written(core, ended.member, rows.clone(), BadCause::NoSpace).await);
        }
        return result;
    };
    let parity = computed_parity(core, map, &data);
    let mut result = Ok(());
    for (index, member) in filled {
        result = result.and(write_if_other(core, member, rows, &data[index]).await);
    }
    data.into_iter().for_each(|buffer| core.buffers.give(buffer));
    for (index, right) in parity.into_iter().enumerate() {
        let targets = core.members.borrow().targets(usize::from(map.parity[index]));
        for member in targets {
            result = result.and(write_if_other(core, member, rows, &right).await);
        }
        core.buffers.give(right);
    }
    result
}

/// The member that is being filled beside the one of a slot.
fn filled_of(core: &Core, slot: u16) -> impl Iterator<Item = MemberId> + use<> {
    core.members.borrow().each_target(usize::from(slot)).skip(1)
}

/// As [`reconcile_parity`], where a data strip is missing and exists in parity alone (R46). Parity changes only by the difference
/// between the new data and what members hold. If the only parity had no space, a strip that was written alone gets its old bytes
/// back. If several strips were written, the missing one may be among them, and their old bytes cannot be told apart. `false`:
/// parity does not suffice, and nothing was written.
async fn reconcile_without_strip(core: &Core, stripe: u64, part: &Rectangle, failed: &[&Ended]) -> Result<bool, IoError> {
    let (map, rows) = (core.map(stripe), &core.geometry.rows_of_strip(stripe, &part.rows));
    // R64: members may have been dropped meanwhile.
    let is_dropped = |ended: &Ended| core.members.borrow().get(ended.member).state == MemberState::Failed;
    let failed: SmallVec<[&Ended; 4]> = failed.iter().copied().filter(|ended| !is_dropped(ended)).collect();
    let holder = |unit: Unit| {
        let slot = unit.slot(map);
        core.members.borrow().slots()[slot].member.filter(|_| counts(core, slot, rows))
    };
    let new = |unit: Unit| {
        let ended = failed.iter().find(|ended| Some(ended.member) == holder(unit))?;
        match &ended.operation {
            Operation::Write { from, .. } if ended.sectors == rows.sectors() => Some(one_piece(from.clone())),
            _ => None,
        }
    };
    let parity: Strips = (0..map.parity.len()).filter(|&index| holder(Unit::Parity(index)).is_some()).collect();
    let failed_parity: SmallVec<[Option<Data>; 2]> = parity.iter().map(|&index| new(Unit::Parity(index))).collect();
    let lost: SmallVec<[(usize, Data); 4]> =
        (0..map.data.len()).filter_map(|index| Some((index, new(Unit::Data(index))?))).collect();
    if parity.is_empty() || lost.len() + failed_parity.iter().flatten().count() != failed.len() {
        return Ok(false);
    }
    if let (1, [0], [Some(new_p)]) = (part.strips.len(), &parity[..], &failed_parity[..]) {
        // If it is missing itself, each of its sectors is old or new, as each of parity is.
        let written = Some(part.strips.start).filter(|&index| holder(Unit::Data(index)).is_some());
        let new = lost.first().map(|(_, new)| new);
        return take_back(core, stripe, rows, written.map(|index| (index, new)), new_p).await;
    }
    let filled: SmallVec<[(usize, MemberId); 2]> =
        (0..lost.len()).flat_map(|at| filled_of(core, map.data[lost[at].0]).map(move |member| (at, member))).collect();
    let units = lost.iter().map(|(index, _)| Unit::Data(*index));
    let sound = parity.iter().zip(&failed_parity).filter(|(_, failed)| failed.is_none()).map(|(&index, _)| Unit::Parity(index));
    let wanted: SmallVec<[(Unit, Range<MemberSector>); 8]> = units.chain(sound).map(|unit| (unit, rows.clone())).collect();
    let Some(read) = read_units(core, map, &wanted, &mut Strips::new()).await else { return Ok(false) };
    let mut read = read.into_iter();
    let held: SmallVec<[Buffer; 4]> = read.by_ref().take(lost.len()).collect();
    let as_written = |failed: Option<Data>| failed.map_or_else(|| read.next().expect("it was read"), |new| Buffer::copy_of(&new));
    let mut right: Parities = failed_parity.into_iter().map(as_written).collect();
    for ((index, new), held) in lost.iter().zip(&held) {
        let mut outputs = outputs(&parity, &mut right, &(0..new.len()));
        core.stripes.code().update(usize::from(map.code[*index]), new, held, &mut outputs[..map.parity.len()]);
    }
    let mut result = Ok(());
    for (at, member) in filled {
        result = result.and(write_if_other(core, member, rows, &held[at]).await);
    }
    for (&index, right) in parity.iter().zip(&right) {
        let targets = core.members.borrow().targets(usize::from(map.parity[index]));
        for member in targets {
            result = result.and(write_if_other(core, member, rows, right).await);
        }
    }
    held.into_iter().chain(right).for_each(|buffer| core.buffers.give(buffer));
    result.map(|()| true)
}

/// Keeps the content of a missing strip, which is in P alone. One strip was written. P had no space for all of its new bytes, and
/// the member of the written strip perhaps none for all of its own. Where one of the two has new bytes and the other old ones,
/// the new ones are undone: the member has space there, since it took them (R46).
///
/// `written`: the index of the written strip, and its new bytes if its member did not take all of them. `None`: the written strip
/// is the missing one.
async fn take_back(
    core: &Core,
    stripe: u64,
    rows: &Range<MemberSector>,
    written: Option<(usize, Option<&Data>)>,
    new_p: &[u8],
) -> Result<bool, IoError> {
    let map = core.map(stripe);
    if written.is_none() && filled_of(core, map.parity[0]).next().is_none() {
        return Ok(true);
    }
    let units = std::iter::once(Unit::Parity(0)).chain(written.map(|(index, _)| Unit::Data(index)));
    let wanted: SmallVec<[(Unit, Range<MemberSector>); 2]> = units.map(|unit| (unit, rows.clone())).collect();
    let Some(mut read) = read_units(core, map, &wanted, &mut Strips::new()).await else { return Ok(false) };
    let mut result = Ok(());
    if let Some((index, new)) = written {
        let held = read.pop().expect("both were read");
        let mut right = Buffer::copy_of(&held);
        let new = new.map_or(&held[..], |new| new);
        let right_p = &mut read[0];
        let block = bytes(core.members.borrow().block_sectors_of_all());
        for start in (0..held.len()).step_by(block) {
            let block = start..held.len().min(start + block);
            let (new, new_p) = (&new[block.clone()], &new_p[block.clone()]);
            let is_new = held[block.clone()] == *new;
            let (right, right_p) = (&mut right[block.clone()], &mut right_p[block]);
            // What each of the two lacks of its new bytes must be the same.
            let back = if is_new { right.iter_mut().zip(&*right_p) } else { right_p.iter_mut().zip(&*right) };
            for ((byte, other), sum) in back.zip(new.iter().zip(new_p).map(|(new, new_p)| new ^ new_p)) {
                *byte = other ^ sum;
            }
        }
        let targets = core.members.borrow().targets(usize::from(map.data[index]));
        for member in targets {
            result = result.and(write_if_other(core, member, rows, &right).await);
        }
        core.buffers.give(held);
        core.buffers.give(right);
    }
    let targets = core.members.borrow().targets(usize::from(map.parity[0]));
    for member in targets {
        result = result.and(write_if_other(core, member, rows, &read[0]).await);
    }
    read.into_iter().for_each(|buffer| core.buffers.give(buffer));
    result.map(|()| true)
}

/// Writes the right bytes to bad blocks of a member. If it fails to, they stay what they are.
///
/// # Errors
/// There is still no space for them.
pub(crate) async fn write_back(core: &Core, member: MemberId, rows: &Range<MemberSector>, right: Buffer) -> Result<(), IoError> {
    let wrote = core.io(std::iter::once(write_io(member, rows.start, right.freeze(), false)).collect()).await;
    match wrote.into_iter().find_map(|(result, _)| result.err()).filter(is_no_space) {
        Some(error) => Err(core.meet_no_space(member, &error)),
        None => Ok(()),
    }
}

/// Brings data of a stripe that is in parity alone to its place, before the next write to these rows. Otherwise parity would move
/// on with that write; if a second member then had no space for its part, neither could be recovered. What the member can read
/// beside its bad blocks stays (R34).
///
/// # Errors
/// There is still no space for it.
pub(crate) async fn write_in_place(core: &Core, stripe: u64, rows: &Range<MemberSector>) -> Result<(), IoError> {
    for (index, &slot) in core.map(stripe).data.iter().enumerate() {
        let lacks = |member: &MemberId| {
            let members = core.members.borrow();
            let member = members.get(*member);
            member.state == MemberState::InSync && member.has_bad(rows)
        };
        let holder = core.members.borrow().slots()[usize::from(slot)].member;
        let Some(member) = holder.filter(lacks) else { continue };
        let bad = core.members.borrow().get(member).bad_rows(rows);
        for rows in bad {
            if let Ok(right) = reconstruct(core, stripe, index, &rows, &mut Strips::new()).await {
                write_back(core, member, &rows, right).await?;
            }
        }
    }
    Ok(())
}

/// Runs of blocks in which a member holds other bytes than the right ones (`true`), and those between them.
fn compared(
    rows: &Range<MemberSector>,
    right: &[u8],
    held: &[u8],
    block_sectors: u64,
) -> SmallVec<[(Range<MemberSector>, bool); 4]> {
    let mut runs: SmallVec<[(Range<MemberSector>, bool); 4]> = SmallVec::new();
    for block in rows.in_steps(block_sectors) {
        let place = bytes(block.start - rows.start)..bytes(block.end - rows.start);
        let is_other = right[place.clone()] != held[place];
        match runs.last_mut() {
            Some((run, of_run)) if *of_run == is_other => run.end = block.end,
            _ => runs.push((block, is_other)),
        }
    }
    runs
}

/// Writes these bytes to a member where it does not hold them. What it cannot take of them become bad blocks.
async fn write_if_other(core: &Core, member: MemberId, rows: &Range<MemberSector>, right: &Buffer) -> Result<(), IoError> {
    let read = core.io(std::iter::once(core.read_io(member, rows.start, rows.sectors())).collect()).await;
    let held = read.iter().find_map(|(result, operation)| match operation {
        Operation::Read { into } if result.is_ok() => into.first(),
        _ => None,
    });
    let runs = match held {
        Some(held) => compared(rows, right, held, core.members.borrow().block_sectors_of_all()),
        None => std::iter::once((rows.clone(), true)).collect(),
    };
    core.recycle(read);
    let mut other: SmallVec<[Range<MemberSector>; 4]> = SmallVec::new();
    for (run, is_other) in runs {
        match is_other {
            true => other.push(run),
            // The member holds these bytes, so the rows are good as after a write. They may be bad blocks since nothing it held
            // counted (R65).
            false => core.mark_good(member, &run),
        }
    }
    let data = Buffer::copy_of(right).freeze();
    let write = |other: &Range<MemberSector>| {
        let (start, sectors) = (other.start - rows.start, other.sectors());
        write_io(member, other.start, data.slice(bytes(start), bytes(sectors)), false)
    };
    let wrote = core.io(other.iter().map(write).collect()).await;
    for (rows, (result, _)) in other.into_iter().zip(wrote) {
        match result {
            Ok(()) => {}
            Err(error) if is_no_space(&error) => {
                // The client's write may have met it long ago.
                let _ = core.meet_no_space(member, &error);
                mark_half_written(core, member, rows, BadCause::NoSpace).await?;
            }
            Err(error) => {
                if !core.fail_member(member, DropCause::Write(error)) {
                    mark_half_written(core, member, rows, BadCause::Lost).await?;
                }
            }
        }
    }
    Ok(())
}
