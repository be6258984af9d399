//! Repeatability of a benchmark, and arithmetic of endurance.

use super::experiment::{Ask, Bench, measure};
use super::published::Published;
use super::row::{Case, Count};
use crate::array::Level;
use crate::queueing::amplification_limit;

/// Mean and mean absolute deviation.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| (value - mean).abs()).sum::<f64>() / values.len() as f64)
}

pub fn spread(published: &Published) -> Result<Case, Box<dyn std::error::Error + Send + Sync>> {
    let mut case = Case::new("spread", "Repeatability of a benchmark: mean, mean absolute deviation, the same in % of the mean");
    for kind in ["read", "write"] {
        for load in ["seq", "rnd4k", "rnd4k_64thr"] {
            let (mean, deviation) = mean_and_deviation(&published.numbers(&format!("spread.{kind}.{load}"))?);
            let found = [mean, deviation, 100.0 * deviation / mean];
            for (index, (name, unit)) in [("mean", "MB/s"), ("deviation", "MB/s"), ("deviation", "%")].into_iter().enumerate() {
                let place = format!("{kind}_mean_error_pct.{load}[{index}]");
                case.add(published, &place, format!("{kind} {load}, {name}"), unit, Count::Arithmetic, found[index])?;
            }
        }
    }
    case.no_claim.push((0, "says how to measure"));
    case.no_claim.push((1, "says how to measure; `ssd::config::stored_share` models it, tests/drives.rs checks it"));
    let disk = Bench::new("rs25", "savvio10k5")?;
    let ssd = Bench::new("c226", "s3500")?;
    let alone = |bench: &Bench| {
        let ask = Ask { requests: 2_000, ..Ask::random(1, 1, 1.0) };
        measure(&mut bench.used_rig(Level::Single, 1, 64), ask)
    };
    let (slow, fast) = (alone(&disk), alone(&ssd));
    case.at_most(2, "4K random reads of an SSD gain 5 times and more over a disk", 5.0 * slow.iops, 1.0, fast.iops);
    case.at_most(2, "and stay below what SATA 3G carries, 300 MB/s", fast.bytes_per_s / 1e6, 1.0, 300.0);
    Ok(case)
}

pub fn endurance(published: &Published) -> Result<Case, Box<dyn std::error::Error + Send + Sync>> {
    let mut case = Case::new("endurance", "Endurance, as arithmetic: tests/calc.rs has the publication's examples");
    // Its numbers are data sheets' endurance ratings, which nothing computes; what it computes stands in sentences.
    for drive in ["WD 250 GB", "Kingston HyperX 120 GB", "OCZ Trion 100 240 GB", "Crucial MX100"] {
        case.add(published, &format!("tbw_tb.{drive}"), format!("{drive}: TBW of its data sheet"), "TB", Count::Given, None)?;
    }
    case.at_most(
        0,
        "changing one page rewrites a block: small writes are amplified, here with 7 % of spare area",
        1.0,
        1.0,
        amplification_limit(1.07),
    );
    Ok(case)
}
