//! The log of a member as it was found: the head, and the appends of each part that count.

use super::{
    APPEND_MAGIC, AppendHead, Entry, FLAG_LOST, FLAG_OFF, HOLDS_NEW_DATA, HOLDS_PARTIAL, HOLDS_ZEROS, LogHead, LogLocation,
    LogSpace, MAGIC, PAGE_BYTES, PAGE_SECTORS, RECORDS_MAX, SESSION_AHEAD_MAX, Session, VERSION_MAX, append_crc,
    names_no_session, salt_of,
};
use crate::md::shape::level_of;
use crate::md::superblock::Superblock;
use crate::read::Read;
use std::ops::Range;
use stria_array::address::Sectors;
use stria_array::{DriveSector, LogRecord, StripSector};
use stria_block::{Buffer, Data, bytes};
use stria_parity::crc32c;

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
        // R80: a lost log says nothing of whether the others are kept.
        let is_lost = head.flags & FLAG_LOST != 0;
        let (off, incarnation) = (head.flags & FLAG_OFF != 0 && !is_lost, head.life);
        let mut found = Self { off, version: head.version, session, incarnation, ..Self::default() };
        if is_lost {
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
