//! Volumes that a mainboard or a controller made, opened to be read.

use crate::HostError;
use crate::candidate::read;
use stria_drive::{DriveKind, SyncDrive};
use stria_format::detect::Signature;
use stria_format::firmware::{FirmwareDrive, FirmwareError, Volume, volumes};
use stria_format::md::Candidate;

/// Which volumes of firmware RAID (IMSM, DDF) are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirmwareRaid {
    /// None: their drives are strangers.
    #[default]
    Left,
    /// All.
    Read,
    /// The one of this identity.
    Volume([u8; 16]),
}

/// The drives as members of the volumes of firmware RAID that lie on them, as if md had made these: each as often as it has volumes.
/// Drives of md stay as they are.
///
/// # Errors
/// A volume cannot be read.
pub(crate) fn as_members(
    drives: Vec<(SyncDrive, Candidate)>,
    wanted: FirmwareRaid,
) -> Result<Vec<(SyncDrive, Candidate)>, HostError> {
    if wanted == FirmwareRaid::Left {
        return Ok(drives);
    }
    let mut members = Vec::new();
    for (drive, candidate) in drives {
        if !is_member(&candidate) {
            members.push((drive, candidate));
            continue;
        }
        let is_wanted = |volume: &Volume| match wanted {
            FirmwareRaid::Volume(uuid) => volume.uuid == uuid,
            FirmwareRaid::Left | FirmwareRaid::Read => true,
        };
        // A spare of a container has none.
        let refused = |error: FirmwareError| HostError::Refused(format!("{}: {error}", candidate.name));
        for volume in volumes_of(&drive, &candidate).map_err(refused)?.iter().filter(|volume| is_wanted(volume)) {
            let member = with_drive(&drive, &candidate, |known| volume.candidate(known));
            members.push((drive.clone(), member.map_err(refused)?));
        }
    }
    Ok(members)
}

/// True if the drive belongs to firmware RAID whose volumes can be read.
fn is_member(candidate: &Candidate) -> bool {
    candidate.carries.iter().any(Signature::is_of_readable_volume)
}

/// The volumes of firmware RAID on a drive, or why they cannot be told; none on most drives.
pub(crate) fn told(drive: &SyncDrive, candidate: &Candidate) -> Result<Vec<Volume>, FirmwareError> {
    match is_member(candidate) {
        true => volumes_of(drive, candidate),
        false => Ok(Vec::new()),
    }
}

fn volumes_of(drive: &SyncDrive, candidate: &Candidate) -> Result<Vec<Volume>, FirmwareError> {
    with_drive(drive, candidate, |known| volumes(known, &mut |start, sectors| read(drive, start, sectors)))
}

/// A look at the drive as firmware knows it.
fn with_drive<T>(drive: &SyncDrive, candidate: &Candidate, look: impl FnOnce(&FirmwareDrive) -> T) -> T {
    let info = drive.info();
    let name = |part: Option<&std::ffi::OsStr>| Some(part?.to_string_lossy().into_owned());
    let of_image = [name(info.path.file_stem()), name(info.path.file_name())].into_iter().flatten();
    let serials: Vec<String> = match info.kind {
        DriveKind::File => of_image.collect(),
        DriveKind::BlockDevice => info.serial.iter().cloned().collect(),
    };
    let known = FirmwareDrive {
        name: &candidate.name,
        size_sectors: candidate.size_sectors,
        logical_block_bytes: candidate.logical_block_bytes,
        serials: &serials,
    };
    look(&known)
}
