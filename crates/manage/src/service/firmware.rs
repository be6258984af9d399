//! New firmware for a member of a served array.

use super::{ApiError, ApiErrorKind, Served, Service};
use crate::api::{AddRequest, ArrayView, Done, FirmwareActivation, FirmwareRequest, MemberView};
use crate::progress::running;
use crate::view::{self, all_members};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stria_health::{Activation, Firmware, controller_name};

/// How long a drive may take to answer after a reset.
const BACK_WITHIN: Duration = Duration::from_secs(120);

fn refused(text: impl ToString) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, text.to_string())
}

/// An update that may be carried out.
pub struct Update {
    /// The image.
    pub image: Vec<u8>,
    /// What the drive says of its firmware before.
    pub firmware: Firmware,
    /// How the new firmware comes to run.
    pub activate: FirmwareActivation,
}

/// Checks an update before anything is written: the image, the drive, and whether the array can do without the member.
///
/// # Errors
/// Why it is refused. `Unsafe`: only without `force`.
pub fn check_update(view: &ArrayView, request: &FirmwareRequest) -> Result<Update, ApiError> {
    let image = stria_health::read_image(&request.image).map_err(refused)?;
    let firmware = stria_health::firmware(&request.path).map_err(refused)?;
    let by_itself = if firmware.activates_at_once { FirmwareActivation::Now } else { FirmwareActivation::Reset };
    let activate = request.activate.unwrap_or(by_itself);
    check_array(view, &request.path, activate, request.force)?;
    if activate == FirmwareActivation::Reset {
        let own = controller_name(&request.path);
        let shares =
            |member: &&MemberView| Path::new(&member.path) != request.path && controller_name(Path::new(&member.path)) == own;
        if let Some(other) = all_members(view).into_iter().find(shares) {
            let (path, other) = (request.path.display(), &other.path);
            return Err(refused(format!(
                "a reset of {path} would take {other} away as well, which has the same controller: stop \"{}\" and use the maker's tool",
                view.name
            )));
        }
    }
    Ok(Update { image, firmware, activate })
}

/// Refuses an update that the array may not survive.
fn check_array(view: &ArrayView, path: &Path, activate: FirmwareActivation, force: bool) -> Result<(), ApiError> {
    let name = &view.name;
    let Some((array, member)) = place_of(view, path) else {
        return Err(refused(format!("{} is no member of \"{name}\"", path.display())));
    };
    let (is_in_use, is_reset) = (member.role == "in sync", activate == FirmwareActivation::Reset);
    if view.silent_s.is_some() {
        return Err(refused(format!("array \"{name}\" does not answer: `stria explain {name}` says why; nothing was changed")));
    }
    if member.role == "rebuilding" || member.role == "replacing" {
        return Err(refused(format!("{} is being filled: wait until it is in sync; nothing was changed", member.path)));
    }
    if is_in_use && is_reset && view.losses_survived == 0 {
        return Err(refused(format!(
            "array \"{name}\" cannot do without {}: its reset would interrupt the array; make it optimal first, or use --activate now or later; \
             nothing was changed",
            member.path
        )));
    }
    if is_in_use && is_reset && view.read_only {
        return Err(refused(format!("array \"{name}\" is read-only, so no member can leave it: use --activate now or later")));
    }
    let sweep = running(view, &["resync", "rebuild", "scrub", "repair"]);
    let doubt = if !is_in_use || force {
        None
    } else if view.losses_survived == 0 {
        Some(format!("array \"{name}\" has no redundancy left: if the new firmware of {} fails, data is lost", member.path))
    } else if let Some(sweep) = sweep {
        Some(format!("a {} of \"{name}\" runs: wait for its end", sweep.kind))
    } else if is_pending(view) {
        Some(format!("array \"{name}\" has not been resynced: wait until its redundancy is consistent"))
    } else if is_reset && array.bitmap.is_none() {
        Some(format!("array \"{name}\" has no write-intent bitmap: {} would be rebuilt in full after its reset", member.path))
    } else {
        None
    };
    match doubt {
        Some(doubt) => Err(ApiError::new(ApiErrorKind::Unsafe, format!("{doubt}; nothing was changed; --force goes on"))),
        None => Ok(()),
    }
}

fn is_pending(view: &ArrayView) -> bool {
    view.resync_pending || view.spans.iter().any(is_pending)
}

/// A drive of the array, and the array or span that it is a member of.
fn place_of<'a>(view: &'a ArrayView, path: &Path) -> Option<(&'a ArrayView, &'a MemberView)> {
    let own = view.members.iter().filter(|member| Path::new(&member.path) == path && member.size_bytes.is_some());
    // A drive that failed and came back is listed twice.
    let own = own.max_by_key(|member| member.role != "failed").map(|member| (view, member));
    own.or_else(|| view.spans.iter().find_map(|span| place_of(span, path)))
}

impl Service {
    /// Updates the firmware of a member, while the array serves.
    pub fn update_firmware(&self, name: &str, request: &FirmwareRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let _turn = match self.updating.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(refused(
                    "the firmware of another member is being updated: one at a time; repeat the command afterwards",
                ));
            }
        };
        let view = self.array(name)?;
        let Update { image, firmware, activate } = check_update(&view, request)?;
        let (path, shown) = (&request.path, request.path.display());
        let failed = |error: stria_health::FirmwareError| {
            let error = ApiError::new(ApiErrorKind::Failed, error.to_string());
            self.events.push(view::plain_event(name, "firmware", format!("firmware of {shown} was not updated: {error}")));
            error
        };
        let at_once = activate == FirmwareActivation::Now;
        let outcome = stria_health::update(path, &image, request.slot, at_once).map_err(failed)?;
        let before = &firmware.revision;
        let how = match (outcome, activate) {
            (Activation::PowerCycle, _) => {
                Err("runs after the next power cycle: the drive asks for a reset that needs one".to_owned())
            }
            (Activation::ControllerReset, FirmwareActivation::Now) => {
                Err("does not run yet: this image needs a reset; repeat the command with --activate reset".to_owned())
            }
            (_, FirmwareActivation::Later) => Err("runs after the next reset or power cycle".to_owned()),
            (Activation::Running, _) => Ok(String::new()),
            (Activation::ControllerReset, FirmwareActivation::Reset) => {
                self.reset_member(&served, &view, path).map(|told| format!("; {told}"))
            }
        };
        let message = match how {
            Ok(told) => {
                let now = stria_health::firmware(path).map_or_else(|error| format!("unknown ({error})"), |found| found.revision);
                format!("{shown} runs firmware {now}, after {before}{told}")
            }
            Err(why) => format!("the firmware of {shown} is stored, and {why}; {before} runs until then"),
        };
        self.events.push(view::plain_event(name, "firmware", message.clone()));
        self.done(sequence, message)
    }

    /// Takes a member out of its array, resets it, and brings it back. Sweeps are held meanwhile: a spare would take the slot.
    fn reset_member(&self, served: &Served, view: &ArrayView, path: &Path) -> Result<String, String> {
        let is_in_use = place_of(view, path).is_some_and(|(_, member)| member.role == "in sync");
        if !is_in_use {
            stria_health::reset(path).map_err(|error| error.to_string())?;
            return wait_for(path).map(|()| "its controller was reset".into());
        }
        let (name, was_paused) = (&served.name, served.paused.load(Ordering::SeqCst));
        let words = |error: ApiError| error.message;
        self.pause(name, true).map_err(words)?;
        let away = self.fail(name, path.to_owned()).map_err(words);
        let reset = away.and_then(|_| stria_health::reset(path).map_err(|error| error.to_string()));
        // Whatever became of the reset, the member is to come back.
        let back = wait_for(path).and_then(|()| {
            let request = AddRequest { path: path.to_owned(), span: None, force: false };
            self.add(name, request).map_err(words)
        });
        if !was_paused {
            self.pause(name, false).map_err(words)?;
        }
        let outcome = reset.and_then(|()| Ok(back?.message));
        outcome.map_err(|error| format!("runs after the next reset, which failed ({error}): see `stria status {name}`"))
    }
}

/// Waits until a drive can be read again.
fn wait_for(path: &Path) -> Result<(), String> {
    let end = Instant::now() + BACK_WITHIN;
    loop {
        let read = File::open(path).and_then(|mut drive| drive.read_exact(&mut [0; 4096]));
        match read {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > end => return Err(format!("{} does not come back: {error}", path.display())),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

#[cfg(test)]
mod tests;
