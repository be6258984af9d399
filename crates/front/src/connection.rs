//! One client. Its handshake runs on a thread of its own. Then it is a [`LaneClient`] on the device's thread; if the device takes
//! no on-lane clients, it stays on its own thread, which sleeps on socket and mailbox.
//!
//! A turn takes the device's answers, sends what can be sent, receives once, and submits the requests that arrived. A client
//! without work sleeps, without time-outs while it is idle. The protocol itself is in `handshake` and `session`; this file only
//! moves their bytes.

use crate::apart::{self, Wake};
use crate::door::Peer;
use crate::handshake::{Agreement, Handshake, OPTION_BYTES_MAX, Step};
use crate::server::{Closing, Entry, Shared};
use crate::session::{Broken, Caps, Session};
use crate::tls::TlsStream;
use crate::wire::OPTION_HEADER_BYTES;
use log::Level;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};
use smallvec::SmallVec;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use stria_block::{Completion, KeepOn, LaneClient, Nanos, RemoteDevice, Request};

/// 128 slices: 64 reads of one buffer each in one send.
const SLICE_COUNT_MAX: usize = 128;
/// One second: then an idle client's buffers return to the system.
const COOL_AFTER: Nanos = 1_000_000_000;
/// 5 ms: how long a client that waits for memory sleeps before it asks again.
const LOOK_FOR_MEMORY_AFTER: Nanos = 5_000_000;
/// 100 ms: how long requests fail with `ESHUTDOWN` before a client of a device that ends is disconnected.
const REFUSE_FOR: Nanos = 100_000_000;
/// 1 MiB: a client that must act and moves less than this in the stall time-out has stalled.
const STALL_BYTES: u64 = 1 << 20;

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

/// What the server stores about a client, and how it ends one.
pub(crate) struct Connection {
    pub id: u64,
    pub peer: Peer,
    /// The name of the export that it has agreed on.
    pub export: OnceLock<String>,
    is_protected: AtomicBool,
    pub since: Instant,
    /// Why it must make way for another client.
    evicted: OnceLock<&'static str>,
    wake: Arc<Wake>,
    /// The device on whose thread the client lives.
    landlord: OnceLock<Weak<dyn RemoteDevice>>,
    stop: AtomicBool,
    is_shutdown: AtomicBool,
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
            landlord: OnceLock::new(),
            stop: AtomicBool::new(false),
            is_shutdown: AtomicBool::new(false),
            requests: zero(),
            errors: zero(),
            read_bytes: zero(),
            written_bytes: zero(),
            in_flight: zero(),
        })
    }

    /// Asks the client to end. Requests in flight run and are answered first.
    pub fn stop(&self, closing: Closing) {
        self.is_shutdown.store(closing == Closing::Shutdown, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        self.wake.ring();
        if let Some(device) = self.landlord.get().and_then(Weak::upgrade) {
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
    fn publish(&self, session: &Session) {
        let store = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        let counters = session.counters();
        store(&self.requests, counters.requests);
        store(&self.errors, counters.errors);
        store(&self.read_bytes, counters.read_bytes);
        store(&self.written_bytes, counters.written_bytes);
        store(&self.in_flight, session.requests_in_flight() as u64);
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Serves one client until it ends, is stopped, or breaks the protocol, or moves to its device.
    pub fn serve(entry: Entry, socket: OwnedFd) {
        let (connection, shared) = (Arc::clone(&entry.connection), Arc::clone(&entry.shared));
        if let Err(end) = connection.agree_and_transmit(entry, &shared, socket) {
            connection.log_end(&shared, Err(end));
        }
    }

    fn agree_and_transmit(&self, entry: Entry, shared: &Shared, socket: OwnedFd) -> Result<(), End> {
        let mut link = Link { socket: Arc::new(socket), readable: true, writable: true, tls: None };
        let (agreement, received) = self.handshake(&mut link, shared)?;
        let (device, lease) = shared.attach(self, &agreement.facts).map_err(End::Refused)?;
        let name = &agreement.facts.name;
        shared.talk.say(Level::Info, format_args!("NBD client {} ({}) uses export \"{name}\"", self.id, self.peer.words));
        let options = &shared.options;
        let caps = Caps { requests_max: options.requests_in_flight_max, bytes_max: options.bytes_in_flight_max };
        let session = Session::new(agreement, caps, lease, &received);
        let transmission = Transmission {
            link,
            session,
            refuses_until: None,
            drained_by: None,
            idle_since: 0,
            owes: None,
            is_gone: false,
            entry,
        };
        // Set before the first turn, so that a stop is either seen by that turn or finds the device to stir.
        self.landlord.get_or_init(|| Arc::downgrade(&device));
        Ok(device.take_in(Box::new(transmission)).or_else(|client| apart::live(client, device, &self.wake))?)
    }

    fn log_end(&self, shared: &Shared, ended: Result<(), End>) {
        let (id, peer, talk) = (self.id, &self.peer.words, &shared.talk);
        match (ended, self.evicted.get().copied()) {
            (Ok(()), None) => talk.say(Level::Info, format_args!("NBD client {id} ({peer}) ended")),
            (Err(End::Tls(error)), None) => {
                talk.say(Level::Warn, format_args!("NBD client {id} ({peer}) was disconnected: TLS failed: {error}"));
            }
            (Err(End::Io(error)), None) => talk.say(Level::Info, format_args!("NBD client {id} ({peer}) was lost: {error}")),
            (Err(End::Refused(reason)), None) | (_, Some(reason)) => {
                talk.say(Level::Warn, format_args!("NBD client {id} ({peer}) was disconnected: {reason}"));
            }
        }
    }

    /// Returns the agreement, and the bytes that followed the handshake.
    fn handshake(&self, link: &mut Link, shared: &Shared) -> Result<(Agreement, Vec<u8>), End> {
        let deadline = Instant::now() + shared.options.handshake_timeout;
        let mut output = Vec::new();
        let mut handshake = Handshake::new(shared.security(&self.peer), &mut output);
        let mut input = vec![0; OPTION_HEADER_BYTES + OPTION_BYTES_MAX];
        let mut input_len = 0;
        loop {
            self.send_all(link, &mut output, deadline)?;
            handshake.set_refusal(shared.refusal(self));
            handshake.set_stopped(shared.stopped());
            let (used, step) = handshake.step(&input[..input_len], &shared.facts(), &mut output);
            input.copy_within(used..input_len, 0);
            input_len -= used;
            match step {
                Step::Again => {}
                Step::Starved => {
                    self.wait_for(link, Direction::In, deadline)?;
                    let (_, space) = input.split_at_mut(input_len);
                    input_len += link.receive([&mut [], space])?.ok_or(End::Refused("it hung up in the handshake"))?;
                }
                Step::StartTls => {
                    self.send_all(link, &mut output, deadline)?;
                    if input_len > 0 {
                        return Err(End::Refused("it sent data between its request for TLS and the reply"));
                    }
                    link.tls = shared.options.tls.as_ref().map(TlsStream::new).transpose()?.map(Box::new);
                    self.is_protected.store(true, Ordering::Relaxed);
                }
                Step::Agreed(agreement) => {
                    self.send_all(link, &mut output, deadline)?;
                    input.truncate(input_len);
                    return Ok((agreement, input));
                }
                Step::Close(reason) => {
                    self.send_all(link, &mut output, deadline)?;
                    return Err(End::Refused(reason));
                }
            }
        }
    }

    /// Sends and clears `output`, sleeping if necessary.
    fn send_all(&self, link: &mut Link, output: &mut Vec<u8>, deadline: Instant) -> Result<(), End> {
        while !output.is_empty() || link.has_unsent() {
            let len = link.send(&[IoSlice::new(output)])?;
            output.drain(..len);
            self.wait_for(link, Direction::Out, deadline)?;
        }
        Ok(())
    }

    /// Sleeps until there is something to receive, or space to send, up to the handshake's deadline.
    fn wait_for(&self, link: &mut Link, direction: Direction, deadline: Instant) -> Result<(), End> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(End::Refused("its handshake took too long"));
            }
            if self.stopping() {
                return Err(End::Refused("the server stops"));
            }
            let (ready, receives) = match direction {
                Direction::In => (&mut link.readable, true),
                Direction::Out => (&mut link.writable, false),
            };
            if *ready {
                return Ok(());
            }
            *ready = apart::sleep(&self.wake, link.socket.as_fd(), receives, !receives, Some(left))?;
        }
    }
}

/// Which way bytes go, seen from the server.
enum Direction {
    In,
    Out,
}

/// A client after its handshake: moves bytes and requests between its socket and its device.
struct Transmission {
    link: Link,
    session: Session,
    /// Until when requests fail because the device does not come back.
    refuses_until: Option<Nanos>,
    /// When an ended client is cut off even if replies are due.
    drained_by: Option<Nanos>,
    /// When it last received or sent anything.
    idle_since: Nanos,
    /// Since when the client must act, and how many bytes had moved by then.
    owes: Option<(Nanos, u64)>,
    /// The client is gone; this lives on only for the memory of requests that the device has.
    is_gone: bool,
    /// Last, so that the socket is closed before the client is off the list.
    entry: Entry,
}

impl Transmission {
    fn advance(
        &mut self,
        now: Nanos,
        signalled: bool,
        ended: &mut Vec<Completion>,
        requests: &mut Vec<Request>,
    ) -> Result<KeepOn, End> {
        if self.is_gone {
            return Ok(self.outlive(now, ended));
        }
        let Self { link, session, entry: Entry { connection, shared }, .. } = self;
        link.readable |= signalled;
        link.writable |= signalled;
        if connection.stopping() && !session.ended() {
            match connection.is_shutdown.load(Ordering::SeqCst) {
                true if now < *self.refuses_until.get_or_insert(now + REFUSE_FOR) => session.shut_down(),
                _ => session.end_input(),
            }
        }
        let mut progress = !ended.is_empty();
        for completion in ended.drain(..) {
            session.complete(completion);
        }
        // Before replies are sent, so that a client which has them finds them counted.
        connection.publish(session);
        if link.writable && (session.has_output() || link.has_unsent()) {
            let len = {
                let mut slices = SmallVec::<[IoSlice; SLICE_COUNT_MAX]>::new();
                session.slices(&mut slices);
                link.send(&slices)?
            };
            session.sent(len);
            progress = true;
        }
        if link.readable && session.wants_input() {
            match link.receive(session.space())? {
                Some(len) => session.received(len),
                None => session.end_input(),
            }
            progress = true;
        }
        session.parse(requests)?;
        session.share_memory();
        connection.publish(session);
        if session.finished() && !link.has_unsent() {
            link.close_tls();
            connection.log_end(shared, Ok(()));
            return Ok(KeepOn::Leave);
        }
        if progress {
            self.idle_since = now;
        }
        let (receives, sends) = (session.wants_input(), session.has_output() || link.has_unsent());
        if session.wants_turn() || (sends && link.writable) || (receives && link.readable) {
            return Ok(KeepOn::Again);
        }
        let stalls_at = match (session.owed_by_client(), self.owes) {
            (None, _) => {
                self.owes = None;
                None
            }
            (Some(moved), Some((since, before))) if moved < before + STALL_BYTES => {
                Some(since.saturating_add(shared.options.stall_timeout.as_nanos() as Nanos))
            }
            (Some(moved), _) => {
                self.owes = Some((now, moved));
                Some(now.saturating_add(shared.options.stall_timeout.as_nanos() as Nanos))
            }
        };
        if stalls_at.is_some_and(|at| at <= now) {
            return Err(End::Refused(match session.has_output() {
                true => "it does not read its replies",
                false => "it began a write and does not send its data",
            }));
        }
        let until = if session.ended() {
            let by = *self.drained_by.get_or_insert(now + shared.options.drain_timeout.as_nanos() as Nanos);
            if by <= now {
                return Err(End::Refused("it ended, but its last requests and replies took too long"));
            }
            Some(by)
        } else if session.keeps_warm() {
            if self.idle_since + COOL_AFTER <= now {
                session.cool();
                link.cool();
            }
            session.keeps_warm().then_some(self.idle_since + COOL_AFTER)
        } else if session.wants_memory() {
            Some(now + LOOK_FOR_MEMORY_AFTER)
        } else {
            None
        };
        let refuses_until = self.refuses_until.filter(|_| !session.ended());
        let until = until.into_iter().chain(stalls_at).chain(refuses_until).min();
        Ok(KeepOn::Wait { readable: receives, writable: sends, until })
    }
}

impl Transmission {
    /// The client is gone. Its requests at the device still hold memory, so its place and its lease stay taken until that
    /// memory is free. Otherwise a client that connects, sends requests and leaves, again and again, could fill the machine's
    /// memory through a slow device.
    fn outlive(&mut self, now: Nanos, ended: &mut Vec<Completion>) -> KeepOn {
        let Self { session, entry: Entry { connection, shared }, .. } = self;
        ended.drain(..).for_each(|completion| session.forget(completion));
        connection.publish(session);
        let drain_nanos = shared.options.drain_timeout.as_nanos() as Nanos;
        let until = connection.stopping().then(|| *self.drained_by.get_or_insert(now.saturating_add(drain_nanos)));
        if session.requests_at_device() == 0 || until.is_some_and(|until| until <= now) {
            return KeepOn::Leave;
        }
        KeepOn::Wait { readable: false, writable: false, until }
    }
}

impl LaneClient for Transmission {
    fn turn(&mut self, now: Nanos, signalled: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> KeepOn {
        let outcome = self.advance(now, signalled, ended, requests);
        outcome.unwrap_or_else(|end| {
            self.entry.connection.log_end(&self.entry.shared, Err(end));
            // Requests of this very turn, which the device never gets.
            requests.drain(..).for_each(|request| self.session.forget(request.complete(Ok(()))));
            self.link.shut();
            self.session.abandon();
            self.is_gone = true;
            self.outlive(now, ended)
        })
    }

    fn socket(&self) -> &Arc<OwnedFd> {
        &self.link.socket
    }
}

/// Why a client's connection ends, if not as the client wished.
#[derive(Debug)]
enum End {
    Io(io::Error),
    Tls(rustls::Error),
    Refused(&'static str),
}

impl From<rustls::Error> for End {
    fn from(error: rustls::Error) -> Self {
        End::Tls(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Io(error)
    }
}

impl From<Broken> for End {
    fn from(Broken(reason): Broken) -> Self {
        End::Refused(reason)
    }
}

/// A non-blocking socket, with or without TLS; the flags say what is worth trying.
struct Link {
    socket: Arc<OwnedFd>,
    readable: bool,
    writable: bool,
    tls: Option<Box<TlsStream>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Link {
    fn shut(&self) {
        // The thread or ring that watches the socket notices. Fails if the peer has closed, which it notices as well.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends what is possible; 0: nothing at the moment.
    fn send(&mut self, slices: &[IoSlice]) -> Result<usize, End> {
        if self.tls.is_none() {
            return Ok(self.send_plain(slices)?);
        }
        self.send_encrypted()?;
        if !self.writable {
            return Ok(0);
        }
        let len = self.tls.as_mut().map_or(Ok(0), |tls| tls.put(slices))?;
        self.send_encrypted()?;
        Ok(len)
    }

    /// Sends what TLS has made, as far as possible.
    fn send_encrypted(&mut self) -> io::Result<()> {
        while self.has_unsent() && self.writable {
            let Some(mut tls) = self.tls.take() else { return Ok(()) };
            let sent = self.send_plain(&[IoSlice::new(tls.output())]);
            tls.sent(*sent.as_ref().unwrap_or(&0));
            self.tls = Some(tls);
            sent?;
        }
        Ok(())
    }

    fn send_plain(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        match sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), flags) {
            Ok(len) => {
                self.writable = len == wanted;
                Ok(len)
            }
            Err(Errno::AGAIN) => {
                self.writable = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives what has arrived; `Some(0)`: nothing at the moment, `None`: the peer has ended.
    fn receive(&mut self, space: [&mut [u8]; 2]) -> Result<Option<usize>, End> {
        match self.tls.take() {
            None => Ok(self.receive_plain(space)?),
            Some(mut tls) => {
                let received = self.receive_encrypted(&mut tls, space);
                self.tls = Some(tls);
                // An answer of the protocol itself: its next message, or the alert that explains the error.
                let sent = self.send_encrypted();
                let received = received?;
                sent?;
                Ok(received)
            }
        }
    }

    fn receive_encrypted(&mut self, tls: &mut TlsStream, mut space: [&mut [u8]; 2]) -> Result<Option<usize>, End> {
        let mut len = tls.take(&mut space)?;
        if len == 0 {
            let Some(received) = self.receive_plain([tls.space(), &mut []])? else { return Ok(None) };
            tls.received(received);
            len = tls.take(&mut space)?;
        }
        // More may lie decrypted, or whole in memory.
        self.readable |= space.iter().all(|slice| slice.is_empty());
        Ok(Some(len))
    }

    fn receive_plain(&mut self, space: [&mut [u8]; 2]) -> io::Result<Option<usize>> {
        let wanted = space[0].len() + space[1].len();
        match rustix::io::readv(&self.socket, &mut space.map(IoSliceMut::new)) {
            Ok(0) => Ok(None),
            Ok(len) => {
                self.readable = len == wanted;
                Ok(Some(len))
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(Some(0))
            }
            Err(Errno::INTR) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// True if encrypted bytes wait for the socket.
    fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.output().is_empty())
    }

    /// Tells a client with TLS that the end is no accident. The rest is up to the socket: nothing waits for it.
    fn close_tls(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close();
            let _ = self.send_encrypted();
        }
    }

    fn cool(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.cool();
        }
    }
}
