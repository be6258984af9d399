//! The server: listeners, exports, and the list of clients.
//!
//! One thread accepts; each client agrees on its export on a thread of its own, so that no client can hold up another,
//! and then moves in with the device, or stays apart where that takes no guests. The lists are behind one lock that is
//! taken when a client comes, agrees on an export, or goes, never for a request.

use crate::connection::{Connection, ConnectionStatus, Wake};
use crate::export::{Export, Facts};
use crate::wire::STRING_BYTES_MAX;
use crate::{FrontError, nbd_uri};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use stria_block::RemoteDevice;

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A unix socket at this path. It is made at the start and removed at the end.
    Unix(PathBuf),
    /// A TCP socket at this address; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Unix(path) => write!(f, "unix:{}", path.display()),
            Listener::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Bounds on what clients may take. A client's memory is at most about twice `bytes_in_flight_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Clients at a time; further ones are turned away.
    pub connections_max: usize,
    /// Largest read or write; told to clients. A multiple of 4096.
    pub request_bytes_max: u32,
    /// Requests of one client at a time; beyond, its socket is not read.
    pub requests_in_flight_max: usize,
    /// Payload bytes of one client's requests at a time; beyond, its socket is not read.
    pub bytes_in_flight_max: usize,
    /// How long a client may take to agree on an export.
    pub handshake_timeout: Duration,
    /// How long a client that ends, or is ended, may take over the replies it has coming.
    pub drain_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 128,
            request_bytes_max: 32 << 20,
            requests_in_flight_max: 1024,
            bytes_in_flight_max: 64 << 20,
            handshake_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), FrontError> {
        let request_bytes = u64::from(self.request_bytes_max);
        let request_rule = "a multiple of 4096 from 65536 to 1073741824";
        let request_fits = request_bytes % 4096 == 0 && (64 << 10..=1 << 30).contains(&request_bytes);
        let bytes = self.bytes_in_flight_max as u64;
        [
            ("connections_max", self.connections_max as u64, "at least 1", self.connections_max > 0),
            ("request_bytes_max", request_bytes, request_rule, request_fits),
            ("requests_in_flight_max", self.requests_in_flight_max as u64, "at least 1", self.requests_in_flight_max > 0),
            ("bytes_in_flight_max", bytes, "at least request_bytes_max", bytes >= request_bytes),
        ]
        .into_iter()
        .try_for_each(|(option, value, rule, holds)| holds.then_some(()).ok_or(FrontError::Options { option, value, rule }))
    }
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Listens, and serves the exports until the handle is stopped or dropped.
    ///
    /// # Errors
    /// When a listener, an export or an option does not do; then nothing listens.
    pub fn start(listeners: Vec<Listener>, exports: Vec<Export>, options: Options) -> Result<ServerHandle, FrontError> {
        options.check()?;
        let system = |action| move |source| FrontError::System { action, source };
        let shared = Arc::new(Shared {
            options,
            registry: Mutex::default(),
            connection_ended: Condvar::new(),
            stop: AtomicBool::new(false),
            wake: Wake::new().map_err(system("make an eventfd"))?,
        });
        for export in exports {
            shared.add(export)?;
        }
        let doors = listeners.iter().map(Door::open).collect::<Result<Vec<_>, _>>()?;
        let listeners = doors.iter().map(|door| door.listener.clone()).collect();
        let acceptor = thread::Builder::new().name("nbd-accept".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&doors)
        });
        let acceptor = Some(acceptor.map_err(system("start a thread"))?);
        Ok(ServerHandle { shared, listeners, acceptor })
    }
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    acceptor: Option<thread::JoinHandle<()>>,
}

impl ServerHandle {
    /// Where it listens, with the ports that the system chose.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// How clients reach an export, one URI for each listener.
    pub fn uris(&self, export: &str) -> Vec<String> {
        self.listeners.iter().map(|listener| nbd_uri(listener, export)).collect()
    }

    /// Names of the exports, the default first.
    pub fn exports(&self) -> Vec<String> {
        self.shared.facts().iter().map(|facts| facts.name.clone()).collect()
    }

    /// Offers one more export.
    ///
    /// # Errors
    /// When the name is taken or too long.
    pub fn add_export(&self, export: Export) -> Result<(), FrontError> {
        self.shared.add(export)
    }

    /// Withdraws an export: its clients' requests are carried out, then they are disconnected. On return
    /// the server does not use the device any more.
    ///
    /// # Errors
    /// When there is no such export.
    pub fn remove_export(&self, name: &str) -> Result<(), FrontError> {
        let mut registry = self.shared.lock();
        let Some(index) = registry.exports.iter().position(|served| served.facts.name == name) else {
            let known = registry.exports.iter().map(|served| served.facts.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(FrontError::UnknownExport { name: name.into(), known });
        };
        registry.exports.remove(index);
        self.shared.end_connections(registry, |connection| connection.export.get().is_some_and(|used| used == name));
        Ok(())
    }

    /// The clients of this moment.
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.shared.lock().connections.iter().map(|connection| connection.status()).collect()
    }

    /// Stops listening, lets every client's requests end, and disconnects them.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake.ring();
        if let Some(acceptor) = self.acceptor.take()
            && acceptor.join().is_err()
        {
            log::error!("the NBD accept thread panicked");
        }
        self.shared.end_connections(self.shared.lock(), |_| true);
        // The last threads may hold `shared` a moment longer; the devices are free now.
        self.shared.lock().exports.clear();
    }
}

/// An export and what is said of it.
struct Served {
    facts: Arc<Facts>,
    device: Arc<dyn RemoteDevice>,
}

#[derive(Default)]
struct Registry {
    exports: Vec<Served>,
    connections: Vec<Arc<Connection>>,
    connection_count: u64,
}

/// What the server's threads share.
pub(crate) struct Shared {
    pub options: Options,
    registry: Mutex<Registry>,
    connection_ended: Condvar,
    stop: AtomicBool,
    wake: Wake,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to choose from at this moment.
    pub fn facts(&self) -> Vec<Arc<Facts>> {
        self.lock().exports.iter().map(|served| Arc::clone(&served.facts)).collect()
    }

    /// The device of an export that a client has agreed on; `None`: it was removed meanwhile.
    pub fn attach(&self, connection: &Connection, facts: &Arc<Facts>) -> Option<Arc<dyn RemoteDevice>> {
        let registry = self.lock();
        let served = registry.exports.iter().find(|served| Arc::ptr_eq(&served.facts, facts))?;
        connection.export.get_or_init(|| facts.name.clone());
        Some(Arc::clone(&served.device))
    }

    fn add(&self, export: Export) -> Result<(), FrontError> {
        let len = export.name.len().max(export.description.len());
        if len > STRING_BYTES_MAX {
            return Err(FrontError::LongExport { len, max: STRING_BYTES_MAX });
        }
        let facts = Arc::new(Facts::of(&export, self.options.request_bytes_max));
        let mut registry = self.lock();
        if registry.exports.iter().any(|served| served.facts.name == export.name) {
            return Err(FrontError::DuplicateExport { name: export.name });
        }
        registry.exports.push(Served { facts, device: export.device });
        Ok(())
    }

    /// Stops the chosen connections and waits until their threads have ended. Each does within the drain time-out.
    fn end_connections(&self, mut registry: MutexGuard<'_, Registry>, chosen: impl Fn(&Connection) -> bool) {
        registry.connections.iter().filter(|connection| chosen(connection)).for_each(|connection| connection.stop());
        while registry.connections.iter().any(|connection| chosen(connection)) {
            registry = self.connection_ended.wait(registry).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn accept(self: &Arc<Self>, doors: &[Door]) {
        while !self.stop.load(Ordering::SeqCst) {
            let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
            fds.extend(doors.iter().map(|door| PollFd::new(door, PollFlags::IN)));
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            for (door, _) in doors.iter().zip(ready).filter(|(_, ready)| *ready) {
                match door.accept() {
                    Ok((socket, peer)) => self.welcome(socket, peer),
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {}
                    Err(error) => {
                        log::warn!("cannot accept NBD clients on {}: {error}; trying again", door.listener);
                        let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&pause));
                    }
                }
            }
        }
    }

    fn welcome(self: &Arc<Self>, socket: OwnedFd, peer: String) {
        let mut registry = self.lock();
        if registry.connections.len() >= self.options.connections_max {
            let max = self.options.connections_max;
            log::warn!("NBD client {peer} was turned away: {max} clients are connected, and connections_max is {max}");
            return;
        }
        registry.connection_count += 1;
        let id = registry.connection_count;
        let connection = match Connection::new(id, peer) {
            Ok(connection) => Arc::new(connection),
            Err(error) => return log::warn!("NBD client {id} was turned away: no eventfd for it: {error}"),
        };
        registry.connections.push(Arc::clone(&connection));
        drop(registry);
        // Takes the connection off the list when dropped: at the thread's end, on its panic, or if it cannot start.
        let entry = Entry { shared: Arc::clone(self), connection };
        let thread = thread::Builder::new().name(format!("nbd-{id}")).stack_size(256 << 10);
        if let Err(error) = thread.spawn(move || Connection::serve(entry, socket)) {
            log::warn!("NBD client {id} was turned away: no thread for it: {error}");
        }
    }
}

/// A connection's place in the list, held by whoever serves it.
pub(crate) struct Entry {
    pub shared: Arc<Shared>,
    pub connection: Arc<Connection>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.lock().connections.retain(|other| !Arc::ptr_eq(other, &self.connection));
        self.shared.connection_ended.notify_all();
    }
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A listening socket; a unix one takes its file along when it goes.
struct Door {
    socket: Socket,
    listener: Listener,
    /// Device and inode of the socket's file, so that no other file is removed in its stead.
    file: Option<(u64, u64)>,
}

impl Door {
    fn open(listener: &Listener) -> Result<Self, FrontError> {
        let failed = |source| FrontError::Bind { listener: listener.to_string(), source };
        let door = match listener {
            Listener::Unix(path) => {
                remove_stale(path)?;
                let socket = UnixListener::bind(path).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                let file = fs::symlink_metadata(path).map_err(failed)?;
                Self { socket: Socket::Unix(socket), listener: listener.clone(), file: Some((file.dev(), file.ino())) }
            }
            Listener::Tcp(address) => {
                let socket = TcpListener::bind(address).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                let listener = Listener::Tcp(socket.local_addr().map_err(failed)?);
                Self { socket: Socket::Tcp(socket), listener, file: None }
            }
        };
        Ok(door)
    }

    fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match &self.socket {
            Socket::Unix(socket) => {
                let (stream, _) = socket.accept()?;
                stream.set_nonblocking(true)?;
                let socket = OwnedFd::from(stream);
                // A hint: a larger buffer takes the replies of a deep queue in one send.
                let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
                let peer = sockopt::socket_peercred(&socket)?;
                Ok((socket, format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw())))
            }
            Socket::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let socket = OwnedFd::from(stream);
                // So that a client whose machine vanished is noticed, within some minutes.
                sockopt::set_socket_keepalive(&socket, true)?;
                sockopt::set_tcp_keepidle(&socket, Duration::from_secs(60))?;
                Ok((socket, address.to_string()))
            }
        }
    }
}

/// 1 MiB: the replies of 128 reads of 4 KiB, with the kernel's own overhead.
const SEND_BUFFER_BYTES: usize = 1 << 20;

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Listener::Unix(path) = &self.listener
            && fs::symlink_metadata(path).is_ok_and(|file| Some((file.dev(), file.ino())) == self.file)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the socket of a server that was killed; leaves one that answers, and anything else.
fn remove_stale(path: &Path) -> Result<(), FrontError> {
    let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        return Err(FrontError::NotASocket { path: path.into() });
    }
    if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = fs::remove_file(path);
    }
    Ok(())
}
