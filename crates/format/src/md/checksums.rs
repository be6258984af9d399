//! Checksums of a member's data, in a region between the end of its data, by the superblock, and the end of the drive.
//!
//! md uses `data_size` sectors of a drive and does not touch the rest, so a kernel runs such an array as any other, and writes
//! data without their checksums. The microseconds of `utime` show it: Linux and mdadm write zeros there, and while an array has
//! checksums Stria never does. A start that finds zeros voids the checksums before it writes another superblock. A kernel that ran
//! an array of a level without redundancy leaves no trace; there a wrong checksum only shows that other software wrote.

use super::superblock::Superblock;
use crate::read::Read;
use stria_integrity::{HEADERS_SECTORS, Header, HeaderError, Region};

/// In the microseconds of `utime`: no tag of the write log, which are below it.
pub(crate) const WITNESSED: u64 = 1_000_000;

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

/// The head of new checksums: all are unknown. Their epoch comes from the member's identity, which is random, and from the number of events. So
/// pages from before checksums were taken away do not count: they say nothing of what was written since.
fn new_header(superblock: &Superblock) -> Header {
    let header = &superblock.header;
    let random = u64::from_le_bytes(header.device_uuid[..8].try_into().expect("eight bytes"));
    // A head that is made void adds one to its epoch. The multiplier (of the golden ratio) keeps new epochs far from all of these.
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
