//! A process dies with writes in the drives' caches, the next one begins its log, and then the power fails and a member is lost.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

/// The last run's log records protected its writes in the caches, until a new log voided them.
#[test]
fn a_new_log_builds_on_nothing_that_power_takes_back() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let tally = tell(level, members, |_| {}, &|seed| {
            let kill = Step::Crash { after: seed % 7, kill: true };
            vec![
                write(0, 96),
                Step::Drain,
                Step::Flush,
                write(3, 2),
                write(30, 9),
                Step::Drain,
                kill,
                write(9, 4),
                write(60, 5),
                Step::Drain,
                cut(seed % 24),
                write(18, 4),
                write(66, 3),
                Step::Drain,
            ]
        });
        assert!(tally.met["member lost with the power"] > 3, "{tally:?}");
    }
}
