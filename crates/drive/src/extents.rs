//! Where a file has holes, by `SEEK_DATA` and `SEEK_HOLE`.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use stria_block::{Extent, SECTOR_BYTES};

/// The most extents in one answer. The caller continues at its end.
const EXTENTS_MAX: usize = 256;

/// The extents of `sectors` from `start_sector` on, in units of `block_sectors`. A block that is partly a hole is data. On a
/// file system that cannot report holes, everything is data.
///
/// Moves the file's offset, which nothing else here uses.
pub(crate) fn extents_of(file: &File, start_sector: u64, sectors: u64, block_sectors: u64) -> Result<Vec<Extent>, Errno> {
    let block_bytes = block_sectors * SECTOR_BYTES as u64;
    let end = (start_sector + sectors) * SECTOR_BYTES as u64;
    let mut at = start_sector * SECTOR_BYTES as u64;
    let mut extents: Vec<Extent> = Vec::new();
    while at < end && extents.len() < EXTENTS_MAX {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(end),
            Err(Errno::NXIO) => end,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(errno) => return Err(errno),
        };
        let hole_end = if data == end { end } else { data - data % block_bytes };
        let (next, hole) = if hole_end > at {
            (hole_end, true)
        } else {
            match seek(file, SeekFrom::Hole(data)) {
                Ok(hole) => (hole.next_multiple_of(block_bytes).clamp(at + block_bytes, end), false),
                Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => (end, false),
                Err(errno) => return Err(errno),
            }
        };
        let run_sectors = (next - at) / SECTOR_BYTES as u64;
        match extents.last_mut() {
            Some(last) if last.hole == hole => last.sectors += run_sectors,
            _ => extents.push(Extent { sectors: run_sectors, hole }),
        }
        at = next;
    }
    Ok(extents)
}
