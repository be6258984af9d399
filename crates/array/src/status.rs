//! The engine's state, as it is reported, and its events.

use crate::address::SyncSpace;
use crate::{DropCause, MemberId, MemberSector, SyncSector, Synced};
use std::fmt;
use stria_block::{IoError, Nanos};

/// The state of a member in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is in sync with its slot.
    InSync,
    /// It is being filled for its slot.
    Rebuilding,
    /// It is being filled by copy of the member that it will replace.
    Replacing,
    /// It waits for a slot.
    Spare,
    /// Was dropped.
    Failed,
}

/// One member.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Its handle.
    pub id: MemberId,
    /// The name that people see.
    pub name: String,
    /// Its state.
    pub state: MemberState,
    /// Its slot, or the last one it had.
    pub slot: Option<usize>,
    /// Requests that it has not ended.
    pub in_flight: usize,
    /// Reads and writes ended.
    pub read_count: u64,
    /// See above.
    pub write_count: u64,
    /// Sectors read.
    pub read_sectors: u64,
    /// Sectors written.
    pub written_sectors: u64,
    /// Read errors; most were recovered and written back.
    pub read_errors: u64,
    /// Clients' reads that it left unanswered for so long that others answered them.
    pub hedged_count: u64,
    /// Sectors that hold other data than redundancy says, as found by the last or the running scrub.
    pub wrong_sectors: u64,
    /// Wrong sectors that were rewritten with what redundancy says, since the array started.
    pub repaired_sectors: u64,
    /// Bad blocks: sectors recorded as holding nothing usable, until they are written.
    pub bad_sectors: u64,
    /// It had no space for a write in the last minute.
    pub has_no_space: bool,
    /// The array's data is not complete without it, so that it cannot be failed.
    pub is_needed: bool,
    /// Why it was dropped, or is gone.
    pub failure: Option<DropCause>,
}

/// The state of the array: the worst that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Every slot has an in-sync member.
    Optimal,
    /// The array works with less redundancy than its level has.
    Degraded,
    /// More members are lost than redundancy replaces.
    Failed,
}

/// A pass over the whole array in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepKind {
    /// Makes redundancy consistent after a crash or at creation.
    Resync,
    /// Fills members: missing ones from redundancy, replacements by copy.
    Rebuild,
    /// Reads everything and compares. With `repair`, also corrects.
    Scrub {
        /// Write what redundancy should be.
        repair: bool,
    },
}

impl fmt::Display for SweepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resync => "resync",
            Self::Rebuild => "rebuild",
            Self::Scrub { .. } => "scrub",
        })
    }
}

/// How far a sweep is.
pub(crate) fn percent(done_sectors: u64, total_sectors: u64) -> u64 {
    done_sectors * 100 / total_sectors.max(1)
}

/// Why a sweep was stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Sweeps are paused, or the array stops and what is left begins anew at its next start.
    Paused {
        /// How far it was.
        percent: u64,
    },
    /// A rebuild goes first.
    GivesWay {
        /// How far it was.
        percent: u64,
    },
    /// It was cancelled, and can be begun again where it was.
    Cancelled {
        /// How far it was.
        percent: u64,
    },
    /// The array stops, and it can be begun again where it was.
    ArrayStops {
        /// How far it was.
        percent: u64,
    },
    /// It cannot go on, for this reason.
    Failed(SweepFault),
}

/// Why a sweep cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepFault {
    /// A request to a member failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The array stops.
    #[error("the array stops")]
    ArrayStops,
    /// The array has failed (R50).
    #[error("the array has lost a member that it cannot do without: serve it again with that member, and this goes on")]
    ArrayFailed,
    /// The member that was being filled has failed.
    #[error("member {drive} failed")]
    TargetFailed {
        /// The member.
        drive: String,
    },
    /// No copy of these sectors can be read.
    #[error("array sectors {start_sector}.. have no readable copy")]
    NoCopy {
        /// The first sector of the array.
        start_sector: u64,
    },
    /// No copy of a member's row can be read.
    #[error("row {row} of slot {slot} has no readable copy")]
    NoCopyOfRow {
        /// The row.
        row: u64,
        /// The slot of the member.
        slot: usize,
    },
    /// Rows that cannot be filled have no space in the list of bad blocks.
    #[error("{reason}, and the bad-block log has no space to say so: replace the members with bad blocks")]
    BadBlocksFull {
        /// Why they cannot be filled.
        reason: Box<SweepFault>,
    },
    /// Rows cannot be reconstructed.
    #[error("rows {row}.. cannot be reconstructed")]
    Unreconstructible {
        /// The first row.
        row: u64,
    },
    /// The write log of this run cannot begin.
    #[error("the write log cannot begin, and is tried again every 10 s: {reason}")]
    LogCannotBegin {
        /// Why.
        reason: IoError,
    },
}

/// What a sweep found, in sectors of the sync space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Redundancy did not match the data, or copies differed.
    pub mismatch_sectors: u64,
    /// A scrub had nothing to compare with, because members were missing or could not be read.
    pub unchecked_sectors: u64,
}

impl std::ops::Add for Findings {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            mismatch_sectors: self.mismatch_sectors + other.mismatch_sectors,
            unchecked_sectors: self.unchecked_sectors + other.unchecked_sectors,
        }
    }
}

impl std::ops::AddAssign for Findings {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The progress of a sweep.
#[derive(Clone, Debug)]
pub struct SweepStatus {
    /// Its kind.
    pub kind: SweepKind,
    /// Sectors done and to do: of each member when rebuilding, else of the sync space.
    pub done_sectors: u64,
    /// See above.
    pub total_sectors: u64,
    /// Speed over the last seconds.
    pub sectors_per_s: u64,
    /// Seconds until the end at that speed.
    pub eta_s: Option<u64>,
    /// Sectors of each member per second to which the sweep is limited while clients work.
    pub held_sectors_per_s: Option<u64>,
    /// What it has found so far.
    pub found: Findings,
    /// Paused because clients come first, or by command.
    pub paused: bool,
}

/// The array at one moment.
#[derive(Clone, Debug)]
pub struct ArrayStatus {
    /// The worst that applies.
    pub health: Health,
    /// Writes are refused.
    pub read_only: bool,
    /// Writes are refused for this: what the log holds of the last run could not be replayed.
    pub unreplayed: Option<IoError>,
    /// Superblocks cannot be written, for this reason: writes and flushes fail until they can.
    pub superblock_refused: Option<IoError>,
    /// Nothing is in flight, nothing awaits replay, and the superblocks say clean.
    pub clean: bool,
    /// As far as this no resync is due, also none of suspect parity
    /// ([`ArrayConfig::suspects_parity`](crate::ArrayConfig::suspects_parity)).
    pub synced: Synced<SyncSpace>,
    /// In order of their handles.
    pub members: Vec<MemberStatus>,
    /// The members by slot, if any.
    pub slots: Vec<Option<MemberId>>,
    /// The running sweep.
    pub sweep: Option<SweepStatus>,
    /// What the last finished scrub found.
    pub last_scrub: Option<Findings>,
    /// True if that scrub repaired the mismatches.
    pub mismatch_repaired: bool,
    /// The number of members that may still be lost, whichever they are.
    pub losses_survived: usize,
    /// Set bits of the write-intent bitmap, and bits in all.
    pub intent: Option<(usize, usize)>,
    /// The write log: appends to members, and records in them; `None`: it has none.
    pub log: Option<LogStatus>,
    /// Requests that have not ended.
    pub in_flight: usize,
}

impl ArrayStatus {
    /// The status of an array from those of its lanes, the coordinator first: the worst state, the least progress, sums of
    /// counts.
    ///
    /// # Panics
    /// Without any.
    pub fn joined(lanes: Vec<ArrayStatus>) -> ArrayStatus {
        let mut lanes = lanes.into_iter();
        let mut all = lanes.next().expect("an array has a lane");
        for lane in lanes {
            all.health = all.health.max(lane.health);
            all.read_only |= lane.read_only;
            all.unreplayed = all.unreplayed.or(lane.unreplayed);
            all.superblock_refused = all.superblock_refused.or(lane.superblock_refused);
            all.clean &= lane.clean;
            all.synced = all.synced.min(lane.synced);
            all.members.iter_mut().zip(lane.members).for_each(|(member, other)| member.join(other));
            all.sweep = match (all.sweep, lane.sweep) {
                (Some(sweep), Some(other)) => Some(sweep.joined(&other)),
                (sweep, other) => sweep.or(other),
            };
            all.last_scrub = all.last_scrub.map(|found| found + lane.last_scrub.unwrap_or_default());
            all.mismatch_repaired &= lane.mismatch_repaired;
            all.losses_survived = all.losses_survived.min(lane.losses_survived);
            // Several lanes may have set the same bit.
            all.intent = all.intent.zip(lane.intent).map(|((set, all), (other, _))| ((set + other).min(all), all));
            all.log = all.log.zip(lane.log).map(|(log, other)| log.joined(&other));
            all.in_flight += lane.in_flight;
        }
        let failed = |member: &MemberId| all.members[member.0].state == MemberState::Failed;
        all.slots.iter_mut().for_each(|slot| *slot = slot.filter(|member| !failed(member)));
        all
    }
}

impl MemberStatus {
    fn join(&mut self, other: MemberStatus) {
        self.state = match (self.state, other.state) {
            (_, MemberState::Failed) => MemberState::Failed,
            (MemberState::InSync, state @ (MemberState::Rebuilding | MemberState::Replacing)) => state,
            (state, _) => state,
        };
        self.failure = self.failure.take().or(other.failure);
        self.in_flight += other.in_flight;
        self.read_count += other.read_count;
        self.write_count += other.write_count;
        self.read_sectors += other.read_sectors;
        self.written_sectors += other.written_sectors;
        self.read_errors += other.read_errors;
        self.hedged_count += other.hedged_count;
        self.wrong_sectors += other.wrong_sectors;
        self.repaired_sectors += other.repaired_sectors;
        self.bad_sectors += other.bad_sectors;
        self.has_no_space = (self.has_no_space || other.has_no_space) && self.state != MemberState::Failed;
    }
}

impl SweepStatus {
    fn joined(self, other: &SweepStatus) -> SweepStatus {
        SweepStatus {
            done_sectors: self.done_sectors.min(other.done_sectors),
            sectors_per_s: self.sectors_per_s.min(other.sectors_per_s),
            eta_s: self.eta_s.max(other.eta_s),
            held_sectors_per_s: self.held_sectors_per_s.or(other.held_sectors_per_s),
            found: self.found + other.found,
            paused: self.paused || other.paused,
            ..self
        }
    }
}

impl LogStatus {
    fn joined(self, other: &LogStatus) -> LogStatus {
        LogStatus {
            append_count: self.append_count + other.append_count,
            record_count: self.record_count + other.record_count,
            append_sectors: self.append_sectors + other.append_sectors,
            early_count: self.early_count + other.early_count,
            full_count: self.full_count + other.full_count,
            replaying: self.replaying || other.replaying,
            replayed_count: self.replayed_count + other.replayed_count,
            newest_only: self.newest_only,
        }
    }
}

/// The work of the write log since the array started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// Writes to members' logs.
    pub append_count: u64,
    /// Records in them.
    pub record_count: u64,
    /// Sectors of appends, heads included.
    pub append_sectors: u64,
    /// Writes that were acknowledged early.
    pub early_count: u64,
    /// Appends that found no space, and waited for records to be retired.
    pub full_count: u64,
    /// Log records of the last run are being replayed.
    pub replaying: bool,
    /// The number of log records that the last run left.
    pub replayed_count: u64,
    /// It is md's partial parity log, see [`crate::LogConfig`].
    pub newest_only: bool,
}

/// Something that belongs into the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member was dropped.
    MemberFailed {
        /// The member.
        member: MemberId,
        /// Its slot.
        slot: Option<usize>,
        /// The cause.
        cause: DropCause,
    },
    /// A member is gone that the array cannot do without: it keeps its slot, and requests that need it fail.
    MemberGone {
        /// The member.
        member: MemberId,
        /// Its slot.
        slot: Option<usize>,
        /// The cause.
        cause: DropCause,
    },
    /// A member has no space for what was to be written. It keeps its slot, and clients get "no space".
    NoSpace {
        /// The member.
        member: MemberId,
        /// Its error.
        error: IoError,
    },
    /// Superblocks cannot be written: no member in sync takes them, or this one, which must stay, missed one already. Writes and
    /// flushes fail until they can.
    SuperblockRefused {
        /// The member.
        member: MemberId,
        /// The cause.
        error: IoError,
    },
    /// A spare took a slot.
    SpareTaken {
        /// The member.
        member: MemberId,
        /// The slot.
        slot: usize,
    },
    /// A member is in sync with its slot.
    MemberInSync {
        /// The member.
        member: MemberId,
        /// The slot.
        slot: usize,
    },
    /// Sectors that could not be read were recovered and written back.
    ReadCorrected {
        /// The member.
        member: MemberId,
        /// First sector in its data area.
        start_sector: MemberSector,
        /// The number of sectors.
        sectors: u64,
    },
    /// Blocks of a member with checksums do not match. Reported by the layer that keeps the checksums, through the host; the
    /// engine sees them as unreadable sectors.
    WrongBytes {
        /// The member.
        member: MemberId,
        /// First sector in its data area.
        start_sector: MemberSector,
        /// The number of sectors.
        sectors: u64,
    },
    /// Sectors could not be rebuilt because their source is lost, or were half-written beyond redundancy. They are bad blocks
    /// until they are written.
    BadBlocks {
        /// The member.
        member: MemberId,
        /// First sector in its data area.
        start_sector: MemberSector,
        /// The number of sectors.
        sectors: u64,
    },
    /// A sweep began.
    SweepStarted(SweepKind),
    /// A sweep has ended.
    SweepFinished {
        /// Its kind.
        kind: SweepKind,
        /// What it found.
        found: Findings,
        /// Members that a scrub found wrong, with the count of their wrong sectors.
        wrong: Vec<(MemberId, u64)>,
        /// Its duration.
        duration: Nanos,
    },
    /// A sweep was stopped before its end.
    SweepStopped {
        /// Its kind.
        kind: SweepKind,
        /// The cause.
        cause: StopCause,
        /// The position below which all is done.
        at_sector: u64,
        /// True if it goes on from there by itself, once it is resumed or a rebuild has ended.
        goes_on: bool,
    },
    /// A sweep found sectors that no member can read and redundancy cannot recover.
    Unreadable {
        /// The position in the sync space.
        sync_sector: SyncSector,
        /// The number of sectors.
        sectors: u64,
    },
    /// A mismatch.
    Mismatch {
        /// The position in the sync space.
        sync_sector: SyncSector,
        /// The number of sectors.
        sectors: u64,
        /// The member that is wrong and its slot, if redundancy shows it.
        culprit: Option<(MemberId, usize)>,
        /// The culprit was rewritten; without one, redundancy was made to match what lies there.
        repaired: bool,
    },
}
