//! The bug: a page of checksums that was saved for lack of memory counted as one that a settling waited for. The settling ended
//! before its flush, and the flush ended in a panic.

use super::*;

fn world(seed: u64) -> World {
    let mut drive = Drive::new(None, seed);
    drive.1.volatile_cache = true;
    let mut world = World::open(drive, seed);
    world.device = world.device.with_pages_max(1);
    world
}

#[test]
fn pages_that_are_dropped_while_groups_become_clean_lose_nothing() {
    for seed in 0..200 {
        let mut world = world(seed);
        for _ in 0..30 {
            let tags: Vec<Tag> = (0..1 + world.chance.below(4))
                .map(|_| {
                    let block = world.chance.below(1490);
                    match world.chance.below(2) {
                        0 => world.change(block, 8),
                        _ => world.submit(block, 8, World::read_operation(8)),
                    }
                })
                .collect();
            for tag in tags {
                world.wait(tag).result.expect("right bytes are not refused");
            }
            // Groups become clean five seconds after their last write.
            world.now += world.chance.below(2) * 6_000_000_000;
            for _ in 0..world.chance.below(12) {
                world.step();
            }
        }
        world.close();
        let memory = world.drive.memory();
        let mut world = World::open(Drive::new(Some(&memory), seed), seed);
        assert_eq!(world.refused(0..1500), [], "seed {seed}");
    }
}
