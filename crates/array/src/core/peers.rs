//! The services of this lane for the others, and its requests to them.

use super::Core;
use crate::action::Action;
use crate::member::{RebuildTarget, Slow};
use crate::{ArraySector, MemberId, MemberState};
use stria_block::{Buffer, Completion, Operation, Request};

impl Core {
    /// Reports that this lane no longer needs the log records of the last run, and waits until no lane does. A drop may become
    /// durable meanwhile, for which other lanes may have to wait first. Returns whether the array may be written to.
    pub async fn all_replayed(&self) -> bool {
        if !self.peers.is_replayed() {
            self.outbox.push(Action::Replayed);
            let all = || self.peers.is_replayed() || self.run.is_read_only();
            self.ready.until(&self.sweep_changed, all).await;
        }
        self.peers.is_replayed()
    }

    /// True if there is a spare that is to take a slot now.
    pub fn wants_spare(&self) -> bool {
        let members = self.members.borrow();
        if self.partition.lane > 0 { self.peers.has_assigned(&members) } else { members.wants_spare() }
    }

    /// A spare that is to take a slot now, and the slot.
    pub fn take_spare(&self) -> Option<(MemberId, usize)> {
        let mut members = self.members.borrow_mut();
        if self.partition.lane > 0 {
            return self.peers.take_assigned(&mut members);
        }
        let taken = members.take_spare()?;
        if self.partition.lane_count > 1 {
            self.outbox.push(Action::SpareTaken { member: taken.0, slot: taken.1 });
        }
        Some(taken)
    }

    /// This lane's partition of each target is rebuilt. Returns true if that is all of the array.
    pub fn report_rebuilt(&self, targets: &[RebuildTarget], from_nothing: bool) -> bool {
        if self.partition.lane_count == 1 {
            return true;
        }
        let alive = |target: &&RebuildTarget| self.members.borrow().get(target.member).state != MemberState::Failed;
        for target in targets.iter().filter(alive) {
            self.peers.note_rebuilt(*target, from_nothing);
            self.outbox.push(Action::Rebuilt(target.member));
        }
        false
    }

    /// A member was added. If another lane has dropped it already, so does this one.
    pub fn catch_up_on(&self, member: MemberId) {
        if self.peers.take_drop(member) {
            self.drop_as_others_did(member);
        }
    }

    /// Drops a member that another lane has dropped, even if it cannot be spared: if two lanes dropped one each and only one
    /// could be spared, the array has failed.
    pub fn drop_as_others_did(&self, member: MemberId) {
        if self.members.borrow().get(member).state != MemberState::Failed {
            self.drop_member(member, None);
        }
    }

    /// Asks the owner to read a range, without the first of these members if there are any. Returns `None` if it cannot.
    pub async fn ask_owner(&self, start: ArraySector, sectors: u64, slow: Slow) -> Option<Buffer> {
        let into = std::iter::once(self.buffers.take(sectors)).collect();
        let key = self.peers.owner_reads.begin();
        let request = Request { tag: key as u64, start_sector: start.get(), sectors, operation: Operation::Read { into } };
        self.outbox.push(Action::AskOwner { request, slow });
        let Completion { result, operation, .. } = self.peers.owner_reads.answered(&self.ready, key).await;
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let buffer = into.into_iter().next().expect("one buffer was given");
        if result.is_err() {
            self.buffers.give(buffer);
            return None;
        }
        Some(buffer)
    }
}
