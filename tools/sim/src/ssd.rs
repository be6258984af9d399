//! An SSD by its published figures, in virtual time, as an array's member: for measuring costs, not for proofs; it stores no
//! bytes.
//!
//! It has these parts, and no more:
//! - **Units** (dies): a 4 KiB read keeps one of them busy. The address selects it, so reads of one unit queue.
//! - **A write buffer**: a write ends when it is taken in. From it pages of 32 KiB are programmed, unit by unit in turn, as fast
//!   as the drive writes sequentially. When programming is a full buffer behind, writes wait for it. A read of a unit that
//!   programs suspends the program, and waits for that.
//! - **Write amplification**: the programming cost of random writes is multiplied by the ratio of the sequential speed to the
//!   published random rate. The space before the data (bitmap, log) is overwritten again and again within a few MiB. Its old
//!   pages are dead long before their block is collected, so it is not amplified, unless [`Figures::amplifies_all`]. Writes of
//!   128 KiB and more are not amplified either, as they count as parts of a stream.
//! - **A volatile cache**, on some: FUA writes and flushes wait for a flush; one runs at a time and takes all that wait along.

use crate::chance::{Chance, mix};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use stria_block::{BlockDevice, Completion, Limits, Nanos, Operation, Request, bytes};

/// 32 KiB: what one program writes, two planes of a TLC die.
const PROGRAM_BYTES: u64 = 32 << 10;
/// 128 KiB: a write of this size counts as part of a stream.
const STREAM_BYTES: u64 = 128 << 10;
/// The bytes by which programming may be behind the accepted writes.
const BUFFER_NS: Nanos = 4_000_000;
/// 20 µs: how long a read waits for a program to be suspended.
const SUSPEND_NS: Nanos = 20_000;

/// The published figures of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Its name on the command line.
    pub key: &'static str,
    /// The drive.
    pub name: &'static str,
    /// The source.
    pub source: &'static str,
    /// Size.
    pub sectors: u64,
    /// Reads that run at the same time: chosen so that `read_iops` come out at 128 in flight.
    pub units: u64,
    /// The latency of a single 4 KiB read.
    pub read_ns: Nanos,
    /// The latency of a single 4 KiB write.
    pub write_ns: Nanos,
    /// 4 KiB random reads a second, 128 in flight.
    pub read_iops: u64,
    /// 4 KiB random writes a second, sustained.
    pub write_iops: u64,
    /// Bytes a second over the link.
    pub link_bytes_per_s: u64,
    /// The speed of sequential writes, sustained.
    pub write_bytes_per_s: u64,
    /// The time of a flush; `None`: nothing can be lost, so a flush takes no time.
    pub flush_ns: Option<Nanos>,
    /// True if the space before the data is amplified like random writes.
    pub amplifies_all: bool,
}

/// The drives that are modelled.
pub const DRIVES: [Figures; 3] = [
    Figures {
        key: "p4510",
        name: "Intel SSD DC P4510 4 TB",
        source: "\"RAID arrays on NVMe\", fio on Ubuntu 20.04: 11,300 and 40,700 IOPS alone, 453,000 and 105,000 with 128 threads; \
                 sequential speeds as Intel gave them, not looked up again",
        sectors: 4_000_787_030_016 / 512,
        units: 48,
        read_ns: 88_500,
        write_ns: 24_500,
        read_iops: 453_000,
        write_iops: 105_000,
        link_bytes_per_s: 3_200_000_000,
        write_bytes_per_s: 2_900_000_000,
        flush_ns: None,
        amplifies_all: false,
    },
    Figures {
        key: "p5810",
        name: "Solidigm D7-P5810 1.6 TB",
        source: "computerbase.de and cnews.cz on its launch, 2023: 865,000 and 495,000 random IOPS, random writes in 15 us, 6,400 and \
                 4,000 MB/s; a read alone is taken as 60 us",
        sectors: 1_600_321_314_816 / 512,
        units: 70,
        read_ns: 60_000,
        write_ns: 15_000,
        read_iops: 865_000,
        write_iops: 495_000,
        link_bytes_per_s: 6_400_000_000,
        write_bytes_per_s: 4_000_000_000,
        flush_ns: None,
        amplifies_all: false,
    },
    Figures {
        key: "970",
        name: "Samsung 970 EVO Plus 1 TB",
        source: "Samsung's figures while its fast cache lasts (kitguru.net for writes: 60,000 IOPS alone, 550,000 at QD 32; 19,000 and \
                 600,000 reads, 3,500 and 3,300 MB/s not looked up again); a flush is taken as 1 ms, where reports of fsync on such \
                 drives go up to 5 ms (redis/redis#10882)",
        sectors: 1_000_204_886_016 / 512,
        units: 36,
        read_ns: 52_500,
        write_ns: 16_500,
        read_iops: 600_000,
        write_iops: 550_000,
        link_bytes_per_s: 3_500_000_000,
        write_bytes_per_s: 3_300_000_000,
        flush_ns: Some(1_000_000),
        amplifies_all: false,
    },
];

/// Virtual time, and the counts of requests to all drives.
#[derive(Debug, Default)]
pub struct Meter {
    now: Cell<Nanos>,
    /// Requests to drives.
    pub requests: Cell<u64>,
    /// Writes to drives.
    pub writes: Cell<u64>,
    /// Sectors that were written.
    pub written_sectors: Cell<u64>,
    /// Flushes of drives.
    pub flushes: Cell<u64>,
}

impl Meter {
    /// Virtual time.
    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    /// The processor is busy for this time.
    pub fn spend(&self, time: Nanos) {
        self.now.set(self.now.get() + time);
    }

    /// Moves time to `due`.
    pub fn wait_until(&self, due: Nanos) {
        self.now.set(self.now.get().max(due));
    }
}

/// The processor time of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The time for each client request, besides those to members.
    pub client_ns: Nanos,
    /// The time for each request to a member.
    pub request_ns: Nanos,
    /// Additional time for each 4 KiB of an append to the log.
    pub log_page_ns: Nanos,
}

#[derive(Clone, Copy, Default)]
struct Unit {
    reads_end: Nanos,
    programs_end: Nanos,
}

struct Due {
    at: Nanos,
    order: u64,
    request: Request,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// One drive.
pub struct Ssd {
    figures: Figures,
    cost: Cost,
    limits: Limits,
    meter: Rc<Meter>,
    chance: Chance,
    /// Metadata lies before this sector.
    data_start_sector: u64,
    units: Vec<Unit>,
    /// The unit that is programmed next, and the bytes that wait for a full page.
    turn: usize,
    gathered: u64,
    /// The time at which the last program ends.
    programs_end: Nanos,
    link_free: Nanos,
    /// The start and end of the last flush.
    flush: (Nanos, Nanos),
    order: u64,
    queue: BinaryHeap<Reverse<Due>>,
}

impl Ssd {
    /// An idle drive.
    pub fn new(figures: Figures, cost: Cost, data_start_sector: u64, meter: Rc<Meter>, chance: Chance) -> Self {
        Self {
            limits: Limits { volatile_cache: figures.flush_ns.is_some(), ..Limits::plain(figures.sectors) },
            figures,
            cost,
            meter,
            chance,
            data_start_sector,
            units: vec![Unit::default(); figures.units as usize],
            turn: 0,
            gathered: 0,
            programs_end: 0,
            link_free: 0,
            flush: (0, 0),
            order: 0,
            queue: BinaryHeap::new(),
        }
    }

    /// The time at which a read ends that begins now.
    fn read(&mut self, sector: u64, sectors: u64) -> Nanos {
        let mut end = 0;
        for page in sector / 8..(sector + sectors).div_ceil(8) {
            let unit = &mut self.units[(mix(page) % self.figures.units) as usize];
            let start = unit.reads_end.max(self.meter.now());
            let programs = unit.programs_end.saturating_sub(start);
            // A tenth more or less, as cells and retries differ.
            let cell = self.figures.read_ns * (90 + self.chance.below(21)) / 100;
            unit.reads_end = start + programs.min(SUSPEND_NS) + cell;
            if programs > 0 {
                unit.programs_end += programs.min(SUSPEND_NS) + cell;
            }
            end = end.max(unit.reads_end);
        }
        end
    }

    /// The time at which a write is taken in that begins now.
    fn write(&mut self, sector: u64, sectors: u64) -> Nanos {
        let now = self.meter.now();
        let len = bytes(sectors) as u64;
        self.link_free = self.link_free.max(now) + len * 1_000_000_000 / self.figures.link_bytes_per_s;
        let recycled = sector < self.data_start_sector && !self.figures.amplifies_all;
        let random = self.figures.write_iops * 4096;
        self.gathered +=
            if recycled || len >= STREAM_BYTES { len } else { (len * self.figures.write_bytes_per_s / random).max(len) };
        while self.gathered >= PROGRAM_BYTES {
            self.gathered -= PROGRAM_BYTES;
            self.program(now);
        }
        self.programs_end.saturating_sub(BUFFER_NS).max(self.link_free) + self.figures.write_ns
    }

    fn program(&mut self, now: Nanos) {
        let time = self.figures.units * PROGRAM_BYTES * 1_000_000_000 / self.figures.write_bytes_per_s;
        let unit = &mut self.units[self.turn];
        self.turn = (self.turn + 1) % self.figures.units as usize;
        unit.programs_end = unit.programs_end.max(now) + time;
        self.programs_end = self.programs_end.max(unit.programs_end);
    }

    /// The time at which everything is durable that was taken in by `taken`.
    fn durable(&mut self, taken: Nanos) -> Nanos {
        let Some(flush_ns) = self.figures.flush_ns else { return taken };
        if self.flush.0 < taken {
            let start = self.flush.1.max(taken);
            self.flush = (start, start + flush_ns);
            if self.gathered > 0 {
                self.gathered = 0;
                self.program(start);
            }
        }
        self.flush.1
    }
}

impl BlockDevice for Ssd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let Request { start_sector, sectors, .. } = request;
        let meter = Rc::clone(&self.meter);
        meter.requests.set(meter.requests.get() + 1);
        meter.spend(self.cost.request_ns);
        let at = match request.operation {
            Operation::Read { .. } => self.read(start_sector, sectors),
            Operation::Write { fua, .. } => {
                if start_sector < self.data_start_sector {
                    meter.spend(self.cost.log_page_ns * (sectors / 8));
                }
                meter.writes.set(meter.writes.get() + 1);
                meter.written_sectors.set(meter.written_sectors.get() + sectors);
                let taken = self.write(start_sector, sectors);
                if fua { self.durable(taken) } else { taken }
            }
            Operation::Flush => {
                meter.flushes.set(meter.flushes.get() + 1);
                self.durable(meter.now())
            }
            _ => panic!("no price asks for {:?}", request.operation),
        };
        self.order += 1;
        self.queue.push(Reverse(Due { at, order: self.order, request }));
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while self.queue.peek().is_some_and(|Reverse(due)| due.at <= now) {
            let Reverse(due) = self.queue.pop().expect("it was seen");
            completions.push(due.request.complete(Ok(())));
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.queue.peek().map(|Reverse(due)| due.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::{Buffer, Segments};

    /// Requests a second of one kind with so many in flight.
    fn iops(figures: Figures, depth: u64, sectors: u64, write: bool) -> f64 {
        let meter = Rc::new(Meter::default());
        let mut drive = Ssd::new(figures, Cost::default(), 0, Rc::clone(&meter), Chance::new(1, 1));
        let mut chance = Chance::new(1, 2);
        let (total, mut begun, mut ended, mut half) = (60_000, 0, 0, 0);
        let mut completions = Vec::new();
        while ended < total {
            while begun < ended + depth {
                let buffer = Buffer::zeroed(bytes(sectors));
                let operation = match write {
                    true => Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua: false },
                    false => Operation::Read { into: std::iter::once(buffer).collect::<Segments<Buffer>>() },
                };
                let start_sector = chance.below(figures.sectors / 8 - 64) * 8;
                drive.submit(Request { tag: begun, start_sector, sectors, operation });
                begun += 1;
            }
            meter.wait_until(drive.next_wake().expect("something runs"));
            drive.poll(meter.now(), &mut completions);
            let before = ended;
            ended += completions.drain(..).count() as u64;
            if before < total / 2 && ended >= total / 2 {
                half = meter.now();
            }
        }
        (total / 2) as f64 * 1e9 / (meter.now() - half) as f64
    }

    #[test]
    fn every_model_meets_the_published_figures() {
        for figures in DRIVES {
            let near = |found: f64, published: f64, what: &str| {
                let ratio = found / published;
                assert!((0.93..1.07).contains(&ratio), "{}: {what}: {found:.0} instead of {published:.0}", figures.name);
            };
            near(iops(figures, 1, 8, false), 1e9 / figures.read_ns as f64, "reads alone");
            near(iops(figures, 128, 8, false), figures.read_iops as f64, "reads");
            near(iops(figures, 128, 8, true), figures.write_iops as f64, "writes");
        }
    }
}
