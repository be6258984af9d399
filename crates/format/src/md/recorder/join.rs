//! Drives that join a running array: new members, and members that return by the bitmap (R27, R75, R78).

use super::refusals::{AdoptError, Unreturnable, Unsuited};
use super::{MdRecorder, MemberMetadata, bad_blocks_max, set_role};
use crate::md::Candidate;
use crate::md::badblocks::BadBlockLog;
use crate::md::bitmap::Bitmap;
use crate::md::checksums::{self, region_of};
use crate::md::create::{CreateWrite, member_writes};
use crate::md::ppl::{Ppl, PplLocation};
use crate::md::superblock::{ROLES_IN_SECTOR, ROLES_MAX, Role, Superblock, feature};
use std::collections::BTreeSet;
use stria_array::{DriveSector, MemberConfig, MemberId, MetadataWrite, Synced};
use stria_block::{Buffer, bytes};
use stria_integrity::Region;

/// A drive to join a running array.
#[derive(Clone, Debug)]
pub struct Adopt {
    /// The name that people see.
    pub name: String,
    /// The drive's size.
    pub size_sectors: u64,
    /// The drive's logical block: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The new member's identity, random.
    pub device_uuid: [u8; 16],
}

/// A drive that joins a running array.
#[derive(Clone, Debug)]
pub enum Newcomer {
    /// A member that was away returns to its slot.
    Former(Box<Candidate>),
    /// A new spare: what [`MdRecorder::adopt`] writes is on the drive, durably. The next superblock update brings it up to date.
    Spare(Adopt),
}

impl MdRecorder {
    /// Adds a drive as a spare: the writes give it metadata of its own. It takes part from the next superblock update that
    /// names `member`.
    ///
    /// # Errors
    /// [`AdoptError`], if the drive is unsuitable; nothing was changed.
    pub fn adopt(&mut self, member: MemberId, drive: &Adopt) -> Result<(MemberConfig, Vec<MetadataWrite>), AdoptError> {
        let (number, data_size) = self.suits(member, drive).map_err(|reason| AdoptError::Unsuited {
            drive: drive.name.clone(),
            array: self.common.name(),
            reason,
        })?;
        let mut superblock = self.common.clone();
        let header = &mut superblock.header;
        header.dev_number = number;
        header.device_uuid = drive.device_uuid;
        header.data_size = data_size;
        header.utime |= if self.checksums && header.utime >> 40 == 0 { checksums::WITNESSED << 40 } else { 0 };
        header.recovery_offset = 0;
        header.cnt_corrected_read = 0;
        header.devflags = 0;
        header.bblog_shift = 0;
        header.feature_map &= !(feature::RECOVERY_OFFSET | feature::RECOVERY_BITMAP | feature::REPLACEMENT | feature::BAD_BLOCKS);
        set_role(&mut superblock.roles, number, Role::Spare);
        let config = MemberConfig {
            id: member,
            name: drive.name.clone(),
            data_start_sector: superblock.data().start,
            data_sectors: data_size,
            recovered: Synced::up_to(0),
            by_bitmap: false,
            bad_blocks: Vec::new(),
            bad_blocks_max: bad_blocks_max(&superblock.header),
        };
        let mut writes = member_writes(0, &superblock, self.bitmap.as_ref());
        // Of a spare nothing counts but its superblock. With that first, a cut leaves a spare of this array. Without it, what
        // was written would be data that nobody can name, and the drive would be refused.
        let first = writes.pop().expect("a member has a superblock");
        let within_head = bytes(first.start_sector.get())..bytes(first.start_sector.get()) + first.bytes.len();
        writes[0].bytes[within_head].copy_from_slice(&first.bytes);
        writes.insert(0, first);
        let writes = writes.into_iter().map(|CreateWrite { start_sector, bytes, .. }| MetadataWrite {
            member,
            start_sector,
            data: Buffer::copy_of(&bytes).freeze(),
        });
        let mut writes: Vec<MetadataWrite> = writes.collect();
        if self.checksums {
            let (start_sector, bytes) =
                (DriveSector::new(region_of(&superblock).header_sector(0)), checksums::new_region(&superblock));
            writes.insert(0, MetadataWrite { member, start_sector, data: Buffer::copy_of(&bytes).freeze() });
        }
        let keeper = MemberMetadata {
            superblock,
            name: drive.name.clone(),
            logical_block_bytes: drive.logical_block_bytes,
            bad_blocks: BadBlockLog::default(),
            bad_blocks_before: None,
            bitmap_current: false,
            log_current: false,
            log_incarnation: 0,
            issued: [None; 2],
            lost_log: None,
        };
        if let Some(location) = PplLocation::of(&keeper.superblock) {
            writes.extend(Ppl::erase(member, &location));
        }
        self.keepers.insert(member, keeper);
        writes.extend(self.log_head(member));
        // These writes may reach the drive some time before the member joins, so the next superblock update repeats them.
        self.keepers.get_mut(&member).expect("put there above").log_current = false;
        Ok((config, writes))
    }

    /// The device number and the sectors for data that a drive gets as a new member, or why it cannot be one.
    fn suits(&self, member: MemberId, drive: &Adopt) -> Result<(u32, u64), Unsuited> {
        let header = &self.common.header;
        if !self.redundant {
            return Err(Unsuited::NoRedundancy);
        }
        if self.keepers.contains_key(&member) {
            return Err(Unsuited::Member);
        }
        if self.common.minor_version() == 0 {
            return Err(Unsuited::SuperblocksAtTheEnd);
        }
        let space = drive.size_sectors.saturating_sub(header.data_offset);
        let data_size = if self.checksums { Region::data_sectors_within(space) } else { space };
        if data_size < header.size {
            let behind = if self.checksums { Region::sectors_for(header.size) } else { 0 };
            let needed = header.data_offset + header.size + behind;
            return Err(Unsuited::TooSmall {
                missing_bytes: needed.saturating_sub(drive.size_sectors).saturating_mul(512),
                needed_bytes: needed.saturating_mul(512),
            });
        }
        let block_sectors = u64::from(drive.logical_block_bytes / 512).max(1);
        let strip = u64::from(header.chunksize);
        let log_start = self.common.sector_at(header.bblog_offset).get();
        if [header.super_offset, header.data_offset, strip, log_start].iter().any(|offset| offset % block_sectors != 0) {
            return Err(Unsuited::Blocks { block_bytes: drive.logical_block_bytes });
        }
        let number = self.free_number().ok_or(Unsuited::NoNumber)?;
        if !self.has_space_for_log(&self.common) {
            return Err(Unsuited::NoSpaceForLog);
        }
        let bitmap_space = self.common.bitmap_space_sectors(Some(drive.size_sectors));
        if self.bitmap.as_ref().is_some_and(|bitmap| bitmap.size_sectors() > bitmap_space) {
            return Err(Unsuited::NoSpaceForBitmap);
        }
        Ok((number, data_size))
    }

    /// Takes back a member that was away, under a new handle, if [`MdRecorder::returnable`] says so. The engine rebuilds what
    /// the bitmap names. Nothing is written before the next superblock update.
    ///
    /// # Errors
    /// As [`MdRecorder::returnable`].
    pub fn take_back(&mut self, member: MemberId, candidate: &Candidate) -> Result<(usize, MemberConfig), AdoptError> {
        let drive = || candidate.name.clone();
        let unreadable = |reason: String| AdoptError::Unreadable { drive: drive(), reason };
        let found = candidate.found.as_ref().map_err(|error| unreadable(error.to_string()))?;
        let slot = self.returnable(&found.superblock)?;
        let bad_blocks = found.bad_blocks.clone().map_err(unreadable)?;
        if !self.has_space_for_log(&found.superblock) {
            return Err(AdoptError::ReturnsWithoutLog { drive: drive() });
        }
        // R39: its earlier incarnation in this run, if any, ends.
        let uuid = found.superblock.header.device_uuid;
        let before = self.keepers.values().find(|keeper| keeper.superblock.header.device_uuid == uuid);
        let log_incarnation = before.map_or(0, |keeper| keeper.log_incarnation + 1);
        self.keepers.retain(|_, keeper| keeper.superblock.header.device_uuid != uuid);
        let mut superblock = Superblock { span_of: self.common.span_of, ..found.superblock.clone() };
        // While it was away, its number may have been given to another member.
        let number = superblock.header.dev_number;
        if self.keepers.values().any(|keeper| keeper.superblock.header.dev_number == number) {
            let free = self.free_number();
            superblock.header.dev_number = free.ok_or_else(|| AdoptError::ReturnsWithoutNumber { drive: drive() })?;
        }
        let keeper = MemberMetadata {
            superblock,
            name: candidate.name.clone(),
            logical_block_bytes: candidate.logical_block_bytes,
            bad_blocks,
            bad_blocks_before: None,
            bitmap_current: false,
            log_current: false,
            log_incarnation,
            issued: [None; 2],
            lost_log: None,
        };
        let config = MemberConfig { recovered: Synced::up_to(0), by_bitmap: true, ..keeper.config(member) };
        self.keepers.insert(member, keeper);
        Ok((slot, config))
    }

    /// The slot to which a member that was away may return by the bitmap.
    ///
    /// # Errors
    /// The reason why it may only join as a new spare.
    pub fn returnable(&self, superblock: &Superblock) -> Result<usize, Unreturnable> {
        let left_this_run = self.keepers.values().any(|keeper| keeper.has_issued(superblock));
        let slot = returnable(&self.common, self.bitmap.as_ref(), superblock, left_this_run)?;
        // R78: a substitute elsewhere may have the number of a member here. One update more may be torn (R58).
        if superblock.header.events > self.events_for(superblock) + 1 {
            return Err(Unreturnable::RunElsewhere);
        }
        Ok(slot)
    }

    /// The most updates that a member with this superblock can have taken here: it was in this run, or left before.
    pub fn events_for(&self, superblock: &Superblock) -> u64 {
        if self.member_of(superblock).is_some() { self.common.header.events } else { self.events_before }
    }

    /// A device number for a new member: one that no member of this run had, while there are any.
    fn free_number(&self) -> Option<u32> {
        let taken: BTreeSet<u32> = self.keepers.values().map(|keeper| keeper.superblock.header.dev_number).collect();
        let roles_max = self.keepers.values().map(|keeper| keeper.superblock.roles_max()).min().unwrap_or(ROLES_MAX);
        let mut numbers = self.common.header.raid_disks..roles_max as u32;
        // A number above all that are taken is that of no stale member. But roles beyond the first sector let a power cut tear
        // the superblocks of all members at once, so a free number below is taken then.
        let mut beyond = numbers.start..numbers.end.min(ROLES_IN_SECTOR);
        beyond.find(|number| taken.last() < Some(number)).or_else(|| numbers.find(|number| !taken.contains(number)))
    }

    /// The member that has the identity of this superblock, present or failed.
    pub fn member_of(&self, superblock: &Superblock) -> Option<MemberId> {
        let same = |keeper: &MemberMetadata| keeper.superblock.header.device_uuid == superblock.header.device_uuid;
        self.keepers.iter().find(|(_, keeper)| same(keeper)).map(|(member, _)| *member)
    }
}

/// The slot to which a member that was away may return by the bitmap. `left_this_run`: its superblock is one of this run's.
pub(crate) fn returnable(
    common: &Superblock,
    bitmap: Option<&Bitmap>,
    away: &Superblock,
    left_this_run: bool,
) -> Result<usize, Unreturnable> {
    let (ours, theirs) = (&common.header, &away.header);
    if ours.set_uuid != theirs.set_uuid {
        return Err(Unreturnable::AnotherArray);
    }
    if common.minor_version() != away.minor_version() {
        return Err(Unreturnable::AnotherVersion);
    }
    if common.shape() != away.shape() {
        return Err(Unreturnable::ShapeChanged);
    }
    away.servable()?;
    if theirs.data_size < ours.size {
        return Err(Unreturnable::TooSmall);
    }
    let Role::Slot(slot) = away.role() else {
        return Err(Unreturnable::HeldNoSlot);
    };
    if u32::from(slot) >= ours.raid_disks {
        return Err(Unreturnable::NoSuchSlot { slot });
    }
    if away.has(feature::RECOVERY_OFFSET) && !away.has(feature::RECOVERY_BITMAP) || away.has(feature::REPLACEMENT) {
        return Err(Unreturnable::RebuildUnended);
    }
    // R78: a member that ran without some of the others may hold data that their bitmap does not name. One that left this run
    // does not: the others that it lacks have returned since.
    let holders = |superblock: &Superblock, slot: u32| {
        let roles = superblock.roles.iter().enumerate();
        roles.filter(|(_, role)| **role == Role::Slot(slot as u16)).map(|(number, _)| number).collect::<BTreeSet<usize>>()
    };
    let (mut same, mut others) = (0, 0);
    for held in (0..ours.raid_disks).filter(|&other| other != u32::from(slot) && !left_this_run) {
        let (now, then) = (holders(common, held), holders(away, held));
        match (now.is_empty(), then.is_empty()) {
            (true, _) => {}
            (false, true) => return Err(Unreturnable::RunWithout),
            (false, false) if now.is_disjoint(&then) => others += 1,
            (false, false) => same += 1,
        }
    }
    // If the array was run with other drives in these slots, as on another machine, most of the members are others.
    if others > 0 && same <= others {
        return Err(Unreturnable::RunWithOthers);
    }
    let bitmap = bitmap.ok_or(Unreturnable::NoBitmap)?;
    if !away.has(feature::BITMAP_OFFSET) || away.bitmap_space_sectors(None) < bitmap.size_sectors() {
        return Err(Unreturnable::NoSpaceForBitmap);
    }
    if theirs.events < bitmap.header.events_cleared {
        return Err(Unreturnable::LeftTooEarly { left: theirs.events, covered: bitmap.header.events_cleared });
    }
    Ok(usize::from(slot))
}
