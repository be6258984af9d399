//! Ranges of the sync space whose redundancy [reads have made consistent](crate::resync_on_read).

use crate::SyncSector;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// The number of ranges that are remembered, to bound memory. Beyond that all are forgotten, and resynced again when read.
const PLACES_MAX: usize = 1 << 14;

/// Ranges where reads have done a resync.
#[derive(Default)]
pub(crate) struct ConsistentRanges {
    /// Ranges of the sync space, start and end. No two touch.
    places: RefCell<BTreeMap<SyncSector, SyncSector>>,
}

impl ConsistentRanges {
    /// True if all of a range of the sync space was resynced by reads.
    pub fn cover(&self, range: &Range<SyncSector>) -> bool {
        let places = self.places.borrow();
        places.range(..=range.start).next_back().is_some_and(|(_, &end)| range.end <= end)
    }

    pub fn note(&self, range: Range<SyncSector>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_touch_are_one_and_others_are_not() {
        let consistent_ranges = ConsistentRanges::default();
        for place in [8..16, 24..32, 40..48, 16..20] {
            consistent_ranges.note(SyncSector::span(place));
        }
        assert!(
            consistent_ranges.cover(&SyncSector::span(8..20))
                && consistent_ranges.cover(&SyncSector::span(10..12))
                && consistent_ranges.cover(&SyncSector::span(24..32))
        );
        assert!(
            !consistent_ranges.cover(&SyncSector::span(8..21))
                && !consistent_ranges.cover(&SyncSector::span(0..9))
                && !consistent_ranges.cover(&SyncSector::span(20..24))
        );
        consistent_ranges.note(SyncSector::span(18..44));
        assert!(consistent_ranges.cover(&SyncSector::span(8..48)) && !consistent_ranges.cover(&SyncSector::span(8..49)));
        assert_eq!(consistent_ranges.places.borrow().len(), 1);
        consistent_ranges.forget();
        assert!(!consistent_ranges.cover(&SyncSector::span(8..9)));
    }

    #[test]
    fn of_too_many_places_all_are_forgotten_but_the_last() {
        let consistent_ranges = ConsistentRanges::default();
        (0..=PLACES_MAX as u64).for_each(|place| consistent_ranges.note(SyncSector::span(place * 2..place * 2 + 1)));
        assert_eq!(consistent_ranges.places.borrow().len(), 1);
        assert!(consistent_ranges.cover(&SyncSector::span(2 * PLACES_MAX as u64..2 * PLACES_MAX as u64 + 1)));
    }
}
