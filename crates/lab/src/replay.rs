//! Replays a trace: on files and block devices by threads of its own, which know how late every request was; elsewhere through
//! fio, as its log version 3.
//!
//! ```text
//!   open loop      a request is due when the trace says, whatever became of those before it; scaled: sooner or later
//!   closed loop    `depth` requests at a time, each followed at once by the next
//!   think time     as closed loop, but before each request the pause that the trace had there, cut to a maximum
//! ```
//! Old traces carry the delays of old devices in their times, so open loops understate fast ones: prefer think time.
//! **Drift** is how much later than due a request was issued: with every thread busy, or a thread scheduled late, requests wait here and not
//! in the device, and a replay that drifts measured another load than the trace's.

mod keep;
mod player;

use crate::result::Figures;
use crate::trace::{Op, Record, Trace};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use keep::{KeepError, Request, keep};
pub use player::play;

/// When a request is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At its time, times the factor: 1 as recorded, 0.5 twice as fast.
    Open {
        /// By how much times are stretched.
        stretch: f64,
    },
    /// At once when one of `depth` is done.
    Closed,
    /// After its pause when one of `depth` is done.
    ThinkTime {
        /// The longest pause.
        pause_max: Duration,
    },
}

/// What becomes of requests beyond the end of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Their offsets are taken modulo the size, so that localities stay.
    Fold,
    /// All offsets are scaled by target size over trace size.
    Scale,
}

/// How to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// When requests are due.
    pub pace: Pace,
    /// Requests at a time; in an open loop at most.
    pub depth: usize,
    /// What becomes of requests beyond the end.
    pub fit: Fit,
    /// Offsets are rounded down and lengths up to multiples of this: what direct I/O to the target asks for.
    pub align_bytes: u64,
    /// Past the page cache.
    pub direct: bool,
}

impl Default for Options {
    /// As recorded, 64 at most, folded, 4 KiB, direct.
    fn default() -> Self {
        Self { pace: Pace::Open { stretch: 1.0 }, depth: 64, fit: Fit::Fold, align_bytes: 4096, direct: true }
    }
}

/// Why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target could not be opened or a request failed in a way that ends the replay.
    #[error("cannot replay on {path}: {source}")]
    Target {
        /// The target.
        path: PathBuf,
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

/// How late requests were issued, in nanoseconds; for open loops and think time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Drift {
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub max_ns: f64,
    /// Share of requests issued more than a millisecond late.
    pub late_share: f64,
}

impl Drift {
    fn of(mut late: Vec<f64>) -> Self {
        late.sort_by(f64::total_cmp);
        let Some(&max_ns) = late.last() else { return Self::default() };
        let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
        let count = late.len() as f64;
        Self {
            mean_ns: late.iter().sum::<f64>() / count,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            max_ns,
            late_share: late.iter().filter(|late| **late > 1e6).count() as f64 / count,
        }
    }

    /// In a sentence that says whether the replay was faithful.
    pub fn sentence(&self) -> String {
        let time = crate::select::time;
        let (late, p99, max) = (self.late_share * 100.0, time(self.p99_ns), time(self.max_ns));
        if self.late_share > 0.01 {
            format!(
                "{late:.1} % of the requests were issued over 1 ms late (p99 {p99}, at most {max}): the target or this machine could not keep up \
                 with the trace, so latencies are too low; stretch its times or allow more requests at a time."
            )
        } else {
            format!("Requests were issued on time: p99 {p99} late, at most {max}.")
        }
    }
}

/// What a replay measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// From the first request to the end of the last.
    pub seconds: f64,
    /// With at least one request outstanding: idle time does not count.
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
    /// How late requests were; all 0 in a closed loop, where none is due.
    pub drift: Drift,
}

impl Outcome {
    /// 10^6 bytes of reads and writes per second of busy time: how desktop benchmarks score application traces.
    pub fn busy_mb_per_s(&self) -> f64 {
        let bytes = [&self.read, &self.write].into_iter().flatten().map(|figures| figures.bytes).sum::<u64>();
        if self.busy_seconds > 0.0 { bytes as f64 / 1e6 / self.busy_seconds } else { 0.0 }
    }
}

/// Requests as they fit a target of `size_bytes`, in order of time; devices of the trace lie over each other.
fn fitted(trace: &Trace, size_bytes: u64, options: &Options) -> Result<Vec<Record>, ReplayError> {
    let align = options.align_bytes.max(1);
    let room = size_bytes / align * align;
    let widest = trace.records.iter().map(|record| record.bytes.next_multiple_of(align)).max().unwrap_or(0);
    if room == 0 || widest > room {
        return Err(ReplayError::TooSmall { size_bytes, request_bytes: widest });
    }
    let end = trace.records.iter().map(Record::end).max().unwrap_or(0).max(1);
    let fit = |record: &Record| {
        if record.op == Op::Flush {
            return *record;
        }
        let bytes = record.bytes.max(1).next_multiple_of(align);
        let offset = match options.fit {
            Fit::Fold => record.offset % room,
            Fit::Scale => (u128::from(record.offset) * u128::from(room) / u128::from(end.max(room))) as u64,
        };
        Record { offset: (offset / align * align).min(room - bytes), bytes, ..*record }
    };
    Ok(trace.records.iter().map(fit).collect())
}

/// Writes a trace as fio's log version 3 to `log`, for a target that fio calls `name`; gives the options of the job that replays
/// it. fio does not say how late requests are: compare its run time with the trace's.
///
/// # Errors
/// When the target is too small, or the log cannot be written. Think time is beyond fio and refused: use [`play`].
pub fn iolog(
    trace: &Trace,
    name: &str,
    size_bytes: u64,
    options: &Options,
    log: &Path,
) -> Result<Vec<(String, String)>, ReplayError> {
    let records = fitted(trace, size_bytes, options)?;
    let failed = |source| ReplayError::Log { path: log.to_path_buf(), source };
    let stretch = match options.pace {
        Pace::Open { stretch } => stretch,
        Pace::Closed => 0.0,
        Pace::ThinkTime { .. } => {
            let problem = "fio cannot pause between a request's end and the next; replay on a file or block device instead";
            return Err(failed(std::io::Error::new(std::io::ErrorKind::Unsupported, problem)));
        }
    };
    let mut text = format!("fio version 3 iolog\n1 {name} add\n1 {name} open\n");
    let mut last = 1;
    for record in &records {
        // fio 3.33 takes a pause after time 0 for the log's start and leaves it out, so times begin at 1 µs.
        last = 1 + (record.time_ns as f64 * stretch / 1000.0) as u64;
        let _ = match record.op {
            Op::Read => writeln!(text, "{last} {name} read {} {}", record.offset, record.bytes),
            Op::Write => writeln!(text, "{last} {name} write {} {}", record.offset, record.bytes),
            Op::Discard => writeln!(text, "{last} {name} trim {} {}", record.offset, record.bytes),
            Op::Flush => writeln!(text, "{last} {name} datasync 0 0"),
        };
    }
    let _ = writeln!(text, "{last} {name} close");
    std::fs::write(log, text).map_err(failed)?;
    let mut job = vec![
        ("read_iolog".to_string(), log.display().to_string()),
        ("iodepth".to_string(), options.depth.to_string()),
        ("direct".to_string(), u8::from(options.direct).to_string()),
    ];
    if options.pace == Pace::Closed {
        job.push(("replay_no_stall".to_string(), "1".to_string()));
    }
    Ok(job)
}

#[cfg(test)]
mod tests;
