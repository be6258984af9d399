//! A member hangs for a while beside writes. Other members answer its pending reads, until the power fails.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn what_others_answer_is_as_right() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let read = |at: u64| Step::Read { at, sectors: 4 };
        let steps = |seed: u64| {
            let mut steps: Vec<Step> = (0..16).map(|index| write(index * 16, 16)).collect();
            steps.extend((0..160).map(|index| read(index * 8 % 256)));
            for round in 0..3 {
                steps.push(Step::Stall { drive: seed + round, pause: 300_000_000 });
                steps.extend(
                    (0..24).flat_map(|index| [read((seed + index * 5) * 8 % 256), write((seed + index * 11) * 4 % 256, 4)]),
                );
                steps.push(cut(40 + seed * 3));
                steps.push(Step::Flush);
                steps.extend((0..40).map(|index| read(index * 8 % 256)));
            }
            steps
        };
        let tally = tell(level, members, |setup| setup.hedges = true, &steps);
        assert!(tally.met.get("slow read answered by others") >= Some(&10), "{level}: {tally:?}");
    }
}
