//! Why an array could not be created, opened or changed: one sentence each.

use crate::denial::Denial;
use std::path::{Path, PathBuf};
use stria_array::Refusal;
use stria_block::{IoError, shell_word};
use stria_drive::{DriveError, LaneStopped};
use stria_format::md::assemble::{AssembleError, AssembleErrorKind};
use stria_format::md::create::CreateError;
use stria_tree::JoinError;

/// An error. The variants differ in what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A drive could not be opened.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The array's thread has ended.
    #[error(transparent)]
    Lane(#[from] LaneStopped),
    /// Refused for safety: data might be lost. The text names the option that overrides the refusal.
    #[error("{0}")]
    Unsafe(String),
    /// The request is invalid, whichever drives it names.
    #[error("{0}")]
    Usage(String),
    /// Cannot be done as asked.
    #[error("{0}")]
    Refused(String),
    /// An array cannot start.
    #[error("{error}{more}")]
    Start {
        /// Why.
        error: Box<AssembleError>,
        /// What the caller adds to the sentence, or nothing.
        more: String,
        /// True if it is refused for safety: the error names the option that starts it.
        is_unsafe: bool,
    },
    /// The engine refused a command.
    #[error(transparent)]
    Engine(#[from] Refusal),
    /// The drives that were named do not do.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// Of several drives some were erased, and some perhaps not.
    #[error(
        "{error}; the signatures of {} are erased, and those of {} may not be: `stria wipe {words}` erases what is left",
        erased.join(", "),
        left.join(", "),
        words = Self::words_of(left)
    )]
    ErasedInPart {
        /// The first failure.
        error: Box<HostError>,
        /// The drives without signatures.
        erased: Vec<String>,
        /// The others.
        left: Vec<String>,
    },
    /// An array cannot be made, or not be called so.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A drive may not join an array, or be overwritten.
    #[error(transparent)]
    Join(Box<JoinError>),
    /// A drive did not answer in time, and may do so later.
    #[error("{text}")]
    Silent {
        /// As it was given.
        path: PathBuf,
        /// The sentence.
        text: String,
    },
}

impl HostError {
    /// Drives as the words of a command.
    pub fn words_of(drives: &[String]) -> String {
        drives.iter().map(|drive| shell_word(drive)).collect::<Vec<_>>().join(" ")
    }

    /// The error for an array that cannot start: unsafe if --force would start it. `more` ends its sentence.
    pub fn cannot_start(error: &AssembleError, more: String) -> Self {
        Self::Start { error: Box::new(error.clone()), more, is_unsafe: error.kind == AssembleErrorKind::DirtyDegraded }
    }

    /// The drive that did not answer in time, if that is the error.
    pub fn silent_drive(&self) -> Option<&Path> {
        match self {
            Self::Silent { path, .. } | Self::Drive(DriveError::Silent { path, .. }) => Some(path),
            Self::Drive(_)
            | Self::Io(_)
            | Self::Lane(_)
            | Self::Unsafe(_)
            | Self::Usage(_)
            | Self::Refused(_)
            | Self::Start { .. }
            | Self::Engine(_)
            | Self::Denied(_)
            | Self::ErasedInPart { .. }
            | Self::Create(_)
            | Self::Join(_) => None,
        }
    }
}

impl From<AssembleError> for HostError {
    fn from(error: AssembleError) -> Self {
        Self::Start { error: Box::new(error), more: String::new(), is_unsafe: false }
    }
}

impl From<JoinError> for HostError {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Engine(refusal) => Self::Engine(refusal),
            error => Self::Join(error.into()),
        }
    }
}
