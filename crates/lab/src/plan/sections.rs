//! From a section of an experiment to its stages.

use super::load::expand;
use super::{CopySet, Load, Rounds, Scale, Stage, Step};
use crate::experiment::{Prepare, SectionSpec};
use crate::raid_runs;
use crate::result::{DriveState, Pattern, SectionKind};
use crate::snia::{self, Choice};
use crate::target::TargetSpec;

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
        SectionKind::Sweep => {
            let (prepare, state) = match section.state {
                Prepare::AsFound => (vec![], DriveState::AsFound),
                Prepare::Fresh => (vec![Step::Purge], DriveState::Fresh),
                Prepare::Filled => (vec![Step::Purge, fill(1.0, Pattern::Sequential)], DriveState::Used),
                Prepare::Used => {
                    (vec![Step::Purge, fill(2.0, Pattern::Sequential), fill(1.0, Pattern::Random)], DriveState::Used)
                }
            };
            let mut stages = Vec::new();
            if !prepare.is_empty() {
                stages.push(Stage::once("preparation", prepare));
            }
            stages.push(Stage::new("passes", steps(state), Rounds::Times(passes)));
            stages
        }
        // The reviews' own protocol: there is no test of SNIA's for it. Everything relative to fresh.
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
        SectionKind::Replay => Vec::new(),
        kind => {
            let SectionSpec { queue_depth, threads, read_percent, .. } = *section;
            snia::stages(kind, Choice { queue_depth, threads, read_percent, small_blocks }, span_bytes, scale)
        }
    }
}

/// See [`crate::result::Section::id`].
pub fn section_id(at: usize, section: &SectionSpec, target: &TargetSpec) -> String {
    format!("{}-{}/{}", at + 1, section.name, target.name)
}
