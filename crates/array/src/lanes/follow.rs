//! What the lanes of an array decide together: which member fills which slot, and from when on.
//!
//! Each engine drops members by itself, and hears of those that others dropped. Every other change of slots begins on the
//! coordinator. A rebuilding member is in sync when every lane has rebuilt its partition of it (R43).

use super::Partition;
use crate::core::{Action, Core};
use crate::sweep::take_over;
use crate::window::Fill;
use crate::{ArrayConfig, Engine, MemberId, MemberState};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What an engine knows of the other lanes.
pub(crate) struct PeerState {
    /// Spares that the coordinator gave a slot, and the slot.
    assigned: RefCell<Vec<(MemberId, usize)>>,
    /// Members that others dropped before this lane was told of them.
    dropped: RefCell<BTreeSet<MemberId>>,
    /// Members whose partition here is rebuilt while others still rebuild theirs, and whether from the start.
    filled: RefCell<BTreeMap<MemberId, (Fill, bool)>>,
    /// No lane needs the log records of the last run any more.
    all_replayed: Cell<bool>,
    /// The superblocks say that redundancy is consistent everywhere, so the log counts after a crash (R23).
    pub all_resynced: Cell<bool>,
}

impl PeerState {
    /// True if every lane has replayed what a crash left.
    pub fn is_replayed(&self) -> bool {
        self.all_replayed.get()
    }

    /// As it is at the start.
    pub fn new(config: &ArrayConfig, partition: Partition) -> Self {
        let alone = partition.lane_count == 1;
        Self {
            assigned: RefCell::default(),
            dropped: RefCell::default(),
            filled: RefCell::default(),
            all_replayed: Cell::new(alone || config.replay.is_empty()),
            all_resynced: Cell::new(alone || config.resync_sector == u64::MAX),
        }
    }
}

impl Core {
    /// Reports that this lane no longer needs the log records of the last run, and waits until no lane does. A drop may become
    /// durable meanwhile, for which other lanes may have to wait first. Returns whether the array may be written to.
    pub(crate) async fn all_replayed(&self) -> bool {
        if !self.following.all_replayed.get() {
            self.outbox.borrow_mut().push_back(Action::Replayed);
            let all = || self.following.all_replayed.get() || self.read_only.get();
            self.ready.until(&self.sweep_changed, all).await;
        }
        self.following.all_replayed.get()
    }

    /// A spare that is to take a slot now, and the slot.
    pub(crate) fn take_spare(&self) -> Option<(MemberId, usize)> {
        let mut members = self.members.borrow_mut();
        if self.partition.lane == 0 {
            let taken = members.take_spare()?;
            if self.partition.lane_count > 1 {
                self.outbox.borrow_mut().push_back(Action::SpareTaken { member: taken.0, slot: taken.1 });
            }
            return Some(taken);
        }
        // The spare, or that the slot is empty, may not be known here yet.
        let mut assigned = self.following.assigned.borrow_mut();
        let count = members.count();
        assigned.retain(|&(member, _)| member.0 >= count || members.get(member).role != MemberState::Failed);
        let next = assigned.iter().position(|&(member, slot)| member.0 < count && members.assign(member, slot))?;
        Some(assigned.remove(next))
    }

    /// True if other lanes still rebuild their partition of a member.
    pub(crate) fn waits_for_others(&self, member: MemberId) -> bool {
        self.following.filled.borrow().contains_key(&member)
    }

    /// This lane's partition of a member is rebuilt. Returns `true` if so is the member.
    pub(crate) fn share_filled(&self, fills: &[Fill], from_start: bool) -> bool {
        if self.partition.lane_count == 1 {
            return true;
        }
        let alive = |fill: &&Fill| self.members.borrow().get(fill.member).role != MemberState::Failed;
        for fill in fills.iter().filter(alive) {
            self.following.filled.borrow_mut().insert(fill.member, (*fill, from_start));
            self.outbox.borrow_mut().push_back(Action::Filled(fill.member));
        }
        false
    }

    /// A member was added of which other lanes may know more.
    pub(crate) fn catch_up_on(&self, member: MemberId) {
        if self.following.dropped.borrow_mut().remove(&member) {
            self.drop_as_others_did(member);
        }
    }

    /// Also if it cannot be spared: if two lanes dropped one member each and only one could be, the array has failed.
    fn drop_as_others_did(&self, member: MemberId) {
        if self.members.borrow().get(member).role != MemberState::Failed {
            self.drop_member(member, None);
        }
    }
}

impl Engine {
    /// Another lane of this array has dropped a member, and has reported why.
    pub(crate) fn dropped_elsewhere(&mut self, member: MemberId) {
        let known = self.core.members.borrow().count();
        if member.0 < known {
            self.core.drop_as_others_did(member);
        } else {
            self.core.following.dropped.borrow_mut().insert(member);
        }
    }

    /// The coordinator has given a spare a slot.
    pub(crate) fn assign_spare(&mut self, member: MemberId, slot: usize) {
        self.core.following.assigned.borrow_mut().push((member, slot));
        self.core.sweep_changed.wake_all(&self.core.ready);
    }

    /// No lane needs the log records of the last run any more.
    pub(crate) fn all_replayed(&mut self) {
        self.core.following.all_replayed.set(true);
        self.core.sweep_changed.wake_all(&self.core.ready);
    }

    /// The superblocks say that redundancy is consistent everywhere.
    pub(crate) fn all_resynced(&mut self) {
        self.core.following.all_resynced.set(true);
    }

    pub(crate) fn knows_all_resynced(&self) -> bool {
        self.core.following.all_resynced.get()
    }

    /// Every lane has rebuilt its partition of a member: it takes its slot.
    pub(crate) fn all_filled(&mut self, member: MemberId) {
        let Some((fill, from_start)) = self.core.following.filled.borrow().get(&member).copied() else { return };
        let core = Rc::clone(&self.core);
        self.core.ready.spawn(async move {
            take_over(&core, &[fill], from_start).await;
            core.following.filled.borrow_mut().remove(&member);
            core.recorded(core.request_commit()).await;
            core.sweep_changed.wake_all(&core.ready);
            core.record.intent_waiters.wake_all(&core.ready);
        });
    }
}
