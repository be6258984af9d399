//! Early acknowledgement: writes that were acknowledged once their new data was logged, and that are not in place yet (R23 to
//! R26).

use super::Numbers;
use crate::address::Sectors;
use crate::member::Members;
use crate::task::{Ready, Waiters};
use crate::{MemberId, MemberSector};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

/// 8 MiB: the most that may be write-behind at once, to bound memory and flushes.
const SECTORS_MAX: u64 = 1 << 14;

/// 16: with more requests under way throughput counts for more than latency, and logging new data costs some of it. On members
/// with a volatile cache there is no such limit: waiting for them takes as long as a flush.
const REQUESTS_MAX: usize = 16;

/// All write-behinds, and what waits for them.
#[derive(Default)]
pub(crate) struct WriteBehind {
    /// The end of each range of rows, by slot and first row.
    rows: RefCell<BTreeMap<(usize, MemberSector), MemberSector>>,
    numbers: RefCell<Numbers>,
    /// The log holders of each write-behind, by its number.
    log_holders: RefCell<BTreeMap<u64, LogHolders>>,
    sectors: Cell<u64>,
    /// A member that is about to be failed by command: no write is acknowledged early with it as sole log holder (R26).
    leaving: Cell<Option<MemberId>>,
    /// A write-behind has reached its place.
    changed: Waiters,
}

/// The in-sync parity members whose logs hold the records of a write.
pub(crate) type LogHolders = SmallVec<[MemberId; 4]>;

/// One write-behind; end it with [`WriteBehind::end`].
pub(crate) struct BehindWrite {
    number: u64,
    sectors: u64,
}

impl WriteBehind {
    /// True if there is any write-behind.
    pub fn is_any(&self) -> bool {
        self.sectors.get() > 0
    }

    /// True if any of these rows of a slot awaits a write-behind.
    #[inline]
    pub fn is_at(&self, slot: usize, rows: &Range<MemberSector>) -> bool {
        self.is_any() && self.is_among(slot, rows)
    }

    // Not inlined, so that requests stay small where there is none.
    #[inline(never)]
    fn is_among(&self, slot: usize, rows: &Range<MemberSector>) -> bool {
        // No two overlap, since writers lock their rows.
        let before = self.rows.borrow().range(..(slot, rows.end)).next_back().map(|(&(slot, _), &end)| (slot, end));
        before.is_some_and(|(other, end)| other == slot && rows.start < end)
    }

    /// True if a write of this size may be added, with so many requests under way.
    pub fn takes(&self, sectors: u64, requests: usize, volatile: impl FnOnce() -> bool) -> bool {
        self.sectors.get() + sectors <= SECTORS_MAX && (requests <= REQUESTS_MAX || volatile())
    }

    /// A write of these rows of slots is acknowledged early.
    pub fn begin(&self, places: impl Iterator<Item = (usize, Range<MemberSector>)>, log_holders: LogHolders) -> BehindWrite {
        let mut rows = self.rows.borrow_mut();
        let mut sectors = 0;
        for (slot, range) in places {
            sectors += range.sectors();
            rows.insert((slot, range.start), range.end);
        }
        self.sectors.set(self.sectors.get() + sectors);
        let number = self.numbers.borrow_mut().begin();
        self.log_holders.borrow_mut().insert(number, log_holders);
        BehindWrite { number, sectors }
    }

    /// A write-behind has reached its place.
    pub fn end(&self, ready: &Ready, write: BehindWrite, places: impl Iterator<Item = (usize, Range<MemberSector>)>) {
        let mut rows = self.rows.borrow_mut();
        for (slot, range) in places {
            rows.remove(&(slot, range.start));
        }
        drop(rows);
        self.sectors.set(self.sectors.get() - write.sectors);
        self.numbers.borrow_mut().end(write.number);
        self.log_holders.borrow_mut().remove(&write.number);
        self.changed.wake_all(ready);
    }

    /// No new write may rely on this member's log alone (R26).
    pub fn stop_relying_on(&self, member: Option<MemberId>) {
        self.leaving.set(member);
    }

    /// True if a write may rely on these members' logs: one stays that is not about to be failed.
    pub fn may_rely_on(&self, log_holders: &LogHolders, members: &Members) -> bool {
        !members.are_gone_but(log_holders, self.leaving.get())
    }

    /// True if this member is the only log holder left of some write-behind.
    pub fn is_sole_log_holder(&self, member: MemberId, members: &Members) -> bool {
        self.log_holders.borrow().values().any(|log_holders| members.are_gone_but(log_holders, Some(member)))
    }

    /// Waits until write-behinds are in place whose log holders were all dropped. Once the drop is durable, these logs do not
    /// count any more (R25).
    pub async fn wait_for_orphans(&self, ready: &Ready, members: &RefCell<Members>) {
        let is_orphan = |log_holders: &LogHolders| members.borrow().are_gone(log_holders);
        ready.until(&self.changed, || !self.log_holders.borrow().values().any(is_orphan)).await;
    }

    /// Waits until every present write-behind is in place (R24).
    pub async fn wait_for_present(&self, ready: &Ready) {
        let next = self.numbers.borrow().next();
        ready.until(&self.changed, || self.numbers.borrow().first >= next).await;
    }
}
