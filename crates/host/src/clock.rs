//! The date for superblocks, from a clock that only counts.

use std::time::{SystemTime, UNIX_EPOCH};
use stria_block::Nanos;

/// Seconds since 1970 now, less what `now` counts already.
pub(crate) fn unix_seconds_at_zero(now: Nanos) -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    unix.saturating_sub(now / 1_000_000_000)
}
