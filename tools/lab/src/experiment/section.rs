//! A part of an experiment: the test, the state of the drive, and the lengths and numbers of measurements.

use super::{LoadSpec, parse_split};
use crate::result::SectionKind;
use crate::units::Size;
use serde::{Deserialize, Serialize};

/// Preparation of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prepare {
    /// Nothing.
    AsFound,
    /// Purge only.
    Fresh,
    /// Purge, then one sequential fill.
    #[default]
    Filled,
    /// Purge, then two sequential fills and one random one.
    Used,
}

/// A part of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionSpec {
    /// Unique in the experiment.
    pub name: String,
    /// A heading; the name if not given.
    #[serde(default)]
    pub title: String,
    /// The test.
    pub test: SectionKind,
    /// Preparation of a sweep.
    #[serde(default)]
    pub state: Prepare,
    /// Passes over the loads of a sweep.
    #[serde(default = "one")]
    pub passes: u32,
    /// Seconds of a measurement.
    #[serde(default = "minute")]
    pub seconds: f64,
    /// Seconds before it that are not counted.
    #[serde(default)]
    pub warmup: f64,
    /// Requests in flight in each thread, for SNIA's tests (the operator's choice).
    #[serde(default = "sixteen")]
    pub queue_depth: u32,
    /// Threads, for the same.
    #[serde(default = "two")]
    pub threads: u32,
    /// Share of reads of the mixed load of `dirth` (RW1).
    #[serde(default = "sixty_five")]
    pub read_percent: u8,
    /// Seconds of rest in `states`.
    #[serde(default = "half_an_hour")]
    pub idle: f64,
    /// Loads of `sweep`, `states` and `raid`.
    #[serde(default)]
    pub load: Vec<LoadSpec>,
    /// Sets of files of `file-copy`.
    #[serde(default)]
    pub copy: Vec<CopySpec>,
    /// Applications whose look-alikes `replay` replays, one request at a time: `photoshop-light`.
    #[serde(default)]
    pub traces: Vec<String>,
    /// The file system that `file-copy` makes on a target without one.
    #[serde(default)]
    pub file_system: FileSystem,
}

/// A set of files that is copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopySpec {
    /// Their description: `many small files`.
    pub name: String,
    /// Sizes of the files and their shares in percent: `"4K/60:64K/40"`.
    pub sizes: String,
    /// Bytes of all files together; at most a third of the target's span.
    pub total: Size,
    /// Files that are copied at a time.
    #[serde(default = "one")]
    pub threads: u32,
}

/// The most files of a set; its total may be larger.
pub(crate) const FILES_OF_SET_MAX: u64 = 1_000_000;

impl CopySpec {
    /// The most files that it has: none is smaller than the smallest of its sizes, or half of all.
    pub(super) fn files_max(&self) -> u64 {
        let smallest = parse_split(&self.sizes).ok().and_then(|sizes| sizes.iter().map(|(bytes, _)| *bytes).min());
        (self.total.0 / smallest.unwrap_or(1).max(1)).clamp(2, FILES_OF_SET_MAX)
    }
}

/// A file system that is made for a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// ext4
    #[default]
    Ext4,
    /// XFS
    Xfs,
}

fn one() -> u32 {
    1
}
fn two() -> u32 {
    2
}
fn sixteen() -> u32 {
    16
}
fn sixty_five() -> u8 {
    65
}
fn minute() -> f64 {
    60.0
}
fn half_an_hour() -> f64 {
    1800.0
}
