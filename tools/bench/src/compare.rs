//! An array beside its bare members, in one process and in turn: every round runs each load on the array and the loads
//! that show what its members do, so that a slow minute of the machine affects both.

use crate::theory::{Bounds, MemberRates, Pattern, Rates, Shape, Work};
use crate::{Latency, Limit, Load, LoadError, Order, Outcome, Target, Together};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use stria_block::BlockDevice;
use stria_drive::Ring;

/// The depth at which bare drives count as saturated. Memory is saturated at any depth, and a larger one would only overflow its
/// caches.
const SATURATING_DEPTH: usize = 32;

/// The subject of a comparison.
pub struct Subject {
    /// For people.
    pub name: String,
    /// The array.
    pub array: Box<dyn BlockDevice>,
    /// Its geometry.
    pub shape: Shape,
    /// Bare drives like its members: as many, of the same kind, and not in use by the array when they are written.
    pub members: Vec<Box<dyn BlockDevice>>,
    /// True if the members may be overwritten; if not, writes have no bound for comparison.
    pub members_writable: bool,
    /// The ring of all these devices; `None` for memory.
    pub ring: Option<Ring>,
}

impl Subject {
    fn basis(&self) -> Basis {
        if self.ring.is_some() { Basis::Second } else { Basis::CpuSecond }
    }
}

/// The middle and the ends of some rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Self::default() };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Self { median, min, max }
    }

    /// From the lowest to the highest, as a part of the median.
    pub fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median } else { 0.0 }
    }
}

/// One load on one device, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Requests per second.
    pub iops: Spread,
    /// Requests per CPU second.
    pub iops_per_cpu_s: Spread,
    /// 10^6 bytes per second, median.
    pub mb_per_s: f64,
    /// CPU nanoseconds per request, median.
    pub cpu_ns_per_io: f64,
    /// Of the median round.
    pub reads: Latency,
    /// Of the median round.
    pub writes: Latency,
}

impl Figure {
    pub(crate) fn of(mut outcomes: Vec<Outcome>) -> Self {
        outcomes.sort_by(|a, b| a.iops().total_cmp(&b.iops()));
        let middle = &outcomes[outcomes.len() / 2];
        let per_cpu = |outcome: &Outcome| outcome.operations as f64 / outcome.cpu.as_secs_f64().max(1e-9);
        Self {
            iops: Spread::of(outcomes.iter().map(Outcome::iops)),
            iops_per_cpu_s: Spread::of(outcomes.iter().map(per_cpu)),
            mb_per_s: Spread::of(outcomes.iter().map(Outcome::mb_per_s)).median,
            cpu_ns_per_io: Spread::of(outcomes.iter().map(Outcome::cpu_ns_per_io)).median,
            reads: middle.reads.clone(),
            writes: middle.writes.clone(),
        }
    }
}

/// One load on the array and its members.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// "4 KiB random read, QD 32".
    pub label: String,
    /// Request size.
    pub block_bytes: u32,
    /// Sequential or random.
    pub order: Order,
    /// Share of reads.
    pub read_percent: u8,
    /// Requests in flight.
    pub queue_depth: usize,
    /// The array.
    pub array: Figure,
    /// One bare member under the same load; `None` when it must not be written.
    pub member: Option<Figure>,
    /// The array's rate over the bare member's.
    pub share_of_member: Option<f64>,
    /// The member work of reads.
    pub read_work: Option<Work>,
    /// The member work of writes.
    pub write_work: Option<Work>,
    /// The limit of the geometry, in requests per second of the comparison's basis.
    pub bounds: Option<Bounds>,
    /// The array's rate over the lowest bound.
    pub share_of_allowed: Option<f64>,
}

/// The basis of rates and shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Basis {
    /// Requests per second.
    Second,
    /// Requests per second of the lane's CPU time: for members in memory, where the lane waits for nothing else, so that other
    /// work on the machine does not count.
    CpuSecond,
}

/// The result of [`compare`].
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Of the subject.
    pub name: String,
    /// "5", "50" …
    pub level: String,
    /// Members.
    pub members: usize,
    /// Strip.
    pub strip_bytes: u64,
    /// The number of rounds.
    pub rounds: usize,
    /// The basis of rates and shares.
    pub basis: Basis,
    /// One for each load.
    pub rows: Vec<Row>,
}

/// A load on bare members: size, sequential, read, depth, all of them at once.
type BareKey = (u32, bool, bool, usize, bool);

/// Runs `loads` on the subject's array, and the loads for comparison on its members, `rounds` times, one after the other. `watch`
/// receives (runs done, runs in all, what comes next).
///
/// # Errors
/// The first load's that fails.
///
/// # Panics
/// When `rounds` is 0 or there are no members.
pub fn compare(
    subject: &mut Subject,
    loads: &[Load],
    rounds: usize,
    watch: &mut dyn FnMut(usize, usize, &str),
) -> Result<Comparison, LoadError> {
    assert!(rounds > 0 && !subject.members.is_empty(), "a comparison has rounds and members");
    let mut bare: BTreeMap<BareKey, (Load, Vec<Outcome>)> = BTreeMap::new();
    for load in loads {
        for (key, load) in bare_loads(load, subject) {
            bare.entry(key).or_insert((load, Vec::new()));
        }
    }
    let mut arrays: Vec<Vec<Outcome>> = vec![Vec::new(); loads.len()];
    let total = rounds * (loads.len() + bare.len());
    let mut done = 0;
    for _ in 0..rounds {
        for (load, outcomes) in loads.iter().zip(&mut arrays) {
            watch(done, total, &format!("{}: {}", subject.name, label(load)));
            outcomes.push(load.run(Target { device: &mut subject.array, ring: subject.ring.as_ref() }, None)?);
            done += 1;
        }
        for ((.., all), (load, outcomes)) in &mut bare {
            watch(done, total, &format!("bare members: {}", label(load)));
            outcomes.push(run_bare(subject, load, *all)?);
            done += 1;
        }
    }
    watch(done, total, "done");
    let basis = subject.basis();
    let bare: BTreeMap<BareKey, Figure> = bare.into_iter().map(|(key, (_, outcomes))| (key, Figure::of(outcomes))).collect();
    let rows = loads.iter().zip(arrays).map(|(load, outcomes)| row(&subject.shape, load, Figure::of(outcomes), &bare, basis));
    Ok(Comparison {
        name: subject.name.clone(),
        level: subject.shape.level.to_string(),
        members: subject.shape.members,
        strip_bytes: subject.shape.strip_bytes,
        rounds,
        basis,
        rows: rows.collect(),
    })
}

/// The name of a load.
pub fn label(load: &Load) -> String {
    let size = match load.block_bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    };
    let order = if load.order == Order::Random { "random" } else { "sequential" };
    let mix = match load.read_percent {
        100 => "read".to_string(),
        0 => "write".to_string(),
        percent => format!("{percent} % read"),
    };
    format!("{size} {order} {mix}, QD {}", load.queue_depth)
}

fn pattern(load: &Load, read: bool) -> Pattern {
    Pattern { read, order: load.order, block_bytes: u64::from(load.block_bytes), queue_depth: load.queue_depth }
}

/// Directions that occur in a load.
fn directions(load: &Load) -> impl Iterator<Item = bool> {
    let (reads, writes) = (load.read_percent > 0, load.read_percent < 100);
    [(true, reads), (false, writes)].into_iter().filter(|(_, occurs)| *occurs).map(|(read, _)| read)
}

fn bare_key(load: &Load, read: bool, queue_depth: usize, all: bool) -> BareKey {
    (load.block_bytes, load.order == Order::Sequential, read, queue_depth, all)
}

fn saturating(load: &Load, basis: Basis) -> usize {
    match basis {
        Basis::Second => load.queue_depth.max(SATURATING_DEPTH),
        Basis::CpuSecond => load.queue_depth,
    }
}

/// The bare loads with which `load` is compared. Parity writes also read members.
fn bare_loads(load: &Load, subject: &Subject) -> Vec<(BareKey, Load)> {
    let members = subject.shape.members as u64;
    let saturating = saturating(load, subject.basis());
    let region = load.region.as_ref().map(|region| {
        let block_sectors = u64::from(load.block_bytes) / 512;
        0..((region.end - region.start) / members).max(block_sectors * saturating as u64)
    });
    let base = Load { flush_every_writes: None, region, ..load.clone() };
    let mut found = Vec::new();
    for read in [true, false] {
        if !read && (!subject.members_writable || load.read_percent == 100) {
            continue;
        }
        let percent = if read { 100 } else { 0 };
        for (depth, all) in [(1, false), (load.queue_depth, false), (saturating, false), (saturating, true)] {
            let region = base.region.clone().filter(|_| !all);
            let bare = Load { read_percent: percent, queue_depth: depth, region, ..base.clone() };
            found.push((bare_key(load, read, depth, all), bare));
        }
    }
    found
}

fn run_bare(subject: &mut Subject, load: &Load, all: bool) -> Result<Outcome, LoadError> {
    let ring = subject.ring.as_ref();
    if !all {
        return load.run(Target { device: &mut subject.members[0], ring }, None);
    }
    let mut together = Together::new(std::mem::take(&mut subject.members), load.block_bytes);
    let outcome = load.run(Target { device: &mut together, ring }, None);
    subject.members = together.into_members();
    outcome
}

fn row(shape: &Shape, load: &Load, array: Figure, bare: &BTreeMap<BareKey, Figure>, basis: Basis) -> Row {
    let rate = |figure: &Figure| match basis {
        Basis::Second => figure.iops.median,
        Basis::CpuSecond => figure.iops_per_cpu_s.median,
    };
    let bare_rate = |read, depth, all| bare.get(&bare_key(load, read, depth, all)).map(rate);
    let rates = |depth, all| {
        let read = bare_rate(true, depth, all)?;
        // A load of reads alone does not need the other.
        let write = if load.read_percent == 100 { f64::NAN } else { bare_rate(false, depth, all)? };
        Some(Rates { read, write })
    };
    let members = || {
        let depth = saturating(load, basis);
        Some(MemberRates { alone: rates(1, false)?, saturated: rates(depth, false)?, together: rates(depth, true)? })
    };
    let members = members();
    let work = |read: bool| directions(load).any(|other| other == read).then(|| Work::of(shape, pattern(load, read)));
    let (read_work, write_work) = (work(true), work(false));
    let bounds = members.and_then(|members| {
        let of = |work: &Option<Work>, read| work.as_ref().map(|work| work.bounds(&members, pattern(load, read)));
        match (of(&read_work, true), of(&write_work, false)) {
            (Some(reads), Some(writes)) => Some(Bounds::mix(reads, writes, f64::from(load.read_percent) / 100.0)),
            (one, other) => one.or(other),
        }
    });
    // For a mixed load: the rate of one member with reads and writes in turn.
    let member = match load.read_percent {
        percent @ (0 | 100) => bare.get(&bare_key(load, percent == 100, load.queue_depth, false)).cloned(),
        _ => None,
    };
    let share_of_member = member.as_ref().map(|member| rate(&array) / rate(member));
    let share_of_allowed = bounds.map(|bounds| rate(&array) / bounds.allowed);
    Row {
        label: label(load),
        block_bytes: load.block_bytes,
        order: load.order,
        read_percent: load.read_percent,
        queue_depth: load.queue_depth,
        array,
        member,
        share_of_member,
        read_work,
        write_work,
        bounds,
        share_of_allowed,
    }
}

impl Comparison {
    /// One line for each row, with a heading.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from(
            "array,level,members,strip_bytes,load,block_bytes,read_percent,queue_depth,iops,iops_min,iops_max,mb_per_s,\
             cpu_ns_per_io,read_p50_ns,read_p99_ns,read_p999_ns,read_max_ns,write_p50_ns,write_p99_ns,write_p999_ns,\
             write_max_ns,member_iops,member_cpu_ns_per_io,allowed_per_s,share_of_member,share_of_allowed,basis\n",
        );
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        for row in &self.rows {
            let (array, member) = (&row.array, row.member.as_ref());
            let (reads, writes) = (&array.reads, &array.writes);
            let cells = [
                format!("\"{}\"", self.name.replace('"', "\"\"")),
                self.level.clone(),
                self.members.to_string(),
                self.strip_bytes.to_string(),
                format!("\"{}\"", row.label),
                row.block_bytes.to_string(),
                row.read_percent.to_string(),
                row.queue_depth.to_string(),
                format!("{:.0},{:.0},{:.0}", array.iops.median, array.iops.min, array.iops.max),
                format!("{:.1}", array.mb_per_s),
                format!("{:.0}", array.cpu_ns_per_io),
                format!("{},{},{},{}", reads.p50_ns, reads.p99_ns, reads.p999_ns, reads.max_ns),
                format!("{},{},{},{}", writes.p50_ns, writes.p99_ns, writes.p999_ns, writes.max_ns),
                optional(member.map(|member| member.iops.median)),
                optional(member.map(|member| member.cpu_ns_per_io)),
                optional(row.bounds.map(|bounds| bounds.allowed)),
                optional(row.share_of_member),
                optional(row.share_of_allowed),
                format!("{:?}", self.basis),
            ];
            csv.push_str(&cells.join(","));
            csv.push('\n');
        }
        csv
    }
}

/// The loads of the usual table: 4 KiB random at queue depths 1, 32 and 128, 128 KiB and 1 MiB sequential at 1 and 32,
/// reads and writes; each for `run` after a fifth of it as warm-up.
pub fn usual_loads(run: Duration) -> Vec<Load> {
    let shapes = [
        (4 << 10, Order::Random, &[1, 32, 128][..]),
        (128 << 10, Order::Sequential, &[1, 32]),
        (1 << 20, Order::Sequential, &[1, 32]),
    ];
    let mut loads = Vec::new();
    for (block_bytes, order, depths) in shapes {
        for read_percent in [100, 0] {
            for &queue_depth in depths {
                let limit = Limit::Time(run);
                loads.push(Load { block_bytes, read_percent, queue_depth, order, warm_up: run / 5, limit, ..Load::default() });
            }
        }
    }
    loads
}
