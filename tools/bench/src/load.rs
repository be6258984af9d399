//! The load: a closed loop on the calling thread, the same thread and loop that the device lives in (one lane).
//!
//! Each of `queue_depth` entries has one request in flight, and its memory, made before the clock starts: nothing is
//! allocated per request. The clock is read once per turn; a request's latency runs from the turn that submitted it to
//! the turn that found it ended.

use crate::ledger::{Fault, Ledger};
use crate::outcome::{Latencies, Outcome};
use rustix::time::{ClockId, clock_gettime};
use std::ops::Range;
use std::time::Duration;
use stria_block::{BlockDevice, Buffer, Completion, Data, IoError, Nanos, Operation, Request, SECTOR_BYTES, Segments};
use stria_chance::Chance;
use stria_drive::{Ring, monotonic_now};

/// The position of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Order {
    /// One after another from the start of the region, and again from there at its end.
    Sequential,
    /// Anywhere in the region, aligned to the block size, all positions equally likely.
    Random,
}

/// The end of a load, which waits for requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this time.
    Time(Duration),
    /// After this number of reads and writes.
    Operations(u64),
}

/// A load for a device.
#[derive(Clone, Debug)]
pub struct Load {
    /// Bytes of each read and write: a multiple of the device's logical block.
    pub block_bytes: u32,
    /// The percentage of reads, chosen at random.
    pub read_percent: u8,
    /// Requests in flight.
    pub queue_depth: usize,
    /// Their positions.
    pub order: Order,
    /// Sectors to stay in; `None`: the whole device. With a ledger, the ledger's region.
    pub region: Option<Range<u64>>,
    /// Runs before measuring begins; not part of `limit`.
    pub warm_up: Duration,
    /// When to end.
    pub limit: Limit,
    /// The number of writes before each flush.
    pub flush_every_writes: Option<u64>,
    /// The seed of positions, mix and contents.
    pub seed: u64,
    /// With a ledger: only the blocks whose contents are known, one after another.
    pub known_only: bool,
}

impl Default for Load {
    /// 4 KiB random reads at queue depth 1 for a second.
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            read_percent: 100,
            queue_depth: 1,
            order: Order::Random,
            region: None,
            warm_up: Duration::ZERO,
            limit: Limit::Time(Duration::from_secs(1)),
            flush_every_writes: None,
            seed: 1,
            known_only: false,
        }
    }
}

/// The target of a load.
pub struct Target<'a> {
    /// The device, on this thread.
    pub device: &'a mut dyn BlockDevice,
    /// The ring of its drives, to sleep in; `None` when it has no drives below it.
    pub ring: Option<&'a Ring>,
}

/// The reason why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The load does not fit the device.
    #[error("the load cannot run: {0}")]
    Unsuitable(String),
    /// A request failed.
    #[error("{what} of {block_bytes} bytes at sector {sector} failed: {source}")]
    Io {
        /// Read, write or flush.
        what: &'static str,
        /// Its size.
        block_bytes: u32,
        /// Its entry.
        sector: u64,
        /// The device's error.
        source: IoError,
    },
    /// A read returned other data than was written.
    #[error("verification failed after {verified_blocks} good blocks: {fault}")]
    Mismatch {
        /// The first that was found.
        fault: Fault,
        /// Blocks compared before.
        verified_blocks: u64,
    },
    /// No request has ended for a minute, or none ever will.
    #[error("the device does not end its requests: {in_flight} are in flight and none has ended for {} s", waited.as_secs())]
    Stalled {
        /// Requests that did not end.
        in_flight: usize,
        /// How long.
        waited: Duration,
    },
}

/// A minute: longer than any drive's own error recovery.
const STALL: Nanos = 60_000_000_000;
/// The longest time between two checks of the clock while waiting.
const NAP_MAX: Nanos = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
}

/// An entry for one request: the request in flight, and otherwise its memory.
struct Entry {
    kind: Kind,
    block: u64,
    submitted: Nanos,
    /// For reads and, with a ledger, writes.
    buffer: Option<Segments<Buffer>>,
    /// For writes without a ledger: the same bytes every time.
    data: Option<Segments<Data>>,
}

struct Run<'a> {
    load: &'a Load,
    target: Target<'a>,
    ledger: Option<&'a mut Ledger>,
    entries: Vec<Entry>,
    chance: Chance,
    start_sector: u64,
    block_sectors: u64,
    block_count: u64,
    next_block: u64,
    writes_since_flush: u64,
    in_flight: usize,
    /// Reads and writes still to be submitted.
    left: u64,
    measuring: bool,
    /// Of reads, writes, flushes.
    latencies: [Latencies; 3],
    verified_blocks: u64,
    failure: Option<LoadError>,
}

impl Load {
    /// The load that reads each block of `ledger` once whose contents are known, and compares it. If none is known, it reads one.
    pub fn check(ledger: &Ledger, queue_depth: usize) -> Self {
        let blocks = ledger.known_blocks().max(1);
        Self {
            block_bytes: ledger.block_bytes(),
            queue_depth: queue_depth.min(blocks),
            order: Order::Sequential,
            limit: Limit::Operations(blocks as u64),
            known_only: true,
            ..Self::default()
        }
    }

    /// Runs the load. With a `ledger`, writes carry its pattern, reads are compared with it, and no two requests are
    /// in flight on one block.
    ///
    /// # Errors
    /// [`LoadError`]; no request is in flight any more, except after [`LoadError::Stalled`].
    pub fn run<'a>(&'a self, target: Target<'a>, ledger: Option<&'a mut Ledger>) -> Result<Outcome, LoadError> {
        Run::new(self, target, ledger)?.run()
    }

    /// The region in whole blocks: first sector, sectors of a block, count of blocks.
    fn blocks(&self, device: &dyn BlockDevice, ledger: Option<&Ledger>) -> Result<(u64, u64, u64), LoadError> {
        let limits = device.limits();
        let region = match ledger {
            Some(ledger) => ledger.region(),
            None => self.region.clone().unwrap_or(0..limits.size_sectors),
        };
        let logical = limits.logical_block_bytes;
        let block_sectors = u64::from(self.block_bytes) / SECTOR_BYTES as u64;
        let logical_sectors = u64::from(logical) / SECTOR_BYTES as u64;
        let problem = if self.block_bytes == 0 || !self.block_bytes.is_multiple_of(logical) {
            format!("its block of {} bytes is not a multiple of the device's {logical}", self.block_bytes)
        } else if region.start > region.end || region.end > limits.size_sectors {
            format!("sectors {}..{} are not on a device of {} sectors", region.start, region.end, limits.size_sectors)
        } else if !region.start.is_multiple_of(logical_sectors) {
            format!("its region starts at sector {}, which is not the start of a logical block", region.start)
        } else if region.end - region.start < block_sectors {
            format!("the region of {} sectors does not hold one block", region.end - region.start)
        } else if self.queue_depth == 0 {
            "a queue depth of 0 does nothing".into()
        } else if self.read_percent > 100 {
            format!("{} % reads is more than 100", self.read_percent)
        } else if ledger.is_some_and(|ledger| ledger.block_bytes() != self.block_bytes) {
            "its ledger has another block size".into()
        } else if ledger.is_some() && (region.end - region.start) / block_sectors < self.queue_depth as u64 {
            format!("with verification {} requests in flight need as many blocks", self.queue_depth)
        } else {
            return Ok((region.start, block_sectors, (region.end - region.start) / block_sectors));
        };
        Err(LoadError::Unsuitable(problem))
    }
}

impl<'a> Run<'a> {
    fn new(load: &'a Load, target: Target<'a>, mut ledger: Option<&'a mut Ledger>) -> Result<Self, LoadError> {
        let (start_sector, block_sectors, block_count) = load.blocks(target.device, ledger.as_deref())?;
        if let Some(ledger) = &mut ledger {
            ledger.begin();
        }
        let mut chance = Chance::from_state(load.seed);
        let mut memory = || {
            let mut buffer = Buffer::zeroed(load.block_bytes as usize);
            chance.fill(&mut buffer);
            buffer
        };
        let needs_data = load.read_percent < 100 && ledger.is_none();
        let needs_buffer = load.read_percent > 0 || ledger.is_some();
        let entries = (0..load.queue_depth)
            .map(|_| Entry {
                kind: Kind::Flush,
                block: 0,
                submitted: 0,
                buffer: needs_buffer.then(|| std::iter::once(memory()).collect()),
                data: needs_data.then(|| std::iter::once(memory().freeze()).collect()),
            })
            .collect();
        Ok(Self {
            load,
            target,
            ledger,
            entries,
            chance,
            start_sector,
            block_sectors,
            block_count,
            next_block: 0,
            writes_since_flush: 0,
            in_flight: 0,
            left: u64::MAX,
            measuring: false,
            latencies: [Latencies::new(), Latencies::new(), Latencies::new()],
            verified_blocks: 0,
            failure: None,
        })
    }

    fn run(mut self) -> Result<Outcome, LoadError> {
        let mut ended = Vec::with_capacity(self.entries.len());
        let mut now = monotonic_now();
        let measure_from = now + self.load.warm_up.as_nanos() as u64;
        let mut started = self.load.warm_up.is_zero().then(|| self.begin_measuring(now));
        let mut measured = None;
        for entry in 0..self.entries.len() {
            self.submit(entry, now);
        }
        let mut last_end = now;
        while self.in_flight > 0 {
            self.target.device.poll(now, &mut ended);
            now = monotonic_now();
            if ended.is_empty() {
                let waited = now - last_end;
                if waited > STALL || !self.wait(now) {
                    let waited = Duration::from_nanos(waited);
                    return Err(LoadError::Stalled { in_flight: self.in_flight, waited });
                }
                now = monotonic_now();
                continue;
            }
            last_end = now;
            for completion in ended.drain(..) {
                let entry = completion.tag as usize;
                self.end(completion, now);
                self.submit(entry, now);
            }
            if let Some(ring) = self.target.ring {
                ring.poll();
            }
            match started {
                None if now >= measure_from => started = Some(self.begin_measuring(now)),
                Some((start, cpu)) if self.measuring && self.is_over(now - start) => {
                    measured = Some((Duration::from_nanos((now - start).max(1)), self.cpu().saturating_sub(cpu)));
                    self.measuring = false;
                    self.left = 0;
                }
                _ => {}
            }
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let (elapsed, cpu) = measured.expect("a load without failure ends by its limit");
        let [reads, writes, flushes] = self.latencies.each_ref().map(Latencies::summary);
        Ok(Outcome {
            elapsed,
            operations: reads.count + writes.count,
            block_bytes: self.load.block_bytes,
            cpu,
            reads,
            writes,
            flushes,
            verified_blocks: self.verified_blocks,
        })
    }

    /// Returns the time, and the CPU time at that moment.
    fn begin_measuring(&mut self, now: Nanos) -> (Nanos, Duration) {
        self.measuring = true;
        if let Limit::Operations(count) = self.load.limit {
            self.left = count;
        }
        (now, self.cpu())
    }

    fn is_over(&self, elapsed: Nanos) -> bool {
        match self.load.limit {
            Limit::Time(limit) => u128::from(elapsed) >= limit.as_nanos(),
            Limit::Operations(_) => self.in_flight == 0,
        }
    }

    fn cpu(&self) -> Duration {
        let clock = if self.target.ring.is_some() { ClockId::ProcessCPUTime } else { ClockId::ThreadCPUTime };
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Waits. False: no request would ever end.
    fn wait(&self, now: Nanos) -> bool {
        let wake = self.target.device.next_wake();
        match (wake, self.target.ring) {
            (Some(wake), Some(ring)) if wake <= now => ring.poll(),
            (Some(wake), None) if wake <= now => std::hint::spin_loop(),
            (wake, Some(ring)) => {
                let nap = wake.map_or(NAP_MAX, |wake| (wake - now).min(NAP_MAX));
                ring.wait(Some(Duration::from_nanos(nap)));
            }
            (Some(wake), None) => std::thread::sleep(Duration::from_nanos((wake - now).min(NAP_MAX))),
            (None, None) => return false,
        }
        true
    }

    /// Puts the next request into an entry that is free, if there is one to do.
    fn submit(&mut self, index: usize, now: Nanos) {
        if self.left == 0 {
            return;
        }
        let flush = self.load.flush_every_writes.is_some_and(|every| self.writes_since_flush >= every);
        let entry = &mut self.entries[index];
        entry.submitted = now;
        self.in_flight += 1;
        if flush {
            self.writes_since_flush = 0;
            entry.kind = Kind::Flush;
            let request = Request { tag: index as u64, start_sector: 0, sectors: 0, operation: Operation::Flush };
            return self.target.device.submit(request);
        }
        self.left -= 1;
        let wanted = match self.load.order {
            Order::Random => self.chance.below(self.block_count),
            Order::Sequential => {
                let known = self.ledger.as_ref().filter(|_| self.load.known_only);
                let block = known.map_or(self.next_block, |ledger| {
                    ledger.known_from(self.next_block).or_else(|| ledger.known_from(0)).unwrap_or(0)
                });
                self.next_block = if block + 1 == self.block_count { 0 } else { block + 1 };
                block
            }
        };
        let read = match self.load.read_percent {
            100 => true,
            0 => false,
            percent => self.chance.below(100) < u64::from(percent),
        };
        entry.kind = if read { Kind::Read } else { Kind::Write };
        self.writes_since_flush += u64::from(!read);
        entry.block = match &mut self.ledger {
            Some(ledger) => ledger.reserve(wanted).expect("there are as many blocks as entries"),
            None => wanted,
        };
        let operation = if read {
            Operation::Read { into: entry.buffer.take().expect("a free entry has its buffer") }
        } else {
            let from = match &mut self.ledger {
                Some(ledger) => {
                    let mut buffer =
                        entry.buffer.take().and_then(|mut buffer| buffer.pop()).expect("a free entry has its buffer");
                    ledger.write_begin(entry.block, &mut buffer);
                    std::iter::once(buffer.freeze()).collect()
                }
                None => entry.data.take().expect("a free entry has its data"),
            };
            Operation::Write { from, fua: false }
        };
        let start_sector = self.start_sector + entry.block * self.block_sectors;
        self.target.device.submit(Request { tag: index as u64, start_sector, sectors: self.block_sectors, operation });
    }

    /// A request has ended; its entry is free again.
    fn end(&mut self, completion: Completion, now: Nanos) {
        let entry = &mut self.entries[completion.tag as usize];
        self.in_flight -= 1;
        if self.measuring {
            self.latencies[entry.kind as usize].record(now - entry.submitted);
        }
        let len = self.load.block_bytes as usize;
        let good = completion.result.is_ok();
        match completion.operation {
            Operation::Read { into } => {
                if let Some(ledger) = &mut self.ledger {
                    let compared = match &into[..] {
                        [whole] => ledger.read_end(entry.block, good.then_some(&**whole)),
                        parts => {
                            let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
                            ledger.read_end(entry.block, good.then_some(&whole))
                        }
                    };
                    match compared {
                        Ok(compared) => self.verified_blocks += u64::from(compared),
                        Err(fault) => {
                            let verified_blocks = self.verified_blocks;
                            self.failure.get_or_insert(LoadError::Mismatch { fault, verified_blocks });
                        }
                    }
                }
                // Almost always the same buffer; a device may have cut it, or not returned it after an error.
                let whole = into.len() == 1 && into[0].len() == len;
                entry.buffer = Some(if whole { into } else { fresh(len) });
            }
            Operation::Write { from, .. } => match &mut self.ledger {
                Some(ledger) => {
                    ledger.write_end(entry.block, good);
                    let claim = from.first().map(Data::claim);
                    drop(from);
                    let lent = claim.and_then(|claim| claim.redeem().ok()).filter(|buffer| buffer.len() == len);
                    entry.buffer = Some(lent.map_or_else(|| fresh(len), |buffer| std::iter::once(buffer).collect()));
                }
                None => entry.data = Some(from),
            },
            _ => {}
        }
        if let Err(source) = completion.result {
            let what = ["read", "write", "flush"][entry.kind as usize];
            let sector = self.start_sector + entry.block * self.block_sectors;
            self.failure.get_or_insert(LoadError::Io { what, block_bytes: self.load.block_bytes, sector, source });
        }
        if self.failure.is_some() {
            self.left = 0;
        }
    }
}

fn fresh(len: usize) -> Segments<Buffer> {
    std::iter::once(Buffer::zeroed(len)).collect()
}
