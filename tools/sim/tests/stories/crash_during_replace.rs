//! Two bugs. A single superblock update gave a slot to a replacement; after a torn update the slot had neither the old member nor
//! the new. A copy that continued after a crash lacked the writes that had reached only the old member.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn a_slot_has_the_old_member_or_the_new_whenever_power_goes() {
    let tally = tell(Level::Raid4, 3, |setup| setup.log = false, &|seed| {
        vec![write(0, 64), Step::Drain, Step::Replace(1), cut(10 + seed * 2), write(9, 30), Step::Settle, write(3, 3)]
    });
    assert!(tally.crashes >= 10 && tally.met["replace"] >= 50, "{tally:?}");
}

/// A degraded array has no resync after a crash, and only the resync restarted the copy. The new member never got the part of a
/// write in flight that had reached only the old member.
#[test]
fn a_copy_is_begun_anew_after_a_crash_of_a_degraded_array_too() {
    let long = |setup: &mut stria_sim::setup::Setup| setup.drives.iter_mut().for_each(|drive| drive.sectors = 2048 + 4096);
    let tally = tell(Level::Raid6, 5, long, &|seed| {
        let mut steps = vec![write(0, 128), Step::Drain, Step::Speed(1024), Step::Replace(0), Step::Fail(1 + seed % 4)];
        steps.extend([Step::Pause(1_500_000_000), Step::Flush, Step::Drain, cut(20 + seed)]);
        steps.extend((0..8).map(|at| write(16 * at, 8)));
        steps.extend([Step::Drain, Step::Settle]);
        steps
    });
    assert!(tally.met["power cut"] >= 50 && tally.met["replace"] >= 50, "{tally:?}");
}
