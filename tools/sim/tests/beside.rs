//! Rebuilds beside clients on modelled SSDs keep the latency of `stria speed --latency`.

use stria_array::{LatencyTarget, Level};
use stria_sim::beside::{Outcome, Plan, beside};
use stria_sim::ssd::{Cost, DRIVES};

/// One client that reads; `None`: the rebuild is held.
fn of(level: Level, members: usize, target: Option<Option<u64>>) -> Outcome {
    let plan = Plan {
        drive: DRIVES.into_iter().find(|drive| drive.key == "p4510").expect("it is modelled"),
        level,
        members,
        depth: 1,
        read_percent: 100,
        target: target.flatten().map(|bound| LatencyTarget { percentile: 9900, bound }),
        held: target.is_none(),
        time: 2_000_000_000,
        cost: Cost::default(),
    };
    beside(&plan).expect("the array can be")
}

#[test]
fn a_rebuild_goes_as_fast_as_clients_allow() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let (held, slow) = (of(level, members, None), of(level, members, Some(None)));
        assert_eq!(held.rebuild_bytes_per_s, 0.0, "{level}");
        assert!((20e6..22e6).contains(&slow.rebuild_bytes_per_s), "{level}: {slow:?}");
        let steered = [300_000, 1_000_000].map(|bound| (bound, of(level, members, Some(Some(bound)))));
        for (bound, outcome) in steered {
            assert!(outcome.p99_ns <= bound * 11 / 10, "{level}: {outcome:?} with 99 of 100 to end in {bound} ns");
            assert!(outcome.rebuild_bytes_per_s > 10.0 * slow.rebuild_bytes_per_s, "{level}: {outcome:?}, {slow:?}");
        }
        assert!(steered[1].1.rebuild_bytes_per_s > 1.2 * steered[0].1.rebuild_bytes_per_s, "{level}: {steered:?}");
    }
}

#[test]
fn a_time_in_which_nothing_ends_is_no_measurement() {
    let drive = DRIVES.into_iter().find(|drive| drive.key == "p4510").expect("it is modelled");
    let plan = Plan {
        drive,
        level: Level::Raid1,
        members: 2,
        depth: 1,
        read_percent: 100,
        target: None,
        held: true,
        time: 1,
        cost: Cost::default(),
    };
    let found = beside(&plan);
    assert!(found.as_ref().is_err_and(|sentence| sentence.contains("measure for longer")), "{found:?}");
}
