//! Arithmetic without a run: endurance, failure rates, rebuild times, usable space.

use crate::array::Level;

/// 365.25 days: a year.
pub const DAYS_PER_YEAR: f64 = 365.25;
/// Hours of a year.
const HOURS_PER_YEAR: f64 = 24.0 * DAYS_PER_YEAR;
/// Months of a year.
const MONTHS_PER_YEAR: f64 = 12.0;

/// Gigabytes that may be written a year for a drive of so many terabytes written (TBW) to last so long.
pub fn written_per_year_gb(tbw_tb: f64, years: f64) -> f64 {
    tbw_tb * 1000.0 / years
}

/// The same a month.
pub fn written_per_month_gb(tbw_tb: f64, years: f64) -> f64 {
    written_per_year_gb(tbw_tb, years) / MONTHS_PER_YEAR
}

/// The same a day.
pub fn written_per_day_gb(tbw_tb: f64, years: f64) -> f64 {
    written_per_year_gb(tbw_tb, years) / DAYS_PER_YEAR
}

/// Full drive writes a day (DWPD) that use up a rating of `tbw_tb` in `years`: TBW / (capacity * 365.25 * years).
pub fn drive_writes_per_day(tbw_tb: f64, capacity_gb: f64, years: f64) -> f64 {
    tbw_tb * 1000.0 / (capacity_gb * DAYS_PER_YEAR * years)
}

/// The rating that a number of full drive writes a day stands for.
pub fn tbw_of_drive_writes(drive_writes_per_day: f64, capacity_gb: f64, years: f64) -> f64 {
    drive_writes_per_day * capacity_gb * DAYS_PER_YEAR * years / 1000.0
}

/// Days of a mean time between failures in hours.
pub fn mtbf_days(mtbf_hours: f64) -> f64 {
    mtbf_hours / 24.0
}

/// Years of it.
pub fn mtbf_years(mtbf_hours: f64) -> f64 {
    mtbf_hours / HOURS_PER_YEAR
}

/// The annual failure rate: the share of drives in operation that fail in a year, `1 - e^(-8766 h / MTBF)`.
pub fn annual_failure_rate(mtbf_hours: f64) -> f64 {
    -(-HOURS_PER_YEAR / mtbf_hours).exp_m1()
}

/// The mean time between failures of such a rate.
pub fn mtbf_of_rate(annual_failure_rate: f64) -> f64 {
    -HOURS_PER_YEAR / (-annual_failure_rate).ln_1p()
}

/// Hours in which a drive is filled at a rate.
pub fn rebuild_hours(capacity_tb: f64, mb_per_s: f64) -> f64 {
    capacity_tb * 1e6 / mb_per_s / 3600.0
}

/// The probability that a rebuild meets a sector that cannot be read, where nothing else holds its data: `1 - (1 - r)^bits` for r
/// unreadable bits of one read.
pub fn unreadable_probability(read_tb: f64, unreadable_per_bit: f64) -> f64 {
    -(read_tb * 8e12 * (-unreadable_per_bit).ln_1p()).exp_m1()
}

/// Space of an array that data can take, in the unit of the smallest drive's size.
///
/// # Errors
/// If there is no such array.
pub fn usable(level: Level, members: usize, smallest: f64) -> Result<f64, String> {
    match level.refusal(members) {
        Some(refusal) => Err(refusal),
        None => Ok(level.data_share(members) * members as f64 * smallest),
    }
}
