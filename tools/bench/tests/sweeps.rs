//! Goal: a rebuild and a scrub without clients run at the speed of the slowest member.
//! Method: members of known speeds in virtual time, so that neither this machine nor its load counts.

use std::cell::Cell;
use std::rc::Rc;
use stria_array::Level;
use stria_bench::{PacedDevice, SweepJob, time_sweep};
use stria_block::{BlockDevice, Completion, Limits, Nanos, RamDevice, Request};

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

/// RAM that counts its requests in flight.
struct Counting {
    ram: RamDevice,
    open: usize,
    most: Rc<Cell<usize>>,
}

impl BlockDevice for Counting {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }
    fn submit(&mut self, request: Request) {
        self.open += 1;
        self.most.set(self.most.get().max(self.open));
        self.ram.submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.open = 0;
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.ram.next_wake()
    }
}

/// One window's buffers stay in the processor's caches from reading to writing; those of eight made sweeps half as fast.
#[test]
fn sweeps_of_members_that_answer_at_once_keep_to_one_window() {
    let most = Rc::new(Cell::new(0));
    let member = |_| Box::new(Counting { ram: RamDevice::new(8 << 11), open: 0, most: Rc::clone(&most) }) as Box<dyn BlockDevice>;
    time_sweep(Level::Raid5, 128, (0..4).map(member).collect(), SweepJob::Scrub, |due| due.unwrap_or(0).max(1_000_000_000))
        .expect("the geometry fits");
    assert_eq!(most.get(), 1, "requests to one member at once");
}
