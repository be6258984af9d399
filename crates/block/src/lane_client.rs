//! Clients that use a device on the device's own thread, without messages between threads.

use crate::{Completion, Nanos, Request};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A client on the device's thread, driven by a socket. No call of it may block.
pub trait LaneClient: Send {
    /// Makes progress: takes those of its requests that `ended`, adds new ones to `requests`, and returns what it waits for.
    /// `signalled`: the socket is as the last [`KeepOn::Wait`] asked for.
    fn turn(&mut self, now: Nanos, signalled: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> KeepOn;

    /// The socket. The thread that watches it holds it as well, so it must be shut down when the on-lane client is dropped: the
    /// watch then ends.
    fn socket(&self) -> &Arc<OwnedFd>;
}

/// What an on-lane client wants after a turn. In every case it gets another turn when one of its requests ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepOn {
    /// Another turn, after all other on-lane clients had theirs.
    Again,
    /// A turn when the socket is ready, or at the time `until`.
    Wait {
        /// Bytes, or their end, have arrived.
        readable: bool,
        /// There is space to send.
        writable: bool,
        /// At the latest then.
        until: Option<Nanos>,
    },
    /// No further turn: the on-lane client is dropped, and completions of its open requests are discarded.
    Leave,
}
