//! Reads from an open drive for `format`.

use stria_block::{IoError, bytes};
use stria_drive::SyncDrive;
use stria_format::md::Candidate;

/// Reads md's metadata from an open drive.
pub(crate) fn candidate_of(drive: &SyncDrive) -> Candidate {
    let info = drive.info();
    let name = info.path.display().to_string();
    let mut read = |start, sectors| read(drive, start, sectors);
    Candidate::read(name, info.limits.size_sectors, info.limits.logical_block_bytes, &mut read)
}

/// Reads sectors of a drive.
pub(crate) fn read(drive: &SyncDrive, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
    let mut buffer = vec![0; bytes(sectors)];
    drive.read_at(start_sector, &mut buffer).map(|()| buffer)
}
