//! The time that a lane polls for the next event before it sleeps.
//!
//! Going to sleep and being woken costs several microseconds on each side, more in a virtual machine. Polling pays only if the
//! next event comes sooner. So the lane learns from its pauses, as KVM does with its halts (`halt_poll_ns`): after a pause that
//! was short enough to poll through it polls for longer, and after a longer one it sleeps at once.

use std::sync::OnceLock;
use std::time::Duration;
use stria_block::Nanos;

/// About the cost of a sleep and a wake-up together: polling for longer cannot pay.
const SPIN_MAX: Duration = Duration::from_micros(50);
/// A wake-up in a virtual machine costs 20 to 30 us on each side. So a client that sleeps between two requests is back after 50.
const SPIN_MAX_IN_GUEST: Duration = Duration::from_micros(100);

/// The first time to poll for, when polling may pay.
const SPIN_FIRST: Nanos = 5_000;

/// The longest time for which polling pays on this machine. A thread that may use only one of its processors polls too: clients
/// run on the others.
pub(super) fn spin_max() -> Duration {
    static FOUND: OnceLock<Duration> = OnceLock::new();
    *FOUND.get_or_init(|| spin_max_of(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()))
}

fn spin_max_of(cpuinfo: &str) -> Duration {
    let lines_of = |name| cpuinfo.lines().filter_map(|line| line.split_once(':')).filter(move |(key, _)| key.trim_end() == name);
    if lines_of("processor").count() == 1 {
        return Duration::ZERO;
    }
    let is_guest = lines_of("flags").any(|(_, flags)| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    if is_guest { SPIN_MAX_IN_GUEST } else { SPIN_MAX }
}

/// The pauses of one lane.
pub(super) struct Patience {
    /// `None`: the lane never sleeps.
    spin_max: Option<Nanos>,
    spin: Nanos,
    /// The start of the present pause.
    start: Nanos,
}

impl Patience {
    pub(super) fn new(spin_max: Duration) -> Self {
        let spin_max = Nanos::try_from(spin_max.as_nanos()).ok();
        Self { spin_max, spin: 0, start: 0 }
    }

    /// Called once a turn. `active`: something happened in it. Returns true if the lane should go on without sleep.
    pub(super) fn lasts(&mut self, active: bool, now: Nanos) -> bool {
        let Some(spin_max) = self.spin_max else { return true };
        if active {
            let pause = now - self.start;
            self.start = now;
            if pause > spin_max {
                self.spin = 0;
            } else if pause > self.spin {
                self.spin = (self.spin * 2).max(SPIN_FIRST).min(spin_max);
            }
        }
        now - self.start < self.spin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Active at `now`, then idle: whether the lane still polls after `pause`.
    fn looks_out_after(patience: &mut Patience, now: Nanos, pause: Nanos) -> bool {
        patience.lasts(true, now);
        patience.lasts(false, now + pause)
    }

    #[test]
    fn short_pauses_are_spun_through_and_long_ones_slept_through() {
        let mut patience = Patience::new(SPIN_MAX);
        assert!(!looks_out_after(&mut patience, 1_000_000, 100), "nothing is known yet");
        assert!(looks_out_after(&mut patience, 1_008_000, 4_000), "the last pause was short");
        assert!(looks_out_after(&mut patience, 1_020_000, 9_000));
        assert!(!looks_out_after(&mut patience, 1_030_000, 51_000), "never longer than the most allowed");
        assert!(!looks_out_after(&mut patience, 1_130_000, 100), "the last pause was long");
    }

    #[test]
    fn polling_depends_on_the_processors() {
        let processor = |number, flags| format!("processor\t: {number}\nflags\t\t: fpu {flags}\nmodel name\t: a hypervisor\n\n");
        assert_eq!(spin_max_of(&processor(0, "hypervisor")), Duration::ZERO);
        assert_eq!(spin_max_of(&(processor(0, "hypervisor") + &processor(1, "hypervisor"))), SPIN_MAX_IN_GUEST);
        assert_eq!(spin_max_of(&(processor(0, "avx2") + &processor(1, "avx2"))), SPIN_MAX);
        assert_eq!(spin_max_of(""), SPIN_MAX);
    }

    #[test]
    fn lane_without_patience_never_spins_and_one_without_end_never_sleeps() {
        let mut patience = Patience::new(Duration::ZERO);
        assert!((0..100).all(|now| !patience.lasts(true, now)));
        let mut patience = Patience::new(Duration::MAX);
        assert!((0..100).all(|hours| patience.lasts(false, hours * 3_600_000_000_000)));
    }
}
