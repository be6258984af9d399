//! The sentences of alarms that last.

use crate::words::error::{Cause, Detail, ErrorSentence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use stria_alarm::{Condition, Degree, Event};
use stria_health::{Finding, SlowMember};
use stria_host::HostSentence;
use stria_sentence::{Names, sentences};
use stria_terminal::size;

/// The state of an array at the time of an alarm; in a text its headline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateThen {
    /// The headline.
    pub text: String,
    /// How many more members may fail; null: more are lost than redundancy covers.
    pub losses_survived: Option<usize>,
}

impl fmt::Display for StateThen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Seconds, in a text with minutes and hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Lasting(pub u64);

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size::show_duration(self.0))
    }
}

/// A member beside its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Slow(pub SlowMember);

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.words())
    }
}

/// What a drive reports of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Findings(pub Vec<Finding>);

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentences: Vec<&str> = self.0.iter().map(|finding| finding.sentence.as_str()).collect();
        f.write_str(&sentences.join(". "))
    }
}

sentences! {
    /// An alarm that lasts, for programs: `code` stays the same when its words change.
    pub enum AlarmSentence {
        AlarmMemberDropped { drive: String, array: String, detail: Detail, cause: Cause<ErrorSentence>, then: StateThen } => "member {drive} of array \"{array}\" was dropped{detail}{cause}; the array now: {then}",
        AlarmMemberLost { drive: String, array: String, detail: Detail, cause: Cause<ErrorSentence>, then: StateThen } => "member {drive} of array \"{array}\" was lost{detail}{cause}; the array now: {then}",
        AlarmSpareDropped { drive: String, array: String, detail: Detail, cause: Cause<ErrorSentence>, then: StateThen } => "spare {drive} of array \"{array}\" was dropped{detail}{cause}; the array now: {then}",
        AlarmSpareLost { drive: String, array: String, detail: Detail, cause: Cause<ErrorSentence>, then: StateThen } => "spare {drive} of array \"{array}\" was lost{detail}{cause}; the array now: {then}",
        AlarmLinkLost { drives: Names, array: String, link: String, detail: Detail, cause: Cause<ErrorSentence>, then: StateThen } => "members {drives} of array \"{array}\", all on one link ({link}), were lost{detail}{cause}; look at its controller, cable, enclosure and power; the array now: {then}",
        AlarmMemberSilent { drive: String, array: String, lasting_s: Lasting } => "member {drive} of array \"{array}\" has not answered for {lasting_s}",
        AlarmLinkSilent { drives: Names, array: String, link: String, lasting_s: Lasting } => "members {drives} of array \"{array}\", all on one link ({link}), have not answered for {lasting_s}; look at its controller, cable, enclosure and power",
        AlarmArraySilent { array: String, seconds: u64 } => "array \"{array}\" has not answered for {seconds} s; its clients wait",
        AlarmCameDegraded { array: String, then: StateThen } => "array \"{array}\" was degraded when it was first seen: {then}",
        AlarmNotServed { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" is not served: {reason}{cause}",
        AlarmSparesMissing { array: String, spare_count: usize, wanted_count: usize } => "array \"{array}\" has {spare_count} spares and should have {wanted_count}: `stria add {array} DRIVE` adds one",
        AlarmUnreadable { array: String, reason: String, cause: Cause<HostSentence> } => "array \"{array}\" has lost data: {reason}{cause}",
        AlarmReadOnly { array: String, reason: String } => "array \"{array}\" takes no writes: the replay after the last crash ended early ({reason}); remove the cause, then stop and serve it again",
        AlarmSuperblockRefused { array: String, reason: String } => "writes to array \"{array}\" fail: superblocks cannot be written ({reason}); `stria explain` says what to do",
        AlarmNoSpace { array: String, drives: Names } => "writes to array \"{array}\" fail: no space for {drives}; free some on their file system or pool",
        AlarmMismatch { array: String } => "the last scrub of array \"{array}\" found redundancy that does not match; `stria explain {array}` says what to do first",
        AlarmFileDeleted { drive: String, array: String } => "the file of {drive}, a member of array \"{array}\", was deleted or replaced: its bytes are lost when the array stops; replace this drive, or copy the data off, before that",
        AlarmCacheUnflushed { drive: String, array: String } => "the write cache of {drive}, a member of array \"{array}\", is on and cannot be switched off, and the array sends it no flushes, as it was off when the drive was opened: a power cut may lose what clients have flushed; stop the array and start it",
        AlarmSlowMember { drive: String, array: String, slow: Slow } => "member {drive} of array \"{array}\" {slow}; it slows all of them",
        AlarmDriveHealth { drive: String, array: String, findings: Findings } => "drive {drive} of array \"{array}\": {findings}",
    }
}

/// How bad a cause is, beside the same cause at another time: how much is missing, failed or out of space.
fn degree(said: &AlarmSentence) -> usize {
    use AlarmSentence as Say;
    let lacks = |then: &StateThen| then.losses_survived.map_or(usize::MAX, |count| usize::MAX / 2 - count);
    match said {
        Say::AlarmMemberDropped { then, .. }
        | Say::AlarmMemberLost { then, .. }
        | Say::AlarmSpareDropped { then, .. }
        | Say::AlarmSpareLost { then, .. }
        | Say::AlarmLinkLost { then, .. }
        | Say::AlarmCameDegraded { then, .. } => lacks(then),
        Say::AlarmLinkSilent { drives, .. } | Say::AlarmNoSpace { drives, .. } => drives.0.len(),
        Say::AlarmSparesMissing { spare_count, wanted_count, .. } => wanted_count.saturating_sub(*spare_count),
        Say::AlarmDriveHealth { findings, .. } => findings.0.len(),
        Say::AlarmMemberSilent { .. }
        | Say::AlarmArraySilent { .. }
        | Say::AlarmNotServed { .. }
        | Say::AlarmUnreadable { .. }
        | Say::AlarmReadOnly { .. }
        | Say::AlarmSuperblockRefused { .. }
        | Say::AlarmMismatch { .. }
        | Say::AlarmFileDeleted { .. }
        | Say::AlarmCacheUnflushed { .. }
        | Say::AlarmSlowMember { .. } => 0,
    }
}

impl Degree for AlarmSentence {
    fn is_worse(before: &Condition<Self>, now: &Condition<Self>) -> bool {
        match (&before.said, &now.said) {
            // The text names the sectors: another one tells of data that was lost since.
            (_, Some(Self::AlarmUnreadable { .. })) => before.text != now.text,
            (Some(before), Some(now)) => degree(now) > degree(before),
            // A fault of the configuration has text alone. Of an alarm that another version stored it is unknown how bad it was.
            (None, _) | (_, None) => now.event != Event::ConfigFault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_becomes_worse_when_more_is_missing_and_not_when_it_lasts() {
        let cause = |event, said: AlarmSentence| Condition {
            event,
            array: "tank".into(),
            component: None,
            text: said.to_string(),
            said: Some(said),
        };
        let degraded = |left| {
            let then = StateThen { text: String::new(), losses_survived: left };
            cause(Event::DegradedArray, AlarmSentence::AlarmCameDegraded { array: "tank".into(), then })
        };
        let silent = |seconds| {
            let (drive, lasting_s) = ("/dev/a".into(), Lasting(seconds));
            cause(Event::MemberSilent, AlarmSentence::AlarmMemberSilent { drive, array: "tank".into(), lasting_s })
        };
        let full = |drives: &[&str]| {
            let drives = drives.iter().copied().collect();
            cause(Event::NoSpace, AlarmSentence::AlarmNoSpace { array: "tank".into(), drives })
        };
        let lost = |reason: &str| {
            let (array, reason) = ("tank".into(), reason.to_owned());
            cause(Event::Unreadable, AlarmSentence::AlarmUnreadable { array, reason, cause: None.into() })
        };
        let fault = Condition { event: Event::ConfigFault, said: None, ..lost("") };
        let of_another_version = Condition { said: None, ..degraded(Some(1)) };
        for (before, now, is_worse) in [
            (degraded(Some(1)), degraded(Some(0)), true),
            (degraded(Some(0)), degraded(None), true),
            (degraded(Some(1)), degraded(Some(1)), false),
            (degraded(None), degraded(Some(1)), false),
            (silent(5), silent(500), false),
            (full(&["/a"]), full(&["/a", "/b"]), true),
            (full(&["/a", "/b"]), full(&["/b"]), false),
            (lost("8 sectors at 0"), lost("8 sectors at 0"), false),
            (lost("8 sectors at 0"), lost("8 sectors at 64"), true),
            (fault.clone(), Condition { text: "another".into(), ..fault }, false),
            (of_another_version, degraded(Some(1)), true),
        ] {
            assert_eq!(AlarmSentence::is_worse(&before, &now), is_worse, "{before:?} {now:?}");
        }
    }
}
