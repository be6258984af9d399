//! The present contents of a drive, by its first and last MiB and a few sectors between them: read before anything is
//! overwritten.
//!
//! Knows the signatures that libblkid knows: RAID members (`firmware_raid` has those of mainboards), partition tables, volume
//! managers, encryption, file systems, swap (most of them in `magics`). A drive that cannot be read counts as carrying something.
//! Finding nothing is no proof: contents without a signature (a database on a raw drive) are not seen. [`unknown`] sees them in
//! an image file, which is made empty.
//!
//! Sources: libblkid's list of magic numbers, and each format's own description.

mod firmware_raid;
mod magics;

use crate::md::superblock::uuid_text;
use crate::md::superblock::{MAGIC as MD_MAGIC, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use crate::read::Read;
use std::fmt;
use std::ops::Range;
use stria_block::{ErrorKind, IoError};
use uuid::Uuid;

/// Something recognised on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its kind: "ext4 file system".
    pub name: &'static str,
    /// Label, UUID, name, as far as it has them. May be empty.
    pub detail: String,
    /// The position of its mark.
    pub start_sector: u64,
    /// Length of the mark, in whole sectors; zeros here make it unrecognisable. None: it is no mark but cannot be read.
    pub sectors: u64,
    /// The family of contents that it belongs to.
    pub family: Family,
}

/// A family of contents, as far as a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A member of volumes that [`firmware`](crate::firmware) reads.
    ReadableVolume,
    /// A member of another RAID of firmware.
    FirmwareRaid,
    /// Anything else.
    Other,
}

/// The piece in which a window is read again that could not be read at once: one bad sector hides no mark beside its block of
/// 4 KiB.
const PIECE_SECTORS: u64 = 8;

/// A drive may try for seconds to read a piece. After so many that it could not read, the rest of a window counts as unreadable.
const BAD_PIECES_MAX: usize = 8;

impl Signature {
    /// True if the drive is a member of volumes that [`firmware`](crate::firmware) reads.
    pub fn is_of_readable_volume(&self) -> bool {
        self.family == Family::ReadableVolume
    }

    /// True if the drive is a member of an array that firmware made.
    pub fn is_of_firmware_raid(&self) -> bool {
        match self.family {
            Family::ReadableVolume | Family::FirmwareRaid => true,
            Family::Other => false,
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

/// The name of a range that cannot be read.
pub const UNREADABLE: &str = "something that cannot be read";

/// The name of contents that have no known signature.
pub const UNKNOWN: &str = "data without a known signature";

/// 1 MiB at either end.
pub(crate) const WINDOW_SECTORS: u64 = 2048;

/// The parts of a drive that were read: its two ends, and the positions of marks farther inside.
struct Ends {
    drive_sectors: u64,
    /// First sector and bytes.
    windows: Vec<(u64, Vec<u8>)>,
}

impl Ends {
    /// `length` bytes at byte `offset`, where they were read.
    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.windows.iter().find_map(|(start_sector, bytes)| {
            let from = usize::try_from(offset.checked_sub(start_sector * 512)?).ok()?;
            bytes.get(from..from.checked_add(length)?)
        })
    }

    fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    fn number<const N: usize>(&self, offset: u64) -> [u8; N] {
        self.at(offset, N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    /// Text of `length` bytes, up to the first zero and without blanks around it. `None`: there is none.
    fn text(&self, offset: u64, length: usize) -> Option<String> {
        let bytes = self.at(offset, length)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
        let text = String::from_utf8_lossy(&bytes[..end]).trim().to_owned();
        (!text.is_empty() && text.chars().all(|c| !c.is_control())).then_some(text)
    }

    fn label(&self, offset: u64, length: usize) -> Option<String> {
        self.text(offset, length).map(|label| format!("label \"{label}\""))
    }

    fn uuid(&self, offset: u64) -> Option<String> {
        let bytes: [u8; 16] = self.number(offset);
        (bytes != [0; 16]).then(|| format!("uuid {}", Uuid::from_bytes(bytes)))
    }

    fn detail(&self, label: Option<(u64, usize)>, uuid: Option<u64>) -> String {
        let label = label.and_then(|(offset, length)| self.label(offset, length));
        let uuid = uuid.and_then(|offset| self.uuid(offset));
        label.into_iter().chain(uuid).collect::<Vec<_>>().join(", ")
    }
}

/// The contents of a drive of `drive_sectors`, the outermost first. Empty: no known contents.
pub fn detect(drive_sectors: u64, read: &mut Read) -> Vec<Signature> {
    let head_end = drive_sectors.min(WINDOW_SECTORS);
    let tail_start = drive_sectors.saturating_sub(WINDOW_SECTORS).next_multiple_of(8).max(head_end);
    let far = firmware_raid::far_places(drive_sectors)
        .chain(magics::far_places(drive_sectors))
        .map(|range| range.start / 8 * 8..range.end.next_multiple_of(8).min(drive_sectors))
        .filter(|range| range.end > head_end && range.start < tail_start);
    let mut ends = Ends { drive_sectors, windows: Vec::new() };
    let mut found = Vec::new();
    for range in [0..head_end, tail_start..drive_sectors].into_iter().chain(far).filter(|range| !range.is_empty()) {
        match read(range.start, range.end - range.start) {
            Ok(bytes) => ends.windows.push((range.start, bytes)),
            Err(error) if error.kind == ErrorKind::Gone => found.push(unreadable(&range, &error)),
            Err(_) => in_pieces(&range, read, &mut ends, &mut found),
        }
    }
    // A start looks at each of these places by itself, so none may be missed where the rest of a window counts as unreadable.
    for sector in (0..=2).filter_map(|minor| Superblock::sector_of(minor, drive_sectors)) {
        if ends.at(sector * 512, SUPERBLOCK_BYTES).is_none()
            && let Ok(bytes) = read(sector, SUPERBLOCK_BYTES as u64 / 512)
        {
            ends.windows.push((sector, bytes));
        }
    }
    raid_members(&ends, &mut found);
    firmware_raid::members(&ends, &mut found);
    volumes(&ends, &mut found);
    magics::contents(&ends, &mut found);
    extended(&ends, &mut found);
    zfs(&ends, &mut found);
    partitions(&ends, &mut found);
    found
}

/// What lies in the first MiB without a signature that [`detect`] knows. Only of an image file is it somebody's data: such a file
/// is empty when it is made, while a drive keeps what its erased signatures belonged to.
pub fn unknown(drive_sectors: u64, read: &mut Read) -> Option<Signature> {
    let sectors = drive_sectors.min(WINDOW_SECTORS);
    let bytes = read(0, sectors).ok()?;
    let is_zero = bytes.iter().all(|&byte| byte == 0);
    (!is_zero).then(|| mark(UNKNOWN, String::new(), 0, bytes.len()))
}

/// A mark of firmware RAID (IMSM, DDF, and what `firmware_raid` knows) from `start_sector` on, which is behind the data of a
/// member of md: the drive may be a member of a volume on which that array lies. Marks in `own`, the member's own metadata, do
/// not count: clients shape their bytes.
pub(crate) fn firmware_raid_behind(
    start_sector: u64,
    drive_sectors: u64,
    own: &[Range<u64>],
    read: &mut Read,
) -> Option<Signature> {
    let tail_start = drive_sectors.saturating_sub(WINDOW_SECTORS).next_multiple_of(8);
    let start = start_sector.next_multiple_of(8).max(tail_start);
    let mut ends = Ends { drive_sectors, windows: Vec::new() };
    let mut found = Vec::new();
    if start < drive_sectors {
        match read(start, drive_sectors - start) {
            Ok(bytes) => ends.windows.push((start, bytes)),
            Err(_) => in_pieces(&(start..drive_sectors), read, &mut ends, &mut Vec::new()),
        }
    }
    raid_members(&ends, &mut found);
    firmware_raid::members(&ends, &mut found);
    let is_own =
        |mark: &Signature| own.iter().any(|own| mark.start_sector < own.end && own.start < mark.start_sector + mark.sectors);
    found.into_iter().find(|mark| mark.is_of_firmware_raid() && !is_own(mark))
}

/// Reads what it can of a range that cannot be read at once.
fn in_pieces(range: &Range<u64>, read: &mut Read, ends: &mut Ends, found: &mut Vec<Signature>) {
    let mut bad: Vec<(Range<u64>, IoError)> = Vec::new();
    let (mut start, mut bad_count) = (range.start, 0);
    while start < range.end {
        let end = (start + PIECE_SECTORS).min(range.end);
        match read(start, end - start) {
            Ok(bytes) => match ends.windows.last_mut().filter(|(first, read)| first + (read.len() / 512) as u64 == start) {
                Some((_, read)) => read.extend(bytes),
                None => ends.windows.push((start, bytes)),
            },
            Err(error) => {
                bad_count += 1;
                let end = if bad_count == BAD_PIECES_MAX { range.end } else { end };
                match bad.last_mut().filter(|(last, _)| last.end == start) {
                    Some((last, _)) => last.end = end,
                    None => bad.push((start..end, error)),
                }
                start = end;
                continue;
            }
        }
        start = end;
    }
    found.extend(bad.iter().map(|(range, error)| unreadable(range, error)));
}

fn unreadable(range: &Range<u64>, error: &IoError) -> Signature {
    let detail = format!("sectors {} to {}: {error}", range.start, range.end - 1);
    Signature { name: UNREADABLE, detail, start_sector: range.start, sectors: 0, family: Family::Other }
}

/// The zeros that make `signatures` unrecognisable: first sector and count, for a drive with logical
/// blocks of `logical_block_bytes`. Sectors that could not be read stay unchanged.
pub fn wipes(signatures: &[Signature], logical_block_bytes: u32) -> Vec<(u64, u64)> {
    let block = u64::from(logical_block_bytes / 512).max(1);
    let readable = signatures.iter().filter(|signature| signature.sectors > 0);
    readable
        .map(|signature| {
            let start = signature.start_sector / block * block;
            (start, (signature.start_sector + signature.sectors).next_multiple_of(block) - start)
        })
        .collect()
}

/// As [`wipes`], in two parts: the second may begin when the first is durable. `counts`: the sector of the superblock that
/// counts. It goes last, because clients of its array may have written the others, and after a crash in between one of those
/// would count. It is among them even if no signature names it, because the sectors beside it could not be read.
pub fn wipes_in_turn(signatures: &[Signature], logical_block_bytes: u32, counts: Option<u64>) -> [Vec<(u64, u64)>; 2] {
    let is_it = |&(start, sectors): &(u64, u64)| counts.is_some_and(|sector| (start..start + sectors).contains(&sector));
    let (mut last, first): (Vec<_>, Vec<_>) = wipes(signatures, logical_block_bytes).into_iter().partition(is_it);
    if let Some(sector) = counts.filter(|_| last.is_empty()) {
        let own = mark("md member", String::new(), sector * 512, SUPERBLOCK_BYTES);
        last = wipes(&[own], logical_block_bytes);
    }
    [first, last]
}

fn mark(name: &'static str, detail: String, offset: u64, length: usize) -> Signature {
    let start_sector = offset / 512;
    let sectors = (offset + length as u64).div_ceil(512) - start_sector;
    Signature { name, detail, start_sector, sectors, family: Family::Other }
}

/// The mark of one sector that firmware leaves on a member of its RAID.
fn firmware_mark(family: Family, name: &'static str, detail: String, offset: u64) -> Signature {
    Signature { family, ..mark(name, detail, offset, 512) }
}

fn raid_members(ends: &Ends, found: &mut Vec<Signature>) {
    for minor in [1, 2, 0] {
        let Some(sector) = Superblock::sector_of(minor, ends.drive_sectors) else { continue };
        let Some(bytes) = ends.at(sector * 512, 4096) else { continue };
        let detail = match Superblock::parse(bytes, sector, ends.drive_sectors) {
            Ok(superblock) => {
                let header = &superblock.header;
                format!("array \"{}\", uuid {}, {}", superblock.name(), uuid_text(&header.set_uuid), superblock.role())
            }
            Err(SuperblockError::Absent) => continue,
            Err(error) => error.to_string(),
        };
        let name = ["md member, version 1.0", "md member, version 1.1", "md member, version 1.2"][usize::from(minor)];
        found.push(mark(name, detail, sector * 512, 4096));
    }
    if ends.drive_sectors >= 256 {
        let offset = ((ends.drive_sectors & !127) - 128) * 512;
        for magic in [MD_MAGIC.to_le_bytes(), MD_MAGIC.to_be_bytes()] {
            if ends.has(offset, &magic) && ends.number::<4>(offset + 4) != 1u32.to_le_bytes() {
                let part =
                    |offset: u64| ends.number::<4>(offset).iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
                let uuid = [20, 52, 56, 60].map(|at| part(offset + at)).join(":");
                found.push(mark("md member, version 0.90", format!("uuid {uuid}"), offset, 4096));
            }
        }
    }
    for block in [512, 4096] {
        let Some(last) = (ends.drive_sectors * 512).checked_sub(block) else { continue };
        if let Some(anchor) = last.checked_sub(block).filter(|&at| ends.has(at, b"Intel Raid ISM Cfg Sig. ")) {
            let version = ends.text(anchor + 24, 8).map(|version| format!("version {version}"));
            found.push(firmware_mark(Family::ReadableVolume, "Intel RAID (IMSM) member", version.unwrap_or_default(), anchor));
        }
        if ends.has(last, b"\xde\x11\xde\x11") {
            let vendor = ends.text(last + 8, 8).map(|vendor| format!("vendor \"{vendor}\""));
            found.push(firmware_mark(Family::ReadableVolume, "DDF RAID member", vendor.unwrap_or_default(), last));
        }
    }
}

fn volumes(ends: &Ends, found: &mut Vec<Signature>) {
    if ends.has(0, b"LUKS\xba\xbe") {
        let version = u16::from_be_bytes(ends.number(6));
        let label = (version == 2).then_some((24, 48));
        let uuid = ends.label(168, 40).map(|uuid| uuid.replace("label ", "uuid ").replace('"', ""));
        let detail = [format!("version {version}"), ends.detail(label, None), uuid.unwrap_or_default()];
        let detail = detail.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        found.push(mark("LUKS encrypted volume", detail, 0, 512));
    }
    for sector in 0..4 {
        let offset = sector * 512;
        if ends.has(offset, b"LABELONE") && ends.has(offset + 24, b"LVM2 001") {
            let uuid = String::from_utf8_lossy(&ends.number::<32>(offset + 32)).into_owned();
            found.push(mark("LVM physical volume", format!("uuid {uuid}"), offset, 512));
        }
    }
    // LUKS 2 has a second header, from which the first can be restored.
    for offset in [0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000] {
        if ends.has(offset, b"SKUL\xba\xbe") {
            found.push(mark("LUKS encrypted volume", "second header".into(), offset, 512));
        }
    }
}

fn extended(ends: &Ends, found: &mut Vec<Signature>) {
    if !ends.has(1080, b"\x53\xef") {
        return;
    }
    let compatible = u32::from_le_bytes(ends.number(1116));
    let incompatible = u32::from_le_bytes(ends.number(1120));
    // Journal device, extents, 64 bit, flexible groups: features of ext4 only.
    let name = match (incompatible & 0x2c0 != 0, compatible & 0x4 != 0) {
        (true, _) => "ext4 file system",
        (false, true) => "ext3 file system",
        (false, false) => "ext2 file system",
    };
    let name = if incompatible & 0x8 != 0 { "ext journal" } else { name };
    found.push(mark(name, ends.detail(Some((1144, 16)), Some(1128)), 1024, 512));
}

fn zfs(ends: &Ends, found: &mut Vec<Signature>) {
    let end = ends.drive_sectors * 512 / (256 << 10) * (256 << 10);
    let labels = [Some(0), Some(256 << 10), end.checked_sub(512 << 10), end.checked_sub(256 << 10)];
    for label in labels.into_iter().flatten() {
        // A ring of 128 uberblocks of 1 KiB in the second half of each label.
        let ring = label + (128 << 10);
        let uberblock = |index: u64| {
            let magic = ends.number::<8>(ring + index * 1024);
            [magic, {
                let mut swapped = magic;
                swapped.reverse();
                swapped
            }]
            .contains(&0x00ba_b10c_u64.to_le_bytes())
        };
        if (0..128).any(uberblock) && !found.iter().any(|known| known.start_sector == ring / 512) {
            found.push(mark("ZFS pool member", String::new(), ring, 128 << 10));
        }
    }
}

fn partitions(ends: &Ends, found: &mut Vec<Signature>) {
    let last = |block: u64| (ends.drive_sectors * 512).checked_sub(block);
    for (offset, which) in [(Some(512), ""), (Some(4096), ""), (last(512), "second copy"), (last(4096), "second copy")] {
        if let Some(offset) = offset.filter(|&offset| ends.has(offset, b"EFI PART")) {
            let uuid: [u8; 16] = ends.number(offset + 56);
            let uuid = format!("uuid {}", Uuid::from_bytes_le(uuid));
            let detail = if which.is_empty() { uuid } else { format!("{which}, {uuid}") };
            found.push(mark("GPT partition table", detail, offset, 512));
        }
    }
    if ends.has(510, b"\x55\xaa") {
        let entry = |index: u64| ends.number::<16>(446 + 16 * index);
        let used = |entry: &[u8; 16]| entry[4] != 0 && entry[12..16] != [0; 4];
        let sound = (0..4).all(|index| matches!(entry(index)[0], 0 | 0x80));
        let count = (0..4).filter(|&index| used(&entry(index))).count();
        if sound && count > 0 {
            found.push(mark("MBR partition table", format!("{count} partitions"), 0, 512));
        } else if !found.iter().any(|known| known.start_sector == 0) {
            found.push(mark("boot sector", String::new(), 0, 512));
        }
    }
}
