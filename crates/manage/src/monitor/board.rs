//! The health of the drives of all arrays, read now and then.
//!
//! A drive may hang when it is asked, so each is asked on a thread of its own, and the board shows what was read last.

use crate::api::ArrayView;
use crate::view::all_members;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stria_drive::within_each;
use stria_health::{DriveHealth, PeerLatency, SlowMember, Thresholds, read, slow_members};

/// The pause between two questions to the drives.
pub const EVERY: Duration = Duration::from_secs(300);
/// The time that a drive may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The last answer of one drive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriveEntry {
    /// The drive.
    pub path: PathBuf,
    /// When it was asked, in seconds since 1970.
    pub read_at_s: u64,
    /// Its health; `None`: it is unknown.
    pub health: Option<DriveHealth>,
    /// The reason why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The last answers of all drives.
#[derive(Default)]
pub struct Board(Mutex<BTreeMap<PathBuf, DriveEntry>>);

impl Board {
    /// Asks the drives of these arrays. Drives of other arrays are forgotten.
    pub fn refresh(&self, arrays: &[ArrayView], thresholds: &Thresholds) {
        let entries = ask(paths(arrays), thresholds);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    }

    /// The last answers, by path.
    pub fn entries(&self) -> Vec<DriveEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// The drives of arrays and their spans, each once.
fn paths(arrays: &[ArrayView]) -> Vec<PathBuf> {
    // A span is no drive. Image files have no health, and to look at one may wait for a file system that hangs.
    let members = arrays.iter().flat_map(all_members).filter(|member| member.size_bytes.is_some());
    let mut paths: Vec<PathBuf> =
        members.map(|member| PathBuf::from(&member.path)).filter(|path| path.starts_with("/dev")).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Asks drives, all at once.
pub fn ask(paths: Vec<PathBuf>, thresholds: &Thresholds) -> Vec<DriveEntry> {
    let asked = within_each(PATIENCE, paths.clone(), |path: PathBuf| {
        let thresholds = thresholds.clone();
        move || read(&path, &thresholds).map_err(|error| error.to_string())
    });
    let entry = |(path, outcome): (PathBuf, Result<_, _>)| {
        let silent = |_| Err(format!("{} did not answer within {} s", path.display(), PATIENCE.as_secs()));
        let (health, error) = match outcome.unwrap_or_else(silent) {
            Ok(health) => (Some(health), None),
            Err(error) => (None, Some(error)),
        };
        let read_at_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        DriveEntry { path, read_at_s, health, error }
    };
    paths.into_iter().zip(asked).map(entry).collect()
}

/// The members of an array and its spans that are slow beside the others of theirs.
pub fn slow(view: &ArrayView) -> Vec<SlowMember> {
    let in_sync = || view.members.iter().filter(|member| member.role == "in sync");
    let reads = in_sync().filter_map(|member| {
        let latency = member.read_latency.as_ref()?;
        Some(PeerLatency { path: member.path.clone(), count: member.read_count, median_us: latency.median_us })
    });
    let writes = in_sync().filter_map(|member| {
        let latency = member.write_latency.as_ref()?;
        Some(PeerLatency { path: member.path.clone(), count: member.write_count, median_us: latency.median_us })
    });
    let mut slow = slow_members(&reads.collect::<Vec<_>>());
    for member in slow_members(&writes.collect::<Vec<_>>()) {
        if !slow.iter().any(|known| known.path == member.path) {
            slow.push(member);
        }
    }
    slow.into_iter().chain(view.spans.iter().flat_map(self::slow)).collect()
}
