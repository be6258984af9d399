//! The bug: an array of arrays asked its spans only at the start whether they have volatile caches. A span that got its first
//! such member later was never flushed.

use super::{cut, run_fates, write};
use stria_array::Level;
use stria_sim::Step;
use stria_sim::setup::Setup;

#[test]
fn a_flush_reaches_a_cache_that_joined_a_span_later() {
    let level = Level::Raid5;
    let tally = run_fates(
        0..60,
        &|| {
            let mut setup = Setup::plain(level, level.default_layout(), 3, 2);
            let members = setup.drives.len() - 1;
            setup.drives[..members].iter_mut().for_each(|drive| drive.volatile_cache = false);
            setup
        },
        4,
        &|seed| {
            // Both spans first update their superblocks, because the atlas keeps the power on until then.
            let before = [write(0, 64), Step::Drain, Step::Pause(1_500_000_000), Step::Replace(seed), Step::Settle];
            let flushed = [write(seed, 30), Step::Drain, Step::Flush, Step::Drain, cut(0), write(9, 1), Step::Drain];
            before.into_iter().chain(flushed).collect()
        },
    );
    assert!(tally.met["replace"] >= 50 && tally.crashes >= 25, "{tally:?}");
}
