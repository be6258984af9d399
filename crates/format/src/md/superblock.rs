//! The md superblock, version 1: a member's own record of its array.
//!
//! 256 bytes, then one 16-bit role per device number the array ever had; 4 KiB are reserved. It is 4 KiB into the member (1.2),
//! at its start (1.1) or at its end (1.0); only the position differs. [`Superblock::parse`] accepts every undamaged superblock,
//! so that it can be shown; [`Superblock::servable`] refuses an array of which Stria would have to ignore something.
//!
//! Source: `md_p.h` of Linux and mdadm (`struct mdp_superblock_1`), mdadm's `super1.c`, and the
//! kernel's `super_1_load`. Invariant: `encode` of what `parse` returned gives the same bytes.

use super::span::{self, Mark};
use crate::fields::on_disk;
use std::fmt;
use std::ops::Range;
use stria_array::{DriveSector, Synced};
use stria_block::SECTORS_MAX;
use thiserror::Error;

/// First four bytes of every md superblock.
pub const MAGIC: u32 = 0xa92b_4efc;

/// 1920: the roles that fit into the 4 KiB reserved for a superblock.
pub const ROLES_MAX: usize = (SUPERBLOCK_BYTES - Header::SIZE_BYTES) / 2;

/// 128: the roles of a superblock that fits into one sector, so that no power cut tears it.
pub(crate) const ROLES_IN_SECTOR: u32 = (512 - Header::SIZE_BYTES as u32) / 2;

/// The space of a superblock, and the size of the read to parse one.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// The offset of the mark of a span in the superblock.
pub(crate) const MARK_PLACE: usize = SUPERBLOCK_BYTES - Mark::SIZE_BYTES;

/// `resync_offset` of an array that is consistent everywhere.
pub const CLEAN: u64 = u64::MAX;

/// In `devflags`: Linux reads the member only where no other has the data.
pub const WRITE_MOSTLY: u8 = 1;

/// The meaning of a resync or recovery offset (md_p.h: `MaxSector` is the end).
pub(crate) fn synced<S>(offset: u64) -> Synced<S> {
    if offset == CLEAN { Synced::All } else { Synced::up_to(offset) }
}

/// The offset that says this.
pub(crate) fn offset_of<S>(synced: Synced<S>) -> u64 {
    match synced {
        Synced::UpTo(sector) => sector.get(),
        Synced::All => CLEAN,
    }
}

/// 2^40: an array that updates superblocks every millisecond needs 35 years for as many. A larger count is forged, and refused,
/// so that adding to a count cannot wrap.
pub const EVENTS_MAX: u64 = 1 << 40;

/// Bits of `feature_map`.
pub mod feature {
    /// `bitmap_offset` names an internal write-intent bitmap.
    pub const BITMAP_OFFSET: u32 = 0x1;
    /// `recovery_offset` says how far this member has been rebuilt.
    pub const RECOVERY_OFFSET: u32 = 0x2;
    /// A reshape is in progress.
    pub const RESHAPE_ACTIVE: u32 = 0x4;
    /// The bad-block log is not empty.
    pub const BAD_BLOCKS: u32 = 0x8;
    /// This member replaces the one with the same role.
    pub const REPLACEMENT: u32 = 0x10;
    /// The reshape runs from the end to the start.
    pub const RESHAPE_BACKWARDS: u32 = 0x20;
    /// `new_offset` is where data will start after the reshape.
    pub const NEW_OFFSET: u32 = 0x40;
    /// The rebuild copies only what the bitmap names.
    pub const RECOVERY_BITMAP: u32 = 0x80;
    /// The array is shared by a cluster.
    pub const CLUSTERED: u32 = 0x100;
    /// The array has a journal device.
    pub const JOURNAL: u32 = 0x200;
    /// The member carries a partial parity log.
    pub const PPL: u32 = 0x400;
    /// The partial parity log is a ring of several.
    pub const MULTIPLE_PPLS: u32 = 0x800;
    /// `layout` of a RAID 0 says how unequal members are striped.
    pub const RAID0_LAYOUT: u32 = 0x1000;

    /// Every bit above, by name.
    pub const NAMES: &[(u32, &str)] = &[
        (BITMAP_OFFSET, "bitmap"),
        (RECOVERY_OFFSET, "recovery offset"),
        (RESHAPE_ACTIVE, "reshape"),
        (BAD_BLOCKS, "bad blocks"),
        (REPLACEMENT, "replacement"),
        (RESHAPE_BACKWARDS, "reshape backwards"),
        (NEW_OFFSET, "new offset"),
        (RECOVERY_BITMAP, "recovery by bitmap"),
        (CLUSTERED, "clustered"),
        (JOURNAL, "journal"),
        (PPL, "partial parity log"),
        (MULTIPLE_PPLS, "multiple partial parity logs"),
        (RAID0_LAYOUT, "RAID 0 layout"),
    ];

    /// The names of the bits set in `map`; unknown bits as a number.
    pub fn names(map: u32) -> String {
        let known = NAMES.iter().filter(|(bit, _)| map & bit != 0).map(|&(_, name)| name.to_owned());
        let unknown = map & !NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        let unknown = (unknown != 0).then(|| format!("unknown 0x{unknown:x}"));
        let names = known.chain(unknown).collect::<Vec<_>>();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

on_disk! {
    /// The fixed part of the superblock. Sizes and places are in 512-byte sectors.
    pub struct Header[256] {
        /// [`MAGIC`].
        0x00 magic: u32,
        /// 1.
        0x04 major_version: u32,
        /// See [`feature`].
        0x08 feature_map: u32,
        /// Zero.
        0x0c pad0: u32,
        /// The array's identity.
        0x10 set_uuid: [u8; 16],
        /// The array's name, `host:name` or `name`, padded with zeros.
        0x20 set_name: [u8; 32],
        /// Creation: seconds since 1970 in the low 40 bits, microseconds above.
        0x40 ctime: u64,
        /// -4 multipath, -1 linear, 0, 1, 4, 5, 6, 10.
        0x48 level: i32,
        /// The level's own number of its layout.
        0x4c layout: u32,
        /// Used size of each member; 0 for levels that use all of it.
        0x50 size: u64,
        /// Strip size.
        0x58 chunksize: u32,
        /// Number of slots.
        0x5c raid_disks: u32,
        /// The start of the bitmap, from the superblock. (With PPL: its offset and size, 16 bits each.)
        0x60 bitmap_offset: i32,
        /// Reshape: level to be.
        0x64 new_level: u32,
        /// Reshape: how far.
        0x68 reshape_position: u64,
        /// Reshape: slots to be added.
        0x70 delta_disks: u32,
        /// Reshape: layout to be.
        0x74 new_layout: u32,
        /// Reshape: strip size to be.
        0x78 new_chunk: u32,
        /// Reshape: where data will start, from `data_offset`.
        0x7c new_offset: i32,
        /// The start of data on this member.
        0x80 data_offset: u64,
        /// Space for data on this member.
        0x88 data_size: u64,
        /// The position of this superblock.
        0x90 super_offset: u64,
        /// The recovery offset: this member has been rebuilt up to there. (On a journal: where it starts.)
        0x98 recovery_offset: u64,
        /// This member's own number: an index into the roles.
        0xa0 dev_number: u32,
        /// Read errors corrected on this member.
        0xa4 cnt_corrected_read: u32,
        /// This member's identity; never changes.
        0xa8 device_uuid: [u8; 16],
        /// 1: write-mostly, 2: failfast.
        0xb8 devflags: u8,
        /// log2 of the sectors in a unit of the bad-block log.
        0xb9 bblog_shift: u8,
        /// Space for the bad-block log.
        0xba bblog_size: u16,
        /// The start of the bad-block log, from the superblock; 0: none.
        0xbc bblog_offset: i32,
        /// Last update, as `ctime`.
        0xc0 utime: u64,
        /// Counts updates; the superblock with the most decides (R27).
        0xc8 events: u64,
        /// Redundancy is consistent before this sector; [`CLEAN`]: everywhere.
        0xd0 resync_offset: u64,
        /// Checksum over the header and the roles.
        0xd8 sb_csum: u32,
        /// Number of roles.
        0xdc max_dev: u32,
        /// The array's logical block size in bytes, set by Linux 6.19 and later; 0: the members' own.
        0xe0 logical_block_size: u32,
        /// Zero.
        0xe4 pad3: [u8; 28],
    }
}

/// The role of a device number according to a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Fills this slot.
    Slot(u16),
    /// 0xfffd: holds the array's journal.
    Journal,
    /// 0xfffe: failed, or unknown to the array.
    Faulty,
    /// 0xffff: waits for a role, or no such device.
    Spare,
}

impl Role {
    /// From the number on disk.
    pub fn from_number(number: u16) -> Self {
        match number {
            0xffff => Role::Spare,
            0xfffe => Role::Faulty,
            0xfffd => Role::Journal,
            slot => Role::Slot(slot),
        }
    }

    /// The number on disk.
    pub fn number(self) -> u16 {
        match self {
            Role::Spare => 0xffff,
            Role::Faulty => 0xfffe,
            Role::Journal => 0xfffd,
            Role::Slot(slot) => slot,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Slot(slot) => write!(f, "slot {slot}"),
            Role::Journal => write!(f, "journal"),
            Role::Faulty => write!(f, "faulty"),
            Role::Spare => write!(f, "spare"),
        }
    }
}

/// The reason why bytes are no superblock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SuperblockError {
    /// The magic number is not there.
    #[error("it has no md superblock of version 1")]
    Absent,
    /// The sectors of its superblock cannot be read.
    #[error("its superblock cannot be read: {0}")]
    Unreadable(String),
    /// The superblock is damaged.
    #[error("the md superblock is damaged: {0}")]
    Damaged(String),
}

/// An undamaged superblock of version 1: its checksum is right and its positions are within the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The fixed part. `max_dev` and `sb_csum` are set by [`Superblock::encode`].
    pub header: Header,
    /// The role of every device number.
    pub roles: Vec<Role>,
    /// The array of which this one is a span, by Stria's mark behind the roles; `None`: it has no mark.
    pub span_of: Option<[u8; 16]>,
}

impl Superblock {
    /// The minor version that lies at `sector` of a member of `member_sectors`, by place alone.
    fn minor_version_at(sector: u64) -> u8 {
        match sector {
            0 => 1,
            8 => 2,
            _ => 0,
        }
    }

    /// The position of a superblock of version 1.`minor` on a member; `None`: the member is too small for md.
    pub fn sector_of(minor: u8, member_sectors: u64) -> Option<u64> {
        if member_sectors < 24 {
            return None;
        }
        match minor {
            0 => Some((member_sectors - 16) & !7),
            1 => Some(0),
            2 => Some(8),
            _ => None,
        }
    }

    /// 0, 1 or 2: the position of the superblock.
    pub fn minor_version(&self) -> u8 {
        Self::minor_version_at(self.header.super_offset)
    }

    /// Reads the superblock that was found at `sector` of a member of `member_sectors`.
    ///
    /// # Errors
    /// [`SuperblockError::Absent`] without magic; [`SuperblockError::Damaged`] when anything in it
    /// contradicts itself or the member.
    pub fn parse(bytes: &[u8], sector: u64, member_sectors: u64) -> Result<Self, SuperblockError> {
        let damaged = |what: String| Err(SuperblockError::Damaged(what));
        let Some(Ok(head)) = bytes.get(..Header::SIZE_BYTES).map(<&[u8; 256]>::try_from) else {
            return Err(SuperblockError::Absent);
        };
        let header = Header::read(head);
        if header.magic != MAGIC || header.major_version != 1 {
            return Err(SuperblockError::Absent);
        }
        let max_dev = header.max_dev as usize;
        if max_dev > ROLES_MAX {
            return damaged(format!("it names {max_dev} devices, {ROLES_MAX} are possible"));
        }
        let Some(body) = bytes.get(..Header::SIZE_BYTES + 2 * max_dev) else {
            return damaged(format!("it is cut off within its {max_dev} roles"));
        };
        let expected = checksum(body);
        if header.sb_csum != expected {
            return damaged(format!("checksum 0x{:08x}, expected 0x{expected:08x}", header.sb_csum));
        }
        if header.super_offset != sector {
            return damaged(format!(
                "it lies at sector {sector} but was written for sector {} (a copy of another place)",
                header.super_offset
            ));
        }
        let roles = body[Header::SIZE_BYTES..]
            .chunks_exact(2)
            .map(|role| Role::from_number(u16::from_le_bytes([role[0], role[1]])))
            .collect();
        let mut superblock = Self { header, roles, span_of: None };
        superblock.span_of = superblock.mark(bytes).and_then(|mark| span::find(mark, superblock.header.set_uuid));
        match superblock.contradiction(member_sectors) {
            Some(what) => damaged(what),
            None => Ok(superblock),
        }
    }

    /// The first contradiction in it, or with a member of this size.
    pub(crate) fn contradiction(&self, member_sectors: u64) -> Option<String> {
        let header = &self.header;
        let member_sectors = member_sectors.min(SECTORS_MAX);
        if header.events > EVENTS_MAX {
            return Some(format!(
                "it counts {} superblock updates, more than any array makes ({EVENTS_MAX} at most)",
                header.events
            ));
        }
        if header.size > SECTORS_MAX {
            return Some(format!("it uses {} sectors of each member, more than any drive has", header.size));
        }
        let used = if self.role() == Role::Journal { 0 } else { header.size };
        let end = header.data_offset.checked_add(header.data_size.max(used));
        let data_end_max = if self.minor_version() == 0 { header.super_offset } else { member_sectors };
        if end.is_none_or(|end| end > data_end_max) {
            return Some(format!(
                "its data ends at sector {}, beyond the end of the member ({member_sectors} sectors): \
                 the drive shrank, is a truncated copy, or is another drive",
                end.unwrap_or(u64::MAX)
            ));
        }
        if header.data_size < 10 {
            return Some(format!("it leaves {} sectors for data, which is less than any member has", header.data_size));
        }
        if self.minor_version() != 0 && header.data_offset < header.super_offset + self.size_sectors() {
            return Some(format!("its data starts at sector {}, within the superblock", header.data_offset));
        }
        let free = |offset: i32, sectors: u64| {
            let start = header.super_offset.checked_add_signed(i64::from(offset));
            let Some((start, end)) = start.and_then(|start| Some((start, start.checked_add(sectors)?))) else {
                return false;
            };
            let data_end = header.data_offset + header.data_size.max(used);
            let super_end = header.super_offset + self.size_sectors();
            end <= member_sectors
                && (end <= header.data_offset || start >= data_end)
                && (end <= header.super_offset || start >= super_end)
        };
        if self.has(feature::BITMAP_OFFSET) && !free(header.bitmap_offset, 1) {
            return Some(format!("its bitmap, {} sectors from it, lies outside the free space", header.bitmap_offset));
        }
        if let Some((offset, size)) = self.ppl()
            && !free(offset.into(), size.into())
        {
            return Some(format!("its partial parity log, {offset} sectors from it, lies outside the free space"));
        }
        if header.bblog_offset != 0 && !free(header.bblog_offset, u64::from(header.bblog_size)) {
            return Some(format!("its bad-block log, {} sectors from it, lies outside the free space", header.bblog_offset));
        }
        if header.raid_disks as usize > ROLES_MAX {
            return Some(format!("it names {} slots", header.raid_disks));
        }
        None
    }

    /// The numbers of an array's shape, the same on all its members.
    pub(crate) fn shape(&self) -> impl PartialEq + use<> {
        let header = &self.header;
        (header.ctime, header.level, header.layout, header.chunksize, header.raid_disks, header.size)
    }

    /// True if any of these feature bits is set.
    pub fn has(&self, features: u32) -> bool {
        self.header.feature_map & features != 0
    }

    /// The position of the partial parity log: sectors from the superblock, and its length.
    pub fn ppl(&self) -> Option<(i16, u16)> {
        let both = self.header.bitmap_offset;
        self.has(feature::PPL | feature::MULTIPLE_PPLS).then_some((both as i16, (both >> 16) as u16))
    }

    /// Takes over the last update of the array from another member's superblock, and its name: the array may have been renamed
    /// without this member.
    pub(crate) fn follow(&mut self, other: &Superblock) {
        let (header, truth) = (&mut self.header, &other.header);
        (header.events, header.utime, header.resync_offset) = (truth.events, truth.utime, truth.resync_offset);
        header.set_name = truth.set_name;
        self.roles.clone_from(&other.roles);
    }

    /// First sector of the superblock.
    pub fn start_sector(&self) -> DriveSector {
        DriveSector::new(self.header.super_offset)
    }

    /// The sector at a distance from the superblock: it names the bitmap and the logs by theirs, which may be negative.
    pub fn sector_at(&self, offset: i32) -> DriveSector {
        DriveSector::new(self.header.super_offset.saturating_add_signed(i64::from(offset)))
    }

    /// The data area.
    pub fn data(&self) -> Range<DriveSector> {
        DriveSector::new(self.header.data_offset).run(self.header.data_size)
    }

    /// First sectors of the other structures on the member, and its end.
    fn neighbours(&self, drive_sectors: Option<u64>) -> impl Iterator<Item = u64> {
        let header = &self.header;
        let place = |offset: i32| self.sector_at(offset).get();
        let bitmap = self.has(feature::BITMAP_OFFSET).then(|| place(header.bitmap_offset));
        let ppl = self.ppl().map(|(offset, _)| place(offset.into()));
        let bad_blocks = (header.bblog_offset != 0).then(|| place(header.bblog_offset));
        [Some(header.super_offset), Some(header.data_offset), bitmap, ppl, bad_blocks, drive_sectors].into_iter().flatten()
    }

    /// The distance from a sector to the next thing behind it. `None`: the drive's size does not matter.
    fn space_from(&self, sector: u64, drive_sectors: Option<u64>) -> u64 {
        self.neighbours(drive_sectors).filter(|&next| next > sector).min().unwrap_or(sector) - sector
    }

    /// The space for the bitmap where it lies.
    pub(crate) fn bitmap_space_sectors(&self, drive_sectors: Option<u64>) -> u64 {
        self.space_from(self.sector_at(self.header.bitmap_offset).get(), drive_sectors)
    }

    /// The number of roles that the superblock has space for, up to the next thing behind it.
    pub(crate) fn roles_max(&self) -> usize {
        let space = self.space_from(self.header.super_offset, None).min(SUPERBLOCK_BYTES as u64 / 512) as usize * 512;
        (space.saturating_sub(Header::SIZE_BYTES) / 2).max(self.roles.len())
    }

    /// The bytes of the mark of a span, if there is space for one.
    fn mark<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8; Mark::SIZE_BYTES]> {
        let mark = bytes.get(MARK_PLACE..)?.first_chunk()?;
        self.has_space_for_mark().then_some(mark)
    }

    /// Whether all of the 4 KiB are the superblock's, and the roles end before the mark. Early versions of md laid bitmaps there,
    /// and data.
    fn has_space_for_mark(&self) -> bool {
        let header = &self.header;
        let behind = 1..SUPERBLOCK_BYTES as i32 / 512;
        let bitmap = self.has(feature::BITMAP_OFFSET) && behind.contains(&header.bitmap_offset);
        let ppl = self.ppl().is_some_and(|(offset, _)| behind.contains(&offset.into()));
        let bad_blocks = behind.contains(&header.bblog_offset);
        let page_end = header.super_offset + SUPERBLOCK_BYTES as u64 / 512;
        let data = header.super_offset < header.data_offset && header.data_offset < page_end;
        let roles_end = Header::SIZE_BYTES + 2 * self.roles.len();
        !(bitmap || ppl || bad_blocks || data) && roles_end <= MARK_PLACE
    }

    /// True if the member holds a slot, and is neither being filled nor a replacement.
    pub(crate) fn is_in_sync(&self) -> bool {
        matches!(self.role(), Role::Slot(_)) && !self.has(feature::RECOVERY_OFFSET | feature::REPLACEMENT)
    }

    /// This member's role according to its own superblock.
    pub fn role(&self) -> Role {
        self.roles.get(self.header.dev_number as usize).copied().unwrap_or(Role::Spare)
    }

    /// The array's name as text; what is not UTF-8 is replaced.
    pub fn name(&self) -> String {
        let name = &self.header.set_name;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    }

    /// Creation, in seconds since 1970.
    pub fn created_s(&self) -> u64 {
        self.header.ctime & 0xff_ffff_ffff
    }

    /// Last update, in seconds since 1970.
    pub fn updated_s(&self) -> u64 {
        self.header.utime & 0xff_ffff_ffff
    }

    /// Microseconds of the last update. Linux and mdadm leave them zero; Stria keeps a tag there while a write log counts.
    pub fn utime_micros(&self) -> u32 {
        (self.header.utime >> 40) as u32
    }

    /// True if redundancy was consistent everywhere when this was written.
    pub fn clean(&self) -> bool {
        self.header.resync_offset == CLEAN
    }

    /// Bytes of header and roles, rounded up to sectors: what md writes.
    pub fn size_sectors(&self) -> u64 {
        (Header::SIZE_BYTES + 2 * self.roles.len()).div_ceil(512) as u64
    }

    /// True if `other`, found on the same member, is at a position to which this array's clients write, so that they may have
    /// written it.
    pub(crate) fn exposes(&self, other: &Self) -> bool {
        let data = self.header.data_offset..self.header.data_offset.saturating_add(self.header.data_size);
        let place = other.header.super_offset..other.header.super_offset + other.size_sectors();
        data.start < place.end && place.start < data.end
    }

    /// The bytes to write at `super_offset`, whole sectors, with a fresh checksum; all 4 KiB where it has a mark.
    ///
    /// # Panics
    /// With more than [`ROLES_MAX`] roles.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.roles.len() <= ROLES_MAX, "a superblock holds {ROLES_MAX} roles");
        let header = Header { max_dev: self.roles.len() as u32, sb_csum: 0, ..self.header.clone() };
        let mut bytes = header.write().to_vec();
        bytes.extend(self.roles.iter().flat_map(|role| role.number().to_le_bytes()));
        let sum = checksum(&bytes);
        bytes[SUM_OFFSET..SUM_OFFSET + 4].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0xff);
        if let Some(upper_uuid) = self.span_of.filter(|_| self.has_space_for_mark()) {
            bytes.resize(MARK_PLACE, 0);
            bytes.extend(span::encode(header.set_uuid, upper_uuid));
        }
        bytes
    }
}

const SUM_OFFSET: usize = 0xd8;

/// The checksum in a superblock that was encoded.
pub(super) fn sum_of(encoded: &[u8]) -> u32 {
    u32::from_le_bytes(encoded[SUM_OFFSET..SUM_OFFSET + 4].try_into().expect("four bytes"))
}

/// The sum of header and roles as little-endian 32-bit words, the checksum itself taken as zero.
fn checksum(body: &[u8]) -> u32 {
    let mut sum = 0u64;
    for (index, word) in body.chunks(4).enumerate() {
        if index * 4 != SUM_OFFSET {
            sum += word.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        }
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// An identity as mdadm prints it: four groups of eight digits.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let group = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    uuid.chunks(4).map(group).collect::<Vec<_>>().join(":")
}
