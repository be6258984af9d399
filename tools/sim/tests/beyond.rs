//! Goal: an array answers every request, and stops, even if more members fail at once than it survives. Method: many short
//! histories of every level on one to three lanes, in which several drives refuse writes or vanish at once.

use stria_sim::beyond;
use stria_sim::setup::FAMILIES;

fn seeds(family: &str, count: u64) {
    let first: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let told = std::env::var_os("TOLD").is_some();
    for seed in first..first + count {
        let hear: Option<Box<dyn FnMut(&str)>> = told.then(|| Box::new(|line: &str| println!("{line}")) as _);
        beyond::run(seed, Some(family), hear).unwrap_or_else(|what| panic!("RAID {family}, SEED={seed}: {what}"));
        if told {
            return;
        }
    }
}

#[test]
fn every_request_ends_whatever_fails() {
    let count = std::env::var("COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(150);
    let only = std::env::var("FAMILY").ok();
    for family in FAMILIES.iter().filter(|family| only.as_ref().is_none_or(|only| only == *family)) {
        seeds(family, count);
    }
}
