//! Theory lines for measurements: the laws of [`stria_bench::theory`] applied to points of a run, with the rates of the bare
//! drives in the same run.

use crate::result::{DriveInfo, MEMBERS_MAX, Pattern, Point, Record, Run, TargetInfo, TargetKind};
use crate::select;
use crate::stats::Summary;
use serde::Serialize;
use std::collections::BTreeMap;
use stria_array::Geometry;
use stria_bench::theory::{self, Bounds, Demand, MemberRates, Rates, Work};
use stria_bench::{Order, Shape};
use stria_host::ArrayLevel;

/// The theory line of one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ideal {
    /// The law in words; of writes, where the point mixes.
    pub law: String,
    /// Member bytes written per byte that clients write, and read for it: the write penalty. Absent for pure reads.
    pub penalty: Option<Demand>,
    /// Requests per second that the bare drives of this run would allow; absent if the run measured none.
    pub bounds: Option<Bounds>,
}

/// The shape of a point's array, with md's default layout; `None` when it is not an array or not a possible one.
fn shape(point: &Point) -> Option<Shape> {
    let level: ArrayLevel = point.level.as_deref()?.parse().ok()?;
    let (inner, spans) = match level {
        ArrayLevel::Single(inner) => (inner, 1),
        ArrayLevel::Striped(inner) => (inner, point.spans.unwrap_or(2).max(2) as usize),
    };
    let width = point.members.filter(|members| *members <= MEMBERS_MAX)? as usize / spans;
    let strip = point.strip_bytes.filter(|bytes| *bytes > 0).unwrap_or(64 << 10);
    let geometry = Geometry::new(inner, inner.default_layout(), strip / 512, &vec![1 << 24; width]).ok()?;
    Some(Shape::new(&geometry, spans))
}

fn pattern(point: &Point, read: bool) -> theory::Pattern {
    let order = match point.pattern {
        Pattern::Sequential => Order::Sequential,
        Pattern::Random => Order::Random,
    };
    let queue_depth = point.outstanding().max(1) as usize;
    theory::Pattern { read, order, block_bytes: point.block_bytes.max(512), queue_depth }
}

/// The rate that the level allows a point, in multiples of one drive's rate, for equal and independent drives: the textbook's
/// line.
pub fn multiple(point: &Point) -> Option<f64> {
    let shape = shape(point)?;
    let one = Rates { read: 1.0, write: 1.0 };
    let endless = Rates { read: f64::INFINITY, write: f64::INFINITY };
    let members = MemberRates { alone: endless, saturated: one, together: endless };
    let bound = |read| {
        let pattern = pattern(point, read);
        Work::of(&shape, pattern).bounds(&members, pattern)
    };
    let share = f64::from(point.read_percent) / 100.0;
    Some(mixed(share, bound).busiest_member)
}

fn mixed(read_share: f64, bound: impl Fn(bool) -> Bounds) -> Bounds {
    match read_share {
        share if share >= 1.0 => bound(true),
        share if share <= 0.0 => bound(false),
        share => Bounds::mix(bound(true), bound(false), share),
    }
}

/// The bare drives of a run, or of each of several runs.
pub struct BareDrives<'a> {
    /// The run of each target, and the target.
    targets: BTreeMap<&'a str, (usize, &'a TargetInfo)>,
    points: Vec<Bare<'a>>,
}

/// A measurement of bare drives.
struct Bare<'a> {
    point: &'a Point,
    /// Drives at once.
    drives: u32,
    /// Requests in flight at all drives together.
    outstanding: f64,
    rate: f64,
}

impl<'a> BareDrives<'a> {
    /// Finds them: targets of several bare drives at once, or one drive or file that is not an array.
    pub fn of(run: &'a Run) -> Self {
        Self::of_runs(run, &BTreeMap::new())
    }

    /// As [`Self::of`], of several runs that were joined to one: the number of the run that measured each target.
    pub fn of_runs(run: &'a Run, run_of: &BTreeMap<String, usize>) -> Self {
        let targets = run.manifest.targets.iter().map(|target| {
            let number = run_of.get(&target.name).copied().unwrap_or(0);
            (target.name.as_str(), (number, target))
        });
        let bare: BTreeMap<&str, u32> = run
            .manifest
            .targets
            .iter()
            .filter_map(|target| match target.kind {
                TargetKind::Model if target.level.is_none() => Some((target.name.as_str(), target.members.unwrap_or(1))),
                TargetKind::Members => Some((target.name.as_str(), target.members.unwrap_or(1))),
                TargetKind::File | TargetKind::Block if target.level.is_none() => Some((target.name.as_str(), 1)),
                _ => None,
            })
            .collect();
        let middle = |records: &[&Record]| {
            let rates: Vec<f64> = records.iter().map(|record| record.total.iops).collect();
            Summary::of(&rates).map(|summary| summary.median)
        };
        let points = select::results(run);
        let points = points.iter().filter(|(point, _)| !select::is_replayed(point)).filter_map(|(point, records)| {
            let drives = *bare.get(point.target.as_str())?;
            Some(Bare { point, drives, outstanding: select::outstanding(point, records), rate: middle(records)? })
        });
        Self { targets: targets.collect(), points: points.collect() }
    }

    /// True if a bare target consists of the array's own drives, and was measured in the same run.
    fn is_of(&self, array: &Point, bare: &Point) -> bool {
        let found = |point: &Point| self.targets.get(point.target.as_str());
        let (Some((run, array)), Some((other_run, bare))) = (found(array), found(bare)) else { return false };
        // What an array of another maker consists of is unknown.
        let is_known = matches!(array.kind, TargetKind::Array | TargetKind::Md | TargetKind::Model) && !array.drives.is_empty();
        let is_one = |drive: &DriveInfo| array.drives.iter().any(|own| own.path == drive.path);
        run == other_run && (!is_known || bare.drives.iter().all(is_one))
    }

    /// The rate of `drives` bare drives for requests like those of `point`, at a depth that `fits`; the highest of several.
    fn rate(&self, point: &Point, drives: u32, read_percent: u8, fits: impl Fn(&Bare<'_>) -> bool) -> Option<f64> {
        let alike = |other: &Point| {
            self.is_of(point, other)
                && other.pattern == point.pattern
                && other.block_bytes == point.block_bytes
                && other.read_percent == read_percent
                && other.drive_state == point.drive_state
                && other.mode == point.mode
                && other.compressible_percent == point.compressible_percent
                && other.mix == point.mix
                && other.variant == point.variant
        };
        let found = self.points.iter().filter(|bare| bare.drives == drives && alike(bare.point) && fits(bare));
        found.map(|bare| bare.rate).reduce(f64::max)
    }

    /// The rate of as many bare drives at once, without an array, for a point's own load.
    pub fn sum(&self, point: &Point) -> Option<f64> {
        let drives = point.members.filter(|_| !select::is_replayed(point))?;
        self.rate(point, drives, point.read_percent, |_| true)
            .or_else(|| Some(self.rate(point, 1, point.read_percent, |_| true)? * f64::from(drives)))
    }

    /// The theory line of a point of this run.
    pub fn ideal(&self, point: &Point) -> Option<Ideal> {
        let shape = shape(point).filter(|_| !select::is_replayed(point))?;
        let drives = point.members?;
        let share = f64::from(point.read_percent) / 100.0;
        let work = Work::of(&shape, pattern(point, share >= 1.0));
        let rates = |find: &dyn Fn(u8) -> Option<f64>| {
            // A direction may be missing if neither the load nor its law needs it; reads for a small write may not.
            let (read, write) = (find(100), find(0));
            let needs = |wanted: bool| if wanted { None } else { Some(f64::INFINITY) };
            let writes_read = work.all.reads > 0.0;
            Some(Rates { read: read.or(needs(share > 0.0 || writes_read))?, write: write.or(needs(share < 1.0))? })
        };
        let together = rates(&|percent| {
            let all = self.rate(point, drives, percent, |_| true);
            all.or_else(|| Some(self.rate(point, 1, percent, |_| true)? * f64::from(drives)))
        });
        let saturated = rates(&|percent| {
            let one = self.rate(point, 1, percent, |_| true);
            one.or_else(|| Some(self.rate(point, drives, percent, |_| true)? / f64::from(drives)))
        });
        let endless = Rates { read: f64::INFINITY, write: f64::INFINITY };
        let alone = rates(&|percent| self.rate(point, 1, percent, |bare| bare.outstanding == 1.0));
        let bounds = together.zip(saturated).map(|(together, saturated)| {
            let members = MemberRates { alone: alone.unwrap_or(endless), saturated, together };
            mixed(share, |read| {
                let pattern = pattern(point, read);
                Work::of(&shape, pattern).bounds(&members, pattern)
            })
        });
        let penalty = (share < 1.0).then(|| Work::of(&shape, pattern(point, false)).all);
        Some(Ideal { law: work.law, penalty, bounds })
    }
}

/// Bytes that members wrote per byte that clients wrote, over these records; `None` if it is unknown.
pub fn measured_penalty(records: &[&Record]) -> Option<f64> {
    let seen = records.iter().filter(|record| !record.members.is_empty());
    let (mut above, mut below) = (0_u64, 0_u64);
    for record in seen {
        above = above.saturating_add(record.write.as_ref().map_or(0, |write| write.bytes));
        below = record.members.iter().fold(below, |sum, member| sum.saturating_add(member.written_bytes));
    }
    (above > 0 && below > 0).then(|| below as f64 / above as f64)
}
