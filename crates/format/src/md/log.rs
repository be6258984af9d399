//! Stria's write log on an md member: in the space that md leaves between its metadata and the data.
//!
//! ```text
//! … superblock, bitmap, bad blocks │ free │ ring: part │ part │ … │ head (4 KiB) │ data …
//! ```
//! The head is just before the data, where it can be found with only the superblock. It names a **session**: one run of the
//! array. An append in the ring counts only if it was written in the session that the head names. The head counts only if the
//! newest superblock carries its **tag** in the microseconds of `utime`. Linux and mdadm write zeros there, and so does Stria for
//! a clean array: a program that ran the array since has voided the log. The head of a new session also names the tag before,
//! since superblocks follow later.
//!
//! The ring has equal parts, one for each lane that the array ran on; the head says how many. A part is a ring of its own.
//! Sequences and record numbers are counted within it, and members are compared part by part. A stripe belongs to one lane for
//! the length of a session, so no two parts speak of the same stripe.
//!
//! An append is a head of 4 KiB with up to 62 entries, followed by their bytes. Appends follow one another around their part,
//! with sequence numbers. Each says up to which record all are retired, and how many before it were not known to be durable
//! when it was sent: these may be missing or torn, and no others may. Space is reused when the append that declares it free is
//! durable, and one page is always left to declare it (R22). A member that returns in the same session begins a new incarnation
//! (`life`). The head counts them, and the checksums of appends are salted with the count, so that appends of the incarnation
//! before do not count (R39).
//!
//! A kernel sees free space and a dirty array, and resyncs by the bitmap. After a clean stop there is nothing to see.

mod found;
mod ring;
#[cfg(test)]
mod tests;

pub use self::found::{FoundLog, FoundPart};
pub(crate) use self::found::{pages, replay_sectors};
pub(crate) use self::ring::{Memory, Ring};

use super::checksums::WITNESSED;
use super::superblock::Superblock;
use crate::fields::on_disk;
use stria_array::{DriveSector, LogRecord};
use stria_parity::crc32c;

/// 4 KiB: heads, and the unit of positions in the ring.
const PAGE_SECTORS: u64 = 8;
const PAGE_BYTES: usize = 4096;

/// 532 KiB, the shortest part: the largest append fits on one side of a page that lies anywhere. Where there is less space, no
/// log is created.
const RING_SECTORS_MIN: u64 = 2 * (LogRecord::APPEND_SECTORS_MIN + PAGE_SECTORS) + PAGE_SECTORS;
/// 8 MiB, the longest part: with some thousand records for each flush, a flush or a slow write holds up no other writes.
const RING_SECTORS_MAX: u64 = 1 << 14;

/// The most lanes of an array. With the length of a part this bounds what is read of a member's log: 512 MiB, of which at most
/// one part at a time is in memory, besides the records that count. Their bytes take as much as on the drive.
const PARTS_MAX: usize = 64;

/// 1 Mi: the most records that one start replays, some 3 GiB with what replay needs for each. What counts was in flight, or has
/// ended since the last flush: a fast machine leaves some hundred thousand. Forged logs have space for many millions.
pub(crate) const RECORDS_MAX: usize = 1 << 20;
/// 4 GiB: the most that replay computes before it writes. A record of 64 bytes may stand for megabytes.
pub(crate) const REPLAY_SECTORS_MAX: u64 = 8 << 20;

/// The distance by which a session may be ahead of its member's superblock: it is numbered before the superblock update that
/// begins it, and the member may have missed the update before.
const SESSION_AHEAD_MAX: u64 = 2;

/// One append takes at most a quarter of a part, so that it finds space while another is not retired yet.
const APPEND_SHARE: u64 = 4;

pub(crate) const MAGIC: [u8; 8] = *b"StriaLog";
const APPEND_MAGIC: [u8; 8] = *b"StriaApp";

on_disk! {
    /// Names the member of this log, and the session of its appends.
    pub struct LogHead [128] {
        /// `StriaLog`.
        0x00 magic: [u8; 8],
        /// 1, or 2 where there are several parts or incarnations, which older programs would misread. The fields before
        /// `ring_sectors` never change.
        0x08 version: u32,
        /// Checksum of the page, this field taken as zero.
        0x0c crc: u32,
        /// The array's identity.
        0x10 set_uuid: [u8; 16],
        /// The member's identity.
        0x20 device_uuid: [u8; 16],
        /// Grows from run to run.
        0x30 session: u64,
        /// Microseconds in `utime` of superblocks of this session, 1 to 999,999.
        0x38 tag: u32,
        /// The same, of the session before.
        0x3c tag_before: u32,
        /// Length of the ring, which ends where this head starts.
        0x40 ring_sectors: u64,
        /// Bit 0: the array is to have no log. Bit 1: the log could not be read when its session was replayed; bit 0 does not count
        /// then.
        0x48 flags: u64,
        /// 0. Before `life` existed: appends with smaller sequence numbers are of an earlier incarnation of the member.
        0x50 sequence_from: u64,
        /// The number of the member's returns in this session: appends of its earlier incarnations do not count.
        0x58 life: u32,
        /// The number of parts of the ring; 0 and 1: it is one.
        0x5c parts: u32,
        /// Zero.
        0x60 reserved: [u8; 32],
    }
}

const FLAG_OFF: u64 = 1;
const FLAG_LOST: u64 = 2;

const VERSION_MAX: u32 = 2;

on_disk! {
    /// The head of an append, before its entries.
    pub struct AppendHead [64] {
        /// `StriaApp`.
        0x00 magic: [u8; 8],
        /// The session that wrote it.
        0x08 session: u64,
        /// Counts appends to this part in the member's incarnation, from 1.
        0x10 sequence: u64,
        /// All records with smaller numbers are retired.
        0x18 retired_below: u64,
        /// Its position in the ring, all parts together.
        0x20 start_sector: u32,
        /// Its length, this page included.
        0x24 sectors: u32,
        /// The number of entries that follow.
        0x28 count: u32,
        /// Checksum of head, entries and the salt, this field taken as zero.
        0x2c crc: u32,
        /// Checksum of the bytes after the page.
        0x30 payload_crc: u32,
        /// The sequence number of the oldest append that still counts.
        0x34 live_from: u64,
        /// The number of appends before it that were not known to be durable.
        0x3c unsure_count: u32,
    }
}

on_disk! {
    /// One record; its bytes follow those of the entry before.
    pub struct Entry [64] {
        /// The record's number.
        0x00 number: u64,
        /// Which stripe.
        0x08 stripe: u64,
        /// First row, in sectors of the strip.
        0x10 row: u32,
        /// Count of rows.
        0x14 rows: u32,
        /// First data strip that is written, by address.
        0x18 first: u16,
        /// Count of data strips that are written.
        0x1a count: u16,
        /// 0: P, 1: Q, 2: R.
        0x1c parity: u8,
        /// Bit 0: partial parity follows. Bit 1: then the new bytes of each written strip. Bit 2: the new bytes are zeros.
        0x1d holds: u8,
        /// Zero.
        0x1e reserved: [u8; 34],
    }
}

const _: () = assert!(AppendHead::SIZE_BYTES + LogRecord::APPEND_COUNT_MAX * Entry::SIZE_BYTES <= PAGE_BYTES);

const HOLDS_PARTIAL: u8 = 1;
const HOLDS_NEW_DATA: u8 = 2;
const HOLDS_ZEROS: u8 = 4;

/// The space for a log that md leaves on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSpace {
    /// First sector of the head; the ring ends there.
    pub head_start: DriveSector,
    /// The most that the ring may take.
    sectors: u64,
}

impl LogSpace {
    /// `bitmap_sectors`: 0 without a bitmap. `None`: too little space, or data comes first, or the array has md's partial
    /// parity log.
    pub fn of(superblock: &Superblock, bitmap_sectors: u64) -> Option<Self> {
        if superblock.ppl().is_some() {
            return None;
        }
        let header = &superblock.header;
        let after = |offset: i32, sectors: u64| (superblock.sector_at(offset) + sectors).get();
        let mut start = header.super_offset + PAGE_SECTORS;
        if bitmap_sectors > 0 {
            start = start.max(after(header.bitmap_offset, bitmap_sectors));
        }
        if header.bblog_offset != 0 {
            start = start.max(after(header.bblog_offset, u64::from(header.bblog_size)));
        }
        let start = start.next_multiple_of(PAGE_SECTORS);
        let head_start = (header.data_offset.checked_sub(PAGE_SECTORS)?) / PAGE_SECTORS * PAGE_SECTORS;
        let sectors = head_start.checked_sub(start)? / PAGE_SECTORS * PAGE_SECTORS;
        let fits = header.super_offset < header.data_offset && sectors >= RING_SECTORS_MIN;
        fits.then_some(Self { head_start: DriveSector::new(head_start), sectors })
    }

    /// The most parts that a ring here may have.
    pub fn parts_max(&self) -> usize {
        ((self.sectors / RING_SECTORS_MIN) as usize).min(PARTS_MAX)
    }

    /// A ring of this many parts. `None`: more than [`LogSpace::parts_max`].
    pub fn cut(&self, parts: usize) -> Option<LogLocation> {
        let part_sectors = self.sectors / parts as u64 / PAGE_SECTORS * PAGE_SECTORS;
        let location = LogLocation { head_start: self.head_start, parts, part_sectors: part_sectors.min(RING_SECTORS_MAX) };
        (parts <= self.parts_max()).then_some(location)
    }
}

/// The position of a member's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLocation {
    /// First sector of the head; the ring ends there.
    pub head_start: DriveSector,
    /// The number of parts of the ring.
    pub parts: usize,
    /// Length of each.
    pub part_sectors: u64,
}

impl LogLocation {
    /// The position that a head names. `None`: it is impossible, or a later program's.
    fn of(head: &LogHead, space: &LogSpace) -> Option<Self> {
        let count = u64::from(head.parts.max(1));
        let location = Self { head_start: space.head_start, parts: count as usize, part_sectors: head.ring_sectors / count };
        let fits = head.version <= VERSION_MAX
            && location.parts <= PARTS_MAX
            && head.ring_sectors <= space.sectors
            && location.ring_sectors() == head.ring_sectors
            && location.part_sectors.is_multiple_of(PAGE_SECTORS)
            && (RING_SECTORS_MIN..=RING_SECTORS_MAX).contains(&location.part_sectors);
        fits.then_some(location)
    }

    /// Length of all.
    pub fn ring_sectors(&self) -> u64 {
        self.parts as u64 * self.part_sectors
    }

    /// First sector of a part, from where the ring starts.
    fn part_start(&self, part: usize) -> u64 {
        assert!(part < self.parts, "part {part} of {}", self.parts);
        part as u64 * self.part_sectors
    }

    /// First sector of the ring.
    pub fn ring_start(&self) -> DriveSector {
        self.head_start.saturating_sub(self.ring_sectors())
    }

    /// The size of the largest append.
    pub fn append_sectors_max(&self) -> u64 {
        (self.part_sectors / APPEND_SHARE).max(LogRecord::APPEND_SECTORS_MIN)
    }
}

/// A log session: one run of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub number: u64,
    pub tag: u32,
    pub tag_before: u32,
}

impl Session {
    /// The session of a run that begins after `events` superblock updates. It is greater than all before, since each run
    /// updates superblocks.
    pub fn after(events: u64, tag_before: u32) -> Self {
        let number = events + 1;
        // Any tag that differs from the one before will do.
        let tag = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % 999_999 + 1;
        let tag = if tag == tag_before { tag % 999_999 + 1 } else { tag };
        Self { number, tag, tag_before }
    }
}

/// The salt for checksums of a member's appends (R39): copies from elsewhere, and appends of its earlier incarnations, do not
/// count.
pub(crate) fn salt_of(superblock: &Superblock, incarnation: u32) -> [u8; 16] {
    (u128::from_be_bytes(superblock.header.device_uuid) ^ u128::from(incarnation) << 96).to_be_bytes()
}

/// The log of a member that could not be read, from the session that is replayed (R80).
#[derive(Clone, Debug)]
pub(crate) struct LostLog {
    pub session: Session,
    /// The number of parts in that session.
    pub parts: usize,
    /// As its head says; `None`: that cannot be read either.
    pub location: Option<LogLocation>,
    pub incarnation: u32,
}

/// The page of the head that says of a log what a later start may not see any more: that it could not be read.
pub(crate) fn encode_lost_head(superblock: &Superblock, space: &LogSpace, log: &LostLog) -> Option<Vec<u8>> {
    let location = log.location.or_else(|| space.cut(log.parts))?;
    Some(encode(superblock, &location, &log.session, FLAG_LOST, log.incarnation))
}

/// The head's page.
pub(crate) fn encode_head(
    superblock: &Superblock,
    location: &LogLocation,
    session: &Session,
    off: bool,
    incarnation: u32,
) -> Vec<u8> {
    encode(superblock, location, session, if off { FLAG_OFF } else { 0 }, incarnation)
}

fn encode(superblock: &Superblock, location: &LogLocation, session: &Session, flags: u64, incarnation: u32) -> Vec<u8> {
    let mut head = LogHead {
        magic: MAGIC,
        version: if incarnation > 0 || location.parts > 1 { 2 } else { 1 },
        crc: 0,
        set_uuid: superblock.header.set_uuid,
        device_uuid: superblock.header.device_uuid,
        session: session.number,
        tag: session.tag,
        tag_before: session.tag_before,
        ring_sectors: location.ring_sectors(),
        flags,
        sequence_from: 0,
        life: incarnation,
        parts: location.parts as u32,
        reserved: [0; 32],
    };
    let page = |head: &LogHead| {
        let mut page = head.write().to_vec();
        page.resize(PAGE_BYTES, 0);
        page
    };
    head.crc = crc32c(&page(&head));
    page(&head)
}

/// True if superblocks with this tag name no session: after a clean stop, before the first resync has ended, or after another
/// program.
pub(crate) fn names_no_session(tag: u32) -> bool {
    tag == 0 || u64::from(tag) == WITNESSED
}

/// The checksum of an append's head and entries.
fn append_crc(head: &[u8], salt: &[u8; 16]) -> u32 {
    let mut whole = [0; PAGE_BYTES + 16];
    whole[..head.len()].copy_from_slice(head);
    whole[0x2c..0x30].fill(0);
    whole[head.len()..head.len() + 16].copy_from_slice(salt);
    crc32c(&whole[..head.len() + 16])
}
