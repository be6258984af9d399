//! Why an array could not be made, opened or changed: one sentence each.

use stria_array::Refusal;
use stria_block::IoError;
use stria_drive::{DriveError, LaneStopped};

/// What went wrong, by what a caller does about it.
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
    /// Refused for safety: data might be lost. Says how to insist.
    #[error("{0}")]
    Unsafe(String),
    /// Asked for in a way that makes no sense, whatever the drives are.
    #[error("{0}")]
    Usage(String),
    /// Cannot be done as asked.
    #[error("{0}")]
    Refused(String),
}

impl From<Refusal> for HostError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.0)
    }
}
