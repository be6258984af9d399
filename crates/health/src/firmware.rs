//! New firmware for an NVMe drive: the image goes into the controller part by part, then into a slot, and is activated.
//!
//! The numbers are those of the NVM Express Base Specification 2.0: Firmware Image Download and Firmware Commit.

use crate::HealthError;
use crate::admin::{AdminCommand, CommitAction, Controller, firmware_download, meaning};
use crate::read::{is_nvme, open};
use crate::seat::{controller_folder, subsystem};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_drive::sysfs::SYSFS;

/// Parts of an image for a drive that names no granularity of its own.
const PART_BYTES: usize = 4096;
/// The largest image that is taken: those of drives have a few MiB.
pub const IMAGE_BYTES_MAX: u64 = IMAGE_MIB_MAX << 20;

/// The same in MiB.
pub const IMAGE_MIB_MAX: u64 = 256;

/// What a drive says of its firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The revision that runs.
    pub revision: String,
    /// The slot that it runs from, from 1.
    pub active_slot: u8,
    /// The slot that the next reset activates, if that is another.
    pub next_slot: Option<u8>,
    /// The revision in each slot; empty: nothing is there.
    pub slots: Vec<String>,
    /// The first slot cannot be written.
    pub first_is_read_only: bool,
    /// New firmware can run without a reset.
    pub activates_at_once: bool,
    /// The longest pause of an activation without a reset; zero: the drive names none.
    pub pause: Duration,
    /// The size of the parts in which the drive takes an image.
    part_bytes: usize,
}

/// How the new firmware came to run, or what is left to do for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// It runs.
    Running,
    /// It runs after a reset of the controller.
    ControllerReset,
    /// It runs once the machine, or the drive, was without power: it asks for a reset that Linux does not give to a drive in use.
    PowerCycle,
}

/// A reason why firmware was not updated.
#[derive(Debug, thiserror::Error)]
pub enum FirmwareError {
    /// The drive cannot be asked.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// It is no NVMe drive.
    #[error(
        "{0}: Stria updates the firmware of NVMe drives only: for SATA and SAS use the maker's tool, as no method is safe on every such drive; nothing was changed"
    )]
    NotNvme(PathBuf),
    /// The controller has no such command.
    #[error(
        "{0}: its controller takes no firmware: it lacks the commands Firmware Image Download and Firmware Commit; nothing was changed"
    )]
    NotOffered(PathBuf),
    /// It does not have the slot.
    #[error("{drive}: it has no firmware slot {slot}: {}; nothing was changed", slots_here(*slot_count))]
    NoSlot {
        /// The drive.
        drive: PathBuf,
        /// The slot that was named.
        slot: u8,
        /// The slots that it has, from 1.
        slot_count: usize,
    },
    /// The first slot takes no image.
    #[error("{0}: its firmware slot 1 is read-only: choose another with --slot; nothing was changed")]
    SlotReadOnly(PathBuf),
    /// The image cannot be read.
    #[error("{0}: the image cannot be read: {1}; nothing was changed")]
    ImageUnread(PathBuf, std::io::Error),
    /// The image is none by its size.
    #[error(
        "{0}: an image is a file of 4 bytes to {IMAGE_MIB_MAX} MiB, in words of 4 bytes; unpack what the maker ships; nothing was changed"
    )]
    ImageUnfit(PathBuf),
    /// It cannot activate without a reset.
    #[error("{0}: its firmware cannot be activated without a reset: use --activate reset; nothing was changed")]
    NeedsReset(PathBuf),
    /// The controller refuses.
    #[error("{drive}: {what} failed ({status}); {after}")]
    Refused {
        /// The drive.
        drive: PathBuf,
        /// The command.
        what: String,
        /// The reason.
        status: String,
        /// The firmware that the drive has afterwards.
        after: After,
    },
    /// The controller was not reset.
    #[error("{0}: its controller cannot be reset ({1}): the new firmware runs after the next power cycle")]
    Reset(PathBuf, std::io::Error),
}

/// The firmware of a drive after an update that it refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum After {
    /// The image was not committed, and has no effect.
    #[error("the drive did not take the image, and {revision} runs on")]
    NotTaken {
        /// What runs.
        revision: String,
    },
    /// The commit was refused or not answered, and may have taken place: what the drive says, in words.
    #[error("{0}")]
    Committed(String),
}

/// The slots of a drive, in words.
pub fn slots_here(slot_count: usize) -> String {
    if slot_count == 1 { "the only slot is 1".into() } else { format!("its slots are 1 to {slot_count}") }
}

/// The image of a firmware, from its file.
///
/// # Errors
/// When it cannot be read, or is no image by its size.
pub fn read_image(path: &Path) -> Result<Vec<u8>, FirmwareError> {
    let mut image = Vec::new();
    let (file, _) = open_image(path)?;
    // The file may grow meanwhile.
    let read = file.take(IMAGE_BYTES_MAX).read_to_end(&mut image);
    read.map_err(|error| FirmwareError::ImageUnread(path.into(), error))?;
    Ok(image)
}

/// The file of a firmware image, and its size in bytes.
///
/// # Errors
/// When it cannot be opened, or is no image by its size.
pub fn open_image(path: &Path) -> Result<(File, u64), FirmwareError> {
    // A pipe does not hold this up.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let opened = file.and_then(|file| file.metadata().map(|found| (file, found)));
    let (file, found) = opened.map_err(|error| FirmwareError::ImageUnread(path.into(), error))?;
    if !found.is_file() || found.len() == 0 || found.len() > IMAGE_BYTES_MAX || !found.len().is_multiple_of(4) {
        return Err(FirmwareError::ImageUnfit(path.into()));
    }
    Ok((file, found.len()))
}

/// What a drive says of its firmware.
///
/// # Errors
/// When it is no NVMe drive, or takes no firmware.
pub fn firmware(drive: &Path) -> Result<Firmware, FirmwareError> {
    look(drive, &controller(drive)?)
}

/// Stores an image in a slot of the drive, and activates it at once if `at_once` says so. `slot`: `None` leaves the choice to the
/// drive. The drive goes on serving; an activation without a reset holds its requests for up to [`Firmware::pause`].
///
/// # Errors
/// When the drive does not take it, with the firmware that it has then.
pub fn update(drive: &Path, image: &[u8], slot: Option<u8>, at_once: bool) -> Result<Activation, FirmwareError> {
    store(drive, &controller(drive)?, image, slot, at_once)
}

/// Resets the controller of an NVMe drive: requests wait meanwhile, and the firmware that was stored for that is activated.
///
/// # Errors
/// When there is no such controller, or the reset fails.
pub fn reset(drive: &Path) -> Result<(), FirmwareError> {
    controller(drive)?;
    let folder = open(drive).ok().and_then(|(_, number)| controller_folder(number));
    let folder = folder.ok_or_else(|| FirmwareError::NotNvme(drive.into()))?;
    fs::write(folder.join("reset_controller"), "1").map_err(|error| FirmwareError::Reset(drive.into(), error))
}

/// The other block devices that new firmware of a drive, or its reset, touches: all namespaces of its NVM subsystem, and their
/// partitions. The drive itself, and the namespace that it is a partition of, are left out.
///
/// # Errors
/// When sysfs does not tell, or it is no NVMe drive.
pub fn others_touched(drive: &Path) -> Result<Vec<PathBuf>, FirmwareError> {
    let (_, number) = open(drive)?;
    if !is_nvme(number) {
        return Err(FirmwareError::NotNvme(drive.into()));
    }
    let subsystem = subsystem(Path::new(SYSFS), number).map_err(|error| HealthError::Open(drive.into(), error))?;
    Ok(subsystem.others().into_iter().map(|name| Path::new("/dev").join(name)).collect())
}

fn controller(drive: &Path) -> Result<File, FirmwareError> {
    match open(drive) {
        Ok((file, number)) if is_nvme(number) => Ok(file),
        Ok(_) | Err(HealthError::File(_)) => Err(FirmwareError::NotNvme(drive.into())),
        Err(error) => Err(error.into()),
    }
}

fn send(drive: &Path, controller: &impl Controller, command: AdminCommand) -> Result<Vec<u8>, FirmwareError> {
    command.send(controller).map_err(|error| HealthError::Refused(drive.into(), command.name(), error).into())
}

fn look(drive: &Path, controller: &impl Controller) -> Result<Firmware, FirmwareError> {
    let identity = send(drive, controller, AdminCommand::IdentifyController)?;
    // Optional Admin Command Support, bit 2.
    if identity[256] & 1 << 2 == 0 {
        return Err(FirmwareError::NotOffered(drive.into()));
    }
    let log = send(drive, controller, AdminCommand::FirmwareLog)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_matches(['\0', ' ']).to_owned();
    // FRMW: the first slot is read-only (bit 0), the number of slots (3:1), activation without a reset (bit 4).
    let features = identity[260];
    let slot_count = usize::from(features >> 1 & 7).clamp(1, 7);
    // FWUG, in 4 KiB; 0: not said, 255: any.
    let granularity = match identity[319] {
        0 | 255 => PART_BYTES,
        count => usize::from(count) * 4096,
    };
    let next = log[0] >> 4 & 7;
    Ok(Firmware {
        revision: text(&identity[64..72]),
        active_slot: log[0] & 7,
        next_slot: (next != 0 && next != log[0] & 7).then_some(next),
        slots: (1..=slot_count).map(|slot| text(&log[8 * slot..8 * slot + 8])).collect(),
        first_is_read_only: features & 1 != 0,
        activates_at_once: features & 1 << 4 != 0,
        // MTFA, in 100 ms.
        pause: Duration::from_millis(100) * u32::from(u16::from_le_bytes([identity[270], identity[271]])),
        part_bytes: granularity,
    })
}

/// Checks all that can be known before the first byte is sent.
fn check(drive: &Path, found: &Firmware, slot: Option<u8>, at_once: bool) -> Result<(), FirmwareError> {
    let count = found.slots.len();
    match slot {
        Some(slot) if slot == 0 || usize::from(slot) > count => {
            return Err(FirmwareError::NoSlot { drive: drive.into(), slot, slot_count: count });
        }
        Some(1) if found.first_is_read_only => {
            return Err(FirmwareError::SlotReadOnly(drive.into()));
        }
        _ => {}
    }
    if at_once && !found.activates_at_once {
        return Err(FirmwareError::NeedsReset(drive.into()));
    }
    Ok(())
}

fn store(
    drive: &Path,
    controller: &impl Controller,
    image: &[u8],
    slot: Option<u8>,
    at_once: bool,
) -> Result<Activation, FirmwareError> {
    let found = look(drive, controller)?;
    check(drive, &found, slot, at_once)?;
    let refused = |what: String, status: String| {
        // An image that was not committed has no effect.
        let after = After::NotTaken { revision: found.revision.clone() };
        FirmwareError::Refused { drive: drive.into(), what, status, after }
    };
    for (index, part) in image.chunks(found.part_bytes).enumerate() {
        let offset = index * found.part_bytes;
        let name = || format!("the image at byte {offset}");
        match firmware_download(controller, offset, part).map_err(|errno| refused(name(), errno.to_string()))? {
            0 => {}
            status => return Err(refused(name(), meaning(status))),
        }
    }
    let action = if at_once { CommitAction::AtOnce } else { CommitAction::AtReset };
    let activation_ms = u32::try_from(found.pause.as_millis()).unwrap_or(0);
    let commit = AdminCommand::FirmwareCommit { slot: slot.unwrap_or(0), action, activation_ms };
    // A commit that was not answered, or was refused, may have taken place.
    let refused = |status: String| {
        let after = After::Committed(state_after(drive, controller, &found));
        FirmwareError::Refused { drive: drive.into(), what: commit.name().into(), status, after }
    };
    let (status, _) = commit.ask(controller).map_err(|errno| refused(errno.to_string()))?;
    match status {
        0 if at_once => Ok(Activation::Running),
        // The commit succeeded, and the controller names the reset that it needs, or a longer pause than it announced.
        0 | 0x111 | 0x112 => Ok(Activation::ControllerReset),
        0x10b | 0x110 => Ok(Activation::PowerCycle),
        status => Err(refused(meaning(status))),
    }
}

/// The firmware of a drive after a commit that failed, in words: the drive is asked again.
fn state_after(drive: &Path, controller: &impl Controller, before: &Firmware) -> String {
    let now = match look(drive, controller) {
        Ok(now) => now,
        Err(error) => {
            return format!(
                "it is unknown which firmware runs, as the drive does not answer ({error}): `stria firmware` shows it once it does"
            );
        }
    };
    let Firmware { revision, slots, next_slot, .. } = &now;
    let is_same = (revision, slots, next_slot) == (&before.revision, &before.slots, &before.next_slot);
    if is_same && now.active_slot == before.active_slot {
        return format!("{revision} runs on, and the firmware slots are unchanged");
    }
    let held = |(slot, revision): (usize, &String)| {
        format!("slot {}: {}", slot + 1, if revision.is_empty() { "empty" } else { revision })
    };
    let slots: Vec<String> = slots.iter().enumerate().map(held).collect();
    let next = next_slot.map_or_else(String::new, |slot| format!("; slot {slot} runs after the next reset"));
    format!("{revision} runs now, after {} ({}{next})", before.revision, slots.join(", "))
}

#[cfg(test)]
#[path = "firmware/tests.rs"]
mod tests;
