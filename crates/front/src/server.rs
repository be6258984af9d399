//! The server: listeners, exports, and the list of clients.
//!
//! One thread accepts clients. Each client agrees on its export on a thread of its own, so that no client can delay another.
//! Then it moves to the device's thread, or stays on its own if the device takes no on-lane clients. One lock protects the lists;
//! it is taken when a client connects, agrees on an export, or leaves, never for a request.

use crate::apart::Wake;
use crate::budget::{Budget, Lease};
use crate::connection::{Connection, ConnectionStatus};
use crate::door::{Closed, Door, Inherited, Origin, Peer};
use crate::export::{Export, Facts};
use crate::handshake::Security;
use crate::session::STAGING_BYTES;
use crate::socket_file::SocketAccess;
use crate::talk::Talk;
use crate::tls::TlsConfig;
use crate::wire::STRING_BYTES_MAX;
use crate::{FrontError, nbd_uri};
use ipnet::IpNet;
use log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use stria_block::{Pool, RemoteDevice};

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A unix socket at this path. It is made when the server listens and removed when it stops.
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

/// Bounds on what clients may use. The memory of all clients together is at most `bytes_max`, and some 64 KiB more for each
/// connection and handshake (with TLS 300 KiB); the kernel's socket buffers come on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Clients at a time that have agreed on an export. If all places are taken, a new client takes that of a client which has
    /// never sent a request, or is refused. A client that has sent one is never closed for another.
    pub connections_max: usize,
    /// Such clients of one peer, which is a user of this machine, an IPv4 address or an IPv6 network. The other places are for
    /// other peers.
    pub peer_connections_max: usize,
    /// Clients at a time that have not agreed yet. Another one takes the place of the oldest of the peer that has most.
    pub handshakes_max: usize,
    /// Memory for requests and replies of all clients together. Half of it is divided into `connections_max` shares, one for
    /// each client; the other half is lent to clients that need more.
    pub bytes_max: usize,
    /// Largest read or write, as announced to clients. A multiple of 4096.
    pub request_bytes_max: u32,
    /// Requests of one client at a time; beyond that its socket is not read.
    pub requests_in_flight_max: usize,
    /// Bytes of one client's requests at a time; beyond that its socket is not read.
    pub bytes_in_flight_max: usize,
    /// How long a client may take to agree on an export.
    pub handshake_timeout: Duration,
    /// A client that has replies to take, or a write to finish, and moves less than 1 MiB in this time is closed. A client
    /// without open requests may be silent for ever.
    pub stall_timeout: Duration,
    /// How long a client that ends, or is ended, may take to read its last replies.
    pub drain_timeout: Duration,
    /// Which users may connect to unix sockets.
    pub socket_access: SocketAccess,
    /// The server's certificate, and whether clients must show one. `None`: no TLS.
    pub tls: Option<TlsConfig>,
    /// Addresses that TCP clients may have; none: any.
    pub allow: Vec<IpNet>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 128,
            peer_connections_max: 96,
            handshakes_max: 32,
            bytes_max: 512 << 20,
            request_bytes_max: 32 << 20,
            requests_in_flight_max: 1024,
            bytes_in_flight_max: 64 << 20,
            handshake_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            socket_access: SocketAccess::default(),
            tls: None,
            allow: Vec::new(),
        }
    }
}

/// 512 KiB: what each connection needs for itself, including the buffer for what it receives.
const SHARE_BYTES_MIN: usize = 2 * STAGING_BYTES;

impl Options {
    /// The defaults for so many clients with so much memory. The largest request shrinks with the memory.
    #[must_use]
    pub fn sized(connections_max: usize, bytes_max: usize) -> Self {
        let defaults = Self::default();
        let largest = (bytes_max / 4).max(64 << 10) / 4096 * 4096;
        let request_bytes_max = u32::try_from(largest).unwrap_or(u32::MAX).min(defaults.request_bytes_max);
        Self {
            connections_max,
            peer_connections_max: (connections_max * 3).div_ceil(4),
            handshakes_max: defaults.handshakes_max,
            bytes_max,
            request_bytes_max,
            bytes_in_flight_max: defaults.bytes_in_flight_max.max(request_bytes_max as usize),
            ..defaults
        }
    }

    /// What each connection has for its requests, whatever the others use.
    fn share(&self) -> usize {
        self.bytes_max / 2 / self.connections_max - STAGING_BYTES
    }

    fn check(&self) -> Result<(), FrontError> {
        let request_bytes = u64::from(self.request_bytes_max);
        let request_rule = "a multiple of 4096 from 65536 to 1073741824";
        let request_fits = request_bytes % 4096 == 0 && (64 << 10..=1 << 30).contains(&request_bytes);
        let bytes = self.bytes_in_flight_max as u64;
        let least_bytes =
            (2 * Pool::held_bytes(self.request_bytes_max as usize)).max(self.connections_max.saturating_mul(2 * SHARE_BYTES_MIN));
        let bytes_rule = "at least 1 MiB for each of connections_max, and twice request_bytes_max";
        [
            ("connections_max", self.connections_max as u64, "at least 1", self.connections_max > 0),
            ("peer_connections_max", self.peer_connections_max as u64, "at least 1", self.peer_connections_max > 0),
            ("handshakes_max", self.handshakes_max as u64, "at least 1", self.handshakes_max > 0),
            ("request_bytes_max", request_bytes, request_rule, request_fits),
            ("requests_in_flight_max", self.requests_in_flight_max as u64, "at least 1", self.requests_in_flight_max > 0),
            ("bytes_in_flight_max", bytes, "at least request_bytes_max", bytes >= request_bytes),
            ("bytes_max", self.bytes_max as u64, bytes_rule, self.bytes_max >= least_bytes),
        ]
        .into_iter()
        .try_for_each(|(option, value, rule, holds)| holds.then_some(()).ok_or(FrontError::Options { option, value, rule }))
    }
}

/// How the clients of an export are disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The device does not come back: requests fail with `ESHUTDOWN` for a moment, then the connection is closed.
    Shutdown,
    /// Requests in flight are answered, then the connection is closed without an error. Clients that reconnect may find the
    /// export again, as after a restart.
    Disconnect,
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Listens, and serves the exports until the handle is stopped or dropped.
    ///
    /// # Errors
    /// When a listener, an export or an option is invalid; then nothing listens.
    pub fn start(listeners: Vec<Listener>, exports: Vec<Export>, options: Options) -> Result<ServerHandle, FrontError> {
        let server = Self::prepare(listeners, Vec::new(), options)?;
        for export in exports {
            server.add_export(export)?;
        }
        server.listen()?;
        Ok(server)
    }

    /// A server that does not listen yet: its addresses are checked and, as far as the system allows, reserved. No socket file
    /// is made. [`ServerHandle::listen`] lets clients connect; those of `inherited` sockets wait until then.
    ///
    /// # Errors
    /// When a listener or an option is invalid.
    pub fn prepare(listeners: Vec<Listener>, inherited: Vec<Inherited>, options: Options) -> Result<ServerHandle, FrontError> {
        options.check()?;
        let wake = Wake::new().map_err(|source| FrontError::System { action: "make an eventfd", source })?;
        let shared = Arc::new(Shared {
            budget: Budget::new(options.bytes_max / 2),
            talk: Talk::default(),
            options,
            registry: Mutex::default(),
            connection_ended: Condvar::new(),
            stop: AtomicBool::new(false),
            wake,
        });
        let own = listeners.iter().map(Closed::prepare);
        let unnamed = |source| FrontError::System { action: "ask for the address of a socket that was passed to it", source };
        let passed = inherited.into_iter().map(|socket| socket.close().map_err(unnamed));
        let closed = own.chain(passed).collect::<Result<Vec<_>, _>>()?;
        let listeners = closed.iter().map(Closed::listener).collect();
        Ok(ServerHandle { shared, listeners, doors: Mutex::new(Doors { closed, acceptor: None }) })
    }
}

/// A server, running once it listens. Dropping it stops it.
pub struct ServerHandle {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    doors: Mutex<Doors>,
}

/// Addresses that are not open yet, and the thread that accepts on those that are.
struct Doors {
    closed: Vec<Closed>,
    acceptor: Option<thread::JoinHandle<()>>,
}

impl ServerHandle {
    /// Lets clients connect. From now on there are socket files. Harmless if repeated.
    ///
    /// # Errors
    /// When one address cannot be listened on; then none is.
    pub fn listen(&self) -> Result<(), FrontError> {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if doors.closed.is_empty() || self.shared.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        let access = self.shared.options.socket_access;
        let open = doors.closed.drain(..).map(|closed| closed.open(access)).collect::<Result<Vec<_>, _>>()?;
        let acceptor = thread::Builder::new().name("nbd-accept".into()).spawn({
            let shared = Arc::clone(&self.shared);
            move || shared.accept(&open)
        });
        doors.acceptor = Some(acceptor.map_err(|source| FrontError::System { action: "start a thread", source })?);
        Ok(())
    }

    /// Stops accepting clients, for good: when this returns, the socket files are gone. Connected clients stay.
    pub fn close(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake.ring();
        let acceptor = self.doors.lock().unwrap_or_else(PoisonError::into_inner).acceptor.take();
        if acceptor.is_some_and(|acceptor| acceptor.join().is_err()) {
            log::error!("the NBD accept thread panicked");
        }
    }

    /// The addresses, with the ports that the system chose.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// How clients reach an export, one URI for each listener.
    pub fn uris(&self, export: &str) -> Vec<String> {
        let requires_tls = self.shared.options.tls.as_ref().is_some_and(|tls| tls.required);
        self.listeners.iter().map(|listener| nbd_uri(listener, export, requires_tls)).collect()
    }

    /// Names of the exports, the default first.
    pub fn exports(&self) -> Vec<String> {
        self.shared.facts().iter().map(|facts| facts.name.clone()).collect()
    }

    /// Adds an export.
    ///
    /// # Errors
    /// When the name is taken or too long.
    pub fn add_export(&self, export: Export) -> Result<(), FrontError> {
        self.shared.add(export)
    }

    /// Removes an export: its clients' requests run to their end, then the clients are disconnected. On return the server no
    /// longer uses the device.
    ///
    /// # Errors
    /// When there is no such export.
    pub fn remove_export(&self, name: &str, closing: Closing) -> Result<(), FrontError> {
        let mut registry = self.shared.lock();
        let Some(index) = registry.exports.iter().position(|served| served.facts.name == name) else {
            let known = registry.exports.iter().map(|served| served.facts.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(FrontError::UnknownExport { name: name.into(), known });
        };
        registry.exports.remove(index);
        if closing == Closing::Shutdown {
            registry.stopped.push(name.to_owned());
        }
        self.shared.end_connections(registry, closing, |connection| connection.export.get().is_some_and(|used| used == name));
        Ok(())
    }

    /// The present clients.
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.shared.lock().connections.iter().map(|connection| connection.status()).collect()
    }

    /// Stops listening, waits for the end of every client's requests, and disconnects the clients.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.close();
        self.shared.end_connections(self.shared.lock(), Closing::Disconnect, |_| true);
        // The last threads may hold `shared` a moment longer; the devices are free now.
        self.shared.lock().exports.clear();
    }
}

/// An export and its description for clients.
struct Served {
    facts: Arc<Facts>,
    device: Arc<dyn RemoteDevice>,
}

#[derive(Default)]
struct Registry {
    exports: Vec<Served>,
    /// Names of exports that were stopped.
    stopped: Vec<String>,
    connections: Vec<Arc<Connection>>,
    connection_count: u64,
}

/// What the server's threads share.
pub(crate) struct Shared {
    pub options: Options,
    pub talk: Talk,
    budget: Arc<Budget>,
    registry: Mutex<Registry>,
    connection_ended: Condvar,
    stop: AtomicBool,
    wake: Wake,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present exports, the default first.
    pub fn facts(&self) -> Vec<Arc<Facts>> {
        self.lock().exports.iter().map(|served| Arc::clone(&served.facts)).collect()
    }

    /// Names of exports that were stopped and are gone for good.
    pub fn stopped(&self) -> Vec<String> {
        self.lock().stopped.clone()
    }

    /// Why this client may not begin a transmission now, if so.
    pub fn refusal(&self, connection: &Connection) -> Option<&'static str> {
        self.lock().place_for(connection, &self.options).err()
    }

    /// Whether this client may use TLS, or must. A local client never must: the mode of the socket's file decides which users connect.
    pub fn security(&self, peer: &Peer) -> Security {
        match (&self.options.tls, peer.origin) {
            (None, _) => Security::Plain,
            (Some(tls), Origin::Address(_)) if tls.required => Security::Required,
            (Some(_), _) => Security::Offered,
        }
    }

    /// The device of an export that a client has agreed on, and the client's share of the memory.
    ///
    /// # Errors
    /// Why there is none: the export was removed meanwhile, or all places are taken.
    pub fn attach(&self, connection: &Connection, facts: &Arc<Facts>) -> Result<(Arc<dyn RemoteDevice>, Lease), &'static str> {
        let registry = self.lock();
        let served = registry.exports.iter().find(|served| Arc::ptr_eq(&served.facts, facts));
        let served = served.ok_or("its export was removed")?;
        if let Place::Of(victim) = registry.place_for(connection, &self.options)? {
            victim.evict("it has never asked for anything, and another client wanted its place: all were taken");
        }
        connection.export.get_or_init(|| facts.name.clone());
        Ok((Arc::clone(&served.device), self.budget.lease(self.options.share())))
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
        registry.stopped.retain(|stopped| *stopped != facts.name);
        registry.exports.push(Served { facts, device: export.device });
        Ok(())
    }

    /// Stops the chosen connections and waits for their end, which comes within the drain time-out.
    fn end_connections(&self, mut registry: MutexGuard<'_, Registry>, closing: Closing, chosen: impl Fn(&Connection) -> bool) {
        registry.connections.iter().filter(|connection| chosen(connection)).for_each(|connection| connection.stop(closing));
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
                        let door = &door.listener;
                        self.talk.say(Level::Warn, format_args!("cannot accept NBD clients on {door}: {error}; trying again"));
                        let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&pause));
                    }
                }
            }
        }
    }

    fn welcome(self: &Arc<Self>, socket: OwnedFd, peer: Peer) {
        let mut registry = self.lock();
        let turned_away = |why: std::fmt::Arguments| {
            self.talk.say(Level::Warn, format_args!("NBD client {} was turned away: {why}", peer.words));
        };
        let allowed = |address: IpAddr| self.options.allow.iter().any(|network| network.contains(&address.to_canonical()));
        if !self.options.allow.is_empty() && !peer.address.is_none_or(allowed) {
            return turned_away(format_args!("its address is not among those that --nbd-allow lists"));
        }
        let max = self.options.handshakes_max;
        if registry.handshakes().count() >= max {
            if let Some(victim) = registry.handshake_to_evict() {
                victim.evict("it had agreed on nothing yet, and a newer client wanted its place: too many are in the handshake");
            }
            // Clients that were told to leave and have not left yet still have threads. On a busy machine a newcomer waits for them.
            let crowded = |registry: &mut Registry| {
                registry.connections.iter().filter(|other| other.export.get().is_none()).count() >= 2 * max
            };
            let waited = self.connection_ended.wait_timeout_while(registry, LEAVE_WITHIN, crowded);
            let (still, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            registry = still;
            if waited.timed_out() {
                return turned_away(format_args!("{} clients are in the handshake, and {max} may be", 2 * max));
            }
        }
        registry.connection_count += 1;
        let id = registry.connection_count;
        let connection = match Connection::new(id, peer.clone()) {
            Ok(connection) => Arc::new(connection),
            Err(error) => return turned_away(format_args!("no eventfd for it: {error}")),
        };
        registry.connections.push(Arc::clone(&connection));
        drop(registry);
        // Takes the connection off the list when it is dropped: at the connection's end, on a panic, or if the thread cannot
        // start.
        let entry = Entry { shared: Arc::clone(self), connection };
        let thread = thread::Builder::new().name(format!("nbd-{id}")).stack_size(256 << 10);
        if let Err(error) = thread.spawn(move || Connection::serve(entry, socket)) {
            turned_away(format_args!("no thread for it: {error}"));
        }
    }
}

/// A place for a client that has agreed.
enum Place<'a> {
    Free,
    /// Free once this other client has left.
    Of(&'a Connection),
}

impl Registry {
    /// Clients in the handshake that have not been told to leave, the oldest first.
    fn handshakes(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.connections.iter().filter(|connection| connection.export.get().is_none() && !connection.is_evicted())
    }

    /// The oldest of the peer that has most.
    fn handshake_to_evict(&self) -> Option<&Connection> {
        let count = |origin| self.handshakes().filter(|other| other.peer.origin == origin).count();
        let most = self.handshakes().map(|connection| count(connection.peer.origin)).max()?;
        self.handshakes().find(|connection| count(connection.peer.origin) == most).map(|connection| &**connection)
    }

    /// A place for a client that wants to begin its transmission.
    ///
    /// # Errors
    /// Why there is none, in words for the client and the log.
    fn place_for(&self, newcomer: &Connection, options: &Options) -> Result<Place<'_>, &'static str> {
        let agreed = || self.connections.iter().filter(|other| other.export.get().is_some() && !other.is_evicted());
        let of = |origin| agreed().filter(move |other| other.peer.origin == origin);
        let (own, all) = (of(newcomer.peer.origin).count(), agreed().count());
        // A client that had no time to send a request yet is not idle.
        let idles = |other: &&Arc<Connection>| !other.is_used() && other.since.elapsed() >= UNUSED_AFTER;
        let (victim, words) = if own >= options.peer_connections_max {
            (of(newcomer.peer.origin).find(idles), "this peer has as many NBD connections as one may have; see --nbd-clients")
        } else if all >= options.connections_max {
            let most = agreed().filter(idles).max_by_key(|other| (of(other.peer.origin).count(), std::cmp::Reverse(other.id)));
            (most, "all places for NBD clients are taken; see --nbd-clients")
        } else {
            return Ok(Place::Free);
        };
        victim.map(|victim| Place::Of(victim)).ok_or(words)
    }
}

/// A client that has agreed and sends no request for so long may lose its place to another. Kernels, hypervisors and tools read
/// at once.
const UNUSED_AFTER: Duration = Duration::from_secs(2);

/// How long a newcomer waits for clients that were told to leave. They only need a turn of the processor.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A connection's entry in the list. The code that serves the connection owns it.
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
