//! The log of a serve.

use std::io::{self, IsTerminal};
use stria_block::shown_sentence;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;

/// Sends log lines to standard error, with colours on a terminal unless `NO_COLOR` is set (no-color.org).
pub fn log_to_stderr(level: tracing::Level) {
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A message is one line, whatever names are in it.
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{}", shown_sentence(&format!("{value:?}"))),
        // The bridge from the `log` crate repeats parts of the line in fields of its own.
        name if name.starts_with("log.") => Ok(()),
        name => write!(writer, "{name}={}", shown_sentence(&format!("{value:?}"))),
    });
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(ansi).with_target(false).with_max_level(level);
    // A line that cannot be written is lost; otherwise the subscriber would report that on standard error too, and panic. Only
    // in tests of the library is there another log already.
    let _ = log.log_internal_errors(false).fmt_fields(fields.delimited(" ")).try_init();
    if let Some(words) = stria_terminal::memory_limit_warning() {
        tracing::warn!("{words}");
    }
}
