//! The sentences of alarms that last.

use crate::error_words::{Cause, Detail, ErrorSentence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
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
