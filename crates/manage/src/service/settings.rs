//! `set`: settings of a served array.
//!
//! The write policy and the drives' caches change at once. Settings in the metadata, read-only, and caches on drives that had
//! none when the array started, change while the array does not run: it is stopped, changed, and started again in the same place.
//! Users of its block device and of its disks wait; NBD clients connect again.

use super::caches::{drives_in_use, drives_without_cache, set_caches};
use super::served::lock;
use super::{Held, Served, Service, Unstarted};
use crate::api::{ApiError, ApiErrorKind, Done};
use crate::control::sockets;
use crate::fronts::ublk::BlockSpec;
use crate::settings::SettingsRequest;
use crate::view;
use crate::words::error::{ErrorSentence, Words};
use crate::words::event::EventSentence;
use crate::words::warning::WarningSentence;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stria_drive::{DriveError, DriveKind};
use stria_format::md::Change;
use stria_front::Closing;
use stria_front::ublk::UblkDevice;
use stria_host::{ArrayReport, FirmwareRaid, HostError, OpenOptions, PlannedArray, find_readable};

/// What a change of settings would do.
struct Ahead {
    drives: Vec<PathBuf>,
    changes: Vec<Change>,
    read_only: Option<bool>,
    /// Caches are switched on that the array counts on not being there.
    begins_caches: bool,
    needs_pause: bool,
    is_another_device: bool,
}

impl Service {
    /// The settings of a served array; `None`: no array of this name is served.
    pub fn settings(&self, name: &str) -> Option<Held> {
        let served = self.find(name).ok()?;
        let held = *lock(&served.held);
        Some(held)
    }

    /// Changes settings of an array.
    pub fn set(&self, name: &str, request: &SettingsRequest) -> Result<Done, ApiError> {
        let (mut served, sequence) = (self.find(name)?, self.events.sequence());
        let ahead = self.ahead(&served, request, request.force)?;
        let Ahead { drives, changes, read_only, begins_caches, needs_pause, is_another_device } = ahead;
        let mut done = Vec::new();
        if needs_pause {
            let drive_caches = request.drive_caches.filter(|_| begins_caches).or(lock(&served.held).drive_caches);
            let options = OpenOptions { read_only: read_only.unwrap_or(served.read_only), drive_caches, ..served.options };
            served = self.pause_for(&served, options, &drives, &changes, is_another_device)?;
            done.push(format!("array \"{name}\" was changed in a pause"));
        }
        if let Some(write) = request.write {
            served.lanes.set_write_policy(write.into())?;
            lock(&served.held).write = write;
            done.push(format!("array \"{name}\" writes {}", write.words()));
        }
        if let Some(on) = request.drive_caches {
            match begins_caches {
                true => refuse_without_caches(&served)?,
                false => set_caches(&drives, on).map_err(|error| ApiError::new(ApiErrorKind::Failed, error))?,
            }
            lock(&served.held).drive_caches = Some(on);
            lock(&served.caches.differ).clear();
            done.push(format!("the write caches of {} drives are {}", drives.len(), if on { "on" } else { "off" }));
        }
        if done.is_empty() {
            done.push(format!("array \"{name}\" has these settings already: nothing was changed"));
        }
        let message = done.join("; ");
        self.events.push(view::plain_event(name, "changed", message.clone()));
        self.done(sequence, message)
    }

    /// Refuses what [`Service::set`] would refuse, also with force; nothing changes. An array that is not served has no users.
    /// Returns whether it would pause the array.
    pub fn may_set(&self, name: &str, request: &SettingsRequest) -> Result<bool, ApiError> {
        self.find(name).map_or(Ok(false), |served| Ok(self.ahead(&served, request, true)?.needs_pause))
    }

    /// What a change of settings would do. `force`: clients may see errors.
    fn ahead(&self, served: &Served, request: &SettingsRequest, force: bool) -> Result<Ahead, ApiError> {
        let changes = request.changes().map_err(|error| ApiError::new(ApiErrorKind::Invalid, error))?;
        let report = served.lanes.report()?;
        let drives = drives_in_use(&report);
        let writes = !changes.is_empty() || request.read_only == Some(false);
        if served.options.firmware != FirmwareRaid::Left && writes {
            let said = ErrorSentence::SetOnFirmwareRaid { array: served.name.clone() };
            return Err(ApiError::new(ApiErrorKind::Refused, said));
        }
        if request.drive_caches.is_some() {
            refuse_files(&report)?;
        }
        let differs = !changes.is_empty() && stria_host::change(&drives, &changes, true)?;
        let read_only = request.read_only.filter(|&wanted| wanted != served.read_only);
        if differs && served.read_only && read_only.is_none() {
            let said = ErrorSentence::SetOnReadOnly { array: served.name.clone() };
            return Err(ApiError::new(ApiErrorKind::Refused, said));
        }
        // A drive whose cache cannot be switched is no reason for a pause.
        let bare = if request.drive_caches == Some(true) { drives_without_cache(&report) } else { Vec::new() };
        for drive in &bare {
            stria_health::write_cache(drive).map_err(|error| ApiError::new(ApiErrorKind::Refused, error.to_string()))?;
        }
        let begins_caches = !bare.is_empty();
        let needs_pause = differs || read_only.is_some() || begins_caches;
        let is_another_device = read_only.is_some() || request.integrity.is_some();
        if needs_pause {
            self.refuse_users(served, is_another_device, force)?;
        }
        Ok(Ahead { drives, changes, read_only, begins_caches, needs_pause, is_another_device })
    }

    /// Refuses a pause that clients would not outlive. `force` allows it, but not if the block device is in use and has to become
    /// another: the kernel keeps it as it is for its users, so the array could not start as it is wanted.
    fn refuse_users(&self, served: &Served, is_another_device: bool, force: bool) -> Result<(), ApiError> {
        if is_another_device && let Some(block) = &*lock(&served.block) {
            let (path, users) = (block.path(), block.users());
            if !users.is_empty() {
                return Err(keeps_device(&served.name, &path, users.join(", ")));
            }
        }
        if force {
            return Ok(());
        }
        let here = self.nbd.connections().into_iter().filter(|connection| connection.export.as_ref() == Some(&served.name));
        let mut users = super::counted(here.map(|connection| connection.peer));
        if is_another_device {
            users = self.users(served);
        }
        match users.is_empty() {
            true => Ok(()),
            false => {
                let said = ErrorSentence::SetNeedsPause { array: served.name.clone(), users: users.into_iter().collect() };
                Err(ApiError::new(ApiErrorKind::Unsafe, said))
            }
        }
    }

    /// Stops an array, changes its metadata, and starts it again in the same place. If the stop or the change fails, it is
    /// started as it was; if that fails as well, the keeper tries again.
    fn pause_for(
        &self,
        served: &Arc<Served>,
        options: OpenOptions,
        drives: &[PathBuf],
        changes: &[Change],
        is_another_device: bool,
    ) -> Result<Arc<Served>, ApiError> {
        let name = &served.name;
        Self::claim_stop(served)?;
        lock(&self.pausing).insert(name.clone());
        let outcome = self.restart(served, options, drives, changes, is_another_device);
        lock(&self.pausing).remove(name);
        if self.unstarted(name).is_some()
            && let Some(wake) = self.waker.get()
        {
            wake();
        }
        outcome
    }

    fn restart(
        &self,
        served: &Arc<Served>,
        options: OpenOptions,
        drives: &[PathBuf],
        changes: &[Change],
        is_another_device: bool,
    ) -> Result<Arc<Served>, ApiError> {
        let present = |block: &UblkDevice| BlockSpec { id: Some(block.id()), copier: block.copier() };
        let (name, block) = (&served.name, lock(&served.block).as_ref().map(present));
        let stopped = self.stop_claimed(served, Closing::Disconnect, false);
        let drives = &self.drives_left(served, drives);
        let is_busy = |error: &HostError| matches!(error, HostError::Drive(DriveError::Busy { .. }));
        let changed = match &stopped {
            Err(error) => {
                let (reason, cause) = error.words().parts();
                Err(ApiError::new(error.kind, ErrorSentence::SetStopFailed { array: name.clone(), reason, cause }))
            }
            // A user came after the look for users.
            Ok(()) if is_another_device && let Some(path) = &*lock(&served.block_left) => {
                Err(keeps_device(name, path, "a user that has just come, or a kernel that did not remove it".to_owned()))
            }
            Ok(()) if changes.is_empty() => Ok(false),
            // Another program may open the drives once they are closed here.
            Ok(()) => sockets::once_free(|| stria_host::change(drives, changes, false), is_busy).map_err(ApiError::from),
        };
        let held = *lock(&served.held);
        let options = OpenOptions {
            read_only: if changed.is_ok() { options.read_only } else { served.read_only },
            // It was opened with these once, and they are of one start.
            force: false,
            forget_checksums: false,
            write_policy: held.write.into(),
            drive_caches: if changed.is_ok() { options.drive_caches } else { held.drive_caches },
            ..options
        };
        let planned = PlannedArray { drives: drives.clone(), ..served.planned.clone() };
        let start = || self.start(&planned, name, options, served.how.clone(), block);
        sockets::once_free(start, is_busy).map_err(|error| {
            let said = ErrorSentence::SetNotStarted { array: name.clone(), reason: error.to_string() };
            self.events.push(view::said_event(name, "warning", said.clone()));
            let unstarted = Unstarted { said: said.clone(), silent: error.silent_drive().map(Path::to_owned) };
            lock(&self.unstarted).insert(name.clone(), unstarted);
            ApiError::new(ApiErrorKind::Failed, said)
        })?;
        for (path, access, serial) in lock(&served.disk_sockets).iter() {
            self.add_disk(name, path.clone(), *access, serial.clone())?;
        }
        self.listen().map_err(|error| ApiError::new(ApiErrorKind::Failed, error.to_string()))?;
        changed?;
        self.find(name)
    }

    /// Those of `drives` with which a stopped array starts. The stop may have failed one, and one may hang or be gone: named, it
    /// would prevent the change and the start.
    fn drives_left(&self, served: &Served, drives: &[PathBuf]) -> Vec<PathBuf> {
        let options = OpenOptions { nested: served.options.nested, ..OpenOptions::default() };
        let Ok((found, refused)) = find_readable(drives, options) else { return drives.to_vec() };
        for error in refused {
            let (reason, cause) = Words::from(error).parts();
            let said = WarningSentence::StartsWithoutDrive { reason, cause, array: served.name.clone() };
            self.events.push(view::said_event(&served.name, "warning", EventSentence::Warning(said)));
        }
        match found.arrays.into_iter().find(|array| array.uuid == served.uuid) {
            Some(array) => array.drives,
            // The start says why it cannot.
            None => {
                let of_arrays = || found.assemblies.iter().flat_map(|array| &array.drives);
                let is_found = |path: &&PathBuf| of_arrays().any(|drive| Path::new(&drive.name) == path.as_path());
                drives.iter().filter(is_found).cloned().collect()
            }
        }
    }
}

/// The refusal of a change that needs another block device than the one that is in use.
fn keeps_device(name: &str, path: &Path, users: String) -> ApiError {
    let said = ErrorSentence::SetNeedsDevice { array: name.to_owned(), device: path.display().to_string(), users };
    ApiError::new(ApiErrorKind::Refused, said)
}

/// Refuses a setting that the start after the pause could not carry out on every drive.
fn refuse_without_caches(served: &Served) -> Result<(), ApiError> {
    let bare = drives_without_cache(&served.lanes.report()?);
    if bare.is_empty() && lock(&served.held).drive_caches == Some(true) {
        return Ok(());
    }
    let drives: Vec<String> = bare.iter().map(|drive| drive.display().to_string()).collect();
    let which = if drives.is_empty() { String::new() } else { format!(" of {}", drives.join(", ")) };
    let text = format!("the write caches{which} could not be switched on; the warning at the start has the reason");
    Err(ApiError::new(ApiErrorKind::Failed, text))
}

fn refuse_files(array: &ArrayReport) -> Result<(), ApiError> {
    let tree = array.tree();
    let file = tree.iter().flat_map(|array| array.drives()).find(|drive| drive.info.kind == DriveKind::File);
    match file {
        Some(drive) => {
            let said = ErrorSentence::FileHasNoCache { drive: drive.info.path.display().to_string() };
            Err(ApiError::new(ApiErrorKind::Refused, said))
        }
        None => Ok(()),
    }
}
