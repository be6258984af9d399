//! Remarks beside the figures.

use serde::{Deserialize, Serialize};

/// A remark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub at_ms: u64,
    /// [`super::Section::id`]; empty: the whole run.
    pub section: String,
    /// [`super::Record::index`] that it belongs to.
    pub record: Option<u32>,
    /// What it is.
    pub kind: NoteKind,
    /// In a sentence.
    pub text: String,
}

/// Kinds of notes. All but the first three put a warning on the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A step of the run.
    Step,
    /// The method of a purge.
    Purge,
    /// A verdict.
    Verdict,
    /// A step that could not be done, and its replacement.
    Fallback,
    /// A drive grew hot or slowed itself down.
    Throttle,
    /// The rate fell within a measurement.
    Sag,
    /// Errors of a drive or of requests.
    Error,
    /// Other programs used the machine.
    Background,
}
