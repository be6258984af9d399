//! The members' logs are full again and again, of what only waits for a flush.

use super::{run_fates, write};
use stria_array::Level;
use stria_sim::Step;
use stria_sim::setup::Setup;

#[test]
fn every_write_ends_though_the_log_is_full() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid6, 5)] {
        let setup = || {
            let mut setup = Setup::plain(level, level.default_layout(), members, 1);
            setup.strip_sectors = 128;
            // One chunk that is never idle: no bit of it is cleared, for which caches would be flushed.
            setup.intent_chunk_bytes = Some(8 << 20);
            setup.drives.iter_mut().for_each(|drive| drive.sectors = 2048 + 32 * setup.strip_sectors);
            setup
        };
        // Strips in an order that never makes a whole stripe of what is under way.
        let strips = 32 * (members - level.parity_count()) as u64;
        let steps = |seed: u64| (0..120).map(|index| write((index * 37 + seed) % strips * 128, 128)).collect::<Vec<Step>>();
        let tally = run_fates(&setup, 32, &steps);
        assert!(tally.met["log full"] >= 60, "{level}: {tally:?}");
    }
}
