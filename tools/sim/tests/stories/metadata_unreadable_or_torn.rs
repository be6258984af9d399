//! The superblock of one member is unreadable when the array starts after a crash: the array starts without that member. The
//! power fails while a drive gets its first metadata: the drive is not a member, and can be added again.

use super::{cut, tell, write};
use stria_array::Level;
use stria_sim::Step;

#[test]
fn an_array_starts_without_the_member_whose_superblock_cannot_be_read() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4)] {
        let tally = tell(level, members, |_| {}, &|seed| {
            let lose = Step::LoseSuperblock(seed);
            vec![
                write(0, 64),
                Step::Drain,
                Step::Flush,
                lose,
                cut(seed % 16),
                write(5, 8),
                write(seed, 2),
                Step::AddSpare(0),
                Step::Settle,
            ]
        });
        let met = |what: &str| tally.met.get(what).copied().unwrap_or(0);
        assert!(met("superblock unreadable at the start") >= 30 && met("rebuild") >= 30, "{level}: {tally:?}");
    }
}

#[test]
fn a_drive_whose_adoption_was_torn_is_no_member() {
    let tally = tell(Level::Raid5, 3, |_| {}, &|seed| {
        vec![write(seed, 20), Step::AdoptTorn(seed), write(3, 3), Step::AddSpare(0), Step::Fail(seed), write(30, 9), Step::Settle]
    });
    assert!(tally.met["adoption torn by a power cut"] >= 50 && tally.met["rebuild"] >= 50, "{tally:?}");
}
