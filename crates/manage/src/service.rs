//! The arrays that one process serves: each on lanes of its own, under a name, exported over NBD and to virtual machines.
//!
//! The service talks to arrays only by message. It locks its list of arrays, but never while lanes work. Every call here may
//! block; the control socket calls from threads made for that.

mod caches;
mod commands;
pub mod firmware;
pub mod free;
mod served;
mod settings;
mod space;
mod stop;
pub mod watchdog;

pub use caches::Held;

use crate::api::{ApiError, ApiErrorKind, ArrayView, ClientView, Done, EventView, LastDrive, LeftAloneView, ServiceView};
use crate::events::log::EventLog;
use crate::events::since;
use crate::fronts::ublk::BlockSpec;
use crate::lane_spec::{LaneSpec, Near};
use crate::ledger::Ledger;
use crate::service::free::check_free;
use crate::system::threads;
use crate::words::error::ErrorSentence;
use crate::words::event::{EventSentence, ServiceSentence};
use crate::words::warning::WarningSentence;
use crate::{view, words};
use caches::set_free_caches;
use served::{STATUS_WITHIN, Served, lock, set_speed, silent};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use stria_block::shell_word;
use stria_format::md::uuid_text;
use stria_front::nbd_device::devices_of;
use stria_front::ublk::{UblkDevice, UblkError};
use stria_front::{
    Export, FrontError, Inherited, Listener, ServerHandle, SocketAccess, TlsConfig, VhostUserDisk, VhostUserServer,
};
use stria_host::{ArrayLanes, HostError, Notice, OpenOptions, PlannedArray};
use stria_terminal::Failure;
use tokio::sync::watch;

/// How often a command that waits for the engine looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The name under which an array is served, by its name on disk.
type Names = Mutex<HashMap<String, String>>;

/// Takes the path of a drive that has joined an array. Returns what there is to say about it.
type Finder = Box<dyn Fn(&Path) -> Option<String> + Send + Sync>;

/// Wakes the thread that starts arrays.
type Waker = Box<dyn Fn() + Send + Sync>;

/// Why an array that was stopped to be changed did not start again.
#[derive(Clone)]
pub struct Unstarted {
    /// The reason.
    pub said: ErrorSentence,
    /// The drive that did not answer.
    pub silent: Option<PathBuf>,
}

/// The arrays of this process.
pub struct Service {
    arrays: Mutex<Vec<Arc<Served>>>,
    nbd: ServerHandle,
    events: Arc<EventLog>,
    names: Arc<Names>,
    notices: Mutex<Sender<Notice>>,
    shutdown: watch::Sender<bool>,
    /// The process goes on without arrays, as a daemon does.
    stays: AtomicBool,
    /// The memory over restarts; a `serve` has none.
    ledger: OnceLock<Arc<Ledger>>,
    /// Events of earlier runs that tell since when something is so.
    earlier: OnceLock<Vec<EventView>>,
    /// Stores where a drive that has joined an array is found at the next start; a `serve` has none.
    finder: OnceLock<Finder>,
    /// Names of arrays that are stopped for a moment, to be changed.
    pausing: Mutex<BTreeSet<String>>,
    /// Arrays of which nobody was told yet that they are served: that waits until clients can connect. `None`: it does not wait.
    unannounced: Mutex<Option<Vec<(String, ServiceSentence)>>>,
    /// Arrays that were stopped to be changed and did not start again, by their names.
    unstarted: Mutex<BTreeMap<String, Unstarted>>,
    /// Drives that came back to arrays and were left as they are, by the names of these.
    left_alone: Mutex<BTreeMap<String, Vec<LeftAloneView>>>,
    /// Wakes the keeper, which starts those again; a `serve` has none.
    waker: OnceLock<Waker>,
    /// Held while the firmware of a member is updated: one member at a time.
    updating: Mutex<()>,
    /// The error of the first array that did not stop cleanly.
    failure: Mutex<Option<ApiError>>,
}

impl Service {
    /// A service without arrays, on a server without exports.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(nbd: ServerHandle) -> Result<Arc<Self>, Failure> {
        let events = Arc::new(EventLog::default());
        let (notices, heard) = channel::<Notice>();
        let names = Arc::<Names>::default();
        let (listener, served_as) = (Arc::clone(&events), Arc::clone(&names));
        let hear = move |notice: Notice| {
            let mut event = view::event(&notice);
            if let Some(name) = lock(&served_as).get(&notice.array) {
                event.array.clone_from(name);
            }
            listener.push(event);
        };
        threads::start("notices", move || heard.iter().for_each(hear))?;
        let shutdown = watch::channel(false).0;
        Ok(Arc::new(Self {
            arrays: Mutex::default(),
            nbd,
            events,
            names,
            notices: Mutex::new(notices),
            shutdown,
            stays: AtomicBool::new(false),
            ledger: OnceLock::new(),
            earlier: OnceLock::new(),
            finder: OnceLock::new(),
            pausing: Mutex::default(),
            unannounced: Mutex::default(),
            unstarted: Mutex::default(),
            left_alone: Mutex::default(),
            waker: OnceLock::new(),
            updating: Mutex::default(),
            failure: Mutex::default(),
        }))
    }

    /// Keeps the process from ending with its last array.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::SeqCst);
    }

    /// Remembers bounds on speed and the results of scrubs, from the start of the process on.
    pub fn remember(&self, ledger: Arc<Ledger>) {
        let _ = self.ledger.set(ledger);
    }

    /// Gives it the events of earlier runs of the daemon.
    pub fn recall(&self, mut events: Vec<EventView>) {
        events.retain(since::tells);
        let _ = self.earlier.set(events);
    }

    /// The events that are known, the oldest first: of earlier runs those that tell since when something is so, and this run's.
    pub fn known_events(&self) -> Vec<EventView> {
        let mut events = self.earlier.get().cloned().unwrap_or_default();
        events.extend(self.events.since(0));
        events
    }

    /// The time from which the daemon knows an array or span, in seconds since 1970. `None`: this process remembers nothing.
    pub fn known_since_s(&self, uuid: &str) -> Option<u64> {
        self.ledger.get()?.array(uuid).known_since_s
    }

    /// The drives that these slots of an array or span had last. None if this process remembers nothing.
    pub fn last_drives(&self, uuid: &str, is_meant: impl Fn(usize) -> bool) -> Vec<LastDrive> {
        let notes = self.ledger.get().map(|ledger| ledger.array(uuid)).unwrap_or_default();
        notes.drives.into_values().filter(|last| is_meant(last.slot)).collect()
    }

    /// Calls `finder` with the path of each drive that joins an array, from the start of the process on.
    pub fn find_again_by(&self, finder: impl Fn(&Path) -> Option<String> + Send + Sync + 'static) {
        let _ = self.finder.set(Box::new(finder));
    }

    /// Lets clients connect. Harmless if repeated, for disks that were added since.
    ///
    /// # Errors
    /// When one of the addresses cannot be listened on.
    pub fn listen(&self) -> Result<(), FrontError> {
        self.nbd.listen()?;
        self.all().iter().flat_map(|served| served.disks()).try_for_each(|disk| disk.listen())?;
        let waiting = lock(&self.unannounced).take().unwrap_or_default();
        waiting.into_iter().filter(|(name, _)| self.serves(name)).for_each(|(name, said)| self.announce(&name, said));
        Ok(())
    }

    /// Says that arrays are served only once clients can connect.
    pub fn announce_late(&self) {
        lock(&self.unannounced).get_or_insert_default();
    }

    fn announce(&self, name: &str, said: ServiceSentence) {
        match &mut *lock(&self.unannounced) {
            Some(waiting) => waiting.push((name.to_owned(), said)),
            None => self.events.push(view::said_event(name, "started", said)),
        }
    }

    /// Adds addresses for NBD clients that could not be used at the start, with their encryption.
    ///
    /// # Errors
    /// When one of the addresses cannot be listened on; then none is added.
    pub fn add_nbd_listeners(
        &self,
        listeners: &[Listener],
        inherited: Vec<Inherited>,
        tls: Option<TlsConfig>,
    ) -> Result<(), FrontError> {
        self.nbd.add_listeners(listeners, inherited, tls)
    }

    /// Why NBD uses other files for TLS than those that are there now.
    pub fn nbd_tls_fault(&self) -> Option<String> {
        self.nbd.tls_fault()
    }

    /// Stops accepting clients, for good; when this returns, their socket files are gone.
    pub fn close(&self) {
        self.nbd.close();
        self.all().iter().flat_map(|served| served.disks()).for_each(|disk| disk.close());
    }

    /// Makes a served array the disk of a virtual machine at `path`, from [`Service::listen`] on. `serial`: the disk's number.
    ///
    /// # Errors
    /// When there is no such array, or the system refuses what the server needs.
    pub fn add_disk(&self, name: &str, path: PathBuf, access: SocketAccess, serial: String) -> Result<(), ApiError> {
        let served = self.find(name)?;
        let text = format!("array \"{name}\" is the disk of a virtual machine at {}", path.display());
        lock(&served.disk_sockets).push((path.clone(), access, serial.clone()));
        let disk = VhostUserDisk { name: name.to_owned(), serial, device: served.lanes.remote(), read_only: served.read_only };
        let disk = VhostUserServer::prepare(path, access, disk);
        let disk = disk.map_err(|error| ApiError::new(ApiErrorKind::Failed, error.to_string()))?;
        lock(&served.disks).push(Arc::new(disk));
        self.events.push(view::plain_event(name, "disk", text));
        Ok(())
    }

    /// Forgets what routine work noted of arrays and spans with these UUIDs.
    pub fn forget_notes(&self, uuids: &[String]) {
        if let Some(ledger) = self.ledger.get() {
            ledger.forget(uuids);
        }
    }

    /// The identity of a served array that is not the disk of any virtual machine.
    pub fn without_disks(&self, name: &str) -> Option<[u8; 16]> {
        self.find(name)
            .ok()
            .filter(|served| served.disks().is_empty() && lock(&served.disk_sockets).is_empty())
            .map(|served| served.uuid)
    }

    /// The events.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Becomes true when the process must end.
    pub fn shutdown(&self) -> &watch::Sender<bool> {
        &self.shutdown
    }

    /// What went wrong while stopping, if anything.
    pub fn failure(&self) -> Option<ApiError> {
        lock(&self.failure).clone()
    }

    /// Opens an array on lanes of its own and exports it as `name`, and as a block device if asked for. Returns
    /// the ways to it, each with its kind, and the number of its lanes.
    ///
    /// # Errors
    /// When it cannot be opened, in the host's words, or the export is refused.
    pub fn start(
        &self,
        planned: &PlannedArray,
        name: &str,
        options: OpenOptions,
        how: LaneSpec,
        block: Option<BlockSpec>,
    ) -> Result<(Vec<(&'static str, String)>, usize), HostError> {
        let notices = lock(&self.notices).clone();
        let locks = if options.read_only { check_free(std::slice::from_ref(planned), true) } else { Ok(Vec::new()) };
        let locks = locks.map_err(|failure| HostError::Refused(failure.to_string()))?;
        let caches = options.drive_caches.map_or(Ok(()), |on| set_free_caches(planned, options.read_only, on));
        let near = if how.cpus.is_empty() { Near::of(how.numa_node, &planned.drives)? } else { None };
        let lanes = how.lanes(name, near.as_ref());
        let (lanes, warnings) = ArrayLanes::open(&planned.drives, options, lanes, notices)?;
        lock(&self.names).insert(planned.name.clone(), name.to_owned());
        let count = lanes.lane_count();
        let fewer = how.count.filter(|&wanted| wanted > count).map(|wanted| {
            let why =
                "arrays with checksums or md's partial parity log have one, others as many as their write log has space for";
            format!("array \"{name}\" was to run on {wanted} lanes and runs on {count}: {why}")
        });
        lanes.set_write_policy(options.write_policy)?;
        for warning in warnings {
            self.events.push(match words::start::of_opening(&warning) {
                Some(said) => view::said_event(name, "warning", EventSentence::Warning(said)),
                None => view::plain_event(name, "warning", warning.to_string()),
            });
        }
        for warning in fewer.into_iter().chain(caches.as_ref().err().cloned()) {
            self.events.push(view::plain_event(name, "warning", warning));
        }
        let device = lanes.remote();
        let trims = !options.read_only && device.limits().discard_granularity_bytes > 0;
        let export = Export {
            name: name.to_owned(),
            description: planned.name.clone() + if trims { ": what is trimmed reads as zeros" } else { "" },
            device,
            read_only: options.read_only,
        };
        let held = Held {
            write: options.write_policy.into(),
            drive_caches: options.drive_caches.filter(|_| caches.is_ok()),
            read_only: options.read_only,
        };
        let served = Served::new(name, planned, (lanes, how, near), options, locks, held);
        let block = block.map(|block| UblkDevice::start(&export, planned.uuid, &block.options(count))).transpose();
        let outcome = block.map_err(|error| error.to_string()).and_then(|block| {
            *lock(&served.block) = block;
            self.nbd.add_export(export).map_err(|error| error.to_string())
        });
        if let Err(reason) = outcome {
            let block = self.give_up_block(&served, true);
            let _ = self.end(&served, false);
            block.iter().for_each(|block| self.finish_block(&served, block));
            return Err(HostError::Refused(reason));
        }
        let ways = self.ways_to(&served);
        let addresses: Vec<&str> = ways.iter().map(|(_, address)| address.as_str()).collect();
        let (array, drive_count, addresses) = (name.to_owned(), planned.drives.len(), addresses.join(" and "));
        let said = ServiceSentence::ArrayServed { array, drive_count, addresses };
        self.announce(name, said);
        let served = Arc::new(served);
        self.set_kept_speed(&served);
        // Remembers a first view, in case the array never answers.
        let _ = self.view(&served, STATUS_WITHIN);
        lock(&self.arrays).push(served);
        lock(&self.unstarted).remove(name);
        Ok((ways, count))
    }

    /// The ways to an array that has just been exported, each with its kind.
    fn ways_to(&self, served: &Served) -> Vec<(&'static str, String)> {
        let mut ways: Vec<(&str, String)> = self.nbd.uris(&served.name).into_iter().map(|uri| ("nbd", uri)).collect();
        if let Some(block) = &*lock(&served.block) {
            let path = block.path().display().to_string();
            if block.is_taken_over() {
                let text = format!("{path}, which a dead server left, is served again; its requests go on");
                self.events.push(view::plain_event(&served.name, "taken_over", text));
            }
            ways.push(("ublk", path));
        }
        ways
    }

    /// Applies the bounds on speed that were set before the last stop.
    fn set_kept_speed(&self, served: &Served) {
        let name = &served.name;
        if let Some(request) = self.ledger.get().and_then(|ledger| ledger.speed(&uuid_text(&served.uuid)))
            && let Err(error) = set_speed(served, &request)
        {
            let (reason, cause) = error.words().parts();
            let said = WarningSentence::SpeedDoesNotApply { array: name.clone(), reason, cause };
            self.events.push(view::said_event(name, "warning", EventSentence::Warning(said)));
        }
    }

    /// True while an array is served under this name, also if it is stopped for a moment to be changed.
    pub fn serves(&self, name: &str) -> bool {
        lock(&self.pausing).contains(name) || lock(&self.arrays).iter().any(|served| served.name == name)
    }

    /// Has `waker` called when an array was stopped to be changed and did not start again.
    pub fn wake_with(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
    }

    /// The drives that came back to arrays and were left as they are, by the names of these.
    pub fn set_left_alone(&self, drives: BTreeMap<String, Vec<LeftAloneView>>) {
        *lock(&self.left_alone) = drives;
    }

    /// Why an array that was stopped to be changed did not start again; `None`: it was stopped by a command, or is served.
    pub fn unstarted(&self, name: &str) -> Option<Unstarted> {
        lock(&self.unstarted).get(name).cloned()
    }

    /// The same, and leaves the array to the caller.
    pub fn take_unstarted(&self, name: &str) -> Option<Unstarted> {
        lock(&self.unstarted).remove(name)
    }

    /// Asks every lane of every array for an answer, for `patience` all together.
    ///
    /// # Errors
    /// Names a lane that does not answer although it waits for nothing in the kernel: only a new process helps. A lane that waits
    /// there for a drive is reported by an event, and would hold up a new process as well.
    pub fn lanes_answer(&self, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        for served in self.all() {
            let left = end.saturating_duration_since(Instant::now());
            let answer = served.lanes.report_within(left.max(patience / 20));
            // A lane that has ended by a panic answers nothing any more, and an array that stops has none.
            let is_gone = answer.is_err() && self.serves(&served.name) && !served.stopping.load(Ordering::SeqCst);
            let (still, lane, waits_in) = served.lanes.stands_still();
            let name = &served.name;
            match answer {
                Ok(None) if still >= patience && waits_in.is_none() => {
                    return Err(format!("lane {lane} of array \"{name}\" has not answered for {} s", still.as_secs()));
                }
                Err(error) if is_gone => return Err(format!("a lane of array \"{name}\" has ended: {error}")),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn all(&self) -> Vec<Arc<Served>> {
        lock(&self.arrays).clone()
    }

    fn find(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        let arrays = lock(&self.arrays);
        arrays.iter().find(|served| served.name == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = arrays.iter().map(|served| served.name.as_str()).collect();
            ApiError::new(ApiErrorKind::NotFound, view::no_array_served(name, &names))
        })
    }

    /// The process that answers.
    pub fn about(&self) -> ServiceView {
        ServiceView {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            arrays: self.all().iter().map(|served| served.name.clone()).collect(),
        }
    }

    /// All arrays. An array whose view fails is shown as one that does not answer, so that it does not hide the others.
    pub fn arrays(&self) -> Vec<ArrayView> {
        let end = Instant::now() + STATUS_WITHIN;
        let left = || end.saturating_duration_since(Instant::now()).max(STATUS_WITHIN / 20);
        let view = |served: &Arc<Served>| match self.view(served, left()) {
            Ok(view) => {
                served.unseen.store(false, Ordering::SeqCst);
                Some(view)
            }
            // It stops, or has stopped since.
            Err(_) if served.stopping.load(Ordering::SeqCst) || !self.serves(&served.name) => None,
            Err(error) => {
                if !served.unseen.swap(true, Ordering::SeqCst) {
                    tracing::error!("the state of array \"{}\" is unknown: {error}", served.name);
                }
                let unseen = || view::unseen(&served.name, &served.uuid, 0);
                let known = lock(&served.known).clone().unwrap_or_else(unseen);
                Some(silent(served, known, STATUS_WITHIN))
            }
        };
        self.all().iter().filter_map(view).collect()
    }

    /// One array.
    pub fn array(&self, name: &str) -> Result<ArrayView, ApiError> {
        self.view(&*self.find(name)?, STATUS_WITHIN)
    }

    /// The present view of an array; if its lanes do not answer in time, the last known one.
    fn view(&self, served: &Served, patience: Duration) -> Result<ArrayView, ApiError> {
        let known = || lock(&served.known);
        let Some((report, lanes)) = served.lanes.report_within(patience)? else {
            let Some(view) = known().clone() else {
                return Err(ApiError::new(ApiErrorKind::Failed, ErrorSentence::DoesNotAnswer { array: served.name.clone() }));
            };
            return Ok(silent(served, view, patience));
        };
        let takes_clients = served.lanes.takes_clients();
        let mut view = view::array(&report);
        served.space.look(&report, &mut view);
        let count = lanes.len();
        let lanes = lanes.into_iter().enumerate();
        view.lanes =
            lanes.map(|(index, lane)| served.how.view(served.near.as_ref(), takes_clients, index, count, &lane)).collect();
        view.identity.name.clone_from(&served.name);
        view.condition.paused = served.paused.load(Ordering::SeqCst);
        view.condition.measuring = served.measuring.load(Ordering::SeqCst);
        if let Some(ledger) = self.ledger.get() {
            ledger.fill(&mut view);
        }
        let left = lock(&self.left_alone).get(&served.name).cloned().unwrap_or_default();
        let is_used = |path: &str| view::all_members(&view).iter().any(|member| member.path == path && member.role != "failed");
        view.condition.left_alone = left.into_iter().filter(|drive| !is_used(&drive.path)).collect();
        let held = *lock(&served.held);
        view.writes.write = Some(held.write);
        view.speed = Some(lock(&served.bounds).clone());
        view.writes.power_cut = held.write.words().into();
        let (differ, unflushed) = (lock(&served.caches.differ).clone(), lock(&served.caches.unflushed).clone());
        view.drive_caches = view::drive_caches(&report, held.drive_caches, &differ, &unflushed);
        view.drive_caches_set = held.drive_caches;
        view::note_unflushed(&mut view, &unflushed);
        view::describe_state(&mut view);
        if since::is_asked(&view) {
            since::fill(&mut view, &self.known_events());
        }
        view.access.exports = self.nbd.uris(&served.name);
        view.access.vhost_user = served.disks().iter().map(|disk| disk.path().display().to_string()).collect();
        view.access.attached = devices_of(&served.uuid).iter().map(|path| path.display().to_string()).collect();
        view.access.clients = self.clients(served);
        if let Some(block) = &*lock(&served.block) {
            let (path, status) = (block.path().display().to_string(), block.status());
            view.access.block_device = Some(path.clone());
            view.access.clients.push(ClientView {
                id: 0,
                peer: path,
                tls: false,
                requests: status.requests,
                errors: status.errors,
                read_bytes: status.read_bytes,
                written_bytes: status.written_bytes,
                in_flight: status.in_flight,
            });
        }
        *known() = Some(view.clone());
        Ok(view)
    }

    fn clients(&self, served: &Served) -> Vec<ClientView> {
        let connections = self.nbd.connections().into_iter();
        let here = connections.filter(|connection| connection.export.as_ref() == Some(&served.name));
        let disks = served.disks();
        here.chain(disks.iter().filter_map(|disk| disk.connection()))
            .map(|connection| ClientView {
                id: connection.id,
                peer: connection.peer,
                tls: connection.tls,
                requests: connection.requests,
                errors: connection.errors,
                read_bytes: connection.read_bytes,
                written_bytes: connection.written_bytes,
                in_flight: connection.in_flight,
            })
            .collect()
    }

    fn done(&self, sequence: u64, message: impl Into<String>) -> Result<Done, ApiError> {
        Ok(Done { message: message.into(), sequence })
    }

    /// Remembers which drives have the slots of arrays, where the process remembers anything. `place`: where a drive sits, in
    /// words.
    pub fn note_drives(&self, views: &[ArrayView], place: impl Fn(&str) -> Option<String>) {
        if let Some(ledger) = self.ledger.get() {
            ledger.note_drives(views, place);
        }
    }

    /// The clients of an array, the users of its block device, and the devices it is attached to, as people read them.
    fn users(&self, served: &Served) -> Vec<String> {
        let mut users = counted(self.clients(served).into_iter().map(|client| client.peer));
        if let Some(block) = &*lock(&served.block) {
            let path = block.path();
            users.extend(block.users().into_iter().map(|user| format!("{}: {user}", path.display())));
        }
        users.extend(devices_of(&served.uuid).iter().map(|path| {
            format!(
                "{path} (`stria detach {word}` ends that)",
                path = path.display(),
                word = shell_word(&path.display().to_string())
            )
        }));
        users
    }

    /// Removes the array's block device. `spares_users`: if it is in use, it is left to a process that serves the array later.
    /// Users are looked for here once more, because one may have come since the stop was allowed. Returns the device if the kernel
    /// waits for requests that end only with the array: [`Service::finish_block`] comes after that.
    fn give_up_block(&self, served: &Served, spares_users: bool) -> Option<UblkDevice> {
        let block = lock(&served.block).take()?;
        let path = block.path();
        *lock(&served.block_left) = Some(path.clone());
        let users = if spares_users { block.users() } else { Vec::new() };
        let warn = |text| self.events.push(view::plain_event(&served.name, "warning", text));
        if users.is_empty() {
            // A drive that hangs below its users' requests would hold up the kernel, and so the stop, which is what fails such drives.
            let hope = || served.lanes.go_on_without_silent(warn).map_err(|error| error.to_string());
            return match block.remove_while(hope) {
                Ok(()) => {
                    *lock(&served.block_left) = None;
                    None
                }
                Err(UblkError::Hopeless { .. }) => Some(block),
                Err(error) => {
                    warn(error.to_string());
                    None
                }
            };
        }
        block.leave();
        let (path, id, users) = (path.display(), block.id(), users.join(", "));
        warn(format!(
            "{path} is in use ({users}), so it was not removed: its requests wait until `stria serve --ublk` serves the array again; \
             `stria ublk remove {id}` removes it, and they fail"
        ));
        None
    }

    /// Removes a block device whose requests have ended with the array, in error.
    fn finish_block(&self, served: &Served, block: &UblkDevice) {
        match block.remove() {
            Ok(()) => *lock(&served.block_left) = None,
            Err(error) => self.events.push(view::plain_event(&served.name, "warning", error.to_string())),
        }
    }

    /// Stops the array and its lanes. Returns the last state, in words.
    fn end(&self, served: &Served, hurries: bool) -> Result<String, ApiError> {
        let warn = |text| self.events.push(view::plain_event(&served.name, "warning", text));
        let last = if hurries { served.lanes.stop_in_a_hurry(warn)? } else { served.lanes.stop(warn)? };
        Ok(view::array(&last).condition.state)
    }
}

/// Each peer once, with the number of its connections if it has several.
fn counted(peers: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts = BTreeMap::new();
    peers.for_each(|peer| *counts.entry(peer).or_insert(0) += 1);
    let words = |(peer, count)| if count == 1 { peer } else { format!("{peer} ({count} connections)") };
    counts.into_iter().map(words).collect()
}
