//! A window of a parity level: the same rows of every member, stripe by stripe.
//!
//! Only P and Q together show which strip is wrong, with one exception: if a wrong strip was overwritten by read-modify-write
//! before the scrub, its error is in both, and the new strip looks wrong.

use crate::address::{Sectors, sync_of_rows};
use crate::core::{BadCause, Core, rewrite, write_for_sweep};
use crate::lock::Mode;
use crate::member::RebuildTarget;
use crate::member_requests::{Batch, MemberIo, write_io};
use crate::parity_code::code_strips;
use crate::parity_io::{PAGE_SECTORS, alike_sectors};
use crate::plan::Presence;
use crate::status::{Event, SweepFault, SweepKind};
use crate::window::{Found, Work, check_health};
use crate::{Flaw, LogRecord, MemberId, MemberSector, StripeMap};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use stria_block::{Buffer, Claim, Data, Operation, bytes};
use stria_parity::Strip;

/// The data of each slot's member in the window, as far as it was read.
type Rows = BTreeMap<usize, Buffer>;

/// A write that corrects a mismatch: slot, first row, content.
type Repair = (usize, MemberSector, Buffer);

/// Tries the rows in one piece. If something cannot be read, goes page by page, so that a loss on one member does not hide what
/// another holds beside it.
pub(crate) async fn rows(core: &Core, work: &Work<'_>, rows: Range<MemberSector>) -> Result<Found, SweepFault> {
    // R19: with a partial parity log every repair has a record, and this run may not have written yet.
    let records = core.log.is_newest_only() && !core.has(Flaw::RepairedBeforeLog);
    if records && work.kind != (SweepKind::Scrub { repair: false }) {
        core.log_open().await?;
    }
    if let Some(found) = piece(core, work, rows.clone(), false).await? {
        return Ok(found);
    }
    let mut all = Found::default();
    let mut next = rows.start;
    while next < rows.end {
        let page = next.run(alike_sectors(core, &next.run(PAGE_SECTORS.min(rows.end - next))));
        // `None`: bad blocks have changed while it waited for the lock.
        if let Some(found) = piece(core, work, page.clone(), true).await? {
            all.sectors += found.sectors;
            next = page.end;
        }
    }
    Ok(all)
}

/// Processes some stripes, or some rows of one. Returns `None` if a slot has only a part of them, or if not all could be read and
/// `rows` is more than a page.
async fn piece(core: &Core, work: &Work<'_>, rows: Range<MemberSector>, page: bool) -> Result<Option<Found>, SweepFault> {
    let guard = core.lock(sync_of_rows(&rows), Mode::Exclusive).await;
    if alike_sectors(core, &rows) < rows.sectors() {
        return Ok(None);
    }
    let mut unreadable: SmallVec<[usize; 4]> = SmallVec::new();
    let mut known = loop {
        if let Some(known) = read_all(core, &rows, &mut unreadable).await {
            break known;
        }
        if !page {
            return Ok(None);
        }
    };
    let computed = compute(core, work, &rows, &known, &unreadable);
    if computed.is_none() {
        if !page {
            return Ok(None);
        }
        // Under the lock: what a client writes after it is good.
        lose(core, work, &rows, &known).await?;
    }
    let is_lost = computed.is_none();
    let mut computed = computed.unwrap_or_default();
    let is_resync_of_unreadable = work.kind == SweepKind::Resync && !unreadable.is_empty();
    // R37: what is filled comes from the first parities, and reads after the loss of a further member use the others.
    let is_rebuild_of_inconsistent = work.kind == SweepKind::Rebuild
        && !core.consistency.covers(&sync_of_rows(&rows))
        && computed.len() < core.geometry.level().parity_count()
        && work.targets.iter().all(|target| computed.contains_key(&target.slot));
    let compares =
        is_resync_of_unreadable || is_rebuild_of_inconsistent || (computed.is_empty() && work.kind != SweepKind::Rebuild);
    let (mut found, repairs) = if compares && !is_lost {
        // A strip that a resync could not read was recovered from the first parities, and the other parities must follow. They
        // follow the recovered bytes and not a second read: rewriting may not have healed the member, which an array that cannot
        // spare it keeps (R7).
        let wanted: SmallVec<[usize; 4]> = computed.keys().copied().collect();
        known.append(&mut computed);
        let kind = if is_rebuild_of_inconsistent { SweepKind::Resync } else { work.kind };
        let mut checked = check(core, kind, &rows, &known);
        if is_rebuild_of_inconsistent {
            checked.0 = Found::default();
        }
        computed.extend(wanted.into_iter().filter_map(|slot| Some((slot, known.remove(&slot)?))));
        checked
    } else {
        let mut found = Found::default();
        if is_lost {
            found.pass_over(work.kind, rows.sectors());
        }
        (found, Vec::new())
    };
    let mut writes = Writes::default();
    let rewrites = writes.add_computed(core, work, rows.start, computed, &unreadable);
    writes.add_copied(work, rows.start, &mut known);
    let logged = core.log_begin(revokes(core, &repairs)).await?;
    writes.add_repairs(core, repairs);
    for (member, data) in rewrites {
        rewrite(core, member, rows.start, data).await;
    }
    let rewritten = write_for_sweep(core, writes.batch).await;
    core.log_end(core.geometry.stripe_of_row(rows.start).0, &[], logged);
    drop(guard);
    writes.claims.into_iter().for_each(|claim| core.buffers.give_claim(claim));
    known.into_values().for_each(|buffer| core.buffers.give(buffer));
    rewritten?;
    found.report(core, work.kind);
    core.wait_for_ack_barrier().await;
    let members = core.members.borrow();
    if let Some(target) = work.targets.iter().find(|target| members.get(target.member).state == crate::MemberState::Failed) {
        return Err(SweepFault::TargetFailed { drive: members.get(target.member).config.name.clone() });
    }
    Ok(Some(found))
}

/// The parts of stripes in a window: the first row of each, and the bytes of its rows in the window.
fn stripes(core: &Core, rows: &Range<MemberSector>) -> impl Iterator<Item = (MemberSector, Range<usize>)> {
    let (strip, window) = (core.geometry.strip_sectors(), rows.clone());
    let mut next = rows.start;
    std::iter::from_fn(move || {
        let row = next;
        next = window.end.min(row + (strip - core.geometry.stripe_of_row(row).1.get()));
        (row < window.end).then(|| (row, bytes(row - window.start)..bytes(next - window.start)))
    })
}

/// What slots should hold whose content must be computed: rebuilding ones without a member to copy, and those that failed to
/// read. Returns `None` if more is lost than redundancy replaces.
fn compute(core: &Core, work: &Work<'_>, rows: &Range<MemberSector>, known: &Rows, unreadable: &[usize]) -> Option<Rows> {
    let rebuilt = work.targets.iter().map(|target| target.slot).filter(|slot| !known.contains_key(slot));
    let mut computed = Rows::new();
    for slot in rebuilt.chain(unreadable.iter().copied()) {
        computed.entry(slot).or_insert_with(|| core.buffers.take(rows.sectors()));
    }
    if computed.is_empty() {
        return Some(computed);
    }
    let recovered = stripes(core, rows).try_for_each(|(row, at)| {
        let map = core.map(core.geometry.stripe_of_row(row).0);
        recover_stripe(core, map, known, &mut computed, at)
    });
    recovered.ok().map(|()| computed)
}

/// Checks the stripes of a window that have something to compare. Returns what was found, and the repairs.
fn check(core: &Core, kind: SweepKind, rows: &Range<MemberSector>, known: &Rows) -> (Found, Vec<Repair>) {
    let (mut found, mut repairs) = (Found::default(), Vec::new());
    for (row, at) in stripes(core, rows) {
        let map = core.map(core.geometry.stripe_of_row(row).0);
        if let Some(supposed) = suppose(core, kind, map, known, at.clone()) {
            check_stripe(core, kind, row, &[known, &supposed], at, &mut found, &mut repairs);
            supposed.into_values().for_each(|buffer| core.buffers.give(buffer));
        } else {
            found.pass_over(kind, (at.len() / 512) as u64);
        }
    }
    (found, repairs)
}

/// The log records that override older ones of the parity to be repaired, which would bring it back (R19).
fn revokes(core: &Core, repairs: &[Repair]) -> Vec<SmallVec<[(MemberId, LogRecord); 2]>> {
    let mut revokes = Vec::new();
    for (slot, row, buffer) in repairs {
        let (stripe, start) = core.geometry.stripe_of_row(*row);
        let rows = start..start + (buffer.len() / 512) as u64;
        if core.map(stripe).parity.iter().any(|&parity| usize::from(parity) == *slot) && core.needs_revoke(stripe, &rows) {
            revokes.push(core.revoke_records(stripe, &rows));
        }
    }
    revokes
}

/// The writes that end a piece.
#[derive(Default)]
struct Writes {
    batch: Batch,
    /// The memory, to be given back.
    claims: Vec<Claim>,
}

impl Writes {
    fn push(&mut self, member: MemberId, row: MemberSector, data: Data) {
        self.batch.push(write_io(member, row, data, false));
    }

    /// Writes of what was computed, to rebuilding members. Returns what is to be rewritten on members that could not read it.
    fn add_computed(
        &mut self,
        core: &Core,
        work: &Work<'_>,
        start: MemberSector,
        computed: Rows,
        unreadable: &[usize],
    ) -> SmallVec<[(MemberId, Data); 2]> {
        let mut rewrites = SmallVec::new();
        for (slot, buffer) in computed {
            self.claims.push(buffer.claim());
            let data = buffer.freeze();
            let holder = core.members.borrow().slots()[slot].member;
            rewrites.extend(holder.filter(|_| unreadable.contains(&slot)).map(|member| (member, data.clone())));
            for target in work.targets.iter().filter(|target| target.slot == slot) {
                self.push(target.member, start, data.clone());
            }
        }
        rewrites
    }

    /// Writes to replacements of members that were read.
    fn add_copied(&mut self, work: &Work<'_>, start: MemberSector, known: &mut Rows) {
        for &RebuildTarget { slot, member, .. } in work.targets {
            if let Some(buffer) = known.remove(&slot) {
                self.claims.push(buffer.claim());
                self.push(member, start, buffer.freeze());
            }
        }
    }

    fn add_repairs(&mut self, core: &Core, repairs: Vec<Repair>) {
        for (slot, row, buffer) in repairs {
            let data = buffer.freeze();
            for member in core.members.borrow().targets(slot) {
                self.push(member, row, data.clone());
            }
        }
    }
}

/// A page that is lost. It becomes a bad block of the members to rebuild, so that reading it fails instead of returning garbage,
/// and the sweep goes on. A replacement whose source was read has it all the same. Needs the rows' lock (R89).
async fn lose(core: &Core, work: &Work<'_>, rows: &Range<MemberSector>, known: &Rows) -> Result<(), SweepFault> {
    check_health(core)?;
    let targets: SmallVec<[RebuildTarget; 2]> = {
        let members = core.members.borrow();
        work.targets.iter().copied().filter(|target| members.get(target.member).state != crate::MemberState::Failed).collect()
    };
    if targets.is_empty() {
        core.event(Event::Unreadable { sync_sector: sync_of_rows(rows).start, sectors: rows.sectors() });
    }
    for RebuildTarget { member, .. } in targets.into_iter().filter(|target| !known.contains_key(&target.slot)) {
        if !core.mark_bad(member, rows.clone(), BadCause::Lost).await {
            let reason = Box::new(SweepFault::Unreconstructible { row: rows.start.get() });
            return Err(SweepFault::BadBlocksFull { reason });
        }
    }
    Ok(())
}

/// Reads the rows of every readable member. Returns `None` if another one failed.
async fn read_all(core: &Core, rows: &Range<MemberSector>, unreadable: &mut SmallVec<[usize; 4]>) -> Option<Rows> {
    let mut slots: SmallVec<[(usize, MemberId); 16]> = SmallVec::new();
    let mut batch = Batch::new();
    {
        let members = core.members.borrow();
        for slot in 0..core.geometry.slot_count() {
            if members.presence(slot, rows) == Presence::Readable && !unreadable.contains(&slot) {
                let into = std::iter::once(core.buffers.take(rows.sectors())).collect();
                let member = members.slots()[slot].member.expect("a readable slot has a member");
                slots.push((slot, member));
                let operation = Operation::Read { into };
                batch.push(MemberIo { member, start_sector: rows.start, sectors: rows.sectors(), operation });
            }
        }
    }
    let mut known = Rows::new();
    let mut failed = false;
    for ((slot, member), (result, operation)) in slots.into_iter().zip(core.io(batch).await) {
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let buffer = into.into_iter().next().expect("one buffer was given");
        match result {
            Ok(()) => {
                known.insert(slot, buffer);
            }
            Err(_) => {
                core.buffers.give(buffer);
                // The error of a member that was replaced meanwhile says nothing about the next.
                if core.members.borrow().slots()[slot].member == Some(member) {
                    unreadable.push(slot);
                }
                failed = true;
            }
        }
    }
    if failed {
        known.into_values().for_each(|buffer| core.buffers.give(buffer));
        return None;
    }
    Some(known)
}

/// Recovers the strips of one stripe that `computed` asks for.
fn recover_stripe(core: &Core, map: &StripeMap, known: &Rows, computed: &mut Rows, at: Range<usize>) -> Result<(), ()> {
    let zeros = core.buffers.zero_bytes(at.len());
    let mut outputs: SmallVec<[(usize, Option<&mut [u8]>); 4]> =
        computed.iter_mut().map(|(&slot, buffer)| (slot, Some(&mut buffer[at.clone()]))).collect();
    let mut strips = code_strips(map, zeros, |unit| {
        let slot = unit.slot(map);
        match known.get(&slot) {
            Some(buffer) => Strip::Present(&buffer[at.clone()]),
            None => {
                let output = outputs.iter_mut().find(|(wanted, _)| *wanted == slot);
                output.and_then(|(_, output)| output.take()).map_or(Strip::Absent, Strip::Lost)
            }
        }
    });
    core.stripes.code().recover(&mut strips).map_err(|_| ())
}

/// Data in the order of the code, and parity, where `of` says what a slot holds.
fn in_code_order<'a>(
    map: &StripeMap,
    zeros: &'a [u8],
    of: impl Fn(usize) -> Option<&'a [u8]>,
) -> (SmallVec<[&'a [u8]; 24]>, SmallVec<[Option<&'a [u8]>; 2]>) {
    let mut data: SmallVec<[&[u8]; 24]> = (0..map.code_count).map(|_| zeros).collect();
    for (&slot, &position) in map.data.iter().zip(&map.code) {
        data[usize::from(position)] = of(slot.into()).expect("all data are known");
    }
    (data, map.parity.iter().map(|&slot| of(slot.into())).collect())
}

/// Decides whether a stripe has something to compare: all of it was read, or, for a resync, its data and some parity. Returns
/// `None` if not.
///
/// If data is missing, but less than there are parities, a resync recovers it from the first parities, as reads do, and the
/// other parities must follow: the next member may be lost before the missing ones return (R37).
fn suppose(core: &Core, kind: SweepKind, map: &StripeMap, known: &Rows, at: Range<usize>) -> Option<Rows> {
    let is_missing = |slot: &&u16| !known.contains_key(&usize::from(**slot));
    let missing: SmallVec<[usize; 2]> = map.data.iter().filter(is_missing).map(|&slot| usize::from(slot)).collect();
    let parity_count = map.parity.iter().filter(|&&slot| known.contains_key(&usize::from(slot))).count();
    if kind != SweepKind::Resync {
        return (known.len() == core.geometry.slot_count()).then(Rows::new);
    }
    let left = !missing.is_empty() && core.has(Flaw::DegradedParityLeft);
    if parity_count <= missing.len() || left {
        return None;
    }
    let len = known.values().next().map_or(0, |buffer| buffer.len());
    let mut supposed: Rows = missing.into_iter().map(|slot| (slot, core.buffers.take((len / 512) as u64))).collect();
    recover_stripe(core, map, known, &mut supposed, at).expect("there are more parities than that");
    Some(supposed)
}

/// Compares parity over rows of a stripe from `row` on, page by page, and collects what must be written to make it match.
///
/// A scrub rewrites the one member that is wrong, if redundancy shows it. Otherwise parity follows the data. So it does where a
/// resync is due, since there parity may be old. A resync leaves other mismatches to the scrub. Parity that was not read is
/// left out.
fn check_stripe(
    core: &Core,
    kind: SweepKind,
    row: MemberSector,
    known: &[&Rows; 2],
    at: Range<usize>,
    found: &mut Found,
    repairs: &mut Vec<Repair>,
) {
    let code = core.stripes.code();
    let map = core.map(core.geometry.stripe_of_row(row).0);
    let held = |slot: usize, part: &Range<usize>| {
        let buffer = known.iter().find_map(|known| known.get(&slot))?;
        Some(&buffer[part.clone()])
    };
    let is_consistent = |part: &Range<usize>| {
        let (data, parity) = in_code_order(map, core.buffers.zero_bytes(part.len()), |slot| held(slot, part));
        code.check(&data, &parity) == 0
    };
    if is_consistent(&at) {
        return;
    }
    let row_of = |byte: usize| row + ((byte - at.start) / 512) as u64;
    let repair = kind != (SweepKind::Scrub { repair: false });
    // Adjacent pages whose parity must follow the data.
    let mut stale: SmallVec<[Range<usize>; 2]> = SmallVec::new();
    for page in at.clone().step_by(bytes(PAGE_SECTORS)) {
        let page = page..(page + bytes(PAGE_SECTORS)).min(at.end);
        let rows = row_of(page.start)..row_of(page.end);
        let may_blame = core.consistency.covers(&sync_of_rows(&rows));
        if is_consistent(&page) || (kind == SweepKind::Resync && may_blame) {
            continue;
        }
        let wrong = if may_blame { locate(core, map, known[0], &page) } else { None };
        found.sectors.mismatch_sectors += rows.sectors();
        found.blame(sync_of_rows(&rows), wrong.as_ref().map(|(slot, _)| *slot));
        match wrong {
            Some((slot, right)) if repair => repairs.push((slot, row_of(page.start), right)),
            Some((_, right)) => core.buffers.give(right),
            None if repair => match stale.last_mut() {
                Some(last) if last.end == page.start => last.end = page.end,
                _ => stale.push(page),
            },
            None => {}
        }
    }
    for part in stale {
        let mut fresh: SmallVec<[Buffer; 2]> = map.parity.iter().map(|_| core.buffers.take((part.len() / 512) as u64)).collect();
        {
            let (data, _) = in_code_order(map, core.buffers.zero_bytes(part.len()), |slot| held(slot, &part));
            let mut outputs: SmallVec<[Option<&mut [u8]>; 2]> = fresh.iter_mut().map(|buffer| Some(&mut buffer[..])).collect();
            code.generate(&data, &mut outputs);
        }
        for (&slot, buffer) in map.parity.iter().zip(fresh) {
            match held(usize::from(slot), &part) {
                Some(old) if *old != buffer[..] => repairs.push((usize::from(slot), row_of(part.start), buffer)),
                _ => core.buffers.give(buffer),
            }
        }
    }
}

/// The slot whose page is wrong, and what it should hold. Trusted only if with it the whole page matches: if two members were
/// wrong, a repair would damage a third. Returns `None` if more than one is wrong or there is only one parity.
fn locate(core: &Core, map: &StripeMap, known: &Rows, page: &Range<usize>) -> Option<(usize, Buffer)> {
    let code = core.stripes.code();
    let zeros = core.buffers.zero_bytes(page.len());
    let held = |slot: usize| &known[&slot][page.clone()];
    let (data, parity) = in_code_order(map, zeros, |slot| Some(&known.get(&slot)?[page.clone()]));
    let [Some(p), Some(q), ..] = parity[..] else { return None };
    let wrong = slot_of(map, code.locate(&data, p, q)?)?;
    let mut right = core.buffers.take((page.len() / 512) as u64);
    let mut lost = Some(&mut right[..]);
    let mut strips = code_strips(map, zeros, |unit| match unit.slot(map) {
        slot if slot == wrong => Strip::Lost(lost.take().expect("a slot holds one strip")),
        slot => Strip::Present(held(slot)),
    });
    code.recover(&mut strips).expect("parity replaces one strip");
    drop(strips);
    let is_consistent = {
        let (data, parity) = in_code_order(map, zeros, |slot| Some(if slot == wrong { &right[..] } else { held(slot) }));
        code.check(&data, &parity) == 0
    };
    if is_consistent {
        return Some((wrong, right));
    }
    core.buffers.give(right);
    None
}

/// The slot that holds a position of the code. P and Q come after the data positions. `None`: a position of zeros.
fn slot_of(map: &StripeMap, position: usize) -> Option<usize> {
    let data = || map.code.iter().position(|&code| usize::from(code) == position).map(|index| map.data[index]);
    let slot = position.checked_sub(map.code_count).map_or_else(data, |parity| map.parity.get(parity).copied());
    slot.map(usize::from)
}
