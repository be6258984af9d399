//! The users of a block device: mounts, other devices and processes.

use super::block_path;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// Describes the mounts and processes that use the block device or one of its partitions. udev opens every new device and does not
/// count.
pub(super) fn users(id: u32) -> Vec<String> {
    let path = block_path(id);
    let mut users = Vec::new();
    // Not kept open: it would count itself.
    let held = open(&path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()).err();
    if held == Some(Errno::BUSY) {
        users.push("it is mounted, or another device or program holds it".to_owned());
    }
    let path = path.display().to_string();
    let is_device = |link: &Path| {
        let rest = link.to_str().and_then(|link| link.strip_prefix(&path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_process = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    for process in processes.filter(is_process) {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        if files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| is_device(&link)) {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            let pid = process.file_name().unwrap_or_default().display().to_string();
            if !name.contains("udev") {
                users.push(format!("{} (process {pid})", name.trim_end()));
            }
        }
    }
    users
}
