//! fio: the job file that makes a load, its run, and its JSON.

use crate::experiment::parse_split;
use crate::lines;
use crate::own::ENDS_WITHIN;
use crate::result::{Figures, IoMode, Latency, Measured, Pattern, Phase, Sample, Series, inside};
use crate::stage::Load;
use crate::units::{show_seconds, show_size};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stria_block::{NO_THREAD, with_limit};

/// The pause between two checks of a running fio.
const EVERY: Duration = Duration::from_millis(50);
/// The time beyond the asked one after which fio counts as stuck: opening, laying out, the last requests.
const PATIENCE_SECONDS: f64 = 180.0;
/// A load that ran for a smaller part of its time was cut short.
const SHORT_SHARE: f64 = 0.5;
/// fio leaves out the incomplete request at the end of a thread's share.
const FILLED_SHARE: f64 = 0.99;
/// fio's words for a thread that it did not get. It then waits for ever for the others to start.
const LACKS_A_THREAD: [&str; 2] = ["pthread_create: ", "failed to create helper thread"];
/// fio's messages are read up to here while it runs.
const WORDS_BYTES_MAX: u64 = 1 << 20;
/// The time in which fio has read one block of a target that answers.
const PROBE_SECONDS: u64 = 20;
/// fio's JSON of 1024 threads with histograms takes a few MiB.
const RESULT_BYTES_MAX: u64 = 256 << 20;

/// The reason why fio gave no result.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It cannot be started.
    #[error("fio cannot be started: {error}; {}", start_remedy(.0), error = .0)]
    Missing(io::Error),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// It ended without a result.
    #[error("{0}")]
    Failed(String),
    /// It cannot even be killed.
    #[error("{0}")]
    Hangs(String),
}

fn start_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "install it with: sudo apt-get install fio",
        io::ErrorKind::WouldBlock => NO_THREAD,
        _ => "check its file and the limits of this user",
    }
}

/// The installed fio.
#[derive(Clone, Debug)]
pub struct Fio {
    /// `fio-3.33`.
    pub version: String,
    engine: &'static str,
}

/// The circumstances of a run of fio.
pub struct Beside<'a> {
    /// Machines on which it serves; empty: this one.
    pub hosts: &'a [Host],
    /// True if it is to end.
    pub stop: &'a AtomicBool,
    /// Starts fio, which may have to hold the locks of its targets.
    pub start: &'a dyn Fn(&mut Command) -> io::Result<Child>,
    /// Called with the process id, and at the end of the process.
    pub running: &'a dyn Fn(Option<u32>),
}

/// The place of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A file or block device.
    Path(PathBuf),
    /// An NBD URI.
    Nbd(String),
}

impl Place {
    /// An NBD URI, or a path.
    pub fn new(text: &str) -> Self {
        let is_nbd = ["nbd:", "nbd+unix:", "nbds:", "nbds+unix:"].iter().any(|scheme| text.starts_with(scheme));
        if is_nbd { Self::Nbd(text.into()) } else { Self::Path(text.into()) }
    }

    /// The absolute path, since fio is started in another folder.
    pub fn absolute(self) -> Self {
        match self {
            Self::Path(path) => Self::Path(std::path::absolute(&path).unwrap_or(path)),
            Self::Nbd(uri) => Self::Nbd(uri),
        }
    }

    /// Refuses a name that fio would take for another one. In its job files `;` and `#` end a line, `$` begins a variable, and it
    /// cannot express a line break, or bytes that are no text.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        let is_text = !matches!(self, Self::Path(path) if path.to_str().is_none());
        let text = self.to_string();
        let bad = text.chars().find(|letter| letter.is_control() || ";#$\"\\".contains(*letter));
        let is_blank = text.trim() != text || text.is_empty();
        match (bad, is_text && !is_blank) {
            (None, true) => Ok(()),
            (Some(bad), _) => Err(format!(
                "{text:?} cannot be measured: fio does not take {bad:?} in a name; reach it by a link with a plain name"
            )),
            (None, false) => {
                Err(format!("{text:?} cannot be measured: fio does not take such a name; reach it by a link with a plain name"))
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(out, "{}", path.display()),
            Self::Nbd(uri) => out.write_str(uri),
        }
    }
}

/// A machine on which fio serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// As fio's `--client` takes it.
    pub name: String,
    /// The target's name there, if it differs.
    pub place: Option<Place>,
}

impl Host {
    /// `HOST`, or `HOST=/dev/nvme1n1`.
    pub fn parse(text: &str) -> Self {
        let (name, place) = text.split_once('=').map_or((text, None), |(name, place)| (name, Some(Place::new(place))));
        Self { name: name.into(), place }
    }

    /// Refuses a text that is no name of a machine, or that fio or ssh might treat as an option.
    ///
    /// # Errors
    /// A sentence with the valid values.
    pub fn check(&self) -> Result<(), String> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_:,@%[]".contains(letter);
        let socket = self.name.strip_prefix("sock:").filter(|path| path.starts_with('/') && !path.contains(char::is_control));
        match socket.is_some() || !self.name.is_empty() && !self.name.starts_with('-') && self.name.chars().all(is_plain) {
            true => self.place.as_ref().map_or(Ok(()), Place::check),
            false => Err(format!("invalid host {:?}: letters, digits and .-_:,@% are allowed", self.name)),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => write!(out, "{}={place}", self.name),
            None => out.write_str(&self.name),
        }
    }
}

/// The work of a job.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// A load for a time.
    Load(&'a Load),
    /// Writes of a multiple of the span, 32 in flight.
    Fill {
        /// Times.
        fills: f64,
        /// Request.
        block_bytes: u64,
        /// Order.
        pattern: Pattern,
        /// True for zeros instead of random data.
        zeros: bool,
    },
    /// Discards of all of the span.
    Trim,
    /// A log.
    Replay {
        /// As [`crate::replay::iolog`] gives them.
        options: &'a [(String, String)],
        /// The time in which any target replays it.
        seconds_max: f64,
    },
}

/// The content of a job file.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Places; with several, each has its own thread.
    pub places: &'a [Place],
    /// The number of bytes over all places.
    pub span_bytes: u64,
    /// The first byte, over all places too.
    pub offset_bytes: u64,
    /// The work.
    pub work: Work<'a>,
    /// Seed of addresses and data.
    pub seed: u64,
    /// Prefix of the logs of a series.
    pub logs: Option<&'a Path>,
}

/// The lines of a job file.
struct JobFile(String);

impl JobFile {
    fn say(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0 += &format!("{key}={value}\n");
    }

    fn say_all(&mut self, lines: &[(&str, &str)]) {
        lines.iter().for_each(|(key, value)| self.say(key, value));
    }
}

/// A multiple of 1 MiB where the space allows, so that every block size fits.
fn whole(bytes: u64) -> u64 {
    if bytes >= 1 << 20 { bytes >> 20 << 20 } else { bytes / 4096 * 4096 }
}

impl Job<'_> {
    /// The actual number of requests in flight, over all threads.
    pub fn outstanding(&self) -> u32 {
        match self.work {
            Work::Load(load) if self.places.len() > 1 => self.depth_each(load) * self.places.len() as u32,
            Work::Load(load) => load.queue_depth * load.threads,
            Work::Fill { .. } | Work::Trim => 32,
            Work::Replay { .. } => 0,
        }
    }

    fn depth_each(&self, load: &Load) -> u32 {
        (load.queue_depth * load.threads / self.places.len() as u32).max(1)
    }

    /// The job file.
    pub fn text(&self, fio: &Fio) -> String {
        let mut file = JobFile("[global]\n".into());
        file.say("ioengine", if self.is_nbd() { "nbd" } else { fio.engine });
        file.say_all(&[("thread", "1"), ("group_reporting", "1"), ("randrepeat", "0"), ("norandommap", "1")]);
        file.say("random_generator", "tausworthe64");
        file.say("randseed", self.seed + 1);
        file.say_all(&[("lat_percentiles", "1"), ("clat_percentiles", "0"), ("percentile_list", "50:99:99.9:99.999")]);
        match self.work {
            Work::Load(load) => self.say_load(load, &mut file),
            Work::Fill { fills, block_bytes, pattern, zeros } => {
                file.say("rw", if pattern == Pattern::Random { "randwrite" } else { "write" });
                file.say("bs", block_bytes);
                file.say_all(&[("direct", "1"), ("iodepth", "32")]);
                file.say(if zeros { "zero_buffers" } else { "refill_buffers" }, 1);
                self.say_span(&mut file);
                file.say("io_size", (self.span_each() as f64 * fills) as u64);
            }
            Work::Replay { options, .. } => options.iter().for_each(|(key, value)| file.say(key, value)),
            Work::Trim => {
                file.say_all(&[("rw", "trim"), ("bs", "1m"), ("direct", "1"), ("iodepth", "32")]);
                self.say_span(&mut file);
            }
        }
        if let Some(prefix) = self.logs {
            for log in ["bw", "iops", "lat"] {
                file.say(&format!("write_{log}_log"), prefix.display());
            }
            file.say_all(&[("log_avg_msec", "1000"), ("per_job_logs", "0")]);
        }
        for (at, place) in self.places.iter().enumerate() {
            match place {
                Place::Path(path) => file.0 += &format!("[place{at}]\nfilename={}\n", escape(path)),
                Place::Nbd(uri) => file.0 += &format!("[place{at}]\nuri={uri}\n"),
            }
        }
        file.0
    }

    fn is_nbd(&self) -> bool {
        matches!(self.places.first(), Some(Place::Nbd(_)))
    }

    /// Bytes of each place.
    fn span_each(&self) -> u64 {
        self.span_bytes / self.places.len() as u64
    }

    /// Where the span of each place begins.
    fn offset_each(&self) -> u64 {
        whole(self.offset_bytes / self.places.len() as u64)
    }

    fn say_span(&self, file: &mut JobFile) {
        if self.offset_each() > 0 {
            file.say("offset", self.offset_each());
        }
        file.say("size", self.span_each());
    }

    fn say_load(&self, load: &Load, file: &mut JobFile) {
        let order = if load.pattern == Pattern::Random { "rand" } else { "" };
        let direction = match load.read_percent {
            100 => "read",
            0 => "write",
            _ => "rw",
        };
        file.say("rw", format_args!("{order}{direction}"));
        file.say("rwmixread", load.read_percent);
        match load.mix.as_ref().and_then(|mix| mix.block_split.as_ref()) {
            Some(split) => file.say("bssplit", bssplit(split)),
            None => file.say("bs", load.block_bytes),
        }
        if let Some(zones) = load.mix.as_ref().and_then(|mix| mix.zones.as_ref()) {
            file.say("random_distribution", format_args!("zoned:{zones}"));
        }
        match load.compressible_percent {
            100 => file.say("zero_buffers", 1),
            0 => file.say("refill_buffers", 1),
            percent => {
                file.say("refill_buffers", 1);
                file.say("buffer_compress_percentage", percent);
            }
        }
        match load.mode {
            IoMode::DirectSync if self.is_nbd() => file.say("fsync", 1),
            IoMode::Direct | IoMode::Sparse => file.say("direct", 1),
            IoMode::DirectSync => file.say_all(&[("direct", "1"), ("sync", "dsync")]),
            IoMode::WriteThrough => file.say_all(&[("direct", "0"), ("sync", "dsync")]),
            IoMode::Cached => file.say("direct", 0),
        }
        if let Some(writes) = load.flush_every {
            file.say("fsync", writes);
        }
        self.say_part(load, file);
        load.options.iter().for_each(|(key, value)| file.say(key, value));
        if load.options.iter().any(|(key, _)| key == "verify") {
            file.say("verify_state_save", 0);
        }
    }

    /// The place and duration of a load, and its requests in flight.
    fn say_part(&self, load: &Load, file: &mut JobFile) {
        let span_each = load.part.map_or(self.span_each(), |(_, of)| whole(self.span_each() / u64::from(of)));
        let offset = self.offset_each() + load.part.map_or(0, |(at, _)| span_each * u64::from(at));
        if offset > 0 {
            file.say("offset", offset);
        }
        file.say("time_based", 1);
        file.say("runtime", format_args!("{}ms", (load.seconds * 1e3) as u64));
        if load.warmup_seconds > 0.0 {
            file.say("ramp_time", format_args!("{}ms", (load.warmup_seconds * 1e3) as u64));
        }
        if self.places.len() > 1 {
            file.say("iodepth", self.depth_each(load));
            file.say("size", span_each);
            return;
        }
        file.say("iodepth", load.queue_depth);
        file.say("numjobs", load.threads);
        if load.pattern == Pattern::Sequential && load.threads > 1 {
            // Each thread has its own range.
            let range = whole(span_each / u64::from(load.threads));
            file.say("size", range);
            file.say("offset_increment", range);
        } else {
            file.say("size", span_each);
        }
    }

    /// The reason why a load gave no result, if it gave none.
    fn shortfall(&self, measured: &Measured) -> Option<String> {
        if measured.total.requests == 0 && !matches!(self.work, Work::Trim) {
            return Some("not one request was served".into());
        }
        match self.work {
            Work::Load(load) if measured.seconds < load.seconds * SHORT_SHARE => {
                let (ran, asked) = (show_seconds(measured.seconds), show_seconds(load.seconds));
                Some(format!("it ran {ran} instead of {asked}"))
            }
            Work::Fill { fills, .. } => {
                let written = measured.write.as_ref().map_or(0, |write| write.bytes);
                let asked = self.span_bytes as f64 * fills;
                ((written as f64) < asked * FILLED_SHARE)
                    .then(|| format!("{} of {} were written", show_size(written), show_size(asked as u64)))
            }
            Work::Load(_) | Work::Trim | Work::Replay { .. } => None,
        }
    }

    /// The time that it takes at most, or is to take.
    fn seconds(&self) -> f64 {
        match self.work {
            Work::Load(load) => load.seconds + load.warmup_seconds,
            Work::Fill { fills, block_bytes, .. } => {
                let bytes = self.span_bytes as f64 * fills;
                slowest_seconds(bytes, bytes / block_bytes as f64)
            }
            Work::Trim => slowest_seconds(self.span_bytes as f64, (self.span_bytes >> 20) as f64),
            Work::Replay { seconds_max, .. } => seconds_max,
        }
    }
}

/// The time in which any target moves that much: 2 MiB and 10 requests a second, which is less than a card reader does. What
/// takes longer hangs.
pub(crate) fn slowest_seconds(bytes: f64, requests: f64) -> f64 {
    (bytes / (2 << 20) as f64).max(requests / 10.0)
}

/// Sizes in bytes, so that fio interprets no units.
fn bssplit(split: &str) -> String {
    let parts = parse_split(split).expect("it was checked when it was read");
    parts.iter().map(|(bytes, share)| format!("{bytes}/{share}")).collect::<Vec<_>>().join(":")
}

/// To fio a colon ends a file name.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(':', "\\:")
}

/// The oldest fio whose options and figures are as the lab expects them.
const VERSION_MIN: (u32, u32) = (3, 30);

/// Of `fio-3.28`, `fio-3.36-17-g2d3f`. A name without a number is that of a build of the user's own.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("fio-").split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().is_some_and(|major| (major, numbers.next().unwrap_or(0)) < VERSION_MIN)
}

impl Fio {
    /// The fio of this machine.
    ///
    /// # Errors
    /// There is none, or it is too old.
    pub fn find() -> Result<Self, FioError> {
        let output = Command::new("fio").arg("--version").output().map_err(FioError::Missing)?;
        let engines = Command::new("fio").arg("--enghelp").output().map_err(FioError::Missing)?;
        let allowed = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").map_or(true, |text| text.trim() == "0");
        let has_ring = String::from_utf8_lossy(&engines.stdout).lines().any(|line| line.trim() == "io_uring");
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if is_too_old(&version) {
            let (major, minor) = VERSION_MIN;
            return Err(FioError::Failed(format!(
                "{version} is too old: stria lab needs fio {major}.{minor} or later; install a newer package, or build fio from its source"
            )));
        }
        Ok(Self { version, engine: if has_ring && allowed { "io_uring" } else { "libaio" } })
    }

    /// No fio: if all targets are models, fio is not needed.
    pub fn unused() -> Self {
        Self { version: "the models of stria plan, in virtual time".into(), engine: "" }
    }

    /// True if requests of 512 bytes are possible there; not determined on other hosts.
    pub fn takes_512(&self, place: &Place, hosts: &[Host]) -> bool {
        if place.check().is_err() || !hosts.is_empty() {
            return false;
        }
        let mut command = Command::new("fio");
        // fio would otherwise create a missing file, or extend a short one.
        command.args([
            "--readonly",
            "--allow_file_create=0",
            "--name=probe",
            "--rw=read",
            "--bs=512",
            "--number_ios=1",
            "--size=1m",
            "--direct=1",
            "--thread=1",
        ]);
        match place {
            Place::Path(path) => command.arg(format!("--ioengine={}", self.engine)).arg(format!("--filename={}", escape(path))),
            Place::Nbd(uri) => command.arg("--ioengine=nbd").arg(format!("--uri={uri}")),
        };
        command.current_dir(std::env::temp_dir()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        let until = Instant::now() + Duration::from_secs(PROBE_SECONDS);
        while Instant::now() < until {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(EVERY),
                Ok(Some(status)) => return status.success(),
                Err(_) => return false,
            }
        }
        end(&mut child);
        false
    }

    /// Runs a job on this machine, or on all hosts at once; `tick` is called some times a second meanwhile. It leaves the job in
    /// `raw/NAME.fio` and its JSON in `raw/NAME.json` of a run's folder, in which fio is started, so that fio cannot misread the
    /// name of that folder, and leaves no file elsewhere.
    ///
    /// A load that fio could not measure is a result with the reason.
    ///
    /// # Errors
    /// fio gave no result; the error has its messages.
    pub fn run(
        &self,
        job: &Job,
        folder: &Path,
        name: &str,
        beside: &Beside,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Vec<Measured>, FioError> {
        job.places.iter().try_for_each(Place::check).map_err(FioError::Failed)?;
        beside.hosts.iter().try_for_each(Host::check).map_err(FioError::Failed)?;
        // fio appends to the logs that a killed run left, so that every second would count twice.
        let logs = job.logs.map(|prefix| folder.join(prefix));
        if let Some(prefix) = &logs {
            remove_logs(prefix).map_err(|error| failed("cannot remove the logs of an earlier fio", &error))?;
        }
        let mut run = || {
            let child = self.start(job, folder, name, beside)?;
            let status = wait(child, job, beside, &|| lacks_a_thread(folder, name), tick)?;
            let (value, words) = result(folder, name, status)?;
            Ok((status, parse(&value).map_err(FioError::Failed)?, words))
        };
        let (status, mut measured, words) = run().inspect_err(|_| {
            let _ = logs.as_deref().map(remove_logs);
        })?;
        // fio continues without a host that it cannot reach. The sum of the others would look like the sum of all.
        let hosts = beside.hosts;
        if measured.len() < hosts.len() {
            return Err(FioError::Failed(format!(
                "{} of {} hosts gave a result: check that fio --server runs on all of {}; fio reports: {words}",
                measured.len(),
                hosts.len(),
                hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", "),
            )));
        }
        for one in &mut measured {
            one.failed = match one.failed.take() {
                Some(failed) => Some(format!("{failed}; fio says: {words}")),
                None if !status.success() => Some(format!("fio ended with {status}: {words}")),
                None => job.shortfall(one),
            };
        }
        Ok(measured)
    }

    /// Writes the job, and starts fio in the folder.
    fn start(&self, job: &Job, folder: &Path, name: &str, beside: &Beside) -> Result<Child, FioError> {
        let hosts = beside.hosts;
        let job_name = format!("raw/{name}.fio");
        let write = |name: &str, job: &Job| {
            inside::write(folder, name, job.text(self).as_bytes()).map_err(|error| failed("cannot write the job", &error))
        };
        write(&job_name, job)?;
        let words = inside::create(folder, &words_name(name)).map_err(|error| failed("cannot write fio's messages", &error))?;
        let mut command = Command::new("fio");
        for (at, host) in hosts.iter().enumerate() {
            let own_name = format!("raw/{name}.fio.{at}");
            let path = match &host.place {
                Some(place) => {
                    write(&own_name, &Job { places: std::slice::from_ref(place), ..*job })?;
                    &own_name
                }
                None => &job_name,
            };
            command.arg(format!("--client={}", host.name)).arg(path);
        }
        if hosts.is_empty() {
            command.arg(&job_name);
        }
        let out = inside::create(folder, &result_name(name)).map_err(|error| failed("cannot write fio's results", &error))?;
        command.arg("--output-format=json+").current_dir(folder).stdin(Stdio::null()).stdout(out).stderr(words);
        // A process group of its own: the lab handles an interrupt at the terminal, so that fio never leaves half a result.
        (beside.start)(command.process_group(0)).map_err(FioError::Missing)
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> FioError {
    FioError::Failed(format!("{what}: {error}"))
}

/// In the folder: fio's messages.
fn words_name(name: &str) -> String {
    format!("raw/{name}.err")
}

/// In the folder: fio's JSON.
fn result_name(name: &str) -> String {
    format!("raw/{name}.json")
}

/// The messages of a running fio, if one of them says that it has no thread for a job. Those of a host are among the results.
fn lacks_a_thread(folder: &Path, name: &str) -> Option<String> {
    let read = |name: String| inside::read(folder, &name, WORDS_BYTES_MAX).unwrap_or_default();
    let said = [words_name(name), result_name(name)].map(read).concat();
    let said = String::from_utf8_lossy(&said);
    let lacks = |line: &&str| LACKS_A_THREAD.iter().any(|words| line.contains(words));
    said.lines().find(lacks).map(|line| in_one_line(line.trim()))
}

/// Waits for fio. If the run is stopped, fio is late, or it never begins, fio is killed.
fn wait(
    mut child: Child,
    job: &Job,
    beside: &Beside,
    never_begins: &dyn Fn() -> Option<String>,
    tick: &mut dyn FnMut(Duration),
) -> Result<ExitStatus, FioError> {
    (beside.running)(Some(child.id()));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(failed("cannot wait for fio", &error)),
        }
        let late = begun.elapsed().as_secs_f64() > job.seconds() * 1.5 + PATIENCE_SECONDS;
        let cause = never_begins();
        if late || cause.is_some() || beside.stop.load(Ordering::Relaxed) {
            let seconds = show_seconds(begun.elapsed().as_secs_f64());
            if !end(&mut child) {
                // The number of the process stays stored: resume waits for its end.
                let words = format!(
                    "fio (process {}) was killed after {seconds} and does not end: a request hangs; see the kernel's log, and free or \
                     replace the drive",
                    child.id()
                );
                return Err(FioError::Hangs(words));
            }
            (beside.running)(None);
            return Err(match (cause, late) {
                (Some(words), _) => FioError::Failed(format!("fio cannot start all threads of its job: {}", with_remedy(&words))),
                (None, true) => {
                    FioError::Failed(format!("fio did not end within {seconds}: a request hangs; see the kernel's log"))
                }
                (None, false) => FioError::Interrupted,
            });
        }
        tick(begun.elapsed());
        std::thread::sleep(EVERY);
    };
    (beside.running)(None);
    Ok(status)
}

/// Kills a process. False if it does not end.
fn end(child: &mut Child) -> bool {
    let _ = child.kill();
    let killed = Instant::now();
    while killed.elapsed() < ENDS_WITHIN {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(EVERY),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    false
}

/// fio's JSON, and the messages beside it. Afterwards the file has only the JSON.
fn result(folder: &Path, name: &str, status: ExitStatus) -> Result<(Value, String), FioError> {
    let text_of =
        |name: &str| inside::read(folder, name, RESULT_BYTES_MAX).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let words = text_of(&words_name(name)).unwrap_or_default();
    let _ = fs::remove_file(folder.join(words_name(name)));
    let text = text_of(&result_name(name)).map_err(|error| failed("cannot read fio's results", &error))?;
    let beside_json = text.lines().filter(|line| line.starts_with("fio:")).collect::<Vec<_>>().join("; ");
    let words = [words.trim(), beside_json.trim()].join(" ");
    let words = in_one_line(words.trim());
    let words = if words.is_empty() { "without a message".into() } else { with_remedy(&words) };
    let json = text.find('{').zip(text.rfind('}')).map(|(start, end)| &text[start..=end]);
    let value: Option<Value> = json.and_then(|json| serde_json::from_str(json).ok());
    let (Some(json), Some(value)) = (json, value) else {
        return Err(FioError::Failed(format!("fio ended with {status}: {words}")));
    };
    if json.len() != text.trim().len() {
        inside::write(folder, &result_name(name), json.as_bytes())
            .map_err(|error| failed("cannot write fio's results", &error))?;
    }
    Ok((value, words))
}

/// The beginning of a text, without line breaks.
fn in_one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(400).collect()
}

/// fio's messages, and the limit of this user that they are about.
fn with_remedy(words: &str) -> String {
    match words.contains("io_queue_init") && words.contains("Cannot allocate memory") {
        true => format!("{words}; raise the limit that `ulimit -l` shows to 64 MiB or more (memlock in limits.conf)"),
        false if LACKS_A_THREAD.iter().any(|lack| words.contains(lack)) => format!("{words}; {NO_THREAD}"),
        false => with_limit(words),
    }
}

/// The results in fio's JSON: one for each host (without a name if fio ran here).
///
/// # Errors
/// There is no job in it.
pub fn parse(value: &Value) -> Result<Vec<Measured>, String> {
    let jobs = value["client_stats"].as_array().or(value["jobs"].as_array()).ok_or("fio's JSON has no jobs")?;
    let all: Vec<Measured> = jobs.iter().filter(|job| job["jobname"] != "All clients").map(one).collect();
    if all.is_empty() {
        return Err("fio's JSON has an empty list of jobs".into());
    }
    match all.iter().find_map(Measured::impossible) {
        Some(figure) => Err(format!("it has the figure {figure:e}, which no measurement has")),
        None => Ok(all),
    }
}

fn one(job: &Value) -> Measured {
    let number = |key: &str| job[key].as_f64().unwrap_or(0.0);
    let direction = |name: &str| {
        let part = &job[name];
        let requests = part["total_ios"].as_u64().unwrap_or(0);
        (requests > 0).then(|| {
            let seconds = part["runtime"].as_f64().unwrap_or(0.0).max(1.0) / 1e3;
            let bytes = part["io_bytes"].as_u64().unwrap_or(0);
            let whole = phase(&part["lat_ns"]).unwrap_or_default();
            let mut latency = Latency {
                min_ns: whole.min_ns,
                mean_ns: whole.mean_ns,
                stddev_ns: whole.stddev_ns,
                max_ns: whole.max_ns,
                ..Latency::default()
            };
            set_percentiles(&mut latency, histogram(part, requests));
            let iops = part["iops"].as_f64().filter(|iops| *iops > 0.0).unwrap_or(requests as f64 / seconds);
            let bytes_per_s = part["bw_bytes"].as_f64().filter(|rate| *rate > 0.0).unwrap_or(bytes as f64 / seconds);
            let (submission, completion) = (phase(&part["slat_ns"]), phase(&part["clat_ns"]));
            (seconds, Figures { requests, bytes, iops, mb_per_s: bytes_per_s / 1e6, latency, submission, completion })
        })
    };
    let parts = ["read", "write", "trim"].map(direction);
    let seconds = parts.iter().flatten().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
    let [read, write, trim] = parts.map(|part| part.map(|(_, figures)| figures));
    let total = sum([&read, &write, &trim].into_iter().flatten());
    let threads = if seconds > 0.0 { (number("job_runtime") / 1e3 / seconds).max(1.0) } else { 1.0 };
    let failed = job["total_err"].as_u64().unwrap_or(0).max(u64::from(job["error"].as_i64().unwrap_or(0) != 0));
    Measured {
        host: job["hostname"].as_str().unwrap_or("").to_owned(),
        seconds,
        read,
        write,
        trim,
        total,
        cpu_user_percent: number("usr_cpu") * threads,
        cpu_system_percent: number("sys_cpu") * threads,
        errors: failed,
        failed: (failed > 0).then(|| if failed == 1 { "1 request failed".into() } else { format!("{failed} requests failed") }),
    }
}

/// `None` if there was nothing to measure: an engine without a queue has no submission latency.
fn phase(value: &Value) -> Option<Phase> {
    let float = |key: &str| value[key].as_f64().unwrap_or(0.0);
    let phase = Phase { min_ns: float("min"), mean_ns: float("mean"), stddev_ns: float("stddev"), max_ns: float("max") };
    (phase.max_ns > 0.0).then_some(phase)
}

/// Latencies with their numbers of requests: the histogram of json+; of plain JSON one bin for each percentile that fio printed,
/// and the largest for the rest, so that these percentiles come out again as they were. fio prints percentiles of the completion
/// alone beside extremes of the whole: a percentile may lie below the smallest latency.
fn histogram(part: &Value, requests: u64) -> Vec<(u64, u64)> {
    let times = [&part["lat_ns"], &part["clat_ns"]];
    let bins = |times: &&Value| -> Vec<(u64, u64)> {
        // A bin has latencies on both sides of its own value. None was beyond the extremes.
        let [min_ns, max_ns] = ["min", "max"].map(|key| times[key].as_u64().unwrap_or(0));
        let within = |ns: u64| if max_ns > 0 { ns.min(max_ns).max(min_ns) } else { ns };
        let bins = times["bins"].as_object().into_iter().flatten();
        let mut bins: Vec<(u64, u64)> =
            bins.filter_map(|(ns, count)| Some((within(ns.parse().ok()?), count.as_u64()?))).collect();
        bins.sort_unstable();
        bins
    };
    if let Some(bins) = times.iter().map(bins).find(|bins| !bins.is_empty()) {
        return bins;
    }
    let Some(times) = times.into_iter().find(|times| times["percentile"].is_object()) else { return Vec::new() };
    let percentiles = times["percentile"].as_object().into_iter().flatten();
    // fio 3.1 fills its list with zeros.
    let mut percentiles: Vec<(f64, u64)> = percentiles
        .filter_map(|(percent, ns)| Some((percent.parse().ok()?, ns.as_u64()?)))
        .filter(|(percent, _)| *percent > 0.0)
        .collect();
    percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    percentiles.push((100.0, times["max"].as_u64().unwrap_or(0).max(percentiles.last().map_or(0, |(_, ns)| *ns))));
    let mut seen = 0;
    let bin = |(percent, ns): (f64, u64)| {
        let before = seen;
        seen = rank(requests, percent).max(before);
        (seen > before).then_some((ns, seen - before))
    };
    percentiles.into_iter().filter_map(bin).collect()
}

/// The number of requests at or below a percentile.
fn rank(count: u64, percent: f64) -> u64 {
    (count as f64 * percent / 100.0).ceil().max(1.0) as u64
}

/// Figures together: rates add up, latencies by their numbers of requests, percentiles from the joint histogram.
pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Figures>) -> Figures {
    let mut total = Figures::default();
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut whole, mut submission, mut completion) = (Pool::default(), Pool::default(), Pool::default());
    let mut all_have_bins = true;
    for part in parts.into_iter().filter(|part| part.requests > 0) {
        total.requests = total.requests.saturating_add(part.requests);
        total.bytes = total.bytes.saturating_add(part.bytes);
        total.iops += part.iops;
        total.mb_per_s += part.mb_per_s;
        let Latency { min_ns, mean_ns, stddev_ns, max_ns, .. } = part.latency;
        whole.add(part.requests, Some(Phase { min_ns, mean_ns, stddev_ns, max_ns }));
        submission.add(part.requests, part.submission);
        completion.add(part.requests, part.completion);
        all_have_bins &= !part.latency.bins.is_empty();
        for (ns, requests) in &part.latency.bins {
            let bin: &mut u64 = bins.entry(*ns).or_default();
            *bin = bin.saturating_add(*requests);
        }
    }
    if let Some(Phase { min_ns, mean_ns, stddev_ns, max_ns }) = whole.all() {
        total.latency = Latency { min_ns, mean_ns, stddev_ns, max_ns, ..Latency::default() };
        // A figure that some parts do not report is unknown for all.
        let bins = if all_have_bins { bins.into_iter().collect() } else { Vec::new() };
        set_percentiles(&mut total.latency, bins);
        let if_complete = |phase: Pool| phase.all().filter(|_| phase.count == whole.count);
        (total.submission, total.completion) = (if_complete(submission), if_complete(completion));
    }
    total
}

/// All hosts as one.
pub fn together(hosts: &[Measured]) -> Measured {
    let figures = |of: fn(&Measured) -> Option<&Figures>| {
        let parts: Vec<_> = hosts.iter().filter_map(of).collect();
        (!parts.is_empty()).then(|| sum(parts))
    };
    Measured {
        host: "all".into(),
        seconds: hosts.iter().map(|host| host.seconds).fold(0.0, f64::max),
        read: figures(|host| host.read.as_ref()),
        write: figures(|host| host.write.as_ref()),
        trim: figures(|host| host.trim.as_ref()),
        total: sum(hosts.iter().map(|host| &host.total)),
        cpu_user_percent: hosts.iter().map(|host| host.cpu_user_percent).sum(),
        cpu_system_percent: hosts.iter().map(|host| host.cpu_system_percent).sum(),
        errors: hosts.iter().map(|host| host.errors).fold(0, u64::saturating_add),
        failed: hosts.iter().find_map(|host| host.failed.clone()),
    }
}

/// Latencies of several parts as one.
#[derive(Clone, Copy, Default)]
struct Pool {
    count: f64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Pool {
    fn add(&mut self, requests: u64, part: Option<Phase>) {
        let Some(part) = part else { return };
        let count = requests as f64;
        self.min = if self.count > 0.0 { self.min.min(part.min_ns) } else { part.min_ns };
        self.max = self.max.max(part.max_ns);
        self.count += count;
        self.sum += count * part.mean_ns;
        self.squares += count * (part.stddev_ns.powi(2) + part.mean_ns.powi(2));
    }

    fn all(&self) -> Option<Phase> {
        let mean_ns = self.sum / self.count;
        let stddev_ns = (self.squares / self.count - mean_ns.powi(2)).max(0.0).sqrt();
        (self.count > 0.0).then_some(Phase { min_ns: self.min, mean_ns, stddev_ns, max_ns: self.max })
    }
}

/// Without a histogram the percentiles are unknown.
fn set_percentiles(latency: &mut Latency, bins: Vec<(u64, u64)>) {
    let count = bins.iter().fold(0_u64, |sum, (_, requests)| sum.saturating_add(*requests));
    let at = |percent: f64| {
        let wanted = rank(count, percent);
        let mut seen = 0_u64;
        let bin = bins.iter().find(|(_, requests)| {
            seen = seen.saturating_add(*requests);
            seen >= wanted
        });
        bin.map(|(ns, _)| *ns as f64)
    };
    (latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.p99999_ns) = (at(50.0), at(99.0), at(99.9), at(99.999));
    latency.bins = bins;
}

/// The series from fio's logs, which are removed.
///
/// # Errors
/// As [`series`].
pub fn take_series(prefix: &Path) -> Result<Series, String> {
    let series = series(prefix, 1000);
    let _ = remove_logs(prefix);
    series
}

/// Removes fio's logs.
fn remove_logs(prefix: &Path) -> io::Result<()> {
    LOGS.iter().try_for_each(|kind| match fs::remove_file(format!("{}_{kind}.log", prefix.display())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

const LOGS: [&str; 5] = ["bw", "iops", "lat", "clat", "slat"];
/// A line of a log stands for an hour at most.
const INTERVAL_MS_MAX: u64 = 3_600_000;
/// Intervals of a log: eleven days of seconds.
const INTERVALS_MAX: u64 = 1_000_000;
/// Samples of a series: a day of seconds. Those of a longer one stand for more than a second each.
const SAMPLES_MAX: u64 = 100_000;
/// Lines of all logs of a series, whose values are kept until their interval is complete: 1024 jobs for three hours.
const LINES_MAX: usize = 1 << 25;
/// fio never reports more than this for a second.
const FIGURE_MAX: f64 = 1e15;

/// The log entries of the jobs of one kind and direction in an interval.
#[derive(Clone, Default)]
struct Logged {
    sum: f64,
    /// In the order of the jobs.
    values: Vec<f64>,
}

/// What was logged in an interval: rates in bytes, rates in requests, latencies, each of reads and writes.
type Interval = [[Logged; 2]; 3];

/// The logs of a kind: of all jobs together, or else of each job.
fn logs_of(prefix: &Path, kind: &str) -> Vec<PathBuf> {
    let shared = PathBuf::from(format!("{}_{kind}.log", prefix.display()));
    if shared.exists() {
        return vec![shared];
    }
    let (Some(folder), Some(name)) = (prefix.parent(), prefix.file_name()) else { return Vec::new() };
    let begin = format!("{}_{kind}.", name.to_string_lossy());
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let number = |entry: fs::DirEntry| -> Option<u32> {
        entry.file_name().to_str()?.strip_prefix(&begin)?.strip_suffix(".log")?.parse().ok()
    };
    let mut jobs: Vec<u32> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(number).collect();
    jobs.sort_unstable();
    jobs.into_iter().map(|job| folder.join(format!("{begin}{job}.log"))).collect()
}

/// The series from fio's logs, of all jobs or of each, whose lines stand for so many milliseconds; a sample each second, or as
/// many as there are lines if those are longer. The last sample may stand for less.
///
/// fio logs no rate of an interval in which a job was served nothing: the intervals between the first and the last that lack a
/// line had the rate 0, and an unknown latency.
///
/// When a load ends some jobs log their last interval and others do not, so an end to which fewer jobs contribute than to the
/// intervals before it is left out: its sum would look like a collapse.
///
/// # Errors
/// The logs have too many lines.
pub fn series(prefix: &Path, interval_ms: u64) -> Result<Series, String> {
    series_of(prefix, interval_ms, LINES_MAX)
}

fn series_of(prefix: &Path, interval_ms: u64, lines_max: usize) -> Result<Series, String> {
    let interval_ms = interval_ms.clamp(1, INTERVAL_MS_MAX);
    let mut intervals: BTreeMap<u64, Interval> = BTreeMap::new();
    let mut count = 0;
    for (kind, name) in ["bw", "iops", "lat"].into_iter().enumerate() {
        for path in logs_of(prefix, name) {
            let _ = lines::each(&path, &mut |line| {
                let mut fields = line.split(',').map_while(|field| field.trim().parse::<f64>().ok());
                let (Some(at_ms), Some(value), Some(direction)) = (fields.next(), fields.next(), fields.next()) else { return };
                // A line comes at the end of its interval, or a little later.
                let number = ((at_ms / interval_ms as f64).round() as u64).max(1);
                if !(0.0..=FIGURE_MAX).contains(&value) || number > INTERVALS_MAX {
                    return;
                }
                count += 1;
                if count > lines_max {
                    return;
                }
                let logged = &mut intervals.entry(number).or_default()[kind][usize::from(direction != 0.0)];
                logged.sum += value;
                logged.values.push(value);
            });
        }
    }
    if count > lines_max {
        return Err(format!("they have {count} lines, more than {lines_max}: log with a longer log_avg_msec"));
    }
    // fio always logs the latency of the last second, but not always its rates.
    let lines = |logged: &Interval| logged[1][0].values.len() + logged[1][1].values.len();
    let mut all: Vec<(u64, Interval)> = intervals.into_iter().filter(|(_, logged)| lines(logged) > 0).collect();
    while let [before @ .., (_, last)] = &all[..] {
        let mut usual: Vec<usize> = before.iter().map(|(_, logged)| lines(logged)).collect();
        usual.sort_unstable();
        match usual.get(usual.len() / 2) {
            Some(usual) if lines(last) < *usual => all.pop(),
            _ => break,
        };
    }
    Ok(samples_of(&all, interval_ms))
}

/// Sums of a sample: of the rates over time, and of the latencies over requests.
#[derive(Clone, Copy, Default)]
struct Bucket {
    iops_ms: [f64; 2],
    kib_per_s_ms: [f64; 2],
    latency: f64,
    weight: f64,
}

/// Adds up the intervals of a log, by the time that each has in a sample.
fn samples_of(intervals: &[(u64, Interval)], interval_ms: u64) -> Series {
    let (Some((first, _)), Some((last, _))) = (intervals.first(), intervals.last()) else { return Series::default() };
    let (begin_ms, end_ms) = ((first - 1) * interval_ms, last * interval_ms);
    // Whole intervals where they are longer than a second.
    let unit_ms = interval_ms.max(1000);
    let bucket_ms = unit_ms * (end_ms - begin_ms).div_ceil(unit_ms * SAMPLES_MAX).max(1);
    let first_bucket = begin_ms / bucket_ms;
    let mut buckets = vec![Bucket::default(); (end_ms.div_ceil(bucket_ms) - first_bucket) as usize];
    for (number, [bw, iops, lat]) in intervals {
        // The mean over the requests of all jobs, if each job logged its latency and its rate.
        let mean = |lat: &Logged, iops: &Logged| match lat.values.len() == iops.values.len() && iops.sum > 0.0 {
            true => lat.values.iter().zip(&iops.values).map(|(lat, iops)| lat * iops).sum::<f64>() / iops.sum,
            false => lat.sum / lat.values.len().max(1) as f64,
        };
        let (from_ms, to_ms) = ((number - 1) * interval_ms, number * interval_ms);
        for place in from_ms / bucket_ms..to_ms.div_ceil(bucket_ms) {
            let own_ms = to_ms.min((place + 1) * bucket_ms) - from_ms.max(place * bucket_ms);
            let bucket = &mut buckets[(place - first_bucket) as usize];
            for direction in 0..2 {
                let (lat, iops, bw) = (&lat[direction], &iops[direction], &bw[direction]);
                bucket.iops_ms[direction] += iops.sum * own_ms as f64;
                bucket.kib_per_s_ms[direction] += bw.sum * own_ms as f64;
                // A direction that logged no latency has no part in the mean.
                let weight = if lat.values.is_empty() { 0.0 } else { iops.sum * own_ms as f64 };
                bucket.latency += mean(lat, iops) * weight;
                bucket.weight += weight;
            }
        }
    }
    let sample = |(place, bucket): (u64, Bucket)| {
        let at_ms = ((place + 1) * bucket_ms).min(end_ms);
        let covered_ms = (at_ms - begin_ms.max(place * bucket_ms)) as f64;
        let [read_iops, write_iops] = bucket.iops_ms.map(|sum| sum / covered_ms);
        let [read_mb_per_s, write_mb_per_s] = bucket.kib_per_s_ms.map(|sum| sum / covered_ms * 1024.0 / 1e6);
        let latency_mean_ns = (bucket.weight > 0.0).then(|| bucket.latency / bucket.weight);
        Sample { at_ms, read_iops, write_iops, read_mb_per_s, write_mb_per_s, latency_mean_ns }
    };
    Series { interval_ms: bucket_ms, samples: (first_bucket..).zip(buckets).map(sample).collect(), sweep: Vec::new() }
}

#[cfg(test)]
mod tests;
