//! Goal: ext4 and xfs work on an array as on any disk, through the loss of a member and a rebuild.
//! Method: nbdfuse shows the export as a file, and a loop device makes a disk of it. Needs root and FUSE.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::disk::Disk;
use support::{PATIENCE, Place, may_skip, noise, run_tool, same};

/// A mounted file system; unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(device: &str, at: &Path) -> Self {
        let _ = std::fs::create_dir(at);
        run_tool("mount", &[device, at.to_str().expect("a plain path")]).expect("mount is everywhere");
        Self(at.to_path_buf())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // For a moment a process that the other test starts holds the files that are open here.
        let end = Instant::now() + PATIENCE;
        let unmounts = || Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success());
        while !unmounts() {
            if Instant::now() > end {
                assert!(std::thread::panicking(), "it does not unmount");
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn file_system_lives(make: &[&str], check: &[&str], member_bytes: u64) {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return may_skip("a file system cannot be mounted here", "run as root with /dev/fuse");
    }
    let place = Place::new();
    let images = place.images(5, member_bytes);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "5", "--spare", drives[4], drives[0], drives[1], drives[2], drives[3]]);
    let serve = place.serve(&drives);
    let Some(disk) = Disk::attach(&place, serve.uri("tank")) else { return };
    if run_tool(make[0], &[&make[1..], &[&*disk.loop_device]].concat()).is_none() {
        return;
    }
    let folder = place.path("files");
    let sources: Vec<PathBuf> = (0..8).map(|index| place.path(&format!("source{index}"))).collect();
    for (index, source) in sources.iter().enumerate() {
        noise(source, 4 << 20, index as u64 + 1);
    }
    let copy = |index: usize| std::fs::copy(&sources[index], folder.join(format!("copy{index}"))).expect("it copies");
    {
        let _mount = Mount::new(&disk.loop_device, &folder);
        for index in 0..4 {
            copy(index);
        }
        place.ok(&["fail", "tank", drives[1], "-y"]);
        for index in 4..8 {
            copy(index);
        }
        std::fs::File::open(&folder).and_then(|folder| folder.sync_all()).expect("it syncs");
        std::fs::remove_file(folder.join("copy0")).expect("it is there");
    }
    place.settled("tank");
    run_tool(check[0], &[&check[1..], &[&*disk.loop_device]].concat()).expect("it was here before");
    // Without a member that was there from the start, so that rebuilt data is read.
    place.ok(&["fail", "tank", drives[2], "-y"]);
    {
        let _mount = Mount::new(&disk.loop_device, &folder);
        for (index, source) in sources.iter().enumerate().skip(1) {
            assert!(same(source, &folder.join(format!("copy{index}"))), "file {index}");
        }
    }
    drop(disk);
    place.ok(&["stop", "--force"]);
    serve.ended_well();
}

#[test]
fn ext4_lives_through_a_loss_and_a_rebuild() {
    file_system_lives(&["mkfs.ext4", "-q"], &["e2fsck", "-fn"], 64 << 20);
}

#[test]
fn xfs_lives_through_a_loss_and_a_rebuild() {
    file_system_lives(&["mkfs.xfs", "-q"], &["xfs_repair", "-n"], 160 << 20);
}
