//! Since when something is wrong, and where a scrub found it, from the events that are known and from what the process sees. Never
//! guessed: what no event tells stays unknown.

use crate::api::{ArrayView, EventView, MemberView, UndecidedView};
use crate::system::clock::now_ms;
use crate::view::{all_members, is_replaced, lost_drive};
use crate::words::event::EventSentence;
use std::collections::BTreeMap;
use stria_host::HostSentence;

/// A member whose oldest request has waited for so long does not answer, as `status` says.
const SILENT_MS: u64 = 1000;

/// True of the events of earlier runs that tell since when something is so.
pub fn tells(event: &EventView) -> bool {
    let kinds = ["member_failed", "member_gone", "member_in_sync", "mismatch", "sweep_finished", "no_room"];
    kinds.contains(&event.kind.as_str())
}

/// True if [`fill`] may have something to say.
pub fn is_asked(view: &ArrayView) -> bool {
    is_degraded(view)
        || has_open_mismatch(view)
        || view.parts.spans.iter().any(is_asked)
        || all_members(view).iter().any(|member| has_failed(member) || member.waiting_ms >= Some(SILENT_MS))
}

/// Notes since when the array, its spans and their members are as they are. `events`: those that are known, the oldest first.
pub fn fill(view: &mut ArrayView, events: &[EventView]) {
    let named = [view.identity.name.clone(), view.identity.full_name.clone()];
    let is_here = |name: &str| named.iter().any(|known| known == name);
    if is_degraded(view) {
        view.condition.since_s = first_loss(events, is_here, Some(view)).map(|time_ms| time_ms / 1000);
    }
    if has_open_mismatch(view) {
        view.redundancy.undecided = undecided(events, is_here);
    }
    for member in &mut view.parts.members {
        member.since_s = member_since(member, events, is_here);
    }
    view.parts.spans.iter_mut().for_each(|span| fill(span, events));
    // An array of spans has no members that fail: its redundancy is that of its spans.
    let of_spans = view.parts.spans.iter().filter_map(|span| span.condition.since_s).min();
    view.condition.since_s = view.condition.since_s.or(of_spans);
}

/// Members of its own are lost. Being resynced is no loss, nor is a member that was replaced.
fn is_degraded(view: &ArrayView) -> bool {
    let is_rebuilt = |member: &MemberView| member.role == "rebuilding";
    !view.parts.missing_slots.is_empty() || view.parts.members.iter().any(|member| is_rebuilt(member) || member.lost)
}

fn has_open_mismatch(view: &ArrayView) -> bool {
    view.redundancy.mismatch_sectors > Some(0) && !view.redundancy.mismatch_repaired
}

/// The mismatches of the last complete scrub that no event blames on a member.
fn undecided(events: &[EventView], is_here: impl Fn(&str) -> bool) -> Option<UndecidedView> {
    let is_end =
        |event: &&EventView| event.kind == "sweep_finished" && matches!(event.sweep.as_deref(), Some("scrub" | "repair"));
    // A scrub that was interrupted has no end: what it found counts for the one that went on from there.
    let mut latest_first = events.iter().rev().filter(|event| is_here(&event.array)).skip_while(|event| !is_end(event));
    latest_first.next()?;
    let mut found = None;
    for event in latest_first.take_while(|event| !is_end(event)) {
        let (sectors, start, drives) = match &event.said {
            Some(EventSentence::Host(HostSentence::MismatchUnnamed { sectors, sync_sector })) => {
                (*sectors, *sync_sector, &[][..])
            }
            Some(EventSentence::Host(HostSentence::MismatchOfCopies { sectors, sync_sector, drives })) => {
                (*sectors, *sync_sector, &drives.0[..])
            }
            _ => continue,
        };
        let last = start + sectors.saturating_sub(1);
        let known = found.get_or_insert_with(|| UndecidedView { first_sector: start, last_sector: last, ..Default::default() });
        (known.first_sector, known.last_sector) = (known.first_sector.min(start), known.last_sector.max(last));
        known.sectors += sectors;
        let new: Vec<String> = drives.iter().filter(|drive| !known.drives.contains(drive)).cloned().collect();
        known.drives.extend(new);
    }
    found
}

fn has_failed(member: &MemberView) -> bool {
    member.role == "failed" || member.lost
}

fn member_since(member: &MemberView, events: &[EventView], is_here: impl Fn(&str) -> bool) -> Option<u64> {
    if has_failed(member) {
        let names_it = |event: &&EventView| is_here(&event.array) && lost_drive(event) == Some(&*member.path);
        return events.iter().rev().find(names_it).map(|event| event.time_ms / 1000);
    }
    let waiting_ms = member.waiting_ms.filter(|waiting_ms| *waiting_ms >= SILENT_MS)?;
    Some(now_ms().saturating_sub(waiting_ms) / 1000)
}

/// The time of the first loss that still holds: that of a slot which has no member in sync now, since it last had one.
pub fn first_loss(events: &[EventView], is_here: impl Fn(&str) -> bool, view: Option<&ArrayView>) -> Option<u64> {
    let is_whole = |slot: usize| {
        let holds = |view: &ArrayView| {
            view.parts
                .members
                .iter()
                .any(|member| member.slot == Some(slot) && member.role == "in sync" && member.failure.is_none())
        };
        view.is_some_and(holds)
    };
    let mut lost = BTreeMap::new();
    for event in events.iter().filter(|event| is_here(&event.array) && !is_replaced(event)) {
        match (event.kind.as_str(), event.slot) {
            // A member without a slot was a spare.
            ("member_failed" | "member_gone", Some(slot)) => drop(lost.entry(slot).or_insert(event.time_ms)),
            ("member_in_sync", Some(slot)) => drop(lost.remove(&slot)),
            _ => {}
        }
    }
    lost.into_iter().filter(|(slot, _)| !is_whole(*slot)).map(|(_, time_ms)| time_ms).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RAID 6 lost A, then B; A is rebuilt: B has been away since its own loss, also if the daemon was restarted since.
    #[test]
    fn redundancy_is_lost_since_the_first_loss_of_a_slot_that_has_no_member_in_sync() {
        let event = |(time_ms, kind, slot): &(u64, &str, Option<usize>)| EventView {
            time_ms: *time_ms,
            slot: *slot,
            ..crate::view::plain_event("tank", kind, String::new())
        };
        let events = |events: &[(u64, &str, Option<usize>)]| events.iter().map(event).collect::<Vec<_>>();
        let since = |known: &[(u64, &str, Option<usize>)]| first_loss(&events(known), |name| name == "tank", None);
        let history = [
            (1, "member_failed", Some(0)),
            (2, "member_gone", Some(1)),
            (3, "member_failed", None),
            (4, "sweep_started", None),
            (5, "member_in_sync", Some(0)),
            (6, "started", None),
            (7, "member_failed", Some(1)),
            (8, "member_in_sync", Some(1)),
        ];
        assert_eq!(since(&history[..4]), Some(1));
        assert_eq!(since(&history[..5]), Some(2));
        assert_eq!(since(&history[..7]), Some(2), "neither a start nor the failure of what was filled there ends it");
        assert_eq!(since(&history), None);
        assert_eq!(first_loss(&events(&history[..2]), |name| name == "lake", None), None);
        // The end of a replacement drops the member that was replaced.
        let mut replaced =
            events(&[(1, "member_in_sync", Some(0)), (1, "member_failed", Some(0)), (9, "member_failed", Some(0))]);
        replaced[1].said = Some(EventSentence::Host(HostSentence::MemberReplaced { drive: "/d".into(), slot: 0 }));
        assert_eq!(first_loss(&replaced, |name| name == "tank", None), Some(9));
        // A member that came back while the daemon was off is in sync without an event.
        let member = serde_json::json!({"slot": 0, "path": "/d", "role": "in sync", "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0,
            "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0});
        let view = serde_json::json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "6", "layout": "", "size_bytes": 0,
            "health": "degraded", "state": "", "clean": true, "read_only": false, "paused": false, "members": [member],
            "missing_slots": [1], "spans": [], "resync_pending": false, "in_flight": 0, "events": 0, "created_s": 0, "exports": [],
            "clients": []});
        let view: ArrayView = serde_json::from_value(view).expect("a view");
        assert_eq!(first_loss(&events(&history[..2]), |name| name == "tank", Some(&view)), Some(2));
    }
    #[test]
    fn members_and_spans_say_since_when_and_nothing_that_no_event_tells() {
        let member = |slot: usize, changes: serde_json::Value| {
            let mut member = serde_json::json!({"slot": slot, "path": format!("/d{slot}"), "role": "in sync", "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0});
            member.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
            member
        };
        let array = |name: &str, members: Vec<serde_json::Value>, spans: Vec<serde_json::Value>| {
            serde_json::json!({"name": name, "full_name": name, "uuid": "", "level": "6", "layout": "", "size_bytes": 0, "health": "degraded",
                "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": [], "spans": spans,
                "resync_pending": false, "in_flight": 0, "events": 0, "created_s": 0, "exports": [], "clients": []})
        };
        let failed = serde_json::json!({"role": "failed", "failure": "gone"});
        let members = vec![
            member(0, failed.clone()),
            member(1, serde_json::json!({"waiting_ms": 9000})),
            member(2, serde_json::json!({"waiting_ms": 9})),
            member(3, serde_json::json!({"role": "rebuilding"})),
            member(4, failed),
        ];
        let mut tank: ArrayView =
            serde_json::from_value(array("tank", vec![], vec![array("tank-span0", members, vec![])])).expect("a view");
        assert!(is_asked(&tank));
        let lost = |time_ms: u64, slot: usize, drive: &str| {
            let said = HostSentence::MemberDropped { drive: drive.into(), slot, reason: "gone".into() };
            let event = crate::view::said_event("tank-span0", "member_failed", EventSentence::Host(said));
            EventView { time_ms, slot: Some(slot), ..event }
        };
        // The name of one drive begins with that of another.
        fill(&mut tank, &[lost(3000, 3, "/x"), lost(7000, 0, "/d0"), lost(9000, 0, "/d01")]);
        let span = &tank.parts.spans[0];
        let since: Vec<Option<u64>> = span.parts.members.iter().map(|member| member.since_s).collect();
        let silent = since[1].expect("the process sees it");
        assert!((8..=11).contains(&(now_ms() / 1000 - silent)), "{silent}");
        assert_eq!([since[0], since[2], since[3], since[4]], [Some(7), None, None, None], "no event names /d4");
        assert_eq!((span.condition.since_s, tank.condition.since_s), (Some(3), Some(3)));
        fill(&mut tank, &[]);
        assert_eq!(tank.parts.spans[0].condition.since_s, None);
    }
}
