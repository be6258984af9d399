//! Goal: `examine --raw` shows every structure that docs/ON_DISK.md describes.
//! Method: drives in memory that together have all of them. Each table of the page must be among the fields, at one position.

mod support;

use stria_array::{AppendTerms, DriveSector, LaneLog, Level, LogRecord, MemberId, Recorder, StripSector};
use stria_block::Buffer;
use stria_format::md::raw::{self, RawField};
use stria_format::md::superblock::feature;
use stria_format::md::{BitmapChoice, MdLog, Options};
use stria_parity::crc32c;
use support::*;

const NOW: u64 = 1_700_000_100;

/// The tables of fields of the page: offset and name of each row.
fn tables() -> Vec<Vec<(u64, String)>> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ON_DISK.md")).expect("it is there");
    let mut tables = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line != "| offset | field | type | meaning |" {
            continue;
        }
        let row = |line: &str| {
            let mut cells = line.strip_prefix("| 0x")?.split(" | ");
            let offset = u64::from_str_radix(cells.next()?, 16).ok()?;
            Some((offset, cells.next()?.to_owned()))
        };
        tables.push(lines.by_ref().skip(1).map_while(row).collect());
    }
    tables
}

fn fields(drive: &MemoryDrive) -> Vec<RawField> {
    let member = drive.candidate().found.expect("a member");
    raw::fields(&member, drive.size_sectors, &mut |start, count| drive.read(start, count))
}

/// A span of a RAID 50 with bitmap, log, checksums, and bad blocks.
fn span() -> MemoryDrive {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
    (create.checksums, create.span_of) = (true, Some([0x77; 16]));
    let mut drives = carry_out(&create).0;
    let start = started(&drives, &Options::default());
    let (state, mut recorder) = (state_of(&start.config, false), start.recorder);
    apply(&mut drives, &recorder.reset_log());
    apply(&mut drives, &recorder.record_state(&state, NOW));
    let mut lane = MdLog::default();
    lane.set_layout(0, recorder.log_layout());
    for number in 1..4 {
        let record = LogRecord {
            number,
            stripe: 9,
            rows: StripSector::span(4..6),
            written: 0..1,
            parity: 0,
            partial: Some(Buffer::copy_of(&[5; 1024]).freeze()),
            new_data: Default::default(),
            new_data_is_zeros: false,
        };
        let terms = AppendTerms { retired_below: 1, free_below: 1, unsure_count: 0 };
        apply(&mut drives, &[lane.append(MemberId(0), &[record], terms).expect("space")]);
    }
    let first = drives[0].candidate().found.expect("a member").superblock.header.data_offset;
    let blocks = [first + 100..first + 108, first + 1000..first + 1002].map(DriveSector::span);
    apply(&mut drives, &recorder.record_bad_blocks(MemberId(0), blocks.to_vec(), NOW).expect("space"));
    let fields = fields(&drives[0]);
    let entries: Vec<_> = fields.iter().filter(|field| field.structure == "bad blocks").collect();
    let told: Vec<_> = entries.iter().map(|entry| (entry.offset_bytes - entries[0].offset_bytes, &*entry.meaning)).collect();
    let words = |sectors: u64, at: u64| format!("{sectors} sectors at sector {} of the drive", first + at);
    assert_eq!(told, [(0, &*words(8, 100)), (8, &*words(2, 1000))]);
    drives.remove(0)
}

/// A member of an array with a partial parity log, of one entry.
fn with_ppl() -> MemoryDrive {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
    create.bitmap = BitmapChoice::None;
    let mut drive = carry_out(&create).0.remove(0);
    let mut superblock = drive.candidate().found.expect("a member").superblock;
    superblock.header.feature_map |= feature::PPL;
    superblock.header.bitmap_offset = 512 << 16 | 64;
    drive.write(8, &superblock.encode());
    let mut page = vec![0; 4096];
    page[..512].fill(0xff);
    page[0x200..0x204].copy_from_slice(&crc32c(&superblock.header.set_uuid).to_le_bytes());
    page[0x210..0x214].copy_from_slice(&1_u32.to_le_bytes());
    let crc = crc32c(&page);
    page[0x214..0x218].copy_from_slice(&crc.to_le_bytes());
    drive.write(8 + 64, &page);
    drive
}

#[test]
fn every_table_of_the_page_is_shown_for_a_drive_that_has_the_structure() {
    let shown = [fields(&span()), fields(&with_ppl())];
    let tables = tables();
    assert_eq!(tables.len(), 10, "the page has a table of each structure");
    for table in tables {
        let is_there = |fields: &Vec<RawField>| {
            fields.windows(table.len()).any(|fields| {
                let start = fields[0].offset_bytes;
                let is_row = |(field, (offset, name)): (&RawField, &(u64, String))| {
                    (field.offset_bytes, &field.name) == (start + *offset, name) && field.structure == fields[0].structure
                };
                fields.iter().zip(&table).all(is_row)
            })
        };
        assert!(shown.iter().any(is_there), "no drive shows {table:x?}");
    }
}

/// The newest append of the log is shown, and what lies on the drive is what is printed.
#[test]
fn bytes_are_those_of_the_drive() {
    for drive in [span(), with_ppl()] {
        let fields = fields(&drive);
        for field in fields.iter().filter(|field| field.structure != "superblock" || field.name != "sb_csum") {
            let (first, end) = (field.offset_bytes / 512, (field.offset_bytes + field.bytes.len() as u64).div_ceil(512));
            let held = drive.read(first, end - first).expect("it reads");
            let at = (field.offset_bytes % 512) as usize;
            assert_eq!(held[at..at + field.bytes.len()], field.bytes, "{field:?}");
            assert_ne!(field.meaning, "WRONG", "{field:?}");
        }
    }
    let fields = fields(&span());
    let sequence = fields.iter().find(|field| (field.structure, &*field.name) == ("append", "sequence")).expect("an append");
    assert_eq!(sequence.meaning, "3");
    let holds = fields.iter().find(|field| (field.structure, &*field.name) == ("log entry", "holds")).expect("an entry");
    assert_eq!(holds.meaning, "partial parity");
}
