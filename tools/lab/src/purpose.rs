//! The load that a trace or a run puts on drives, as a purpose of `stria plan`.
//!
//! A trace becomes one load: streams of reads and writes, at random and in order, each with its sizes. A run becomes the loads
//! that it measured, each with its share of the time. Both are untrusted: the data stored of a trace has a fixed size, and a
//! purpose is checked.

use crate::result::{IoMode, Pattern, Point, Record, ResultError, Run};
use crate::select;
use crate::trace::{self, Format, Op, Source, TraceError};
use crate::units::{show_seconds, show_size};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;
use stria_plan::advice::purpose::{BLOCK_BYTES_MAX, DEPTH_MAX, Recorded, is_modelled};
use stria_plan::advice::{Part, Purpose};
use stria_plan::load::{self, Stream};

/// 4 KiB: sizes are its multiples.
const BLOCK_BYTES: u64 = 4096;
/// 1 GiB: a longer request is an error of the trace.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
/// 64: the ends of requests that a sequential one may follow, as several streams are interleaved in a trace.
const ENDS: usize = 64;
/// 1 MiB: the pieces of which the space is counted. Beyond [`PIECES_MAX`] they double.
const PIECE_BYTES: u64 = 1 << 20;
/// 1,048,576: the most pieces that are distinguished; 48 MiB of memory.
const PIECES_MAX: usize = 1 << 20;
/// 4: the pieces of the largest request that is not split. Pieces double for a larger one, so that its cost does not grow with
/// its size.
const PIECES_EACH_MAX: u64 = 4;
/// 32: the assumed requests in flight if a trace has no response times.
const DEPTH: u32 = 32;
/// Powers of two from 4 KiB to 4 MiB.
const CLASSES: usize = 11;
/// The hottest hundredth of the space, what follows up to a twentieth, up to a fifth, and the remainder.
const ZONE_ENDS: [f64; 4] = [0.01, 0.05, 0.2, 1.0];
/// 200: pieces of which a hundredth is at least two.
const ZONE_PIECES_MIN: usize = 200;
/// 1.5: a zone is hot if it takes so many times the requests of an even load.
const HOT: f64 = 1.5;
/// 80: the most characters of a name.
const NAME_CHARS: usize = 80;

/// The reason why there is no purpose.
#[derive(Debug, thiserror::Error)]
pub enum PurposeError {
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The run.
    #[error(transparent)]
    Run(#[from] ResultError),
    /// Neither, or nothing that is modelled.
    #[error("{0}")]
    None(String),
}

/// The purpose of a run's folder, or of a trace: a path, or `FORMAT:PATH`.
///
/// # Errors
/// It is neither, or has no load that is modelled.
pub fn of(name: &str) -> Result<Purpose, PurposeError> {
    let path = Path::new(name);
    let purpose = if path.is_dir() {
        of_run(path)?
    } else {
        let stated = name.split_once(':').and_then(|(format, path)| Some((Path::new(path), format.parse::<Format>().ok()?)));
        let (path, format) = match stated.filter(|_| !path.exists()) {
            Some(stated) => stated,
            None => (path, Format::recognized(path).map_err(PurposeError::None)?),
        };
        of_trace(path, format)?
    };
    purpose.checked().map_err(PurposeError::None)
}

/// The last part of a path.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().chars().take(NAME_CHARS).collect()
}

/// Requests of one kind by size.
#[derive(Default)]
struct Sizes([(u64, u64); CLASSES]);

impl Sizes {
    /// Returns the number of requests that it counts as.
    fn add(&mut self, bytes: u64) -> u64 {
        // The kernel splits a large request as well.
        let count = bytes.div_ceil(BLOCK_BYTES_MAX);
        let blocks = (bytes / count).div_ceil(BLOCK_BYTES).max(1);
        let (requests, sum) = &mut self.0[(blocks.ilog2() as usize).min(CLASSES - 1)];
        (*requests, *sum) = (*requests + count, sum.saturating_add(bytes));
        count
    }

    fn requests(&self) -> u64 {
        self.0.iter().map(|(requests, _)| *requests).sum()
    }

    fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Of each class the mean, with its requests.
    fn shares(&self) -> Vec<(u64, f64)> {
        let some = self.0.iter().filter(|(requests, _)| *requests > 0);
        some.map(|(requests, bytes)| (whole_blocks(bytes / requests), *requests as f64)).collect()
    }
}

fn whole_blocks(bytes: u64) -> u64 {
    ((bytes + BLOCK_BYTES / 2) / BLOCK_BYTES * BLOCK_BYTES).clamp(BLOCK_BYTES, BLOCK_BYTES_MAX)
}

/// The space that requests touch, with the random requests that begin in each piece: every other one in the first number, the
/// others in the second.
struct Footprint {
    piece_bytes: u64,
    pieces: HashMap<(u32, u64), [u32; 2]>,
    at_random: u64,
}

impl Footprint {
    fn add(&mut self, device: u32, offset: u64, bytes: u64, at_random: bool) {
        while bytes / self.piece_bytes > PIECES_EACH_MAX {
            self.double();
        }
        let (from, to) = (offset / self.piece_bytes, (offset + (bytes - 1)) / self.piece_bytes);
        (from..=to).for_each(|piece| _ = self.pieces.entry((device, piece)).or_default());
        if at_random && let Some(counts) = self.pieces.get_mut(&(device, from)) {
            let half = &mut counts[(self.at_random % 2) as usize];
            *half = half.saturating_add(1);
            self.at_random += 1;
        }
        while self.pieces.len() > PIECES_MAX && self.piece_bytes < 1 << 63 {
            self.double();
        }
    }

    fn double(&mut self) {
        self.piece_bytes *= 2;
        for ((device, piece), [even, odd]) in std::mem::take(&mut self.pieces) {
            let counts = self.pieces.entry((device, piece / 2)).or_default();
            *counts = [counts[0].saturating_add(even), counts[1].saturating_add(odd)];
        }
    }

    /// Zones of the space, the hottest first: shares of the random requests and of the space; none if no part is hotter than
    /// others. One half of the requests ranks the pieces, and the other half gives their shares: otherwise an even load would
    /// have hot spots by chance.
    fn zones(&self) -> Vec<(f64, f64)> {
        let mut counts: Vec<[u32; 2]> = self.pieces.values().copied().collect();
        counts.sort_unstable_by_key(|[even, _]| std::cmp::Reverse(*even));
        let all = counts.iter().map(|[_, odd]| u64::from(*odd)).sum::<u64>();
        let (mut zones, mut from) = (Vec::new(), 0);
        for end in ZONE_ENDS {
            let to = (counts.len() as f64 * end) as usize;
            let requests = counts[from..to].iter().map(|[_, odd]| u64::from(*odd)).sum::<u64>();
            zones.push((requests as f64 / all.max(1) as f64, (to - from) as f64 / counts.len() as f64));
            from = to;
        }
        let hot = |(requests, space): &(f64, f64)| *requests > HOT * *space;
        let is_hot = counts.len() >= ZONE_PIECES_MIN && zones[..ZONE_ENDS.len() - 1].iter().any(hot);
        if is_hot { zones } else { Vec::new() }
    }

    fn bytes(&self) -> u64 {
        self.piece_bytes.saturating_mul(self.pieces.len() as u64)
    }
}

/// The totals of a trace.
#[derive(Default)]
struct Mix {
    /// Reads at random, reads in order, writes at random, writes in order.
    kinds: [Sizes; 4],
    ends: VecDeque<(u32, Op, u64)>,
    response_ns: f64,
    busy_ns: u64,
    busy_until_ns: u64,
    second: u64,
    in_second: u64,
    peak: u64,
}

impl Mix {
    /// Returns true if the request does not follow another.
    fn add(&mut self, record: &trace::Record) -> bool {
        let followed = (record.device, record.op, record.offset);
        let follows = self.ends.iter().position(|end| *end == followed);
        match follows {
            Some(index) => self.ends.remove(index).map_or((), drop),
            None if self.ends.len() == ENDS => self.ends.pop_front().map_or((), drop),
            None => {}
        }
        self.ends.push_back((record.device, record.op, record.end()));
        let kind = 2 * usize::from(record.op == Op::Write) + usize::from(follows.is_some());
        let count = self.kinds[kind].add(record.bytes);
        let second = record.time_ns / 1_000_000_000;
        self.in_second = if second == self.second { self.in_second + count } else { count };
        (self.second, self.peak) = (second, self.peak.max(self.in_second));
        // In order of time: the busy time is the union of all times from start to end.
        let until_ns = record.time_ns.saturating_add(record.took_ns);
        self.busy_ns += until_ns.saturating_sub(self.busy_until_ns.max(record.time_ns));
        self.busy_until_ns = self.busy_until_ns.max(until_ns);
        self.response_ns += record.took_ns as f64;
        follows.is_none()
    }

    fn requests(&self) -> u64 {
        self.kinds.iter().map(Sizes::requests).sum()
    }

    fn share(&self, kinds: [usize; 2]) -> f64 {
        kinds.iter().map(|kind| self.kinds[*kind].requests()).sum::<u64>() as f64 / self.requests().max(1) as f64
    }

    /// The mean number of requests under way while there is one.
    fn depth(&self) -> Option<f64> {
        (self.busy_ns > 0).then(|| self.response_ns / self.busy_ns as f64)
    }

    fn streams(&self, zones: &[(f64, f64)]) -> Vec<Stream> {
        let stream = |(kind, sizes): (usize, &Sizes)| Stream {
            share: sizes.requests() as f64,
            write: kind >= 2,
            pattern: if kind % 2 == 0 { load::Pattern::Random } else { load::Pattern::Sequential },
            sizes: sizes.shares(),
            zones: if kind % 2 == 0 { zones.to_vec() } else { Vec::new() },
        };
        self.kinds.iter().enumerate().filter(|(_, sizes)| sizes.requests() > 0).map(stream).collect()
    }
}

/// 100: a share of so many requests has a standard error of five points at most.
const REQUESTS_FEW: u64 = 100;

/// "20000 requests"; of few with a warning.
fn few(requests: u64) -> String {
    let plural = if requests == 1 { "" } else { "s" };
    let warning = if requests < REQUESTS_FEW { ", too few to tell shares and sizes," } else { "" };
    format!("{requests} request{plural}{warning}")
}

/// The purpose of a trace.
fn of_trace(path: &Path, format: Format) -> Result<Purpose, PurposeError> {
    let source = Source::open(path, format)?;
    let mut mix = Mix::default();
    let mut footprint = Footprint { piece_bytes: PIECE_BYTES, pieces: HashMap::new(), at_random: 0 };
    let mut absurd = None;
    source.each(&mut |record| {
        if !matches!(record.op, Op::Read | Op::Write) || record.bytes == 0 {
            return ControlFlow::Continue(());
        }
        if record.bytes > REQUEST_BYTES_MAX || record.offset > u64::MAX - REQUEST_BYTES_MAX {
            absurd = Some(record);
            return ControlFlow::Break(());
        }
        let at_random = mix.add(&record);
        footprint.add(record.device, record.offset, record.bytes, at_random);
        ControlFlow::Continue(())
    })?;
    if let Some(record) = absurd {
        let trace::Record { bytes, offset, .. } = record;
        let sentence = format!(
            "trace {} has a request of {bytes} bytes at {offset}, which no drive has: is the format right?",
            path.display()
        );
        return Err(PurposeError::None(sentence));
    }
    let (requests, seconds) = (mix.requests(), source.totals().seconds);
    if requests == 0 {
        return Err(PurposeError::None(format!("trace {} neither reads nor writes data", path.display())));
    }
    let zones = footprint.zones();
    let hot = match zones[..] {
        [(first, _), (second, _), (third, _), _] => {
            format!(", {:.0} % of the random requests in its hottest fifth", 100.0 * (first + second + third))
        }
        _ => String::new(),
    };
    let read_share = mix.share([0, 1]);
    let random_share = mix.share([0, 2]);
    let bytes = mix.kinds.iter().fold(0_u64, |sum, sizes| sum.saturating_add(sizes.bytes())) / requests;
    let depth = mix.depth().or(source.in_flight());
    let depth_words = match depth {
        Some(depth) => format!("{depth:.1} under way while busy"),
        None => format!("{DEPTH} under way, which is assumed, as the trace has no response times: set --depth if you know it"),
    };
    let rate = match seconds > 0.0 {
        true => format!("{:.0} requests a second over {}", requests as f64 / seconds, show_seconds(seconds)),
        false => "no times".to_owned(),
    };
    let mean = show_size(whole_blocks(bytes));
    let mix_words = format!("{:.0} % reads, {:.0} % at random, {mean} on average", 100.0 * read_share, 100.0 * random_share);
    let part = Part {
        name: mix_words.clone(),
        time_share: 1.0,
        block_bytes: whole_blocks(bytes),
        read_share,
        pattern: if random_share >= 0.5 { load::Pattern::Random } else { load::Pattern::Sequential },
        depth: depth.map_or(DEPTH, |depth| (depth.round() as u32).clamp(1, DEPTH_MAX)),
        threads: 1,
        offset_bytes: 0,
        footprint_bytes: Some(footprint.bytes()),
        streams: mix.streams(&zones),
        recorded: (seconds > 0.0).then(|| Recorded {
            mean_per_s: requests as f64 / seconds,
            peak_per_s: (mix.peak as f64).max(requests as f64 / seconds),
        }),
    };
    Ok(Purpose {
        name: "trace".to_owned(),
        about: format!("{mix_words}, within {}{hot}, {depth_words}; {rate}", show_size(footprint.bytes())),
        measured: Some(format!("{} of the trace {} ({})", few(requests), file_name(path), format.name())),
        parts: vec![part],
    })
}

/// The loads of a run by their requests, over all targets.
type Asked<'a> = (Pattern, u64, u8, u32, u32, &'a str);

/// The reason why a load is left out.
fn left_out(point: &Point) -> Option<&'static str> {
    if matches!(point.mode, IoMode::Cached | IoMode::WriteThrough | IoMode::Sparse) {
        Some("through a page cache or into holes of a file")
    } else if point.compressible_percent > 0 {
        Some("of data that compress")
    } else if point.mix.is_empty() && !is_modelled(point.block_bytes) {
        Some("of sizes that are not modelled")
    } else if point.threads.saturating_mul(point.queue_depth) > DEPTH_MAX || point.read_percent > 100 {
        Some("of more requests under way than are modelled")
    } else {
        None
    }
}

/// A measured load. For a replay and for a mix the figures are more precise than the plan.
fn part_of(point: &Point, records: &[&Record]) -> Part {
    let threads = point.threads.max(1);
    let mut part = Part {
        name: String::new(),
        time_share: records.iter().map(|record| record.seconds).sum(),
        block_bytes: whole_blocks(point.block_bytes),
        read_share: f64::from(point.read_percent) / 100.0,
        pattern: match point.pattern {
            Pattern::Random => load::Pattern::Random,
            Pattern::Sequential => load::Pattern::Sequential,
        },
        depth: threads * point.queue_depth.max(1),
        threads,
        offset_bytes: 0,
        footprint_bytes: None,
        streams: Vec::new(),
        recorded: None,
    };
    if !point.mix.is_empty() {
        let sums = [false, true].map(|write| {
            let figures = records.iter().filter_map(|record| if write { &record.write } else { &record.read }.as_ref());
            let add = |sum: (u64, u64), of: &crate::result::Figures| {
                (sum.0.saturating_add(of.requests), sum.1.saturating_add(of.bytes))
            };
            figures.fold((0, 0), add)
        });
        let [(reads, _), (writes, _)] = sums;
        let stream = |(index, (requests, bytes)): (usize, (u64, u64))| {
            (requests > 0).then(|| Stream {
                share: requests as f64,
                write: index == 1,
                pattern: part.pattern,
                sizes: vec![(whole_blocks(bytes / requests), 1.0)],
                zones: Vec::new(),
            })
        };
        part.streams = sums.into_iter().enumerate().filter_map(stream).collect();
        part.read_share = reads as f64 / (reads as f64 + writes as f64).max(1.0);
    }
    let kind = if part.pattern == load::Pattern::Random { "at random" } else { "in order" };
    let mix = if point.mix.is_empty() {
        String::new()
    } else {
        format!("{}: ", point.mix.chars().take(NAME_CHARS).collect::<String>())
    };
    let size = show_size(part.block_bytes);
    part.name = format!("{mix}{size} {kind}, {:.0} % reads, {} under way", 100.0 * part.read_share, part.depth);
    part
}

/// The purpose of a run.
fn of_run(folder: &Path) -> Result<Purpose, PurposeError> {
    let run = Run::open(folder)?;
    let mut loads: BTreeMap<Asked<'_>, (&Point, Vec<&Record>)> = BTreeMap::new();
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    for (point, records) in select::results(&run) {
        let records = records.into_iter().filter(|record| record.read.is_some() || record.write.is_some());
        if let Some(reason) = left_out(point) {
            *left.entry(reason).or_default() += 1;
            continue;
        }
        let asked = (point.pattern, point.block_bytes, point.read_percent, point.queue_depth, point.threads, &*point.mix);
        loads.entry(asked).or_insert((point, Vec::new())).1.extend(records);
    }
    let measured: Vec<&(&Point, Vec<&Record>)> = loads.values().filter(|(_, records)| !records.is_empty()).collect();
    let mut parts: Vec<Part> = measured.iter().map(|(point, records)| part_of(point, records)).collect();
    if parts.is_empty() {
        let sentence = format!("the run {} has no load that is modelled", folder.display());
        return Err(PurposeError::None(sentence));
    }
    // Runs on models may have no time.
    if parts.iter().all(|part| part.time_share <= 0.0) {
        parts.iter_mut().for_each(|part| part.time_share = 1.0);
    }
    let left = left.iter().map(|(reason, count)| format!("; {count} loads {reason} are left out")).collect::<String>();
    let loads = match &parts[..] {
        [only] => only.name.clone(),
        several => format!("{} loads, each with its share of the time that it was measured", several.len()),
    };
    let requests =
        measured.iter().flat_map(|(_, records)| records).fold(0_u64, |sum, record| sum.saturating_add(record.total.requests));
    let experiment: String = run.manifest.experiment.chars().take(NAME_CHARS).collect();
    Ok(Purpose {
        name: "run".to_owned(),
        about: format!("{loads}{left}"),
        measured: Some(format!("{requests} requests of the experiment {experiment} in {}", file_name(folder))),
        parts,
    })
}
