//! The block devices of this machine.

use crate::beneath::is_of_clients;
use std::path::{Path, PathBuf};

/// All block devices of this machine that may be drives. NBD devices, ublk's, arrays that Linux runs, and what rests on them are left out: they
/// hold clients' data, which may look like a member of any array, and those whose server is dead do not answer.
pub fn block_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut devices: Vec<PathBuf> = entries
        .filter(|entry| std::fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0"))
        .filter(|entry| !is_of_clients(&entry.file_name().to_string_lossy()))
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect();
    devices.sort();
    devices
}
