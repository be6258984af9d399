//! Everything md wrote on one drive: superblock, bitmap, bad-block log.

use super::badblocks;
use super::bitmap::{Bitmap, BitmapError, PAGE_BYTES};
use super::checksums::{self, Checksums};
use super::log::{FoundLog, LogRoom};
use super::ppl::{FoundPpl, PplPlace};
use super::superblock::{SUPERBLOCK_BYTES, Superblock, SuperblockError, feature};
use crate::detect::{self, Signature};
use std::ops::Range;
use stria_block::IoError;

/// How this crate reads a drive: first sector, count of sectors. Only ranges within the drive and
/// aligned to 4 KiB are asked for, except on drives whose size is not a multiple of that.
pub type Read<'a> = dyn FnMut(u64, u64) -> Result<Vec<u8>, IoError> + 'a;

/// A drive that may be a member, and what was found on it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// For people: a path, with a serial number where known.
    pub name: String,
    /// The drive's size.
    pub size_sectors: u64,
    /// The drive's logical block: 512 or 4096.
    pub logical_block_bytes: u32,
    /// What md wrote, or why there is nothing to use.
    pub found: Result<Member, SuperblockError>,
    /// What else lies there, looked for only when `found` is an error.
    pub carries: Vec<Signature>,
}

/// A member of an array by its own account.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its superblock.
    pub superblock: Superblock,
    /// Its bitmap; `None` when the superblock tells of none.
    pub bitmap: Option<Result<Bitmap, BitmapError>>,
    /// Its bad-block log, in sectors of the drive, or what is wrong with it.
    pub bad_blocks: Result<Vec<Range<u64>>, String>,
    /// Its write log; `None`: there is none.
    pub log: Option<FoundLog>,
    /// Its partial parity log; `None` when the superblock tells of none.
    pub ppl: Option<FoundPpl>,
    /// Checksums of its data; `None`: it has none.
    pub checksums: Option<Checksums>,
}

impl Candidate {
    /// Looks for md's superblock in its three places; of several the youngest counts, as with mdadm.
    pub fn read(name: impl Into<String>, size_sectors: u64, logical_block_bytes: u32, read: &mut Read) -> Self {
        let mut found: Result<Superblock, _> = Err(SuperblockError::Absent);
        for minor in [2, 1, 0] {
            let Some(sector) = Superblock::sector_of(minor, size_sectors) else { continue };
            let parsed = match read(sector, SUPERBLOCK_BYTES as u64 / 512) {
                Ok(bytes) => Superblock::parse(&bytes, sector, size_sectors),
                Err(error) => Err(SuperblockError::Unreadable(error.to_string())),
            };
            found = match (found, parsed) {
                (Ok(old), Ok(new)) => Ok(if old.created_s() < new.created_s() { new } else { old }),
                (_, Ok(new)) => Ok(new),
                (Err(SuperblockError::Absent), Err(error)) => Err(error),
                (kept, Err(_)) => kept,
            };
        }
        let found = found.map(|superblock| Member::read(superblock, size_sectors, logical_block_bytes, read));
        let carries = if found.is_ok() { Vec::new() } else { detect::detect(size_sectors, read) };
        Self { name: name.into(), size_sectors, logical_block_bytes, found, carries }
    }
}

impl Member {
    fn read(superblock: Superblock, drive_sectors: u64, logical_block_bytes: u32, read: &mut Read) -> Self {
        let bitmap = BitmapPlace::of(&superblock, logical_block_bytes).map(|place| {
            let mut read = |sectors: u64| {
                let sectors = sectors.next_multiple_of(place.unit_sectors).min(drive_sectors - place.start_sector);
                read(place.start_sector, sectors).map_err(|error| BitmapError::Damaged(error.to_string()))
            };
            let first = read(1)?;
            let bytes = read(Bitmap::sectors_to_read(&first)?)?;
            Bitmap::parse(&bytes, &superblock.header.set_uuid)
        });
        let bad_blocks = Self::read_bad_blocks(&superblock, drive_sectors, read);
        let bitmap_sectors = bitmap.as_ref().and_then(|bitmap| Some(bitmap.as_ref().ok()?.size_sectors()));
        let parity = matches!(superblock.header.level, 4..=6);
        let room = LogRoom::of(&superblock, bitmap_sectors.unwrap_or(0)).filter(|_| parity);
        let log = room.and_then(|room| FoundLog::read(&superblock, room.head_start, read));
        let ppl = PplPlace::of(&superblock).map(|place| FoundPpl::read(&place, read));
        let checksums = checksums::find(&superblock, drive_sectors, read);
        Self { superblock, bitmap, bad_blocks, log, ppl, checksums }
    }

    fn read_bad_blocks(superblock: &Superblock, drive_sectors: u64, read: &mut Read) -> Result<Vec<Range<u64>>, String> {
        let header = &superblock.header;
        if !superblock.has(feature::BAD_BLOCKS) {
            return Ok(Vec::new());
        }
        if header.bblog_offset == 0 || header.bblog_size == 0 || header.bblog_size > 8 {
            return Err(format!(
                "the superblock tells of bad blocks, but of a log of {} sectors at offset {}",
                header.bblog_size, header.bblog_offset
            ));
        }
        // Within the drive: checked when the superblock was parsed.
        let start = header.super_offset.saturating_add_signed(i64::from(header.bblog_offset));
        let bytes = read(start, u64::from(header.bblog_size)).map_err(|error| format!("bad-block log: {error}"))?;
        badblocks::parse(&bytes, header.bblog_shift, drive_sectors)
    }
}

/// Where a member's bitmap lies and in what units it may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapPlace {
    /// First sector on the drive.
    pub start_sector: u64,
    /// A page where the place allows for whole pages, else the drive's logical block.
    pub unit_sectors: u64,
}

impl BitmapPlace {
    pub(crate) fn of(superblock: &Superblock, logical_block_bytes: u32) -> Option<Self> {
        let header = &superblock.header;
        if !superblock.has(feature::BITMAP_OFFSET) {
            return None;
        }
        let start_sector = header.super_offset.saturating_add_signed(i64::from(header.bitmap_offset));
        let page = PAGE_BYTES as u64 / 512;
        // Everything mdadm lays out starts on a page, but for the bitmaps of old that share the superblock's.
        let neighbours = [header.super_offset, header.data_offset];
        let paged = start_sector % page == 0 && neighbours.iter().all(|place| place % page == 0);
        Some(Self { start_sector, unit_sectors: if paged { page } else { u64::from(logical_block_bytes / 512).max(1) } })
    }
}
