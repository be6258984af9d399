//! Tables: the matrix, every figure, drives, notes, and the sources.

use super::chart::{Body, Figure, Tint, Tints};
use super::context::{Group, Report, group};
use super::table::{spread_cell, table};
use super::timeline;
use super::words::when;
use crate::endurance::{self, Forecast};
use crate::result::{NoteKind, Pattern, Phase, Point, Record, TargetInfo};
use crate::select::{self, escape, short, time};
use crate::stats::Summary;
use crate::theory;
use crate::units::{counted, show_seconds as duration};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A table of figures: the points of a group by two fields that vary.
struct Square {
    /// Of the first row or column to the last: value and words.
    rows: Vec<(u64, String)>,
    columns: Vec<(u64, String)>,
}

impl Square {
    /// None if less than three quarters of the cells were measured: two series do not make a table.
    fn new(points: &Group<'_>, row: fn(&Point) -> u64, column: fn(&Point) -> u64) -> Option<Self> {
        let all = |value: fn(&Point) -> u64| points.iter().map(|(point, _)| value(point)).collect::<BTreeSet<u64>>();
        let (rows, columns) = (all(row), all(column));
        if rows.len() < 2 || columns.len() < 2 || points.len() * 4 < rows.len() * columns.len() * 3 {
            return None;
        }
        let named = |values: BTreeSet<u64>| values.into_iter().map(|value| (value, value.to_string())).collect();
        Some(Self { rows: named(rows), columns: named(columns) })
    }

    /// The figure; `cell` gives the text, small text and darkness of a cell; the largest value is the darkest.
    fn figure(
        self,
        caption: String,
        corner: &str,
        points: &Group<'_>,
        at: fn(&Point) -> (u64, u64),
        cell: impl Fn(&[&Record]) -> Option<(String, String, f64)>,
    ) -> Figure {
        let cells: BTreeMap<(u64, u64), (String, String, f64)> =
            points.iter().filter_map(|(point, records)| Some((at(point), cell(records)?))).collect();
        let most = cells.values().map(|(_, _, shade)| *shade).fold(1e-9, f64::max);
        let cell = |row: u64, column: u64| {
            let (words, small, shade) = cells.get(&(row, column))?.clone();
            Some(Tint { words, small, share: shade / most })
        };
        let row = |(row, name): (u64, String)| (name, self.columns.iter().map(|(column, _)| cell(row, *column)).collect());
        let rows = self.rows.into_iter().map(row).collect();
        let columns = self.columns.iter().map(|(_, name)| name.clone()).collect();
        let square = Tints { corner: corner.into(), columns, rows };
        Figure { caption, remark: String::new(), body: Body::Square(square) }
    }
}

/// Percentage of reads by block size, tinted by the rate in bytes.
pub fn heat_maps(report: &Report<'_>) -> String {
    let mut out = String::new();
    for points in group(report, |point| (point.block_bytes, point.read_percent) = (0, 0)).into_values() {
        let points: Group<'_> = points.into_iter().filter(|(point, _)| point.mix.is_empty()).collect();
        let (row, column) = (|point: &Point| point.block_bytes, |point: &Point| u64::from(point.read_percent));
        let Some(mut square) = Square::new(&points, row, column) else { continue };
        square.rows.iter_mut().for_each(|(bytes, name)| *name = select::size(*bytes));
        square.columns.iter_mut().for_each(|(share, name)| *name = format!("{share}/{}", 100 - *share));
        square.columns.reverse();
        let first = points[0].0;
        let random = first.pattern == Pattern::Random;
        let (order, unit) = if random { ("random", "IOPS") } else { ("sequential", "MB/s") };
        let cell = |records: &[&Record]| {
            let value = |record: &Record| Some(if random { record.total.iops } else { record.total.mb_per_s });
            let summary = report.summary(records, value)?;
            let spread = if summary.count > 1 { format!("±{:.0} %", summary.plus_minus_percent()) } else { "once".to_string() };
            let bandwidth = Summary::of(&select::values(records, |record| record.total.mb_per_s))?.median;
            Some((short(summary.median), spread, bandwidth))
        };
        let depth = select::depth(first);
        let mut words = vec![depth.as_str(), select::state(first.drive_state), select::array_state(first.array_state)];
        words.extend([select::mode(first.mode), first.variant.as_str()]);
        words.retain(|word| !word.is_empty());
        let caption = format!(
            "{}: {order}, {}; {unit} by block size and share of reads/writes; the stronger the tint, the more bytes a second",
            first.target,
            words.join(", ")
        );
        let at = |point: &Point| (point.block_bytes, point.read_percent.into());
        out += &report.draw(square.figure(caption, "block", &points, at, cell));
    }
    out
}

/// Threads by depth, tinted by the rate, with the mean latency.
pub fn depth_by_threads(report: &Report<'_>) -> String {
    let mut out = String::new();
    for points in group(report, |point| (point.queue_depth, point.threads) = (0, 0)).into_values() {
        let (row, column) = (|point: &Point| u64::from(point.threads), |point: &Point| u64::from(point.queue_depth));
        let Some(square) = Square::new(&points, row, column) else { continue };
        let first = points[0].0;
        let cell = |records: &[&Record]| {
            let rate = Summary::of(&select::values(records, select::rate))?.median;
            let latency = Summary::of(&select::values(records, |record| record.total.latency.mean_ns))?.median;
            Some((short(rate), time(latency), rate))
        };
        let load = select::load(first).replacen(&format!(", {}", select::depth(first)), "", 1);
        let caption = format!(
            "{}: {}; {} and mean latency by threads and requests in flight in each; the stronger the tint, the more",
            first.target,
            load,
            select::unit(first)
        );
        let at = |point: &Point| (u64::from(point.threads), u64::from(point.queue_depth));
        out += &report.draw(square.figure(caption, "threads", &points, at, cell));
    }
    out
}

/// Every point with its spread, latencies and theory line; in parts by target.
pub fn figures(report: &Report<'_>) -> String {
    let mut out = String::from(
        "<p>Rates are medians over rounds with the half-width of the median's interval and its confidence; with fewer than six rounds the interval \
         is the whole range, and its confidence says so. Mean deviation: mean absolute deviation about the mean, in percent of it. CPU: of one CPU, what fio and the kernel used \
         for it, over all threads.</p>\n",
    );
    let many = report.results.len() > 40;
    for target in &report.run.manifest.targets {
        let points: Vec<_> = report.results.iter().filter(|(point, _)| point.target == target.name).collect();
        if points.is_empty() {
            continue;
        }
        let rows = points.iter().filter_map(|(point, records)| {
            let rate = report.rate(records)?;
            let latency = |value: fn(&Record) -> Option<f64>| {
                report.summary(records, value).map_or("<td>–</td>".into(), |summary| {
                    let spread =
                        if summary.count > 1 { format!("±{:.0} %", summary.plus_minus_percent()) } else { "once".into() };
                    format!("<td>{}<small>{spread}</small></td>", time(summary.median))
                })
            };
            let unit = select::unit(point);
            let mut cells = vec![
                spread_cell(&rate, unit),
                format!("<td>{}</td>", records.len()),
                match rate.count {
                    1 => format!("<td>{} <small>once</small></td>", short(rate.mean)),
                    _ => format!("<td>{} <small>{:.2} %</small></td>", short(rate.mean), rate.mean_deviation_percent()),
                },
                latency(|record| record.total.latency.p50_ns),
                latency(|record| record.total.latency.p99_ns),
                latency(|record| record.total.latency.p999_ns),
                latency(|record| Some(record.total.latency.max_ns)),
                Summary::of(&select::values(records, |record| record.cpu_user_percent + record.cpu_system_percent))
                    .filter(|cpu| cpu.median > 0.0)
                    .map_or("<td>–</td>".into(), |cpu| format!("<td>{:.0} %</td>", cpu.median)),
            ];
            if target.level.is_some() {
                cells.extend(theory_cells(report, point, records));
            }
            let extras = timeline::extras(records);
            let more =
                if extras.is_empty() { String::new() } else { format!("<br><small>{}</small>", escape(&extras.join("; "))) };
            Some((escape(&select::load(point)) + &more, cells))
        });
        let rows: Vec<_> = rows.collect();
        let mut heads = vec!["load", "rate", "rounds", "mean, mean deviation", "p50", "p99", "p99.9", "max", "CPU"];
        if target.level.is_some() {
            heads.extend(["of allowed", "member writes per write", "law"]);
        }
        let count = rows.len();
        let mut one = String::new();
        table(&mut one, &escape(&target.name), &heads, rows);
        if many {
            let _ = writeln!(out, "<details><summary>{}: {count} loads</summary>\n{one}</details>", escape(&target.name));
        } else {
            out += &one;
        }
    }
    out
}

/// Latency in the two parts that fio measures: slat and clat.
pub fn phases(report: &Report<'_>) -> String {
    let mut out = String::new();
    for target in &report.run.manifest.targets {
        let points = report.results.iter().filter(|(point, _)| point.target == target.name);
        let row = |(point, records): (&&Point, &Vec<&Record>)| {
            let phases: Vec<(Phase, Phase)> =
                records.iter().filter_map(|record| Some((record.total.submission?, record.total.completion?))).collect();
            let median =
                |value: fn(&(Phase, Phase)) -> f64| Some(Summary::of(&phases.iter().map(value).collect::<Vec<f64>>())?.median);
            let (submission, completion) = (median(|parts| parts.0.mean_ns)?, median(|parts| parts.1.mean_ns)?);
            let share = submission / (submission + completion).max(1e-9) * 100.0;
            let all = Summary::of(&select::values(records, |record| record.total.latency.mean_ns))?.median;
            let times = [submission, median(|parts| parts.0.max_ns)?, completion, median(|parts| parts.1.max_ns)?, all];
            let mut cells: Vec<String> = times.map(|ns| format!("<td>{}</td>", time(ns))).into();
            cells.insert(0, format!("<td>{share:.1} %</td>"));
            Some((escape(&select::load(point)), cells))
        };
        let rows: Vec<(String, Vec<String>)> = points.filter_map(row).collect();
        if rows.is_empty() {
            continue;
        }
        let heads = ["load", "share of slat", "slat, mean", "slat, max", "clat, mean", "clat, max", "lat, mean"];
        let count = rows.len();
        let mut one = String::new();
        table(&mut one, &escape(&target.name), &heads, rows);
        let _ = writeln!(out, "<details><summary>{}: {count} loads</summary>\n{one}</details>", escape(&target.name));
    }
    if out.is_empty() {
        return out;
    }
    format!(
        "<p>Until a request is handed to the kernel (slat), from there to its end (clat), and both (lat), as medians over rounds. Where slat \
         is a large share, the machine is slow to send requests, not the drive to answer.</p>\n{out}"
    )
}

/// The share of each host in a load of several hosts.
pub fn hosts(report: &Report<'_>) -> String {
    let mut points: BTreeMap<&Point, BTreeMap<&str, Vec<&Record>>> = BTreeMap::new();
    for record in
        report.run.records.iter().filter(|record| !record.host.is_empty() && !record.preparation && record.failed.is_none())
    {
        points.entry(&record.point).or_default().entry(record.host.as_str()).or_default().push(record);
    }
    let names: BTreeSet<&str> = points.values().flat_map(|hosts| hosts.keys().copied()).filter(|name| *name != "all").collect();
    if names.len() < 2 {
        return String::new();
    }
    let targets = report.run.manifest.targets.len();
    let rows = points.iter().map(|(point, hosts)| {
        let cell = |name: &&str| {
            let records = hosts.get(*name)?;
            let rate = Summary::of(&select::values(records, select::rate))?;
            let p99 = Summary::of(&select::known(records, |record| record.total.latency.p99_ns));
            let p99 = p99.map_or("–".into(), |p99| time(p99.median));
            Some(format!("<td>{} {}<small>p99 {p99}</small></td>", short(rate.median), select::unit(point)))
        };
        let cells = names.iter().map(|name| cell(name).unwrap_or_else(|| "<td>–</td>".into()));
        let target = if targets > 1 { format!("{}: ", point.target) } else { String::new() };
        (escape(&format!("{target}{}", select::load(point))), cells.collect())
    });
    let heads: Vec<String> = std::iter::once("load".into()).chain(names.iter().map(|name| escape(name))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut out = String::new();
    table(
        &mut out,
        "Medians of each host while all worked together; the figures above are the sums of all hosts",
        &heads,
        rows.collect(),
    );
    out
}

fn theory_cells(report: &Report<'_>, point: &Point, records: &[&Record]) -> Vec<String> {
    let Some(ideal) = report.bare.ideal(point) else { return vec!["<td>–</td>".into(); 3] };
    let rate = Summary::of(&select::values(records, |record| record.total.iops)).map_or(0.0, |summary| summary.median);
    let share = ideal.bounds.map_or("–".to_string(), |bounds| {
        format!("{:.2}<small>of {} a second</small>", rate / bounds.allowed, short(bounds.allowed))
    });
    let measured = theory::measured_penalty(records).map_or(String::new(), |measured| format!("{measured:.2} "));
    let penalty = ideal.penalty.map_or("–".to_string(), |penalty| {
        let reads = if penalty.reads > 0.0 { format!(", {:.2} reads", penalty.reads) } else { String::new() };
        format!("{measured}<small>law {:.2}{reads}</small>", penalty.writes)
    });
    vec![format!("<td>{share}</td>"), format!("<td>{penalty}</td>"), format!("<td class=\"words\">{}</td>", escape(&ideal.law))]
}

/// Drives with wear, forecast and rebuild estimate.
pub fn drives(report: &Report<'_>) -> String {
    let manifest = &report.run.manifest;
    let mut out = String::new();
    let mut rows = Vec::new();
    let mut known = BTreeSet::new();
    let mut forecasts = 0;
    let daily: Vec<Option<f64>> = manifest.targets.iter().map(|target| member_daily_bytes(report, target)).collect();
    for target in &manifest.targets {
        for drive in target.drives.iter().filter(|drive| known.insert(drive.path.clone())) {
            let after = manifest.drives_after.iter().find(|after| after.path == drive.path);
            let wear = &after.map_or_else(|| drive.clone(), |after| after.or(drive));
            let text = |value: Option<String>| format!("<td>{}</td>", value.unwrap_or_else(|| "–".into()));
            // A drive may have been measured alone and as a member of several arrays.
            let lists = |(target, _): &(&TargetInfo, _)| target.drives.iter().any(|other| other.path == drive.path);
            let most = manifest.targets.iter().zip(&daily).filter(lists).filter_map(|(_, daily)| *daily).reduce(f64::max);
            let forecast = most.and_then(|most| Forecast::of(wear, most));
            forecasts += usize::from(forecast.is_some());
            let amplification = after.and_then(|after| endurance::write_amplification(drive, after));
            rows.push((
                escape(&drive.path),
                vec![
                    format!(
                        "<td class=\"words\">{}</td>",
                        escape(&[&drive.model, &drive.firmware, &drive.transport].map(String::as_str).join(" "))
                    ),
                    format!("<td>{}</td>", if drive.size_bytes > 0 { select::size(drive.size_bytes) } else { "–".into() }),
                    text(wear.wear_percent.map(|percent| format!("{percent:.0} %"))),
                    text(wear.written_bytes.map(|bytes| terabytes(bytes as f64))),
                    text(amplification.map(|amplification| format!("{amplification:.2}"))),
                    text(forecast.map(|forecast| {
                        format!(
                            "{}<small>{}</small>",
                            terabytes(forecast.allowed_bytes),
                            if forecast.concluded { "from wear" } else { "rated" }
                        )
                    })),
                    text(forecast.map(|forecast| format!("{:.2}", forecast.drive_writes_per_day))),
                    text(forecast.map(|forecast| years(forecast.years_left))),
                    text(wear.temperature_c.map(|degrees| format!("{degrees:.0} °C"))),
                    text(wear.media_errors.map(|errors| errors.to_string())),
                ],
            ));
        }
    }
    if !rows.is_empty() {
        if forecasts > 0 {
            out.push_str(
                "<p>Drive writes per day and years left are for the write load of this run that wrote most to the drive, all day long, which is \
                 unrealistic: they are the worst case. Years scale with the load.</p>\n",
            );
        }
        let heads = [
            "drive",
            "model",
            "size",
            "life used",
            "written",
            "own amplification",
            "allowed (TBW)",
            "writes/day",
            "years left",
            "temperature",
            "errors",
        ];
        table(&mut out, "Drives by their own reports, after the run if these could be read", &heads, rows);
    }
    out + &rebuild_estimates(report)
}

/// As makers write it: "860 TB", "14.6 PB".
fn terabytes(bytes: f64) -> String {
    if bytes >= 1e15 { format!("{} PB", short(bytes / 1e15)) } else { format!("{} TB", short(bytes / 1e12)) }
}

fn years(value: f64) -> String {
    match value {
        value if value > 100.0 => "over 100".into(),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{:.0} days", value * 365.25),
    }
}

/// Bytes that each member of a target would write in a day of the write load that writes most to it.
fn member_daily_bytes(report: &Report<'_>, target: &TargetInfo) -> Option<f64> {
    let writes = report.results.iter().filter(|(point, _)| point.target == target.name && point.read_percent == 0);
    let daily = writes.filter_map(|(point, records)| {
        let rate = Summary::of(&select::values(records, |record| record.total.mb_per_s))?.median * 1e6;
        let by_law = || report.bare.ideal(point).and_then(|ideal| Some(ideal.penalty?.writes));
        let penalty = theory::measured_penalty(records).or_else(by_law).unwrap_or(1.0);
        Some(endurance::member_daily_bytes(rate * 86_400.0, penalty, target.members.unwrap_or(1)))
    });
    daily.reduce(f64::max)
}

/// The time to rebuild a member of 1, 4 and 16 TB at the rate of the measured rebuilds.
fn rebuild_estimates(report: &Report<'_>) -> String {
    let mut rows = Vec::new();
    for record in report.run.records.iter().filter(|record| record.failed.is_none()) {
        let Some(seconds) = record.extra.get("rebuild_seconds").filter(|seconds| **seconds > 0.0) else { continue };
        let swept =
            report.series.get(&record.index).and_then(|series| series.sweep.iter().map(|sample| sample.total_bytes).max());
        let Some(bytes) = swept.filter(|bytes| *bytes > 0) else { continue };
        let rate = bytes as f64 / seconds;
        let take = |terabytes: u64| {
            format!("<td>{}</td>", duration(endurance::rebuild_seconds(terabytes * 1_000_000_000_000, rate, 1.0)))
        };
        rows.push((
            escape(&format!("{}: {}", record.point.target, select::load(&record.point))),
            vec![
                format!("<td>{} of {}</td>", duration(*seconds), select::size(bytes)),
                format!("<td>{} MB/s</td>", short(rate / 1e6)),
                take(1),
                take(4),
                take(16),
            ],
        ));
    }
    let mut out = String::new();
    if !rows.is_empty() {
        let heads = ["rebuild during", "measured", "rate", "1 TB takes", "4 TB", "16 TB"];
        table(&mut out, "Rebuild times at the rate measured under this load", &heads, rows);
    }
    out
}

/// Warnings first, then the steps.
pub fn notes(report: &Report<'_>) -> String {
    let notes = &report.run.notes;
    if notes.is_empty() {
        return String::new();
    }
    let start = report.run.manifest.begun_ms;
    let item = |note: &&crate::result::Note| {
        let (class, name) = match note.kind {
            NoteKind::Step => ("", "step"),
            NoteKind::Purge => ("", "purge"),
            NoteKind::Verdict => ("", "verdict"),
            NoteKind::Fallback => ("notable", "! fall-back"),
            NoteKind::Throttle => ("notable", "! throttling"),
            NoteKind::Sag => ("notable", "! sag"),
            NoteKind::Error => ("bad", "✗ error"),
            NoteKind::Background => ("notable", "! background"),
        };
        let at = duration(note.at_ms.saturating_sub(start) as f64 / 1000.0);
        format!("<li><span class=\"{class}\">{name}</span> after {at}: {}</li>", escape(&note.text))
    };
    let usual = |note: &&crate::result::Note| matches!(note.kind, NoteKind::Step | NoteKind::Purge | NoteKind::Verdict);
    let warnings: String = notes.iter().filter(|note| !usual(note)).map(|note| item(&note)).collect();
    let steps: String = notes.iter().filter(usual).map(|note| item(&note)).collect();
    let mut out = String::new();
    if !warnings.is_empty() {
        let _ = writeln!(out, "<ul class=\"notes\">{warnings}</ul>");
    }
    if !steps.is_empty() {
        let count = notes.iter().filter(usual).count();
        let _ = writeln!(out, "<details><summary>Steps of the run: {count}</summary><ul class=\"notes\">{steps}</ul></details>");
    }
    out
}

/// How each part was prepared and measured, the machine, and the methods by name.
pub fn method(report: &Report<'_>) -> String {
    let manifest = &report.run.manifest;
    let mut out = String::new();
    let rows = manifest.sections.iter().map(|section| {
        let text = |value: &Option<String>| format!("<td class=\"words\">{}</td>", value.as_deref().map_or("–".into(), escape));
        let mut loads: BTreeSet<(u32, u32, u8)> = BTreeSet::new();
        for record in report.run.records.iter().filter(|record| record.section == section.id && !record.preparation) {
            loads.insert((record.point.queue_depth, record.point.threads, record.point.compressible_percent));
        }
        let range = |values: Vec<u32>| match (values.iter().min(), values.iter().max()) {
            (Some(low), Some(high)) if low == high => low.to_string(),
            (Some(low), Some(high)) => format!("{low}–{high}"),
            _ => "–".into(),
        };
        let depth = range(loads.iter().map(|load| load.0).collect());
        let threads = range(loads.iter().map(|load| load.1).collect());
        let took =
            section.begun_ms.zip(section.ended_ms).map(|(begun, ended)| duration(ended.saturating_sub(begun) as f64 / 1000.0));
        let cells = vec![
            format!("<td class=\"words\">{}</td>", escape(&section.target)),
            text(&section.purge),
            text(&section.precondition),
            format!("<td>{}</td>", section.rounds),
            format!("<td>{depth} × {threads}</td>"),
            format!("<td>{}</td>", took.unwrap_or_else(|| "–".into())),
        ];
        (escape(&section.title), cells)
    });
    table(
        &mut out,
        "Parts of the experiment",
        &["part", "target", "purge", "preconditioning", "rounds", "depth × threads", "took"],
        rows.collect(),
    );
    let environment = &manifest.environment;
    let of_host = |(name, host): (&String, &crate::result::Environment)| match host.kernel.is_empty() {
        true => name.clone(),
        false => format!("{name} ({}, {}, {})", host.cpu, counted(host.cpu_count, "CPU", "CPUs"), host.kernel),
    };
    let percent = |share: f64| format!("{share:.0} %");
    let known = |words: String| if environment.cpu_count > 0 { words } else { String::new() };
    let mut facts = vec![
        ("Run", manifest.id.clone()),
        ("Experiment", manifest.experiment.clone()),
        ("Host", environment.host.clone()),
        ("Virtual machine", environment.virtualization.clone()),
        ("CPU governor", environment.cpu_governor.clone()),
        ("CPU used by others before", known(percent(environment.busy_percent))),
        ("I/O of others before", known(format!("{} MB/s", short(environment.background_bytes_per_s / 1e6)))),
        ("Other hosts", manifest.hosts.iter().map(of_host).collect::<Vec<_>>().join("; ")),
        ("Resumed", manifest.resumed_ms.iter().map(|at| when(*at)).collect::<Vec<_>>().join(", ")),
        ("Remark", manifest.note.clone()),
        ("Measured with", manifest.command.join(" ")),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    let facts: String =
        facts.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value))).collect();
    let _ = writeln!(
        out,
        "<dl>{facts}</dl>\n<p>MB/s are 10<sup>6</sup> bytes a second, latency is from submission to completion as fio sees it. Spread: exact \
         order-statistic interval of the median; mean absolute deviation. Differences: Mann-Whitney test with Hodges-Lehmann ratio, or Welch's t \
         test on logarithms where repeats are too few for ranks; Holm's correction over all that are compared. The raw results, fio's own output \
         included, are in the run's folder.</p>"
    );
    out
}
