//! A second io_uring beside a thread's usual one, for polled completion and NVMe commands.
//!
//! Polled completion needs a ring of its own, which takes nothing else: nothing reports the end of its requests, and each turn
//! looks for completions in the drive's queue. NVMe commands need entries and completions of twice the size. A side has both
//! sizes, so that there are at most two: one polled, one not. Their jobs lie in the usual ring's slots; its module head says
//! why passing addresses to the kernel is sound.

use super::setup::{Mode, modes, register_memory, set_up};
use super::try_again;
use io_uring::{IoUring, cqueue, squeue};
use std::collections::VecDeque;
use std::io;
use stria_block::Arena;

pub(super) struct Side {
    pub uring: IoUring<squeue::Entry128, cqueue::Entry32>,
    /// Completions are polled for.
    pub polled: bool,
    /// The usual ring watches for completions here.
    pub watched: bool,
    backlog: VecDeque<squeue::Entry128>,
    pub in_kernel: usize,
    in_kernel_max: usize,
}

impl Side {
    /// With indices for `files` registered files, and `memory` registered.
    pub fn new(polled: bool, files: u32, memory: Option<&'static Arena>) -> io::Result<Self> {
        let modes: [Mode<squeue::Entry128, cqueue::Entry32>; 3] = modes();
        let (uring, _) = set_up(&modes, |builder| {
            if polled {
                builder.setup_iopoll();
            }
        })?;
        if files > 0 {
            uring.submitter().register_files_sparse(files)?;
        }
        if let Some(arena) = memory {
            register_memory(&uring.submitter(), arena)?;
        }
        let in_kernel_max = uring.params().cq_entries() as usize;
        Ok(Self { uring, polled, watched: false, backlog: VecDeque::new(), in_kernel: 0, in_kernel_max })
    }

    /// True if the lane must poll for completions here.
    pub fn is_polling(&self) -> bool {
        self.polled && (self.in_kernel > 0 || !self.backlog.is_empty())
    }

    pub fn queue(&mut self, entry: squeue::Entry128) {
        self.backlog.push_back(entry);
        self.refill();
    }

    fn refill(&mut self) {
        while self.in_kernel < self.in_kernel_max
            && let Some(entry) = self.backlog.front()
        {
            // SAFETY: the ring's module head; `Ring::push_aside` requires it of its callers.
            if unsafe { self.uring.submission().push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
            self.in_kernel += 1;
        }
    }

    /// True if there is more to submit, and space for it.
    pub fn has_more(&mut self) -> bool {
        !self.backlog.is_empty() && self.in_kernel < self.in_kernel_max && !self.uring.submission().is_full()
    }

    /// True if there is something to submit, to poll for, or to take, and so a reason for [`Side::enter`].
    pub fn needs_kernel(&mut self) -> bool {
        self.refill();
        let submission = self.uring.submission();
        !submission.is_empty() || submission.taskrun() || self.polled && self.in_kernel > 0
    }

    /// The system call. `want` 1: waits or polls until there is a completion.
    pub fn enter(&mut self, want: usize) -> io::Result<()> {
        self.uring.submitter().submit_and_wait(want).map(drop).or_else(|error| try_again(error, want > 0))
    }

    /// Takes the entries that the kernel has not seen, by number.
    pub fn take_backlog(&mut self) -> Vec<u64> {
        self.backlog.drain(..).map(|entry| entry.get_user_data()).collect()
    }
}
