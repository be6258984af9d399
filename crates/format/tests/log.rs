//! Goal: a power cut in the middle of a write harms nothing but that write, also when members are lost with it, or were before.
//! Method: the real engine and metadata on drives in memory. The power is cut after every single sector that reaches a
//! drive; then every set of members that the level survives is taken away, the rest is started, and every sector must
//! read as it was, or, where the write went, as it was or as it was to be.

mod support;

use stria_array::Level;
use stria_format::md::{LogChoice, Options};
use support::running::*;
use support::*;

/// 2 MiB: half of it is metadata and log.
const DRIVE_SECTORS: u64 = 4096;
/// 4 KiB.
const STRIP: u64 = 8;
/// Stripes that are looked at.
const STRIPES: u64 = 3;

/// Cuts a write of `sectors` at `start` everywhere, on an array that lacks `missing` from before.
fn cut_everywhere(level: Level, count: usize, missing: &[usize], writes: &[(u64, u64)]) {
    let mut create = request(level, level.default_layout(), count, 0, DRIVE_SECTORS);
    create.strip_sectors = STRIP;
    let (drives, creation) = carry_out(&create);
    Cuts {
        what: format!("RAID {level} of {count} without {missing:?}: {writes:?}"),
        sectors: STRIPES * STRIP * creation.geometry.data_count() as u64,
        stripes: STRIPES,
        missing,
        losses_max: level.parity_count() - missing.len(),
        writes,
        torn: 0..0,
        from: 0,
    }
    .everywhere(&drives);
}

#[test]
fn one_sector_of_raid_5() {
    cut_everywhere(Level::Raid5, 4, &[], &[(9, 1)]);
}

#[test]
fn one_strip_of_raid_5_that_lacks_a_member() {
    for missing in 0..3 {
        cut_everywhere(Level::Raid5, 3, &[missing], &[(9, 3)]);
    }
}

#[test]
fn two_strips_of_raid_5() {
    cut_everywhere(Level::Raid5, 4, &[], &[(6, 4)]);
}

#[test]
fn a_whole_stripe_of_raid_5_and_then_a_part_of_it() {
    cut_everywhere(Level::Raid5, 3, &[], &[(16, 16), (17, 2)]);
}

#[test]
fn one_sector_of_raid_6() {
    cut_everywhere(Level::Raid6, 5, &[], &[(9, 1)]);
}

#[test]
fn two_strips_of_raid_6_that_lacks_a_member() {
    for missing in [0, 3] {
        cut_everywhere(Level::Raid6, 5, &[missing], &[(6, 4)]);
    }
}

#[test]
fn a_part_after_another_part_of_raid_4() {
    cut_everywhere(Level::Raid4, 4, &[], &[(2, 2), (10, 2)]);
}

#[test]
fn without_a_log_there_is_none() {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
    create.log = LogChoice::None;
    let (drives, _) = carry_out(&create);
    assert!(started(&drives, &Options::default()).config.log.is_none());
}
