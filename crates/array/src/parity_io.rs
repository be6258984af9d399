//! Requests on RAID 4, 5 and 6, stripe by stripe.
//!
//! A write makes superblocks dirty and bits durable (R1, R2), then its [log](crate::log) records (R17), and then sends data and
//! parity in any order. Until the last of them has ended, parity of these rows may be inconsistent. The bits tell a resync; the
//! records tell a replay, if members are lost as well. docs/CRASH_SAFETY.md has every step.

use crate::core::{Core, Ended, FailedPart, MemberIo, lost, one_piece, slice_segments, write_io};
use crate::gates::gate_plan;
use crate::gather::{Part, rows_of};
use crate::lock::Mode;
use crate::log::{BAND_SECTORS, LogHolders, LogRecord};
use crate::no_space::{bring_home, is_no_space, reconcile_parity};
use crate::plan::{Method, Presence, Rectangle, Strips, Unrecoverable, WritePlan, indices, plan_write, rectangles, sources};
use crate::{Event, StripeMap};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Data, IoError, Operation, Segments, bytes};
use stria_parity::{Code, Strip};

/// 4 KiB: the granularity at which damage is located.
pub(crate) const PAGE_SECTORS: u64 = 8;

/// A strip of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Data(usize),
    Parity(usize),
}

impl Unit {
    pub fn slot(self, map: &StripeMap) -> usize {
        usize::from(match self {
            Unit::Data(index) => map.data[index],
            Unit::Parity(index) => map.parity[index],
        })
    }
}

/// What can be done with each strip over some rows. Slots in `unreadable` cannot be read.
pub(crate) fn presences(core: &Core, map: &StripeMap, rows: &Range<u64>, unreadable: &Strips) -> [SmallVec<[Presence; 16]>; 2] {
    let members = core.members.borrow();
    let of = |&slot: &u16| match members.presence(slot.into(), rows) {
        Presence::Whole if unreadable.contains(&slot.into()) => Presence::WriteOnly,
        presence => presence,
    };
    [map.data.iter().map(of).collect(), map.parity.iter().map(of).collect()]
}

/// Data that was read, by strip.
pub(crate) struct Found(SmallVec<[(Unit, Buffer); 4]>);

impl Found {
    pub fn new(found: SmallVec<[(Unit, Buffer); 4]>) -> Self {
        Self(found)
    }

    pub fn get(&self, unit: Unit) -> Option<&Buffer> {
        self.0.iter().find(|(known, _)| *known == unit).map(|(_, buffer)| buffer)
    }

    fn take(&mut self, unit: Unit) -> Option<Buffer> {
        let index = self.0.iter().position(|(known, _)| *known == unit)?;
        Some(self.0.swap_remove(index).1)
    }

    pub fn recycle(self, core: &Core) {
        self.0.into_iter().for_each(|(_, buffer)| core.give_buffer(buffer));
    }
}

/// Reads `rows` (of members) of the wanted strips. If any fails, adds its slot to `unreadable` and returns `None`. A slot whose
/// member was replaced meanwhile is not added: the replaced member's failure says nothing about the next one.
pub(crate) async fn read_units(
    core: &Core,
    map: &StripeMap,
    wanted: &[(Unit, Range<u64>)],
    unreadable: &mut Strips,
) -> Option<SmallVec<[Buffer; 4]>> {
    let member = |unit: &Unit| core.members.borrow().slots()[unit.slot(map)].member;
    if !wanted.iter().all(|(unit, _)| member(unit).is_some()) {
        return None;
    }
    let batch = core.batch();
    for (unit, rows) in wanted {
        let member = member(unit).expect("all are there");
        core.send_in(batch, core.read_io(member, rows.start, rows.end - rows.start));
    }
    let mut ended = core.ended(batch).await;
    let mut buffers = SmallVec::new();
    let mut failed = false;
    for ((unit, rows), Ended { member: asked, result, operation, .. }) in wanted.iter().zip(ended.drain(..)) {
        let Operation::Read { mut into } = operation else { unreachable!("a read comes back as a read") };
        core.log.correct(unit.slot(map), rows, &mut into[0]);
        buffers.extend(into);
        if result.is_err() {
            failed = true;
            let slot = unit.slot(map);
            if !unreadable.contains(&slot) && member(unit) == Some(asked) {
                unreadable.push(slot);
            }
        }
    }
    core.reuse(ended);
    if failed {
        buffers.into_iter().for_each(|buffer| core.give_buffer(buffer));
        return None;
    }
    Some(buffers)
}

/// Strips in the order of the code. `of` gives each data strip and parity.
pub(crate) fn code_strips<'a>(
    map: &StripeMap,
    zeros: &'a [u8],
    mut of: impl FnMut(Unit) -> Strip<'a>,
) -> SmallVec<[Strip<'a>; 24]> {
    let mut strips: SmallVec<[Strip<'a>; 24]> = (0..map.code_count).map(|_| Strip::Present(zeros)).collect();
    for (index, &position) in map.code.iter().enumerate() {
        strips[usize::from(position)] = of(Unit::Data(index));
    }
    strips.extend((0..map.parity.len()).map(|index| of(Unit::Parity(index))));
    strips
}

/// Computes the wanted parities into fresh buffers. `data` gives the bytes of a data strip, by address, between two of `cuts`,
/// which begin with 0 and end with the length.
fn generate<'a>(
    core: &'a Core,
    map: &StripeMap,
    cuts: &[usize],
    wanted: &Strips,
    data: impl Fn(usize, Range<usize>) -> &'a [u8],
) -> Parities {
    let len = cuts[cuts.len() - 1];
    let mut parity: Parities = wanted.iter().map(|&index| (index, core.take_buffer((len / 512) as u64))).collect();
    for cut in cuts.windows(2) {
        let range = cut[0]..cut[1];
        let mut by_code: SmallVec<[&[u8]; 24]> = smallvec![core.zero_bytes(range.len()); map.code_count];
        for (index, &position) in map.code.iter().enumerate() {
            by_code[usize::from(position)] = data(index, range.clone());
        }
        let mut outputs = outputs(map, &mut parity, &range);
        core.code.as_ref().expect("a parity level").generate(&by_code, &mut outputs);
    }
    parity
}

/// A range of each parity that is computed, by its number.
fn outputs<'a>(map: &StripeMap, parity: &'a mut Parities, range: &Range<usize>) -> SmallVec<[Option<&'a mut [u8]>; 3]> {
    let mut outputs: SmallVec<[Option<&mut [u8]>; 3]> = (0..map.parity.len()).map(|_| None).collect();
    for (index, buffer) in parity {
        outputs[*index] = Some(&mut buffer[range.clone()]);
    }
    outputs
}

/// Bytes of `segments` that lie within one of them.
fn within(segments: &Segments<Data>, range: Range<usize>) -> &[u8] {
    let mut start = 0;
    for segment in segments {
        if range.start < start + segment.len() {
            return &segment[range.start - start..range.end - start];
        }
        start += segment.len();
    }
    unreachable!("the range lies in the segments");
}

/// Where the segments of any of these strips of `len` bytes begin and end, in order.
fn cuts(strips: &[Segments<Data>], len: usize) -> SmallVec<[usize; 4]> {
    let mut cuts: SmallVec<[usize; 4]> = smallvec![0, len];
    for strip in strips {
        let mut end = 0;
        for segment in strip {
            end += segment.len();
            cuts.extend((end < len).then_some(end));
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Performs a write to one stripe, with everything that was coalesced with it until its rows were locked.
pub(crate) async fn write_gathered(core: &Rc<Core>, key: usize) {
    let opened = core.log_open().await;
    let locked = core.hold(key).await;
    let strip = core.geometry.strip_sectors();
    let base = core.gathers.stripe(key) * strip;
    let guard = core.lock(base + locked.start..base + locked.end, Mode::Exclusive).await;
    let mut gather = core.gathers.close(key);
    let write = StripeWrite {
        stripe: gather.stripe,
        range: gather.range,
        fua: gather.parts.iter().any(|part| part.fua),
        small: gather.parts.iter().any(|part| part.small),
        parts: &gather.parts,
        start_sector: gather.stripe * strip * core.geometry.data_count() as u64,
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
    gather.parts.clear();
    core.gathers.reuse(gather.parts);
}

/// A write to one stripe.
struct StripeWrite<'a> {
    stripe: u64,
    /// In sectors of the stripe's data.
    range: Range<u64>,
    /// Clients' parts, each following the one before.
    parts: &'a [Part],
    fua: bool,
    /// All parts belong to requests so small that the log holds their new data where it must.
    small: bool,
    /// First sector of the stripe in the array.
    start_sector: u64,
    /// It was acknowledged early.
    acknowledged: Cell<bool>,
}

impl StripeWrite<'_> {
    /// Completes the clients' parts.
    fn acknowledge(&self, core: &Core, result: &Result<(), IoError>) {
        self.acknowledged.set(true);
        core.gathers.end(&core.ready, self.parts.iter().map(|part| self.start_sector + part.end_sector()));
        self.parts.iter().for_each(|part| core.part_done(part.parent, None, result.clone()));
    }

    /// True if this write would gain from early acknowledgement and all of its parts are logged.
    fn may_be_early(&self, core: &Core, parts: &[Rectangle]) -> bool {
        let sectors = parts.iter().map(|part| (part.rows.end - part.rows.start) * part.strips.len() as u64).sum::<u64>();
        let all = sectors == self.range.end - self.range.start;
        let volatile = || core.has_volatile_members();
        self.small && !self.fua && all && core.log.would_benefit(sectors, core.requests_in_flight(), volatile)
    }

    /// The new data of some rows of a data strip.
    fn new_strip(&self, index: usize, rows: &Range<u64>, strip_sectors: u64) -> Segments<Data> {
        let start = index as u64 * strip_sectors + rows.start - self.range.start;
        let data = self.parts.iter().flat_map(|part| &part.data);
        slice_segments(data, bytes(start), bytes(rows.end - rows.start))
    }
}

/// Performs a write under the lock of its rows.
async fn write_stripe(core: &Rc<Core>, write: &StripeWrite<'_>) -> Result<(), IoError> {
    let strip = core.geometry.strip_sectors();
    let rows = rows_of(&write.range, strip);
    let rows = write.stripe * strip + rows.start..write.stripe * strip + rows.end;
    core.write_begin(&rows).await;
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
    core.write_end(&rows).await;
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
    let too_long = |part: &Rectangle| part.strips.len() < data_count && part.rows.end - part.rows.start > BAND_SECTORS;
    let partial_sectors: u64 =
        parts.iter().filter(|part| part.strips.len() < data_count).map(|part| part.rows.end - part.rows.start).sum();
    let too_many = core.log.config.is_some_and(|log| log.newest_only) && partial_sectors > BAND_SECTORS;
    if core.log.config.is_none() || !too_many && !parts.iter().any(too_long) {
        return smallvec![parts];
    }
    let mut bands = SmallVec::new();
    for part in parts {
        if !too_long(&part) {
            bands.push(smallvec![part]);
            continue;
        }
        for start in part.rows.clone().step_by(BAND_SECTORS as usize) {
            let rows = start..part.rows.end.min(start + BAND_SECTORS);
            bands.push(smallvec![Rectangle { rows, strips: part.strips.clone() }]);
        }
    }
    bands
}

/// One attempt. Returns `None` if a strip could not be read: plan again without it.
async fn try_write(
    core: &Core,
    write: &StripeWrite<'_>,
    parts: &[Rectangle],
    unreadable: &mut Strips,
) -> Option<Result<(), IoError>> {
    let map = core.map(write.stripe);
    let strip = core.geometry.strip_sectors();
    let base = write.stripe * strip;
    let mut plans: SmallVec<[(WritePlan, [SmallVec<[Presence; 16]>; 2]); 1]> = SmallVec::new();
    let mut wanted: SmallVec<[(Unit, Range<u64>); 4]> = SmallVec::new();
    for part in parts {
        if let Err(error) = core.flush_neighbours(write.stripe, &part.rows, &part.strips).await {
            return Some(Err(error));
        }
    }
    for part in parts {
        if let Err(error) = bring_home(core, write.stripe, &(base + part.rows.start..base + part.rows.end)).await {
            return Some(Err(error));
        }
    }
    // No wait between looking at members and reading: slots change hands meanwhile.
    for part in parts {
        let rows = base + part.rows.start..base + part.rows.end;
        let there = presences(core, map, &rows, unreadable);
        let Ok(plan) = plan_write(&there[0], &there[1], part.strips.clone(), core.is_consistent(&rows)) else {
            let what = format!("write to stripe {}", write.stripe);
            return Some(Err(lost(&what, "strips that parity must cover cannot be read")));
        };
        gate_plan(&plan, &there[0], &there[1], &part.strips);
        wanted.extend(plan.read_data.iter().map(|&index| (Unit::Data(index), rows.clone())));
        wanted.extend(plan.read_parity.iter().map(|&index| (Unit::Parity(index), rows.clone())));
        plans.push((plan, there));
    }
    let mut read = read_units(core, map, &wanted, unreadable).await?.into_iter();
    let mut wanted = wanted.into_iter();
    let early = write.may_be_early(core, parts);

    let mut claims: SmallVec<[_; 4]> = SmallVec::new();
    let mut records: Vec<SmallVec<[(crate::MemberId, LogRecord); 2]>> = Vec::new();
    let mut parities: SmallVec<[SmallVec<[(usize, Data); 2]>; 3]> = SmallVec::new();
    let log_holders: LogHolders = if early {
        let members = core.members.borrow();
        let rows = |part: &Rectangle| base + part.rows.start..base + part.rows.end;
        let whole = |slot: usize| parts.iter().all(|part| members.presence(slot, &rows(part)) == Presence::Whole);
        core.log_holders(map.parity.iter().map(|&slot| usize::from(slot)).filter(|&slot| whole(slot)))
    } else {
        LogHolders::new()
    };
    for (part, (plan, there)) in parts.iter().zip(plans) {
        let count = plan.read_data.len() + plan.read_parity.len();
        let mut found = Found(SmallVec::new());
        for ((unit, _), buffer) in wanted.by_ref().zip(read.by_ref()).take(count) {
            found.0.push((unit, buffer));
        }
        let written: SmallVec<[Segments<Data>; 4]> =
            part.strips.clone().map(|index| write.new_strip(index, &part.rows, strip)).collect();
        let parity_there = indices(&there[1], |_, presence| presence != Presence::Missing);
        let keep = core.log.config.is_some() && plan.method != Method::Full;
        let (partial, parity) = new_parity(core, map, &plan, &mut found, part, &parity_there, &written, keep);
        found.recycle(core);
        let mut freeze = |(index, buffer): (usize, Buffer)| {
            claims.push(buffer.claim());
            (index, buffer.freeze())
        };
        let partial: SmallVec<[(usize, Data); 2]> = partial.into_iter().map(&mut freeze).collect();
        parities.push(parity.into_iter().map(freeze).collect());
        records.extend(part_records(core, write, part, &parity_there, &partial, &written, early));
    }
    let redone = records.iter().flatten().all(|(_, record)| !record.new_data.is_empty());
    let early = early && redone && records.len() == parts.len();
    let mut logged = match core.log_append_records(records).await {
        Ok(logged) => logged,
        Err(error) => return Some(Err(error)),
    };
    // R10: a member dropped meanwhile has no record of this write. Before data goes out its drop must be durable.
    core.wait_for_ack_barrier().await;
    let places = || {
        parts.iter().flat_map(|part| {
            let rows = base + part.rows.start..base + part.rows.end;
            part.strips.clone().map(move |index| (usize::from(map.data[index]), rows.clone()))
        })
    };
    let behind = (early && core.may_acknowledge_early(&log_holders)).then(|| {
        write.acknowledge(core, &Ok(()));
        core.log.acknowledge_early(places(), log_holders.clone())
    });
    match core.log_make_durable(&mut logged).await {
        Err(error) if behind.is_none() => {
            core.log_forget(logged);
            return Some(Err(error));
        }
        // R10: a write that was acknowledged early goes out in any case. If its log holders are lost, its data exists nowhere
        // else.
        _ => core.wait_for_ack_barrier_or(|| behind.is_some() && core.are_gone(&log_holders)).await,
    }
    let batch = core.batch();
    for part in parts {
        core.gate_client_write(&(base + part.rows.start..base + part.rows.end));
    }
    for (part, parities) in parts.iter().zip(parities) {
        let (start_sector, sectors) = (base + part.rows.start, part.rows.end - part.rows.start);
        for index in part.strips.clone() {
            let targets = core.members.borrow().targets(usize::from(map.data[index]));
            for member in targets {
                let operation = Operation::Write { from: write.new_strip(index, &part.rows, strip), fua: write.fua };
                core.send_in(batch, MemberIo { member, start_sector, sectors, operation });
            }
        }
        for (index, data) in parities {
            let targets = core.members.borrow().targets(usize::from(map.parity[index]));
            for member in targets {
                core.send_in(batch, write_io(member, start_sector, data.clone(), write.fua));
            }
        }
    }
    let ended = core.ended(batch).await;
    let mut result = settle(core, ended.iter().map(|ended| (ended.member, &ended.result)));
    if let Err(first) = &result {
        let no_space = is_no_space(first) && behind.is_none();
        if behind.is_some() {
            core.fail_next_flush(first);
        }
        let failed: SmallVec<[&Ended; 4]> = ended.iter().filter(|ended| ended.result.is_err()).collect();
        for part in parts.iter().filter(|_| no_space) {
            let rows = base + part.rows.start..base + part.rows.end;
            let members: SmallVec<[crate::MemberId; 4]> =
                failed.iter().filter(|ended| ended.start_sector == rows.start).map(|ended| ended.member).collect();
            if let Err(error) = reconcile_parity(core, write.stripe, &rows, &members).await {
                result = Err(error);
            }
        }
        for Ended { member, start_sector, sectors, .. } in failed.into_iter().filter(|_| !no_space) {
            if let Err(error) = mark_half_written(core, *member, *start_sector..start_sector + sectors).await {
                result = Err(error);
            }
        }
    }
    let failed: SmallVec<[crate::MemberId; 4]> =
        ended.iter().filter(|ended| ended.result.is_err()).map(|ended| ended.member).collect();
    core.reuse(ended);
    claims.into_iter().for_each(|claim| core.pool.borrow_mut().give_claim(claim));
    if let Some(behind) = behind {
        core.behind_end(behind, places());
    }
    // R21: a dropped member may need these records.
    core.wait_for_ack_barrier().await;
    core.gate_acknowledge(&result, failed);
    core.log_end(write.stripe, parts, logged);
    Some(result)
}

/// The log records of a part of a write, for the members of each parity.
fn part_records(
    core: &Core,
    write: &StripeWrite<'_>,
    part: &Rectangle,
    parity_there: &Strips,
    partial: &[(usize, Data)],
    written: &[Segments<Data>],
    early: bool,
) -> Option<SmallVec<[(crate::MemberId, LogRecord); 2]>> {
    core.log.config?;
    let map = core.map(write.stripe);
    let all = part.strips.len() == map.data.len();
    let several = part.strips.len() > 1;
    let redo_sectors = (part.rows.end - part.rows.start) * part.strips.len() as u64;
    let new_data = write.small && (several || early) && core.log.has_room_for(redo_sectors);
    if all && !new_data {
        return core.needs_revoke(write.stripe, &part.rows).then(|| core.revoke_records(write.stripe, &part.rows));
    }
    let redone: SmallVec<[Data; 1]> = written.iter().filter(|_| new_data).cloned().map(one_piece).collect();
    let members = core.members.borrow();
    let record = |&parity: &usize| {
        let record = LogRecord {
            number: 0,
            stripe: write.stripe,
            rows: part.rows.clone(),
            written: part.strips.clone(),
            parity,
            partial: partial.iter().find(|(index, _)| *index == parity).map(|(_, data)| data.clone()),
            new_data: redone.clone(),
            zeros: false,
        };
        // R18: replacements get the records too.
        members.targets(usize::from(map.parity[parity])).into_iter().map(move |member| (member, record.clone()))
    };
    let records: SmallVec<[_; 2]> = parity_there.iter().flat_map(record).collect();
    (!records.is_empty()).then_some(records)
}

/// As [`settle`], with members and results in the same order.
pub(crate) fn drop_failed_writes<'a>(
    core: &Core,
    targets: &[crate::MemberId],
    results: impl Iterator<Item = &'a Result<(), IoError>>,
) -> Result<(), IoError> {
    settle(core, targets.iter().copied().zip(results))
}

/// Drops the members whose writes failed. The write succeeds if redundancy covers all of them (R7).
pub(crate) fn settle<'a>(
    core: &Core,
    results: impl Iterator<Item = (crate::MemberId, &'a Result<(), IoError>)>,
) -> Result<(), IoError> {
    let mut outcome = Ok(());
    for (member, result) in results {
        let Err(error) = result else { continue };
        // A rebuilding member has no slot to lose.
        let holds_role = || core.members.borrow().get(member).role == crate::MemberState::InSync;
        if is_no_space(error) && holds_role() {
            outcome = Err(core.meet_no_space(member, error));
        } else if !core.fail_member(member, &format!("write failed: {error}")) {
            outcome = Err(lost("write", &error.context));
        }
    }
    outcome
}

/// Drops the members whose flushes failed, whatever the reason: what they had taken may be gone (R8).
pub(crate) fn drop_failed_flushes<'a>(
    core: &Core,
    results: impl Iterator<Item = (crate::MemberId, &'a Result<(), IoError>)>,
) -> Result<(), IoError> {
    let mut outcome = Ok(());
    for (member, result) in results {
        if let Err(error) = result
            && !core.fail_member(member, &format!("flush failed: {error}"))
        {
            outcome = Err(lost("flush", &error.context));
        }
    }
    outcome
}

/// A write failed on a member that cannot be dropped, and parity may have moved on without it. What only both together could
/// tell of other strips is lost, so these rows become bad blocks: a read must fail instead of returning garbage (R7).
pub(crate) async fn mark_half_written(core: &Core, member: crate::MemberId, rows: Range<u64>) -> Result<(), IoError> {
    if core.members.borrow().get(member).role == crate::MemberState::Failed {
        return Ok(());
    }
    if core.mark_bad(member, rows.clone()).await {
        core.refill_later(member, &rows, rows.clone());
        return Ok(());
    }
    Err(lost("write", &format!("the bad-block log has no room to say that rows {}.. are half-written", rows.start)))
}

/// The parity of all data strips of a stripe, given in address order.
pub(crate) fn computed_parity(core: &Core, map: &StripeMap, data: &[Buffer]) -> SmallVec<[(usize, Buffer); 2]> {
    let wanted: Strips = (0..map.parity.len()).collect();
    generate(core, map, &[0, data[0].len()], &wanted, |index, range| &data[index][range])
}

type Parities = SmallVec<[(usize, Buffer); 2]>;

/// Parity after the write and, where the log needs it, partial parity.
#[expect(clippy::too_many_arguments, reason = "one step of `try_write`, named apart")]
fn new_parity(
    core: &Core,
    map: &StripeMap,
    plan: &WritePlan,
    found: &mut Found,
    part: &Rectangle,
    parity_there: &Strips,
    written: &[Segments<Data>],
    keep: bool,
) -> (Parities, Parities) {
    let len = bytes(part.rows.end - part.rows.start);
    match plan.method {
        Method::DataOnly => (Parities::new(), Parities::new()),
        Method::ReadModifyWrite => {
            let mut parity: Parities =
                plan.read_parity.iter().map(|&index| (index, found.take(Unit::Parity(index)).expect("it was read"))).collect();
            let before = |at: usize| -> &[u8] { found.get(Unit::Data(part.strips.start + at)).expect("it was read") };
            each_written(core, map, part, &mut parity, written, |code, position, at, range, after, outputs| match keep {
                true => code.add(position, &before(at)[range], outputs),
                false => code.update(position, &before(at)[range], after, outputs),
            });
            if !keep {
                return (Parities::new(), parity);
            }
            let after = add_written(core, map, part, &parity, written);
            (parity, after)
        }
        Method::Full | Method::ReconstructWrite | Method::RecoverWrite => {
            let mut recovered: Parities = SmallVec::new();
            if plan.method == Method::RecoverWrite {
                let lost = |index: &usize| !part.strips.contains(index) && found.get(Unit::Data(*index)).is_none();
                let sectors = (len / 512) as u64;
                recovered.extend((0..map.data.len()).filter(lost).map(|index| (index, core.take_buffer(sectors))));
                recover(core, map, found, &mut recovered);
            }
            let cuts = cuts(if keep { &[] } else { written }, len);
            let data = |index: usize, range: Range<usize>| -> &[u8] {
                if part.strips.contains(&index) {
                    let strip = &written[index - part.strips.start];
                    return if keep { core.zero_bytes(range.len()) } else { within(strip, range) };
                }
                let read = found.get(Unit::Data(index));
                let recovered = || &recovered.iter().find(|(known, _)| *known == index).expect("read or recovered").1;
                &read.unwrap_or_else(recovered)[range]
            };
            let parity = generate(core, map, &cuts, parity_there, data);
            recovered.into_iter().for_each(|(_, buffer)| core.give_buffer(buffer));
            if !keep {
                return (Parities::new(), parity);
            }
            let after = add_written(core, map, part, &parity, written);
            (parity, after)
        }
    }
}

/// Lets each written strip change the parities, piece by piece. `apply` gets its position in the code, its index among the
/// written strips, the range of bytes, and the new bytes.
fn each_written(
    core: &Core,
    map: &StripeMap,
    part: &Rectangle,
    parity: &mut Parities,
    written: &[Segments<Data>],
    mut apply: impl FnMut(&Code, usize, usize, Range<usize>, &[u8], &mut [Option<&mut [u8]>]),
) {
    let code = core.code.as_ref().expect("a parity level");
    for (at, index) in part.strips.clone().enumerate() {
        let mut start = 0;
        for segment in &written[at] {
            let range = start..start + segment.len();
            start = range.end;
            let mut outputs = outputs(map, parity, &range);
            apply(code, usize::from(map.code[index]), at, range, segment, &mut outputs);
        }
    }
}

/// Adds the written strips to partial parity. `partial` stays as it is.
fn add_written(core: &Core, map: &StripeMap, part: &Rectangle, partial: &Parities, written: &[Segments<Data>]) -> Parities {
    let mut parity: Parities = partial
        .iter()
        .map(|(index, partial)| {
            let mut buffer = core.take_buffer((partial.len() / 512) as u64);
            buffer.copy_from_slice(partial);
            (*index, buffer)
        })
        .collect();
    each_written(core, map, part, &mut parity, written, |code, position, _, _, after, outputs| {
        code.add(position, after, outputs)
    });
    parity
}

/// Recovers the data strips named in `lost` from what was found.
fn recover(core: &Core, map: &StripeMap, found: &Found, lost: &mut [(usize, Buffer)]) {
    let Some((_, first)) = lost.first() else { return };
    let len = first.len();
    let zeros = core.zero_bytes(len);
    let mut targets: SmallVec<[(usize, Option<&mut [u8]>); 2]> =
        lost.iter_mut().map(|(index, buffer)| (*index, Some(&mut buffer[..]))).collect();
    let mut strips = code_strips(map, zeros, |unit| match found.get(unit) {
        Some(buffer) => Strip::Present(buffer),
        None => {
            let target = targets.iter_mut().find(|(index, _)| unit == Unit::Data(*index));
            target.and_then(|(_, target)| target.take()).map_or(Strip::Absent, Strip::Lost)
        }
    });
    core.code.as_ref().expect("a parity level").recover(&mut strips).expect("the plan read enough strips");
}

/// Recovers data strip `index` of a stripe, over `rows` of its member, from the other members, under the rows' lock.
pub(crate) async fn reconstruct(
    core: &Core,
    stripe: u64,
    index: usize,
    rows: &Range<u64>,
    unreadable: &mut Strips,
) -> Result<Buffer, Unrecoverable> {
    let map = core.map(stripe);
    loop {
        let there = presences(core, map, rows, unreadable);
        let (read_data, read_parity) = sources(&there[0], &there[1])?;
        if read_data.contains(&index) {
            let Some(mut read) = read_units(core, map, &[(Unit::Data(index), rows.clone())], unreadable).await else { continue };
            return Ok(read.pop().expect("one strip was read"));
        }
        let mut wanted: SmallVec<[(Unit, Range<u64>); 4]> = SmallVec::new();
        wanted.extend(read_data.iter().map(|&index| (Unit::Data(index), rows.clone())));
        wanted.extend(read_parity.iter().map(|&index| (Unit::Parity(index), rows.clone())));
        let Some(read) = read_units(core, map, &wanted, unreadable).await else { continue };
        let found = Found(wanted.into_iter().map(|(unit, _)| unit).zip(read).collect());
        let mut lost: SmallVec<[(usize, Buffer); 1]> = SmallVec::new();
        lost.push((index, core.take_buffer(rows.end - rows.start)));
        recover(core, map, &found, &mut lost);
        found.recycle(core);
        return Ok(lost.pop().expect("one strip was recovered").1);
    }
}

/// As [`reconstruct`], page by page, each from the members that can read it.
async fn reconstruct_pages(core: &Core, stripe: u64, index: usize, rows: &Range<u64>) -> Result<Buffer, Unrecoverable> {
    let mut whole = core.take_buffer(rows.end - rows.start);
    for row in rows.clone().step_by(PAGE_SECTORS as usize) {
        let page = row..rows.end.min(row + PAGE_SECTORS);
        let part = reconstruct(core, stripe, index, &page, &mut Strips::new()).await?;
        whole[bytes(row - rows.start)..][..part.len()].copy_from_slice(&part);
        core.give_buffer(part);
    }
    Ok(whole)
}

/// The address of a member's strip within its stripe. `None` if it holds parity.
fn data_index(map: &StripeMap, slot: usize) -> Option<usize> {
    map.data.iter().position(|&known| usize::from(known) == slot)
}

/// Reads a part of one strip whose member is missing or cannot be read directly.
pub(crate) async fn read_part(core: Rc<Core>, part: FailedPart, slot: usize) {
    let strip = core.geometry.strip_sectors();
    let rows = part.start_sector..part.start_sector + part.sectors;
    let guard = core.lock(rows.clone(), Mode::Shared).await;
    let stripe = rows.start / strip;
    let index = data_index(core.map(stripe), slot).expect("clients read data strips");
    let mut read = reconstruct(&core, stripe, index, &rows, &mut Strips::new()).await;
    if read.is_err() {
        read = reconstruct_pages(&core, stripe, index, &rows).await;
    }
    drop(guard);
    part.deliver(&core, read.ok());
}

/// A member could not read a part. Recovers it, returns it to the client, and writes it back (read correction).
pub(crate) async fn correct_part(core: Rc<Core>, part: FailedPart, slot: usize) {
    let strip = core.geometry.strip_sectors();
    let rows = part.start_sector..part.start_sector + part.sectors;
    let guard = core.lock(rows.clone(), Mode::Exclusive).await;
    let stripe = rows.start / strip;
    let index = data_index(core.map(stripe), slot).expect("clients read data strips");
    let mut unreadable = Strips::new();
    unreadable.push(slot);
    let mut read = reconstruct(&core, stripe, index, &rows, &mut unreadable).await;
    if read.is_err() {
        // Members may have failed at different sectors: pages may work where no whole run does.
        read = reconstruct_pages(&core, stripe, index, &rows).await;
    }
    if let Ok(buffer) = &read {
        rewrite(&core, part.member, rows.start, Buffer::copy_of(buffer).freeze()).await;
    }
    drop(guard);
    core.wait_for_ack_barrier().await;
    part.deliver(&core, read.ok());
}

/// Corrects a strip that a write found unreadable, if it still is.
async fn correct_rows(core: Rc<Core>, slot: usize, rows: Range<u64>) {
    let strip = core.geometry.strip_sectors();
    let stripe = rows.start / strip;
    let _guard = core.lock(rows.clone(), Mode::Exclusive).await;
    let Some(member) = core.members.borrow().slots()[slot].member else { return };
    let map = core.map(stripe);
    let parity = map.parity.iter().position(|&known| usize::from(known) == slot);
    let unit = data_index(map, slot).map_or_else(|| Unit::Parity(parity.expect("data or parity")), Unit::Data);
    let mut unreadable = Strips::new();
    if let Some(read) = read_units(&core, map, &[(unit, rows.clone())], &mut unreadable).await {
        read.into_iter().for_each(|buffer| core.give_buffer(buffer));
        return;
    }
    match unit {
        Unit::Data(index) => {
            if let Ok(buffer) = reconstruct(&core, stripe, index, &rows, &mut unreadable).await {
                rewrite(&core, member, rows.start, buffer.freeze()).await;
            }
        }
        Unit::Parity(index) => {
            let mut read: SmallVec<[Buffer; 24]> = SmallVec::new();
            for data in 0..map.data.len() {
                let Ok(buffer) = reconstruct(&core, stripe, data, &rows, &mut unreadable).await else { return };
                read.push(buffer);
            }
            let data = |index: usize, range: Range<usize>| &read[index][range];
            let mut parity = generate(&core, map, &[0, read[0].len()], &std::iter::once(index).collect(), data);
            rewrite(&core, member, rows.start, parity.pop().expect("one parity").1.freeze()).await;
        }
    }
}

/// Writes recovered data over sectors that could not be read, and reads them again. A member that cannot do that is dropped. On
/// a read-only array the sectors stay as they are.
pub(crate) async fn rewrite(core: &Core, member: crate::MemberId, start_sector: u64, data: Data) {
    if core.read_only.get() || core.members.borrow().get(member).role == crate::MemberState::Failed {
        return;
    }
    let sectors = (data.len() / 512) as u64;
    let wrote = core.io(std::iter::once(write_io(member, start_sector, data, false)).collect()).await;
    let mut error = wrote.into_iter().find_map(|(result, _)| result.err());
    if error.is_none() {
        let mut read = core.io(std::iter::once(core.read_io(member, start_sector, sectors)).collect()).await;
        error = read.iter_mut().find_map(|(result, _)| std::mem::replace(result, Ok(())).err());
        core.recycle(read);
    }
    match error {
        Some(error) if is_no_space(&error) => drop(core.meet_no_space(member, &error)),
        Some(error) => {
            core.fail_member(member, &format!("could not rewrite sectors that it failed to read: {error}"));
        }
        None => core.event(Event::ReadCorrected { member, start_sector, sectors }),
    }
}

/// Zeroes full stripes on every member, parity included, and unmaps where members can. `small`: log records promise old data or
/// zeros, whichever members a crash takes.
pub(crate) async fn zero_stripes(core: Rc<Core>, parent: usize, stripes: Range<u64>, fua: bool, unmap: bool, small: bool) {
    let strip = core.geometry.strip_sectors();
    let rows = stripes.start * strip..stripes.end * strip;
    if let Err(error) = core.log_open().await {
        return core.part_done(parent, None, Err(error));
    }
    let guard = core.lock(rows.clone(), Mode::Exclusive).await;
    core.write_begin(&rows).await;
    let recorded = if small { stripes.clone().collect() } else { core.log_covered(&stripes) };
    let records = recorded.into_iter().map(|stripe| {
        let mut records = core.revoke_records(stripe, &(0..strip));
        records.iter_mut().for_each(|(_, record)| record.zeros = small);
        records
    });
    let records = records.collect();
    let result = match core.log_begin(records).await {
        Ok(logged) => {
            // Durable where members have caches, so that the next write to the stripe need not flush first (R20).
            let fua = fua || core.has_volatile_members() && core.log.config.is_some();
            core.wait_for_ack_barrier().await;
            core.gate_client_write(&rows);
            let result = zero_members(&core, &rows, fua, unmap, |members| members.active().collect()).await;
            core.wait_for_ack_barrier().await;
            core.log_end(stripes.start, &[], logged);
            result
        }
        Err(error) => Err(error),
    };
    core.write_end(&rows).await;
    drop(guard);
    core.part_done(parent, None, result);
}

/// Zeroes `rows` of the chosen members.
pub(crate) async fn zero_members(
    core: &Core,
    rows: &Range<u64>,
    fua: bool,
    unmap: bool,
    choose: impl Fn(&crate::member::Members) -> SmallVec<[crate::MemberId; 8]>,
) -> Result<(), IoError> {
    let targets = choose(&core.members.borrow());
    let zero = |&member: &crate::MemberId| crate::core::MemberIo {
        member,
        start_sector: rows.start,
        sectors: rows.end - rows.start,
        operation: Operation::WriteZeroes { fua, unmap, fast: false },
    };
    let outcomes = core.io(targets.iter().map(zero).collect()).await;
    let result = drop_failed_writes(core, &targets, outcomes.iter().map(|(result, _)| result));
    if result.as_ref().is_err_and(is_no_space) {
        for (&member, _) in targets.iter().zip(&outcomes).filter(|(_, (result, _))| result.is_err()) {
            mark_half_written(core, member, rows.clone()).await?;
        }
    }
    result
}
