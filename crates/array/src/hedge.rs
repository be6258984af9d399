//! Hedged reads: a read that a member leaves unanswered for far longer than usual is asked of another copy, or of parity, as
//! well. The first answer goes to the client. Memory that arrives too late is returned to the pool.
//!
//! The latencies of a member's reads for clients show what is usual for it ([`stria_block::Histogram`]). A **budget** keeps a
//! member that is slow as a whole from doubling the work of the others: one read in twenty, some saved up, 64 at once.
//!
//! A member that has not answered after four times as long is **unresponsive** (`is_unresponsive`). Until it has answered all of
//! these reads, other members are asked first, and this one only where they lack the data. A member that was asked in its place
//! may fall silent as well; then those reads go to members that still answer. If more members are missing or unresponsive than
//! parity replaces, none counts as unresponsive: more reads would only add to what holds all of them up. See docs/MEMBERS.md.

use crate::core::{Core, FailedPart};
use crate::member::{Slot, Slow};
use crate::member_requests::{MemberIo, Waiting};
use crate::of_level::of_level;
use crate::personality::{Personality, Place};
use crate::{Family, MemberId, MemberSector};
use smallvec::SmallVec;
use std::rc::Rc;
use stria_block::{Buffer, Histogram, Nanos, Operation};

/// A member is unresponsive when it has left a read unanswered for this many times what counts as slow.
const SILENT_FACTOR: Nanos = 4;
/// One second: what counts as slow for a member that has not yet shown what is usual for it.
const SLOW_UNKNOWN: Nanos = 1_000_000_000;
/// The time between two looks at reads under way: half of the time that counts as slow, within these bounds.
const LOOK: std::ops::RangeInclusive<Nanos> = 500_000..=100_000_000;

impl Core {
    /// The time at which reads under way must be looked at.
    pub fn hedge_wake(&self) -> Option<Nanos> {
        (self.hedging.is_on() && self.requests_in_flight() > 0).then(|| self.hedging.due())
    }

    /// The others have answered, or cannot.
    fn others_answered(&self, race: usize, read: Option<SmallVec<[(u64, Buffer); 2]>>) {
        let wins = self.hedging.others_answered(race, read.is_some());
        let Some(read) = read else { return };
        let Some((parent, member)) = wins else {
            return read.into_iter().for_each(|(_, buffer)| self.buffers.give(buffer));
        };
        self.members.borrow_mut().get_mut(member).hedged_count += 1;
        self.part_read(parent, read.into_iter().map(|(offset, buffer)| (offset, std::iter::once(buffer).collect())));
    }
}

/// Looks at the reads under way, if it is time.
pub(crate) fn look(core: &Rc<Core>) {
    let now = core.now();
    if core.hedge_wake().is_none_or(|due| due > now) {
        return;
    }
    let (slow, read_count): (SmallVec<[Option<Nanos>; 32]>, u64) = {
        let members = core.members.borrow();
        let slow_above = |times: &Histogram| times.slow_above().unwrap_or(SLOW_UNKNOWN);
        let slow = members.iter().map(|member| member.read_times.as_deref().map(slow_above));
        (slow.collect(), members.iter().map(|member| member.read_count).sum())
    };
    let least = slow.iter().copied().flatten().min();
    let pause = least.map_or(*LOOK.end(), |least| (least / 2).clamp(*LOOK.start(), *LOOK.end()));
    core.hedging.look_again_at(now.saturating_add(pause));
    // The overlay is not on the members yet.
    if least.is_none() || core.log.stage() < crate::log::StartStage::Replayed {
        return;
    }
    let hedging = &core.hedging;
    hedging.earn(read_count);
    let late = core.reads_older_than(&slow);
    let is_silent = |member: MemberId, age: Nanos| slow[member.0].is_some_and(|slow| age > slow.saturating_mul(SILENT_FACTOR));
    if !note_silent(core, &late, is_silent) {
        return;
    }
    for (key, member, age) in late {
        // An unresponsive member gets no further reads, so this needs no budget.
        let is_unresponsive = is_silent(member, age);
        if !hedging.spend(is_unresponsive) {
            continue;
        }
        let (parent, pieces, member, start_sector) = core.take_part(key);
        let places = places(core, parent, &pieces, start_sector);
        let race = hedging.begin(parent, pieces, member, start_sector, now);
        core.member_requests.wait_by(key, Waiting::Race { race });
        core.ready.spawn(ask_others(Rc::clone(core), race, member, places));
    }
    while let Some((race, parent, pieces, member, start_sector)) = hedging.take_overtaken() {
        core.ready.spawn(ask_others(Rc::clone(core), race, member, places(core, parent, &pieces, start_sector)));
    }
}

/// Where the pieces of a part of a client's read lie, each with its offset in the request.
fn places(core: &Core, parent: usize, pieces: &[(u64, u64)], start_sector: MemberSector) -> SmallVec<[(u64, Place); 2]> {
    let array_start = core.requests.start_sector(parent);
    let mut row = start_sector;
    let place = |&(offset, sectors): &(u64, u64)| {
        let start = row;
        row += sectors;
        (offset, (array_start + offset, start, sectors))
    };
    pieces.iter().map(place).collect()
}

/// Marks unresponsive members. Returns `false` if there are so many that no others can answer for them: then a bus or disk
/// behind all of them is at fault, and must not get the others' work in addition.
fn note_silent(core: &Core, late: &[(usize, MemberId, Nanos)], is_silent: impl Fn(MemberId, Nanos) -> bool) -> bool {
    let mut members = core.members.borrow_mut();
    let mut falls_silent = false;
    let mut note = |member: MemberId, age: Nanos| {
        if is_silent(member, age) {
            falls_silent |= !std::mem::replace(&mut members.get_mut(member).is_unresponsive, true);
        }
    };
    late.iter().for_each(|&(_, member, age)| note(member, age));
    core.hedging.each_waiting(core.now(), &mut note);
    core.member_requests.each_unanswered(core.now(), note);
    let mute = |slot: &&Slot| slot.member.is_none_or(|member| members.get(member).is_unresponsive);
    let level = core.geometry.level();
    let helps = match level.family() {
        Family::Parity => members.slots().iter().filter(mute).count() <= level.parity_count(),
        // A mirror asks one other copy, and an unresponsive one has nothing but what it already got.
        Family::Mirror | Family::Striped => true,
    };
    if !helps {
        (0..members.count()).for_each(|member| members.get_mut(MemberId(member)).is_unresponsive = false);
    } else if falls_silent {
        core.hedging.note_silence();
        core.member_requests.wake_watchers(&core.ready, &members.unresponsive());
    }
    helps
}

/// The member, and those that are unresponsive: others are asked first.
fn slow_ones(core: &Core, member: MemberId) -> Slow {
    std::iter::once(member).chain(core.members.borrow().unresponsive()).collect()
}

async fn ask_others(core: Rc<Core>, race: usize, member: MemberId, places: SmallVec<[(u64, Place); 2]>) {
    let mut read: SmallVec<[(u64, Buffer); 2]> = SmallVec::new();
    for (offset, place) in places {
        let Some(found) = read_from_others(&core, &slow_ones(&core, member), place).await else {
            read.into_iter().for_each(|(_, buffer)| core.buffers.give(buffer));
            return core.others_answered(race, None);
        };
        read.extend(found.into_iter().map(|(within, buffer)| (offset + within, buffer)));
    }
    core.others_answered(race, Some(read));
}

/// Reads a range from members other than the first of `slow`, and if possible from none of `slow`. The data comes in pieces, each
/// with its offset. `None`: the other members lack it.
async fn read_from_others(
    core: &Core,
    slow: &[MemberId],
    (array_sector, row, sectors): Place,
) -> Option<SmallVec<[(u64, Buffer); 1]>> {
    if core.partition.is_foreign(array_sector) {
        let read = core.ask_owner(array_sector, sectors, slow.into()).await?;
        return Some(std::iter::once((0, read)).collect());
    }
    of_level!(core, P => P::read_from_others(core, slow, (array_sector, row, sectors)).await)
}

/// Another lane's read, for which the first of `slow` is not asked.
pub(crate) async fn answer_around(core: Rc<Core>, part: FailedPart, mut slow: Slow) {
    slow.extend(core.members.borrow().unresponsive());
    let found = read_from_others(&core, &slow, (part.array_sector, part.start_sector, part.sectors)).await;
    let whole = found.and_then(|mut found| if found.len() == 1 { found.pop() } else { None });
    part.deliver(&core, whole.map(|(_, buffer)| buffer));
}

/// A part of a client's read whose member is unresponsive: the others are asked first, and this one if they lack the data.
pub(crate) async fn ask_others_first(core: Rc<Core>, part: FailedPart, member: MemberId) {
    let slow = slow_ones(&core, member);
    let found = read_from_others(&core, &slow, (part.array_sector, part.start_sector, part.sectors)).await;
    if let Some((_, buffer)) = found.and_then(|found| found.into_iter().next()) {
        core.members.borrow_mut().get_mut(member).hedged_count += 1;
        return part.deliver(&core, Some(buffer));
    }
    let FailedPart { parent, offset_sectors, start_sector, sectors, into, .. } = part;
    let pieces = std::iter::once((offset_sectors, sectors)).collect();
    core.send_part(parent, pieces, MemberIo { member, start_sector, sectors, operation: Operation::Read { into } });
}
