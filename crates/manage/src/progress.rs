//! Waits for a sweep: with a bar on a terminal, with a line now and then elsewhere. Interrupting the wait changes nothing.

use crate::api::{ArrayView, EventView, MemberView, SweepView};
use crate::client::{Client, array_path};
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use stria_terminal::output::say;
use stria_terminal::progress::{ProgressBar, bar};
use stria_terminal::{Failure, size};

/// How often the state is read.
const EVERY: Duration = Duration::from_millis(200);
/// How often a line is written without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How long to wait for the event of a sweep's end.
const EVENT_WITHIN: Duration = Duration::from_secs(10);

/// Waits until no sweep of these kinds runs or is due on the array. Returns how they ended, from event `sequence` on.
///
/// # Errors
/// When one was stopped before its end, or the serve is gone.
pub fn wait(client: &Client, name: &str, sequence: u64, kinds: &[&str], json: bool) -> Result<Vec<EventView>, Failure> {
    let bar = bar(0, "{prefix} [{bar:30}] {percent:>3} % {msg}", json);
    let mut line_due = Instant::now() + LINE_EVERY;
    let array = loop {
        let array: ArrayView = client.get(&array_path(name, ""))?;
        match running(&array, kinds) {
            Some(sweep) => show(&bar, &sweep),
            None if array.measuring || kinds.contains(&"rebuild") && is_filling(&array) => {}
            None => break array,
        }
        if let Some(sweep) = running(&array, kinds).filter(|_| bar.is_hidden() && !json && Instant::now() >= line_due) {
            eprintln!("{}", sweep_line(&sweep));
            line_due = Instant::now() + LINE_EVERY;
        }
        std::thread::sleep(EVERY);
    };
    bar.finish_and_clear();
    let mut ends = ends(client, sequence, kinds)?;
    // The event may come a moment after the sweep has left the state.
    let (expected, end) = (if kinds.contains(&"scrub") { redundant_count(&array) } else { 0 }, Instant::now() + EVENT_WITHIN);
    while ends.len() < expected && Instant::now() < end {
        std::thread::sleep(EVERY / 10);
        ends = self::ends(client, sequence, kinds)?;
    }
    for event in &ends {
        say(json, || format!("{}: {}", event.array, event.text), || json!(event));
    }
    match ends.iter().find(|event| event.kind == "sweep_stopped") {
        // One that went on afterwards was only interrupted.
        Some(event) if !ends.iter().any(|end| end.array == event.array && end.kind == "sweep_finished") => {
            Err(Failure::Failed(format!("array \"{}\": {}", event.array, event.text)))
        }
        _ => Ok(ends),
    }
}

/// How sweeps of these kinds ended after event `sequence`.
///
/// # Errors
/// When the serve is gone.
pub fn ends(client: &Client, sequence: u64, kinds: &[&str]) -> Result<Vec<EventView>, Failure> {
    let events: Vec<EventView> = client.get(&format!("/v1/events?since={sequence}"))?;
    let ends = events.into_iter().filter(|event| event.sweep.as_deref().is_some_and(|sweep| kinds.contains(&sweep)));
    Ok(ends.filter(|event| event.kind == "sweep_finished" || event.kind == "sweep_stopped").collect())
}

/// The first sweep of these kinds, on the array or a span.
pub fn running(array: &ArrayView, kinds: &[&str]) -> Option<SweepView> {
    let own = array.sweep.as_ref().filter(|sweep| kinds.contains(&sweep.kind.as_str())).cloned();
    own.or_else(|| array.spans.iter().find_map(|span| running(span, kinds)))
}

/// How many arrays of the tree have redundancy: so many scrubs one command begins.
pub fn redundant_count(array: &ArrayView) -> usize {
    let own = array.spans.is_empty() && !matches!(&array.level[..], "0" | "jbod");
    usize::from(own) + array.spans.iter().map(redundant_count).sum::<usize>()
}

/// True if a member waits to be filled. False while sweeps are paused, as that wait would never end.
pub fn is_filling(array: &ArrayView) -> bool {
    !array.paused && has_targets(array)
}

/// True if a member is being filled, or will be once sweeps go on.
pub fn has_targets(array: &ArrayView) -> bool {
    let is_target = |member: &MemberView| member.role == "rebuilding" || member.role == "replacing";
    array.members.iter().any(is_target) || array.spans.iter().any(has_targets)
}

fn show(bar: &ProgressBar, sweep: &SweepView) {
    bar.set_prefix(sweep.kind.clone());
    bar.set_length(sweep.total_bytes);
    bar.set_position(sweep.done_bytes);
    // The speed of the last seconds, as in `status`, not the bar's own estimate.
    bar.set_message(sweep_speed(sweep));
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

/// `210 MiB/s, 25 s left`, and further details.
fn sweep_speed(sweep: &SweepView) -> String {
    let mut line = format!("{}/s", size::show(sweep.bytes_per_s));
    if let Some(seconds) = sweep.eta_s {
        let _ = write!(line, ", {} left", size::show_duration(seconds));
    }
    if let Some(speed) = sweep.held_bytes_per_s {
        let _ = write!(line, ", held to {}/s of each drive for clients", size::show(speed));
    }
    if sweep.mismatch_sectors > 0 {
        let _ = write!(line, ", mismatches in {} sectors", sweep.mismatch_sectors);
    }
    line
}
