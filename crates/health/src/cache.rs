//! A drive's own write cache, on or off.

use crate::HealthError;
use crate::admin::AdminCommand;
use crate::read::{is_nvme, open};
use rustix::fs::{fsync, major, minor};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Switches a drive's write cache on or off: for NVMe by a feature of the controller, for SATA and SCSI by the kernel, which sends the
/// setting to the drive. The content of the cache is flushed first.
///
/// # Errors
/// When it is a file, or the drive has no such switch.
pub fn set_write_cache(drive: &Path, on: bool) -> Result<(), HealthError> {
    let (file, number) = open(drive)?;
    fsync(&file).map_err(|errno| HealthError::Open(drive.into(), errno.into()))?;
    let refused = |error| HealthError::NoCacheSwitch(drive.into(), error);
    if is_nvme(number) {
        return AdminCommand::SetWriteCache(on).send(&file).map(drop).map_err(|errno| refused(errno.into()));
    }
    let switch = scsi_switch(number).map_err(refused)?;
    fs::write(switch, if on { "write back" } else { "write through" }).map_err(refused)
}

/// The kernel's file for the cache of the SCSI or SATA drive that a device is, or is a part of.
fn scsi_switch(number: u64) -> io::Result<PathBuf> {
    let page = Path::new("/sys/dev/block").join(format!("{}:{}", major(number), minor(number))).canonicalize()?;
    let whole = if page.join("partition").exists() { page.parent().unwrap_or(&page).to_owned() } else { page };
    let disks = fs::read_dir(whole.join("device/scsi_disk"))?;
    let disk = disks.flatten().next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(disk.path().join("cache_type"))
}
