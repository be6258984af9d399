//! SSSE3: 16 bytes a register. Products by two table look-ups (`pshufb`), one per nibble.

use std::arch::x86_64::*;

use super::lanes::{Lanes, NIBBLES};
use crate::field::POLYNOMIAL_LOW;

#[derive(Clone, Copy)]
pub(super) struct Ssse3(__m128i);

impl Lanes for Ssse3 {
    const BYTES: usize = 16;
    /// `pshufb` into a table of 0x1d gives 0x1d where the highest bit is clear: one instruction for two, and one 0x1d over.
    const IS_BIASED: bool = true;

    super::lanes::one_instruction!(_mm_loadu_si128, _mm_storeu_si128, _mm_stream_si128, _mm_set1_epi8, _mm_xor_si128);

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the trait's promise.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(self.0, _mm_setzero_si128())) == 0xffff }
    }
    #[inline(always)]
    unsafe fn double_add(self, d: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe {
            let reduction = _mm_shuffle_epi8(_mm_set1_epi8(POLYNOMIAL_LOW as i8), self.0);
            Self(_mm_xor_si128(_mm_xor_si128(_mm_add_epi8(self.0, self.0), reduction), d.0))
        }
    }
    #[inline(always)]
    unsafe fn times(self, c: u8) -> Self {
        // SAFETY: the trait's promise; a row of the table is 32 bytes.
        unsafe {
            let row = NIBBLES.0[usize::from(c)].as_ptr();
            let mask = _mm_set1_epi8(0x0f);
            let low = _mm_shuffle_epi8(_mm_loadu_si128(row.cast()), _mm_and_si128(self.0, mask));
            let high = _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask);
            Self(_mm_xor_si128(low, _mm_shuffle_epi8(_mm_loadu_si128(row.add(16).cast()), high)))
        }
    }
}

super::entries!(Ssse3, "ssse3", [4, 2, 2], [4, 2, 2], ahead: 2, update: 2, is_present: is_x86_feature_detected!("ssse3"), "ssse3");
