//! The power fails during a rebuild. The rebuild continues after the start, and ends.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn a_rebuild_that_a_crash_cut_short_ends_whole() {
    let tally = tell(Level::Raid6, 5, |_| {}, &|seed| {
        // A failed member is added again once its drop is durable.
        let failed = [write(0, 128), Step::Drain, Step::Flush, Step::Fail(2), Step::Pause(5_000_000)];
        failed.into_iter().chain([Step::AddSpare(0), cut(4 + seed), write(7, 20), Step::Settle]).collect()
    });
    assert!(tally.crashes >= 10 && tally.met["rebuild"] >= 10, "{tally:?}");
}
