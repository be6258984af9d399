//! The health of the drives of all arrays, read now and then.
//!
//! A drive may hang when it is asked, so each is asked on a thread of its own, and the board shows what was read last.

use crate::api::{ArrayView, LatencyView, MemberView};
use crate::view::all_members;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stria_drive::within_each;
use stria_health::{DriveHealth, HealthConfig, PeerLatency, Seat, SlowMember, read, slow_members};

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
    /// The place where it sits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Seat>,
}

/// The last answers of all drives.
#[derive(Default)]
pub struct Board {
    known: Mutex<BTreeMap<PathBuf, DriveEntry>>,
    /// The answers were judged by other thresholds.
    expired: AtomicBool,
}

impl Board {
    /// Asks the drives of these arrays. Drives of other arrays are forgotten.
    pub fn refresh(&self, arrays: &[ArrayView], thresholds: &HealthConfig) {
        self.expired.store(false, Ordering::SeqCst);
        let mut entries = ask(paths(arrays, thresholds.smartctl.is_some()), thresholds);
        let mut known = self.lock();
        for entry in &mut entries {
            let before = known.get(&entry.path).and_then(|entry| entry.health.as_ref());
            if let (Some(health), Some(before)) = (entry.health.as_mut().filter(|health| health.asleep), before) {
                // A drive that sleeps has not become better.
                (health.verdict, health.findings) = (before.verdict, before.findings.clone());
            }
        }
        *known = entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, DriveEntry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all answers old.
    pub fn expire(&self) {
        self.expired.store(true, Ordering::SeqCst);
    }

    /// True if the drives should be asked at once.
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }

    /// Asks one drive of those that are known.
    pub fn ask_one(&self, drive: &Path, config: &HealthConfig) -> Option<DriveHealth> {
        let entry = ask(vec![drive.to_owned()], config).pop()?;
        let health = entry.health.clone();
        self.lock().entry(drive.to_owned()).and_modify(|known| *known = entry);
        health
    }

    /// The last answers, by path.
    pub fn entries(&self) -> Vec<DriveEntry> {
        self.lock().values().cloned().collect()
    }
}

/// The drives of arrays and their spans, each once.
fn paths(arrays: &[ArrayView], with_images: bool) -> Vec<PathBuf> {
    // A span is no drive. Image files have no health, unless a program says so.
    let members = arrays.iter().flat_map(all_members).filter(|member| member.size_bytes.is_some());
    let mut paths: Vec<PathBuf> =
        members.map(|member| PathBuf::from(&member.path)).filter(|path| with_images || path.starts_with("/dev")).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Asks drives, all at once.
pub fn ask(paths: Vec<PathBuf>, thresholds: &HealthConfig) -> Vec<DriveEntry> {
    let asked = within_each(PATIENCE, paths.clone(), |path: PathBuf| {
        let thresholds = thresholds.clone();
        move || read(&path, &thresholds).map(|health| (health, Seat::of(&path))).map_err(|error| error.to_string())
    });
    let entry = |(path, outcome): (PathBuf, Result<_, _>)| {
        let silent = |_| Err(format!("{} did not answer within {} s", path.display(), PATIENCE.as_secs()));
        let (health, seat, error) = match outcome.unwrap_or_else(silent) {
            Ok((health, seat)) => (Some(health), Some(seat), None),
            Err(error) => (None, None, Some(error)),
        };
        let read_at_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        DriveEntry { path, read_at_s, health, error, seat }
    };
    paths.into_iter().zip(asked).map(entry).collect()
}

/// The members of an array and its spans that are slow beside the others of theirs.
pub fn slow(view: &ArrayView, config: &HealthConfig) -> Vec<SlowMember> {
    let in_sync = || view.members.iter().filter(|member| member.role == "in sync");
    let peer = |member: &MemberView, latency: &LatencyView| PeerLatency {
        path: member.path.clone(),
        count: latency.count,
        median_us: latency.median_us,
        p99_us: latency.p99_us,
    };
    let reads = in_sync().filter_map(|member| Some(peer(member, member.read_latency.as_ref()?)));
    let writes = in_sync().filter_map(|member| Some(peer(member, member.write_latency.as_ref()?)));
    let mut slow = slow_members(&reads.collect::<Vec<_>>(), config);
    for member in slow_members(&writes.collect::<Vec<_>>(), config) {
        if !slow.iter().any(|known| known.path == member.path) {
            slow.push(member);
        }
    }
    slow.into_iter().chain(view.spans.iter().flat_map(|span| self::slow(span, config))).collect()
}
