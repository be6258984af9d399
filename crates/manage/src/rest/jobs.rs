//! Jobs: actions that are carried out on threads of their own, whether or not the client that began them is still there.

use super::auth::{Caller, sha256};
use super::looks::tasks;
use super::machine::Machine;
use super::plans::{Based, assembly, is_harmless, settings_of, spec};
use super::types::{Action, CreateAction, Job, JobState, Plan, Task};
use crate::api::{
    AddRequest, ApiError, ApiErrorKind, ArrayView, Done, EventView, FirmwareRequest, ReplaceRequest, ScrubRequest, SpeedRequest,
    TrimRequest,
};
use crate::config::edit::Edit;
use crate::config::{Block, Uuid};
use crate::meant::{self, cannot_be_read_back, chosen, look};
use crate::ownership::mdadm::{keep_away, refuse_unless_it_follows, refuse_unwritable};
use crate::ownership::{self, Adopted, Terms};
use crate::pool::{self, Changed};
use crate::progress::{Quiet, has_targets, is_given_up, redundant_count, running};
use crate::settings::SettingsRequest;
use crate::system::atomic_file::replace;
use crate::system::clock::now_ms;
use crate::system::mounts::{Source, awaited};
use crate::view::{self, cut};
use crate::wipe::{self, WipeMeans};
use crate::words::error::{ErrorSentence, Told};
use crate::words::event::{Ends, EventSentence, ServiceSentence, told};
use crate::words::result::ResultSentence;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_format::md::Assembly;
use stria_health::Seat;
use stria_host::Overwrite;
use stria_terminal::Failure;

/// Jobs that are remembered.
const KEPT_MAX: usize = 100;
/// Erasures that may run at a time, and jobs of [`Kind::Other`]. Jobs that only follow a sweep do not count.
const RUNNING_MAX: usize = 16;
/// Harmless jobs that may run at a time. They have a bound of their own, because a paused array must be resumed whatever else
/// runs.
const HARMLESS_MAX: usize = 64;
/// Jobs of all kinds that may run at a time, as each has a thread.
const ALL_MAX: usize = 256;
/// The part of an action that the record of its order has, in bytes.
const ACTION_BYTES_MAX: usize = 4096;
/// How often a job that waits for a sweep looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A sweep that is no longer held runs again within this.
const GOES_ON_WITHIN: Duration = Duration::from_secs(3);

/// The last jobs, also those of earlier runs of the daemon.
pub struct Jobs {
    kept: Mutex<Kept>,
    /// Their file.
    path: PathBuf,
    /// The right to write it.
    writing: Mutex<()>,
}

struct Kept {
    jobs: VecDeque<Job>,
    last: u64,
    /// Where the list was read.
    source: Source,
    /// The running jobs that only follow a sweep.
    following: BTreeSet<u64>,
    /// The cancelled jobs that have not ended yet, each with the user's name.
    cancelled: BTreeMap<u64, String>,
}

/// How an action went.
struct Outcome {
    text: String,
    /// The sweeps that it began: the array, the last event before, and their kinds.
    follows: Option<(String, u64, &'static [&'static str])>,
}

/// The end of a job, or what it does now: the text, and its sentences where all of it has some.
struct End {
    text: String,
    said: Option<Vec<EventSentence>>,
}

impl From<String> for End {
    fn from(text: String) -> Self {
        Self { said: told(&text), text }
    }
}

impl From<ApiError> for End {
    fn from(error: ApiError) -> Self {
        match error.said {
            Some(said) => Self { text: error.message, said: Some(vec![(*said).into()]) },
            None => error.message.into(),
        }
    }
}

impl From<Done> for Outcome {
    fn from(done: Done) -> Self {
        Self { text: done.message, follows: None }
    }
}

fn failed(failure: impl Into<Told>) -> ApiError {
    let Told { failure, words } = failure.into();
    let kind = match failure {
        Failure::Usage(_) => ApiErrorKind::Invalid,
        Failure::Unsafe(_) => ApiErrorKind::Unsafe,
        _ => ApiErrorKind::Failed,
    };
    ApiError::new(kind, *words)
}

/// Jobs that share a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A short job, which another action undoes.
    Harmless,
    /// A drive erases itself, which may take hours.
    Erasure,
    Other,
}

impl Kind {
    fn of(action: &Action) -> Self {
        match action {
            Action::Wipe { means, .. } if *means != WipeMeans::Signatures => Self::Erasure,
            action if is_harmless(action) => Self::Harmless,
            _ => Self::Other,
        }
    }
}

impl Kept {
    fn new(source: Source) -> Self {
        Self { jobs: VecDeque::new(), last: 0, source, following: BTreeSet::new(), cancelled: BTreeMap::new() }
    }

    /// Refuses an action for whose kind too many jobs run.
    fn check_place(&self, action: &Action) -> Result<(), ApiError> {
        let kind = Kind::of(action);
        let running: Vec<&Job> = self.jobs.iter().filter(|job| job.state == JobState::Running).collect();
        let alike = running.iter().filter(|job| Kind::of(&job.action) == kind && !self.following.contains(&job.id)).count();
        let (most, too_many) = match kind {
            Kind::Harmless => (HARMLESS_MAX, ErrorSentence::TooManyShortJobs { count: HARMLESS_MAX }),
            Kind::Erasure => (RUNNING_MAX, ErrorSentence::TooManyErasures { count: RUNNING_MAX }),
            Kind::Other => (RUNNING_MAX, ErrorSentence::TooManyJobs { count: RUNNING_MAX }),
        };
        let said = match (alike < most, running.len() < ALL_MAX) {
            (true, true) => return Ok(()),
            (true, false) => ErrorSentence::TooManyJobs { count: ALL_MAX },
            (false, _) => too_many,
        };
        Err(ApiError::new(ApiErrorKind::TooMany, said))
    }

    fn add_earlier(&mut self, jobs: VecDeque<Job>) {
        for mut job in jobs.into_iter().rev() {
            // The file system was unmounted meanwhile, and is mounted again.
            if self.jobs.iter().any(|other| other.started_ms == job.started_ms && other.title == job.title) {
                continue;
            }
            if job.state == JobState::Running {
                (job.state, job.task, job.ended_ms) = (JobState::Failed, None, Some(now_ms()));
                let said = after_a_restart(&job.action);
                (job.text, job.ends) = (said.to_string(), Some(vec![said.into()]));
            }
            // A file system that nobody announced was mounted after jobs of this run had their numbers.
            if self.jobs.iter().any(|other| other.id == job.id) {
                job.id = self.last + 1;
            }
            self.last = self.last.max(job.id);
            self.jobs.push_front(job);
        }
    }
}

fn load(file: &Path) -> VecDeque<Job> {
    match fs::read(file).and_then(|text| Ok(serde_json::from_slice::<VecDeque<serde_json::Value>>(&text)?)) {
        // A job of another version, with an action that is unknown here, is left out.
        Ok(jobs) => jobs.into_iter().filter_map(|job| serde_json::from_value(job).ok()).collect(),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("{} cannot be read ({error}): the list of jobs begins anew", file.display());
            }
            VecDeque::new()
        }
    }
}

impl Jobs {
    /// Reads the jobs of earlier runs. One that ran when the daemon ended counts as failed, as nobody saw its end.
    pub fn open(folder: &Path) -> Self {
        let file = folder.join("jobs.json");
        let mut kept = Kept::new(Source::of(folder));
        if kept.source == Source::Awaited {
            // Above all numbers of the list that is yet to be read.
            kept.last = now_ms() / 1000;
        } else {
            kept.add_earlier(load(&file));
        }
        Self { kept: Mutex::new(kept), path: file, writing: Mutex::default() }
    }

    /// Writes the jobs to their file, unless its file system is yet to be mounted.
    fn save(&self) {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.path.parent().expect("it is in a folder");
        let jobs = {
            let kept = self.lock();
            if kept.source == Source::Awaited || awaited(folder).is_some() {
                return;
            }
            kept.jobs.clone()
        };
        let text = serde_json::to_string_pretty(&jobs).expect("jobs are plain data");
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(|error| error.to_string());
        let written = made.and_then(|()| replace(&self.path, &(text + "\n")).map_err(|failure| failure.to_string()));
        if let Err(error) = written {
            tracing::warn!("the list of jobs cannot be written, so a restart loses it: {error}");
        }
    }

    /// The jobs. Those of a file system that is mounted later are added then, before any are written there.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.path.parent().expect("it is in a folder");
        if kept.source.follow(Source::of(folder)) {
            kept.add_earlier(load(&self.path));
        }
        kept
    }

    /// All that are remembered, the newest last.
    pub fn all(&self) -> Vec<Job> {
        self.lock().jobs.iter().cloned().collect()
    }

    /// One of them.
    pub fn job(&self, id: u64) -> Option<Job> {
        self.lock().jobs.iter().find(|job| job.id == id).cloned()
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.lock().jobs.iter_mut().find(|job| job.id == id) {
            change(job);
        }
    }

    /// Begins a job.
    ///
    /// # Errors
    /// When too many run.
    pub fn begin(self: &Arc<Self>, machine: &Arc<Machine>, based: Based, caller: &Caller) -> Result<Job, ApiError> {
        let plan = &based.plan;
        let mut kept = self.lock();
        kept.check_place(&plan.action)?;
        kept.last += 1;
        let job = Job {
            id: kept.last,
            action: plan.action.clone(),
            title: plan.title.clone(),
            said: Some(plan.said.title.clone()),
            by: caller.shown(),
            state: JobState::Running,
            text: "it has begun".into(),
            ends: None,
            task: None,
            started_ms: now_ms(),
            ended_ms: None,
        };
        if kept.jobs.len() >= KEPT_MAX
            && let Some(oldest) = kept.jobs.iter().position(|job| job.state != JobState::Running)
        {
            kept.jobs.remove(oldest);
        }
        kept.jobs.push_back(job.clone());
        drop(kept);
        self.save();
        // Before the work, which may end this process: a plan's token alone would not say what was ordered.
        let action = serde_json::to_string(&job.action).expect("an action is plain data");
        let (by, title, action) = (job.by.clone(), plan.said.title.clone(), cut(&action, ACTION_BYTES_MAX).to_owned());
        let said = ServiceSentence::JobOrdered { by, job: job.id, title, action };
        machine.service.events().push(view::said_event(job.action.array().unwrap_or_default(), "ordered", said));
        let (jobs, machine, id) = (Arc::clone(self), Arc::clone(machine), job.id);
        let spawned = std::thread::Builder::new().name("job".into()).spawn(move || jobs.run(&machine, id, &based));
        if let Err(error) = spawned {
            let said = ErrorSentence::NoThread { reason: error.to_string() };
            self.change(job.id, |job| {
                (job.state, job.text, job.ends) = (JobState::Failed, said.to_string(), Some(vec![said.clone().into()]));
            });
            self.save();
            return Err(ApiError::new(ApiErrorKind::Failed, said));
        }
        Ok(job)
    }

    /// Cancels a job whose work can end early. The job has ended when its state says so.
    ///
    /// # Errors
    /// When there is no such job, it has ended, or its work cannot be cancelled.
    pub fn cancel(&self, machine: &Machine, id: u64, caller: &Caller) -> Result<String, ApiError> {
        let refused = |text: String| ApiError::new(ApiErrorKind::Refused, text);
        let job = self.job(id).ok_or_else(|| no_job(&id.to_string()))?;
        if job.state != JobState::Running {
            return Err(refused(format!("job {id} has ended already: {}", job.text)));
        }
        let ends_early = match &job.action {
            Action::Scrub { .. } | Action::Trim { .. } => Ok(()),
            Action::Add { .. } => Err("its rebuild restores redundancy: `pause` holds it, and `fail` gives the new drive up"),
            Action::Replace { .. } => {
                Err("its copy is held by `pause`; `fail` of the new drive gives it up, and the old drive stays")
            }
            Action::Wipe { means: WipeMeans::Discard, .. } => {
                Err("the signatures are erased, so the drives are of no use until it ends")
            }
            Action::Wipe { means: WipeMeans::SecureErase, .. } => {
                Err("the drive erases itself by one command, which cannot be stopped and may take hours")
            }
            Action::Wipe { means: WipeMeans::Sanitize, .. } => {
                Err("the sanitize goes on in the drive, which may take hours, and the drive takes no reads until it has ended")
            }
            Action::Firmware { .. } => Err("a drive with half of an update may not start again: it ends within minutes"),
            _ => Err("its steps belong together and soon end"),
        };
        ends_early.map_err(|why| refused(format!("job {id} cannot be cancelled ({}): {why}", job.title)))?;
        self.lock().cancelled.insert(id, caller.shown());
        if let Action::Scrub { array, .. } = &job.action {
            let name = machine.entry(array)?.name;
            machine.service.cancel_scrub(&name).inspect_err(|_| drop(self.lock().cancelled.remove(&id)))?;
        }
        Ok(format!("job {id} is being cancelled"))
    }

    fn is_cancelled(&self, id: u64) -> bool {
        self.lock().cancelled.contains_key(&id)
    }

    fn run(&self, machine: &Machine, id: u64, based: &Based) {
        let plan = &based.plan;
        let outcome = match carry_out(self, machine, id, based) {
            Ok(Outcome { text, follows }) => {
                machine.looks.stale();
                self.show(id, text.clone().into());
                match follows {
                    Some((array, sequence, kinds)) => {
                        self.lock().following.insert(id);
                        self.follow(machine, id, &array, sequence, kinds, &text)
                    }
                    None => Ok(text.into()),
                }
            }
            Err(error) => Err(error.into()),
        };
        machine.looks.stale();
        let cancelled = {
            let mut kept = self.lock();
            kept.following.remove(&id);
            kept.cancelled.remove(&id)
        };
        let (state, End { text, said }) = match (outcome, cancelled) {
            (Ok(end), _) => (JobState::Done, end),
            (Err(End { text, said }), Some(by)) => {
                let last = ServiceSentence::JobCancelledBy { by };
                let text = format!("{text}; {last}");
                let said = said.map(|said| [said, vec![last.into()]].concat());
                (JobState::Cancelled, End { text, said })
            }
            (Err(end), None) => (JobState::Failed, end),
        };
        let mut by = String::new();
        self.change(id, |job| {
            (job.state, job.task, job.ended_ms) = (state, None, Some(now_ms()));
            (job.text, job.ends) = (text.clone(), said.clone());
            by.clone_from(&job.by);
        });
        self.save();
        let (job, title, outcome, ends) = (id, plan.said.title.clone(), text, Ends(said));
        let said = match state {
            JobState::Done => ServiceSentence::JobDone { job, by, title, outcome, ends },
            JobState::Cancelled => ServiceSentence::JobCancelled { job, by, title, outcome, ends },
            JobState::Failed | JobState::Running => ServiceSentence::JobFailed { job, by, title, outcome, ends },
        };
        machine.service.events().push(view::said_event(plan.action.array().unwrap_or_default(), "job", said));
    }

    /// Shows what a job does now.
    fn show(&self, id: u64, End { text, said }: End) {
        self.change(id, |job| (job.text, job.ends) = (text, said));
    }

    /// Waits until no sweep of these kinds runs, is due, or is held, or until a rebuild has given up.
    fn follow(&self, machine: &Machine, id: u64, array: &str, sequence: u64, kinds: &[&str], text: &str) -> Result<End, End> {
        let mut goes_on_by = Instant::now();
        let mut quiet = Quiet::default();
        let mut gave_up = false;
        let ends = loop {
            let view = machine.service.array(array)?;
            let ends = ends(&view, machine.service.events().since(sequence), kinds);
            let runs = running(&view, kinds).is_some();
            // A scrub gives way to a rebuild.
            let is_held = view.condition.paused || view.condition.measuring || has_targets(&view);
            let is_rebuild = kinds.contains(&"rebuild");
            let is_open = if is_rebuild { has_targets(&view) } else { ended_count(&ends) < redundant_count(&view) };
            if is_held {
                goes_on_by = Instant::now() + GOES_ON_WITHIN;
            }
            let is_due = is_open && (is_rebuild || Instant::now() < goes_on_by);
            if !runs && (!is_due || self.is_cancelled(id)) {
                break ends;
            }
            // The end may be older than this job: the new member waits with one whose rebuild has given up.
            let is_quiet = quiet.lasts(&view, Instant::now());
            if is_rebuild && is_quiet && is_given_up(&view, &self::ends(&view, machine.service.events().since(0), kinds)) {
                gave_up = true;
                break ends;
            }
            let task: Option<Task> = tasks(&view).into_iter().find(|task| kinds.contains(&task.kind.as_str()));
            let is_held = !runs && view.condition.paused;
            let text = if is_held { format!("{text}; {}", ResultSentence::SweepIsHeld {}) } else { text.to_owned() };
            self.change(id, |job| job.task = task);
            self.show(id, text.into());
            std::thread::sleep(LOOK_EVERY);
        };
        let mut said: Vec<EventSentence> = ends.iter().filter_map(|event| event.said.clone()).collect();
        let is_said = said.len() == ends.len();
        said.extend(gave_up.then(|| ErrorSentence::RebuildGaveUp {}.into()));
        let words = ends.iter().map(|event| event.text.clone()).collect::<Vec<_>>().join("; ");
        let gave_up_words = ErrorSentence::RebuildGaveUp {}.to_string();
        let words = match (words.is_empty(), gave_up) {
            (true, false) => text.to_owned(),
            (true, true) => gave_up_words,
            (false, true) => format!("{words}; {gave_up_words}"),
            (false, false) => words,
        };
        let stopped = ends.iter().find(|event| {
            let went_on = |end: &EventView| end.array == event.array && end.kind == "sweep_finished";
            event.kind == "sweep_stopped" && !ends.iter().any(went_on)
        });
        // The event of a sweep that was cancelled a moment ago may still be on its way.
        let ended_early = stopped.is_some() || gave_up || ends.is_empty() && self.is_cancelled(id);
        let end = match said.is_empty() {
            true => words.into(),
            false => End { text: words, said: is_said.then_some(said) },
        };
        if ended_early { Err(end) } else { Ok(end) }
    }
}

/// The ends of sweeps of these kinds on an array and its spans.
fn ends(view: &ArrayView, mut events: Vec<EventView>, kinds: &[&str]) -> Vec<EventView> {
    let is_here = |event: &EventView| {
        event.array == view.identity.name || view.parts.spans.iter().any(|span| span.identity.name == event.array)
    };
    let is_meant = |event: &EventView| event.sweep.as_deref().is_some_and(|sweep| kinds.contains(&sweep));
    let is_end = |event: &EventView| matches!(event.kind.as_str(), "sweep_finished" | "sweep_stopped");
    events.retain(|event| is_here(event) && is_meant(event) && is_end(event));
    events
}

/// On how many arrays the sweep has ended. One that a pause holds goes on.
fn ended_count(ends: &[EventView]) -> usize {
    let last: BTreeMap<&str, &EventView> = ends.iter().map(|event| (event.array.as_str(), event)).collect();
    last.values().filter(|event| !view::is_held(event)).count()
}

/// What became of a job that ran when the daemon ended, and what to do.
fn after_a_restart(action: &Action) -> ServiceSentence {
    match action {
        Action::Wipe { means: WipeMeans::Signatures, .. } => ServiceSentence::JobCutWipe {},
        Action::Wipe { means: WipeMeans::Discard, .. } => ServiceSentence::JobCutDiscard {},
        Action::Wipe { means: WipeMeans::SecureErase, .. } => ServiceSentence::JobCutErase {},
        Action::Wipe { means: WipeMeans::Sanitize, .. } => ServiceSentence::JobCutSanitize {},
        Action::Firmware { .. } => ServiceSentence::JobCutFirmware {},
        _ => ServiceSentence::JobCut {},
    }
}

/// The plan was made anew when the order came, so its marks are those of the drives that were confirmed.
fn carry_out(jobs: &Jobs, machine: &Machine, id: u64, Based { plan, marks, .. }: &Based) -> Result<Outcome, ApiError> {
    let service = &machine.service;
    // Commands take the name under which an array is served, and people may give its UUID.
    let name = |array: &str| machine.entry(array).map(|entry| entry.name);
    let follows = |name: &str, done: Done, kinds: &'static [&'static str]| Outcome {
        text: done.message,
        follows: Some((name.to_owned(), done.sequence, kinds)),
    };
    match &plan.action {
        Action::Create(create) => self::create(machine, create, marks),
        Action::Destroy { array } => destroy(machine, array),
        Action::Wipe { drives, means } => {
            let progress = |drive: &Path, percent: u8| {
                let drive = drive.display().to_string();
                jobs.show(id, ResultSentence::DriveIsSanitized { drive, percent }.to_string().into());
            };
            wipe::wipe(drives, marks, *means, progress).map_err(failed)?;
            Ok(outcome(wipe::in_words(drives.len(), *means)))
        }
        Action::Adopt { array, name, ublk } => {
            let (assemblies, _) = machine.assemblies()?;
            let found = chosen(&assemblies, std::slice::from_ref(array)).map_err(failed)?;
            adopt(machine, &assemblies, found, name.clone(), *ublk).map(outcome)
        }
        Action::Import { array, name, read_only, ublk } => {
            let (assemblies, _) = machine.assemblies()?;
            let found = chosen(&assemblies, std::slice::from_ref(array)).map_err(failed)?;
            let name = ownership::name_of_import(&machine.config()?, found, name.as_deref()).map_err(failed)?;
            let terms = Terms { read_only: *read_only, ublk: ublk.then_some(Block::Any), ..Terms::default() };
            let adopted = ownership::import(&machine.config_path, &assemblies, found, &name, terms).map_err(failed)?;
            start(machine, adopted).map(outcome)
        }
        Action::Release { array } => {
            let entry = machine.entry(array)?;
            release(machine, &entry.uuid).map(|notes| outcome(format!("array \"{}\" is no longer Stria's; {notes}", entry.name)))
        }
        Action::Start { array, force } => machine.keeper.start_array(name(array)?, *force).map(outcome),
        Action::Stop { array, force } => service.stop(&name(array)?, *force).map(Outcome::from),
        Action::Rename { array, name } => rename(machine, array, name),
        Action::Fail { array, drive } => service.fail(&name(array)?, drive.clone()).map(Outcome::from),
        Action::Remove { array, drive } => service.remove(&name(array)?, drive.clone()).map(Outcome::from),
        Action::Add { array, drive, span } => {
            let name = name(array)?;
            let done = service.add(&name, add_request(plan, marks, drive.clone(), span.clone()))?;
            Ok(follows(&name, done, &["rebuild"]))
        }
        Action::Replace { array, old, new } => {
            let name = name(array)?;
            let done = {
                let (old, confirmed, new) = (old.clone(), marks.first().cloned(), new.clone());
                service.replace(&name, ReplaceRequest { old, new, force: false, confirmed })?
            };
            Ok(follows(&name, done, &["rebuild"]))
        }
        Action::Firmware { array, drive, image, slot, activate, force } => {
            let (slot, activate, force) = (*slot, *activate, *force);
            let request = FirmwareRequest { path: drive.clone(), image: image.clone(), slot, activate, force };
            let is_planned = |bytes: &[u8]| refuse_other_image(marks, image, bytes);
            service.update_firmware(&name(array)?, &request, is_planned).map(Outcome::from)
        }
        Action::Scrub { array, repair, from_bytes } => {
            let name = name(array)?;
            let done = service.scrub(&name, &ScrubRequest { repair: *repair, from_bytes: *from_bytes })?;
            Ok(follows(&name, done, &["scrub", "repair"]))
        }
        Action::CancelScrub { array } => service.cancel_scrub(&name(array)?).map(Outcome::from),
        Action::Pause { array } => service.pause(&name(array)?, true).map(Outcome::from),
        Action::Resume { array } => service.pause(&name(array)?, false).map(Outcome::from),
        Action::Speed { array, min_bytes_per_s, max_bytes_per_s, latency } => {
            let request =
                SpeedRequest { min_bytes_per_s: *min_bytes_per_s, max_bytes_per_s: *max_bytes_per_s, latency: *latency };
            service.speed(&name(array)?, &request).map(Outcome::from)
        }
        Action::Trim { array, start_bytes, length_bytes } => {
            let request = TrimRequest { start_bytes: *start_bytes, length_bytes: *length_bytes, force: true };
            service.trim(&name(array)?, &request, || jobs.is_cancelled(id)).map(Outcome::from)
        }
        Action::Set { array, .. } => set(machine, array, &settings_of(&plan.action)).map(outcome),
        Action::SpareAdd { drives } => {
            let refuse = |what: &str| Err(Failure::Unsafe(format!("{what} The plan did not say so.")));
            let consent = |what: &str| if plan.loses.is_empty() { refuse(what) } else { Ok(()) };
            let changed = pool::add(&machine.config_path, drives, Some(marks), consent);
            pool_changed(machine, &changed.map_err(failed)?, "in the pool of spares").map(outcome)
        }
        Action::SpareRemove { drives } => {
            let changed = pool::remove(&machine.config_path, drives).map_err(failed)?;
            pool_changed(machine, &changed, "no longer in the pool of spares").map(outcome)
        }
        Action::Locate { drive, on } => {
            let light = Seat::locate(drive, *on).map_err(|error| ApiError::new(ApiErrorKind::Refused, &error))?;
            Ok(outcome(format!("{light} is {}", if *on { "on" } else { "off" })))
        }
    }
}

/// Only a plan that names what is lost permits to overwrite it: a former member comes back as what it is, or not at all (R91).
fn add_request(plan: &Plan, marks: &[String], path: PathBuf, span: Option<String>) -> AddRequest {
    let mark = marks.first().cloned();
    let (confirmed, seen) = if plan.loses.is_empty() { (None, mark) } else { (mark, None) };
    AddRequest { path, span, force: false, confirmed, seen, return_only: false }
}

/// The file may have changed since the plan was made anew.
fn refuse_other_image(marks: &[String], image: &Path, bytes: &[u8]) -> Result<(), ApiError> {
    match marks.contains(&sha256(bytes)) {
        true => Ok(()),
        false => {
            let image = image.display().to_string();
            Err(ApiError::new(ApiErrorKind::Refused, ErrorSentence::FirmwareImageChanged { image }))
        }
    }
}

fn outcome(text: String) -> Outcome {
    Outcome { text, follows: None }
}

/// Refuses an action, before drives are written, if the configuration could not be written afterwards.
fn check_config(machine: &Machine) -> Result<(), ApiError> {
    drop(Edit::open(&machine.config_path).map_err(failed)?);
    let path = machine.config_path.canonicalize().unwrap_or_else(|_| machine.config_path.clone());
    let folder = path.parent().unwrap_or(&path);
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| {
        let (folder, reason) = (folder.display().to_string(), error.to_string());
        ApiError::new(ApiErrorKind::Failed, ErrorSentence::ConfigCannotName { folder, reason })
    })
}

fn create(machine: &Machine, create: &CreateAction, marks: &[String]) -> Result<Outcome, ApiError> {
    check_config(machine)?;
    refuse_unwritable(&machine.config()?).map_err(failed)?;
    let paths: Vec<PathBuf> = create.drives.iter().flatten().chain(&create.spares).cloned().collect();
    let uuid = stria_host::create(&spec(create, Overwrite::Confirmed(marks.to_vec()))?)?;
    let (assemblies, _) = look(&paths, &machine.config_path).map_err(failed)?;
    let made = assemblies.iter().find(|one| one.uuid == uuid);
    let made = made.ok_or_else(|| ApiError::new(ApiErrorKind::Failed, cannot_be_read_back(&create.name)))?;
    let is_made = || format!("array \"{}\" is made on its drives ({})", create.name, Uuid(uuid));
    let notes =
        adopt(machine, &assemblies, made, Some(create.name.clone()), create.ublk).map_err(|error| after(&is_made(), error))?;
    Ok(outcome(format!("array \"{}\" is made; {notes}", create.name)))
}

/// Takes an array into the configuration, and starts it.
fn adopt(
    machine: &Machine,
    assemblies: &[Assembly],
    array: &Assembly,
    name: Option<String>,
    ublk: bool,
) -> Result<String, ApiError> {
    let terms = Terms { name, ublk: ublk.then_some(Block::Any), ..Terms::default() };
    start(machine, ownership::adopt(&machine.config_path, assemblies, array, terms).map_err(failed)?)
}

/// Starts an array that was taken into the configuration.
fn start(machine: &Machine, adopted: Adopted) -> Result<String, ApiError> {
    let Adopted { name, mut notes } = adopted;
    notes.push(machine.keeper.reload()?);
    if !machine.service.serves(&name) {
        notes.push(machine.keeper.start_array(name, false)?);
    }
    Ok(notes.join("; "))
}

/// The error of a later step of a job whose first steps have written to drives. `done`: what they did.
fn after(done: &str, error: ApiError) -> ApiError {
    let kind = error.kind;
    ApiError::new(kind, ownership::after(done, Failure::Failed(error.message)).to_string())
}

/// Changes settings of an array, served or not, and keeps them.
fn set(machine: &Machine, array: &str, request: &SettingsRequest) -> Result<String, ApiError> {
    let entry = machine.entry(array)?;
    let uuid: Uuid = entry.uuid.parse().map_err(|error: String| ApiError::new(ApiErrorKind::Invalid, error))?;
    let mut notes = Vec::new();
    if machine.service.serves(&entry.name) {
        notes.push(machine.service.set(&entry.name, request)?.message);
    } else if !request.changes().map_err(|error| ApiError::new(ApiErrorKind::Invalid, error))?.is_empty() {
        let (assemblies, _) = machine.assemblies()?;
        notes.extend(ownership::change(&assemblies, assembly(&assemblies, &entry.uuid)?, request).map_err(failed)?);
    }
    let stored = if request.is_kept() { ownership::keep(&machine.config_path, uuid, request) } else { Ok(false) };
    // The setting holds all the same.
    if stored.map_err(|failure| failed(ownership::not_stored(&notes, failure)))? {
        machine.keeper.reload()?;
        notes.push("stored in the configuration".into());
    }
    Ok(notes.join("; "))
}

fn pool_changed(machine: &Machine, changed: &Changed, what: &str) -> Result<String, ApiError> {
    let list: Vec<String> = changed.drives.iter().map(|drive| drive.display().to_string()).collect();
    let notes: String = changed.notes.iter().map(|note| format!("; {note}")).collect();
    Ok(format!("{} {what}{notes}; {}", list.join(", "), machine.keeper.reload()?))
}

/// Takes an array out of the configuration.
fn release(machine: &Machine, uuid: &str) -> Result<String, ApiError> {
    let uuid: Uuid = uuid.parse().map_err(|error: String| ApiError::new(ApiErrorKind::Invalid, error))?;
    let config = without(machine, uuid)?.save().map_err(failed)?;
    let mut notes = keep_away(&config).map_err(failed)?;
    notes.push(machine.keeper.reload()?);
    Ok(notes.join("; "))
}

/// The locked configuration without an array, which can be written, and mdadm's can follow.
fn without(machine: &Machine, uuid: Uuid) -> Result<Edit, ApiError> {
    let mut edit = Edit::open(&machine.config_path).map_err(failed)?;
    edit.remove(uuid).map_err(failed)?;
    refuse_unless_it_follows(&edit.check().map_err(failed)?).map_err(failed)?;
    Ok(edit)
}

fn destroy(machine: &Machine, array: &str) -> Result<Outcome, ApiError> {
    check_config(machine)?;
    let entry = machine.entry(array)?;
    let (assemblies, _) = machine.assemblies()?;
    let arrays = meant::tree(&assemblies, assembly(&assemblies, &entry.uuid)?);
    let (paths, uuids): (_, Vec<[u8; 16]>) = (meant::drives(&arrays), arrays.iter().map(|one| one.uuid).collect());
    let uuid = entry.uuid.parse().map_err(|error: String| ApiError::new(ApiErrorKind::Invalid, error))?;
    without(machine, uuid).map(drop)?;
    let mut notes = stria_host::destroy(&paths, &uuids)?;
    let gone = wipe::destroyed(paths.len(), &notes);
    let is_gone = || format!("array \"{}\" is destroyed; {gone}", entry.name);
    notes.push(release(machine, &entry.uuid).map_err(|error| after(&is_gone(), error))?);
    Ok(outcome(format!("array \"{}\" is destroyed; {gone}; {}", entry.name, notes.join("; "))))
}

fn rename(machine: &Machine, array: &str, name: &str) -> Result<Outcome, ApiError> {
    let entry = machine.entry(array)?;
    let (assemblies, _) = machine.assemblies()?;
    let found = assembly(&assemblies, &entry.uuid)?;
    let renamed = ownership::rename(&machine.config_path, &assemblies, found, name).map_err(failed)?;
    Ok(outcome(format!("{}; {}", renamed.words(name), machine.keeper.reload()?)))
}

/// The refusal of a job that is not known.
pub fn no_job(id: &str) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, ErrorSentence::NoJob { job: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pause_is_resumed_whatever_else_runs() {
        let mut kept = Kept::new(Source::Awaited);
        let read = |action: serde_json::Value| serde_json::from_value::<Action>(action).expect("an action");
        let run = |kept: &mut Kept, action: serde_json::Value| {
            kept.last += 1;
            let job = json!({"id": kept.last, "action": action, "title": "", "by": "", "state": "running", "text": "", "task": null,
                "started_ms": 0, "ended_ms": null});
            kept.jobs.push_back(serde_json::from_value(job).expect("a job"));
        };
        let add = json!({"action": "add", "array": "a", "drive": "/dev/a"});
        let (resume, fail) =
            (read(json!({"action": "resume", "array": "a"})), read(json!({"action": "fail", "array": "a", "drive": "/dev/a"})));
        let erase = json!({"action": "wipe", "drives": ["/dev/a"], "means": "sanitize"});
        for _ in 0..RUNNING_MAX {
            run(&mut kept, add.clone());
            run(&mut kept, erase.clone());
        }
        assert!(kept.check_place(&resume).is_ok());
        let refused = kept.check_place(&fail).expect_err("as many run");
        assert!(refused.kind == ApiErrorKind::TooMany && refused.message.starts_with("16 jobs"), "{}", refused.message);
        assert!(kept.check_place(&read(erase)).expect_err("as many run").message.starts_with("16 erasures"));
        // A job that only follows a rebuild does not count.
        kept.following = (1..=kept.last).collect();
        assert!(kept.check_place(&fail).is_ok() && kept.check_place(&read(add)).is_ok());
        while kept.jobs.len() < ALL_MAX {
            run(&mut kept, json!({"action": "scrub", "array": "a"}));
            kept.following.insert(kept.last);
        }
        assert!(kept.check_place(&resume).expect_err("each has a thread").message.starts_with("256 "));
    }

    /// A unit of systemd mounts it, so fstab does not announce it: the jobs of before were overwritten with those of this boot.
    #[test]
    fn a_file_system_that_is_mounted_over_the_folder_keeps_its_jobs() {
        let folder = tempfile::tempdir().expect("a folder");
        // Another file system below the root's, in place of one that is mounted.
        let real = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let state = folder.path().join("state");
        let job = |id: u64, title: &str| {
            json!({"id": id, "action": {"action": "resume", "array": "a"}, "title": title, "by": "", "state": "done", "text": "", "task": null,
                "started_ms": 0, "ended_ms": 1})
        };
        let write =
            |folder: &Path, jobs: serde_json::Value| fs::write(folder.join("jobs.json"), jobs.to_string()).expect("a file");
        fs::create_dir(&state).expect("a folder");
        write(&state, json!([job(1, "now")]));
        write(real.path(), json!([job(1, "before"), job(2, "later")]));
        let shown = |jobs: &Jobs| jobs.all().iter().map(|job| (job.id, job.title.clone())).collect::<Vec<_>>();
        let jobs = Jobs::open(&state);
        assert_eq!(shown(&jobs), [(1, "now".to_owned())]);
        fs::rename(&state, folder.path().join("hidden")).expect("a move");
        std::os::unix::fs::symlink(real.path(), &state).expect("a link");
        jobs.save();
        let all = [(3, "before".to_owned()), (2, "later".to_owned()), (1, "now".to_owned())];
        assert_eq!((shown(&jobs), shown(&Jobs::open(real.path()))), (all.to_vec(), all.to_vec()));
        // It is unmounted, what it hid is older, and mounted again.
        fs::remove_file(&state).and_then(|()| fs::rename(folder.path().join("hidden"), &state)).expect("a move");
        assert_eq!(shown(&jobs), all);
        fs::rename(&state, folder.path().join("hidden")).expect("a move");
        std::os::unix::fs::symlink(real.path(), &state).expect("a link");
        assert_eq!(shown(&jobs), all);
    }

    /// A job that had made or destroyed an array ended with "nothing was done", as the configuration could not follow.
    #[test]
    fn an_error_after_drives_were_written_says_what_was_done() {
        let told =
            after("array \"tank\" is made", ApiError::new(ApiErrorKind::Refused, "it cannot be written; nothing was done"));
        assert_eq!(told.kind, ApiErrorKind::Refused);
        assert_eq!(told.message, "array \"tank\" is made, but a later step failed: it cannot be written");
    }

    /// The text of every job once named `status` and a rebuild.
    /// A former member was taken back without a look at what lay at its path by then.
    #[test]
    fn a_plan_permits_to_overwrite_only_what_it_says_is_lost() {
        let plan = |loses: &[&str]| {
            let title = crate::words::plan::PlanSentence::AddDrive { drive: "/dev/a".into(), array: "a".into() };
            let said = json!({"title": title, "loses": [], "warnings": []});
            let plan = json!({"action": {"action": "add", "array": "a", "drive": "/dev/a"}, "title": "", "writes": [], "writes_nothing": false,
                "loses": loses, "warnings": [], "said": said, "forecast": null, "role": "operate", "confirm": null});
            serde_json::from_value::<Plan>(plan).expect("a plan")
        };
        let request = |loses: &[&str]| add_request(&plan(loses), &["a mark".into()], "/dev/a".into(), None);
        let (returns, joins) = (request(&[]), request(&["a file system"]));
        assert_eq!((returns.confirmed, returns.seen.as_deref()), (None, Some("a mark")));
        assert_eq!((joins.confirmed.as_deref(), joins.seen), (Some("a mark"), None));
    }

    #[test]
    fn only_the_image_that_was_planned_is_sent() {
        let marks = [sha256(b"planned")];
        assert!(refuse_other_image(&marks, Path::new("/i"), b"planned").is_ok());
        let refused = refuse_other_image(&marks, Path::new("/i"), b"written meanwhile").expect_err("it is another");
        assert!(refused.message.contains("nothing was sent"), "{}", refused.message);
        assert!(refuse_other_image(&[], Path::new("/i"), b"planned").is_err(), "no plan permits it");
    }

    #[test]
    fn a_job_that_the_daemon_did_not_outlive_says_what_goes_on_and_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let text_of = |action: serde_json::Value| {
            let job = json!({"id": 1, "action": action, "title": "", "by": "", "state": "running", "text": "", "task": null,
                "started_ms": 0, "ended_ms": null});
            fs::write(folder.path().join("jobs.json"), json!([job]).to_string()).expect("a file");
            let job = Jobs::open(folder.path()).job(1).expect("it is kept");
            assert_eq!(job.state, JobState::Failed);
            assert_eq!(job.ends.expect("they are said")[0].to_string(), job.text);
            job.text
        };
        let wipe = |means: &str| text_of(json!({"action": "wipe", "drives": ["/dev/a"], "means": means}));
        assert!(wipe("sanitize").contains("goes on in the drive: repeat the action, which waits"), "{}", wipe("sanitize"));
        assert!(wipe("secure_erase").contains("may be erasing itself still"));
        assert!(wipe("discard").contains("discarded in part") && wipe("signatures").contains("may keep their signatures"));
        assert!(
            text_of(json!({"action": "firmware", "array": "a", "drive": "/dev/a", "image": "/i"})).contains("stria firmware")
        );
        assert!(text_of(json!({"action": "add", "array": "a", "drive": "/dev/a"})).contains("a rebuild goes on by itself"));
    }
}
