//! Watches over the arrays of a service: metrics, alarms, drives' health.
//!
//! ```text
//!   Service ─ views, events ─▶ observer ─▶ tracker, messenger (stria-alarm)
//!                        └──▶ metrics ─▶ GET /metrics on the control socket, and over TCP where that was asked for
//!   drives ─▶ board (stria-health) ─▶ both
//! ```
//! It only reads: nothing here changes an array (`routine` does). A `serve` or another process with a [`Service`] starts one, and
//! adds [`Monitor::router`] to its control socket.

mod acknowledged;
mod board;
mod family;
mod metrics;
mod observer;
mod options;
mod page;
mod slow;

pub use board::{DriveEntry, ask};
pub use options::{MonitorOptions, MonitorPlan};
pub use page::{TEXT, address};

use crate::api::{AdoptedState, AdoptedView, ApiError, ApiErrorKind, ArrayView, EventView};
use crate::control::{Body, Peer};
use crate::events;
use crate::matter::METRICS;
use crate::service::Service;
use crate::system::directory::user_name;
use crate::system::mounts::awaited;
use crate::system::threads;
use crate::words::alarm::AlarmSentence;
use crate::words::error::{Detail, ErrorSentence};
use crate::words::event::{Channels, ServiceSentence};
use crate::words::order::Component;
use acknowledged::Store;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use board::Board;
use observer::Observer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slow::SlowWatch;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stria_alarm::{Acknowledgement, AlarmConfig, Counts, Event, Heartbeat, JOURNAL, Messenger, Outcome, Phase};
use stria_health::{DriveHealth, HealthConfig, SlowMember};
use stria_terminal::Failure;
use tokio::sync::watch;

/// The pause between two looks for events.
const GLANCE_EVERY: Duration = Duration::from_millis(250);
/// The pause between two looks at arrays, whether there are events or not.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Without a look for so long nothing is watched over, so there is no heartbeat.
const LOOKS_WITHIN: Duration = Duration::from_secs(60);
/// The pause before the port for metrics is tried again.
const LISTEN_AGAIN_EVERY: Duration = Duration::from_secs(5);
/// The array of a message that is about none.
const NO_ARRAY: &str = "none";
/// An array of the configuration that is not served for so long is reported, unless `degraded-after` says otherwise.
const NOT_SERVED_FOR: Duration = Duration::from_secs(30);

type Condition = stria_alarm::Condition<AlarmSentence>;
type Message = stria_alarm::Message<AlarmSentence>;
type Tracker = stria_alarm::Tracker<AlarmSentence>;

/// A cause that stands, as `stria alarm` shows it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StandingView {
    /// The cause.
    #[serde(flatten)]
    pub cause: Condition,
    /// Its text for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<AlarmSentence>,
    /// When it was first seen, in seconds since 1970.
    pub since_s: u64,
    /// The acknowledgement. Absent: nobody has acknowledged it, or it has become worse since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

impl StandingView {
    /// Its acknowledgement in words.
    pub fn acknowledged_words(&self) -> Option<String> {
        self.acknowledged.as_ref().map(Acknowledgement::words)
    }
}

/// `POST /v1/alarms/acknowledge`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// The event of the open alarm.
    pub event: Event,
    /// Its array; `none`: a fault of the configuration.
    pub array: String,
    /// Its component, if it has one.
    #[serde(default)]
    pub component: Option<String>,
    /// A note, shown with the alarm: one line of at most 400 characters. It takes the place of an earlier acknowledgement.
    #[serde(default)]
    pub note: Option<String>,
    /// The acknowledgement is taken back.
    #[serde(default)]
    pub undo: bool,
}

impl AcknowledgeRequest {
    /// The note, without blanks around it.
    fn checked_note(&self) -> Result<Option<String>, ApiError> {
        let note = self.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
        let refuse = |said| Err(ApiError::new(ApiErrorKind::Invalid, said));
        match note {
            Some(_) if self.undo => refuse(ErrorSentence::NoteWithUndo {}),
            Some(note) if note.chars().count() > Acknowledgement::NOTE_CHARS_MAX => {
                refuse(ErrorSentence::NoteTooLong { chars: note.chars().count(), most: Acknowledgement::NOTE_CHARS_MAX })
            }
            note => Ok(note.map(str::to_owned)),
        }
    }
}

/// The health of the drives of a service, as `stria health` shows it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HealthPage {
    /// The drives.
    pub drives: Vec<DriveEntry>,
    /// Members that are slow beside the others of their arrays.
    pub slow: Vec<SlowMember>,
}

/// The watch over one service.
pub struct Monitor {
    service: Weak<Service>,
    messenger: Mutex<Arc<Messenger>>,
    /// The table of alarms that holds.
    alarms: Mutex<AlarmConfig>,
    board: Board,
    health: Mutex<HealthConfig>,
    slow: Mutex<SlowWatch>,
    /// Parts of the configuration that do not hold.
    faults: Mutex<Vec<Condition>>,
    tracker: Mutex<Tracker>,
    /// The arrays of the configuration, where there is one.
    adopted: OnceLock<Adopted>,
    /// The drives of the machine, where they are known.
    drives: OnceLock<Drives>,
    /// The folder with the events of earlier runs, until they are read.
    recalled: Mutex<Option<PathBuf>>,
    /// The file of acknowledged alarms, where they are stored. Locked before the tracker.
    acknowledged: Mutex<Option<Store>>,
    /// So long may an array of the configuration be missing before that is reported.
    patience: Mutex<Duration>,
    /// When the last look at all arrays ended.
    looked_at: Mutex<Instant>,
}

type Adopted = Box<dyn Fn() -> Vec<AdoptedView> + Send + Sync>;
type Drives = Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>;

impl Monitor {
    /// Begins to watch. The threads end with the service.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(service: &Arc<Service>, plan: MonitorPlan) -> Result<Arc<Self>, Failure> {
        let monitor = Arc::new(Self {
            service: Arc::downgrade(service),
            tracker: Mutex::new(Tracker::new(plan.alarms.repeat)),
            messenger: Mutex::new(Arc::new(plan.messenger)),
            alarms: Mutex::new(plan.alarms),
            board: Board::default(),
            health: Mutex::new(plan.health),
            slow: Mutex::default(),
            faults: Mutex::default(),
            adopted: OnceLock::new(),
            drives: OnceLock::new(),
            recalled: Mutex::default(),
            acknowledged: Mutex::default(),
            patience: Mutex::new(NOT_SERVED_FOR),
            looked_at: Mutex::new(Instant::now()),
        });
        let [alarms, health, heartbeat] = [(); 3].map(|()| Arc::clone(&monitor));
        threads::start("alarms", move || alarms.watch())?;
        threads::start("health", move || health.ask_drives())?;
        threads::start("heartbeat", move || heartbeat.beat())?;
        Ok(monitor)
    }

    /// The paths of the API that are answered here.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/alarms", get(|State(monitor): State<Arc<Self>>| async move { Json(monitor.standing()) }))
            .route("/v1/alarms/test", post(test))
            .route("/v1/alarms/acknowledge", post(acknowledge))
            .route("/v1/health", get(health))
            .with_state(Arc::clone(self))
            .merge(self.metrics_router())
    }

    fn metrics_router(self: &Arc<Self>) -> Router {
        Router::new().route("/metrics", get(metrics)).with_state(Arc::clone(self))
    }

    /// Answers `GET /metrics` at this address as soon as it can be listened on: while another program has the port, an alarm
    /// stands.
    pub async fn listen_when_free(self: Arc<Self>, address: SocketAddr, mut over: watch::Receiver<bool>) {
        while let Err(failure) = self.listen(address, over.clone()).await {
            let again = LISTEN_AGAIN_EVERY.as_secs();
            self.stand(METRICS, format!("{failure}; it is tried again every {again} s, and arrays are served without it"));
            tokio::select! {
                () = tokio::time::sleep(LISTEN_AGAIN_EVERY) => {}
                _ = over.wait_for(|over| *over) => return,
            }
        }
        self.holds(METRICS);
    }

    /// Answers `GET /metrics` at this address as well. Returns the address with its port.
    ///
    /// # Errors
    /// When it cannot be listened on.
    pub async fn listen(self: &Arc<Self>, address: SocketAddr, over: watch::Receiver<bool>) -> Result<SocketAddr, Failure> {
        let cannot = |error| Failure::Failed(format!("metrics at {address}: {error}"));
        let listener = page::listener(address).await.map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        if !bound.ip().is_loopback() {
            tracing::warn!("anybody who reaches {bound} may read the metrics: a firewall must decide who that is");
        }
        tokio::spawn(page::listen(listener, self.metrics_router(), over));
        Ok(bound)
    }

    /// The thresholds.
    pub fn health(&self) -> HealthConfig {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn messenger(&self) -> Arc<Messenger> {
        Arc::clone(&self.messenger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn alarms(&self) -> AlarmConfig {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows another table of alarms. New channels get a message about each cause that lasts, since no channel may have worked
    /// before.
    pub fn set_alarms(&self, alarms: AlarmConfig) {
        if !alarms.has_channels_of(&self.alarms()) {
            match Messenger::start(&alarms) {
                Ok(new) => self.exchange(Arc::new(new)),
                // The configuration was checked, so this is another reason than a fault in it.
                Err(error) => return tracing::error!("{error}; alarms go on as they were configured before"),
            }
        }
        self.lock().repeat_after(alarms.repeat);
        *self.alarms.lock().unwrap_or_else(PoisonError::into_inner) = alarms;
    }

    fn exchange(&self, new: Arc<Messenger>) {
        let lasting: Vec<Message> = self.lock().repetitions().collect();
        lasting.iter().for_each(|message| new.send(message));
        let old = std::mem::replace(&mut *self.messenger.lock().unwrap_or_else(PoisonError::into_inner), new);
        // Its unsent messages may take some seconds. Without a thread for that they are sent nevertheless.
        let _ = std::thread::Builder::new().name("old alarms".into()).spawn(move || drop(old));
    }

    /// Reports again data that was lost shortly before this run, by the events in `folder`, and knows what was acknowledged.
    pub fn recall(&self, folder: &Path) {
        *self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner) = Some(Store::new(folder));
        *self.recalled.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
    }

    /// Sends the messages that are not sent yet, for some seconds at most: the process ends.
    pub fn finish(&self) {
        self.messenger().finish();
    }

    /// Watches over the arrays of a configuration, too, also those that are not served.
    pub fn expect(&self, adopted: impl Fn() -> Vec<AdoptedView> + Send + Sync + 'static, patience: Option<Duration>) {
        let _ = self.adopted.set(Box::new(adopted));
        self.set_patience(patience);
    }

    /// Changes the time for which an array may wait for its drives before that is reported. One that waits for ever is reported
    /// after the usual time.
    pub fn set_patience(&self, patience: Option<Duration>) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience.unwrap_or(NOT_SERVED_FOR);
    }

    /// The arrays that should be served and are not.
    fn missing(&self) -> Vec<AdoptedView> {
        let mut missing = self.adopted.get().map(|adopted| adopted()).unwrap_or_default();
        missing.retain(|array| match array.state {
            AdoptedState::Absent | AdoptedState::Waiting | AdoptedState::Refused => true,
            AdoptedState::Served | AdoptedState::Stopped => false,
        });
        missing
    }

    /// Changes the thresholds; drives are asked again at once.
    pub fn set_health(&self, health: HealthConfig) {
        let mut known = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != health {
            *known = health;
            self.board.expire();
        }
    }

    /// The members of an array and its spans that are slow beside the others of theirs.
    pub fn slow(&self, array: &str) -> Vec<SlowMember> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).of(array)
    }

    /// Raises the alarm that a part of the configuration does not hold. It lasts until the part [holds](Self::holds), or this
    /// process ends.
    pub fn stand(&self, part: &str, text: String) {
        let array = NO_ARRAY.to_owned();
        let text = format!("{part}: {text}");
        let fault = Condition { event: Event::ConfigFault, array, component: Some(part.into()), text, said: None };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.retain(|known| known.component != fault.component);
        faults.push(fault);
    }

    /// True if the alarm stands that this part of the configuration does not hold.
    pub fn is_faulty(&self, part: &str) -> bool {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().any(|fault| fault.component.as_deref() == Some(part))
    }

    /// The parts of the configuration that do not hold now.
    pub fn faults(&self) -> Vec<StandingView> {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let standing = self.standing();
        let view = |cause: Condition| {
            let is_it = |known: &&StandingView| known.cause.event == cause.event && known.cause.component == cause.component;
            let known = standing.iter().find(is_it);
            StandingView {
                since_s: known.map_or_else(crate::system::clock::now_s, |known| known.since_s),
                acknowledged: known.and_then(|known| known.acknowledged.clone()),
                said: cause.said.clone(),
                cause,
            }
        };
        faults.into_iter().map(view).collect()
    }

    /// Ends the alarm that a part of the configuration does not hold, if there is one.
    pub fn holds(&self, part: &str) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.retain(|fault| fault.component.as_deref() != Some(part));
    }

    /// Asks all drives of the machine for their health, too.
    pub fn ask_all_drives(&self, drives: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static) {
        let _ = self.drives.set(Box::new(drives));
    }

    /// The health of all drives that are asked, in arrays or not.
    pub fn all_drives(&self) -> Vec<DriveEntry> {
        [self.board.entries(), self.board.others()].concat()
    }

    /// The health of the drives of arrays, as they were last asked.
    pub fn drives(&self) -> Vec<DriveEntry> {
        self.board.entries()
    }

    /// Asks one drive now.
    pub fn ask(&self, drive: &Path) -> Option<DriveHealth> {
        self.board.ask_one(drive, &self.health())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channels by which people are told, whether they look or not.
    pub fn told_by(&self) -> Vec<&'static str> {
        self.messenger().names().into_iter().filter(|name| *name != JOURNAL).collect()
    }

    /// The causes that stand.
    pub fn standing(&self) -> Vec<StandingView> {
        let seconds = |since: SystemTime| since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let view = |open: stria_alarm::Open<'_, AlarmSentence>| StandingView {
            said: open.cause.said.clone(),
            cause: open.cause.clone(),
            since_s: seconds(open.since),
            acknowledged: open.acknowledgement.cloned(),
        };
        self.lock().standing().map(view).collect()
    }

    /// Notes that `by` knows of an open alarm, or (`undo`) no more. Returns the alarm as it stands then.
    ///
    /// # Errors
    /// When no such alarm is open, or the note cannot be taken.
    pub fn acknowledge(&self, request: AcknowledgeRequest, by: String) -> Result<StandingView, ApiError> {
        let note = request.checked_note()?;
        let AcknowledgeRequest { event, array, component, undo, note: _ } = request;
        let mut store = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tracker = self.lock();
        let cause = Condition { event, array, component, text: String::new(), said: None };
        let stands = match undo {
            false => tracker.acknowledge(&cause, Acknowledgement { by, at_s: crate::system::clock::now_s(), note }),
            true => tracker.unacknowledge(Instant::now(), &cause),
        };
        if let Some(store) = store.as_mut() {
            store.write(&tracker);
        }
        drop(tracker);
        let is_it = |open: &StandingView| open.cause.is_same_cause(&cause);
        self.standing().into_iter().find(is_it).filter(|_| stands).ok_or_else(|| {
            let said = ErrorSentence::NoOpenAlarm { alarm: cause.event.name().into_owned(), array: cause.array.clone() };
            ApiError::new(ApiErrorKind::NotFound, said)
        })
    }

    /// Looks at all arrays when something has happened, and now and then.
    fn watch(&self) {
        let (mut observer, mut sequence, mut due) = (Observer::new(&self.alarms()), 0, Instant::now());
        loop {
            std::thread::sleep(GLANCE_EVERY);
            let Some(service) = self.service.upgrade() else { return };
            let now = Instant::now();
            if service.events().sequence() == sequence && now < due {
                continue;
            }
            due = now + LOOK_EVERY;
            // Events first: the views that follow show what they report.
            let events = service.events().since(sequence);
            let views = service.arrays();
            sequence = events.last().map_or(sequence, |event: &EventView| event.sequence);
            self.slow.lock().unwrap_or_else(PoisonError::into_inner).look(&views, &self.health());
            observer.follow(&self.alarms());
            // Its file system may be mounted later than this begins.
            if let Some(folder) =
                self.recalled.lock().unwrap_or_else(PoisonError::into_inner).take_if(|folder| awaited(folder).is_none())
            {
                // Events that cannot be read are an error where a user asks for them.
                observer.remember(now, crate::system::clock::now_ms(), &events::file::stored(&folder).unwrap_or_default());
            }
            let mut seen = observer.look(now, &views, &events, &self.board.entries(), |array| self.slow(array));
            let patience = *self.patience.lock().unwrap_or_else(PoisonError::into_inner);
            let missing = self.missing();
            observer.look_for_missing(now, &missing, patience, &mut seen);
            let served = views.iter().map(|ArrayView { identity, .. }| (identity.uuid.clone(), identity.name.clone()));
            let names = missing.iter().map(|array| (array.uuid.clone(), array.name.clone())).chain(served).collect();
            seen.conditions.extend(self.faults.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
            std::mem::take(&mut seen.happenings).into_iter().for_each(|happening| self.send(&service, Message::once(happening)));
            let messages = {
                let mut store = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
                let mut tracker = self.lock();
                if let Some(store) = store.as_mut() {
                    store.read_into(&mut tracker);
                }
                seen.gone.iter().for_each(|array| tracker.forget(array));
                tracker.set_names(names);
                seen.anew.iter().for_each(|cause| tracker.renew(now, cause));
                let messages = tracker.update(now, &seen.conditions, |cause| seen.is_unknown(cause));
                let answers = |array: &str| {
                    let is_it = |view: &ArrayView| view.identity.name == array && view.condition.silent_s.is_none();
                    array == NO_ARRAY || views.iter().any(is_it)
                };
                tracker.expire_acknowledgements(now, answers);
                if let Some(store) = store.as_mut() {
                    store.write(&tracker);
                }
                messages
            };
            messages.into_iter().for_each(|message| self.send(&service, message));
            *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    }

    /// Sends a message, and makes it an event, so that it is in the log as well.
    fn send(&self, service: &Service, message: Message) {
        if message.is_for_people() {
            let Condition { event, text, array, component, .. } = &message.cause;
            let (alarm, component) = (event.name().to_string(), Component(component.as_ref().map(ToString::to_string)));
            let channels = Channels(self.messenger().names().into_iter().map(Into::into).collect());
            // The event that raised it has said what happened.
            let detail = Detail((!event.has_event()).then(|| text.to_string()));
            let cause = message.cause.said.clone().filter(|_| detail.0.is_some()).into();
            let (kind, array) = (if message.phase == Phase::Cleared { "alarm_over" } else { "alarm" }, array.clone());
            let said = match message.phase {
                Phase::Raised => ServiceSentence::AlarmRaised { alarm, array, component, channels, detail, cause },
                Phase::Repeated => ServiceSentence::AlarmRepeated { alarm, array, component, channels, detail, cause },
                Phase::Cleared => ServiceSentence::AlarmOver { alarm, array, component, channels, detail, cause },
            };
            service.events().push(crate::view::said_event(&message.cause.array, kind, said));
        }
        self.messenger().send(&message);
    }

    /// Asks drives for their health, now and then.
    fn ask_drives(&self) {
        let (mut due, mut others_due, mut noted_at) = (Instant::now(), Instant::now(), Instant::now());
        loop {
            let Some(service) = self.service.upgrade() else { return };
            if Instant::now() >= noted_at {
                // Noted often: a slot that was rebuilt lately must not be stored with the drive that it had before.
                let (entries, views) = (self.board.entries(), service.arrays());
                service.note_drives(&views, |path| place(&entries, path));
                if self.board.forget_joined(&views) {
                    due = Instant::now();
                }
                noted_at = Instant::now() + LOOK_EVERY;
            }
            if Instant::now() >= due || self.board.is_expired() {
                others_due = if self.board.is_expired() { Instant::now() } else { others_due };
                let views = service.arrays();
                self.board.refresh(&views, &self.health());
                if let Some(drives) = self.drives.get().filter(|_| Instant::now() >= others_due) {
                    self.board.refresh_others(drives(), &self.health());
                    others_due = Instant::now() + board::EVERY;
                }
                // The first time comes before the first array.
                due = Instant::now() + if views.is_empty() { LOOK_EVERY } else { board::EVERY };
            }
            drop(service);
            std::thread::sleep(GLANCE_EVERY);
        }
    }

    /// True while every array answers, and faults are noticed: the thread that looks for them has neither ended nor waits for
    /// something that hangs.
    fn may_beat(&self, service: &Service) -> bool {
        let is_watched = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < LOOKS_WITHIN;
        is_watched && service.arrays().iter().all(|view| view.condition.silent_s.is_none()) && self.missing().is_empty()
    }

    /// Sends the heartbeat of the configuration.
    fn beat(&self) {
        let (mut heartbeat, mut is_well) = (None::<Heartbeat>, true);
        loop {
            std::thread::sleep(LOOK_EVERY);
            let Some(service) = self.service.upgrade() else { return };
            let wanted = self.alarms().heartbeat;
            if heartbeat.as_ref().map(Heartbeat::config) != wanted.as_ref() {
                (heartbeat, is_well) = (wanted.map(Heartbeat::new), true);
            }
            let Some(heartbeat) = &mut heartbeat else { continue };
            let is_due = self.may_beat(&service);
            drop(service);
            if is_due {
                match heartbeat.beat(Instant::now()) {
                    Ok(_) => is_well = true,
                    Err(error) if is_well => {
                        tracing::warn!("the heartbeat was not received: {error}");
                        is_well = false;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        let (standing, channels) = (self.standing(), self.messenger().counts());
        let acknowledged = standing.iter().filter(|open| open.acknowledged.is_some()).count();
        Counts { standing: standing.len(), acknowledged, channels }
    }

    /// The figures for Prometheus.
    ///
    /// # Errors
    /// When the service ends.
    pub fn figures(&self) -> Result<String, ApiError> {
        let adopted = self.adopted.get().map(|adopted| adopted()).unwrap_or_default();
        let service = self.service.upgrade();
        let known_since = |uuid: &str| service.as_ref()?.known_since_s(uuid);
        Ok(metrics::text(&views(self)?, &adopted, known_since, &self.board.entries(), &self.counts()))
    }

    /// Sends a test on every channel.
    ///
    /// # Errors
    /// When there is no channel.
    pub fn send_test(&self) -> Result<Vec<Outcome>, ApiError> {
        let messenger = self.messenger();
        if messenger.is_mute() {
            return Err(ApiError::new(ApiErrorKind::Refused, ErrorSentence::NoAlarmChannel {}));
        }
        let service = self.service.upgrade().ok_or_else(|| ApiError::new(ApiErrorKind::Failed, "the service ends"))?;
        let arrays = service.about().arrays;
        let array = arrays.first().cloned().unwrap_or_else(|| NO_ARRAY.into());
        let text = "this is a test: alarms of this kind reach you".into();
        let cause = stria_alarm::Condition { event: Event::TestMessage, array, component: None, text, said: None };
        Ok(messenger.test(&stria_alarm::Message::once(cause)))
    }
}

/// Where a drive sits, in words.
fn place(entries: &[DriveEntry], path: &str) -> Option<String> {
    entries.iter().find(|entry| entry.path.as_os_str() == path)?.seat.as_ref()?.words()
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Result<T, ApiError> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|panic| Err(ApiError::new(ApiErrorKind::Failed, format!("the request broke off: {panic}"))))
}

async fn test(State(monitor): State<Arc<Monitor>>) -> Result<Json<Vec<Outcome>>, ApiError> {
    off_thread(move || monitor.send_test()).await.map(Json)
}

async fn acknowledge(
    State(monitor): State<Arc<Monitor>>,
    Extension(Peer { uid }): Extension<Peer>,
    body: Body<AcknowledgeRequest>,
) -> Result<Json<StandingView>, ApiError> {
    let Json(request) = body.map_err(|rejection| ApiError::new(ApiErrorKind::Invalid, rejection.body_text()))?;
    off_thread(move || monitor.acknowledge(request, user_name(uid))).await.map(Json)
}

fn views(monitor: &Monitor) -> Result<Vec<ArrayView>, ApiError> {
    let service = monitor.service.upgrade();
    service.ok_or_else(|| ApiError::new(ApiErrorKind::Failed, "the service ends")).map(|service| service.arrays())
}

async fn health(State(monitor): State<Arc<Monitor>>) -> Result<Json<HealthPage>, ApiError> {
    let page = off_thread(move || {
        let views = views(&monitor)?;
        let slow = views.iter().flat_map(|view| monitor.slow(&view.identity.name)).collect();
        Ok(HealthPage { drives: monitor.board.entries(), slow })
    });
    page.await.map(Json)
}

async fn metrics(State(monitor): State<Arc<Monitor>>) -> Response {
    let text = off_thread(move || monitor.figures());
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, page::TEXT)], page::body(text)).into_response(),
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_front::{Listener, Options, Server};

    /// The heartbeat went on although the thread that looks for faults had ended, or waited for a file system that hangs: no fault
    /// was reported any more, and nothing showed that.
    #[test]
    fn the_heartbeat_ends_when_nothing_looks_for_faults_any_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let nbd = Listener::Unix(folder.path().join("nbd.sock"));
        let service = Service::new(Server::start(vec![nbd], Vec::new(), Options::default()).expect("a server")).expect("threads");
        let monitor =
            Monitor::start(&service, MonitorPlan::of(AlarmConfig::default(), None, HealthConfig::default()).expect("a plan"));
        let monitor = monitor.expect("threads");
        let (hangs, hung) = std::sync::mpsc::channel();
        let adopted = move || {
            while std::thread::current().name() == Some("alarms") {
                let _ = hangs.send(());
                std::thread::park();
            }
            Vec::new()
        };
        monitor.expect(adopted, None);
        hung.recv().expect("it looks for faults");
        assert!(monitor.may_beat(&service), "it has just begun to hang");
        *monitor.looked_at.lock().expect("no panic") = Instant::now().checked_sub(LOOKS_WITHIN).expect("the machine runs");
        assert!(!monitor.may_beat(&service));
    }
}
