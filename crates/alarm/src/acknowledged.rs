//! Causes that a person knows of. Their reminders stop; the cause itself stays open.
//!
//! An acknowledgement ends with its cause, and earlier if the cause becomes worse. Those of an array that is no longer served, or of
//! an earlier run, wait here for their cause. They wait briefly: a cause that is gone when its array is looked at again is over, and
//! one that begins later is a new one.

use crate::{Condition, Event};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// How long an acknowledgement waits for its cause after its array was first seen. A drive's health is known after some minutes.
const WAITS: Duration = Duration::from_secs(15 * 60);
/// Acknowledgements that may wait; the oldest gives way.
const WAITING_MAX: usize = 256;

/// The user who acknowledged a cause, and the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// The user.
    pub by: String,
    /// The time, in seconds since 1970.
    pub at_s: u64,
    /// The user's note: text from outside, to be escaped where it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Acknowledgement {
    /// The characters that a note may have.
    pub const NOTE_CHARS_MAX: usize = 400;

    /// "acknowledged by root (user 0) since 2026-01-01T00:00:00Z: the new drive is ordered"
    pub fn words(&self) -> String {
        let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(self.at_s));
        let note = self.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
        format!("acknowledged by {} since {since}{note}", self.by)
    }

    /// The latest one, if each alarm has one, and there is an alarm.
    pub fn of_all<'a>(alarms: impl Iterator<Item = Option<&'a Self>>) -> Option<&'a Self> {
        alarms.collect::<Option<Vec<&Self>>>()?.into_iter().max_by_key(|known| known.at_s)
    }
}

/// The arrays that are seen, by their UUIDs: the name of each.
pub type Names = BTreeMap<String, String>;

/// A cause as it was when a person acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged<S = ()> {
    /// The cause.
    pub cause: Condition<S>,
    /// The person.
    pub acknowledgement: Acknowledgement,
    /// The UUID of the cause's array, by which it is known under another name. `None`: it is about no array, or the UUID is not known.
    pub array_uuid: Option<String>,
}

/// Sentences of causes, which tell whether a cause has become worse.
pub trait Degree: Clone + PartialEq {
    /// True if the cause is worse than it was. Both are the same cause, or the second is how a restart reports the first.
    fn is_worse(before: &Condition<Self>, now: &Condition<Self>) -> bool;
}

impl Degree for () {
    fn is_worse(_: &Condition, _: &Condition) -> bool {
        false
    }
}

/// True of an alarm about lost redundancy. A member that was lost before a restart has no alarm of its own: its array is degraded.
fn is_of_redundancy(event: Event) -> bool {
    matches!(event, Event::Fail | Event::DegradedArray)
}

impl<S: Degree> Acknowledged<S> {
    /// Follows its array to the name that it has now.
    pub(crate) fn follow(&mut self, names: &Names) {
        if let Some(name) = self.array_uuid.as_ref().and_then(|uuid| names.get(uuid)) {
            self.cause.array.clone_from(name);
        }
    }

    /// True if the array that has the name now is another one.
    fn is_of_other(&self, names: &Names) -> bool {
        self.array_uuid.as_ref().is_some_and(|uuid| names.get(uuid) != Some(&self.cause.array))
    }

    /// True if a new cause is the acknowledged one.
    pub(crate) fn is_of(&self, new: &Condition<S>) -> bool {
        let was_lost_before =
            new.event == Event::DegradedArray && is_of_redundancy(self.cause.event) && self.cause.array == new.array;
        was_lost_before || self.cause.is_same_cause(new)
    }
}

struct Waiting<S> {
    known: Acknowledged<S>,
    /// When its array was first seen again.
    seen: Option<Instant>,
}

/// Acknowledgements that wait for their cause.
pub(crate) struct WaitingRoom<S>(Vec<Waiting<S>>);

impl<S: Degree> WaitingRoom<S> {
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes acknowledgements, the oldest first.
    pub fn take(&mut self, known: impl IntoIterator<Item = Acknowledged<S>>) {
        for known in known {
            if !self.all().any(|other| *other == known) {
                self.0.push(Waiting { known, seen: None });
            }
        }
        self.0.drain(..self.0.len().saturating_sub(WAITING_MAX));
    }

    /// Arrays may have other names than when they were last seen.
    pub fn follow(&mut self, names: &Names) {
        self.0.iter_mut().for_each(|waiting| waiting.known.follow(names));
    }

    /// The acknowledgement of a cause that begins. None is left for it: one that does not hold any more is dropped.
    pub fn claim(&mut self, new: &Condition<S>, names: &Names) -> Option<Acknowledged<S>> {
        let is_it = |known: &Acknowledged<S>| known.is_of(new) && !known.is_of_other(names);
        let found: Vec<Waiting<S>> = self.0.extract_if(.., |waiting| is_it(&waiting.known)).collect();
        found.into_iter().map(|waiting| waiting.known).find(|known| !S::is_worse(&known.cause, new))
    }

    /// Drops those whose cause is over. `is_seen`: the array is looked at and answers, or there is none.
    pub fn expire(&mut self, now: Instant, names: &Names, is_seen: impl Fn(&str) -> bool) {
        self.0.retain_mut(|Waiting { known, seen }| {
            if !is_seen(&known.cause.array) || known.is_of_other(names) {
                return true;
            }
            let since = *seen.get_or_insert(now);
            match known.cause.event {
                // What an array lacks is known at the first look. One that is served is no longer missing.
                event if is_of_redundancy(event) => false,
                Event::NotServed => false,
                _ => now.duration_since(since) < WAITS,
            }
        });
    }

    /// An array is no longer served.
    pub fn forget(&mut self, array: &str) {
        self.0.iter_mut().filter(|waiting| waiting.known.cause.array == array).for_each(|waiting| waiting.seen = None);
    }

    pub fn all(&self) -> impl Iterator<Item = &Acknowledged<S>> {
        self.0.iter().map(|waiting| &waiting.known)
    }
}
