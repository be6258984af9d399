//! Stria's write log on an md member: in the room that md leaves between its metadata and the data.
//!
//! ```text
//! … superblock, bitmap, bad blocks │ free │ ring of appends │ head (4 KiB) │ data …
//! ```
//! The head lies just before the data, where it is found without knowing more than the superblock. It names a **session**:
//! one run of the array. What an append in the ring says counts only if it was written in the session that the head names,
//! and the head only if the newest superblock carries its **tag** in the microseconds of `utime`. Linux and mdadm write
//! zeros there, and so do we when we say clean: whoever ran the array since has made the log void. A new session's head
//! also names the tag before, as superblocks follow later.
//!
//! An append is a head of 4 KiB with up to 62 entries, then their bytes. Appends follow one another around the ring, with
//! sequence numbers; each says up to which record all are retired, and how many before it were not known to be durable when it
//! was sent. These may be missing or torn, and nothing else may. Room is used again when what says that it is free is durable,
//! and one page is always left to say so.
//!
//! A kernel sees free room and a dirty array, and resyncs by the bitmap. After a clean stop there is nothing to see.

use super::superblock::{Superblock, feature};
use crate::fields::on_disk;
use std::collections::VecDeque;
use std::ops::Range;
use stria_array::{AppendTerms, LogRecord};
use stria_block::{Buffer, Claim, Data, Pool, bytes};
use stria_parity::crc32c;

/// 4 KiB: heads, and the unit of places in the ring.
const PAGE_SECTORS: u64 = 8;
const PAGE_BYTES: usize = 4096;

/// 532 KiB: below this a member's room is left alone. The largest append fits on one side of a page that lies anywhere.
const RING_SECTORS_MIN: u64 = 2 * (LogRecord::APPEND_SECTORS_MIN + PAGE_SECTORS) + PAGE_SECTORS;
/// 8 MiB: at some thousand records a flush, or a slow write, stalls nobody.
const RING_SECTORS_MAX: u64 = 1 << 14;

/// A quarter of a ring is the most that one append takes, so that it finds room while another is not retired yet.
const APPEND_SHARE: u64 = 4;

const MAGIC: [u8; 8] = *b"StriaLog";
const APPEND_MAGIC: [u8; 8] = *b"StriaApp";

on_disk! {
    /// Says whose log this is and which session its appends belong to.
    pub struct LogHead [128] {
        /// `StriaLog`.
        0x00 magic: [u8; 8],
        /// 1, or 2 where a field counts that was reserved.
        0x08 version: u32,
        /// Sum of the page, this field taken as zero.
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
        /// Bit 0: the array is to have no log.
        0x48 flags: u64,
        /// 0. Before there was `life`: appends with smaller sequence numbers are of an earlier life of the member.
        0x50 sequence_from: u64,
        /// How often the member has returned in this session: appends of its earlier lives do not count.
        0x58 life: u32,
        /// Zero.
        0x5c reserved: [u8; 36],
    }
}

const FLAG_OFF: u64 = 1;

on_disk! {
    /// Stands before the entries of an append.
    pub struct AppendHead [64] {
        /// `StriaApp`.
        0x00 magic: [u8; 8],
        /// The session that wrote it.
        0x08 session: u64,
        /// Counts appends to this member in the session, from 1.
        0x10 sequence: u64,
        /// All records with smaller numbers are retired.
        0x18 retired_below: u64,
        /// Where in the ring it lies.
        0x20 start_sector: u32,
        /// Its length, this page included.
        0x24 sectors: u32,
        /// How many entries follow.
        0x28 count: u32,
        /// Sum of head, entries and the member's identity and life, this field taken as zero.
        0x2c crc: u32,
        /// Sum of the bytes after the page.
        0x30 payload_crc: u32,
        /// The sequence number of the oldest append that still counts.
        0x34 live_from: u64,
        /// How many appends before it were not known to be durable.
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
const HOLDS_REDO: u8 = 2;
const HOLDS_ZEROS: u8 = 4;

/// Where a member's log lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    /// First sector of the ring on the drive.
    pub ring_start: u64,
    /// Its length.
    pub ring_sectors: u64,
    /// Of the head.
    pub head_start: u64,
}

impl LogPlace {
    /// The room that md leaves on a member; `None`: too little, or data come first, or md keeps a log of its own.
    pub fn of(superblock: &Superblock, bitmap_sectors: u64) -> Option<Self> {
        if superblock.ppl().is_some() {
            return None;
        }
        let header = &superblock.header;
        let after = |offset: i32, sectors: u64| header.super_offset.saturating_add_signed(i64::from(offset)) + sectors;
        let mut start = header.super_offset + PAGE_SECTORS;
        if superblock.has(feature::BITMAP_OFFSET) {
            start = start.max(after(header.bitmap_offset, bitmap_sectors));
        }
        if header.bblog_offset != 0 {
            start = start.max(after(header.bblog_offset, u64::from(header.bblog_size)));
        }
        let start = start.next_multiple_of(PAGE_SECTORS);
        let head_start = (header.data_offset.checked_sub(PAGE_SECTORS)?) / PAGE_SECTORS * PAGE_SECTORS;
        let room = head_start.checked_sub(start)? / PAGE_SECTORS * PAGE_SECTORS;
        let ring_sectors = room.min(RING_SECTORS_MAX);
        let fits = header.super_offset < header.data_offset && ring_sectors >= RING_SECTORS_MIN;
        fits.then_some(Self { ring_start: head_start - ring_sectors, ring_sectors, head_start })
    }

    /// The most that one append takes.
    pub fn append_sectors_max(&self) -> u64 {
        (self.ring_sectors / APPEND_SHARE).max(LogRecord::APPEND_SECTORS_MIN)
    }
}

/// The session that an array is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub number: u64,
    pub tag: u32,
    pub tag_before: u32,
}

impl Session {
    /// The session of a run that begins after `events` records: greater than any before, since each run makes records.
    pub fn after(events: u64, tag_before: u32) -> Self {
        let number = events + 1;
        // Any tag does that differs from the one before.
        let tag = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % 999_999 + 1;
        let tag = if tag == tag_before { tag % 999_999 + 1 } else { tag };
        Self { number, tag, tag_before }
    }
}

/// What the sums of a member's appends are salted with: copies from elsewhere and those of its earlier lives do not count.
pub(crate) fn salt_of(superblock: &Superblock, life: u32) -> [u8; 16] {
    (u128::from_be_bytes(superblock.header.device_uuid) ^ u128::from(life) << 96).to_be_bytes()
}

/// The head's page.
pub(crate) fn encode_head(superblock: &Superblock, place: &LogPlace, session: &Session, off: bool, life: u32) -> Vec<u8> {
    let mut head = LogHead {
        magic: MAGIC,
        version: if life > 0 { 2 } else { 1 },
        crc: 0,
        set_uuid: superblock.header.set_uuid,
        device_uuid: superblock.header.device_uuid,
        session: session.number,
        tag: session.tag,
        tag_before: session.tag_before,
        ring_sectors: place.ring_sectors,
        flags: if off { FLAG_OFF } else { 0 },
        sequence_from: 0,
        life,
        reserved: [0; 36],
    };
    let page = |head: &LogHead| {
        let mut page = head.write().to_vec();
        page.resize(PAGE_BYTES, 0);
        page
    };
    head.crc = crc32c(&page(&head));
    page(&head)
}

/// What lies in a member's log.
#[derive(Clone, Debug, Default)]
pub struct FoundLog {
    /// The array is to have none.
    pub off: bool,
    /// Session, tag, and the tag before.
    pub(crate) session: Session,
    /// Records of the session, in the order of their appends.
    pub records: Vec<LogRecord>,
    /// All records with smaller numbers are retired, says the newest append.
    pub retired_below: u64,
    /// Appends are missing among those that count: the drive lost what it had acknowledged.
    pub damaged: bool,
}

impl FoundLog {
    /// Reads the log of a member; the ring only if its session is the superblock's. `None`: there is none, or it is
    /// another member's.
    pub(crate) fn read(superblock: &Superblock, place: &LogPlace, read: &mut super::member::Read) -> Option<Self> {
        let page = read(place.head_start, PAGE_SECTORS).ok()?;
        let head = LogHead::read(page.get(..LogHead::SIZE_BYTES)?.try_into().expect("cut to size"));
        let header = &superblock.header;
        let mut bare = page.clone();
        bare[0x0c..0x10].fill(0);
        let ours = (head.magic, head.set_uuid, head.device_uuid) == (MAGIC, header.set_uuid, header.device_uuid);
        if !ours || !(1..=2).contains(&head.version) || head.crc != crc32c(&bare) {
            return None;
        }
        let session = Session { number: head.session, tag: head.tag, tag_before: head.tag_before };
        let off = head.flags & FLAG_OFF != 0;
        let mut found = Self { off, session, ..Self::default() };
        let ring_sectors = head.ring_sectors;
        let fits =
            ring_sectors.is_multiple_of(PAGE_SECTORS) && ring_sectors <= RING_SECTORS_MAX && ring_sectors <= place.head_start;
        if off || !found.speaks_for(superblock.utime_micros()) || !fits {
            return Some(found);
        }
        match read(place.head_start - ring_sectors, ring_sectors) {
            Ok(ring) => found.scan(&ring, &salt_of(superblock, head.life), head.sequence_from),
            Err(_) => found.damaged = true,
        }
        Some(found)
    }

    /// Whether superblocks with this tag were written under this log's watch.
    pub(crate) fn speaks_for(&self, tag: u32) -> bool {
        tag != 0 && (tag == self.session.tag || tag == self.session.tag_before)
    }

    /// Whether it was kept, without gaps, in this session.
    pub(crate) fn is_of(&self, session: u64) -> bool {
        self.session.number == session && !self.damaged && !self.off
    }

    /// Collects the appends that count.
    fn scan(&mut self, ring: &[u8], salt: &[u8; 16], sequence_from: u64) {
        let mut appends: Vec<(AppendHead, Vec<LogRecord>)> = Vec::new();
        let mut page = 0;
        let pages = ring.len() / PAGE_BYTES;
        while page < pages {
            match parse_append(&ring[page * PAGE_BYTES..], page as u64 * PAGE_SECTORS, self.session.number, salt) {
                Some((head, records)) => {
                    page += (u64::from(head.sectors) / PAGE_SECTORS) as usize;
                    if head.sequence >= sequence_from {
                        appends.push((head, records));
                    }
                }
                None => page += 1,
            }
        }
        appends.sort_by_key(|(head, _)| head.sequence);
        self.retired_below = appends.last().map_or(0, |(head, _)| head.retired_below);
        let of_newest = appends.last().map(|(head, _)| (head.live_from, head.sequence.saturating_sub(head.unsure_count.into())));
        let Some((live_from, sure_below)) = of_newest else { return };
        let counts = |head: &AppendHead| head.sequence >= live_from;
        let sure_count = appends.iter().filter(|(head, _)| (live_from..sure_below).contains(&head.sequence)).count() as u64;
        self.damaged = sure_count != sure_below.saturating_sub(live_from);
        let records = appends.into_iter().filter(|(head, _)| counts(head)).flat_map(|(_, records)| records);
        self.records = records.filter(|record| record.number >= self.retired_below).collect();
    }
}

/// The append that starts with these bytes, if it is whole and belongs here.
fn parse_append(bytes: &[u8], start_sector: u64, session: u64, salt: &[u8; 16]) -> Option<(AppendHead, Vec<LogRecord>)> {
    if bytes[..8] != APPEND_MAGIC {
        return None;
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
        return None;
    }
    let mut rest = &bytes[PAGE_BYTES..len];
    let mut records = Vec::with_capacity(count);
    for entry in bytes[AppendHead::SIZE_BYTES..PAGE_BYTES].chunks_exact(Entry::SIZE_BYTES).take(count) {
        let entry = Entry::read(entry.try_into().expect("cut to size"));
        let strip_len = entry.rows as usize * 512;
        let mut take = || {
            let (front, back) = rest.split_at_checked(strip_len)?;
            rest = back;
            Some(Buffer::copy_of(front).freeze())
        };
        let partial = if entry.holds & HOLDS_PARTIAL != 0 { Some(take()?) } else { None };
        let strips = if entry.holds & HOLDS_REDO != 0 { entry.count } else { 0 };
        let redo = (0..strips).map(|_| take()).collect::<Option<_>>()?;
        records.push(LogRecord {
            number: entry.number,
            stripe: entry.stripe,
            rows: entry.row.into()..u64::from(entry.row) + u64::from(entry.rows),
            written: entry.first.into()..usize::from(entry.first) + usize::from(entry.count),
            parity: entry.parity.into(),
            partial,
            redo,
            zeros: entry.holds & HOLDS_ZEROS != 0,
        });
    }
    Some((head, records))
}

/// The sum of an append's head and entries.
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
    /// It counts until all records with numbers up to here are retired. One without records frees the room of others until
    /// the next one does.
    last_number: u64,
}

/// The ring of one member while the array runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    sequence: u64,
    next: u64,
    live: VecDeque<Live>,
}

impl Ring {
    /// A place for an append of so many sectors, given that what records below `free_below` had is free. With records, a head
    /// without any will have room behind it.
    fn place(&mut self, ring_sectors: u64, sectors: u64, free_below: u64, has_records: bool) -> Option<u64> {
        while self.live.front().is_some_and(|live| live.last_number < free_below) {
            self.live.pop_front();
        }
        let from = |next: u64, sectors: u64| if next + sectors <= ring_sectors { next } else { 0 };
        let is_free = |start: u64, sectors: u64| {
            let taken = |live: &Live| live.range.start < start + sectors && start < live.range.end;
            start + sectors <= ring_sectors && !self.live.iter().any(taken)
        };
        let start = from(self.next, sectors);
        let behind = from(start + sectors, PAGE_SECTORS);
        let leaves_room = behind >= start + sectors || behind + PAGE_SECTORS <= start;
        let room = is_free(start, sectors) && (!has_records || leaves_room && is_free(behind, PAGE_SECTORS));
        room.then_some(start)
    }

    /// What appends `records` in a session, and where on the drive it goes; `None`: no room before more are retired.
    pub fn append(
        &mut self,
        at: (&LogPlace, &[u8; 16], u64),
        records: &[LogRecord],
        terms: AppendTerms,
        memory: &mut Memory,
    ) -> Option<(u64, Data)> {
        let AppendTerms { retired_below, free_below, unsure_count } = terms;
        // Without records it is there to free the oldest; else it would but fill the ring.
        if records.is_empty() && self.live.front().is_none_or(|live| live.last_number >= retired_below) {
            return None;
        }
        let (place, salt, session) = at;
        let payload: u64 = records.iter().map(LogRecord::payload_sectors).sum();
        let sectors = PAGE_SECTORS + payload.next_multiple_of(PAGE_SECTORS);
        let start = self.place(place.ring_sectors, sectors, free_below, !records.is_empty())?;
        let mut buffer = memory.take(bytes(sectors));
        let (page, body) = buffer.split_at_mut(PAGE_BYTES);
        page.fill(0);
        let mut rest = &mut body[..];
        for (record, slot) in records.iter().zip(page[AppendHead::SIZE_BYTES..].chunks_exact_mut(Entry::SIZE_BYTES)) {
            let holds = if record.partial.is_some() { HOLDS_PARTIAL } else { 0 }
                | if record.redo.is_empty() { 0 } else { HOLDS_REDO }
                | if record.zeros { HOLDS_ZEROS } else { 0 };
            let entry = Entry {
                number: record.number,
                stripe: record.stripe,
                row: record.rows.start as u32,
                rows: (record.rows.end - record.rows.start) as u32,
                first: record.written.start as u16,
                count: record.written.len() as u16,
                parity: record.parity as u8,
                holds,
                reserved: [0; 34],
            };
            slot.copy_from_slice(&entry.write());
            for data in record.partial.iter().chain(&record.redo) {
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
            start_sector: start as u32,
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
        self.next = start + sectors;
        Some((place.ring_start + start, memory.give(buffer)))
    }
}

/// Memory of appends, used again once they are written.
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

    /// A drive with a log of 1 MiB.
    struct Bench {
        drive: Vec<u8>,
        superblock: Superblock,
        place: LogPlace,
        session: Session,
        memory: Memory,
        life: u32,
    }

    impl Bench {
        fn new() -> Self {
            let mut header = Header::read(&[0; Header::SIZE_BYTES]);
            (header.magic, header.level, header.super_offset, header.data_offset) = (SUPERBLOCK_MAGIC, 5, 8, 2048);
            let session = Session::after(6, 0);
            // The superblock carries the session's tag.
            header.utime = u64::from(session.tag) << 40;
            let superblock = Superblock { header, roles: Vec::new() };
            let place = LogPlace::of(&superblock, 0).expect("there is room");
            Self { drive: vec![0; bytes(2048)], superblock, place, session, memory: Memory::default(), life: 0 }
        }

        fn write_head(&mut self) {
            let head = encode_head(&self.superblock, &self.place, &self.session, false, self.life);
            self.drive[bytes(self.place.head_start)..][..head.len()].copy_from_slice(&head);
        }

        /// Appends a record with so many sectors of partial parity, or none; where it went. `None`: no room.
        fn append(&mut self, ring: &mut Ring, record: Option<(u64, u64)>, terms: AppendTerms) -> Option<Range<usize>> {
            let record = record.map(|(number, sectors)| LogRecord {
                number,
                stripe: 1,
                rows: 0..sectors.max(8),
                written: 0..2,
                parity: 0,
                partial: (sectors > 0).then(|| Buffer::zeroed(bytes(sectors)).freeze()),
                redo: Default::default(),
                zeros: false,
            });
            let at = (&self.place, &salt_of(&self.superblock, self.life), self.session.number);
            let (start, data) = ring.append(at, record.as_slice(), terms, &mut self.memory)?;
            let range = bytes(start)..bytes(start) + data.len();
            self.drive[range.clone()].copy_from_slice(&data);
            Some(range)
        }

        fn found(&self) -> FoundLog {
            let mut read = |start: u64, sectors: u64| Ok(self.drive[bytes(start)..][..bytes(sectors)].to_vec());
            FoundLog::read(&self.superblock, &self.place, &mut read).expect("there is a log")
        }
    }

    const FIRST: AppendTerms = AppendTerms { retired_below: 0, free_below: 0, unsure_count: 0 };

    fn numbers(found: &FoundLog) -> Vec<u64> {
        found.records.iter().map(|record| record.number).collect()
    }

    /// Seed 22045: the head was written after the first appends, and told of the next one only.
    #[test]
    fn appends_count_that_come_before_the_head_when_a_member_is_back() {
        let mut bench = Bench::new();
        let mut before = Ring::default();
        for number in 1..4 {
            bench.append(&mut before, Some((number, 0)), FIRST).expect("there is room");
        }
        bench.life += 1;
        let mut ring = Ring::default();
        bench.append(&mut ring, Some((7, 0)), FIRST).expect("there is room");
        bench.write_head();
        bench.append(&mut ring, Some((8, 0)), FIRST).expect("there is room");
        let found = bench.found();
        assert!(found.is_of(bench.session.number), "{found:?}");
        assert_eq!(numbers(&found), [7, 8]);
    }

    #[test]
    fn an_append_that_nobody_waited_for_may_be_missing_and_no_other() {
        for (unsure_count, damaged) in [(0, true), (1, false)] {
            let mut bench = Bench::new();
            let mut ring = Ring::default();
            bench.write_head();
            bench.append(&mut ring, Some((1, 8)), FIRST).expect("there is room");
            let second = bench.append(&mut ring, Some((2, 8)), FIRST).expect("there is room");
            bench.append(&mut ring, Some((3, 8)), AppendTerms { unsure_count, ..FIRST }).expect("there is room");
            bench.drive[second].fill(0);
            let found = bench.found();
            assert_eq!(found.damaged, damaged, "{unsure_count} were not known to be durable");
            assert_eq!(numbers(&found), [1, 3]);
        }
    }

    /// Around the ring many times with records that are retired late: whichever append is torn, what counts is all there.
    #[test]
    fn a_torn_append_harms_none_that_counts() {
        let mut bench = Bench::new();
        let mut ring = Ring::default();
        bench.write_head();
        let mut chance = 1_u64;
        let mut below = |bound: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % bound
        };
        // `free`: as far as the last append, which is durable, says what is retired.
        let (mut number, mut retired, mut free, mut full_count) = (1, 1, 0, 0);
        while number < 2000 {
            let terms = AppendTerms { retired_below: retired, free_below: free, unsure_count: 0 };
            let before = bench.drive.clone();
            let (known, mut said) = (number, retired);
            let mut wrote = bench.append(&mut ring, Some((number, below(65) * 8)), terms);
            number += u64::from(wrote.is_some());
            if wrote.is_none() {
                full_count += 1;
                retired = (retired + 1 + below((number - retired).max(1))).min(number);
                said = retired;
                wrote = bench.append(&mut ring, None, AppendTerms { retired_below: said, ..terms });
                let stays = ring.live.front().is_some_and(|live| live.last_number >= retired);
                assert_eq!(wrote.is_some(), !stays, "a head always fits where it frees something");
            } else if below(8) == 0 {
                retired += below(number - retired + 1);
            }
            let Some(range) = wrote else { continue };
            let whole = std::mem::replace(&mut bench.drive, before);
            // Its end came down, its beginning did not.
            let half = range.start + range.len() / 2..range.end;
            bench.drive[half.clone()].copy_from_slice(&whole[half]);
            let found = bench.found();
            assert!(!found.damaged, "append {known} is torn");
            let count = numbers(&found).into_iter().filter(|&number| number >= terms.retired_below).count() as u64;
            assert_eq!(count, known - terms.retired_below, "append {known} is torn");
            bench.drive = whole;
            free = said;
        }
        assert!(full_count > 10, "the ring was full {full_count} times only");
    }
}
