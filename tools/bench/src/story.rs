//! The events of an array over time: steps and samples, as plain data for the report.
//!
//! Filled by the program that runs the demonstration (serves, pulls drives, rebuilds); drawn by [`report`](crate::report).

use serde::Serialize;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Ending {
    /// Good.
    Good,
    /// Something to know, nothing lost.
    Notable,
    /// A failure.
    Bad,
}

/// An action or event.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Seconds since the story began.
    pub at_s: f64,
    /// In a few words: "pull drive 3".
    pub what: String,
    /// In a sentence.
    pub detail: String,
    /// The result.
    pub ending: Ending,
}

/// The rates of clients at a moment, and the state of the array.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Seconds since the story began.
    pub at_s: f64,
    /// Clients' reads, 10^6 bytes per second.
    pub read_mb_per_s: f64,
    /// Clients' writes.
    pub write_mb_per_s: f64,
    /// Rebuild or scrub, 10^6 bytes of each member per second.
    pub sweep_mb_per_s: f64,
    /// Members in sync.
    pub members_in_sync: usize,
}

/// An array's story.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// "RAID 6 of 6 loses two drives".
    pub title: String,
    /// The result, in plain words.
    pub verdict: String,
    /// In order of time.
    pub steps: Vec<Step>,
    /// In order of time; may be empty.
    pub samples: Vec<Sample>,
}
