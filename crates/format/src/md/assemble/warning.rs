//! What to know of an array that starts although something is wrong: as values, with the words beside them.

use super::{LackOfLog, missed};
use thiserror::Error;

/// What was accepted for the start of an array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartWarning {
    /// A member that was behind was used as it is. `keeps_slot`: the others do not know it as failed.
    #[error(
        "{drive} was used in slot {slot} although it {}: {}",
        missed(*updates),
        if *keeps_slot {
            "it kept its slot, so only writes that were in flight may be torn"
        } else {
            "data that was written meanwhile is lost"
        }
    )]
    MemberUsed {
        /// The member.
        drive: String,
        /// Its slot.
        slot: usize,
        /// The superblock updates that it missed.
        updates: u64,
        /// True if only writes that were in flight may be torn.
        keeps_slot: bool,
    },
    /// No bitmap could be read.
    #[error("no member had a readable write-intent bitmap: it was made anew, with every bit set")]
    BitmapMadeAnew,
    /// The write log is of other software.
    #[error(
        "its write log holds more than any run leaves ({excess}), so other software wrote it; started without it, and writes that \
         were in flight when the array stopped may be torn"
    )]
    LogIsForeign {
        /// By how much, in words.
        excess: String,
    },
    /// The log of a member cannot be read (R80).
    #[error(
        "the write log of {drive} cannot be read ({reason}): writes that were acknowledged and not flushed are gone where no other \
         log has them; see `stria health`, and replace the drive if it has more such sectors"
    )]
    LogUnreadable {
        /// The member.
        drive: String,
        /// The drive's words.
        reason: String,
    },
    /// No log makes up for a missing member.
    #[error(
        "started degraded although not stopped cleanly, and {lack}: what a missing member held may be wrong, also data that was not \
         being written"
    )]
    Dirty {
        /// Why.
        lack: LackOfLog,
    },
}
