//! The measurements of a load.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Latencies in nanoseconds; all 0 when there was no such operation. Error under 0.1 % (HDR histogram).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub count: u64,
    pub mean_ns: f64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Results of one load, its warm-up left out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Measured time.
    pub elapsed: Duration,
    /// Reads and writes that ended in it.
    pub operations: u64,
    /// Bytes of each of them.
    pub block_bytes: u32,
    /// CPU time in it: of the calling thread, or, when the device uses an io_uring, of the process, because the
    /// kernel's workers for a ring count as its threads.
    pub cpu: Duration,
    /// Submission to completion as the client sees it: once per turn of its loop, so it includes waiting for the turn.
    pub reads: Latency,
    /// As above.
    pub writes: Latency,
    /// As above; not in `operations`.
    pub flushes: Latency,
    /// Blocks compared with the ledger.
    pub verified_blocks: u64,
}

impl Outcome {
    /// Operations per second.
    pub fn iops(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Megabytes (10^6) per second.
    pub fn mb_per_s(&self) -> f64 {
        self.iops() * f64::from(self.block_bytes) / 1e6
    }

    /// CPU nanoseconds per operation.
    pub fn cpu_ns_per_io(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.operations.max(1) as f64
    }
}

/// Collects latencies without allocation.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// 1 ns to 100 s in steps of 0.1 %; a longer latency counts as 100 s.
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("these bounds are in order"))
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    pub(crate) fn summary(&self) -> Latency {
        if self.0.is_empty() {
            return Latency::default();
        }
        let at = |percentile| self.0.value_at_percentile(percentile);
        Latency {
            count: self.0.len(),
            mean_ns: self.0.mean(),
            min_ns: self.0.min(),
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            max_ns: self.0.max(),
        }
    }
}
