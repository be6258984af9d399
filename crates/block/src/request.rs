//! Requests and their ends.

use crate::{Buffer, Data, ErrorKind, Extent, IoError, Limits, SECTOR_BYTES, Tag};
use smallvec::SmallVec;
use std::ops::Deref;

/// The pieces of memory of one request, in the order of the device's sectors.
pub type Segments<T> = SmallVec<[T; 1]>;

/// What to do with a range of sectors; carries its memory with it.
#[derive(Debug)]
pub enum Operation {
    /// Fill `into`, whose lengths add up to the range.
    Read {
        /// Unique memory, returned filled. One piece comes back as one piece, though not always the same.
        into: Segments<Buffer>,
    },
    /// Write `from`, whose lengths add up to the range. With `fua`, durable when it ends.
    Write {
        /// Shared memory; may be given to several devices at once.
        from: Segments<Data>,
        /// Force unit access.
        fua: bool,
    },
    /// Make every write that has ended durable. The range is empty.
    Flush,
    /// Report what space the range takes. `extents` returns with at least one extent from the start of the range on, and none
    /// beyond it; it may stop early. A device that cannot tell reports "all data".
    Extents {
        /// The answer.
        extents: Vec<Extent>,
    },
    /// These bytes must read as zeros. `unmap`: the space may be freed; a client's trim is one of these (R41). `fast`: fail with
    /// [`ErrorKind::Unsupported`] rather than write the zeros one by one.
    WriteZeroes {
        /// Force unit access.
        fua: bool,
        /// A hole may be left.
        unmap: bool,
        /// Quick or not at all.
        fast: bool,
    },
}

/// One request to a device.
#[derive(Debug)]
pub struct Request {
    /// Returned in the completion.
    pub tag: Tag,
    /// First sector.
    pub start_sector: u64,
    /// Count of sectors; 0 only for a flush.
    pub sectors: u64,
    /// What to do.
    pub operation: Operation,
}

/// Length of a request's memory, which is one piece in most cases.
#[inline]
fn len_of<T: Deref<Target = [u8]>>(segments: &[T]) -> usize {
    match segments {
        [one] => one.len(),
        several => several.iter().map(|segment| segment.len()).sum(),
    }
}

/// The end of a request; there is exactly one.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: Tag,
    /// How it ended. After an error the memory of a read is undefined.
    pub result: Result<(), IoError>,
    /// The operation with its memory, back to the submitter.
    pub operation: Operation,
}

impl Request {
    /// The first sector after the range; `u64::MAX` if that overflows.
    pub fn end_sector(&self) -> u64 {
        self.start_sector.saturating_add(self.sectors)
    }

    /// Ends the request.
    pub fn complete(self, result: Result<(), IoError>) -> Completion {
        Completion { tag: self.tag, result, operation: self.operation }
    }

    /// Checks the request against a device's limits. Every device does this first.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the range leaves the device, is empty or misaligned, or its memory has another length.
    #[inline]
    pub fn check(&self, limits: &Limits) -> Result<(), IoError> {
        self.problem(limits).map_or(Ok(()), |problem| Err(self.refusal(problem, limits)))
    }

    #[inline]
    fn problem(&self, limits: &Limits) -> Option<&'static str> {
        let block_sectors = u64::from(limits.logical_block_bytes) / SECTOR_BYTES as u64;
        let memory_bytes = match &self.operation {
            Operation::Read { into } => Some(len_of(into)),
            Operation::Write { from, .. } => Some(len_of(from)),
            Operation::Flush => return None,
            Operation::WriteZeroes { .. } | Operation::Extents { .. } => None,
        };
        let end = self.start_sector.checked_add(self.sectors);
        if end.is_none_or(|end| end > limits.size_sectors) {
            Some("reaches beyond the end of the device")
        } else if (self.start_sector | self.sectors) & (block_sectors - 1) != 0 {
            Some("is not aligned to the device's blocks")
        } else if self.sectors == 0 {
            Some("is empty")
        } else if memory_bytes.is_some_and(|bytes| bytes as u64 != self.sectors * SECTOR_BYTES as u64) {
            Some("has memory of another length")
        } else {
            None
        }
    }

    #[cold]
    fn refusal(&self, problem: &str, limits: &Limits) -> IoError {
        IoError::new(
            ErrorKind::Invalid,
            format!(
                "request of {} sectors at sector {} {problem} ({} sectors)",
                self.sectors, self.start_sector, limits.size_sectors
            ),
        )
    }
}
