//! A process is killed in the midst of writes; the next one is asked for them before its resync is through, and then members are lost,
//! one after the other, also together with another kill. What was read and flushed stays.

use super::{run_fates, write};
use stria_array::Level;
use stria_sim::setup::Setup;
use stria_sim::{Step, Tally};

/// All that was written is read, and a flush ends.
fn read_all() -> Vec<Step> {
    let read = (0..4).map(|part| Step::Read { at: part * 64, sectors: 64 });
    read.chain([Step::Drain, Step::Flush, Step::Drain]).collect()
}

/// `before`: what befalls the array before the kill. `sectors`: the length of the writes that are cut short, one behind the other.
fn tell(level: Level, members: usize, lanes: usize, before: &[Step], sectors: &[u64]) -> Tally {
    let setup = || {
        let mut setup = Setup::plain(level, level.default_layout(), members, 1);
        setup.run_on(lanes);
        setup.late_sweeps = true;
        setup
    };
    let tally = run_fates(0..96, &setup, 8, &|seed| {
        let (moment, way, which) = (seed % 16, seed / 16 % 3, seed / 48);
        // A large one leaves no records in the log.
        let mut steps = vec![write(0, 240), Step::Drain, Step::Flush, Step::Drain];
        steps.extend(before);
        // After so many events, the first of which say that the array is in use.
        steps.push(Step::Crash { after: 8 + 4 * moment, kill: true });
        steps.extend(sectors.iter().scan(moment % 9, |at, &sectors| Some(write(std::mem::replace(at, *at + sectors), sectors))));
        steps.push(Step::Drain);
        steps.extend(read_all());
        match way {
            0 => steps.push(Step::Fail(which)),
            1 => steps.push(Step::Pull(which)),
            _ => steps.extend([Step::Crash { after: 0, kill: true }, Step::Drain, Step::Pull(which)]),
        }
        steps.extend(read_all());
        steps.extend([Step::Pause(2_000_000), Step::Fail(which + 1)]);
        steps.extend(read_all());
        steps
    });
    assert!(tally.crashes >= 96 && tally.met["member failed"] >= 40, "{level} of {members} on {lanes} lanes: {tally:?}");
    tally
}

#[test]
fn of_copies() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 4)] {
        for lanes in [1, 2] {
            tell(level, members, lanes, &[], &[7; 5]);
        }
    }
}

/// Whole stripes have no record in the log, which a replay could make parity agree by.
#[test]
fn of_large_writes_to_stripes() {
    for (level, members) in [(Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for lanes in [1, 2] {
            tell(level, members, lanes, &[], &[200]);
        }
    }
}

/// The first parity says what is read of a missing member, and the second must say the same.
#[test]
fn of_large_writes_to_stripes_that_lack_a_member() {
    for lanes in [1, 2] {
        let away = [Step::Pull(1), write(3, 4), Step::Drain, Step::Pause(5_000_000)];
        tell(Level::Raid6, 5, lanes, &away, &[200]);
    }
}

/// A write that follows such a kill is acknowledged, and the next member is lost before the resync comes (R38).
#[test]
fn what_is_written_then_outlives_the_next_member() {
    let setup = || {
        let mut setup = Setup::plain(Level::Raid6, Level::Raid6.default_layout(), 4, 1);
        setup.late_sweeps = true;
        setup
    };
    let tally = run_fates(0..192, &setup, 8, &|seed| {
        let (moment, at, which) = (seed % 16, seed / 16 % 6, seed / 96);
        let mut steps = vec![write(0, 240), Step::Drain, Step::Flush, Step::Drain];
        steps.extend([Step::Pull(1), write(3, 4), Step::Drain, Step::Pause(5_000_000)]);
        steps.extend([Step::Crash { after: 8 + 2 * moment, kill: true }, write(0, 200), Step::Drain]);
        steps.extend([write(at * 32 + 5, 7), Step::Drain, Step::Pull(which), Step::Drain]);
        steps.extend(read_all());
        steps
    });
    assert!(tally.crashes >= 192 && tally.met["member failed"] >= 96, "{tally:?}");
}
