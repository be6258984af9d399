//! Compares a run on drives with the same experiment on their models, and computes the models' errors. The errors are stored for
//! this machine, and `stria plan advise --calibrated` corrects the models by them.

use crate::experiment::Experiment;
use crate::report;
use crate::result::{Manifest, Pattern, Point, Record, Run, RunStatus, TargetInfo, TargetKind};
use crate::run::{Progress, Request, RunError, run};
use crate::select;
use crate::stats::Summary;
use crate::target::{Pool, TargetError, TargetSpec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use stria_plan::calibration::{Calibration, Kind, Pair, Redundancy, file_name};
use stria_plan::load;
use stria_plan::subject::SubjectSpec;

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The measured target.
    pub target: String,
    /// The load in words.
    pub load: String,
    /// Requests a second, the median of the rounds.
    pub measured_iops: f64,
    /// The same of the model.
    pub modelled_iops: f64,
    /// The model's error, in percent of the measured rate.
    pub error_percent: f64,
    /// The 99th percentile of latency, measured.
    pub measured_p99_ns: f64,
    /// The same of the model.
    pub modelled_p99_ns: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// All loads that were measured on both.
    pub lines: Vec<Line>,
    /// Loads that only the drives measured.
    pub unmatched: usize,
    /// The calibration that is stored for this machine.
    pub calibration: Calibration,
    /// Where.
    pub stored: PathBuf,
    /// The run on the models.
    pub models: PathBuf,
    /// The page with both side by side.
    pub page: PathBuf,
}

/// `DRIVE[@PLATFORM]` as it is used here.
///
/// # Errors
/// When one of them is not in the catalogue.
pub fn subject(model: &str) -> Result<SubjectSpec, TargetError> {
    if model.contains(':') {
        return Err(TargetError::Usage(format!("--verify-plan {model}: write DRIVE[@PLATFORM], as p4510 or p4510@p4510-md")));
    }
    let spec = TargetSpec::parse(&format!("model:{model}"), &Pool::default(), None)?;
    Ok(spec.model.expect("it is a model"))
}

/// The model of a target that was measured; none where there is no such model.
fn like(target: &TargetInfo, model: &str) -> Option<String> {
    let text = match (target.level.as_deref(), target.kind, target.members) {
        (Some(level), _, Some(members)) => {
            let strip = target.strip_bytes.unwrap_or(64 << 10) >> 10;
            let spans = target.spans.map_or(String::new(), |spans| format!(":{spans}"));
            format!("model:{model}:{level}:{members}:{strip}K{spans}")
        }
        (None, TargetKind::Members, Some(members)) => format!("model:{model}:bare:{members}"),
        _ => format!("model:{model}"),
    };
    TargetSpec::parse(&text, &Pool::default(), None).is_ok().then_some(text)
}

fn redundancy(level: Option<&str>) -> Redundancy {
    match level {
        Some("1" | "10") => Redundancy::Copies,
        Some("4" | "5" | "6" | "50" | "60") => Redundancy::Parity,
        _ => Redundancy::None,
    }
}

/// A point by its target and load only: a model's point may have more fields about level and strip than the measured one.
fn key(point: &Point) -> Point {
    Point { level: None, members: None, strip_bytes: None, spans: None, ..point.clone() }
}

fn medians(records: &[&Record]) -> Option<(f64, f64)> {
    let of = |value: fn(&Record) -> Option<f64>| Summary::of(&select::known(records, value)).map(|summary| summary.median);
    of(|record| Some(record.total.iops)).zip(of(|record| record.total.latency.p99_ns))
}

/// Runs the experiment of a run on the models of its targets, and compares. `keep` is the folder for calibrations.
///
/// # Errors
/// When a folder cannot be read or written, nothing was measured, or none of the targets is modelled.
pub fn verify(
    (experiment, text): (&Experiment, &str),
    request: &Request,
    folder: &Path,
    model: &str,
    keep: &Path,
    (stop, progress): (&AtomicBool, &mut dyn Progress),
) -> Result<Verdict, RunError> {
    let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
    let spec = subject(model)?;
    let real = Run::open(folder)?;
    let modelled = real.manifest.targets.iter().filter_map(|target| Some((target.name.clone(), like(target, model)?)));
    let (names, targets): (Vec<String>, Vec<String>) = modelled.unzip();
    if targets.is_empty() {
        return Err(RunError::Failed(format!("no target of {} is modelled, so there is nothing to verify", folder.display())));
    }
    let models = (1..).map(|at| PathBuf::from(format!("{}-models-{at}", folder.display()))).find(|path| !path.exists());
    let models = models.expect("some number is free");
    let asked = Request {
        targets,
        names,
        on: None,
        drives: Vec::new(),
        pool: None,
        hosts: Vec::new(),
        part: Default::default(),
        level: None,
        members: None,
        ..request.clone()
    };
    let modelled = run(experiment, text, asked, &models, stop, progress)?;
    if modelled.status != RunStatus::Done {
        let how = if modelled.status == RunStatus::Interrupted { "was interrupted" } else { "has failures" };
        return Err(RunError::Failed(format!(
            "the run on the models in {} {how}, so no calibration was stored and an earlier one stays: repeat the run with --verify-plan",
            models.display()
        )));
    }
    let there = Run::open(&models)?;
    let there: BTreeMap<Point, (f64, f64)> =
        select::results(&there).into_iter().filter_map(|(point, records)| Some((key(point), medians(&records)?))).collect();
    let (mut lines, mut pairs, mut unmatched) = (Vec::new(), Vec::new(), 0);
    for (point, records) in select::results(&real) {
        let Some((measured, modelled)) = medians(&records).zip(there.get(&key(point)).copied()) else {
            unmatched += 1;
            continue;
        };
        let pattern = match point.pattern {
            Pattern::Random => load::Pattern::Random,
            Pattern::Sequential => load::Pattern::Sequential,
        };
        let read_share = f64::from(point.read_percent) / 100.0;
        let kind = Kind::of(read_share, pattern, point.outstanding(), redundancy(point.level.as_deref()));
        pairs.push(Pair { kind, measured: measured.0, modelled: modelled.0 });
        lines.push(Line {
            target: point.target.clone(),
            load: select::load(point),
            measured_iops: measured.0,
            modelled_iops: modelled.0,
            error_percent: (modelled.0 / measured.0 - 1.0) * 100.0,
            measured_p99_ns: measured.1,
            modelled_p99_ns: modelled.1,
        });
    }
    if pairs.is_empty() {
        return Err(RunError::Failed(format!("{} and its models have no load in common", folder.display())));
    }
    let Manifest { environment, id, .. } = &real.manifest;
    let source = format!("{} ({}), run {id}", environment.host, environment.cpu);
    let calibration = Calibration::of(&spec.drive.key, &spec.platform.key, &source, &pairs);
    std::fs::create_dir_all(keep).map_err(|error| failed(&format!("{}: {error}", keep.display())))?;
    let stored = keep.join(file_name(&spec.drive.key, &spec.platform.key));
    let plain = serde_json::to_vec_pretty(&calibration).expect("plain data becomes JSON");
    std::fs::write(&stored, plain).map_err(|error| failed(&format!("{}: {error}", stored.display())))?;
    let page = folder.join("verify.html");
    report::write_together(&[folder.to_path_buf(), models.clone()], &page).map_err(|error| failed(&error))?;
    Ok(Verdict { lines, unmatched, calibration, stored, models, page })
}
