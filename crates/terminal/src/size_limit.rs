//! The limit on the size of files (`ulimit -f`).

use std::sync::Arc;

/// Lets a write beyond the limit fail, where it would end the process. Programs that this process starts do not inherit that.
pub(crate) fn survive() {
    // If the system refuses, the process ends at such a write, as any other program.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}
