//! Published measurements beside what the models say of them.
//!
//! - [`published`]: the numbers, by their place in `reference/published.toml`.
//! - [`row`]: a number, its model, and how it counts; a sentence and whether it holds.
//! - `experiment`: the runs that the cases are made of.
//! - One module for each publication: what it measured, run on the models.
//! - [`page`]: the table as a page and as CSV.

mod c226;
mod controllers;
mod d3700;
mod experiment;
mod p4510;
pub mod page;
pub mod published;
pub mod row;
mod statistics;
mod z87;

/// Parameters that were calibrated beside those of the profiles, with what they were taken from.
pub const CALIBRATED_IN_RUNS: [(&str, &str); 2] = [
    (
        "requests in flight of sequential tests on the Z87, Z77 and A85X: 4",
        "z87.text[3]: RAID 5 of 4 writes slower than RAID 0 of 2",
    ),
    ("spare area of twelve D3700: 0.80", "nvme_twelve.iops_4k[0]: 1,363,079 writes a second"),
];

use crate::campaign::at_once;

pub use row::{Case, Count, Row, Sentence};

/// All publications, computed anew.
///
/// # Errors
/// If the published numbers or a profile cannot be read.
pub fn all() -> Result<Vec<Case>, Box<dyn std::error::Error + Send + Sync>> {
    all_showing(&|_, _| ())
}

/// The same; `ended` is told how many publications have ended, and of how many.
///
/// # Errors
/// As [`all`].
pub fn all_showing(ended: &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<Case>, Box<dyn std::error::Error + Send + Sync>> {
    let published = published::Published::read()?;
    let cases = [
        z87::case as fn(&published::Published) -> Result<Case, _>,
        c226::case,
        controllers::case,
        statistics::spread,
        statistics::endurance,
        p4510::case,
        d3700::case,
        d3700::twelve,
    ];
    at_once(&cases, ended, |case| case(&published)).into_iter().collect()
}
