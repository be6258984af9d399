//! Calls that may wait for a drive or a file system that hangs, each on a thread of its own, for a bounded time.
//!
//! A call that hangs keeps its thread. A call that is made again and again names its path, so that threads do not pile up there.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// As [`within`], for work at a path. It is late at once while an earlier call of this kind has been out there for as long as
/// `patience`.
///
/// # Errors
/// There is no result in time.
pub fn within_at<T: Send + 'static>(
    kind: &'static str,
    path: &Path,
    patience: Duration,
    work: impl FnOnce(&Path) -> T + Send + 'static,
) -> Result<T, NotInTime> {
    result_by(Instant::now() + patience, begin_at(kind, path.to_owned(), patience, work))
}

/// The metadata of a path; `None`: it has none, or not in time.
pub fn metadata_within(path: &Path, patience: Duration) -> Option<Metadata> {
    within_at(METADATA, path, patience, |path| std::fs::metadata(path)).ok()?.ok()
}

/// The same of these paths, which are looked at together.
pub fn metadata_of_each_within(paths: impl IntoIterator<Item = PathBuf>, patience: Duration) -> Vec<Option<Metadata>> {
    let each = each_within_at(METADATA, paths, patience, |path| std::fs::metadata(path).ok());
    each.into_iter().map(Option::flatten).collect()
}

/// As [`within_at`], at these paths together. `None`: there is no result in time.
pub fn each_within_at<T: Send + 'static>(
    kind: &'static str,
    paths: impl IntoIterator<Item = PathBuf>,
    patience: Duration,
    work: fn(&Path) -> T,
) -> Vec<Option<T>> {
    let end = Instant::now() + patience;
    let begun: Vec<_> = paths.into_iter().map(|path| begin_at(kind, path, patience, work)).collect();
    begun.into_iter().map(|begun| result_by(end, begun).ok()).collect()
}

/// The kind of a call for the metadata of a path.
pub(crate) const METADATA: &str = "metadata";

/// The calls at paths that have not returned: kind, path, and when each began.
static OUT: Mutex<BTreeMap<(&'static str, PathBuf), Vec<Instant>>> = Mutex::new(BTreeMap::new());

/// A call that is out.
struct Call {
    at: (&'static str, PathBuf),
    began: Instant,
}

impl Call {
    fn begin(kind: &'static str, path: PathBuf, patience: Duration) -> Result<Self, NotInTime> {
        let (at, began) = ((kind, path), Instant::now());
        let mut out = calls();
        if out.get(&at).is_some_and(|calls| calls.iter().any(|other| began.duration_since(*other) >= patience)) {
            return Err(NotInTime::Late);
        }
        out.entry(at.clone()).or_default().push(began);
        Ok(Self { at, began })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut out = calls();
        let Some(calls) = out.get_mut(&self.at) else { return };
        if let Some(index) = calls.iter().position(|began| *began == self.began) {
            calls.swap_remove(index);
        }
        if calls.is_empty() {
            out.remove(&self.at);
        }
    }
}

fn calls() -> MutexGuard<'static, BTreeMap<(&'static str, PathBuf), Vec<Instant>>> {
    OUT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin_at<T: Send + 'static>(
    kind: &'static str,
    path: PathBuf,
    patience: Duration,
    work: impl FnOnce(&Path) -> T + Send + 'static,
) -> Result<Receiver<T>, NotInTime> {
    let call = Call::begin(kind, path, patience)?;
    begin(move || work(&call.at.1))
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

    /// The daemon left a thread behind with every look at a file that hung.
    #[test]
    fn a_path_that_hangs_costs_one_thread() {
        let (go, wait) = channel::<()>();
        let path = Path::new("/a/path/that/hangs");
        let ask = |kind, patience| within_at(kind, path, Duration::from_millis(patience), |_| ());
        let hangs = within_at("one", path, Duration::from_millis(10), move |_| wait.recv());
        assert!(matches!(hangs, Err(NotInTime::Late)));
        assert!(matches!(ask("one", 10), Err(NotInTime::Late)), "no thread was started, which would have answered");
        assert!(ask("another", 60_000).is_ok() && ask("one", 60_000).is_ok(), "it was not out for so long");
        drop(go);
        let end = Instant::now() + Duration::from_secs(60);
        while ask("one", 10).is_err() {
            assert!(Instant::now() < end, "it answers again");
        }
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
