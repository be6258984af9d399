//! Assembly: decides from the content of a set of drives which arrays can start, and gives the reasons for the others.
//!
//! Drives come in any order, with strangers, lagging members and copies among them. They are sorted into arrays by identity.
//! Within an array the member with the most events tells the truth. A member with one event less is as good, because a crash
//! may hit between the writes of one superblock update. So is a member with equal events whose last update was torn
//! (`has_torn_update`). A member that is further behind was away: it stays out, and may return by the bitmap if that reaches back
//! far enough (R27, R55, R75). Nothing is written here; the array's first superblock update makes the decisions durable.
//!
//! After `Assemble.c` of mdadm, `super_1_validate` and `raid5_run` of Linux.

mod intent;
mod logs;
mod obstacle;
mod updates;
mod verdicts;
mod warning;

use self::logs::LastLog;
pub use self::obstacle::{LackOfLog, Obstacle, Remedy, Unusable};
use self::updates::{are_rivals, as_freshest_says, counts, has_torn_update, missed_last, without_last_update};
use self::verdicts::suffices;
pub use self::warning::StartWarning;
use super::bitmap::BitmapError;
pub use super::counts::Contradiction;
use super::log::FoundLog;
use super::member::{Candidate, Member};
use super::recorder::{MdRecorder, MemberMetadata, Stamp, Unreturnable};
use super::shape::layout_of;
use super::superblock::{CLEAN, Role, Superblock, SuperblockError, feature, synced};
use crate::detect::Signature;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use stria_array::address::MemberSpace;
use stria_array::{
    ArrayConfig, Geometry, Layout, Level, LogConfig, MemberConfig, MemberId, NEW_DATA_SECTORS_MAX, SlotConfig, Synced,
};
use thiserror::Error;

/// The administrator's options for a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Start although data may be lost: a degraded array that was not stopped, stale members where the others do not suffice, an
    /// unreadable bitmap.
    pub force: bool,
    /// Take back members that were away, by the bitmap.
    pub take_back: bool,
    /// Serve reads only.
    pub read_only: bool,
}

/// The verdict on a drive in its array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Holds its slot, up to date.
    InSync {
        /// The slot.
        slot: usize,
    },
    /// Holds a slot and is being filled.
    Rebuilding {
        /// The slot.
        slot: usize,
        /// Filled up to here.
        recovered: Synced<MemberSpace>,
        /// Only the chunks that the bitmap names are missing.
        by_bitmap: bool,
    },
    /// It is being filled as a replacement for a slot.
    Replacement {
        /// The slot.
        slot: usize,
        /// Filled so far.
        recovered: Synced<MemberSpace>,
    },
    /// Waits for a slot.
    Spare,
    /// Missed superblock updates; stays out.
    Away {
        /// Its former slot, if known.
        slot: Option<usize>,
        /// The number of superblock updates that it missed.
        events_behind: u64,
        /// The reason why it cannot return by the bitmap; `None`: it can.
        obstacle: Option<Unreturnable>,
    },
    /// Its own superblock records that it failed.
    Faulty,
    /// Names this array, but cannot be trusted or used.
    Unusable {
        /// Why.
        reason: Unusable,
    },
}

/// One drive's line in the report.
#[derive(Clone, Debug)]
pub struct DriveReport {
    /// Index among the candidates.
    pub drive: usize,
    /// The candidate's name.
    pub name: String,
    /// The drive's own count of superblock updates.
    pub events: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// A drive that belongs to no array.
#[derive(Clone, Debug)]
pub struct Stranger {
    /// Index among the candidates.
    pub drive: usize,
    /// The candidate's name.
    pub name: String,
    /// Its other contents, in words.
    pub reason: String,
    /// The first of them that is known.
    pub signature: Option<Signature>,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a member of an array: {}", self.name, self.reason)
    }
}

/// The reason why an array cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot start array \"{array}\": {reason}")]
pub struct AssembleError {
    /// Its name.
    pub array: String,
    /// The kind of error, to match on.
    pub kind: AssembleErrorKind,
    /// Cause and remedy.
    pub reason: Obstacle,
}

/// Kinds of [`AssembleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssembleErrorKind {
    /// Too few members.
    Missing,
    /// Degraded and not stopped cleanly; [`Options::force`] starts it.
    DirtyDegraded,
    /// Drives contradict each other.
    Conflict,
    /// It needs a feature that Stria does not have.
    Unserved,
    /// Its metadata contradict themselves; `force` may help where the reason says so.
    Damaged,
}

/// An array that can start.
#[derive(Clone, Debug)]
pub struct Start {
    /// The configuration of the engine.
    pub config: ArrayConfig,
    /// The index of each member's drive among the candidates, by member handle.
    pub drives: Vec<usize>,
    /// The recorder of the metadata.
    pub recorder: MdRecorder,
    /// The consequences of [`Options::force`], in words, for the administrator.
    pub warnings: Vec<StartWarning>,
}

impl Start {
    /// The same on so many lanes, which share the space of the members' logs; see [`MdRecorder::with_lanes`].
    #[must_use]
    pub fn with_lanes(mut self, count: usize) -> Self {
        self.recorder = self.recorder.with_lanes(count);
        if let (Some(log), Some(append_sectors_max)) = (&mut self.config.log, self.recorder.append_sectors_max()) {
            log.append_sectors_max = append_sectors_max;
        }
        self
    }
}

/// One array found on the drives.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// Its identity.
    pub uuid: [u8; 16],
    /// `host:name` or `name`.
    pub name: String,
    /// The superblock with the most events, which decides, and the mark of a span if any member has it.
    pub freshest: Superblock,
    /// Every drive whose superblock names this array.
    pub drives: Vec<DriveReport>,
    /// Slots without a member that is in sync or being filled.
    pub missing_slots: Vec<usize>,
    /// The start, or the reason why it is impossible.
    pub outcome: Result<Start, AssembleError>,
}

/// Sorts drives into arrays and decides about each.
pub fn assemble(candidates: &[Candidate], options: &Options) -> (Vec<Assembly>, Vec<Stranger>) {
    let mut groups: BTreeMap<[u8; 16], Vec<Found>> = BTreeMap::new();
    let mut strangers = Vec::new();
    let uuid = |member: &Member| member.superblock.header.set_uuid;
    let sure = candidates.iter().filter_map(|candidate| candidate.found.as_ref().ok().filter(|member| member.doubt.is_none()));
    let sure: BTreeSet<[u8; 16]> = sure.map(uuid).collect();
    for (drive, candidate) in candidates.iter().enumerate() {
        match &candidate.found {
            // An array that a client may have written makes none of its own beside others.
            Ok(member) if member.doubt.is_some() && !sure.is_empty() && !sure.contains(&uuid(member)) => {
                let error = member.doubt.as_ref().map_or_else(String::new, ToString::to_string);
                let reason = format!(
                    "{error}; the other superblock, at the end of the drive, may have been written by a client of its array"
                );
                strangers.push(Stranger { drive, name: candidate.name.clone(), reason, signature: None });
            }
            Ok(member) => {
                let uuid = member.superblock.header.set_uuid;
                groups.entry(uuid).or_default().push(Found { drive, candidate, member });
            }
            Err(error) => strangers.push(Stranger {
                drive,
                name: candidate.name.clone(),
                reason: match candidate.carries.first() {
                    Some(signature) if *error == SuperblockError::Absent => format!("it carries {signature}"),
                    _ => error.to_string(),
                },
                signature: candidate.carries.first().cloned(),
            }),
        }
    }
    let mut assemblies: Vec<_> = groups.into_values().map(|found| assemble_one(found, options)).collect();
    assemblies.sort_by(|a, b| (&a.name, a.uuid).cmp(&(&b.name, b.uuid)));
    (assemblies, strangers)
}

#[derive(Clone, Copy)]
struct Found<'a> {
    drive: usize,
    candidate: &'a Candidate,
    member: &'a Member,
}

impl<'a> Found<'a> {
    fn superblock(&self) -> &'a Superblock {
        &self.member.superblock
    }
    fn events(&self) -> u64 {
        self.superblock().header.events
    }
    /// The space for its bitmap, or for that of the array if it has none yet.
    fn bitmap_space_sectors(&self) -> u64 {
        let superblock = self.superblock();
        match superblock.has(feature::BITMAP_OFFSET) {
            true => superblock.bitmap_space_sectors(Some(self.candidate.size_sectors)),
            false => 0,
        }
    }
    fn keeper(&self) -> MemberMetadata {
        let header = &self.superblock().header;
        MemberMetadata {
            superblock: self.superblock().clone(),
            name: self.candidate.name.clone(),
            logical_block_bytes: self.candidate.logical_block_bytes,
            bad_blocks: self.member.bad_blocks.clone().unwrap_or_default(),
            bad_blocks_before: None,
            bitmap_current: false,
            log_current: false,
            log_incarnation: 0,
            issued: [Some(Stamp(header.events, header.utime, header.sb_csum)), None],
            lost_log: None,
        }
    }
}

fn assemble_one(found: Vec<Found>, options: &Options) -> Assembly {
    // Members of an array have superblocks of one version. A superblock of version 1.0 is at a position to which the clients of a
    // 1.2 write.
    let version = found.iter().map(|found| found.superblock().minor_version()).max().unwrap_or(0);
    let (found, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| found.superblock().minor_version() == version);
    // A spare may miss superblock updates, and its count says nothing about the data.
    let holds = |found: &&Found| matches!(found.superblock().role(), Role::Slot(_) | Role::Journal);
    let yields = |other: &Found, one: &Found| match counts(one.superblock(), other) {
        true => missed_last(other, one, &found),
        false => has_torn_update(other, one, &found),
    };
    let all_yield = |one: &Found| found.iter().filter(|other| are_rivals(other, one)).all(|other| yields(other, one));
    // Of two torn updates the one that was written again drops no member.
    let slots = |one: &Found| one.superblock().roles.iter().filter(|role| matches!(role, Role::Slot(_))).count();
    let freshest = found.iter().filter(holds).max_by_key(|one| (one.events(), all_yield(one), slots(one))).unwrap_or(&found[0]);
    let outdated = found.iter().filter(|other| has_torn_update(other, freshest, &found)).map(|found| found.drive).collect();
    let behind: BTreeSet<usize> =
        found.iter().filter(|other| missed_last(other, freshest, &found)).map(|found| found.drive).collect();
    // A member that another program added has no mark.
    let marked = found.iter().filter(|one| one.superblock().span_of.is_some()).max_by_key(|one| one.events());
    let span_of = marked.and_then(|one| one.superblock().span_of);
    let freshest = &Superblock { span_of, ..freshest.superblock().clone() };
    let adapted = |one: &Found| match behind.contains(&one.drive) {
        true => Some(without_last_update(one.member)),
        false => as_freshest_says(one, freshest),
    };
    let adapted: Vec<Option<Member>> = found.iter().map(adapted).collect();
    let found: Vec<Found> = found
        .iter()
        .zip(&adapted)
        .map(|(one, adapted)| Found { member: adapted.as_ref().unwrap_or(one.member), ..*one })
        .collect();
    let mut sorter = Sorter { freshest, outdated, verdicts: BTreeMap::new(), conflict: None };
    for found in &found {
        sorter.judge(found);
    }
    sorter.refuse_counts(&found);
    sorter.refuse_copies(&found);
    sorter.refuse_rivals(&found);
    sorter.refuse_numbers(&found);
    sorter.refuse_other_slots(&found);
    sorter.refuse_histories(&found);
    if !options.force {
        sorter.refuse_firmware_raid(&found);
    }
    let outcome = sorter.start(&found, options);
    let missing_slots = sorter.missing_slots();
    let report = |found: &Found| {
        let verdict = sorter.verdicts.remove(&found.drive).unwrap_or_else(|| Verdict::Unusable {
            reason: Unusable::OtherVersion { minor: found.superblock().minor_version(), others_minor: version },
        });
        DriveReport { drive: found.drive, name: found.candidate.name.clone(), events: found.events(), verdict }
    };
    let mut drives: Vec<DriveReport> = found.iter().chain(&others).map(report).collect();
    drives.sort_by_key(|report| report.drive);
    let (uuid, name, freshest) = (freshest.header.set_uuid, freshest.name(), freshest.clone());
    Assembly { uuid, name, freshest, drives, missing_slots, outcome }
}

struct Sorter<'a> {
    freshest: &'a Superblock,
    /// Drives with equal events whose last superblock update was torn.
    outdated: BTreeSet<usize>,
    verdicts: BTreeMap<usize, Verdict>,
    conflict: Option<Obstacle>,
}

impl Sorter<'_> {
    fn slot_count(&self) -> usize {
        self.freshest.header.raid_disks as usize
    }

    fn start(&mut self, found: &[Found], options: &Options) -> Result<Start, AssembleError> {
        if let Some(conflict) = self.conflict.take() {
            return Err(self.error(AssembleErrorKind::Conflict, conflict));
        }
        let (level, layout) = self.served_shape(found, options)?;
        let mut warnings = Vec::new();
        if options.force {
            self.call_back(found, level, layout, &mut warnings);
        }
        let geometry = self.geometry(found, level, layout)?;
        self.enough(&geometry, found)?;

        // The bitmap: every member in sync has all bits that matter.
        let mut bitmap = self.bitmap(found, &geometry, options, &mut warnings)?;
        if let Some(bitmap) = &bitmap {
            self.refuse_cramped(found, bitmap);
        }
        self.refuse_spares_without_log(found, bitmap.as_ref());
        self.judge_away(found, bitmap.as_ref());
        if options.take_back {
            self.take_back(found);
        }
        let log = self.last_log(found, &geometry, options, &mut warnings)?;
        let (resync_sector, suspects_parity) = self.resync(found, &log, &geometry, options, &mut warnings)?;
        self.refuse_write_behind(found, bitmap.as_ref(), resync_sector)?;
        let intent = bitmap.as_mut().map(|bitmap| self.intent(bitmap, resync_sector));
        let mut participants = self.participants(found, &log, bitmap.is_some());
        let (keeping, mut lost_logs) = (self.keeping(&log), Vec::new());
        for (drive, lost) in log.lost {
            let Some(member) = participants.drives.iter().position(|&known| known == drive).map(MemberId) else { continue };
            // Without records nothing is replayed that a later start could miss there.
            let is_missed = !log.records.is_empty();
            participants.keepers.get_mut(&member).expect("it takes part").lost_log = is_missed.then_some(lost);
            lost_logs.push(member);
        }
        let checksums = found.iter().any(|found| participants.drives.contains(&found.drive) && found.member.checksums.is_some());
        let recorder = MdRecorder::new(participants.keepers, self.freshest.clone(), bitmap, keeping, checksums);
        let newest_only = self.freshest.ppl().is_some();
        let new_data_sectors_max = if newest_only { 0 } else { NEW_DATA_SECTORS_MAX };
        let config = ArrayConfig {
            name: self.freshest.name(),
            geometry,
            slots: participants.slots,
            spares: participants.spares,
            synced: synced(resync_sector),
            suspects_parity,
            intent,
            log: recorder.append_sectors_max().map(|append_sectors_max| LogConfig {
                append_sectors_max,
                new_data_sectors_max,
                newest_only,
            }),
            session_is_torn: log.is_torn && recorder.append_sectors_max().is_some(),
            replay: log.records,
            lost_logs,
            read_only: options.read_only,
        };
        Ok(Start { config, drives: participants.drives, recorder, warnings })
    }

    fn error(&self, kind: AssembleErrorKind, reason: Obstacle) -> AssembleError {
        AssembleError { array: self.freshest.name(), kind, reason }
    }

    /// The shape of the array, if Stria serves all that its members hold.
    fn served_shape(&self, found: &[Found], options: &Options) -> Result<(Level, Layout), AssembleError> {
        let unserved = |reason: Obstacle| self.error(AssembleErrorKind::Unserved, reason);
        self.freshest.servable().map_err(|error| unserved(error.into()))?;
        let shape = layout_of(&self.freshest.header).map_err(|error| unserved(error.into()))?;
        let block_bytes = self.freshest.header.logical_block_size;
        if !options.force && found.iter().all(|found| found.candidate.logical_block_bytes < block_bytes) {
            return Err(unserved(Obstacle::BlocksOfAllSmaller { block_bytes }));
        }
        for found in found.iter().filter(|found| !matches!(self.verdicts[&found.drive], Verdict::Unusable { .. })) {
            let name = &found.candidate.name;
            let servable = found.superblock().servable();
            servable.map_err(|reason| unserved(Obstacle::MemberUnserved { drive: name.clone(), reason }))?;
            if let Some(Err(BitmapError::Unserved(reason))) = &found.member.bitmap {
                return Err(unserved(Obstacle::BitmapUnserved { drive: name.clone(), reason: reason.clone() }));
            }
            let speaks = |log: &&FoundLog| log.speaks_for(self.freshest.utime_micros());
            if let Some(log) = found.member.log.as_ref().filter(speaks).filter(|log| !log.is_understood()) {
                return Err(unserved(Obstacle::LogOfAnotherVersion { drive: name.clone(), version: log.version }));
            }
        }
        Ok(shape)
    }

    /// The start of the resync, and whether parity is suspect outside of the log records.
    fn resync(
        &self,
        found: &[Found],
        log: &LastLog,
        geometry: &Geometry,
        options: &Options,
        warnings: &mut Vec<StartWarning>,
    ) -> Result<(u64, bool), AssembleError> {
        let level = geometry.level();
        let resync_sector = match self.freshest.header.resync_offset {
            _ if !level.is_redundant() => CLEAN,
            0 if log.makes_consistent => CLEAN,
            sector => sector,
        };
        let missing = self.not_in_sync();
        if missing.is_empty() || resync_sector == CLEAN || level.parity_count() == 0 {
            return Ok((resync_sector, false));
        }
        if log.is_complete {
            // R35: log records cover what was not being written.
            return Ok((CLEAN, true));
        }
        let holds_data = |slot: &usize| {
            let mut maps = (0..geometry.stripe_map_period()).map(|stripe| geometry.stripe_map(stripe));
            maps.any(|map| map.data.iter().any(|&held| usize::from(held) == *slot))
        };
        // Parity that is being rebuilt may be stale below its recovery offset.
        if missing.len() == self.missing_slots().len() && !missing.iter().any(holds_data) {
            // All data is there.
            return Ok((CLEAN, missing.len() < level.parity_count()));
        }
        if !options.force {
            let (slot_count, lack) = (self.slot_count(), self.lack_of_log(found));
            let reason = Obstacle::Unclean { slots: missing, slot_count, lack };
            return Err(self.error(AssembleErrorKind::DirtyDegraded, reason));
        }
        warnings.push(StartWarning::Dirty { lack: self.lack_of_log(found) });
        // R37: of several parities the others follow the first, or a member lost later would be recovered as something else.
        Ok((CLEAN, missing.len() < level.parity_count()))
    }

    /// The drives that take part, by slot.
    fn participants(&self, found: &[Found], log: &LastLog, has_bitmap: bool) -> Participants {
        let mut participants = Participants { slots: vec![SlotConfig::default(); self.slot_count()], ..Participants::default() };
        for found in found {
            let id = MemberId(participants.drives.len());
            let mut keeper = found.keeper();
            keeper.superblock.span_of = self.freshest.span_of;
            let config = keeper.config(id);
            let filled = |recovered| if log.silent.contains(&found.drive) { Synced::up_to(0) } else { recovered };
            match self.verdicts[&found.drive] {
                Verdict::InSync { slot } => participants.slots[slot].member = Some(config),
                Verdict::Rebuilding { slot, recovered, by_bitmap } => {
                    let (recovered, by_bitmap) = (filled(recovered), by_bitmap && has_bitmap);
                    participants.slots[slot].member = Some(MemberConfig { recovered, by_bitmap, ..config });
                }
                Verdict::Replacement { slot, recovered } => {
                    participants.slots[slot].replacement = Some(MemberConfig { recovered: filled(recovered), ..config });
                }
                Verdict::Spare => {
                    participants.spares.push(MemberConfig { recovered: Synced::up_to(0), by_bitmap: false, ..config });
                }
                Verdict::Away { .. } | Verdict::Faulty | Verdict::Unusable { .. } => continue,
            }
            participants.keepers.insert(id, keeper);
            participants.drives.push(found.drive);
        }
        for slot in &mut participants.slots {
            match (&slot.member, &mut slot.replacement) {
                (None, _) => slot.member = slot.replacement.take(),
                // R13: a write that a crash cut short may have reached the old member and not its copy.
                (Some(_), Some(copy)) if !self.freshest.clean() => copy.recovered = Synced::up_to(0),
                _ => {}
            }
        }
        participants
    }

    fn geometry(&self, found: &[Found], level: Level, layout: Layout) -> Result<Geometry, AssembleError> {
        let unserved = |reason: Obstacle| self.error(AssembleErrorKind::Unserved, reason);
        let header = &self.freshest.header;
        let mut sizes = vec![header.size; self.slot_count()];
        if !level.is_redundant() {
            let missing = self.missing_slots();
            if !missing.is_empty() {
                return Err(self.too_few(missing, found, None, |slots| slots.iter().all(|&there| there)));
            }
            for found in found {
                if let Verdict::InSync { slot } = self.verdicts[&found.drive] {
                    sizes[slot] = found.superblock().header.data_size;
                }
            }
        }
        let geometry =
            Geometry::new(level, layout, u64::from(header.chunksize), &sizes).map_err(|error| unserved(error.into()))?;
        let unequal = (1..geometry.slot_count()).any(|slot| geometry.member_sectors(slot) != geometry.member_sectors(0));
        if matches!(layout, Layout::Zones(_)) && unequal && header.feature_map & feature::RAID0_LAYOUT == 0 {
            return Err(unserved(Obstacle::ZonesUnknown));
        }
        Ok(geometry)
    }

    /// `suffices`: whether members in sync in these slots are enough.
    fn too_few(
        &self,
        missing: Vec<usize>,
        found: &[Found],
        survives: Option<usize>,
        suffices: impl Fn(&[bool]) -> bool,
    ) -> AssembleError {
        let mut remedies: Vec<Remedy> = found
            .iter()
            .filter_map(|found| match &self.verdicts[&found.drive] {
                Verdict::Away { slot: Some(slot), events_behind, .. } => {
                    Some(Remedy::Missed { drive: found.candidate.name.clone(), slot: *slot, updates: *events_behind })
                }
                Verdict::Unusable { reason } => {
                    Some(Remedy::Unusable { drive: found.candidate.name.clone(), reason: reason.clone() })
                }
                _ => None,
            })
            .collect();
        // What --force would take.
        let (mut slots, mut used) = (self.in_sync_slots(), Vec::new());
        for (_, slot, found) in self.callable(found) {
            if !suffices(&slots) && !std::mem::replace(&mut slots[slot], true) {
                used.push(found);
            }
        }
        remedies.push(match suffices(&slots) {
            false => Remedy::Attach { others_are_told: !remedies.is_empty() },
            true => Remedy::Force {
                drives: used.iter().map(|found| found.candidate.name.clone()).collect(),
                // A member that kept its slot took every write that was acknowledged (R6).
                is_lossy: !used.iter().all(|found| counts(self.freshest, found)),
            },
        });
        let slot_count = self.slot_count();
        self.error(AssembleErrorKind::Missing, Obstacle::TooFew { slots: missing, slot_count, survives, remedies })
    }

    fn enough(&self, geometry: &Geometry, found: &[Found]) -> Result<(), AssembleError> {
        let in_sync = self.in_sync_slots();
        if suffices(geometry, &in_sync) {
            return Ok(());
        }
        let survives = Some(geometry.losses_survived());
        Err(self.too_few(self.not_in_sync(), found, survives, |slots| suffices(geometry, slots)))
    }
}

/// The drives that take part in a start, by member handle and by slot.
#[derive(Default)]
struct Participants {
    drives: Vec<usize>,
    keepers: BTreeMap<MemberId, MemberMetadata>,
    slots: Vec<SlotConfig>,
    spares: Vec<MemberConfig>,
}

/// Says that a member missed so many superblock updates.
pub fn missed(events: u64) -> String {
    format!("missed {events} superblock {}", if events == 1 { "update" } else { "updates" })
}
