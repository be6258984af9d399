//! `attach` and `detach`: arrays as devices of this machine's NBD client.
//!
//! `attach` leaves a process, the watcher, that gives the device new connections whenever the array is served anew. It is this
//! program again, in a session of its own; with `--foreground` it is this process. What goes wrong before the device is there is
//! reported by the command; afterwards the watcher logs.

use crate::api::ArrayView;
use crate::cli::{Attach, Detach};
use crate::control::client::{self, Client};
use crate::fronts::ublk::notes;
use crate::log::log_to_stderr;
use crate::system::{threads, udev};
use sd_notify::NotifyState;
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stria_block::{file_name, shell_word, shown};
use stria_format::md::uuid_text;
use stria_front::nbd_device::{self, NbdArray, NbdDevice, NbdDeviceError, NbdDeviceOptions, NbdTarget, NbdWatch};
use stria_front::nbd_target;
use stria_terminal::Failure;
use stria_terminal::output::{print, say};
use tokio::signal::unix::{SignalKind, signal};

/// The variable in its environment that makes this program the watcher of an `attach`.
const WATCHER: &str = "STRIA_ATTACH_WATCHER";
/// The pause between two looks of a watcher at its device.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The pause between two attempts of a watcher to connect its device again.
const TRY_EVERY: Duration = Duration::from_millis(100);
/// The time that a `detach` may take. After that a watcher takes it for aborted, and connects the device again.
const DETACHED_WITHIN: Duration = Duration::from_secs(10);
/// The seconds that udev has to name a new device before `attach` returns.
const NAMED_WITHIN_S: u32 = 10;
/// The pause between two attempts to find an array that is not served yet.
const FIND_EVERY: Duration = Duration::from_secs(1);
/// The time for which Linux alone waits for a server that is gone. It logs each waiting request every second meanwhile.
const SOON_BACK: Duration = Duration::from_secs(2);

/// Attaches an array to a device, and returns when that can be used. Returns the exit code.
///
/// # Errors
/// When the array is not served, or the kernel or its server refuses.
pub fn attach(command: &Attach, json: bool) -> Result<u8, Failure> {
    if !command.foreground && std::env::var_os(WATCHER).is_none() {
        return start_watcher(json);
    }
    log_to_stderr(tracing::Level::INFO);
    let (client, view) = find(command)?;
    let array = NbdArray { uuid: parse_uuid(&view.identity.uuid)?, name: view.identity.name.clone() };
    if let (None, Some(path)) = (&command.device, &view.access.block_device) {
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        answer(&array, path, "ublk", json, || {
            format!("array \"{}\" is {path} already, made by `serve --ublk`", shown(&array.name))
        });
        return Ok(0);
    }
    let options = NbdDeviceOptions {
        connections: command.connections,
        timeout_s: command.timeout,
        dead_timeout_s: command.dead_timeout,
        notes: notes(),
    };
    let asked = command.device.as_deref().map(nbd_device::index_of).transpose().map_err(failure)?;
    let watch = NbdWatch::open().map_err(failure)?;
    // Held until the device exists, so that another `attach` finds it.
    let lock = lock_attachment(&notes(), &array.uuid)?;
    let (device, is_adopted) = match nbd_device::devices_of(&array.uuid).first() {
        None => (NbdDevice::attach(asked, &array, &target(&view)?, &options).map_err(failure)?, false),
        Some(path) => {
            let index = nbd_device::index_of(path).map_err(failure)?;
            let path = path.display().to_string();
            if asked.is_some_and(|asked| asked != index) {
                let (name, word) = (&array.name, shell_word(&path));
                return Err(Failure::Failed(format!(
                    "array \"{name}\" is attached as {path} already: `stria detach {word}` first"
                )));
            }
            let Some(device) = NbdDevice::adopt(index, &array, &options).map_err(failure)? else {
                answer(&array, &path, "nbd", json, || format!("array \"{}\" is attached as {path} already", shown(&array.name)));
                return Ok(0);
            };
            (device, true)
        }
    };
    drop(lock);
    let path = device.path().display().to_string();
    answer(&array, &path, "nbd", json, || path.clone());
    if !command.foreground {
        to_log(&notes().join(format!("nbd-{}.log", device.index())))?;
    }
    let text = format!("array \"{}\" is {path}{}", shown(&array.name), if is_adopted { ", and is watched again" } else { "" });
    // It is no fault if systemd does not listen.
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&text)]);
    tracing::info!("{text}");
    let watcher = Watcher { device, watch, uuid: view.identity.uuid, control: client, given: command.control.socket.clone() };
    watcher.run(is_adopted)
}

/// Waits until no other `attach` of this array is making a device. Two devices of one array would have two page caches.
fn lock_attachment(folder: &Path, uuid: &[u8; 16]) -> Result<File, Failure> {
    let path = folder.join(format!("attach-{:032x}", u128::from_be_bytes(*uuid)));
    let lock = || {
        std::fs::create_dir_all(folder)?;
        let file = File::options().create(true).append(true).open(&path)?;
        file.lock().map(|()| file)
    };
    lock().map_err(|error| {
        let path = path.display();
        Failure::Failed(format!("{path}, the lock against two devices of one array: {error}; see that its folder can be written"))
    })
}

/// The array. A unit of systemd waits until it is served: if its first attempt failed, so would the mounts that need it. The unit
/// counts as started meanwhile, so that the boot does not wait. Mounts wait for the device as long as systemd waits for any.
fn find(command: &Attach) -> Result<(Client, ArrayView), Failure> {
    let may_wait = command.foreground && std::env::var_os("NOTIFY_SOCKET").is_some();
    let mut reported = String::new();
    loop {
        match client::find(command.control.socket.as_deref(), &command.name) {
            Err(error) if may_wait => {
                let error = error.to_string();
                if reported != error {
                    let text = format!("waits for array \"{}\": {error}", shown(&command.name));
                    tracing::info!("{text}");
                    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&text)]);
                    reported = error;
                }
                std::thread::sleep(FIND_EVERY);
            }
            found => return found,
        }
    }
}

/// Starts this program again as a watcher, passes on what it answers, and leaves it alone.
fn start_watcher(json: bool) -> Result<u8, Failure> {
    let failed = |error| Failure::Failed(format!("cannot start the process that watches the device: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(WATCHER, "1").env("NO_COLOR", "1");
    let watcher = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut watcher = watcher;
    let mut text = String::new();
    // It closes its end when it has answered.
    if let Some(mut stdout) = watcher.stdout.take() {
        std::io::Read::read_to_string(&mut stdout, &mut text).map_err(failed)?;
    }
    // In JSON the reason of a failure is on standard output, too.
    let has_failed = json && serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|answer| answer.get("error").is_some());
    if !text.is_empty() && !has_failed {
        // Whoever goes on finds the device's names. Once udev watches the device, it does not miss what is written to it.
        udev::wait(NAMED_WITHIN_S);
        print(&text);
        return Ok(0);
    }
    print(&text);
    // It has printed the reason.
    let code = watcher.wait().map_err(failed)?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1))
}

/// Leaves the terminal: what is written from now on goes to a log.
fn to_log(path: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let log = File::options().create(true).write(true).truncate(true).open(path).map_err(|error| failed(&error))?;
    // Fails if it leads a session already.
    let _ = rustix::process::setsid();
    rustix::stdio::dup2_stderr(&log).and_then(|()| rustix::stdio::dup2_stdout(&log)).map_err(|error| failed(&error))
}

fn answer(array: &NbdArray, path: &str, driver: &str, json: bool, words: impl FnOnce() -> String) {
    let uuid = uuid_text(&array.uuid);
    say(json, words, || json!({"array": array.name, "uuid": uuid, "device": path, "driver": driver}));
}

/// The address of an array that the kernel can use.
fn target(view: &ArrayView) -> Result<NbdTarget, Failure> {
    let targets = || view.access.exports.iter().filter_map(|uri| nbd_target(uri));
    let unix = targets().find(|target| matches!(target.address, stria_front::Listener::Unix(_)));
    unix.or_else(|| targets().next()).ok_or_else(|| {
        let (name, uris) = (&view.identity.name, view.access.exports.join(", "));
        Failure::Failed(format!(
            "array \"{name}\" is served where Linux cannot connect ({uris}): serve it at a unix socket too, with --nbd unix:PATH"
        ))
    })
}

fn parse_uuid(text: &str) -> Result<[u8; 16], Failure> {
    let digits = text.replace(':', "");
    let number = u128::from_str_radix(&digits, 16).map_err(|error| Failure::Failed(format!("{text} is no UUID: {error}")))?;
    Ok(number.to_be_bytes())
}

/// The process that keeps a device connected.
struct Watcher {
    device: NbdDevice,
    watch: NbdWatch,
    /// The array's.
    uuid: String,
    /// The address at which it was served last.
    control: Client,
    /// The control socket that was given on the command line.
    given: Option<PathBuf>,
}

impl Watcher {
    /// Watches until the device is detached, or a signal comes. `is_lost`: connections may have been lost before.
    fn run(self, is_lost: bool) -> Result<u8, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
        let (index, uuid) = (self.device.index(), parse_uuid(&self.uuid)?);
        let (tell, over) = tokio::sync::oneshot::channel();
        let keep = move || tell.send(self.keep_connected(is_lost));
        threads::start("connections", keep)?;
        let signalled = async {
            let caught = |kind| signal(kind).map_err(Failure::failed);
            let (mut interrupt, mut terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            Ok::<_, Failure>(())
        };
        runtime.block_on(async {
            tokio::select! {
                outcome = over => outcome.map_err(Failure::failed)?,
                caught = signalled => caught.and_then(|()| leave(index, &uuid)),
            }
        })?;
        Ok(0)
    }

    fn keep_connected(mut self, mut is_lost: bool) -> Result<(), Failure> {
        loop {
            if !self.device.is_attached() {
                tracing::info!("{} was detached", self.device.path().display());
                self.device.forget();
                return Ok(());
            }
            if is_lost {
                self.connect_again();
            }
            is_lost = self.watch.lost_connection(&self.device, LOOK_EVERY).map_err(failure)?;
        }
    }

    /// Tries until there are new connections, or the device is no longer attached.
    fn connect_again(&mut self) {
        let (path, since) = (self.device.path(), Instant::now());
        let path = path.display();
        let mut reported = String::new();
        loop {
            self.device.await_detachment(DETACHED_WITHIN);
            if !self.device.is_attached() {
                return;
            }
            let error = match self.try_once() {
                Ok(()) => {
                    tracing::info!("{path} is connected again, after {:.1} s", since.elapsed().as_secs_f32());
                    return;
                }
                Err(error) => error.to_string(),
            };
            if reported != error {
                tracing::warn!("{path} has lost its server, and its requests wait: {error}");
                reported = error;
            }
            if since.elapsed() > SOON_BACK
                && let Err(error) = self.device.release_requests()
            {
                tracing::debug!("{path}: {error}");
            }
            std::thread::sleep(TRY_EVERY);
        }
    }

    fn try_once(&mut self) -> Result<(), Failure> {
        // First where it was: other serves may take a while to answer.
        let found = client::find_at_once(Some(self.control.socket()), &self.uuid);
        let (client, view) = match &self.given {
            None => found.or_else(|_| client::find_at_once(None, &self.uuid))?,
            Some(_) => found?,
        };
        let array = NbdArray { uuid: parse_uuid(&view.identity.uuid)?, name: view.identity.name.clone() };
        self.device.reconnect(&array, &target(&view)?).map_err(failure)?;
        self.control = client;
        Ok(())
    }
}

/// The answer of a watcher to a signal: the device is detached, unless it is in use.
fn leave(index: u32, uuid: &[u8; 16]) -> Result<(), Failure> {
    match nbd_device::detach(index, uuid, &notes(), false) {
        Ok(()) => tracing::info!("/dev/nbd{index} was detached"),
        Err(NbdDeviceError::InUse { path, users }) => {
            let path = path.display();
            tracing::warn!(
                "{path} is in use ({users}), so it was not removed: nothing connects it again until `stria attach` watches it"
            );
        }
        Err(error) => return Err(failure(error)),
    }
    Ok(())
}

/// Detaches a device, by its path or its array.
///
/// # Errors
/// When there is none, it is in use, or the kernel refuses.
pub fn detach(command: &Detach, json: bool) -> Result<(), Failure> {
    let entries = nbd_device::list(&notes());
    let what = command.what.display().to_string();
    let found = if command.what.is_absolute() {
        let index = nbd_device::index_of(&command.what).map_err(failure)?;
        entries.into_iter().find(|entry| entry.index == index)
    } else {
        entries.into_iter().find(|entry| is_called(&entry.name, &entry.uuid, &what))
    };
    let Some(entry) = found else {
        let hint = "`stria status` shows what is attached; a device of `serve --ublk` goes with `stria stop`";
        return Err(Failure::Failed(format!(
            "{what} is neither a device that `stria attach` made nor an array that has one ({hint})"
        )));
    };
    nbd_device::detach(entry.index, &entry.uuid, &notes(), command.force).map_err(failure)?;
    let path = format!("/dev/nbd{}", entry.index);
    let array = if entry.name.is_empty() { uuid_text(&entry.uuid) } else { shown(&entry.name).to_string() };
    let words = || format!("{path} of array \"{array}\" was detached");
    say(json, words, || json!({"detached": path, "array": entry.name, "uuid": uuid_text(&entry.uuid)}));
    Ok(())
}

/// True if a device with this note belongs to the array called `what`. In a note, a part of the UUID follows a name that had to
/// be changed.
fn is_called(noted: &str, uuid: &[u8; 16], what: &str) -> bool {
    let (plain, uuid) = (file_name(what), uuid_text(uuid));
    match plain == what {
        true => noted == what || uuid == what,
        false => noted == format!("{plain}-{}", &uuid[..8]) || uuid == what,
    }
}

fn failure(error: NbdDeviceError) -> Failure {
    match error {
        NbdDeviceError::InUse { .. } => Failure::Unsafe(error.to_string()),
        error => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_called, lock_attachment};
    use std::fs::File;

    /// Bug: two `attach` of one array at once made two devices.
    #[test]
    fn an_array_is_attached_by_one_process_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("made");
        let lock = lock_attachment(&folder, &[1; 16]).expect("it is free");
        lock_attachment(&folder, &[2; 16]).expect("another array");
        let other = || File::open(folder.join(format!("attach-{}", "01".repeat(16)))).expect("it is there").try_lock();
        other().expect_err("it waits");
        drop(lock);
        other().expect("its turn");
    }

    /// `detach tank` must not detach "tank-old", nor an array whose name was changed to the same.
    #[test]
    fn a_device_is_found_by_the_whole_name_of_its_array() {
        let (one, other) = ([1; 16], [2; 16]);
        assert!(is_called("tank", &one, "tank") && !is_called("tank-old", &one, "tank") && !is_called("", &one, "tank"));
        assert!(is_called("a_b-01010101", &one, "a b") && !is_called("a_b-02020202", &other, "a_b"));
        assert!(!is_called("a_b-01010101", &one, "a:b c") && !is_called("a_b", &one, "a b"));
        assert!(is_called("", &one, "01010101:01010101:01010101:01010101"));
    }
}
