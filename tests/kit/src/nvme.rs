//! Runs programs beside NVMe drives, in a guest (`tests/nvme`), on the kernel that the test asks for.
//!
//! The drives are sparse images, which become `$D0`, `$D1` …; a test's own program is `$P0`. A boot takes some seconds, so a
//! test does much in one.

use crate::{SetUp, project, scratch};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Set in the environment of a test that runs in the guest.
const IN_GUEST: &str = "STRIA_TEST_IN_GUEST";

/// Options of a drive whose blocks are not of 512 bytes.
pub const BLOCKS_OF_4096: &str = ",logical_block_size=4096,physical_block_size=4096";

/// The guest's kernel: Debian's cloud kernel of a version that `nvme-guest` knows, and modules that are loaded first.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// As `nvme-guest run --kernel` takes it.
    pub version: &'static str,
    /// Their names; those that they need come with them.
    pub modules: &'static [&'static str],
}

/// The kernel of Debian 12: the oldest that tests run on.
pub const LINUX_6_1: Kernel = Kernel { version: "6.1", modules: &[] };

/// A drive of the guest.
#[derive(Clone, Copy)]
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

/// True in the guest.
pub fn is_guest() -> bool {
    std::env::var_os(IN_GUEST).is_some()
}

/// Runs one test of this very program in a guest with these drives, which have a queue each to poll, and these programs.
///
/// # Panics
/// When it fails there, with all it said.
pub fn run_test(name: &str, test: &str, drives: &[Drive], programs: &[&str]) {
    run_test_on(LINUX_6_1, name, test, drives, programs);
}

/// The same, on this kernel.
///
/// Returns what it printed.
///
/// # Panics
/// When it fails there, with all it said.
pub fn run_test_on(kernel: Kernel, name: &str, test: &str, drives: &[Drive], programs: &[&str]) -> String {
    let output = run(kernel, name, drives, programs, &script_of(test));
    assert!(output.contains(PASSED), "{output}");
    output
}

/// Runs each of these tests in a boot of its own, on two processors. The drives keep what they hold; their order, and so their
/// names, are turned round with each boot.
///
/// Returns what they printed.
///
/// # Panics
/// When one fails there, with all it said.
pub fn run_boots_on(kernel: Kernel, name: &str, tests: &[&str], drives: &[Drive], programs: &[&str]) -> String {
    let scripts: Vec<String> = tests.iter().map(|test| script_of(test)).collect();
    let output = run_with(kernel, name, drives, programs, &TWO_PROCESSORS.map(str::to_owned), &scripts);
    assert!(output.matches(PASSED).count() == tests.len(), "{output}");
    output
}

const PASSED: &str = "test result: ok. 1 passed";
const TWO_PROCESSORS: [&str; 2] = ["--processors", "2"];

/// The script that runs one test of this very program.
fn script_of(test: &str) -> String {
    format!("mkdir -p {}; {IN_GUEST}=1 $P0 --exact {test} --nocapture", scratch().display())
}

/// Runs a script (busybox's sh -eu, as root) in a guest with this kernel, these drives and programs, the test's own first, and
/// gives its standard output.
///
/// # Panics
/// When the script fails, with all it said.
pub fn run(kernel: Kernel, name: &str, drives: &[Drive], programs: &[&str], script: &str) -> String {
    run_with(kernel, name, drives, programs, &[], &[script.to_owned()])
}

/// Runs a script as above in a guest whose disks `$V0`, `$V1` … are those of vhost-user servers at these sockets. It has two
/// processors, and `virtio_blk` among its modules.
///
/// # Panics
/// When the script fails, with all it said.
pub fn run_beside(kernel: Kernel, name: &str, sockets: &[&Path], programs: &[&str], script: &str) -> String {
    let sockets = sockets.iter().flat_map(|socket| ["--vhost-user".into(), socket.display().to_string()]);
    let options: Vec<String> = sockets.chain(TWO_PROCESSORS.map(str::to_owned)).collect();
    run_with(kernel, name, &[], programs, &options, &[script.to_owned()])
}

/// Runs each script in a boot of its own, with the drives in turned order each time. Returns their standard outputs together.
fn run_with(kernel: Kernel, name: &str, drives: &[Drive], programs: &[&str], options: &[String], scripts: &[String]) -> String {
    // In memory: a disk that stands still would look like drives that do.
    let folder = Path::new("/dev/shm").join(format!("nvme-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("scratch folder");
    let image = |(index, drive): (usize, &Drive)| {
        let image = folder.join(format!("drive{index}.img"));
        File::create(&image).and_then(|file| file.set_len(drive.bytes)).expect("sparse image");
        format!("{}{}", image.display(), drive.options)
    };
    let mut images: Vec<String> = drives.iter().enumerate().map(image).collect();
    let own = std::env::current_exe().expect("a test is a program");
    let programs = &[&[own.to_str().expect("a plain path")], programs].concat()[..];
    let script_file = folder.join("script.sh");
    let mut printed = String::new();
    for script in scripts {
        let mut command = Command::new(project("tests/nvme/nvme-guest"));
        command.args(["run", "--kernel", kernel.version]).args(options);
        for (option, values) in [("--module", kernel.modules), ("--program", programs)] {
            command.args(values.iter().flat_map(|value| [option, value]));
        }
        command.args(images.iter().flat_map(|image| ["--drive", image]));
        fs::write(&script_file, script).expect("script");
        let output = command.arg("--").arg(&script_file).output().expect("nvme-guest starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        if !output.status.success() {
            let _ = fs::remove_dir_all(&folder);
            panic!("the guest's script failed with {}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", output.status);
        }
        printed += &stdout;
        images.reverse();
    }
    // A leftover is only untidy.
    let _ = fs::remove_dir_all(&folder);
    printed
}
