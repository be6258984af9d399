//! Writes that were acknowledged when their records were kept, and are on their way to their places.

use super::Numbers;
use crate::core::Core;
use crate::lists::few;
use crate::task::Waiters;
use crate::{MemberId, MemberRole};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

/// 8 MiB: how much may be on its way at once, so that memory and flushes stay bounded.
const SECTORS_MAX: u64 = 1 << 14;

/// 16: with more requests under way it is throughput that counts, not latency, and new bytes in the log cost some; but on
/// members with a volatile cache, which are waited for as long as a flush takes.
const REQUESTS_MAX: usize = 16;

/// Where they go, and who waits for them.
#[derive(Default)]
pub(crate) struct Behind {
    /// By slot and first row: the end.
    rows: RefCell<BTreeMap<(usize, u64), u64>>,
    numbers: RefCell<Numbers>,
    /// Whose logs have the records of each, by number.
    keepers: RefCell<BTreeMap<u64, Keepers>>,
    sectors: Cell<u64>,
    /// Who is about to be failed: nothing more is left to its log alone.
    leaving: Cell<Option<MemberId>>,
    /// Something is down.
    changed: Waiters,
}

/// Members whose logs have the records of a write.
pub(crate) type Keepers = SmallVec<[MemberId; 4]>;

/// One of them; to be ended with [`Core::behind_end`].
pub(crate) struct BehindWrite {
    number: u64,
    sectors: u64,
}

impl Behind {
    /// Whether any write is still on its way.
    pub fn is_any(&self) -> bool {
        self.sectors.get() > 0
    }

    /// Whether any of these rows of a slot is still on its way.
    pub fn is_at(&self, slot: usize, rows: &Range<u64>) -> bool {
        if self.sectors.get() == 0 {
            return false;
        }
        // None overlaps another, as writers hold their rows alone.
        let before = self.rows.borrow().range(..(slot, rows.end)).next_back().map(|(&(slot, _), &end)| (slot, end));
        before.is_some_and(|(other, end)| other == slot && rows.start < end)
    }

    /// Whether a write of so many sectors may join them, with so many requests under way.
    pub fn takes(&self, sectors: u64, requests: usize, volatile: impl FnOnce() -> bool) -> bool {
        self.sectors.get() + sectors <= SECTORS_MAX && (requests <= REQUESTS_MAX || volatile())
    }

    /// A write of these rows of slots is acknowledged.
    pub fn begin(&self, places: impl Iterator<Item = (usize, Range<u64>)>, keepers: Keepers) -> BehindWrite {
        let mut rows = self.rows.borrow_mut();
        let mut sectors = 0;
        for (slot, range) in places {
            sectors += range.end - range.start;
            rows.insert((slot, range.start), range.end);
        }
        self.sectors.set(self.sectors.get() + sectors);
        let number = self.numbers.borrow_mut().begin();
        self.keepers.borrow_mut().insert(number, keepers);
        BehindWrite { number, sectors }
    }
}

impl Core {
    /// A write that was acknowledged early is down.
    pub fn behind_end(&self, write: BehindWrite, places: impl Iterator<Item = (usize, Range<u64>)>) {
        let behind = &self.log.behind;
        let mut rows = behind.rows.borrow_mut();
        for (slot, range) in places {
            rows.remove(&(slot, range.start));
        }
        drop(rows);
        behind.sectors.set(behind.sectors.get() - write.sectors);
        behind.numbers.borrow_mut().end(write.number);
        behind.keepers.borrow_mut().remove(&write.number);
        behind.changed.wake_all(&self.ready);
    }

    /// Who of these slots keeps records that count after a crash; who is being filled does not yet.
    pub fn keepers(&self, slots: impl Iterator<Item = usize>) -> Keepers {
        let members = self.members.borrow();
        let holders = slots.filter_map(|slot| members.slots()[slot].member);
        few(holders.filter(|&member| members.get(member).role == MemberRole::InSync))
    }

    /// Whether a write may be acknowledged whose records these members keep: whether they count after a crash. Who has just been
    /// filled is not in sync before the record that says so, nor is a log replayed before the one that says that all is.
    pub fn may_go_behind(&self, keepers: &Keepers) -> bool {
        let resynced = self.resync_sector.get() == u64::MAX && self.following.all_resynced.get();
        let has_room = !self.no_room.is_careful(self.now());
        self.is_recorded() && resynced && has_room && !self.are_gone_but(keepers, self.log.behind.leaving.get())
    }

    /// Whether all of these members were dropped.
    pub fn are_gone(&self, keepers: &Keepers) -> bool {
        self.are_gone_but(keepers, None)
    }

    fn are_gone_but(&self, keepers: &Keepers, one: Option<MemberId>) -> bool {
        let members = self.members.borrow();
        keepers.iter().all(|&keeper| Some(keeper) == one || members.get(keeper).role == MemberRole::Failed)
    }

    /// Sees to it that soon nothing is left to this member's log alone.
    pub fn lean_no_more_on(&self, member: Option<MemberId>) {
        self.log.behind.leaving.set(member);
    }

    /// Whether nobody but this member keeps something that was acknowledged and is still on its way.
    pub fn leans_on(&self, member: MemberId) -> bool {
        self.log.behind.keepers.borrow().values().any(|keepers| self.are_gone_but(keepers, Some(member)))
    }

    /// Waits until what was acknowledged is down, where its records went with members that are dropped: once these are known
    /// as such, nobody asks them any more.
    pub async fn orphans_settled(&self) {
        let behind = &self.log.behind;
        let settled = || !behind.keepers.borrow().values().any(|keepers| self.are_gone(keepers));
        self.ready.until(&behind.changed, settled).await;
    }

    /// Waits until all that is acknowledged now is down.
    pub async fn behind_settled(&self) {
        let behind = &self.log.behind;
        let next = behind.numbers.borrow().next();
        self.ready.until(&behind.changed, || behind.numbers.borrow().first >= next).await;
    }
}
