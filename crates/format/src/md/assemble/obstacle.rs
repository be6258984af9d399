//! Why an array cannot start, and why a drive is of no use to its array: as values, with the words beside them.
//!
//! A program decides by the values and words them in its reader's language.

use super::missed;
use crate::detect::Signature;
use crate::md::counts::Contradiction;
use crate::md::recorder::{NO_SPACE_FOR_BITMAP, NO_SPACE_FOR_LOG};
use crate::md::unserved::{Unserved, UnservedBitmap};
use std::fmt;
use stria_array::{GeometryError, Layout};
use stria_block::show_size;
use thiserror::Error;

/// The remedy for a member whose own metadata are in the way.
const ADD: &str = "`stria add` gives it new metadata, with space for it";

/// Why a drive that names an array cannot be used there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    /// Its superblock belongs to another shape of the array.
    #[error(
        "its superblock describes another array shape than the superblocks of the other members; it cannot be used with them"
    )]
    AnotherShape,
    /// It has too little space for data.
    #[error("it is {} too small: {} are needed for data; use a larger drive", show_size(*missing_bytes), show_size(*needed_bytes))]
    TooSmall {
        /// The space that it lacks.
        missing_bytes: u64,
        /// The space for data that a member needs.
        needed_bytes: u64,
    },
    /// It is a journal device.
    #[error("it is a journal device, which Stria does not serve")]
    Journal,
    /// It has the identity of another drive.
    #[error("it is a copy of {other}, or another path to it: detach one of the two")]
    CopyOf {
        /// That drive.
        other: String,
    },
    /// Another member has its device number.
    #[error("{other} has the same device number, {number}; add it anew")]
    SameNumber {
        /// That member.
        other: String,
        /// The number.
        number: u32,
    },
    /// Another member has its slot, and took part later.
    #[error("{other} holds slot {slot} with a newer superblock")]
    Outdated {
        /// That member.
        other: String,
        /// The slot.
        slot: usize,
    },
    /// Its metadata have too little space for the bitmap.
    #[error("{NO_SPACE_FOR_BITMAP}; {ADD}")]
    NoSpaceForBitmap,
    /// Its metadata have too little space for the write log.
    #[error("{NO_SPACE_FOR_LOG}; {ADD}")]
    NoSpaceForLog,
    /// A member that was behind was put into its slot by force.
    #[error("--force put {drive} into its slot, {slot}; add it anew")]
    PutInByForce {
        /// That member.
        drive: String,
        /// The slot.
        slot: usize,
    },
    /// Its list of bad blocks cannot be used.
    #[error("{fault}")]
    BadBlocks {
        /// The fault, as the list's reader gave it.
        fault: String,
    },
    /// Either it or the array has md's partial parity log.
    #[error("either it or the array has a partial parity log, but not both; add it anew")]
    OtherLog,
    /// Its superblock asks for what Stria does not serve.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// Its bitmap is of a kind that Stria does not serve.
    #[error(transparent)]
    UnservedBitmap(#[from] UnservedBitmap),
    /// It claims a slot beyond the last.
    #[error("it claims slot {slot}, and the array has {slot_count} slots; add it anew")]
    NoSuchSlot {
        /// The slot.
        slot: u16,
        /// The slots of the array.
        slot_count: usize,
    },
    /// It has a device number beyond the last.
    #[error("its device number, {number}, is impossible; add it anew")]
    ImpossibleNumber {
        /// The number.
        number: u32,
    },
    /// Its superblock is of another version.
    #[error("its superblock is of version 1.{minor}, and those of the other members are of 1.{others_minor}")]
    OtherVersion {
        /// Its minor version.
        minor: u8,
        /// That of the others.
        others_minor: u8,
    },
}

/// Why an array cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// Two drives have one identity and count as many superblock updates.
    #[error("{drive} and {other} are copies of the same member, or two paths to it; detach the one that is not in use")]
    Copies {
        /// One.
        drive: String,
        /// The other.
        other: String,
    },
    /// A member carries a mark of firmware RAID behind its data.
    #[error(
        "{drive} carries {mark} behind its data (sector {}), so the array may lie on that volume; serve the volume's own device \
         (`mdadm --assemble --scan`), or, if the mark is only left over, erase it with `wipefs` or start with --force",
        mark.start_sector
    )]
    FirmwareRaid {
        /// The member.
        drive: String,
        /// The mark.
        mark: Box<Signature>,
    },
    /// Members were run apart, each side without the other.
    #[error(
        "{} on one side and {} on the other were run without each other, and their data differ; start it with the drives of one \
         side, and add the others anew",
        drives.join(", "),
        others.join(", ")
    )]
    RunApart {
        /// The side of the freshest superblock.
        drives: Vec<String>,
        /// The other side.
        others: Vec<String>,
    },
    /// Two drives that count as many superblock updates claim one slot.
    #[error("{drive} and {other} both claim slot {slot}; detach the one that does not belong")]
    ClaimOneSlot {
        /// One.
        drive: String,
        /// The other.
        other: String,
        /// The slot.
        slot: usize,
    },
    /// A drive's own superblock and the freshest one name two slots for it.
    #[error(
        "{drive} says that it holds slot {own_slot}, and {other} that it holds slot {slot}: one of the two superblocks is damaged; \
         compare both drives with `stria examine`, and start the array without the one that is wrong"
    )]
    OtherSlot {
        /// The drive.
        drive: String,
        /// The slot by its own superblock.
        own_slot: u16,
        /// The drive with the freshest superblock.
        other: String,
        /// The slot by that superblock.
        slot: u16,
    },
    /// All drives that are here have smaller blocks than the array.
    #[error(
        "the array has logical blocks of {block_bytes} bytes, and all drives that are here have smaller ones, so clients would not \
         find their partitions: attach the missing drives, serve it under Linux, or in smaller blocks with --force"
    )]
    BlocksOfAllSmaller {
        /// The array's logical block.
        block_bytes: u32,
    },
    /// The write log is of other software.
    #[error(
        "its write log holds more than any run leaves ({excess}), so other software wrote it; --force starts without the log, and \
         then writes that were in flight when the array stopped may be torn"
    )]
    LogIsForeign {
        /// By how much, in words.
        excess: String,
    },
    /// The write log of a member is of an unknown version, and counts.
    #[error(
        "the write log of {drive} is of version {version}, which this program does not know, and the array was not stopped \
         cleanly; start and stop it with the program that ran it"
    )]
    LogOfAnotherVersion {
        /// The member.
        drive: String,
        /// The version.
        version: u32,
    },
    /// The first member may lack writes that Linux has acknowledged.
    #[error(
        "it was not stopped cleanly, and {drive}, its first member, may lack writes that Linux has acknowledged (write-mostly, \
         with writes behind); start and stop it under Linux once, which copies the other member"
    )]
    WriteBehind {
        /// The first member.
        drive: String,
    },
    /// The array has a bitmap, and no member has a readable one.
    #[error("no member has a readable write-intent bitmap ({fault}); --force makes a new one")]
    NoBitmapReadable {
        /// The fault of the last one that was looked at.
        fault: String,
    },
    /// The bitmap has too little space for the array.
    #[error("{fault}; under Linux, mdadm --grow --bitmap=none and then --bitmap=internal makes a new one")]
    BitmapDoesNotFit {
        /// The fault of the bitmap.
        fault: String,
    },
    /// It lacks more members than it survives.
    #[error(
        "{} missing or incomplete ({}), and the array survives the loss of {}; {}",
        members(slots.len(), *slot_count),
        list(slots),
        survives.map_or("none".to_owned(), |count| count.to_string()),
        remedies.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    TooFew {
        /// Slots without a member in sync.
        slots: Vec<usize>,
        /// All slots.
        slot_count: usize,
        /// The number of members that the array can do without; `None`: its level has no redundancy.
        survives: Option<usize>,
        /// What can be done, drive by drive.
        remedies: Vec<Remedy>,
    },
    /// It lacks members, was not stopped cleanly, and no log makes up for them.
    #[error(
        "{} missing or incomplete ({}), the array was not stopped cleanly, and {lack}, so what a missing member held may be \
         reconstructed wrong, also data that was not being written; attach the missing members, or accept that with --force",
        members(slots.len(), *slot_count),
        list(slots)
    )]
    Unclean {
        /// Slots without a member in sync.
        slots: Vec<usize>,
        /// All slots.
        slot_count: usize,
        /// Why no log does.
        lack: LackOfLog,
    },
    /// The counts of superblock updates of two members contradict each other.
    #[error(
        "{drive} counts {events} superblock updates and {other} {other_events}, and {why}: one of the two counts is wrong; compare \
         both drives with `stria examine`, and start the array without the one whose count is wrong"
    )]
    CountsContradict {
        /// The member with the freshest superblock.
        drive: String,
        /// Its count.
        events: u64,
        /// The other member.
        other: String,
        /// Its count.
        other_events: u64,
        /// Why not both can be right.
        why: Contradiction,
    },
    /// The freshest superblock asks for what Stria does not serve.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// The superblock of a member does.
    #[error("{drive}: {reason}")]
    MemberUnserved {
        /// The member.
        drive: String,
        /// What it asks for.
        reason: Unserved,
    },
    /// The bitmap of a member is of a kind that Stria does not serve.
    #[error("{drive}: {reason}")]
    BitmapUnserved {
        /// The member.
        drive: String,
        /// The kind.
        reason: UnservedBitmap,
    },
    /// A strip that Stria does not serve.
    #[error("its strip of {strip_sectors} sectors is not a power of two from 4K to 64M, and Stria serves no other; Linux does")]
    StripUnserved {
        /// The strip.
        strip_sectors: u64,
    },
    /// A layout with fewer than two copies.
    #[error("its layout {layout} keeps fewer than 2 copies of everything, and neither Stria nor Linux serves that")]
    NoCopies {
        /// The layout.
        layout: Layout,
    },
    /// Another shape that Stria does not serve.
    #[error("Stria does not serve this shape ({reason}); Linux may")]
    ShapeUnserved {
        /// What is wrong with it.
        reason: GeometryError,
    },
    /// A RAID 0 of unequal members, without the bit that says how it is striped.
    #[error(
        "its members are unequal and its superblocks do not say in which of two ways Linux striped them; record it once: mdadm \
         --assemble --update=layout-alternate (or layout-original, if it was written under Linux before 3.14)"
    )]
    ZonesUnknown,
    /// It is a span, and the array above it is not on it.
    #[error(
        "it is a span of array {upper}, whose superblock is not on it ({fault}): either `create` was broken off, and has to be done \
         again, or the first blocks of the span are lost"
    )]
    WithoutUpper {
        /// The identity of the array above it.
        upper: String,
        /// The fault of its superblock.
        fault: String,
    },
    /// What was just written cannot be read back.
    #[error("what was just written cannot be read back: look at the drives, and create it again")]
    NotReadBack,
    /// It was on its drives before.
    #[error("it is no longer on its drives: see `stria examine`")]
    Gone,
    /// Its drives cannot be made ready: the words of what makes them ready.
    #[error("{fault}")]
    Unready {
        /// These words.
        fault: String,
    },
}

/// Of an array that exists; the sentences of [`GeometryError`] are about one that is to be made.
impl From<GeometryError> for Obstacle {
    fn from(error: GeometryError) -> Self {
        match error {
            GeometryError::Strip { strip_sectors } => Self::StripUnserved { strip_sectors },
            GeometryError::NoCopies { layout } => Self::NoCopies { layout },
            reason => Self::ShapeUnserved { reason },
        }
    }
}

/// A way towards enough members, or the state of a drive that is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A drive is behind.
    Missed {
        /// The drive.
        drive: String,
        /// Its former slot.
        slot: usize,
        /// The number of superblock updates that it missed.
        updates: u64,
    },
    /// A drive cannot be used.
    Unusable {
        /// The drive.
        drive: String,
        /// Why.
        reason: Unusable,
    },
    /// Nothing but the missing drives helps.
    Attach {
        /// True if drives that do not help were named before.
        others_are_told: bool,
    },
    /// The missing drives help, or `--force`.
    Force {
        /// The drives that it would take as they are.
        drives: Vec<String>,
        /// True if acknowledged writes are lost then.
        is_lossy: bool,
    },
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed { drive, slot, updates } => write!(f, "{drive} (slot {slot}) {}", missed(*updates)),
            Self::Unusable { drive, reason } => write!(f, "{drive}: {reason}"),
            Self::Attach { others_are_told: false } => f.write_str("attach them"),
            Self::Attach { others_are_told: true } => f.write_str("attach the missing drives"),
            Self::Force { drives, is_lossy } => {
                let cost = match is_lossy {
                    false => "which tears writes that were in flight, and loses none that was acknowledged",
                    true => "which loses what was written without it",
                };
                write!(f, "attach the missing drives, or start with {} as it is by --force, {cost}", drives.join(", "))
            }
        }
    }
}

/// Why no log makes up for a missing member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LackOfLog {
    /// There is none that covers the last writes.
    None,
    /// It is damaged on these drives.
    Damaged(Vec<String>),
}

impl fmt::Display for LackOfLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no log covers its last writes"),
            Self::Damaged(drives) => write!(f, "the log on {} is damaged", drives.join(", ")),
        }
    }
}

fn list(slots: &[usize]) -> String {
    let numbers = slots.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {numbers}", if slots.len() == 1 { "slot" } else { "slots" })
}

fn members(count: usize, of: usize) -> String {
    format!("{count} of {of} members {}", if count == 1 { "is" } else { "are" })
}
