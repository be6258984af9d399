//! The write logs of the last run, of either kind, together.

use super::{AssembleError, AssembleErrorKind, Found, LackOfLog, Obstacle, Options, Sorter, StartWarning, Verdict};
use crate::md::log::{FoundLog, FoundPart, LostLog, RECORDS_MAX, REPLAY_SECTORS_MAX, names_no_session, replay_sectors};
use crate::md::ppl::{self, FoundPpl, PplLocation};
use crate::md::recorder::LogKeeping;
use crate::md::superblock::CLEAN;
use stria_array::{Geometry, Level, LogRecord, Synced};

/// The write log of the last run.
#[derive(Default)]
pub(super) struct LastLog {
    /// The array is to have none.
    pub off: bool,
    /// The records cover every row whose parity may be inconsistent and matters.
    pub is_complete: bool,
    /// Redundancy is consistent everywhere once they are replayed.
    pub makes_consistent: bool,
    /// Drives that were being rebuilt and kept no records of their own: what they hold may have been torn.
    pub silent: Vec<usize>,
    /// Drives in sync whose log cannot be read, with what is known of it.
    pub lost: Vec<(usize, LostLog)>,
    /// Not all members know its session.
    pub is_torn: bool,
    /// The amount by which it exceeds the limits of replay, in words.
    pub excess: Option<String>,
    pub records: Vec<LogRecord>,
}

impl Sorter<'_> {
    /// The records of the members' logs, of either kind, together. `warnings`: if there are any, a stale member or a lost bitmap
    /// was accepted, and the logs do not count.
    pub(super) fn last_log(
        &self,
        found: &[Found],
        geometry: &Geometry,
        options: &Options,
        warnings: &mut Vec<StartWarning>,
    ) -> Result<LastLog, AssembleError> {
        let log = match PplLocation::of(self.freshest) {
            Some(_) => self.ppl(found, geometry, warnings.is_empty()),
            None => self.log(found, geometry.level(), warnings.is_empty()),
        };
        if let Some(excess) = &log.excess {
            let excess = excess.clone();
            if !options.force {
                return Err(self.error(AssembleErrorKind::Damaged, Obstacle::LogIsForeign { excess }));
            }
            warnings.push(StartWarning::LogIsForeign { excess });
        }
        if !self.freshest.clean() && !names_no_session(self.freshest.utime_micros()) {
            warnings.extend(found.iter().filter(|found| self.is_filled(found)).filter_map(lost_log));
        }
        Ok(log)
    }

    /// The reason why no log makes up for a missing member.
    pub(super) fn lack_of_log(&self, found: &[Found]) -> LackOfLog {
        let is_damaged = |found: &&Found| {
            let (log, ppl) = (found.member.log.as_ref(), found.member.ppl.as_ref());
            let log_is = log.is_some_and(|log| log.is_damaged() || log.unreadable.is_some());
            self.is_filled(found) && (log_is || ppl.is_some_and(|ppl| !ppl.is_sound()))
        };
        let damaged: Vec<String> = found.iter().filter(is_damaged).map(|found| found.candidate.name.clone()).collect();
        if damaged.is_empty() { LackOfLog::None } else { LackOfLog::Damaged(damaged) }
    }

    /// The log of this run.
    pub(super) fn keeping(&self, log: &LastLog) -> LogKeeping {
        let tag_before = if log.is_complete { self.freshest.utime_micros() } else { 0 };
        let firm = match PplLocation::of(self.freshest) {
            // While an array is not clean, Linux and mdadm do not record how far its first resync has come.
            Some(_) => {
                log.makes_consistent || log.is_complete && (!self.not_in_sync().is_empty() || tag_before == ppl::CONSISTENT)
            }
            None => log.is_complete,
        };
        LogKeeping::new(log.off, tag_before, firm || self.freshest.header.resync_offset == CLEAN)
    }

    /// The contents of the logs of the in-sync members together. `trusted`: no stale member was taken for one in sync.
    fn log<'a>(&self, found: &[Found<'a>], level: Level, trusted: bool) -> LastLog {
        let filled = found.iter().filter(|found| self.is_filled(found));
        // R80: a log that cannot be read says nothing. Its member's data is all there.
        let is_lost = |found: &&Found| found.member.log.as_ref().is_some_and(|log| log.unreadable.is_some());
        let (lost, readable): (Vec<&Found>, Vec<&Found>) = filled.partition(is_lost);
        let logs: Vec<Option<&FoundLog>> = readable.iter().map(|found| found.member.log.as_ref()).collect();
        let of_lost = || lost.iter().filter_map(|found| found.member.log.as_ref());
        let off = logs.iter().flatten().copied().chain(of_lost()).any(|log| log.off);
        // R79: its tag counts for all.
        let tag = self.freshest.utime_micros();
        let speaks = |log: &Option<&FoundLog>| log.is_some_and(|log| log.speaks_for(tag) && !log.off);
        if level.parity_count() == 0 || !trusted || !logs.iter().all(speaks) || logs.is_empty() {
            return LastLog { off, ..LastLog::default() };
        }
        // A session that had just begun has no records, and those of the one before count no more.
        let session = logs.iter().flatten().copied().chain(of_lost()).map(|log| log.session.number).max().unwrap_or(0);
        // Where more parities lack their records than stripes can spare, some rows are named by none.
        let spare_count = level.parity_count().checked_sub(self.not_in_sync().len() + lost.len());
        if logs.iter().flatten().any(|log| log.is_excessive) {
            return LastLog { off, excess: Some(format!("more than {RECORDS_MAX} records")), ..LastLog::default() };
        }
        let is_complete = spare_count.is_some() && !logs.iter().flatten().any(|log| log.is_damaged());
        let knows = |log: &FoundLog| log.session.number == session;
        let is_torn = !logs.iter().flatten().copied().chain(of_lost()).all(knows);
        let of_session: Vec<&FoundLog> = logs.into_iter().flatten().filter(|log| log.session.number == session).collect();
        // A log that was not read is none without records.
        let is_complete = is_complete && of_session.iter().all(|log| !log.parts.is_empty());
        // R18: rebuilding members have log records too, which count as far as the member is filled.
        let being_rebuilt = found.iter().filter(|found| match self.verdicts[&found.drive] {
            Verdict::Rebuilding { .. } => true,
            Verdict::Replacement { recovered, .. } => recovered != Synced::All,
            _ => false,
        });
        let (mut theirs, mut silent) = (Vec::new(), Vec::new());
        for found in being_rebuilt {
            match found.member.log.as_ref().filter(|log| log.is_of(session)) {
                Some(log) => theirs.push(log),
                None => silent.push(found.drive),
            }
        }
        let mut records = Vec::new();
        for lane in 0..of_session.iter().map(|log| log.parts.len()).max().unwrap_or(0) {
            // A damaged part voids the records of its lane on all members, and of no other lane.
            let sound = |log: &&'a FoundLog| log.parts.get(lane).filter(|part| !part.damaged);
            let Some(parts) = of_session.iter().map(sound).collect::<Option<Vec<_>>>() else { continue };
            // What can be read of a lost log is all that is left of writes without another parity member.
            let of_lost = of_lost().filter(|log| log.session.number == session);
            let parts: Vec<&FoundPart> = parts.into_iter().chain(of_lost.filter_map(|log| sound(&log))).collect();
            let retired_below = parts.iter().map(|part| part.retired_below).max().unwrap_or(0);
            let of_lane = parts.into_iter().chain(theirs.iter().filter_map(sound)).flat_map(|part| &part.records);
            records.extend(of_lane.filter(|record| record.number >= retired_below).cloned());
        }
        let replay_sectors = records.iter().map(replay_sectors).fold(0, u64::saturating_add);
        if records.len() > RECORDS_MAX || replay_sectors > REPLAY_SECTORS_MAX {
            let excess = format!("{} records, and {} MiB to be replayed", records.len(), replay_sectors >> 11);
            return LastLog { off, excess: Some(excess), ..LastLog::default() };
        }
        let all = || of_session.iter().copied().chain(of_lost().filter(|log| log.session.number == session));
        let lost = lost.iter().filter_map(|found| {
            let log = found.member.log.as_ref()?;
            let of = all().next()?;
            let parts = all().map(|log| log.parts.len()).max()?;
            let location = log.location.filter(|_| log.session.number == session);
            Some((found.drive, LostLog { session: of.session, parts, location, incarnation: log.incarnation }))
        });
        let lost = lost.collect();
        LastLog { off, is_complete, makes_consistent: false, silent, lost, is_torn, excess: None, records }
    }

    /// The contents of the partial parity logs of the members together, if the array was not stopped cleanly.
    fn ppl(&self, found: &[Found], geometry: &Geometry, trusted: bool) -> LastLog {
        if self.freshest.clean() || !trusted {
            return LastLog::default();
        }
        // Before the end of the first resync parity may match nowhere.
        let consistent = self.freshest.utime_micros() != ppl::INCONSISTENT;
        let mut all = LastLog { is_complete: consistent, makes_consistent: consistent, ..LastLog::default() };
        let in_sync = |slot: usize| self.verdicts.values().any(|verdict| *verdict == Verdict::InSync { slot });
        for found in found {
            let (slot, filled) = match self.verdicts[&found.drive] {
                Verdict::InSync { slot } => (slot, true),
                Verdict::Rebuilding { slot, .. } => (slot, false),
                Verdict::Replacement { slot, recovered } if !in_sync(slot) => (slot, recovered == Synced::All),
                _ => continue,
            };
            let log = found.member.ppl.as_ref().filter(|log| log.is_sound());
            match log.and_then(|log| log.records(geometry, slot)) {
                Some(records) => all.records.extend(records),
                None if filled => all.is_complete = false,
                None => all.silent.push(found.drive),
            }
            all.makes_consistent &= !filled || log.is_some_and(FoundPpl::is_intact);
        }
        all.makes_consistent &= all.is_complete && !all.records.is_empty();
        all
    }
}

/// What a start without a member's log means; `None`: the log could be read.
fn lost_log(found: &Found) -> Option<StartWarning> {
    let error = found.member.log.as_ref()?.unreadable.as_ref()?;
    Some(StartWarning::LogUnreadable { drive: found.candidate.name.clone(), reason: error.to_string() })
}
