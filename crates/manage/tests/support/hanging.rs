//! A file on FUSE whose server can be stopped, as a drive that hangs.

use super::{PATIENCE, may_skip, tool};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// A file that can be made to hang. When it is dropped, the file goes on and is removed.
pub struct Hanging {
    fuse: Child,
    mount: PathBuf,
}

impl Hanging {
    pub fn new(mount: PathBuf, uri: &str) -> Option<Self> {
        std::fs::create_dir(&mount).expect("a folder");
        let fuse = tool("nbdfuse", &[mount.to_str().expect("a plain path"), uri])?;
        let hanging = Self { fuse, mount };
        let end = std::time::Instant::now() + PATIENCE;
        while !hanging.file().exists() {
            assert!(std::time::Instant::now() < end, "nbdfuse does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(hanging)
    }

    pub fn file(&self) -> PathBuf {
        self.mount.join("nbd")
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.fuse.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()), "kill is everywhere");
        // The kernel stops one thread, which stops the others: on a busy machine these run on for a moment.
        let end = std::time::Instant::now() + PATIENCE;
        while name == "-STOP" && !self.stands_still() {
            assert!(std::time::Instant::now() < end, "nbdfuse does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// All of its threads are stopped (proc_pid_stat(5): the state follows the name in brackets).
    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.fuse.id())).expect("it lives");
        let is_stopped = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
        threads.flatten().all(|thread| std::fs::read_to_string(thread.path().join("stat")).is_ok_and(is_stopped))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.fuse.id().to_string()]).status();
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mount).status();
        let _ = self.fuse.wait();
    }
}

/// A loop device over a file that may hang; undone when dropped.
pub struct LoopOver(pub String);

impl LoopOver {
    pub fn new(file: &Path) -> Option<Self> {
        let made =
            Command::new("losetup").args(["--find", "--show"]).arg(file).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output();
        match made {
            Ok(made) if made.status.success() => Some(Self(String::from_utf8_lossy(&made.stdout).trim().to_owned())),
            _ => {
                may_skip("no loop device can be set up", "run as root, with loop devices");
                None
            }
        }
    }
}

impl Drop for LoopOver {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").status();
    }
}
