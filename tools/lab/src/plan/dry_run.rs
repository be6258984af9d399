//! The steps, their duration, and the bytes that they write, before anything runs.

use super::sections::{section_id, stages};
use crate::experiment::Experiment;
use crate::result::{Pattern, SectionKind, TargetKind};
use crate::snia::ROUNDS_MAX;
use crate::stage::{Goal, Load, RaidAction, Rounds, Scale, Stage, Step, destroys, drive_share, step_cost};
use crate::target::TargetSpec;
use crate::units::{show_seconds, show_size};
use serde::Serialize;

/// The plan of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The experiment.
    pub experiment: String,
    /// The reduction of a trial.
    pub scaled: Option<String>,
    /// Parts, in the order in which they run.
    pub sections: Vec<PlannedSection>,
    /// Seconds, at least.
    pub seconds_min: f64,
    /// Seconds, at most, if nothing becomes steady early.
    pub seconds_max: f64,
    /// Bytes written to targets, at most.
    pub bytes_max: u64,
    /// Bytes written to the most written drive, at most; by the arrays' write penalty and their write log.
    pub drive_bytes_max: u64,
    /// The same as a share of the rated endurance, in percent; absent if that is not known.
    pub endurance_percent: Option<f64>,
    /// The commands of mdadm for each md array of the run, on a device that is free now.
    pub commands: Vec<String>,
    /// The speed that was assumed for loads that write for a time.
    pub assumed_mb_per_s: f64,
}

/// A section on a target.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedSection {
    /// [`crate::result::Section::id`].
    pub id: String,
    /// Test.
    pub kind: SectionKind,
    /// Target.
    pub target: String,
    /// Bytes of it that are used.
    pub span_bytes: u64,
    /// Results of a round, over all stages.
    pub loads: usize,
    /// Rounds of the longest stage: fewest and most.
    pub rounds: (u32, u32),
    /// Seconds, fewest and most.
    pub seconds: (f64, f64),
    /// Bytes written, fewest and most.
    pub bytes: (u64, u64),
    /// The stages, in words.
    pub words: Vec<String>,
    /// True if everything on it is overwritten.
    pub destroys: bool,
}

/// The assumed factor by which a rebuild or scrub takes longer under load than alone.
const SWEEP_SLOWDOWN: f64 = 4.0;

/// Plans an experiment on targets whose sizes are known or assumed.
pub fn plan(
    experiment: &Experiment,
    targets: &[TargetSpec],
    scale: &Scale,
    assumed_mb_per_s: f64,
    rated_bytes: Option<u64>,
) -> Plan {
    let mut sections = Vec::new();
    let (mut drive_bytes, mut total) = (0.0, (0.0, 0.0, 0_u64));
    for target in targets {
        let span_bytes = scale.span(target.size_bytes());
        for (at, section) in experiment.section.iter().enumerate() {
            let several = target.kind == TargetKind::Members && target.drives.len() > 1;
            if section.test == SectionKind::Raid && !target.can_degrade() || section.test == SectionKind::Replay && several {
                continue;
            }
            let stages = stages(section, span_bytes, true, scale);
            let (mut seconds, mut bytes, mut rounds) = ((0.0, 0.0), (0, 0), (1, 1));
            let mut words = Vec::new();
            for stage in &stages {
                let (fewest, mut most) = stage.rounds_range();
                if let (Rounds::WhileSweep(_), Some(load)) = (&stage.rounds, stage.steps.first().and_then(Step::load)) {
                    let sweep_seconds = target.member_bytes() as f64 / (assumed_mb_per_s * 1e6) * SWEEP_SLOWDOWN;
                    most = most.min((sweep_seconds / load.seconds).ceil() as u32);
                }
                rounds = (rounds.0.max(fewest), rounds.1.max(most));
                let (mut stage_seconds, mut stage_bytes) = (0.0, 0);
                for step in &stage.steps {
                    let (step_seconds, step_bytes) = step_cost(step, span_bytes, assumed_mb_per_s);
                    stage_seconds += step_seconds;
                    stage_bytes += step_bytes;
                }
                seconds = (seconds.0 + stage_seconds * f64::from(fewest), seconds.1 + stage_seconds * f64::from(most));
                let most_bytes = match stage.rounds {
                    Rounds::UntilSteady(Goal { bytes_max: Some(cap), .. }) => {
                        (stage_bytes * u64::from(most)).min(cap + stage_bytes)
                    }
                    Rounds::Times(_) | Rounds::UntilSteady(_) | Rounds::WhileSweep(_) => stage_bytes * u64::from(most),
                };
                bytes = (bytes.0 + (stage_bytes * u64::from(fewest)).min(most_bytes), bytes.1 + most_bytes);
                words.push(stage_words(stage));
            }
            let sure = stages.iter().filter(|stage| !matches!(stage.rounds, Rounds::WhileSweep(_)));
            let loads = sure.flat_map(|stage| &stage.steps).filter(|step| match step {
                Step::Copy(_) | Step::Replay(_) => true,
                step => step.load().is_some_and(|load| !load.preparation),
            });
            let loads = loads.count();
            drive_bytes += bytes.1 as f64 * drive_share(target.level(), target.drive_count(), target.kind == TargetKind::Array);
            total = (total.0 + seconds.0, total.1 + seconds.1, total.2 + bytes.1);
            sections.push(PlannedSection {
                id: section_id(at, section, target),
                kind: section.test,
                target: target.name.clone(),
                span_bytes,
                loads,
                rounds,
                seconds,
                bytes,
                words,
                destroys: stages.iter().flat_map(|stage| &stage.steps).any(destroys),
            });
        }
    }
    Plan {
        experiment: experiment.name.clone(),
        scaled: scale.words().map(|scaled| scaled.words),
        sections,
        seconds_min: total.0,
        seconds_max: total.1,
        bytes_max: total.2,
        drive_bytes_max: drive_bytes as u64,
        endurance_percent: rated_bytes.map(|rated| drive_bytes * 100.0 / rated as f64),
        commands: targets.iter().filter_map(TargetSpec::md_spec).flat_map(|spec| spec.command_lines()).collect(),
        assumed_mb_per_s,
    }
}

fn stage_words(stage: &Stage) -> String {
    let mut parts: Vec<String> = Vec::new();
    let loads: Vec<&Load> = stage.steps.iter().filter_map(Step::load).collect();
    for step in &stage.steps {
        match step {
            Step::Purge => parts.push("purge".into()),
            Step::Fill { fills, block_bytes, pattern } => {
                let order = if *pattern == Pattern::Random { "random" } else { "sequential" };
                parts.push(format!("write {fills} x the span, {order} {}", show_size(*block_bytes)));
            }
            Step::Idle { seconds } if loads.is_empty() => parts.push(format!("idle {}", show_seconds(*seconds))),
            Step::Trim => parts.push("trim all".into()),
            Step::Raid(RaidAction::Fail) => parts.push("fail a member".into()),
            Step::Raid(RaidAction::Refill) | Step::LoadDuring(_, RaidAction::Refill) => parts.push("rebuild it".into()),
            Step::Raid(RaidAction::Scrub) | Step::LoadDuring(_, RaidAction::Scrub) => parts.push("scrub".into()),
            Step::WaitForSweep => parts.push("wait for its end".into()),
            Step::Copy(set) => {
                let (bytes, stored) = (show_size(set.bytes()), show_size(set.stored_bytes()));
                let blocks = if stored == bytes { String::new() } else { format!(", {stored} in blocks of a file system") };
                parts.push(format!("copy {}: {} of {bytes} in all{blocks}", set.name, set.files.len()));
            }
            Step::Replay(trace) => parts.push(format!("replay {}", trace.application.name)),
            Step::LoadDuring(_, RaidAction::Fail) | Step::Load(_) | Step::Demand(..) | Step::Idle { .. } => {}
        }
    }
    if let Some(first) = loads.first() {
        parts.push(match loads.len() {
            1 => format!("1 load of {}", show_seconds(first.seconds)),
            count => format!("{count} loads of {}", show_seconds(first.seconds)),
        });
    }
    let times = match (&stage.rounds, stage.rounds_range()) {
        (_, (1, 1)) => String::new(),
        (Rounds::Times(times), _) => format!(", {times} times"),
        (Rounds::UntilSteady(Goal { tracked, .. }), (fewest, most)) => {
            let most_words = if most == ROUNDS_MAX { "SNIA's limit" } else { "limit" };
            format!(", {fewest} to {most} rounds ({most_words}) until {tracked} are steady")
        }
        (Rounds::WhileSweep(_), _) => ", as long as that runs".into(),
    };
    let parts = parts.join(", ");
    if parts == stage.title { parts + &times } else { format!("{}: {parts}{times}", stage.title) }
}
