//! A member is pulled, misses writes, and returns by the bitmap.

use super::{tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn a_member_that_was_away_gets_what_it_missed() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 3)] {
        let tally = tell(level, members, |_| {}, &|seed| {
            vec![
                write(0, 60),
                Step::Drain,
                Step::Pull(seed),
                write(seed, 9),
                write(seed + 20, 20),
                Step::Drain,
                Step::Return(0),
                write(seed, 3),
                Step::Settle,
            ]
        });
        assert!(tally.met["came back by the bitmap"] >= 50, "{level}: {tally:?}");
    }
}
