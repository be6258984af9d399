//! How a drive is read.

use stria_block::IoError;

/// The function by which this crate reads a drive: first sector, count of sectors. Only ranges within the drive and
/// aligned to 4 KiB are asked for, except on drives whose size is not a multiple of that.
pub type Read<'a> = dyn FnMut(u64, u64) -> Result<Vec<u8>, IoError> + 'a;
