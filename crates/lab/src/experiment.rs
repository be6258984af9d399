//! Experiments: TOML files that say what is varied and how it is measured.
//!
//! ```toml
//! name = "mine"
//! title = "Strips under a database"
//! question = "Which strip serves 8 KiB random requests best?"
//!
//! [arrays]                       # optional: arrays are built on the drives that are given
//! levels = ["5", "6"]
//! members = [4, 6]
//! strips = ["16K", "64K"]
//!
//! [[section]]
//! name = "oltp"
//! test = "sweep"
//! state = "used"
//! passes = 3
//! seconds = 60
//! load = [{ pattern = "random", block = "8K", read_percent = [100, 70, 0], queue_depth = [1, 16] }]
//! ```
//! Every key is checked, and so is what it says: see docs/LAB.md for all of them.

use crate::result::{IoMode, Pattern, SectionKind};
use crate::units::Size;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

/// The key of [`crate::result::Record::extra`] for the middle of a part of the addresses, where `parts` divides them.
pub const PLACE_PERCENT: &str = "place_percent";

/// An experiment that cannot be used: which file, where, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// How it is called on the command line.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What it finds out.
    pub question: String,
    /// It is a trial by nature: always scaled.
    #[serde(default)]
    pub always_scaled: bool,
    /// What a trial is.
    #[serde(default)]
    pub scaled: Scaling,
    /// Arrays to build on the drives that are given; without them the experiment runs on `--target`.
    pub arrays: Option<Arrays>,
    /// What is done, in order, on every target.
    pub section: Vec<SectionSpec>,
}

/// How a trial is made short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scaling {
    /// Seconds for what takes a minute.
    pub seconds: f64,
    /// Bytes of the target that are used.
    pub span: Size,
    /// Rounds at most.
    pub rounds_max: u32,
    /// Repetitions at most of what is repeated for hours.
    pub samples_max: u32,
    /// Passes at most of what is not SNIA's.
    pub passes_max: u32,
    /// Numbers of drives, instead of those of `arrays`.
    pub members: Vec<u32>,
    /// Strips, instead of those of `arrays`.
    pub strips: Vec<Size>,
}

impl Default for Scaling {
    fn default() -> Self {
        let (members, strips) = (Vec::new(), Vec::new());
        Self { seconds: 1.0, span: Size(256 << 20), rounds_max: 6, samples_max: 12, passes_max: 3, members, strips }
    }
}

/// Arrays to build: all products that can be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrays {
    /// Levels: 0, 1, 4, 5, 6, 10, 50, 60, jbod.
    pub levels: Vec<String>,
    /// Drives in an array.
    pub members: Vec<u32>,
    /// Strips.
    #[serde(default = "default_strips")]
    pub strips: Vec<Size>,
    /// Spans of 50 and 60.
    #[serde(default = "default_spans")]
    pub spans: Vec<u32>,
    /// Also measure the same numbers of drives without an array, each with its own thread.
    #[serde(default = "yes")]
    pub bare: bool,
}

fn default_strips() -> Vec<Size> {
    vec![Size(64 << 10)]
}

fn default_spans() -> Vec<u32> {
    vec![2]
}

fn yes() -> bool {
    true
}

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
    /// Which test.
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
    /// The file system that `file-copy` makes on what has none.
    #[serde(default)]
    pub file_system: FileSystem,
}

/// A set of files that is copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopySpec {
    /// What they are, in words: `many small files`.
    pub name: String,
    /// Sizes and their shares of the files in percent: `"4K/60:64K/40"`.
    pub sizes: String,
    /// Bytes of all together; at most a third of the target's span.
    pub total: Size,
    /// Files at a time.
    #[serde(default = "one")]
    pub threads: u32,
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

/// A load: what is given as a list is varied, and all products are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Order of addresses.
    pub pattern: Many<Pattern>,
    /// Bytes of a request.
    #[serde(default = "four_k")]
    pub block: Many<Size>,
    /// Share of reads.
    #[serde(default = "all")]
    pub read_percent: Many<u8>,
    /// Requests in flight in each thread.
    #[serde(default = "single")]
    pub queue_depth: Many<u32>,
    /// Threads.
    #[serde(default = "single")]
    pub threads: Many<u32>,
    /// Share of the data that could be compressed: 0 is random, 100 is zeros.
    #[serde(default = "none")]
    pub compressible_percent: Many<u8>,
    /// How requests are made.
    #[serde(default = "direct")]
    pub mode: Many<IoMode>,
    /// A name for a load whose requests differ: `database`.
    #[serde(default)]
    pub mix: String,
    /// Sizes and their shares in percent, instead of `block`: `"8K/70:64K/30"`.
    pub block_split: Option<String>,
    /// Share of requests to a share of the addresses, both in percent: `"50/5:30/15:20/80"`.
    pub zones: Option<String>,
    /// A flush after so many writes.
    pub flush_every: Option<u32>,
    /// So many equal parts of the addresses, measured one after the other.
    pub parts: Option<u32>,
    /// More options of fio's, for this load; those that the lab sets itself are refused.
    #[serde(default)]
    pub fio: BTreeMap<String, Text>,
}

/// A value of fio's, written as text, number or truth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// `"zipf:1.2"`
    Words(String),
    /// `1`
    Whole(i64),
    /// `0.5`
    Number(f64),
    /// `true` is 1.
    Truth(bool),
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => out.write_str(words),
            Self::Whole(number) => write!(out, "{number}"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Truth(truth) => write!(out, "{}", u8::from(*truth)),
        }
    }
}

/// What a load's own options of fio's may not change: where it goes, how long it takes, what is recorded of it, and what other keys say.
const OWN_OPTIONS: &[&str] = &[
    "filename",
    "uri",
    "directory",
    "size",
    "io_size",
    "offset",
    "offset_increment",
    "runtime",
    "time_based",
    "ramp_time",
    "bs",
    "blocksize",
    "bssplit",
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "iodepth",
    "numjobs",
    "group_reporting",
    "direct",
    "exec_prerun",
    "exec_postrun",
    "include",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "log_avg_msec",
    "loops",
];

fn four_k() -> Many<Size> {
    Many(vec![Size(4096)])
}
fn all() -> Many<u8> {
    Many(vec![100])
}
fn single() -> Many<u32> {
    Many(vec![1])
}
fn none() -> Many<u8> {
    Many(vec![0])
}
fn direct() -> Many<IoMode> {
    Many(vec![IoMode::Direct])
}

/// One or several of a kind: `4` or `[1, 4, 16]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Many<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ManyVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
            type Value = Many<T>;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("one value, or a list of them in [ ]")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(text.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                T::deserialize(value.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(sequence)).map(Many)
            }
        }
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

/// Sizes with their shares, as fio's `bssplit` has them.
///
/// # Errors
/// When it is not written so, or the shares do not make 100.
pub fn parse_split(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let bad = || format!("\"{text}\" does not split: write SIZE/PERCENT:SIZE/PERCENT, as \"8K/70:64K/30\"");
    let part = |part: &str| {
        let (size, share) = part.split_once('/').ok_or_else(bad)?;
        Ok((crate::units::parse_size(size)?, share.parse::<f64>().map_err(|_| bad())?))
    };
    let parts: Vec<(u64, f64)> = text.split(':').map(part).collect::<Result<_, String>>()?;
    let sum: f64 = parts.iter().map(|(_, share)| share).sum();
    if (sum - 100.0).abs() > 0.01 {
        return Err(format!("the shares of \"{text}\" make {sum} percent; they must make 100"));
    }
    Ok(parts)
}

impl Experiment {
    /// Reads an experiment; `name` is the file, for the words of an error.
    ///
    /// # Errors
    /// With file, line, key and what is allowed.
    pub fn parse(name: &str, text: &str) -> Result<Self, SchemaError> {
        let experiment: Self =
            toml::from_str(text).map_err(|error| SchemaError(format!("{name}: {}", error.to_string().trim_end())))?;
        experiment.check().map_err(|problem| SchemaError(format!("{name}: {problem}")))?;
        Ok(experiment)
    }

    /// Reads an experiment from a file, or the shipped one of this name.
    ///
    /// # Errors
    /// When there is neither, or it cannot be used.
    pub fn find(name: &str) -> Result<(Self, String), SchemaError> {
        if let Some((file, text)) = crate::shipped::EXPERIMENTS.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name))
        {
            return Self::parse(file, text).map(|experiment| (experiment, (*text).to_owned()));
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|error| {
            SchemaError(format!(
                "\"{name}\" is no shipped experiment (see `stria lab list`) and cannot be read as a file: {error}"
            ))
        })?;
        Self::parse(name, &text).map(|experiment| (experiment, text))
    }

    /// The arrays to build; fewer in a trial, where the experiment says which.
    pub fn arrays(&self, scaled: bool) -> Option<Arrays> {
        let mut arrays = self.arrays.clone()?;
        if scaled && !self.scaled.members.is_empty() {
            arrays.members.clone_from(&self.scaled.members);
        }
        if scaled && !self.scaled.strips.is_empty() {
            arrays.strips.clone_from(&self.scaled.strips);
        }
        Some(arrays)
    }

    /// What of it only reads: loads of sweeps without preparation.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn read_only(mut self) -> Result<Self, SchemaError> {
        self.section.retain_mut(|section| {
            section.state = Prepare::AsFound;
            for load in &mut section.load {
                load.read_percent.0.retain(|share| *share == 100);
                load.mode.0.retain(|mode| *mode != IoMode::Sparse);
            }
            section.load.retain(|load| !load.read_percent.0.is_empty() && !load.mode.0.is_empty());
            section.test == SectionKind::Sweep && !section.load.is_empty()
        });
        if self.section.is_empty() {
            return Err(SchemaError(format!("nothing of experiment {} only reads", self.name)));
        }
        Ok(self)
    }

    fn check(&self) -> Result<(), String> {
        let within = |key: &str, value: f64, from: f64, to: f64| match (from..=to).contains(&value) {
            true => Ok(()),
            false => Err(format!("{key} = {value} cannot be: allowed is {from} to {to}")),
        };
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(format!("name = \"{}\" cannot be: allowed are letters, digits, - _ .", self.name));
        }
        if self.section.is_empty() {
            return Err("there is no [[section]]: an experiment needs at least one".into());
        }
        within("scaled.seconds", self.scaled.seconds, 0.1, 60.0)?;
        within("scaled.passes_max", self.scaled.passes_max.into(), 1.0, 1000.0)?;
        within("scaled.rounds_max", self.scaled.rounds_max.into(), 1.0, 25.0)?;
        within("scaled.samples_max", self.scaled.samples_max.into(), 1.0, 1440.0)?;
        within("scaled.span", self.scaled.span.0 as f64, (8 << 20) as f64, 1e15)?;
        for arrays in [self.arrays(false), self.arrays(true)].into_iter().flatten() {
            const LEVELS: [&str; 9] = ["0", "1", "4", "5", "6", "10", "50", "60", "jbod"];
            if let Some(level) = arrays.levels.iter().find(|level| !LEVELS.contains(&level.as_str())) {
                return Err(format!("arrays.levels: \"{level}\" is no level: allowed are {}", LEVELS.join(", ")));
            }
            for &members in &arrays.members {
                within("arrays.members", members.into(), 1.0, 256.0)?;
            }
            for strip in &arrays.strips {
                if !strip.0.is_power_of_two() || !(4096..=1 << 20).contains(&strip.0) {
                    return Err(format!("arrays.strips: {} cannot be: allowed is a power of two from 4K to 1M", strip.0));
                }
            }
        }
        for (at, section) in self.section.iter().enumerate() {
            let key = |key: &str| format!("section \"{}\": {key}", section.name);
            if section.name.is_empty()
                || section.name.contains('/')
                || self.section[..at].iter().any(|other| other.name == section.name)
            {
                return Err(format!("section {}: name = \"{}\" must be unique, not empty and without /", at + 1, section.name));
            }
            within(&key("seconds"), section.seconds, 0.5, 86400.0)?;
            within(&key("warmup"), section.warmup, 0.0, 86400.0)?;
            within(&key("idle"), section.idle, 0.0, 864_000.0)?;
            within(&key("passes"), section.passes.into(), 1.0, 1000.0)?;
            within(&key("queue_depth"), section.queue_depth.into(), 1.0, 4096.0)?;
            within(&key("threads"), section.threads.into(), 1.0, 1024.0)?;
            within(&key("read_percent"), section.read_percent.into(), 0.0, 100.0)?;
            let needs_loads = matches!(section.test, SectionKind::Sweep | SectionKind::States | SectionKind::Raid);
            if section.test == SectionKind::Replay {
                return Err(key("test = \"replay\" cannot be in an experiment: use `stria lab replay`"));
            }
            if (section.test == SectionKind::FileCopy) == section.copy.is_empty() {
                return Err(key("file-copy needs at least one copy, and no other test has any"));
            }
            for copy in &section.copy {
                parse_split(&copy.sizes).map_err(|problem| format!("{}: {problem}", key("copy.sizes")))?;
                within(&key("copy.threads"), copy.threads.into(), 1.0, 1024.0)?;
                within(&key("copy.total"), copy.total.0 as f64, 4096.0, 1e15)?;
            }
            if needs_loads == section.load.is_empty() {
                let rule = match section.test {
                    _ if needs_loads => "needs at least one load",
                    SectionKind::FileCopy => "copies files and takes no load",
                    _ => "is fixed by SNIA and takes no load",
                };
                return Err(key(&format!("the test {rule}")));
            }
            for (at, load) in section.load.iter().enumerate() {
                let key = |name: &str| format!("section \"{}\": load {}: {name}", section.name, at + 1);
                for block in &load.block.0 {
                    if block.0 < 512 || block.0 % 512 != 0 || block.0 > 64 << 20 {
                        return Err(format!("{} = {} cannot be: allowed is a multiple of 512 up to 64M", key("block"), block.0));
                    }
                }
                for &share in load.read_percent.0.iter().chain(&load.compressible_percent.0) {
                    within(&key("read_percent and compressible_percent"), share.into(), 0.0, 100.0)?;
                }
                for &depth in &load.queue_depth.0 {
                    within(&key("queue_depth"), depth.into(), 1.0, 4096.0)?;
                }
                for &threads in &load.threads.0 {
                    within(&key("threads"), threads.into(), 1.0, 1024.0)?;
                }
                if let Some(split) = &load.block_split {
                    parse_split(split).map_err(|problem| format!("{}: {problem}", key("block_split")))?;
                }
                if let Some(zones) = &load.zones {
                    parse_split(zones).map_err(|problem| format!("{}: {problem}", key("zones")))?;
                }
                if let Some(parts) = load.parts {
                    within(&key("parts"), parts.into(), 2.0, 256.0)?;
                }
                for (option, value) in &load.fio {
                    let is_name = option.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                    if !is_name || OWN_OPTIONS.contains(&option.as_str()) || value.to_string().contains('\n') {
                        return Err(format!(
                            "{} cannot be: the lab sets it itself, or it is no option of fio's",
                            key(&format!("fio.{option}"))
                        ));
                    }
                }
                if load.mix.is_empty() && (load.block_split.is_some() || load.zones.is_some()) {
                    return Err(format!("{} must name a load whose requests differ, as mix = \"database\"", key("mix")));
                }
            }
        }
        Ok(())
    }
}
