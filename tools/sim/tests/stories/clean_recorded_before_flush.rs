//! The bug: "clean" was written one second after the last write, and bits were cleared after five, while data was still in
//! volatile caches. After a power cut data and parity were inconsistent in an array that was marked clean.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn what_is_said_to_be_clean_agrees_after_a_power_cut() {
    for level in [Level::Raid1, Level::Raid5] {
        let tally = tell(level, 3, |setup| setup.log = false, &|seed| {
            let pause = if seed % 2 == 0 { 1_200_000_000 } else { 6_500_000_000 };
            vec![write(seed, 30), write(seed + 9, 3), Step::Drain, Step::Pause(pause), cut(seed % 4), write(90, 1), Step::Settle]
        });
        assert!(tally.crashes >= 40, "{level}: {tally:?}");
    }
}
