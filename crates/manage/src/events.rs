//! What has happened to arrays: the events that a service remembers, those on disk, and what they tell of a view.

pub mod file;
pub mod log;
pub mod since;
