//! Keeps the members' metadata up to date while an array runs.
//!
//! The engine gives the state of the array. The recorder, [`MdRecorder`], returns the superblocks and bitmap pages to write to
//! the members. Every superblock update counts `events` up by one, which shows that a member missed an update (R27). Fields that
//! Stria does not change stay as they were read.
//!
//! `events_cleared` of the bitmap moves when the array becomes optimal, when a slot of an optimal array changes its member, and
//! when bits are cleared: a member that left before that has missed writes that the bits no longer name (R75). So does the update
//! that drops a member which was cut short: no bit names what it lost (R76). While a member is missing or rebuilding no bit is
//! cleared (R3).
//!
//! After `md_update_sb` and `super_1_sync` of Linux' `md.c`, and `md-bitmap.c`.

mod change;
mod join;
mod refusals;

pub use self::change::Change;
pub(crate) use self::join::returnable;
pub use self::join::{Adopt, Newcomer};
pub use self::refusals::{AdoptError, Unreturnable, Unsuited};
pub(crate) use self::refusals::{NO_SPACE_FOR_BITMAP, NO_SPACE_FOR_LOG};

use super::bitmap::{self, Bitmap, PAGE_BYTES};
use super::checksums;
use super::lane_log::{LogArea, LogLayout, MdLog};
use super::log::{LogSpace, LostLog, Session, encode_head, encode_lost_head, salt_of};
use super::member::BitmapLocation;
use super::ppl::{self, Ppl, PplLocation};
use super::shape::{keeps_parity, layout_of};
use super::superblock::{CLEAN, Header, ROLES_MAX, Role, SUPERBLOCK_BYTES, Superblock, feature, offset_of, sum_of, synced};
use crate::md::badblocks::{self, BadBlockLog};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stria_array::address::{MemberSpace, Sectors, in_data_area, on_drive};
use stria_array::{
    ArrayState, DriveSector, Geometry, MemberConfig, MemberId, MemberSector, MetadataWrite, NotAdmitted, Recorder, Refusal,
    Synced,
};
use stria_block::Buffer;
use stria_integrity::HEADERS_SECTORS;

/// A member's metadata, and the state of its writes.
#[derive(Clone, Debug)]
pub(crate) struct MemberMetadata {
    pub superblock: Superblock,
    pub name: String,
    pub logical_block_bytes: u32,
    pub bad_blocks: BadBlockLog,
    /// The list before that one, in case a write of it fails.
    pub bad_blocks_before: Option<BadBlockLog>,
    /// Its bitmap pages are those of the recorder.
    pub bitmap_current: bool,
    /// The head of its log names the session.
    pub log_current: bool,
    /// Its incarnation: how often it has returned in this run (R39).
    pub log_incarnation: u32,
    /// The last two superblocks of this run for it, of which the first is the one that it had at the start. The drive has one of
    /// them when it leaves: a member is at most one update ahead (R58).
    pub issued: [Option<Stamp>; 2],
    /// Its log of the last run, if that could not be read, until a session begins.
    pub lost_log: Option<LostLog>,
}

/// Tells a superblock from all others of its member: events, time of the update, checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub u64, pub u64, pub u32);

/// The metadata for status displays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The array's identity.
    pub uuid: [u8; 16],
    /// `host:name` or `name`.
    pub name: String,
    /// 1.0, 1.1 or 1.2: the minor version.
    pub minor_version: u8,
    /// Seconds since 1970.
    pub created_s: u64,
    /// Seconds since 1970.
    pub updated_s: u64,
    /// The count of superblock updates.
    pub events: u64,
    /// The bitmap: bytes per bit, count of bits, bits set.
    pub bitmap: Option<(u32, u64, u64)>,
    /// Every member that was seen since the array started.
    pub members: Vec<DescribedMember>,
}

/// A member in a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its handle.
    pub member: MemberId,
    /// Its device number in the superblock.
    pub number: u32,
    /// Its identity.
    pub device_uuid: [u8; 16],
    /// Its role according to its superblock.
    pub role: Role,
}

impl LogKeeping {
    pub(crate) fn new(off: bool, tag_before: u32, firm: bool) -> Self {
        Self { off, session: None, tag_before, firm }
    }
}

/// The entry of a superblock update for a member or spare.
struct Entry {
    /// `None`: a spare.
    slot: Option<usize>,
    recovered: Synced<MemberSpace>,
    by_bitmap: bool,
    replacement: bool,
}

/// md's [`Recorder`].
#[derive(Clone, Debug)]
pub struct MdRecorder {
    keepers: BTreeMap<MemberId, MemberMetadata>,
    /// The newest superblock, from which new members take what is common.
    common: Superblock,
    /// Its count of updates when this run began.
    events_before: u64,
    /// Members that missed the last superblock update of the run before.
    one_event_behind: Vec<MemberId>,
    /// Members that did not take all of an update of this run, and are not dropped.
    missed: BTreeSet<MemberId>,
    /// Members that get that update again, with one more event (R56): a missing member may hold an update that no other member
    /// has, torn by the crash that took the member. It must not pass for the first update of this run.
    to_rewrite: Vec<MemberId>,
    bitmap: Option<Bitmap>,
    /// The size of a page in which the bitmap is written.
    page_bytes: usize,
    /// The bitmap's pages behind the first are on the members: its header may vouch for them (R77).
    later_pages_laid: bool,
    redundant: bool,
    /// The members that carry the bitmap: those of the last state that have a slot.
    active: Vec<MemberId>,
    /// Spares of the last state.
    spares: Vec<MemberId>,
    optimal: bool,
    /// The members of the slots when the array was last optimal.
    optimal_holders: Vec<MemberId>,
    /// Of each member's drive: whether it was cut short while in use.
    cut_short: BTreeMap<MemberId, Arc<AtomicBool>>,
    log: LogKeeping,
    /// The number of lanes.
    lanes: usize,
    /// Members have checksums behind their data.
    checksums: bool,
}

/// The write log while the array runs.
#[derive(Clone, Debug)]
pub(crate) struct LogKeeping {
    /// The heads of the members' logs say that the array has none.
    off: bool,
    /// Begun by the first write.
    session: Option<Session>,
    /// The tag with which the last run's records count. They count until a session begins.
    tag_before: u32,
    /// Parity is consistent wherever no log record says otherwise. Not so after a crash without a log, until the resync has
    /// ended; until then no tag may say that the log suffices.
    firm: bool,
}

impl MdRecorder {
    /// Takes over the members' metadata. `bitmap` is the truth, which the members' own bitmaps need not hold yet.
    pub(crate) fn new(
        keepers: BTreeMap<MemberId, MemberMetadata>,
        common: Superblock,
        bitmap: Option<Bitmap>,
        log: LogKeeping,
        checksums: bool,
    ) -> Self {
        let redundant = common.header.level > 0;
        let role = |keeper: &MemberMetadata| common.roles.get(keeper.superblock.header.dev_number as usize).copied();
        let is_held = |slot: u32| keepers.values().any(|keeper| role(keeper) == Some(Role::Slot(slot as u16)));
        let missing = redundant && !(0..common.header.raid_disks).all(is_held);
        // A spare may miss updates. A member that returns later learns by the next update that it must be rebuilt.
        let holds =
            |keeper: &MemberMetadata| matches!((keeper.superblock.role(), role(keeper)), (Role::Slot(_), Some(Role::Slot(_))));
        let holders = || keepers.iter().filter(|(_, keeper)| holds(keeper));
        let is_behind = |keeper: &MemberMetadata| keeper.superblock.header.events + 1 == common.header.events;
        let one_event_behind = holders().filter(|(_, keeper)| is_behind(keeper)).map(|(&member, _)| member).collect();
        let to_rewrite = if missing { holders().map(|(&member, _)| member).collect() } else { Vec::new() };
        let (active, optimal_holders) = (Vec::new(), Vec::new());
        let (page_bytes, later_pages_laid) = (PAGE_BYTES, false);
        let events_before = common.header.events;
        Self {
            keepers,
            common,
            events_before,
            one_event_behind,
            missed: BTreeSet::new(),
            to_rewrite,
            bitmap,
            page_bytes,
            later_pages_laid,
            redundant,
            active,
            spares: Vec::new(),
            optimal: false,
            optimal_holders,
            cut_short: BTreeMap::new(),
            log,
            lanes: 1,
            checksums,
        }
    }

    /// The bitmap is written in pages of this size, 512 bytes at least: with smaller ones a simulated small array has several.
    #[must_use]
    pub fn with_bitmap_pages(self, page_bytes: usize) -> Self {
        Self { page_bytes, ..self }
    }

    /// The array runs on this many lanes: each member's log has as many parts.
    ///
    /// # Panics
    /// There are no lanes, or more than [`MdRecorder::lanes_max`].
    #[must_use]
    pub fn with_lanes(self, count: usize) -> Self {
        assert!((1..=self.lanes_max()).contains(&count), "{count} lanes of {}", self.lanes_max());
        Self { lanes: count, ..self }
    }

    /// The most lanes that the array may run on.
    pub fn lanes_max(&self) -> usize {
        let spaces = self.keepers.values().map(|keeper| self.log_space(&keeper.superblock));
        match self.append_sectors_max() {
            _ if self.checksums || self.common.ppl().is_some() => 1,
            Some(_) => spaces.flatten().map(|space| space.parts_max()).min().unwrap_or(1),
            None => usize::MAX,
        }
    }

    /// The size of the largest append, the same for every member; `None`: the array has no log.
    pub(crate) fn append_sectors_max(&self) -> Option<u64> {
        let on = |keeper: &MemberMetadata| self.append_sectors_max_on(&keeper.superblock);
        self.keepers.values().map(on).min().flatten().filter(|_| !self.log.off)
    }

    fn append_sectors_max_on(&self, superblock: &Superblock) -> Option<u64> {
        match superblock.ppl() {
            Some(_) => Some(ppl::APPEND_SECTORS_MAX),
            None => Some(self.log_space(superblock)?.cut(self.lanes)?.append_sectors_max()),
        }
    }

    /// The array's superblock, as of the last update.
    pub fn superblock(&self) -> &Superblock {
        &self.common
    }

    /// The metadata for status displays.
    pub fn description(&self) -> Description {
        let common = &self.common;
        let members = self.keepers.iter().map(|(&member, keeper)| DescribedMember {
            member,
            number: keeper.superblock.header.dev_number,
            device_uuid: keeper.superblock.header.device_uuid,
            role: common.roles.get(keeper.superblock.header.dev_number as usize).copied().unwrap_or(Role::Spare),
        });
        Description {
            uuid: common.header.set_uuid,
            name: common.name(),
            minor_version: common.minor_version(),
            created_s: common.created_s(),
            updated_s: common.updated_s(),
            events: common.header.events,
            bitmap: self
                .bitmap
                .as_ref()
                .map(|bitmap| (bitmap.header.chunksize, bitmap.chunk_count(), bitmap.set_chunks().count() as u64)),
            members: members.collect(),
        }
    }

    /// True if a member lacks data: it has bad blocks.
    pub fn has_bad_blocks(&self, member: MemberId) -> bool {
        self.keepers.get(&member).is_some_and(|keeper| !keeper.bad_blocks.is_empty())
    }

    /// Sets the flag that tells that a member's drive was cut short. When such a member is dropped, no absent member returns by
    /// the bitmap any more (R76).
    pub fn watch(&mut self, member: MemberId, cut_short: Arc<AtomicBool>) {
        self.cut_short.insert(member, cut_short);
    }

    /// Replaces a member's list of bad blocks. It is written now, and with every later superblock
    /// update.
    ///
    /// # Errors
    /// A sentence if the bad-block log has no space: the member should be failed.
    pub fn record_bad_blocks(
        &mut self,
        member: MemberId,
        blocks: Vec<Range<DriveSector>>,
        unix_seconds: u64,
    ) -> Result<Vec<MetadataWrite>, AdoptError> {
        let micros = self.micros(self.common.utime_micros());
        let Some(keeper) = self.keepers.get_mut(&member) else { return Ok(Vec::new()) };
        let header = &mut keeper.superblock.header;
        let has_log = bad_blocks_max(header) > 0;
        let Some(log) = has_log.then(|| keeper.bad_blocks.changed_to(&blocks, header.bblog_size)).flatten() else {
            return Err(AdoptError::BadBlocksFull { drive: keeper.name.clone(), count: blocks.len() });
        };
        header.utime = unix_seconds | micros << 40;
        let data = Buffer::copy_of(&log.encode(header.bblog_size)).freeze();
        let start_sector = keeper.superblock.sector_at(keeper.superblock.header.bblog_offset);
        let before = keeper.set_bad_blocks(log);
        keeper.bad_blocks_before = Some(before);
        Ok(vec![MetadataWrite { member, start_sector, data }, keeper.issue(member)])
    }

    /// The microseconds of `utime`: the log tag, or a mark that checksums were kept meanwhile.
    fn micros(&self, tag: u32) -> u64 {
        if tag == 0 && self.checksums { checksums::WITNESSED } else { tag.into() }
    }

    /// Begins a session of partial parity logs. They do not name it: its number comes from the superblock update before.
    fn begin_ppl(&mut self, members: &[MemberId]) -> Vec<MetadataWrite> {
        // Such a log belongs to superblocks without a tag.
        let session = Session { tag: 0, tag_before: 0, ..Session::after(self.common.header.events, 0) };
        self.log.session = Some(session);
        let location = |member: &MemberId| PplLocation::of(&self.keepers.get(member)?.superblock);
        members.iter().filter_map(|member| Some(Ppl::begin(*member, &location(member)?, session.number))).collect()
    }

    /// Writes some pages of the bitmap, in order and without repetition, to some members.
    fn bitmap_writes(
        bitmap: &Bitmap,
        page_bytes: usize,
        pages: impl Iterator<Item = usize>,
        targets: impl Iterator<Item = (MemberId, BitmapLocation)> + Clone,
    ) -> Vec<MetadataWrite> {
        let page_sectors = (page_bytes / 512) as u64;
        let mut writes = Vec::new();
        for page in pages {
            let data = Buffer::copy_of(&bitmap.encode_page(page, page_bytes)).freeze();
            let start = page as u64 * page_sectors;
            for (member, location) in targets.clone() {
                let end = bitmap.size_sectors().next_multiple_of(location.unit_sectors).min(start + page_sectors);
                if start < end {
                    let data = data.slice(0, ((end - start) * 512) as usize);
                    writes.push(MetadataWrite { member, start_sector: location.start_sector + start, data });
                }
            }
        }
        writes
    }

    /// Where a member's metadata are on its drive, the ring of the write log and the headers of checksums included, in whole
    /// blocks of 4 KiB.
    pub fn metadata_ranges(&self, member: MemberId) -> Vec<Range<DriveSector>> {
        let Some(keeper) = self.keepers.get(&member) else { return Vec::new() };
        let (superblock, header) = (&keeper.superblock, &keeper.superblock.header);
        let mut ranges = vec![superblock.start_sector().run(SUPERBLOCK_BYTES as u64 / 512)];
        if header.bblog_offset != 0 {
            ranges.push(superblock.sector_at(header.bblog_offset).run(header.bblog_size.into()));
        }
        if let Some(bitmap) = &self.bitmap {
            ranges.push(superblock.sector_at(header.bitmap_offset).run(bitmap.size_sectors()));
        }
        if let Some(location) = self.log_space(superblock).and_then(|space| space.cut(self.lanes)).filter(|_| !self.log.off) {
            ranges.push(location.ring_start()..location.head_start + 8);
        }
        if let Some(location) = PplLocation::of(superblock) {
            ranges.push(location.start_sector.run(location.sectors));
        }
        if self.checksums {
            ranges.push(superblock.data().end.run(HEADERS_SECTORS));
        }
        ranges.into_iter().map(|range| range.in_blocks(8)).collect()
    }

    /// The head of a member's log, if it must be written.
    fn log_head(&mut self, member: MemberId) -> Option<MetadataWrite> {
        let location = self.log_space(&self.keepers.get(&member)?.superblock)?.cut(self.lanes)?;
        let session = match self.log.session {
            Some(session) => session,
            None if self.log.off => Session::default(),
            None => return None,
        };
        let keeper = self.keepers.get_mut(&member)?;
        if std::mem::replace(&mut keeper.log_current, true) {
            return None;
        }
        let page = encode_head(&keeper.superblock, &location, &session, self.log.off, keeper.log_incarnation);
        Some(MetadataWrite { member, start_sector: location.head_start, data: Buffer::copy_of(&page).freeze() })
    }

    /// The head that says of a member's log that it could not be read (R80).
    fn lost_log_head(&self, member: MemberId) -> Option<MetadataWrite> {
        let keeper = self.keepers.get(&member)?;
        let space = self.log_space(&keeper.superblock)?;
        let page = encode_lost_head(&keeper.superblock, &space, keeper.lost_log.as_ref()?)?;
        Some(MetadataWrite { member, start_sector: space.head_start, data: Buffer::copy_of(&page).freeze() })
    }

    /// Only for an array with redundancy.
    fn geometry(&self) -> Geometry {
        let header = &self.common.header;
        let sizes = vec![header.size; header.raid_disks as usize];
        let (level, layout) = layout_of(header).expect("it runs");
        Geometry::new(level, layout, header.chunksize.into(), &sizes).expect("it runs")
    }

    /// R32: true unless a member was left out of this run's last superblock update: its drive may be another member by now.
    fn takes_part(&self, member: MemberId) -> bool {
        self.active.is_empty() || self.active.contains(&member)
    }

    fn log_space(&self, superblock: &Superblock) -> Option<LogSpace> {
        let bitmap_sectors = self.bitmap.as_ref().map_or(0, Bitmap::size_sectors);
        LogSpace::of(superblock, bitmap_sectors).filter(|_| keeps_parity(&superblock.header))
    }

    /// A new member must have space for what lanes append.
    fn has_space_for_log(&self, superblock: &Superblock) -> bool {
        self.append_sectors_max().is_none_or(|ours| self.append_sectors_max_on(superblock) >= Some(ours))
    }

    /// R77: a bitmap that is made anew, or that another program did not keep, may have old pages on members with a slot. A torn
    /// update must not make them count.
    fn later_pages(&self) -> Vec<MetadataWrite> {
        let Some(bitmap) = &self.bitmap else { return Vec::new() };
        let holds = |member: &&MemberId| matches!(self.keepers[*member].superblock.role(), Role::Slot(_));
        let locations: Vec<_> = self.keepers.keys().filter(holds).filter_map(|&member| self.bitmap_location(member)).collect();
        let later = 1..bitmap.page_count(self.page_bytes);
        let mut writes = Self::bitmap_writes(bitmap, self.page_bytes, later, locations.iter().copied());
        // Where sectors may be torn apart, so is the first page behind its header.
        let torn = locations.into_iter().filter(|(member, _)| self.keepers[member].logical_block_bytes <= 512);
        for first in Self::bitmap_writes(bitmap, self.page_bytes, 0..1, torn).into_iter().filter(|first| first.data.len() > 512) {
            let data = first.data.slice(512, first.data.len() - 512);
            writes.push(MetadataWrite { start_sector: first.start_sector + 1, data, ..first });
        }
        writes
    }

    /// R57: the last update of this run again, for members that did not take it.
    fn rewrite_missed(&mut self) -> Vec<MetadataWrite> {
        let mut writes = Vec::new();
        for member in std::mem::take(&mut self.missed) {
            let Some(keeper) = self.keepers.get(&member) else { continue };
            if self.takes_part(member) || self.spares.contains(&member) {
                writes.push(keeper.superblock_write(member));
                writes.extend(self.log_head(member));
            }
        }
        writes
    }

    /// The last update again, for members that missed it (R57), and then with one more event if a slot is empty (R56). Nothing:
    /// that is done.
    fn rewrite_superblocks(&mut self) -> Vec<MetadataWrite> {
        let mut rewritten = std::mem::take(&mut self.one_event_behind);
        let mut writes = Vec::new();
        if rewritten.is_empty() && !self.to_rewrite.is_empty() {
            rewritten = std::mem::take(&mut self.to_rewrite);
            self.common.header.events += 1;
            if let Some(bitmap) = &mut self.bitmap {
                bitmap.header.events = self.common.header.events;
                let bitmap = self.bitmap.as_ref().expect("it is there");
                let locations: Vec<_> = rewritten.iter().filter_map(|&member| self.bitmap_location(member)).collect();
                writes =
                    Self::bitmap_writes(bitmap, self.page_bytes, 0..bitmap.page_count(self.page_bytes), locations.into_iter());
            }
        }
        let (truth, paged) = (&self.common, !writes.is_empty());
        for member in rewritten {
            let Some(keeper) = self.keepers.get_mut(&member) else { continue };
            keeper.bitmap_current |= paged;
            keeper.superblock.follow(truth);
            writes.push(keeper.issue(member));
        }
        writes
    }

    fn bitmap_location(&self, member: MemberId) -> Option<(MemberId, BitmapLocation)> {
        let keeper = self.keepers.get(&member)?;
        Some((member, BitmapLocation::of(&keeper.superblock, keeper.logical_block_bytes)?))
    }

    /// The entries of members and spares. A member that has returned under another handle since is named by the next update.
    fn entries_in(&self, state: &ArrayState) -> BTreeMap<MemberId, Entry> {
        let mut entries = BTreeMap::new();
        for (slot, slot_state) in state.slots.iter().enumerate() {
            for (progress, replacement) in [(&slot_state.member, false), (&slot_state.replacement, true)] {
                if let Some(progress) = progress.as_ref().filter(|progress| self.keepers.contains_key(&progress.member)) {
                    let (recovered, by_bitmap) = (progress.recovered, progress.by_bitmap);
                    entries.insert(progress.member, Entry { slot: Some(slot), recovered, by_bitmap, replacement });
                }
            }
        }
        let spare = || Entry { slot: None, recovered: Synced::All, by_bitmap: false, replacement: false };
        entries.extend(state.spares.iter().filter(|spare| self.keepers.contains_key(spare)).map(|&member| (member, spare())));
        entries
    }

    /// The role of each device number.
    fn roles_in(&self, state: &ArrayState, entries: &BTreeMap<MemberId, Entry>) -> Vec<Role> {
        let mut roles = vec![Role::Spare; self.common.roles.len()];
        let number_of = |member: &MemberId| self.keepers[member].superblock.header.dev_number;
        // A number stays in use while its member is there, also as a spare.
        for (member, entry) in entries {
            let number = number_of(member);
            let role = roles.get(number as usize).copied().unwrap_or(Role::Spare);
            set_role(&mut roles, number, entry.slot.map_or(role, |slot| Role::Slot(slot as u16)));
        }
        for (member, _) in &state.failed {
            if self.keepers.contains_key(member) && !entries.contains_key(member) {
                let number = number_of(member);
                // If it came back under a new handle, that one may have the same number.
                if !entries.keys().any(|other| number_of(other) == number) {
                    set_role(&mut roles, number, Role::Faulty);
                }
            }
        }
        assert!(roles.len() <= ROLES_MAX, "more device numbers than a superblock holds");
        roles
    }

    /// Writes the array's state into the common superblock and the bitmap's header. `holders`: the members that hold a slot, by
    /// slot.
    fn begin_update(&mut self, state: &ArrayState, roles: Vec<Role>, holders: Vec<MemberId>, unix_seconds: u64) {
        let resync_offset = match (self.redundant, state.clean) {
            (false, _) => CLEAN,
            (true, true) => offset_of(state.synced),
            (true, false) => 0,
        };
        self.log.firm |= state.synced == Synced::All;
        let tag = match (resync_offset, self.log.firm) {
            (CLEAN, _) => 0,
            (_, true) if self.common.ppl().is_some() => ppl::CONSISTENT,
            (_, false) if self.common.ppl().is_some() => ppl::INCONSISTENT,
            (_, false) => 0,
            _ => self.log.session.map_or(self.log.tag_before, |session| session.tag),
        };
        let utime = unix_seconds | self.micros(tag) << 40;
        let mut forgets_absent = false;
        for (member, _) in &state.failed {
            if self.cut_short.get(member).is_some_and(|cut| cut.load(Ordering::SeqCst)) {
                self.cut_short.remove(member);
                forgets_absent = true;
            }
        }
        let common = &mut self.common;
        common.header.events += 1;
        common.header.utime = utime;
        common.header.resync_offset = resync_offset;
        common.roles = roles;

        if let Some(bitmap) = &mut self.bitmap {
            bitmap.header.events = common.header.events;
            bitmap.header.state &= !bitmap::state::WRITE_ERROR;
            // Stria writes nothing behind, and a crash of this run must not be taken for one that left such writes.
            bitmap.header.write_behind = 0;
            if forgets_absent || state.optimal && (!self.optimal || holders != self.optimal_holders) {
                bitmap.header.events_cleared = common.header.events;
            }
        }
        self.optimal = state.optimal;
        if state.optimal {
            self.optimal_holders = holders;
        }
    }

    /// Updates a member's superblock from the common one and its place.
    fn superblock_of(&mut self, member: MemberId, entry: &Entry) -> MetadataWrite {
        let keeper = self.keepers.get_mut(&member).expect("only members that are kept have a place");
        let superblock = &mut keeper.superblock;
        superblock.follow(&self.common);
        let header = &mut superblock.header;
        header.feature_map &= feature::RAID0_LAYOUT | feature::PPL | feature::MULTIPLE_PPLS;
        header.recovery_offset = 0;
        if self.bitmap.is_some() {
            header.feature_map |= feature::BITMAP_OFFSET;
        }
        if entry.recovered != Synced::All || entry.by_bitmap {
            header.feature_map |= feature::RECOVERY_OFFSET;
            header.recovery_offset = offset_of(entry.recovered);
            if entry.by_bitmap && self.bitmap.is_some() {
                header.feature_map |= feature::RECOVERY_BITMAP;
            }
        }
        if entry.replacement {
            header.feature_map |= feature::REPLACEMENT;
        }
        if !keeper.bad_blocks.is_empty() {
            header.feature_map |= feature::BAD_BLOCKS;
        }
        keeper.issue(member)
    }

    /// The bitmap's first page to members that have the rest, and all of it to the others.
    fn bitmap_of_state(&mut self) -> Vec<MetadataWrite> {
        let mut writes = Vec::new();
        if let Some(bitmap) = &self.bitmap {
            let (current, behind): (Vec<_>, Vec<_>) = self.active.iter().partition(|member| self.keepers[member].bitmap_current);
            let bitmap_location = |member: &MemberId| self.bitmap_location(*member);
            let (page_bytes, pages) = (self.page_bytes, bitmap.page_count(self.page_bytes));
            writes.extend(Self::bitmap_writes(bitmap, page_bytes, 0..1, current.iter().filter_map(bitmap_location)));
            writes.extend(Self::bitmap_writes(bitmap, page_bytes, 0..pages, behind.iter().filter_map(bitmap_location)));
            for member in &self.active {
                self.keepers.get_mut(member).expect("active members are kept").bitmap_current = true;
            }
        }
        writes
    }
}

impl MemberMetadata {
    pub(crate) fn config(&self, id: MemberId) -> MemberConfig {
        let header = &self.superblock.header;
        let data = self.superblock.data();
        MemberConfig {
            id,
            name: self.name.clone(),
            data_start_sector: data.start,
            data_sectors: header.data_size,
            recovered: if self.superblock.has(feature::RECOVERY_OFFSET) { synced(header.recovery_offset) } else { Synced::All },
            by_bitmap: self.superblock.has(feature::RECOVERY_BITMAP),
            bad_blocks: self.bad_blocks.blocks().iter().filter_map(|range| in_data_area(range, &data)).collect(),
            bad_blocks_max: bad_blocks_max(header),
        }
    }

    /// Returns the list of before.
    fn set_bad_blocks(&mut self, log: BadBlockLog) -> BadBlockLog {
        let features = &mut self.superblock.header.feature_map;
        *features &= !feature::BAD_BLOCKS;
        *features |= if log.is_empty() { 0 } else { feature::BAD_BLOCKS };
        std::mem::replace(&mut self.bad_blocks, log)
    }

    /// Writes the superblock, and remembers that this run did.
    fn issue(&mut self, member: MemberId) -> MetadataWrite {
        let write = self.superblock_write(member);
        let header = &self.superblock.header;
        self.issued = [Some(Stamp(header.events, header.utime, sum_of(&write.data))), self.issued[0]];
        write
    }

    /// True if a superblock, which a drive has now, is one of this run's for this member: it was not run elsewhere since.
    fn has_issued(&self, now: &Superblock) -> bool {
        let (ours, theirs) = (&self.superblock.header, &now.header);
        ours.device_uuid == theirs.device_uuid && self.issued.contains(&Some(Stamp(theirs.events, theirs.utime, theirs.sb_csum)))
    }

    fn superblock_write(&self, member: MemberId) -> MetadataWrite {
        let mut bytes = self.superblock.encode();
        bytes.resize(bytes.len().next_multiple_of(self.logical_block_bytes.max(512) as usize), 0);
        let data = Buffer::copy_of(&bytes).freeze();
        MetadataWrite { member, start_sector: self.superblock.start_sector(), data }
    }
}

/// The number of entries of a member's bad-block log; 0: it has none, or one that Stria does not write.
fn bad_blocks_max(header: &Header) -> u16 {
    let is_known = header.bblog_offset != 0 && header.bblog_size <= badblocks::SECTORS_MAX && header.bblog_shift == 0;
    if is_known { header.bblog_size * badblocks::IN_A_SECTOR as u16 } else { 0 }
}

fn set_role(roles: &mut Vec<Role>, number: u32, role: Role) {
    let number = number as usize;
    if number >= roles.len() {
        roles.resize(number + 1, Role::Spare);
    }
    roles[number] = role;
}

impl Recorder for MdRecorder {
    type Log = MdLog;
    type Newcomer = Newcomer;

    fn admit(&mut self, member: MemberId, newcomer: &Newcomer) -> Result<(MemberConfig, Option<usize>), Refusal> {
        let admitted = match newcomer {
            Newcomer::Former(candidate) => self.take_back(member, candidate).map(|(slot, config)| (config, Some(slot))),
            Newcomer::Spare(adopt) => self.adopt(member, adopt).map(|(config, _)| (config, None)),
        };
        admitted.map_err(|error| NotAdmitted::new(error).into())
    }

    fn rewrite_last_update(&mut self) -> Vec<MetadataWrite> {
        if !std::mem::replace(&mut self.later_pages_laid, true) {
            let later = self.later_pages();
            if !later.is_empty() {
                return later;
            }
        }
        let missed = self.rewrite_missed();
        if missed.is_empty() { self.rewrite_superblocks() } else { missed }
    }

    fn record_state(&mut self, state: &ArrayState, unix_seconds: u64) -> Vec<MetadataWrite> {
        let entries = self.entries_in(state);
        self.active = entries.iter().filter(|(_, entry)| entry.slot.is_some()).map(|(&member, _)| member).collect();
        self.spares = state.spares.iter().copied().filter(|spare| self.keepers.contains_key(spare)).collect();
        let roles = self.roles_in(state, &entries);
        let holders = state.slots.iter().filter_map(|slot| Some(slot.member.as_ref()?.member));
        let holders = holders.filter(|member| self.keepers.contains_key(member)).collect();
        self.begin_update(state, roles, holders, unix_seconds);
        let mut writes: Vec<MetadataWrite> = entries.iter().map(|(&member, entry)| self.superblock_of(member, entry)).collect();
        for &member in entries.keys() {
            writes.extend(self.lost_log_head(member));
            writes.extend(self.log_head(member));
        }
        writes.extend(self.bitmap_of_state());
        writes
    }

    fn write_failed(&mut self, member: MemberId) {
        if let Some(keeper) = self.keepers.get_mut(&member) {
            (keeper.bitmap_current, keeper.log_current) = (false, false);
            self.missed.insert(member);
        }
    }

    fn record_bad_blocks(
        &mut self,
        member: MemberId,
        blocks: &[Range<MemberSector>],
        unix_seconds: u64,
    ) -> Option<Vec<MetadataWrite>> {
        let start = self.keepers.get(&member)?.superblock.data().start;
        let blocks = blocks.iter().map(|bad| on_drive(bad, start)).collect();
        MdRecorder::record_bad_blocks(self, member, blocks, unix_seconds).ok()
    }

    fn bad_blocks_failed(&mut self, member: MemberId) {
        if let Some(keeper) = self.keepers.get_mut(&member)
            && let Some(before) = keeper.bad_blocks_before.take()
        {
            keeper.set_bad_blocks(before);
        }
    }

    fn record_intent(&mut self, set: &[u64], clear: &[u64]) -> Vec<MetadataWrite> {
        let Some(bitmap) = &mut self.bitmap else { return Vec::new() };
        let mut pages = BTreeSet::new();
        let page_of = |chunk: u64| (Bitmap::byte_of(chunk) / self.page_bytes as u64) as usize;
        for &chunk in set {
            if bitmap.put(chunk, true) {
                pages.insert(page_of(chunk));
            }
        }
        // R3: a missing member must find every bit that was set since it left.
        for &chunk in clear.iter().filter(|_| self.optimal) {
            if bitmap.put(chunk, false) {
                pages.insert(page_of(chunk));
                if bitmap.header.events_cleared != bitmap.header.events {
                    bitmap.header.events_cleared = bitmap.header.events;
                    pages.insert(0);
                }
            }
        }
        let bitmap = self.bitmap.as_ref().expect("checked above");
        // A page that a member did not take lacks a bit of this run, which no write relied on: it gets all of them.
        let (current, behind): (Vec<MemberId>, Vec<MemberId>) =
            self.active.iter().partition(|member| self.keepers[member].bitmap_current);
        let locations =
            |members: &[MemberId]| members.iter().filter_map(|&member| self.bitmap_location(member)).collect::<Vec<_>>();
        let mut writes = Self::bitmap_writes(bitmap, self.page_bytes, pages.into_iter(), locations(&current).into_iter());
        let all_pages = 0..bitmap.page_count(self.page_bytes);
        writes.extend(Self::bitmap_writes(bitmap, self.page_bytes, all_pages, locations(&behind).into_iter()));
        for member in behind {
            self.keepers.get_mut(&member).expect("active members are kept").bitmap_current = true;
        }
        writes
    }

    fn reset_log(&mut self) -> Vec<MetadataWrite> {
        let session = Session::after(self.common.header.events, self.log.tag_before);
        let members: Vec<MemberId> = self.keepers.keys().copied().filter(|&member| self.takes_part(member)).collect();
        if self.common.ppl().is_some() {
            // A spare whose adoption was torn may take a slot in this run.
            let members: Vec<MemberId> =
                members.iter().chain(&self.spares).copied().collect::<BTreeSet<_>>().into_iter().collect();
            return self.begin_ppl(&members);
        }
        self.log.session = Some(session);
        self.keepers.values_mut().for_each(|keeper| (keeper.log_current, keeper.lost_log) = (false, None));
        members.into_iter().filter_map(|member| self.log_head(member)).collect()
    }

    fn log_layout(&self) -> LogLayout {
        let location = |(&member, keeper): (&MemberId, &MemberMetadata)| {
            let superblock = &keeper.superblock;
            let location = match PplLocation::of(superblock) {
                Some(location) => LogArea::Ppl(location, self.geometry()),
                None => LogArea::Ring(self.log_space(superblock)?.cut(self.lanes)?, salt_of(superblock, keeper.log_incarnation)),
            };
            Some((member, location))
        };
        let session = self.log.session.map_or(0, |session| session.number);
        LogLayout { session, members: self.keepers.iter().filter_map(location).collect() }
    }
}
