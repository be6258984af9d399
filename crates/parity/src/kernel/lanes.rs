//! What a kernel asks of an instruction set: a register of bytes, added and multiplied lane by lane over GF(2^8).

use crate::field::{POLYNOMIAL_LOW, invert, multiply, power_of_two};

/// One vector register, each byte an element of GF(2^8).
///
/// Every method is `inline(always)` in every implementation, so that it ends in a function that carries the instruction
/// set's `target_feature`.
///
/// # Safety
/// All methods: the processor has the instruction set. `load`, `store`, `stream`, `prefetch`: `BYTES` bytes at the
/// pointer are valid; `stream` also needs it aligned to `BYTES`.
pub(crate) trait Lanes: Copy {
    /// Bytes in a register; divides 64.
    const BYTES: usize;
    /// True if `double_add` adds 0x1d to 2q + d in every byte; the sum then begins with one of `STARTS`.
    const IS_BIASED: bool = false;

    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Stores past the caches; `fence` must follow before another thread may read.
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the same promise.
        unsafe { self.store(to) }
    }
    /// Orders `stream`s before later stores.
    unsafe fn fence() {}
    /// Prefetches the line at `from`; any address may be given.
    unsafe fn prefetch(_from: *const u8) {}
    unsafe fn splat(byte: u8) -> Self;
    unsafe fn is_zero(self) -> bool;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn add3(self, a: Self, b: Self) -> Self {
        // SAFETY: the same promise.
        unsafe { self.add(a).add(b) }
    }
    /// 2q + d, and 0x1d where biased
    unsafe fn double_add(self, d: Self) -> Self;
    /// 4q + d, with what the bias becomes when doubled
    unsafe fn quadruple_add(self, d: Self) -> Self {
        // SAFETY: the same promise.
        unsafe { self.double_add(Self::splat(0)).double_add(d) }
    }
    /// Two Horner steps of Q: 4q + 2 high + low
    unsafe fn double_add_two(self, high: Self, low: Self) -> Self {
        // SAFETY: the same promise.
        unsafe { self.double_add(high).double_add(low) }
    }
    /// Two Horner steps of R: 16r + 4 high + low
    unsafe fn quadruple_add_two(self, high: Self, low: Self) -> Self {
        // SAFETY: the same promise.
        unsafe { self.quadruple_add(high).quadruple_add(low) }
    }
    /// c times every byte
    unsafe fn times(self, c: u8) -> Self;
}

/// Implements those methods of `Lanes` that are one instruction on x86-64, which differ only by the register's width.
#[cfg(target_arch = "x86_64")]
macro_rules! one_instruction {
    ($load:ident, $store:ident, $stream:ident, $splat:ident, $add:ident) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the trait's promise.
            Self(unsafe { $load(from.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the trait's promise.
            unsafe { $store(to.cast(), self.0) }
        }
        #[inline(always)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the trait's promise.
            unsafe { $stream(to.cast(), self.0) }
        }
        #[inline(always)]
        unsafe fn fence() {
            // SAFETY: always possible.
            unsafe { _mm_sfence() }
        }
        #[inline(always)]
        unsafe fn prefetch(from: *const u8) {
            // SAFETY: a hint; any address may be given.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
        }
        #[inline(always)]
        unsafe fn splat(byte: u8) -> Self {
            // SAFETY: the trait's promise.
            Self(unsafe { $splat(byte as i8) })
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: the trait's promise.
            Self(unsafe { $add(self.0, other.0) })
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use one_instruction;

/// What a Horner sum of n doublings must start from so that the biases of all steps end at zero: entry n modulo 255.
/// ```text
/// e' = 2e + B has the fixed point f = B / (1 + 2), hence e_n = f + 2^n (e_0 + f), and e_n = 0 for e_0 = f + f / 2^n
/// ```
const fn starts(bias: u8) -> [u8; 255] {
    let fixed = multiply(bias, invert(3));
    let mut table = [0; 255];
    let mut n = 0;
    while n < 255 {
        table[n] = fixed ^ multiply(fixed, invert(power_of_two(n)));
        n += 1;
    }
    table
}

/// For the one bias that kernels produce.
pub(super) static STARTS: [u8; 255] = starts(POLYNOMIAL_LOW);

/// Products of every c with every nibble: row c holds c·0 … c·15, then c·0x00, c·0x10 … c·0xf0.
#[repr(align(64))]
pub(crate) struct Nibbles(pub [[u8; 32]; 256]);

pub(crate) static NIBBLES: Nibbles = {
    let mut table = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            table[c][n] = multiply(c as u8, n as u8);
            table[c][16 + n] = multiply(c as u8, (n << 4) as u8);
            n += 1;
        }
        c += 1;
    }
    Nibbles(table)
};
