//! The step from the views of arrays to alarms: causes that stand, and events since the last look. It is pure: it holds what it has seen.

use super::board::DriveEntry;
use crate::api::{AdoptedView, ArrayView, EventView, HealthView, MemberView};
use crate::view::{all_members, found_mismatch, is_lost, is_unseen, was_replaced};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stria_alarm::{AlarmConfig, Condition, Event};
use stria_health::{DriveHealth, SlowMember, Verdict};
use stria_terminal::size;

/// A member or an array that has not answered for so long is told.
const SILENT: Duration = Duration::from_secs(5);
/// The time that an array may take to start when it no longer waits.
const STARTING: Duration = Duration::from_secs(5);
/// So long after the last data was lost that is told as a cause that lasts.
const UNREADABLE_LASTS: Duration = Duration::from_secs(3600);

/// The causes that stand, and the events since the last look.
#[derive(Debug, Default)]
pub struct Seen {
    /// The causes that stand.
    pub conditions: Vec<Condition>,
    /// The events since the last look.
    pub happenings: Vec<Condition>,
    /// Arrays that are no longer served.
    pub gone: Vec<String>,
    /// Arrays that do not answer: what was last known of them is old.
    silent: Vec<String>,
    /// Drives that reported nothing about themselves: array and path.
    unread: Vec<(String, String)>,
}

impl Seen {
    /// True if nobody can tell at present whether this cause lasts.
    pub fn is_unknown(&self, cause: &Condition) -> bool {
        let is_of_drive = matches!(cause.event, Event::DriveWatch | Event::DriveReplace);
        let is_unread = |(array, path): &(String, String)| *array == cause.array && cause.component.as_ref() == Some(path);
        let is_told_by_array = !matches!(cause.event, Event::ArraySilent | Event::NotServed);
        is_told_by_array && self.silent.contains(&cause.array) || is_of_drive && self.unread.iter().any(is_unread)
    }
}

/// A member that was dropped while it was looked at.
struct Lost {
    path: String,
    was_spare: bool,
}

/// The memory of one array.
#[derive(Default)]
struct Known {
    /// It was degraded when it was first seen, and has been since.
    came_degraded: bool,
    lost: Vec<Lost>,
    /// The role of each member at the last look.
    roles: BTreeMap<String, String>,
    /// The progress of a sweep that was told last, in per cent, by span and kind.
    progress: BTreeMap<(String, String), u8>,
    unreadable: Option<(Instant, String)>,
}

/// Looks at arrays.
pub struct Observer {
    spares: BTreeMap<String, usize>,
    rebuild_step: u8,
    arrays: BTreeMap<String, Known>,
    /// The arrays of the configuration that are not served, by UUID.
    not_served: BTreeMap<String, Missing>,
}

/// The memory of an array that is not served.
struct Missing {
    /// The reason, and since when it is this one: the time that a start waits begins anew when a drive comes.
    text: String,
    since: Instant,
    is_told: bool,
}

impl Observer {
    /// Nothing was seen yet.
    pub fn new(config: &AlarmConfig) -> Self {
        Self {
            spares: config.spares.clone(),
            rebuild_step: config.rebuild_step,
            arrays: BTreeMap::new(),
            not_served: BTreeMap::new(),
        }
    }

    /// Takes the views of all arrays, the events since the last look, and what is known of drives. `slow`: the slow members of an array.
    pub fn look(
        &mut self,
        now: Instant,
        views: &[ArrayView],
        events: &[EventView],
        drives: &[DriveEntry],
        slow: impl Fn(&str) -> Vec<SlowMember>,
    ) -> Seen {
        let mut seen = Seen::default();
        for view in views {
            if view.silent_s.is_some() {
                seen.silent.push(view.name.clone());
            }
            // Of an array that has never answered nothing else is known.
            if !is_unseen(view) {
                self.look_at(now, view, events, &mut seen);
            }
            lasting(view, &slow(&view.name), &mut seen.conditions);
            health(view, drives, &mut seen);
        }
        let is_here = |name: &String| views.iter().any(|view| view.name == *name);
        for name in self.arrays.keys().filter(|name| !is_here(name)) {
            seen.happenings.push(condition(
                Event::DeviceDisappeared,
                name,
                None,
                format!("array \"{name}\" is no longer served"),
            ));
            seen.gone.push(name.clone());
        }
        self.arrays.retain(|name, _| views.iter().any(|view| view.name == *name));
        seen
    }

    /// Takes the arrays that should be served and are not. Each is told when it has been so for `patience`, as drives may still come.
    pub fn look_for_missing(&mut self, now: Instant, missing: &[AdoptedView], patience: Duration, seen: &mut Seen) {
        self.not_served.retain(|uuid, _| missing.iter().any(|array| array.uuid == *uuid));
        for AdoptedView { name, uuid, text, .. } in missing {
            let new = || Missing { text: text.clone(), since: now, is_told: false };
            let known = self.not_served.entry(uuid.clone()).or_insert_with(new);
            if known.text != *text {
                (known.text, known.since) = (text.clone(), now);
            }
            known.is_told |= now.duration_since(known.since) >= patience + STARTING;
            if known.is_told {
                let text = format!("array \"{name}\" is not served: {text}");
                seen.conditions.push(condition(Event::NotServed, name, None, text));
            }
        }
    }

    fn look_at(&mut self, now: Instant, view: &ArrayView, events: &[EventView], seen: &mut Seen) {
        let name = &view.name;
        let is_new = !self.arrays.contains_key(name);
        let known = self.arrays.entry(name.clone()).or_default();
        if is_new {
            // Only what fails during this run is listed as failed.
            let failed = present(view).into_iter().filter(|member| has_failed(member));
            known.lost = failed.map(|member| Lost { path: member.path.clone(), was_spare: false }).collect();
            known.came_degraded = view.health != HealthView::Optimal && known.lost.is_empty();
            seen.happenings.push(condition(Event::NewArray, name, None, format!("array \"{name}\" is served")));
        }
        members(known, view, seen);
        sweeps(known, view, events, self.rebuild_step, seen);
        known.came_degraded &= view.health != HealthView::Optimal;
        if known.came_degraded {
            let text = format!("array \"{name}\" was degraded when it was first seen: {}", view.headline);
            seen.conditions.push(condition(Event::DegradedArray, name, None, text));
        }
        let spare_count = all_members(view).iter().filter(|member| member.role == "spare").count();
        if let Some(&wanted) = self.spares.get(name).filter(|&&wanted| spare_count < wanted) {
            let text =
                format!("array \"{name}\" has {spare_count} spares and should have {wanted}: `stria add {name} DRIVE` adds one");
            seen.conditions.push(condition(Event::SparesMissing, name, None, text));
        }
        let spans = tree(view);
        let is_of = |event: &&EventView| event.kind == "unreadable" && spans.iter().any(|span| span.name == event.array);
        if let Some(event) = events.iter().rfind(is_of) {
            known.unreadable = Some((now, event.text.clone()));
        }
        known.unreadable.take_if(|(since, _)| now.duration_since(*since) >= UNREADABLE_LASTS);
        if let Some((_, text)) = &known.unreadable {
            seen.conditions.push(condition(Event::Unreadable, name, None, format!("array \"{name}\" has lost data: {text}")));
        }
    }
}

fn condition(event: Event, array: &str, component: Option<&str>, text: String) -> Condition {
    Condition { event, array: array.into(), component: component.map(str::to_owned), text }
}

/// An array and its spans.
fn tree(view: &ArrayView) -> Vec<&ArrayView> {
    std::iter::once(view).chain(view.spans.iter().flat_map(tree)).collect()
}

/// The members of an array and its spans, each once: of a drive that failed and was added again, what it is now.
fn present(view: &ArrayView) -> Vec<&MemberView> {
    let mut present: Vec<&MemberView> = Vec::new();
    for member in all_members(view) {
        present.retain(|known| known.path != member.path);
        present.push(member);
    }
    present
}

/// True if it was dropped, and not because another member has taken its slot by command, or if it is lost and keeps its slot.
fn has_failed(member: &MemberView) -> bool {
    member.role == "failed" && !was_replaced(member) || is_lost(member)
}

/// Members that were dropped or lost since the last look, and those that have become active.
fn members(known: &mut Known, view: &ArrayView, seen: &mut Seen) {
    let present = present(view);
    for (path, role) in &known.roles {
        let now = present.iter().find(|member| member.path == *path);
        let is_gone = match now {
            Some(member) => has_failed(member) && role != "failed",
            // Dropped and removed between two looks. Only a spare may be removed while it works.
            None => role != "spare" && role != "failed" && view.health != HealthView::Optimal,
        };
        if is_gone && !known.lost.iter().any(|lost| lost.path == *path) {
            known.lost.push(Lost { path: path.clone(), was_spare: role != "in sync" });
        }
        if now.is_some_and(|member| member.role == "in sync") && role != "in sync" {
            let text = format!("{path} is an active member of array \"{}\"", view.name);
            seen.happenings.push(condition(Event::SpareActive, &view.name, Some(path), text));
        }
    }
    for lost in &known.lost {
        let member = present.iter().find(|member| member.path == lost.path);
        let why = member.and_then(|member| member.failure.as_deref()).map_or_else(String::new, |failure| format!(": {failure}"));
        let (name, path, headline) = (&view.name, &lost.path, &view.headline);
        // More than the level survives: it still has the slot.
        let verb = if member.is_some_and(|member| is_lost(member)) { "was lost" } else { "was dropped" };
        let (event, kind) = if lost.was_spare { (Event::FailSpare, "spare") } else { (Event::Fail, "member") };
        let text = format!("{kind} {path} of array \"{name}\" {verb}{why}; the array now: {headline}");
        seen.conditions.push(condition(event, name, Some(path), text));
    }
    // Told at least once, even if a spare has already taken over.
    known.lost.retain(|lost| match lost.was_spare {
        true => present.iter().any(|member| member.path == lost.path && member.role == "failed"),
        false => view.health != HealthView::Optimal,
    });
    known.roles = present.iter().map(|member| (member.path.clone(), member.role.clone())).collect();
}

/// Sweeps that began, ended, or have reached the next step.
fn sweeps(known: &mut Known, view: &ArrayView, events: &[EventView], step: u8, seen: &mut Seen) {
    let name = &view.name;
    for span in tree(view) {
        for event in events.iter().filter(|event| event.array == span.name) {
            let Some(kind) = &event.sweep else { continue };
            let mut happened = |what, component: Option<&str>| {
                seen.happenings.push(condition(what, name, component, format!("{}: {}", event.array, event.text)));
            };
            match event.kind.as_str() {
                "sweep_started" => happened(Event::RebuildStarted, None),
                "sweep_finished" => {
                    let count = event.mismatch_sectors.filter(|&count| count > 0);
                    let words = count.map(|count| format!("mismatches found: {count} (on raid level {})", span.level));
                    happened(Event::RebuildFinished, words.as_deref());
                    known.progress.remove(&(span.name.clone(), kind.clone()));
                }
                _ => {}
            }
        }
        let Some(sweep) = span.sweep.as_ref().filter(|_| step > 0) else { continue };
        let percent = (sweep.done_bytes.min(sweep.total_bytes) * 100 / sweep.total_bytes.max(1)) as u8;
        let reached = percent / step * step;
        let told = known.progress.entry((span.name.clone(), sweep.kind.clone())).or_default();
        if reached > *told && reached < 100 {
            let text = format!("{} of array \"{name}\" is at {percent} %", sweep.kind);
            seen.happenings.push(condition(Event::Rebuild(reached), name, None, text));
        }
        *told = reached;
    }
}

/// The causes that the view shows, and slow members.
fn lasting(view: &ArrayView, slow: &[SlowMember], conditions: &mut Vec<Condition>) {
    let name = &view.name;
    let mut so = |event, component: Option<&str>, text| conditions.push(condition(event, name, component, text));
    if let Some(seconds) = view.silent_s.filter(|&seconds| seconds >= SILENT.as_secs()) {
        so(Event::ArraySilent, None, format!("array \"{name}\" has not answered for {seconds} s; its clients wait"));
        // The rest of the view is older than that.
        return;
    }
    if let Some(reason) = &view.unreplayed {
        let what = "remove the cause, then stop and serve it again";
        so(
            Event::ReadOnly,
            None,
            format!("array \"{name}\" takes no writes: the replay after the last crash ended early ({reason}); {what}"),
        );
    }
    let full: Vec<&str> = present(view).into_iter().filter(|member| member.no_room).map(|member| member.path.as_str()).collect();
    if !full.is_empty() {
        let text =
            format!("writes to array \"{name}\" fail: no space for {}; free some on their file system or pool", full.join(", "));
        so(Event::NoSpace, None, text);
    }
    if found_mismatch(view) {
        let text = format!(
            "the last scrub of array \"{name}\" found redundancy that does not match; `stria status {name}` says what repairs it"
        );
        so(Event::Mismatch, None, text);
    }
    let silent_ms = SILENT.as_millis() as u64;
    for member in present(view).into_iter().filter(|member| member.role != "failed") {
        if let Some(waiting) = member.waiting_ms.filter(|&waiting| waiting >= silent_ms) {
            let (path, time) = (&member.path, size::show_duration(waiting / 1000));
            so(Event::MemberSilent, Some(path), format!("member {path} of array \"{name}\" has not answered for {time}"));
        }
    }
    for member in slow {
        let path = &member.path;
        let text = format!("member {path} of array \"{name}\" {}; it slows all of them", member.words());
        so(Event::SlowMember, Some(path), text);
    }
}

/// The causes that drives report of themselves.
fn health(view: &ArrayView, drives: &[DriveEntry], seen: &mut Seen) {
    for member in present(view).into_iter().filter(|member| member.role != "failed") {
        let entry = drives.iter().find(|entry| entry.path.as_os_str() == member.path.as_str());
        let health = entry.and_then(|entry| entry.health.as_ref());
        let Some(health @ DriveHealth { verdict, asleep, .. }) = health else {
            seen.unread.push((view.name.clone(), member.path.clone()));
            continue;
        };
        let event = match verdict {
            Verdict::Good if *asleep => {
                seen.unread.push((view.name.clone(), member.path.clone()));
                continue;
            }
            Verdict::Good => continue,
            Verdict::Watch => Event::DriveWatch,
            Verdict::Replace => Event::DriveReplace,
        };
        let reasons: Vec<&str> = health.findings.iter().map(|finding| finding.sentence.as_str()).collect();
        let text = format!("drive {} of array \"{}\": {}", member.path, view.name, reasons.join(". "));
        seen.conditions.push(condition(event, &view.name, Some(&member.path), text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: &[EventView] = &[];
    const NONE_SLOW: fn(&str) -> Vec<SlowMember> = |_| Vec::new();

    /// An array with these members: path and role.
    fn array(members: &[(&str, &str)]) -> ArrayView {
        let member = |(path, role): &(&str, &str)| {
            serde_json::json!({"path": path, "role": role, "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0, "repaired_sectors": 0,
                "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let members: Vec<_> = members.iter().map(member).collect();
        let lost = members.iter().filter(|member| member["role"] == "in sync").count() < 3;
        let health = if lost { "degraded" } else { "optimal" };
        let view = serde_json::json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "5", "layout": "", "size_bytes": 1, "health": health,
            "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": [], "spans": [],
            "resync_pending": false, "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": []});
        serde_json::from_value(view).expect("a view")
    }

    fn names(conditions: &[Condition]) -> Vec<String> {
        conditions.iter().map(|condition| condition.event.name().into_owned()).collect()
    }

    fn look(observer: &mut Observer, view: &ArrayView) -> (Vec<String>, Vec<String>) {
        let seen = observer.look(Instant::now(), std::slice::from_ref(view), NOTHING, &[], NONE_SLOW);
        (names(&seen.conditions), names(&seen.happenings))
    }

    const WELL: &[(&str, &str)] = &[("a", "in sync"), ("b", "in sync"), ("c", "in sync"), ("s", "spare")];

    #[test]
    fn a_failed_member_is_one_cause_until_redundancy_is_back() {
        let mut observer = Observer::new(&AlarmConfig::default());
        assert_eq!(look(&mut observer, &array(WELL)), (vec![], vec!["NewArray".into()]));
        let failed = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync"), ("s", "rebuilding")]);
        assert_eq!(look(&mut observer, &failed), (vec!["Fail".into()], vec![]));
        assert_eq!(look(&mut observer, &failed), (vec!["Fail".into()], vec![]));
        let filled = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync"), ("s", "in sync")]);
        assert_eq!(look(&mut observer, &filled).1, ["SpareActive"]);
        assert_eq!(look(&mut observer, &filled), (vec![], vec![]));
    }

    /// A RAID 0, and a RAID 5 that loses a second member: the member keeps its slot and its role.
    #[test]
    fn a_member_that_is_lost_in_its_slot_is_a_failure_of_its_own() {
        let lose = |mut view: ArrayView, path: &str| {
            let member = view.members.iter_mut().find(|member| member.path == path).expect("it is a member");
            (member.failure, view.health) = (Some("I/O error".into()), HealthView::Failed);
            view
        };
        let stripes = ArrayView { level: "0".into(), ..array(&WELL[..3]) };
        let degraded = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync")]);
        for (before, expected) in [(stripes, vec!["a"]), (degraded, vec!["b", "a"])] {
            let mut observer = Observer::new(&AlarmConfig::default());
            look(&mut observer, &before);
            let failed = lose(before, "a");
            for _ in 0..2 {
                let seen = observer.look(Instant::now(), std::slice::from_ref(&failed), NOTHING, &[], NONE_SLOW);
                let told: Vec<(&Event, &str)> =
                    seen.conditions.iter().map(|cause| (&cause.event, cause.component.as_deref().unwrap_or_default())).collect();
                assert_eq!(told, expected.iter().map(|path| (&Event::Fail, *path)).collect::<Vec<_>>());
                assert!(seen.conditions.last().is_some_and(|cause| cause.text.contains("was lost: I/O error")), "{seen:?}");
            }
        }
    }

    #[test]
    fn a_spare_that_takes_over_between_two_looks_hides_no_failure() {
        let mut observer = Observer::new(&AlarmConfig::default());
        look(&mut observer, &array(WELL));
        let filled = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync"), ("s", "in sync")]);
        assert_eq!(look(&mut observer, &filled), (vec!["Fail".into()], vec!["SpareActive".into()]));
        assert_eq!(look(&mut observer, &filled), (vec![], vec![]));
    }

    #[test]
    fn a_replaced_member_and_a_spare_that_is_taken_out_are_no_failures() {
        let mut observer = Observer::new(&AlarmConfig::default());
        look(&mut observer, &array(WELL));
        let mut replaced = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync"), ("s", "in sync")]);
        replaced.members[1].failure = Some("replaced".into());
        assert_eq!(look(&mut observer, &replaced).0, [""; 0]);
        let mut observer = Observer::new(&AlarmConfig::default());
        look(&mut observer, &array(WELL));
        assert_eq!(look(&mut observer, &array(&WELL[..3])).0, [""; 0]);
    }

    #[test]
    fn an_array_that_comes_degraded_or_goes_is_told() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let degraded = array(&[("a", "in sync"), ("c", "in sync")]);
        assert_eq!(look(&mut observer, &degraded).0, ["DegradedArray"]);
        assert_eq!(look(&mut observer, &array(WELL)).0, [""; 0]);
        // It loses a member later: that is another cause.
        assert_eq!(look(&mut observer, &array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync")])).0, ["Fail"]);
        let seen = observer.look(Instant::now(), &[], NOTHING, &[], NONE_SLOW);
        assert_eq!((names(&seen.happenings), seen.gone), (vec!["DeviceDisappeared".into()], vec!["tank".to_owned()]));
    }

    #[test]
    fn a_member_that_fails_before_the_first_look_is_a_failure() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let failed = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync")]);
        assert_eq!(look(&mut observer, &failed), (vec!["Fail".into()], vec!["NewArray".into()]));
        assert_eq!(
            look(&mut observer, &array(WELL)),
            (vec!["Fail".into()], vec!["SpareActive".into()]),
            "told until it was seen to be well"
        );
        assert_eq!(look(&mut observer, &array(WELL)), (vec![], vec![]));
    }

    #[test]
    fn a_failing_spare_and_a_missing_one_are_told() {
        let config = AlarmConfig { spares: BTreeMap::from([("tank".into(), 1)]), ..AlarmConfig::default() };
        let mut observer = Observer::new(&config);
        assert_eq!(look(&mut observer, &array(WELL)).0, [""; 0]);
        let failed = array(&[("a", "in sync"), ("b", "in sync"), ("c", "in sync"), ("s", "failed")]);
        assert_eq!(look(&mut observer, &failed).0, ["FailSpare", "SparesMissing"]);
        assert_eq!(
            look(&mut observer, &array(&WELL[..3])).0,
            ["FailSpare", "SparesMissing"],
            "told until it was seen to be gone"
        );
        assert_eq!(look(&mut observer, &array(WELL)).0, [""; 0]);
    }

    #[test]
    fn the_causes_of_an_array_that_does_not_answer_are_unknown() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let mut full = array(WELL);
        full.members[0].no_room = true;
        let seen = observer.look(Instant::now(), &[full.clone()], NOTHING, &[], NONE_SLOW);
        assert_eq!(names(&seen.conditions), ["NoSpace"]);
        let cause = seen.conditions[0].clone();
        assert!(!seen.is_unknown(&cause));
        full.silent_s = Some(6);
        let seen = observer.look(Instant::now(), &[full], NOTHING, &[], NONE_SLOW);
        assert_eq!(names(&seen.conditions), ["ArraySilent"]);
        assert!(seen.is_unknown(&cause) && !seen.is_unknown(&seen.conditions[0]));
        // Nothing is made up of one that has never answered, and it hides no other.
        let unseen = crate::view::unseen("lake", &[1; 16], 9);
        let failed = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync")]);
        let seen = observer.look(Instant::now(), &[unseen, failed], NOTHING, &[], NONE_SLOW);
        assert_eq!((names(&seen.conditions), names(&seen.happenings)), (vec!["ArraySilent".into(), "Fail".into()], vec![]));
    }

    #[test]
    fn an_array_that_does_not_start_is_told_after_a_time() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let waiting = AdoptedView {
            name: "tank".into(),
            uuid: "1".into(),
            state: crate::api::AdoptedState::Waiting,
            text: "2 drives are missing".into(),
            drives: Vec::new(),
            again_in_s: None,
        };
        let start = Instant::now();
        let mut at = |second, missing: &[AdoptedView]| {
            let mut seen = Seen::default();
            observer.look_for_missing(start + Duration::from_secs(second), missing, Duration::from_secs(30), &mut seen);
            seen.conditions
        };
        let other = AdoptedView { text: "1 drive is missing".into(), ..waiting.clone() };
        let (missing, other) = (std::slice::from_ref(&waiting), std::slice::from_ref(&other));
        assert_eq!((at(0, other), at(30, missing), at(64, missing)), (vec![], vec![], vec![]), "a drive came");
        let told = at(65, missing);
        assert!(names(&told) == ["NotServed"] && told[0].text.contains("2 drives are missing"), "{told:?}");
        assert_eq!(names(&at(66, other)), ["NotServed"], "it still is not served");
        assert_eq!((at(67, &[]), at(68, missing), at(98, missing)), (vec![], vec![], vec![]), "the time begins anew");
    }

    #[test]
    fn a_drive_that_is_about_to_die_is_told_while_it_is_a_member() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let finding = stria_health::Finding { verdict: Verdict::Replace, sentence: "it expects to fail".into() };
        let health = DriveHealth { verdict: Verdict::Replace, findings: vec![finding], ..DriveHealth::default() };
        let entry = DriveEntry { path: "b".into(), read_at_s: 0, health: Some(health), error: None, seat: None };
        let seen = observer.look(Instant::now(), &[array(WELL)], NOTHING, &[entry], NONE_SLOW);
        assert_eq!(names(&seen.conditions), ["DriveReplace"]);
        assert!(seen.conditions[0].text.contains("it expects to fail"));
        // A drive that sleeps or does not answer is not well again for that.
        let cause = &seen.conditions[0];
        let asleep = DriveHealth { asleep: true, ..DriveHealth::default() };
        for (health, is_unknown) in [(None, true), (Some(asleep), true), (Some(DriveHealth::default()), false)] {
            let entry = DriveEntry { path: "b".into(), read_at_s: 0, health, error: None, seat: None };
            let seen = observer.look(Instant::now(), &[array(WELL)], NOTHING, &[entry], NONE_SLOW);
            assert_eq!((names(&seen.conditions), seen.is_unknown(cause)), (vec![], is_unknown));
        }
    }
}
