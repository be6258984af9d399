//! Files that a ring has registered.

use std::cell::RefCell;
use std::rc::Rc;

/// A file's index among those registered with a ring and its sides, which saves the kernel a look-up for each entry. The drive
/// and each of its jobs hold it; the index is freed, and the file unregistered, once none of them is left.
pub(crate) struct Registered {
    pub(crate) index: u32,
    pub(crate) released: Rc<RefCell<Vec<u32>>>,
}

impl Registered {
    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Not at once: the ring itself may be dropping a job.
        self.released.borrow_mut().push(self.index);
    }
}
