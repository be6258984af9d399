//! A replay as a run folder, so that it can be reported, compared and exported as any other measurement.

use crate::fio::{Beside, Fio, FioError, Job, Place, Work, slowest_seconds};
use crate::replay::{Drift, Options, Outcome, Pace, Reached, ReplayError, iolog, play, size_of};
use crate::result::{
    ArrayState, DriveInfo, DriveState, FORMAT, IoMode, Manifest, Measured, Note, NoteKind, Pattern, Point, Record, ResultError,
    RunStatus, RunWriter, Section, SectionKind, Series, TargetInfo, TargetKind, inside, now_ms,
};
use crate::run::{Moment, Progress, lock};
use crate::state;
use crate::target_lock::Held;
use crate::trace::{Source, Totals};
use crate::units::show_seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The origin of a trace, so that it can be opened again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// A file, or an application.
    pub trace: String,
    /// Of the file.
    pub format: Option<String>,
    /// Of the application's look-alike.
    pub seed: u64,
}

/// The trace and the target of a replay: stored as `replay.json`, so that the replay can be resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// What is replayed.
    pub origin: Origin,
    /// For people: the file's name, or the application's.
    pub name: String,
    /// A file, block device or NBD export.
    pub target: Place,
    /// How.
    pub options: Options,
    /// By fio instead of threads of our own.
    pub through_fio: bool,
    /// The number of passes: three show the scatter of results.
    pub passes: u32,
    /// True if the target's data may be overwritten. Never stored: the user allows it again when a replay is resumed.
    #[serde(skip)]
    pub destroy: bool,
    /// The words on the command line.
    pub command: Vec<String>,
}

/// The reason why a replay was not stored.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The trace writes, and the user did not allow that.
    #[error("the trace writes to {target}, which would destroy its data: allow it with --destroy {target}")]
    NotAllowed {
        /// The target.
        target: String,
    },
    /// The replay itself.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The run folder.
    #[error(transparent)]
    Folder(#[from] ResultError),
    /// It cannot be resumed, or another process runs it.
    #[error("{0}")]
    Resume(String),
    /// It is invalid.
    #[error("{0}")]
    Usage(String),
    /// The target is in use.
    #[error("{0}")]
    Busy(String),
}

/// The file by which a replay's folder differs from that of a run.
const ASKED: &str = "replay.json";
const PASSES_MAX: u32 = 1000;

/// The request of a folder's replay; `None`: the folder has no replay.
///
/// # Errors
/// It exists and cannot be read.
pub fn asked(folder: &Path) -> Result<Option<Request>, KeepError> {
    let failed = |problem: String| KeepError::Resume(format!("{}: {problem}", folder.join(ASKED).display()));
    match inside::read(folder, ASKED, 1 << 20) {
        Ok(bytes) => inside::sound(&bytes).map(Some).map_err(failed),
        Err(ResultError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses to overwrite without permission, and options that contradict each other.
fn allow(source: &Source, request: &Request) -> Result<(), KeepError> {
    let totals = source.totals();
    request.target.check().and_then(|()| request.options.check()).map_err(KeepError::Usage)?;
    request.options.check_gap(source.gap()).map_err(KeepError::Usage)?;
    if !(1..=PASSES_MAX).contains(&request.passes) {
        return Err(KeepError::Usage(format!("invalid number of passes {}: allowed is 1 to {PASSES_MAX}", request.passes)));
    }
    if totals.writes.saturating_add(totals.discards) == 0 {
        return Ok(());
    }
    let target = request.target.to_string();
    if !request.destroy {
        return Err(KeepError::NotAllowed { target });
    }
    match &request.target {
        Place::Path(path) if fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device()) => {
            crate::purge::refuse_busy(path).map_err(KeepError::Busy)
        }
        _ => Ok(()),
    }
}

/// Replays a trace for the requested passes and stores the results in the new run folder `out`. `stop` ends it cleanly: the
/// measurements until then are stored, marked as cut short.
///
/// # Errors
/// When the target may not be written, the replay cannot start, or the folder cannot be written.
pub fn keep(
    source: &Source,
    request: &Request,
    out: &Path,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<(Manifest, Vec<Outcome>), KeepError> {
    let totals = source.totals();
    allow(source, request)?;
    let mut held = Held::default();
    held.take(&request.target, &[], true).map_err(KeepError::Resume)?;
    let size_bytes = size_of(&request.target)?;
    let fio = if request.through_fio { Some(Fio::find().map_err(ReplayError::Fio)?) } else { None };
    let manifest = manifest(request, totals, size_bytes, fio.as_ref());
    let writer = RunWriter::create(out, &manifest, &format!("# A replay, not an experiment.\nname = \"{}\"\n", request.name))?;
    inside::write(out, ASKED, &serde_json::to_vec_pretty(request).expect("plain data becomes JSON"))?;
    let _lock = lock(out).map_err(|error| KeepError::Resume(error.to_string()))?;
    let all: Vec<u32> = (1..=request.passes).collect();
    passes(source, request, writer, manifest, (&all, &held), stop, progress)
}

/// Continues an interrupted replay: complete passes count, and all others are replayed, from their start. Half a pass
/// before a pause and half after it would measure a rested target and a cold cache; the two halves together are not the load of
/// the trace.
///
/// # Errors
/// As [`keep`], and when it is done or the trace is not the same.
pub fn resume(
    source: &Source,
    request: &Request,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<(Manifest, Vec<Outcome>), KeepError> {
    allow(source, request)?;
    let mut held = Held::default();
    held.take(&request.target, &[], true).map_err(KeepError::Resume)?;
    let _lock = lock(folder).map_err(|error| KeepError::Resume(error.to_string()))?;
    let (writer, run) = RunWriter::resume(folder)?;
    let mut manifest = run.manifest;
    let place = folder.display();
    if manifest.status == RunStatus::Done {
        return Err(KeepError::Resume(format!("the replay in {place} is done: there is nothing to resume")));
    }
    if question(request, source.totals()) != manifest.question || manifest.sections.len() != 1 {
        return Err(KeepError::Resume(format!("{} is not the trace that was replayed in {place}", request.origin.trace)));
    }
    let counts = |record: &Record| !record.extra.contains_key(CUT_SHORT) && record.failed.is_none();
    let whole: Vec<Record> = run.records.into_iter().filter(counts).collect();
    writer.rewrite_records(&whole)?;
    let missing: Vec<u32> = (1..=request.passes).filter(|pass| whole.iter().all(|record| record.round != *pass)).collect();
    let named: Vec<String> = missing.iter().map(ToString::to_string).collect();
    manifest.status = RunStatus::Running;
    manifest.resumed_ms.push(now_ms());
    let note = Note {
        at_ms: now_ms(),
        section: SECTION.into(),
        record: None,
        kind: NoteKind::Fallback,
        text: format!(
            "It was resumed with {} {}, replayed from the start.",
            if named.len() == 1 { "pass" } else { "passes" },
            named.join(", ")
        ),
    };
    progress.say(&note);
    writer.note(&note)?;
    passes(source, request, writer, manifest, (&missing, &held), stop, progress)
}

/// Replays the passes of these numbers.
fn passes(
    source: &Source,
    request: &Request,
    mut writer: RunWriter,
    mut manifest: Manifest,
    (missing, held): (&[u32], &Held),
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<(Manifest, Vec<Outcome>), KeepError> {
    let totals = source.totals();
    let out = writer.folder().to_path_buf();
    let size_bytes = size_of(&request.target)?;
    let fio = if request.through_fio { Some(Fio::find().map_err(ReplayError::Fio)?) } else { None };
    let begun = Instant::now();
    let mut outcomes = Vec::new();
    let mut without_result = 0;
    for (before, &pass) in missing.iter().enumerate() {
        let begun_ms = now_ms();
        let mut tell = |reached: Reached| progress.at(&moment(request, totals, (before, missing.len(), pass), reached, begun));
        let index = writer.next_index();
        let replayed = match &fio {
            None => play(source, &request.target, &request.options, stop, &mut tell),
            Some(fio) => through_fio(source, request, size_bytes, (fio, &out, index, held), stop, &mut tell),
        };
        let outcome = match replayed {
            Ok(outcome) => outcome,
            Err(ReplayError::Fio(FioError::Interrupted)) => Outcome { cut_short: true, ..Outcome::default() },
            Err(error) => {
                manifest.status = RunStatus::Failed;
                writer.save_manifest(&manifest)?;
                return Err(error.into());
            }
        };
        let is_cut = outcome.cut_short && stop.load(Ordering::Relaxed);
        let mut notes = notes_of(request, totals, &outcome);
        if let Some(words) = outcome.failed().filter(|_| !is_cut) {
            without_result += 1;
            notes.push((NoteKind::Error, format!("no result: {words}.")));
        }
        for (kind, text) in notes {
            let text = format!("Pass {pass}: {text}");
            let note = Note { at_ms: now_ms(), section: SECTION.into(), record: Some(index), kind, text };
            progress.say(&note);
            writer.note(&note)?;
        }
        if outcome.total.requests > 0 || outcome.errors > 0 {
            let record = record(request, totals, &outcome, (index, pass, begun_ms));
            if fio.is_none() {
                inside::write(&out, &record.raw, &serde_json::to_vec_pretty(&outcome).expect("plain data becomes JSON"))?;
            }
            writer.append(&[record], &Series::default())?;
            outcomes.push(outcome);
        }
        if is_cut {
            manifest.status = RunStatus::Interrupted;
            break;
        }
    }
    if manifest.status == RunStatus::Running {
        manifest.status = if without_result > 0 { RunStatus::WithFailures } else { RunStatus::Done };
    }
    manifest.ended_ms = Some(now_ms());
    manifest.sections[0].ended_ms = manifest.ended_ms;
    manifest.drives_after = drives(request);
    writer.save_manifest(&manifest)?;
    Ok((manifest, outcomes))
}

/// The notes that are needed to understand the figures of a pass.
fn notes_of(request: &Request, totals: &Totals, outcome: &Outcome) -> Vec<(NoteKind, String)> {
    let mut notes = Vec::new();
    if request.options.pace != Pace::Closed && !request.through_fio {
        let kind = if outcome.drift.late_share > 0.01 { NoteKind::Fallback } else { NoteKind::Verdict };
        notes.push((kind, outcome.drift.sentence()));
    } else if let Pace::Open { stretch } = request.options.pace {
        let text = format!(
            "fio took {} for {} of the trace; it does not report how late requests were, and while it waits for the next one it \
             does not look for those that ended, so latencies are too high: replay without fio to know them.",
            show_seconds(outcome.seconds),
            show_seconds(totals.seconds * stretch)
        );
        notes.push((NoteKind::Fallback, text));
    }
    let discards = outcome.trim.as_ref().map_or(0, |trim| trim.requests);
    if request.through_fio && discards < totals.discards && !outcome.cut_short {
        notes.push((NoteKind::Fallback, format!("fio replayed {discards} of {} discards.", totals.discards)));
    }
    if outcome.cut_short {
        let done = outcome.total.requests + outcome.flushes;
        notes.push((NoteKind::Fallback, format!("it was interrupted after {done} of {} requests.", totals.requests())));
    }
    if outcome.discards_left_out > 0 {
        let text = format!("{} discards were left out: the target does not support them.", outcome.discards_left_out);
        notes.push((NoteKind::Fallback, text));
    }
    notes
}

/// The progress of all passes. For an open loop the remaining time is known; for the others it is estimated from the speed so
/// far.
fn moment(
    request: &Request,
    totals: &Totals,
    (before, count, pass): (usize, usize, u32),
    reached: Reached,
    begun: Instant,
) -> Moment {
    let done = match request.options.pace {
        Pace::Open { .. } if totals.seconds > 0.0 => reached.trace_seconds / totals.seconds,
        _ => reached.requests as f64 / totals.requests().max(1) as f64,
    };
    let passes = count as f64;
    let share = ((before as f64 + done.min(1.0)) / passes).clamp(1e-6, 1.0);
    let done_seconds = begun.elapsed().as_secs_f64();
    let total_seconds = match request.options.pace {
        Pace::Open { stretch } => (totals.seconds * stretch * passes).max(done_seconds),
        _ => done_seconds / share,
    };
    let words = format!("pass {pass} of {}, {} of {} requests", request.passes, reached.requests, totals.requests());
    Moment { section: format!("replay of {}", request.name), words, done_seconds, total_seconds, is_virtual: false }
}

/// One pass by fio, which is given the trace as a log of its own.
fn through_fio(
    source: &Source,
    request: &Request,
    size_bytes: u64,
    (fio, folder, index, held): (&Fio, &Path, u32, &Held),
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Reached),
) -> Result<Outcome, ReplayError> {
    let is_nbd = matches!(request.target, Place::Nbd(_));
    let name = if is_nbd { "nbd".into() } else { request.target.clone().absolute().to_string() };
    let log_name = format!("raw/{index:05}.iolog");
    let log = folder.join(&log_name);
    let options = iolog(source, &name, size_bytes, &request.options, &log, &log_name)?;
    let places = [request.target.clone().absolute()];
    let (totals, pace) = (source.totals(), request.options.pace);
    let bytes =
        [totals.written_bytes, totals.discarded_bytes].iter().fold(totals.read_bytes, |sum, bytes| sum.saturating_add(*bytes));
    let waits_s = if let Pace::Open { stretch } = pace { totals.seconds * stretch } else { 0.0 };
    let seconds_max = waits_s + slowest_seconds(bytes as f64, totals.requests() as f64);
    let work = Work::Replay { options: &options, seconds_max };
    let job = Job { places: &places, span_bytes: size_bytes, offset_bytes: 0, work, seed: 0, logs: None };
    let stretch = if let Pace::Open { stretch } = request.options.pace { stretch.max(1e-9) } else { 1.0 };
    let mut tick = |at: std::time::Duration| tell(Reached { requests: 0, trace_seconds: at.as_secs_f64() / stretch });
    let beside = Beside { hosts: &[], stop, start: &|fio| held.spawn(fio), running: &|_| {} };
    let measured = fio.run(&job, folder, &format!("{index:05}"), &beside, &mut tick);
    let _ = fs::remove_file(&log);
    let one = measured?.swap_remove(0);
    let totals = source.totals();
    let served = [&one.read, &one.write].into_iter().flatten().map(|figures| figures.requests).fold(0, u64::saturating_add);
    let wanted = totals.reads.saturating_add(totals.writes);
    let less = || (served < wanted).then(|| format!("fio served {served} of {wanted} reads and writes"));
    Ok(Outcome {
        seconds: one.seconds,
        busy_seconds: one.seconds,
        flushes: totals.flushes,
        errors: one.errors,
        first_error: None,
        discards_left_out: 0,
        drift: Drift::default(),
        cut_short: false,
        read: one.read,
        write: one.write,
        trim: one.trim,
        total: one.total,
        shortfall: one.failed.or_else(less),
    })
}

fn drives(request: &Request) -> Vec<DriveInfo> {
    match &request.target {
        Place::Path(path) => vec![state::drive_info(path)],
        Place::Nbd(_) => Vec::new(),
    }
}

const SECTION: &str = "1-replay";
/// The key of [`Record::extra`] that says that a pass was interrupted.
const CUT_SHORT: &str = "cut_short";

fn question(request: &Request, totals: &Totals) -> String {
    format!(
        "How does {} serve this trace: {} reads, {} writes, {} discards and {} flushes over {}?",
        request.target,
        totals.reads,
        totals.writes,
        totals.discards,
        totals.flushes,
        crate::units::show_seconds(totals.seconds)
    )
}

fn manifest(request: &Request, totals: &Totals, size_bytes: u64, fio: Option<&Fio>) -> Manifest {
    let begun_ms = now_ms();
    let is_block = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let kind = match &request.target {
        Place::Path(path) if is_block(path) => TargetKind::Block,
        Place::Path(_) => TargetKind::File,
        Place::Nbd(_) => TargetKind::Nbd,
    };
    let target = request.target.to_string();
    let title = format!("Replay of {}, {}", request.name, request.options.pace_words());
    let question = question(request, totals);
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
        fio: fio.map_or("replayed without fio".into(), |fio| fio.version.clone()),
        command: request.command.clone(),
        note: String::new(),
        targets: vec![TargetInfo {
            name: target.clone(),
            spec: target.clone(),
            kind,
            size_bytes,
            span_bytes: size_bytes,
            offset_bytes: 0,
            level: None,
            members: None,
            strip_bytes: None,
            spans: None,
            platform: String::new(),
            drives: drives(request),
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
            steady_before: Vec::new(),
            failed: None,
            begun_ms: Some(begun_ms),
            ended_ms: None,
        }],
        drives_after: Vec::new(),
    }
}

fn record(request: &Request, totals: &Totals, outcome: &Outcome, (index, round, begun_ms): (u32, u32, u64)) -> Record {
    let moved = totals.requests().saturating_sub(totals.flushes).max(1);
    let bytes = totals.read_bytes.saturating_add(totals.written_bytes).saturating_add(totals.discarded_bytes);
    let mut extra = BTreeMap::new();
    if outcome.cut_short {
        extra.insert(CUT_SHORT.into(), 1.0);
    }
    if !request.through_fio {
        extra.insert("busy_mb_per_s".into(), outcome.busy_mb_per_s());
    }
    if request.options.pace != Pace::Closed && !request.through_fio {
        extra.insert("drift_p99_ns".into(), outcome.drift.p99_ns);
        extra.insert("drift_max_ns".into(), outcome.drift.max_ns);
        extra.insert("late_percent".into(), outcome.drift.late_share * 100.0);
    }
    Record {
        index,
        section: SECTION.into(),
        preparation: false,
        point: Point {
            target: request.target.to_string(),
            level: None,
            members: None,
            strip_bytes: None,
            spans: None,
            pattern: Pattern::Random,
            block_bytes: bytes / moved,
            mix: request.name.clone(),
            read_percent: (totals.reads * 100 / (totals.reads + totals.writes).max(1)) as u8,
            queue_depth: request.options.depth as u32,
            threads: 1,
            compressible_percent: 0,
            drive_state: DriveState::AsFound,
            array_state: ArrayState::Optimal,
            mode: if request.options.direct { IoMode::Direct } else { IoMode::Cached },
            variant: [request.options.pace_words().as_str(), if outcome.cut_short { "cut short" } else { "" }]
                .into_iter()
                .filter(|words| !words.is_empty())
                .collect::<Vec<_>>()
                .join(", "),
        },
        round,
        step: 0,
        begun_ms,
        measured: Measured {
            seconds: outcome.seconds,
            read: outcome.read.clone(),
            write: outcome.write.clone(),
            trim: outcome.trim.clone(),
            total: outcome.total.clone(),
            errors: outcome.errors,
            failed: outcome.failed(),
            ..Measured::default()
        },
        raw: RunWriter::raw_name(index),
        series: None,
        members: Vec::new(),
        extra,
    }
}

#[cfg(test)]
mod tests;
