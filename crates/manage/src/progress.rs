//! Waits for a sweep: with a bar on a terminal, with a line now and then elsewhere. Interrupting the wait changes nothing.

use crate::api::{ArrayView, EventView, HealthView, MemberView, SweepView};
use crate::control::client::{Client, array_path};
use crate::view::is_held;
use crate::words::error::ErrorSentence;
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
/// So long after its last sweep a rebuild that ended early is looked at: the engine begins those that it tries again sooner.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(15);

/// Waits until no sweep of these kinds runs or is due on the array. Returns how they ended, from event `sequence` on.
///
/// # Errors
/// When one was stopped before its end, or the serve is gone.
pub fn wait(client: &Client, name: &str, sequence: u64, kinds: &[&str], json: bool) -> Result<Vec<EventView>, Failure> {
    let bar = bar(0, "{prefix} [{bar:30}] {percent:>3} % {msg}", json);
    let mut line_due = Instant::now() + LINE_EVERY;
    let mut quiet = Quiet::default();
    let mut gave_up = false;
    let array = loop {
        let array: ArrayView = client.get(&array_path(name, ""))?;
        let is_quiet = quiet.lasts(&array, Instant::now());
        match running(&array, kinds) {
            Some(sweep) => show(&bar, &sweep),
            None if kinds.contains(&"rebuild") && is_quiet && is_given_up(&array, &self::ends(client, 0, kinds)?) => {
                gave_up = true;
                break array;
            }
            None if kinds.contains(&"scrub") && is_filling(&array) && gave_way(&self::ends(client, sequence, kinds)?) => {}
            None if array.condition.measuring || kinds.contains(&"rebuild") && is_filling(&array) => {}
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
        _ if gave_up => Err(Failure::Failed(format!("array \"{name}\": {}", ErrorSentence::RebuildGaveUp {}))),
        _ => Ok(ends),
    }
}

/// True if a sweep has paused and not gone on yet: a scrub does for a rebuild. `ends`: those of its kind.
fn gave_way(ends: &[EventView]) -> bool {
    let is_last = |index: usize, end: &EventView| ends[index + 1..].iter().all(|later| later.array != end.array);
    ends.iter().enumerate().any(|(index, end)| is_held(end) && is_last(index, end))
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
    let own = array.redundancy.sweep.as_ref().filter(|sweep| kinds.contains(&sweep.kind.as_str())).cloned();
    own.or_else(|| array.parts.spans.iter().find_map(|span| running(span, kinds)))
}

/// How many arrays of the tree have redundancy: so many scrubs one command begins.
pub fn redundant_count(array: &ArrayView) -> usize {
    let own = array.parts.spans.is_empty() && !matches!(&array.geometry.level[..], "0" | "jbod");
    usize::from(own) + array.parts.spans.iter().map(redundant_count).sum::<usize>()
}

/// True if a member waits to be filled. False while sweeps are paused, as that wait would never end.
pub fn is_filling(array: &ArrayView) -> bool {
    !array.condition.paused && has_targets(array)
}

fn is_target(member: &MemberView) -> bool {
    member.role == "rebuilding" || member.role == "replacing"
}

/// True if a member is being filled, or will be once sweeps go on.
pub fn has_targets(array: &ArrayView) -> bool {
    array.parts.members.iter().any(is_target) || array.parts.spans.iter().any(has_targets)
}

/// How long a member has waited to be filled while no sweep runs, and none is held.
#[derive(Default)]
pub struct Quiet(Option<Instant>);

impl Quiet {
    /// Takes the next view. True if this has lasted for so long that a rebuild would have begun.
    pub fn lasts(&mut self, array: &ArrayView, now: Instant) -> bool {
        let runs = running(array, &["resync", "rebuild", "scrub", "repair"]).is_some();
        if runs
            || array.condition.paused
            || array.condition.measuring
            || array.condition.silent_s.is_some()
            || !has_targets(array)
        {
            self.0 = None;
            return false;
        }
        now.duration_since(*self.0.get_or_insert(now)) >= GIVEN_UP_AFTER
    }
}

/// True if every array of the tree with a member to fill has failed, or stopped its last rebuild for good. `ends`: those of its
/// rebuilds.
pub fn is_given_up(array: &ArrayView, ends: &[EventView]) -> bool {
    let has_own = array.parts.members.iter().any(is_target);
    let last = ends.iter().rfind(|end| end.array == array.identity.name);
    let is_over =
        array.condition.health == HealthView::Failed || last.is_some_and(|end| end.kind == "sweep_stopped" && !is_held(end));
    (!has_own || is_over) && array.parts.spans.iter().all(|span| is_given_up(span, ends))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::said_event;
    use crate::words::event::EventSentence;
    use stria_host::{HostSentence, Sweep};

    fn array(name: &str, health: &str, role: &str, spans: Vec<serde_json::Value>) -> serde_json::Value {
        json!({"name": name, "full_name": name, "uuid": "", "level": "5", "layout": "", "size_bytes": 0, "health": health, "state": "",
            "clean": true, "read_only": false, "paused": false, "missing_slots": [], "spans": spans, "resync_pending": false, "in_flight": 0,
            "events": 0, "created_s": 0, "exports": [], "clients": [],
            "members": [{"slot": 0, "path": "/a", "role": role, "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0,
                "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0}]})
    }

    fn of(view: serde_json::Value) -> ArrayView {
        serde_json::from_value(view).expect("a view")
    }

    #[test]
    fn a_scrub_that_gave_way_goes_on_until_it_has_ended() {
        let end = |array: &str, kind: &str, text: &str| crate::view::plain_event(array, kind, text.into());
        let gives_way = EventSentence::Host(HostSentence::SweepGivesWay { sweep: Sweep::Scrub, percent: 40 });
        let held = said_event("tank", "sweep_stopped", gives_way);
        let over = end("tank", "sweep_finished", "");
        assert!(gave_way(std::slice::from_ref(&held)) && gave_way(&[over.clone(), held.clone()]));
        assert!(gave_way(&[held.clone(), end("lake", "sweep_finished", "")]), "another array's");
        assert!(
            !gave_way(&[held.clone(), over]) && !gave_way(&[held, end("tank", "sweep_stopped", "cancelled")]) && !gave_way(&[])
        );
    }

    #[test]
    fn a_rebuild_is_given_up_when_its_last_sweep_stopped_for_good_or_its_array_has_failed() {
        let end = |array: &str, kind: &str, text: &str| crate::view::plain_event(array, kind, text.into());
        let paused = EventSentence::Host(HostSentence::SweepPaused { sweep: Sweep::Rebuild, percent: 40 });
        let held = said_event("tank", "sweep_stopped", paused);
        let stopped = end("tank", "sweep_stopped", "rebuild stopped: /b cannot be read");
        let filled = of(array("tank", "degraded", "rebuilding", vec![]));
        assert!(!is_given_up(&filled, &[]) && !is_given_up(&filled, &[stopped.clone(), held]), "it goes on");
        assert!(is_given_up(&filled, &[end("tank", "sweep_finished", ""), stopped.clone()]));
        assert!(!is_given_up(&filled, &[end("lake", "sweep_stopped", "")]), "another array's");
        assert!(is_given_up(&of(array("tank", "failed", "rebuilding", vec![])), &[]));
        // A span with a member to fill goes on, although the other one has stopped.
        let spans = vec![array("tank-0", "degraded", "rebuilding", vec![]), array("tank-1", "degraded", "rebuilding", vec![])];
        let both = of(array("tank", "degraded", "in sync", spans));
        let ends = [end("tank-0", "sweep_stopped", ""), end("tank-1", "sweep_stopped", "")];
        assert!(!is_given_up(&both, &ends[..1]) && is_given_up(&both, &ends));
    }

    #[test]
    fn a_rebuild_that_is_held_or_about_to_begin_is_not_given_up() {
        let (mut quiet, start) = (Quiet::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let filled = of(array("tank", "degraded", "rebuilding", vec![]));
        assert!(!quiet.lasts(&filled, at(0)) && !quiet.lasts(&filled, at(14)) && quiet.lasts(&filled, at(15)));
        let mut paused = filled.clone();
        paused.condition.paused = true;
        assert!(!quiet.lasts(&paused, at(16)));
        assert!(!quiet.lasts(&filled, at(17)) && !quiet.lasts(&filled, at(31)) && quiet.lasts(&filled, at(32)), "anew");
        assert!(!quiet.lasts(&of(array("tank", "optimal", "in sync", vec![])), at(60)));
    }
}
