//! How users and programs control arrays.
//!
//! ```text
//!   cli ─ commands ─ client ──HTTP over a unix socket──▶ control ─ service ─ lanes (stria-host)
//!                 ├ daemon: makes the service for all arrays of the configuration, and starts each when its drives are here
//!                 └ serve: makes the service, its control socket, its NBD server and its disks of virtual machines
//! ```
//! What crosses the socket is in [`api`], and in `monitor` for alarms and health. The crate knows no strips and no parity: it
//! shows what arrays report, and passes commands on. The instruments (`stria lab` and others) are programs of their own (`tools`).
#![forbid(unsafe_code)]

pub mod alarm_words;
pub mod api;
mod atomic_file;
mod attach;
pub mod cli;
pub mod client;
mod clock;
mod commands;
mod config;
mod control;
mod daemon;
mod denial_words;
mod directory;
mod drive_name;
mod drive_words;
mod drop_words;
pub mod error_words;
mod event_file;
mod event_log;
pub mod event_words;
mod firmware_words;
mod foreign;
mod free;
mod health_words;
mod host_words;
mod io_words;
mod join_words;
mod keeper;
mod lane_spec;
mod ledger;
mod log;
mod matter;
mod mdadm;
mod meant;
mod monitor;
mod mounts;
mod nbd;
pub mod order_sentence;
mod order_words;
mod ownership;
mod plain_status;
pub mod plan_values;
pub mod plan_words;
mod pool;
mod progress;
mod refusal_words;
mod rest;
pub mod result_words;
mod routine;
mod serve;
mod service;
pub mod settings;
mod signals;
mod since;
mod sockets;
mod start_words;
mod status;
mod threads;
mod toml_line;
mod tools;
mod ublk;
mod udev;
mod vhost_user;
mod view;
pub mod warning_values;
pub mod warning_words;
mod wipe;

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
