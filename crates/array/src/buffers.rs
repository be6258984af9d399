//! Memory that requests reuse.

use std::cell::RefCell;
use stria_block::{Buffer, Claim, Data, Operation, Pool, bytes};

/// The pool, and zeros.
pub(crate) struct Buffers {
    pool: RefCell<Pool>,
    /// One strip, or a MiB if that is more.
    zeros: Data,
}

impl Buffers {
    pub fn new(strip_sectors: u64) -> Self {
        Self { pool: RefCell::default(), zeros: Data::zeros(bytes(strip_sectors).max(1 << 20)) }
    }

    #[inline]
    pub fn take(&self, sectors: u64) -> Buffer {
        self.pool.borrow_mut().take(bytes(sectors))
    }

    #[inline]
    pub fn give(&self, buffer: Buffer) {
        self.pool.borrow_mut().give(buffer);
    }

    /// Gives back memory that others may still read.
    #[inline]
    pub fn give_claim(&self, claim: Claim) {
        self.pool.borrow_mut().give_claim(claim);
    }

    /// The data that request `index` of a write within one strip has read. Memory of parity returns to the pool.
    #[inline]
    pub fn memory_of(&self, operation: Operation, index: usize) -> Option<Buffer> {
        match operation {
            Operation::Read { mut into } => into.pop(),
            Operation::Write { mut from, .. } if index > 0 => {
                self.give_claim(from.pop()?.into_claim());
                None
            }
            _ => None,
        }
    }

    /// Zeros to write: `sectors` of them, or fewer, but at least one strip if that many are asked for.
    pub fn zeros(&self, sectors: u64) -> Data {
        self.zeros.slice(0, bytes(sectors).min(self.zeros.len()))
    }

    /// `len` zeros to compute with; one strip of them is always there.
    pub fn zero_bytes(&self, len: usize) -> &[u8] {
        &self.zeros[..len]
    }
}
