//! The wear of drives by clients' writes: formulas, on bytes that the model counts.

use crate::calc::{DAYS_PER_YEAR, drive_writes_per_day};

/// 5: the years of an endurance rating. Source: JESD218, and the data sheets of the catalogue.
pub const RATED_YEARS: f64 = 5.0;

/// Wear of the members, which most levels spread evenly; the parity member of RAID 4 takes more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    /// Bytes that members take in for each byte that clients write. From the model.
    pub written_share: f64,
    /// Bytes that the most worn member takes in for each. From the model.
    pub worn_share: f64,
    /// Terabytes that clients may write to the array in a day for [`RATED_YEARS`].
    pub tb_per_day: f64,
    /// The wear by the amount that clients write, if that was given.
    pub used: Option<Use>,
}

/// The wear by an amount that is written every day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Terabytes that the most worn member takes in a year.
    pub tbw_per_year: f64,
    /// Years until its endurance rating is used up.
    pub years: f64,
    /// The writes of a day, relative to its capacity.
    pub drive_writes_per_day: f64,
}

impl Wear {
    /// The wear of drives with a rating of `tbw_tb` terabytes, if clients write `client_tb_per_day` to the array.
    pub fn of(written_share: f64, worn_share: f64, tbw_tb: f64, capacity_tb: f64, client_tb_per_day: Option<f64>) -> Self {
        let tb_per_day = tbw_tb / (RATED_YEARS * DAYS_PER_YEAR) / worn_share;
        let used = client_tb_per_day.map(|client| {
            let tbw_per_year = client * worn_share * DAYS_PER_YEAR;
            Use {
                tbw_per_year,
                years: tbw_tb / tbw_per_year,
                drive_writes_per_day: drive_writes_per_day(tbw_per_year, capacity_tb * 1e3, 1.0),
            }
        });
        Self { written_share, worn_share, tb_per_day, used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight drives of 1,380 TB in RAID 10: 0.756 TB a day and drive for five years of 365 days (data sheet of the P4500), half
    /// of it for each byte of a client.
    #[test]
    fn a_rating_lasts_as_long_as_the_data_sheet_says() {
        let wear = Wear::of(2.0, 2.0 / 8.0, 1380.0, 1.0, Some(3.02));
        assert!((wear.tb_per_day / (8.0 * 0.756 / 2.0) - 1.0).abs() < 2e-3, "{wear:?}");
        let used = wear.used.expect("it was said");
        assert!((used.years / 5.0 - 1.0).abs() < 2e-3 && (used.drive_writes_per_day / 0.755 - 1.0).abs() < 2e-3, "{used:?}");
        assert!((used.tbw_per_year * used.years / 1380.0 - 1.0).abs() < 1e-12);
    }
}
