//! One of several lanes drops a failing member, while the others use it a little longer. The process dies or the power fails at
//! any moment of that. No acknowledged write relies on a member that the superblocks then call failed.

use super::{tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn what_others_acknowledge_while_one_drops_a_member_is_kept() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let mut met = 0;
        for lanes in [2, 3] {
            let tally = tell(level, members, |setup| setup.run_on(lanes), &|seed| {
                let kill = seed % 2 == 0;
                let mut steps = vec![write(0, 96), Step::Flush, Step::Drain, Step::FailWrite(seed / 2 % 7)];
                steps.push(Step::Crash { after: 3 + seed / 2, kill });
                steps.extend((0..8).map(|part| write(part * 12, 4)));
                steps.extend([Step::Flush, Step::Drain, write(40, 30), Step::Drain, Step::Settle]);
                steps.extend([Step::Read { at: 0, sectors: 96 }, Step::Drain]);
                steps
            });
            assert!(tally.crashes >= 40, "{level} on {lanes} lanes: {tally:?}");
            met += tally.met.get("member failed").copied().unwrap_or(0);
        }
        assert!(met >= 20, "{level}: a member failed {met} times");
    }
}
