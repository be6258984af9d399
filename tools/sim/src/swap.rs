//! The mutant [`ParitySwapped`](crate::Mutant::ParitySwapped): writes to P and Q change places.

use crate::drive::DriveHandle;
use crate::power::Power;
use std::cell::RefCell;
use std::rc::Rc;
use stria_array::Geometry;
use stria_block::{BlockDevice, Completion, Limits, Nanos, Operation, Request};

/// A parity write that waits for the other one.
struct Held {
    slot: usize,
    request: Request,
    handle: Rc<RefCell<DriveHandle>>,
}

/// Exchanges the writes to P and Q of a degraded array.
pub(crate) struct Swap {
    geometry: Geometry,
    data_start_sector: u64,
    power: Rc<Power>,
    held: RefCell<Option<Held>>,
}

impl Swap {
    pub fn new(geometry: Geometry, data_start_sector: u64, power: Rc<Power>) -> Rc<Self> {
        Rc::new(Self { geometry, data_start_sector, power, held: RefCell::new(None) })
    }

    fn release(&self) {
        if let Some(held) = self.held.borrow_mut().take() {
            held.handle.borrow_mut().submit(held.request);
        }
    }

    /// True if a request is a write of parity by the member in `slot` while the array is degraded.
    fn concerns(&self, slot: usize, request: &Request) -> bool {
        let write = matches!(request.operation, Operation::Write { .. });
        if !write || !self.power.degraded.get() || request.start_sector < self.data_start_sector {
            return false;
        }
        let stripe = (request.start_sector - self.data_start_sector) / self.geometry.strip_sectors();
        self.geometry.stripe_map(stripe).parity.iter().any(|&parity| usize::from(parity) == slot)
    }
}

/// A member of an array whose parities are exchanged.
pub(crate) struct Swapped {
    slot: usize,
    swap: Rc<Swap>,
    handle: Rc<RefCell<DriveHandle>>,
    limits: Limits,
}

impl Swapped {
    pub fn new(slot: usize, swap: Rc<Swap>, handle: DriveHandle) -> Self {
        Self { slot, swap, limits: handle.limits().clone(), handle: Rc::new(RefCell::new(handle)) }
    }
}

impl BlockDevice for Swapped {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut request: Request) {
        if !self.swap.concerns(self.slot, &request) {
            return self.handle.borrow_mut().submit(request);
        }
        let twin = |held: &mut Held| {
            held.slot != self.slot && (held.request.start_sector, held.request.sectors) == (request.start_sector, request.sectors)
        };
        let twin = self.swap.held.borrow_mut().take_if(twin);
        match twin {
            Some(mut twin) => {
                std::mem::swap(&mut twin.request.operation, &mut request.operation);
                twin.handle.borrow_mut().submit(twin.request);
                self.handle.borrow_mut().submit(request);
            }
            None => {
                self.swap.release();
                *self.swap.held.borrow_mut() = Some(Held { slot: self.slot, request, handle: Rc::clone(&self.handle) });
            }
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.swap.release();
        self.handle.borrow_mut().poll(now, completions);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.swap.held.borrow().is_some() { Some(0) } else { self.handle.borrow().next_wake() }
    }
}
