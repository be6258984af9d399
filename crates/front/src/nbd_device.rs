//! A block device of this machine, `/dev/nbdN`, whose requests the kernel sends to an NBD server: Linux's NBD client.
//!
//! ```text
//!   connect, agree (here) ─ CONNECT with the sockets      the kernel serves the device
//!   the server is gone: LINK_DEAD ─ connect, agree ─ RECONFIGURE      requests go on
//! ```
//! Linux holds back requests while there is no connection, and repeats those that a lost connection had. With one connection it
//! does so as soon as there is a new one, but looks only when a request times out; a request that merely takes long is not
//! repeated. With several connections every request that takes longer than the time-out counts as lost, and is sent again over
//! another one. That is why one connection with a short time-out is the usual choice, and several have a long one.
//!
//! A device belongs to one array: Linux carries the array's UUID as the device's "backend" and compares it at each RECONFIGURE. A
//! note in `/run` names the array for udev. The process that watches the device has the note locked.

mod error;
mod greet;
mod netlink;

pub use error::NbdDeviceError;

use crate::Listener;
use crate::device_note::{self, Note, overwrite};
use crate::device_users::users;
use crate::wire::transmission;
use greet::{Offer, Refusal, negotiate};
use netlink::{Driver, Lost, Order, command};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time that the server may take for each step of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// 200 ms: the time after which Linux checks, for a request on a single connection, whether the connection is still the same.
/// Linux checks once a second, so requests of a lost connection are sent again within 1.2 s of the new one. With 1 s it would be
/// 2 s.
const LOOK_AFTER_MS: u64 = 200;
/// The pause between two looks at a note that another process has moved aside.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// 30 s, as for other block devices: how long a request may take where there are several connections.
const LOST_AFTER_S: u64 = 30;

/// The address of an array at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdTarget {
    /// The address of the server.
    pub address: Listener,
    /// The export.
    pub export: String,
}

/// The array behind a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdArray {
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its name.
    pub name: String,
}

/// The kernel's settings for a server.
#[derive(Clone, Debug)]
pub struct NbdDeviceOptions {
    /// The number of connections.
    pub connections: usize,
    /// After how many seconds a request of a lost connection is repeated; with several connections: after how many any request
    /// counts as lost. `None`: 0.2, or 30 with several.
    pub timeout_s: Option<u64>,
    /// The seconds that requests wait without a connection before they fail.
    pub dead_timeout_s: u64,
    /// The folder with a note for each device.
    pub notes: PathBuf,
}

/// A device that this process watches: it alone connects it again.
pub struct NbdDevice {
    index: u32,
    backend: String,
    options: NbdDeviceOptions,
    /// Locked.
    note: File,
    /// The driver has been asked to take requests back from a lost connection, which changes the time-out.
    requests_released: bool,
}

impl NbdDevice {
    /// Attaches an array to a device, or to any that is free.
    ///
    /// # Errors
    /// When the kernel or the server refuses, or the device is in use.
    pub fn attach(
        device: Option<u32>,
        array: &NbdArray,
        target: &NbdTarget,
        options: &NbdDeviceOptions,
    ) -> Result<Self, NbdDeviceError> {
        let mut driver = Driver::open()?;
        let (sockets, offer) = connect(target, options.connections)?;
        let candidates = match device {
            Some(index) => vec![index],
            None => free(),
        };
        let last = candidates.last().copied().unwrap_or_default();
        for index in candidates {
            // Before its note is touched: it may be the device of another array whose server is away.
            if is_connected(index) {
                continue;
            }
            let Some(note) = take_note(&options.notes, index)? else { continue };
            let backend = backend(&array.uuid);
            let device = Self { index, backend, options: options.clone(), note, requests_released: false };
            let order = Order {
                size: Some((offer.size_bytes, u64::from(offer.block_bytes))),
                server_flags: Some(offer.flags),
                ..device.order(&sockets)
            };
            let connected = noted(&options.notes, index, array, options.connections, || driver.ask(command::CONNECT, &order))?;
            match connected {
                Ok(()) => {
                    device.set_look_after();
                    announce(index);
                    return Ok(device);
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {}
                Err(error) => return Err(refused("attach", index, error)),
            }
        }
        Err(NbdDeviceError::Busy(path(last)))
    }

    /// Watches a device that is attached to the array already, and has as many connections as it was given then. It is to be
    /// connected again at once, because connections may have been lost meanwhile. `None`: another process watches it.
    ///
    /// # Errors
    /// When its note cannot be made.
    pub fn adopt(index: u32, array: &NbdArray, options: &NbdDeviceOptions) -> Result<Option<Self>, NbdDeviceError> {
        let Some(note) = take_note(&options.notes, index)? else { return Ok(None) };
        let connections = noted_connections(&note_path(&options.notes, index)).unwrap_or_else(|told| {
            log::warn!("{}: {told}", path(index).display());
            SEVERAL
        });
        write_note(&options.notes, index, array, connections)?;
        announce(index);
        let (backend, options) = (backend(&array.uuid), NbdDeviceOptions { connections, ..options.clone() });
        Ok(Some(Self { index, backend, options, note, requests_released: true }))
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        path(self.index)
    }

    /// N of `/dev/nbdN`.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// True until it is detached by any program.
    pub fn is_attached(&self) -> bool {
        let is_noted = self.note.metadata().is_ok_and(|note| note.nlink() > 0);
        is_noted && is_connected(self.index) && self.is_ours()
    }

    fn is_ours(&self) -> bool {
        backend_of(self.index).as_ref() == Some(&self.backend)
    }

    /// Linux compares identities only where the device has one: that of another program may have none.
    fn reconfigure(&self, order: &Order, action: &'static str) -> Result<(), NbdDeviceError> {
        if !self.is_ours() {
            return Err(NbdDeviceError::NotOurs(self.path()));
        }
        Driver::open()?.ask(command::RECONFIGURE, order).map_err(|error| refused(action, self.index, error))
    }

    /// Waits while another process detaches the device. After `patience` the detachment counts as broken off, and the note is
    /// moved back.
    pub fn await_detachment(&self, patience: Duration) {
        let (note, aside) = (note_path(&self.options.notes, self.index), note_aside(&self.options.notes, self.index));
        let end = Instant::now() + patience;
        while is_at(&self.note, &aside) && Instant::now() < end {
            thread::sleep(LOOK_AGAIN);
        }
        if is_at(&self.note, &aside)
            && let Err(error) = fs::rename(&aside, &note)
        {
            log::warn!("{}: {error}", aside.display());
        }
    }

    /// Removes the note of a device that another program has detached. Otherwise the next disk with this number would get the
    /// array's names.
    pub fn forget(self) {
        let path = note_path(&self.options.notes, self.index);
        if !self.is_attached() && is_at(&self.note, &path) {
            if let Err(error) = fs::remove_file(&path) {
                log::warn!("{}: {error}; remove it", path.display());
            }
            announce(self.index);
        }
    }

    /// Gives the device new connections in place of those that are lost. Working connections stay. If the array has been renamed,
    /// so is the device.
    ///
    /// # Errors
    /// The server cannot be reached, or has another export than before, or the kernel refuses.
    pub fn reconnect(&mut self, array: &NbdArray, target: &NbdTarget) -> Result<(), NbdDeviceError> {
        if !self.is_ours() {
            return Err(NbdDeviceError::NotOurs(self.path()));
        }
        let (sockets, offer) = connect(target, self.options.connections)?;
        let number = |name| attribute(self.index, name).and_then(|value| value.parse::<u64>().ok());
        if let Some(what) = difference(number, &offer) {
            return Err(NbdDeviceError::Different { path: self.path(), what });
        }
        let mut order = self.order(&sockets);
        // With a time-out of 0 Linux also checks requests only every 30 s, until it gets another time-out.
        if !self.requests_released {
            order.timeout_s = None;
        }
        // The handshake took its time.
        self.reconfigure(&order, "connect")?;
        if std::mem::take(&mut self.requests_released) {
            self.set_look_after();
        }
        match write_note(&self.options.notes, self.index, array, self.options.connections) {
            Ok(true) => announce(self.index),
            Ok(false) => {}
            // Its requests go on all the same.
            Err(error) => log::warn!("{error}; {} keeps its names", self.path().display()),
        }
        Ok(())
    }

    /// Makes Linux take back the requests of a lost connection before there is a new one. They are sent over the new one at once,
    /// and fail if none comes in time.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn release_requests(&mut self) -> Result<(), NbdDeviceError> {
        // Several connections do so by themselves.
        if self.options.connections > 1 || self.requests_released {
            return Ok(());
        }
        let order = Order { index: self.index, backend: Some(self.backend.clone()), timeout_s: Some(1), ..Order::default() };
        self.reconfigure(&order, "change")?;
        self.requests_released = true;
        Ok(())
    }

    /// The part of a message that all connections have in common. A time-out of 0: a single connection is never given up for a
    /// slow request.
    fn order(&self, sockets: &[OwnedFd]) -> Order {
        let timeout_s = match self.options.connections {
            ..=1 => 0,
            _ => self.options.timeout_s.unwrap_or(LOST_AFTER_S),
        };
        Order {
            index: self.index,
            timeout_s: Some(timeout_s),
            dead_connection_timeout_s: Some(self.options.dead_timeout_s),
            sockets: sockets.iter().map(AsRawFd::as_raw_fd).collect(),
            backend: Some(self.backend.clone()),
            ..Order::default()
        }
    }

    /// Sets the time after which Linux checks requests of a single connection. It waits for requests in flight first, so a thread
    /// does it.
    fn set_look_after(&self) {
        if self.options.connections > 1 {
            return;
        }
        let milliseconds = self.options.timeout_s.map_or(LOOK_AFTER_MS, |seconds| seconds.saturating_mul(1000)).to_string();
        let file = sysfs(self.index).join("queue/io_timeout");
        let set = move || {
            if let Err(error) = fs::write(&file, milliseconds) {
                log::warn!("{}: {error}; requests may wait 30 s longer than a restart of the server", file.display());
            }
        };
        if let Err(error) = thread::Builder::new().name("io-timeout".into()).spawn(set) {
            log::warn!("no thread for {}: {error}", self.path().display());
        }
    }
}

/// The kernel's reports of lost connections.
pub struct NbdWatch {
    driver: Driver<netlink_sys::Socket>,
}

impl NbdWatch {
    /// Begins to listen. Earlier losses are not reported.
    ///
    /// # Errors
    /// When the kernel has no driver or refuses.
    pub fn open() -> Result<Self, NbdDeviceError> {
        let mut driver = Driver::open()?;
        driver.listen()?;
        Ok(Self { driver })
    }

    /// Waits until the device has lost a connection, for at most `patience`. True if it has, or may have.
    ///
    /// # Errors
    /// When the kernel cannot be listened to.
    pub fn lost_connection(&self, device: &NbdDevice, patience: Duration) -> Result<bool, NbdDeviceError> {
        let lost = self.driver.lost_connection(patience).map_err(NbdDeviceError::Netlink)?;
        Ok(lost == Lost::Of(device.index) || lost == Lost::Unknown)
    }
}

/// Detaches an array from a device: requests of its users fail from now on.
///
/// # Errors
/// When it is not attached, has users and `force` is not given, or the kernel refuses.
pub fn detach(index: u32, uuid: &[u8; 16], notes: &Path, force: bool) -> Result<(), NbdDeviceError> {
    let path = path(index);
    let mut driver = Driver::open()?;
    let users = if force { Vec::new() } else { users(&path) };
    if !users.is_empty() {
        return Err(NbdDeviceError::InUse { path, users: users.join(", ") });
    }
    let order = Order { index, ..Order::default() };
    // Before, so that its watcher does not connect it again.
    let is_theirs = || array_of(index).as_ref() == Some(uuid);
    let disconnected = without_note(notes, index, is_theirs, || driver.ask(command::DISCONNECT, &order));
    disconnected.map_err(|error| refused("detach", index, error))?;
    announce(index);
    Ok(())
}

/// Moves a device's note aside, by which its watcher knows of the detachment, and disconnects the device. If the kernel refuses,
/// the note is moved back: it stays the file that the watcher has open. So it is if the device is another array's by now, since
/// the look for users takes its time, and Linux takes the number alone. `is_theirs`: the kernel's word on that. After a kill a
/// note may be missing, be of an earlier device, or be written in part.
fn without_note(
    notes: &Path,
    index: u32,
    is_theirs: impl FnOnce() -> bool,
    disconnect: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let (note, aside) = (note_path(notes, index), note_aside(notes, index));
    // Without a note it has no watcher.
    let _ = fs::rename(&note, &aside);
    let outcome = match is_theirs() {
        true => disconnect(),
        false => Err(io::Error::other("it was detached, or attached to another array, meanwhile")),
    };
    let _ = if outcome.is_ok() { fs::remove_file(&aside) } else { fs::rename(&aside, &note) };
    outcome
}

/// Where the note of a device is while it is detached.
fn note_aside(notes: &Path, index: u32) -> PathBuf {
    notes.join(format!(".nbd-{index}.detach"))
}

/// A device that Stria attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdEntry {
    /// N of `/dev/nbdN`.
    pub index: u32,
    /// The array's name, as in `/dev/stria`; empty if its note is lost.
    pub name: String,
    /// The array.
    pub uuid: [u8; 16],
}

/// The devices that Stria attached.
pub fn list(notes: &Path) -> Vec<NbdEntry> {
    let entry = |index| {
        let uuid = array_of(index)?;
        let name = Note::read(&note_path(notes, index)).filter(|note| note.uuid == uuid).map(|note| note.name);
        Some(NbdEntry { index, name: name.unwrap_or_default(), uuid })
    };
    indices().into_iter().filter_map(entry).collect()
}

/// The devices that an array is attached to.
pub fn devices_of(uuid: &[u8; 16]) -> Vec<PathBuf> {
    indices().into_iter().filter(|index| array_of(*index).as_ref() == Some(uuid)).map(path).collect()
}

/// The identity of the array behind a device that Stria attached.
fn array_of(index: u32) -> Option<[u8; 16]> {
    let backend = backend_of(index)?;
    let digits = backend.strip_prefix(BACKEND)?;
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

/// The number of `/dev/nbdN`, or of a link to it.
///
/// # Errors
/// When it is something else.
pub fn index_of(path: &Path) -> Result<u32, NbdDeviceError> {
    let number = |path: &Path| path.to_str()?.strip_prefix("/dev/nbd")?.parse().ok();
    let linked = || fs::canonicalize(path).ok().and_then(|path| number(&path));
    number(path).or_else(linked).ok_or_else(|| NbdDeviceError::NoDevice(path.to_owned()))
}

/// The mark of Stria's devices.
const BACKEND: &str = "stria-";

fn backend(uuid: &[u8; 16]) -> String {
    format!("{BACKEND}{:032x}", u128::from_be_bytes(*uuid))
}

fn path(index: u32) -> PathBuf {
    format!("/dev/nbd{index}").into()
}

fn sysfs(index: u32) -> PathBuf {
    format!("/sys/block/nbd{index}").into()
}

fn attribute(index: u32, name: &str) -> Option<String> {
    Some(fs::read_to_string(sysfs(index).join(name)).ok()?.trim_end().to_owned())
}

fn backend_of(index: u32) -> Option<String> {
    attribute(index, "backend")
}

fn is_connected(index: u32) -> bool {
    sysfs(index).join("pid").exists()
}

/// The devices that the kernel has made.
fn indices() -> Vec<u32> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut indices: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("nbd")?.parse().ok()).collect();
    indices.sort_unstable();
    indices
}

/// Devices without a server, and one that the kernel makes when it is asked for.
fn free() -> Vec<u32> {
    let known = indices();
    let next = known.last().map_or(0, |last| last.saturating_add(1));
    known.into_iter().filter(|index| !is_connected(*index)).chain([next]).collect()
}

/// Why the server's offer does not suit the device with these attributes, in words. A read-only device suits a writable server,
/// because `blockdev --setro` may have made it read-only.
fn difference(number: impl Fn(&'static str) -> Option<u64>, offer: &Offer) -> Option<String> {
    let is_read_only = offer.flags & transmission::READ_ONLY != 0;
    let differs = |name, unit, offered: u64| match number(name) {
        Some(own) if own == offered => None,
        Some(own) => Some(format!("its {name} is {own}{unit}, and the server offers {offered}")),
        None => Some(format!("its {name} cannot be read")),
    };
    differs("size", " sectors", offer.size_bytes / 512)
        .or_else(|| differs("queue/logical_block_size", " bytes", offer.block_bytes.into()))
        .or_else(|| if is_read_only { differs("ro", "", 1) } else { None })
}

fn announce(index: u32) {
    device_note::announce(&format!("nbd{index}"));
}

fn note_path(notes: &Path, index: u32) -> PathBuf {
    Note::path(notes, "nbd", index)
}

/// True if the path leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    file.metadata().is_ok_and(|own| fs::metadata(path).is_ok_and(|found| place(found) == place(own)))
}

/// The device's note, locked. `None`: another process has it.
fn take_note(notes: &Path, index: u32) -> Result<Option<File>, NbdDeviceError> {
    let path = note_path(notes, index);
    let failed = |source| file_error(&path, source);
    fs::create_dir_all(notes).map_err(failed)?;
    loop {
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            // A note that was removed meanwhile does not count: another process may have made a new one.
            Ok(()) if file.metadata().map_err(failed)?.nlink() > 0 => return Ok(Some(file)),
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// The key of a note that says how many connections a device has, which Linux does not say.
const CONNECTIONS: &str = "STRIA_CONNECTIONS=";

/// Writes the note of a device. True if it had another name before.
fn write_note(notes: &Path, index: u32, array: &NbdArray, connections: usize) -> Result<bool, NbdDeviceError> {
    let path = note_path(notes, index);
    let note = Note { uuid: array.uuid, name: array.name.clone() };
    note.renames(&path, &format!("{CONNECTIONS}{connections}\n"), overwrite).map_err(|source| file_error(&path, source))
}

/// Connects a device whose note is locked, with the note written before, so that udev finds it. If that fails, the note is as
/// before: the device may be another array's.
fn noted(
    notes: &Path,
    index: u32,
    array: &NbdArray,
    connections: usize,
    connect: impl FnOnce() -> io::Result<()>,
) -> Result<io::Result<()>, NbdDeviceError> {
    let path = note_path(notes, index);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let written = write_note(notes, index, array, connections);
    let connected = written.map(|_| connect());
    if !matches!(connected, Ok(Ok(()))) {
        let _ = if before.is_empty() { fs::remove_file(&path) } else { overwrite(&path, &before) };
    }
    connected
}

/// How a device is treated of which nobody knows how many connections it has: no request counts as lost too early.
const SEVERAL: usize = 2;

/// # Errors
/// What is not known, and what follows.
fn noted_connections(note: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(note).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(CONNECTIONS)?.parse().ok()).ok_or_else(|| {
        let path = note.display();
        format!(
            "its note {path} is missing or written in part, perhaps as a process was killed: it counts as a device with several \
             connections, whose requests wait longer after a restart; detach it and attach the array again"
        )
    })
}

fn file_error(path: &Path, source: io::Error) -> NbdDeviceError {
    NbdDeviceError::File { path: path.to_owned(), source }
}

fn refused(action: &'static str, index: u32, source: io::Error) -> NbdDeviceError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM | Errno::ACCESS) => NbdDeviceError::NotAllowed(action),
        _ => NbdDeviceError::Refused { action, path: path(index), source },
    }
}

/// A stream to a server.
trait Stream: Read + Write + Into<OwnedFd> {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(patience).and_then(|()| self.set_write_timeout(patience))
    }
}

impl Stream for TcpStream {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(patience).and_then(|()| self.set_write_timeout(patience))
    }
}

/// Makes this many connections and their handshakes. Returns also the server's offer on the last one.
fn connect(target: &NbdTarget, count: usize) -> Result<(Vec<OwnedFd>, Offer), NbdDeviceError> {
    let mut sockets = Vec::new();
    loop {
        let outcome = match &target.address {
            Listener::Unix(path) => UnixStream::connect(path).map_err(Refusal::Io).and_then(|socket| greeted(socket, target)),
            Listener::Tcp(address) => {
                let mut address = *address;
                match address.ip() {
                    IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
                    IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
                    _ => {}
                }
                let socket = TcpStream::connect_timeout(&address, HANDSHAKE);
                let socket = socket.and_then(|socket| socket.set_nodelay(true).map(|()| socket));
                socket.map_err(Refusal::Io).and_then(|socket| greeted(socket, target))
            }
        };
        let address = || target.address.to_string();
        let (socket, offer) = outcome.map_err(|refusal| match refusal {
            Refusal::Io(source) => NbdDeviceError::Unreachable { address: address(), source },
            Refusal::Declined(reason) => NbdDeviceError::Declined { address: address(), export: target.export.clone(), reason },
        })?;
        sockets.push(socket);
        if sockets.len() >= count {
            return Ok((sockets, offer));
        }
    }
}

fn greeted(mut socket: impl Stream, target: &NbdTarget) -> Result<(OwnedFd, Offer), Refusal> {
    socket.set_patience(Some(HANDSHAKE))?;
    let offer = negotiate(&mut socket, &target.export)?;
    // Linux waits on it without limit.
    socket.set_patience(None)?;
    Ok((socket.into(), offer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: after `nbd-client -d` the note stayed, and another disk with this number was called /dev/stria/tank.
    #[test]
    fn the_note_of_a_device_that_is_gone_is_removed_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = folder.path();
        let array = NbdArray { uuid: [7; 16], name: "tank".into() };
        // A number that no machine has.
        let index = 40_000_001;
        let watched = || {
            let note = take_note(notes, index).expect("a folder").expect("it is free");
            write_note(notes, index, &array, 1).expect("written");
            let options = NbdDeviceOptions { connections: 1, timeout_s: None, dead_timeout_s: 1, notes: notes.to_owned() };
            NbdDevice { index, backend: backend(&array.uuid), options, note, requests_released: false }
        };
        let device = watched();
        assert!(!device.is_attached() && note_path(notes, index).exists());
        device.forget();
        assert!(!note_path(notes, index).exists());
        let device = watched();
        fs::remove_file(note_path(notes, index)).expect("it is there");
        let _other = watched();
        device.forget();
        assert!(note_path(notes, index).exists(), "another process attached an array there meanwhile");
    }

    /// Bug: the note was another file after a detachment that failed, so the watcher ended, and nothing connected the device
    /// again.
    #[test]
    fn a_device_that_is_not_detached_after_all_keeps_its_watcher() {
        let folder = tempfile::tempdir().expect("a folder");
        let (notes, index) = (folder.path(), 40_000_002);
        let array = NbdArray { uuid: [7; 16], name: "tank".into() };
        let note = take_note(notes, index).expect("a folder").expect("it is free");
        write_note(notes, index, &array, 1).expect("written");
        let options = NbdDeviceOptions { connections: 1, timeout_s: None, dead_timeout_s: 1, notes: notes.to_owned() };
        let device = NbdDevice { index, backend: backend(&array.uuid), options, note, requests_released: false };
        let is_noted = || is_at(&device.note, &note_path(notes, index));
        let failed = without_note(
            notes,
            index,
            || true,
            || {
                assert!(!is_noted() && device.note.metadata().expect("it is open").nlink() > 0, "it is on its way");
                device.await_detachment(Duration::ZERO);
                assert!(is_noted(), "a detachment that takes too long is none");
                Err(Errno::INVAL.into())
            },
        );
        assert!(failed.is_err() && is_noted());
        without_note(notes, index, || true, || Err(Errno::INVAL.into())).expect_err("it fails");
        assert!(is_noted() && Note::read(&note_path(notes, index)).is_some());
        // Bug: another process detached the array and attached another one, which was then disconnected.
        without_note(notes, index, || false, || unreachable!("it is another array's")).expect_err("it is refused");
        assert!(is_noted());
        without_note(notes, index, || true, || Ok(())).expect("it is detached");
        assert_eq!(device.note.metadata().expect("it is open").nlink(), 0, "its watcher ends");
        without_note(notes, index, || true, || Ok(())).expect("a device without a note is detached, too");
        // Bug: without a note, or with one in part, the number alone decided; and a note that a killed process had moved aside
        // kept the next array's device from being detached.
        without_note(notes, index, || false, || unreachable!("it is another array's")).expect_err("it is refused");
        fs::write(note_aside(notes, index), format!("STRIA_UUID={}\nSTRIA_NAME=old\n", "08".repeat(16))).expect("written");
        without_note(notes, index, || true, || Ok(())).expect("it is detached");
    }

    /// Bug: each reconnection wrote the note anew, and a process that was killed meanwhile left it empty.
    #[test]
    fn a_note_is_written_when_it_changes_and_is_never_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = folder.path();
        let path = note_path(notes, 5);
        let tank = NbdArray { uuid: [7; 16], name: "a long name".into() };
        assert!(!write_note(notes, 5, &tank, 4).expect("written"));
        let locked = take_note(notes, 5).expect("a folder").expect("it is free");
        let old = std::time::SystemTime::UNIX_EPOCH;
        locked.set_modified(old).expect("it may");
        assert!(!write_note(notes, 5, &tank, 4).expect("it is there"));
        assert_eq!(locked.metadata().and_then(|note| note.modified()).expect("a time"), old, "it is left alone");
        assert!(write_note(notes, 5, &NbdArray { name: "tank".into(), ..tank.clone() }, 4).expect("written"));
        assert!(is_at(&locked, &path), "the lock is on it");
        let text = fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, format!("STRIA_UUID={}\nSTRIA_NAME=tank\nSTRIA_CONNECTIONS=4\n", "07".repeat(16)));
        // A process that is killed before it cuts the rest off.
        fs::write(&path, text.clone() + "ANECTIONS=4\n").expect("written");
        assert_eq!((Note::read(&path).expect("a note").name.as_str(), noted_connections(&path)), ("tank", Ok(4)));
        fs::write(&path, &text[..text.len() - 4]).expect("written");
        assert!(noted_connections(&path).expect_err("it is cut off").contains("written in part"));
        device_note::replace(&path, &text).expect("written");
        assert!(!is_at(&locked, &path) && fs::read_dir(notes).expect("a folder").count() == 1, "nothing is left beside it");
    }

    /// Bug: `blockdev --setro` kept a device from being connected again for ever.
    #[test]
    fn a_device_suits_an_offer_that_does_what_it_needs() {
        let offer = |flags| Offer { size_bytes: 1 << 20, flags, block_bytes: 512 };
        let device = |size, block, ro| {
            move |name| {
                [("size", size), ("queue/logical_block_size", block), ("ro", ro)]
                    .into_iter()
                    .find(|(own, _)| *own == name)
                    .map(|(_, value)| value)
            }
        };
        let (writable, read_only) = (offer(0), offer(transmission::READ_ONLY));
        assert_eq!(difference(device(2048, 512, 0), &writable), None);
        assert_eq!(difference(device(2048, 512, 1), &writable), None);
        assert_eq!(difference(device(2048, 512, 1), &read_only), None);
        let told = |device: &dyn Fn(&'static str) -> Option<u64>, offer| difference(device, offer).expect("it differs");
        assert_eq!(told(&device(2048, 512, 0), &read_only), "its ro is 0, and the server offers 1");
        assert_eq!(told(&device(2049, 512, 0), &writable), "its size is 2049 sectors, and the server offers 2048");
        assert_eq!(
            told(&device(2048, 4096, 0), &writable),
            "its queue/logical_block_size is 4096 bytes, and the server offers 512"
        );
        assert_eq!(told(&|_| None, &writable), "its size cannot be read");
    }

    #[test]
    fn a_device_that_cannot_be_connected_keeps_the_note_of_its_array() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = folder.path();
        let array = |name: &str| NbdArray { uuid: [name.len() as u8; 16], name: name.to_owned() };
        let busy = || Err(Errno::BUSY.into());
        let locked = take_note(notes, 3).expect("a folder").expect("it is free");
        assert!(noted(notes, 3, &array("new"), 1, busy).expect("written").is_err());
        assert!(!note_path(notes, 3).exists(), "a device of no array has none");
        drop(locked);
        let _locked = take_note(notes, 3).expect("a folder").expect("it is free");
        noted(notes, 3, &array("tank"), 4, || Ok(())).expect("written").expect("connected");
        assert!(noted(notes, 3, &array("other"), 1, busy).expect("written").is_err());
        let note = Note::read(&note_path(notes, 3)).expect("a note");
        assert_eq!((&*note.name, noted_connections(&note_path(notes, 3))), ("tank", Ok(4)));
    }

    /// Bug: the device of another program that had its number was given the array's connections.
    #[test]
    fn the_device_of_another_program_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (notes, index) = (folder.path(), 40_000_003);
        let array = NbdArray { uuid: [7; 16], name: "tank".into() };
        let note = take_note(notes, index).expect("a folder").expect("it is free");
        let options = NbdDeviceOptions { connections: 1, timeout_s: None, dead_timeout_s: 1, notes: notes.to_owned() };
        // The kernel says nothing of an array behind this number.
        let mut device = NbdDevice { index, backend: backend(&array.uuid), options, note, requests_released: false };
        let target = NbdTarget { address: Listener::Unix(folder.path().join("nobody")), export: "tank".into() };
        let told = [device.reconnect(&array, &target), device.release_requests()];
        assert!(told.iter().all(|told| matches!(told, Err(NbdDeviceError::NotOurs(_)))), "{told:?}");
        assert!(!device.requests_released);
    }
}
