//! What the engine's tasks share: members, locks, records, requests, and the way to members and back.

use crate::intent::Intent;
use crate::lock::{Guard, Locks, Mode};
use crate::member::Members;
use crate::task::{Ready, Waiters};
use crate::{ArrayConfig, ArrayState, Event, Geometry, Health, MemberId, StripeMap};
use slab::Slab;
use smallvec::{SmallVec, smallvec};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;
use stria_block::{
    Buffer, Completion, Data, ErrorKind, IoError, Nanos, Operation, Pool, Request, SECTOR_BYTES, Segments, Tag, bytes,
};
use stria_parity::Code;

/// What the engine asks of whoever drives it.
#[derive(Debug)]
pub enum Action {
    /// Submit to a member; positions are in its data area. Answer with [`Engine::complete`](crate::Engine::complete).
    Io {
        /// To whom.
        member: MemberId,
        /// What.
        request: Request,
    },
    /// Make this durable on the members. Answer with [`Engine::state_recorded`](crate::Engine::state_recorded);
    /// the next one comes after the answer.
    RecordState(ArrayState),
    /// Make these write-intent bits durable. Answer with [`Engine::intent_recorded`](crate::Engine::intent_recorded);
    /// the next one comes after the answer.
    RecordIntent {
        /// Chunks to set.
        set: Vec<u64>,
        /// Chunks to clear.
        clear: Vec<u64>,
    },
    /// Make these the bad blocks of a member, durably. Answer with
    /// [`Engine::bad_blocks_recorded`](crate::Engine::bad_blocks_recorded); the next one comes after the answer.
    RecordBadBlocks {
        /// Whose.
        member: MemberId,
        /// In sectors of its data area.
        blocks: Vec<Range<u64>>,
    },
    /// A client's request has ended.
    Done(Completion),
}

/// One request to a member, from a task.
pub(crate) struct MemberIo {
    pub member: MemberId,
    pub start_sector: u64,
    pub sectors: u64,
    pub operation: Operation,
}

pub(crate) type Outcome = (Result<(), IoError>, Operation);
/// Small inline: batches live in tasks, and a task is moved to the heap whole.
pub(crate) type Batch = SmallVec<[MemberIo; 4]>;
pub(crate) type Outcomes = SmallVec<[Outcome; 4]>;

struct BatchState {
    task: usize,
    pending: usize,
    outcomes: SmallVec<[Option<Outcome>; 4]>,
}

/// Where the pieces of a member's request lie in the client's: offset and length, in sectors. Pieces that are
/// neighbours on the member need not be neighbours for the client.
pub(crate) type Pieces = SmallVec<[(u64, u64); 1]>;

/// Who waits for a member's request.
enum Waiting {
    /// A client: its request went to one member as it was.
    Client {
        tag: Tag,
        array_sector: u64,
    },
    /// A part of a client's request, with nothing else to do.
    Part {
        parent: usize,
        pieces: Pieces,
    },
    Batch {
        batch: usize,
        index: usize,
    },
}

struct InFlight {
    member: MemberId,
    start_sector: u64,
    sectors: u64,
    waiting: Waiting,
}

/// A client's request while parts of it run.
struct Parent {
    tag: Tag,
    start_sector: u64,
    pending: usize,
    error: Option<IoError>,
    /// What goes back: a write's data; a read's memory is gathered in `read`.
    operation: Operation,
    read: SmallVec<[(u64, Segments<Buffer>); 2]>,
}

impl Parent {
    fn new(tag: Tag, start_sector: u64, pending: usize, operation: Operation) -> Self {
        Self { tag, start_sector, pending, error: None, operation, read: SmallVec::new() }
    }
}

/// The engine's orders to whoever records, and what has been carried out.
#[derive(Default)]
pub(crate) struct Recording {
    /// States are numbered; a wanted number stands for "the state as it is now or later".
    wanted: Cell<u64>,
    durable: Cell<u64>,
    /// No acknowledgement before this number is durable.
    barrier: Cell<u64>,
    /// The record that says "dirty": no write starts before it is durable.
    dirty: Cell<u64>,
    pub clean: Cell<bool>,
    pub state_busy: Cell<bool>,
    pub intent_busy: Cell<bool>,
    pub state_waiters: Waiters,
    pub intent_waiters: Waiters,
    pub changed: Waiters,
    pub intent_changed: Waiters,
    /// Members whose bad blocks have changed since they were last recorded.
    bad_changed: RefCell<BTreeSet<MemberId>>,
    pub bad_busy: Cell<bool>,
    /// The format had no room for the last ones.
    pub bad_refused: Cell<bool>,
    pub bad_waiters: Waiters,
}

pub(crate) struct Core {
    pub geometry: Geometry,
    maps: Vec<StripeMap>,
    pub code: Option<Code>,
    pub ready: Ready,
    locks: Locks,
    now: Cell<Nanos>,
    pub members: RefCell<Members>,
    pub outbox: RefCell<VecDeque<Action>>,
    in_flight: RefCell<Slab<InFlight>>,
    batches: RefCell<Slab<BatchState>>,
    parents: RefCell<Slab<Parent>>,
    /// Requests that went to one member as they were.
    whole_requests: Cell<usize>,
    pub intent: RefCell<Option<Intent>>,
    pub resync_sector: Cell<u64>,
    pub record: Recording,
    timers: RefCell<BTreeSet<(Nanos, usize)>>,
    pub pool: RefCell<Pool>,
    pub events: RefCell<Vec<Event>>,
    pub writes_in_flight: Cell<usize>,
    pub last_client: Cell<Nanos>,
    pub last_write: Cell<Nanos>,
    pub read_only: Cell<bool>,
    pub stopping: Cell<bool>,
    /// Something changed that the sweeper should look at.
    pub sweep_changed: Waiters,
    /// As much zeros as one strip or a MiB.
    zeros: Data,
}

impl Core {
    pub fn new(config: &ArrayConfig) -> Self {
        let geometry = config.geometry.clone();
        let parity_count = geometry.level().parity_count();
        let period = geometry.stripe_map_period();
        let maps: Vec<StripeMap> = (0..period).map(|stripe| geometry.stripe_map(stripe)).collect();
        let code = maps.first().map(|map| Code::new(map.code_count, parity_count));
        let crashed = config.resync_sector != u64::MAX;
        let intent = config.intent.as_ref().map(|intent| Intent::new(intent, geometry.sync_sectors(), crashed));
        let zeros = Buffer::zeroed(bytes(geometry.strip_sectors()).max(1 << 20)).freeze();
        let record = Recording::default();
        record.clean.set(true);
        Self {
            maps,
            code,
            ready: Ready::default(),
            locks: Locks::default(),
            now: Cell::new(0),
            members: RefCell::new(Members::new(config)),
            outbox: RefCell::default(),
            in_flight: RefCell::default(),
            batches: RefCell::default(),
            parents: RefCell::default(),
            whole_requests: Cell::new(0),
            intent: RefCell::new(intent),
            resync_sector: Cell::new(if geometry.level().is_redundant() { config.resync_sector } else { u64::MAX }),
            record,
            timers: RefCell::default(),
            pool: RefCell::default(),
            events: RefCell::default(),
            writes_in_flight: Cell::new(0),
            last_client: Cell::new(0),
            last_write: Cell::new(0),
            read_only: Cell::new(config.read_only),
            stopping: Cell::new(false),
            sweep_changed: Waiters::default(),
            zeros,
            geometry,
        }
    }

    pub fn map(&self, stripe: u64) -> &StripeMap {
        &self.maps[(stripe % self.maps.len() as u64) as usize]
    }

    /// Zeros to write, at most as many as fit; at least one strip.
    pub fn zeros(&self, sectors: u64) -> Data {
        self.zeros.slice(0, bytes(sectors).min(self.zeros.len()))
    }

    /// Zeros to compute with; at least one strip.
    pub fn zero_bytes(&self, len: usize) -> &[u8] {
        &self.zeros[..len]
    }

    pub fn event(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    pub async fn lock(&self, range: Range<u64>, mode: Mode) -> Guard<'_> {
        self.locks.lock(&self.ready, range, mode).await
    }

    // Time.

    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    pub fn set_now(&self, now: Nanos) {
        self.now.set(now);
        let mut timers = self.timers.borrow_mut();
        while let Some(&(due, task)) = timers.first()
            && due <= now
        {
            timers.pop_first();
            self.ready.wake(task);
        }
    }

    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.borrow().first().map(|&(due, _)| due)
    }

    pub async fn sleep_until(&self, due: Nanos) {
        poll_fn(|_| {
            if self.now() >= due {
                return Poll::Ready(());
            }
            self.timers.borrow_mut().insert((due, self.ready.current()));
            Poll::Pending
        })
        .await;
    }

    // Members.

    fn send(&self, member: MemberId, start_sector: u64, sectors: u64, operation: Operation, waiting: Waiting) {
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            member.in_flight += 1;
            member.head_sector = start_sector + sectors;
        }
        let key = self.in_flight.borrow_mut().insert(InFlight { member, start_sector, sectors, waiting });
        let request = Request { tag: key as Tag, start_sector, sectors, operation };
        self.outbox.borrow_mut().push_back(Action::Io { member, request });
    }

    /// Does all of `batch` at once, and gives each its end, in the same order.
    pub async fn io(&self, batch: Batch) -> Outcomes {
        if batch.is_empty() {
            return Outcomes::new();
        }
        let count = batch.len();
        let outcomes = std::iter::repeat_with(|| None).take(count).collect();
        let key = self.batches.borrow_mut().insert(BatchState { task: self.ready.current(), pending: count, outcomes });
        for (index, io) in batch.into_iter().enumerate() {
            self.send(io.member, io.start_sector, io.sectors, io.operation, Waiting::Batch { batch: key, index });
        }
        poll_fn(|_| {
            if self.batches.borrow()[key].pending > 0 {
                return Poll::Pending;
            }
            let state = self.batches.borrow_mut().remove(key);
            Poll::Ready(state.outcomes.into_iter().map(|outcome| outcome.expect("nothing is pending")).collect())
        })
        .await
    }

    /// A member's request has ended. Gives back parts whose read failed, for the level to mend.
    pub fn complete(&self, completion: Completion) -> SmallVec<[FailedPart; 1]> {
        let InFlight { member, start_sector, sectors, waiting } = self.in_flight.borrow_mut().remove(completion.tag as usize);
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            member.in_flight -= 1;
            match completion.operation {
                Operation::Read { .. } => {
                    member.read_count += 1;
                    member.read_sectors += sectors;
                    member.read_errors += u64::from(completion.result.is_err());
                }
                Operation::Write { .. } => {
                    member.write_count += 1;
                    member.written_sectors += sectors;
                }
                _ => {}
            }
        }
        if matches!(completion.operation, Operation::Write { .. } | Operation::WriteZeroes { .. }) && completion.result.is_ok() {
            self.mark_good(member, &(start_sector..start_sector + sectors));
        }
        match waiting {
            Waiting::Batch { batch, index } => {
                let mut batches = self.batches.borrow_mut();
                let batch = &mut batches[batch];
                batch.outcomes[index] = Some((completion.result, completion.operation));
                batch.pending -= 1;
                if batch.pending == 0 {
                    self.ready.wake(batch.task);
                }
                SmallVec::new()
            }
            Waiting::Client { tag, array_sector } => {
                self.whole_requests.set(self.whole_requests.get() - 1);
                match (completion.result, completion.operation) {
                    // Redundancy may help: from here on it is a request of one part.
                    (Err(error), Operation::Read { into }) if self.geometry.level().is_redundant() => {
                        let parent = self.parents.borrow_mut().insert(Parent::new(
                            tag,
                            array_sector,
                            1,
                            Operation::Read { into: Segments::new() },
                        ));
                        smallvec![FailedPart {
                            parent,
                            offset_sectors: 0,
                            array_sector,
                            member,
                            start_sector,
                            sectors,
                            into,
                            error
                        }]
                    }
                    (result, operation) => {
                        self.done(Completion { tag, result, operation });
                        SmallVec::new()
                    }
                }
            }
            Waiting::Part { parent, pieces } => {
                let array_start = self.parents.borrow()[parent].start_sector;
                let failed = completion.result.is_err();
                let Operation::Read { into } = completion.operation else {
                    if let Operation::Extents { .. } = completion.operation {
                        self.parents.borrow_mut()[parent].operation = completion.operation;
                    }
                    self.part_done(parent, None, completion.result);
                    return SmallVec::new();
                };
                let mut memory = Cutter::new(into);
                if !failed {
                    let read = pieces
                        .iter()
                        .map(|&(offset, sectors)| (offset, memory.take(bytes(sectors))))
                        .collect::<SmallVec<[_; 2]>>();
                    self.parents.borrow_mut()[parent].read.extend(read);
                    self.part_done(parent, None, Ok(()));
                    return SmallVec::new();
                }
                let error = completion.result.expect_err("it failed");
                self.more_parts(parent, pieces.len() - 1);
                let mut member_sector = start_sector;
                pieces
                    .into_iter()
                    .map(|(offset_sectors, sectors)| {
                        let start_sector = member_sector;
                        member_sector += sectors;
                        FailedPart {
                            parent,
                            offset_sectors,
                            array_sector: array_start + offset_sectors,
                            member,
                            start_sector,
                            sectors,
                            into: memory.take(bytes(sectors)),
                            error: error.clone(),
                        }
                    })
                    .collect()
            }
        }
    }

    /// Drops a member that failed. `false`: its loss would lose data, so it stays and its errors go to clients.
    pub fn fail_member(&self, id: MemberId, reason: &str) -> bool {
        let mut members = self.members.borrow_mut();
        if members.get(id).role == crate::MemberRole::Failed {
            return true;
        }
        if !members.may_lose(id) {
            return false;
        }
        let slot = members.get(id).slot;
        members.drop_member(id, reason.to_string());
        drop(members);
        self.event(Event::MemberFailed { member: id, slot, reason: reason.to_string() });
        self.record.barrier.set(self.want_record());
        self.sweep_changed.wake_all(&self.ready);
        true
    }

    pub fn health(&self) -> Health {
        self.members.borrow().health()
    }

    // Records.

    /// Orders a record of the state as it is now; its number.
    pub fn want_record(&self) -> u64 {
        self.record.wanted.set(self.record.wanted.get() + 1);
        self.record.changed.wake_all(&self.ready);
        self.record.wanted.get()
    }

    pub async fn recorded(&self, number: u64) {
        self.ready.until(&self.record.state_waiters, || self.record.durable.get() >= number).await;
    }

    /// Waits until every dropped member is known as such on the others.
    pub async fn record_barrier(&self) {
        if self.record.durable.get() < self.record.barrier.get() {
            self.recorded(self.record.barrier.get()).await;
        }
    }

    /// Records states, one at a time, each the latest.
    pub async fn record_states(&self) {
        loop {
            self.ready.until(&self.record.changed, || self.record.wanted.get() > self.record.durable.get()).await;
            let number = self.record.wanted.get();
            let state = self.members.borrow().state(self.record.clean.get(), self.resync_sector.get());
            self.record.state_busy.set(true);
            self.outbox.borrow_mut().push_back(Action::RecordState(state));
            self.ready.until(&self.record.changed, || !self.record.state_busy.get()).await;
            self.record.durable.set(number);
            self.record.state_waiters.wake_all(&self.ready);
        }
    }

    /// Records write-intent bits: all that came together while the last record was made go into the next.
    pub async fn record_intents(&self) {
        loop {
            let mut orders = (Vec::new(), Vec::new());
            self.ready
                .until(&self.record.intent_changed, || {
                    let whole = self.members.borrow().whole() && self.resync_sector.get() == u64::MAX;
                    let mut intent = self.intent.borrow_mut();
                    let Some(intent) = intent.as_mut() else { return false };
                    let after = if self.stopping.get() { 0 } else { crate::intent::CLEAR_AFTER };
                    orders = (intent.take_wanted(), intent.take_idle(whole, self.now(), after));
                    !orders.0.is_empty() || !orders.1.is_empty()
                })
                .await;
            let (set, clear) = orders;
            self.record.intent_busy.set(true);
            self.outbox.borrow_mut().push_back(Action::RecordIntent { set: set.clone(), clear });
            self.ready.until(&self.record.intent_changed, || !self.record.intent_busy.get()).await;
            self.intent.borrow_mut().as_mut().expect("it was there").recorded(&set);
            self.record.intent_waiters.wake_all(&self.ready);
        }
    }

    /// Records bad blocks, one member at a time.
    pub async fn record_bad_blocks(&self) {
        loop {
            self.ready.until(&self.record.bad_waiters, || !self.record.bad_changed.borrow().is_empty()).await;
            let Some(member) = self.record.bad_changed.borrow_mut().pop_first() else { continue };
            let blocks = self.members.borrow().get(member).config.bad_blocks.clone();
            self.record.bad_busy.set(true);
            self.outbox.borrow_mut().push_back(Action::RecordBadBlocks { member, blocks });
            self.ready.until(&self.record.bad_waiters, || !self.record.bad_busy.get()).await;
            self.record.bad_waiters.wake_all(&self.ready);
        }
    }

    /// Notes that `rows` of a member hold nothing of worth. `false`: there is no place to keep that.
    pub async fn mark_bad(&self, member: MemberId, rows: Range<u64>) -> bool {
        self.members.borrow_mut().get_mut(member).mark_bad(rows.clone());
        self.record.bad_refused.set(false);
        self.record.bad_changed.borrow_mut().insert(member);
        self.record.bad_waiters.wake_all(&self.ready);
        let recorded = || self.record.bad_changed.borrow().is_empty() && !self.record.bad_busy.get();
        self.ready.until(&self.record.bad_waiters, recorded).await;
        self.event(Event::BadBlocks { member, start_sector: rows.start, sectors: rows.end - rows.start });
        !self.record.bad_refused.get()
    }

    /// Rows that were written hold something again.
    pub fn mark_good(&self, member: MemberId, rows: &Range<u64>) {
        let mut members = self.members.borrow_mut();
        let member_state = members.get_mut(member);
        if !member_state.config.bad_blocks.is_empty() && member_state.mark_good(rows) {
            self.record.bad_changed.borrow_mut().insert(member);
            self.record.bad_waiters.wake_all(&self.ready);
        }
    }

    /// A write to `range` of the sync space begins: from here on a crash in it is one that the members tell of.
    pub async fn write_begin(&self, range: &Range<u64>) {
        self.writes_in_flight.set(self.writes_in_flight.get() + 1);
        if self.record.clean.get() {
            self.record.clean.set(false);
            self.want_record();
            self.record.dirty.set(self.record.wanted.get());
        }
        if self.record.durable.get() < self.record.dirty.get() {
            self.recorded(self.record.dirty.get()).await;
        }
        let wait = self.intent.borrow_mut().as_mut().is_some_and(|intent| intent.begin(range));
        if wait {
            self.record.intent_changed.wake_all(&self.ready);
            let durable = || self.intent.borrow().as_ref().is_none_or(|intent| intent.is_durable(range));
            self.ready.until(&self.record.intent_waiters, durable).await;
        }
    }

    /// The write has ended; it may be acknowledged when this returns.
    pub async fn write_end(&self, range: &Range<u64>) {
        let whole = self.members.borrow().whole();
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.end(range, whole, self.now());
        }
        self.writes_in_flight.set(self.writes_in_flight.get() - 1);
        self.last_write.set(self.now());
        self.record_barrier().await;
    }

    // Clients.

    /// Takes a client's request apart into `parts`, none of which has been sent yet.
    pub fn begin(&self, request: &mut Request, parts: usize) -> usize {
        let operation = match &request.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            Operation::Write { from, fua } => Operation::Write { from: from.clone(), fua: *fua },
            Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua: *fua, unmap: *unmap, fast: *fast },
            Operation::Flush => Operation::Flush,
            Operation::Discard => Operation::Discard,
            Operation::Extents { .. } => Operation::Extents { extents: Vec::new() },
        };
        self.parents.borrow_mut().insert(Parent::new(request.tag, request.start_sector, parts, operation))
    }

    /// Sends a client's request to one member as it is.
    pub fn send_whole(&self, tag: Tag, array_sector: u64, io: MemberIo) {
        self.whole_requests.set(self.whole_requests.get() + 1);
        self.send(io.member, io.start_sector, io.sectors, io.operation, Waiting::Client { tag, array_sector });
    }

    pub fn more_parts(&self, parent: usize, parts: usize) {
        self.parents.borrow_mut()[parent].pending += parts;
    }

    /// Sends a part of a client's request to a member as it is.
    pub fn send_part(&self, parent: usize, pieces: Pieces, io: MemberIo) {
        self.send(io.member, io.start_sector, io.sectors, io.operation, Waiting::Part { parent, pieces });
    }

    /// A part has ended; a read brings its place in the request and its memory. When it was the last, so has the request.
    pub fn part_done(&self, parent: usize, read: Option<(u64, Segments<Buffer>)>, result: Result<(), IoError>) {
        let mut parents = self.parents.borrow_mut();
        let state = &mut parents[parent];
        state.pending -= 1;
        state.read.extend(read);
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        if state.pending > 0 {
            return;
        }
        let mut state = parents.remove(parent);
        drop(parents);
        if let Operation::Read { into } = &mut state.operation {
            state.read.sort_unstable_by_key(|(offset, _)| *offset);
            for buffer in state.read.into_iter().flat_map(|(_, segments)| segments) {
                let rest = match into.last_mut() {
                    Some(last) => last.unite(buffer).err(),
                    None => Some(buffer),
                };
                into.extend(rest);
            }
        }
        let result = state.error.map_or(Ok(()), Err);
        self.done(Completion { tag: state.tag, result, operation: state.operation });
    }

    pub fn done(&self, completion: Completion) {
        self.outbox.borrow_mut().push_back(Action::Done(completion));
    }

    pub fn requests_in_flight(&self) -> usize {
        self.parents.borrow().len() + self.whole_requests.get()
    }

    pub fn take_buffer(&self, sectors: u64) -> Buffer {
        self.pool.borrow_mut().take(bytes(sectors))
    }

    pub fn give_buffer(&self, buffer: Buffer) {
        self.pool.borrow_mut().give(buffer);
    }

    /// Gives every read buffer of these outcomes back to the pool.
    pub fn recycle(&self, outcomes: Outcomes) {
        for (_, operation) in outcomes {
            if let Operation::Read { into } = operation {
                into.into_iter().for_each(|buffer| self.give_buffer(buffer));
            }
        }
    }

    pub fn read_io(&self, member: MemberId, start_sector: u64, sectors: u64) -> MemberIo {
        let into = smallvec![self.take_buffer(sectors)];
        MemberIo { member, start_sector, sectors, operation: Operation::Read { into } }
    }
}

/// A part of a client's request whose member failed it.
pub(crate) struct FailedPart {
    pub parent: usize,
    pub offset_sectors: u64,
    pub array_sector: u64,
    pub member: MemberId,
    pub start_sector: u64,
    pub sectors: u64,
    pub into: Segments<Buffer>,
    pub error: IoError,
}

impl FailedPart {
    /// Ends the part with what was read elsewhere, or with the error.
    pub fn deliver(mut self, core: &Core, read: Option<Buffer>) {
        let result = match read {
            Some(buffer) => {
                let mut rest = &buffer[..];
                for segment in &mut self.into {
                    let (front, back) = rest.split_at(segment.len());
                    segment.copy_from_slice(front);
                    rest = back;
                }
                core.give_buffer(buffer);
                Ok(())
            }
            None => Err(lost(&format!("read at sector {}", self.array_sector), &self.error.context)),
        };
        core.part_done(self.parent, Some((self.offset_sectors, self.into)), result);
    }
}

/// A write to a member, from shared bytes.
pub(crate) fn write_io(member: MemberId, start_sector: u64, data: Data, fua: bool) -> MemberIo {
    let sectors = (data.len() / SECTOR_BYTES) as u64;
    MemberIo { member, start_sector, sectors, operation: Operation::Write { from: smallvec![data], fua } }
}

/// What a client is told when redundancy is used up.
pub(crate) fn lost(what: &str, cause: &str) -> IoError {
    IoError::new(ErrorKind::Failed, format!("{what} failed: {cause}; more members are lost here than redundancy replaces"))
}

/// Cuts segments into consecutive pieces.
pub(crate) struct Cutter<T>(VecDeque<T>);

impl Cutter<Buffer> {
    pub fn new(segments: Segments<Buffer>) -> Self {
        Self(segments.into_iter().collect())
    }

    /// The next `len` bytes.
    pub fn take(&mut self, mut len: usize) -> Segments<Buffer> {
        let mut piece = Segments::new();
        while len > 0 {
            let first = self.0.front_mut().expect("the request has memory for its range");
            let take = len.min(first.len());
            if take == first.len() {
                piece.extend(self.0.pop_front());
            } else {
                piece.push(first.split_to(take));
            }
            len -= take;
        }
        piece
    }
}

/// `len` bytes of data segments from `from` on.
pub(crate) fn slice_segments(segments: &Segments<Data>, mut from: usize, mut len: usize) -> Segments<Data> {
    let mut piece = Segments::new();
    for segment in segments {
        if from >= segment.len() {
            from -= segment.len();
            continue;
        }
        let take = len.min(segment.len() - from);
        piece.push(segment.slice(from, take));
        (from, len) = (0, len - take);
        if len == 0 {
            break;
        }
    }
    piece
}
