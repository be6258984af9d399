//! Words for people and JSON for programs, on standard output; errors and questions on standard error.
//!
//! All output passes here and through [`stria_block::shown`], so that names from drives and clients cannot control the terminal.
//! Line ends stay in text of several lines: build such text from names that went through `shown` before.

use crate::{Failure, absolute};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use stria_block::{shown_json, shown_lines, shown_sentence};

/// Writes to standard output at once. If the reader has gone, the program ends without a message, as any filter does.
pub fn print(text: &str) {
    if try_print(text).is_err() {
        std::process::exit(0);
    }
}

/// Writes to standard output at once.
///
/// # Errors
/// The reader has gone.
pub fn try_print(text: &str) -> io::Result<()> {
    write_out(&shown_lines(text).to_string())
}

/// Writes a file that was asked for, such as a report.
///
/// # Errors
/// Why it cannot be written, with its path.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let path = absolute(path);
    std::fs::write(&path, text).map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
}

/// Finds out whether [`write_file`] can write a file, before the work whose result it is to hold. A file that is there stays as it
/// is, and none is left behind.
///
/// # Errors
/// Usage: why it cannot be written, with its path, and what to do.
pub fn check_file(path: &Path) -> Result<(), Failure> {
    let path = absolute(path);
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot write {}: {why}", path.display()));
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => return Err(refuse(&"it is a folder; name a file in it")),
        // A pipe or a terminal: to open it would already tell its reader something.
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) => {
            let opened = OpenOptions::new().append(true).open(&path);
            return opened.map(|_| ()).map_err(|error| refuse(&format!("{error}; name another file")));
        }
        Err(_) => {}
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        return Err(refuse(&format!("{} is not a folder; make it, or name another file", folder.display())));
    }
    // `create_new`: a file that another program makes at the same time is not removed.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|error| refuse(&format!("{error}; name another file")))?;
    std::fs::remove_file(&path).map_err(|error| refuse(&format!("{error}; name another file")))
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

/// True if a person can answer on the terminal.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks before something is destroyed; `insisted`: the command line has confirmed it already.
///
/// # Errors
/// The answer is no, or there is no terminal to ask on.
pub fn confirm(question: &str, insisted: bool) -> Result<(), Failure> {
    confirm_by(question, insisted, "--yes")
}

/// The same of a command whose option to confirm is named otherwise.
///
/// # Errors
/// As [`confirm`].
pub fn confirm_by(question: &str, insisted: bool, option: &str) -> Result<(), Failure> {
    if insisted {
        return Ok(());
    }
    if !can_ask() {
        return Err(Failure::Unsafe(format!(
            "{question} There is no terminal to confirm it on: add {option} to do it without asking."
        )));
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

/// The same within `width` columns. Columns that do not fit stand in further tables below, each with the first `keys` columns
/// and the last one, which tell the rows apart. If the last is too long for that, each row is a paragraph below it. Nothing is
/// left out.
pub fn tables(width: u16, header: &[&str], right: &[usize], rows: Vec<Vec<String>>, keys: usize) -> String {
    let length = |text: &str| shown_sentence(text).to_string().chars().count();
    let column = |at: usize| rows.iter().map(|row| length(&row[at])).max().unwrap_or(0).max(length(header[at]));
    let (columns, last): (Vec<usize>, _) = ((0..header.len()).map(column).collect(), header.len() - 1);
    let fits = |chosen: &[usize]| chosen.iter().map(|&at| columns[at] + 2).sum::<usize>() <= usize::from(width) + 2;
    let with_keys = |others: &[usize]| [&(0..keys).collect::<Vec<_>>(), others, &[last]].concat();
    if fits(&with_keys(&(keys..last).collect::<Vec<_>>())) {
        return table(header, right, rows);
    }
    if (keys..last).any(|at| !fits(&with_keys(&[at]))) {
        let paragraph = |row: &Vec<String>| {
            let cells = header.iter().zip(row).take(last).filter(|(_, cell)| !cell.is_empty());
            let cells: Vec<String> = cells.map(|(name, cell)| format!("{name} {cell}")).collect();
            let lines = paragraphs(width - 2, vec![vec![cells.join(", ")]]);
            lines.lines().fold(shown_sentence(&row[last]).to_string(), |text, line| text + "\n  " + line)
        };
        return rows.iter().map(paragraph).collect::<Vec<_>>().join("\n");
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new()];
    for at in keys..last {
        let group = groups.last_mut().expect("there is one");
        match fits(&with_keys(&[&group[..], &[at]].concat())) {
            true => group.push(at),
            false => groups.push(vec![at]),
        }
    }
    let one = |group: &Vec<usize>| {
        let chosen = with_keys(group);
        let header: Vec<&str> = chosen.iter().map(|&at| header[at]).collect();
        let right: Vec<usize> = (0..chosen.len()).filter(|&at| right.contains(&chosen[at])).collect();
        table(&header, &right, rows.iter().map(|row| chosen.iter().map(|&at| row[at].clone()).collect()).collect())
    };
    groups.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

/// Names with a text each, in `width` columns. A longer text continues in the next line.
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
