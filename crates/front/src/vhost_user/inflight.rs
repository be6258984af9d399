//! Memory that outlives this process and tells the next one which requests it must repeat.
//!
//! The front-end (QEMU) holds it while the server restarts. Each queue has a region with an entry for each descriptor: whether
//! a request that begins there is in flight, and when it began. A request is marked before the device gets it. It ends in four
//! steps, in this order: it is named as the last one, it goes into the used ring, its mark goes, and the region's index follows
//! that of the used ring. A process that died between two of these steps is told from one that died elsewhere by comparing both
//! indices.
//!
//! Repeating a request is harmless: it was not acknowledged, and a write that is repeated has the same result.
//! Source: QEMU, docs/interop/vhost-user.rst, *Inflight I/O tracking*, split virtqueue, version 1.
//!
//! Behind the regions follows one of our own: whether the driver has switched the write cache off. Otherwise the next process
//! would acknowledge writes before they are durable, although the driver relies on that.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Offset 0 of a region: features u64, which are 0; 8: version u16; 10: size of the queue u16; 12: the last head u16; 14: index
/// of the used ring u16; 16: the entries.
const VERSION: u64 = 8;
const SIZE: u64 = 10;
const LAST_HEAD: u64 = 12;
const USED_INDEX: u64 = 14;
const ENTRIES: u64 = 16;
/// An entry: in flight u8, padding, at 6 the next head of the batch u16, at 8 a counter u64.
const ENTRY_BYTES: u64 = 16;
const ENTRY_NEXT: u64 = 6;
const ENTRY_COUNTER: u64 = 8;
/// Regions are aligned to cache lines.
const ALIGN: u64 = 64;
/// `STRIAwce` in ASCII, then a byte: 1 if the write cache is off, 2 if it is on, 0 if the driver was not told.
const TRAILER_MAGIC: u64 = u64::from_le_bytes(*b"STRIAwce");
const TRAILER_BYTES: u64 = ALIGN;

/// The shared memory of one connection.
#[derive(Clone)]
pub(super) struct Inflight {
    map: Arc<MmapRegion>,
    queue_count: u16,
    queue_size: u16,
    has_trailer: bool,
}

fn region_bytes(queue_size: u16) -> u64 {
    (ENTRIES + ENTRY_BYTES * u64::from(queue_size)).next_multiple_of(ALIGN)
}

impl Inflight {
    /// New memory, its file, and its size in bytes.
    ///
    /// # Errors
    /// When the system has none.
    pub fn new(queue_count: u16, queue_size: u16) -> io::Result<(Self, File, u64)> {
        let bytes = region_bytes(queue_size) * u64::from(queue_count) + TRAILER_BYTES;
        let file = rustix::fs::memfd_create("stria-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, bytes)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = File::from(file);
        let mut inflight = Self::open(file.try_clone()?, 0, bytes, queue_count, queue_size)?;
        inflight.has_trailer = true;
        inflight.put(inflight.trailer(), TRAILER_MAGIC);
        Ok((inflight, file, bytes))
    }

    /// Memory that the front-end has stored.
    ///
    /// # Errors
    /// When it is smaller than queues of this size need, or cannot be mapped.
    pub fn open(file: File, offset: u64, bytes: u64, queue_count: u16, queue_size: u16) -> io::Result<Self> {
        let needed = region_bytes(queue_size) * u64::from(queue_count);
        let has = offset.checked_add(bytes).is_some_and(|end| file.metadata().is_ok_and(|file| file.len() >= end));
        if queue_count == 0 || queue_size == 0 || bytes < needed || !has {
            return Err(io::Error::other("the memory for requests in flight is smaller than its queues need"));
        }
        let len = usize::try_from(bytes).map_err(io::Error::other)?;
        let map = Arc::new(MmapRegion::from_file(FileOffset::new(file, offset), len).map_err(io::Error::other)?);
        let mut inflight = Self { map, queue_count, queue_size, has_trailer: bytes >= needed + TRAILER_BYTES };
        inflight.has_trailer = inflight.has_trailer && inflight.get::<u64>(inflight.trailer()) == TRAILER_MAGIC;
        Ok(inflight)
    }

    fn trailer(&self) -> u64 {
        region_bytes(self.queue_size) * u64::from(self.queue_count)
    }

    /// Whether the write cache is on, if that is stored here.
    pub fn write_cache(&self) -> Option<bool> {
        match self.has_trailer.then(|| self.get::<u8>(self.trailer() + 8))? {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        }
    }

    pub fn set_write_cache(&self, on: bool) {
        if self.has_trailer {
            self.put(self.trailer() + 8, 1 + u8::from(on));
        }
    }

    /// The region of one queue; `None` if it has none, or the queue is larger.
    pub fn ring(&self, index: u16, queue_size: u16) -> Option<InflightRing> {
        (index < self.queue_count && queue_size <= self.queue_size).then(|| InflightRing {
            start: u64::from(index) * region_bytes(self.queue_size),
            inflight: self.clone(),
            counter: 0,
        })
    }

    /// The mapping has a fixed size that covers every position asked for.
    fn get<T: vm_memory::AtomicAccess>(&self, at: u64) -> T {
        self.map.as_volatile_slice().load(at as usize, Ordering::Acquire).expect("within the mapping, and aligned")
    }

    fn put<T: vm_memory::AtomicAccess>(&self, at: u64, value: T) {
        self.map.as_volatile_slice().store(value, at as usize, Ordering::Release).expect("within the mapping, and aligned");
    }
}

/// The region of one queue.
pub(super) struct InflightRing {
    inflight: Inflight,
    start: u64,
    counter: u64,
}

impl InflightRing {
    fn get<T: vm_memory::AtomicAccess>(&self, at: u64) -> T {
        self.inflight.get(self.start + at)
    }

    fn put<T: vm_memory::AtomicAccess>(&self, at: u64, value: T) {
        self.inflight.put(self.start + at, value);
    }

    fn entry(head: u16) -> u64 {
        ENTRIES + ENTRY_BYTES * u64::from(head)
    }

    /// Puts the region in order after the last process. Returns the heads of requests to do again, in the order in which they
    /// began. `used_index`: that of the used ring.
    pub fn recover(&mut self, queue_size: u16, used_index: u16) -> Vec<u16> {
        if self.get::<u16>(VERSION) != 1 || self.get::<u16>(SIZE) != queue_size {
            // New, or of a queue that was set up anew: nothing of it is in flight.
            (0..self.inflight.queue_size).for_each(|head| self.put(Self::entry(head), 0_u8));
            self.put(SIZE, queue_size);
            self.put(USED_INDEX, used_index);
            self.put(VERSION, 1_u16);
            return Vec::new();
        }
        // The last batch is in the used ring, and its marks may not be gone yet.
        let batch = used_index.wrapping_sub(self.get::<u16>(USED_INDEX));
        let mut head: u16 = self.get(LAST_HEAD);
        for _ in 0..batch.min(queue_size) {
            if head >= queue_size {
                break;
            }
            self.put(Self::entry(head), 0_u8);
            head = self.get(Self::entry(head) + ENTRY_NEXT);
        }
        self.put(USED_INDEX, used_index);
        let marked = (0..queue_size).filter(|&head| self.get::<u8>(Self::entry(head)) == 1);
        let mut again: Vec<(u64, u16)> = marked.map(|head| (self.get(Self::entry(head) + ENTRY_COUNTER), head)).collect();
        again.sort_unstable();
        self.counter = again.last().map_or(0, |&(counter, _)| counter.wrapping_add(1));
        again.into_iter().map(|(_, head)| head).collect()
    }

    /// Marks the request at `head` as in flight.
    pub fn begin(&mut self, head: u16) {
        self.put(Self::entry(head) + ENTRY_COUNTER, self.counter);
        self.counter = self.counter.wrapping_add(1);
        self.put(Self::entry(head), 1_u8);
    }

    /// Names the request at `head` as the next one that goes into the used ring.
    pub fn name_last(&mut self, head: u16) {
        self.put(Self::entry(head) + ENTRY_NEXT, self.get::<u16>(LAST_HEAD));
        self.put(LAST_HEAD, head);
    }

    /// Takes the mark away. The request is in the used ring, whose index is `used_index` now.
    pub fn end(&mut self, head: u16, used_index: u16) {
        self.put(Self::entry(head), 0_u8);
        self.put(USED_INDEX, used_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopened(file: &File, bytes: u64) -> Inflight {
        Inflight::open(file.try_clone().expect("a handle"), 0, bytes, 2, 8).expect("the same memory")
    }

    /// A process may die between any two steps. The next one does again what is not in the used ring, and nothing else.
    #[test]
    fn a_death_between_any_two_steps_is_seen_through() {
        for steps in 0..=4 {
            let (inflight, file, bytes) = Inflight::new(2, 8).expect("memory");
            let mut ring = inflight.ring(1, 8).expect("a region");
            assert!(ring.recover(8, 40).is_empty());
            [5, 2, 7].into_iter().for_each(|head| ring.begin(head));
            ring.name_last(5);
            ring.end(5, 41);
            let mut used = 41;
            for step in 0..steps {
                match step {
                    0 => ring.name_last(7),
                    1 => used = 42,
                    2 => ring.put(InflightRing::entry(7), 0_u8),
                    _ => ring.put(USED_INDEX, 42_u16),
                }
            }
            drop((ring, inflight));
            let mut ring = reopened(&file, bytes).ring(1, 8).expect("a region");
            let expected: &[u16] = if steps < 2 { &[2, 7] } else { &[2] };
            assert_eq!(ring.recover(8, used), expected, "after {steps} steps");
            assert_eq!(ring.recover(8, used), expected, "and again");
            ring.begin(0);
            assert_eq!(ring.recover(8, used).last(), Some(&0), "what begins now is the last");
        }
    }

    #[test]
    fn the_write_cache_is_remembered() {
        let (inflight, file, bytes) = Inflight::new(2, 8).expect("memory");
        assert_eq!(inflight.write_cache(), None);
        for on in [false, true] {
            inflight.set_write_cache(on);
            assert_eq!(reopened(&file, bytes).write_cache(), Some(on));
        }
        // Another program's memory has no place for it.
        let other = Inflight::open(file.try_clone().expect("a handle"), 0, bytes - TRAILER_BYTES, 2, 8).expect("memory");
        other.set_write_cache(false);
        assert_eq!((other.write_cache(), reopened(&file, bytes).write_cache()), (None, Some(true)));
    }

    #[test]
    fn hostile_memory_is_refused_or_bounded() {
        let (inflight, file, bytes) = Inflight::new(2, 8).expect("memory");
        let open = |offset, bytes, count, size| Inflight::open(file.try_clone().expect("a handle"), offset, bytes, count, size);
        assert!(open(0, bytes, 4, 8).is_err(), "more queues than it has");
        assert!(open(0, bytes, 2, 1024).is_err(), "larger queues");
        assert!(open(0, bytes + 1, 2, 8).is_err(), "longer than its file");
        assert!(open(u64::MAX, bytes, 2, 8).is_err());
        assert!(open(0, bytes, 0, 0).is_err());
        assert!(inflight.ring(2, 8).is_none() && inflight.ring(0, 16).is_none());
        // Heads out of the queue, and a batch that is no batch.
        let mut ring = inflight.ring(0, 8).expect("a region");
        ring.recover(8, 0);
        ring.put(LAST_HEAD, 900_u16);
        assert!(ring.recover(8, 5).is_empty());
        ring.put(LAST_HEAD, 3_u16);
        ring.put(InflightRing::entry(3) + ENTRY_NEXT, 3_u16);
        assert!(ring.recover(8, 40_000).is_empty());
    }
}
