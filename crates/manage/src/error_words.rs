//! The sentences of refusals and failures: what the API answers, how a job fails, and why an array is not served.
//!
//! A text that an operating system, a drive or a lower crate gave has no sentence. In another sentence it is a `reason`.

use crate::plan_words::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;
use std::path::Path;
use stria_drive::DriveError;
use stria_host::HostError;
use stria_sentence::{Names, sentences};

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

impl From<HostError> for Words {
    fn from(error: HostError) -> Self {
        let text = error.to_string();
        let shown = |path: &Path| path.display().to_string();
        let said = match &error {
            HostError::Drive(DriveError::Missing { path }) => Some(ErrorSentence::DriveMissing { drive: shown(path) }),
            HostError::Drive(DriveError::Busy { path, holder }) => {
                Some(ErrorSentence::DriveHeld { drive: shown(path), user: holder.clone() })
            }
            HostError::Drive(DriveError::Unfit { path, reason }) => {
                Some(ErrorSentence::DriveUnfit { drive: shown(path), reason: reason.clone() })
            }
            HostError::Refused(text) | HostError::Unsafe(text) => read(text),
            _ => None,
        };
        // A program shows the sentence in place of the text, so a sentence that differs from the text is left out.
        Self { said: said.filter(|said| said.to_string() == text), text }
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

/// The sentence of a refusal of the engine, if it has one.
fn read(text: &str) -> Option<ErrorSentence> {
    let is_of_engine = |(code, _): &(&'static str, &'static str)| OF_ENGINE.contains(code);
    let texts = ErrorSentence::TEXTS.iter().copied().filter(is_of_engine);
    stria_sentence::read(texts, text, |code, values| {
        let numbers = ["percent", "drive_bytes", "array_bytes"];
        let value = |name: &str, text: &str| match text.parse::<u64>() {
            Ok(number) if numbers.contains(&name) => Value::from(number),
            _ => Value::from(text),
        };
        let values: Map<String, Value> = values.iter().map(|(name, text)| ((*name).to_owned(), value(name, text))).collect();
        serde_json::from_value(json!({"code": code, "values": values})).ok()
    })
}

/// The sentences whose text the engine makes, in crates that know no codes.
const OF_ENGINE: &[&str] = &[
    "ScrubWhile",
    "ScrubWhilePaused",
    "ScrubOfFailed",
    "ScrubWithoutRedundancy",
    "RepairOfReadOnly",
    "FailedAlready",
    "NoRedundancyLeft",
    "FailsNotYet",
    "FailedAndNotDurable",
    "RemovedWhileInUse",
    "NotReplaceable",
    "NotReplaceableByDrive",
    "ReplacedAlready",
    "EngineStops",
    "EngineStarts",
    "NoUseForSpare",
    "NoUseForDrive",
    "TooSmall",
    "TooSmallToAdopt",
    "BlocksTooLarge",
    "SameMember",
    "HoldsWhatIsLacking",
    "HoldsBadBlocks",
    "ChangedMeanwhile",
];

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
        DoesNotAnswer { array: String } => "array \"{array}\" does not answer",
        ReadOnly { array: String } => "array \"{array}\" is served read-only, and this would write to its members: first `stria set {array} --read-only off`, or serve it without --read-only",
        DoesNotUse { array: String, drive: String, members: Used } => "array \"{array}\" does not use {drive}; it uses {members}",
        MemberAlready { drive: String, array: String, member_role: String } => "{drive} is a member of \"{array}\" already ({member_role})",
        BelongsAlready { array: String } => "array \"{array}\" belongs to Stria already",
        NameTaken { array: String } => "an array \"{array}\" belongs to Stria already: choose another name",
        NoneHere {} => "none of its drives is here",
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
        DriveUnfit { drive: String, reason: String } => "{drive} cannot be a member: {reason}",

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
        StopBrokeOff { array: String } => "the stop of array \"{array}\" broke off",
        StoodStill { array: String, seconds: u64 } => "array \"{array}\" did not stop cleanly: a lane has stood still for {seconds} s, so the members are left as after a power cut, and the next start resyncs",
        SpeedBoundsCross { min_bytes: Size, max_bytes: Size } => "the lower bound of {min_bytes}/s is above the upper one of {max_bytes}/s: change --min, --max, or both",
        SweepsWouldNeverEnd {} => "without a bound on latency sweeps run at the minimum while clients work, and with 0 they would never end: set a minimum above 0, or a latency such as p99=1ms",
        LatencyInvalid {} => "a latency to hold is a percentile from 50 to 99.99 and a time above zero, such as p99=5ms",
        TrimOutside { array: String, size_bytes: u64 } => "the range is empty or leaves \"{array}\", which has {size_bytes} bytes",
        TrimUnaligned { block_bytes: u64 } => "the range is not aligned to blocks of {block_bytes} bytes: round it",
        TrimImpossible { array: String } => "not every member of \"{array}\" can zero and unmap in one request: nothing was done",
        TrimCancelled { array: String, done_bytes: u64, length_bytes: u64 } => "trim of \"{array}\" was cancelled: the first {done_bytes} of {length_bytes} bytes read as zeros",
        TrimFailed { array: String, reason: String } => "trim of \"{array}\" failed: {reason}",
        SetOnReadOnly { array: String } => "array \"{array}\" is read-only, so its metadata stay as they are: `stria set {array} --read-only off` first",
        SetNeedsPause { array: String, users: Names } => "the change needs a pause, and array \"{array}\" is in use by {users}: clients that reconnect go on after it, others see errors; --force goes on",
        SetNeedsDevice { array: String, device: String, users: String } => "array \"{array}\" stays as it is: the change needs another block device, and {device} is in use ({users}), which --force does not end: unmount or close it, then repeat `stria set`",
        FileHasNoCache { drive: String } => "{drive} is a file, which has no cache of its own: switch that of the drive which holds it",
        SetStopFailed { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" was not changed, as its stop failed: {reason}{cause}",
        SetNotStarted { array: String, reason: String } => "array \"{array}\" was stopped for a change and does not start again: {reason}",
        OneUpdateAtATime {} => "the firmware of another member is being updated: one at a time; repeat the command afterwards",

        // The engine, which gives text alone: `read`
        ScrubWhile { task: String, percent: u64 } => "scrub refused: {task} runs ({percent} %); it may start when that ends",
        ScrubWhilePaused {} => "scrub refused: sweeps are paused; resume them first",
        ScrubOfFailed {} => "scrub refused: the array has failed; serve it with enough members first",
        ScrubWithoutRedundancy { level: String } => "scrub refused: RAID level {level} has no redundancy, so there is nothing to compare",
        RepairOfReadOnly {} => "repair refused: the array is read-only; scrub without --repair, or serve it without --read-only",
        FailedAlready { drive: String } => "{drive} has failed already; `stria remove` takes it off the list",
        NoRedundancyLeft { drive: String } => "{drive} cannot be failed: the array has no redundancy left to replace it; add a member and let it rebuild first",
        FailsNotYet { drive: String } => "{drive} cannot be failed yet: the array has just started, and still replays its write log; fail it again in a moment",
        FailedAndNotDurable { drive: String } => "{drive} has failed, but the other members do not say so yet, as another does not answer: leave the drive connected until `status` shows no member that is unresponsive",
        RemovedWhileInUse { drive: String } => "{drive} is in use: `fail` it first, or `replace` it to keep redundancy meanwhile",
        NotReplaceable { drive: String } => "{drive} cannot be replaced: it is not an in-sync member; its slot is rebuilt instead",
        NotReplaceableByDrive { drive: String } => "{drive} cannot be replaced: it is not an in-sync member; `add` a drive, and the slot is rebuilt on it",
        ReplacedAlready { drive: String } => "{drive} is being replaced already",
        EngineStops {} => "the array is being stopped: give the command after its next start",
        EngineStarts {} => "the array is still starting, or a failure of a member is not on disk yet; add it again in a moment",
        NoUseForSpare { level: String } => "RAID level {level} has no use for a spare: it cannot rebuild",
        NoUseForDrive { level: String } => "RAID level {level} has no redundancy, so another drive is of no use to it",
        TooSmall { drive: String, missing: String, needed: String } => "{drive} is {missing} too small: {needed} are needed for data; use a larger drive",
        TooSmallToAdopt { drive: String, array: String, missing: String, needed: String } => "{drive} cannot join \"{array}\": it is {missing} too small: a member needs {needed}; use a larger drive",
        BlocksTooLarge { drive: String, drive_bytes: u64, array: String, array_bytes: u64 } => "{drive} has blocks of {drive_bytes} bytes, and \"{array}\" serves blocks of {array_bytes}: use a drive with blocks as small",
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
        StartsByForce { reason: String, array: String } => "{reason} (`stria start {array} --force` starts it anyway, and may lose data)",
        TriedAgain { reason: String, cause: Cause<ErrorSentence> } => "{reason}{cause}; it is tried again",
        NotTriedAgain { reason: String, cause: Cause<ErrorSentence>, array: String } => "{reason}{cause} (`stria start {array}` tries again)",
        NoneOfItsDrives { array: String } => "array \"{array}\" cannot start: none of its drives is here",
        DidNotStart { array: String } => "array \"{array}\" did not start",
        DidNotStartBecause { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" did not start: {reason}{cause}",
        StartIsUnsafe { reason: String } => "{reason}; --force starts it anyway, and may lose data",
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
        AnotherPage { origin: String } => "the request comes from another page ({origin})",
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
        ForecastsBusy {} => "another forecast is being made: ask again when it has ended, within a minute",
        ForecastCount { most: usize } => "a forecast is for 1 to {most} drives",
        NoAlarmChannel {} => "no channel for alarms is configured: add one to [alarms] in stria.toml, or serve with --alarm-mail, --alarm-webhook, --alarm-exec or --alarms",
        ChannelsChanged {} => "the channels of alarms were changed by somebody else since they were read: read them again",
        SchedulesChanged {} => "the schedules were changed by somebody else since they were read: read them again",
        ConfigChanged {} => "the configuration was changed by somebody else since it was read: read it again",
        ConfigInvalid { reason: String } => "the configuration was not changed, as it would be invalid: {reason}",
        ReloadFailed { reason: String } => "{reason}; the daemon goes on as it was configured before",
        NoReport { name: String } => "there is no page {name:?}; GET /api/v1/reports lists them",
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, ErrorSentence as Say, Lack, Lacks, OF_ENGINE, SilentDrives, Words, read};
    use std::path::Path;

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

    /// A text of the engine that changes there and not here would lose its translation.
    #[test]
    fn the_sentences_of_the_engine_are_those_that_it_gives() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = [
            "array/src/sweep.rs",
            "array/src/command_tasks.rs",
            "array/src/engine/commands.rs",
            "array/src/member/commands.rs",
            "tree/src/join.rs",
            "format/src/md/recorder.rs",
        ];
        let sources = files.map(|file| std::fs::read_to_string(folder.join(file)).expect("a source")).join("\n");
        // A literal may go on in the next line.
        let sources = sources.replace('\\', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        for (code, english) in Say::TEXTS.iter().filter(|(code, _)| OF_ENGINE.contains(code)) {
            let literals = english.split('{').map(|part| part.split_once('}').map_or(part, |(_, literal)| literal));
            let phrases = literals.flat_map(|literal| literal.split(['"', ',', ':', ';', '(', ')'])).map(str::trim);
            for phrase in phrases.filter(|phrase| phrase.contains(' ')) {
                assert!(sources.contains(phrase), "{code}: {phrase:?}");
            }
        }
    }

    #[test]
    fn a_refusal_of_the_engine_has_its_sentence() {
        let said = Say::ScrubWhile { task: "rebuild".into(), percent: 41 };
        assert_eq!(read("scrub refused: rebuild runs (41 %); it may start when that ends"), Some(said));
        let said = Say::TooSmall { drive: "/dev/7".into(), missing: "3".into(), needed: "1 TiB".into() };
        assert_eq!(read(&said.to_string()), Some(said));
        assert_eq!(read("scrub refused: it rains"), None);
    }

    /// Another version stored the record before the value was added.
    #[test]
    fn a_record_without_a_cause_is_read() {
        let json = serde_json::json!({"code": "not-served", "values": {"array": "tank", "reason": "it was stopped"}});
        let said = Say::NotServed { array: "tank".into(), reason: "it was stopped".into(), cause: Cause(None) };
        assert_eq!(serde_json::from_value::<Say>(json).expect("a sentence"), said);
    }
}
