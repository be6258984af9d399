//! The members' metadata as the engine sees it, and the trait of a format that knows its bytes.
//!
//! The engine says *what* must be durable (an [`ArrayState`], write-intent bits). A [`Recorder`] (in the `format` crate) says
//! *which bytes* that takes, and the engine's driver writes them. The engine acknowledges nothing that depends on a metadata
//! update before all of its writes have ended.

use crate::address::{MemberSpace, SyncSpace};
use crate::{
    AppendTerms, DriveSector, LogRecord, MemberConfig, MemberId, MemberSector, NoNewMembers, NotAdmitted, Refusal, Synced,
};
use std::ops::Range;
use stria_block::{Data, IoError};

/// A member of an array, and how much of it is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    /// The member.
    pub member: MemberId,
    /// The recovery offset: as far as this its data area holds what it should.
    pub recovered: Synced<MemberSpace>,
    /// Only chunks that the write-intent bitmap marks are missing (a member that returned).
    pub by_bitmap: bool,
}

/// A slot: its member, and a member that will replace it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// The member; `None`: missing or failed.
    pub member: Option<MemberProgress>,
    /// Receives a copy of the member, to replace it.
    pub replacement: Option<MemberProgress>,
}

/// The contents that every superblock of the array must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayState {
    /// No write is in flight, and everything written is durable: a crash now needs no resync.
    pub clean: bool,
    /// As far as this redundancy is consistent.
    pub synced: Synced<SyncSpace>,
    /// The slots, in order.
    pub slots: Vec<SlotState>,
    /// Members without a slot.
    pub spares: Vec<MemberId>,
    /// Members that were dropped since the array started, with the slot they had. They are not written to.
    pub failed: Vec<(MemberId, Option<usize>)>,
    /// Every slot has an in-sync member, so that bits may be cleared without a missing member needing them.
    pub optimal: bool,
}

impl ArrayState {
    /// Withdraws claims that go beyond `earlier` (R4).
    pub(crate) fn claim_no_more_than(&mut self, earlier: &Self) {
        self.clean &= earlier.clean;
        self.synced = self.synced.min(earlier.synced);
        self.optimal &= earlier.optimal;
        let progresses = earlier.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten();
        let known: Vec<_> = progresses.map(|progress| (progress.member, progress.recovered)).collect();
        for progress in self.slots.iter_mut().flat_map(|slot| [&mut slot.member, &mut slot.replacement]).flatten() {
            let before =
                known.iter().find(|(member, _)| *member == progress.member).map_or(Synced::up_to(0), |(_, recovered)| *recovered);
            progress.recovered = progress.recovered.min(before);
        }
    }
}

/// A metadata update: what must be durable in the members' metadata. At most one runs at a time (R5). The engine, the coordinator
/// and the driver pass on this value, from request to end.
#[derive(Clone, Debug)]
pub enum MetadataUpdate {
    /// This state, in the superblocks of the members.
    State(ArrayState),
    /// These write-intent bits.
    Intent {
        /// Chunks to set.
        set: Vec<u64>,
        /// Chunks to clear.
        clear: Vec<u64>,
    },
    /// This list of a member's bad blocks.
    BadBlocks {
        /// The member.
        member: MemberId,
        /// Ranges of sectors of its data area.
        blocks: Vec<Range<MemberSector>>,
    },
    /// A new log session: no record from before counts any more.
    ResetLog,
}

/// The end of a metadata update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateEnd {
    /// It is durable on all members but those that failed.
    #[default]
    Durable,
    /// The format has no space for the list of bad blocks.
    NoSpace,
    /// A member that the array cannot do without could not be written, or it had missed the last superblock update and missed it
    /// again.
    Unwritten,
    /// It was not made, since other lanes have changed the state: it must be requested again.
    Overtaken,
}

/// Members that could not be written, and why.
pub type IoFailures = Vec<(MemberId, IoError)>;

/// Bytes to write to one member's metadata area.
#[derive(Clone, Debug)]
pub struct MetadataWrite {
    /// The member.
    pub member: MemberId,
    /// The first sector.
    pub start_sector: DriveSector,
    /// A multiple of the member's logical block.
    pub data: Data,
}

/// Knows the bytes of a metadata format. Pure: it returns writes. The engine's driver carries them out, durably (FUA), before
/// the update counts.
pub trait Recorder: Clone {
    /// One lane's part of the members' logs.
    type Log: LaneLog;
    /// A drive that joins a running array.
    type Newcomer;

    /// Admits a drive as `member`. Returns what it holds, and the slot to which it returns (`None`: it is a spare). It takes part
    /// from the next superblock update that names it.
    ///
    /// # Errors
    /// It may not join, which is the default.
    fn admit(&mut self, member: MemberId, newcomer: &Self::Newcomer) -> Result<(MemberConfig, Option<usize>), Refusal> {
        let _ = (member, newcomer);
        Err(NotAdmitted::new(NoNewMembers).into())
    }

    /// The writes that must be durable before the next superblock update: members that missed the last one, because a crash tore
    /// it or their write failed, get it now (R56, R57). Called until there are none.
    fn rewrite_last_update(&mut self) -> Vec<MetadataWrite> {
        Vec::new()
    }

    /// The writes that put `state` into the superblocks: one batch, in any order. `unix_seconds` is the time of the update.
    fn record_state(&mut self, state: &ArrayState, unix_seconds: u64) -> Vec<MetadataWrite>;

    /// The writes that set and clear write-intent bits (indices of chunks of the sync space) on all members of the last update.
    /// Called only if the array has a bitmap.
    fn record_intent(&mut self, set: &[u64], clear: &[u64]) -> Vec<MetadataWrite>;

    /// The writes that make `blocks` (sectors of the data area) the bad blocks of a member. Each is durable before the next begins
    /// (R52). `None`, the default: the format has no space for them.
    fn record_bad_blocks(
        &mut self,
        member: MemberId,
        blocks: &[Range<MemberSector>],
        unix_seconds: u64,
    ) -> Option<Vec<MetadataWrite>> {
        let _ = (member, blocks, unix_seconds);
        None
    }

    /// Not all of the last list of a member was written. The next one changes the one before, which is durable (R52).
    fn bad_blocks_failed(&mut self, member: MemberId) {
        let _ = member;
    }

    /// The writes that begin a new log session: one batch, in any order. Called only if the array has a log, and after replay
    /// (R32).
    fn reset_log(&mut self) -> Vec<MetadataWrite> {
        Vec::new()
    }

    /// A metadata write to a member failed, so what it holds is not known: the next updates write all of it.
    fn write_failed(&mut self, member: MemberId) {
        let _ = member;
    }

    /// The layout that lanes need to append to the members' logs. Called again after each [`Recorder::reset_log`] and each
    /// change of members.
    fn log_layout(&self) -> <Self::Log as LaneLog>::Layout;
}

/// One lane's part of the members' write logs. Each lane appends by itself.
pub trait LaneLog: Default {
    /// The log session, and where each member's log lies. Goes from the coordinator to the other lanes.
    type Layout: Clone + Send + 'static;

    /// Sets the lane, and where the logs lie from now on. Logs of members that stay the same within a session continue.
    fn set_layout(&mut self, lane: usize, layout: Self::Layout);

    /// The write that appends `records` to a member's log. `None`: no space until more is free; without records: it would free
    /// none.
    fn append(&mut self, member: MemberId, records: &[LogRecord], terms: AppendTerms) -> Option<MetadataWrite>;

    /// The last append to a member's log could not be written. Its space is free and the next append takes it. Otherwise a
    /// member that stays although it cannot be written would use up its ring, and leave gaps that look like damage.
    fn append_failed(&mut self, member: MemberId);
}

/// Stores nothing: for arrays without metadata, such as tests and benchmarks on RAM.
#[derive(Clone, Debug, Default)]
pub struct NoMetadata;

impl Recorder for NoMetadata {
    type Log = Self;
    type Newcomer = ();

    fn record_state(&mut self, _state: &ArrayState, _unix_seconds: u64) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_intent(&mut self, _set: &[u64], _clear: &[u64]) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_bad_blocks(
        &mut self,
        _member: MemberId,
        _blocks: &[Range<MemberSector>],
        _unix_seconds: u64,
    ) -> Option<Vec<MetadataWrite>> {
        Some(Vec::new())
    }
    fn log_layout(&self) {}
}

/// Never used, since an array without metadata has no log.
impl LaneLog for NoMetadata {
    type Layout = ();

    fn set_layout(&mut self, _lane: usize, (): ()) {}
    fn append(&mut self, member: MemberId, records: &[LogRecord], terms: AppendTerms) -> Option<MetadataWrite> {
        panic!("{} records for {member:?}, {terms:?}, and no log to keep them", records.len());
    }
    fn append_failed(&mut self, member: MemberId) {
        panic!("{member:?} was given no append");
    }
}
