//! Calls to which the kernel may report what a drive has lost: flushes, and FUA writes that flush.
//!
//! The kernel reports it to one call alone. A flush that succeeds beside such a call proves nothing before the end of that call is
//! known: it may have had the report.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The calls of one drive, on all its lanes.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    calls: Mutex<Calls>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Calls {
    /// The number of the next call.
    next: u64,
    /// Those whose end is not known.
    open: BTreeSet<u64>,
}

impl Reports {
    /// A call begins. Returns its number.
    pub fn begin(&self) -> u64 {
        let mut calls = self.lock();
        let number = calls.next;
        calls.next += 1;
        calls.open.insert(number);
        number
    }

    /// The end of a call is known, and counted if it failed.
    pub fn end(&self, number: u64) {
        self.lock().open.remove(&number);
        self.ended.notify_all();
    }

    /// Waits until the ends of all present calls are known.
    pub fn wait_for_present(&self) {
        let calls = self.lock();
        let next = calls.next;
        let is_open = |calls: &mut Calls| calls.open.first().is_some_and(|&first| first < next);
        drop(self.ended.wait_while(calls, is_open).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
