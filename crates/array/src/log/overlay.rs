//! The overlay: new data and parity that replay has computed and not written yet, and the members that hold the records of it.

use crate::log_record::BAND_SECTORS;
use crate::member::Members;
use crate::{MemberId, MemberSector};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stria_block::ranges::common;
use stria_block::{Data, IoError};

/// The members that hold the records of some rows, with their slots.
pub(crate) type ReplayHolders = SmallVec<[(usize, MemberId); 2]>;

#[derive(Default)]
pub(crate) struct Overlay {
    /// The data of each piece, by slot and row. No piece is longer than a band.
    pieces: RefCell<BTreeMap<(usize, MemberSector), Data>>,
    /// The members that hold the last run's records, for each set of parity members that has some.
    holders: RefCell<BTreeSet<ReplayHolders>>,
    /// Why replay gave up.
    given_up: RefCell<Option<IoError>>,
}

impl Overlay {
    /// True if replay has results that are not written yet.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.pieces.borrow().is_empty()
    }

    /// Adds the data that rows of a slot must hold.
    pub fn insert(&self, slot: usize, row: MemberSector, data: Data) {
        self.pieces.borrow_mut().insert((slot, row), data);
    }

    /// All of it, by slot and row.
    pub fn pieces(&self) -> Vec<((usize, MemberSector), Data)> {
        self.pieces.borrow().iter().map(|(&place, data)| (place, data.clone())).collect()
    }

    /// It is written.
    pub fn clear(&self) {
        self.pieces.borrow_mut().clear();
    }

    /// True if it covers any of these rows of a slot.
    #[inline]
    pub fn covers(&self, slot: usize, rows: &Range<MemberSector>) -> bool {
        self.is_any() && self.is_over(slot, rows)
    }

    // Not inlined, so that requests stay small where there is none.
    #[inline(never)]
    fn is_over(&self, slot: usize, rows: &Range<MemberSector>) -> bool {
        let pieces = self.pieces.borrow();
        let mut near = pieces.range((slot, rows.start.saturating_sub(BAND_SECTORS))..(slot, rows.end));
        near.any(|(&(_, start), data)| rows.start < start + (data.len() / 512) as u64)
    }

    /// Applies it to `bytes`, which were read from some rows of a slot.
    pub fn apply(&self, slot: usize, rows: &Range<MemberSector>, bytes: &mut [u8]) {
        let pieces = self.pieces.borrow();
        if pieces.is_empty() {
            return;
        }
        let near = (slot, rows.start.saturating_sub(BAND_SECTORS))..(slot, rows.end);
        for (&(_, start), data) in pieces.range(near) {
            let end = start + (data.len() / 512) as u64;
            let both = common(&(start..end), rows);
            if !both.is_empty() {
                let to = ((both.start - rows.start) * 512) as usize..((both.end - rows.start) * 512) as usize;
                let from = ((both.start - start) * 512) as usize;
                let len = to.len();
                bytes[to].copy_from_slice(&data[from..from + len]);
            }
        }
    }

    /// Replay gives up.
    pub fn give_up(&self, error: IoError) {
        *self.given_up.borrow_mut() = Some(error);
    }

    /// Why replay gave up, if it did.
    pub fn unreplayed(&self) -> Option<IoError> {
        self.given_up.borrow().clone()
    }

    /// These members hold the records that await replay.
    pub fn set_holders(&self, holders: impl Iterator<Item = ReplayHolders>) {
        *self.holders.borrow_mut() = holders.collect();
    }

    /// Of the members that hold records together, those that are all gone.
    pub fn lost_holders(&self, members: &Members) -> Vec<ReplayHolders> {
        self.holders.borrow().iter().filter(|some| !has_stayed(some, members)).cloned().collect()
    }

    /// What these held does not await replay any more.
    pub fn forget_holders(&self, replayed: &[ReplayHolders]) {
        self.holders.borrow_mut().retain(|some| !replayed.contains(some));
    }

    /// True if the remaining members still hold every record that awaits replay. Not before [`Overlay::set_holders`].
    pub fn has_holders(&self, members: &Members) -> bool {
        let holders = self.holders.borrow();
        !holders.is_empty() && holders.iter().all(|some| has_stayed(some, members))
    }
}

/// True if one of the members is still there.
pub(crate) fn has_stayed(holders: &ReplayHolders, members: &Members) -> bool {
    holders.iter().any(|&(slot, member)| members.slots()[slot].member == Some(member))
}
