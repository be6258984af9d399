//! Power goes while a small discard is under way, and a member goes with it.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn a_discard_leaves_what_was_there_or_zeros() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let unmap = |setup: &mut stria_sim::setup::Setup| setup.drives.iter_mut().for_each(|drive| drive.unmap = true);
        let tally = tell(level, members, unmap, &|seed| {
            let discard = |at| Step::Discard { at, sectors: 100 };
            vec![
                write(0, 256),
                Step::Drain,
                Step::Flush,
                Step::Drain,
                cut(4 + seed),
                discard(10),
                discard(120),
                write(20, 9),
                Step::Drain,
            ]
        });
        assert!(tally.met["member lost with the power"] > 3, "{tally:?}");
    }
}
