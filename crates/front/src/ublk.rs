//! A block device of this machine's kernel, `/dev/ublkbN`, whose requests a [`RemoteDevice`] serves: Linux's ublk.
//!
//! ```text
//!   add ─ set parameters ─ open queues ─ start      a new device
//!   start recovery ─────── open queues ─ end recovery     one that a dead server left, with its requests
//! ```
//! The device outlives its server: the kernel holds requests back until the next server takes the device over, and then repeats
//! those that the dead one had. A write that arrives twice is harmless: nothing had acknowledged it, so its order among writes to
//! the same sectors was still open. A device belongs to one array: its mark holds one half of the array's UUID, and a note in
//! `/run` all of it.

mod driver;
mod error;
mod kernel;
mod lane_client;
mod options;
mod queue;
#[cfg(feature = "stand-in")]
pub mod stand_in;
mod uapi;

pub use error::UblkError;
pub use options::UblkOptions;
pub use queue::Copier;

use crate::Export;
use crate::apart::{self, Wake};
use crate::device_note::{Note, announce, mark, replace};
use crate::device_users::users;
use driver::{
    COMMAND_LIMIT, LOOK_AGAIN, START_LIMIT, add, ask, ask_while, check_driver, copier, delete, device_info, ids, open_queues,
    parameters, take_over,
};
use kernel::KernelPort;
use lane_client::{Crew, CrewMember, QueueClient};
use queue::Queue;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;
use stria_block::{Limits, RemoteDevice, shell_word};
use uapi::{DeviceInfo, Parameters, control, state};

/// 2 s: the time that a request may take until Linux checks whether its server lives. Before 6.15 that alone reveals the death of
/// a server that had a request of every tag. For a living server there is no limit.
const LOOK_AFTER_MS: &str = "2000";

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
    /// The side that copies its data.
    pub copier: Copier,
}

/// The work of a device so far.
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

/// A block device that this process serves. If it is dropped without [`UblkDevice::remove`], the kernel holds the device's
/// requests for another server once this process has ended.
pub struct UblkDevice {
    id: u32,
    crew: Arc<Crew>,
    /// The kind for on-lane clients on the device's thread.
    device: Weak<dyn RemoteDevice>,
    /// The kind for on-lane clients on threads of their own.
    wakes: Vec<Arc<Wake>>,
    note: PathBuf,
    copier: Copier,
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
            let note = Note::read(&note_path(&options.notes, info.id));
            info.mark == mark(&uuid) && note.is_none_or(|note| note.uuid == uuid)
        });
        // A device that was never started, or was stopped, has no requests.
        let own = match own {
            Some(info) if info.state == state::DEAD => {
                delete(info.id)?;
                // It would name the next device with this number.
                let _ = fs::remove_file(note_path(&options.notes, info.id));
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
        let note = note_path(&options.notes, info.id);
        let (crew, device) = (Arc::<Crew>::default(), Arc::downgrade(&export.device));
        let mut this = Self { id: info.id, crew, device, wakes: Vec::new(), note, copier: copier(&info), taken_over };
        // Without the note the device is still found by its mark.
        let renames = (Note { uuid, name: export.name.clone() }).renames(&this.note, "", replace).unwrap_or_else(|error| {
            log::warn!("{}: {error}; `stria ublk` will not list /dev/ublkb{}", this.note.display(), info.id);
            false
        });
        if let Err(error) = this.begin(export, &limits, &parameters, &info) {
            match taken_over {
                true => this.leave(),
                false => this.give_up(),
            }
            return Err(error);
        }
        // A new device is announced by the kernel.
        if taken_over && renames {
            announce(&format!("ublkb{}", info.id));
        }
        // Not essential: without it the death of a server is noticed after 30 s at the latest. Not again on a device that has
        // it: Linux 6.12 lets every request end before it changes this, and a server that is killed meanwhile would wait for
        // itself.
        let page = format!("/sys/block/ublkb{}/queue/io_timeout", info.id);
        if fs::read_to_string(&page).is_ok_and(|present| present.trim() != LOOK_AFTER_MS) {
            let _ = fs::write(page, LOOK_AFTER_MS);
        }
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
            let crew_member = CrewMember::take(&self.crew);
            let queue = Queue::new(limits.clone(), info.io_bytes_max, info.depth, export.read_only);
            let port = KernelPort::open(&device, index, info.depth, self.copier).map_err(failed)?;
            let client = QueueClient::new(format!("/dev/ublkb{id}"), queue, port, crew_member).map_err(failed)?;
            if let Err(client) = export.device.take_in(Box::new(client)) {
                let wake = Arc::new(Wake::new().map_err(failed)?);
                self.wakes.push(Arc::clone(&wake));
                let device = Arc::clone(&export.device);
                let alone = move || {
                    if let Err(error) = apart::live(client, device, &wake) {
                        log::error!(
                            "/dev/ublkb{id}: queue {index} has stopped: {error}; its requests wait until the array is served again"
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

    /// The side that copies its data.
    pub fn copier(&self) -> Copier {
        self.copier
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
        users(&self.path())
    }

    /// Removes the block device. Requests that its users have under way are served; later ones fail.
    ///
    /// # Errors
    /// When the kernel refuses or does not answer; the device may be left behind then.
    pub fn remove(&self) -> Result<(), UblkError> {
        self.remove_while(|| Ok(()))
    }

    /// As [`UblkDevice::remove`], as long as there is `hope` that the array ends the requests: it is asked ten times a second.
    ///
    /// # Errors
    /// The same, and that of `hope`. The kernel then still waits for these requests, and [`UblkDevice::remove`] for the kernel.
    pub fn remove_while(&self, hope: impl Fn() -> Result<(), String>) -> Result<(), UblkError> {
        let id = self.id;
        let hope = || hope().map_err(|reason| UblkError::Hopeless { id, reason });
        ask_while("stop", control::STOP_DEVICE, id, 0, Vec::new(), START_LIMIT, hope)?;
        if !self.crew.wait_for_end(COMMAND_LIMIT) {
            self.leave();
        }
        delete(id).map_err(|error| match error {
            UblkError::Silent { .. } => UblkError::StillOpen { id },
            error => error,
        })?;
        // A note that is left behind is harmless: the mark decides.
        let _ = fs::remove_file(&self.note);
        Ok(())
    }

    /// Removes a new device whose start failed.
    ///
    /// The driver deletes no device whose queues wait for requests, and a queue that leaves keeps its ring open for as long as its
    /// thread lives. So the driver has to send the queues away first.
    fn give_up(&self) {
        let end = Instant::now() + COMMAND_LIMIT;
        loop {
            let stopped = ask("stop", control::STOP_DEVICE, self.id, 0, Vec::new(), COMMAND_LIMIT);
            // A queue that its lane had only just taken in may begin after a stop.
            if self.crew.wait_for_end(LOOK_AGAIN) {
                break;
            }
            if stopped.is_err() || Instant::now() >= end {
                self.leave();
                break;
            }
        }
        if let Err(error) = delete(self.id) {
            log::warn!("{error}; /dev/ublkb{} may be left behind", self.id);
        }
        let _ = fs::remove_file(&self.note);
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
            let (note, info) = (Note::read(&note_path(notes, id))?, device_info(id).ok()?);
            let pid = (info.state == state::LIVE && is_alive(info.pid)).then_some(info.pid);
            (info.mark == mark(&note.uuid)).then_some(UblkEntry {
                id,
                name: note.name,
                uuid: note.uuid,
                pid,
                copier: copier(&info),
            })
        })
        .collect();
    entries.sort_by_key(|entry| entry.id);
    Ok(entries)
}

/// Removes a device that a dead server left. Writes that its users did not flush are lost, and their requests fail.
///
/// # Errors
/// When it is not Stria's, has a server, or, without `force`, a user.
pub fn remove(notes: &Path, id: u32, force: bool) -> Result<UblkEntry, UblkError> {
    let entry = list(notes)?.into_iter().find(|entry| entry.id == id).ok_or(UblkError::Unknown(id))?;
    if let Some(pid) = entry.pid {
        return Err(UblkError::InUse {
            id,
            users: format!("process {pid} serves it; `stria stop {word}` ends that", word = shell_word(&entry.name)),
        });
    }
    let users = users(&block_path(id));
    if !force && !users.is_empty() {
        return Err(UblkError::InUse {
            id,
            users: users.join(", ") + "; `stria serve --ublk` serves their requests again, --force fails them",
        });
    }
    ask("stop", control::STOP_DEVICE, id, 0, Vec::new(), START_LIMIT)?;
    delete(id)?;
    let _ = fs::remove_file(note_path(notes, id));
    Ok(entry)
}

fn note_path(notes: &Path, id: u32) -> PathBuf {
    Note::path(notes, "ublk", id)
}

fn block_path(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests;
