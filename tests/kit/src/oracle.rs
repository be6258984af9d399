//! Runs scripts under the real Linux md (`tests/oracle`).
//!
//! A [`Guest`] owns a scratch folder with sparse images, which become `$D0`, `$D1` …, and a folder shared
//! with the guest. A boot takes 2.5 s, so a test packs many arrays into one script. At most 16 disks.

use crate::{SetUp, project, scratch};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

/// How to end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Arrays are stopped, disks flushed.
    Stop,
    /// The power is cut when the script ends.
    Crash,
    /// As `Stop`, and writes of this run are forgotten.
    Forget,
}

/// Images and a folder for one or more runs.
pub struct Guest {
    folder: PathBuf,
    disk_count: usize,
    has_serials: bool,
}

/// Whether to run tests that need the oracle: `false` when the environment has STRIA_SKIP_ORACLE.
///
/// # Panics
/// When the oracle is not set up, with the remedy.
pub fn wanted() -> bool {
    SetUp {
        name: "md oracle",
        skip: "STRIA_SKIP_ORACLE",
        cache: ("MD_ORACLE_CACHE", "md-oracle"),
        script: include_str!("../../oracle/md-oracle"),
    }
    .is_wanted()
}

impl Guest {
    /// Sparse images of these sizes; `name` tells the test.
    pub fn new(name: &str, disk_bytes: &[u64]) -> Self {
        assert!(disk_bytes.len() <= 16, "the oracle has at most 16 disks");
        let folder = scratch().join(format!("oracle-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("share")).expect("scratch folder");
        let guest = Self { folder, disk_count: disk_bytes.len(), has_serials: false };
        for (index, &bytes) in disk_bytes.iter().enumerate() {
            File::create(guest.disk(index)).and_then(|file| file.set_len(bytes)).expect("sparse image");
        }
        guest
    }

    /// The same, with SCSI disks whose serial numbers are the stems of their images' names.
    #[must_use]
    pub fn with_serials(mut self) -> Self {
        self.has_serials = true;
        self
    }

    /// The image of `$D{index}`.
    pub fn disk(&self, index: usize) -> PathBuf {
        self.folder.join(format!("disk{index}.img"))
    }

    /// `$SHARE`.
    pub fn share(&self) -> PathBuf {
        self.folder.join("share")
    }

    /// Runs a script (bash -eu, as root) and gives its standard output.
    ///
    /// # Panics
    /// When the script fails, with all it said.
    pub fn run(&self, end: End, script: &str) -> String {
        let script_file = self.folder.join("script.sh");
        fs::write(&script_file, script).expect("script");
        let mut command = Command::new(project("tests/oracle/md-oracle"));
        command.arg("run");
        for index in 0..self.disk_count {
            let mut disk = self.disk(index).into_os_string();
            if self.has_serials {
                disk.push(format!(",serial=disk{index}"));
            }
            command.arg("--disk").arg(disk);
        }
        match end {
            End::Stop => {}
            End::Crash => drop(command.arg("--crash")),
            End::Forget => drop(command.arg("--snapshot")),
        }
        command.args(["--timeout", "900", "--share"]).arg(self.share()).arg("--").arg(&script_file);
        let output = command.output().expect("md-oracle starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "the oracle's script failed with {}\n--- stdout\n{}\n--- stderr\n{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("STRIA_KEEP").is_some() {
            eprintln!("kept: {}", self.folder.display());
            return;
        }
        // A leftover is only untidy.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
