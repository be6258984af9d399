//! What the tests share: the real binary, image files, a serve, and real tools around it.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod curl;
pub mod daemon;
pub mod disk;
pub mod guest;
pub mod hanging;
pub mod nbd;
pub mod running;
pub mod sink;

use running::Running;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest time that anything may take on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Tools whose tests may use this module: Cargo has built the tools for them.
const TOOLS: [(&str, Option<&str>); 4] = [
    ("lab", option_env!("CARGO_BIN_EXE_stria-lab")),
    ("bench", option_env!("CARGO_BIN_EXE_stria-bench")),
    ("demo", option_env!("CARGO_BIN_EXE_stria-demo")),
    ("sim", option_env!("CARGO_BIN_EXE_stria-sim")),
];

/// The `stria` program: this package's, or, in the tests of tools, the one that lies where Cargo builds all of them.
pub fn stria() -> PathBuf {
    let built = || std::env::current_exe().expect("a path").ancestors().nth(2).expect("target/debug/deps").join("stria");
    let program = option_env!("CARGO_BIN_EXE_stria").map_or_else(built, PathBuf::from);
    assert!(
        program.exists(),
        "{} is not built: `cargo build -p stria-manage` does, or test the whole workspace",
        program.display()
    );
    program
}

/// A folder with image files, in which every command of one test runs.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// An empty folder, on a real disk where there is one, so that O_DIRECT works as in production.
    pub fn new() -> Self {
        Self { folder: tempfile::Builder::new().prefix("stria-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sparse image files `d0`, `d1` … of this size; their paths.
    pub fn images(&self, count: usize, size_bytes: u64) -> Vec<String> {
        let image = |index| {
            let path = self.path(&format!("d{index}"));
            std::fs::File::create(&path).and_then(|file| file.set_len(size_bytes)).expect("an image file");
            path.to_str().expect("a plain path").to_owned()
        };
        (0..count).map(image).collect()
    }

    /// A command line of `stria`, with the control socket of this folder. In the tests of a tool its commands start that tool
    /// directly.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let at = arguments.iter().position(|argument| *argument != "--json").unwrap_or(0);
        let tool = TOOLS.iter().find(|(tool, _)| arguments.get(at) == Some(tool)).and_then(|(_, program)| *program);
        match tool {
            Some(tool) => self.command_line(tool, &[&arguments[..at], &arguments[at + 1..]].concat()),
            None => self.command_line(stria(), arguments),
        }
    }

    /// Another program, run in this folder with its control socket.
    pub fn command_line(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).env("STRIA_SOCKET", self.path("control.sock"));
        command.env("STRIA_CONFIG", self.path("stria.toml"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(arguments, self.command(arguments).output().expect("the program starts"))
    }

    /// Runs a command that must succeed; its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    }

    /// The status of an array as JSON. In a guest, whose time does not count, it is asked for until the server answers.
    pub fn status(&self, name: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        let ask = || self.run(&["--json", "status", name]);
        let is_guest = std::env::var_os("STRIA_TEST_IN_GUEST").is_some();
        let is_late = |ran: &Ran| is_guest && ran.stdout.contains("does not answer") && Instant::now() < end;
        let ran = std::iter::repeat_with(ask).find(|ran| !is_late(ran)).expect("without end");
        assert!(ran.code == 0 || ran.code == 3, "{ran:?}");
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")[0].clone()
    }

    /// The checksums of all members of `tank` have found no wrong block.
    pub fn calls_nothing_wrong(&self) {
        let status = self.status("tank");
        let wrong = |member: &Value| member["checksums"]["wrong"].as_u64().unwrap_or(0);
        assert!(status["members"].as_array().expect("a list").iter().all(|member| wrong(member) == 0), "{status:#}");
    }

    /// Waits until the status is as wanted.
    pub fn wait_for(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status(name);
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "waited in vain for {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until nothing is left to resync or rebuild.
    pub fn settled(&self, name: &str) -> Value {
        self.wait_for(name, "the end of resync and rebuild", |status| {
            let calm = |array: &Value| array["sweep"].is_null() && array["resync_pending"] == false;
            status["health"] == "optimal" && calm(status) && status["spans"].as_array().expect("a list").iter().all(calm)
        })
    }

    /// Starts a serve and waits until it says where it listens.
    pub fn serve(&self, arguments: &[&str]) -> Serve {
        let socket = format!("unix:{}", self.path("nbd.sock").display());
        let mut command = self.command(&[&["serve"], arguments, &["--nbd", &socket]].concat());
        let (mut running, mut lines) = Running::start("serve", &mut command);
        let (mut uris, mut devices, mut metrics) = (Vec::new(), Vec::new(), None);
        loop {
            let line = match lines.next() {
                Some(line) => line.expect("text"),
                None => panic!("serve ended before it served: {:?}", running.wait()),
            };
            match line.split(' ').collect::<Vec<_>>()[..] {
                // A name may have blanks.
                ["nbd", ref name @ .., uri] => uris.push((name.join(" "), uri.to_owned())),
                ["vhost-user", _, _] => {}
                ["metrics", url] => metrics = Some(url.to_owned()),
                ["ublk", name, device] => devices.push((name.to_owned(), device.to_owned())),
                ["control", _] => break,
                _ => panic!("unexpected line: {line}"),
            }
        }
        Serve { running, uris, devices, metrics, nbd: self.path("nbd.sock") }
    }
}

/// Text without its line breaks, so that a sentence is found wherever it was wrapped.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub arguments: Vec<String>,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    fn of(arguments: &[&str], output: Output) -> Self {
        Self {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            code: output.status.code().expect("no signal"),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Checks that the command ended with this code, and named all of `words` on standard error.
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "\"{word}\" is not in the answer: {self:?}");
        }
    }
}

/// A running serve; killed when dropped.
pub struct Serve {
    running: Running,
    /// Addresses by array.
    uris: Vec<(String, String)>,
    /// Block devices, each with its array.
    pub devices: Vec<(String, String)>,
    /// The address of its metrics, if that was asked for.
    pub metrics: Option<String>,
    nbd: PathBuf,
}

impl Serve {
    pub fn uri(&self, array: &str) -> &str {
        &self.uris.iter().find(|(name, _)| name == array).expect("it is served").1
    }

    /// A connection of the tests' own client.
    pub fn client(&self, array: &str) -> nbd::Client {
        nbd::Client::connect(&self.nbd, array)
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Ends it as `kill -9` does, without a word to clients.
    pub fn kill(self) {
        self.running.kill();
    }

    /// Waits for its end; status and log.
    pub fn ended(self) -> (ExitStatus, String) {
        self.running.ended()
    }

    /// Checks that it ended by itself with exit code 0.
    pub fn ended_well(self) -> String {
        self.running.ended_well()
    }
}

/// True if the environment permits that tools are missing.
pub fn may_skip(what: &str, hint: &str) {
    assert!(std::env::var_os("STRIA_SKIP_TOOLS").is_some(), "{what}; {hint} (or set STRIA_SKIP_TOOLS to go without)");
    eprintln!("SKIPPED, because STRIA_SKIP_TOOLS is set: {what}");
}

/// Starts a tool. `None`: it is missing, and the environment permits that.
pub fn tool(program: &str, arguments: &[&str]) -> Option<Child> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // `scripts/setup test` unpacks some tools here whose packages would start services if they were installed.
    let unpacked = format!("{}/.cache/stria-tools", variable("HOME"));
    let path = format!("{}:/usr/sbin:/sbin:{unpacked}/usr/bin:{unpacked}/usr/sbin", variable("PATH"));
    let spawned = Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match spawned {
        Ok(child) => Some(child),
        Err(error) => {
            let hint = "run: scripts/setup test";
            may_skip(&format!("{program} does not start: {error}"), hint);
            None
        }
    }
}

/// Runs a tool that must succeed. Returns its output. `None`: it is missing, and the environment permits that.
pub fn run_tool(program: &str, arguments: &[&str]) -> Option<String> {
    let output = tool(program, arguments)?.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{stdout}\n{stderr}", output.status);
    Some(stdout)
}

/// A file of bytes that look random and differ everywhere.
pub fn noise(path: &Path, size_bytes: usize, seed: u64) {
    let mut state = seed | 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
    .take(size_bytes / 8)
    .flat_map(u64::to_le_bytes)
    .collect();
    std::fs::write(path, bytes).expect("a file");
}

/// Whether two files hold the same bytes.
pub fn same(one: &Path, other: &Path) -> bool {
    let (mut one, mut other) = (std::fs::File::open(one).expect("a file"), std::fs::File::open(other).expect("a file"));
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = one.read(&mut a).expect("it reads");
        if count == 0 {
            return other.read(&mut b).expect("it reads") == 0;
        }
        if other.read_exact(&mut b[..count]).is_err() || a[..count] != b[..count] {
            return false;
        }
    }
}

/// The bytes of files, to check that nothing changed.
pub fn contents(paths: &[String]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}
