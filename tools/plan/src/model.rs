//! The interface of every model: drives, platforms and arrays of them.
//!
//! It is `stria_block::BlockDevice` without memory: a request says what and where, and a completion is its tag. `submit`
//! takes a request at a time, `poll` advances the model, and `next_wake` says when polling next makes progress. Times never
//! go back. [`Modelled`](crate::modelled::Modelled) gives a model the face of a block device.

use stria_block::{Nanos, Tag};

/// 512 bytes, as in `stria_block`.
pub const SECTOR_BYTES: u64 = stria_block::SECTOR_BYTES as u64;

/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads the range.
    Read,
    /// Writes the range. With `fua` it is durable when it ends.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// The range holds no data any more.
    Trim,
    /// Makes every write that has ended durable. The range is empty.
    Flush,
}

/// One request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number that comes back when the request ends.
    pub tag: Tag,
    /// The kind.
    pub kind: Kind,
    /// First sector.
    pub start_sector: u64,
    /// Count of sectors; 0 only for a flush.
    pub sectors: u64,
}

impl Ask {
    /// Bytes of the range.
    pub fn bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES
    }

    /// The first sector after the range.
    pub fn end_sector(&self) -> u64 {
        self.start_sector + self.sectors
    }

    /// True for a write.
    pub fn is_write(&self) -> bool {
        matches!(self.kind, Kind::Write { .. })
    }
}

/// A device in virtual time that keeps no data.
pub trait Model {
    /// Usable size.
    fn size_sectors(&self) -> u64;

    /// Takes a request at `now`, which never goes back. The range lies within the device.
    fn submit(&mut self, now: Nanos, ask: Ask);

    /// Advances to `now` and appends the tags of requests that ended.
    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>);

    /// When polling next makes progress; `None` when idle.
    fn next_wake(&self) -> Option<Nanos>;

    /// Polls at every wake until requests end, or up to `until`, at which it polls once at most. Returns the time of the last
    /// poll if requests ended then, otherwise `until`. Models that consist of others step faster so.
    fn advance(&mut self, until: Nanos, ended: &mut Vec<Tag>) -> Nanos {
        while let Some(at) = self.next_wake().filter(|&at| at <= until) {
            self.poll(at, ended);
            if at == until || !ended.is_empty() {
                return at;
            }
        }
        until
    }

    /// The bytes of memory of the state.
    fn state_bytes(&self) -> u64 {
        0
    }
}

impl Model for Box<dyn Model> {
    fn size_sectors(&self) -> u64 {
        (**self).size_sectors()
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        (**self).submit(now, ask);
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        (**self).poll(now, ended);
    }

    fn next_wake(&self) -> Option<Nanos> {
        (**self).next_wake()
    }

    fn advance(&mut self, until: Nanos, ended: &mut Vec<Tag>) -> Nanos {
        (**self).advance(until, ended)
    }

    fn state_bytes(&self) -> u64 {
        (**self).state_bytes()
    }
}
