//! A replay as a run folder, so that it can be reported, compared and exported as any other measurement.

use super::{Options, Outcome, Pace, ReplayError, play};
use crate::result::{
    ArrayState, DriveState, FORMAT, IoMode, Manifest, Note, NoteKind, Pattern, Point, Record, ResultError, RunStatus, RunWriter,
    Section, SectionKind, Series, TargetInfo, TargetKind, now_ms,
};
use crate::state;
use crate::trace::{Op, Totals, Trace};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What to replay where.
#[derive(Clone, Debug)]
pub struct Request {
    /// For people: the file's name, or the application's.
    pub name: String,
    /// A file or block device.
    pub target: PathBuf,
    /// How.
    pub options: Options,
    /// How often: three tell how far results scatter.
    pub passes: u32,
    /// Whether the target's data may be overwritten.
    pub destroy: bool,
    /// The words on the command line.
    pub command: Vec<String>,
}

/// Why a replay was not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The trace writes, and nobody allowed it.
    #[error("the trace writes to {target}, which would destroy what is there: allow it with --destroy {target}")]
    NotAllowed {
        /// The target.
        target: PathBuf,
    },
    /// The replay itself.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The run folder.
    #[error(transparent)]
    Folder(#[from] ResultError),
}

/// Replays `trace` as often as asked and keeps it in the new run folder `out`; `progress` hears of passes and requests done.
///
/// # Errors
/// When the target may not be written, the replay cannot start, or the folder cannot be written.
pub fn keep(
    trace: &Trace,
    request: &Request,
    out: &Path,
    progress: &(dyn Fn(u32, usize) + Sync),
) -> Result<(Manifest, Vec<Outcome>), KeepError> {
    let totals = trace.totals();
    if totals.writes + totals.discards > 0 && !request.destroy {
        return Err(KeepError::NotAllowed { target: request.target.clone() });
    }
    let mut manifest = manifest(request, &totals);
    let mut writer =
        RunWriter::create(out, &manifest, &format!("# A replay, not an experiment.\nname = \"{}\"\n", request.name))?;
    let mut outcomes = Vec::new();
    for pass in 1..=request.passes.max(1) {
        let begun_ms = now_ms();
        let outcome = match play(trace, &request.target, &request.options, &|done| progress(pass, done)) {
            Ok(outcome) => outcome,
            Err(error) => {
                manifest.status = RunStatus::Failed;
                writer.save_manifest(&manifest)?;
                return Err(error.into());
            }
        };
        let record = record(request, trace, &totals, &outcome, (writer.next_index(), pass, begun_ms));
        let raw = out.join(&record.raw);
        let failed = |source| ResultError::Io { path: raw.clone(), source };
        fs::write(&raw, serde_json::to_vec_pretty(&outcome).expect("plain data becomes JSON")).map_err(failed)?;
        writer.append(&[record], &Series::default())?;
        if request.options.pace != Pace::Closed {
            let kind = if outcome.drift.late_share > 0.01 { NoteKind::Fallback } else { NoteKind::Verdict };
            let text = format!("Pass {pass}: {}", outcome.drift.sentence());
            writer.note(&Note { at_ms: now_ms(), section: SECTION.into(), record: Some(pass - 1), kind, text })?;
        }
        outcomes.push(outcome);
    }
    manifest.status = RunStatus::Done;
    manifest.ended_ms = Some(now_ms());
    manifest.sections[0].ended_ms = manifest.ended_ms;
    manifest.drives_after = vec![state::drive_info(&request.target)];
    writer.save_manifest(&manifest)?;
    Ok((manifest, outcomes))
}

const SECTION: &str = "1-replay";

fn manifest(request: &Request, totals: &Totals) -> Manifest {
    let begun_ms = now_ms();
    let block = fs::metadata(&request.target).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let size_bytes = state::size_of(&request.target).unwrap_or(0);
    let target = request.target.display().to_string();
    let title = format!("Replay of {}, {}", request.name, pace(&request.options));
    let question = format!(
        "How does {target} serve this trace: {} reads, {} writes, {} discards and {} flushes over {}?",
        totals.reads,
        totals.writes,
        totals.discards,
        totals.flushes,
        crate::units::show_seconds(totals.seconds)
    );
    Manifest {
        format: FORMAT,
        id: format!("replay-{}-{begun_ms}", request.name),
        experiment: "replay".into(),
        title: title.clone(),
        question,
        status: RunStatus::Running,
        scaled: None,
        begun_ms,
        ended_ms: None,
        resumed_ms: Vec::new(),
        program: concat!("stria ", env!("CARGO_PKG_VERSION")).into(),
        fio: "replayed without fio".into(),
        command: request.command.clone(),
        note: String::new(),
        targets: vec![TargetInfo {
            name: target.clone(),
            spec: target.clone(),
            kind: if block { TargetKind::Block } else { TargetKind::File },
            size_bytes,
            span_bytes: size_bytes,
            level: None,
            members: None,
            strip_bytes: None,
            spans: None,
            platform: String::new(),
            drives: vec![state::drive_info(&request.target)],
        }],
        environment: state::environment(),
        hosts: BTreeMap::new(),
        sections: vec![Section {
            id: SECTION.into(),
            name: "replay".into(),
            title,
            kind: SectionKind::Replay,
            target,
            purge: None,
            precondition: None,
            rounds: request.passes,
            steady: None,
            begun_ms: Some(begun_ms),
            ended_ms: None,
        }],
        drives_after: Vec::new(),
    }
}

/// The pace in words.
fn pace(options: &Options) -> String {
    match options.pace {
        Pace::Open { stretch: 1.0 } => "as recorded".into(),
        Pace::Open { stretch } => format!("in {stretch} times its time"),
        Pace::Closed => "as fast as it goes".into(),
        Pace::ThinkTime { .. } => "with think time".into(),
    }
}

fn record(
    request: &Request,
    trace: &Trace,
    totals: &Totals,
    outcome: &Outcome,
    (index, round, begun_ms): (u32, u32, u64),
) -> Record {
    let moved = trace.records.iter().filter(|record| record.op != Op::Flush).count().max(1) as u64;
    let mut extra = BTreeMap::from([("busy_mb_per_s".to_string(), outcome.busy_mb_per_s())]);
    if request.options.pace != Pace::Closed {
        extra.insert("drift_p99_ns".into(), outcome.drift.p99_ns);
        extra.insert("drift_max_ns".into(), outcome.drift.max_ns);
        extra.insert("late_percent".into(), outcome.drift.late_share * 100.0);
    }
    Record {
        index,
        section: SECTION.into(),
        preparation: false,
        point: Point {
            target: request.target.display().to_string(),
            level: None,
            members: None,
            strip_bytes: None,
            spans: None,
            pattern: Pattern::Random,
            block_bytes: (totals.read_bytes + totals.written_bytes + totals.discarded_bytes) / moved,
            mix: request.name.clone(),
            read_percent: (totals.reads * 100 / (totals.reads + totals.writes).max(1)) as u8,
            queue_depth: request.options.depth as u32,
            threads: 1,
            compressible_percent: 0,
            drive_state: DriveState::AsFound,
            array_state: ArrayState::Optimal,
            mode: if request.options.direct { IoMode::Direct } else { IoMode::Cached },
            variant: pace(&request.options),
        },
        round,
        step: 0,
        host: String::new(),
        begun_ms,
        seconds: outcome.seconds,
        read: outcome.read.clone(),
        write: outcome.write.clone(),
        trim: outcome.trim.clone(),
        total: outcome.total.clone(),
        cpu_user_percent: 0.0,
        cpu_system_percent: 0.0,
        errors: outcome.errors,
        raw: RunWriter::raw_name(index),
        series: None,
        members: Vec::new(),
        extra,
    }
}
