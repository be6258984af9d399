//! The states of arrays: degraded, rebuilding, scrubbing and trimmed, under load.

use crate::result::{ArrayState, DriveState};
use crate::stage::{Load, RaidAction, Rounds, Stage, Step};

/// The most measurements while a sweep runs.
const WHILE_SWEEP_MAX: u32 = 10_000;

/// Optimal, degraded, rebuilding (service and rebuild together), rebuilt, scrubbing, trimmed; each with all loads.
pub fn stages(loads: &[Load], passes: u32, fill: Step) -> Vec<Stage> {
    let in_state = |array_state, drive_state| {
        let load = move |load: &Load| Load { array_state, drive_state, series: true, ..load.clone() };
        loads.iter().map(load).collect::<Vec<_>>()
    };
    let measure = |title: &str, array_state, drive_state| {
        let steps = in_state(array_state, drive_state).into_iter().map(Step::Load).collect();
        Stage::new(title, steps, Rounds::Times(passes))
    };
    let mut stages = vec![
        Stage::once("preparation", vec![Step::Purge, fill]),
        measure("optimal", ArrayState::Optimal, DriveState::Used),
        // The duration without load, for comparison with the duration under load.
        Stage::once("rebuild alone", vec![Step::Raid(RaidAction::Fail), Step::Raid(RaidAction::Refill), Step::WaitForSweep]),
    ];
    stages.push(Stage::once("fail", vec![Step::Raid(RaidAction::Fail)]));
    stages.push(measure("degraded", ArrayState::Degraded, DriveState::Used));
    // Each load has its own complete rebuild.
    for (at, load) in in_state(ArrayState::Rebuilding, DriveState::Used).into_iter().enumerate() {
        if at > 0 {
            stages.push(Stage::once("fail", vec![Step::Raid(RaidAction::Fail)]));
        }
        let first = Step::LoadDuring(load.clone(), RaidAction::Refill);
        stages.push(Stage::once("rebuild under load", vec![first]));
        stages.push(Stage::new("rebuild under load", vec![Step::Load(load)], Rounds::WhileSweep(WHILE_SWEEP_MAX)));
    }
    stages.push(Stage::once("rebuild ends", vec![Step::WaitForSweep]));
    stages.push(measure("rebuilt", ArrayState::Rebuilt, DriveState::Used));
    for load in in_state(ArrayState::Scrubbing, DriveState::Used) {
        let first = Step::LoadDuring(load.clone(), RaidAction::Scrub);
        stages.push(Stage::once("scrub under load", vec![first]));
        stages.push(Stage::new("scrub under load", vec![Step::Load(load)], Rounds::WhileSweep(WHILE_SWEEP_MAX)));
        stages.push(Stage::once("scrub ends", vec![Step::WaitForSweep]));
    }
    stages.push(Stage::once("trim", vec![Step::Trim]));
    stages.push(measure("trimmed", ArrayState::Optimal, DriveState::Trimmed));
    stages
}
