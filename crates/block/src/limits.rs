//! What a block device reports about itself.

/// Virtual or real time in nanoseconds since an arbitrary start; only differences have a meaning.
pub type Nanos = u64;

/// The submitter's number for a request. The [`Completion`](crate::Completion) returns it.
pub type Tag = u64;

/// What a device can do. Read once; a device never grows or shrinks while it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Usable size.
    pub size_sectors: u64,
    /// Smallest unit of I/O, in bytes: 512 or 4096. Requests that are not aligned to it are refused.
    pub logical_block_bytes: u32,
    /// Unit below which a write costs the device a read.
    pub physical_block_bytes: u32,
    /// Best size and alignment of large I/O; 0 if the device does not report one.
    pub optimal_io_bytes: u32,
    /// True if a power cut may take completed writes that were neither FUA nor flushed.
    pub volatile_cache: bool,
    /// Smallest range worth discarding in bytes; 0: the device cannot discard.
    pub discard_granularity_bytes: u32,
    /// True if [`Operation::WriteZeroes`](crate::Operation::WriteZeroes) with `unmap` is quick and frees space. A discard can
    /// then be done in that form, and leaves defined bytes.
    pub unmap_zeroes: bool,
    /// True if the device has moving parts.
    pub rotational: bool,
}

impl Limits {
    /// Limits of a plain device of `size_sectors` with 512-byte blocks and no special abilities.
    pub fn plain(size_sectors: u64) -> Self {
        Self {
            size_sectors,
            logical_block_bytes: 512,
            physical_block_bytes: 512,
            optimal_io_bytes: 0,
            volatile_cache: false,
            discard_granularity_bytes: 0,
            unmap_zeroes: false,
            rotational: false,
        }
    }
}

/// A run of sectors in one state of allocation, as [`Operation::Extents`](crate::Operation::Extents) reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length of the run.
    pub sectors: u64,
    /// True if the run reads as zeros and takes no space.
    pub hole: bool,
}
