//! The contents of drives: inspected, refused, or wiped.

use crate::HostError;
use crate::answers::open_each;
use crate::candidate::{candidate_of, read};
use std::ops::Range;
use std::path::PathBuf;
use stria_array::DriveSector;
use stria_array::address::Sectors;
use stria_block::{IoError, bytes};
use stria_drive::{Access, DriveInfo, IoOptions, SyncDrive};
use stria_format::detect::{detect, wipes_in_turn};
use stria_format::md::{Candidate, uuid_text};

/// 256 KiB: how much is zeroed, or checked for zeros, at once.
const ZERO_SECTORS: u64 = 512;

/// A drive and what it carries.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The kind of drive.
    pub info: DriveInfo,
    /// Its contents.
    pub candidate: Candidate,
}

impl Examined {
    /// A text that names the drive and what it carries, equal as long as both are the same: an order that was confirmed holds for no other. A drive
    /// that was plugged in may get the path and the number of one that left.
    pub fn mark(&self) -> String {
        mark_of(&self.info, &self.candidate)
    }
}

/// See [`Examined::mark`].
pub(crate) fn mark_of(info: &DriveInfo, candidate: &Candidate) -> String {
    let uuids = candidate.found.as_ref().ok().map(|member| {
        let header = &member.superblock.header;
        (uuid_text(&header.set_uuid), uuid_text(&header.device_uuid))
    });
    let carries: Vec<String> = candidate.carries.iter().map(ToString::to_string).collect();
    let (path, identity, sectors) = (&info.path, info.identity, candidate.size_sectors);
    format!("{path:?} {identity:?} {:?} {:?} {sectors} {uuids:?} {carries:?}", info.serial, info.model)
}

/// Inspects drives. The result is an error if a drive cannot be opened or does not answer. Read errors are noted in the
/// candidate.
pub fn examine(paths: &[PathBuf]) -> Vec<Result<Examined, HostError>> {
    let opened = open_each(paths, Access::ReadOnly, IoOptions::default()).into_iter();
    opened.map(|opened| opened.map(|(drive, candidate)| Examined { info: drive.info().clone(), candidate })).collect()
}

/// Refuses a drive that is another, or carries something else, than was `seen` when that was confirmed.
pub(crate) fn refuse_others<'a>(
    seen: &[Examined],
    mut drives: impl Iterator<Item = (&'a DriveInfo, &'a Candidate)>,
) -> Result<(), HostError> {
    let marks: Vec<String> = seen.iter().map(Examined::mark).collect();
    drives.try_for_each(|(info, candidate)| refuse_other(&marks, info, candidate))
}

/// Refuses a drive that none of these marks names ([`Examined::mark`]).
pub(crate) fn refuse_other(marks: &[String], info: &DriveInfo, candidate: &Candidate) -> Result<(), HostError> {
    match marks.contains(&mark_of(info, candidate)) {
        true => Ok(()),
        false => Err(is_another(&candidate.name, "is another drive, or carries something else, than what was confirmed")),
    }
}

/// The refusal of a drive that changed since it was looked at.
pub(crate) fn is_another(name: &str, how: &str) -> HostError {
    HostError::Refused(format!("{name} {how}: nothing was done; repeat the command to see what it carries now"))
}

/// Refuses a drive that is named twice.
pub(crate) fn refuse_twins<'a>(infos: impl Iterator<Item = &'a DriveInfo>) -> Result<(), HostError> {
    let mut seen: Vec<&DriveInfo> = Vec::new();
    for info in infos {
        if let Some(twin) = seen.iter().find(|known| known.identity == info.identity) {
            let (a, b) = (twin.path.display(), info.path.display());
            return Err(HostError::Usage(format!("{a} and {b} are the same drive: name it once")));
        }
        seen.push(info);
    }
    Ok(())
}

/// Erases the signatures of what was on a drive, durably, so that the old content is not found beside the new.
pub(crate) fn wipe(drive: &SyncDrive) -> Result<(), HostError> {
    let limits = &drive.info().limits;
    let signatures = detect(limits.size_sectors, &mut |start, sectors| read(drive, start, sectors));
    let counts = candidate_of(drive).found.ok().map(|member| member.superblock.header.super_offset);
    for part in wipes_in_turn(&signatures, limits.logical_block_bytes, counts) {
        for (start_sector, sectors) in &part {
            drive.write_at(*start_sector, &vec![0; bytes(*sectors)])?;
        }
        if !part.is_empty() {
            drive.sync()?;
        }
    }
    Ok(())
}

/// Zeroes sectors. Sectors that are zero already are not written: image files keep their holes.
pub(crate) fn zero(drive: &SyncDrive, sectors: &Range<DriveSector>) -> Result<(), HostError> {
    for part in sectors.in_steps(ZERO_SECTORS) {
        let (start, count) = (part.start.get(), part.sectors());
        let is_zero = read(drive, start, count).is_ok_and(|bytes| bytes.iter().all(|&byte| byte == 0));
        if !is_zero {
            drive.write_at(start, &vec![0; bytes(count)])?;
        }
    }
    Ok(())
}

/// Allocates the space of sectors where the drive is a file with holes.
pub(crate) fn allocate(drive: &SyncDrive, sectors: &Range<DriveSector>) -> Result<(), IoError> {
    drive.allocate(sectors.start.get()..sectors.end.get())
}
