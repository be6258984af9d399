//! Checksums: a CRC-32C for each block of 4 KiB, in a region of its own behind the data it speaks of.
//!
//! [`IntegrityDevice`] is a layer with a device's face on both sides. What is read is checked, and what does not hold is a
//! read error of the kind that redundancy above mends. What is written is noted. It knows neither arrays nor formats;
//! [`Region`] and [`Header`] say which bytes lie where.
//!
//! # What may be believed
//! A sum is 0 where nothing is known: then the first read says what is right. Sums are written back lazily and without a
//! journal, so those of blocks that were written when the power went are not to be trusted:
//!
//! | a group of pages of sums is | |
//! | --- | --- |
//! | *dirty*, durably in the header | before the first write to its blocks starts |
//! | clean again | some seconds after the last, when data and sums are down; or when the layer is closed |
//!
//! A page says in which **session** it was written. A dirty group trusts only pages of later sessions than the one that
//! made it dirty. So a crash costs the sums of the groups that were being written, and nothing has to be recomputed at once:
//! whoever resyncs, or scrubs, reads those blocks anyway.
//!
//! What a drive's volatile cache held when a session begins may be read, and yet be lost with the power. So no sum that was
//! learned is written down before a first flush has ended.
//!
//! Who may have changed data without this layer is not told here: whoever opens knows, and says [`Header::void`].
#![forbid(unsafe_code)]

mod device;
mod region;
mod table;

pub use device::{Counts, IntegrityDevice};
pub use region::{BLOCK_SECTORS, GROUP_COUNT_MAX, HEADERS_SECTORS, Header, HeaderError, PAGE_BLOCKS, Region};
