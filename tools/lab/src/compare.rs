//! The differences between two runs, and the noise.
//!
//! Every point that both runs measured is compared in rate and in p99 latency over its rounds (of the steady window, if there is
//! one), by the methods of [statistics](crate::stats), with Holm's correction over all of them. A difference counts if it is
//! significant *and* at least the tolerance, because with enough rounds every tiny difference is significant. The rounds of one
//! run share its circumstances, so they say nothing of how much two runs of the same thing differ. With one run on each side a small
//! change is therefore undecided ([`RUNS_DIFFER`]). Differences from day to day show if several runs on each side are compared; then a
//! run is the unit, with its median.
//!
//! On a machine that others use, figures vary from minute to minute, and all rounds of a run share that. The share of the
//! processors that others used is recorded with every measurement. One run on each side cannot prove a change of rates that the
//! loss of that share explains, in either direction, nor most changes in p99 latency: these are reported as undecided. Of the
//! shares during the runs and during the measurements of the point the larger one counts, as others may use the machine for a
//! part of a run only.

use crate::others::{self, BUSY_PERCENT};
use crate::result::{Point, Record, ResultError, Run, TargetInfo};
use crate::select;
use crate::stats::{self, Difference, Method, SIGNIFICANCE};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The smallest change that is reported.
pub const TOLERANCE: f64 = 0.03;

/// The factor in rates by which two runs of the same thing may differ, whatever their rounds say; in p99 latency its square.
///
/// 1.1: if the level of a run shifts by 3 % (one standard deviation), two runs differ by more than that in 2.5 % of all pairs. No run
/// can tell its own shift, as all of its rounds share it.
pub const RUNS_DIFFER: f64 = 1.1;

/// The compared figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Metric {
    /// Rate: more is better.
    Rate,
    /// Latency: less is better.
    LatencyP99,
}

/// The verdict on the second run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Change {
    Better,
    Worse,
    /// Significant, but smaller than the tolerance.
    Trifling,
    /// Significant among the rounds of one run on each side, but the use of the machine by others may be the only cause.
    Undecided,
    /// Significant among the rounds of one run on each side, but two runs of the same thing may differ as much.
    Unrepeated,
    /// The noise is larger than the difference.
    Noise,
}

/// One line of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The point of the first run.
    pub point: Point,
    /// "4 KiB random read, QD 32".
    pub label: String,
    /// The compared figure.
    pub metric: Metric,
    /// Its unit: "IOPS", "MB/s", "ns".
    pub unit: &'static str,
    /// The difference.
    pub difference: Difference,
    /// Its probability after Holm's correction.
    pub p: f64,
    /// The use of the processors by others during its measurements, in percent: the larger of both sides; `None` if that is not
    /// known.
    pub others_percent: Option<f64>,
    /// The verdict.
    pub change: Change,
}

/// Two sides, each of one run or several.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The name of the first run; of several, all names.
    pub before: String,
    /// The name of the second run.
    pub after: String,
    /// The number of runs of each side.
    pub runs: (usize, usize),
    /// The use of the processors by others, in percent: the larger of both sides; `None` if that is not known.
    pub others_percent: Option<f64>,
    /// Points that both measured, in the order of points, rate before latency.
    pub rows: Vec<Row>,
    /// Points that only one measured.
    pub unmatched: usize,
    /// Circumstances that differ, which the reader must keep in mind.
    pub caveats: Vec<String>,
    /// The tolerance.
    pub tolerance: f64,
}

/// The overall result, for an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// Nothing is significantly worse or better.
    Same,
    /// Something is better, nothing worse.
    Better,
    /// Something is worse.
    Worse,
    /// The runs have no points in common, or no point was measured more than once.
    Nothing,
}

/// Compares the run in folder `a` with that in folder `b`, with [`TOLERANCE`].
///
/// # Errors
/// When one of them cannot be read.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, ResultError> {
    Ok(compare_runs(&Run::open(a)?, &Run::open(b)?, TOLERANCE))
}

/// Compares runs; `tolerance` as a share: 0.03.
pub fn compare_runs(a: &Run, b: &Run, tolerance: f64) -> Comparison {
    compare_sides(&[a], &[b], tolerance)
}

/// Compares the runs in these folders. A run is the unit if a side has several.
///
/// # Errors
/// When one of them cannot be read.
pub fn compare_folders(before: &[PathBuf], after: &[PathBuf]) -> Result<Comparison, ResultError> {
    let open = |folders: &[PathBuf]| folders.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<Run>, ResultError>>();
    let (before, after) = (open(before)?, open(after)?);
    Ok(compare_sides(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>(), TOLERANCE))
}

/// The records of each point of a side: of its one run, or of each of its runs.
struct Side<'a> {
    points: BTreeMap<Point, Vec<OfRun<'a>>>,
}

/// The records of a point in one run.
struct OfRun<'a> {
    records: Vec<&'a Record>,
    /// True if their rounds show a change over time, and so are no repeats.
    is_story: bool,
}

impl<'a> Side<'a> {
    fn of(runs: &[&'a Run], forgets_target: bool) -> Self {
        let mut points: BTreeMap<Point, Vec<OfRun<'_>>> = BTreeMap::new();
        for run in runs {
            for (point, records) in own(select::results(run)) {
                let (point, records) = if forgets_target { forget_target((point, records)) } else { (point, records) };
                let is_story = select::is_story(run, &records);
                points.entry(point).or_default().push(OfRun { records, is_story });
            }
        }
        Self { points }
    }
}

/// The sample of a point: the rounds of one run; or one median for each run, if there are several or the rounds are a story.
fn sample(runs: &[OfRun<'_>], by_run: bool, value: impl Fn(&Record) -> Option<f64> + Copy) -> Vec<f64> {
    runs.iter().flat_map(|run| select::repeats(&run.records, by_run || run.is_story, value)).collect()
}

/// Compares the runs of two sides.
pub fn compare_sides(a: &[&Run], b: &[&Run], tolerance: f64) -> Comparison {
    let by_run = a.len() > 1 || b.len() > 1;
    let (mut before, mut after) = (Side::of(a, false), Side::of(b, false));
    let have_one = |runs: &[&Run]| runs.iter().all(|run| run.manifest.targets.len() == 1);
    if !before.points.keys().any(|point| after.points.contains_key(point)) && have_one(a) && have_one(b) {
        // Two targets that were each measured alone have only their loads in common.
        (before, after) = (Side::of(a, true), Side::of(b, true));
    }
    let (mut rows, common_count) = rows_of(&before, &after, by_run);
    let shares: Vec<f64> = a.iter().chain(b).filter_map(|run| others::share_percent(run)).collect();
    let others_percent = shares.iter().copied().reduce(f64::max);
    // Several runs on each side show the effect of other load by their scatter; one run cannot.
    let busy = others_percent.filter(|percent| *percent >= BUSY_PERCENT && !by_run);
    let busiest = rows.iter().filter_map(|row| row.others_percent).reduce(f64::max);
    let busiest = busiest.filter(|percent| *percent >= BUSY_PERCENT && !by_run);
    judge(&mut rows, tolerance, busy, busiest.is_some(), by_run);
    let name = |runs: &[&Run]| runs.iter().map(|run| run.manifest.id.clone()).collect::<Vec<_>>().join(", ");
    Comparison {
        before: name(a),
        after: name(b),
        runs: (a.len(), b.len()),
        others_percent,
        unmatched: before.points.len() + after.points.len() - 2 * common_count,
        rows,
        caveats: caveats_of_sides(a, b, busy, busiest, shares.len()),
        tolerance,
    }
}

/// The differences at the points that both sides measured, not judged yet, and the number of these points.
fn rows_of(before: &Side, after: &Side, by_run: bool) -> (Vec<Row>, usize) {
    let common: Vec<_> =
        before.points.iter().filter_map(|(point, records)| Some((point, records, after.points.get(point)?))).collect();
    let mut pairs = Vec::new();
    for (point, before, after) in &common {
        for (metric, unit) in [(Metric::Rate, select::unit(point)), (Metric::LatencyP99, "ns")] {
            let value = |record: &Record| match metric {
                Metric::Rate => Some(select::rate(record)),
                Metric::LatencyP99 => record.total.latency.p99_ns,
            };
            let target = before.iter().find_map(|run| run.records.first()).map_or("", |record| record.point.target.as_str());
            let samples = (sample(before, by_run, value), sample(after, by_run, value));
            let of_runs = before.iter().chain(after.iter()).filter_map(|run| others::mean_percent(run.records.iter().copied()));
            let others_percent = of_runs.reduce(f64::max);
            pairs.push((*point, target, metric, unit, others_percent, samples));
        }
    }
    // What was measured once is compared with nothing: it must not make the correction of the others stricter.
    let comparisons = pairs.iter().filter(|(.., (before, after))| stats::can_test(before, after)).count();
    let row = |(point, target, metric, unit, others_percent, (before, after)): (&Point, &str, _, _, _, (Vec<f64>, Vec<f64>))| {
        let difference = stats::difference(&before, &after, comparisons)?;
        let label = format!("{target}: {}", select::load(point));
        Some(Row { point: point.clone(), label, metric, unit, difference, p: 1.0, others_percent, change: Change::Noise })
    };
    (pairs.into_iter().filter_map(row).collect(), common.len())
}

/// Gives each difference its corrected probability and its verdict. `busy`: the use of the processors by others, in percent, where
/// it may be the cause. `by_row`: so may what they used during the measurements of a row. `by_run`: a run is the unit.
fn judge(rows: &mut [Row], tolerance: f64, busy: Option<f64>, by_row: bool, by_run: bool) {
    let mut tested: Vec<&mut Row> = rows.iter_mut().filter(|row| row.difference.method != Method::TooFew).collect();
    let p: Vec<f64> = tested.iter().map(|row| row.difference.p).collect();
    for (row, p) in tested.iter_mut().zip(stats::holm(&p)) {
        row.p = p;
        let gain = if row.metric == Metric::Rate { row.difference.ratio - 1.0 } else { 1.0 - row.difference.ratio };
        let size = (row.difference.ratio - 1.0).abs();
        let times = row.difference.ratio.max(1.0 / row.difference.ratio);
        let own = row.others_percent.filter(|percent| by_row && *percent >= BUSY_PERCENT);
        let explained = busy.into_iter().chain(own).reduce(f64::max).is_some_and(|percent| match row.metric {
            Metric::Rate => times < rate_times(percent),
            Metric::LatencyP99 => times < tail_times(percent),
        });
        let of_runs = match row.metric {
            Metric::Rate => RUNS_DIFFER,
            Metric::LatencyP99 => RUNS_DIFFER.powi(2),
        };
        row.change = match () {
            () if p >= SIGNIFICANCE || !row.difference.ratio.is_finite() => Change::Noise,
            () if size < tolerance => Change::Trifling,
            () if explained => Change::Undecided,
            () if !by_run && times < of_runs => Change::Unrepeated,
            () if gain > 0.0 => Change::Better,
            () => Change::Worse,
        };
    }
}

/// The circumstances that the reader of a comparison must keep in mind, each once. `busy`: as [`judge`] has it; `busiest`: the
/// same during the point that had most; `known`: the number of runs of which the use of the machine by others is known.
fn caveats_of_sides(a: &[&Run], b: &[&Run], busy: Option<f64>, busiest: Option<f64>, known: usize) -> Vec<String> {
    let mut found = vec![];
    if let Some(percent) = busy {
        found.push(format!(
            "Others used {percent:.0} % of the processors during a run: changes of rates by less than {:.2} times and of p99 latency by less than \
             {:.1} times are undecided. Measure on a quiet machine, or several times a side: stria lab compare A1 A2 A3 -- B1 B2 B3.",
            rate_times(percent),
            tail_times(percent)
        ));
    } else if let Some(percent) = busiest {
        found.push(format!(
            "Others used up to {percent:.0} % of the processors during some measurements: changes that this explains are undecided. \
             Measure on a quiet machine, or several times a side: stria lab compare A1 A2 A3 -- B1 B2 B3."
        ));
    } else if known < a.len() + b.len() {
        found.push("For some runs the use of the machine by others is unknown.".into());
    }
    let (one, other) = (a.len(), b.len());
    if one.max(other) > 1 && one.min(other) < 4 {
        found.push(format!(
            "With {one} and {other} runs on the two sides only large differences stand out from chance: 4 runs or more find smaller ones."
        ));
    }
    found.extend(caveats(a[0], b[0]));
    for run in a[1..].iter().chain(&b[1..]) {
        found.extend(caveats(a[0], run));
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|words| seen.insert(words.clone()));
    found
}

/// The factor in rates that other programs' use of the processors may explain, whichever run they disturbed: that of the
/// processor time which they left. 1.25 at 20 % and below, 2 at 50 %, 20 at 95 %.
fn rate_times(others_percent: f64) -> f64 {
    let left = 1.0 - others_percent.max(20.0) / 100.0;
    if left > 0.0 { 1.0 / left } else { f64::INFINITY }
}

/// The factor in p99 latency that they may explain. The tail grows faster than the mean: 3 times at 10 %, 8 times at 60 %, 40
/// times at 95 %.
fn tail_times(others_percent: f64) -> f64 {
    (2.0 + others_percent / 10.0).max(2.0 * rate_times(others_percent))
}

type Measured<'a> = BTreeMap<Point, Vec<&'a Record>>;

fn own<'a>(results: BTreeMap<&'a Point, Vec<&'a Record>>) -> Measured<'a> {
    results.into_iter().map(|(point, records)| (point.clone(), records)).collect()
}

fn forget_target((point, records): (Point, Vec<&Record>)) -> (Point, Vec<&Record>) {
    (Point { target: String::new(), level: None, members: None, strip_bytes: None, spans: None, ..point }, records)
}

/// Circumstances that differ between runs.
pub(crate) fn caveats(a: &Run, b: &Run) -> Vec<String> {
    let mut caveats = Vec::new();
    let (before, after) = (&a.manifest, &b.manifest);
    let scaled = |run: &Run| run.manifest.scaled.as_ref().map(|scaled| scaled.words.clone()).unwrap_or_default();
    for (what, one, other) in [
        ("fio", before.fio.clone(), after.fio.clone()),
        ("program", before.program.clone(), after.program.clone()),
        ("host", before.environment.host.clone(), after.environment.host.clone()),
        ("kernel", before.environment.kernel.clone(), after.environment.kernel.clone()),
        ("CPU", before.environment.cpu.clone(), after.environment.cpu.clone()),
        ("scaling", scaled(a), scaled(b)),
    ] {
        if one != other {
            let name = |text: String| if text.is_empty() { "none".into() } else { text };
            caveats.push(format!("The {what} differs: {} and {}.", name(one), name(other)));
        }
    }
    if let Some(words) = targets_differ(&before.targets, &after.targets) {
        caveats.push(words);
    }
    for run in [a, b] {
        let unsteady = run.manifest.sections.iter().filter(|section| section.verdicts().any(|steady| !steady.reached));
        let titles: Vec<&str> = unsteady.map(|section| section.title.as_str()).collect();
        if !titles.is_empty() {
            caveats.push(format!("{} never became steady in {}.", run.manifest.id, titles.join(", ")));
        }
    }
    caveats
}

/// Differences of the targets that are not the subject of the comparison.
fn targets_differ(before: &[TargetInfo], after: &[TargetInfo]) -> Option<String> {
    use crate::units::show_size;
    let models = |target: &TargetInfo| {
        let mut models: Vec<&str> =
            target.drives.iter().map(|drive| drive.model.as_str()).filter(|model| !model.is_empty()).collect();
        models.dedup();
        models.join(" + ")
    };
    let words = |target: &TargetInfo| {
        let kind = serde_json::to_value(target.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
        let models = models(target);
        let of = if models.is_empty() { String::new() } else { format!(" of {models}") };
        let span = if target.offset_bytes > 0 { format!(" from {} on", show_size(target.offset_bytes)) } else { String::new() };
        format!("{} ({kind}{of}, {} of {} used{span})", target.name, show_size(target.span_bytes), show_size(target.size_bytes))
    };
    let others: Vec<(String, String)> = match (before, after) {
        ([one], [other]) => vec![(words(one), words(other))],
        _ => {
            let same = |target: &TargetInfo| after.iter().find(|other| other.name == target.name).map(words);
            before.iter().filter_map(|target| Some((words(target), same(target)?))).collect()
        }
    };
    let (one, other) = others.into_iter().find(|(one, other)| one != other)?;
    Some(format!("The targets differ: {one} and {other}."))
}

impl Comparison {
    /// The overall result.
    pub fn outcome(&self) -> Outcome {
        let any = |change| self.rows.iter().any(|row| row.change == change);
        match () {
            () if self.rows.iter().all(|row| row.difference.method == Method::TooFew) => Outcome::Nothing,
            () if any(Change::Worse) => Outcome::Worse,
            () if any(Change::Better) => Outcome::Better,
            () => Outcome::Same,
        }
    }

    /// The result in sentences: the verdict, each difference, the noise, the caveats, the methods.
    pub fn sentences(&self) -> Vec<String> {
        // A line break in a name from a folder must not begin a line that looks like a verdict.
        self.raw_sentences().iter().map(|words| stria_block::shown_sentence(words).to_string()).collect()
    }

    fn raw_sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let count = |change| self.rows.iter().filter(|row| row.change == change).count();
        let (better, worse) = (count(Change::Better), count(Change::Worse));
        let tested = self.rows.iter().filter(|row| row.difference.method != Method::TooFew).count();
        sentences.push(match self.outcome() {
            Outcome::Nothing if self.rows.is_empty() => "The runs have no measurement in common.".into(),
            Outcome::Nothing => {
                "Every common point was measured only once on a side: repeat the runs to tell differences from noise.".into()
            }
            Outcome::Same if count(Change::Undecided) > 0 => format!(
                "No difference in {tested} comparisons is larger than the possible effect of others' load on the machine."
            ),
            Outcome::Same if count(Change::Unrepeated) > 0 => {
                format!("No difference in {tested} comparisons is larger than two runs of the same thing may differ.")
            }
            Outcome::Same => format!("No significant difference in {tested} comparisons."),
            _ => format!(
                "Of {tested} comparisons {worse} {} significantly worse and {better} better in {}.",
                if worse == 1 { "is" } else { "are" },
                self.after
            ),
        });
        for change in [Change::Worse, Change::Better, Change::Undecided, Change::Unrepeated] {
            sentences.extend(self.rows.iter().filter(|row| row.change == change).map(Row::sentence));
        }
        if count(Change::Unrepeated) > 0 {
            sentences.push(format!(
                "One run on each side cannot tell a change below {:.0} % from the difference of two runs of the same thing (p99 latency: \
                 {:.0} %). Measure several times a side: stria lab compare A1 A2 A3 -- B1 B2 B3.",
                (RUNS_DIFFER - 1.0) * 100.0,
                (RUNS_DIFFER.powi(2) - 1.0) * 100.0
            ));
        }
        if count(Change::Trifling) > 0 {
            sentences.push(format!(
                "{} more differences are significant but below {:.0} %.",
                count(Change::Trifling),
                self.tolerance * 100.0
            ));
        }
        let noisy = self.rows.iter().filter(|row| row.change == Change::Noise && row.difference.method != Method::TooFew);
        let loud = noisy.filter(|row| (row.difference.ratio - 1.0).abs() >= self.tolerance).max_by(|a, b| {
            let size = |row: &Row| (row.difference.ratio.ln()).abs();
            size(a).total_cmp(&size(b))
        });
        sentences.extend(loud.map(|row| format!("The largest change that noise explains: {}", row.sentence())));
        let once = self.rows.len() - tested;
        if once > 0 && tested > 0 {
            sentences.push(format!("{once} more were measured only once on a side: repeat the runs to compare them."));
        }
        if self.unmatched > 0 {
            sentences.push(format!("{} points were measured in one run only.", self.unmatched));
        }
        sentences.extend(self.caveats.iter().cloned());
        let mut methods: Vec<&str> = self.rows.iter().map(|row| row.difference.method.name()).collect();
        methods.sort_unstable();
        methods.dedup();
        if !methods.is_empty() {
            let unit = match self.runs {
                (1, 1) => String::new(),
                (before, after) => format!("; {before} and {after} runs, a run as the unit"),
            };
            sentences.push(format!("Method: {}{unit}; Holm's correction; level {SIGNIFICANCE}.", methods.join(", ")));
        }
        sentences
    }
}

impl Row {
    /// True if better or worse by at least the tolerance.
    pub fn is_significant(&self) -> bool {
        matches!(self.change, Change::Better | Change::Worse)
    }

    /// "raid5 x4: 4 KiB random write, QD 32: 12.3 k → 10.1 k IOPS, -18 % (95 %: -20 to -15 %)."
    pub fn sentence(&self) -> String {
        let value = |value: f64| if self.metric == Metric::Rate { select::short(value) } else { select::time(value) };
        let unit = if self.metric == Metric::Rate { format!(" {}", self.unit) } else { " p99".into() };
        let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
        let interval = self.difference.interval.map_or(String::new(), |interval| {
            format!(" ({:.0} %: {} to {} %)", interval.confidence * 100.0, percent(interval.low), percent(interval.high))
        });
        let end = match self.change {
            Change::Noise => {
                let plus_minus = self.difference.before.plus_minus_percent().max(self.difference.after.plus_minus_percent());
                format!("; the runs scatter by ±{plus_minus:.1} %, so this difference cannot be told from noise")
            }
            Change::Undecided => "; undecided, since others used the machine".into(),
            Change::Unrepeated => "; undecided, since two runs of the same thing may differ as much".into(),
            Change::Better | Change::Worse | Change::Trifling => String::new(),
        };
        format!(
            "{}: {} → {}{unit}, {} %{interval}{end}.",
            self.label,
            value(self.difference.before.median),
            value(self.difference.after.median),
            percent(self.difference.ratio)
        )
    }
}
