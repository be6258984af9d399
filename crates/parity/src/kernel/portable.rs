//! Assumes no instruction set: 64 bytes as eight `u64`, which the compiler may turn into vectors.

use super::lanes::Lanes;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;

#[derive(Clone, Copy)]
pub(super) struct Portable([u64; 8]);

/// 2a in every byte: shift without the highest bits, then add 0x1d where one was.
#[inline(always)]
fn double(a: u64) -> u64 {
    ((a & (LOW_BITS * 0x7f)) << 1) ^ (((a >> 7) & LOW_BITS) * 0x1d)
}

impl Lanes for Portable {
    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises 64 readable bytes; any alignment is fine.
        Self(unsafe { from.cast::<[u64; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises 64 writable bytes; any alignment is fine.
        unsafe { to.cast::<[u64; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        Self([u64::from(byte) * LOW_BITS; 8])
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0.iter().fold(0, |any, word| any | word) == 0
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] ^ other.0[i]))
    }
    #[inline(always)]
    unsafe fn double_add(self, d: Self) -> Self {
        Self(std::array::from_fn(|i| double(self.0[i]) ^ d.0[i]))
    }
    #[inline(always)]
    unsafe fn times(self, c: u8) -> Self {
        let mut sum = [0; 8];
        let mut power = self.0;
        for bit in 0..8 {
            let chosen = 0u64.wrapping_sub(u64::from(c >> bit & 1));
            for i in 0..8 {
                sum[i] ^= power[i] & chosen;
                power[i] = double(power[i]);
            }
        }
        Self(sum)
    }
}

super::entries!(Portable, "portable", [1, 1, 1], [1, 1, 1], ahead: 1, update: 1, is_present: true);
