//! What must be durable on the members' metadata, and the face of whoever knows its bytes.
//!
//! The engine says *what* (an [`ArrayState`], write-intent bits), a [`Recorder`] (the `format` crate)
//! says *which bytes*, and the binder writes them. Recording is synchronous in thought: the engine does
//! not acknowledge what depends on a record before all of its writes have ended.

use crate::{AppendTerms, LogRecord, MemberId};
use std::ops::Range;
use stria_block::{Data, IoError};

/// The place of a member in its array at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who.
    pub member: MemberId,
    /// Member sectors below this hold what they should; `u64::MAX`: all.
    pub recovered_sector: u64,
    /// The missing sectors are those of the write-intent bitmap only (a member that came back).
    pub by_intent: bool,
}

/// A role: the member that holds it, and one that is being made ready to take it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// The member; `None`: missing or failed.
    pub member: Option<Place>,
    /// Receives a copy of the member, to replace it.
    pub replacement: Option<Place>,
}

/// What every superblock of the array must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayState {
    /// No write is in flight, and none was since the last clean state: a crash now needs no resync.
    pub clean: bool,
    /// Redundancy holds below this position of the sync space; `u64::MAX`: everywhere.
    pub resync_sector: u64,
    /// By role.
    pub slots: Vec<SlotState>,
    /// Members that wait for a role.
    pub spares: Vec<MemberId>,
    /// Members that were dropped since the array started, with the role they had; they are not written to.
    pub failed: Vec<(MemberId, Option<usize>)>,
    /// Every role has a whole member, so that cleared write-intent bits need not be kept for one that returns.
    pub whole: bool,
}

impl ArrayState {
    /// Takes back what was achieved since `earlier`.
    pub(crate) fn claim_no_more_than(&mut self, earlier: &Self) {
        self.clean &= earlier.clean;
        self.resync_sector = self.resync_sector.min(earlier.resync_sector);
        self.whole &= earlier.whole;
        let places = earlier.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten();
        let known: Vec<_> = places.map(|place| (place.member, place.recovered_sector)).collect();
        for place in self.slots.iter_mut().flat_map(|slot| [&mut slot.member, &mut slot.replacement]).flatten() {
            let before = known.iter().find(|(member, _)| *member == place.member).map_or(0, |(_, sector)| *sector);
            place.recovered_sector = place.recovered_sector.min(before);
        }
    }
}

/// Members on which something could not be written, and why.
pub type IoFailures = Vec<(MemberId, IoError)>;

/// Some bytes on one member's metadata area.
#[derive(Clone, Debug)]
pub struct MetadataWrite {
    /// On which member.
    pub member: MemberId,
    /// Where, from the start of the drive (not of the data area).
    pub start_sector: u64,
    /// A multiple of the member's logical block.
    pub data: Data,
}

/// Knows the bytes of a metadata format. Pure: it returns writes, the binder carries them out,
/// durable (FUA) before the record counts as made.
pub trait Recorder {
    /// Keeps one lane's part of the members' logs.
    type Log: LaneLog;

    /// The writes that must be durable before the next state is recorded: members that missed the last record of the run
    /// before, which a crash tore, are told it. Who misses two is out. Asked again until there are none.
    fn catch_up(&mut self) -> Vec<MetadataWrite> {
        Vec::new()
    }

    /// The writes that make `state` the truth of the array, one batch without order. `unix_seconds` is
    /// the time of the update.
    fn record_state(&mut self, state: &ArrayState, unix_seconds: u64) -> Vec<MetadataWrite>;

    /// The writes that set and clear write-intent bits (indices of chunks of the sync space) on all members
    /// of the last recorded state. Called only when the array has a bitmap.
    fn record_intent(&mut self, set: &[u64], clear: &[u64]) -> Vec<MetadataWrite>;

    /// The writes that make `blocks` (sectors of the data area) the places of a member that hold nothing of worth.
    /// `None`: the format has no room for them; the default.
    fn record_bad_blocks(&mut self, member: MemberId, blocks: &[Range<u64>], unix_seconds: u64) -> Option<Vec<MetadataWrite>> {
        let _ = (member, blocks, unix_seconds);
        None
    }

    /// The writes that begin the members' logs anew, one batch without order: what they hold counts no more. Called only
    /// when the array has a log, and once a replay is through.
    fn reset_log(&mut self) -> Vec<MetadataWrite> {
        Vec::new()
    }

    /// What lanes must know to append to the members' logs: asked again after each [`Recorder::reset_log`], and after each change
    /// of members.
    fn log_places(&self) -> <Self::Log as LaneLog>::Places;
}

/// One lane's part of the members' write logs: appends are made on each lane by itself.
pub trait LaneLog: Default {
    /// Session, and where each member's log lies; goes from the home lane to the others.
    type Places: Clone + Send + 'static;

    /// This is lane `lane`; the logs are as `places` says from now on. Those of members that go on being the same, in the same
    /// session, go on.
    fn know(&mut self, lane: usize, places: Self::Places);

    /// The write that appends `records` to a member's log. `None`: no room before more is free; without records, which always
    /// find some: it would free none.
    fn append(&mut self, member: MemberId, records: &[LogRecord], terms: AppendTerms) -> Option<MetadataWrite>;

    /// The last append to a member's log could not be written: its place is free, and the next one takes it. Otherwise a member
    /// that stays although it cannot be written would use up its ring, and leave gaps in it that pass for damage.
    fn append_failed(&mut self, member: MemberId);
}

/// Keeps nothing: for arrays without metadata, such as tests and benchmarks on RAM.
#[derive(Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    type Log = Self;

    fn record_state(&mut self, _state: &ArrayState, _unix_seconds: u64) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_intent(&mut self, _set: &[u64], _clear: &[u64]) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_bad_blocks(&mut self, _member: MemberId, _blocks: &[Range<u64>], _unix_seconds: u64) -> Option<Vec<MetadataWrite>> {
        Some(Vec::new())
    }
    fn log_places(&self) {}
}

/// Never asked, as no array without metadata has a log.
impl LaneLog for NoRecorder {
    type Places = ();

    fn know(&mut self, _lane: usize, (): ()) {}
    fn append(&mut self, member: MemberId, records: &[LogRecord], terms: AppendTerms) -> Option<MetadataWrite> {
        panic!("{} records for {member:?}, {terms:?}, and no log to keep them", records.len());
    }
    fn append_failed(&mut self, member: MemberId) {
        panic!("{member:?} was given no append");
    }
}
