//! Reports of other lanes to this one, and direct reads: reads of another lane's partition without asking its owner (R44).
//!
//! An owner publishes whether it allows them: redundancy is consistent, every slot has an in-sync member without bad blocks, no
//! sweep runs, and everything acknowledged is in place on the members. Then a read finds on a member what the owner would find,
//! which takes no lock for it either. The owner takes this back before it answers a client whose write makes it untrue; a read
//! before that answer may find old or new data. A member that one lane drops or replaces is dropped by all lanes before a write
//! that it missed is acknowledged ([`coordinator`](crate::lanes)), and no member is in sync before all lanes have rebuilt it
//! ([`peers`](crate::peers)).
//!
//! The owner is asked for data that a member cannot read or is slow to answer: it has the locks that recovering data needs.

use super::Engine;
use crate::core::{Core, FailedPart};
use crate::member::Slow;
use crate::sweep::take_slots;
use crate::{ArraySector, Family, Health, MemberId, MemberSector, Synced, hedge, parity};
use std::rc::Rc;
use stria_block::{Completion, ErrorKind, IoError, Operation, Request};

/// A member could not read a part of a direct read: the owner answers and corrects it.
pub(super) async fn correct_direct_read(core: Rc<Core>, part: FailedPart) {
    let read = core.ask_owner(part.array_sector, part.sectors, Slow::new()).await;
    part.deliver(&core, read);
}

impl Engine {
    /// Another lane of this array has dropped a member, and has reported why.
    pub(crate) fn dropped_elsewhere(&mut self, member: MemberId) {
        let known = self.core.members.borrow().count();
        if member.0 < known {
            self.core.drop_as_others_did(member);
        } else {
            self.core.peers.note_drop(member);
        }
    }

    /// The coordinator has given a spare a slot.
    pub(crate) fn assign_spare(&mut self, member: MemberId, slot: usize) {
        self.core.peers.assign(member, slot);
        self.core.sweep_changed.wake_all(&self.core.ready);
    }

    /// No lane needs the log records of the last run any more.
    pub(crate) fn all_replayed(&mut self) {
        self.core.peers.set_replayed();
        self.core.sweep_changed.wake_all(&self.core.ready);
    }

    /// The superblocks say that redundancy is consistent everywhere.
    pub(crate) fn all_resynced(&mut self) {
        self.core.peers.set_resynced();
    }

    pub(crate) fn knows_all_resynced(&self) -> bool {
        self.core.peers.is_resynced()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.core.health() == Health::Failed
    }

    /// Every lane has rebuilt its partition of a member: it takes its slot.
    pub(crate) fn all_rebuilt(&mut self, member: MemberId) {
        let Some((target, from_nothing)) = self.core.peers.rebuilt(member) else { return };
        let core = Rc::clone(&self.core);
        self.core.ready.spawn(async move {
            take_slots(&core, &[target], from_nothing).await;
            core.peers.forget_rebuilt(member);
            core.recorded(core.metadata.request_commit(&core.ready)).await;
            core.sweep_changed.wake_all(&core.ready);
            core.metadata.intent_waiters.wake_all(&core.ready);
        });
    }

    /// True if this lane may read other partitions directly: as far as it knows no member lacks anything.
    pub(crate) fn may_read_directly(&self) -> bool {
        let core = &self.core;
        let is_consistent = core.consistency.resync_from() == Synced::All && core.peers.is_resynced() && core.peers.is_replayed();
        let members = core.members.borrow();
        core.is_serving() && is_consistent && members.is_optimal() && !members.have_bad_blocks()
    }

    /// True if others may read this lane's partition directly, given [`Engine::may_read_directly`].
    pub(crate) fn allows_direct_reads(&self) -> bool {
        // Between a rebuild and the resync that follows, a lane may know this of its own partition only.
        let is_consistent = self.core.consistency.resync_from() == Synced::All;
        is_consistent && !self.is_sweeping() && !self.core.log.has_writes_not_in_place()
    }

    /// Does a direct read. Returns the request if its owner must do it after all.
    pub(crate) fn read_directly(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) -> Option<Request> {
        // A member may have been failed by command since the last iteration.
        if !self.core.members.borrow().is_optimal() || request.check(self.limits()).is_err() {
            return Some(request);
        }
        self.core.activity.note_request(self.core.now());
        match self.pass_on(&mut request) {
            Some(member) => send(member, request),
            None => self.read(request),
        }
        None
    }

    /// Does another lane's read without the first of these members.
    pub(crate) fn read_around(&mut self, mut request: Request, slow: Slow) {
        let core = Rc::clone(&self.core);
        let (array_sector, sectors) = (ArraySector::new(request.start_sector), request.sectors);
        let parent = core.begin(&mut request, 1);
        // On parity levels only parity is asked.
        let start_sector = match core.geometry.level().family() {
            Family::Parity => parity::place(&core, array_sector, sectors).1,
            Family::Striped | Family::Mirror => MemberSector::ZERO,
        };
        let Operation::Read { into } = request.operation else { unreachable!("only reads are asked for twice") };
        let error = IoError::new(ErrorKind::Failed, "only the member that is slow can tell");
        let part =
            FailedPart { parent, offset_sectors: 0, array_sector, member: Some(slow[0]), start_sector, sectors, into, error };
        core.ready.spawn(hedge::answer_around(Rc::clone(&core), part, slow));
    }

    /// An owner has answered [`Action::AskOwner`](crate::Action::AskOwner).
    pub(crate) fn owner_answered(&mut self, key: usize, completion: Completion) {
        self.core.peers.owner_reads.answer(&self.core.ready, key, completion);
    }
}
