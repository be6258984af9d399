//! Discarded sectors read as zeros. The power fails while a small discard is in flight, or after its flush, and a member is lost.

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

#[test]
fn what_was_discarded_and_flushed_stays_zeros() {
    let levels =
        [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)];
    for (level, members) in levels {
        for unmaps in [true, false] {
            let unmap = move |setup: &mut stria_sim::setup::Setup| setup.drives.iter_mut().for_each(|drive| drive.unmap = unmaps);
            tell(level, members, unmap, &|seed| {
                let discard = |at, sectors| Step::Discard { at, sectors };
                vec![
                    write(0, 256),
                    Step::Drain,
                    Step::Flush,
                    Step::Drain,
                    // Full stripes with parts of others, a part of one strip, and one sector.
                    discard(10, 100),
                    discard(130, 5),
                    discard(200, 1),
                    Step::Drain,
                    Step::Flush,
                    Step::Drain,
                    cut(4 + seed),
                    write(20, 9),
                    write(128, 4),
                    Step::Drain,
                ]
            });
        }
    }
}
