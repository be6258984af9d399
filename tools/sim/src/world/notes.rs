//! What is noted of a history: its tally, the phase for failures, and the requests of a trace.

use super::tally::Tally;
use std::ops::Range;

/// The notes.
pub struct Notes {
    /// The cost, and the coverage.
    pub tally: Tally,
    /// The present phase, for failures.
    pub phase: &'static str,
    /// The sectors whose requests a trace shows; `None`: all.
    pub only: Option<Range<u64>>,
}

impl Notes {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { tally: Tally::default(), phase: "as it goes", only: None }
    }

    /// Counts an event.
    pub fn meet(&mut self, what: &str) {
        match self.tally.met.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.tally.met.insert(what.to_owned(), 1)),
        }
    }

    /// True if a trace shows a request.
    pub fn shows(&self, range: &Range<u64>) -> bool {
        let concerns = |only: &Range<u64>| range.is_empty() || only.start < range.end && range.start < only.end;
        self.only.as_ref().is_none_or(concerns)
    }
}
