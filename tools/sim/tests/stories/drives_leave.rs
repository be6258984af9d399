//! Drives hang until they are failed or their process is killed, and end their requests late. Files are cut short, while the
//! array runs and at rest.

use super::{tell, write};
use stria_array::Level;
use stria_sim::setup::Setup;
use stria_sim::{Step, Tally};

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)];

/// Data, then writes of which some wait for a hanging drive.
fn hang(seed: u64) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..8).map(|index| write(index * 32, 32)).collect();
    steps.extend([Step::Flush, Step::Drain, Step::Stall { drive: seed % 3, pause: 30_000_000_000 }]);
    steps.extend((0..3).map(|index| write((seed * 5 + index * 9) % 200, 5)));
    steps
}

/// Everything is read, then a drive returns, and everything is read again.
fn back(steps: &mut Vec<Step>, seed: u64) {
    let read = |at: u64| Step::Read { at: at * 64, sectors: 64 };
    steps.extend((0..4).map(read));
    steps.extend([Step::Drain, Step::Pause(60_000_000_000), write(seed % 100, 7), Step::Return(seed), Step::Settle]);
    steps.extend((0..4).map(read));
}

fn hold(setup: &mut Setup, lanes: usize) {
    setup.holds = true;
    setup.run_on(lanes);
}

fn met(tally: &Tally, what: &str) -> u64 {
    tally.met.get(what).copied().unwrap_or(0)
}

#[test]
fn what_a_dropped_member_ends_late_harms_nothing() {
    for (level, members) in LEVELS {
        for lanes in [1, 2] {
            let steps = |seed: u64| {
                let mut steps = hang(seed);
                steps.push(Step::FailHung);
                steps.extend((0..8).map(|index| write((seed * 3 + index * 7) % 200, 4)));
                if seed.is_multiple_of(3) {
                    steps.extend([Step::Drain, Step::Crash { after: seed % 16, kill: true }]);
                    steps.extend((0..4).map(|index| write(index * 11, 4)));
                }
                back(&mut steps, seed);
                steps
            };
            let tally = tell(level, members, |setup| hold(setup, lanes), &steps);
            assert!(met(&tally, "dropped while it hangs") >= 30, "{level} on {lanes} lanes: {tally:?}");
            assert!(met(&tally, "not in sync, and held when its process died") >= 5, "{level} on {lanes} lanes: {tally:?}");
        }
    }
}

#[test]
fn what_outlives_its_process_on_a_hung_drive_harms_nothing() {
    for (level, members) in LEVELS {
        let steps = |seed: u64| {
            let mut steps = hang(seed);
            steps.push(Step::Crash { after: seed % 20, kill: true });
            steps.extend((0..4).map(|index| write((seed + index * 13) % 200, 4)));
            // Repeated while the drive is still held, or free again.
            let pause = if seed.is_multiple_of(2) { 1_000_000 } else { 40_000_000_000 };
            steps.extend([
                Step::Drain,
                Step::Pause(pause),
                Step::Crash { after: seed % 8, kill: true },
                write(9, 4),
                Step::Drain,
            ]);
            back(&mut steps, seed);
            steps
        };
        let tally = tell(level, members, |setup| hold(setup, 1), &steps);
        assert!(met(&tally, "member held when its process died") >= 20, "{level}: {tally:?}");
        assert!(met(&tally, "held, and found again at a start") >= 3, "{level}: {tally:?}");
    }
}

#[test]
fn a_drive_that_is_cut_short_is_lost_and_nothing_else() {
    for (level, members) in LEVELS {
        let steps = |seed: u64| {
            let mut steps: Vec<Step> = (0..8).map(|index| write(index * 32, 32)).collect();
            steps.extend([Step::Flush, Step::Drain]);
            let stopped = seed.is_multiple_of(2);
            // Bit 32 chooses between all of the drive and its data.
            steps.push(Step::Shrink { drive: seed, at: (seed * 97) | ((seed % 4 / 2) << 32), stopped });
            steps.extend((0..4).map(|index| write((seed * 5 + index * 9) % 200, 5)));
            if stopped {
                steps.push(if seed.is_multiple_of(3) {
                    Step::Restart
                } else {
                    Step::Crash { after: seed % 16, kill: seed % 3 == 1 }
                });
                steps.extend((0..4).map(|index| write(index * 17, 4)));
            }
            back(&mut steps, seed);
            steps
        };
        let tally = tell(level, members, |_| {}, &steps);
        assert!(met(&tally, "cut short") >= 25, "{level}: {tally:?}");
        assert!(met(&tally, "cut short while the array is stopped") >= 25, "{level}: {tally:?}");
    }
}
