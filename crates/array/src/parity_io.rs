//! Requests on RAID 4, 5 and 6, stripe by stripe.
//!
//! What is on the members at every instant of a write: first the dirty superblock and the write-intent bits of
//! the rows, durably; then data and parity in any order. Until the last of them is down, parity of these rows may
//! disagree, which the bits tell a later resync. (A crash *and* a lost member meanwhile is the write hole.)

use crate::core::{Batch, Core, FailedPart, lost, write_io};
use crate::lock::Mode;
use crate::plan::{Method, Presence, Rectangle, Strips, Unrecoverable, WritePlan, plan_write, rectangles, sources};
use crate::{Event, StripeMap};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Data, IoError, Operation, bytes};
use stria_parity::Strip;

/// 4 KiB: how finely damage is told apart.
pub(crate) const PAGE_SECTORS: u64 = 8;

/// Which strip of a stripe.
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

/// What the strips of some rows allow, leaving out slots whose reads have failed.
fn presences(core: &Core, map: &StripeMap, rows: &Range<u64>, unreadable: &Strips) -> [SmallVec<[Presence; 16]>; 2] {
    let members = core.members.borrow();
    let of = |&slot: &u16| match members.presence(slot.into(), rows) {
        Presence::Whole if unreadable.contains(&slot.into()) => Presence::WriteOnly,
        presence => presence,
    };
    [map.data.iter().map(of).collect(), map.parity.iter().map(of).collect()]
}

/// Bytes that were read, by strip.
struct Found(SmallVec<[(Unit, Buffer); 4]>);

impl Found {
    fn get(&self, unit: Unit) -> Option<&Buffer> {
        self.0.iter().find(|(known, _)| *known == unit).map(|(_, buffer)| buffer)
    }

    fn take(&mut self, unit: Unit) -> Option<Buffer> {
        let index = self.0.iter().position(|(known, _)| *known == unit)?;
        Some(self.0.swap_remove(index).1)
    }

    fn recycle(self, core: &Core) {
        self.0.into_iter().for_each(|(_, buffer)| core.give_buffer(buffer));
    }
}

/// Reads `rows` (of members) of the wanted strips. Slots that fail are added to `unreadable`, and then `None`.
async fn read_units(
    core: &Core,
    map: &StripeMap,
    wanted: &[(Unit, Range<u64>)],
    unreadable: &mut Strips,
) -> Option<SmallVec<[Buffer; 4]>> {
    let batch: Option<Batch> = {
        let members = core.members.borrow();
        wanted
            .iter()
            .map(|(unit, rows)| {
                let member = members.slots()[unit.slot(map)].member?;
                Some((member, rows.start, rows.end - rows.start))
            })
            .collect::<Option<SmallVec<[_; 4]>>>()
    }
    .map(|list| list.into_iter().map(|(member, start, sectors)| core.read_io(member, start, sectors)).collect());
    let outcomes = core.io(batch?).await;
    let mut buffers = SmallVec::new();
    let mut failed = false;
    for ((unit, _), (result, operation)) in wanted.iter().zip(outcomes) {
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        buffers.extend(into);
        if result.is_err() {
            failed = true;
            let slot = unit.slot(map);
            if !unreadable.contains(&slot) {
                unreadable.push(slot);
            }
        }
    }
    if failed {
        buffers.into_iter().for_each(|buffer| core.give_buffer(buffer));
        return None;
    }
    Some(buffers)
}

/// Strips in the order of the code: `of` says what each data strip and parity is.
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

/// New parity of `data` (by address) into fresh buffers, for each parity that `wanted` names.
fn generate(core: &Core, map: &StripeMap, data: &[&[u8]], wanted: &Strips) -> SmallVec<[(usize, Buffer); 2]> {
    let len = data[0].len();
    let mut by_code: SmallVec<[&[u8]; 24]> = smallvec![core.zero_bytes(len); map.code_count];
    for (bytes, &position) in data.iter().zip(&map.code) {
        by_code[usize::from(position)] = bytes;
    }
    let mut parity: SmallVec<[(usize, Buffer); 2]> =
        wanted.iter().map(|&index| (index, core.take_buffer((len / 512) as u64))).collect();
    let mut outputs: SmallVec<[Option<&mut [u8]>; 2]> = (0..map.parity.len()).map(|_| None).collect();
    for (index, buffer) in &mut parity {
        outputs[*index] = Some(buffer);
    }
    core.code.as_ref().expect("a parity level").generate(&by_code, &mut outputs);
    drop(outputs);
    parity
}

/// A part of a client's write within one stripe: `offset_sectors` from the start of the stripe's data.
pub(crate) async fn write_part(core: Rc<Core>, parent: usize, stripe: u64, offset_sectors: u64, data: Data, fua: bool) {
    let result = write_stripe(&core, stripe, offset_sectors, &data, fua).await;
    drop(data);
    core.part_done(parent, None, result);
}

async fn write_stripe(core: &Rc<Core>, stripe: u64, offset_sectors: u64, data: &Data, fua: bool) -> Result<(), IoError> {
    let strip = core.geometry.strip_sectors();
    let base = stripe * strip;
    let sectors = (data.len() / 512) as u64;
    let parts = rectangles(offset_sectors..offset_sectors + sectors, strip);
    let rows_start = base + parts.iter().map(|part| part.rows.start).min().expect("a write is not empty");
    let rows_end = base + parts.iter().map(|part| part.rows.end).max().expect("a write is not empty");
    let rows = rows_start..rows_end;
    let guard = core.lock(rows.clone(), Mode::Exclusive).await;
    core.write_begin(&rows).await;
    let mut unreadable = Strips::new();
    let result = loop {
        if let Some(result) = try_write(core, stripe, offset_sectors, data, fua, &parts, &mut unreadable).await {
            break result;
        }
    };
    core.write_end(&rows).await;
    drop(guard);
    for slot in unreadable {
        // What could not be read and was not overwritten is mended behind the client's back.
        core.ready.spawn(mend_rows(Rc::clone(core), slot, rows.clone()));
    }
    result
}

/// One attempt; `None`: some strip could not be read, plan again without it.
async fn try_write(
    core: &Core,
    stripe: u64,
    offset_sectors: u64,
    data: &Data,
    fua: bool,
    parts: &[Rectangle],
    unreadable: &mut Strips,
) -> Option<Result<(), IoError>> {
    let map = core.map(stripe);
    let strip = core.geometry.strip_sectors();
    let base = stripe * strip;
    let mut plans: SmallVec<[(WritePlan, [SmallVec<[Presence; 16]>; 2]); 1]> = SmallVec::new();
    let mut wanted: SmallVec<[(Unit, Range<u64>); 4]> = SmallVec::new();
    for part in parts {
        let rows = base + part.rows.start..base + part.rows.end;
        let there = presences(core, map, &rows, unreadable);
        let agrees = rows.end <= core.resync_sector.get()
            || core.intent.borrow().as_ref().is_some_and(|intent| !intent.needs_resync(&rows));
        let Ok(plan) = plan_write(&there[0], &there[1], part.strips.clone(), agrees) else {
            return Some(Err(lost(&format!("write to stripe {stripe}"), "strips that parity must cover cannot be read")));
        };
        wanted.extend(plan.read_data.iter().map(|&index| (Unit::Data(index), rows.clone())));
        wanted.extend(plan.read_parity.iter().map(|&index| (Unit::Parity(index), rows.clone())));
        plans.push((plan, there));
    }
    let mut read = read_units(core, map, &wanted, unreadable).await?.into_iter();
    let mut wanted = wanted.into_iter();

    let mut batch = Batch::new();
    let mut claims: SmallVec<[_; 2]> = SmallVec::new();
    for (part, (plan, there)) in parts.iter().zip(plans) {
        let count = plan.read_data.len() + plan.read_parity.len();
        let mut found = Found(wanted.by_ref().take(count).map(|(unit, _)| unit).zip(read.by_ref()).collect());
        let sectors = part.rows.end - part.rows.start;
        let new = |index: usize| data.slice(bytes(index as u64 * strip + part.rows.start - offset_sectors), bytes(sectors));
        let parity_there: Strips = (0..there[1].len()).filter(|&index| there[1][index] != Presence::Missing).collect();
        let parity = new_parity(core, map, &plan, &mut found, part, &parity_there, &new, sectors);
        found.recycle(core);
        let members = core.members.borrow();
        let start = base + part.rows.start;
        for index in part.strips.clone() {
            for member in members.targets(usize::from(map.data[index])) {
                batch.push(write_io(member, start, new(index), fua));
            }
        }
        for (index, buffer) in parity {
            claims.push(buffer.claim());
            let buffer = buffer.freeze();
            for member in members.targets(usize::from(map.parity[index])) {
                batch.push(write_io(member, start, buffer.clone(), fua));
            }
        }
    }
    let targets: SmallVec<[_; 4]> = batch.iter().map(|io| io.member).collect();
    let outcomes = core.io(batch).await;
    let result = settle_writes(core, &targets, outcomes.iter().map(|(result, _)| result));
    drop(outcomes);
    claims.into_iter().for_each(|claim| core.pool.borrow_mut().give_claim(claim));
    Some(result)
}

/// Drops the members whose writes failed; the write stands if redundancy covers them all.
pub(crate) fn settle_writes<'a>(
    core: &Core,
    targets: &[crate::MemberId],
    results: impl Iterator<Item = &'a Result<(), IoError>>,
) -> Result<(), IoError> {
    let mut outcome = Ok(());
    for (&member, result) in targets.iter().zip(results) {
        if let Err(error) = result
            && !core.fail_member(member, &format!("write failed: {error}"))
        {
            outcome = Err(lost("write", &error.context));
        }
    }
    outcome
}

#[expect(clippy::too_many_arguments, reason = "one step of `try_write`, named apart")]
fn new_parity(
    core: &Core,
    map: &StripeMap,
    plan: &WritePlan,
    found: &mut Found,
    part: &Rectangle,
    parity_there: &Strips,
    new: &dyn Fn(usize) -> Data,
    sectors: u64,
) -> SmallVec<[(usize, Buffer); 2]> {
    let code = core.code.as_ref().expect("a parity level");
    let written: SmallVec<[Data; 4]> = part.strips.clone().map(new).collect();
    match plan.method {
        Method::DataOnly => SmallVec::new(),
        Method::ReadModifyWrite => {
            let mut parity: SmallVec<[(usize, Buffer); 2]> =
                plan.read_parity.iter().map(|&index| (index, found.take(Unit::Parity(index)).expect("it was read"))).collect();
            let mut outputs: SmallVec<[Option<&mut [u8]>; 2]> = (0..map.parity.len()).map(|_| None).collect();
            for (index, buffer) in &mut parity {
                outputs[*index] = Some(buffer);
            }
            for (index, after) in part.strips.clone().zip(&written) {
                let before = found.get(Unit::Data(index)).expect("it was read");
                code.update(usize::from(map.code[index]), before, after, &mut outputs);
            }
            drop(outputs);
            parity
        }
        Method::Full | Method::ReconstructWrite | Method::RecoverWrite => {
            let mut recovered: SmallVec<[(usize, Buffer); 2]> = SmallVec::new();
            if plan.method == Method::RecoverWrite {
                let lost = |index: &usize| !part.strips.contains(index) && found.get(Unit::Data(*index)).is_none();
                recovered.extend((0..map.data.len()).filter(lost).map(|index| (index, core.take_buffer(sectors))));
                recover(core, map, found, &mut recovered);
            }
            let data: SmallVec<[&[u8]; 24]> = (0..map.data.len())
                .map(|index| -> &[u8] {
                    if part.strips.contains(&index) {
                        return &written[index - part.strips.start];
                    }
                    let read = found.get(Unit::Data(index));
                    let recovered = || &recovered.iter().find(|(known, _)| *known == index).expect("read or recovered").1;
                    read.unwrap_or_else(recovered)
                })
                .collect();
            let parity = generate(core, map, &data, parity_there);
            drop(data);
            recovered.into_iter().for_each(|(_, buffer)| core.give_buffer(buffer));
            parity
        }
    }
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

/// Reads data strip `index` of a stripe, over `rows` of its member, from the other members, under the rows' lock.
async fn reconstruct(
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

/// As [`reconstruct`], page by page, each from whoever can read it there.
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

/// Address of a member's strip within its stripe: `None` when it holds parity.
fn data_index(map: &StripeMap, slot: usize) -> Option<usize> {
    map.data.iter().position(|&known| usize::from(known) == slot)
}

/// Reads a part of one strip of a degraded array.
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

/// A member could not read a part: gives the client what redundancy says, and writes it back.
pub(crate) async fn mend_part(core: Rc<Core>, part: FailedPart, slot: usize) {
    let strip = core.geometry.strip_sectors();
    let rows = part.start_sector..part.start_sector + part.sectors;
    let guard = core.lock(rows.clone(), Mode::Exclusive).await;
    let stripe = rows.start / strip;
    let index = data_index(core.map(stripe), slot).expect("clients read data strips");
    let mut unreadable = Strips::new();
    unreadable.push(slot);
    let mut read = reconstruct(&core, stripe, index, &rows, &mut unreadable).await;
    if read.is_err() {
        // Members may have failed at different places: what no whole run gives, pages may.
        read = reconstruct_pages(&core, stripe, index, &rows).await;
    }
    if let Ok(buffer) = &read {
        rewrite(&core, part.member, rows.start, Buffer::copy_of(buffer).freeze()).await;
    }
    drop(guard);
    core.record_barrier().await;
    part.deliver(&core, read.ok());
}

/// Makes a strip readable again that a write found unreadable, if it still is.
async fn mend_rows(core: Rc<Core>, slot: usize, rows: Range<u64>) {
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
            let wanted: SmallVec<[_; 8]> = (0..map.data.len()).map(|index| (Unit::Data(index), rows.clone())).collect();
            if let Some(read) = read_units(&core, map, &wanted, &mut unreadable).await {
                let data: SmallVec<[&[u8]; 24]> = read.iter().map(|buffer| &buffer[..]).collect();
                let mut parity = generate(&core, map, &data, &std::iter::once(index).collect());
                rewrite(&core, member, rows.start, parity.pop().expect("one parity").1.freeze()).await;
            }
        }
    }
}

/// Writes what redundancy says over sectors that could not be read, and reads them again; a member that cannot is dropped.
pub(crate) async fn rewrite(core: &Core, member: crate::MemberId, start_sector: u64, data: Data) {
    if core.members.borrow().get(member).role == crate::MemberRole::Failed {
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
        Some(error) => {
            core.fail_member(member, &format!("could not rewrite sectors that it failed to read: {error}"));
        }
        None => core.event(Event::ReadCorrected { member, start_sector, sectors }),
    }
}

/// Whole stripes become zeros on every member, parity with them, and give their room back where members can.
pub(crate) async fn zero_stripes(core: Rc<Core>, parent: usize, stripes: Range<u64>, fua: bool, unmap: bool) {
    let strip = core.geometry.strip_sectors();
    let rows = stripes.start * strip..stripes.end * strip;
    let guard = core.lock(rows.clone(), Mode::Exclusive).await;
    core.write_begin(&rows).await;
    let result = zero_members(&core, &rows, fua, unmap, |members| members.active().collect()).await;
    core.write_end(&rows).await;
    drop(guard);
    core.part_done(parent, None, result);
}

/// Zeros in `rows` of the chosen members.
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
    settle_writes(core, &targets, outcomes.iter().map(|(result, _)| result))
}
