//! The events, and a message about one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::SystemTime;

/// The urgency of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The event is for the record: programs and the journal get it, people do not.
    Info,
    /// An administrator should look soon.
    Warning,
    /// Data is at risk, or not available.
    Critical,
}

/// An event. The first ones have the names of `mdadm --monitor`, and mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Event {
    /// An array is served.
    NewArray,
    /// An array is no longer served.
    DeviceDisappeared,
    /// A resync, rebuild or scrub has begun.
    RebuildStarted,
    /// It has reached so many per cent.
    Rebuild(u8),
    /// It has ended.
    RebuildFinished,
    /// A member was dropped.
    Fail,
    /// A spare or a member that was being filled was dropped.
    FailSpare,
    /// A spare or returning member is in sync with its slot.
    SpareActive,
    /// An array was degraded when it was first seen.
    DegradedArray,
    /// An array has fewer spares than it should have.
    SparesMissing,
    /// A test.
    TestMessage,
    /// Writes fail, because a member has no space.
    NoSpace,
    /// The file of a member was deleted: its bytes are lost when the array stops.
    FileDeleted,
    /// A member does not answer.
    MemberSilent,
    /// An array does not answer.
    ArraySilent,
    /// An array of the configuration is not served, although nobody stopped it.
    NotServed,
    /// The last scrub found redundancy that does not match.
    Mismatch,
    /// Data is lost: too many members could not read it.
    Unreadable,
    /// The replay after a crash ended early, so the array takes no writes.
    ReadOnly,
    /// Superblocks cannot be written, so writes and flushes fail.
    SuperblockRefused,
    /// A drive's write cache is on, and its array sends it no flushes.
    CacheUnflushed,
    /// A member is far slower than the others.
    SlowMember,
    /// A part of the configuration does not hold: a file that it names cannot be used.
    ConfigFault,
    /// A drive's health calls for attention.
    DriveWatch,
    /// A drive's health calls for its replacement.
    DriveReplace,
}

impl Event {
    /// Its name, as programs get it.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Rebuild(percent) => format!("Rebuild{percent:02}").into(),
            Self::NewArray => "NewArray".into(),
            Self::DeviceDisappeared => "DeviceDisappeared".into(),
            Self::RebuildStarted => "RebuildStarted".into(),
            Self::RebuildFinished => "RebuildFinished".into(),
            Self::Fail => "Fail".into(),
            Self::FailSpare => "FailSpare".into(),
            Self::SpareActive => "SpareActive".into(),
            Self::DegradedArray => "DegradedArray".into(),
            Self::SparesMissing => "SparesMissing".into(),
            Self::TestMessage => "TestMessage".into(),
            Self::NoSpace => "NoSpace".into(),
            Self::FileDeleted => "FileDeleted".into(),
            Self::MemberSilent => "MemberSilent".into(),
            Self::ArraySilent => "ArraySilent".into(),
            Self::NotServed => "NotServed".into(),
            Self::Mismatch => "Mismatch".into(),
            Self::Unreadable => "Unreadable".into(),
            Self::ReadOnly => "ReadOnly".into(),
            Self::SuperblockRefused => "SuperblockRefused".into(),
            Self::CacheUnflushed => "CacheUnflushed".into(),
            Self::SlowMember => "SlowMember".into(),
            Self::ConfigFault => "ConfigFault".into(),
            Self::DriveWatch => "DriveWatch".into(),
            Self::DriveReplace => "DriveReplace".into(),
        }
    }

    /// True if the array reports the cause by an event of its own, with the same words.
    pub fn has_event(self) -> bool {
        matches!(
            self,
            Self::Fail
                | Self::FailSpare
                | Self::NoSpace
                | Self::FileDeleted
                | Self::MemberSilent
                | Self::ArraySilent
                | Self::Mismatch
                | Self::Unreadable
                | Self::SuperblockRefused
        )
    }

    /// The urgency of the event.
    pub fn severity(self) -> Severity {
        match self {
            Self::NewArray
            | Self::DeviceDisappeared
            | Self::RebuildStarted
            | Self::Rebuild(_)
            | Self::RebuildFinished
            | Self::SpareActive => Severity::Info,
            Self::FailSpare | Self::SparesMissing | Self::TestMessage | Self::Mismatch | Self::SlowMember | Self::DriveWatch => {
                Severity::Warning
            }
            Self::Fail
            | Self::DegradedArray
            | Self::NoSpace
            | Self::FileDeleted
            | Self::MemberSilent
            | Self::ArraySilent
            | Self::NotServed
            | Self::Unreadable
            | Self::ReadOnly
            | Self::SuperblockRefused
            | Self::CacheUnflushed
            | Self::ConfigFault
            | Self::DriveReplace => Severity::Critical,
        }
    }
}

/// A condition that may last. `S`: the sentences that its user has for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(bound = "")]
pub struct Condition<S = ()> {
    /// The event by which it is reported.
    pub event: Event,
    /// The array.
    pub array: String,
    /// The member, if it is about one.
    pub component: Option<String>,
    /// The fault, its meaning, and the remedy.
    pub text: String,
    /// The sentence of the text; `None`: it has text alone.
    #[serde(skip)]
    pub said: Option<S>,
}

impl<S> Condition<S> {
    /// True if it is the same cause; the words may differ.
    pub fn is_same_cause(&self, other: &Self) -> bool {
        self.event == other.event && self.array == other.array && self.component == other.component
    }
}

/// The part of a cause's life that a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It has begun, or happened.
    Raised,
    /// It still lasts.
    Repeated,
    /// It has ended.
    Cleared,
}

/// The event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Message<S = ()> {
    /// The part of the cause's life.
    pub phase: Phase,
    /// The cause.
    pub cause: Condition<S>,
    /// When the cause was first seen.
    pub since: SystemTime,
}

impl<S> Message<S> {
    /// About something that happened once.
    pub fn once(cause: Condition<S>) -> Self {
        Self { phase: Phase::Raised, cause, since: SystemTime::now() }
    }

    /// The same as text alone, which is what channels take.
    pub(crate) fn in_text(&self) -> Message {
        let Condition { event, array, component, text, said: _ } = &self.cause;
        let cause =
            Condition { event: *event, array: array.clone(), component: component.clone(), text: text.clone(), said: None };
        Message { phase: self.phase, cause, since: self.since }
    }

    /// The event's name for programs. The end of a cause is an event of its own.
    pub fn event_name(&self) -> Cow<'static, str> {
        match self.phase {
            Phase::Raised | Phase::Repeated => self.cause.event.name(),
            Phase::Cleared => "Cleared".into(),
        }
    }

    /// True if people get the message, not only programs.
    pub fn is_for_people(&self) -> bool {
        self.cause.event.severity() > Severity::Info
    }

    /// The message in one line.
    pub fn subject(&self) -> String {
        let Condition { event, array, component, .. } = &self.cause;
        let phase = match self.phase {
            Phase::Raised => "",
            Phase::Repeated => "still: ",
            Phase::Cleared => "over: ",
        };
        let component = component.as_ref().map_or_else(String::new, |component| format!(" ({component})"));
        format!("{phase}{} on array {array}{component}", event.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_mdadm() {
        assert_eq!([Event::Rebuild(20), Event::Rebuild(5)].map(Event::name), ["Rebuild20", "Rebuild05"]);
        for event in [Event::Fail, Event::DegradedArray, Event::SparesMissing, Event::TestMessage, Event::NewArray] {
            assert_eq!(event.name(), format!("{event:?}"));
        }
    }
}
