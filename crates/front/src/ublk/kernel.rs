//! The system calls of ublk: control commands, and a queue's ring with the memory that it shares with the driver.
//!
//! All `unsafe` of this crate is here. Where the server copies data, a queue's entries name no memory of this process; a control
//! command does, whose buffer is the waiting thread's own. Where the driver copies, the memory that entries name is this port's
//! ([`Lent`]) until the driver has finished with it. Descriptors are mapped read-only and copied before they are checked, so that
//! later changes by the kernel have no effect.
#![allow(unsafe_code)]

use super::lane_client::Driver;
use super::queue::{Copier, Port};
use super::uapi::{CONTROL_PATH, ControlCommand, Descriptor, IoCommand, data_position, io as command};
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::{Pid, gettid};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fs, thread};
use stria_block::Buffer;

/// The completion that ends a watch of the ring. Tags are smaller.
const LAST: u64 = u64::MAX;
/// The time between two looks at a thread that ends.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Gives a command to the driver and waits for its end, which some commands reach only after I/O. `buffer`: what the driver
/// reads or fills.
///
/// # Errors
/// What the driver answers, or why it cannot be asked.
pub(super) fn control(number: u32, command: ControlCommand, buffer: &mut [u8]) -> io::Result<()> {
    let driver = File::options().read(true).write(true).open(CONTROL_PATH)?;
    let mut uring: IoUring<squeue::Entry128, cqueue::Entry> = IoUring::builder().dontfork().build(2)?;
    let command = command.encode(buffer.as_mut_ptr() as u64, u16::try_from(buffer.len()).expect("a small structure"));
    let entry = opcode::UringCmd80::new(Fd(driver.as_raw_fd()), number).cmd(command).build();
    // SAFETY: the buffer and the file live until this function returns, which it does only once the driver has answered.
    unsafe { uring.submission().push(&entry) }.expect("an empty ring has space");
    let result = loop {
        match uring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) => {}
            // The ring's descriptor is ours and open, so this does not happen. The driver may use the buffer: it must not be
            // freed.
            Err(error) => panic!("io_uring fails while a ublk command is under way: {error}"),
        }
        if let Some(completion) = uring.completion().next() {
            break completion.result();
        }
    };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// A queue's descriptors, in memory of the driver.
struct Descriptors {
    start: NonNull<u8>,
    count: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only read.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn map(device: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let count = usize::from(depth);
        let offset = Descriptor::offset_of(queue, rustix::param::page_size());
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), count * Descriptor::BYTES, ProtFlags::READ, flags, device, offset) }?;
        Ok(Self { start: NonNull::new(start.cast()).expect("a mapping is not at 0"), count })
    }

    fn get(&self, tag: u16) -> Descriptor {
        let index = usize::from(tag);
        assert!(index < self.count, "tag {tag} of {}", self.count);
        // SAFETY: within the mapping, and any bytes are a valid array. The driver wrote them before it completed the tag's fetch.
        let bytes =
            unsafe { self.start.as_ptr().add(index * Descriptor::BYTES).cast::<[u8; Descriptor::BYTES]>().read_volatile() };
        Descriptor::decode(&bytes)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * Descriptor::BYTES) };
    }
}

/// A queue of a device, as its driver offers it. One thread uses it, from [`Driver::begin`] on.
pub(super) struct KernelPort {
    /// Taken when the port is dropped, not before.
    uring: ManuallyDrop<IoUring>,
    /// The thread that uses it.
    thread: OnceLock<Pid>,
    /// Tags that the driver has given up: it does so once the device is stopped.
    aborted: usize,
    descriptors: Descriptors,
    device: Arc<File>,
    queue: u16,
    copier: Copier,
    lent: Lent,
    /// Empty between two turns.
    completed: Vec<(u64, i32)>,
}

/// Memory into or out of which the driver copies.
struct Lent {
    /// For the data of writes, by tag, until the driver completes the tag. The driver may fill it at any time before.
    writes: Vec<Option<Buffer>>,
    /// The data of reads, until the kernel has taken their entries: the driver copies while it takes them.
    reads: Vec<Buffer>,
    /// What was in `reads`, for the queue.
    returned: Vec<Buffer>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A queue that gives up receives nothing from the driver any more, so memory that the driver may still fill is never used
        // again.
        self.writes.drain(..).flatten().for_each(std::mem::forget);
    }
}

impl KernelPort {
    /// Opens a queue, on any thread. `device`: the character device.
    ///
    /// # Errors
    /// When there is no io_uring (Linux 6.1, which ublk's own features exceed), or no memory for it.
    pub fn open(device: &Arc<File>, queue: u16, depth: u16, copier: Copier) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_r_disabled().dontfork();
        // Each tag has one entry at most, and there is one more at the end.
        let uring = builder.setup_cqsize(2 * u32::from(depth)).build(u32::from(depth) + 1)?;
        let descriptors = Descriptors::map(device, queue, depth)?;
        let writes = (0..depth).map(|_| None).collect();
        let lent = Lent { writes, reads: Vec::new(), returned: Vec::new() };
        Ok(Self {
            uring: ManuallyDrop::new(uring),
            thread: OnceLock::new(),
            aborted: 0,
            descriptors,
            device: Arc::clone(device),
            queue,
            copier,
            lent,
            completed: Vec::new(),
        })
    }

    /// `address`: 0, or that of memory which `lent` stores, long enough for the tag's request.
    fn push(&mut self, number: u32, tag: u16, result: i32, address: u64) {
        let command = IoCommand { queue: self.queue, tag, result, address }.encode();
        let entry = opcode::UringCmd16::new(Fd(self.device.as_raw_fd()), number).cmd(command).build();
        // SAFETY: the memory stays until the driver has finished with it (see `Lent`), and the file lives as long as the ring.
        unsafe { self.uring.submission().push(&entry.user_data(tag.into())) }.expect("the ring has an entry for each tag");
    }
}

impl Driver for KernelPort {
    fn readiness(&self) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor is open as long as the ring lives, which this call does not outlast.
        unsafe { BorrowedFd::borrow_raw(self.uring.as_raw_fd()) }.try_clone_to_owned()
    }

    fn begin(&self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()?;
        self.thread.get_or_init(gettid);
        // When memory is short, the kernel must not make the thread that serves this device wait for writes to it. Only root may
        // ask for that, and only root has ublk devices with user copy.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        Ok(())
    }

    fn turn<E: From<io::Error>>(&mut self, mut arrived: impl FnMut(&mut Self, u64, i32) -> Result<(), E>) -> Result<(), E> {
        let submission = self.uring.submission();
        let needs_kernel = !submission.is_empty() || submission.taskrun();
        drop(submission);
        if needs_kernel {
            match self.uring.submitter().submit_and_wait(0) {
                Ok(_) => {}
                // Entries stay queued for the next turn.
                Err(error)
                    if matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOMEM)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.uring.submission().is_empty() {
            self.lent.returned.append(&mut self.lent.reads);
        }
        let mut completed = std::mem::take(&mut self.completed);
        completed.extend(self.uring.completion().map(|completion| (completion.user_data(), completion.result())));
        let outcome = completed.drain(..).try_for_each(|(tag, result)| {
            self.aborted += usize::from(result == command::ABORTED);
            arrived(self, tag, result)
        });
        self.completed = completed;
        outcome
    }

    fn is_due(&mut self) -> bool {
        let submission = self.uring.submission();
        !submission.is_empty() || submission.taskrun()
    }
}

impl Port for KernelPort {
    fn copier(&self) -> Copier {
        self.copier
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptors.get(tag)
    }

    fn take_data(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(into, data_position(self.queue, tag, 0))
    }

    fn give_data(&self, tag: u16, at: usize, from: &[u8]) -> io::Result<()> {
        self.device.write_all_at(from, data_position(self.queue, tag, at))
    }

    fn ask_data(&mut self, tag: u16, mut into: Buffer) {
        let address = into.as_mut_ptr() as u64;
        self.lent.writes[usize::from(tag)] = Some(into);
        self.push(command::GET_DATA, tag, 0, address);
    }

    fn asked_data(&mut self, tag: u16) -> Option<Buffer> {
        self.lent.writes[usize::from(tag)].take()
    }

    fn commit_read(&mut self, tag: u16, result: i32, from: Buffer) {
        let address = from.as_ptr() as u64;
        self.lent.reads.push(from);
        self.push(command::COMMIT_AND_FETCH, tag, result, address);
    }

    fn returned(&mut self) -> impl Iterator<Item = Buffer> {
        self.lent.returned.drain(..)
    }

    fn fetch(&mut self, tag: u16) {
        self.push(command::FETCH, tag, 0, 0);
    }

    fn commit(&mut self, tag: u16, result: i32) {
        let address = match self.copier {
            // In copy mode the driver wants an address even for a read that has failed, and does not use it. Descriptors are
            // mapped such that the kernel can copy neither into nor out of them.
            Copier::Driver => self.descriptors.start.as_ptr() as u64,
            Copier::Server => 0,
        };
        self.push(command::COMMIT_AND_FETCH, tag, result, address);
    }
}

impl Drop for KernelPort {
    fn drop(&mut self) {
        // The submission gives the driver the results that are left. The completion of the no-op stays in the ring and makes it
        // readable. So the lane that watches the ring wakes, and lets go of it. The ring refuses a submission from any other
        // thread. No lane watches such a ring.
        // SAFETY: the entry names no memory.
        let _ = unsafe { self.uring.submission().push(&opcode::Nop::new().build().user_data(LAST)) };
        let _ = self.uring.submit();
        // SAFETY: the last use of the field.
        let uring = unsafe { ManuallyDrop::take(&mut self.uring) };
        match self.thread.get() {
            Some(thread) if self.aborted < self.descriptors.count => close_after(*thread, uring),
            _ => drop(uring),
        }
    }
}

/// Closes a ring after the end of the thread that used it.
///
/// The driver aborts the requests of a ring that is closed. Those that it had sent on their way before wait in the ring for that
/// thread. If they find it alive, they arrive at a ring that nobody reads any more, and are neither answered nor aborted: the
/// device is lost until the next boot (Linux 6.12). If they find it ended, the next server gets them.
fn close_after(thread: Pid, ring: impl Send + 'static) {
    let ring = ManuallyDrop::new(ring);
    let close = move || {
        while fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(true) {
            thread::sleep(LOOK_AGAIN);
        }
        drop(ManuallyDrop::into_inner(ring));
    };
    // If the system gives no thread, the ring is closed at the end of the process.
    let _ = thread::Builder::new().name("ublk-close".into()).stack_size(64 << 10).spawn(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::os::fd::RawFd;
    use std::sync::mpsc::{Sender, channel};

    const DEPTH: u16 = 4;

    /// Gives up a queue on a thread that stays until told to end.
    fn give_up() -> (RawFd, Sender<()>, thread::JoinHandle<()>) {
        let (told, given_up) = channel();
        let (end, ends) = channel();
        let thread = thread::spawn(move || {
            let device = File::from(memfd_create("ublk", MemfdFlags::CLOEXEC).expect("a file"));
            device.set_len(1 << 20).expect("space");
            let port = KernelPort::open(&Arc::new(device), 0, DEPTH, Copier::Server).expect("a queue");
            port.begin().expect("a ring");
            let descriptor = port.uring.as_raw_fd();
            drop(port);
            told.send(descriptor).expect("the test waits");
            let _ = ends.recv();
        });
        (given_up.recv().expect("it gives up"), end, thread)
    }

    /// True if the descriptor is that of a ring. Other tests may open one with its number after its end.
    fn is_open(descriptor: RawFd) -> bool {
        fs::read_link(format!("/proc/self/fd/{descriptor}")).is_ok_and(|link| link.to_string_lossy().contains("io_uring"))
    }

    #[test]
    fn a_ring_that_is_given_up_stays_open_as_long_as_its_thread_lives() {
        let (descriptor, end, thread) = give_up();
        thread::sleep(5 * LOOK_AGAIN);
        assert!(is_open(descriptor), "its thread lives");
        end.send(()).expect("it waits");
        thread.join().expect("it ends");
    }

    #[test]
    fn what_waits_for_a_thread_is_closed_once_it_has_ended() {
        let (told, is_told) = channel();
        struct Ring(Sender<()>);
        impl Drop for Ring {
            fn drop(&mut self) {
                self.0.send(()).expect("the test waits");
            }
        }
        let (end, ends) = channel::<()>();
        let thread = thread::spawn(move || {
            close_after(gettid(), Ring(told));
            let _ = ends.recv();
        });
        assert!(is_told.recv_timeout(5 * LOOK_AGAIN).is_err(), "its thread lives");
        end.send(()).expect("it waits");
        thread.join().expect("it ends");
        is_told.recv().expect("it is closed");
    }
}
