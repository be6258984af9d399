//! Restores a target to the fresh state, here and on other hosts, and frees its blocks.

use super::{Broken, Runner};
use crate::fio::{Beside, FioError, Place, Work};
use crate::result::{Measured, NoteKind, Pattern, ResultError, TargetKind};
use crate::target::{Target, TargetSpec};
use crate::units::show_size;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// A preparation that is done in part counts as not done.
fn whole(measured: Result<Vec<Measured>, FioError>) -> Result<(), FioError> {
    match measured?.into_iter().find_map(|one| one.failed) {
        Some(words) => Err(FioError::Failed(words)),
        None => Ok(()),
    }
}

impl Runner<'_> {
    pub(super) fn purge(&mut self, target: &mut Target) -> Result<(), Broken> {
        if let Some(model) = &target.model {
            model.purge();
            self.manifest.sections[self.section].purge = Some("fresh models".into());
            return Ok(());
        }
        if !self.request.hosts.is_empty() {
            return self.purge_hosts(target);
        }
        let (fio, folder, stop) = (&self.fio, self.writer.folder(), self.stop);
        let (export_bytes, scale) = (target.info.size_bytes, &self.scale);
        let measured_bytes = target.info.offset_bytes.saturating_add(target.info.span_bytes);
        let running = |pid| self.own.record_fio(pid);
        let beside = Beside { hosts: &[], stop, start: &|fio| self.held.spawn(fio), running: &running };
        let mut overwrite = |place: &Place| {
            // The target's span is no part of a drive below an array.
            let bytes = match place {
                Place::Path(drive) => crate::state::size_of(drive)?,
                Place::Nbd(_) => export_bytes,
            };
            // A trial must not take hours.
            let span_bytes = if scale.is_scaled() { bytes.min(measured_bytes) } else { bytes };
            let work = Work::Fill { fills: 1.0, block_bytes: 1 << 20, pattern: Pattern::Sequential, zeros: true };
            let places = [place.clone().absolute()];
            let job = crate::fio::Job { places: &places, span_bytes, offset_bytes: 0, work, seed: 0, logs: None };
            whole(fio.run(&job, folder, "purge", &beside, &mut |_| {})).map_err(|error| error.to_string())
        };
        let purged = target.purge(&mut overwrite).map_err(|words| match self.stop.load(Ordering::Relaxed) {
            true => Broken::Interrupted,
            false => Broken::Section(format!("purge of {}: {words}", target.info.name)),
        })?;
        for tried in &purged.tried {
            self.note(NoteKind::Fallback, None, format!("purge failed by {tried}; {} was used instead", purged.by))?;
        }
        self.note(NoteKind::Purge, None, format!("purged: {}", purged.by))?;
        self.manifest.sections[self.section].purge = Some(purged.by);
        self.wait_for_sweep(target, "first resync")
    }

    /// Files that the run has created have no blocks. Reads of them would measure memory, so they are filled once.
    pub(super) fn fill_new_file(&mut self, target: &mut Target) -> Result<(), Broken> {
        let is_own = target.drives().iter().any(|drive| self.own.owns(drive));
        let is_new = target.is_lost || self.records.iter().all(|record| record.point.target != target.info.name);
        if !is_own || !is_new {
            return Ok(());
        }
        let (span_bytes, offset_bytes) = (target.info.span_bytes, target.info.offset_bytes);
        let work = Work::Fill { fills: 1.0, block_bytes: 1 << 20, pattern: Pattern::Sequential, zeros: false };
        let job = crate::fio::Job { places: &target.places, span_bytes, offset_bytes, work, seed: 0, logs: None };
        let running = |pid| self.own.record_fio(pid);
        let beside = Beside { hosts: &[], stop: self.stop, start: &|fio| self.held.spawn(fio), running: &running };
        whole(self.fio.run(&job, self.writer.folder(), "fill", &beside, &mut |_| {}))?;
        target.is_lost = false;
        let words = format!("{} was filled once: a new file has no blocks to read", target.info.name);
        Ok(self.note(NoteKind::Step, None, words)?)
    }

    /// Purges each host's own drive. If that is impossible, it is measured without a purge, and the report says so.
    pub(super) fn purge_hosts(&mut self, target: &Target) -> Result<(), Broken> {
        let mut ways = Vec::new();
        for host in self.request.hosts.clone() {
            let place = host.place.as_ref().or(target.places.first());
            let (host, purged) = match (target.info.kind, place) {
                (TargetKind::File | TargetKind::Block, Some(Place::Path(path))) => {
                    let purged = crate::remote::purge(&host.name, &path.display().to_string());
                    (host.name, purged)
                }
                _ => (host.name, Err("only files and block devices can be purged there".into())),
            };
            ways.push(match purged {
                Ok(way) => {
                    self.note(NoteKind::Purge, None, format!("purged on {host}: {way}"))?;
                    format!("{host}: {way}")
                }
                Err(words) => {
                    self.note(NoteKind::Fallback, None, format!("not purged on {host}: {words}"))?;
                    format!("{host}: skipped")
                }
            });
        }
        self.manifest.sections[self.section].purge = Some(ways.join(", "));
        Ok(())
    }

    /// The reports of the other hosts about themselves and their drives.
    pub(super) fn ask_hosts(&mut self, specs: &[TargetSpec]) -> Result<(), ResultError> {
        for host in self.request.hosts.clone() {
            let own = host.place.as_ref().map(ToString::to_string);
            let place = own.or_else(|| Some(specs.first()?.place.clone())).unwrap_or_default();
            let host = host.name;
            match crate::remote::facts(&host, &place) {
                Ok((environment, drive)) => {
                    self.manifest.hosts.insert(host, environment);
                    self.host_drives.push(drive);
                }
                Err(words) => {
                    let words = format!("the description of {host} is missing: {words}; set up an ssh key for it");
                    self.note(NoteKind::Fallback, None, words)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn trim(&mut self, target: &mut Target) -> Result<(), Broken> {
        if let Some(model) = &target.model {
            let (kind, words) = match model.trim() {
                true => (NoteKind::Step, "trimmed"),
                false => (NoteKind::Fallback, "trims of this level do not reach the drives on this platform: measured without"),
            };
            return Ok(self.note(kind, None, words.into())?);
        }
        let drives = target.drives();
        let allocated = |drives: &[PathBuf]| crate::array::allocated_bytes(drives).filter(|_| !drives.is_empty());
        let before = allocated(&drives);
        let failed = |words: String| Broken::Section(format!("trim of {}: {words}", target.info.name));
        let mut refused = None;
        if let Some(array) = &target.array {
            array.trim().map_err(failed)?;
        } else {
            for place in &target.places {
                match place {
                    Place::Path(path)
                        if self.request.hosts.is_empty() && fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) =>
                    {
                        crate::purge::punch(path, target.info.offset_bytes, target.info.span_bytes).map_err(failed)?;
                    }
                    Place::Path(_) | Place::Nbd(_) => {
                        let places = [place.clone()];
                        let each = |bytes: u64| bytes / target.places.len() as u64;
                        let (span_bytes, offset_bytes) = (each(target.info.span_bytes), each(target.info.offset_bytes));
                        let job =
                            crate::fio::Job { places: &places, span_bytes, offset_bytes, work: Work::Trim, seed: 0, logs: None };
                        let running = |pid| self.own.record_fio(pid);
                        let beside = Beside {
                            hosts: &self.request.hosts,
                            stop: self.stop,
                            start: &|fio| self.held.spawn(fio),
                            running: &running,
                        };
                        match whole(self.fio.run(&job, self.writer.folder(), "trim", &beside, &mut |_| {})) {
                            Ok(()) => {}
                            Err(FioError::Interrupted) => return Err(Broken::Interrupted),
                            Err(error) => refused = Some(error.to_string()),
                        }
                    }
                }
            }
        }
        if let Some(words) = refused {
            return Ok(self.note(
                NoteKind::Fallback,
                None,
                format!("{} does not support discards, so it is measured without: {words}", target.info.name),
            )?);
        }
        let words = match (before, allocated(&drives)) {
            (Some(before), Some(after)) => {
                let back = before.saturating_sub(after);
                self.extra.insert("reclaimed_bytes".into(), back as f64);
                self.extra.insert("allocated_before_bytes".into(), before as f64);
                format!("trimmed: {} of {} were freed on {} drives", show_size(back), show_size(before), drives.len())
            }
            _ => "trimmed; these drives do not report the freed space".into(),
        };
        Ok(self.note(NoteKind::Step, None, words)?)
    }
}
