//! State shared by the server's threads: the exports, the list of clients, and the rule for a place on it.
//!
//! One lock protects the lists; it is taken when a client connects, agrees on an export, or leaves, never for a request.

use crate::FrontError;
use crate::budget::{Budget, Lease};
use crate::connection::{Closing, Connection, ConnectionStatus};
use crate::door::{Origin, Peer};
use crate::export::{Export, Facts};
use crate::handshake::Security;
use crate::options::Options;
use crate::talk::Talk;
use crate::tls::TlsConfig;
use crate::wire::STRING_BYTES_MAX;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stria_block::RemoteDevice;

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
    /// That of the options, or as it came later.
    tls: OnceLock<TlsConfig>,
    pub talk: Talk,
    budget: Arc<Budget>,
    registry: Mutex<Registry>,
    connection_ended: Condvar,
}

impl Shared {
    pub fn new(options: Options) -> Self {
        Self {
            budget: Budget::new(options.bytes_max / 2),
            talk: Talk::default(),
            tls: options.tls.clone().inspect(|tls| tls.files().follow()).map_or_else(OnceLock::new, OnceLock::from),
            options,
            registry: Mutex::default(),
            connection_ended: Condvar::new(),
        }
    }

    /// How connections are encrypted, if they can be.
    pub fn tls(&self) -> Option<&TlsConfig> {
        self.tls.get()
    }

    /// Lets new connections be encrypted. Encryption that was set before stays.
    pub fn set_tls(&self, tls: TlsConfig) {
        self.tls.get_or_init(|| {
            tls.files().follow();
            tls
        });
    }

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

    /// The reason why this client may not begin a transmission now; `None`: it may.
    pub fn refusal(&self, connection: &Connection) -> Option<&'static str> {
        self.lock().place_for(connection, &self.options).err()
    }

    /// Whether this client may use TLS, or must. A local client never must: the mode of the socket's file decides which users
    /// connect.
    pub fn security(&self, peer: &Peer) -> Security {
        match (self.tls(), peer.origin) {
            (None, _) => Security::Plain,
            (Some(tls), Origin::Address(_)) if tls.required => Security::Required,
            (Some(_), _) => Security::Offered,
        }
    }

    /// The device of an export that a client has agreed on, and the client's share of the memory.
    ///
    /// # Errors
    /// The export was removed meanwhile, or all places are taken.
    pub fn attach(&self, connection: &Connection, facts: &Arc<Facts>) -> Result<(Arc<dyn RemoteDevice>, Lease), &'static str> {
        let registry = self.lock();
        let served = registry.exports.iter().find(|served| Arc::ptr_eq(&served.facts, facts));
        let served = served.ok_or("its export was removed")?;
        if let Place::Of(victim) = registry.place_for(connection, &self.options)? {
            victim.evict("it has sent no request, all places are taken, and another client needs one");
        }
        connection.export.get_or_init(|| facts.name.clone());
        Ok((Arc::clone(&served.device), self.budget.lease(self.options.share())))
    }

    pub fn add(&self, export: Export) -> Result<(), FrontError> {
        let facts = Arc::new(Facts::of(&export, self.options.request_bytes_max));
        let len = facts.name.len().max(facts.description.len());
        if len > STRING_BYTES_MAX {
            return Err(FrontError::LongExport { len, max: STRING_BYTES_MAX });
        }
        let mut registry = self.lock();
        if registry.exports.iter().any(|served| served.facts.name == export.name) {
            return Err(FrontError::DuplicateExport { name: export.name });
        }
        registry.stopped.retain(|stopped| *stopped != facts.name);
        registry.exports.push(Served { facts, device: export.device });
        Ok(())
    }

    /// Takes an export off the list, and its clients with it.
    pub fn remove(&self, name: &str, closing: Closing) -> Result<(), FrontError> {
        let mut registry = self.lock();
        let Some(index) = registry.exports.iter().position(|served| served.facts.name == name) else {
            let known = registry.exports.iter().map(|served| served.facts.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(FrontError::UnknownExport { name: name.into(), known });
        };
        registry.exports.remove(index);
        if closing != Closing::Disconnect {
            registry.stopped.push(name.to_owned());
        }
        self.end_connections(registry, closing, |connection| connection.export.get().is_some_and(|used| used == name));
        Ok(())
    }

    /// Gives every client a turn: one waits for memory that idle ones may have borrowed.
    pub fn stir(&self) {
        self.lock().connections.iter().for_each(|connection| connection.stir());
    }

    pub fn statuses(&self) -> Vec<ConnectionStatus> {
        self.lock().connections.iter().map(|connection| connection.status()).collect()
    }

    /// Disconnects every client, and drops the exports.
    pub fn clear(&self) {
        self.end_connections(self.lock(), Closing::Disconnect, |_| true);
        // The last threads may have this a moment longer; the devices are free now.
        self.lock().exports.clear();
    }

    /// Stops the chosen connections and waits for their end, which comes within the drain time-out.
    fn end_connections(&self, mut registry: MutexGuard<'_, Registry>, closing: Closing, chosen: impl Fn(&Connection) -> bool) {
        registry.connections.iter().filter(|connection| chosen(connection)).for_each(|connection| connection.stop(closing));
        while registry.connections.iter().any(|connection| chosen(connection)) {
            registry = self.connection_ended.wait(registry).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts a new client on the list. If too many are in the handshake, one of them is disconnected.
    ///
    /// # Errors
    /// Why it may not connect, in words for the log.
    pub fn admit(self: &Arc<Self>, peer: Peer) -> Result<Entry, String> {
        let mut registry = self.lock();
        let max = self.options.handshakes_max;
        if registry.handshakes().count() >= max {
            if let Some(victim) = registry.handshake_to_evict() {
                victim.evict("it had not agreed on an export yet, and too many clients are in the handshake");
            }
            // Clients that are being disconnected still have threads. On a busy machine a new client waits for them.
            let crowded = |registry: &mut Registry| {
                registry.connections.iter().filter(|other| other.export.get().is_none()).count() >= 2 * max
            };
            let waited = self.connection_ended.wait_timeout_while(registry, LEAVE_WITHIN, crowded);
            let (still, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            registry = still;
            if waited.timed_out() {
                return Err(format!("{} clients are in the handshake, more than the limit of {max}", 2 * max));
            }
        }
        registry.connection_count += 1;
        let connection = Connection::new(registry.connection_count, peer);
        let connection = Arc::new(connection.map_err(|error| format!("no eventfd for it: {error}"))?);
        registry.connections.push(Arc::clone(&connection));
        Ok(Entry { shared: Arc::clone(self), connection })
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
    /// There is no place; the text is for the client and the log.
    fn place_for(&self, newcomer: &Connection, options: &Options) -> Result<Place<'_>, &'static str> {
        let negotiated = || self.connections.iter().filter(|other| other.export.get().is_some() && !other.is_evicted());
        let of = |origin| negotiated().filter(move |other| other.peer.origin == origin);
        let (own, all) = (of(newcomer.peer.origin).count(), negotiated().count());
        // A client that has just agreed does not count as idle.
        let idles = |other: &&Arc<Connection>| !other.is_used() && other.since.elapsed() >= UNUSED_AFTER;
        let (victim, words) = if own >= options.peer_connections_max {
            (of(newcomer.peer.origin).find(idles), "this peer has reached its limit of NBD connections; see --nbd-clients")
        } else if all >= options.connections_max {
            let most =
                negotiated().filter(idles).max_by_key(|other| (of(other.peer.origin).count(), std::cmp::Reverse(other.id)));
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

/// The time that a new client waits for clients that are being disconnected. They only need processor time.
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
