//! Writes on RAID 1 and 10 under way.

use crate::task::Crew;
use crate::{ArraySector, MemberId};
use slab::Slab;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use stria_block::{Data, IoError, Nanos, Operation, Segments, Tag};

/// A write without a task: it waits for nothing but its copies.
pub(crate) struct CopiesWrite {
    pub tag: Tag,
    pub begun: Nanos,
    pub range: Range<ArraySector>,
    /// Its lock on the range.
    pub lock: usize,
    /// Copies that are still being written.
    pub pending: usize,
    pub failures: SmallVec<[(MemberId, Result<(), IoError>); 1]>,
    /// The client's operation.
    pub operation: Operation,
}

/// A write that a task performs.
pub(crate) struct CopiesJob {
    pub parent: usize,
    pub start_sector: ArraySector,
    pub from: Segments<Data>,
    pub fua: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct MirrorWrites {
    straight: RefCell<Slab<CopiesWrite>>,
    pub crew: Crew<CopiesJob>,
}

impl MirrorWrites {
    /// The key of the write that [begins](MirrorWrites::begin) next.
    pub fn next_key(&self) -> usize {
        self.straight.borrow().vacant_key()
    }

    pub fn begin(&self, write: CopiesWrite) {
        self.straight.borrow_mut().insert(write);
    }

    /// True if the end of a copy leaves nothing to do but to complete the client's request, once it is the last.
    /// `may_acknowledge`: a write that all its members took may be acknowledged now.
    #[inline]
    pub fn ends_quietly(&self, key: usize, may_acknowledge: impl FnOnce() -> bool) -> bool {
        let write = &self.straight.borrow()[key];
        write.pending > 1 || (write.failures.is_empty() && may_acknowledge())
    }

    /// A copy has ended. Returns the write if it was the last.
    #[inline]
    pub fn copy_ended(&self, key: usize, member: MemberId, result: Result<(), IoError>) -> Option<CopiesWrite> {
        let mut writes = self.straight.borrow_mut();
        let write = &mut writes[key];
        write.pending -= 1;
        if result.is_err() {
            write.failures.push((member, result));
        }
        (write.pending == 0).then(|| writes.remove(key))
    }

    /// The number of writes that run without a task.
    pub fn count(&self) -> usize {
        self.straight.borrow().len()
    }
}
