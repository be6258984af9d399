//! Erasure by a drive's own means: discard, Format NVM with a secure erase, and Sanitize.
//!
//! An erasure takes a name for messages and the path `at` which the drive is opened. Of a drive that is locked, that path leads to
//! the open drive ([`stria_drive::SyncDrive::own_path`]): its name may lead to another drive by then.
//!
//! The last two also reach what no host can address, such as spare blocks. The numbers are those of the NVM Express Base
//! Specification 2.0 and the NVM Command Set Specification 1.0.

use crate::HealthError;
use crate::admin::{AdminCommand, Controller};
use crate::read::{is_nvme, open, open_at};
use crate::seat::subsystem;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use stria_drive::sysfs::{SYSFS, block_page, whole_folder};

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
        "{0}: {1} erases all namespaces of its NVM subsystem, and it has others ({2}): erase them by `nvme`; nothing was erased"
    )]
    Others(PathBuf, &'static str, String),
    /// Other namespaces might be erased as well.
    #[error(
        "{0}: {1} erases all namespaces of its NVM subsystem, and it is unknown which it has ({2}): look with `nvme list-ns --all` and erase it by `nvme`; nothing was erased"
    )]
    OthersUnknown(PathBuf, &'static str, String),
    /// The controller refuses, or failed.
    #[error("{0}: {1} failed (NVMe status {2:#05x}); its content may be erased in part: repeat the command")]
    Failed(PathBuf, &'static str, u16),
    /// It cannot unmap and zero.
    #[error(
        "{0}: it cannot unmap blocks so that they read as zeros ({1}): `blkdiscard` discards without that promise; nothing was erased"
    )]
    NoDiscard(PathBuf, String),
    /// The discard failed half-way.
    #[error("{0}: the discard failed after {1} bytes ({2}); its content is erased up to there: repeat the command")]
    Discard(PathBuf, u64, std::io::Error),
    /// The drive says that its last sanitize failed.
    #[error(
        "{0}: the drive reports that sanitize failed: repeat the command; until one succeeds, the drive refuses reads and writes"
    )]
    Sanitize(PathBuf),
}

/// Checks that [`discard`] can erase a drive or image file, without a change to it.
///
/// # Errors
/// When it cannot unmap and zero at once.
pub fn check_discard(drive: &Path) -> Result<(), EraseError> {
    let cannot = |why: String| EraseError::NoDiscard(drive.into(), why);
    match open(drive) {
        Ok((_, number)) => match what_lacks(Path::new(SYSFS), number) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => Err(cannot(what.into())),
            Err(error) => Err(cannot(format!("sysfs does not tell: {error}"))),
        },
        // Behind its end a file has nothing to unmap: only the file system's answer counts.
        Err(HealthError::File(_)) => {
            let file = OpenOptions::new().write(true).open(drive);
            let size = file.and_then(|file| file.metadata().map(|found| (file, found.len())));
            let (file, size) = size.map_err(|error| cannot(error.to_string()))?;
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, flags, size.next_multiple_of(4096), 4096)
                .map_err(|errno| cannot(format!("its file system does not: {errno}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// What the kernel's queue of a block device lacks for a discard that reads as zeros.
fn what_lacks(sysfs: &Path, number: u64) -> io::Result<Option<&'static str>> {
    let whole = whole_folder(sysfs, number)?;
    let is_zero = |name: &str| {
        let text = fs::read_to_string(whole.join("queue").join(name))?;
        Ok::<_, io::Error>(text.trim() == "0")
    };
    Ok(if is_zero("discard_max_bytes")? {
        Some("it takes no discards")
    } else if is_zero("write_zeroes_max_bytes")? {
        Some("it has no command that writes zeros")
    } else {
        None
    })
}

/// Unmaps every block of a drive or image file: it reads as zeros afterwards. Nothing is written in place of an unmap.
///
/// # Errors
/// When it cannot unmap and zero at once, or fails half-way.
pub fn discard(drive: &Path, at: &Path) -> Result<(), EraseError> {
    let failed = |at: u64| move |error: io::Error| EraseError::Discard(drive.into(), at, error);
    let mut file = OpenOptions::new().write(true).open(at).map_err(failed(0))?;
    let size = file.seek(SeekFrom::End(0)).map_err(failed(0))?;
    for start in (0..size).step_by(DISCARD_BYTES as usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, start, DISCARD_BYTES.min(size - start)).map_err(|errno| failed(start)(errno.into()))?;
    }
    file.sync_all().map_err(failed(size))
}

/// A namespace: its controller, its number, and the number of its block device.
fn namespace(drive: &Path, at: &Path) -> Result<(File, u32, u64), EraseError> {
    let not_nvme = || EraseError::NotNvme(drive.into());
    let (file, number) = match open_at(drive, at) {
        Ok(found) => found,
        Err(HealthError::File(_)) => return Err(not_nvme()),
        Err(error) => return Err(error.into()),
    };
    let page = block_page(Path::new(SYSFS), number);
    // A partition has no number of a namespace.
    let own = fs::read_to_string(page.join("nsid")).ok().and_then(|text| text.trim().parse().ok());
    let own: u32 = own.filter(|_| is_nvme(number)).ok_or_else(not_nvme)?;
    Ok((file, own, number))
}

/// The other namespaces of the NVM subsystem, which is what a Sanitize erases. The drive lists also those that no controller here
/// reaches; the kernel knows those that are attached. `Err`: neither tells, and why.
fn others(
    controller: &impl Controller,
    own: u32,
    by_sysfs: impl FnOnce() -> io::Result<Vec<String>>,
) -> Result<Vec<String>, String> {
    let by_drive = AdminCommand::AllocatedNamespaces.send(controller);
    let listed = by_drive.map(|list| {
        let numbers = list.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        numbers.take_while(|&number| number != 0).collect::<Vec<u32>>()
    });
    match listed {
        Ok(numbers) if numbers.contains(&own) => {
            Ok(numbers.into_iter().filter(|&number| number != own).map(|number| format!("namespace {number}")).collect())
        }
        // A list without the namespace itself is no answer.
        listed => {
            let why = listed.err().map_or_else(|| "its list lacks the namespace itself".into(), |error| error.to_string());
            by_sysfs().map_err(|error| format!("the drive does not list them: {why}; nor does sysfs: {error}"))
        }
    }
}

/// Refuses a command that would erase other namespaces, or perhaps so.
fn refuse_others(drive: &Path, what: &'static str, others: Result<Vec<String>, String>) -> Result<(), EraseError> {
    match others {
        Ok(others) if others.is_empty() => Ok(()),
        Ok(others) => Err(EraseError::Others(drive.into(), what, others.join(", "))),
        Err(why) => Err(EraseError::OthersUnknown(drive.into(), what, why)),
    }
}

fn in_sysfs(number: u64) -> io::Result<Vec<String>> {
    Ok(subsystem(Path::new(SYSFS), number)?.other_namespaces())
}

fn ask(drive: &Path, controller: &impl Controller, command: AdminCommand) -> Result<Vec<u8>, EraseError> {
    Ok(command.send(controller).map_err(|error| HealthError::Refused(drive.into(), command.name(), error))?)
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
    let (file, namespace, number) = namespace(drive, drive)?;
    plan_format(drive, &file, namespace, || in_sysfs(number)).map(drop)
}

/// Erases all user data of a namespace by Format NVM, in its present format. Returns when the drive has done it: seconds if it
/// changes its key, up to hours if it writes every block. Nobody may use the drive.
///
/// # Errors
/// When the drive does not offer it, or fails.
pub fn secure_erase(drive: &Path, at: &Path) -> Result<(), EraseError> {
    let (file, namespace, number) = namespace(drive, at)?;
    order(drive, &file, plan_format(drive, &file, namespace, || in_sysfs(number))?)
}

fn plan_format(
    drive: &Path,
    controller: &impl Controller,
    namespace: u32,
    by_sysfs: impl FnOnce() -> io::Result<Vec<String>>,
) -> Result<AdminCommand, EraseError> {
    let identity = ask(drive, controller, AdminCommand::IdentifyController)?;
    // Optional Admin Command Support, bit 1.
    if identity[256] & 1 << 1 == 0 {
        return Err(EraseError::NotOffered(drive.into(), "Format NVM"));
    }
    // FNA: a format or a secure erase reaches all namespaces (bits 0 and 1); a cryptographic erase is offered (bit 2).
    let reach = identity[524];
    if reach & 0b11 != 0 {
        refuse_others(drive, "Format NVM", others(controller, namespace, by_sysfs))?;
    }
    let settings = present_format(&ask(drive, controller, AdminCommand::IdentifyNamespace(namespace))?);
    Ok(AdminCommand::Format { namespace, settings, cryptographic: reach & 1 << 2 != 0 })
}

/// The format of a namespace, as Format NVM takes it: size of blocks, metadata and protection stay as they are. `identity`: 4096
/// bytes.
fn present_format(identity: &[u8]) -> u32 {
    let (used, protection) = (u32::from(identity[26]), u32::from(identity[29]));
    // FLBAS: the format (3:0, and 6:5 above them), metadata within the data (4). DPS: the kind of protection (2:0), its place
    // (3).
    used & 0xf | (used >> 5 & 3) << 12 | (used >> 4 & 1) << 4 | (protection & 7) << 5 | (protection >> 3 & 1) << 8
}

/// Checks that [`begin_sanitize`] can erase a drive.
///
/// # Errors
/// When the drive does not offer it.
pub fn check_sanitize(drive: &Path) -> Result<(), EraseError> {
    let (file, namespace, number) = namespace(drive, drive)?;
    plan_sanitize(drive, &file, namespace, || in_sysfs(number)).map(drop)
}

/// Begins a sanitize of a drive, or finds that one runs. It goes on in the drive, also through a loss of power; see
/// [`sanitize_progress`].
///
/// # Errors
/// When the drive does not offer it, or refuses.
pub fn begin_sanitize(drive: &Path, at: &Path) -> Result<(), EraseError> {
    let (file, namespace, number) = namespace(drive, at)?;
    match plan_sanitize(drive, &file, namespace, || in_sysfs(number))? {
        Some(command) => order(drive, &file, command),
        None => Ok(()),
    }
}

/// The command that begins a sanitize; `None`: one runs already.
fn plan_sanitize(
    drive: &Path,
    controller: &impl Controller,
    namespace: u32,
    by_sysfs: impl FnOnce() -> io::Result<Vec<String>>,
) -> Result<Option<AdminCommand>, EraseError> {
    // SANICAP: a cryptographic erase (bit 0), an erase of blocks (bit 1).
    let capability = ask(drive, controller, AdminCommand::IdentifyController)?[328];
    if capability & 0b11 == 0 {
        return Err(EraseError::NotOffered(drive.into(), "Sanitize"));
    }
    refuse_others(drive, "Sanitize", others(controller, namespace, by_sysfs))?;
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
pub fn sanitize_progress(drive: &Path, at: &Path) -> Result<Option<u8>, EraseError> {
    progress(drive, &namespace(drive, at)?.0)
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
