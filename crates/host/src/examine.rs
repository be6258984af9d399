//! What drives carry, without touching them.

use crate::HostError;
use std::path::Path;
use stria_block::bytes;
use stria_drive::{Access, DriveInfo, SyncDrive};
use stria_format::md::Candidate;

/// A drive and what lies on it.
#[derive(Clone, Debug)]
pub struct Examined {
    /// What it is.
    pub info: DriveInfo,
    /// What it carries.
    pub candidate: Candidate,
}

/// Looks at one drive.
///
/// # Errors
/// When it cannot be opened; what cannot be read on it is told in the candidate.
pub fn examine(path: &Path) -> Result<Examined, HostError> {
    let drive = SyncDrive::open(path, Access::ReadOnly)?;
    Ok(Examined { info: drive.info().clone(), candidate: candidate_of(&drive) })
}

/// Reads md's metadata from an open drive.
pub(crate) fn candidate_of(drive: &SyncDrive) -> Candidate {
    let info = drive.info();
    let mut read = |start: u64, sectors: u64| {
        let mut buffer = vec![0; bytes(sectors)];
        drive.read_at(start, &mut buffer).map(|()| buffer)
    };
    Candidate::read(info.path.display().to_string(), info.limits.size_sectors, info.limits.logical_block_bytes, &mut read)
}

/// Refuses a drive that is named twice.
pub(crate) fn refuse_twins<'a>(infos: impl Iterator<Item = &'a DriveInfo>) -> Result<(), HostError> {
    let mut seen: Vec<&DriveInfo> = Vec::new();
    for info in infos {
        if let Some(twin) = seen.iter().find(|known| known.identity == info.identity) {
            let (a, b) = (twin.path.display(), info.path.display());
            return Err(HostError::Refused(format!("{a} and {b} are the same drive: name it once")));
        }
        seen.push(info);
    }
    Ok(())
}
