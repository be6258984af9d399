//! A queue as an on-lane client of the array's thread, or on a thread of its own.

use super::queue::{Broken, Counters, Port, Queue};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_block::{Completion, ErrorKind, KeepOn, LaneClient, Nanos, Request};

/// One second: then an idle queue's buffers return to the system.
const COOL_AFTER: Nanos = 1_000_000_000;

/// What the queues of a device share with the threads that start and stop it.
#[derive(Debug, Default)]
pub(super) struct Crew {
    /// The queues take no more requests, finish those that the array has, and go.
    is_leaving: AtomicBool,
    state: Mutex<CrewState>,
    changed: Condvar,
    requests: AtomicU64,
    errors: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    in_flight: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct CrewState {
    /// The number of queues that run.
    pub queues: usize,
    /// The reason why the first queue gave up.
    pub failure: Option<String>,
}

impl Crew {
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
    }

    pub fn lock(&self) -> MutexGuard<'_, CrewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no queue is left. False: it takes longer.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut state = self.lock();
        while state.queues > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The queues' counters together, and how many requests the array has.
    pub fn counters(&self) -> (Counters, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = Counters {
            requests: load(&self.requests),
            errors: load(&self.errors),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
        };
        (counters, load(&self.in_flight))
    }

    fn count(&self, before: &Counters, now: &Counters, before_in_flight: u64, in_flight: u64) {
        let add = |counter: &AtomicU64, before: u64, now: u64| counter.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        add(&self.requests, before.requests, now.requests);
        add(&self.errors, before.errors, now.errors);
        add(&self.read_bytes, before.read_bytes, now.read_bytes);
        add(&self.written_bytes, before.written_bytes, now.written_bytes);
        add(&self.in_flight, before_in_flight, in_flight);
    }
}

/// Counts a queue among those of its device, from before its on-lane client is made until after it is dropped.
pub(super) struct CrewMember(Arc<Crew>);

impl CrewMember {
    pub fn take(crew: &Arc<Crew>) -> Self {
        crew.lock().queues += 1;
        Self(Arc::clone(crew))
    }
}

impl Drop for CrewMember {
    fn drop(&mut self) {
        self.0.lock().queues -= 1;
        self.0.changed.notify_all();
    }
}

/// The driver's side of a queue with the ring that brings its requests. One thread uses it, from [`Driver::begin`] on.
pub(super) trait Driver: Port + Send {
    /// Another handle to the ring, which is readable when the driver has completed something.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    fn readiness(&self) -> io::Result<OwnedFd>;

    /// Makes the calling thread the queue's own.
    ///
    /// # Errors
    /// When the ring cannot be enabled.
    fn begin(&self) -> io::Result<()>;

    /// Gives the driver what was queued, and calls `arrived` with the tag and the result of every fetch that it has completed.
    ///
    /// # Errors
    /// When the ring fails, or `arrived` does.
    fn turn<E: From<io::Error>>(&mut self, arrived: impl FnMut(&mut Self, u64, i32) -> Result<(), E>) -> Result<(), E>;

    /// True if another turn has something to do at once.
    fn is_due(&mut self) -> bool;
}

/// Why a queue gives up.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("io_uring failed: {0}")]
    Ring(#[from] io::Error),
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// A queue, its driver, and its place.
pub(super) struct QueueClient<D> {
    name: String,
    queue: Queue,
    port: D,
    readiness: Arc<OwnedFd>,
    has_begun: bool,
    idle_since: Nanos,
    /// The crew's record of this queue.
    counted: (Counters, u64),
    /// Last, so that the port is closed before the place is free.
    crew_member: CrewMember,
}

impl<D: Driver> QueueClient<D> {
    /// `name`: of the device, for messages.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(name: String, queue: Queue, port: D, crew_member: CrewMember) -> io::Result<Self> {
        let readiness = Arc::new(port.readiness()?);
        Ok(Self { name, queue, port, readiness, has_begun: false, idle_since: 0, counted: (Counters::default(), 0), crew_member })
    }

    fn advance(&mut self, now: Nanos, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> Result<KeepOn, End> {
        let Self { queue, port, crew_member: CrewMember(crew), .. } = self;
        if !std::mem::replace(&mut self.has_begun, true) {
            port.begin()?;
            queue.begin(port);
        }
        let worked = !ended.is_empty();
        let is_leaving = crew.is_leaving.load(Ordering::SeqCst);
        for completion in ended.drain(..) {
            // The array has stopped before the request ended. The next server gets it, as after a crash.
            let is_left = is_leaving && completion.result.as_ref().is_err_and(|error| error.kind == ErrorKind::Gone);
            if is_left { queue.abandon(completion) } else { queue.complete(port, completion) }
        }
        port.turn(|port, tag, result| match is_leaving {
            // The next server gets the request.
            true => {
                queue.leave_to_next(port, tag);
                Ok(())
            }
            false => queue.arrived(port, tag, result, requests).map_err(End::from),
        })?;
        queue.collect(port);
        let counted = (queue.counters(), queue.at_device() as u64);
        crew.count(&self.counted.0, &counted.0, self.counted.1, counted.1);
        self.counted = counted;
        if queue.is_over() || is_leaving && queue.at_device() == 0 && !port.is_due() {
            return Ok(KeepOn::Leave);
        }
        if worked || !requests.is_empty() {
            self.idle_since = now;
        } else if queue.keeps_warm() && now >= self.idle_since + COOL_AFTER {
            queue.cool();
        }
        if port.is_due() {
            return Ok(KeepOn::Again);
        }
        let until = queue.keeps_warm().then_some(self.idle_since + COOL_AFTER);
        Ok(KeepOn::Wait { readable: !is_leaving, writable: false, until })
    }
}

impl<D: Driver> LaneClient for QueueClient<D> {
    fn turn(&mut self, now: Nanos, _signalled: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> KeepOn {
        self.advance(now, ended, requests).unwrap_or_else(|end| {
            log::error!("{}: {end}; its requests wait until the array is served again", self.name);
            self.crew_member.0.lock().failure.get_or_insert_with(|| end.to_string());
            self.crew_member.0.changed.notify_all();
            KeepOn::Leave
        })
    }

    fn socket(&self) -> &Arc<OwnedFd> {
        &self.readiness
    }
}

#[cfg(test)]
mod tests;
