//! Requests to members under way: what waits for each, and the batches that tasks wait for.

use crate::task::{Ready, TaskId};
use crate::{ArraySector, MemberId, MemberSector};
use slab::Slab;
use smallvec::{SmallVec, smallvec};
use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use stria_block::{Completion, Data, IoError, Nanos, Operation, SECTOR_BYTES, Segments, Tag};

/// One member request of a task.
pub(crate) struct MemberIo {
    pub member: MemberId,
    pub start_sector: MemberSector,
    pub sectors: u64,
    pub operation: Operation,
}

pub(crate) type Outcome = (Result<(), IoError>, Operation);
/// Few inline: batches live in tasks, and a task is moved to the heap as one piece.
pub(crate) type Batch = SmallVec<[MemberIo; 4]>;
pub(crate) type Outcomes = SmallVec<[Outcome; 4]>;

/// A member request that has ended.
pub(crate) struct Ended {
    pub member: MemberId,
    pub start_sector: MemberSector,
    pub sectors: u64,
    pub result: Result<(), IoError>,
    pub operation: Operation,
}

/// Member requests that a task waits for together.
struct BatchState {
    task: usize,
    pending: usize,
    ended: Vec<Ended>,
    /// When it began, if silent members are to be noticed by its reads.
    watched_since: Option<Nanos>,
}

/// Where the pieces of a member request lie in the client's: offset and length, in sectors. Pieces that touch on the member
/// need not touch in the client's request.
pub(crate) type Pieces = SmallVec<[(u64, u64); 1]>;

/// The waiter of a member request.
pub(crate) enum Waiting {
    /// A client whose request went to one member unsplit.
    Client {
        tag: Tag,
        begun: Nanos,
        array_sector: ArraySector,
    },
    /// A part of a client's request, with nothing else to do.
    Part {
        parent: usize,
        pieces: Pieces,
    },
    /// A part of a client's read that other members were asked for as well (a hedged read).
    Race {
        race: usize,
    },
    Batch {
        batch: usize,
        index: usize,
    },
    /// A client's write of copies, without a task.
    Copy {
        write: usize,
    },
    /// A client's write within one strip, without a task: request `index` of its step.
    Straight {
        write: usize,
        index: usize,
    },
    /// Nothing: the member was dropped and the request was ended for it, see [`MemberRequests::abandon`].
    Abandoned,
}

/// A member request under way.
pub(crate) struct InFlight {
    pub member: MemberId,
    pub start_sector: MemberSector,
    pub sectors: u64,
    pub waiting: Waiting,
}

/// All member requests under way.
#[derive(Default)]
pub(crate) struct MemberRequests {
    /// The requests, by tag.
    in_flight: RefCell<Slab<InFlight>>,
    batches: RefCell<Slab<BatchState>>,
    /// Lists for reuse.
    spare_batches: RefCell<Vec<Vec<Ended>>>,
    /// Completions made up for requests that dropped members have not answered (R16).
    abandoned: RefCell<VecDeque<Completion>>,
    /// Members dropped since the driver last asked.
    dropped: RefCell<Vec<MemberId>>,
}

impl MemberRequests {
    /// Registers a request and what waits for it. Returns its tag.
    #[inline(always)]
    pub fn begin(&self, request: InFlight) -> Tag {
        self.in_flight.borrow_mut().insert(request) as Tag
    }

    /// A request has ended.
    pub fn end(&self, tag: Tag) -> InFlight {
        self.in_flight.borrow_mut().remove(tag as usize)
    }

    /// All of them, to end one whose waiting decides how. A copy of the entry would cost every request.
    #[inline]
    pub fn all(&self) -> RefMut<'_, Slab<InFlight>> {
        self.in_flight.borrow_mut()
    }

    /// The requests that `test` picks, with their keys.
    pub fn pick<T>(&self, test: impl Fn(usize, &InFlight) -> Option<T>) -> SmallVec<[T; 16]>
    where
        [T; 16]: smallvec::Array<Item = T>,
    {
        self.in_flight.borrow().iter().filter_map(|(key, request)| test(key, request)).collect()
    }

    /// Changes what is known of a request.
    pub fn change<T>(&self, key: usize, change: impl FnOnce(&mut InFlight) -> T) -> T {
        change(&mut self.in_flight.borrow_mut()[key])
    }

    /// Sets what waits for a request.
    pub fn wait_by(&self, key: usize, waiting: Waiting) {
        self.change(key, |entry| entry.waiting = waiting);
    }

    /// Begins a batch of the task that runs now, which waits for it with [`MemberRequests::batch_ended`].
    pub fn begin_batch(&self, ready: &Ready) -> usize {
        let task = ready.current();
        let ended = self.spare_batches.borrow_mut().pop().unwrap_or_default();
        self.batches.borrow_mut().insert(BatchState { task, pending: 0, ended, watched_since: None })
    }

    /// Adds a request to a batch. Returns what waits for it.
    pub fn add(&self, batch: usize, io: &MemberIo) -> Waiting {
        let state = &mut self.batches.borrow_mut()[batch];
        state.pending += 1;
        // A placeholder for what comes back: a read brings memory.
        let operation = match io.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            _ => Operation::Flush,
        };
        let &MemberIo { member, start_sector, sectors, .. } = io;
        state.ended.push(Ended { member, start_sector, sectors, result: Ok(()), operation });
        Waiting::Batch { batch, index: state.ended.len() - 1 }
    }

    /// A request of a batch has ended. The last one wakes its task. Returns whether the batch is watched.
    pub fn end_in_batch(
        &self,
        ready: &Ready,
        batch: usize,
        index: usize,
        result: Result<(), IoError>,
        operation: Operation,
    ) -> bool {
        let mut batches = self.batches.borrow_mut();
        let batch = &mut batches[batch];
        let ended = &mut batch.ended[index];
        (ended.result, ended.operation) = (result, operation);
        batch.pending -= 1;
        if batch.pending == 0 {
            ready.wake(batch.task);
        }
        batch.watched_since.is_some()
    }

    /// Waits until all requests of a batch have ended, in the order in which they were sent. Give the list back with
    /// [`MemberRequests::reuse`].
    pub async fn batch_ended(&self, batch: usize) -> Vec<Ended> {
        poll_fn(|_| if self.batches.borrow()[batch].pending > 0 { Poll::Pending } else { Poll::Ready(()) }).await;
        self.batches.borrow_mut().remove(batch).ended
    }

    /// As [`MemberRequests::batch_ended`], but only until `enough` is true, which is asked whenever the task is woken. `None`: it
    /// has not ended.
    pub async fn batch_ended_or(&self, batch: usize, enough: impl Fn() -> bool) -> Option<Vec<Ended>> {
        poll_fn(|_| match self.batches.borrow()[batch].pending {
            0 => Poll::Ready(true),
            _ if enough() => Poll::Ready(false),
            _ => Poll::Pending,
        })
        .await
        .then(|| self.batches.borrow_mut().remove(batch).ended)
    }

    /// Another task waits for a batch from now on.
    pub fn adopt_batch(&self, batch: usize, task: TaskId) {
        self.batches.borrow_mut()[batch].task = task;
    }

    /// Lets members be noticed that leave reads of this batch unanswered.
    pub fn watch(&self, batch: usize, now: Nanos) {
        self.batches.borrow_mut()[batch].watched_since = Some(now);
    }

    /// Calls `note` with each member that has not answered a watched read, the time at which that began, and its batch.
    fn each_watched(&self, mut note: impl FnMut(MemberId, Nanos, usize)) {
        let batches = self.batches.borrow();
        for (_, entry) in self.in_flight.borrow().iter() {
            if let Waiting::Batch { batch, .. } = entry.waiting
                && let Some(since) = batches[batch].watched_since
            {
                note(entry.member, since, batch);
            }
        }
    }

    /// Calls `note` with each member that has not answered a watched read, and for how long.
    pub fn each_unanswered(&self, now: Nanos, mut note: impl FnMut(MemberId, Nanos)) {
        self.each_watched(|member, since, _| note(member, now - since));
    }

    /// True if the member has not answered a watched read.
    pub fn has_unanswered(&self, member: MemberId) -> bool {
        let mut has = false;
        self.each_watched(|other, _, _| has |= other == member);
        has
    }

    /// True if a watched batch waits for one of these members.
    pub fn waits_for_any(&self, batch: usize, members: &[MemberId]) -> bool {
        let mut waits = false;
        self.each_watched(|member, _, other| waits |= other == batch && members.contains(&member));
        waits
    }

    /// Wakes what waits for watched reads of these members.
    pub fn wake_watchers(&self, ready: &Ready, members: &[MemberId]) {
        self.each_watched(|member, _, batch| {
            if members.contains(&member) {
                ready.wake(self.batches.borrow()[batch].task);
            }
        });
    }

    /// Takes back the list of a batch.
    pub fn reuse(&self, mut ended: Vec<Ended>) {
        ended.clear();
        self.spare_batches.borrow_mut().push(ended);
    }

    /// True if a request of a batch is a read.
    pub fn reads(&self, batch: usize, index: usize) -> bool {
        matches!(self.batches.borrow()[batch].ended[index].operation, Operation::Read { .. })
    }

    /// A member was dropped: the driver must know, and nothing waits for its requests any more. Returns what did, with the first
    /// sector and the sectors of each.
    pub fn abandon(&self, id: MemberId) -> SmallVec<[(Waiting, MemberSector, u64); 4]> {
        self.dropped.borrow_mut().push(id);
        let mut found = SmallVec::new();
        for (_, entry) in self.in_flight.borrow_mut().iter_mut() {
            if entry.member == id && !matches!(entry.waiting, Waiting::Abandoned) {
                found.push((std::mem::replace(&mut entry.waiting, Waiting::Abandoned), entry.start_sector, entry.sectors));
            }
        }
        found
    }

    /// Makes up the completion of such a request.
    pub fn make_up(&self, completion: Completion) {
        self.abandoned.borrow_mut().push_back(completion);
    }

    /// True if completions were made up.
    pub fn has_made_up(&self) -> bool {
        !self.abandoned.borrow().is_empty()
    }

    /// Takes the completions that were made up.
    pub fn take_made_up(&self) -> VecDeque<Completion> {
        self.abandoned.take()
    }

    /// Takes the members dropped since the last call.
    pub fn take_dropped(&self) -> Vec<MemberId> {
        self.dropped.take()
    }
}

/// A write to a member, from shared bytes.
pub(crate) fn write_io(member: MemberId, start_sector: MemberSector, data: Data, fua: bool) -> MemberIo {
    let sectors = (data.len() / SECTOR_BYTES) as u64;
    MemberIo { member, start_sector, sectors, operation: Operation::Write { from: smallvec![data], fua } }
}
