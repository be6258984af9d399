//! [Hedged reads](crate::hedge) under way, and the budget for more.

use crate::MemberId;
use crate::member::Members;
use crate::member_requests::Pieces;
use slab::Slab;
use std::cell::{Cell, RefCell};
use stria_block::Nanos;

/// One read in 20 may be hedged.
const SHARE: u64 = 20;
/// At most 64 reads are hedged at once.
const COUNT_MAX: usize = 64;
/// 32 hedged reads are saved up while none is needed.
const SAVED_MAX: u64 = 32;

/// Hedged reads.
pub(crate) struct Hedging {
    is_on: Cell<bool>,
    /// The time of the next look.
    due: Cell<Nanos>,
    races: RefCell<Slab<Race>>,
    /// Reads that were counted, and how many of them are not spent yet.
    read_count: Cell<u64>,
    budget: Cell<u64>,
}

/// A part of a client's read that was hedged.
struct Race {
    parent: usize,
    /// Used if the member answers first.
    pieces: Pieces,
    /// The slow member.
    member: MemberId,
    begun: Nanos,
    /// The client has no answer yet.
    is_open: bool,
    /// Which answers are still to come.
    waits_for_member: bool,
    waits_for_others: bool,
}

impl Hedging {
    pub fn new(is_on: bool) -> Self {
        let budget = Cell::new(SAVED_MAX * SHARE);
        Self { is_on: Cell::new(is_on), due: Cell::new(0), races: RefCell::default(), read_count: Cell::new(0), budget }
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
        self.budget.set((self.budget.get() + earned).min(SAVED_MAX * SHARE));
    }

    /// Spends the budget of one read. Returns `false` if it does not suffice. `free`: it is taken as far as there is some.
    pub fn spend(&self, free: bool) -> bool {
        if self.races.borrow().len() >= COUNT_MAX || !free && self.budget.get() < SHARE {
            return false;
        }
        self.budget.set(self.budget.get().saturating_sub(SHARE));
        true
    }

    /// A part of a client's read is hedged. Returns its key.
    pub fn begin(&self, parent: usize, pieces: Pieces, member: MemberId, begun: Nanos) -> usize {
        let race = Race { parent, pieces, member, begun, is_open: true, waits_for_member: true, waits_for_others: true };
        self.races.borrow_mut().insert(race)
    }

    /// Calls `note` with each member that has not answered such a read, and for how long.
    pub fn each_waiting(&self, now: Nanos, mut note: impl FnMut(MemberId, Nanos)) {
        for (_, race) in self.races.borrow().iter().filter(|(_, race)| race.waits_for_member) {
            note(race.member, now - race.begun);
        }
    }

    /// The member has answered a hedged read. Returns the client's request and the offsets of its pieces there, or `None` if
    /// others were first.
    pub fn member_answered(&self, race: usize, members: &mut Members) -> Option<(usize, Pieces)> {
        let mut races = self.races.borrow_mut();
        let state = &mut races[race];
        let wins = std::mem::take(&mut state.is_open).then(|| (state.parent, std::mem::take(&mut state.pieces)));
        state.waits_for_member = false;
        let (member, is_over) = (state.member, !state.waits_for_others);
        if is_over {
            races.remove(race);
        }
        // The member stays unresponsive while any of its reads hangs; otherwise it would keep receiving reads that it does not
        // answer.
        let waits = races.iter().any(|(_, other)| other.waits_for_member && other.member == member);
        members.get_mut(member).is_unresponsive &= waits;
        wins
    }

    /// The others have answered, or cannot (`has_read` is false). Returns the client's request and the slow member if they were
    /// first.
    pub fn others_answered(&self, race: usize, has_read: bool) -> Option<(usize, MemberId)> {
        let mut races = self.races.borrow_mut();
        let state = &mut races[race];
        let wins = (state.is_open && has_read).then_some((state.parent, state.member));
        state.is_open &= wins.is_none();
        state.waits_for_others = false;
        if !state.waits_for_member {
            races.remove(race);
        }
        wins
    }
}
