//! Expected loss of data by simulation: drives that fail, repairs of each, sectors that become unreadable, and scrubs that find
//! them.
//!
//! One history follows a group of drives from a first failure until nothing is missing any more, or too much. Loss is rare, so a
//! history does not wait for it:
//!
//! - Time before the first failure is not simulated: groups have one at the rate n l.
//! - While a drive is missing, another fails with probability 1/2 at least, and the history counts by the ratio of the
//!   probabilities ("failure biasing": E. Lewis, F. Boehm, "Monte Carlo simulation of Markov unreliability models", 1984).
//! - Of sectors the expectation is taken, given when drives failed and when they were scrubbed.
//!
//! Sectors become unreadable as a drive is used: its unreadable bits of bits read, times [`READ_BYTES_PER_HOUR`]. They are lost
//! where as many drives are missing as the group survives. A scrub rewrites what it finds. J. Elerath, M. Pecht, "Enhanced
//! reliability modeling of RAID storage systems", 2007. NOMDL: K. Greenan, J. Plank, J. Wylie, "Mean time to meaningless", 2010.

use super::{Frailty, Groups, HOURS_PER_YEAR, groups};
use crate::array::Level;
use crate::chance::Chance;

/// 1.35 GB: what a drive reads in an hour, which makes its sectors unreadable. Source: Elerath and Pecht, the lower of two.
pub const READ_BYTES_PER_HOUR: f64 = 1.35e9;
/// 4 KiB: what is lost with a sector.
const SECTOR_BYTES: f64 = 4096.0;
/// 1/2: the least probability of a failure during a repair, in histories.
const FORCED: f64 = 0.5;

/// How long repairs take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Repair {
    /// All as long.
    Fixed {
        /// Hours.
        hours: f64,
    },
    /// Without memory, as in closed forms.
    Exponential {
        /// Hours.
        mean_hours: f64,
    },
}

impl Repair {
    fn hours(self, chance: &mut Chance) -> f64 {
        match self {
            Self::Fixed { hours } => hours,
            Self::Exponential { mean_hours } => -mean_hours * (1.0 - chance.unit()).ln(),
        }
    }
}

/// The group that is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array {
    /// The level.
    pub level: Level,
    /// Its members.
    pub members: usize,
    /// Space for data.
    pub usable_bytes: f64,
    /// A member.
    pub drive: Frailty,
    /// The time from a failure until the drive is replaced and filled.
    pub repair: Repair,
    /// From one scrub to the next.
    pub scrub_hours: f64,
}

/// The expectation for a year.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// The probability that any data are lost.
    pub loss: f64,
    /// The standard error of that, relative to it: what other seeds would change.
    pub spread: f64,
    /// The probability that the array is lost as a whole.
    pub array_loss: f64,
    /// Bytes lost of each terabyte: NOMDL, for a year.
    pub bytes_per_tb: f64,
}

/// The expected loss of one history, given its first failure.
#[derive(Clone, Copy, Default)]
struct History {
    /// The probability that the group is lost.
    group: f64,
    /// The probability that any sector is lost while the group is not.
    sectors_any: f64,
    /// The number of lost sectors.
    sectors: f64,
}

struct Group {
    size: usize,
    survives: usize,
    exposed: f64,
    failures_per_hour: f64,
    /// Sectors of a drive that become unreadable in an hour, and while it is read once.
    unreadable_per_hour: f64,
    unreadable_per_pass: f64,
    repair: Repair,
    scrub_hours: f64,
}

impl Group {
    fn history(&self, chance: &mut Chance) -> History {
        let mut lost = History::default();
        let (mut weight, mut now) = (1.0, 0.0);
        let mut repaired_at = vec![self.repair.hours(chance)];
        while !repaired_at.is_empty() {
            let missing = repaired_at.len();
            if missing > self.survives {
                lost.group += weight;
                return lost;
            }
            let left = (self.size - missing) as f64;
            if missing == self.survives {
                let ages: f64 = (0..self.size - missing).map(|_| chance.unit() * self.scrub_hours).sum();
                let unreadable = self.exposed * (self.unreadable_per_hour * ages + self.unreadable_per_pass * left);
                lost.sectors += weight * unreadable;
                lost.sectors_any -= weight * (-unreadable).exp_m1();
            }
            // The next event: a repair ends, or another drive fails.
            loop {
                let missing = repaired_at.len();
                let (next, &end) = repaired_at.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).expect("some are missing");
                let rate = (self.size - missing) as f64 * self.failures_per_hour;
                let fails = -(-rate * (end - now)).exp_m1();
                let forced = fails.max(FORCED);
                if chance.unit() < forced {
                    weight *= fails / forced;
                    now -= (-chance.unit() * fails).ln_1p() / rate;
                    repaired_at.push(now + self.repair.hours(chance));
                    break;
                }
                weight *= (1.0 - fails) / (1.0 - forced);
                now = end;
                repaired_at.swap_remove(next);
                if repaired_at.is_empty() {
                    return lost;
                }
            }
        }
        lost
    }
}

/// The expectation for a year, by so many histories of a seed.
///
/// # Panics
/// If there are no histories.
pub fn expected(array: &Array, histories: u32, seed: u64) -> Expected {
    assert!(histories > 1, "a spread takes two histories at least");
    let Groups { size, count, survives, exposed } = groups(array.level, array.members);
    let bits = |bytes: f64| bytes * 8.0 * array.drive.unreadable_per_bit;
    let group = Group {
        size,
        survives,
        exposed,
        failures_per_hour: 1.0 / array.drive.mtbf_hours,
        unreadable_per_hour: bits(READ_BYTES_PER_HOUR),
        unreadable_per_pass: bits(array.drive.capacity_tb * 1e12),
        repair: array.repair,
        scrub_hours: array.scrub_hours,
    };
    // The rate of first failures of all groups, and per first failure: lost groups, any lost data, lost sectors.
    let first = size as f64 * count * group.failures_per_hour * HOURS_PER_YEAR;
    let year = |rate: f64| -(-rate).exp_m1();
    let per_tb = |bytes: f64| bytes / (array.usable_bytes / 1e12);
    if survives == 0 {
        let sectors = size as f64 * count * group.unreadable_per_hour * HOURS_PER_YEAR;
        return Expected {
            loss: year(first + sectors),
            spread: 0.0,
            array_loss: year(first),
            bytes_per_tb: per_tb(year(first) * array.usable_bytes + sectors * SECTOR_BYTES),
        };
    }
    let mut chance = Chance::new(seed, 3);
    let (mut groups_lost, mut sectors, mut any, mut squares) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..histories {
        let lost = group.history(&mut chance);
        groups_lost += lost.group;
        sectors += lost.sectors;
        any += lost.group + lost.sectors_any;
        squares += (lost.group + lost.sectors_any).powi(2);
    }
    let n = f64::from(histories);
    let (mean, group_mean) = (any / n, groups_lost / n);
    let variance = (squares / n - mean * mean).max(0.0) / (n - 1.0);
    Expected {
        loss: year(first * mean),
        spread: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
        array_loss: year(first * group_mean),
        bytes_per_tb: per_tb(year(first * group_mean) * array.usable_bytes + first * sectors / n * SECTOR_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reliability::loss_per_year;

    const RAID5: Level = Level::Raid5 { spans: 1 };
    const RAID6: Level = Level::Raid6 { spans: 1 };
    const DRIVE: Frailty = Frailty { mtbf_hours: 1e6, unreadable_per_bit: 0.0, capacity_tb: 4.0 };

    fn array(level: Level, members: usize, drive: Frailty, repair: Repair) -> Array {
        let usable_bytes = level.data_share(members) * members as f64 * drive.capacity_tb * 1e12;
        Array { level, members, usable_bytes, drive, repair, scrub_hours: 168.0 }
    }

    /// Within four standard errors, which are below 2 %.
    fn near(found: Expected, law: f64) {
        assert!(found.spread < 0.02, "{found:?}");
        assert!((found.loss / law - 1.0).abs() < 4.0 * found.spread + 1e-3, "{found:?} instead of {law:e}");
    }

    /// The closed form for whole drives and one parity, on one group and on several.
    #[test]
    fn two_failures_come_as_often_as_the_law_says() {
        for (level, members) in [
            (RAID5, 8),
            (Level::Raid4, 8),
            (Level::Raid1, 2),
            (Level::Raid10, 8),
            (Level::Raid10, 5),
            (Level::Raid5 { spans: 2 }, 12),
        ] {
            for repair in [Repair::Fixed { hours: 10.0 }, Repair::Exponential { mean_hours: 10.0 }] {
                near(expected(&array(level, members, DRIVE, repair), 40_000, 1), loss_per_year(level, members, DRIVE, 10.0));
            }
        }
    }

    /// Two parities: the law repairs one drive after the other; here each is repaired from its own failure on, which halves the
    /// window of the third failure.
    #[test]
    fn three_failures_come_half_as_often_as_with_one_repair_at_a_time() {
        for repair in [Repair::Fixed { hours: 10.0 }, Repair::Exponential { mean_hours: 10.0 }] {
            near(expected(&array(RAID6, 8, DRIVE, repair), 200_000, 1), loss_per_year(RAID6, 8, DRIVE, 10.0) / 2.0);
        }
    }

    /// Drives so bad that nothing is forced: the Markov chain of two drives and a repair, solved by hand.
    /// From one missing: loss with l / (l + m) for repairs at rate m.
    #[test]
    fn frequent_failures_need_no_forcing() {
        let drive = Frailty { mtbf_hours: 5_000.0, ..DRIVE };
        let found = expected(&array(Level::Raid1, 2, drive, Repair::Exponential { mean_hours: 20_000.0 }), 100_000, 1);
        let (l, m): (f64, f64) = (1.0 / 5_000.0, 1.0 / 20_000.0);
        near(found, 1.0 - (-2.0 * l * HOURS_PER_YEAR * l / (l + m)).exp());
    }

    /// Unreadable sectors of the rebuild's own pass: the law's second term. With scrubs none are older.
    #[test]
    fn a_rebuild_meets_unreadable_sectors_as_the_law_says() {
        let drive = Frailty { unreadable_per_bit: 1e-15, ..DRIVE };
        let asked = Array { scrub_hours: 0.0, ..array(RAID5, 8, drive, Repair::Fixed { hours: 10.0 }) };
        let found = expected(&asked, 10_000, 1);
        near(found, loss_per_year(RAID5, 8, drive, 10.0));
        // Seven drives of 32e12 bits, each sector of 4 KiB, of 28 TB.
        let sectors = 8.0 * 8766e-6 * 7.0 * 0.032;
        let bytes = (8.0 * 8766e-6 * 7e-5 * 28e12 + sectors * 4096.0) / 28.0;
        assert!((found.bytes_per_tb / bytes - 1.0).abs() < 0.05, "{found:?} instead of {bytes}");
    }

    #[test]
    fn scrubs_matter_to_one_parity_and_hardly_to_two() {
        let drive = Frailty { unreadable_per_bit: 1e-14, ..DRIVE };
        let loss = |level, scrub_hours| {
            let asked = Array { scrub_hours, ..array(level, 8, drive, Repair::Fixed { hours: 10.0 }) };
            expected(&asked, 20_000, 1)
        };
        assert!(loss(RAID5, 8_766.0).loss > 1.05 * loss(RAID5, 168.0).loss);
        assert!(loss(RAID6, 168.0).loss < 1e-3 * loss(RAID5, 168.0).loss);
        assert_eq!(loss(RAID5, 8_766.0).array_loss, loss(RAID5, 168.0).array_loss);
        assert!(loss(RAID6, 8_766.0).bytes_per_tb < loss(RAID5, 8_766.0).bytes_per_tb);
    }

    #[test]
    fn without_redundancy_every_failure_counts() {
        let found = expected(&array(Level::Raid0, 4, DRIVE, Repair::Fixed { hours: 10.0 }), 10, 1);
        assert!((found.loss - loss_per_year(Level::Raid0, 4, DRIVE, 10.0)).abs() < 1e-12);
        assert!((found.bytes_per_tb / 1e12 - found.loss).abs() < 1e-9);
    }

    #[test]
    fn a_seed_replays_and_another_differs_by_the_spread() {
        let asked = array(RAID6, 8, DRIVE, Repair::Fixed { hours: 10.0 });
        let (once, other) = (expected(&asked, 20_000, 1), expected(&asked, 20_000, 2));
        assert_eq!(once, expected(&asked, 20_000, 1));
        assert!(once != other && (once.loss / other.loss - 1.0).abs() < 6.0 * once.spread);
    }
}
