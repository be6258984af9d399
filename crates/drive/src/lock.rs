//! One user at a time: `O_EXCL` for block devices, `flock` for all, and who holds what.

use crate::DriveError;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// udev holds a shared lock on a block device while it looks at it, for moments.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// Takes the exclusive lock on `file`, held until its last handle closes.
pub(crate) fn lock(file: &File, path: &Path, patient: bool) -> Result<(), DriveError> {
    let patience_end = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if patient && Instant::now() < patience_end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(DriveError::Busy { path: path.to_owned(), holder: lock_holder(file) });
            }
            Err(TryLockError::Error(source)) => {
                return Err(DriveError::System { path: path.to_owned(), action: "lock", source });
            }
        }
    }
}

/// Who has the lock on `file`, from /proc/locks.
fn lock_holder(file: &File) -> String {
    let pid = file.metadata().ok().and_then(|metadata| {
        let (device, inode) = (metadata.dev(), metadata.ino());
        let name = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        pid_of_lock(&locks, &name)
    });
    match pid {
        Some(pid) if pid == std::process::id() => "this very process".into(),
        Some(pid) => match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(program) => format!("another process ({}, pid {pid})", program.trim()),
            Err(_) => format!("another process (pid {pid})"),
        },
        None => "another process (unknown: it may run in another container)".into(),
    }
}

/// A line of /proc/locks: `1: FLOCK  ADVISORY  WRITE 8612 fe:00:131076 0 EOF`.
fn pid_of_lock(locks: &str, name: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, inode, ..] if inode == name => pid.parse().ok(),
            _ => None,
        }
    })
}

/// Who has the block device `number` open exclusively: a device above it, a mount, or swap.
pub(crate) fn exclusive_holder(number: u64) -> String {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let holders = std::fs::read_dir(format!("/sys/dev/block/{major}:{minor}/holders"))
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>())
        .unwrap_or_default();
    if !holders.is_empty() {
        return format!("the block device {} above it", holders.join(", "));
    }
    // A line of mountinfo: `36 35 98:0 /root /mountpoint options...`.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let device = format!("{major}:{minor}");
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| fields.get(2) == Some(&&*device));
    match mount.as_ref().and_then(|fields| fields.get(4)) {
        Some(point) => format!("the file system mounted at {point}"),
        None => "another process, a mounted file system or swap (see: lsblk, fuser)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_is_found_in_a_list_of_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 8612 fe:00:5 0 EOF\n";
        assert_eq!(pid_of_lock(locks, "fe:00:5"), Some(8612));
        assert_eq!(pid_of_lock(locks, "fe:00:6"), None);
    }
}
