//! An array as a disk of this machine: nbdfuse shows the export as a file, a loop device makes a disk of it.

use super::{PATIENCE, Place, run_tool, tool};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// An array as a block device; everything is undone when dropped.
pub struct Disk {
    pub loop_device: String,
    fuse: Child,
    mount: PathBuf,
}

impl Disk {
    /// By the mount path of the README. `None`: tools are missing, and the environment permits that.
    pub fn attach(place: &Place, uri: &str) -> Option<Self> {
        let mount = place.path("fuse");
        std::fs::create_dir(&mount).expect("a folder");
        let fuse = tool("nbdfuse", &[mount.to_str().expect("a plain path"), uri])?;
        let file = mount.join("nbd");
        let end = Instant::now() + PATIENCE;
        while !file.exists() {
            assert!(Instant::now() < end, "nbdfuse does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        let loop_device = run_tool("losetup", &["--find", "--show", file.to_str().expect("a plain path")])?.trim().to_owned();
        Some(Self { loop_device, fuse, mount })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.loop_device]).status();
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mount).status();
        if std::thread::panicking() {
            // Something may still be mounted; the end of nbdfuse would wait for it.
            let _ = self.fuse.kill();
        }
        let _ = self.fuse.wait();
    }
}
