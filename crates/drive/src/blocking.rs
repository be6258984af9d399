//! Requests carried out by system calls that wait, for [`Workers`](crate::workers::Workers).

use crate::error::io_error;
use crate::extents::extents_of;
use crate::info::Waits;
use crate::{DriveKind, SyncDrive};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv, pwritev2};
use std::io::{IoSlice, IoSliceMut};
use stria_block::{Action, Buffer, Data, ErrorKind, IoError, Operation, Request, SECTOR_BYTES};

/// linux/uio.h: `UIO_MAXIOV`.
const PIECES_MAX: usize = 1024;
/// The bytes that are copied to aligned memory, or zeroed by writing, at once.
const BOUNCE_BYTES_MAX: usize = 1 << 20;
/// The number of times that a system call is repeated if it returns `EAGAIN` or `EINTR`, or moves nothing.
const RETRIES_MAX: u8 = 16;

/// Why a request failed.
enum Trouble {
    Errno(Errno),
    /// The drive ends after so many bytes of the range.
    End(usize),
    /// There is no quick way to write zeros.
    Slow,
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Runs a request, and waits for its end.
pub(crate) fn carry_out(drive: &SyncDrive, request: &mut Request) -> Result<(), IoError> {
    let (start_sector, sectors) = (request.start_sector, request.sectors);
    let (start, len) = (start_sector * SECTOR_BYTES as u64, sectors * SECTOR_BYTES as u64);
    let (action, result) = match &mut request.operation {
        Operation::Read { into } => (Action::Read, read(drive, start, into)),
        Operation::Write { from, fua } => (Action::Write, write(drive, start, from, *fua)),
        Operation::Flush => (Action::Flush, flush(drive).map_err(Trouble::from)),
        &mut Operation::WriteZeroes { fua, unmap, fast } => (Action::WriteZeroes, zero(drive, start, len, fua, unmap, fast)),
        Operation::Extents { extents } => {
            let block_sectors = u64::from(drive.info().limits.logical_block_bytes) / SECTOR_BYTES as u64;
            let found = extents_of(drive.file(), start_sector, sectors, block_sectors).map(|found| *extents = found);
            (Action::Extents, found.map_err(Trouble::from))
        }
    };
    result.map_err(|trouble| match trouble {
        Trouble::Errno(errno) => io_error(drive.name(), action, start_sector, sectors, errno),
        Trouble::End(done) => drive.ends_within(start_sector, sectors, done),
        Trouble::Slow => IoError::new(
            ErrorKind::Unsupported,
            format!("member {} has no quick way to write zeros: send the request without the fast flag", drive.name()),
        ),
    })
}

/// Repeats a call that was interrupted by a signal.
fn patiently<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut retries = 0;
    loop {
        match call() {
            Err(Errno::INTR | Errno::AGAIN) if retries < RETRIES_MAX => retries += 1,
            outcome => return outcome,
        }
    }
}

/// Makes durable what the drive has taken. A failure counts at once: a flush of another lane that the kernel tells nothing may end
/// before this one's lane looks. So a flush that succeeds waits for the calls that may have had its report.
fn flush(drive: &SyncDrive) -> Result<(), Errno> {
    let call = drive.begin_reported();
    let flushed = patiently(|| fdatasync(drive.file()));
    drive.count_flush(flushed.is_err());
    drop(call);
    if flushed.is_ok() {
        drive.wait_for_reports();
    }
    flushed
}

/// True if direct I/O takes this memory as it is.
fn is_aligned(drive: &SyncDrive, memory: &[u8]) -> bool {
    let (memory_align, block_bytes) = drive.alignment();
    (memory.as_ptr() as usize).is_multiple_of(memory_align) && memory.len().is_multiple_of(block_bytes)
}

fn read(drive: &SyncDrive, start: u64, into: &mut [Buffer]) -> Result<(), Trouble> {
    if into.iter().all(|buffer| is_aligned(drive, buffer)) {
        let mut slices: Vec<IoSliceMut<'_>> = into.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        return read_slices(drive, start, &mut slices);
    }
    let mut bounce = Buffer::zeroed(into.iter().map(|buffer| buffer.len()).sum());
    read_slices(drive, start, &mut [IoSliceMut::new(&mut bounce)])?;
    let mut rest = &bounce[..];
    for buffer in into {
        let (front, back) = rest.split_at(buffer.len());
        buffer.copy_from_slice(front);
        rest = back;
    }
    Ok(())
}

fn read_slices(drive: &SyncDrive, start: u64, mut slices: &mut [IoSliceMut<'_>]) -> Result<(), Trouble> {
    let mut done = 0;
    while !slices.is_empty() {
        let count = slices.len().min(PIECES_MAX);
        let moved = patiently(|| preadv(drive.file(), &mut slices[..count], start + done as u64))?;
        // Direct I/O continues at whole blocks only.
        let moved = moved - moved % drive.alignment().1;
        if moved == 0 {
            return Err(Trouble::End(done));
        }
        done += moved;
        IoSliceMut::advance_slices(&mut slices, moved);
    }
    Ok(())
}

fn write(drive: &SyncDrive, start: u64, from: &[Data], fua: bool) -> Result<(), Trouble> {
    if from.iter().all(|data| is_aligned(drive, data)) {
        let mut slices: Vec<IoSlice<'_>> = from.iter().map(|data| IoSlice::new(data)).collect();
        return write_slices(drive, start, &mut slices, fua);
    }
    let mut bounce = Buffer::zeroed(from.iter().map(|data| data.len()).sum());
    let mut rest = &mut bounce[..];
    for data in from {
        let (front, back) = rest.split_at_mut(data.len());
        front.copy_from_slice(data);
        rest = back;
    }
    write_slices(drive, start, &mut [IoSlice::new(&bounce)], fua)
}

fn write_slices(drive: &SyncDrive, start: u64, mut slices: &mut [IoSlice<'_>], fua: bool) -> Result<(), Trouble> {
    // Through the page cache, and on a file system with a server, the flush is a call of its own, so that its error is known from
    // that of the write: such a server may find only then that it has no space for what it took before.
    let by_write = fua && drive.info().direct && drive.waits() != Waits::Untold;
    let flags = if by_write { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    let (mut done, mut retries) = (0, 0);
    while !slices.is_empty() {
        let count = slices.len().min(PIECES_MAX);
        let call = by_write.then(|| drive.begin_reported());
        let moved = patiently(|| pwritev2(drive.file(), &slices[..count], start + done as u64, flags)).inspect_err(|&errno| {
            drive.count_write(by_write, errno);
        })?;
        drop(call);
        let moved = moved - moved % drive.alignment().1;
        if moved == 0 {
            retries += 1;
            if retries > RETRIES_MAX {
                return Err(Trouble::End(done));
            }
            continue;
        }
        retries = 0;
        done += moved;
        IoSlice::advance_slices(&mut slices, moved);
    }
    if fua && !by_write {
        flush(drive)?;
    }
    Ok(())
}

fn free(drive: &SyncDrive, flags: FallocateFlags, start: u64, len: u64) -> Result<(), Errno> {
    fallocate(drive.file(), flags | FallocateFlags::KEEP_SIZE, start, len)
}

/// Writes zeros in the quickest way that the request allows: by a hole, by a command, or by writing them.
fn zero(drive: &SyncDrive, start: u64, len: u64, fua: bool, unmap: bool, fast: bool) -> Result<(), Trouble> {
    let info = drive.info();
    // On block devices without a command for it the kernel would write the zeros itself.
    let by_command = info.kind == DriveKind::File || !fast || info.zeroes_command;
    let ways = [
        (unmap && info.limits.unmap_zeroes).then_some(FallocateFlags::PUNCH_HOLE),
        by_command.then_some(FallocateFlags::ZERO_RANGE),
    ];
    for flags in ways.into_iter().flatten() {
        match patiently(|| free(drive, flags, start, len)) {
            Ok(()) if fua => return Ok(flush(drive)?),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            outcome => return Ok(outcome?),
        }
    }
    if fast {
        return Err(Trouble::Slow);
    }
    let zeros = Data::zeros(usize::try_from(len).unwrap_or(usize::MAX).min(BOUNCE_BYTES_MAX));
    let mut done = 0;
    while done < len {
        let part = (len - done).min(zeros.len() as u64);
        write_slices(drive, start + done, &mut [IoSlice::new(&zeros[..part as usize])], fua)?;
        done += part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use std::os::fd::AsRawFd;

    /// The kernel may have reported with it that it has lost other writes, and reports that once.
    #[test]
    fn a_fua_write_that_fails_counts_as_a_flush_that_failed() {
        let memory = memfd_create("drive", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, 1 << 20).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let write = |drive: &SyncDrive, fua| {
            let operation = Operation::Write { from: std::iter::once(Data::zeros(4096)).collect(), fua };
            let mut request = Request { tag: 1, start_sector: 0, sectors: 8, operation };
            carry_out(drive, &mut request)
        };
        let counts = |drive: &SyncDrive| {
            [false, true].map(|fua| {
                write(drive, fua).unwrap_err();
                drive.failed_flushes()
            })
        };
        let drive = SyncDrive::open(path.as_ref(), Access::Exclusive).unwrap();
        write(&drive, true).unwrap();
        fcntl_add_seals(&memory, SealFlags::FUTURE_WRITE).unwrap();
        assert_eq!(counts(&drive), [0, 0], "it was refused before anything was sent");
        drop(drive);
        let drive = || SyncDrive::open(path.as_ref(), Access::ReadOnly).unwrap();
        let by_write = u64::from(drive().info().direct);
        assert_eq!(counts(&drive()), [0, by_write], "through the page cache its flush was not sent");
        assert_eq!(counts(&drive().that_waits(Waits::Untold)), [0, 0], "nor beside a server");
    }
}
