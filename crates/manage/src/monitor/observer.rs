//! The step from the views of arrays to alarms: causes that stand, and events since the last look. It is pure: it holds what it
//! has seen.

use super::board::DriveEntry;
use crate::api::{AdoptedView, ArrayView, EventView, HealthView, MemberView};
use crate::view::{all_members, found_mismatch, is_lost, is_unseen, last_drives, tree, was_replaced};
use crate::words::alarm::{AlarmSentence as Say, Findings, Lasting, Slow, StateThen};
use crate::words::error::Detail;
use crate::words::event::EventSentence;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stria_alarm::{AlarmConfig, Event};
use stria_health::{DriveHealth, SlowMember, Verdict};
use stria_host::HostSentence;

/// A condition with its sentence.
type Condition = stria_alarm::Condition<Say>;

/// A member or an array that has not answered for so long is reported.
const SILENT: Duration = Duration::from_secs(5);
/// The time that an array may take to start when it no longer waits.
const STARTING: Duration = Duration::from_secs(5);
/// So many times as long as for one reason an array may be missing for reasons that change.
const REASONS_CHANGE_FOR: u32 = 3;
/// A member that waits for so long while others on its link are silent is silent, too.
const WAITS: Duration = Duration::from_secs(1);
/// A lost member whose link has further members is reported after so long, or with all of them: one cause is one message.
const HOLD: Duration = Duration::from_secs(3);
/// So long after the last data was lost that is reported as a cause that lasts.
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
    /// Causes that have begun anew, even if they have not ended in between.
    pub anew: Vec<Condition>,
    /// Arrays that do not answer: what was last known of them is old.
    silent: Vec<String>,
    /// Drives that reported nothing about themselves: array and path.
    unread: Vec<(String, String)>,
}

impl Seen {
    /// True if it is unknown at present whether this cause lasts.
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
    since: Instant,
    /// The cause that it is reported as; `None`: it is not reported yet.
    reported_as: Option<Cause>,
    is_anew: bool,
}

impl Lost {
    fn new(path: &str, was_spare: bool, since: Instant) -> Self {
        Self { path: path.to_owned(), was_spare, since, reported_as: None, is_anew: false }
    }
}

/// What a member has in common with others that fail or fall silent with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// Nothing.
    Own,
    /// Every member on this link does.
    Link(String),
}

/// The link of each drive that is known.
struct Links<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Links<'a> {
    fn of(drives: &'a [DriveEntry]) -> Self {
        Self(drives.iter().filter_map(|entry| Some((entry.path.to_str()?, entry.seat.as_ref()?.link.as_deref()?))).collect())
    }

    fn link(&self, path: &str) -> Option<&'a str> {
        self.0.get(path).copied()
    }

    /// The members that share the link of this one, itself among them. Empty if the link is not known.
    fn sharers<'m>(&self, path: &str, members: &[&'m MemberView]) -> Vec<&'m MemberView> {
        let Some(link) = self.link(path) else { return Vec::new() };
        members.iter().copied().filter(|member| self.link(&member.path) == Some(link)).collect()
    }
}

/// The memory of one array.
#[derive(Default)]
struct Known {
    /// It was degraded when it was first seen, and has been since.
    came_degraded: bool,
    lost: Vec<Lost>,
    /// The role of each member at the last look.
    roles: BTreeMap<String, String>,
    /// The progress of a sweep that was reported last, in per cent, by span and kind.
    progress: BTreeMap<(String, String), u8>,
    /// Data was lost: the end of the alarm, and its words.
    unreadable: Option<(Instant, Loss)>,
    /// The members that do not answer, each with the cause that it is reported as.
    silent: BTreeMap<String, Cause>,
}

/// Looks at arrays.
pub struct Observer {
    spares: BTreeMap<String, usize>,
    rebuild_step: u8,
    arrays: BTreeMap<String, Known>,
    /// The arrays of the configuration that are not served, by UUID.
    not_served: BTreeMap<String, Missing>,
    /// Data that was lost before this run.
    past: Vec<Past>,
}

/// The event of data that was lost.
#[derive(Clone)]
struct Loss {
    text: String,
    said: Option<HostSentence>,
}

impl Loss {
    fn of(event: &EventView) -> Self {
        let said = match &event.said {
            Some(EventSentence::Host(said)) => Some(said.clone()),
            Some(EventSentence::Service(_) | EventSentence::Error(_) | EventSentence::Result(_) | EventSentence::Warning(_))
            | None => None,
        };
        Self { text: event.text.clone(), said }
    }
}

/// Data of an array or span was lost before this run.
struct Past {
    array: String,
    loss: Loss,
    /// The end of its alarm.
    until: Instant,
}

/// The memory of an array that is not served.
struct Missing {
    /// The reason, and since when it is this one: the time that a start waits begins anew when a drive comes.
    text: String,
    since: Instant,
    /// Since when it is not served, for whatever reasons: a drive that comes and goes changes the reason again and again.
    first: Instant,
    is_reported: bool,
}

impl Observer {
    /// Nothing was seen yet.
    pub fn new(config: &AlarmConfig) -> Self {
        Self {
            spares: config.spares.clone(),
            rebuild_step: config.rebuild_step,
            arrays: BTreeMap::new(),
            not_served: BTreeMap::new(),
            past: Vec::new(),
        }
    }

    /// Takes events from before this run. Data that was lost lately is reported again, like every cause that lasts.
    pub fn remember(&mut self, now: Instant, now_ms: u64, past: &[EventView]) {
        // The clock may be behind at boot, and may have been ahead once: the last event has its best time.
        let latest_ms = past.last().map_or(0, |event| event.time_ms).max(now_ms);
        let lost = past.iter().filter(|event| event.kind == "unreadable").filter_map(|event| {
            let age = Duration::from_millis(latest_ms.saturating_sub(event.time_ms));
            (age < UNREADABLE_LASTS).then(|| Past {
                array: event.array.clone(),
                loss: Loss::of(event),
                until: now + (UNREADABLE_LASTS - age),
            })
        });
        self.past = lost.collect();
    }

    /// Follows this configuration from now on.
    pub fn follow(&mut self, config: &AlarmConfig) {
        (self.spares, self.rebuild_step) = (config.spares.clone(), config.rebuild_step);
    }

    /// Takes the views of all arrays, the events since the last look, and what is known of drives. `slow`: the slow members of an
    /// array.
    pub fn look(
        &mut self,
        now: Instant,
        views: &[ArrayView],
        events: &[EventView],
        drives: &[DriveEntry],
        slow: impl Fn(&str) -> Vec<SlowMember>,
    ) -> Seen {
        let mut seen = Seen::default();
        let links = Links::of(drives);
        for view in views {
            if view.condition.silent_s.is_some() {
                seen.silent.push(view.identity.name.clone());
            }
            // Of an array that has never answered nothing else is known.
            if !is_unseen(view) {
                self.look_at(now, view, events, &links, &mut seen);
            }
            lasting(view, &slow(&view.identity.name), &mut seen.conditions);
            health(view, drives, &mut seen);
        }
        let is_here = |name: &String| views.iter().any(|view| view.identity.name == *name);
        for name in self.arrays.keys().filter(|name| !is_here(name)) {
            seen.happenings.push(happening(
                Event::DeviceDisappeared,
                name,
                None,
                format!("array \"{name}\" is no longer served"),
            ));
            seen.gone.push(name.clone());
        }
        self.arrays.retain(|name, _| views.iter().any(|view| view.identity.name == *name));
        seen
    }

    /// Takes the arrays that should be served and are not. Each is reported when it has been so for `patience`, as drives may
    /// still come.
    pub fn look_for_missing(&mut self, now: Instant, missing: &[AdoptedView], patience: Duration, seen: &mut Seen) {
        self.not_served.retain(|uuid, _| missing.iter().any(|array| array.uuid == *uuid));
        for AdoptedView { name, uuid, text, said, .. } in missing {
            let new = || Missing { text: text.clone(), since: now, first: now, is_reported: false };
            let known = self.not_served.entry(uuid.clone()).or_insert_with(new);
            if known.text != *text {
                (known.text, known.since) = (text.clone(), now);
            }
            let least = patience.saturating_add(STARTING);
            known.is_reported |= now.duration_since(known.since) >= least
                || now.duration_since(known.first) >= least.saturating_mul(REASONS_CHANGE_FOR);
            if known.is_reported {
                let (array, reason, cause) = (name.clone(), text.clone(), said.clone().into());
                seen.conditions.push(condition(Event::NotServed, name, None, Say::AlarmNotServed { array, reason, cause }));
            }
        }
    }

    fn look_at(&mut self, now: Instant, view: &ArrayView, events: &[EventView], links: &Links, seen: &mut Seen) {
        let name = &view.identity.name;
        let is_new = !self.arrays.contains_key(name);
        let known = self.arrays.entry(name.clone()).or_default();
        if is_new {
            // Only what fails during this run is listed as failed.
            let failed = present(view).into_iter().filter(|member| has_failed(member));
            known.lost = failed.map(|member| Lost::new(&member.path, false, now)).collect();
            known.came_degraded = view.condition.health != HealthView::Optimal && known.lost.is_empty();
            seen.happenings.push(happening(Event::NewArray, name, None, format!("array \"{name}\" is served")));
        }
        members(known, now, view, links, seen);
        silent_members(known, view, links, &mut seen.conditions);
        sweeps(known, view, events, self.rebuild_step, seen);
        known.came_degraded &= view.condition.health != HealthView::Optimal;
        if known.came_degraded {
            let said = Say::AlarmCameDegraded { array: name.clone(), then: then(view, &last_drives(view)) };
            seen.conditions.push(condition(Event::DegradedArray, name, None, said));
        }
        let spare_count = all_members(view).iter().filter(|member| member.role == "spare").count();
        if let Some(&wanted_count) = self.spares.get(name).filter(|&&wanted| spare_count < wanted) {
            let said = Say::AlarmSparesMissing { array: name.clone(), spare_count, wanted_count };
            seen.conditions.push(condition(Event::SparesMissing, name, None, said));
        }
        let spans = tree(view);
        let is_of = |event: &&EventView| event.kind == "unreadable" && spans.iter().any(|span| span.identity.name == event.array);
        if let Some(event) = events.iter().rfind(is_of) {
            known.unreadable = Some((now + UNREADABLE_LASTS, Loss::of(event)));
        }
        if let Some(past) = self.past.extract_if(.., |past| spans.iter().any(|span| span.identity.name == past.array)).last() {
            known.unreadable.get_or_insert((past.until, past.loss));
        }
        known.unreadable.take_if(|(until, _)| now >= *until);
        if let Some((_, Loss { text, said })) = &known.unreadable {
            let (array, reason, cause) = (name.clone(), text.clone(), said.clone().into());
            seen.conditions.push(condition(Event::Unreadable, name, None, Say::AlarmUnreadable { array, reason, cause }));
        }
    }
}

/// A cause that stands.
fn condition(event: Event, array: &str, component: Option<&str>, said: Say) -> Condition {
    Condition { said: Some(said.clone()), ..happening(event, array, component, said.to_string()) }
}

/// An event, which programs and the journal alone get.
fn happening(event: Event, array: &str, component: Option<&str>, text: String) -> Condition {
    Condition { event, array: array.into(), component: component.map(str::to_owned), text, said: None }
}

/// The state of an array, with `more` behind its headline.
fn then(view: &ArrayView, more: &str) -> StateThen {
    let losses_survived = (view.condition.health != HealthView::Failed).then_some(view.redundancy.losses_survived);
    StateThen { text: view.headline.clone() + more, losses_survived }
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
fn members(known: &mut Known, now: Instant, view: &ArrayView, links: &Links, seen: &mut Seen) {
    let present = present(view);
    for (path, role) in &known.roles {
        let member = present.iter().find(|member| member.path == *path);
        let is_gone = match member {
            Some(member) => has_failed(member) && role != "failed",
            // Dropped and removed between two looks. Only a spare may be removed while it works.
            None => role != "spare" && role != "failed" && view.condition.health != HealthView::Optimal,
        };
        if is_gone {
            let mut new = Lost { is_anew: true, ..Lost::new(path, role != "in sync", now) };
            // It was added again and fails again, and its first failure still stands, as the array has not been optimal since.
            if let Some(old) = known.lost.extract_if(.., |lost| lost.path == *path).next() {
                new.was_spare &= old.was_spare;
            }
            known.lost.push(new);
        }
        if member.is_some_and(|member| member.role == "in sync" && !is_lost(member)) && role != "in sync" {
            let text = format!("{path} is an active member of array \"{}\"", view.identity.name);
            seen.happenings.push(happening(Event::SpareActive, &view.identity.name, Some(path), text));
        }
    }
    decide_causes(known, now, &present, links);
    lost_members(known, view, &present, seen);
    let is_active = |path: &str| {
        let member = present.iter().find(|member| member.path == path);
        member.is_some_and(|member| member.role == "in sync" && !is_lost(member))
    };
    // A link's cause is over as a whole: when all its members are back, even if the array lacks another one.
    let still_lost: Vec<Option<Cause>> =
        known.lost.iter().filter(|lost| !is_active(&lost.path)).map(|lost| lost.reported_as.clone()).collect();
    // Reported at least once, even if a spare has already taken over.
    known.lost.retain(|lost| {
        let member = present.iter().find(|member| member.path == lost.path);
        match lost.was_spare {
            _ if lost.reported_as.is_none() => true,
            true => member.is_some_and(|member| member.role == "failed"),
            false if lost.reported_as == Some(Cause::Own) => {
                view.condition.health != HealthView::Optimal && !is_active(&lost.path)
            }
            false => view.condition.health != HealthView::Optimal && still_lost.contains(&lost.reported_as),
        }
    });
    let role = |member: &MemberView| if has_failed(member) { "failed".to_owned() } else { member.role.clone() };
    known.roles = present.iter().map(|member| (member.path.clone(), role(member))).collect();
}

/// Decides as which cause each member that was just lost is reported. The decision stays, so that the loss of another member ends
/// no cause.
fn decide_causes(known: &mut Known, now: Instant, present: &[&MemberView], links: &Links) {
    let is_new = |lost: &Lost| lost.reported_as.is_none();
    let new: Vec<String> = known.lost.iter().filter(|lost| is_new(lost)).map(|lost| lost.path.clone()).collect();
    for path in new {
        let sharers = links.sharers(&path, present);
        let is_lost = |member: &&&MemberView| known.lost.iter().any(|lost| lost.path == member.path && is_new(lost));
        let (lost_count, all_lost) = (sharers.iter().filter(is_lost).count(), sharers.iter().all(|member| has_failed(member)));
        let cause = match links.link(&path) {
            Some(link) if all_lost && lost_count > 1 => Cause::Link(link.to_owned()),
            _ => Cause::Own,
        };
        let others_work = sharers.iter().any(|member| !has_failed(member));
        let together: Vec<String> = match &cause {
            Cause::Link(_) => sharers.iter().map(|member| member.path.clone()).collect(),
            Cause::Own => vec![path],
        };
        for lost in known.lost.iter_mut().filter(|lost| is_new(lost) && together.contains(&lost.path)) {
            let may_follow = others_work && !lost.was_spare && now.duration_since(lost.since) < HOLD;
            lost.reported_as = (!may_follow).then(|| cause.clone());
        }
    }
}

/// The causes of members that were dropped or lost.
fn lost_members(known: &mut Known, view: &ArrayView, present: &[&MemberView], seen: &mut Seen) {
    let name = &view.identity.name;
    let why = |member: Option<&MemberView>| {
        let said = member.and_then(|member| member.failure_said.clone());
        (Detail(member.and_then(|member| member.failure.clone())), said.into())
    };
    let mut links: BTreeMap<String, (Vec<&str>, bool)> = BTreeMap::new();
    let mut causes: Vec<(Condition, bool)> = Vec::new();
    for lost in &known.lost {
        let (path, member) = (&lost.path, present.iter().copied().find(|member| member.path == lost.path));
        match &lost.reported_as {
            None => {}
            Some(Cause::Link(link)) => {
                let (paths, is_anew) = links.entry(link.clone()).or_default();
                paths.push(path);
                *is_anew |= lost.is_anew;
            }
            Some(Cause::Own) => {
                let event = if lost.was_spare { Event::FailSpare } else { Event::Fail };
                let (drive, array, (detail, cause), then) = (path.clone(), name.clone(), why(member), then(view, ""));
                // Lost: more than the level survives, so it still has the slot.
                let said = match (lost.was_spare, member.is_some_and(is_lost)) {
                    (false, false) => Say::AlarmMemberDropped { drive, array, detail, cause, then },
                    (false, true) => Say::AlarmMemberLost { drive, array, detail, cause, then },
                    (true, false) => Say::AlarmSpareDropped { drive, array, detail, cause, then },
                    (true, true) => Say::AlarmSpareLost { drive, array, detail, cause, then },
                };
                causes.push((condition(event, name, Some(path), said), lost.is_anew));
            }
        }
    }
    for (link, (paths, is_anew)) in links {
        let first = present.iter().copied().find(|member| member.path == paths[0]);
        let (detail, cause) = why(first);
        let said = Say::AlarmLinkLost {
            drives: paths.into_iter().collect(),
            array: name.clone(),
            link: link.clone(),
            detail,
            cause,
            then: then(view, ""),
        };
        causes.push((condition(Event::Fail, name, Some(&link), said), is_anew));
    }
    seen.anew.extend(causes.iter().filter(|(_, is_anew)| *is_anew).map(|(cause, _)| cause.clone()));
    seen.conditions.extend(causes.into_iter().map(|(cause, _)| cause));
    known.lost.iter_mut().filter(|lost| lost.reported_as.is_some()).for_each(|lost| lost.is_anew = false);
}

/// Members that do not answer. All of one link that have requests to answer are one cause.
fn silent_members(known: &mut Known, view: &ArrayView, links: &Links, conditions: &mut Vec<Condition>) {
    // All that is known of a silent array is old.
    if view.condition.silent_s.is_some_and(|seconds| seconds >= SILENT.as_secs()) {
        return;
    }
    let (name, mut present) = (&view.identity.name, present(view));
    present.retain(|member| member.role != "failed");
    let waits =
        |member: &MemberView, time: Duration| member.waiting_ms.is_some_and(|waiting| u128::from(waiting) >= time.as_millis());
    let silent: Vec<&MemberView> = present.iter().copied().filter(|member| waits(member, SILENT)).collect();
    known.silent.retain(|path, _| silent.iter().any(|member| member.path == *path));
    for member in &silent {
        let sharers = links.sharers(&member.path, &present);
        let asked: Vec<&&MemberView> = sharers.iter().filter(|member| member.waiting_ms.is_some()).collect();
        let are_all = asked.len() > 1 && asked.iter().all(|member| waits(member, WAITS));
        let of_link = links.link(&member.path).map(|link| Cause::Link(link.to_owned()));
        let cause = of_link.filter(|cause| are_all || known.silent.values().any(|known| known == cause)).unwrap_or(Cause::Own);
        known.silent.entry(member.path.clone()).or_insert(cause);
    }
    let mut together: BTreeMap<&str, Vec<&MemberView>> = BTreeMap::new();
    for member in silent {
        match &known.silent[&member.path] {
            Cause::Link(link) => together.entry(link).or_default().push(member),
            Cause::Own => {
                let (path, lasting_s) = (&member.path, Lasting(member.waiting_ms.unwrap_or(0) / 1000));
                let said = Say::AlarmMemberSilent { drive: path.clone(), array: name.clone(), lasting_s };
                conditions.push(condition(Event::MemberSilent, name, Some(path), said));
            }
        }
    }
    for (link, members) in together {
        let longest = members.iter().filter_map(|member| member.waiting_ms).max().unwrap_or(0);
        let sharers = links.sharers(&members[0].path, &present);
        let said = Say::AlarmLinkSilent {
            drives: sharers.iter().filter(|member| waits(member, WAITS)).map(|member| member.path.as_str()).collect(),
            array: name.clone(),
            link: link.to_owned(),
            lasting_s: Lasting(longest / 1000),
        };
        conditions.push(condition(Event::MemberSilent, name, Some(link), said));
    }
}

/// Sweeps that began, ended, or have reached the next step.
fn sweeps(known: &mut Known, view: &ArrayView, events: &[EventView], step: u8, seen: &mut Seen) {
    let name = &view.identity.name;
    for span in tree(view) {
        for event in events.iter().filter(|event| event.array == span.identity.name) {
            let Some(kind) = &event.sweep else { continue };
            let mut happened = |what, component: Option<&str>| {
                seen.happenings.push(happening(what, name, component, format!("{}: {}", event.array, event.text)));
            };
            match event.kind.as_str() {
                "sweep_started" => happened(Event::RebuildStarted, None),
                "sweep_finished" => {
                    let count = event.mismatch_sectors.filter(|&count| count > 0);
                    let words = count.map(|count| format!("mismatches found: {count} (on raid level {})", span.geometry.level));
                    happened(Event::RebuildFinished, words.as_deref());
                    known.progress.remove(&(span.identity.name.clone(), kind.clone()));
                }
                _ => {}
            }
        }
        let Some(sweep) = span.redundancy.sweep.as_ref().filter(|_| step > 0) else { continue };
        let percent = (sweep.done_bytes.min(sweep.total_bytes) * 100 / sweep.total_bytes.max(1)) as u8;
        let reached = percent / step * step;
        let reported = known.progress.entry((span.identity.name.clone(), sweep.kind.clone())).or_default();
        if reached > *reported && reached < 100 {
            let text = format!("{} of array \"{name}\" is at {percent} %", sweep.kind);
            seen.happenings.push(happening(Event::Rebuild(reached), name, None, text));
        }
        *reported = reached;
    }
}

/// The causes that the view shows, and slow members.
fn lasting(view: &ArrayView, slow: &[SlowMember], conditions: &mut Vec<Condition>) {
    let name = &view.identity.name;
    let mut so = |event, component: Option<&str>, said| conditions.push(condition(event, name, component, said));
    let array = || name.clone();
    if let Some(seconds) = view.condition.silent_s.filter(|&seconds| seconds >= SILENT.as_secs()) {
        so(Event::ArraySilent, None, Say::AlarmArraySilent { array: array(), seconds });
        // The rest of the view is older than that.
        return;
    }
    if let Some(reason) = view.condition.unreplayed.clone() {
        so(Event::ReadOnly, None, Say::AlarmReadOnly { array: array(), reason });
    }
    if let Some(reason) = view.condition.superblock_refused.clone() {
        so(Event::SuperblockRefused, None, Say::AlarmSuperblockRefused { array: array(), reason });
    }
    let full: Vec<&str> = present(view).into_iter().filter(|member| member.no_room).map(|member| member.path.as_str()).collect();
    if !full.is_empty() {
        so(Event::NoSpace, None, Say::AlarmNoSpace { array: array(), drives: full.into_iter().collect() });
    }
    for member in present(view).into_iter().filter(|member| member.file_deleted) {
        let said = Say::AlarmFileDeleted { drive: member.path.clone(), array: array() };
        so(Event::FileDeleted, Some(&member.path), said);
    }
    for member in present(view).into_iter().filter(|member| member.cache_unflushed) {
        let said = Say::AlarmCacheUnflushed { drive: member.path.clone(), array: array() };
        so(Event::CacheUnflushed, Some(&member.path), said);
    }
    if found_mismatch(view) {
        so(Event::Mismatch, None, Say::AlarmMismatch { array: array() });
    }
    for member in slow {
        let (drive, slow) = (member.path.clone(), Slow(member.clone()));
        so(Event::SlowMember, Some(&member.path), Say::AlarmSlowMember { drive, array: array(), slow });
    }
}

/// The causes that drives report of themselves.
fn health(view: &ArrayView, drives: &[DriveEntry], seen: &mut Seen) {
    for member in present(view).into_iter().filter(|member| member.role != "failed") {
        let entry = drives.iter().find(|entry| entry.path.as_os_str() == member.path.as_str());
        let health = entry.and_then(|entry| entry.health.as_ref());
        let Some(health @ DriveHealth { verdict, asleep, .. }) = health else {
            seen.unread.push((view.identity.name.clone(), member.path.clone()));
            continue;
        };
        let event = match verdict {
            Verdict::Good if *asleep => {
                seen.unread.push((view.identity.name.clone(), member.path.clone()));
                continue;
            }
            Verdict::Good => continue,
            Verdict::Watch => Event::DriveWatch,
            Verdict::Replace => Event::DriveReplace,
        };
        let (drive, array) = (member.path.clone(), view.identity.name.clone());
        let said = Say::AlarmDriveHealth { drive, array, findings: Findings(health.findings.clone()) };
        seen.conditions.push(condition(event, &view.identity.name, Some(&member.path), said));
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

    #[test]
    fn a_cause_that_stands_has_the_sentence_of_its_text() {
        let mut observer = Observer::new(&AlarmConfig::default());
        look(&mut observer, &array(WELL));
        let mut failed = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync")]);
        failed.parts.members[0].no_room = true;
        let seen = observer.look(Instant::now(), &[failed], NOTHING, &[], NONE_SLOW);
        assert_eq!(names(&seen.conditions), ["Fail", "NoSpace"]);
        for cause in &seen.conditions {
            assert_eq!(cause.said.as_ref().map(ToString::to_string).as_ref(), Some(&cause.text));
        }
    }

    /// It was a line of the log, and what clients had flushed was at risk until somebody read that.
    #[test]
    fn a_cache_that_gets_no_flushes_stands_until_the_array_was_stopped() {
        let mut observer = Observer::new(&AlarmConfig::default());
        look(&mut observer, &array(WELL));
        let mut view = array(WELL);
        crate::view::note_unflushed(&mut view, &["b".into()]);
        let seen = observer.look(Instant::now(), std::slice::from_ref(&view), NOTHING, &[], NONE_SLOW);
        assert_eq!(causes(&seen), told("CacheUnflushed", "b"));
        assert!(seen.conditions[0].text.contains("a power cut may lose"), "{seen:?}");
        crate::view::note_unflushed(&mut view, &[]);
        assert_eq!(look(&mut observer, &view).0, [""; 0]);
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
            let member = view.parts.members.iter_mut().find(|member| member.path == path).expect("it is a member");
            (member.failure, view.condition.health) = (Some("I/O error".into()), HealthView::Failed);
            view
        };
        let mut stripes = array(&WELL[..3]);
        stripes.geometry.level = "0".into();
        let degraded = array(&[("a", "in sync"), ("b", "failed"), ("c", "in sync")]);
        for (before, expected) in [(stripes, vec!["a"]), (degraded, vec!["b", "a"])] {
            let mut observer = Observer::new(&AlarmConfig::default());
            look(&mut observer, &before);
            let failed = lose(before, "a");
            for _ in 0..2 {
                let seen = observer.look(Instant::now(), std::slice::from_ref(&failed), NOTHING, &[], NONE_SLOW);
                let reported: Vec<(&Event, &str)> =
                    seen.conditions.iter().map(|cause| (&cause.event, cause.component.as_deref().unwrap_or_default())).collect();
                assert_eq!(reported, expected.iter().map(|path| (&Event::Fail, *path)).collect::<Vec<_>>());
                assert!(seen.conditions.last().is_some_and(|cause| cause.text.contains("was lost: I/O error")), "{seen:?}");
            }
        }
    }

    /// Drives on the link of this name.
    fn on_link(link: &str, paths: &[&str]) -> Vec<DriveEntry> {
        let entry = |path: &&str| {
            let seat = serde_json::from_value(serde_json::json!({"link": link})).expect("a seat");
            DriveEntry { path: (*path).into(), read_at_s: 0, health: None, error: None, seat: Some(seat) }
        };
        paths.iter().map(entry).collect()
    }

    fn causes(seen: &Seen) -> Vec<(String, String)> {
        let cause = |cause: &Condition| (cause.event.name().into_owned(), cause.component.clone().unwrap_or_default());
        seen.conditions.iter().map(cause).collect()
    }

    fn told(event: &str, component: &str) -> Vec<(String, String)> {
        vec![(event.into(), component.into())]
    }

    /// A RAID 6 loses two members, the first returns and is lost once more: it had one message until the next day.
    #[test]
    fn a_member_that_fails_again_while_another_is_missing_is_told_again() {
        let (mut observer, mut tracker) =
            (Observer::new(&AlarmConfig::default()), stria_alarm::Tracker::new(Duration::from_secs(86400)));
        let start = Instant::now();
        let mut at = |second: u64, roles: [&str; 2]| {
            let (now, mut view) = (
                start + Duration::from_secs(second),
                array(&[("a", roles[0]), ("b", roles[1]), ("c", "in sync"), ("d", "in sync")]),
            );
            view.condition.health = if roles == ["in sync"; 2] { HealthView::Optimal } else { HealthView::Degraded };
            let seen = observer.look(now, std::slice::from_ref(&view), NOTHING, &[], NONE_SLOW);
            seen.anew.iter().for_each(|cause| tracker.renew(now, cause));
            let messages = tracker.update(now, &seen.conditions, |cause| seen.is_unknown(cause));
            messages.into_iter().map(|message| message.subject()).collect::<Vec<_>>()
        };
        assert_eq!(at(0, ["in sync", "in sync"]), [""; 0]);
        assert_eq!(at(1, ["failed", "in sync"]), ["Fail on array tank (a)"]);
        assert_eq!(at(2, ["failed", "failed"]), ["Fail on array tank (b)"]);
        assert_eq!(at(3, ["rebuilding", "failed"]), [""; 0]);
        assert_eq!(at(4, ["failed", "failed"]), ["Fail on array tank (a)"], "during its rebuild");
        assert_eq!((at(5, ["rebuilding", "failed"]), at(6, ["in sync", "failed"])), (vec![], vec![]));
        assert_eq!(at(7, ["failed", "failed"]), [""; 0], "it flaps");
        assert_eq!((at(8, ["in sync", "failed"]), at(15, ["in sync", "failed"])), (vec![], vec![]));
        assert_eq!(at(3614, ["in sync", "failed"]), [""; 0]);
        assert_eq!(at(3615, ["in sync", "failed"]), ["over: Fail on array tank (a)"], "it was well for an hour");
        assert_eq!(at(7300, ["failed", "failed"]), ["Fail on array tank (a)"]);
        assert_eq!(at(7390, ["failed", "failed"]), [""; 0], "each once");
    }

    #[test]
    fn members_of_one_link_that_are_lost_together_are_one_cause() {
        let links = [on_link("0000:3a:00.0", &["a", "b"]), on_link("0000:3b:00.0", &["c"])].concat();
        let roles = |a: &'static str, b: &'static str| array(&[("a", a), ("b", b), ("c", "in sync")]);
        let start = Instant::now();
        let at = |observer: &mut Observer, ms: u64, view: ArrayView| {
            causes(&observer.look(start + Duration::from_millis(ms), &[view], NOTHING, &links, NONE_SLOW))
        };
        let mut observer = Observer::new(&AlarmConfig::default());
        assert_eq!(at(&mut observer, 0, roles("in sync", "in sync")), []);
        assert_eq!(at(&mut observer, 250, roles("failed", "in sync")), [], "the other one may follow");
        for ms in [1000, 9000] {
            assert_eq!(at(&mut observer, ms, roles("failed", "failed")), told("Fail", "0000:3a:00.0"));
        }
        let seen = observer.look(start, &[roles("failed", "failed")], NOTHING, &links, NONE_SLOW);
        assert!(seen.conditions[0].text.contains("members a, b of array \"tank\", all on one link"), "{seen:?}");
        // It ends when both are back, also while the array lacks a member elsewhere.
        let other_lost = |a: &'static str, b: &'static str| array(&[("a", a), ("b", b), ("c", "failed")]);
        assert_eq!(
            at(&mut observer, 10_000, other_lost("in sync", "failed")),
            [told("Fail", "c"), told("Fail", "0000:3a:00.0")].concat()
        );
        assert_eq!(at(&mut observer, 11_000, other_lost("in sync", "in sync")).len(), 2, "told at least once");
        assert_eq!(at(&mut observer, 12_000, other_lost("in sync", "in sync")), told("Fail", "c"));
        // One alone is told after some seconds, and stays a cause of its own.
        let mut observer = Observer::new(&AlarmConfig::default());
        at(&mut observer, 0, roles("in sync", "in sync"));
        assert_eq!(at(&mut observer, 250, roles("failed", "in sync")), []);
        assert_eq!(at(&mut observer, 3250, roles("failed", "in sync")), told("Fail", "a"));
        assert_eq!(at(&mut observer, 9000, roles("failed", "failed")), [told("Fail", "a"), told("Fail", "b")].concat());
    }

    #[test]
    fn members_of_one_link_that_are_silent_together_are_one_cause() {
        let links = [on_link("0000:3a:00.0", &["a", "b", "s"]), on_link("0000:3b:00.0", &["c"])].concat();
        let silent = |waiting: [Option<u64>; 3]| {
            let mut view = array(WELL);
            view.parts.members.iter_mut().zip(waiting).for_each(|(member, waiting)| member.waiting_ms = waiting);
            view
        };
        let look = |observer: &mut Observer, waiting: [Option<u64>; 3]| {
            observer.look(Instant::now(), &[silent(waiting)], NOTHING, &links, NONE_SLOW)
        };
        let mut observer = Observer::new(&AlarmConfig::default());
        let seen = look(&mut observer, [Some(5000), Some(1200), Some(3)]);
        assert_eq!(causes(&seen), told("MemberSilent", "0000:3a:00.0"));
        assert!(seen.conditions[0].text.contains("members a, b of array \"tank\", all on one link"), "{seen:?}");
        assert_eq!(causes(&look(&mut observer, [Some(9000), Some(5200), None])), told("MemberSilent", "0000:3a:00.0"));
        assert_eq!(
            causes(&look(&mut observer, [Some(9000), Some(10), None])),
            told("MemberSilent", "0000:3a:00.0"),
            "the cause stays one"
        );
        assert_eq!(causes(&look(&mut observer, [None, None, None])), []);
        // Another member on the link answers: it is the drive.
        assert_eq!(causes(&look(&mut observer, [Some(5000), Some(10), None])), told("MemberSilent", "a"));
        assert_eq!(
            causes(&look(&mut observer, [Some(9000), Some(5000), None])),
            [told("MemberSilent", "a"), told("MemberSilent", "0000:3a:00.0")].concat(),
            "what was told stays"
        );
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
        replaced.parts.members[1].failure_said = Some(crate::words::error::ErrorSentence::ReplacedByAnother {});
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
            "reported until it was seen to be well"
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
            "reported until it was seen to be gone"
        );
        assert_eq!(look(&mut observer, &array(WELL)).0, [""; 0]);
    }

    #[test]
    fn the_causes_of_an_array_that_does_not_answer_are_unknown() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let mut full = array(WELL);
        full.parts.members[0].no_room = true;
        let seen = observer.look(Instant::now(), &[full.clone()], NOTHING, &[], NONE_SLOW);
        assert_eq!(names(&seen.conditions), ["NoSpace"]);
        let cause = seen.conditions[0].clone();
        assert!(!seen.is_unknown(&cause));
        full.condition.silent_s = Some(6);
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
            said: None,
            obstacle: Some(crate::api::Obstacle::Drives),
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
        let reported = at(65, missing);
        assert!(names(&reported) == ["NotServed"] && reported[0].text.contains("2 drives are missing"), "{reported:?}");
        assert_eq!(names(&at(66, other)), ["NotServed"], "it still is not served");
        assert_eq!((at(67, &[]), at(68, missing), at(98, missing)), (vec![], vec![], vec![]), "the time begins anew");
        // A drive that came and went every 30 s kept the alarm away for ever.
        assert_eq!((at(100, other), at(130, missing), at(160, other)), (vec![], vec![], vec![]));
        assert_eq!(names(&at(173, other)), ["NotServed"]);
    }

    #[test]
    fn a_drive_that_is_about_to_die_is_told_while_it_is_a_member() {
        let mut observer = Observer::new(&AlarmConfig::default());
        let finding = stria_health::Finding { verdict: Verdict::Replace, sentence: "it expects to fail".into(), said: None };
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

    /// It was told only by an event of the run in which it happened.
    #[test]
    fn data_that_was_lost_before_a_restart_is_told_for_the_rest_of_its_hour() {
        let lost = |array: &str, time_ms: u64| EventView {
            time_ms,
            ..crate::view::plain_event(array, "unreadable", "8 sectors at 0 are unrecoverable".into())
        };
        let (view, start, hour_ms) = (array(WELL), Instant::now(), 3_600_000);
        let told_at = |now_ms: u64, past: &[EventView]| {
            let mut observer = Observer::new(&AlarmConfig::default());
            observer.remember(start, now_ms, past);
            [0, 600, 2400].map(|seconds| {
                let now = start + Duration::from_secs(seconds);
                let seen = observer.look(now, std::slice::from_ref(&view), NOTHING, &[], NONE_SLOW);
                names(&seen.conditions) == ["Unreadable"]
            })
        };
        assert_eq!(told_at(10 * hour_ms, &[lost("tank", 9 * hour_ms + hour_ms / 2)]), [true, true, false]);
        assert_eq!(told_at(10 * hour_ms, &[lost("tank", 9 * hour_ms), lost("pool", 10 * hour_ms)]), [false; 3]);
        // The clock is behind at boot.
        let latest = crate::view::plain_event("tank", "stopped", String::new());
        let latest = EventView { time_ms: 10 * hour_ms, ..latest };
        assert_eq!(told_at(0, &[lost("tank", 2 * hour_ms), latest.clone()]), [false; 3], "hours before the last event");
        assert_eq!(told_at(0, &[lost("tank", 10 * hour_ms - 1), latest.clone()]), [true, true, true]);
        // It was ahead at an earlier boot, until the time was set: the alarm of a loss this hour was lost with the process.
        let (ahead, now) = (EventView { time_ms: 1000 * hour_ms, ..latest.clone() }, lost("tank", 10 * hour_ms));
        assert_eq!(told_at(10 * hour_ms, &[ahead.clone(), now, latest]), [true, true, true]);
        assert_eq!(told_at(10 * hour_ms, &[lost("tank", 1000 * hour_ms)]), [true, true, true], "a loss in the future is new");
    }
}
