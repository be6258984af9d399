//! Deliberate bugs are found, each within so many seeds.

use stria_sim::campaign::first_failure;
use stria_sim::{Mutant, Rules};

fn is_found(mutant: Mutant, family: &str, seeds: u64) {
    let rules = Rules { mutant: Some(mutant), ..Rules::default() };
    let found = first_failure(1..1 + seeds, Some(family), rules);
    assert!(found.is_some(), "{mutant:?} lived through {seeds} histories of RAID {family}");
}
