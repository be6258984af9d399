//! Replays a trace: on files, block devices and NBD exports by its own threads, which measure how late every request was; or
//! through fio, as its log version 3. The trace is read while it is replayed.
//!
//! ```text
//!   open loop      a request is due at its time in the trace, even if earlier ones have not ended; scaled: sooner or later
//!   closed loop    `depth` requests at a time, each followed at once by the next
//!   think time     as closed loop, but before each request the pause that the trace had there, cut to a maximum
//! ```
//! The times of old traces include the delays of old devices, so open loops understate fast devices: prefer think time. **Drift**
//! is the delay between the time when a request was due and the time when it was issued. If all threads are busy, or a thread is
//! scheduled late, requests wait in the lab instead of in the device, and the measured load is not that of the trace.

mod nbd;
mod player;
mod tally;

use crate::fio::Place;
use crate::result::Figures;
use crate::trace::{Gap, Op, Record, Source, Totals, TraceError};
use crate::units::{show_number, show_seconds};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use player::{Reached, play};

/// The time at which a request is due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// At its time, times the factor: 1 as recorded, 0.5 twice as fast.
    Open {
        /// The factor for times.
        stretch: f64,
    },
    /// At once when one of the `depth` requests in flight is done.
    Closed,
    /// After its pause when one of the `depth` requests in flight is done.
    ThinkTime {
        /// The longest pause.
        pause_max: Duration,
    },
}

/// Handling of requests beyond the end of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fit {
    /// Their offsets are taken modulo the size, so that nearby requests stay near.
    Fold,
    /// All offsets are scaled by target size over trace size.
    Scale,
}

/// The options of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The time at which requests are due.
    pub pace: Pace,
    /// Requests in flight; in an open loop the maximum.
    pub depth: usize,
    /// Handling of requests beyond the end.
    pub fit: Fit,
    /// Offsets are rounded down and lengths up to multiples of this, as direct I/O to the target needs.
    pub align_bytes: u64,
    /// Bypass the page cache.
    pub direct: bool,
    /// Use only this much of the target, from its start.
    #[serde(default)]
    pub room_bytes: Option<u64>,
    /// An open loop waits for at most so many seconds without a request. A longer gap is refused: the times of the trace may be
    /// damaged.
    #[serde(default = "gap_max_s")]
    pub gap_max_s: f64,
}

/// An hour.
fn gap_max_s() -> f64 {
    3600.0
}

/// Memory for the data of all requests in flight.
const DATA_BYTES_MAX: u64 = 1 << 30;

impl Options {
    /// Refuses invalid numbers.
    ///
    /// # Errors
    /// With the allowed values.
    pub fn check(&self) -> Result<(), String> {
        let stretch = if let Pace::Open { stretch } = self.pace { stretch } else { 1.0 };
        match () {
            () if !(1e-6..=1e6).contains(&stretch) => {
                Err(format!("invalid stretch {}: allowed is 0.000001 to 1000000", show_number(stretch)))
            }
            () if !(1..=4096).contains(&self.depth) => Err(format!("invalid depth {}: allowed is 1 to 4096", self.depth)),
            () if !self.align_bytes.is_power_of_two() || self.align_bytes > 1 << 20 => {
                Err(format!("invalid alignment {}: allowed is a power of two up to 1 MiB", self.align_bytes))
            }
            () if !(0.0..=1e12).contains(&self.gap_max_s) => {
                Err(format!("invalid longest gap {} s: allowed is 0 to 1000000000000", show_number(self.gap_max_s)))
            }
            () => Ok(()),
        }
    }

    /// Refuses a trace with a gap that an open loop would wait for longer than is allowed.
    ///
    /// # Errors
    /// With the place of the gap, and the ways around it.
    pub fn check_gap(&self, gap: Gap) -> Result<(), String> {
        let Pace::Open { stretch } = self.pace else { return Ok(()) };
        let seconds = gap.ns as f64 / 1e9 * stretch;
        if seconds <= self.gap_max_s {
            return Ok(());
        }
        let place = if gap.line > 0 { format!(" before the request of line {}", gap.line) } else { String::new() };
        let (time, most) = (show_seconds(seconds), show_seconds(self.gap_max_s));
        Err(format!(
            "the trace would be waited for {time}{place}, which is more than {most}: if its times are damaged, mend that line; \
             --pace think cuts pauses to --pause-max, --pace closed leaves them out, and --gap-max {} waits",
            seconds.ceil()
        ))
    }

    /// In words: "as recorded".
    pub fn pace_words(&self) -> String {
        match self.pace {
            Pace::Open { stretch: 1.0 } => "as recorded".into(),
            Pace::Open { stretch } => format!("in {stretch} times its time"),
            Pace::Closed => "as fast as possible".into(),
            Pace::ThinkTime { .. } => "with think time".into(),
        }
    }
}

impl Default for Options {
    /// As recorded, 64 at most, folded, 4 KiB, direct.
    fn default() -> Self {
        Self {
            pace: Pace::Open { stretch: 1.0 },
            depth: 64,
            fit: Fit::Fold,
            align_bytes: 4096,
            direct: true,
            room_bytes: None,
            gap_max_s: gap_max_s(),
        }
    }
}

/// The reason why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target could not be opened or a request failed in a way that ends the replay.
    #[error("cannot replay on {target}: {source}")]
    Target {
        /// The target.
        target: String,
        /// Why.
        source: std::io::Error,
    },
    /// fio's log could not be written.
    #[error("cannot write log {path}: {source}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The trace can no longer be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// fio gave no result.
    #[error(transparent)]
    Fio(#[from] crate::fio::FioError),
    /// It cannot be replayed in this way.
    #[error("{0}")]
    Options(String),
    /// The target is smaller than one of the trace's requests.
    #[error(
        "target of {size_bytes} bytes is smaller than the trace's largest request of {request_bytes} bytes; use a larger one"
    )]
    TooSmall {
        /// Of the target.
        size_bytes: u64,
        /// Of the request.
        request_bytes: u64,
    },
}

/// The drift of requests, in nanoseconds; for open loops and think time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Drift {
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub max_ns: f64,
    /// Fraction of requests issued more than a millisecond late.
    pub late_share: f64,
}

impl Drift {
    /// A sentence on whether the replay was faithful.
    pub fn sentence(&self) -> String {
        let time = crate::select::time;
        let (late, p99, max) = (self.late_share * 100.0, time(self.p99_ns), time(self.max_ns));
        if self.late_share > 0.01 {
            format!(
                "{late:.1} % of the requests were issued over 1 ms late (p99 {p99}, at most {max}): the target or this machine could not keep up \
                 with the trace, so latencies are too low; stretch its times or allow more requests in flight."
            )
        } else {
            format!("Requests were issued on time: p99 {p99} late, at most {max}.")
        }
    }
}

/// The measurements of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// From the first request to the end of the last.
    pub seconds: f64,
    /// The time with at least one request in flight, without idle time.
    pub busy_seconds: f64,
    /// Reads.
    pub read: Option<Figures>,
    /// Writes.
    pub write: Option<Figures>,
    /// Discards.
    pub trim: Option<Figures>,
    /// Reads, writes and discards together.
    pub total: Figures,
    /// Flushes.
    pub flushes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The first of them in words, if it is known.
    #[serde(default)]
    pub first_error: Option<String>,
    /// Discards that were left out, as the target does not support them. They do not count as errors.
    #[serde(default)]
    pub discards_left_out: u64,
    /// The drift; all 0 in a closed loop, which has no due times, and through fio, which does not report it.
    pub drift: Drift,
    /// True if it was interrupted: these are the measurements until then.
    pub cut_short: bool,
    /// The reason, in fio's words, if fio failed or served less than the trace.
    #[serde(default)]
    pub shortfall: Option<String>,
}

impl Outcome {
    /// 10^6 bytes of reads and writes per second of busy time: the score of application traces in desktop benchmarks.
    pub fn busy_mb_per_s(&self) -> f64 {
        let bytes = [&self.read, &self.write].into_iter().flatten().map(|figures| figures.bytes).sum::<u64>();
        if self.busy_seconds > 0.0 { bytes as f64 / 1e6 / self.busy_seconds } else { 0.0 }
    }

    /// The reason if it is not a result.
    pub fn failed(&self) -> Option<String> {
        match (self.errors, self.total.requests) {
            (0, 1..) => self.shortfall.clone(),
            (0, 0) => Some("not one request was served".into()),
            (errors, _) => {
                let first = self.first_error.as_ref().map_or(String::new(), |words| format!("; the first: {words}"));
                Some(format!("{errors} requests failed{first}"))
            }
        }
    }
}

/// How requests fit a target; the devices of the trace overlap on it.
#[derive(Clone, Copy, Debug)]
struct Fitting {
    align: u64,
    room: u64,
    end: u64,
    fit: Fit,
}

impl Fitting {
    fn new(totals: &Totals, size_bytes: u64, options: &Options) -> Result<Self, ReplayError> {
        options.check().map_err(ReplayError::Options)?;
        let align = options.align_bytes;
        let room = options.room_bytes.unwrap_or(size_bytes).min(size_bytes) / align * align;
        let too_small = |request_bytes| ReplayError::TooSmall { size_bytes, request_bytes };
        let request_bytes = totals.bytes_max.checked_next_multiple_of(align).ok_or(too_small(totals.bytes_max))?;
        if room == 0 || request_bytes > room {
            return Err(too_small(request_bytes));
        }
        let data = totals.data_bytes_max.saturating_mul(options.depth as u64);
        if data > DATA_BYTES_MAX {
            return Err(ReplayError::Options(format!(
                "{} requests in flight of up to {} need more memory than {}: reduce them with --depth",
                options.depth,
                crate::units::show_size(totals.data_bytes_max),
                crate::units::show_size(DATA_BYTES_MAX)
            )));
        }
        Ok(Self { align, room, end: totals.end_max.max(room), fit: options.fit })
    }

    fn of(&self, record: Record) -> Record {
        if record.op == Op::Flush {
            return record;
        }
        let bytes = record.bytes.max(1).next_multiple_of(self.align).min(self.room);
        let offset = match self.fit {
            Fit::Fold => record.offset % self.room,
            Fit::Scale => (u128::from(record.offset) * u128::from(self.room) / u128::from(self.end)) as u64,
        };
        Record { offset: (offset / self.align * self.align).min(self.room - bytes), bytes, ..record }
    }
}

/// Writes a trace as fio's log version 3 to `log`, which fio opens as `log_name`, for a target with fio's name `name`. Returns
/// the options of the job that replays it. fio does not report how late requests are: compare its run time with the trace's.
///
/// # Errors
/// When the target is too small, or the log cannot be written. fio cannot replay think time, so it is refused: use [`play`].
pub fn iolog(
    source: &Source,
    name: &str,
    size_bytes: u64,
    options: &Options,
    log: &Path,
    log_name: &str,
) -> Result<Vec<(String, String)>, ReplayError> {
    if name.contains(char::is_whitespace) {
        return Err(ReplayError::Options(format!(
            "fio allows no blanks in file names in its logs: replay on {name:?} without --fio"
        )));
    }
    let fitting = Fitting::new(source.totals(), size_bytes, options)?;
    let failed = |source| ReplayError::Log { path: log.to_path_buf(), source };
    let stretch = match options.pace {
        Pace::Open { stretch } => stretch,
        Pace::Closed => 0.0,
        Pace::ThinkTime { .. } => {
            let problem = "fio cannot pause between a request's end and the next; replay without fio instead";
            return Err(failed(std::io::Error::new(std::io::ErrorKind::Unsupported, problem)));
        }
    };
    let mut file = BufWriter::new(File::create(log).map_err(failed)?);
    let mut written = writeln!(file, "fio version 3 iolog\n1 {name} add\n1 {name} open");
    let mut last = 1;
    source.each(&mut |record| {
        let record = fitting.of(record);
        // fio 3.33 treats a pause after time 0 as the start of the log and skips it, so times begin at 1 µs.
        last = 1 + (record.time_ns as f64 * stretch / 1000.0) as u64;
        let line = match record.op {
            Op::Read => writeln!(file, "{last} {name} read {} {}", record.offset, record.bytes),
            Op::Write => writeln!(file, "{last} {name} write {} {}", record.offset, record.bytes),
            Op::Discard => writeln!(file, "{last} {name} trim {} {}", record.offset, record.bytes),
            // fio 3.33 does not count datasync, and its NBD engine fails on it.
            Op::Flush => writeln!(file, "{last} {name} sync 0 0"),
        };
        let is_written = line.is_ok();
        written = std::mem::replace(&mut written, Ok(())).and(line);
        if is_written { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written.and_then(|()| writeln!(file, "{last} {name} close")).and_then(|()| file.flush()).map_err(failed)?;
    let mut job = vec![
        ("read_iolog".to_string(), log_name.to_string()),
        ("read_iolog_chunked".to_string(), "1".to_string()),
        ("iodepth".to_string(), options.depth.to_string()),
        ("direct".to_string(), u8::from(options.direct).to_string()),
    ];
    if options.pace == Pace::Closed {
        job.push(("replay_no_stall".to_string(), "1".to_string()));
    }
    Ok(job)
}

/// True if an export is read-only; `None`: unknown.
pub(crate) fn is_read_only(place: &Place) -> Option<bool> {
    match place {
        Place::Path(_) => None,
        Place::Nbd(uri) => nbd::Client::connect(uri).map(|client| client.is_read_only()).ok(),
    }
}

/// Size of the target at a place, in bytes.
///
/// # Errors
/// When it cannot be opened.
pub fn size_of(place: &Place) -> Result<u64, ReplayError> {
    let failed = |source| ReplayError::Target { target: place.to_string(), source };
    match place {
        Place::Path(path) => crate::state::size_of(path).map_err(|problem| failed(std::io::Error::other(problem))),
        Place::Nbd(uri) => nbd::Client::connect(uri).map(|client| client.size_bytes()).map_err(failed),
    }
}

#[cfg(test)]
pub(crate) mod tests;
