//! The knowledge about [members without space](crate::no_space).

use crate::task::{Ready, Waiters};
use crate::{MemberId, MemberSector};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use stria_block::{IoError, Nanos};

/// A minute: for so long the event is not reported again, and no write is acknowledged early.
const CAREFUL_FOR: Nanos = 60_000_000_000;

/// The knowledge about members without space.
#[derive(Default)]
pub(crate) struct NoSpace {
    /// Until then other members may have no space either.
    careful_until: Cell<Nanos>,
    /// A write-behind could not be brought to its place: the next flush reports it.
    unflushed: RefCell<Option<IoError>>,
    /// Some member is a file with holes.
    is_expected: Cell<bool>,
    /// Some member is a file: what it unmaps becomes a hole.
    unmaps_to_holes: Cell<bool>,
    /// Bad blocks for lack of space, which a task fills: member and first row, and the end.
    unfilled: RefCell<BTreeMap<(MemberId, MemberSector), MemberSector>>,
    pub refill: Waiters,
    /// Bad blocks that the members there now cannot recover: they wait for one that comes or is filled.
    unrecoverable: RefCell<Vec<(MemberId, Range<MemberSector>)>>,
}

impl NoSpace {
    /// True if a member had no space within the last minute.
    pub fn is_careful(&self, now: Nanos) -> bool {
        now < self.careful_until.get()
    }

    /// A member has no space. Returns until when that is remembered.
    pub fn meet(&self, now: Nanos) -> Nanos {
        let until = now.saturating_add(CAREFUL_FOR);
        self.careful_until.set(until);
        until
    }

    /// A write to a member may need space that is not there.
    pub fn expect(&self) {
        self.is_expected.set(true);
    }

    /// What some member unmaps needs space again to be written.
    pub fn expect_of_unmapping(&self) {
        self.unmaps_to_holes.set(true);
    }

    /// Members are about to be asked to unmap rows that are locked.
    pub fn unmap(&self) {
        if self.unmaps_to_holes.get() {
            self.expect();
        }
    }

    /// A write-behind is not in place: the next flush must fail.
    pub fn fail_next_flush(&self, error: &IoError) {
        self.unflushed.borrow_mut().get_or_insert_with(|| error.clone());
    }

    /// Rows of a member are to be filled later.
    pub fn add_unfilled(&self, member: MemberId, rows: Range<MemberSector>) {
        let mut unfilled = self.unfilled.borrow_mut();
        let end = unfilled.entry((member, rows.start)).or_insert(rows.end);
        *end = rows.end.max(*end);
    }

    /// Rows that can be filled only once other members are there.
    pub fn add_unrecoverable(&self, member: MemberId, rows: Range<MemberSector>) {
        self.unrecoverable.borrow_mut().push((member, rows));
    }

    /// A member is in sync: tries those again.
    pub fn retry_unrecoverable(&self, ready: &Ready) {
        for (member, rows) in self.unrecoverable.take() {
            self.add_unfilled(member, rows);
        }
        self.refill.wake_all(ready);
    }

    /// True if some rows are to be filled.
    pub fn has_unfilled(&self) -> bool {
        !self.unfilled.borrow().is_empty()
    }

    /// Takes the rows that are to be filled.
    pub fn take_unfilled(&self) -> Vec<(MemberId, Range<MemberSector>)> {
        self.unfilled.take().into_iter().map(|((member, start), end)| (member, start..end)).collect()
    }

    /// True if writes may be acknowledged early, since their places have their space.
    pub fn has_places(&self, now: Nanos) -> bool {
        !self.is_expected.get() && !self.is_careful(now)
    }

    /// The error that the next flush must report.
    pub fn take_unflushed(&self) -> Result<(), IoError> {
        self.unflushed.borrow_mut().take().map_or(Ok(()), Err)
    }
}
