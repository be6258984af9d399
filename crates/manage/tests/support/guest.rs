//! What tests of block devices share that run in a guest (`stria_testkit::nvme`), where they are root.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The udev rule that gives devices their names. It is the last of the programs that a guest is given.
pub const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/udev/65-stria.rules");

/// Runs a program of the guest that must succeed.
pub fn ok(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Keeps the kernel's messages from the console, and prints the last of them when a test fails.
///
/// The console is a serial line: a driver that says of each of a hundred requests that it waits holds the guest up for minutes.
pub struct KernelLog;

impl KernelLog {
    pub fn start() -> Self {
        ok("dmesg", &["-n", "1"]);
        Self
    }
}

impl Drop for KernelLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = Command::new("dmesg").output().expect("the guest has dmesg");
            let text = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("The kernel's last messages:\n{}", lines[lines.len().saturating_sub(200)..].join("\n"));
        }
    }
}

/// Starts udev with our rule. `program_count`: how many programs the guest has beside this one.
pub fn start_udev(program_count: usize) {
    fs::create_dir_all("/etc/udev/rules.d").expect("a folder");
    let rules = std::env::var(format!("P{program_count}")).expect("nvme-guest names what it took along");
    fs::copy(rules, "/etc/udev/rules.d/65-stria.rules").expect("a copy");
    // `stria attach` looks for udevadm, and the guest's PATH is /bin.
    for name in ["systemd-udevd", "udevadm"] {
        std::os::unix::fs::symlink("/usr/bin/udevadm", Path::new("/bin").join(name)).expect("a link");
    }
    ok("/bin/systemd-udevd", &["--daemon"]);
}

/// A running fio that compares what it reads with what it wrote.
pub struct Fio(Child);

/// Starts a job of fio on a file or device.
pub fn fio(job: &str, file: &str, options: &[&str]) -> Fio {
    let mut command = Command::new("/usr/bin/fio");
    command.args([&format!("--name={job}"), &format!("--filename={file}"), "--verify=crc32c", "--verify_fatal=1"]);
    command.args(["--direct=1", "--randseed=18", "--group_reporting", "--output-format=json"]).args(options);
    Fio(command.stdout(Stdio::piped()).spawn().expect("fio starts"))
}

impl Fio {
    /// Waits until it has ended without an error or a wrong byte. Returns how long the longest request took.
    pub fn ends_well(self) -> Duration {
        let output = self.0.wait_with_output().expect("it is ours");
        assert!(output.status.success(), "fio found wrong bytes, or had an error: {}", String::from_utf8_lossy(&output.stdout));
        longest(&String::from_utf8(output.stdout).expect("text"))
    }
}

/// The longest latency of all jobs in a report that fio wrote as JSON. Text around the report does not matter.
pub fn longest(report: &str) -> Duration {
    let json = &report[report.find('{').expect("JSON")..];
    let report = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>().next().expect("a report");
    let report = report.expect("JSON");
    let kinds = |job: &serde_json::Value| ["read", "write", "trim"].map(|kind| job[kind]["lat_ns"]["max"].as_u64().unwrap_or(0));
    let jobs = report["jobs"].as_array().expect("a list");
    Duration::from_nanos(jobs.iter().flat_map(kinds).max().expect("a job"))
}

/// Work that is repeated until it is stopped.
pub struct Load {
    stops: Arc<AtomicBool>,
    rounds: JoinHandle<Duration>,
}

impl Load {
    /// Begins. A round returns its longest latency.
    pub fn of(mut round: impl FnMut() -> Duration + Send + 'static) -> Self {
        let stops = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&stops);
        let rounds = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                longest = longest.max(round());
            }
            longest
        });
        Self { stops, rounds }
    }

    /// Begins random writes at a depth of 32 to a file. Each round is read back and compared. They go on however long the servers
    /// of the file take.
    pub fn start(file: &str) -> Self {
        let file = file.to_owned();
        let options = ["--rw=randwrite", "--bs=4k", "--size=2m", "--loops=4", "--iodepth=32", "--ioengine=libaio"];
        Self::of(move || fio("load", &file, &options).ends_well())
    }

    /// Ends with the round. Returns the longest latency.
    pub fn stop(self) -> Duration {
        self.stops.store(true, Ordering::Relaxed);
        self.rounds.join().expect("every round ends well")
    }
}

/// Prints a line of the table of pauses (`bench/results`): the longest latency while the server was killed and started anew, and
/// the times of the restarts.
pub fn print_pause(front: &str, longest: Duration, restarts: &[Duration]) {
    let restarts: Vec<String> = restarts.iter().map(|time| format!("{:.1}", time.as_secs_f32())).collect();
    println!("pause: {front}: longest request {:.1} s, restarts {} s", longest.as_secs_f32(), restarts.join(", "));
    let _ = std::io::stdout().flush();
}

/// The processes that watch devices of `stria attach`.
pub fn watchers() -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("a folder").flatten();
    let is_watcher = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == b"attach")
    };
    let pids = processes.filter_map(|process| process.file_name().into_string().ok());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_watcher).collect()
}

/// Waits for a condition.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + super::PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The link that udev has made leads to the device; which server has it does not matter. udev makes links before it watches the
/// device, and would miss what is written to it in between.
pub fn is_named(link: &str, device: &str) {
    wait_until(link, || fs::canonicalize(link).is_ok_and(|path| path == Path::new(device)));
    ok("/usr/bin/udevadm", &["settle", "--timeout=60"]);
}

/// Bytes of a device, read through the page cache.
pub fn read(device: &str, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; len];
    fs::File::open(device).and_then(|device| device.read_exact_at(&mut bytes, at as u64)).expect("it reads");
    bytes
}

/// An attribute of the device's queue in the kernel.
pub fn queue(device: &str, what: &str) -> String {
    let path = format!("/sys/block/{}/queue/{what}", device.trim_start_matches("/dev/"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).trim().to_owned()
}
