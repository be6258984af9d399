//! Runs programs beside NVMe drives, in a guest (`tests/nvme`), on the kernel that the test asks for.
//!
//! The drives are sparse images, which become `$D0`, `$D1` …; a test's own program is `$P0`. A boot takes some seconds, so a
//! test does much in one.

use crate::{SetUp, project, scratch};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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
    let options = [TWO_PROCESSORS, ROOM_FOR_UPGRADES].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let output = run_with(kernel, name, drives, programs, &options, &scripts);
    assert!(output.matches(PASSED).count() == tests.len(), "{output}");
    output
}

const PASSED: &str = "test result: ok. 1 passed";
const TWO_PROCESSORS: [&str; 2] = ["--processors", "2"];
/// Half of the memory is the root's, where an upgrade lays a second program of some 100 MiB beside the first.
const ROOM_FOR_UPGRADES: [&str; 2] = ["--memory", "1536M"];

/// A guest that takes longer hangs: the longest takes 90 s on an idle machine.
const LIMIT_S: &str = "600";

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
    run_with(kernel, name, &[], programs, &beside(sockets), &[script.to_owned()])
}

/// A guest that runs beside its test; ended when dropped, by `kill -9` of QEMU.
pub struct Guest {
    /// `None` once it has been waited for.
    child: Option<Child>,
    folder: PathBuf,
}

/// Starts a script in a guest as `run_beside` does. When the guest reboots, the script runs again.
///
/// # Panics
/// When it cannot be started.
pub fn start_beside(kernel: Kernel, name: &str, sockets: &[&Path], programs: &[&str], script: &str) -> Guest {
    let folder = folder(name);
    let options = [beside(sockets), vec!["--may-reboot".into()]].concat();
    let mut command = command(kernel, &folder, &[], programs, &options, script);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Guest { child: Some(command.spawn().expect("nvme-guest starts")), folder }
}

impl Guest {
    /// True when it has ended.
    ///
    /// # Panics
    /// When the system does not tell.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().expect("it is ours").is_some())
    }

    /// Waits for its end. Returns its standard output.
    ///
    /// # Panics
    /// When the script failed, with all it said.
    pub fn ended(mut self) -> String {
        let child = self.child.take().expect("it was not waited for");
        printed(&child.wait_with_output().expect("it is ours"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // QEMU ends with nvme-guest, which tidies up.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let output = child.wait_with_output();
            if let (Ok(output), true) = (output, std::thread::panicking()) {
                eprintln!("what the guest printed:\n{}", String::from_utf8_lossy(&output.stderr));
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Options of a guest with the disks of these servers.
fn beside(sockets: &[&Path]) -> Vec<String> {
    let sockets = sockets.iter().flat_map(|socket| ["--vhost-user".into(), socket.display().to_string()]);
    sockets.chain(TWO_PROCESSORS.map(str::to_owned)).collect()
}

/// An empty folder in memory: a disk that stands still would look like drives that do.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new("/dev/shm").join(format!("nvme-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("scratch folder");
    folder
}

/// What runs a script in a guest. The first of its programs is the test.
fn command(kernel: Kernel, folder: &Path, images: &[String], programs: &[&str], options: &[String], script: &str) -> Command {
    let own = std::env::current_exe().expect("a test is a program");
    let programs = &[&[own.to_str().expect("a plain path")], programs].concat()[..];
    let mut command = Command::new(project("tests/nvme/nvme-guest"));
    command.args(["run", "--timeout", LIMIT_S, "--kernel", kernel.version]).args(options);
    for (option, values) in [("--module", kernel.modules), ("--program", programs)] {
        command.args(values.iter().flat_map(|value| [option, value]));
    }
    command.args(images.iter().flat_map(|image| ["--drive", image]));
    let script_file = folder.join("script.sh");
    fs::write(&script_file, script).expect("script");
    command.arg("--").arg(&script_file);
    command
}

/// The standard output of a guest.
///
/// # Panics
/// When its script failed, with all it said.
fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "the guest's script failed with {}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
        output.status
    );
    stdout
}

/// Runs each script in a boot of its own, with the drives in turned order each time. Returns their standard outputs together.
fn run_with(kernel: Kernel, name: &str, drives: &[Drive], programs: &[&str], options: &[String], scripts: &[String]) -> String {
    let folder = folder(name);
    let image = |(index, drive): (usize, &Drive)| {
        let image = folder.join(format!("drive{index}.img"));
        File::create(&image).and_then(|file| file.set_len(drive.bytes)).expect("sparse image");
        format!("{}{}", image.display(), drive.options)
    };
    let mut images: Vec<String> = drives.iter().enumerate().map(image).collect();
    let mut all = String::new();
    for script in scripts {
        let output = command(kernel, &folder, &images, programs, options, script).output().expect("nvme-guest starts");
        if !output.status.success() {
            let _ = fs::remove_dir_all(&folder);
        }
        all += &printed(&output);
        images.reverse();
    }
    // A leftover is only untidy.
    let _ = fs::remove_dir_all(&folder);
    all
}
