//! Reads and corrections on RAID 4, 5 and 6, stripe by stripe. [`parity_write`](crate::parity_write) writes,
//! [`parity_zeroing`](crate::parity_zeroing) zeroes.

use crate::address::{Sectors, sync_of_rows};
use crate::core::{Core, FailedPart, rewrite};
use crate::lock::Mode;
use crate::member::Slow;
use crate::member_requests::Ended;
use crate::parity_code::{Found, Unit, computed_parity, generate, recover};
use crate::plan::{Presence, Strips, Unrecoverable, sources};
use crate::races::ASKED_MAX;
use crate::{ArraySector, MemberId, MemberSector, StripeMap};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Operation, bytes};

/// 4 KiB: the granularity at which damage is located.
pub(crate) const PAGE_SECTORS: u64 = 8;

/// The presence of each strip over some rows. Slots in `unreadable` cannot be read.
pub(crate) fn presences(
    core: &Core,
    map: &StripeMap,
    rows: &Range<MemberSector>,
    unreadable: &Strips,
) -> [SmallVec<[Presence; 16]>; 2] {
    let members = core.members.borrow();
    let of = |&slot: &u16| match members.presence(slot.into(), rows) {
        Presence::Readable if unreadable.contains(&slot.into()) => Presence::WriteOnly,
        presence => presence,
    };
    [map.data.iter().map(of).collect(), map.parity.iter().map(of).collect()]
}

/// The number of rows, from the first on, of which each slot has either all or none. So a bad block does not hide what its member
/// holds beside it (R34).
pub(crate) fn alike_sectors(core: &Core, rows: &Range<MemberSector>) -> u64 {
    let members = core.members.borrow();
    (0..core.geometry.slot_count()).map(|slot| members.alike_sectors(slot, rows)).min().unwrap_or(rows.sectors())
}

/// Units to read: rows of members.
type Wanted = [(Unit, Range<MemberSector>)];

/// Sends reads of the wanted strips. Returns their batch; `None`: a member is missing.
fn send_units(core: &Core, map: &StripeMap, wanted: &Wanted) -> Option<usize> {
    let member = |unit: &Unit| core.members.borrow().slots()[unit.slot(map)].member;
    if !wanted.iter().all(|(unit, _)| member(unit).is_some()) {
        return None;
    }
    let batch = core.member_requests.begin_batch(&core.ready);
    for (unit, rows) in wanted {
        let member = member(unit).expect("all are there");
        core.send_in(batch, core.read_io(member, rows.start, rows.sectors()));
    }
    Some(batch)
}

/// What these reads have brought. If any failed, adds its slot to `unreadable` and returns `None`. A slot whose member was
/// replaced meanwhile is not added: the replaced member's failure says nothing about the next one.
fn take_units(
    core: &Core,
    map: &StripeMap,
    wanted: &Wanted,
    mut ended: Vec<Ended>,
    unreadable: &mut Strips,
) -> Option<SmallVec<[Buffer; 4]>> {
    let mut buffers = SmallVec::new();
    let mut failed = false;
    for ((unit, rows), Ended { member: asked, result, operation, .. }) in wanted.iter().zip(ended.drain(..)) {
        let Operation::Read { mut into } = operation else { unreachable!("a read comes back as a read") };
        let slot = unit.slot(map);
        core.log.overlay.apply(slot, rows, &mut into[0]);
        buffers.extend(into);
        if result.is_err() {
            failed = true;
            let holds_the_slot = core.members.borrow().slots()[slot].member == Some(asked);
            if !unreadable.contains(&slot) && holds_the_slot {
                unreadable.push(slot);
            }
        }
    }
    core.member_requests.reuse(ended);
    if failed {
        buffers.into_iter().for_each(|buffer| core.buffers.give(buffer));
        return None;
    }
    Some(buffers)
}

/// Reads `rows` (of members) of the wanted strips. If any fails, adds its slot to `unreadable` and returns `None`.
pub(crate) async fn read_units(
    core: &Core,
    map: &StripeMap,
    wanted: &Wanted,
    unreadable: &mut Strips,
) -> Option<SmallVec<[Buffer; 4]>> {
    let batch = send_units(core, map, wanted)?;
    let ended = core.member_requests.batch_ended(batch).await;
    take_units(core, map, wanted, ended, unreadable)
}

/// As [`read_units`], but also `None` once a member is unresponsive that these reads wait for, and `helps` says that others can
/// answer in its place. What it answers later is given back.
async fn read_units_unless(
    core: &Rc<Core>,
    map: &StripeMap,
    wanted: &Wanted,
    unreadable: &mut Strips,
    helps: impl Fn(&Strips, &[MemberId]) -> bool,
) -> Option<SmallVec<[Buffer; 4]>> {
    let batch = send_units(core, map, wanted)?;
    core.member_requests.watch(batch, core.now());
    let silences = core.hedging.silences();
    let overtaken = || {
        if core.hedging.silences() == silences {
            return false;
        }
        let silent = core.members.borrow().unresponsive();
        core.member_requests.waits_for_any(batch, &silent) && helps(unreadable, &silent)
    };
    if let Some(ended) = core.member_requests.batch_ended_or(batch, overtaken).await {
        return take_units(core, map, wanted, ended, unreadable);
    }
    let owner = Rc::clone(core);
    core.ready.spawn(async move {
        owner.member_requests.adopt_batch(batch, owner.ready.current());
        let mut ended = owner.member_requests.batch_ended(batch).await;
        for Ended { operation, .. } in ended.drain(..) {
            let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
            into.into_iter().for_each(|buffer| owner.buffers.give(buffer));
        }
        owner.member_requests.reuse(ended);
    });
    None
}

/// Recovers data strip `index` of a stripe, over `rows` of its member, from the other members, under the rows' lock.
pub(crate) async fn reconstruct(
    core: &Core,
    stripe: u64,
    index: usize,
    rows: &Range<MemberSector>,
    unreadable: &mut Strips,
) -> Result<Buffer, Unrecoverable> {
    reconstruct_without(core, stripe, index, rows, unreadable, &[], None).await
}

/// As [`reconstruct`], if possible without the members of `slow`, where parity is consistent. `watch`: and without those that
/// fall silent meanwhile.
async fn reconstruct_without(
    core: &Core,
    stripe: u64,
    index: usize,
    rows: &Range<MemberSector>,
    unreadable: &mut Strips,
    slow: &[MemberId],
    watch: Option<&Rc<Core>>,
) -> Result<Buffer, Unrecoverable> {
    let map = core.map(stripe);
    let without = |unreadable: &Strips, slow: &[MemberId]| {
        let avoided = unreadable.iter().copied().chain(core.members.borrow().slots_of(slow)).collect();
        let there = presences(core, map, rows, &avoided);
        sources(&there[0], &there[1])
    };
    let mut asked = 0;
    loop {
        let silent = if watch.is_some() { core.members.borrow().unresponsive() } else { Slow::new() };
        let (read_data, read_parity) = match slow.iter().copied().chain(silent).collect::<Slow>() {
            avoided if avoided.is_empty() => without(unreadable, &[])?,
            avoided => without(unreadable, &avoided).or_else(|_| without(unreadable, &[]))?,
        };
        let mut wanted: SmallVec<[(Unit, Range<MemberSector>); 4]> = SmallVec::new();
        let holds_it = read_data.contains(&index);
        if holds_it {
            wanted.push((Unit::Data(index), rows.clone()));
        } else {
            wanted.extend(read_data.iter().map(|&index| (Unit::Data(index), rows.clone())));
            wanted.extend(read_parity.iter().map(|&index| (Unit::Parity(index), rows.clone())));
        }
        asked += 1;
        let read = match watch.filter(|_| asked < ASKED_MAX) {
            Some(core) => {
                let helps = |unreadable: &Strips, silent: &[MemberId]| without(unreadable, silent).is_ok();
                read_units_unless(core, map, &wanted, unreadable, helps).await
            }
            None => read_units(core, map, &wanted, unreadable).await,
        };
        let Some(mut read) = read else { continue };
        if holds_it {
            return Ok(read.pop().expect("one strip was read"));
        }
        let found = Found::new(wanted.into_iter().map(|(unit, _)| unit).zip(read));
        let mut lost: SmallVec<[(usize, Buffer); 1]> = SmallVec::new();
        lost.push((index, core.buffers.take(rows.sectors())));
        recover(core, map, &found, &mut lost);
        found.recycle(core);
        return Ok(lost.pop().expect("one strip was recovered").1);
    }
}

/// As [`reconstruct`], page by page, each from the members that can read it.
async fn reconstruct_pages(core: &Core, stripe: u64, index: usize, rows: &Range<MemberSector>) -> Result<Buffer, Unrecoverable> {
    let mut whole = core.buffers.take(rows.sectors());
    for page in rows.in_steps(PAGE_SECTORS) {
        let part = reconstruct(core, stripe, index, &page, &mut Strips::new()).await?;
        whole[bytes(page.start - rows.start)..][..part.len()].copy_from_slice(&part);
        core.buffers.give(part);
    }
    Ok(whole)
}

/// Recovers a range from the other strips of the stripe. `None`: they do not suffice, or parity may be inconsistent.
///
/// As far as possible without the members of `slow`; the first of them has the strip.
pub(crate) async fn read_from_parity(
    core: &Core,
    slow: &[MemberId],
    array_sector: ArraySector,
    rows: Range<MemberSector>,
) -> Option<Buffer> {
    let (stripe, index, _) = core.geometry.strip_of(array_sector);
    let _guard = core.lock(sync_of_rows(&rows), Mode::Shared).await;
    if !core.consistency.covers(&sync_of_rows(&rows)) {
        return None;
    }
    let mut unreadable: Strips = std::iter::once(usize::from(core.map(stripe).data[index])).collect();
    reconstruct_without(core, stripe, index, &rows, &mut unreadable, slow, None).await.ok()
}

/// The data of a slot's rows according to the other members of a parity array.
pub(crate) async fn recover_rows(core: &Core, slot: usize, rows: &Range<MemberSector>) -> Option<Buffer> {
    let stripe = core.geometry.stripe_of_row(rows.start).0;
    let map = core.map(stripe);
    if let Some(index) = map.data.iter().position(|&data| usize::from(data) == slot) {
        return reconstruct(core, stripe, index, rows, &mut Strips::new()).await.ok();
    }
    let parity = map.parity.iter().position(|&parity| usize::from(parity) == slot)?;
    let mut data: SmallVec<[Buffer; 8]> = SmallVec::new();
    for index in 0..map.data.len() {
        data.push(reconstruct(core, stripe, index, rows, &mut Strips::new()).await.ok()?);
    }
    let mut all = computed_parity(core, map, &data);
    data.into_iter().for_each(|buffer| core.buffers.give(buffer));
    Some(all.swap_remove(parity))
}

/// The address of a member's strip within its stripe. `None` if it holds parity.
fn data_index(map: &StripeMap, slot: usize) -> Option<usize> {
    map.data.iter().position(|&known| usize::from(known) == slot)
}

/// Reads a part of one strip whose member is missing or cannot be read directly.
pub(crate) async fn read_part(core: Rc<Core>, part: FailedPart, slot: usize) {
    let rows = part.start_sector.run(part.sectors);
    let guard = core.lock(sync_of_rows(&rows), Mode::Shared).await;
    let stripe = core.geometry.stripe_of_row(rows.start).0;
    let index = data_index(core.map(stripe), slot).expect("clients read data strips");
    let mut read = reconstruct_without(&core, stripe, index, &rows, &mut Strips::new(), &[], watch_over(&core, &rows)).await;
    if read.is_err() {
        read = reconstruct_pages(&core, stripe, index, &rows).await;
    }
    drop(guard);
    part.deliver(&core, read.ok());
}

/// The engine, if others may answer for a member that falls silent while these rows are read: all parity says the same there.
fn watch_over<'a>(core: &'a Rc<Core>, rows: &Range<MemberSector>) -> Option<&'a Rc<Core>> {
    (core.hedging.is_on() && core.consistency.covers(&sync_of_rows(rows))).then_some(core)
}

/// A member could not read a part. Recovers it, returns it to the client, and writes it back (read correction).
pub(crate) async fn correct_part(core: Rc<Core>, part: FailedPart, slot: usize) {
    let rows = part.start_sector.run(part.sectors);
    let guard = core.lock(sync_of_rows(&rows), Mode::Exclusive).await;
    let stripe = core.geometry.stripe_of_row(rows.start).0;
    let index = data_index(core.map(stripe), slot).expect("clients read data strips");
    let mut unreadable = Strips::new();
    unreadable.push(slot);
    let mut read = reconstruct_without(&core, stripe, index, &rows, &mut unreadable, &[], watch_over(&core, &rows)).await;
    if read.is_err() {
        // Members may have failed at different sectors: pages may work where no whole run does.
        read = reconstruct_pages(&core, stripe, index, &rows).await;
    }
    if let Ok(buffer) = &read {
        rewrite(&core, part.member.expect("a member failed it"), rows.start, Buffer::copy_of(buffer).freeze()).await;
    }
    drop(guard);
    core.wait_for_ack_barrier().await;
    part.deliver(&core, read.ok());
}

/// Corrects the sectors of a strip that a write could not read and that still cannot be read. It goes page by page, since sectors
/// beside an unreadable one may be good (R34).
pub(crate) async fn correct_rows(core: Rc<Core>, slot: usize, rows: Range<MemberSector>) {
    let _guard = core.lock(sync_of_rows(&rows), Mode::Exclusive).await;
    // R84: a resync that is due corrects them by itself. Until then parity may say other bytes than the strip held.
    if core.consistency.covers(&sync_of_rows(&rows)) {
        for page in rows.in_steps(PAGE_SECTORS) {
            correct_page(&core, slot, page).await;
        }
    }
}

async fn correct_page(core: &Core, slot: usize, rows: Range<MemberSector>) {
    let stripe = core.geometry.stripe_of_row(rows.start).0;
    let Some(member) = core.members.borrow().slots()[slot].member else { return };
    let map = core.map(stripe);
    let parity = map.parity.iter().position(|&known| usize::from(known) == slot);
    let unit = data_index(map, slot).map_or_else(|| Unit::Parity(parity.expect("data or parity")), Unit::Data);
    let mut unreadable = Strips::new();
    if let Some(read) = read_units(core, map, &[(unit, rows.clone())], &mut unreadable).await {
        read.into_iter().for_each(|buffer| core.buffers.give(buffer));
        return;
    }
    match unit {
        Unit::Data(index) => {
            if let Ok(buffer) = reconstruct(core, stripe, index, &rows, &mut unreadable).await {
                rewrite(core, member, rows.start, buffer.freeze()).await;
            }
        }
        Unit::Parity(index) => {
            let mut read: SmallVec<[Buffer; 24]> = SmallVec::new();
            for data in 0..map.data.len() {
                let Ok(buffer) = reconstruct(core, stripe, data, &rows, &mut unreadable).await else { return };
                read.push(buffer);
            }
            let data = |index: usize, range: Range<usize>| &read[index][range];
            let mut parity = generate(core, map, &[0, read[0].len()], &std::iter::once(index).collect(), data);
            rewrite(core, member, rows.start, parity.pop().expect("one parity").freeze()).await;
        }
    }
}
