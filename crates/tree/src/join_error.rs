//! Why a drive may not join an array: as values, with the words beside them.

use stria_array::{Level, Refusal};
use stria_block::shell_word;
use stria_format::md::recorder::{AdoptError, Unreturnable};

/// Why a drive may not join. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Drives carry something.
    #[error("{}: nothing was written; --force overwrites {}", list(carried), if carried.len() == 1 { "it" } else { "them" })]
    Carries {
        /// What each of them carries, at least one.
        carried: Vec<Carried>,
    },
    /// It may hold what a failed array lacks (R91).
    #[error(
        "{drive} was a member of \"{array}\", which has failed, and it may hold what the others lack: nothing was written; stop the \
         array, and serve it again with this drive, or overwrite it with --force"
    )]
    HoldsWhatIsLacking {
        /// The drive.
        drive: String,
        /// The array.
        array: String,
    },
    /// It may hold what members have bad blocks for (R91).
    #[error(
        "{drive} was a member of \"{array}\", whose members have bad blocks, and it may alone hold what they lack: nothing was \
         written; save what you need from it first, or overwrite it with --force"
    )]
    HoldsBadBlocks {
        /// The drive.
        drive: String,
        /// The array.
        array: String,
    },
    /// It was to replace what is no in-sync member.
    #[error("{old} cannot be replaced: it is not an in-sync member; `add` a drive, and the slot is rebuilt on it")]
    NotInSync {
        /// The drive that was to be replaced.
        old: String,
    },
    /// It was only to return, and was no member.
    #[error("{drive} was no member of \"{array}\": nothing was written")]
    NoMember {
        /// The drive.
        drive: String,
        /// The array.
        array: String,
    },
    /// A member in use carries the same.
    #[error(
        "{drive} carries the same member as {other}, which \"{array}\" uses: it is another path to that drive, or a copy of it; \
         nothing was written: detach it"
    )]
    SameMember {
        /// The drive.
        drive: String,
        /// The member.
        other: String,
        /// The array.
        array: String,
    },
    /// It was only to return, and cannot.
    #[error(
        "{drive} cannot return to \"{part}\", as {reason}: it was left as it is; `stria add {array_word} {drive_word}` makes it a new \
         spare, and `stria wipe {drive_word}` a blank drive",
        array_word = shell_word(array),
        drive_word = shell_word(drive)
    )]
    CannotReturn {
        /// The drive.
        drive: String,
        /// The array or span that it left.
        part: String,
        /// The array that commands name.
        array: String,
        /// Why.
        reason: Unfilled,
    },
    /// Its logical blocks are larger than those that clients see.
    #[error(
        "{drive} has blocks of {block_bytes} bytes, and \"{array}\" serves blocks of {array_bytes}: use a drive with blocks as small"
    )]
    BlocksTooLarge {
        /// The drive.
        drive: String,
        /// The size of its blocks.
        block_bytes: u32,
        /// The array.
        array: String,
        /// The size of the array's blocks.
        array_bytes: u32,
    },
    /// No array or span has the name that was given.
    #[error("there is no array or span \"{name}\"; there are {}", names.join(", "))]
    NoSuchPart {
        /// The name.
        name: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// No part of the array has redundancy.
    #[error("RAID level {level} has no redundancy, so another drive is of no use to it")]
    NoRedundancy {
        /// The level.
        level: Level,
    },
    /// It was prepared for what the array has no use for any more.
    #[error("{drive} did not join, as the array has changed meanwhile: add it again")]
    ChangedMeanwhile {
        /// The drive.
        drive: String,
    },
    /// The metadata do not admit it.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The engine refuses it.
    #[error(transparent)]
    Engine(#[from] Refusal),
}

impl JoinError {
    /// True if it is refused because data might be lost: the words name the option that overrides it.
    pub fn is_unsafe(&self) -> bool {
        match self {
            Self::Carries { .. } | Self::HoldsWhatIsLacking { .. } | Self::HoldsBadBlocks { .. } => true,
            Self::NotInSync { .. }
            | Self::NoMember { .. }
            | Self::SameMember { .. }
            | Self::CannotReturn { .. }
            | Self::BlocksTooLarge { .. }
            | Self::NoSuchPart { .. }
            | Self::NoRedundancy { .. }
            | Self::ChangedMeanwhile { .. }
            | Self::Adopt(_)
            | Self::Engine(_) => false,
        }
    }
}

/// What a drive carries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{drive} carries {contents}")]
pub struct Carried {
    /// The drive.
    pub drive: String,
    /// Its contents, in words.
    pub contents: String,
}

/// Why a member that was away does not get its slot back, to be filled by the bitmap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfilled {
    /// It lost its end (R76).
    #[error("it was cut short while in use, so nothing that it holds counts")]
    CutShort,
    /// Another drive has the slot.
    #[error("slot {slot} has another member")]
    SlotTaken {
        /// The slot.
        slot: usize,
    },
    /// The bitmap does not tell what it missed.
    #[error(transparent)]
    Unreturnable(#[from] Unreturnable),
}

fn list(carried: &[Carried]) -> String {
    carried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
