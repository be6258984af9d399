//! The look-alike of an application's storage trace as a step.

use crate::result::DriveState;
use crate::trace::Trace;
use crate::trace::synthetic::{self, Application};

/// The seed of all look-alikes in experiments, so that runs can be compared.
const SEED: u64 = 0;

/// A look-alike that is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppTrace {
    /// The application.
    pub application: Application,
    /// The share of its requests that are replayed, from the first: below 1 in a trial.
    pub share: f64,
    /// The state of the drive.
    pub drive_state: DriveState,
}

impl AppTrace {
    /// Its requests.
    pub fn trace(&self) -> Trace {
        let mut trace = synthetic::trace(&self.application, SEED);
        trace.records.truncate(((trace.records.len() as f64 * self.share) as usize).max(1));
        trace
    }

    /// Bytes that it reads and writes, about.
    pub fn bytes(&self) -> (u64, u64) {
        let of = |megabytes: u64| (megabytes as f64 * 1e6 * self.share) as u64;
        (of(self.application.read_mb), of(self.application.written_mb))
    }
}
