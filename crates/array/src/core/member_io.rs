//! Requests to members: sent, counted, and handed back to whoever waits.

use super::client::Parent;
use super::{Action, Core, Cutter, FailedPart};
use crate::{Event, Health, MemberId};
use smallvec::{SmallVec, smallvec};
use std::future::poll_fn;
use std::task::Poll;
use stria_block::{Completion, Data, IoError, Operation, Request, SECTOR_BYTES, Segments, Tag, bytes};

/// One request to a member, from a task.
pub(crate) struct MemberIo {
    pub member: MemberId,
    pub start_sector: u64,
    pub sectors: u64,
    pub operation: Operation,
}

pub(crate) type Outcome = (Result<(), IoError>, Operation);
/// Small inline: batches live in tasks, and a task is moved to the heap whole.
pub(crate) type Batch = SmallVec<[MemberIo; 4]>;
pub(crate) type Outcomes = SmallVec<[Outcome; 4]>;

pub(super) struct BatchState {
    task: usize,
    pending: usize,
    outcomes: SmallVec<[Option<Outcome>; 4]>,
}

/// Where the pieces of a member's request lie in the client's: offset and length, in sectors. Pieces that are
/// neighbours on the member need not be neighbours for the client.
pub(crate) type Pieces = SmallVec<[(u64, u64); 1]>;

/// Who waits for a member's request.
pub(super) enum Waiting {
    /// A client: its request went to one member as it was.
    Client {
        tag: Tag,
        array_sector: u64,
    },
    /// A part of a client's request, with nothing else to do.
    Part {
        parent: usize,
        pieces: Pieces,
    },
    Batch {
        batch: usize,
        index: usize,
    },
}

pub(super) struct InFlight {
    member: MemberId,
    start_sector: u64,
    sectors: u64,
    waiting: Waiting,
}

impl Core {
    pub(super) fn send(&self, member: MemberId, start_sector: u64, sectors: u64, operation: Operation, waiting: Waiting) {
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            member.in_flight += 1;
            member.head_sector = start_sector + sectors;
        }
        let key = self.in_flight.borrow_mut().insert(InFlight { member, start_sector, sectors, waiting });
        let request = Request { tag: key as Tag, start_sector, sectors, operation };
        self.outbox.borrow_mut().push_back(Action::Io { member, request });
    }

    /// Does all of `batch` at once, and gives each its end, in the same order.
    pub async fn io(&self, batch: Batch) -> Outcomes {
        if batch.is_empty() {
            return Outcomes::new();
        }
        let count = batch.len();
        let outcomes = std::iter::repeat_with(|| None).take(count).collect();
        let key = self.batches.borrow_mut().insert(BatchState { task: self.ready.current(), pending: count, outcomes });
        for (index, io) in batch.into_iter().enumerate() {
            self.send(io.member, io.start_sector, io.sectors, io.operation, Waiting::Batch { batch: key, index });
        }
        poll_fn(|_| {
            if self.batches.borrow()[key].pending > 0 {
                return Poll::Pending;
            }
            let state = self.batches.borrow_mut().remove(key);
            Poll::Ready(state.outcomes.into_iter().map(|outcome| outcome.expect("nothing is pending")).collect())
        })
        .await
    }

    /// A member's request has ended. Gives back parts whose read failed, for the level to mend.
    pub fn complete(&self, completion: Completion) -> SmallVec<[FailedPart; 1]> {
        let InFlight { member, start_sector, sectors, waiting } = self.in_flight.borrow_mut().remove(completion.tag as usize);
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            member.in_flight -= 1;
            match completion.operation {
                Operation::Read { .. } => {
                    member.read_count += 1;
                    member.read_sectors += sectors;
                    member.read_errors += u64::from(completion.result.is_err());
                }
                Operation::Write { .. } => {
                    member.write_count += 1;
                    member.written_sectors += sectors;
                }
                _ => {}
            }
        }
        if matches!(completion.operation, Operation::Write { .. } | Operation::WriteZeroes { .. }) && completion.result.is_ok() {
            self.mark_good(member, &(start_sector..start_sector + sectors));
        }
        match waiting {
            Waiting::Batch { batch, index } => {
                let mut batches = self.batches.borrow_mut();
                let batch = &mut batches[batch];
                batch.outcomes[index] = Some((completion.result, completion.operation));
                batch.pending -= 1;
                if batch.pending == 0 {
                    self.ready.wake(batch.task);
                }
                SmallVec::new()
            }
            Waiting::Client { tag, array_sector } => {
                self.whole_requests.set(self.whole_requests.get() - 1);
                match (completion.result, completion.operation) {
                    // Redundancy may help: from here on it is a request of one part.
                    (Err(error), Operation::Read { into }) if self.geometry.level().is_redundant() => {
                        let parent = self.parents.borrow_mut().insert(Parent::new(
                            tag,
                            array_sector,
                            1,
                            Operation::Read { into: Segments::new() },
                        ));
                        smallvec![FailedPart {
                            parent,
                            offset_sectors: 0,
                            array_sector,
                            member,
                            start_sector,
                            sectors,
                            into,
                            error
                        }]
                    }
                    (result, operation) => {
                        self.done(Completion { tag, result, operation });
                        SmallVec::new()
                    }
                }
            }
            Waiting::Part { parent, pieces } => {
                let array_start = self.parents.borrow()[parent].start_sector;
                let failed = completion.result.is_err();
                let Operation::Read { into } = completion.operation else {
                    if let Operation::Extents { .. } = completion.operation {
                        self.parents.borrow_mut()[parent].operation = completion.operation;
                    }
                    self.part_done(parent, None, completion.result);
                    return SmallVec::new();
                };
                let mut memory = Cutter::new(into);
                if !failed {
                    let read = pieces
                        .iter()
                        .map(|&(offset, sectors)| (offset, memory.take(bytes(sectors))))
                        .collect::<SmallVec<[_; 2]>>();
                    self.parents.borrow_mut()[parent].read.extend(read);
                    self.part_done(parent, None, Ok(()));
                    return SmallVec::new();
                }
                let error = completion.result.expect_err("it failed");
                self.more_parts(parent, pieces.len() - 1);
                let mut member_sector = start_sector;
                pieces
                    .into_iter()
                    .map(|(offset_sectors, sectors)| {
                        let start_sector = member_sector;
                        member_sector += sectors;
                        FailedPart {
                            parent,
                            offset_sectors,
                            array_sector: array_start + offset_sectors,
                            member,
                            start_sector,
                            sectors,
                            into: memory.take(bytes(sectors)),
                            error: error.clone(),
                        }
                    })
                    .collect()
            }
        }
    }

    /// Drops a member that failed. `false`: its loss would lose data, so it stays and its errors go to clients.
    pub fn fail_member(&self, id: MemberId, reason: &str) -> bool {
        let mut members = self.members.borrow_mut();
        if members.get(id).role == crate::MemberRole::Failed {
            return true;
        }
        if !members.may_lose(id) {
            return false;
        }
        let slot = members.get(id).slot;
        members.drop_member(id, reason.to_string());
        drop(members);
        self.log_drop(id);
        self.event(Event::MemberFailed { member: id, slot, reason: reason.to_string() });
        self.raise_barrier();
        self.sweep_changed.wake_all(&self.ready);
        true
    }

    /// Makes every ended write durable on the members.
    ///
    /// # Errors
    /// When a member fails to, and redundancy does not cover it.
    pub async fn flush_members(&self) -> Result<(), IoError> {
        let targets: SmallVec<[MemberId; 8]> = {
            let members = self.members.borrow();
            members.active().filter(|&id| members.get(id).limits.volatile_cache).collect()
        };
        let io = |&member: &MemberId| MemberIo { member, start_sector: 0, sectors: 0, operation: Operation::Flush };
        let outcomes = self.io(targets.iter().map(io).collect()).await;
        crate::parity_io::settle_writes(self, &targets, outcomes.iter().map(|(result, _)| result))
    }

    pub fn health(&self) -> Health {
        self.members.borrow().health()
    }
}

/// A write to a member, from shared bytes.
pub(crate) fn write_io(member: MemberId, start_sector: u64, data: Data, fua: bool) -> MemberIo {
    let sectors = (data.len() / SECTOR_BYTES) as u64;
    MemberIo { member, start_sector, sectors, operation: Operation::Write { from: smallvec![data], fua } }
}
