//! A virtual machine without one: a front-end of vhost-user-blk, and a driver that plays its side of the rings in memory.
//!
//! The memory has a hole, as that of real machines. The driver is as plain as can be: a request takes three descriptors of its
//! own, and tests may write whatever they like into the rings. The memory for requests in flight outlives a server, as QEMU's.

use rustix::fs::MemfdFlags;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserInflight};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Kinds of requests (linux/virtio_blk.h).
pub const READ: u32 = 0;
/// As above.
pub const WRITE: u32 = 1;
/// As above.
pub const FLUSH: u32 = 4;
/// As above.
pub const GET_ID: u32 = 8;
/// As above.
pub const DISCARD: u32 = 11;
/// As above.
pub const WRITE_ZEROES: u32 = 13;
/// Feature bits.
pub const CONFIG_WCE: u64 = 1 << 11;
/// As above.
pub const EVENT_INDEX: u64 = 1 << 29;
/// As above.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Descriptors of a queue.
pub const QUEUE_SIZE: u16 = 128;
/// Requests of a queue at a time.
pub const SLOTS: u16 = QUEUE_SIZE / 3;
/// The most data of a request.
pub const DATA_BYTES: usize = 64 << 10;
/// Memory of a queue: rings, then requests. The data of the last ones lies behind the hole.
const QUEUE_BYTES: u64 = 4 << 20;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x4000;
const REQUESTS: u64 = 0x1_0000;
const MEMORY_BYTES: u64 = 16 << 20;
/// Where the memory is interrupted, in the file and in what a guest sees.
const HOLE_AT: u64 = MEMORY_BYTES / 2;
const HOLE_BYTES: u64 = 1 << 30;
/// Where the front-end has its memory, for all that the server knows.
const FRONTEND_AT: u64 = 0x7f00_0000_0000;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Queues of the machine.
pub const QUEUES: usize = 2;

/// A virtual machine. Connections come and go, its memory stays.
pub struct Machine {
    file: File,
    /// What the driver sees.
    pub memory: GuestMemoryMmap<()>,
    queues: Vec<Queue>,
    frontend: Option<Frontend>,
    inflight: Option<(VhostUserInflight, File)>,
    /// What the driver acknowledges: of the first server's offer. QEMU keeps that for all later ones.
    pub features: u64,
    is_acknowledged: bool,
    /// Whether the memory for requests in flight is used.
    pub tracks: bool,
}

struct Queue {
    kick: EventFd,
    call: EventFd,
    error: EventFd,
    /// Next position in the available ring.
    available: u16,
    /// Next position in the used ring.
    used: u16,
    free: Vec<u16>,
    /// The status with which each request ended, by slot.
    ended: Vec<Option<u8>>,
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK).expect("an eventfd")
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A machine that is connected to nothing.
    ///
    /// # Panics
    /// When the system has no memory for it, as all functions here when something does not work.
    pub fn new() -> Self {
        let file = File::from(rustix::fs::memfd_create("machine", MemfdFlags::CLOEXEC).expect("a memfd"));
        file.set_len(MEMORY_BYTES).expect("memory");
        let part = |guest: u64, offset: u64, len: u64| {
            let file = FileOffset::new(file.try_clone().expect("a handle"), offset);
            (GuestAddress(guest), len as usize, Some(file))
        };
        let memory = GuestMemoryMmap::from_ranges_with_files([
            part(0, 0, HOLE_AT),
            part(HOLE_AT + HOLE_BYTES, HOLE_AT, MEMORY_BYTES - HOLE_AT),
        ]);
        let queue = || Queue {
            kick: event(),
            call: event(),
            error: event(),
            available: 0,
            used: 0,
            free: (0..SLOTS).rev().collect(),
            ended: vec![None; usize::from(SLOTS)],
        };
        Self {
            memory: memory.expect("memory"),
            file,
            queues: (0..QUEUES).map(|_| queue()).collect(),
            frontend: None,
            inflight: None,
            features: u64::MAX,
            is_acknowledged: false,
            tracks: true,
        }
    }

    /// Connects to a server and starts the queues where they stopped, as QEMU does.
    pub fn connect(&mut self, path: &Path) {
        let begun = Instant::now();
        let mut frontend = loop {
            match Frontend::connect(path, QUEUES as u64) {
                Ok(frontend) => break frontend,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{}: {error}", path.display()),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let offered = frontend.get_features().expect("features");
        assert!(offered & PROTOCOL_FEATURES != 0);
        let protocol = frontend.get_protocol_features().expect("protocol features");
        frontend.set_protocol_features(protocol).expect("they were on offer");
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        assert!(frontend.get_queue_num().expect("a count") >= QUEUES as u64);
        frontend.set_owner().expect("an owner");
        if !std::mem::replace(&mut self.is_acknowledged, true) {
            self.features = self.features & offered | PROTOCOL_FEATURES;
        }
        frontend.set_features(self.features).expect("they were on offer, now or before");
        self.frontend = Some(frontend);
        self.share_memory();
        if self.tracks {
            if self.inflight.is_none() {
                let wanted = VhostUserInflight::new(0, 0, QUEUES as u16, QUEUE_SIZE);
                self.inflight = Some(self.frontend().get_inflight_fd(&wanted).expect("memory for requests in flight"));
            }
            let (inflight, file) = self.inflight.as_ref().expect("it was got");
            let (inflight, fd) = (*inflight, file.as_raw_fd());
            self.frontend().set_inflight_fd(&inflight, fd).expect("it takes its own memory back");
        }
        (0..QUEUES).for_each(|index| self.start(index));
    }

    /// Where a position in the file is seen by the guest.
    fn guest(at: u64) -> u64 {
        if at < HOLE_AT { at } else { at + HOLE_BYTES }
    }

    fn regions(&self) -> [VhostUserMemoryRegionInfo; 2] {
        [(0, HOLE_AT), (HOLE_AT, MEMORY_BYTES - HOLE_AT)].map(|(offset, len)| VhostUserMemoryRegionInfo {
            guest_phys_addr: Self::guest(offset),
            memory_size: len,
            userspace_addr: FRONTEND_AT + offset,
            mmap_offset: offset,
            mmap_handle: self.file.as_raw_fd(),
        })
    }

    /// Tells the server of the memory, all at once.
    pub fn share_memory(&mut self) {
        let regions = self.regions();
        self.frontend().set_mem_table(&regions).expect("memory is taken");
    }

    /// Tells the server that the part behind the hole is gone, or there again.
    pub fn plug(&mut self, plugged: bool) {
        self.plug_part(1, plugged);
    }

    /// Tells the server that the part with the rings is gone, or there again.
    pub fn plug_rings(&mut self, plugged: bool) {
        self.plug_part(0, plugged);
    }

    fn plug_part(&mut self, part: usize, plugged: bool) {
        let region = &self.regions()[part];
        match plugged {
            true => self.frontend().add_mem_region(region).map(|_| ()),
            false => self.frontend().remove_mem_region(region),
        }
        .expect("memory comes and goes");
    }

    /// The connection.
    pub fn frontend(&mut self) -> &mut Frontend {
        self.frontend.as_mut().expect("it is connected")
    }

    fn ring(index: usize) -> u64 {
        index as u64 * QUEUE_BYTES
    }

    /// Sets a queue up and starts it.
    pub fn start(&mut self, index: usize) {
        // As QEMU: what is in the used ring has been taken from the available one.
        let (ring, base) = (Self::ring(index), self.used(index));
        let address = |at| FRONTEND_AT + ring + at;
        let addresses = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: address(0),
            used_ring_addr: address(USED),
            avail_ring_addr: address(AVAILABLE),
            log_addr: None,
        };
        let Self { frontend, queues, .. } = self;
        let (frontend, queue) = (frontend.as_mut().expect("it is connected"), &queues[index]);
        frontend.set_vring_call(index, &queue.call).expect("a call");
        frontend.set_vring_err(index, &queue.error).expect("an error");
        frontend.set_vring_num(index, QUEUE_SIZE).expect("a size");
        frontend.set_vring_base(index, base).expect("a base");
        frontend.set_vring_addr(index, &addresses).expect("addresses");
        frontend.set_vring_kick(index, &queue.kick).expect("a kick");
        frontend.set_vring_enable(index, true).expect("enabled");
    }

    /// Gives a running queue its eventfd for interrupts again, as QEMU does when it has set the device up.
    pub fn set_call(&mut self, index: usize) {
        let Self { frontend, queues, .. } = self;
        let frontend = frontend.as_mut().expect("it is connected");
        frontend.set_vring_call(index, &queues[index].call).expect("a call");
    }

    /// True if the driver has been interrupted since the last look, or is within a second.
    pub fn was_interrupted(&self, index: usize) -> bool {
        Self::sleep(&self.queues[index].call)
    }

    /// Stops a queue; returns where it would go on.
    pub fn stop(&mut self, index: usize) -> u16 {
        self.frontend().get_vring_base(index).expect("a base") as u16
    }

    /// Leaves without a word, as a server's death looks to a front-end.
    pub fn disconnect(&mut self) {
        self.frontend = None;
    }

    /// `len` bytes of the configuration space.
    pub fn config(&mut self, offset: u32, len: usize) -> Vec<u8> {
        let flags = VhostUserConfigFlags::empty();
        self.frontend().get_config(offset, len as u32, flags, &vec![0; len]).expect("configuration").1
    }

    /// Switches the write cache.
    pub fn set_write_cache(&mut self, on: bool) {
        self.frontend().set_config(32, VhostUserConfigFlags::WRITABLE, &[u8::from(on)]).expect("it may be set");
    }

    fn slot_at(index: usize, slot: u16) -> u64 {
        Self::ring(index) + REQUESTS + u64::from(slot) * (DATA_BYTES as u64 + 0x1000)
    }

    /// Where a request has its data: the upper half of the slots lies behind the hole.
    fn data_at(index: usize, slot: u16) -> u64 {
        let at = Self::slot_at(index, slot) + 0x1000;
        Self::guest(if slot >= SLOTS / 2 { at + HOLE_AT } else { at })
    }

    /// Writes a descriptor.
    pub fn put_descriptor(&self, index: usize, descriptor: u16, start: u64, len: u32, flags: u16, next: u16) {
        let bytes = [&start.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        self.memory.write_slice(&bytes, GuestAddress(Self::ring(index) + u64::from(descriptor) * 16)).expect("a descriptor");
    }

    /// Makes a descriptor available, and kicks.
    pub fn make_available(&mut self, index: usize, head: u16) {
        let (ring, queue) = (Self::ring(index) + AVAILABLE, &mut self.queues[index]);
        let at = ring + 4 + u64::from(queue.available % QUEUE_SIZE) * 2;
        self.memory.write_obj(head, GuestAddress(at)).expect("a ring");
        queue.available = queue.available.wrapping_add(1);
        let next = queue.available;
        self.set_available(index, next);
        self.queues[index].kick.write(1).expect("a kick");
    }

    /// Sets the index of the available ring to anything.
    pub fn set_available(&mut self, index: usize, value: u16) {
        let at = GuestAddress(Self::ring(index) + AVAILABLE + 2);
        self.memory.store(value, at, Ordering::SeqCst).expect("a ring");
    }

    /// Kicks.
    pub fn kick(&self, index: usize) {
        self.queues[index].kick.write(1).expect("a kick");
    }

    /// Sends a request, with `data` behind its header or space for `answer` bytes. Returns its slot.
    pub fn send(&mut self, index: usize, kind: u32, sector: u64, data: &[u8], answer: usize) -> u16 {
        let slot = self.queues[index].free.pop().expect("a free slot");
        let (header, body) = (Self::slot_at(index, slot), Self::data_at(index, slot));
        let bytes = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        self.memory.write_slice(&bytes, GuestAddress(header)).expect("a header");
        self.memory.write_slice(data, GuestAddress(body)).expect("data");
        self.memory.write_obj(0xff_u8, GuestAddress(header + 16)).expect("a status");
        let head = slot * 3;
        let (next, write) = (1, 2);
        self.put_descriptor(index, head, header, 16, next, head + 1);
        match (data.len(), answer) {
            (0, 0) => self.put_descriptor(index, head + 1, body, 0, next, head + 2),
            (len, 0) => self.put_descriptor(index, head + 1, body, len as u32, next, head + 2),
            (_, len) => self.put_descriptor(index, head + 1, body, len as u32, next | write, head + 2),
        }
        self.put_descriptor(index, head + 2, header + 16, 1, write, 0);
        self.queues[index].ended[usize::from(slot)] = None;
        self.make_available(index, head);
        slot
    }

    /// The index of the used ring.
    pub fn used(&self, index: usize) -> u16 {
        self.memory.load(GuestAddress(Self::ring(index) + USED + 2), Ordering::SeqCst).expect("a ring")
    }

    /// Requests that have been made available and have not ended.
    pub fn open(&self, index: usize) -> u16 {
        self.queues[index].available.wrapping_sub(self.used(index))
    }

    /// Takes what is in the used ring.
    fn collect(&mut self, index: usize) {
        let until = self.used(index);
        let ring = Self::ring(index);
        while self.queues[index].used != until {
            let position = u64::from(self.queues[index].used % QUEUE_SIZE);
            let head: u32 = self.memory.read_obj(GuestAddress(ring + USED + 4 + position * 8)).expect("a ring");
            let slot = head as u16 / 3;
            assert_eq!(head % 3, 0, "an answer to what is no request");
            let status = self.memory.read_obj(GuestAddress(Self::slot_at(index, slot) + 16)).expect("a status");
            let queue = &mut self.queues[index];
            assert!(!queue.free.contains(&slot), "slot {slot} ended twice");
            queue.ended[usize::from(slot)] = Some(status);
            queue.free.push(slot);
            queue.used = queue.used.wrapping_add(1);
        }
        // Asks for an interrupt at the next answer.
        let at = GuestAddress(ring + AVAILABLE + 4 + u64::from(QUEUE_SIZE) * 2);
        self.memory.store(self.queues[index].used, at, Ordering::SeqCst).expect("a ring");
    }

    /// Waits for the end of a request. Returns its status.
    pub fn wait(&mut self, index: usize, slot: u16) -> u8 {
        let begun = Instant::now();
        loop {
            self.collect(index);
            if let Some(status) = self.queues[index].ended[usize::from(slot)].take() {
                return status;
            }
            // Something may have ended between the look and the wish for an interrupt.
            if self.used(index) != self.queues[index].used {
                continue;
            }
            assert!(begun.elapsed() < PATIENCE, "slot {slot} of queue {index} does not end");
            Self::sleep(&self.queues[index].call);
        }
    }

    /// Waits a moment for an eventfd; true if it rang.
    fn sleep(event: &EventFd) -> bool {
        (0..1000).any(|_| {
            let rang = event.read().is_ok();
            if !rang {
                std::thread::sleep(Duration::from_millis(1));
            }
            rang
        })
    }

    /// Waits until the server calls the ring broken.
    pub fn wait_for_error(&self, index: usize) {
        let begun = Instant::now();
        while !Self::sleep(&self.queues[index].error) {
            assert!(begun.elapsed() < PATIENCE, "queue {index} is not called broken");
        }
    }

    /// Makes the rings of a queue as new, as a driver does that begins anew. The queue must not run.
    pub fn forget(&mut self, index: usize) {
        let rings = vec![0_u8; REQUESTS as usize];
        self.memory.write_slice(&rings, GuestAddress(Self::ring(index))).expect("rings");
        let queue = &mut self.queues[index];
        (queue.available, queue.used, queue.free) = (0, 0, (0..SLOTS).rev().collect());
    }

    /// Writes anything into the rings.
    pub fn scribble(&self, index: usize, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(Self::ring(index))).expect("rings");
    }

    /// Writes the header of a request.
    pub fn scribble_header(&self, index: usize, slot: u16, kind: u32, sector: u64) {
        let bytes = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        self.memory.write_slice(&bytes, GuestAddress(Self::slot_at(index, slot))).expect("a header");
    }

    /// Sends a request and waits for it.
    pub fn ask(&mut self, index: usize, kind: u32, sector: u64, data: &[u8], answer: usize) -> (u8, Vec<u8>) {
        let slot = self.send(index, kind, sector, data, answer);
        (self.wait(index, slot), self.answer(index, slot, answer))
    }

    /// The data of a request that has ended.
    pub fn answer(&self, index: usize, slot: u16, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(Self::data_at(index, slot))).expect("memory");
        bytes
    }
}
