//! Matters: what is wrong with an array, what it means, what to do, and what not to do now (`stria explain`, the web page).
//!
//! The rules by which a matter exists are here alone; the page only words them in the reader's language.

use crate::api::{AdoptedState, AdoptedView, ArrayView, HealthView, MemberView, Obstacle, UndecidedView};
use crate::view;
use crate::words::alarm::AlarmSentence;
use crate::words::error::{Dropped, DroppedMember, ErrorSentence, Words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use stria_alarm::{Acknowledgement, Event};
use stria_block::shell_word;
use stria_terminal::size;

type Condition = stria_alarm::Condition<AlarmSentence>;

/// The part of the configuration with the port for metrics.
pub const METRICS: &str = "[metrics]";
/// The part with the addresses of the API.
pub const API: &str = "[api]";
/// The part with the file of tokens.
pub const TOKENS: &str = "[api] tokens";
/// The part with the addresses for NBD clients.
pub const NBD: &str = "[nbd]";

/// The urgency of a matter; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Nothing is wrong.
    Well,
    /// Nothing is at risk, and something remains to be done.
    Notice,
    /// An administrator should look soon.
    Warning,
    /// Data is at risk, or not available.
    Critical,
}

/// The kind of a matter, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatterKind {
    /// The array is not served.
    NotServed,
    /// The array does not answer.
    Silent,
    /// Redundancy is lost, and nothing fills the gap.
    Degraded,
    /// Redundancy is being restored.
    Rebuilding,
    /// More is lost than redundancy covers.
    Failed,
    /// Redundancy is lost, and while sweeps are paused no spare fills the gap, nor is one of the pool taken.
    Paused,
    /// The replay after a crash ended early, so the array takes no writes.
    ReadOnly,
    /// Superblocks cannot be written, so writes fail.
    SuperblockRefused,
    /// A member leaves requests unanswered.
    MemberSilent,
    /// More members leave requests unanswered than the array can lose.
    MembersSilent,
    /// A scrub found redundancy that does not match.
    Mismatch,
    /// A member has no space.
    NoSpace,
    /// The file of a member was deleted.
    FileDeleted,
    /// A failed member was replaced, and is still listed.
    Replaced,
    /// A drive came back, and was left as it is.
    LeftAlone,
}

/// The cause of a matter, for programs: `code` stays the same when its words change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReasonSentence {
    /// An alarm.
    Alarm(AlarmSentence),
    /// Why an array is not served, or a drive was left as it is.
    Error(ErrorSentence),
}

/// One matter of one array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matter {
    /// The array or span.
    pub array: String,
    /// The kind.
    pub kind: MatterKind,
    /// The urgency.
    pub urgency: Urgency,
    /// The fault.
    pub what: String,
    /// The meaning of the fault.
    pub means: String,
    /// The remedy.
    pub action: String,
    /// Steps that would make it worse.
    pub avoid: String,
    /// The drives that it is about, by path.
    pub drives: Vec<String>,
    /// The cause, as it was recorded.
    pub reason: Option<String>,
    /// The cause for programs.
    #[serde(skip)]
    pub said: Option<ReasonSentence>,
    /// The latest acknowledgement, if every alarm about it is acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
    /// The order among matters of one urgency, the worst first.
    #[serde(skip)]
    pub rank: u8,
}

impl Matter {
    /// The worst has the least.
    pub fn order(&self) -> (Reverse<Urgency>, u8) {
        (Reverse(self.urgency), self.rank)
    }
}

/// The rank of lost data.
pub const RANK_LOST: u8 = 0;
/// The rank of what is not at risk now.
pub const RANK_LAST: u8 = 4;

impl MatterKind {
    /// The order among matters of one urgency: lost data, data out of reach, data that the next failure loses, the same with a
    /// rebuild that runs, the rest.
    fn rank(self, is_bare: bool) -> u8 {
        match self {
            Self::Failed => RANK_LOST,
            Self::NotServed | Self::Silent | Self::SuperblockRefused => 1,
            Self::Degraded | Self::Paused if is_bare => 2,
            Self::MembersSilent => 2,
            Self::Rebuilding if is_bare => 3,
            Self::Degraded
            | Self::Rebuilding
            | Self::Paused
            | Self::ReadOnly
            | Self::MemberSilent
            | Self::Mismatch
            | Self::NoSpace
            | Self::FileDeleted
            | Self::Replaced
            | Self::LeftAlone => RANK_LAST,
        }
    }

    /// The events of the alarms about it.
    pub fn events(self) -> &'static [Event] {
        match self {
            Self::NotServed => &[Event::NotServed],
            Self::Silent => &[Event::ArraySilent],
            Self::MemberSilent | Self::MembersSilent => &[Event::MemberSilent],
            Self::Degraded | Self::Rebuilding | Self::Failed | Self::Paused => &[Event::Fail, Event::DegradedArray],
            Self::ReadOnly => &[Event::ReadOnly],
            Self::SuperblockRefused => &[Event::SuperblockRefused],
            Self::Mismatch => &[Event::Mismatch],
            Self::NoSpace => &[Event::NoSpace],
            Self::FileDeleted => &[Event::FileDeleted],
            Self::LeftAlone | Self::Replaced => &[],
        }
    }

    /// The urgency. `is_bare`: the next failure loses data.
    fn urgency(self, is_bare: bool) -> Urgency {
        match self {
            Self::Replaced | Self::LeftAlone => Urgency::Notice,
            Self::Rebuilding if !is_bare => Urgency::Warning,
            Self::Mismatch => Urgency::Warning,
            Self::NotServed
            | Self::Silent
            | Self::Degraded
            | Self::Rebuilding
            | Self::Failed
            | Self::Paused
            | Self::ReadOnly
            | Self::SuperblockRefused
            | Self::MemberSilent
            | Self::MembersSilent
            | Self::NoSpace
            | Self::FileDeleted => Urgency::Critical,
        }
    }
}

/// The matter of an array of the daemon's that is not served, unless it was stopped on purpose.
pub fn not_served(array: &AdoptedView) -> Option<Matter> {
    let word = shell_word(&array.name);
    let (means, action, avoid) = match array.state {
        AdoptedState::Served | AdoptedState::Stopped => return None,
        AdoptedState::Absent => (
            "the daemon sees none of the array's drives, so its data cannot be reached",
            format!(
                "check cables, power and controllers; `stria examine DRIVE` says what a drive carries. If it is gone for good: `stria release {word}`"
            ),
            "do not create an array on drives that you take for empty: examine them first",
        ),
        AdoptedState::Waiting | AdoptedState::Refused if array.obstacle == Some(Obstacle::Group) => (
            "clients cannot reach the array until the group is there",
            format!(
                "create the group that is named, or correct `vhost-user-group` in the configuration and run `systemctl reload stria`; then \
                 `stria start {word}`, unless it has started by itself"
            ),
            "do not take `vhost-user-group` out: virtual machines whose group it is could not connect",
        ),
        AdoptedState::Waiting if array.obstacle == Some(Obstacle::InUse) => (
            "clients cannot reach the array until it starts",
            format!(
                "end the other user of the drive that is named, if it should not have it: the array is tried again by itself, and by `stria start {word}`"
            ),
            "do not end the other user of a drive by force: it may be writing",
        ),
        AdoptedState::Waiting if array.obstacle == Some(Obstacle::Silent) => (
            "clients cannot reach the array until it starts",
            "look at the drive that is named, its cable and its slot; the array is tried again when it answers".to_owned(),
            "do not use --force before the drive is known to be lost: it may hold the newest data",
        ),
        AdoptedState::Waiting if array.obstacle == Some(Obstacle::TooFew) => (
            "clients cannot reach the array, and it cannot start without more of its drives",
            "attach the drives that are missing: the array starts by itself; look at their cables, their power and their controller first, as several \
             rarely fail at once"
                .to_owned(),
            "do not create anything on its drives, and do not use --force: the missing drives may hold the newest data",
        ),
        AdoptedState::Waiting => (
            "clients cannot reach the array until it starts",
            format!("attach the drives that are named; `stria start {word}` starts it without them, if enough are here"),
            "do not use --force before the missing drives are known to be lost: they may hold the newest data",
        ),
        AdoptedState::Refused => (
            "clients cannot reach the array",
            format!("remove the cause that is named, then `stria start {word}`"),
            "do not end the other user of a drive by force: it may be writing",
        ),
    };
    Some(Matter {
        array: array.name.clone(),
        kind: MatterKind::NotServed,
        urgency: MatterKind::NotServed.urgency(false),
        what: format!("not served: {}", array.text),
        means: means.into(),
        action,
        avoid: avoid.into(),
        drives: Vec::new(),
        reason: Some(array.text.clone()),
        said: array.said.clone().map(ReasonSentence::Error),
        acknowledged: None,
        // Another array may start by itself.
        rank: if array.obstacle == Some(Obstacle::TooFew) { RANK_LOST } else { MatterKind::NotServed.rank(false) },
    })
}

/// The matters of an array that is served, and of its spans.
pub fn of_array(array: &ArrayView) -> Vec<Matter> {
    let mut matters = Vec::new();
    collect(array, array, &mut matters);
    matters
}

/// True if the array loses no data when the member of this path is failed.
pub fn can_lose(array: &ArrayView, path: &str) -> bool {
    let own = array.parts.members.iter().any(|member| member.path == path && !member.needed);
    own || array.parts.spans.iter().any(|span| can_lose(span, path))
}

/// The matters of `array`, which is `root` or a span of it, and of its spans.
fn collect(array: &ArrayView, root: &ArrayView, matters: &mut Vec<Matter>) {
    let (name, is_paused, is_measuring) = (&root.identity.name, root.condition.paused, root.condition.measuring);
    let is_read_only = root.condition.read_only;
    let mut of_this = Collector { array, name, is_paused, is_measuring, is_read_only, matters };
    // All else that is known of a silent array is old.
    if let Some(seconds) = array.condition.silent_s {
        return of_this.silent_array(seconds);
    }
    of_this.redundancy();
    of_this.read_only();
    of_this.superblock_refused();
    of_this.mismatch();
    of_this.silent_members();
    of_this.members_without_space();
    of_this.deleted_files();
    of_this.replaced_members();
    of_this.drives_left_alone();
    array.parts.spans.iter().for_each(|span| collect(span, root, matters));
}

/// True if the drive was lost, and no other one holds its slot.
fn is_missed(array: &ArrayView, member: &MemberView) -> bool {
    let holds = |other: &MemberView| other.slot == member.slot && other.role == "in sync" && other.failure.is_none();
    // One that a replacement has followed was not lost.
    let is_dropped = member.role == "failed" && member.slot.is_some() && !view::was_replaced(member);
    view::is_lost(member) || is_dropped && !array.parts.members.iter().any(holds)
}

fn is_file(path: &str) -> bool {
    !path.starts_with("/dev/")
}

/// How much, and where. `of`: what the sectors are counted on.
fn within(found: &UndecidedView, of: &str) -> String {
    let sectors = if found.sectors == 1 { "sector" } else { "sectors" };
    format!("{} {sectors}, from {} to {}{of}", found.sectors, found.first_sector, found.last_sector)
}

/// True if a rebuild runs, or the resync before it.
fn restores(array: &ArrayView) -> bool {
    array.redundancy.sweep.as_ref().is_some_and(|sweep| matches!(sweep.kind.as_str(), "rebuild" | "resync"))
}

/// True if a member is being filled, or is to be.
fn has_target(array: &ArrayView) -> bool {
    array.parts.members.iter().any(|member| member.role == "rebuilding")
}

/// True of a degraded array where each slot has a drive, and nothing fills one of them: its rebuild has ended early.
pub fn ended_early(array: &ArrayView) -> bool {
    has_target(array) && array.parts.missing_slots.is_empty() && !restores(array)
}

/// Collects the matters of one array or span.
struct Collector<'a> {
    array: &'a ArrayView,
    /// The name of the array that it is or is a span of, which commands take.
    name: &'a str,
    is_paused: bool,
    is_measuring: bool,
    is_read_only: bool,
    matters: &'a mut Vec<Matter>,
}

impl Collector<'_> {
    fn push(&mut self, kind: MatterKind, mut drives: Vec<String>, what: String, means: &str, action: String, avoid: &str) {
        drives.dedup();
        let (array, is_bare) = (self.array.identity.name.clone(), self.array.redundancy.losses_survived == 0);
        let (urgency, rank) = (kind.urgency(is_bare), kind.rank(is_bare));
        let (reason, said) = self.reason(kind, &drives).map(|words| (words.text, words.said)).unzip();
        let said = said.flatten().map(ReasonSentence::Error);
        let (means, avoid) = (means.into(), avoid.into());
        self.matters.push(Matter {
            array,
            kind,
            urgency,
            what,
            means,
            action,
            avoid,
            drives,
            reason,
            said,
            acknowledged: None,
            rank,
        });
    }

    fn reason(&self, kind: MatterKind, drives: &[String]) -> Option<Words> {
        let failure = |path: &String| {
            // A drive that failed, came back and failed again is there twice: the last time counts.
            let of_path = self.array.parts.members.iter().rev().filter(|member| member.path == *path);
            let (reason, said) =
                of_path.filter_map(|member| Some((member.failure.clone()?, member.failure_said.clone()))).next()?;
            Some(DroppedMember { drive: path.clone(), reason, cause: said.into() })
        };
        match kind {
            MatterKind::ReadOnly => self.array.condition.unreplayed_words(),
            MatterKind::SuperblockRefused => self.array.condition.superblock_refused_words(),
            MatterKind::LeftAlone => {
                let left = self.array.condition.left_alone.iter().find(|left| drives.contains(&left.path))?;
                Some(Words { text: left.text.clone(), said: left.said.clone() })
            }
            MatterKind::Silent => {
                self.array.condition.headline_before.as_ref().map(|before| format!("before that: {before}").into())
            }
            MatterKind::Degraded | MatterKind::Rebuilding | MatterKind::Failed | MatterKind::Paused | MatterKind::Replaced => {
                let mut dropped: Vec<DroppedMember> = drives.iter().filter_map(failure).collect();
                match dropped.len() {
                    0 => None,
                    // The drive is named beside it.
                    1 => dropped
                        .pop()
                        .map(|DroppedMember { reason, cause, .. }| Words { text: reason, said: cause.0.map(|said| *said) }),
                    _ => {
                        let has_words = dropped.iter().any(|member| member.cause.0.is_some());
                        let said = ErrorSentence::MembersDropped { dropped: Dropped(dropped) };
                        Some(Words { text: said.to_string(), said: has_words.then_some(said) })
                    }
                }
            }
            MatterKind::NotServed
            | MatterKind::MemberSilent
            | MatterKind::MembersSilent
            | MatterKind::Mismatch
            | MatterKind::NoSpace
            | MatterKind::FileDeleted => None,
        }
    }

    fn paths(&self, is_meant: impl Fn(&MemberView) -> bool) -> Vec<String> {
        self.array.parts.members.iter().filter(|member| is_meant(member)).map(|member| member.path.clone()).collect()
    }

    fn missed(&self) -> Vec<String> {
        self.paths(|member| is_missed(self.array, member))
    }

    /// The state, and where to look for the drives that are not listed any more.
    fn headline(&self) -> String {
        self.array.headline.clone() + &view::last_drives(self.array)
    }

    /// True if a member is being filled. A resync comes before the rebuild, and a measurement holds both for a moment.
    fn fills_one(&self) -> bool {
        has_target(self.array) && (restores(self.array) || self.is_measuring && !self.is_paused)
    }

    /// True if a rebuild restores all redundancy by itself.
    fn is_rebuilding(&self) -> bool {
        self.fills_one() && self.array.parts.missing_slots.is_empty()
    }

    /// False for an array of spans: each span reports its own redundancy.
    fn has_own_redundancy(&self) -> bool {
        self.array.parts.spans.is_empty()
    }

    /// Image files are neither pulled nor plugged.
    fn is_on_files(&self) -> bool {
        self.array.parts.members.iter().all(|member| is_file(&member.path))
    }

    fn has_spare(&self) -> bool {
        self.array.parts.members.iter().any(|member| member.role == "spare")
    }

    fn silent_array(&mut self, seconds: u64) {
        let waiting = view::all_members(self.array).into_iter().filter(|member| member.waiting_ms.is_some());
        self.push(
            MatterKind::Silent,
            waiting.map(|member| member.path.clone()).collect(),
            format!("the array has not answered for {seconds} s"),
            "a lane waits, most likely for a drive that hangs; requests that need it wait as well",
            "the log names the drives that have unanswered requests: check them; when they answer, everything goes on".into(),
            "do not kill the process: the requests that clients wait for would fail, and the drive would still hang",
        );
    }

    fn redundancy(&mut self) {
        if !self.has_own_redundancy() {
            return;
        }
        match self.array.condition.health {
            HealthView::Optimal => {}
            HealthView::Degraded if self.is_rebuilding() => self.rebuilding(),
            HealthView::Degraded if self.is_paused => self.paused(),
            HealthView::Degraded if ended_early(self.array) => self.ended_early(),
            HealthView::Degraded => self.degraded(),
            HealthView::Failed => self.lost(),
        }
    }

    fn rebuilding(&mut self) {
        let word = shell_word(self.name);
        self.push(
            MatterKind::Rebuilding,
            self.paths(|member| member.role == "rebuilding" || is_missed(self.array, member)),
            self.array.headline.clone(),
            if self.array.redundancy.losses_survived == 0 {
                "until the rebuild ends, the loss of another drive loses data"
            } else {
                "redundancy is being restored"
            },
            format!("wait; `stria status {word}` shows the progress, `stria speed {word} --min 200M` speeds it up at the cost of clients"),
            if self.is_on_files() {
                "do not delete, move or replace another image file, and do not restart the machine without need"
            } else {
                "do not pull or replace another drive, and do not restart the machine without need"
            },
        );
    }

    fn paused(&mut self) {
        let word = shell_word(self.name);
        let (means, action) = if has_target(self.array) && self.array.parts.missing_slots.is_empty() {
            ("sweeps are paused, so the rebuild does not go on", format!("`stria resume {word}`"))
        } else if self.has_spare() {
            ("sweeps are paused, so the spare is not being filled", format!("`stria resume {word}`"))
        } else {
            (
                "sweeps are paused, so the array takes no spare of the pool, and fills none",
                format!("`stria resume {word}`; if the pool of spares has none for it, `stria add {word} DRIVE`"),
            )
        };
        let (missed, what) = (self.missed(), self.headline());
        self.push(MatterKind::Paused, missed, what, means, action, "do not leave it paused overnight");
    }

    fn degraded(&mut self) {
        let word = shell_word(self.name);
        // A read-only array takes no drive; one whose replay ended early has a matter of its own for that.
        let is_set = self.is_read_only && self.array.condition.unreplayed.is_none();
        let first = if is_set { format!("`stria set {word} --read-only off`, then ") } else { String::new() };
        self.push(
            MatterKind::Degraded,
            self.missed(),
            self.headline(),
            match (self.array.redundancy.losses_survived, self.fills_one()) {
                (0, false) => "data is complete, and the loss of another drive loses data",
                (0, true) => "the loss of another drive loses data, and the rebuild does not fill every gap",
                (_, false) => "data is complete, with less redundancy",
                (_, true) => "data is complete, with less redundancy, and the rebuild does not fill every gap",
            },
            format!(
                "{first}`stria add {word} DRIVE`: the drive that was lost, if it works, or a new one of the same size; the rebuild begins by itself"
            ),
            if self.is_on_files() {
                "do not delete or move an image file that works: `stria status -v` shows those"
            } else {
                "do not pull a drive before you have compared its serial number: `stria status -v` shows those of drives that work"
            },
        );
    }

    fn ended_early(&mut self) {
        let (word, targets) = (shell_word(self.name), self.paths(|member| member.role == "rebuilding"));
        let fails: Vec<String> =
            targets.iter().map(|path| format!("`stria fail {word} {path_word}`", path_word = shell_word(path))).collect();
        self.push(
            MatterKind::Degraded,
            targets,
            self.array.headline.clone(),
            if self.array.redundancy.losses_survived == 0 {
                "the loss of another drive loses data, and the rebuild has ended before it was complete"
            } else {
                "data is complete, with less redundancy, and the rebuild has ended before it was complete"
            },
            format!(
                "`stria events {word}` gives the reason: remove it, then {} and `stria add {word} DRIVE`, which begins a new rebuild",
                fails.join(", ")
            ),
            "do not fail or pull another drive: it holds data that the new one lacks",
        );
    }

    fn lost(&mut self) {
        let word = shell_word(self.name);
        self.push(
            MatterKind::Failed,
            self.missed(),
            self.headline(),
            "more drives are lost than redundancy covers; reads and writes of what they held fail",
            format!(
                "stop clients, `stria stop {word}`, bring the lost drives back, and see `stria assemble DRIVE…` for what would start"
            ),
            "do not create, wipe or force anything on these drives: what they hold may be all that is left",
        );
    }

    fn read_only(&mut self) {
        let Some(reason) = self.array.condition.unreplayed.as_deref().filter(|_| self.has_own_redundancy()) else { return };
        let word = shell_word(self.name);
        self.push(
            MatterKind::ReadOnly,
            Vec::new(),
            format!("the array takes no writes: the replay after the last crash ended early ({reason})"),
            "clients can read and not write",
            format!(
                "remove the cause that is named, then stop the array and serve it again: `stria stop {word}`, `stria start {word}` (without the \
                 daemon: `stria serve`)"
            ),
            "do not create, wipe or force anything on its drives",
        );
    }

    fn superblock_refused(&mut self) {
        let Some(reason) = &self.array.condition.superblock_refused else { return };
        // The span reports it.
        if self.array.parts.spans.iter().any(|span| span.condition.superblock_refused.is_some()) {
            return;
        }
        self.push(
            MatterKind::SuperblockRefused,
            Vec::new(),
            format!("writes fail: superblocks cannot be written ({reason})"),
            "clients can read, and their writes and flushes fail",
            "remove the cause that is named; the update is tried again every second, and writes go on once the drives take it. If they do not: \
             copy off what you need, and replace the drive that refuses"
                .into(),
            "do not stop the array or restart the machine meanwhile: the superblocks are older than the array's state",
        );
    }

    fn mismatch(&mut self) {
        if !view::found_mismatch(self.array) || !self.has_own_redundancy() {
            return;
        }
        let word = shell_word(self.name);
        let mut drives = self.paths(|member| member.wrong_sectors > 0);
        // Named by the scrub, or every member may be the wrong one.
        let undecided = self.array.redundancy.undecided.clone();
        let is_named = !drives.is_empty() && undecided.is_none();
        let (what, first) = match &undecided {
            None => ("a scrub found redundancy that does not match".to_owned(), "the drives".to_owned()),
            Some(found) if found.drives.is_empty() => (
                format!("a scrub found data and parity that differ in {}", within(found, " of each member's data")),
                "the members".into(),
            ),
            Some(found) => {
                let names = found.drives.join(", ");
                (format!("a scrub found that the copies on {names} differ in {}", within(found, "")), names)
            }
        };
        let is_mirror = undecided.as_ref().is_some_and(|found| !found.drives.is_empty());
        let action = if is_named {
            format!(
                "look at what the drive reports of itself: `stria health`; then `stria scrub {word} --repair` rewrites it from the others"
            )
        } else {
            let kept = if is_mirror {
                "the first copy, and the others are lost"
            } else {
                "the data as it is, and makes parity match it"
            };
            format!(
                "first look at what {first} report: `stria health`, and compare the files there with a backup; a drive with errors is the likelier \
                 culprit: `stria fail {word} DRIVE` and `stria add {word} NEW` fill a new one from the others. `stria scrub {word} --repair` comes \
                 last: it keeps {kept}"
            )
        };
        drives.extend(undecided.into_iter().flat_map(|found| found.drives));
        self.push(
            MatterKind::Mismatch,
            drives,
            what,
            "a drive changed bytes, or a crash left a write half done; what clients read may be right or wrong",
            action,
            if is_named {
                "do not fail the drive for this alone: the rest of what it holds is redundancy"
            } else {
                "do not repair before you have looked at the drives' own errors: redundancy cannot tell the wrong side, so it may win"
            },
        );
    }

    fn silent_members(&mut self) {
        let (array, word, has_spare) = (self.array, shell_word(self.name), self.has_spare());
        let silent =
            || array.parts.members.iter().filter(|member| view::unanswered_ms(member).is_some() && !view::is_lost(member));
        let needed: Vec<&MemberView> = silent().filter(|member| member.role == "in sync").collect();
        // One after another they would be failed until data is lost.
        let are_too_many = needed.len() > array.redundancy.losses_survived.max(1);
        if are_too_many {
            let paths: Vec<String> = needed.iter().map(|member| member.path.clone()).collect();
            let longest = needed.iter().filter_map(|member| view::unanswered_ms(member)).max().unwrap_or(0);
            self.push(
                MatterKind::MembersSilent,
                paths.clone(),
                format!("{} have not answered for {}", paths.join(", "), size::show_duration(longest / 1000)),
                if paths.iter().all(|path| is_file(path)) {
                    "they are more than the array can do without; most likely they share the cause: the file system, the disk or the network below them"
                } else {
                    "they are more than the array can do without; most likely they share the cause: a controller, a cable, an enclosure, power"
                },
                "look at what they share; the array goes on when they answer".into(),
                "do not fail any of them, and do not kill the process: the array cannot do without so many",
            );
        }
        for member in silent().filter(|member| !are_too_many || member.role != "in sync") {
            if let Some(waiting_ms) = view::unanswered_ms(member) {
                let (path, path_word) = (&member.path, shell_word(&member.path));
                let then = match (can_lose(array, path), has_spare) {
                    (true, true) if member.role == "in sync" => {
                        format!("if it stays silent, `stria fail {word} {path_word}`: then a spare is filled")
                    }
                    (true, _) => format!("if it stays silent, `stria fail {word} {path_word}`"),
                    (false, _) => "then wait: the array cannot do without it, so do not fail it".to_owned(),
                };
                self.push(
                    MatterKind::MemberSilent,
                    vec![member.path.clone()],
                    format!("{} has not answered for {}", member.path, size::show_duration(waiting_ms / 1000)),
                    "other members are asked where redundancy allows it; writes wait for it",
                    match is_file(path) {
                        true => format!("look at the file system, the disk and the network below it; {then}"),
                        false => format!("look at the drive, its cable and its slot; {then}"),
                    },
                    "do not kill the process: the requests that clients wait for would fail, and the drive would still hang",
                );
            }
        }
    }

    fn members_without_space(&mut self) {
        let array = self.array;
        let drives: Vec<String> =
            array.parts.members.iter().filter(|member| member.no_room).map(|member| member.path.clone()).collect();
        // One full file system below all images is one matter.
        if !drives.is_empty() {
            let verb = if drives.len() == 1 { "has" } else { "have" };
            let what = format!("{} {verb} no space for writes", drives.join(", "));
            self.push(
                MatterKind::NoSpace,
                drives,
                what,
                "the file system or pool below an image is full; clients' writes fail",
                "make space there; writes go on by themselves".into(),
                "do not delete an image",
            );
        }
    }

    fn deleted_files(&mut self) {
        let (array, word) = (self.array, shell_word(self.name));
        for member in array.parts.members.iter().filter(|member| member.file_deleted) {
            let action = match view::is_redundant_itself(array) {
                true => {
                    let path_word = shell_word(&member.path);
                    format!("while the array runs, copy it to another drive: `stria replace {word} {path_word} NEW`")
                }
                false => "copy the data off while the array runs".to_owned(),
            };
            self.push(
                MatterKind::FileDeleted,
                vec![member.path.clone()],
                format!("the file of {} was deleted or replaced", member.path),
                "the array still reads and writes it, but no name leads to it: its bytes are lost when the array stops",
                action,
                "do not stop the array, and do not restart the service or the machine, before that is done",
            );
        }
    }

    fn drives_left_alone(&mut self) {
        for drive in &self.array.condition.left_alone {
            self.push(
                MatterKind::LeftAlone,
                vec![drive.path.clone()],
                drive.text.clone(),
                "the array runs without the drive; Stria overwrites no drive by itself",
                format!(
                    "do what is named above, if a step is; `stria examine {path_word}` shows what the drive carries",
                    path_word = shell_word(&drive.path)
                ),
                "do not add, wipe or force anything on it before you know whether it holds what the array lacks",
            );
        }
    }

    fn replaced_members(&mut self) {
        let (array, word) = (self.array, shell_word(self.name));
        for member in
            array.parts.members.iter().filter(|member| member.failure.is_some() && array.condition.health == HealthView::Optimal)
        {
            self.push(
                MatterKind::Replaced,
                vec![member.path.clone()],
                view::departure(array, member),
                "the array is optimal without it",
                format!(
                    "`stria remove {word} {path_word}`, then replace the drive and `stria add` the new one as a spare",
                    path_word = shell_word(&member.path)
                ),
                "do not reuse the drive elsewhere before it was tested",
            );
        }
    }
}

/// What a part of the configuration that does not hold means, what to do, and what not to do.
pub fn of_config(fault: &Condition) -> (&'static str, &'static str, &'static str) {
    match fault.component.as_deref() {
        Some(METRICS) => OF_METRICS,
        Some(API) => OF_API,
        Some(TOKENS) => OF_TOKENS,
        _ => OF_NBD,
    }
}

/// The port for metrics.
const OF_METRICS: (&str, &str, &str) = (
    "Prometheus gets no figures from this machine; the arrays and all other alarms work",
    "find the program that uses the port (`ss -ltnp`), and end it, or choose another port at `listen` in [metrics] and `systemctl restart stria`, which \
     is a pause for clients. A port that is free again is taken within seconds",
    "do not silence the alert on missing figures meanwhile: no other alert of Prometheus works without them",
);

/// The API over TCP.
const OF_API: (&str, &str, &str) = (
    "other machines cannot reach the API; the arrays are served, and the API on this machine",
    "repair or replace the file that is named, or free the port: the API is served over TCP within seconds. Or change the configuration, then `systemctl \
     reload stria`; `stria config check` says whether it is good",
    "do not pass the API on to other machines without TLS in its place: any client that reaches the port could read and write",
);

/// The file of tokens.
const OF_TOKENS: (&str, &str, &str) = (
    "no token, no client certificate and no session of a token is let in; the arrays are served, and users of the unix socket and accounts get in",
    "repair the line that is named: it is NAME view|operate|admin SHA256. Without a copy of it remove the line, and `stria token create` makes a new token. \
     The file counts again at once",
    "do not remove the whole file: every token in it would have to be made anew",
);

/// NBD over TCP.
const OF_NBD: (&str, &str, &str) = (
    "clients of NBD over TCP cannot connect; the arrays are served without it",
    "repair or replace the file that is named, or free the port: NBD is served over TCP within seconds. Or change the configuration, then `systemctl reload \
     stria`; `stria config check` says whether it is good",
    "do not open the port without TLS in its place: any client that reaches the port could read and write",
);

/// Names the link that members of an array share which were lost or fell silent together: only the alarm knows it.
pub fn name_link<'a>(array: &str, matters: &mut [Matter], alarms: impl Iterator<Item = &'a Condition> + Clone) {
    // The component of such an alarm is the link; that of others is a path.
    let is_of_link = |alarm: &&Condition| {
        alarm.array == array && alarm.component.as_deref().is_some_and(|component| !component.starts_with('/'))
    };
    for matter in matters {
        let event = match matter.kind {
            MatterKind::Degraded | MatterKind::Rebuilding | MatterKind::Failed | MatterKind::Paused => Event::Fail,
            MatterKind::MemberSilent | MatterKind::MembersSilent => Event::MemberSilent,
            MatterKind::NotServed
            | MatterKind::Silent
            | MatterKind::ReadOnly
            | MatterKind::SuperblockRefused
            | MatterKind::Mismatch
            | MatterKind::NoSpace
            | MatterKind::FileDeleted
            | MatterKind::Replaced
            | MatterKind::LeftAlone => continue,
        };
        if let Some(alarm) = alarms.clone().filter(is_of_link).find(|alarm| alarm.event == event) {
            (matter.reason, matter.said) = (Some(alarm.text.clone()), alarm.said.clone().map(ReasonSentence::Alarm));
        }
    }
}

/// Notes which matters of an array are acknowledged. `alarms`: those that are open, each with its acknowledgement.
pub fn note_acknowledged<'a>(
    array: &str,
    matters: &mut [Matter],
    alarms: impl Iterator<Item = (&'a Condition, Option<&'a Acknowledgement>)> + Clone,
) {
    for matter in matters {
        let is_about = |alarm: &Condition| {
            (alarm.array == array || alarm.array == matter.array) && matter.kind.events().contains(&alarm.event)
        };
        let about = alarms.clone().filter(|(alarm, _)| is_about(alarm)).map(|(_, known)| known);
        matter.acknowledged = Acknowledgement::of_all(about).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_served_is_explained_unless_it_was_stopped_on_purpose() {
        let array = |state, obstacle| AdoptedView {
            name: "tank".into(),
            uuid: String::new(),
            state,
            text: "lacks the drive of slot 1".into(),
            said: None,
            obstacle,
            drives: Vec::new(),
            again_in_s: None,
        };
        for (state, obstacle, wanted) in [
            (AdoptedState::Served, None, None),
            (AdoptedState::Stopped, None, None),
            (AdoptedState::Waiting, Some(Obstacle::Drives), Some("starts it without them")),
            (AdoptedState::Waiting, Some(Obstacle::TooFew), Some("attach the drives that are missing")),
            (AdoptedState::Waiting, Some(Obstacle::InUse), Some("end the other user")),
            (AdoptedState::Waiting, Some(Obstacle::Silent), Some("when it answers")),
            (AdoptedState::Waiting, Some(Obstacle::Group), Some("create the group")),
            (AdoptedState::Absent, None, Some("stria release tank")),
            (AdoptedState::Refused, Some(Obstacle::Other), Some("stria start tank")),
            (AdoptedState::Refused, Some(Obstacle::Group), Some("create the group")),
        ] {
            let matter = not_served(&array(state, obstacle));
            assert_eq!(matter.is_some(), wanted.is_some(), "{state:?}");
            assert!(matter.is_none_or(|matter| matter.action.contains(wanted.unwrap_or_default())), "{state:?}");
        }
    }

    /// The kinds and urgencies for an array of three members with these changes to its view.
    fn kinds(changes: serde_json::Value) -> Vec<(MatterKind, Urgency)> {
        matters(changes).into_iter().map(|matter| (matter.kind, matter.urgency)).collect()
    }

    fn matters(changes: serde_json::Value) -> Vec<Matter> {
        let member = |slot: usize| {
            serde_json::json!({"slot": slot, "path": format!("/dev/{slot}"), "role": "in sync", "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let mut view = serde_json::json!({"name": "tank", "full_name": "box:tank", "uuid": "", "level": "5", "layout": "", "size_bytes": 0,
            "health": "optimal", "state": "", "clean": true, "read_only": false, "trim_zeroes": false, "paused": false,
            "members": [member(0), member(1), member(2)], "missing_slots": [], "spans": [], "resync_pending": false,
            "mismatch_repaired": false, "losses_survived": 1, "headline": "", "power_cut": "", "in_flight": 0, "events": 0, "created_s": 0,
            "exports": [], "attached": [], "vhost_user": [], "clients": [], "lanes": []});
        for (pointer, value) in changes.as_object().expect("pointers and values") {
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            view.pointer_mut(parent).expect("it is there")[name] = value.clone();
        }
        of_array(&serde_json::from_value(view).expect("a view"))
    }

    #[test]
    fn each_state_has_its_matter_and_its_urgency() {
        use MatterKind::{
            Degraded, Failed, FileDeleted, MemberSilent, Mismatch, NoSpace, Paused, ReadOnly, Rebuilding, Replaced, Silent,
            SuperblockRefused,
        };
        use Urgency::{Critical, Notice, Warning};
        let sweep = |kind: &str| serde_json::json!({"kind": kind, "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0});
        let degraded = |left: usize, more: serde_json::Value| {
            let mut changes = serde_json::json!({"/health": "degraded", "/losses_survived": left, "/members/2/role": "failed", "/members/2/failure": "I/O error"});
            changes.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            kinds(changes)
        };
        let json = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(kinds(json("{}")), []);
        assert_eq!(degraded(1, json("{}")), [(Degraded, Critical)]);
        let filled = |kind: &str, missing: &[usize]| serde_json::json!({"/sweep": sweep(kind), "/members/1/role": "rebuilding", "/missing_slots": missing});
        assert_eq!(degraded(1, filled("rebuild", &[])), [(Rebuilding, Warning)]);
        assert_eq!(degraded(0, filled("rebuild", &[])), [(Rebuilding, Critical)]);
        assert_eq!(degraded(0, filled("resync", &[])), [(Rebuilding, Critical)], "the rebuild comes after it");
        assert_eq!(degraded(0, serde_json::json!({"/sweep": sweep("scrub")})), [(Degraded, Critical)]);
        // Nobody goes home while a gap has no drive: RAID 6 has lost two and has one spare, a replacement is copied, a resync
        // runs.
        assert_eq!(degraded(1, filled("rebuild", &[2])), [(Degraded, Critical)]);
        let copied = serde_json::json!({"/sweep": sweep("rebuild"), "/members/1/role": "replacing", "/missing_slots": [2]});
        assert_eq!(degraded(0, copied), [(Degraded, Critical)]);
        assert_eq!(degraded(0, serde_json::json!({"/sweep": sweep("resync"), "/missing_slots": [2]})), [(Degraded, Critical)]);
        // A measurement holds the rebuild for seconds; a pause may last.
        let held = |name: &str| serde_json::json!({"/members/1/role": "rebuilding", name: true});
        assert_eq!(degraded(0, held("/measuring")), [(Rebuilding, Critical)]);
        assert_eq!(degraded(0, held("/paused")), [(Paused, Critical)]);
        // A pause matters where redundancy is lost: a spare waits for its end, the array's or one of the pool.
        assert_eq!(degraded(0, json(r#"{"/paused": true}"#)), [(Paused, Critical)]);
        assert_eq!(degraded(0, json(r#"{"/paused": true, "/members/1/role": "spare"}"#)), [(Paused, Critical)]);
        assert_eq!(kinds(json(r#"{"/paused": true, "/members/1/role": "spare"}"#)), []);
        assert_eq!(kinds(json(r#"{"/health": "failed", "/losses_survived": 0}"#)), [(Failed, Critical)]);
        assert_eq!(kinds(json(r#"{"/members/2/role": "failed", "/members/2/failure": "I/O error"}"#)), [(Replaced, Notice)]);
        assert_eq!(kinds(json(r#"{"/unreplayed": "no space", "/read_only": true}"#)), [(ReadOnly, Critical)]);
        let refused = json(r#"{"/superblock_refused": "read-only", "/health": "degraded", "/losses_survived": 0}"#);
        assert_eq!(kinds(refused), [(Degraded, Critical), (SuperblockRefused, Critical)]);
        assert_eq!(kinds(json(r#"{"/mismatch_sectors": 8}"#)), [(Mismatch, Warning)]);
        assert_eq!(kinds(json(r#"{"/mismatch_sectors": 8, "/mismatch_repaired": true}"#)), []);
        assert_eq!(kinds(json(r#"{"/members/0/no_room": true}"#)), [(NoSpace, Critical)]);
        assert_eq!(kinds(json(r#"{"/members/0/file_deleted": true}"#)), [(FileDeleted, Critical)]);
        let alone = matters(json(r#"{"/members/0/file_deleted": true, "/level": "0", "/losses_survived": 0}"#));
        assert_eq!(alone[0].action, "copy the data off while the array runs", "nothing can be replaced there");
        assert_eq!(kinds(json(r#"{"/members/0/waiting_ms": 4999}"#)), []);
        assert_eq!(kinds(json(r#"{"/members/0/waiting_ms": 5000}"#)), [(MemberSilent, Critical)]);
        assert_eq!(kinds(json(r#"{"/members/0/waiting_ms": 9000, "/silent_s": 9}"#)), [(Silent, Critical)]);
        let silent = json(
            r#"{"/silent_s": 9, "/health": "degraded", "/losses_survived": 0, "/missing_slots": [2], "/members/1/no_room": true}"#,
        );
        assert_eq!(kinds(silent), [(Silent, Critical)], "all else was so before");
        // The name of a lane may have any words.
        let before = matters(serde_json::json!({"/silent_s": 9, "/headline_before": "clean",
            "/headline": "does not answer (pid 7, lane x; before that: y), for 9 s now; before that: clean"}));
        assert_eq!(before[0].reason.as_deref(), Some("before that: clean"));
    }

    #[test]
    fn silent_members_that_the_array_cannot_do_without_are_one_matter_and_none_is_failed() {
        let silent_beside = |left: usize| {
            let changes =
                serde_json::json!({"/members/0/waiting_ms": 9000, "/members/2/waiting_ms": 7000, "/losses_survived": left});
            matters(changes)
        };
        let all = silent_beside(1);
        assert_eq!(all.iter().map(|matter| matter.kind).collect::<Vec<_>>(), [MatterKind::MembersSilent]);
        assert_eq!(all[0].drives, ["/dev/0", "/dev/2"]);
        assert!(!all[0].action.contains("stria fail") && all[0].means.contains("controller"), "{all:?}");
        let each = silent_beside(2);
        assert!(
            each.iter().all(|matter| matter.kind == MatterKind::MemberSilent && matter.action.contains("stria fail")),
            "{each:?}"
        );
    }

    #[test]
    fn only_drives_whose_slot_nobody_holds_are_named() {
        let member = |slot: usize, path: &str, role: &str, failure: Option<&str>| {
            let cut = |before_bytes| Some(ErrorSentence::CutShort { before_bytes, now_bytes: 0 });
            let said = match failure {
                Some("replaced") => Some(ErrorSentence::ReplacedByAnother {}),
                Some(text) if text.contains("from 8192 to") => cut(8192),
                Some(text) if text.contains("from 4096 to") => cut(4096),
                _ => None,
            };
            serde_json::json!({"slot": slot, "path": path, "role": role, "failure": failure, "failure_said": said, "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        // A and D were lost long ago, and others hold their slots. C has failed now.
        let (a, d) = (member(0, "/a", "failed", Some("replaced")), member(1, "/d", "failed", Some("medium error")));
        let (b, e) = (member(0, "/b", "in sync", None), member(1, "/e", "in sync", None));
        let members = [a.clone(), d, b, e, member(2, "/c", "failed", Some("I/O error"))];
        let lost = matters(
            serde_json::json!({"/health": "degraded", "/losses_survived": 0, "/missing_slots": [2], "/members": members}),
        );
        assert_eq!((lost[0].drives.as_slice(), lost[0].reason.as_deref()), (&["/c".to_owned()][..], Some("I/O error")));
        // The replacement has failed as well: its predecessor was not lost.
        let again = matters(
            serde_json::json!({"/health": "degraded", "/missing_slots": [0], "/members": [a, member(0, "/b", "failed", Some("gone"))]}),
        );
        assert_eq!(again[0].drives, ["/b"]);
        // RAID 5 loses a second drive, which keeps its slot and its role.
        let members =
            [member(0, "/a", "in sync", None), member(1, "/b", "in sync", Some("gone")), member(2, "/c", "failed", Some("bad"))];
        let failed =
            matters(serde_json::json!({"/health": "failed", "/losses_survived": 0, "/missing_slots": [2], "/members": members}));
        assert_eq!((failed[0].kind, failed[0].drives.as_slice()), (MatterKind::Failed, &["/b".to_owned(), "/c".to_owned()][..]));
        assert_eq!((failed[0].reason.as_deref(), &failed[0].said), (Some("/b: gone; /c: bad"), &None));
        // Of several reasons each has its sentence, if one is known.
        let [longer, cut] = ["8192", "4096"].map(|before| format!("it was cut short while in use, from {before} to 0 bytes"));
        let members = [member(0, "/a", "failed", Some(&longer)), member(1, "/b", "failed", Some(&cut))];
        let two = matters(serde_json::json!({"/health": "degraded", "/missing_slots": [0, 1], "/members": members}));
        let Some(ReasonSentence::Error(ErrorSentence::MembersDropped { dropped })) = &two[0].said else { panic!("{two:?}") };
        let causes: Vec<ErrorSentence> = dropped.0.iter().flat_map(|member| member.cause.0.as_deref().cloned()).collect();
        assert_eq!(causes, [8192, 4096].map(|before_bytes| ErrorSentence::CutShort { before_bytes, now_bytes: 0 }));
        assert_eq!(two[0].reason, Some(format!("/a: {longer}; /b: {cut}")));
    }

    /// Nothing of them is pulled, and they have no cable.
    #[test]
    fn image_files_have_words_of_their_own() {
        let words = |changes: serde_json::Value| {
            let mut all = matters(changes);
            all.drain(..).map(|matter| format!("{} {} {}", matter.means, matter.action, matter.avoid)).collect::<String>()
        };
        let paths = serde_json::json!({"/members/0/path": "/i/0", "/members/1/path": "/i/1", "/members/2/path": "/i/2"});
        let with = |changes: serde_json::Value| {
            let mut all = paths.clone();
            all.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
            words(all)
        };
        let changes = [
            serde_json::json!({"/health": "degraded", "/losses_survived": 0, "/missing_slots": [2], "/members/2/role": "failed"}),
            serde_json::json!({"/health": "degraded", "/members/2/role": "rebuilding",
                "/sweep": {"kind": "rebuild", "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0}}),
            serde_json::json!({"/members/0/waiting_ms": 9000}),
            serde_json::json!({"/members/0/waiting_ms": 9000, "/members/1/waiting_ms": 9000}),
        ];
        let is_of_disks = |text: &str| ["pull", "cable", "serial", "enclosure"].iter().any(|word| text.contains(word));
        for one in changes {
            assert!(is_of_disks(&words(one.clone())) && !is_of_disks(&with(one.clone())), "{}", with(one));
        }
    }

    /// Without a culprit a repair comes last; with one it is the way out.
    #[test]
    fn a_mismatch_names_its_place_and_puts_a_blind_repair_last() {
        let copies = serde_json::json!({"drives": ["/dev/1", "/dev/0"], "sectors": 8, "first_sector": 64, "last_sector": 71});
        let of_copies = matters(serde_json::json!({"/level": "1", "/mismatch_sectors": 8, "/undecided": copies}));
        assert_eq!(of_copies[0].what, "a scrub found that the copies on /dev/1, /dev/0 differ in 8 sectors, from 64 to 71");
        assert_eq!(of_copies[0].drives, ["/dev/1", "/dev/0"]);
        assert!(of_copies[0].action.starts_with("first look at what /dev/1, /dev/0 report: `stria health`"), "{of_copies:?}");
        assert!(of_copies[0].action.ends_with("comes last: it keeps the first copy, and the others are lost"), "{of_copies:?}");
        let parity = serde_json::json!({"drives": [], "sectors": 1, "first_sector": 64, "last_sector": 64});
        let of_parity = matters(serde_json::json!({"/mismatch_sectors": 1, "/undecided": parity}));
        assert_eq!(
            of_parity[0].what,
            "a scrub found data and parity that differ in 1 sector, from 64 to 64 of each member's data"
        );
        assert!(of_parity[0].drives.is_empty() && of_parity[0].action.contains("makes parity match it"), "{of_parity:?}");
        let named = matters(serde_json::json!({"/level": "6", "/mismatch_sectors": 8, "/members/1/wrong_sectors": 8}));
        assert!(named[0].drives == ["/dev/1"] && named[0].action.contains("rewrites it from the others"), "{named:?}");
    }

    #[test]
    fn a_silent_member_is_failed_only_if_the_array_can_do_without_it() {
        let action = |changes: &str| {
            let mut changes: serde_json::Value = serde_json::from_str(changes).expect("JSON");
            changes["/members/0/waiting_ms"] = 9000.into();
            matters(changes).pop().map(|matter| matter.action).unwrap_or_default()
        };
        let spare = action(r#"{"/members/1/role": "spare"}"#);
        assert!(spare.contains("stria fail tank /dev/0") && spare.contains("spare"), "{spare}");
        let none = action("{}");
        assert!(none.contains("stria fail tank /dev/0") && !none.contains("spare"), "{none}");
        let bare = action(r#"{"/losses_survived": 0, "/members/0/needed": true, "/members/1/role": "spare"}"#);
        assert!(!bare.contains("stria fail") && bare.contains("wait"), "{bare}");
        let other_pair = action(r#"{"/losses_survived": 0}"#);
        assert!(
            other_pair.contains("stria fail tank /dev/0"),
            "its copy is there, and that of another member is not: {other_pair}"
        );
        let filled = action(r#"{"/losses_survived": 0, "/members/0/role": "rebuilding"}"#);
        assert!(filled.contains("stria fail tank /dev/0"), "what it holds is elsewhere: {filled}");
    }

    #[test]
    fn a_rebuild_that_ended_early_asks_for_no_drive_in_a_slot_that_has_one() {
        let ended = matters(serde_json::json!({"/health": "degraded", "/members/2/role": "rebuilding"}));
        assert_eq!((ended[0].kind, ended[0].drives.as_slice()), (MatterKind::Degraded, &["/dev/2".to_owned()][..]));
        assert!(ended[0].means.contains("has ended") && ended[0].action.contains("stria fail tank /dev/2"), "{ended:?}");
        let sweep =
            serde_json::json!({"kind": "scrub", "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0});
        let scrubbed = matters(serde_json::json!({"/health": "degraded", "/members/2/role": "rebuilding", "/sweep": sweep}));
        assert_eq!(scrubbed, ended, "a scrub fills nothing");
        // Another gap takes a drive, and no rebuild runs that could fill one.
        let gap = matters(serde_json::json!({"/health": "degraded", "/members/2/role": "rebuilding", "/missing_slots": [3]}));
        assert!(gap[0].action.starts_with("`stria add tank DRIVE`") && !gap[0].means.contains("the rebuild"), "{gap:?}");
    }

    #[test]
    fn the_last_drive_of_an_empty_slot_is_named_with_its_place() {
        let last = serde_json::json!([{"slot": 2, "path": "/dev/sdc", "serial": "S2", "place": "slot 7 of enclosure 3"}]);
        let degraded = matters(
            serde_json::json!({"/health": "degraded", "/headline": "DEGRADED: slot 2 missing", "/missing_slots": [2], "/last_drives": last}),
        );
        let what = "DEGRADED: slot 2 missing; slot 2 last had /dev/sdc (serial S2, slot 7 of enclosure 3)";
        assert_eq!(degraded[0].what, what);
    }

    #[test]
    fn a_pause_that_keeps_spares_of_the_pool_away_is_named() {
        let paused = matters(serde_json::json!({"/health": "degraded", "/paused": true, "/members/2/role": "failed"}));
        assert!(paused[0].means.contains("pool") && paused[0].action.contains("stria resume tank"), "{paused:?}");
    }

    #[test]
    fn members_lost_on_one_link_are_said_to_be() {
        let degraded = |kind| Matter {
            array: "tank".into(),
            kind,
            urgency: Urgency::Critical,
            what: "2 members are missing".into(),
            means: String::new(),
            action: String::new(),
            avoid: String::new(),
            drives: vec!["/dev/a".into(), "/dev/b".into()],
            reason: Some("I/O error".into()),
            said: None,
            acknowledged: None,
            rank: 1,
        };
        let alarm = |event, component: &str| Condition {
            event,
            array: "tank".into(),
            component: Some(component.into()),
            text: component.into(),
            said: None,
        };
        let alarms =
            [alarm(Event::Fail, "/dev/c"), alarm(Event::Fail, "0000:3a:00.0"), alarm(Event::MemberSilent, "0000:3b:00.0")];
        let reason = |array, kind| {
            let mut matters = [degraded(kind)];
            name_link(array, &mut matters, alarms.iter());
            matters[0].reason.clone().expect("a reason")
        };
        assert_eq!(reason("tank", MatterKind::Failed), "0000:3a:00.0");
        assert_eq!(reason("tank", MatterKind::MemberSilent), "0000:3b:00.0");
        assert_eq!(
            (reason("tank", MatterKind::NoSpace), reason("pool", MatterKind::Failed)),
            ("I/O error".into(), "I/O error".into())
        );
    }
}
