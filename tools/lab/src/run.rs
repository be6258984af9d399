//! Runs an experiment and stores its measurements; resumes an interrupted run.
//!
//! The order is target by target, and section by section on each. The records alone show which steps are done: a step with a
//! record is not repeated. A section whose series of rounds was not steady yet is repeated from its preparation, because SNIA
//! allows no idle gap in it; so is a section of RAID runs, because its array was in the middle of a change, and one whose target
//! is not the same any more.
//!
//! A failed load is not a result; a failed preparation ends its section. The run continues after them and ends "with failures".

mod before;
mod copy;
mod lock;
mod measure;
mod modelled;
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
use crate::own::Own;
use crate::plan::{self, stages, stages_apart};
use crate::result::{
    DriveInfo, Environment, FORMAT, Manifest, Note, NoteKind, Point, Record, ResultError, Run, RunStatus, RunWriter, Section,
    SectionKind, inside, now_ms,
};
use crate::select;
use crate::stage::{RaidAction, Scale, Stage, step_cost};
use crate::state;
use crate::target::{Opening, Target, TargetError, TargetSpec};
use crate::target_lock::Held;
use crate::units::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub(crate) use lock::lock;
pub use request::{Consent, Request};

use before::Server;

/// Assumed speed for the remaining time until a speed is known, MB/s.
const ASSUMED_MB_PER_S: f64 = 500.0;
/// Load of other programs, in percent of the CPUs, that is worth a note.
const BUSY_PERCENT: f64 = 20.0;

/// The reason why a run did not begin or continue.
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

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Section.
    pub section: String,
    /// Stage, round and load.
    pub words: String,
    /// Seconds of work done.
    pub done_seconds: f64,
    /// Seconds of work in total, at least.
    pub total_seconds: f64,
    /// True if models work: these seconds are of their virtual time, of which thousands take one.
    pub is_virtual: bool,
}

/// Receives the progress.
pub trait Progress {
    /// Called several times a second.
    fn at(&mut self, moment: &Moment);
    /// A line for the log.
    fn say(&mut self, note: &Note);
}

/// Begins a run in a new folder. Returns the manifest when the run has ended, was interrupted, or failed.
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
    let scale = request.scale(experiment);
    let specs = request.target_specs(experiment)?;
    let fio = fio_for(&specs)?;
    before::refuse(experiment, &request, &specs, None)?;
    Own::refuse_no_place().map_err(RunError::Failed)?;
    let mut held = Held::default();
    before::hold(&mut held, &specs, &request, Server::None)?;
    let begun_ms = now_ms();
    request.begun_in = std::env::current_dir().unwrap_or_default();
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
    let asked: Vec<PathBuf> = specs.iter().flat_map(TargetSpec::files).collect();
    let own = Own::create(folder, &asked)?;
    Runner::new(Begin { experiment, request, writer, manifest, records: Vec::new(), fio, stop, progress, own, held })?.go(&specs)
}

/// Continues an interrupted run, or repeats its failed measurements. Its folder is not trusted: it overwrites, starts and
/// contacts only with the user's `consent`, or on files that this run created.
///
/// # Errors
/// When the folder has no run, the run is done or still running, or more options are needed.
pub fn resume(folder: &Path, consent: &Consent, stop: &AtomicBool, progress: &mut dyn Progress) -> Result<Manifest, RunError> {
    let place = folder.display();
    if Run::open(folder)?.manifest.experiment == import::EXPERIMENT {
        return Err(RunError::Failed(format!(
            "{place} holds results that fio wrote and stria lab import read: there is no run to continue; measure with \
             stria lab run, or import newer results of fio into a new folder"
        )));
    }
    let request = Request::read(folder, consent)?;
    let text = String::from_utf8_lossy(&inside::read(folder, "experiment.toml", 1 << 20)?).into_owned();
    let experiment = request.experiment(Experiment::parse("experiment.toml", &text)?)?;
    let specs = request.target_specs(&experiment)?;
    let expected: Vec<Section> = specs.iter().flat_map(|target| sections_of(&experiment, target)).collect();
    let lock = lock(folder)?;
    let (writer, mut run) = RunWriter::resume(folder)?;
    drop(lock);
    if run.manifest.status == RunStatus::Done {
        return Err(RunError::Failed(format!("the run in {place} is done: there is nothing to resume")));
    }
    let ids = |sections: &[Section]| sections.iter().map(|section| section.id.clone()).collect::<Vec<_>>();
    if ids(&run.manifest.sections) != ids(&expected) {
        return Err(RunError::Failed(format!(
            "{place}: the sections of manifest.json are not those of experiment.toml on its targets"
        )));
    }
    let own = Own::find(folder)?;
    // A fio that was left behind uses the drives of an array, which count as in use until it has ended.
    own.end_left_fio().map_err(RunError::Failed)?;
    crate::array::stop_left(&request.program, own.folder());
    md::stop_left(Path::new("mdadm"), own.folder());
    let names: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().take(8).collect();
    progress.say(&Note {
        at_ms: now_ms(),
        section: String::new(),
        record: None,
        kind: NoteKind::Step,
        text: format!("continues with \"{}\" on {}", experiment.name, names.join(", ")),
    });
    let allowed = before::refuse(&experiment, &request, &specs, Some(&own));
    let mut held = Held::default();
    let allowed = allowed.and_then(|()| Ok(before::hold(&mut held, &specs, &request, Server::None)?));
    if let Err(error) = allowed {
        // Files of an earlier run are found again next time; a new folder has none.
        own.remove_if_empty();
        return Err(error);
    }
    let again = measure_again(&mut run.manifest, &mut run.records);
    if again {
        writer.rewrite_records(&run.records)?;
    }
    run.manifest.status = RunStatus::Running;
    run.manifest.resumed_ms.push(now_ms());
    run.manifest.ended_ms = None;
    let (manifest, records, fio) = (run.manifest, run.records, fio_for(&specs)?);
    Runner::new(Begin { experiment: &experiment, request, writer, manifest, records, fio, stop, progress, own, held })?.go(&specs)
}

/// Models need no fio.
fn fio_for(specs: &[TargetSpec]) -> Result<Fio, FioError> {
    if specs.iter().all(|spec| spec.model.is_some()) { Ok(Fio::unused()) } else { Fio::find() }
}

/// Abandoned sections begin again, and loads without a result count as not done.
fn measure_again(manifest: &mut Manifest, records: &mut Vec<Record>) -> bool {
    let count = records.len();
    for section in &mut manifest.sections {
        let before = records.len();
        let all_again = section.failed.take().is_some();
        records.retain(|record| record.section != section.id || !all_again && record.failed.is_none());
        let void = records.len() < before;
        if all_again || void {
            (section.ended_ms, section.steady) = (None, section.steady.take().filter(|_| !all_again));
            if all_again {
                section.steady_before.clear();
            }
        }
        if all_again {
            section.begun_ms = None;
        }
    }
    records.len() < count
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
        steady_before: Vec::new(),
        failed: None,
        begun_ms: None,
        ended_ms: None,
    };
    experiment.section.iter().enumerate().map(section).collect()
}

/// A rebuild or scrub that runs.
#[derive(Clone, Copy, Debug)]
struct SweepBegun {
    action: RaidAction,
    begun: Instant,
    /// The record under whose load it began, which gets its duration; none if it runs without load.
    under: Option<u32>,
}

/// The reason why a section did not finish.
enum Broken {
    Interrupted,
    /// It is abandoned; the run continues with the next.
    Section(String),
    /// The run cannot continue.
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
            FioError::Failed(words) => Self::Section(words),
            FioError::Missing(_) | FioError::Hangs(_) => Self::Failed(error.to_string()),
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
    /// The present rebuild or scrub.
    sweep_begun: Option<SweepBegun>,
    /// The place in which a section copies files.
    copies: Option<copy::CopyFolder>,
    /// Drives on other hosts.
    host_drives: Vec<DriveInfo>,
    /// Files that it created outside of its folder.
    own: Own,
    /// Its targets, as long as it runs.
    held: Held,
    _lock: File,
}

/// The inputs of a run that begins or continues.
struct Begin<'a> {
    experiment: &'a Experiment,
    request: Request,
    writer: RunWriter,
    manifest: Manifest,
    records: Vec<Record>,
    fio: Fio,
    stop: &'a AtomicBool,
    progress: &'a mut dyn Progress,
    own: Own,
    held: Held,
}

impl<'a> Runner<'a> {
    fn new(begin: Begin<'a>) -> Result<Self, RunError> {
        let Begin { experiment, request, writer, manifest, records, fio, stop, progress, own, held } = begin;
        Ok(Self {
            _lock: lock(writer.folder())?,
            held,
            own,
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
        self.moment.is_virtual = specs.iter().all(|spec| spec.model.is_some());
        let busy = self.manifest.environment.busy_percent;
        if busy > BUSY_PERCENT && !self.moment.is_virtual && self.manifest.resumed_ms.is_empty() {
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
            Ok(()) if self.report_failures()? => RunStatus::WithFailures,
            Ok(()) => RunStatus::Done,
            Err(Broken::Interrupted) => RunStatus::Interrupted,
            Err(Broken::Folder(error)) => return Err(error.into()),
            Err(Broken::Failed(words) | Broken::Section(words)) => {
                self.note(NoteKind::Error, None, words)?;
                RunStatus::Failed
            }
        };
        let paths: Vec<String> = self
            .manifest
            .targets
            .iter()
            .flat_map(|target| target.drives.iter().map(|drive| drive.path.clone()))
            .filter(|path| self.request.hosts.is_empty() && !path.starts_with("model:"))
            .collect();
        let mut after = BTreeMap::new();
        for path in paths {
            after.entry(path.clone()).or_insert_with(|| state::drive_info(Path::new(&path)));
        }
        self.manifest.drives_after = after.into_values().collect();
        self.manifest.status = status;
        self.manifest.ended_ms = Some(now_ms());
        self.writer.save_manifest(&self.manifest)?;
        // A run that can be resumed still needs its files.
        if status == RunStatus::Done {
            if !self.request.keep {
                self.own.remove_made();
            }
            self.own.remove();
        }
        Ok(self.manifest)
    }

    /// Reports loads without any result. True if there are any, or a section was abandoned.
    fn report_failures(&mut self) -> Result<bool, ResultError> {
        let mut points: BTreeMap<Point, (u32, Option<String>)> = BTreeMap::new();
        for record in self.records.iter().filter(|record| !record.preparation) {
            let (count, failed) = points.entry(record.point.clone()).or_insert_with(|| (0, Some(String::new())));
            *count += 1;
            *failed = failed.take().and(record.failed.clone());
        }
        let mut any = self.manifest.sections.iter().any(|section| section.failed.is_some());
        for (point, (count, failed)) in points {
            let Some(words) = failed else { continue };
            any = true;
            let tries = counted(count, "measurement", "measurements");
            let words = format!("{}: {}: no result of {tries}: {words}", point.target, select::load(&point));
            self.section = usize::MAX;
            self.note(NoteKind::Error, None, words)?;
        }
        Ok(any)
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
        let failed = |error: TargetError| Broken::Failed(error.to_string());
        // The server of an array on the same files has ended.
        let held = before::hold(&mut self.held, std::slice::from_ref(spec), &self.request, Server::None);
        held.map_err(failed)?;
        // Hours may have passed since the run began: files have appeared, devices have been mounted.
        before::allowed(self.experiment, &self.request, spec, Some(&self.own)).map_err(failed)?;
        let opening = Opening {
            scale: &self.scale,
            pool: &self.request.pool(),
            program: &self.request.program,
            own: &mut self.own,
            held: &mut self.held,
            made_before: in_midst,
            site: self.request.site(),
        };
        let mut target = Target::open(spec, opening).map_err(failed)?;
        // Including files that were just created.
        let held = before::hold(&mut self.held, std::slice::from_ref(spec), &self.request, Server::Runs);
        held.map_err(failed)?;
        if target.is_lost {
            self.begin_again(sections.clone())?;
        }
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
        let small_blocks = target.model.is_some() || self.fio.takes_512(&target.places[0], &self.request.hosts);
        for at in sections {
            self.section = at;
            if self.manifest.sections[at].ended_ms.is_some() {
                continue;
            }
            let ended = self.run_section(spec, &mut target, small_blocks);
            self.copies = None;
            match ended {
                Err(Broken::Section(words)) => self.give_up(words)?,
                ended => ended?,
            }
        }
        target.close().map_err(Broken::Failed)
    }

    /// Sections that were not finished lost the state of their target: they are prepared and measured again.
    fn begin_again(&mut self, sections: std::ops::Range<usize>) -> Result<(), ResultError> {
        for at in sections {
            let section = &self.manifest.sections[at];
            if section.begun_ms.is_some() && section.ended_ms.is_none() {
                let words = format!("{} begins again: {} is not the one that it began on", section.title, section.target);
                self.section = at;
                self.forget_section()?;
                self.note(NoteKind::Fallback, None, words)?;
            }
        }
        Ok(())
    }

    /// Nothing of the section that runs counts any more.
    fn forget_section(&mut self) -> Result<(), ResultError> {
        let section = &mut self.manifest.sections[self.section];
        (section.purge, section.precondition, section.steady, section.rounds) = (None, None, None, 0);
        section.steady_before.clear();
        let id = section.id.clone();
        self.records.retain(|record| record.section != id);
        self.writer.rewrite_records(&self.records)
    }

    /// The section that runs ends here.
    fn give_up(&mut self, words: String) -> Result<(), ResultError> {
        let title = self.manifest.sections[self.section].title.clone();
        self.note(NoteKind::Error, None, format!("{title} was given up: {words}"))?;
        let section = &mut self.manifest.sections[self.section];
        (section.failed, section.ended_ms) = (Some(words), Some(now_ms()));
        (self.sweep_begun, self.extra) = (None, BTreeMap::new());
        self.writer.save_manifest(&self.manifest)
    }

    fn run_section(&mut self, on: &TargetSpec, target: &mut Target, small_blocks: bool) -> Result<(), Broken> {
        let experiment = self.experiment;
        let at = self.section % experiment.section.len();
        let spec = &experiment.section[at];
        let id = self.id();
        if let Some(why) = before::unfit(spec, on, &self.request) {
            self.note(NoteKind::Step, None, format!("{}: not done: {why}", spec.name))?;
            self.manifest.sections[self.section].ended_ms = Some(now_ms());
            return Ok(());
        }
        if self.manifest.sections[self.section].begun_ms.is_none() {
            self.manifest.sections[self.section].begun_ms = Some(now_ms());
        } else if spec.test == SectionKind::Raid || target.model.is_some() {
            // The state of models ended with the program.
            self.forget_section()?;
        }
        self.writer.save_manifest(&self.manifest)?;
        if let Some(model) = &target.model {
            model.purge();
        } else if spec.state == Prepare::AsFound && matches!(spec.test, SectionKind::Sweep | SectionKind::Replay) {
            self.fill_new_file(target)?;
        }
        let planned = |small_blocks| stages_apart(experiment, at, target.info.span_bytes, small_blocks, &self.scale);
        let stages = planned(small_blocks);
        if stages != planned(true) {
            self.note(NoteKind::Fallback, None, "requests under 4 KiB are left out: this target does not support them".into())?;
        }
        if self.is_series_broken(&stages, target) {
            self.forget_section()?;
            let words = "its series of rounds was interrupted before the steady state: the section begins again".into();
            self.note(NoteKind::Step, None, words)?;
        }
        if self.is_left_behind(&stages, target) {
            self.forget_section()?;
            let words = "an earlier part of it lacks measurements, and the target is not in that state any more: the section begins again";
            self.note(NoteKind::Step, None, words.into())?;
        }
        let mut base = 0;
        for stage in &stages {
            self.stage(stage, base, target)?;
            base += stage.steps.len() as u32;
        }
        if self.records.iter().all(|record| record.section != id || record.preparation) {
            return Err(Broken::Section("none of its loads could be measured here; see the notes before this one".into()));
        }
        let missing = self.missing(&stages, target);
        if missing > 0 {
            let measurements = counted(missing, "planned measurement", "planned measurements");
            return Err(Broken::Section(format!("{measurements} of it are missing; resume the run to repeat it")));
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
        // Notes contain texts from drives, hosts and programs, and are shown on a terminal.
        let text = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let section = self.manifest.sections.get(self.section).filter(|section| section.begun_ms.is_some());
        let note =
            Note { at_ms: now_ms(), section: section.map_or(String::new(), |section| section.id.clone()), record, kind, text };
        self.progress.say(&note);
        self.writer.note(&note)
    }
}
