//! Checksums of a member's data, in a region between the end of its data, by the superblock, and the end of the drive.
//!
//! md uses `data_size` sectors of a drive and does not touch the rest, so a kernel runs such an array as any other, and writes
//! data without their checksums. The microseconds of `utime` show it: Linux and mdadm write zeros there, and while an array has
//! checksums Stria never does. A start that finds zeros voids the checksums before it writes another superblock. A kernel that
//! ran an array of a level without redundancy leaves no trace; there a wrong checksum only shows that other software wrote.

use super::superblock::Superblock;
use crate::fields::on_disk;
use crate::read::Read;
use stria_integrity::{BLOCK_SECTORS, HEADERS_SECTORS, Header, HeaderError, Region};

/// In the microseconds of `utime`: no tag of the write log, which are below it.
pub(crate) const WITNESSED: u64 = 1_000_000;

on_disk! {
    /// A head of the region, as `stria_integrity::Header` reads and writes it.
    pub struct ChecksumHead [4096] {
        /// `StriaCRC`.
        0x000 magic: [u8; 8],
        /// 1.
        0x008 version: u32,
        /// The session that wrote it.
        0x00c session: u32,
        /// Counts heads.
        0x010 sequence: u64,
        /// Pages of another epoch are void.
        0x018 epoch: u64,
        /// First sector of the data.
        0x020 first_sector: u64,
        /// Count of sectors of the data.
        0x028 sectors: u64,
        /// The array's identity.
        0x030 set_uuid: [u8; 16],
        /// The member's identity.
        0x040 device_uuid: [u8; 16],
        /// Zero.
        0x050 reserved: [u8; 48],
        /// For each group of pages, u32: the first session whose pages are trusted.
        0x080 trusted_from: [u8; 3964],
        /// Checksum of the bytes before.
        0xffc crc: u32,
    }
}

on_disk! {
    /// A page of checksums.
    pub struct ChecksumPage [4096] {
        /// Checksum of the bytes behind it.
        0x00 crc: u32,
        /// The session that wrote it.
        0x04 session: u32,
        /// The head's epoch XOR the number of the page.
        0x08 epoch: u64,
        /// For each block, u32: its checksum, or 0.
        0x10 checksums: [u8; 4080],
    }
}

/// Both heads and the first page of the region, with their positions on the drive, as far as there are any. For `examine --raw`.
pub(crate) fn pages(superblock: &Superblock, drive_sectors: u64, read: &mut Read) -> Vec<(u64, Vec<u8>)> {
    let region = region_of(superblock);
    if region.data.is_empty() || region.end_sector() > drive_sectors {
        return Vec::new();
    }
    let mut page = |index: u64| {
        let start = region.start_sector + index * BLOCK_SECTORS;
        read(start, BLOCK_SECTORS).ok().map(|bytes| (start, bytes))
    };
    let mut pages: Vec<_> = [0, 1].into_iter().filter_map(&mut page).filter(|(_, head)| head.starts_with(b"StriaCRC")).collect();
    if !pages.is_empty() {
        pages.extend(page(2));
    }
    pages
}

/// The checksums behind a member's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// Its head, or the fault of the head.
    pub header: Result<Header, HeaderError>,
    /// According to the superblock no data was written without its checksums.
    pub witnessed: bool,
    fresh: Header,
}

impl Checksums {
    /// The head to go on with. `epoch`: random, for a head that must be made anew.
    ///
    /// # Errors
    /// The checksums there are a later program's.
    pub fn open(&self, epoch: u64) -> Result<Opened, HeaderError> {
        match &self.header {
            Ok(header) if self.witnessed => Ok(Opened { header: header.clone(), first: None }),
            Ok(header) => Ok(Opened::voided(header.clone())),
            Err(HeaderError::Version(version)) => Err(HeaderError::Version(*version)),
            Err(_) => {
                // A head that could not be read may be readable again one day. It counts more headers than a new one.
                let header = Header { epoch, ..self.fresh.clone() };
                let first = Some((Region::behind(header.data.clone()).start_sector, header.encode_alone()));
                Ok(Opened { header, first })
            }
        }
    }
}

/// The head that a run begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The head.
    pub header: Header,
    /// What must be durable before another superblock is written, as the checksums there do not count: position and bytes.
    pub first: Option<(u64, Vec<u8>)>,
}

impl Opened {
    /// With all checksums unknown.
    pub fn voided(header: Header) -> Self {
        let header = header.void();
        let first = Some((header.sector(), header.encode()));
        Self { header, first }
    }
}

/// The position of this member's checksums.
pub(crate) fn region_of(superblock: &Superblock) -> Region {
    let start = superblock.header.data_offset;
    Region::behind(start..start + superblock.header.data_size)
}

/// The head of new checksums: all are unknown. Their epoch comes from the member's identity, which is random, and from the number
/// of events. So pages from before checksums were taken away do not count (R63): they say nothing of what was written since.
fn new_header(superblock: &Superblock) -> Header {
    let header = &superblock.header;
    let random = u64::from_le_bytes(header.device_uuid[..8].try_into().expect("eight bytes"));
    // A head that is made void adds one to its epoch. The multiplier (of the golden ratio) keeps new epochs far from all of
    // these.
    let epoch = random ^ header.events.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Header::new(&region_of(superblock), [header.set_uuid, header.device_uuid], epoch)
}

/// Both positions of the head, for a new member.
pub(crate) fn new_region(superblock: &Superblock) -> Vec<u8> {
    new_header(superblock).encode_alone()
}

/// Looks behind a member's data. Checksums of another array or member do not count.
pub(crate) fn find(superblock: &Superblock, drive_sectors: u64, read: &mut Read) -> Option<Checksums> {
    let region = region_of(superblock);
    if region.data.is_empty() || region.end_sector() > drive_sectors {
        return None;
    }
    let fresh = new_header(superblock);
    let ours = |header: &Header| header.data == fresh.data && header.identity == fresh.identity;
    let header = match read(region.start_sector, HEADERS_SECTORS) {
        Ok(bytes) => Header::choose(&bytes, ours),
        Err(_) => Err(HeaderError::Damaged),
    };
    if header == Err(HeaderError::Absent) {
        return None;
    }
    Some(Checksums { header, witnessed: superblock.utime_micros() != 0, fresh })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_heads_is_what_is_written() {
        let region = Region::behind(2048..2048 + 8192);
        let header = Header { session: 5, sequence: 6, ..Header::new(&region, [[7; 16], [9; 16]], 11) };
        let bytes = header.encode();
        let head = ChecksumHead::read(bytes[..].try_into().expect("4 KiB"));
        assert_eq!((&head.magic, head.version, head.session, head.sequence, head.epoch), (b"StriaCRC", 1, 5, 6, 11));
        assert_eq!((head.first_sector, head.sectors, head.set_uuid, head.device_uuid), (2048, 8192, [7; 16], [9; 16]));
        assert_eq!((head.crc, head.reserved), (stria_parity::crc32c(&bytes[..0xffc]), [0; 48]));
    }
}
