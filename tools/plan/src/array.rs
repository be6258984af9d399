//! Levels and layouts, as controllers and md lay them out, and what a request to an array asks of its members.
//!
//! - [`level`]: a level by its columns, copies and parities.
//! - [`layout`]: from a range of the array to ranges of members.
//! - [`steps`]: the reads and writes of a request, step by step.

pub mod layout;
pub mod level;
pub mod steps;

pub use layout::Layout;
pub use level::Level;
