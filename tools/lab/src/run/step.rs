//! One step of a round, and its name.

use super::{Broken, Runner};
use crate::fio::Work;
use crate::result::{DriveState, Pattern, Record};
use crate::stage::{Load, RaidAction, Step};
use crate::target::Target;
use crate::units::{counted, show_seconds, show_size};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Runner<'_> {
    pub(super) fn step(&mut self, step: &Step, number: u32, round: u32, target: &mut Target) -> Result<(), Broken> {
        match step {
            Step::Purge => self.purge(target),
            Step::Fill { fills, block_bytes, pattern } => {
                let order = if *pattern == Pattern::Random { "random" } else { "sequential" };
                let times = if *fills == 1.0 { "once".into() } else { format!("{fills} times") };
                let words = format!(
                    "{order} {} writes over the span of {}, {times}",
                    show_size(*block_bytes),
                    show_size(target.info.span_bytes)
                );
                let precondition = &mut self.manifest.sections[self.section].precondition;
                *precondition = Some(match precondition.take() {
                    Some(before) if !before.contains(&words) => format!("{before}; then {words}"),
                    _ => words,
                });
                let is_first = *pattern == Pattern::Sequential && *fills <= 1.0;
                let load = Load {
                    queue_depth: 32,
                    preparation: true,
                    variant: "fill".into(),
                    drive_state: if is_first { DriveState::Filled } else { DriveState::Used },
                    ..Load::new(*pattern, *block_bytes, 0, 0.0)
                };
                let work = Work::Fill { fills: *fills, block_bytes: *block_bytes, pattern: *pattern, zeros: false };
                self.measure(&load, work, number, round, target, None)
            }
            Step::Load(load) => self.measure(load, Work::Load(load), number, round, target, None),
            Step::LoadDuring(load, action) => self.measure(load, Work::Load(load), number, round, target, Some(*action)),
            Step::Demand(demand, load) => {
                let matrix: Vec<&Record> = self.records_of(0, number).filter(|record| !record.preparation).collect();
                let (threads, queue_depth) = demand.choose(&matrix);
                let load = Load { threads, queue_depth, ..load.clone() };
                self.measure(&load, Work::Load(&load), number, round, target, None)
            }
            Step::Raid(action) => self.act(*action, target),
            Step::WaitForSweep => self.wait_for_sweep(target, "sweep"),
            Step::Idle { seconds } => match &target.model {
                Some(model) => {
                    model.idle(*seconds);
                    Ok(())
                }
                None => self.sleep(*seconds),
            },
            Step::Trim => self.trim(target),
            Step::Copy(set) => self.copy(set, number, round, target),
            Step::Replay(trace) => self.replay(trace, number, round, target),
        }
    }

    pub(super) fn sleep(&mut self, seconds: f64) -> Result<(), Broken> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Interrupted);
            }
            self.progress.at(&self.moment);
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }
}

pub(super) fn words_of(step: &Step) -> String {
    match step {
        Step::Purge => "purge".into(),
        Step::Fill { fills, pattern, .. } => {
            format!("writing {fills} x the span, {}", if *pattern == Pattern::Random { "randomly" } else { "in order" })
        }
        Step::Load(load) | Step::Demand(_, load) | Step::LoadDuring(load, _) => load_words(load),
        Step::Raid(RaidAction::Fail) => "a member fails".into(),
        Step::Raid(RaidAction::Refill) => "a rebuild begins".into(),
        Step::Raid(RaidAction::Scrub) => "a scrub begins".into(),
        Step::WaitForSweep => "waiting for rebuild or scrub".into(),
        Step::Idle { seconds } => format!("idle for {}", show_seconds(*seconds)),
        Step::Trim => "trim".into(),
        Step::Copy(set) => format!("copying {}", set.name),
        Step::Replay(trace) => format!("replaying {}", trace.application.name),
    }
}

fn load_words(load: &Load) -> String {
    let order = if load.pattern == Pattern::Random { "random" } else { "sequential" };
    let what = load.mix.as_ref().map_or_else(|| show_size(load.block_bytes), |mix| mix.name.clone());
    let threads = counted(load.threads, "thread", "threads");
    format!("{order} {what}, {} % reads, {threads} x {}", load.read_percent, load.queue_depth)
}
