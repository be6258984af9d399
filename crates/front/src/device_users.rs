//! The users of a block device: mounts, other devices, processes, loop devices, and the kernel's NVMe target.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, open, statx};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The subsystems of the kernel's NVMe target, which opens devices without holding them.
const NVME_TARGET: &str = "/sys/kernel/config/nvmet/subsystems";

/// The block devices that the kernel has.
const BLOCK_DEVICES: &str = "/sys/block";

/// The processes of this machine.
const PROCESSES: &str = "/proc";

/// The number of a block device, which all its nodes have: major, minor.
type Number = (u32, u32);

/// Describes the mounts, processes, loop devices and exports that use the block device or one of its partitions. udev, which
/// opens every new device, is left out. A process whose open files cannot be looked at counts as a user, so an empty list means
/// that there is none.
pub(crate) fn users(path: &Path) -> Vec<String> {
    let mut users = Vec::new();
    // Closed at once: this handle would otherwise count as a user.
    let held = open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()).err();
    if held == Some(Errno::BUSY) {
        users.push("it is mounted, or another device or program holds it".to_owned());
    }
    users.extend(openers(Path::new(PROCESSES), &numbers(path)));
    let path = path.display().to_string();
    let is_device = |link: &Path| is_device_or_partition(&path, link);
    users.extend(loop_devices(Path::new(BLOCK_DEVICES), is_device));
    users.extend(nvme_exports(Path::new(NVME_TARGET), is_device));
    users
}

/// The numbers of a block device and its partitions.
fn numbers(path: &Path) -> Vec<Number> {
    let folder = Path::new(BLOCK_DEVICES).join(path.file_name().unwrap_or_default());
    let parts = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path().join("dev"));
    let number = |file: PathBuf| {
        let text = fs::read_to_string(file).ok()?;
        let (major, minor) = text.trim_end().split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    number_of(path).ok().flatten().into_iter().chain(parts.filter_map(number)).collect()
}

/// The number of the block device that `node` is; `None`: it is something else.
fn number_of(node: &Path) -> rustix::io::Result<Option<Number>> {
    // The file's server may hang, so the attributes that the kernel has must do.
    let stat = statx(CWD, node, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    let is_block = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice;
    Ok(is_block.then_some((stat.stx_rdev_major, stat.stx_rdev_minor)))
}

/// Describes the processes in `processes` that have one of the devices open, by any node: a container has its own.
fn openers(processes: &Path, devices: &[Number]) -> Vec<String> {
    let (mut users, mut hidden) = (Vec::new(), Vec::new());
    let mut unknown = |name: String, error: &dyn std::fmt::Display| hidden.push(format!("{name}: {error}"));
    let entries = match fs::read_dir(processes) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            unknown(processes.display().to_string(), &error);
            Vec::new()
        }
    };
    let is_process =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    for process in entries.iter().filter(is_process) {
        let name = || {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            format!("{} (process {})", name.trim_end(), process.file_name().unwrap_or_default().display())
        };
        match opens(process, devices) {
            Ok(false) => {}
            Ok(true) => users.extend(Some(name()).filter(|name| !name.contains("udev"))),
            Err(error) => unknown(name(), &error),
        }
    }
    if let Some(first) = hidden.first() {
        let count = hidden.len();
        users.push(format!(
            "whether a process has it open is unknown, as the open files of {count} cannot be looked at ({first}); root can with CAP_SYS_PTRACE"
        ));
    }
    users
}

/// True if the process has one of the devices open.
///
/// # Errors
/// When some of its files cannot be looked at, and none of the others is such a device.
fn opens(process: &Path, devices: &[Number]) -> io::Result<bool> {
    // The process may end, or close files, meanwhile.
    let is_gone = |error: Errno| matches!(error, Errno::NOENT | Errno::SRCH);
    let mut outcome = Ok(false);
    let files = match fs::read_dir(process.join("fd")) {
        Err(error) if Errno::from_io_error(&error).is_some_and(is_gone) => return Ok(false),
        files => files?,
    };
    for file in files {
        match file {
            Err(error) if Errno::from_io_error(&error).is_some_and(is_gone) => return outcome,
            Err(error) => return Err(error),
            Ok(file) => match number_of(&file.path()) {
                Ok(number) if number.is_some_and(|number| devices.contains(&number)) => return Ok(true),
                Err(error) if !is_gone(error) => outcome = Err(error.into()),
                Ok(_) | Err(_) => {}
            },
        }
    }
    outcome
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
    use rustix::fs::{makedev, mknodat};
    use std::os::unix::fs::symlink;
    use std::process::Command;

    /// A process with these open files.
    fn process(processes: &Path, pid: &str, name: &str, files: &[&Path]) {
        let fd = processes.join(pid).join("fd");
        fs::create_dir_all(&fd).expect("a folder");
        fs::write(processes.join(pid).join("comm"), format!("{name}\n")).expect("written");
        files.iter().enumerate().for_each(|(number, file)| symlink(file, fd.join(number.to_string())).expect("a link"));
    }

    #[test]
    fn a_process_that_has_the_device_open_is_found_whatever_the_node_is_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let (processes, nodes) = (folder.path().join("proc"), folder.path().join("dev"));
        fs::create_dir_all(&nodes).expect("a folder");
        // Block devices that no machine has (240 to 254 are for local use), so that nobody can open them.
        let node = |name: &str, kind, minor| {
            let path = nodes.join(name);
            mknodat(CWD, &path, kind, Mode::RUSR, makedev(241, minor)).expect("these tests run as root");
            path
        };
        let [disk, part] = [("xvda", 7), ("xvda1", 8)].map(|(name, minor)| node(name, FileType::BlockDevice, minor));
        let [other, char] = [("xvdb", FileType::BlockDevice, 9), ("tty", FileType::CharacterDevice, 7)]
            .map(|(name, kind, minor)| node(name, kind, minor));
        let socket = Path::new("socket:[77]");
        process(&processes, "10", "qemu", &[socket, &disk]);
        process(&processes, "11", "postgres", &[&other, &part]);
        process(&processes, "12", "sh", &[&other, &char, socket]);
        process(&processes, "13", "systemd-udevd", &[&disk]);
        process(&processes, "sys", "no process", &[&disk]);
        let mut found = openers(&processes, &[(241, 7), (241, 8)]);
        found.sort();
        assert_eq!(found, ["postgres (process 11)", "qemu (process 10)"]);
        assert_eq!(numbers(&disk), [(241, 7)]);
    }

    /// Without the capability that systemd's unit once lacked, nobody's files can be looked at, and a device in use was removed.
    #[test]
    fn processes_that_cannot_be_looked_at_count_as_users() {
        const INSIDE: &str = "STRIA_TEST_LACKS_PTRACE";
        if std::env::var_os(INSIDE).is_some() {
            let found = openers(Path::new(PROCESSES), &[(241, 7)]);
            let hidden: Vec<_> = found.iter().filter(|user| user.contains("Permission denied")).collect();
            assert!(hidden.len() == 1 && found.len() == 1 && hidden[0].contains("CAP_SYS_PTRACE"), "{found:?}");
            return;
        }
        // The one that it may not look at has every capability, as the daemons of a machine.
        let mut sleeper = Command::new("sleep").arg("600").spawn().expect("it starts");
        let this = std::env::current_exe().expect("a path");
        let test = "device_users::tests::processes_that_cannot_be_looked_at_count_as_users";
        let caps = "-all,+sys_admin,+sys_rawio,+ipc_lock,+chown,+dac_override,+fowner";
        let output = Command::new("setpriv")
            .args(["--bounding-set", caps, "--inh-caps", "-all"])
            .arg(this)
            .args(["--exact", test])
            .env(INSIDE, "1")
            .output();
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it ran");
        let output = output.expect("setpriv, of util-linux");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}{output:?}");
        assert!(openers(Path::new("/none"), &[])[0].contains("unknown"), "no list of processes, no answer");
        let ended = tempfile::tempdir().expect("a folder");
        fs::create_dir(ended.path().join("44")).expect("a folder");
        assert_eq!(openers(ended.path(), &[(241, 7)]), [""; 0], "a process that ends meanwhile");
    }

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
        symlink("/dev/null", &link).expect("a link");
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
