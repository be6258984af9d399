//! The format of the SNIA (DDF), of many controllers: a header and its sections at the end of each drive, twice.
//!
//! Numbers are big-endian, positions in sectors of 512 bytes. What belongs to all drives (which are there, which failed, which
//! volumes there are) is on each of them; how a volume lies on a drive only on the drive. Members stand in the order in which the
//! volume's record names them.
//!
//! Source: *Common RAID Disk Data Format Specification*, SNIA, and `super-ddf.c` of mdadm.

use super::reader::{Order, Reader};
use super::{FirmwareDrive, FirmwareError, Format, Slot, Unserved, Volume, sectors, text};
use crate::md::badblocks::BadBlockLog;
use crate::md::superblock::ROLES_MAX;
use crate::read::Read;

pub(super) const NAME: &str = "DDF";
const HEADER: u32 = 0xde11_de11;
const DRIVES: u32 = 0x2222_2222;
const OWN: u32 = 0x3333_3333;
const VOLUMES: u32 = 0xdddd_dddd;
const CONFIG: u32 = 0xeeee_eeee;
/// 512 KiB: the longest section that mdadm reads.
const SECTION_SECTORS_MAX: u32 = 1024;
/// An entry of the drives and of the volumes, and what lies before the first.
const ENTRY_BYTES: usize = 64;
/// States of a drive, as bits.
const ONLINE: u16 = 1;
const FAILED: u16 = 2;
const REBUILDS: u16 = 4;
/// States of a volume.
const MORPHS: u8 = 8;
const INCONSISTENT: u8 = 16;
const INITIALIZED: u8 = 2;
/// A refnum that names no drive.
const NONE: u32 = u32::MAX;
/// Where a volume's record names its drives. Their first sectors follow.
const NAMES: usize = 512;

/// `None`: the drive has no such metadata.
pub(super) fn volumes(drive: &FirmwareDrive, read: &mut Read) -> Result<Option<Vec<Volume>>, FirmwareError> {
    let Some(last) = drive.size_sectors.checked_sub(1) else { return Ok(None) };
    let anchor = sectors(drive, last, 1, read)?;
    if part(&anchor).u32(0)? != HEADER {
        return Ok(None);
    }
    let anchor = checked(part(&anchor), HEADER)?;
    let mut headers = Vec::new();
    for (kind, place) in [(1, 96), (2, 104)] {
        let start = anchor.u64(place)?;
        let Ok(bytes) = sectors(drive, start, 1, read) else { continue };
        let header = part(&bytes);
        if checked(header, HEADER).is_ok() && header.u8(112)? == kind && header.get(8, 24)? == anchor.get(8, 24)? {
            let (is_closed, updates) = (header.u8(48)? == 0, header.u32(40)?);
            headers.push(((updates, is_closed), start, bytes));
        }
    }
    // The younger of the two; of two alike the one that was not being written.
    headers.sort_by_key(|(age, start, _)| (std::cmp::Reverse(*age), *start));
    let mut first = None;
    for ((updates, _), start, header) in &headers {
        match of_header(drive, *updates, *start, &part(header), read) {
            Ok(volumes) => return Ok(Some(volumes)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| damaged("neither of the two headers is whole".into())))
}

fn damaged(what: String) -> FirmwareError {
    FirmwareError::Damaged(NAME, what)
}

/// A part of the metadata.
fn part(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, NAME, Order::Big, "a part ends")
}

/// The same, if its mark and its checksum are right.
fn checked<'a>(part: Reader<'a>, mark: u32) -> Result<Reader<'a>, FirmwareError> {
    let (found, stored) = (part.u32(0)?, part.u32(4)?);
    // The CRC-32 that begins with zero and is not inverted. Four bytes of ones bring the usual one to zero.
    let mut bytes = [&[0xff; 4], part.bytes].concat();
    bytes[8..12].fill(0xff);
    let expected = !crc_fast::crc32_iso_hdlc(&bytes);
    match (found == mark, stored == expected) {
        (true, true) => Ok(part),
        (false, _) => Err(damaged(format!("a part has the mark 0x{found:08x} instead of 0x{mark:08x}"))),
        _ => Err(damaged(format!("checksum 0x{stored:08x} of the part 0x{mark:08x}, expected 0x{expected:08x}"))),
    }
}

/// The entries of a list.
fn entries<'a>(list: Reader<'a>) -> impl Iterator<Item = Reader<'a>> + use<'a> {
    list.bytes.chunks_exact(ENTRY_BYTES).skip(1).map(part)
}

/// The volumes of one of the two headers, at `start`.
fn of_header(
    drive: &FirmwareDrive,
    updates: u32,
    start: u64,
    header: &Reader,
    read: &mut Read,
) -> Result<Vec<Volume>, FirmwareError> {
    let mut section = |place: usize| {
        let (offset, length) = (header.u32(place)?, header.u32(place + 4)?);
        if length == 0 || length > SECTION_SECTORS_MAX {
            return Err(damaged(format!("a section is {length} sectors long")));
        }
        sectors(drive, start.saturating_add(offset.into()), length.into(), read)
    };
    let (drives, volumes, configs, own) = (section(200)?, section(208)?, section(216)?, section(224)?);
    let (drives, volumes) = (checked(part(&drives), DRIVES)?, checked(part(&volumes), VOLUMES)?);
    let own = checked(part(own.get(..512).unwrap_or(&[])), OWN)?;
    let record_bytes = 512 * usize::from(header.u16(134)?).max(1);
    let names_max = usize::from(header.u16(136)?);
    let mut found = Vec::new();
    for record in configs.chunks_exact(record_bytes).map(part) {
        if record.u32(0)? != CONFIG {
            continue;
        }
        let record = checked(record, CONFIG)?;
        let (number, entry) = entries(volumes)
            .enumerate()
            .find(|(_, entry)| entry.get(0, 24).ok() == record.get(8, 24).ok())
            .ok_or_else(|| damaged("they describe a volume that they do not list".into()))?;
        found.extend(volume(&record, &entry, number, names_max, (&drives, &own), updates)?);
    }
    Ok(found)
}

/// The volume of a record; `None`: the drive is not in it.
fn volume(
    record: &Reader,
    entry: &Reader,
    number: usize,
    names_max: usize,
    (drives, own): (&Reader, &Reader),
    updates: u32,
) -> Result<Option<Volume>, FirmwareError> {
    let name = text(entry.get(48, 16)?);
    let name = if name.is_empty() { format!("ddf{number}") } else { name };
    let state = entry.u8(32)?;
    if state & MORPHS != 0 {
        return Err(Unserved::ControllerChangesShape { volume: name }.into());
    }
    let members = usize::from(record.u16(64)?);
    let (spans, span) = (usize::from(record.u8(69)?).max(1), usize::from(record.u8(70)?));
    let Some((level, layout)) = shape(record, members, spans)? else {
        let (level, qualifier) = (record.u8(67)?, record.u8(68)?);
        return Err(Unserved::LevelOfSpans { volume: name, level, qualifier, members, spans }.into());
    };
    let own_name = own.u32(32)?;
    // A mirror has none, whatever is written there.
    let strip_shift = if level == 1 { 0 } else { u32::from(record.u8(66)?) };
    let strip_sectors = 1u32.checked_shl(strip_shift).filter(|&sectors| sectors <= 1 << 17);
    let strip_sectors = strip_sectors.ok_or_else(|| damaged(format!("volume \"{name}\" has strips beyond 64 MiB")))?;
    if members * spans > ROLES_MAX {
        return Err(damaged(format!("volume \"{name}\" has {spans} spans of {members} drives")));
    }
    // What other spans hold is in the records of their drives.
    let mut slots = vec![Slot::InSync; members * spans];
    let (mut slot, mut start_sector) = (None, 0);
    let mut index = 0;
    for place in 0..names_max {
        let named = record.u32(NAMES + 4 * place)?;
        if named == NONE {
            continue;
        }
        if index == members {
            break;
        }
        let at = span * members + index;
        let known = entries(*drives).find(|known| known.u32(24).is_ok_and(|refnum| refnum == named));
        let status = known.map_or(Ok(0), |known| known.u16(30))?;
        *slots.get_mut(at).ok_or_else(|| damaged(format!("volume \"{name}\" has a span {span} of {spans}")))? =
            match status & (ONLINE | FAILED | REBUILDS) {
                ONLINE => Slot::InSync,
                status if status & FAILED == 0 && status & REBUILDS != 0 => Slot::Rebuilding,
                _ => Slot::Missing,
            };
        if named == own_name {
            slot = Some(at);
            start_sector = record.u64(NAMES + 4 * names_max + 8 * place)?;
        }
        index += 1;
    }
    let Some(slot) = slot else { return Ok(None) };
    let blocks = record.u64(72)?;
    let member_sectors = blocks / u64::from(strip_sectors) * u64::from(strip_sectors);
    let mut drive_uuid = [0; 16];
    drive_uuid[..12].copy_from_slice(own.get(20, 12)?);
    drive_uuid[12..].copy_from_slice(own.get(32, 4)?);
    Ok(Some(Volume {
        name,
        format: Format::Ddf,
        uuid: record.get(16, 16)?.try_into().expect("sixteen bytes"),
        level,
        layout,
        strip_sectors,
        start_sector,
        member_sectors,
        slots,
        slot,
        drive_uuid,
        updates: updates.into(),
        is_consistent: state & INCONSISTENT == 0 && entry.u8(33)? & 3 == INITIALIZED,
        bad_blocks: BadBlockLog::default(),
    }))
}

/// md's numbers for the levels of a record; `None`: md has none.
fn shape(record: &Reader, members: usize, spans: usize) -> Result<Option<(i32, u32)>, FirmwareError> {
    let (level, qualifier, above) = (record.u8(67)?, record.u8(68)?, record.u8(71)?);
    if spans > 1 {
        // A stripe over mirrors, or mirrors one after the other that controllers stripe all the same.
        let is_known = level == 1 && matches!(above, 0 | 3);
        return Ok(match (qualifier, members) {
            (0, 2) if is_known => Some((10, 0x102)),
            (1, 3) if is_known => Some((10, 0x103)),
            _ => None,
        });
    }
    Ok(match (level, qualifier, members) {
        (0, 0, _) => Some((0, 2)),
        (1, 0, 2) | (1, 1, 3) => Some((1, 0)),
        (4, 1, _) => Some((4, 0)),
        (5, 0, _) => Some((5, 1)),
        (5, 2, _) => Some((5, 0)),
        (5, 3, _) => Some((5, 2)),
        (6, 1, _) => Some((6, 8)),
        (6, 2, _) => Some((6, 9)),
        (6, 3, _) => Some((6, 10)),
        (0x11, 0, _) => Some((10, 0x102)),
        (0x11, 1, _) => Some((10, 0x201)),
        (0x1f, _, _) => Some((-1, 0)),
        _ => None,
    })
}
