//! Restores drives to the fresh state, by the best method that works: never without permission, and never by a worse method
//! without a note.

mod ata;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
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

/// Purges a block device: `nvme format`, `nvme sanitize`, ATA secure erase, `blkdiscard`; if none works, `overwrite` fills it
/// with zeros. The first two are left out if the drive may have other namespaces.
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
    let nvme = Path::new("nvme");
    let may_erase_all = whole_nvme
        && only_namespace(Path::new("/sys/class/block"), &name, nvme, path)
            .inspect_err(|words| purged.tried.push(format!("nvme format and sanitize: {words}")))
            .is_ok();
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
    let done = (may_erase_all && attempt("nvme format", "nvme", &["format", "--force", "--ses=1"]))
        || (may_erase_all && attempt("nvme sanitize", "nvme", &["sanitize", "--sanact=start-block-erase"]) && sanitized(path))
        || attempt("blkdiscard", "blkdiscard", &["--force"]);
    if !done {
        overwrite()?;
        purged.by = "overwrite with zeros".into();
    }
    Ok(purged)
}

/// Refuses a namespace whose drive may have others: a sanitize erases all namespaces of the NVM subsystem, and so does a secure
/// erase by `nvme format` where bit 1 of FNA is set. /sys lacks namespaces that are attached to no controller of this machine; a
/// drive that manages namespaces lists them, and any other drive has none.
fn only_namespace(blocks: &Path, name: &str, nvme: &Path, path: &Path) -> Result<(), String> {
    let text = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let unknown = || "it is unknown whether the drive has other namespaces, which these may erase".to_owned();
    let subsystem = |name: &str| text(blocks.join(name).join("device/subsysnqn"));
    let (own, id) = subsystem(name).zip(text(blocks.join(name).join("nsid"))).ok_or_else(unknown)?;
    let entries = fs::read_dir(blocks).map_err(|_| unknown())?.map_while(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    for other in names.filter(|other| other.starts_with("nvme") && blocks.join(other).join("nsid").exists()) {
        // Each path to a namespace is a device of its own, with the same number.
        let same_drive = subsystem(&other).ok_or_else(unknown)? == own;
        if same_drive && text(blocks.join(&other).join("nsid")).as_ref() != Some(&id) {
            return Err(format!("the drive has another namespace, {other}, which these may erase"));
        }
    }
    let listed = Command::new(nvme).args(["list-ns", "--all"]).arg(path).output();
    let listed = listed.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let count = String::from_utf8_lossy(&listed).lines().filter(|line| line.trim_start().starts_with('[')).count();
    match count {
        0 | 1 => Ok(()),
        count => Err(format!("the drive has {count} namespaces, all of which these may erase")),
    }
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

    /// A /sys/class/block, by names, subsystems and numbers of namespaces.
    fn blocks(devices: &[(&str, Option<&str>, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, subsystem, id) in devices {
            let device = folder.path().join(name);
            fs::create_dir_all(device.join("device")).unwrap();
            fs::write(device.join("nsid"), format!("{id}\n")).unwrap();
            if let Some(subsystem) = subsystem {
                fs::write(device.join("device/subsysnqn"), format!("{subsystem}\n")).unwrap();
            }
        }
        fs::create_dir(folder.path().join("nvme0n1p1")).unwrap();
        folder
    }

    #[test]
    fn a_drive_is_erased_as_a_whole_only_if_it_has_one_namespace() {
        let (a, b) = (Some("nqn.a"), Some("nqn.b"));
        let own = ("nvme0n1", a, "1");
        let one = "[   0]:0x1\n";
        for (devices, listed, wanted) in [
            (vec![own], one, None),
            // The drive does not manage namespaces.
            (vec![own], "", None),
            // Another drive, and the other paths to this one.
            (vec![own, ("nvme1n1", b, "1"), ("nvme1n2", b, "2"), ("nvme0c0n1", a, "1"), ("nvme2n1", a, "1")], one, None),
            (vec![own, ("nvme0n2", a, "2")], one, Some("another namespace, nvme0n2")),
            (vec![own, ("nvme3c3n4", a, "4")], "", Some("another namespace, nvme3c3n4")),
            // One that is attached to no controller of this machine.
            (vec![own], "[   0]:0x1\n[   1]:0x2\n", Some("2 namespaces")),
            (vec![("nvme0n1", None, "1")], one, Some("unknown")),
            (vec![("nvme0n1", a, "")], one, Some("unknown")),
            (vec![own, ("nvme1n1", None, "1")], one, Some("unknown")),
            (vec![], one, Some("unknown")),
        ] {
            let folder = blocks(&devices);
            let nvme = folder.path().join("tool");
            let says = if listed.is_empty() { "exit 1".to_owned() } else { format!("printf '%s' '{listed}'") };
            let script = format!("#!/bin/sh\n[ \"$*\" = 'list-ns --all /dev/nvme0n1' ] || exit 1\n{says}\n");
            stria_testkit::script(&nvme, &script);
            let found = only_namespace(folder.path(), "nvme0n1", &nvme, Path::new("/dev/nvme0n1"));
            match wanted {
                None => assert_eq!(found, Ok(()), "{devices:?}"),
                Some(words) => assert!(found.clone().is_err_and(|found| found.contains(words)), "{devices:?}: {found:?}"),
            }
        }
    }

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
