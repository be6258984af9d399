//! Checksums: a CRC-32C for each block of 4 KiB, in a region of its own behind the data.
//!
//! [`IntegrityDevice`] is a block device that wraps another. It verifies what is read; a mismatch is a read error of the kind
//! that redundancy above corrects. It records the checksums of what is written. It knows neither arrays nor formats. [`Region`]
//! and [`Header`] define the bytes on the drive.
//!
//! # Which checksums are trusted
//! An unknown checksum is 0, and the next read records it. Checksums are written back lazily and without a journal, so after a
//! power cut those of recently written blocks are not trusted:
//!
//! | a group of checksum pages is | |
//! | --- | --- |
//! | *dirty*, durably in the header | before the first write to its blocks starts |
//! | clean again | some seconds after the last write, when data and checksums are durable; or when the device is closed |
//!
//! A page names the **session** that wrote it. A dirty group trusts only pages of later sessions than the one that made it
//! dirty. So a crash costs the checksums of the groups that were being written, and nothing must be recomputed at once: a
//! resync or a scrub reads those blocks anyway.
//!
//! Bytes in a drive's volatile cache when a session begins may be read, and may still be lost in a power cut. So no checksum
//! that a read recorded is written to the drive before a first flush has ended.
//!
//! This crate cannot detect that other software has changed data. The code that opens the array detects it, and calls
//! [`Header::void`].
#![forbid(unsafe_code)]

mod device;
mod region;
mod table;

pub use device::{Counts, IntegrityDevice};
pub use region::{BLOCK_SECTORS, GROUP_COUNT_MAX, HEADERS_SECTORS, Header, HeaderError, PAGE_BLOCKS, Region};
