//! Where redundancy is consistent, and where a crash would leave it in doubt.

use crate::consistent_ranges::ConsistentRanges;
use crate::intent::Intent;
use crate::{ArrayConfig, Geometry};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// What is known of the sync space.
pub(crate) struct Consistency {
    resync_sector: Cell<u64>,
    /// Parity is suspect from here on, see [`ArrayConfig::suspects_parity`]; `u64::MAX`: nowhere.
    suspect_parity_from: Cell<u64>,
    /// The write-intent bitmap.
    pub intent: RefCell<Option<Intent>>,
    /// Where reads have done a resync.
    by_reads: ConsistentRanges,
}

impl Consistency {
    /// As it is at the start.
    pub fn new(config: &ArrayConfig, geometry: &Geometry) -> Self {
        let crashed = config.resync_sector != u64::MAX || config.suspects_parity;
        let intent = config.intent.as_ref().map(|intent| Intent::new(intent, geometry.sync_sectors(), crashed));
        Self {
            resync_sector: Cell::new(if geometry.level().is_redundant() { config.resync_sector } else { u64::MAX }),
            suspect_parity_from: Cell::new(if config.suspects_parity { 0 } else { u64::MAX }),
            intent: RefCell::new(intent),
            by_reads: ConsistentRanges::default(),
        }
    }

    /// What superblocks say: redundancy is consistent below this position.
    pub fn resync_sector(&self) -> u64 {
        self.resync_sector.get()
    }

    /// True if parity is suspect somewhere, so that superblocks must not say "clean".
    pub fn suspects_parity(&self) -> bool {
        self.suspect_parity_from.get() != u64::MAX
    }

    /// The position from which a resync is due; `u64::MAX`: none is.
    #[inline]
    pub fn resync_from(&self) -> u64 {
        self.resync_sector.get().min(self.suspect_parity_from.get())
    }

    /// Redundancy is consistent below a position.
    pub fn resynced(&self, below: u64) {
        for place in [&self.resync_sector, &self.suspect_parity_from] {
            place.set(if place.get() == u64::MAX { u64::MAX } else { below });
        }
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.resynced(below);
        }
        if below == u64::MAX {
            self.by_reads.forget();
        }
    }

    /// A read has resynced this range.
    pub fn note_resync(&self, range: Range<u64>) {
        self.by_reads.note(range);
    }

    /// True if redundancy of a range of the sync space is known to be consistent: no resync is due there, or a read has
    /// resynced it.
    #[inline]
    pub fn covers(&self, range: &Range<u64>) -> bool {
        range.end <= self.resync_from() || self.covers_here(range)
    }

    // Not inlined, so that requests to a consistent array stay small.
    #[inline(never)]
    fn covers_here(&self, range: &Range<u64>) -> bool {
        let unmarked = self.intent.borrow().as_ref().is_some_and(|intent| !intent.needs_resync(range));
        unmarked || self.by_reads.cover(range)
    }
}
