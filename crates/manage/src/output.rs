//! Words for people and JSON for programs, on standard output; the log on standard error.
//!
//! All that is written passes here and through [`stria_block::shown`], so that names from drives and clients command no terminal.
//! Line ends stay in words of several lines: put such words together of names that were [`shown`] before.

use crate::api::SweepView;
use crate::failure::Failure;
use crate::size;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use stria_block::{shown_json, shown_lines, shown_sentence};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;

/// Writes to standard output at once. A reader that has gone ends the program, quietly, as with any filter.
pub fn print(text: &str) {
    if try_print(text).is_err() {
        std::process::exit(0);
    }
}

/// Writes to standard output at once.
///
/// # Errors
/// When the reader has gone.
pub fn try_print(text: &str) -> io::Result<()> {
    write_out(&shown_lines(text).to_string())
}

/// Clears the terminal for what is printed next.
pub fn clear_terminal() {
    let _ = write_out("\x1b[H\x1b[2J");
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// One sentence on standard error, after the program's name.
pub fn tell(sentence: &str) {
    eprintln!("stria: {}", shown_sentence(sentence));
}

/// The same of several lines.
pub fn tell_lines(text: &str) {
    eprintln!("stria: {}", shown_lines(text));
}

/// One line, in words or as JSON.
pub fn say(json: bool, words: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
    print(&line(json, words, value));
}

/// See [`say`].
pub fn line(json: bool, words: impl FnOnce() -> String, value: impl FnOnce() -> Value) -> String {
    match json {
        true => format!("{}\n", shown_json(&value().to_string())),
        false => format!("{}\n", shown_sentence(&words())),
    }
}

/// A value as indented JSON.
pub fn print_json(value: &impl Serialize) {
    print(&format!("{}\n", shown_json(&serde_json::to_string_pretty(value).expect("plain data becomes JSON"))));
}

/// Sends log lines to standard error, with colours on a terminal unless `NO_COLOR` is set (no-color.org).
pub fn log_to_stderr(level: tracing::Level) {
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A message is one line, whatever names it holds.
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{}", shown_sentence(&format!("{value:?}"))),
        // The bridge from the `log` crate puts what the line shows already into fields of its own.
        name if name.starts_with("log.") => Ok(()),
        name => write!(writer, "{name}={}", shown_sentence(&format!("{value:?}"))),
    });
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(ansi).with_target(false).with_max_level(level);
    // A line that cannot be written is lost; otherwise the subscriber would report that on standard error too, and panic.
    // Another log is there already only in tests of the library.
    let _ = log.log_internal_errors(false).fmt_fields(fields.delimited(" ")).try_init();
}

/// Whether somebody sits there.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks before something is destroyed; `insisted`: it was said on the command line.
///
/// # Errors
/// A refusal when the answer is no, or nobody can be asked.
pub fn confirm(question: &str, insisted: bool) -> Result<(), Failure> {
    if insisted {
        return Ok(());
    }
    if !can_ask() {
        return Err(Failure::Unsafe(format!("{question} Nobody can be asked here: say --force to do it.")));
    }
    eprint!("{} [y/N] ", shown_sentence(question));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    match read {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::Unsafe("nothing was done".into())),
    }
}

/// A table without lines; columns named in `right` are numbers.
pub fn table(header: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.set_header(header.iter().map(Cell::new));
    finish(table, right, rows)
}

/// Names and what there is to say of each, in `width` columns: what is longer goes on in the next line.
pub fn paragraphs(width: u16, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    finish(table, &[], rows)
}

fn finish(mut table: Table, right: &[usize], rows: Vec<Vec<String>>) -> String {
    table.load_preset(presets::NOTHING);
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| shown_sentence(cell).to_string())));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// `rebuild [=======>            ]  37.5 %  3 GiB of 8 GiB, 210 MiB/s, 25 s left`
pub fn sweep_line(sweep: &SweepView) -> String {
    const WIDTH: u64 = 24;
    let total = sweep.total_bytes.max(1);
    let filled = (sweep.done_bytes.min(total) * WIDTH / total) as usize;
    let bar: String = (0..WIDTH as usize)
        .map(|at| {
            if at < filled {
                '='
            } else if at == filled {
                '>'
            } else {
                ' '
            }
        })
        .collect();
    let percent = sweep.done_bytes as f64 * 100.0 / total as f64;
    let (done, all) = (size::show(sweep.done_bytes), size::show(sweep.total_bytes));
    format!("{} [{bar}] {percent:.1} %, {done} of {all}, {}", sweep.kind, sweep_speed(sweep))
}

/// `210 MiB/s, 25 s left`, and what else there is to say of it.
pub fn sweep_speed(sweep: &SweepView) -> String {
    let mut line = format!("{}/s", size::show(sweep.bytes_per_s));
    if let Some(seconds) = sweep.eta_s {
        let _ = write!(line, ", {} left", size::show_duration(seconds));
    }
    if let Some(speed) = sweep.held_bytes_per_s {
        let _ = write!(line, ", held to {}/s of each drive for clients", size::show(speed));
    }
    if sweep.mismatch_sectors > 0 {
        let _ = write!(line, ", {} sectors disagree", sweep.mismatch_sectors);
    }
    line
}
