//! The knowledge of one lane's engine about the others: which member fills which slot, and from when on.
//!
//! Each engine drops members by itself, and those that other lanes report as dropped. Every other change of slots begins on the
//! coordinator. A rebuilding member is in sync when every lane has rebuilt its partition of it (R43).

use crate::member::{Members, RebuildTarget};
use crate::partition::Partition;
use crate::task::{Ready, Waiters};
use crate::{ArrayConfig, MemberId, MemberState, Synced};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use stria_block::Completion;

/// The knowledge of an engine about the other lanes.
pub(crate) struct Peers {
    /// Spares that the coordinator gave a slot, and the slot.
    assigned: RefCell<Vec<(MemberId, usize)>>,
    /// Members that others dropped before this lane knew them.
    dropped: RefCell<BTreeSet<MemberId>>,
    /// Members whose partition here is rebuilt while others still rebuild theirs, and whether from the start.
    rebuilt: RefCell<BTreeMap<MemberId, (RebuildTarget, bool)>>,
    is_replayed: Cell<bool>,
    is_resynced: Cell<bool>,
    /// Direct reads that need their owner after all.
    pub owner_reads: OwnerReads,
}

impl Peers {
    /// As it is at the start.
    pub fn new(config: &ArrayConfig, partition: Partition) -> Self {
        let alone = partition.lane_count == 1;
        Self {
            assigned: RefCell::default(),
            dropped: RefCell::default(),
            rebuilt: RefCell::default(),
            is_replayed: Cell::new(alone || config.replay.is_empty()),
            is_resynced: Cell::new(alone || config.synced == Synced::All),
            owner_reads: OwnerReads::default(),
        }
    }

    /// True if no lane needs the log records of the last run any more.
    pub fn is_replayed(&self) -> bool {
        self.is_replayed.get()
    }

    pub fn set_replayed(&self) {
        self.is_replayed.set(true);
    }

    /// True if the superblocks say that redundancy is consistent everywhere, so the log counts after a crash (R23).
    pub fn is_resynced(&self) -> bool {
        self.is_resynced.get()
    }

    pub fn set_resynced(&self) {
        self.is_resynced.set(true);
    }

    /// The coordinator has given a spare a slot.
    pub fn assign(&self, member: MemberId, slot: usize) {
        self.assigned.borrow_mut().push((member, slot));
    }

    /// True if there is a spare that [`Peers::take_assigned`] would give a slot.
    pub fn has_assigned(&self, members: &Members) -> bool {
        let may_take = |&(member, slot): &(MemberId, usize)| member.0 < members.count() && members.may_assign(member, slot);
        self.assigned.borrow().iter().any(may_take)
    }

    /// Gives a spare its slot, if the coordinator gave one. The spare, or that the slot is empty, may not be known here yet.
    pub fn take_assigned(&self, members: &mut Members) -> Option<(MemberId, usize)> {
        let mut assigned = self.assigned.borrow_mut();
        let count = members.count();
        assigned.retain(|&(member, _)| member.0 >= count || members.get(member).state != MemberState::Failed);
        let next = assigned.iter().position(|&(member, slot)| member.0 < count && members.assign(member, slot))?;
        Some(assigned.remove(next))
    }

    /// Another lane has dropped a member that is not known here yet.
    pub fn note_drop(&self, member: MemberId) {
        self.dropped.borrow_mut().insert(member);
    }

    /// A member was added. Returns whether another lane has dropped it meanwhile.
    pub fn take_drop(&self, member: MemberId) -> bool {
        self.dropped.borrow_mut().remove(&member)
    }

    /// This lane's partition of a member is rebuilt.
    pub fn note_rebuilt(&self, target: RebuildTarget, from_nothing: bool) {
        self.rebuilt.borrow_mut().insert(target.member, (target, from_nothing));
    }

    /// What [`Peers::note_rebuilt`] was given, while other lanes still rebuild their partition of the member.
    pub fn rebuilt(&self, member: MemberId) -> Option<(RebuildTarget, bool)> {
        self.rebuilt.borrow().get(&member).copied()
    }

    /// The member is in sync.
    pub fn forget_rebuilt(&self, member: MemberId) {
        self.rebuilt.borrow_mut().remove(&member);
    }
}

/// Reads that other partitions' owners were asked for.
#[derive(Default)]
pub(crate) struct OwnerReads {
    /// The answers, as they arrive.
    answers: RefCell<Slab<Option<Completion>>>,
    changed: Waiters,
}

impl OwnerReads {
    /// Begins one. Returns its key.
    pub fn begin(&self) -> usize {
        self.answers.borrow_mut().insert(None)
    }

    /// The owner has answered.
    pub fn answer(&self, ready: &Ready, key: usize, completion: Completion) {
        self.answers.borrow_mut()[key] = Some(completion);
        self.changed.wake_all(ready);
    }

    /// Waits for the answer.
    pub async fn answered(&self, ready: &Ready, key: usize) -> Completion {
        ready.until(&self.changed, || self.answers.borrow()[key].is_some()).await;
        self.answers.borrow_mut().remove(key).expect("it is there")
    }
}
