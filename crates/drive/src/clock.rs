//! The clock of lanes.

use rustix::time::{ClockId, clock_gettime};
use stria_block::Nanos;

/// The clock that lanes pass to their devices: `CLOCK_MONOTONIC` in nanoseconds, the same on all threads.
pub fn monotonic_now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
