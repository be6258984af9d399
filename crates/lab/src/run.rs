//! Runs an experiment and keeps what it measures; takes up again what was interrupted.
//!
//! The order is target by target, and section by section on each. What is done is known from the records alone: a step whose
//! record is there is not done again. A round that counts towards a steady state is done again as a whole, because SNIA allows
//! no idle gap in it; so is a section of RAID runs, because its array was in the midst of something.

mod copy;
mod measure;
mod prepare;
mod raid;

use crate::experiment::{Experiment, SchemaError};
use crate::fio::{Fio, FioError, Work};
use crate::plan::{self, Load, RaidAction, Rounds, Scale, Stage, Step, stages, step_cost};
use crate::result::{
    DriveInfo, DriveState, FORMAT, Manifest, Note, NoteKind, Pattern, Record, ResultError, RunStatus, RunWriter, Section,
    SectionKind, SteadyVerdict, TargetKind, now_ms,
};
use crate::snia::{Tracker, verdict};
use crate::state;
use crate::target::{Pool, Target, TargetError, TargetSpec};
use crate::units::{show_seconds, show_size};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Speed that is assumed for the time left until something is known, MB/s.
const ASSUMED_MB_PER_S: f64 = 500.0;
/// Load of others, in percent of the CPUs, from which it is noted.
const BUSY_PERCENT: f64 = 20.0;

/// Why a run did not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The folder.
    #[error(transparent)]
    Result(#[from] ResultError),
    /// fio.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// Anything else, in a sentence.
    #[error("{0}")]
    Failed(String),
}

/// What a run was asked for, beside its experiment: kept as `request.json`, so that it can be taken up again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Targets as they were named; none where the experiment builds arrays.
    pub targets: Vec<String>,
    /// Size of a file to make, or of an NBD export that does not tell.
    pub size: Option<u64>,
    /// Drives for arrays.
    pub drives: Vec<PathBuf>,
    /// Or a folder for image files.
    pub pool: Option<PathBuf>,
    /// Of this size.
    pub drive_bytes: Option<u64>,
    /// A trial.
    pub scaled: bool,
    /// Only what reads.
    #[serde(default)]
    pub read_only: bool,
    /// Machines on which fio serves, instead of this one.
    pub hosts: Vec<String>,
    /// What may be overwritten.
    pub destroy: Vec<String>,
    /// A remark.
    pub note: String,
    /// What the user says about the platform.
    pub platform: String,
    /// Level of a target that is an array of others.
    pub level: Option<String>,
    /// Members of such an array.
    pub members: Option<u32>,
    /// Bytes that the maker allows to be written to a drive.
    pub rated_bytes: Option<u64>,
    /// Leave the files that were made.
    pub keep: bool,
    /// The command line.
    pub command: Vec<String>,
    /// The `stria` program.
    pub program: PathBuf,
    /// Files that were not there before the run.
    pub made: Vec<PathBuf>,
    /// Where sockets of arrays lie.
    pub sockets: PathBuf,
}

impl Request {
    /// What of an experiment is asked for.
    ///
    /// # Errors
    /// When nothing of it only reads.
    pub fn experiment(&self, experiment: Experiment) -> Result<Experiment, SchemaError> {
        if self.read_only { experiment.read_only() } else { Ok(experiment) }
    }

    /// The pool.
    pub fn pool(&self) -> Pool {
        Pool { drives: self.drives.clone(), folder: self.pool.clone(), drive_bytes: self.drive_bytes }
    }

    /// The targets of an experiment.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn target_specs(&self, experiment: &Experiment) -> Result<Vec<TargetSpec>, TargetError> {
        let pool = self.pool();
        let mut specs: Vec<TargetSpec> =
            self.targets.iter().map(|text| TargetSpec::parse(text, &pool, self.size)).collect::<Result<_, _>>()?;
        if let Some(arrays) = experiment.arrays(self.scale(experiment).is_scaled()).filter(|_| specs.is_empty()) {
            specs = TargetSpec::all(&arrays, &pool)?;
        }
        if specs.is_empty() {
            return Err(TargetError::Usage(
                "nothing to measure: name it with --target, as file:/tmp/x.img, /dev/nvme0n1, an NBD URI, or array:5:4 with --pool".into(),
            ));
        }
        for (at, spec) in specs.iter_mut().enumerate() {
            spec.platform = self.platform.clone();
            if !matches!(spec.kind, TargetKind::Array | TargetKind::Members) {
                spec.level = self.level.clone();
            }
            if !self.hosts.is_empty() && matches!(spec.kind, TargetKind::Array | TargetKind::Members) {
                return Err(TargetError::Usage(format!(
                    "target {}: several hosts measure files, block devices and NBD exports, not arrays made for the run",
                    at + 1
                )));
            }
        }
        Ok(specs)
    }

    /// The scale.
    pub fn scale(&self, experiment: &Experiment) -> Scale {
        Scale::new((self.scaled || experiment.always_scaled).then(|| experiment.scaled.clone()))
    }
}

/// Where a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Section.
    pub section: String,
    /// Stage, round and what runs.
    pub words: String,
    /// Seconds of work done.
    pub done_seconds: f64,
    /// Seconds of work in all, at least.
    pub total_seconds: f64,
}

/// Who is told about the progress.
pub trait Progress {
    /// Some times a second.
    fn at(&mut self, moment: &Moment);
    /// Something worth a line.
    fn say(&mut self, note: &Note);
}

/// Begins a run in a new folder. The manifest when it ended, was interrupted, or failed.
///
/// # Errors
/// When it cannot begin; once it runs, failures are in the manifest and its notes.
pub fn run(
    experiment: &Experiment,
    text: &str,
    mut request: Request,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<Manifest, RunError> {
    let fio = Fio::find()?;
    let scale = request.scale(experiment);
    let specs = request.target_specs(experiment)?;
    for spec in &specs {
        let span = scale.span(spec.size_bytes());
        let all: Vec<Step> = experiment
            .section
            .iter()
            .flat_map(|section| stages(section, span, true, &scale))
            .flat_map(|stage| stage.steps)
            .collect();
        spec.allow(&all, &request.destroy)?;
    }
    let places = specs.iter().flat_map(|spec| match spec.kind {
        TargetKind::File => vec![PathBuf::from(&spec.place)],
        TargetKind::Array | TargetKind::Members if spec.made => spec.drives.clone(),
        TargetKind::Array | TargetKind::Members | TargetKind::Block | TargetKind::Nbd => vec![],
    });
    request.made = places.filter(|path| !path.exists() && request.hosts.is_empty()).collect();
    request.made.sort();
    request.made.dedup();
    let begun_ms = now_ms();
    request.sockets = std::env::temp_dir().join(format!("stria-lab-{}-{begun_ms}", std::process::id()));
    let environment = state::environment();
    let hosts =
        request.hosts.iter().map(|host| (host.clone(), crate::result::Environment { host: host.clone(), ..Default::default() }));
    let manifest = Manifest {
        format: FORMAT,
        id: format!("{}-{begun_ms}", experiment.name),
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        status: RunStatus::Running,
        scaled: scale.words(),
        begun_ms,
        ended_ms: None,
        resumed_ms: Vec::new(),
        program: format!("stria {}", env!("CARGO_PKG_VERSION")),
        fio: fio.version.clone(),
        command: request.command.clone(),
        note: request.note.clone(),
        targets: Vec::new(),
        environment,
        hosts: hosts.collect(),
        sections: specs.iter().flat_map(|target| sections_of(experiment, target)).collect(),
        drives_after: Vec::new(),
    };
    let writer = RunWriter::create(folder, &manifest, text)?;
    save_request(folder, &request)?;
    Runner::new(Begin { experiment, request, writer, manifest, records: Vec::new(), fio, stop, progress })?.go(&specs)
}

/// Goes on with an interrupted run.
///
/// # Errors
/// When the folder holds none, it is done, or it runs.
pub fn resume(folder: &Path, stop: &AtomicBool, progress: &mut dyn Progress) -> Result<Manifest, RunError> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| RunError::Failed(format!("{}: {error}: this is no run folder", path.display())))
    };
    let request: Request =
        serde_json::from_str(&read("request.json")?).map_err(|error| RunError::Failed(format!("request.json: {error}")))?;
    let experiment = request.experiment(Experiment::parse("experiment.toml", &read("experiment.toml")?)?)?;
    let lock = lock(folder)?;
    let (writer, mut run) = RunWriter::resume(folder)?;
    drop(lock);
    if run.manifest.status == RunStatus::Done {
        return Err(RunError::Failed(format!("the run in {} is done: there is nothing to resume", folder.display())));
    }
    end_left_fio(folder);
    for drive in request.destroy.iter().map(Path::new).filter(|path| path.exists()) {
        crate::purge::refuse_busy(drive).map_err(RunError::Failed)?;
    }
    let specs = request.target_specs(&experiment)?;
    run.manifest.status = RunStatus::Running;
    run.manifest.resumed_ms.push(now_ms());
    run.manifest.ended_ms = None;
    let (manifest, records, fio) = (run.manifest, run.records, Fio::find()?);
    Runner::new(Begin { experiment: &experiment, request, writer, manifest, records, fio, stop, progress })?.go(&specs)
}

fn sections_of(experiment: &Experiment, target: &TargetSpec) -> Vec<Section> {
    let section = |(at, spec): (usize, &crate::experiment::SectionSpec)| Section {
        id: plan::section_id(at, spec, target),
        name: spec.name.clone(),
        title: if spec.title.is_empty() { spec.name.clone() } else { spec.title.clone() },
        kind: spec.test,
        target: target.name.clone(),
        purge: None,
        precondition: None,
        rounds: 0,
        steady: None,
        begun_ms: None,
        ended_ms: None,
    };
    experiment.section.iter().enumerate().map(section).collect()
}

fn save_request(folder: &Path, request: &Request) -> Result<(), RunError> {
    let path = folder.join("request.json");
    fs::write(&path, serde_json::to_vec_pretty(request).expect("plain data becomes JSON"))
        .map_err(|source| RunError::Result(ResultError::Io { path, source }))
}

/// One program at a time has a folder.
pub(crate) fn lock(folder: &Path) -> Result<File, RunError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|source| ResultError::Io { path, source })?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| RunError::Failed(format!("the run in {} is going on: wait for it, or interrupt it", folder.display())))?;
    Ok(file)
}

/// Ends a fio that a killed run left behind, if it is still that one.
fn end_left_fio(folder: &Path) {
    for entry in fs::read_dir(folder.join("raw")).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "pid") {
            continue;
        }
        let pid: Option<i32> = fs::read_to_string(&path).ok().and_then(|pid| pid.trim().parse().ok());
        let job = path.with_extension("fio").display().to_string();
        let is_ours =
            |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&job));
        if let Some(pid) = pid.filter(|pid| is_ours(*pid)).and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            while fs::metadata(format!("/proc/{pid}/exe")).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = fs::remove_file(&path);
    }
}

/// Whether a rebuild or scrub had the array for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    Alone,
    UnderLoad,
}

/// Why a section did not come to its end.
enum Broken {
    Interrupted,
    Failed(String),
    Folder(ResultError),
}

impl From<ResultError> for Broken {
    fn from(error: ResultError) -> Self {
        Self::Folder(error)
    }
}

impl From<FioError> for Broken {
    fn from(error: FioError) -> Self {
        match error {
            FioError::Interrupted => Self::Interrupted,
            FioError::Missing(_) | FioError::Failed(_) => Self::Failed(error.to_string()),
        }
    }
}

struct Runner<'a> {
    experiment: &'a Experiment,
    request: Request,
    scale: Scale,
    fio: Fio,
    writer: RunWriter,
    manifest: Manifest,
    records: Vec<Record>,
    stop: &'a AtomicBool,
    progress: &'a mut dyn Progress,
    moment: Moment,
    /// The section that runs.
    section: usize,
    /// Figures that wait for the next record.
    extra: BTreeMap<String, f64>,
    /// When the rebuild or scrub that runs began.
    sweep_begun: Option<(RaidAction, Instant, Company)>,
    /// Where files are copied, while a section does.
    copies: Option<copy::Place>,
    /// Drives on other hosts.
    host_drives: Vec<DriveInfo>,
    _lock: File,
}

/// What a run is begun or gone on with.
struct Begin<'a> {
    experiment: &'a Experiment,
    request: Request,
    writer: RunWriter,
    manifest: Manifest,
    records: Vec<Record>,
    fio: Fio,
    stop: &'a AtomicBool,
    progress: &'a mut dyn Progress,
}

impl<'a> Runner<'a> {
    fn new(begin: Begin<'a>) -> Result<Self, RunError> {
        let Begin { experiment, request, writer, manifest, records, fio, stop, progress } = begin;
        Ok(Self {
            _lock: lock(writer.folder())?,
            scale: request.scale(experiment),
            experiment,
            request,
            fio,
            writer,
            manifest,
            records,
            stop,
            progress,
            moment: Moment::default(),
            section: 0,
            extra: BTreeMap::new(),
            sweep_begun: None,
            copies: None,
            host_drives: Vec::new(),
        })
    }

    fn go(mut self, specs: &[TargetSpec]) -> Result<Manifest, RunError> {
        let busy = self.manifest.environment.busy_percent;
        if busy > BUSY_PERCENT && self.manifest.resumed_ms.is_empty() {
            self.note(NoteKind::Background, None, format!("others used {busy:.0} % of the CPUs just before the run"))?;
        }
        self.ask_hosts(specs)?;
        self.moment.total_seconds = specs.iter().map(|spec| self.seconds_of(spec.size_bytes())).sum();
        let mut ending = Ok(());
        let per_target = self.experiment.section.len();
        for (at, spec) in specs.iter().enumerate() {
            let sections = at * per_target..(at + 1) * per_target;
            if self.manifest.sections[sections.clone()].iter().all(|section| section.ended_ms.is_some()) {
                self.moment.done_seconds += self.seconds_of(spec.size_bytes());
                continue;
            }
            ending = self.target(spec, sections);
            if ending.is_err() {
                break;
            }
        }
        let status = match ending {
            Ok(()) => RunStatus::Done,
            Err(Broken::Interrupted) => RunStatus::Interrupted,
            Err(Broken::Folder(error)) => return Err(error.into()),
            Err(Broken::Failed(words)) => {
                self.note(NoteKind::Error, None, words)?;
                RunStatus::Failed
            }
        };
        let paths: Vec<String> = self
            .manifest
            .targets
            .iter()
            .flat_map(|target| target.drives.iter().map(|drive| drive.path.clone()))
            .filter(|_| self.request.hosts.is_empty())
            .collect();
        let mut after = BTreeMap::new();
        for path in paths {
            after.entry(path.clone()).or_insert_with(|| state::drive_info(Path::new(&path)));
        }
        self.manifest.drives_after = after.into_values().collect();
        self.manifest.status = status;
        self.manifest.ended_ms = Some(now_ms());
        self.writer.save_manifest(&self.manifest)?;
        let _ = fs::remove_dir_all(&self.request.sockets);
        if status == RunStatus::Done && !self.request.keep {
            for path in &self.request.made {
                let _ = fs::remove_file(path);
            }
        }
        Ok(self.manifest)
    }

    /// Seconds that a target takes, at least.
    fn seconds_of(&self, bytes: u64) -> f64 {
        let span = self.scale.span(bytes);
        let stages = self.experiment.section.iter().flat_map(|section| stages(section, span, true, &self.scale));
        let seconds = |stage: Stage| {
            let once: f64 = stage.steps.iter().map(|step| step_cost(step, span, ASSUMED_MB_PER_S).0).sum();
            once * f64::from(stage.rounds_range().0)
        };
        stages.map(seconds).sum()
    }

    fn target(&mut self, spec: &TargetSpec, sections: std::ops::Range<usize>) -> Result<(), Broken> {
        let in_midst = self.manifest.sections[sections.clone()]
            .iter()
            .any(|section| section.begun_ms.is_some() && (section.ended_ms.is_some() || section.kind != SectionKind::Raid));
        let hosts = !self.request.hosts.is_empty();
        let opened =
            Target::open(spec, &self.scale, &self.request.pool(), &self.request.program, &self.request.sockets, in_midst, hosts);
        let mut target = opened.map_err(|error| Broken::Failed(error.to_string()))?;
        if let Some(members) = self.request.members.filter(|_| target.info.members.is_none()) {
            target.info.members = Some(members);
        }
        if hosts {
            target.info.drives.clone_from(&self.host_drives);
        }
        for drive in &mut target.info.drives {
            drive.rated_written_bytes = self.request.rated_bytes;
        }
        if !self.manifest.targets.iter().any(|info| info.name == target.info.name) {
            self.manifest.targets.push(target.info.clone());
        }
        self.wait_for_sweep(&target, "first resync")?;
        let small_blocks = self.fio.takes_512(&target.places[0], &self.request.hosts);
        for at in sections {
            self.section = at;
            if self.manifest.sections[at].ended_ms.is_some() {
                continue;
            }
            let ended = self.run_section(&mut target, small_blocks);
            self.copies = None;
            ended?;
        }
        target.close().map_err(Broken::Failed)
    }

    fn run_section(&mut self, target: &mut Target, small_blocks: bool) -> Result<(), Broken> {
        let experiment = self.experiment;
        let spec = &experiment.section[self.section % experiment.section.len()];
        let id = self.id();
        if spec.test == SectionKind::Raid
            && target.array.as_ref().is_none_or(|array| matches!(array.spec().level.as_str(), "0" | "jbod"))
        {
            let words = format!("{}: not done: {} is no Stria array with redundancy", spec.name, target.info.name);
            self.note(NoteKind::Fallback, None, words)?;
            self.manifest.sections[self.section].ended_ms = Some(now_ms());
            return Ok(());
        }
        if self.manifest.sections[self.section].begun_ms.is_none() {
            self.manifest.sections[self.section].begun_ms = Some(now_ms());
        } else if spec.test == SectionKind::Raid {
            self.records.retain(|record| record.section != id);
            self.writer.rewrite_records(&self.records)?;
        }
        self.writer.save_manifest(&self.manifest)?;
        let needs_small = !matches!(
            spec.test,
            SectionKind::Xsr | SectionKind::Hir | SectionKind::Wsat | SectionKind::Throughput | SectionKind::Dirth
        );
        if !small_blocks && needs_small && stages(spec, 1 << 30, true, &self.scale) != stages(spec, 1 << 30, false, &self.scale) {
            self.note(NoteKind::Fallback, None, "requests under 4 KiB are left out: this target does not take them".into())?;
        }
        let mut base = 0;
        for stage in stages(spec, target.info.span_bytes, small_blocks, &self.scale) {
            self.stage(&stage, base, target)?;
            base += stage.steps.len() as u32;
        }
        self.manifest.sections[self.section].ended_ms = Some(now_ms());
        self.writer.save_manifest(&self.manifest)?;
        Ok(())
    }

    fn id(&self) -> String {
        self.manifest.sections[self.section].id.clone()
    }

    /// Records of this section's steps from `base` on, of this machine or of all hosts together.
    fn records_of(&self, from: u32, to: u32) -> impl Iterator<Item = &Record> {
        let id = &self.manifest.sections[self.section].id;
        let whole = |record: &&Record| self.request.hosts.len() < 2 || record.host == "all";
        self.records.iter().filter(move |record| &record.section == id && (from..to).contains(&record.step)).filter(whole)
    }

    fn stage(&mut self, stage: &Stage, base: u32, target: &mut Target) -> Result<(), Broken> {
        let end = base + stage.steps.len() as u32;
        let before = self.moment.done_seconds;
        let once: f64 = stage.steps.iter().map(|step| step_cost(step, target.info.span_bytes, ASSUMED_MB_PER_S).0).sum();
        let fewest = stage.rounds_range().0;
        let whole = before + once * f64::from(fewest);
        if self.records_of(end, u32::MAX).next().is_none() {
            match &stage.rounds {
                Rounds::Times(times) => {
                    for round in 1..=*times {
                        self.round(stage, base, round, *times, target)?;
                        self.moment.done_seconds = before + once * f64::from(round);
                    }
                }
                Rounds::WhileSweep(most) => {
                    let mut round = 0;
                    while round < *most && self.sweep_runs(target) {
                        round += 1;
                        self.round(stage, base, round, *most, target)?;
                    }
                }
                Rounds::UntilSteady { step, metric, tracked, rounds_max, stride, bytes_max } => {
                    let tracker = Tracker {
                        tracked: tracked.clone(),
                        unit: metric.unit().into(),
                        rounds_max: *rounds_max,
                        stride: *stride,
                    };
                    self.drop_broken_round(stage, base, end)?;
                    loop {
                        let tracked_step = base + *step as u32;
                        let values: Vec<f64> =
                            self.records_of(tracked_step, tracked_step + 1).map(|record| metric.of(record)).collect();
                        let written: u64 =
                            self.records_of(base, end).filter_map(|record| record.write.as_ref()).map(|write| write.bytes).sum();
                        let rounds = values.len() as u32;
                        let now = verdict(&values, &tracker);
                        let full = bytes_max.is_some_and(|most| written >= most);
                        if now.as_ref().is_some_and(|now| now.reached) || rounds >= *rounds_max || full {
                            let words = match &now {
                                Some(now) if now.reached => {
                                    format!("{tracked} are steady after {rounds} rounds: mean {:.6} {}", now.mean, now.unit)
                                }
                                _ if full => {
                                    format!("{tracked} are not steady after {} written in {rounds} rounds", show_size(written))
                                }
                                _ => format!("{tracked} are not steady after {rounds} rounds, which is the limit"),
                            };
                            self.note(NoteKind::Verdict, None, words)?;
                            let is_result = stage.steps.iter().filter_map(Step::load).any(|load| !load.preparation);
                            let section = &mut self.manifest.sections[self.section];
                            let now = now.map(|now| SteadyVerdict { steps: Some((base, end)), ..now });
                            // What was not steady in one part is not made good by another.
                            section.steady = match (section.steady.take(), now) {
                                (Some(old), Some(now)) if !old.reached && is_result => {
                                    let tracked = format!("{}, after a preparation that was not steady", now.tracked);
                                    Some(SteadyVerdict { reached: false, tracked, ..now })
                                }
                                (Some(old), _) if !old.reached => Some(old),
                                (_, now) => now,
                            };
                            break;
                        }
                        self.round(stage, base, rounds + 1, *rounds_max, target)?;
                        self.moment.done_seconds = (before + once * f64::from(rounds + 1)).min(whole);
                    }
                }
            }
        }
        let rounds =
            self.records_of(base, end).filter(|record| !record.preparation).map(|record| record.round).max().unwrap_or(0);
        let section = &mut self.manifest.sections[self.section];
        section.rounds = section.rounds.max(rounds);
        self.moment.done_seconds = whole;
        self.writer.save_manifest(&self.manifest)?;
        Ok(())
    }

    /// A round that was broken off does not count.
    fn drop_broken_round(&mut self, stage: &Stage, base: u32, end: u32) -> Result<(), Broken> {
        let measured = stage.steps.iter().filter(|step| step.load().is_some()).count();
        let last = self.records_of(base, end).map(|record| record.round).max().unwrap_or(0);
        let there = self.records_of(base, end).filter(|record| record.round == last).count();
        if last > 0 && there < measured {
            let id = self.id();
            self.records.retain(|record| record.section != id || record.round != last || !(base..end).contains(&record.step));
            self.writer.rewrite_records(&self.records)?;
            self.note(NoteKind::Step, None, format!("round {last} was broken off and is measured again as a whole"))?;
        }
        Ok(())
    }

    fn round(&mut self, stage: &Stage, base: u32, round: u32, of: u32, target: &mut Target) -> Result<(), Broken> {
        let begun = self.moment.done_seconds;
        let mut before = 0.0;
        for (at, step) in stage.steps.iter().enumerate() {
            self.moment.done_seconds = begun + before;
            before += step_cost(step, target.info.span_bytes, ASSUMED_MB_PER_S).0;
            let number = base + at as u32;
            let done = |from, to| self.records_of(from, to).any(|record| record.round == round);
            // What leaves no record was done if something after it was.
            if done(number, base + stage.steps.len() as u32)
                && (!matches!(step, Step::Load(_) | Step::Fill { .. } | Step::Demand(..) | Step::Copy(_))
                    || done(number, number + 1))
            {
                continue;
            }
            let many = if of > 1 { format!(", round {round} of {of}") } else { String::new() };
            self.moment.section = self.id();
            self.moment.words = format!("{}{many}: {}", stage.title, words_of(step));
            self.progress.at(&self.moment);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Interrupted);
            }
            self.step(step, number, round, target)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, number: u32, round: u32, target: &mut Target) -> Result<(), Broken> {
        match step {
            Step::Purge => self.purge(target),
            Step::Fill { fills, block_bytes, pattern } => {
                let order = if *pattern == Pattern::Random { "random" } else { "sequential" };
                let words = format!(
                    "{order} {} writes, {fills} times the span of {}",
                    show_size(*block_bytes),
                    show_size(target.info.span_bytes)
                );
                let precondition = &mut self.manifest.sections[self.section].precondition;
                *precondition = Some(match precondition.take() {
                    Some(before) if !before.contains(&words) => format!("{before}; then {words}"),
                    _ => words,
                });
                let load = Load {
                    queue_depth: 32,
                    preparation: true,
                    variant: "fill".into(),
                    drive_state: DriveState::Used,
                    ..Load::new(*pattern, *block_bytes, 0, 0.0)
                };
                let work = Work::Fill { fills: *fills, block_bytes: *block_bytes, pattern: *pattern, zeros: false };
                self.measure(&load, work, number, round, target, None)
            }
            Step::Load(load) => self.measure(load, Work::Load(load), number, round, target, None),
            Step::LoadDuring(load, action) => self.measure(load, Work::Load(load), number, round, target, Some(*action)),
            Step::Demand(demand, load) => {
                let matrix: Vec<&Record> = self.records_of(0, number).filter(|record| !record.preparation).collect();
                let (threads, queue_depth) = demand.choose(&matrix);
                let load = Load { threads, queue_depth, ..load.clone() };
                self.measure(&load, Work::Load(&load), number, round, target, None)
            }
            Step::Raid(action) => self.act(*action, target),
            Step::WaitForSweep => self.wait_for_sweep(target, "sweep"),
            Step::Idle { seconds } => self.sleep(*seconds),
            Step::Trim => self.trim(target),
            Step::Copy(set) => self.copy(set, number, round, target),
        }
    }

    fn sleep(&mut self, seconds: f64) -> Result<(), Broken> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Interrupted);
            }
            self.progress.at(&self.moment);
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }

    fn note(&mut self, kind: NoteKind, record: Option<u32>, text: String) -> Result<(), ResultError> {
        let section = self.manifest.sections.get(self.section).filter(|section| section.begun_ms.is_some());
        let note =
            Note { at_ms: now_ms(), section: section.map_or(String::new(), |section| section.id.clone()), record, kind, text };
        self.progress.say(&note);
        self.writer.note(&note)
    }
}

fn words_of(step: &Step) -> String {
    match step {
        Step::Purge => "purge".into(),
        Step::Fill { fills, pattern, .. } => {
            format!("writing {fills} x the span, {}", if *pattern == Pattern::Random { "randomly" } else { "in order" })
        }
        Step::Load(load) | Step::Demand(_, load) | Step::LoadDuring(load, _) => load_words(load),
        Step::Raid(RaidAction::Fail) => "a member fails".into(),
        Step::Raid(RaidAction::Refill) => "a rebuild begins".into(),
        Step::Raid(RaidAction::Scrub) => "a scrub begins".into(),
        Step::WaitForSweep => "waiting for rebuild or scrub".into(),
        Step::Idle { seconds } => format!("idle for {}", show_seconds(*seconds)),
        Step::Trim => "trim".into(),
        Step::Copy(set) => format!("copying {}", set.name),
    }
}

fn load_words(load: &Load) -> String {
    let order = if load.pattern == Pattern::Random { "random" } else { "sequential" };
    let what = load.mix.as_ref().map_or_else(|| show_size(load.block_bytes), |mix| mix.name.clone());
    format!("{order} {what}, {} % reads, {} threads x {}", load.read_percent, load.threads, load.queue_depth)
}
