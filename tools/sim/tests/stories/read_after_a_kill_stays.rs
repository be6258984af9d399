//! A process is killed in the middle of writes. Clients read them from the next process before its resync has ended. Then members
//! are lost, one after the other, also together with another kill. Data that was read and flushed does not change.

use super::{run_fates, write};
use stria_array::Level;
use stria_sim::setup::Setup;
use stria_sim::{Step, Tally};

/// Clients read all written sectors, and a flush ends.
fn read_all() -> Vec<Step> {
    let read = (0..4).map(|part| Step::Read { at: part * 64, sectors: 64 });
    read.chain([Step::Drain, Step::Flush, Step::Drain]).collect()
}

/// `before`: the steps before the kill. `sectors`: the length of the consecutive writes that are cut short.
fn tell(level: Level, members: usize, lanes: usize, before: &[Step], sectors: &[u64]) -> Tally {
    let setup = || {
        let mut setup = Setup::plain(level, level.default_layout(), members, 1);
        setup.run_on(lanes);
        setup.late_sweeps = true;
        setup
    };
    let tally = run_fates(0..96, &setup, 8, &|seed| {
        let (moment, way, which) = (seed % 16, seed / 16 % 3, seed / 48);
        // A large write leaves no records in the log.
        let mut steps = vec![write(0, 240), Step::Drain, Step::Flush, Step::Drain];
        steps.extend(before);
        // After this many events; the first ones mark the array as in use.
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

/// Full-stripe writes have no log record from which a replay could make parity consistent.
#[test]
fn of_large_writes_to_stripes() {
    for (level, members) in [(Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for lanes in [1, 2] {
            tell(level, members, lanes, &[], &[200]);
        }
    }
}

/// A missing member is read from the first parity; the second must be consistent with it.
#[test]
fn of_large_writes_to_stripes_that_lack_a_member() {
    for lanes in [1, 2] {
        let away = [Step::Pull(1), write(3, 4), Step::Drain, Step::Pause(5_000_000)];
        tell(Level::Raid6, 5, lanes, &away, &[200]);
    }
}

/// A write after such a kill is acknowledged, and the next member is lost before the resync (R38).
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
