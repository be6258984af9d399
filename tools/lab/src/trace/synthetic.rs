//! Look-alikes of desktop applications' storage traces.
//!
//! The makers of desktop benchmarks published only totals of their traces: operations by kind and order, and
//! megabytes read and written. A look-alike has exactly these operations and, to one block, these bytes; which offsets, which
//! sizes and in which order is drawn by chance from a seed. Times are not published: all are 0, so a look-alike is replayed in a
//! closed loop, and its result is the mean bandwidth while busy, as those benchmarks score it.

use super::{Op, Record, Trace};

pub use stria_plan::applications::{APPLICATIONS, Application};

const BLOCK: u64 = 4096;
/// Offsets lie within this: an installation with its files, and less than any drive.
const SPAN_BLOCKS: u64 = (8 << 30) / BLOCK;

/// A trace with the totals of an application. Same seed, same trace.
pub fn trace(of: &Application, seed: u64) -> Trace {
    let mut chance = Chance(seed ^ 0x5bd1_e995);
    let mut reads = requests(Op::Read, of.sequential_reads, of.random_reads, of.read_mb, &mut chance).into_iter();
    let mut writes = requests(Op::Write, of.sequential_writes, of.random_writes, of.written_mb, &mut chance).into_iter();
    // The kinds are interleaved at random. Each kind keeps its order, since that makes it sequential.
    let mut records = Vec::with_capacity(reads.len() + writes.len());
    while reads.len() + writes.len() > 0 {
        let read = chance.below((reads.len() + writes.len()) as u64) < reads.len() as u64;
        records.extend(if read { reads.next() } else { writes.next() });
    }
    Trace { devices: vec![of.name.to_string()], records }
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
