//! The laboratory: fio makes the load, the lab decides what, how often and when it is steady, and keeps everything.
//!
//! ```text
//!   experiment (TOML) ─ plan ─ run ── fio ──▶ run folder (result) ──▶ statistics, report, comparison, export
//! ```
//! It knows nothing of the inside of arrays: it reaches them through fio and through the `stria` program, as users do.
#![forbid(unsafe_code)]

pub mod compare;
pub mod endurance;
pub mod export;
mod select;
pub mod theory;
pub mod report;
pub mod result;
pub mod stats;
pub mod trace;
