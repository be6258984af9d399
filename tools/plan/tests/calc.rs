//! The arithmetic of `stria plan calc`, by the publications' own examples.

use stria_plan::array::Level;
use stria_plan::calc;
use stria_plan::reproduce::published::Published;

fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} instead of {expected}");
}

/// 30 days: a month, as the publication divides.
const DAYS_PER_MONTH: f64 = 30.0;

/// "100 TBW over 10 years = 10 TB a year = 833 GB a month = 27.76 GB a day" (833 / 30). A day of ours is one of 365.25 in a year.
#[test]
fn a_hundred_terabytes_written_over_ten_years() {
    near(calc::written_per_year_gb(100.0, 10.0), 10_000.0, 1e-12);
    near(calc::written_per_month_gb(100.0, 10.0), 833.0, 5e-4);
    near(calc::written_per_month_gb(100.0, 10.0) / DAYS_PER_MONTH, 27.76, 1e-3);
    near(calc::written_per_day_gb(100.0, 10.0), 10_000.0 / 365.25, 1e-12);
}

/// One year for both figures: bytes a day counted 360 days, and full drive writes a day 365.25.
#[test]
fn a_day_and_the_drive_writes_of_a_day_are_of_one_year() {
    near(calc::written_per_day_gb(1380.0, 5.0) / 1000.0, calc::drive_writes_per_day(1380.0, 1000.0, 5.0), 1e-12);
}

/// "1.5 million hours = 62500 days, over 170 years: not a lifetime".
#[test]
fn a_mean_time_between_failures_is_a_rate() {
    near(calc::mtbf_days(1.5e6), 62_500.0, 1e-12);
    assert!((170.0..172.0).contains(&calc::mtbf_years(1.5e6)));
    // Of 171 drives about one fails a year.
    near(calc::annual_failure_rate(1.5e6), 1.0 / 171.6, 1e-3);
    near(calc::mtbf_of_rate(calc::annual_failure_rate(1.5e6)), 1.5e6, 1e-9);
}

/// "8 TB at 500 MB/s takes about 4.5 h, 16 TB twice that".
#[test]
fn a_rebuild_of_eight_terabytes() {
    near(calc::rebuild_hours(8.0, 500.0), 4.5, 0.02);
    near(calc::rebuild_hours(16.0, 500.0), 2.0 * calc::rebuild_hours(8.0, 500.0), 1e-12);
}

/// Intel DC P4500 of 1 TB: 1,380 TBW are 0.75 full drive writes a day over five years, and at most 756 GB a day (data sheet).
#[test]
fn drive_writes_a_day_of_a_data_sheet() {
    near(calc::drive_writes_per_day(1380.0, 1000.0, 5.0), 0.75, 0.01);
    near(calc::tbw_of_drive_writes(0.75, 1000.0, 5.0), 1380.0, 0.01);
    near(calc::written_per_year_gb(1380.0, 5.0) / 365.0, 756.0, 1e-3);
}

/// A rebuild that reads seven drives of 4 TB meets an unreadable sector with a probability of 20 % at one in 10^15 bits, and
/// almost never at one in 10^17.
#[test]
fn the_risk_of_an_unreadable_sector() {
    near(calc::unreadable_probability(28.0, 1e-15), 0.2007, 1e-3);
    near(calc::unreadable_probability(28.0, 1e-17), 28.0 * 8e12 * 1e-17, 2e-3);
}

#[test]
fn usable_space_by_level() {
    let usable = |level, members| calc::usable(level, members, 4.0);
    assert_eq!(usable(Level::Raid0, 6), Ok(24.0));
    assert_eq!(usable(Level::Raid10, 6), Ok(12.0));
    assert_eq!(usable(Level::Raid5 { spans: 1 }, 6), Ok(20.0));
    assert_eq!(usable(Level::Raid6 { spans: 1 }, 6), Ok(16.0));
    assert_eq!(usable(Level::Raid6 { spans: 2 }, 24), Ok(80.0));
    assert_eq!((usable(Level::Raid1, 3), usable(Level::Raid1, 1)), (Ok(4.0), Ok(4.0)));
    assert_eq!((usable(Level::Raid10, 5), usable(Level::Raid10, 2)), (Ok(10.0), Ok(4.0)));
    assert_eq!(usable(Level::Raid5 { spans: 1 }, 2), Ok(4.0));
    assert_eq!(usable(Level::Raid10, 1), Err("RAID 10 takes 2 to 384 members, not 1".to_owned()));
    assert_eq!(usable(Level::Raid5 { spans: 0 }, 6), Err("RAID 50 of 0 spans needs one span at least".to_owned()));
}

#[test]
fn the_ratings_of_the_publication_make_daily_amounts() {
    let published = Published::read().expect("it parses");
    let rating = published.number("endurance.tbw_tb.WD 250 GB").expect("it is there");
    near(calc::written_per_month_gb(rating, 10.0) / DAYS_PER_MONTH, 27.76, 1e-3);
    assert!(published.number("endurance.nothing").is_err());
}
