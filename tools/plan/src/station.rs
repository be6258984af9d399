//! Two pieces that every model is made of: a server with a queue, and a calendar of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use stria_block::Nanos;

/// A server that takes one job at a time in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct Station {
    free_at: Nanos,
    busy_ns: u128,
}

impl Station {
    /// When a job ends that arrives at `now` and takes `service_ns`. Calls come in the order of time.
    pub fn serve(&mut self, now: Nanos, service_ns: Nanos) -> Nanos {
        self.busy_ns += u128::from(service_ns);
        self.free_at = self.free_at.max(now) + service_ns;
        self.free_at
    }

    /// When a job would begin that arrives at `now`.
    pub fn serve_at(&self, now: Nanos) -> Nanos {
        self.free_at.max(now)
    }

    /// Time spent at work since the start.
    pub fn busy_ns(&self) -> u128 {
        self.busy_ns
    }
}

/// How long `bytes` take at a rate, which is not 0.
pub fn transfer_ns(bytes: u64, bytes_per_s: u64) -> Nanos {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s)) as Nanos
}

/// Events that lie ahead; those of one time come in the order in which they were added.
#[derive(Clone, Debug)]
pub struct Calendar<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    order: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at: Nanos,
    order: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), order: 0 }
    }
}

impl<T> Calendar<T> {
    /// Adds an event.
    pub fn add(&mut self, at: Nanos, event: T) {
        self.order += 1;
        self.heap.push(Reverse(Entry { at, order: self.order, event }));
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event if it is due at `now`.
    pub fn take_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
