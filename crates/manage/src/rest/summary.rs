//! The machine in one sentence, and what is wrong, the worst first: `stria explain` and the standing alarms together.

use super::types::{Action, ArrayEntry, MatterId, MatterView, Summary, Urgency};
use crate::api::{AdoptedState, ArrayView, EventView, HealthView, Obstacle};
use crate::events::since::first_loss;
use crate::matter::{
    Matter, MatterKind, RANK_LAST, RANK_LOST, ReasonSentence, can_lose, ended_early, name_link, not_served, note_acknowledged,
    of_array, of_config,
};
use crate::monitor::StandingView;
use crate::view::{all_members, is_redundant_itself};
use crate::words::alarm::AlarmSentence;
use crate::words::event::EventSentence;
use std::path::PathBuf;
use stria_alarm::{Condition, Event, Severity};
use stria_host::HostSentence;

/// Sums up. `events`: those that are known, the oldest first. `told_by`: the channels by which people are told.
pub fn summary(arrays: &[ArrayEntry], alarms: &[StandingView], events: &[EventView], told_by: &[&str]) -> Summary {
    let mut ranked: Vec<(u8, MatterView)> = arrays.iter().flat_map(|array| of(array, alarms, events)).collect();
    ranked.extend(alarms.iter().filter_map(|alarm| Some((rank_of(alarm.cause.event), of_alarm(alarm, arrays)?))));
    ranked.sort_by_key(|(rank, matter)| (std::cmp::Reverse(matter.urgency), *rank));
    let matters: Vec<MatterView> = ranked.into_iter().map(|(_, matter)| matter).collect();
    let urgency = matters.first().map_or(Urgency::Well, |matter| matter.urgency);
    let (count, served) = (arrays.len(), arrays.iter().filter(|array| array.view.is_some()).count());
    let sentence = match &matters[..] {
        [] if count == 0 => "No array belongs to Stria on this machine yet.".to_owned(),
        [] => format!("All is well: {served} of {count} arrays are served, and nothing is wrong."),
        [matter] => format!("{}: {}.", subject(matter), matter.what.trim_end_matches('.')),
        [matter, rest @ ..] => {
            let more = rest.len();
            format!(
                "{}: {}; {more} more {}.",
                subject(matter),
                matter.what.trim_end_matches('.'),
                if more == 1 { "matter" } else { "matters" }
            )
        }
    };
    let told_by = told_by.iter().map(|name| (*name).to_owned()).collect();
    Summary { urgency, sentence, well: well(arrays, events), matters, told_by }
}

fn subject(matter: &MatterView) -> &str {
    if matter.array.is_empty() { "the configuration" } else { &matter.array }
}

/// The matters of one array.
fn of(array: &ArrayEntry, alarms: &[StandingView], events: &[EventView]) -> Vec<(u8, MatterView)> {
    let mut matters = match &array.view {
        Some(view) => of_array(view),
        None => not_served(&array.into()).into_iter().collect(),
    };
    name_link(&array.name, &mut matters, alarms.iter().map(|alarm| &alarm.cause));
    note_acknowledged(&array.name, &mut matters, alarms.iter().map(|alarm| (&alarm.cause, alarm.acknowledged.as_ref())));
    matters.into_iter().map(|matter| (matter.rank, shown(array, matter, alarms, events))).collect()
}

fn shown(array: &ArrayEntry, matter: Matter, alarms: &[StandingView], events: &[EventView]) -> MatterView {
    let name = || array.name.clone();
    let remove = |path: &String| Action::Remove { array: name(), drive: path.into() };
    let fail = |path: &String| Action::Fail { array: name(), drive: path.into() };
    let is_here = |known: &str| known == array.name || known == matter.array;
    let last = |kinds: &[&str]| {
        events.iter().rev().find(|event| is_here(&event.array) && kinds.contains(&event.kind.as_str())).map(|event| event.time_ms)
    };
    let part = array.view.as_ref().and_then(|view| part(view, &matter.array));
    let lost = || first_loss(events, is_here, part);
    let may_fail = |path: &&String| array.view.as_ref().is_some_and(|view| can_lose(view, path));
    let (began, remedies): (_, Vec<Action>) = match matter.kind {
        MatterKind::NotServed => {
            let start = Action::Start { array: name(), force: false };
            (
                last(&["waiting", "stopped"]),
                // It would be refused.
                if array.state == AdoptedState::Absent || array.obstacle == Some(Obstacle::TooFew) {
                    vec![]
                } else {
                    vec![start]
                },
            )
        }
        MatterKind::Silent => (last(&["lane_silent"]), vec![]),
        MatterKind::MemberSilent => {
            (silent_since(events, &matter.drives), matter.drives.iter().filter(may_fail).map(fail).collect())
        }
        MatterKind::MembersSilent => (silent_since(events, &matter.drives), vec![]),
        // Its drives are those that were to be filled.
        MatterKind::Degraded if part.is_some_and(ended_early) => (lost(), matter.drives.iter().map(fail).collect()),
        MatterKind::Degraded => {
            let span = (matter.array != array.name).then(|| matter.array.clone());
            (lost(), vec![Action::Add { array: name(), drive: PathBuf::new(), span }])
        }
        MatterKind::Rebuilding | MatterKind::Failed => (lost(), vec![]),
        MatterKind::Paused => (lost(), vec![Action::Resume { array: name() }]),
        MatterKind::ReadOnly => (None, vec![]),
        MatterKind::SuperblockRefused => (last(&["superblock_refused"]), vec![]),
        MatterKind::Mismatch => {
            let repair = Action::Scrub { array: name(), repair: true, from_bytes: 0 };
            (last(&["mismatch"]), vec![repair])
        }
        MatterKind::NoSpace => (last(&["no_room"]), vec![]),
        MatterKind::FileDeleted => {
            let replace = |path: &String| Action::Replace { array: name(), old: path.into(), new: PathBuf::new() };
            let is_redundant = part.is_some_and(is_redundant_itself);
            let remedies = matter.drives.iter().filter(|_| is_redundant).map(replace).collect();
            (deleted_since(events, &matter.drives), remedies)
        }
        MatterKind::LeftAlone => (None, vec![]),
        MatterKind::Replaced => (last(&["member_in_sync"]), matter.drives.iter().map(remove).collect()),
    };
    let is_about = |open: &&StandingView| is_here(&open.cause.array) && matter.kind.events().contains(&open.cause.event);
    let stands = alarms.iter().filter(is_about).map(|open| open.since_s * 1000).min();
    MatterView {
        array: matter.array.clone(),
        kind: MatterId::State(matter.kind),
        urgency: matter.urgency,
        what: matter.what,
        means: matter.means,
        action: matter.action,
        avoid: matter.avoid,
        since_ms: began.or(stands),
        drives: matter.drives,
        remedies: possible(remedies, &array.name, array.view.as_ref()),
        reason: matter.reason,
        said: matter.said,
        acknowledged: matter.acknowledged,
    }
}

/// Since when the file of one of these drives has no name.
fn deleted_since(events: &[EventView], drives: &[String]) -> Option<u64> {
    let is_it = |event: &&EventView| matches!(&event.said, Some(EventSentence::Host(HostSentence::FileDeleted { drive })) if drives.contains(drive));
    events.iter().rev().find(is_it).map(|event| event.time_ms)
}

/// Since when one of these drives leaves a request unanswered. The event is repeated, and tells for how long.
fn silent_since(events: &[EventView], drives: &[String]) -> Option<u64> {
    let began = |path: &String| {
        events.iter().rev().find_map(|event| match &event.said {
            Some(EventSentence::Host(HostSentence::DriveSilent { drive, seconds })) if drive == path => {
                Some(event.time_ms.saturating_sub(seconds * 1000))
            }
            _ => None,
        })
    };
    drives.iter().filter_map(began).min()
}

/// The way out that an array takes as it is. One that is read-only by its setting takes writes first; one whose replay ended early
/// has a matter of its own for that.
fn possible(remedies: Vec<Action>, array: &str, view: Option<&ArrayView>) -> Vec<Action> {
    let writes = |action: &Action| !matches!(action, Action::Start { .. } | Action::Resume { .. });
    let Some(view) = view.filter(|view| view.condition.read_only && remedies.iter().any(writes)) else { return remedies };
    let to_writable = Action::Set {
        array: array.to_owned(),
        write: None,
        drive_caches: None,
        read_only: Some(false),
        bitmap: None,
        log: None,
        integrity: None,
        force: false,
    };
    if view.condition.unreplayed.is_some() { Vec::new() } else { vec![to_writable] }
}

/// The array of this name: this one, or a span of it.
fn part<'a>(view: &'a ArrayView, name: &str) -> Option<&'a ArrayView> {
    if view.identity.name == name { Some(view) } else { view.parts.spans.iter().find_map(|span| part(span, name)) }
}

/// The order of an alarm among matters of one urgency.
fn rank_of(event: Event) -> u8 {
    if event == Event::Unreadable { RANK_LOST } else { RANK_LAST }
}

/// The array of an alarm, or the span that has its drive.
fn part_of<'a>(view: &'a ArrayView, drive: Option<&str>) -> &'a ArrayView {
    let span = drive.and_then(|drive| {
        let has_drive = |span: &&ArrayView| all_members(span).iter().any(|member| member.path == drive);
        view.parts.spans.iter().find(has_drive)
    });
    span.unwrap_or(view)
}

/// Why an alarm waits: its array comes first. What it means, what to do, and what not to do.
fn waits_for(part: Option<&ArrayView>) -> Option<(&'static str, &'static str, &'static str)> {
    let first = "first see to the array: its own matter says how";
    let Some(part) = part.filter(|part| part.condition.silent_s.is_none()) else {
        return Some((
            "its array does not answer, so nothing is known of its redundancy",
            first,
            "do not pull, replace or fail a drive of it",
        ));
    };
    match (part.condition.health, part.redundancy.losses_survived) {
        (HealthView::Optimal, _) => None,
        (HealthView::Degraded, 0) => Some((
            "its array has no redundancy left: one more failure loses data",
            first,
            "do not pull, replace or fail another drive of it",
        )),
        (HealthView::Degraded, _) => {
            Some(("its array lacks redundancy already", first, "do not pull, replace or fail another drive of it"))
        }
        (HealthView::Failed, _) => Some((
            "its array has lost more drives than redundancy covers",
            first,
            "do not pull, replace or fail any drive of it: it may hold what is left",
        )),
    }
}

/// What an alarm means, what to do, what not to do, and the actions that do it; `None`: the state of the array says these itself,
/// or it does not last. It stays one table, as each row is read beside the others.
fn advice_of(
    cause: &Condition<AlarmSentence>,
    part: Option<&ArrayView>,
) -> Option<(&'static str, &'static str, &'static str, Vec<Action>)> {
    let drives = || cause.component.iter();
    let is_bare = part.is_some_and(|part| part.redundancy.losses_survived == 0);
    let array = || cause.array.clone();
    let replace = || -> Vec<Action> {
        drives().map(|old| Action::Replace { array: array(), old: old.into(), new: PathBuf::new() }).collect()
    };
    Some(match cause.event {
        Event::DriveReplace | Event::SlowMember | Event::SparesMissing | Event::FailSpare if waits_for(part).is_some() => {
            let (means, action, avoid) = waits_for(part)?;
            (means, action, avoid, vec![])
        }
        Event::DriveReplace if is_bare => (
            "the drive may fail soon, and the array has no redundancy, so that loses data",
            "bring the backup up to date, then replace the drive while it works: its content is copied",
            "do not pull it before the copy is complete",
            replace(),
        ),
        Event::DriveReplace => (
            "the drive may fail soon; redundancy is complete until it does",
            "replace it while it works: its content is copied, and redundancy stays",
            "do not pull it before the copy is complete",
            replace(),
        ),
        Event::DriveWatch => {
            ("something is unusual and harms nothing yet", "look at it again in some days", "do not replace it in haste", vec![])
        }
        Event::CacheUnflushed => (
            "a power cut may lose what clients have flushed: the array counts on the drive having no cache",
            "stop the array and start it: it flushes the cache from then on",
            "do not switch the machine off before that",
            vec![],
        ),
        Event::SlowMember => (
            "every request that needs it waits for it",
            "look at its health, its slot and its cable; replace it if it stays slow",
            "do not fail it while another member is missing",
            replace(),
        ),
        Event::SparesMissing => (
            "the next failure finds no spare, so a rebuild waits for a person",
            "add a drive of at least the same size",
            "do not take the spare of another array that needs it",
            vec![Action::Add { array: array(), drive: PathBuf::new(), span: None }],
        ),
        Event::FailSpare => (
            "the drive cannot take over",
            "remove it, and add another one",
            "do not count it as a spare",
            drives().map(|drive| Action::Remove { array: array(), drive: drive.into() }).collect(),
        ),
        Event::Unreadable => (
            "data is lost in the sectors that are named",
            "restore the files there from a backup; the sectors work again once they are rewritten",
            "do not remove or fail any drive now: it may hold what is left",
            vec![],
        ),
        // The state of the array says these itself.
        Event::Fail
        | Event::DegradedArray
        | Event::ArraySilent
        | Event::NotServed
        | Event::MemberSilent
        | Event::NoSpace
        | Event::FileDeleted
        | Event::ReadOnly
        | Event::SuperblockRefused
        | Event::Mismatch => return None,
        Event::ConfigFault => {
            let (means, action, avoid) = of_config(cause);
            (means, action, avoid, vec![])
        }
        // Events that do not last.
        Event::NewArray
        | Event::DeviceDisappeared
        | Event::RebuildStarted
        | Event::Rebuild(_)
        | Event::RebuildFinished
        | Event::SpareActive
        | Event::TestMessage => return None,
    })
}

/// The matter of an alarm of which the state of its array says nothing.
fn of_alarm(alarm: &StandingView, arrays: &[ArrayEntry]) -> Option<MatterView> {
    let cause = &alarm.cause;
    let view = arrays.iter().find(|entry| entry.name == cause.array).and_then(|entry| entry.view.as_ref());
    let part = view.map(|view| part_of(view, cause.component.as_deref()));
    let (means, action, avoid, remedies) = advice_of(cause, part)?;
    let is_of_config = cause.event == Event::ConfigFault;
    // The component of a fault of the configuration is a part of that.
    let drives = if is_of_config { Vec::new() } else { cause.component.iter().cloned().collect() };
    Some(MatterView {
        array: if is_of_config {
            String::new()
        } else {
            part.map_or_else(|| cause.array.clone(), |part| part.identity.name.clone())
        },
        kind: MatterId::Alarm(cause.event),
        urgency: if cause.event.severity() == Severity::Critical { Urgency::Critical } else { Urgency::Warning },
        what: cause.text.clone(),
        means: means.into(),
        action: action.into(),
        avoid: avoid.into(),
        since_ms: Some(alarm.since_s * 1000),
        drives,
        remedies: possible(remedies, &cause.array, view),
        reason: Some(cause.text.clone()),
        said: alarm.said.clone().map(ReasonSentence::Alarm),
        acknowledged: alarm.acknowledged.clone(),
    })
}

/// What is well, with reasons.
fn well(arrays: &[ArrayEntry], events: &[EventView]) -> Vec<String> {
    let mut sentences = Vec::new();
    for array in arrays {
        let Some(view) =
            array.view.as_ref().filter(|view| view.condition.health == HealthView::Optimal && view.condition.silent_s.is_none())
        else {
            continue;
        };
        let name = &array.name;
        let spares = all_members(view).iter().filter(|member| member.role == "spare").count();
        let survives = match view.redundancy.losses_survived {
            0 => "no member may fail, as its level has no redundancy".to_owned(),
            1 => "1 member may fail".to_owned(),
            count => format!("{count} members may fail"),
        };
        let spares = match spares {
            0 => String::new(),
            1 => ", 1 spare is ready".to_owned(),
            count => format!(", {count} spares are ready"),
        };
        let is_scrub = |event: &&EventView| {
            event.array == *name && event.kind == "sweep_finished" && matches!(event.sweep.as_deref(), Some("scrub" | "repair"))
        };
        let scrub = match events.iter().rev().find(is_scrub) {
            Some(event) => {
                let date = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_millis(event.time_ms));
                let date = date.map_or_else(String::new, |date| humantime::format_rfc3339_seconds(date).to_string());
                let found = event.mismatch_sectors.unwrap_or(0);
                let unchecked = event
                    .unchecked_sectors
                    .map_or_else(String::new, |sectors| format!(" and could not compare {sectors} sectors"));
                format!(
                    ", the last scrub ended on {} and found {found} sectors that do not match{unchecked}",
                    date.split('T').next().unwrap_or_default()
                )
            }
            None if view.redundancy.losses_survived > 0 => ", no scrub is on record".to_owned(),
            None => String::new(),
        };
        sentences.push(format!("{name}: all members are in sync, {survives}{spares}{scrub}"));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A served RAID 5 of two members with these changes to its view.
    fn entry(name: &str, changes: serde_json::Value) -> ArrayEntry {
        let member = |slot: usize| {
            serde_json::json!({"slot": slot, "path": format!("/{name}/{slot}"), "role": "in sync", "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let mut view = serde_json::json!({"name": name, "full_name": name, "uuid": "", "level": "5", "layout": "", "size_bytes": 0,
            "health": "optimal", "state": "", "clean": true, "read_only": false, "paused": false, "members": [member(0), member(1)],
            "missing_slots": [], "spans": [], "resync_pending": false, "losses_survived": 1, "in_flight": 0, "events": 0, "created_s": 0,
            "exports": [], "clients": []});
        view.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
        let entry = serde_json::json!({"name": name, "uuid": "", "state": "served", "text": "", "drives": [], "again_in_s": null,
            "view": view, "tasks": [], "rates": null, "slow": []});
        serde_json::from_value(entry).expect("an entry")
    }

    fn alarm(event: Event, array: &str, component: Option<&str>) -> StandingView {
        let cause = stria_alarm::Condition {
            event,
            array: array.into(),
            component: component.map(str::to_owned),
            text: "so".into(),
            said: None,
        };
        StandingView { cause, said: None, since_s: 0, acknowledged: None }
    }

    #[test]
    fn the_worst_comes_first_whatever_the_arrays_are_called() {
        let degraded = |left: usize| serde_json::json!({"health": "degraded", "losses_survived": left, "missing_slots": [2]});
        let failed = serde_json::json!({"health": "failed", "losses_survived": 0, "missing_slots": [2]});
        let silent = serde_json::json!({"silent_s": 9});
        let arrays = [
            entry("a", degraded(1)),
            entry("b", degraded(0)),
            entry("c", silent),
            entry("d", failed),
            entry("e", serde_json::json!({})),
        ];
        let found = summary(&arrays, &[alarm(Event::Unreadable, "e", None)], &[], &[]);
        let order: Vec<&str> = found.matters.iter().map(|matter| matter.array.as_str()).collect();
        assert_eq!(order, ["d", "e", "c", "b", "a"]);
        assert!(found.sentence.starts_with("d: "), "{}", found.sentence);
    }

    #[test]
    fn a_fault_of_the_configuration_is_a_matter_of_no_array() {
        let fault = alarm(Event::ConfigFault, "none", Some("[api]"));
        let found = summary(&[entry("tank", serde_json::json!({}))], &[fault], &[], &["mail"]);
        let [matter] = &found.matters[..] else { panic!("{found:?}") };
        assert_eq!(
            (matter.array.as_str(), matter.kind, matter.urgency),
            ("", MatterId::Alarm(Event::ConfigFault), Urgency::Critical)
        );
        assert!(matter.drives.is_empty() && matter.action.contains("reload"), "{matter:?}");
        assert_eq!((found.sentence.as_str(), found.told_by), ("the configuration: so.", vec!["mail".to_owned()]));
    }

    #[test]
    fn an_alarm_offers_nothing_while_its_array_lacks_redundancy() {
        let found = |event, changes: serde_json::Value| {
            let drive = (event != Event::SparesMissing).then_some("/tank/0");
            let found = summary(&[entry("tank", changes)], &[alarm(event, "tank", drive)], &[], &[]);
            found.matters.into_iter().find(|matter| matter.kind == MatterId::Alarm(event)).expect("its matter")
        };
        let states = [
            serde_json::json!({"health": "degraded", "losses_survived": 0, "missing_slots": [2]}),
            serde_json::json!({"health": "degraded", "losses_survived": 1, "missing_slots": [2]}),
            serde_json::json!({"health": "failed", "losses_survived": 0}),
            serde_json::json!({"silent_s": 9}),
        ];
        for event in [Event::DriveReplace, Event::SlowMember, Event::SparesMissing, Event::FailSpare] {
            assert_eq!(found(event, serde_json::json!({})).remedies.len(), 1, "{event:?}");
            for state in &states {
                let matter = found(event, state.clone());
                assert!(
                    matter.remedies.is_empty() && matter.action.starts_with("first see to the array"),
                    "{event:?}: {matter:?}"
                );
            }
        }
        let bare = found(Event::DriveReplace, serde_json::json!({"level": "0", "losses_survived": 0}));
        assert!(bare.means.contains("no redundancy") && bare.remedies.len() == 1, "{bare:?}");
    }

    /// RAID 50: the span of the drive decides, and not the worst one.
    #[test]
    fn an_alarm_is_about_the_span_of_its_drive() {
        let span = |name: &str, changes| serde_json::to_value(entry(name, changes).view).expect("JSON");
        let bare = span("tank-0", serde_json::json!({"health": "degraded", "losses_survived": 0, "missing_slots": [2]}));
        let sound = span("tank-1", serde_json::json!({}));
        let array =
            entry("tank", serde_json::json!({"health": "degraded", "losses_survived": 0, "members": [], "spans": [bare, sound]}));
        let found =
            |drive| of_alarm(&alarm(Event::DriveReplace, "tank", Some(drive)), std::slice::from_ref(&array)).expect("a matter");
        assert_eq!((found("/tank-0/0").array.as_str(), found("/tank-0/0").remedies.len()), ("tank-0", 0));
        assert_eq!((found("/tank-1/0").array.as_str(), found("/tank-1/0").remedies.len()), ("tank-1", 1));
    }

    /// The event is repeated while the drive hangs: the time jumped to the latest one.
    #[test]
    fn a_silent_member_is_silent_since_its_first_request_without_an_answer() {
        let mut array = entry("tank", serde_json::json!({}));
        array.view.as_mut().expect("a view").parts.members[0].waiting_ms = Some(11_000);
        let event = |time_ms: u64, seconds| {
            let said = HostSentence::DriveSilent { drive: "/tank/0".into(), seconds };
            EventView { time_ms, ..crate::view::said_event("tank", "member_silent", EventSentence::Host(said)) }
        };
        let found = summary(&[array], &[], &[event(105_000, 5), event(111_000, 11)], &[]);
        assert_eq!(found.matters[0].since_ms, Some(100_000), "{found:?}");
    }

    /// Its start was offered, and refused; the array that starts by itself came first.
    #[test]
    fn an_array_that_lacks_too_many_drives_comes_first_and_offers_no_start() {
        let waiting = |name: &str, obstacle: &str| -> ArrayEntry {
            let entry = serde_json::json!({"name": name, "uuid": name, "state": "waiting", "text": "", "obstacle": obstacle, "drives": [],
                "again_in_s": null, "view": null, "tasks": [], "rates": null, "slow": []});
            serde_json::from_value(entry).expect("an entry")
        };
        let found = summary(&[waiting("a", "drives"), waiting("b", "too_few")], &[], &[], &[]);
        let shown: Vec<(&str, usize)> =
            found.matters.iter().map(|matter| (matter.array.as_str(), matter.remedies.len())).collect();
        assert_eq!(shown, [("b", 0), ("a", 1)]);
    }

    /// Each image told of the same full file system.
    #[test]
    fn a_full_file_system_below_all_members_is_one_matter() {
        let mut array = entry("tank", serde_json::json!({}));
        array.view.iter_mut().flat_map(|view| &mut view.parts.members).for_each(|member| member.no_room = true);
        let [matter] = &summary(&[array], &[], &[], &[]).matters[..] else { panic!("one matter") };
        assert_eq!(matter.what, "/tank/0, /tank/1 have no space for writes");
        assert_eq!(matter.drives, ["/tank/0", "/tank/1"]);
    }

    /// The button offered a drive, which a read-only array refuses.
    #[test]
    fn a_read_only_array_is_made_writable_first() {
        let lost = serde_json::json!({"health": "degraded", "missing_slots": [1], "read_only": true, "unreplayed": null});
        let matter = summary(&[entry("tank", lost.clone())], &[], &[], &[]).matters.remove(0);
        let [Action::Set { array, read_only: Some(false), force: false, .. }] = &matter.remedies[..] else {
            panic!("{matter:?}")
        };
        let first = "`stria set tank --read-only off`, then `stria add";
        assert!(array == "tank" && matter.action.starts_with(first), "{matter:?}");
        let mut unreplayed = lost;
        unreplayed["unreplayed"] = "I/O error".into();
        let matters = summary(&[entry("tank", unreplayed)], &[], &[], &[]).matters;
        let degraded = matters.iter().find(|matter| matter.kind == MatterId::State(MatterKind::Degraded)).expect("a matter");
        assert!(degraded.remedies.is_empty(), "its other matter comes first: {degraded:?}");
    }

    #[test]
    fn a_gap_that_no_rebuild_fills_asks_for_a_drive() {
        let sweep =
            serde_json::json!({"kind": "rebuild", "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0});
        let with = |missing: &[usize], sweep: &serde_json::Value| {
            let mut array = entry("tank", serde_json::json!({"health": "degraded", "sweep": sweep, "missing_slots": missing}));
            if let Some(view) = &mut array.view {
                view.parts.members[1].role = "rebuilding".into();
            }
            summary(&[array], &[], &[], &[]).matters.remove(0)
        };
        let found = |missing: &[usize]| with(missing, &sweep);
        let ended = with(&[], &serde_json::Value::Null);
        assert!(matches!(&ended.remedies[..], [Action::Fail { .. }]), "each slot has a drive: {ended:?}");
        assert!(matches!(&found(&[2]).remedies[..], [Action::Add { .. }]), "{:?}", found(&[2]));
        assert!(found(&[]).remedies.is_empty() && found(&[]).kind == MatterId::State(MatterKind::Rebuilding));
    }
}
