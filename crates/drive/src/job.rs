//! One request on its way through the kernel: the next step, and the memory it uses.
//!
//! A transfer may take several system calls: the kernel cut one short, or it is larger than one call may be. A job counts the
//! bytes that are done, and builds the next entry. Memory that does not meet the drive's alignment goes through a bounce buffer.
//! Any other request is a command past the block layer, or goes to the drive's own threads, see [`crate::workers`].

use crate::SyncDrive;
use crate::error::io_error;
use crate::info::Waits;
use crate::parts::PartOf;
use crate::passthrough::{self, Command, Memory};
use crate::registered::Registered;
use crate::sync_drive::ReportedCall;
use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Action, BLOCK_ALIGN, Buffer, IoError, Nanos, Operation, Request, SECTOR_BYTES};

/// linux/fs.h: `RWF_DSYNC`, durable as if by fdatasync.
const RWF_DSYNC: i32 = 2;
/// linux/fs.h: `RWF_NOWAIT`, fail with `EAGAIN` instead of waiting for anything before the transfer is sent.
const RWF_NOWAIT: i32 = 8;
/// linux/uio.h: `UIO_MAXIOV`.
const PIECES_MAX: usize = 1024;
/// One system call moves less than 2 GiB (`MAX_RW_COUNT`); this is aligned and well below.
const TRANSFER_BYTES_MAX: usize = 1 << 30;
/// The bytes that are copied to aligned memory at once.
const BOUNCE_BYTES_MAX: usize = 1 << 20;
/// The number of times that a system call is repeated if it returns `EAGAIN` or `EINTR`, or moves nothing.
const RETRIES_MAX: u8 = 16;

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    start: *mut u8,
    len: usize,
}

/// The segments of a transfer. A single one lies inline and is put into the entry itself; more lie on the heap, and the entry
/// points there.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// The present step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read or write the request's memory.
    Transfer,
    /// Flush, by a command past the block layer.
    Sync,
}

/// A request, its present step, and everything that the kernel may access meanwhile.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) step: Step,
    /// The arrival time of the request.
    pub(crate) since: Nanos,
    /// The transfer that this is a part of.
    pub(crate) part_of: Option<PartOf>,
    drive: SyncDrive,
    /// It may use up the kernel's report of a loss.
    _reported: Option<ReportedCall>,
    /// The index of the drive's file among the ring's registered files.
    registered: Option<Rc<Registered>>,
    done_bytes: usize,
    pieces: Pieces,
    bounce: Option<Buffer>,
    retries: u8,
}

impl Job {
    /// A job that begins with `step`. `pieces`: an emptied list of an earlier job, to save an allocation.
    pub(crate) fn new(request: Request, step: Step, since: Nanos, drive: SyncDrive, pieces: Pieces) -> Self {
        let (part_of, registered, bounce) = (None, None, None);
        Self { request, step, since, part_of, registered, _reported: None, drive, done_bytes: 0, pieces, bounce, retries: 0 }
    }

    /// The same job, with the index of the drive's registered file.
    pub(crate) fn registered(self, registered: Option<Rc<Registered>>) -> Self {
        Self { registered, ..self }
    }

    /// The same job, as a part of a transfer.
    pub(crate) fn part_of(self, part_of: Option<PartOf>) -> Self {
        Self { part_of, ..self }
    }

    /// The same job, as a call to which the kernel may report a loss.
    pub(crate) fn reported(self, reported: Option<ReportedCall>) -> Self {
        Self { _reported: reported, ..self }
    }

    /// Takes the job apart: the request, and the emptied list.
    pub(crate) fn into_parts(mut self) -> (Request, Pieces) {
        self.pieces.clear();
        (self.request, self.pieces)
    }

    /// The entry for the present step. Every address in it lies in memory that the job owns on the heap (a segment, the list,
    /// the bounce buffer) or is static, and the job's `drive` keeps the descriptor open. `registered`: the addresses of the
    /// ring's registered memory. Returns also whether the entry uses that memory.
    pub(crate) fn entry(&mut self, registered: &Range<usize>) -> (squeue::Entry, bool) {
        // The index of a registered file is valid only together with the flag, which is set at the end.
        let number = self.registered.as_ref().map(|registered| registered.index() as i32);
        let fd = Fd(number.unwrap_or_else(|| self.drive.file().as_raw_fd()));
        assert_eq!(self.step, Step::Transfer, "the other steps are commands");
        self.gather(TRANSFER_BYTES_MAX);
        // Direct I/O treats pages of registered memory as segments: each must consist of whole blocks.
        let (_, block_bytes) = self.drive.alignment();
        let fits = |start: usize| registered.contains(&start) && start.is_multiple_of(block_bytes);
        let fixed = matches!(self.pieces[..], [Piece { start, .. }] if fits(start as usize));
        let entry = self.transfer_entry(fd, fixed);
        (if number.is_some() { entry.flags(squeue::Flags::FIXED_FILE) } else { entry }, fixed)
    }

    /// The entry for the present step as a command past the block layer. Addresses are as in [`Job::entry`], and the drive
    /// keeps that descriptor open as well.
    pub(crate) fn command(&mut self) -> squeue::Entry128 {
        let drive = self.drive.clone();
        let to = drive.passthrough().expect("the drive goes past the block layer");
        let number = self.registered.as_ref().map(|registered| registered.index() as i32);
        let fd = Fd(number.unwrap_or_else(|| to.file.as_raw_fd()));
        let start = self.start();
        let (command, len, memory) = match self.step {
            Step::Transfer => {
                self.gather(to.transfer_bytes_max);
                let command = match self.writes() {
                    (false, _) => Command::Read,
                    (true, fua) => Command::Write { fua },
                };
                let memory = match self.pieces[..] {
                    [Piece { start, len }] => Memory::Piece(start, len),
                    ref list => Memory::List(list.as_ptr().cast(), list.len()),
                };
                (command, self.listed_bytes(), memory)
            }
            Step::Sync => (Command::Flush, 0, Memory::Piece(std::ptr::null(), 0)),
        };
        let entry = to.entry(fd, command, start, len as u64, memory);
        if number.is_some() { entry.flags(squeue::Flags::FIXED_FILE) } else { entry }
    }

    /// A command's status as the result of a system call: the bytes done, or an error number.
    pub(crate) fn result_of(&self, status: i32) -> i32 {
        match (status, self.step) {
            (0, Step::Transfer) => self.listed_bytes() as i32,
            (..=0, _) => status,
            _ if passthrough::may_be_sent_again(status) && self.retries < RETRIES_MAX => -Errno::AGAIN.raw_os_error(),
            _ => -passthrough::errno_of(status).raw_os_error(),
        }
    }

    /// The start of the present step, in bytes.
    fn start(&self) -> u64 {
        self.request.start_sector * SECTOR_BYTES as u64 + self.done_bytes as u64
    }

    /// Whether the request is a write, and whether it has FUA.
    fn writes(&self) -> (bool, bool) {
        match self.request.operation {
            Operation::Write { fua, .. } => (true, fua),
            _ => (false, false),
        }
    }

    fn listed_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len).sum()
    }

    /// `fixed`: the one piece lies in registered memory.
    fn transfer_entry(&self, fd: Fd, fixed: bool) -> squeue::Entry {
        let offset = self.start();
        let (write, fua) = self.writes();
        let nowait = if self.drive.waits() == Waits::Told { RWF_NOWAIT } else { 0 };
        let flags = if fua { RWF_DSYNC } else { 0 } | nowait;
        let list = &self.pieces[..];
        match (write, list) {
            (false, &[Piece { start, len }]) if fixed => {
                opcode::ReadFixed::new(fd, start, len as u32, 0).offset(offset).rw_flags(nowait).build()
            }
            (true, &[Piece { start, len }]) if fixed => {
                opcode::WriteFixed::new(fd, start, len as u32, 0).offset(offset).rw_flags(flags).build()
            }
            (false, &[Piece { start, len }]) => opcode::Read::new(fd, start, len as u32).offset(offset).rw_flags(nowait).build(),
            (true, &[Piece { start, len }]) => opcode::Write::new(fd, start, len as u32).offset(offset).rw_flags(flags).build(),
            (false, _) => opcode::Readv::new(fd, list.as_ptr().cast(), list.len() as u32).offset(offset).rw_flags(nowait).build(),
            (true, _) => opcode::Writev::new(fd, list.as_ptr().cast(), list.len() as u32).offset(offset).rw_flags(flags).build(),
        }
    }

    /// Lists the memory from `done_bytes` on, as much as one call takes and at most `len_max`.
    fn gather(&mut self, len_max: usize) {
        let (memory_align, block_bytes) = self.drive.alignment();
        let left = self.total_bytes() - self.done_bytes;
        let window = self.done_bytes..self.done_bytes + left.min(len_max);
        self.pieces.clear();
        // Buffers and data are handles to the heap: these addresses stay valid when the job moves.
        let mut list = |start: *const u8, len: usize| {
            if len > 0 && self.pieces.len() < PIECES_MAX {
                self.pieces.push(Piece { start: start.cast_mut(), len });
            }
        };
        match &mut self.request.operation {
            Operation::Read { into } => each_in(&window, into.iter_mut(), |buffer, part| {
                list(buffer[part.clone()].as_mut_ptr(), part.len());
            }),
            Operation::Write { from, .. } => each_in(&window, from.iter(), |data, part| {
                list(data[part.clone()].as_ptr(), part.len());
            }),
            _ => unreachable!("only reads and writes transfer memory"),
        }
        let aligned =
            |piece: &Piece| (piece.start as usize).is_multiple_of(memory_align) && piece.len.is_multiple_of(block_bytes);
        if self.pieces.iter().all(aligned) {
            self.bounce = None;
        } else {
            self.bounce(left.min(BOUNCE_BYTES_MAX).min(len_max));
        }
    }

    /// True if the block layer takes the present transfer without a split. A split transfer cannot be polled for: Linux 6.1
    /// refuses it each time it is sent.
    pub(crate) fn is_unsplit(&self) -> bool {
        let Some(first) = self.pieces.first() else { return false };
        // Adjacent pages are no gap in any queue.
        let follows = |pair: &[Piece]| {
            (pair[0].start as usize + pair[0].len).is_multiple_of(BLOCK_ALIGN)
                && (pair[1].start as usize).is_multiple_of(BLOCK_ALIGN)
        };
        let len = self.listed_bytes();
        let pages = (first.start as usize % BLOCK_ALIGN + len).div_ceil(BLOCK_ALIGN);
        let info = self.drive.info();
        let start_sector = self.request.start_sector + (self.done_bytes / SECTOR_BYTES) as u64;
        let in_chunk = |chunk: u64| start_sector / chunk == (start_sector + (len / SECTOR_BYTES) as u64 - 1) / chunk;
        pages <= info.transfer_bytes_max / BLOCK_ALIGN
            && self.pieces.windows(2).all(follows)
            && (info.chunk_sectors == 0 || in_chunk(info.chunk_sectors))
    }

    /// Makes the present transfer use a bounce buffer of `len` bytes.
    fn bounce(&mut self, len: usize) {
        let mut bounce = Buffer::zeroed(len);
        if let Operation::Write { from, .. } = &self.request.operation {
            let mut into = &mut bounce[..];
            each_in(&(self.done_bytes..self.done_bytes + len), from.iter(), |data, part| {
                let (front, rest) = std::mem::take(&mut into).split_at_mut(part.len());
                front.copy_from_slice(&data[part]);
                into = rest;
            });
        }
        self.pieces.clear();
        self.pieces.push(Piece { start: bounce.as_mut_ptr(), len });
        self.bounce = Some(bounce);
    }

    /// Takes the kernel's result of the present step. `Ok(false)`: the step must be entered again.
    pub(crate) fn advance(&mut self, result: i32) -> Result<bool, IoError> {
        if result < 0 {
            return match Errno::from_raw_os_error(-result) {
                Errno::INTR | Errno::AGAIN if self.retries < RETRIES_MAX => {
                    self.retries += 1;
                    Ok(false)
                }
                errno => Err(self.error(errno)),
            };
        }
        if self.step == Step::Sync {
            return Ok(true);
        }
        // Direct I/O continues at whole blocks only.
        let (_, block_bytes) = self.drive.alignment();
        let moved = result as usize - result as usize % block_bytes;
        if moved == 0 {
            self.retries += 1;
            if self.retries > RETRIES_MAX || matches!(self.request.operation, Operation::Read { .. }) {
                return Err(self.drive.ends_within(self.request.start_sector, self.request.sectors, self.done_bytes));
            }
            return Ok(false);
        }
        if let (Some(bounce), Operation::Read { into }) = (&self.bounce, &mut self.request.operation) {
            let mut from = &bounce[..moved];
            each_in(&(self.done_bytes..self.done_bytes + moved), into.iter_mut(), |buffer, part| {
                let (front, rest) = from.split_at(part.len());
                buffer[part].copy_from_slice(front);
                from = rest;
            });
        }
        self.retries = 0;
        self.done_bytes += moved;
        Ok(self.done_bytes == self.total_bytes())
    }

    fn total_bytes(&self) -> usize {
        stria_block::bytes(self.request.sectors)
    }

    /// The request's error for a system call that failed with `errno`.
    pub(crate) fn error(&self, errno: Errno) -> IoError {
        let action = match self.request.operation {
            Operation::Read { .. } => Action::Read,
            Operation::Write { .. } => Action::Write,
            Operation::Flush => Action::Flush,
            Operation::WriteZeroes { .. } => Action::WriteZeroes,
            Operation::Extents { .. } => Action::Extents,
        };
        io_error(self.drive.name(), action, self.request.start_sector, self.request.sectors, errno)
    }
}

/// Calls `with` for each segment and the part of it that lies in bytes `window` of all segments in a row.
fn each_in<S: std::ops::Deref<Target: std::ops::Deref<Target = [u8]>>>(
    window: &Range<usize>,
    segments: impl Iterator<Item = S>,
    mut with: impl FnMut(S, Range<usize>),
) {
    let mut start = 0;
    for segment in segments {
        let len = segment.len();
        let part = window.start.saturating_sub(start).min(len)..window.end.saturating_sub(start).min(len);
        start += len;
        if !part.is_empty() {
            with(segment, part);
        }
    }
}

#[cfg(test)]
mod tests;
