//! A device that does nothing, to measure the cost of the layers above it.

use stria_block::{BlockDevice, Completion, Limits, Nanos, Request};

/// Completes every request at the next poll and moves no bytes: reads leave memory as it was.
pub struct NullDevice {
    limits: Limits,
    ended: Vec<Completion>,
}

impl NullDevice {
    /// A null device that reports `size_sectors`.
    pub fn new(size_sectors: u64) -> Self {
        Self { limits: Limits::plain(size_sectors), ended: Vec::new() }
    }
}

impl BlockDevice for NullDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let result = request.check(&self.limits);
        self.ended.push(request.complete(result));
    }

    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
    }

    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty()).then_some(0)
    }
}
