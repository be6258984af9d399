//! Clients' requests while parts of them run, and their completions.

use super::member_io::Waiting;
use super::{Action, Core, MemberIo, Outcomes, Pieces};
use crate::MemberId;
use crate::segments::shared;
use smallvec::{SmallVec, smallvec};
use stria_block::{Buffer, Completion, ErrorKind, IoError, Nanos, Operation, Request, Segments, Tag, bytes};

/// A client's request while parts of it run.
pub(crate) struct Parent {
    pub(super) tag: Tag,
    pub(super) begun: Nanos,
    pub(super) start_sector: u64,
    pub(super) pending: usize,
    pub(super) error: Option<IoError>,
    /// What goes back to the client: a write's data. A read's memory is collected in `read`.
    pub(super) operation: Operation,
    pub(super) read: SmallVec<[(u64, Segments<Buffer>); 2]>,
}

impl Parent {
    pub(super) fn new(tag: Tag, begun: Nanos, start_sector: u64, pending: usize, operation: Operation) -> Self {
        Self { tag, begun, start_sector, pending, error: None, operation, read: SmallVec::new() }
    }

    /// A request that is done in this many parts.
    pub(crate) fn of(request: &Request, begun: Nanos, parts: usize) -> Self {
        let operation = match &request.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            Operation::Write { from, fua } => Operation::Write { from: shared(from), fua: *fua },
            Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua: *fua, unmap: *unmap, fast: *fast },
            Operation::Flush => Operation::Flush,
            Operation::Extents { .. } => Operation::Extents { extents: Vec::new() },
        };
        Self::new(request.tag, begun, request.start_sector, parts, operation)
    }

    /// A part has ended. A read brings its offset in the request and its memory. Returns whether it was the last.
    pub(crate) fn part_done(&mut self, read: Option<(u64, Segments<Buffer>)>, result: Result<(), IoError>) -> bool {
        self.pending -= 1;
        self.read.extend(read);
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
        self.pending == 0
    }

    /// The request's completion. A read's memory is joined again as far as it was one piece.
    pub(crate) fn end(mut self) -> Completion {
        if let Operation::Read { into } = &mut self.operation {
            self.read.sort_unstable_by_key(|(offset, _)| *offset);
            for buffer in self.read.into_iter().flat_map(|(_, segments)| segments) {
                let rest = match into.last_mut() {
                    Some(last) => last.unite(buffer).err(),
                    None => Some(buffer),
                };
                into.extend(rest);
            }
        }
        Completion { tag: self.tag, result: self.error.map_or(Ok(()), Err), operation: self.operation }
    }
}

impl Core {
    /// Splits a client's request into `parts`, none of which has been sent yet.
    pub fn begin(&self, request: &mut Request, parts: usize) -> usize {
        self.parents.borrow_mut().insert(Parent::of(request, self.now(), parts))
    }

    /// Registers a request that was begun another way as a request of one part.
    pub fn begin_again(&self, tag: Tag, begun: Nanos, start_sector: u64, operation: Operation) -> usize {
        self.parents.borrow_mut().insert(Parent::new(tag, begun, start_sector, 1, operation))
    }

    /// Turns a client's request into one to a member, at `start_sector` there.
    pub fn whole(&self, request: &mut Request, member: MemberId, start_sector: u64) {
        self.pass_through_count.set(self.pass_through_count.get() + 1);
        let waiting = Waiting::Client { tag: request.tag, begun: self.now(), array_sector: request.start_sector };
        request.tag = self.note(member, start_sector, request.sectors, waiting);
        request.start_sector = start_sector;
    }

    pub fn more_parts(&self, parent: usize, parts: usize) {
        self.parents.borrow_mut()[parent].pending += parts;
    }

    /// Sends a part of a client's request to a member unchanged.
    pub fn send_part(&self, parent: usize, pieces: Pieces, io: MemberIo) {
        self.send(io.member, io.start_sector, io.sectors, io.operation, Waiting::Part { parent, pieces });
    }

    /// The first sector of a client's request.
    pub fn parent_start(&self, parent: usize) -> u64 {
        self.parents.borrow()[parent].start_sector
    }

    /// Turns a client's read that went to one member unsplit into a request of one part.
    pub fn as_parent(&self, tag: Tag, begun: Nanos, array_sector: u64) -> usize {
        self.pass_through_count.set(self.pass_through_count.get() - 1);
        let read = Operation::Read { into: Segments::new() };
        self.parents.borrow_mut().insert(Parent::new(tag, begun, array_sector, 1, read))
    }

    /// A part of a read has ended, with memory for several offsets.
    pub fn part_read(&self, parent: usize, read: impl IntoIterator<Item = (u64, Segments<Buffer>)>) {
        self.parents.borrow_mut()[parent].read.extend(read);
        self.part_done(parent, None, Ok(()));
    }

    /// A part has ended. A read brings its offset in the request and its memory. The last part completes the request.
    pub fn part_done(&self, parent: usize, read: Option<(u64, Segments<Buffer>)>, result: Result<(), IoError>) {
        let mut parents = self.parents.borrow_mut();
        if !parents[parent].part_done(read, result) {
            return;
        }
        let state = parents.remove(parent);
        drop(parents);
        if matches!(state.operation, Operation::Read { .. } | Operation::Write { .. }) {
            self.steering.ended(state.begun, self.now());
        }
        self.done(state.end());
    }

    pub fn done(&self, completion: Completion) {
        self.outbox.borrow_mut().push_back(Action::Done(completion));
    }

    pub fn requests_in_flight(&self) -> usize {
        let begun = self.parents.borrow().len() + self.pass_through_count.get() + self.straight_copies.borrow().len();
        begun + self.straight_writes.unacknowledged() + self.consistent_ranges.waiting.get()
    }

    pub fn take_buffer(&self, sectors: u64) -> Buffer {
        self.pool.borrow_mut().take(bytes(sectors))
    }

    pub fn give_buffer(&self, buffer: Buffer) {
        self.pool.borrow_mut().give(buffer);
    }

    /// Returns the read buffers of these outcomes to the pool.
    pub fn recycle(&self, outcomes: Outcomes) {
        for (_, operation) in outcomes {
            if let Operation::Read { into } = operation {
                into.into_iter().for_each(|buffer| self.give_buffer(buffer));
            }
        }
    }

    pub fn read_io(&self, member: MemberId, start_sector: u64, sectors: u64) -> MemberIo {
        let into = smallvec![self.take_buffer(sectors)];
        MemberIo { member, start_sector, sectors, operation: Operation::Read { into } }
    }
}

/// A part of a client's request that its member failed.
pub(crate) struct FailedPart {
    pub parent: usize,
    pub offset_sectors: u64,
    pub array_sector: u64,
    /// The member that failed or is slow; `None`: it is missing.
    pub member: Option<MemberId>,
    pub start_sector: u64,
    pub sectors: u64,
    pub into: Segments<Buffer>,
    pub error: IoError,
}

impl FailedPart {
    /// Ends the part with data read elsewhere, or with the error.
    pub fn deliver(mut self, core: &Core, read: Option<Buffer>) {
        let result = match read {
            Some(buffer) => {
                let mut rest = &buffer[..];
                for segment in &mut self.into {
                    let (front, back) = rest.split_at(segment.len());
                    segment.copy_from_slice(front);
                    rest = back;
                }
                core.give_buffer(buffer);
                Ok(())
            }
            None => Err(lost(&format!("read at sector {}", self.array_sector), &self.error.context)),
        };
        core.part_done(self.parent, Some((self.offset_sectors, self.into)), result);
    }
}

/// What a client is told when redundancy does not suffice.
pub(crate) fn lost(what: &str, cause: &str) -> IoError {
    IoError::new(ErrorKind::Failed, format!("{what} failed: {cause}; more members are lost here than redundancy replaces"))
}
