//! Runs programs beside NVMe drives, in a guest (`tests/nvme`).
//!
//! The drives are sparse images, which become `$D0`, `$D1` …; a test's own program is `$P0`. A boot takes some seconds, so a
//! test does much in one.

use crate::{SetUp, project, scratch};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Says to a test that it runs in the guest.
const IN_GUEST: &str = "STRIA_TEST_IN_GUEST";

/// Options of a drive whose blocks are not of 512 bytes.
pub const BLOCKS_OF_4096: &str = ",logical_block_size=4096,physical_block_size=4096";

/// A drive of the guest.
pub struct Drive {
    /// Its size.
    pub bytes: u64,
    /// Options of QEMU's nvme-ns, each with a comma before it.
    pub options: &'static str,
}

/// Whether to run tests that need the guest: `false` when the environment has STRIA_SKIP_NVME.
///
/// # Panics
/// When it is not set up, with the remedy.
pub fn wanted() -> bool {
    SetUp {
        name: "NVMe guest",
        skip: "STRIA_SKIP_NVME",
        cache: ("NVME_GUEST_CACHE", "nvme-guest"),
        script: include_str!("../../nvme/nvme-guest"),
    }
    .is_wanted()
}

/// Whether this is the guest.
pub fn is_guest() -> bool {
    std::env::var_os(IN_GUEST).is_some()
}

/// Runs one test of this very program in a guest with these drives, which have a queue each to poll, and these programs.
///
/// # Panics
/// When it fails there, with all it said.
pub fn run_test(name: &str, test: &str, drives: &[Drive], programs: &[&str]) {
    let script = format!("mkdir -p {}; {IN_GUEST}=1 $P0 --exact {test} --nocapture", scratch().display());
    let output = run(name, drives, 1, programs, &script);
    assert!(output.contains("test result: ok. 1 passed"), "{output}");
}

/// Runs a script (busybox's sh -eu, as root) in a guest with these drives and programs, the test's own first, and gives its
/// standard output.
///
/// # Panics
/// When the script fails, with all it said.
pub fn run(name: &str, drives: &[Drive], poll_queues: u32, programs: &[&str], script: &str) -> String {
    // In memory: a disk that stands still would look like drives that do.
    let folder = Path::new("/dev/shm").join(format!("nvme-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("scratch folder");
    let mut command = Command::new(project("tests/nvme/nvme-guest"));
    command.args(["run", "--poll-queues", &poll_queues.to_string()]);
    for (index, drive) in drives.iter().enumerate() {
        let image = folder.join(format!("drive{index}.img"));
        File::create(&image).and_then(|file| file.set_len(drive.bytes)).expect("sparse image");
        command.arg("--drive").arg(format!("{}{}", image.display(), drive.options));
    }
    command.arg("--program").arg(std::env::current_exe().expect("a test is a program"));
    for program in programs {
        command.args(["--program", program]);
    }
    let script_file = folder.join("script.sh");
    fs::write(&script_file, script).expect("script");
    let output = command.arg("--").arg(&script_file).output().expect("nvme-guest starts");
    // A leftover is only untidy.
    let _ = fs::remove_dir_all(&folder);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "the guest's script failed with {}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
        output.status
    );
    stdout
}
