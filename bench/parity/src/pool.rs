//! Memory for the strips: one large mapping on huge pages, cut into stripes that are visited in shuffled order.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

const POOL_BYTES: usize = 1 << 30;
/// Parity strips for three, and one more for the new contents of updates.
const EXTRA: usize = 4;
pub const STRIPS_MAX: usize = 32;
pub const DATA_MAX: usize = STRIPS_MAX - EXTRA;

/// One stripe: data strips, P, Q, R, and one strip more. Page aligned, one after the other.
#[derive(Clone)]
pub struct Stripe {
    pub strips: [*mut u8; STRIPS_MAX],
    pub data: usize,
    pub bytes: usize,
}

impl Stripe {
    pub fn read<'a>(&self, i: usize) -> &'a [u8] {
        // SAFETY: strips lie in the pool, which lives as long as the process.
        unsafe { std::slice::from_raw_parts(self.strips[i], self.bytes) }
    }
    pub fn write<'a>(&self, i: usize) -> &'a mut [u8] {
        // SAFETY: as above; a contender borrows each strip once.
        unsafe { std::slice::from_raw_parts_mut(self.strips[i], self.bytes) }
    }
}

pub struct Pool {
    base: *mut u8,
    data: usize,
    bytes: usize,
    order: Vec<u32>,
    at: usize,
}

impl Pool {
    pub fn new() -> Pool {
        const READ_WRITE: c_int = 3;
        const PRIVATE_ANONYMOUS: c_int = 0x22;
        const HUGEPAGE: c_int = 14;
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe {
            let base = mmap(std::ptr::null_mut(), POOL_BYTES, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
            assert!(base as isize != -1, "no memory for the pool");
            madvise(base, POOL_BYTES, HUGEPAGE);
            base.cast::<u8>()
        };
        let mut random = 88172645463325252u64;
        for i in 0..POOL_BYTES / 8 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // SAFETY: within the mapping.
            unsafe { base.cast::<u64>().add(i).write(random) };
        }
        Pool { base, data: 0, bytes: 0, order: vec![], at: 0 }
    }

    pub fn stripe_bytes(&self) -> usize {
        (self.data + EXTRA) * self.bytes
    }

    pub fn cut(&mut self, data: usize, bytes: usize) {
        (self.data, self.bytes, self.at) = (data, bytes, 0);
        let count = POOL_BYTES / self.stripe_bytes();
        self.order = (0..count as u32).collect();
        let mut random = 0x2545_f491_4f6c_dd1du64;
        for i in (1..count).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            self.order.swap(i, (random % (i as u64 + 1)) as usize);
        }
    }

    pub fn stripe(&self, index: usize) -> Stripe {
        let mut strips = [std::ptr::null_mut(); STRIPS_MAX];
        for (i, strip) in strips.iter_mut().enumerate().take(self.data + EXTRA) {
            // SAFETY: within the mapping.
            *strip = unsafe { self.base.add(index * self.stripe_bytes() + i * self.bytes) };
        }
        Stripe { strips, data: self.data, bytes: self.bytes }
    }

    pub fn next(&mut self) -> Stripe {
        let stripe = self.stripe(self.order[self.at] as usize);
        self.at = (self.at + 1) % self.order.len();
        stripe
    }
}
