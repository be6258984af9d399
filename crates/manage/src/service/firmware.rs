//! New firmware for a member of a served array.

use super::{Served, Service};
use crate::api::{AddRequest, ApiError, ApiErrorKind, ArrayView, Done, FirmwareActivation, FirmwareRequest, MemberView};
use crate::progress::running;
use crate::system::mounts::{mounted, users};
use crate::view::{self, all_members, does_not_use};
use crate::words::error::{Cause, Causes, ErrorSentence, ErrorSentence as Say, Words};
use crate::words::result::ResultSentence;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stria_health::{Activation, Firmware};

/// How long a drive may take to answer after a reset.
const BACK_WITHIN: Duration = Duration::from_secs(120);

fn refused(words: impl Into<Words>) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, words)
}

/// An update that may be carried out.
pub struct Update {
    /// What the drive says of its firmware before.
    pub firmware: Firmware,
    /// How the new firmware comes to run.
    pub activate: FirmwareActivation,
}

/// Checks an update before its image is opened: whether the drive takes it, and whether the array, and the others that use the
/// same controller, can do without the member. `arrays`: all that this process serves.
///
/// # Errors
/// Why it is refused. `Unsafe`: only without `force`.
pub fn check_update(view: &ArrayView, arrays: &[ArrayView], request: &FirmwareRequest) -> Result<Update, ApiError> {
    let path = &request.path;
    if place_of(view, path).is_none() {
        return Err(refused(does_not_use(view, path)));
    }
    let firmware = stria_health::firmware(path).map_err(|error| refused(Words::from(&error)))?;
    let by_itself = if firmware.activates_at_once { FirmwareActivation::Now } else { FirmwareActivation::Reset };
    let activate = request.activate.unwrap_or(by_itself);
    check_array(view, path, activate, request.force)?;
    if activate != FirmwareActivation::Later {
        let users = stria_health::others_touched(path).map(|others| users_of(&others, arrays)).map_err(|error| error.to_string());
        check_others(path, activate, request.force, users)?;
    }
    Ok(Update { firmware, activate })
}

/// The users of block devices, in words.
fn users_of(devices: &[PathBuf], arrays: &[ArrayView]) -> Vec<String> {
    let mounts = mounted();
    let mut all: Vec<String> = Vec::new();
    for device in devices {
        let is_it = |member: &&MemberView| Path::new(&member.path) == device && member.role != "failed";
        let array = arrays.iter().find(|array| all_members(array).iter().any(is_it));
        let mut users = array.map_or_else(
            || users(device, &mounts),
            |array| vec![format!("{} is a member of \"{}\"", device.display(), array.identity.name)],
        );
        // Swap, mdadm, and every other program that holds it.
        if users.is_empty() && is_held(device) {
            users.push(format!("{} is in use", device.display()));
        }
        users.retain(|user| !all.contains(user));
        all.extend(users);
    }
    all
}

/// True if something holds a block device for itself.
fn is_held(device: &Path) -> bool {
    let flags = OFlags::EXCL | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(device);
    opened.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
}

/// Refuses an update while others use the same controller. `users`: them; `Err`: they cannot be listed.
fn check_others(
    path: &Path,
    activate: FirmwareActivation,
    force: bool,
    users: Result<Vec<String>, String>,
) -> Result<(), ApiError> {
    let drive = path.display().to_string();
    let users = match users {
        Ok(users) if users.is_empty() => return Ok(()),
        users => users.map(|users| users.into_iter().collect()),
    };
    match (activate, users) {
        (FirmwareActivation::Reset, Ok(users)) => Err(refused(ErrorSentence::ResetTakesOthers { drive, users })),
        (FirmwareActivation::Reset, Err(reason)) => Err(refused(ErrorSentence::ResetMayTakeOthers { drive, reason })),
        (FirmwareActivation::Now, Ok(users)) if !force => {
            Err(ApiError::new(ApiErrorKind::Unsafe, ErrorSentence::FirmwareForOthers { drive, users }))
        }
        (FirmwareActivation::Now, Err(reason)) if !force => {
            Err(ApiError::new(ApiErrorKind::Unsafe, ErrorSentence::FirmwareMayBeForOthers { drive, reason }))
        }
        (FirmwareActivation::Now | FirmwareActivation::Later, _) => Ok(()),
    }
}

/// Refuses an update that the array may not survive.
fn check_array(view: &ArrayView, path: &Path, activate: FirmwareActivation, force: bool) -> Result<(), ApiError> {
    let name = &view.identity.name;
    let Some((array, member)) = place_of(view, path) else {
        return Err(refused(does_not_use(view, path)));
    };
    let (is_in_use, is_reset) = (member.role == "in sync", activate == FirmwareActivation::Reset);
    let (array_name, drive) = (name.clone(), member.path.clone());
    if view.condition.silent_s.is_some() {
        return Err(refused(ErrorSentence::FirmwareOfSilent { array: array_name }));
    }
    if member.role == "rebuilding" || member.role == "replacing" {
        return Err(refused(ErrorSentence::FirmwareWhileFilled { drive }));
    }
    if is_in_use && is_reset && view.redundancy.losses_survived == 0 {
        return Err(refused(ErrorSentence::FirmwareNotWithout { array: array_name, drive }));
    }
    if is_in_use && is_reset && view.condition.read_only {
        return Err(refused(ErrorSentence::FirmwareReadOnly { array: array_name }));
    }
    let sweep = running(view, &["resync", "rebuild", "scrub", "repair"]);
    // What is only stored changes nothing now.
    let doubt = if !is_in_use || force || activate == FirmwareActivation::Later {
        None
    } else if view.redundancy.losses_survived == 0 {
        Some(ErrorSentence::FirmwareBare { array: array_name, drive })
    } else if let Some(sweep) = sweep {
        Some(ErrorSentence::FirmwareWhileSweep { sweep_kind: sweep.kind.clone(), array: array_name })
    } else if is_pending(view) {
        Some(ErrorSentence::FirmwareNotResynced { array: array_name })
    } else if is_reset && array.writes.bitmap.is_none() {
        Some(ErrorSentence::FirmwareWithoutBitmap { array: array_name, drive })
    } else {
        None
    };
    doubt.map_or(Ok(()), |doubt| Err(ApiError::new(ApiErrorKind::Unsafe, doubt)))
}

fn is_pending(view: &ArrayView) -> bool {
    view.redundancy.resync_pending || view.parts.spans.iter().any(is_pending)
}

/// A drive of the array, and the array or span that it is a member of.
fn place_of<'a>(view: &'a ArrayView, path: &Path) -> Option<(&'a ArrayView, &'a MemberView)> {
    let own = view.parts.members.iter().filter(|member| Path::new(&member.path) == path && member.size_bytes.is_some());
    // A drive that failed and came back is listed twice.
    let own = own.max_by_key(|member| member.role != "failed").map(|member| (view, member));
    own.or_else(|| view.parts.spans.iter().find_map(|span| place_of(span, path)))
}

impl Service {
    /// Updates the firmware of a member, while the array serves. `may_send`: refuses the image, of which these bytes are sent.
    pub fn update_firmware(
        &self,
        name: &str,
        request: &FirmwareRequest,
        may_send: impl FnOnce(&[u8]) -> Result<(), ApiError>,
    ) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let _turn = match self.updating.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(refused(ErrorSentence::OneUpdateAtATime {}));
            }
        };
        let view = self.array(name)?;
        let Update { firmware, activate } = check_update(&view, &self.arrays(), request)?;
        let image = stria_health::read_image(&request.image).map_err(|error| refused(Words::from(&error)))?;
        may_send(&image)?;
        let (path, shown) = (&request.path, request.path.display().to_string());
        let outcome = self.carry_out_update(&served, &view, request, &image, activate);
        let running = || match stria_health::firmware(path) {
            Ok(found) => ResultSentence::FirmwareRunsStill { drive: shown.clone(), revision: found.revision },
            Err(error) => ResultSentence::FirmwareUnknown { drive: shown.clone(), reason: error.to_string() },
        };
        let before = &firmware.revision;
        let done = match outcome {
            Ok(Updated::Stored(when)) => {
                Ok(format!("the firmware of {shown} is stored, and runs after {when}; {before} runs until then"))
            }
            Ok(Updated::Runs(text)) => Ok(format!("{}, after {before}{text}", running())),
            Err(Fault::Update(error)) => {
                let (reason, cause) = error.parts();
                Err(Say::FirmwareFailed { drive: shown, reason, cause })
            }
            Err(Fault::NotActivated(faults)) => {
                let (now, advice) = (running(), faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
                let (outcome, cause, causes) = (now.to_string(), Some(now).into(), Causes(Some(faults)));
                Err(Say::FirmwareNotActivated { drive: shown, advice, causes, outcome, cause })
            }
        };
        self.events.push(match &done {
            Ok(message) => view::plain_event(name, "firmware", message.clone()),
            Err(said) => view::said_event(name, "firmware", said.clone()),
        });
        match done {
            Ok(message) => self.done(sequence, message),
            Err(said) => Err(ApiError::new(ApiErrorKind::Failed, said)),
        }
    }

    /// Stores the firmware in the drive, and brings it to run as it was asked for.
    fn carry_out_update(
        &self,
        served: &Served,
        view: &ArrayView,
        request: &FirmwareRequest,
        image: &[u8],
        activate: FirmwareActivation,
    ) -> Result<Updated, Fault> {
        let path = &request.path;
        let at_once = activate == FirmwareActivation::Now;
        let stored =
            stria_health::update(path, image, request.slot, at_once).map_err(|error| Fault::Update(Box::new((&error).into())))?;
        after_commit(stored, activate, || {
            let is_in_use = place_of(view, path).is_some_and(|(_, member)| member.role == "in sync");
            let was_paused = served.paused.load(Ordering::SeqCst);
            let return_only = place_of(view, path).is_some_and(|(array, _)| array.writes.bitmap.is_some());
            let steps = OfService { service: self, served, path, was_paused, return_only };
            let (name, shown) = (&served.name, path.display().to_string());
            if is_in_use {
                return reset_member(&steps, name, &shown);
            }
            reset_unused(&steps, &shown).inspect(|_| self.set_held_cache(served, path))
        })
    }
}

/// What a successful update has done.
#[derive(Debug, PartialEq)]
enum Updated {
    /// The firmware runs; what happened for that.
    Runs(String),
    /// It waits for this event.
    Stored(&'static str),
}

/// The stage at which an update failed, and the reason.
#[derive(Debug, PartialEq)]
enum Fault {
    /// The drive did not take the image, or did not say so.
    Update(Box<Words>),
    /// The drive has the image, and did not come to run it as asked, or did not come back for it.
    NotActivated(Faults),
}

/// The steps that failed, and how the array is.
type Faults = Vec<ErrorSentence>;

/// The rest of an update once the image is committed. `reset`: takes the member through a reset, and says how; `Err`: which step
/// failed, and how the array is.
fn after_commit(
    stored: Activation,
    activate: FirmwareActivation,
    reset: impl FnOnce() -> Result<String, Faults>,
) -> Result<Updated, Fault> {
    match (stored, activate) {
        (Activation::PowerCycle, _) => Ok(Updated::Stored("the next power cycle, as the drive asks for a reset that needs one")),
        (Activation::ControllerReset, FirmwareActivation::Later) => Ok(Updated::Stored("the next reset or power cycle")),
        (Activation::Running, _) => Ok(Updated::Runs(String::new())),
        (Activation::ControllerReset, FirmwareActivation::Now) => Err(Fault::NotActivated(vec![Say::ImageNeedsReset {}])),
        (Activation::ControllerReset, FirmwareActivation::Reset) => {
            reset().map(|text| Updated::Runs(format!("; {text}"))).map_err(Fault::NotActivated)
        }
    }
}

/// The reason why a step failed, and its sentence.
type Why = (String, Cause<ErrorSentence>);

/// The steps of a reset. Each may fail; tests have a drive and an array of their own here.
trait Steps {
    /// Holds sweeps: a spare would take the slot.
    fn hold(&self) -> Result<(), Why>;
    /// The member leaves the array.
    fn leave(&self) -> Result<(), Why>;
    /// Its controller is reset.
    fn reset(&self) -> Result<(), Why>;
    /// It can be read again.
    fn answers(&self) -> Result<(), Why>;
    /// It is a member again; says how.
    fn come_back(&self) -> Result<String, Why>;
    /// Sweeps go on.
    fn go_on(&self) -> Result<(), Why>;
}

/// Takes a member out of its array, resets it, and brings it back. Returns how it came back.
///
/// # Errors
/// The steps that failed, and the state of the array.
fn reset_member(steps: &impl Steps, name: &str, shown: &str) -> Result<String, Faults> {
    let (array, drive) = (|| name.to_owned(), || shown.to_owned());
    if let Err((reason, cause)) = steps.hold() {
        return Err(vec![Say::ResetNeedsHold { array: array(), reason, cause, drive: drive() }]);
    }
    let (mut faults, mut back): (Faults, _) = (Vec::new(), None);
    if let Err((reason, cause)) = steps.leave() {
        faults.push(Say::ResetNeedsLeave { drive: drive(), array: array(), reason, cause });
    } else {
        if let Err((reason, cause)) = steps.reset() {
            faults.push(Say::ResetFailed { drive: drive(), reason, cause });
        }
        // Whatever became of the reset, the member is to come back.
        match steps.answers() {
            Err((reason, cause)) => faults.push(Say::ResetNoAnswer { drive: drive(), reason, cause, array: array() }),
            Ok(()) => match steps.come_back() {
                Err((reason, cause)) => faults.push(Say::ResetNoReturn { drive: drive(), array: array(), reason, cause }),
                Ok(_) if !faults.is_empty() => faults.push(Say::ResetIsBack { array: array() }),
                Ok(text) => back = Some(text),
            },
        }
    }
    if let Err((reason, cause)) = steps.go_on() {
        faults.extend(back.take().map(|_| Say::ResetIsBack { array: array() }));
        faults.push(Say::SweepsStillHeld { reason, cause, array: array() });
    }
    back.ok_or(faults)
}

/// The same of a spare, or of a member that has failed: the array does without it.
fn reset_unused(steps: &impl Steps, shown: &str) -> Result<String, Faults> {
    let drive = || shown.to_owned();
    let failed = |(reason, cause)| vec![Say::ResetFailed { drive: drive(), reason, cause }];
    steps.reset().map_err(failed)?;
    let silent = |(reason, cause)| vec![Say::ResetOfUnused { drive: drive(), reason, cause }];
    steps.answers().map_err(silent)?;
    Ok("its controller was reset".into())
}

/// The steps on a served array.
struct OfService<'a> {
    service: &'a Service,
    served: &'a Served,
    path: &'a Path,
    was_paused: bool,
    /// The member may only return to its slot. Without a bitmap it is rebuilt in full, as the caller of the update has confirmed.
    return_only: bool,
}

impl OfService<'_> {
    /// Sweeps that were paused by command stay so.
    fn set_hold(&self, hold: bool) -> Result<(), Why> {
        if self.was_paused {
            return Ok(());
        }
        self.service.pause(&self.served.name, hold).map(drop).map_err(|error| error.words().parts())
    }
}

impl Steps for OfService<'_> {
    fn hold(&self) -> Result<(), Why> {
        self.set_hold(true)
    }

    fn leave(&self) -> Result<(), Why> {
        self.service.fail(&self.served.name, self.path.to_owned()).map(drop).map_err(|error| error.words().parts())
    }

    fn reset(&self) -> Result<(), Why> {
        stria_health::reset(self.path).map_err(|error| Words::from(&error).parts())
    }

    fn answers(&self) -> Result<(), Why> {
        wait_for(self.path)
    }

    fn come_back(&self) -> Result<String, Why> {
        let (path, return_only) = (self.path.to_owned(), self.return_only);
        let request = AddRequest { path, span: None, force: false, confirmed: None, seen: None, return_only };
        self.service.add(&self.served.name, request).map(|done| done.message).map_err(|error| error.words().parts())
    }

    fn go_on(&self) -> Result<(), Why> {
        self.set_hold(false)
    }
}

/// Waits until a drive can be read again.
fn wait_for(path: &Path) -> Result<(), Why> {
    let end = Instant::now() + BACK_WITHIN;
    loop {
        let read = File::open(path).and_then(|mut drive| drive.read_exact(&mut [0; 4096]));
        match read {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > end => return Err((error.to_string(), Cause(None))),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

#[cfg(test)]
mod tests;
