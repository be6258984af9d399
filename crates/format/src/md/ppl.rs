//! md's partial parity log on a member of a RAID 5: one of two ways to store the engine's log records, the one that Linux knows.
//!
//! ```text
//! … superblock │ bad blocks │ header (4 KiB) │ partial parity of its entries │ header │ … │ data …
//! ```
//! The superblock names the area in the field that otherwise names the bitmap. A header and its partial parity are one write to
//! the member that holds the parity. It is found again by walking from the start, from header to header, as long as
//! generations grow; only the last one counts. So the next is not written before all records in the one before are
//! retired. Older kernels knew areas for one. With [`MULTIPLE_PPLS`](super::superblock::feature::MULTIPLE_PPLS) they follow one
//! another around the area.
//!
//! Stria writes each header to the start of the area. A write that goes around the area and is torn can leave the header at the
//! start and destroy one in the middle of the walk. Then an old header is in force, and its partial parity covers strips that are
//! new now (R19). At the start a torn write leaves the header before it, whose records nothing has superseded, or none.
//!
//! An entry is a run of array sectors, or several of equal length one strip apart. So it gives for each row the strips that are
//! written. Without partial parity these are all strips. Records of single sectors are within the
//! format; Linux writes pages. A run of the array begins with an empty header. Linux erases the area first, and counts
//! generations from 1; Stria counts on from run to run. If power goes while an area is erased, the newest header may be lost and
//! an older one left, whose entries are void.
//!
//! Linux replays when the superblock says dirty. If it found records, none of them torn, it takes redundancy as consistent
//! everywhere, since every write in flight had one. So does Stria, unless a superblock of its own says that a resync was due:
//! nothing else shows how far the first resync of an array came that is not clean.
//!
//! Source: `raid5-ppl.c` and `md_p.h` (`struct ppl_header`) of Linux.

use super::checksums;
use super::log::Memory;
use super::superblock::Superblock;
use crate::fields::on_disk;
use crate::read::Read;
use stria_array::address::Sectors;
use stria_array::{DriveSector, Geometry, LogRecord, MemberId, MetadataWrite, StripSector};
use stria_block::{Buffer, Data, bytes};
use stria_parity::crc32c;

/// 4 KiB: a header.
const HEADER_SECTORS: u64 = 8;
const HEADER_BYTES: usize = 4096;

/// 128 KiB: partial parity behind one header.
const ENTRY_SECTORS_MAX: u64 = 256;

/// The size of the largest append.
pub(crate) const APPEND_SECTORS_MAX: u64 = HEADER_SECTORS + ENTRY_SECTORS_MAX;

/// Entries in a header.
const ENTRY_COUNT_MAX: usize = 148;
const _: () = assert!(LogRecord::APPEND_COUNT_MAX <= ENTRY_COUNT_MAX);
const _: () = assert!(PplHeader::SIZE_BYTES + ENTRY_COUNT_MAX * PplEntry::SIZE_BYTES <= HEADER_BYTES);

/// The microseconds of `utime` in superblocks of an array that is not clean: parity is consistent wherever no entry says
/// otherwise. Linux and mdadm write zero.
pub(crate) const CONSISTENT: u32 = 2_000_000;
/// The same while a resync is due that no entry makes up for, such as the first one.
pub(crate) const INCONSISTENT: u32 = 2_000_001;

/// 1 MiB: how much of an area is cleared by one write.
const CLEAR_SECTORS: u64 = 2048;

on_disk! {
    /// The header, before the entries.
    pub struct PplHeader [536] {
        /// Ones.
        0x000 reserved: [u8; 512],
        /// Checksum of the array's identity.
        0x200 signature: u32,
        /// Zero.
        0x204 padding: u32,
        /// Counts headers.
        0x208 generation: u64,
        /// The number of entries that follow.
        0x210 entries_count: u32,
        /// Checksum of the page, this field taken as zero.
        0x214 checksum: u32,
    }
}

on_disk! {
    /// Some rows of a stripe.
    pub struct PplEntry [24] {
        /// First array sector that is written.
        0x00 data_sector: u64,
        /// Bytes of partial parity; 0: whole stripes.
        0x08 pp_size: u32,
        /// Bytes written, on all strips together.
        0x0c data_size: u32,
        /// The slot that holds the parity.
        0x10 parity_disk: u32,
        /// Checksum of the partial parity.
        0x14 checksum: u32,
    }
}

impl Superblock {
    /// True if redundancy was consistent when this was written, or a log names the rows where it may not be.
    pub fn vouches_for_parity(&self) -> bool {
        let micros = self.utime_micros();
        self.clean() || !matches!(micros, 0 | INCONSISTENT) && u64::from(micros) != checksums::WITNESSED
    }
}

/// The position of a member's partial parity log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PplLocation {
    pub start_sector: DriveSector,
    pub sectors: u64,
    /// Sum of the array's identity.
    signature: u32,
}

impl PplLocation {
    /// `None`: the array has no such log.
    pub fn of(superblock: &Superblock) -> Option<Self> {
        let (offset, size) = superblock.ppl()?;
        Some(Self {
            start_sector: superblock.sector_at(offset.into()),
            sectors: u64::from(size) / HEADER_SECTORS * HEADER_SECTORS,
            signature: crc32c(&superblock.header.set_uuid),
        })
    }

    /// True if every append of the engine fits.
    pub fn suffices(&self) -> bool {
        self.sectors >= APPEND_SECTORS_MAX
    }
}

/// A header's page, with its checksum.
fn encode(signature: u32, generation: u64, entries: &[PplEntry]) -> Vec<u8> {
    let mut header =
        PplHeader { reserved: [0xff; 512], signature, padding: 0, generation, entries_count: entries.len() as u32, checksum: 0 };
    let page = |header: &PplHeader| {
        let mut page = header.write().to_vec();
        page.extend(entries.iter().flat_map(PplEntry::write));
        page.resize(HEADER_BYTES, 0);
        page
    };
    header.checksum = crc32c(&page(&header));
    page(&header)
}

/// The contents of a member's partial parity log.
#[derive(Clone, Debug, Default)]
pub struct FoundPpl {
    /// Complete entries of the newest header, with their partial parity.
    entries: Vec<(PplEntry, Data)>,
    /// Something is torn: power was cut while it was written, so the write that it describes had not begun.
    torn: bool,
    /// It cannot be read, or is not this array's.
    damaged: bool,
}

impl FoundPpl {
    pub(crate) fn read(location: &PplLocation, read: &mut Read) -> Self {
        match read(location.start_sector.get(), location.sectors) {
            Ok(area) => Self::parse(&area, location.signature),
            Err(_) => Self { damaged: true, ..Self::default() },
        }
    }

    fn parse(area: &[u8], signature: u32) -> Self {
        let mut found = Self::default();
        let Some(start) = newest(area, signature) else {
            let first = area.get(..HEADER_BYTES).map(header_of);
            let is_torn =
                first.is_some_and(|header| header.signature == signature && !is_intact(&area[..HEADER_BYTES], signature));
            return Self { torn: true, damaged: !is_torn, ..found };
        };
        let mut rest = &area[start + HEADER_BYTES..];
        for entry in entries_of(&area[start..]) {
            match rest.split_at_checked(entry.pp_size as usize) {
                Some((partial, behind)) => {
                    rest = behind;
                    if crc32c(partial) == entry.checksum {
                        found.entries.push((entry, Buffer::copy_of(partial).freeze()));
                    } else {
                        found.torn = true;
                    }
                }
                None => {
                    found.damaged = true;
                    break;
                }
            }
        }
        found
    }

    /// Only entries of writes that had not begun are torn.
    pub(crate) fn is_sound(&self) -> bool {
        !self.damaged
    }

    /// No entry is torn.
    pub(crate) fn is_intact(&self) -> bool {
        !self.torn && !self.damaged
    }

    /// The log records that it stands for, on the member of a slot. `None`: an entry contradicts the array.
    pub(crate) fn records(&self, geometry: &Geometry, slot: usize) -> Option<Vec<LogRecord>> {
        let mut records = Vec::new();
        for (entry, partial) in &self.entries {
            entry_records(entry, partial, geometry, slot, &mut records)?;
        }
        for (number, record) in (1..).zip(&mut records) {
            record.number = number;
        }
        Some(records)
    }
}

fn header_of(page: &[u8]) -> PplHeader {
    PplHeader::read(page[..PplHeader::SIZE_BYTES].try_into().expect("cut to size"))
}

/// True if a header's page is this array's, and its checksum matches.
fn is_intact(page: &[u8], signature: u32) -> bool {
    let mut bare = page.to_vec();
    bare[0x214..0x218].fill(0);
    let header = header_of(page);
    header.checksum == crc32c(&bare) && header.signature == signature
}

/// The position in an area of the header that counts. `None`: the first one is torn or another array's, or there is none.
fn newest(area: &[u8], signature: u32) -> Option<usize> {
    let mut newest: Option<(PplHeader, usize)> = None;
    let mut at = 0;
    while let Some(page) = area.get(at..at + HEADER_BYTES) {
        let header = header_of(page);
        let older = newest.as_ref().is_some_and(|(newest, _)| newest.generation > header.generation);
        if !is_intact(page, signature) || older || header.entries_count as usize > ENTRY_COUNT_MAX {
            break;
        }
        newest = Some((header, at));
        at += HEADER_BYTES + entries_of(page).map(|entry| entry.pp_size as usize / 512 * 512).sum::<usize>();
    }
    newest.map(|(_, at)| at)
}

/// The page of the header that counts, or else of the first one, with its position on the drive. For `examine --raw`.
pub(crate) fn page(location: &PplLocation, read: &mut Read) -> Option<(DriveSector, Vec<u8>)> {
    let area = read(location.start_sector.get(), location.sectors).ok()?;
    let at = newest(&area, location.signature).unwrap_or(0);
    let page = area.get(at..at + HEADER_BYTES)?.to_vec();
    Some((location.start_sector + (at / 512) as u64, page))
}

/// The entries of a header's page.
fn entries_of(page: &[u8]) -> impl Iterator<Item = PplEntry> {
    let count = header_of(page).entries_count as usize;
    let entries = page[PplHeader::SIZE_BYTES..HEADER_BYTES].chunks_exact(PplEntry::SIZE_BYTES).take(count);
    entries.map(|entry| PplEntry::read(entry.try_into().expect("cut to size")))
}

/// Row by row, the strips from the entry's first sector on, one strip apart, that lie before its end are written; rows
/// with the same strips make one record.
fn entry_records(entry: &PplEntry, partial: &Data, geometry: &Geometry, slot: usize, records: &mut Vec<LogRecord>) -> Option<()> {
    let strip = geometry.strip_sectors();
    let data_count = geometry.data_count() as u64;
    let width = strip * data_count;
    let (first, partial_sectors, data_sectors) =
        (entry.data_sector, u64::from(entry.pp_size) / 512, u64::from(entry.data_size) / 512);
    let (rows, end) = match partial_sectors {
        // The entry's rows are those of the partial parity; for full stripes, those of each strip.
        0 => (data_sectors / data_count, data_sectors / data_count + (data_count - 1) * strip),
        rows if rows < strip => (rows, rows + (data_sectors / rows).checked_sub(1)?.checked_mul(strip)?),
        _ => (strip, data_sectors),
    };
    let stripe = first / width;
    let fits = rows <= strip
        && partial_sectors <= strip
        && stripe < geometry.stripe_count()
        && first % width + end <= width
        && entry.parity_disk as usize == slot
        && geometry.stripe_map(stripe).parity[..] == [slot as u16];
    if !fits {
        return None;
    }
    // Rows change their strips where the next strip begins, and where the last one ends.
    let mut cuts = [0, (strip - first % strip).min(rows), (end % strip).min(rows), rows];
    cuts.sort_unstable();
    for pair in cuts.windows(2).filter(|pair| pair[0] < pair[1]) {
        let start = first % width + pair[0];
        let index = (start / strip) as usize;
        let count = end.saturating_sub(pair[0]).div_ceil(strip) as usize;
        if count > 0 {
            records.push(LogRecord {
                number: 0,
                stripe,
                rows: StripSector::new(start % strip).run(pair[1] - pair[0]),
                written: index..index + count,
                parity: 0,
                partial: (partial_sectors > 0).then(|| partial.slice(bytes(pair[0]), bytes(pair[1] - pair[0]))),
                new_data: Default::default(),
                new_data_is_zeros: false,
            });
        }
    }
    Some(())
}

/// The generations of a session are greater. Its own are not as many as 2^32, or superblocks were updated meanwhile.
fn generation_before(session: u64) -> u64 {
    session << 32
}

/// A member's partial parity log while the array runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ppl {
    generation: u64,
    /// The newest append counts until all records with numbers up to here are retired.
    last_number: u64,
}

impl Ppl {
    /// The write that makes a member's log empty, for a session. What an earlier session left behind it has lower generations, so
    /// it does not count, whatever a power cut leaves of this write.
    pub fn begin(member: MemberId, location: &PplLocation, session: u64) -> MetadataWrite {
        let data = Buffer::copy_of(&encode(location.signature, generation_before(session), &[])).freeze();
        MetadataWrite { member, start_sector: location.start_sector, data }
    }

    /// The writes that erase the log of a drive that joins.
    pub fn erase(member: MemberId, location: &PplLocation) -> Vec<MetadataWrite> {
        let empty = encode(location.signature, 0, &[]);
        let piece = |start: u64| {
            let mut buffer = Buffer::zeroed(bytes((location.sectors - start).min(CLEAR_SECTORS)));
            if start == 0 {
                buffer[..HEADER_BYTES].copy_from_slice(&empty);
            }
            MetadataWrite { member, start_sector: location.start_sector + start, data: buffer.freeze() }
        };
        (0..location.sectors).step_by(CLEAR_SECTORS as usize).map(piece).collect()
    }

    /// The bytes that log `records`, and their position on the drive: always the start of the area (R19). `None`: the records
    /// before are not retired.
    ///
    /// # Panics
    /// The records do not fit into one append.
    pub fn append(
        &mut self,
        location: &PplLocation,
        geometry: &Geometry,
        session: u64,
        records: &[LogRecord],
        retired_below: u64,
        memory: &mut Memory,
    ) -> Option<(DriveSector, Data)> {
        if self.last_number >= retired_below {
            return None;
        }
        let sectors = HEADER_SECTORS + records.iter().map(LogRecord::payload_sectors).sum::<u64>();
        assert!(sectors <= APPEND_SECTORS_MAX, "an append of {sectors} sectors");
        let strip = geometry.strip_sectors();
        let width = strip * geometry.data_count() as u64;
        let entry = |record: &LogRecord| {
            let partial = record.partial.as_deref().unwrap_or_default();
            PplEntry {
                data_sector: record.stripe * width + record.written.start as u64 * strip + record.rows.start.get(),
                pp_size: partial.len() as u32,
                data_size: bytes(record.rows.sectors() * record.written.len() as u64) as u32,
                parity_disk: geometry.stripe_map(record.stripe).parity[0].into(),
                checksum: crc32c(partial),
            }
        };
        let entries: Vec<PplEntry> = records.iter().map(entry).collect();
        self.generation = self.generation.max(generation_before(session)) + 1;
        self.last_number = records.iter().map(|record| record.number).max().unwrap_or(0);
        let mut buffer = memory.take(bytes(sectors));
        let (page, mut rest) = buffer.split_at_mut(HEADER_BYTES);
        page.copy_from_slice(&encode(location.signature, self.generation, &entries));
        for data in records.iter().filter_map(|record| record.partial.as_ref()) {
            let (front, back) = rest.split_at_mut(data.len());
            front.copy_from_slice(data);
            rest = back;
        }
        Some((location.start_sector, memory.give(buffer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_array::{Layout, Level, ParityLayout};

    /// Goal: a torn append leaves in force its own records, those of the append before it, or none. Nothing has superseded those
    /// of the append before. Method: appends of all lengths, each without its first sectors, for every number of these (seed
    /// 5:980043734 of the simulator, with a partial parity log).
    #[test]
    fn a_torn_append_puts_no_older_one_than_the_last_in_force() {
        let geometry =
            Geometry::new(Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), 64, &[4096; 4]).expect("possible");
        let location = PplLocation { start_sector: DriveSector::new(0), sectors: 400, signature: 7 };
        let mut area = vec![0; bytes(location.sectors)];
        area[..HEADER_BYTES].copy_from_slice(&Ppl::begin(MemberId(0), &location, 1).data);
        let mut ppl = Ppl::default();
        for number in 1..=64 {
            let rows = 1 + number * 37 % 64;
            let record = LogRecord {
                number,
                stripe: number % 8,
                rows: StripSector::new(0).run(rows),
                written: 0..1,
                parity: 0,
                partial: Some(Buffer::copy_of(&vec![number as u8; bytes(rows)]).freeze()),
                new_data: Default::default(),
                new_data_is_zeros: false,
            };
            let append = ppl.append(&location, &geometry, 1, &[record], number, &mut Memory::default());
            let (start, data) = append.expect("the one before is retired");
            let start = bytes(start.get());
            for lost in (0..=data.len()).step_by(512) {
                let mut torn = area.clone();
                torn[start + lost..start + data.len()].copy_from_slice(&data[lost..]);
                for (_, partial) in FoundPpl::parse(&torn, location.signature).entries {
                    let found = u64::from(partial[0]);
                    assert!(found + 1 >= number, "record {found} is in force once {lost} bytes of {number} are lost");
                }
            }
            area[start..start + data.len()].copy_from_slice(&data);
        }
    }
}
