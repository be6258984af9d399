//! The laboratory: fio makes the load. The lab decides the loads, their repetition and whether they are steady, and stores all
//! results.
//!
//! ```text
//!   experiment (TOML) ─ plan ─ run ── fio ──▶ run folder (result) ──▶ statistics, report, comparison, export
//! ```
//! It does not know the internals of arrays: it uses them through fio and through the `stria` program, as users do.
#![forbid(unsafe_code)]

pub mod array;
pub mod compare;
pub mod endurance;
pub mod experiment;
pub mod export;
pub mod fio;
pub mod import;
mod lines;
pub mod md;
pub mod modelled;
mod nbd_uri;
mod others;
pub mod own;
pub mod plan;
pub mod purge;
pub mod purpose;
pub mod raid_runs;
mod remote;
pub mod replay;
pub mod replay_run;
pub mod report;
pub mod result;
pub mod run;
mod select;
pub mod shipped;
pub mod snia;
pub mod stage;
pub mod state;
pub mod stats;
pub mod steady;
pub mod target;
mod target_lock;
pub mod theory;
mod times;
pub mod trace;
pub mod units;
pub mod verify;
