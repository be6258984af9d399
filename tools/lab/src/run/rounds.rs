//! Rounds of a stage: a fixed number, as long as a sweep runs, or until the tracked value is steady.

use super::measure::impossible;
use super::step::words_of;
use super::{ASSUMED_MB_PER_S, Broken, Runner};
use crate::result::{NoteKind, Record, SectionKind, SteadyVerdict};
use crate::stage::{Goal, Load, Rounds, Stage, Step, step_cost};
use crate::steady::{Tracker, verdict};
use crate::target::Target;
use crate::units::{counted, show_size};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// A stage at its place in a section.
struct Placed<'s> {
    stage: &'s Stage,
    /// Number of its first step, and of the first after it.
    steps: (u32, u32),
    /// Seconds of work done before it, and of one round.
    begins: f64,
    round: f64,
}

impl<'s> Placed<'s> {
    fn new(stage: &'s Stage, base: u32, begins: f64, span_bytes: u64) -> Self {
        let round = stage.steps.iter().map(|step| step_cost(step, span_bytes, ASSUMED_MB_PER_S).0).sum();
        Self { stage, steps: (base, base + stage.steps.len() as u32), begins, round }
    }

    /// Seconds of work done after a number of rounds; the estimate includes only the fewest rounds.
    fn done_after(&self, rounds: u32) -> f64 {
        self.begins + self.round * f64::from(rounds.min(self.stage.rounds_range().0))
    }

    /// True if it measures, and does not only prepare.
    fn is_result(&self) -> bool {
        self.stage.steps.iter().filter_map(Step::load).any(|load| !load.preparation)
    }
}

/// The progress of a stage.
struct Standing {
    rounds: u32,
    written: u64,
    verdict: SteadyVerdict,
}

impl Standing {
    fn is_full(&self, goal: &Goal) -> bool {
        goal.bytes_max.is_some_and(|most| self.written >= most)
    }

    /// The reason to end here, if there is one.
    fn end(&self, goal: &Goal) -> Option<String> {
        let (tracked, rounds, now) = (&goal.tracked, counted(self.rounds, "round", "rounds"), &self.verdict);
        if now.reached {
            Some(format!("{tracked} are steady after {rounds}: mean {:.6} {}", now.mean, now.unit))
        } else if self.is_full(goal) {
            Some(format!("{tracked} are not steady after {} written in {rounds}", show_size(self.written)))
        } else if self.rounds >= goal.rounds_max {
            Some(format!("{tracked} are not steady after {rounds}, which is the limit"))
        } else {
            None
        }
    }
}

impl Runner<'_> {
    pub(super) fn stage(&mut self, stage: &Stage, base: u32, target: &mut Target) -> Result<(), Broken> {
        let placed = Placed::new(stage, base, self.moment.done_seconds, target.info.span_bytes);
        // If a later stage has measurements, this one is done.
        if self.records_of(placed.steps.1, u32::MAX).next().is_none() {
            match &stage.rounds {
                Rounds::Times(times) => self.rounds(&placed, *times, |_, _| Ok(true), target)?,
                Rounds::WhileSweep(most) => self.rounds(&placed, *most, Self::sweep_runs, target)?,
                Rounds::UntilSteady(goal) => self.until_steady(&placed, goal, target)?,
            }
        }
        let results = self.records_of(placed.steps.0, placed.steps.1).filter(|record| !record.preparation);
        let rounds = results.map(|record| record.round).max().unwrap_or(0);
        let section = &mut self.manifest.sections[self.section];
        section.rounds = section.rounds.max(rounds);
        self.moment.done_seconds = placed.done_after(u32::MAX);
        Ok(self.writer.save_manifest(&self.manifest)?)
    }

    /// Runs rounds until there is a reason to end.
    fn rounds(
        &mut self,
        placed: &Placed,
        most: u32,
        goes_on: impl Fn(&mut Self, &Target) -> Result<bool, Broken>,
        target: &mut Target,
    ) -> Result<(), Broken> {
        for round in 1..=most {
            if !goes_on(self, target)? {
                break;
            }
            self.round(placed, round, most, target)?;
        }
        Ok(())
    }

    fn until_steady(&mut self, placed: &Placed, goal: &Goal, target: &mut Target) -> Result<(), Broken> {
        loop {
            let standing = self.standing(placed, goal);
            if let Some(words) = standing.end(goal) {
                self.note(NoteKind::Verdict, None, words)?;
                self.conclude(placed, standing.verdict);
                return Ok(());
            }
            self.round(placed, standing.rounds + 1, goal.rounds_max, target)?;
        }
    }

    fn standing(&self, placed: &Placed, goal: &Goal) -> Standing {
        let step = placed.steps.0 + goal.step as u32;
        let values: Vec<f64> = self.records_of(step, step + 1).map(|record| goal.metric.of(record)).collect();
        let written = |record: &Record| record.write.as_ref().map_or(0, |write| write.bytes);
        let tracker = Tracker {
            tracked: goal.tracked.clone(),
            unit: goal.metric.unit().into(),
            rounds_max: goal.rounds_max,
            stride: goal.stride,
        };
        Standing {
            rounds: values.len() as u32,
            written: self.records_of(placed.steps.0, placed.steps.1).map(written).fold(0, u64::saturating_add),
            verdict: verdict(&values, &tracker),
        }
    }

    /// The section gets the verdict of this stage. It stays "not steady" if its preparation was not steady. Each block size of
    /// Throughput has its own preparation and its own verdict.
    fn conclude(&mut self, placed: &Placed, verdict: SteadyVerdict) {
        let now = SteadyVerdict { steps: Some(placed.steps), ..verdict };
        let section = &mut self.manifest.sections[self.section];
        if section.kind == SectionKind::Throughput {
            section.steady_before.extend(section.steady.take().filter(|old| old.steps != now.steps));
        }
        section.steady = Some(after(section.steady.take(), now, placed.is_result()));
    }

    /// True if a stage of an interrupted section has rounds, but its series ended within a round or before it was steady.
    pub(super) fn is_series_broken(&self, stages: &[Stage], target: &Target) -> bool {
        let mut base = 0;
        stages.iter().any(|stage| {
            let placed = Placed::new(stage, base, 0.0, target.info.span_bytes);
            let (from, to) = placed.steps;
            base = to;
            let Rounds::UntilSteady(goal) = &stage.rounds else { return false };
            let last = self.records_of(from, to).map(|record| record.round).max();
            let Some(last) = last.filter(|_| self.records_of(to, u32::MAX).next().is_none()) else { return false };
            let measured = stage.steps.iter().filter(|step| step.load().is_some()).count();
            let there = self.records_of(from, to).filter(|record| record.round == last).count();
            there < measured || self.standing(&placed, goal).end(goal).is_none()
        })
    }

    /// True if a stage of a resumed section lacks measurements although a later stage has some: the target is in the later state.
    pub(super) fn is_left_behind(&self, stages: &[Stage], target: &Target) -> bool {
        let mut base = 0;
        stages.iter().any(|stage| {
            let lacks = self.missing_of(stage, base, target) > 0;
            base += stage.steps.len() as u32;
            lacks && self.records_of(base, u32::MAX).next().is_some()
        })
    }

    /// Measurements of a section that are planned but not stored.
    pub(super) fn missing(&self, stages: &[Stage], target: &Target) -> u32 {
        let mut base = 0;
        let of = |stage: &Stage| {
            let missing = self.missing_of(stage, base, target);
            base += stage.steps.len() as u32;
            missing
        };
        stages.iter().map(of).sum()
    }

    /// Other stages have no fixed number of rounds, and a failure of copies or of a preparation ends the section.
    fn missing_of(&self, stage: &Stage, base: u32, target: &Target) -> u32 {
        let Rounds::Times(times) = stage.rounds else { return 0 };
        let is_possible = |load: &Load| match target.model {
            Some(_) => crate::modelled::impossible(load).is_none(),
            None => impossible(load, target, self.request.site()).is_none(),
        };
        let is_planned = |step: &Step| step.load().is_some_and(is_possible) || matches!(step, Step::Fill { .. });
        let planned = (base..).zip(&stage.steps).filter(|(_, step)| is_planned(step));
        let missing = |(number, _): (u32, &Step)| {
            let there: BTreeSet<u32> = self.records_of(number, number + 1).map(|record| record.round).collect();
            (1..=times).filter(|round| !there.contains(round)).count() as u32
        };
        planned.map(missing).sum()
    }

    /// The steps of a round that are not done yet.
    fn round(&mut self, placed: &Placed, round: u32, of: u32, target: &mut Target) -> Result<(), Broken> {
        let Placed { stage, steps: (base, end), .. } = *placed;
        let many = if of > 1 { format!(", round {round} of {of}") } else { String::new() };
        let mut done_seconds = placed.done_after(round - 1);
        for (number, step) in (base..).zip(&stage.steps) {
            self.moment.done_seconds = done_seconds;
            done_seconds += step_cost(step, target.info.span_bytes, ASSUMED_MB_PER_S).0;
            if self.is_done(step, number, end, round) {
                continue;
            }
            self.moment.section = self.id();
            self.moment.words = format!("{}{many}: {}", stage.title, words_of(step));
            self.progress.at(&self.moment);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Interrupted);
            }
            self.step(step, number, round, target)?;
            let failed = self.records.last().filter(|record| record.step == number && record.round == round);
            // A round that lacks one of its loads cannot show a steady state.
            if let (Rounds::UntilSteady(_), Some(words)) = (&stage.rounds, failed.and_then(|record| record.failed.clone())) {
                return Err(Broken::Section(format!("a load of a round failed: {words}")));
            }
        }
        self.moment.done_seconds = placed.done_after(round);
        Ok(())
    }

    /// A step with a record is done if the record exists; a step without one, if a later step of the round is done.
    fn is_done(&self, step: &Step, number: u32, end: u32, round: u32) -> bool {
        let has_records = |from, to| self.records_of(from, to).any(|record| record.round == round);
        match step {
            Step::Load(_) | Step::Fill { .. } | Step::Demand(..) | Step::Copy(_) | Step::Replay(_) => {
                has_records(number, number + 1)
            }
            Step::Purge | Step::Trim | Step::Idle { .. } | Step::Raid(_) | Step::WaitForSweep | Step::LoadDuring(..) => {
                has_records(number, end)
            }
        }
    }
}

const UNSTEADY_BEFORE: &str = ", after a preparation that was not steady";

/// The verdict on a stage, when the section has that on an earlier stage; or on the same stage, if the run was resumed after it.
fn after(earlier: Option<SteadyVerdict>, now: SteadyVerdict, is_result: bool) -> SteadyVerdict {
    let unsteady = match earlier {
        Some(own) if own.steps == now.steps => own.tracked.ends_with(UNSTEADY_BEFORE),
        Some(other) if !other.reached && !is_result => return other,
        Some(other) => !other.reached,
        None => false,
    };
    if !unsteady {
        return now;
    }
    SteadyVerdict { reached: false, tracked: now.tracked.clone() + UNSTEADY_BEFORE, ..now }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(steps: (u32, u32), values: &[f64]) -> SteadyVerdict {
        let tracker = Tracker { tracked: "IOPS".into(), unit: "IOPS".into(), rounds_max: 25, stride: 1 };
        SteadyVerdict { steps: Some(steps), ..verdict(values, &tracker) }
    }

    const STEADY: [f64; 5] = [100.0; 5];
    const FALLING: [f64; 5] = [500.0, 400.0, 300.0, 200.0, 100.0];

    #[test]
    fn a_stage_after_an_unsteady_preparation_is_not_steady() {
        let result = after(Some(on((0, 1), &FALLING)), on((1, 2), &STEADY), true);
        assert!(!result.reached && result.tracked == "IOPS, after a preparation that was not steady", "{result:?}");
        assert!(after(Some(on((0, 1), &STEADY)), on((1, 2), &STEADY), true).reached);
        assert!(after(None, on((1, 2), &STEADY), true).reached);
        let preparation = after(Some(on((0, 1), &FALLING)), on((1, 2), &STEADY), false);
        assert_eq!(preparation.steps, Some((0, 1)), "the first unsteady preparation counts");
    }

    /// A resumed run comes to the same verdict again: it is not its own preparation.
    #[test]
    fn a_verdict_that_is_reached_again_after_a_resume_stays_what_it_was() {
        let unsteady = on((1, 2), &FALLING);
        assert_eq!(after(Some(unsteady.clone()), unsteady.clone(), true), unsteady);
        let after_preparation = after(Some(on((0, 1), &FALLING)), on((1, 2), &STEADY), true);
        assert_eq!(after(Some(after_preparation.clone()), on((1, 2), &STEADY), true), after_preparation);
    }
}
