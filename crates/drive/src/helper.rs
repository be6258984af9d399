//! A thread for the few system calls that io_uring has no equivalent of: discards of block devices and
//! the search for holes. Started with the first such request of a drive, ended with the drive.

use crate::SyncDrive;
use crate::error::{Action, io_error};
use crate::extents::extents_of;
use crate::ring::Waker;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use stria_block::{Completion, Nanos, Operation, Request, SECTOR_BYTES};

/// linux/fs.h: `BLKDISCARD`, `_IO(0x12, 119)`, argument: start and length in bytes.
const BLKDISCARD: Opcode = rustix::ioctl::opcode::none(0x12, 119);

/// The near end of the thread, which holds the drive only while it works for it.
pub(crate) struct Helper {
    work: Sender<(SyncDrive, Request)>,
    done: Receiver<Completion>,
    /// When they came. One is done after the other.
    pending: VecDeque<Nanos>,
}

impl Helper {
    /// Starts the thread; it wakes the owner's ring when something has ended.
    pub(crate) fn start(waker: Waker) -> std::io::Result<Self> {
        let (work, requests) = channel::<(SyncDrive, Request)>();
        let (completions, done) = channel();
        std::thread::Builder::new().name("stria helper".into()).spawn(move || {
            for (drive, mut request) in requests {
                let result = carry_out(&drive, &mut request);
                drop(drive);
                if completions.send(request.complete(result)).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Self { work, done, pending: VecDeque::new() })
    }

    /// Hands a request over.
    pub(crate) fn submit(&mut self, drive: SyncDrive, request: Request, now: Nanos) {
        self.work.send((drive, request)).expect("the helper runs as long as its sender lives");
        self.pending.push_back(now);
    }

    /// When the oldest request came that has not ended.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.pending.front().copied()
    }

    /// Appends what ended.
    pub(crate) fn poll(&mut self, completions: &mut Vec<Completion>) {
        while !self.pending.is_empty() {
            let Ok(completion) = self.done.try_recv() else { return };
            self.pending.pop_front();
            completions.push(completion);
        }
    }
}

fn carry_out(drive: &SyncDrive, request: &mut Request) -> Result<(), stria_block::IoError> {
    let (start, sectors) = (request.start_sector, request.sectors);
    let block_sectors = u64::from(drive.info().limits.logical_block_bytes) / SECTOR_BYTES as u64;
    let (action, result) = match &mut request.operation {
        Operation::Extents { extents } => {
            let found = extents_of(drive.file(), start, sectors, block_sectors);
            (Action::Extents, found.map(|found| *extents = found))
        }
        _ => (Action::Discard, discard(drive.file(), start, sectors)),
    };
    result.map_err(|errno| io_error(drive.name(), action, start, sectors, errno))
}

fn discard(device: &File, start_sector: u64, sectors: u64) -> Result<(), Errno> {
    let range = [start_sector * SECTOR_BYTES as u64, sectors * SECTOR_BYTES as u64];
    // SAFETY: BLKDISCARD reads two u64 and touches no other memory of ours.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new(range)) }
}
