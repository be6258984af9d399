//! Traces of requests to block devices, in one common form.
//!
//! A [`Source`] gives [`Record`]s in order of time, the first at 0, and reads its file as it goes: a trace may be larger than
//! memory. [`Format`] says which fields each format lacks, and which are rounded. Files that end in `.gz` are unpacked on the
//! way.

mod blktrace;
mod iolog;
mod source;
pub mod synthetic;
mod text;

use crate::lines;
use serde::Serialize;
use std::collections::HashMap;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use source::{Gap, Source};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Op {
    /// Read.
    Read,
    /// Write. A write with FUA is a write and a flush, a preflush a flush and a write, as the kernel does it for devices that
    /// support neither.
    Write,
    /// Discard (TRIM).
    Discard,
    /// Flush; its offset and length are 0.
    Flush,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Since the first request of the trace.
    pub time_ns: u64,
    /// Index into [`Trace::devices`].
    pub device: u32,
    /// In bytes.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
    /// The kind.
    pub op: Op,
    /// Until its end; 0 if the trace has no such times.
    pub took_ns: u64,
}

impl Record {
    /// The first byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// A complete trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// Names as the trace has them, in the order in which they come up.
    pub devices: Vec<String>,
    /// In order of time.
    pub records: Vec<Record>,
}

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; times in 100 ns, bytes.
    Msr,
    /// Alibaba 2020: `device_id,opcode,offset,length,timestamp`; time in µs, bytes.
    Alibaba,
    /// Tencent CBS 2018: `Timestamp,Offset,Size,IOType,VolumeID`; sectors. Time is in whole seconds: requests of one second
    /// are spread evenly over it.
    Tencent,
    /// What `blkparse` prints by default. Queue events (Q), or issues (D) where there are none.
    Blkparse,
    /// The kernel's binary, as `blktrace` writes it for each CPU: given `sda.blktrace.0`, its siblings are read too.
    Blktrace,
    /// fio's log, version 2 or 3. Version 2 has no times but `wait`, which counts milliseconds since fio's start (its manual
    /// says microseconds since the last wait; fio 3.33 does what is said here).
    Iolog,
    /// DiskSim ASCII: `arrival device block blocks flags`; time in ms, 512-byte blocks; flag bit 0: read.
    DiskSim,
    /// As DiskSim with time in ns, as MQSim reads it.
    MqSim,
}

impl Format {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 8] = [
        ("msr", Self::Msr),
        ("alibaba", Self::Alibaba),
        ("tencent", Self::Tencent),
        ("blkparse", Self::Blkparse),
        ("blktrace", Self::Blktrace),
        ("iolog", Self::Iolog),
        ("disksim", Self::DiskSim),
        ("mqsim", Self::MqSim),
    ];
}

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// The format of a file, by its first lines.
    ///
    /// # Errors
    /// A sentence, if no format matches, or several do.
    pub fn recognized(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let mut file = lines::open(path).map_err(unreadable)?;
        if blktrace::begins(file.fill_buf().map_err(unreadable)?) {
            return Ok(Self::Blktrace);
        }
        let mut line = Vec::new();
        for _ in 0..RECOGNIZED_LINES {
            let Some(text) = lines::next(&mut *file, &mut line).map_err(unreadable)? else { break };
            if let Some(format) = text::recognized(text.trim())? {
                return Ok(format);
            }
        }
        let names = Self::ALL.map(|(name, _)| name).join(", ");
        Err(format!(
            "{} is not a trace whose format is recognised: put the format first, as in msr:trace.csv; it is one of {names}",
            path.display()
        ))
    }
}

/// Lines that are read for a first request: headings and comments may come before it.
const RECOGNIZED_LINES: usize = 100;

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("trace format \"{text}\" is unknown: use one of {}", names.join(", "))
        })
    }
}

/// The reason why a trace was not read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read trace {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line or an event that the format does not allow.
    #[error("{path}, {place}: {}; is the format right?", bounded(.problem))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// "line 7" or "byte 96".
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// It needs more memory than any trace of real volumes.
    #[error("trace {path}: {problem}")]
    TooMuch {
        /// The file.
        path: PathBuf,
        /// The fault and the remedy.
        problem: String,
    },
    /// It has no request that moves data.
    #[error("trace {path} has no request: check its format, and for blkparse that queue (Q) or issue (D) events were recorded")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Both ends of a problem that quotes a long field.
fn bounded(problem: &str) -> String {
    const END: usize = 100;
    let letters: Vec<char> = problem.chars().collect();
    match letters.len() > 3 * END {
        true => letters[..END].iter().chain(&[' ', '…', ' ']).chain(&letters[letters.len() - END..]).collect(),
        false => problem.into(),
    }
}

/// Reads a whole trace into memory: for short ones.
///
/// # Errors
/// When it is none of this format.
pub fn read(path: &Path, format: Format) -> Result<Trace, TraceError> {
    let source = Source::open(path, format)?;
    let mut trace = Trace { devices: source.devices().to_vec(), records: Vec::new() };
    source.each(&mut |record| {
        trace.records.push(record);
        ControlFlow::Continue(())
    })?;
    Ok(trace)
}

/// The most devices of a trace. That of Alibaba has a thousand.
const DEVICES_MAX: usize = 1 << 20;
/// A name of a host and a disk.
const NAME_BYTES_MAX: usize = 255;
/// 32 MiB: all names of a trace together. Some copies of them are in memory at once.
const NAMES_BYTES_MAX: usize = 32 << 20;

/// Names of devices in the order in which they come up.
#[derive(Default)]
struct Devices {
    names: Vec<String>,
    names_bytes: usize,
    indices: HashMap<String, u32>,
}

impl Devices {
    /// The index of a device, which is added when it is new.
    fn index(&mut self, name: &str) -> Result<u32, String> {
        if let Some(index) = self.indices.get(name) {
            return Ok(*index);
        }
        let names_bytes = self.names_bytes + name.len();
        if self.names.len() == DEVICES_MAX || name.len() > NAME_BYTES_MAX || names_bytes > NAMES_BYTES_MAX {
            return Err(format!(
                "a trace may have at most {DEVICES_MAX} devices, with names of at most {NAME_BYTES_MAX} bytes, {} MiB together: keep \
                 the requests of fewer devices, or give them shorter names",
                NAMES_BYTES_MAX >> 20
            ));
        }
        self.names_bytes = names_bytes;
        let index = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.indices.insert(name.to_owned(), index);
        Ok(index)
    }
}

/// A request as in the file, perhaps out of order.
struct Event {
    record: Record,
    stage: Stage,
    /// Its line; 0 in a format without lines.
    line: u64,
}

/// The stage of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It was queued.
    #[default]
    Queued,
    /// It was sent to the device; taken where queue events are missing.
    Issued,
    /// It had ended.
    Completed,
}

/// The receiver of a file's events.
type Take<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

/// Opens a file, unpacking it if its name ends in `.gz`.
fn open(path: &Path) -> Result<Box<dyn BufRead>, TraceError> {
    lines::open(path).map_err(|source| TraceError::Unreadable { path: path.into(), source })
}

impl Trace {
    /// From the first request to the last.
    pub fn span_ns(&self) -> u64 {
        self.records.last().map_or(0, |record| record.time_ns)
    }

    /// What it is made of.
    pub fn totals(&self) -> Totals {
        let mut counter = Counter::default();
        self.records.iter().for_each(|record| counter.add(record));
        counter.totals()
    }
}

/// The content of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Totals {
    pub seconds: f64,
    pub reads: u64,
    pub read_bytes: u64,
    /// Reads that begin where the last read on their device ended.
    pub sequential_reads: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// As for reads.
    pub sequential_writes: u64,
    pub discards: u64,
    pub discarded_bytes: u64,
    pub flushes: u64,
    /// The first byte after all requests: a target must be this large, or offsets must be folded.
    pub end_max: u64,
    /// The largest request.
    pub bytes_max: u64,
    /// The largest that reads or writes data.
    pub data_bytes_max: u64,
}

impl Totals {
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        [self.writes, self.discards, self.flushes].iter().fold(self.reads, |sum, count| sum.saturating_add(*count))
    }
}

/// Sums up the content of a trace.
#[derive(Default)]
struct Counter {
    totals: Totals,
    /// Earliest and latest, ns.
    times: Option<(u64, u64)>,
    ends: HashMap<(u32, Op), u64>,
}

impl Counter {
    fn add(&mut self, record: &Record) {
        let (first, last) = self.times.unwrap_or((u64::MAX, 0));
        self.times = Some((first.min(record.time_ns), last.max(record.time_ns)));
        let totals = &mut self.totals;
        totals.end_max = totals.end_max.max(record.end());
        totals.bytes_max = totals.bytes_max.max(record.bytes);
        if matches!(record.op, Op::Read | Op::Write) {
            totals.data_bytes_max = totals.data_bytes_max.max(record.bytes);
        }
        // Sequential: begins where the last request of its kind on its device ended.
        let sequential = self.ends.insert((record.device, record.op), record.end()) == Some(record.offset);
        let (operations, bytes, sequential_count) = match record.op {
            Op::Read => (&mut totals.reads, &mut totals.read_bytes, &mut totals.sequential_reads),
            Op::Write => (&mut totals.writes, &mut totals.written_bytes, &mut totals.sequential_writes),
            Op::Discard => (&mut totals.discards, &mut totals.discarded_bytes, &mut 0),
            Op::Flush => (&mut totals.flushes, &mut 0, &mut 0),
        };
        *operations += 1;
        *bytes = bytes.saturating_add(record.bytes);
        *sequential_count += u64::from(sequential);
    }

    fn start_ns(&self) -> u64 {
        self.times.map_or(0, |(first, _)| first)
    }

    fn totals(&self) -> Totals {
        Totals { seconds: self.times.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9), ..self.totals }
    }
}

#[cfg(test)]
mod tests;
