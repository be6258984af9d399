//! A part of the experiment on one target, and whether it became steady.

use serde::{Deserialize, Serialize};

/// A part of an experiment on one target: a SNIA test, a sweep, a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Unique in the run; [`super::Record::section`] names it: `1-iops/raid5 x4 64K`.
    pub id: String,
    /// The name in the experiment.
    pub name: String,
    /// A heading.
    pub title: String,
    /// The kind of the section; a report's form depends on it.
    pub kind: SectionKind,
    /// [`super::TargetInfo::name`].
    pub target: String,
    /// The method by which the target was purged, and the methods tried before: `nvme format`, `blkdiscard`, `overwrite`,
    /// `skipped: …`.
    pub purge: Option<String>,
    /// Preconditioning in words: `sequential 128 KiB writes, twice the span`.
    pub precondition: Option<String>,
    /// Rounds or passes measured.
    pub rounds: u32,
    /// The verdict on steadiness, where the section asks for it.
    pub steady: Option<SteadyVerdict>,
    /// The verdicts on its earlier series of rounds: Throughput has a series for each block size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steady_before: Vec<SteadyVerdict>,
    /// The reason why it was given up, if it was: its preparation failed, or nothing could be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// When it began; absent: not yet.
    pub begun_ms: Option<u64>,
    /// When it was done; absent: not yet.
    pub ended_ms: Option<u64>,
}

impl Section {
    /// All verdicts on steadiness, in the order of the series.
    pub fn verdicts(&self) -> impl Iterator<Item = &SteadyVerdict> {
        self.steady_before.iter().chain(&self.steady)
    }
}

/// The kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SectionKind {
    /// Any product of what is varied, measured in passes.
    Sweep,
    /// SNIA PTS: IOPS, 56 cells.
    Iops,
    /// SNIA PTS: Throughput.
    Throughput,
    /// SNIA PTS: Latency.
    Latency,
    /// SNIA PTS: Write Saturation.
    Wsat,
    /// SNIA PTS: Host Idle Recovery.
    Hir,
    /// SNIA PTS: Cross Stimulus Recovery.
    Xsr,
    /// SNIA PTS: Demand Intensity and Response Time Histogram.
    Dirth,
    /// SNIA PTS: Composite Block Workload.
    Composite,
    /// Fresh, used, idle, trimmed.
    States,
    /// An array loses a member, is rebuilt, scrubbed, trimmed; [`super::Point::array_state`] tells.
    Raid,
    /// Copy of files.
    FileCopy,
    /// Replay of a trace.
    Replay,
}

fn every_round() -> u32 {
    1
}

/// The verdict on whether the last five rounds of the tracked cell were steady, by both criteria of SNIA PTS 2.0, section 3.1.
/// With fewer than five rounds there is no window: the rounds that begin and end it are 0, and so are its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyVerdict {
    /// Both criteria hold.
    pub reached: bool,
    /// First round of the window, from 1 over the rounds that count.
    pub first_round: u32,
    /// Last round of the window.
    pub last_round: u32,
    /// The tracked figure: `IOPS of random 4 KiB writes`.
    pub tracked: String,
    /// Unit of the values: `IOPS`, `MB/s`, `us`.
    pub unit: String,
    /// The tracked value in every round, from round 1.
    pub values: Vec<f64>,
    /// Mean over the window.
    pub mean: f64,
    /// Largest less smallest in the window.
    pub excursion: f64,
    /// Allowed: 20 % of the mean.
    pub excursion_allowed: f64,
    /// Least-squares slope per round.
    pub slope: f64,
    /// Its value at round 0: the line is `slope * round + intercept`.
    pub intercept: f64,
    /// |slope| times the rounds between first and last.
    pub slope_excursion: f64,
    /// Allowed: 10 % of the mean.
    pub slope_excursion_allowed: f64,
    /// Only every n-th round counts, from the first; 1 also for runs of older programs, which did not store it.
    #[serde(default = "every_round")]
    pub stride: u32,
    /// Rounds allowed; at that many the window is the last five.
    pub rounds_max: u32,
    /// Steps whose rounds were counted, from and to before: other parts of the section have no window.
    #[serde(default)]
    pub steps: Option<(u32, u32)>,
}

impl SteadyVerdict {
    /// False if it ended with fewer than five rounds that count.
    pub fn has_window(&self) -> bool {
        self.first_round > 0
    }

    /// The number that a round that counts has among all rounds.
    pub fn among_all(&self, counted: u32) -> u32 {
        counted.saturating_sub(1).saturating_mul(self.stride.max(1)).saturating_add(counted.min(1))
    }
}
