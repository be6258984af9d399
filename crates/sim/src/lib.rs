//! The proof that nothing acknowledged is lost: histories in virtual time, one seed each.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod chance;
pub mod drive;
pub mod image;
pub mod model;
pub mod mutant;
pub mod power;
pub mod reference;
pub mod setup;
pub mod shrink;
pub mod tree;
pub mod workload;
pub mod world;

pub use mutant::Mutant;
pub use workload::{History, Step};
pub use world::{Failure, Rules, Tally, run};
