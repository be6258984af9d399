//! The activity of clients, and what the array may do for them now.

use crate::{Refusal, WritePolicy};
use std::cell::{Cell, RefCell};
use stria_block::{IoError, Nanos};

/// Writes under way, and when clients last asked for something.
#[derive(Default)]
pub(crate) struct Activity {
    writes_in_flight: Cell<usize>,
    last_write: Cell<Nanos>,
    last_request: Cell<Nanos>,
}

impl Activity {
    #[inline]
    pub fn begin_write(&self) {
        self.writes_in_flight.set(self.writes_in_flight.get() + 1);
    }

    #[inline]
    pub fn end_write(&self, now: Nanos) {
        self.writes_in_flight.set(self.writes_in_flight.get() - 1);
        self.last_write.set(now);
    }

    pub fn writes(&self) -> bool {
        self.writes_in_flight.get() > 0
    }

    /// The time at which a write last ended.
    pub fn last_write(&self) -> Nanos {
        self.last_write.get()
    }

    #[inline]
    pub fn note_request(&self, now: Nanos) {
        self.last_request.set(now);
    }

    pub fn last_request(&self) -> Nanos {
        self.last_request.get()
    }
}

/// The permissions of the array at this moment.
pub(crate) struct RunState {
    is_read_only: Cell<bool>,
    /// It was writable in this run, so its members' metadata may be written (R88).
    may_record: Cell<bool>,
    is_stopping: Cell<bool>,
    /// The [start](crate::metadata_io) has ended: another crash can no longer undo what clients read.
    is_prepared: Cell<bool>,
    write_policy: Cell<WritePolicy>,
    /// A flush that no client waits for is due or runs.
    flush_behind: Cell<bool>,
    /// The error of such a flush, for the next one.
    flush_error: RefCell<Option<IoError>>,
}

impl RunState {
    pub fn new(is_read_only: bool, is_prepared: bool) -> Self {
        Self {
            is_read_only: Cell::new(is_read_only),
            may_record: Cell::new(!is_read_only),
            is_stopping: Cell::new(false),
            is_prepared: Cell::new(is_prepared),
            write_policy: Cell::default(),
            flush_behind: Cell::new(false),
            flush_error: RefCell::default(),
        }
    }

    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.get()
    }

    pub fn set_read_only(&self, is_read_only: bool) {
        self.is_read_only.set(is_read_only);
        self.may_record.set(self.may_record.get() || !is_read_only);
    }

    /// True if members' metadata may be written: the array is not read-only, or became so in this run (R88).
    pub fn may_record(&self) -> bool {
        self.may_record.get()
    }

    /// Whether members may change. On a read-only array they may not, since every change writes superblocks.
    ///
    /// # Errors
    /// The array is read-only.
    pub fn may_change(&self) -> Result<(), Refusal> {
        match self.is_read_only() {
            true => Err(Refusal::ReadOnly),
            false => Ok(()),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    pub fn set_stopping(&self) {
        self.is_stopping.set(true);
    }

    #[inline]
    pub fn is_prepared(&self) -> bool {
        self.is_prepared.get()
    }

    pub fn set_prepared(&self) {
        self.is_prepared.set(true);
    }

    #[inline]
    pub fn write_policy(&self) -> WritePolicy {
        self.write_policy.get()
    }

    pub fn set_write_policy(&self, policy: WritePolicy) {
        self.write_policy.set(policy);
    }

    /// Wants a flush that no client waits for. True if none was due.
    pub fn want_flush_behind(&self) -> bool {
        !self.flush_behind.replace(true)
    }

    /// That flush begins: what ends from now on needs another.
    pub fn begin_flush_behind(&self) {
        self.flush_behind.set(false);
    }

    /// That flush has failed.
    pub fn keep_flush_error(&self, error: IoError) {
        *self.flush_error.borrow_mut() = Some(error);
    }

    /// The result of the flushes that no client waited for.
    pub fn take_flush_error(&self) -> Result<(), IoError> {
        self.flush_error.take().map_or(Ok(()), Err)
    }
}
