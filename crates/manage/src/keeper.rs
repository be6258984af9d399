//! The thread that decides which array of the configuration starts when.
//!
//! ```text
//!   absent ──a drive comes──▶ waiting ──all are here, or time is up──▶ served ──stop──▶ stopped
//!                                └────cannot start────▶ refused        (a drive that comes, a reload or `start` tries again)
//! ```
//! All that happens passes through one queue: drives that come, commands, and time. So no two of them look at an array at once.
//! Opening an array is the only long step. A drive's message is answered before it: udev waits for its rule.

mod drives;
mod judge;
mod left;
mod mark;
mod opening;
mod spares;
mod watch;

pub use drives::is_mapped;
pub use spares::{PoolOffer, PoolState, enclosure_of, look as look_at_pool, offers};

use crate::api::{AddRequest, AdoptedState, AdoptedView, ApiError, ApiErrorKind, LastDrive, LeftAloneView, Obstacle};
use crate::config::{self, Config, Uuid};
use crate::control::client::KEEPER_DONE;
use crate::service::{Held, Service, Unstarted};
use crate::settings::SettingsRequest;
use crate::system::threads;
use crate::words::error::{ErrorSentence, SilentDrives, Words};
use crate::words::event::{EventSentence, ServiceSentence};
use crate::{view, words};
use drives::Drives;
use judge::{Judgement, judge};
use left::Left;
use opening::{Opened, Refused, add_disks, of_group, open};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stria_block::shell_word;
use stria_drive::{Access, DriveError, SyncDrive, within_at};
use stria_format::md::{Verdict, uuid_text};
use stria_host::{Found, HostError, OpenOptions, StaysOut, find, short_name};
use stria_terminal::Failure;
use tokio::sync::broadcast::error::RecvError;
use watch::Watch;

/// The pause before an array whose drives were in use is tried again, and the number of tries: another program may only have
/// looked at them.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
const TRIES: u32 = 6;
/// The pause between two looks at the pool of spares without a cause.
const LOOK_AT_POOL_EVERY: Duration = Duration::from_secs(3600);
/// The pause between two looks for changes in the pool, while an array needs a spare that it did not get. Such a look opens no
/// drive that rests. All drives are opened again after the same pause, and then after twice the last one, because not every
/// change shows.
const LOOK_IN_NEED_EVERY: Duration = Duration::from_secs(30);
/// The time in which a drive shows whether it is in use.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// The time that the thread may take for an order. A start may replay a log, and wait for many drives.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);

/// A client that gave up before would call the daemon stuck.
const _: () = assert!(ANSWER_WITHIN.as_secs() < KEEPER_DONE.as_secs());

type Answer = Result<String, ApiError>;

/// An order to the thread.
enum Wish {
    Drive {
        path: PathBuf,
        plugged_in: bool,
    },
    Reload,
    Start {
        name: String,
        force: bool,
    },
    /// Something has happened to a member.
    LookForNeeds,
    /// The name service has answered for the group of an array's disks.
    Group {
        array: Uuid,
        group: Result<u32, String>,
    },
    End,
}

/// The keeper, as other threads reach it.
pub struct Keeper {
    wishes: Mutex<Sender<(Wish, Sender<Answer>)>>,
    /// The configuration in force.
    config: Arc<Mutex<Arc<Config>>>,
    shown: Arc<Mutex<Vec<AdoptedView>>>,
    service: Arc<Service>,
    ending: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// Starts the thread. It looks at all drives, and starts what can start; then `ready` is called once, and `reloaded` whenever
    /// another configuration applies.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        config_path: PathBuf,
        config: Config,
        service: Arc<Service>,
        ready: impl FnOnce() + Send + 'static,
        reloaded: impl Fn(&Config) + Send + 'static,
    ) -> Result<Arc<Self>, Failure> {
        let (wishes, asked) = channel();
        let arrays: Vec<Entry> = config.arrays.iter().cloned().map(Entry::new).collect();
        // None is forgotten until the first look has ended.
        let looks_at_devices = config.daemon.block_devices;
        let shown = Arc::new(Mutex::new(arrays.iter().map(|entry| entry.view(&service, looks_at_devices)).collect()));
        let ending = Arc::<AtomicBool>::default();
        let (listening, reported) = (false, Vec::new());
        let shared_config = Arc::new(Mutex::new(Arc::new(config.clone())));
        let mut work = Work {
            config_path,
            config,
            shared_config: Arc::clone(&shared_config),
            service: Arc::clone(&service),
            drives: Drives::default(),
            arrays,
            shown: Arc::clone(&shown),
            ending: Arc::clone(&ending),
            listening,
            reported,
            reloaded: Box::new(reloaded),
            held: Vec::new(),
            in_need: Vec::new(),
            needs_at: Instant::now(),
            seen: None,
            returning: Vec::new(),
            left: Vec::new(),
            watch: Watch::new(wishes.clone()),
            wishes: wishes.clone(),
            released: Vec::new(),
        };
        look_for_needs_after_events(&service, &wishes)?;
        let waking = wishes.clone();
        // Nobody waits for the answer, and a thread that has ended needs no call.
        service.wake_with(move || drop(waking.send((Wish::LookForNeeds, channel().0))));
        let thread = threads::start("keeper", move || {
            work.scan();
            work.consider_all();
            work.give_spares();
            work.listening = true;
            work.show();
            ready();
            work.run(&asked);
        });
        let thread = Mutex::new(Some(thread?));
        Ok(Arc::new(Self { wishes: Mutex::new(wishes), config: shared_config, shown, service, ending, thread }))
    }

    /// The arrays of the configuration, as they were when the thread last looked, except that one may have stopped since.
    pub fn adopted(&self) -> Vec<AdoptedView> {
        let mut shown = lock(&self.shown).clone();
        for view in shown.iter_mut().filter(|view| view.state == AdoptedState::Served && !self.service.serves(&view.name)) {
            let said = match self.service.unstarted(&view.name) {
                Some(unstarted) => {
                    (view.state, view.obstacle) = (AdoptedState::Waiting, Some(Obstacle::Other));
                    unstarted.said
                }
                None => {
                    (view.state, view.obstacle) = (AdoptedState::Stopped, None);
                    stopped(view.name.clone())
                }
            };
            (view.text, view.said) = (said.to_string(), Some(said));
        }
        shown
    }

    /// Returns the configuration in force. A change of its file shows here only after a reload has accepted it.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&lock(&self.config))
    }

    /// The same as [`Keeper::config`], for a thread that must not keep the keeper alive.
    pub fn config_reader(&self) -> impl Fn() -> Arc<Config> + Send + Sync + 'static {
        let config = Arc::clone(&self.config);
        move || Arc::clone(&lock(&config))
    }

    fn ask(&self, wish: Wish) -> Answer {
        let (answer, answered) = channel();
        let sent = lock(&self.wishes).send((wish, answer));
        let over = || ApiError::new(ApiErrorKind::Refused, ErrorSentence::DaemonStops {});
        sent.map_err(|_| over())?;
        // The thread may be waiting for a drive or a lane that hangs.
        answered.recv_timeout(ANSWER_WITHIN).map_err(|error| match error {
            RecvTimeoutError::Disconnected => over(),
            RecvTimeoutError::Timeout => {
                ApiError::new(ApiErrorKind::Failed, ErrorSentence::NotFinished { seconds: ANSWER_WITHIN.as_secs() })
            }
        })?
    }

    /// A drive has come. `plugged_in`: it was attached just now, so a running array may take it back.
    ///
    /// # Errors
    /// When it cannot be read, or belongs to no array of the configuration.
    pub fn drive(&self, path: PathBuf, plugged_in: bool) -> Answer {
        self.ask(Wish::Drive { path, plugged_in })
    }

    /// Reads the configuration and looks at all drives again.
    ///
    /// # Errors
    /// When the configuration is invalid; then the old one holds.
    pub fn reload(&self) -> Answer {
        self.ask(Wish::Reload)
    }

    /// Starts an array now, degraded too; with `force` also if data may be lost.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub fn start_array(&self, name: String, force: bool) -> Answer {
        self.ask(Wish::Start { name, force })
    }

    /// Starts nothing any more, and waits until what is being started has: for `patience` at most, as the thread may wait for a
    /// lane that hangs.
    pub fn end(&self, patience: Duration) {
        self.ending.store(true, Ordering::SeqCst);
        let (answer, answered) = channel();
        let sent = lock(&self.wishes).send((Wish::End, answer));
        // A thread that has ended has dropped its end of the queue.
        if sent.is_ok() && matches!(answered.recv_timeout(patience), Err(RecvTimeoutError::Timeout)) {
            let text =
                format!("what the daemon was doing has not ended for {} s: the arrays are stopped now", patience.as_secs());
            return self.service.events().push(view::plain_event("", "warning", text));
        }
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

/// Makes the thread look for arrays in need after each event that may leave one so.
fn look_for_needs_after_events(service: &Arc<Service>, wishes: &Sender<(Wish, Sender<Answer>)>) -> Result<(), Failure> {
    let (_, mut live) = service.events().listen(0);
    let wishes = wishes.clone();
    let follow = move || {
        loop {
            match live.blocking_recv() {
                Ok(event) if !matches!(event.kind.as_str(), "member_failed" | "member_gone" | "started" | "resumed") => {
                    continue;
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
            // Nothing waits for this answer.
            if wishes.send((Wish::LookForNeeds, channel().0)).is_err() {
                return;
            }
        }
    };
    threads::start("needs", follow).map(drop)
}

/// `1 array`
pub fn count_of(arrays: usize) -> String {
    format!("{arrays} {}", if arrays == 1 { "array" } else { "arrays" })
}

fn stopped(array: String) -> ErrorSentence {
    ErrorSentence::ArrayIsStopped { array }
}

/// The drive has not answered: it is looked at again once it does.
fn wait_for(watch: &Watch, path: &Path) {
    if watch.wait_for(path) {
        tracing::warn!("{} does not answer; it is looked at again when it does", path.display());
    }
}

/// True if a drive has a user, this process among them, or does not show whether it has one.
fn is_in_use(path: &Path) -> bool {
    let opened = within_at("open", path, OPEN_WITHIN, |path| SyncDrive::open(path, Access::Exclusive).map(drop));
    !matches!(opened, Ok(Ok(()) | Err(DriveError::Missing { .. })))
}

/// The state of an array of the configuration.
struct Entry {
    array: config::Array,
    state: State,
    /// The name on disk, once a drive was seen.
    name_on_disk: Option<String>,
    drives: Vec<PathBuf>,
    /// The number of tries that found its drives in use.
    busy: u32,
    patience: Patience,
    /// Drives of its own that did not answer.
    silent: Vec<PathBuf>,
    /// The slots without a member when its drives were looked at last, by the UUID of the array or span.
    lacking: Vec<(String, Vec<usize>)>,
    /// The drives that stay out, as they were reported at the last try to start.
    out: Vec<StaysOut>,
}

enum State {
    Absent,
    /// Why, and the time of the next look.
    Waiting(Reason, Option<Instant>),
    Served(Opened),
    Stopped,
    Refused(Reason),
}

/// How long an array waits for drives that it lacks. Its state has the time of the next look, which may be earlier: drives in use
/// are tried again.
#[derive(Clone, Copy)]
enum Patience {
    /// It lacks none, or waits without an end.
    Unbounded,
    /// Until then.
    Until(Instant),
    /// It has waited long enough, and starts without them.
    Over,
}

/// Why an array is not served.
#[derive(Clone, PartialEq)]
struct Reason {
    words: Words,
    obstacle: Obstacle,
}

impl Reason {
    fn new(obstacle: Obstacle, words: impl Into<Words>) -> Self {
        Self { words: words.into(), obstacle }
    }
}

impl Entry {
    fn new(array: config::Array) -> Self {
        let state = if array.start { State::Absent } else { State::Stopped };
        let (name_on_disk, patience) = (None, Patience::Unbounded);
        Self {
            array,
            state,
            name_on_disk,
            drives: Vec::new(),
            busy: 0,
            patience,
            silent: Vec::new(),
            lacking: Vec::new(),
            out: Vec::new(),
        }
    }

    fn name(&self) -> String {
        let on_disk = self.name_on_disk.as_deref().map(|name| short_name(name).to_owned());
        self.array.name.clone().or(on_disk).unwrap_or_else(|| self.array.uuid.to_string())
    }

    /// The UUIDs of the array and of its spans.
    fn uuids(&self) -> Vec<String> {
        std::iter::once(&self.array.uuid).chain(&self.array.spans).map(Uuid::to_string).collect()
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(_, at) => *at,
            State::Absent | State::Served(_) | State::Stopped | State::Refused(_) => None,
        }
    }

    /// The drives of slots that lack one, as they are remembered, in words that follow a sentence. Of two copies of a member they
    /// tell which one the array has used.
    fn lost_drives(&self, service: &Service) -> String {
        let known: Vec<LastDrive> = match &self.state {
            State::Absent => self.uuids().iter().flat_map(|uuid| service.last_drives(uuid, |_| true)).collect(),
            State::Waiting(why, _) if matches!(why.obstacle, Obstacle::Drives | Obstacle::TooFew) => {
                let of = |(uuid, slots): &(String, Vec<usize>)| service.last_drives(uuid, |slot| slots.contains(&slot));
                self.lacking.iter().flat_map(of).collect()
            }
            State::Waiting(..) | State::Served(_) | State::Stopped | State::Refused(_) => Vec::new(),
        };
        known.iter().map(view::last_drive).collect()
    }

    /// `looks_at_devices`: the configuration's `block-devices`.
    fn view(&self, service: &Service, looks_at_devices: bool) -> AdoptedView {
        let (state, words, obstacle) = match &self.state {
            State::Absent if looks_at_devices => (AdoptedState::Absent, ErrorSentence::NoneHere {}.into(), None),
            State::Absent => (AdoptedState::Absent, ErrorSentence::NoneAmongImages {}.into(), None),
            State::Waiting(why, _) => (AdoptedState::Waiting, why.words.clone(), Some(why.obstacle)),
            State::Served(_) => (AdoptedState::Served, Words::from("served"), None),
            State::Stopped => (AdoptedState::Stopped, stopped(self.name()).into(), None),
            State::Refused(why) => (AdoptedState::Refused, why.words.clone(), Some(why.obstacle)),
        };
        let drives = self.drives.iter().map(|path| path.display().to_string()).collect();
        let left = self.deadline().map(|at| at.saturating_duration_since(Instant::now()).as_secs());
        let (name, uuid, Words { text, said }) = (self.name(), self.array.uuid.to_string(), words);
        // The sentence of a program is complete without them.
        let text = text + &self.lost_drives(service);
        AdoptedView { name, uuid, state, text, said, obstacle, drives, again_in_s: left }
    }
}

struct Work {
    config_path: PathBuf,
    config: Config,
    /// The copy of `config` that [`Keeper::config`] returns.
    shared_config: Arc<Mutex<Arc<Config>>>,
    service: Arc<Service>,
    drives: Drives,
    arrays: Vec<Entry>,
    shown: Arc<Mutex<Vec<AdoptedView>>>,
    ending: Arc<AtomicBool>,
    /// Clients may connect.
    listening: bool,
    /// Drives that could not be read, as they were reported.
    reported: Vec<String>,
    /// Called when another configuration applies.
    reloaded: Box<dyn Fn(&Config) + Send>,
    /// The free drives of the pool of spares, locked.
    held: Vec<SyncDrive>,
    /// The last report on arrays that the pool has no spare for.
    in_need: Vec<String>,
    /// The time of the next look at the pool without another cause.
    needs_at: Instant,
    /// The pool as it was last seen while an array is in need. The time and the pause are those of the next look that opens all
    /// drives.
    seen: Option<(spares::Seen, Instant, Duration)>,
    /// Drives that came back while their array still counted them as members.
    returning: Vec<(Uuid, PathBuf)>,
    /// Drives that came back and were left as they are.
    left: Vec<Left>,
    /// Drives that did not answer.
    watch: Watch,
    /// Its own queue.
    wishes: Sender<(Wish, Sender<Answer>)>,
    /// Arrays that a reload took out of the configuration, and that are served until they are stopped.
    released: Vec<Entry>,
}

impl Work {
    fn run(&mut self, asked: &Receiver<(Wish, Sender<Answer>)>) {
        loop {
            let again = (!self.returning.is_empty() || !self.left.is_empty()).then(|| Instant::now() + AGAIN_AFTER);
            let next = self.arrays.iter().filter_map(Entry::deadline).chain(again).min();
            let next = next.map_or(self.needs_at, |at| at.min(self.needs_at));
            match asked.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok((Wish::End, answer)) => {
                    let _ = answer.send(Ok(String::new()));
                    return;
                }
                Ok((wish, answer)) => self.obey(wish, &answer),
                Err(RecvTimeoutError::Timeout) => {
                    self.time_is_up();
                    self.try_returning();
                    self.follow_left();
                    if self.needs_at <= Instant::now() {
                        self.look_in_need();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.show();
        }
    }

    fn obey(&mut self, wish: Wish, answer: &Sender<Answer>) {
        self.note_stops();
        match wish {
            Wish::Drive { path, plugged_in } => {
                self.drive(&path, plugged_in, answer);
                self.give_spares();
            }
            Wish::LookForNeeds => {
                self.try_returning();
                self.give_spares();
                let _ = answer.send(Ok(String::new()));
            }
            Wish::Reload => {
                let outcome = self.reload();
                self.show();
                let _ = answer.send(outcome);
                self.give_spares();
            }
            Wish::Start { name, force } => {
                let outcome = self.start(&name, force);
                self.show();
                let _ = answer.send(outcome);
                self.give_spares();
            }
            Wish::Group { array, group } => {
                self.group_is_known(array, group);
                let _ = answer.send(Ok(String::new()));
            }
            Wish::End => unreachable!("it ends the loop"),
        }
    }

    /// Opens the drives of the pool again if something has changed, or if the last time is long ago.
    fn look_in_need(&mut self) {
        let Some((seen, at, pause)) = &self.seen else { return self.give_spares() };
        let longer = (*pause * 2).min(LOOK_AT_POOL_EVERY);
        if seen.has_changed(&self.service) {
            self.give_spares();
        } else if *at <= Instant::now() {
            self.give_spares();
            if let Some((_, at, pause)) = &mut self.seen {
                (*at, *pause) = (Instant::now() + longer, longer);
            }
        } else {
            self.needs_at = Instant::now() + LOOK_IN_NEED_EVERY;
        }
    }

    /// Spares of the pool go to arrays that lack members. The others are locked, so that no other program takes them.
    fn give_spares(&mut self) {
        self.seen = None;
        self.held.clear();
        self.needs_at = Instant::now() + LOOK_AT_POOL_EVERY;
        if self.ending.load(Ordering::SeqCst) {
            return;
        }
        let (watch, policy) = (&self.watch, &self.config.spares);
        let look = || {
            let (pool, silent) = spares::look_at_those(&policy.drives, |path| watch.is_silent(path));
            silent.iter().for_each(|path| wait_for(watch, path));
            pool
        };
        let is_met = spares::give(&self.service, policy, &mut self.in_need, look);
        let pool = look();
        self.held = spares::hold(&pool);
        if !is_met {
            let seen = spares::Seen::of(&self.service, &pool, &self.held, |path| self.watch.is_silent(path));
            self.needs_at = Instant::now() + LOOK_IN_NEED_EVERY;
            self.seen = Some((seen, self.needs_at, LOOK_IN_NEED_EVERY));
        }
    }

    /// Tries again the drives that came back before their array had missed them.
    fn try_returning(&mut self) {
        self.note_stops();
        self.returning.retain(|(_, path)| path.exists());
        for (uuid, path) in self.returning.clone() {
            let Some(index) = self.arrays.iter().position(|entry| entry.array.uuid == uuid) else { continue };
            let State::Served(opened) = &self.arrays[index].state else { continue };
            if self.service.array(&opened.name).is_ok_and(|view| view.condition.silent_s.is_none() && view::has_lost(&view)) {
                self.take_back(index, &path);
            }
        }
        let is_served =
            |uuid: &Uuid| self.arrays.iter().any(|entry| entry.array.uuid == *uuid && matches!(entry.state, State::Served(_)));
        self.returning.retain(|(uuid, _)| is_served(uuid));
    }

    fn show(&mut self) {
        self.note_stops();
        self.show_left();
        let looks_at_devices = self.config.daemon.block_devices;
        *lock(&self.shown) = self.arrays.iter().map(|entry| entry.view(&self.service, looks_at_devices)).collect();
    }

    /// Arrays that were stopped by a command are not started again by themselves. Those that were stopped to be changed are.
    fn note_stops(&mut self) {
        for index in 0..self.arrays.len() {
            let State::Served(opened) = &self.arrays[index].state else { continue };
            if self.service.serves(&opened.name) {
                continue;
            }
            match self.service.take_unstarted(&opened.name) {
                Some(Unstarted { silent: Some(path), .. }) => self.wait_for_drive(index, &path),
                Some(Unstarted { said, silent: None }) => {
                    // It was served without the drives that it lacks, or could have been.
                    (self.arrays[index].busy, self.arrays[index].patience) = (0, Patience::Over);
                    let (reason, cause) = Words::from(said).parts();
                    let why = Reason::new(Obstacle::Other, ErrorSentence::TriedAgain { reason, cause });
                    self.wait(index, why, Some(Instant::now() + AGAIN_AFTER));
                }
                None => self.arrays[index].state = State::Stopped,
            }
        }
        for entry in &mut self.released {
            if let State::Served(opened) = &entry.state
                && !self.service.serves(&opened.name)
            {
                entry.state = State::Stopped;
            }
        }
        for gone in self.released.extract_if(.., |entry| matches!(entry.state, State::Stopped)) {
            self.service.forget_notes(&gone.uuids());
        }
    }

    fn event(&self, array: &str, kind: &str, text: String) {
        self.service.events().push(view::plain_event(array, kind, text));
    }

    /// Looks at all drives.
    fn scan(&mut self) {
        let is_silent = |path: &Path| self.watch.is_silent(path);
        let errors = self.drives.scan(&self.config.daemon, &self.config.spares.drives, is_silent);
        errors.iter().filter_map(HostError::silent_drive).for_each(|path| wait_for(&self.watch, path));
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        for error in errors.iter().filter(|error| !self.reported.contains(error)) {
            tracing::debug!("not looked at: {error}");
        }
        self.reported = errors;
    }

    /// An array waits for a drive of its own that does not answer: no longer than for one that is missing.
    fn wait_for_drive(&mut self, index: usize, path: &Path) {
        wait_for(&self.watch, path);
        self.note_silent(index, path);
        self.arrays[index].busy = 0;
        let said = ErrorSentence::WaitsForAnswer { drive: path.display().to_string() };
        self.arrays[index].patience = Patience::Unbounded;
        let until = self.patience_of(index);
        self.wait(index, Reason::new(Obstacle::Silent, said), until);
    }

    /// The time until which an array waits for drives that it lacks, from now on if it lacked none before; `None`: without an
    /// end.
    fn patience_of(&mut self, index: usize) -> Option<Instant> {
        if let Patience::Until(at) = self.arrays[index].patience {
            return Some(at);
        }
        let until = self.config.daemon.degraded_after.0.map(|patience| Instant::now() + patience);
        self.arrays[index].patience = until.map_or(Patience::Unbounded, Patience::Until);
        until
    }

    fn note_silent(&mut self, index: usize, path: &Path) {
        let known = &mut self.arrays[index].silent;
        if !known.iter().any(|known| known == path) {
            known.push(path.to_owned());
        }
    }

    /// Why an array waits for drives: with those of its own that do not answer.
    fn lack(&mut self, index: usize, words: impl Into<Words>) -> Reason {
        let (watch, known) = (&self.watch, &mut self.arrays[index].silent);
        known.retain(|path| watch.is_silent(path));
        match &known[..] {
            [] => Reason::new(Obstacle::Drives, words),
            silent => {
                let silent = SilentDrives(silent.iter().map(|path| path.display().to_string()).collect());
                let (reason, cause) = words.into().parts();
                Reason::new(Obstacle::Silent, ErrorSentence::WaitsForSilent { silent, reason, cause })
            }
        }
    }

    fn consider_all(&mut self) {
        for index in 0..self.arrays.len() {
            self.consider(index);
        }
    }

    /// Starts what waited long enough, after a last look for drives whose coming was missed.
    fn time_is_up(&mut self) {
        self.note_stops();
        let now = Instant::now();
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let due: Vec<Uuid> = self.arrays.iter().filter(|entry| is_past(entry.deadline())).map(|entry| entry.array.uuid).collect();
        if due.is_empty() {
            return;
        }
        self.scan();
        for index in 0..self.arrays.len() {
            let entry = &mut self.arrays[index];
            let is_due = due.contains(&entry.array.uuid);
            if is_due && matches!(entry.patience, Patience::Until(at) if is_past(Some(at))) {
                entry.patience = Patience::Over;
            }
            // Any other array gains nothing by another try, which would count against it.
            if is_due || self.drives.of(&entry.array) != entry.drives {
                self.consider(index);
            }
        }
    }

    /// Starts an array if it can start and need not wait.
    fn consider(&mut self, index: usize) {
        if self.ending.load(Ordering::SeqCst) || matches!(self.arrays[index].state, State::Served(_) | State::Stopped) {
            return;
        }
        let how = self.arrays[index].array.how();
        let judged = self.judge(index, how);
        let (judgement, out) = match judged {
            None => {
                (self.arrays[index].state, self.arrays[index].patience) = (State::Absent, Patience::Unbounded);
                return;
            }
            Some(Err(error)) => {
                return match error.silent_drive() {
                    Some(path) => self.wait_for_drive(index, path),
                    None => self.refuse(index, Reason::new(Obstacle::Other, error)),
                };
            }
            Some(Ok(judged)) => judged,
        };
        let entry = &mut self.arrays[index];
        match judgement {
            Judgement::Complete(planned) => {
                entry.patience = Patience::Unbounded;
                self.open(index, &planned, how, &out);
            }
            Judgement::Degraded(planned, lacks) if matches!(entry.patience, Patience::Over) => {
                let (name, said) = (entry.name(), ServiceSentence::ArrayStartsWithout { lacks });
                if entry.busy == 0 {
                    self.service.events().push(view::said_event(&name, "warning", said));
                }
                self.open(index, &planned, how, &out);
            }
            Judgement::Degraded(_, lacks) => {
                let array = entry.name();
                let said = match self.config.daemon.degraded_after.0 {
                    Some(_) => ErrorSentence::WaitsThenStarts { lacks, array },
                    None => ErrorSentence::WaitsForAll { lacks, array },
                };
                // The drive that was in use may be the one that is gone.
                entry.busy = 0;
                let why = self.lack(index, said);
                let until = self.patience_of(index);
                self.wait(index, why, until);
            }
            Judgement::Impossible { reason, is_unsafe, is_too_few } => {
                let words = match is_unsafe {
                    true => {
                        let ((reason, cause), array) = (reason.parts(), entry.name());
                        ErrorSentence::StartsByForce { reason, cause, array }.into()
                    }
                    false => reason,
                };
                (entry.busy, entry.patience) = (0, Patience::Unbounded);
                let mut why = self.lack(index, words);
                if is_too_few && why.obstacle == Obstacle::Drives {
                    why.obstacle = Obstacle::TooFew;
                }
                self.wait(index, why, None);
            }
        }
    }

    /// `None`: none of its drives is here.
    fn judge(&mut self, index: usize, how: OpenOptions) -> Option<Result<(Judgement, Vec<StaysOut>), HostError>> {
        let found = match self.find(index, how)? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let entry = &mut self.arrays[index];
        if let Some(assembly) = found.assemblies.iter().find(|assembly| assembly.uuid == entry.array.uuid.0) {
            entry.name_on_disk = Some(assembly.name.clone());
        }
        let lacking = found.assemblies.iter().map(|assembly| (uuid_text(&assembly.uuid), assembly.missing_slots.clone()));
        entry.lacking = lacking.collect();
        Some(Ok(judge(found, entry.array.uuid)))
    }

    /// The arrays on the drives of one that answer: a drive that does not counts as missing. `None`: none of its drives is here.
    fn find(&mut self, index: usize, how: OpenOptions) -> Option<Result<Found, HostError>> {
        let entry = &mut self.arrays[index];
        entry.drives = self.drives.of(&entry.array);
        let first = entry.drives.first()?.clone();
        let text = format!("{} does not answer", first.display());
        let mut why = HostError::Silent { path: first, text };
        let mut drives: Vec<PathBuf> = entry.drives.iter().filter(|path| !self.watch.is_silent(path)).cloned().collect();
        while !drives.is_empty() {
            let error = match find(&drives, how) {
                Ok(found) => return Some(Ok(found)),
                Err(error) => error,
            };
            let Some(silent) = error.silent_drive().map(Path::to_owned).filter(|silent| drives.contains(silent)) else {
                return Some(Err(error));
            };
            wait_for(&self.watch, &silent);
            self.note_silent(index, &silent);
            drives.retain(|path| *path != silent);
            why = error;
        }
        Some(Err(why))
    }

    fn wait(&mut self, index: usize, why: Reason, until: Option<Instant>) {
        let entry = &mut self.arrays[index];
        let is_news = !matches!(&entry.state, State::Waiting(known, _) if *known == why);
        let words = why.words.clone();
        entry.state = State::Waiting(why, until);
        let name = entry.name();
        if is_news {
            self.service.events().push(view::worded_event(&name, "waiting", words));
        }
    }

    fn refuse(&mut self, index: usize, why: Reason) {
        let entry = &mut self.arrays[index];
        let is_news = !matches!(&entry.state, State::Refused(known) if *known == why);
        let (name, (reason, cause)) = (entry.name(), why.words.clone().parts());
        (entry.state, entry.patience) = (State::Refused(why), Patience::Unbounded);
        if is_news {
            let said = ServiceSentence::ArrayDoesNotStart { array: name.clone(), reason, cause };
            self.service.events().push(view::said_event(&name, "warning", said));
        }
    }

    fn open(&mut self, index: usize, planned: &stria_host::PlannedArray, how: OpenOptions, out: &[StaysOut]) {
        let entry = &mut self.arrays[index];
        let name = entry.name();
        let known = std::mem::replace(&mut entry.out, out.to_vec());
        for out in out.iter().filter(|out| !out.is_known(&known)) {
            self.service.events().push(match words::start::of_staying_out(out) {
                Some(said) => view::said_event(&name, "warning", EventSentence::Warning(said)),
                None => view::plain_event(&name, "warning", out.text.clone()),
            });
        }
        match open(&self.service, planned, &name, &entry.array, how, self.listening) {
            Ok(mut opened) => {
                (entry.busy, entry.patience) = (0, Patience::Unbounded);
                entry.out.clear();
                let late_group = opened.late_group.take();
                entry.state = State::Served(opened);
                if let Some(answer) = late_group {
                    self.wait_for_group(index, &name, answer);
                }
            }
            Err(Refused { words, obstacle: obstacle @ (Obstacle::InUse | Obstacle::Group), .. }) if entry.busy < TRIES => {
                entry.busy += 1;
                let (reason, cause) = words.parts();
                let why = Reason::new(obstacle, ErrorSentence::TriedAgain { reason, cause });
                self.wait(index, why, Some(Instant::now() + AGAIN_AFTER));
            }
            Err(Refused { silent: Some(path), .. }) => self.wait_for_drive(index, &path),
            Err(Refused { words, obstacle, .. }) => {
                entry.busy = 0;
                let (reason, cause) = words.parts();
                self.refuse(index, Reason::new(obstacle, ErrorSentence::NotTriedAgain { reason, cause, array: name }));
            }
        }
    }

    /// Waits on a thread for the group of an array's disks: arrays start without the name service.
    fn wait_for_group(&mut self, index: usize, name: &str, answer: Receiver<Result<u32, String>>) {
        let config::Array { uuid, vhost_user, vhost_user_group, .. } = &self.arrays[index].array;
        let (uuid, wishes) = (*uuid, self.wishes.clone());
        let sockets: Vec<String> = vhost_user.iter().map(|path| path.display().to_string()).collect();
        let text = format!(
            "array \"{name}\" is served without its disks for virtual machines ({}): the name service of this machine has not found group {:?} \
             yet. They follow when it answers; a group's number needs no answer",
            sockets.join(", "),
            vhost_user_group.as_deref().unwrap_or_default()
        );
        let wait = move || {
            if let Ok(group) = answer.recv() {
                // Nothing receives it if the process is ending.
                let _ = wishes.send((Wish::Group { array: uuid, group }, channel().0));
            }
        };
        let begun = std::thread::Builder::new().name("group".into()).spawn(wait);
        match begun {
            Ok(_) => self.event(name, "warning", text),
            Err(error) => self.event(name, "warning", format!("{text}. No thread could be started to wait for it: {error}")),
        }
    }

    /// Gives an array its disks, unless it was stopped meanwhile, or started again with them.
    fn group_is_known(&mut self, array: Uuid, group: Result<u32, String>) {
        let Some(entry) = self.arrays.iter_mut().find(|entry| entry.array.uuid == array) else { return };
        let State::Served(opened) = &mut entry.state else { return };
        let name = opened.name.clone();
        let Some(uuid) = self.service.without_disks(&name) else { return };
        let added = group.and_then(|group| add_disks(&self.service, &name, &entry.array, of_group(group), &uuid, self.listening));
        match added {
            Ok(()) => opened.ways.extend(entry.array.vhost_user.iter().map(|path| path.display().to_string())),
            Err(error) => {
                let text = format!(
                    "array \"{name}\" is served without its disks for virtual machines: {error}; correct vhost-user-group, then \
                     `stria stop {word}` and `stria start {word}`",
                    word = shell_word(&name)
                );
                self.event(&name, "warning", text);
            }
        }
    }

    fn drive(&mut self, path: &Path, plugged_in: bool, answer: &Sender<Answer>) {
        let refuse = |kind, text: String| drop(answer.send(Err(ApiError::new(kind, text))));
        let (path, membership) = match self.drives.look(path) {
            Ok(looked) => looked,
            Err(error) => {
                if let Some(path) = error.silent_drive() {
                    wait_for(&self.watch, path);
                }
                return refuse(ApiErrorKind::Failed, error.to_string());
            }
        };
        // It is judged and reported anew.
        self.left.retain(|left| left.path != path);
        let shown = path.display();
        let Some(membership) = membership else {
            return refuse(ApiErrorKind::Refused, format!("{shown} is not a member of an array"));
        };
        let owner = self.arrays.iter().position(|entry| entry.array.owns(membership.set, membership.upper));
        let Some(index) = owner else {
            let uuid = membership.upper.unwrap_or(membership.set);
            let text = format!("{shown} belongs to array {uuid}, which is not Stria's: `stria adopt {uuid}` changes that");
            return refuse(ApiErrorKind::Refused, text);
        };
        let entry = &self.arrays[index];
        let name = entry.name();
        match &entry.state {
            State::Served(_) if plugged_in => {
                let _ = answer.send(Ok(format!("{shown} was a member of \"{name}\", which is served: it returns if it can")));
                self.take_back(index, &path);
            }
            State::Served(_) => drop(answer.send(Ok(format!("{shown} belongs to \"{name}\", which is served")))),
            State::Stopped => drop(answer.send(Ok(format!("{shown} belongs to \"{name}\", which is stopped")))),
            State::Absent | State::Waiting(..) | State::Refused(_) => {
                let _ =
                    answer.send(Ok(format!("{shown} belongs to \"{name}\", which starts when enough of its drives are here")));
                self.consider(index);
            }
        }
    }

    /// A drive that was away returns to its array, if the bitmap tells what it missed. Anything else is for people to decide.
    fn take_back(&mut self, index: usize, path: &Path) {
        let entry = &self.arrays[index];
        let State::Served(opened) = &entry.state else { return };
        let (uuid, name) = (entry.array.uuid, opened.name.clone());
        let how = OpenOptions { read_only: true, ..entry.array.how() };
        let (drive, array) = (path.display().to_string(), name.clone());
        self.returning.retain(|(_, known)| known != path);
        let known = self.left.extract_if(.., |left| left.path == path).next();
        let found = match self.find(index, how) {
            None => return,
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                let (reason, cause) = Words::from(error).parts();
                return self.leave(index, path, ErrorSentence::LeftUnread { drive, reason, cause }, known);
            }
        };
        let verdicts = found.assemblies.into_iter().flat_map(|assembly| assembly.drives);
        let verdict = verdicts.filter(|drive| Path::new(&drive.name) == path).map(|drive| drive.verdict).next();
        let why = match verdict {
            Some(Verdict::Away { obstacle: None, .. }) => self.rejoin(&name, path),
            Some(Verdict::Spare) if !is_in_use(path) => self.rejoin(&name, path),
            // The array has open what was at this path before, and has not missed it yet.
            Some(Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. }) if !is_in_use(path) => {
                self.returning.push((uuid, path.to_owned()));
                Some(ErrorSentence::LeftCounted { drive, array })
            }
            Some(Verdict::Away { obstacle: Some(why), .. }) => {
                Some(ErrorSentence::LeftNeedsRebuild { drive, reason: why.to_string(), array })
            }
            Some(Verdict::Unusable { reason }) => Some(ErrorSentence::LeftOut { drive, array, reason: reason.to_string() }),
            Some(Verdict::Faulty) => Some(ErrorSentence::LeftFaulty { drive, array }),
            Some(Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare) | None => {
                None
            }
        };
        if let Some(why) = why {
            self.leave(index, path, why, known);
        }
    }

    /// Leaves a drive that came back as it is, and reports that until it changes. `known`: the report on it before.
    fn leave(&mut self, index: usize, path: &Path, why: ErrorSentence, known: Option<Left>) {
        let entry = &self.arrays[index];
        let (array, name, words) = (entry.array.uuid, entry.name(), Words::from(why));
        if known.is_none_or(|known| known.words != words) {
            self.service.events().push(view::worded_event(&name, "warning", words.clone()));
        }
        self.left.push(Left::new(array, path, words));
    }

    /// Lets a drive return to what it was in its array. If it cannot, it stays as it is: the reason.
    fn rejoin(&self, name: &str, path: &Path) -> Option<ErrorSentence> {
        let request =
            AddRequest { path: path.to_owned(), span: None, force: false, confirmed: None, seen: None, return_only: true };
        match self.service.add(name, request) {
            Ok(done) => {
                self.event(name, "member_returned", done.message);
                None
            }
            Err(error) => {
                let (reason, cause) = error.words().parts();
                Some(ErrorSentence::LeftRefused { drive: path.display().to_string(), reason, cause })
            }
        }
    }

    /// Looks again at drives that were left as they are, if they have changed since.
    fn follow_left(&mut self) {
        let changed = self.left.iter().filter(|left| left.has_changed()).map(|left| left.path.clone());
        for path in changed.collect::<Vec<_>>() {
            let looked = if path.exists() { self.drives.look(&path).ok() } else { None };
            let owner = looked.and_then(|(path, membership)| {
                let membership = membership?;
                let index = self.arrays.iter().position(|entry| entry.array.owns(membership.set, membership.upper))?;
                Some((index, path))
            });
            match owner {
                Some((index, path)) => self.take_back(index, &path),
                None => self.left.retain(|left| left.path != path),
            }
        }
    }

    /// Shows them with their arrays, while these are served.
    fn show_left(&mut self) {
        let mut views: BTreeMap<String, Vec<LeftAloneView>> = BTreeMap::new();
        let arrays = &self.arrays;
        self.left.retain(|left| {
            let entry = arrays.iter().find(|entry| entry.array.uuid == left.array);
            let Some(State::Served(opened)) = entry.map(|entry| &entry.state) else { return false };
            views.entry(opened.name.clone()).or_default().push(left.view());
            true
        });
        self.service.set_left_alone(views);
    }

    fn start(&mut self, name: &str, force: bool) -> Answer {
        let refuse = |words: Words| Err(ApiError::new(ApiErrorKind::Refused, words));
        let array = || name.to_owned();
        self.scan();
        let names = |entry: &Entry| {
            let on_disk = entry.name_on_disk.as_deref();
            entry.array.is_called(name)
                || entry.name() == name
                || on_disk.is_some_and(|known| known == name || short_name(known) == name)
        };
        // The names on disk of arrays that were not looked at yet.
        for index in 0..self.arrays.len() {
            if self.arrays[index].name_on_disk.is_none() {
                let how = self.arrays[index].array.how();
                let _ = self.judge(index, how);
            }
        }
        let Some(index) = self.arrays.iter().position(names) else {
            let known: Vec<String> = self.arrays.iter().map(Entry::name).collect();
            return Err(ApiError::new(ApiErrorKind::NotFound, view::no_array_of_stria(name, &known)));
        };
        if matches!(self.arrays[index].state, State::Served(_)) {
            return Ok(format!("array \"{name}\" is served already"));
        }
        let how = OpenOptions { force, ..self.arrays[index].array.how() };
        let (judgement, out) = match self.judge(index, how) {
            None => {
                let array = array();
                return refuse(match self.config.daemon.block_devices {
                    true => ErrorSentence::NoneOfItsDrives { array }.into(),
                    false => ErrorSentence::NoneOfItsImages { array }.into(),
                });
            }
            Some(Err(error)) => {
                if let Some(path) = error.silent_drive() {
                    self.wait_for_drive(index, path);
                }
                return refuse(error.into());
            }
            Some(Ok(judged)) => judged,
        };
        match judgement {
            Judgement::Complete(planned) | Judgement::Degraded(planned, _) => {
                self.arrays[index].busy = TRIES;
                self.open(index, &planned, how, &out);
                match &self.arrays[index].state {
                    State::Served(opened) => Ok(format!("array \"{}\" is served at {}", opened.name, opened.ways.join(" and "))),
                    State::Refused(why) => refuse(why.words.clone()),
                    State::Waiting(why, _) => {
                        let (reason, cause) = why.words.clone().parts();
                        refuse(ErrorSentence::DidNotStartBecause { array: array(), reason, cause }.into())
                    }
                    State::Absent | State::Stopped => refuse(ErrorSentence::DidNotStart { array: array() }.into()),
                }
            }
            Judgement::Impossible { reason, is_unsafe: true, .. } => {
                let (reason, cause) = reason.parts();
                Err(ApiError::new(ApiErrorKind::Unsafe, ErrorSentence::StartIsUnsafe { reason, cause }))
            }
            Judgement::Impossible { reason, is_unsafe: false, .. } => refuse(reason),
        }
    }

    /// Makes settings of a served array hold that were changed in the configuration; or says when they will.
    fn apply(&self, name: &str, held: Held, array: &config::Array) -> Option<String> {
        if held.read_only != array.read_only {
            let wanted = if array.read_only { "on" } else { "off" };
            return Some(format!(
                "`stria set {word} --read-only {wanted}` makes the configuration hold",
                word = shell_word(name)
            ));
        }
        let write = (held.write != array.write).then_some(array.write);
        let drive_caches = array.drive_caches.filter(|_| held.drive_caches != array.drive_caches);
        if write.is_none() && drive_caches.is_none() {
            return None;
        }
        let set = self.service.set(name, &SettingsRequest { write, drive_caches, ..SettingsRequest::default() });
        Some(set.map_or_else(|error| error.to_string(), |done| done.message))
    }

    /// Events for what another configuration gives to Stria or takes from it: an edit of the file is no order.
    fn tell_changes(&self, config: &Config) {
        let tell = |name: &str, kind, text| self.service.events().push(view::plain_event(name, kind, text));
        for array in &config.arrays {
            let (name, uuid) = (array.title(), array.uuid);
            match self.config.arrays.iter().find(|known| known.uuid == uuid) {
                None => tell(&name, "adopted", format!("array \"{name}\" ({uuid}) belongs to Stria now")),
                Some(known) if known.title() != name => {
                    tell(&name, "renamed", format!("array \"{}\" ({uuid}) is called \"{name}\" now", known.title()));
                }
                Some(_) => {}
            }
        }
        for known in self.config.arrays.iter().filter(|known| !config.arrays.iter().any(|array| array.uuid == known.uuid)) {
            let (name, uuid) = (known.title(), known.uuid);
            tell(&name, "released", format!("array \"{name}\" ({uuid}) is no longer Stria's"));
        }
        let (before, after) = (&self.config.spares.drives, &config.spares.drives);
        for drive in after.iter().filter(|drive| !before.contains(drive)) {
            tell("", "pool", format!("{} is in the pool of spares now", drive.display()));
        }
        for drive in before.iter().filter(|drive| !after.contains(drive)) {
            tell("", "pool", format!("{} is no longer in the pool of spares", drive.display()));
        }
    }

    fn reload(&mut self) -> Answer {
        let config = Config::read(&self.config_path);
        let config = config.map_err(|failure| {
            ApiError::new(ApiErrorKind::Refused, ErrorSentence::ReloadFailed { reason: failure.to_string() })
        })?;
        let mut notes = Vec::new();
        if config.nbd != self.config.nbd {
            notes.push("[nbd] applies when the daemon restarts".to_owned());
        }
        if config.api != self.config.api {
            notes.push("[api] applies when the daemon restarts, but for addresses over TCP that were not served yet".to_owned());
        }
        if config.metrics != self.config.metrics {
            notes.push("[metrics] applies when the daemon restarts".to_owned());
        }
        if config.daemon.state != self.config.daemon.state {
            notes.push("[daemon] state applies when the daemon restarts".to_owned());
        }
        self.tell_changes(&config);
        // An array that is in the configuration again may still be served from before.
        let mut old = std::mem::take(&mut self.arrays);
        old.append(&mut self.released);
        for array in &config.arrays {
            let Some(index) = old.iter().position(|entry| entry.array.uuid == array.uuid) else {
                self.arrays.push(Entry::new(array.clone()));
                continue;
            };
            let mut entry = old.swap_remove(index);
            if let State::Served(opened) = &entry.state {
                notes.extend(self.service.settings(&opened.name).and_then(|held| self.apply(&opened.name, held, array)));
            }
            // Settings that hold at once, or hold already, as `stria set` has made them.
            let as_set = config::Array {
                write: array.write,
                drive_caches: array.drive_caches,
                read_only: array.read_only,
                ..entry.array.clone()
            };
            if as_set != *array && matches!(entry.state, State::Served(_)) {
                notes.push(format!("what changed for array \"{}\" applies when it is stopped and started", entry.name()));
            }
            let is_due = matches!(entry.state, State::Stopped) && array.start && !entry.array.start;
            entry.array = array.clone();
            if !array.start && !matches!(entry.state, State::Served(_)) {
                (entry.state, entry.busy, entry.patience) = (State::Stopped, 0, Patience::Unbounded);
            } else if is_due || matches!(entry.state, State::Refused(_)) {
                (entry.state, entry.busy, entry.patience) = (State::Absent, 0, Patience::Unbounded);
            }
            self.arrays.push(entry);
        }
        for gone in old.extract_if(.., |entry| !matches!(entry.state, State::Served(_))) {
            self.service.forget_notes(&gone.uuids());
        }
        for entry in &old {
            notes.push(format!("array \"{}\" is no longer Stria's, and is served until it is stopped", entry.name()));
        }
        self.released = old;
        (self.reloaded)(&config);
        *lock(&self.shared_config) = Arc::new(config.clone());
        self.config = config;
        self.scan();
        self.consider_all();
        let served = self.arrays.iter().filter(|entry| matches!(entry.state, State::Served(_))).count();
        let text = format!("the configuration was read: {}, {served} served", count_of(self.arrays.len()));
        Ok([vec![text], notes].concat().join("; "))
    }
}
