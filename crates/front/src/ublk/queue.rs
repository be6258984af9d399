//! One queue of a ublk device as a state machine: requests of the kernel in, requests to the array out; completions in, results
//! out.
//!
//! ```text
//!            ┌──────────────── fetch, commit ◄──────────────────┐
//!            ▼                                                  │
//!   tag: Kernel ──────── arrived ────────► Device ──complete── result
//!            └─needs data─► Asked ─arrived──┘               Kernel, Asked ──aborted──► Gone
//! ```
//! The data of a request is copied by the server ([`Port::take_data`], [`Port::give_data`]), or by the driver: then a write is
//! asked for its data first ([`Port::ask_data`]), and a read's data goes with its result ([`Port::commit_read`]).
//!
//! It has no ring, file or clock: [`Port`] is the driver's side, which tests play in memory. A request exists once at most: its
//! tag is with the kernel or with the device. A tag's request is checked like any client's, since an error of the kernel must not
//! cause a wrong write.

use super::uapi::{Descriptor, io as result_of, operation};
use smallvec::{SmallVec, smallvec};
use std::io;
use stria_block::{Buffer, Completion, ErrorKind, Limits, Operation, Pool, Request, SECTOR_BYTES};

/// The side that copies between a request's pages and the server's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copier {
    /// The driver, when it takes a command of the server (copy mode): the copy needs no system call.
    Driver,
    /// The server, by `pread` and `pwrite` (user copy).
    Server,
}

/// The driver's side of a queue.
pub(crate) trait Port {
    /// The side that copies data.
    fn copier(&self) -> Copier;

    /// The request that arrived with this tag.
    fn descriptor(&self, tag: u16) -> Descriptor;

    /// Server: fills `into` with the data of a write.
    ///
    /// # Errors
    /// When the driver refuses.
    fn take_data(&self, tag: u16, into: &mut [u8]) -> io::Result<()>;

    /// Server: gives a part of the data of a read, which belongs `at` this byte of the request.
    ///
    /// # Errors
    /// When the driver refuses.
    fn give_data(&self, tag: u16, at: usize, from: &[u8]) -> io::Result<()>;

    /// Driver: lends the memory for the data of a write, which arrives once the memory is filled.
    fn ask_data(&mut self, tag: u16, into: Buffer);

    /// Driver: the memory that was lent for the write that has arrived.
    fn asked_data(&mut self, tag: u16) -> Option<Buffer>;

    /// Driver: as [`Port::commit`], and lends the data of a read.
    fn commit_read(&mut self, tag: u16, result: i32, from: Buffer);

    /// Driver: the memory of reads whose data the driver has copied.
    fn returned(&mut self) -> impl Iterator<Item = Buffer>;

    /// Asks for the tag's first request.
    fn fetch(&mut self, tag: u16);

    /// Ends the tag's request with a count of bytes or a negative error number, and asks for the next one.
    fn commit(&mut self, tag: u16, result: i32);
}

/// The driver broke its own rules, and the queue is given up.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Broken {
    #[error("the ublk driver completed tag {0}, which it did not have")]
    Tag(u64),
    #[error("the ublk driver refused to fetch: error {0}")]
    Fetch(i32),
}

/// Error numbers that the driver passes on to the block layer (`errno.h`).
mod errno {
    pub const EIO: i32 = -5;
    pub const EINVAL: i32 = -22;
    pub const ENOSPC: i32 = -28;
    pub const EROFS: i32 = -30;
    pub const EOPNOTSUPP: i32 = -95;
}

/// The state of a tag's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The driver will bring one.
    Kernel,
    /// The driver fills memory with the data of a write, which will arrive.
    Asked,
    /// The array works on one with this many bytes of data.
    Device { bytes: u32 },
    /// The device is being stopped, or the next server gets the request.
    Gone,
}

/// The work of a queue so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub requests: u64,
    pub errors: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// One queue.
pub(crate) struct Queue {
    limits: Limits,
    io_bytes_max: u32,
    read_only: bool,
    /// By tag.
    slots: Vec<Slot>,
    pool: Pool,
    at_device: usize,
    gone: usize,
    counters: Counters,
}

impl Queue {
    /// A queue of `depth` tags, for a device with these limits. `io_bytes_max`: the largest read or write, as the driver knows
    /// it.
    pub fn new(limits: Limits, io_bytes_max: u32, depth: u16, read_only: bool) -> Self {
        let slots = vec![Slot::Kernel; usize::from(depth)];
        Self {
            limits,
            io_bytes_max,
            read_only,
            slots,
            pool: Pool::default(),
            at_device: 0,
            gone: 0,
            counters: Counters::default(),
        }
    }

    /// Asks for the first request of every tag.
    pub fn begin(&self, port: &mut impl Port) {
        (0..self.slots.len() as u16).for_each(|tag| port.fetch(tag));
    }

    /// The driver has completed a fetch. A request is added to `requests`, or answered if it is refused.
    ///
    /// # Errors
    /// When the driver breaks its own rules.
    pub fn arrived(&mut self, port: &mut impl Port, tag: u64, result: i32, requests: &mut Vec<Request>) -> Result<(), Broken> {
        let slot = usize::try_from(tag).ok().and_then(|tag| self.slots.get_mut(tag));
        let slot = slot.filter(|slot| matches!(slot, Slot::Kernel | Slot::Asked)).ok_or(Broken::Tag(tag))?;
        let before = std::mem::replace(slot, Slot::Kernel);
        let tag = tag as u16;
        // Memory that is not used below is freed.
        let lent = if before == Slot::Asked { port.asked_data(tag) } else { None };
        match result {
            result_of::ARRIVED => {}
            result_of::NEEDS_DATA if before == Slot::Kernel && port.copier() == Copier::Driver => {
                match self.bytes_of(&port.descriptor(tag)) {
                    Some(bytes) => {
                        port.ask_data(tag, self.pool.take(bytes as usize));
                        self.slots[usize::from(tag)] = Slot::Asked;
                    }
                    None => self.refuse(port, tag, errno::EINVAL),
                }
                return Ok(());
            }
            result_of::ABORTED => {
                *slot = Slot::Gone;
                self.gone += 1;
                return Ok(());
            }
            error => return Err(Broken::Fetch(error)),
        }
        let descriptor = port.descriptor(tag);
        match self.examine(port, tag, &descriptor, lent) {
            Ok((operation, bytes)) => {
                self.slots[usize::from(tag)] = Slot::Device { bytes };
                self.at_device += 1;
                let is_flush = matches!(operation, Operation::Flush);
                let (start_sector, sectors) = if is_flush { (0, 0) } else { (descriptor.start_sector, descriptor.sectors) };
                requests.push(Request { tag: u64::from(tag), start_sector, sectors: sectors.into(), operation });
            }
            Err(error) => self.refuse(port, tag, error),
        }
        Ok(())
    }

    fn refuse(&mut self, port: &mut impl Port, tag: u16, error: i32) {
        self.counters.requests += 1;
        self.counters.errors += 1;
        port.commit(tag, error);
    }

    /// How many bytes of data a read or a write moves, if that many are allowed.
    fn bytes_of(&self, descriptor: &Descriptor) -> Option<u32> {
        descriptor.sectors.checked_mul(SECTOR_BYTES as u32).filter(|bytes| (1..=self.io_bytes_max).contains(bytes))
    }

    /// The operation that a descriptor asks for, and how many bytes of data it moves; or the error with which it is refused.
    /// `lent`: what the driver has filled with the data of a write.
    fn examine(
        &mut self,
        port: &impl Port,
        tag: u16,
        descriptor: &Descriptor,
        lent: Option<Buffer>,
    ) -> Result<(Operation, u32), i32> {
        let fua = descriptor.operation & operation::FUA != 0;
        let kind = descriptor.operation & operation::MASK;
        if kind == operation::FLUSH {
            return Ok((Operation::Flush, 0));
        }
        if self.read_only && kind != operation::READ {
            return Err(errno::EROFS);
        }
        // The device checks this too. Here it bounds the memory that is taken.
        let end = descriptor.start_sector.checked_add(descriptor.sectors.into());
        if descriptor.sectors == 0 || end.is_none_or(|end| end > self.limits.size_sectors) {
            return Err(errno::EINVAL);
        }
        let bytes = self.bytes_of(descriptor).ok_or(errno::EINVAL);
        match kind {
            operation::READ => {
                let bytes = bytes?;
                Ok((Operation::Read { into: smallvec![self.pool.take(bytes as usize)] }, bytes))
            }
            operation::WRITE if port.copier() == Copier::Driver => {
                let bytes = bytes?;
                // Where memory is short, the driver may copy less than it asked for, and sends the rest as a request of its own.
                let lent = lent.filter(|lent| lent.len() >= bytes as usize).ok_or(errno::EIO)?;
                Ok((Operation::Write { from: smallvec![lent.freeze().slice(0, bytes as usize)], fua }, bytes))
            }
            operation::WRITE => {
                let bytes = bytes?;
                let mut buffer = self.pool.take(bytes as usize);
                if let Err(error) = port.take_data(tag, &mut buffer) {
                    log::error!("ublk: the data of a write of {bytes} bytes could not be fetched: {error}");
                    self.pool.give(buffer);
                    return Err(errno::EIO);
                }
                Ok((Operation::Write { from: smallvec![buffer.freeze()], fua }, bytes))
            }
            operation::DISCARD if self.limits.discard_granularity_bytes > 0 => {
                Ok((Operation::WriteZeroes { fua: false, unmap: true, fast: false }, 0))
            }
            operation::WRITE_ZEROES => {
                let unmap = descriptor.operation & operation::NO_UNMAP == 0;
                Ok((Operation::WriteZeroes { fua, unmap, fast: false }, 0))
            }
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// A request has ended.
    ///
    /// # Panics
    /// When the device ends what it does not have.
    pub fn complete(&mut self, port: &mut impl Port, completion: Completion) {
        let tag = completion.tag as u16;
        let slot = std::mem::replace(&mut self.slots[usize::from(tag)], Slot::Kernel);
        let Slot::Device { bytes } = slot else { panic!("tag {tag} is {slot:?}, not at the device") };
        self.at_device -= 1;
        self.counters.requests += 1;
        let mut result = match completion.result {
            Ok(()) => bytes as i32,
            Err(error) => match error.kind {
                ErrorKind::NoSpace => errno::ENOSPC,
                ErrorKind::Unsupported => errno::EOPNOTSUPP,
                ErrorKind::Invalid => errno::EINVAL,
                ErrorKind::Medium | ErrorKind::Gone | ErrorKind::Failed | ErrorKind::Other => errno::EIO,
            },
        };
        match completion.operation {
            Operation::Read { into } if port.copier() == Copier::Driver => {
                self.counters.read_bytes += result.max(0) as u64;
                self.counters.errors += u64::from(result < 0);
                let whole = self.whole(into, bytes as usize);
                return port.commit_read(tag, result, whole);
            }
            Operation::Read { into } => {
                let mut at = 0;
                for buffer in into {
                    if result >= 0
                        && let Err(error) = port.give_data(tag, at, &buffer)
                    {
                        log::error!("ublk: the data of a read of {bytes} bytes could not be delivered: {error}");
                        result = errno::EIO;
                    }
                    at += buffer.len();
                    self.pool.give(buffer);
                }
                self.counters.read_bytes += result.max(0) as u64;
            }
            Operation::Write { from, .. } => {
                for data in from {
                    self.pool.give_claim(data.into_claim());
                }
                self.counters.written_bytes += result.max(0) as u64;
            }
            Operation::Flush | Operation::Extents { .. } | Operation::WriteZeroes { .. } => {}
        }
        self.counters.errors += u64::from(result < 0);
        port.commit(tag, result);
    }

    /// A request has ended without an answer for the driver, which gives it to the next server.
    ///
    /// # Panics
    /// When the device ends what it does not have.
    pub fn abandon(&mut self, completion: Completion) {
        let slot = std::mem::replace(&mut self.slots[completion.tag as usize], Slot::Gone);
        assert!(matches!(slot, Slot::Device { .. }), "tag {} is {slot:?}, not at the device", completion.tag);
        self.at_device -= 1;
        self.gone += 1;
    }

    /// The driver has completed a fetch of a queue that takes no more requests. It has finished with the memory that was lent for
    /// the tag.
    pub fn leave_to_next(&mut self, port: &mut impl Port, tag: u64) {
        let tag = u16::try_from(tag).ok().filter(|tag| self.slots.get(usize::from(*tag)) == Some(&Slot::Asked));
        if let Some(tag) = tag {
            self.slots[usize::from(tag)] = Slot::Kernel;
            drop(port.asked_data(tag));
        }
    }

    /// The pieces of a read in one piece of memory.
    fn whole(&mut self, mut pieces: SmallVec<[Buffer; 1]>, bytes: usize) -> Buffer {
        if pieces.len() == 1 {
            return pieces.remove(0);
        }
        let (mut whole, mut at) = (self.pool.take(bytes), 0);
        for piece in pieces {
            whole[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
            self.pool.give(piece);
        }
        whole
    }

    /// Takes back memory with which the driver has finished.
    pub fn collect(&mut self, port: &mut impl Port) {
        port.returned().for_each(|buffer| self.pool.give(buffer));
    }

    /// Requests that the device has.
    pub fn at_device(&self) -> usize {
        self.at_device
    }

    /// True if the driver brings no more requests, and none is left.
    pub fn is_over(&self) -> bool {
        self.gone == self.slots.len()
    }

    /// True if memory is stored for the next request.
    pub fn keeps_warm(&self) -> bool {
        self.at_device == 0 && self.pool.kept_bytes() > 0
    }

    /// Returns the memory that an idle queue does not need.
    pub fn cool(&mut self) {
        self.pool = Pool::default();
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
