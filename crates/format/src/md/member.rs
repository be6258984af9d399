//! The metadata on one drive: superblock, bitmap, bad-block log, write log, checksums.

use super::badblocks::{self, BadBlockLog};
use super::bitmap::{Bitmap, BitmapError, PAGE_BYTES};
use super::checksums::{self, Checksums};
use super::log::{FoundLog, LogSpace};
use super::ppl::{FoundPpl, PplLocation};
use super::shape::keeps_parity;
use super::superblock::{SUPERBLOCK_BYTES, Superblock, SuperblockError, feature};
use crate::detect::{self, Signature};
use crate::read::Read;
use std::ops::Range;
use stria_array::DriveSector;
use stria_block::SECTORS_MAX;

/// A drive that may be a member, and its metadata.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name that people see: a path, with a serial number where known.
    pub name: String,
    /// The drive's size.
    pub size_sectors: u64,
    /// The drive's logical block: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The metadata that md wrote, or the reason why there is nothing to use.
    pub found: Result<Member, SuperblockError>,
    /// Other contents, looked for only when `found` is an error.
    pub carries: Vec<Signature>,
}

/// A member of an array according to its own superblock.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its superblock.
    pub superblock: Superblock,
    /// The superblock is of version 1.0, and one before the data is damaged or cannot be read: then a client of that array may
    /// have written this one.
    pub doubt: Option<SuperblockError>,
    /// Its bitmap; `None` when the superblock names none.
    pub bitmap: Option<Result<Bitmap, BitmapError>>,
    /// Its bad-block log, or the fault of the log.
    pub bad_blocks: Result<BadBlockLog, String>,
    /// Its write log; `None`: there is none.
    pub log: Option<FoundLog>,
    /// Its partial parity log; `None` when the superblock names none.
    pub ppl: Option<FoundPpl>,
    /// Checksums of its data; `None`: it has none.
    pub checksums: Option<Checksums>,
    /// A mark of firmware RAID behind its data.
    pub firmware_raid: Option<Signature>,
}

impl Candidate {
    /// Looks for md's superblock at its three positions.
    pub fn read(name: impl Into<String>, size_sectors: u64, logical_block_bytes: u32, read: &mut Read) -> Self {
        let size_sectors = size_sectors.min(SECTORS_MAX);
        let mut found: Result<Superblock, _> = Err(SuperblockError::Absent);
        let mut doubt = None;
        for minor in [2, 1, 0] {
            found = match (found, read_superblock(minor, size_sectors, read)) {
                (Ok(one), Ok(other)) => Ok(real_of(one, other)),
                (Err(SuperblockError::Absent), Ok(only)) => Ok(only),
                (Err(error), Ok(last)) => {
                    doubt = Some(error).filter(|_| last.minor_version() == 0);
                    Ok(last)
                }
                (Err(SuperblockError::Absent), Err(error)) => Err(error),
                (earlier, Err(_)) => earlier,
            };
        }
        let found = found.map(|superblock| {
            let member = Member::read(superblock, size_sectors, logical_block_bytes, read);
            Member { doubt, ..member }
        });
        let carries = if found.is_ok() { Vec::new() } else { detect::detect(size_sectors, read) };
        Self { name: name.into(), size_sectors, logical_block_bytes, found, carries }
    }

    /// Looks on an array that is marked as a span for the superblock of the array above, `upper_uuid`: at the one position where
    /// Stria puts it. The other positions are that array's data.
    pub fn read_span(
        name: impl Into<String>,
        size_sectors: u64,
        logical_block_bytes: u32,
        upper_uuid: &[u8; 16],
        read: &mut Read,
    ) -> Self {
        let found = read_superblock(2, size_sectors, read).and_then(|superblock| {
            let is_wanted = superblock.header.set_uuid == *upper_uuid;
            is_wanted.then_some(superblock).ok_or(SuperblockError::Absent)
        });
        let found = found.map(|superblock| Member::read(superblock, size_sectors, logical_block_bytes, read));
        Self { name: name.into(), size_sectors, logical_block_bytes, found, carries: Vec::new() }
    }
}

/// The superblock of version 1.`minor` on a drive.
fn read_superblock(minor: u8, size_sectors: u64, read: &mut Read) -> Result<Superblock, SuperblockError> {
    let sector = Superblock::sector_of(minor, size_sectors).ok_or(SuperblockError::Absent)?;
    match read(sector, SUPERBLOCK_BYTES as u64 / 512) {
        Ok(bytes) => Superblock::parse(&bytes, sector, size_sectors),
        Err(error) => Err(SuperblockError::Unreadable(error.to_string())),
    }
}

/// The one of two superblocks on a drive that no client wrote. A superblock within the data of another may be a client's. If each
/// lies in the data of the other, nothing on the drive shows which is real, and the one before its data counts: version 1.2 or
/// 1.1 before 1.0, as Stria makes 1.2. If neither does, one is left over from before, and the younger counts, as with mdadm.
fn real_of(one: Superblock, other: Superblock) -> Superblock {
    match (one.exposes(&other), other.exposes(&one)) {
        (true, true) => {
            if one.minor_version() > other.minor_version() {
                one
            } else {
                other
            }
        }
        (true, false) => one,
        (false, true) => other,
        (false, false) => {
            if one.created_s() < other.created_s() {
                other
            } else {
                one
            }
        }
    }
}

impl Member {
    fn read(superblock: Superblock, drive_sectors: u64, logical_block_bytes: u32, read: &mut Read) -> Self {
        let bitmap = BitmapLocation::of(&superblock, logical_block_bytes).map(|location| {
            let space = superblock.bitmap_space_sectors(Some(drive_sectors));
            let mut read = |sectors: u64| {
                let sectors = sectors.next_multiple_of(location.unit_sectors).min(drive_sectors - location.start_sector.get());
                read(location.start_sector.get(), sectors).map_err(|error| BitmapError::Damaged(error.to_string()))
            };
            let first = read(1)?;
            let bytes = read(Bitmap::sectors_to_read(&first, space)?)?;
            Bitmap::parse(&bytes, &superblock.header.set_uuid)
        });
        let bad_blocks = Self::read_bad_blocks(&superblock, drive_sectors, read);
        let bitmap_sectors = bitmap.as_ref().and_then(|bitmap| Some(bitmap.as_ref().ok()?.size_sectors()));
        let parity = keeps_parity(&superblock.header);
        let space = LogSpace::of(&superblock, bitmap_sectors.unwrap_or(0)).filter(|_| parity);
        let log = space.and_then(|space| FoundLog::read(&superblock, &space, read));
        let ppl = PplLocation::of(&superblock).map(|location| FoundPpl::read(&location, read));
        let checksums = checksums::find(&superblock, drive_sectors, read);
        let run = |start: DriveSector, sectors: u64| start.get()..start.get() + sectors;
        let bitmap_run = BitmapLocation::of(&superblock, logical_block_bytes).zip(bitmap_sectors);
        let bitmap_run = bitmap_run.map(|(at, sectors)| run(at.start_sector, sectors.next_multiple_of(at.unit_sectors)));
        let region = checksums::region_of(&superblock);
        let own: Vec<Range<u64>> = std::iter::once(run(superblock.start_sector(), SUPERBLOCK_BYTES as u64 / 512))
            .chain(bitmap_run)
            .chain(checksums.as_ref().map(|_| region.start_sector..region.end_sector()))
            .collect();
        let firmware_raid = detect::firmware_raid_behind(superblock.data().end.get(), drive_sectors, &own, read);
        Self { superblock, doubt: None, bitmap, bad_blocks, log, ppl, checksums, firmware_raid }
    }

    fn read_bad_blocks(superblock: &Superblock, drive_sectors: u64, read: &mut Read) -> Result<BadBlockLog, String> {
        let header = &superblock.header;
        if !superblock.has(feature::BAD_BLOCKS) {
            return Ok(BadBlockLog::default());
        }
        if header.bblog_offset == 0 || header.bblog_size == 0 || header.bblog_size > badblocks::SECTORS_MAX {
            return Err(format!(
                "the superblock names bad blocks, but a log of {} sectors at offset {}",
                header.bblog_size, header.bblog_offset
            ));
        }
        // Within the drive: checked when the superblock was parsed.
        let start = superblock.sector_at(header.bblog_offset);
        let bytes = read(start.get(), u64::from(header.bblog_size)).map_err(|error| format!("bad-block log: {error}"))?;
        BadBlockLog::parse(&bytes, header.bblog_shift, drive_sectors)
    }
}

/// The position of a member's bitmap, and the unit of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapLocation {
    /// Its first sector.
    pub start_sector: DriveSector,
    /// A page if the position allows for complete pages, otherwise the drive's logical block.
    pub unit_sectors: u64,
}

impl BitmapLocation {
    pub(crate) fn of(superblock: &Superblock, logical_block_bytes: u32) -> Option<Self> {
        let header = &superblock.header;
        if !superblock.has(feature::BITMAP_OFFSET) {
            return None;
        }
        let start_sector = superblock.sector_at(header.bitmap_offset);
        let page = PAGE_BYTES as u64 / 512;
        // Everything mdadm lays out starts on a page, but for the bitmaps of old that share the superblock's.
        let neighbours = [header.super_offset, header.data_offset];
        let paged = start_sector.get().is_multiple_of(page) && neighbours.iter().all(|start| start.is_multiple_of(page));
        Some(Self { start_sector, unit_sectors: if paged { page } else { u64::from(logical_block_bytes / 512).max(1) } })
    }
}
