//! The limit on the size of files (`ulimit -f`): a write beyond it fails, and the process goes on.

use std::sync::Once;

/// Catches SIGXFSZ, which ends a process by default. The handler does nothing: programs that this process starts do not inherit
/// it, as they would an ignored signal.
pub(crate) fn survive() {
    extern "C" fn nothing(_: libc::c_int) {}
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, so it may interrupt any code.
        unsafe { libc::signal(libc::SIGXFSZ, handler) };
    });
}
