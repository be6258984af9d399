//! A closed load on a model: threads that each keep some requests under way, as fio and Iometer do.

use crate::chance::Chance;
use crate::model::{Ask, Kind, Model, SECOND, SECTOR_BYTES};
use crate::station::{Calendar, Station};
use serde::{Deserialize, Serialize};
use stria_block::{Nanos, Tag};

/// 10: the parts of a measurement, each of which gives a throughput.
const BATCHES: u64 = 10;

/// 4 KiB: requests of streams begin at multiples of it, as those of file systems do.
const STREAM_ALIGN_BYTES: u64 = 4096;

/// The addresses of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Anywhere in the span, aligned to the block.
    Random,
    /// In order: each thread from a position of its own, round its part of the span.
    Sequential,
}

/// Requests of one kind in a load of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// The share of all requests.
    pub share: f64,
    /// True if they write.
    pub write: bool,
    /// Their addresses. Sequential requests of each thread go round a part of the span of their own.
    pub pattern: Pattern,
    /// Their sizes in bytes, with shares.
    pub sizes: Vec<(u64, f64)>,
    /// Hot spots: shares of the requests, each with the share of the span that they go to, from its beginning on; of random
    /// requests only.
    #[serde(default)]
    pub zones: Vec<(f64, f64)>,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The number of threads.
    pub threads: u32,
    /// Requests that each has under way.
    pub depth: u32,
    /// The size of a request.
    pub block_bytes: u64,
    /// The share of reads.
    pub read_share: f64,
    /// The addresses of requests.
    pub pattern: Pattern,
    /// The first byte.
    pub offset_bytes: u64,
    /// The number of bytes from there on that are used.
    pub span_bytes: u64,
    /// A thread's own time for each request, before it is sent.
    pub host_ns: Nanos,
    /// Requests that end before the measurement begins.
    pub warm_up: u64,
    /// The same in addition for a read. It is charged when the read has ended, so latencies do not contain it.
    pub host_read_ns: Nanos,
    /// Requests that are measured.
    pub requests: u64,
    /// The seed of the run.
    pub seed: u64,
    /// True if a write is durable when it ends.
    pub fua: bool,
    /// True if each thread stays in its own part of the span, as with a thread for each of several drives.
    pub apart: bool,
    /// Sizes of requests with their shares, instead of `block_bytes`, which is their mean then; of random requests only.
    pub sizes: Vec<(u64, f64)>,
    /// Shares of the requests, each with the share of the span that they go to, from its beginning on; of random requests only.
    pub zones: Vec<(f64, f64)>,
    /// Streams of requests, drawn by their shares. They replace the pattern, the read share and the sizes above, which then
    /// describe them as a whole.
    pub streams: Vec<Stream>,
}

/// A request before it is sent.
struct Next {
    write: bool,
    bytes: u64,
    at: u64,
}

impl Load {
    /// Random requests of 4 KiB anywhere on `model`, 20,000 of them after 5,000.
    pub fn random<M: Model + ?Sized>(model: &M, depth: u32, read_share: f64) -> Self {
        Self {
            threads: 1,
            depth,
            block_bytes: 4096,
            read_share,
            pattern: Pattern::Random,
            offset_bytes: 0,
            span_bytes: model.size_sectors() * SECTOR_BYTES,
            host_ns: 0,
            warm_up: 5_000,
            requests: 20_000,
            seed: 1,
            host_read_ns: 0,
            fua: false,
            apart: false,
            sizes: Vec::new(),
            zones: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// The index of one of several shares, drawn at random.
    fn drawn(chance: &mut Chance, shares: impl Iterator<Item = f64> + Clone) -> usize {
        let mut at = chance.unit() * shares.clone().sum::<f64>();
        let last = shares.clone().count().saturating_sub(1);
        shares
            .take(last)
            .position(|share| {
                (at < share) || {
                    at -= share;
                    false
                }
            })
            .unwrap_or(last)
    }

    /// The beginning and the end, in shares of the span, of a zone that is drawn at random by its requests; of no zones the whole
    /// span.
    fn zone(chance: &mut Chance, zones: &[(f64, f64)]) -> (f64, f64) {
        if zones.is_empty() {
            return (0.0, 1.0);
        }
        let index = Self::drawn(chance, zones.iter().map(|(requests, _)| *requests));
        let from = zones[..index].iter().map(|(_, space)| *space).sum::<f64>();
        (from.min(1.0), (from + zones[index].1).min(1.0))
    }

    /// Bytes of the next random request, and where it begins in a span of so many bytes.
    fn place(&self, chance: &mut Chance, span_bytes: u64) -> (u64, u64) {
        let bytes = match &self.sizes[..] {
            [] => self.block_bytes,
            sizes => sizes[Self::drawn(chance, sizes.iter().map(|(_, share)| *share))].0,
        };
        let (from, to) = Self::zone(chance, &self.zones);
        let block = |share: f64| (span_bytes as f64 * share) as u64 / bytes;
        let blocks = block(to).saturating_sub(block(from)).max(1);
        (bytes, (block(from) + chance.below(blocks)) * bytes)
    }

    /// The next request of a thread's streams. `ends`: the place after the last request of each stream of that thread.
    fn streamed(&self, chance: &mut Chance, ends: &mut [u64], thread: usize, span_bytes: u64) -> Next {
        let index = Self::drawn(chance, self.streams.iter().map(|stream| stream.share));
        let Stream { write, pattern, sizes, zones, .. } = &self.streams[index];
        let bytes = sizes[Self::drawn(chance, sizes.iter().map(|(_, share)| *share))].0;
        let places = span_bytes.saturating_sub(bytes) / STREAM_ALIGN_BYTES;
        let place = match pattern {
            Pattern::Random => {
                let (from, to) = Self::zone(chance, zones);
                let at = |share: f64| ((places + 1) as f64 * share) as u64;
                (at(from) + chance.below(at(to).saturating_sub(at(from)).max(1))).min(places)
            }
            Pattern::Sequential => {
                let own = places / (u64::from(self.threads) * self.streams.len() as u64);
                let (end, length) = (&mut ends[index], bytes.div_ceil(STREAM_ALIGN_BYTES));
                let from = if *end > own { 0 } else { *end };
                *end = from + length;
                (thread * self.streams.len() + index) as u64 * own + from
            }
        };
        Next { write: *write, bytes, at: place * STREAM_ALIGN_BYTES }
    }

    /// Sequential requests of `block_bytes`.
    pub fn sequential<M: Model + ?Sized>(model: &M, depth: u32, block_bytes: u64, read_share: f64) -> Self {
        Self { block_bytes, pattern: Pattern::Sequential, ..Self::random(model, depth, read_share) }
    }
}

/// Latencies, each from a request's submission to its end, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies(Vec<Nanos>);

impl Latencies {
    /// Mean in nanoseconds; 0 of none.
    pub fn mean_ns(&self) -> f64 {
        self.0.iter().map(|&latency| latency as f64).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The smallest latency that at least `share` of the requests do not exceed; 0 of none.
    pub fn quantile_ns(&self, share: f64) -> Nanos {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(0)
    }

    /// All latencies, the smallest first.
    pub fn sorted_ns(&self) -> &[Nanos] {
        &self.0
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Requests a second.
    pub iops: f64,
    /// The standard error of that, relative to it, by batch means: what another run of the same length would change.
    pub iops_spread: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
    /// Mean number of requests in the model, by its integral over time.
    pub in_flight: f64,
    /// The duration of the measurement.
    pub duration_ns: Nanos,
}

impl Outcome {
    /// Mean latency of reads and writes together.
    pub fn mean_ns(&self) -> f64 {
        let (reads, writes) = (self.reads.count() as f64, self.writes.count() as f64);
        (self.reads.mean_ns() * reads + self.writes.mean_ns() * writes) / (reads + writes).max(1.0)
    }
}

struct Slot {
    thread: usize,
    sent_at: Nanos,
    write: bool,
    bytes: u64,
}

/// Runs a load from `start` on, until as many requests have ended as it says. Returns the outcome and the time of the end, after
/// the requests under way have ended too.
pub fn run_from<M: Model + ?Sized>(model: &mut M, load: &Load, start: Nanos) -> (Outcome, Nanos) {
    run_watched(model, load, start, &mut |_, _| ())
}

/// The same. `watch` sees the model, and the bytes that were written to it since the run began. It is called twice: when the
/// measurement begins and when it ends.
pub fn run_watched<M: Model + ?Sized>(
    model: &mut M,
    load: &Load,
    start: Nanos,
    watch: &mut dyn FnMut(&M, u64),
) -> (Outcome, Nanos) {
    let mut chance = Chance::new(load.seed, 2);
    let span_bytes = load.span_bytes.min(model.size_sectors() * SECTOR_BYTES - load.offset_bytes);
    let blocks = (span_bytes / load.block_bytes).max(1);
    let part = (blocks / u64::from(load.threads)).max(1);
    let mut cursors: Vec<u64> = vec![0; load.threads as usize];
    let mut ends = vec![vec![0; load.streams.len()]; load.threads as usize];
    let mut workers = vec![Station::default(); load.threads as usize];
    let mut slots: Vec<Slot> = Vec::new();
    let mut due: Calendar<usize> = Calendar::default();
    for index in 0..(load.threads * load.depth) as usize {
        let thread = index % load.threads as usize;
        slots.push(Slot { thread, sent_at: 0, write: false, bytes: 0 });
        due.add(workers[thread].serve(start, load.host_ns), index);
    }
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let (mut written_bytes, mut measured_bytes) = (0, 0);
    let (batch, mut marks) = ((load.requests / BATCHES).max(1), Vec::new());
    let (mut finished, total) = (0u64, load.warm_up + load.requests);
    let (mut now, mut measured_from, mut in_flight, mut area) = (start, start, 0u64, 0u128);
    let mut ended: Vec<Tag> = Vec::new();
    if load.warm_up == 0 {
        watch(model, 0);
    }
    while finished < total {
        let next = model.advance(due.next_at().unwrap_or(Nanos::MAX), &mut ended).max(now);
        assert!(next < Nanos::MAX, "a closed load never rests");
        if finished >= load.warm_up {
            area += u128::from(in_flight) * u128::from(next - now);
        }
        now = next;
        for tag in ended.drain(..) {
            finished += 1;
            in_flight -= 1;
            let slot = &slots[tag as usize];
            if finished > load.warm_up && finished <= total {
                if slot.write { &mut writes } else { &mut reads }.push(now - slot.sent_at);
                measured_bytes += slot.bytes;
            }
            if finished == load.warm_up {
                (measured_from, area) = (now, 0);
                watch(model, written_bytes);
            }
            if finished >= load.warm_up && (finished - load.warm_up).is_multiple_of(batch) {
                marks.push(now);
            }
            let host_ns = load.host_ns + if slot.write { 0 } else { load.host_read_ns };
            due.add(workers[slot.thread].serve(now, host_ns), tag as usize);
        }
        while let Some((_, index)) = due.take_due(now) {
            let slot = &mut slots[index];
            let (bytes, at) = match load.pattern {
                _ if !load.streams.is_empty() => {
                    let next = load.streamed(&mut chance, &mut ends[slot.thread], slot.thread, span_bytes);
                    slot.write = next.write;
                    (next.bytes, next.at)
                }
                Pattern::Random if load.apart => {
                    let own = part * load.block_bytes;
                    let (bytes, at) = load.place(&mut chance, own);
                    (bytes, slot.thread as u64 * own + at)
                }
                Pattern::Random => load.place(&mut chance, span_bytes),
                Pattern::Sequential => {
                    let cursor = &mut cursors[slot.thread];
                    *cursor += 1;
                    (load.block_bytes, (slot.thread as u64 * part + (*cursor - 1) % part) % blocks * load.block_bytes)
                }
            };
            if load.streams.is_empty() {
                slot.write = chance.unit() >= load.read_share;
            }
            (slot.sent_at, slot.bytes) = (now, bytes);
            written_bytes += if slot.write { bytes } else { 0 };
            in_flight += 1;
            let kind = if slot.write { Kind::Write { fua: load.fua } } else { Kind::Read };
            let ask = Ask {
                tag: index as Tag,
                kind,
                start_sector: (load.offset_bytes + at) / SECTOR_BYTES,
                sectors: bytes / SECTOR_BYTES,
            };
            model.submit(now, ask);
        }
    }
    watch(model, written_bytes);
    let duration_ns = (now - measured_from).max(1);
    reads.sort_unstable();
    writes.sort_unstable();
    let iops = (reads.len() + writes.len()) as f64 * SECOND as f64 / duration_ns as f64;
    let outcome = Outcome {
        iops,
        iops_spread: spread(&marks),
        bytes_per_s: measured_bytes as f64 * SECOND as f64 / duration_ns as f64,
        reads: Latencies(reads),
        writes: Latencies(writes),
        in_flight: area as f64 / duration_ns as f64,
        duration_ns,
    };
    (outcome, drain(model, now, in_flight))
}

/// The standard error of the mean time of a batch, relative to it; 0 for fewer than two.
fn spread(marks: &[Nanos]) -> f64 {
    let times: Vec<f64> = marks.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count.max(1.0);
    if times.len() < 2 || mean <= 0.0 {
        return 0.0;
    }
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (variance / count).sqrt() / mean
}

/// The same from time 0 on.
pub fn run<M: Model + ?Sized>(model: &mut M, load: &Load) -> Outcome {
    run_from(model, load, 0).0
}

/// Waits until nothing is under way. Returns the time.
fn drain<M: Model + ?Sized>(model: &mut M, mut now: Nanos, mut in_flight: u64) -> Nanos {
    let mut ended = Vec::new();
    while in_flight > 0 {
        now = model.next_wake().expect("requests are under way").max(now);
        model.poll(now, &mut ended);
        in_flight -= ended.len() as u64;
        ended.clear();
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 80 % of a stream's requests go to the first hundredth of the span, and the others to the remainder.
    #[test]
    fn random_requests_of_a_stream_go_to_its_zones() {
        const SPAN_BYTES: u64 = 1 << 30;
        let zones = vec![(80.0, 0.01), (20.0, 0.99)];
        let stream = Stream { share: 1.0, write: false, pattern: Pattern::Random, sizes: vec![(8192, 1.0)], zones };
        let drive = crate::hdd::Hdd::new(match crate::profile::drive("savvio10k5").expect("there is such a drive").config {
            crate::backplane::DriveConfig::Hdd(config) => config,
            crate::backplane::DriveConfig::Ssd(_) => panic!("it is a hard disk"),
        });
        let load = Load { streams: vec![stream], ..Load::random(&drive, 1, 1.0) };
        let mut chance = Chance::new(1, 0);
        let places: Vec<u64> = (0..10_000).map(|_| load.streamed(&mut chance, &mut [0], 0, SPAN_BYTES).at).collect();
        let hot = places.iter().filter(|&&at| at < SPAN_BYTES / 100).count();
        assert!((7_800..8_200).contains(&hot), "{hot} of 10,000");
        assert!(places.iter().all(|at| at + 8192 <= SPAN_BYTES) && places.iter().any(|&at| at > SPAN_BYTES / 100 * 98));
    }
}
