//! A device in memory. Requests end in the order in which they were submitted.

use crate::{BlockDevice, Buffer, Completion, Extent, IoError, Limits, Nanos, Operation, Request, SECTOR_BYTES, bytes};

/// A RAM disk. Every request is carried out when it is submitted and ends at the next poll.
pub struct RamDevice {
    memory: Buffer,
    limits: Limits,
    ended: Vec<Completion>,
}

impl RamDevice {
    /// A zeroed device of `size_sectors`, with 512-byte blocks.
    pub fn new(size_sectors: u64) -> Self {
        let limits = Limits { discard_granularity_bytes: 512, unmap_zeroes: true, ..Limits::plain(size_sectors) };
        Self::with_limits(limits)
    }

    /// A zeroed device that claims `limits`.
    pub fn with_limits(limits: Limits) -> Self {
        let mut memory = Buffer::zeroed(bytes(limits.size_sectors));
        // A measurement must not pay for the first use of a page.
        memory.fill(0);
        Self { memory, limits, ended: Vec::new() }
    }

    /// The device's bytes, for tests and tools.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// The device's bytes, for tests that set or damage them.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    fn carry_out(&mut self, request: &mut Request) -> Result<(), IoError> {
        request.check(&self.limits)?;
        let range = &mut self.memory[bytes(request.start_sector)..][..bytes(request.sectors)];
        match &mut request.operation {
            Operation::Read { into } => {
                let mut from = &*range;
                for segment in into {
                    let (part, rest) = from.split_at(segment.len());
                    segment.copy_from_slice(part);
                    from = rest;
                }
            }
            Operation::Write { from, .. } => {
                let mut into = range;
                for segment in from {
                    let (part, rest) = into.split_at_mut(segment.len());
                    part.copy_from_slice(segment);
                    into = rest;
                }
            }
            Operation::Flush => {}
            Operation::Extents { extents } => *extents = extents_of(&range[..range.len().min(EXTENTS_SCAN_BYTES)]),
            Operation::WriteZeroes { .. } => range.fill(0),
        }
        Ok(())
    }
}

impl BlockDevice for RamDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut request: Request) {
        let result = self.carry_out(&mut request);
        self.ended.push(request.complete(result));
    }

    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
    }

    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty()).then_some(0)
    }
}

/// 1 MiB: how much one answer about allocation looks at. A longer scan would stall the lane.
const EXTENTS_SCAN_BYTES: usize = 1 << 20;

/// Zero sectors as holes, the rest as data.
fn extents_of(bytes: &[u8]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for sector in bytes.chunks(SECTOR_BYTES) {
        let hole = sector.iter().all(|&byte| byte == 0);
        match extents.last_mut() {
            Some(last) if last.hole == hole => last.sectors += 1,
            _ => extents.push(Extent { sectors: 1, hole }),
        }
    }
    extents
}
