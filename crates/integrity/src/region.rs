//! The bytes of the region: two headers that are written in turn, then pages of checksums.
//!
//! All numbers are little-endian. A header, 4 KiB:
//!
//! | offset | |
//! | --- | --- |
//! | 0 | magic `StriaCRC` |
//! | 8 | version 1, u32 |
//! | 12 | session that wrote it, u32 |
//! | 16 | sequence: of two headers the higher counts, u64 |
//! | 24 | epoch: pages of another are void, u64 |
//! | 32 | first sector and count of sectors of the data, u64 each |
//! | 48 | identity of the array and of the member, 16 bytes each |
//! | 128 | for each group: the first session whose pages are trusted, u32 |
//! | 4092 | CRC-32C of the rest |
//!
//! A page, 4 KiB: its CRC-32C from offset 4 on, its session (u32 each), the epoch XOR its own number (u64), 1020 checksums.

use std::ops::Range;
use stria_block::{SECTOR_BYTES, SECTORS_MAX};
use stria_parity::crc32c;
use thiserror::Error;

/// 4 KiB: the data of one checksum.
pub const BLOCK_SECTORS: u64 = 8;
/// Checksums in a page.
pub const PAGE_BLOCKS: u64 = 1020;
/// Groups in a header.
pub const GROUP_COUNT_MAX: u64 = 991;

pub(crate) const BLOCK_BYTES: usize = BLOCK_SECTORS as usize * SECTOR_BYTES;
const MAGIC: &[u8; 8] = b"StriaCRC";
const VERSION: u32 = 1;
const HEADER_COUNT: u64 = 2;
/// The most header writes or sessions of a region; no drive reaches it. A larger number is damage, and adding to it could
/// overflow.
const SEQUENCE_MAX: u64 = 1 << 48;
const SESSION_MAX: u32 = 1 << 31;
/// Both headers, at the start of a region.
pub const HEADERS_SECTORS: u64 = HEADER_COUNT * BLOCK_SECTORS;
const GROUPS_AT: usize = 128;
const SUM_AT: usize = BLOCK_BYTES - 4;
const SUMS_AT: usize = 16;

const _: () = assert!(GROUPS_AT + GROUP_COUNT_MAX as usize * 4 <= SUM_AT);
const _: () = assert!(SUMS_AT + PAGE_BLOCKS as usize * 4 == BLOCK_BYTES);

/// The positions of data and its checksums on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The data, in whole blocks.
    pub data: Range<u64>,
    /// The first sector of the region.
    pub start_sector: u64,
}

impl Region {
    /// The size of the region for this amount of data.
    pub fn sectors_for(data_sectors: u64) -> u64 {
        (HEADER_COUNT + data_sectors.div_ceil(BLOCK_SECTORS).div_ceil(PAGE_BLOCKS)) * BLOCK_SECTORS
    }

    /// The data, in whole blocks, that fits into `room_sectors` together with its region.
    pub fn data_sectors_within(room_sectors: u64) -> u64 {
        let blocks = (room_sectors / BLOCK_SECTORS).saturating_sub(HEADER_COUNT);
        (blocks - blocks.div_ceil(PAGE_BLOCKS + 1)) * BLOCK_SECTORS
    }

    /// The region that follows `data`.
    pub fn behind(data: Range<u64>) -> Self {
        let data = data.start..data.start + (data.end - data.start) / BLOCK_SECTORS * BLOCK_SECTORS;
        Self { start_sector: data.end.next_multiple_of(BLOCK_SECTORS), data }
    }

    /// The first sector after the region.
    pub fn end_sector(&self) -> u64 {
        self.start_sector + Self::sectors_for(self.data.end - self.data.start)
    }

    pub(crate) fn page_count(&self) -> u64 {
        ((self.data.end - self.data.start) / BLOCK_SECTORS).div_ceil(PAGE_BLOCKS)
    }

    pub(crate) fn page_sector(&self, page: usize) -> u64 {
        self.start_sector + (HEADER_COUNT + page as u64) * BLOCK_SECTORS
    }

    /// The position of the header with this sequence number.
    pub fn header_sector(&self, sequence: u64) -> u64 {
        self.start_sector + sequence % HEADER_COUNT * BLOCK_SECTORS
    }

    pub(crate) fn group_pages(&self) -> u64 {
        self.page_count().div_ceil(GROUP_COUNT_MAX).max(1)
    }

    pub(crate) fn group_count(&self) -> usize {
        self.page_count().div_ceil(self.group_pages()) as usize
    }
}

/// The header of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session that wrote it.
    pub session: u32,
    /// Of two headers the higher counts.
    pub sequence: u64,
    /// Pages of another epoch are void.
    pub epoch: u64,
    /// The data that the checksums cover.
    pub data: Range<u64>,
    /// Identities of the array and of the member.
    pub identity: [[u8; 16]; 2],
    /// By group: the first session whose pages are trusted.
    pub trusted_from: Vec<u32>,
}

/// The reason why there is no valid header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// There is no header.
    #[error("there is no region of checksums")]
    Absent,
    /// There is a damaged header.
    #[error("the header of the checksums is damaged")]
    Damaged,
    /// A later version wrote it.
    #[error("the checksums have version {0}, and this program knows only version 1")]
    Version(u32),
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Header {
    /// The header of a new region. Its pages are void, whatever their content. `epoch`: random.
    pub fn new(region: &Region, identity: [[u8; 16]; 2], epoch: u64) -> Self {
        let trusted_from = vec![0; region.group_count()];
        Self { session: 0, sequence: 0, epoch, data: region.data.clone(), identity, trusted_from }
    }

    /// Makes all checksums unknown, as other software may have written to the drive: pages of this epoch are void. The header
    /// must be durable before any metadata is written that claims otherwise.
    #[must_use]
    pub fn void(self) -> Self {
        Self {
            sequence: self.sequence + 1,
            epoch: self.epoch.wrapping_add(1),
            trusted_from: vec![0; self.trusted_from.len()],
            ..self
        }
    }

    /// Its position.
    pub fn sector(&self) -> u64 {
        Region::behind(self.data.clone()).header_sector(self.sequence)
    }

    /// Its 4 KiB.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(8, &VERSION.to_le_bytes());
        put(12, &self.session.to_le_bytes());
        let numbers = [self.sequence, self.epoch, self.data.start, self.data.end - self.data.start];
        for (index, value) in numbers.iter().enumerate() {
            put(16 + index * 8, &value.to_le_bytes());
        }
        put(48, &self.identity[0]);
        put(64, &self.identity[1]);
        for (group, session) in self.trusted_from.iter().enumerate() {
            put(GROUPS_AT + group * 4, &session.to_le_bytes());
        }
        let sum = crc32c(&bytes[..SUM_AT]);
        bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses a header.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        if bytes.len() < BLOCK_BYTES || &bytes[..8] != MAGIC {
            return Err(HeaderError::Absent);
        }
        if short(bytes, SUM_AT) != crc32c(&bytes[..SUM_AT]) {
            return Err(HeaderError::Damaged);
        }
        if short(bytes, 8) != VERSION {
            return Err(HeaderError::Version(short(bytes, 8)));
        }
        let (start, sectors) = (number(bytes, 32), number(bytes, 40));
        let end = start.checked_add(sectors).filter(|&end| end <= SECTORS_MAX).ok_or(HeaderError::Damaged)?;
        let region = Region::behind(start..end);
        if region.data.end != end || sectors == 0 {
            return Err(HeaderError::Damaged);
        }
        let identity = |at: usize| bytes[at..at + 16].try_into().expect("sixteen bytes");
        Ok(Self {
            session: short(bytes, 12),
            sequence: number(bytes, 16),
            epoch: number(bytes, 24),
            data: start..end,
            identity: [identity(48), identity(64)],
            trusted_from: (0..region.group_count()).map(|group| short(bytes, GROUPS_AT + group * 4)).collect(),
        })
    }

    /// The bytes of both headers of a region, one of them this one: a write of them leaves none that outranks it.
    pub fn encode_alone(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_COUNT as usize * BLOCK_BYTES];
        let at = (self.sequence % HEADER_COUNT) as usize * BLOCK_BYTES;
        bytes[at..at + BLOCK_BYTES].copy_from_slice(&self.encode());
        bytes
    }

    /// The valid header of a region's two. `bytes`: the 8 KiB of both. Valid ones that are not `ours` do not count.
    ///
    /// # Errors
    /// Neither is valid and ours, or the newer one has impossible numbers.
    pub fn choose(bytes: &[u8], ours: impl Fn(&Self) -> bool) -> Result<Self, HeaderError> {
        let (first, second) = bytes.split_at(BLOCK_BYTES.min(bytes.len()));
        let (first, second) = (Self::parse(first), Self::parse(second));
        let is_foreign = |header: &Result<Self, HeaderError>| header.as_ref().is_ok_and(|header| !ours(header));
        let younger = match (first, second) {
            (Ok(first), Ok(second)) if ours(&first) && ours(&second) => {
                Ok(if first.sequence > second.sequence { first } else { second })
            }
            (Ok(one), _) | (_, Ok(one)) if ours(&one) => Ok(one),
            (first, second) if is_foreign(&first) || is_foreign(&second) => Err(HeaderError::Absent),
            (Err(HeaderError::Absent), Err(error)) | (Err(error), _) => Err(error),
            (Ok(_), _) => unreachable!("it is ours or foreign"),
        };
        let counted = |header: &Self| header.sequence <= SEQUENCE_MAX && header.session <= SESSION_MAX;
        younger.and_then(|header| if counted(&header) { Ok(header) } else { Err(HeaderError::Damaged) })
    }
}

/// The bytes of a page.
pub(crate) fn encode_page(page: usize, epoch: u64, session: u32, sums: &[u32], into: &mut [u8]) {
    into[4..8].copy_from_slice(&session.to_le_bytes());
    into[8..16].copy_from_slice(&(epoch ^ page as u64).to_le_bytes());
    for (bytes, sum) in into[SUMS_AT..].chunks_exact_mut(4).zip(sums) {
        bytes.copy_from_slice(&sum.to_le_bytes());
    }
    let sum = crc32c(&into[4..]);
    into[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Decodes the checksums of a page. Returns true if they are trusted.
pub(crate) fn decode_page(page: usize, epoch: u64, trusted_from: u32, bytes: &[u8], sums: &mut [u32]) -> bool {
    let trusted =
        number(bytes, 8) == epoch ^ page as u64 && short(bytes, 4) >= trusted_from && short(bytes, 0) == crc32c(&bytes[4..]);
    if trusted {
        for (sum, bytes) in sums.iter_mut().zip(bytes[SUMS_AT..].chunks_exact(4)) {
            *sum = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
    }
    trusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_no_flipped_bit_does() {
        let region = Region::behind(2048..2048 + (1 << 21));
        let mut header = Header::new(&region, [[7; 16], [9; 16]], 0x1234_5678_9abc);
        header.trusted_from[3] = 5;
        let bytes = header.encode();
        assert_eq!(Header::parse(&bytes), Ok(header.clone()));
        for at in (0..BLOCK_BYTES).step_by(61) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(Header::parse(&wrong).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_younger_of_two_headers_counts_and_a_torn_one_does_not() {
        let region = Region::behind(0..8192);
        let old = Header::new(&region, [[1; 16]; 2], 1);
        let new = Header { sequence: 1, ..old.clone() };
        let both = [old.encode(), new.encode()].concat();
        assert_eq!(Header::choose(&both, |_| true), Ok(new));
        let mut torn = both;
        torn[BLOCK_BYTES + 600..].fill(0);
        assert_eq!(Header::choose(&torn, |_| true), Ok(old));
        assert_eq!(Header::choose(&vec![0; 2 * BLOCK_BYTES], |_| true), Err(HeaderError::Absent));
    }

    /// The next header increments these.
    #[test]
    fn counts_that_nobody_counted_are_not_believed_and_nor_is_the_header_before() {
        let region = Region::behind(0..8192);
        let old = Header::new(&region, [[1; 16]; 2], 1);
        for new in [
            Header { sequence: u64::MAX, ..old.clone() },
            Header { sequence: SEQUENCE_MAX + 1, ..old.clone() },
            Header { sequence: 1, session: u32::MAX, ..old.clone() },
            Header { sequence: 1, session: u32::MAX - 1, ..old.clone() },
        ] {
            assert_eq!(Header::choose(&[old.encode(), new.encode()].concat(), |_| true), Err(HeaderError::Damaged));
            assert_eq!(Header::choose(&[new.encode(), old.encode()].concat(), |_| true), Err(HeaderError::Damaged));
        }
        for start in [u64::MAX - 8191, u64::MAX - 16384, SECTORS_MAX - 8, u64::MAX / 8] {
            let mut bytes = old.encode();
            bytes[32..40].copy_from_slice(&start.to_le_bytes());
            let sum = crc32c(&bytes[..SUM_AT]);
            bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
            let parsed = Header::parse(&bytes);
            assert!(parsed.is_err(), "data at sector {start}: {parsed:?}");
        }
    }

    #[test]
    fn data_and_their_region_fill_the_room_and_no_more() {
        for room in (64..200_000).step_by(37).chain([1 << 31, (1 << 35) + 5]) {
            let data = Region::data_sectors_within(room);
            assert!(data + Region::sectors_for(data) <= room, "room for {room}");
            let more = data + 2 * BLOCK_SECTORS;
            assert!(more + Region::sectors_for(more) > room, "{room} has room for more");
        }
    }
}
