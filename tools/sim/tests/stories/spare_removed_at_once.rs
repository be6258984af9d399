//! The bug: a spare was removed while a superblock update was in flight to it. The update never ended, and every write waited for
//! it.

use super::{tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn a_spare_that_is_removed_at_once_holds_nobody_up() {
    let tally = tell(Level::Raid1, 2, |setup| setup.spare_count = 1, &|_| {
        vec![write(5, 1), Step::Remove(0), write(9, 2), Step::Drain, Step::Settle]
    });
    assert!(tally.met["remove"] >= 50, "{tally:?}");
}
