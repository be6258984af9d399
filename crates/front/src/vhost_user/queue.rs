//! One running queue: a [`LaneClient`] on a lane of its device, or on a thread of its own.
//!
//! A turn puts completed requests into the used ring, takes new requests from the available ring, and notifies the driver once.
//! Reads are copied to guest memory when they end, writes are copied from it when they begin: without the copy a driver that
//! alters its memory meanwhile could make parity differ from data.
//!
//! Invariants: a descriptor heads at most one request at a time, so a queue of N has at most N. Their memory is within the
//! [`Lease`]; beyond that the ring is not read. A ring that breaks the rules is not used until the front-end stops it.

use super::chain::{Chain, Map, Ranges, write};
use super::command::{Command, Status, Work};
use super::config::Facts;
use super::inflight::InflightRing;
use crate::apart::Wake;
use crate::budget::{Budget, CHARGE_BYTES_MIN, Lease};
use crate::talk::Talk;
use log::Level;
use smallvec::smallvec;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use stria_block::{Completion, KeepOn, LaneClient, Nanos, Operation, Pool, RemoteDevice, Request, SECTOR_BYTES};
use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

/// The most requests that one turn begins. After that the lane's other clients have their turns.
const BEGUN_MAX: usize = 64;
/// One second: then an idle queue's buffers return to the system.
const COOL_AFTER: Nanos = 1_000_000_000;
/// 5 ms: how long a queue that waits for memory sleeps before it asks again.
const LOOK_FOR_MEMORY_AFTER: Nanos = 5_000_000;
/// 10 s: how long a queue of a server that stops waits for the device. The next server repeats the remaining requests.
const DRAIN_WITHIN: Nanos = 10_000_000_000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that the queues of one connection share.
pub(super) struct Common {
    pub facts: Facts,
    device: Weak<dyn RemoteDevice>,
    /// For messages.
    pub peer: String,
    pub talk: Arc<Talk>,
    pub budget: Arc<Budget>,
    /// The memory that each queue may always use.
    pub share_bytes: usize,
    pub queues: Vec<Line>,
    memory: Mutex<Arc<Map>>,
    memory_version: AtomicU64,
    /// Writes are durable when they end.
    pub writes_through: AtomicBool,
    /// The server stops.
    pub closing: AtomicBool,
}

impl Common {
    pub fn new(
        facts: Facts,
        device: &Arc<dyn RemoteDevice>,
        peer: String,
        talk: Arc<Talk>,
        budget: Arc<Budget>,
        share_bytes: usize,
        queues: Vec<Line>,
    ) -> Self {
        Self {
            facts,
            device: Arc::downgrade(device),
            peer,
            talk,
            budget,
            share_bytes,
            queues,
            memory: Mutex::new(Arc::new(Map::new())),
            memory_version: AtomicU64::new(0),
            writes_through: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Gives every running queue a turn.
    pub fn poke(&self) {
        if let Some(device) = self.device.upgrade() {
            device.stir();
        }
        self.queues.iter().for_each(|line| line.wake.ring());
    }

    pub fn memory(&self) -> Arc<Map> {
        Arc::clone(&lock(&self.memory))
    }

    pub fn set_memory(&self, map: Map) {
        *lock(&self.memory) = Arc::new(map);
        self.memory_version.fetch_add(1, Ordering::SeqCst);
    }
}

/// The work of a queue so far.
#[derive(Default)]
pub(super) struct Counters {
    pub requests: AtomicU64,
    pub errors: AtomicU64,
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub in_flight: AtomicU64,
}

/// Adds to a counter that only the running queue changes: others read it, so that no locked instruction is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// A queue as its connection reaches it.
pub(super) struct Line {
    pub wake: Arc<Wake>,
    pub counters: Counters,
    is_enabled: AtomicBool,
    is_stopping: AtomicBool,
    /// Notifies the driver of used buffers.
    call: Mutex<Option<OwnedFd>>,
    /// Notifies the front-end of a broken ring.
    error: Mutex<Option<OwnedFd>>,
    run: Mutex<Running>,
    run_ended: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    Yes,
    /// The position in the available ring where the next run begins.
    No(u16),
}

impl Line {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            wake: Arc::new(Wake::new()?),
            counters: Counters::default(),
            is_enabled: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            call: Mutex::new(None),
            error: Mutex::new(None),
            run: Mutex::new(Running::No(0)),
            run_ended: Condvar::new(),
        })
    }

    pub fn is_running(&self) -> bool {
        *lock(&self.run) == Running::Yes
    }

    pub fn set_enabled(&self, enabled: bool) {
        self.is_enabled.store(enabled, Ordering::SeqCst);
    }

    /// The driver is interrupted at once: it may have missed an interrupt before it got this file, and with event indexes it gets
    /// no other one for what it has missed.
    pub fn set_call(&self, file: Option<OwnedFd>) {
        *lock(&self.call) = file;
        signal(&self.call);
    }

    pub fn set_error(&self, file: Option<OwnedFd>) {
        *lock(&self.error) = file;
    }

    /// Where the next run begins.
    pub fn set_base(&self, base: u16) {
        *lock(&self.run) = Running::No(base);
    }

    /// From its next turn on the queue takes no new requests, and leaves when it has none.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Waits until the queue does not run. Returns where its next run begins.
    pub fn wait(&self) -> u16 {
        let mut run = lock(&self.run);
        loop {
            match *run {
                Running::No(base) => return base,
                Running::Yes => run = self.run_ended.wait(run).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Signals an eventfd without blocking. A full counter is a signal already.
fn signal(file: &Mutex<Option<OwnedFd>>) {
    if let Some(file) = &*lock(file) {
        let _ = rustix::io::write(file, &1u64.to_ne_bytes());
    }
}

/// The driver broke the rules of the ring, in words.
#[derive(Debug)]
struct Broken(&'static str);

/// A request that the device has.
struct Slot {
    answer: Ranges,
    status: GuestAddress,
    /// Requests to the device that have not ended.
    pending: usize,
    /// The first error.
    outcome: Status,
    /// Bytes of the answer.
    answer_bytes: usize,
    read_bytes: usize,
    written_bytes: usize,
    charge_bytes: usize,
}

/// The memory that a request takes while the device has it: first that of its buffer, then its whole charge. Each range to zero
/// is charged like a request.
fn charge_of(command: &Command) -> (usize, usize) {
    let (held_bytes, others) = match &command.work {
        Ok(Work::Read { bytes, .. } | Work::Write { bytes, .. }) => (Pool::held_bytes(*bytes), 0),
        Ok(Work::Zero(ranges)) => (0, ranges.len() * CHARGE_BYTES_MIN),
        Ok(Work::Flush | Work::Identify(_)) | Err(_) => (0, 0),
    };
    (held_bytes, held_bytes.max(CHARGE_BYTES_MIN) + others + command.answer.spilled_bytes())
}

/// A queue that runs.
pub(super) struct Run {
    common: Arc<Common>,
    index: usize,
    kick: Arc<OwnedFd>,
    queue: Queue,
    map: Arc<Map>,
    map_version: u64,
    inflight: Option<InflightRing>,
    /// Heads of requests that the last server did not end.
    again: VecDeque<u16>,
    /// The requests that the device has, by head.
    slots: Vec<Option<Slot>>,
    in_flight: usize,
    bytes_in_flight: usize,
    lease: Lease,
    pool: Pool,
    /// The rings lie in the memory that the front-end shares now.
    has_rings: bool,
    /// Requests that ended while the rings were not there.
    unanswered: Vec<Completion>,
    is_broken: bool,
    has_used: bool,
    idle_since: Nanos,
    leaves_by: Option<Nanos>,
}

impl Run {
    /// `queue` is set up and valid; `again`: heads that `inflight` named.
    pub fn new(
        common: Arc<Common>,
        index: usize,
        kick: Arc<OwnedFd>,
        queue: Queue,
        inflight: Option<InflightRing>,
        again: Vec<u16>,
    ) -> Self {
        let line = &common.queues[index];
        line.is_stopping.store(false, Ordering::SeqCst);
        *lock(&line.run) = Running::Yes;
        // An earlier server may have been killed after it ended requests and before it interrupted the driver.
        signal(&line.call);
        let slots = (0..queue.size()).map(|_| None).collect();
        let (lease, map) = (common.budget.lease(common.share_bytes), common.memory());
        Self {
            index,
            kick,
            queue,
            map,
            map_version: common.memory_version.load(Ordering::SeqCst),
            inflight,
            again: again.into(),
            slots,
            in_flight: 0,
            bytes_in_flight: 0,
            lease,
            pool: Pool::default(),
            has_rings: true,
            unanswered: Vec::new(),
            is_broken: false,
            has_used: false,
            idle_since: 0,
            leaves_by: None,
            common,
        }
    }

    fn line(&self) -> &Line {
        &self.common.queues[self.index]
    }

    fn advance(
        &mut self,
        now: Nanos,
        signalled: bool,
        ended: &mut Vec<Completion>,
        requests: &mut Vec<Request>,
    ) -> Result<KeepOn, Broken> {
        if signalled {
            // Fails only if the kick was read already.
            let _ = rustix::io::read(&*self.kick, &mut [0; 8]);
        }
        let version = self.common.memory_version.load(Ordering::SeqCst);
        if version != self.map_version {
            (self.map, self.map_version) = (self.common.memory(), version);
            self.set_has_rings(self.queue.is_valid(&*self.map));
        }
        if !self.has_rings {
            return Ok(self.await_rings(now, ended));
        }
        if !self.unanswered.is_empty() {
            // In the order in which they ended.
            self.unanswered.append(ended);
            std::mem::swap(&mut self.unanswered, ended);
        }
        if !ended.is_empty() {
            self.idle_since = now;
        }
        let mut outcome = Ok(());
        for completion in ended.drain(..) {
            match outcome {
                Ok(()) => outcome = self.complete(completion),
                Err(_) => self.forget(&completion),
            }
        }
        outcome?;
        let takes = self.line().is_enabled.load(Ordering::SeqCst) && !self.line().is_stopping.load(Ordering::SeqCst);
        let taken = if takes { self.take_requests(requests)? } else { Taken::All };
        // Idle queues may have borrowed what this one waits for.
        if self.lease.begins_queue() {
            self.common.poke();
        }
        if !takes {
            self.give_memory_back();
        }
        if !requests.is_empty() {
            self.idle_since = now;
        }
        self.notify()?;
        if self.lease.is_wanted() {
            self.pool.shrink_to(0);
            self.lease.shrink_to(self.bytes_in_flight);
        }
        self.line().counters.in_flight.store(self.in_flight as u64, Ordering::Relaxed);
        Ok(match taken {
            _ if !takes && self.line().is_stopping.load(Ordering::SeqCst) => self.leave(now),
            Taken::Some => KeepOn::Again,
            Taken::All => KeepOn::Wait { readable: true, writable: false, until: self.cool(now) },
            Taken::Starved => {
                let until = self.lease.waits().then(|| now.saturating_add(LOOK_FOR_MEMORY_AFTER));
                KeepOn::Wait { readable: true, writable: false, until }
            }
        })
    }

    fn set_has_rings(&mut self, has_rings: bool) {
        if self.has_rings && !has_rings {
            let (peer, index) = (&self.common.peer, self.index);
            let words =
                format_args!("queue {index} of vhost-user client {peer} waits: its rings are outside of the remaining memory");
            self.common.talk.say(Level::Warn, words);
        }
        self.has_rings = has_rings;
    }

    /// A turn while the rings' memory is not there: a front-end removes and adds memory when it arranges it anew. Requests that
    /// end meanwhile are answered once the rings are back. If the queue is stopped before, the memory for requests in flight
    /// still has them.
    fn await_rings(&mut self, now: Nanos, ended: &mut Vec<Completion>) -> KeepOn {
        self.unanswered.append(ended);
        self.give_memory_back();
        if !self.line().is_stopping.load(Ordering::SeqCst) {
            return KeepOn::Wait { readable: false, writable: false, until: None };
        }
        std::mem::take(&mut self.unanswered).iter().for_each(|completion| self.forget(completion));
        self.leave(now)
    }

    /// Takes what the driver has made available, as far as there is memory for it.
    fn take_requests(&mut self, requests: &mut Vec<Request>) -> Result<Taken, Broken> {
        const LEFT: Broken = Broken("its used ring is outside of memory");
        self.queue.disable_notification(&*self.map).map_err(|_| LEFT)?;
        for _ in 0..BEGUN_MAX {
            let is_again = !self.again.is_empty();
            let head = match self.again.pop_front() {
                Some(head) => head,
                None => {
                    let mut available =
                        self.queue.iter(&*self.map).map_err(|_| Broken("its available index is beyond the ring"))?;
                    match available.next() {
                        Some(chain) => chain.head_index(),
                        None if self.queue.enable_notification(&*self.map).map_err(|_| LEFT)? => continue,
                        None => return Ok(Taken::All),
                    }
                }
            };
            if !self.begin(head, is_again, requests)? {
                match is_again {
                    true => self.again.push_front(head),
                    false => self.queue.go_to_previous_position(),
                }
                return Ok(Taken::Starved);
            }
        }
        Ok(Taken::Some)
    }

    /// Begins the request at `head`. False if it must wait for memory.
    fn begin(&mut self, head: u16, is_again: bool, requests: &mut Vec<Request>) -> Result<bool, Broken> {
        match self.slots.get(usize::from(head)) {
            None => return Err(Broken("it made a descriptor available that its table does not have")),
            Some(Some(_)) => return Err(Broken("it made a descriptor available twice")),
            Some(None) => {}
        }
        let chain = Chain::read(&self.map, self.queue.desc_table(), self.queue.size(), head);
        let command = chain.ok().and_then(|chain| Command::of(chain, &self.map, &self.common.facts));
        let (held_bytes, charge_bytes) = command.as_ref().map_or((0, 0), charge_of);
        if !self.lease.reach(self.bytes_in_flight + charge_bytes) {
            return Ok(false);
        }
        if let Some(inflight) = self.inflight.as_mut().filter(|_| !is_again) {
            inflight.begin(head);
        }
        let Some(Command { work, data, answer, status }) = command else {
            self.count(Status::IoError);
            self.put_used(head, 0)?;
            return Ok(true);
        };
        let slot = Slot {
            answer,
            status,
            pending: 1,
            outcome: Status::Ok,
            answer_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            charge_bytes,
        };
        let fua = self.common.writes_through.load(Ordering::SeqCst);
        // For this request's buffer and the stored ones.
        let room_bytes = self.lease.bytes() - self.bytes_in_flight - (charge_bytes - held_bytes);
        if held_bytes == 0 {
            self.pool.shrink_to(room_bytes);
        }
        let tag = u64::from(head);
        let mut send = |start_sector, sectors, operation| requests.push(Request { tag, start_sector, sectors, operation });
        let slot = match work {
            Err(outcome) => return self.end(head, Slot { outcome, charge_bytes: 0, ..slot }),
            Ok(Work::Read { start_sector, bytes }) => {
                let buffer = self.pool.take_within(bytes, room_bytes);
                send(start_sector, (bytes / SECTOR_BYTES) as u64, Operation::Read { into: smallvec![buffer] });
                Slot { answer_bytes: bytes, read_bytes: bytes, ..slot }
            }
            Ok(Work::Write { start_sector, bytes }) => {
                let mut buffer = self.pool.take_within(bytes, room_bytes);
                if data.read(&self.map, super::command::HEADER_BYTES, &mut buffer).is_err() {
                    self.pool.give(buffer);
                    return self.end(head, Slot { outcome: Status::IoError, charge_bytes: 0, ..slot });
                }
                send(start_sector, (bytes / SECTOR_BYTES) as u64, Operation::Write { from: smallvec![buffer.freeze()], fua });
                Slot { written_bytes: bytes, ..slot }
            }
            Ok(Work::Flush) => {
                send(0, 0, Operation::Flush);
                slot
            }
            Ok(Work::Zero(ranges)) if ranges.is_empty() => return self.end(head, slot),
            Ok(Work::Zero(ranges)) => {
                for range in &ranges {
                    let operation = Operation::WriteZeroes { fua, unmap: range.unmap, fast: false };
                    send(range.start_sector, range.sectors, operation);
                }
                Slot { pending: ranges.len(), ..slot }
            }
            Ok(Work::Identify(id)) => {
                let outcome = slot.answer.write(&self.map, 0, &id).map_or(Status::IoError, |()| Status::Ok);
                return self.end(head, Slot { outcome, answer_bytes: id.len(), ..slot });
            }
        };
        self.bytes_in_flight += charge_bytes;
        self.in_flight += 1;
        self.slots[usize::from(head)] = Some(slot);
        Ok(true)
    }

    /// A request to the device has ended.
    fn complete(&mut self, completion: Completion) -> Result<(), Broken> {
        let head = completion.tag as u16;
        let slot = self.slots[usize::from(head)].as_mut().expect("a device ends each of its requests once");
        slot.pending -= 1;
        let status = Status::of(&completion.result);
        if slot.outcome == Status::Ok {
            slot.outcome = status;
        }
        match completion.operation {
            Operation::Read { into } => {
                let mut skip = 0;
                for buffer in into {
                    if slot.outcome == Status::Ok && slot.answer.write(&self.map, skip, &buffer).is_err() {
                        slot.outcome = Status::IoError;
                    }
                    skip += buffer.len();
                    self.pool.give(buffer);
                }
            }
            Operation::Write { from, .. } => from.into_iter().for_each(|data| self.pool.give_claim(data.into_claim())),
            Operation::Flush | Operation::Extents { .. } | Operation::WriteZeroes { .. } => {}
        }
        if slot.pending > 0 {
            return Ok(());
        }
        let slot = self.slots[usize::from(head)].take().expect("it is there");
        self.in_flight -= 1;
        self.bytes_in_flight -= slot.charge_bytes;
        self.end(head, slot).map(|_| ())
    }

    /// Tells the driver how a request ended.
    fn end(&mut self, head: u16, slot: Slot) -> Result<bool, Broken> {
        let counters = &self.line().counters;
        if slot.outcome == Status::Ok {
            add(&counters.read_bytes, slot.read_bytes as u64);
            add(&counters.written_bytes, slot.written_bytes as u64);
        }
        self.count(slot.outcome);
        let is_told = write(&self.map, slot.status, &[slot.outcome as u8]).is_ok();
        // All bytes before the status count as written only if all of them are.
        let data_bytes = if slot.outcome == Status::Ok { slot.answer_bytes } else { 0 };
        self.put_used(head, if is_told { data_bytes as u32 + 1 } else { 0 })?;
        Ok(true)
    }

    fn count(&self, outcome: Status) {
        let counters = &self.line().counters;
        add(&counters.requests, 1);
        add(&counters.errors, u64::from(outcome != Status::Ok));
    }

    fn put_used(&mut self, head: u16, len: u32) -> Result<(), Broken> {
        if let Some(inflight) = &mut self.inflight {
            inflight.name_last(head);
        }
        self.queue.add_used(&*self.map, head, len).map_err(|_| Broken("its used ring is outside of memory"))?;
        if let Some(inflight) = &mut self.inflight {
            inflight.end(head, self.queue.next_used());
        }
        self.has_used = true;
        Ok(())
    }

    /// Interrupts the driver if the used ring has new entries and the driver wants to be notified.
    fn notify(&mut self) -> Result<(), Broken> {
        const LEFT: Broken = Broken("its available ring is outside of memory");
        if !std::mem::take(&mut self.has_used) || !self.queue.needs_notification(&*self.map).map_err(|_| LEFT)? {
            return Ok(());
        }
        if !self.queue.event_idx_enabled() {
            let flags = self.map.load::<u16>(GuestAddress(self.queue.avail_ring()), Ordering::Relaxed).map_err(|_| LEFT)?;
            if u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT != 0 {
                return Ok(());
            }
        }
        signal(&self.line().call);
        Ok(())
    }

    /// A queue that takes no requests keeps only the memory of those that the device has, and waits for no more.
    fn give_memory_back(&mut self) {
        self.lease.withdraw();
        self.pool.shrink_to(0);
        self.lease.shrink_to(self.bytes_in_flight);
    }

    /// Gives the memory of a queue that has been idle for long enough back to the system. Returns until when memory is kept, if
    /// some is.
    fn cool(&mut self, now: Nanos) -> Option<Nanos> {
        if self.in_flight > 0 || self.pool.kept_bytes() == 0 && !self.lease.is_borrowing() {
            return None;
        }
        let until = self.idle_since.saturating_add(COOL_AFTER);
        if now < until {
            return Some(until);
        }
        self.pool = Pool::default();
        self.lease.shrink_to(0);
        None
    }

    /// The turn of a queue that was told to stop.
    fn leave(&mut self, now: Nanos) -> KeepOn {
        let is_closing = self.common.closing.load(Ordering::SeqCst);
        let until = is_closing.then(|| *self.leaves_by.get_or_insert(now.saturating_add(DRAIN_WITHIN)));
        match self.in_flight == 0 || until.is_some_and(|until| until <= now) {
            true => KeepOn::Leave,
            false => KeepOn::Wait { readable: false, writable: false, until },
        }
    }

    /// A request of a broken ring has ended.
    fn forget(&mut self, completion: &Completion) {
        let slot = &mut self.slots[completion.tag as usize];
        if let Some(Slot { pending, charge_bytes, .. }) = slot {
            *pending -= 1;
            if *pending == 0 {
                self.in_flight -= 1;
                self.bytes_in_flight -= *charge_bytes;
                *slot = None;
            }
        }
    }

    /// A broken ring is not used any more. Requests at the device end without an answer.
    fn outlive(&mut self, now: Nanos, ended: &mut Vec<Completion>) -> KeepOn {
        ended.drain(..).for_each(|completion| self.forget(&completion));
        self.give_memory_back();
        match self.line().is_stopping.load(Ordering::SeqCst) {
            true => self.leave(now),
            false => KeepOn::Wait { readable: false, writable: false, until: None },
        }
    }
}

/// The number of entries taken from the available ring.
enum Taken {
    All,
    Some,
    /// The next request waits for memory.
    Starved,
}

impl LaneClient for Run {
    fn turn(&mut self, now: Nanos, signalled: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> KeepOn {
        if self.is_broken {
            return self.outlive(now, ended);
        }
        self.advance(now, signalled, ended, requests).unwrap_or_else(|Broken(why)| {
            self.is_broken = true;
            let (peer, index) = (&self.common.peer, self.index);
            let words = format_args!("queue {index} of vhost-user client {peer} is stopped until its driver resets it: {why}");
            self.common.talk.say(Level::Warn, words);
            signal(&self.line().error);
            self.outlive(now, ended)
        })
    }

    fn socket(&self) -> &Arc<OwnedFd> {
        &self.kick
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Ends the watch of the eventfd.
        let _ = rustix::io::write(self.kick.as_fd(), &1u64.to_ne_bytes());
        let line = self.line();
        line.counters.in_flight.store(0, Ordering::Relaxed);
        *lock(&line.run) = Running::No(self.queue.next_avail());
        line.run_ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
