//! The limits of a geometry on given members: member work per client request, and the bounds that follow from it.
//!
//! Data and parity are **in place**, requests have no locality, members are equal. Per byte of a client's request a level
//! reads `a` and writes `b` bytes on its members (RAID 5, small write: a = b = 2). Then, with a member's rates R and W for
//! requests of the same size, there are three bounds, and the lowest is the expected rate:
//!
//! ```text
//! busiest member   1 / (a' / R + b' / W)      a', b': the largest share that falls to one member (evenly: a/N, b/N)
//! all members      1 / (a / R_all + b / W_all) R_all: all members driven at once without an array; what they share
//!                                              (one CPU for RAM, one disk for image files) shows here and nowhere else
//! waiting          q / (1/R1 + 1/W1)           q requests at a time, each of which reads, then writes, at queue depth 1
//! ```
//!
//! The first is the textbook: N·R, N·W, N·W/2, N/(2/R + 2/W), N/(3/R + 3/W). On one lane over RAM one CPU does the work of all
//! members, and the second bound shows the amount of work. Parity arithmetic and the engine itself are not counted. Reads of RAID
//! 5 and 6 skip parity at no cost, as on SSDs; hard disks lose 1 or 2 parts in N of sequential reads.

use crate::Order;
use serde::Serialize;
use stria_array::{Geometry, Layout, Level, ParityLayout};
use stria_host::ArrayLevel;

/// The properties of an array's geometry that affect its speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The level, 50 and 60 included.
    pub level: ArrayLevel,
    /// Members in all.
    pub members: usize,
    /// Spans of 50 and 60; 1 otherwise.
    pub spans: usize,
    /// Copies of each byte for RAID 10; members for RAID 1; 1 otherwise.
    pub copies: usize,
    /// Members of a span with parity only, as it does not rotate.
    pub fixed_parity: usize,
    /// Strip.
    pub strip_bytes: u64,
}

impl Shape {
    /// The shape of an array of `geometry`, or of `spans` such arrays under a RAID 0.
    pub fn new(geometry: &Geometry, spans: usize) -> Self {
        let level = geometry.level();
        let fixed_parity = match (level, geometry.layout()) {
            (Level::Raid4, _) => 1,
            (_, Layout::Parity(ParityLayout::ParityFirst | ParityLayout::ParityLast)) => level.parity_count(),
            (_, Layout::Parity(ParityLayout::ParityFirst6)) => 2,
            (
                _,
                Layout::Parity(
                    ParityLayout::LeftAsymmetric6
                    | ParityLayout::RightAsymmetric6
                    | ParityLayout::LeftSymmetric6
                    | ParityLayout::RightSymmetric6,
                ),
            ) => 1,
            _ => 0,
        };
        Self {
            level: if spans > 1 { ArrayLevel::Striped(level) } else { ArrayLevel::Single(level) },
            members: geometry.slot_count() * spans,
            spans,
            copies: match (level, geometry.layout()) {
                (Level::Raid1, _) => geometry.slot_count(),
                (_, Layout::Copies(copies)) => copies.count(),
                _ => 1,
            },
            fixed_parity,
            strip_bytes: geometry.strip_sectors() * 512,
        }
    }

    fn inner(&self) -> Level {
        match self.level {
            ArrayLevel::Single(level) | ArrayLevel::Striped(level) => level,
        }
    }
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Reads, or writes.
    pub read: bool,
    /// Sequential or random.
    pub order: Order,
    /// Size.
    pub block_bytes: u64,
    /// Requests at a time.
    pub queue_depth: usize,
}

/// Bytes read and written on members per byte of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Demand {
    /// Read.
    pub reads: f64,
    /// Written.
    pub writes: f64,
}

impl Demand {
    fn cost(self, rates: Rates) -> f64 {
        let part = |amount: f64, rate: f64| if amount == 0.0 { 0.0 } else { amount / rate };
        part(self.reads, rates.read) + part(self.writes, rates.write)
    }

    fn times(self, factor: f64) -> Self {
        Self { reads: self.reads * factor, writes: self.writes * factor }
    }
}

/// The member work of a pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Work {
    /// On all members together: for requests within a strip, member requests per client request.
    pub all: Demand,
    /// On the busiest of members that hold data.
    pub data_member: Demand,
    /// On the busiest of members that hold only parity; nothing where parity rotates.
    pub parity_member: Demand,
    /// Part of the requests that read members before they write.
    pub read_first: f64,
    /// Members that one request keeps busy at once.
    pub breadth: f64,
    /// The law in words.
    pub law: String,
}

/// Requests per second for reads and for writes of a pattern's size and order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Reads.
    pub read: f64,
    /// Writes.
    pub write: f64,
}

/// The rates of members without an array, for requests of one size and order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemberRates {
    /// One member at queue depth 1.
    pub alone: Rates,
    /// One member at a depth that saturates it.
    pub saturated: Rates,
    /// All members at once, saturated, in requests per second together.
    pub together: Rates,
}

/// Upper bounds of an array's rate, in client requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// The textbook's: members are independent, and the busiest one is saturated.
    pub busiest_member: f64,
    /// All members as they are together.
    pub all_members: f64,
    /// Waiting for one request after the other at this queue depth.
    pub waiting: f64,
    /// The lowest.
    pub allowed: f64,
}

impl Bounds {
    /// Of a load that mixes reads and writes, `read_share` of its requests reads: times add, rates do not.
    pub fn mix(reads: Self, writes: Self, read_share: f64) -> Self {
        let mix = |read: f64, write: f64| 1.0 / (read_share / read + (1.0 - read_share) / write);
        Self {
            busiest_member: mix(reads.busiest_member, writes.busiest_member),
            all_members: mix(reads.all_members, writes.all_members),
            waiting: mix(reads.waiting, writes.waiting),
            allowed: mix(reads.allowed, writes.allowed),
        }
    }
}

impl Work {
    /// The work that `pattern` makes on an array of `shape`.
    pub fn of(shape: &Shape, pattern: Pattern) -> Self {
        if pattern.read { Self::of_read(shape, pattern) } else { Self::of_write(shape, pattern) }
    }

    fn of_read(shape: &Shape, pattern: Pattern) -> Self {
        let all = Demand { reads: 1.0, writes: 0.0 };
        let (members, law) = match shape.inner() {
            Level::Linear if pattern.order == Order::Sequential => (1, "r: one member after the other".to_string()),
            _ => {
                let members = shape.members - shape.fixed_parity * shape.spans;
                (members, format!("{members}·R: every byte is read once"))
            }
        };
        let data_member = all.times(1.0 / members as f64);
        let parity_member = Demand::default();
        Self { all, data_member, parity_member, read_first: 0.0, breadth: breadth(shape, pattern, members), law }
    }

    fn of_write(shape: &Shape, pattern: Pattern) -> Self {
        let members = shape.members as f64;
        let even = |amount: f64, law: String| {
            let all = Demand { reads: 0.0, writes: amount };
            let breadth = breadth(shape, pattern, shape.members);
            let data_member = all.times(1.0 / members);
            Self { all, data_member, parity_member: Demand::default(), read_first: 0.0, breadth, law }
        };
        match shape.inner() {
            Level::Linear if pattern.order == Order::Sequential => {
                let work = even(1.0, "w: one member after the other".into());
                Self { data_member: work.all, breadth: 1.0, ..work }
            }
            Level::Linear | Level::Raid0 => even(1.0, format!("{}·W: every byte is written once", shape.members)),
            // All copies at once; breadth counts distinct parts of a request.
            Level::Raid1 => Self { breadth: 1.0, ..even(members, "W: every member writes every byte".into()) },
            Level::Raid10 => {
                even(shape.copies as f64, format!("{}·W/{}: every byte is written {0} times", shape.members, shape.copies))
            }
            Level::Raid4 | Level::Raid5 | Level::Raid6 => Self::of_parity_write(shape, pattern),
        }
    }

    fn of_parity_write(shape: &Shape, pattern: Pattern) -> Self {
        let parity = shape.inner().parity_count();
        let width = shape.members / shape.spans;
        let data = width - parity;
        let stripe = shape.strip_bytes * data as u64;
        let window = pattern.block_bytes.saturating_mul(pattern.queue_depth as u64);
        let parts = if pattern.order == Order::Sequential && window >= stripe {
            // The requests in flight fill complete stripes.
            Parts { data_written: stripe as f64, parity_written: (shape.strip_bytes * parity as u64) as f64, ..Parts::default() }
        } else {
            Parts::of_lone_requests(pattern.block_bytes, shape.strip_bytes, data as u64, parity as u64)
        };
        let client = parts.data_written;
        let (reads, writes) = (parts.data_read + parts.parity_read, parts.data_written + parts.parity_written);
        let all = Demand { reads: reads / client, writes: writes / client };
        let spans = shape.spans as f64;
        let fixed = shape.fixed_parity as f64;
        // Fixed parity members each carry a full share of parity; the others share the rest evenly.
        let per_parity = Demand {
            reads: parts.parity_read / client / parity as f64 / spans,
            writes: parts.parity_written / client / parity as f64 / spans,
        };
        let others = width as f64 - fixed;
        let data_member = Demand {
            reads: (all.reads / spans - per_parity.reads * fixed) / others,
            writes: (all.writes / spans - per_parity.writes * fixed) / others,
        };
        let law = if parts.read_first == 0.0 {
            format!("{}·{data}/{width}·W: full stripes", shape.members)
        } else if pattern.block_bytes <= shape.strip_bytes {
            let name = if parts.reconstructs { "reconstruct-write" } else { "read-modify-write" };
            let busy = if shape.fixed_parity > 0 { ", parity on one member" } else { "" };
            format!("{}/({}/R + {}/W): {name}{busy}", shape.members, round(all.reads), round(all.writes))
        } else {
            format!("{}/({}/R + {}/W): parts of stripes", shape.members, round(all.reads), round(all.writes))
        };
        Self {
            all,
            data_member,
            parity_member: if shape.fixed_parity > 0 { per_parity } else { Demand::default() },
            read_first: parts.read_first,
            breadth: breadth(shape, pattern, data * shape.spans),
            law,
        }
    }

    /// The expected rates of the array on members of these rates.
    pub fn bounds(&self, members: &MemberRates, pattern: Pattern) -> Bounds {
        let busiest_member = 1.0 / self.data_member.cost(members.saturated).max(self.parity_member.cost(members.saturated));
        let all_members = 1.0 / self.all.cost(members.together);
        let steps =
            if pattern.read { Demand { reads: 1.0, writes: 0.0 } } else { Demand { reads: self.read_first, writes: 1.0 } };
        let waiting = pattern.queue_depth as f64 * self.breadth / steps.cost(members.alone);
        Bounds { busiest_member, all_members, waiting, allowed: busiest_member.min(all_members).min(waiting) }
    }
}

/// How many members share one request: one for requests within a strip.
fn breadth(shape: &Shape, pattern: Pattern, members: usize) -> f64 {
    let strip = shape.strip_bytes.max(1);
    match shape.inner() {
        Level::Linear | Level::Raid1 => 1.0,
        _ => pattern.block_bytes.div_ceil(strip).clamp(1, members as u64) as f64,
    }
}

fn round(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The most requests whose work is added up: sizes that divide a strip come round long before.
const REQUESTS_MAX: u64 = 100_000;

/// Bytes of parity writes, summed over some requests.
#[derive(Default)]
struct Parts {
    data_read: f64,
    data_written: f64,
    parity_read: f64,
    parity_written: f64,
    read_first: f64,
    reconstructs: bool,
}

impl Parts {
    /// Every aligned request once, over the period in which requests and stripes come round, each in the way that
    /// moves the fewest bytes; read-modify-write among equals. Of a longer period the first [`REQUESTS_MAX`].
    fn of_lone_requests(block: u64, strip: u64, data: u64, parity: u64) -> Self {
        let stripe = strip * data;
        let mut parts = Self::default();
        let mut requests = 0u64;
        let mut start = 0;
        loop {
            let head = block.min(stripe - start);
            let mut reads = parts.add_stripes(1, start, head, strip, data, parity);
            let (whole, tail) = ((block - head) / stripe, (block - head) % stripe);
            if whole > 0 {
                reads |= parts.add_stripes(whole, 0, stripe, strip, data, parity);
            }
            if tail > 0 {
                reads |= parts.add_stripes(1, 0, tail, strip, data, parity);
            }
            requests += 1;
            parts.read_first += f64::from(u8::from(reads));
            start = if tail > 0 { tail } else { (start + head) % stripe };
            if start == 0 || requests == REQUESTS_MAX {
                parts.read_first /= requests as f64;
                return parts;
            }
        }
    }

    /// Writes of `len` bytes at `from` to that many stripes. True when they read first.
    fn add_stripes(&mut self, count: u64, from: u64, len: u64, strip: u64, data: u64, parity: u64) -> bool {
        // Rows of the stripe that change: the union of the touched parts of its strips.
        let rows = if len >= strip {
            strip
        } else {
            let (first, end) = (from % strip, (from + len - 1) % strip + 1);
            if first < end { end - first } else { (strip - first + end).min(strip) }
        };
        let modify = (len + parity * rows, len, parity * rows);
        let reconstruct = (data * rows - len, data * rows - len, 0);
        let way = if reconstruct.0 < modify.0 { reconstruct } else { modify };
        self.reconstructs = reconstruct.0 < modify.0;
        let count = count as f64;
        self.data_read += count * way.1 as f64;
        self.parity_read += count * way.2 as f64;
        self.data_written += count * len as f64;
        self.parity_written += count * (parity * rows) as f64;
        way.0 > 0
    }
}

#[cfg(test)]
mod tests;
