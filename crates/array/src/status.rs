//! What the engine tells about itself.

use crate::MemberId;
use stria_block::Nanos;

/// What a member does in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// Holds its role whole.
    InSync,
    /// Is being filled for its role.
    Rebuilding,
    /// Receives a copy of the member that it will replace.
    Replacing,
    /// Waits for a role.
    Spare,
    /// Was dropped.
    Failed,
}

/// One member.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Its handle.
    pub id: MemberId,
    /// For people.
    pub name: String,
    /// What it does.
    pub role: MemberRole,
    /// Its role's number, or the last it had.
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
    /// Read errors met; most were reconstructed and rewritten.
    pub read_errors: u64,
    /// Reads of clients that it left unanswered for so long that others answered them.
    pub hedged_count: u64,
    /// Sectors that hold other bytes than redundancy says, as far as the last or the running scrub found.
    pub wrong_sectors: u64,
    /// Wrong sectors that were rewritten with what redundancy says, since the array started.
    pub repaired_sectors: u64,
    /// Sectors known to hold nothing of worth, until they are written.
    pub bad_sectors: u64,
    /// Why it was dropped, or is gone.
    pub failure: Option<String>,
}

/// The overall state, the worst that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Every role has a whole member.
    Optimal,
    /// Works with less redundancy than the level has.
    Degraded,
    /// Lost more than redundancy allows.
    Failed,
}

/// A pass over the whole array in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepKind {
    /// Makes redundancy agree after a crash or creation.
    Resync,
    /// Fills members: missing ones from redundancy, replacements by copy.
    Rebuild,
    /// Reads everything and compares; with `repair`, also mends.
    Scrub {
        /// Write what redundancy should be.
        repair: bool,
    },
}

/// How far a sweep is.
#[derive(Clone, Debug)]
pub struct SweepStatus {
    /// Which.
    pub kind: SweepKind,
    /// Sectors done and to do: of each member when rebuilding, else of the sync space.
    pub done_sectors: u64,
    /// See above.
    pub total_sectors: u64,
    /// Speed over the last seconds.
    pub sectors_per_s: u64,
    /// When the rest will be done at that speed.
    pub eta_s: Option<u64>,
    /// Sectors of each member per second to which it is held, as clients work.
    pub held_sectors_per_s: Option<u64>,
    /// Sectors whose redundancy disagreed.
    pub mismatch_sectors: u64,
    /// Stands still because clients come first, or on command.
    pub paused: bool,
}

/// The array at one moment.
#[derive(Clone, Debug)]
pub struct ArrayStatus {
    /// The worst that applies.
    pub health: Health,
    /// Writes are refused.
    pub read_only: bool,
    /// Nothing is in flight and the superblocks say so.
    pub clean: bool,
    /// Redundancy holds below this position of the sync space; `u64::MAX`: everywhere.
    pub resync_sector: u64,
    /// In order of their handles.
    pub members: Vec<MemberStatus>,
    /// By role: the member, if any.
    pub slots: Vec<Option<MemberId>>,
    /// What runs.
    pub sweep: Option<SweepStatus>,
    /// Mismatching sectors that the last finished scrub found.
    pub mismatch_sectors: Option<u64>,
    /// Whether that scrub repaired them.
    pub mismatch_repaired: bool,
    /// How many more members may be lost, whichever they are.
    pub losses_survived: usize,
    /// Set bits of the write-intent bitmap, and bits in all.
    pub intent: Option<(usize, usize)>,
    /// The write log: appends to members, and records in them; `None`: it has none.
    pub log: Option<LogStatus>,
    /// Requests that have not ended.
    pub in_flight: usize,
}

impl ArrayStatus {
    /// One status of what several lanes say, the home lane first: the worst of states, the least of progress, sums of counts.
    ///
    /// # Panics
    /// Without any.
    pub fn joined(lanes: Vec<ArrayStatus>) -> ArrayStatus {
        let mut lanes = lanes.into_iter();
        let mut all = lanes.next().expect("an array has a lane");
        for lane in lanes {
            all.health = all.health.max(lane.health);
            all.read_only |= lane.read_only;
            all.clean &= lane.clean;
            all.resync_sector = all.resync_sector.min(lane.resync_sector);
            all.members.iter_mut().zip(lane.members).for_each(|(member, other)| member.join(other));
            all.sweep = match (all.sweep, lane.sweep) {
                (Some(sweep), Some(other)) => Some(sweep.joined(&other)),
                (sweep, other) => sweep.or(other),
            };
            all.mismatch_sectors = all.mismatch_sectors.map(|found| found + lane.mismatch_sectors.unwrap_or(0));
            all.mismatch_repaired &= lane.mismatch_repaired;
            all.losses_survived = all.losses_survived.min(lane.losses_survived);
            // Some bits are several lanes'.
            all.intent = all.intent.zip(lane.intent).map(|((set, all), (other, _))| ((set + other).min(all), all));
            all.log = all.log.zip(lane.log).map(|(log, other)| log.joined(&other));
            all.in_flight += lane.in_flight;
        }
        let failed = |member: &MemberId| all.members[member.0].role == MemberRole::Failed;
        all.slots.iter_mut().for_each(|slot| *slot = slot.filter(|member| !failed(member)));
        all
    }
}

impl MemberStatus {
    fn join(&mut self, other: MemberStatus) {
        self.role = match (self.role, other.role) {
            (_, MemberRole::Failed) => MemberRole::Failed,
            (MemberRole::InSync, role @ (MemberRole::Rebuilding | MemberRole::Replacing)) => role,
            (role, _) => role,
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
        self.bad_sectors = self.bad_sectors.max(other.bad_sectors);
    }
}

impl SweepStatus {
    fn joined(self, other: &SweepStatus) -> SweepStatus {
        SweepStatus {
            done_sectors: self.done_sectors.min(other.done_sectors),
            sectors_per_s: self.sectors_per_s.min(other.sectors_per_s),
            eta_s: self.eta_s.max(other.eta_s),
            held_sectors_per_s: self.held_sectors_per_s.or(other.held_sectors_per_s),
            mismatch_sectors: self.mismatch_sectors + other.mismatch_sectors,
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

/// What the write log did since the array started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// Writes to members' logs.
    pub append_count: u64,
    /// Records in them.
    pub record_count: u64,
    /// Sectors of appends, heads included.
    pub append_sectors: u64,
    /// Writes that were acknowledged when their records were kept.
    pub early_count: u64,
    /// Appends that found no room, and waited for records to be retired.
    pub full_count: u64,
    /// Records of the last run are being made sense of, or not yet carried out.
    pub replaying: bool,
    /// How many there were.
    pub replayed_count: u64,
    /// As in [`crate::LogConfig`]: it is md's.
    pub newest_only: bool,
}

/// Something a log should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member was dropped.
    MemberFailed {
        /// Who.
        member: MemberId,
        /// Its role.
        slot: Option<usize>,
        /// Why.
        reason: String,
    },
    /// A member is gone that the array cannot do without: it keeps its role, and requests that need it fail.
    MemberGone {
        /// Who.
        member: MemberId,
        /// Its role.
        slot: Option<usize>,
        /// Why.
        reason: String,
    },
    /// A member has no room for what was to be written. It keeps its role, and clients hear that there is no room.
    NoRoom {
        /// Who.
        member: MemberId,
        /// Its own words.
        reason: String,
    },
    /// A spare took a role.
    SpareTaken {
        /// Who.
        member: MemberId,
        /// The role.
        slot: usize,
    },
    /// A member holds its role whole.
    MemberInSync {
        /// Who.
        member: MemberId,
        /// The role.
        slot: usize,
    },
    /// Sectors that could not be read were reconstructed and rewritten.
    ReadCorrected {
        /// Whose.
        member: MemberId,
        /// Where on its data area.
        start_sector: u64,
        /// How many.
        sectors: u64,
    },
    /// Sectors of a member with checksums hold other bytes than were written there. Told by the layer that keeps them, through
    /// whoever hosts the array; the engine only meets sectors that cannot be read.
    WrongBytes {
        /// Whose.
        member: MemberId,
        /// Where on its data area.
        start_sector: u64,
        /// How many.
        sectors: u64,
    },
    /// Sectors could not be filled, because their source is lost, or were half-written beyond redundancy; they read as errors
    /// until they are written.
    BadBlocks {
        /// Whose.
        member: MemberId,
        /// Where on its data area.
        start_sector: u64,
        /// How many.
        sectors: u64,
    },
    /// A sweep began.
    SweepStarted(SweepKind),
    /// A sweep went through.
    SweepFinished {
        /// Which.
        kind: SweepKind,
        /// Sectors whose redundancy disagreed.
        mismatch_sectors: u64,
        /// Members that a scrub found wrong, with the count of their wrong sectors.
        wrong: Vec<(MemberId, u64)>,
        /// How long it took.
        duration: Nanos,
    },
    /// A sweep ended before its end.
    SweepStopped {
        /// Which.
        kind: SweepKind,
        /// Why.
        reason: String,
    },
    /// A sweep found sectors that no member can read and redundancy cannot replace.
    Unreadable {
        /// Where in the sync space.
        sync_sector: u64,
        /// How many sectors.
        sectors: u64,
    },
    /// Redundancy disagreed at a place.
    Mismatch {
        /// Where in the sync space.
        sync_sector: u64,
        /// How many sectors.
        sectors: u64,
        /// The member that is wrong and its role, where redundancy can tell.
        culprit: Option<(MemberId, usize)>,
        /// The culprit was rewritten; without one, redundancy was made to agree with what lies there.
        repaired: bool,
    },
}

/// Why a command was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);
