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
mod drive_name;
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
mod status;
mod view;

pub use failure::Failure;

use clap::Parser;
use std::process::ExitCode;

/// The program.
pub fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    let json = cli.json;
    // Errors in an experiment quote lines of it.
    let several = matches!(cli.command, cli::Command::Lab(_));
    match commands::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if json {
                print_error(failure.exit_code(), &failure.to_string());
            }
            match several {
                true => output::tell_lines(&failure.to_string()),
                false => output::tell(&failure.to_string()),
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn print_error(exit_code: u8, message: &str) {
    output::print_json(&serde_json::json!({"error": {"exit_code": exit_code, "message": message}}));
}

/// A command line that makes no sense, or one that asks for help.
fn not_understood(error: &clap::Error) -> ExitCode {
    // The parser has given up, so the flag is looked for by hand.
    let json = std::env::args_os().any(|argument| argument == "--json");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        print_error(2, text.trim_start_matches("error: ").lines().next().unwrap_or_default());
    }
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
