//! Writes within one strip of an optimal parity array that wait for nothing but members and the log: the rows are free and
//! consistent, superblocks are dirty and bits set.
//!
//! Most small writes are of this kind and need no task. They take the steps of [`parity_io`](crate::parity_io): read, log,
//! write. If anything unusual happens before a byte has changed, the write begins again there as a new one. Afterwards a task
//! finishes it.

use crate::core::{Core, MemberIo, Waiting, shared};
use crate::gather::{Part, write_part};
use crate::lists::few;
use crate::log::{BehindWrite, LogHolders, LogRecord, Logged, Waiter};
use crate::no_space::{is_no_space, reconcile_parity};
use crate::parity_io::{mark_half_written, settle};
use crate::plan::{Presence, Rectangle};
use crate::{MemberId, StripeMap};
use slab::Slab;
use smallvec::{SmallVec, smallvec};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Claim, Completion, Data, IoError, Nanos, Operation, Request, Segments, Tag};

/// What a write waits for.
enum Step {
    Reading,
    MetadataUpdates(Logged),
    Writing(Logged),
}

/// A write under way.
struct StripWrite {
    tag: Tag,
    begun: Nanos,
    /// In the array.
    start_sector: u64,
    stripe: u64,
    /// The data strip, by address.
    index: usize,
    /// In the sync space, so on the members.
    rows: Range<u64>,
    lock: usize,
    /// The client's operation.
    operation: Operation,
    /// Read-modify-write if true, reconstruct-write if false.
    modifies: bool,
    step: Step,
    /// It is queued for its next step.
    is_ready: bool,
    /// Member requests that have not ended.
    pending: usize,
    failures: SmallVec<[(MemberId, Result<(), IoError>); 1]>,
    read: SmallVec<[Option<Buffer>; 4]>,
    parities: SmallVec<[Data; 3]>,
    /// Claims on the memory that the log was given.
    claims: SmallVec<[Claim; 3]>,
    /// The log holders, if the write may be acknowledged early.
    early: Option<LogHolders>,
    /// It was acknowledged early; these members hold its records.
    behind: Option<(BehindWrite, LogHolders)>,
}

/// All writes of this kind.
#[derive(Default)]
pub(crate) struct StripWrites {
    all: RefCell<Slab<StripWrite>>,
    /// Writes that can take their next step.
    ready: RefCell<VecDeque<usize>>,
    /// Writes that are not acknowledged yet.
    unacknowledged: Cell<usize>,
}

impl StripWrites {
    /// The number of writes that clients still wait for.
    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged.get()
    }

    /// True if the member requests that a write waits for are reads.
    pub fn reads(&self, key: usize) -> bool {
        matches!(self.all.borrow()[key].step, Step::Reading)
    }

    /// Records of a write, or its member requests, have made progress.
    pub fn can_go_on(&self, key: usize) {
        if !std::mem::replace(&mut self.all.borrow_mut()[key].is_ready, true) {
            self.ready.borrow_mut().push_back(key);
        }
    }

    /// Member request `index` of a step has ended. A read brings its memory.
    pub fn ended(&self, key: usize, index: usize, member: MemberId, result: Result<(), IoError>, read: Option<Buffer>) {
        let write = &mut self.all.borrow_mut()[key];
        if read.is_some() {
            write.read[index] = read;
        }
        if result.is_err() {
            write.failures.push((member, result));
        }
        write.pending -= 1;
        if write.pending == 0 {
            write.is_ready = true;
            self.ready.borrow_mut().push_back(key);
        }
    }
}

impl StripWrite {
    fn sectors(&self) -> u64 {
        self.rows.end - self.rows.start
    }
}

/// The slots that a write of data strip `index` reads: the strip's and all parities', or those of the other data strips.
fn sources(map: &StripeMap, index: usize, modifies: bool) -> SmallVec<[u16; 4]> {
    let (first, second) = match modifies {
        true => (&map.data[index..index + 1], &map.parity[..]),
        false => (&map.data[..index], &map.data[index + 1..]),
    };
    few(first.iter().chain(second).copied())
}

impl Core {
    /// Begins `request` if it is such a write: gives its reads to `send` and takes the operation out of it. Returns `false` if
    /// it is not.
    pub fn write_strip(&self, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) -> bool {
        let Request { tag, start_sector, sectors, .. } = *request;
        let strip = self.geometry.strip_sectors();
        let (stripe, index, in_strip) = self.geometry.strip_of(start_sector);
        let rows = stripe * strip + in_strip..stripe * strip + in_strip + sectors;
        let Operation::Write { from, .. } = &request.operation else { unreachable!("this is a write") };
        let fits =
            in_strip + sectors <= strip && self.geometry.data_count() > 1 && from.len() == 1 && !self.gathers.is_open(stripe);
        if !fits || !self.may_write_directly(&rows) || !self.is_consistent(&rows) {
            return false;
        }
        let part = Rectangle { rows: in_strip..in_strip + sectors, strips: index..index + 1 };
        let map = self.map(stripe);
        let modifies = 1 + map.parity.len() < map.data.len() - 1;
        let sources = sources(map, index, modifies);
        let all = || sources.iter().chain([&map.data[index]]).chain(&map.parity);
        if !self.log_takes_strip(stripe, &part) || !self.are_usual(all(), &rows) {
            return false;
        }
        let Some(lock) = self.locks.try_lock(&rows) else { return false };
        self.begin_directly(&rows);
        self.gathers.begin();
        self.strip_writes.unacknowledged.set(self.strip_writes.unacknowledged.get() + 1);
        let mut writes = self.strip_writes.all.borrow_mut();
        let entry = writes.vacant_entry();
        let members = self.holders(&sources);
        for (index, &member) in members.iter().enumerate() {
            let tag = self.note(member, rows.start, sectors, Waiting::Strip { write: entry.key(), index });
            let operation = Operation::Read { into: smallvec![self.take_buffer(sectors)] };
            send(member, Request { tag, start_sector: rows.start, sectors, operation });
        }
        entry.insert(StripWrite {
            tag,
            begun: self.now(),
            start_sector,
            stripe,
            index,
            rows,
            lock,
            operation: std::mem::replace(&mut request.operation, Operation::Flush),
            modifies,
            step: Step::Reading,
            is_ready: false,
            pending: members.len(),
            failures: SmallVec::new(),
            read: few(members.iter().map(|_| None)),
            parities: SmallVec::new(),
            claims: SmallVec::new(),
            early: None,
            behind: None,
        });
        true
    }

    /// True if each of these slots has one member, which can be read, and no replacement.
    fn are_usual<'a>(&self, mut slots: impl Iterator<Item = &'a u16>, rows: &Range<u64>) -> bool {
        let members = self.members.borrow();
        slots.all(|&slot| {
            let slot = usize::from(slot);
            members.presence(slot, rows) == Presence::Whole && members.slots()[slot].replacement.is_none()
        })
    }

    /// The members of slots that all have one.
    fn holders(&self, slots: &[u16]) -> SmallVec<[MemberId; 4]> {
        let members = self.members.borrow();
        few(slots.iter().map(|&slot| members.slots()[usize::from(slot)].member.expect("the role is held")))
    }

    /// True if a write that has changed nothing yet may go on as it began. While its rows are locked no member takes a slot
    /// anew there, so the members that are present were present then.
    fn is_as_it_began(&self, write: &StripWrite) -> bool {
        let map = self.map(write.stripe);
        write.failures.is_empty()
            && !self.acks_are_held()
            && self.are_usual(map.parity.iter().chain([&map.data[write.index]]), &write.rows)
    }

    /// Everything was read: computes parity. Returns the partial parities for the log.
    fn compute_strip(&self, write: &mut StripWrite) -> SmallVec<[Data; 3]> {
        let map = self.map(write.stripe);
        let code = self.code.as_ref().expect("a parity level");
        let Operation::Write { from, .. } = &write.operation else { unreachable!("this is a write") };
        let (after, position) = (&from[0][..], usize::from(map.code[write.index]));
        let keeps = self.log.config.is_some();
        let mut read = std::mem::take(&mut write.read).into_iter().map(|buffer| buffer.expect("it was read"));
        let mut parities: SmallVec<[Buffer; 3]>;
        if write.modifies {
            let before = read.next().expect("the strip was read");
            parities = few(read);
            match keeps {
                true => code.add(position, &before, &mut outputs(&mut parities)),
                false => code.update(position, &before, after, &mut outputs(&mut parities)),
            }
            self.give_buffer(before);
        } else {
            let others: SmallVec<[Buffer; 4]> = few(read);
            parities = few(map.parity.iter().map(|_| self.take_buffer(write.sectors())));
            let mut strips: SmallVec<[&[u8]; 24]> = smallvec![self.zero_bytes(after.len()); map.code_count];
            if !keeps {
                strips[position] = after;
            }
            let positions = map.code[..write.index].iter().chain(&map.code[write.index + 1..]);
            for (&position, other) in positions.zip(&others) {
                strips[usize::from(position)] = other;
            }
            code.generate(&strips, &mut outputs(&mut parities));
            drop(strips);
            others.into_iter().for_each(|buffer| self.give_buffer(buffer));
        }
        let mut partials = SmallVec::new();
        if keeps {
            for parity in &mut parities {
                let mut sum = self.take_buffer(write.sectors());
                sum.copy_from_slice(parity);
                let partial = std::mem::replace(parity, sum);
                write.claims.push(partial.claim());
                partials.push(partial.freeze());
            }
            code.add(position, after, &mut outputs(&mut parities));
        }
        write.parities = few(parities.into_iter().map(Buffer::freeze));
        partials
    }

    fn rows_in_strip(&self, write: &StripWrite) -> Range<u64> {
        let start = write.rows.start & (self.geometry.strip_sectors() - 1);
        start..start + write.sectors()
    }

    /// Gives the log the records of a write, before a byte changes (R17).
    fn record_strip(&self, key: usize, write: &mut StripWrite, partials: SmallVec<[Data; 3]>) -> Logged {
        let map = self.map(write.stripe);
        let (log, sectors) = (&self.log, write.sectors());
        let Operation::Write { from, fua } = &write.operation else { unreachable!("this is a write") };
        let volatile = || self.has_volatile_members();
        let early = !fua
            && log.keeps_bytes_of(sectors)
            && log.has_room_for(sectors)
            && log.would_benefit(sectors, self.requests_in_flight(), volatile);
        if early {
            write.early = Some(self.log_holders(map.parity.iter().map(|&slot| usize::from(slot))));
        }
        let record = |(parity, partial)| LogRecord {
            number: 0,
            stripe: write.stripe,
            rows: self.rows_in_strip(write),
            written: write.index..write.index + 1,
            parity,
            partial: Some(partial),
            new_data: if early { shared(from) } else { SmallVec::new() },
            zeros: false,
        };
        let records = partials.into_iter().enumerate().map(record);
        let group = self.holders(&map.parity).into_iter().zip(records);
        self.log_send(std::iter::once(group), Waiter::Strip(key))
    }

    /// Sends data and parity to their members.
    fn send_strip(&self, key: usize, write: &mut StripWrite) {
        let map = self.map(write.stripe);
        self.gate_client_write(&write.rows);
        let Operation::Write { from, fua } = &write.operation else { unreachable!("this is a write") };
        let send = |index, member, from| {
            let operation = Operation::Write { from, fua: *fua };
            self.send(
                member,
                write.rows.start,
                write.rows.end - write.rows.start,
                operation,
                Waiting::Strip { write: key, index },
            );
        };
        send(0, self.holders(&map.data[write.index..write.index + 1])[0], shared(from));
        for (index, (member, parity)) in self.holders(&map.parity).into_iter().zip(write.parities.drain(..)).enumerate() {
            send(index + 1, member, smallvec![parity]);
        }
        write.pending = 1 + map.parity.len();
    }

    /// A write has ended on its members: retires its records.
    fn end_strip(&self, write: &mut StripWrite, logged: Logged) {
        let part = Rectangle { rows: self.rows_in_strip(write), strips: write.index..write.index + 1 };
        self.log_end(write.stripe, &[part], logged);
        self.write_ended(&write.rows);
        write.claims.drain(..).for_each(|claim| self.pool.borrow_mut().give_claim(claim));
    }

    /// Acknowledges a write, which keeps `operation`.
    fn tell_strip(&self, write: &mut StripWrite, result: Result<(), IoError>, operation: Operation) {
        self.gathers.end(&self.ready, std::iter::once(write.start_sector + write.sectors()));
        self.steering.ended(write.begun, self.now());
        self.strip_writes.unacknowledged.set(self.strip_writes.unacknowledged.get() - 1);
        let operation = std::mem::replace(&mut write.operation, operation);
        self.done(Completion { tag: write.tag, result, operation });
    }

    /// Acknowledges a write early, if its logged records would count after a crash (R23).
    fn tell_early(&self, write: &mut StripWrite) {
        let Some(log_holders) =
            write.early.take().filter(|log_holders| self.is_as_it_began(write) && self.may_acknowledge_early(log_holders))
        else {
            return;
        };
        let Operation::Write { from, fua } = &write.operation else { unreachable!("this is a write") };
        let operation = Operation::Write { from: shared(from), fua: *fua };
        self.tell_strip(write, Ok(()), operation);
        let place = (usize::from(self.map(write.stripe).data[write.index]), write.rows.clone());
        write.behind = Some((self.log.acknowledge_early(std::iter::once(place), log_holders.clone()), log_holders));
    }

    /// An early acknowledged write is in place.
    fn end_behind(&self, write: &mut StripWrite) {
        if let Some((behind, _)) = write.behind.take() {
            let place = (usize::from(self.map(write.stripe).data[write.index]), write.rows.clone());
            self.behind_end(behind, std::iter::once(place));
        }
    }
}

/// Parities in the form that [`Code`](stria_parity::Code) takes.
fn outputs(parities: &mut [Buffer]) -> SmallVec<[Option<&mut [u8]>; 3]> {
    few(parities.iter_mut().map(|parity| Some(&mut parity[..])))
}

/// Takes the next step of every write that can. Returns whether there was any.
pub(crate) fn go_on(core: &Rc<Core>) -> bool {
    let mut went = false;
    loop {
        let Some(key) = core.strip_writes.ready.borrow_mut().pop_front() else { return went };
        went = true;
        step(core, key);
    }
}

fn step(core: &Rc<Core>, key: usize) {
    let mut all = core.strip_writes.all.borrow_mut();
    let write = &mut all[key];
    write.is_ready = false;
    match std::mem::replace(&mut write.step, Step::Reading) {
        Step::Reading if core.is_as_it_began(write) => {
            let partials = core.compute_strip(write);
            if !partials.is_empty() {
                write.step = Step::MetadataUpdates(core.record_strip(key, write, partials));
                return;
            }
            write.step = Step::Writing(Logged::nothing());
            core.send_strip(key, write);
        }
        Step::Reading => begin_again(core, all.remove(key)),
        Step::MetadataUpdates(mut logged) => {
            let (kept, ended) = core.log_progress(&logged);
            if kept {
                core.tell_early(write);
            }
            if !ended {
                write.step = Step::MetadataUpdates(logged);
                return;
            }
            if core.log_ended(&mut logged).is_ok() && core.is_as_it_began(write) {
                write.step = Step::Writing(logged);
                return core.send_strip(key, write);
            }
            let write = all.remove(key);
            if write.behind.is_some() {
                return core.ready.spawn(perform(Rc::clone(core), write, logged));
            }
            core.log_forget(logged);
            begin_again(core, write);
        }
        Step::Writing(logged) => {
            let mut write = all.remove(key);
            if !write.failures.is_empty() || core.acks_are_held() {
                return core.ready.spawn(finish(Rc::clone(core), write, logged));
            }
            let told = write.behind.is_some();
            core.end_behind(&mut write);
            core.end_strip(&mut write, logged);
            core.locks.unlock(write.lock, &core.ready);
            if !told {
                core.tell_strip(&mut write, Ok(()), Operation::Flush);
            }
        }
    }
}

/// Lets a write that has changed nothing yet begin again as a new one.
fn begin_again(core: &Rc<Core>, write: StripWrite) {
    write.read.into_iter().flatten().for_each(|buffer| core.give_buffer(buffer));
    core.write_ended(&write.rows);
    core.locks.unlock(write.lock, &core.ready);
    core.gathers.end(&core.ready, std::iter::empty());
    core.strip_writes.unacknowledged.set(core.strip_writes.unacknowledged.get() - 1);
    let sectors = write.rows.end - write.rows.start;
    let width = core.geometry.strip_sectors() * core.geometry.data_count() as u64;
    let Operation::Write { from, fua } = &write.operation else { unreachable!("this is a write") };
    let (data, fua) = (shared(from), *fua);
    let part = Part {
        parent: core.begin_again(write.tag, write.begun, write.start_sector, write.operation),
        offset_sectors: write.start_sector % width,
        data,
        fua,
        small: core.log.keeps_bytes_of(sectors),
        alone: core.log.keeps_apart(sectors),
        goes_on: false,
    };
    write_part(core, write.stripe, part);
}

/// Brings a write that was acknowledged early to its place, whichever members are left: with its log holders lost, its data
/// exists nowhere else (R10).
async fn perform(core: Rc<Core>, mut write: StripWrite, logged: Logged) {
    let log_holders = write.behind.as_ref().map_or_else(LogHolders::new, |(_, log_holders)| log_holders.clone());
    core.wait_for_ack_barrier_or(|| core.are_gone(&log_holders)).await;
    let map = core.map(write.stripe);
    let Operation::Write { from, fua } = &write.operation else { unreachable!("this is a write") };
    let strip = (usize::from(map.data[write.index]), shared(from));
    let parities = map.parity.iter().zip(write.parities.drain(..)).map(|(&slot, parity)| (usize::from(slot), smallvec![parity]));
    let batch = core.batch();
    for (slot, from) in std::iter::once(strip).chain(parities) {
        let targets = core.members.borrow().targets(slot);
        for member in targets {
            let operation = Operation::Write { from: Segments::clone(&from), fua: *fua };
            let (start_sector, sectors) = (write.rows.start, write.rows.end - write.rows.start);
            core.send_in(batch, MemberIo { member, start_sector, sectors, operation });
        }
    }
    let mut ended = core.ended(batch).await;
    let failed = ended.drain(..).filter(|ended| ended.result.is_err()).map(|ended| (ended.member, ended.result));
    write.failures = failed.collect();
    core.reuse(ended);
    finish(core, write, logged).await;
}

/// Rows that members failed to take become bad blocks (R7).
async fn mark_half_written_all(core: &Core, write: &StripWrite) -> Result<(), IoError> {
    let mut result = Ok(());
    for (member, _) in &write.failures {
        result = mark_half_written(core, *member, write.rows.clone()).await.and(result);
    }
    result
}

/// Ends a write that a member failed, or during which one was dropped.
async fn finish(core: Rc<Core>, mut write: StripWrite, logged: Logged) {
    let mut result = settle(&core, write.failures.iter().map(|(member, result)| (*member, result)));
    let told = write.behind.is_some();
    if let Err(first) = &result {
        let settled = if is_no_space(first) && !told {
            let failed: SmallVec<[MemberId; 4]> = few(write.failures.iter().map(|(member, _)| *member));
            reconcile_parity(&core, write.stripe, &write.rows, &failed).await
        } else {
            mark_half_written_all(&core, &write).await
        };
        if told {
            core.fail_next_flush(first);
        }
        if settled.is_err() {
            result = settled;
        }
    }
    core.end_behind(&mut write);
    // R21: a dropped member may need these records.
    core.wait_for_ack_barrier().await;
    core.end_strip(&mut write, logged);
    core.wait_for_ack_barrier().await;
    core.locks.unlock(write.lock, &core.ready);
    core.gate_acknowledge(&result, write.failures.iter().map(|(member, _)| *member));
    if !told {
        core.tell_strip(&mut write, result, Operation::Flush);
    }
}
