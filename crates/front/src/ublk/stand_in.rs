//! A queue of ublk without its driver, for measurements on machines whose kernel has none.
//!
//! A file in memory stands where the driver is. The queue's code and its system calls are those that it has with the driver: one
//! `io_uring_enter` for each turn, one `pread` or `pwrite` for the data of each request. What the kernel does in them is not the
//! same: the file copies data as the driver does, but refuses every command of the ring. A refusal counts as the arrival of the
//! tag's next request, so that each tag always has one.

use super::kernel::KernelPort;
use super::lane_client::{Crew, CrewMember, Driver, QueueClient};
use super::queue::{Copier, Port, Queue};
use super::uapi::{Descriptor, data_position, io as result_of, operation};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use stria_block::{Buffer, LaneClient, Limits, SECTOR_BYTES};

/// The request that every tag repeats: a read or a write of a fixed length, each tag at a position of its own.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Whether it writes.
    pub write: bool,
    /// Its length, a multiple of 512.
    pub bytes: u32,
}

/// A queue whose `depth` tags each have a request at all times. `start_sector`: where a tag's requests lie.
///
/// # Errors
/// When the system refuses what it needs.
pub fn queue(limits: &Limits, depth: u16, ask: Ask, start_sector: impl Fn(u16) -> u64) -> io::Result<Box<dyn LaneClient>> {
    let port = StandIn::open(depth, ask, start_sector)?;
    let queue = Queue::new(limits.clone(), ask.bytes, depth, false);
    Ok(Box::new(QueueClient::new("stand-in".into(), queue, port, CrewMember::take(&Arc::<Crew>::default()))?))
}

/// The system calls of a turn of such a queue, and nothing else: what the queue's own code costs is the difference.
///
/// # Errors
/// When the system refuses what they need.
pub fn system_calls(depth: u16, ask: Ask) -> io::Result<impl FnMut() -> io::Result<()>> {
    let mut port = StandIn::open(depth, ask, |_| 0)?;
    let mut data = vec![0; ask.bytes as usize];
    port.begin()?;
    Ok(move || {
        for tag in 0..depth {
            match ask.write {
                true => port.take_data(tag, &mut data)?,
                false => port.give_data(tag, 0, &data)?,
            }
            port.commit(tag, 0);
        }
        port.turn(|_, _, _| Ok::<_, io::Error>(()))
    })
}

/// The file in place of the driver.
struct StandIn {
    port: KernelPort,
    /// Tags whose command was refused. Empty between two turns.
    refused: Vec<u64>,
}

impl StandIn {
    fn open(depth: u16, ask: Ask, start_sector: impl Fn(u16) -> u64) -> io::Result<Self> {
        let file = File::from(memfd_create("ublk", MemfdFlags::CLOEXEC)?);
        let (operation, sectors) = (if ask.write { operation::WRITE } else { operation::READ }, ask.bytes / SECTOR_BYTES as u32);
        for tag in 0..depth {
            let fields = [&operation.to_ne_bytes()[..], &sectors.to_ne_bytes(), &start_sector(tag).to_ne_bytes(), &[0; 8]];
            file.write_all_at(&fields.concat(), u64::from(tag) * Descriptor::BYTES as u64)?;
            file.write_all_at(&vec![0; ask.bytes as usize], data_position(0, tag, 0))?;
        }
        Ok(Self { port: KernelPort::open(&Arc::new(file), 0, depth, Copier::Server)?, refused: Vec::new() })
    }
}

impl Port for StandIn {
    fn copier(&self) -> Copier {
        self.port.copier()
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        self.port.descriptor(tag)
    }

    fn take_data(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        self.port.take_data(tag, into)
    }

    fn give_data(&self, tag: u16, at: usize, from: &[u8]) -> io::Result<()> {
        self.port.give_data(tag, at, from)
    }

    fn ask_data(&mut self, tag: u16, into: Buffer) {
        self.port.ask_data(tag, into);
    }

    fn asked_data(&mut self, tag: u16) -> Option<Buffer> {
        self.port.asked_data(tag)
    }

    fn commit_read(&mut self, tag: u16, result: i32, from: Buffer) {
        self.port.commit_read(tag, result, from);
    }

    fn returned(&mut self) -> impl Iterator<Item = Buffer> {
        self.port.returned()
    }

    fn fetch(&mut self, tag: u16) {
        self.port.fetch(tag);
    }

    fn commit(&mut self, tag: u16, result: i32) {
        self.port.commit(tag, result);
    }
}

impl Driver for StandIn {
    fn readiness(&self) -> io::Result<OwnedFd> {
        self.port.readiness()
    }

    fn begin(&self) -> io::Result<()> {
        self.port.begin()
    }

    fn turn<E: From<io::Error>>(&mut self, mut arrived: impl FnMut(&mut Self, u64, i32) -> Result<(), E>) -> Result<(), E> {
        let mut refused = std::mem::take(&mut self.refused);
        self.port.turn(|_, tag, result| {
            assert_eq!(result, -Errno::OPNOTSUPP.raw_os_error(), "a file in memory takes no commands");
            refused.push(tag);
            Ok::<_, E>(())
        })?;
        let outcome = refused.drain(..).try_for_each(|tag| arrived(self, tag, result_of::ARRIVED));
        self.refused = refused;
        outcome
    }

    fn is_due(&mut self) -> bool {
        self.port.is_due()
    }
}
