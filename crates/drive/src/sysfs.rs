//! The folders in which the kernel describes block devices (sysfs).

use rustix::fs::{major, minor};
use std::io;
use std::path::{Path, PathBuf};

/// The folder that Linux has it in. Tests make one of their own.
pub const SYSFS: &str = "/sys";

/// The folder of the block device with this number, as a link to the device's own.
pub fn block_page(sysfs: &Path, number: u64) -> PathBuf {
    sysfs.join(format!("dev/block/{}:{}", major(number), minor(number)))
}

/// The device's own folder, which has its name in the kernel.
///
/// # Errors
/// When there is no such device.
pub fn device_folder(sysfs: &Path, number: u64) -> io::Result<PathBuf> {
    block_page(sysfs, number).canonicalize()
}

/// The same of the whole device: that of its disk if it is a partition.
///
/// # Errors
/// As [`device_folder`].
pub fn whole_folder(sysfs: &Path, number: u64) -> io::Result<PathBuf> {
    let mut device = device_folder(sysfs, number)?;
    if is_partition(&device) {
        device.pop();
    }
    Ok(device)
}

/// True if a device's folder, or the link to it, is that of a partition.
pub fn is_partition(device: &Path) -> bool {
    device.join("partition").exists()
}
