//! The users of a block device: mounts, other devices, processes, loop devices, and the kernel's NVMe target.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// The subsystems of the kernel's NVMe target, which opens devices without holding them.
const NVME_TARGET: &str = "/sys/kernel/config/nvmet/subsystems";

/// The block devices that the kernel has.
const BLOCK_DEVICES: &str = "/sys/block";

/// Describes the mounts, processes, loop devices and exports that use the block device or one of its partitions. udev, which opens every new
/// device, is left out.
pub(crate) fn users(path: &Path) -> Vec<String> {
    let mut users = Vec::new();
    // Closed at once: this handle would otherwise count as a user.
    let held = open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()).err();
    if held == Some(Errno::BUSY) {
        users.push("it is mounted, or another device or program holds it".to_owned());
    }
    let path = path.display().to_string();
    let is_device = |link: &Path| is_device_or_partition(&path, link);
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
    users.extend(loop_devices(Path::new(BLOCK_DEVICES), is_device));
    users.extend(nvme_exports(Path::new(NVME_TARGET), is_device));
    users
}

/// True if `link` is the device at `path` or one of its partitions.
fn is_device_or_partition(path: &str, link: &Path) -> bool {
    let rest = link.to_str().and_then(|link| link.strip_prefix(path));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
}

/// Describes the loop devices in `block_devices` over one of these devices. The kernel has it open for them, and no process has.
fn loop_devices(block_devices: &Path, is_device: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(block_devices).into_iter().flatten().flatten();
    let is_over = |device: &Path| {
        let file = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        is_device(Path::new(file.trim_end_matches('\n')))
    };
    let over = entries.filter(|device| is_over(&device.path()));
    over.map(|device| format!("the loop device /dev/{}", device.file_name().display())).collect()
}

/// Describes the enabled namespaces of the kernel's NVMe target below `subsystems` whose device is one of these.
fn nvme_exports(subsystems: &Path, is_device: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let text = |file: PathBuf| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
    let mut exports = Vec::new();
    for subsystem in entries(subsystems) {
        for namespace in entries(&subsystem.join("namespaces")) {
            let device = PathBuf::from(text(namespace.join("device_path")));
            let device = fs::canonicalize(&device).unwrap_or(device);
            if text(namespace.join("enable")) == "1" && is_device(&device) {
                exports.push(format!(
                    "the kernel's NVMe target exports it as namespace {} of {}",
                    name(&namespace),
                    name(&subsystem)
                ));
            }
        }
    }
    exports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_devices_over_the_device_or_a_partition_count() {
        let folder = tempfile::tempdir().expect("a folder");
        for (device, file) in [("loop0", "/dev/ublkb1"), ("loop1", "/dev/ublkb10"), ("loop2", "/dev/ublkb1p2"), ("loop3", "/a b")]
        {
            let attributes = folder.path().join(device).join("loop");
            fs::create_dir_all(&attributes).expect("a folder");
            fs::write(attributes.join("backing_file"), format!("{file}\n")).expect("written");
        }
        fs::create_dir_all(folder.path().join("sda")).expect("a folder");
        let mut found = loop_devices(folder.path(), |path| is_device_or_partition("/dev/ublkb1", path));
        found.sort();
        assert_eq!(found, ["the loop device /dev/loop0", "the loop device /dev/loop2"]);
    }

    #[test]
    fn exports_of_the_nvme_target_count_while_they_are_enabled() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("tank");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        let link = link.to_str().expect("a plain path");
        for (subsystem, device, enable) in
            [("nqn.a", "/dev/null", "1"), ("nqn.b", link, "1"), ("nqn.c", "/dev/null", "0"), ("nqn.d", "/dev/zero", "1")]
        {
            let namespace = folder.path().join("subsystems").join(subsystem).join("namespaces/7");
            fs::create_dir_all(&namespace).expect("a folder");
            fs::write(namespace.join("device_path"), format!("{device}\n")).expect("written");
            fs::write(namespace.join("enable"), format!("{enable}\n")).expect("written");
        }
        let mut exports = nvme_exports(&folder.path().join("subsystems"), |path| path == Path::new("/dev/null"));
        exports.sort();
        let expected = ["nqn.a", "nqn.b"].map(|nqn| format!("the kernel's NVMe target exports it as namespace 7 of {nqn}"));
        assert_eq!(exports, expected);
        assert!(nvme_exports(&folder.path().join("none"), |_| true).is_empty());
    }
}
