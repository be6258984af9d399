//! The write log's price on modelled SSDs, on a few lines of `stria sim price`.

use stria_array::Level;
use stria_sim::price::{Plan, Price, price};
use stria_sim::ssd::{DRIVES, Figures};

fn of(drive: Figures, level: Level, members: usize, depth: u64) -> Price {
    price(&Plan { drive, level, members, depth, writes: 4000 }).expect("the array can be")
}

#[test]
fn the_log_keeps_most_of_the_speed_where_power_loss_is_no_matter() {
    let protected = DRIVES.into_iter().filter(|drive| drive.flush_ns.is_none());
    for drive in protected {
        for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
            for depth in [1, 32, 128] {
                let Price { without, with } = of(drive, level, members, depth);
                println!("{} RAID {level} QD {depth}: {without:?} {with:?}", drive.key);
            }
        }
    }
}
