//! Why a member was dropped.

use stria_block::IoError;

/// Why a member was dropped, or is gone although the array cannot do without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropCause {
    /// The command `fail`.
    #[error("failed on command")]
    Failed,
    /// The command `remove`, of a spare.
    #[error("removed on command")]
    Removed,
    /// Its replacement is complete.
    #[error("replaced")]
    Replaced,
    /// A write of data or parity failed.
    #[error("write failed: {0}")]
    Write(IoError),
    /// A flush failed: what the member had taken before may be lost (R8).
    #[error("flush failed: {0}")]
    Flush(IoError),
    /// Its write log could not be written.
    #[error("its write log could not be written: {0}")]
    Log(IoError),
    /// Its metadata could not be written (R15).
    #[error("its metadata could not be written: {0}")]
    Metadata(IoError),
    /// Recovered sectors could not be written back to it, or not be read afterwards.
    #[error("could not rewrite sectors that it failed to read: {0}")]
    Rewrite(IoError),
    /// Its list of bad blocks cannot take the rows that a failed write left half-written (R72).
    #[error("its bad-block log has no space for rows that a write has left open")]
    HalfWritten,
    /// Its list of bad blocks cannot take the rows that it had no space for (R86).
    #[error("it has no space for a write, and its bad-block log has none to say so")]
    NoSpace,
    /// The drive is gone.
    #[error("{0}")]
    Gone(IoError),
}

impl DropCause {
    /// True if a person or a replacement took the member out, so that nothing is wrong with the drive.
    pub fn is_intended(&self) -> bool {
        matches!(self, Self::Failed | Self::Removed | Self::Replaced)
    }
}
