//! Why a drive may not join an array that runs, or not as it would: as values, with the words beside them.

use crate::md::unserved::Unserved;
use stria_block::show_size;
use thiserror::Error;

pub(crate) const NO_SPACE_FOR_BITMAP: &str = "its metadata leave too little space for the array's write-intent bitmap";
pub(crate) const NO_SPACE_FOR_LOG: &str = "there is too little space before its data for the array's write log";

/// Why the metadata do not admit a drive, or a change of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AdoptError {
    /// It cannot be a new member.
    #[error("{drive} cannot join \"{array}\": {reason}")]
    Unsuited {
        /// The drive.
        drive: String,
        /// The array.
        array: String,
        /// Why.
        reason: Unsuited,
    },
    /// A member that was away cannot return by the bitmap.
    #[error(transparent)]
    Unreturnable(#[from] Unreturnable),
    /// The metadata of a member that was away cannot be used.
    #[error("{drive}: {reason}")]
    Unreadable {
        /// The drive.
        drive: String,
        /// Why, in words.
        reason: String,
    },
    /// A member that was away has no space for the write log that the array has now.
    #[error("{drive} cannot return: {NO_SPACE_FOR_LOG}; wipe it (`stria wipe`), and add it as a new drive")]
    ReturnsWithoutLog {
        /// The drive.
        drive: String,
    },
    /// Its number was given to another member, and there is no other.
    #[error("{drive} cannot return: every device number is taken; remove failed members first")]
    ReturnsWithoutNumber {
        /// The drive.
        drive: String,
    },
    /// The list of a member's bad blocks does not fit its place on the drive.
    #[error(
        "the bad-block log of {drive} has no space for {count} entries: replace the members that have bad blocks, then set the log \
         again"
    )]
    BadBlocksFull {
        /// The member.
        drive: String,
        /// The entries.
        count: usize,
    },
}

/// Why a drive cannot be a new member.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unsuited {
    /// The array has no redundancy.
    #[error("an array without redundancy takes no spares; create one with redundancy, and copy the data")]
    NoRedundancy,
    /// It has the handle of a member.
    #[error("it is a member already; `status` shows its slot")]
    Member,
    /// The array has superblocks at the end of its members.
    #[error(
        "the array has metadata of version 1.0, which is served but not given to new members; add it under Linux (mdadm --add)"
    )]
    SuperblocksAtTheEnd,
    /// It is too small.
    #[error(
        "it is {} too small: a member needs {}; use a larger drive",
        show_size(*missing_bytes),
        show_size(*needed_bytes)
    )]
    TooSmall {
        /// The space that it lacks.
        missing_bytes: u64,
        /// The size of a drive that suits.
        needed_bytes: u64,
    },
    /// Its logical blocks are too large.
    #[error(
        "its blocks of {block_bytes} bytes do not fit the positions of the array's metadata and strips; use a drive with blocks of \
         512 bytes"
    )]
    Blocks {
        /// Their size.
        block_bytes: u32,
    },
    /// Every device number is that of a member.
    #[error("every device number is taken; remove failed members first")]
    NoNumber,
    /// There is no space for the write log.
    #[error("{NO_SPACE_FOR_LOG}: `stria set NAME --log none` makes the array do without one")]
    NoSpaceForLog,
    /// There is no space for the bitmap.
    #[error("{NO_SPACE_FOR_BITMAP}: use a larger drive")]
    NoSpaceForBitmap,
}

/// Why a member that was away cannot return by the bitmap.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreturnable {
    /// It is a member of another array.
    #[error("it belongs to another array")]
    AnotherArray,
    /// It has superblocks of another version.
    #[error("its superblock is of another version than those of the members")]
    AnotherVersion,
    /// The array was reshaped meanwhile.
    #[error("the array's shape has changed since it left")]
    ShapeChanged,
    /// Its superblock asks for what Stria does not serve.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// It has too little space for data.
    #[error("its data area is smaller than the array needs")]
    TooSmall,
    /// It was a spare, or had failed.
    #[error("it held no slot")]
    HeldNoSlot,
    /// It had a slot beyond the last.
    #[error("it held slot {slot}, which the array does not have")]
    NoSuchSlot {
        /// The slot.
        slot: u16,
    },
    /// It was not complete when it left.
    #[error("its rebuild had not ended when it left")]
    RebuildUnended,
    /// It was run on a side of its own (R78).
    #[error("it was run without members that the array has now")]
    RunWithout,
    /// It was run with other members (R78).
    #[error("it was run with other drives in place of the members that the array has now")]
    RunWithOthers,
    /// It took superblock updates that the array did not make (R78).
    #[error("it has taken superblock updates since it left, so it was run elsewhere")]
    RunElsewhere,
    /// There is no bitmap.
    #[error("the array has no write-intent bitmap, so what it missed is unknown")]
    NoBitmap,
    /// Its metadata have too little space for the bitmap.
    #[error("{NO_SPACE_FOR_BITMAP}")]
    NoSpaceForBitmap,
    /// Bits were cleared while it was away (R75).
    #[error("it left at superblock update {left}, and the bitmap covers only what was written since update {covered}")]
    LeftTooEarly {
        /// The last update that it took.
        left: u64,
        /// The first one that the bitmap covers.
        covered: u64,
    },
}
