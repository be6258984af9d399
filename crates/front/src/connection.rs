//! One client: a thread with its socket and its mailbox in one edge-triggered epoll.
//!
//! A turn takes the device's answers, sends what can be sent, receives once, submits what came in, and
//! sleeps when none of it made progress: no time-outs run while a client is idle. The protocol itself is in
//! `handshake` and `session`; this file only moves their bytes.

use crate::handshake::{Agreement, Handshake, OPTION_BYTES_MAX, Step};
use crate::server::{Options, Shared};
use crate::session::{Broken, Caps, Session};
use crate::wire::OPTION_HEADER_BYTES;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use smallvec::SmallVec;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use stria_block::{Mailbox, RemoteDevice};

/// 128 slices: 64 reads of one buffer each in one send.
const SLICE_COUNT_MAX: usize = 128;
/// One second: an idle client's buffers go back to the system after it.
const COOL_AFTER: Duration = Duration::from_secs(1);

/// Wakes a thread that sleeps in epoll or poll.
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn ring(&self) {
        // Fails only when 2^64 - 2 rings are unread; the sleeper is awake then.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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

/// What the server keeps of a client, and how it ends one.
pub(crate) struct Connection {
    id: u64,
    peer: String,
    pub export: OnceLock<String>,
    wake: Arc<Wake>,
    stop: AtomicBool,
    requests: AtomicU64,
    errors: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    in_flight: AtomicU64,
}

impl Connection {
    pub fn new(id: u64, peer: String) -> io::Result<Self> {
        let zero = || AtomicU64::new(0);
        Ok(Self {
            id,
            peer,
            export: OnceLock::new(),
            wake: Arc::new(Wake::new()?),
            stop: AtomicBool::new(false),
            requests: zero(),
            errors: zero(),
            read_bytes: zero(),
            written_bytes: zero(),
            in_flight: zero(),
        })
    }

    /// Asks the thread to end: what is in flight is carried out and answered first.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake.ring();
    }

    pub fn status(&self) -> ConnectionStatus {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionStatus {
            id: self.id,
            peer: self.peer.clone(),
            export: self.export.get().cloned(),
            requests: load(&self.requests),
            errors: load(&self.errors),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            in_flight: load(&self.in_flight),
        }
    }

    /// Only the connection's own thread writes the counters, so plain stores do.
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

    /// Serves one client until it ends, is told to, or misbehaves.
    pub fn serve(&self, socket: OwnedFd, shared: &Shared) {
        let ended = Link::new(socket, &self.wake).map_err(End::Io).and_then(|mut link| {
            let (agreement, received) = self.handshake(&mut link, shared)?;
            let Some(device) = shared.attach(self, &agreement.facts) else {
                return Err(End::Refused("its export was removed"));
            };
            log::info!("NBD client {} ({}) uses export \"{}\"", self.id, self.peer, agreement.facts.name);
            self.transmit(&mut link, agreement, &received, &*device, &shared.options)
        });
        let Self { id, peer, .. } = self;
        match ended {
            Ok(()) => log::info!("NBD client {id} ({peer}) ended"),
            Err(End::Io(error)) => log::info!("NBD client {id} ({peer}) was lost: {error}"),
            Err(End::Refused(reason)) => log::warn!("NBD client {id} ({peer}) was disconnected: {reason}"),
        }
    }

    /// Returns what was agreed on, and the bytes that came behind the handshake.
    fn handshake(&self, link: &mut Link, shared: &Shared) -> Result<(Agreement, Vec<u8>), End> {
        let deadline = Instant::now() + shared.options.handshake_timeout;
        let mut output = Vec::new();
        let mut handshake = Handshake::new(&mut output);
        let mut input = vec![0; OPTION_HEADER_BYTES + OPTION_BYTES_MAX];
        let mut input_len = 0;
        loop {
            link.send_all(&mut output, deadline, self)?;
            let (used, step) = handshake.step(&input[..input_len], &shared.facts(), &mut output);
            input.copy_within(used..input_len, 0);
            input_len -= used;
            match step {
                Step::Again => {}
                Step::Starved => {
                    link.wait_while(deadline, self, |link| !link.readable)?;
                    let (_, space) = input.split_at_mut(input_len);
                    input_len += link.receive([&mut [], space])?.ok_or(End::Refused("it hung up in the handshake"))?;
                }
                Step::Agreed(agreement) => {
                    link.send_all(&mut output, deadline, self)?;
                    input.truncate(input_len);
                    return Ok((agreement, input));
                }
                Step::Close(reason) => {
                    link.send_all(&mut output, deadline, self)?;
                    return Err(End::Refused(reason));
                }
            }
        }
    }

    fn transmit(
        &self,
        link: &mut Link,
        agreement: Agreement,
        received: &[u8],
        device: &dyn RemoteDevice,
        options: &Options,
    ) -> Result<(), End> {
        let wake = Arc::clone(&self.wake);
        let mailbox = Arc::new(Mailbox::new(move || wake.ring()));
        let caps = Caps { requests_max: options.requests_in_flight_max, bytes_max: options.bytes_in_flight_max };
        let mut session = Session::new(agreement, caps, received);
        let (mut requests, mut completions) = (Vec::new(), Vec::new());
        let mut drained_by = None;
        loop {
            if self.stopping() && !session.ended() {
                session.end_input();
            }
            mailbox.take(&mut completions);
            let mut progress = !completions.is_empty();
            for completion in completions.drain(..) {
                session.complete(completion, &mut requests);
            }
            // Before the replies go, so that a client which has them finds them counted.
            self.publish(&session);
            if link.writable && session.has_output() {
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
            session.parse(&mut requests)?;
            if !requests.is_empty() {
                device.submit(&mut requests, &mailbox);
                progress = true;
            }
            if session.finished() {
                return Ok(());
            }
            if progress {
                continue;
            }
            let timeout = if session.ended() {
                let by = *drained_by.get_or_insert_with(|| Instant::now() + options.drain_timeout);
                let left = by.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(End::Refused("it ended, but its last requests and replies took too long"));
                }
                Some(left)
            } else {
                session.keeps_warm().then_some(COOL_AFTER)
            };
            if mailbox.prepare_sleep() {
                let events = link.wait(timeout)?;
                mailbox.awake();
                if events == 0 {
                    session.cool();
                }
            }
        }
    }
}

/// Why a client's thread ends, when not as the client wished.
#[derive(Debug)]
enum End {
    Io(io::Error),
    Refused(&'static str),
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

/// A socket and a wake-up in one epoll, edge-triggered: the flags say what is worth trying.
struct Link {
    socket: OwnedFd,
    epoll: OwnedFd,
    readable: bool,
    writable: bool,
    /// Whether epoll tells of room to send. Only asked for while a send is stuck: every reply that the client
    /// takes makes room, and would wake the thread for nothing.
    watches_room: bool,
    /// The peer has closed its side: no further edge will tell of bytes or of their end.
    hangup: bool,
}

impl Link {
    const SOCKET: u64 = 0;
    const WAKE: u64 = 1;
    const INPUT: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

    fn new(socket: OwnedFd, wake: &Wake) -> io::Result<Self> {
        use epoll::{EventData, EventFlags};
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &socket, EventData::new_u64(Self::SOCKET), Self::INPUT)?;
        // Edge-triggered, so that the counter need not be read: each ring is an edge.
        epoll::add(&epoll, wake, EventData::new_u64(Self::WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { socket, epoll, readable: true, writable: true, watches_room: false, hangup: false })
    }

    /// Sleeps until something happens; returns how many things did.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        use epoll::EventFlags;
        if self.writable == self.watches_room {
            // Changing the interest reports what is true already, so that no edge falls in between.
            self.watches_room = !self.writable;
            let room = if self.watches_room { EventFlags::OUT } else { EventFlags::empty() };
            epoll::modify(&self.epoll, &self.socket, epoll::EventData::new_u64(Self::SOCKET), Self::INPUT | room)?;
        }
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
        let nothing = epoll::Event { flags: EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [nothing; 2];
        let count = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(1),
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            let (flags, data) = (event.flags, event.data);
            if data.u64() == Self::SOCKET {
                let broken = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                self.hangup |= broken;
                self.readable |= broken || flags.contains(EventFlags::IN);
                self.writable |= broken || flags.contains(EventFlags::OUT);
            }
        }
        Ok(count)
    }

    /// Sleeps while `condition` holds, up to the handshake's deadline.
    fn wait_while(&mut self, deadline: Instant, connection: &Connection, condition: fn(&Self) -> bool) -> Result<(), End> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(End::Refused("its handshake took too long"));
            }
            if connection.stopping() {
                return Err(End::Refused("the server stops"));
            }
            if !condition(self) {
                return Ok(());
            }
            self.wait(Some(left))?;
        }
    }

    /// Sends what it can; 0: nothing now.
    fn send(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
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

    /// Sends and clears `output`, sleeping where it must.
    fn send_all(&mut self, output: &mut Vec<u8>, deadline: Instant, connection: &Connection) -> Result<(), End> {
        while !output.is_empty() {
            self.wait_while(deadline, connection, |link| !link.writable)?;
            let len = self.send(&[IoSlice::new(output)])?;
            output.drain(..len);
        }
        Ok(())
    }

    /// Receives what there is; `Some(0)`: nothing now, `None`: the peer has ended.
    fn receive(&mut self, space: [&mut [u8]; 2]) -> io::Result<Option<usize>> {
        let wanted = space[0].len() + space[1].len();
        match rustix::io::readv(&self.socket, &mut space.map(IoSliceMut::new)) {
            Ok(0) => Ok(None),
            Ok(len) => {
                self.readable = len == wanted || self.hangup;
                Ok(Some(len))
            }
            Err(Errno::AGAIN) => {
                self.readable = self.hangup;
                Ok(Some(0))
            }
            Err(Errno::INTR) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }
}
