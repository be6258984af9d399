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
    /// The last error of a write-behind that could not be brought to its place, or of a flush that a member which must stay has
    /// failed; and their number.
    lost: RefCell<Option<IoError>>,
    lost_count: Cell<u64>,
    /// How many of them a flush has reported.
    reported_count: Cell<u64>,
    /// Some member is a file with holes.
    is_expected: Cell<bool>,
    /// Some member is a file: what it unmaps becomes a hole.
    unmaps_to_holes: Cell<bool>,
    /// Bad blocks for lack of space, which a task fills: member and first row, and the end.
    unfilled: RefCell<BTreeMap<(MemberId, MemberSector), MemberSector>>,
    pub refill: Waiters,
    /// Bad blocks that the present members cannot recover. They are tried again when another member is in sync.
    unrecoverable: RefCell<Vec<(MemberId, Range<MemberSector>)>>,
    /// Writes without space whose rows are being made consistent.
    reconciling: Cell<usize>,
    /// Steps by which members come in sync, under way.
    arriving: Cell<usize>,
    /// Steps by which members come in sync that were begun, and those that have ended.
    steps_begun: Cell<u64>,
    steps_ended: Cell<u64>,
    turns_changed: Waiters,
}

/// Held during a step by which members come in sync: the next one waits.
pub(crate) struct InSyncStep<'a>(&'a NoSpace, &'a Ready);

impl Drop for InSyncStep<'_> {
    fn drop(&mut self) {
        self.0.steps_ended.update(|count| count + 1);
        self.0.turns_changed.wake_all(self.1);
    }
}

/// Held while the rows of a write without space are made consistent: no member comes in sync meanwhile (R96).
pub(crate) struct Reconciling<'a>(&'a NoSpace, &'a Ready);

impl Drop for Reconciling<'_> {
    fn drop(&mut self) {
        self.0.reconciling.update(|count| count - 1);
        self.0.turns_changed.wake_all(self.1);
    }
}

/// Held while members come in sync: no rows are made consistent meanwhile (R96).
pub(crate) struct Arriving<'a>(&'a NoSpace, &'a Ready);

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.0.arriving.update(|count| count - 1);
        self.0.turns_changed.wake_all(self.1);
    }
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

    /// A write-behind is not in place, or a member that must stay may have lost what it had taken: the flushes in flight must fail,
    /// or the next one.
    pub fn fail_flushes(&self, error: &IoError) {
        *self.lost.borrow_mut() = Some(error.clone());
        self.lost_count.set(self.lost_count.get() + 1);
    }

    /// How many lost write-behinds flushes have reported so far. A flush asks as it begins, and passes it to
    /// [`report_lost`](Self::report_lost) as it ends.
    pub fn reported_count(&self) -> u64 {
        self.reported_count.get()
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

    /// Waits until no member is about to be in sync.
    pub async fn reconcile<'a>(&'a self, ready: &'a Ready) -> Reconciling<'a> {
        ready.until(&self.turns_changed, || self.arriving.get() == 0).await;
        self.reconciling.update(|count| count + 1);
        Reconciling(self, ready)
    }

    /// Waits for the end of earlier steps by which members come in sync. Lanes take these steps in one order: otherwise one lane
    /// could wait for another's claim of one member, and that lane for its claim of the next.
    pub async fn step<'a>(&'a self, ready: &'a Ready) -> InSyncStep<'a> {
        let number = self.steps_begun.get();
        self.steps_begun.set(number + 1);
        ready.until(&self.turns_changed, || self.steps_ended.get() == number).await;
        InSyncStep(self, ready)
    }

    /// Waits until no rows are being made consistent. Further ones wait from now on.
    pub async fn arrive<'a>(&'a self, ready: &'a Ready) -> Arriving<'a> {
        self.arriving.update(|count| count + 1);
        let arriving = Arriving(self, ready);
        ready.until(&self.turns_changed, || self.reconciling.get() == 0).await;
        arriving
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

    /// The error that a flush must report if it began when this many had been reported (R87). It must also if another flush has
    /// reported the error meanwhile, which was the answer to another client.
    pub fn report_lost(&self, reported_count: u64) -> Result<(), IoError> {
        if self.lost_count.get() <= reported_count {
            return Ok(());
        }
        self.reported_count.set(self.lost_count.get());
        self.lost.borrow().clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::ErrorKind;

    /// Regression: of two flushes in flight only the first to end said that a write was lost.
    #[test]
    fn every_flush_reports_a_lost_write_that_was_in_flight_with_it() {
        let no_space = NoSpace::default();
        let flushes = [no_space.reported_count(), no_space.reported_count()];
        no_space.fail_flushes(&IoError::new(ErrorKind::NoSpace, "full"));
        let later = no_space.reported_count();
        for begun in flushes.into_iter().chain([later]) {
            assert!(no_space.report_lost(begun).is_err(), "the write was not reported when this one began");
        }
        no_space.report_lost(no_space.reported_count()).expect("it was reported");
        let next = no_space.reported_count();
        no_space.fail_flushes(&IoError::new(ErrorKind::NoSpace, "full"));
        assert!(no_space.report_lost(next).is_err(), "the next write was lost too");
    }
}
