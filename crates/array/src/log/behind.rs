//! Early acknowledgement: writes that clients were told of when their new data was logged, and that are not in place yet (R23
//! to R26).

use super::Numbers;
use crate::core::Core;
use crate::lists::few;
use crate::task::Waiters;
use crate::{MemberId, MemberState};
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
pub(crate) struct Behind {
    /// The end of each range of rows, by slot and first row.
    rows: RefCell<BTreeMap<(usize, u64), u64>>,
    numbers: RefCell<Numbers>,
    /// The log holders of each write-behind, by its number.
    log_holders: RefCell<BTreeMap<u64, LogHolders>>,
    sectors: Cell<u64>,
    /// A member that is about to be failed by command: no write is acknowledged early on the word of its log alone (R26).
    leaving: Cell<Option<MemberId>>,
    /// A write-behind has reached its place.
    changed: Waiters,
}

/// The in-sync parity members whose logs hold the records of a write.
pub(crate) type LogHolders = SmallVec<[MemberId; 4]>;

/// One write-behind; end it with [`Core::behind_end`].
pub(crate) struct BehindWrite {
    number: u64,
    sectors: u64,
}

impl Behind {
    /// True if there is any write-behind.
    pub fn is_any(&self) -> bool {
        self.sectors.get() > 0
    }

    /// True if any of these rows of a slot awaits a write-behind.
    #[inline]
    pub fn is_at(&self, slot: usize, rows: &Range<u64>) -> bool {
        self.is_any() && self.is_among(slot, rows)
    }

    // Not inlined, so that requests stay small where there is none.
    #[inline(never)]
    fn is_among(&self, slot: usize, rows: &Range<u64>) -> bool {
        // No two overlap, since writers lock their rows.
        let before = self.rows.borrow().range(..(slot, rows.end)).next_back().map(|(&(slot, _), &end)| (slot, end));
        before.is_some_and(|(other, end)| other == slot && rows.start < end)
    }

    /// True if a write of this size may be added, with so many requests under way.
    pub fn takes(&self, sectors: u64, requests: usize, volatile: impl FnOnce() -> bool) -> bool {
        self.sectors.get() + sectors <= SECTORS_MAX && (requests <= REQUESTS_MAX || volatile())
    }

    /// A write of these rows of slots is acknowledged early.
    pub fn begin(&self, places: impl Iterator<Item = (usize, Range<u64>)>, log_holders: LogHolders) -> BehindWrite {
        let mut rows = self.rows.borrow_mut();
        let mut sectors = 0;
        for (slot, range) in places {
            sectors += range.end - range.start;
            rows.insert((slot, range.start), range.end);
        }
        self.sectors.set(self.sectors.get() + sectors);
        let number = self.numbers.borrow_mut().begin();
        self.log_holders.borrow_mut().insert(number, log_holders);
        BehindWrite { number, sectors }
    }
}

impl Core {
    /// A write-behind has reached its place.
    pub fn behind_end(&self, write: BehindWrite, places: impl Iterator<Item = (usize, Range<u64>)>) {
        let behind = &self.log.behind;
        let mut rows = behind.rows.borrow_mut();
        for (slot, range) in places {
            rows.remove(&(slot, range.start));
        }
        drop(rows);
        behind.sectors.set(behind.sectors.get() - write.sectors);
        behind.numbers.borrow_mut().end(write.number);
        behind.log_holders.borrow_mut().remove(&write.number);
        behind.changed.wake_all(&self.ready);
    }

    /// The log holders among these slots: members whose records would count after a crash. Rebuilding members are not among
    /// them (R23).
    pub fn log_holders(&self, slots: impl Iterator<Item = usize>) -> LogHolders {
        let members = self.members.borrow();
        let holders = slots.filter_map(|slot| members.slots()[slot].member);
        few(holders.filter(|&member| members.get(member).role == MemberState::InSync))
    }

    /// True if a write that these members log may be acknowledged now, because the records would count after a crash (R23): a
    /// rebuilt member is in sync only after a superblock update, and logs count only after the update that ends the first
    /// resync.
    pub fn may_acknowledge_early(&self, log_holders: &LogHolders) -> bool {
        let resynced = self.resync_sector.get() == u64::MAX && self.peers.is_resynced();
        let has_room = self.no_space.has_places(self.now());
        self.is_committed() && resynced && has_room && !self.are_gone_but(log_holders, self.log.behind.leaving.get())
    }

    /// True if all of these members were dropped.
    pub fn are_gone(&self, log_holders: &LogHolders) -> bool {
        self.are_gone_but(log_holders, None)
    }

    fn are_gone_but(&self, log_holders: &LogHolders, one: Option<MemberId>) -> bool {
        let members = self.members.borrow();
        log_holders.iter().all(|&keeper| Some(keeper) == one || members.get(keeper).role == MemberState::Failed)
    }

    /// No new write may rely on this member's log alone (R26).
    pub fn stop_relying_on(&self, member: Option<MemberId>) {
        self.log.behind.leaving.set(member);
    }

    /// True if this member is the only log holder left of some write-behind.
    pub fn is_sole_log_holder(&self, member: MemberId) -> bool {
        self.log.behind.log_holders.borrow().values().any(|log_holders| self.are_gone_but(log_holders, Some(member)))
    }

    /// Waits until write-behinds are in place whose log holders were all dropped. Once the drop is durable, nobody asks these
    /// logs again (R25).
    pub async fn wait_for_orphaned_writes(&self) {
        let behind = &self.log.behind;
        let settled = || !behind.log_holders.borrow().values().any(|log_holders| self.are_gone(log_holders));
        self.ready.until(&behind.changed, settled).await;
    }

    /// Waits until every present write-behind is in place (R24).
    pub async fn wait_for_write_behind(&self) {
        let behind = &self.log.behind;
        let next = behind.numbers.borrow().next();
        self.ready.until(&behind.changed, || behind.numbers.borrow().first >= next).await;
    }
}
