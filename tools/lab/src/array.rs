//! A Stria array for a run, made and driven through the `stria` program as a user would.

use crate::result::{MemberFigures, SweepSample};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The array's name on its members.
const NAME: &str = "lab";
/// The time limit for a stop of an array. A first resync of large drives takes hours, but a stop does not.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// The array to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// `5`.
    pub level: String,
    /// Strip.
    pub strip_bytes: Option<u64>,
    /// Spans of a 50 or 60.
    pub spans: Option<u32>,
    /// Members in the order of their slots.
    pub drives: Vec<PathBuf>,
}

/// An array that is served.
#[derive(Debug)]
pub struct Array {
    program: PathBuf,
    spec: ArraySpec,
    socket: PathBuf,
    serve: Option<Child>,
    uri: String,
}

impl Array {
    /// Makes the array on its drives, overwrites what is on them, and serves it. A resync makes the drives consistent; new files
    /// need none, as they are all zeros.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn create(program: &Path, spec: ArraySpec, sockets: &Path, zeroed: bool) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(["create", NAME, "--force", "--level", &spec.level]);
        if let Some(strip) = spec.strip_bytes.filter(|_| !matches!(spec.level.as_str(), "1" | "jbod")) {
            command.arg("--strip").arg(strip.to_string());
        }
        if let Some(spans) = spec.spans {
            command.arg("--spans").arg(spans.to_string());
        }
        if zeroed {
            command.arg("--assume-clean");
        }
        finish(command.args(&spec.drives), "create")?;
        Self::serve(program, spec, sockets)
    }

    /// Serves an existing array.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn serve(program: &Path, spec: ArraySpec, sockets: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(sockets).map_err(|error| format!("{}: {error}", sockets.display()))?;
        let socket = sockets.join("control.sock");
        let mut array = Self { program: program.into(), spec, socket, serve: None, uri: String::new() };
        // An array that an interrupted run left behind.
        if array.socket.exists() {
            let _ = array.command("stop", &["--force"]);
        }
        let mut command = Command::new(program);
        command.arg("serve").args(&array.spec.drives).args(["--quiet", "--force", "--socket"]).arg(&array.socket);
        command.arg("--nbd").arg(format!("unix:{}", sockets.join("nbd.sock").display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut serve = command.spawn().map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        for line in BufReader::new(serve.stdout.take().expect("it is piped")).lines().map_while(Result::ok) {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["nbd", _, uri] => array.uri = uri.into(),
                ["control", _] => break,
                _ => {}
            }
        }
        let mut log = serve.stderr.take().expect("it is piped");
        if array.uri.is_empty() {
            let mut words = String::new();
            let _ = log.read_to_string(&mut words);
            return Err(format!("the array could not be served: {}", words.trim()));
        }
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        array.serve = Some(serve);
        Ok(array)
    }

    /// The address for clients.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The array that was made.
    pub fn spec(&self) -> &ArraySpec {
        &self.spec
    }

    /// As `stria status --json` reports it.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn status(&self) -> Result<Value, String> {
        let mut command = Command::new(&self.program);
        command.args(["--json", "status", "--socket"]).arg(&self.socket);
        // Degraded has an exit code of its own.
        let output = command.output().map_err(|error| error.to_string())?;
        let value: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("status of the array: {error}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
        Ok(value.get(0).cloned().unwrap_or(value))
    }

    /// The requests of each member since the array is served, as far as the program counts them; spans included.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn members(&self) -> Result<Vec<MemberFigures>, String> {
        let mut members = Vec::new();
        collect_members(&self.status()?, &mut members);
        Ok(members)
    }

    /// The sweep that runs; `None` if none runs and none waits.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn sweep(&self) -> Result<Option<SweepSample>, String> {
        Ok(sweep_of(&self.status()?))
    }

    /// Sectors with a mismatch that the last scrub found.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn mismatch_sectors(&self) -> Result<Option<u64>, String> {
        Ok(self.status()?["mismatch_sectors"].as_u64())
    }

    /// The member that fails and is filled again in RAID runs.
    pub fn victim(&self) -> &Path {
        &self.spec.drives[0]
    }

    /// The victim is failed and removed.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn fail(&self) -> Result<(), String> {
        let victim = self.victim().display().to_string();
        self.on_array("fail", &[&victim, "--force"])?;
        self.on_array("remove", &[&victim, "--force"])
    }

    /// The victim returns as a new, empty drive: its superblock is erased, so all of it is rebuilt.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn refill(&self) -> Result<(), String> {
        let victim = self.victim();
        let is_file = std::fs::metadata(victim).is_ok_and(|metadata| metadata.is_file());
        match is_file {
            true => crate::purge::recreate(victim)?,
            false => crate::purge::wipe_head(victim)?,
        }
        self.on_array("add", &[&victim.display().to_string(), "--force"])
    }

    /// A scrub begins.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn scrub(&self) -> Result<(), String> {
        self.on_array("scrub", &[])
    }

    /// Discards all of the array.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn trim(&self) -> Result<(), String> {
        self.on_array("trim", &["--force"])
    }

    /// Bytes that the members' files take on their file system; `None` for block devices.
    pub fn allocated_bytes(&self) -> Option<u64> {
        allocated_bytes(&self.spec.drives)
    }

    /// Stops it cleanly.
    ///
    /// # Errors
    /// In the words of the program.
    pub fn stop(mut self) -> Result<(), String> {
        self.command("stop", &["--force"])?;
        let begun = Instant::now();
        let mut serve = self.serve.take().expect("it is served");
        while begun.elapsed() < STOP_PATIENCE {
            match serve.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("`stria serve` of the array ended with {status}")),
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(error.to_string()),
            }
        }
        let _ = serve.kill();
        let _ = serve.wait();
        Err("the array did not stop in half a minute and was killed".into())
    }

    fn on_array(&self, command: &str, rest: &[&str]) -> Result<(), String> {
        let mut words = vec![NAME];
        words.extend(rest);
        match command {
            "remove" => self.command(command, &words[..words.len() - 1]),
            _ => self.command(command, &words),
        }
    }

    fn command(&self, command: &str, words: &[&str]) -> Result<(), String> {
        let mut program = Command::new(&self.program);
        finish(program.arg(command).args(words).arg("--socket").arg(&self.socket), command)
    }
}

impl Drop for Array {
    /// An array that is dropped without [`Array::stop`] belongs to an interrupted run, so it is ended.
    fn drop(&mut self) {
        if let Some(mut serve) = self.serve.take() {
            let stopped = self.command("stop", &["--force"]).is_ok();
            let begun = Instant::now();
            while stopped && begun.elapsed() < STOP_PATIENCE && serve.try_wait().is_ok_and(|status| status.is_none()) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = serve.kill();
            let _ = serve.wait();
        }
    }
}

/// Ends an array that a killed run left behind: its socket is in the private folder of that run.
pub fn stop_left(program: &Path, sockets: &Path) {
    let socket = sockets.join("control.sock");
    if socket.exists() {
        // Without a listener there is nothing to stop.
        let stopped = finish(Command::new(program).args(["stop", "--force", "--socket"]).arg(&socket), "stop");
        let begun = Instant::now();
        // It holds the locks of its drives until it ends.
        while stopped.is_ok() && socket.exists() && begun.elapsed() < STOP_PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Bytes that files take; `None` if one of them is no file.
pub fn allocated_bytes(paths: &[PathBuf]) -> Option<u64> {
    let of = |path: &PathBuf| {
        std::fs::metadata(path).ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.blocks() * 512)
    };
    paths.iter().map(of).sum()
}

fn finish(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("stria {what} cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("stria {what}: {}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("stria: "))),
    }
}

fn collect_members(view: &Value, members: &mut Vec<MemberFigures>) {
    for member in view["members"].as_array().into_iter().flatten().filter(|member| !member["direct"].is_null()) {
        let number = |key: &str| member[key].as_u64().unwrap_or(0);
        members.push(MemberFigures {
            path: member["path"].as_str().unwrap_or("").into(),
            reads: number("read_count"),
            writes: number("write_count"),
            read_bytes: number("read_bytes"),
            written_bytes: number("written_bytes"),
            errors: number("read_errors"),
            hedged_reads: number("hedged_reads"),
            ..MemberFigures::default()
        });
    }
    for span in view["spans"].as_array().into_iter().flatten() {
        collect_members(span, members);
    }
}

/// The state in one line, as the program words it.
pub(crate) fn headline(view: &Value) -> String {
    view["headline"].as_str().or(view["state"].as_str()).unwrap_or_default().to_owned()
}

/// Slots without a member in sync; spans included.
pub(crate) fn lost_members(view: &Value) -> u64 {
    let list = |key: &str| view[key].as_array().into_iter().flatten();
    let rebuilding = list("members").filter(|member| member["role"] == "rebuilding").count();
    (list("missing_slots").count() + rebuilding) as u64 + list("spans").map(lost_members).sum::<u64>()
}

pub(crate) fn sweep_of(view: &Value) -> Option<SweepSample> {
    let sweep = &view["sweep"];
    let own = sweep.is_object().then(|| SweepSample {
        at_ms: 0,
        kind: sweep["kind"].as_str().unwrap_or("").into(),
        done_bytes: sweep["done_bytes"].as_u64().unwrap_or(0),
        total_bytes: sweep["total_bytes"].as_u64().unwrap_or(0),
    });
    // True if a spare has not been taken yet: the rebuild is about to begin.
    let waits = || {
        let members = view["members"].as_array()?;
        let role = |member: &&Value| member["role"].as_str().is_some_and(|role| role.contains("rebuild") || role == "spare");
        let missing = view["missing_slots"].as_array().is_some_and(|slots| !slots.is_empty());
        (missing && members.iter().any(|member| role(&member)))
            .then(|| SweepSample { kind: "rebuild".into(), ..SweepSample::default() })
    };
    own.or_else(|| view["spans"].as_array()?.iter().find_map(sweep_of)).or_else(waits)
}
