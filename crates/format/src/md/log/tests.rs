use super::*;
use crate::md::superblock::{Header, MAGIC as SUPERBLOCK_MAGIC};
use std::ops::Range;
use stria_array::{AppendTerms, StripSector};
use stria_block::{Buffer, Data, bytes};

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
            let counts =
                |part: usize, from: u64| numbers(&found.parts[part]).into_iter().filter(|&number| number >= from).count() as u64;
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
