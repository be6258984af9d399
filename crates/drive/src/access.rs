//! How a drive is opened.

/// The purpose for which a drive is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read, also while other software uses it.
    ReadOnly,
    /// To read, beside another handle of this process that has the drive for itself. Refuses what [`Access::Exclusive`] would
    /// refuse, except the lock.
    Beside,
    /// To read and write, as the only user.
    Exclusive,
}

/// The way in which requests should reach a drive that offers more than the usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoOptions {
    /// Poll for the completions of reads and writes, instead of taking interrupts.
    pub poll: bool,
    /// Send reads, writes and flushes as NVMe commands, past the block layer. Refused where that is impossible. Zeroing and
    /// discards go through the block device.
    pub passthrough: bool,
}
