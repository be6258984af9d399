//! Writes are acknowledged when the log has their data. The process dies or the power fails before they are in place.

use super::{tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn what_was_acknowledged_early_outlives_the_process_and_after_a_flush_the_power() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for volatile in [false, true] {
            let caches = |setup: &mut stria_sim::setup::Setup| {
                setup.drives.iter_mut().for_each(|drive| drive.volatile_cache = volatile);
            };
            let tally = tell(level, members, caches, &|seed| {
                let kill = seed % 2 == 0;
                let crash = Step::Crash { after: seed / 2 % 12, kill };
                let mut steps = vec![write(0, 96), Step::Drain, Step::Flush, Step::Drain, write(3, 2), write(30, 9), Step::Drain];
                steps.extend((!kill).then_some(Step::Flush));
                steps.extend([Step::Read { at: 0, sectors: 40 }, Step::Drain, crash, write(50, 7), write(61, 1), Step::Drain]);
                steps
            });
            assert!(tally.met["acknowledged early"] >= 5, "{level}: {tally:?}");
            assert!(tally.met["process killed"] >= 20 && tally.met["power cut"] >= 20, "{level}: {tally:?}");
        }
    }
}
