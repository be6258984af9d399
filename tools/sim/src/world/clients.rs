//! The clients of a history: what they have asked for, and what they ask again of the next process.

use crate::model::Moment;
use std::ops::Range;
use stria_array::WritePolicy;
use stria_block::{Nanos, Operation};

/// A request that has not been answered.
pub struct Pending {
    pub tag: u64,
    pub write: u32,
    pub range: Range<u64>,
    pub kind: Kind,
    pub begun: Moment,
    pub since: Nanos,
    /// The request, if clients repeat unanswered requests.
    pub again: Option<Operation>,
}

/// The request. A read is left out: it changes nothing, and its client has seen no bytes.
fn again(operation: &Operation) -> Option<Operation> {
    match operation {
        Operation::Write { from, fua } => Some(Operation::Write { from: from.clone(), fua: *fua }),
        &Operation::WriteZeroes { fua, unmap, fast } => Some(Operation::WriteZeroes { fua, unmap, fast }),
        Operation::Flush => Some(Operation::Flush),
        Operation::Read { .. } | Operation::Extents { .. } => None,
    }
}

/// What a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    /// Which parts are holes.
    Extents,
    Write {
        fua: bool,
    },
    Discard,
    Flush,
    /// A flush that does not wait for the drives, by the write policy: it guarantees nothing.
    LooseFlush,
}

impl Kind {
    /// The guarantee for a request under a write policy.
    pub fn under(self, policy: WritePolicy) -> Self {
        match (self, policy) {
            (Kind::Write { .. }, WritePolicy::Through) => Kind::Write { fua: true },
            (Kind::Write { .. }, WritePolicy::Back) => Kind::Write { fua: false },
            (Kind::Flush, WritePolicy::Back) => Kind::LooseFlush,
            (kind, _) => kind,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Extents => "extents",
            Kind::Write { fua: true } => "write FUA",
            Kind::Write { fua: false } => "write",
            Kind::Discard => "discard",
            Kind::Flush => "flush",
            Kind::LooseFlush => "flush that is not waited for",
        }
    }
}

/// All clients.
pub struct Clients {
    /// The most requests at a time.
    depth: usize,
    /// True if clients outlive a killed process, and repeat what it did not answer.
    repeats: bool,
    pending: Vec<Pending>,
    /// Requests that killed processes had not answered, since the last process that served.
    unanswered: Vec<Pending>,
    begun_count: u64,
}

impl Clients {
    /// Clients that have asked for nothing.
    pub fn new(depth: usize, repeats: bool) -> Self {
        Self { depth, repeats, pending: Vec::new(), unanswered: Vec::new(), begun_count: 0 }
    }

    /// True if a further request has to wait.
    pub fn are_busy(&self) -> bool {
        self.pending.len() >= self.depth
    }

    /// Requests that wait for an answer.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The number of the next write.
    pub fn next_write(&self) -> u32 {
        self.begun_count as u32 + 1
    }

    /// When the oldest pending request began.
    pub fn oldest_since(&self) -> Option<Nanos> {
        self.pending.iter().map(|pending| pending.since).min()
    }

    /// The tag of the next request.
    pub fn next_tag(&mut self) -> u64 {
        self.begun_count += 1;
        self.begun_count
    }

    /// A request begins. `operation`: what would be repeated.
    pub fn begin(&mut self, mut pending: Pending, operation: &Operation) {
        pending.again = if self.repeats { again(operation) } else { None };
        self.pending.push(pending);
    }

    /// A request has ended; `None`: there is none of this tag.
    pub fn end(&mut self, tag: u64) -> Option<Pending> {
        let index = self.pending.iter().position(|pending| pending.tag == tag)?;
        Some(self.pending.swap_remove(index))
    }

    /// The process is killed, or (`!kill`) the power goes, and the clients with it.
    pub fn crash(&mut self, kill: bool) {
        self.unanswered.append(&mut self.pending);
        if !kill {
            self.unanswered.clear();
        }
    }

    /// Requests that no process has answered.
    pub fn take_unanswered(&mut self) -> Vec<Pending> {
        std::mem::take(&mut self.unanswered)
    }
}
