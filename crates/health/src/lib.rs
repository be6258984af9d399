//! A drive's health: its report about itself, and the meaning.
//!
//! ```text
//!   read ─┬ nvme: the SMART log page, by a command to the controller ─┐
//!         └ smartctl: every other drive, by smartmontools' JSON ──────┴▶ DriveHealth ─ judge ─▶ verdict, each with its sentences
//! ```
//! [`read`] never wakes a drive that sleeps. [`start_self_test`], [`set_write_cache`] and [`update`] (new firmware) change a
//! drive; [`secure_erase`] and [`begin_sanitize`] erase it. [`slow_members`] compares the response times of drives that share an
//! array. [`Seat`] is the location of a drive, by sysfs: its slot, its link, its light. The crate knows neither arrays nor
//! sockets.

mod admin;
#[cfg(test)]
mod book;
mod cache;
mod erase;
mod firmware;
mod judge;
mod mark;
mod nvme;
mod peers;
mod read;
mod seat;
mod smartctl;
mod words;

pub use cache::{set_write_cache, write_cache};
pub use erase::{
    EraseError, begin_sanitize, check_discard, check_sanitize, check_secure_erase, discard, sanitize_progress, secure_erase,
};
pub use firmware::{
    Activation, After, Firmware, FirmwareError, IMAGE_MIB_MAX, firmware, open_image, others_touched, read_image, reset,
    slots_here, update,
};
pub use judge::{HealthConfig, judge};
pub use peers::{PeerLatency, REQUESTS_MIN, SlowMember, slow_members};
pub use read::{HealthError, read, start_self_test};
pub use seat::{LocateError, Seat};
pub use words::HealthSentence;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of a drive's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The NVMe SMART log page.
    #[default]
    Nvme,
    /// smartmontools' `smartctl`.
    Smartctl,
}

/// The verdict on a drive; the worst is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing.
    #[default]
    Good,
    /// Look at it again: something is unusual and harms nothing yet.
    Watch,
    /// Replace it while it still works.
    Replace,
}

impl Verdict {
    /// The word that is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Watch => "watch",
            Self::Replace => "replace",
        }
    }
}

/// One reason for a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The verdict that this alone calls for.
    pub verdict: Verdict,
    /// The fault, its meaning, and the remedy.
    pub sentence: String,
    /// The same for programs; null: another version wrote it, in words that this one does not know.
    #[serde(default, deserialize_with = "stria_sentence::if_known")]
    pub said: Option<HealthSentence>,
}

impl Finding {
    /// A finding with its text.
    pub fn new(verdict: Verdict, said: HealthSentence) -> Self {
        Self { verdict, sentence: said.to_string(), said: Some(said) }
    }
}

/// The report of a drive about itself. A figure that it does not give is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DriveHealth {
    /// The source of the figures.
    pub source: Source,
    /// The drive sleeps, and was not woken: it reported nothing.
    pub asleep: bool,
    /// The model.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// The firmware's revision.
    pub firmware: Option<String>,
    /// The verdict: the worst of the findings.
    pub verdict: Verdict,
    /// The reasons for it, the worst first; empty if it is good.
    pub findings: Vec<Finding>,
    /// The drive's own judgement: it expects to fail.
    pub predicts_failure: bool,
    /// Bits of NVMe's critical warning.
    pub critical_warning: Option<u8>,
    /// The temperature, in degrees Celsius.
    pub temperature_c: Option<i32>,
    /// The temperature above which the drive itself warns.
    pub temperature_warning_c: Option<i32>,
    /// The temperature above which it must not run.
    pub temperature_critical_c: Option<i32>,
    /// The share of the rated endurance that is used, in per cent; more than 100 is possible.
    pub wear_percent: Option<u16>,
    /// The share of the spare capacity that is left, in per cent.
    pub spare_percent: Option<u8>,
    /// The spare capacity below which the drive calls itself worn out.
    pub spare_threshold_percent: Option<u8>,
    /// Times that the drive could not give back what was written to it.
    pub media_errors: Option<u64>,
    /// Sectors that could not be read and wait to be written.
    pub pending_sectors: Option<u64>,
    /// Sectors that were replaced by spare ones.
    pub reallocated_sectors: Option<u64>,
    /// Transfers that arrived damaged: a matter of cable or slot.
    pub link_errors: Option<u64>,
    /// Its last self-test; `None`: there was none, or it offers none.
    pub self_test: Option<SelfTest>,
    /// The last results of its self-tests, by kind.
    #[serde(skip)]
    pub self_test_results: SelfTestResults,
    /// A mark of the drive's log of self-tests, which changes with every new entry. So the result of an earlier test is not taken
    /// for that of a new one.
    #[serde(skip)]
    pub self_test_mark: u64,
    /// Hours under power.
    pub power_on_hours: Option<u64>,
    /// Times that power came.
    pub power_cycles: Option<u64>,
    /// Times that power went without notice.
    pub unsafe_shutdowns: Option<u64>,
    /// Bytes read by the host.
    pub read_bytes: Option<u64>,
    /// Bytes written by the host.
    pub written_bytes: Option<u64>,
}

/// A test that a drive makes of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelfTest {
    /// True if it reads all of the media, which takes hours; a short one takes minutes.
    pub long: bool,
    /// True while it is under way.
    pub running: bool,
    /// Its result; `None`: it runs, or ended without one, as a restart or another command ended it. While one runs after one that failed, false.
    pub passed: Option<bool>,
}

/// The last result of the self-tests of each kind; `None`: the log has none. A short test reads little of the media, so that its
/// success does not answer for a long one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfTestResults {
    /// The last short one passed.
    pub short: Option<bool>,
    /// The last long one passed.
    pub long: Option<bool>,
}

impl SelfTestResults {
    /// From the entries of a log, the newest first. Tests that ended without a result count for nothing.
    pub(crate) fn of(entries: impl IntoIterator<Item = SelfTest>) -> Self {
        let (mut found, mut has_short) = (Self::default(), false);
        for SelfTest { long, passed, .. } in entries {
            let Some(passed) = passed else { continue };
            if long {
                found.long = found.long.or(Some(passed));
            } else if !std::mem::replace(&mut has_short, true) {
                // A long test reads what a short one does: one that passed later answers for it.
                found.short = Some(passed).filter(|passed| *passed || found.long != Some(true));
            }
        }
        found
    }

    /// The result of the last test of this kind.
    pub fn of_kind(self, long: bool) -> Option<bool> {
        if long { self.long } else { self.short }
    }
}
