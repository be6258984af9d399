//! The records that count, and the names of their points: for report, comparison and export.
//!
//! A record is evidence but not a result if requests failed, if it ended long before its time, or if its rebuild or scrub did.

use crate::result::{ArrayState, DriveState, IoMode, Pattern, Point, Record, Run, SectionKind, SteadyVerdict};
use crate::stats::Summary;
use crate::steady::WINDOW_ROUNDS;
use std::collections::{BTreeMap, BTreeSet};

/// Results by point, in the order of rounds, without preparation. If a section needs a steady state, only those of its verdict's
/// window; if several hosts worked together, their sum.
pub fn results(run: &Run) -> BTreeMap<&Point, Vec<&Record>> {
    let mut points: BTreeMap<&Point, Vec<&Record>> = BTreeMap::new();
    let sections = run.manifest.sections.iter().filter(|section| section.verdicts().next().is_some());
    let windows: BTreeMap<&str, Vec<&SteadyVerdict>> =
        sections.map(|section| (section.id.as_str(), section.verdicts().collect())).collect();
    let summed: BTreeSet<&str> =
        run.records.iter().filter(|record| record.host == "all").map(|record| record.section.as_str()).collect();
    // Each block size of Throughput has rounds of its own; a section of an older run has the verdict on one of them.
    let throughput = run.manifest.sections.iter().filter(|section| section.kind == SectionKind::Throughput);
    let throughput: BTreeSet<&str> = throughput.map(|section| section.id.as_str()).collect();
    let mut last_rounds: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    for record in run.records.iter().filter(|record| throughput.contains(record.section.as_str())) {
        let last = last_rounds.entry((record.section.as_str(), record.step)).or_default();
        *last = record.round.max(*last);
    }
    for record in run.records.iter().filter(|record| !record.preparation && record.failed.is_none()) {
        let of_section = windows.get(record.section.as_str());
        let is_of_step = |window: &&&SteadyVerdict| window.steps.is_some_and(|(from, to)| (from..to).contains(&record.step));
        let in_window = of_section.and_then(|all| all.iter().find(is_of_step).or(all.last())).is_none_or(|window| {
            let last_of_own = last_rounds.get(&(record.section.as_str(), record.step));
            match window.steps {
                Some((from, to)) if !(from..to).contains(&record.step) => {
                    last_of_own.is_none_or(|last| record.round + WINDOW_ROUNDS > *last)
                }
                // Too few rounds to choose from: all of them count.
                _ if !window.has_window() => true,
                _ => {
                    // Of WSAT one minute in thirty counts.
                    let (before, stride) = (record.round.saturating_sub(1), window.stride.max(1));
                    let counted = before / stride + 1;
                    before.is_multiple_of(stride) && (window.first_round..=window.last_round).contains(&counted)
                }
            }
        });
        if in_window && is_swept(record) && (record.host == "all") == summed.contains(record.section.as_str()) {
            points.entry(&record.point).or_default().push(record);
        }
    }
    points
}

/// In a record's `extra`: the requests in flight over all threads.
pub const OUTSTANDING: &str = "outstanding";

/// In a record's `extra`: the seconds from the start of a measurement to the end of the rebuild or scrub that it is about.
pub const SWEPT: &str = "swept_seconds";

/// The least part of such a measurement in which the rebuild or scrub must run.
const SWEPT_SHARE: f64 = 0.9;

/// False if the rebuild or scrub that a measurement is about ended too early in it.
pub fn is_swept(record: &Record) -> bool {
    record.extra.get(SWEPT).is_none_or(|swept| *swept >= SWEPT_SHARE * record.seconds)
}

/// True if the rounds of these records show a change over time: together they are one repeat. The minutes in the window of a
/// write saturation are repeats, as they lie half an hour apart.
pub fn is_story(run: &Run, records: &[&Record]) -> bool {
    let section = |record: &Record| run.manifest.sections.iter().find(|section| section.id == record.section);
    records.iter().filter_map(|record| section(record)).any(|section| match section.kind {
        SectionKind::Hir | SectionKind::Xsr => true,
        SectionKind::Wsat => !section.steady.as_ref().is_some_and(SteadyVerdict::has_window),
        _ => false,
    })
}

/// One value of each repeat: of each record, or the median if all records are one repeat.
pub fn repeats(records: &[&Record], is_one: bool, value: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
    let values = known(records, value);
    match is_one {
        true => Summary::of(&values).map(|summary| summary.median).into_iter().collect(),
        false => values,
    }
}

/// One value of each record of which it is known.
pub fn known(records: &[&Record], value: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
    records.iter().filter_map(|record| value(record)).collect()
}

/// One value of each record.
pub fn values(records: &[&Record], value: impl Fn(&Record) -> f64) -> Vec<f64> {
    records.iter().map(|record| value(record)).collect()
}

pub use crate::units::show_size as size;

/// Requests in flight at a time. A load on several drives has at least one on each, even if its depth times its threads is less.
pub fn outstanding(point: &Point, records: &[&Record]) -> f64 {
    let stored = records.iter().filter_map(|record| record.extra.get(OUTSTANDING).copied()).find(|count| *count > 0.0);
    stored.unwrap_or(f64::from(point.outstanding()))
}

/// 100 for reads, 0 for writes, else the percentage of reads.
pub fn direction(read_percent: u8) -> String {
    match read_percent {
        100 => "read".into(),
        0 => "write".into(),
        share => format!("{share} % reads"),
    }
}

/// The load of a point without its target: "4 KiB random read, QD 32 × 2".
pub fn load(point: &Point) -> String {
    if point.variant.starts_with("copied ") {
        let threads = if point.threads > 1 { format!(", {} at a time", point.threads) } else { String::new() };
        return format!("{}, {}{threads}", point.mix, point.variant);
    }
    if is_replayed(point) {
        let more = [point.variant.as_str(), state(point.drive_state)].into_iter().filter(|words| !words.is_empty());
        return format!("{} {}", point.mix, more.collect::<Vec<_>>().join(", "));
    }
    let order = match point.pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    };
    let what = if point.mix.is_empty() { format!("{} {order}", size(point.block_bytes)) } else { format!("{} mix", point.mix) };
    let mut text = format!("{what} {}, {}", direction(point.read_percent), depth(point));
    if point.compressible_percent > 0 {
        text += &format!(", {} % compressible", point.compressible_percent);
    }
    for more in [state(point.drive_state), array_state(point.array_state), mode(point.mode), &point.variant] {
        if !more.is_empty() {
            text += ", ";
            text += more;
        }
    }
    text
}

/// "QD 32", "QD 8 × 2".
pub fn depth(point: &Point) -> String {
    if point.threads > 1 { format!("QD {} × {}", point.queue_depth, point.threads) } else { format!("QD {}", point.queue_depth) }
}

/// Empty where nothing is special.
pub fn state(state: DriveState) -> &'static str {
    match state {
        DriveState::AsFound => "",
        DriveState::Fresh => "fresh",
        DriveState::Filled => "filled",
        DriveState::Used => "used",
        DriveState::Idle => "after idling",
        DriveState::Trimmed => "trimmed",
    }
}

/// Empty where nothing is special.
pub fn array_state(state: ArrayState) -> &'static str {
    match state {
        ArrayState::Optimal => "",
        ArrayState::Degraded => "degraded",
        ArrayState::Rebuilding => "rebuilding",
        ArrayState::Rebuilt => "rebuilt",
        ArrayState::Scrubbing => "scrubbing",
    }
}

/// Empty where nothing is special.
pub fn mode(mode: IoMode) -> &'static str {
    match mode {
        IoMode::Direct => "",
        IoMode::DirectSync => "synchronous",
        IoMode::WriteThrough => "write-through",
        IoMode::Cached => "cached",
        IoMode::Sparse => "sparse file",
    }
}

/// The prefix of the variant of an application's look-alike.
pub const REPLAYED: &str = "replayed";

/// True for an application's look-alike: one request at a time of many kinds, for which the levels' laws do not apply.
pub fn is_replayed(point: &Point) -> bool {
    point.variant.starts_with(REPLAYED)
}

/// The unit of a point's rate: MB/s for sequential and large requests and for applications, else IOPS.
pub fn unit(point: &Point) -> &'static str {
    let in_bytes = point.pattern == Pattern::Sequential || point.block_bytes >= 128 << 10 || is_replayed(point);
    if in_bytes { "MB/s" } else { "IOPS" }
}

/// The rate of a record in its point's unit.
pub fn rate(record: &Record) -> f64 {
    if unit(&record.point) == "MB/s" { record.total.mb_per_s } else { record.total.iops }
}

pub use stria_bench::report::{escape, short};

/// Nanoseconds with a unit that suits.
pub fn time(nanos: f64) -> String {
    stria_bench::report::time(nanos.max(0.0).round() as u64)
}
