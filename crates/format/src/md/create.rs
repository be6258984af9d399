//! A new array: the bytes that make drives its members.
//!
//! Sizes, positions and contents are those that mdadm 4.2 and Linux 6.1 would choose, with two differences: a new RAID 4 or 5 is
//! resynced with all members in place, where mdadm rebuilds the last one as a spare; and the first 4 KiB of a drive are zeroed,
//! while mdadm leaves the old content there.

mod refusals;

pub use self::refusals::CreateError;

use super::bitmap::{Bitmap, choose_chunk_bytes, space_sectors};
use super::checksums::{self, region_of};
use super::log::{LogSpace, Session, encode_head};
use super::shape::numbers_of;
use super::superblock::{CLEAN, Header, MAGIC, ROLES_MAX, Role, SUPERBLOCK_BYTES, Superblock, feature};
use crate::detect::WINDOW_SECTORS;
use std::ops::Range;
use stria_array::address::{Sectors, on_drive};
use stria_array::{ArraySector, DriveSector, Geometry, Layout, Level, MemberSector};
use stria_block::is_plain;
use stria_integrity::Region;

/// A drive to become a member.
#[derive(Clone, Debug)]
pub struct CreateMember {
    /// The name that messages use.
    pub name: String,
    /// The drive's size.
    pub size_sectors: u64,
    /// The drive's logical block: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The member's identity, random.
    pub device_uuid: [u8; 16],
}

/// The choice of a write-intent bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitmapChoice {
    /// No.
    #[default]
    None,
    /// On every member; `chunk_bytes`: the bytes that one bit covers, `None`: 64 MiB or as many as the space demands.
    Internal {
        /// Bytes of the sync space for each bit.
        chunk_bytes: Option<u32>,
    },
}

/// The choice of a write log for parity levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogChoice {
    /// Where the space between metadata and data suffices.
    #[default]
    Auto,
    /// No: a crash together with a lost member may harm data that was not being written.
    None,
}

/// An array to make.
#[derive(Clone, Debug)]
pub struct Create {
    /// The array's name, without host.
    pub name: String,
    /// Put before the name, `host:name`, if there is space: the machine that owns the array.
    pub homehost: Option<String>,
    /// The array's identity, random.
    pub uuid: [u8; 16],
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// The strip; ignored for RAID 1.
    pub strip_sectors: u64,
    /// The members, by slot; `None`: missing from the start.
    pub members: Vec<Option<CreateMember>>,
    /// Drives that wait for a slot.
    pub spares: Vec<CreateMember>,
    /// The first sector of data on the drives; `None`: as mdadm chooses.
    pub data_offset_sectors: Option<u64>,
    /// Use no more than this of each member (redundant levels).
    pub member_sectors_max: Option<u64>,
    /// The bitmap.
    pub bitmap: BitmapChoice,
    /// The write log.
    pub log: LogChoice,
    /// Keep checksums of the members' data behind it.
    pub checksums: bool,
    /// Redundancy is consistent already, or it does not matter: no first resync.
    pub assume_clean: bool,
    /// The array of which this one is to be a span.
    pub span_of: Option<[u8; 16]>,
    /// Now.
    pub unix_seconds: u64,
}

/// Some bytes for one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateWrite {
    /// Index of the drive among the members (the missing ones counted), then the spares.
    pub drive: usize,
    /// Its first sector.
    pub start_sector: DriveSector,
    /// Whole 4 KiB blocks.
    pub bytes: Vec<u8>,
}

/// Sectors of one drive that are to be zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateZeros {
    /// As in [`CreateWrite`].
    pub drive: usize,
    /// The sectors; whole 4 KiB blocks wherever the drive has some.
    pub sectors: Range<DriveSector>,
}

/// A new array, as data.
#[derive(Clone, Debug)]
pub struct Creation {
    /// Its geometry.
    pub geometry: Geometry,
    /// The superblocks, by drive; `None`: missing.
    pub superblocks: Vec<Option<Superblock>>,
    /// Sectors to zero, durably, before anything is written, so that the array's first and last MiB are zeros: old data may show
    /// there as a superblock, a partition table or a file system. None with [`Create::assume_clean`].
    pub zeros: Vec<CreateZeros>,
    /// The writes, in this order; all of them must be durable before the array is used.
    pub writes: Vec<CreateWrite>,
}

/// The first sector of data on the members, by the size of the first: space for the bitmap, and 0.1 % (at most 128 MiB) to
/// reshape into, in whole MiB.
pub fn data_offset_sectors(drive_sectors: u64, strip_sectors: u64) -> u64 {
    let mut headroom = 128 << 11;
    while headroom << 10 > drive_sectors && (strip_sectors == 0 || headroom / 2 >= strip_sectors * 2) {
        headroom >>= 1;
        if headroom == 0 {
            break;
        }
    }
    (24 + space_sectors(drive_sectors) + headroom).next_multiple_of(2048)
}

/// A name as a superblock has it.
///
/// # Errors
/// It is no valid name.
pub fn name_bytes(name: &str) -> Result<[u8; 32], CreateError> {
    if name.is_empty() || name.len() > 31 || name.contains(['\0', '/']) || !is_plain(name) {
        return Err(CreateError::Name { name: name.to_owned() });
    }
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

impl Create {
    /// Plans the array: its superblocks, and the bytes to write.
    ///
    /// # Errors
    /// The reason; nothing was changed.
    pub fn plan(&self) -> Result<Creation, CreateError> {
        let redundant = self.level.is_redundant();
        let strip_sectors = if self.level == Level::Raid1 { 0 } else { self.strip_sectors };
        let first = self.first_drive()?;
        let set_name = self.set_name()?;
        let data_offset = self.data_offset_sectors.unwrap_or_else(|| data_offset_sectors(first.size_sectors, strip_sectors));
        let spaces = self.spaces(data_offset)?;
        let (geometry, size) = self.geometry(strip_sectors, spaces)?;
        let bitmap = self.new_bitmap(size, &geometry)?;
        let missing = self.members.iter().filter(|member| member.is_none()).count();
        if missing > geometry.losses_survived() {
            let (level, survives) = (self.level, geometry.losses_survived());
            return Err(CreateError::TooManyMissing { missing_count: missing, level, survives });
        }
        // The data of as many missing members as there are parities is computed from the rest, which is therefore consistent with
        // them. If fewer are missing, the last ones that are there are rebuilt.
        let parities = self.level.parity_count();
        let clean = self.assume_clean || !redundant || (missing > 0 && parities > 0);
        let to_rebuild = if self.assume_clean || missing == 0 { 0 } else { parities.saturating_sub(missing) };
        let there = (0..self.members.len()).rev().filter(|&slot| self.members[slot].is_some());
        let rebuilt: Vec<usize> = there.take(to_rebuild).collect();
        let mut template = self.template(set_name, data_offset, if redundant { size } else { 0 }, clean, bitmap.as_ref());
        // Kernels before 5.4 refuse the layout bit; among equal members it says nothing.
        if (1..geometry.slot_count()).all(|slot| geometry.member_sectors(slot) == geometry.member_sectors(0)) {
            template.header.feature_map &= !feature::RAID0_LAYOUT;
        }

        let drives = self.members.iter().map(Option::as_ref).chain(self.spares.iter().map(Some));
        let zeros = if self.assume_clean { Vec::new() } else { self.zeros(&geometry, data_offset) };
        let mut creation = Creation { geometry, superblocks: Vec::new(), zeros, writes: Vec::new() };
        for (index, drive) in drives.enumerate() {
            let Some(drive) = drive else {
                creation.superblocks.push(None);
                continue;
            };
            let mut superblock = template.clone();
            superblock.header.dev_number = index as u32;
            superblock.header.device_uuid = drive.device_uuid;
            superblock.header.data_size = self.data_sectors_within(drive.size_sectors - data_offset);
            if rebuilt.contains(&index) {
                superblock.header.feature_map |= feature::RECOVERY_OFFSET;
                superblock.header.recovery_offset = 0;
            }
            if self.log == LogChoice::None && self.level.parity_count() > 0 {
                let space = LogSpace::of(&superblock, bitmap.as_ref().map_or(0, Bitmap::size_sectors));
                let location = space.and_then(|space| space.cut(1));
                creation.writes.extend(location.map(|location| CreateWrite {
                    drive: index,
                    start_sector: location.head_start,
                    bytes: encode_head(&superblock, &location, &Session::default(), true, 0),
                }));
            }
            if self.checksums {
                let start_sector = DriveSector::new(region_of(&superblock).header_sector(0));
                creation.writes.push(CreateWrite { drive: index, start_sector, bytes: checksums::new_region(&superblock) });
            }
            creation.writes.extend(member_writes(index, &superblock, bitmap.as_ref()));
            creation.superblocks.push(Some(superblock));
        }
        Ok(creation)
    }

    /// The first drive that is there, once the numbers of members and spares suit the level.
    fn first_drive(&self) -> Result<&CreateMember, CreateError> {
        let count = self.members.len() + self.spares.len();
        if count > ROLES_MAX {
            return Err(CreateError::TooManyDrives { count });
        }
        let first = self.members.iter().flatten().next().ok_or(CreateError::AllMissing)?;
        if !self.level.is_redundant() && (self.members.iter().any(Option::is_none) || !self.spares.is_empty()) {
            return Err(CreateError::NoRedundancy { level: self.level });
        }
        Ok(first)
    }

    /// The sectors of each drive for data.
    fn spaces(&self, data_offset: u64) -> Result<Vec<u64>, CreateError> {
        let mut spaces = Vec::new();
        for drive in self.members.iter().flatten().chain(&self.spares) {
            match drive.size_sectors.checked_sub(data_offset).map(|space| self.data_sectors_within(space)) {
                // mdadm counts in KiB.
                Some(space) if space >= 16 => spaces.push(if self.level.is_redundant() { space & !1 } else { space }),
                _ => {
                    return Err(CreateError::DriveTooSmall {
                        drive: drive.name.clone(),
                        metadata_bytes: data_offset.saturating_mul(512),
                        drive_bytes: drive.size_sectors.saturating_mul(512),
                    });
                }
            }
        }
        Ok(spaces)
    }

    /// The places of data, and how much of each member is used. `spaces`: the sectors of each drive for data.
    fn geometry(&self, strip_sectors: u64, spaces: Vec<u64>) -> Result<(Geometry, u64), CreateError> {
        let size = self.used_sectors(strip_sectors, &spaces)?;
        let sizes: Vec<u64> = if self.level.is_redundant() { vec![size; self.members.len()] } else { spaces };
        let mut geometry = Geometry::new(self.level, self.layout, strip_sectors, &sizes)?;
        let mut size = size;
        if let Layout::Copies(copies) = self.layout {
            // Linux gives back the strips at the end of a RAID 10's members that no whole row fills.
            let strips = geometry.capacity_sectors() / strip_sectors * copies.count() as u64;
            size = strips.div_ceil(self.members.len() as u64) * strip_sectors;
            geometry = Geometry::new(self.level, self.layout, strip_sectors, &vec![size; self.members.len()])?;
        }
        Ok((geometry, size))
    }

    fn new_bitmap(&self, size: u64, geometry: &Geometry) -> Result<Option<Bitmap>, CreateError> {
        match self.bitmap {
            BitmapChoice::None => Ok(None),
            BitmapChoice::Internal { .. } if !self.level.is_redundant() => Err(CreateError::NoUseForBitmap { level: self.level }),
            BitmapChoice::Internal { chunk_bytes } => {
                let chunk_bytes = choose_chunk_bytes(chunk_bytes, size, geometry.sync_sectors())?;
                Ok(Some(Bitmap::new(self.uuid, geometry.sync_sectors(), chunk_bytes)))
            }
        }
    }

    /// The positions of the array's two ends, where probes look for signatures.
    fn zeros(&self, geometry: &Geometry, data_offset: u64) -> Vec<CreateZeros> {
        let capacity = geometry.capacity_sectors();
        let ends = [0..capacity.min(WINDOW_SECTORS), capacity.saturating_sub(WINDOW_SECTORS)..capacity];
        let mut zeros = Vec::new();
        let ends = ends.map(ArraySector::span);
        for (drive, run) in ends.into_iter().flat_map(|end| geometry.footprint(end).into_iter().enumerate()) {
            let end = MemberSector::new(geometry.member_sectors(drive));
            let whole = |run: Range<MemberSector>| {
                let blocks = run.in_blocks(8);
                blocks.start..blocks.end.min(end)
            };
            let zero = |run| CreateZeros { drive, sectors: on_drive(&whole(run), DriveSector::new(data_offset)) };
            zeros.extend(run.into_iter().filter(|_| self.members[drive].is_some()).map(zero));
        }
        zeros
    }

    /// The part of the space behind metadata that is for data.
    fn data_sectors_within(&self, space: u64) -> u64 {
        if self.checksums { Region::data_sectors_within(space) } else { space }
    }

    fn set_name(&self) -> Result<[u8; 32], CreateError> {
        let name = match &self.homehost {
            Some(host) if !self.name.contains(':') && host.len() + 1 + self.name.len() < 32 => {
                format!("{host}:{}", self.name)
            }
            _ => self.name.clone(),
        };
        name_bytes(&name)
    }

    /// The sectors used of each member of a redundant array: the smallest space, or the limit asked for.
    fn used_sectors(&self, strip_sectors: u64, spaces: &[u64]) -> Result<u64, CreateError> {
        let unit = if self.level == Level::Raid1 { 128 } else { strip_sectors.max(2) };
        let smallest = spaces.iter().copied().min().unwrap_or(0);
        if let Some(limit) = self.member_sectors_max.filter(|&limit| limit > smallest) {
            return Err(CreateError::SizeTooLarge {
                asked_bytes: limit.saturating_mul(512),
                excess_bytes: (limit - smallest).saturating_mul(512),
            });
        }
        let size = self.member_sectors_max.unwrap_or(smallest);
        if let Some(limit) = self.member_sectors_max.filter(|&limit| limit < unit) {
            return Err(CreateError::SizeBelowStrip { asked_bytes: limit.saturating_mul(512), strip_bytes: unit * 512 });
        }
        Ok(size / unit * unit)
    }

    fn template(&self, set_name: [u8; 32], data_offset: u64, size: u64, clean: bool, bitmap: Option<&Bitmap>) -> Superblock {
        let numbers = numbers_of(self.level, self.layout);
        let count = self.members.len() + self.spares.len();
        let role_count = ((Header::SIZE_BYTES + 2 * count).next_multiple_of(512) - Header::SIZE_BYTES) / 2;
        let mut roles = vec![Role::Spare; role_count];
        for (slot, member) in self.members.iter().enumerate() {
            if member.is_some() {
                roles[slot] = Role::Slot(slot as u16);
            }
        }
        // Bitmap, or the space left for one, follows the superblock; the bad-block log follows that.
        let bitmap_sectors = bitmap.map_or(space_sectors(size), |bitmap| bitmap.size_sectors().next_multiple_of(8));
        let bblog_offset = if data_offset >= 8 + 8 + bitmap_sectors + 8 { 8 + bitmap_sectors } else { data_offset - 16 };
        let header = Header {
            magic: MAGIC,
            major_version: 1,
            feature_map: numbers.features | if bitmap.is_some() { feature::BITMAP_OFFSET } else { 0 },
            pad0: 0,
            set_uuid: self.uuid,
            set_name,
            ctime: self.unix_seconds,
            level: numbers.level,
            layout: numbers.layout,
            size,
            chunksize: if self.level == Level::Raid1 { 0 } else { self.strip_sectors as u32 },
            raid_disks: self.members.len() as u32,
            bitmap_offset: if bitmap.is_some() { 8 } else { 0 },
            new_level: 0,
            reshape_position: 0,
            delta_disks: 0,
            new_layout: 0,
            new_chunk: 0,
            new_offset: 0,
            data_offset,
            data_size: 0,
            super_offset: 8,
            recovery_offset: 0,
            dev_number: 0,
            cnt_corrected_read: 0,
            device_uuid: [0; 16],
            devflags: 0,
            bblog_shift: 0,
            bblog_size: 8,
            bblog_offset: bblog_offset as i32,
            utime: self.unix_seconds | if self.checksums { checksums::WITNESSED << 40 } else { 0 },
            events: 0,
            resync_offset: if clean { CLEAN } else { 0 },
            sb_csum: 0,
            max_dev: role_count as u32,
            logical_block_size: 0,
            pad3: [0; 28],
        };
        Superblock { header, roles, span_of: self.span_of }
    }
}

/// 1 MiB: the part of a drive's start that is zeroed in one write. Structures farther behind get writes of their own, so that a
/// superblock with far positions costs no memory.
const HEAD_SECTORS_MAX: u64 = 2048;

/// The writes that make a drive a member: zeros where older signatures may lie, then bitmap, and the superblock last.
pub(crate) fn member_writes(drive: usize, superblock: &Superblock, bitmap: Option<&Bitmap>) -> Vec<CreateWrite> {
    let header = &superblock.header;
    let super_start = header.super_offset;
    let sector = |offset: i32| superblock.sector_at(offset).get();
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    if header.bblog_offset != 0 {
        parts.push((sector(header.bblog_offset), vec![0; usize::from(header.bblog_size) * 512]));
    }
    if let Some(bitmap) = bitmap {
        let mut bytes = bitmap.encode();
        let start = sector(header.bitmap_offset);
        let space = superblock.bitmap_space_sectors(None).min(bytes.len() as u64 / 512);
        bytes.truncate((space * 512) as usize);
        parts.push((start, bytes));
    }
    let ends = parts.iter().map(|(start, bytes)| start + bytes.len() as u64 / 512).filter(|end| *end <= HEAD_SECTORS_MAX);
    let head_end = ends.max().unwrap_or(0).max(super_start + 8).next_multiple_of(8).min(header.data_offset);
    let mut head = vec![0; (head_end * 512) as usize];
    let mut writes = Vec::new();
    for (start_sector, bytes) in parts {
        match head.get_mut((start_sector * 512) as usize..(start_sector * 512) as usize + bytes.len()) {
            Some(within) => within.copy_from_slice(&bytes),
            None => writes.push(CreateWrite { drive, start_sector: DriveSector::new(start_sector), bytes }),
        }
    }
    writes.insert(0, CreateWrite { drive, start_sector: DriveSector::ZERO, bytes: head });
    let mut block = superblock.encode();
    block.resize(SUPERBLOCK_BYTES.min((header.data_offset - super_start) as usize * 512), 0);
    writes.push(CreateWrite { drive, start_sector: superblock.start_sector(), bytes: block });
    writes
}
