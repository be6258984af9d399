//! Handing a slot over to a copy took one record; torn, the slot had neither the old member nor the new. And a copy that
//! went on after a crash lacked what had reached the old member only.

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
