//! Multipath devices: the device mapper combines several paths to one drive, and holds each of them for itself.

use crate::sysfs::{SYSFS, whole_folder};
use std::fs::read_to_string;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The multipath device that has this block device as one of its paths; a partition counts as its disk.
pub fn multipath_of(path: &Path) -> Option<PathBuf> {
    map_over(Path::new(SYSFS), std::fs::metadata(path).ok()?.rdev())
}

/// The same of the block device `number`.
pub(crate) fn map_over(sysfs: &Path, number: u64) -> Option<PathBuf> {
    let holders = std::fs::read_dir(whole_folder(sysfs, number).ok()?.join("holders")).ok()?.flatten();
    holders.into_iter().find_map(|holder| {
        let map = holder.path().join("dm");
        // libdevmapper's prefix: other targets, such as an LVM volume, are users of the drive.
        read_to_string(map.join("uuid")).ok()?.starts_with("mpath-").then_some(())?;
        Some(Path::new("/dev/mapper").join(read_to_string(map.join("name")).ok()?.trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_of_a_multipath_device_is_told_from_a_drive_with_volumes() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        create_dir_all(root.join("dev/block")).expect("a folder");
        for (minor, name, map, uuid) in
            [(0, "sda", "mpatha", "mpath-35000c500a1b2c3d4"), (16, "sdb", "data", "LVM-8bZQ"), (32, "sdc", "", "")]
        {
            let whole = root.join("devices").join(name);
            let part = whole.join(format!("{name}1"));
            create_dir_all(&part).expect("a folder");
            create_dir_all(whole.join("holders")).expect("a folder");
            write(part.join("partition"), "1\n").expect("a page");
            if !map.is_empty() {
                let pages = root.join("devices/virtual").join(map).join("dm");
                create_dir_all(&pages).expect("a folder");
                write(pages.join("uuid"), format!("{uuid}\n")).expect("a page");
                write(pages.join("name"), format!("{map}\n")).expect("a page");
                symlink(pages.parent().expect("a folder"), whole.join("holders/dm-0")).expect("a link");
            }
            symlink(&whole, root.join(format!("dev/block/8:{minor}"))).expect("a link");
            symlink(&part, root.join(format!("dev/block/8:{}", minor + 1))).expect("a link");
        }
        let map = |minor| map_over(root, rustix::fs::makedev(8, minor));
        assert_eq!((map(0), map(1)), (Some("/dev/mapper/mpatha".into()), Some("/dev/mapper/mpatha".into())));
        assert_eq!((map(16), map(32), map(33), map(48)), (None, None, None, None));
    }
}
