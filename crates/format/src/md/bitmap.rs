//! The write-intent bitmap: one bit for each chunk of the sync space, set where redundancy may be inconsistent after a crash.
//!
//! 256 bytes of header, then the bits, lowest first in each byte. Every active member carries a copy.
//! A bit is set on all of them before the chunk is written and cleared some time after, but only while
//! no member is missing, so that the bits show what a returning member missed: it may return by the bitmap if its events are not
//! below `events_cleared`.
//!
//! Source: `bitmap.h` and `super1.c` of mdadm, `md-bitmap.c` of Linux. Sizes and positions are those of mdadm 4.2.

use super::unserved::UnservedBitmap;
use crate::fields::on_disk;
use thiserror::Error;

/// "bitm", little-endian.
pub const MAGIC: u32 = 0x6d74_6962;

/// Bits of `state`.
pub mod state {
    /// The bits are out of date: everything must be resynced.
    pub const STALE: u32 = 1 << 1;
    /// A write of the bitmap failed.
    pub const WRITE_ERROR: u32 = 1 << 2;
}

/// A bitmap is made in pages, and written in pages if its position allows.
pub const PAGE_BYTES: usize = 4096;

on_disk! {
    /// The bitmap's own superblock.
    pub struct Header[256] {
        /// [`MAGIC`].
        0x00 magic: u32,
        /// 4; 3 differs on big-endian machines only; 5: clustered, 6: lockless.
        0x04 version: u32,
        /// The array's.
        0x08 uuid: [u8; 16],
        /// The array's events when this was written; behind the superblock's: out of date.
        0x18 events: u64,
        /// The array's events when a bit was last cleared.
        0x20 events_cleared: u64,
        /// Size of the sync space in sectors.
        0x28 sync_size: u64,
        /// See [`state`].
        0x30 state: u32,
        /// Bytes of the sync space that one bit covers.
        0x34 chunksize: u32,
        /// Seconds between clean-ups.
        0x38 daemon_sleep: u32,
        /// Writes that may lag on write-mostly members.
        0x3c write_behind: u32,
        /// Space for the bitmap in sectors; 0: not recorded.
        0x40 sectors_reserved: u32,
        /// Nodes of a cluster.
        0x44 nodes: u32,
        /// The cluster's name.
        0x48 cluster_name: [u8; 64],
        /// Zero.
        0x88 pad: [u8; 120],
    }
}

/// A superblock update writes superblocks and bitmap in any order, and a start may repeat it with one more event.
const AHEAD_MAX: u64 = 2;

/// The fault of a bitmap.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BitmapError {
    /// It cannot be trusted; the array must be resynced in full.
    #[error("the write-intent bitmap is damaged: {0}")]
    Damaged(String),
    /// It is of a kind that is not served.
    #[error(transparent)]
    Unserved(#[from] UnservedBitmap),
}

/// A bitmap, header and bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// The header.
    pub header: Header,
    /// The bits with whatever follows them, up to a multiple of [`PAGE_BYTES`] counted from the header.
    bits: Vec<u8>,
}

/// Bytes of a bitmap of this shape, header included; `None`: there is no such bitmap.
fn length_bytes(sync_sectors: u64, chunk_bytes: u32) -> Option<u64> {
    let chunk_sectors = u64::from(chunk_bytes) / 512;
    if chunk_sectors == 0 {
        return None;
    }
    Some(Header::SIZE_BYTES as u64 + sync_sectors.div_ceil(chunk_sectors).div_ceil(8))
}

impl Bitmap {
    /// 256 KiB: mdadm and Stria make bitmaps of 128 KiB at most. The header has no checksum, so this bounds the work and the
    /// memory (some 32 MiB for each lane) that a damaged one costs.
    pub const BYTES_MAX: u64 = 256 << 10;

    /// A bitmap for a new array: every bit set, because nothing is known of the members' contents.
    ///
    /// # Panics
    /// `chunk_bytes` is not a power of two of at least 512.
    pub fn new(uuid: [u8; 16], sync_sectors: u64, chunk_bytes: u32) -> Self {
        assert!(chunk_bytes.is_power_of_two() && chunk_bytes >= 512, "a bitmap chunk of {chunk_bytes} bytes");
        let header = Header {
            magic: MAGIC,
            version: 4,
            uuid,
            events: 0,
            events_cleared: 0,
            sync_size: sync_sectors,
            state: 0,
            chunksize: chunk_bytes,
            daemon_sleep: 5,
            write_behind: 0,
            sectors_reserved: 0,
            nodes: 0,
            cluster_name: [0; 64],
            pad: [0; 120],
        };
        let length = length_bytes(sync_sectors, chunk_bytes).expect("checked above").next_multiple_of(PAGE_BYTES as u64);
        Self { header, bits: vec![0xff; length as usize - Header::SIZE_BYTES] }
    }

    /// The number of sectors to read for the bitmap whose first sector is `first`, and which has `space_sectors` on the drive.
    ///
    /// # Errors
    /// As [`Bitmap::parse`].
    pub fn sectors_to_read(first: &[u8], space_sectors: u64) -> Result<u64, BitmapError> {
        let header = Self::header_of(first)?;
        Self::sectors_for(header.sync_size, header.chunksize, space_sectors)
    }

    /// Sectors of a bitmap of this shape in this space. Computed before any memory is taken for one.
    ///
    /// # Errors
    /// [`BitmapError::Damaged`], when it has no place there.
    fn sectors_for(sync_sectors: u64, chunk_bytes: u32, space_sectors: u64) -> Result<u64, BitmapError> {
        let length = length_bytes(sync_sectors, chunk_bytes).filter(|&length| length <= Self::BYTES_MAX);
        let sectors = length.map(|length| length.div_ceil(512)).filter(|&sectors| sectors <= space_sectors);
        sectors.ok_or_else(|| {
            BitmapError::Damaged(format!(
                "{sync_sectors} sectors in chunks of {chunk_bytes} bytes need a longer bitmap than its space of {space_sectors} \
                 sectors holds ({} KiB at most)",
                Self::BYTES_MAX >> 10
            ))
        })
    }

    fn header_of(bytes: &[u8]) -> Result<Header, BitmapError> {
        let Some(Ok(head)) = bytes.get(..Header::SIZE_BYTES).map(<&[u8; 256]>::try_from) else {
            return Err(BitmapError::Damaged("it is cut off".into()));
        };
        let header = Header::read(head);
        let damaged = |what: String| Err(BitmapError::Damaged(what));
        if header.magic != MAGIC {
            return damaged(format!("magic 0x{:08x} instead of 0x{MAGIC:08x}", header.magic));
        }
        match header.version {
            3 | 4 => {}
            5 => return Err(UnservedBitmap::Cluster.into()),
            6 => return Err(UnservedBitmap::Lockless.into()),
            version => return Err(UnservedBitmap::Version { version }.into()),
        }
        if !header.chunksize.is_power_of_two() || header.chunksize < 512 {
            return damaged(format!("chunks of {} bytes", header.chunksize));
        }
        Ok(header)
    }

    /// Reads a bitmap; `bytes` starts at its header and has at least [`Bitmap::sectors_to_read`].
    ///
    /// # Errors
    /// [`BitmapError`]: damaged or of another kind.
    pub fn parse(bytes: &[u8], array_uuid: &[u8; 16]) -> Result<Self, BitmapError> {
        let length = Self::sectors_to_read(bytes, bytes.len() as u64 / 512)? as usize * 512;
        let header = Self::header_of(bytes)?;
        if header.uuid != *array_uuid {
            return Err(BitmapError::Damaged("it belongs to another array".into()));
        }
        match bytes.get(Header::SIZE_BYTES..length) {
            Some(_) => {
                let whole = length.next_multiple_of(PAGE_BYTES);
                let mut bits = bytes[Header::SIZE_BYTES..bytes.len().min(whole)].to_vec();
                bits.resize(whole - Header::SIZE_BYTES, 0xff);
                Ok(Self { header, bits })
            }
            None => Err(BitmapError::Damaged(format!("{} bytes of {length} could be read", bytes.len()))),
        }
    }

    /// Checks that it suits a sync space of this size and fits in this space.
    ///
    /// # Errors
    /// [`BitmapError::Damaged`]: its chunks are too small for that.
    pub(crate) fn suits(&self, sync_sectors: u64, space_sectors: u64) -> Result<(), BitmapError> {
        Self::sectors_for(sync_sectors, self.header.chunksize, space_sectors).map(|_| ())
    }

    /// Makes the bitmap cover a sync space of this size; new bits are set. (mdadm and the kernel round the size of a RAID 10
    /// differently; the kernel's way holds.)
    ///
    /// # Errors
    /// [`BitmapError::Damaged`], when `space_sectors` on the members do not hold it; nothing was changed.
    pub fn resize(&mut self, sync_sectors: u64, space_sectors: u64) -> Result<(), BitmapError> {
        self.suits(sync_sectors, space_sectors)?;
        let before = self.chunk_count();
        self.header.sync_size = sync_sectors;
        let length = Header::SIZE_BYTES + self.chunk_count().div_ceil(8) as usize;
        self.bits.resize(length.next_multiple_of(PAGE_BYTES) - Header::SIZE_BYTES, 0xff);
        for chunk in before..self.chunk_count() {
            self.put(chunk, true);
        }
        Ok(())
    }

    /// Sectors of the sync space that one bit covers.
    pub fn chunk_sectors(&self) -> u64 {
        u64::from(self.header.chunksize) / 512
    }

    /// Count of chunks.
    pub fn chunk_count(&self) -> u64 {
        self.header.sync_size.div_ceil(self.chunk_sectors())
    }

    /// True if the bit of `chunk` is set; `false` beyond the end.
    pub fn is_set(&self, chunk: u64) -> bool {
        chunk < self.chunk_count() && self.bits.get((chunk / 8) as usize).is_some_and(|byte| byte >> (chunk % 8) & 1 == 1)
    }

    /// Sets or clears the bit of `chunk`. Returns true if it changed.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn put(&mut self, chunk: u64, set: bool) -> bool {
        assert!(chunk < self.chunk_count(), "chunk {chunk} of {}", self.chunk_count());
        let (byte, bit) = (&mut self.bits[(chunk / 8) as usize], 1 << (chunk % 8));
        let before = *byte;
        *byte = if set { before | bit } else { before & !bit };
        *byte != before
    }

    /// The chunks whose bit is set, ascending.
    pub fn set_chunks(&self) -> impl Iterator<Item = u64> {
        let bytes = self.bits.iter().enumerate().filter(|(_, byte)| **byte != 0);
        let chunks =
            bytes.flat_map(|(at, byte)| (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at as u64 * 8 + bit));
        chunks.take_while(|&chunk| chunk < self.chunk_count())
    }

    /// Bytes from the header to the bit of `chunk`.
    pub fn byte_of(chunk: u64) -> u64 {
        Header::SIZE_BYTES as u64 + chunk / 8
    }

    /// True if it is ahead of an array with this many `events` by more than the two superblock updates that a crash may leave it
    /// ahead. The bits of such a bitmap cannot be trusted.
    pub(crate) fn is_ahead_of(&self, events: u64) -> bool {
        self.header.events.max(self.header.events_cleared) > events.saturating_add(AHEAD_MAX)
    }

    /// Sectors that header and bits take.
    pub fn size_sectors(&self) -> u64 {
        (Header::SIZE_BYTES as u64 + self.chunk_count().div_ceil(8)).div_ceil(512)
    }

    /// Sets or clears every bit, and the rest of their page.
    pub fn fill(&mut self, set: bool) {
        self.bits.fill(if set { 0xff } else { 0 });
    }

    /// Sets every bit that `other` has set, if the two have the same chunks.
    pub fn unite(&mut self, other: &Self) {
        if (self.header.chunksize, self.header.sync_size) == (other.header.chunksize, other.header.sync_size) {
            for (byte, more) in self.bits.iter_mut().zip(&other.bits) {
                *byte |= more;
            }
        } else {
            self.fill(true);
        }
    }

    /// The bitmap as on disk, in complete pages.
    pub fn encode(&self) -> Vec<u8> {
        (0..self.page_count(PAGE_BYTES)).flat_map(|page| self.encode_page(page, PAGE_BYTES)).collect()
    }

    /// Count of pages of this many bytes, a part of [`PAGE_BYTES`].
    pub fn page_count(&self, page_bytes: usize) -> usize {
        (Header::SIZE_BYTES + self.bits.len()) / page_bytes
    }

    /// One page as on disk; the first starts with the header.
    ///
    /// # Panics
    /// Beyond the last page.
    pub fn encode_page(&self, page: usize, page_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; page_bytes];
        let header_length = if page == 0 { Header::SIZE_BYTES } else { 0 };
        if page == 0 {
            bytes[..header_length].copy_from_slice(&self.header.write());
        }
        let start = page * page_bytes + header_length - Header::SIZE_BYTES;
        bytes[header_length..].copy_from_slice(&self.bits[start..][..page_bytes - header_length]);
        bytes
    }
}

/// The space that mdadm leaves for a bitmap, by the size of a member: 4 KiB, from 8 GiB on 64, from 200 GiB on 128 KiB.
pub fn space_sectors(member_sectors: u64) -> u64 {
    match member_sectors {
        0..128 => 0,
        sectors if sectors - 128 >= 200 << 21 => 256,
        sectors if sectors - 8 > 8 << 21 => 128,
        _ => 8,
    }
}

/// Why a bitmap cannot be as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The members have no space for it.
    #[error("the members are too small for a write-intent bitmap: leave it out")]
    MembersTooSmall,
    /// A bit cannot stand for so many bytes.
    #[error("a bitmap chunk of {chunk_bytes} bytes cannot be used: choose a power of two from {least_bytes} bytes to 2 GiB")]
    Impossible {
        /// Asked for.
        chunk_bytes: u64,
        /// The least.
        least_bytes: u64,
    },
}

/// Bytes per bit: the requested number, otherwise 64 MiB or as much as the space demands.
///
/// # Errors
/// When `asked` is no power of two or so small that its bitmap does not fit in the space.
pub fn choose_chunk_bytes(asked: Option<u32>, member_sectors: u64, sync_sectors: u64) -> Result<u32, ChunkError> {
    let room_bytes = space_sectors(member_sectors) * 512;
    if room_bytes == 0 {
        return Err(ChunkError::MembersTooSmall);
    }
    let bits_max = (room_bytes - Header::SIZE_BYTES as u64) * 8;
    let (mut bits, mut chunk_min) = (sync_sectors / 8 + 1, 4096u64);
    while bits > bits_max {
        chunk_min *= 2;
        bits = bits.div_ceil(2);
    }
    let chunk = asked.map_or(chunk_min.max(64 << 20), u64::from);
    match u32::try_from(chunk) {
        Ok(chunk) if chunk.is_power_of_two() && u64::from(chunk) >= chunk_min => Ok(chunk),
        _ => Err(ChunkError::Impossible { chunk_bytes: chunk, least_bytes: chunk_min }),
    }
}
