//! Look-alikes of desktop applications' storage traces.
//!
//! The makers of desktop benchmarks published only totals of their traces: operations by kind and order, and
//! megabytes read and written. A look-alike has exactly these operations and, to one block, these bytes; which offsets, which
//! sizes and in which order is drawn by chance from a seed. Times are not published: all are 0, so a look-alike is replayed in a
//! closed loop, and its result is the mean bandwidth while busy, as those benchmarks score it.

use super::{Op, Record, Trace};

/// The published totals of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Application {
    pub name: &'static str,
    pub sequential_reads: u64,
    pub random_reads: u64,
    pub sequential_writes: u64,
    pub random_writes: u64,
    /// 10^6 bytes.
    pub read_mb: u64,
    /// 10^6 bytes.
    pub written_mb: u64,
}

const fn application(name: &'static str, reads: [u64; 2], writes: [u64; 2], megabytes: [u64; 2]) -> Application {
    Application {
        name,
        sequential_reads: reads[0],
        random_reads: reads[1],
        sequential_writes: writes[0],
        random_writes: writes[1],
        read_mb: megabytes[0],
        written_mb: megabytes[1],
    }
}

/// The storage traces of PCMark 8, from its published totals.
pub const APPLICATIONS: [Application; 10] = [
    application("photoshop-light", [1508, 17525], [18342, 1743], [313, 2336]),
    application("photoshop-heavy", [4277, 18655], [44742, 2065], [468, 5640]),
    application("illustrator", [1036, 21923], [682, 532], [373, 89]),
    application("indesign", [2359, 22207], [4874, 927], [401, 624]),
    application("after-effects", [1772, 17793], [86, 500], [311, 16]),
    application("word", [152, 4302], [748, 205], [107, 95]),
    application("excel", [72, 3148], [119, 87], [73, 15]),
    application("powerpoint", [56, 3441], [147, 107], [83, 21]),
    application("world-of-warcraft", [1415, 14927], [10, 659], [390, 5]),
    application("battlefield-3", [5782, 43487], [218, 431], [887, 28]),
];

const BLOCK: u64 = 4096;
/// Offsets lie within this: an installation with its files, and less than any drive.
const SPAN_BLOCKS: u64 = (8 << 30) / BLOCK;

impl Application {
    /// The application of this name.
    pub fn named(name: &str) -> Option<Self> {
        APPLICATIONS.into_iter().find(|application| application.name == name)
    }

    /// A trace with these totals. Same seed, same trace.
    pub fn trace(&self, seed: u64) -> Trace {
        let mut chance = Chance(seed ^ 0x5bd1_e995);
        let mut reads = requests(Op::Read, self.sequential_reads, self.random_reads, self.read_mb, &mut chance).into_iter();
        let mut writes =
            requests(Op::Write, self.sequential_writes, self.random_writes, self.written_mb, &mut chance).into_iter();
        // The kinds are interleaved at random. Each kind keeps its order, since that makes it sequential.
        let mut records = Vec::with_capacity(reads.len() + writes.len());
        while reads.len() + writes.len() > 0 {
            let read = chance.below((reads.len() + writes.len()) as u64) < reads.len() as u64;
            records.extend(if read { reads.next() } else { writes.next() });
        }
        Trace { devices: vec![self.name.to_string()], records }
    }
}

/// A small generator (PCG, XSH-RR): a seed must give the same numbers on every machine and in every version.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u32 {
        let state = self.0;
        self.0 = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((((state >> 18) ^ state) >> 27) as u32).rotate_right((state >> 59) as u32)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (u64::from(self.next()) << 32 | u64::from(self.next())) % bound
    }
}

fn requests(op: Op, sequential: u64, random: u64, megabytes: u64, chance: &mut Chance) -> Vec<Record> {
    let count = (sequential + random) as usize;
    let sizes = sizes(count, megabytes * 1_000_000 / BLOCK, chance);
    // Which requests begin where the previous one ended; never the first.
    let mut follows = vec![false; count];
    let mut left = sequential;
    for (index, follow) in follows.iter_mut().enumerate().skip(1) {
        if chance.below((count - index) as u64) < left {
            *follow = true;
            left -= 1;
        }
    }
    let mut end = u64::MAX;
    let mut record = |(blocks, follows): (u64, bool)| {
        let mut offset = end;
        if !follows {
            while offset == end {
                offset = chance.below(SPAN_BLOCKS);
            }
        }
        end = offset + blocks;
        Record { time_ns: 0, device: 0, offset: offset * BLOCK, bytes: blocks * BLOCK, op, took_ns: 0 }
    };
    sizes.into_iter().zip(follows).map(&mut record).collect()
}

/// `count` sizes in blocks, at least 1, `total` together: most are small, some are powers of two larger, as applications have
/// them, and what rounding leaves is dealt out evenly.
fn sizes(count: usize, total: u64, chance: &mut Chance) -> Vec<u64> {
    let weights: Vec<u64> = (0..count).map(|_| 1u64 << chance.below(6)).collect();
    let weight: u64 = weights.iter().sum();
    let spare = total.saturating_sub(count as u64);
    let mut sizes: Vec<u64> = weights.iter().map(|share| 1 + spare * share / weight).collect();
    let missing = total.saturating_sub(sizes.iter().sum()) as usize;
    sizes.iter_mut().take(missing).for_each(|size| *size += 1);
    sizes
}
