//! Reads of another lane's share, without asking it.
//!
//! An owner says whether its share is **plain**: redundancy agrees, every role has a whole member without bad blocks, nothing is
//! swept, and all that clients were told lies on the members. Then what a read finds on a member is what the owner would find,
//! which holds no lock for that either. It takes the word back before it answers a client whose write makes it untrue; and who
//! read before that answer may find old or new. A member that one lane drops, or replaces, is dropped by all before any client hears
//! of a write that went past it ([`registrar`](super::registrar)), and none is whole before all have filled it
//! ([`follow`](super::follow)).
//!
//! What a member cannot read, or is slow to, the owner is asked for: it has the locks to rebuild it.

use crate::core::{Action, Core, FailedPart};
use crate::task::Waiters;
use crate::{Engine, MemberId, hedge};
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;
use stria_block::{Buffer, Completion, ErrorKind, IoError, Operation, Request};

/// Reads that owners were asked for.
#[derive(Default)]
pub(crate) struct Asked {
    /// The answers, as they come.
    answers: RefCell<Slab<Option<Completion>>>,
    changed: Waiters,
}

impl Core {
    /// Whether an array sector is another lane's.
    pub fn is_foreign(&self, array_sector: u64) -> bool {
        self.share.lane_count > 1 && self.share.lane_of(array_sector).0 != self.share.lane
    }

    /// What the owner reads there, of others than a member that is slow. `None`: it cannot.
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

/// A member could not read a guest's part: the owner answers, and mends it.
pub(crate) async fn mend_part(core: Rc<Core>, part: FailedPart) {
    let read = core.ask_owner(part.array_sector, part.sectors, None).await;
    part.deliver(&core, read);
}

impl Engine {
    /// Whether this lane may read of others' shares: it knows of nothing that some member lacks.
    pub(crate) fn is_calm(&self) -> bool {
        let core = &self.core;
        let agrees = core.resync_from() == u64::MAX && core.following.all_resynced.get() && core.following.is_replayed();
        let members = core.members.borrow();
        core.serves() && agrees && members.whole() && !members.have_bad_blocks()
    }

    /// Whether others may read of a calm lane's share.
    pub(crate) fn is_plain(&self) -> bool {
        // A calm lane may know this of its own share only, between a rebuild and the resync that follows.
        let agrees = self.core.resync_from() == u64::MAX;
        agrees && !self.is_sweeping() && !self.core.log.is_aside_anywhere()
    }

    /// Does a read of another's plain share. It comes back if it is for its owner after all.
    pub(crate) fn read_as_guest(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) -> Option<Request> {
        // Since the last turn somebody may have been failed on command.
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

    /// Does another lane's read without a member that is slow to it.
    pub(crate) fn read_around(&mut self, mut request: Request, member: MemberId) {
        let core = Rc::clone(&self.core);
        let (array_sector, sectors) = (request.start_sector, request.sectors);
        let parent = core.begin(&mut request, 1);
        // Of rows parity alone is asked.
        let start_sector = if core.code.is_some() { self.place(array_sector, sectors).1 } else { 0 };
        let Operation::Read { into } = request.operation else { unreachable!("only reads are asked for twice") };
        let error = IoError::new(ErrorKind::Failed, "only the member that is slow can tell");
        let part = FailedPart { parent, offset_sectors: 0, array_sector, member, start_sector, sectors, into, error };
        core.ready.spawn(hedge::answer_around(Rc::clone(&core), part));
    }

    /// An owner has answered [`Action::AskOwner`].
    pub(crate) fn owner_answered(&mut self, key: usize, completion: Completion) {
        self.core.asked.answers.borrow_mut()[key] = Some(completion);
        self.core.asked.changed.wake_all(&self.core.ready);
    }
}
