//! Messages between threads: from front ends to a lane, and the lane's answers back.

use crate::{Completion, LaneClient, Limits, Request};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A queue with many senders and one receiver, which sleeps in a system call of its own choosing.
///
/// The lock is held to move a few words, never around I/O; the receiver takes everything at once. Senders pay for a wake-up
/// only after the receiver announced that it sleeps.
pub struct Mailbox<T> {
    queue: Mutex<Vec<T>>,
    /// Written under the lock, read without it: a receiver that polls for work must not keep senders from the lock.
    filled: AtomicBool,
    asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<T> Mailbox<T> {
    /// A mailbox whose receiver is woken by `wake` (an eventfd write, an unpark).
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            queue: Mutex::new(Vec::new()),
            filled: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            wake: Box::new(wake),
        }
    }

    /// Adds a message.
    pub fn push(&self, message: T) {
        self.push_all(std::iter::once(message));
    }

    /// Adds several messages with one lock and at most one wake-up.
    pub fn push_all(&self, messages: impl IntoIterator<Item = T>) {
        {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.extend(messages);
            self.filled.store(true, Ordering::SeqCst);
        }
        if self.asleep.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// Wakes the receiver as if a message had arrived. What it should look at lies elsewhere.
    pub fn nudge(&self) {
        self.push_all(std::iter::empty());
    }

    /// Moves everything that arrived to the end of `into`.
    pub fn take(&self, into: &mut Vec<T>) {
        if !self.filled.load(Ordering::SeqCst) {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        into.append(&mut queue);
        self.filled.store(false, Ordering::SeqCst);
    }

    /// Whether something has arrived.
    pub fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    /// The receiver is about to sleep. `false`: something has arrived, take it first. After `true` the next sender wakes the
    /// receiver, unless [`Mailbox::awake`] is called first.
    pub fn prepare_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if !self.filled.load(Ordering::SeqCst) {
            return true;
        }
        self.awake();
        false
    }

    /// The receiver is awake again.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// A device that lives on another thread: the handle that front ends hold.
pub trait RemoteDevice: Send + Sync {
    /// What the device can do.
    fn limits(&self) -> Limits;

    /// Sends requests. Each ends with one completion in `reply`, also after the device's thread has ended.
    fn submit(&self, requests: &mut Vec<Request>, reply: &Arc<Mailbox<Completion>>);

    /// Moves an on-lane client to the device's thread, where it lives as long as it wishes.
    ///
    /// # Errors
    /// The on-lane client itself, if the device takes none: it then talks to the device by message, from a thread of its own.
    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        Err(client)
    }

    /// True if the device's thread has broken off on an internal error. Requests that it had then end with an error, which says
    /// nothing about them: they may be done or not.
    fn broke_off(&self) -> bool {
        false
    }

    /// Gives every on-lane client a turn: one of them has something new to look at.
    fn stir(&self) {}
}
