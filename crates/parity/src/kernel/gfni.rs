//! AVX-512 with GFNI: 64 bytes a register, and one instruction multiplies every byte by a bit matrix.
//!
//! `gf2p8mulb` has the polynomial 0x11b built in, which is not ours. `gf2p8affineqb` takes any linear map, and so any
//! multiplication in our field. With it two Horner steps need two products and one three-way addition.

use std::arch::x86_64::*;

use super::avx512::Avx512;
use super::lanes::Lanes;
use crate::field::multiply;

#[derive(Clone, Copy)]
pub(super) struct Gfni(__m512i);

/// Multiplication by c in the form of `gf2p8affineqb`: byte 7 - i holds, for bit i of the product, the bits of the factor whose
/// sum it is.
static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut bit = 0;
        while bit < 8 {
            let product = multiply(c as u8, 1 << bit);
            let mut i = 0;
            while i < 8 {
                matrices[c] |= ((product >> i & 1) as u64) << (8 * (7 - i) + bit);
                i += 1;
            }
            bit += 1;
        }
        c += 1;
    }
    matrices
};

impl Lanes for Gfni {
    const BYTES: usize = 64;

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
        unsafe { Avx512(self.0).is_zero() }
    }
    #[inline(always)]
    unsafe fn add3(self, a: Self, b: Self) -> Self {
        // SAFETY: the trait's promise.
        Self(unsafe { Avx512(self.0).add3(Avx512(a.0), Avx512(b.0)).0 })
    }
    #[inline(always)]
    unsafe fn double_add(self, d: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe { self.times(2).add(d) }
    }
    #[inline(always)]
    unsafe fn quadruple_add(self, d: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe { self.times(4).add(d) }
    }
    #[inline(always)]
    unsafe fn double_add_two(self, high: Self, low: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe { self.times(4).add3(high.times(2), low) }
    }
    #[inline(always)]
    unsafe fn quadruple_add_two(self, high: Self, low: Self) -> Self {
        // SAFETY: the trait's promise.
        unsafe { self.times(16).add3(high.times(4), low) }
    }
    #[inline(always)]
    unsafe fn times(self, c: u8) -> Self {
        // SAFETY: the trait's promise.
        unsafe {
            let matrix = _mm512_set1_epi64(MATRICES[usize::from(c)] as i64);
            Self(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix))
        }
    }
}

super::entries!(Gfni, "avx512-gfni", [2, 4, 4], [4, 8, 8], ahead: 4, update: 4, is_present: is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("gfni"), "avx512f,avx512bw,gfni");
