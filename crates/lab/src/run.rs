//! Runs an experiment and keeps what it measures; takes up again what was interrupted.
//!
//! The order is target by target, and section by section on each. What is done is known from the records alone: a step whose
//! record is there is not done again. A round that counts towards a steady state is done again as a whole, because SNIA allows
//! no idle gap in it; so is a section of RAID runs, because its array was in the midst of something.

mod copy;
mod lock;
mod measure;
mod prepare;
mod raid;
mod replay;
mod request;
mod rounds;
mod step;

use crate::experiment::{Experiment, Prepare, SchemaError};
use crate::fio::{Fio, FioError, Host};
use crate::import;
use crate::md;
use crate::plan::{self, RaidAction, Scale, Stage, Step, stages, stages_apart, step_cost};
use crate::result::{
    DriveInfo, Environment, FORMAT, Manifest, Note, NoteKind, Record, ResultError, Run, RunStatus, RunWriter, Section,
    SectionKind, TargetKind, now_ms,
};
use crate::state;
use crate::target::{self, Target, TargetError, TargetSpec};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use lock::end_left_fio;
pub(crate) use lock::lock;
pub use request::Request;

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
        // What the target is on another host is not known here: it is named as --host does.
        let elsewhere = request.hosts.iter().filter(|host| host.place.is_some() && all.iter().any(plan::destroys));
        if let Some(host) = elsewhere.map(ToString::to_string).find(|host| !request.destroy.contains(host)) {
            return Err(TargetError::Unsafe(target::would_overwrite(&host)).into());
        }
    }
    let places = specs.iter().flat_map(|spec| match spec.kind {
        TargetKind::File => vec![PathBuf::from(&spec.place)],
        TargetKind::Array | TargetKind::Members if spec.made => spec.drives.clone(),
        TargetKind::Array | TargetKind::Md | TargetKind::Members | TargetKind::Block | TargetKind::Nbd => vec![],
    });
    request.made = places.filter(|path| !path.exists() && request.hosts.is_empty()).collect();
    request.made.sort();
    request.made.dedup();
    let begun_ms = now_ms();
    request.sockets = std::env::temp_dir().join(format!("stria-lab-{}-{begun_ms}", std::process::id()));
    let environment = state::environment();
    let hosts =
        request.hosts.iter().map(|Host { name, .. }| (name.clone(), Environment { host: name.clone(), ..Default::default() }));
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
    request.save(folder)?;
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
    if Run::open(folder).is_ok_and(|run| run.manifest.experiment == import::EXPERIMENT) {
        return Err(RunError::Failed(format!(
            "{} holds results that fio wrote and stria lab import read: nothing was run here, so nothing can go on; measure with stria \
             lab run, or import what fio wrote since into a new folder",
            folder.display()
        )));
    }
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
    md::stop_left(Path::new("mdadm"), &request.sockets);
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
        let at = self.section % experiment.section.len();
        let spec = &experiment.section[at];
        let id = self.id();
        if spec.test == SectionKind::Raid
            && target.array.as_ref().is_none_or(|array| matches!(array.spec().level.as_str(), "0" | "jbod"))
        {
            let words = format!("{}: not done: {} is no Stria array with redundancy", spec.name, target.info.name);
            self.note(NoteKind::Fallback, None, words)?;
            self.manifest.sections[self.section].ended_ms = Some(now_ms());
            return Ok(());
        }
        if spec.test == SectionKind::Replay && target.places.len() > 1 {
            self.note(NoteKind::Step, None, format!("{}: not done: {} are not one target", spec.name, target.info.name))?;
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
        if spec.state == Prepare::AsFound && matches!(spec.test, SectionKind::Sweep | SectionKind::Replay) {
            self.fill_new_file(target)?;
        }
        let planned = |small_blocks| stages_apart(experiment, at, target.info.span_bytes, small_blocks, &self.scale);
        let stages = planned(small_blocks);
        if stages != planned(true) {
            self.note(NoteKind::Fallback, None, "requests under 4 KiB are left out: this target does not take them".into())?;
        }
        let mut base = 0;
        for stage in stages {
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

    fn note(&mut self, kind: NoteKind, record: Option<u32>, text: String) -> Result<(), ResultError> {
        let section = self.manifest.sections.get(self.section).filter(|section| section.begun_ms.is_some());
        let note =
            Note { at_ms: now_ms(), section: section.map_or(String::new(), |section| section.id.clone()), record, kind, text };
        self.progress.say(&note);
        self.writer.note(&note)
    }
}
