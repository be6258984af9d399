//! Direct reads: reads of another lane's partition without asking its owner (R44).
//!
//! An owner publishes whether it allows them: redundancy is consistent, every slot has an in-sync member without bad blocks, no
//! sweep runs, and everything acknowledged is in place on the members. Then a read finds on a member what the owner would find,
//! which takes no lock for it either. The owner takes this back before it answers a client whose write makes it untrue; a read
//! before that answer may find old or new data. A member that one lane drops or replaces is dropped by all lanes before any
//! client hears of a write that it missed ([`coordinator`](super::coordinator)), and no member is in sync before all lanes have
//! rebuilt it ([`follow`](super::follow)).
//!
//! What a member cannot read, or is slow to answer, the owner is asked for: it has the locks that recovering data needs.

use crate::core::{Action, Core, FailedPart};
use crate::task::Waiters;
use crate::{Engine, MemberId, hedge, parity};
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;
use stria_block::{Buffer, Completion, ErrorKind, IoError, Operation, Request};

/// Reads that owners were asked for.
#[derive(Default)]
pub(crate) struct Asked {
    /// The answers, as they arrive.
    answers: RefCell<Slab<Option<Completion>>>,
    changed: Waiters,
}

impl Core {
    /// True if another lane owns an array sector.
    pub fn is_foreign(&self, array_sector: u64) -> bool {
        self.partition.lane_count > 1 && self.partition.lane_of(array_sector).0 != self.partition.lane
    }

    /// Asks the owner to read a range, without a member that is slow. Returns `None` if it cannot.
    pub async fn ask_owner(&self, start_sector: u64, sectors: u64, slow: Option<MemberId>) -> Option<Buffer> {
        let into = std::iter::once(self.take_buffer(sectors)).collect();
        let key = self.asked.answers.borrow_mut().insert(None);
        let request = Request { tag: key as u64, start_sector, sectors, operation: Operation::Read { into } };
        self.outbox.borrow_mut().push_back(Action::AskOwner { request, slow });
        self.ready.until(&self.asked.changed, || self.asked.answers.borrow()[key].is_some()).await;
        let Completion { result, operation, .. } = self.asked.answers.borrow_mut().remove(key).expect("it is there");
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let buffer = into.into_iter().next().expect("one buffer was given");
        if result.is_err() {
            self.give_buffer(buffer);
            return None;
        }
        Some(buffer)
    }
}

/// A member could not read a part of a direct read: the owner answers and corrects it.
pub(crate) async fn correct_part(core: Rc<Core>, part: FailedPart) {
    let read = core.ask_owner(part.array_sector, part.sectors, None).await;
    part.deliver(&core, read);
}

impl Engine {
    /// True if this lane may read other partitions directly: it knows of nothing that some member lacks.
    pub(crate) fn may_read_directly(&self) -> bool {
        let core = &self.core;
        let is_consistent = core.resync_from() == u64::MAX && core.following.all_resynced.get() && core.following.is_replayed();
        let members = core.members.borrow();
        core.serves() && is_consistent && members.whole() && !members.have_bad_blocks()
    }

    /// True if others may read this lane's partition directly, given [`Engine::may_read_directly`].
    pub(crate) fn allows_direct_reads(&self) -> bool {
        // Between a rebuild and the resync that follows, a lane may know this of its own partition only.
        let is_consistent = self.core.resync_from() == u64::MAX;
        is_consistent && !self.is_sweeping() && !self.core.log.has_writes_not_in_place()
    }

    /// Does a direct read. Returns the request if its owner must do it after all.
    pub(crate) fn read_directly(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) -> Option<Request> {
        // Since the last iteration a member may have been failed by command.
        if !self.core.members.borrow().whole() || request.check(self.limits()).is_err() {
            return Some(request);
        }
        self.core.last_client.set(self.core.now());
        match self.pass_on(&mut request) {
            Some(member) => send(member, request),
            None => self.read(request),
        }
        None
    }

    /// Does another lane's read without a member that is slow.
    pub(crate) fn read_around(&mut self, mut request: Request, member: MemberId) {
        let core = Rc::clone(&self.core);
        let (array_sector, sectors) = (request.start_sector, request.sectors);
        let parent = core.begin(&mut request, 1);
        // On parity levels only parity is asked.
        let start_sector = if core.code.is_some() { parity::place(&core, array_sector, sectors).1 } else { 0 };
        let Operation::Read { into } = request.operation else { unreachable!("only reads are asked for twice") };
        let error = IoError::new(ErrorKind::Failed, "only the member that is slow can tell");
        let part =
            FailedPart { parent, offset_sectors: 0, array_sector, member: Some(member), start_sector, sectors, into, error };
        core.ready.spawn(hedge::answer_around(Rc::clone(&core), part, member));
    }

    /// An owner has answered [`Action::AskOwner`].
    pub(crate) fn owner_answered(&mut self, key: usize, completion: Completion) {
        self.core.asked.answers.borrow_mut()[key] = Some(completion);
        self.core.asked.changed.wake_all(&self.core.ready);
    }
}
