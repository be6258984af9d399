//! Random numbers of a history, each kind in a sequence of its own, so that a new kind of step leaves older histories as they
//! are.

use crate::chance::Chance;
use crate::drive::Keep;

/// The sequences.
pub struct Draws {
    /// For what histories had from the beginning.
    pub first: Chance,
    /// For steps that histories originally did not have.
    pub more: Chance,
    /// For starts.
    pub starts: Chance,
    /// For harsher faults of drives.
    pub harsh: Chance,
}

impl Draws {
    /// The sequences of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            first: Chance::new(seed, 2),
            more: Chance::new(seed, 9),
            starts: Chance::new(seed, 18),
            harsh: Chance::new(seed, 23),
        }
    }

    /// The part of a cache that survives a power cut.
    pub fn keep(&mut self) -> Keep {
        match self.first.below(4) {
            0 => Keep::None,
            1 => Keep::All,
            _ => Keep::Some(self.first.pick(&[1, 4, 7])),
        }
    }
}
