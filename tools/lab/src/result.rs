//! The folder of a run, which can be copied, compared and reported again.
//!
//! ```text
//!   RUN/manifest.json      Manifest: experiment, targets, environment, and how it ended; replaced in one step
//!   RUN/experiment.toml    the experiment, as it was run
//!   RUN/records.jsonl      one Record a line, appended when a measurement is done
//!   RUN/notes.jsonl        one Note a line: purges, fall-backs, throttling, errors, verdicts
//!   RUN/raw/00012.json     fio's own JSON of record 12, unchanged; 00012.fio is its job
//!   RUN/series/00012.json  Series of record 12, if it was taken: one sample a second
//! ```
//! A line of `records.jsonl` is written after the raw file and the series that it names, so these files exist.
//! A broken last line is an interrupted write: [`Run::open`] ignores it and resuming measures that record again.
//! Units are in the names; percent are 0 to 100; MB/s are 10^6 bytes; times are Unix milliseconds unless they say otherwise.

mod environment;
mod folder;
pub(crate) mod inside;
mod manifest;
mod note;
mod point;
mod record;
mod section;
mod series;
mod target;

use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use stria_block::shown;

pub use environment::Environment;
pub(crate) use folder::{BLOCK_BYTES_MAX, DEPTH_MAX, MEMBERS_MAX};
pub use folder::{Run, RunWriter};
pub use manifest::{Manifest, RunStatus, Scaled};
pub use note::{Note, NoteKind};
pub use point::{ArrayState, DriveState, IoMode, Pattern, Point};
pub use record::{Figures, Latency, Measured, MemberFigures, Phase, Record};
pub use section::{Section, SectionKind, SteadyVerdict};
pub use series::{Sample, Series, SweepSample};
pub use target::{DriveInfo, TargetInfo, TargetKind};

/// The version of the folder's layout that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The reason why a run folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// A file of it.
    #[error("{}: {source}", shown(&path.to_string_lossy()))]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file exists but is invalid.
    #[error("{}: {problem}", shown(&path.to_string_lossy()))]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
