//! The block devices of this machine.

use crate::beneath::leave_out_clients;
use std::path::{Path, PathBuf};

/// All block devices of this machine that may be drives. NBD devices, ublk's, arrays that Linux runs, and what rests on them are
/// left out: they hold clients' data, which may look like a member of any array, and those whose server is dead do not answer.
pub fn block_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| std::fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0"))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    leave_out_clients(&mut names);
    let mut devices: Vec<PathBuf> = names.iter().map(|name| Path::new("/dev").join(name)).collect();
    devices.sort();
    devices
}
