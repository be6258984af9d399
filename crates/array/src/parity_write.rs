//! Writes on RAID 4, 5 and 6, stripe by stripe. What a write does stands here, step by step:
//!
//! | step | what happens |
//! | --- | --- |
//! | lock | its rows; superblocks say dirty, and bits are durable (R1, R2) |
//! | plan | [`plan`](crate::plan) decides what is read, and how parity is computed |
//! | read | what the plan [asks for](crate::parity_code::reads) |
//! | compute | [`new_parity`](crate::parity_code::Change::new_parity) |
//! | log | the parity members hold [`records`], durably, before a byte changes (R17); a small write may be acknowledged now (R23) |
//! | send | [data and parity](send), in any order, or [parity first](task) where it may lack space (R46, R85) |
//! | finish | [members that failed](finish) are dropped, and the records retired |
//!
//! Two modules take these steps. [`straight`] runs a write to completion that lies within one strip of an optimal, consistent
//! stripe and waits for nothing but members and the log. Most small writes are of this kind. Every other write is a [`task`],
//! which may wait for anything. `write_path_tests` compares what the two ask of members.
//!
//! Until the last write to a member has ended, parity of these rows may be inconsistent. A resync finds them by the bits, and a
//! replay by the records if members are lost as well. docs/CRASH_SAFETY.md has every step.

mod straight;
mod task;

pub(crate) use straight::go_on;

use crate::address::{Sectors, sync_of_rows};
use crate::coalesce::Part;
use crate::core::{BadCause, Core, array_range, drop_failed, is_no_space, mark_half_written};
use crate::lists::few;
use crate::log::{BehindWrite, LogHolders, Logged};
use crate::log_record::LogRecord;
use crate::member_requests::{Ended, MemberIo};
use crate::no_space::{ParityBefore, reconcile_parity, undo_parity};
use crate::parity_code::Parities;
use crate::plan::{Presence, Rectangle, WritePlan};
use crate::segments::{DataCutter, of_sectors, shared};
use crate::straight_writes::Frozen;
use crate::{Flaw, MemberId, MemberSector, StripeSector};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Claim, Data, IoError, Operation, Request, Segments, bytes};

/// A client's write.
#[inline]
pub(crate) fn write(core: &Rc<Core>, request: &mut Request, send: &mut impl FnMut(MemberId, Request)) {
    let goes_on = core.coalescer.is_of_stream(&array_range(request));
    if goes_on || !straight::begin(core, request, send) {
        write_by_task(core, request, goes_on);
    }
}

/// A client's write, stripe by stripe, each by a task. `goes_on`: it continues another one in flight.
pub(crate) fn write_by_task(core: &Rc<Core>, request: &mut Request, goes_on: bool) {
    let range = request.start_sector..request.end_sector();
    let width = core.geometry.strip_sectors() * core.geometry.data_count() as u64;
    let stripes = range.start / width..range.end.div_ceil(width);
    let parent = core.begin(request, (stripes.end - stripes.start) as usize);
    let Operation::Write { from, fua } = std::mem::replace(&mut request.operation, Operation::Flush) else {
        unreachable!("this is a write")
    };
    let from = of_sectors(from);
    let mut data = DataCutter::new(&from);
    let small = core.log.logs_new_data_of(request.sectors);
    let alone = core.log.must_not_coalesce(request.sectors);
    for stripe in stripes {
        let start = range.start.max(stripe * width);
        let end = range.end.min((stripe + 1) * width);
        let (start_sector, data) = (StripeSector::new(start - stripe * width), data.take(bytes(end - start)));
        write_part(core, stripe, Part { parent, start_sector, data, fua, small, alone, goes_on });
    }
}

/// Writes a part of a client's request by a task, together with others where possible.
pub(crate) fn write_part(core: &Rc<Core>, stripe: u64, part: Part) {
    if let Some(worker) = core.coalescer.join(&core.ready, &core.geometry, core.log.together_sectors_max(), stripe, part) {
        core.ready.spawn(task::write_forever(Rc::clone(core), worker));
    }
}

/// The rows of a part on its members.
fn rows(core: &Core, stripe: u64, part: &Rectangle) -> Range<MemberSector> {
    core.geometry.rows_of_strip(stripe, &part.rows)
}

/// The data slots that parts of a write change, each with its rows.
fn places<'a>(core: &'a Core, stripe: u64, parts: &'a [Rectangle]) -> impl Iterator<Item = (usize, Range<MemberSector>)> + 'a {
    let place = move |part: &'a Rectangle| {
        let rows = rows(core, stripe, part);
        part.strips.clone().map(move |index| (usize::from(core.map(stripe).data[index]), rows.clone()))
    };
    parts.iter().flat_map(place)
}

/// True if a write would gain from early acknowledgement. `small`: the log holds its new data where it must.
fn may_be_early(core: &Core, sectors: u64, small: bool, fua: bool) -> bool {
    small && !fua && core.log.would_benefit(sectors, core.requests_in_flight(), || core.members.borrow().have_volatile_cache())
}

/// True if the records of a part hold its new data: where several strips are written together, so that a crash leaves old data or
/// new, and where the write is acknowledged early.
fn logs_new_data(core: &Core, part: &Rectangle, small: bool, early: bool) -> bool {
    let sectors = part.rows.sectors() * part.strips.len() as u64;
    small && (part.strips.len() > 1 || early) && core.log.has_space_for(sectors)
}

/// The members whose logs hold the records of all parts.
fn log_holders(core: &Core, stripe: u64, parts: &[Rectangle]) -> LogHolders {
    let members = core.members.borrow();
    let is_readable =
        |slot: usize| parts.iter().all(|part| members.presence(slot, &rows(core, stripe, part)) == Presence::Readable);
    // R23: records of rebuilding members would not count after a crash.
    members.in_sync_in(core.map(stripe).parity.iter().map(|&slot| usize::from(slot)).filter(|&slot| is_readable(slot)))
}

/// The log records of a part, one for each member with parity of it, replacements included (R18). `new_data`: the data of each
/// written strip, if they hold it.
fn records<'a>(
    core: &'a Core,
    stripe: u64,
    part: &'a Rectangle,
    plan: &'a WritePlan,
    partial: &'a [Data],
    new_data: &'a [Data],
) -> impl Iterator<Item = (MemberId, LogRecord)> + 'a {
    let targets = move |(at, &parity): (usize, &usize)| {
        let slot = usize::from(core.map(stripe).parity[parity]);
        core.members.borrow().each_target(slot).map(move |member| (at, parity, member))
    };
    plan.write_parity.iter().enumerate().flat_map(targets).map(move |(at, parity, member)| {
        let partial = partial.get(at).cloned();
        let (rows, written) = (part.rows.clone(), part.strips.clone());
        (
            member,
            LogRecord {
                number: 0,
                stripe,
                rows,
                written,
                parity,
                partial,
                new_data: few(new_data.iter().cloned()),
                new_data_is_zeros: false,
            },
        )
    })
}

/// Parity as it is sent. `claim` gets a claim on the memory of each buffer, by which that returns to the pool.
fn freeze(parities: Parities, mut claim: impl FnMut(Claim)) -> Frozen {
    few(parities.into_iter().map(|buffer| {
        claim(buffer.claim());
        buffer.freeze()
    }))
}

/// Sends a part's data and parity to their members. `written`: the new data of each written strip.
#[expect(clippy::too_many_arguments, reason = "the whole of one step")]
fn send(
    core: &Core,
    stripe: u64,
    part: &Rectangle,
    plan: &WritePlan,
    written: &[Segments<Data>],
    parity: Frozen,
    fua: bool,
    mut to: impl FnMut(MemberIo),
) {
    let (map, rows) = (core.map(stripe), rows(core, stripe, part));
    core.gate_client_write(&sync_of_rows(&rows));
    let targets = |slot: u16| core.members.borrow().each_target(usize::from(slot));
    let mut each = |member: MemberId, from: Segments<Data>| {
        let operation = Operation::Write { from, fua };
        to(MemberIo { member, start_sector: rows.start, sectors: rows.sectors(), operation });
    };
    for (index, from) in part.strips.clone().zip(written) {
        targets(map.data[index]).for_each(|member| each(member, shared(from)));
    }
    for (&index, data) in plan.write_parity.iter().zip(parity) {
        targets(map.parity[index]).for_each(|member| each(member, smallvec![data.clone()]));
    }
}

/// Gives up a write that was acknowledged early and not sent: its log is lost with a member that the array cannot do without.
/// Parity would not fit what it covers, and with nothing to mend it a missing strip would be lost beside the write (R54).
fn give_up_behind(core: &Core, stripe: u64, parts: &[Rectangle], behind: BehindWrite, logged: Logged, error: &IoError) {
    core.no_space.fail_flushes(error);
    core.log.behind.end(&core.ready, behind, places(core, stripe, parts));
    core.log_forget(logged);
}

/// Ends a write on its members. Members that failed it are dropped (R6, R7). Where one cannot be, its rows become consistent
/// again or bad blocks (R72, R85). `undo`: what parity was, if it had no space, so that no data was sent. `behind`: it was
/// acknowledged early, so the next flush reports its error.
async fn finish(
    core: &Core,
    stripe: u64,
    parts: &[Rectangle],
    ended: &[Ended],
    undo: Option<ParityBefore>,
    behind: Option<BehindWrite>,
    logged: Logged,
) -> Result<(), IoError> {
    let mut result = drop_failed(core, ended.iter().map(|ended| (ended.member, &ended.result)));
    assert!(undo.is_none() || result.is_err(), "data was not sent, and the write succeeds");
    let failed: SmallVec<[&Ended; 4]> = ended.iter().filter(|ended| ended.result.is_err()).collect();
    if let Some(before) = undo {
        if let Err(error) = undo_parity(core, before).await {
            result = Err(error);
        }
    } else if let Err(first) = &result {
        let no_space = is_no_space(first) && behind.is_none();
        if behind.is_some() && !core.has(Flaw::LostBehindUntold) {
            core.no_space.fail_flushes(first);
        }
        for part in parts.iter().filter(|_| no_space) {
            let rows = rows(core, stripe, part);
            let of_part: SmallVec<[&Ended; 4]> =
                failed.iter().copied().filter(|ended| ended.start_sector == rows.start).collect();
            if let Err(error) = reconcile_parity(core, stripe, part, &of_part).await {
                result = Err(error);
            }
        }
        for Ended { member, start_sector, sectors, result: ended, .. } in failed.iter().filter(|_| !no_space) {
            let Err(error) = ended else { continue };
            if let Err(error) = mark_half_written(core, *member, start_sector.run(*sectors), BadCause::of(error)).await {
                result = Err(error);
            }
        }
    }
    if let Some(behind) = behind {
        core.log.behind.end(&core.ready, behind, places(core, stripe, parts));
    }
    // R21: a dropped member may need these records.
    core.wait_for_ack_barrier().await;
    let result = result.and(core.drops_are_recorded("write"));
    core.gate_acknowledge(&result, failed.iter().map(|ended| ended.member));
    core.log_end(stripe, parts, logged);
    result
}
