//! Steps that are done together, their order, and their repetition.

use super::copies::CopySet;
use super::demand::Demand;
use super::load::Load;
use super::traces::AppTrace;
use crate::result::{Pattern, Record};
use crate::steady::WINDOW_ROUNDS;

/// A change of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaidAction {
    /// Its first member is failed.
    Fail,
    /// That member returns empty: a rebuild begins.
    Refill,
    /// A scrub compares everything.
    Scrub,
}

/// A step of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Purge.
    Purge,
    /// Write the entire span a number of times; a preparation with a record.
    Fill {
        /// Times.
        fills: f64,
        /// Size of requests.
        block_bytes: u64,
        /// Order; random: as many requests as fill it, anywhere.
        pattern: Pattern,
    },
    /// Measure.
    Load(Load),
    /// Measure with the threads and depth that the earlier rounds found.
    Demand(Demand, Load),
    /// Measure, and change the array in this way as soon as the load runs.
    LoadDuring(Load, RaidAction),
    /// Change the array in this way.
    Raid(RaidAction),
    /// Wait until no rebuild or scrub runs.
    WaitForSweep,
    /// Idle.
    Idle {
        /// The duration.
        seconds: f64,
    },
    /// Discard all of the span, through the target.
    Trim,
    /// Copy files in a file system on the target.
    Copy(CopySet),
    /// Replay an application's look-alike, one request at a time.
    Replay(AppTrace),
}

impl Step {
    /// Its load, if fio runs for a time.
    pub fn load(&self) -> Option<&Load> {
        match self {
            Self::Load(load) | Self::Demand(_, load) | Self::LoadDuring(load, _) => Some(load),
            Self::Purge | Self::Fill { .. } | Self::Raid(_) | Self::WaitForSweep => None,
            Self::Idle { .. } | Self::Trim | Self::Copy(_) | Self::Replay(_) => None,
        }
    }
}

/// The figure of a load that is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests per second.
    Iops,
    /// 10^6 bytes per second.
    MbPerS,
    /// Mean latency in microseconds.
    LatencyUs,
}

impl Metric {
    /// Its value in a record.
    pub fn of(self, record: &Record) -> f64 {
        match self {
            Self::Iops => record.total.iops,
            Self::MbPerS => record.total.mb_per_s,
            Self::LatencyUs => record.total.latency.mean_ns / 1e3,
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
            Self::LatencyUs => "us",
        }
    }
}

/// The figure that is to become steady, and the limit of rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Index of the tracked step in the stage.
    pub step: usize,
    /// The figure.
    pub metric: Metric,
    /// The figure in words.
    pub tracked: String,
    /// Rounds at most.
    pub rounds_max: u32,
    /// Only every n-th round counts.
    pub stride: u32,
    /// Or until this many bytes are written.
    pub bytes_max: Option<u64>,
}

/// The repetition of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Rounds {
    /// A number of times.
    Times(u32),
    /// Until the tracked figure is steady.
    UntilSteady(Goal),
    /// While a rebuild or scrub runs, at most this many times; not at all if it has ended already.
    WhileSweep(u32),
}

/// Steps that are done together, in rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name in the progress.
    pub title: String,
    /// The steps.
    pub steps: Vec<Step>,
    /// The repetition.
    pub rounds: Rounds,
}

impl Stage {
    /// In rounds.
    pub fn new(title: &str, steps: Vec<Step>, rounds: Rounds) -> Self {
        Self { title: title.into(), steps, rounds }
    }

    /// Done once.
    pub fn once(title: &str, steps: Vec<Step>) -> Self {
        Self::new(title, steps, Rounds::Times(1))
    }

    /// Fewest and most rounds.
    pub fn rounds_range(&self) -> (u32, u32) {
        match &self.rounds {
            Rounds::Times(times) => (*times, *times),
            Rounds::UntilSteady(goal) => ((goal.stride * (WINDOW_ROUNDS - 1) + 1).min(goal.rounds_max), goal.rounds_max),
            Rounds::WhileSweep(most) => (0, *most),
        }
    }
}
