//! The time of the machine, for what people are shown.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    since_1970().as_millis() as u64
}

/// The time, in seconds since 1970.
pub fn now_s() -> u64 {
    since_1970().as_secs()
}
