//! Calls that may wait for a drive or a file system that hangs, each on a thread of its own, for a bounded time.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

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
/// When there is no result in time.
pub fn within<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, NotInTime> {
    let (done, result) = channel();
    let thread = std::thread::Builder::new().name("stria may wait".into()).spawn(move || {
        let _ = done.send(work());
    });
    thread.map_err(NotInTime::NoThread)?;
    result.recv_timeout(patience).map_err(|error| match error {
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
}
