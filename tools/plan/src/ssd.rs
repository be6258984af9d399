//! An SSD in virtual time that keeps no data.
//!
//! - [`map`]: where logical pages lie, collection of blocks, spare area, TRIM: what makes write amplification.
//! - [`sampled`]: the same for a large drive, of which one page in so many is tracked.
//! - [`jump`]: a drive overwritten at random, made at once instead of by doing it.
//! - [`flash`]: dies and channels: how long reads, programs and erases take, and how they meet.
//! - [`drive`]: queue slots, firmware, link, write buffer and flushes around them.
//! - [`config`]: the parameters, with units.

pub mod config;
pub mod drive;
pub mod flash;
pub mod jump;
pub mod map;
pub mod sampled;

pub use config::SsdConfig;
pub use drive::Ssd;
