//! The tables `[routine]` and `[replacement]` of the configuration.

use super::Patience;
use serde::Deserialize;
use std::collections::BTreeMap;
use stria_routine::{Calendar, QuietHours, Schedule};

/// The schedules of routine work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RoutineConfig {
    /// Scrubs of all arrays with redundancy.
    pub scrub: Schedule,
    /// Scrubs of single arrays, by name.
    pub scrubs: BTreeMap<String, Schedule>,
    /// Short self-tests of all drives that offer them.
    pub self_test: Schedule,
    /// Long ones.
    pub long_self_test: Schedule,
    /// The hours in which such work runs.
    pub hours: QuietHours,
}

impl Default for RoutineConfig {
    /// The first Sunday of the month, as Debian's mdadm.
    fn default() -> Self {
        Self {
            scrub: Schedule(Some("Sun *-*-1..7 01:00".parse().expect("it is written well"))),
            scrubs: BTreeMap::new(),
            self_test: Schedule(None),
            long_self_test: Schedule(None),
            hours: QuietHours::default(),
        }
    }
}

impl RoutineConfig {
    /// The schedule of this array's scrubs; `None`: never.
    pub fn scrub_of(&self, name: &str) -> Option<&Calendar> {
        self.scrubs.get(name).unwrap_or(&self.scrub).0.as_ref()
    }
}

/// The conditions on which a member that is about to fail is copied to a spare.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReplacementConfig {
    /// The verdict on its drive is "replace".
    pub failing: bool,
    /// Its media errors have grown by so many within a day; 0: whatever they do.
    pub media_errors_per_day: u64,
    /// The member has been slow beside the others for so long.
    pub slow_for: Patience,
}

impl Default for ReplacementConfig {
    fn default() -> Self {
        Self { failing: true, media_errors_per_day: 10, slow_for: Patience(None) }
    }
}
