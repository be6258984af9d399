//! The write log's price on modelled SSDs, on a few lines of `stria sim price`: what docs/SIM.md says of it stays so.

use stria_array::Level;
use stria_sim::price::{COST, Plan, Price, price};
use stria_sim::ssd::{Cost, DRIVES};

fn of(key: &str, depth: u64, cost: Cost) -> Price {
    let drive = DRIVES.into_iter().find(|drive| drive.key == key).expect("it is modelled");
    price(&Plan { drive, level: Level::Raid5, members: 4, depth, writes: 4000, cost }).expect("the array can be")
}

#[test]
fn a_protected_drive_keeps_most_of_its_speed() {
    for depth in [1, 32, 128] {
        let Price { without, with } = of("p4510", depth, COST);
        assert!(with.iops > 0.75 * without.iops, "QD {depth}: {with:?} with the log, {without:?} without");
        assert!(with.member_writes <= 3.02 && with.member_bytes <= 4.02 * 4096.0, "QD {depth}: {with:?}");
    }
}

#[test]
fn load_makes_packing() {
    let [alone, loaded] = [1, 128].map(|depth| of("p4510", depth, Cost::default()).with);
    assert!(alone.records_per_append < 1.01 && loaded.records_per_append > 2.0, "{alone:?}, {loaded:?}");
    assert!(loaded.member_writes < 2.5, "{loaded:?}");
}

#[test]
fn a_volatile_cache_makes_every_write_wait_for_a_flush() {
    let Price { without, with } = of("970", 1, COST);
    assert!(with.mean_ns > without.mean_ns + 900_000.0, "{with:?} with the log, {without:?} without");
}
