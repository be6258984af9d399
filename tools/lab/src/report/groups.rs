//! Points that differ in one field, drawn over that field: depth, drives, target, state; and latencies as distributions.

use super::chart::{self, Axis, Bar, Chart, Dot, Figure, Series};
use super::context::{Found, Group, Report, forget_target, group};
use super::modes;
use super::words::sentence_of_pair;
use crate::result::{DriveState, IoMode, Point, Record, SectionKind, TargetKind};
use crate::select::{self, short, time};
use crate::stats::{self, Summary};
use crate::theory;
use crate::units::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The most charts of one kind; the page says how many are left out, and the table has every figure.
const CHARTS_MAX: usize = 12;

/// The rate of a point over `x`.
fn dot(report: &Report<'_>, x: f64, records: &[&Record]) -> Option<Dot> {
    let summary = report.rate(records)?;
    Some(Dot { x, y: summary.median, low: summary.interval.low, high: summary.interval.high })
}

fn left_out(out: &mut String, count: usize) {
    if count > CHARTS_MAX {
        let _ = writeln!(out, "<p>{} more are in the table of every figure.</p>", count - CHARTS_MAX);
    }
}

/// Charts side by side; beyond the page's limit they are only written as files.
pub fn panels(report: &Report<'_>, charts: Vec<Figure>, remark: &str) -> String {
    if charts.is_empty() {
        return String::new();
    }
    let count = charts.len();
    let drawn: Vec<String> = charts.into_iter().map(|chart| report.draw(chart)).collect();
    let mut out = format!("<p>{remark}</p>\n<div class=\"panels\">\n{}</div>\n", drawn[..count.min(CHARTS_MAX)].concat());
    left_out(&mut out, count);
    out
}

/// The load of a group without its depth: "4 KiB random read".
fn load_without_depth(point: &Point) -> String {
    let load = select::load(point);
    load.replacen(&format!(", {}", select::depth(point)), "", 1)
}

/// Points that differ in depth only, or in threads only, in ascending order; at least three.
fn by_depth<'a>(report: &'a Report<'_>, forget: fn(&mut Point)) -> Vec<Group<'a>> {
    let depths = group(report, |point| {
        forget(point);
        point.queue_depth = 0;
    });
    let threads = group(report, |point| {
        forget(point);
        point.threads = 0;
    });
    let mut found: Vec<Group<'a>> = depths.into_values().chain(threads.into_values()).collect();
    for points in &mut found {
        points.sort_by_key(|(point, records)| select::outstanding(point, records) as u64);
    }
    found.retain(|points| depths_of(points).len() >= 3);
    found
}

fn depths_of(points: &Group<'_>) -> Vec<f64> {
    let depths: BTreeSet<u64> = points.iter().map(|(point, records)| select::outstanding(point, records) as u64).collect();
    depths.into_iter().map(|depth| depth as f64).collect()
}

/// The load, and the constant part of its depth: "4 KiB random read, 2 threads".
fn load_of(points: &Group<'_>) -> String {
    let point = points[0].0;
    let fixed = if points.iter().all(|(other, _)| other.threads == point.threads) {
        counted(point.threads, "thread", "threads")
    } else {
        format!("{} in flight in each thread", point.queue_depth)
    };
    format!("{}, {fixed}", load_without_depth(point))
}

/// The range of the depth.
fn range_of(points: &Group<'_>) -> String {
    let depths = depths_of(points);
    format!("{} to {} requests at a time", depths[0], depths[depths.len() - 1])
}

/// Throughput by depth for each load, and for each target the latencies against throughput.
pub fn depth_curves(report: &Report<'_>) -> String {
    let mut charts = Vec::new();
    let mut groups = by_depth(report, |_| ());
    // Arrays first: bare drives are there for comparison.
    groups.sort_by_key(|points| points[0].0.level.is_none());
    for points in groups {
        let curve = |latency: fn(&Record) -> Option<f64>| {
            let dots = points.iter().filter_map(|(_, records)| {
                let rate = report.rate(records)?.median;
                let latency = report.summary(records, latency)?;
                Some(Dot { x: rate, y: latency.median, low: latency.interval.low, high: latency.interval.high })
            });
            dots.collect::<Vec<Dot>>()
        };
        let percentiles = [
            curve(|record| record.total.latency.p50_ns),
            curve(|record| record.total.latency.p99_ns),
            curve(|record| record.total.latency.p999_ns),
        ];
        let latencies: Vec<f64> = percentiles.iter().flatten().flat_map(|dot| [dot.low, dot.high]).collect();
        let most = percentiles[0].iter().map(|dot| dot.x).fold(0.0, f64::max);
        let [p50, p99, p999] = percentiles;
        let point = points[0].0;
        let series = vec![Series::new("s0", "p50", p50), Series::new("s1", "p99", p99), Series::new("s4", "p99.9", p999)];
        let chart = Chart::new(
            Axis::from_zero(select::unit(point), most),
            Axis::log("latency", latencies.into_iter(), |value| time(value).replace(".00", "")),
            series,
        );
        charts.push(chart.figure(&format!("{}: {}", point.target, load_of(&points)), &range_of(&points), false));
    }
    let mut out = panels(report, charts, "Each point is one depth; the further right a curve goes before it rises, the better.");
    out += &panels(report, rate_by_depth(report), "The same loads by the number of requests at a time, targets together.");
    out
}

fn rate_by_depth(report: &Report<'_>) -> Vec<Figure> {
    let mut charts = Vec::new();
    for points in by_depth(report, forget_target) {
        let depths = depths_of(&points);
        let curve = |target: &str| -> Vec<Dot> {
            let mine = points.iter().filter(|(point, _)| point.target == target);
            mine.filter_map(|(point, records)| dot(report, select::outstanding(point, records), records)).collect()
        };
        let curves = targets_of(report, &points).into_iter().map(|target| report.curve(target, curve(target)));
        let series: Vec<Series> = curves.filter(|series| series.dots.len() >= 3).collect();
        if series.len() < 2 {
            continue;
        }
        let most = series.iter().flat_map(|series| &series.dots).map(|dot| dot.high).fold(0.0, f64::max);
        let point = points[0].0;
        let chart = Chart::new(Axis::at("requests at a time", &depths, true), Axis::from_zero(select::unit(point), most), series);
        charts.extend(chart.figures(&load_of(&points), &range_of(&points)));
    }
    charts
}

/// In the order of the manifest.
pub fn targets_of<'a>(report: &'a Report<'_>, points: &Group<'_>) -> Vec<&'a str> {
    let names: BTreeSet<&str> = points.iter().map(|(point, _)| point.target.as_str()).collect();
    report.run.manifest.targets.iter().map(|target| target.name.as_str()).filter(|name| names.contains(name)).collect()
}

/// Rates by the number of members: measured with each strip, allowed by theory, and the bare drives' sum.
pub fn scaling(report: &Report<'_>) -> String {
    let groups = group(report, |point| {
        point.target.clear();
        (point.members, point.strip_bytes) = (None, None);
    });
    let mut charts = Vec::new();
    for points in groups.into_values() {
        // There is no law for applications, so they are only compared side by side.
        let has_law = |point: &Point| point.level.is_some() && point.members.is_some() && !select::is_replayed(point);
        let points = points.into_iter().filter(|(point, _)| has_law(point));
        let mut by_strip: BTreeMap<Option<u64>, Group<'_>> = BTreeMap::new();
        points.for_each(|found| by_strip.entry(found.0.strip_bytes).or_default().push(found));
        by_strip.values_mut().for_each(|points| points.sort_by_key(|(point, _)| point.members));
        by_strip.retain(|_, points| points.len() > 1);
        // Theory is drawn once, for the strip with the most drives.
        let Some(points) = by_strip.values().rev().max_by_key(|points| points.len()) else { continue };
        let drives: Vec<f64> = points.iter().filter_map(|(point, _)| point.members.map(f64::from)).collect();
        let over = |value: &dyn Fn(&Point) -> Option<f64>| -> Vec<Dot> {
            let dot = |(point, _): &Found<'_>| Some(Dot::exact(f64::from(point.members?), value(point)?));
            points.iter().filter_map(dot).collect()
        };
        // Theory and bare drives count requests; charts of MB/s need them in bytes.
        let in_unit = |point: &Point| if select::unit(point) == "MB/s" { point.block_bytes as f64 / 1e6 } else { 1.0 };
        let allowed = over(&|point| Some(report.bare.ideal(point)?.bounds?.allowed * in_unit(point)));
        let bare = over(&|point| Some(report.bare.sum(point)? * in_unit(point)));
        let first = points[0].0;
        let (mut guide, mut remark) = (Vec::new(), String::new());
        if allowed.is_empty() {
            // Without bare drives: the law's line through the first measurement.
            if let (Some(start), Some(base)) = (dot(report, 0.0, points[0].1), theory::multiple(first)) {
                guide = over(&|point| Some(theory::multiple(point)? / base * start.y));
            }
            remark = "no bare drives were measured: theory goes through the first point".into();
        } else if let Some(worst) = share_of_allowed(report, points) {
            let strip = first.strip_bytes.filter(|_| by_strip.len() > 1);
            let strip = strip.map_or(String::new(), |bytes| format!(" with strip {}", select::size(bytes)));
            remark = format!("at {} drives{strip} {:.0} % of what theory allows", short(drives[drives.len() - 1]), worst * 100.0);
        }
        let measured = |(index, (strip, points)): (usize, (&Option<u64>, &Group<'_>))| {
            let dots = points.iter().filter_map(|(point, records)| dot(report, f64::from(point.members?), records)).collect();
            let name = match strip.filter(|_| by_strip.len() > 1) {
                Some(bytes) => format!("measured, strip {}", select::size(bytes)),
                None => "measured".into(),
            };
            Series::nth(index, name, dots)
        };
        let mut series = vec![
            Series::new("bare", "bare drives, sum", bare),
            Series::new("guide", "theory, from the first", guide),
            Series::new("allowed", "allowed by theory", allowed),
        ];
        series.extend(by_strip.iter().enumerate().map(measured));
        series.retain(|series| !series.dots.is_empty());
        let most = series.iter().flat_map(|series| &series.dots).map(|dot| dot.high.max(dot.y)).fold(0.0, f64::max);
        let chart = Chart::new(Axis::at("drives", &drives, false), Axis::from_zero(select::unit(first), most), series);
        let level = first.level.as_deref().map_or(String::new(), level_name);
        let spans = first.spans.map_or(String::new(), |spans| format!(" of {spans} spans"));
        charts.push(chart.figure(&format!("{level}{spans}: {}", select::load(first)), &remark, false));
    }
    panels(
        report,
        charts,
        "Bars are the interval of the median. <b>Allowed</b>: the level's law applied to the bare drives as this run measured them \
         (the busiest member, all members together, and waiting at this depth; the lowest). The dotted line is the bare drives without an array.",
    )
}

fn share_of_allowed(report: &Report<'_>, points: &Group<'_>) -> Option<f64> {
    let (point, records) = points.last()?;
    let allowed = report.bare.ideal(point)?.bounds?.allowed;
    Some(Summary::of(&select::values(records, |record| record.total.iops))?.median / allowed)
}

pub fn level_name(level: &str) -> String {
    if level == "jbod" { "JBOD".into() } else { format!("RAID {}", level.trim_start_matches("raid")) }
}

/// Targets under the same load, unless they differ only in drives or depth: bars with their spread.
pub fn side_by_side(report: &Report<'_>) -> String {
    let groups = group(report, forget_target);
    let mut charts = Vec::new();
    for points in groups.values() {
        let targets = targets_of(report, points);
        if targets.len() < 2 {
            continue;
        }
        let bars_of: Vec<Bar> = targets
            .iter()
            .filter_map(|target| {
                let (point, records) = points.iter().find(|(point, _)| point.target == *target)?;
                let summary = report.rate(records)?;
                let p99 = report.summary(records, |record| record.total.latency.p99_ns);
                let p99 = p99.map_or("–".into(), |p99| time(p99.median));
                Some(Bar {
                    name: (*target).to_string(),
                    value: summary.median,
                    low: summary.interval.low,
                    high: summary.interval.high,
                    words: format!("{} {}, p99 {p99}", short(summary.median), select::unit(point)),
                    class: chart::colour(report.place_of(target)),
                })
            })
            .collect();
        charts.push(Figure::bars(&select::load(points[0].0), "", bars_of));
    }
    panels(
        report,
        charts,
        "Targets under the same load, each in the colour that it has in all charts. The thin line is the interval of the median.",
    )
}

/// Variants of one load on one target: kinds of files, modes of access, compressible data.
pub fn variants(report: &Report<'_>) -> String {
    let kinds = [SectionKind::Sweep, SectionKind::FileCopy, SectionKind::Composite];
    let sections = report.run.manifest.sections.iter().filter(|section| kinds.contains(&section.kind));
    let sections: BTreeSet<&str> = sections.map(|section| section.id.as_str()).collect();
    let plain = |point: &mut Point| {
        point.variant.clear();
        (point.mode, point.compressible_percent) = (IoMode::Direct, 0);
    };
    let mut charts = Vec::new();
    for (key, points) in group(report, plain) {
        // Parts of the addresses have a chart of their own.
        let inside = |(_, records): &&Found<'_>| {
            let counts = |record: &&Record| {
                sections.contains(record.section.as_str()) && !record.extra.contains_key(crate::experiment::PLACE_PERCENT)
            };
            records.iter().all(counts)
        };
        let points: Group<'_> = points.iter().filter(inside).copied().collect();
        if points.len() < 2 {
            continue;
        }
        let bar = |(point, records): &Found<'_>| {
            let summary = report.rate(records)?;
            let compressible = format!("{} % compressible", point.compressible_percent);
            let words =
                [select::mode(point.mode), &point.variant, if point.compressible_percent > 0 { &compressible } else { "" }];
            let name = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
            Some(Bar {
                name: if name.is_empty() { "direct, random data".into() } else { name },
                value: summary.median,
                low: summary.interval.low,
                high: summary.interval.high,
                words: format!("{} {}", short(summary.median), select::unit(point)),
                class: "s0".into(),
            })
        };
        let bars_of: Vec<Bar> = points.iter().filter_map(bar).collect();
        charts.push(Figure::bars(&format!("{}: {}", key.target, select::load(&key)), "", bars_of));
    }
    panels(report, charts, "The same load in other ways: kinds of files, modes of access, data that a controller could compress.")
        + &modes::words(report)
}

const STATES: [DriveState; 5] = [DriveState::Fresh, DriveState::Filled, DriveState::Used, DriveState::Idle, DriveState::Trimmed];

fn by_state<'a>(points: &Group<'a>) -> Vec<(DriveState, Found<'a>)> {
    STATES.iter().filter_map(|state| Some((*state, *points.iter().find(|(point, _)| point.drive_state == *state)?))).collect()
}

/// Rates in each state of the drives, in percent of fresh.
pub fn states(report: &Report<'_>) -> String {
    let mut charts = Vec::new();
    for points in group(report, |point| point.drive_state = DriveState::AsFound).into_values() {
        let states = by_state(&points);
        if states.len() < 2 {
            continue;
        }
        let rate = |records: &[&Record]| report.rate(records);
        let Some(first) = rate(states[0].1.1) else { continue };
        let bars_of: Vec<Bar> = states
            .iter()
            .filter_map(|(state, (point, records))| {
                let summary = rate(records)?;
                let share = summary.median / first.median * 100.0;
                Some(Bar {
                    name: select::state(*state).to_string(),
                    value: summary.median,
                    low: summary.interval.low,
                    high: summary.interval.high,
                    words: format!("{} {}, {share:.0} %", short(summary.median), select::unit(point)),
                    class: match state {
                        DriveState::AsFound | DriveState::Trimmed => "s0",
                        DriveState::Fresh => "s2",
                        DriveState::Filled => "s3",
                        DriveState::Used => "s4",
                        DriveState::Idle => "s1",
                    }
                    .into(),
                })
            })
            .collect();
        let point = states[0].1.0;
        let load = select::load(&Point { drive_state: DriveState::AsFound, ..point.clone() });
        let remark = format!("percent of {}", select::state(states[0].0));
        charts.push(Figure::bars(&format!("{}: {load}", point.target), &remark, bars_of));
    }
    panels(
        report,
        charts,
        "The same load after a purge, after filling, after an idle time, and after discarding everything through the target.",
    )
}

/// The complementary distribution: the share of requests that took longer.
pub fn ccdf(report: &Report<'_>) -> String {
    let mut charts: Vec<((usize, bool), Figure)> = Vec::new();
    let matrices = report.run.manifest.sections.iter().filter(|section| section.kind == SectionKind::Iops);
    let matrices: BTreeSet<&str> = matrices.map(|section| section.id.as_str()).collect();
    for points in group(report, forget_target).into_values() {
        // Of a matrix of 56 cells only the classic ones.
        let point = points[0].0;
        let in_matrix = points.iter().any(|(_, records)| records.iter().any(|record| matrices.contains(record.section.as_str())));
        if in_matrix && !(point.block_bytes == 4096 && matches!(point.read_percent, 0 | 65 | 100)) {
            continue;
        }
        let mut series = Vec::new();
        for target in targets_of(report, &points) {
            let records = points.iter().filter(|(point, _)| point.target == target).flat_map(|(_, records)| records.iter());
            let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
            for (nanos, count) in records.flat_map(|record| &record.total.latency.bins) {
                let bin: &mut u64 = bins.entry(*nanos).or_default();
                *bin = bin.saturating_add(*count);
            }
            let all = bins.values().copied().fold(0, u64::saturating_add);
            let mut longer = all;
            let mut dots = Vec::new();
            for (nanos, count) in bins {
                longer = longer.saturating_sub(count);
                if longer > 0 {
                    dots.push(Dot::exact(nanos as f64, longer as f64 / all as f64));
                }
            }
            if dots.len() > 3 {
                series.push(report.curve(target, thin(dots)));
            }
        }
        if series.is_empty() {
            continue;
        }
        let times: Vec<f64> = series.iter().flat_map(|series| &series.dots).map(|dot| dot.x).collect();
        let shares: Vec<f64> = series.iter().flat_map(|series| &series.dots).map(|dot| dot.y).collect();
        let share = |value: f64| match value {
            value if value >= 1.0 => "all".to_string(),
            value if value >= 0.0099 => format!("{}%", (value * 100.0).round()),
            value => format!("1/{}", short(1.0 / value).replace(".0 ", "").replace(".00", "").replace(' ', "")),
        };
        let chart = Chart::new(
            Axis::log("latency", times.into_iter(), |value| time(value).replace(".00", "")),
            Axis::log("share of requests that took longer", shares.into_iter(), share),
            series,
        );
        let order = (chart.series.len(), !point.variant.is_empty());
        charts.extend(chart.figures(&select::load(point), "").into_iter().map(|figure| (order, figure)));
    }
    // Groups that compare targets come first, then the groups of one experiment.
    charts.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
    let charts = charts.into_iter().map(|(_, chart)| chart).collect();
    panels(
        report,
        charts,
        "The share of requests that took longer than a time: both axes are logarithmic, so rare outliers show.",
    )
}

/// At most 200 of the dots, including both ends: markers and curves need no more.
fn thin(dots: Vec<Dot>) -> Vec<Dot> {
    let step = dots.len().div_ceil(200).max(1);
    let last = dots.len() - 1;
    dots.into_iter().enumerate().filter(|(index, _)| index % step == 0 || *index == last).map(|(_, dot)| dot).collect()
}

/// The findings in sentences: best against second, and used against fresh.
pub fn findings(report: &Report<'_>) -> Vec<String> {
    // Only arrays of the same number of drives are compared, as more drives are always faster.
    let groups = group(report, |point| {
        let members = point.members;
        forget_target(point);
        point.members = members;
    });
    let mut pairs = Vec::new();
    for points in groups.values().rev().filter(|points| points.len() > 1) {
        let arrays = |point: &Point| {
            let known = report.run.manifest.targets.iter().find(|known| known.name == point.target);
            known.is_none_or(|known| {
                known.kind != TargetKind::Members && (known.kind != TargetKind::Model || known.level.is_some())
            })
        };
        let rate =
            |(_, records): &Found<'_>| Summary::of(&select::values(records, select::rate)).map_or(0.0, |summary| summary.median);
        let mut ranked: Vec<Found<'_>> =
            points.iter().copied().filter(|(point, records)| arrays(point) && !report.is_story(records)).collect();
        ranked.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        if let [best, second, ..] = ranked[..] {
            pairs.push((select::load(best.0), second, best));
        }
    }
    let shown = pairs.len();
    let rates = |(_, records): &Found<'_>| select::values(records, select::rate);
    let comparisons = pairs.iter().filter(|(_, second, best)| stats::can_test(&rates(second), &rates(best))).count();
    // The most certain findings first; noise gets only one sentence.
    let chance = |(_, second, best): &(String, Found<'_>, Found<'_>)| {
        stats::difference(&rates(second), &rates(best), comparisons).map_or(1.0, |difference| difference.p)
    };
    pairs.sort_by(|a, b| chance(a).total_cmp(&chance(b)));
    let certain = pairs.iter().filter(|pair| chance(pair) * (comparisons as f64) < stats::SIGNIFICANCE).count();
    let mut sentences: Vec<String> = pairs
        .into_iter()
        .filter_map(|(load, second, best)| {
            sentence_of_pair(&load, (&second.0.target, second.1), (&best.0.target, best.1), comparisons)
        })
        .take(certain.clamp(1, 4))
        .collect();
    if shown > sentences.len() {
        sentences.push(format!("{} more loads are set side by side below.", shown - sentences.len()));
    }
    let stated: Vec<Vec<(DriveState, Found<'_>)>> = group(report, |point| point.drive_state = DriveState::AsFound)
        .values()
        .map(by_state)
        .filter(|states| states.len() > 1 && states.iter().all(|(_, (_, records))| !report.is_story(records)))
        .collect();
    for states in stated.iter().take(2) {
        let (state, (point, fresh)) = states[0];
        for (other, (_, records)) in &states[1..] {
            let what =
                format!("{}, {}", point.target, select::load(&Point { drive_state: DriveState::AsFound, ..point.clone() }));
            sentences.extend(sentence_of_pair(
                &what,
                (select::state(state), fresh),
                (select::state(*other), records),
                stated.len() * 3,
            ));
        }
    }
    sentences
}
