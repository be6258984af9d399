//! A [`RemoteDevice`] over any [`BlockDevice`] on a thread of its own: for tests, examples and benchmarks.

#![allow(dead_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use stria_block::{BlockDevice, Completion, Limits, Mailbox, RemoteDevice, Request};

type Letter = (Request, Arc<Mailbox<Completion>>);

/// A device that lives as long as its last handle.
pub struct DeviceThread {
    limits: Limits,
    mailbox: Arc<Mailbox<Letter>>,
    stop: Arc<AtomicBool>,
    /// While true, requests wait: to see what a server does with a slow device.
    pub hold: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl DeviceThread {
    /// Starts the thread; the device is made there, because not every device can move between threads.
    pub fn spawn<D: BlockDevice>(limits: Limits, make: impl FnOnce() -> D + Send + 'static) -> Self {
        let (stop, hold) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let thread_of_receiver = Arc::new(OnceLock::<thread::Thread>::new());
        let mailbox = Arc::new(Mailbox::new({
            let thread = Arc::clone(&thread_of_receiver);
            move || thread.get().expect("set before anyone can send").unpark()
        }));
        let thread = thread::spawn({
            let (mailbox, stop, hold) = (Arc::clone(&mailbox), Arc::clone(&stop), Arc::clone(&hold));
            move || run(make(), &mailbox, &stop, &hold)
        });
        thread_of_receiver.get_or_init(|| thread.thread().clone());
        Self { limits, mailbox, stop, hold, thread }
    }

    /// Lets requests through, or not.
    pub fn set_hold(&self, hold: bool) {
        self.hold.store(hold, Ordering::SeqCst);
        self.thread.thread().unpark();
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
    }
}

impl RemoteDevice for DeviceThread {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn submit(&self, requests: &mut Vec<Request>, reply: &Arc<Mailbox<Completion>>) {
        self.mailbox.push_all(requests.drain(..).map(|request| (request, Arc::clone(reply))));
    }
}

/// Carries out each request before the next, so that tags of different senders never meet.
fn run(mut device: impl BlockDevice, mailbox: &Mailbox<Letter>, stop: &AtomicBool, hold: &AtomicBool) {
    let (mut letters, mut completions) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::SeqCst) {
        if hold.load(Ordering::SeqCst) {
            thread::park();
            continue;
        }
        mailbox.take(&mut letters);
        let mut letters = letters.drain(..).peekable();
        if letters.peek().is_none() {
            if mailbox.prepare_sleep() {
                thread::park();
                mailbox.awake();
            }
            continue;
        }
        while let Some((request, reply)) = letters.next() {
            device.submit(request);
            device.poll(0, &mut completions);
            let last_of_sender = letters.peek().is_none_or(|(_, next)| !Arc::ptr_eq(next, &reply));
            if last_of_sender {
                reply.push_all(completions.drain(..));
            }
        }
    }
}
