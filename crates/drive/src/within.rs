//! Calls that may wait for a drive or a file system that hangs, each on a thread of its own, for a bounded time.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Why a call gave no result in time.
#[derive(Debug)]
pub enum NotInTime {
    /// There was no thread for it.
    NoThread(io::Error),
    /// It still waits. Its thread ends when the call returns, and drops the result.
    Late,
    /// It panicked.
    Panicked,
}

/// Runs `work` on a thread, and waits at most `patience` for its result.
///
/// # Errors
/// There is no result in time.
pub fn within<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, NotInTime> {
    result_by(Instant::now() + patience, begin(work))
}

/// Runs `work` for all of these at once, each on a thread, and waits at most `patience` for all. The results are in the same
/// order.
pub fn within_each<I, T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    patience: Duration,
    items: impl IntoIterator<Item = I>,
    mut work: impl FnMut(I) -> W,
) -> Vec<Result<T, NotInTime>> {
    let end = Instant::now() + patience;
    let begun: Vec<_> = items.into_iter().map(|item| begin(work(item))).collect();
    begun.into_iter().map(|begun| result_by(end, begun)).collect()
}

fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<Receiver<T>, NotInTime> {
    let (done, result) = channel();
    let thread = std::thread::Builder::new().name("stria may wait".into()).spawn(move || {
        let _ = done.send(work());
    });
    thread.map(|_| result).map_err(NotInTime::NoThread)
}

fn result_by<T>(end: Instant, begun: Result<Receiver<T>, NotInTime>) -> Result<T, NotInTime> {
    begun?.recv_timeout(end.saturating_duration_since(Instant::now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => NotInTime::Late,
        RecvTimeoutError::Disconnected => NotInTime::Panicked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_time_or_not_at_all() {
        assert_eq!(within(Duration::from_secs(60), || 7).expect("at once"), 7);
        let (go, wait) = channel::<()>();
        assert!(matches!(within(Duration::from_millis(1), move || wait.recv()), Err(NotInTime::Late)));
        drop(go);
        assert!(matches!(within(Duration::from_secs(60), || panic!("on purpose")), Err::<(), _>(NotInTime::Panicked)));
    }

    #[test]
    fn one_that_hangs_costs_the_others_nothing() {
        let (go, wait) = channel::<()>();
        let mut wait = Some(wait);
        let results = within_each(Duration::from_millis(200), 0..3, |index| {
            let wait = if index == 0 { wait.take() } else { None };
            move || wait.map_or(index, |wait| wait.recv().map_or(index, |()| index))
        });
        assert!(matches!(results[..], [Err(NotInTime::Late), Ok(1), Ok(2)]), "{results:?}");
        drop(go);
    }
}
