//! Blocking I/O on a device, for tools: submits one request, and drives device and ring until it ends.

use std::time::Duration;
use stria_block::{BlockDevice, Buffer, Completion, IoError, Operation, Request, SECTOR_BYTES, bytes};
use stria_drive::{Ring, monotonic_now};

/// A device that only this code drives.
pub struct SyncIo<'a, D: ?Sized> {
    pub(crate) device: &'a mut D,
    ring: &'a Ring,
}

impl<'a, D: BlockDevice + ?Sized> SyncIo<'a, D> {
    /// Borrows a device and the ring of its drives.
    pub fn new(device: &'a mut D, ring: &'a Ring) -> Self {
        Self { device, ring }
    }

    /// Drives the device until `done`.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut D, &[Completion]) -> bool) -> Vec<Completion> {
        let mut completions = Vec::new();
        loop {
            let now = monotonic_now();
            self.device.poll(now, &mut completions);
            if done(self.device, &completions) {
                return completions;
            }
            match self.device.next_wake() {
                Some(due) if due <= now => self.ring.poll(),
                Some(due) => self.ring.wait(Some(Duration::from_nanos(due - now))),
                None => self.ring.wait(None),
            }
        }
    }

    /// Runs one request.
    ///
    /// # Errors
    /// The device's.
    pub fn request(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Result<Operation, IoError> {
        self.device.submit(Request { tag: 0, start_sector, sectors, operation });
        let mut ended = self.run_until(|_, completions| !completions.is_empty());
        let completion = ended.pop().expect("it ended");
        completion.result.map(|()| completion.operation)
    }

    /// Reads sectors.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&mut self, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let into = std::iter::once(Buffer::zeroed(bytes(sectors))).collect();
        let Operation::Read { into } = self.request(start_sector, sectors, Operation::Read { into })? else {
            unreachable!("a read comes back as a read")
        };
        Ok(into.iter().flat_map(|buffer| buffer.iter().copied()).collect())
    }

    /// Writes bytes, durably.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&mut self, start_sector: u64, data: &[u8]) -> Result<(), IoError> {
        let from = std::iter::once(Buffer::copy_of(data).freeze()).collect();
        let sectors = (data.len() / SECTOR_BYTES) as u64;
        self.request(start_sector, sectors, Operation::Write { from, fua: true }).map(|_| ())
    }
}
