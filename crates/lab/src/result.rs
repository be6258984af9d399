//! What a run leaves behind: a folder that can be copied, compared and reported again.
//!
//! ```text
//!   RUN/manifest.json      Manifest: what was asked, on what, in which environment, and how it ended; replaced as a whole
//!   RUN/experiment.toml    the experiment, as it was run
//!   RUN/records.jsonl      one Record a line, appended when a measurement is done
//!   RUN/notes.jsonl        one Note a line: purges, fall-backs, throttling, errors, verdicts
//!   RUN/raw/00012.json     fio's own JSON of record 12, untouched; 00012.fio is the job that made it
//!   RUN/series/00012.json  Series of record 12: one sample a second, where it was taken
//! ```
//! A line of `records.jsonl` is written after the raw file and the series that it names, so what a line says is there.
//! A broken last line is an interrupted write: [`Run::open`] ignores it and resuming measures that record again.
//! Units are in the names; percent are 0 to 100; MB/s are 10^6 bytes; times are Unix milliseconds unless they say otherwise.

mod folder;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

pub use folder::{Run, RunWriter};

/// The version of the folder's layout that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Why a run folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// A file of it.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is there but makes no sense.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

// ---------------------------------------------------------------------------------------------------------------- manifest

/// All about a run that is not a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The run's name: the experiment's, with the time when it began.
    pub id: String,
    /// The experiment's name: `quick`, `snia-iops`.
    pub experiment: String,
    /// The experiment's title, for a heading.
    pub title: String,
    /// What it asks, in a sentence or two.
    pub question: String,
    /// How it stands.
    pub status: RunStatus,
    /// Not the real thing: shorter, smaller. Every page and table says so.
    pub scaled: Option<Scaled>,
    /// When it began.
    pub begun_ms: u64,
    /// When it ended or was interrupted; absent while it runs.
    pub ended_ms: Option<u64>,
    /// When it was taken up again.
    pub resumed_ms: Vec<u64>,
    /// `stria 0.1.0`.
    pub program: String,
    /// `fio-3.33`.
    pub fio: String,
    /// The words on the command line, for repeating it.
    pub command: Vec<String>,
    /// A remark of who ran it.
    pub note: String,
    /// What was measured.
    pub targets: Vec<TargetInfo>,
    /// On what machine.
    pub environment: Environment,
    /// The same machines as far as other hosts took part, by host name.
    pub hosts: BTreeMap<String, Environment>,
    /// The parts of the experiment in the order in which they ran, each with its verdict.
    pub sections: Vec<Section>,
    /// Drives after the run, where they could be asked: wear and writes to compare with [`TargetInfo::drives`].
    pub drives_after: Vec<DriveInfo>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It runs, or was killed: resume tells.
    Running,
    /// All that was planned is there.
    Done,
    /// It was asked to stop.
    Interrupted,
    /// It could not go on; the last note says why.
    Failed,
}

/// How much less than the method asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// Seconds of a measurement as a share of what the method asks: 1/60 where a round takes a second a cell.
    pub time_share: f64,
    /// Bytes of the target that are used, where the target is larger.
    pub span_bytes: Option<u64>,
    /// Rounds at most, where the method allows 25.
    pub rounds_max: Option<u32>,
    /// All that in a sentence, to be printed wherever results are: "scaled trial: 1 s instead of 60 s, …".
    pub words: String,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A file in a file system.
    File,
    /// A block device: drive, partition, md, VROC, hardware RAID, loop.
    Block,
    /// Anything behind an NBD URI.
    Nbd,
    /// A Stria array, made for the run and served over NBD.
    Array,
    /// Several bare drives at once, each with its own threads: what an array of them could do at best.
    Members,
}

/// A target as it was found or made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// The name that [`Point::target`] uses: `raid5 x4 64K`, `/dev/nvme0n1`.
    pub name: String,
    /// As it was given: `file:/tmp/x.img`, `array:5:4`.
    pub spec: String,
    /// Its kind.
    pub kind: TargetKind,
    /// Bytes that clients see.
    pub size_bytes: u64,
    /// Bytes that the experiment uses from the start of it.
    pub span_bytes: u64,
    /// `0`, `1`, `5`, `6`, `10`, `50`, `60`, `jbod`; also for arrays of others, if the user said so.
    pub level: Option<String>,
    /// Members, where it is an array or several drives.
    pub members: Option<u32>,
    /// Strip of an array.
    pub strip_bytes: Option<u64>,
    /// Spans of a 50 or 60.
    pub spans: Option<u32>,
    /// What the user says about the platform: `C226 chipset`, `VROC`, `LSI 9460`.
    pub platform: String,
    /// The drives below, as they were before the run.
    pub drives: Vec<DriveInfo>,
}

/// A drive as it says about itself. What it does not say is absent or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveInfo {
    /// How it was addressed.
    pub path: String,
    /// Model.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// `nvme`, `sata`, `loop`, `file` …
    pub transport: String,
    /// Size.
    pub size_bytes: u64,
    /// Turns.
    pub rotational: Option<bool>,
    /// Volatile write cache: `write back`, `write through`.
    pub write_cache: String,
    /// I/O scheduler.
    pub scheduler: String,
    /// Life used, in percent of what the maker allows.
    pub wear_percent: Option<f64>,
    /// Bytes that hosts wrote to it in its life.
    pub written_bytes: Option<u64>,
    /// Bytes that its flash wrote in its life, where it tells: gives the drive's own write amplification.
    pub media_written_bytes: Option<u64>,
    /// Bytes that the maker allows to be written (TBW), where the user or experiment said so.
    pub rated_written_bytes: Option<u64>,
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Media and data integrity errors so far.
    pub media_errors: Option<u64>,
    /// Where this was read: `smartctl`, `nvme`, `sysfs`, `file system`.
    pub source: String,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs that may be used.
    pub cpu_count: u32,
    /// Frequency governor, if there is one.
    pub cpu_governor: String,
    /// Memory.
    pub memory_bytes: u64,
    /// Load average over a minute before the run.
    pub load_average: f64,
    /// CPU that others used just before the run, in percent of all CPUs: background load.
    pub busy_percent: f64,
    /// I/O of others just before the run, bytes per second over all block devices.
    pub background_bytes_per_s: f64,
    /// Sensors: name, degrees Celsius.
    pub temperatures: Vec<(String, f64)>,
    /// Virtual machine: what systemd or DMI call it; empty on bare metal.
    pub virtualization: String,
}

// ---------------------------------------------------------------------------------------------------------------- sections

/// A part of an experiment on one target: a SNIA test, a sweep, a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Unique in the run; [`Record::section`] names it: `1-iops/raid5 x4 64K`.
    pub id: String,
    /// The name in the experiment.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What the section does; decides how a report shows it.
    pub kind: SectionKind,
    /// [`TargetInfo::name`].
    pub target: String,
    /// How the target was purged, and what was tried before: `nvme format`, `blkdiscard`, `overwrite`, `skipped: …`.
    pub purge: Option<String>,
    /// Preconditioning in words: `sequential 128 KiB writes, twice the span`.
    pub precondition: Option<String>,
    /// Rounds or passes measured.
    pub rounds: u32,
    /// The verdict on steadiness, where the section asks for it.
    pub steady: Option<SteadyVerdict>,
    /// When it began; absent: not yet.
    pub begun_ms: Option<u64>,
    /// When it was done; absent: not yet.
    pub ended_ms: Option<u64>,
}

/// What a section does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SectionKind {
    /// Any product of what is varied, measured in passes.
    Sweep,
    /// SNIA PTS: IOPS, 56 cells.
    Iops,
    /// SNIA PTS: Throughput.
    Throughput,
    /// SNIA PTS: Latency.
    Latency,
    /// SNIA PTS: Write Saturation.
    Wsat,
    /// SNIA PTS: Host Idle Recovery.
    Hir,
    /// SNIA PTS: Cross Stimulus Recovery.
    Xsr,
    /// SNIA PTS: Demand Intensity and Response Time Histogram.
    Dirth,
    /// SNIA PTS: Composite Block Workload.
    Composite,
    /// Fresh, used, idle, trimmed.
    States,
    /// An array loses a member, is rebuilt, scrubbed, trimmed; [`Point::array_state`] tells.
    Raid,
    /// Copy of files.
    FileCopy,
    /// Replay of a trace.
    Replay,
}

/// Whether the last five rounds of the tracked cell were steady, by both criteria of SNIA PTS 2.0, section 3.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyVerdict {
    /// Both criteria hold.
    pub reached: bool,
    /// First round of the window, from 1.
    pub first_round: u32,
    /// Last round of the window.
    pub last_round: u32,
    /// What was tracked: `IOPS of random 4 KiB writes`.
    pub tracked: String,
    /// Unit of the values: `IOPS`, `MB/s`, `us`.
    pub unit: String,
    /// The tracked value in every round, from round 1.
    pub values: Vec<f64>,
    /// Mean over the window.
    pub mean: f64,
    /// Largest less smallest in the window.
    pub excursion: f64,
    /// Allowed: 20 % of the mean.
    pub excursion_allowed: f64,
    /// Least-squares slope per round.
    pub slope: f64,
    /// Its value at round 0: the line is `slope * round + intercept`.
    pub intercept: f64,
    /// |slope| times the rounds between first and last.
    pub slope_excursion: f64,
    /// Allowed: 10 % of the mean.
    pub slope_excursion_allowed: f64,
    /// Rounds allowed; at that many the window is the last five.
    pub rounds_max: u32,
    /// Steps whose rounds were counted, from and to before: other parts of the section have no window.
    #[serde(default)]
    pub steps: Option<(u32, u32)>,
}

// ----------------------------------------------------------------------------------------------------------------- records

/// What was varied: equal points measure the same thing, in other rounds, passes, runs or on other hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// [`TargetInfo::name`].
    pub target: String,
    /// Level of the array, if it is one.
    pub level: Option<String>,
    /// Its members.
    pub members: Option<u32>,
    /// Its strip.
    pub strip_bytes: Option<u64>,
    /// Its spans.
    pub spans: Option<u32>,
    /// Order of addresses.
    pub pattern: Pattern,
    /// Bytes per request; the mean of a mix of sizes.
    pub block_bytes: u64,
    /// A mix of sizes or places by name, `composite` or `database`; empty where all requests are alike.
    pub mix: String,
    /// Share of reads.
    pub read_percent: u8,
    /// Requests in flight in each thread.
    pub queue_depth: u32,
    /// Threads.
    pub threads: u32,
    /// Share of the written data that a controller could compress: 0 is random, 100 is zeros.
    pub compressible_percent: u8,
    /// How the drive was prepared.
    pub drive_state: DriveState,
    /// How the array was.
    pub array_state: ArrayState,
    /// How requests are made.
    pub mode: IoMode,
    /// Anything else that is varied, in words: `wait 5 s`, `pre-write`, `few large files`. Empty: nothing.
    pub variant: String,
}

/// Order of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// Uniformly random.
    Random,
}

/// How a drive was prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// Nothing was done.
    AsFound,
    /// Just purged: fresh out of the box.
    Fresh,
    /// Filled, preconditioned, or steady.
    Used,
    /// Used, then left alone for a while.
    Idle,
    /// Used, then discarded as a whole through the target.
    Trimmed,
}

/// How an array was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayState {
    /// All members; also for what is no array.
    Optimal,
    /// A member missing.
    Degraded,
    /// A new member is being filled.
    Rebuilding,
    /// After that.
    Rebuilt,
    /// While everything is compared.
    Scrubbing,
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Past the page cache.
    Direct,
    /// Past the page cache, every write durable before it returns (O_DIRECT and O_DSYNC).
    DirectSync,
    /// Through the page cache, every write durable before it returns (O_DSYNC).
    WriteThrough,
    /// Through the page cache.
    Cached,
    /// Past the page cache, into a file without blocks of its own yet.
    Sparse,
}

/// One measurement: one run of fio, on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 0 in this run; names `raw/00012.json`. Records of several hosts share the raw file of the first.
    pub index: u32,
    /// [`Section::id`].
    pub section: String,
    /// Part of the preparation, not of the result.
    pub preparation: bool,
    /// What was measured.
    pub point: Point,
    /// Round (SNIA) or pass (others), from 1.
    pub round: u32,
    /// The step in its round, from 0: with section and round the place in the plan.
    pub step: u32,
    /// When it began.
    pub begun_ms: u64,
    /// What fio, or whatever made the load, measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// `raw/00012.json`, in the run folder.
    pub raw: String,
    /// `series/00012.json`, if a series was taken.
    pub series: Option<String>,
    /// What each member did meanwhile, where it can be seen.
    pub members: Vec<MemberFigures>,
    /// Single figures that only some sections have: `rebuild_seconds`, `reclaimed_bytes`, `scrub_seconds`, `mismatch_sectors`.
    pub extra: BTreeMap<String, f64>,
}

impl std::ops::Deref for Record {
    type Target = Measured;

    fn deref(&self) -> &Measured {
        &self.measured
    }
}

impl std::ops::DerefMut for Record {
    fn deref_mut(&mut self) -> &mut Measured {
        &mut self.measured
    }
}

/// What one load measured, on one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The host, where several work together; empty: this machine. `all` is the sum over hosts.
    pub host: String,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Reads, if there were any.
    pub read: Option<Figures>,
    /// Writes, if there were any.
    pub write: Option<Figures>,
    /// Discards, if there were any.
    pub trim: Option<Figures>,
    /// All requests together.
    pub total: Figures,
    /// CPU of the load generator in percent of one CPU, over all threads: user.
    pub cpu_user_percent: f64,
    /// The same: system.
    pub cpu_system_percent: f64,
    /// Requests that failed, or 1 where fio only tells that there was an error.
    pub errors: u64,
}

/// Figures of one direction, or of all together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Latency from submission to completion.
    pub latency: Latency,
    /// The part of it until a request was handed over (fio's slat), where fio tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Phase>,
    /// The part from there to the end (fio's clat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Phase>,
}

/// A part of latency, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Smallest.
    pub min_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Largest.
    pub max_ns: f64,
}

/// Latency in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Smallest.
    pub min_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Half are faster.
    pub p50_ns: f64,
    /// 99 of 100 are faster.
    pub p99_ns: f64,
    /// 999 of 1000 are faster.
    pub p999_ns: f64,
    /// 99,999 of 100,000 are faster: SNIA's five nines.
    pub p99999_ns: f64,
    /// Largest.
    pub max_ns: f64,
    /// Histogram: value in nanoseconds as fio bins it, requests in that bin; ascending, without empty bins.
    pub bins: Vec<(u64, u64)>,
}

/// What one member did during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberFigures {
    /// Its path.
    pub path: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Errors.
    pub errors: u64,
    /// Mean time of its requests, where it can be seen (block devices).
    pub latency_mean_ns: Option<f64>,
    /// The largest mean over any second of the measurement: shows who lags behind.
    pub latency_worst_second_ns: Option<f64>,
    /// Degrees Celsius at the end.
    pub temperature_c: Option<f64>,
    /// Bytes that its file takes (image files).
    pub allocated_bytes: Option<u64>,
}

/// A record over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Milliseconds that a sample stands for.
    pub interval_ms: u64,
    /// Samples in order.
    pub samples: Vec<Sample>,
    /// Progress of rebuild or scrub meanwhile.
    pub sweep: Vec<SweepSample>,
}

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, since the measurement began.
    pub at_ms: u64,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Read, 10^6 bytes per second.
    pub read_mb_per_s: f64,
    /// Written, 10^6 bytes per second.
    pub write_mb_per_s: f64,
    /// Mean latency of all requests.
    pub latency_mean_ns: f64,
}

/// How far a rebuild or scrub was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepSample {
    /// Since the measurement began.
    pub at_ms: u64,
    /// `rebuild`, `scrub`, `resync`; empty when none ran.
    pub kind: String,
    /// Done.
    pub done_bytes: u64,
    /// Of.
    pub total_bytes: u64,
}

/// Something worth telling that is not a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub at_ms: u64,
    /// [`Section::id`]; empty: the whole run.
    pub section: String,
    /// [`Record::index`] that it belongs to.
    pub record: Option<u32>,
    /// What it is.
    pub kind: NoteKind,
    /// In a sentence.
    pub text: String,
}

/// Kinds of notes. All but the first three put a warning on the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A step of the run.
    Step,
    /// How a purge was done.
    Purge,
    /// A verdict.
    Verdict,
    /// A wanted step could not be done, and what was done instead.
    Fallback,
    /// A drive grew hot or slowed itself down.
    Throttle,
    /// The figures sank suddenly within a measurement.
    Sag,
    /// Errors of a drive or of requests.
    Error,
    /// Somebody else used the machine.
    Background,
}
