//! The cost of a step: seconds, bytes written, and the bytes that were on the target before.

use super::step::Step;

/// Seconds and bytes of one step at an assumed speed.
pub fn step_cost(step: &Step, span_bytes: u64, mb_per_s: f64) -> (f64, u64) {
    let bytes_per_s = mb_per_s * 1e6;
    match step {
        Step::Purge | Step::Trim | Step::Raid(_) => (1.0, 0),
        Step::WaitForSweep => (span_bytes as f64 / bytes_per_s, 0),
        Step::Idle { seconds } => (*seconds, 0),
        Step::Fill { fills, .. } => {
            let bytes = span_bytes as f64 * fills;
            (bytes / bytes_per_s, bytes as u64)
        }
        // Made once, read and written again in each pass.
        Step::Copy(set) => (2.0 * set.bytes() as f64 / bytes_per_s, 2 * set.bytes()),
        Step::Replay(trace) => {
            let (read, written) = trace.bytes();
            ((read + written) as f64 / bytes_per_s, written)
        }
        Step::Load(load) | Step::Demand(_, load) | Step::LoadDuring(load, _) => {
            let seconds = load.seconds + load.warmup_seconds;
            let bytes = seconds * bytes_per_s * f64::from(100 - load.read_percent) / 100.0;
            // fio takes a moment to start and to end.
            (seconds + 0.3, bytes as u64)
        }
    }
}

/// True if a step writes to the target, or makes it lose its content.
pub fn destroys(step: &Step) -> bool {
    match step {
        Step::Purge | Step::Trim | Step::Fill { .. } | Step::Raid(_) | Step::LoadDuring(..) | Step::Copy(_) | Step::Replay(_) => {
            true
        }
        // Options of fio may turn any load into writes.
        Step::Load(load) | Step::Demand(_, load) => load.read_percent < 100 || !load.options.is_empty(),
        Step::WaitForSweep | Step::Idle { .. } => false,
    }
}

/// Bytes written to the most written drive for a byte written to the array, for random writes smaller than a stripe: the worst
/// case.
pub fn drive_share(level: Option<&str>, members: u32) -> f64 {
    let n = f64::from(members.max(1));
    match level {
        Some("1") => 1.0,
        Some("10") => (2.0 / n).min(1.0),
        Some("4") => 1.0,
        Some("5" | "50") => 2.0 / n,
        Some("6" | "60") => 3.0 / n,
        Some("jbod") | None => 1.0,
        Some(_) => 1.0 / n,
    }
}
