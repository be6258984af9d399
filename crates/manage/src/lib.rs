//! How users and programs control arrays.
//!
//! ```text
//!   cli ─ commands ─ client ──HTTP over a unix socket──▶ control ─ service ─ lanes (stria-host)
//!                 ├ daemon: makes the service for all arrays of the configuration, and starts each when its drives are here
//!                 └ serve: makes the service, its control socket, its NBD server and its disks of virtual machines
//! ```
//! What crosses the socket is in [`api`], and in `monitor` for alarms and health. All sentences for people are in `words`. The
//! crate knows no strips and no parity: it shows what arrays report, and passes commands on. The instruments (`stria lab` and
//! others) are programs of their own (`tools`).
#![forbid(unsafe_code)]

pub mod api;
pub mod cli;
mod commands;
mod config;
mod control;
mod daemon;
mod drive_name;
mod events;
mod fronts;
mod keeper;
mod lane_spec;
mod ledger;
mod log;
mod matter;
mod meant;
mod monitor;
mod ownership;
mod pool;
mod progress;
mod rest;
mod routine;
mod serve;
mod service;
pub mod settings;
mod signals;
mod status;
mod system;
mod toml_line;
mod tools;
mod view;
mod wipe;
pub mod words;

pub use control::client;

use std::process::ExitCode;
use stria_terminal::output::tell;

/// The program.
pub fn main() -> ExitCode {
    if let Some(handover) = tools::Handover::of(std::env::args_os().skip(1)) {
        return stria_terminal::failed(&handover.start(), handover.json, tell);
    }
    if commands::wizard::is_asked_for(std::env::args_os().skip(1)) {
        return match commands::wizard::create() {
            Ok(cli) => stria_terminal::run(Ok(cli), |cli| cli.json, commands::run, tell),
            Err(failure) => stria_terminal::failed(&failure, false, tell),
        };
    }
    stria_terminal::run(cli::Cli::parse(), |cli| cli.json, commands::run, tell)
}

/// Runs a command line in this process, for the fuzzer.
///
/// # Errors
/// Why the command failed.
#[cfg(feature = "fuzzing")]
pub fn run(arguments: &[&str]) -> Result<(), stria_terminal::Failure> {
    use clap::Parser;
    let cli = cli::Cli::try_parse_from([&["stria"], arguments].concat())
        .map_err(|error| stria_terminal::Failure::Usage(error.to_string()))?;
    commands::run(cli, false).map(|_| ())
}
