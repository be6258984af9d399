//! How a ring and its sides are set up: the leanest way that the kernel has.

use io_uring::{IoUring, cqueue, squeue};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use stria_block::Arena;

/// Entries handed over by one system call at most; more take another one.
const SUBMISSION_ENTRIES: u32 = 512;
/// Bounds what the kernel holds at once, so that its completion queue never overflows; the rest waits with the ring.
const COMPLETION_ENTRIES: u32 = 4096;

/// A way to set a ring up, and its name.
pub(super) type Mode<S, C> = (fn(&mut io_uring::Builder<S, C>), &'static str);

/// Leanest first: completions are worked off only when asked for (Linux 6.1), or at least without
/// interrupting the thread (5.19), or the plain way.
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

/// The first of `modes` that the kernel has, with what else is wanted of it.
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

/// Registers the arena's memory, as the first and only.
pub(super) fn register_memory(with: &io_uring::Submitter<'_>, arena: &'static Arena) -> io::Result<()> {
    let Range { start, end } = arena.addresses();
    let memory = libc::iovec { iov_base: start as *mut _, iov_len: end - start };
    // SAFETY: an arena stays where it is as long as the process lives.
    unsafe { with.register_buffers(&[memory]) }
}
