//! The server: its listeners, and the thread that accepts clients.
//!
//! Each client agrees on its export on a thread of its own, so that no client can delay another. Then it moves to the device's
//! thread, or stays on its own if the device takes no on-lane clients.

use crate::apart::Wake;
use crate::connection::{Closing, ConnectionStatus};
use crate::door::{Closed, Door, Inherited, Peer};
use crate::export::Export;
use crate::listener::Listener;
use crate::options::Options;
use crate::registry::Shared;
use crate::socket_file::SocketAccess;
use crate::tls::TlsConfig;
use crate::{FrontError, client, nbd_uri};
use log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use stria_block::NO_THREAD;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Prepares a server that does not listen yet. Its addresses are checked and, as far as the system allows, reserved. No
    /// socket file is made. [`ServerHandle::listen`] lets clients connect; those of `inherited` sockets wait until then.
    ///
    /// # Errors
    /// When a listener or an option is invalid.
    pub fn prepare(listeners: Vec<Listener>, inherited: Vec<Inherited>, options: Options) -> Result<ServerHandle, FrontError> {
        options.check()?;
        let wake = Wake::new().map_err(|source| FrontError::System { action: "make an eventfd", source })?;
        let acceptor = Arc::new(Acceptor { shared: Arc::new(Shared::new(options)), stop: AtomicBool::new(false), wake });
        let server = ServerHandle { acceptor, listeners: Mutex::default(), doors: Mutex::default() };
        server.keep(closed(&listeners, inherited)?);
        Ok(server)
    }
}

/// Checks and reserves addresses.
fn closed(listeners: &[Listener], inherited: Vec<Inherited>) -> Result<Vec<Closed>, FrontError> {
    let own = listeners.iter().map(Closed::prepare);
    let unnamed = |source| FrontError::System { action: "ask for the address of a socket that was passed to it", source };
    let passed = inherited.into_iter().map(|socket| socket.close().map_err(unnamed));
    own.chain(passed).collect()
}

/// A server, running once it listens. Dropping it stops it.
pub struct ServerHandle {
    acceptor: Arc<Acceptor>,
    listeners: Mutex<Vec<Listener>>,
    doors: Mutex<Doors>,
}

/// Addresses that are not open yet, and the threads that accept on those that are: one for each time that some were opened.
#[derive(Default)]
struct Doors {
    closed: Vec<Closed>,
    threads: Vec<thread::JoinHandle<()>>,
    is_listening: bool,
}

impl Doors {
    /// Opens all addresses that are not open yet.
    ///
    /// # Errors
    /// One of them cannot be listened on. Then none is open, and the next attempt begins with all of them.
    fn open(&mut self, access: SocketAccess) -> Result<Vec<Door>, FrontError> {
        let mut open = Vec::new();
        let mut closed = std::mem::take(&mut self.closed).into_iter();
        while let Some(next) = closed.next() {
            match next.open(access).map_err(|refused| *refused) {
                Ok(door) => open.push(door),
                Err((refused, error)) => {
                    self.put_back(open);
                    self.closed.extend([refused].into_iter().chain(closed));
                    return Err(error);
                }
            }
        }
        Ok(open)
    }

    fn put_back(&mut self, open: Vec<Door>) {
        for door in open {
            match door.close() {
                Ok(closed) => self.closed.push(closed),
                Err(error) => log::error!("{error}; nothing is served there from now on"),
            }
        }
    }
}

impl ServerHandle {
    fn shared(&self) -> &Shared {
        &self.acceptor.shared
    }

    /// Lets clients connect. From now on there are socket files. Harmless if repeated.
    ///
    /// # Errors
    /// An address cannot be listened on; then none is.
    pub fn listen(&self) -> Result<(), FrontError> {
        let mut doors = lock(&self.doors);
        if !doors.closed.is_empty() && !self.acceptor.stop.load(Ordering::SeqCst) {
            let open = doors.open(self.shared().options.socket_access)?;
            // The thread gets the doors once it runs. If it cannot be started, they are closed again.
            let (given, taken) = channel();
            let thread = thread::Builder::new().name("nbd-accept".into()).spawn({
                let acceptor = Arc::clone(&self.acceptor);
                move || taken.recv().map_or((), |open: Vec<Door>| acceptor.accept(&open))
            });
            match thread {
                Ok(thread) => doors.threads.push(thread),
                Err(source) => {
                    doors.put_back(open);
                    return Err(FrontError::System { action: "start a thread", source });
                }
            }
            given.send(open).expect("the thread waits for it");
        }
        doors.is_listening = true;
        Ok(())
    }

    /// Stops accepting clients, for good: when this returns, the socket files are gone. Connected clients stay.
    pub fn close(&self) {
        self.acceptor.stop.store(true, Ordering::SeqCst);
        self.acceptor.wake.ring();
        let threads = std::mem::take(&mut lock(&self.doors).threads);
        for _ in threads.into_iter().filter_map(|thread| thread.join().err()) {
            log::error!("an NBD accept thread panicked");
        }
    }

    /// The addresses, with the ports that the system chose.
    pub fn listeners(&self) -> Vec<Listener> {
        lock(&self.listeners).clone()
    }

    /// Adds addresses, from now on with encryption if there was none. If clients may connect already, they may connect there at
    /// once.
    ///
    /// # Errors
    /// When an address is invalid or taken; then none is added.
    pub fn add_listeners(
        &self,
        listeners: &[Listener],
        inherited: Vec<Inherited>,
        tls: Option<TlsConfig>,
    ) -> Result<(), FrontError> {
        let closed = closed(listeners, inherited)?;
        tls.into_iter().for_each(|tls| self.shared().set_tls(tls));
        let added: Vec<Listener> = closed.iter().map(Closed::listener).collect();
        self.keep(closed);
        if !lock(&self.doors).is_listening {
            return Ok(());
        }
        let listening = self.listen();
        if listening.is_err() {
            lock(&self.listeners).retain(|listener| !added.contains(listener));
            lock(&self.doors).closed.retain(|closed| !added.contains(&closed.listener()));
        }
        listening
    }

    fn keep(&self, closed: Vec<Closed>) {
        lock(&self.listeners).extend(closed.iter().map(Closed::listener));
        lock(&self.doors).closed.extend(closed);
    }

    /// How clients reach an export, one URI for each listener.
    pub fn uris(&self, export: &str) -> Vec<String> {
        let requires_tls = self.shared().tls().is_some_and(|tls| tls.required);
        self.listeners().iter().map(|listener| nbd_uri(listener, export, requires_tls)).collect()
    }

    /// Why the files for TLS that are there now are not in force.
    pub fn tls_fault(&self) -> Option<String> {
        self.shared().tls()?.files().fault()
    }

    /// Names of the exports, the default first.
    pub fn exports(&self) -> Vec<String> {
        self.shared().facts().iter().map(|facts| facts.name.clone()).collect()
    }

    /// Adds an export.
    ///
    /// # Errors
    /// When the name is taken or too long.
    pub fn add_export(&self, export: Export) -> Result<(), FrontError> {
        self.shared().add(export)
    }

    /// Removes an export: its clients' requests run to their end, then the clients are disconnected. On return the server no
    /// longer uses the device.
    ///
    /// # Errors
    /// When there is no such export.
    pub fn remove_export(&self, name: &str, closing: Closing) -> Result<(), FrontError> {
        self.shared().remove(name, closing)
    }

    /// The present clients.
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.shared().statuses()
    }

    /// Stops listening, waits for the end of every client's requests, and disconnects the clients.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.close();
        self.shared().clear();
    }
}

/// Accepts clients, on a thread of its own.
struct Acceptor {
    shared: Arc<Shared>,
    stop: AtomicBool,
    wake: Wake,
}

impl Acceptor {
    fn accept(&self, doors: &[Door]) {
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
                        self.shared
                            .talk
                            .say(Level::Warn, format_args!("cannot accept NBD clients on {door}: {error}; trying again"));
                        let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&pause));
                    }
                }
            }
        }
    }

    fn welcome(&self, socket: OwnedFd, peer: Peer) {
        let words = peer.words.clone();
        let turned_away = |why: fmt::Arguments| {
            self.shared.talk.say(Level::Warn, format_args!("NBD client {words} was refused: {why}"));
        };
        let allow = &self.shared.options.allow;
        let allowed = |address: IpAddr| allow.iter().any(|network| network.contains(&address.to_canonical()));
        if !allow.is_empty() && !peer.address.is_none_or(allowed) {
            return turned_away(format_args!("its address is not among those that --nbd-allow lists"));
        }
        let entry = match self.shared.admit(peer) {
            Ok(entry) => entry,
            Err(why) => return turned_away(format_args!("{why}")),
        };
        // The entry leaves the list when it is dropped: at the connection's end, on a panic, or if the thread cannot start.
        let thread = thread::Builder::new().name(format!("nbd-{}", entry.connection.id)).stack_size(256 << 10);
        if let Err(error) = thread.spawn(move || client::serve(entry, socket)) {
            turned_away(format_args!("no thread could be started for it: {error}; {NO_THREAD}"));
        }
    }
}
