//! Member requests: sent, counted, and their completions handed to what waits for them.

use super::{Action, Core, FailedPart, drop_failed_flushes};
use crate::mirror_write::StraightCopies;
use crate::segments::Cutter;
use crate::{Event, Health, MemberId};
use smallvec::{SmallVec, smallvec};
use std::future::poll_fn;
use std::task::Poll;
use stria_block::{Buffer, Completion, Data, ErrorKind, IoError, Nanos, Operation, Request, SECTOR_BYTES, Segments, Tag, bytes};

/// One member request of a task.
pub(crate) struct MemberIo {
    pub member: MemberId,
    pub start_sector: u64,
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
    pub start_sector: u64,
    pub sectors: u64,
    pub result: Result<(), IoError>,
    pub operation: Operation,
}

/// Member requests that a task waits for together.
pub(super) struct BatchState {
    task: usize,
    pending: usize,
    ended: Vec<Ended>,
}

/// Where the pieces of a member request lie in the client's: offset and length, in sectors. Pieces that touch on the member
/// need not touch in the client's request.
pub(crate) type Pieces = SmallVec<[(u64, u64); 1]>;

/// What waits for a member request.
pub(crate) enum Waiting {
    /// A client whose request went to one member unsplit.
    Client {
        tag: Tag,
        begun: Nanos,
        array_sector: u64,
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
    /// Nothing: the member was dropped and the request was ended for it, see [`Core::abandon`].
    Nobody,
}

pub(super) struct InFlight {
    member: MemberId,
    start_sector: u64,
    sectors: u64,
    waiting: Waiting,
}

/// What a member's completion means to a client.
pub(crate) enum Fate {
    /// It has become the client's completion.
    Client,
    /// It was one of several, and nothing more is to be done with it.
    Spent,
    /// There is more to do: give it to [`Core::complete`].
    Open,
}

/// What follows the end of a member request.
pub(crate) enum Then {
    /// What waited for it goes on.
    Nothing,
    /// A client's request has ended with it.
    Done(Completion),
    /// A write of copies has ended, and a metadata update must be durable before it is acknowledged.
    Finish(StraightCopies),
    /// Parts of a client's read failed; the level is to correct them.
    Mend(SmallVec<[FailedPart; 1]>),
}

impl Core {
    pub fn send(&self, member: MemberId, start_sector: u64, sectors: u64, operation: Operation, waiting: Waiting) {
        self.gate_member(member, start_sector, sectors, &operation);
        let tag = self.note(member, start_sector, sectors, waiting);
        let request = Request { tag, start_sector, sectors, operation };
        self.outbox.borrow_mut().push_back(Action::Io { member, request });
    }

    /// Registers a member request and what waits for it. Returns its tag.
    pub fn note(&self, member: MemberId, start_sector: u64, sectors: u64, waiting: Waiting) -> Tag {
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            member.in_flight += 1;
            member.head_sector = start_sector + sectors;
        }
        self.in_flight.borrow_mut().insert(InFlight { member, start_sector, sectors, waiting }) as Tag
    }

    /// Sends all of `batch` and waits. The outcomes come in the same order.
    pub async fn io(&self, batch: Batch) -> Outcomes {
        if batch.is_empty() {
            return Outcomes::new();
        }
        let key = self.batch();
        for io in batch {
            self.send_in(key, io);
        }
        let mut ended = self.ended(key).await;
        let outcomes = ended.drain(..).map(|ended| (ended.result, ended.operation)).collect();
        self.reuse(ended);
        outcomes
    }

    /// Begins a batch; the same task waits for it with [`Core::ended`].
    pub fn batch(&self) -> usize {
        let ended = self.spare_batches.borrow_mut().pop().unwrap_or_default();
        self.batches.borrow_mut().insert(BatchState { task: self.ready.current(), pending: 0, ended })
    }

    /// Sends a request as one of a batch.
    pub fn send_in(&self, batch: usize, io: MemberIo) {
        let MemberIo { member, start_sector, sectors, operation } = io;
        let index = {
            let state = &mut self.batches.borrow_mut()[batch];
            state.pending += 1;
            // A placeholder for what comes back: a read brings memory.
            let operation = match operation {
                Operation::Read { .. } => Operation::Read { into: Segments::new() },
                _ => Operation::Flush,
            };
            state.ended.push(Ended { member, start_sector, sectors, result: Ok(()), operation });
            state.ended.len() - 1
        };
        self.send(member, start_sector, sectors, operation, Waiting::Batch { batch, index });
    }

    /// Waits until all requests of a batch have ended, in the order in which they were sent. Give the list back with
    /// [`Core::reuse`].
    pub async fn ended(&self, batch: usize) -> Vec<Ended> {
        poll_fn(|_| if self.batches.borrow()[batch].pending > 0 { Poll::Pending } else { Poll::Ready(()) }).await;
        self.batches.borrow_mut().remove(batch).ended
    }

    pub fn reuse(&self, mut ended: Vec<Ended>) {
        ended.clear();
        self.spare_batches.borrow_mut().push(ended);
    }

    /// A member request has ended. If it was a client's unsplit request, or a copy of one, does everything that is usual.
    pub fn ends_client(&self, completion: &mut Completion) -> Fate {
        if completion.result.is_err() {
            return Fate::Open;
        }
        let mut in_flight = self.in_flight.borrow_mut();
        let &InFlight { member, start_sector, sectors, ref waiting } = &in_flight[completion.tag as usize];
        match *waiting {
            Waiting::Client { tag, begun, .. } => {
                in_flight.remove(completion.tag as usize);
                drop(in_flight);
                self.count(completion, member, start_sector, sectors);
                // One in four is enough where there are many.
                if self.hedging.on.get() && (completion.tag & 3 == 0 || self.pass_through_count.get() < 8) {
                    self.time_read(member, begun);
                }
                self.pass_through_count.set(self.pass_through_count.get() - 1);
                self.steering.ended(begun, self.now());
                completion.tag = tag;
                Fate::Client
            }
            Waiting::Copy { write } if self.ends_quietly(write) => {
                in_flight.remove(completion.tag as usize);
                drop(in_flight);
                self.count(completion, member, start_sector, sectors);
                self.copy_ended(write, completion)
            }
            Waiting::Straight { write, index } => {
                in_flight.remove(completion.tag as usize);
                drop(in_flight);
                self.count(completion, member, start_sector, sectors);
                let operation = std::mem::replace(&mut completion.operation, Operation::Flush);
                self.straight_writes.ended(write, index, member, Ok(()), self.memory_of(operation, index));
                Fate::Spent
            }
            _ => Fate::Open,
        }
    }

    /// What a request of a write within one strip has read. Memory of parity returns to the pool.
    fn memory_of(&self, operation: Operation, index: usize) -> Option<Buffer> {
        match operation {
            Operation::Read { mut into } => into.pop(),
            Operation::Write { mut from, .. } if index > 0 => {
                let claim = from.pop()?.into_claim();
                self.pool.borrow_mut().give_claim(claim);
                None
            }
            _ => None,
        }
    }

    /// Records how long a client's read of one member took. Only reads get here where hedging is on.
    fn time_read(&self, member: MemberId, begun: Nanos) {
        if let Some(times) = &mut self.members.borrow_mut().get_mut(member).read_times {
            times.record(self.now() - begun);
        }
    }

    /// Counts a member request that has ended.
    fn count(&self, completion: &Completion, member: MemberId, start_sector: u64, sectors: u64) {
        let mut members = self.members.borrow_mut();
        let state = members.get_mut(member);
        state.in_flight -= 1;
        match completion.operation {
            Operation::Read { .. } => {
                state.read_count += 1;
                state.read_sectors += sectors;
                return;
            }
            Operation::Write { .. } => {
                state.write_count += 1;
                state.written_sectors += sectors;
            }
            Operation::WriteZeroes { .. } => {}
            Operation::Flush | Operation::Extents { .. } => return,
        }
        drop(members);
        if completion.result.is_ok() {
            self.mark_good(member, &(start_sector..start_sector + sectors));
        }
    }

    /// A member request has failed.
    #[cold]
    fn note_error(&self, member: MemberId, reads: bool, error: &IoError) {
        {
            let mut members = self.members.borrow_mut();
            let state = members.get_mut(member);
            // Errors of a dropped member do not count.
            state.read_errors += u64::from(reads && state.role != crate::MemberState::Failed);
        }
        if error.kind == ErrorKind::Gone {
            // Whatever was asked: what it can no longer read must not be corrected by writing to it.
            self.lose_member(member, &error.context);
        }
    }

    /// A member request has ended.
    pub fn complete(&self, completion: Completion) -> Then {
        let InFlight { member, start_sector, sectors, waiting } = self.in_flight.borrow_mut().remove(completion.tag as usize);
        if let Waiting::Nobody = waiting {
            self.members.borrow_mut().get_mut(member).in_flight -= 1;
            return Then::Nothing;
        }
        self.count(&completion, member, start_sector, sectors);
        if let Err(error) = &completion.result {
            let reads = matches!(completion.operation, Operation::Read { .. });
            self.note_error(member, reads, error);
        }
        if let (Waiting::Part { parent, .. }, Operation::Read { .. }) = (&waiting, &completion.operation) {
            self.time_read(member, self.parents.borrow()[*parent].begun);
        }
        let waiting = match waiting {
            Waiting::Race { race } => match self.race_ended(race) {
                Some((parent, pieces)) => Waiting::Part { parent, pieces },
                None => return Then::Nothing,
            },
            waiting => waiting,
        };
        match waiting {
            Waiting::Race { .. } | Waiting::Nobody => unreachable!("it was just decided"),
            Waiting::Copy { write } => self.copy_written(write, member, completion.result),
            Waiting::Straight { write, index } => {
                let memory = self.memory_of(completion.operation, index);
                self.straight_writes.ended(write, index, member, completion.result, memory);
                Then::Nothing
            }
            Waiting::Batch { batch, index } => {
                let mut batches = self.batches.borrow_mut();
                let batch = &mut batches[batch];
                let ended = &mut batch.ended[index];
                (ended.result, ended.operation) = (completion.result, completion.operation);
                batch.pending -= 1;
                if batch.pending == 0 {
                    self.ready.wake(batch.task);
                }
                Then::Nothing
            }
            Waiting::Client { tag, begun, array_sector } => {
                match (completion.result, completion.operation) {
                    // Redundancy may help.
                    (Err(error), Operation::Read { into }) if self.geometry.level().is_redundant() => {
                        let parent = self.as_parent(tag, begun, array_sector);
                        Then::Mend(smallvec![FailedPart {
                            parent,
                            offset_sectors: 0,
                            array_sector,
                            member: Some(member),
                            start_sector,
                            sectors,
                            into,
                            error
                        }])
                    }
                    (result, operation) => {
                        self.pass_through_count.set(self.pass_through_count.get() - 1);
                        Then::Done(Completion { tag, result, operation })
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
                    return Then::Nothing;
                };
                let mut memory = Cutter::new(into);
                if !failed {
                    let read = pieces
                        .iter()
                        .map(|&(offset, sectors)| (offset, memory.take(bytes(sectors))))
                        .collect::<SmallVec<[_; 2]>>();
                    self.part_read(parent, read);
                    return Then::Nothing;
                }
                let error = completion.result.expect_err("it failed");
                self.more_parts(parent, pieces.len() - 1);
                let mut member_sector = start_sector;
                let failed = pieces
                    .into_iter()
                    .map(|(offset_sectors, sectors)| {
                        let start_sector = member_sector;
                        member_sector += sectors;
                        FailedPart {
                            parent,
                            offset_sectors,
                            array_sector: array_start + offset_sectors,
                            member: Some(member),
                            start_sector,
                            sectors,
                            into: memory.take(bytes(sectors)),
                            error: error.clone(),
                        }
                    })
                    .collect();
                Then::Mend(failed)
            }
        }
    }

    /// Parts of clients' reads that have run longer than is usual for their members (`slow`), with member and age.
    pub fn reads_older_than(&self, slow: &[Nanos]) -> SmallVec<[(usize, MemberId, Nanos); 16]> {
        let (in_flight, parents, now) = (self.in_flight.borrow(), self.parents.borrow(), self.now());
        let begun = |waiting: &Waiting| match waiting {
            // Where there is redundancy, only reads go to one member unsplit.
            Waiting::Client { begun, .. } => Some(*begun),
            Waiting::Part { parent, .. } => {
                let parent = &parents[*parent];
                matches!(parent.operation, Operation::Read { .. }).then_some(parent.begun)
            }
            Waiting::Race { .. } | Waiting::Batch { .. } | Waiting::Copy { .. } | Waiting::Straight { .. } | Waiting::Nobody => {
                None
            }
        };
        let old = |(key, entry): (usize, &InFlight)| {
            let age = now.saturating_sub(begun(&entry.waiting)?);
            (age > slow[entry.member.0]).then_some((key, entry.member, age))
        };
        in_flight.iter().filter_map(old).collect()
    }

    /// Turns a client's read under way into a part of a request, if it is none. Returns that request, the part's pieces, the
    /// member and the first sector there. Set what waits for it with [`Core::wait_by`].
    pub fn take_part(&self, key: usize) -> (usize, Pieces, MemberId, u64) {
        let entry = &mut self.in_flight.borrow_mut()[key];
        let (parent, pieces) = match &mut entry.waiting {
            &mut Waiting::Client { tag, begun, array_sector } => {
                (self.as_parent(tag, begun, array_sector), smallvec![(0, entry.sectors)])
            }
            Waiting::Part { parent, pieces } => (*parent, std::mem::take(pieces)),
            Waiting::Race { .. } | Waiting::Batch { .. } | Waiting::Copy { .. } | Waiting::Straight { .. } | Waiting::Nobody => {
                unreachable!("only clients' reads are asked for twice")
            }
        };
        (parent, pieces, entry.member, entry.start_sector)
    }

    pub fn wait_by(&self, key: usize, waiting: Waiting) {
        self.in_flight.borrow_mut()[key].waiting = waiting;
    }

    /// Drops a member that failed. Returns `false` if data would be lost: then it keeps its slot, and its errors go to clients
    /// (R7).
    pub fn fail_member(&self, id: MemberId, reason: &str) -> bool {
        if self.members.borrow().get(id).role == crate::MemberState::Failed {
            return true;
        }
        if !self.members.borrow().may_lose(id) {
            return false;
        }
        let slot = self.members.borrow().get(id).slot;
        self.drop_member(id, Some(reason));
        self.event(Event::MemberFailed { member: id, slot, reason: reason.to_string() });
        true
    }

    /// Drops a member that is gone. A member that the array cannot do without keeps its slot, and requests that need it fail.
    pub fn lose_member(&self, id: MemberId, reason: &str) {
        if self.fail_member(id, reason) {
            return;
        }
        let mut members = self.members.borrow_mut();
        let member = members.get_mut(id);
        if !std::mem::replace(&mut member.is_gone, true) {
            member.failure = Some(reason.to_string());
            let (slot, reason) = (member.slot, reason.to_string());
            drop(members);
            self.event(Event::MemberGone { member: id, slot, reason });
        }
    }

    /// Takes a member out of its slot, whatever that does to the array. `reason`: where this engine has one.
    pub fn drop_member(&self, id: MemberId, reason: Option<&str>) {
        self.members.borrow_mut().drop_member(id, reason.map(str::to_string));
        self.abandon(id);
        self.dropped.borrow_mut().push(id);
        self.log.drop_member(id, &mut self.waker());
        self.metadata.state_waiters.wake_all(&self.ready);
        self.members.borrow_mut().get_mut(id).dropped_by = self.raise_ack_barrier();
        self.sweep_changed.wake_all(&self.ready);
    }

    /// Ends the requests that a dropped member has not answered, since it may never answer (R16). What waits for one is told
    /// that the member is gone, and goes on with what is left.
    ///
    /// The member keeps the memory it was given until it has ended the request; a read is ended with other memory. A late write
    /// may still change the member. That does no harm: its data is not read before it has been added again, and the drive stays
    /// locked until its last request has ended.
    fn abandon(&self, id: MemberId) {
        let of_member =
            |(key, entry): (usize, &InFlight)| (entry.member == id && !matches!(entry.waiting, Waiting::Nobody)).then_some(key);
        let keys: SmallVec<[usize; 16]> = self.in_flight.borrow().iter().filter_map(of_member).collect();
        for key in keys {
            let (waiting, start_sector, sectors) = {
                let entry = &mut self.in_flight.borrow_mut()[key];
                (std::mem::replace(&mut entry.waiting, Waiting::Nobody), entry.start_sector, entry.sectors)
            };
            let reads = match &waiting {
                // Where there is redundancy, only reads go to one member unsplit.
                Waiting::Client { .. } | Waiting::Race { .. } => true,
                Waiting::Part { parent, .. } => matches!(self.parents.borrow()[*parent].operation, Operation::Read { .. }),
                Waiting::Batch { batch, index } => {
                    matches!(self.batches.borrow()[*batch].ended[*index].operation, Operation::Read { .. })
                }
                Waiting::Straight { write, .. } => self.straight_writes.reads(*write),
                Waiting::Copy { .. } | Waiting::Nobody => false,
            };
            let operation = match reads {
                true => Operation::Read { into: smallvec![self.take_buffer(sectors)] },
                false => Operation::Flush,
            };
            let tag = self.note(id, start_sector, sectors, waiting);
            let error = IoError::new(ErrorKind::Gone, "the member was dropped before it answered");
            self.abandoned.borrow_mut().push_back(Completion { tag, result: Err(error), operation });
        }
    }

    /// Makes every write that has ended durable on the members.
    ///
    /// # Errors
    /// When a member fails to flush and cannot be dropped (R8).
    pub async fn flush_members(&self) -> Result<(), IoError> {
        let targets: SmallVec<[MemberId; 8]> = {
            let members = self.members.borrow();
            members.active().filter(|&id| members.get(id).limits.volatile_cache).collect()
        };
        let io = |&member: &MemberId| MemberIo { member, start_sector: 0, sectors: 0, operation: Operation::Flush };
        let outcomes = self.io(targets.iter().map(io).collect()).await;
        drop_failed_flushes(self, targets.iter().copied().zip(outcomes.iter().map(|(result, _)| result)))
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
