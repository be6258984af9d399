//! A measurement second by second.

use serde::{Deserialize, Serialize};

/// A record over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Milliseconds that a sample stands for; the last may stand for fewer.
    pub interval_ms: u64,
    /// Samples in order.
    pub samples: Vec<Sample>,
    /// Progress of rebuild or scrub meanwhile.
    pub sweep: Vec<SweepSample>,
}

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, since the measurement began.
    pub at_ms: u64,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Read, 10^6 bytes per second.
    pub read_mb_per_s: f64,
    /// Written, 10^6 bytes per second.
    pub write_mb_per_s: f64,
    /// Mean latency of all requests; absent where none ended, or fio logged none.
    #[serde(default)]
    pub latency_mean_ns: Option<f64>,
}

/// How far a rebuild or scrub was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepSample {
    /// Since the measurement began.
    pub at_ms: u64,
    /// `rebuild`, `scrub`, `resync`; empty when none ran.
    pub kind: String,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes in total.
    pub total_bytes: u64,
}
