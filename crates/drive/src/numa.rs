//! Finds the processors near a drive, on machines whose memory is in several nodes (NUMA).

use crate::info::Sysfs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The node that the drive at `path` is attached to; for a file, the node of the drive below its file system. `None`: there is
/// only one node, or the kernel reports none, as for devices without hardware.
pub fn node_of(path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    node_above(Sysfs::of(number)?.device())
}

/// The node in the sysfs page of a device, or else in the page of the device above it.
fn node_above(device: &Path) -> Option<u32> {
    let node_of = |folder: &Path| std::fs::read_to_string(folder.join("numa_node")).ok()?.trim().parse::<i64>().ok();
    // -1: none in particular.
    device.ancestors().find_map(|folder| node_of(folder).filter(|&node| node >= 0)).and_then(|node| u32::try_from(node).ok())
}

/// The number of nodes that have processors.
pub fn node_count() -> usize {
    std::fs::read_to_string("/sys/devices/system/node/has_cpu").map_or(1, |list| numbers(&list).len())
}

/// The processors of a node, counted from 0; none if there is no such node.
pub fn processors_of(node: u32) -> Vec<usize> {
    std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).map_or(Vec::new(), |list| numbers(&list))
}

/// A list as the kernel writes it: `0-3,8`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(numbers("5\n"), [5]);
        assert_eq!(numbers("\n"), [] as [usize; 0]);
    }

    /// `/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1`: the page is that of the controller or of its slot.
    #[test]
    fn a_drive_is_where_what_it_is_attached_to_is() {
        let top = std::env::temp_dir().join(format!("stria-numa-{}", std::process::id()));
        let slot = top.join("pci0000:00/0000:01:00.0");
        let drive = slot.join("nvme/nvme0/nvme0n1");
        std::fs::create_dir_all(&drive).unwrap();
        assert_eq!(node_above(&drive), None);
        std::fs::write(slot.join("numa_node"), "1\n").unwrap();
        assert_eq!(node_above(&drive), Some(1));
        std::fs::write(slot.join("nvme/nvme0/numa_node"), "-1\n").unwrap();
        assert_eq!(node_above(&drive), Some(1), "a page without a node is skipped");
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_single_node_has_all_processors() {
        let here = std::thread::available_parallelism().unwrap().get();
        assert!(node_count() > 1 || !Path::new("/sys/devices/system/node/node0").exists() || processors_of(0).len() >= here);
        assert_eq!(processors_of(4000), [] as [usize; 0]);
    }
}
