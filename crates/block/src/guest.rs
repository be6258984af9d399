//! Who lives on a device's own thread and uses it there, without messages between threads: a client's session.

use crate::{Completion, Nanos, Request};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A user of a device on the device's own thread, driven by a socket. No call of it may block.
pub trait Guest: Send {
    /// Makes progress: takes all that `ended` of its requests, puts new ones into `requests`, and says what it waits for.
    /// `signalled`: the socket is as the last [`Stay::Wait`] asked for.
    fn turn(&mut self, now: Nanos, signalled: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> Stay;

    /// The socket, which whoever watches it holds as well. When the guest is dropped it must be shut down, so that they let go.
    fn socket(&self) -> &Arc<OwnedFd>;
}

/// What a guest wants after a turn. Whatever it is, it gets another turn when one of its requests ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Another turn, after everybody else's.
    Again,
    /// A turn when the socket is ready, or at the time `until`.
    Wait {
        /// Bytes, or their end, have arrived.
        readable: bool,
        /// There is room to send.
        writable: bool,
        /// At the latest then.
        until: Option<Nanos>,
    },
    /// No further turn: to be dropped, and what it has asked for and not got is nobody's.
    Leave,
}
