//! A device of a given speed, by the clock with which it is polled. So the limit of a drive's speed can be computed exactly, in
//! virtual time too, where other load of the machine does not count.

use std::collections::VecDeque;
use stria_block::{BlockDevice, Completion, Limits, Nanos, Request, bytes};

/// Sends one request after the other to the device below, at a fixed number of bytes per second; each ends a latency later.
pub struct PacedDevice<D> {
    device: D,
    bytes_per_s: u64,
    latency: Nanos,
    now: Nanos,
    /// The time at which all submitted requests have passed.
    free_at: Nanos,
    pending: VecDeque<(Nanos, Completion)>,
}

impl<D: BlockDevice> PacedDevice<D> {
    /// Slows a device down that ends every request at the next poll, as memory does.
    pub fn new(device: D, bytes_per_s: u64, latency: Nanos) -> Self {
        Self { device, bytes_per_s, latency, now: 0, free_at: 0, pending: VecDeque::new() }
    }
}

impl<D: BlockDevice> BlockDevice for PacedDevice<D> {
    fn limits(&self) -> &Limits {
        self.device.limits()
    }

    fn submit(&mut self, request: Request) {
        let time = bytes(request.sectors) as u128 * 1_000_000_000 / u128::from(self.bytes_per_s);
        self.free_at = self.free_at.max(self.now) + time as Nanos;
        self.device.submit(request);
        let mut ended = Vec::with_capacity(1);
        self.device.poll(self.now, &mut ended);
        self.pending.push_back((self.free_at + self.latency, ended.pop().expect("memory ends at once")));
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        while self.pending.front().is_some_and(|(due, _)| *due <= now) {
            completions.extend(self.pending.pop_front().map(|(_, completion)| completion));
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.pending.front().map(|(due, _)| *due)
    }
}
