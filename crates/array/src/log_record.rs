//! Records of the [write log](crate::log), and how it is used.

use crate::StripSector;
use crate::address::Sectors;
use smallvec::SmallVec;
use std::ops::Range;
use stria_block::Data;

/// 64 KiB: requests up to this size log their new data where they write several strips of a stripe. That costs little. Beyond
/// it, bandwidth counts for more than a write in flight that a crash and a lost member may tear.
pub const NEW_DATA_SECTORS_MAX: u64 = 128;

/// The use of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The size of the largest append, head included; at least [`LogRecord::APPEND_SECTORS_MIN`].
    pub append_sectors_max: u64,
    /// Requests up to this size log their new data where they write several strips of a stripe: usually [`NEW_DATA_SECTORS_MAX`].
    pub new_data_sectors_max: u64,
    /// Only the newest append of a member can be found after a crash, and no bitmap marks writes in flight, as with md's partial
    /// parity log. So full-stripe writes have records too, and all records of a write for one member go into one
    /// append.
    pub newest_only: bool,
}

/// A record in the log of one parity member about one write to some rows of a stripe.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// Counts writes within one run of an array. The same on every parity member of the stripe.
    pub number: u64,
    /// The stripe.
    pub stripe: u64,
    /// The sectors of each strip.
    pub rows: Range<StripSector>,
    /// The data strips that are written, in address order.
    pub written: Range<usize>,
    /// 0: P, 1: Q, 2: R.
    pub parity: usize,
    /// Partial parity: the parity of the strips that the write leaves alone, as long as `rows`. `None`: it leaves none.
    pub partial: Option<Data>,
    /// The new data of each written strip, in order; empty: not logged. A record with neither partial parity nor new data is a
    /// revoke record.
    pub new_data: SmallVec<[Data; 1]>,
    /// The new data is zeros, and `new_data` is empty.
    pub new_data_is_zeros: bool,
}

impl LogRecord {
    /// Every append has space for one record: its head, 128 KiB of partial parity, and 128 KiB of new data.
    pub const APPEND_SECTORS_MIN: u64 = 8 + BAND_SECTORS + 2 * NEW_DATA_SECTORS_MAX;

    /// 62: how many records one append carries at most.
    pub const APPEND_COUNT_MAX: usize = 62;

    /// Sectors of partial parity and new data.
    pub fn payload_sectors(&self) -> u64 {
        self.rows.sectors() * (u64::from(self.partial.is_some()) + self.new_data.len() as u64)
    }

    pub(crate) fn is_revoke(&self) -> bool {
        self.partial.is_none() && self.new_data.is_empty() && !self.new_data_is_zeros
    }
}

/// 128 KiB: the most rows of a strip that one record covers.
pub(crate) const BAND_SECTORS: u64 = 256;

/// Declarations of an append besides its records, and the space that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendTerms {
    /// Records with smaller numbers are retired, on every member.
    pub retired_below: u64,
    /// The same, as this member's log is durably known to declare it: the space of these records is free (R22).
    pub free_below: u64,
    /// The number of appends before it that are not known to be durable.
    pub unsure_count: u32,
}
