//! Members without room: a full file system under image files, a thin volume that cannot grow.
//!
//! Rule. A write that a member has no room for fails, with [`ErrorKind::NoSpace`], and the member keeps its role. Why. Nothing is
//! wrong with what it holds, and the other members often lie on the same file system: to drop one after the other would end the
//! array. So clients hear that there is no room, as of any disk that is full, and the rows of the write are made to agree again
//! before anybody else may write there:
//!
//! - On parity levels parity follows the data, whichever of the new bytes arrived. Parity that cannot be written either counts as
//!   unreadable there, durably ([`Core::mark_bad`]), until a later write brings it.
//! - Where a data strip is missing its bytes are in parity alone, and parity must not follow: there what a member could not take
//!   counts as unreadable on it, and so does what an acknowledged write could not bring to its place.
//! - Of copies those count that took the write, or the first if none did. The others count as unreadable there.
//!
//! What counts as unreadable is brought back as soon as there is room ([`refill_forever`]).
//!
//! Metadata that a member cannot keep still cost it its role: what is recorded must be recorded on all.

use crate::MemberId;
use crate::core::{Core, MemberIo};
use crate::lock::Mode;
use crate::mirror_io::{read_any, readable};
use crate::parity_io::{Unit, computed_parity, half_written, read_units, reconstruct};
use crate::plan::{Presence, Strips};
use crate::task::Waiters;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, ErrorKind, IoError, Nanos};

/// A minute: so long nothing more is said of members without room, and no write is acknowledged ahead of its place.
const CAREFUL_FOR: Nanos = 60_000_000_000;

/// 2 s: how often it is tried to bring back what members had no room for.
const REFILL_EVERY: Nanos = 2_000_000_000;

/// What is known of members without room.
#[derive(Default)]
pub(crate) struct NoRoom {
    /// Until then others may have none either.
    careful_until: Cell<Nanos>,
    /// An acknowledged write could not be brought to its place: the next flush says so.
    unflushed: RefCell<Option<IoError>>,
    /// Rows of members that count as unreadable for want of room, and the task that brings them back.
    lacking: RefCell<Vec<Lacking>>,
    pub refill: Waiters,
}

impl NoRoom {
    /// Whether a member has lately had no room.
    pub fn is_careful(&self, now: Nanos) -> bool {
        now < self.careful_until.get()
    }

    /// What the next flush has to say.
    pub fn take_unflushed(&self) -> Result<(), IoError> {
        self.unflushed.borrow_mut().take().map_or(Ok(()), Err)
    }
}

/// Rows of a member that count as unreadable, and where in the sync space they lie.
#[derive(Clone)]
struct Lacking {
    member: MemberId,
    rows: Range<u64>,
    sync: Range<u64>,
}

/// Whether the room was all that a request lacked.
pub(crate) fn is_no_room(error: &IoError) -> bool {
    error.kind == ErrorKind::NoSpace
}

impl Core {
    /// A member has no room for what was to be written; what the client is told.
    pub fn meet_no_room(&self, member: MemberId, error: &IoError) -> IoError {
        let now = self.now();
        if !self.no_room.is_careful(now) {
            self.event(crate::Event::NoRoom { member, reason: error.context.to_string() });
        }
        self.no_room.careful_until.set(now.saturating_add(CAREFUL_FOR));
        IoError::new(ErrorKind::NoSpace, format!("write failed: {}", error.context))
    }

    /// Clients know a write that has not come to its place: a flush must not say that all is well.
    pub fn fail_next_flush(&self, error: &IoError) {
        self.no_room.unflushed.borrow_mut().get_or_insert_with(|| error.clone());
    }

    /// Rows of a member count as unreadable from now on; if that is for want of room, they are brought back later.
    pub fn refill_later(&self, member: MemberId, rows: &Range<u64>, sync: Range<u64>) {
        if self.no_room.is_careful(self.now()) {
            self.no_room.lacking.borrow_mut().push(Lacking { member, rows: rows.clone(), sync });
            self.no_room.refill.wake_all(&self.ready);
        }
    }
}

/// Of the copies of a range those count from now on that took a write, or the first if none did; under the range's lock.
/// `failed`: those that had no room for some of it.
pub(crate) async fn settle_copies(core: &Core, range: &Range<u64>, failed: &[MemberId]) -> Result<(), IoError> {
    let mut next = range.start;
    while next < range.end {
        let (copies, sectors) = core.geometry.copies_of(next, range.end - next);
        let there = readable(core, &copies, sectors);
        let took_it = there.iter().any(|(_, member)| !failed.contains(member));
        let counts = there.first().map(|&(_, member)| member).filter(|_| !took_it);
        for (copy, member) in there {
            if failed.contains(&member) && counts != Some(member) {
                let rows = copy.start_sector..copy.start_sector + sectors;
                if core.mark_bad(member, rows.clone()).await {
                    core.refill_later(member, &rows, next..next + sectors);
                } else {
                    // Nothing keeps it from being read but to go.
                    core.fail_member(member, "it has no room, and its bad-block log none for what it lacks");
                }
            }
        }
        next += sectors;
    }
    Ok(())
}

/// Makes parity of some rows of a stripe follow its data, under the rows' lock, after members had no room for parts of a write.
/// `failed`: those, where parity does not.
pub(crate) async fn settle_parity(core: &Core, stripe: u64, rows: &Range<u64>, failed: &[MemberId]) -> Result<(), IoError> {
    let map = core.map(stripe);
    let wanted: SmallVec<[(Unit, Range<u64>); 8]> = (0..map.data.len()).map(|index| (Unit::Data(index), rows.clone())).collect();
    let whole = |slot: &u16| core.members.borrow().presence(usize::from(*slot), rows) == Presence::Whole;
    let read = match map.data.iter().all(whole) {
        true => read_units(core, map, &wanted, &mut Strips::new()).await,
        false => None,
    };
    let Some(data) = read else {
        for &member in failed {
            half_written(core, member, rows.clone()).await?;
        }
        return Ok(());
    };
    let parity = computed_parity(core, map, &data);
    data.into_iter().for_each(|buffer| core.give_buffer(buffer));
    for (index, right) in parity {
        let targets = core.members.borrow().targets(usize::from(map.parity[index]));
        for member in targets {
            write_if_other(core, member, rows, &right).await?;
        }
        core.give_buffer(right);
    }
    Ok(())
}

/// Brings back what members had no room for, as soon as they have some. Rows that a client has written meanwhile
/// are good already; rows that nobody else can tell either wait for a client.
pub(crate) async fn refill_forever(core: Rc<Core>) {
    loop {
        core.ready.until(&core.no_room.refill, || !core.no_room.lacking.borrow().is_empty()).await;
        core.sleep_until(core.now() + REFILL_EVERY).await;
        let lacking = core.no_room.lacking.take();
        for piece in lacking {
            if core.stopping.get() || core.read_only.get() {
                return;
            }
            if refill(&core, &piece).await.is_err() {
                core.no_room.lacking.borrow_mut().push(piece);
            }
        }
    }
}

/// `Err`: it still has no room.
async fn refill(core: &Core, piece: &Lacking) -> Result<(), ()> {
    let Lacking { member, rows, sync } = piece;
    let _guard = core.lock(sync.clone(), Mode::Exclusive).await;
    let slot = {
        let members = core.members.borrow();
        let state = members.get(*member);
        let lacks = state.config.bad_blocks.iter().any(|bad| bad.start < rows.end && rows.start < bad.end);
        state.slot.filter(|&slot| lacks && members.slots()[slot].member == Some(*member))
    };
    let Some(slot) = slot else { return Ok(()) };
    let right = match core.geometry.level().parity_count() {
        0 => {
            let (copies, sectors) = core.geometry.copies_of(sync.start, sync.end - sync.start);
            read_any(core, &copies, sectors, &mut SmallVec::new()).await
        }
        _ => told_by_others(core, slot, rows).await,
    };
    let Some(right) = right else { return Ok(()) };
    let write = crate::core::write_io(*member, rows.start, right.freeze(), false);
    let wrote = core.io(std::iter::once(write).collect()).await;
    match wrote.into_iter().find_map(|(result, _)| result.err()) {
        Some(error) if is_no_room(&error) => {
            core.meet_no_room(*member, &error);
            Err(())
        }
        _ => Ok(()),
    }
}

/// What the other members of a parity array say of a slot's rows.
async fn told_by_others(core: &Core, slot: usize, rows: &Range<u64>) -> Option<Buffer> {
    let stripe = rows.start / core.geometry.strip_sectors();
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
    data.into_iter().for_each(|buffer| core.give_buffer(buffer));
    Some(all.swap_remove(parity).1)
}

/// Brings these bytes to a member if it does not hold them; if it cannot take them, they count as unreadable there.
async fn write_if_other(core: &Core, member: MemberId, rows: &Range<u64>, right: &Buffer) -> Result<(), IoError> {
    let read = core.io(std::iter::once(core.read_io(member, rows.start, rows.end - rows.start)).collect()).await;
    let holds = read.iter().any(|(result, operation)| {
        let stria_block::Operation::Read { into } = operation else { return false };
        result.is_ok() && into.first().is_some_and(|bytes| bytes[..] == right[..])
    });
    core.recycle(read);
    if holds {
        return Ok(());
    }
    let data = Buffer::copy_of(right).freeze();
    let write: MemberIo = crate::core::write_io(member, rows.start, data, false);
    for (result, _) in core.io(std::iter::once(write).collect()).await {
        match result {
            Ok(()) => {}
            Err(error) if is_no_room(&error) => half_written(core, member, rows.clone()).await?,
            Err(error) => {
                if !core.fail_member(member, &format!("write failed: {error}")) {
                    half_written(core, member, rows.clone()).await?;
                }
            }
        }
    }
    Ok(())
}
