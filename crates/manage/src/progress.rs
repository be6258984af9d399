//! Waiting for a sweep: a bar on a terminal, a line now and then elsewhere. Interrupting the wait changes nothing.

use crate::api::{ArrayView, EventView, SweepView};
use crate::client::{Client, array_path};
use crate::failure::Failure;
use crate::output::{say, sweep_line, sweep_speed};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How often is asked.
const EVERY: Duration = Duration::from_millis(200);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How long the event of a sweep's end may take.
const EVENT_WITHIN: Duration = Duration::from_secs(10);

/// Waits until no sweep of these kinds runs or is due on the array, and tells how they ended, from event `sequence` on.
///
/// # Errors
/// When one was stopped before its end, or the serve went away.
pub fn wait(client: &Client, name: &str, sequence: u64, kinds: &[&str], json: bool) -> Result<Vec<EventView>, Failure> {
    let bar = if io::stderr().is_terminal() && !json { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {percent:>3} % {msg}");
    bar.set_style(style.expect("the template is a constant").progress_chars("=> "));
    let mut line_due = Instant::now() + LINE_EVERY;
    let array = loop {
        let array: ArrayView = client.get(&array_path(name, ""))?;
        match running(&array, kinds) {
            Some(sweep) => show(&bar, &sweep),
            None if !kinds.contains(&"rebuild") || !is_filling(&array) => break array,
            None => {}
        }
        if let Some(sweep) = running(&array, kinds).filter(|_| bar.is_hidden() && !json && Instant::now() >= line_due) {
            eprintln!("{}", sweep_line(&sweep));
            line_due = Instant::now() + LINE_EVERY;
        }
        std::thread::sleep(EVERY);
    };
    bar.finish_and_clear();
    let mut ends = ends(client, sequence, kinds)?;
    // The event may come a moment after the sweep has gone from the state.
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
/// When the serve went away.
pub fn ends(client: &Client, sequence: u64, kinds: &[&str]) -> Result<Vec<EventView>, Failure> {
    let events: Vec<EventView> = client.get(&format!("/v1/events?since={sequence}"))?;
    let ends = events.into_iter().filter(|event| event.sweep.as_deref().is_some_and(|sweep| kinds.contains(&sweep)));
    Ok(ends.filter(|event| event.kind == "sweep_finished" || event.kind == "sweep_stopped").collect())
}

fn running(array: &ArrayView, kinds: &[&str]) -> Option<SweepView> {
    let own = array.sweep.as_ref().filter(|sweep| kinds.contains(&sweep.kind.as_str())).cloned();
    own.or_else(|| array.spans.iter().find_map(|span| running(span, kinds)))
}

/// How many arrays of the tree have redundancy, which is how many scrubs one command begins.
fn redundant_count(array: &ArrayView) -> usize {
    let own = array.spans.is_empty() && !matches!(&array.level[..], "0" | "jbod");
    usize::from(own) + array.spans.iter().map(redundant_count).sum::<usize>()
}

/// Whether a member waits to be filled; not while sweeps are held, or that would be for ever.
fn is_filling(array: &ArrayView) -> bool {
    let filling = array.members.iter().any(|member| member.role == "rebuilding" || member.role == "replacing");
    (filling && !array.paused) || array.spans.iter().any(is_filling)
}

fn show(bar: &ProgressBar, sweep: &SweepView) {
    bar.set_prefix(sweep.kind.clone());
    bar.set_length(sweep.total_bytes);
    bar.set_position(sweep.done_bytes);
    // As `status` says it, of the last seconds, and not what the bar has seen of it.
    bar.set_message(sweep_speed(sweep));
}
