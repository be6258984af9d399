//! The plain reference: one byte at a time, straight from the definition, without tables. Slow, and meant to be read.
//! ```text
//! parity_j = sum over i of (2^j)^i D_i        j = 0: P, 1: Q, 2: R
//! ```
//! Tests compare every kernel with it. The product uses it only in the kernels' self-test.
//! Source: H. P. Anvin, "The mathematics of RAID-6", section 2.

use crate::field::{double, multiply};

/// (2^parity)^index, by repeated multiplication.
fn coefficient(parity: usize, index: usize) -> u8 {
    let generator = (0..parity).fold(1, |g, _| double(g));
    (0..index).fold(1, |c, _| multiply(c, generator))
}

/// Parity `parity` (0 = P, 1 = Q, 2 = R) of the data strips `data`, all of one length.
pub fn parity(parity: usize, data: &[&[u8]]) -> Vec<u8> {
    let coefficients: Vec<u8> = (0..data.len()).map(|i| coefficient(parity, i)).collect();
    (0..data[0].len()).map(|at| data.iter().zip(&coefficients).fold(0, |sum, (strip, &c)| sum ^ multiply(c, strip[at]))).collect()
}
