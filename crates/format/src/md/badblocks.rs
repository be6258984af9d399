//! The bad-block log: sectors of a member that are known to be unreadable.
//!
//! 64-bit entries, little-endian: 54 bits of sector (from the start of the drive), 10 bits of length,
//! both in units of 2^`bblog_shift` sectors; all ones ends the list. It is valid only while the superblock has
//! [`feature::BAD_BLOCKS`](super::superblock::feature::BAD_BLOCKS).
//!
//! Source: `super_1_load` and `super_1_sync` in Linux' `md.c`.

use std::ops::Range;
use stria_array::DriveSector;

/// The largest log that Linux reads, in sectors.
pub const SECTORS_MAX: u16 = 8;

/// The bad blocks of a log, ascending. Entries of length 0 are skipped.
///
/// # Errors
/// A sentence, if an entry is beyond the end of the drive.
pub fn parse(bytes: &[u8], shift: u8, drive_sectors: u64) -> Result<Vec<Range<DriveSector>>, String> {
    let mut blocks = Vec::new();
    for entry in bytes.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes"))) {
        if entry == u64::MAX {
            break;
        }
        let (start, length) = (entry >> 10, entry & 0x3ff);
        let sectors = |units: u64| units.checked_shl(u32::from(shift)).filter(|sectors| sectors >> shift == units);
        let range = sectors(start).and_then(|start| Some(start..start.checked_add(sectors(length)?)?));
        match range {
            Some(range) if range.end <= drive_sectors => {
                if !range.is_empty() {
                    blocks.push(DriveSector::span(range));
                }
            }
            _ => return Err(format!("the bad-block log names sector {start}, beyond the end of the drive")),
        }
    }
    blocks.sort_by_key(|range| range.start);
    Ok(blocks)
}

/// A log of `size_sectors` that names `blocks`; `None`: they do not fit.
pub fn encode(blocks: &[Range<DriveSector>], shift: u8, size_sectors: u16) -> Option<Vec<u8>> {
    let unit = 1u64.checked_shl(u32::from(shift))?;
    let mut bytes = Vec::new();
    for block in blocks {
        let (mut start, end) = (block.start.get() / unit, block.end.get().div_ceil(unit));
        while start < end {
            let length = (end - start).min(0x200);
            bytes.extend((start << 10 | length).to_le_bytes());
            start += length;
        }
    }
    let space = usize::from(size_sectors) * 512;
    (bytes.len() <= space).then(|| {
        bytes.resize(space, 0xff);
        bytes
    })
}
