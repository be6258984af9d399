//! The time, as the engine is told, and the tasks that wait for some of it.

use crate::task::{Ready, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;
use stria_block::Nanos;

#[derive(Default)]
pub(crate) struct Clock {
    now: Cell<Nanos>,
    timers: RefCell<BTreeSet<(Nanos, TaskId)>>,
}

impl Clock {
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    /// The time has come to `now`: wakes the tasks that waited for it.
    pub fn set(&self, ready: &Ready, now: Nanos) {
        self.now.set(now);
        let mut timers = self.timers.borrow_mut();
        while let Some(&(due, task)) = timers.first()
            && due <= now
        {
            timers.pop_first();
            ready.wake(task);
        }
    }

    /// The time at which the next task is due.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.borrow().first().map(|&(due, _)| due)
    }

    pub async fn sleep_until(&self, ready: &Ready, due: Nanos) {
        poll_fn(|_| {
            if self.now() >= due {
                return Poll::Ready(());
            }
            self.wake_at(ready, due);
            Poll::Pending
        })
        .await;
    }

    /// Wakes the current task at `due`, which is returned.
    pub fn wake_at(&self, ready: &Ready, due: Nanos) -> Nanos {
        self.timers.borrow_mut().insert((due, ready.current()));
        due
    }
}
