//! Reads from an open drive for `format`.

use stria_array::MetadataWrite;
use stria_block::{IoError, SECTOR_BYTES, bytes};
use stria_drive::{DriveKind, SyncDrive};
use stria_format::detect::unknown;
use stria_format::md::{Candidate, SuperblockError};

/// Reads md's metadata from an open drive.
pub(crate) fn candidate_of(drive: &SyncDrive) -> Candidate {
    candidate_after(drive, std::iter::empty())
}

/// The same as it will be once `writes` are done, in this order.
pub(crate) fn candidate_after<'a>(drive: &SyncDrive, writes: impl Iterator<Item = &'a MetadataWrite> + Clone) -> Candidate {
    let info = drive.info();
    let name = info.path.display().to_string();
    let mut read = |start, sectors| {
        let mut found = read(drive, start, sectors)?;
        for write in writes.clone() {
            let (first, data) = (write.start_sector.get(), &write.data[..]);
            let (from, to) = (first.max(start), (first + (data.len() / SECTOR_BYTES) as u64).min(start + sectors));
            if from < to {
                found[bytes(from - start)..bytes(to - start)].copy_from_slice(&data[bytes(from - first)..bytes(to - first)]);
            }
        }
        Ok(found)
    };
    let mut candidate = Candidate::read(name, info.limits.size_sectors, info.limits.logical_block_bytes, &mut read);
    if matches!(candidate.found, Err(SuperblockError::Absent)) && candidate.carries.is_empty() && info.kind == DriveKind::File {
        candidate.carries.extend(unknown(candidate.size_sectors, &mut read));
    }
    candidate
}

/// Reads sectors of a drive.
pub(crate) fn read(drive: &SyncDrive, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
    let mut buffer = vec![0; bytes(sectors)];
    drive.read_at(start_sector, &mut buffer).map(|()| buffer)
}
