//! Performance models of drives, platforms and arrays in virtual time, and what they say of published measurements.
//!
//! - [`model`]: the face of every model; [`modelled`] gives it that of a block device.
//! - [`ssd`], [`hdd`]: drives. [`load`]: what is asked of them.
//! - [`backplane`]: drives behind ports and a shared link. [`array`](mod@array): arrays of them, by Stria's engine. [`platform`],
//!   [`rig`]: hosts and controllers in front. [`profile`]: parameters with sources.
//! - [`queueing`]: closed forms, which judge them in tests.
//! - [`reproduce`]: published measurements beside the models. [`calc`], [`reliability`]: arithmetic without a run.
//! - [`subject`]: a drive or array as the laboratory measures it.
//! - [`advice`]: which array of given drives suits a purpose.
//!
//! The crate knows no files on drives, clocks or threads. A seed replays a run exactly.
#![forbid(unsafe_code)]

pub mod advice;
pub mod amount;
pub mod applications;
pub mod array;
pub mod backplane;
mod bounds;
pub mod calc;
pub mod calibration;
pub mod campaign;
pub mod hdd;
pub mod level;
pub mod load;
pub mod model;
pub mod modelled;
pub mod platform;
pub mod profile;
pub mod queueing;
pub mod reliability;
pub mod reproduce;
pub mod rig;
pub mod ssd;
pub mod station;
pub mod subject;

pub use stria_chance as chance;
