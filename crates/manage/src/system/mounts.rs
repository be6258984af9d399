//! File systems that are not mounted yet, and the users of a drive: mounts and other block devices.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause between two requests to one automount, since each that fails makes systemd try the mount.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// The file system of `folder` that is yet to be mounted: `/etc/fstab` names it, or it is an automount. At boot it is mounted
/// later, perhaps from an array. A thread of its own opens an automount, which makes Linux mount it. The caller does not: the
/// mount may wait for an array that the caller starts.
pub fn awaited(folder: &Path) -> Option<PathBuf> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let (point, is_automount) = awaited_by(folder, &text("/etc/fstab"), &text("/proc/self/mountinfo"))?;
    if is_automount {
        ask_for(&point);
    }
    Some(point)
}

/// The same, from the texts of `fstab(5)` and `/proc/PID/mountinfo`, and whether it is an automount.
fn awaited_by(folder: &Path, fstab: &str, mounts: &str) -> Option<(PathBuf, bool)> {
    let of_line = |line: &str| {
        let (place, what) = line.split_once(" - ")?;
        // What lies below an indirect automount is mounted elsewhere.
        let is_automount = what.starts_with("autofs ") && what.split([' ', ',']).any(|option| option == "direct");
        Some((unescaped(place.split(' ').nth(4)?), is_automount))
    };
    let (automounts, mounted): (Vec<_>, Vec<_>) = mounts.lines().filter_map(of_line).partition(|(_, is_automount)| *is_automount);
    let announced = fstab.lines().filter(|line| !line.trim_start().starts_with('#')).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (point, options) = (fields.next()?, fields.nth(1).unwrap_or_default());
        (!options.split(',').any(|option| option == "noauto")).then(|| (unescaped(point), false))
    });
    let is_awaited = |(point, _): &(PathBuf, bool)| {
        point.is_absolute() && folder.starts_with(point) && !mounted.iter().any(|(other, _)| other == point)
    };
    announced.chain(automounts.iter().cloned()).filter(is_awaited).max()
}

/// Asks an automount for its file system, and does not wait for it.
fn ask_for(point: &Path) {
    static IS_ASKED: AtomicBool = AtomicBool::new(false);
    if IS_ASKED.swap(true, Ordering::SeqCst) {
        return;
    }
    let point = point.to_owned();
    let ask = move || {
        // Opening it makes Linux mount it. mountinfo shows whether that has worked.
        let _ = fs::read_dir(point);
        std::thread::sleep(ASK_EVERY);
        IS_ASKED.store(false, Ordering::SeqCst);
    };
    if std::thread::Builder::new().name("automount".into()).spawn(ask).is_err() {
        IS_ASKED.store(false, Ordering::SeqCst);
    }
}

/// The file system that a folder lies on, or would lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Below {
    device: u64,
    /// How many folders its mount point is below the root.
    depth: usize,
}

impl Below {
    /// That of `folder`. `None`: it is unknown.
    pub fn of(folder: &Path) -> Option<Self> {
        let real = folder.ancestors().find_map(|path| path.canonicalize().ok())?;
        let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
        let own = device(&real)?;
        let point = real.ancestors().take_while(|path| device(path) == Some(own)).last()?;
        Some(Self { device: own, depth: point.components().count() })
    }

    /// True if a file system was mounted that hides `before`. Where one was unmounted, what it hid shows again.
    pub fn hides(self, before: Self) -> bool {
        self.device != before.device && self.depth > before.depth
    }
}

/// Where the files of a folder were read. Another file system may be mounted over it later: fstab does not name all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing was read: the file system is yet to be mounted.
    Awaited,
    /// On this file system; `None`: it is unknown.
    On(Option<Below>),
}

impl Source {
    /// That of `folder` now.
    pub fn of(folder: &Path) -> Self {
        if awaited(folder).is_some() { Self::Awaited } else { Self::On(Below::of(folder)) }
    }

    /// Follows the folder to `now`. True if a file system was mounted since: its files are to be read.
    pub fn follow(&mut self, now: Self) -> bool {
        // A file system that was unmounted may come back.
        let Self::On(below) = now else { return false };
        match std::mem::replace(self, now) {
            Self::Awaited => true,
            Self::On(before) => below.zip(before).is_some_and(|(below, before)| below.hides(before)),
        }
    }
}

/// A path without the escapes for blanks and backslashes that both texts have.
fn unescaped(field: &str) -> PathBuf {
    [("\\040", " "), ("\\011", "\t"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |path, (from, to)| path.replace(from, to))
        .into()
}

/// Sources of mounts, with their mount points.
pub fn mounted() -> Vec<(String, String)> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let parts = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    text.lines().filter_map(parts).filter(|(source, _)| source.starts_with('/')).collect()
}

/// The users of a drive: mounts of it or of its partitions, and kernel devices on top.
pub fn users(path: &Path, mounts: &[(String, String)]) -> Vec<String> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()).filter(|_| path.starts_with("/dev")) else {
        return Vec::new();
    };
    let folder = Path::new("/sys/class/block").join(&name);
    let entries = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let parts: Vec<String> = entries(&folder).into_iter().filter(|part| part.starts_with(&name)).collect();
    let mut users = Vec::new();
    for device in [name].into_iter().chain(parts) {
        let node = format!("/dev/{device}");
        users.extend(
            mounts.iter().filter(|(source, _)| *source == node).map(|(_, point)| format!("{node} is mounted on {point}")),
        );
        let holders = entries(&Path::new("/sys/class/block").join(&device).join("holders"));
        users.extend(holders.into_iter().map(|holder| format!("/dev/{holder} lies on {node}")));
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTED: &str = "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n30 22 0:21 / /my\\040disk rw - ext4 /dev/sdb1 rw\n";

    #[test]
    fn a_mount_hides_what_lies_below_it() {
        let below = |path: &str| Below::of(Path::new(path)).expect("a file system");
        assert!(below("/proc/self").hides(below("/")) && !below("/").hides(below("/proc/self")));
        assert_eq!(below("/proc/sys/nowhere/at/all"), below("/proc/sys"));
        assert!(!below("/").hides(below("/")));
    }

    #[test]
    fn a_file_system_that_comes_later_is_awaited() {
        let fstab = "# /dev/x /var ext4\n/dev/sda1 / ext4 defaults 0 1\n/dev/stria/tank /var ext4 defaults,nofail 0 2\n\
                     /dev/sdc /srv ext4 noauto\n/dev/sdb1 /my\\040disk ext4 defaults\nproc /proc proc\nswap none swap\n";
        let awaited = |folder: &str| awaited_by(Path::new(folder), fstab, MOUNTED);
        assert_eq!(awaited("/var/lib/stria"), Some(("/var".into(), false)));
        assert_eq!(awaited("/srv/stria"), None, "nobody mounts it at boot");
        assert_eq!(awaited("/my disk/stria"), None, "it is mounted");
        assert_eq!(awaited("/variable"), None);
        let mounted = format!("{MOUNTED}31 22 0:22 / /var rw - ext4 /dev/ublkb0 rw\n");
        assert_eq!(awaited_by(Path::new("/var/lib/stria"), fstab, &mounted), None);
    }

    /// It stands in mountinfo at its point whether or not its file system is mounted, and fstab need not name it.
    #[test]
    fn the_file_system_of_an_automount_is_awaited() {
        let fstab = "/dev/stria/tank /var ext4 noauto,x-systemd.automount\n/dev/stria/lake /srv ext4 x-systemd.automount\n";
        let automount =
            |point: &str| format!("40 22 0:30 / {point} rw shared:9 - autofs systemd-1 rw,fd=46,pgrp=1,direct,pipe_ino=2\n");
        let mounts = format!("{MOUNTED}{}{}", automount("/var"), automount("/srv"));
        let awaited = |folder: &str, mounts: &str| awaited_by(Path::new(folder), fstab, mounts);
        assert_eq!(awaited("/var/lib/stria", &mounts), Some(("/var".into(), true)));
        assert_eq!(awaited("/srv/stria", &mounts), Some(("/srv".into(), true)));
        assert_eq!(awaited_by(Path::new("/var/lib/stria"), "", &mounts), Some(("/var".into(), true)), "a unit of systemd");
        let mounted = format!("{mounts}41 40 0:31 / /var rw shared:10 - ext4 /dev/ublkb0 rw\n");
        assert_eq!(awaited("/var/lib/stria", &mounted), None);
        let indirect = automount("/var").replace(",direct", ",indirect");
        assert_eq!(awaited_by(Path::new("/var/lib/stria"), "", &indirect), None);
    }
}
