//! NEON (AArch64): 16 bytes a register. Products by two table look-ups (`tbl`), one per nibble.

use std::arch::aarch64::*;

use super::lanes::{Lanes, NIBBLES};
use crate::field::POLYNOMIAL_LOW;

#[derive(Clone, Copy)]
pub(super) struct Neon(uint8x16_t);

impl Lanes for Neon {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the trait's promise.
        Self(unsafe { vld1q_u8(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's promise.
        unsafe { vst1q_u8(to, self.0) }
    }
    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the trait's promise.
        Self(unsafe { vdupq_n_u8(byte) })
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the trait's promise.
        unsafe { vmaxvq_u8(self.0) == 0 }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the trait's promise.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double_add(self, d: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe {
            let highest = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
            let reduction = vandq_u8(highest, vdupq_n_u8(POLYNOMIAL_LOW));
            Self(veorq_u8(veorq_u8(vshlq_n_u8::<1>(self.0), d.0), reduction))
        }
    }
    #[inline(always)]
    unsafe fn times(self, c: u8) -> Self {
        // SAFETY: the trait's promise; a row of the table is 32 bytes.
        unsafe {
            let row = NIBBLES.0[usize::from(c)].as_ptr();
            let low = vqtbl1q_u8(vld1q_u8(row), vandq_u8(self.0, vdupq_n_u8(0x0f)));
            Self(veorq_u8(low, vqtbl1q_u8(vld1q_u8(row.add(16)), vshrq_n_u8::<4>(self.0))))
        }
    }
}

super::entries!(Neon, "neon", [4, 4, 2], [4, 4, 2], ahead: 2, update: 4, is_present: std::arch::is_aarch64_feature_detected!("neon"), "neon");
