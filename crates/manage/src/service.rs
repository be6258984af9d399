//! The arrays that one process serves: each on lanes of its own, under a name, exported over NBD.
//!
//! The service talks to arrays by message only and holds its lock for the list of arrays, never while lanes work.
//! Every call here may block; the control socket calls from threads kept for that.

use crate::api::{
    AddRequest, ApiError, ApiErrorKind, ArrayView, ClientView, Done, LatencyBound, ReplaceRequest, ScrubRequest, ServiceView,
    SpeedRequest, TrimRequest,
};
use crate::event_log::EventLog;
use crate::lane_spec::{LaneSpec, Near};
use crate::view;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stria_array::LatencyTarget;
use stria_block::{Completion, Mailbox, Operation, Request, SECTOR_BYTES};
use stria_drive::IoOptions;
use stria_front::{Export, ServerHandle};
use stria_host::{ArrayLanes, ArrayReport, HostError, NewDrive, Notice, OpenOptions, PlannedArray};
use tokio::sync::watch;

/// How often a command that waits for the engine looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// 1 GiB: what one discard of `trim` covers.
const TRIM_SECTORS: u64 = (1 << 30) / SECTOR_BYTES as u64;

/// An array on its lanes.
pub struct Served {
    /// Its name here, and its export's.
    pub name: String,
    lanes: ArrayLanes,
    how: LaneSpec,
    near: Option<Near>,
    io: IoOptions,
    /// Sweeps are held on command.
    paused: AtomicBool,
    stopping: AtomicBool,
}

/// The arrays of this process.
pub struct Service {
    arrays: Mutex<Vec<Arc<Served>>>,
    nbd: ServerHandle,
    events: Arc<EventLog>,
    notices: Mutex<Sender<Notice>>,
    shutdown: watch::Sender<bool>,
    /// The first array that did not stop in good order.
    failure: Mutex<Option<ApiError>>,
}

impl Service {
    /// A service without arrays, on a server without exports.
    pub fn new(nbd: ServerHandle) -> Arc<Self> {
        let events = Arc::new(EventLog::default());
        let (notices, told) = channel::<Notice>();
        let listener = Arc::clone(&events);
        std::thread::Builder::new()
            .name("notices".into())
            .spawn(move || told.iter().for_each(|notice| listener.push(view::event(&notice))))
            .expect("a process that starts has room for a thread");
        let shutdown = watch::channel(false).0;
        Arc::new(Self {
            arrays: Mutex::default(),
            nbd,
            events,
            notices: Mutex::new(notices),
            shutdown,
            failure: Mutex::default(),
        })
    }

    /// What happened.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Becomes true when the process shall end.
    pub fn shutdown(&self) -> &watch::Sender<bool> {
        &self.shutdown
    }

    /// What went wrong at the end, if anything.
    pub fn failure(&self) -> Option<ApiError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens an array on lanes of its own and exports it as `name`. Returns its URIs, and how many lanes it has.
    ///
    /// # Errors
    /// When it cannot be opened, in the host's words, or the export is refused.
    pub fn start(
        &self,
        planned: &PlannedArray,
        name: &str,
        options: OpenOptions,
        how: LaneSpec,
    ) -> Result<(Vec<String>, usize), HostError> {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let near = if how.cpus.is_empty() { Near::of(how.numa_node, &planned.drives)? } else { None };
        let lanes = how.lanes(name, near.as_ref());
        let (lanes, warnings) = ArrayLanes::open(&planned.drives, options, lanes, notices)?;
        let count = lanes.lane_count();
        let fewer = how.count.filter(|&wanted| wanted > count).map(|wanted| {
            let why = "arrays with checksums or md's partial parity log have one, others as many as the write log has room for";
            format!("array \"{name}\" was to run on {wanted} lanes and runs on {count}: {why}")
        });
        for warning in warnings.into_iter().chain(fewer) {
            self.events.push(view::plain_event(name, "warning", warning));
        }
        let export = Export {
            name: name.to_owned(),
            description: planned.name.clone(),
            device: lanes.remote(),
            read_only: options.read_only,
        };
        let served = Served {
            name: name.to_owned(),
            lanes,
            how,
            near,
            io: options.io,
            paused: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        };
        if let Err(error) = self.nbd.add_export(export) {
            let _ = end(&served);
            return Err(HostError::Refused(error.to_string()));
        }
        let uris = self.nbd.uris(name);
        let text = format!("array \"{name}\" is served from {} drives at {}", planned.drives.len(), uris.join(" and "));
        self.events.push(view::plain_event(name, "started", text));
        self.lock().push(Arc::new(served));
        Ok((uris, count))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Served>>> {
        self.arrays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Served>> {
        self.lock().clone()
    }

    fn find(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        let arrays = self.lock();
        arrays.iter().find(|served| served.name == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = arrays.iter().map(|served| served.name.as_str()).collect();
            ApiError::new(ApiErrorKind::NotFound, format!("no array \"{name}\" is served here; served are: {}", names.join(", ")))
        })
    }

    /// Who answers.
    pub fn about(&self) -> ServiceView {
        ServiceView {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            arrays: self.all().iter().map(|served| served.name.clone()).collect(),
        }
    }

    /// All arrays.
    pub fn arrays(&self) -> Result<Vec<ArrayView>, ApiError> {
        self.all().iter().map(|served| self.view(served)).collect()
    }

    /// One array.
    pub fn array(&self, name: &str) -> Result<ArrayView, ApiError> {
        self.view(&*self.find(name)?)
    }

    fn view(&self, served: &Served) -> Result<ArrayView, ApiError> {
        let (takes_guests, rings) = (served.lanes.takes_guests(), served.lanes.rings()?);
        let mut view = view::array(&served.lanes.report()?);
        let count = rings.len();
        let lanes = rings.into_iter().enumerate();
        view.lanes = lanes.map(|(index, ring)| served.how.view(served.near.as_ref(), takes_guests, index, count, ring)).collect();
        view.name.clone_from(&served.name);
        view.paused = served.paused.load(Ordering::SeqCst);
        view.state = view::state_words(&view);
        view.exports = self.nbd.uris(&served.name);
        view.clients = self.clients(&served.name);
        Ok(view)
    }

    fn clients(&self, name: &str) -> Vec<ClientView> {
        let connections = self.nbd.connections().into_iter();
        let here = connections.filter(|connection| connection.export.as_deref() == Some(name));
        here.map(|connection| ClientView {
            id: connection.id,
            peer: connection.peer,
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

    /// Takes out a drive that has failed, or a spare.
    pub fn remove(&self, name: &str, path: PathBuf) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let shown = path.display().to_string();
        served.lanes.remove(path)?;
        self.done(sequence, format!("{shown} was removed from \"{name}\""))
    }

    /// Lets a drive in.
    pub fn add(&self, name: &str, request: AddRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let new = open_new(&served, &request.path)?;
        let AddRequest { span, force, .. } = request;
        let span = span.map(|span| Ok::<_, ApiError>(full_name(&served.lanes.report()?, &span))).transpose()?;
        let message = served.lanes.add(new, span, force)?;
        self.done(sequence, message)
    }

    /// Replaces a drive that still works.
    pub fn replace(&self, name: &str, request: ReplaceRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        if let Some(message) = served.lanes.replace_by_spare(request.old.clone(), request.new.clone())? {
            return self.done(sequence, message);
        }
        let new = open_new(&served, &request.new)?;
        let message = served.lanes.replace(request.old, new, request.force)?;
        self.done(sequence, message)
    }

    /// Begins a scrub.
    pub fn scrub(&self, name: &str, request: &ScrubRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let (repair, from_sector) = (request.repair, request.from_bytes / SECTOR_BYTES as u64);
        served.lanes.scrub(repair, from_sector)?;
        self.done(sequence, format!("scrub of \"{name}\" began{}", if repair { "; what disagrees is mended" } else { "" }))
    }

    /// Ends a scrub before its end.
    pub fn cancel_scrub(&self, name: &str) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let scrubs = |served: &Served| {
            let view = view::array(&served.lanes.report()?);
            let is_scrub =
                |view: &ArrayView| view.sweep.as_ref().is_some_and(|sweep| sweep.kind == "scrub" || sweep.kind == "repair");
            Ok::<_, ApiError>(is_scrub(&view) || view.spans.iter().any(is_scrub))
        };
        if !scrubs(&served)? {
            return Err(ApiError::new(ApiErrorKind::Refused, format!("no scrub runs on \"{name}\"")));
        }
        served.lanes.cancel_scrub()?;
        while scrubs(&served)? {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.done(sequence, format!("scrub of \"{name}\" was cancelled"))
    }

    /// Holds sweeps, or lets them go on.
    pub fn pause(&self, name: &str, paused: bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        served.lanes.pause(paused)?;
        served.paused.store(paused, Ordering::SeqCst);
        self.done(sequence, format!("sweeps of \"{name}\" {}", if paused { "are held" } else { "go on" }))
    }

    /// Bounds the speed of sweeps.
    pub fn speed(&self, name: &str, request: &SpeedRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let sectors = |bytes: Option<u64>| bytes.map(|bytes| bytes.div_ceil(SECTOR_BYTES as u64));
        let (min, max) = (sectors(request.min_bytes_per_s), sectors(request.max_bytes_per_s));
        if min == Some(0) || max == Some(0) {
            return Err(ApiError::new(ApiErrorKind::Invalid, "a speed of 0 would never end: `pause` holds sweeps"));
        }
        let target = request.latency.map(latency_target).transpose()?;
        served.lanes.set_speed(min, max, target)?;
        self.done(sequence, format!("speed bounds of \"{name}\" are set"))
    }

    /// Discards a range, whose contents are lost.
    pub fn trim(&self, name: &str, request: &TrimRequest) -> Result<Done, ApiError> {
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
            return refuse(ApiErrorKind::Refused, format!("not every member of \"{name}\" can discard: nothing was done"));
        }
        let sectors = start / SECTOR_BYTES as u64..end / SECTOR_BYTES as u64;
        let thread = std::thread::current();
        let reply = Arc::new(Mailbox::<Completion>::new(move || thread.unpark()));
        for start_sector in sectors.clone().step_by(TRIM_SECTORS as usize) {
            let count = TRIM_SECTORS.min(sectors.end - start_sector);
            let request = Request { tag: 0, start_sector, sectors: count, operation: Operation::Discard };
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
        self.done(sequence, format!("{length} bytes at {start} of \"{name}\" were discarded"))
    }

    /// Stops one array in good order. The process ends with its last array.
    pub fn stop(&self, name: &str, force: bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        self.refuse_clients(std::slice::from_ref(&served), force)?;
        self.stop_served(&served)?;
        if self.all().is_empty() {
            self.shutdown.send_replace(true);
        }
        self.done(sequence, format!("array \"{name}\" has stopped"))
    }

    /// Stops everything; the process ends.
    pub fn stop_all(&self, force: bool) -> Result<Done, ApiError> {
        let (all, sequence) = (self.all(), self.events.sequence());
        self.refuse_clients(&all, force)?;
        let outcome = all.iter().map(|served| self.stop_served(served)).fold(Ok(()), Result::and);
        // Some were being stopped already: the process must not end before they are.
        while !self.all().is_empty() {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.shutdown.send_replace(true);
        outcome?;
        let names: Vec<&str> = all.iter().map(|served| served.name.as_str()).collect();
        self.done(sequence, format!("{} stopped", names.join(", ")))
    }

    fn refuse_clients(&self, arrays: &[Arc<Served>], force: bool) -> Result<(), ApiError> {
        let connected = |served: &&Arc<Served>| !force && !self.clients(&served.name).is_empty();
        let Some(busy) = arrays.iter().find(connected) else { return Ok(()) };
        let clients = self.clients(&busy.name);
        let who: Vec<&str> = clients.iter().map(|client| client.peer.as_str()).collect();
        let message = format!("array \"{}\" is in use by {}; --force disconnects them", busy.name, who.join(", "));
        Err(ApiError::new(ApiErrorKind::Unsafe, message))
    }

    /// Withdraws the export, lets requests end, has the members say "clean", and ends the lanes.
    fn stop_served(&self, served: &Arc<Served>) -> Result<(), ApiError> {
        if served.stopping.swap(true, Ordering::SeqCst) {
            return Err(ApiError::new(ApiErrorKind::Refused, format!("array \"{}\" is stopping already", served.name)));
        }
        self.events.push(view::plain_event(&served.name, "stopping", format!("array \"{}\" stops", served.name)));
        // Gone already when an earlier attempt failed later on.
        let _ = self.nbd.remove_export(&served.name);
        let outcome = end(served);
        self.lock().retain(|other| !Arc::ptr_eq(other, served));
        let words = match &outcome {
            Ok(state) => format!("array \"{}\" has stopped: {state}", served.name),
            Err(error) => {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
                format!("array \"{}\" did not stop in good order: {error}", served.name)
            }
        };
        self.events.push(view::plain_event(&served.name, "stopped", words));
        outcome.map(|_| ())
    }
}

/// Stops the array and its lanes; in words, in which state.
fn end(served: &Served) -> Result<String, ApiError> {
    Ok(view::array(&served.lanes.stop()?).state)
}

/// Opens a drive. One that this very array holds cannot join it again.
fn open_new(served: &Served, path: &Path) -> Result<NewDrive, ApiError> {
    NewDrive::open(path, served.io).map_err(|error| {
        let wanted = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let is_it = |known: &Path| known.canonicalize().is_ok_and(|known| known == wanted);
        let holds = |array: &ArrayReport| array.tree().iter().any(|array| array.drives().any(|drive| is_it(&drive.info.path)));
        if !served.lanes.report().is_ok_and(|array| holds(&array)) {
            return error.into();
        }
        let (path, name) = (path.display(), &served.name);
        let sentence = format!("{path} is in use by \"{name}\" itself: `remove` takes out a spare, or a member that has failed");
        ApiError::new(ApiErrorKind::Refused, sentence)
    })
}

/// The name with host of the array or span called so; unknown ones as they are.
fn full_name(array: &ArrayReport, name: &str) -> String {
    let tree = array.tree();
    let found = tree.iter().find(|array| array.name == name || view::short_name(&array.name) == name);
    found.map_or_else(|| name.to_owned(), |array| array.name.clone())
}

/// In the engine's units; `None`: none is held.
fn latency_target(latency: LatencyBound) -> Result<Option<LatencyTarget>, ApiError> {
    let Some(bound_us) = latency.bound_us else { return Ok(None) };
    if !(50.0..100.0).contains(&latency.percentile) || bound_us == 0 {
        let message = "a latency to hold is a percentile from 50 to 99.99 and a time above zero, such as p99=5ms";
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    Ok(Some(LatencyTarget { percentile: (latency.percentile * 100.0).round() as u16, bound: bound_us.saturating_mul(1000) }))
}
