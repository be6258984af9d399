//! What an array is when it starts: the assembler's answer, the engine's question.

use crate::{Geometry, LogConfig, LogRecord};
use std::ops::Range;

/// A member's handle within one run of an array: an index that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub usize);

/// Where the array's data lies on one member, and how much of it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Its handle.
    pub id: MemberId,
    /// For people: a path, with a serial number where known.
    pub name: String,
    /// First sector of the data area on the drive.
    pub data_start_sector: u64,
    /// Length of the data area.
    pub data_sectors: u64,
    /// Sectors of the data area below this hold what they should; `u64::MAX`: all.
    pub recovered_sector: u64,
    /// Only what the write-intent bitmap marks is missing (a member that was away).
    pub by_intent: bool,
    /// Sectors of the data area known to be unreadable.
    pub bad_blocks: Vec<Range<u64>>,
}

/// A role and who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotConfig {
    /// `None`: missing.
    pub member: Option<MemberConfig>,
    /// A copy in the making.
    pub replacement: Option<MemberConfig>,
}

impl SlotConfig {
    /// Held by a member that has all it should, and nobody else is being made ready for it.
    pub(crate) fn is_whole(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.recovered_sector == u64::MAX) && self.replacement.is_none()
    }
}

/// The write-intent bitmap as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentConfig {
    /// Sectors of the sync space that one bit stands for.
    pub chunk_sectors: u64,
    /// Chunks whose bit is set, in ascending order.
    pub dirty: Vec<u64>,
}

/// Everything the engine needs to start.
#[derive(Clone, Debug)]
pub struct ArrayConfig {
    /// For people and messages.
    pub name: String,
    /// Level, layout, sizes.
    pub geometry: Geometry,
    /// One for each role, in order.
    pub slots: Vec<SlotConfig>,
    /// Members without a role.
    pub spares: Vec<MemberConfig>,
    /// Redundancy holds below this position of the sync space, except where the bitmap has bits;
    /// `u64::MAX`: everywhere. 0 with a bitmap: resync what its bits say.
    pub resync_sector: u64,
    /// The array was not stopped, and lacks members. What was not being written is whole by the records of the log, but where no
    /// data strip is missing parity may still be older than its data: a member that was dropped, without that being recorded
    /// any more, may have lost its records, and be back. A resync looks there.
    pub doubts_parity: bool,
    /// `None`: no bitmap.
    pub intent: Option<IntentConfig>,
    /// `None`: no write log, so that a crash together with a lost member may harm what was not being written.
    pub log: Option<LogConfig>,
    /// What a crash left in the logs of members in sync.
    pub replay: Vec<LogRecord>,
    /// Refuse all writes.
    pub read_only: bool,
}

/// A rule of crash safety that an engine breaks on purpose, so that a simulator can show that it would find the bug.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A read does not first make redundancy agree where a resync is due.
    ReadsUnaligned,
    /// A resync leaves the parities of a stripe as they are while the stripe lacks data.
    DegradedParityLeft,
}
