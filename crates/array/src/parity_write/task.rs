//! Writes that may wait: a task writes to one stripe, with everything that was coalesced with it.

use super::{finish, freeze, give_up_behind, log_holders, logs_new_data, may_be_early, places, records, rows, send};
use crate::address::{Sectors, sync_of_rows};
use crate::coalesce::{Part, rows_of};
use crate::core::{Core, gate_plan, lacks_space, lost};
use crate::lock::Mode;
use crate::log::LogHolders;
use crate::log_record::{BAND_SECTORS, LogRecord};
use crate::member_requests::{Ended, MemberIo};
use crate::no_space::{ParityBefore, parity_before, write_in_place};
use crate::parity_code::{Change, Found, Unit, reads};
use crate::parity_io::{correct_rows, presences, read_units};
use crate::plan::{Presence, Rectangle, Strips, WritePlan, plan_write, rectangles};
use crate::segments::{one_piece, slice_segments};
use crate::straight_writes::Frozen;
use crate::task::Worker;
use crate::{ArraySector, Flaw, Health, MemberId, MemberSector, MemberState, StripSector, StripeSector};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;
use stria_block::{Data, IoError, Nanos, Segments, bytes};

pub(super) async fn write_forever(core: Rc<Core>, worker: Rc<Worker<usize>>) {
    loop {
        let key = core.coalescer.job(&core.ready, &worker).await;
        write_coalesced(&core, key).await;
    }
}

/// Performs a write to one stripe, with everything that was coalesced with it until its rows were locked.
async fn write_coalesced(core: &Rc<Core>, key: usize) {
    let opened = core.log_open().await;
    let locked = wait_for_more(core, key).await;
    let strip = core.geometry.strip_sectors();
    let rows = core.geometry.rows_of_strip(core.coalescer.stripe(key), &locked);
    let guard = core.lock(sync_of_rows(&rows), Mode::Exclusive).await;
    let mut coalesced = core.coalescer.close(key);
    let write = StripeWrite {
        stripe: coalesced.stripe,
        range: coalesced.range,
        fua: coalesced.parts.iter().any(|part| part.fua),
        small: coalesced.parts.iter().any(|part| part.small),
        parts: &coalesced.parts,
        start_sector: ArraySector::new(coalesced.stripe * strip * core.geometry.data_count() as u64),
        acknowledged: Cell::new(false),
    };
    let result = match opened {
        Ok(()) => write_stripe(core, &write).await,
        failed => failed,
    };
    drop(guard);
    if !write.acknowledged.get() {
        write.acknowledge(core, &result);
    }
    coalesced.parts.clear();
    core.coalescer.reuse(coalesced.parts);
}

/// 50 µs: within this time a client sends its next writes after the end of others.
const TURN: Nanos = 50_000;

/// Waits for other parts, if they are likely to come soon. Returns the rows of the strips to lock.
async fn wait_for_more(core: &Core, key: usize) -> Range<StripSector> {
    let coalescer = &core.coalescer;
    if let Some(count) = coalescer.wait_for_more(key, core.ready.current()) {
        let mut due = None;
        poll_fn(|_| {
            if !coalescer.is_held(key) {
                return Poll::Ready(());
            }
            if !coalescer.have_ended(count) {
                return Poll::Pending;
            }
            let due = *due.get_or_insert_with(|| core.clock.wake_at(&core.ready, core.now() + TURN));
            if core.now() < due { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
    coalescer.begin_held(key, core.geometry.strip_sectors())
}

/// A write to one stripe.
struct StripeWrite<'a> {
    stripe: u64,
    range: Range<StripeSector>,
    /// Clients' parts, each following the one before.
    parts: &'a [Part],
    fua: bool,
    /// All parts belong to requests so small that the log holds their new data where it must.
    small: bool,
    /// First sector of the stripe in the array.
    start_sector: ArraySector,
    /// It was acknowledged early.
    acknowledged: Cell<bool>,
}

impl StripeWrite<'_> {
    /// Completes the clients' parts.
    fn acknowledge(&self, core: &Core, result: &Result<(), IoError>) {
        self.acknowledged.set(true);
        core.coalescer.end(&core.ready, self.parts.iter().map(|part| self.start_sector + part.end_sector().get()));
        self.parts.iter().for_each(|part| core.part_done(part.parent, None, result.clone()));
    }

    /// True if these parts are all of the write, and it would gain from early acknowledgement.
    fn may_be_early(&self, core: &Core, parts: &[Rectangle]) -> bool {
        let sectors = parts.iter().map(|part| part.rows.sectors() * part.strips.len() as u64).sum::<u64>();
        sectors == self.range.sectors() && may_be_early(core, sectors, self.small, self.fua)
    }

    /// The new data of each strip of a part.
    fn new_strips(&self, part: &Rectangle, strip_sectors: u64) -> SmallVec<[Segments<Data>; 4]> {
        let strip = |index: usize| {
            let start = index as u64 * strip_sectors + part.rows.start.get() - self.range.start.get();
            let data = self.parts.iter().flat_map(|part| &part.data);
            slice_segments(data, bytes(start), bytes(part.rows.sectors()))
        };
        part.strips.clone().map(strip).collect()
    }
}

/// Performs a write under the lock of its rows.
async fn write_stripe(core: &Rc<Core>, write: &StripeWrite<'_>) -> Result<(), IoError> {
    let strip = core.geometry.strip_sectors();
    let rows = rows_of(&write.range, strip);
    let rows = core.geometry.rows_of_strip(write.stripe, &rows);
    let sync = sync_of_rows(&rows);
    core.write_begin(&sync).await?;
    let mut unreadable = Strips::new();
    let mut result = Ok(());
    for band in bands(core, rectangles(write.range.clone(), strip)) {
        result = loop {
            if let Some(result) = try_write(core, write, &band, &mut unreadable).await {
                break result;
            }
        };
        if result.is_err() {
            break;
        }
    }
    result = result.and(core.write_end(&sync).await);
    if write.fua {
        result = result.and_then(|()| core.bad_blocks_are_listed("write"));
    }
    for slot in unreadable {
        // A strip that could not be read and was not overwritten is corrected in the background.
        core.ready.spawn(correct_rows(Rc::clone(core), slot, rows.clone()));
    }
    result
}

/// Splits a write into what is written at once: everything, unless partial strips exceed one log record, or all records must
/// fit one append.
fn bands(core: &Core, parts: SmallVec<[Rectangle; 3]>) -> SmallVec<[SmallVec<[Rectangle; 3]>; 1]> {
    let data_count = core.geometry.data_count();
    let too_long = |part: &Rectangle| part.strips.len() < data_count && part.rows.sectors() > BAND_SECTORS;
    let partial_sectors: u64 = parts.iter().filter(|part| part.strips.len() < data_count).map(|part| part.rows.sectors()).sum();
    let too_many = core.log.is_newest_only() && partial_sectors > BAND_SECTORS;
    if core.log.config.is_none() || !too_many && !parts.iter().any(too_long) {
        return smallvec![parts];
    }
    let mut bands = SmallVec::new();
    for part in parts {
        if !too_long(&part) {
            bands.push(smallvec![part]);
            continue;
        }
        for rows in part.rows.in_steps(BAND_SECTORS) {
            bands.push(smallvec![Rectangle { rows, strips: part.strips.clone() }]);
        }
    }
    bands
}

/// Prepares some rows of a stripe for planning.
async fn prepare(core: &Core, stripe: u64, parts: &[Rectangle]) -> Result<(), IoError> {
    for part in parts {
        core.flush_neighbours(stripe, &part.rows, &part.strips).await?;
    }
    for part in parts {
        write_in_place(core, stripe, &rows(core, stripe, part)).await?;
    }
    Ok(())
}

/// Plans a part by what is there now.
fn plan(core: &Core, stripe: u64, part: &Rectangle, unreadable: &Strips) -> Result<WritePlan, IoError> {
    let rows = rows(core, stripe, part);
    let there = presences(core, core.map(stripe), &rows, unreadable);
    let parity_matches = core.consistency.covers(&sync_of_rows(&rows)) || core.has(Flaw::SuspectParityUpdated);
    let Ok(plan) = plan_write(&there[0], &there[1], part.strips.clone(), parity_matches) else {
        let what = format!("write to stripe {stripe}");
        return Err(lost(&what, "strips that parity must cover cannot be read"));
    };
    gate_plan(&plan, &there[0], &there[1], &part.strips);
    Ok(plan)
}

/// One attempt. Returns `None` if a strip could not be read: plan again without it.
async fn try_write(
    core: &Core,
    write: &StripeWrite<'_>,
    parts: &[Rectangle],
    unreadable: &mut Strips,
) -> Option<Result<(), IoError>> {
    let stripe = write.stripe;
    let (map, strip) = (core.map(stripe), core.geometry.strip_sectors());
    if let Err(error) = prepare(core, stripe, parts).await {
        return Some(Err(error));
    }
    // No wait between looking at members and reading: slots change hands meanwhile.
    let mut plans: SmallVec<[WritePlan; 1]> = SmallVec::new();
    let mut wanted: SmallVec<[(Unit, Range<MemberSector>); 4]> = SmallVec::new();
    for part in parts {
        let plan = match plan(core, stripe, part, unreadable) {
            Ok(plan) => plan,
            Err(error) => return Some(Err(error)),
        };
        wanted.extend(reads(&plan).map(|unit| (unit, rows(core, stripe, part))));
        plans.push(plan);
    }
    let mut read = read_units(core, map, &wanted, unreadable).await?.into_iter();
    let first = first_members(core, stripe, parts);
    let before = if first.is_empty() { ParityBefore::new() } else { parity_before(core, stripe, parts).await };
    let early = first.is_empty() && write.may_be_early(core, parts);
    let log_holders = if early { log_holders(core, stripe, parts) } else { LogHolders::new() };
    let logs = core.log.config.is_some();
    let mut claims: SmallVec<[_; 4]> = SmallVec::new();
    let mut groups: Vec<SmallVec<[(MemberId, LogRecord); 2]>> = Vec::new();
    let mut computed: SmallVec<[(SmallVec<[Segments<Data>; 4]>, Frozen); 1]> = SmallVec::new();
    for (part, plan) in parts.iter().zip(&plans) {
        let found = Found::new(reads(plan).zip(read.by_ref()));
        let written = write.new_strips(part, strip);
        let new = Change { core, map, plan, part, written: &written }.new_parity(found, logs);
        let partial = freeze(new.partial.unwrap_or_default(), |claim| claims.push(claim));
        let parity = freeze(new.parity, |claim| claims.push(claim));
        if logs {
            groups.extend(part_records(core, write, part, plan, &partial, &written, early));
        }
        computed.push((written, parity));
    }
    let new_data_is_logged = groups.iter().flatten().all(|(_, record)| !record.new_data.is_empty());
    let early = early && new_data_is_logged && groups.len() == parts.len();
    let mut logged = match core.log_append_records(groups).await {
        Ok(logged) => logged,
        Err(error) => return Some(Err(error)),
    };
    // R10: a member dropped meanwhile has no record of this write. Before data goes out its drop must be durable.
    core.wait_for_ack_barrier().await;
    if let Err(error) = core.drops_are_recorded("write") {
        core.log_forget(logged);
        return Some(Err(error));
    }
    // R23: beyond redundancy a member that is gone keeps its slot, and this write would never be in its place.
    let has_failed = early && core.members.borrow().health() == Health::Failed;
    let behind = (early && !has_failed && core.may_acknowledge_early(&log_holders)).then(|| {
        write.acknowledge(core, &Ok(()));
        core.log.acknowledge_early(places(core, stripe, parts), log_holders.clone())
    });
    let mut is_logged = core.log.durable(&mut logged).await;
    // R53: a write that was acknowledged early goes out in any case. If its log holders are lost, its data exists nowhere else.
    if is_logged.is_ok() || behind.is_some() {
        core.wait_for_ack_barrier_or(|| behind.is_some() && core.members.borrow().are_gone(&log_holders)).await;
        is_logged = is_logged.and_then(|()| core.drops_are_recorded("write"));
    }
    if let Err(error) = is_logged {
        match behind {
            None => {
                core.log_forget(logged);
                return Some(Err(error));
            }
            Some(behind) if core.health() == Health::Failed => {
                give_up_behind(core, stripe, parts, behind, logged, &error);
                return Some(Err(error));
            }
            Some(_) => {}
        }
    }
    let mut data = Vec::new();
    let batch = core.member_requests.begin_batch(&core.ready);
    for ((part, plan), (written, parity)) in parts.iter().zip(&plans).zip(computed) {
        send(core, stripe, part, plan, &written, parity, write.fua, |io| match first.is_empty() || first.contains(&io.member) {
            true => core.send_in(batch, io),
            false => data.push(io),
        });
    }
    let mut ended = core.member_requests.batch_ended(batch).await;
    let is_sent = first.is_empty() || send_data(core, data, &mut ended).await;
    let undo = (!is_sent).then_some(before);
    let result = finish(core, stripe, parts, &ended, undo, behind, logged).await;
    core.member_requests.reuse(ended);
    claims.into_iter().for_each(|claim| core.buffers.give_claim(claim));
    Some(result)
}

/// The members with parity of a stripe, if it must be written before data: it may lack space, and parity alone has what is
/// missing (R46), or its member's list of bad blocks has no space to spare (R85).
fn first_members(core: &Core, stripe: u64, parts: &[Rectangle]) -> Vec<MemberId> {
    if core.no_space.has_places(core.now()) {
        return Vec::new();
    }
    let (members, map) = (core.members.borrow(), core.map(stripe));
    let parity = map.parity.iter().flat_map(|&slot| members.each_target(usize::from(slot)));
    let parity: Vec<MemberId> = parity.collect();
    let is_scarce = |member: &MemberId| members.get(*member).list_is_half_full(core.partition.lane_count);
    let is_missing = |part: &Rectangle| {
        let rows = rows(core, stripe, part);
        map.data.iter().any(|&slot| members.presence(usize::from(slot), &rows) != Presence::Readable)
    };
    if parity.iter().any(is_scarce) || parts.iter().any(is_missing) { parity } else { Vec::new() }
}

/// Sends data whose parity was sent before it, and waits for it. `false`: a member had no space for parity, and none was sent.
async fn send_data(core: &Core, data: Vec<MemberIo>, ended: &mut Vec<Ended>) -> bool {
    let has_no_space = |ended: &Ended| matches!(&ended.result, Err(error) if lacks_space(core, ended.member, error));
    if ended.iter().any(has_no_space) {
        return false;
    }
    let batch = core.member_requests.begin_batch(&core.ready);
    // A member may have been dropped meanwhile.
    let is_there = |io: &MemberIo| core.members.borrow().get(io.member).state != MemberState::Failed;
    data.into_iter().filter(is_there).for_each(|io| core.send_in(batch, io));
    let mut ended_data = core.member_requests.batch_ended(batch).await;
    ended.append(&mut ended_data);
    core.member_requests.reuse(ended_data);
    true
}

/// The log records of a part. All strips together need none but to overrule older ones (R19). `None`: none at all.
fn part_records(
    core: &Core,
    write: &StripeWrite<'_>,
    part: &Rectangle,
    plan: &WritePlan,
    partial: &[Data],
    written: &[Segments<Data>],
    early: bool,
) -> Option<SmallVec<[(MemberId, LogRecord); 2]>> {
    let new_data = logs_new_data(core, part, write.small, early);
    if part.strips.len() == core.map(write.stripe).data.len() && !new_data {
        return core.needs_revoke(write.stripe, &part.rows).then(|| core.revoke_records(write.stripe, &part.rows));
    }
    let new_data: SmallVec<[Data; 1]> = written.iter().filter(|_| new_data).cloned().map(one_piece).collect();
    let records: SmallVec<[_; 2]> = records(core, write.stripe, part, plan, partial, &new_data).collect();
    (!records.is_empty()).then_some(records)
}
