//! Every level that fits, on image files, drive count by drive count: the figures of the scaling table.
//!
//! Per drive count: the bare files alone and all at once, then one array after the other on the same files. All runs are
//! short, so each is repeated, round after round, and the spread is recorded beside the median. Bounds and shares use the best
//! rounds, as other work on the machine only makes runs slower. The best of more rounds is better: on both sides there are as
//! many.

use crate::theory::{Bounds, MemberRates, Pattern, Rates, Shape, Work};
use crate::{Limit, Load, LoadError, Order, Outcome, Spread, Target, Together};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stria_array::Level;
use stria_block::BlockDevice;
use stria_drive::{Access, DriveError, Ring};
use stria_format::md::BitmapChoice;
use stria_host::{ArrayLevel, CreateSpec, HostError, HostedArray, OpenOptions};

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the image files are made, in a folder of their own that is removed afterwards.
    pub folder: PathBuf,
    /// Drive counts, ascending.
    pub drive_counts: Vec<usize>,
    /// Size of each image file. They are written in full first, as reads of holes would cost nothing.
    pub member_bytes: u64,
    /// Levels, those that fit at each count.
    pub levels: Vec<ArrayLevel>,
    /// Queue depths.
    pub queue_depths: Vec<usize>,
    /// Size of random requests.
    pub random_block_bytes: u32,
    /// Size of sequential requests.
    pub sequential_block_bytes: u32,
    /// Length of one run, plus an eighth of it to warm up.
    pub run: Duration,
    /// Rounds.
    pub rounds: usize,
}

impl Plan {
    /// 1 to 8 drives, every level, queue depths 1 and 32, 4 KiB random and 128 KiB sequential: two minutes.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let single = [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6];
        let striped = [Level::Raid5, Level::Raid6].map(ArrayLevel::Striped);
        Self {
            folder: folder.into(),
            drive_counts: (1..=8).collect(),
            member_bytes: 32 << 20,
            levels: single.map(ArrayLevel::Single).into_iter().chain(striped).collect(),
            queue_depths: vec![1, 32],
            random_block_bytes: 4 << 10,
            sequential_block_bytes: 128 << 10,
            run: Duration::from_millis(60),
            rounds: 3,
        }
    }

    /// The same to 24 drives.
    pub fn to_24_drives(self) -> Self {
        Self { drive_counts: (1..=8).chain([10, 12, 16, 20, 24]).collect(), ..self }
    }

    /// Levels that are possible with `count` drives and are not the same as another: RAID 5 of two is a mirror.
    pub fn levels_that_fit(&self, count: usize) -> impl Iterator<Item = ArrayLevel> + '_ {
        self.levels.iter().copied().filter(move |level| match level {
            ArrayLevel::Single(Level::Linear | Level::Raid0) => count >= 1,
            ArrayLevel::Single(Level::Raid1 | Level::Raid10) => count >= 2,
            ArrayLevel::Single(Level::Raid4 | Level::Raid5) => count >= 3,
            ArrayLevel::Single(Level::Raid6) => count >= 4,
            ArrayLevel::Striped(Level::Raid5) => count >= 6 && count.is_multiple_of(2),
            ArrayLevel::Striped(_) => count >= 8 && count.is_multiple_of(2),
        })
    }

    /// Rounds of a single drive for each count: together at least those of an array.
    fn rounds_alone(&self) -> usize {
        self.rounds.div_ceil(self.drive_counts.len().max(1))
    }

    fn patterns(&self) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for order in [Order::Random, Order::Sequential] {
            for read in [true, false] {
                for &queue_depth in &self.queue_depths {
                    let random = order == Order::Random;
                    let block_bytes = if random { self.random_block_bytes } else { self.sequential_block_bytes };
                    patterns.push(Pattern { read, order, block_bytes: block_bytes.into(), queue_depth });
                }
            }
        }
        patterns
    }

    fn load(&self, pattern: Pattern) -> Load {
        Load {
            block_bytes: pattern.block_bytes as u32,
            read_percent: if pattern.read { 100 } else { 0 },
            queue_depth: pattern.queue_depth,
            order: pattern.order,
            warm_up: self.run / 8,
            limit: Limit::Time(self.run),
            ..Load::default()
        }
    }
}

/// One level at one drive count under one pattern.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// "0", "50" …; "bare" for all members at once without an array.
    pub level: String,
    /// Drives.
    pub drives: usize,
    /// Reads, or writes.
    pub read: bool,
    /// Sequential or random.
    pub order: Order,
    /// Size of requests.
    pub block_bytes: u64,
    /// Requests in flight.
    pub queue_depth: usize,
    /// Requests per second.
    pub iops: Spread,
    /// 10^6 bytes per second, median.
    pub mb_per_s: f64,
    /// 99th percentile of latency, median round.
    pub p99_ns: u64,
    /// CPU per request, median.
    pub cpu_ns_per_io: f64,
    /// The limit of the geometry on these members, in requests per second; none for bare members.
    pub bounds: Option<Bounds>,
    /// The law of the geometry, in words.
    pub law: String,
    /// The best round over the limit, which comes from the best rounds of the bare drives.
    pub share: Option<f64>,
}

/// The table.
#[derive(Clone, Debug, Serialize)]
pub struct Scaling {
    /// A description of the members, for the environment: file system, direct or not.
    pub members: String,
    /// Size of each.
    pub member_bytes: u64,
    /// Length of a run.
    pub run: Duration,
    /// Rounds.
    pub rounds: usize,
    /// The total duration.
    pub elapsed: Duration,
    /// By drive count, pattern, level.
    pub cells: Vec<Cell>,
}

/// The reason why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum ScalingError {
    /// The folder or a file in it.
    #[error("cannot make image files in {}: {source}; choose a folder with free space and write permission", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A drive.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// An array.
    #[error("{level} of {drives} drives: {source}")]
    Array {
        /// Which.
        level: String,
        /// How many.
        drives: usize,
        /// Why.
        source: Box<HostError>,
    },
    /// A load.
    #[error("{what}: {source}")]
    Load {
        /// On what.
        what: String,
        /// Why.
        source: LoadError,
    },
}

/// Receives the progress.
pub trait Watch {
    /// `done` of `total` runs; `what` comes next.
    fn step(&mut self, done: usize, total: usize, what: &str);
}

impl<F: FnMut(usize, usize, &str)> Watch for F {
    fn step(&mut self, done: usize, total: usize, what: &str) {
        self(done, total, what);
    }
}

struct Bench<'a> {
    plan: &'a Plan,
    patterns: Vec<Pattern>,
    paths: Vec<PathBuf>,
    done: usize,
    total: usize,
    watch: &'a mut dyn Watch,
}

/// The measurements of one drive count.
struct Count {
    drives: usize,
    /// All bare drives at once.
    together: Rounds,
    arrays: Vec<(Shape, Rounds)>,
}

/// Measures all of `plan`. The files are removed at the end, whatever happens.
///
/// # Errors
/// [`ScalingError`]; nothing is left behind.
pub fn scaling(plan: &Plan, watch: &mut dyn Watch) -> Result<Scaling, ScalingError> {
    let begun = Instant::now();
    let no_folder = |source| ScalingError::Folder { folder: plan.folder.clone(), source };
    let folder = tempfile::Builder::new().prefix("stria-demo-").tempdir_in(&plan.folder).map_err(no_folder)?;
    let most = plan.drive_counts.iter().copied().max().unwrap_or(0);
    let paths: Vec<PathBuf> = (0..most).map(|index| folder.path().join(format!("drive{index:02}.img"))).collect();
    for path in &paths {
        File::create_new(path).and_then(|file| file.set_len(plan.member_bytes)).map_err(no_folder)?;
    }
    let patterns = plan.patterns();
    // For each count some rounds of a single drive, and all rounds of all drives at once and of each array.
    let alone = plan.rounds_alone();
    let rounds: usize =
        plan.drive_counts.iter().map(|&count| alone + plan.rounds * (1 + plan.levels_that_fit(count).count())).sum();
    let total = paths.len() + rounds * patterns.len();
    let mut bench = Bench { plan, patterns, paths, done: 0, total, watch };
    bench.fill()?;
    let members = bench.member_words(folder.path())?;
    let mut one = bench.no_rounds();
    let counts: Vec<Count> = plan.drive_counts.iter().map(|&count| bench.count(count, &mut one)).collect::<Result<_, _>>()?;
    bench.watch.step(bench.total, bench.total, "done");
    let near = |at: usize| -> Rounds {
        let of = |outcomes: &Vec<Outcome>| outcomes[nearest(outcomes.len(), plan.rounds, at * alone)].to_vec();
        one.iter().map(of).collect()
    };
    let cells = counts.iter().enumerate().flat_map(|(at, count)| bench.judge(count, &near(at))).collect();
    let (member_bytes, run, rounds) = (plan.member_bytes, plan.run, plan.rounds);
    Ok(Scaling { members, member_bytes, run, rounds, elapsed: begun.elapsed(), cells })
}

/// As many of `count` rounds as there are on the other side, around that one.
fn nearest(count: usize, rounds: usize, at: usize) -> Range<usize> {
    let rounds = rounds.min(count);
    let begin = at.saturating_sub(rounds / 2).min(count - rounds);
    begin..begin + rounds
}

/// Outcomes by pattern, round after round.
type Rounds = Vec<Vec<Outcome>>;

/// Other work on the machine only makes runs slower, so the best round is nearest to the limit.
fn best_iops(outcomes: &[Outcome]) -> f64 {
    Spread::of(outcomes.iter().map(Outcome::iops)).max
}

impl Bench<'_> {
    fn open(&self, count: usize, ring: &Ring) -> Result<Vec<Box<dyn BlockDevice>>, ScalingError> {
        let open = |path: &PathBuf| stria_drive::open(path, ring, Access::Exclusive);
        let boxed = |path| open(path).map(|drive| Box::new(drive) as Box<dyn BlockDevice>);
        Ok(self.paths[..count].iter().map(boxed).collect::<Result<_, _>>()?)
    }

    /// Writes every file in full.
    fn fill(&mut self) -> Result<(), ScalingError> {
        let ring = Ring::new()?;
        let block_bytes = 1 << 20;
        let limit = Limit::Operations(self.plan.member_bytes / block_bytes);
        let block_bytes = block_bytes as u32;
        let fill = Load { block_bytes, read_percent: 0, queue_depth: 8, order: Order::Sequential, limit, ..Load::default() };
        for mut drive in self.open(self.paths.len(), &ring)? {
            self.watch.step(self.done, self.total, "writing the image files");
            let what = || "writing the image files".to_string();
            fill.run(Target { device: &mut drive, ring: Some(&ring) }, None)
                .map_err(|source| ScalingError::Load { what: what(), source })?;
            self.done += 1;
        }
        Ok(())
    }

    fn member_words(&self, folder: &Path) -> Result<String, ScalingError> {
        let info = stria_drive::probe(&self.paths[0])?;
        let access = match (info.direct, info.direct_note) {
            (true, _) => "direct I/O (past the page cache)".to_string(),
            (false, note) => format!("through the page cache: {}", note.unwrap_or_else(|| "no direct I/O here".into())),
        };
        let kind = file_system(folder);
        Ok(format!("{} MiB image files on {kind}, all on one file system, io_uring, {access}", self.plan.member_bytes >> 20))
    }

    fn no_rounds(&self) -> Rounds {
        vec![Vec::new(); self.patterns.len()]
    }

    /// All patterns once.
    fn round(&mut self, device: &mut dyn BlockDevice, ring: &Ring, what: &str, into: &mut Rounds) -> Result<(), ScalingError> {
        for (&pattern, outcomes) in self.patterns.iter().zip(into) {
            self.watch.step(self.done, self.total, what);
            let outcome = self.plan.load(pattern).run(Target { device: &mut *device, ring: Some(ring) }, None);
            outcomes.push(outcome.map_err(|source| ScalingError::Load { what: what.to_string(), source })?);
            self.done += 1;
        }
        Ok(())
    }

    /// The first `count` files at once, one round.
    fn bare(&mut self, count: usize, into: &mut Rounds) -> Result<(), ScalingError> {
        let ring = Ring::new()?;
        let what = if count == 1 { "1 bare drive".to_string() } else { format!("{count} bare drives at once") };
        // Large enough for either size of request, so that none crosses from drive to drive.
        let unit = self.plan.random_block_bytes.max(self.plan.sequential_block_bytes);
        let mut together = Together::new(self.open(count, &ring)?, unit);
        self.round(&mut together, &ring, &what, into)
    }

    /// Every level at one drive count. Rounds on bare drives are spread between the arrays, so that a slow moment of the machine
    /// does not affect only one of the two.
    fn count(&mut self, drives: usize, one: &mut Rounds) -> Result<Count, ScalingError> {
        for _ in 0..self.plan.rounds_alone() {
            self.bare(1, one)?;
        }
        let levels: Vec<ArrayLevel> = self.plan.levels_that_fit(drives).collect();
        let mut count = Count { drives, together: self.no_rounds(), arrays: Vec::new() };
        let mut bare_rounds = 0;
        for (index, &level) in levels.iter().enumerate() {
            while bare_rounds * levels.len() <= index * self.plan.rounds {
                self.bare(drives, &mut count.together)?;
                bare_rounds += 1;
            }
            count.arrays.push(self.array(level, drives)?);
        }
        while bare_rounds < self.plan.rounds {
            self.bare(drives, &mut count.together)?;
            bare_rounds += 1;
        }
        Ok(count)
    }

    fn array(&mut self, level: ArrayLevel, count: usize) -> Result<(Shape, Rounds), ScalingError> {
        let failed = |source| ScalingError::Array { level: name(level), drives: count, source: Box::new(source) };
        let spec = CreateSpec {
            bitmap: BitmapChoice::Internal { chunk_bytes: None },
            assume_clean: true,
            overwrite: stria_host::Overwrite::Anything,
            ..CreateSpec::new("demo", level, &self.paths[..count])
        };
        stria_host::create(&spec).map_err(failed)?;
        let ring = Ring::new()?;
        let (mut array, _) = stria_host::open(&self.paths[..count], &ring, OpenOptions::default()).map_err(failed)?;
        let shape = shape_of(&array);
        let what = format!("{} of {count}", name(level));
        let mut rounds = self.no_rounds();
        for _ in 0..self.plan.rounds {
            self.round(&mut array, &ring, &what, &mut rounds)?;
        }
        array.sync_io(|io| io.stop()).map_err(failed)?;
        Ok((shape, rounds))
    }

    /// The cells of a drive count, compared with the bare drives.
    fn judge(&self, count: &Count, one: &Rounds) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (index, &pattern) in self.patterns.iter().enumerate() {
            cells.push(cell("bare".into(), count.drives, pattern, &count.together[index], None));
            let members = self.member_rates(pattern, one, &count.together);
            for (shape, rounds) in &count.arrays {
                let work = Work::of(shape, pattern);
                let bounds = work.bounds(&members, pattern);
                cells.push(cell(shape.level.to_string(), count.drives, pattern, &rounds[index], Some((bounds, work.law))));
            }
        }
        cells
    }

    /// Rates of the bare files for a pattern's size and order: alone at the lowest depth, saturated at the highest.
    fn member_rates(&self, pattern: Pattern, one: &Rounds, together: &Rounds) -> MemberRates {
        let depths = &self.plan.queue_depths;
        let (low, high) = (depths.iter().min().copied().unwrap_or(1), depths.iter().max().copied().unwrap_or(1));
        let rate = |rounds: &Rounds, read, queue_depth| {
            let wanted = Pattern { read, queue_depth, ..pattern };
            let index = self.patterns.iter().position(|&pattern| pattern == wanted).expect("it was measured");
            best_iops(&rounds[index])
        };
        let rates = |rounds: &Rounds, depth| Rates { read: rate(rounds, true, depth), write: rate(rounds, false, depth) };
        let lowest = rates(one, low);
        let alone = Rates { read: lowest.read / low as f64, write: lowest.write / low as f64 };
        MemberRates { alone, saturated: rates(one, high), together: rates(together, high) }
    }
}

fn cell(level: String, drives: usize, pattern: Pattern, outcomes: &[Outcome], theory: Option<(Bounds, String)>) -> Cell {
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by(|a, b| a.iops().total_cmp(&b.iops()));
    let middle = sorted[sorted.len() / 2];
    let iops = Spread::of(outcomes.iter().map(Outcome::iops));
    let (bounds, law) = theory.map_or((None, String::new()), |(bounds, law)| (Some(bounds), law));
    Cell {
        level,
        drives,
        read: pattern.read,
        order: pattern.order,
        block_bytes: pattern.block_bytes,
        queue_depth: pattern.queue_depth,
        iops,
        mb_per_s: iops.median * pattern.block_bytes as f64 / 1e6,
        p99_ns: if pattern.read { middle.reads.p99_ns } else { middle.writes.p99_ns },
        cpu_ns_per_io: middle.cpu_ns_per_io(),
        share: bounds.map(|bounds| iops.max / bounds.allowed),
        bounds,
        law,
    }
}

/// The shape of an array that runs, spans included.
pub fn shape_of(array: &HostedArray) -> Shape {
    let mut spans = array.spans();
    match spans.next() {
        Some(first) => Shape::new(first.geometry(), 1 + spans.count()),
        None => Shape::new(array.geometry(), 1),
    }
}

/// "JBOD", "RAID 50".
fn name(level: ArrayLevel) -> String {
    match level {
        ArrayLevel::Single(Level::Linear) => "JBOD".into(),
        level => format!("RAID {level}"),
    }
}

/// The type of the file system that holds `path`: the longest mount point above it.
fn file_system(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        path.starts_with(point).then_some((point.len(), kind.to_string()))
    });
    // Of several mounts on one point the last is visible.
    above.max_by_key(|(len, _)| *len).map_or_else(|| "an unknown file system".into(), |(_, kind)| kind)
}

impl Scaling {
    /// One line for each cell, with a heading.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from(
            "level,drives,order,direction,block_bytes,queue_depth,iops,iops_min,iops_max,mb_per_s,p99_ns,cpu_ns_per_io,\
             busiest_member_per_s,all_members_per_s,waiting_per_s,allowed_per_s,share,law\n",
        );
        for cell in &self.cells {
            let bounds = cell.bounds.map_or(",,,".into(), |bounds| {
                let Bounds { busiest_member, all_members, waiting, allowed } = bounds;
                format!("{busiest_member:.0},{all_members:.0},{waiting:.0},{allowed:.0}")
            });
            csv.push_str(&format!(
                "{},{},{},{},{},{},{:.0},{:.0},{:.0},{:.1},{},{:.0},{bounds},{},\"{}\"\n",
                cell.level,
                cell.drives,
                if cell.order == Order::Random { "random" } else { "sequential" },
                if cell.read { "read" } else { "write" },
                cell.block_bytes,
                cell.queue_depth,
                cell.iops.median,
                cell.iops.min,
                cell.iops.max,
                cell.mb_per_s,
                cell.p99_ns,
                cell.cpu_ns_per_io,
                cell.share.map_or(String::new(), |share| format!("{share:.3}")),
                cell.law
            ));
        }
        csv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_drive_counts_with_as_many_rounds_as_an_array() {
        for (count, at, wanted) in [(13, 0, 0..3), (13, 1, 0..3), (13, 6, 5..8), (13, 12, 10..13), (3, 1, 0..3), (2, 1, 0..2)] {
            assert_eq!(nearest(count, 3, at), wanted, "round {at} of {count}");
        }
        for (counts, rounds, wanted) in [(8, 3, 1), (13, 3, 1), (2, 3, 2), (1, 3, 3), (2, 2, 1)] {
            let plan = Plan { drive_counts: (1..=counts).collect(), rounds, ..Plan::new("/nowhere") };
            assert_eq!(plan.rounds_alone(), wanted);
            assert!(plan.rounds_alone() * counts >= rounds);
        }
    }
}
