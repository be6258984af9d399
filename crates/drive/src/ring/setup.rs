//! The set-up of a ring and its sides: in the cheapest mode that the kernel has.

use io_uring::{IoUring, cqueue, squeue};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use stria_block::Arena;

/// The most entries that one system call submits.
const SUBMISSION_ENTRIES: u32 = 512;
/// Bounds how much the kernel has at once, so that its completion queue never overflows. The rest waits in the ring.
const COMPLETION_ENTRIES: u32 = 4096;

/// A way to set a ring up, and its name.
pub(super) type Mode<S, C> = (fn(&mut io_uring::Builder<S, C>), &'static str);

/// The cheapest first: completions are processed only on request (Linux 6.1), or at least without interrupting the thread
/// (5.19), or the plain mode.
pub(super) fn modes<S: squeue::EntryMarker, C: cqueue::EntryMarker>() -> [Mode<S, C>; 3] {
    [
        (
            |builder| {
                builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
            },
            "single issuer, deferred task work",
        ),
        (
            |builder| {
                builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
            },
            "cooperative task work",
        ),
        (|_| {}, "plain"),
    ]
}

/// Sets up a ring in the first of `modes` that the kernel supports, with the settings of `and`.
pub(super) fn set_up<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    modes: &[Mode<S, C>],
    and: impl Fn(&mut io_uring::Builder<S, C>),
) -> io::Result<(IoUring<S, C>, &'static str)> {
    let mut refusal = io::Error::from(io::ErrorKind::Unsupported);
    for (set, name) in modes {
        let mut builder = IoUring::<S, C>::builder();
        set(builder.setup_clamp().setup_cqsize(COMPLETION_ENTRIES).dontfork());
        and(&mut builder);
        match builder.build(SUBMISSION_ENTRIES) {
            Ok(uring) => return Ok((uring, name)),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => refusal = error,
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}

/// Registers the arena's memory, as the first and only buffer.
pub(super) fn register_memory(with: &io_uring::Submitter<'_>, arena: &'static Arena) -> io::Result<()> {
    let Range { start, end } = arena.addresses();
    let memory = libc::iovec { iov_base: start as *mut _, iov_len: end - start };
    // SAFETY: an arena is never moved or freed.
    unsafe { with.register_buffers(&[memory]) }
}
