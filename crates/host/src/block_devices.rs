//! The block devices of this machine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// All block devices of this machine. Arrays that Linux runs, NBD devices and ublk's are left out: they hold clients' data, which may
/// look like a member of any array, and those whose server is dead do not answer.
pub fn block_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let is_drive = |name: &OsStr| !["md", "nbd", "ublk"].iter().any(|kind| name.to_string_lossy().starts_with(kind));
    let mut devices: Vec<PathBuf> = entries
        .filter(|entry| is_drive(&entry.file_name()))
        .filter(|entry| std::fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0"))
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect();
    devices.sort();
    devices
}
