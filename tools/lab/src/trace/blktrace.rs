//! The kernel's binary events. include/uapi/linux/blktrace_api.h: `struct blk_io_trace`.
//!
//! ```text
//! offset  0 magic u32 0x65617407 (version in the low byte)   4 sequence u32   8 time u64 ns   16 sector u64   24 bytes u32
//!        28 action u32   32 pid u32   36 device u32 (major << 20 | minor)     40 cpu u32      44 error u16    46 pdu_len u16
//! ```
//! followed by `pdu_len` bytes. The byte order is that of the traced machine, as the magic shows. The low half of `action` is the
//! event (queue 1, issue 7), the high half the kind of request.

use super::{Devices, Event, Op, Record, Stage, Take, TraceError, open};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

const EVENT: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const QUEUE: u32 = 1;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// The files of all CPUs of one device.
fn siblings(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((stem, cpu)) = name.rsplit_once(".blktrace.") else { return vec![path.into()] };
    if cpu.parse::<u32>().is_err() {
        return vec![path.into()];
    }
    let found = (0..4096).map(|cpu| path.with_file_name(format!("{stem}.blktrace.{cpu}"))).filter(|path| path.exists());
    let found: Vec<PathBuf> = found.collect();
    if found.is_empty() { vec![path.into()] } else { found }
}

/// True if a file of events begins so.
pub fn begins(bytes: &[u8]) -> bool {
    let magic = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    magic.is_some_and(|magic| magic & !0xff == MAGIC || magic.swap_bytes() & !0xff == MAGIC)
}

/// Merges the files of all CPUs by time; each is almost in order.
pub fn read(path: &Path, devices: &mut Devices, take: Take<'_>) -> Result<(), TraceError> {
    let mut files = Vec::new();
    for path in siblings(path) {
        let mut file = Events { stream: open(&path)?, path, at: 0, ready: VecDeque::new() };
        file.prepare(devices)?;
        files.push(file);
    }
    let first_of = |(at, file): (usize, &Events)| Some(Reverse((file.ready.front()?.record.time_ns, at)));
    let mut firsts: BinaryHeap<_> = files.iter().enumerate().filter_map(first_of).collect();
    while let Some(Reverse((_, at))) = firsts.pop() {
        let file = &mut files[at];
        if file.ready.pop_front().is_some_and(|event| take(event).is_break()) {
            return Ok(());
        }
        file.prepare(devices)?;
        firsts.extend(first_of((at, file)));
    }
    Ok(())
}

/// A file of events, read one after the other.
struct Events {
    path: PathBuf,
    stream: Box<dyn BufRead>,
    at: u64,
    /// The result of the last event.
    ready: VecDeque<Event>,
}

impl Events {
    /// Reads until a request is ready or the file ends.
    fn prepare(&mut self, devices: &mut Devices) -> Result<(), TraceError> {
        while self.ready.is_empty() && self.next(devices)? {}
        Ok(())
    }

    /// One event; false at the end.
    fn next(&mut self, devices: &mut Devices) -> Result<bool, TraceError> {
        let (path, at) = (self.path.clone(), self.at);
        let bad =
            |problem: &str| TraceError::Malformed { path: path.clone(), place: format!("byte {at}"), problem: problem.into() };
        let unreadable = |source| TraceError::Unreadable { path: path.clone(), source };
        if self.stream.fill_buf().map_err(unreadable)?.is_empty() {
            return Ok(false);
        }
        let mut event = [0; EVENT];
        self.stream.read_exact(&mut event).map_err(|_| bad("the last event is cut off"))?;
        let field = |from: usize, len: usize| &event[from..from + len];
        let magic = u32::from_le_bytes(field(0, 4).try_into().expect("four bytes"));
        let little = magic & !0xff == MAGIC;
        if !little && magic.swap_bytes() & !0xff != MAGIC {
            return Err(bad("no blktrace event begins here"));
        }
        let number = |from: usize, len: usize| {
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            if little { field(from, len).iter().rev().fold(0, add) } else { field(from, len).iter().fold(0, add) }
        };
        let (time_ns, sector, length) = (number(8, 8), number(16, 8), number(24, 4));
        let (action, device, more) = (number(28, 4) as u32, number(36, 4), number(46, 2));
        std::io::copy(&mut self.stream.by_ref().take(more), &mut std::io::sink()).map_err(unreadable)?;
        self.at = at + EVENT as u64 + more;
        let what = action & 0xffff;
        let stage = match what {
            QUEUE => Stage::Queued,
            ISSUE => Stage::Issued,
            COMPLETE => Stage::Completed,
            _ => return Ok(true),
        };
        if action & NOTIFY != 0 {
            return Ok(true);
        }
        let name = format!("{},{}", device >> 20, device & 0xf_ffff);
        let device = devices.index(&name).map_err(|problem| bad(&problem))?;
        let op = match () {
            () if action & DISCARD != 0 => Op::Discard,
            () if action & WRITE != 0 => Op::Write,
            () => Op::Read,
        };
        let record = Record { time_ns, device, offset: sector.saturating_mul(512), bytes: length, op, took_ns: 0 };
        let flush = Record { offset: 0, bytes: 0, op: Op::Flush, ..record };
        let parts = [
            (action & FLUSH != 0).then_some(flush),
            (length > 0).then_some(record),
            (action & FUA != 0 && length > 0).then_some(flush),
        ];
        self.ready.extend(parts.into_iter().flatten().map(|record| Event { record, stage, line: 0 }));
        Ok(true)
    }
}
