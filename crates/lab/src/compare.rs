//! What differs between two runs, and what is noise.
//!
//! Every point that both runs measured is compared in rate and in p99 latency over its rounds (of the steady window, where there is
//! one), by the methods of [`stats`](crate::stats), with Holm's correction over all of them. A difference counts when it is
//! significant *and* at least the tolerance: with enough rounds any trifle is significant. Rounds of one run share its circumstances;
//! what differs from day to day shows only when runs of several days are compared.

use crate::result::{Point, Record, ResultError, Run};
use crate::select;
use crate::stats::{self, Difference, Method, SIGNIFICANCE};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The smallest change that is worth a word.
pub const TOLERANCE: f64 = 0.03;

/// What was compared at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Metric {
    /// More is better.
    Rate,
    /// Less is better.
    LatencyP99,
}

/// How the second run stands to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Change {
    Better,
    Worse,
    /// Significant, but smaller than the tolerance.
    Trifling,
    /// The noise is larger than the difference.
    Noise,
}

/// One line of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Of the first run.
    pub point: Point,
    /// "4 KiB random read, QD 32".
    pub label: String,
    /// What was compared.
    pub metric: Metric,
    /// "IOPS", "MB/s", "ns".
    pub unit: &'static str,
    /// What was found.
    pub difference: Difference,
    /// Its probability after Holm's correction.
    pub p: f64,
    /// The verdict.
    pub change: Change,
}

/// Two runs.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the first.
    pub before: String,
    /// Name of the second.
    pub after: String,
    /// Points that both measured, in the order of points, rate before latency.
    pub rows: Vec<Row>,
    /// Points that only one measured.
    pub unmatched: usize,
    /// Circumstances that differ: read the rest with them in mind.
    pub caveats: Vec<String>,
    /// The tolerance.
    pub tolerance: f64,
}

/// What came of it, for an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// Nothing is significantly worse or better.
    Same,
    /// Something is better, nothing worse.
    Better,
    /// Something is worse.
    Worse,
    /// Nothing in common, or nothing that was measured more than once.
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
    let (mut before, mut after) = (own(select::results(a)), own(select::results(b)));
    if !before.keys().any(|point| after.contains_key(point)) && a.manifest.targets.len() == 1 && b.manifest.targets.len() == 1 {
        // One thing measured here and another there: its loads are what they have in common.
        (before, after) = (before.into_iter().map(forget_target).collect(), after.into_iter().map(forget_target).collect());
    }
    let common: Vec<(&Point, &Vec<&Record>, &Vec<&Record>)> =
        before.iter().filter_map(|(point, records)| Some((point, records, after.get(point)?))).collect();
    let comparisons = common.len() * 2;
    let mut rows = Vec::new();
    for (point, before, after) in &common {
        for (metric, unit) in [(Metric::Rate, select::unit(point)), (Metric::LatencyP99, "ns")] {
            let value = |record: &Record| match metric {
                Metric::Rate => select::rate(record),
                Metric::LatencyP99 => record.total.latency.p99_ns,
            };
            let pair = (select::values(before, value), select::values(after, value));
            if let Some(difference) = stats::difference(&pair.0, &pair.1, comparisons) {
                let target = before.first().map_or("", |record| record.point.target.as_str());
                let label = format!("{target}: {}", select::load(point));
                let point = (*point).clone();
                rows.push(Row { point, label, metric, unit, difference, p: 1.0, change: Change::Noise });
            }
        }
    }
    let p: Vec<f64> = rows.iter().map(|row| row.difference.p).collect();
    for (row, p) in rows.iter_mut().zip(stats::holm(&p)) {
        row.p = p;
        let gain = if row.metric == Metric::Rate { row.difference.ratio - 1.0 } else { 1.0 - row.difference.ratio };
        row.change = match () {
            () if p >= SIGNIFICANCE => Change::Noise,
            () if (row.difference.ratio - 1.0).abs() < tolerance => Change::Trifling,
            () if gain > 0.0 => Change::Better,
            () => Change::Worse,
        };
    }
    Comparison {
        before: a.manifest.id.clone(),
        after: b.manifest.id.clone(),
        unmatched: before.len() + after.len() - 2 * common.len(),
        rows,
        caveats: caveats(a, b),
        tolerance,
    }
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
    for run in [a, b] {
        let unsteady =
            run.manifest.sections.iter().filter(|section| section.steady.as_ref().is_some_and(|steady| !steady.reached));
        let titles: Vec<&str> = unsteady.map(|section| section.title.as_str()).collect();
        if !titles.is_empty() {
            caveats.push(format!("{} never became steady in {}.", run.manifest.id, titles.join(", ")));
        }
    }
    caveats
}

impl Comparison {
    /// What came of it.
    pub fn outcome(&self) -> Outcome {
        let any = |change| self.rows.iter().any(|row| row.change == change);
        match () {
            () if self.rows.iter().all(|row| row.difference.method == Method::TooFew) => Outcome::Nothing,
            () if any(Change::Worse) => Outcome::Worse,
            () if any(Change::Better) => Outcome::Better,
            () => Outcome::Same,
        }
    }

    /// Everything in plain words: the verdict, each difference, the noise, the caveats, the methods.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let count = |change| self.rows.iter().filter(|row| row.change == change).count();
        let (better, worse) = (count(Change::Better), count(Change::Worse));
        sentences.push(match self.outcome() {
            Outcome::Nothing if self.rows.is_empty() => "The runs have no measurement in common.".into(),
            Outcome::Nothing => {
                "Every common point was measured only once on a side: repeat the runs to tell differences from noise.".into()
            }
            Outcome::Same => format!("No significant difference in {} comparisons.", self.rows.len()),
            _ => format!(
                "Of {} comparisons {worse} {} significantly worse and {better} better in {}.",
                self.rows.len(),
                if worse == 1 { "is" } else { "are" },
                self.after
            ),
        });
        for change in [Change::Worse, Change::Better] {
            sentences.extend(self.rows.iter().filter(|row| row.change == change).map(Row::sentence));
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
        if self.unmatched > 0 {
            sentences.push(format!("{} points were measured in one run only.", self.unmatched));
        }
        sentences.extend(self.caveats.iter().cloned());
        let mut methods: Vec<&str> = self.rows.iter().map(|row| row.difference.method.name()).collect();
        methods.sort_unstable();
        methods.dedup();
        if !methods.is_empty() {
            sentences.push(format!("Method: {}; Holm's correction; level {SIGNIFICANCE}.", methods.join(", ")));
        }
        sentences
    }
}

impl Row {
    /// Better or worse, and not by a trifle.
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
                format!("; the runs scatter by ±{plus_minus:.1} %, so this is no difference that can be told from noise")
            }
            _ => String::new(),
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
