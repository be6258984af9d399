//! Goal: a rebuild and a scrub without clients go at the speed of the slowest member.
//! Method: members of known speeds in virtual time, so that neither this machine nor its load counts.

use stria_array::Level;
use stria_bench::{PacedDevice, SweepJob, time_sweep};
use stria_block::{BlockDevice, Nanos, RamDevice};

/// A rebuild or scrub's speed, in parts of the slowest member's; the last of `speeds` is the spare's.
fn share(level: Level, job: SweepJob, mib: u64, speeds: &[u64], latency: Nanos) -> f64 {
    let member = |&speed| Box::new(PacedDevice::new(RamDevice::new(mib << 11), speed, latency)) as Box<dyn BlockDevice>;
    let mut now = 1_000_000_000;
    let clock = |due: Option<Nanos>| {
        now = due.map_or(now, |due| due.max(now));
        now
    };
    let time = time_sweep(level, 128, speeds.iter().map(member).collect(), job, clock).expect("the geometry fits");
    time.bytes_per_s() / *speeds.iter().min().expect("members") as f64
}

fn goes_at_the_speed_of_the_slowest(level: Level, count: usize, mib: u64, speed: u64, latency: Nanos) {
    for (job, count) in [(SweepJob::Rebuild, count + 1), (SweepJob::Scrub, count)] {
        let mut speeds = vec![speed; count];
        let equal = share(level, job, mib, &speeds, latency);
        speeds[1] /= 2;
        let one_slow = share(level, job, mib, &speeds, latency);
        println!("RAID {level}, {count} drives, {speed} B/s after {latency} ns, {job:?}: {equal:.3}, one slow {one_slow:.3}");
        assert!(equal.min(one_slow) >= 0.95, "RAID {level}, {speed} B/s, {job:?}: {equal:.3}, one slow {one_slow:.3}");
    }
}

#[test]
fn sweeps_go_at_the_speed_of_the_slowest_member() {
    for (level, count) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 6)] {
        // SATA, NVMe, and the quickest NVMe.
        for (speed, latency) in [(500_000_000, 100_000), (3_000_000_000, 80_000), (7_000_000_000, 60_000)] {
            goes_at_the_speed_of_the_slowest(level, count, 32, speed, latency);
        }
    }
}

/// With four windows under way it was 0.76 of their speed.
#[test]
fn sweeps_do_not_mind_members_that_are_far_away() {
    goes_at_the_speed_of_the_slowest(Level::Raid5, 4, 64, 200_000_000, 4_000_000);
}
