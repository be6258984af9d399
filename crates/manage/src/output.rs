//! Words for people and JSON for programs, on standard output; the log on standard error.

use crate::api::{ArrayView, ChecksumView, LatencyView, SweepView};
use crate::failure::Failure;
use crate::size;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

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
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// One line, in words or as JSON.
pub fn say(json: bool, words: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
    print(&line(json, words, value));
}

/// See [`say`].
pub fn line(json: bool, words: impl FnOnce() -> String, value: impl FnOnce() -> Value) -> String {
    format!("{}\n", if json { value().to_string() } else { words() })
}

/// A value as indented JSON.
pub fn print_json(value: &impl Serialize) {
    print(&format!("{}\n", serde_json::to_string_pretty(value).expect("plain data becomes JSON")));
}

/// Sends log lines to standard error, with colours on a terminal.
pub fn log_to_stderr(level: tracing::Level) {
    let ansi = io::stderr().is_terminal();
    // Another log is there already only in tests of the library.
    let _ = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(ansi).with_target(false).with_max_level(level).try_init();
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
    eprint!("{question} [y/N] ");
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
    table.load_preset(presets::NOTHING).set_header(header.iter().map(Cell::new));
    for row in rows {
        table.add_row(row);
    }
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
    let mut line = format!("{} [{bar}] {percent:.1} %, {done} of {all}, {}/s", sweep.kind, size::show(sweep.bytes_per_s));
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

/// `85 µs (p99 210 µs, 3 slow)`
fn show_latency(latency: &LatencyView) -> String {
    let time = |us: u64| if us < 10_000 { format!("{us} µs") } else { format!("{} ms", us / 1000) };
    let slow = if latency.slow_count > 0 { format!(", {} slow", latency.slow_count) } else { String::new() };
    format!("{} (p99 {}{slow})", time(latency.median_us), time(latency.p99_us))
}

/// Everything about an array, for people.
pub fn array(view: &ArrayView) -> String {
    let mut text = String::new();
    describe(&mut text, view, "");
    text
}

fn describe(text: &mut String, view: &ArrayView, indent: &str) {
    let mut say = |name: &str, value: &str| {
        let _ = writeln!(text, "{indent}{name:<10}{value}");
    };
    say(if indent.is_empty() { "array" } else { "span" }, &view.name);
    say("state", &view.state);
    let strip = match (&view.strip_bytes, &view.strip_reason) {
        (Some(bytes), Some(reason)) => format!(", strip {} ({reason})", size::show(*bytes)),
        _ => String::new(),
    };
    let layout = if view.layout == "plain" { String::new() } else { format!(", layout {}", view.layout) };
    say("level", &format!("RAID {}{layout}{strip}", view.level));
    say("size", &format!("{} ({} bytes)", size::show(view.size_bytes), view.size_bytes));
    say("uuid", &view.uuid);
    if let Some(sweep) = &view.sweep {
        say("sweep", &sweep_line(sweep));
    }
    if let Some(count) = view.mismatch_sectors {
        say("scrub", &format!("the last one found {count} sectors that disagree"));
    }
    if let Some(bitmap) = &view.bitmap {
        let chunk = size::show(bitmap.chunk_bytes);
        say("bitmap", &format!("{} of {} bits set, {chunk} each", bitmap.dirty_count, bitmap.bit_count));
    }
    match &view.log {
        Some(log) if log.replaying => say("log", "being replayed after a crash"),
        Some(log) => {
            let size = size::show(log.append_bytes);
            let kind = if log.partial_parity { "partial parity log (md): " } else { "" };
            let replayed = match log.replayed_count {
                0 => String::new(),
                count => format!("; {count} of a crash replayed"),
            };
            let (records, appends) = (log.record_count, log.append_count);
            let full = match log.full_count {
                0 => String::new(),
                count => format!("; full {count} times"),
            };
            let early = format!("{} writes acknowledged by it", log.early_count);
            say("log", &format!("{kind}{records} records in {appends} appends, {size}, {early} since the start{full}{replayed}"));
        }
        None if ["4", "5", "6"].contains(&view.level.as_str()) => {
            say("log", "none: a crash together with a lost drive can damage data that was not being written");
        }
        None => {}
    }
    for lane in &view.lanes {
        say("lane", &lane.setup);
    }
    let checked: Vec<&ChecksumView> = view.members.iter().filter_map(|member| member.checksums.as_ref()).collect();
    if !checked.is_empty() {
        let sum = |of: fn(&ChecksumView) -> u64| checked.iter().map(|counts| of(counts)).sum::<u64>();
        let (verified, learned) = (sum(|counts| counts.verified), sum(|counts| counts.learned));
        let (wrong, mended) = (sum(|counts| counts.wrong), sum(|counts| counts.mended));
        let all = if checked.len() == view.members.len() { "" } else { " (not on every member)" };
        say("integrity", &format!("{verified} blocks verified, {learned} learned, {wrong} wrong, {mended} of them mended{all}"));
    }
    for uri in &view.exports {
        say("nbd", uri);
    }
    for client in &view.clients {
        let (read, written) = (size::show(client.read_bytes), size::show(client.written_bytes));
        let errors = if client.errors > 0 { format!(", {} errors", client.errors) } else { String::new() };
        say("client", &format!("{}: {} requests, {read} read, {written} written{errors}", client.peer, client.requests));
    }
    let mut rows: Vec<(usize, Vec<String>)> = Vec::new();
    for member in &view.members {
        let slot = member.slot.map_or("-".into(), |slot| slot.to_string());
        let io = match (member.direct, &member.direct_note) {
            (Some(true), _) => match member.way.as_deref() {
                Some("interrupts") | None => "direct".into(),
                Some(way) => format!("direct, {way}"),
            },
            (Some(false), note) => format!("buffered: {}", note.as_deref().unwrap_or("no reason known")),
            (None, _) => "a span".into(),
        };
        let role = match &member.failure {
            Some(failure) => format!("{}: {failure}", member.role),
            None => member.role.clone(),
        };
        let role = match member.waiting_ms {
            Some(waiting @ 1000..) => format!("{role}, no answer for {}", size::show_duration(waiting / 1000)),
            _ => role,
        };
        let role = match member.hedged_reads {
            0 => role,
            count => format!("{role}, {count} slow reads answered by others"),
        };
        let wrong = match (member.wrong_sectors, member.repaired_sectors) {
            (wrong, 0) => wrong.to_string(),
            (wrong, repaired) => format!("{wrong}, {repaired} repaired"),
        };
        // By checksum, in sectors as by redundancy.
        let wrong = match member.checksums {
            Some(ChecksumView { wrong: found, mended, .. }) if found > 0 => {
                format!("{wrong}, {} by checksum, {} mended", found * 8, mended * 8)
            }
            _ => wrong,
        };
        let counts = [
            member.read_count.to_string(),
            member.write_count.to_string(),
            size::show(member.read_bytes),
            size::show(member.written_bytes),
            member.read_errors.to_string(),
            wrong,
        ];
        let latency = |latency: &Option<LatencyView>| latency.as_ref().map_or("-".into(), show_latency);
        let times = vec![latency(&member.read_latency), latency(&member.write_latency)];
        let order = if member.role == "failed" || member.slot.is_none() { usize::MAX } else { member.slot.unwrap_or(usize::MAX) };
        rows.push((order, [vec![slot, member.path.clone(), role], counts.to_vec(), times, vec![io]].concat()));
    }
    for slot in &view.missing_slots {
        rows.push((*slot, vec![slot.to_string(), "-".into(), "missing".into()]));
    }
    rows.sort_by_key(|(order, _)| *order);
    let header =
        ["slot", "member", "role", "reads", "writes", "read", "written", "errors", "wrong", "read time", "write time", "I/O"];
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    for line in table(&header, &[3, 4, 5, 6, 7, 8], rows).lines() {
        let _ = writeln!(text, "{indent}  {line}");
    }
    for span in &view.spans {
        describe(text, span, &format!("{indent}  "));
    }
}
