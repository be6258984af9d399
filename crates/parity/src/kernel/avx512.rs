//! AVX-512 (F, BW): 64 bytes a register, three of them added by one `vpternlog`. Products by two table look-ups (`pshufb`), one
//! per nibble.

use std::arch::x86_64::*;

use super::lanes::{Lanes, NIBBLES};
use crate::field::POLYNOMIAL_LOW;

#[derive(Clone, Copy)]
pub(super) struct Avx512(pub(super) __m512i);

impl Lanes for Avx512 {
    const BYTES: usize = 64;
    /// `pshufb` into a table of 0x1d gives 0x1d where the highest bit is clear: one instruction for two, and one 0x1d over.
    const IS_BIASED: bool = true;

    super::lanes::one_instruction!(
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_set1_epi8,
        _mm512_xor_si512
    );

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the trait's promise.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }
    #[inline(always)]
    unsafe fn add3(self, a: Self, b: Self) -> Self {
        if cfg!(miri) {
            // Miri knows the other instructions of this file and GFNI's, but not this one.
            // SAFETY: the trait's promise.
            return unsafe { self.add(a).add(b) };
        }
        // SAFETY: the trait's promise; 0x96 is the truth table of XOR.
        Self(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, a.0, b.0) })
    }
    #[inline(always)]
    unsafe fn double_add(self, d: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe {
            let reduction = _mm512_shuffle_epi8(_mm512_set1_epi8(POLYNOMIAL_LOW as i8), self.0);
            Self(_mm512_add_epi8(self.0, self.0)).add3(Self(reduction), d)
        }
    }
    #[inline(always)]
    unsafe fn times(self, c: u8) -> Self {
        // SAFETY: the trait's promise; a row of the table is 32 bytes.
        unsafe {
            let row = NIBBLES.0[usize::from(c)].as_ptr();
            let mask = _mm512_set1_epi8(0x0f);
            let low = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(row.cast())), _mm512_and_si512(self.0, mask));
            let high = _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), mask);
            Self(_mm512_xor_si512(low, _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(row.add(16).cast())), high)))
        }
    }
}

super::entries!(Avx512, "avx512", [8, 4, 4], [8, 4, 4], ahead: 4, update: 4, is_present: is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"), "avx512f,avx512bw");
