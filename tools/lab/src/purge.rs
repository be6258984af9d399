//! Restores drives to the fresh state, by the best method that works: never without permission, and never by a worse method
//! without a note.

mod ata;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// The method that worked, and the methods that failed before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// `nvme format`.
    pub by: String,
    /// `nvme format: not supported`.
    pub tried: Vec<String>,
}

/// Refuses a device that is in use.
///
/// # Errors
/// It is mounted, a swap, or part of a running array.
pub fn refuse_busy(path: &Path) -> Result<(), String> {
    match open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::BUSY) => {
            Err(format!("{} is in use: unmount it, or stop the array or swap that it is part of", path.display()))
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Purges a block device: `nvme format`, `nvme sanitize`, ATA secure erase, `blkdiscard`; if none works, `overwrite` fills it with zeros.
///
/// # Errors
/// When the device is in use, overwriting fails too, or the drive needs manual work.
pub fn block_device(path: &Path, overwrite: &mut dyn FnMut() -> Result<(), String>) -> Result<Purged, String> {
    refuse_busy(path)?;
    // The target of a link from /dev/disk: a partition must not count as its drive.
    let path = &path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut purged = Purged::default();
    let device = path.as_os_str();
    let system = Path::new("/sys/class/block").join(&name);
    let is_partition = system.join("partition").exists();
    let whole_nvme = name.starts_with("nvme") && !is_partition;
    let whole_sata = !is_partition && system.join("device").canonicalize().is_ok_and(|device| ata::is_sata(&device));
    if whole_sata {
        match ata::erase(Path::new("hdparm"), path) {
            Ok(()) => return Ok(Purged { by: "ATA secure erase".into(), tried: Vec::new() }),
            Err(ata::NotErased::Refused(words)) => purged.tried.push(format!("ATA secure erase: {words}")),
            Err(ata::NotErased::Locked(words)) => return Err(words),
        }
    }
    let mut attempt = |what: &str, program: &str, words: &[&str]| match Command::new(program).args(words).arg(device).output() {
        Ok(output) if output.status.success() => {
            purged.by = what.into();
            true
        }
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            purged.tried.push(format!("{what}: {}", words.lines().last().unwrap_or("failed").trim()));
            false
        }
        Err(error) => {
            purged.tried.push(format!("{what}: {program}: {error}"));
            false
        }
    };
    let done = (whole_nvme && attempt("nvme format", "nvme", &["format", "--force", "--ses=1"]))
        || (whole_nvme && attempt("nvme sanitize", "nvme", &["sanitize", "--sanact=start-block-erase"]) && sanitized(path))
        || attempt("blkdiscard", "blkdiscard", &["--force"]);
    if !done {
        overwrite()?;
        purged.by = "overwrite with zeros".into();
    }
    Ok(purged)
}

/// Waits for the end of a sanitize, which runs inside the drive.
fn sanitized(path: &Path) -> bool {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let Ok(output) = Command::new("nvme").args(["sanitize-log", "--output-format=json"]).arg(path).output() else {
            return false;
        };
        let log: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        // The log is keyed by the controller's name. SPROG counts to 65535; the low bits of SSTAT are the outcome, 1: done.
        let Some(log) = log.as_object().and_then(|all| all.values().next()) else { return false };
        match log["sstat"].as_u64().or(log["sstat"]["status"].as_u64()).map(|status| status & 7) {
            Some(2) => {}
            Some(status) => return status == 1 || status == 4,
            None => return false,
        }
    }
}

/// Restores a file to the fresh state: all holes, with the same size.
///
/// # Errors
/// When it cannot be written.
pub fn recreate(path: &Path) -> Result<(), String> {
    let again = || {
        let file = OpenOptions::new().write(true).open(path)?;
        let bytes = file.metadata()?.len();
        file.set_len(0)?;
        file.set_len(bytes)?;
        file.sync_all()
    };
    again().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

/// Frees the blocks of a part of a file.
///
/// # Errors
/// When its file system cannot free blocks.
pub fn punch(path: &Path, offset: u64, bytes: u64) -> Result<(), String> {
    let file = OpenOptions::new().write(true).open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)
        .map_err(|error| format!("{}: its file system cannot free blocks: {error}", path.display()))
}

/// Overwrites the superblock of a member, so that the drive returns as a new one.
///
/// # Errors
/// When it cannot be written.
pub fn wipe_head(path: &Path) -> Result<(), String> {
    let wipe = || {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(&vec![0; 1 << 20])?;
        file.sync_all()
    };
    wipe().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_new_after_a_purge() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.img");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        recreate(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; 100_000]);
        assert!(recreate(&folder.path().join("none")).unwrap_err().contains("none"));
    }
}
