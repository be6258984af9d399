//! Measures block devices in process, and computes the limits of their geometry.
//!
//! [`Load`] drives any [`BlockDevice`](stria_block::BlockDevice) on the caller's thread and gives an [`Outcome`];
//! with a [`Ledger`] it also verifies every byte. [`theory`] computes the limits of a geometry on given members, [`compare`] runs
//! an array beside its bare members, [`scaling`] measures every level that fits on 1 to 8 image files and more, and [`report`]
//! makes one HTML page of all that. This crate owns figures and pages, and prints nothing; it knows neither the internals of
//! arrays nor the use of the figures.
#![forbid(unsafe_code)]

mod compare;
mod environment;
mod ledger;
mod load;
mod null;
mod outcome;
mod paced;
pub mod report;
pub mod scaling;
mod scratch;
pub mod story;
mod sweep;
pub mod theory;

pub use compare::{Basis, Comparison, Figure, Row, Spread, Subject, compare, label, usual_loads};
pub use environment::Environment;
pub use ledger::{Fault, Ledger};
pub use load::{Limit, Load, LoadError, Order, Target};
pub use null::NullDevice;
pub use outcome::{Latency, Outcome};
pub use paced::PacedDevice;
pub use scratch::{Together, array_over};
pub use sweep::{SweepJob, SweepTime, time_sweep};
pub use theory::Shape;
