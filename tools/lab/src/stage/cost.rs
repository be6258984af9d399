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
        Step::Copy(set) => (2.0 * set.stored_bytes() as f64 / bytes_per_s, 2 * set.stored_bytes()),
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

/// Bytes written to the most written drive for a byte written to the array, for random writes of 4 KiB, one at a time: the worst
/// case.
///
/// An array `with_log` (Stria's write log) also writes to the log of each parity member. With up to 16 requests in flight a
/// record holds partial parity and new data, and one that is alone has an append, with its head of 4 KiB, to itself: three bytes.
pub fn drive_share(level: Option<&str>, members: u32, with_log: bool) -> f64 {
    let n = f64::from(members.max(1));
    let log = if with_log { 3.0 } else { 0.0 };
    match level {
        Some("1") => 1.0,
        Some("10") => (2.0 / n).min(1.0),
        // The parity member takes part in every write.
        Some("4") => 1.0 + log,
        Some("5" | "50") => (2.0 + log) / n,
        Some("6" | "60") => (3.0 + 2.0 * log) / n,
        Some("jbod") | None => 1.0,
        Some(_) => 1.0 / n,
    }
}

#[cfg(test)]
mod tests {
    use super::drive_share;

    /// By hand: of a byte, what is written in place, and on each parity what is logged.
    #[test]
    fn the_write_log_wears_the_drives_of_parity_arrays_and_of_no_others() {
        for (level, members, in_place, logged) in [
            (Some("4"), 3, 1.0, 3.0),
            (Some("5"), 5, 2.0 / 5.0, 3.0 / 5.0),
            (Some("50"), 6, 2.0 / 6.0, 3.0 / 6.0),
            (Some("6"), 6, 3.0 / 6.0, 6.0 / 6.0),
            (Some("60"), 8, 3.0 / 8.0, 6.0 / 8.0),
            (Some("0"), 4, 0.25, 0.0),
            (Some("1"), 2, 1.0, 0.0),
            (Some("10"), 4, 0.5, 0.0),
            (None, 1, 1.0, 0.0),
        ] {
            let shares = [false, true].map(|with_log| drive_share(level, members, with_log));
            assert!(
                (shares[0] - in_place).abs() < 1e-12 && (shares[1] - shares[0] - logged).abs() < 1e-12,
                "{level:?}: {shares:?}"
            );
        }
    }
}
