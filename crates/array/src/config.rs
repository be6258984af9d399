//! The description of an array that starts: the result of assembly, the input of the engine.

use crate::address::{MemberSpace, Sector, SyncSpace};
use crate::{DriveSector, Geometry, LogConfig, LogRecord, MemberSector};
use std::ops::Range;

/// A member's handle within one run of an array: an index that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub usize);

/// How far something is in sync, or consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synced<S> {
    /// Below this sector.
    UpTo(Sector<S>),
    /// Everywhere.
    All,
}

impl<S> Synced<S> {
    /// Below sector `number`.
    pub const fn up_to(number: u64) -> Self {
        Self::UpTo(Sector::new(number))
    }

    /// True if that holds for everything before `end`.
    #[inline]
    pub fn covers(&self, end: Sector<S>) -> bool {
        match self {
            Self::UpTo(sector) => end <= *sector,
            Self::All => true,
        }
    }

    /// The same in another space.
    pub(crate) fn map<T>(self, to: impl FnOnce(Sector<S>) -> Sector<T>) -> Synced<T> {
        match self {
            Self::UpTo(sector) => Synced::UpTo(to(sector)),
            Self::All => Synced::All,
        }
    }

    /// The position where that ends, in a space of this many sectors.
    pub fn end_in(&self, sectors: u64) -> Sector<S> {
        match self {
            Self::UpTo(sector) => (*sector).min(Sector::new(sectors)),
            Self::All => Sector::new(sectors),
        }
    }
}

/// A member: where its part of the array's data lies, and how much of it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Its handle.
    pub id: MemberId,
    /// The name that people see: a path, with a serial number where known.
    pub name: String,
    /// First sector of the data area.
    pub data_start_sector: DriveSector,
    /// Length of the data area.
    pub data_sectors: u64,
    /// The recovery offset: as far as this the data area holds what it should.
    pub recovered: Synced<MemberSpace>,
    /// Only chunks that the write-intent bitmap marks are missing (a member that was away).
    pub by_bitmap: bool,
    /// Sectors of the data area known to be unreadable.
    pub bad_blocks: Vec<Range<MemberSector>>,
    /// The most bad blocks that its list on disk holds, each of up to [`BAD_BLOCK_SECTORS_MAX`] sectors; 0: it has no list.
    pub bad_blocks_max: u16,
}

/// The length of the longest bad block. md's list names a longer run of sectors in several entries.
pub const BAD_BLOCK_SECTORS_MAX: u64 = 512;

impl MemberConfig {
    /// An in-sync member that is all data area.
    pub fn in_sync(id: MemberId, data_sectors: u64) -> Self {
        Self {
            id,
            name: format!("member {}", id.0),
            data_start_sector: DriveSector::ZERO,
            data_sectors,
            recovered: Synced::All,
            by_bitmap: false,
            bad_blocks: Vec::new(),
            bad_blocks_max: 512,
        }
    }
}

/// A slot and the members that fill it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotConfig {
    /// `None`: missing.
    pub member: Option<MemberConfig>,
    /// A member that is being filled to replace the first.
    pub replacement: Option<MemberConfig>,
}

impl SlotConfig {
    /// True if an in-sync member fills the slot and no replacement is being filled.
    pub(crate) fn is_in_sync(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.recovered == Synced::All) && self.replacement.is_none()
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
    /// The name that people and messages use.
    pub name: String,
    /// Level, layout, sizes.
    pub geometry: Geometry,
    /// The slots, in order.
    pub slots: Vec<SlotConfig>,
    /// Members without a slot.
    pub spares: Vec<MemberConfig>,
    /// As far as this redundancy is consistent, except where the bitmap has bits. Up to 0 with a bitmap: resync the chunks that
    /// its bits mark.
    pub synced: Synced<SyncSpace>,
    /// The array was not stopped, and members are missing. Log records cover everything that was not being written, with one
    /// exception: if the last log holders of a write were dropped without that becoming durable, and are back without their
    /// records, parity may be older than its data. So the marked chunks are resynced (R35).
    pub suspects_parity: bool,
    /// `None`: no bitmap.
    pub intent: Option<IntentConfig>,
    /// `None`: no write log. Then a crash together with a lost member may harm data that was not being written.
    pub log: Option<LogConfig>,
    /// The log records that a crash left and that still count.
    pub replay: Vec<LogRecord>,
    /// Some members in sync do not know the last session of the log. A start without those that do would count records that it
    /// voids, so another one begins before clients are served (R31).
    pub session_is_torn: bool,
    /// Members in sync whose logs cannot be read: what records they held is not known (R80).
    pub lost_logs: Vec<MemberId>,
    /// Refuse all writes. An array planned from its drives begins so, since several lanes bind it and its spans one after
    /// another. Once all have, [`Engine::set_read_only`](crate::Engine::set_read_only) lifts it for an array that is served
    /// writable.
    pub read_only: bool,
}

impl ArrayConfig {
    /// An optimal array without bitmap, log or spares, whose members are handed out by slot.
    pub fn optimal(name: impl Into<String>, geometry: Geometry) -> Self {
        let member = |slot| Some(MemberConfig::in_sync(MemberId(slot), geometry.member_sectors(slot)));
        Self {
            name: name.into(),
            slots: (0..geometry.slot_count()).map(|slot| SlotConfig { member: member(slot), replacement: None }).collect(),
            geometry,
            spares: Vec::new(),
            synced: Synced::All,
            suspects_parity: false,
            intent: None,
            log: None,
            replay: Vec::new(),
            session_is_torn: false,
            lost_logs: Vec::new(),
            read_only: false,
        }
    }
}

/// When a client's write is acknowledged, and what its flushes mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// A write is acknowledged when it is durable: each is done as if it had FUA.
    Through,
    /// A write is acknowledged when members have taken it, or the write log holds it (R23). A flush makes it durable.
    #[default]
    Safe,
    /// As `Safe`, but flushes and FUA are not waited for: members are flushed some time after.
    Back,
}

/// A rule of crash safety that an engine breaks on purpose, to show that the simulator would find the bug.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// R36: a read does not resync first where that is due.
    ReadsUnaligned,
    /// R37: a resync leaves the parities of a stripe as they are while the stripe lacks data.
    DegradedParityLeft,
    /// R27: a member that comes back is in sync, whatever it lacks.
    StaleAccepted,
    /// R11: a dropped member comes back before its drop is durable.
    ReturnBeforeDrop,
    /// R38: parity that may be inconsistent is updated by its change.
    SuspectParityUpdated,
    /// R23: a write is acknowledged early once this lane is resynced, before the superblocks say that all lanes are.
    EarlyOnOneLane,
    /// R92: the command that fails a member is answered before its drop is durable.
    FailAnsweredEarly,
    /// R26: the command that fails a member does not wait for writes that rely on its log alone.
    FailedWhileReliedOn,
    /// R30: replay writes before the drop of missing members is durable.
    ReplayedBeforeDrop,
    /// R30: replay waits for the drop of missing members although no member holds the records.
    ReplayWaitsInVain,
    /// R82: a member is failed by command during replay.
    FailedDuringReplay,
    /// R31: clients are served before the superblocks name the missing members.
    ServedBeforeDrop,
    /// R31: clients are served before a new log session voids the replayed records.
    ServedBeforeSession,
    /// R35: a degraded array whose records were replayed is not resynced.
    SuspectParityTrusted,
    /// R19, R32: parity is repaired before this run's partial parity log has begun.
    RepairedBeforeLog,
    /// R16: the requests of a member whose slot its replacement has taken wait until the member answers.
    ReplacedKeepsRequests,
    /// R85: a write that a member has no space for leaves redundancy as it is.
    LackOfSpaceIgnored,
    /// R8: a member whose flush fails stays.
    FailedFlushIgnored,
    /// R20: a write relies on strips whose data is not durable.
    NeighboursNotFlushed,
    /// R21: records are retired before the drops up to then are durable.
    RetiredBeforeDrop,
    /// R24: a flush does not wait for write-behinds.
    FlushBesideBehind,
    /// R25: a superblock update does not wait for write-behinds whose log holders it drops.
    DropBeforeBehind,
    /// R87: a flush says nothing of a write-behind that is lost.
    LostBehindUntold,
    /// R96: a member comes in sync while its rows of a write without space are bad blocks.
    InSyncBesideNoSpace,
}

impl Flaw {
    /// Every one.
    pub const ALL: [Self; 24] = [
        Self::ReadsUnaligned,
        Self::DegradedParityLeft,
        Self::StaleAccepted,
        Self::ReturnBeforeDrop,
        Self::SuspectParityUpdated,
        Self::EarlyOnOneLane,
        Self::FailAnsweredEarly,
        Self::FailedWhileReliedOn,
        Self::ReplayedBeforeDrop,
        Self::ReplayWaitsInVain,
        Self::FailedDuringReplay,
        Self::ServedBeforeDrop,
        Self::ServedBeforeSession,
        Self::SuspectParityTrusted,
        Self::RepairedBeforeLog,
        Self::ReplacedKeepsRequests,
        Self::LackOfSpaceIgnored,
        Self::FailedFlushIgnored,
        Self::NeighboursNotFlushed,
        Self::RetiredBeforeDrop,
        Self::FlushBesideBehind,
        Self::DropBeforeBehind,
        Self::LostBehindUntold,
        Self::InSyncBesideNoSpace,
    ];
}
