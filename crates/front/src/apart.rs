//! Clients on threads of their own: [`LaneClient`]s of a device that takes none on its own thread.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use smallvec::SmallVec;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stria_block::{KeepOn, LaneClient, Mailbox, Nanos, RemoteDevice};

/// Wakes a thread that sleeps in poll.
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn ring(&self) {
        // Fails only if 2^64 - 2 rings are unread; then the sleeper is awake.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// The sleeper has woken up.
    fn hush(&self) {
        // Fails only if the ring was read already.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs a client on a thread of its own, with the device behind a mailbox, until it leaves or the device breaks off. Then its
/// requests are left without answers to the next server, as after a crash. The device is dropped before the client,
/// as other threads wait for the client's end.
///
/// # Errors
/// When the thread cannot sleep.
pub(crate) fn live(mut client: Box<dyn LaneClient>, device: Arc<dyn RemoteDevice>, wake: &Arc<Wake>) -> io::Result<()> {
    let ring = Arc::clone(wake);
    let mailbox = Arc::new(Mailbox::new(move || ring.ring()));
    let (mut requests, mut completions) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let mut signalled = false;
    loop {
        let now = started.elapsed().as_nanos() as Nanos;
        mailbox.take(&mut completions);
        // Looked at after the answers: errors of a device that broke off are not passed on.
        if device.broke_off() {
            return Ok(());
        }
        let stay = client.turn(now, std::mem::take(&mut signalled), &mut completions, &mut requests);
        device.submit(&mut requests, &mailbox);
        match stay {
            KeepOn::Again => {}
            KeepOn::Leave => return Ok(()),
            KeepOn::Wait { readable, writable, until } => {
                if mailbox.prepare_sleep() {
                    let timeout = until.map(|until| Duration::from_nanos(until.saturating_sub(now)));
                    signalled = sleep(wake, client.socket().as_fd(), readable, writable, timeout)?;
                    mailbox.awake();
                }
            }
        }
    }
}

/// Sleeps until the socket is ready, the wake-up rings, or the time is over. True if the socket is ready.
///
/// # Errors
/// When the system refuses it.
pub(crate) fn sleep(
    wake: &Wake,
    socket: BorrowedFd,
    readable: bool,
    writable: bool,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let wanted = |wanted, flags| if wanted { flags } else { PollFlags::empty() };
    let flags = wanted(readable, PollFlags::IN | PollFlags::RDHUP) | wanted(writable, PollFlags::OUT);
    // Without flags the socket is left out: a hang-up would be reported again and again.
    let socket = (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(socket, flags));
    let mut fds: SmallVec<[PollFd; 2]> = [PollFd::new(wake, PollFlags::IN)].into_iter().chain(socket).collect();
    let timeout = timeout.map(|timeout| Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if !fds[0].revents().is_empty() {
        wake.hush();
    }
    Ok(fds.get(1).is_some_and(|socket| !socket.revents().is_empty()))
}
