//! Other paths to the bytes of a block device: further paths of a drive on a fabric, and other loop devices over one file. The
//! kernel keeps the exclusive users of one device apart, but not those of two such devices. So an exclusive open of one claims
//! all.
//!
//! Drives are recognized by their World Wide Name. Identifiers that contain only a serial number do not count, as cheap drives
//! share them.

use crate::lock::{exclusive_holder, file_holder, patiently};
use crate::sysfs::{SYSFS, device_folder};
use crate::within::{metadata_of_each_within, metadata_within, within_each};
use crate::{DriveError, Identity};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata, read_to_string};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time that each other path has to be opened, and each file behind a loop device to be looked at. A path that takes longer,
/// such as a dead one, is skipped. Longer than the patience with a path that is busy.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The time limit for comparing the files behind loop devices with one that answers.
const LOOP_FILES_WITHIN: Duration = Duration::from_millis(500);

/// Claims all other paths to the block device `number` for as long as the files are open. `path`: as it was given.
///
/// # Errors
/// One of them is in use, or the file behind a loop device is.
pub(crate) fn claim(path: &Path, number: u64) -> Result<Vec<File>, DriveError> {
    let busy = |holder| DriveError::Busy { path: path.to_owned(), holder, ends: false };
    let sysfs = Path::new(SYSFS);
    if let Some((file, holder)) = backing_file(sysfs, number).and_then(|file| file_holder(&file.1).map(|holder| (file.0, holder)))
    {
        return Err(busy(format!("{holder}, which uses the file behind it, {file}")));
    }
    let opened = within_each(ANSWERS_WITHIN, others(sysfs, number), |node| move || (open(&node), node));
    let mut claimed = Vec::new();
    for (outcome, node) in opened.into_iter().flatten() {
        match outcome {
            Ok(file) => claimed.push(file),
            Err(Errno::BUSY) => {
                let number = std::fs::metadata(&node).map_or(0, |metadata| metadata.rdev());
                let holder = exclusive_holder(&node, number);
                return Err(busy(format!("{holder} by another path to the same drive, {}", node.display())));
            }
            // Nothing can use the drive through a dead path.
            Err(_) => {}
        }
    }
    Ok(claimed)
}

/// Opened for reading, as udev probes a device again that was open for writing. The lock identifies its owner.
fn open(node: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || rustix::fs::open(node, flags, Mode::empty()).map(File::from);
    let attempt = || Some(open()).filter(|result| !matches!(result, Err(Errno::BUSY)));
    let file = patiently(attempt).unwrap_or(Err(Errno::BUSY))?;
    let _ = file.try_lock_shared();
    Ok(file)
}

/// The device nodes of the other paths. Those of a partition are partitions of the same number.
fn others(sysfs: &Path, number: u64) -> Vec<PathBuf> {
    let Ok(device) = device_folder(sysfs, number) else { return Vec::new() };
    let partition = read_to_string(device.join("partition")).ok();
    let whole = if partition.is_some() { device.parent().unwrap_or(&device) } else { &device };
    let devices = std::fs::read_dir(sysfs.join("block")).into_iter().flatten().flatten();
    let devices = devices.filter_map(|entry| entry.path().canonicalize().ok()).filter(|other| other != whole);
    let same: Vec<PathBuf> = match (bytes_of_file(whole), unit(whole)) {
        (Some(bytes), _) => over_the_same_file(whole, &bytes, devices, partition.is_some()),
        (None, Some(ours)) => devices.filter(|other| unit(other).is_some_and(|theirs| theirs == ours)).collect(),
        (None, None) => Vec::new(),
    };
    let node = |other: PathBuf| match &partition {
        None => Some(other),
        Some(number) => {
            let mut parts = std::fs::read_dir(other).ok()?.flatten().map(|entry| entry.path());
            parts.find(|part| read_to_string(part.join("partition")).is_ok_and(|found| found == *number))
        }
    };
    // The kernel writes a slash in a device's name as an exclamation mark.
    let name = |node: PathBuf| Some(Path::new("/dev").join(node.file_name()?.to_str()?.replace('!', "/")));
    same.into_iter().filter_map(node).filter_map(name).collect()
}

/// The World Wide Name. NVMe has it at the namespace, SCSI at the device below.
fn unit(whole: &Path) -> Option<String> {
    let unit = ["wwid", "device/wwid"].iter().find_map(|page| read_to_string(whole.join(page)).ok())?;
    let unit = unit.trim();
    ["naa.", "eui.", "uuid."].iter().any(|kind| unit.starts_with(kind)).then(|| unit.to_owned())
}

/// The part of its file that a loop device covers.
fn bytes_of_file(whole: &Path) -> Option<Range<u64>> {
    let number = |page| read_to_string(whole.join(page)).ok()?.trim().parse::<u64>().ok();
    let start = number("loop/offset")?;
    Some(start..number("loop/sizelimit").filter(|&limit| limit > 0).map_or(u64::MAX, |limit| start.saturating_add(limit)))
}

/// The other loop devices that share bytes with one. `aligned`: only those with the same offset, as their partitions are
/// compared.
fn over_the_same_file(whole: &Path, bytes: &Range<u64>, devices: impl Iterator<Item = PathBuf>, aligned: bool) -> Vec<PathBuf> {
    let Some(file) = backing_file_of(whole).map(|(_, metadata)| Identity::of(&metadata)) else { return Vec::new() };
    let overlaps = |other: &PathBuf| bytes_of_file(other).is_some_and(|theirs| share_bytes(bytes, &theirs, aligned));
    let (others, files): (Vec<_>, Vec<_>) =
        devices.filter(overlaps).filter_map(|other| backing_path(&other).map(|path| (other, PathBuf::from(path)))).unzip();
    let looked = metadata_of_each_within(files, LOOP_FILES_WITHIN);
    let is_it = |looked: Option<Metadata>| looked.is_some_and(|it| Identity::of(&it) == file);
    others.into_iter().zip(looked).filter_map(|(other, looked)| is_it(looked).then_some(other)).collect()
}

fn share_bytes(ours: &Range<u64>, theirs: &Range<u64>, aligned: bool) -> bool {
    if aligned { ours.start == theirs.start } else { ours.start < theirs.end && theirs.start < ours.end }
}

/// The file behind the loop device `number`, or behind the one that it is a partition of.
fn backing_file(sysfs: &Path, number: u64) -> Option<(String, Metadata)> {
    let device = device_folder(sysfs, number).ok()?;
    backing_file_of(&device).or_else(|| backing_file_of(device.parent()?))
}

fn backing_file_of(whole: &Path) -> Option<(String, Metadata)> {
    let path = backing_path(whole)?;
    let metadata = metadata_within(Path::new(&path), ANSWERS_WITHIN)?;
    Some((path, metadata))
}

fn backing_path(whole: &Path) -> Option<String> {
    Some(read_to_string(whole.join("loop/backing_file")).ok()?.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// Disks with a World Wide Name and a first partition, as sysfs has them.
    fn sysfs(disks: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for pages in ["dev/block", "block"] {
            create_dir_all(root.join(pages)).expect("a folder");
        }
        for (index, (name, page, unit)) in disks.iter().enumerate() {
            let whole = root.join("devices").join(name);
            let part = whole.join(format!("{name}p1"));
            create_dir_all(&part).expect("a folder");
            write(part.join("partition"), "1\n").expect("a page");
            let page = whole.join(page);
            create_dir_all(page.parent().expect("a folder")).expect("a folder");
            write(page, format!("{unit}\n")).expect("a page");
            symlink(&whole, root.join("block").join(name)).expect("a link");
            symlink(&whole, root.join(format!("dev/block/8:{}", index * 16))).expect("a link");
            symlink(&part, root.join(format!("dev/block/8:{}", index * 16 + 1))).expect("a link");
        }
        folder
    }

    #[test]
    fn other_paths_are_found_by_the_world_wide_name() {
        let unit = "naa.5000c500a1b2c3d4";
        let root = sysfs(&[
            ("sda", "device/wwid", unit),
            ("sdb", "device/wwid", "naa.5000c500a1b2c3d5"),
            ("sdc", "device/wwid", unit),
            ("sdd", "device/wwid", "t10.ATA     DISK  0000"),
            ("sde", "device/wwid", "t10.ATA     DISK  0000"),
            ("nvme0n1", "wwid", "eui.0025388b710116a1"),
            ("nvme1c0n1", "wwid", "eui.0025388b710116a1"),
        ]);
        let others = |minor| others(root.path(), rustix::fs::makedev(8, minor));
        let nodes = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(others(0), nodes(&["/dev/sdc"]));
        assert_eq!(others(33), nodes(&["/dev/sdap1"]));
        assert_eq!(others(16), nodes(&[]));
        assert_eq!(others(48), nodes(&[]), "a serial number alone may be that of many drives");
        assert_eq!(others(80), nodes(&["/dev/nvme1c0n1"]));
        assert_eq!(others(200), nodes(&[]), "no such device");
    }

    #[test]
    fn parts_of_a_file_that_do_not_overlap_are_different_drives() {
        let all = 0..u64::MAX;
        assert!(share_bytes(&all, &(1 << 20..2 << 20), false));
        assert!(!share_bytes(&(0..1 << 20), &(1 << 20..2 << 20), false));
        assert!(!share_bytes(&all, &(1 << 20..2 << 20), true));
    }
}
