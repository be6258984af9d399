//! [Hedged reads](crate::hedge) under way, and the budget for more.

use crate::member::Members;
use crate::member_requests::Pieces;
use crate::{MemberId, MemberSector};
use slab::Slab;
use std::cell::{Cell, RefCell};
use stria_block::Nanos;

/// One read in 20 may be hedged.
const HEDGED_ONE_IN: u64 = 20;
/// At most 64 reads are hedged at once.
const COUNT_MAX: usize = 64;
/// A read is asked of others this often at most: of three that fall silent one after the other, and of those that are left.
pub(crate) const ASKED_MAX: usize = 4;
/// 32 hedged reads are saved up while none is needed.
const SAVED_MAX: u64 = 32;

/// Hedged reads.
pub(crate) struct Hedging {
    is_on: Cell<bool>,
    /// The time of the next look.
    due: Cell<Nanos>,
    races: RefCell<Slab<Race>>,
    /// How many times a member has become unresponsive.
    silences: Cell<u64>,
    /// Reads that were counted, and how many of them are not spent yet.
    read_count: Cell<u64>,
    budget: Cell<u64>,
}

/// A part of a client's read that was hedged.
struct Race {
    parent: usize,
    /// Used if the member answers first.
    pieces: Pieces,
    /// The slow member, and where it was asked.
    member: MemberId,
    start_sector: MemberSector,
    begun: Nanos,
    /// The client has no answer yet.
    is_open: bool,
    waits_for_member: bool,
    /// How often others were asked, and how many of these answers are still to come.
    asked: usize,
    waits_for_others: usize,
    /// As [`Hedging::silences`] was then.
    silences: u64,
}

impl Hedging {
    pub fn new(is_on: bool) -> Self {
        let budget = Cell::new(SAVED_MAX * HEDGED_ONE_IN);
        Self {
            is_on: Cell::new(is_on),
            due: Cell::new(0),
            races: RefCell::default(),
            silences: Cell::new(0),
            read_count: Cell::new(0),
            budget,
        }
    }

    /// True if slow reads are asked of others. Levels without redundancy have no other member to ask.
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    pub fn set_on(&self, is_on: bool) {
        self.is_on.set(is_on);
    }

    /// The time at which reads under way are looked at.
    pub fn due(&self) -> Nanos {
        self.due.get()
    }

    pub fn look_again_at(&self, due: Nanos) {
        self.due.set(due);
    }

    /// So many reads have been counted so far: they allow some to be hedged.
    pub fn earn(&self, read_count: u64) {
        let earned = read_count.saturating_sub(self.read_count.replace(read_count));
        self.budget.set((self.budget.get() + earned).min(SAVED_MAX * HEDGED_ONE_IN));
    }

    /// Spends the budget of one read. Returns `false` if it does not suffice. `free`: the read is hedged in any case, and takes
    /// what budget there is. Reads that an unresponsive member leaves are free, since it gets no new ones.
    pub fn spend(&self, free: bool) -> bool {
        if !free && (self.races.borrow().len() >= COUNT_MAX || self.budget.get() < HEDGED_ONE_IN) {
            return false;
        }
        self.budget.set(self.budget.get().saturating_sub(HEDGED_ONE_IN));
        true
    }

    /// A part of a client's read is hedged. Returns its key.
    pub fn begin(&self, parent: usize, pieces: Pieces, member: MemberId, start_sector: MemberSector, begun: Nanos) -> usize {
        let silences = self.silences.get();
        let race = Race {
            parent,
            pieces,
            member,
            start_sector,
            begun,
            is_open: true,
            waits_for_member: true,
            asked: 1,
            waits_for_others: 1,
            silences,
        };
        self.races.borrow_mut().insert(race)
    }

    /// How many times a member has become unresponsive.
    pub fn silences(&self) -> u64 {
        self.silences.get()
    }

    /// Another member has become unresponsive.
    pub fn note_silence(&self) {
        self.silences.set(self.silences.get() + 1);
    }

    /// A hedged read to be asked of other members again: since it was asked, a member has become unresponsive, and it may be one
    /// of those that were asked. Returns its key, the client's request, its pieces, the slow member and the first sector there.
    pub fn take_overtaken(&self) -> Option<(usize, usize, Pieces, MemberId, MemberSector)> {
        let silences = self.silences.get();
        let mut races = self.races.borrow_mut();
        let is_stuck = |race: &Race| race.is_open && race.waits_for_others > 0 && race.asked < ASKED_MAX;
        let (key, race) = races.iter_mut().find(|(_, race)| race.silences < silences && is_stuck(race))?;
        race.silences = silences;
        race.asked += 1;
        race.waits_for_others += 1;
        Some((key, race.parent, race.pieces.clone(), race.member, race.start_sector))
    }

    /// Calls `note` with each member that has not answered such a read, and for how long.
    pub fn each_waiting(&self, now: Nanos, mut note: impl FnMut(MemberId, Nanos)) {
        for (_, race) in self.races.borrow().iter().filter(|(_, race)| race.waits_for_member) {
            note(race.member, now - race.begun);
        }
    }

    /// The member has answered a hedged read. Returns the client's request and the offsets of its pieces there, or `None` if
    /// others were first. `is_watched`: another kind of read still waits for the member.
    pub fn member_answered(&self, race: usize, members: &mut Members, is_watched: bool) -> Option<(usize, Pieces)> {
        let mut races = self.races.borrow_mut();
        let state = &mut races[race];
        let wins = std::mem::take(&mut state.is_open).then(|| (state.parent, std::mem::take(&mut state.pieces)));
        state.waits_for_member = false;
        let (member, is_over) = (state.member, state.waits_for_others == 0);
        if is_over {
            races.remove(race);
        }
        // The member stays unresponsive while any of its reads hangs; otherwise it would keep receiving reads that it does not
        // answer.
        let waits = races.iter().any(|(_, other)| other.waits_for_member && other.member == member);
        members.get_mut(member).is_unresponsive &= waits || is_watched;
        wins
    }

    /// True if a hedged read still waits for its member.
    pub fn waits_for(&self, member: MemberId) -> bool {
        self.races.borrow().iter().any(|(_, race)| race.waits_for_member && race.member == member)
    }

    /// The others have answered, or cannot (`has_read` is false). Returns the client's request and the slow member if they were
    /// first.
    pub fn others_answered(&self, race: usize, has_read: bool) -> Option<(usize, MemberId)> {
        let mut races = self.races.borrow_mut();
        let state = &mut races[race];
        let wins = (state.is_open && has_read).then_some((state.parent, state.member));
        state.is_open &= wins.is_none();
        state.waits_for_others -= 1;
        if !state.waits_for_member && state.waits_for_others == 0 {
            races.remove(race);
        }
        wins
    }
}
