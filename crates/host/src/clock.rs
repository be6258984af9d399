//! The date for superblocks, from a monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};
use stria_block::Nanos;

/// The Unix time at which the clock was 0, in seconds.
pub(crate) fn unix_seconds_at_zero(now: Nanos) -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    unix.saturating_sub(now / 1_000_000_000)
}
