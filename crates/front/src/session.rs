//! The transmission phase of one client as a pure state machine: bytes in, requests out; completions in, bytes out.
//!
//! ```text
//!   socket ─space/received─► staging ─parse─► requests ─► device
//!   socket ◄─slices/sent──── outbox ◄─complete── completions ◄─┘
//! ```
//!
//! It has no socket, thread or clock. Payloads are received into the buffers that go to the device, and sent from the buffers
//! that come back. Only data that shares a receive with other requests is copied once.
//!
//! Invariants: a request is *in flight* from its header until its whole reply is sent, a refusal too. At most `requests_max`
//! requests and `bytes_max` bytes are in flight, and no more than the [`Lease`] allows. Beyond that nothing is parsed and
//! [`Session::wants_input`] is false, so memory stays bounded whatever the client does. Bytes count the memory that is held,
//! including what the pool stores for reuse.

mod examine;
mod extents;
mod outbox;

use crate::budget::{CHARGE_BYTES_MIN, Lease};
use crate::export::Facts;
use crate::handshake::Agreement;
use crate::wire::{Errno, ReplyHead, RequestHeader, chunk, command};
#[cfg(any(test, feature = "fuzzing"))]
use crate::{handshake::OPTION_BYTES_MAX, wire::OPTION_HEADER_BYTES};
use examine::{Refusal, Work, blocks, examine};
use outbox::{Body, Outbox, Reply};
use smallvec::smallvec;
use std::io::IoSlice;
use std::sync::Arc;
use stria_block::{Buffer, Completion, ErrorKind, IoError, Operation, Pool, Request, SECTOR_BYTES, Segments};

/// 256 KiB: the most that one receive takes besides a payload: 62 writes of 4 KiB, so that a deep queue costs one system call.
pub const STAGING_BYTES: usize = 256 << 10;
/// 32 KiB: from this payload size on, the bytes behind it stay in the socket, to be received in place later.
const LARGE_PAYLOAD_BYTES: usize = 32 << 10;
/// 128 KiB: a read or write of this size or more goes to the device before the next request is parsed. If the device answers at
/// once, its buffer then serves the next one too, while it is still in the processor's cache.
const ALONE_BYTES: usize = 128 << 10;
/// Of many small requests that arrive at once, 4 go to the device first, and then twice as many each time, up to 16. Replies to a
/// group leave before the next group is served. So the client sends its next requests meanwhile; otherwise it would sleep until
/// all replies are there (docs/TRIED.md).
const FIRST_GROUP: usize = 4;
const GROUP_MAX: usize = 16;
/// 4 KiB: what is received behind a large payload; most often the next header, and little to copy.
const STAGING_BEHIND_LARGE_BYTES: usize = 4 << 10;

/// The limits of one client's requests in flight.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub requests_max: usize,
    pub bytes_max: usize,
}

/// The stream is invalid from here on; the connection must close.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

/// The work for a client so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub requests: u64,
    pub errors: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// What a client must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Take its replies.
    Replies,
    /// Send the data of a write.
    Data,
    /// Send the rest of a request, or of the TLS record that it is in.
    Request,
}

/// A request that the device has.
#[derive(Clone, Copy, Debug)]
struct Slot {
    header: RequestHeader,
    work: Work,
    charge_bytes: usize,
}

/// A write whose data is arriving.
#[derive(Debug)]
struct Payload {
    slot: Slot,
    buffer: Buffer,
    filled: usize,
}

/// One client's transmission.
pub struct Session {
    facts: Arc<Facts>,
    structured: bool,
    allocation: bool,
    caps: Caps,
    lease: Lease,
    pool: Pool,
    /// Received and not parsed yet: `staging[start..end]`. Empty while the client is idle.
    staging: Vec<u8>,
    start: usize,
    end: usize,
    /// The end of the part of `staging` that the next receive may fill.
    staging_bytes_max: usize,
    payload: Option<Payload>,
    /// Payload of a refused write that must still be skipped.
    skip_bytes: u64,
    /// Indexed by the tags of requests; those in `vacant` are free.
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    outbox: Outbox,
    requests_in_flight: usize,
    bytes_in_flight: usize,
    /// The next request must wait until a request in flight ends, or memory is lent.
    blocked: bool,
    /// The next request must wait until the device has the requests parsed so far.
    paused: bool,
    /// Requests go to the device in groups.
    is_grouped: bool,
    /// The size of the present group.
    group: usize,
    ended: bool,
    /// The device does not come back: requests are refused.
    shut_down: bool,
    counters: Counters,
    /// Payload bytes received in place and reply bytes sent, to distinguish a slow client from a stalled one.
    moved_bytes: u64,
}

impl Session {
    /// The transmission that was agreed on; `received` arrived with the handshake.
    pub fn new(agreement: Agreement, caps: Caps, lease: Lease, received: &[u8]) -> Self {
        let mut staging = vec![0; STAGING_BYTES.max(received.len())];
        staging[..received.len()].copy_from_slice(received);
        Self {
            facts: agreement.facts,
            structured: agreement.structured,
            allocation: agreement.allocation,
            caps,
            lease,
            pool: Pool::default(),
            staging,
            start: 0,
            end: received.len(),
            staging_bytes_max: STAGING_BYTES,
            payload: None,
            skip_bytes: 0,
            slots: Vec::new(),
            vacant: Vec::new(),
            outbox: Outbox::default(),
            requests_in_flight: 0,
            bytes_in_flight: 0,
            blocked: false,
            paused: false,
            is_grouped: false,
            group: usize::MAX,
            ended: false,
            shut_down: false,
            counters: Counters::default(),
            moved_bytes: 0,
        }
    }

    /// Whether requests go to the device in groups: where the device answers small requests on the thread that parses them.
    pub fn set_grouped(&mut self, is_grouped: bool) {
        self.is_grouped = is_grouped;
    }

    /// True if bytes from the client can be used now.
    pub fn wants_input(&self) -> bool {
        !self.ended && !self.blocked && !self.paused
    }

    /// True if parsing must go on once the device has the requests parsed so far.
    pub fn wants_turn(&self) -> bool {
        self.paused
    }

    /// Where to put the next bytes, the first slice first. Only while [`Session::wants_input`].
    pub fn space(&mut self) -> [&mut [u8]; 2] {
        debug_assert!(self.wants_input(), "receiving without a use for it");
        if self.staging.is_empty() {
            self.staging.resize(STAGING_BYTES, 0);
        }
        if self.start > 0 {
            self.staging.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let payload = match &mut self.payload {
            Some(payload) => &mut payload.buffer[payload.filled..],
            None => &mut [],
        };
        let limit = self.staging_bytes_max.max(self.end + RequestHeader::BYTES).min(self.staging.len());
        [payload, &mut self.staging[self.end..limit]]
    }

    /// `len` bytes were put where [`Session::space`] said.
    pub fn received(&mut self, mut len: usize) {
        self.moved_bytes += len as u64;
        if let Some(payload) = &mut self.payload {
            let part = len.min(payload.buffer.len() - payload.filled);
            payload.filled += part;
            len -= part;
        }
        self.end += len;
        assert!(self.end <= self.staging.len(), "received more than there was space for");
    }

    /// No more input comes from the client. Requests in flight run to their end.
    pub fn end_input(&mut self) {
        self.ended = true;
        self.lease.withdraw();
        if let Some(payload) = self.payload.take() {
            self.release(payload.slot.charge_bytes);
        }
    }

    /// From now on requests fail with `ESHUTDOWN`. Those in flight run to their end.
    pub fn shut_down(&mut self) {
        self.shut_down = true;
    }

    /// Turns the received bytes into requests to the device, as far as the limits allow.
    ///
    /// # Errors
    /// [`Broken`] if the client violates the protocol.
    pub fn parse(&mut self, requests: &mut Vec<Request>) -> Result<(), Broken> {
        self.group = match (self.is_grouped, self.paused) {
            (false, _) => usize::MAX,
            (true, false) => FIRST_GROUP,
            (true, true) => (2 * self.group).min(GROUP_MAX),
        };
        (self.blocked, self.paused) = (false, false);
        loop {
            if self.skip_bytes > 0 {
                let part = self.skip_bytes.min((self.end - self.start) as u64);
                self.skip_bytes -= part;
                self.start += part as usize;
                if self.skip_bytes > 0 {
                    return Ok(());
                }
            }
            if let Some(payload) = &mut self.payload {
                let part = (payload.buffer.len() - payload.filled).min(self.end - self.start);
                payload.buffer[payload.filled..][..part].copy_from_slice(&self.staging[self.start..][..part]);
                payload.filled += part;
                self.start += part;
                if payload.filled < payload.buffer.len() {
                    return Ok(());
                }
            }
            if let Some(Payload { slot, buffer, .. }) = self.payload.take() {
                let fua = matches!(slot.work, Work::Write { fua: true });
                self.paused = buffer.len() >= ALONE_BYTES;
                let operation = Operation::Write { from: smallvec![buffer.freeze()], fua };
                requests.push(self.submit(slot, operation));
            }
            let is_small = |request: &Request| request.sectors < (LARGE_PAYLOAD_BYTES / SECTOR_BYTES) as u64;
            self.paused |= requests.len() >= self.group && self.start < self.end && requests.last().is_some_and(is_small);
            if self.paused || self.ended {
                return Ok(());
            }
            let Some(bytes) = self.staging[self.start..self.end].first_chunk() else { return Ok(()) };
            let header = RequestHeader::decode(bytes).ok_or(Broken("wrong request magic"))?;
            let verdict = match self.shut_down && header.command != command::DISC {
                false => examine(&header, &self.facts, self.structured, self.allocation),
                true => Err(Refusal { errno: Errno::Shutdown, message: "the array was stopped" }),
            };
            let charge_bytes = verdict.as_ref().map_or(CHARGE_BYTES_MIN, |work| work.charge_bytes(&header, &self.facts));
            let bytes = self.bytes_in_flight + charge_bytes;
            let room =
                self.requests_in_flight < self.caps.requests_max && (bytes <= self.caps.bytes_max || self.bytes_in_flight == 0);
            if !room || !self.lease.reach(bytes) {
                self.blocked = true;
                return Ok(());
            }
            self.start += RequestHeader::BYTES;
            self.requests_in_flight += 1;
            self.bytes_in_flight += charge_bytes;
            match verdict {
                Ok(work) => self.begin(Slot { header, work, charge_bytes }, requests),
                Err(refusal) => self.refuse(&header, &refusal),
            }
        }
    }

    fn begin(&mut self, slot: Slot, requests: &mut Vec<Request>) {
        let length = slot.header.length_bytes as usize;
        let operation = match slot.work {
            Work::Disconnect => {
                self.release(slot.charge_bytes);
                return self.end_input();
            }
            Work::Nothing => return self.succeed(slot, Body::None),
            Work::Write { .. } => {
                let large = length >= LARGE_PAYLOAD_BYTES;
                self.staging_bytes_max = if large { STAGING_BEHIND_LARGE_BYTES } else { STAGING_BYTES };
                self.payload = Some(Payload { slot, buffer: self.take(length), filled: 0 });
                return;
            }
            Work::Read => {
                self.paused = length >= ALONE_BYTES;
                let blocks = blocks(&slot.header, &self.facts);
                Operation::Read { into: smallvec![self.take((blocks.end - blocks.start) as usize)] }
            }
            Work::Flush => Operation::Flush,
            Work::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua, unmap, fast },
            Work::Status { .. } => Operation::Extents { extents: Vec::new() },
        };
        requests.push(self.submit(slot, operation));
    }

    /// Memory for a request that is charged already.
    fn take(&mut self, len: usize) -> Buffer {
        self.pool.take_within(len, self.lease.bytes() - self.bytes_in_flight)
    }

    /// True if the next request waits for memory that other clients have: try again soon.
    pub fn wants_memory(&self) -> bool {
        self.blocked && self.lease.waits()
    }

    /// True once after its request has begun to wait while no other client's did.
    pub fn begins_queue(&mut self) -> bool {
        self.lease.begins_queue()
    }

    /// Returns unused memory if others wait for it.
    pub fn share_memory(&mut self) {
        if self.lease.is_wanted() {
            self.pool.shrink_to(0);
            self.lease.shrink_to(self.bytes_in_flight);
        }
    }

    fn submit(&mut self, slot: Slot, operation: Operation) -> Request {
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[index as usize] = slot;
        let bytes = blocks(&slot.header, &self.facts);
        let start_sector = bytes.start / SECTOR_BYTES as u64;
        Request { tag: u64::from(index), start_sector, sectors: bytes.end / SECTOR_BYTES as u64 - start_sector, operation }
    }

    /// A request has ended. It may need another one (the flush after a discard with FUA).
    ///
    /// # Panics
    /// When the tag is not that of a request of this session.
    pub fn complete(&mut self, completion: Completion) {
        let slot = self.slots[completion.tag as usize];
        self.vacant.push(completion.tag as u32);
        match (completion.result, completion.operation) {
            (Ok(()), Operation::Read { into }) => {
                let bytes = blocks(&slot.header, &self.facts);
                let skip = (slot.header.offset_bytes - bytes.start) as usize;
                let len = slot.header.length_bytes as usize;
                let is_unsplit = len as u64 == bytes.end - bytes.start;
                let into = if is_unsplit { into } else { part_of(into, skip, len) };
                self.succeed(slot, Body::Buffers(into));
            }
            (Ok(()), Operation::Extents { extents }) => {
                let sectors = u64::from(slot.header.length_bytes) / SECTOR_BYTES as u64;
                let block_sectors = u64::from(self.facts.block_min_bytes) / SECTOR_BYTES as u64;
                let one = matches!(slot.work, Work::Status { one: true });
                self.succeed(slot, Body::Bytes(extents::descriptors(&extents, sectors, block_sectors, one)));
            }
            (result, operation) => {
                self.recycle(operation);
                match result {
                    Ok(()) => self.succeed(slot, Body::None),
                    Err(error) => self.fail(slot, &error),
                }
            }
        }
    }

    fn recycle(&mut self, operation: Operation) {
        match operation {
            Operation::Read { into } => into.into_iter().for_each(|buffer| self.pool.give(buffer)),
            Operation::Write { from, .. } => {
                for data in from {
                    let claim = data.claim();
                    drop(data);
                    self.pool.give_claim(claim);
                }
            }
            Operation::Flush | Operation::Extents { .. } | Operation::WriteZeroes { .. } => {}
        }
    }

    fn succeed(&mut self, slot: Slot, body: Body) {
        let Slot { header, work, charge_bytes } = slot;
        let cookie = header.cookie;
        let head = match (&body, header.command) {
            (Body::Buffers(_), _) if self.structured => ReplyHead::read_chunk(cookie, header.offset_bytes, header.length_bytes),
            (Body::Bytes(bytes), _) => ReplyHead::chunk(cookie, chunk::BLOCK_STATUS, bytes.len() as u32),
            (Body::None, command::READ) if self.structured => ReplyHead::chunk(cookie, chunk::NONE, 0),
            (Body::None | Body::Buffers(_), _) => ReplyHead::simple(cookie, 0),
        };
        match work {
            Work::Read => self.counters.read_bytes += u64::from(header.length_bytes),
            Work::Write { .. } => self.counters.written_bytes += u64::from(header.length_bytes),
            _ => {}
        }
        self.counters.requests += 1;
        self.outbox.push(Reply { head, body, charge_bytes });
    }

    fn fail(&mut self, slot: Slot, error: &IoError) {
        let errno = match (error.kind, slot.work) {
            (ErrorKind::Unsupported, Work::WriteZeroes { fast: true, .. }) => Errno::NotSupported,
            (ErrorKind::Unsupported | ErrorKind::Invalid, _) => Errno::Invalid,
            (ErrorKind::NoSpace, _) => Errno::NoSpace,
            (ErrorKind::Medium | ErrorKind::Gone | ErrorKind::Failed | ErrorKind::Other, _) => Errno::Io,
        };
        self.reply_error(&slot.header, errno, &error.context, slot.charge_bytes);
    }

    fn refuse(&mut self, header: &RequestHeader, refusal: &Refusal) {
        if header.command == command::WRITE {
            self.skip_bytes = u64::from(header.length_bytes);
            self.staging_bytes_max = STAGING_BYTES;
        }
        self.reply_error(header, refusal.errno, refusal.message, CHARGE_BYTES_MIN);
    }

    fn reply_error(&mut self, header: &RequestHeader, errno: Errno, message: &str, charge_bytes: usize) {
        self.counters.requests += 1;
        self.counters.errors += 1;
        let reply = if self.structured {
            let len = (0..=MESSAGE_BYTES_MAX).rev().find(|&len| message.is_char_boundary(len)).unwrap_or(0);
            let message = &message[..len];
            let mut bytes = Vec::with_capacity(6 + message.len());
            bytes.extend_from_slice(&(errno as u32).to_be_bytes());
            bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
            bytes.extend_from_slice(message.as_bytes());
            let head = ReplyHead::chunk(header.cookie, chunk::ERROR, bytes.len() as u32);
            Reply { head, body: Body::Bytes(bytes), charge_bytes }
        } else {
            Reply { head: ReplyHead::simple(header.cookie, errno as u32), body: Body::None, charge_bytes }
        };
        self.outbox.push(reply);
    }

    fn release(&mut self, charge_bytes: usize) {
        self.requests_in_flight -= 1;
        self.bytes_in_flight -= charge_bytes;
    }

    /// True if replies wait to be sent.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The bytes to send next, in order; as many as fit in `slices`.
    pub fn slices<'a, const N: usize>(&'a self, slices: &mut smallvec::SmallVec<[IoSlice<'a>; N]>) {
        self.outbox.slices(slices);
    }

    /// The first `len` of those bytes were sent.
    pub fn sent(&mut self, mut len: usize) {
        self.moved_bytes += len as u64;
        while let Some(reply) = self.outbox.sent(&mut len) {
            self.release(reply.charge_bytes);
            if let Body::Buffers(buffers) = reply.body {
                self.recycle(Operation::Read { into: buffers });
            }
        }
    }

    /// True if the client has ended, or was ended.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// True if the client has ended, and all its requests have ended and are answered.
    pub fn finished(&self) -> bool {
        self.ended && self.requests_in_flight == 0
    }

    /// Memory in use or stored for reuse, without the buffer for what is received.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn held_bytes(&self) -> usize {
        self.bytes_in_flight + self.pool.kept_bytes()
    }

    /// Asserts the invariants after every step.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn check(&self, caps: Caps) {
        assert!(self.requests_in_flight <= caps.requests_max, "{} requests", self.requests_in_flight);
        assert!(self.requests_at_device() <= self.requests_in_flight);
        assert!(self.bytes_in_flight <= caps.bytes_max.max(Pool::held_bytes(self.facts.payload_bytes_max as usize)));
        assert!(self.bytes_in_flight <= self.lease.bytes(), "{} bytes in flight", self.bytes_in_flight);
        assert!(self.staging.len() <= STAGING_BYTES.max(OPTION_HEADER_BYTES + OPTION_BYTES_MAX));
    }

    /// Requests that the device has.
    pub fn requests_at_device(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// What the client must do next, if anything.
    pub fn owed_by_client(&self) -> Option<Owed> {
        match () {
            () if self.has_output() => Some(Owed::Replies),
            () if self.ended => None,
            () if self.payload.is_some() || self.skip_bytes > 0 => Some(Owed::Data),
            () if self.start < self.end && self.wants_input() => Some(Owed::Request),
            () => None,
        }
    }

    /// How many bytes have moved either way.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// The client is gone: replies are dropped, and the requests at the device are only waited for.
    pub fn abandon(&mut self) {
        self.end_input();
        (self.outbox, self.pool) = (Outbox::default(), Pool::default());
        (self.staging, self.start, self.end) = (Vec::new(), 0, 0);
        self.bytes_in_flight = self.slots.iter().map(|slot| slot.charge_bytes).sum();
        for &vacant in &self.vacant {
            self.bytes_in_flight -= self.slots[vacant as usize].charge_bytes;
        }
        self.requests_in_flight = self.requests_at_device();
        self.lease.shrink_to(self.bytes_in_flight);
    }

    /// A request of an abandoned session has ended, and its memory is freed.
    pub fn forget(&mut self, completion: Completion) {
        let charge_bytes = self.slots[completion.tag as usize].charge_bytes;
        self.vacant.push(completion.tag as u32);
        drop(completion);
        self.release(charge_bytes);
        self.lease.shrink_to(self.bytes_in_flight);
    }

    /// True if nothing is in flight, but memory is held for the client's next request.
    pub fn keeps_warm(&self) -> bool {
        let is_idle = self.requests_in_flight == 0 && !self.blocked;
        is_idle
            && (self.pool.kept_bytes() > 0 || self.lease.is_borrowing() || (self.start == self.end && !self.staging.is_empty()))
    }

    /// Returns the memory that an idle client does not need. A part of a header stays, which the client may never complete.
    pub fn cool(&mut self) {
        if self.keeps_warm() {
            self.pool = Pool::default();
            self.lease.shrink_to(0);
            if self.start == self.end {
                (self.staging, self.start, self.end) = (Vec::new(), 0, 0);
            }
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn requests_in_flight(&self) -> usize {
        self.requests_in_flight
    }
}

/// `len` of these bytes, after `skip` others.
fn part_of(buffers: Segments<Buffer>, mut skip: usize, mut len: usize) -> Segments<Buffer> {
    let part = |mut buffer: Buffer| {
        let skipped = skip.min(buffer.len());
        drop(buffer.split_to(skipped));
        let part = buffer.split_to(len.min(buffer.len()));
        (skip, len) = (skip - skipped, len - part.len());
        part
    };
    buffers.into_iter().map(part).collect()
}

/// 1 KiB of the protocol's 4 KiB: error messages are short.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests;
