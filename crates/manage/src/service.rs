//! The arrays that one process serves: each on lanes of its own, under a name, exported over NBD and to virtual machines.
//!
//! The service talks to arrays only by message. It locks its list of arrays, but never while lanes work. Every call here may
//! block; the control socket calls from threads made for that.

mod firmware;
mod settings;

pub use firmware::{Update, check_update};
pub use settings::Held;

use crate::api::{
    AddRequest, ApiError, ApiErrorKind, ArrayView, ClientView, Done, LatencyBound, ReplaceRequest, ScrubRequest, ServiceView,
    SpeedRequest, TrimRequest,
};
use crate::event_log::EventLog;
use crate::free::check_free;
use crate::lane_spec::{LaneSpec, Near};
use crate::ledger::Ledger;
use crate::ublk::BlockSpec;
use crate::view;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use stria_array::{LatencyTarget, MemberState};
use stria_block::{Completion, Mailbox, Operation, Request, SECTOR_BYTES};
use stria_drive::real_path_within;
use stria_format::md::uuid_text;
use stria_front::nbd_device::devices_of;
use stria_front::ublk::UblkDevice;
use stria_front::{Closing, Export, FrontError, ServerHandle, SocketAccess, VhostUserDisk, VhostUserServer};
use stria_host::{ArrayLanes, ArrayReport, HostError, MemberReport, Notice, OpenOptions, OpenedDrive, PlannedArray, short_name};
use stria_terminal::size;
use tokio::sync::watch;

/// How often a command that waits for the engine looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The event of the end of a sweep comes within this.
const ENDED_WITHIN: Duration = Duration::from_secs(1);
/// The time that a stop waits for clients to leave before it is refused, the same as mdadm's.
const CLIENTS_LEAVE: Duration = Duration::from_secs(1);
/// How long `status` waits for the lanes of all arrays together; then it shows the last known state.
const STATUS_WITHIN: Duration = Duration::from_millis(1200);
/// When everything stops, an array is given up whose lane has stood still for so long. Longer than a stop waits for drives (10 s), and shorter than
/// systemd waits for the process.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
/// How often the watchdog checks that lanes make progress.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long a lane may stand still before that is reported.
const STILL_FOR: Duration = Duration::from_secs(5);
/// 1 GiB: what one request of `trim` covers.
const TRIM_SECTORS: u64 = (1 << 30) / SECTOR_BYTES as u64;

/// An array on its lanes.
pub struct Served {
    /// Its name here, and that of its export.
    pub name: String,
    uuid: [u8; 16],
    lanes: ArrayLanes,
    how: LaneSpec,
    near: Option<Near>,
    /// As it was planned and opened, for a pause.
    planned: PlannedArray,
    options: OpenOptions,
    read_only: bool,
    /// Locks on drives that are only read.
    locks: Mutex<Vec<File>>,
    /// The settings that hold.
    held: Mutex<Held>,
    /// The drives' caches, as the drives tell.
    caches: settings::Caches,
    /// Its block device, if it has one.
    block: Mutex<Option<UblkDevice>>,
    /// The view when its lanes last answered.
    known: Mutex<Option<ArrayView>>,
    /// The bounds on the speed of sweeps that were set.
    bounds: Mutex<SpeedRequest>,
    /// Sweeps are paused by command.
    paused: AtomicBool,
    /// The cost of sweeps is being measured.
    measuring: AtomicBool,
    stopping: AtomicBool,
    /// Its last view could not be had, which the log says.
    unseen: AtomicBool,
    /// It does not stop, and the process ends without that.
    is_given_up: AtomicBool,
    /// The servers by which it is the disk of virtual machines.
    disks: Mutex<Vec<Arc<VhostUserServer>>>,
    /// Their sockets, with access and the disk's number.
    disk_sockets: Mutex<Vec<(PathBuf, SocketAccess, String)>>,
}

impl Served {
    /// An array whose lanes run. `lanes`: with their terms, and the NUMA node that they are near.
    fn new(
        name: &str,
        planned: &PlannedArray,
        (lanes, how, near): (ArrayLanes, LaneSpec, Option<Near>),
        options: OpenOptions,
        locks: Vec<File>,
        held: Held,
    ) -> Self {
        Self {
            name: name.to_owned(),
            uuid: planned.uuid,
            lanes,
            how,
            near,
            planned: planned.clone(),
            options,
            read_only: options.read_only,
            locks: Mutex::new(locks),
            held: Mutex::new(held),
            caches: settings::Caches::default(),
            block: Mutex::default(),
            known: Mutex::default(),
            bounds: Mutex::default(),
            paused: AtomicBool::default(),
            measuring: AtomicBool::default(),
            stopping: AtomicBool::default(),
            unseen: AtomicBool::default(),
            is_given_up: AtomicBool::default(),
            disks: Mutex::default(),
            disk_sockets: Mutex::default(),
        }
    }

    fn disks(&self) -> Vec<Arc<VhostUserServer>> {
        lock(&self.disks).clone()
    }
}

/// The name under which an array is served, by its name on disk.
type Names = Mutex<HashMap<String, String>>;

/// Takes the path of a drive that has joined an array. Returns what there is to say about it.
type Finder = Box<dyn Fn(&Path) -> Option<String> + Send + Sync>;

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
    /// Stores where a drive that has joined an array is found at the next start; a `serve` has none.
    finder: OnceLock<Finder>,
    /// Names of arrays that are stopped for a moment, to be changed.
    pausing: Mutex<BTreeSet<String>>,
    /// Held while the firmware of a member is updated: one member at a time.
    updating: Mutex<()>,
    /// The error of the first array that did not stop cleanly.
    failure: Mutex<Option<ApiError>>,
}

impl Service {
    /// A service without arrays, on a server without exports.
    pub fn new(nbd: ServerHandle) -> Arc<Self> {
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
        std::thread::Builder::new()
            .name("notices".into())
            .spawn(move || heard.iter().for_each(hear))
            .expect("a process that starts has room for a thread");
        let shutdown = watch::channel(false).0;
        let service = Arc::new(Self {
            arrays: Mutex::default(),
            nbd,
            events,
            names,
            notices: Mutex::new(notices),
            shutdown,
            stays: AtomicBool::new(false),
            ledger: OnceLock::new(),
            finder: OnceLock::new(),
            pausing: Mutex::default(),
            updating: Mutex::default(),
            failure: Mutex::default(),
        });
        let watched = Arc::downgrade(&service);
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || watch(&watched))
            .expect("a process that starts has room for a thread");
        service
    }

    /// Keeps the process from ending with its last array.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::SeqCst);
    }

    /// Remembers bounds on speed and the results of scrubs, from the start of the process on.
    pub fn remember(&self, ledger: Arc<Ledger>) {
        let _ = self.ledger.set(ledger);
    }

    /// Calls `finder` with the path of each drive that joins an array, from the start of the process on.
    pub fn find_again_by(&self, finder: impl Fn(&Path) -> Option<String> + Send + Sync + 'static) {
        let _ = self.finder.set(Box::new(finder));
    }

    /// The message of a drive that has joined, and what was stored for the next start.
    fn joined(&self, message: String, path: &Path) -> String {
        let note = self.finder.get().and_then(|finder| finder(path));
        note.map_or(message.clone(), |note| format!("{message}; {note}"))
    }

    /// Lets clients connect. Harmless if repeated, for disks that were added since.
    ///
    /// # Errors
    /// When one of the addresses cannot be listened on.
    pub fn listen(&self) -> Result<(), FrontError> {
        self.nbd.listen()?;
        self.all().iter().flat_map(|served| served.disks()).try_for_each(|disk| disk.listen())
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
        let caches = options.drive_caches.map_or(Ok(()), |on| settings::set_caches(&planned.drives, on));
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
        for warning in warnings.into_iter().chain(fewer).chain(caches.as_ref().err().cloned()) {
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
            self.give_up_block(&served, true);
            let _ = self.end(&served);
            return Err(HostError::Refused(reason));
        }
        let ways = self.ways_to(&served);
        let addresses: Vec<&str> = ways.iter().map(|(_, address)| address.as_str()).collect();
        let text = format!("array \"{name}\" is served from {} drives at {}", planned.drives.len(), addresses.join(" and "));
        self.events.push(view::plain_event(name, "started", text));
        let served = Arc::new(served);
        self.set_kept_speed(&served);
        // Remembers a first view, in case the array never answers.
        let _ = self.view(&served, STATUS_WITHIN);
        lock(&self.arrays).push(served);
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
            let text =
                format!("the bounds on speed that \"{name}\" had do not apply: {error}; `stria speed {name}` sets new ones");
            self.events.push(view::plain_event(name, "warning", text));
        }
    }

    /// True while an array is served under this name, also if it is stopped for a moment to be changed.
    pub fn serves(&self, name: &str) -> bool {
        lock(&self.pausing).contains(name) || lock(&self.arrays).iter().any(|served| served.name == name)
    }

    /// Asks every lane of every array for an answer, for `patience` all together.
    ///
    /// # Errors
    /// Names a lane that does not answer although it waits for nothing in the kernel: only a new process helps. A lane that waits there
    /// for a drive is reported by an event, and would hold up a new process as well.
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

    /// All arrays. One that has no view must not hide the others: it is there as one that does not answer.
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
                return Err(ApiError::new(ApiErrorKind::Failed, format!("array \"{}\" does not answer", served.name)));
            };
            return Ok(silent(served, view, patience));
        };
        let takes_clients = served.lanes.takes_clients();
        let mut view = view::array(&report);
        let count = lanes.len();
        let lanes = lanes.into_iter().enumerate();
        view.lanes =
            lanes.map(|(index, lane)| served.how.view(served.near.as_ref(), takes_clients, index, count, &lane)).collect();
        view.name.clone_from(&served.name);
        view.paused = served.paused.load(Ordering::SeqCst);
        view.measuring = served.measuring.load(Ordering::SeqCst);
        if let Some(ledger) = self.ledger.get() {
            ledger.fill(&mut view);
        }
        let held = *lock(&served.held);
        view.write = Some(held.write);
        view.speed = Some(lock(&served.bounds).clone());
        view.power_cut = held.write.words().into();
        view.drive_caches = view::drive_caches(&report, held.drive_caches, &lock(&served.caches.differ));
        view::describe_state(&mut view);
        view.exports = self.nbd.uris(&served.name);
        view.vhost_user = served.disks().iter().map(|disk| disk.path().display().to_string()).collect();
        view.attached = devices_of(&served.uuid).iter().map(|path| path.display().to_string()).collect();
        view.clients = self.clients(served);
        if let Some(block) = &*lock(&served.block) {
            let (path, status) = (block.path().display().to_string(), block.status());
            view.block_device = Some(path.clone());
            view.clients.push(ClientView {
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

    /// Drops a drive as if it had failed.
    pub fn fail(&self, name: &str, path: PathBuf) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let shown = path.display().to_string();
        served.lanes.fail(path)?;
        self.done(sequence, format!("{shown} was failed in \"{name}\""))
    }

    /// Removes a failed drive or a spare.
    pub fn remove(&self, name: &str, path: PathBuf) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let shown = path.display().to_string();
        served.lanes.remove(path)?;
        self.done(sequence, format!("{shown} was removed from \"{name}\""))
    }

    /// Adds a drive.
    pub fn add(&self, name: &str, request: AddRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        // A failed drive that is still listed is open here, which would keep it from coming back.
        if is_failed_here(&served.lanes.report()?, &request.path) {
            served.lanes.remove(request.path.clone())?;
        }
        let AddRequest { path, span, force } = request;
        let span = span.map(|span| Ok::<_, ApiError>(full_name(&served.lanes.report()?, &span))).transpose()?;
        let message = served.lanes.add(|| open_new(&served, &path), span, force)?;
        self.set_held_cache(&served, &path);
        self.done(sequence, self.joined(message, &path))
    }

    /// Replaces a drive that still works.
    pub fn replace(&self, name: &str, request: ReplaceRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        if let Some(message) = served.lanes.replace_by_spare(request.old.clone(), request.new.clone())? {
            return self.done(sequence, message);
        }
        let new = open_new(&served, &request.new)?;
        let message = served.lanes.replace(request.old, new, request.force)?;
        self.set_held_cache(&served, &request.new);
        self.done(sequence, self.joined(message, &request.new))
    }

    /// Begins a scrub.
    pub fn scrub(&self, name: &str, request: &ScrubRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let (repair, from_sector) = (request.repair, request.from_bytes / SECTOR_BYTES as u64);
        served.lanes.scrub(repair, from_sector)?;
        self.done(sequence, format!("scrub of \"{name}\" began{}", if repair { "; mismatches are repaired" } else { "" }))
    }

    /// Stops a scrub before its end.
    pub fn cancel_scrub(&self, name: &str) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let scrubs = |served: &Served| {
            let view = view::array(&served.lanes.report()?);
            let is_scrub =
                |view: &ArrayView| view.sweep.as_ref().is_some_and(|sweep| sweep.kind == "scrub" || sweep.kind == "repair");
            Ok::<_, ApiError>(is_scrub(&view) || view.spans.iter().any(is_scrub))
        };
        let runs = scrubs(&served)?;
        served.lanes.cancel_scrub()?;
        // One that a pause or a measurement holds is not in the view: the event of its end tells that there was one.
        let is_end = |event: &crate::api::EventView| {
            event.kind == "sweep_stopped" && matches!(event.sweep.as_deref(), Some("scrub" | "repair")) && !view::is_held(event)
        };
        let ended = || self.events.since(sequence).iter().any(is_end);
        let may_be_held = served.paused.load(Ordering::SeqCst) || served.measuring.load(Ordering::SeqCst);
        let end = Instant::now() + if may_be_held { ENDED_WITHIN } else { Duration::ZERO };
        while !runs && !ended() {
            if Instant::now() >= end {
                return Err(ApiError::new(ApiErrorKind::Refused, format!("no scrub runs on \"{name}\"")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        while scrubs(&served)? {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.done(sequence, format!("scrub of \"{name}\" was cancelled"))
    }

    /// Pauses sweeps, or lets them go on.
    pub fn pause(&self, name: &str, paused: bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        served.lanes.pause(paused)?;
        let message = format!("sweeps of \"{name}\" {}", if paused { "are paused" } else { "are resumed" });
        if served.paused.swap(paused, Ordering::SeqCst) != paused {
            let kind = if paused { "paused" } else { "resumed" };
            self.events.push(view::plain_event(&served.name, kind, message.clone()));
        }
        self.done(sequence, message)
    }

    /// Holds sweeps for a measurement, or lets them go on unless they are paused by command.
    pub fn hold(&self, name: &str, held: bool) -> Result<(), ApiError> {
        let served = self.find(name)?;
        Ok(served.lanes.pause(held || served.paused.load(Ordering::SeqCst))?)
    }

    /// Notes that the cost of sweeps is being measured: a sweep that is held meanwhile has not ended.
    pub fn set_measuring(&self, name: &str, measuring: bool) -> Result<(), ApiError> {
        self.find(name)?.measuring.store(measuring, Ordering::SeqCst);
        Ok(())
    }

    /// Remembers which drives have the slots of arrays, where the process remembers anything. `place`: where a drive sits, in words.
    pub fn note_drives(&self, views: &[ArrayView], place: impl Fn(&str) -> Option<String>) {
        if let Some(ledger) = self.ledger.get() {
            ledger.note_drives(views, place);
        }
    }

    /// Bounds the speed of sweeps. A daemon remembers that.
    pub fn speed(&self, name: &str, request: &SpeedRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        set_speed(&served, request)?;
        if let Some(ledger) = self.ledger.get() {
            ledger.note_speed(&uuid_text(&served.uuid), request);
        }
        self.done(sequence, format!("speed bounds of \"{name}\" are set"))
    }

    /// Trims a range: it reads as zeros afterwards. It ends early once `is_cancelled` says so, which is asked between parts of 1 GiB.
    pub fn trim(&self, name: &str, request: &TrimRequest, is_cancelled: impl Fn() -> bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let remote = served.lanes.remote();
        let limits = remote.limits();
        let refuse = |kind, message: String| Err(ApiError::new(kind, message));
        let size_bytes = limits.size_sectors * SECTOR_BYTES as u64;
        let start = request.start_bytes;
        let length = request.length_bytes.unwrap_or(size_bytes.saturating_sub(start));
        let block = u64::from(limits.logical_block_bytes);
        let Some(end) = start.checked_add(length).filter(|&end| end <= size_bytes && length > 0) else {
            return refuse(
                ApiErrorKind::Invalid,
                format!("the range is empty or leaves \"{name}\", which has {size_bytes} bytes"),
            );
        };
        if !(start | end).is_multiple_of(block) {
            return refuse(ApiErrorKind::Invalid, format!("the range is not aligned to blocks of {block} bytes: round it"));
        }
        if !request.force {
            let what = format!("trim destroys what lies in {length} bytes at {start} of \"{name}\"; --force insists");
            return refuse(ApiErrorKind::Unsafe, format!("{what} (a mounted file system trims its free space with fstrim)"));
        }
        if limits.discard_granularity_bytes == 0 {
            return refuse(
                ApiErrorKind::Refused,
                format!("not every member of \"{name}\" can zero and unmap in one request: nothing was done"),
            );
        }
        let sectors = start / SECTOR_BYTES as u64..end / SECTOR_BYTES as u64;
        let thread = std::thread::current();
        let reply = Arc::new(Mailbox::<Completion>::new(move || thread.unpark()));
        for start_sector in sectors.clone().step_by(TRIM_SECTORS as usize) {
            if is_cancelled() {
                let trimmed = start_sector * SECTOR_BYTES as u64 - start;
                let text = format!("trim of \"{name}\" was cancelled: the first {trimmed} of {length} bytes read as zeros");
                return refuse(ApiErrorKind::Refused, text);
            }
            let count = TRIM_SECTORS.min(sectors.end - start_sector);
            let operation = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
            let request = Request { tag: 0, start_sector, sectors: count, operation };
            remote.submit(&mut vec![request], &reply);
            let mut ended = Vec::new();
            while ended.is_empty() {
                if reply.prepare_sleep() {
                    std::thread::park();
                }
                reply.take(&mut ended);
            }
            if let Err(error) = &ended[0].result {
                return refuse(ApiErrorKind::Failed, format!("trim of \"{name}\" failed: {error}"));
            }
        }
        self.done(sequence, format!("{length} bytes at {start} of \"{name}\" were trimmed and read as zeros"))
    }

    /// Stops one array cleanly. A process that does not stay ends with its last array.
    pub fn stop(&self, name: &str, force: bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        self.refuse_clients(std::slice::from_ref(&served), force)?;
        let outcome = self.stop_served(&served, Closing::Shutdown, force);
        // Nothing is left to serve, even if this array did not stop cleanly.
        if self.all().is_empty() && !self.stays.load(Ordering::SeqCst) {
            self.shutdown.send_replace(true);
        }
        outcome?;
        self.done(sequence, format!("array \"{name}\" has stopped"))
    }

    /// Stops an array whose start failed half-way.
    pub fn give_up(&self, name: &str, closing: Closing) -> Result<(), ApiError> {
        self.stop_served(&self.find(name)?, closing, true)
    }

    /// Stops everything by command. A process that stays goes on without arrays.
    pub fn stop_by_command(self: &Arc<Self>, force: bool) -> Result<Done, ApiError> {
        if !self.stays.load(Ordering::SeqCst) {
            return self.stop_all(force, Closing::Shutdown);
        }
        let (all, sequence) = (self.all(), self.events.sequence());
        self.refuse_clients(&all, force)?;
        all.iter().map(|served| self.stop_served(served, Closing::Shutdown, force)).fold(Ok(()), Result::and)?;
        let names: Vec<&str> = all.iter().map(|served| served.name.as_str()).collect();
        let what = if names.is_empty() { "nothing was served, so nothing".into() } else { names.join(", ") };
        self.done(sequence, format!("{what} stopped; the daemon goes on"))
    }

    /// Stops everything; then the process ends. A stop that is refused changes nothing, so clients are looked for before the sockets
    /// close. A client that connects between the two is disconnected like any other client of an array that stops. `closing`: whether
    /// clients may hope for another process that serves the same.
    pub fn stop_all(self: &Arc<Self>, force: bool, closing: Closing) -> Result<Done, ApiError> {
        let (all, sequence) = (self.all(), self.events.sequence());
        self.refuse_clients(&all, force)?;
        self.close();
        let mut outcome = self.stop_each(&all, closing, force);
        // Some arrays were stopping already, or are started again after a change: the process must not end before they have stopped.
        let is_left = |served: &Arc<Served>| !served.is_given_up.load(Ordering::SeqCst);
        while self.all().iter().any(is_left) || !lock(&self.pausing).is_empty() {
            let mut left = self.all();
            left.retain(is_left);
            outcome = outcome.and(self.stop_each(&left, closing, force));
            std::thread::sleep(LOOK_AGAIN);
        }
        self.shutdown.send_replace(true);
        outcome?;
        let names: Vec<&str> = all.iter().map(|served| served.name.as_str()).collect();
        self.done(sequence, format!("{} stopped", names.join(", ")))
    }

    /// Stops arrays, each on a thread of its own: one whose lane hangs must not keep the others from being stopped cleanly. Such a one is given up
    /// after a time; then it is as after a power cut.
    fn stop_each(self: &Arc<Self>, arrays: &[Arc<Served>], closing: Closing, force: bool) -> Result<(), ApiError> {
        let stop = |served: &Arc<Served>| {
            let (service, stopped) = (Arc::clone(self), Arc::clone(served));
            // One that is stopping already has its own thread, which is waited for as well.
            let is_begun = served.stopping.load(Ordering::SeqCst);
            let work = move || if is_begun { Ok(()) } else { service.stop_served(&stopped, closing, force) };
            (Arc::clone(served), is_begun, std::thread::Builder::new().name("stop".into()).spawn(work))
        };
        let (begun, mut outcome) = (Instant::now(), Ok(()));
        for (served, is_begun, thread) in arrays.iter().map(stop).collect::<Vec<_>>() {
            let Ok(thread) = thread else {
                outcome = outcome.and(self.stop_served(&served, closing, force));
                continue;
            };
            let is_here = || lock(&self.arrays).iter().any(|other| Arc::ptr_eq(other, &served));
            let is_over = || thread.is_finished() && !(is_begun && is_here());
            let mut still = Duration::ZERO;
            while !is_over() && (still < GIVE_UP_AFTER || begun.elapsed() < GIVE_UP_AFTER) {
                std::thread::sleep(LOOK_AGAIN);
                still = served.lanes.stands_still().0;
            }
            if is_over() {
                outcome = outcome.and(thread.join().unwrap_or_else(|_| {
                    served.is_given_up.store(true, Ordering::SeqCst);
                    Err(ApiError::new(ApiErrorKind::Failed, format!("the stop of array \"{}\" broke off", served.name)))
                }));
                continue;
            }
            served.is_given_up.store(true, Ordering::SeqCst);
            let text = format!(
                "array \"{}\" did not stop cleanly: a lane has stood still for {} s, so the members are left as after a power cut, and the next start \
                 resyncs",
                served.name,
                still.as_secs()
            );
            self.events.push(view::plain_event(&served.name, "stopped", text.clone()));
            let error = ApiError::new(ApiErrorKind::Failed, text);
            lock(&self.failure).get_or_insert_with(|| error.clone());
            outcome = outcome.and(Err(error));
        }
        outcome
    }

    /// Refuses to stop arrays that are in use. A client that has just left is given the time until its lanes have seen that.
    fn refuse_clients(&self, arrays: &[Arc<Served>], force: bool) -> Result<(), ApiError> {
        let refused_at = Instant::now() + CLIENTS_LEAVE;
        for served in arrays.iter().filter(|_| !force) {
            let mut users = self.users(served);
            while !users.is_empty() && Instant::now() < refused_at {
                std::thread::sleep(LOOK_AGAIN);
                users = self.users(served);
            }
            if !users.is_empty() {
                let message = format!("array \"{}\" is in use by {}; --force disconnects them", served.name, users.join(", "));
                return Err(ApiError::new(ApiErrorKind::Unsafe, message));
            }
        }
        Ok(())
    }

    /// The clients of an array, the users of its block device, and the devices it is attached to, as people read them.
    fn users(&self, served: &Served) -> Vec<String> {
        let mut users = counted(self.clients(served).into_iter().map(|client| client.peer));
        if let Some(block) = &*lock(&served.block) {
            let path = block.path();
            users.extend(block.users().into_iter().map(|user| format!("{}: {user}", path.display())));
        }
        users.extend(devices_of(&served.uuid).iter().map(|path| format!("{0} (`stria detach {0}` ends that)", path.display())));
        users
    }

    /// Removes the export, waits for the end of requests, marks the members clean, and ends the lanes. `force`: even if the block device
    /// has users.
    fn stop_served(&self, served: &Arc<Served>, closing: Closing, force: bool) -> Result<(), ApiError> {
        if served.stopping.swap(true, Ordering::SeqCst) {
            return Err(ApiError::new(ApiErrorKind::Refused, format!("array \"{}\" is stopping already", served.name)));
        }
        self.events.push(view::plain_event(&served.name, "stopping", format!("array \"{}\" stops", served.name)));
        served.disks().iter().for_each(|disk| disk.stop());
        // It is gone already if an earlier attempt failed later on.
        let _ = self.nbd.remove_export(&served.name, closing);
        self.give_up_block(served, closing == Closing::Disconnect || !force);
        let outcome = self.end(served);
        lock(&served.locks).clear();
        lock(&self.arrays).retain(|other| !Arc::ptr_eq(other, served));
        let words = match &outcome {
            Ok(state) => format!("array \"{}\" has stopped: {state}", served.name),
            Err(error) => {
                lock(&self.failure).get_or_insert_with(|| error.clone());
                format!("array \"{}\" did not stop cleanly: {error}", served.name)
            }
        };
        self.events.push(view::plain_event(&served.name, "stopped", words));
        outcome.map(|_| ())
    }

    /// Removes the array's block device. `spares_users`: if it is in use, it is left to a process that serves the array later. Users are
    /// looked for here once more, because one may have come since the stop was allowed.
    fn give_up_block(&self, served: &Served, spares_users: bool) {
        let Some(block) = lock(&served.block).take() else { return };
        let path = block.path();
        let users = if spares_users { block.users() } else { Vec::new() };
        let text = if users.is_empty() {
            match block.remove() {
                Ok(()) => return,
                Err(error) => error.to_string(),
            }
        } else {
            block.leave();
            let (path, id, users) = (path.display(), block.id(), users.join(", "));
            format!(
                "{path} is in use ({users}), so it is left: its requests wait until `stria serve --ublk` serves the array again, and \
                 `stria ublk remove {id}` gives them up"
            )
        };
        self.events.push(view::plain_event(&served.name, "warning", text));
    }

    /// Stops the array and its lanes. Returns the last state, in words.
    fn end(&self, served: &Served) -> Result<String, ApiError> {
        let warn = |text| self.events.push(view::plain_event(&served.name, "warning", text));
        Ok(view::array(&served.lanes.stop(warn)?).state)
    }
}

/// The last known view of an array that has not answered for `patience` at least.
fn silent(served: &Served, mut view: ArrayView, patience: Duration) -> ArrayView {
    let (still, lane, _) = served.lanes.stands_still();
    let (seconds, pid) = (still.max(patience).as_secs(), std::process::id());
    view.silent_s = Some(seconds);
    let silence = format!("does not answer (pid {pid}, lane {lane}) since {seconds} s");
    for words in [&mut view.state, &mut view.headline] {
        *words = if words.is_empty() { silence.clone() } else { format!("{silence}; before that: {words}") };
    }
    view
}

/// Bounds the speed of an array's sweeps.
fn set_speed(served: &Served, request: &SpeedRequest) -> Result<(), ApiError> {
    let sectors = |bytes: Option<u64>| bytes.map(|bytes| bytes.div_ceil(SECTOR_BYTES as u64));
    let (min, max) = (sectors(request.min_bytes_per_s), sectors(request.max_bytes_per_s));
    if min == Some(0) || max == Some(0) {
        return Err(ApiError::new(ApiErrorKind::Invalid, "a speed of 0 would never end: `pause` holds sweeps"));
    }
    let mut asked = lock(&served.bounds);
    let bounds = SpeedRequest {
        min_bytes_per_s: request.min_bytes_per_s.or(asked.min_bytes_per_s),
        max_bytes_per_s: request.max_bytes_per_s.or(asked.max_bytes_per_s),
        latency: request.latency.or(asked.latency),
    };
    if let (Some(min), Some(max)) = (bounds.min_bytes_per_s, bounds.max_bytes_per_s)
        && min > max
    {
        let (min, max) = (size::show(min), size::show(max));
        let message = format!("the lower bound of {min}/s is above the upper one of {max}/s: change --min, --max, or both");
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    let target = request.latency.map(latency_target).transpose()?;
    served.lanes.set_speed(min, max, target)?;
    *asked = bounds;
    Ok(())
}

/// Each peer once, with the number of its connections if it has several.
fn counted(peers: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts = BTreeMap::new();
    peers.for_each(|peer| *counts.entry(peer).or_insert(0) += 1);
    let words = |(peer, count)| if count == 1 { peer } else { format!("{peer} ({count} connections)") };
    counts.into_iter().map(words).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that lanes make progress, until the service is gone. A lane that stands still is reported here, as it cannot report
/// itself.
fn watch(service: &Weak<Service>) {
    let mut reported: BTreeSet<String> = BTreeSet::new();
    loop {
        std::thread::sleep(WATCH_EVERY);
        let Some(service) = service.upgrade() else { return };
        for served in service.all() {
            let (still, lane, waits_in) = served.lanes.stands_still();
            let name = &served.name;
            service.look_at_caches(&served);
            if still < STILL_FOR {
                if reported.remove(name) {
                    let text = format!("array \"{name}\" answers again");
                    service.events.push(view::plain_event(name, "lane_answers", text));
                }
                // Remembers a view in case the array stops answering. A sleeping lane is not woken.
                if served.lanes.is_awake() {
                    let _ = service.view(&served, STATUS_WITHIN);
                }
            } else if reported.insert(name.clone()) {
                let waits = match &*lock(&served.known) {
                    Some(view) => waiting(view),
                    None => Vec::new(),
                };
                let drives = match waits.is_empty() {
                    true => String::new(),
                    false => format!("; these drives had requests to answer: {}", waits.join(", ")),
                };
                let waits_in = waits_in.map_or_else(String::new, |function| format!(", in the kernel ({function})"));
                let text = format!(
                    "lane {lane} of array \"{name}\" has stood still for {} s{waits_in}{drives}; requests that need it wait",
                    still.as_secs()
                );
                service.events.push(view::plain_event(name, "lane_silent", text));
            }
        }
    }
}

/// Drives with unanswered requests.
fn waiting(view: &ArrayView) -> Vec<String> {
    let own = view.members.iter().filter(|member| member.waiting_ms.is_some()).map(|member| member.path.clone());
    own.chain(view.spans.iter().flat_map(waiting)).collect()
}

/// Opens a drive. One that this array uses already cannot join it again.
fn open_new(served: &Served, path: &Path) -> Result<OpenedDrive, HostError> {
    OpenedDrive::open(path, served.options.io).map_err(|error| {
        let holds =
            |array: &ArrayReport| array.tree().iter().any(|array| array.drives().any(|drive| is_same(&drive.info.path, path)));
        if !served.lanes.report().is_ok_and(|array| holds(&array)) {
            return error;
        }
        let (path, name) = (path.display(), &served.name);
        HostError::Refused(format!(
            "{path} is in use by \"{name}\" itself: `remove` takes out a spare, or a member that has failed"
        ))
    })
}

fn is_same(known: &Path, path: &Path) -> bool {
    // Does not wait for a file system that hangs.
    let real = |path: &Path| real_path_within(path, STATUS_WITHIN);
    known == path || real(path) == real(known)
}

/// True if the drive is a failed member of the array or of a span, and has no other entry there.
fn is_failed_here(array: &ArrayReport, path: &Path) -> bool {
    let states = |array: &ArrayReport| {
        let here = array.members.iter().zip(&array.status.members).filter(|(member, _)| match member {
            MemberReport::Drive(drive) => is_same(&drive.info.path, path),
            MemberReport::Array(_) | MemberReport::Removed => false,
        });
        here.map(|(_, status)| status.state).collect::<Vec<_>>()
    };
    let states: Vec<MemberState> = array.tree().into_iter().flat_map(states).collect();
    !states.is_empty() && states.iter().all(|state| *state == MemberState::Failed)
}

/// The full name of the array or span with this name; an unknown name is returned as it is.
fn full_name(array: &ArrayReport, name: &str) -> String {
    let tree = array.tree();
    let found = tree.iter().find(|array| array.name == name || short_name(&array.name) == name);
    found.map_or_else(|| name.to_owned(), |array| array.name.clone())
}

/// Converts to the engine's units; `None`: no bound.
fn latency_target(latency: LatencyBound) -> Result<Option<LatencyTarget>, ApiError> {
    let Some(bound_us) = latency.bound_us else { return Ok(None) };
    if !(50.0..100.0).contains(&latency.percentile) || bound_us == 0 {
        let message = "a latency to hold is a percentile from 50 to 99.99 and a time above zero, such as p99=5ms";
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    Ok(Some(LatencyTarget { percentile: (latency.percentile * 100.0).round() as u16, bound: bound_us.saturating_mul(1000) }))
}
