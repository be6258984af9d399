//! The server's record of a client, and the ways to end one.

use crate::apart::Wake;
use crate::door::Peer;
use crate::session::Session;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use stria_block::RemoteDevice;

/// The time that requests in flight have to end when an export is removed in a hurry.
const HURRIED_DRAIN: Duration = Duration::from_secs(2);

/// How the clients of an export are disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The device does not come back: requests fail with `ESHUTDOWN` for a moment, then the connection is closed.
    Shutdown,
    /// As [`Closing::Shutdown`], but requests in flight have two seconds at most to end: they may wait for a drive that is
    /// silent.
    Hurried,
    /// Requests in flight are answered, then the connection is closed without an error. Clients that reconnect may find the
    /// export again, as after a restart.
    Disconnect,
}

/// A client as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// Counts up from 1 over the server's life.
    pub id: u64,
    /// Address of a TCP client; process and user of a local one.
    pub peer: String,
    /// The export in use; `None` during the handshake.
    pub export: Option<String>,
    /// It uses TLS.
    pub tls: bool,
    /// Requests answered, refused ones too.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes read by the client.
    pub read_bytes: u64,
    /// Bytes written by the client.
    pub written_bytes: u64,
    /// Requests whose reply is not sent yet.
    pub in_flight: u64,
}

/// A client of the server.
pub(crate) struct Connection {
    pub id: u64,
    pub peer: Peer,
    /// The name of the export that it has agreed on.
    pub export: OnceLock<String>,
    /// It uses TLS.
    pub is_protected: AtomicBool,
    pub since: Instant,
    /// Why it is disconnected, if in favour of another client.
    pub evicted: OnceLock<&'static str>,
    pub wake: Arc<Wake>,
    /// The device on whose thread the client runs.
    pub lane_device: OnceLock<Weak<dyn RemoteDevice>>,
    /// It has a thread of its own, as its device takes no on-lane clients.
    pub is_apart: AtomicBool,
    stop: AtomicBool,
    is_shutdown: AtomicBool,
    is_hurried: AtomicBool,
    requests: AtomicU64,
    errors: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    in_flight: AtomicU64,
}

impl Connection {
    pub fn new(id: u64, peer: Peer) -> io::Result<Self> {
        let zero = || AtomicU64::new(0);
        Ok(Self {
            id,
            peer,
            export: OnceLock::new(),
            is_protected: AtomicBool::new(false),
            since: Instant::now(),
            evicted: OnceLock::new(),
            wake: Arc::new(Wake::new()?),
            lane_device: OnceLock::new(),
            is_apart: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            is_shutdown: AtomicBool::new(false),
            is_hurried: AtomicBool::new(false),
            requests: zero(),
            errors: zero(),
            read_bytes: zero(),
            written_bytes: zero(),
            in_flight: zero(),
        })
    }

    /// Asks the client to end. Requests in flight run and are answered first.
    pub fn stop(&self, closing: Closing) {
        self.is_shutdown.store(closing != Closing::Disconnect, Ordering::SeqCst);
        self.is_hurried.store(closing == Closing::Hurried, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        self.stir();
    }

    /// Gives the client a turn, and any others on the same lanes.
    pub fn stir(&self) {
        self.wake.ring();
        if let Some(device) = self.lane_device.get().and_then(Weak::upgrade) {
            device.stir();
        }
    }

    /// As [`Connection::stop`], to make way for another client.
    pub fn evict(&self, reason: &'static str) {
        self.evicted.get_or_init(|| reason);
        self.stop(Closing::Disconnect);
    }

    pub fn is_evicted(&self) -> bool {
        self.evicted.get().is_some()
    }

    /// True if it has ever sent a request.
    pub fn is_used(&self) -> bool {
        self.requests.load(Ordering::Relaxed) + self.in_flight.load(Ordering::Relaxed) > 0
    }

    pub fn status(&self) -> ConnectionStatus {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionStatus {
            id: self.id,
            peer: self.peer.words.clone(),
            export: self.export.get().cloned(),
            tls: self.is_protected.load(Ordering::Relaxed),
            requests: load(&self.requests),
            errors: load(&self.errors),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            in_flight: load(&self.in_flight),
        }
    }

    /// Only the thread that serves the connection writes the counters, so plain stores suffice.
    pub fn publish(&self, session: &Session) {
        let store = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        let counters = session.counters();
        store(&self.requests, counters.requests);
        store(&self.errors, counters.errors);
        store(&self.read_bytes, counters.read_bytes);
        store(&self.written_bytes, counters.written_bytes);
        store(&self.in_flight, session.requests_in_flight() as u64);
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// The time that its requests have to end once it was stopped. `usual`: without a hurry.
    pub fn drain_timeout(&self, usual: Duration) -> Duration {
        if self.is_hurried.load(Ordering::SeqCst) { usual.min(HURRIED_DRAIN) } else { usual }
    }

    /// True if it was stopped as its device does not come back.
    pub fn is_shutdown(&self) -> bool {
        self.is_shutdown.load(Ordering::SeqCst)
    }
}
