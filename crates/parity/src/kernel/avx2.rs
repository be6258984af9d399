//! AVX2: 32 bytes a register. Products by two table look-ups (`pshufb`), one per nibble.

use std::arch::x86_64::*;

use super::lanes::{Lanes, NIBBLES};
use crate::field::POLYNOMIAL_LOW;

#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256i);

impl Lanes for Avx2 {
    const BYTES: usize = 32;
    /// `pshufb` into a table of 0x1d gives 0x1d where the highest bit is clear: one instruction for two, and one 0x1d over.
    const IS_BIASED: bool = true;

    super::lanes::one_instruction!(
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_set1_epi8,
        _mm256_xor_si256
    );

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the trait's promise.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi8(self.0, _mm256_setzero_si256())) == -1 }
    }
    #[inline(always)]
    unsafe fn double_add(self, d: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe {
            let reduction = _mm256_shuffle_epi8(_mm256_set1_epi8(POLYNOMIAL_LOW as i8), self.0);
            Self(_mm256_xor_si256(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduction), d.0))
        }
    }
    #[inline(always)]
    unsafe fn times(self, c: u8) -> Self {
        // SAFETY: the trait's promise; a row of the table is 32 bytes.
        unsafe {
            let row = NIBBLES.0[usize::from(c)].as_ptr();
            let mask = _mm256_set1_epi8(0x0f);
            let low =
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(row.cast())), _mm256_and_si256(self.0, mask));
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask);
            Self(_mm256_xor_si256(
                low,
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(row.add(16).cast())), high),
            ))
        }
    }
}

super::entries!(Avx2, "avx2", [4, 4, 2], [4, 4, 2], ahead: 2, update: 4, is_present: is_x86_feature_detected!("avx2"), "avx2");
