//! Parity that a write had found unreadable was made anew from all data strips as they lay, also from one that a rebuild
//! had not filled yet.

use super::{tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn parity_is_mended_from_what_is_filled() {
    let tally = tell(Level::Raid6, 5, |setup| setup.strip_sectors = 32, &|seed| {
        let mut steps = vec![write(0, 128), write(128, 128), Step::Drain, Step::Fail(2), Step::Hold(true), Step::AddSpare(0)];
        steps.extend((0..4).map(|at| Step::Spoil { drive: seed, at: 8 * at + 32 * (seed % 4), sectors: 4 }));
        steps.extend((0..8).flat_map(|at| [write(32 * at + 28, 8), Step::Drain]));
        steps.extend([Step::Drain, Step::Pause(50_000_000), Step::Fail(seed + 1), Step::Read { at: 0, sectors: 256 }]);
        steps
    });
    assert!(tally.met["unreadable sectors"] >= 50 && tally.met["read corrected"] >= 10, "{tally:?}");
}
