//! Where redundancy is consistent, and where a crash would leave it in doubt.

use crate::address::SyncSpace;
use crate::consistent_ranges::ConsistentRanges;
use crate::intent::Intent;
use crate::{ArrayConfig, Geometry, SyncSector, Synced};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use stria_block::Nanos;

/// The knowledge about the sync space.
pub(crate) struct Consistency {
    synced: Cell<Synced<SyncSpace>>,
    /// As far as this parity is not suspect, see [`ArrayConfig::suspects_parity`].
    parity_trusted: Cell<Synced<SyncSpace>>,
    /// The write-intent bitmap.
    pub intent: RefCell<Option<Intent>>,
    /// Where reads have done a resync.
    by_reads: ConsistentRanges,
}

impl Consistency {
    /// As it is at the start.
    pub fn new(config: &ArrayConfig, geometry: &Geometry) -> Self {
        let crashed = config.synced != Synced::All || config.suspects_parity;
        let intent = config.intent.as_ref().map(|intent| Intent::new(intent, geometry.sync_sectors(), crashed));
        Self {
            synced: Cell::new(if geometry.level().is_redundant() { config.synced } else { Synced::All }),
            parity_trusted: Cell::new(if config.suspects_parity { Synced::up_to(0) } else { Synced::All }),
            intent: RefCell::new(intent),
            by_reads: ConsistentRanges::default(),
        }
    }

    /// The resync position of the superblocks: redundancy is consistent up to there.
    pub fn synced(&self) -> Synced<SyncSpace> {
        self.synced.get()
    }

    /// True if parity is suspect somewhere, so that superblocks must not say "clean".
    pub fn suspects_parity(&self) -> bool {
        self.parity_trusted.get() != Synced::All
    }

    /// Trusts parity everywhere, as an engine with a flaw does.
    pub fn trust_parity(&self) {
        self.parity_trusted.set(Synced::All);
    }

    /// As far as this no resync is due.
    #[inline]
    pub fn resync_from(&self) -> Synced<SyncSpace> {
        self.synced.get().min(self.parity_trusted.get())
    }

    /// Redundancy is consistent below a position.
    pub fn mark_consistent_below(&self, synced: Synced<SyncSpace>) {
        for place in [&self.synced, &self.parity_trusted] {
            place.set(if place.get() == Synced::All { Synced::All } else { synced });
        }
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.mark_consistent_below(synced);
        }
        if synced == Synced::All {
            self.by_reads.forget();
        }
    }

    /// A write to `range` begins. Returns whether its bits must still be made durable (R2).
    #[inline]
    pub fn begin_write(&self, range: &Range<SyncSector>) -> bool {
        self.intent.borrow_mut().as_mut().is_some_and(|intent| intent.begin(range))
    }

    /// A write has ended.
    #[inline]
    pub fn end_write(&self, range: &Range<SyncSector>, now: Nanos) {
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.end(range, now);
        }
    }

    /// True if every bit of `range` is durable, or there is no bitmap.
    #[inline]
    pub fn has_durable_bits(&self, range: &Range<SyncSector>) -> bool {
        self.intent.borrow().as_ref().is_none_or(|intent| intent.is_durable(range))
    }

    /// The number of bitmap updates that could not be written.
    pub fn bit_refusals(&self) -> u64 {
        self.intent.borrow().as_ref().map_or(0, Intent::refusals)
    }

    /// True if a bit of `range` was to be set by an update that could not be written. The first `before` such updates do not
    /// count.
    pub fn were_bits_refused(&self, range: &Range<SyncSector>, before: u64) -> bool {
        self.intent.borrow().as_ref().is_some_and(|intent| intent.was_refused(range, before))
    }

    /// True if the members have a bitmap.
    pub fn has_bitmap(&self) -> bool {
        self.intent.borrow().is_some()
    }

    /// True if any bit is set that may be cleared one day.
    pub fn has_bits(&self) -> bool {
        self.intent.borrow().as_ref().is_some_and(Intent::has_bits)
    }

    /// A read has resynced this range.
    pub fn note_resync(&self, range: Range<SyncSector>) {
        self.by_reads.note(range);
    }

    /// True if redundancy of a range of the sync space is known to be consistent: no resync is due there, or a read has
    /// resynced it.
    #[inline]
    pub fn covers(&self, range: &Range<SyncSector>) -> bool {
        self.resync_from().covers(range.end) || self.covers_here(range)
    }

    // Not inlined, so that requests to a consistent array stay small.
    #[inline(never)]
    fn covers_here(&self, range: &Range<SyncSector>) -> bool {
        let unmarked = self.intent.borrow().as_ref().is_some_and(|intent| !intent.needs_resync(range));
        unmarked || self.by_reads.cover(range)
    }
}
