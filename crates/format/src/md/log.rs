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

use super::checksums::WITNESSED;
use super::shape::level_of;
use super::superblock::Superblock;
use crate::fields::on_disk;
use crate::read::Read;
use std::collections::VecDeque;
use std::ops::Range;
use stria_array::address::Sectors;
use stria_array::{AppendTerms, DriveSector, LogRecord, StripSector};
use stria_block::{Buffer, Claim, Data, Pool, bytes};
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
        /// Bit 0: the array is to have no log. Bit 1: the log could not be read when its session was replayed.
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

/// The contents of a member's log.
#[derive(Clone, Debug, Default)]
pub struct FoundLog {
    /// The array has no log, by choice.
    pub off: bool,
    /// As in the head.
    pub version: u32,
    /// Session, tag, and the tag before.
    pub(crate) session: Session,
    /// The position that the head names, and the member's incarnation.
    pub(crate) location: Option<LogLocation>,
    pub(crate) incarnation: u32,
    /// The part of each lane of that session. Empty if the session is not the superblock's.
    pub parts: Vec<FoundPart>,
    /// It holds more than [`RECORDS_MAX`] records that count, and they were dropped.
    pub(crate) is_excessive: bool,
    /// The reason why the head or a part cannot be read: which records it held is not known.
    pub(crate) unreadable: Option<String>,
}

/// The contents of a part of the ring.
#[derive(Clone, Debug, Default)]
pub struct FoundPart {
    /// Records of the session, in the order of their appends.
    pub records: Vec<LogRecord>,
    /// The newest append declares all records of this part with smaller numbers retired.
    pub retired_below: u64,
    /// A valid append is missing: the drive lost a write that it had acknowledged. Or the part cannot be read.
    pub damaged: bool,
}

/// True if superblocks with this tag name no session: after a clean stop, before the first resync has ended, or after another
/// program.
pub(crate) fn names_no_session(tag: u32) -> bool {
    tag == 0 || u64::from(tag) == WITNESSED
}

impl FoundLog {
    /// Reads the log of a member, and the ring only if its session is the superblock's, or the superblock names none: the member
    /// may have missed the update that does (R59). `None`: there is no log, or it is another member's.
    pub(crate) fn read(superblock: &Superblock, space: &LogSpace, read: &mut Read) -> Option<Self> {
        let page = match read(space.head_start.get(), PAGE_SECTORS) {
            Ok(page) => page,
            Err(error) => return Some(Self { unreadable: Some(error.to_string()), ..Self::default() }),
        };
        let head = LogHead::read(page.get(..LogHead::SIZE_BYTES)?.try_into().expect("cut to size"));
        let header = &superblock.header;
        let mut bare = page.clone();
        bare[0x0c..0x10].fill(0);
        let ours = (head.magic, head.set_uuid, head.device_uuid) == (MAGIC, header.set_uuid, header.device_uuid);
        if !ours || head.version == 0 || head.crc != crc32c(&bare) {
            return None;
        }
        let session = Session { number: head.session, tag: head.tag, tag_before: head.tag_before };
        let (off, incarnation) = (head.flags & FLAG_OFF != 0, head.life);
        let mut found = Self { off, version: head.version, session, incarnation, ..Self::default() };
        if head.flags & FLAG_LOST != 0 {
            found.unreadable = Some("an earlier start could not".into());
        }
        let tag = superblock.utime_micros();
        if found.off || !(found.speaks_for(tag) || names_no_session(tag)) {
            return Some(found);
        }
        let location = LogLocation::of(&head, space).filter(|_| session.number <= header.events + SESSION_AHEAD_MAX);
        let damaged = || FoundPart { damaged: true, ..FoundPart::default() };
        let (salt, bounds) = (salt_of(superblock, head.life), Bounds::of(superblock));
        found.location = location;
        let Some(location) = location else {
            found.parts.push(damaged());
            return Some(found);
        };
        let mut part = |part: usize| {
            let start = location.part_start(part);
            let (first, sectors) = ((location.ring_start() + start).get(), location.part_sectors);
            let of = (session.number, &salt, &bounds);
            let error = match read(first, sectors) {
                Ok(bytes) => return Ok(FoundPart::scan(&bytes, start, of, head.sequence_from).0),
                Err(error) => error,
            };
            let (bytes, unreadable) = read_pages(first, sectors, &mut *read);
            let (found, newest) = FoundPart::scan(&bytes, start, of, head.sequence_from);
            match found.damaged || hides_appends(&bytes, newest, &unreadable) {
                true => Err(error.to_string()),
                false => Ok(found),
            }
        };
        let mut record_count = 0;
        for index in 0..location.parts {
            let part = part(index).unwrap_or_else(|error| {
                found.unreadable = Some(error);
                damaged()
            });
            record_count += part.records.len();
            if record_count > RECORDS_MAX {
                return Some(Self { is_excessive: true, parts: vec![damaged()], ..found });
            }
            found.parts.push(part);
        }
        Some(found)
    }

    /// True if this program understands the head.
    pub fn is_understood(&self) -> bool {
        self.version <= VERSION_MAX
    }

    /// True if some part is damaged.
    pub fn is_damaged(&self) -> bool {
        self.parts.iter().any(|part| part.damaged)
    }

    /// True if superblocks with this tag belong to this log's session.
    pub(crate) fn speaks_for(&self, tag: u32) -> bool {
        tag != 0 && (tag == self.session.tag || tag == self.session.tag_before)
    }

    /// True if it is a log of this session, without damage.
    pub(crate) fn is_of(&self, session: u64) -> bool {
        self.session.number == session && !self.is_damaged() && !self.off
    }
}

/// The head's page and, for each part, that of the newest append of the head's session, with their positions on the drive. For
/// `examine --raw`: whether the log counts says [`FoundLog`].
pub(crate) fn pages(superblock: &Superblock, space: &LogSpace, read: &mut Read) -> Vec<(DriveSector, Vec<u8>)> {
    let Ok(page) = read(space.head_start.get(), PAGE_SECTORS) else { return Vec::new() };
    if !page.starts_with(&MAGIC) || page.len() < PAGE_BYTES {
        return Vec::new();
    }
    let head = LogHead::read(page[..LogHead::SIZE_BYTES].try_into().expect("cut to size"));
    let mut pages = vec![(space.head_start, page)];
    let Some(location) = LogLocation::of(&head, space) else { return pages };
    let (salt, bounds) = (salt_of(superblock, head.life), Bounds::of(superblock));
    for start in (0..location.parts).map(|part| location.part_start(part)) {
        let Ok(part) = read((location.ring_start() + start).get(), location.part_sectors) else { continue };
        let mut newest: Option<(u64, u64)> = None;
        let mut at = 0;
        while let Some(rest) = part.get(bytes(at)..).filter(|rest| rest.len() >= PAGE_BYTES) {
            at += match parse_append(rest, start + at, (head.session, &salt, &bounds)) {
                Append::Whole(append, _) => {
                    newest = newest.max(Some((append.sequence, at)));
                    append.sectors.into()
                }
                Append::None | Append::Contradicts => PAGE_SECTORS,
            };
        }
        let page = |(_, at): (u64, u64)| (location.ring_start() + start + at, part[bytes(at)..][..PAGE_BYTES].to_vec());
        pages.extend(newest.map(page));
    }
    pages
}

/// The amount that replay computes of a record, in sectors: its parity, and the new data that the record holds.
pub(crate) fn replay_sectors(record: &LogRecord) -> u64 {
    let new_strips = if record.new_data_is_zeros { record.written.len() } else { record.new_data.len() };
    record.rows.sectors() * (1 + new_strips as u64)
}

impl FoundPart {
    /// Collects the valid appends of a part that starts at this offset in the ring.
    ///
    /// Also returns the page behind the newest one, and whether every append that still counts is there; `None`: there is none at
    /// all.
    fn scan(part: &[u8], start_sector: u64, of: (u64, &[u8; 16], &Bounds), sequence_from: u64) -> (Self, Option<(usize, bool)>) {
        let mut appends: Vec<(AppendHead, Vec<LogRecord>)> = Vec::new();
        let mut contradicts = false;
        let mut page = 0;
        let pages = part.len() / PAGE_BYTES;
        while page < pages {
            match parse_append(&part[page * PAGE_BYTES..], start_sector + page as u64 * PAGE_SECTORS, of) {
                Append::Whole(head, records) => {
                    page += (u64::from(head.sectors) / PAGE_SECTORS) as usize;
                    if head.sequence >= sequence_from {
                        appends.push((head, records));
                    }
                }
                Append::None => page += 1,
                Append::Contradicts => {
                    contradicts = true;
                    page += 1;
                }
            }
        }
        if contradicts {
            return (Self { damaged: true, ..Self::default() }, None);
        }
        appends.sort_by_key(|(head, _)| head.sequence);
        let Some((newest, _)) = appends.last() else { return (Self::default(), None) };
        let next = u64::from(newest.start_sector) - start_sector + u64::from(newest.sectors);
        let mut present: Vec<u64> = appends.iter().map(|(head, _)| head.sequence).collect();
        present.retain(|sequence| (newest.live_from..=newest.sequence).contains(sequence));
        present.dedup();
        let is_whole = present.len() as u64 == newest.sequence.saturating_add(1).saturating_sub(newest.live_from);
        let newest_end = Some(((next / PAGE_SECTORS) as usize, is_whole));
        let (live_from, retired_below) = (newest.live_from, newest.retired_below);
        let sure_below = newest.sequence.saturating_sub(newest.unsure_count.into());
        let mut sure: Vec<u64> = appends.iter().map(|(head, _)| head.sequence).collect();
        sure.retain(|sequence| (live_from..sure_below).contains(sequence));
        // An append that was taken back may have landed elsewhere in the ring, under the number that the next one got.
        sure.dedup();
        let live = appends.into_iter().filter(|(head, _)| head.sequence >= live_from);
        let records = live.flat_map(|(_, records)| records).filter(|record| record.number >= retired_below);
        let damaged = sure.len() as u64 != sure_below.saturating_sub(live_from);
        (Self { records: records.collect(), retired_below, damaged }, newest_end)
    }
}

/// A part of the ring, page by page, with zeros for pages that cannot be read. Also which these are.
fn read_pages(first: u64, sectors: u64, read: &mut Read) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut unreadable) = (Vec::with_capacity(sectors as usize * 512), Vec::new());
    for page in 0..(sectors / PAGE_SECTORS) as usize {
        match read(first + page as u64 * PAGE_SECTORS, PAGE_SECTORS) {
            Ok(found) => bytes.extend_from_slice(&found),
            Err(_) => {
                unreadable.push(page);
                bytes.resize(bytes.len() + PAGE_BYTES, 0);
            }
        }
    }
    (bytes, unreadable)
}

/// True if pages that cannot be read may hold an append that counts. `newest`: as [`FoundPart::scan`] returns it.
///
/// The first append of a session is at the start of its part, and each other one behind the one before, or at the start again.
fn hides_appends(part: &[u8], newest: Option<(usize, bool)>, unreadable: &[usize]) -> bool {
    let (next, is_whole) = newest.unwrap_or((0, true));
    let pages = part.len() / PAGE_BYTES;
    // The bytes of an append whose head can be read.
    let reaches = |start: usize| {
        let page = &part[start * PAGE_BYTES..];
        let head = AppendHead::read(page[..AppendHead::SIZE_BYTES].try_into().expect("cut to size"));
        let end = start.saturating_add((u64::from(head.sectors) / PAGE_SECTORS).max(1) as usize);
        let end = if head.magic == APPEND_MAGIC { end } else { start + 1 };
        unreadable.iter().any(|page| (start..end).contains(page))
    };
    !is_whole || [next, 0].into_iter().filter(|&start| start < pages).any(reaches)
}

/// Bounds for what records may name, from the superblock of their member. The engine trusts records.
struct Bounds {
    strip_sectors: u64,
    stripe_count: u64,
    data_count: usize,
    parity_count: usize,
}

impl Bounds {
    fn of(superblock: &Superblock) -> Self {
        let header = &superblock.header;
        let parity_count = level_of(header).map_or(0, |level| level.parity_count());
        let strip_sectors = u64::from(header.chunksize);
        Self {
            strip_sectors,
            stripe_count: header.size.checked_div(strip_sectors).unwrap_or(0),
            data_count: (header.raid_disks as usize).saturating_sub(parity_count),
            parity_count,
        }
    }

    fn allow(&self, entry: &Entry) -> bool {
        let (row, rows) = (u64::from(entry.row), u64::from(entry.rows));
        rows > 0
            && row + rows <= self.strip_sectors
            && entry.stripe < self.stripe_count
            && usize::from(entry.first) + usize::from(entry.count) <= self.data_count
            && usize::from(entry.parity) < self.parity_count
    }
}

/// The append that a page of the ring starts.
enum Append {
    /// No append of this session, or one that was torn.
    None,
    /// One with these records.
    Whole(AppendHead, Vec<LogRecord>),
    /// Its checksums match, but it names rows or strips that the array does not have.
    Contradicts,
}

/// The append that starts with these bytes. `of`: session, salt, and bounds.
fn parse_append(bytes: &[u8], start_sector: u64, (session, salt, bounds): (u64, &[u8; 16], &Bounds)) -> Append {
    if bytes[..8] != APPEND_MAGIC {
        return Append::None;
    }
    let head = AppendHead::read(bytes[..AppendHead::SIZE_BYTES].try_into().expect("cut to size"));
    let len = head.sectors as usize * 512;
    let count = head.count as usize;
    let sane = head.session == session
        && u64::from(head.start_sector) == start_sector
        && (PAGE_BYTES..=bytes.len()).contains(&len)
        && len.is_multiple_of(PAGE_BYTES)
        && count <= LogRecord::APPEND_COUNT_MAX
        && head.crc == append_crc(&bytes[..AppendHead::SIZE_BYTES + count * Entry::SIZE_BYTES], salt)
        && head.payload_crc == crc32c(&bytes[PAGE_BYTES..len]);
    if !sane {
        return Append::None;
    }
    // One allocation for the append: as many of their own would take a page for each.
    let payload = Buffer::copy_of(&bytes[PAGE_BYTES..len]).freeze();
    let mut rest = 0..payload.len();
    let mut records = Vec::with_capacity(count);
    for entry in bytes[AppendHead::SIZE_BYTES..PAGE_BYTES].chunks_exact(Entry::SIZE_BYTES).take(count) {
        let entry = Entry::read(entry.try_into().expect("cut to size"));
        match record_of(&entry, &payload, &mut rest).filter(|_| bounds.allow(&entry)) {
            Some(record) => records.push(record),
            None => return Append::Contradicts,
        }
    }
    Append::Whole(head, records)
}

/// An entry with its bytes, the next of `rest` of an append's payload. `None`: there are too few.
fn record_of(entry: &Entry, payload: &Data, rest: &mut Range<usize>) -> Option<LogRecord> {
    let strip_len = entry.rows as usize * 512;
    let strips = if entry.holds & HOLDS_NEW_DATA != 0 { usize::from(entry.count) } else { 0 };
    let pieces = strips + usize::from(entry.holds & HOLDS_PARTIAL != 0);
    // Empty pieces take no bytes, so only `Bounds` limits their number.
    if strip_len == 0 || strip_len.checked_mul(pieces)? > rest.len() {
        return None;
    }
    let mut take = || {
        let from = rest.start;
        rest.start += strip_len;
        payload.slice(from, strip_len)
    };
    Some(LogRecord {
        number: entry.number,
        stripe: entry.stripe,
        rows: StripSector::new(entry.row.into()).run(entry.rows.into()),
        written: entry.first.into()..usize::from(entry.first) + usize::from(entry.count),
        parity: entry.parity.into(),
        partial: (entry.holds & HOLDS_PARTIAL != 0).then(&mut take),
        new_data: (0..strips).map(|_| take()).collect(),
        new_data_is_zeros: entry.holds & HOLDS_ZEROS != 0,
    })
}

/// The checksum of an append's head and entries.
fn append_crc(head: &[u8], salt: &[u8; 16]) -> u32 {
    let mut whole = [0; PAGE_BYTES + 16];
    whole[..head.len()].copy_from_slice(head);
    whole[0x2c..0x30].fill(0);
    whole[head.len()..head.len() + 16].copy_from_slice(salt);
    crc32c(&whole[..head.len() + 16])
}

/// An append that still counts.
#[derive(Clone, Debug)]
struct Live {
    sequence: u64,
    range: Range<u64>,
    /// The append counts until all records with numbers up to here are retired. One without records declares the space of
    /// others free, until the next append does.
    last_number: u64,
}

/// A part of one member's ring, while the array runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    sequence: u64,
    next: u64,
    live: VecDeque<Live>,
    /// The last append, until it is taken back or another follows: its number, and where the next one would have gone before
    /// it.
    last: Option<(u64, u64)>,
}

impl Ring {
    /// A position for an append of this size, if the space of records below `free_below` is free (R22). With records, it leaves
    /// space behind it for a head without any.
    fn next_start(&mut self, part_sectors: u64, sectors: u64, free_below: u64, has_records: bool) -> Option<u64> {
        while self.live.front().is_some_and(|live| live.last_number < free_below) {
            self.live.pop_front();
        }
        let from = |next: u64, sectors: u64| if next + sectors <= part_sectors { next } else { 0 };
        let is_free = |start: u64, sectors: u64| {
            let taken = |live: &Live| live.range.start < start + sectors && start < live.range.end;
            start + sectors <= part_sectors && !self.live.iter().any(taken)
        };
        let start = from(self.next, sectors);
        let behind = from(start + sectors, PAGE_SECTORS);
        let leaves_space = behind >= start + sectors || behind + PAGE_SECTORS <= start;
        let space = is_free(start, sectors) && (!has_records || leaves_space && is_free(behind, PAGE_SECTORS));
        space.then_some(start)
    }

    /// The bytes that append `records` to a part in a session, and their position on the drive. `None`: no space before more
    /// are retired.
    pub fn append(
        &mut self,
        at: (&LogLocation, usize, &[u8; 16], u64),
        records: &[LogRecord],
        terms: AppendTerms,
        memory: &mut Memory,
    ) -> Option<(DriveSector, Data)> {
        let AppendTerms { retired_below, free_below, unsure_count } = terms;
        // Without records the append exists to free the oldest; otherwise it would only fill the ring.
        if records.is_empty() && self.live.front().is_none_or(|live| live.last_number >= retired_below) {
            return None;
        }
        let (location, part, salt, session) = at;
        let payload: u64 = records.iter().map(LogRecord::payload_sectors).sum();
        let sectors = PAGE_SECTORS + payload.next_multiple_of(PAGE_SECTORS);
        let start = self.next_start(location.part_sectors, sectors, free_below, !records.is_empty())?;
        let mut buffer = memory.take(bytes(sectors));
        let (page, body) = buffer.split_at_mut(PAGE_BYTES);
        page.fill(0);
        let mut rest = &mut body[..];
        for (record, slot) in records.iter().zip(page[AppendHead::SIZE_BYTES..].chunks_exact_mut(Entry::SIZE_BYTES)) {
            let holds = if record.partial.is_some() { HOLDS_PARTIAL } else { 0 }
                | if record.new_data.is_empty() { 0 } else { HOLDS_NEW_DATA }
                | if record.new_data_is_zeros { HOLDS_ZEROS } else { 0 };
            let entry = Entry {
                number: record.number,
                stripe: record.stripe,
                row: record.rows.start.get() as u32,
                rows: record.rows.sectors() as u32,
                first: record.written.start as u16,
                count: record.written.len() as u16,
                parity: record.parity as u8,
                holds,
                reserved: [0; 34],
            };
            slot.copy_from_slice(&entry.write());
            for data in record.partial.iter().chain(&record.new_data) {
                let (front, back) = rest.split_at_mut(data.len());
                front.copy_from_slice(data);
                rest = back;
            }
        }
        rest.fill(0);
        self.sequence += 1;
        let mut head = AppendHead {
            magic: APPEND_MAGIC,
            session,
            sequence: self.sequence,
            retired_below,
            start_sector: (location.part_start(part) + start) as u32,
            sectors: sectors as u32,
            count: records.len() as u32,
            crc: 0,
            payload_crc: crc32c(body),
            live_from: self
                .live
                .iter()
                .find(|live| live.last_number >= retired_below)
                .map_or(self.sequence, |live| live.sequence),
            unsure_count,
        };
        page[..AppendHead::SIZE_BYTES].copy_from_slice(&head.write());
        head.crc = append_crc(&page[..AppendHead::SIZE_BYTES + records.len() * Entry::SIZE_BYTES], salt);
        page[..AppendHead::SIZE_BYTES].copy_from_slice(&head.write());
        let last_number = records.iter().map(|record| record.number).max().unwrap_or(retired_below);
        self.live.push_back(Live { sequence: self.sequence, range: start..start + sectors, last_number });
        self.last = Some((self.sequence, self.next));
        self.next = start + sectors;
        Some((location.ring_start() + location.part_start(part) + start, memory.give(buffer)))
    }

    /// The last append could not be written: the next one takes its number and its position.
    pub fn take_back(&mut self) {
        if let Some((sequence, next)) = self.last.take()
            && self.live.back().is_some_and(|live| live.sequence == sequence)
        {
            self.live.pop_back();
            (self.sequence, self.next) = (sequence - 1, next);
        }
    }
}

/// Memory of appends, reused once they are written.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pool: Pool,
    lent: VecDeque<Claim>,
}

impl Memory {
    pub fn take(&mut self, len: usize) -> Buffer {
        for _ in 0..self.lent.len() {
            let claim = self.lent.pop_front().expect("counted");
            match claim.redeem() {
                Ok(buffer) => self.pool.give(buffer),
                Err(claim) => self.lent.push_back(claim),
            }
        }
        self.pool.take(len)
    }

    pub fn give(&mut self, buffer: Buffer) -> Data {
        self.lent.push_back(buffer.claim());
        buffer.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md::superblock::{Header, MAGIC as SUPERBLOCK_MAGIC};

    /// A drive with a log of this many parts.
    struct Bench {
        drive: Vec<u8>,
        superblock: Superblock,
        location: LogLocation,
        session: Session,
        memory: Memory,
        incarnation: u32,
    }

    impl Bench {
        fn new(parts: usize) -> Self {
            let mut header = Header::read(&[0; Header::SIZE_BYTES]);
            // The ring lies behind the superblock, and the head behind the ring.
            let data_offset = 24 + parts as u64 * RING_SECTORS_MIN + 8;
            (header.magic, header.level, header.super_offset, header.data_offset) = (SUPERBLOCK_MAGIC, 5, 8, data_offset);
            (header.chunksize, header.raid_disks, header.size, header.events) = (1024, 3, 8192, 7);
            let session = Session::after(6, 0);
            // The superblock carries the session's tag.
            header.utime = u64::from(session.tag) << 40;
            let superblock = Superblock { header, roles: Vec::new(), span_of: None };
            let space = LogSpace::of(&superblock, 0).expect("there is space");
            assert_eq!((space.parts_max(), space.cut(parts + 1)), (parts, None));
            let location = space.cut(parts).expect("there is space");
            Self { drive: vec![0; bytes(data_offset)], superblock, location, session, memory: Memory::default(), incarnation: 0 }
        }

        fn space(&self) -> LogSpace {
            LogSpace::of(&self.superblock, 0).expect("there is space")
        }

        fn write_head(&mut self) {
            let head = encode_head(&self.superblock, &self.location, &self.session, false, self.incarnation);
            self.drive[bytes(self.location.head_start.get())..][..head.len()].copy_from_slice(&head);
        }

        /// Changes the head's page, and puts its sum right.
        fn change_head(&mut self, change: impl FnOnce(&mut [u8])) {
            let page = &mut self.drive[bytes(self.location.head_start.get())..][..PAGE_BYTES];
            change(page);
            page[0x0c..0x10].fill(0);
            let crc = crc32c(page);
            page[0x0c..0x10].copy_from_slice(&crc.to_le_bytes());
        }

        /// Appends a record with so many sectors of partial parity, or none, to a part; where it went. `None`: no space.
        fn append(&mut self, to: (usize, &mut Ring), record: Option<(u64, u64)>, terms: AppendTerms) -> Option<Range<usize>> {
            let record = record.map(|(number, sectors)| LogRecord {
                number,
                stripe: 1,
                rows: StripSector::ZERO.run(sectors.max(8)),
                written: 0..2,
                parity: 0,
                // Zeros would look like a page that cannot be read.
                partial: (sectors > 0).then(|| Buffer::copy_of(&vec![0x5a; bytes(sectors)]).freeze()),
                new_data: Default::default(),
                new_data_is_zeros: false,
            });
            let (part, ring) = to;
            let at = (&self.location, part, &salt_of(&self.superblock, self.incarnation), self.session.number);
            let (start, data) = ring.append(at, record.as_slice(), terms, &mut self.memory)?;
            let start = bytes(start.get());
            let range = start..start + data.len();
            self.drive[range.clone()].copy_from_slice(&data);
            Some(range)
        }

        /// As [`Bench::append`], of a record without bytes, where there is space.
        fn append_bare(&mut self, to: (usize, &mut Ring), number: u64) -> Range<usize> {
            self.append(to, Some((number, 0)), FIRST).expect("there is space")
        }

        fn found(&self) -> FoundLog {
            let mut read = |start: u64, sectors: u64| Ok(self.drive[bytes(start)..][..bytes(sectors)].to_vec());
            FoundLog::read(&self.superblock, &self.space(), &mut read).expect("there is a log")
        }

        /// Each part: whether it is damaged, and the numbers of its records.
        fn parts(&self) -> Vec<(bool, Vec<u64>)> {
            self.found().parts.iter().map(|part| (part.damaged, numbers(part))).collect()
        }
    }

    const FIRST: AppendTerms = AppendTerms { retired_below: 0, free_below: 0, unsure_count: 0 };

    fn numbers(found: &FoundPart) -> Vec<u64> {
        found.records.iter().map(|record| record.number).collect()
    }

    /// Seed 22045: the head was written after the first appends, and named only the next one as the first.
    #[test]
    fn appends_count_that_come_before_the_head_when_a_member_is_back_and_none_of_the_life_before() {
        let mut bench = Bench::new(2);
        bench.write_head();
        let mut before = [Ring::default(), Ring::default()];
        for number in 1..4 {
            bench.append_bare((0, &mut before[0]), number);
            bench.append_bare((1, &mut before[1]), number);
        }
        assert_eq!(bench.parts(), [(false, vec![1, 2, 3]), (false, vec![1, 2, 3])]);
        bench.incarnation += 1;
        // One lane appends before the head is written, and after it; the other one not at all.
        let mut ring = Ring::default();
        bench.append_bare((0, &mut ring), 7);
        bench.write_head();
        bench.append_bare((0, &mut ring), 8);
        assert_eq!(bench.parts(), [(false, vec![7, 8]), (false, vec![])]);
        assert!(bench.found().is_of(bench.session.number));
    }

    #[test]
    fn an_append_that_nobody_waited_for_may_be_missing_and_no_other() {
        for (unsure_count, damaged) in [(0, true), (1, false)] {
            let mut bench = Bench::new(1);
            let mut ring = Ring::default();
            bench.write_head();
            bench.append((0, &mut ring), Some((1, 8)), FIRST).expect("there is space");
            let second = bench.append((0, &mut ring), Some((2, 8)), FIRST).expect("there is space");
            bench.append((0, &mut ring), Some((3, 8)), AppendTerms { unsure_count, ..FIRST }).expect("there is space");
            bench.drive[second].fill(0);
            assert_eq!(bench.parts(), [(damaged, vec![1, 3])], "{unsure_count} were not known to be durable");
        }
    }

    /// Regression: each took a page of memory for as little as a sector.
    #[test]
    fn the_bytes_of_an_append_take_as_much_in_memory_as_on_the_drive() {
        let mut bench = Bench::new(1);
        bench.write_head();
        let record = |number: u64| LogRecord {
            number,
            stripe: 1,
            rows: StripSector::new(number).run(1),
            written: 0..1,
            parity: 0,
            partial: Some(Buffer::copy_of(&[number as u8; 512]).freeze()),
            new_data: std::iter::once(Buffer::copy_of(&[!(number as u8); 512]).freeze()).collect(),
            new_data_is_zeros: false,
        };
        let records: Vec<LogRecord> = (1..50).map(record).collect();
        let at = (&bench.location, 0, &salt_of(&bench.superblock, 0), bench.session.number);
        let (start, data) = Ring::default().append(at, &records, FIRST, &mut bench.memory).expect("there is space");
        bench.drive[bytes(start.get())..][..data.len()].copy_from_slice(&data);
        let found = bench.found().parts.remove(0).records;
        assert_eq!(found.len(), records.len());
        let pieces: Vec<&Data> = found.iter().flat_map(|record| record.partial.iter().chain(&record.new_data)).collect();
        assert!(
            pieces
                .iter()
                .zip(records.iter().flat_map(|record| record.partial.iter().chain(&record.new_data)))
                .all(|(a, b)| ***a == **b)
        );
        assert!(pieces.windows(2).all(|pair| pair[0].as_ptr_range().end == pair[1].as_ptr()), "they lie side by side");
    }

    #[test]
    fn a_damaged_part_is_judged_by_itself() {
        let mut bench = Bench::new(3);
        bench.write_head();
        let mut lost = 0..0;
        for part in 0..3 {
            let mut ring = Ring::default();
            let ranges = [1, 2, 3].map(|number| bench.append_bare((part, &mut ring), number));
            lost = if part == 1 { ranges[1].clone() } else { lost };
        }
        bench.drive[lost].fill(0);
        assert_eq!(bench.parts(), [(false, vec![1, 2, 3]), (true, vec![1, 3]), (false, vec![1, 2, 3])]);
        assert!(!bench.found().is_of(bench.session.number), "what one lane cannot tell the log cannot");

        let end = bytes((bench.location.ring_start() + bench.location.part_start(1)).get());
        let mut read = |start: u64, sectors: u64| match bytes(start) < end {
            true => Err(stria_block::IoError::new(stria_block::ErrorKind::Medium, "medium error")),
            false => Ok(bench.drive[bytes(start)..][..bytes(sectors)].to_vec()),
        };
        let found = FoundLog::read(&bench.superblock, &bench.space(), &mut read).expect("there is a log");
        let damaged: Vec<bool> = found.parts.iter().map(|part| part.damaged).collect();
        assert_eq!(damaged, [true, true, false], "the first one cannot be read");
        assert!(found.unreadable.is_some_and(|error| error.contains("medium error")));
    }

    /// An unreadable sector counts only where an append that counts may lie.
    #[test]
    fn an_unreadable_page_hides_only_what_may_lie_there() {
        let mut bench = Bench::new(1);
        bench.write_head();
        let mut ring = Ring::default();
        let retired = AppendTerms { retired_below: 3, free_below: 0, unsure_count: 0 };
        let mut ranges = vec![bench.append_bare((0, &mut ring), 1), bench.append_bare((0, &mut ring), 2)];
        ranges.push(bench.append((0, &mut ring), Some((3, 16)), retired).expect("there is space"));
        ranges.push(bench.append((0, &mut ring), Some((4, 8)), retired).expect("there is space"));
        let page_of = |byte: usize| byte / PAGE_BYTES * PAGE_BYTES;
        let ring_end = bytes(bench.location.head_start.get());
        // Two that are retired, at the start, where the next round may begin; a head and bytes of two that count; the page behind
        // them; a page further on.
        let places = [
            (ranges[0].start, true),
            (ranges[1].start, false),
            (ranges[2].start, true),
            (ranges[2].end - 1, true),
            (ranges[3].end - 1, true),
            (ranges[3].end, true),
            (ranges[3].end + PAGE_BYTES, false),
            (ring_end - PAGE_BYTES, false),
        ];
        for (place, is_lost) in places {
            let bad = page_of(place)..page_of(place) + PAGE_BYTES;
            let mut read = |start: u64, sectors: u64| match bytes(start) < bad.end && bad.start < bytes(start + sectors) {
                true => Err(stria_block::IoError::new(stria_block::ErrorKind::Medium, "medium error")),
                false => Ok(bench.drive[bytes(start)..][..bytes(sectors)].to_vec()),
            };
            let found = FoundLog::read(&bench.superblock, &bench.space(), &mut read).expect("there is a log");
            assert_eq!(found.unreadable.is_some(), is_lost, "page at {place} of {ranges:?}");
            let expected = if is_lost { vec![] } else { vec![3, 4] };
            assert_eq!(numbers(&found.parts[0]), expected, "page at {place} of {ranges:?}");
        }
    }

    /// The format from before rings had parts and incarnations.
    #[test]
    fn a_head_of_the_old_form_is_read_as_it_was_meant() {
        let mut bench = Bench::new(1);
        let mut ring = Ring::default();
        for number in 1..4 {
            bench.append_bare((0, &mut ring), number);
        }
        bench.write_head();
        bench.change_head(|page| {
            assert_eq!(page[0x08..0x0c], [1, 0, 0, 0], "one part and one life are served by programs of before");
            page[0x58..0x80].fill(0);
        });
        assert_eq!(bench.parts(), [(false, vec![1, 2, 3])]);
        bench.change_head(|page| page[0x50..0x58].copy_from_slice(&4_u64.to_le_bytes()));
        assert_eq!(bench.parts(), [(false, vec![])], "the next life begins with the fourth");
        bench.append_bare((0, &mut Ring { sequence: 3, ..Ring::default() }), 7);
        assert_eq!(bench.parts(), [(false, vec![7])]);
    }

    #[test]
    fn a_head_that_is_not_understood_speaks_for_no_records() {
        // A later version; parts that do not fit; parts of no whole pages.
        for (field, value) in [(0x08, 3_u32), (0x5c, 4), (0x5c, u32::MAX), (0x40, 3 * RING_SECTORS_MIN as u32 + 12)] {
            let mut bench = Bench::new(3);
            bench.append_bare((0, &mut Ring::default()), 1);
            bench.write_head();
            assert_eq!(bench.parts(), [(false, vec![1]), (false, vec![]), (false, vec![])]);
            bench.change_head(|page| page[field..field + 4].copy_from_slice(&value.to_le_bytes()));
            assert_eq!(bench.parts(), [(true, vec![])], "{value} at {field:#x}");
            assert_eq!(bench.found().is_understood(), field != 0x08);
        }
    }

    /// The engine trusts records, and pieces without bytes would cost nothing on the drive.
    #[test]
    fn records_of_what_the_array_does_not_have_count_for_nothing() {
        let entries: [(&str, fn(&mut Entry)); 10] = [
            ("no rows", |entry| entry.rows = 0),
            ("no rows, and new bytes of many strips", |entry| {
                (entry.rows, entry.count, entry.holds) = (0, u16::MAX, HOLDS_NEW_DATA);
            }),
            ("rows behind the strip", |entry| (entry.row, entry.rows) = (1020, 8)),
            ("rows at the end of all numbers", |entry| (entry.row, entry.rows) = (u32::MAX, u32::MAX)),
            ("a stripe behind the last", |entry| entry.stripe = 8),
            ("the last stripe of all numbers", |entry| entry.stripe = u64::MAX),
            ("a strip that is parity", |entry| (entry.first, entry.count) = (1, 2)),
            ("no such strip", |entry| (entry.first, entry.count) = (u16::MAX, 1)),
            ("no such parity", |entry| entry.parity = 1),
            ("more bytes than follow", |entry| (entry.rows, entry.holds) = (1024, HOLDS_PARTIAL)),
        ];
        for (what, change) in entries {
            let mut bench = Bench::new(2);
            bench.write_head();
            let mut rings = [Ring::default(), Ring::default()];
            for (part, ring) in rings.iter_mut().enumerate() {
                bench.append_bare((part, ring), 1);
            }
            let second = bench.append((0, &mut rings[0]), Some((2, 8)), FIRST).expect("there is space");
            assert_eq!(bench.parts(), [(false, vec![1, 2]), (false, vec![1])]);
            let salt = salt_of(&bench.superblock, 0);
            let page = &mut bench.drive[second];
            let mut entry = Entry::read(page[64..128].try_into().expect("cut to size"));
            change(&mut entry);
            page[64..128].copy_from_slice(&entry.write());
            let crc = append_crc(&page[..128], &salt);
            page[0x2c..0x30].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(bench.parts(), [(true, vec![]), (false, vec![1])], "{what}");
        }
    }

    #[test]
    fn a_session_that_the_array_has_not_reached_speaks_for_no_records() {
        for (events, damaged) in [(4, true), (5, false), (7, false)] {
            let mut bench = Bench::new(1);
            bench.append_bare((0, &mut Ring::default()), 1);
            bench.write_head();
            bench.superblock.header.events = events;
            assert_eq!(bench.session.number, 7);
            assert_eq!(bench.found().is_damaged(), damaged, "{events} records");
        }
    }

    /// A lane's ring, and how far it is: `free` is what the last append, which is durable, says is retired.
    struct Lane {
        ring: Ring,
        number: u64,
        retired: u64,
        free: u64,
    }

    /// A large append that goes around the ring is reported as failed, but has landed. The next one is small, and takes its
    /// number at the end of the ring.
    #[test]
    fn an_append_that_was_taken_back_counts_once() {
        let mut bench = Bench::new(1);
        bench.write_head();
        let mut ring = Ring::default();
        let part_sectors = bench.location.part_sectors;
        let mut number = 0;
        // Bare appends of a page each, all of them retired, up to two pages before the end.
        while ring.next + 2 * PAGE_SECTORS < part_sectors {
            number += 1;
            let terms = AppendTerms { retired_below: number, free_below: number, unsure_count: 0 };
            bench.append((0, &mut ring), Some((number, 0)), terms).expect("there is space");
        }
        let terms = AppendTerms { retired_below: number, free_below: number, unsure_count: 0 };
        let large = bench.append((0, &mut ring), Some((number + 1, 32)), terms).expect("there is space");
        assert_eq!(large.start, bytes(bench.location.ring_start().get()), "it went around");
        ring.take_back();
        for small in [number + 2, number + 3] {
            bench.append((0, &mut ring), Some((small, 0)), terms).expect("there is space");
        }
        let (is_damaged, numbers) = bench.parts().remove(0);
        assert!(!is_damaged, "{numbers:?}");
        assert!([number + 2, number + 3].iter().all(|small| numbers.contains(small)), "{numbers:?}");
    }

    /// Goes around every part many times with records that are retired late. Whichever append is torn, everything that counts
    /// is still there, in this part and the others.
    #[test]
    fn a_torn_append_harms_none_that_counts() {
        for (parts, steps) in [(1, 2000), (2, 1000), (3, 1000), (8, 1000)] {
            let mut bench = Bench::new(parts);
            bench.write_head();
            let mut chance = 1_u64;
            let mut below = |bound: u64| {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (chance >> 33) % bound
            };
            let lane = || Lane { ring: Ring::default(), number: 1, retired: 1, free: 0 };
            let mut lanes: Vec<Lane> = (0..parts).map(|_| lane()).collect();
            let mut full_count = vec![0; parts];
            for _ in 0..steps {
                let part = below(parts as u64) as usize;
                let Lane { ring, number, retired, free } = &mut lanes[part];
                let terms = AppendTerms { retired_below: *retired, free_below: *free, unsure_count: 0 };
                let (known, mut said) = (*number, *retired);
                let before = bench.drive.clone();
                let mut wrote = bench.append((part, ring), Some((*number, below(65) * 8)), terms);
                *number += u64::from(wrote.is_some());
                if wrote.is_none() {
                    full_count[part] += 1;
                    *retired = (*retired + 1 + below((*number - *retired).max(1))).min(*number);
                    said = *retired;
                    wrote = bench.append((part, ring), None, AppendTerms { retired_below: said, ..terms });
                    let stays = ring.live.front().is_some_and(|live| live.last_number >= *retired);
                    assert_eq!(wrote.is_some(), !stays, "a head always fits where it frees something");
                } else if below(8) == 0 {
                    *retired += below(*number - *retired + 1);
                }
                let Some(range) = wrote else { continue };
                let whole = std::mem::replace(&mut bench.drive, before);
                // Its end came down, its beginning did not.
                let half = range.start + range.len() / 2..range.end;
                bench.drive[half.clone()].copy_from_slice(&whole[half]);
                let found = bench.found();
                assert!(!found.is_damaged(), "append {known} to part {part} is torn");
                let counts = |part: usize, from: u64| {
                    numbers(&found.parts[part]).into_iter().filter(|&number| number >= from).count() as u64
                };
                assert_eq!(counts(part, terms.retired_below), known - terms.retired_below, "append {known} to {part} is torn");
                *free = said;
                for (other, lane) in lanes.iter().enumerate().filter(|(other, _)| *other != part) {
                    assert_eq!(counts(other, lane.retired), lane.number - lane.retired, "part {other} beside a torn one");
                }
                bench.drive = whole;
            }
            assert!(full_count.iter().all(|&count| count > 10), "parts were full {full_count:?} times only");
        }
    }
}
