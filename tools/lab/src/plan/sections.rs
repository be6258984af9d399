//! From a section of an experiment to its stages.

use crate::experiment::{Experiment, Prepare, SectionSpec};
use crate::raid_runs;
use crate::result::{DriveState, Pattern, SectionKind};
use crate::snia::{self, Choice};
use crate::stage::{AppTrace, CopySet, Load, Mix, Rounds, Scale, Stage, Step, expand};
use crate::target::TargetSpec;
use crate::trace::synthetic::Application;
use crate::units::show_seconds;

/// The stages of a section on a span of a target.
pub fn stages(section: &SectionSpec, span_bytes: u64, small_blocks: bool, scale: &Scale) -> Vec<Stage> {
    let seconds = scale.seconds(section.seconds);
    let (passes, warmup) = (scale.passes(section.passes), if scale.is_scaled() { 0.0 } else { section.warmup });
    let loads = |state: DriveState| -> Vec<Load> {
        let all =
            section.load.iter().flat_map(|spec| expand(spec, seconds, warmup)).map(|load| Load { drive_state: state, ..load });
        all.filter(|load| small_blocks || load.block_bytes >= 4096).collect()
    };
    let steps = |state| loads(state).into_iter().map(Step::Load).collect::<Vec<_>>();
    let fill =
        |fills, pattern| Step::Fill { fills, block_bytes: if pattern == Pattern::Random { 4096 } else { 128 << 10 }, pattern };
    match section.test {
        SectionKind::FileCopy => {
            let set = |spec| Step::Copy(CopySet::new(spec, section.file_system, span_bytes));
            let copies = section.copy.iter().map(set).collect();
            vec![Stage::once("purge", vec![Step::Purge]), Stage::new("passes", copies, Rounds::Times(passes))]
        }
        SectionKind::Sweep | SectionKind::Replay => {
            let (prepare, state) = match section.state {
                Prepare::AsFound => (vec![], DriveState::AsFound),
                Prepare::Fresh => (vec![Step::Purge], DriveState::Fresh),
                Prepare::Filled => (vec![Step::Purge, fill(1.0, Pattern::Sequential)], DriveState::Filled),
                Prepare::Used => {
                    (vec![Step::Purge, fill(2.0, Pattern::Sequential), fill(1.0, Pattern::Random)], DriveState::Used)
                }
            };
            let mut stages = Vec::new();
            if !prepare.is_empty() {
                stages.push(Stage::once("preparation", prepare));
            }
            let replay = |name: &String| {
                let application = Application::named(name).expect("it was checked when it was read");
                Step::Replay(AppTrace { application, share: scale.share(), drive_state: state })
            };
            let steps = steps(state).into_iter().chain(section.traces.iter().map(replay)).collect();
            stages.push(Stage::new("passes", steps, Rounds::Times(passes)));
            stages
        }
        // The protocol of reviews, for which SNIA has no test. All results are relative to the fresh state.
        SectionKind::States => {
            let measure = |title: &str, before: Vec<Step>, state| {
                let mut stages = vec![Stage::once(title, before)];
                stages.push(Stage::new(title, steps(state), Rounds::Times(passes)));
                stages
            };
            [
                measure("fresh", vec![Step::Purge], DriveState::Fresh),
                measure("used", vec![fill(1.0, Pattern::Sequential), fill(1.0, Pattern::Random)], DriveState::Used),
                measure("idle", vec![Step::Idle { seconds: scale.seconds(section.idle) }], DriveState::Idle),
                measure("trimmed", vec![Step::Trim, Step::Idle { seconds: scale.seconds(10.0) }], DriveState::Trimmed),
            ]
            .concat()
        }
        SectionKind::Raid => raid_runs::stages(&loads(DriveState::Used), passes, fill(1.0, Pattern::Sequential)),
        kind => {
            let SectionSpec { queue_depth, threads, read_percent, .. } = *section;
            snia::stages(kind, Choice { queue_depth, threads, read_percent, small_blocks }, span_bytes, scale)
        }
    }
}

/// The stages of a section of an experiment, with points of their own: measurements of two sections are not repeats, since they
/// differ in length or in the load before them. The first has the point as it is; a later one adds how long it takes, or else its
/// name, to all of its points.
pub fn stages_apart(experiment: &Experiment, at: usize, span_bytes: u64, small_blocks: bool, scale: &Scale) -> Vec<Stage> {
    let of = |section| stages(section, span_bytes, small_blocks, scale);
    let (section, mut own) = (&experiment.section[at], of(&experiment.section[at]));
    let earlier: Vec<(Load, f64)> = experiment.section[..at].iter().flat_map(|section| shown(&of(section))).collect();
    let mine = shown(&own);
    let same: Vec<(f64, f64)> = mine
        .iter()
        .flat_map(|(load, seconds)| earlier.iter().filter(move |(other, _)| other == load).map(|(_, other)| (*seconds, *other)))
        .collect();
    let Some(&(seconds, _)) = same.first() else { return own };
    let differs = same.iter().all(|(mine, other)| *mine == seconds && other != mine);
    let words = if differs { format!("for {}", show_seconds(seconds)) } else { section.name.clone() };
    for step in own.iter_mut().flat_map(|stage| &mut stage.steps) {
        match step {
            Step::Copy(set) => set.name = format!("{}, {words}", set.name),
            Step::Load(load) | Step::Demand(_, load) | Step::LoadDuring(load, _) if !load.preparation => load.also(&words),
            _ => {}
        }
    }
    own
}

/// The properties of the stages' loads that vary, and the duration of each measurement.
fn shown(stages: &[Stage]) -> Vec<(Load, f64)> {
    let named = |name: &str| Some(Mix { name: name.into(), block_split: None, zones: None });
    let shown = |step: &Step| match step {
        Step::Copy(set) => Some((Load { mix: named(&set.name), ..Load::new(Pattern::Sequential, 0, 0, 0.0) }, 0.0)),
        Step::Replay(AppTrace { application, drive_state, .. }) => {
            let plain = Load::new(Pattern::Random, 0, 0, 0.0);
            Some((Load { mix: named(application.name), drive_state: *drive_state, ..plain }, 0.0))
        }
        step => {
            let load = step.load().filter(|load| !load.preparation)?;
            let mix = load.mix.as_ref().and_then(|mix| named(&mix.name));
            let plain = Load { mix, seconds: 0.0, warmup_seconds: 0.0, series: false, ..load.clone() };
            Some((Load { flush_every: None, part: None, options: Vec::new(), ..plain }, load.seconds))
        }
    };
    stages.iter().flat_map(|stage| &stage.steps).filter_map(shown).collect()
}

/// See [`crate::result::Section::id`].
pub fn section_id(at: usize, section: &SectionSpec, target: &TargetSpec) -> String {
    format!("{}-{}/{}", at + 1, section.name, target.name)
}
