//! Members and slots while the array runs: which member can be read and written where, and which may be lost.

mod commands;

use crate::address::{Sectors, SyncSpace};
use crate::lists::few;
use crate::plan::Presence;
use crate::{
    ArrayConfig, ArraySector, ArrayState, BAD_BLOCK_SECTORS_MAX, DropCause, Family, Geometry, Health, Level, MemberConfig,
    MemberId, MemberProgress, MemberSector, MemberState, MemberStatus, SlotState, Synced,
};
use smallvec::SmallVec;
use std::ops::Range;
use std::slice;
use stria_block::ranges::{around, common, without};
use stria_block::{Histogram, Limits, Nanos};

pub(crate) struct Member {
    pub config: MemberConfig,
    pub state: MemberState,
    pub slot: Option<usize>,
    /// The properties of the drive.
    pub limits: Limits,
    pub in_flight: usize,
    /// Where the last request ended: the best guess at the position of the heads.
    pub head_sector: MemberSector,
    pub read_count: u64,
    pub write_count: u64,
    pub read_sectors: u64,
    pub written_sectors: u64,
    pub read_errors: u64,
    /// Latencies of clients' reads; `None`: they are not needed.
    pub read_times: Option<Box<Histogram>>,
    pub hedged_count: u64,
    /// It is unresponsive: it left a read unanswered for so long that others are asked first until it answers.
    pub is_unresponsive: bool,
    pub wrong_sectors: u64,
    pub repaired_sectors: u64,
    /// Its data is lost, and the array cannot do without it.
    pub is_gone: bool,
    /// Until then it is reported as a member without space.
    pub no_space_until: Nanos,
    /// Some of its bad blocks are rows that it had no space for.
    pub lacks_space: bool,
    pub failure: Option<DropCause>,
    /// The number of the superblock update that says it was dropped.
    pub dropped_by: u64,
}

impl Member {
    fn new(config: MemberConfig, state: MemberState, slot: Option<usize>, redundant: bool) -> Self {
        Self {
            config,
            state,
            slot,
            limits: Limits::plain(0),
            in_flight: 0,
            head_sector: MemberSector::ZERO,
            read_count: 0,
            write_count: 0,
            read_sectors: 0,
            written_sectors: 0,
            read_errors: 0,
            read_times: redundant.then(Box::default),
            hedged_count: 0,
            is_unresponsive: false,
            wrong_sectors: 0,
            repaired_sectors: 0,
            is_gone: false,
            no_space_until: 0,
            lacks_space: false,
            failure: None,
            dropped_by: 0,
        }
    }

    fn progress(&self) -> MemberProgress {
        MemberProgress { member: self.config.id, recovered: self.config.recovered, by_bitmap: self.config.by_bitmap }
    }

    /// Adds to the bad blocks.
    fn mark_bad(&mut self, rows: Range<MemberSector>) {
        add_rows(&mut self.config.bad_blocks, rows);
    }

    /// True if any of these rows is a bad block.
    pub fn has_bad(&self, rows: &Range<MemberSector>) -> bool {
        self.config.bad_blocks.iter().any(|bad| bad.overlaps(rows))
    }

    /// The bad blocks among these rows.
    pub fn bad_rows(&self, rows: &Range<MemberSector>) -> Vec<Range<MemberSector>> {
        self.config.bad_blocks.iter().map(|bad| common(bad, rows)).filter(|bad| !bad.is_empty()).collect()
    }

    /// True if the bad blocks of this lane take half of its part of the list on disk.
    pub fn list_is_half_full(&self, lane_count: usize) -> bool {
        let entries: u64 = self.config.bad_blocks.iter().map(|bad| bad.sectors().div_ceil(BAD_BLOCK_SECTORS_MAX)).sum();
        entries >= u64::from(self.config.bad_blocks_max) / 2 / lane_count as u64
    }

    /// Removes rows from the bad blocks.
    fn mark_good(&mut self, rows: &Range<MemberSector>) {
        let blocks = &mut self.config.bad_blocks;
        *blocks = without(blocks, slice::from_ref(rows));
        self.lacks_space &= !blocks.is_empty();
    }

    /// `is_needed`: see there.
    pub fn status(&self, now: Nanos, is_needed: bool) -> MemberStatus {
        MemberStatus {
            id: self.config.id,
            name: self.config.name.clone(),
            state: self.state,
            slot: self.slot,
            in_flight: self.in_flight,
            read_count: self.read_count,
            write_count: self.write_count,
            read_sectors: self.read_sectors,
            written_sectors: self.written_sectors,
            read_errors: self.read_errors,
            hedged_count: self.hedged_count,
            wrong_sectors: self.wrong_sectors,
            repaired_sectors: self.repaired_sectors,
            bad_sectors: self.config.bad_blocks.iter().map(Sectors::sectors).sum(),
            is_needed,
            has_no_space: now < self.no_space_until && self.state != MemberState::Failed,
            failure: self.failure.clone(),
        }
    }
}

/// Adds to ranges, which stay sorted and disjoint.
pub(crate) fn add_rows(ranges: &mut Vec<Range<MemberSector>>, rows: Range<MemberSector>) {
    let mut joined = rows;
    ranges.retain(|known| {
        let apart = known.end < joined.start || joined.end < known.start;
        if !apart {
            joined = around(known, &joined);
        }
        apart
    });
    let index = ranges.partition_point(|known| known.start < joined.start);
    ranges.insert(index, joined);
}

/// A member that is slow, and others that are unresponsive. The first is not asked, the others only where data is lacking.
pub(crate) type Slow = SmallVec<[MemberId; 2]>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub member: Option<MemberId>,
    pub replacement: Option<MemberId>,
}

/// One member to be rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RebuildTarget {
    pub slot: usize,
    pub member: MemberId,
    /// It is copied from the member in the slot, at least in part.
    pub copied: bool,
}

pub(crate) struct Members {
    geometry: Geometry,
    all: Vec<Member>,
    slots: Vec<Slot>,
    spares: Vec<MemberId>,
    failed: Vec<MemberId>,
    /// Every slot has an in-sync member that is there. Cached, because every write asks.
    optimal: bool,
    /// A member that has not failed has bad blocks. Cached for the same reason.
    have_bad_blocks: bool,
    /// Some list of them has changed, and is not durable yet.
    lists_are_due: bool,
    /// Lanes have together dropped more than redundancy replaces.
    have_failed: bool,
}

impl Members {
    pub fn new(config: &ArrayConfig) -> Self {
        let mut members = Self {
            geometry: config.geometry.clone(),
            all: Vec::new(),
            slots: vec![Slot::default(); config.slots.len()],
            spares: Vec::new(),
            failed: Vec::new(),
            optimal: false,
            have_bad_blocks: false,
            lists_are_due: false,
            have_failed: false,
        };
        let mut found: Vec<(&MemberConfig, MemberState, Option<usize>)> = Vec::new();
        for (index, slot) in config.slots.iter().enumerate() {
            if let Some(member) = &slot.member {
                let state = if member.recovered == Synced::All { MemberState::InSync } else { MemberState::Rebuilding };
                members.slots[index].member = Some(member.id);
                found.push((member, state, Some(index)));
            }
            if let Some(member) = &slot.replacement {
                members.slots[index].replacement = Some(member.id);
                found.push((member, MemberState::Replacing, Some(index)));
            }
        }
        for member in &config.spares {
            members.spares.push(member.id);
            found.push((member, MemberState::Spare, None));
        }
        found.sort_by_key(|(member, ..)| member.id);
        for (index, (member, state, slot)) in found.into_iter().enumerate() {
            assert_eq!(member.id, MemberId(index), "member handles count from 0 without gaps");
            members.all.push(Member::new(member.clone(), state, slot, config.geometry.level().is_redundant()));
        }
        members.look();
        members
    }

    /// Sets what members can do. Bad blocks are widened to whole blocks of every member, as what is written beside them on other
    /// members is whole blocks, too.
    pub fn set_limits(&mut self, limits: &[Limits]) {
        for (member, limits) in self.all.iter_mut().zip(limits) {
            member.limits = limits.clone();
        }
        let block_sectors = self.block_sectors_of_all();
        for member in &mut self.all {
            for rows in std::mem::take(&mut member.config.bad_blocks) {
                add_rows(&mut member.config.bad_blocks, rows.in_blocks(block_sectors));
            }
        }
    }

    fn look(&mut self) {
        let is_there = |slot: &Slot| slot.member.is_some_and(|id| !self.all[id.0].is_gone);
        self.optimal = (0..self.slots.len()).all(|slot| self.is_in_sync(slot) && is_there(&self.slots[slot]));
        let is_bad = |member: &Member| member.state != MemberState::Failed && !member.config.bad_blocks.is_empty();
        self.have_bad_blocks = self.lists_are_due || self.all.iter().any(is_bad);
    }

    pub fn get(&self, id: MemberId) -> &Member {
        &self.all[id.0]
    }

    pub fn get_mut(&mut self, id: MemberId) -> &mut Member {
        &mut self.all[id.0]
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// A scrub restarts the count.
    pub fn forget_wrong(&mut self) {
        self.all.iter_mut().for_each(|member| member.wrong_sectors = 0);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.all.iter()
    }

    /// True if a member was dropped in this run.
    pub fn have_dropped(&self) -> bool {
        self.all.iter().any(|member| member.state == MemberState::Failed)
    }

    /// True if some member that fills a slot, or will, has a volatile cache.
    pub fn have_volatile_cache(&self) -> bool {
        self.active().any(|id| self.get(id).limits.volatile_cache)
    }

    /// The in-sync members of these slots.
    pub fn in_sync_in<A: smallvec::Array<Item = MemberId>>(&self, slots: impl Iterator<Item = usize>) -> SmallVec<A> {
        let members = slots.filter_map(|slot| self.slots[slot].member);
        few(members.filter(|&member| self.get(member).state == MemberState::InSync))
    }

    /// A client's read of a member has taken this long. Only reads get here where hedging is on.
    #[inline]
    pub fn time_read(&mut self, id: MemberId, elapsed: Nanos) {
        if let Some(times) = &mut self.get_mut(id).read_times {
            times.record(elapsed);
        }
    }

    /// The members that are unresponsive.
    pub fn unresponsive(&self) -> Slow {
        (0..self.count()).map(MemberId).filter(|&member| self.get(member).is_unresponsive).collect()
    }

    /// The slots of these members, as far as they have one.
    pub fn slots_of(&self, members: &[MemberId]) -> SmallVec<[usize; 4]> {
        let has = |slot: &usize| self.slots()[*slot].member.is_some_and(|member| members.contains(&member));
        (0..self.slots().len()).filter(has).collect()
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Members that fill or will fill a slot: the targets of writes and flushes.
    pub fn active(&self) -> impl Iterator<Item = MemberId> {
        self.slots.iter().flat_map(|slot| [slot.member, slot.replacement]).flatten()
    }

    /// The presence of `rows` of a slot's member.
    pub fn presence(&self, slot: usize, rows: &Range<MemberSector>) -> Presence {
        let Some(id) = self.slots[slot].member else { return Presence::Missing };
        let member = &self.all[id.0];
        if member.config.recovered.covers(rows.end) && !member.has_bad(rows) { Presence::Readable } else { Presence::WriteOnly }
    }

    /// The number of `rows`, from the first on, that are alike on a slot's member: all can be read, or none can.
    pub fn alike_sectors(&self, slot: usize, rows: &Range<MemberSector>) -> u64 {
        let Some(id) = self.slots[slot].member else { return rows.sectors() };
        let config = &self.all[id.0].config;
        let edges = config.bad_blocks.iter().flat_map(|bad| [bad.start, bad.end]).chain(match config.recovered {
            Synced::UpTo(sector) => Some(sector),
            Synced::All => None,
        });
        let end = edges.filter(|edge| (rows.start + 1..rows.end).contains(edge)).min().unwrap_or(rows.end);
        end - rows.start
    }

    /// The members that receive writes to a slot: its member and its replacement.
    pub fn targets(&self, slot: usize) -> SmallVec<[MemberId; 2]> {
        few(self.each_target(slot))
    }

    /// The same, as an iterator.
    pub fn each_target(&self, slot: usize) -> impl Iterator<Item = MemberId> + use<> {
        let slot = &self.slots[slot];
        [slot.member, slot.replacement].into_iter().flatten()
    }

    fn is_in_sync(&self, slot: usize) -> bool {
        self.slots[slot].member.is_some_and(|id| self.all[id.0].config.recovered == Synced::All)
    }

    /// True if a member holds a slot and all that the slot should hold.
    pub fn is_member_in_sync(&self, id: MemberId) -> bool {
        (0..self.slots.len()).any(|slot| self.slots[slot].member == Some(id) && self.is_in_sync(slot))
    }

    /// The smallest unit that every active member can read: the largest logical block.
    pub fn block_sectors_of_active(&self) -> u64 {
        largest_block_sectors(self.active().map(|id| self.get(id)))
    }

    /// The smallest unit that every member can read, including members without a slot.
    pub fn block_sectors_of_all(&self) -> u64 {
        largest_block_sectors(self.iter())
    }

    /// True if every slot has an in-sync member that is there.
    pub fn is_optimal(&self) -> bool {
        self.optimal
    }

    /// True if a write must go by a task, which can wait for a list of bad blocks and can be refused.
    pub fn need_tasks(&self) -> bool {
        self.have_bad_blocks | self.have_failed
    }

    /// True if any member that has not failed has bad blocks.
    pub fn have_bad_blocks(&self) -> bool {
        self.have_bad_blocks
    }

    /// Adds to the bad blocks of a member.
    pub fn mark_bad(&mut self, id: MemberId, rows: Range<MemberSector>) {
        self.all[id.0].mark_bad(rows);
        self.lists_are_due = true;
        self.look();
    }

    /// Removes from the bad blocks of a member.
    pub fn mark_good(&mut self, id: MemberId, rows: &Range<MemberSector>) {
        self.all[id.0].mark_good(rows);
        self.lists_are_due = true;
        self.look();
    }

    /// Every list of bad blocks is durable.
    pub fn lists_are_durable(&mut self) {
        self.lists_are_due = false;
        self.look();
    }

    /// True if the slots for which `is_in_sync` is true hold all data.
    fn suffices(&self, is_in_sync: impl Fn(usize) -> bool) -> bool {
        let count = self.slots.len();
        let missing = (0..count).filter(|&slot| !is_in_sync(slot)).count();
        let level = self.geometry.level();
        match level.family() {
            Family::Striped => missing == 0,
            Family::Parity => missing <= level.parity_count(),
            Family::Mirror if level == Level::Raid1 => missing < count,
            Family::Mirror => self
                .strips_of_each_group()
                .all(|sector| self.geometry.copies_of(sector, 1).0.iter().any(|copy| is_in_sync(copy.slot))),
        }
    }

    /// The number of members that may still be lost, whichever they are.
    pub fn losses_survived(&self) -> usize {
        let in_sync_count = |slots: &mut dyn Iterator<Item = usize>| slots.filter(|&slot| self.is_in_sync(slot)).count();
        let count = self.geometry.slot_count();
        let level = self.geometry.level();
        match level.family() {
            Family::Striped => 0,
            Family::Parity => level.parity_count().saturating_sub(count - in_sync_count(&mut (0..count))),
            Family::Mirror if level == Level::Raid1 => in_sync_count(&mut (0..count)).saturating_sub(1),
            Family::Mirror => {
                let copies = self.strips_of_each_group().map(|sector| self.geometry.copies_of(sector, 1).0);
                let left = copies.map(|copies| in_sync_count(&mut copies.iter().map(|copy| copy.slot)));
                left.min().unwrap_or(0).saturating_sub(1)
            }
        }
    }

    /// The first sector of a strip for each group of members of a RAID 10 that share strips: groups repeat after as many strips
    /// as there are members.
    fn strips_of_each_group(&self) -> impl Iterator<Item = ArraySector> {
        let strip = self.geometry.strip_sectors();
        let strips = (self.geometry.capacity_sectors() / strip).min(self.geometry.slot_count() as u64);
        (0..strips).map(move |index| ArraySector::new(index * strip))
    }

    /// True if lanes have together dropped more members than redundancy replaces. Nothing undoes that while the array runs.
    pub fn have_failed(&self) -> bool {
        self.have_failed
    }

    pub fn health(&self) -> Health {
        if self.have_failed || self.slots.iter().any(|slot| slot.member.is_some_and(|id| self.all[id.0].is_gone)) {
            Health::Failed
        } else if self.is_optimal() {
            Health::Optimal
        } else if self.suffices(|slot| self.is_in_sync(slot)) {
            Health::Degraded
        } else {
            Health::Failed
        }
    }

    /// True if all of these members were dropped.
    pub fn are_gone(&self, members: &[MemberId]) -> bool {
        self.are_gone_but(members, None)
    }

    /// True if all of these members were dropped, `one` of them left out of account.
    pub fn are_gone_but(&self, members: &[MemberId], one: Option<MemberId>) -> bool {
        members.iter().all(|&member| Some(member) == one || self.get(member).state == MemberState::Failed)
    }

    /// True if there are members in sync, and `what` holds for each.
    pub fn are_all_in_sync(&self, what: impl Fn(MemberId) -> bool) -> bool {
        let mut in_sync =
            (0..self.slots.len()).filter(|&slot| self.is_in_sync(slot)).filter_map(|slot| self.slots[slot].member).peekable();
        in_sync.peek().is_some() && in_sync.all(what)
    }

    /// True if the array's data is complete without all of these members.
    pub fn may_lose_all(&self, lost: &[MemberId]) -> bool {
        let holds = |slot: usize| self.is_in_sync(slot) && !self.slots[slot].member.is_some_and(|member| lost.contains(&member));
        self.suffices(holds)
    }

    /// True if the array's data is complete without this member.
    pub fn may_lose(&self, id: MemberId) -> bool {
        let holder = self.slots.iter().position(|slot| slot.member == Some(id));
        // A member that is not in sync adds nothing that others lack.
        holder.is_none_or(|lost| !self.is_in_sync(lost) || self.suffices(|slot| slot != lost && self.is_in_sync(slot)))
    }

    /// A member that keeps its slot is gone. Returns whether that is new.
    pub fn set_gone(&mut self, id: MemberId, cause: DropCause) -> bool {
        let member = &mut self.all[id.0];
        if std::mem::replace(&mut member.is_gone, true) {
            return false;
        }
        member.failure = Some(cause);
        self.look();
        true
    }

    /// Takes a member out of its slot.
    pub fn drop_member(&mut self, id: MemberId, cause: Option<DropCause>) {
        let sufficed = self.suffices(|slot| self.is_in_sync(slot));
        for slot in &mut self.slots {
            if slot.replacement == Some(id) {
                slot.replacement = None;
            }
            if slot.member == Some(id) {
                // A replacement becomes the rebuilding member of the slot.
                slot.member = slot.replacement.take();
                if let Some(heir) = slot.member {
                    self.all[heir.0].state = MemberState::Rebuilding;
                }
            }
        }
        self.spares.retain(|&spare| spare != id);
        self.failed.push(id);
        let member = &mut self.all[id.0];
        member.state = MemberState::Failed;
        member.failure = cause;
        // Judged after the drop, since a replacement in sync may have taken the slot.
        self.have_failed |= sufficed && !self.suffices(|slot| self.is_in_sync(slot));
        self.look();
    }

    /// Adds a member: as a spare or, with `slot`, directly into an empty slot.
    pub fn admit(&mut self, config: MemberConfig, slot: Option<usize>) {
        assert_eq!(config.id, MemberId(self.all.len()), "handles are given in order");
        let id = config.id;
        let state = if slot.is_some() { MemberState::Rebuilding } else { MemberState::Spare };
        let redundant = self.geometry.level().is_redundant();
        self.all.push(Member::new(config, state, slot, redundant));
        match slot {
            Some(slot) => {
                assert!(self.slots[slot].member.is_none(), "a slot is filled once");
                self.slots[slot].member = Some(id);
            }
            None => self.spares.push(id),
        }
        self.look();
    }

    /// Gives an empty slot to the first spare.
    pub fn take_spare(&mut self) -> Option<(MemberId, usize)> {
        let slot = self.slots.iter().position(|slot| slot.member.is_none())?;
        if self.spares.is_empty() {
            return None;
        }
        let id = self.spares[0];
        self.assign(id, slot).then_some((id, slot))
    }

    /// True if there is an empty slot, and a spare for it.
    pub fn wants_spare(&self) -> bool {
        !self.spares.is_empty() && self.slots.iter().any(|slot| slot.member.is_none())
    }

    /// True if it is a spare, and the slot is empty.
    pub fn may_assign(&self, id: MemberId, slot: usize) -> bool {
        self.spares.contains(&id) && self.slots[slot].member.is_none()
    }

    /// Gives an empty slot to a spare. Returns `false` if it is no spare any more, or the slot is not empty.
    pub fn assign(&mut self, id: MemberId, slot: usize) -> bool {
        let fits = self.may_assign(id, slot);
        if fits {
            self.spares.retain(|&spare| spare != id);
            self.slots[slot].member = Some(id);
            self.begin_rebuild(id, slot, MemberState::Rebuilding);
        }
        fits
    }

    /// Makes a spare the replacement of a slot's member.
    pub fn replace(&mut self, slot: usize, spare: MemberId) {
        self.spares.retain(|&id| id != spare);
        self.slots[slot].replacement = Some(spare);
        self.begin_rebuild(spare, slot, MemberState::Replacing);
    }

    fn begin_rebuild(&mut self, id: MemberId, slot: usize, state: MemberState) {
        let member = &mut self.all[id.0];
        (member.state, member.slot) = (state, Some(slot));
        (member.config.recovered, member.config.by_bitmap) = (Synced::up_to(0), false);
    }

    /// A rebuilt member takes its slot. Returns the member that it replaced.
    pub fn take_slot(&mut self, id: MemberId) -> Option<MemberId> {
        let member = &mut self.all[id.0];
        (member.config.recovered, member.config.by_bitmap) = (Synced::All, false);
        member.state = MemberState::InSync;
        self.look();
        let slot = self.slots.iter_mut().find(|slot| slot.replacement == Some(id))?;
        slot.replacement = None;
        let before = slot.member.replace(id)?;
        let old = &mut self.all[before.0];
        old.state = MemberState::Failed;
        old.failure = Some(DropCause::Replaced);
        self.failed.push(before);
        // The bad blocks of a member that has failed do not count.
        self.look();
        Some(before)
    }

    /// The state for the superblocks.
    pub fn state(&self, clean: bool, synced: Synced<SyncSpace>) -> ArrayState {
        let progress = |id: Option<MemberId>| id.map(|id| self.all[id.0].progress());
        ArrayState {
            clean,
            synced,
            slots: self
                .slots
                .iter()
                .map(|slot| SlotState { member: progress(slot.member), replacement: progress(slot.replacement) })
                .collect(),
            spares: self.spares.clone(),
            failed: self.failed.iter().map(|&id| (id, self.all[id.0].slot)).collect(),
            optimal: self.is_optimal(),
        }
    }
}

fn largest_block_sectors<'a>(members: impl Iterator<Item = &'a Member>) -> u64 {
    members.map(|member| u64::from(member.limits.logical_block_bytes) / 512).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise bits of the bitmap would be cleared that the member needs when it is back.
    #[test]
    fn an_array_with_a_member_that_is_gone_is_not_optimal() {
        let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 16, &[512; 3]).expect("good");
        let mut members = Members::new(&ArrayConfig::optimal("test", geometry));
        let pull = |members: &mut Members| {
            members.set_gone(MemberId(1), DropCause::Gone(stria_block::IoError::new(stria_block::ErrorKind::Gone, "pulled")))
        };
        assert!(members.is_optimal() && pull(&mut members) && !pull(&mut members));
        assert!(!members.is_optimal() && !members.state(true, Synced::All).optimal);
        members.drop_member(MemberId(1), None);
        assert_eq!(members.health(), Health::Degraded);
    }

    /// Another lane may report the drop of a replaced member before this lane has given its slot to the replacement.
    #[test]
    fn a_member_that_is_replaced_may_be_dropped_by_an_array_without_redundancy() {
        let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 16, &[512; 3]).expect("good");
        for (recovered, health) in [(Synced::All, Health::Degraded), (Synced::up_to(256), Health::Failed)] {
            let mut config = ArrayConfig::optimal("test", geometry.clone());
            config.slots[2].member = None;
            config.slots[0].member.as_mut().expect("it is there").id = MemberId(2);
            config.slots[0].replacement = Some(MemberConfig { recovered, ..MemberConfig::in_sync(MemberId(0), 512) });
            let mut members = Members::new(&config);
            members.drop_member(MemberId(2), None);
            assert_eq!(members.health(), health, "{recovered:?}");
        }
    }

    #[test]
    fn bad_blocks_go_with_the_member_that_is_replaced() {
        let geometry = Geometry::new(Level::Raid1, Level::Raid1.default_layout(), 16, &[512; 2]).expect("good");
        let mut config = ArrayConfig::optimal("test", geometry);
        config.slots[0].member.as_mut().expect("it is there").bad_blocks = vec![MemberSector::span(8..16)];
        config.slots[0].replacement = Some(MemberConfig::in_sync(MemberId(2), 512));
        let mut members = Members::new(&config);
        assert!(members.need_tasks());
        assert_eq!(members.take_slot(MemberId(2)), Some(MemberId(0)));
        assert!(!members.need_tasks(), "writes are straight again");
    }
}
