//! Memory that a process allocates once, for buffers that come and go.
//!
//! Rings register it with the kernel, which then need not find and pin the pages of each transfer. Pools take from it first,
//! and from the system when it is full. It is never returned to the system, so a registration never ends before its user.
//!
//! Space is split in powers of two: a piece is halved until it fits, and joined with its other half when both are free.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Alignment of every allocation: a page, which satisfies direct I/O to any drive.
pub const BLOCK_ALIGN: usize = 4096;

/// The order of the arena: 32 MiB, enough for 32 requests of 1 MiB or for the smaller requests that keep a lane busy.
const ORDERS: usize = 13;

/// The arena of this process, once it has been asked for.
static ARENA: OnceLock<Arena> = OnceLock::new();

/// One allocation, and which of its pieces are free.
pub struct Arena {
    start: NonNull<u8>,
    /// By order: free pieces of `BLOCK_ALIGN << order` bytes, as indices in units of that size.
    free: Mutex<[Vec<usize>; ORDERS + 1]>,
}

// SAFETY: the arena hands out each byte at most once at a time, and accesses none itself.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    const LEN: usize = BLOCK_ALIGN << ORDERS;

    /// Allocates the arena at the first call.
    pub fn set_up() -> &'static Self {
        ARENA.get_or_init(Self::new)
    }

    fn new() -> Self {
        // Aligned to a large page, so that large pages can back it.
        let layout = Layout::from_size_align(Self::LEN, 2 << 20).expect("a fixed size");
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let mut free: [Vec<usize>; ORDERS + 1] = Default::default();
        free[ORDERS].push(0);
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), free: Mutex::new(free) }
    }

    /// The addresses of its memory.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + Self::LEN
    }

    /// A piece of `BLOCK_ALIGN << order` bytes of this process's arena, if one is free. It holds old contents.
    pub(crate) fn take(order: usize) -> Option<NonNull<u8>> {
        let arena = ARENA.get()?;
        arena.piece(order).map(|at| {
            // SAFETY: pieces lie within the arena.
            unsafe { arena.start.add((at * BLOCK_ALIGN) << order) }
        })
    }

    /// Takes a piece back. False if it is not one of the arena's.
    pub(crate) fn give(start: NonNull<u8>, order: usize) -> bool {
        let Some(arena) = ARENA.get().filter(|arena| arena.addresses().contains(&(start.as_ptr() as usize))) else {
            return false;
        };
        arena.unite((start.as_ptr() as usize - arena.start.as_ptr() as usize) / (BLOCK_ALIGN << order), order);
        true
    }

    fn piece(&self, order: usize) -> Option<usize> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = (order..=ORDERS).find(|&order| !free[order].is_empty())?;
        let mut at = free[found].pop().expect("just seen");
        for order in (order..found).rev() {
            at *= 2;
            free[order].push(at + 1);
        }
        Some(at)
    }

    fn unite(&self, mut at: usize, mut order: usize) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while order < ORDERS
            && let Some(other) = free[order].iter().position(|&other| other == at ^ 1)
        {
            free[order].swap_remove(other);
            (at, order) = (at / 2, order + 1);
        }
        free[order].push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_and_all_unite_again() {
        let arena = Arena::new();
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut random = 7_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (order, gives) = ((random >> 33) as usize % 8, random >> 61 < 3);
            match arena.piece(order) {
                Some(at) if !gives => {
                    let range = |(at, order): (usize, usize)| at << order..(at + 1) << order;
                    let new = range((at, order));
                    assert!(new.end <= 1 << ORDERS);
                    assert!(taken.iter().all(|&other| range(other).end <= new.start || new.end <= range(other).start));
                    taken.push((at, order));
                }
                piece => {
                    piece.into_iter().for_each(|at| arena.unite(at, order));
                    let count = taken.len() / 2;
                    taken.drain(count..).for_each(|(at, order)| arena.unite(at, order));
                }
            }
        }
        taken.into_iter().for_each(|(at, order)| arena.unite(at, order));
        assert_eq!(arena.piece(ORDERS), Some(0), "one piece again");
        assert_eq!(arena.piece(0), None, "nothing else");
    }
}
