//! `set`: settings of a served array.
//!
//! When writes are acknowledged and whether drives cache holds at once. What the metadata say, and whether the array takes writes, is changed
//! while it does not run: the array is stopped, changed, and started again in the same place. Users of its block device and of its disks wait;
//! NBD clients connect again.

use super::{Served, Service, lock};
use crate::api::{ApiError, ApiErrorKind, Done};
use crate::settings::{SettingsRequest, WriteMode};
use crate::ublk::BlockSpec;
use crate::{sockets, view};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stria_array::MemberState;
use stria_drive::{DriveError, DriveKind};
use stria_format::md::Change;
use stria_front::Closing;
use stria_front::ublk::UblkDevice;
use stria_host::{ArrayReport, HostError, MemberReport, OpenOptions, PlannedArray};

/// Settings of a served array, as they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When writes are acknowledged.
    pub write: WriteMode,
    /// The drives' caches, if they were set.
    pub drive_caches: Option<bool>,
    /// Writes are refused.
    pub read_only: bool,
}

/// How often drives are asked for their write caches. A reset of a controller, by whomever, ends the setting.
const CACHES_EVERY: Duration = Duration::from_secs(60);

/// The drives' write caches beside their setting.
#[derive(Default)]
pub struct Caches {
    /// The drives that have another state than was set, and do not change it.
    pub differ: Mutex<Vec<PathBuf>>,
    /// The last time that drives were asked.
    asked: Mutex<Option<Instant>>,
    /// They are being asked: one of them may hang.
    is_asking: AtomicBool,
}

impl Service {
    /// Gives a drive that joined, or that was reset, the array's setting of write caches.
    pub(super) fn set_held_cache(&self, served: &Served, drive: &Path) {
        let Some(on) = lock(&served.held).drive_caches else { return };
        let Err(error) = stria_health::set_write_cache(drive, on) else { return };
        let (name, switch) = (&served.name, if on { "on" } else { "off" });
        let text =
            format!("array \"{name}\" is set to drive caches {switch}, which {} does not follow: {error}", drive.display());
        self.events.push(view::plain_event(name, "warning", text));
        let mut differ = lock(&served.caches.differ);
        if !differ.iter().any(|known| known == drive) {
            differ.push(drive.to_owned());
        }
    }

    /// Asks the drives of an array for their write caches from time to time, on a thread of its own, and sets again what a reset has undone.
    pub(super) fn look_at_caches(self: &Arc<Self>, served: &Arc<Served>) {
        let mut asked = lock(&served.caches.asked);
        let is_due = asked.is_none_or(|asked| asked.elapsed() >= CACHES_EVERY);
        if lock(&served.held).drive_caches.is_none() || !is_due || served.caches.is_asking.swap(true, Ordering::SeqCst) {
            return;
        }
        *asked = Some(Instant::now());
        drop(asked);
        let (service, array) = (Arc::clone(self), Arc::clone(served));
        let look = move || {
            service.keep_caches(&array);
            array.caches.is_asking.store(false, Ordering::SeqCst);
        };
        if std::thread::Builder::new().name("caches".into()).spawn(look).is_err() {
            served.caches.is_asking.store(false, Ordering::SeqCst);
        }
    }

    fn keep_caches(&self, served: &Served) {
        let Ok(Some((report, _))) = served.lanes.report_within(super::STATUS_WITHIN) else { return };
        let Some(on) = lock(&served.held).drive_caches else { return };
        let (differ, warnings) = keep(&drives_in_use(&report), on, stria_health::write_cache, stria_health::set_write_cache);
        // A command may have changed the setting meanwhile.
        let is_current = lock(&served.held).drive_caches == Some(on);
        if is_current {
            *lock(&served.caches.differ) = differ;
            warnings.into_iter().for_each(|text| self.events.push(view::plain_event(&served.name, "warning", text)));
        }
    }

    /// The settings of a served array; `None`: no array of this name is served.
    pub fn settings(&self, name: &str) -> Option<Held> {
        let served = self.find(name).ok()?;
        let held = *lock(&served.held);
        Some(held)
    }

    /// Changes settings of an array.
    pub fn set(&self, name: &str, request: &SettingsRequest) -> Result<Done, ApiError> {
        let (mut served, sequence) = (self.find(name)?, self.events.sequence());
        let changes = request.changes().map_err(|error| ApiError::new(ApiErrorKind::Invalid, error))?;
        let drives = drives_in_use(&served.lanes.report()?);
        if request.drive_caches.is_some() {
            refuse_files(&served.lanes.report()?)?;
        }
        let differs = !changes.is_empty() && stria_host::change(&drives, &changes, true)?;
        let read_only = request.read_only.filter(|&wanted| wanted != served.read_only);
        let mut done = Vec::new();
        if differs || read_only.is_some() {
            if differs && served.read_only && read_only.is_none() {
                let text = format!(
                    "array \"{name}\" is read-only, so its metadata stay as they are: `stria set {name} --read-only off` first"
                );
                return Err(ApiError::new(ApiErrorKind::Refused, text));
            }
            // A block device that is in use is taken over only as it was.
            let is_another_device = read_only.is_some() || request.integrity.is_some();
            self.refuse_users(&served, is_another_device, request.force)?;
            let options = OpenOptions { read_only: read_only.unwrap_or(served.read_only), ..served.options };
            served = self.pause_for(&served, options, &drives, &changes)?;
            done.push(format!("array \"{name}\" was changed in a pause"));
        }
        if let Some(write) = request.write {
            served.lanes.set_write_policy(write.into())?;
            lock(&served.held).write = write;
            done.push(format!("array \"{name}\" writes {}", write.words()));
        }
        if let Some(on) = request.drive_caches {
            set_caches(&drives, on).map_err(|error| ApiError::new(ApiErrorKind::Failed, error))?;
            lock(&served.held).drive_caches = Some(on);
            lock(&served.caches.differ).clear();
            done.push(format!("the write caches of {} drives are {}", drives.len(), if on { "on" } else { "off" }));
        }
        if done.is_empty() {
            done.push(format!("array \"{name}\" is as wanted already"));
        }
        let message = done.join("; ");
        self.events.push(view::plain_event(name, "changed", message.clone()));
        self.done(sequence, message)
    }

    /// Refuses a pause that clients would not outlive.
    fn refuse_users(&self, served: &Served, is_another_device: bool, force: bool) -> Result<(), ApiError> {
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
            false => Err(ApiError::new(
                ApiErrorKind::Unsafe,
                format!(
                    "the change needs a pause, and array \"{}\" is in use by {}: clients that reconnect go on after it, others see errors; \
                     --force goes on",
                    served.name,
                    users.join(", ")
                ),
            )),
        }
    }

    /// Stops an array, changes its metadata, and starts it again in the same place. If the change fails, it is started as it was.
    fn pause_for(
        &self,
        served: &Arc<Served>,
        options: OpenOptions,
        drives: &[PathBuf],
        changes: &[Change],
    ) -> Result<Arc<Served>, ApiError> {
        let name = &served.name;
        lock(&self.pausing).insert(name.clone());
        let outcome = self.restart(served, options, drives, changes);
        lock(&self.pausing).remove(name);
        outcome
    }

    fn restart(
        &self,
        served: &Arc<Served>,
        options: OpenOptions,
        drives: &[PathBuf],
        changes: &[Change],
    ) -> Result<Arc<Served>, ApiError> {
        let present = |block: &UblkDevice| BlockSpec { id: Some(block.id()), copier: block.copier() };
        let (name, block) = (&served.name, lock(&served.block).as_ref().map(present));
        self.stop_served(served, Closing::Disconnect, false)?;
        let is_busy = |error: &HostError| matches!(error, HostError::Drive(DriveError::Busy { .. }));
        let changed = match changes.is_empty() {
            true => Ok(false),
            // Another program may look at drives that were let go.
            false => sockets::once_free(|| stria_host::change(drives, changes, false), is_busy),
        };
        let held = *lock(&served.held);
        let options = OpenOptions {
            read_only: if changed.is_ok() { options.read_only } else { served.read_only },
            // It was opened with these once, and they are of one start.
            force: false,
            forget_checksums: false,
            write_policy: held.write.into(),
            drive_caches: held.drive_caches,
            ..options
        };
        let planned = PlannedArray { drives: drives.to_vec(), ..served.planned.clone() };
        let start = || self.start(&planned, name, options, served.how.clone(), block);
        let started = sockets::once_free(start, is_busy).map_err(|error| {
            let text = format!("array \"{name}\" was stopped for a change and does not start again: {error}");
            self.events.push(view::plain_event(name, "warning", text.clone()));
            ApiError::new(ApiErrorKind::Failed, text)
        });
        started?;
        for (path, access, serial) in lock(&served.disk_sockets).iter() {
            self.add_disk(name, path.clone(), *access, serial.clone())?;
        }
        self.listen().map_err(|error| ApiError::new(ApiErrorKind::Failed, error.to_string()))?;
        changed?;
        self.find(name)
    }
}

/// Compares drives' write caches with their setting, and sets those that differ again. Returns the drives that still differ, and what happened.
/// A drive that does not tell counts as set.
fn keep<E: ToString>(
    drives: &[PathBuf],
    on: bool,
    ask: impl Fn(&Path) -> Result<bool, E>,
    set: impl Fn(&Path, bool) -> Result<(), E>,
) -> (Vec<PathBuf>, Vec<String>) {
    let (mut differ, mut warnings) = (Vec::new(), Vec::new());
    let (wanted, other) = if on { ("on", "off") } else { ("off", "on") };
    for drive in drives.iter().filter(|drive| ask(drive).is_ok_and(|found| found != on)) {
        let shown = drive.display();
        match set(drive, on) {
            Ok(()) if ask(drive).is_ok_and(|found| found == on) => {
                warnings.push(format!(
                    "the write cache of {shown} was {other}, as after a reset of its controller: it is {wanted} again, as set"
                ));
            }
            outcome => {
                let why = outcome.err().map_or_else(|| "it ignores the command".into(), |error| error.to_string());
                warnings.push(format!(
                    "the write cache of {shown} is {other}, though {wanted} is set, and cannot be switched: {why}"
                ));
                differ.push(drive.clone());
            }
        }
    }
    (differ, warnings)
}

/// The drives below an array that have not failed.
fn drives_in_use(array: &ArrayReport) -> Vec<PathBuf> {
    let drives = |array: &ArrayReport| {
        let with_status = array.members.iter().zip(&array.status.members);
        let in_use = with_status.filter_map(|(member, status)| match member {
            MemberReport::Drive(drive) if status.state != MemberState::Failed => Some(drive.info.path.clone()),
            MemberReport::Drive(_) | MemberReport::Array(_) | MemberReport::Removed => None,
        });
        in_use.collect::<Vec<_>>()
    };
    array.tree().into_iter().flat_map(drives).collect()
}

fn refuse_files(array: &ArrayReport) -> Result<(), ApiError> {
    let tree = array.tree();
    let file = tree.iter().flat_map(|array| array.drives()).find(|drive| drive.info.kind == DriveKind::File);
    match file {
        Some(drive) => {
            let path = drive.info.path.display();
            let text = format!("{path} is a file, which has no cache of its own: switch that of the drive which holds it");
            Err(ApiError::new(ApiErrorKind::Refused, text))
        }
        None => Ok(()),
    }
}

/// Switches the drives' own write caches.
///
/// # Errors
/// The first drive that refuses; those before it are switched.
pub fn set_caches(drives: &[PathBuf], on: bool) -> Result<(), String> {
    drives.iter().try_for_each(|drive| stria_health::set_write_cache(drive, on).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A reset of the controller once ended the setting, and the status went on to say "off, as set".
    #[test]
    fn a_cache_that_a_reset_has_switched_back_is_set_again_and_one_that_ignores_that_is_told() {
        let drives = ["/dev/good", "/dev/reset", "/dev/stubborn", "/dev/silent"].map(PathBuf::from);
        let was_set = RefCell::new(Vec::new());
        let ask = |drive: &Path| match drive.to_str() {
            Some("/dev/good") => Ok(false),
            Some("/dev/reset") => Ok(!was_set.borrow().contains(&drive.to_owned())),
            Some("/dev/stubborn") => Ok(true),
            _ => Err("no answer"),
        };
        let set = |drive: &Path, on: bool| {
            assert!(!on);
            was_set.borrow_mut().push(drive.to_owned());
            Ok(())
        };
        let (differ, warnings) = keep(&drives, false, ask, set);
        assert_eq!(*was_set.borrow(), drives[1..3]);
        assert_eq!(differ, drives[2..3]);
        assert!(
            warnings[0].starts_with("the write cache of /dev/reset was on") && warnings[0].ends_with("it is off again, as set"),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("/dev/stubborn is on, though off is set") && warnings.len() == 2, "{warnings:?}");
        let (differ, warnings) = keep(&drives[2..3], false, ask, |_, _| Err("it refuses"));
        assert!(differ.len() == 1 && warnings[0].ends_with("cannot be switched: it refuses"), "{warnings:?}");
    }
}
