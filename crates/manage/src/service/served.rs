//! One array on its lanes, and the state that the service keeps for it.

use super::caches::{Caches, Held};
use super::space::Space;
use crate::api::{ApiError, ApiErrorKind, ArrayView, LatencyBound, SpeedRequest};
use crate::lane_spec::{LaneSpec, Near};
use crate::words::error::ErrorSentence;
use crate::words::plan::Size;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stria_array::{LatencyTarget, MemberState};
use stria_block::SECTOR_BYTES;
use stria_drive::{Identity, real_path_within};
use stria_front::nbd_device::devices_of;
use stria_front::ublk::UblkDevice;
use stria_front::{SocketAccess, VhostUserServer};
use stria_host::{ArrayLanes, ArrayReport, HostError, MemberReport, OpenOptions, OpenedDrive, PlannedArray, beneath, short_name};

/// How long `status` waits for the lanes of all arrays together; then it shows the last known state.
pub const STATUS_WITHIN: Duration = Duration::from_millis(1200);

/// An array on its lanes.
pub struct Served {
    /// Its name here, and that of its export.
    pub name: String,
    pub(super) uuid: [u8; 16],
    pub(super) lanes: ArrayLanes,
    pub(super) how: LaneSpec,
    pub(super) near: Option<Near>,
    /// As it was planned and opened, for a pause.
    pub(super) planned: PlannedArray,
    pub(super) options: OpenOptions,
    pub(super) read_only: bool,
    /// Locks on drives that are only read.
    pub(super) locks: Mutex<Vec<File>>,
    /// The present settings.
    pub(super) held: Mutex<Held>,
    /// The drives' caches, as the drives report them.
    pub(super) caches: Caches,
    /// Its block device, if it has one.
    pub(super) block: Mutex<Option<UblkDevice>>,
    /// The block device that its stop did not remove.
    pub(super) block_left: Mutex<Option<PathBuf>>,
    /// The view when its lanes last answered.
    pub(super) known: Mutex<Option<ArrayView>>,
    /// What is known of members without space.
    pub(super) space: Space,
    /// The bounds on the speed of sweeps that were set.
    pub(super) bounds: Mutex<SpeedRequest>,
    /// Sweeps are paused by command.
    pub(super) paused: AtomicBool,
    /// The cost of sweeps is being measured.
    pub(super) measuring: AtomicBool,
    pub(super) stopping: AtomicBool,
    /// Its last view failed, and the log says so.
    pub(super) unseen: AtomicBool,
    /// Its stop was given up: the process ends before it has stopped.
    pub(super) is_given_up: AtomicBool,
    /// The servers by which it is the disk of virtual machines.
    pub(super) disks: Mutex<Vec<Arc<VhostUserServer>>>,
    /// Their sockets, with access and the disk's number.
    pub(super) disk_sockets: Mutex<Vec<(PathBuf, SocketAccess, String)>>,
}

impl Served {
    /// An array whose lanes run. `lanes`: with their settings, and the NUMA node that they are near.
    pub(super) fn new(
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
            caches: Caches::default(),
            block: Mutex::default(),
            block_left: Mutex::default(),
            known: Mutex::default(),
            space: Space::default(),
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

    pub(super) fn disks(&self) -> Vec<Arc<VhostUserServer>> {
        lock(&self.disks).clone()
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last known view of an array that has not answered for `patience` at least.
pub fn silent(served: &Served, mut view: ArrayView, patience: Duration) -> ArrayView {
    let (still, lane, _) = served.lanes.stands_still();
    let (seconds, pid) = (still.max(patience).as_secs(), std::process::id());
    view.condition.silent_s = Some(seconds);
    view.condition.headline_before = Some(view.headline.clone()).filter(|headline| !headline.is_empty());
    let silence = format!("does not answer (pid {pid}, lane {lane}), for {seconds} s now");
    for words in [&mut view.condition.state, &mut view.headline] {
        *words = if words.is_empty() { silence.clone() } else { format!("{silence}; before that: {words}") };
    }
    view
}

/// Bounds the speed of an array's sweeps.
pub fn set_speed(served: &Served, request: &SpeedRequest) -> Result<(), ApiError> {
    let sectors = |bytes: u64| bytes.div_ceil(SECTOR_BYTES as u64);
    // The engine's word for no maximum is the largest number.
    let unbounded = |bytes: u64| if bytes == 0 { u64::MAX } else { sectors(bytes) };
    let (min, max) = (request.min_bytes_per_s.map(sectors), request.max_bytes_per_s.map(unbounded));
    let mut asked = lock(&served.bounds);
    let bounds = SpeedRequest {
        min_bytes_per_s: request.min_bytes_per_s.or(asked.min_bytes_per_s),
        max_bytes_per_s: request.max_bytes_per_s.or(asked.max_bytes_per_s).filter(|&max| max > 0),
        latency: request.latency.or(asked.latency),
    };
    if let (Some(min), Some(max)) = (bounds.min_bytes_per_s, bounds.max_bytes_per_s)
        && min > max
    {
        let said = ErrorSentence::SpeedBoundsCross { min_bytes: Size(min), max_bytes: Size(max) };
        return Err(ApiError::new(ApiErrorKind::Invalid, said));
    }
    if bounds.min_bytes_per_s == Some(0) && bounds.latency.is_some_and(|latency| latency.bound_us.is_none()) {
        return Err(ApiError::new(ApiErrorKind::Invalid, ErrorSentence::SweepsWouldNeverEnd {}));
    }
    let target = request.latency.map(latency_target).transpose()?;
    served.lanes.set_speed(min, max, target)?;
    *asked = bounds;
    Ok(())
}

/// Converts to the engine's units; `None`: no bound.
fn latency_target(latency: LatencyBound) -> Result<Option<LatencyTarget>, ApiError> {
    let Some(bound_us) = latency.bound_us else { return Ok(None) };
    if !(50.0..100.0).contains(&latency.percentile) || bound_us == 0 {
        return Err(ApiError::new(ApiErrorKind::Invalid, ErrorSentence::LatencyInvalid {}));
    }
    Ok(Some(LatencyTarget { percentile: (latency.percentile * 100.0).round() as u16, bound: bound_us.saturating_mul(1000) }))
}

/// Refuses a drive that rests on the array's own block device.
fn refuse_own(served: &Served, path: &Path) -> Result<(), HostError> {
    let mut own = devices_of(&served.uuid);
    own.extend(lock(&served.block).as_ref().map(UblkDevice::path));
    if let Some(device) = beneath(path).into_iter().find(|device| own.contains(device)) {
        let (path, device, name) = (path.display(), device.display(), &served.name);
        return Err(HostError::Refused(format!(
            "{path} rests on {device}, which is array \"{name}\" itself, so the array would wait for itself: add a drive that lies elsewhere"
        )));
    }
    Ok(())
}

/// Opens a drive. One that this array uses already cannot join it again, nor can one that rests on the array's own block device.
pub fn open_new(served: &Served, path: &Path) -> Result<OpenedDrive, HostError> {
    refuse_own(served, path)?;
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

/// The same, unless it is another drive, or carries something else, than was `confirmed`.
pub fn open_confirmed(served: &Served, path: &Path, confirmed: Option<&str>) -> Result<OpenedDrive, HostError> {
    let drive = open_new(served, path)?;
    confirmed.map_or(Ok(()), |mark| drive.refuse_unless(mark))?;
    Ok(drive)
}

/// Looks at the drive at the path of a failed member, which may be open here. Refuses as [`open_confirmed`].
pub fn look_confirmed(served: &Served, path: &Path, confirmed: Option<&str>) -> Result<OpenedDrive, HostError> {
    refuse_own(served, path)?;
    let drive = OpenedDrive::look(path)?;
    confirmed.map_or(Ok(()), |mark| drive.refuse_unless(mark))?;
    Ok(drive)
}

fn is_same(known: &Path, path: &Path) -> bool {
    // Does not wait for a file system that hangs.
    let real = |path: &Path| real_path_within(path, STATUS_WITHIN);
    known == path || real(path) == real(known)
}

/// The drives at this path that are failed members of the array or of a span; `None`: there is none, or the path has another
/// entry there too.
pub fn failed_here(array: &ArrayReport, path: &Path) -> Option<Vec<Identity>> {
    let here = |array: &ArrayReport| {
        let here = array.members.iter().zip(&array.status.members).filter_map(|(member, status)| match member {
            MemberReport::Drive(drive) if is_same(&drive.info.path, path) => Some((status.state, drive.info.identity)),
            MemberReport::Drive(_) | MemberReport::Array(_) | MemberReport::Removed => None,
        });
        here.collect::<Vec<_>>()
    };
    let (states, failed): (Vec<MemberState>, Vec<Identity>) = array.tree().into_iter().flat_map(here).unzip();
    (!states.is_empty() && states.iter().all(|state| *state == MemberState::Failed)).then_some(failed)
}

/// The full name of the array or span with this name; an unknown name is returned as it is.
pub fn full_name(array: &ArrayReport, name: &str) -> String {
    let tree = array.tree();
    let found = tree.iter().find(|array| array.name == name || short_name(&array.name) == name);
    found.map_or_else(|| name.to_owned(), |array| array.name.clone())
}
