//! Changes over time: rounds until the steady state, saturation, recovery, and an array that loses a member.

use super::chart::{Axis, Chart, Dot, Figure, Series};
use super::context::Report;
use super::table::{spread_cell, table};
use crate::result::{ArrayState, DriveState, Point, Record, Sample, Section, SectionKind, SteadyVerdict};
use crate::select::{self, escape, short, time};
use crate::stats::{self, Summary};
use crate::units::{counted, show_seconds as duration};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The most samples of a curve; more are combined to medians.
const SAMPLES_MAX: usize = 300;

/// Rounds of the tracked value, the window, the limits, and the calculation.
pub fn convergence(report: &Report<'_>) -> String {
    let mut charts = String::new();
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (section, steady) in report.run.manifest.verdicts() {
        charts += &report.draw(convergence_chart(report, section, steady));
        let cell = |text: String| format!("<td>{text}</td>");
        if !steady.has_window() {
            let mut cells = vec!["<td class=\"bad\">✗ not steady</td>".into(), cell(format!("none in {}", steady.values.len()))];
            cells.resize(6, cell("–".into()));
            rows.push((escape(&format!("{}, {}{}", section.title, section.target, of_several(section, steady))), cells));
            continue;
        }
        let percent = |value: f64| format!("{:.1} %", value / steady.mean * 100.0);
        // By all rounds R, of which only some count.
        let slope = steady.slope / f64::from(steady.stride.max(1));
        let intercept = steady.intercept + steady.slope - slope;
        let mark = if steady.reached { "<td class=\"good\">✓ steady</td>" } else { "<td class=\"bad\">✗ not steady</td>" };
        rows.push((
            escape(&format!("{}, {}{}", section.title, section.target, of_several(section, steady))),
            vec![
                mark.to_string(),
                cell(window_words(report, steady)),
                cell(escape(&format!("{} {}", short(steady.mean), steady.unit))),
                cell(format!("{} <small>of {} allowed</small>", percent(steady.excursion), percent(steady.excursion_allowed))),
                cell(format!(
                    "{} <small>of {} allowed</small>",
                    percent(steady.slope_excursion),
                    percent(steady.slope_excursion_allowed)
                )),
                cell(format!(
                    "{}{}·R {} {}",
                    if slope < 0.0 { "−" } else { "" },
                    short(slope.abs()),
                    if intercept < 0.0 { "−" } else { "+" },
                    short(intercept.abs())
                )),
            ],
        ));
    }
    if charts.is_empty() {
        return String::new();
    }
    let heads = ["", "verdict", "window", "mean", "excursion", "slope excursion", "best line"];
    let mut out = String::from(
        "<p>A measurement is steady when over five rounds the largest and smallest value differ by at most 20 % of their mean, and the best \
         line through them rises or falls by at most 10 % (SNIA PTS 2.0). Shaded: the window. Dashed: mean ± 10 %, and the best line.</p>\n",
    );
    let _ = writeln!(out, "<div class=\"panels\">\n{charts}</div>");
    table(&mut out, "Calculation", &heads, rows);
    out
}

/// The unit of a verdict's rounds: where only one in so many counts, a round of the method takes a minute.
pub fn rounds_word(report: &Report<'_>, steady: &SteadyVerdict) -> &'static str {
    if steady.stride > 1 && report.run.manifest.scaled.is_none() { "minutes" } else { "rounds" }
}

/// "minutes 31 to 151".
pub fn window_words(report: &Report<'_>, steady: &SteadyVerdict) -> String {
    let (first, last) = (steady.among_all(steady.first_round), steady.among_all(steady.last_round));
    format!("{} {first} to {last}", rounds_word(report, steady))
}

/// The rounds that were done, also those that do not count.
pub fn rounds_done(report: &Report<'_>, section: &Section, steady: &SteadyVerdict) -> u32 {
    let counted = steady.among_all(u32::try_from(steady.values.len()).unwrap_or(u32::MAX));
    let is_own = |record: &&Record| steady.steps.is_some_and(|(from, to)| (from..to).contains(&record.step));
    of_section(report, section).filter(is_own).map(|record| record.round).max().unwrap_or(counted).max(counted)
}

fn convergence_chart(report: &Report<'_>, section: &Section, steady: &SteadyVerdict) -> Figure {
    let among = |counted: f64| (counted - 1.0) * f64::from(steady.stride.max(1)) + 1.0;
    let round = |index: usize| among((index + 1) as f64);
    let measured: Vec<Dot> = steady.values.iter().enumerate().map(|(index, value)| Dot::exact(round(index), *value)).collect();
    let (first, last) = (f64::from(steady.first_round), f64::from(steady.last_round));
    let across = |value: f64| vec![Dot::exact(among(first), value), Dot::exact(among(last), value)];
    let line = |counted: f64| Dot::exact(among(counted), steady.slope * counted + steady.intercept);
    let most = steady.values.iter().copied().fold(steady.mean * 1.1, f64::max);
    let mut series = Vec::new();
    if steady.has_window() {
        series.extend([
            Series::new("guide", "mean ± 10 %", across(steady.mean * 1.1)),
            Series::new("guide", "mean ± 10 %", across(steady.mean * 0.9)),
            Series::new("guide2", "best line", vec![line(first), line(last)]),
        ]);
    }
    series.push(Series::new(if steady.reached { "s2" } else { "s4" }, steady.tracked.clone(), measured));
    let rounds: Vec<f64> = (0..steady.values.len().max(2)).map(round).collect();
    let unit = rounds_word(report, steady).trim_end_matches('s');
    let mut chart = Chart::new(Axis::at(unit, &rounds, false), Axis::from_zero(&steady.unit, most), series);
    chart.window = steady.has_window().then_some((among(first), among(last)));
    let remark = if steady.reached {
        format!("steady in {}", window_words(report, steady))
    } else {
        let done = rounds_done(report, section, steady);
        format!("not steady after {done} of at most {} {}", steady.rounds_max, rounds_word(report, steady))
    };
    chart.figure(&format!("{}: {}{}", section.title, section.target, of_several(section, steady)), &remark, false)
}

/// The tracked figure of a verdict, if its section has several verdicts.
pub fn of_several(section: &Section, steady: &SteadyVerdict) -> String {
    if section.steady_before.is_empty() { String::new() } else { format!(", {}", steady.tracked) }
}

/// Measurements of a section that did not fail, with those of its preparation.
fn of_section<'r>(report: &'r Report<'_>, section: &'r Section) -> impl Iterator<Item = &'r Record> {
    report.run.records.iter().filter(|record| record.section == section.id && record.failed.is_none())
}

/// Seconds since the first record of a section.
fn since(records: &[&Record], record: &Record) -> f64 {
    record.begun_ms.saturating_sub(records[0].begun_ms) as f64 / 1000.0
}

/// The unit for a span of seconds, and how many seconds it has.
fn unit_of(span: f64) -> (&'static str, f64) {
    match span {
        span if span > 7200.0 => ("hours", 3600.0),
        span if span > 180.0 => ("minutes", 60.0),
        _ => ("seconds", 1.0),
    }
}

/// Curves thinned to their medians.
pub fn thin(dots: &[Dot]) -> Vec<Dot> {
    let step = dots.len().div_ceil(SAMPLES_MAX).max(1);
    let middle = |part: &[Dot]| {
        let values: Vec<f64> = part.iter().map(|dot| dot.y).collect();
        Some(Dot::exact(part[part.len() / 2].x, Summary::of(&values)?.median))
    };
    dots.chunks(step).filter_map(middle).collect()
}

/// Saturation, recovery and other stories in rounds: rates and latencies over time.
pub fn over_time(report: &Report<'_>) -> String {
    let mut charts = String::new();
    for section in &report.run.manifest.sections {
        let kinds = [SectionKind::Wsat, SectionKind::Hir, SectionKind::Xsr, SectionKind::States, SectionKind::Replay];
        let records: Vec<&Record> = of_section(report, section).collect();
        let has_series =
            records.iter().any(|record| report.series.get(&record.index).is_some_and(|series| series.samples.len() > 5));
        // Consecutive applications do not show a change over time.
        let is_mixed = section.kind == SectionKind::Replay && records.iter().any(|record| record.point != records[0].point);
        if is_mixed || !kinds.contains(&section.kind) || records.is_empty() || (records.len() < 5 && !has_series) {
            continue;
        }
        charts += &report.draw(rate_over_time(report, section, &records));
        if records.len() >= 5 {
            charts += &report.draw(latency_over_time(section, &records));
        }
    }
    if charts.is_empty() { charts } else { format!("<div class=\"panels\">\n{charts}</div>\n") }
}

/// One dot for each sample where there are samples, else for each record.
fn rates(report: &Report<'_>, records: &[&Record], whole: fn(&Record) -> f64, part: fn(&Sample) -> f64) -> Vec<Dot> {
    let mut dots = Vec::new();
    for record in records {
        let start = since(records, record);
        match report.series.get(&record.index).filter(|series| series.samples.len() > 1) {
            Some(series) => {
                dots.extend(series.samples.iter().map(|sample| Dot::exact(start + sample.at_ms as f64 / 1000.0, part(sample))));
            }
            None => dots.push(Dot::exact(start + record.seconds / 2.0, whole(record))),
        }
    }
    dots
}

fn rate_over_time(report: &Report<'_>, section: &Section, records: &[&Record]) -> Figure {
    let sequential = records.iter().filter(|record| select::unit(&record.point) == "MB/s").count() * 2 > records.len();
    let dots = if sequential {
        rates(report, records, |record| record.total.mb_per_s, |sample| sample.read_mb_per_s + sample.write_mb_per_s)
    } else {
        rates(report, records, |record| record.total.iops, |sample| sample.read_iops + sample.write_iops)
    };
    let span = dots.last().map_or(0.0, |dot| dot.x);
    let (unit, seconds) = unit_of(span);
    let dots: Vec<Dot> = thin(&dots).into_iter().map(|dot| Dot { x: dot.x / seconds, ..dot }).collect();
    let most = dots.iter().map(|dot| dot.y).fold(0.0, f64::max);
    let written: u64 =
        records.iter().filter_map(|record| record.write.as_ref()).map(|write| write.bytes).fold(0, u64::saturating_add);
    let span_bytes =
        report.run.manifest.targets.iter().find(|target| target.name == section.target).map_or(0, |target| target.span_bytes);
    let fills =
        if span_bytes > 0 { format!(", {:.1} times the span", written as f64 / span_bytes as f64) } else { String::new() };
    let name = if sequential { "MB/s" } else { "IOPS" };
    let chart = Chart::new(Axis::until(unit, span / seconds), Axis::from_zero(name, most), vec![Series::new("s0", name, dots)]);
    chart.figure(
        &format!("{}: {}", section.title, section.target),
        &format!("{} written{fills}, in {}", select::size(written), duration(span)),
        true,
    )
}

fn latency_over_time(section: &Section, records: &[&Record]) -> Figure {
    let span = records.last().map_or(0.0, |record| since(records, record) + record.seconds);
    let (unit, seconds) = unit_of(span);
    let curve = |value: fn(&Record) -> f64| {
        let dot = |record: &&Record| Dot::exact(since(records, record) + record.seconds / 2.0, value(record));
        let dots: Vec<Dot> = records.iter().map(dot).filter(|dot| dot.y > 0.0).collect();
        thin(&dots).into_iter().map(|dot| Dot { x: dot.x / seconds, ..dot }).collect::<Vec<Dot>>()
    };
    let series = vec![
        Series::new("s0", "mean", curve(|record| record.total.latency.mean_ns)),
        Series::new("s1", "p99.999", curve(|record| record.total.latency.p99999_ns.unwrap_or(0.0))),
        Series::new("s4", "max", curve(|record| record.total.latency.max_ns)),
    ];
    let values: Vec<f64> = series.iter().flat_map(|series| &series.dots).map(|dot| dot.y).collect();
    let latency = Axis::log("latency", values.into_iter(), |value| time(value).replace(".00", ""));
    Chart::new(Axis::until(unit, span / seconds), latency, series).figure(
        &format!("{}: {}, latency", section.title, section.target),
        "",
        true,
    )
}

/// An array that loses a member: clients' rates and the rebuild on one time line, and each state beside the optimal array.
pub fn raid(report: &Report<'_>) -> String {
    let mut out = String::new();
    for section in report.run.manifest.sections.iter().filter(|section| section.kind == SectionKind::Raid) {
        let mut records: Vec<&Record> = of_section(report, section).filter(|record| !record.preparation).collect();
        records.sort_by_key(|record| record.begun_ms);
        if records.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h3>{}: {}</h3>", escape(&section.title), escape(&section.target));
        out += &report.draw(raid_timeline(report, section, &records));
        raid_table(&mut out, report, &records);
    }
    out
}

fn raid_timeline(report: &Report<'_>, section: &Section, records: &[&Record]) -> Figure {
    let reads =
        rates(report, records, |record| record.read.as_ref().map_or(0.0, |read| read.mb_per_s), |sample| sample.read_mb_per_s);
    let writes = rates(
        report,
        records,
        |record| record.write.as_ref().map_or(0.0, |write| write.mb_per_s),
        |sample| sample.write_mb_per_s,
    );
    let mut sweep = Vec::new();
    for record in records {
        let start = since(records, record);
        let before = sweep.len();
        for pair in report.series.get(&record.index).map_or(&[][..], |series| &series.sweep).windows(2) {
            let seconds = pair[1].at_ms.saturating_sub(pair[0].at_ms) as f64 / 1000.0;
            let bytes = pair[1].done_bytes.saturating_sub(pair[0].done_bytes) as f64;
            if seconds > 0.0 && pair[0].kind == pair[1].kind && !pair[1].kind.is_empty() {
                sweep.push(Dot::exact(start + pair[1].at_ms as f64 / 1000.0, bytes / 1e6 / seconds));
            }
        }
        if sweep.len() == before {
            sweep.extend([start, start + record.seconds].map(|at| Dot::exact(at, 0.0)));
        }
    }
    let span = reads.last().map_or(0.0, |dot| dot.x);
    let (unit, seconds) = unit_of(span);
    let ready = |dots: &[Dot]| thin(dots).into_iter().map(|dot| Dot { x: dot.x / seconds, ..dot }).collect::<Vec<Dot>>();
    let series = vec![
        Series::new("s0", "clients' reads", ready(&reads)),
        Series::new("s1", "clients' writes", ready(&writes)),
        Series::new("s2", "rebuild or scrub", ready(&sweep)),
    ];
    let series: Vec<Series> = series.into_iter().filter(|series| series.dots.iter().any(|dot| dot.y > 0.0)).collect();
    let most = series.iter().flat_map(|series| &series.dots).map(|dot| dot.y).fold(0.0, f64::max);
    let mut chart = Chart::new(Axis::until(unit, span / seconds), Axis::from_zero("MB/s", most), series);
    let mut steps = Vec::new();
    let mut before = String::new();
    for record in records {
        let trimmed = if record.point.drive_state == DriveState::Trimmed { ", trimmed" } else { "" };
        let now = format!("{}{trimmed}", state_name(record.point.array_state));
        if before != now {
            chart.marks.push(since(records, record) / seconds);
            steps.push(format!("{} {now}", steps.len() + 1));
            before = now;
        }
    }
    chart.figure(&format!("{}: clients and rebuild over time", section.target), &steps.join(" · "), true)
}

fn state_name(state: ArrayState) -> &'static str {
    match state {
        ArrayState::Optimal => "whole",
        other => select::array_state(other),
    }
}

/// The load of a record, without the state of the array.
fn load(record: &Record) -> String {
    select::load(&Point { array_state: ArrayState::Optimal, ..record.point.clone() })
}

/// The rate of a record. If its rebuild or scrub ended too early in it, the mean rate of the seconds until then.
fn rate_in_state(report: &Report<'_>, record: &Record) -> Option<f64> {
    if select::is_swept(record) {
        return Some(select::rate(record));
    }
    let until_ms = record.extra.get(select::SWEPT)? * 1000.0;
    let samples = report.series.get(&record.index)?.samples.iter().filter(|sample| sample.at_ms as f64 <= until_ms);
    let in_bytes = select::unit(&record.point) == "MB/s";
    let rate = |sample: &Sample| match in_bytes {
        true => sample.read_mb_per_s + sample.write_mb_per_s,
        false => sample.read_iops + sample.write_iops,
    };
    let rates: Vec<f64> = samples.map(rate).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The rate in each state of an array in percent of the optimal one, over all loads, and the duration of rebuilds.
pub fn raid_findings(report: &Report<'_>) -> Vec<String> {
    let sections = report.run.manifest.sections.iter().filter(|section| section.kind == SectionKind::Raid);
    let found = sections.filter_map(|section| {
        let records = || of_section(report, section).filter(|record| !record.preparation);
        let mut by_load: BTreeMap<String, BTreeMap<ArrayState, Vec<f64>>> = BTreeMap::new();
        for record in records() {
            let Some(rate) = rate_in_state(report, record) else { continue };
            by_load.entry(load(record)).or_default().entry(record.point.array_state).or_default().push(rate);
        }
        let median = |rates: &Vec<f64>| Summary::of(rates).map(|summary| summary.median).filter(|rate| *rate > 0.0);
        let share_in = |state: ArrayState| {
            let of = |states: &BTreeMap<ArrayState, Vec<f64>>| {
                Some(median(states.get(&state)?)? / median(states.get(&ArrayState::Optimal)?)? * 100.0)
            };
            let shares = span(by_load.values().filter_map(of), |percent| format!("{percent:.0}"))?;
            Some(format!("{shares} % {}", state_name(state)))
        };
        let states = [ArrayState::Degraded, ArrayState::Rebuilding, ArrayState::Scrubbing].into_iter().filter_map(share_in);
        let states: Vec<String> = states.collect();
        let took = |key: &str, words: &str| {
            let took = span(records().filter_map(|record| record.extra.get(key).copied()), duration)?;
            Some(format!("{took} {words}"))
        };
        let times = [took("rebuild_seconds", "under load"), took("rebuild_alone_seconds", "alone")];
        let times: Vec<String> = times.into_iter().flatten().collect();
        let rebuild = if times.is_empty() { String::new() } else { format!("; a rebuild took {}", times.join(", ")) };
        let loads = by_load.values().filter(|states| states.keys().any(|state| *state != ArrayState::Optimal)).count();
        (!states.is_empty()).then(|| {
            format!(
                "{}: of the whole array's rate {} remain, over {}{rebuild}.",
                section.target,
                states.join(", "),
                counted(loads as u32, "load", "loads")
            )
        })
    });
    found.collect()
}

/// "41 to 62", or "41" if both ends are equal.
fn span(values: impl Iterator<Item = f64>, words: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let (low_words, high_words) = (words(low), words(high));
    low.is_finite().then(|| if low_words == high_words { low_words } else { format!("{low_words} to {high_words}") })
}

fn raid_table(out: &mut String, report: &Report<'_>, records: &[&Record]) {
    let mut keys: Vec<(String, ArrayState)> = Vec::new();
    for record in records {
        let key = (load(record), record.point.array_state);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    let of = |key: &(String, ArrayState)| -> Vec<&Record> {
        records.iter().copied().filter(|record| load(record) == key.0 && record.point.array_state == key.1).collect()
    };
    let rate = |records: &[&Record]| {
        Summary::of(&records.iter().filter_map(|record| rate_in_state(report, record)).collect::<Vec<f64>>())
    };
    let rows = keys.iter().map(|key| {
        let found = of(key);
        let whole = rate(&of(&(key.0.clone(), ArrayState::Optimal)));
        let mine = rate(&found);
        let share = match (&mine, &whole) {
            (Some(mine), Some(whole)) if whole.median > 0.0 => format!("{:.0} %", mine.median / whole.median * 100.0),
            _ => "–".into(),
        };
        let swept: Vec<&Record> = found.iter().copied().filter(|record| select::is_swept(record)).collect();
        let p99 = Summary::of(&select::known(&swept, |record| record.total.latency.p99_ns));
        let extras = extras(&found);
        let cells = vec![
            format!("<td>{}</td>", state_name(key.1)),
            mine.as_ref().map_or("<td>–</td>".into(), |mine| spread_cell(mine, select::unit(&found[0].point))),
            format!("<td>{share}</td>"),
            format!("<td>{}</td>", p99.map_or("–".into(), |p99| time(p99.median))),
            format!("<td class=\"words\">{}</td>", escape(&extras.join("; "))),
            format!("<td class=\"words\">{}</td>", escape(&laggards(&found))),
        ];
        (escape(&key.0), cells)
    });
    let rows: Vec<_> = rows.collect();
    table(out, "Each state against the whole array", &["load", "array", "rate", "of whole", "p99", "meanwhile", "members"], rows);
}

/// The figures that only some measurements have, in words, from the last round; the depth is in the load's name already.
pub fn extras(records: &[&Record]) -> Vec<String> {
    let last = records.last().map(|record| record.extra.iter());
    let mut words: Vec<String> = last.into_iter().flatten().filter(|(name, _)| *name != select::OUTSTANDING).map(extra).collect();
    let members = records.iter().flat_map(|record| &record.members);
    let hedged = members.map(|member| member.hedged_reads).fold(0, u64::saturating_add);
    if hedged > 0 {
        let reads = records.iter().filter_map(|record| record.read.as_ref());
        let reads = reads.map(|read| read.requests).fold(0, u64::saturating_add);
        words.push(format!("{hedged} of {reads} reads were too slow for one member and answered by others"));
    }
    words
}

/// "rebuild 41 s".
fn extra((name, value): (&String, &f64)) -> String {
    let words = name.replace('_', " ");
    if let Some(what) = words.strip_suffix(" seconds") {
        format!("{what} {}", duration(*value))
    } else if let Some(what) = words.strip_suffix(" ns") {
        format!("{what} {}", time(*value))
    } else if let Some(what) = words.strip_suffix(" mb per s") {
        format!("{what} {} MB/s", short(*value))
    } else if let Some(what) = words.strip_suffix(" bytes") {
        format!("{what} {}", select::size(*value as u64))
    } else {
        format!("{words} {}", short(*value))
    }
}

/// Members whose requests took far longer than the others'.
fn laggards(records: &[&Record]) -> String {
    let mut found = Vec::new();
    for record in records {
        let seen: Vec<_> = record.members.iter().filter_map(|member| Some((member, member.latency_mean_ns?))).collect();
        let latencies: Vec<f64> = seen.iter().map(|(_, latency)| *latency).collect();
        if latencies.len() < 3 {
            continue;
        }
        let middle = Summary::of(&latencies).map_or(0.0, |summary| summary.median);
        for index in stats::outliers(&latencies).into_iter().filter(|index| latencies[*index] > middle) {
            let words = format!("{} lags: {} against {}", seen[index].0.path, time(latencies[index]), time(middle));
            if !found.contains(&words) {
                found.push(words);
            }
        }
    }
    found.join("; ")
}
