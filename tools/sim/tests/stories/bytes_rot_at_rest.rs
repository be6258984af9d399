//! Bytes change at rest, a write is lost, or a write lands elsewhere, and the drive reports no error. If redundancy can name the
//! member, a scrub corrects only that member. Otherwise it reports a mismatch and changes nothing. Then members are lost.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;
use stria_sim::workload::Rot;

fn rot_on(level: Level, members: usize, met: [&str; 3]) {
    let tally = tell(level, members, |_| {}, &|seed| {
        let rot = [Rot::Flipped, Rot::Lost, Rot::Misdirected][seed as usize % 3];
        let rot = Step::Rot { drive: seed, at: seed * 77 + (seed << 16), rot };
        vec![write(0, 128), Step::Drain, Step::Flush, Step::Settle, rot, write(seed, 3), cut(6 + seed), write(9, 9), Step::Settle]
    });
    for what in met {
        assert!(tally.met.get(what).is_some_and(|&count| count >= 10), "{level} of {members}, {what}: {tally:?}");
    }
}

#[test]
fn a_member_that_redundancy_can_name_is_mended_alone() {
    let met = ["rot corrected", "lost write corrected", "misdirected write corrected"];
    rot_on(Level::Raid6, 4, met);
    rot_on(Level::Raid1, 3, met);
}

#[test]
fn what_redundancy_cannot_name_is_told_and_not_touched() {
    let met = ["rot reported", "lost write reported", "misdirected write reported"];
    rot_on(Level::Raid5, 3, met);
    rot_on(Level::Raid1, 2, met);
}
