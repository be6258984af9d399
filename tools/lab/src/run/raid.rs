//! Changes of an array of Stria during a measurement, and their duration.

use super::{Broken, Runner, SweepBegun};
use crate::md::{Md, Sync};
use crate::result::{ArrayState, NoteKind};
use crate::select;
use crate::stage::RaidAction;
use crate::target::Target;
use crate::units::{counted, show_seconds};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time after which a rebuild or resync that is needed but does not run counts as one that never begins.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// The time within which an array must answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// The sweep of an array.
enum Sweep {
    Ended,
    Runs,
    /// It is needed, and does not run yet.
    Waits,
    /// It never ends, for this reason.
    Failed(String),
}

/// The state of the sweep; an error if the array does not answer.
fn sweep(target: &Target) -> Result<Sweep, String> {
    if let Some(array) = &target.array {
        let status = array.status()?;
        return Ok(match crate::array::sweep_of(&status) {
            Some(_) if status["health"] == "failed" => Sweep::Failed(crate::array::headline(&status)),
            // A sweep that runs has a size.
            Some(sample) if sample.total_bytes == 0 => Sweep::Waits,
            Some(_) => Sweep::Runs,
            None => Sweep::Ended,
        });
    }
    Ok(match target.md.as_ref().map_or(Sync::Done, Md::sync) {
        Sync::Done => Sweep::Ended,
        Sync::Runs => Sweep::Runs,
        Sync::Waits => Sweep::Waits,
        Sync::Failed(members) => Sweep::Failed(format!("{members} failed")),
    })
}

/// Refuses an array that lacks more members, or fewer, than a measurement of it in that state is about.
pub(super) fn check_members(target: &Target, state: ArrayState) -> Result<(), String> {
    let (lost, words) = if let Some(array) = &target.array {
        let status = array.status()?;
        (crate::array::lost_members(&status), crate::array::headline(&status))
    } else {
        (target.md.as_ref().map_or(0, Md::lost_members), String::new())
    };
    let allowed = match state {
        ArrayState::Optimal | ArrayState::Rebuilt | ArrayState::Scrubbing => 0..=0,
        ArrayState::Degraded => 1..=1,
        // The rebuild may end meanwhile.
        ArrayState::Rebuilding => 0..=1,
    };
    if allowed.contains(&lost) {
        return Ok(());
    }
    let lost = counted(lost as u32, "slot without a member in sync", "slots without a member in sync");
    let words = if words.is_empty() { words } else { format!(" ({words})") };
    let planned = match state {
        ArrayState::Optimal => "optimal",
        other => select::array_state(other),
    };
    Err(format!("{} has {lost}{words}, and was to be measured {planned}: replace the drive, and measure again", target.info.name))
}

impl Runner<'_> {
    pub(super) fn act(&mut self, action: RaidAction, target: &Target) -> Result<(), Broken> {
        let array = target.array.as_ref().expect("RAID runs are for our arrays");
        let done = match action {
            RaidAction::Fail => {
                self.wait_for_sweep(target, "sweep")?;
                array.fail()
            }
            RaidAction::Refill => array.refill(),
            RaidAction::Scrub => array.scrub(),
        };
        done.map_err(Broken::Failed)?;
        if action != RaidAction::Fail {
            self.sweep_begun = Some(SweepBegun { action, begun: Instant::now(), under: None });
        }
        Ok(())
    }

    /// True while a sweep runs or waits. Afterwards its duration is stored, if the lab began it.
    pub(super) fn sweep_runs(&mut self, target: &Target) -> Result<bool, Broken> {
        let runs = matches!(self.sweep(target)?, Sweep::Runs | Sweep::Waits);
        if !runs {
            self.sweep_done(Instant::now(), target)?;
        }
        Ok(runs)
    }

    /// The state of the sweep. An array that does not answer is asked again for some seconds; its sweep has not ended.
    fn sweep(&mut self, target: &Target) -> Result<Sweep, Broken> {
        let asked = Instant::now();
        loop {
            match sweep(target) {
                Ok(sweep) => return Ok(sweep),
                Err(words) if asked.elapsed() > ANSWERS_WITHIN => {
                    let name = &target.info.name;
                    let words = format!("{name} does not report whether it is rebuilt or scrubbed: {words}: measure again");
                    return Err(Broken::Section(words));
                }
                Err(_) => self.sleep(0.5)?,
            }
        }
    }

    /// Waits until no sweep runs. Stores how long that took, if the lab began the sweep.
    pub(super) fn wait_for_sweep(&mut self, target: &Target, what: &str) -> Result<(), Broken> {
        let mut waits_since = None;
        loop {
            match self.sweep(target)? {
                Sweep::Ended => break,
                Sweep::Runs => waits_since = None,
                Sweep::Waits => {
                    if waits_since.get_or_insert_with(Instant::now).elapsed() > BEGINS_WITHIN {
                        let within = show_seconds(BEGINS_WITHIN.as_secs_f64());
                        return Err(Broken::Section(format!(
                            "{}: the {what} did not begin within {within}: check its members, and measure again",
                            target.info.name
                        )));
                    }
                }
                Sweep::Failed(words) => {
                    let name = &target.info.name;
                    let words = format!("{name}: the {what} cannot end: {words}: replace what failed, and measure again");
                    return Err(Broken::Section(words));
                }
            }
            self.moment.words = format!("waiting for the {what} to end");
            self.sleep(0.1)?;
        }
        self.sweep_done(Instant::now(), target)
    }

    /// Stores the duration of a sweep that the lab began with the record under whose load it began, else with the next record.
    pub(super) fn sweep_done(&mut self, ended: Instant, target: &Target) -> Result<(), Broken> {
        let Some(SweepBegun { action, begun, under }) = self.sweep_begun.take() else { return Ok(()) };
        let seconds = ended.saturating_duration_since(begun).as_secs_f64();
        let key = if action == RaidAction::Scrub { "scrub" } else { "rebuild" };
        let (suffix, words) = if under.is_some() { ("", "under load") } else { ("_alone", "without load") };
        let mut found_then = BTreeMap::from([(format!("{key}{suffix}_seconds"), seconds)]);
        let found = target
            .array
            .as_ref()
            .filter(|_| action == RaidAction::Scrub)
            .and_then(|array| array.mismatch_sectors().ok().flatten());
        if let Some(sectors) = found {
            found_then.insert("mismatch_sectors".into(), sectors as f64);
        }
        match self.records.iter_mut().find(|record| Some(record.index) == under) {
            Some(record) => {
                record.extra.extend(found_then);
                self.writer.rewrite_records(&self.records)?;
            }
            None => self.extra.extend(found_then),
        }
        let mismatches = found.map_or(String::new(), |sectors| format!("; mismatches in {sectors} sectors"));
        Ok(self.note(NoteKind::Step, None, format!("{key} took {}, {words}{mismatches}", show_seconds(seconds)))?)
    }
}
