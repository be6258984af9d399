//! Why an array cannot be made: as values, with the words beside them.

use crate::md::bitmap::ChunkError;
use crate::md::superblock::ROLES_MAX;
use stria_array::{GeometryError, Level};
use stria_block::show_size;
use thiserror::Error;

/// Why an array cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The geometry is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The name is none that a superblock can have.
    #[error("\"{name}\" is not a valid array name: use 1 to 31 bytes of visible characters without slashes")]
    Name {
        /// The name.
        name: String,
    },
    /// More members are missing than the level survives.
    #[error("{missing_count} members are missing, and RAID level {level} survives {survives}: name more drives")]
    TooManyMissing {
        /// The missing ones.
        missing_count: usize,
        /// The level.
        level: Level,
        /// How many may be missing.
        survives: usize,
    },
    /// More drives than a superblock has roles for.
    #[error("{count} drives are too many for one array, since md takes {ROLES_MAX}: make several arrays")]
    TooManyDrives {
        /// Members and spares.
        count: usize,
    },
    /// No drive is there.
    #[error("every member is missing: name at least one drive that is there")]
    AllMissing,
    /// Missing members or spares of a level without redundancy.
    #[error(
        "RAID level {level} has no redundancy, so it has neither missing members nor spares: leave them out, or choose another level"
    )]
    NoRedundancy {
        /// The level.
        level: Level,
    },
    /// A bitmap of a level without redundancy.
    #[error("RAID level {level} has no redundancy to resync, so a write-intent bitmap has no use: leave --bitmap out")]
    NoUseForBitmap {
        /// The level.
        level: Level,
    },
    /// The bitmap cannot be as it was asked for.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The drives do not make spans of one width.
    #[error(
        "{drive_count} drives do not make {span_count} equal spans of 2 or more: choose --spans so that it divides the drive count"
    )]
    UnequalSpans {
        /// The drives.
        drive_count: usize,
        /// The spans.
        span_count: usize,
    },
    /// A drive has too little space behind the metadata.
    #[error(
        "{drive} is too small: metadata need {} of its {} (the first drive's size decides; name the smallest first)",
        show_size(*metadata_bytes),
        show_size(*drive_bytes)
    )]
    DriveTooSmall {
        /// The drive.
        drive: String,
        /// The space for metadata.
        metadata_bytes: u64,
        /// The size of the drive.
        drive_bytes: u64,
    },
    /// More of each drive was asked for than the smallest has.
    #[error(
        "--size asks for {} of each drive, {} more than the smallest has for data: ask for less, or use larger drives",
        show_size(*asked_bytes),
        show_size(*excess_bytes)
    )]
    SizeTooLarge {
        /// Asked for.
        asked_bytes: u64,
        /// The part that the smallest drive lacks.
        excess_bytes: u64,
    },
    /// Less of each drive was asked for than a strip.
    #[error(
        "--size asks for {} of each drive, which does not hold one strip of {}: ask for at least that, or for a smaller strip",
        show_size(*asked_bytes),
        show_size(*strip_bytes)
    )]
    SizeBelowStrip {
        /// Asked for.
        asked_bytes: u64,
        /// The strip.
        strip_bytes: u64,
    },
}

impl CreateError {
    /// True if the request is invalid with any drives.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Geometry(GeometryError::TooSmall { .. })
            | Self::DriveTooSmall { .. }
            | Self::SizeTooLarge { .. }
            | Self::SizeBelowStrip { .. } => false,
            Self::Geometry(_)
            | Self::Name { .. }
            | Self::TooManyMissing { .. }
            | Self::TooManyDrives { .. }
            | Self::AllMissing
            | Self::NoRedundancy { .. }
            | Self::NoUseForBitmap { .. }
            | Self::Chunk(_)
            | Self::UnequalSpans { .. } => true,
        }
    }
}
