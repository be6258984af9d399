//! Disks of virtual machines: a vhost-user-blk server on unix sockets.
//!
//! ```text
//!   vhost_user     a socket, and the one front-end (a VMM) that it serves at a time
//!     ├ frontend   its messages, on a thread of its own
//!     ├ queue      a running queue, an on-lane client: rings in, requests out, completions in, rings out
//!     ├ inflight   memory that tells the next server what to do again
//!     ├ command    requests of the driver, checked                                 (pure)
//!     ├ chain      descriptor chains in memory that nobody can trust               (pure)
//!     └ config     feature bits and the configuration space                        (pure)
//! ```
//!
//! The virtual machine's memory is hostile: invalid content ends in an error for its driver. The front-end is trusted with more,
//! since it shares memory with this process: it can truncate that memory, which ends the process as a kill would. So a socket
//! belongs to its user alone unless a group is named.

mod chain;
mod command;
mod config;
mod frontend;
mod inflight;
mod queue;

use crate::apart::{self, Wake};
use crate::budget::Budget;
use crate::connection::ConnectionStatus;
use crate::socket_file::{SocketAccess, SocketError, SocketFile};
use crate::talk::Talk;
use crate::{FrontError, Listener};
use config::{Facts, QUEUES_MAX};
use frontend::Frontend;
use log::Level;
use queue::{Common, Line};
use std::fmt;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stria_block::RemoteDevice;
use vhost::vhost_user::{BackendReqHandler, Error};

/// 128 MiB: memory for the requests of one front-end. Half is divided among its queues, half is lent to those that need more.
const BYTES_MAX: usize = 128 << 20;

/// A device as the disk of a virtual machine.
#[derive(Clone)]
pub struct VhostUserDisk {
    /// For messages and `status`.
    pub name: String,
    /// The disk's serial number for the driver, which takes 20 bytes of it.
    pub serial: String,
    /// The device that serves the requests.
    pub device: Arc<dyn RemoteDevice>,
    /// True if writes, discards and zeroes are refused.
    pub read_only: bool,
}

impl fmt::Debug for VhostUserDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VhostUserDisk").field("name", &self.name).field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

/// A disk at a unix socket. It serves one front-end at a time; others wait until that one has left. Dropping it stops it.
pub struct VhostUserServer {
    shared: Arc<Shared>,
    path: PathBuf,
    access: SocketAccess,
    open: Mutex<Option<Open>>,
}

/// A socket that front-ends can connect to, and the thread that serves them.
struct Open {
    file: Arc<SocketFile>,
    thread: JoinHandle<()>,
}

struct Shared {
    disk: VhostUserDisk,
    talk: Arc<Talk>,
    stop: AtomicBool,
    wake: Wake,
    client: Mutex<Option<Client>>,
    client_count: AtomicU64,
}

/// The front-end that is served.
struct Client {
    id: u64,
    socket: UnixStream,
    common: Arc<Common>,
}

impl VhostUserServer {
    /// Checks that a socket could be made at `path` now. That of a dead server is removed.
    ///
    /// # Errors
    /// When it could not.
    pub fn check(path: &Path) -> Result<(), FrontError> {
        SocketFile::check(path).map_err(|source| refused(path, source))
    }

    /// A disk that no front-end reaches yet.
    ///
    /// # Errors
    /// When the system refuses what it needs.
    pub fn prepare(path: PathBuf, access: SocketAccess, disk: VhostUserDisk) -> Result<Self, FrontError> {
        let wake = Wake::new().map_err(|source| FrontError::System { action: "make an eventfd", source })?;
        let shared = Arc::new(Shared {
            disk,
            talk: Arc::default(),
            stop: AtomicBool::new(false),
            wake,
            client: Mutex::new(None),
            client_count: AtomicU64::new(0),
        });
        Ok(Self { shared, path, access, open: Mutex::new(None) })
    }

    /// Lets front-ends connect. From now on there is a socket file. Harmless if repeated.
    ///
    /// # Errors
    /// When the path cannot be listened on.
    pub fn listen(&self) -> Result<(), FrontError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_some() || self.shared.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        let file = SocketFile::listen(&self.path, self.access).map_err(|source| refused(&self.path, source))?;
        let file = Arc::new(file);
        let thread = thread::Builder::new().name("vhost-user".into()).spawn({
            let (shared, file) = (Arc::clone(&self.shared), Arc::clone(&file));
            move || shared.accept(&file)
        });
        let thread = thread.map_err(|source| FrontError::System { action: "start a thread", source })?;
        *open = Some(Open { file, thread });
        Ok(())
    }

    /// The path of its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its disk.
    pub fn name(&self) -> &str {
        &self.shared.disk.name
    }

    /// The present front-end.
    pub fn connection(&self) -> Option<ConnectionStatus> {
        self.shared.lock().as_ref().map(|client| client.status(&self.shared.disk.name))
    }

    /// Accepts no further front-end, for good: when this returns, the socket file is gone. The present one stays.
    pub fn close(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake.ring();
        if let Some(open) = &*self.open.lock().unwrap_or_else(PoisonError::into_inner) {
            open.file.remove();
        }
    }

    /// Closes, and ends the front-end's connection. What the device has runs to its end first, for at most ten seconds; the rest
    /// is done again by the next server.
    pub fn stop(&self) {
        self.close();
        if let Some(client) = &*self.shared.lock() {
            client.common.closing.store(true, Ordering::SeqCst);
            client.common.poke();
            // The thread that waits for its messages notices. Fails if the front-end has closed, which it notices as well.
            let _ = client.socket.shutdown(Shutdown::Both);
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        if open.is_some_and(|open| open.thread.join().is_err()) {
            log::error!("the thread of a vhost-user socket panicked");
        }
    }
}

impl Drop for VhostUserServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn refused(path: &Path, source: SocketError) -> FrontError {
    FrontError::Socket { listener: Listener::Unix(path.to_owned()).to_string(), source }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, file: &SocketFile) {
        while !self.stop.load(Ordering::SeqCst) {
            match file.listener().accept() {
                Ok((socket, _)) => self.serve(socket),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if apart::sleep(&self.wake, file.listener().as_fd(), true, false, None).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let path = file.path().display();
                    self.talk.say(Level::Warn, format_args!("cannot accept vhost-user clients on {path}: {error}; trying again"));
                    let _ = apart::sleep(&self.wake, file.listener().as_fd(), false, false, Some(Duration::from_millis(100)));
                }
            }
        }
    }

    fn serve(&self, socket: UnixStream) {
        let id = self.client_count.fetch_add(1, Ordering::Relaxed) + 1;
        let peer = rustix::net::sockopt::socket_peercred(&socket).map_or_else(
            |_| "an unknown process".to_owned(),
            |peer| format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw()),
        );
        let name = &self.disk.name;
        let (frontend, messages) = match self.welcome(id, &peer, socket) {
            Ok(client) => client,
            Err(error) => {
                return self.talk.say(Level::Warn, format_args!("vhost-user client {peer} was refused: {error}"));
            }
        };
        self.talk.say(Level::Info, format_args!("vhost-user client {id} ({peer}) uses disk \"{name}\""));
        let ended = catch_unwind(AssertUnwindSafe(|| listen_to(messages)));
        // Waits for its queues.
        drop(frontend);
        *self.lock() = None;
        match ended {
            Ok(Error::Disconnected) => self.talk.say(Level::Info, format_args!("vhost-user client {id} ({peer}) ended")),
            Ok(_) if self.stop.load(Ordering::SeqCst) => {}
            Ok(error) => {
                self.talk.say(Level::Warn, format_args!("vhost-user client {id} ({peer}) was disconnected: {error}"));
            }
            Err(_) => log::error!("vhost-user client {id} ({peer}) was disconnected by an error of ours (a panic, see above)"),
        }
    }

    fn welcome(
        &self,
        id: u64,
        peer: &str,
        socket: UnixStream,
    ) -> std::io::Result<(Arc<Mutex<Frontend>>, BackendReqHandler<Mutex<Frontend>>)> {
        // Accepted sockets do not inherit the mode, but say so.
        socket.set_nonblocking(false)?;
        let disk = &self.disk;
        let facts = Facts { limits: disk.device.limits(), read_only: disk.read_only, serial: disk.serial.clone() };
        let lines = (0..QUEUES_MAX).map(|_| Line::new()).collect::<std::io::Result<Vec<_>>>()?;
        let (budget, share) = (Budget::new(BYTES_MAX / 2), BYTES_MAX / 2 / usize::from(QUEUES_MAX));
        let common = Arc::new(Common::new(facts, &disk.device, peer.to_owned(), Arc::clone(&self.talk), budget, share, lines));
        let frontend = Arc::new(Mutex::new(Frontend::new(Arc::clone(&common), Arc::clone(&disk.device))));
        let messages = BackendReqHandler::from_stream(socket.try_clone()?, Arc::clone(&frontend));
        let mut client = self.lock();
        if self.stop.load(Ordering::SeqCst) {
            return Err(std::io::Error::other("the server stops"));
        }
        *client = Some(Client { id, socket, common });
        Ok((frontend, messages))
    }
}

/// Handles messages until the connection ends. Returns the reason.
fn listen_to(mut messages: BackendReqHandler<Mutex<Frontend>>) -> Error {
    loop {
        if let Err(error) = messages.handle_request() {
            return error;
        }
    }
}

impl Client {
    fn status(&self, name: &str) -> ConnectionStatus {
        let sum = |counter: fn(&queue::Counters) -> &AtomicU64| {
            self.common.queues.iter().map(|line| counter(&line.counters).load(Ordering::Relaxed)).sum()
        };
        ConnectionStatus {
            id: self.id,
            peer: format!("{} by vhost-user", self.common.peer),
            export: Some(name.to_owned()),
            tls: false,
            requests: sum(|counters| &counters.requests),
            errors: sum(|counters| &counters.errors),
            read_bytes: sum(|counters| &counters.read_bytes),
            written_bytes: sum(|counters| &counters.written_bytes),
            in_flight: sum(|counters| &counters.in_flight),
        }
    }
}
