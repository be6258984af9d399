//! Jobs: actions that are carried out on threads of their own, whether or not the client that began them is still there.

use super::auth::Caller;
use super::looks::tasks;
use super::plans::{Based, array_drives, assemblies, entry, spec};
use super::types::{Action, CreateAction, Job, JobState, Plan, Task};
use super::{Rest, now_ms};
use crate::api::{AddRequest, ApiError, ApiErrorKind, Done, EventView, ReplaceRequest, ScrubRequest, SpeedRequest, TrimRequest};
use crate::atomic_file::replace;
use crate::config::edit::Edit;
use crate::config::{self, Block, Uuid};
use crate::mdadm::keep_away;
use crate::meant::{chosen, look};
use crate::mounts::awaited;
use crate::progress::{is_filling, running};
use crate::view;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stria_format::md::Assembly;
use stria_host::short_name;
use stria_terminal::Failure;

/// Jobs that are remembered.
const KEPT_MAX: usize = 100;
/// Jobs that may run at a time.
const RUNNING_MAX: usize = 16;
/// How often a job that waits for a sweep looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The last jobs, also those of earlier runs of the daemon.
pub struct Jobs {
    kept: Mutex<Kept>,
    /// Their file; the lock is the right to write it.
    file: Mutex<PathBuf>,
}

#[derive(Default)]
struct Kept {
    jobs: VecDeque<Job>,
    last: u64,
}

/// How an action went.
struct Outcome {
    text: String,
    /// The sweeps that it began: the array, the last event before, and their kinds.
    follows: Option<(String, u64, &'static [&'static str])>,
}

impl From<Done> for Outcome {
    fn from(done: Done) -> Self {
        Self { text: done.message, follows: None }
    }
}

fn failed(failure: Failure) -> ApiError {
    let kind = match failure {
        Failure::Usage(_) => ApiErrorKind::Invalid,
        Failure::Unsafe(_) => ApiErrorKind::Unsafe,
        _ => ApiErrorKind::Failed,
    };
    ApiError::new(kind, failure.to_string())
}

impl Jobs {
    /// Reads the jobs of earlier runs. One that ran when the daemon ended counts as failed, as nobody saw its end.
    pub fn open(folder: &Path) -> Self {
        let file = folder.join("jobs.json");
        let mut kept = Kept::default();
        match fs::read(&file).map(|text| serde_json::from_slice::<VecDeque<serde_json::Value>>(&text)) {
            // A job of another version, with an action that is unknown here, is left out.
            Ok(Ok(jobs)) => kept.jobs = jobs.into_iter().filter_map(|job| serde_json::from_value(job).ok()).collect(),
            Ok(Err(error)) => tracing::warn!("{} cannot be read ({error}): the list of jobs begins anew", file.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("{} cannot be read ({error}): the list of jobs begins anew", file.display()),
        }
        for job in kept.jobs.iter_mut().filter(|job| job.state == JobState::Running) {
            let meaning = "the daemon ended before this job did: `status` shows how far it came, and a rebuild goes on by itself";
            (job.state, job.task, job.ended_ms) = (JobState::Failed, None, Some(now_ms()));
            meaning.clone_into(&mut job.text);
        }
        kept.last = kept.jobs.iter().map(|job| job.id).max().unwrap_or(0);
        Self { kept: Mutex::new(kept), file: Mutex::new(file) }
    }

    /// Writes the jobs to their file, unless its file system is yet to be mounted.
    fn save(&self) {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = file.parent().expect("it is in a folder");
        if awaited(folder).is_some() {
            return;
        }
        let text = serde_json::to_string_pretty(&self.all()).expect("jobs are plain data");
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(|error| error.to_string());
        let written = made.and_then(|()| replace(&file, &(text + "\n")).map_err(|failure| failure.to_string()));
        if let Err(error) = written {
            tracing::warn!("jobs are not kept over a restart: {error}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn begin(&self, rest: &Arc<Rest>, based: Based, caller: &Caller) -> Result<Job, ApiError> {
        let plan = based.plan;
        let mut kept = self.lock();
        if kept.jobs.iter().filter(|job| job.state == JobState::Running).count() >= RUNNING_MAX {
            let text = format!("{RUNNING_MAX} jobs are running already: wait until one has ended");
            return Err(ApiError::new(ApiErrorKind::TooMany, text));
        }
        kept.last += 1;
        let job = Job {
            id: kept.last,
            action: plan.action.clone(),
            title: plan.title.clone(),
            by: caller.shown(),
            state: JobState::Running,
            text: "it has begun".into(),
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
        let (rest, id) = (Arc::clone(rest), job.id);
        let spawned = std::thread::Builder::new().name("job".into()).spawn(move || rest.jobs.run(&rest, id, &plan));
        if let Err(error) = spawned {
            let text = format!("the system gives no thread: {error}");
            self.change(job.id, |job| (job.state, job.text) = (JobState::Failed, text.clone()));
            self.save();
            return Err(ApiError::new(ApiErrorKind::Failed, text));
        }
        Ok(job)
    }

    fn run(&self, rest: &Rest, id: u64, plan: &Plan) {
        let outcome = carry_out(rest, plan).and_then(|Outcome { text, follows }| {
            rest.looks.stale();
            self.change(id, |job| job.text.clone_from(&text));
            match follows {
                Some((array, sequence, kinds)) => self.follow(rest, id, &array, sequence, kinds, text),
                None => Ok(text),
            }
        });
        rest.looks.stale();
        let (state, text) = match outcome {
            Ok(text) => (JobState::Done, text),
            Err(error) => (JobState::Failed, error.message),
        };
        let mut by = String::new();
        self.change(id, |job| {
            (job.state, job.task, job.ended_ms) = (state, None, Some(now_ms()));
            job.text.clone_from(&text);
            by.clone_from(&job.by);
        });
        self.save();
        let outcome = if state == JobState::Done { "done" } else { "failed" };
        let text = format!("job {id} of {by}: {} {outcome}: {text}", plan.title);
        rest.service.events().push(view::plain_event(array_of(&plan.action).unwrap_or_default(), "job", text));
    }

    /// Waits until no sweep of these kinds runs or is due.
    fn follow(&self, rest: &Rest, id: u64, array: &str, sequence: u64, kinds: &[&str], text: String) -> Result<String, ApiError> {
        loop {
            let view = rest.service.array(array)?;
            match running(&view, kinds) {
                Some(_) => {
                    let task: Option<Task> = tasks(&view).into_iter().find(|task| kinds.contains(&task.kind.as_str()));
                    self.change(id, |job| job.task = task);
                }
                None if kinds.contains(&"rebuild") && is_filling(&view) => {}
                None => break,
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let is_end = |event: &EventView| {
            let is_meant = event.sweep.as_deref().is_some_and(|sweep| kinds.contains(&sweep));
            is_meant && matches!(event.kind.as_str(), "sweep_finished" | "sweep_stopped")
        };
        let view = rest.service.array(array)?;
        let mut names = vec![view.name.clone()];
        names.extend(view.spans.iter().map(|span| span.name.clone()));
        let mut ends = rest.service.events().since(sequence);
        ends.retain(|event| is_end(event) && names.contains(&event.array));
        let told = ends.iter().map(|event| event.text.clone()).collect::<Vec<_>>().join("; ");
        let told = if told.is_empty() { text } else { told };
        let stopped = ends.iter().find(|event| {
            let went_on = |end: &EventView| end.array == event.array && end.kind == "sweep_finished";
            event.kind == "sweep_stopped" && !ends.iter().any(went_on)
        });
        match stopped {
            Some(_) => Err(ApiError::new(ApiErrorKind::Failed, told)),
            None => Ok(told),
        }
    }
}

/// The array that an action is about.
pub fn array_of(action: &Action) -> Option<&str> {
    match action {
        Action::Create(create) => Some(&create.name),
        Action::Wipe { .. } => None,
        Action::Destroy { array }
        | Action::Adopt { array, .. }
        | Action::Release { array }
        | Action::Start { array, .. }
        | Action::Stop { array, .. }
        | Action::Rename { array, .. }
        | Action::Fail { array, .. }
        | Action::Remove { array, .. }
        | Action::Add { array, .. }
        | Action::Replace { array, .. }
        | Action::Scrub { array, .. }
        | Action::CancelScrub { array }
        | Action::Pause { array }
        | Action::Resume { array }
        | Action::Speed { array, .. }
        | Action::Trim { array, .. } => Some(array),
    }
}

fn carry_out(rest: &Rest, plan: &Plan) -> Result<Outcome, ApiError> {
    // What a drive carries is overwritten only if the plan has named it.
    let force = !plan.loses.is_empty();
    let service = &rest.service;
    // Commands take the name under which an array is served, and people may give its UUID.
    let name = |array: &str| entry(rest, array).map(|entry| entry.name);
    let follows = |name: &str, done: Done, kinds: &'static [&'static str]| Outcome {
        text: done.message,
        follows: Some((name.to_owned(), done.sequence, kinds)),
    };
    match &plan.action {
        Action::Create(create) => self::create(rest, create, force),
        Action::Destroy { array } => destroy(rest, array),
        Action::Wipe { drives } => {
            stria_host::wipe_drives(drives)?;
            Ok(told(format!("{} drives carry nothing any more", drives.len())))
        }
        Action::Adopt { array, name, ublk } => {
            let (assemblies, drives) = assemblies(rest)?;
            let found = chosen(&assemblies, std::slice::from_ref(array)).map_err(failed)?;
            adopt(rest, &assemblies, found, name.as_deref(), *ublk, &drives).map(told)
        }
        Action::Release { array } => {
            let entry = entry(rest, array)?;
            release(rest, &entry.uuid).map(|notes| told(format!("array \"{}\" is no longer Stria's; {notes}", entry.name)))
        }
        Action::Start { array, force } => rest.keeper.start_array(name(array)?, *force).map(told),
        Action::Stop { array, force } => service.stop(&name(array)?, *force).map(Outcome::from),
        Action::Rename { array, name } => rename(rest, array, name),
        Action::Fail { array, drive } => service.fail(&name(array)?, drive.clone()).map(Outcome::from),
        Action::Remove { array, drive } => service.remove(&name(array)?, drive.clone()).map(Outcome::from),
        Action::Add { array, drive, span } => {
            let name = name(array)?;
            let done = service.add(&name, AddRequest { path: drive.clone(), span: span.clone(), force })?;
            Ok(follows(&name, done, &["rebuild"]))
        }
        Action::Replace { array, old, new } => {
            let name = name(array)?;
            let done = service.replace(&name, ReplaceRequest { old: old.clone(), new: new.clone(), force })?;
            Ok(follows(&name, done, &["rebuild"]))
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
            service.trim(&name(array)?, &request).map(Outcome::from)
        }
    }
}

fn told(text: String) -> Outcome {
    Outcome { text, follows: None }
}

/// Refuses before drives are written what could not be noted afterwards.
fn check_config(rest: &Rest) -> Result<(), ApiError> {
    drop(Edit::open(&rest.config_path).map_err(failed)?);
    let path = rest.config_path.canonicalize().unwrap_or_else(|_| rest.config_path.clone());
    let folder = path.parent().unwrap_or(&path);
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| {
        let text = format!(
            "{} cannot be written ({error}), so the configuration cannot name the array: nothing was done",
            folder.display()
        );
        ApiError::new(ApiErrorKind::Failed, text)
    })
}

fn create(rest: &Rest, create: &CreateAction, force: bool) -> Result<Outcome, ApiError> {
    check_config(rest)?;
    let uuid = stria_host::create(&spec(create, force)?)?;
    let paths: Vec<PathBuf> = create.drives.iter().flatten().chain(&create.spares).cloned().collect();
    let (assemblies, drives) = look(&paths).map_err(failed)?;
    let made = assemblies.iter().find(|one| one.uuid == uuid).ok_or_else(|| {
        let text = format!("array \"{}\" was written, but cannot be read back: see `stria examine`", create.name);
        ApiError::new(ApiErrorKind::Failed, text)
    })?;
    let notes = adopt(rest, &assemblies, made, Some(&create.name), create.ublk, &drives)?;
    Ok(told(format!("array \"{}\" is made; {notes}", create.name)))
}

/// Takes an array into the configuration, and starts it.
fn adopt(
    rest: &Rest,
    assemblies: &[Assembly],
    array: &Assembly,
    name: Option<&str>,
    ublk: bool,
    drives: &[PathBuf],
) -> Result<String, ApiError> {
    let uuid = Uuid(array.uuid);
    let mut edit = Edit::open(&rest.config_path).map_err(failed)?;
    let known = edit.before().arrays.iter().find(|known| known.uuid == uuid).cloned();
    let mut entry = known.unwrap_or_else(|| config::Array::new(uuid));
    entry.spans = assemblies.iter().filter(|one| one.freshest.span_of == Some(array.uuid)).map(|one| Uuid(one.uuid)).collect();
    entry.name = name.map(str::to_owned).or(entry.name).or_else(|| Some(short_name(&array.name).to_owned()));
    if ublk {
        entry.ublk = Block::Any;
    }
    edit.put(&entry).map_err(failed)?;
    // Files that the configuration names already stay out of it.
    let members: Vec<PathBuf> = drives.iter().filter(|path| path.is_file()).cloned().collect();
    edit.search(members.iter()).map_err(failed)?;
    let config = edit.save().map_err(failed)?;
    let mut notes = keep_away(&config).map_err(failed)?;
    notes.push(rest.keeper.reload()?);
    if !rest.service.serves(&entry.title()) {
        notes.push(rest.keeper.start_array(entry.title(), false)?);
    }
    Ok(notes.join("; "))
}

/// Takes an array out of the configuration.
fn release(rest: &Rest, uuid: &str) -> Result<String, ApiError> {
    let uuid: Uuid = uuid.parse().map_err(|error: String| ApiError::new(ApiErrorKind::Invalid, error))?;
    let mut edit = Edit::open(&rest.config_path).map_err(failed)?;
    edit.remove(uuid).map_err(failed)?;
    let config = edit.save().map_err(failed)?;
    let mut notes = keep_away(&config).map_err(failed)?;
    notes.push(rest.keeper.reload()?);
    Ok(notes.join("; "))
}

fn destroy(rest: &Rest, array: &str) -> Result<Outcome, ApiError> {
    check_config(rest)?;
    let entry = entry(rest, array)?;
    let paths = array_drives(&assemblies(rest)?.0, &entry.uuid)?;
    stria_host::destroy(&paths)?;
    let notes = release(rest, &entry.uuid)?;
    Ok(told(format!("array \"{}\" is destroyed; {} drives carry nothing any more; {notes}", entry.name, paths.len())))
}

fn rename(rest: &Rest, array: &str, name: &str) -> Result<Outcome, ApiError> {
    let entry = entry(rest, array)?;
    let uuid: Uuid = entry.uuid.parse().map_err(|error: String| ApiError::new(ApiErrorKind::Invalid, error))?;
    let mut edit = Edit::open(&rest.config_path).map_err(failed)?;
    let known = edit.before().arrays.iter().find(|known| known.uuid == uuid).cloned();
    if let Some(known) = known {
        edit.put(&config::Array { name: Some(name.to_owned()), ..known }).map_err(failed)?;
    }
    // Checked before the drives are written: another array may have the name here.
    edit.check().map_err(failed)?;
    let paths = array_drives(&assemblies(rest)?.0, &entry.uuid)?;
    let count = stria_host::rename(&paths, &uuid.0, name)?;
    keep_away(&edit.save().map_err(failed)?).map_err(failed)?;
    let note = rest.keeper.reload()?;
    Ok(told(format!("array \"{}\" is called \"{name}\" now, on {count} drives; {note}", entry.name)))
}
