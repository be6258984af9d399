//! Threads that replay, each one request at a time, and record when it was due, issued and done. Another thread reads ahead in
//! the trace.

use super::nbd::Client;
use super::tally::{Busy, Kind, Lateness};
use super::{Drift, Fitting, Options, Outcome, Pace, ReplayError};
use crate::fio::Place;
use crate::trace::{Op, Record, Source, TraceError};
use crate::units::show_seconds;
use rustix::fs::{FallocateFlags, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stria_block::Buffer;

/// Requests that are read ahead of their time.
const AHEAD: usize = 1 << 16;
/// The time between two reports of progress, and two checks of the stop flag.
const EVERY: Duration = Duration::from_millis(50);
/// A request that is not answered within this time hangs, as with fio.
const HANGS_AFTER: Duration = Duration::from_secs(180);

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reached {
    /// Requests done.
    pub requests: u64,
    /// Of the trace's time, seconds.
    pub trace_seconds: f64,
}

/// A request, and the trace's pause before it.
struct Item {
    record: Record,
    pause_ns: u64,
}

/// The access of a thread to the target.
enum Reach {
    File(File),
    Nbd(Client),
    /// A target that never answers.
    #[cfg(test)]
    Hung,
}

/// Replays a trace; its writes overwrite the target. `progress` is called regularly; `stop` ends the replay cleanly.
///
/// # Errors
/// When the target cannot be opened or is smaller than a request, the trace cannot be read on, or a request is not answered
/// within `HANGS_AFTER`. Requests that fail are counted.
pub fn play(
    source: &Source,
    target: &Place,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Reached),
) -> Result<Outcome, ReplayError> {
    play_within(HANGS_AFTER, source, target, options, stop, progress)
}

fn play_within(
    patience: Duration,
    source: &Source,
    target: &Place,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Reached),
) -> Result<Outcome, ReplayError> {
    let totals = source.totals();
    let fitting = Fitting::new(totals, super::size_of(target)?, options)?;
    let failed = |source| ReplayError::Target { target: target.to_string(), source };
    let depth = options.depth.clamp(1, totals.requests().clamp(1, 4096) as usize);
    let reaches = (0..depth).map(|_| Reach::open(target, totals.reads < totals.requests(), options.direct));
    let reaches = reaches.collect::<IoResult<Vec<_>>>().map_err(failed)?;
    let largest = totals.data_bytes_max.next_multiple_of(options.align_bytes);

    let (send, receive) = sync_channel(AHEAD);
    let (ready, ends) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let played = std::thread::scope(|scope| {
        let is_over = || stop.load(Ordering::Relaxed) || ends.load(Ordering::Relaxed);
        let (fitting, ready) = (&fitting, &ready);
        let reader = scope.spawn(move || read_ahead(source, fitting, send, ready, is_over));
        while !ready.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let shared = Arc::new(Shared {
            receive: Mutex::new(receive),
            start: Instant::now(),
            pace: options.pace,
            ends: Arc::clone(&ends),
            busy: Busy::default(),
            requests: AtomicU64::new(0),
            trace_ns: AtomicU64::new(0),
            issued_ns: std::iter::repeat_with(|| AtomicU64::new(NONE)).take(depth).collect(),
        });
        // Not of the scope: a thread whose request hangs cannot be waited for.
        let worker = |(index, reach): (usize, Reach)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let mut buffer = Buffer::zeroed(largest as usize);
                fill(&mut buffer, index as u64 + 1);
                shared.work(index, reach, buffer)
            })
        };
        let workers: Vec<_> = reaches.into_iter().enumerate().map(worker).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(EVERY.min(shared.start.elapsed()));
            ends.fetch_or(stop.load(Ordering::Relaxed), Ordering::Relaxed);
            let trace_seconds = shared.trace_ns.load(Ordering::Relaxed) as f64 / 1e9;
            progress(Reached { requests: shared.requests.load(Ordering::Relaxed), trace_seconds });
            if let Some(hangs) = shared.longest().filter(|longest| *longest > patience) {
                ends.store(true, Ordering::Relaxed);
                let seconds = show_seconds(hangs.as_secs_f64());
                let words =
                    format!("a request was not answered within {seconds}: see the kernel's log, and free or replace the drive");
                return Err(failed(Error::new(ErrorKind::TimedOut, words)));
            }
        }
        let mut all = Tally::default();
        workers.into_iter().for_each(|worker| all.merge(&worker.join().expect("a worker does not panic")));
        // The reader ends, if it has not: nobody receives any more.
        ends.store(true, Ordering::Relaxed);
        reader.join().expect("the reader does not panic")?;
        Ok((all, shared))
    });
    let (tally, shared) = played?;
    let cut_short = shared.requests.load(Ordering::Relaxed) < totals.requests();
    Ok(tally.outcome(options.pace, shared.busy.seconds(), cut_short))
}

/// Sends the requests of a trace to the threads that replay them, until it `is_over`. `ready`: enough of them wait to begin.
fn read_ahead(
    source: &Source,
    fitting: &Fitting,
    send: SyncSender<Item>,
    ready: &AtomicBool,
    is_over: impl Fn() -> bool,
) -> Result<(), TraceError> {
    let (mut before_ns, mut ahead) = (0, 0);
    let read = source.each(&mut |record| {
        let pause_ns = record.time_ns.saturating_sub(before_ns);
        before_ns = record.time_ns;
        ahead += 1;
        ready.fetch_or(ahead >= AHEAD / 2, Ordering::Relaxed);
        let is_sent = send_unless(&send, Item { record: fitting.of(record), pause_ns }, &is_over);
        if is_sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    ready.store(true, Ordering::Relaxed);
    read
}

/// The results of one thread.
#[derive(Default)]
struct Tally {
    read: Kind,
    write: Kind,
    trim: Kind,
    late: Lateness,
    flushes: u64,
    errors: u64,
    /// When the first request failed, and how.
    first_error: Option<(u64, String)>,
    /// Discards that the target does not support.
    left_out: u64,
    ended_ns: u64,
}

impl Tally {
    fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.trim.merge(&other.trim);
        self.late.merge(&other.late);
        self.flushes += other.flushes;
        self.errors += other.errors;
        let first_errors = [self.first_error.take(), other.first_error.clone()];
        self.first_error = first_errors.into_iter().flatten().min_by_key(|(at_ns, _)| *at_ns);
        self.left_out += other.left_out;
        self.ended_ns = self.ended_ns.max(other.ended_ns);
    }

    /// The outcome by the results of all threads.
    fn outcome(self, pace: Pace, busy_seconds: f64, cut_short: bool) -> Outcome {
        let seconds = self.ended_ns as f64 / 1e9;
        let mut total = self.read.clone();
        total.merge(&self.write);
        total.merge(&self.trim);
        Outcome {
            seconds,
            busy_seconds,
            read: self.read.figures(seconds),
            write: self.write.figures(seconds),
            trim: self.trim.figures(seconds),
            total: total.figures(seconds).unwrap_or_default(),
            flushes: self.flushes,
            errors: self.errors,
            first_error: self.first_error.map(|(_, words)| words),
            discards_left_out: self.left_out,
            drift: if pace == Pace::Closed { Drift::default() } else { self.late.drift() },
            cut_short,
            shortfall: None,
        }
    }
}

/// The shared state of the threads.
struct Shared {
    receive: Mutex<Receiver<Item>>,
    start: Instant,
    pace: Pace,
    /// The replay is to end.
    ends: Arc<AtomicBool>,
    busy: Busy,
    requests: AtomicU64,
    trace_ns: AtomicU64,
    /// Of each thread, the time at which its present request was issued, or [`NONE`].
    issued_ns: Vec<AtomicU64>,
}

/// No request is under way.
const NONE: u64 = u64::MAX;

/// Sends an item, and waits for space. False if it `is_over` meanwhile, or nobody receives.
fn send_unless(send: &SyncSender<Item>, mut item: Item, is_over: impl Fn() -> bool) -> bool {
    loop {
        item = match send.try_send(item) {
            Ok(()) => return !is_over(),
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(item)) => item,
        };
        if is_over() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Shared {
    /// The time for which the oldest request under way has waited.
    fn longest(&self) -> Option<Duration> {
        let issued = self.issued_ns.iter().map(|issued| issued.load(Ordering::Relaxed)).min().filter(|oldest| *oldest != NONE)?;
        Some(Duration::from_nanos(self.now().saturating_sub(issued)))
    }

    fn work(&self, index: usize, mut reach: Reach, mut buffer: Buffer) -> Tally {
        let mut tally = Tally::default();
        let mut ready_ns = 0;
        loop {
            let next = self.receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Item { record, pause_ns }) = next else { return tally };
            let due_ns = match self.pace {
                Pace::Open { stretch } => (record.time_ns as f64 * stretch) as u64,
                Pace::Closed => ready_ns,
                Pace::ThinkTime { pause_max } => {
                    let pause_max = u64::try_from(pause_max.as_nanos()).unwrap_or(u64::MAX);
                    ready_ns.saturating_add(pause_ns.min(pause_max))
                }
            };
            if !self.wait_until(due_ns) {
                return tally;
            }
            self.busy.begin();
            let issued_ns = self.now();
            self.issued_ns[index].store(issued_ns, Ordering::Relaxed);
            let done = reach.issue(&record, &mut buffer);
            ready_ns = self.now();
            self.issued_ns[index].store(NONE, Ordering::Relaxed);
            self.busy.end();
            tally.late.add(issued_ns.saturating_sub(due_ns));
            tally.ended_ns = ready_ns;
            let kind = match record.op {
                Op::Read => Some(&mut tally.read),
                Op::Write => Some(&mut tally.write),
                Op::Discard => Some(&mut tally.trim),
                Op::Flush => None,
            };
            match (done, kind) {
                (Err(error), _) if record.op == Op::Discard && error.kind() == ErrorKind::Unsupported => tally.left_out += 1,
                (Err(error), _) => {
                    tally.errors += 1;
                    tally.first_error.get_or_insert_with(|| (ready_ns, failure(&record, &error)));
                }
                (Ok(()), Some(kind)) => {
                    kind.times.add(ready_ns - issued_ns);
                    kind.bytes = kind.bytes.saturating_add(record.bytes);
                }
                (Ok(()), None) => tally.flushes += 1,
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.trace_ns.fetch_max(record.time_ns, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Sleeps to just before, then spins: a sleep alone ends some 60 µs late. False: the stop flag was set.
    fn wait_until(&self, due_ns: u64) -> bool {
        const SPIN: Duration = Duration::from_micros(100);
        loop {
            if self.ends.load(Ordering::Relaxed) {
                return false;
            }
            let left = Duration::from_nanos(due_ns).saturating_sub(self.start.elapsed());
            if left <= SPIN {
                break;
            }
            std::thread::sleep((left - SPIN).min(EVERY));
        }
        while self.now() < due_ns {
            std::hint::spin_loop();
        }
        true
    }
}

impl Reach {
    fn open(target: &Place, writes: bool, direct: bool) -> IoResult<Self> {
        match target {
            #[cfg(test)]
            Place::Path(path) if path.ends_with("hung") => Ok(Self::Hung),
            Place::Path(path) => {
                let flags = if direct { OFlags::DIRECT.bits() as i32 } else { 0 };
                OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path).map(Self::File)
            }
            Place::Nbd(uri) => Client::connect(uri).map(Self::Nbd),
        }
    }

    fn issue(&mut self, record: &Record, buffer: &mut Buffer) -> IoResult<()> {
        let data = match record.op {
            Op::Read | Op::Write => &mut buffer[..record.bytes as usize],
            Op::Discard | Op::Flush => &mut [],
        };
        match (self, record.op) {
            #[cfg(test)]
            (Self::Hung, _) => loop {
                std::thread::park();
            },
            (Self::File(file), Op::Read) => file.read_exact_at(data, record.offset),
            (Self::File(file), Op::Write) => file.write_all_at(data, record.offset),
            (Self::File(file), Op::Discard) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, hole, record.offset, record.bytes).map_err(Error::from)
            }
            (Self::File(file), Op::Flush) => file.sync_data(),
            (Self::Nbd(client), Op::Read) => client.read(data, record.offset),
            (Self::Nbd(client), Op::Write) => client.write(data, record.offset),
            (Self::Nbd(client), Op::Discard) => client.discard(record.offset, record.bytes),
            (Self::Nbd(client), Op::Flush) => client.flush(),
        }
    }
}

/// A failed request in words.
fn failure(record: &Record, error: &Error) -> String {
    let what = match record.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
        Op::Flush => return format!("flush: {error}"),
    };
    format!("{what} of {} bytes at byte {}: {error}", record.bytes, record.offset)
}

/// Bytes that no controller can compress.
fn fill(buffer: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in buffer.chunks_mut(8) {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        chunk.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, the replay waited for ever, also after an interrupt.
    #[test]
    fn a_request_that_hangs_ends_the_replay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hung");
        File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file");
        // More than are read ahead.
        let records =
            (0..2 * AHEAD as u64).map(|at| Record { time_ns: at, device: 0, offset: 0, bytes: 4096, op: Op::Read, took_ns: 0 });
        let trace = crate::trace::Trace { devices: vec!["a".into()], records: records.collect() };
        let (place, options) = (Place::Path(path), Options { direct: false, ..Options::default() });
        let limit = Duration::from_millis(300);
        let never = AtomicBool::new(false);
        let error = play_within(limit, &trace.into(), &place, &options, &never, &mut |_| ()).expect_err("nothing answers");
        let words = error.to_string();
        assert!(words.contains("hung") && words.contains("was not answered within") && words.contains("kernel's log"), "{words}");
    }

    #[test]
    fn the_first_failure_of_all_threads_is_told_with_its_request() {
        let record = |op, offset| Record { time_ns: 0, device: 0, offset, bytes: 4096, op, took_ns: 0 };
        let io = Error::from_raw_os_error(5);
        let tally =
            |at, op, offset| Tally { errors: 1, first_error: Some((at, failure(&record(op, offset), &io))), ..Tally::default() };
        let mut all = Tally::default();
        for one in [tally(20, Op::Write, 8192), tally(10, Op::Read, 65_536), tally(30, Op::Flush, 0), Tally::default()] {
            all.merge(&one);
        }
        let outcome = Outcome { errors: all.errors, first_error: all.first_error.map(|(_, words)| words), ..Outcome::default() };
        let words = outcome.failed().expect("it failed");
        assert_eq!(words, "3 requests failed; the first: read of 4096 bytes at byte 65536: Input/output error (os error 5)");
    }
}
