//! Aligned memory that moves with requests.
//!
//! A [`Buffer`] is the only handle to its bytes and may be written. It can be split into several buffers, so that parts of a
//! client's buffer go to several members at once without a copy. [`Buffer::freeze`] turns it into [`Data`], which is read-only
//! and may be cloned, so that one buffer is written to several members and added to parity at the same time. A [`Claim`], taken
//! before, returns the whole allocation as one buffer once every other handle is dropped.
//!
//! Invariant: at any time each byte of an allocation belongs to at most one `Buffer`, or to any number
//! of `Data`, never to both. Splitting divides the range, freezing consumes the buffer, and a claim
//! yields only when it holds the last reference.

use crate::{Arena, BLOCK_ALIGN};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

/// 4 MiB: from this size on, memory is a mapping of its own, in which a page is zeroed when it is first used. The allocator would
/// zero all of it at once, because of the alignment: 32 MiB keep a lane for some milliseconds, for a write whose payload may
/// never arrive.
const MAPPED_BYTES_MIN: usize = 4 << 20;

struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `Memory` owns its allocation; access to the bytes goes through `Buffer` and `Data`, whose
// invariant (see the module head) is that of `&mut` and `&`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), BLOCK_ALIGN).expect("buffer is larger than the address space")
    }

    fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        let start = if len >= MAPPED_BYTES_MIN {
            // SAFETY: the kernel chooses the address, so no memory in use is replaced.
            unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }
                .map_or(null_mut(), <*mut c_void>::cast)
        } else {
            // SAFETY: the layout's size is at least 1.
            unsafe { alloc_zeroed(layout) }
        };
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), len }
    }

    /// `BLOCK_ALIGN << order` bytes, of the process's arena if it has space. They hold old contents if so.
    fn pooled(order: usize) -> Self {
        let len = BLOCK_ALIGN << order;
        Arena::take(order).map_or_else(|| Self::zeroed(len), |start| Self { start, len })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if Arena::give(self.start, (self.len / BLOCK_ALIGN).trailing_zeros() as usize) {
            return;
        }
        if self.len >= MAPPED_BYTES_MIN {
            // SAFETY: not part of the arena, so mapped in `zeroed` with this very length, and dropped once. It fails only where
            // the process has as many mappings as it may, and then keeps the memory.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
            return;
        }
        // SAFETY: not part of the arena, so allocated in `zeroed` with this very layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

/// Unique, writable, aligned bytes.
pub struct Buffer {
    memory: Arc<Memory>,
    start: usize,
    len: usize,
}

/// Shared, read-only bytes.
#[derive(Clone)]
pub struct Data {
    memory: Arc<Memory>,
    start: usize,
    len: usize,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({} bytes)", self.0.len)
    }
}

/// The right to get a whole allocation back, see [`Buffer::claim`].
pub struct Claim(Arc<Memory>);

impl Buffer {
    /// New memory of `len` bytes, zeroed, aligned to [`BLOCK_ALIGN`].
    pub fn zeroed(len: usize) -> Self {
        Self { memory: Arc::new(Memory::zeroed(len)), start: 0, len }
    }

    /// New memory that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Splits off the first `len` bytes into a buffer of their own; `self` keeps the rest.
    ///
    /// # Panics
    /// When `len` is larger than the buffer.
    pub fn split_to(&mut self, len: usize) -> Self {
        assert!(len <= self.len, "split beyond the end of a buffer");
        let front = Self { memory: Arc::clone(&self.memory), start: self.start, len };
        self.start += len;
        self.len -= len;
        front
    }

    /// Appends `next` to this buffer, which undoes a split.
    ///
    /// # Errors
    /// `next` itself, when it does not follow in the same allocation.
    pub fn unite(&mut self, next: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&self.memory, &next.memory) || self.start + self.len != next.start {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }

    /// Read-only, cloneable bytes.
    pub fn freeze(self) -> Data {
        Data { memory: self.memory, start: self.start, len: self.len }
    }

    /// The right to get the whole allocation back once all parts of it are dropped.
    pub fn claim(&self) -> Claim {
        Claim(Arc::clone(&self.memory))
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: in bounds by construction; no other handle covers these bytes (module head).
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(self.start), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: in bounds by construction; no other handle covers these bytes (module head).
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(self.start), self.len) }
    }
}

impl Data {
    /// `len` zeros: up to 1 MiB the same memory for the whole process.
    pub fn zeros(len: usize) -> Self {
        const SHARED_BYTES: usize = 1 << 20;
        static SHARED: OnceLock<Data> = OnceLock::new();
        match len <= SHARED_BYTES {
            true => SHARED.get_or_init(|| Buffer::zeroed(SHARED_BYTES).freeze()).slice(0, len),
            false => Buffer::zeroed(len).freeze(),
        }
    }

    /// Bytes `from..from + len` of these.
    ///
    /// # Panics
    /// When the range leaves the data.
    pub fn slice(&self, from: usize, len: usize) -> Self {
        let end = from.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "slice beyond the end of data");
        Self { memory: Arc::clone(&self.memory), start: self.start + from, len }
    }

    /// The right to get the whole allocation back once all handles to it are dropped.
    pub fn claim(&self) -> Claim {
        Claim(Arc::clone(&self.memory))
    }

    /// The same, and drops this handle.
    pub fn into_claim(self) -> Claim {
        Claim(self.memory)
    }
}

impl Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: in bounds by construction; only `Data` covers these bytes, so they are never written.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(self.start), self.len) }
    }
}

impl Claim {
    /// The whole allocation as one buffer.
    ///
    /// # Errors
    /// The claim itself, while any other handle to the allocation lives.
    pub fn redeem(mut self) -> Result<Buffer, Self> {
        // `get_mut` proves that this is the last reference, and synchronises with the others' drops.
        match Arc::get_mut(&mut self.0) {
            Some(memory) => {
                let len = memory.len;
                Ok(Buffer { memory: self.0, start: 0, len })
            }
            None => Err(self),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.len)
    }
}

/// Buffers of a few sizes, stored for reuse by one thread. New ones come from the process's [`Arena`], if there is one with
/// space.
///
/// `take` returns memory with **old contents**: it is only for callers that overwrite all of it.
#[derive(Debug, Default)]
pub struct Pool {
    /// `free[n]`: whole allocations of `BLOCK_ALIGN << n` bytes.
    free: Vec<Vec<Buffer>>,
    kept_bytes: usize,
}

impl Pool {
    /// 64 MiB: the most that one thread stores. Memory beyond that returns to the system.
    const KEPT_BYTES_MAX: usize = 64 << 20;

    /// A page: what an allocation takes besides its bytes. Its header lies before the alignment, on a page that holds nothing
    /// else. Not counted, buffers of 4 KiB would take twice what they count for.
    const BESIDES_BYTES: usize = BLOCK_ALIGN;

    /// The least `n` for which `BLOCK_ALIGN << n` is at least `len`: the digits of the last byte's block number.
    fn class(len: usize) -> usize {
        let last_block = len.saturating_sub(1) / BLOCK_ALIGN;
        (usize::BITS - last_block.leading_zeros()) as usize
    }

    /// A buffer of exactly `len` bytes. It holds old contents.
    pub fn take(&mut self, len: usize) -> Buffer {
        let class = Self::class(len);
        let mut buffer = match self.free.get_mut(class).and_then(Vec::pop) {
            Some(buffer) => {
                self.kept_bytes -= Self::BESIDES_BYTES + buffer.memory.len;
                buffer
            }
            None => Buffer { memory: Arc::new(Memory::pooled(class)), start: 0, len: BLOCK_ALIGN << class },
        };
        // For a length near the end of the address space the class wraps, and the memory is smaller.
        assert!(len <= buffer.memory.len, "a buffer of {len} bytes cannot be");
        buffer.len = len;
        buffer
    }

    /// How much memory a buffer of `len` bytes takes.
    pub fn held_bytes(len: usize) -> usize {
        Self::BESIDES_BYTES + (BLOCK_ALIGN << Self::class(len))
    }

    /// Memory of the buffers that are stored for reuse.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// As [`Pool::take`], for an owner with bounded memory. Afterwards this buffer and the stored ones take at most
    /// `room_bytes` together; if need be, stored buffers return to the system first. `room_bytes` is the owner's bound less
    /// what the owner took before.
    pub fn take_within(&mut self, len: usize, room_bytes: usize) -> Buffer {
        let is_kept = self.free.get(Self::class(len)).is_some_and(|free| !free.is_empty());
        if !is_kept && self.kept_bytes > room_bytes {
            self.shrink_to(room_bytes);
        }
        self.take(len)
    }

    /// Returns stored buffers to the system, the largest first, until at most `bytes` are stored.
    pub fn shrink_to(&mut self, bytes: usize) {
        while self.kept_bytes > bytes {
            let Some(buffer) = self.free.iter_mut().rev().find_map(Vec::pop) else { return };
            self.kept_bytes -= Self::BESIDES_BYTES + buffer.memory.len;
        }
    }

    /// Takes a buffer back. It is stored if it is the only handle to an allocation of a fitting size.
    pub fn give(&mut self, buffer: Buffer) {
        self.give_claim(Claim(buffer.memory));
    }

    /// Takes an allocation back through its claim, if there is no other handle to it.
    pub fn give_claim(&mut self, claim: Claim) {
        let Ok(buffer) = claim.redeem() else { return };
        let class = Self::class(buffer.len);
        let held_bytes = Self::BESIDES_BYTES + buffer.len;
        if buffer.len != BLOCK_ALIGN << class || self.kept_bytes + held_bytes > Self::KEPT_BYTES_MAX {
            return;
        }
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.kept_bytes += held_bytes;
        self.free[class].push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client announces 32 MiB with 28 bytes. The lane zeroed all of them before the first byte of the payload came.
    #[test]
    fn large_memory_takes_no_page_before_it_is_used() {
        let is_used = |bytes: &[u8]| {
            // proc_pid_pagemap(5): eight bytes for each page; bit 63 says that it is in memory.
            let pages = std::fs::File::open("/proc/self/pagemap").expect("Linux has it");
            let mut entries = vec![0; bytes.len() / BLOCK_ALIGN * 8];
            let first = bytes.as_ptr() as u64 / BLOCK_ALIGN as u64;
            std::os::unix::fs::FileExt::read_exact_at(&pages, &mut entries, first * 8).expect("an entry for each page");
            entries.chunks_exact(8).filter(|entry| entry[7] & 0x80 != 0).count()
        };
        for len in [MAPPED_BYTES_MIN, 32 << 20] {
            for mut buffer in [Buffer::zeroed(len), Pool::default().take(len)] {
                assert_eq!((is_used(&buffer), buffer.as_ptr() as usize % BLOCK_ALIGN), (0, 0), "{len} bytes");
                buffer[len - 1] = 1;
                assert!(is_used(&buffer) > 0);
                assert!(buffer[..len - 1].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn parts_of_a_buffer_are_written_apart_and_claimed_whole() {
        let mut buffer = Buffer::zeroed(8192);
        let claim = buffer.claim();
        let mut front = buffer.split_to(4096);
        front.fill(1);
        buffer.fill(2);
        let claim = claim.redeem().expect_err("parts live");
        drop(front);
        let back = buffer.freeze();
        let clone = back.slice(0, 512);
        assert!(clone.iter().all(|&byte| byte == 2));
        drop((back, clone));
        let whole = claim.redeem().expect("all parts are gone");
        assert_eq!((whole[0], whole[4095], whole[4096], whole.len()), (1, 1, 2, 8192));
    }

    /// A range whose end wraps must be refused: it would read memory before the allocation.
    #[test]
    fn no_slice_leaves_the_data_whatever_its_numbers() {
        let data = Buffer::copy_of(&[7; 8192]).freeze().slice(4096, 4096);
        for from in [0, 1, 4095, 4096] {
            assert_eq!(data.slice(from, 4096 - from).len(), 4096 - from);
        }
        let numbers = [1, 512, 4096, 4097, 8192, usize::MAX / 2, usize::MAX - 4096, usize::MAX - 1, usize::MAX];
        for from in numbers {
            for len in numbers.into_iter().filter(|len| from.checked_add(*len).is_none_or(|end| end > 4096)) {
                let sliced = std::panic::catch_unwind(|| data.slice(from, len));
                assert!(sliced.is_err(), "{from} + {len} of 4096");
            }
        }
        for len in [4097, usize::MAX - 4095, usize::MAX] {
            let split = std::panic::catch_unwind(|| Buffer::zeroed(4096).split_to(len));
            assert!(split.is_err(), "{len} of 4096");
        }
    }

    #[test]
    fn a_class_is_the_smallest_that_holds_a_length() {
        for len in (0..70_000).chain((17..48).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1])) {
            let class = Pool::class(len);
            assert!(len <= BLOCK_ALIGN << class && (class == 0 || len > BLOCK_ALIGN << (class - 1)), "{len}: {class}");
        }
    }

    #[test]
    fn pool_keeps_no_more_than_its_owner_has_room_for() {
        let mut pool = Pool::default();
        let taken: Vec<Buffer> = (0..16).map(|_| pool.take(4096)).collect();
        taken.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!((pool.kept_bytes, Pool::held_bytes(1), Pool::held_bytes(4097)), (16 << 13, 8192, 12288));
        // A stored buffer costs nothing more; one of another size takes the space of stored ones.
        drop(pool.take_within(512, 0));
        assert_eq!(pool.kept_bytes, 15 << 13);
        drop(pool.take_within(32 << 10, 8 << 13));
        assert_eq!(pool.kept_bytes, 8 << 13);
        pool.shrink_to(0);
        assert_eq!((pool.kept_bytes, pool.free.iter().map(Vec::len).sum::<usize>()), (0, 0));
    }

    #[test]
    fn split_buffers_unite_in_order_only() {
        let mut buffer = Buffer::zeroed(3 * 512);
        let mut first = buffer.split_to(512);
        let second = buffer.split_to(512);
        let third = first.unite(buffer).expect_err("it does not follow");
        first.unite(second).expect("it follows");
        first.unite(third).expect("now it does");
        assert_eq!(first.len(), 3 * 512);
    }

    #[test]
    fn no_pool_lends_more_than_it_has() {
        for len in [usize::MAX, usize::MAX - 4096, isize::MAX as usize + 1, isize::MAX as usize] {
            let taken = std::panic::catch_unwind(|| Pool::default().take(len).len());
            assert!(taken.is_err(), "{len}");
        }
    }

    #[test]
    fn pool_reuses_what_nobody_holds() {
        let mut pool = Pool::default();
        let first = pool.take(5000);
        let start = first.as_ptr();
        assert_eq!((first.len(), start as usize % BLOCK_ALIGN), (5000, 0));
        pool.give(first);
        let second = pool.take(8192);
        assert_eq!(second.as_ptr(), start);
        let data = second.freeze();
        pool.give_claim(data.claim());
        assert_ne!(pool.take(8192).as_ptr(), start, "data still lives");
    }
}
