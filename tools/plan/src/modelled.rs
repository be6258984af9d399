//! A model with the interface of a block device, so that the array engine runs on it as on any other. It stores no data: the
//! memory of a read comes back unchanged.

use crate::model::{Ask, Kind, Model};
use slab::Slab;
use stria_block::{BlockDevice, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request, Tag};

/// A model as a device (see the module).
pub struct Modelled<M> {
    model: M,
    limits: Limits,
    now: Nanos,
    /// Requests by the model's tag.
    under_way: Slab<Request>,
    refused: Vec<Completion>,
    ended: Vec<Tag>,
}

impl<M: Model> Modelled<M> {
    /// `volatile_cache`: the drive needs flushes. `rotational`: it has moving parts. Time begins at 0.
    pub fn new(model: M, volatile_cache: bool, rotational: bool) -> Self {
        let limits = Limits { volatile_cache, rotational, unmap_zeroes: !rotational, ..Limits::plain(model.size_sectors()) };
        Self { model, limits, now: 0, under_way: Slab::new(), refused: Vec::new(), ended: Vec::new() }
    }

    /// Moves time to `now`: the next requests are submitted then.
    pub fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }
}

impl<M: Model> BlockDevice for Modelled<M> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let kind = match &request.operation {
            Operation::Read { .. } => Kind::Read,
            Operation::Write { fua, .. } => Kind::Write { fua: *fua },
            Operation::Flush => Kind::Flush,
            Operation::WriteZeroes { unmap: true, .. } => Kind::Trim,
            Operation::WriteZeroes { unmap: false, fast: false, fua } => Kind::Write { fua: *fua },
            Operation::WriteZeroes { .. } | Operation::Extents { .. } => {
                let error = IoError::new(ErrorKind::Unsupported, "a modelled drive keeps no data".to_owned());
                self.refused.push(request.complete(Err(error)));
                return;
            }
        };
        if let Err(error) = request.check(&self.limits) {
            self.refused.push(request.complete(Err(error)));
            return;
        }
        let (start_sector, sectors) = (request.start_sector, request.sectors);
        let tag = self.under_way.insert(request) as Tag;
        self.model.submit(self.now, Ask { tag, kind, start_sector, sectors });
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.advance(now);
        if !self.refused.is_empty() {
            completions.append(&mut self.refused);
        }
        // The engine polls every member each time that one of them has answered.
        if self.model.next_wake().is_none_or(|wake| wake > self.now) {
            return;
        }
        self.model.poll(self.now, &mut self.ended);
        for tag in self.ended.drain(..) {
            let request = self.under_way.remove(tag as usize);
            completions.push(request.complete(Ok(())));
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.refused.is_empty() { self.model.next_wake() } else { Some(0) }
    }
}
