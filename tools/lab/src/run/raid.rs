//! Changes of an array of Stria during a measurement, and their duration.

use super::{Broken, Company, Runner};
use crate::md::Md;
use crate::result::NoteKind;
use crate::stage::RaidAction;
use crate::target::Target;
use crate::units::show_seconds;
use std::time::Instant;

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
            self.sweep_begun = Some((action, Instant::now(), Company::Alone));
        }
        Ok(())
    }

    pub(super) fn sweep_runs(&self, target: &Target) -> bool {
        target.array.as_ref().is_some_and(|array| array.sweep().is_ok_and(|sweep| sweep.is_some()))
            || target.md.as_ref().is_some_and(Md::syncs)
    }

    /// Waits until no sweep runs. Returns how long that took, if the lab began the sweep.
    pub(super) fn wait_for_sweep(&mut self, target: &Target, what: &str) -> Result<(), Broken> {
        while self.sweep_runs(target) {
            self.moment.words = format!("waiting for the {what} to end");
            self.sleep(0.1)?;
        }
        if let Some((action, begun, company)) = self.sweep_begun.take() {
            let seconds = begun.elapsed().as_secs_f64();
            self.sweep_done(action, seconds, company, target)?;
        }
        Ok(())
    }

    pub(super) fn sweep_done(
        &mut self,
        action: RaidAction,
        seconds: f64,
        company: Company,
        target: &Target,
    ) -> Result<(), Broken> {
        let key = if action == RaidAction::Scrub { "scrub" } else { "rebuild" };
        let (suffix, words) = match company {
            Company::Alone => ("_alone", "without load"),
            Company::UnderLoad => ("", "under load"),
        };
        self.extra.insert(format!("{key}{suffix}_seconds"), seconds);
        let found = target
            .array
            .as_ref()
            .filter(|_| action == RaidAction::Scrub)
            .and_then(|array| array.mismatch_sectors().ok().flatten());
        if let Some(sectors) = found {
            self.extra.insert("mismatch_sectors".into(), sectors as f64);
        }
        let mismatches = found.map_or(String::new(), |sectors| format!("; mismatches in {sectors} sectors"));
        Ok(self.note(NoteKind::Step, None, format!("{key} took {}, {words}{mismatches}", show_seconds(seconds)))?)
    }
}
