//! Experiments: TOML files that define the varied properties and the method of measurement.
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
//! Every key and value is checked; docs/LAB.md lists all of them. An experiment may come from an untrusted source: it names no
//! program and no file, and all its values are bounded before they are used.

mod check;
mod load;
mod many;
mod options;
mod section;

use crate::result::{IoMode, SectionKind};
use crate::units::{Size, show_size};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;

/// The largest experiment that is read, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 20;

pub use load::{LoadSpec, Text, parse_split, parse_zones};
pub use many::Many;
pub(crate) use section::FILES_OF_SET_MAX;
pub use section::{CopySpec, FileSystem, Prepare, SectionSpec};

/// The key of [`crate::result::Record::extra`] for the middle of a part of the addresses, where `parts` divides them.
pub const PLACE_PERCENT: &str = "place_percent";

/// An experiment that cannot be used: the file, the position, and a valid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// A heading.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// True if it is always a scaled trial.
    #[serde(default)]
    pub always_scaled: bool,
    /// How a trial is made short.
    #[serde(default)]
    pub scaled: Scaling,
    /// Arrays to build on the given drives; without them the experiment runs on `--target`.
    pub arrays: Option<Arrays>,
    /// The parts, in order, which run on every target.
    pub section: Vec<SectionSpec>,
}

/// How a trial is made short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scaling {
    /// Seconds for a step that takes a minute.
    pub seconds: f64,
    /// Bytes of the target that are used.
    pub span: Size,
    /// The most rounds.
    pub rounds_max: u32,
    /// The most repetitions of steps that are repeated for hours.
    pub samples_max: u32,
    /// The most passes of tests that are not SNIA's.
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

/// Arrays to build: all possible combinations.
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

/// The text of a plain file. A file that is larger than any experiment is read only as far as needed to refuse it.
fn read(path: &Path) -> std::io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
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

impl Experiment {
    /// Reads an experiment; `name` is the file, for the words of an error.
    ///
    /// # Errors
    /// A sentence with file, line, key and the valid values.
    pub fn parse(name: &str, text: &str) -> Result<Self, SchemaError> {
        let bad = |problem: String| SchemaError(format!("{name}: {}", problem.trim_end()));
        if text.len() as u64 > TEXT_BYTES_MAX {
            return Err(bad(format!("it is larger than {}, the limit of an experiment", show_size(TEXT_BYTES_MAX))));
        }
        let experiment: Self = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        experiment.check().map_err(bad)?;
        let table: toml::Table = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        check::keys_apply(&experiment, &table).map_err(bad)?;
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
        let text = read(Path::new(name)).map_err(|error| {
            SchemaError(format!(
                "\"{name}\" is not a shipped experiment (see `stria lab list`) and cannot be read as a file: {error}"
            ))
        })?;
        Self::parse(name, &text).map(|experiment| (experiment, text))
    }

    /// The number of loads of a load's lists.
    pub(crate) fn load_count(&self) -> usize {
        self.section.iter().flat_map(|section| &section.load).fold(0, |sum, load| sum.saturating_add(load.count()))
    }

    /// The arrays to build; fewer in a trial, if the experiment names them.
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

    /// The part of the experiment that only reads: loads of sweeps without preparation.
    ///
    /// # Errors
    /// No load is left.
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
            return Err(SchemaError(format!("experiment {} has no load that only reads", self.name)));
        }
        Ok(self)
    }
}
