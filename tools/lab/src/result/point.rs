//! The varied properties: the key of measurements of the same thing.

use serde::{Deserialize, Serialize};

/// The varied properties: equal points measure the same thing, in other rounds, passes, runs or on other hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// [`super::TargetInfo::name`].
    pub target: String,
    /// Level of the array, if it is one.
    pub level: Option<String>,
    /// Its members.
    pub members: Option<u32>,
    /// Its strip.
    pub strip_bytes: Option<u64>,
    /// Its spans.
    pub spans: Option<u32>,
    /// Order of addresses.
    pub pattern: Pattern,
    /// Bytes per request; the mean of a mix of sizes.
    pub block_bytes: u64,
    /// A mix of sizes or places by name, `composite` or `database`; empty where all requests are alike.
    pub mix: String,
    /// Share of reads.
    pub read_percent: u8,
    /// Requests in flight in each thread.
    pub queue_depth: u32,
    /// Threads.
    pub threads: u32,
    /// Share of the written data that a controller could compress: 0 is random, 100 is zeros.
    pub compressible_percent: u8,
    /// The preparation of the drive.
    pub drive_state: DriveState,
    /// The state of the array.
    pub array_state: ArrayState,
    /// How requests are made.
    pub mode: IoMode,
    /// Anything else that is varied, in words: `wait 5 s`, `pre-write`, `few large files`. Empty: nothing.
    pub variant: String,
}

impl Point {
    /// Requests in flight in all threads, as far as they can be counted.
    pub fn outstanding(&self) -> u32 {
        self.queue_depth.saturating_mul(self.threads)
    }
}

/// Order of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// Uniformly random.
    Random,
}

/// The preparation of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// Nothing was done.
    AsFound,
    /// Just purged: fresh out of the box.
    Fresh,
    /// Purged, then written once in order.
    Filled,
    /// Written over and over: filled twice and written at random, preconditioned, or steady.
    Used,
    /// Used, then left alone for a while.
    Idle,
    /// Used, then discarded as a whole through the target.
    Trimmed,
}

/// The state of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayState {
    /// All members; also for what is no array.
    Optimal,
    /// A member missing.
    Degraded,
    /// A new member is being filled.
    Rebuilding,
    /// After that.
    Rebuilt,
    /// While everything is compared.
    Scrubbing,
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Past the page cache.
    Direct,
    /// Past the page cache, every write durable before it returns (O_DIRECT and O_DSYNC).
    DirectSync,
    /// Through the page cache, every write durable before it returns (O_DSYNC).
    WriteThrough,
    /// Through the page cache.
    Cached,
    /// Past the page cache, into a file without blocks of its own yet.
    Sparse,
}
