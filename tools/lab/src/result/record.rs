//! One measurement: its place in the plan, and its figures.

use super::Point;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measurement: one run of fio, on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 0 in this run; names `raw/00012.json`. Records of several hosts share the raw file of the first.
    pub index: u32,
    /// [`super::Section::id`].
    pub section: String,
    /// Part of the preparation, not of the result.
    pub preparation: bool,
    /// What was measured.
    pub point: Point,
    /// Round (SNIA) or pass (others), from 1.
    pub round: u32,
    /// The step in its round, from 0: with section and round the place in the plan.
    pub step: u32,
    /// When it began.
    pub begun_ms: u64,
    /// The measurements of fio, or of another load generator.
    #[serde(flatten)]
    pub measured: Measured,
    /// `raw/00012.json`, in the run folder.
    pub raw: String,
    /// `series/00012.json`, if a series was taken.
    pub series: Option<String>,
    /// The work of each member meanwhile, if it is known.
    pub members: Vec<MemberFigures>,
    /// Single figures that only some sections have: `rebuild_seconds`, `reclaimed_bytes`, `scrub_seconds`, `mismatch_sectors`.
    pub extra: BTreeMap<String, f64>,
}

impl std::ops::Deref for Record {
    type Target = Measured;

    fn deref(&self) -> &Measured {
        &self.measured
    }
}

impl std::ops::DerefMut for Record {
    fn deref_mut(&mut self) -> &mut Measured {
        &mut self.measured
    }
}

/// The measurement of one load, on one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The host, where several work together; empty: this machine. `all` is the sum over hosts.
    pub host: String,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Reads, if there were any.
    pub read: Option<Figures>,
    /// Writes, if there were any.
    pub write: Option<Figures>,
    /// Discards, if there were any.
    pub trim: Option<Figures>,
    /// All requests together.
    pub total: Figures,
    /// CPU of the load generator in percent of one CPU, over all threads: user.
    pub cpu_user_percent: f64,
    /// The same: system.
    pub cpu_system_percent: f64,
    /// Requests that failed, or 1 where fio only reports that there was an error.
    pub errors: u64,
    /// The reason why it is not a result: requests failed, or it ended long before its time. Such a record is stored and shown,
    /// but never counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Measured {
    /// A figure that no measurement has: not finite, or beyond 10^15 (requests, bytes: beyond 10^17). Sums of such figures could
    /// overflow.
    pub fn impossible(&self) -> Option<f64> {
        let of = |figures: &Figures| {
            let Latency { min_ns, mean_ns, stddev_ns, p50_ns, p99_ns, p999_ns, p99999_ns, max_ns, .. } = figures.latency;
            let phases = [figures.submission, figures.completion].into_iter().flatten();
            let phases = phases.flat_map(|phase| [phase.min_ns, phase.mean_ns, phase.stddev_ns, phase.max_ns]);
            let bins = figures.latency.bins.iter().flat_map(|(ns, count)| [*ns as f64, *count as f64]);
            let own = [figures.iops, figures.mb_per_s, min_ns, mean_ns, stddev_ns, max_ns];
            let percentiles = [p50_ns, p99_ns, p999_ns, p99999_ns].into_iter().flatten();
            let whole = [figures.requests as f64 / 100.0, figures.bytes as f64 / 100.0];
            own.into_iter()
                .chain(percentiles)
                .chain(whole)
                .chain(phases)
                .chain(bins)
                .find(|figure| !(0.0..=1e15).contains(figure))
        };
        let own = [self.seconds, self.cpu_user_percent, self.cpu_system_percent, self.errors as f64];
        let own = own.into_iter().find(|figure| !(0.0..=1e15).contains(figure));
        own.or_else(|| [&self.read, &self.write, &self.trim].into_iter().flatten().chain([&self.total]).find_map(of))
    }
}

/// Figures of one direction, or of all together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Latency from submission to completion.
    pub latency: Latency,
    /// The part of it until a request was handed over (fio's slat), where fio reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Phase>,
    /// The part from there to the end (fio's clat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Phase>,
}

/// A part of latency, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Smallest.
    pub min_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Largest.
    pub max_ns: f64,
}

/// Latency in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Smallest.
    pub min_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Half are faster. Unknown, as all percentiles, if fio was told to measure none.
    #[serde(default)]
    pub p50_ns: Option<f64>,
    /// 99 of 100 are faster.
    #[serde(default)]
    pub p99_ns: Option<f64>,
    /// 999 of 1000 are faster.
    #[serde(default)]
    pub p999_ns: Option<f64>,
    /// 99,999 of 100,000 are faster: SNIA's five nines.
    #[serde(default)]
    pub p99999_ns: Option<f64>,
    /// Largest.
    pub max_ns: f64,
    /// Histogram: value in nanoseconds as fio bins it, requests in that bin; ascending, without empty bins.
    pub bins: Vec<(u64, u64)>,
}

/// The work of one member during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberFigures {
    /// Its path.
    pub path: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Errors.
    pub errors: u64,
    /// Reads of clients that other members answered because this one took too long (hedged reads), on arrays of Stria.
    #[serde(default)]
    pub hedged_reads: u64,
    /// Mean time of its requests, where it can be seen (block devices).
    pub latency_mean_ns: Option<f64>,
    /// The largest mean over any second of the measurement.
    pub latency_worst_second_ns: Option<f64>,
    /// Degrees Celsius at the end.
    pub temperature_c: Option<f64>,
    /// Bytes that its file takes (image files).
    pub allocated_bytes: Option<u64>,
}
