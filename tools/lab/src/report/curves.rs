//! Rates over the size of requests, over the address on the drive, and second by second.

use super::chart::{Axis, Chart, Dot, Series};
use super::context::{Found, Group, Report, forget_target, group};
use super::groups::{panels, targets_of};
use super::timeline;
use crate::experiment::PLACE_PERCENT;
use crate::result::{Point, Record, Sample, SectionKind};
use crate::select::{self, time};
use crate::stats::Summary;
use std::collections::{BTreeMap, BTreeSet};

/// Loads that are shown second by second; the others are in the run's folder.
const LOADS_MAX: usize = 6;
/// Fewer samples than this show no trend.
const SAMPLES_MIN: usize = 5;

/// Bytes per second over the size of requests: a curve for each target if there are several, else for each percentage of reads.
pub fn sizes(report: &Report<'_>) -> String {
    let groups = group(report, |point| {
        forget_target(point);
        (point.block_bytes, point.read_percent) = (0, 0);
    });
    let mut charts = Vec::new();
    let apart = groups.into_values().flat_map(|points| {
        let many = points.iter().any(|(point, _)| point.target != points[0].0.target);
        let mut by_share: BTreeMap<u8, Group<'_>> = BTreeMap::new();
        for (point, records) in points {
            by_share.entry(if many { point.read_percent } else { 0 }).or_default().push((point, records));
        }
        by_share.into_values().map(move |points| (many, points))
    });
    for (many, points) in apart {
        let name = |point: &Point| if many { point.target.clone() } else { select::direction(point.read_percent) };
        let points: Group<'_> = points.into_iter().filter(|(point, _)| point.mix.is_empty()).collect();
        let sizes: BTreeSet<u64> = points.iter().map(|(point, _)| point.block_bytes).collect();
        if sizes.len() < 3 {
            continue;
        }
        let mut names: Vec<String> = Vec::new();
        for (point, _) in &points {
            let name = name(point);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let dot = |(point, records): &Found<'_>| {
            let rate = report.summary(records, |record| Some(record.total.mb_per_s))?;
            let x = point.block_bytes as f64 / 1024.0;
            Some(Dot { x, y: rate.median, low: rate.interval.low, high: rate.interval.high })
        };
        let curve = |(index, name_of): (usize, &String)| {
            let dots = points.iter().filter(|(point, _)| name(point) == *name_of).filter_map(dot).collect();
            if many { report.curve(name_of, dots) } else { Series::nth(index, name_of, dots) }
        };
        let series: Vec<Series> = names.iter().enumerate().map(curve).filter(|series| series.dots.len() >= 3).collect();
        if series.is_empty() {
            continue;
        }
        let sizes: Vec<f64> = sizes.into_iter().map(|bytes| bytes as f64 / 1024.0).collect();
        let most = series.iter().flat_map(|series| &series.dots).map(|dot| dot.high).fold(0.0, f64::max);
        let chart = Chart::new(Axis::at("KiB a request", &sizes, true), Axis::from_zero("MB/s", most), series);
        let (first, _) = points[0];
        // The size is the axis, and the curves are either targets or percentages of reads.
        let load = select::load(first);
        let load = load.replacen(&format!("{} ", select::size(first.block_bytes)), "", 1);
        let load = if many { load } else { load.replacen(&format!(" {}", select::direction(first.read_percent)), "", 1) };
        let caption = if many { load } else { format!("{}: {load}", first.target) };
        charts.extend(chart.figures(&caption, ""));
    }
    panels(report, charts, "Bytes a second by the size of requests; bars are the interval of the median.")
}

/// "part 03 of 16, ioengine=libaio" without the part, which is the axis.
fn without_part(variant: &str) -> String {
    if variant.starts_with("part ") { variant.split_once(", ").map_or("", |(_, rest)| rest).into() } else { variant.into() }
}

/// Rates from the first address to the last: disks are faster on their outer tracks, other drives may have a fast part.
pub fn places(report: &Report<'_>) -> String {
    let place = |records: &[&Record]| records.first().and_then(|record| record.extra.get(PLACE_PERCENT)).copied();
    let mut charts = Vec::new();
    for points in group(report, |point| {
        forget_target(point);
        point.variant = without_part(&point.variant);
    })
    .into_values()
    {
        let points: Group<'_> = points.into_iter().filter(|(_, records)| place(records).is_some()).collect();
        if points.is_empty() {
            continue;
        }
        let (first, _) = points[0];
        let curve = |target: &str| -> Vec<Dot> {
            let mine = points.iter().filter(|(point, _)| point.target == target);
            let dots = mine.filter_map(|(_, records)| {
                let rate = report.rate(records)?;
                Some(Dot { x: place(records)?, y: rate.median, low: rate.interval.low, high: rate.interval.high })
            });
            let mut dots: Vec<Dot> = dots.collect();
            dots.sort_by(|a, b| a.x.total_cmp(&b.x));
            dots
        };
        let targets = targets_of(report, &points).into_iter();
        let series: Vec<Series> = targets.map(|target| report.curve(target, curve(target))).collect();
        let slowest = |series: &Series| {
            let (low, high) = series.dots.iter().fold((f64::INFINITY, 1e-9f64), |(l, h), dot| (l.min(dot.y), h.max(dot.y)));
            low / high
        };
        let slowest = series.iter().map(slowest).fold(1.0, f64::min);
        let most = series.iter().flat_map(|series| &series.dots).map(|dot| dot.high).fold(0.0, f64::max);
        let chart =
            Chart::new(Axis::until("percent of the addresses", 100.0), Axis::from_zero(select::unit(first), most), series);
        let load = select::load(&Point { variant: without_part(&first.variant), ..first.clone() });
        let remark = format!("the slowest part has {:.0} % of the rate of the fastest", slowest * 100.0);
        charts.extend(chart.figures(&load, &remark));
    }
    panels(report, charts, "The same load on equal parts of the addresses, one after the other, from the first to the last.")
}

/// Rate and latency second by second, of the longest measurements, and among them those with the largest variation.
pub fn seconds(report: &Report<'_>) -> String {
    let sweeps = report.run.manifest.sections.iter().filter(|section| section.kind == SectionKind::Sweep);
    let sweeps: BTreeSet<&str> = sweeps.map(|section| section.id.as_str()).collect();
    let samples_of = |records: &[&Record]| -> Option<&[Sample]> {
        let record = records.iter().rev().find(|record| sweeps.contains(record.section.as_str()))?;
        let samples = &report.series.get(&record.index)?.samples;
        (samples.len() >= SAMPLES_MIN).then_some(&samples[..])
    };
    let total = |sample: &Sample| sample.read_iops + sample.write_iops;
    let mut loads: Vec<(u64, f64, Group<'_>)> = Vec::new();
    for points in group(report, forget_target).into_values() {
        let points: Group<'_> = points.into_iter().filter(|(_, records)| samples_of(records).is_some()).collect();
        let longest = points.iter().filter_map(|(_, records)| samples_of(records)?.iter().map(|now| now.at_ms).max()).max();
        let spread = |(_, records): &Found<'_>| {
            let rates: Vec<f64> = samples_of(records)?.iter().map(total).collect();
            Some(Summary::of(&rates)?.mean_deviation_percent())
        };
        if let Some(longest) = longest {
            let spread = points.iter().filter_map(spread).fold(0.0, f64::max);
            loads.push((longest, spread, points));
        }
    }
    // A difference of a second does not make a measurement longer.
    loads.sort_by(|a, b| (b.0 / 8000).cmp(&(a.0 / 8000)).then(b.1.total_cmp(&a.1)));
    let (all, mut charts) = (loads.len(), Vec::new());
    for (longest_ms, _, points) in loads.into_iter().take(LOADS_MAX) {
        let (first, _) = points[0];
        let in_bytes = select::unit(first) == "MB/s";
        let rate = |sample: &Sample| if in_bytes { sample.read_mb_per_s + sample.write_mb_per_s } else { total(sample) };
        let curves = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Series> {
            let curve = |target: &str| {
                let (_, records) = points.iter().find(|(point, _)| point.target == target)?;
                let dot = |sample: &Sample| Some(Dot::exact(sample.at_ms as f64 / 1000.0, value(sample)?));
                let dots: Vec<Dot> = samples_of(records)?.iter().filter_map(dot).collect();
                Some(report.curve(target, timeline::thin(&dots)))
            };
            targets_of(report, &points).into_iter().filter_map(curve).collect()
        };
        let most = |series: &[Series]| series.iter().flat_map(|series| &series.dots).map(|dot| dot.y).fold(0.0, f64::max);
        let rates = curves(&|sample| Some(rate(sample)));
        let latencies = curves(&|sample| sample.latency_mean_ns);
        let times: Vec<f64> = latencies.iter().flat_map(|series| &series.dots).map(|dot| dot.y).collect();
        let (load, end) = (select::load(first), longest_ms as f64 / 1000.0);
        let rate_axis = Axis::from_zero(select::unit(first), most(&rates));
        let time_axis = Axis::log("mean latency", times.into_iter(), |value| time(value).replace(".00", ""));
        charts.extend(Chart::new(Axis::until("seconds", end), rate_axis, rates).figures(&load, ""));
        charts.extend(Chart::new(Axis::until("seconds", end), time_axis, latencies).figures(&format!("{load}: latency"), ""));
    }
    let more = if all > LOADS_MAX {
        format!(" {} more loads have such curves in the run's folder (series.csv of an export).", all - LOADS_MAX)
    } else {
        String::new()
    };
    panels(report, charts, &format!("The last pass of the loads that were measured longest or varied most.{more}"))
}
