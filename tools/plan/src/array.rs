//! Arrays of drives behind a [backplane](crate::backplane).
//!
//! - [`layout`]: from a range of the array to ranges of members.
//! - [`engine`]: the array as Stria's engine makes it.
//! - [`stepped`]: its plain twin, by the reads and writes of a request step by step ([`steps`]).

pub mod engine;
pub mod layout;
pub mod stepped;
pub mod steps;

pub use crate::level::Level;
pub use layout::Layout;
