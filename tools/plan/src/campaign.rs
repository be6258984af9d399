//! Many runs at once, over the processors of this machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does work on all items, several at once, and keeps their order. `ended` is called after each with the number of items that
/// ended, and of all.
pub fn at_once<T: Sync, R: Send>(items: &[T], ended: &(dyn Fn(usize, usize) + Sync), work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(items.iter().map(|_| None).collect::<Vec<Option<R>>>());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                    ended(count.fetch_add(1, Ordering::Relaxed) + 1, items.len());
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}
