//! Matters: what is wrong with an array, what it means, what to do, and what not to do now (`stria explain`, the web page).

use crate::api::{AdoptedState, AdoptedView, ArrayView, HealthView, MemberView};
use crate::view;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Sweeps are paused while the array is degraded.
    Paused,
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
        what: format!("not served: {}", array.text),
        means: means.into(),
        action,
        avoid: avoid.into(),
        drives: Vec::new(),
    })
}

/// The matters of an array that is served, and of its spans.
pub fn of_array(array: &ArrayView) -> Vec<Matter> {
    let mut matters = Vec::new();
    collect(array, &array.name, &mut matters);
    matters
}

/// The matters of an array and its spans. `name`: the array's, which commands take.
fn collect(array: &ArrayView, name: &str, matters: &mut Vec<Matter>) {
    let mut say = |kind, drives: Vec<String>, what: String, means: &str, action: String, avoid: &str| {
        let (array, means, avoid) = (array.name.clone(), means.into(), avoid.into());
        matters.push(Matter { array, kind, what, means, action, avoid, drives });
    };
    let paths = |is_meant: fn(&MemberView) -> bool| {
        array.members.iter().filter(|member| is_meant(member)).map(|member| member.path.clone()).collect::<Vec<_>>()
    };
    let failed = || paths(|member| member.failure.is_some());
    let rebuilds = array.sweep.as_ref().is_some_and(|sweep| sweep.kind == "rebuild");
    let left = array.losses_survived;
    if let Some(seconds) = array.silent_s {
        say(
            MatterKind::Silent,
            paths(|member| member.waiting_ms.is_some()),
            format!("the array has not answered for {seconds} s"),
            "a lane waits, most likely for a drive that hangs; requests that need it wait as well",
            "look at the drives that have requests to answer in the log; a drive that comes back lets everything go on".into(),
            "do not kill the process: what clients wait for would be lost to them, and the drive would still hang",
        );
    }
    // A span tells its own.
    let own = array.spans.is_empty();
    match array.health {
        HealthView::Optimal => {}
        HealthView::Degraded if own && rebuilds => say(
            MatterKind::Rebuilding,
            failed(),
            array.headline.clone(),
            if left == 0 {
                "until the rebuild ends, the loss of another drive loses data"
            } else {
                "redundancy is being restored"
            },
            format!("wait; `stria status {name}` shows the progress, `stria speed {name} --min 200M` gives the rebuild more"),
            "do not pull or replace another drive, and do not restart the machine without need",
        ),
        HealthView::Degraded if own => say(
            MatterKind::Degraded,
            failed(),
            array.headline.clone(),
            if left == 0 {
                "data is complete, and the loss of another drive loses data"
            } else {
                "data is complete, with less redundancy"
            },
            format!(
                "`stria add {name} DRIVE`: the drive that was lost, if it works, or a new one of the same size; the rebuild begins by itself"
            ),
            "do not pull a drive before you have compared its serial number: `stria status -v` shows those of drives that work",
        ),
        HealthView::Failed if own => say(
            MatterKind::Failed,
            failed(),
            array.headline.clone(),
            "more drives are lost than redundancy covers; reads and writes of what they held fail",
            format!(
                "stop clients, `stria stop {name}`, bring the lost drives back, and see `stria assemble DRIVE…` for what would start"
            ),
            "do not create, wipe or force anything on these drives: what they hold may be all that is left",
        ),
        HealthView::Degraded | HealthView::Failed => {}
    }
    let no_spare =
        own && array.health != HealthView::Optimal && !rebuilds && array.members.iter().any(|member| member.role == "spare");
    if no_spare && array.paused {
        say(
            MatterKind::Paused,
            Vec::new(),
            "sweeps are paused while the array is degraded".into(),
            "the spare is not being filled",
            format!("`stria resume {name}`"),
            "do not leave it paused over night",
        );
    }
    if view::found_mismatch(array) && own {
        say(
            MatterKind::Mismatch,
            paths(|member| member.wrong_sectors > 0),
            "a scrub found redundancy that does not match".into(),
            "a drive changed bytes, or a crash left a write half done; what clients read may be right or wrong",
            format!("`stria status -v {name}` names the member where redundancy can; then `stria scrub {name} --repair`"),
            "do not repair on one parity or two copies before you have looked at the drives' own error counts: the wrong side may win",
        );
    }
    for member in array.members.iter().filter(|member| member.no_room) {
        say(
            MatterKind::NoSpace,
            vec![member.path.clone()],
            format!("{} has no space for writes", member.path),
            "the file system or pool below an image is full; clients' writes fail",
            "make space there; writes go on by themselves".into(),
            "do not delete the image",
        );
    }
    for member in array.members.iter().filter(|member| member.failure.is_some() && array.health == HealthView::Optimal) {
        let why = member.failure.as_deref().unwrap_or_default();
        say(
            MatterKind::Replaced,
            vec![member.path.clone()],
            format!("{} failed and was replaced: {why}", member.path),
            "the array is optimal without it",
            format!("`stria remove {name} {}`, then replace the drive and `stria add` the new one as a spare", member.path),
            "do not reuse the drive elsewhere before it was tested",
        );
    }
    array.spans.iter().for_each(|span| collect(span, name, matters));
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
}
