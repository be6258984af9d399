//! The pace of sweeps beside clients: as fast as the clients' latency target allows.
//!
//! While a sweep runs, clients' reads and writes are counted, and those that took longer than the target's bound. If more are
//! late than the percentile allows, the sweep slows down; if less than half as many, it speeds up, between the lower and the
//! upper bound. That costs one comparison a request and needs no histogram.

use std::cell::Cell;
use stria_block::Nanos;

/// A latency that sweeps leave to clients, as far as the lower speed bound permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTarget {
    /// In hundredths of a per cent: 9900 is the 99th percentile.
    pub percentile: u16,
    /// The time within which so many of the requests shall end.
    pub bound: Nanos,
}

impl LatencyTarget {
    /// All requests, in hundredths of a per cent.
    pub const ALL: u16 = 10_000;

    /// 99 of 100 within 1 ms; on hard disks, where each random request takes several, within 50 ms.
    pub fn usual(rotational: bool) -> Self {
        Self { percentile: 9900, bound: if rotational { 50_000_000 } else { 1_000_000 } }
    }
}

/// The shortest time for which a speed is tried.
const PERIOD_MIN: Nanos = 100_000_000;
/// The longest.
const PERIOD_MAX: Nanos = 1_000_000_000;
/// This many requests give the 99th percentile well enough to end a period early.
const ENOUGH: u64 = 300;

/// The speed that is tried, and how clients fare.
#[derive(Default)]
pub(crate) struct Steering {
    target: Cell<Option<LatencyTarget>>,
    /// Sectors of each member per second, while clients work.
    speed: Cell<u64>,
    /// A sweep runs: requests are counted.
    watches: Cell<bool>,
    begun: Cell<Nanos>,
    ended: Cell<u64>,
    late: Cell<u64>,
    swept: Cell<u64>,
}

impl Steering {
    /// `None`: beside clients sweeps keep to the lower speed bound.
    pub fn set_target(&self, target: Option<LatencyTarget>) {
        self.target.set(target);
        self.speed.set(0);
    }

    /// A sweep begins or ends.
    pub fn watch(&self, watches: bool) {
        self.watches.set(watches);
        self.speed.set(0);
    }

    /// A client's read or write has ended.
    #[inline]
    pub fn ended(&self, begun: Nanos, now: Nanos) {
        if self.watches.get() {
            self.ended.set(self.ended.get() + 1);
            let late = self.target.get().is_some_and(|target| now - begun > target.bound);
            self.late.set(self.late.get() + u64::from(late));
        }
    }

    /// The speed for the next window of this many sectors while clients work, and whether more windows at once are needed to
    /// reach it.
    pub fn speed(&self, now: Nanos, min: u64, max: u64, sectors: u64) -> (u64, bool) {
        let Some(target) = self.target.get() else { return (min, false) };
        let (ended, late, elapsed) = (self.ended.get(), self.late.get(), now - self.begun.get());
        let mut speed = self.speed.get().clamp(min, max);
        let mut lags = false;
        if elapsed >= PERIOD_MAX || elapsed >= PERIOD_MIN && ended >= ENOUGH {
            // In hundredths of a per cent of a request.
            let (late, allowed) =
                (late * u64::from(LatencyTarget::ALL), ended * u64::from(LatencyTarget::ALL.saturating_sub(target.percentile)));
            // A speed that was not reached says nothing.
            let reached = u128::from(self.swept.get()) * 1_000_000_000 >= u128::from(speed) * u128::from(elapsed) * 3 / 4;
            // No request has ended: clients wait.
            if ended == 0 || late > 4 * allowed {
                speed /= 2;
            } else if late > allowed {
                speed -= speed / 4;
            } else if 2 * late <= allowed && reached {
                // The nearer to the target, the smaller the step.
                speed = speed.saturating_add(if late == 0 { speed / 4 } else { speed / 16 } + 1);
            } else if 2 * late <= allowed {
                lags = true;
            }
            speed = speed.clamp(min, max);
            self.begin(now);
        }
        self.speed.set(speed);
        self.swept.set(self.swept.get() + sectors);
        (speed, lags)
    }

    /// Restarts the count.
    pub fn begin(&self, now: Nanos) {
        self.begun.set(now);
        self.ended.set(0);
        self.late.set(0);
        self.swept.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 1000;
    const MAX: u64 = 1_000_000;

    /// A minute of windows of 100 sectors each as the speed allows; clients' requests take 1 ms up to a speed, and 9 ms beyond.
    fn settled(steering: &Steering, good_up_to: u64, member_max: u64) -> u64 {
        let (mut now, mut speeds) = (0, Vec::new());
        steering.watch(true);
        while now < 60_000_000_000 {
            let (speed, _) = steering.speed(now, MIN, MAX, 100);
            speeds.push(speed);
            now += 100 * 1_000_000_000 / speed.min(member_max);
            for _ in 0..10 {
                steering.ended(now - if speed > good_up_to { 9_000_000 } else { 1_000_000 }, now);
            }
        }
        speeds.split_off(speeds.len() / 2).into_iter().max().expect("a minute has windows")
    }

    fn steering() -> Steering {
        let steering = Steering::default();
        steering.set_target(Some(LatencyTarget { percentile: 9900, bound: 5_000_000 }));
        steering
    }

    #[test]
    fn a_sweep_goes_as_fast_as_clients_allow() {
        let speed = settled(&steering(), 50_000, u64::MAX);
        assert!((25_000..=62_501).contains(&speed), "{speed}");
        assert_eq!(settled(&steering(), u64::MAX, u64::MAX), MAX);
        assert_eq!(settled(&steering(), 0, u64::MAX), MIN, "the lower bound is kept whatever clients feel");
    }

    #[test]
    fn a_speed_that_members_do_not_reach_does_not_rise() {
        let speed = settled(&steering(), u64::MAX, 40_000);
        assert!((40_000..=70_000).contains(&speed), "{speed}");
    }

    #[test]
    fn without_a_target_the_lower_bound_counts() {
        let steering = steering();
        steering.set_target(None);
        assert_eq!(settled(&steering, u64::MAX, u64::MAX), MIN);
    }
}
