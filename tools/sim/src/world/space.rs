//! Which drive has no space for data, and since when there is space again.

use std::collections::BTreeSet;
use stria_block::{ErrorKind, IoError, Nanos};

/// One drive at a time may have none.
#[derive(Default)]
pub struct Space {
    full: Option<usize>,
    /// The drive that had none, and may still have bad blocks for it.
    refilling: Option<usize>,
    /// The drives that had none at some time.
    lacked: BTreeSet<usize>,
    /// Until when some drive had no space, if one ever had none.
    full_until: Option<Nanos>,
    /// A write that was acknowledged early may have been lost.
    may_be_lost: bool,
}

impl Space {
    /// The drive that has no space.
    pub fn full(&self) -> Option<usize> {
        self.full
    }

    /// The drive whose bad blocks are being filled.
    pub fn refilling(&self) -> Option<usize> {
        self.refilling
    }

    /// True if some drive had no space at some time.
    pub fn was_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// A drive has no space from now on.
    /// `is_expected`: the array knows that it may, and acknowledges no write early.
    pub fn fill_up(&mut self, drive: usize, is_expected: bool) {
        self.lacked.insert(drive);
        self.may_be_lost |= !is_expected;
        (self.full, self.refilling, self.full_until) = (Some(drive), None, Some(Nanos::MAX));
    }

    /// True if a drive had no space at some time, and may have been away before its bad blocks were filled.
    pub fn has_lacked(&self, drive: usize) -> bool {
        self.lacked.contains(&drive)
    }

    /// True if a write that was acknowledged early may have been lost.
    pub fn may_lose(&self) -> bool {
        self.may_be_lost
    }

    /// True if a flush may fail with this error: it reports a write that was acknowledged early.
    pub fn may_report(&self, error: &IoError) -> bool {
        // An array above passes on what its span reports in its own words.
        self.may_be_lost && (error.kind == ErrorKind::NoSpace || error.context.contains("write refused"))
    }

    /// There is space again. Returns the drive that had none.
    pub fn free(&mut self, now: Nanos) -> Option<usize> {
        let drive = self.full.take()?;
        (self.refilling, self.full_until) = (Some(drive), Some(now));
        Some(drive)
    }

    /// The drive has no bad blocks any more.
    pub fn is_refilled(&mut self) {
        self.refilling = None;
    }

    /// The drive counts as lost for another reason from now on, whether its bad blocks are filled or not.
    pub fn forget(&mut self, drive: usize) {
        self.refilling = self.refilling.filter(|&refilling| refilling != drive);
    }

    /// True if a request that began at `since` may have met a lack of space.
    pub fn may_have_lacked(&self, since: Nanos) -> bool {
        self.full_until.is_some_and(|until| since <= until)
    }

    /// True if a request that began at `since` may fail with this error.
    pub fn may_lack(&self, since: Nanos, error: &IoError) -> bool {
        error.kind == ErrorKind::NoSpace && self.may_have_lacked(since)
    }
}
