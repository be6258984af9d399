//! Straight writes: those within one strip of an optimal, consistent stripe that wait for nothing but members and the log. The
//! rows are free, superblocks are dirty and bits set.
//!
//! | a write is | until |
//! | --- | --- |
//! | reading | members have answered its reads |
//! | logging | its records are durable; it may be acknowledged as soon as they are logged |
//! | writing | members have taken data and parity |
//!
//! If anything unusual happens before a byte has changed, the write begins again as a [`task`](super::task). Afterwards a task
//! ends it.

use super::{finish, freeze, give_up_behind, log_holders, logs_new_data, may_be_early, places, records, send, write_part};
use crate::address::{Sectors, sync_of_rows};
use crate::coalesce::Part;
use crate::core::Core;
use crate::lists::few;
use crate::log::{LogHolders, Logged, Waiter};
use crate::member_requests::{MemberIo, Waiting};
use crate::parity_code::{Change, Found, reads};
use crate::plan::{Presence, Rectangle, WritePlan};
use crate::segments::shared;
use crate::straight_writes::{Frozen, Phase, StraightWrite};
use crate::{ArraySector, Health, MemberId, MemberSector, StripeSector};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::rc::Rc;
use std::slice::from_ref;
use stria_block::{Buffer, Completion, Data, IoError, Operation, Request};

fn plan_of<'a>(core: &'a Core, write: &StraightWrite) -> &'a WritePlan {
    core.straight_writes.plan(write.part.strips.start)
}

/// Begins `request` if it is such a write: gives its reads to `send` and takes the operation out of it. Returns `false` if it is
/// not.
pub(super) fn begin(core: &Core, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) -> bool {
    let (tag, start_sector, sectors) = (request.tag, ArraySector::new(request.start_sector), request.sectors);
    let strip = core.geometry.strip_sectors();
    let (stripe, index, in_strip) = core.geometry.strip_of(start_sector);
    let rows = core.geometry.rows_of_strip(stripe, &in_strip.run(sectors));
    let sync = sync_of_rows(&rows);
    let Operation::Write { from, .. } = &request.operation else { unreachable!("this is a write") };
    let fits =
        in_strip.get() + sectors <= strip && core.geometry.data_count() > 1 && from.len() == 1 && !core.coalescer.is_open(stripe);
    if !fits || !core.may_write_directly(&sync) || !core.consistency.covers(&sync) {
        return false;
    }
    let part = Rectangle { rows: in_strip.run(sectors), strips: index..index + 1 };
    let (map, plan) = (core.map(stripe), core.straight_writes.plan(index));
    let others = || plan.read_data.iter().filter(|&&other| other != index).map(|&other| &map.data[other]);
    let all = || others().chain([&map.data[index]]).chain(&map.parity);
    // Content that is in parity alone is brought to its place first, by a task (R46).
    if !core.log.takes_strip(stripe, &part) || !are_usual(core, all(), &rows) || need_tasks(core) {
        return false;
    }
    let Some(lock) = core.locks.try_lock(&sync) else { return false };
    core.begin_directly(&sync);
    core.coalescer.begin();
    core.straight_writes.begin();
    let mut writes = core.straight_writes.all();
    let entry = writes.vacant_entry();
    let mut pending = 0;
    for unit in reads(plan) {
        let member = core.members.borrow().slots()[unit.slot(map)].member.expect("the slot is held");
        let tag = core.note(member, rows.start, sectors, Waiting::Straight { write: entry.key(), index: pending });
        let operation = Operation::Read { into: smallvec![core.buffers.take(sectors)] };
        send(member, Request { tag, start_sector: rows.start.get(), sectors, operation });
        pending += 1;
    }
    entry.insert(StraightWrite {
        tag,
        begun: core.now(),
        start_sector,
        stripe,
        part,
        rows,
        lock,
        operation: std::mem::replace(&mut request.operation, Operation::Flush),
        phase: Phase::Reading,
        is_ready: false,
        pending,
        failures: Vec::new(),
        read: unread(pending),
        parity: SmallVec::new(),
        claims: SmallVec::new(),
        early: None,
        behind: None,
    });
    true
}

/// True if writes must go by tasks. If a strip may be in parity alone, and parity may lack space, a task writes parity first (R46).
fn need_tasks(core: &Core) -> bool {
    let members = core.members.borrow();
    members.need_tasks() || !members.is_optimal() && !core.no_space.has_places(core.now())
}

/// A list of `count` reads that have not ended.
fn unread(count: usize) -> SmallVec<[Option<Buffer>; 4]> {
    let inline = [const { None }; 4];
    if count <= inline.len() { SmallVec::from_buf_and_len(inline, count) } else { few((0..count).map(|_| None)) }
}

/// True if each of these slots has one member, which can be read, and no replacement.
fn are_usual<'a>(core: &Core, mut slots: impl Iterator<Item = &'a u16>, rows: &Range<MemberSector>) -> bool {
    let members = core.members.borrow();
    slots.all(|&slot| {
        let slot = usize::from(slot);
        members.presence(slot, rows) == Presence::Readable && members.slots()[slot].replacement.is_none()
    })
}

/// True if a write that has changed nothing yet may go on as it began: no member that it uses was dropped. None can have come
/// instead, since no member takes a slot while rows of that slot are locked.
fn is_as_it_began(core: &Core, write: &StraightWrite) -> bool {
    let map = core.map(write.stripe);
    write.failures.is_empty()
        && core.may_acknowledge_at_once()
        && are_usual(core, map.parity.iter().chain(&map.data[write.part.strips.clone()]), &write.rows)
}

/// Everything was read: computes parity. Returns partial parity, if there is a log.
fn compute(core: &Core, write: &mut StraightWrite) -> Option<Frozen> {
    let plan = plan_of(core, write);
    let read = std::mem::take(&mut write.read).into_iter().map(|buffer| buffer.expect("it was read"));
    let (from, _) = write.asked();
    let logs = core.log.config.is_some();
    let change = Change { core, map: core.map(write.stripe), plan, part: &write.part, written: from_ref(from) };
    let new = change.new_parity(Found::new(reads(plan).zip(read)), logs);
    // The memory of parity returns with the requests that write it.
    write.parity = few(new.parity.into_iter().map(Buffer::freeze));
    new.partial.map(|partial| freeze(partial, |claim| write.claims.push(claim)))
}

/// Gives the log the records of a write, before a byte changes (R17).
fn log(core: &Core, key: usize, write: &mut StraightWrite, partial: &[Data]) -> Logged {
    let (sectors, (from, fua)) = (write.sectors(), write.asked());
    let small = core.log.logs_new_data_of(sectors);
    let early = may_be_early(core, sectors, small, fua) && logs_new_data(core, &write.part, small, true);
    let new_data = if early { &from[..] } else { &[] };
    let group = records(core, write.stripe, &write.part, plan_of(core, write), partial, new_data);
    let logged = core.log_send(std::iter::once(group), Waiter::Straight(key));
    write.early = early.then(|| log_holders(core, write.stripe, from_ref(&write.part)));
    logged
}

/// Sends data and parity to their members.
fn send_all(core: &Core, write: &mut StraightWrite, to: impl FnMut(MemberIo)) {
    let parity = std::mem::take(&mut write.parity);
    let (from, fua) = write.asked();
    send(core, write.stripe, &write.part, plan_of(core, write), from_ref(from), parity, fua, to);
}

/// Acknowledges a write. `operation` is what it keeps in place of the client's.
fn acknowledge(core: &Core, write: &mut StraightWrite, result: Result<(), IoError>, operation: Operation) {
    core.coalescer.end(&core.ready, std::iter::once(write.start_sector + write.sectors()));
    core.steering.ended(write.begun, core.now());
    core.straight_writes.acknowledged();
    let operation = std::mem::replace(&mut write.operation, operation);
    core.done(Completion { tag: write.tag, result, operation });
}

/// Acknowledges a write early, if its logged records would count after a crash (R23).
fn acknowledge_early(core: &Core, write: &mut StraightWrite) {
    let holders = write.early.take().filter(|holders| is_as_it_began(core, write) && core.may_acknowledge_early(holders));
    let Some(holders) = holders else { return };
    let (from, fua) = write.asked();
    let operation = Operation::Write { from: shared(from), fua };
    acknowledge(core, write, Ok(()), operation);
    let places = places(core, write.stripe, from_ref(&write.part));
    write.behind = Some((core.log.acknowledge_early(places, holders.clone()), holders));
}

/// Takes the next step of every write that can. Returns whether there was any.
pub(crate) fn go_on(core: &Rc<Core>) -> bool {
    let mut went = false;
    loop {
        let Some(key) = core.straight_writes.next_ready() else { return went };
        went = true;
        step(core, key);
    }
}

fn step(core: &Rc<Core>, key: usize) {
    let mut all = core.straight_writes.all();
    let write = &mut all[key];
    write.is_ready = false;
    match std::mem::replace(&mut write.phase, Phase::Reading) {
        Phase::Reading if is_as_it_began(core, write) => {
            if let Some(partial) = compute(core, write) {
                write.phase = Phase::Logging(log(core, key, write, &partial));
                return;
            }
            write.phase = Phase::Writing(Logged::nothing());
            send_write(core, key, write);
        }
        Phase::Reading => begin_again(core, all.remove(key)),
        Phase::Logging(mut logged) => {
            let (is_logged, ended) = core.log.progress(&logged);
            if is_logged {
                acknowledge_early(core, write);
            }
            if !ended {
                write.phase = Phase::Logging(logged);
                return;
            }
            let is_logged = core.log.result(&mut logged);
            if is_logged.is_ok() && is_as_it_began(core, write) {
                write.phase = Phase::Writing(logged);
                return send_write(core, key, write);
            }
            let write = all.remove(key);
            if write.behind.is_some() {
                return core.ready.spawn(perform(Rc::clone(core), write, logged, is_logged));
            }
            core.log_forget(logged);
            begin_again(core, write);
        }
        Phase::Writing(logged) => {
            let mut write = all.remove(key);
            if !write.failures.is_empty() || !core.may_acknowledge_at_once() {
                return core.ready.spawn(end(Rc::clone(core), write, logged));
            }
            let parts = from_ref(&write.part);
            let was_early = write.behind.is_some();
            if let Some((behind, _)) = write.behind.take() {
                core.log.behind.end(&core.ready, behind, places(core, write.stripe, parts));
            }
            core.log_end(write.stripe, parts, logged);
            core.write_ended(&sync_of_rows(&write.rows));
            release(core, &mut write);
            if !was_early {
                acknowledge(core, &mut write, Ok(()), Operation::Flush);
            }
        }
    }
}

fn send_write(core: &Core, key: usize, write: &mut StraightWrite) {
    let mut pending = 0;
    send_all(core, write, |MemberIo { member, start_sector, sectors, operation }| {
        core.send(member, start_sector, sectors, operation, Waiting::Straight { write: key, index: pending });
        pending += 1;
    });
    write.pending = pending;
}

/// Gives back the memory and rows of a write that has ended.
fn release(core: &Core, write: &mut StraightWrite) {
    write.claims.drain(..).for_each(|claim| core.buffers.give_claim(claim));
    core.locks.unlock(write.lock, &core.ready);
}

/// Lets a write that has changed nothing yet begin again as a new one.
fn begin_again(core: &Rc<Core>, write: StraightWrite) {
    write.read.into_iter().flatten().for_each(|buffer| core.buffers.give(buffer));
    core.write_ended(&sync_of_rows(&write.rows));
    core.locks.unlock(write.lock, &core.ready);
    core.coalescer.end(&core.ready, std::iter::empty());
    core.straight_writes.acknowledged();
    let sectors = write.rows.sectors();
    let width = core.geometry.strip_sectors() * core.geometry.data_count() as u64;
    let (data, fua) = match &write.operation {
        Operation::Write { from, fua } => (shared(from), *fua),
        _ => unreachable!("this is a write"),
    };
    let part = Part {
        parent: core.requests.begin_one(write.tag, write.begun, write.start_sector, write.operation),
        start_sector: StripeSector::new(write.start_sector.get() % width),
        data,
        fua,
        small: core.log.logs_new_data_of(sectors),
        alone: core.log.must_not_coalesce(sectors),
        goes_on: false,
    };
    write_part(core, write.stripe, part);
}

/// Brings a write that was acknowledged early to its place, whichever members are left: with its log holders lost, its data
/// exists nowhere else (R53). It is given up where it would harm what parity covers beside it (R54).
async fn perform(core: Rc<Core>, mut write: StraightWrite, logged: Logged, is_logged: Result<(), IoError>) {
    let log_holders = write.behind.as_ref().map_or_else(LogHolders::new, |(_, log_holders)| log_holders.clone());
    core.wait_for_ack_barrier_or(|| core.members.borrow().are_gone(&log_holders)).await;
    if let (Err(error), Health::Failed) = (is_logged, core.health()) {
        let (behind, _) = write.behind.take().expect("it was acknowledged early");
        give_up_behind(&core, write.stripe, from_ref(&write.part), behind, logged, &error);
        let _ = core.write_end(&sync_of_rows(&write.rows)).await;
        return release(&core, &mut write);
    }
    let batch = core.member_requests.begin_batch(&core.ready);
    send_all(&core, &mut write, |io| core.send_in(batch, io));
    let mut ended = core.member_requests.batch_ended(batch).await;
    write.failures = ended.extract_if(.., |ended| ended.result.is_err()).collect();
    core.member_requests.reuse(ended);
    end(core, write, logged).await;
}

/// Ends a write that a member failed, or that may not be acknowledged at once.
async fn end(core: Rc<Core>, mut write: StraightWrite, logged: Logged) {
    let behind = write.behind.take().map(|(behind, _)| behind);
    let was_early = behind.is_some();
    let result = finish(&core, write.stripe, from_ref(&write.part), &write.failures, None, behind, logged).await;
    let result = result.and(core.write_end(&sync_of_rows(&write.rows)).await);
    release(&core, &mut write);
    if !was_early {
        acknowledge(&core, &mut write, result, Operation::Flush);
    }
}
