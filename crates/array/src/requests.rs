//! Clients' requests under way: those in parts, those that went to one member unsplit, and those that wait to begin.

use crate::ArraySector;
use crate::segments::shared;
use slab::Slab;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use stria_block::{Buffer, Completion, IoError, Nanos, Operation, Request, Segments, Tag};

/// A client's request while parts of it run.
pub(crate) struct Parent {
    tag: Tag,
    begun: Nanos,
    start_sector: ArraySector,
    pending: usize,
    error: Option<IoError>,
    /// The operation that goes back to the client, with a write's data. A read's memory is collected in `read`.
    operation: Operation,
    read: SmallVec<[(u64, Segments<Buffer>); 2]>,
    /// True if the memory of a read came in one piece, and goes back so.
    in_one_piece: bool,
}

impl Parent {
    /// The time of the request, if it is a read or a write.
    pub fn begun_io(&self) -> Option<Nanos> {
        matches!(self.operation, Operation::Read { .. } | Operation::Write { .. }).then_some(self.begun)
    }

    fn new(tag: Tag, begun: Nanos, start_sector: ArraySector, pending: usize, operation: Operation) -> Self {
        Self { tag, begun, start_sector, pending, error: None, operation, read: SmallVec::new(), in_one_piece: false }
    }

    /// A request that is done in this many parts.
    pub fn of(request: &Request, begun: Nanos, parts: usize) -> Self {
        let operation = match &request.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            Operation::Write { from, fua } => Operation::Write { from: shared(from), fua: *fua },
            Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua: *fua, unmap: *unmap, fast: *fast },
            Operation::Flush => Operation::Flush,
            Operation::Extents { .. } => Operation::Extents { extents: Vec::new() },
        };
        let in_one_piece = matches!(&request.operation, Operation::Read { into } if into.len() == 1);
        Self { in_one_piece, ..Self::new(request.tag, begun, ArraySector::new(request.start_sector), parts, operation) }
    }

    /// A part has ended. A read brings its offset in the request and its memory. Returns whether it was the last.
    pub fn part_done(&mut self, read: Option<(u64, Segments<Buffer>)>, result: Result<(), IoError>) -> bool {
        self.pending -= 1;
        self.read.extend(read);
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
        self.pending == 0
    }

    /// The request's completion. Pieces of a read that lie side by side in the client's memory become one again. A part of a
    /// hedged read has other memory, since the slow member still has the client's. A read of one piece is then copied together.
    pub fn end(mut self) -> Completion {
        if let Operation::Read { into } = &mut self.operation {
            self.read.sort_unstable_by_key(|(offset, _)| *offset);
            for buffer in self.read.into_iter().flat_map(|(_, segments)| segments) {
                let rest = match into.last_mut() {
                    Some(last) => last.unite(buffer).err(),
                    None => Some(buffer),
                };
                into.extend(rest);
            }
            if self.in_one_piece && into.len() > 1 {
                *into = std::iter::once(joined(into)).collect();
            }
        }
        Completion { tag: self.tag, result: self.error.map_or(Ok(()), Err), operation: self.operation }
    }
}

fn joined(pieces: &[Buffer]) -> Buffer {
    let mut whole = Buffer::zeroed(pieces.iter().map(|piece| piece.len()).sum());
    let mut at = 0;
    for piece in pieces {
        whole[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    whole
}

/// All of them, except writes that a ledger of their own tracks.
#[derive(Default)]
pub(crate) struct Requests {
    parents: RefCell<Slab<Parent>>,
    pass_through_count: Cell<usize>,
    /// Requests that wait until the array serves clients, or until a resync on read has ended.
    held: RefCell<Vec<Request>>,
    /// Reads that wait for such a resync.
    resyncing: Cell<usize>,
}

impl Requests {
    /// Begins one that is done in this many parts.
    pub fn begin(&self, request: &Request, begun: Nanos, parts: usize) -> usize {
        self.parents.borrow_mut().insert(Parent::of(request, begun, parts))
    }

    /// Begins one of one part, which keeps `operation`.
    pub fn begin_one(&self, tag: Tag, begun: Nanos, start_sector: ArraySector, operation: Operation) -> usize {
        self.parents.borrow_mut().insert(Parent::new(tag, begun, start_sector, 1, operation))
    }

    pub fn more_parts(&self, parent: usize, parts: usize) {
        self.parents.borrow_mut()[parent].pending += parts;
    }

    /// In the array.
    pub fn start_sector(&self, parent: usize) -> ArraySector {
        self.parents.borrow()[parent].start_sector
    }

    pub fn begun(&self, parent: usize) -> Nanos {
        self.parents.borrow()[parent].begun
    }

    pub fn is_read(&self, parent: usize) -> bool {
        matches!(self.parents.borrow()[parent].operation, Operation::Read { .. })
    }

    /// True if a request asks what space a range takes.
    pub fn asks_for_holes(&self, parent: usize) -> bool {
        matches!(self.parents.borrow()[parent].operation, Operation::Extents { .. })
    }

    /// Sets what goes back to the client.
    pub fn set_operation(&self, parent: usize, operation: Operation) {
        self.parents.borrow_mut()[parent].operation = operation;
    }

    /// Memory that was read, with its offsets in the request.
    pub fn add_read(&self, parent: usize, read: impl IntoIterator<Item = (u64, Segments<Buffer>)>) {
        self.parents.borrow_mut()[parent].read.extend(read);
    }

    /// A part has ended. Returns the request if it was the last.
    pub fn part_done(&self, parent: usize, read: Option<(u64, Segments<Buffer>)>, result: Result<(), IoError>) -> Option<Parent> {
        let mut parents = self.parents.borrow_mut();
        parents[parent].part_done(read, result).then(|| parents.remove(parent))
    }

    /// A request goes to one member unsplit.
    pub fn pass_through(&self) {
        self.pass_through_count.set(self.pass_through_count.get() + 1);
    }

    pub fn end_passed_through(&self) {
        self.pass_through_count.set(self.pass_through_count.get() - 1);
    }

    /// Turns a read that went to one member unsplit into a request of one part.
    pub fn as_parent(&self, tag: Tag, begun: Nanos, start_sector: ArraySector) -> usize {
        self.end_passed_through();
        self.begin_one(tag, begun, start_sector, Operation::Read { into: Segments::new() })
    }

    /// The number of requests that are at one member unsplit.
    pub fn passed_through(&self) -> usize {
        self.pass_through_count.get()
    }

    /// A request waits to begin.
    pub fn hold(&self, request: Request) {
        self.held.borrow_mut().push(request);
    }

    pub fn has_held(&self) -> bool {
        !self.held.borrow().is_empty()
    }

    /// Takes the requests that waited.
    pub fn take_held(&self) -> Vec<Request> {
        self.held.take()
    }

    /// A read waits for a resync of its range.
    pub fn begin_resync(&self) {
        self.resyncing.set(self.resyncing.get() + 1);
    }

    pub fn end_resync(&self) {
        self.resyncing.set(self.resyncing.get() - 1);
    }

    /// The number of requests under way.
    pub fn count(&self) -> usize {
        self.parents.borrow().len() + self.pass_through_count.get() + self.resyncing.get()
    }
}
