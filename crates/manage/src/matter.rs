//! Matters: what is wrong with an array, what it means, what to do, and what not to do now (`stria explain`, the web page).
//!
//! The rules by which a matter exists are here alone; the page only words them in the reader's language.

use crate::api::{AdoptedState, AdoptedView, ArrayView, HealthView, MemberView};
use crate::view;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stria_terminal::size;

/// The urgency of a matter; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Nothing is wrong.
    Well,
    /// Nothing is at risk, and something remains to be done.
    Notice,
    /// Somebody should look soon.
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
    /// Nobody answers.
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
    /// A member leaves requests unanswered.
    MemberSilent,
    /// A scrub found redundancy that does not match.
    Mismatch,
    /// A member has no space.
    NoSpace,
    /// A failed member was replaced, and is still listed.
    Replaced,
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
}

impl MatterKind {
    /// The urgency. `is_bare`: the next failure loses data.
    fn urgency(self, is_bare: bool) -> Urgency {
        match self {
            Self::Replaced => Urgency::Notice,
            Self::Rebuilding if !is_bare => Urgency::Warning,
            Self::Mismatch => Urgency::Warning,
            Self::NotServed
            | Self::Silent
            | Self::Degraded
            | Self::Rebuilding
            | Self::Failed
            | Self::Paused
            | Self::ReadOnly
            | Self::MemberSilent
            | Self::NoSpace => Urgency::Critical,
        }
    }
}

/// The matter of an array of the daemon's that is not served, unless it was stopped on purpose.
pub fn not_served(array: &AdoptedView) -> Option<Matter> {
    let name = &array.name;
    let (means, action, avoid) = match array.state {
        AdoptedState::Served | AdoptedState::Stopped => return None,
        AdoptedState::Absent => (
            "the daemon sees none of the array's drives, so its data cannot be reached",
            format!(
                "check cables, power and controllers; `stria examine DRIVE` says what a drive carries. If it is gone for good: `stria release {name}`"
            ),
            "do not create an array on drives that you take for empty: examine them first",
        ),
        AdoptedState::Waiting => (
            "clients cannot reach the array until it starts",
            format!("attach the drives that are named; `stria start {name}` starts it without them, if enough are here"),
            "do not use --force before the missing drives are known to be lost: they may hold the newest data",
        ),
        AdoptedState::Refused => (
            "clients cannot reach the array",
            format!("remove the cause that is named, then `stria start {name}`"),
            "do not end the other user of a drive by force: it may be writing",
        ),
    };
    Some(Matter {
        array: name.clone(),
        kind: MatterKind::NotServed,
        urgency: MatterKind::NotServed.urgency(false),
        what: format!("not served: {}", array.text),
        means: means.into(),
        action,
        avoid: avoid.into(),
        drives: Vec::new(),
        reason: Some(array.text.clone()),
    })
}

/// The matters of an array that is served, and of its spans.
pub fn of_array(array: &ArrayView) -> Vec<Matter> {
    let mut matters = Vec::new();
    collect(array, &array.name, array.paused, &mut matters);
    matters
}

/// True if the array loses no data when the member of this path is failed.
pub fn can_lose(array: &ArrayView, path: &str) -> bool {
    let own = array.members.iter().any(|member| member.path == path && (member.role != "in sync" || array.losses_survived > 0));
    own || array.spans.iter().any(|span| can_lose(span, path))
}

/// The matters of an array and its spans. `name`: the array's, which commands take; `is_paused`: its sweeps are.
fn collect(array: &ArrayView, name: &str, is_paused: bool, matters: &mut Vec<Matter>) {
    let mut of_this = Collector { array, name, is_paused, matters };
    of_this.silent_array();
    of_this.redundancy();
    of_this.read_only();
    of_this.mismatch();
    of_this.silent_members();
    of_this.members_without_space();
    of_this.replaced_members();
    array.spans.iter().for_each(|span| collect(span, name, is_paused, matters));
}

/// Collects the matters of one array or span.
struct Collector<'a> {
    array: &'a ArrayView,
    name: &'a str,
    is_paused: bool,
    matters: &'a mut Vec<Matter>,
}

impl Collector<'_> {
    fn push(&mut self, kind: MatterKind, drives: Vec<String>, what: String, means: &str, action: String, avoid: &str) {
        let array = self.array;
        let failure = |path: &String| array.members.iter().find(|member| member.path == *path)?.failure.clone();
        let reason =
            drives.iter().find_map(failure).or_else(|| array.unreplayed.clone().filter(|_| kind == MatterKind::ReadOnly));
        let (urgency, means, avoid) = (kind.urgency(array.losses_survived == 0), means.into(), avoid.into());
        self.matters.push(Matter { array: array.name.clone(), kind, urgency, what, means, action, avoid, drives, reason });
    }

    fn paths(&self, is_meant: fn(&MemberView) -> bool) -> Vec<String> {
        self.array.members.iter().filter(|member| is_meant(member)).map(|member| member.path.clone()).collect()
    }

    fn failed(&self) -> Vec<String> {
        self.paths(|member| member.failure.is_some())
    }

    /// False for an array of spans: each span reports its own redundancy.
    fn has_own_redundancy(&self) -> bool {
        self.array.spans.is_empty()
    }

    fn has_spare(&self) -> bool {
        self.array.members.iter().any(|member| member.role == "spare")
    }

    fn silent_array(&mut self) {
        let Some(seconds) = self.array.silent_s else { return };
        self.push(
            MatterKind::Silent,
            self.paths(|member| member.waiting_ms.is_some()),
            format!("the array has not answered for {seconds} s"),
            "a lane waits, most likely for a drive that hangs; requests that need it wait as well",
            "look at the drives that have requests to answer in the log; a drive that comes back lets everything go on".into(),
            "do not kill the process: what clients wait for would be lost to them, and the drive would still hang",
        );
    }

    fn redundancy(&mut self) {
        // Nothing is known of the members of an array that has not answered yet.
        if !self.has_own_redundancy() || view::is_unseen(self.array) {
            return;
        }
        let is_rebuilding = self.array.sweep.as_ref().is_some_and(|sweep| sweep.kind == "rebuild");
        match self.array.health {
            HealthView::Optimal => {}
            HealthView::Degraded if is_rebuilding => self.rebuilding(),
            HealthView::Degraded if self.is_paused => self.paused(),
            HealthView::Degraded => self.degraded(),
            HealthView::Failed => self.lost(),
        }
    }

    fn rebuilding(&mut self) {
        let name = self.name;
        self.push(
            MatterKind::Rebuilding,
            self.paths(|member| member.failure.is_some() || member.role == "rebuilding"),
            self.array.headline.clone(),
            if self.array.losses_survived == 0 {
                "until the rebuild ends, the loss of another drive loses data"
            } else {
                "redundancy is being restored"
            },
            format!("wait; `stria status {name}` shows the progress, `stria speed {name} --min 200M` gives the rebuild more"),
            "do not pull or replace another drive, and do not restart the machine without need",
        );
    }

    fn paused(&mut self) {
        let name = self.name;
        let (means, action) = if self.has_spare() {
            ("sweeps are paused, so the spare is not being filled", format!("`stria resume {name}`"))
        } else {
            (
                "sweeps are paused, so the array takes no spare of the pool, and fills none",
                format!("`stria resume {name}`; if the pool of spares has none for it, `stria add {name} DRIVE`"),
            )
        };
        let (failed, what) = (self.failed(), self.array.headline.clone());
        self.push(MatterKind::Paused, failed, what, means, action, "do not leave it paused over night");
    }

    fn degraded(&mut self) {
        let name = self.name;
        self.push(
            MatterKind::Degraded,
            self.failed(),
            self.array.headline.clone(),
            if self.array.losses_survived == 0 {
                "data is complete, and the loss of another drive loses data"
            } else {
                "data is complete, with less redundancy"
            },
            format!(
                "`stria add {name} DRIVE`: the drive that was lost, if it works, or a new one of the same size; the rebuild begins by itself"
            ),
            "do not pull a drive before you have compared its serial number: `stria status -v` shows those of drives that work",
        );
    }

    fn lost(&mut self) {
        let name = self.name;
        self.push(
            MatterKind::Failed,
            self.failed(),
            self.array.headline.clone(),
            "more drives are lost than redundancy covers; reads and writes of what they held fail",
            format!(
                "stop clients, `stria stop {name}`, bring the lost drives back, and see `stria assemble DRIVE…` for what would start"
            ),
            "do not create, wipe or force anything on these drives: what they hold may be all that is left",
        );
    }

    fn read_only(&mut self) {
        let Some(reason) = self.array.unreplayed.as_deref().filter(|_| self.has_own_redundancy()) else { return };
        let name = self.name;
        self.push(
            MatterKind::ReadOnly,
            Vec::new(),
            format!("the array takes no writes: the replay after the last crash ended early ({reason})"),
            "clients can read and not write",
            format!("remove the cause that is named, then `stria stop {name}` and `stria start {name}`"),
            "do not create, wipe or force anything on its drives",
        );
    }

    fn mismatch(&mut self) {
        if !view::found_mismatch(self.array) || !self.has_own_redundancy() {
            return;
        }
        let name = self.name;
        self.push(
            MatterKind::Mismatch,
            self.paths(|member| member.wrong_sectors > 0),
            "a scrub found redundancy that does not match".into(),
            "a drive changed bytes, or a crash left a write half done; what clients read may be right or wrong",
            format!("`stria status -v {name}` names the member where redundancy can; then `stria scrub {name} --repair`"),
            "do not repair on one parity or two copies before you have looked at the drives' own error counts: the wrong side may win",
        );
    }

    fn silent_members(&mut self) {
        let (array, name, has_spare) = (self.array, self.name, self.has_spare());
        // What is known of the members of a silent array is old.
        for member in array.members.iter().filter(|_| array.silent_s.is_none()) {
            if let Some(waiting_ms) = view::unanswered_ms(member) {
                let path = &member.path;
                let then = match (can_lose(array, path), has_spare) {
                    (true, true) if member.role == "in sync" => {
                        format!("if it stays silent, `stria fail {name} {path}`: then a spare is filled")
                    }
                    (true, _) => format!("if it stays silent, `stria fail {name} {path}`"),
                    (false, _) => "then wait: the array cannot do without it, so do not fail it".to_owned(),
                };
                self.push(
                    MatterKind::MemberSilent,
                    vec![member.path.clone()],
                    format!("{} has not answered for {}", member.path, size::show_duration(waiting_ms / 1000)),
                    "other members are asked where redundancy allows it; writes wait for it",
                    format!("look at the drive, its cable and its slot; {then}"),
                    "do not kill the process: what clients wait for would be lost to them, and the drive would still hang",
                );
            }
        }
    }

    fn members_without_space(&mut self) {
        let array = self.array;
        for member in array.members.iter().filter(|member| member.no_room) {
            self.push(
                MatterKind::NoSpace,
                vec![member.path.clone()],
                format!("{} has no space for writes", member.path),
                "the file system or pool below an image is full; clients' writes fail",
                "make space there; writes go on by themselves".into(),
                "do not delete the image",
            );
        }
    }

    fn replaced_members(&mut self) {
        let (array, name) = (self.array, self.name);
        for member in array.members.iter().filter(|member| member.failure.is_some() && array.health == HealthView::Optimal) {
            self.push(
                MatterKind::Replaced,
                vec![member.path.clone()],
                view::departure(array, member),
                "the array is optimal without it",
                format!("`stria remove {name} {}`, then replace the drive and `stria add` the new one as a spare", member.path),
                "do not reuse the drive elsewhere before it was tested",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_served_is_explained_unless_it_was_stopped_on_purpose() {
        let array = |state| AdoptedView {
            name: "tank".into(),
            uuid: String::new(),
            state,
            text: "lacks the drive of slot 1".into(),
            drives: Vec::new(),
            again_in_s: None,
        };
        for (state, wanted) in [
            (AdoptedState::Served, None),
            (AdoptedState::Stopped, None),
            (AdoptedState::Waiting, Some("stria start tank")),
            (AdoptedState::Absent, Some("stria release tank")),
            (AdoptedState::Refused, Some("stria start tank")),
        ] {
            let matter = not_served(&array(state));
            assert_eq!(matter.is_some(), wanted.is_some(), "{state:?}");
            assert!(matter.is_none_or(|matter| matter.action.contains(wanted.unwrap_or_default())), "{state:?}");
        }
    }

    /// The kinds and urgencies for an array of three members with these changes to its view.
    fn told(changes: serde_json::Value) -> Vec<(MatterKind, Urgency)> {
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
        use MatterKind::{Degraded, Failed, MemberSilent, Mismatch, NoSpace, Paused, ReadOnly, Rebuilding, Replaced, Silent};
        use Urgency::{Critical, Notice, Warning};
        let sweep = |kind: &str| serde_json::json!({"kind": kind, "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0});
        let degraded = |left: usize, more: serde_json::Value| {
            let mut changes = serde_json::json!({"/health": "degraded", "/losses_survived": left, "/members/2/role": "failed", "/members/2/failure": "I/O error"});
            changes.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            told(changes)
        };
        let json = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(told(json("{}")), []);
        assert_eq!(degraded(1, json("{}")), [(Degraded, Critical)]);
        assert_eq!(degraded(1, serde_json::json!({"/sweep": sweep("rebuild")})), [(Rebuilding, Warning)]);
        assert_eq!(degraded(0, serde_json::json!({"/sweep": sweep("rebuild")})), [(Rebuilding, Critical)]);
        assert_eq!(degraded(0, serde_json::json!({"/sweep": sweep("scrub")})), [(Degraded, Critical)]);
        // A pause matters where redundancy is lost: a spare waits for its end, the array's or one of the pool.
        assert_eq!(degraded(0, json(r#"{"/paused": true}"#)), [(Paused, Critical)]);
        assert_eq!(degraded(0, json(r#"{"/paused": true, "/members/1/role": "spare"}"#)), [(Paused, Critical)]);
        assert_eq!(told(json(r#"{"/paused": true, "/members/1/role": "spare"}"#)), []);
        assert_eq!(told(json(r#"{"/health": "failed", "/losses_survived": 0}"#)), [(Failed, Critical)]);
        assert_eq!(told(json(r#"{"/members/2/role": "failed", "/members/2/failure": "I/O error"}"#)), [(Replaced, Notice)]);
        assert_eq!(told(json(r#"{"/unreplayed": "no space", "/read_only": true}"#)), [(ReadOnly, Critical)]);
        assert_eq!(told(json(r#"{"/mismatch_sectors": 8}"#)), [(Mismatch, Warning)]);
        assert_eq!(told(json(r#"{"/mismatch_sectors": 8, "/mismatch_repaired": true}"#)), []);
        assert_eq!(told(json(r#"{"/members/0/no_room": true}"#)), [(NoSpace, Critical)]);
        assert_eq!(told(json(r#"{"/members/0/waiting_ms": 4999}"#)), []);
        assert_eq!(told(json(r#"{"/members/0/waiting_ms": 5000}"#)), [(MemberSilent, Critical)]);
        assert_eq!(told(json(r#"{"/members/0/waiting_ms": 9000, "/silent_s": 9}"#)), [(Silent, Critical)]);
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
        let bare = action(r#"{"/losses_survived": 0, "/members/1/role": "spare"}"#);
        assert!(!bare.contains("stria fail") && bare.contains("wait"), "{bare}");
        let filled = action(r#"{"/losses_survived": 0, "/members/0/role": "rebuilding"}"#);
        assert!(filled.contains("stria fail tank /dev/0"), "what it holds is elsewhere: {filled}");
    }

    #[test]
    fn a_pause_that_keeps_spares_of_the_pool_away_is_named() {
        let paused = matters(serde_json::json!({"/health": "degraded", "/paused": true, "/members/2/role": "failed"}));
        assert!(paused[0].means.contains("pool") && paused[0].action.contains("stria resume tank"), "{paused:?}");
    }
}
