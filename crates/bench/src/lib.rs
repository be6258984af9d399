//! Measures block devices in process, and says what could have been.
//!
//! [`Load`] drives any [`BlockDevice`](stria_block::BlockDevice) on the caller's thread and gives an [`Outcome`];
//! with a [`Ledger`] it also proves every byte. This crate owns figures and pages, and prints nothing; it does not know
//! what an array does inside, nor who reads the figures.
#![forbid(unsafe_code)]

mod chance;
mod ledger;
mod load;
mod null;
mod outcome;

pub use ledger::{Fault, Ledger};
pub use load::{Limit, Load, LoadError, Order, Target};
pub use null::NullDevice;
pub use outcome::{Latency, Outcome};
