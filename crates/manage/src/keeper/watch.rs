//! Drives that did not answer: each has a thread that waits for its answer, so that the keeper waits for none of them.

use super::Wish;
use crate::api::{ApiError, ApiErrorKind};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pause after an answer that was an error. While a drive hangs, its thread is in one read.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// As much as any drive reads at once.
const READ_BYTES: usize = 4096;

/// The drives that are waited for.
#[derive(Clone, Debug)]
pub struct Watch {
    silent: Arc<Mutex<BTreeSet<PathBuf>>>,
    wishes: Sender<(Wish, Sender<Result<String, ApiError>>)>,
}

impl Watch {
    pub fn new(wishes: Sender<(Wish, Sender<Result<String, ApiError>>)>) -> Self {
        Self { silent: Arc::default(), wishes }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the drive has not answered yet.
    pub fn is_silent(&self, path: &Path) -> bool {
        self.lock().contains(path)
    }

    /// Reports the drive to the keeper once it answers, as if it was attached then. Returns false if that is under way.
    pub fn wait_for(&self, path: &Path) -> bool {
        if !self.lock().insert(path.to_owned()) {
            return false;
        }
        let (watch, path) = (self.clone(), path.to_owned());
        let done = path.clone();
        let wait = move || {
            while !watch.is_reported(&path) {
                std::thread::sleep(AGAIN_AFTER);
            }
        };
        let begun = std::thread::Builder::new().name("silent drive".into()).spawn(wait);
        if let Err(error) = begun {
            // The next look at all drives tries again.
            tracing::warn!("{}: no thread could be started to wait for its answer: {error}", done.display());
            self.lock().remove(&done);
        }
        true
    }

    /// Returns false if the drive is to be read again.
    fn is_reported(&self, path: &Path) -> bool {
        let read = File::open(path).and_then(|mut drive| drive.read_exact(&mut [0; READ_BYTES]));
        if read.is_err() && path.exists() {
            return false;
        }
        // From here on it is a drive like any other.
        self.lock().remove(path);
        if read.is_err() {
            return true;
        }
        let (answer, answered) = channel();
        if self.wishes.send((Wish::Drive { path: path.to_owned(), plugged_in: true }, answer)).is_err() {
            return true;
        }
        match answered.recv() {
            Ok(Err(error)) if error.kind == ApiErrorKind::Failed => {
                // Unless the keeper has put it on the list again.
                !self.lock().insert(path.to_owned())
            }
            Ok(_) | Err(_) => true,
        }
    }
}
