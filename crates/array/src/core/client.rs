//! Clients' requests while parts of them run, and their completions.

use super::Core;
use crate::action::Action;
use crate::member_requests::{MemberIo, Outcomes, Pieces, Waiting};
use crate::mirror_writes::CopiesWrite;
use crate::{ArraySector, MemberId, MemberSector};
use smallvec::smallvec;
use std::ops::Range;
use stria_block::{Buffer, Completion, ErrorKind, Extent, IoError, Operation, Request, Segments};

impl Core {
    /// Splits a client's request into `parts`, none of which has been sent yet.
    pub fn begin(&self, request: &mut Request, parts: usize) -> usize {
        self.requests.begin(request, self.now(), parts)
    }

    /// Turns a client's request into one to a member, at `start_sector` there.
    pub fn pass_through(&self, request: &mut Request, member: MemberId, start_sector: MemberSector) {
        self.requests.pass_through();
        let waiting =
            Waiting::Client { tag: request.tag, begun: self.now(), array_sector: ArraySector::new(request.start_sector) };
        request.tag = self.note(member, start_sector, request.sectors, waiting);
        request.start_sector = start_sector.get();
    }

    /// Sends a part of a client's request to a member unchanged.
    pub fn send_part(&self, parent: usize, pieces: Pieces, io: MemberIo) {
        self.send(io.member, io.start_sector, io.sectors, io.operation, Waiting::Part { parent, pieces });
    }

    /// A part of a read has ended, with memory for several offsets.
    pub fn part_read(&self, parent: usize, read: impl IntoIterator<Item = (u64, Segments<Buffer>)>) {
        self.requests.add_read(parent, read);
        self.part_done(parent, None, Ok(()));
    }

    /// A part has ended. A read brings its offset in the request and its memory. The last part completes the request.
    pub fn part_done(&self, parent: usize, read: Option<(u64, Segments<Buffer>)>, result: Result<(), IoError>) {
        let Some(ended) = self.requests.part_done(parent, read, result) else { return };
        if let Some(begun) = ended.begun_io() {
            self.steering.ended(begun, self.now());
        }
        self.done(ended.end());
    }

    /// A write of copies has ended: its range is free. Returns the client's completion.
    #[inline]
    pub fn end_copies(&self, write: CopiesWrite, result: Result<(), IoError>) -> Completion {
        self.locks.unlock(write.lock, &self.ready);
        self.steering.ended(write.begun, self.now());
        Completion { tag: write.tag, result, operation: write.operation }
    }

    pub fn done(&self, completion: Completion) {
        self.outbox.push(Action::Done(completion));
    }

    pub fn requests_in_flight(&self) -> usize {
        self.requests.count() + self.mirror_writes.count() + self.straight_writes.unacknowledged()
    }

    /// Returns the read buffers of these outcomes to the pool.
    pub fn recycle(&self, outcomes: Outcomes) {
        for (_, operation) in outcomes {
            if let Operation::Read { into } = operation {
                into.into_iter().for_each(|buffer| self.buffers.give(buffer));
            }
        }
    }

    pub fn read_io(&self, member: MemberId, start_sector: MemberSector, sectors: u64) -> MemberIo {
        let into = smallvec![self.buffers.take(sectors)];
        MemberIo { member, start_sector, sectors, operation: Operation::Read { into } }
    }
}

/// A part of a client's request that its member failed.
pub(crate) struct FailedPart {
    pub parent: usize,
    pub offset_sectors: u64,
    pub array_sector: ArraySector,
    /// The member that failed or is slow; `None`: it is missing.
    pub member: Option<MemberId>,
    pub start_sector: MemberSector,
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
                core.buffers.give(buffer);
                Ok(())
            }
            None => Err(lost(&format!("read at sector {}", self.array_sector), &self.error.context)),
        };
        core.part_done(self.parent, Some((self.offset_sectors, self.into)), result);
    }
}

/// The array sectors of a client's request.
#[inline(always)]
pub(crate) fn array_range(request: &Request) -> Range<ArraySector> {
    ArraySector::new(request.start_sector)..ArraySector::new(request.end_sector())
}

/// The answer to a client that asks for holes where none is known.
pub(crate) fn all_data(sectors: u64) -> Operation {
    Operation::Extents { extents: vec![Extent { sectors, hole: false }] }
}

/// The error for a client when redundancy does not suffice.
pub(crate) fn lost(what: &str, cause: &str) -> IoError {
    IoError::new(ErrorKind::Failed, format!("{what} failed: {cause}; more members are lost here than redundancy replaces"))
}
