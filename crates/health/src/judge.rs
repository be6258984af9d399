//! The meaning of a drive's figures: thresholds, and a sentence for each that is crossed.

use crate::{DriveHealth, Finding, HealthSentence as Say, SelfTestResults, Verdict};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The table `[health]` of the configuration: the thresholds of figures, and the program that reads them. A threshold of 0 is
/// off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HealthConfig {
    /// Watch a drive that has used so much of its rated endurance, in per cent.
    pub wear_watch_percent: u16,
    /// Replace it from here on.
    pub wear_replace_percent: u16,
    /// Watch a drive at this temperature, in degrees Celsius, unless it names a limit of its own.
    pub temperature_watch_c: i32,
    /// Watch a drive with so many reallocated sectors.
    pub reallocated_watch: u64,
    /// Replace it from here on.
    pub reallocated_replace: u64,
    /// Watch a drive with so many media errors.
    pub media_errors_watch: u64,
    /// Replace it from here on.
    pub media_errors_replace: u64,
    /// Watch a drive with so many transfers that arrived damaged.
    pub link_errors_watch: u64,
    /// A member is slow beside the others of its array if its requests take so many times as long as theirs.
    pub slow_factor: u64,
    /// A member whose requests take less than this, in microseconds, is not slow.
    pub slow_least_us: u64,
    /// The program that is asked for the health of drives other than NVMe, with the arguments of `smartctl`; then it is asked for
    /// image files too, which have no health of their own. `smartctl` itself if not given.
    pub smartctl: Option<PathBuf>,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            wear_watch_percent: 80,
            wear_replace_percent: 100,
            temperature_watch_c: 70,
            reallocated_watch: 1,
            reallocated_replace: 100,
            media_errors_watch: 1,
            media_errors_replace: 100,
            link_errors_watch: 100,
            slow_factor: 4,
            slow_least_us: 1000,
            smartctl: None,
        }
    }
}

impl HealthConfig {
    /// Checks values against each other.
    ///
    /// # Errors
    /// The pair that is invalid.
    pub fn check(&self) -> Result<(), String> {
        for (name, watch, replace) in [
            ("wear", u64::from(self.wear_watch_percent), u64::from(self.wear_replace_percent)),
            ("reallocated", self.reallocated_watch, self.reallocated_replace),
            ("media-errors", self.media_errors_watch, self.media_errors_replace),
        ] {
            if watch > replace && replace > 0 {
                return Err(format!(
                    "{name}-watch is {watch} and {name}-replace {replace}: {name}-watch must be the smaller one"
                ));
            }
        }
        if self.slow_factor < 2 {
            return Err("slow-factor must be 2 or more: members of one array always differ a little".into());
        }
        match &self.smartctl {
            Some(path) if !path.is_absolute() => Err(format!("smartctl: {} must begin with a slash", path.display())),
            _ => Ok(()),
        }
    }
}

/// Bits of NVMe's critical warning.
const SPARE_LOW: u8 = 1 << 0;
const UNRELIABLE: u8 = 1 << 2;
const READ_ONLY: u8 = 1 << 3;
const BACKUP_FAILED: u8 = 1 << 4;

/// Fills in the verdict of a drive, and its reasons.
pub fn judge(health: &mut DriveHealth, thresholds: &HealthConfig) {
    let mut findings = Vec::new();
    let mut find = |verdict, said: Say| findings.push(Finding::new(verdict, said));
    let warns = |bit| health.critical_warning.is_some_and(|warning| warning & bit != 0);
    if health.predicts_failure {
        find(Verdict::Replace, Say::ExpectsToFail {});
    }
    if warns(READ_ONLY) {
        find(Verdict::Replace, Say::DriveReadOnly {});
    }
    if warns(UNRELIABLE) {
        find(Verdict::Replace, Say::DriveUnreliable {});
    }
    if warns(BACKUP_FAILED) {
        find(Verdict::Replace, Say::PowerLossProtectionFailed {});
    }
    for (long, said) in [(true, Say::LongSelfTestFailed {}), (false, Say::ShortSelfTestFailed {})] {
        if failed_self_test(health, long) {
            find(Verdict::Replace, said);
        }
    }
    wear(health, thresholds, warns(SPARE_LOW), &mut find);
    media(health, thresholds, &mut find);
    surroundings(health, thresholds, &mut find);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    health.verdict = findings.first().map_or(Verdict::Good, |finding| finding.verdict);
    health.findings = findings;
}

/// True if the last self-test of this kind failed.
fn failed_self_test(health: &DriveHealth, long: bool) -> bool {
    // While one runs, its kind may be unknown: the log knows that of the one that failed.
    let last = health.self_test.filter(|_| health.self_test_results == SelfTestResults::default());
    let passed = health.self_test_results.of_kind(long).or_else(|| last.filter(|last| last.long == long)?.passed);
    passed == Some(false)
}

/// What a count calls for. A threshold of 0 is off.
fn level(count: u64, watch: u64, replace: u64) -> Verdict {
    let reaches = |threshold: u64| threshold > 0 && count >= threshold;
    match (reaches(replace), reaches(watch)) {
        (true, _) => Verdict::Replace,
        (false, true) => Verdict::Watch,
        (false, false) => Verdict::Good,
    }
}

fn wear(health: &DriveHealth, thresholds: &HealthConfig, spare_is_low: bool, find: &mut impl FnMut(Verdict, Say)) {
    if let Some(wear) = health.wear_percent {
        match level(u64::from(wear), thresholds.wear_watch_percent.into(), thresholds.wear_replace_percent.into()) {
            Verdict::Replace => find(Verdict::Replace, Say::WornOut { wear_percent: wear }),
            Verdict::Watch => find(Verdict::Watch, Say::WornMuch { wear_percent: wear }),
            Verdict::Good => {}
        }
    }
    // A threshold of 0: the drive has no such figure, and its spare capacity of 0 means nothing.
    let threshold = health.spare_threshold_percent.filter(|&percent| percent > 0);
    match (health.spare_percent, threshold) {
        (Some(spare), Some(least)) if spare_is_low || spare < least => {
            find(Verdict::Replace, Say::SpareCapacityShort { spare_percent: spare, least_percent: least });
        }
        (Some(spare), Some(least)) if spare < 100 && u16::from(spare) < u16::from(least) + 10 => {
            find(Verdict::Watch, Say::SpareCapacityLow { spare_percent: spare, least_percent: least });
        }
        _ if spare_is_low => find(Verdict::Replace, Say::SpareCapacityUsedUp {}),
        _ => {}
    }
}

fn media(health: &DriveHealth, thresholds: &HealthConfig, find: &mut impl FnMut(Verdict, Say)) {
    if let Some(count) = health.media_errors {
        match level(count, thresholds.media_errors_watch, thresholds.media_errors_replace) {
            Verdict::Replace => find(Verdict::Replace, Say::MediaErrorsMany { count }),
            Verdict::Watch => find(Verdict::Watch, Say::MediaErrors { count }),
            Verdict::Good => {}
        }
    }
    if let Some(count @ 1..) = health.pending_sectors {
        find(Verdict::Watch, Say::PendingSectors { count });
    }
    if let Some(count) = health.reallocated_sectors {
        match level(count, thresholds.reallocated_watch, thresholds.reallocated_replace) {
            Verdict::Replace => find(Verdict::Replace, Say::ReallocatedMany { count }),
            Verdict::Watch => find(Verdict::Watch, Say::Reallocated { count }),
            Verdict::Good => {}
        }
    }
}

/// Faults that are not the drive's own: heat and cables.
fn surroundings(health: &DriveHealth, thresholds: &HealthConfig, find: &mut impl FnMut(Verdict, Say)) {
    if let Some(temperature) = health.temperature_c {
        let own = Some(thresholds.temperature_watch_c).filter(|&degrees| degrees != 0);
        let limit = health.temperature_warning_c.or(own).filter(|&limit| temperature >= limit);
        let critical = health.temperature_critical_c.filter(|&critical| temperature >= critical);
        if let Some(limit_c) = critical {
            find(Verdict::Watch, Say::AboveCriticalTemperature { temperature_c: temperature, limit_c });
        } else if let Some(limit_c) = limit {
            find(Verdict::Watch, Say::TooWarm { temperature_c: temperature, limit_c });
        }
    }
    if let Some(count) = health.link_errors.filter(|&count| level(count, thresholds.link_errors_watch, 0) == Verdict::Watch) {
        find(Verdict::Watch, Say::LinkErrors { count });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfTest;

    fn judged(health: DriveHealth) -> DriveHealth {
        let mut health = health;
        judge(&mut health, &HealthConfig::default());
        health
    }

    fn verdict_of(health: DriveHealth) -> Verdict {
        judged(health).verdict
    }

    #[test]
    fn a_drive_that_reports_nothing_unusual_is_good() {
        let health = DriveHealth {
            critical_warning: Some(0),
            temperature_c: Some(69),
            wear_percent: Some(79),
            spare_percent: Some(100),
            spare_threshold_percent: Some(99),
            media_errors: Some(0),
            link_errors: Some(99),
            ..DriveHealth::default()
        };
        let health = judged(health);
        assert_eq!((health.verdict, &health.findings[..]), (Verdict::Good, &[][..]));
        assert_eq!(verdict_of(DriveHealth::default()), Verdict::Good);
    }

    #[test]
    fn each_figure_is_judged_at_its_threshold() {
        let empty = DriveHealth::default;
        for (verdict, health) in [
            (Verdict::Watch, DriveHealth { wear_percent: Some(80), ..empty() }),
            (Verdict::Replace, DriveHealth { wear_percent: Some(100), ..empty() }),
            (Verdict::Watch, DriveHealth { spare_percent: Some(19), spare_threshold_percent: Some(10), ..empty() }),
            (Verdict::Good, DriveHealth { spare_percent: Some(20), spare_threshold_percent: Some(10), ..empty() }),
            (Verdict::Replace, DriveHealth { spare_percent: Some(9), spare_threshold_percent: Some(10), ..empty() }),
            (Verdict::Good, DriveHealth { spare_percent: Some(0), spare_threshold_percent: Some(0), ..empty() }),
            (Verdict::Watch, DriveHealth { media_errors: Some(1), ..empty() }),
            (Verdict::Replace, DriveHealth { media_errors: Some(100), ..empty() }),
            (Verdict::Watch, DriveHealth { pending_sectors: Some(1), ..empty() }),
            (Verdict::Watch, DriveHealth { reallocated_sectors: Some(1), ..empty() }),
            (Verdict::Replace, DriveHealth { reallocated_sectors: Some(100), ..empty() }),
            (Verdict::Watch, DriveHealth { temperature_c: Some(70), ..empty() }),
            (Verdict::Watch, DriveHealth { temperature_c: Some(60), temperature_warning_c: Some(60), ..empty() }),
            (Verdict::Good, DriveHealth { temperature_c: Some(75), temperature_warning_c: Some(80), ..empty() }),
            (Verdict::Watch, DriveHealth { link_errors: Some(100), ..empty() }),
            (Verdict::Replace, DriveHealth { predicts_failure: true, ..empty() }),
            (
                Verdict::Replace,
                DriveHealth { self_test: Some(SelfTest { long: true, running: false, passed: Some(false) }), ..empty() },
            ),
            (
                Verdict::Good,
                DriveHealth { self_test: Some(SelfTest { long: true, running: false, passed: Some(true) }), ..empty() },
            ),
            (Verdict::Good, DriveHealth { self_test: Some(SelfTest { long: false, running: true, passed: None }), ..empty() }),
        ] {
            assert_eq!(verdict_of(health.clone()), verdict, "{health:?}");
        }
        // Every bit of the critical warning but the temperature's calls for replacement; that one shows in the temperature.
        for (bit, verdict) in
            [(0, Verdict::Replace), (1, Verdict::Good), (2, Verdict::Replace), (3, Verdict::Replace), (4, Verdict::Replace)]
        {
            assert_eq!(verdict_of(DriveHealth { critical_warning: Some(1 << bit), ..empty() }), verdict, "bit {bit}");
        }
    }

    #[test]
    fn the_worst_reason_comes_first_and_each_says_what_to_do() {
        let health = judged(DriveHealth { temperature_c: Some(90), wear_percent: Some(120), ..DriveHealth::default() });
        assert_eq!(health.findings.iter().map(|finding| finding.verdict).collect::<Vec<_>>(), [Verdict::Replace, Verdict::Watch]);
        assert!(health.findings[0].sentence.contains("120 %") && health.findings[0].sentence.ends_with("replace it"));
        assert!(health.findings[1].sentence.contains("90 °C"));
    }

    /// "Off" made every drive with such a figure one to replace, and its members were copied off.
    #[test]
    fn a_threshold_of_0_is_off() {
        let bad = DriveHealth {
            wear_percent: Some(200),
            temperature_c: Some(99),
            media_errors: Some(1000),
            reallocated_sectors: Some(1000),
            link_errors: Some(1000),
            ..DriveHealth::default()
        };
        let off = HealthConfig {
            wear_watch_percent: 0,
            wear_replace_percent: 0,
            temperature_watch_c: 0,
            reallocated_watch: 0,
            reallocated_replace: 0,
            media_errors_watch: 0,
            media_errors_replace: 0,
            link_errors_watch: 0,
            ..HealthConfig::default()
        };
        let judged = |config: &HealthConfig, mut health: DriveHealth| {
            judge(&mut health, config);
            (health.verdict, health.findings.len())
        };
        assert_eq!(judged(&off, bad.clone()), (Verdict::Good, 0));
        assert_eq!(judged(&off, DriveHealth { wear_percent: Some(0), ..DriveHealth::default() }), (Verdict::Good, 0));
        let never_replaced = HealthConfig { reallocated_watch: 1, media_errors_watch: 5, ..off };
        assert_eq!(judged(&never_replaced, bad), (Verdict::Watch, 2));
        // The drive's own limit holds nevertheless.
        let own = DriveHealth { temperature_c: Some(60), temperature_warning_c: Some(60), ..DriveHealth::default() };
        assert_eq!(judged(&HealthConfig { temperature_watch_c: 0, ..HealthConfig::default() }, own), (Verdict::Watch, 1));
    }

    #[test]
    fn thresholds_are_those_of_the_configuration() {
        let config = HealthConfig { wear_watch_percent: 50, media_errors_watch: 5, ..HealthConfig::default() };
        let verdict = |mut health: DriveHealth| {
            judge(&mut health, &config);
            health.verdict
        };
        assert_eq!(verdict(DriveHealth { wear_percent: Some(50), ..DriveHealth::default() }), Verdict::Watch);
        assert_eq!(verdict(DriveHealth { media_errors: Some(4), ..DriveHealth::default() }), Verdict::Good);
        assert_eq!(verdict(DriveHealth { media_errors: Some(5), ..DriveHealth::default() }), Verdict::Watch);
        assert_eq!(HealthConfig::default().check(), Ok(()));
        assert_eq!(HealthConfig { reallocated_replace: 0, ..HealthConfig::default() }.check(), Ok(()));
        assert!(HealthConfig { wear_watch_percent: 101, ..HealthConfig::default() }.check().is_err());
        assert!(HealthConfig { slow_factor: 1, ..HealthConfig::default() }.check().is_err());
    }
}
