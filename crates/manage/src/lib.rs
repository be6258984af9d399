//! How people and programs command arrays.
//!
//! ```text
//!   cli ─ commands ─ client ──HTTP over a unix socket──▶ control ─ service ─ lanes (stria-host)
//!                 └ serve: makes the service, its control socket and its NBD server
//! ```
//! [`api`] is what crosses the socket; nothing else does. The crate knows no strips and no parity: it reads what
//! arrays tell of themselves, and passes commands on.
#![forbid(unsafe_code)]

pub mod api;
mod bench;
mod beside;
pub mod cli;
pub mod client;
mod commands;
mod control;
mod demo;
mod event_log;
mod failure;
mod lab;
mod lane_spec;
mod output;
mod price;
mod progress;
mod serve;
mod service;
mod sim;
pub mod size;
mod sockets;
mod view;

pub use failure::Failure;

use clap::Parser;
use std::process::ExitCode;

/// The program.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let json = cli.json;
    match commands::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if json {
                output::print_json(
                    &serde_json::json!({"error": {"exit_code": failure.exit_code(), "message": failure.to_string()}}),
                );
            }
            eprintln!("stria: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
