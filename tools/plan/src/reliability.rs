//! Expected loss of data, by law: drives fail independently at a constant rate, and a rebuild may meet a sector that cannot be
//! read.
//!
//! A group of `n` drives that survives `f` failures loses data when `f + 1` drives fail, each within the repair of the one
//! before. With `f` drives missing nothing replaces a sector that cannot be read either. To the first order, with failure rate
//! `l` and repair time `R`:
//!
//! ```text
//! rate = n l  (n-1) l R  ...  (n-f) l R   +   n l  (n-1) l R  ...  (n-f+1) l R  u
//! ```
//!
//! `u` is the probability that reading the drives that are left meets such a sector. Source: D. Patterson, G. Gibson, R. Katz, "A
//! case for redundant arrays of inexpensive disks", 1988, and P. Chen et al., "RAID: high-performance, reliable secondary
//! storage", 1994. [`simulated`] follows the same drives through repairs and scrubs.

pub mod simulated;

use crate::array::Level;
use crate::calc::unreadable_probability;

/// 8,766: hours of a year.
const HOURS_PER_YEAR: f64 = 8_766.0;

/// The reliability of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frailty {
    /// Mean time between failures.
    pub mtbf_hours: f64,
    /// Unreadable bits of one bit read.
    pub unreadable_per_bit: f64,
    /// Terabytes of the drive.
    pub capacity_tb: f64,
}

/// The groups of an array, each of which loses data by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Drives of each.
    pub size: usize,
    /// The number of groups; members are `size` times as many.
    pub count: f64,
    /// The failures that a group survives.
    pub survives: usize,
    /// The share of the drives left of a group that nothing replaces while as many are missing as it survives.
    pub exposed: f64,
}

/// The groups of an array.
pub fn groups(level: Level, members: usize) -> Groups {
    let (size, count, survives) = match level {
        Level::Single | Level::Raid0 => (members, 1, 0),
        Level::Raid1 => (members, 1, members - 1),
        // A drive shares half of its data with the one before it, and half with the one behind it: three drives for each, of
        // which every drive is the middle of one.
        Level::Raid10 if !members.is_multiple_of(2) => {
            return Groups { size: 3, count: members as f64 / 3.0, survives: 1, exposed: 0.5 };
        }
        Level::Raid10 => (2, members / 2, 1),
        Level::Raid4 => (members, 1, 1),
        Level::Raid5 { spans } => (members / spans, spans, 1),
        Level::Raid6 { spans } => (members / spans, spans, 2),
    };
    Groups { size, count: count as f64, survives, exposed: 1.0 }
}

/// The probability that an array loses data within a year. `repair_hours`: from a failure to the end of the rebuild.
pub fn loss_per_year(level: Level, members: usize, drive: Frailty, repair_hours: f64) -> f64 {
    let Groups { size, count, survives, exposed } = groups(level, members);
    let rate = 1.0 / drive.mtbf_hours;
    // The rate at which a group comes to lack `missing` drives.
    let lacking = |missing: usize| {
        (1..missing).fold(size as f64 * rate, |so_far, gone| so_far * ((size - gone) as f64 * rate * repair_hours).min(1.0))
    };
    let read_tb = (size - survives) as f64 * exposed * drive.capacity_tb;
    let unreadable = if survives == 0 { 0.0 } else { unreadable_probability(read_tb, drive.unreadable_per_bit) };
    let per_hour = lacking(survives + 1) + if survives == 0 { 0.0 } else { lacking(survives) * unreadable };
    -(-per_hour * count * HOURS_PER_YEAR).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: Frailty = Frailty { mtbf_hours: 1e6, unreadable_per_bit: 0.0, capacity_tb: 4.0 };

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
    }

    /// The mean times to data loss that every textbook has.
    #[test]
    fn whole_drives_fail_as_the_textbook_says() {
        let mean = |level, members| HOURS_PER_YEAR / loss_per_year(level, members, DRIVE, 10.0);
        near(mean(Level::Raid5 { spans: 1 }, 8), 1e12 / (8.0 * 7.0 * 10.0));
        near(mean(Level::Raid6 { spans: 1 }, 8), 1e18 / (8.0 * 7.0 * 6.0 * 100.0));
        near(mean(Level::Raid10, 8), 1e12 / (4.0 * 2.0 * 10.0));
        // Of an odd count either neighbour of a drive that failed must not fail: five pairs of five drives, each lost by two
        // orders of failures.
        near(mean(Level::Raid10, 5), 1e12 / (5.0 * 2.0 * 10.0));
        near(mean(Level::Raid4, 8), mean(Level::Raid5 { spans: 1 }, 8));
        near(mean(Level::Raid6 { spans: 2 }, 16), 1e18 / (2.0 * 8.0 * 7.0 * 6.0 * 100.0));
        near(loss_per_year(Level::Raid0, 4, DRIVE, 10.0), 1.0 - (-4.0 * 8766e-6_f64).exp());
    }

    #[test]
    fn a_sector_that_cannot_be_read_matters_when_nothing_replaces_it() {
        let drive = Frailty { unreadable_per_bit: 1e-15, ..DRIVE };
        // Seven drives of 4 TB are read: 1 - e^-0.224 of the rebuilds lose a sector.
        let expected = 8.0 * 8766e-6 * (1.0 - (-0.224_f64).exp());
        near(loss_per_year(Level::Raid5 { spans: 1 }, 8, drive, 1e-3), 1.0 - (-expected).exp());
        // A drive's copies are on its neighbours, half on each: one drive is read, as of a pair.
        let copies = |members: usize| loss_per_year(Level::Raid10, members, drive, 1e-3) / members as f64;
        near(copies(5), copies(4));
        let six = |drive| loss_per_year(Level::Raid6 { spans: 1 }, 8, drive, 10.0);
        assert!(six(drive) > 10.0 * six(DRIVE) && six(drive) < 1e-5);
    }
}
