//! Routine work of the daemon: scrubs and self-tests by schedule, members that are copied to a spare before they fail, and what
//! all that found.
//!
//! ```text
//!   calendar, quiet hours, links (stria-routine) ─┐
//!   views of arrays, health of drives ────────────┼▶ look, every second ─ scrub, self-test, replace ─▶ service
//!   notes of what was done (ledger) ──────────────┘
//! ```
//! One thread does it. A scrub that the end of the quiet hours, a restart or a failed member interrupts goes on from its
//! position. Scrubs by schedule only find: what they find is repaired by people. What runs on a link, a rebuild too, keeps all
//! other routine work off that link. Trim has no schedule: only a file system knows which space is free, and trims it through the
//! array (`fstrim.timer`).

mod foresight;

use crate::api::{ArrayView, EventView, HealthView, ReplaceRequest, RoutineView, ScrubRequest, ScrubView};
use crate::config::{Config, ReplacementConfig, RoutineConfig};
use crate::ledger::{JobNotes, Ledger, Notes};
use crate::monitor::{DriveEntry, Monitor};
use crate::service::Service;
use crate::system::clock::now_s;
use crate::system::threads;
use crate::view::{all_members, is_cancelled, is_held, is_redundant_itself, may_write, plain_event, said_event, tree};
use crate::words::event::{EventSentence, ServiceSentence};
use crate::words::warning::WarningSentence;
use foresight::Foresight;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use stria_drive::sysfs::{SYSFS, whole_folder};
use stria_drive::{within, within_at};
use stria_health::{Seat, SelfTest, read, start_self_test};
use stria_routine::{Calendar, Job, TimeZone, due, local_text, may_begin};
use stria_terminal::Failure;

/// The pause between two looks for events, and between two looks at what is due.
const GLANCE_EVERY: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause between two looks at the progress of a self-test.
const ASK_TEST_EVERY: Duration = Duration::from_secs(10);
/// A self-test without a result after this time has none. Long ones of large drives take half a day.
const TEST_LASTS: Duration = Duration::from_secs(3 * 24 * 3600);
/// The time in which a drive shows that a self-test runs, or its result.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);
/// A drive that has not answered for so long is followed no more: its link is free for other work.
const UNANSWERED_WITHIN: Duration = Duration::from_secs(3600);
/// The pause between two notes of a scrub's position for a restart.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// The time in which a drive begins a self-test.
const SELF_TEST_BEGINS_WITHIN: Duration = Duration::from_secs(20);
/// Work that was refused is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The time that a look at where a drive sits may take, and for which it holds.
const PLACE_WITHIN: Duration = Duration::from_secs(5);
const SEAT_HOLDS: Duration = Duration::from_secs(60);

/// The way in which a scrub was stopped.
#[derive(Clone, Copy)]
enum Stopped {
    Cancelled,
    Otherwise,
}

/// The thread's memory of a scrub that it began.
struct Scrubbing {
    /// The last event before it.
    sequence: u64,
    links: BTreeSet<String>,
    noted: Instant,
    /// The sectors with mismatches, and those that it could not compare, before it was interrupted: by the UUIDs of the array and
    /// its spans.
    before: BTreeMap<String, (u64, u64)>,
    /// The UUIDs of those for which it has ended. Kept here, as the events of the service do not reach back for hours.
    finished: BTreeSet<String>,
    /// It was stopped, and nothing holds it: the way in which.
    stopped: Option<Stopped>,
    /// The array was started anew, so nothing of the scrub is left, also if it was held by a pause.
    is_gone: bool,
}

impl Scrubbing {
    /// Notes an event of the array or span with this UUID.
    fn note(&mut self, uuid: &str, event: &EventView) {
        if event.sequence <= self.sequence || !self.before.contains_key(uuid) {
            return;
        }
        match event.kind.as_str() {
            "started" => self.is_gone = true,
            "sweep_started" if is_scrub(event) => self.stopped = None,
            "sweep_finished" if is_scrub(event) => {
                self.finished.insert(uuid.to_owned());
            }
            "sweep_stopped" if is_scrub(event) && !is_held(event) => {
                self.stopped = Some(if is_cancelled(event) { Stopped::Cancelled } else { Stopped::Otherwise });
            }
            _ => {}
        }
    }
}

/// A self-test that a drive makes.
struct Testing {
    long: bool,
    /// This thread began it. Otherwise it ran already: this process has restarted, or a person began it.
    is_own: bool,
    begun: Instant,
    ask_at: Instant,
    links: BTreeSet<String>,
    /// The mark of the drive's log before it.
    mark: u64,
    /// It does not run any more, or not yet, and the log has no other entry.
    idle_since: Option<Instant>,
    /// The drive has not answered since then.
    silent_since: Option<Instant>,
}

/// What a drive answers while it tests itself.
#[derive(Clone, Copy)]
enum Answer {
    /// Nothing.
    None,
    /// It sleeps, so it does not test itself, and its log cannot be read without waking it.
    Asleep,
    /// Its last self-test, and the mark of its log.
    Log(SelfTest, u64),
}

impl Testing {
    /// Its result, if it has one now.
    fn outcome(&mut self, answer: Answer, now: Instant) -> Option<&'static str> {
        const NO_RESULT: &str = "ended without a result";
        if now.duration_since(self.begun) >= TEST_LASTS {
            return Some(NO_RESULT);
        }
        let is_idle_for_long = |since: &mut Option<Instant>| now.duration_since(*since.get_or_insert(now)) >= SHOWS_WITHIN;
        let (test, mark) = match answer {
            Answer::None => {
                let since = *self.silent_since.get_or_insert(now);
                return (now.duration_since(since) >= UNANSWERED_WITHIN)
                    .then_some("has no known result, because the drive has not answered for an hour: check it and its cable");
            }
            Answer::Asleep => {
                self.silent_since = None;
                return is_idle_for_long(&mut self.idle_since).then_some("ended without a result: the drive sleeps");
            }
            Answer::Log(test, mark) => (test, mark),
        };
        self.silent_since = None;
        if test.running {
            self.idle_since = None;
            return None;
        }
        if mark == self.mark {
            return is_idle_for_long(&mut self.idle_since).then_some(NO_RESULT);
        }
        self.long = if self.is_own { self.long } else { test.long };
        Some(match test.passed.filter(|_| test.long == self.long) {
            Some(true) => "passed",
            Some(false) => "FAILED: the drive found a fault of its own; replace it",
            None => NO_RESULT,
        })
    }
}

/// The routine of one daemon.
pub struct Routine {
    reloads: Mutex<Sender<Config>>,
    shown: Arc<Mutex<Vec<RoutineView>>>,
}

impl Routine {
    /// Starts the thread. It ends with the service.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        service: &Arc<Service>,
        monitor: &Arc<Monitor>,
        ledger: &Arc<Ledger>,
        config: &Config,
    ) -> Result<Arc<Self>, Failure> {
        let (reloads, reloaded) = channel();
        let shown = Arc::<Mutex<Vec<RoutineView>>>::default();
        let mut work = Work {
            service: Arc::downgrade(service),
            monitor: Arc::clone(monitor),
            ledger: Arc::clone(ledger),
            routine: config.routine.clone(),
            replacement: config.replacement.clone(),
            begun: Instant::now(),
            foresight: Foresight::default(),
            sequence: 0,
            uuids: BTreeMap::new(),
            scrubs: BTreeMap::new(),
            tests: BTreeMap::new(),
            seats: BTreeMap::new(),
            again_at: BTreeMap::new(),
            shown: Arc::clone(&shown),
        };
        threads::start("routine", move || work.run(&reloaded))?;
        Ok(Arc::new(Self { reloads: Mutex::new(reloads), shown }))
    }

    /// Follows a new configuration from the next look on.
    pub fn reload(&self, config: &Config) {
        let _ = self.reloads.lock().unwrap_or_else(PoisonError::into_inner).send(config.clone());
    }

    /// The work by schedule, its times, and what came of it.
    pub fn shown(&self) -> Vec<RoutineView> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Work {
    service: Weak<Service>,
    monitor: Arc<Monitor>,
    ledger: Arc<Ledger>,
    routine: RoutineConfig,
    replacement: ReplacementConfig,
    /// The thread has watched the clock since then.
    begun: Instant,
    foresight: Foresight,
    /// The last event that was looked at.
    sequence: u64,
    /// The identities of arrays and spans, by name.
    uuids: BTreeMap<String, String>,
    /// Scrubs that run, by the array's UUID.
    scrubs: BTreeMap<String, Scrubbing>,
    /// Self-tests that run, by drive.
    tests: BTreeMap<PathBuf, Testing>,
    /// The links of drives, by path, and when they were looked up.
    seats: BTreeMap<String, (String, Instant)>,
    /// The times when work that was refused may be tried again.
    again_at: BTreeMap<String, Instant>,
    shown: Arc<Mutex<Vec<RoutineView>>>,
}

/// The work that may begin.
enum Task<'a> {
    Scrub { view: &'a ArrayView, from_bytes: u64 },
    SelfTest(DueTest<'a>),
}

/// A self-test that may begin. `key`: of the drive in the notes; `array`: the one that has the drive.
struct DueTest<'a> {
    entry: &'a DriveEntry,
    key: String,
    array: &'a str,
    long: bool,
}

fn unix_now() -> i64 {
    i64::try_from(now_s()).unwrap_or(i64::MAX)
}

impl Work {
    fn run(&mut self, reloaded: &Receiver<Config>) {
        let mut look_at = Instant::now();
        loop {
            std::thread::sleep(GLANCE_EVERY);
            let Some(service) = self.service.upgrade() else { return };
            for config in reloaded.try_iter() {
                (self.routine, self.replacement) = (config.routine, config.replacement);
                self.monitor.set_patience(config.daemon.degraded_after.0);
                self.monitor.set_health(config.health);
                self.again_at.clear();
                look_at = Instant::now();
            }
            self.note_events(&service);
            if Instant::now() < look_at {
                continue;
            }
            look_at = Instant::now() + LOOK_EVERY;
            self.look(&service, &service.arrays());
        }
    }

    fn event(service: &Service, array: &str, kind: &str, text: String) {
        service.events().push(plain_event(array, kind, text));
    }

    /// Keeps the results of complete scrubs, of those begun by command too.
    fn note_events(&mut self, service: &Service) {
        let events = service.events().since(self.sequence);
        let Some(last) = events.last() else { return };
        self.sequence = last.sequence;
        let ends: Vec<&EventView> = events.iter().filter(|event| event.kind == "sweep_finished" && is_scrub(event)).collect();
        // A scrub of an array that has just started may end before the first look at it.
        if ends.iter().any(|event| !self.uuids.contains_key(&event.array)) {
            self.note_uuids(&service.arrays());
        }
        for event in &events {
            let Some(uuid) = self.uuids.get(&event.array) else { continue };
            self.scrubs.values_mut().for_each(|scrubbing| scrubbing.note(uuid, event));
        }
        for event in ends {
            let Some(uuid) = self.uuids.get(&event.array) else { continue };
            let before = self.scrubs.values().find_map(|scrubbing| scrubbing.before.get(uuid));
            let (mismatches_before, unchecked_before) = before.copied().unwrap_or_default();
            let mismatch_sectors = event.mismatch_sectors.unwrap_or(0) + mismatches_before;
            let unchecked_sectors = event.unchecked_sectors.unwrap_or(0) + unchecked_before;
            let repaired = event.sweep.as_deref() == Some("repair");
            self.ledger.change(|notes| {
                let notes = notes.arrays.entry(uuid.clone()).or_default();
                notes.last_scrub =
                    Some(ScrubView { ended_s: event.time_ms / 1000, mismatch_sectors, unchecked_sectors, repaired });
                if before.is_some() {
                    (notes.scrub.found, notes.scrub.unchecked) = (mismatch_sectors, unchecked_sectors);
                } else if repaired {
                    // The mismatches that an interrupted scrub had found are repaired, too.
                    (notes.scrub.position, notes.scrub.found, notes.scrub.unchecked) = (None, 0, 0);
                }
            });
        }
    }

    fn note_uuids(&mut self, views: &[ArrayView]) {
        self.uuids = views.iter().flat_map(tree).map(|view| (view.identity.name.clone(), view.identity.uuid.clone())).collect();
    }

    fn look(&mut self, service: &Arc<Service>, views: &[ArrayView]) {
        self.note_uuids(views);
        self.ledger.save_again();
        let (now_s, zone) = (unix_now(), TimeZone::system());
        let quiet = self.routine.hours.contain(now_s, &zone);
        self.scrubs.retain(|uuid, _| views.iter().any(|view| view.identity.uuid == *uuid));
        views.iter().for_each(|view| self.follow_scrub(service, view, quiet));
        self.foresee(service, views);
        self.follow_tests(service, &self.monitor.drives());
        // As they are after that: a test that has just ended does not run.
        let entries = self.monitor.drives();
        self.adopt_tests(&entries);
        self.begin(service, views, &entries, now_s, quiet, &zone);
        self.show(views, &entries, now_s, &zone);
    }

    /// Follows a scrub that this thread began.
    fn follow_scrub(&mut self, service: &Service, view: &ArrayView, quiet: bool) {
        let Some(scrubbing) = self.scrubs.get_mut(&view.identity.uuid) else { return };
        // What is known of a silent array is old, and a command to it would hold all routine work up.
        if view.condition.silent_s.is_some() {
            return;
        }
        let running: Vec<_> = tree(view)
            .into_iter()
            .filter_map(|view| view.redundancy.sweep.as_ref().filter(|sweep| sweep.kind == "scrub"))
            .collect();
        if !running.is_empty() {
            if quiet && scrubbing.noted.elapsed() < NOTE_EVERY {
                return;
            }
            scrubbing.noted = Instant::now();
            if quiet {
                self.note_progress(view);
            } else if let Some(percent) = self.interrupt(service, view) {
                let text = format!(
                    "the scrub of \"{}\" pauses at {percent} %: the quiet hours are over, and it goes on in the next",
                    view.identity.name
                );
                Self::event(service, &view.identity.name, "routine", text);
            }
            return;
        }
        let mut parts = tree(view).into_iter().filter(|view| is_redundant_itself(view));
        if parts.all(|part| scrubbing.finished.contains(&part.identity.uuid)) {
            self.note_scrub(&view.identity.uuid, |job| job.position = None);
            self.scrubs.remove(&view.identity.uuid);
        } else if scrubbing.is_gone {
            self.scrubs.remove(&view.identity.uuid);
        } else if let Some(how) = scrubbing.stopped.take_if(|_| !view.condition.paused) {
            self.scrubs.remove(&view.identity.uuid);
            if matches!(how, Stopped::Cancelled) {
                self.note_scrub(&view.identity.uuid, |job| job.position = None);
                let said = ServiceSentence::ScheduledScrubCancelled { array: view.identity.name.clone() };
                service.events().push(said_event(&view.identity.name, "routine", said));
            }
        }
    }

    fn note_scrub(&self, uuid: &str, change: impl FnOnce(&mut JobNotes)) {
        self.ledger.change(|notes| change(&mut notes.arrays.entry(uuid.to_owned()).or_default().scrub));
    }

    /// Notes how far the scrub of an array is, and what it has found.
    fn note_progress(&self, view: &ArrayView) {
        let Some(scrubbing) = self.scrubs.get(&view.identity.uuid) else { return };
        let running: Vec<_> = tree(view).into_iter().filter_map(|view| Some((view, view.redundancy.sweep.as_ref()?))).collect();
        self.ledger.change(|notes| {
            for (part, sweep) in &running {
                let (mismatches, unchecked) = scrubbing.before.get(&part.identity.uuid).copied().unwrap_or_default();
                let job = &mut notes.arrays.entry(part.identity.uuid.clone()).or_default().scrub;
                (job.found, job.unchecked) = (mismatches + sweep.mismatch_sectors, unchecked + sweep.unchecked_sectors);
            }
            let position = running.iter().map(|(_, sweep)| sweep.done_bytes).min();
            let job = &mut notes.arrays.entry(view.identity.uuid.clone()).or_default().scrub;
            job.position = position.or(job.position);
        });
    }

    /// Ends the scrub of an array, so that it goes on later from where it is, in per cent. `None`: it has just ended.
    fn interrupt(&mut self, service: &Service, view: &ArrayView) -> Option<u64> {
        let sweeps = || tree(view).into_iter().filter_map(|view| view.redundancy.sweep.as_ref());
        let (done, total) = sweeps().map(|sweep| (sweep.done_bytes, sweep.total_bytes)).min()?;
        service.cancel_scrub(&view.identity.name).ok()?;
        self.note_progress(view);
        self.scrubs.remove(&view.identity.uuid);
        Some(done * 100 / total.max(1))
    }

    /// Copies members that are about to fail.
    fn foresee(&mut self, service: &Service, views: &[ArrayView]) {
        let slow: Vec<_> = views.iter().flat_map(|view| self.monitor.slow(&view.identity.name)).collect();
        let forecasts = self.foresight.look(Instant::now(), views, &self.monitor.drives(), &self.replacement, &slow);
        for forecast in forecasts {
            let foresight::Forecast { array, member, spare, reason } = forecast;
            // A scrub that runs, a person's too, waits for the copy by itself and goes on after it.
            let request = ReplaceRequest { old: member.clone().into(), new: spare.clone().into(), force: false, confirmed: None };
            match service.replace(&array, request) {
                Ok(_) => {
                    let said = ServiceSentence::CopiedBeforeFailure { member, spare, reason };
                    service.events().push(said_event(&array, "foreseen", said));
                }
                Err(error) => {
                    let text = format!(
                        "{member} should be replaced ({reason}), and is not copied to spare {spare}: {error}; it is tried again"
                    );
                    Self::event(service, &array, "warning", text);
                }
            }
        }
    }

    /// Asks drives for the progress of their self-tests.
    fn follow_tests(&mut self, service: &Service, entries: &[DriveEntry]) {
        let now = Instant::now();
        let due: Vec<PathBuf> = self.tests.iter().filter(|(_, test)| test.ask_at <= now).map(|(path, _)| path.clone()).collect();
        for path in due {
            let test = self.tests.get_mut(&path).expect("it was just there");
            test.ask_at = now + ASK_TEST_EVERY;
            if entries.iter().all(|entry| entry.path != path) {
                self.tests.remove(&path);
                continue;
            }
            // A drive that has no log of self-tests any more, or never had one, has no result.
            let none = SelfTest { long: test.long, running: false, passed: None };
            let answer = match self.monitor.ask(&path) {
                None => Answer::None,
                Some(health) if health.asleep => Answer::Asleep,
                Some(health) => Answer::Log(health.self_test.unwrap_or(none), health.self_test_mark),
            };
            let Some(outcome) = test.outcome(answer, now) else { continue };
            let kind = if test.long { "long" } else { "short" };
            self.tests.remove(&path);
            Self::event(service, "", "self_test", format!("{}: the {kind} self-test {outcome}", path.display()));
        }
    }

    /// Takes over self-tests that run already: they use the links of their drives, and have a result.
    fn adopt_tests(&mut self, entries: &[DriveEntry]) {
        for entry in entries {
            let Some((test, health)) = entry.health.as_ref().and_then(|health| Some((health.self_test?, health))) else {
                continue;
            };
            if !test.running || self.tests.contains_key(&entry.path) {
                continue;
            }
            let (begun, links) = (Instant::now(), BTreeSet::from([self.link(&entry.path.to_string_lossy())]));
            let (long, mark, ask_at) = (test.long, health.self_test_mark, begun + ASK_TEST_EVERY);
            let test = Testing { long, is_own: false, begun, ask_at, links, mark, idle_since: None, silent_since: None };
            self.tests.insert(entry.path.clone(), test);
        }
    }

    /// The link that a drive shares with others. It is looked up now and then: another drive may have its name, and a look may
    /// have failed.
    fn link(&mut self, path: &str) -> String {
        if let Some((known, at)) = self.seats.get(path)
            && at.elapsed() < SEAT_HOLDS
        {
            return known.clone();
        }
        // Does not wait for a file system that hangs.
        let link = within_at("seat", Path::new(path), PLACE_WITHIN, |path| Seat::of(path).link);
        let link = link.ok().flatten().unwrap_or_else(|| path.to_owned());
        self.seats.insert(path.to_owned(), (link.clone(), Instant::now()));
        link
    }

    /// An array, and the links of its members.
    fn links(&mut self, view: &ArrayView) -> BTreeSet<String> {
        let paths: Vec<String> = all_members(view)
            .into_iter()
            .filter(|member| member.size_bytes.is_some())
            .map(|member| member.path.clone())
            .collect();
        let mut links: BTreeSet<String> = paths.iter().map(|path| self.link(path)).collect();
        links.insert(format!("array {}", view.identity.name));
        links
    }

    /// Begins what is due.
    fn begin(
        &mut self,
        service: &Arc<Service>,
        views: &[ArrayView],
        entries: &[DriveEntry],
        now_s: i64,
        quiet: bool,
        zone: &TimeZone,
    ) {
        let routine = self.routine.clone();
        let (mut tasks, mut jobs, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
        let mut busy: BTreeSet<String> = self.scrubs.values().flat_map(|scrubbing| scrubbing.links.clone()).collect();
        busy.extend(self.tests.values().flat_map(|test| test.links.clone()));
        let (now, watched) = (Instant::now(), self.begun.elapsed());
        self.again_at.retain(|_, at| *at > now);
        for view in views {
            if tree(view).iter().any(|view| view.redundancy.sweep.is_some()) {
                busy.extend(self.links(view));
            }
            let Some(calendar) = routine.scrub_of(&view.identity.name).filter(|_| is_redundant(view)) else { continue };
            let uuid = &view.identity.uuid;
            let (since_s, position) = self.ledger.change(|notes| {
                let job = &mut notes.arrays.entry(uuid.clone()).or_default().scrub;
                (job.since(now_s, watched), job.position)
            });
            if !quiet || !may_scrub(view) || self.scrubs.contains_key(uuid) || self.again_at.contains_key(uuid) {
                continue;
            }
            let task = Task::Scrub { view, from_bytes: position.unwrap_or(0) };
            if position.is_some() {
                resumed.push(task);
            } else if due(calendar, since_s, now_s, zone).is_some() {
                jobs.push(Job { calendar, since_s, links: self.links(view) });
                tasks.push(task);
            }
        }
        let keys = drive_keys(entries, whole_disk);
        self.take_over_notes(entries, &keys);
        for (entry, array) in entries.iter().filter_map(|entry| Some((entry, array_of(views, &entry.path)?))) {
            let is_able = entry.health.as_ref().is_some_and(|health| !health.asleep);
            let key = keys[&entry.path].clone();
            for (long, schedule) in [(false, &routine.self_test), (true, &routine.long_self_test)] {
                let Some(calendar) = schedule.0.as_ref().filter(|_| is_able) else { continue };
                let since_s = self.ledger.change(|notes| test_notes(notes, &key, long).since(now_s, watched));
                let is_free = quiet && !self.tests.contains_key(&entry.path) && !self.again_at.contains_key(&key);
                if is_free && due(calendar, since_s, now_s, zone).is_some() {
                    let links = BTreeSet::from([self.link(&entry.path.to_string_lossy()), format!("array {array}")]);
                    jobs.push(Job { calendar, since_s, links });
                    tasks.push(Task::SelfTest(DueTest { entry, key: key.clone(), array, long }));
                }
            }
        }
        // Interrupted work goes on before anything new begins.
        for task in resumed {
            let Task::Scrub { view, .. } = task else { unreachable!("only scrubs have a position") };
            let links = self.links(view);
            if links.is_disjoint(&busy) {
                self.begin_one(service, &task, links.clone(), now_s, zone);
            }
            busy.extend(links);
        }
        for index in may_begin(&jobs, &busy, now_s, zone) {
            self.begin_one(service, &tasks[index], jobs[index].links.clone(), now_s, zone);
        }
    }

    /// Notes under the serial number alone, as they were before, or of a drive that had no twin, belong to the first drive that
    /// they fit.
    fn take_over_notes(&self, entries: &[DriveEntry], keys: &BTreeMap<PathBuf, String>) {
        let take_over = |notes: &mut Notes| {
            for entry in entries {
                let (key, old) = (&keys[&entry.path], drive_names(entry));
                let is_new = !notes.drives.contains_key(key);
                let known = old.iter().filter(|old| *old != key && is_new).find_map(|old| notes.drives.remove(old));
                notes.drives.extend(known.map(|known| (key.clone(), known)));
            }
        };
        self.ledger.change(take_over);
    }

    fn begin_one(&mut self, service: &Arc<Service>, task: &Task, links: BTreeSet<String>, now_s: i64, zone: &TimeZone) {
        match task {
            Task::Scrub { view, from_bytes } => self.begin_scrub(service, view, *from_bytes, links, now_s, zone),
            Task::SelfTest(test) => self.begin_self_test(service, test, links, now_s),
        }
    }

    /// Begins a scrub, or goes on with it from this position.
    fn begin_scrub(
        &mut self,
        service: &Arc<Service>,
        view: &ArrayView,
        from_bytes: u64,
        links: BTreeSet<String>,
        now_s: i64,
        zone: &TimeZone,
    ) {
        let (name, uuid, is_new) = (&view.identity.name, &view.identity.uuid, from_bytes == 0);
        let done = match service.scrub(name, &ScrubRequest { repair: false, from_bytes }) {
            Ok(done) => done,
            Err(error) => {
                self.again_at.insert(uuid.clone(), Instant::now() + AGAIN_AFTER);
                let (reason, cause) = error.words().parts();
                let said = WarningSentence::ScrubWaits { array: name.clone(), reason, cause };
                return service.events().push(said_event(name, "warning", EventSentence::Warning(said)));
            }
        };
        let parts = tree(view).into_iter().map(|part| part.identity.uuid.clone());
        let found = |uuid: &String| {
            let job = self.ledger.array(uuid).scrub;
            if is_new { (0, 0) } else { (job.found, job.unchecked) }
        };
        let before = parts.map(|uuid| (found(&uuid), uuid)).map(|(found, uuid)| (uuid, found)).collect();
        let scrubbing = Scrubbing {
            sequence: done.sequence,
            links,
            noted: Instant::now(),
            before,
            finished: BTreeSet::new(),
            stopped: None,
            is_gone: false,
        };
        self.scrubs.insert(uuid.clone(), scrubbing);
        let since_s = self.ledger.array(uuid).scrub.since_s.unwrap_or(now_s);
        self.note_scrub(uuid, |job| {
            job.position = Some(from_bytes);
            if is_new {
                job.since_s = Some(now_s);
            }
        });
        if !is_new {
            let said = ServiceSentence::ScheduledScrubGoesOn { array: name.clone() };
            return service.events().push(said_event(name, "routine", said));
        }
        let calendar = self.routine.scrub_of(name);
        let due_s = calendar.and_then(|calendar| due(calendar, since_s, now_s, zone)).unwrap_or(now_s);
        let text = format!("the scrub of \"{name}\" that was due at {} begins", local_text(due_s, zone));
        Self::event(service, name, "routine", text);
    }

    /// Makes a drive test itself.
    fn begin_self_test(&mut self, service: &Arc<Service>, test: &DueTest, links: BTreeSet<String>, now_s: i64) {
        let &DueTest { entry, ref key, array, long } = test;
        let path = &entry.path;
        let (asked, health) = (path.clone(), self.monitor.health());
        let begun = within(SELF_TEST_BEGINS_WITHIN, move || {
            // What is known of it is minutes old.
            let found = read(&asked, &health)?;
            if found.asleep || found.self_test.is_some_and(|test| test.running) {
                return Ok(None);
            }
            start_self_test(&asked, long, &health).map(|()| Some(found.self_test_mark))
        });
        let begun = match begun {
            Ok(Ok(None)) => {
                // It stays due, and the next looks know that it cannot begin now.
                self.again_at.insert(key.clone(), Instant::now() + AGAIN_AFTER);
                let _ = self.monitor.ask(path);
                return;
            }
            Ok(Ok(Some(mark))) => Ok(mark),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("{} does not answer", path.display())),
        };
        self.ledger.change(|notes| test_notes(notes, key, long).since_s = Some(now_s));
        match begun {
            Ok(mark) => {
                let begun = Instant::now();
                let ask_at = begun + LOOK_EVERY;
                let test = Testing { long, is_own: true, begun, ask_at, links, mark, idle_since: None, silent_since: None };
                self.tests.insert(path.clone(), test);
                let drive = path.display().to_string();
                let said = match long {
                    true => ServiceSentence::LongSelfTestBegins { drive },
                    false => ServiceSentence::ShortSelfTestBegins { drive },
                };
                service.events().push(said_event(array, "self_test", said));
            }
            Err(error) => {
                let kind = if long { "long" } else { "short" };
                let text = format!("no {kind} self-test: {error}; the next one is that of the schedule");
                Self::event(service, array, "self_test", text);
            }
        }
    }

    fn show(&mut self, views: &[ArrayView], entries: &[DriveEntry], now_s: i64, zone: &TimeZone) {
        let next = |calendar: &Calendar, since_s: Option<i64>| {
            calendar.next(since_s.unwrap_or(now_s), zone).and_then(|next| u64::try_from(next).ok())
        };
        let mut shown = Vec::new();
        let mut scrubs = BTreeMap::new();
        for view in views.iter().filter(|view| is_redundant(view)) {
            let Some(calendar) = self.routine.scrub_of(&view.identity.name) else { continue };
            let notes = self.ledger.array(&view.identity.uuid);
            let next_s = next(calendar, notes.scrub.since_s);
            if let Some(next_s) = next_s {
                scrubs.insert(view.identity.uuid.clone(), next_s);
            }
            let said = scrub_words(view);
            shown.push(RoutineView {
                what: "scrub".into(),
                of: view.identity.name.clone(),
                schedule: calendar.to_string(),
                running: self.scrubs.contains_key(&view.identity.uuid),
                interrupted: notes.scrub.position.is_some() && !self.scrubs.contains_key(&view.identity.uuid),
                last_s: tree(view)
                    .iter()
                    .filter_map(|view| Some(self.ledger.array(&view.identity.uuid).last_scrub?.ended_s))
                    .min(),
                next_s,
                outcome: said.as_ref().map(ToString::to_string),
                said,
            });
        }
        let keys = drive_keys(entries, whole_disk);
        for entry in entries.iter().filter(|entry| entry.health.is_some()) {
            let key = &keys[&entry.path];
            for (long, schedule) in [(false, &self.routine.self_test), (true, &self.routine.long_self_test)] {
                let Some(calendar) = &schedule.0 else { continue };
                let notes = self.ledger.drive(key);
                let since_s = if long { notes.long.since_s } else { notes.short.since_s };
                let passed = entry.health.as_ref().and_then(|health| health.self_test_results.of_kind(long));
                let said = passed.map(|passed| match passed {
                    true => ServiceSentence::SelfTestPassed {},
                    false => ServiceSentence::SelfTestFailed {},
                });
                shown.push(RoutineView {
                    what: if long { "long self-test" } else { "self-test" }.into(),
                    of: entry.path.display().to_string(),
                    schedule: calendar.to_string(),
                    running: self.tests.get(&entry.path).is_some_and(|test| test.long == long),
                    interrupted: false,
                    last_s: None,
                    next_s: next(calendar, since_s),
                    outcome: said.as_ref().map(ToString::to_string),
                    said,
                });
            }
        }
        self.ledger.set_next_scrub(scrubs);
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

fn is_scrub(event: &EventView) -> bool {
    matches!(event.sweep.as_deref(), Some("scrub" | "repair"))
}

/// True if there is something to compare.
fn is_redundant(view: &ArrayView) -> bool {
    tree(view).into_iter().any(is_redundant_itself)
}

/// True if a scrub can begin: nothing else runs, and nothing is missing.
fn may_scrub(view: &ArrayView) -> bool {
    let is_calm = |view: &&ArrayView| view.redundancy.sweep.is_none() && !view.redundancy.resync_pending;
    let is_well = view.condition.health == HealthView::Optimal
        && view.condition.silent_s.is_none()
        && !view.condition.paused
        && may_write(view);
    is_well && tree(view).iter().all(is_calm)
}

/// The name of the array that has this drive.
fn array_of<'a>(views: &'a [ArrayView], path: &Path) -> Option<&'a str> {
    let has = |view: &&ArrayView| all_members(view).iter().any(|member| path.as_os_str() == member.path.as_str());
    views.iter().find(has).map(|view| view.identity.name.as_str())
}

/// The names of a drive in notes, the best first.
fn drive_names(entry: &DriveEntry) -> Vec<String> {
    let Some(health) = &entry.health else { return vec![entry.path.display().to_string()] };
    match (&health.model, &health.serial) {
        (Some(model), Some(serial)) => vec![format!("{model} {serial}"), serial.clone()],
        (None, Some(serial)) => vec![serial.clone()],
        (_, None) => vec![entry.path.display().to_string()],
    }
}

/// The keys of drives in the notes. Drives behind some bridges and controllers share one serial number: their paths tell them
/// apart.
fn drive_keys(entries: &[DriveEntry], whole_disk: impl Fn(&Path) -> PathBuf) -> BTreeMap<PathBuf, String> {
    let named: Vec<(&PathBuf, String)> = entries.iter().map(|entry| (&entry.path, drive_names(entry).swap_remove(0))).collect();
    let key = |(path, name): &(&PathBuf, String)| {
        let twins: Vec<&PathBuf> = named.iter().filter(|(_, other)| other == name).map(|(path, _)| *path).collect();
        let are_one = twins.len() == 1 || twins.iter().map(|path| whole_disk(path)).collect::<BTreeSet<_>>().len() == 1;
        ((*path).clone(), if are_one { name.clone() } else { format!("{name} at {}", path.display()) })
    };
    named.iter().map(key).collect()
}

/// The drive in sysfs that a block device is, or is a part of, whatever name leads to it. Namespaces of an NVMe controller test
/// themselves together.
fn whole_disk(path: &Path) -> PathBuf {
    // An image file may lie on a server that hangs.
    let found = path.starts_with("/dev").then(|| std::fs::metadata(path).ok()).flatten();
    let number = found.filter(|found| found.file_type().is_block_device()).map(|found| found.rdev());
    let Some(mut folder) = number.and_then(|number| whole_folder(Path::new(SYSFS), number).ok()) else { return path.to_owned() };
    if folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nvme")) {
        folder.pop();
    }
    folder
}

fn test_notes<'a>(notes: &'a mut Notes, drive: &str, long: bool) -> &'a mut JobNotes {
    let notes = notes.drives.entry(drive.to_owned()).or_default();
    if long { &mut notes.long } else { &mut notes.short }
}

/// The outcome of the last scrub of an array.
fn scrub_words(view: &ArrayView) -> Option<ServiceSentence> {
    let found: Vec<ScrubView> = tree(view).into_iter().filter_map(|view| view.redundancy.last_scrub).collect();
    let mismatch_sectors: u64 = found.iter().map(|scrub| scrub.mismatch_sectors).sum();
    let unchecked_sectors: u64 = found.iter().map(|scrub| scrub.unchecked_sectors).sum();
    let last = found.first()?;
    Some(match (mismatch_sectors, last.repaired) {
        (0, _) if unchecked_sectors > 0 => ServiceSentence::ScrubHasLeftUnchecked { unchecked_sectors },
        (0, _) => ServiceSentence::ScrubIsClean {},
        (_, true) => ServiceSentence::ScrubHasRepaired { mismatch_sectors },
        (_, false) => ServiceSentence::ScrubHasFound { mismatch_sectors },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of the test before was reported at once as that of the one which had just begun.
    #[test]
    fn only_another_entry_of_the_log_is_the_result_of_a_self_test() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let testing = |long, is_own| {
            let links = BTreeSet::new();
            Testing { long, is_own, begun: start, ask_at: start, links, mark: 7, idle_since: None, silent_since: None }
        };
        let entry = |long, running, passed, mark| Answer::Log(SelfTest { long, running, passed }, mark);
        let mut test = testing(false, true);
        assert_eq!(test.outcome(entry(false, false, Some(true), 7), at(1)), None, "the one before");
        assert_eq!(test.outcome(entry(false, true, None, 7), at(11)), None);
        assert_eq!(test.outcome(Answer::None, at(21)), None, "it does not answer");
        assert_eq!(test.outcome(entry(false, true, Some(false), 7), at(100)), None);
        assert_eq!(test.outcome(entry(false, false, Some(true), 7), at(110)), None, "its log follows");
        assert!(test.outcome(entry(false, false, Some(false), 8), at(120)).is_some_and(|words| words.starts_with("FAILED")));
        // Another command ended it.
        let mut test = testing(true, true);
        assert_eq!(test.outcome(entry(false, false, Some(true), 8), at(9)), Some("ended without a result"));
        let mut test = testing(true, true);
        assert_eq!(test.outcome(entry(true, false, Some(true), 7), at(9)), None);
        assert_eq!(test.outcome(entry(true, false, Some(true), 7), at(69)), Some("ended without a result"));
        // It ran before this process, so its kind may be unknown until it ends.
        let mut test = testing(false, false);
        assert_eq!(test.outcome(entry(true, false, Some(true), 8), at(9)), Some("passed"));
        assert!(test.long);
        assert_eq!(testing(true, true).outcome(Answer::None, at(3 * 24 * 3600)), Some("ended without a result"));
    }

    /// Two drives with one serial number shared a note, so that only one of them was ever tested.
    #[test]
    fn drives_that_share_a_serial_number_have_notes_of_their_own() {
        let entry = |path: &str, model: Option<&str>, serial: Option<&str>| -> DriveEntry {
            let health = serde_json::json!({"model": model, "serial": serial});
            serde_json::from_value(serde_json::json!({"path": path, "read_at_s": 0, "health": health})).expect("an entry")
        };
        let entries = [
            entry("/dev/sda1", Some("WD"), Some("1")),
            entry("/dev/sda2", Some("WD"), Some("1")),
            entry("/dev/sdb", Some("Seagate"), Some("1")),
            entry("/dev/sdc", Some("Bridge"), Some("0")),
            entry("/dev/sdd", Some("Bridge"), Some("0")),
            entry("/dev/sde", None, Some("2")),
            entry("/dev/sdf", Some("WD"), None),
        ];
        let whole = |path: &Path| PathBuf::from(path.to_str().expect("text").trim_end_matches(char::is_numeric));
        let keys: Vec<String> = drive_keys(&entries, whole).into_values().collect();
        assert_eq!(
            keys,
            ["WD 1", "WD 1", "Seagate 1", "Bridge 0 at /dev/sdc", "Bridge 0 at /dev/sdd", "2", "/dev/sdf"],
            "partitions of one drive test themselves once"
        );
        assert_eq!(whole_disk(Path::new("/nowhere/image")), Path::new("/nowhere/image"));
    }

    /// Either kept all routine work off the link of the drive for three days.
    #[test]
    fn a_drive_that_sleeps_or_hangs_is_not_followed_for_days() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let testing = || Testing {
            long: true,
            is_own: true,
            begun: start,
            ask_at: start,
            links: BTreeSet::new(),
            mark: 7,
            idle_since: None,
            silent_since: None,
        };
        let runs = Answer::Log(SelfTest { long: true, running: true, passed: None }, 7);
        let mut test = testing();
        assert_eq!((test.outcome(runs, at(1)), test.outcome(Answer::Asleep, at(10))), (None, None));
        assert_eq!(test.outcome(runs, at(60)), None, "it was woken, and goes on");
        assert_eq!((test.outcome(Answer::Asleep, at(70)), test.outcome(Answer::Asleep, at(129))), (None, None));
        assert!(test.outcome(Answer::Asleep, at(130)).is_some_and(|words| words.ends_with("the drive sleeps")));
        let mut test = testing();
        assert_eq!((test.outcome(Answer::None, at(10)), test.outcome(runs, at(3600))), (None, None));
        assert_eq!((test.outcome(Answer::None, at(3610)), test.outcome(Answer::None, at(7209))), (None, None));
        assert!(test.outcome(Answer::None, at(7210)).is_some_and(|words| words.contains("has not answered for an hour")));
    }
}
