//! Replay: computes what the log records of the last run demand, and writes it before anything relies on parity.
//!
//! For each row one record counts: the newest that every in-sync parity member has. A record that one of them lacks was not
//! durable, so its write had not begun (R29). A log that cannot be read says nothing (R80): parity on its member is computed from
//! the other strips, where another parity has a record. First everything is computed into an overlay, which corrects what is read
//! from members: new data where records hold it, and the parity that follows. Nothing is written so far, so a read-only array can
//! be read. Once it may be written to, the overlay goes to the members, always the same bytes (R81): replay may be interrupted
//! and repeated any number of times, also with a member less.

mod over;

use crate::action::Action;
use crate::address::{Sectors, sync_of_rows};
use crate::core::{Core, drop_failed_writes};
use crate::lock::Mode;
use crate::log::{ReplayHolders, StartStage, has_stayed};
use crate::log_record::{BAND_SECTORS, LogRecord};
use crate::member_requests::{Batch, write_io};
use crate::parity_code::{Found, Unit, code_strips, computed_parity};
use crate::parity_io::{PAGE_SECTORS, alike_sectors, presences, read_units, reconstruct};
use crate::plan::{Presence, Strips};
use crate::{Flaw, MemberId, MemberSector, StripSector, StripeMap, SyncSector};
use over::{Newest, Over};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Data, IoError, Nanos, SECTOR_BYTES, bytes};
use stria_parity::{PARITY_COUNT_MAX, Strip};

/// Pieces of the overlay written at once.
const BATCH: usize = 64;
/// 1 s: the pause after a superblock that no member took.
const REFUSAL_PAUSE: Nanos = 1_000_000_000;
/// After so many the array becomes read-only.
const REFUSALS_MAX: u32 = 5;

/// Replays the records of the last run, then lets the array be read and, if it may be written to, written. `lost_logs`: as
/// [`lost_logs`](crate::ArrayConfig::lost_logs). `unsynced`: some slot is empty, rebuilding, or has a replacement.
pub(crate) async fn replay(core: Rc<Core>, records: Vec<LogRecord>, lost_logs: Vec<MemberId>, unsynced: bool) {
    let mut stripes: BTreeMap<u64, Vec<LogRecord>> = BTreeMap::new();
    for record in records {
        stripes.entry(record.stripe).or_default().push(record);
    }
    // A member that is dropped from now on was present when the records were read, so its records count.
    let pieces: Vec<Piece> = stripes.iter().flat_map(|(&stripe, records)| pieces(&core, stripe, records, &lost_logs)).collect();
    let holders: Vec<ReplayHolders> = pieces.iter().map(|piece| piece.replay_holders(&core)).collect();
    core.log.overlay.set_holders(holders.iter().cloned());
    // R30: a superblock update that drops a member may wait until this is known.
    core.log.stage_changed.wake_all(&core.ready);
    for piece in &pieces {
        compute_rows(&core, piece, piece.rows.clone()).await;
        compute_parity_without_log(&core, piece).await;
    }
    core.log.enter(StartStage::Readable, &core.ready);
    core.ready.until(&core.sweep_changed, || !core.run.is_read_only()).await;
    // R31: what was read from logs may still lie in volatile caches, and is needed until replay has ended.
    if let Err(error) = core.flush_members().await {
        return give_up(&core, &error);
    }
    // R30: a member that is missing, or was dropped since the records were read, must not come back after another crash as in
    // sync. Its cache may forget the records, and then its log would say that the writes replayed now had never begun. So its
    // drop becomes durable first, if other members hold the records. Where none does, all data is there, and a resync makes
    // parity follow it; those rows do not wait, as the update waits for them. R80: a log that could not be read may be readable
    // at the next start, and lack records that are replayed now. The update says so too.
    if unsynced || !lost_logs.is_empty() {
        core.metadata.raise_ack_barrier(&core.ready);
    }
    let mut left = core.log.overlay.pieces();
    let has_holders = || core.has(Flaw::ReplayWaitsInVain) || core.log.replay_has_holders(&core.members.borrow());
    let mut refusals = 0;
    while !core.has(Flaw::ReplayedBeforeDrop) && core.metadata.holds_acks() {
        if has_holders() {
            core.wait_for_ack_barrier_or(|| !has_holders()).await;
            match core.drops_are_recorded("replay") {
                Err(error) if has_holders() && refusals == REFUSALS_MAX => return give_up(&core, &error),
                Err(_) if has_holders() => {
                    refusals += 1;
                    core.sleep_until(core.now() + REFUSAL_PAUSE).await;
                }
                _ => {}
            }
            continue;
        }
        let has_no_holder = |row: MemberSector| {
            let (stripe, row) = core.geometry.stripe_of_row(row);
            let after = pieces.partition_point(|piece| (piece.stripe, piece.rows.start) <= (stripe, row));
            // Another member that holds the slot now has none of these records.
            !has_stayed(&holders[after - 1], &core.members.borrow())
        };
        let lost = core.log.overlay.lost_holders(&core.members.borrow());
        let (at_once, later) = left.into_iter().partition(|&((_, row), _)| has_no_holder(row));
        left = later;
        if let Err(error) = carry_out(&core, &at_once).await {
            return give_up(&core, &error);
        }
        core.log.overlay.forget_holders(&lost);
        core.log.stage_changed.wake_all(&core.ready);
        if left.is_empty() {
            break;
        }
    }
    if let Err(error) = carry_out(&core, &left).await {
        return give_up(&core, &error);
    }
    // R33: reads that began before may have found parity as it was, and still need the overlay.
    let readers = core.lock(SyncSector::ZERO.run(core.geometry.sync_sectors()), Mode::Exclusive).await;
    core.log.overlay.clear();
    drop(readers);
    core.log.enter(StartStage::Replayed, &core.ready);
    core.sweep_changed.wake_all(&core.ready);
}

/// Writes pieces of the overlay to the members, durably.
///
/// R2: the record of a failed write may outlive its bits. A member that is missing while replay changes its rows needs the bits
/// when it returns. Replay does not wait until they are durable: before the next log session begins, a start would replay the
/// same.
async fn carry_out(core: &Core, pieces: &[((usize, MemberSector), Data)]) -> Result<(), IoError> {
    let rows = || pieces.iter().map(|((_, start), data)| sync_of_rows(&start.run((data.len() / SECTOR_BYTES) as u64)));
    rows().for_each(|rows| _ = core.consistency.begin_write(&rows));
    core.metadata.intent_changed.wake_all(&core.ready);
    let result = carry_out_in_batches(core, pieces).await;
    rows().for_each(|rows| core.consistency.end_write(&rows, core.now()));
    result
}

async fn carry_out_in_batches(core: &Core, pieces: &[((usize, MemberSector), Data)]) -> Result<(), IoError> {
    for pieces in pieces.chunks(BATCH) {
        let mut batch = Batch::new();
        for ((slot, row), data) in pieces {
            let targets = core.members.borrow().targets(*slot);
            batch.extend(targets.into_iter().map(|member| write_io(member, *row, data.clone(), true)));
        }
        let targets: SmallVec<[_; 4]> = batch.iter().map(|io| io.member).collect();
        let outcomes = core.io(batch).await;
        drop_failed_writes(core, &targets, outcomes.iter().map(|(result, _)| result))?;
    }
    Ok(())
}

/// Reads go on through the overlay. Writes are not allowed where replay could not write.
fn give_up(core: &Core, error: &IoError) {
    core.log.overlay.give_up(error.clone());
    core.run.set_read_only(true);
    if core.partition.lane_count > 1 {
        core.outbox.push(Action::GiveUp);
    }
    core.log.stage_changed.wake_all(&core.ready);
}

/// Rows of a stripe for which the same record counts.
struct Piece<'a> {
    stripe: u64,
    rows: Range<StripSector>,
    /// The records that count: one for each of `parities`, all of one write, the newest that each has a record of. Empty: there
    /// is none.
    newest: Newest<'a>,
    /// The parities whose members were in sync at the start, and have a log or at least this record.
    parities: Strips,
    /// The other parities whose members were in sync: their log is lost.
    without_log: Strips,
}

impl Piece<'_> {
    /// The members that hold its records.
    fn replay_holders(&self, core: &Core) -> ReplayHolders {
        let members = core.members.borrow();
        let slots = self.parities.iter().map(|&parity| usize::from(core.map(self.stripe).parity[parity]));
        slots.filter_map(|slot| Some((slot, members.slots()[slot].member?))).collect()
    }
}

fn pieces<'a>(core: &Core, stripe: u64, records: &'a [LogRecord], lost_logs: &[MemberId]) -> Vec<Piece<'a>> {
    let mut over = Over::default();
    let mut pieces = Vec::new();
    over.walk(records, |rows, over| {
        for band in rows.in_steps(BAND_SECTORS) {
            let mut next = band.start;
            while next < band.end {
                // R34: what a bad block hides says nothing about the rows beside it.
                let rows = next.run(alike_sectors(core, &core.geometry.rows_of_strip(stripe, &(next..band.end))));
                let [parities, lost] = parities_in_sync(core, stripe, &rows, lost_logs);
                next = rows.end;
                // What can still be read of lost logs counts where there is no other.
                let newest = if parities.is_empty() { over.newest_of_any(&lost) } else { over.newest(&parities) };
                let is_told = |parity: &usize| newest.iter().any(|record| record.parity == *parity);
                let (told, without_log) = lost.into_iter().partition(is_told);
                let parities = if parities.is_empty() { told } else { parities };
                pieces.push(Piece { stripe, rows, newest, parities, without_log });
            }
        }
    });
    pieces
}

/// The parities whose members' logs count for these rows, and those whose logs are lost. R83: a bad block takes nothing from a
/// member's log.
fn parities_in_sync(core: &Core, stripe: u64, rows: &Range<StripSector>, lost_logs: &[MemberId]) -> [Strips; 2] {
    let (members, map) = (core.members.borrow(), core.map(stripe));
    let end = core.geometry.rows_of_strip(stripe, rows).end;
    let mut parities = [Strips::new(), Strips::new()];
    for index in 0..map.parity.len() {
        let Some(member) = members.slots()[usize::from(map.parity[index])].member else { continue };
        if members.get(member).config.recovered.covers(end) {
            parities[usize::from(lost_logs.contains(&member))].push(index);
        }
    }
    parities
}

/// The part of a record's bytes that covers `rows`.
fn part<'a>(record: &LogRecord, data: &'a Data, rows: &Range<StripSector>) -> &'a [u8] {
    &data[bytes(rows.start - record.rows.start)..][..bytes(rows.sectors())]
}

/// Computes what some rows of a piece must hold, into the overlay.
async fn compute_rows(core: &Core, piece: &Piece<'_>, rows: Range<StripSector>) {
    let Piece { stripe, newest, parities, .. } = piece;
    if newest.is_empty() {
        return;
    }
    let map = core.map(*stripe);
    let on_member = core.geometry.rows_of_strip(*stripe, &rows);
    let sectors = rows.sectors();
    let mut unreadable = Strips::new();
    loop {
        let written = newest[0].written.clone();
        let has_new_data = !newest[0].new_data.is_empty() || newest[0].new_data_is_zeros;
        let there = presences(core, map, &on_member, &unreadable);
        let unread: Strips = written.clone().filter(|&index| has_new_data || there[0][index] != Presence::Readable).collect();
        let by_parity = !has_new_data && !unread.is_empty();
        let mut wanted: SmallVec<[(Unit, Range<MemberSector>); 4]> = SmallVec::new();
        let found = written.clone().filter(|index| !unread.contains(index));
        wanted.extend(found.map(|index| (Unit::Data(index), on_member.clone())));
        if by_parity {
            let sources = parities.iter().filter(|&&parity| there[1][parity] == Presence::Readable).take(unread.len());
            wanted.extend(sources.map(|&parity| (Unit::Parity(parity), on_member.clone())));
        }
        let Some(read) = read_units(core, map, &wanted, &mut unreadable).await else {
            let block = core.members.borrow().block_sectors_of_active();
            if sectors <= block {
                continue;
            }
            // R34: what can be read of a strip must not be replaced by what parity says, because of what cannot be read beside
            // it.
            for rows in rows.in_steps(block) {
                Box::pin(compute_rows(core, piece, rows)).await;
            }
            return;
        };
        let found = Found::new(wanted.into_iter().map(|(unit, _)| unit).zip(read));
        let mut data: SmallVec<[(usize, Buffer); 4]> = unread.iter().map(|&index| (index, core.buffers.take(sectors))).collect();
        if by_parity {
            if recover(core, map, &rows, newest, &found, &mut data).is_err() {
                // More is lost than the level survives: parity stays as it is.
                return;
            }
        } else {
            for (index, buffer) in &mut data {
                match newest[0].new_data_is_zeros {
                    true => buffer.fill(0),
                    false => buffer.copy_from_slice(part(newest[0], &newest[0].new_data[*index - written.start], &rows)),
                }
            }
        }
        let code = core.stripes.code();
        for record in newest {
            let mut parity = match &record.partial {
                Some(partial) => Buffer::copy_of(part(record, partial, &rows)),
                None => Buffer::zeroed(bytes(sectors)),
            };
            for index in written.clone() {
                let strip = data.iter().find(|(unread, _)| *unread == index).map(|(_, buffer)| buffer);
                let strip = strip.unwrap_or_else(|| found.get(Unit::Data(index)).expect("read, recovered or kept"));
                let mut outputs: SmallVec<[Option<&mut [u8]>; PARITY_COUNT_MAX]> = (0..map.parity.len()).map(|_| None).collect();
                outputs[record.parity] = Some(&mut parity);
                code.add(usize::from(map.code[index]), strip, &mut outputs);
            }
            let slot = usize::from(map.parity[record.parity]);
            core.log.overlay.insert(slot, on_member.start, parity.freeze());
        }
        for (index, buffer) in data {
            match has_new_data && there[0][index] != Presence::Missing {
                true => core.log.overlay.insert(usize::from(map.data[index]), on_member.start, buffer.freeze()),
                false => core.buffers.give(buffer),
            }
        }
        found.recycle(core);
        return;
    }
}

/// Computes parity that has no record because its member's log is lost, into the overlay: from what the other strips of the
/// stripe hold now. Otherwise a strip that is lost later could be recovered from parity as the crash has left it.
async fn compute_parity_without_log(core: &Core, piece: &Piece<'_>) {
    if piece.newest.is_empty() || piece.without_log.is_empty() {
        return;
    }
    let map = core.map(piece.stripe);
    let untrusted: Strips = piece.without_log.iter().map(|&parity| usize::from(map.parity[parity])).collect();
    // Page by page, as beside an unreadable sector others are good.
    for rows in core.geometry.rows_of_strip(piece.stripe, &piece.rows).in_steps(PAGE_SECTORS) {
        let mut data: SmallVec<[Buffer; 8]> = SmallVec::new();
        for index in 0..map.data.len() {
            match reconstruct(core, piece.stripe, index, &rows, &mut untrusted.clone()).await {
                Ok(buffer) => data.push(buffer),
                Err(_) => break,
            }
        }
        if data.len() == map.data.len() {
            for (parity, buffer) in computed_parity(core, map, &data).into_iter().enumerate() {
                if piece.without_log.contains(&parity) {
                    core.log.overlay.insert(usize::from(map.parity[parity]), rows.start, buffer.freeze());
                }
            }
        }
        data.into_iter().for_each(|buffer| core.buffers.give(buffer));
    }
}

/// Recovers missing written strips from parity as it lies on its members, less partial parity.
fn recover(
    core: &Core,
    map: &StripeMap,
    rows: &Range<StripSector>,
    records: &[&LogRecord],
    found: &Found,
    lost: &mut [(usize, Buffer)],
) -> Result<(), ()> {
    let len = bytes(rows.sectors());
    let zeros = core.buffers.zero_bytes(len);
    let less: SmallVec<[(usize, Buffer); 2]> = records
        .iter()
        .filter_map(|record| {
            let mut sum = Buffer::copy_of(found.get(Unit::Parity(record.parity))?);
            if let Some(partial) = &record.partial {
                stria_parity::xor_into(&mut sum, part(record, partial, rows));
            }
            Some((record.parity, sum))
        })
        .collect();
    let written = records[0].written.clone();
    let mut targets: SmallVec<[(usize, Option<&mut [u8]>); 4]> =
        lost.iter_mut().map(|(index, buffer)| (*index, Some(&mut buffer[..]))).collect();
    let mut strips = code_strips(map, zeros, |unit| match unit {
        Unit::Data(index) if !written.contains(&index) => Strip::Present(zeros),
        Unit::Data(index) => match found.get(unit) {
            Some(buffer) => Strip::Present(buffer),
            None => {
                let target = targets.iter_mut().find(|(lost, _)| *lost == index);
                target.and_then(|(_, target)| target.take()).map_or(Strip::Absent, Strip::Lost)
            }
        },
        Unit::Parity(index) => {
            let sum = less.iter().find(|(parity, _)| *parity == index);
            sum.map_or(Strip::Absent, |(_, buffer)| Strip::Present(buffer))
        }
    });
    core.stripes.code().recover(&mut strips).map_err(|_| ())
}
