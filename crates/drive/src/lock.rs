//! One user at a time: `O_EXCL` for block devices, `flock` for files. Finds the process that has a drive open.
//!
//! A block device has a shared `flock` besides, by which its user is found. An exclusive one would stop udev: it postpones its
//! work for a device that is locked so by three minutes, and `udevadm settle` waits for it.

use crate::info::Sysfs;
use crate::sysfs::{SYSFS, block_page, device_folder, is_partition};
use crate::within::{METADATA, NotInTime, metadata_of_each_within, within_at};
use crate::{DriveError, Identity};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use std::ffi::OsStr;
use std::fs::{DirEntry, File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A block device may be busy for moments without a lasting user: a partitioner locks it, or the kernel closes a file of io_uring
/// a little after its last completion.
const PATIENCE: Duration = Duration::from_secs(2);

/// The kernel closes the files of a killed process's ring later, and much later on a busy machine. With the patience before, this
/// is less than `stria_host` gives a drive to be opened: the drive is then in use, which the daemon takes for a reason to try
/// again, and not silent.
pub const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(12);

/// 4 s: the time that an unknown user of a drive has to let go of it. It may be a killed process that is about to end.
const PATIENCE_WITH_THE_UNKNOWN: Duration = Duration::from_secs(4);

/// The time limit for comparing the files behind loop devices with one that is open.
const LOOP_FILE_WITHIN: Duration = Duration::from_millis(500);

/// The time limit for a check of the file behind a loop device, before the device is read.
const LOOP_DEVICE_WITHIN: Duration = Duration::from_secs(5);

/// Repeats `attempt` until it returns `Some`, or patience ends.
pub(crate) fn patiently<T>(attempt: impl FnMut() -> Option<T>) -> Option<T> {
    try_for(PATIENCE, attempt)
}

fn try_for<T>(patience: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + patience;
    loop {
        match attempt() {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            outcome => return outcome,
        }
    }
}

/// Repeats an attempt that found the device `busy`: for a moment, and longer while its known user is about to end.
pub(crate) fn outlast<T>(path: &Path, mut attempt: impl FnMut() -> Option<T>, busy: impl Fn() -> T) -> T {
    let holder = || std::fs::metadata(path).ok().and_then(|metadata| holding_pid(&metadata, true));
    let patient = |attempt: &mut dyn FnMut() -> Option<T>| {
        try_for(PATIENCE_WITH_THE_DEAD, || attempt().or_else(|| (!holder().is_some_and(is_dying)).then(&busy)))
    };
    patiently(&mut attempt).or_else(|| patient(&mut attempt)).unwrap_or_else(&busy)
}

/// Takes the lock on `file`, held until [`File::unlock`] or until its last handle closes: a shared one on a device, which is open
/// exclusively.
pub(crate) fn lock(file: &File, path: &Path, is_device: bool) -> Result<(), DriveError> {
    match is_device {
        true => take(file, path, true, File::try_lock_shared),
        false => take(file, path, false, File::try_lock),
    }
}

/// Takes the lock on the command device of an NVMe drive, see [`crate::passthrough`]: the drive's users that are partitions share
/// it.
pub(crate) fn lock_commands(file: &File, path: &Path, is_partition: bool) -> Result<(), DriveError> {
    take(file, path, true, if is_partition { File::try_lock_shared } else { File::try_lock })
}

/// `patient`: whether the lock may be held for moments without a lasting user.
fn take(
    file: &File,
    path: &Path,
    patient: bool,
    mut try_lock: impl FnMut(&File) -> Result<(), TryLockError>,
) -> Result<(), DriveError> {
    let mut attempt = || match try_lock(file) {
        Ok(()) => Some(Ok(())),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(source)) => Some(Err(DriveError::System { path: path.to_owned(), action: "lock", source })),
    };
    let mut outcome = if patient { patiently(&mut attempt) } else { attempt() };
    let holder = || file.metadata().ok().and_then(|metadata| holding_pid(&metadata, true));
    let busy = || {
        let pid = holder();
        Err(DriveError::Busy { path: path.to_owned(), holder: holder_in_words(pid), ends: pid.is_some_and(is_dying) })
    };
    if outcome.is_none() {
        let begun = Instant::now();
        outcome = try_for(PATIENCE_WITH_THE_DEAD, || {
            attempt().or_else(|| match holder() {
                Some(holder) if is_dying(holder) => None,
                // Released since, or held from another container, or by another user's process.
                None if begun.elapsed() < PATIENCE_WITH_THE_UNKNOWN => None,
                Some(_) | None => Some(busy()),
            })
        });
    }
    outcome.unwrap_or_else(busy)
}

/// The process that took the lock on the file, from /proc/locks. `is_refused`: the lock was tried, and somebody has it.
fn holding_pid(metadata: &Metadata, is_refused: bool) -> Option<u32> {
    pid_among(&std::fs::read_to_string("/proc/locks").ok()?, metadata, is_refused)
}

/// The same, from the text of /proc/locks. On btrfs and overlays that text names another device than the file's metadata do.
/// There every process that has a lock on a file of the same inode number is asked for its open files. A process that is about to
/// end shows none: it counts only if the lock was refused, as files of other file systems often have the same inode number.
fn pid_among(locks: &str, metadata: &Metadata, is_refused: bool) -> Option<u32> {
    let (device, inode) = (metadata.dev(), metadata.ino().to_string());
    let name = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    let by_name = flocks(locks).find(|(_, file)| *file == name).map(|(pid, _)| pid);
    let is_like = |file: &str| file.rsplit(':').next() == Some(&*inode);
    let may_be = |(pid, file): &(u32, &str)| is_like(file) && (has_locked(*pid, metadata) || is_refused && is_dying(*pid));
    by_name.or_else(|| flocks(locks).find(may_be).map(|(pid, _)| pid))
}

/// True if the process has this very file open, and a lock on it.
fn has_locked(pid: u32, metadata: &Metadata) -> bool {
    let inode = metadata.ino().to_string();
    let is_it = |number: &OsStr| {
        let Ok(info) = std::fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(number)) else { return false };
        let locks = info.lines().filter_map(|line| line.strip_prefix("lock:"));
        let has_lock = locks.flat_map(flocks).any(|(_, file)| file.rsplit(':').next() == Some(&*inode));
        // Files of different FUSE mounts often have the same inode number, and one of the servers may hang: it is not asked.
        let open = || statx(CWD, Path::new(&format!("/proc/{pid}/fd")).join(number), AtFlags::STATX_DONT_SYNC, StatxFlags::INO);
        let is_same = |open: Statx| {
            (rustix::fs::makedev(open.stx_dev_major, open.stx_dev_minor), open.stx_ino) == (metadata.dev(), metadata.ino())
        };
        has_lock && open().is_ok_and(is_same)
    };
    let numbers = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    numbers.map(|entry| entry.file_name()).any(|number| is_it(&number))
}

/// True if a process has ended or is about to. A killed one may first wait for a processor, and then waits for the requests that
/// its ring has in flight, before the kernel calls it exiting.
fn is_dying(pid: u32) -> bool {
    /// `PF_EXITING` and `PF_SIGNALED` of the kernel.
    const ENDING: u64 = 0x4 | 0x400;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state follows the name in parentheses, which may hold anything. The flags are the seventh field from there.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ended = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    ended
        || fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & ENDING != 0)
        || std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| is_killed(&status))
}

/// True if a signal that nothing can stop waits for the process, or for its first thread: from the text of its `status`.
fn is_killed(status: &str) -> bool {
    /// The bit of `SIGKILL`.
    const KILL: u64 = 1 << 8;
    let pending = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    pending.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & KILL != 0)
}

/// The process that has the lock on a file, in words.
pub(crate) fn file_holder(metadata: &Metadata) -> Option<String> {
    holding_pid(metadata, false).map(in_words)
}

/// The process that has the lock on `file` (`flock`), in words.
pub fn lock_holder(file: &File) -> String {
    holder_in_words(file.metadata().ok().and_then(|metadata| holding_pid(&metadata, true)))
}

fn holder_in_words(pid: Option<u32>) -> String {
    pid.map_or("another process (unknown: it may run in another container)".into(), in_words)
}

fn in_words(pid: u32) -> String {
    if pid == std::process::id() {
        return "this very process".into();
    }
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(program) => format!("another process ({}, pid {pid})", program.trim()),
        Err(_) => format!("another process (pid {pid})"),
    }
}

/// The locks in the text of /proc/locks, each with its process and its file. A line:
/// `1: FLOCK  ADVISORY  WRITE 8612 fe:00:131076 0 EOF`.
fn flocks(locks: &str) -> impl Iterator<Item = (u32, &str)> {
    locks.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, file, ..] => Some((pid.parse().ok()?, file)),
            _ => None,
        }
    })
}

/// The exclusive user of the block device `number` at `path`, or of its disk or partitions: the kernel keeps these apart as well.
pub(crate) fn exclusive_holder(path: &Path, number: u64) -> String {
    let related = || {
        let users = disk_and_partitions(number).into_iter();
        users
            .filter_map(|(node, number, what)| Some(format!("{}, which uses {what} {}", user_of(&node, number)?, node.display())))
            .next()
    };
    let unknown = || "another process, a mounted file system or swap (see: lsblk, fuser)".into();
    user_of(path, number).or_else(related).unwrap_or_else(unknown)
}

/// The disk of a partition, or the partitions of a disk: node, number, and what it is in words.
fn disk_and_partitions(number: u64) -> Vec<(PathBuf, u64, &'static str)> {
    let Ok(device) = device_folder(Path::new(SYSFS), number) else { return Vec::new() };
    let known = |page: PathBuf, what| Some((node_of(&page)?, number_of(&page)?, what));
    if is_partition(&device) {
        return device.parent().and_then(|disk| known(disk.to_owned(), "its disk")).into_iter().collect();
    }
    let pages = std::fs::read_dir(&device).into_iter().flatten().flatten().map(|entry| entry.path());
    pages.filter(|page| is_partition(page)).filter_map(|page| known(page, "its partition")).collect()
}

/// The node of a block device's entry in sysfs. The kernel writes a slash in its name as an exclamation mark.
fn node_of(page: &Path) -> Option<PathBuf> {
    Some(Path::new("/dev").join(page.file_name()?.to_str()?.replace('!', "/")))
}

fn number_of(page: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(page.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The exclusive user of one block device, as far as it is known: a device above it, a mount, or a process of ours.
fn user_of(path: &Path, number: u64) -> Option<String> {
    let holders = std::fs::read_dir(block_page(Path::new(SYSFS), number).join("holders"))
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>())
        .unwrap_or_default();
    if !holders.is_empty() {
        return Some(format!("the block device {} above it", holders.join(", ")));
    }
    // A line of mountinfo: `36 35 98:0 /root /mountpoint options...`.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| fields.get(2) == Some(&&*device));
    match mount.as_ref().and_then(|fields| fields.get(4)) {
        Some(point) => Some(format!("the file system mounted at {point}")),
        None => std::fs::metadata(path).ok().and_then(|metadata| holding_pid(&metadata, false)).map(in_words),
    }
}

/// The loop device that makes a block device of this file. Its users know nothing of our lock. A file that does not answer in
/// time is another one, as this one is open and answers.
pub(crate) fn loop_device_over(file: Identity) -> Option<String> {
    let backing = |device: &DirEntry| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        Some(PathBuf::from(file.trim_end_matches('\n')))
    };
    let devices = std::fs::read_dir("/sys/block").ok()?.flatten();
    let (names, files): (Vec<_>, Vec<_>) = devices.filter_map(|device| Some((device.file_name(), backing(&device)?))).unzip();
    let looked = metadata_of_each_within(files, LOOP_FILE_WITHIN);
    let is_it = |looked: Option<Metadata>| looked.is_some_and(|it| Identity::of(&it) == file);
    let at = looked.into_iter().position(is_it)?;
    Some(format!("the loop device /dev/{}", names[at].to_string_lossy()))
}

/// The file behind the loop device `number` (or a partition of it), if that file does not answer. A read of the device would then
/// wait in the kernel, and nothing would end it, not even the end of the process. A check of the file waits too, but the end of
/// the process ends it.
pub(crate) fn silent_loop_file(number: u64) -> Option<PathBuf> {
    let file = PathBuf::from(Sysfs::of(number)?.text("loop/backing_file")?);
    match within_at(METADATA, &file, LOOP_DEVICE_WITHIN, |file| std::fs::metadata(file).map(drop)) {
        Err(NotInTime::Late) => Some(file),
        Ok(_) | Err(NotInTime::NoThread(_) | NotInTime::Panicked) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_ended_are_dead() {
        assert!(!is_dying(std::process::id()));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("coreutils");
        assert!(!is_dying(child.id()));
        child.kill().expect("it is ours");
        assert!(try_for(Duration::from_secs(60), || is_dying(child.id()).then_some(())).is_some(), "unwaited for");
        child.wait().expect("it was killed");
        assert!(is_dying(child.id()));
    }

    #[test]
    fn a_process_that_was_killed_is_dying_before_it_has_run() {
        let status =
            |thread, shared| format!("Pid:\t7\nSigPnd:\t{thread:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t0000000000000100\n");
        assert!(is_killed(&status(0, 0x100)) && is_killed(&status(0x100, 0)), "by kill, and by the end of another thread");
        assert!(!is_killed(&status(0x4000, 0x4000)), "it may handle SIGTERM");
    }

    #[test]
    fn holder_is_found_in_a_list_of_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 8612 fe:00:5 0 EOF\n";
        assert_eq!(flocks(locks).collect::<Vec<_>>(), [(8612, "fe:00:5")]);
    }

    /// On btrfs the user of an image was never found: the device in /proc/locks is that of the file system, and the file's that
    /// of its subvolume.
    #[test]
    fn holder_is_found_where_its_lock_names_another_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let [held, other] = ["held", "other"].map(|name| File::create_new(folder.path().join(name)).expect("a file"));
        held.try_lock().expect("it is ours");
        let us = std::process::id();
        let locks =
            |file: &File| format!("7: FLOCK  ADVISORY  WRITE {us} 00:63:{} 0 EOF\n", file.metadata().expect("open").ino());
        let holder = |file: &File| pid_among(&locks(file), &file.metadata().expect("open"), true);
        assert_eq!(holder(&held), Some(us));
        assert_eq!(holder(&other), None, "a lock on another file of the same inode");
        // A process that ends shows no files: whether it has the lock on this one is known only if the lock was refused.
        let mut ended = std::process::Command::new("true").spawn().expect("coreutils");
        ended.wait().expect("it ends");
        let locks = locks(&other).replace(&us.to_string(), &ended.id().to_string());
        let of_ended = |is_refused| pid_among(&locks, &other.metadata().expect("open"), is_refused);
        assert_eq!((of_ended(false), of_ended(true)), (None, Some(ended.id())));
    }

    /// A user that was not found counted as one that stays, at once.
    #[test]
    fn an_unknown_user_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("image");
        let file = File::create_new(&path).expect("a file");
        let mut attempts = 0;
        // No process has a lock on it.
        let taken = take(&file, &path, false, |_| {
            attempts += 1;
            if attempts < 9 { Err(TryLockError::WouldBlock) } else { Ok(()) }
        });
        assert!(taken.is_ok(), "{taken:?}");
    }
}
