//! Resync on read: what a client reads after a crash stays what it is (R36).
//!
//! A crash cuts writes short: copies differ, or parity does not match data. A resync repairs that, but takes time. If a member
//! were lost before the resync gets there, another copy or parity would count, and a client would find other data than it has
//! read: older, newer, or garbage where a large write was torn. So a read of a range that is not known to be consistent first
//! does there what the resync would do. Then the member may be lost. A flush after the read makes the result durable.
//!
//! Ranges where this was done are remembered, so that only the first read pays. A read-only array is left as it is.

use crate::Flaw;
use crate::core::{Core, lost};
use crate::personality::{Personality, of_level};
use crate::status::Health;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stria_block::Request;

/// How many ranges are remembered, to bound memory. Beyond that all are forgotten, and resynced again when read.
const PLACES_MAX: usize = 1 << 14;

/// Reads that wait for a resync, and the ranges where one was done.
#[derive(Default)]
pub(crate) struct ConsistentRanges {
    /// Ranges of the sync space, start and end. No two touch.
    places: RefCell<BTreeMap<u64, u64>>,
    /// How many reads wait.
    pub waiting: Cell<usize>,
}

impl ConsistentRanges {
    /// True if all of a range of the sync space was resynced by reads.
    pub fn cover(&self, range: &Range<u64>) -> bool {
        let places = self.places.borrow();
        places.range(..=range.start).next_back().is_some_and(|(_, &end)| range.end <= end)
    }

    fn note(&self, range: Range<u64>) {
        let mut places = self.places.borrow_mut();
        if places.len() >= PLACES_MAX {
            places.clear();
        }
        let Range { mut start, mut end } = range;
        while let Some((&known, &known_end)) = places.range(..=end).next_back().filter(|(_, known_end)| **known_end >= start) {
            places.remove(&known);
            (start, end) = (start.min(known), end.max(known_end));
        }
        places.insert(start, end);
    }

    /// Forgets all ranges: everything is consistent.
    pub fn forget(&self) {
        self.places.borrow_mut().clear();
    }
}

impl Core {
    /// True if a client's read of a range must wait for a resync of it.
    #[inline]
    pub fn needs_resync_on_read(&self, range: &Range<u64>) -> bool {
        !self.is_consistent(range)
            && !self.read_only.get()
            && self.health() != Health::Failed
            && self.flaw.get() != Some(Flaw::ReadsUnaligned)
    }

    /// Resyncs a range of array sectors, piece by piece: rows of a strip, or a window of copies.
    async fn align(&self, range: &Range<u64>) -> Result<(), String> {
        let mut next = range.start;
        while next < range.end {
            let (part, sectors) = of_level!(self, P => P::resync_piece(self, &(next..range.end)));
            if !self.is_consistent(&part) {
                of_level!(self, P => P::resync(self, &part).await)?;
            }
            // Also what was consistent before: it is read together with what lies beside it.
            self.consistent_ranges.note(part);
            next += sectors;
        }
        Ok(())
    }
}

/// A client's read of a range that may be inconsistent: resyncs it, then reads.
pub(crate) fn read_after_resync(core: &Rc<Core>, request: Request) {
    core.consistent_ranges.waiting.set(core.consistent_ranges.waiting.get() + 1);
    let aligns = Rc::clone(core);
    core.ready.spawn(async move {
        let core = aligns;
        let aligned = core.align(&(request.start_sector..request.end_sector())).await;
        core.consistent_ranges.waiting.set(core.consistent_ranges.waiting.get() - 1);
        match aligned {
            Ok(()) => core.held.borrow_mut().push(request),
            Err(reason) => {
                let what = format!("read at sector {}", request.start_sector);
                core.done(request.complete(Err(lost(&what, &reason))));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_touch_are_one_and_others_are_not() {
        let consistent_ranges = ConsistentRanges::default();
        for place in [8..16, 24..32, 40..48, 16..20] {
            consistent_ranges.note(place);
        }
        assert!(consistent_ranges.cover(&(8..20)) && consistent_ranges.cover(&(10..12)) && consistent_ranges.cover(&(24..32)));
        assert!(!consistent_ranges.cover(&(8..21)) && !consistent_ranges.cover(&(0..9)) && !consistent_ranges.cover(&(20..24)));
        consistent_ranges.note(18..44);
        assert!(consistent_ranges.cover(&(8..48)) && !consistent_ranges.cover(&(8..49)));
        assert_eq!(consistent_ranges.places.borrow().len(), 1);
        consistent_ranges.forget();
        assert!(!consistent_ranges.cover(&(8..9)));
    }

    #[test]
    fn of_too_many_places_all_are_forgotten_but_the_last() {
        let consistent_ranges = ConsistentRanges::default();
        (0..=PLACES_MAX as u64).for_each(|place| consistent_ranges.note(place * 2..place * 2 + 1));
        assert_eq!(consistent_ranges.places.borrow().len(), 1);
        assert!(consistent_ranges.cover(&(2 * PLACES_MAX as u64..2 * PLACES_MAX as u64 + 1)));
    }
}
