//! The write hole: the power fails while data and parity of a stripe are in flight, and a member is lost.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn what_was_not_being_written_survives_a_power_cut_and_a_lost_member() {
    let tally = tell(Level::Raid5, 4, |_| {}, &|seed| {
        vec![write(0, 96), Step::Drain, Step::Flush, cut(5 + seed), write(3, 2), write(30, 9), write(60, 8), Step::Drain]
    });
    assert!(tally.met["member lost with the power"] > 3, "{tally:?}");
}
