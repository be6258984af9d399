//! Erasure by a drive's own means: discard, Format NVM with a secure erase, and Sanitize.
//!
//! The last two also reach what no host can address, such as spare blocks. The numbers are those of the NVM Express Base Specification 2.0
//! and the NVM Command Set Specification 1.0.

use crate::HealthError;
use crate::admin::{AdminCommand, Controller};
use crate::read::{is_nvme, open};
use crate::seat::controller_folder;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// 1 GiB: what one request unmaps, so that it can be interrupted.
const DISCARD_BYTES: u64 = 1 << 30;

/// A reason why a drive was not erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The drive cannot be asked.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// It is no NVMe drive.
    #[error(
        "{0}: Stria erases only whole NVMe drives by their own means: for SATA use `hdparm --security-erase`, for SAS `sg_sanitize`, or `stria wipe --discard`; nothing was erased"
    )]
    NotNvme(PathBuf),
    /// The controller does not have the command.
    #[error("{0}: its controller does not offer {1}; nothing was erased")]
    NotOffered(PathBuf, &'static str),
    /// Other namespaces would be erased as well.
    #[error(
        "{0}: {1} erases all namespaces of its controller, and it has others ({2}): erase them by `nvme`; nothing was erased"
    )]
    Others(PathBuf, &'static str, String),
    /// The controller refuses, or failed.
    #[error("{0}: {1} failed (NVMe status {2:#05x}); its content may be erased in part: repeat the command")]
    Failed(PathBuf, &'static str, u16),
    /// It cannot unmap and zero.
    #[error("{0}: it cannot unmap blocks so that they read as zeros ({1}): `blkdiscard` discards without that promise")]
    NoDiscard(PathBuf, std::io::Error),
    /// The drive says that its last sanitize failed.
    #[error(
        "{0}: the drive reports that sanitize failed: repeat the command; until one succeeds, the drive refuses reads and writes"
    )]
    Sanitize(PathBuf),
}

/// Unmaps every block of a drive or image file: it reads as zeros afterwards. Nothing is written in place of an unmap.
///
/// # Errors
/// When it cannot unmap and zero at once, or fails half-way.
pub fn discard(drive: &Path) -> Result<(), EraseError> {
    let failed = |error: std::io::Error| EraseError::NoDiscard(drive.into(), error);
    let mut file = OpenOptions::new().write(true).open(drive).map_err(failed)?;
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    for start in (0..size).step_by(DISCARD_BYTES as usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, start, DISCARD_BYTES.min(size - start)).map_err(|errno| failed(errno.into()))?;
    }
    file.sync_all().map_err(failed)
}

/// A namespace: its controller, its number, and the other namespaces there.
fn namespace(drive: &Path) -> Result<(File, u32, Vec<String>), EraseError> {
    let not_nvme = || EraseError::NotNvme(drive.into());
    let (file, number) = match open(drive) {
        Ok(found) => found,
        Err(HealthError::File(_)) => return Err(not_nvme()),
        Err(error) => return Err(error.into()),
    };
    let page = PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number)));
    // A partition has no number of a namespace.
    let own = fs::read_to_string(page.join("nsid")).ok().and_then(|text| text.trim().parse().ok());
    let own: u32 = own.filter(|_| is_nvme(number)).ok_or_else(not_nvme)?;
    let (own_name, folder) = (page.canonicalize().unwrap_or_default(), controller_folder(number).ok_or_else(not_nvme)?);
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().filter(|entry| entry.path().join("nsid").exists());
    let number_of = |path: &Path| fs::read_to_string(path.join("nsid")).unwrap_or_default();
    let own_number = number_of(&own_name);
    let others = entries.filter(|entry| number_of(&entry.path()) != own_number);
    Ok((file, own, others.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()))
}

fn ask(drive: &Path, controller: &impl Controller, command: AdminCommand) -> Result<Vec<u8>, EraseError> {
    let refused = |errno| HealthError::Refused(drive.into(), command.name(), std::io::Error::from(errno));
    Ok(command.send(controller).map_err(refused)?)
}

fn order(drive: &Path, controller: &impl Controller, command: AdminCommand) -> Result<(), EraseError> {
    let refused = |errno| HealthError::Refused(drive.into(), command.name(), std::io::Error::from(errno));
    match command.ask(controller).map_err(refused)? {
        (0, _) => Ok(()),
        (status, _) => Err(EraseError::Failed(drive.into(), command.name(), status)),
    }
}

/// Checks that [`secure_erase`] can erase a drive.
///
/// # Errors
/// When the drive does not offer it.
pub fn check_secure_erase(drive: &Path) -> Result<(), EraseError> {
    let (file, namespace, others) = namespace(drive)?;
    plan_format(drive, &file, namespace, &others).map(drop)
}

/// Erases all user data of a namespace by Format NVM, in its present format. Returns when the drive has done it: seconds if it changes its key,
/// up to hours if it writes every block. Nobody may use the drive.
///
/// # Errors
/// When the drive does not offer it, or fails.
pub fn secure_erase(drive: &Path) -> Result<(), EraseError> {
    let (file, namespace, others) = namespace(drive)?;
    order(drive, &file, plan_format(drive, &file, namespace, &others)?)
}

fn plan_format(
    drive: &Path,
    controller: &impl Controller,
    namespace: u32,
    others: &[String],
) -> Result<AdminCommand, EraseError> {
    let identity = ask(drive, controller, AdminCommand::IdentifyController)?;
    // Optional Admin Command Support, bit 1.
    if identity[256] & 1 << 1 == 0 {
        return Err(EraseError::NotOffered(drive.into(), "Format NVM"));
    }
    // FNA: a format or a secure erase reaches all namespaces (bits 0 and 1); a cryptographic erase is offered (bit 2).
    let reach = identity[524];
    if reach & 0b11 != 0 && !others.is_empty() {
        return Err(EraseError::Others(drive.into(), "Format NVM", others.join(", ")));
    }
    let settings = present_format(&ask(drive, controller, AdminCommand::IdentifyNamespace(namespace))?);
    Ok(AdminCommand::Format { namespace, settings, cryptographic: reach & 1 << 2 != 0 })
}

/// The format of a namespace, as Format NVM takes it: size of blocks, metadata and protection stay as they are. `identity`: 4096 bytes.
fn present_format(identity: &[u8]) -> u32 {
    let (used, protection) = (u32::from(identity[26]), u32::from(identity[29]));
    // FLBAS: the format (3:0, and 6:5 above them), metadata within the data (4). DPS: the kind of protection (2:0), its place (3).
    used & 0xf | (used >> 5 & 3) << 12 | (used >> 4 & 1) << 4 | (protection & 7) << 5 | (protection >> 3 & 1) << 8
}

/// Checks that [`begin_sanitize`] can erase a drive.
///
/// # Errors
/// When the drive does not offer it.
pub fn check_sanitize(drive: &Path) -> Result<(), EraseError> {
    let (file, _, others) = namespace(drive)?;
    plan_sanitize(drive, &file, &others).map(drop)
}

/// Begins a sanitize of a drive, or finds that one runs. It goes on in the drive, also through a loss of power; see [`sanitize_progress`].
///
/// # Errors
/// When the drive does not offer it, or refuses.
pub fn begin_sanitize(drive: &Path) -> Result<(), EraseError> {
    let (file, _, others) = namespace(drive)?;
    match plan_sanitize(drive, &file, &others)? {
        Some(command) => order(drive, &file, command),
        None => Ok(()),
    }
}

/// The command that begins a sanitize; `None`: one runs already.
fn plan_sanitize(drive: &Path, controller: &impl Controller, others: &[String]) -> Result<Option<AdminCommand>, EraseError> {
    // SANICAP: a cryptographic erase (bit 0), an erase of blocks (bit 1).
    let capability = ask(drive, controller, AdminCommand::IdentifyController)?[328];
    if capability & 0b11 == 0 {
        return Err(EraseError::NotOffered(drive.into(), "Sanitize"));
    }
    if !others.is_empty() {
        return Err(EraseError::Others(drive.into(), "Sanitize", others.join(", ")));
    }
    // A failed one is what another is for.
    match progress(drive, controller) {
        Ok(Some(_)) => Ok(None),
        // Blocks, if both are offered: a key says nothing about data from before it.
        Ok(None) | Err(EraseError::Sanitize(_)) => Ok(Some(AdminCommand::Sanitize { cryptographic: capability & 1 << 1 == 0 })),
        Err(error) => Err(error),
    }
}

/// The progress of a drive's sanitize in per cent; `None`: none runs, and the last one succeeded, if there was one.
///
/// # Errors
/// When the drive cannot be asked, or the last sanitize failed.
pub fn sanitize_progress(drive: &Path) -> Result<Option<u8>, EraseError> {
    progress(drive, &namespace(drive)?.0)
}

fn progress(drive: &Path, controller: &impl Controller) -> Result<Option<u8>, EraseError> {
    let log = ask(drive, controller, AdminCommand::SanitizeLog)?;
    // SPROG: 65,536ths. SSTAT, bits 2:0: 2 runs, 3 failed.
    let done = u32::from(u16::from_le_bytes([log[0], log[1]]));
    match log[2] & 7 {
        2 => Ok(Some(((done * 100) >> 16) as u8)),
        3 => Err(EraseError::Sanitize(drive.into())),
        _ => Ok(None),
    }
}

#[cfg(test)]
#[path = "erase/tests.rs"]
mod tests;
