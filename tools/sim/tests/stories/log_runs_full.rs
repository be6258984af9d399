//! The members' logs fill up again and again with records that only wait for a flush.

use super::{run_fates, write};
use std::ops::Range;
use stria_array::Level;
use stria_sim::Step;
use stria_sim::setup::Setup;
use stria_sim::workload::ENDS_EVERY;

/// Writes that never coalesce to a full stripe.
fn fill(ends_every: u64, fates: Range<u64>) {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid6, 5)] {
        let setup = || {
            let mut setup = Setup::plain(level, level.default_layout(), members, 1);
            setup.ends_every = ends_every;
            setup.strip_sectors = 128;
            // The chunk is never idle: its bit is not cleared, which would flush the caches.
            setup.intent_chunk_bytes = Some(8 << 20);
            setup.drives.iter_mut().for_each(|drive| drive.sectors = 2048 + 32 * setup.strip_sectors);
            setup
        };
        let strips = 32 * (members - level.parity_count()) as u64;
        let steps = |seed: u64| (0..120).map(|index| write((index * 37 + seed) % strips * 128, 128)).collect::<Vec<Step>>();
        let tally = run_fates(fates.clone(), &setup, 32, &steps);
        assert!(tally.met["log full"] >= 60, "{level}: {tally:?}");
    }
}

#[test]
fn every_write_ends_though_the_log_is_full() {
    fill(0, 0..60);
}

/// A flush frees space in the log while an append is in flight that was planned without that space.
#[test]
fn every_write_ends_though_much_is_heard_at_once() {
    // On RAID 4, fate 111 hung.
    fill(ENDS_EVERY, 80..140);
}
