//! What the simulator knows of redundancy: it decides which faults the array must survive.

use std::collections::BTreeSet;

/// Redundancy, as it is on the drives.
pub struct Redundancy {
    /// A crash together with lost members harms no data at rest, and leaves each request done or not begun.
    pub write_hole_closed: bool,
    /// The log names all rows that may be inconsistent, and the superblocks make it valid. False before the end of the first
    /// resync.
    pub firm: bool,
    /// All redundancy is consistent.
    pub settled: bool,
    /// Members or sweeps may still change by themselves.
    pub watched: bool,
    /// Drives that were dropped at a power cut, and returned as members in sync.
    pub rejoined: BTreeSet<usize>,
    /// True of each drive that the engine may drop.
    pub suspect: Vec<bool>,
}

impl Redundancy {
    /// That of a new array.
    pub fn new(closes_write_hole: bool, is_consistent: bool, drive_count: usize) -> Self {
        Self {
            write_hole_closed: closes_write_hole,
            firm: is_consistent,
            settled: false,
            watched: true,
            rejoined: BTreeSet::new(),
            suspect: vec![false; drive_count],
        }
    }

    /// True if a member may be lost with a crash.
    pub fn survives_crash_with_loss(&self) -> bool {
        self.write_hole_closed && self.firm
    }
}
