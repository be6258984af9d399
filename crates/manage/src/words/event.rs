//! The sentences of events: those of arrays and drives, and those of the service itself.

use crate::words::alarm::AlarmSentence;
use crate::words::error::{Cause, Detail, ErrorSentence, Lacks, read, read_among};
use crate::words::order::{Component, OrderSentence};
use crate::words::plan::PlanSentence;
use crate::words::result::ResultSentence;
use crate::words::warning::WarningSentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use stria_host::HostSentence;
use stria_sentence::sentences;

/// An event, for programs: `code` stays the same when its words change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EventSentence {
    /// Of an array or a drive.
    Host(HostSentence),
    /// Of the service.
    Service(ServiceSentence),
    /// A refusal or a failure.
    Error(ErrorSentence),
    /// What an order has done.
    Result(ResultSentence),
    /// A warning.
    Warning(WarningSentence),
}

impl fmt::Display for EventSentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(said) => said.fmt(f),
            Self::Service(said) => said.fmt(f),
            Self::Error(said) => said.fmt(f),
            Self::Result(said) => said.fmt(f),
            Self::Warning(said) => said.fmt(f),
        }
    }
}

impl From<ServiceSentence> for EventSentence {
    fn from(said: ServiceSentence) -> Self {
        Self::Service(said)
    }
}

/// The sentence of an event's text, if all of it has some.
pub fn told_as_one(text: &str) -> Option<EventSentence> {
    let mut ends = told(text)?;
    match ends.len() {
        1 => ends.pop(),
        _ => Some(ServiceSentence::Several { outcome: text.to_owned(), ends: Ends(Some(ends)) }.into()),
    }
}

impl From<ErrorSentence> for EventSentence {
    fn from(said: ErrorSentence) -> Self {
        Self::Error(said)
    }
}

/// The channels that an alarm was sent by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Channels(pub Vec<String>);

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => f.write_str("no channel is configured"),
            names => write!(f, "by {}", names.join(", ")),
        }
    }
}

/// The function of the kernel in which a lane waits; null: it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct InKernel(pub Option<String>);

impl fmt::Display for InKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|function| write!(f, ", in the kernel ({function})"))
    }
}

/// Drives that had requests to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Asked(pub Vec<String>);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => Ok(()),
            drives => write!(f, "; these drives had requests to answer: {}", drives.join(", ")),
        }
    }
}

/// The sentences of an outcome whose text stands before them; null: it has text alone. They add nothing to the English.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Ends(pub Option<Vec<EventSentence>>);

impl fmt::Display for Ends {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

sentences! {
    /// An event of the service, for programs: `code` stays the same when its words change.
    pub enum ServiceSentence {
        ArrayServed { array: String, drive_count: usize, addresses: String } => "array \"{array}\" is served from {drive_count} drives at {addresses}",
        ArrayStops { array: String } => "array \"{array}\" stops",
        ArrayStoppedClean { array: String } => "array \"{array}\" has stopped: clean",
        ArrayStopped { array: String, state: String } => "array \"{array}\" has stopped: {state}",
        ArrayStoppedUnclean { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" did not stop cleanly: {reason}{cause}",
        ArrayDoesNotStart { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" does not start: {reason}{cause}",
        LaneSilent { lane: String, array: String, seconds: u64, in_kernel: InKernel, asked: Asked } => "lane {lane} of array \"{array}\" has stood still for {seconds} s{in_kernel}{asked}; requests that need it wait",
        ArrayStartsWithout { lacks: Lacks } => "{lacks}; the array starts without the missing drives, because none came in time",
        ArrayAnswersAgain { array: String } => "array \"{array}\" answers again",
        SweepsPaused { array: String } => "sweeps of \"{array}\" are paused",
        SweepsResumed { array: String } => "sweeps of \"{array}\" are resumed",
        PoolSpareTaken { array: String, drive: String, result: String } => "\"{array}\" takes {drive} from the pool of spares: {result}",
        NoPoolSpareSuits { array: String, reason: String, ends: Ends } => "\"{array}\" lacks a member, and no spare of the pool suits: {reason}{ends}",
        AlarmRaised { alarm: String, array: String, component: Component, channels: Channels, detail: Detail, cause: Cause<AlarmSentence> } => "{alarm} on array {array}{component} ({channels}){detail}{cause}",
        AlarmRepeated { alarm: String, array: String, component: Component, channels: Channels, detail: Detail, cause: Cause<AlarmSentence> } => "still: {alarm} on array {array}{component} ({channels}){detail}{cause}",
        AlarmOver { alarm: String, array: String, component: Component, channels: Channels, detail: Detail, cause: Cause<AlarmSentence> } => "over: {alarm} on array {array}{component} ({channels}){detail}{cause}",
        OrderDone { by: String, order: OrderSentence } => "{by} ordered: {order}; done",
        OrderFailed { by: String, order: OrderSentence, status: u16 } => "{by} ordered: {order}; refused or failed (status {status})",
        OrderTaken { by: String, order: OrderSentence } => "{by} ordered: {order}; taken",
        OrderRefused { by: String, order: OrderSentence, reason: String, cause: Cause<ErrorSentence> } => "{by} ordered: {order}; refused: {reason}{cause}",
        OrderRefusedLast { by: String, order: OrderSentence, reason: String, cause: Cause<ErrorSentence> } => "{by} ordered: {order}; refused, and further refusals within the minute are not recorded: {reason}{cause}",
        OrderForbidden { by: String, order: OrderSentence, reason: String, cause: Cause<ErrorSentence> } => "{by} was refused: {order}; {reason}{cause}",
        JobOrdered { by: String, job: u64, title: PlanSentence, action: String } => "{by} ordered job {job}, {title}: {action}",
        JobDone { job: u64, by: String, title: PlanSentence, outcome: String, ends: Ends } => "job {job} of {by}: {title} done: {outcome}{ends}",
        JobCancelled { job: u64, by: String, title: PlanSentence, outcome: String, ends: Ends } => "job {job} of {by}: {title} cancelled: {outcome}{ends}",
        JobFailed { job: u64, by: String, title: PlanSentence, outcome: String, ends: Ends } => "job {job} of {by}: {title} failed: {outcome}{ends}",
        JobCancelledBy { by: String } => "{by} cancelled it",
        Several { outcome: String, ends: Ends } => "{outcome}{ends}",
        // How a job ended that the daemon did not outlive.
        JobCut {} => "the daemon ended before this job did: `status` shows how far it came, and a rebuild goes on by itself",
        JobCutWipe {} => "the daemon ended before this job did: some of the drives may keep their signatures: repeat the action",
        JobCutDiscard {} => "the daemon ended before this job did: the drives are discarded in part, and their signatures may be gone: repeat the action",
        JobCutErase {} => "the daemon ended before this job did: the drive may be erasing itself still, which can take hours; repeat the action when it answers, as the end was not seen",
        JobCutSanitize {} => "the daemon ended before this job did: a sanitize that has begun goes on in the drive: repeat the action, which waits for its end",
        JobCutFirmware {} => "the daemon ended before this job did: `stria firmware ARRAY MEMBER` shows what the drive runs; if it had left the array for its reset, `stria add` brings it back",
        // How the last work by schedule has ended.
        ScrubIsClean {} => "no mismatch",
        ScrubHasLeftUnchecked { unchecked_sectors: u64 } => "no mismatch in what could be compared, but {unchecked_sectors} sectors could not",
        ScrubHasRepaired { mismatch_sectors: u64 } => "mismatches in {mismatch_sectors} sectors, repaired",
        ScrubHasFound { mismatch_sectors: u64 } => "MISMATCHES in {mismatch_sectors} sectors",
        SelfTestPassed {} => "passed",
        SelfTestFailed {} => "FAILED",
        ScheduledScrubGoesOn { array: String } => "the scrub of \"{array}\" goes on where it was interrupted",
        ScheduledScrubCancelled { array: String } => "the scrub of \"{array}\" was cancelled: the next one is that of the schedule",
        LongSelfTestBegins { drive: String } => "{drive}: a long self-test begins",
        ShortSelfTestBegins { drive: String } => "{drive}: a short self-test begins",
        CopiedBeforeFailure { member: String, spare: String, reason: String } => "{member} is copied to spare {spare} before it fails: {reason}; it stays a member until the copy has ended",
    }
}

/// Semicolons that are tried in one text.
const ENDS_MAX: usize = 12;

/// The sentences that a text consists of, with semicolons between them. `None`: a part of it has text alone.
pub fn told(text: &str) -> Option<Vec<EventSentence>> {
    // A sentence may have semicolons of its own. The shortest that is one counts, as a value takes any text.
    let ends: Vec<usize> = text.match_indices("; ").map(|(at, _)| at).take(ENDS_MAX).collect();
    let split = ends.into_iter().find_map(|at| {
        let first = one(&text[..at])?;
        let rest = told(&text[at + 2..])?;
        Some([vec![first], rest].concat())
    });
    split.or_else(|| Some(vec![one(text)?]))
}

fn one(text: &str) -> Option<EventSentence> {
    let result = read_among(ResultSentence::TEXTS.iter().copied(), text).map(EventSentence::Result);
    let paused = || {
        let texts = ServiceSentence::TEXTS.iter().copied().filter(|(code, _)| ["SweepsPaused", "SweepsResumed"].contains(code));
        read_among(texts, text).map(EventSentence::Service)
    };
    let warning = || read_among(WarningSentence::TEXTS.iter().copied(), text).map(EventSentence::Warning);
    result.or_else(paused).or_else(warning).or_else(|| read(text).map(EventSentence::Error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::result::ResultSentence as Done;

    #[test]
    fn a_result_of_several_sentences_is_read() {
        let text = "array \"tank\" is made; the configuration was read: 2 arrays, 1 served; array \"tank\" is served at /dev/ublkb0 and /run/a";
        let array = || "tank".to_owned();
        let wanted = [
            Done::ArrayMade { array: array() },
            Done::ConfigWasRead { array_count: 2, served_count: 1 },
            Done::ArrayServedAt { array: array(), addresses: "/dev/ublkb0 and /run/a".into() },
        ];
        assert_eq!(told(text), Some(wanted.map(EventSentence::Result).to_vec()));
        // A sentence with a semicolon of its own, and those of other kinds.
        let back = Done::DriveIsBack { drive: "/dev/a".into(), slot: 3, array: array() };
        let left = ErrorSentence::StillCarries { drive: "/dev/a".into(), contents: "a GPT at sector 8".into() };
        let text = format!("{back}; sweeps of \"tank\" are paused; {left}");
        let wanted: Vec<EventSentence> =
            vec![EventSentence::Result(back), ServiceSentence::SweepsPaused { array: array() }.into(), left.clone().into()];
        assert_eq!(told(&text), Some(wanted));
        assert_eq!(told("array \"tank\" is made; it rains"), None);
        assert_eq!(told(&"; ".repeat(10_000)), None);
    }

    /// A text that changes in its source and not here would lose its translation.
    #[test]
    fn the_sentences_of_results_are_those_that_commands_give() {
        use crate::wipe::{WipeMeans, destroyed, in_words};
        let means = [WipeMeans::Signatures, WipeMeans::Discard, WipeMeans::SecureErase, WipeMeans::Sanitize];
        let wipes = means.iter().flat_map(|means| [1, 3].map(|count| in_words(count, *means)));
        let gone = [1, 3].map(|count| destroyed(count, &["x".to_owned()]));
        let writes = [crate::settings::WriteMode::Through, crate::settings::WriteMode::Safe, crate::settings::WriteMode::Back];
        let writes = writes.map(|mode| format!("array \"tank\" writes {}", mode.words()));
        for text in wipes.chain(gone).chain(writes) {
            assert!(matches!(&told(&text).as_deref(), Some([EventSentence::Result(_)])), "{text}");
        }
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files = [
            "rest/jobs.rs",
            "ownership.rs",
            "keeper.rs",
            "ownership/mdadm.rs",
            "service/commands.rs",
            "service/settings.rs",
            "service/stop.rs",
            "service/firmware.rs",
            "../../tree/src/join.rs",
            "../../host/src/hosted.rs",
            "../../host/src/rework.rs",
            "../../health/src/seat.rs",
        ];
        let sources: String = files.iter().map(|file| std::fs::read_to_string(folder.join(file)).expect("a source")).collect();
        let sources = sources.replace('\\', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let by_parts = ["Drive", "Drives", "NoSuper", "Writes", "MemberKeeps", "MembersKeep", "ConfigWasRead", "Caches", "Light"];
        // Their text is made of the sentence, or of two literals.
        let is_made = |code: &str| ["DriveIsSanitized", "SweepIsHeld"].contains(&code) || code.starts_with("Firmware");
        let own =
            |code: &str| by_parts.iter().any(|part| code.starts_with(part)) && !code.starts_with("DriveIs") || is_made(code);
        let mut lacking = Vec::new();
        for (code, english) in Done::TEXTS.iter().filter(|(code, _)| !own(code)) {
            let literals = english.split('{').map(|part| part.split_once('}').map_or(part, |(_, literal)| literal));
            let phrases = literals.flat_map(|literal| literal.split(['"', ',', ':', ';', '(', ')'])).map(str::trim);
            lacking
                .extend(phrases.filter(|phrase| phrase.contains(' ') && !sources.contains(phrase)).map(|phrase| (code, phrase)));
        }
        assert_eq!(lacking, []);
    }
}
