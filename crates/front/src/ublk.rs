//! A block device of this machine's kernel, `/dev/ublkbN`, whose requests a [`RemoteDevice`] serves: Linux's ublk.
//!
//! ```text
//!   add ─ set parameters ─ open queues ─ start      a new device
//!   start recovery ─────── open queues ─ end recovery     one that a dead server left, with its requests
//! ```
//! The device outlives its server: the kernel holds requests back until the next server takes it over, and then repeats those that
//! the dead one had. A write that arrives twice is harmless: nothing had acknowledged it, so its order among writes to the same
//! sectors was still open. A device belongs to one array: its mark holds one half of the array's UUID, and a note in `/run` all of it.
//!
//! Control commands may wait for I/O, or for ever when a driver has failed. Each runs on a thread of its own, which nobody waits for
//! longer than a fixed time; lanes never do.

mod guest;
mod kernel;
mod queue;
mod uapi;

use crate::Export;
use crate::apart::{self, Wake};
use guest::{Crew, Place, QueueGuest};
use kernel::KernelPort;
use queue::Queue;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use stria_block::{Limits, RemoteDevice, SECTOR_BYTES, file_name};
use uapi::{CONTROL_PATH, ControlCommand, DeviceInfo, Parameters, control, feature, state};

/// 128: requests of one queue at a time, as many as Linux gives a fast SATA or SCSI queue four times over.
const DEPTH: u16 = 128;
/// 1 MiB: the largest read or write, so that a queue takes at most 128 MiB.
const IO_BYTES_MAX: u32 = 1 << 20;
/// 64 MiB: the largest discard, and the largest range of zeroes, which some arrays must write.
const ZEROES_BYTES_MAX: u32 = 64 << 20;
/// 2 s: how long a request may take until Linux looks whether its server lives. Before 6.15 that alone reveals the death of a server
/// that had a request of every tag. A server that lives has all the time that it needs.
const LOOK_AFTER_MS: &str = "2000";
/// How long the driver may take for a command that waits for nothing.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// How long a device may take to start, which includes reads of its partition table, and to stop, which includes its last requests.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long the kernel may take to notice that a server has died.
const DEATH_LIMIT: Duration = Duration::from_secs(35);
/// Between two looks at something that another process or the kernel must do.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What the driver must offer.
const FEATURES: u64 = feature::RECOVERY | feature::REISSUE | feature::IOCTL | feature::USER_COPY;

/// Why there is no block device, or it cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no driver.
    #[error(
        "this kernel has no ublk driver ({CONTROL_PATH} is missing): load it with `modprobe ublk_drv` (Linux 6.5 or later, built with \
         CONFIG_BLK_DEV_UBLK), or serve over NBD"
    )]
    NoDriver,
    /// The user may not.
    #[error("{CONTROL_PATH}: permission denied; block devices are made by root, or serve over NBD")]
    NotAllowed,
    /// The driver is old.
    #[error(
        "this kernel's ublk driver is too old (features {0:#x}, needed {FEATURES:#x}): use Linux 6.5 or later, or serve over NBD"
    )]
    TooOld(u64),
    /// The driver refuses a command.
    #[error("the kernel cannot {action} /dev/ublkb{id}: {source}")]
    Refused {
        /// What it was asked for.
        action: &'static str,
        /// The device.
        id: u32,
        /// Its answer.
        source: io::Error,
    },
    /// The number is in use.
    #[error("/dev/ublkb{0} is taken by another device: choose another number, or none")]
    Taken(u32),
    /// The driver does not answer.
    #[error("the kernel did not {action} /dev/ublkb{id} within {seconds} s; `dmesg` may say why")]
    Silent {
        /// What it was asked for.
        action: &'static str,
        /// The device.
        id: u32,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The array's device cannot be taken over: it has another number.
    #[error(
        "the array has /dev/ublkb{id}, which another server left: take that over (--ublk={id}), or remove it: `stria ublk remove {id}`"
    )]
    OtherNumber {
        /// Its number.
        id: u32,
    },
    /// The array's device cannot be taken over: it has a server.
    #[error("/dev/ublkb{id} of this array is in the hands of process {pid}, and Linux does not give it free")]
    Served {
        /// The device.
        id: u32,
        /// The process.
        pid: i32,
    },
    /// The array's device cannot be taken over: it is not as the array is.
    #[error(
        "/dev/ublkb{id}, which another server left, has another size, block size or mode than the array: remove it (`stria ublk remove {id}`)"
    )]
    Different {
        /// The device.
        id: u32,
    },
    /// Somebody uses it.
    #[error("/dev/ublkb{id} is in use: {users}")]
    InUse {
        /// The device.
        id: u32,
        /// Its users, as [`UblkDevice::users`] describes them.
        users: String,
    },
    /// A queue cannot be served.
    #[error("/dev/ublkb{id} cannot be served: {reason}")]
    Queue {
        /// The device.
        id: u32,
        /// Why.
        reason: String,
    },
    /// There is no such device, or it is not Stria's.
    #[error("there is no /dev/ublkb{0} of Stria's: `stria ublk` lists them")]
    Unknown(u32),
}

/// How an array becomes a block device.
#[derive(Clone, Debug)]
pub struct UblkOptions {
    /// Its number; `None`: any.
    pub id: Option<u32>,
    /// Queues, as many as the array has lanes. A device that is taken over has the queues with which it was made.
    pub queues: u16,
    /// The folder with a note for each device.
    pub notes: PathBuf,
}

/// A device as `stria ublk` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkEntry {
    /// Its number.
    pub id: u32,
    /// The array's name, as in `/dev/stria`.
    pub name: String,
    /// The array.
    pub uuid: [u8; 16],
    /// The process that serves it. `None`: it was left behind.
    pub pid: Option<i32>,
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UblkStatus {
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with an error, which `requests` counts too.
    pub errors: u64,
    /// Bytes read by its users.
    pub read_bytes: u64,
    /// Bytes written by its users.
    pub written_bytes: u64,
    /// Requests that the array has.
    pub in_flight: u64,
}

/// A block device that this process serves. If it is dropped without [`UblkDevice::remove`], the kernel holds the device's requests
/// for another server once this process has ended.
pub struct UblkDevice {
    id: u32,
    crew: Arc<Crew>,
    /// For guests on the device's thread.
    device: Weak<dyn RemoteDevice>,
    /// For guests on threads of their own.
    wakes: Vec<Arc<Wake>>,
    note: PathBuf,
    taken_over: bool,
}

impl UblkDevice {
    /// Makes a block device of an export, or takes over the one that a dead server of the same array left.
    ///
    /// # Errors
    /// When the kernel has no ublk or refuses, or the array's device cannot be taken over. A device that was begun is removed.
    pub fn start(export: &Export, uuid: [u8; 16], options: &UblkOptions) -> Result<Self, UblkError> {
        check_driver()?;
        let limits = export.device.limits();
        let parameters = parameters(&limits, export.read_only);
        let own = ids().filter_map(|id| device_info(id).ok()).find(|info| {
            let note = Note::read(&options.notes, info.id);
            info.mark == mark(&uuid) && note.is_none_or(|note| note.uuid == uuid)
        });
        // One that was never started, or was stopped, holds nobody's requests.
        let own = match own {
            Some(info) if info.state == state::DEAD => {
                delete(info.id)?;
                None
            }
            own => own,
        };
        let taken_over = own.is_some();
        let info = match own {
            Some(info) => {
                take_over(&info, &parameters, options)?;
                info
            }
            None => add(&uuid, options)?,
        };
        let note = Note::path(&options.notes, info.id);
        let (crew, device) = (Arc::<Crew>::default(), Arc::downgrade(&export.device));
        let mut this = Self { id: info.id, crew, device, wakes: Vec::new(), note, taken_over };
        // Without it the device is still found by its mark.
        if let Err(error) = (Note { uuid, name: export.name.clone() }).write(&this.note) {
            log::warn!("{}: {error}; `stria ublk` will not list /dev/ublkb{}", this.note.display(), info.id);
        }
        if let Err(error) = this.begin(export, &limits, &parameters, &info) {
            this.leave();
            if !taken_over {
                let _ = delete(info.id);
                let _ = fs::remove_file(&this.note);
            }
            return Err(error);
        }
        // Not vital: without it a death is noticed after 30 s at the latest.
        let _ = fs::write(format!("/sys/block/ublkb{}/queue/io_timeout", info.id), LOOK_AFTER_MS);
        Ok(this)
    }

    /// Serves the queues and starts the device.
    fn begin(&mut self, export: &Export, limits: &Limits, parameters: &Parameters, info: &DeviceInfo) -> Result<(), UblkError> {
        let id = self.id;
        if !self.taken_over {
            ask("set the parameters of", control::SET_PARAMETERS, id, 0, parameters.encode().to_vec(), COMMAND_LIMIT)?;
        }
        let failed = |reason: io::Error| UblkError::Queue { id, reason: reason.to_string() };
        let device = Arc::new(open_queues(id).map_err(failed)?);
        for index in 0..info.queues {
            let place = Place::take(&self.crew);
            let queue = Queue::new(limits.clone(), info.io_bytes_max, info.depth, export.read_only);
            let port = KernelPort::open(&device, index, info.depth).map_err(failed)?;
            let guest = QueueGuest::new(format!("/dev/ublkb{id}"), queue, port, place).map_err(failed)?;
            if let Err(guest) = export.device.take_in(Box::new(guest)) {
                let wake = Arc::new(Wake::new().map_err(failed)?);
                self.wakes.push(Arc::clone(&wake));
                let device = Arc::clone(&export.device);
                let alone = move || {
                    if let Err(error) = apart::live(guest, device, &wake) {
                        log::error!(
                            "/dev/ublkb{id}: queue {index} cannot sleep: {error}; its requests wait until the array is served anew"
                        );
                    }
                };
                thread::Builder::new().name(format!("ublk-{id}-{index}")).stack_size(256 << 10).spawn(alone).map_err(failed)?;
            }
        }
        let (action, number) = match self.taken_over {
            true => ("end the recovery of", control::END_RECOVERY),
            false => ("start", control::START_DEVICE),
        };
        let hope = || self.crew.lock().failure.clone().map_or(Ok(()), |reason| Err(UblkError::Queue { id, reason }));
        ask_while(action, number, id, std::process::id().into(), Vec::new(), START_LIMIT, hope).map(drop)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        block_path(self.id)
    }

    /// Whether another server had made it.
    pub fn is_taken_over(&self) -> bool {
        self.taken_over
    }

    /// What it has done since this process serves it.
    pub fn status(&self) -> UblkStatus {
        let (counters, in_flight) = self.crew.counters();
        UblkStatus {
            requests: counters.requests,
            errors: counters.errors,
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
            in_flight,
        }
    }

    /// A description of each user of the block device. The list is empty if there is none.
    pub fn users(&self) -> Vec<String> {
        users(self.id)
    }

    /// Removes the block device. Requests that its users have under way are served; later ones fail.
    ///
    /// # Errors
    /// When the kernel refuses or does not answer; the device may be left behind then.
    pub fn remove(&self) -> Result<(), UblkError> {
        ask("stop", control::STOP_DEVICE, self.id, 0, Vec::new(), START_LIMIT)?;
        if !self.crew.wait_for_end(COMMAND_LIMIT) {
            self.leave();
        }
        delete(self.id)?;
        // A leftover is only untidy: the mark decides.
        let _ = fs::remove_file(&self.note);
        Ok(())
    }

    /// Leaves the block device to the next server: requests that the array has end, and the kernel holds all others back. The
    /// kernel counts this process as the server until it ends.
    pub fn leave(&self) {
        self.crew.leave();
        self.wakes.iter().for_each(|wake| wake.ring());
        if let Some(device) = self.device.upgrade() {
            device.stir();
        }
        if !self.crew.wait_for_end(START_LIMIT) {
            log::error!("/dev/ublkb{}: requests of the array did not end within {} s", self.id, START_LIMIT.as_secs());
        }
    }
}

/// The devices that are or were Stria's.
///
/// # Errors
/// When there is no driver, or the user may not ask it.
pub fn list(notes: &Path) -> Result<Vec<UblkEntry>, UblkError> {
    check_driver()?;
    let mut entries: Vec<UblkEntry> = ids()
        .filter_map(|id| {
            let (note, info) = (Note::read(notes, id)?, device_info(id).ok()?);
            let pid = (info.state == state::LIVE && is_alive(info.pid)).then_some(info.pid);
            (info.mark == mark(&note.uuid)).then_some(UblkEntry { id, name: note.name, uuid: note.uuid, pid })
        })
        .collect();
    entries.sort_by_key(|entry| entry.id);
    Ok(entries)
}

/// Removes a device that a dead server left. What its users wrote and did not flush is lost, and their requests fail.
///
/// # Errors
/// When it is not Stria's, has a server, or, without `force`, a user.
pub fn remove(notes: &Path, id: u32, force: bool) -> Result<UblkEntry, UblkError> {
    let entry = list(notes)?.into_iter().find(|entry| entry.id == id).ok_or(UblkError::Unknown(id))?;
    if let Some(pid) = entry.pid {
        return Err(UblkError::InUse { id, users: format!("process {pid} serves it; `stria stop {}` ends that", entry.name) });
    }
    let users = users(id);
    if !force && !users.is_empty() {
        return Err(UblkError::InUse {
            id,
            users: users.join(", ") + "; `stria serve --ublk` lets them go on, --force fails their requests",
        });
    }
    ask("stop", control::STOP_DEVICE, id, 0, Vec::new(), START_LIMIT)?;
    delete(id)?;
    let _ = fs::remove_file(Note::path(notes, id));
    Ok(entry)
}

/// A device's array: a file `ublk-N` with the UUID in hexadecimal digits and the name, in the form that udev imports
/// (`packaging/udev`). The name is as in `/dev/stria`: a part of the UUID follows a name that had to be changed.
struct Note {
    uuid: [u8; 16],
    name: String,
}

impl Note {
    fn path(notes: &Path, id: u32) -> PathBuf {
        notes.join(format!("ublk-{id}"))
    }

    fn read(notes: &Path, id: u32) -> Option<Self> {
        let text = fs::read_to_string(Self::path(notes, id)).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let uuid = u128::from_str_radix(value("STRIA_UUID")?, 16).ok()?.to_be_bytes();
        Some(Self { uuid, name: value("STRIA_NAME")?.to_owned() })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let uuid = format!("{:032x}", u128::from_be_bytes(self.uuid));
        let plain = file_name(&self.name);
        let name = if plain == self.name { plain } else { format!("{plain}-{}", &uuid[..8]) };
        fs::write(path, format!("STRIA_UUID={uuid}\nSTRIA_NAME={name}\n"))
    }
}

/// What a device of this array carries in the kernel.
fn mark(uuid: &[u8; 16]) -> u64 {
    u64::from_be_bytes(uuid[..8].try_into().expect("8 bytes"))
}

fn block_path(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

/// The numbers of all devices of the driver.
fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok())
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// What Linux is told about a device.
fn parameters(limits: &Limits, read_only: bool) -> Parameters {
    let shift = |bytes: u32| bytes.trailing_zeros() as u8;
    let logical = limits.logical_block_bytes;
    let physical = shift(limits.physical_block_bytes.max(logical));
    let block_sectors = u64::from(logical) / SECTOR_BYTES as u64;
    let attributes = [(read_only, Parameters::READ_ONLY), (limits.rotational, Parameters::ROTATIONAL)];
    let attributes = attributes.into_iter().filter(|(holds, _)| *holds).map(|(_, attribute)| attribute);
    let sectors_of = |bytes: u32| bytes / SECTOR_BYTES as u32;
    Parameters {
        attributes: attributes.fold(Parameters::VOLATILE_CACHE | Parameters::FUA, |all, attribute| all | attribute),
        logical_block_shift: shift(logical),
        physical_block_shift: physical,
        // A full stripe of three strips is no power of two: then what divides it, a strip.
        io_best_shift: if limits.optimal_io_bytes == 0 { physical } else { shift(limits.optimal_io_bytes).max(physical) },
        io_min_shift: physical,
        io_sectors_max: sectors_of(IO_BYTES_MAX),
        sectors: limits.size_sectors / block_sectors * block_sectors,
        discard_granularity_bytes: limits.discard_granularity_bytes.max(logical),
        discard_sectors_max: if limits.discard_granularity_bytes > 0 && !read_only { sectors_of(ZEROES_BYTES_MAX) } else { 0 },
        zeroes_sectors_max: if read_only { 0 } else { sectors_of(ZEROES_BYTES_MAX) },
    }
}

fn check_driver() -> Result<(), UblkError> {
    let features = ask("find the features of", control::GET_FEATURES, 0, 0, vec![0; 8], COMMAND_LIMIT);
    let features = features.map_err(|error| match error {
        UblkError::Refused { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::NotAllowed,
            _ => UblkError::TooOld(0),
        },
        error => error,
    })?;
    match u64::from_ne_bytes(features[..8].try_into().expect("8 bytes")) {
        features if features & FEATURES == FEATURES => Ok(()),
        features => Err(UblkError::TooOld(features)),
    }
}

fn device_info(id: u32) -> Result<DeviceInfo, UblkError> {
    let bytes = ask("describe", control::GET_DEVICE_INFO, id, 0, vec![0; DeviceInfo::BYTES], COMMAND_LIMIT)?;
    Ok(DeviceInfo::decode(&bytes))
}

fn add(uuid: &[u8; 16], options: &UblkOptions) -> Result<DeviceInfo, UblkError> {
    let id = options.id.unwrap_or(u32::MAX);
    let wanted = DeviceInfo {
        queues: options.queues,
        depth: DEPTH,
        io_bytes_max: IO_BYTES_MAX,
        id,
        pid: std::process::id() as i32,
        features: FEATURES,
        mark: mark(uuid),
        ..DeviceInfo::default()
    };
    let added = ask("add", control::ADD_DEVICE, id, 0, wanted.encode().to_vec(), COMMAND_LIMIT);
    let bytes = added.map_err(|error| match error {
        UblkError::Refused { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => UblkError::Taken(id),
        error => error,
    })?;
    Ok(DeviceInfo::decode(&bytes))
}

fn delete(id: u32) -> Result<(), UblkError> {
    ask("remove", control::DELETE_DEVICE, id, 0, Vec::new(), COMMAND_LIMIT).map(drop)
}

/// Makes the driver ready for a new server of a device, once it has noticed that the last one is dead.
fn take_over(info: &DeviceInfo, parameters: &Parameters, options: &UblkOptions) -> Result<(), UblkError> {
    let id = info.id;
    if options.id.is_some_and(|wanted| wanted != id) {
        return Err(UblkError::OtherNumber { id });
    }
    let mut given = vec![0; Parameters::BYTES];
    given[..4].copy_from_slice(&(Parameters::BYTES as u32).to_ne_bytes());
    let present = ask("describe", control::GET_PARAMETERS, id, 0, given, COMMAND_LIMIT)?;
    if Parameters::decode(&present) != *parameters {
        return Err(UblkError::Different { id });
    }
    let end = Instant::now() + DEATH_LIMIT;
    loop {
        match ask("begin the recovery of", control::START_RECOVERY, id, 0, Vec::new(), COMMAND_LIMIT) {
            Err(UblkError::Refused { source, .. }) if Errno::from_io_error(&source) == Some(Errno::BUSY) => {}
            outcome => return outcome.map(drop),
        }
        if Instant::now() >= end {
            return Err(UblkError::Served { id, pid: info.pid });
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The character device, which may take a moment to appear, and which the kernel gives to one server at a time.
fn open_queues(id: u32) -> io::Result<File> {
    let end = Instant::now() + COMMAND_LIMIT;
    loop {
        match File::options().read(true).write(true).open(format!("/dev/ublkc{id}")) {
            Err(error) if Instant::now() < end && error.kind() != io::ErrorKind::PermissionDenied => drop(error),
            outcome => return outcome,
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Describes the mounts and processes that use the block device or one of its partitions. udev opens every new device and does not
/// count.
fn users(id: u32) -> Vec<String> {
    let path = block_path(id);
    let mut users = Vec::new();
    // Not kept open: it would count itself.
    let held = open(&path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()).err();
    if held == Some(Errno::BUSY) {
        users.push("it is mounted, or another device or program holds it".to_owned());
    }
    let path = path.display().to_string();
    let is_device = |link: &Path| {
        let rest = link.to_str().and_then(|link| link.strip_prefix(&path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_process = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    for process in processes.filter(is_process) {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        if files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| is_device(&link)) {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            let pid = process.file_name().unwrap_or_default().display().to_string();
            if !name.contains("udev") {
                users.push(format!("{} (process {pid})", name.trim_end()));
            }
        }
    }
    users
}

/// Gives the driver a command and waits for its answer, for so long at most. Returns the buffer that the driver has filled.
fn ask(action: &'static str, number: u32, id: u32, data: u64, buffer: Vec<u8>, limit: Duration) -> Result<Vec<u8>, UblkError> {
    ask_while(action, number, id, data, buffer, limit, || Ok(()))
}

/// As [`ask`], as long as there is `hope`.
fn ask_while(
    action: &'static str,
    number: u32,
    id: u32,
    data: u64,
    mut buffer: Vec<u8>,
    limit: Duration,
    hope: impl Fn() -> Result<(), UblkError>,
) -> Result<Vec<u8>, UblkError> {
    let (sender, answer) = channel();
    // The buffer is the thread's: a driver that never answers has it for ever.
    let asking = move || {
        let command = ControlCommand { device: id, data };
        let _ = sender.send(kernel::control(number, command, &mut buffer).map(|()| buffer));
    };
    let refused = |source| UblkError::Refused { action, id, source };
    thread::Builder::new().name("ublk-control".into()).spawn(asking).map_err(refused)?;
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match answer.recv_timeout(left.min(Duration::from_millis(100))) {
            Ok(answered) => return answered.map_err(refused),
            Err(RecvTimeoutError::Timeout) if !left.is_zero() => hope()?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(UblkError::Silent { action, id, seconds: limit.as_secs() });
            }
        }
    }
}

#[cfg(test)]
mod tests;
