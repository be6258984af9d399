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
    // A division of 128 bits takes ten times as long, and requests are short.
    match bytes.checked_mul(1_000_000_000) {
        Some(scaled) => scaled / bytes_per_s,
        None => (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s)) as Nanos,
    }
}

/// 16,777,216: events that lie ahead at most.
const SLOT_BITS: u32 = 24;

/// Events that lie ahead; those of one time come in the order in which they were added.
///
/// The heap moves times and numbers of events only: a request with all that belongs to it is four times as long.
#[derive(Clone, Debug)]
pub struct Calendar<T> {
    /// From the highest bit on: time, order, the event's slot. One number is compared without a branch, which would be hard to
    /// predict.
    heap: BinaryHeap<Reverse<u128>>,
    events: Vec<T>,
    free: Vec<u32>,
    order: u64,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), order: 0 }
    }
}

impl<T: Copy> Calendar<T> {
    /// Adds an event.
    ///
    /// # Panics
    /// With more than 16,777,216 events ahead.
    pub fn add(&mut self, at: Nanos, event: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = event;
                slot
            }
            None => {
                self.events.push(event);
                u32::try_from(self.events.len() - 1).ok().filter(|slot| slot >> SLOT_BITS == 0).expect("too many events ahead")
            }
        };
        self.order += 1;
        self.heap.push(Reverse(u128::from(at) << 64 | u128::from(self.order << SLOT_BITS | u64::from(slot))));
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(key)| (key >> 64) as Nanos)
    }

    /// Takes the next event if it is due at `now`.
    pub fn take_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(key) = self.heap.pop()?;
        let slot = key as u32 & ((1 << SLOT_BITS) - 1);
        self.free.push(slot);
        Some(((key >> 64) as Nanos, self.events[slot as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_their_being_added() {
        let mut calendar = Calendar::default();
        let (mut chance, mut plain, mut now) = (Chance::new(1, 1), Vec::new(), 0);
        for step in 0..10_000_u64 {
            let at = now + chance.below(20);
            calendar.add(at, step);
            plain.push((at, step));
            now += chance.below(3);
            plain.sort_unstable();
            while let Some(found) = calendar.take_due(now) {
                assert_eq!(found, plain.remove(0));
            }
            assert!(plain.first().is_none_or(|(at, _)| *at > now));
            assert_eq!(calendar.next_at(), plain.first().map(|(at, _)| *at));
        }
    }
}
