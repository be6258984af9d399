//! Copies that may differ while a sweep makes them alike.
//!
//! After a crash clients read the first copy that there is, and a resync makes the others like it. If the first one's member is dropped
//! while that runs, the next one counts, and may be about to become like the one that is gone. So reads wait until it has.

use crate::core::Core;
use crate::mirror_io::may_differ;
use crate::task::Waiters;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stria_block::Request;

/// Where copies are being made alike, in array sectors.
#[derive(Default)]
pub(crate) struct Alignments {
    ranges: RefCell<Vec<Range<u64>>>,
    ended: Waiters,
    /// How many reads wait.
    pub waiting: Cell<usize>,
}

/// One of them, until dropped.
pub(crate) struct Alignment<'a> {
    core: &'a Core,
    range: Range<u64>,
}

impl Drop for Alignment<'_> {
    fn drop(&mut self) {
        let mut ranges = self.core.alignments.ranges.borrow_mut();
        let index = ranges.iter().position(|range| *range == self.range).expect("it was begun");
        ranges.swap_remove(index);
        self.core.alignments.ended.wake_all(&self.core.ready);
    }
}

impl Core {
    /// Copies of a range, whose sectors are locked, are about to be made alike.
    pub fn align(&self, range: &Range<u64>) -> Alignment<'_> {
        self.alignments.ranges.borrow_mut().push(range.clone());
        Alignment { core: self, range: range.clone() }
    }

    /// Whether copies of a range are being made alike that may differ.
    pub fn aligns(&self, range: &Range<u64>) -> bool {
        let ranges = self.alignments.ranges.borrow();
        ranges.iter().any(|aligned| aligned.start < range.end && range.start < aligned.end) && may_differ(self, range)
    }
}

/// Holds a client's read back until copies are alike there.
pub(crate) async fn read_later(core: Rc<Core>, request: Request) {
    let range = request.start_sector..request.end_sector();
    core.ready.until(&core.alignments.ended, || !core.aligns(&range)).await;
    core.alignments.waiting.set(core.alignments.waiting.get() - 1);
    core.held.borrow_mut().push(request);
}
