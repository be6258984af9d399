//! Goal: an array answers every request, and stops, even if more members fail at once than it survives. Method: many short
//! histories of every level on one to three lanes, in which several drives refuse writes or vanish at once. Where all are back
//! later, what was flushed is still there.

use stria_array::Flaw;
use stria_sim::setup::FAMILIES;
use stria_sim::{Mutant, back, beyond};

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

/// R6, R7, R50: a controller takes all drives or some of them along, and brings them back.
#[test]
fn what_was_flushed_is_there_when_all_drives_are_back() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let only = std::env::var("FAMILY").ok();
    let told = std::env::var_os("TOLD").is_some();
    let (first, count) = (number("SEED").unwrap_or(0), if told { 1 } else { number("COUNT").unwrap_or(100) });
    let (mut started, mut refused) = (0, 0);
    for family in FAMILIES.iter().filter(|family| only.as_ref().is_none_or(|only| only == *family)) {
        for seed in first..first + count {
            let hear: Option<Box<dyn FnMut(&str)>> = told.then(|| Box::new(|line: &str| println!("{line}")) as _);
            match back::run(seed, Some(family), None, hear) {
                Ok(back::Ended::Started) => started += 1,
                Ok(back::Ended::Refused) => refused += 1,
                Err(what) => panic!("RAID {family}, SEED={seed}: {what}"),
            }
        }
    }
    assert!(told || started > refused, "{started} started, {refused} refused to");
}

/// Seeds that failed: lanes waited for one that could not flush, and nothing was answered any more (R71).
#[test]
fn lanes_hear_of_a_superblock_that_is_refused_while_they_wait_for_each_other() {
    for (family, seed) in [("4", 1031), ("6", 984)] {
        back::run(seed, Some(family), None, None).unwrap_or_else(|what| panic!("RAID {family}, SEED={seed}: {what}"));
    }
}

/// R21: the record of a write of a member that was dropped is gone, and the member is back.
#[test]
fn records_that_are_retired_before_drops_are_durable_are_found() {
    for (family, seed) in [("4", 19), ("5", 3), ("6", 59)] {
        let run = |mutant| back::run(seed, Some(family), mutant, None);
        assert!(run(None).is_ok(), "the history is one that the array must survive");
        let mutant = Some(Mutant::Engine(Flaw::RetiredBeforeDrop));
        assert!(run(mutant).is_err(), "it lived through seed {seed} of RAID {family}");
    }
}
