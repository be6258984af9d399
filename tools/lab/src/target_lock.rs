//! Locks of targets: one run at a time measures a target.
//!
//! A file or device is locked with `flock`, which `stria serve` and udev respect. The server of an array locks its drives in the
//! same way; NBD exports cannot be locked. All of them are also locked by a name in the abstract namespace of sockets, which the
//! kernel frees at every end of this process. That does not lock out runs on other machines or in containers.
//!
//! A block device is also locked by the names of what has the same bytes: the file behind a loop device, the partitions of a
//! drive, and the other paths to it. Two targets that share bytes so share a name.
//!
//! The fio of a run holds the locks as well, because it goes on for its time when the run is killed.

use crate::fio::{Host, Place};
use crate::nbd_uri::{self, Address};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The kernel may release the locks of a killed process a moment after its end, and a program that another thread starts holds
/// them until it runs: a run that follows at once waits this long for its target.
const FREE_AFTER: Duration = Duration::from_secs(1);

/// Tries until it succeeds or the time is over.
pub(crate) fn within<T>(time: Duration, mut attempt: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let end = Instant::now() + time;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => std::thread::sleep(time / 40),
            outcome => return outcome,
        }
    }
}

fn in_use(place: &dyn std::fmt::Display) -> String {
    format!("{place} is measured by another run, or served by another program, which would affect the figures: wait for its end")
}

/// Names of the storage of a file or device, and the files among it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Storage {
    names: BTreeSet<String>,
    files: Vec<PathBuf>,
}

impl Storage {
    fn of(path: &Path) -> std::io::Result<Self> {
        let mut storage = Self::default();
        storage.add(Path::new("/sys"), path)?;
        Ok(storage)
    }

    fn add(&mut self, sysfs: &Path, path: &Path) -> std::io::Result<()> {
        self.names.insert(name_of(path)?);
        self.files.push(path.to_path_buf());
        let metadata = std::fs::metadata(path)?;
        if metadata.file_type().is_block_device() {
            self.add_below(sysfs, metadata.rdev());
        }
        Ok(())
    }

    /// What the kernel tells of a block device. A file that has gone since has no other users to lock out.
    fn add_below(&mut self, sysfs: &Path, number: u64) {
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let Ok(device) = sysfs.join("dev/block").join(number).canonicalize() else { return };
        let text = |path: PathBuf| std::fs::read_to_string(path).ok().map(|text| text.trim_end_matches('\n').to_owned());
        let partition = text(device.join("partition"));
        let whole = if partition.is_some() { device.parent().unwrap_or(&device) } else { &device };
        let unit = ["wwid", "device/wwid"].iter().find_map(|page| text(whole.join(page)));
        // Identifiers that contain only a serial number do not count, as cheap drives share them.
        let unit = unit.filter(|unit| ["naa.", "eui.", "uuid."].iter().any(|kind| unit.starts_with(kind)));
        let by_unit = |part: &str| unit.as_ref().map(|unit| format!("unit {unit} {part}"));
        self.names.extend(by_unit(partition.as_deref().unwrap_or("whole")));
        if partition.is_none() {
            for part in std::fs::read_dir(&device).into_iter().flatten().flatten().map(|entry| entry.path()) {
                let Some(part_number) = text(part.join("partition")) else { continue };
                let number = text(part.join("dev")).and_then(|dev| {
                    let (major, minor) = dev.split_once(':')?;
                    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
                });
                self.names.extend(by_unit(&part_number));
                self.names.extend(number.map(|number| format!("block {number}")));
            }
        }
        if let Some(file) = text(whole.join("loop/backing_file")).map(PathBuf::from).filter(|file| !self.files.contains(file)) {
            let _ = self.add(sysfs, &file);
        }
    }
}

/// One name for all paths of a file or device.
fn name_of(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    Ok(match metadata.file_type().is_block_device() {
        true => format!("block {}", metadata.rdev()),
        false => format!("file {} {}", metadata.dev(), metadata.ino()),
    })
}

/// One name for the spellings of an export: a socket counts by its inode, and the case of a host's name does not count.
fn name_of_export(uri: &str) -> String {
    match nbd_uri::parse(uri) {
        Ok((Address::Unix(socket), export)) => match std::fs::metadata(&socket) {
            Ok(metadata) => format!("export {export} of socket {} {}", metadata.dev(), metadata.ino()),
            Err(_) => format!("export {export} of {socket}"),
        },
        Ok((Address::Tcp(server), export)) => format!("export {export} of {}", server.to_ascii_lowercase()),
        Err(_) => uri.to_owned(),
    }
}

/// Refuses drives of which two have the same bytes: each byte would be measured twice at once.
pub(crate) fn refuse_shared(drives: &[PathBuf]) -> Result<(), String> {
    let mut seen: BTreeMap<String, &Path> = BTreeMap::new();
    for drive in drives {
        // A file that is not there yet is made for the run.
        let Ok(storage) = Storage::of(drive) else { continue };
        for name in storage.names {
            if let Some(other) = seen.insert(name, drive).filter(|other| other != drive) {
                let (drive, other) = (drive.display(), other.display());
                return Err(format!("{other} and {drive} have the same bytes: name each drive once"));
            }
        }
    }
    Ok(())
}

/// Locks a file or device until the result is dropped.
fn by_flock(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: File = file.into();
    within(FREE_AFTER, || Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?)).map_err(|_| in_use(&path.display()))?;
    Ok(file)
}

/// Locks the plain files among the drives of an array, which no server has at this moment, before they are overwritten.
pub(crate) fn image_files(drives: &[PathBuf]) -> Result<Vec<File>, String> {
    drives.iter().filter(|drive| drive.is_file()).map(|drive| by_flock(drive)).collect()
}

/// Targets that are locked while this value exists.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Locked with `flock`, by the same names.
    files: BTreeMap<String, File>,
    names: BTreeMap<String, UnixListener>,
}

impl Held {
    /// Locks a target, or fails if another run has it. `by_file`: also with `flock`, unless a server of this run has it.
    pub(crate) fn take(&mut self, place: &Place, hosts: &[Host], by_file: bool) -> Result<(), String> {
        let taken = || in_use(place);
        if !hosts.is_empty() {
            return hosts.iter().try_for_each(|host| {
                let place = host.place.as_ref().unwrap_or(place);
                self.take_name(&format!("{} {place}", host.name)).map_err(|_| taken())
            });
        }
        let Place::Path(path) = place else { return self.take_name(&name_of_export(&place.to_string())).map_err(|_| taken()) };
        let storage = Storage::of(path).map_err(|error| format!("{}: {error}", path.display()))?;
        storage.names.iter().try_for_each(|name| self.take_name(name).map_err(|_| taken()))?;
        for file in storage.files.iter().filter(|_| by_file) {
            let name = name_of(file).map_err(|error| format!("{}: {error}", file.display()))?;
            if let Entry::Vacant(free) = self.files.entry(name) {
                free.insert(by_flock(file)?);
            }
        }
        Ok(())
    }

    /// Starts a program that also holds the locks, until it ends.
    pub(crate) fn spawn(&self, program: &mut Command) -> std::io::Result<Child> {
        let locks: Vec<BorrowedFd<'_>> =
            self.files.values().map(AsFd::as_fd).chain(self.names.values().map(AsFd::as_fd)).collect();
        locks.iter().try_for_each(|lock| fcntl_setfd(lock, FdFlags::empty()))?;
        let started = program.spawn();
        // What another thread starts meanwhile ends soon: it asks for the state of a drive.
        locks.iter().try_for_each(|lock| fcntl_setfd(lock, FdFlags::CLOEXEC))?;
        started
    }

    /// Ends the `flock` of a file, so that a server of this run can take it. The name stays locked.
    pub(crate) fn release(&mut self, path: &Path) {
        if let Ok(name) = name_of(path) {
            self.files.remove(&name);
        }
    }

    /// This run may lock its own targets again, as it makes several arrays of the same drives, one after the other.
    fn take_name(&mut self, what: &str) -> std::io::Result<()> {
        if self.names.contains_key(what) {
            return Ok(());
        }
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let address = SocketAddr::from_abstract_name(format!("stria-lab-{:016x}", hasher.finish()))?;
        self.names.insert(what.to_owned(), within(FREE_AFTER, || UnixListener::bind_addr(&address))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_one_runs_at_a_time_by_whatever_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("x"), folder.path().join("link"));
        std::fs::write(&file, "x").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let uri = format!("nbd+unix:///x?socket={}", file.display());
        let mut held = Held::default();
        held.take(&Place::Path(file.clone()), &[], true).expect("free");
        held.take(&Place::new(&uri), &[], false).expect("free");
        for (place, by_file) in [(Place::Path(link.clone()), true), (Place::Path(file.clone()), false), (Place::new(&uri), false)]
        {
            let words = Held::default().take(&place, &[], by_file).expect_err("taken");
            assert!(words.contains("another run") && words.contains(&place.to_string()), "{words}");
        }
        drop(held);
        Held::default().take(&Place::Path(link), &[], true).expect("free again");
        // This also detects programs that lock the file as stria serve does.
        let other = File::open(&file).expect("there");
        flock(&other, FlockOperation::NonBlockingLockExclusive).expect("free");
        assert!(Held::default().take(&Place::Path(file), &[], true).is_err());
    }

    /// A killed run left a fio that wrote on, and the next run measured beside it.
    #[test]
    fn a_program_that_shares_the_locks_holds_them_until_it_ends() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let places = [Place::Path(file.path().into()), Place::new("nbd://host/x")];
        let mut held = Held::default();
        places.iter().for_each(|place| held.take(place, &[], true).expect("free"));
        let mut heir = held.spawn(Command::new("sleep").arg("600")).expect("it starts");
        let mut other = Command::new("sleep").arg("600").spawn().expect("it starts");
        drop(held);
        for place in &places {
            let words = Held::default().take(place, &[], true).expect_err("taken");
            assert!(words.contains("another run"), "{words}");
        }
        heir.kill().and_then(|()| heir.wait()).expect("it ends");
        places.iter().for_each(|place| Held::default().take(place, &[], true).expect("the other program holds nothing"));
        other.kill().and_then(|()| other.wait()).expect("it ends");
    }

    #[test]
    fn an_export_is_one_runs_at_a_time_by_whatever_uri() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, link) = (folder.path().join("s"), folder.path().join("link"));
        let _server = UnixListener::bind(&socket).expect("a socket");
        std::os::unix::fs::symlink(&socket, &link).expect("a link");
        let uri = |export: &str, socket: &Path| Place::new(&format!("nbd+unix:///{export}?socket={}", socket.display()));
        let mut held = Held::default();
        held.take(&uri("tank", &socket), &[], false).expect("free");
        held.take(&Place::new("nbd://host/x"), &[], false).expect("free");
        let dotted = folder.path().join("./s");
        for taken in [uri("tank", &link), uri("%74ank", &socket), uri("/tank", &socket), uri("tank", &dotted)]
            .into_iter()
            .chain(["nbd://HOST:10809/x", "nbd://host/%78"].map(Place::new))
        {
            assert!(Held::default().take(&taken, &[], false).is_err(), "{taken}");
        }
        for free in [uri("lake", &socket), Place::new("nbd://host/y"), Place::new("nbd://host:7/x")] {
            Held::default().take(&free, &[], false).unwrap_or_else(|words| panic!("{free}: {words}"));
        }
    }

    #[test]
    fn drives_with_the_same_bytes_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other, hard, soft, missing] = ["one", "other", "hard", "soft", "missing"].map(|name| folder.path().join(name));
        [&one, &other].iter().for_each(|file| std::fs::write(file, "x").expect("a file"));
        std::fs::hard_link(&one, &hard).expect("a link");
        std::os::unix::fs::symlink(&one, &soft).expect("a link");
        refuse_shared(&[one.clone(), other.clone(), missing]).expect("they differ");
        for twice in [&hard, &soft] {
            let words = refuse_shared(&[one.clone(), other.clone(), twice.clone()]).expect_err("the same");
            assert!(words.contains(&one.display().to_string()) && words.contains(&twice.display().to_string()), "{words}");
        }
    }

    #[test]
    fn a_target_that_becomes_free_a_moment_later_is_taken() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let place = Place::Path(file.path().into());
        let mut held = Held::default();
        held.take(&place, &[], true).expect("free");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(FREE_AFTER / 5);
            drop(held);
        });
        Held::default().take(&place, &[], true).expect("free by then");
        ends.join().expect("it ends");
    }

    #[test]
    fn devices_that_share_bytes_share_a_name() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let (sysfs, image) = (folder.path().join("sys"), folder.path().join("image"));
        std::fs::write(&image, "x").expect("a file");
        let page = |path: &str, text: &str| {
            let path = sysfs.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, format!("{text}\n")).expect("a page");
        };
        std::fs::create_dir_all(sysfs.join("dev/block")).expect("a folder");
        let devices =
            [("7:0", "loop0"), ("7:1", "loop1"), ("8:0", "sda"), ("8:1", "sda/sda1"), ("8:2", "sda/sda2"), ("8:16", "sdb")];
        for (number, name) in devices {
            page(&format!("devices/{name}/dev"), number);
            symlink(sysfs.join("devices").join(name), sysfs.join("dev/block").join(number)).expect("a link");
        }
        for name in ["loop0", "loop1"] {
            page(&format!("devices/{name}/loop/backing_file"), &image.display().to_string());
        }
        for part in ["1", "2"] {
            page(&format!("devices/sda/sda{part}/partition"), part);
        }
        // A second path to the same drive.
        ["sda", "sdb"].iter().for_each(|name| page(&format!("devices/{name}/device/wwid"), "naa.5000c500a1b2c3d4"));
        let storage = |major, minor| {
            let (mut storage, number) = (Storage::default(), rustix::fs::makedev(major, minor));
            storage.names.insert(format!("block {number}"));
            storage.add_below(&sysfs, number);
            storage
        };
        let shares = |one: &Storage, other: &Storage| !one.names.is_disjoint(&other.names);
        let [loop0, loop1] = [storage(7, 0), storage(7, 1)];
        assert!(shares(&loop0, &loop1) && shares(&loop0, &Storage::of(&image).expect("there")));
        assert_eq!(loop0.files, vec![image]);
        let [sda, part1, part2, sdb] = [storage(8, 0), storage(8, 1), storage(8, 2), storage(8, 16)];
        assert!(shares(&sda, &part1) && shares(&sda, &part2) && shares(&sda, &sdb));
        assert!(!shares(&part1, &part2) && !shares(&part1, &loop0) && !shares(&sda, &loop0));
    }
}
