//! One client. Its handshake runs on a thread of its own. Then the client becomes a [`LaneClient`] on the device's thread. If the
//! device takes no on-lane clients, it stays on its own thread, which sleeps on socket and mailbox.
//!
//! A turn takes the device's answers, sends what can be sent, receives once, and submits the requests that arrived. A client
//! without work sleeps, without time-outs while it is idle. The protocol itself is in `handshake` and `session`; this file only
//! moves their bytes.

use crate::apart;
use crate::connection::Connection;
use crate::handshake::{Agreement, Handshake, OPTION_BYTES_MAX, Step};
use crate::link::{End, Link};
use crate::registry::{Entry, Shared};
use crate::session::{Caps, Owed, Session};
use crate::tls::TlsStream;
use crate::wire::OPTION_HEADER_BYTES;
use log::Level;
use smallvec::SmallVec;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use stria_block::{Completion, KeepOn, LaneClient, Nanos, Request};

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

/// Serves one client until it ends, is stopped, breaks the protocol, or moves to its device.
pub(crate) fn serve(entry: Entry, socket: OwnedFd) {
    let (connection, shared) = (Arc::clone(&entry.connection), Arc::clone(&entry.shared));
    if let Err(end) = connection.agree_and_transmit(entry, &shared, socket) {
        connection.log_end(&shared, Err(end));
    }
}

impl Connection {
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
        self.lane_device.get_or_init(|| Arc::downgrade(&device));
        Ok(device.take_in(Box::new(transmission)).or_else(|client| {
            self.is_apart.store(true, Ordering::Relaxed);
            apart::live(client, device, &self.wake)
        })?)
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
                    link.tls = shared.tls().map(|tls| TlsStream::new(tls.files().current())).transpose()?.map(Box::new);
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
            if self.is_stopping() {
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

/// The direction of bytes, as seen from the server.
enum Direction {
    In,
    Out,
}

/// What shows that a client acts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    Bytes,
    Requests,
}

/// A client after its handshake: moves bytes and requests between its socket and its device.
struct Transmission {
    link: Link,
    session: Session,
    /// The time until which requests fail because the device does not come back.
    refuses_until: Option<Nanos>,
    /// The time at which an ended client is disconnected even if replies are due.
    drained_by: Option<Nanos>,
    /// The time at which it last received or sent anything.
    idle_since: Nanos,
    /// The time since which the client must act, and how much had moved by then.
    owes: Option<(Measure, Nanos, u64)>,
    /// The client is gone; this remains only for the memory of requests that the device has.
    is_gone: bool,
    /// Last, so that the socket is closed before the client leaves the list.
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
        self.link.readable |= signalled;
        self.link.writable |= signalled;
        self.heed_stop(now);
        let progress = self.move_bytes(ended)?;
        let Self { link, session, entry: Entry { connection, shared }, .. } = self;
        session.set_grouped(!connection.is_apart.load(Ordering::Relaxed));
        session.parse(requests)?;
        session.share_memory();
        if session.begins_queue() {
            shared.stir();
        }
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
        let stalls_at = self.stalls_at(now)?;
        let until = self.looks_again_at(now)?;
        let refuses_until = self.refuses_until.filter(|_| !self.session.ended());
        let until = until.into_iter().chain(stalls_at).chain(refuses_until).min();
        Ok(KeepOn::Wait { readable: receives, writable: sends, until })
    }

    /// A client that was stopped sends no more requests. If its device does not come back, they fail for a moment first.
    fn heed_stop(&mut self, now: Nanos) {
        let Self { session, entry: Entry { connection, .. }, .. } = self;
        if connection.is_stopping() && !session.ended() {
            match connection.is_shutdown() {
                true if now < *self.refuses_until.get_or_insert(now + REFUSE_FOR) => session.shut_down(),
                _ => session.end_input(),
            }
        }
    }

    /// Takes the device's answers, sends what can be sent, and receives once. True if anything moved.
    fn move_bytes(&mut self, ended: &mut Vec<Completion>) -> Result<bool, End> {
        let Self { link, session, entry: Entry { connection, .. }, .. } = self;
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
        Ok(progress)
    }

    /// The time at which a client that must act has stalled; `None`: it need not act.
    fn stalls_at(&mut self, now: Nanos) -> Result<Option<Nanos>, End> {
        let Self { link, session, .. } = self;
        let of_tls = || match () {
            () if link.has_unsent() => Some(Owed::Replies),
            () if link.has_part() && session.wants_input() => Some(Owed::Request),
            () => None,
        };
        let Some(owed) = session.owed_by_client().or_else(of_tls) else {
            self.owes = None;
            return Ok(None);
        };
        // Bytes of a request count for nothing until it is whole.
        let (measure, moved, step) = match owed {
            Owed::Replies | Owed::Data => (Measure::Bytes, session.moved_bytes(), STALL_BYTES),
            Owed::Request => (Measure::Requests, session.counters().requests, 1),
        };
        let since = match self.owes {
            Some((of, since, before)) if of == measure && moved < before + step => since,
            _ => {
                self.owes = Some((measure, now, moved));
                now
            }
        };
        let at = since.saturating_add(self.entry.shared.options.stall_timeout.as_nanos() as Nanos);
        if at <= now {
            return Err(End::Refused(match owed {
                Owed::Replies => "it does not read its replies",
                Owed::Data => "it began a write and does not send its data",
                Owed::Request => "it began a request and does not send the rest",
            }));
        }
        Ok(Some(at))
    }

    /// The time at which it needs a turn although nothing arrives: to end, to return its buffers, or to ask for memory.
    fn looks_again_at(&mut self, now: Nanos) -> Result<Option<Nanos>, End> {
        let Self { link, session, entry: Entry { shared, connection }, .. } = self;
        if session.ended() {
            let drain_nanos = connection.drain_timeout(shared.options.drain_timeout).as_nanos() as Nanos;
            let by = *self.drained_by.get_or_insert(now + drain_nanos);
            if by <= now {
                return Err(End::Refused("it ended, but its last requests and replies took too long"));
            }
            return Ok(Some(by));
        }
        if session.keeps_warm() {
            if self.idle_since + COOL_AFTER <= now {
                session.cool();
                link.cool();
            }
            return Ok(session.keeps_warm().then_some(self.idle_since + COOL_AFTER));
        }
        Ok(session.wants_memory().then_some(now + LOOK_FOR_MEMORY_AFTER))
    }

    /// The client is gone. Its requests at the device still hold memory, so it counts as connected and keeps its lease until they
    /// end. Otherwise a client that connects, sends requests and leaves, again and again, could fill the machine's memory through
    /// a slow device.
    fn outlive(&mut self, now: Nanos, ended: &mut Vec<Completion>) -> KeepOn {
        let Self { session, entry: Entry { connection, shared }, .. } = self;
        ended.drain(..).for_each(|completion| session.forget(completion));
        connection.publish(session);
        let drain_nanos = connection.drain_timeout(shared.options.drain_timeout).as_nanos() as Nanos;
        let until = connection.is_stopping().then(|| *self.drained_by.get_or_insert(now.saturating_add(drain_nanos)));
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
            // Requests of this turn, which the device never gets.
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
