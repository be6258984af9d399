//! Member requests: sent, counted, and their completions handed to what waits for them.

use super::{Core, FailedPart, all_data, drop_failed_flushes};
use crate::action::Action;
use crate::address::sync_of_array;
use crate::member_requests::{Batch, InFlight, MemberIo, Outcomes, Pieces, Waiting};
use crate::mirror_writes::CopiesWrite;
use crate::segments::Cutter;
use crate::{DropCause, Event, Health, MemberId, MemberSector};
use smallvec::{SmallVec, smallvec};
use stria_block::{Completion, ErrorKind, IoError, Nanos, Operation, Request, Tag, bytes};

/// The meaning of a member's completion to a client.
pub(crate) enum Fate {
    /// It has become the client's completion.
    Client,
    /// It was one of several, and nothing more is to be done with it.
    Spent,
    /// There is more to do: give it to [`Core::complete`].
    Open,
}

/// The consequence of the end of a member request.
pub(crate) enum Then {
    /// Its waiter goes on.
    Nothing,
    /// A client's request has ended with it.
    Done(Completion),
    /// A write of copies has ended, and a metadata update must be durable before it is acknowledged.
    Finish(CopiesWrite),
    /// Parts of a client's read failed; the level is to correct them.
    Correct(SmallVec<[FailedPart; 1]>),
}

impl Core {
    pub fn send(&self, member: MemberId, start_sector: MemberSector, sectors: u64, operation: Operation, waiting: Waiting) {
        self.gate_member(member, start_sector, sectors, &operation);
        let tag = self.note(member, start_sector, sectors, waiting);
        let request = Request { tag, start_sector: start_sector.get(), sectors, operation };
        self.outbox.push(Action::Io { member, request });
    }

    /// Registers a member request and what waits for it. Returns its tag.
    pub fn note(&self, member: MemberId, start_sector: MemberSector, sectors: u64, waiting: Waiting) -> Tag {
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            member.in_flight += 1;
            member.head_sector = start_sector + sectors;
        }
        self.member_requests.begin(InFlight { member, start_sector, sectors, waiting })
    }

    /// Sends all of `batch` and waits. The outcomes come in the same order.
    pub async fn io(&self, batch: Batch) -> Outcomes {
        if batch.is_empty() {
            return Outcomes::new();
        }
        let key = self.member_requests.begin_batch(&self.ready);
        for io in batch {
            self.send_in(key, io);
        }
        let mut ended = self.member_requests.batch_ended(key).await;
        let outcomes = ended.drain(..).map(|ended| (ended.result, ended.operation)).collect();
        self.member_requests.reuse(ended);
        outcomes
    }

    /// Sends a request as one of a batch.
    pub fn send_in(&self, batch: usize, io: MemberIo) {
        let waiting = self.member_requests.add(batch, &io);
        self.send(io.member, io.start_sector, io.sectors, io.operation, waiting);
    }

    /// A member request has ended. If it was a client's unsplit request, a copy of one, or of a write within one strip, and
    /// nothing failed, ends it here.
    pub fn ends_client(&self, completion: &mut Completion) -> Fate {
        if completion.result.is_err() {
            return Fate::Open;
        }
        let mut in_flight = self.member_requests.all();
        let &InFlight { member, start_sector, sectors, ref waiting } = &in_flight[completion.tag as usize];
        match *waiting {
            Waiting::Client { tag, begun, .. } => {
                in_flight.remove(completion.tag as usize);
                drop(in_flight);
                self.count(completion, member, start_sector, sectors);
                // One in four is enough where there are many.
                if self.hedging.is_on() && (completion.tag & 3 == 0 || self.requests.passed_through() < 8) {
                    self.members.borrow_mut().time_read(member, self.now() - begun);
                }
                self.requests.end_passed_through();
                self.steering.ended(begun, self.now());
                completion.tag = tag;
                Fate::Client
            }
            Waiting::Copy { write } if self.mirror_writes.ends_quietly(write, || self.may_acknowledge_at_once()) => {
                in_flight.remove(completion.tag as usize);
                drop(in_flight);
                self.count(completion, member, start_sector, sectors);
                let Some(write) = self.mirror_writes.copy_ended(write, member, Ok(())) else { return Fate::Spent };
                self.write_ended(&sync_of_array(&write.range));
                *completion = self.end_copies(write, Ok(()));
                Fate::Client
            }
            Waiting::Straight { write, index } => {
                in_flight.remove(completion.tag as usize);
                drop(in_flight);
                self.count(completion, member, start_sector, sectors);
                let operation = std::mem::replace(&mut completion.operation, Operation::Flush);
                let brought = (self.buffers.memory_of(operation, index), Operation::Flush);
                self.straight_writes.ended(write, index, member, Ok(()), brought);
                Fate::Spent
            }
            _ => Fate::Open,
        }
    }

    /// Counts a member request that has ended.
    fn count(&self, completion: &Completion, member: MemberId, start_sector: MemberSector, sectors: u64) {
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
            self.mark_good(member, &start_sector.run(sectors));
        }
    }

    /// A member request has failed.
    #[cold]
    fn note_error(&self, member: MemberId, reads: bool, error: &IoError) {
        {
            let mut members = self.members.borrow_mut();
            let member = members.get_mut(member);
            // Errors of a dropped member do not count.
            member.read_errors += u64::from(reads && member.state != crate::MemberState::Failed);
        }
        if error.kind == ErrorKind::Gone {
            // Whatever was asked: what it can no longer read must not be corrected by writing to it.
            self.lose_member(member, DropCause::Gone(error.clone()));
        }
    }

    /// A member has ended a watched read. If it was unresponsive, it is so no more once it has ended all of them.
    fn watched_read_ended(&self, member: MemberId) {
        let is_unresponsive = self.members.borrow().get(member).is_unresponsive;
        if is_unresponsive && !self.hedging.waits_for(member) && !self.member_requests.has_unanswered(member) {
            self.members.borrow_mut().get_mut(member).is_unresponsive = false;
        }
    }

    /// A member request has ended.
    pub fn complete(&self, completion: Completion) -> Then {
        let InFlight { member, start_sector, sectors, waiting } = self.member_requests.end(completion.tag);
        if let Waiting::Abandoned = waiting {
            self.members.borrow_mut().get_mut(member).in_flight -= 1;
            return Then::Nothing;
        }
        self.count(&completion, member, start_sector, sectors);
        if let Err(error) = &completion.result {
            let reads = matches!(completion.operation, Operation::Read { .. });
            self.note_error(member, reads, error);
        }
        if let (Waiting::Part { parent, .. }, Operation::Read { .. }) = (&waiting, &completion.operation) {
            let elapsed = self.now() - self.requests.begun(*parent);
            self.members.borrow_mut().time_read(member, elapsed);
        }
        let waiting = match waiting {
            Waiting::Race { race } => match self.hedging.member_answered(
                race,
                &mut self.members.borrow_mut(),
                self.member_requests.has_unanswered(member),
            ) {
                Some((parent, pieces)) => Waiting::Part { parent, pieces },
                None => return Then::Nothing,
            },
            waiting => waiting,
        };
        match waiting {
            Waiting::Race { .. } | Waiting::Abandoned => unreachable!("it was just decided"),
            Waiting::Copy { write } => {
                self.mirror_writes.copy_ended(write, member, completion.result).map_or(Then::Nothing, Then::Finish)
            }
            Waiting::Straight { write, index } => {
                let brought = match completion.operation {
                    failed @ Operation::Write { .. } if completion.result.is_err() => (None, failed),
                    operation => (self.buffers.memory_of(operation, index), Operation::Flush),
                };
                self.straight_writes.ended(write, index, member, completion.result, brought);
                Then::Nothing
            }
            Waiting::Batch { batch, index } => {
                let (result, operation) = (completion.result, completion.operation);
                if self.member_requests.end_in_batch(&self.ready, batch, index, result, operation) {
                    self.watched_read_ended(member);
                }
                Then::Nothing
            }
            Waiting::Client { tag, begun, array_sector } => match (completion.result, completion.operation) {
                // Redundancy may help.
                (Err(error), Operation::Read { into }) if self.geometry.level().is_redundant() => {
                    let parent = self.requests.as_parent(tag, begun, array_sector);
                    let (offset_sectors, member) = (0, Some(member));
                    Then::Correct(smallvec![FailedPart {
                        parent,
                        offset_sectors,
                        array_sector,
                        member,
                        start_sector,
                        sectors,
                        into,
                        error
                    }])
                }
                (result, operation) => {
                    self.requests.end_passed_through();
                    Then::Done(Completion { tag, result, operation })
                }
            },
            Waiting::Part { parent, pieces } => self.part_ended(parent, pieces, member, start_sector, completion),
        }
    }

    /// A part of a client's request has ended, in pieces of memory: offset and length in sectors.
    #[inline]
    fn part_ended(
        &self,
        parent: usize,
        pieces: Pieces,
        member: MemberId,
        start_sector: MemberSector,
        completion: Completion,
    ) -> Then {
        let Operation::Read { into } = completion.operation else {
            let mut result = completion.result;
            if self.requests.asks_for_holes(parent) {
                // A member that failed, or was dropped meanwhile, knows of none.
                let known = match completion.operation {
                    Operation::Extents { .. } if result.is_ok() => completion.operation,
                    _ => all_data(pieces.iter().map(|&(_, sectors)| sectors).sum()),
                };
                self.requests.set_operation(parent, known);
                result = Ok(());
            }
            self.part_done(parent, None, result);
            return Then::Nothing;
        };
        let mut memory = Cutter::new(into);
        let Err(error) = completion.result else {
            let read =
                pieces.iter().map(|&(offset, sectors)| (offset, memory.take(bytes(sectors)))).collect::<SmallVec<[_; 2]>>();
            self.part_read(parent, read);
            return Then::Nothing;
        };
        let array_start = self.requests.start_sector(parent);
        self.requests.more_parts(parent, pieces.len() - 1);
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
        Then::Correct(failed)
    }

    /// Parts of clients' reads that have run longer than is usual for their members (`slow`), with member and age.
    pub fn reads_older_than(&self, slow: &[Option<Nanos>]) -> SmallVec<[(usize, MemberId, Nanos); 16]> {
        let now = self.now();
        let begun = |waiting: &Waiting| match waiting {
            // Where there is redundancy, only reads go to one member unsplit.
            Waiting::Client { begun, .. } => Some(*begun),
            Waiting::Part { parent, .. } => self.requests.is_read(*parent).then(|| self.requests.begun(*parent)),
            Waiting::Race { .. }
            | Waiting::Batch { .. }
            | Waiting::Copy { .. }
            | Waiting::Straight { .. }
            | Waiting::Abandoned => None,
        };
        self.member_requests.pick(|key, entry| {
            let age = now.saturating_sub(begun(&entry.waiting)?);
            slow[entry.member.0].is_some_and(|slow| age > slow).then_some((key, entry.member, age))
        })
    }

    /// Turns a client's read under way into a part of a request, if it is none. Returns that request, the part's pieces, the
    /// member and the first sector there. Set what waits for it with
    /// [`MemberRequests::wait_by`](crate::member_requests::MemberRequests::wait_by).
    pub fn take_part(&self, key: usize) -> (usize, Pieces, MemberId, MemberSector) {
        self.member_requests.change(key, |entry| {
            let (parent, pieces) = match &mut entry.waiting {
                &mut Waiting::Client { tag, begun, array_sector } => {
                    (self.requests.as_parent(tag, begun, array_sector), smallvec![(0, entry.sectors)])
                }
                Waiting::Part { parent, pieces } => (*parent, std::mem::take(pieces)),
                Waiting::Race { .. }
                | Waiting::Batch { .. }
                | Waiting::Copy { .. }
                | Waiting::Straight { .. }
                | Waiting::Abandoned => unreachable!("only clients' reads are asked for twice"),
            };
            (parent, pieces, entry.member, entry.start_sector)
        })
    }

    /// Drops a member that failed. Returns `false` if data would be lost: then it keeps its slot, and its errors go to clients
    /// (R7).
    pub fn fail_member(&self, id: MemberId, cause: DropCause) -> bool {
        if self.members.borrow().get(id).state == crate::MemberState::Failed {
            return true;
        }
        if !self.members.borrow().may_lose(id) {
            return false;
        }
        let slot = self.members.borrow().get(id).slot;
        self.drop_member(id, Some(cause.clone()));
        // R42: other lanes learn of it at once. The superblock update may wait for their requests, also for those to this very
        // member.
        if self.partition.lane_count > 1 {
            self.outbox.push(Action::Dropped(id));
        }
        self.event(Event::MemberFailed { member: id, slot, cause });
        true
    }

    /// Drops a member that is gone. A member that the array cannot do without keeps its slot, and requests that need it fail.
    pub fn lose_member(&self, id: MemberId, cause: DropCause) {
        if self.fail_member(id, cause.clone()) {
            return;
        }
        let is_new = self.members.borrow_mut().set_gone(id, cause.clone());
        if is_new {
            let slot = self.members.borrow().get(id).slot;
            self.event(Event::MemberGone { member: id, slot, cause });
        }
    }

    /// Takes a member out of its slot, whatever that does to the array. `cause`: where this engine has one.
    pub fn drop_member(&self, id: MemberId, cause: Option<DropCause>) {
        self.members.borrow_mut().drop_member(id, cause);
        self.let_go(id);
    }

    /// A member has lost its slot: it was dropped, or its replacement has taken the slot. Its requests end without it (R16), its
    /// log takes no more records (R10), and nothing is acknowledged before superblocks say that it failed (R6).
    pub fn let_go(&self, id: MemberId) {
        self.abandon(id);
        self.exclude(id);
    }

    /// As [`Core::let_go`], but its requests wait until it has answered them.
    pub fn exclude(&self, id: MemberId) {
        self.log.drop_member(id, &mut self.waker());
        self.metadata.state_waiters.wake_all(&self.ready);
        self.members.borrow_mut().get_mut(id).dropped_by = self.metadata.raise_ack_barrier(&self.ready);
        self.sweep_changed.wake_all(&self.ready);
    }

    /// Ends the requests that a dropped member has not answered, since it may never answer (R16). What waits for one gets an
    /// error, and goes on with the remaining members.
    ///
    /// The member keeps the memory it was given until it has ended the request; a read is ended with other memory. A late write
    /// may still change the member. That does no harm: its data is not read before it has been added again, and the drive stays
    /// locked until its last request has ended.
    fn abandon(&self, id: MemberId) {
        for (waiting, start_sector, sectors) in self.member_requests.abandon(id) {
            let reads = match &waiting {
                // Where there is redundancy, only reads go to one member unsplit.
                Waiting::Client { .. } | Waiting::Race { .. } => true,
                Waiting::Part { parent, .. } => self.requests.is_read(*parent),
                Waiting::Batch { batch, index } => self.member_requests.reads(*batch, *index),
                Waiting::Straight { write, .. } => self.straight_writes.reads(*write),
                Waiting::Copy { .. } | Waiting::Abandoned => false,
            };
            let operation = match reads {
                true => Operation::Read { into: smallvec![self.buffers.take(sectors)] },
                false => Operation::Flush,
            };
            let tag = self.note(id, start_sector, sectors, waiting);
            let error = IoError::new(ErrorKind::Gone, "the member was dropped before it answered");
            self.member_requests.make_up(Completion { tag, result: Err(error), operation });
        }
    }

    /// Makes every write that has ended durable on the members.
    ///
    /// # Errors
    /// A member fails to flush and cannot be dropped (R8).
    pub async fn flush_members(&self) -> Result<(), IoError> {
        let targets: SmallVec<[MemberId; 8]> = {
            let members = self.members.borrow();
            members.active().filter(|&id| members.get(id).limits.volatile_cache).collect()
        };
        let io =
            |&member: &MemberId| MemberIo { member, start_sector: MemberSector::ZERO, sectors: 0, operation: Operation::Flush };
        let outcomes = self.io(targets.iter().map(io).collect()).await;
        drop_failed_flushes(self, targets.iter().copied().zip(outcomes.iter().map(|(result, _)| result)))
    }

    pub fn health(&self) -> Health {
        self.members.borrow().health()
    }
}
