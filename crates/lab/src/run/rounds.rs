//! Rounds of a stage: so many, as long as a sweep runs, or until what is tracked is steady.

use super::step::words_of;
use super::{ASSUMED_MB_PER_S, Broken, Runner};
use crate::plan::{Rounds, Stage, Step, step_cost};
use crate::result::{NoteKind, SteadyVerdict};
use crate::snia::{Tracker, verdict};
use crate::target::Target;
use crate::units::show_size;
use std::sync::atomic::Ordering;

impl Runner<'_> {
    pub(super) fn stage(&mut self, stage: &Stage, base: u32, target: &mut Target) -> Result<(), Broken> {
        let end = base + stage.steps.len() as u32;
        let before = self.moment.done_seconds;
        let once: f64 = stage.steps.iter().map(|step| step_cost(step, target.info.span_bytes, ASSUMED_MB_PER_S).0).sum();
        let fewest = stage.rounds_range().0;
        let whole = before + once * f64::from(fewest);
        if self.records_of(end, u32::MAX).next().is_none() {
            match &stage.rounds {
                Rounds::Times(times) => {
                    for round in 1..=*times {
                        self.round(stage, base, round, *times, target)?;
                        self.moment.done_seconds = before + once * f64::from(round);
                    }
                }
                Rounds::WhileSweep(most) => {
                    let mut round = 0;
                    while round < *most && self.sweep_runs(target) {
                        round += 1;
                        self.round(stage, base, round, *most, target)?;
                    }
                }
                Rounds::UntilSteady { step, metric, tracked, rounds_max, stride, bytes_max } => {
                    let tracker = Tracker {
                        tracked: tracked.clone(),
                        unit: metric.unit().into(),
                        rounds_max: *rounds_max,
                        stride: *stride,
                    };
                    self.drop_broken_round(stage, base, end)?;
                    loop {
                        let tracked_step = base + *step as u32;
                        let values: Vec<f64> =
                            self.records_of(tracked_step, tracked_step + 1).map(|record| metric.of(record)).collect();
                        let written: u64 =
                            self.records_of(base, end).filter_map(|record| record.write.as_ref()).map(|write| write.bytes).sum();
                        let rounds = values.len() as u32;
                        let now = verdict(&values, &tracker);
                        let full = bytes_max.is_some_and(|most| written >= most);
                        if now.as_ref().is_some_and(|now| now.reached) || rounds >= *rounds_max || full {
                            let words = match &now {
                                Some(now) if now.reached => {
                                    format!("{tracked} are steady after {rounds} rounds: mean {:.6} {}", now.mean, now.unit)
                                }
                                _ if full => {
                                    format!("{tracked} are not steady after {} written in {rounds} rounds", show_size(written))
                                }
                                _ => format!("{tracked} are not steady after {rounds} rounds, which is the limit"),
                            };
                            self.note(NoteKind::Verdict, None, words)?;
                            let is_result = stage.steps.iter().filter_map(Step::load).any(|load| !load.preparation);
                            let section = &mut self.manifest.sections[self.section];
                            let now = now.map(|now| SteadyVerdict { steps: Some((base, end)), ..now });
                            // What was not steady in one part is not made good by another.
                            section.steady = match (section.steady.take(), now) {
                                (Some(old), Some(now)) if !old.reached && is_result => {
                                    let tracked = format!("{}, after a preparation that was not steady", now.tracked);
                                    Some(SteadyVerdict { reached: false, tracked, ..now })
                                }
                                (Some(old), _) if !old.reached => Some(old),
                                (_, now) => now,
                            };
                            break;
                        }
                        self.round(stage, base, rounds + 1, *rounds_max, target)?;
                        self.moment.done_seconds = (before + once * f64::from(rounds + 1)).min(whole);
                    }
                }
            }
        }
        let rounds =
            self.records_of(base, end).filter(|record| !record.preparation).map(|record| record.round).max().unwrap_or(0);
        let section = &mut self.manifest.sections[self.section];
        section.rounds = section.rounds.max(rounds);
        self.moment.done_seconds = whole;
        self.writer.save_manifest(&self.manifest)?;
        Ok(())
    }

    /// A round that was broken off does not count.
    fn drop_broken_round(&mut self, stage: &Stage, base: u32, end: u32) -> Result<(), Broken> {
        let measured = stage.steps.iter().filter(|step| step.load().is_some()).count();
        let last = self.records_of(base, end).map(|record| record.round).max().unwrap_or(0);
        let there = self.records_of(base, end).filter(|record| record.round == last).count();
        if last > 0 && there < measured {
            let id = self.id();
            self.records.retain(|record| record.section != id || record.round != last || !(base..end).contains(&record.step));
            self.writer.rewrite_records(&self.records)?;
            self.note(NoteKind::Step, None, format!("round {last} was broken off and is measured again as a whole"))?;
        }
        Ok(())
    }

    fn round(&mut self, stage: &Stage, base: u32, round: u32, of: u32, target: &mut Target) -> Result<(), Broken> {
        let begun = self.moment.done_seconds;
        let mut before = 0.0;
        for (at, step) in stage.steps.iter().enumerate() {
            self.moment.done_seconds = begun + before;
            before += step_cost(step, target.info.span_bytes, ASSUMED_MB_PER_S).0;
            let number = base + at as u32;
            let done = |from, to| self.records_of(from, to).any(|record| record.round == round);
            // What leaves no record was done if something after it was.
            if done(number, base + stage.steps.len() as u32)
                && (!matches!(step, Step::Load(_) | Step::Fill { .. } | Step::Demand(..) | Step::Copy(_))
                    || done(number, number + 1))
            {
                continue;
            }
            let many = if of > 1 { format!(", round {round} of {of}") } else { String::new() };
            self.moment.section = self.id();
            self.moment.words = format!("{}{many}: {}", stage.title, words_of(step));
            self.progress.at(&self.moment);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Interrupted);
            }
            self.step(step, number, round, target)?;
        }
        Ok(())
    }
}
