//! Locks on ranges of the sync space, first come, first served.
//!
//! Writers and sweeps lock exclusively; reads that recover data share. A new lock also waits behind earlier waiters that it
//! conflicts with, so a stream of readers cannot starve a writer.

use crate::SyncSector;
use crate::address::Sectors;
use crate::task::{Ready, TaskId};
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

#[derive(Clone)]
struct Entry {
    range: Range<SyncSector>,
    mode: Mode,
    /// The task that waits for it. `None`: it is held.
    waiter: Option<TaskId>,
}

#[derive(Default)]
struct State {
    entries: Slab<Entry>,
    /// Exclusive ranges in order; they never overlap. There are as few as writes in flight.
    exclusive: Vec<Range<SyncSector>>,
    shared: Vec<Range<SyncSector>>,
    waiting: VecDeque<usize>,
}

impl State {
    fn free_for(&self, range: &Range<SyncSector>, mode: Mode) -> bool {
        let before = self.exclusive.partition_point(|held| held.start < range.end);
        let alone = before == 0 || self.exclusive[before - 1].end <= range.start;
        alone && (mode == Mode::Shared || !self.shared.iter().any(|held| held.overlaps(range)))
    }

    /// True if a new lock on `range` would not wait.
    fn is_open_to(&self, range: &Range<SyncSector>, mode: Mode) -> bool {
        self.free_for(range, mode) && !self.conflicts_with_waiter(range, mode, self.waiting.len())
    }

    fn hold(&mut self, key: usize) {
        let entry = &mut self.entries[key];
        entry.waiter = None;
        match entry.mode {
            Mode::Exclusive => {
                let place = self.exclusive.partition_point(|held| held.start < entry.range.start);
                self.exclusive.insert(place, entry.range.clone());
            }
            Mode::Shared => self.shared.push(entry.range.clone()),
        }
    }

    fn conflicts_with_waiter(&self, range: &Range<SyncSector>, mode: Mode, ahead: usize) -> bool {
        self.waiting.iter().take(ahead).any(|&key| {
            let earlier = &self.entries[key];
            (mode == Mode::Exclusive || earlier.mode == Mode::Exclusive) && earlier.range.overlaps(range)
        })
    }

    fn release(&mut self, key: usize, ready: &Ready) {
        let entry = self.entries.remove(key);
        if entry.waiter.is_some() {
            self.waiting.retain(|&waiter| waiter != key);
        } else if entry.mode == Mode::Exclusive {
            let place = self.exclusive.partition_point(|held| held.start < entry.range.start);
            self.exclusive.remove(place);
        } else {
            let index = self.shared.iter().position(|held| *held == entry.range).expect("held locks are listed");
            self.shared.swap_remove(index);
        }
        let mut ahead = 0;
        while ahead < self.waiting.len() {
            let key = self.waiting[ahead];
            let Entry { range, mode, waiter } = self.entries[key].clone();
            if self.free_for(&range, mode) && !self.conflicts_with_waiter(&range, mode, ahead) {
                self.waiting.remove(ahead);
                self.hold(key);
                waiter.into_iter().for_each(|task| ready.wake(task));
            } else {
                ahead += 1;
            }
        }
    }
}

/// All locks of an array.
#[derive(Default)]
pub(crate) struct Locks(RefCell<State>);

/// A lock held, or waited for, until dropped.
pub(crate) struct Guard<'a> {
    locks: &'a Locks,
    ready: &'a Ready,
    key: usize,
}

impl Locks {
    /// Locks `range` exclusively if no one holds or waits for any of it. Release it with [`Locks::unlock`].
    pub fn try_lock(&self, range: &Range<SyncSector>) -> Option<usize> {
        let mut state = self.0.borrow_mut();
        let mode = Mode::Exclusive;
        if !state.is_open_to(range, mode) {
            return None;
        }
        let key = state.entries.insert(Entry { range: range.clone(), mode, waiter: None });
        state.hold(key);
        Some(key)
    }

    /// True if one lock holds all of `range` exclusively.
    pub fn is_exclusive(&self, range: &Range<SyncSector>) -> bool {
        let state = self.0.borrow();
        let before = state.exclusive.partition_point(|held| held.start <= range.start);
        before > 0 && state.exclusive[before - 1].end >= range.end
    }

    /// Releases a lock that no task holds.
    pub fn unlock(&self, key: usize, ready: &Ready) {
        self.0.borrow_mut().release(key, ready);
    }

    /// Waits for `range`.
    pub async fn lock<'a>(&'a self, ready: &'a Ready, range: Range<SyncSector>, mode: Mode) -> Guard<'a> {
        let key = {
            let mut state = self.0.borrow_mut();
            let free = state.is_open_to(&range, mode);
            let key = state.entries.insert(Entry { range, mode, waiter: Some(ready.current()) });
            if free {
                state.hold(key)
            } else {
                state.waiting.push_back(key)
            }
            key
        };
        let guard = Guard { locks: self, ready, key };
        poll_fn(|_| if self.0.borrow().entries[key].waiter.is_none() { Poll::Ready(()) } else { Poll::Pending }).await;
        guard
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.locks.0.borrow_mut().release(self.key, self.ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Tasks;
    use std::rc::Rc;

    /// Takes a lock, notes its name, and holds it until `n` more turns have passed.
    async fn holder(
        all: Rc<(Locks, Ready, RefCell<Vec<&'static str>>)>,
        name: &'static str,
        range: Range<SyncSector>,
        mode: Mode,
        turns: usize,
    ) {
        let _guard = all.0.lock(&all.1, range, mode).await;
        all.2.borrow_mut().push(name);
        let mut left = turns;
        poll_fn(|_| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            all.1.wake(all.1.current());
            Poll::Pending
        })
        .await;
    }

    #[test]
    fn conflicting_locks_are_granted_in_the_order_of_arrival() {
        use Mode::*;
        let all = Rc::new((Locks::default(), Ready::default(), RefCell::default()));
        let mut tasks = Tasks::default();
        for (name, range, mode, turns) in [
            ("reader", 0..8, Shared, 3),
            ("second reader shares", 4..12, Shared, 3),
            ("elsewhere", 20..30, Exclusive, 0),
            ("writer waits for both", 6..10, Exclusive, 0),
            ("late reader waits for the writer", 0..7, Shared, 0),
        ] {
            all.1.spawn(holder(Rc::clone(&all), name, SyncSector::span(range), mode, turns));
        }
        tasks.run(&all.1);
        assert_eq!(tasks.len(), 0);
        let order = ["reader", "second reader shares", "elsewhere", "writer waits for both", "late reader waits for the writer"];
        assert_eq!(*all.2.borrow(), order);
    }
}
