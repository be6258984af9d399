//! Many runs at once, over the processors of this machine.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The threads that work of this thread may take; `None`: as many as the machine has processors.
    static CORES: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Does work whose [`at_once`] takes so many threads at most.
pub fn within<R>(cores: usize, work: impl FnOnce() -> R) -> R {
    let before = CORES.replace(Some(cores.max(1)));
    let result = work();
    CORES.set(before);
    result
}

/// Does work on all items, several at once, and keeps their order. `ended` is called after each with the number of items that
/// ended, and of all.
pub fn at_once<T: Sync, R: Send>(items: &[T], ended: &(dyn Fn(usize, usize) + Sync), work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(items.iter().map(|_| None).collect::<Vec<Option<R>>>());
    let cores = CORES.get().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let threads = cores.min(items.len());
    let work_on = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            // A thread for each item is enough: work inside of it takes no further ones.
            let result = within(1, || work(item));
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
            ended(count.fetch_add(1, Ordering::Relaxed) + 1, items.len());
        }
    };
    // The threads beside this one that the system gives.
    std::thread::scope(|scope| {
        let more = (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work_on).ok());
        more.for_each(drop);
        work_on();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::thread::{ThreadId, current};

    /// The threads that work takes, of `expected`, and those that work inside of it takes.
    fn threads(items: usize, expected: usize) -> (usize, usize) {
        let all_work = std::sync::Barrier::new(expected);
        let own = |_: &usize| current().id();
        let nested = |item: &usize| {
            // The threads wait for each other, so that a late one takes an item too.
            all_work.wait();
            (own(item), at_once(&[0; 4], &|_, _| (), own).into_iter().collect::<HashSet<ThreadId>>().len())
        };
        let found = at_once(&vec![0; items], &|_, _| (), nested);
        (
            found.iter().map(|(id, _)| *id).collect::<HashSet<ThreadId>>().len(),
            found.iter().map(|(_, inner)| *inner).max().unwrap_or(0),
        )
    }

    #[test]
    fn no_more_threads_work_than_were_asked_for() {
        assert_eq!(within(3, || threads(12, 3)), (3, 1));
        assert_eq!(within(8, || threads(2, 2)), (2, 1));
        assert_eq!(within(1, || threads(4, 1)), (1, 1));
    }
}
