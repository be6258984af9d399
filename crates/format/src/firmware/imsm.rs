//! Intel's format (IMSM, of Rapid Storage and VROC): one block of metadata at the end of each drive, the same on all drives of a
//! container.
//!
//! Numbers are little-endian. A drive finds itself in the list of drives by its serial number. Units are the drive's logical
//! blocks.
//!
//! Source: `super-intel.c` of mdadm (`struct imsm_super`, `imsm_disk`, `imsm_dev`, `imsm_vol`, `imsm_map`, `bbm_log`).

use super::reader::{Order, Reader};
use super::{FirmwareDrive, FirmwareError, Format, Slot, Unserved, Volume, sectors, text};
use crate::md::badblocks::BadBlockLog;
use crate::md::numbers_of;
use crate::read::Read;
use stria_array::{Layout, Level, ParityLayout};

pub(super) const NAME: &str = "IMSM";
const SIGNATURE: &[u8] = b"Intel Raid ISM Cfg Sig. ";
/// The length of the space for them (`MPB_SECTOR_CNT`).
const BYTES_MAX: usize = 2210 * 512;
/// Features that change nothing for a reader: levels, large strips, drives and volumes over 2 TB, bad blocks, the checksum.
const ATTRIBUTES: u32 = 0xec00_00d7;
const BAD_BLOCKS: u32 = 0xabad_b10c;

const DISKS: usize = 0xd8;
const DISK_BYTES: usize = 48;
/// In a volume: its state, and its first map.
const VOLUME: usize = 0x50;
const MAP: usize = 0x70;
/// In a map: the members.
const ORDER: usize = 0x30;

/// A drive's `status`, and the state of a map.
const FAILED: u32 = 4;
const UNINITIALIZED: u8 = 1;
/// In an entry of the members: it is being filled.
const REBUILDS: u32 = 1 << 24;
/// Kinds of migration.
const INITIALIZES: u8 = 0;
const REPAIRS: u8 = 5;
const RESHAPES: [u8; 2] = [3, 4];

/// `None`: the drive has no such metadata.
pub(super) fn volumes(drive: &FirmwareDrive, read: &mut Read) -> Result<Option<Vec<Volume>>, FirmwareError> {
    // Of a drive with blocks of 4 KiB also its image, whose blocks are smaller.
    for unit in [1, 8] {
        let Some(anchor) = drive.size_sectors.checked_sub(2 * unit) else { continue };
        let mut bytes = sectors(drive, anchor, unit, read)?;
        if !bytes.starts_with(SIGNATURE) {
            continue;
        }
        let length = block(&bytes).u32(0x24)? as usize;
        if !(DISKS..=BYTES_MAX).contains(&length) {
            return Err(damaged(format!("they are {length} bytes long")));
        }
        // What does not fit into the last block but one lies before it.
        let more = ((length as u64).div_ceil(512 * unit) - 1) * unit;
        if let Some(start) = anchor.checked_sub(more).filter(|_| more > 0) {
            bytes.extend(sectors(drive, start, more, read)?);
        }
        let block = block(bytes.get(..length).ok_or_else(|| damaged("they are cut off".into()))?);
        return volumes_of(&block, drive, unit).map(Some);
    }
    Ok(None)
}

fn damaged(what: String) -> FirmwareError {
    FirmwareError::Damaged(NAME, what)
}

/// The metadata of a container.
fn block(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, NAME, Order::Little, "they end")
}

/// A number in two halves.
fn halves(block: &Reader, low: usize, high: usize) -> Result<u64, FirmwareError> {
    Ok(u64::from(block.u32(low)?) | u64::from(block.u32(high)?) << 32)
}

/// The volumes of a container in which this drive is.
fn volumes_of(block: &Reader, drive: &FirmwareDrive, unit: u64) -> Result<Vec<Volume>, FirmwareError> {
    let words = block.bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    let sum = words.fold(0u32, u32::wrapping_add).wrapping_sub(block.u32(0x20)?);
    if sum != block.u32(0x20)? {
        return Err(damaged(format!("checksum 0x{:08x}, expected 0x{sum:08x}", block.u32(0x20)?)));
    }
    let unknown = block.u32(0x34)? & !ATTRIBUTES;
    if unknown != 0 {
        return Err(Unserved::Features { features: unknown }.into());
    }
    let (disk_count, volume_count) = (usize::from(block.u8(0x38)?), usize::from(block.u8(0x39)?));
    let own = own_disk(block, drive, disk_count)?;
    let mut volumes = Vec::new();
    let mut at = DISKS + DISK_BYTES * disk_count;
    for _ in 0..volume_count {
        let members = usize::from(block.u8(at + MAP + 0x10)?);
        let map_bytes = ORDER + 4 * members;
        let migrates = block.u8(at + VOLUME + 8)? != 0;
        volumes.extend(volume(block, drive, at, (own, disk_count), unit)?);
        let second = at + MAP + map_bytes;
        at = second + if migrates { ORDER + 4 * usize::from(block.u8(second + 0x10)?) } else { 0 };
    }
    Ok(volumes)
}

/// The number of this drive in the container.
fn own_disk(block: &Reader, drive: &FirmwareDrive, disk_count: usize) -> Result<usize, FirmwareError> {
    let mut known = Vec::new();
    for disk in 0..disk_count {
        known.push(text(block.get(DISKS + DISK_BYTES * disk, 16)?));
    }
    let own: Vec<String> = drive.serials.iter().map(|serial| as_recorded(serial)).collect();
    let index = known.iter().position(|serial| own.contains(serial));
    index.ok_or_else(|| Unserved::OtherSerials { serials: known }.into())
}

/// The volume at `at`; `None`: the drive is not in it.
fn volume(
    block: &Reader,
    drive: &FirmwareDrive,
    at: usize,
    (own, disk_count): (usize, usize),
    unit: u64,
) -> Result<Option<Volume>, FirmwareError> {
    let name = text(block.get(at, 16)?);
    let unserved = |why: fn(String) -> Unserved| Err(why(name.clone()).into());
    let map = at + MAP;
    let members = usize::from(block.u8(map + 0x10)?);
    let state = at + VOLUME;
    let migrates = block.u8(state + 8)? != 0;
    let kind = block.u8(state + 9)?;
    // The second map is as things were before: which member was being filled.
    let before = if migrates { map + ORDER + 4 * members } else { map };
    let mut slots = Vec::new();
    let mut slot = None;
    for index in 0..members {
        let disk = (block.u32(map + ORDER + 4 * index)? & 0x00ff_ffff) as usize;
        if migrates && index >= usize::from(block.u8(before + 0x10)?) {
            return unserved(|volume| Unserved::ChangesNumber { volume });
        }
        let is_lost = disk >= disk_count || block.u32(DISKS + DISK_BYTES * disk + 0x18)? & FAILED != 0;
        let rebuilds = block.u32(before + ORDER + 4 * index)? & REBUILDS != 0;
        slots.push(match (is_lost, rebuilds) {
            (true, _) => Slot::Missing,
            (false, true) => Slot::Rebuilding,
            (false, false) => Slot::InSync,
        });
        slot = slot.or((disk == own).then_some(index));
    }
    let Some(slot) = slot else { return Ok(None) };
    if migrates && RESHAPES.contains(&kind) {
        return unserved(|volume| Unserved::ChangesShape { volume });
    }
    let (level, layout) = match (block.u8(map + 0x0f)?, members) {
        (0, _) => (Level::Raid0, Level::Raid0.default_layout()),
        (1, 2) => (Level::Raid1, Layout::Plain),
        (1 | 10, 4..) if members.is_multiple_of(2) => (Level::Raid10, Level::Raid10.default_layout()),
        (5, 3..) => (Level::Raid5, Layout::Parity(ParityLayout::LeftAsymmetric)),
        (level, _) => return Err(Unserved::Level { volume: name, level, members }.into()),
    };
    let strip = u64::from(block.u16(map + 0x0c)?) * unit;
    let size = halves(block, at + 0x10, at + 0x14)?.saturating_mul(unit);
    let data_members = level.data_members(layout, members) as u64;
    let member_sectors = size / data_members.max(1);
    let whole = if level == Level::Raid1 { 1 } else { strip * data_members };
    if size == 0 || whole == 0 || !size.is_multiple_of(whole) {
        return Err(Unserved::PartOfStripe { volume: name, sectors: size }.into());
    }
    let migration_leaves_differences = migrates && [INITIALIZES, REPAIRS].contains(&kind);
    let dirty = block.u8(state + 0x0a)? & 1 != 0 || block.u8(before + 0x0e)? == UNINITIALIZED;
    let numbers = numbers_of(level, layout);
    let mut uuid = *b"IMSM\0\0\0\0\0\0\0\0\0\0\0\0";
    uuid[4..8].copy_from_slice(block.get(0x40, 4)?);
    uuid[8..14].copy_from_slice(&block.get(0x50, 6)?[..6]);
    uuid[14..].copy_from_slice(block.get(at + 0x28, 2)?);
    Ok(Some(Volume {
        uuid,
        format: Format::Imsm,
        level: numbers.level,
        layout: numbers.layout,
        strip_sectors: strip as u32,
        start_sector: halves(block, map, map + 0x14)?.saturating_mul(unit),
        member_sectors,
        slots,
        slot,
        drive_uuid: block.get(DISKS + DISK_BYTES * own, 16)?.try_into().expect("sixteen bytes"),
        updates: u64::from(block.u32(0x2c)?),
        is_consistent: !dirty && !migration_leaves_differences,
        bad_blocks: bad_blocks(block, drive, own, unit)?,
        name,
    }))
}

/// The sectors of this drive that cannot be read.
fn bad_blocks(block: &Reader, drive: &FirmwareDrive, own: usize, unit: u64) -> Result<BadBlockLog, FirmwareError> {
    let length = block.u32(0x48)? as usize;
    let Some(at) = block.bytes.len().checked_sub(length).filter(|_| length > 0) else { return Ok(BadBlockLog::default()) };
    let count = block.u32(at + 4)? as usize;
    if block.u32(at)? != BAD_BLOCKS || length != 8 + 8 * count {
        return Err(damaged("their list of bad blocks is no list".into()));
    }
    let mut entries = Vec::new();
    for entry in 0..count {
        let entry = block.get(at + 8 + 8 * entry, 8)?;
        if usize::from(entry[1]) == own {
            let low = u64::from(u16::from_le_bytes([entry[2], entry[3]]));
            let high = u64::from(u32::from_le_bytes(entry[4..].try_into().expect("four bytes")));
            // As md writes them: the first sector, and ten bits of length.
            for offset in 0..=u64::from(entry[0]) {
                let start = ((high << 16 | low) + offset).saturating_mul(unit);
                entries.extend((start << 10 | unit).to_le_bytes());
            }
        }
    }
    BadBlockLog::parse(&entries, 0, drive.size_sectors).map_err(damaged)
}

/// A serial number as the metadata have it: without blanks, the last 16 characters.
fn as_recorded(serial: &str) -> String {
    let kept: Vec<u8> = serial.bytes().filter(|&byte| byte > 0x20).map(|byte| if byte == b':' { b';' } else { byte }).collect();
    String::from_utf8_lossy(&kept[kept.len().saturating_sub(16)..]).into_owned()
}
