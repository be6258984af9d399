//! What a block device promises.

use crate::{Completion, Limits, Nanos, Request};

/// A device that takes requests and ends each of them exactly once, later.
///
/// No call blocks. `submit` may only queue; work proceeds in `poll`. Requests may run and end in any order: a submitter that
/// needs an order waits for one to end before it submits the next. A flush covers every write that ended before the flush was
/// submitted.
pub trait BlockDevice {
    /// What the device can do.
    fn limits(&self) -> &Limits;

    /// Takes a request. An invalid one (out of range, misaligned) ends with an error like any other.
    fn submit(&mut self, request: Request);

    /// Makes progress, and appends the requests that ended. `now` never goes back.
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>);

    /// When `poll` next makes progress without outside events: `Some(0)` at once, `None` if the device is idle or waits for its
    /// drive.
    fn next_wake(&self) -> Option<Nanos>;
}

impl BlockDevice for Box<dyn BlockDevice> {
    fn limits(&self) -> &Limits {
        (**self).limits()
    }
    fn submit(&mut self, request: Request) {
        (**self).submit(request)
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        (**self).poll(now, completions)
    }
    fn next_wake(&self) -> Option<Nanos> {
        (**self).next_wake()
    }
}
