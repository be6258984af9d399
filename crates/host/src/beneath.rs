//! What a block device rests on: partitions on their disk, device-mapper and md on what the kernel lists as their `slaves`, loop
//! devices on the file behind them and on the device of its file system.
//!
//! A device that rests on an export of an array holds what the clients of that array write. Such bytes decide nothing by
//! themselves.

use std::collections::BTreeMap;
use std::fs::{Metadata, read_dir, read_to_string};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_drive::sysfs::{device_folder, is_partition};
use stria_drive::{metadata_of_each_within, metadata_within};

/// The time that a look at the file behind a loop device may take.
const FILE_WITHIN: Duration = Duration::from_millis(500);

/// The devices that the drive or file at `path` rests on, itself among them if it is a device.
pub fn beneath(path: &Path) -> Vec<PathBuf> {
    let found = Kernel::here().below_path(path);
    found.into_keys().map(|name| Path::new("/dev").join(name.replace('!', "/"))).collect()
}

/// Leaves out the block devices of these names that hold what clients of an array write: each that is, or rests on, a device of
/// NBD, of ublk or of Linux md. Files behind loop devices are looked at together, and once: each may be on a file system that
/// hangs.
pub(crate) fn leave_out_clients(names: &mut Vec<String>) {
    let files: Vec<PathBuf> = names.iter().filter_map(|name| backing_file(&Path::new("/sys/class/block").join(name))).collect();
    let found = metadata_of_each_within(files.clone(), FILE_WITHIN);
    let known: BTreeMap<PathBuf, Option<Node>> =
        files.into_iter().zip(found.iter().map(|found| found.as_ref().map(Node::of))).collect();
    let look = |path: &Path| known.get(path).copied().unwrap_or_else(|| look(path));
    let kernel = Kernel { look: &look, ..Kernel::here() };
    names.retain(|name| !kernel.is_of_clients(name));
}

/// True if the block device at this path does.
pub fn holds_clients_data(path: &Path) -> bool {
    let kernel = Kernel::here();
    kernel.device_of(path).is_some_and(|name| kernel.is_of_clients(&name))
}

/// True if the block device at this path may hold what clients of an array write: the file behind a loop device is made by a
/// program (FUSE), as nbdfuse makes one of an export. Others make plain files, so such a device is a drive unless it contradicts
/// another.
pub fn may_hold_clients_data(path: &Path) -> bool {
    let kernel = Kernel::here();
    kernel.device_of(path).is_some_and(|name| kernel.is_made_by_program(&name))
}

/// What the kernel tells of devices and mounts.
struct Kernel<'a> {
    sysfs: &'a Path,
    mounts: String,
    look: &'a dyn Fn(&Path) -> Option<Node>,
}

/// A file, or a device node.
#[derive(Clone, Copy)]
struct Node {
    /// The device that it is; `None`: a file.
    device: Option<u64>,
    /// The device of its file system.
    file_system: u64,
}

impl Node {
    fn of(metadata: &Metadata) -> Self {
        let device = metadata.file_type().is_block_device().then(|| metadata.rdev());
        Self { device, file_system: metadata.dev() }
    }
}

fn look(path: &Path) -> Option<Node> {
    metadata_within(path, FILE_WITHIN).map(|metadata| Node::of(&metadata))
}

fn backing_file(page: &Path) -> Option<PathBuf> {
    Some(PathBuf::from(read_to_string(page.join("loop/backing_file")).ok()?.trim_end_matches('\n')))
}

impl Kernel<'static> {
    fn here() -> Self {
        let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self { sysfs: Path::new("/sys"), mounts, look: &look }
    }
}

impl Kernel<'_> {
    /// True if the block device of this name holds what clients of an array write. An md array below a file system of this
    /// machine does not count, because this machine wrote the file. An export of Stria counts even then, because an array with
    /// such a file as its member would wait for itself.
    fn is_of_clients(&self, name: &str) -> bool {
        let begins = |name: &str, kinds: &[&str]| kinds.iter().any(|kind| name.starts_with(kind));
        let counts = |(name, by_file): (&String, &bool)| begins(name, &["nbd", "ublk"]) || !by_file && begins(name, &["md"]);
        let mut found = BTreeMap::new();
        self.descend(name.to_owned(), false, &mut found);
        found.iter().any(counts)
    }

    /// True if a file below this device is on FUSE.
    fn is_made_by_program(&self, name: &str) -> bool {
        let mut found = BTreeMap::new();
        self.descend(name.to_owned(), false, &mut found);
        let page = |name: &String| self.sysfs.join("class/block").join(name);
        found.keys().filter_map(|name| backing_file(&page(name))).any(|file| is_on_fuse(&file, &self.mounts))
    }

    fn below_path(&self, path: &Path) -> BTreeMap<String, bool> {
        let mut found = BTreeMap::new();
        match self.device_of(path) {
            Some(name) => self.descend(name, false, &mut found),
            None => self.file(path, &mut found),
        }
        found
    }

    /// Notes a device and those below it, and for each whether a file system lies between. A device that is reached both ways
    /// counts as reached without one.
    fn descend(&self, name: String, by_file: bool, found: &mut BTreeMap<String, bool>) {
        if found.get(&name).is_some_and(|known| *known <= by_file) {
            return;
        }
        let page = self.sysfs.join("class/block").join(&name);
        found.insert(name, by_file);
        if is_partition(&page)
            && let Some(disk) = page.canonicalize().ok().and_then(|page| Some(page.parent()?.file_name()?.to_str()?.to_owned()))
        {
            self.descend(disk, by_file, found);
        }
        for below in read_dir(page.join("slaves")).into_iter().flatten().flatten() {
            self.descend(below.file_name().to_string_lossy().into_owned(), by_file, found);
        }
        if let Some(file) = backing_file(&page) {
            match self.device_of(&file) {
                Some(device) => self.descend(device, by_file, found),
                None => self.file(&file, found),
            }
        }
    }

    /// Notes the device of a file's file system, and those below it.
    fn file(&self, file: &Path, found: &mut BTreeMap<String, bool>) {
        let by_number = (self.look)(file).and_then(|node| self.name_of(node.file_system));
        // Btrfs and overlays have numbers of their own.
        let mounted = || self.name_of((self.look)(&mount_source(file, &self.mounts)?)?.device?);
        if let Some(device) = by_number.or_else(mounted) {
            self.descend(device, true, found);
        }
    }

    /// The kernel's name of the device at `path`, if it is one.
    fn device_of(&self, path: &Path) -> Option<String> {
        self.name_of((self.look)(path)?.device?)
    }

    fn name_of(&self, number: u64) -> Option<String> {
        Some(device_folder(self.sysfs, number).ok()?.file_name()?.to_str()?.to_owned())
    }
}

/// What is mounted on the folders above a file: the length of each one's path, its kind and its source, from the text of
/// `/proc/PID/mountinfo`.
fn mounts_above<'a>(file: &Path, mounts: &'a str) -> impl Iterator<Item = (usize, &'a str, &'a Path)> {
    mounts.lines().filter_map(move |line| {
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(before.split(' ').nth(4)?.replace("\\040", " "));
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?, Path::new(after.next()?));
        file.starts_with(&point).then_some((point.as_os_str().len(), kind, source))
    })
}

/// The device that is mounted where a file lies, from the same text.
fn mount_source(file: &Path, mounts: &str) -> Option<PathBuf> {
    let devices = mounts_above(file, mounts).filter(|(_, _, source)| source.is_absolute());
    devices.max_by_key(|(length, ..)| *length).map(|(_, _, source)| source.to_owned())
}

/// True if a file lies on a file system of a program, from the same text.
fn is_on_fuse(file: &Path, mounts: &str) -> bool {
    let mount = mounts_above(file, mounts).max_by_key(|(length, ..)| *length);
    mount.is_some_and(|(_, kind, _)| kind == "fuse" || kind.starts_with("fuse."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// Devices as sysfs has them. Each: name, minor number, the devices below, the file behind a loop device. `sdap1` is a
    /// partition of `sda`.
    const DEVICES: [(&str, u32, &[&str], &str); 16] = [
        ("sda", 0, &[], ""),
        ("sdb", 1, &[], ""),
        ("nbd0", 2, &[], ""),
        ("ublkb0", 3, &[], ""),
        ("md0", 4, &["sda", "sdb"], ""),
        ("dm-0", 5, &["sda", "sdb"], ""),
        ("dm-1", 6, &["nbd0"], ""),
        ("dm-2", 7, &["dm-1", "sdb"], ""),
        ("dm-3", 8, &["md0"], ""),
        ("loop0", 9, &[], "/dev/ublkb0"),
        ("loop1", 10, &[], "/on-nbd/image"),
        ("loop2", 11, &[], "/on-md/image"),
        ("loop3", 12, &[], "/on-btrfs/a/image"),
        ("loop4", 13, &[], "/gone"),
        ("loop5", 14, &[], "/by fuse/nbd"),
        ("dm-4", 15, &["loop5"], ""),
    ];

    fn sysfs() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let put = |name: &str, page: &Path, minor: u32| {
            create_dir_all(page).expect("a folder");
            symlink(page, root.join("class/block").join(name)).expect("a link");
            symlink(page, root.join(format!("dev/block/7:{minor}"))).expect("a link");
        };
        ["class/block", "dev/block"].iter().for_each(|page| create_dir_all(root.join(page)).expect("a folder"));
        for (name, minor, below, file) in DEVICES {
            let page = root.join("devices").join(name);
            put(name, &page, minor);
            below.iter().for_each(|below| create_dir_all(page.join("slaves").join(below)).expect("a folder"));
            if !file.is_empty() {
                create_dir_all(page.join("loop")).expect("a folder");
                write(page.join("loop/backing_file"), format!("{file}\n")).expect("a page");
            }
        }
        for (disk, minor) in [("sda", 100), ("nbd0", 101)] {
            let part = root.join("devices").join(disk).join(format!("{disk}p1"));
            put(&format!("{disk}p1"), &part, minor);
            write(part.join("partition"), "1\n").expect("a page");
        }
        folder
    }

    fn with_kernel<T>(ask: impl FnOnce(&Kernel<'_>) -> T) -> T {
        let folder = sysfs();
        let number = |minor: u32| rustix::fs::makedev(7, minor);
        let look = |path: &Path| {
            let device = DEVICES.iter().find(|known| Path::new("/dev").join(known.0) == path).map(|known| number(known.1));
            let on = |minor: u32| Some(Node { device: None, file_system: number(minor) });
            match path.to_str()? {
                "/on-nbd/image" => on(6),
                "/on-md/image" => on(4),
                "/on-btrfs/a/image" => Some(Node { device: None, file_system: rustix::fs::makedev(0, 55) }),
                "/gone" => None,
                _ => Some(Node { device: Some(device?), file_system: 0 }),
            }
        };
        let mounts = "30 1 0:20 / / rw - ext4 /dev/sda rw\n31 30 0:50 /a /on-btrfs rw shared:1 - btrfs /dev/ublkb0 rw\n\
                      32 30 0:51 / /by\\040fuse rw - fuse /dev/fuse rw\n33 30 0:52 / /by-fuse/disk rw - fuseblk /dev/sdb rw\n"
            .into();
        ask(&Kernel { sysfs: folder.path(), mounts, look: &look })
    }

    /// A guest's superblock on a logical volume over an export was taken for that of an array of this machine, and its array was
    /// served.
    #[test]
    fn what_rests_on_an_export_or_on_linux_md_holds_clients_data() {
        with_kernel(|kernel| {
            let mut names: Vec<&str> = DEVICES.iter().map(|known| known.0).chain(["sdap1", "nbd0p1"]).collect();
            names.retain(|name| kernel.is_of_clients(name));
            let exports = ["nbd0", "ublkb0", "md0", "dm-1", "dm-2", "dm-3", "loop0", "loop1", "loop3", "nbd0p1"];
            assert_eq!(names, exports, "a volume over plain disks, and a file on the machine's own md, are drives");
        });
    }

    /// A copy of a member that a client had written behind nbdfuse and a loop device took the member's place.
    #[test]
    fn what_a_program_makes_files_of_may_hold_clients_data() {
        with_kernel(|kernel| {
            let made: Vec<&str> = DEVICES.iter().map(|known| known.0).filter(|name| kernel.is_made_by_program(name)).collect();
            assert_eq!(made, ["loop5", "dm-4"]);
            assert!(
                is_on_fuse(Path::new("/by fuse/nbd"), &kernel.mounts)
                    && !is_on_fuse(Path::new("/by-fuse/disk/x"), &kernel.mounts)
            );
        });
    }

    #[test]
    fn what_a_drive_rests_on_is_followed_to_the_end() {
        with_kernel(|kernel| {
            let below = |path: &str| kernel.below_path(Path::new(path)).into_keys().collect::<Vec<_>>();
            assert_eq!(below("/dev/dm-2"), ["dm-1", "dm-2", "nbd0", "sdb"]);
            assert_eq!(below("/dev/loop2"), ["loop2", "md0", "sda", "sdb"]);
            assert_eq!(below("/on-nbd/image"), ["dm-1", "nbd0"]);
            assert_eq!(below("/dev/loop4"), ["loop4", "sda"], "its file is gone, and the mount of the path is not");
            assert_eq!(below("/gone"), ["sda"]);
        });
    }

    /// The real kernel's pages are read as the invented ones.
    #[test]
    fn a_file_of_this_machine_rests_on_something_or_on_no_device() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(beneath(here).iter().all(|device| device.starts_with("/dev")));
        assert!(!holds_clients_data(here), "it is no device");
    }
}
