//! Threads that replay on a file or block device, each one request at a time, and note when it was due, issued and done.

use super::{Drift, Options, Outcome, Pace, ReplayError, fitted};
use crate::result::{Figures, Latency};
use crate::trace::{Op, Record, Trace};
use rustix::fs::{FallocateFlags, OFlags};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stria_block::Buffer;

/// What became of one request, in nanoseconds since the start.
#[derive(Clone, Copy)]
struct Done {
    record: usize,
    due_ns: u64,
    issued_ns: u64,
    ended_ns: u64,
    failed: bool,
}

/// Replays `trace` on a file or block device; what it writes there destroys what was there. `progress` is called now and then
/// with the requests done.
///
/// # Errors
/// When the target cannot be opened or is smaller than a request. Requests that fail are counted, not fatal.
pub fn play(trace: &Trace, target: &Path, options: &Options, progress: &(dyn Fn(usize) + Sync)) -> Result<Outcome, ReplayError> {
    let failed = |source| ReplayError::Target { path: target.to_path_buf(), source };
    let writes = trace.records.iter().any(|record| record.op != Op::Read);
    let flags = if options.direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let mut file = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(target).map_err(failed)?;
    // Of a block device metadata tells no length; its end does.
    let size_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let records = fitted(trace, size_bytes, options)?;
    let next = AtomicUsize::new(0);
    let seed = AtomicU64::new(1);
    let start = Instant::now();
    let depth = options.depth.clamp(1, records.len().max(1));
    let mut done: Vec<Done> = std::thread::scope(|scope| {
        let worker = || {
            let largest = records.iter().filter(|record| record.op != Op::Discard).map(|record| record.bytes).max().unwrap_or(0);
            let mut buffer = Buffer::zeroed(largest as usize);
            fill(&mut buffer, seed.fetch_add(1, Ordering::Relaxed));
            let mut done = Vec::new();
            let mut ready_ns = 0;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(record) = records.get(index) else { return done };
                let due_ns = due(&records, index, options.pace, ready_ns);
                wait_until(start, due_ns);
                let issued_ns = now(start);
                let failed = issue(&file, record, &mut buffer).is_err();
                ready_ns = now(start);
                done.push(Done { record: index, due_ns, issued_ns, ended_ns: ready_ns, failed });
                if index.is_multiple_of(256) {
                    progress(index);
                }
            }
        };
        let workers: Vec<_> = (0..depth).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    done.sort_by_key(|done| done.issued_ns);
    progress(records.len());
    Ok(outcome(&records, &done, options.pace))
}

/// When a request is due, in nanoseconds since the start; `ready_ns`: when its thread became free.
fn due(records: &[Record], index: usize, pace: Pace, ready_ns: u64) -> u64 {
    match pace {
        Pace::Open { stretch } => (records[index].time_ns as f64 * stretch) as u64,
        Pace::Closed => ready_ns,
        Pace::ThinkTime { pause_max } => {
            let before = if index == 0 { 0 } else { records[index - 1].time_ns };
            ready_ns + (records[index].time_ns - before).min(pause_max.as_nanos() as u64)
        }
    }
}

fn now(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

/// Sleeps to just before, then spins: a sleep alone ends some 60 µs late.
fn wait_until(start: Instant, due_ns: u64) {
    const SPIN: Duration = Duration::from_micros(100);
    let left = Duration::from_nanos(due_ns).saturating_sub(start.elapsed());
    if left > SPIN {
        std::thread::sleep(left - SPIN);
    }
    while start.elapsed().as_nanos() < u128::from(due_ns) {
        std::hint::spin_loop();
    }
}

fn issue(file: &File, record: &Record, buffer: &mut Buffer) -> std::io::Result<()> {
    match record.op {
        Op::Read => file.read_exact_at(&mut buffer[..record.bytes as usize], record.offset),
        Op::Write => file.write_all_at(&buffer[..record.bytes as usize], record.offset),
        Op::Discard => {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, hole, record.offset, record.bytes).map_err(Into::into)
        }
        Op::Flush => file.sync_data(),
    }
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

fn outcome(records: &[Record], done: &[Done], pace: Pace) -> Outcome {
    let end_ns = done.iter().map(|done| done.ended_ns).max().unwrap_or(0);
    let seconds = end_ns as f64 / 1e9;
    // Requests in order of issue: busy time is the length of their union.
    let (mut busy_ns, mut covered_ns) = (0, 0);
    for request in done {
        busy_ns += request.ended_ns.saturating_sub(request.issued_ns.max(covered_ns));
        covered_ns = covered_ns.max(request.ended_ns);
    }
    let figures = |wanted: &[Op]| {
        let found = done.iter().filter(|done| !done.failed && wanted.contains(&records[done.record].op));
        let (mut bytes, mut latencies) = (0, Vec::new());
        for request in found {
            bytes += records[request.record].bytes;
            latencies.push(request.ended_ns - request.issued_ns);
        }
        let requests = latencies.len() as u64;
        (requests > 0).then(|| Figures {
            requests,
            bytes,
            iops: requests as f64 / seconds,
            mb_per_s: bytes as f64 / 1e6 / seconds,
            latency: latency(latencies),
        })
    };
    let late = done.iter().map(|done| done.issued_ns.saturating_sub(done.due_ns) as f64);
    Outcome {
        seconds,
        busy_seconds: busy_ns as f64 / 1e9,
        read: figures(&[Op::Read]),
        write: figures(&[Op::Write]),
        trim: figures(&[Op::Discard]),
        total: figures(&[Op::Read, Op::Write, Op::Discard]).unwrap_or_default(),
        flushes: done.iter().filter(|done| records[done.record].op == Op::Flush).count() as u64,
        errors: done.iter().filter(|done| done.failed).count() as u64,
        drift: if pace == Pace::Closed { Drift::default() } else { Drift::of(late.collect()) },
    }
}

fn latency(mut nanos: Vec<u64>) -> Latency {
    nanos.sort_unstable();
    let count = nanos.len() as f64;
    let mean_ns = nanos.iter().sum::<u64>() as f64 / count;
    let variance = nanos.iter().map(|value| (*value as f64 - mean_ns).powi(2)).sum::<f64>() / count;
    let at = |share: f64| nanos[((count * share).ceil() as usize).clamp(1, nanos.len()) - 1] as f64;
    let mut bins = BTreeMap::new();
    for value in &nanos {
        // 32 bins to a power of two: within 3 %.
        let shift = (64 - value.leading_zeros()).saturating_sub(6);
        *bins.entry(value >> shift << shift).or_insert(0) += 1;
    }
    Latency {
        min_ns: nanos[0] as f64,
        mean_ns,
        stddev_ns: variance.sqrt(),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p99999_ns: at(0.99999),
        max_ns: nanos[nanos.len() - 1] as f64,
        bins: bins.into_iter().collect(),
    }
}
