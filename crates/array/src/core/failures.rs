//! Member requests that failed: what that costs the member and the client.

use super::{Core, lost};
use crate::member_requests::{Batch, write_io};
use crate::{DropCause, Event, Flaw, Health, MemberId, MemberSector, MemberState};
use smallvec::SmallVec;
use std::ops::Range;
use stria_block::{Data, ErrorKind, IoError};

/// True if a request failed for lack of space only.
pub(crate) fn is_no_space(error: &IoError) -> bool {
    error.kind == ErrorKind::NoSpace
}

/// Why rows of a member become bad blocks, by the request that failed (R68): when they are marked, there may long be space again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BadCause {
    /// The member has no space for what they should hold. They are filled once there is some (R48).
    NoSpace,
    /// Anything else: the event log names them.
    Lost,
}

impl BadCause {
    /// The cause, by the error of the request that failed.
    pub fn of(error: &IoError) -> Self {
        if is_no_space(error) { Self::NoSpace } else { Self::Lost }
    }
}

/// True if a member failed a request for lack of space only, and keeps its slot (R40). A rebuilding member has no slot to lose.
pub(crate) fn lacks_space(core: &Core, member: MemberId, error: &IoError) -> bool {
    is_no_space(error) && core.members.borrow().get(member).state == MemberState::InSync
}

/// As [`drop_failed`], with members and results in the same order.
pub(crate) fn drop_failed_writes<'a>(
    core: &Core,
    targets: &[MemberId],
    results: impl Iterator<Item = &'a Result<(), IoError>>,
) -> Result<(), IoError> {
    drop_failed(core, targets.iter().copied().zip(results))
}

/// Drops the members whose writes failed. The write succeeds if redundancy covers all of them (R7).
pub(crate) fn drop_failed<'a>(
    core: &Core,
    results: impl Iterator<Item = (MemberId, &'a Result<(), IoError>)>,
) -> Result<(), IoError> {
    let mut outcome = Ok(());
    for (member, result) in results {
        let Err(error) = result else { continue };
        if lacks_space(core, member, error) {
            outcome = Err(core.meet_no_space(member, error));
        } else if !core.fail_member(member, DropCause::Write(error.clone())) || core.health() == Health::Failed {
            // Other lanes may have dropped what this one cannot do without.
            outcome = Err(lost("write", &error.context));
        }
    }
    outcome
}

/// Sends the writes of a sweep, under the lock of the rows. As [`drop_failed_writes`], but rows that a member has no space for
/// become bad blocks there (R86), and the sweep goes on.
pub(crate) async fn write_for_sweep(core: &Core, writes: Batch) -> Result<(), IoError> {
    let targets: SmallVec<[(MemberId, Range<MemberSector>); 8]> =
        writes.iter().map(|io| (io.member, io.start_sector.run(io.sectors))).collect();
    let mut outcome = Ok(());
    for ((member, rows), (result, _)) in targets.into_iter().zip(core.io(writes).await) {
        let Err(error) = result else { continue };
        if lacks_space(core, member, &error) {
            let _ = core.meet_no_space(member, &error);
            outcome = outcome.and(mark_half_written(core, member, rows, BadCause::NoSpace).await);
        } else if !core.fail_member(member, DropCause::Write(error.clone())) {
            outcome = Err(lost("write", &error.context));
        }
    }
    outcome
}

/// Drops the members whose flushes failed, whatever the reason: what they had taken may be gone (R8). A member that must stay is
/// not dropped: the next flush of a client fails instead. A drive may report its loss once, to a flush that no client sent.
pub(crate) fn drop_failed_flushes<'a>(
    core: &Core,
    results: impl Iterator<Item = (MemberId, &'a Result<(), IoError>)>,
) -> Result<(), IoError> {
    let mut outcome = Ok(());
    for (member, result) in results {
        if let Err(error) = result
            && !core.has(Flaw::FailedFlushIgnored)
            && (!core.fail_member(member, DropCause::Flush(error.clone())) || core.health() == Health::Failed)
        {
            let error = lost("flush", &error.context);
            core.no_space.fail_flushes(&error);
            // R17: nor are appends to its log durable that a later flush seems to cover.
            core.log.flush_failed(member, &error);
            outcome = Err(error);
        }
    }
    outcome
}

/// A write failed on a member that cannot be dropped, and parity may have moved on without it. Missing strips that only the two
/// together could recover are lost. So these rows become bad blocks: a read must fail instead of returning garbage (R72).
pub(crate) async fn mark_half_written(
    core: &Core,
    member: MemberId,
    rows: Range<MemberSector>,
    cause: BadCause,
) -> Result<(), IoError> {
    if core.members.borrow().get(member).state == MemberState::Failed {
        return Ok(());
    }
    let is_listed = core.mark_bad(member, rows.clone(), cause).await;
    // Otherwise only dropping the member keeps the rows from being read after a restart.
    if is_listed || core.fail_member(member, DropCause::HalfWritten) {
        return Ok(());
    }
    Err(lost(
        "write",
        &format!(
            "the bad-block log of the member cannot be written, or has no space to say that rows {}.. are half-written",
            rows.start
        ),
    ))
}

/// Writes recovered data over sectors that could not be read, and reads them again. A member that cannot do that is dropped. On
/// a read-only array the sectors stay as they are.
pub(crate) async fn rewrite(core: &Core, member: MemberId, start_sector: MemberSector, data: Data) {
    if core.run.is_read_only() || core.members.borrow().get(member).state == MemberState::Failed {
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
            core.fail_member(member, DropCause::Rewrite(error));
        }
        None => core.event(Event::ReadCorrected { member, start_sector, sectors }),
    }
}

impl Core {
    /// A member has no space for a write. Returns the client's error.
    pub fn meet_no_space(&self, member: MemberId, error: &IoError) -> IoError {
        let now = self.now();
        if !self.no_space.is_careful(now) {
            self.event(Event::NoSpace { member, error: error.clone() });
        }
        let until = self.no_space.meet(now);
        self.members.borrow_mut().get_mut(member).no_space_until = until;
        IoError::new(ErrorKind::NoSpace, format!("write failed: {}", error.context))
    }
}
