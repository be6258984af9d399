//! Assembly: decides from the content of a set of drives which arrays can start, and gives the reasons for the others.
//!
//! Drives come in any order, with strangers, lagging members and copies among them. They are sorted into arrays by identity.
//! Within an array the member with the most events tells the truth. A member with one event less is as good, because a crash
//! may hit between the writes of one superblock update. So is a member with equal events whose last update was torn
//! (`has_torn_update`). A member that is further behind was away: it stays out, and may return by the bitmap if that reaches back
//! far enough (R27, R55, R75). Nothing is written here; the array's first superblock update makes the decisions durable.
//!
//! After `Assemble.c` of mdadm, `super_1_validate` and `raid5_run` of Linux.

use super::bitmap::{self, Bitmap, BitmapError, choose_chunk_bytes};
use super::counts;
use super::log::{FoundLog, FoundPart, LogSpace, LostLog, RECORDS_MAX, REPLAY_SECTORS_MAX, names_no_session, replay_sectors};
use super::member::{Candidate, Member};
use super::ppl::{self, FoundPpl, PplLocation};
use super::recorder::{LogKeeping, MdRecorder, MemberMetadata, NO_SPACE_FOR_BITMAP, NO_SPACE_FOR_LOG, Stamp, returnable};
use super::shape::{keeps_parity, layout_of};
use super::superblock::{CLEAN, ROLES_MAX, Role, Superblock, SuperblockError, WRITE_MOSTLY, feature, synced};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use stria_array::address::MemberSpace;
use stria_array::{
    ArrayConfig, ArraySector, Geometry, GeometryError, IntentConfig, Layout, Level, LogConfig, LogRecord, MemberConfig, MemberId,
    NEW_DATA_SECTORS_MAX, SlotConfig, Synced,
};
use stria_block::show_size;
use thiserror::Error;

/// The remedy for a member whose own metadata are in the way.
const ADD: &str = "`stria add` gives it new metadata, with space for it";

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
        obstacle: Option<String>,
    },
    /// Its own superblock records that it failed.
    Faulty,
    /// Names this array, but cannot be trusted or used.
    Unusable {
        /// Why.
        reason: String,
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
    pub reason: String,
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
    pub warnings: Vec<String>,
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
                strangers.push(Stranger { drive, name: candidate.name.clone(), reason });
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
            bitmap_current: false,
            log_current: false,
            log_incarnation: 0,
            issued: [Some(Stamp(header.events, header.utime, header.sb_csum)), None],
            lost_log: None,
        }
    }
}

const ANOTHER_SHAPE: &str =
    "its superblock describes another array shape than the superblocks of the other members; it cannot be used with them";

/// The shape of an array; it must be the same on all current members.
fn shape(superblock: &Superblock) -> impl PartialEq + use<> {
    let optional = feature::RAID0_LAYOUT | feature::BITMAP_OFFSET | feature::PPL | feature::MULTIPLE_PPLS;
    (superblock.shape(), superblock.header.feature_map & optional)
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
    let mut assembly = Assembly {
        uuid: freshest.header.set_uuid,
        name: freshest.name(),
        freshest: freshest.clone(),
        drives: Vec::new(),
        missing_slots: Vec::new(),
        outcome: Err(AssembleError { array: freshest.name(), kind: AssembleErrorKind::Damaged, reason: String::new() }),
    };
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
    assembly.outcome = sorter.start(&found, options);
    assembly.missing_slots = sorter.missing_slots();
    for found in found.iter().chain(&others) {
        let verdict = sorter.verdicts.remove(&found.drive).unwrap_or_else(|| Verdict::Unusable {
            reason: format!(
                "its superblock is of version 1.{}, and those of the other members are of 1.{version}",
                found.superblock().minor_version()
            ),
        });
        let (drive, name, events) = (found.drive, found.candidate.name.clone(), found.events());
        assembly.drives.push(DriveReport { drive, name, events, verdict });
    }
    assembly.drives.sort_by_key(|report| report.drive);
    assembly
}

/// The roles in a superblock without the spares at the end, so that lists of different lengths compare.
fn roles_of(superblock: &Superblock) -> &[Role] {
    let roles = &superblock.roles;
    &roles[..roles.iter().rposition(|role| *role != Role::Spare).map_or(0, |last| last + 1)]
}

/// True if a superblock counts `of` as a member.
fn counts(superblock: &Superblock, of: &Found) -> bool {
    let number = of.superblock().header.dev_number as usize;
    matches!(superblock.roles.get(number), Some(Role::Slot(_)))
}

/// The member as it was before its last update, which a crash tore.
fn without_last_update(member: &Member) -> Member {
    let mut before = member.clone();
    let events = &mut before.superblock.header.events;
    *events = events.saturating_sub(1);
    before
}

/// True if two members have equal events and yet different roles.
fn are_rivals(one: &Found, other: &Found) -> bool {
    one.events() == other.events() && roles_of(one.superblock()) != roles_of(other.superblock())
}

/// The members that have the last update of `one`, and hold a slot according to it.
fn side_of<'f, 'a>(one: &'f Found<'a>, found: &'f [Found<'a>]) -> impl Iterator<Item = &'f Found<'a>> {
    let is_beside = |other: &&Found| other.events() == one.events() && !are_rivals(other, one);
    found.iter().filter(is_beside).filter(|other| counts(other.superblock(), other))
}

/// R55: true if `one` has as many events as `other` and other roles, because a crash tore its last update. It still counts the
/// members on the side of `other` as members, so it never ran without them. They may have run without it.
fn has_torn_update(one: &Found, other: &Found, found: &[Found]) -> bool {
    // A member that is being filled there may have joined later.
    are_rivals(one, other)
        && side_of(other, found).filter(|side| side.superblock().is_in_sync()).all(|side| counts(one.superblock(), side))
}

/// R55: true if `one` has another update in place of the last one of `other`, and missed nothing else. Each of the two counts a
/// member that has the other one, so both were torn, and nothing was acknowledged after either.
fn missed_last(one: &Found, other: &Found, found: &[Found]) -> bool {
    let is_torn = || side_of(other, found).any(|side| side.superblock().is_in_sync() && counts(one.superblock(), side));
    are_rivals(one, other) && counts(other.superblock(), one) && is_torn()
}

/// R62: a crash cut short a change that adds or removes the bitmap. A member that missed only that change is read as the freshest
/// superblock says, since the array did not run in between. `None`: the member is read as it is.
///
/// A start without the member that the change had come to, cut short as well, leaves the others with as many events as that one
/// (R56).
fn as_freshest_says(found: &Found, freshest: &Superblock) -> Option<Member> {
    let superblock = found.superblock();
    let before = freshest.header.events.checked_sub(1)?;
    let missed_one = (before..=freshest.header.events).contains(&superblock.header.events);
    let is_same = superblock.clean() && freshest.clean() && roles_of(superblock) == roles_of(freshest);
    let differs = superblock.has(feature::BITMAP_OFFSET) != freshest.has(feature::BITMAP_OFFSET);
    let fits = superblock.shape() == freshest.shape() && superblock.ppl().is_none() && freshest.ppl().is_none();
    if !(missed_one && is_same && differs && fits) {
        return None;
    }
    let mut adapted = Member { bitmap: None, ..found.member.clone() };
    let header = &mut adapted.superblock.header;
    header.events = before;
    header.bitmap_offset = freshest.header.bitmap_offset;
    header.feature_map = header.feature_map & !feature::BITMAP_OFFSET | freshest.header.feature_map & feature::BITMAP_OFFSET;
    adapted.superblock.contradiction(found.candidate.size_sectors).is_none().then_some(adapted)
}

struct Sorter<'a> {
    freshest: &'a Superblock,
    /// Drives with equal events whose last superblock update was torn.
    outdated: BTreeSet<usize>,
    verdicts: BTreeMap<usize, Verdict>,
    conflict: Option<String>,
}

impl Sorter<'_> {
    fn slot_count(&self) -> usize {
        self.freshest.header.raid_disks as usize
    }

    fn judge(&mut self, found: &Found) {
        let verdict = self.verdict(found);
        self.verdicts.insert(found.drive, verdict);
    }

    fn verdict(&self, found: &Found) -> Verdict {
        let (superblock, freshest) = (found.superblock(), self.freshest);
        let (header, truth) = (&superblock.header, &freshest.header);
        let unusable = |reason: String| Verdict::Unusable { reason };
        if let Err(what) = &found.member.bad_blocks {
            return unusable(what.clone());
        }
        let own = superblock.role();
        if own == Role::Spare {
            return match header.data_size {
                // Its superblock would keep this shape in a slot.
                _ if superblock.shape() != freshest.shape() => unusable(ANOTHER_SHAPE.into()),
                space if space < truth.size => unusable(format!(
                    "it is {} too small: {} are needed for data; use a larger drive",
                    show_size((truth.size - space).saturating_mul(512)),
                    show_size(truth.size.saturating_mul(512))
                )),
                _ if superblock.ppl().is_some() != freshest.ppl().is_some() => {
                    unusable("either it or the array has a partial parity log, but not both; add it anew".into())
                }
                _ => Verdict::Spare,
            };
        }
        let events_behind = truth.events.saturating_sub(header.events);
        let away = |slot: Option<usize>, obstacle: Option<String>| Verdict::Away { slot, events_behind, obstacle };
        let own_slot = if let Role::Slot(slot) = own { Some(usize::from(slot)) } else { None };
        if events_behind > 1 {
            // What it requires does not concern the others, which ran without it.
            if let Err(error) = superblock.servable() {
                return unusable(error.to_string());
            }
            if let Some(Err(BitmapError::Unserved(what))) = &found.member.bitmap {
                return unusable(what.clone());
            }
            // R27: two events less means that it was away. Whether the bitmap reaches back is decided when the bitmap is known.
            return away(own_slot, None);
        }
        if shape(superblock) != shape(freshest) {
            return unusable(ANOTHER_SHAPE.into());
        }
        if header.data_size < truth.size {
            return unusable(format!(
                "it is {} too small: {} are needed for data; use a larger drive",
                show_size((truth.size - header.data_size).saturating_mul(512)),
                show_size(truth.size.saturating_mul(512))
            ));
        }
        // A member that is one event behind may have been failed in the update that it missed.
        let role = match events_behind {
            0 if !self.outdated.contains(&found.drive) => own,
            _ => freshest.roles.get(header.dev_number as usize).copied().unwrap_or(Role::Spare),
        };
        match role {
            Role::Slot(slot) if usize::from(slot) >= self.slot_count() => {
                unusable(format!("it claims slot {slot}, and the array has {} slots; add it anew", self.slot_count()))
            }
            Role::Slot(slot) => {
                let slot = usize::from(slot);
                let recovering = superblock.has(feature::RECOVERY_OFFSET);
                let recovered = if recovering { synced(header.recovery_offset) } else { Synced::All };
                if superblock.has(feature::REPLACEMENT) {
                    Verdict::Replacement { slot, recovered }
                } else if recovering {
                    Verdict::Rebuilding { slot, recovered, by_bitmap: superblock.has(feature::RECOVERY_BITMAP) }
                } else {
                    Verdict::InSync { slot }
                }
            }
            Role::Faulty if own == Role::Faulty => Verdict::Faulty,
            Role::Spare | Role::Faulty => away(own_slot, None),
            Role::Journal => unusable("it is a journal device, which Stria does not serve".into()),
        }
    }

    /// The freshest member counts, unless its count of superblock updates contradicts those of the others.
    fn refuse_counts(&mut self, found: &[Found]) {
        for other in found {
            if let Some(why) = counts::contradiction(self.freshest, other.superblock(), found.iter().map(Found::superblock)) {
                let name = |number: u32| {
                    let found = found.iter().find(|found| found.superblock().header.dev_number == number);
                    found.map_or("a member", |found| found.candidate.name.as_str())
                };
                self.conflict.get_or_insert(format!(
                    "{} counts {} superblock updates and {} {}, and {why}: one of the two counts is wrong; compare both drives with `stria examine`, and start the array without \
                     the one whose count is wrong",
                    name(self.freshest.header.dev_number),
                    self.freshest.header.events,
                    other.candidate.name,
                    other.events()
                ));
            }
        }
    }

    /// Of two drives with one identity the older is a copy. With equal events neither can be preferred.
    fn refuse_copies(&mut self, found: &[Found]) {
        for (index, one) in found.iter().enumerate() {
            for other in &found[index + 1..] {
                if one.superblock().header.device_uuid != other.superblock().header.device_uuid {
                    continue;
                }
                let (older, newer) = if one.events() <= other.events() { (one, other) } else { (other, one) };
                let reason =
                    |of: &Found| format!("it is a copy of {}, or another path to it: detach one of the two", of.candidate.name);
                if older.events() == newer.events() {
                    self.verdicts.insert(newer.drive, Verdict::Unusable { reason: reason(older) });
                    self.conflict.get_or_insert(format!(
                        "{} and {} are copies of the same member, or two paths to it; detach the one that is not in use",
                        one.candidate.name, other.candidate.name
                    ));
                }
                self.verdicts.insert(older.drive, Verdict::Unusable { reason: reason(newer) });
            }
        }
    }

    /// Members of a firmware's mirror show the superblock of an array that was made on the mirror. Written apart, its copies
    /// would differ.
    fn refuse_firmware_raid(&mut self, found: &[Found]) {
        let marked = found.iter().find_map(|one| Some((&one.candidate.name, one.member.firmware_raid.as_ref()?)));
        if let Some((name, mark)) = marked {
            self.conflict.get_or_insert(format!(
                "{name} carries {mark} behind its data (sector {}), so the array may lie on that volume; serve the volume's own device \
                 (`mdadm --assemble --scan`), or, if the mark is only left over, erase it with `wipefs` or start with --force",
                mark.start_sector
            ));
        }
    }

    /// One superblock update writes the same roles everywhere. Members that count as many updates and yet differ
    /// were run apart, each without the other: neither knows what the other wrote.
    fn refuse_histories(&mut self, found: &[Found]) {
        let truth = roles_of(self.freshest);
        let same_count = |found: &&Found| {
            let holds = matches!(
                self.verdicts[&found.drive],
                Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. }
            );
            holds && found.events() == self.freshest.header.events
        };
        let (one, other): (Vec<&Found>, Vec<_>) =
            found.iter().filter(same_count).partition(|found| roles_of(found.superblock()) == truth);
        let names = |side: &[&Found]| side.iter().map(|found| found.candidate.name.as_str()).collect::<Vec<_>>().join(", ");
        if !other.is_empty() {
            self.conflict.get_or_insert(format!(
                "{} on one side and {} on the other were run without each other, and their data differ; \
                 start it with the drives of one side, and add the others anew",
                names(&one),
                names(&other)
            ));
        }
    }

    /// Every member has its own device number, the index of its role. If a spare has the number of a member, the member keeps it:
    /// the spare may have been prepared and then refused.
    fn refuse_numbers(&mut self, found: &[Found]) {
        let mut taken = BTreeMap::new();
        let roles_max = found.iter().map(|found| found.superblock().roles_max()).min().unwrap_or(ROLES_MAX);
        let mut order: Vec<&Found> = found.iter().collect();
        order.sort_by_key(|found| matches!(self.verdicts[&found.drive], Verdict::Spare));
        for found in order {
            let number = found.superblock().header.dev_number;
            let verdict = self.verdicts.get_mut(&found.drive).expect("every drive was judged");
            if matches!(verdict, Verdict::Away { .. } | Verdict::Faulty | Verdict::Unusable { .. }) {
                continue;
            }
            let reason = match taken.insert(number, &found.candidate.name) {
                Some(other) => format!("{other} has the same device number, {number}; add it anew"),
                None if number as usize >= roles_max => format!("its device number, {number}, is impossible; add it anew"),
                None => continue,
            };
            *verdict = Verdict::Unusable { reason };
        }
    }

    /// A member keeps its slot until it leaves. Where its own superblock and the freshest one name two slots for it, one of them
    /// is damaged, and bytes would be served from the wrong place.
    fn refuse_other_slots(&mut self, found: &[Found]) {
        for one in found.iter().filter(|one| one.events() + 1 >= self.freshest.header.events) {
            let number = one.superblock().header.dev_number as usize;
            if let (Role::Slot(own), Some(&Role::Slot(other))) = (one.superblock().role(), self.freshest.roles.get(number))
                && own != other
            {
                let says = found.iter().find(|found| found.superblock().header.dev_number == self.freshest.header.dev_number);
                let says = says.map_or("another member", |found| found.candidate.name.as_str());
                self.conflict.get_or_insert(format!(
                    "{} says that it holds slot {own}, and {says} that it holds slot {other}: one of the two superblocks is damaged; compare both \
                     drives with `stria examine`, and start the array without the one that is wrong",
                    one.candidate.name
                ));
            }
        }
    }

    /// Of two members in one slot the fresher one keeps it. With equal events neither can be preferred.
    fn refuse_rivals(&mut self, found: &[Found]) {
        let slot_of = |verdict: &Verdict| match *verdict {
            Verdict::InSync { slot } => Some((slot, false)),
            Verdict::Rebuilding { slot, .. } => Some((slot, false)),
            Verdict::Replacement { slot, .. } => Some((slot, true)),
            _ => None,
        };
        for (index, one) in found.iter().enumerate() {
            for other in &found[index + 1..] {
                let (Some(a), Some(b)) = (slot_of(&self.verdicts[&one.drive]), slot_of(&self.verdicts[&other.drive])) else {
                    continue;
                };
                if a != b {
                    continue;
                }
                let (older, newer) = if one.events() <= other.events() { (one, other) } else { (other, one) };
                if older.events() == newer.events() {
                    self.conflict.get_or_insert(format!(
                        "{} and {} both claim slot {}; detach the one that does not belong",
                        one.candidate.name, other.candidate.name, a.0
                    ));
                }
                let reason = format!("{} holds slot {} with a newer superblock", newer.candidate.name, a.0);
                self.verdicts.insert(older.drive, Verdict::Unusable { reason });
            }
        }
    }

    fn in_sync_slots(&self) -> Vec<bool> {
        let mut slots = vec![false; self.slot_count()];
        for verdict in self.verdicts.values() {
            match *verdict {
                Verdict::InSync { slot } | Verdict::Replacement { slot, recovered: Synced::All } => slots[slot] = true,
                _ => {}
            }
        }
        slots
    }

    fn missing_slots(&self) -> Vec<usize> {
        let held = |slot: usize| {
            self.verdicts.values().any(|verdict| match *verdict {
                Verdict::InSync { slot: held } | Verdict::Rebuilding { slot: held, .. } => held == slot,
                Verdict::Replacement { slot: held, .. } => held == slot,
                _ => false,
            })
        };
        (0..self.slot_count()).filter(|&slot| !held(slot)).collect()
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
            replay: log.records,
            lost_logs,
            read_only: options.read_only,
        };
        Ok(Start { config, drives: participants.drives, recorder, warnings })
    }

    fn error(&self, kind: AssembleErrorKind, reason: String) -> AssembleError {
        AssembleError { array: self.freshest.name(), kind, reason }
    }

    /// The shape of the array, if Stria serves all that its members hold.
    fn served_shape(&self, found: &[Found], options: &Options) -> Result<(Level, Layout), AssembleError> {
        let unserved = |reason: String| self.error(AssembleErrorKind::Unserved, reason);
        self.freshest.servable().map_err(|error| unserved(error.to_string()))?;
        let shape = layout_of(&self.freshest.header).map_err(|error| unserved(error.to_string()))?;
        let block_bytes = self.freshest.header.logical_block_size;
        if !options.force && found.iter().all(|found| found.candidate.logical_block_bytes < block_bytes) {
            return Err(unserved(format!(
                "the array has logical blocks of {block_bytes} bytes, and all drives that are here have smaller ones, so clients would not find \
                 their partitions: attach the missing drives, serve it under Linux, or in smaller blocks with --force"
            )));
        }
        for found in found.iter().filter(|found| !matches!(self.verdicts[&found.drive], Verdict::Unusable { .. })) {
            let name = &found.candidate.name;
            found.superblock().servable().map_err(|error| unserved(format!("{name}: {error}")))?;
            if let Some(Err(BitmapError::Unserved(what))) = &found.member.bitmap {
                return Err(unserved(format!("{name}: {what}")));
            }
            let speaks = |log: &&FoundLog| log.speaks_for(self.freshest.utime_micros());
            if let Some(log) = found.member.log.as_ref().filter(speaks).filter(|log| !log.is_understood()) {
                return Err(unserved(format!(
                    "the write log of {name} is of version {}, which this program does not know, and the array was not stopped \
                     cleanly; start and stop it with the program that ran it",
                    log.version
                )));
            }
        }
        Ok(shape)
    }

    /// The records of the members' logs, of either kind, together. `warnings`: if there are any, a stale member or a lost bitmap
    /// was accepted, and the logs do not count.
    fn last_log(
        &self,
        found: &[Found],
        geometry: &Geometry,
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> Result<LastLog, AssembleError> {
        let log = match PplLocation::of(self.freshest) {
            Some(_) => self.ppl(found, geometry, warnings.is_empty()),
            None => self.log(found, geometry.level(), warnings.is_empty()),
        };
        if let Some(excess) = &log.excess {
            let what = format!("its write log holds more than any run leaves ({excess}), so other software wrote it");
            let meaning = "writes that were in flight when the array stopped may be torn";
            if !options.force {
                let reason = format!("{what}; --force starts without the log, and then {meaning}");
                return Err(self.error(AssembleErrorKind::Damaged, reason));
            }
            warnings.push(format!("{what}; started without it, and {meaning}"));
        }
        if !self.freshest.clean() && !names_no_session(self.freshest.utime_micros()) {
            warnings.extend(found.iter().filter(|found| self.is_filled(found)).filter_map(lost_log_words));
        }
        Ok(log)
    }

    /// The start of the resync, and whether parity is suspect outside of the log records.
    fn resync(
        &self,
        found: &[Found],
        log: &LastLog,
        geometry: &Geometry,
        options: &Options,
        warnings: &mut Vec<String>,
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
            let reason = format!(
                "{} missing or incomplete ({}), the array was not stopped cleanly, and {}, so what a missing member held may be \
                 reconstructed wrong, also data that was not being written; attach the missing members, or accept that with --force",
                members(missing.len(), self.slot_count()),
                list(&missing),
                self.lack_of_log(found)
            );
            return Err(self.error(AssembleErrorKind::DirtyDegraded, reason));
        }
        warnings.push(format!(
            "started degraded although not stopped cleanly, and {}: what a missing member held may be wrong, also data that was not \
             being written",
            self.lack_of_log(found)
        ));
        // R37: of several parities the others follow the first, or a member lost later would be recovered as something else.
        Ok((CLEAN, missing.len() < level.parity_count()))
    }

    /// The reason why no log makes up for a missing member.
    fn lack_of_log(&self, found: &[Found]) -> String {
        let is_damaged = |found: &&Found| {
            let (log, ppl) = (found.member.log.as_ref(), found.member.ppl.as_ref());
            let log_is = log.is_some_and(|log| log.is_damaged() || log.unreadable.is_some());
            self.is_filled(found) && (log_is || ppl.is_some_and(|ppl| !ppl.is_sound()))
        };
        let damaged: Vec<&str> = found.iter().filter(is_damaged).map(|found| found.candidate.name.as_str()).collect();
        match damaged.is_empty() {
            true => "no log covers its last writes".into(),
            false => format!("the log on {} is damaged", damaged.join(", ")),
        }
    }

    /// Linux acknowledges a write before a write-mostly member has it, where the bitmap allows that many behind. After a crash it
    /// resyncs from another member; Stria from the first.
    fn refuse_write_behind(&self, found: &[Found], bitmap: Option<&Bitmap>, resync_sector: u64) -> Result<(), AssembleError> {
        let is_due = |bitmap: &&Bitmap| resync_sector != CLEAN && bitmap.set_chunks().next().is_some();
        if bitmap.filter(is_due).is_none_or(|bitmap| bitmap.header.write_behind == 0) {
            return Ok(());
        }
        let is_other = |verdict: &Verdict| matches!(verdict, Verdict::InSync { slot } if *slot > 0);
        if !self.verdicts.values().any(is_other) {
            return Ok(());
        }
        let slow = found.iter().filter(|found| found.superblock().header.devflags & WRITE_MOSTLY != 0);
        let first = |found: &&Found| matches!(self.verdicts[&found.drive], Verdict::InSync { slot: 0 });
        match slow.into_iter().find(first) {
            Some(found) => Err(self.error(
                AssembleErrorKind::Unserved,
                format!(
                    "it was not stopped cleanly, and {}, its first member, may lack writes that Linux has acknowledged (write-mostly, \
                     with writes behind); start and stop it under Linux once, which copies the other member",
                    found.candidate.name
                ),
            )),
            None => Ok(()),
        }
    }

    /// The write-intent bits that count from the resync position on. The others are cleared in `bitmap`.
    fn intent(&self, bitmap: &mut Bitmap, resync_sector: u64) -> IntentConfig {
        let fills = self.verdicts.values().any(|verdict| matches!(verdict, Verdict::Rebuilding { by_bitmap: true, .. }));
        // All stay for a member that is away, or that is rebuilt by them.
        let start = if fills || !self.not_in_sync().is_empty() { 0 } else { resync_sector };
        let chunk_sectors = bitmap.chunk_sectors();
        let stale: Vec<u64> =
            bitmap.set_chunks().filter(|chunk| chunk.saturating_add(1).saturating_mul(chunk_sectors) < start).collect();
        if !stale.is_empty() {
            // The bits no longer show what a member missed that has been away since before this update.
            bitmap.header.events_cleared = self.freshest.header.events;
        }
        for chunk in stale {
            bitmap.put(chunk, false);
        }
        IntentConfig { chunk_sectors, dirty: bitmap.set_chunks().collect() }
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

    /// The log of this run.
    fn keeping(&self, log: &LastLog) -> LogKeeping {
        let tag_before = if log.is_complete { self.freshest.utime_micros() } else { 0 };
        let firm = match PplLocation::of(self.freshest) {
            // While an array is not clean, Linux and mdadm do not record how far its first resync has come.
            Some(_) => {
                log.makes_consistent || log.is_complete && (!self.not_in_sync().is_empty() || tag_before == ppl::CONSISTENT)
            }
            None => log.is_complete,
        };
        LogKeeping::new(log.off, tag_before, firm || self.freshest.header.resync_offset == CLEAN)
    }

    fn geometry(&self, found: &[Found], level: Level, layout: Layout) -> Result<Geometry, AssembleError> {
        let unserved = |reason: String| self.error(AssembleErrorKind::Unserved, reason);
        let header = &self.freshest.header;
        let mut sizes = vec![header.size; self.slot_count()];
        if !level.is_redundant() {
            let missing = self.missing_slots();
            if !missing.is_empty() {
                return Err(self.too_few(&missing, found, "none", |slots| slots.iter().all(|&there| there)));
            }
            for found in found {
                if let Verdict::InSync { slot } = self.verdicts[&found.drive] {
                    sizes[slot] = found.superblock().header.data_size;
                }
            }
        }
        let geometry =
            Geometry::new(level, layout, u64::from(header.chunksize), &sizes).map_err(|error| unserved(not_served(&error)))?;
        let unequal = (1..geometry.slot_count()).any(|slot| geometry.member_sectors(slot) != geometry.member_sectors(0));
        if matches!(layout, Layout::Zones(_)) && unequal && header.feature_map & feature::RAID0_LAYOUT == 0 {
            return Err(unserved(
                "its members are unequal and its superblocks do not say in which of two ways Linux striped them; \
                 record it once: mdadm --assemble --update=layout-alternate (or layout-original, if it was written \
                 under Linux before 3.14)"
                    .into(),
            ));
        }
        Ok(geometry)
    }

    fn not_in_sync(&self) -> Vec<usize> {
        let in_sync = self.in_sync_slots();
        (0..self.slot_count()).filter(|&slot| !in_sync[slot]).collect()
    }

    /// `suffices`: whether members in sync in these slots are enough.
    fn too_few(&self, missing: &[usize], found: &[Found], survives: &str, suffices: impl Fn(&[bool]) -> bool) -> AssembleError {
        let mut remedies: Vec<_> = found
            .iter()
            .filter_map(|found| match &self.verdicts[&found.drive] {
                Verdict::Away { slot: Some(slot), events_behind, .. } => {
                    Some(format!("{} (slot {slot}) {}", found.candidate.name, missed(*events_behind)))
                }
                Verdict::Unusable { reason } => Some(format!("{}: {reason}", found.candidate.name)),
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
            false if remedies.is_empty() => "attach them".to_owned(),
            false => "attach the missing drives".to_owned(),
            true => {
                let names = used.iter().map(|found| found.candidate.name.as_str()).collect::<Vec<_>>().join(", ");
                // A member that kept its slot took every write that was acknowledged (R6).
                let cost = match used.iter().all(|found| counts(self.freshest, found)) {
                    true => "which tears writes that were in flight, and loses none that was acknowledged",
                    false => "which loses what was written without it",
                };
                format!("attach the missing drives, or start with {names} as it is by --force, {cost}")
            }
        });
        AssembleError {
            array: self.freshest.name(),
            kind: AssembleErrorKind::Missing,
            reason: format!(
                "{} missing or incomplete ({}), and the array survives the loss of {survives}; {}",
                members(missing.len(), self.slot_count()),
                list(missing),
                remedies.join("; ")
            ),
        }
    }

    fn enough(&self, geometry: &Geometry, found: &[Found]) -> Result<(), AssembleError> {
        let in_sync = self.in_sync_slots();
        if suffices(geometry, &in_sync) {
            return Ok(());
        }
        let survives = geometry.losses_survived().to_string();
        Err(self.too_few(&self.not_in_sync(), found, &survives, |slots| suffices(geometry, slots)))
    }

    /// The members that are behind and can be taken as they are, with the number of updates that they missed, and their slots.
    /// First those that the freshest superblock still counts: they kept their slots and took every write that succeeded, when
    /// their metadata could not be written. Then the freshest.
    fn callable<'f, 'a>(&self, found: &'f [Found<'a>]) -> Vec<(u64, usize, &'f Found<'a>)> {
        let mut away: Vec<_> = found
            .iter()
            .filter_map(|found| match self.verdicts[&found.drive] {
                Verdict::Away { slot: Some(slot), events_behind, .. } => Some((events_behind, slot, found)),
                _ => None,
            })
            .filter(|(_, slot, found)| {
                *slot < self.slot_count()
                    && shape(found.superblock()) == shape(self.freshest)
                    && found.superblock().header.data_size >= self.freshest.header.size
                    && !found.superblock().has(feature::RECOVERY_OFFSET | feature::REPLACEMENT)
            })
            .collect();
        away.sort_by_key(|(events_behind, slot, found)| (!counts(self.freshest, found), *events_behind, *slot));
        away
    }

    /// With force: takes members that are behind as they are, until the array can start.
    fn call_back(&mut self, found: &[Found], level: Level, layout: Layout, warnings: &mut Vec<String>) {
        for (events_behind, slot, found) in self.callable(found) {
            let in_sync = self.in_sync_slots();
            let sizes = vec![u64::from(self.freshest.header.chunksize).max(1 << 12) << 8; self.slot_count()];
            let strip = u64::from(self.freshest.header.chunksize);
            let enough = match Geometry::new(level, layout, strip, &sizes) {
                Ok(geometry) => suffices(&geometry, &in_sync),
                Err(_) => return,
            };
            if enough {
                return;
            }
            if in_sync[slot] {
                continue;
            }
            let cost = match counts(self.freshest, found) {
                true => "it kept its slot, so only writes that were in flight may be torn",
                false => "data that was written meanwhile is lost",
            };
            let missed = missed(events_behind);
            warnings.push(format!("{} was used in slot {slot} although it {missed}: {cost}", found.candidate.name));
            self.verdicts.insert(found.drive, Verdict::InSync { slot });
            // A member that was being filled there is newer in part, and no full copy of it.
            for verdict in self.verdicts.values_mut() {
                if matches!(*verdict, Verdict::Rebuilding { slot: held, .. } | Verdict::Replacement { slot: held, .. } if held == slot)
                {
                    let reason = format!("--force put {} into its slot, {slot}; add it anew", found.candidate.name);
                    *verdict = Verdict::Unusable { reason };
                }
            }
        }
    }

    /// True if it is a member in sync, or a finished copy of one, which may be all that is left of it.
    fn is_filled(&self, found: &Found) -> bool {
        let verdict = &self.verdicts[&found.drive];
        matches!(verdict, Verdict::InSync { .. } | Verdict::Replacement { recovered: Synced::All, .. })
    }

    /// The bitmap of the array: the union of those of all filled members (R28).
    fn bitmap(
        &self,
        found: &[Found],
        geometry: &Geometry,
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Bitmap>, AssembleError> {
        if !self.freshest.has(feature::BITMAP_OFFSET) || geometry.sync_sectors() == 0 {
            return Ok(None);
        }
        let header = &self.freshest.header;
        let mut united: Option<Bitmap> = None;
        let mut damage = String::new();
        for found in found.iter().filter(|found| self.is_filled(found)) {
            let space_sectors = found.bitmap_space_sectors();
            let suits = |bitmap: &Bitmap| bitmap.suits(geometry.sync_sectors(), space_sectors);
            match &found.member.bitmap {
                Some(Ok(bitmap)) if suits(bitmap).is_err() => {
                    damage = format!("{}: {}", found.candidate.name, suits(bitmap).expect_err("just seen"));
                }
                Some(Ok(bitmap)) => match &mut united {
                    None => united = Some(bitmap.clone()),
                    Some(united) => {
                        let newer = bitmap.header.events > united.header.events;
                        united.unite(bitmap);
                        if newer {
                            united.header = bitmap.header.clone();
                        }
                    }
                },
                Some(Err(error)) => damage = format!("{}: {error}", found.candidate.name),
                None => {}
            }
        }
        let mut bitmap = match united {
            Some(bitmap) => bitmap,
            None if options.force => {
                warnings.push("no member had a readable write-intent bitmap: it was made anew, with every bit set".into());
                let chunk = choose_chunk_bytes(None, header.size, geometry.sync_sectors()).unwrap_or(64 << 20);
                let mut bitmap = Bitmap::new(header.set_uuid, geometry.sync_sectors(), chunk);
                bitmap.header.events = header.events;
                bitmap.header.events_cleared = header.events;
                bitmap
            }
            None => {
                return Err(AssembleError {
                    array: self.freshest.name(),
                    kind: AssembleErrorKind::Damaged,
                    reason: format!("no member has a readable write-intent bitmap ({damage}); --force makes a new one"),
                });
            }
        };
        let outdated = bitmap.header.events < header.events || bitmap.is_ahead_of(header.events);
        if bitmap.header.state & bitmap::state::STALE != 0 || outdated {
            bitmap.fill(true);
            bitmap.header.state &= !bitmap::state::STALE;
            bitmap.header.events_cleared = header.events;
        }
        let spaces = found.iter().filter(|found| self.is_filled(found)).map(Found::bitmap_space_sectors);
        let space_sectors = spaces.min().unwrap_or(0);
        match bitmap.resize(geometry.sync_sectors(), space_sectors) {
            Ok(()) => Ok(Some(bitmap)),
            Err(error) => Err(AssembleError {
                array: self.freshest.name(),
                kind: AssembleErrorKind::Damaged,
                reason: format!("{error}; under Linux, mdadm --grow --bitmap=none and then --bitmap=internal makes a new one"),
            }),
        }
    }

    /// A member without space for the bitmap that it must get cannot take part.
    fn refuse_cramped(&mut self, found: &[Found], bitmap: &Bitmap) {
        for found in found.iter().filter(|found| found.bitmap_space_sectors() < bitmap.size_sectors()) {
            let verdict = self.verdicts.get_mut(&found.drive).expect("every drive was judged");
            if matches!(verdict, Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare) {
                *verdict = Verdict::Unusable { reason: format!("{NO_SPACE_FOR_BITMAP}; {ADD}") };
            }
        }
    }

    /// A spare with less space for the write log than the members have would make the array do without.
    fn refuse_spares_without_log(&mut self, found: &[Found], bitmap: Option<&Bitmap>) {
        let bitmap_sectors = bitmap.map_or(0, Bitmap::size_sectors);
        let space = |found: &Found| Some(LogSpace::of(found.superblock(), bitmap_sectors)?.cut(1)?.append_sectors_max());
        let members = found.iter().filter(|found| matches!(self.verdicts[&found.drive], Verdict::InSync { .. }));
        let Some(least) = members.map(space).min().flatten() else { return };
        if !keeps_parity(&self.freshest.header) || self.freshest.ppl().is_some() {
            return;
        }
        for found in found.iter().filter(|&found| space(found) < Some(least)) {
            let verdict = self.verdicts.get_mut(&found.drive).expect("every drive was judged");
            if *verdict == Verdict::Spare {
                *verdict = Verdict::Unusable { reason: format!("{NO_SPACE_FOR_LOG}; {ADD}") };
            }
        }
    }

    /// The contents of the logs of the in-sync members together. `trusted`: no stale member was taken for one in sync.
    fn log<'a>(&self, found: &[Found<'a>], level: Level, trusted: bool) -> LastLog {
        let filled = found.iter().filter(|found| self.is_filled(found));
        // R80: a log that cannot be read says nothing. Its member's data is all there.
        let is_lost = |found: &&Found| found.member.log.as_ref().is_some_and(|log| log.unreadable.is_some());
        let (lost, readable): (Vec<&Found>, Vec<&Found>) = filled.partition(is_lost);
        let logs: Vec<Option<&FoundLog>> = readable.iter().map(|found| found.member.log.as_ref()).collect();
        let of_lost = || lost.iter().filter_map(|found| found.member.log.as_ref());
        let off = logs.iter().flatten().copied().chain(of_lost()).any(|log| log.off);
        // R79: its tag counts for all.
        let tag = self.freshest.utime_micros();
        let speaks = |log: &Option<&FoundLog>| log.is_some_and(|log| log.speaks_for(tag) && !log.off);
        if level.parity_count() == 0 || !trusted || !logs.iter().all(speaks) || logs.is_empty() {
            return LastLog { off, ..LastLog::default() };
        }
        // A session that had just begun has no records, and those of the one before count no more.
        let session = logs.iter().flatten().copied().chain(of_lost()).map(|log| log.session.number).max().unwrap_or(0);
        // Where more parities lack their records than stripes can spare, some rows are named by none.
        let spare_count = level.parity_count().checked_sub(self.not_in_sync().len() + lost.len());
        if logs.iter().flatten().any(|log| log.is_excessive) {
            return LastLog { off, excess: Some(format!("more than {RECORDS_MAX} records")), ..LastLog::default() };
        }
        let is_complete = spare_count.is_some() && !logs.iter().flatten().any(|log| log.is_damaged());
        let of_session: Vec<&FoundLog> = logs.into_iter().flatten().filter(|log| log.session.number == session).collect();
        // A log that was not read is none without records.
        let is_complete = is_complete && of_session.iter().all(|log| !log.parts.is_empty());
        // R18: rebuilding members have log records too, which count as far as the member is filled.
        let being_rebuilt = found.iter().filter(|found| match self.verdicts[&found.drive] {
            Verdict::Rebuilding { .. } => true,
            Verdict::Replacement { recovered, .. } => recovered != Synced::All,
            _ => false,
        });
        let (mut theirs, mut silent) = (Vec::new(), Vec::new());
        for found in being_rebuilt {
            match found.member.log.as_ref().filter(|log| log.is_of(session)) {
                Some(log) => theirs.push(log),
                None => silent.push(found.drive),
            }
        }
        let mut records = Vec::new();
        for lane in 0..of_session.iter().map(|log| log.parts.len()).max().unwrap_or(0) {
            // A damaged part voids the records of its lane on all members, and of no other lane.
            let sound = |log: &&'a FoundLog| log.parts.get(lane).filter(|part| !part.damaged);
            let Some(parts) = of_session.iter().map(sound).collect::<Option<Vec<_>>>() else { continue };
            // What can be read of a lost log is all that is left of writes without another parity member.
            let of_lost = of_lost().filter(|log| log.session.number == session);
            let parts: Vec<&FoundPart> = parts.into_iter().chain(of_lost.filter_map(|log| sound(&log))).collect();
            let retired_below = parts.iter().map(|part| part.retired_below).max().unwrap_or(0);
            let of_lane = parts.into_iter().chain(theirs.iter().filter_map(sound)).flat_map(|part| &part.records);
            records.extend(of_lane.filter(|record| record.number >= retired_below).cloned());
        }
        let replay_sectors = records.iter().map(replay_sectors).fold(0, u64::saturating_add);
        if records.len() > RECORDS_MAX || replay_sectors > REPLAY_SECTORS_MAX {
            let excess = format!("{} records, and {} MiB to be replayed", records.len(), replay_sectors >> 11);
            return LastLog { off, excess: Some(excess), ..LastLog::default() };
        }
        let all = || of_session.iter().copied().chain(of_lost().filter(|log| log.session.number == session));
        let lost = lost.iter().filter_map(|found| {
            let log = found.member.log.as_ref()?;
            let of = all().next()?;
            let parts = all().map(|log| log.parts.len()).max()?;
            let location = log.location.filter(|_| log.session.number == session);
            Some((found.drive, LostLog { session: of.session, parts, location, incarnation: log.incarnation }))
        });
        let lost = lost.collect();
        LastLog { off, is_complete, makes_consistent: false, silent, lost, excess: None, records }
    }

    /// The contents of the partial parity logs of the members together, if the array was not stopped cleanly.
    fn ppl(&self, found: &[Found], geometry: &Geometry, trusted: bool) -> LastLog {
        if self.freshest.clean() || !trusted {
            return LastLog::default();
        }
        // Before the end of the first resync parity may match nowhere.
        let consistent = self.freshest.utime_micros() != ppl::INCONSISTENT;
        let mut all = LastLog { is_complete: consistent, makes_consistent: consistent, ..LastLog::default() };
        let in_sync = |slot: usize| self.verdicts.values().any(|verdict| *verdict == Verdict::InSync { slot });
        for found in found {
            let (slot, filled) = match self.verdicts[&found.drive] {
                Verdict::InSync { slot } => (slot, true),
                Verdict::Rebuilding { slot, .. } => (slot, false),
                Verdict::Replacement { slot, recovered } if !in_sync(slot) => (slot, recovered == Synced::All),
                _ => continue,
            };
            let log = found.member.ppl.as_ref().filter(|log| log.is_sound());
            match log.and_then(|log| log.records(geometry, slot)) {
                Some(records) => all.records.extend(records),
                None if filled => all.is_complete = false,
                None => all.silent.push(found.drive),
            }
            all.makes_consistent &= !filled || log.is_some_and(FoundPpl::is_intact);
        }
        all.makes_consistent &= all.is_complete && !all.records.is_empty();
        all
    }

    fn judge_away(&mut self, found: &[Found], bitmap: Option<&Bitmap>) {
        for found in found {
            if let Some(Verdict::Away { obstacle, .. }) = self.verdicts.get_mut(&found.drive) {
                *obstacle = returnable(self.freshest, bitmap, found.superblock(), false).err();
            }
        }
    }

    fn take_back(&mut self, found: &[Found]) {
        for found in found {
            let missing = self.missing_slots();
            if let Verdict::Away { slot: Some(slot), obstacle: None, .. } = self.verdicts[&found.drive]
                && missing.contains(&slot)
            {
                self.verdicts.insert(found.drive, Verdict::Rebuilding { slot, recovered: Synced::up_to(0), by_bitmap: true });
            }
        }
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

/// The write log of the last run.
#[derive(Default)]
struct LastLog {
    /// The array is to have none.
    off: bool,
    /// The records cover every row whose parity may be inconsistent and matters.
    is_complete: bool,
    /// Redundancy is consistent everywhere once they are replayed.
    makes_consistent: bool,
    /// Drives that were being rebuilt and kept no records of their own: what they hold may have been torn.
    silent: Vec<usize>,
    /// Drives in sync whose log cannot be read, with what is known of it.
    lost: Vec<(usize, LostLog)>,
    /// The amount by which it exceeds the limits of replay, in words.
    excess: Option<String>,
    records: Vec<LogRecord>,
}

/// True if the members in sync have all data.
fn suffices(geometry: &Geometry, in_sync: &[bool]) -> bool {
    let lost = in_sync.iter().filter(|in_sync| !**in_sync).count();
    match geometry.level() {
        // Placement repeats after as many strips as there are members.
        Level::Raid10 => (0..geometry.slot_count() as u64).all(|strip| {
            let sector = strip * geometry.strip_sectors();
            sector >= geometry.capacity_sectors()
                || geometry.copies_of(ArraySector::new(sector), 1).0.iter().any(|copy| in_sync[copy.slot])
        }),
        _ => lost <= geometry.losses_survived() && (lost == 0 || geometry.level().is_redundant()),
    }
}

/// What a start without a member's log means; `None`: the log could be read.
fn lost_log_words(found: &Found) -> Option<String> {
    let error = found.member.log.as_ref()?.unreadable.as_ref()?;
    Some(format!(
        "the write log of {} cannot be read ({error}): writes that were acknowledged and not flushed are gone where no other log has \
         them; see `stria health`, and replace the drive if it has more such sectors",
        found.candidate.name
    ))
}

fn list(slots: &[usize]) -> String {
    let numbers = slots.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {numbers}", if slots.len() == 1 { "slot" } else { "slots" })
}

fn members(count: usize, of: usize) -> String {
    format!("{count} of {of} members {}", if count == 1 { "is" } else { "are" })
}

/// Says that a member missed so many superblock updates.
pub fn missed(events: u64) -> String {
    format!("missed {events} superblock {}", if events == 1 { "update" } else { "updates" })
}

/// Says of an array that exists what the sentences of [`GeometryError`] say of one that is to be made.
fn not_served(error: &GeometryError) -> String {
    match error {
        GeometryError::Strip { strip_sectors } => format!(
            "its strip of {strip_sectors} sectors is not a power of two from 4K to 64M, and Stria serves no other; Linux does"
        ),
        GeometryError::NoCopies { layout } => {
            format!("its layout {layout} keeps fewer than 2 copies of everything, and neither Stria nor Linux serves that")
        }
        other => format!("Stria does not serve this shape ({other}); Linux may"),
    }
}
