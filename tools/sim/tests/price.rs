//! The cost of the write log on modelled SSDs, in a few lines of `stria sim price`, remains as docs/SIM.md says.

use stria_array::Level;
use stria_sim::price::{COST, Plan, Price, price};
use stria_sim::ssd::{Cost, DRIVES};

fn of(key: &str, depth: u64, cost: Cost) -> Price {
    let drive = DRIVES.into_iter().find(|drive| drive.key == key).expect("it is modelled");
    price(&Plan { drive, level: Level::Raid5, members: 4, depth, writes: 4000, cost }).expect("the array can be")
}

#[test]
fn a_protected_drive_keeps_most_of_its_speed() {
    for (depth, share, bytes) in [(1, 0.94, 5.02), (32, 0.88, 4.02), (128, 0.88, 4.02)] {
        let Price { without, with } = of("p4510", depth, COST);
        assert!(with.iops > share * without.iops, "QD {depth}: {with:?} with the log, {without:?} without");
        assert!(with.member_writes <= 3.02 && with.member_bytes <= bytes * 4096.0, "QD {depth}: {with:?}");
    }
}

#[test]
fn load_makes_packing() {
    let [alone, loaded] = [1, 128].map(|depth| of("p4510", depth, Cost::default()).with);
    assert!(alone.records_per_append < 1.01 && loaded.records_per_append > 2.0, "{alone:?}, {loaded:?}");
    assert!(loaded.member_writes < 2.5, "{loaded:?}");
}

#[test]
fn writes_to_volatile_caches_share_flushes_and_wait_for_none() {
    for (depth, share) in [(1, 0.9), (32, 0.6)] {
        let Price { without, with } = of("970", depth, COST);
        assert!(with.iops > share * without.iops, "QD {depth}: {with:?} with the log, {without:?} without");
        assert!(with.member_flushes < 0.5, "QD {depth}: {with:?}");
    }
}

/// The 256th drive: the number in its UUID was a byte, so the addition panicked, or two drives had one UUID.
#[test]
fn drives_beyond_255_are_told_apart() {
    let drive = DRIVES.into_iter().find(|drive| drive.key == "p4510").expect("it is modelled");
    let plan = Plan { drive, level: Level::Raid4, members: 256, depth: 1, writes: 100, cost: Cost::default() };
    assert!(price(&plan).is_ok_and(|found| found.without.iops > 0.0));
}
