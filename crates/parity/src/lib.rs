//! Parity of a stripe: P, Q and R over GF(2^8), and what can be computed back from them.
//!
//! Slices in, slices out. This crate does not know arrays, drives, layouts or threads. It allocates nothing, and its only state
//! is the choice of a kernel, made once by what the processor has.
//!
//! `code`, `recover` and `store` define what is computed, `kernel` how, `reference` the correct result; `chosen` has the kernel
//! of this process. All operations work byte by byte, so any sub-range of a multiple of 64 bytes may be given alone. `unsafe` is
//! used in the kernels, and where slices become their jobs.

mod addresses;
mod chosen;
mod code;
mod field;
mod kernel;
mod locate;
mod recover;
pub mod reference;
mod selftest;
mod store;
#[cfg(test)]
mod tests;
mod xor;

pub use code::{Code, DATA_COUNT_MAX, GRANULARITY_BYTES};
pub use kernel::PARITY_COUNT_MAX;
pub use recover::{Strip, Unrecoverable};
pub use store::CHECKSUM_BLOCK_BYTES;
pub use xor::xor_into;

/// The CRC-32C (Castagnoli, RFC 3720) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The kernel in use: "avx512-gfni", "avx512", "avx2", "ssse3", "neon" or "portable".
pub fn kernel_name() -> &'static str {
    chosen::chosen().name
}
