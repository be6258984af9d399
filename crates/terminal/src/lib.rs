//! The parts of the user interface that `stria` and its tools share: exit codes, error messages, words and JSON, sizes, progress
//! bars, and the search for another of these programs.
//!
//! The crate knows no array and no drive. Only the feature `host` uses that crate, for the exit codes of its errors.
#![forbid(unsafe_code)]

pub mod describe;
mod failure;
mod memory_limit;
pub mod output;
pub mod program;
pub mod progress;
pub mod size;
mod size_limit;

pub use failure::Failure;
pub use memory_limit::memory_limit_warning;

use clap::{Parser, error::Error};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stria_block::{NO_THREAD, with_limit};

/// The exit code of a command that was carried out and found a problem: a degraded array, or mismatches in a scrub, or sectors
/// that it could not compare.
pub const NOT_WELL: u8 = 3;

/// Runs a tool: a program that `stria` starts for one of its subcommands. [`output::tell_lines`] prints its errors, which may
/// quote lines.
///
/// `json`: true if the command line asks for JSON. `command` carries it out, as JSON or not, and returns the exit code.
pub fn run_tool<C: Parser>(json: fn(&C) -> bool, command: impl FnOnce(C, bool) -> Result<u8, Failure>) -> ExitCode {
    if std::env::args_os().skip(1).eq([describe::FLAG]) {
        output::print_json(&describe::describe(C::command()));
        return ExitCode::SUCCESS;
    }
    // `stria --json sim price`: the parser would take the flag for an option of `sim`, which excludes subcommands.
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let first = arguments.get(1).is_some_and(|argument| argument == "--json");
    if first {
        arguments.remove(1);
    }
    tell_missing_threads();
    run(C::try_parse_from(arguments), |parsed| first || json(parsed), command, output::tell_lines)
}

/// The standard library panics where the system gives no thread. A tool then ends with the reason: it changes nothing that
/// another thread would have to end well.
fn tell_missing_threads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<String>().is_some_and(|words| words.starts_with("failed to spawn thread")) {
            output::tell_lines(&format!("the system gives no further thread: {NO_THREAD}"));
            std::process::exit(1);
        }
        usual(info);
    }));
}

/// Carries out a parsed command line. Prints the reason of a failure by `tell` and, where JSON is asked for, as JSON.
pub fn run<C>(
    parsed: Result<C, Error>,
    json: impl FnOnce(&C) -> bool,
    command: impl FnOnce(C, bool) -> Result<u8, Failure>,
    tell: fn(&str),
) -> ExitCode {
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return not_understood(&error),
    };
    let json = json(&parsed);
    size_limit::survive();
    if let Some(words) = memory_limit::too_small() {
        return failed(&Failure::Failed(words), json, tell);
    }
    match command(parsed, json) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failed(&failure, json, tell),
    }
}

/// Prints why a command failed. Returns its exit code.
pub fn failed(failure: &Failure, json: bool, tell: fn(&str)) -> ExitCode {
    let words = with_limit(&failure.to_string());
    if json {
        print_error(failure.exit_code(), &words);
    }
    tell(&words);
    ExitCode::from(failure.exit_code())
}

fn print_error(exit_code: u8, message: &str) {
    // In one line, as it may follow lines of what was done before.
    output::say(true, String::new, || serde_json::json!({"error": {"exit_code": exit_code, "message": message}}));
}

/// Ends an invalid command line, or one that asks for help.
fn not_understood(error: &Error) -> ExitCode {
    // The parser has failed, so the flag is searched for by hand.
    let json = std::env::args_os().any(|argument| argument == "--json");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        print_error(2, &first_paragraph(&text));
    }
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// What the parser does not understand, in one line: it lists arguments in lines of their own, and adds tips and usage after a
/// blank line.
fn first_paragraph(text: &str) -> String {
    let lines = text.trim_start_matches("error: ").lines().take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The absolute path: a serve and its commands may run in different folders. Links are not resolved.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The folder in which a user's programs store what they learned about this machine: `stria` in `$XDG_STATE_HOME`, or in
/// `~/.local/state`.
pub fn state_folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let base = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    base.unwrap_or_else(|| PathBuf::from("/var/lib")).join("stria")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON once ended at "were not provided:".
    #[test]
    fn a_usage_error_in_json_names_the_arguments() {
        let text =
            "error: the following required arguments were not provided:\n  --level <LEVEL>\n  <NAME>\n\nUsage: stria create\n";
        assert_eq!(first_paragraph(text), "the following required arguments were not provided: --level <LEVEL> <NAME>");
        assert_eq!(first_paragraph("error: unexpected argument '-x' found\n\n  tip: none\n"), "unexpected argument '-x' found");
    }
}
