//! Zeroing of whole stripes on RAID 4, 5 and 6. Parts of stripes are [written](crate::parity_write) as zeros.

use crate::address::{Sectors, sync_of_rows};
use crate::core::{BadCause, Core, drop_failed_writes, is_no_space, lost, mark_half_written};
use crate::lock::Mode;
use crate::member_requests::{Ended, MemberIo};
use crate::no_space::reconcile_parity;
use crate::personality::Zeroing;
use crate::plan::Rectangle;
use crate::{Health, MemberId, MemberSector, StripSector};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{IoError, Operation};

/// Zeroes full stripes on every member, parity included, and unmaps where members can. `small`: log records promise old data or
/// zeros, whichever members a crash takes.
pub(crate) async fn zero_stripes(core: Rc<Core>, parent: usize, stripes: Range<u64>, zeroing: Zeroing, small: bool) {
    let strip = core.geometry.strip_sectors();
    let rows = MemberSector::new(stripes.start * strip)..MemberSector::new(stripes.end * strip);
    let sync = sync_of_rows(&rows);
    if let Err(error) = core.log_open().await {
        return core.part_done(parent, None, Err(error));
    }
    let guard = core.lock(sync_of_rows(&rows), Mode::Exclusive).await;
    if let Err(error) = core.write_begin(&sync).await {
        drop(guard);
        return core.part_done(parent, None, Err(error));
    }
    let recorded = if small { stripes.clone().collect() } else { core.log_covered(&stripes) };
    let records = recorded.into_iter().map(|stripe| {
        let mut records = core.revoke_records(stripe, &StripSector::ZERO.run(strip));
        records.iter_mut().for_each(|(_, record)| record.new_data_is_zeros = small);
        records
    });
    let records = records.collect();
    let result = match core.log_begin(records).await {
        Ok(logged) => {
            // Durable where members have caches, so that the next write to the stripe need not flush first (R20).
            let fua = zeroing.fua || core.members.borrow().have_volatile_cache() && core.log.config.is_some();
            core.wait_for_ack_barrier().await;
            core.gate_client_write(&sync);
            // R10: a member dropped meanwhile has no record of this.
            let result = match (core.drops_are_recorded("write"), core.health()) {
                (Err(error), _) => Err(error),
                (_, Health::Failed) => Err(lost("write", "no member is left to take a part of it")),
                (Ok(()), Health::Optimal | Health::Degraded) => {
                    zero_members(&core, &stripes, &rows, Zeroing { fua, fast: false, ..zeroing }).await
                }
            };
            core.wait_for_ack_barrier().await;
            core.log_end(stripes.start, &[], logged);
            result
        }
        Err(error) => Err(error),
    };
    let mut result = result.and(core.write_end(&sync).await);
    if zeroing.fua {
        result = result.and_then(|()| core.bad_blocks_are_listed("write"));
    }
    drop(guard);
    core.part_done(parent, None, result);
}

/// Zeroes the `rows` of whole stripes on every member.
async fn zero_members(core: &Core, stripes: &Range<u64>, rows: &Range<MemberSector>, zeroing: Zeroing) -> Result<(), IoError> {
    if zeroing.unmap {
        core.no_space.unmap();
    }
    let targets: SmallVec<[MemberId; 8]> = core.members.borrow().active().collect();
    let zero = |&member: &MemberId| MemberIo {
        member,
        start_sector: rows.start,
        sectors: rows.sectors(),
        operation: zeroing.operation(),
    };
    let outcomes = core.io(targets.iter().map(zero).collect()).await;
    let mut result = drop_failed_writes(core, &targets, outcomes.iter().map(|(result, _)| result));
    let Err(first) = &result else { return result };
    let cause = |(&member, (result, _)): (&MemberId, &(Result<(), IoError>, Operation))| {
        result.as_ref().err().map(|error| (member, BadCause::of(error)))
    };
    let failed: SmallVec<[(MemberId, BadCause); 8]> = targets.iter().zip(&outcomes).filter_map(cause).collect();
    if is_no_space(first) {
        for stripe in stripes.clone() {
            if let Err(error) = reconcile_zeroed(core, stripe, &failed).await {
                result = Err(error);
            }
        }
        return result;
    }
    // R72: what cannot be dropped has bad blocks. Otherwise a missing strip would be recovered from its old bytes.
    for (member, cause) in failed {
        if let Err(error) = mark_half_written(core, member, rows.clone(), cause).await {
            result = Err(error);
        }
    }
    result
}

/// R85: makes parity of a stripe follow the data, after these members failed to take their zeros.
async fn reconcile_zeroed(core: &Core, stripe: u64, failed: &[(MemberId, BadCause)]) -> Result<(), IoError> {
    let strip = core.geometry.strip_sectors();
    let part = Rectangle { rows: StripSector::ZERO.run(strip), strips: 0..core.geometry.data_count() };
    let rows = core.geometry.rows_of_strip(stripe, &part.rows);
    let ended = |&(member, _): &(MemberId, BadCause)| Ended {
        member,
        start_sector: rows.start,
        sectors: strip,
        result: Ok(()),
        operation: Operation::Write { from: std::iter::once(core.buffers.zeros(strip)).collect(), fua: false },
    };
    let ended: SmallVec<[Ended; 8]> = failed.iter().map(ended).collect();
    reconcile_parity(core, stripe, &part, &ended.iter().collect::<SmallVec<[&Ended; 8]>>()).await
}
