//! Shortens a failing history: leaves out steps without which it still fails.

use crate::campaign::try_history;
use crate::workload::History;
use crate::world::{Failure, Rules};
use std::time::{Duration, Instant};

/// Returns a history that still fails (in any way), with few steps, and its failure. Ends after `time_max`.
pub fn shrink(history: &History, failure: Failure, rules: Rules, time_max: Duration) -> (History, Failure) {
    let begun = Instant::now();
    let mut best = (history.clone(), failure);
    // Steps after the failure do not matter.
    let mut shorter = best.0.clone();
    shorter.steps.truncate(best.1.step + 1);
    if let Err(failure) = try_history(&shorter, rules) {
        best = (shorter, failure);
    }
    let mut chunk = best.0.steps.len().div_ceil(2).max(1);
    loop {
        let mut left_out = false;
        let mut start = 0;
        while start < best.0.steps.len() {
            if begun.elapsed() > time_max {
                return best;
            }
            let mut shorter = best.0.clone();
            shorter.steps.drain(start..(start + chunk).min(best.0.steps.len()));
            match try_history(&shorter, rules) {
                Err(failure) => {
                    best = (shorter, failure);
                    left_out = true;
                }
                Ok(_) => start += chunk,
            }
        }
        if chunk == 1 && !left_out {
            break;
        }
        chunk = (chunk / 2).max(1);
    }
    if best.0.depth > 1 {
        let shallow = History { depth: 1, ..best.0.clone() };
        if let Err(failure) = try_history(&shallow, rules) {
            best = (shallow, failure);
        }
    }
    best
}
