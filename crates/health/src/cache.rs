//! A drive's own write cache, on or off.

use crate::HealthError;
use crate::admin::{self, AdminCommand};
use crate::read::{is_nvme, open};
use rustix::fs::fsync;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use stria_drive::sysfs::{SYSFS, whole_folder};

/// Switches a drive's write cache on or off: for NVMe by a feature of the controller, for SATA and SCSI by the kernel, which
/// sends the setting to the drive. The content of the cache is flushed first.
///
/// # Errors
/// When it is a file, or the drive has no such switch.
pub fn set_write_cache(drive: &Path, on: bool) -> Result<(), HealthError> {
    let (file, number) = open(drive)?;
    fsync(&file).map_err(|errno| HealthError::Open(drive.into(), errno.into()))?;
    let refused = |error| HealthError::NoCacheSwitch(drive.into(), error);
    if is_nvme(number) {
        return AdminCommand::SetWriteCache(on).send(&file).map(drop).map_err(refused);
    }
    let switch = scsi_switch(number).map_err(refused)?;
    fs::write(switch, if on { "write back" } else { "write through" }).map_err(refused)
}

/// Whether a drive's write cache is on. A drive that hangs is given 10 s.
///
/// # Errors
/// When it is a file, or the drive does not report it.
pub fn write_cache(drive: &Path) -> Result<bool, HealthError> {
    let (file, number) = open(drive)?;
    let unknown = |error| HealthError::NoCacheSwitch(drive.into(), error);
    if is_nvme(number) {
        return admin::write_cache(&file).map_err(|errno| unknown(errno.into()));
    }
    let text = scsi_switch(number).and_then(fs::read_to_string).map_err(unknown)?;
    Ok(text.trim_start().starts_with("write back"))
}

/// The kernel's file for the cache of the SCSI or SATA drive that a device is, or is a part of.
fn scsi_switch(number: u64) -> io::Result<PathBuf> {
    let disks = fs::read_dir(whole_folder(Path::new(SYSFS), number)?.join("device/scsi_disk"))?;
    let disk = disks.flatten().next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(disk.path().join("cache_type"))
}

#[cfg(test)]
mod tests {
    //! Goal: the state of a cache is what the controller answers. Method: a controller in the kernel's place.

    use super::*;
    use crate::admin::{COMMAND_BYTES, Controller};
    use rustix::io::Errno;

    /// The status, and the first word of the completion.
    struct Standin(u16, u32);

    impl Controller for Standin {
        fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
            assert_eq!((command[0], u32::from_ne_bytes(command[40..44].try_into().expect("four bytes"))), (0x0a, 0x06));
            assert!(data.is_empty());
            // `result` is the last field of struct nvme_passthru_cmd.
            command[COMMAND_BYTES - 4..].copy_from_slice(&self.1.to_ne_bytes());
            Ok(self.0)
        }
    }

    #[test]
    fn a_controller_tells_the_state_of_its_cache() {
        assert_eq!(admin::write_cache(&Standin(0, 1)), Ok(true));
        assert_eq!(admin::write_cache(&Standin(0, 0)), Ok(false));
        assert_eq!(admin::write_cache(&Standin(0x02, 1)), Err(Errno::OPNOTSUPP), "a drive without a cache");
    }
}
