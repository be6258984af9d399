//! What befalls a drive: as values, with the words beside them.

use std::fmt;

/// What befell a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its name in messages.
    pub drive: String,
    /// What it is.
    pub kind: TroubleKind,
}

/// Kinds of [`Trouble`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The drive is gone.
    Gone,
    /// A block device has lost its end.
    Smaller {
        /// Its size at the open.
        before_bytes: u64,
        /// Its size now.
        now_bytes: u64,
    },
    /// A file has lost its end. `is_behind`: it is the file behind the drive.
    CutShort {
        /// Its size at the open.
        before_bytes: u64,
        /// Its size now.
        now_bytes: u64,
        /// True if the drive is a device over that file.
        is_behind: bool,
    },
    /// A file has lost its end, and is as long as before.
    CutShortAndLong {
        /// What it occupies now.
        left_bytes: u64,
        /// What it occupied before.
        before_bytes: u64,
    },
    /// The drive ended within a request.
    EndsWithin {
        /// Its end.
        end_sector: u64,
        /// The request's length.
        sectors: u64,
        /// The request's start.
        start_sector: u64,
    },
    /// A request failed.
    Failed {
        /// The request.
        action: Action,
        /// Its length.
        bytes: u64,
        /// Its start.
        sector: u64,
        /// The system's words, and a remedy.
        reason: String,
    },
    /// A flush failed.
    FlushFailed {
        /// The system's words.
        reason: String,
    },
    /// A flush before this one failed, perhaps on another lane.
    EarlierFlushFailed,
    /// Bytes are not those that were written.
    ChecksumWrong {
        /// Their first sector.
        sector: u64,
        /// What to do, if there is no redundancy; or nothing.
        advice: String,
    },
}

/// A request to a drive that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write of zeroes.
    WriteZeroes,
    /// A search for holes.
    Extents,
    /// An allocation of space.
    Allocate,
    /// A flush.
    Flush,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteZeroes => "write of zeroes",
            Self::Extents => "search for holes",
            Self::Allocate => "allocation",
            Self::Flush => "flush",
        })
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drive, kind } = self;
        match kind {
            TroubleKind::Gone | TroubleKind::Smaller { .. } | TroubleKind::EndsWithin { .. } => {
                write!(f, "member {drive} {kind}")
            }
            TroubleKind::ChecksumWrong { .. } => write!(f, "{drive}: {kind}"),
            TroubleKind::CutShort { .. }
            | TroubleKind::CutShortAndLong { .. }
            | TroubleKind::Failed { .. }
            | TroubleKind::FlushFailed { .. }
            | TroubleKind::EarlierFlushFailed => write!(f, "member {drive}: {kind}"),
        }
    }
}

/// The words after the drive's name.
impl fmt::Display for TroubleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("is gone: it was pulled, or its controller or cable has failed"),
            Self::Smaller { before_bytes, now_bytes } => {
                write!(f, "has become smaller while in use, from {before_bytes} to {now_bytes} bytes")
            }
            Self::CutShort { before_bytes, now_bytes, is_behind } => {
                let whose = if *is_behind { "the file behind it" } else { "it" };
                write!(f, "{whose} was cut short while in use, from {before_bytes} to {now_bytes} bytes")
            }
            Self::CutShortAndLong { left_bytes, before_bytes } => write!(
                f,
                "it was cut short while in use and made long again: {left_bytes} of the {before_bytes} bytes that it occupied are left"
            ),
            Self::EndsWithin { end_sector, sectors, start_sector } => write!(
                f,
                "ends at sector {end_sector}, within {sectors} sectors from {start_sector}: it was cut short while in use"
            ),
            Self::Failed { action, bytes, sector, reason } => {
                write!(f, "{action} of {} at sector {sector} failed: {reason}", in_largest_unit(*bytes))
            }
            Self::FlushFailed { reason } => write!(f, "flush failed: {reason}"),
            Self::EarlierFlushFailed => {
                f.write_str("an earlier flush or FUA write failed: what was written before it may be lost")
            }
            Self::ChecksumWrong { sector, advice } => {
                write!(f, "the bytes at sector {sector} do not match their checksum{advice}")
            }
        }
    }
}

/// `131072` as `128 KiB`: the largest unit that divides it.
pub fn in_largest_unit(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}
