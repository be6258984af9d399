//! The sentences of refusals and failures: what the API answers, how a job fails, and why an array is not served.
//!
//! Lower crates refuse with values, of which [`join`](super::join), [`io`](super::io) and the other modules of this kind make
//! sentences. A text that an operating system or a drive gave has none. In another sentence it is a `reason`.

use crate::words::plan_values::Size;
use crate::words::result::ResultSentence;
use crate::words::warning_values;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;
use stria_host::HostError;
use stria_sentence::{Names, sentences};
use stria_terminal::Failure;

/// The sentence of the text before it; null: that has text alone. It adds nothing to the English.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Cause<S>(pub Option<Box<S>>);

impl<S> fmt::Display for Cause<S> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl<S> From<Option<S>> for Cause<S> {
    fn from(said: Option<S>) -> Self {
        Self(said.map(Box::new))
    }
}

/// The sentences of the text before it, which lists them; null: one of them has text alone. It adds nothing to the English.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Causes<S>(pub Option<Vec<S>>);

impl<S> fmt::Display for Causes<S> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A text, and its sentence if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The text.
    pub text: String,
    /// The sentence.
    pub said: Option<ErrorSentence>,
}

impl Words {
    /// The two parts, as they stand in another sentence.
    pub fn parts(self) -> (String, Cause<ErrorSentence>) {
        (self.text, self.said.into())
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Self { text, said: None }
    }
}

/// The failure of a step that a command and the API both take, with its words.
#[derive(Debug)]
pub struct Told {
    /// The failure of the command.
    pub failure: Failure,
    /// What the API says.
    pub words: Box<Words>,
}

impl Told {
    /// The request is invalid.
    pub fn usage(said: ErrorSentence) -> Self {
        Self { failure: Failure::Usage(said.to_string()), words: Box::new(said.into()) }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words.fmt(f)
    }
}

impl From<Failure> for Told {
    fn from(failure: Failure) -> Self {
        Self { words: Box::new(failure.to_string().into()), failure }
    }
}

impl From<HostError> for Told {
    fn from(error: HostError) -> Self {
        Self { failure: (&error).into(), words: Box::new(error.into()) }
    }
}

impl From<ErrorSentence> for Told {
    fn from(said: ErrorSentence) -> Self {
        Words::from(said).into()
    }
}

impl From<Words> for Told {
    fn from(words: Words) -> Self {
        Self { failure: Failure::Failed(words.text.clone()), words: words.into() }
    }
}

impl From<Told> for Failure {
    fn from(told: Told) -> Self {
        told.failure
    }
}

impl From<ErrorSentence> for Words {
    fn from(said: ErrorSentence) -> Self {
        Self { text: said.to_string(), said: Some(said) }
    }
}

/// The part that no other event has said yet, after a colon; null: nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Detail(pub Option<String>);

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|detail| write!(f, ": {detail}"))
    }
}

/// The sentence of a note in the text of a result, if it has one.
pub fn read(text: &str) -> Option<ErrorSentence> {
    read_among(ErrorSentence::TEXTS.iter().copied().filter(|(code, _)| IN_RESULTS.contains(code)), text)
}

/// The sentence of a text among these.
pub fn read_among<T: serde::de::DeserializeOwned + fmt::Display>(
    texts: impl IntoIterator<Item = (&'static str, &'static str)>,
    text: &str,
) -> Option<T> {
    stria_sentence::read(texts, text, |code, values| {
        let is_number = |name: &str| {
            ["_count", "_bytes", "seconds"].iter().any(|end| name.ends_with(end)) || ["percent", "slot"].contains(&name)
        };
        let plain = |name: &str, text: &str| match text.parse::<u64>() {
            Ok(number) if is_number(name) => Value::from(number),
            _ => Value::from(text),
        };
        let value = |name: &str, text: &str| warning_values::value_of(name, text).unwrap_or_else(|| plain(name, text));
        let all: Map<String, Value> = values.iter().map(|(name, text)| ((*name).to_owned(), value(name, text))).collect();
        serde_json::from_value(json!({"code": code, "values": all})).ok()
    })
}

/// The sentences of errors that stand in the text of a result: what a destroyed array has left on its drives.
const IN_RESULTS: &[&str] = &["StillCarries"];

/// The arrays that are known, for a refusal of a name that is none of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Known(pub Vec<String>);

impl Known {
    /// Arrays by their names.
    pub fn of<T: AsRef<str>>(names: &[T]) -> Self {
        Self(names.iter().map(|name| name.as_ref().to_owned()).collect())
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => f.write_str("there is none"),
            [one] => write!(f, "there is {one}"),
            several => write!(f, "there are {}", several.join(", ")),
        }
    }
}

/// An array or span that lacks drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lack {
    /// Its name.
    pub array: String,
    /// The slots whose drive took part last and is not here.
    pub slots: Vec<usize>,
}

/// What arrays lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Lacks(pub Vec<Lack>);

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(|Lack { array, slots }| {
            let what = if slots.len() == 1 { "the drive of slot" } else { "the drives of slots" };
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            format!("\"{array}\" lacks {what} {}", slots.join(", "))
        });
        f.write_str(&words.collect::<Vec<_>>().join("; "))
    }
}

/// A member that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedMember {
    /// Its path.
    pub drive: String,
    /// The reason.
    pub reason: String,
    /// The sentence of the reason, if it has one.
    pub cause: Cause<ErrorSentence>,
}

/// Members that were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Dropped(pub Vec<DroppedMember>);

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|DroppedMember { drive, reason, .. }| format!("{drive}: {reason}")).collect();
        f.write_str(&words.join("; "))
    }
}

/// Drives that do not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SilentDrives(pub Vec<String>);

impl fmt::Display for SilentDrives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.0.len() == 1 { "does" } else { "do" };
        write!(f, "{} {verb} not answer", self.0.join(" and "))
    }
}

/// The drives that an array uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Used(pub Vec<String>);

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&if self.0.is_empty() { "no drive".to_owned() } else { self.0.join(", ") })
    }
}

sentences! {
    /// A refusal or a failure, for programs: `code` stays the same when its words change.
    pub enum ErrorSentence {
        // Arrays
        ArrayUnknown { array: String, known: Known } => "no array \"{array}\" belongs to Stria ({known}): `stria adopt` takes one",
        NoArrayIsServed { array: String } => "no array is served, so none is called \"{array}\": start one with `stria serve`",
        OthersAreServed { array: String, names: Names } => "no array \"{array}\" is served; served are: {names}",
        NotServed { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" is not served: {reason}{cause}",
        DoesNotAnswer { array: String } => "array \"{array}\" does not answer: `stria explain {array}` says why",
        ReadOnly { array: String } => "array \"{array}\" is served read-only, and this would write to its members: first `stria set {array} --read-only off`, or serve it without --read-only",
        DoesNotUse { array: String, drive: String, members: Used } => "array \"{array}\" does not use {drive}; it uses {members}",
        MemberAlready { drive: String, array: String, member_role: String } => "{drive} is a member of \"{array}\" already ({member_role})",
        BelongsAlready { array: String } => "array \"{array}\" belongs to Stria already",
        NameTaken { array: String } => "an array \"{array}\" belongs to Stria already: choose another name",
        NoneHere {} => "none of its drives is here",
        NoneAmongImages {} => "none of its drives is here: the daemon looks at image files only, as its configuration says `block-devices = false`",
        NoDrivesHere {} => "this machine has no drives that Stria may look at",

        // Drives
        NoDriveNamed {} => "no drive is named",
        NoDriveOfMachine { drive: String } => "{drive} is not a drive of this machine: GET /api/v1/drives lists them",
        DriveNotAllowed { drive: String } => "{drive} is none of the drives that Stria may use here: GET /api/v1/drives lists them; image files stand in [daemon] search",
        DriveInUse { drive: String, user: String } => "{drive} is in use: {user}",
        DriveOfArray { drive: String, array: String } => "{drive} is in use by array \"{array}\"",
        DriveInPool { drive: String } => "{drive} is in the pool of spares: take it out of the pool first",
        DriveMissing { drive: String } => "{drive} does not exist: check the name",
        DriveHeld { drive: String, user: String } => "{drive} is in use by {user}; stop it first",
        DriveHeldByDead { drive: String, user: String } => "{drive} is in use by {user}, which is ending; try again in a moment",
        DriveUnfit { drive: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} cannot be a member: {reason}{cause}",

        // Plans
        PlanUnknown {} => "this plan is unknown, older than 10 minutes, used already, or another user's: ask for a new one",
        PlanHoldsNoMore { reason: String, cause: Cause<ErrorSentence> } => "the plan no longer holds, and nothing was done: {reason}{cause}",
        PlanOutdated {} => "the plan no longer holds, as the array or a drive has changed since; nothing was done: ask for a new plan",
        PlanNeeded {} => "this action needs a plan: POST it to /api/v1/plans, and the plan's token to /api/v1/jobs",
        PlanNeedsRole { role: String, name: String, mine: String } => "this plan needs the role {role}, and {name} has {mine}",
        PlanNeedsText { wanted: String } => "this plan is confirmed by the text \"{wanted}\", which a person types: ask for a new plan",
        FirmwareNeedsAdmin { name: String, mine: String } => "an update of firmware needs the role admin, and {name} has {mine}",
        NotRemovable { drive: String, member_role: String, array: String } => "{drive} is {member_role} in \"{array}\": replace it, or fail it first",
        NotFailable { drive: String } => "{drive} cannot be failed: the array has no redundancy left for it, so data would be lost; add a drive first",
        NotFailableInSpan { drive: String, span: String } => "{drive} cannot be failed: span \"{span}\" has no redundancy left for it, so data would be lost; add a drive first",
        StopBeforeRelease { array: String } => "array \"{array}\" is served: stop it first, then release it",
        StopBeforeDestroy { array: String } => "array \"{array}\" is served: stop it first, then destroy it",
        StopBeforeRename { array: String } => "array \"{array}\" is served: stop it first, then rename it",
        StripInvalid {} => "a strip is a power of two from 4 KiB to 1 MiB",
        NameInvalid {} => "the name of an array has 1 to 31 bytes, and neither a slash nor a colon",
        SpansOnlyOf { level: String } => "only levels 50 and 60 have spans, not {level}",
        NothingToSet {} => "no setting is named: write, drive_caches, read_only, bitmap, log or integrity",
        ImageNotAbsolute {} => "image is the complete path of a file on this machine, such as /var/lib/stria/image.bin",

        // Jobs
        TooManyShortJobs { count: usize } => "{count} short jobs are running already: wait until one has ended",
        TooManyErasures { count: usize } => "{count} erasures are running already: wait until one has ended",
        TooManyJobs { count: usize } => "{count} jobs are running already: wait until one has ended",
        NoThread { reason: String } => "the system gives no thread: {reason}",
        NoJob { job: String } => "there is no job {job}",
        RebuildGaveUp {} => "the rebuild has ended before it was complete, and does not go on by itself; `stria explain` says what to do",

        // Commands
        NoScrubRuns { array: String } => "no scrub runs on \"{array}\"",
        StopInUse { array: String, users: Names } => "array \"{array}\" is in use by {users}; --force disconnects them",
        StopsAlready { array: String } => "array \"{array}\" is stopping already",
        StopBrokeOff { array: String } => "the stop of array \"{array}\" broke off on an internal error: the log has it, and the next start repairs as after a power cut",
        StoodStill { array: String, seconds: u64 } => "array \"{array}\" did not stop cleanly: a lane has stood still for {seconds} s, so the members are left as after a power cut, and the next start resyncs",
        StopGoesOn { array: String, seconds: u64 } => "array \"{array}\" has not stopped: a lane has stood still for {seconds} s, and the stop goes on once it answers; a restart of the server (`systemctl restart stria`) does not wait for it, and then the next start resyncs",
        SpeedBoundsCross { min_bytes: Size, max_bytes: Size } => "the lower bound of {min_bytes}/s is above the upper one of {max_bytes}/s: change --min, --max, or both",
        SweepsWouldNeverEnd {} => "without a bound on latency sweeps run at the minimum while clients work, and with 0 they would never end: set a minimum above 0, or a latency such as p99=1ms",
        LatencyInvalid {} => "a latency to hold is a percentile from 50 to 99.99 and a time above zero, such as p99=5ms",
        TrimOutside { array: String, size_bytes: u64 } => "the range is empty or leaves \"{array}\", which has {size_bytes} bytes",
        TrimUnaligned { block_bytes: u64 } => "the range is not aligned to blocks of {block_bytes} bytes: round it",
        TrimImpossible { array: String } => "not every member of \"{array}\" can zero and unmap in one request: nothing was done; write zeros instead",
        TrimCancelled { array: String, done_bytes: u64, length_bytes: u64 } => "trim of \"{array}\" was cancelled: the first {done_bytes} of {length_bytes} bytes read as zeros",
        TrimFailed { array: String, reason: String } => "trim of \"{array}\" failed: {reason}",
        SetOnReadOnly { array: String } => "array \"{array}\" is read-only, so its metadata stay as they are: `stria set {array} --read-only off` first",
        SetOnFirmwareRaid { array: String } => "array \"{array}\" is a volume of firmware RAID, whose metadata belong to firmware: Stria reads it and writes nothing",
        SetNeedsPause { array: String, users: Names } => "the change needs a pause, and array \"{array}\" is in use by {users}: clients that reconnect go on after it, others see errors; --force goes on",
        SetNeedsDevice { array: String, device: String, users: String } => "array \"{array}\" stays as it is: the change needs another block device, and {device} is in use ({users}), which --force does not end: unmount or close it, then repeat `stria set`",
        CacheIgnoresCommand {} => "it ignores the command",
        FileHasNoCache { drive: String } => "{drive} is a file, which has no cache of its own: switch that of the drive which holds it",
        SetStopFailed { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" was not changed, as its stop failed: {reason}{cause}",
        SetNotStarted { array: String, reason: String } => "array \"{array}\" was stopped for a change and does not start again: {reason}",
        OneUpdateAtATime {} => "the firmware of another member is being updated: one at a time; repeat the command afterwards",
        FirmwareImageChanged { image: String } => "{image}: the image is another than the plan was made for, and nothing was sent: see what changed the file, and ask for a new plan",

        // Refusals of the engine: `refusal`
        ScrubWhile { task: String, percent: u64 } => "scrub refused: {task} runs ({percent} %); it may start when that ends",
        ScrubWhilePaused {} => "scrub refused: sweeps are paused; resume them first",
        ScrubOfFailed {} => "scrub refused: the array has failed; serve it with enough members first",
        ScrubWithoutRedundancy { level: String } => "scrub refused: RAID level {level} has no redundancy, so there is nothing to compare",
        RepairOfReadOnly {} => "repair refused: the array is read-only; scrub without --repair, or serve it without --read-only",
        ScrubBeforeResync {} => "scrub refused: redundancy is not yet in step after a crash, and a read-only array cannot correct that; serve it without --read-only first",
        MembersStay {} => "the array is read-only, and this would write to its members: serve it without --read-only",
        NoSuchMember { number: usize } => "the array has no member {number}: `status` shows the members",
        FailedAlready { drive: String } => "{drive} has failed already; `stria remove` takes it off the list",
        NoRedundancyLeft { drive: String } => "{drive} cannot be failed: the array has no redundancy left to replace it; add a member and let it rebuild first",
        FailsNotYet { drive: String } => "{drive} cannot be failed yet: the array has just started, and still replays its write log; fail it again in a moment",
        FailedAndNotDurable { drive: String } => "{drive} has failed, but the other members do not say so yet, as another does not answer: leave the drive connected until `status` shows no member that is unresponsive",
        RemovedWhileInUse { drive: String } => "{drive} is in use: `fail` it first, or `replace` it to keep redundancy meanwhile",
        NotReplaceable { drive: String } => "{drive} cannot be replaced: it is not an in-sync member; its slot is rebuilt instead",
        NoSpare { drive: String } => "{drive} is not a spare: `add` one first",
        NotReplaceableByDrive { drive: String } => "{drive} cannot be replaced: it is not an in-sync member; `add` a drive, and the slot is rebuilt on it",
        ReplacedAlready { drive: String } => "{drive} is being replaced already",
        EngineStops {} => "the array is being stopped: give the command after its next start",
        EngineReplays {} => "the array still replays its write log: try again when `status` no longer says so",
        EngineStarts {} => "the array is still starting, or a failure of a member is not on disk yet; repeat the command in a moment",
        NoUseForSpare { level: String } => "RAID level {level} has no use for a spare: it cannot rebuild",
        NoUseForDrive { level: String } => "RAID level {level} has no redundancy, so another drive is of no use to it",
        TooSmall { drive: String, missing: String, needed: String } => "{drive} is {missing} too small: {needed} are needed for data; use a larger drive",
        TooSmallToAdopt { drive: String, array: String, missing: String, needed: String } => "{drive} cannot join \"{array}\": it is {missing} too small: a member needs {needed}; use a larger drive",
        BlocksTooLarge { drive: String, drive_bytes: u64, array: String, array_bytes: u64 } => "{drive} has blocks of {drive_bytes} bytes, and \"{array}\" serves blocks of {array_bytes}: use a drive with blocks as small",
        BlocksOfDriveTooLarge { drive: String, drive_bytes: u64, array_bytes: u64 } => "{drive} has blocks of {drive_bytes} bytes, and the array serves blocks of {array_bytes}: use a drive with blocks as small",
        SlotTaken { slot: usize } => "slot {slot} was given to another drive meanwhile; `add` this one again, and it becomes a spare",
        SameMember { drive: String, other: String, array: String } => "{drive} carries the same member as {other}, which \"{array}\" uses: it is another path to that drive, or a copy of it; nothing was written: detach it",
        HoldsWhatIsLacking { drive: String, array: String } => "{drive} was a member of \"{array}\", which has failed, and it may hold what the others lack: nothing was written; stop the array, and serve it again with this drive, or overwrite it with --force",
        HoldsBadBlocks { drive: String, array: String } => "{drive} was a member of \"{array}\", whose members have bad blocks, and it may alone hold what they lack: nothing was written; save what you need from it first, or overwrite it with --force",
        ChangedMeanwhile { drive: String } => "{drive} did not join, as the array has changed meanwhile: add it again",

        // Why an array is not served
        ArrayIsStopped { array: String } => "stopped; `stria start {array}` starts it",
        WaitsThenStarts { lacks: Lacks, array: String } => "{lacks}: the array waits for them, then starts without them (`stria start {array}` starts it now)",
        WaitsForAll { lacks: Lacks, array: String } => "{lacks}: the array waits until none is missing (`stria start {array}` starts it now)",
        WaitsForSilent { silent: SilentDrives, reason: String, cause: Cause<ErrorSentence> } => "{silent}: check the drive and its cable; {reason}{cause}",
        WaitsForAnswer { drive: String } => "{drive} does not answer; the array is tried again when it does: check the drive and its cable",
        StartsByForce { reason: String, cause: Cause<ErrorSentence>, array: String } => "{reason}{cause} (`stria start {array} --force` starts it anyway, and may lose data)",
        TriedAgain { reason: String, cause: Cause<ErrorSentence> } => "{reason}{cause}; it is tried again",
        NotTriedAgain { reason: String, cause: Cause<ErrorSentence>, array: String } => "{reason}{cause} (`stria start {array}` tries again)",
        NoneOfItsDrives { array: String } => "array \"{array}\" cannot start: none of its drives is here",
        NoneOfItsImages { array: String } => "array \"{array}\" cannot start: none of its drives is here; the daemon looks at image files only, as its configuration says `block-devices = false`",
        DidNotStart { array: String } => "array \"{array}\" did not start: `stria events` has the reason",
        DidNotStartBecause { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" did not start: {reason}{cause}",
        StartIsUnsafe { reason: String, cause: Cause<ErrorSentence> } => "{reason}{cause}; --force starts it anyway, and may lose data",
        NameServed { array: String } => "another array is served as \"{array}\": give one of the two another name (`stria rename`)",
        GroupUnknown { reason: String } => "vhost-user-group: {reason}",
        DaemonStops {} => "the daemon is stopping",
        NotFinished { seconds: u64 } => "the daemon has not finished this within {seconds} s: a drive or an array may not answer, or a start may take long. It goes on in the background, and `stria status` shows the result",

        // Drives that came back, and were left as they are
        LeftUnread { drive: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} came back and cannot be read: {reason}{cause}",
        LeftCounted { drive: String, array: String } => "{drive} came back while \"{array}\" still counts it as a member: it returns once the array has noticed that it was away",
        LeftNeedsRebuild { drive: String, reason: String, array: String } => "{drive} came back and needs a full rebuild ({reason}): `stria add {array} {drive}` begins it",
        LeftOut { drive: String, array: String, reason: String } => "{drive} came back and stays out of \"{array}\": {reason}",
        LeftFaulty { drive: String, array: String } => "{drive} came back and stays out of \"{array}\": `stria add {array} {drive}` makes it a new spare",
        LeftRefused { drive: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} came back and does not join: {reason}{cause}",

        // The pool of spares
        PoolIsEmpty {} => "the pool is empty",
        PoolDriveFree {} => "free",
        PoolDriveTaken { array: String } => "taken by \"{array}\"",
        InArray { drive: String, array: String } => "{drive} is in \"{array}\"",
        OtherKind { drive: String } => "{drive} is another kind of drive",
        OtherEnclosure { drive: String } => "{drive} sits in another enclosure",

        // The API
        NeedsRole { role: String, name: String, mine: String } => "this needs the role {role}, and {name} has {mine}",
        TooManyOrders { name: String, most: u32 } => "{name} gave more than {most} orders within a minute: wait, and give them more slowly",
        AnotherPage { origin: String } => "the request comes from another page ({origin}); a reverse proxy must pass on the browser's header `Host`",
        NoNameOfMachine { host: String } => "\"{host}\" is not a name of this machine: a proxy's name stands in [api] hosts",
        TooManyUnread {} => "too many answers wait for clients that do not read them: ask again in a minute, and end clients that hang",
        DaemonFailed {} => "the daemon failed at this request: its log has the reason",
        InternalError { reason: String } => "the request broke off on an internal error: {reason}",
        NoSession {} => "show a token (authorization: Bearer …), a known client certificate, or begin a session",
        NotAdmitted { name: String } => "{name} may not use the API: [api] group in stria.toml lets a group in",
        NotInGroup { name: String, group: String } => "{name} may not use the API: members of the group {group} may",
        TokenUnknown {} => "this token is unknown: `stria token create` makes one",
        TokenRemoved {} => "the token was removed just now",
        TokensDamaged { reason: String } => "no token counts until its file is repaired: {reason}",
        TooManyWrong { origin: String, seconds: u64 } => "too many wrong tokens or passwords came from {origin}: wait {seconds} s",
        TooManyWrongFrom {} => "wrong tokens and passwords come from too many addresses: wait a minute",
        TooManySessions { name: String, most: u32 } => "{name} began more than {most} sessions within a minute: use a session that is open, or wait a minute",
        AccountNotFound {} => "the account cannot be looked up, as the name service of this machine does not answer: log in with a token, or try again later",
        NoAccounts {} => "accounts of the system may not log in here: begin the session with a token; [api] system-accounts in stria.toml admits accounts",
        LoginsBusy {} => "other logins are being checked: try again in a moment",
        PasswordUnchecked {} => "the password cannot be checked: the events of the daemon have the reason",
        LoginRefused {} => "the login was refused: name or password is wrong, or the account may not use the API",
        MeasuresAlready {} => "something is being measured already: try again in half a minute",
        NoSweepRuns { array: String } => "no resync, rebuild or scrub of \"{array}\" runs, so it costs nothing",
        SweepEnded { sweep_kind: String } => "the {sweep_kind} ended meanwhile",
        NoClientRequest {} => "no client sent a request meanwhile, so the sweep costs clients nothing now",
        ForecastCount { most: usize } => "a forecast is for 1 to {most} drives",
        NoteTooLong { chars: usize, most: usize } => "the note has {chars} characters: at most {most} are stored",
        NoteWithUndo {} => "a note goes with an acknowledgement, not with its withdrawal",
        NoOpenAlarm { alarm: String, array: String } => "alarm {alarm} is not open on array {array}: `stria alarm` lists those that are open",
        NoAlarmChannel {} => "no channel for alarms is configured: add one to [alarms] in stria.toml, or serve with --alarm-mail, --alarm-webhook, --alarm-exec or --alarms",
        ChannelsChanged {} => "the channels of alarms were changed by somebody else since they were read: read them again",
        SchedulesChanged {} => "the schedules were changed by somebody else since they were read: read them again",
        ConfigChanged {} => "the configuration was changed by somebody else since it was read: read it again",
        ConfigInvalid { reason: String } => "the configuration was not changed, as it would be invalid: {reason}",
        ReloadFailed { reason: String } => "{reason}; the daemon goes on as it was configured before",
        NoReport { name: String } => "there is no page {name:?}; GET /api/v1/reports lists them",

        // Why a member was dropped
        FailedOnCommand {} => "failed on command",
        ReplacedByAnother {} => "replaced",
        WriteFailed { reason: String, cause: Cause<ErrorSentence> } => "write failed: {reason}{cause}",
        FlushFailed { reason: String, cause: Cause<ErrorSentence> } => "flush failed: {reason}{cause}",
        LogUnwritten { reason: String, cause: Cause<ErrorSentence> } => "its write log could not be written: {reason}{cause}",
        MetadataUnwritten { reason: String, cause: Cause<ErrorSentence> } => "its metadata could not be written: {reason}{cause}",
        RewriteFailed { reason: String, cause: Cause<ErrorSentence> } => "could not rewrite sectors that it failed to read: {reason}{cause}",
        RemovedOnCommand {} => "removed on command",
        NoSpaceForRows {} => "its bad-block log has no space for rows that a write has left open",
        NoSpaceToSaySo {} => "it has no space for a write, and its bad-block log has none to say so",
        DriveIsGone { drive: String } => "member {drive} is gone: it was pulled, or its controller or cable has failed",

        CutShort { before_bytes: u64, now_bytes: u64 } => "it was cut short while in use, from {before_bytes} to {now_bytes} bytes",
        CutShortBehind { before_bytes: u64, now_bytes: u64 } => "the file behind it was cut short while in use, from {before_bytes} to {now_bytes} bytes",
        CutShortAndLong { left_bytes: u64, before_bytes: u64 } => "it was cut short while in use and made long again: {left_bytes} of the {before_bytes} bytes that it occupied are left",
        EndsWithin { drive: String, end: String, length: String, start: String } => "member {drive} ends at sector {end}, within {length} sectors from {start}: it was cut short while in use",
        ReadOf { size: String, sector: String, reason: String } => "read of {size} at sector {sector} failed: {reason}",
        WriteOf { size: String, sector: String, reason: String } => "write of {size} at sector {sector} failed: {reason}",
        ZeroesOf { size: String, sector: String, reason: String } => "write of zeroes of {size} at sector {sector} failed: {reason}",
        OtherFlushFailed {} => "an earlier flush or FUA write failed: what was written before it may be lost",
        ChecksumWrong { sector: String } => "the bytes at sector {sector} do not match their checksum",
        UnfitEmptyFile {} => "it is an empty file, which carries no array and has no space for one",
        UnfitNoSectors {} => "it has no sectors: no medium is in it, or nothing is attached to it",
        UnfitDirectory {} => "it is a directory; give a block device or a regular file",
        UnfitCharacters {} => "it is a character device; give a block device or a regular file",
        UnfitPipe {} => "it is a pipe or socket; give a block device or a regular file",
        UnfitProtected {} => "it is write-protected; remove the protection (blockdev --setrw), or name another drive",
        UnfitOnePath { other: String } => "it is one of several paths to a drive: name {other} instead, which is all of them",
        UnfitFileSystem {} => "its file system is read-only, perhaps only for this process: add the path to ReadWritePaths= of the systemd unit (`systemctl edit stria`)",
        UnfitSwap {} => "it is used as swap, or is the executable of a running program",
        UnfitNoDrive {} => "there is no drive behind this device node",
        UnfitChanged {} => "it changed from a file to a device, or back, while it was opened",
        MembersDropped { dropped: Dropped } => "{dropped}",

        // Starts
        CannotStart { array: String, reason: String, cause: Cause<ErrorSentence> } => "cannot start array \"{array}\": {reason}{cause}",
        MembersMissing { missing_count: usize, slot_count: usize, slots: String, survives: String, advice: String, causes: Causes<ErrorSentence> } => "{missing_count} of {slot_count} members are missing or incomplete (slots {slots}), and the array survives the loss of {survives}; {advice}{causes}",
        MemberMissing { slot_count: usize, slot: usize, survives: String, advice: String, causes: Causes<ErrorSentence> } => "1 of {slot_count} members is missing or incomplete (slot {slot}), and the array survives the loss of {survives}; {advice}{causes}",
        MembersMissingDirty { missing_count: usize, slot_count: usize, slots: String, reason: String, cause: Cause<ErrorSentence> } => "{missing_count} of {slot_count} members are missing or incomplete (slots {slots}), the array was not stopped cleanly, and {reason}{cause}, so what a missing member held may be reconstructed wrong, also data that was not being written; attach the missing members, or accept that with --force",
        MemberMissingDirty { slot_count: usize, slot: usize, reason: String, cause: Cause<ErrorSentence> } => "1 of {slot_count} members is missing or incomplete (slot {slot}), the array was not stopped cleanly, and {reason}{cause}, so what a missing member held may be reconstructed wrong, also data that was not being written; attach the missing members, or accept that with --force",
        NoLogCovers {} => "no log covers its last writes",
        LogIsDamaged { drives: String } => "the log on {drives} is damaged",
        AttachThem {} => "attach them",
        AttachMissing {} => "attach the missing drives",
        AttachOrForce { drives: String } => "attach the missing drives, or start with {drives} as it is by --force, which tears writes that were in flight, and loses none that was acknowledged",
        AttachOrForceLossy { drives: String } => "attach the missing drives, or start with {drives} as it is by --force, which loses what was written without it",
        MemberMissedOne { drive: String, slot: usize } => "{drive} (slot {slot}) missed 1 superblock update",
        MemberMissed { drive: String, slot: usize, update_count: u64 } => "{drive} (slot {slot}) missed {update_count} superblock updates",
        RunApart { drives: String, others: String } => "{drives} on one side and {others} on the other were run without each other, and their data differ; start it with the drives of one side, and add the others anew",
        CopiesOfOne { drive: String, other: String } => "{drive} and {other} are copies of the same member, or two paths to it; detach the one that is not in use",
        ClaimOneSlot { drive: String, other: String, slot: usize } => "{drive} and {other} both claim slot {slot}; detach the one that does not belong",
        ClaimsAnotherSlot { drive: String, own_slot: String, other: String, slot: usize } => "{drive} says that it holds slot {own_slot}, and {other} that it holds slot {slot}: one of the two superblocks is damaged; compare both drives with `stria examine`, and start the array without the one that is wrong",
        MarkBehindData { drive: String, contents: String, sector: String } => "{drive} carries {contents} behind its data (sector {sector}), so the array may lie on that volume; serve the volume's own device (`mdadm --assemble --scan`), or, if the mark is only left over, erase it with `wipefs` or start with --force",
        BlocksOfAllSmaller { array_bytes: u64 } => "the array has logical blocks of {array_bytes} bytes, and all drives that are here have smaller ones, so clients would not find their partitions: attach the missing drives, serve it under Linux, or in smaller blocks with --force",
        WriteBehind { drive: String } => "it was not stopped cleanly, and {drive}, its first member, may lack writes that Linux has acknowledged (write-mostly, with writes behind); start and stop it under Linux once, which copies the other member",
        LogOfAnotherVersion { drive: String, version: String } => "the write log of {drive} is of version {version}, which this program does not know, and the array was not stopped cleanly; start and stop it with the program that ran it",
        NoBitmapReadable { fault: String } => "no member has a readable write-intent bitmap ({fault}); --force makes a new one",
        CopyOfMember { other: String } => "it is a copy of {other}, or another path to it: detach one of the two",
        OlderThanRival { other: String, slot: usize } => "{other} holds slot {slot} with a newer superblock",
        AnotherShape {} => "its superblock describes another array shape than the superblocks of the other members; it cannot be used with them",
        UnusableTooSmall { missing: String, needed: String } => "it is {missing} too small: {needed} are needed for data; use a larger drive",
        AddAnewNumber { other: String, number: String } => "{other} has the same device number, {number}; add it anew",
        JournalDevice {} => "it is a journal device, which Stria does not serve",
        PutInByForce { drive: String, slot: usize } => "--force put {drive} into its slot, {slot}; add it anew",
        PartsOnly { array: String } => "the drives that are here hold spans or parts of array {array}, and not the array itself",

        // Which array is meant, its name, and the configuration
        IsSpan { span: String, array: String } => "\"{span}\" is a span of array {array}: adopt that",
        NoArrayOnDrives {} => "no array lies on these drives: see `stria examine`",
        NoSuchArrayOnDrives { array: String, there_are: String } => "no array \"{array}\" lies on these drives ({there_are}): name its drives if they are image files",
        SeveralMatch { list: String } => "several arrays match: name one of them by its UUID: {list}",
        NotReadBack { array: String } => "array \"{array}\" was written, but cannot be read back: see `stria examine`",
        ConfigUnchangeable { file: String, reason: String } => "{file} cannot be changed: {reason}",
        ConfigFolderUnwritable { folder: String, reason: String } => "{folder} cannot be written ({reason}): nothing was done",
        ConfigCannotName { folder: String, reason: String } => "{folder} cannot be written ({reason}), so the configuration cannot name the array: nothing was done",
        ConfigWouldBeInvalid { file: String, fault: String } => "{file} was not changed, as it would be invalid{fault}",
        MdadmUnwritable { folder: String, reason: String, file: String } => "{folder} cannot be written ({reason}), so {file} cannot tell mdadm whose the array is: make it writable, or name another file as `conf` of [mdadm]; nothing was done",
        MdadmUnread { file: String, reason: String } => "{file} cannot be read: {reason}; nothing was done",
        MdadmBlockOpen { file: String } => "{file}: the line \"# END stria\" is missing, which ends the block of Stria's arrays: put it where the block ends; nothing was done",
        NameOfAnother { name: String, other: String, array: String } => "another array here is called \"{name}\" ({other}): give this one ({array}) another name with --name, which its drives get too",
        NameUnusable { name: String } => "\"{name}\" is not a valid array name: use 1 to 31 bytes of visible characters without slashes",
        RenameNeedsSpans { reason: String, cause: Cause<ErrorSentence> } => "a rename needs all spans, and members that agree: {reason}{cause}",
        GoneFromDrives { array: String } => "array {array} is not on its drives any more: see `stria examine`",
        SpanGone { span: String } => "span {span} is no longer on its drives: see `stria examine`",
        SpanUnwritable { span: String, reason: String } => "span \"{span}\" cannot be written: {reason}",
        SpansHoldAnother {} => "there is another array on its spans",
        CannotBeChanged { array: String, reason: String } => "array \"{array}\" cannot be changed: {reason}",

        // What drives carry, and how it is erased
        WasNoMember { drive: String, array: String } => "{drive} was no member of \"{array}\": nothing was written",
        // Volumes that a mainboard or a controller made.
        NoFirmwareMetadata {} => "it carries no metadata of firmware RAID that Stria reads (IMSM, DDF)",
        FirmwareMetadataDamaged { format: String, fault: String } => "its {format} metadata are damaged: {fault}",
        VolumeBeyondDrive { volume: String, drive: String } => "volume \"{volume}\" goes beyond the end of {drive}: the drive shrank, is a truncated copy, or is another drive",
        FirmwareSectorBeyond { sector: String } => "its metadata name sector {sector}, beyond the end of the drive",
        FirmwareFeatures { features: String } => "its container uses features {features} that Stria does not know, such as a cache on another drive; read it where it was made",
        FirmwareOtherSerials { serials: String } => "its IMSM metadata know their drives by serial number ({serials}), and it has none of these; name the image of a drive after its serial number",
        VolumeChangesNumber { volume: String } => "volume \"{volume}\" changes its number of drives; let mdadm or the mainboard finish that",
        VolumeChangesShape { volume: String } => "volume \"{volume}\" is being changed to another shape; let mdadm or the mainboard finish that",
        VolumeChangedByController { volume: String } => "volume \"{volume}\" is being changed to another shape; let the controller finish that",
        VolumeLevel { volume: String, level: String, member_count: usize } => "volume \"{volume}\" is of level {level} on {member_count} drives, which Stria does not know",
        VolumeLevelOfSpans { volume: String, level: String, qualifier: String, member_count: usize, span_count: usize } => "volume \"{volume}\" is of level {level} (qualifier {qualifier}) on {member_count} drives in {span_count} spans, which Stria does not know",
        VolumePartOfStripe { volume: String, sectors: String } => "volume \"{volume}\" has {sectors} sectors, which is no multiple of its stripes; read it with mdadm",
        CarriesFirmwareRaid { contents: String } => "it carries {contents}",
        FirmwareRaidRemedy {} => "its metadata belong to firmware: `stria serve --read-only` reads IMSM and DDF volumes, and `mdadm --assemble` runs them",
        CarriesSomething { drive: String, contents: String } => "{drive} carries {contents}: nothing was written; --force overwrites it",
        SpareOfAnotherSpan { drive: String, other: String, old: String, span: String } => "{drive} is a spare of \"{other}\", and {old} a member of \"{span}\": replace it by another drive",
        SameDrive { drive: String, other: String } => "{drive} and {other} are the same drive: name it once",
        PartitionOf { drive: String, other: String } => "{drive} is a partition of {other}: name one of them",
        OnePathOfSeveral { drive: String, other: String } => "{drive} is one of several paths to a drive: name {other} instead, which is all of them",
        NotInPool { drive: String } => "{drive} is not in the pool of spares: `stria spare list` shows it",
        AnotherDriveThanSeen { drive: String } => "{drive} is another drive, or carries something else, than what was confirmed: nothing was done; repeat the command to see what it carries now",
        NoMemberAnyMore { drive: String } => "{drive} carries no member of the array that was confirmed: nothing was done; repeat the command to see what it carries now",
        NothingWritten { reason: String, cause: Cause<ErrorSentence> } => "nothing was written: {reason}{cause}",
        ErasedInPart { reason: String, cause: Cause<ErrorSentence>, erased: String, others: String, words: String } => "{reason}{cause}; the signatures of {erased} are erased, and those of {others} may not be: `stria wipe {words}` erases what is left",
        ErasedHalfWay { reason: String, erased: String, words: String } => "{reason}; the signatures of {erased} are erased: repeat `stria wipe {words}`",
        StillCarries { drive: String, contents: String } => "{drive} carries {contents}: replace the drive, or let it erase all of its data (`stria wipe --help`)",
        EraseOnlyNvme { drive: String } => "{drive}: Stria erases only whole NVMe drives by their own means: for SATA use `hdparm --security-erase`, for SAS `sg_sanitize`, or `stria wipe --discard`; nothing was erased",
        EraseNotOffered { drive: String, what: String } => "{drive}: its controller does not offer {what}; nothing was erased",
        EraseOthers { drive: String, what: String, others: String } => "{drive}: {what} erases all namespaces of its NVM subsystem, and it has others ({others}): erase them by `nvme`; nothing was erased",
        EraseOthersUnknown { drive: String, what: String, reason: String } => "{drive}: {what} erases all namespaces of its NVM subsystem, and it is unknown which it has ({reason}): look with `nvme list-ns --all` and erase it by `nvme`; nothing was erased",
        EraseFailed { drive: String, what: String, nvme_status: String } => "{drive}: {what} failed (NVMe status {nvme_status}); its content may be erased in part: repeat the command",
        DiscardImpossible { drive: String, reason: String } => "{drive}: it cannot unmap blocks so that they read as zeros ({reason}): `blkdiscard` discards without that promise; nothing was erased",
        DiscardFailed { drive: String, done_bytes: u64, reason: String } => "{drive}: the discard failed after {done_bytes} bytes ({reason}); its content is erased up to there: repeat the command",
        SanitizeFailed { drive: String } => "{drive}: the drive reports that sanitize failed: repeat the command; until one succeeds, the drive refuses reads and writes",
        LightOfFile { drive: String } => "{drive} is not a block device: a file has no light; name the drive that stores it",
        NoLight { drive: String } => "{drive}: this machine has no light for it: neither its enclosure (SES), nor its PCIe slot, nor NPEM has one, and ledctl is not installed; its serial number is on its label (`stria health`)",
        LightUnwritable { drive: String, file: String, reason: String } => "{drive}: {file} cannot be written: {reason}; run as root",
        LightByLedctl { drive: String, reason: String } => "{drive}: ledctl: {reason}",

        // Firmware
        FirmwareOnlyNvme { drive: String } => "{drive}: Stria updates the firmware of NVMe drives only: for SATA and SAS use the maker's tool, as no method is safe on every such drive; nothing was changed",
        FirmwareNotOffered { drive: String } => "{drive}: its controller takes no firmware: it lacks the commands Firmware Image Download and Firmware Commit; nothing was changed",
        FirmwareSlotUnknown { drive: String, number: String, slots_here: String } => "{drive}: it has no firmware slot {number}: {slots_here}; nothing was changed",
        FirmwareSlotReadOnly { drive: String } => "{drive}: its firmware slot 1 is read-only: choose another with --slot; nothing was changed",
        FirmwareNeedsReset { drive: String } => "{drive}: its firmware cannot be activated without a reset: use --activate reset; nothing was changed",
        FirmwareImageUnread { image: String, reason: String } => "{image}: the image cannot be read: {reason}; nothing was changed",
        FirmwareImageUnfit { image: String, most: String } => "{image}: an image is a file of 4 bytes to {most} MiB, in words of 4 bytes; unpack what the maker ships; nothing was changed",
        FirmwareCommandFailed { drive: String, what: String, nvme_status: String, after: String } => "{drive}: {what} failed ({nvme_status}); the drive did not take the image, and {after} runs on",
        FirmwareNoReset { drive: String, reason: String } => "{drive}: its controller cannot be reset ({reason}): the new firmware runs after the next power cycle",
        FirmwareNotActivated { drive: String, advice: String, causes: Causes<ErrorSentence>, outcome: String, cause: Cause<ResultSentence> } => "the firmware of {drive} is stored, but {advice}{causes}; {outcome}{cause}",
        ImageNeedsReset {} => "this image cannot be activated without a reset: repeat the command with --activate reset",
        ResetNeedsHold { array: String, reason: String, cause: Cause<ErrorSentence>, drive: String } => "sweeps of \"{array}\" cannot be held ({reason}{cause}), so {drive} was not reset and is still a member",
        ResetNeedsLeave { drive: String, array: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} cannot leave array \"{array}\" ({reason}{cause}), so it was not reset",
        ResetFailed { drive: String, reason: String, cause: Cause<ErrorSentence> } => "the reset of {drive} failed ({reason}{cause})",
        ResetIsBack { array: String } => "it is back in array \"{array}\"",
        ResetNoAnswer { drive: String, reason: String, cause: Cause<ErrorSentence>, array: String } => "{drive} does not come back ({reason}{cause}): array \"{array}\" is DEGRADED; once the drive answers, `stria add {array} {drive}` brings it back",
        ResetNoReturn { drive: String, array: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} answers, but cannot return to array \"{array}\" ({reason}{cause}): array \"{array}\" is DEGRADED; `stria add {array} {drive}` brings it back",
        ResetOfUnused { drive: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} does not come back from its reset ({reason}{cause})",
        SweepsStillHeld { reason: String, cause: Cause<ErrorSentence>, array: String } => "resync and rebuild are still held ({reason}{cause}): `stria resume {array}` lets them go on",
        FirmwareFailed { drive: String, reason: String, cause: Cause<ErrorSentence> } => "the update of the firmware of {drive} failed: {reason}{cause}",
        ResetTakesOthers { drive: String, users: Names } => "a reset of {drive} takes the other namespaces and partitions of its NVM subsystem away as well, and they are in use: {users}; end their use first, or use --activate later; nothing was changed",
        ResetMayTakeOthers { drive: String, reason: String } => "a reset of {drive} takes the other namespaces and partitions of its NVM subsystem away as well, and whether they are in use is unknown ({reason}); end their use first, or use --activate later; nothing was changed",
        FirmwareForOthers { drive: String, users: Names } => "new firmware of {drive} runs for the other namespaces and partitions of its NVM subsystem as well, and they are in use: {users}; nothing was changed; --force goes on",
        FirmwareMayBeForOthers { drive: String, reason: String } => "new firmware of {drive} runs for the other namespaces and partitions of its NVM subsystem as well, and whether they are in use is unknown ({reason}); nothing was changed; --force goes on",
        FirmwareOfSilent { array: String } => "array \"{array}\" does not answer: `stria explain {array}` says why; nothing was changed",
        FirmwareWhileFilled { drive: String } => "{drive} is being filled: wait until it is in sync; nothing was changed",
        FirmwareNotWithout { array: String, drive: String } => "array \"{array}\" cannot do without {drive}: its reset would interrupt the array; make it optimal first, use --activate later, or, at the risk of the data, --activate now --force; nothing was changed",
        FirmwareReadOnly { array: String } => "array \"{array}\" is read-only, so no member can leave it: use --activate now or later",
        FirmwareBare { array: String, drive: String } => "array \"{array}\" has no redundancy left: if the new firmware of {drive} fails, data is lost; nothing was changed; --force goes on",
        FirmwareWhileSweep { sweep_kind: String, array: String } => "a {sweep_kind} of \"{array}\" runs: wait for its end; nothing was changed; --force goes on",
        FirmwareNotResynced { array: String } => "array \"{array}\" has not been resynced: wait until its redundancy is consistent; nothing was changed; --force goes on",
        FirmwareWithoutBitmap { array: String, drive: String } => "array \"{array}\" has no write-intent bitmap: {drive} would be rebuilt in full after its reset; nothing was changed; --force goes on",

        // What metadata ask for
        FeaturesUnknown { bits: String } => "the superblock has feature bits {bits} that this version of Stria does not know; use the software that wrote it, or a newer Stria",
        FieldsUnknown {} => "the superblock uses fields that this version of Stria does not know; use a newer Stria",
        ReshapeUnfinished {} => "a reshape is in progress; let Linux md finish it (mdadm --assemble), then come back",
        ClusterArray {} => "the array is shared by a cluster, which Stria does not join; serve it where the cluster runs",
        ArrayHasJournal {} => "the array has a journal device, which may hold writes that the members lack; remove it under Linux first (assemble, then fail and remove the journal)",
        PartialLogMisplaced {} => "the superblock names a partial parity log where md keeps none: beside a bitmap, of two kinds, or at a level other than 5",
        PartialLogTooShort {} => "the array's partial parity log has less than 132 KiB of space; under Linux, mdadm --grow --consistency-policy=resync removes it, and =ppl makes it anew",
        ArrayBlocksImpossible { block_bytes: u64 } => "the array has logical blocks of {block_bytes} bytes",
        LayoutBitElsewhere {} => "the superblock has the RAID 0 layout bit at another level",
        LevelMultipath {} => "md multipath is not served; use the kernel's dm-multipath",
        LevelFaulty {} => "md faulty (a test of drives) is not served",
        LevelUnknown { level: String } => "RAID level {level} is unknown to md",
        ZonesUnknown { layout: String } => "RAID 0 layout {layout} is unknown; 1 and 2 are",
        ParityLayoutUnserved { layout: String, level: String } => "layout {layout} of RAID level {level} is not served",
        FarSetsUnserved { layout: String } => "RAID 10 layout {layout} uses far sets, which are not served",
        LayoutWithoutCopies { layout: String } => "RAID 10 layout {layout} has no copies",
        ClusterBitmap {} => "the array's bitmap belongs to a cluster, which Stria does not join; serve it where the cluster runs",
        LocklessBitmap {} => "the array has a lockless bitmap (Linux 6.18), which this version of Stria does not know; under Linux, mdadm --grow --bitmap=internal changes it",
        BitmapVersionUnknown { version: String } => "the array's bitmap has version {version}, and 3 and 4 are served; under Linux, mdadm --grow --bitmap=none and then --bitmap=internal makes a new one",

        // Why an array does not start, and a drive is of no use to it
        CountsContradict { drive: String, events: String, other: String, other_events: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} counts {events} superblock updates and {other} {other_events}, and {reason}{cause}: one of the two counts is wrong; compare both drives with `stria examine`, and start the array without the one whose count is wrong",
        CountsTooFarApart {} => "no array makes as many superblock updates while a member is away",
        LossUnrecorded {} => "the second had recorded the loss of the first, and the first has no record of it",
        BitmapDoesNotFit { fault: String } => "{fault}; under Linux, mdadm --grow --bitmap=none and then --bitmap=internal makes a new one",
        StripUnserved { strip_sectors: u64 } => "its strip of {strip_sectors} sectors is not a power of two from 4K to 64M, and Stria serves no other; Linux does",
        CopiesUnserved { layout: String } => "its layout {layout} keeps fewer than 2 copies of everything, and neither Stria nor Linux serves that",
        ShapeUnserved { reason: String, cause: Cause<ErrorSentence> } => "Stria does not serve this shape ({reason}{cause}); Linux may",
        ZonesUnrecorded {} => "its members are unequal and its superblocks do not say in which of two ways Linux striped them; record it once: mdadm --assemble --update=layout-alternate (or layout-original, if it was written under Linux before 3.14)",
        WithoutUpper { upper: String, fault: String } => "it is a span of array {upper}, whose superblock is not on it ({fault}): either `create` was broken off, and has to be done again, or the first blocks of the span are lost",
        WrittenNotReadBack {} => "what was just written cannot be read back: look at the drives, and create it again",
        NoLongerOnDrives {} => "it is no longer on its drives: see `stria examine`",
        OnePartialLog {} => "either it or the array has a partial parity log, but not both; add it anew",
        ClaimsNoSlot { slot: usize, slot_count: usize } => "it claims slot {slot}, and the array has {slot_count} slots; add it anew",
        NumberImpossible { number: String } => "its device number, {number}, is impossible; add it anew",
        SuperblockOfOtherVersion { version: String, others: String } => "its superblock is of version {version}, and those of the other members are of {others}",
        OwnBitmapTooShort {} => "its metadata leave too little space for the array's write-intent bitmap; `stria add` gives it new metadata, with space for it",
        OwnLogTooShort {} => "there is too little space before its data for the array's write log; `stria add` gives it new metadata, with space for it",
        LogOfOthers { excess: String } => "its write log holds more than any run leaves ({excess}), so other software wrote it; --force starts without the log, and then writes that were in flight when the array stopped may be torn",

        // Why a sweep stops
        SweepArrayStops {} => "the array stops",
        SweepArrayFailed {} => "the array has lost a member that it cannot do without: serve it again with that member, and this goes on",
        SweepTargetFailed { drive: String } => "member {drive} failed",
        SweepNoCopy { sector: String } => "array sectors {sector}.. have no readable copy",
        SweepNoCopyOfRow { row: String, slot: usize } => "row {row} of slot {slot} has no readable copy",
        SweepBadBlocksFull { reason: String, cause: Cause<ErrorSentence> } => "{reason}{cause}, and the bad-block log has no space to say so: replace the members with bad blocks",
        SweepUnreconstructible { row: String } => "rows {row}.. cannot be reconstructed",
        SweepLogCannotBegin { reason: String, cause: Cause<ErrorSentence> } => "the write log cannot begin, and is tried again every 10 s: {reason}{cause}",

        // Why a drive does not join or return
        NoNewMembers {} => "this format takes no new members",
        CannotJoin { drive: String, array: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} cannot join \"{array}\": {reason}{cause}",
        NoRedundancyToJoin {} => "an array without redundancy takes no spares; create one with redundancy, and copy the data",
        IsMemberAlready {} => "it is a member already; `status` shows its slot",
        SuperblocksAtEnd {} => "the array has metadata of version 1.0, which is served but not given to new members; add it under Linux (mdadm --add)",
        MemberTooSmall { missing: String, needed: String } => "it is {missing} too small: a member needs {needed}; use a larger drive",
        BlocksDoNotFit { block_bytes: u64 } => "its blocks of {block_bytes} bytes do not fit the positions of the array's metadata and strips; use a drive with blocks of 512 bytes",
        NumbersTaken {} => "every device number is taken; remove failed members first",
        NoSpaceForLog {} => "there is too little space before its data for the array's write log: `stria set NAME --log none` makes the array do without one",
        NoSpaceForBitmap {} => "its metadata leave too little space for the array's write-intent bitmap: use a larger drive",
        ReturnsWithoutLog { drive: String } => "{drive} cannot return: there is too little space before its data for the array's write log; wipe it (`stria wipe`), and add it as a new drive",
        ReturnsWithoutNumber { drive: String } => "{drive} cannot return: every device number is taken; remove failed members first",
        BadBlockLogFull { drive: String, entry_count: usize } => "the bad-block log of {drive} has no space for {entry_count} entries: replace the members that have bad blocks, then set the log again",
        CannotReturn { drive: String, part: String, reason: String, cause: Cause<ErrorSentence>, array: String } => "{drive} cannot return to \"{part}\", as {reason}{cause}: it was left as it is; `stria add {array} {drive}` makes it a new spare, and `stria wipe {drive}` a blank drive",
        WasCutShort {} => "it was cut short while in use, so nothing that it holds counts",
        SlotHasAnother { slot: usize } => "slot {slot} has another member",
        OfAnotherArray {} => "it belongs to another array",
        OfAnotherVersion {} => "its superblock is of another version than those of the members",
        ShapeHasChanged {} => "the array's shape has changed since it left",
        DataAreaTooSmall {} => "its data area is smaller than the array needs",
        HeldNoSlot {} => "it held no slot",
        HeldSlotGone { slot: usize } => "it held slot {slot}, which the array does not have",
        RebuildWasUnended {} => "its rebuild had not ended when it left",
        RanWithoutMembers {} => "it was run without members that the array has now",
        RanWithOthers {} => "it was run with other drives in place of the members that the array has now",
        RanElsewhere {} => "it has taken superblock updates since it left, so it was run elsewhere",
        NoBitmapKept {} => "the array has no write-intent bitmap, so what it missed is unknown",
        NoSpaceForTheBitmap {} => "its metadata leave too little space for the array's write-intent bitmap",
        LeftTooEarly { left: String, covered: String } => "it left at superblock update {left}, and the bitmap covers only what was written since update {covered}",
        NoSuchPart { name: String, names: Names } => "there is no array or span \"{name}\"; there are {names}",

        // Why an array cannot be made
        MembersTooMany { missing_count: usize, level: String, survives: usize } => "{missing_count} members are missing, and RAID level {level} survives {survives}: name more drives",
        DrivesTooMany { drive_count: usize, most: usize } => "{drive_count} drives are too many for one array, since md takes {most}: make several arrays",
        AllAreMissing {} => "every member is missing: name at least one drive that is there",
        LevelTakesNoSpares { level: String } => "RAID level {level} has no redundancy, so it has neither missing members nor spares: leave them out, or choose another level",
        LevelTakesNoBitmap { level: String } => "RAID level {level} has no redundancy to resync, so a write-intent bitmap has no use: leave --bitmap out",
        BitmapNoSpace {} => "the members are too small for a write-intent bitmap: leave it out",
        BitmapChunkInvalid { chunk_bytes: u64, least_bytes: u64 } => "a bitmap chunk of {chunk_bytes} bytes cannot be used: choose a power of two from {least_bytes} bytes to 2 GiB",
        SpansUnequal { drive_count: usize, span_count: usize } => "{drive_count} drives do not make {span_count} equal spans of 2 or more: choose --spans so that it divides the drive count",
        DriveTooSmall { drive: String, needed: String, size: String } => "{drive} is too small: metadata need {needed} of its {size} (the first drive's size decides; name the smallest first)",
        SizeTooLarge { asked: String, excess: String } => "--size asks for {asked} of each drive, {excess} more than the smallest has for data: ask for less, or use larger drives",
        SizeBelowStrip { asked: String, strip: String } => "--size asks for {asked} of each drive, which does not hold one strip of {strip}: ask for at least that, or for a smaller strip",
        MemberCountInvalid { level: String, least: usize, most: usize, given_count: usize } => "RAID level {level} takes {least} to {most} members, and {given_count} were given",
        CopiesTooMany { layout: String, copy_count: usize, most: usize } => "layout {layout} keeps {copy_count} copies, and RAID level 10 keeps at most {most}: choose a layout with fewer",
        CopiesTooFew { layout: String } => "RAID level 10 keeps at least 2 copies, and layout {layout} fewer: choose n2, f2 or o2",
        StripUnusable { strip_sectors: u64 } => "a strip of {strip_sectors} sectors cannot be used: choose a power of two from 4K to 64M",
        LayoutOfOtherLevel { layout: String, level: String } => "layout {layout} does not belong to RAID level {level}: leave --layout out to take the default",
        ArrayTooLarge { member_count: usize, sectors: String } => "{member_count} members of {sectors} sectors are more than the 8 EiB that an array may have in all",
        MembersTooSmall { sectors: String, strip_sectors: u64 } => "the members are too small: {sectors} sectors of data space do not hold one strip of {strip_sectors} sectors; use larger drives or a smaller --strip",

        // Last, since these take any text
        OfMember { drive: String, reason: String, cause: Cause<ErrorSentence> } => "member {drive}: {reason}{cause}",
        MemberUnusable { drive: String, reason: String, cause: Cause<ErrorSentence> } => "{drive}: {reason}{cause}",
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, ErrorSentence as Say, Lack, Lacks, SilentDrives, Words, read};

    #[test]
    fn a_cause_adds_its_sentence_for_programs_and_nothing_to_the_text() {
        let lacks = Lacks(vec![Lack { array: "tank".into(), slots: vec![1, 4] }]);
        let (reason, cause) = Words::from(Say::WaitsForAll { lacks, array: "tank".into() }).parts();
        let said = Say::WaitsForSilent { silent: SilentDrives(vec!["/dev/a".into()]), reason, cause };
        assert_eq!(
            said.to_string(),
            "/dev/a does not answer: check the drive and its cable; \"tank\" lacks the drives of slots 1, 4: the array waits until none \
             is missing (`stria start tank` starts it now)"
        );
        let json = serde_json::to_value(&said).expect("JSON");
        assert_eq!(json["values"]["cause"]["code"], "waits-for-all");
        assert_eq!(serde_json::from_value::<Say>(json).expect("the same"), said);
    }

    #[test]
    fn a_note_in_a_result_has_the_sentence_that_gives_it() {
        let said = Say::StillCarries { drive: "/dev/a".into(), contents: "a GPT at sector 8".into() };
        assert_eq!(read(&said.to_string()), Some(said));
        assert_eq!(read("it is too wet"), None);
        assert_eq!(read(&Say::NoArrayOnDrives {}.to_string()), None, "errors have their sentences where they are made");
    }

    /// Another version stored the record before the value was added.
    #[test]
    fn a_record_without_a_cause_is_read() {
        let json = serde_json::json!({"code": "not-served", "values": {"array": "tank", "reason": "it was stopped"}});
        let said = Say::NotServed { array: "tank".into(), reason: "it was stopped".into(), cause: Cause(None) };
        assert_eq!(serde_json::from_value::<Say>(json).expect("a sentence"), said);
    }
}
