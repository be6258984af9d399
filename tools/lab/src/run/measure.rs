//! One measurement: fio, the observation of drives meanwhile, and the record.

use super::raid::check_members;
use super::{Broken, Runner, SweepBegun};
use crate::array::Array;
use crate::experiment::PLACE_PERCENT;
use crate::fio::{Beside, Job, Place, Work, take_series, together};
use crate::others::Others;
use crate::result::{
    ArrayState, IoMode, Measured, MemberFigures, NoteKind, Point, Record, RunWriter, SectionKind, Series, TargetKind, inside,
    now_ms,
};
use crate::select;
use crate::stage::{Load, RaidAction};
use crate::state::{HOT_C, Watch};
use crate::target::{Site, Target};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The load runs for this time before the array below it is changed.
const ACTION_AFTER: Duration = Duration::from_millis(300);
/// A measurement sags if its last third is below this fraction of the first.
const SAG_SHARE: f64 = 0.7;
/// The least number of samples for that check.
const SAG_SAMPLES: usize = 6;
/// A member lags behind if its mean latency is this multiple of the median.
const OUTLIER: f64 = 2.0;

/// A measurement without fio.
pub(super) struct Own {
    pub point: Point,
    pub step: u32,
    pub round: u32,
    pub begun_ms: u64,
    pub measured: Measured,
    pub members: Vec<MemberFigures>,
    pub extra: BTreeMap<String, f64>,
    pub preparation: bool,
}

impl Runner<'_> {
    /// Stores it with all its details.
    pub(super) fn keep(&mut self, own: Own, raw: &impl Serialize) -> Result<(), Broken> {
        let index = self.writer.next_index();
        let name = RunWriter::raw_name(index);
        inside::write(self.writer.folder(), &name, &serde_json::to_vec_pretty(raw).expect("plain data becomes JSON"))?;
        let Own { point, step, round, begun_ms, measured, members, extra, preparation } = own;
        let section = self.id();
        let series = None;
        let record =
            Record { index, section, preparation, point, round, step, begun_ms, measured, raw: name, series, members, extra };
        self.writer.append(std::slice::from_ref(&record), &Series::default())?;
        self.look_for_trouble(&record, &Series::default())?;
        self.records.push(record);
        Ok(())
    }

    pub(super) fn measure(
        &mut self,
        load: &Load,
        work: Work,
        step: u32,
        round: u32,
        target: &Target,
        during: Option<RaidAction>,
    ) -> Result<(), Broken> {
        if let Some(model) = &target.model {
            return self.measure_model(model, load, work, step, round, target);
        }
        if let Some(words) = impossible(load, target, self.request.site()) {
            return Ok(self.note(NoteKind::Fallback, None, words)?);
        }
        if load.mode == IoMode::Sparse {
            crate::purge::recreate(&target.drives()[0]).map_err(Broken::Section)?;
        }
        check_members(target, load.array_state).map_err(Broken::Section)?;
        let index = self.writer.next_index();
        let folder = self.writer.folder().to_path_buf();
        // fio is started in the folder.
        let logs = format!("series/{index:05}");
        let prefix = folder.join(&logs);
        let series_wanted = (load.series || during.is_some()) && self.request.hosts.is_empty() && load.seconds >= 1.0;
        let places = &target.places;
        let (span_bytes, offset_bytes) = (target.info.span_bytes, target.info.offset_bytes);
        let logs = series_wanted.then_some(Path::new(&logs));
        let job = Job { places, span_bytes, offset_bytes, work, seed: index.into(), logs };
        let sweeps = matches!(load.array_state, ArrayState::Rebuilding | ArrayState::Scrubbing);
        let warmup = Duration::from_secs_f64(if matches!(work, Work::Load(_)) { load.warmup_seconds } else { 0.0 });
        let mut watch = Watch::new(&target.drives(), target.array.as_ref(), warmup);
        let begun_ms = now_ms();
        let mut acted: Option<Result<Instant, String>> = None;
        let mut moment = self.moment.clone();
        let done_before = moment.done_seconds;
        let progress = &mut *self.progress;
        let mut tick = |at: Duration| {
            moment.done_seconds = done_before + at.as_secs_f64();
            progress.at(&moment);
            if let (Some(action), None, Some(array)) = (during.filter(|_| at >= ACTION_AFTER), &acted, &target.array) {
                acted = Some(act(array, action).map(|()| Instant::now()));
            }
            watch.look(at, target.array.as_ref(), sweeps && (during.is_none() || acted.is_some()));
        };
        let others = Others::since_now(places);
        let began = Instant::now();
        let running = |pid| self.own.record_fio(pid);
        let beside =
            Beside { hosts: &self.request.hosts, stop: self.stop, start: &|fio| self.held.spawn(fio), running: &running };
        let mut measured = self.fio.run(&job, &folder, &format!("{index:05}"), &beside, &mut tick)?;
        // The sweep may have ended since the last look.
        let sweeps = sweeps && (during.is_none() || acted.is_some());
        if sweeps {
            watch.look_now(began.elapsed(), target.array.as_ref(), sweeps);
        }
        let checked = check_members(target, load.array_state);
        for one in &mut measured {
            one.failed = one.failed.take().or(checked.clone().err());
        }
        self.sweep_seen(during, acted, watch.sweep_ended.map(|ended| began + ended), index, target)?;
        let mut extra = std::mem::take(&mut self.extra);
        if let Some(ended) = watch.sweep_ended {
            extra.insert(select::SWEPT.into(), ended.saturating_sub(warmup).as_secs_f64());
        }
        others.note(&mut extra);
        let members = watch.finish(target.array.as_ref());
        let series = if series_wanted { take_series(&prefix) } else { Ok(Series::default()) };
        let unread = series.as_ref().err().map(|problem| format!("the figures of each second are left out: {problem}"));
        let series = Series { sweep: std::mem::take(&mut watch.sweep), ..series.unwrap_or_default() };
        let keep_series = !series.samples.is_empty() || !series.sweep.is_empty();
        extra.insert(select::OUTSTANDING.into(), f64::from(job.outstanding()));
        if let Some((part, of)) = load.part {
            extra.insert(PLACE_PERCENT.into(), (f64::from(part) + 0.5) * 100.0 / f64::from(of));
        }
        let record = Record {
            index,
            section: self.id(),
            preparation: load.preparation,
            point: point(load, target),
            round,
            step,
            begun_ms,
            measured: Measured::default(),
            raw: RunWriter::raw_name(index),
            series: keep_series.then(|| RunWriter::series_name(index)),
            members,
            extra,
        };
        self.keep_hosts(&record, measured, &series)?;
        if let Some(words) = unread {
            self.note(NoteKind::Fallback, Some(index), words)?;
        }
        checked.map_err(Broken::Section)
    }

    /// Remembers the sweep that began or ended under the load of record `index`. `acted`: the time of the change of the array.
    fn sweep_seen(
        &mut self,
        during: Option<RaidAction>,
        acted: Option<Result<Instant, String>>,
        ended_at: Option<Instant>,
        index: u32,
        target: &Target,
    ) -> Result<(), Broken> {
        match (during, acted) {
            (Some(action), Some(Ok(begun))) => self.sweep_begun = Some(SweepBegun { action, begun, under: Some(index) }),
            (Some(_), Some(Err(words))) => return Err(Broken::Failed(words)),
            (Some(_), None) => {
                return Err(Broken::Failed("the load ended before the array could be changed: let it run longer".into()));
            }
            (None, _) => {}
        }
        match ended_at {
            Some(ended_at) => self.sweep_done(ended_at, target),
            None => Ok(()),
        }
    }

    /// Stores the measurement of each host, and first the sum if there are several. `like`: the record without figures.
    fn keep_hosts(&mut self, like: &Record, measured: Vec<Measured>, series: &Series) -> Result<(), Broken> {
        let record = |measured: Measured| Record { measured, ..like.clone() };
        let mut records: Vec<Record> = Vec::new();
        if self.request.hosts.len() > 1 {
            records.push(record(together(&measured)));
        }
        records.extend(measured.into_iter().map(record));
        let failed = records.iter().find_map(|record| record.failed.clone());
        // A failure of one host voids the measurements of the others.
        records.iter_mut().for_each(|record| record.failed.clone_from(&failed));
        self.writer.append(&records, series)?;
        self.look_for_trouble(&records[0], series)?;
        self.records.extend(records);
        match failed.filter(|_| like.preparation) {
            Some(words) => Err(Broken::Section(format!("the preparation failed: {words}"))),
            None => Ok(()),
        }
    }

    /// Adds notes about the problems of a measurement.
    pub(super) fn look_for_trouble(&mut self, record: &Record, series: &Series) -> Result<(), Broken> {
        let index = Some(record.index);
        if let Some(words) = &record.failed {
            self.note(
                NoteKind::Error,
                index,
                format!("{}: no result: {words}; see {}", select::load(&record.point), record.raw),
            )?;
        }
        for member in &record.members {
            if member.errors > 0 {
                self.note(NoteKind::Error, index, format!("{}: {} read errors", member.path, member.errors))?;
            }
            if let Some(hot) = member.temperature_c.filter(|hot| *hot >= HOT_C) {
                let words = format!("{}: {hot:.0} °C: it may have throttled; cool it and measure again", member.path);
                self.note(NoteKind::Throttle, index, words)?;
            }
        }
        for (path, times) in laggards(&record.members) {
            self.note(
                NoteKind::Sag,
                index,
                format!("{path}: its requests take {times:.1} times as long as those of the others"),
            )?;
        }
        let kind = self.manifest.sections[self.section].kind;
        let may_fall =
            record.preparation || matches!(kind, SectionKind::Wsat | SectionKind::Xsr | SectionKind::Hir | SectionKind::States);
        let total = |sample: &crate::result::Sample| sample.read_iops + sample.write_iops;
        let values: Vec<f64> = series.samples.iter().map(total).collect();
        if let Some(share) = sag(&values).filter(|_| !may_fall && record.point.array_state == ArrayState::Optimal) {
            let words = format!("fell to {:.0} % within the measurement: not steady, throttled, or disturbed", share * 100.0);
            self.note(NoteKind::Sag, index, words)?;
        }
        Ok(())
    }
}

fn act(array: &Array, action: RaidAction) -> Result<(), String> {
    match action {
        RaidAction::Fail => array.fail(),
        RaidAction::Refill => array.refill(),
        RaidAction::Scrub => array.scrub(),
    }
}

/// The reason why a load is invalid on a target.
pub(super) fn impossible(load: &Load, target: &Target, site: Site) -> Option<String> {
    let name = &target.info.name;
    let is_nbd = matches!(target.places.first(), Some(Place::Nbd(_)));
    match load.mode {
        IoMode::Cached | IoMode::WriteThrough if is_nbd => Some(format!("{:?} is left out: {name} has no page cache", load.mode)),
        IoMode::Sparse if site == Site::Hosts => {
            Some(format!("Sparse is left out: {name} is on other hosts, where no sparse file can be made"))
        }
        IoMode::Sparse if target.info.kind != TargetKind::File => Some(format!("Sparse is left out: {name} is not a file")),
        IoMode::Direct | IoMode::DirectSync | IoMode::WriteThrough | IoMode::Cached | IoMode::Sparse => None,
    }
}

pub(super) fn point(load: &Load, target: &Target) -> Point {
    let info = &target.info;
    Point {
        target: info.name.clone(),
        level: info.level.clone(),
        members: info.members,
        strip_bytes: info.strip_bytes,
        spans: info.spans,
        pattern: load.pattern,
        block_bytes: load.block_bytes,
        mix: load.mix.as_ref().map_or(String::new(), |mix| mix.name.clone()),
        read_percent: load.read_percent,
        queue_depth: load.queue_depth,
        threads: load.threads,
        compressible_percent: load.compressible_percent,
        drive_state: load.drive_state,
        array_state: load.array_state,
        mode: load.mode,
        variant: load.variant.clone(),
    }
}

/// The last third as a fraction of the first, if that is a sag.
fn sag(values: &[f64]) -> Option<f64> {
    let third = values.len() / 3;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    if values.len() < SAG_SAMPLES {
        return None;
    }
    let share = mean(&values[values.len() - third..]) / mean(&values[..third]);
    (share < SAG_SHARE).then_some(share)
}

/// Members that lag behind the median, and the multiple.
fn laggards(members: &[MemberFigures]) -> Vec<(&str, f64)> {
    let mut all: Vec<f64> = members.iter().filter_map(|member| member.latency_mean_ns).collect();
    all.sort_by(f64::total_cmp);
    let Some(median) = all.get(all.len().saturating_sub(1) / 2).copied().filter(|median| *median > 0.0 && all.len() >= 3) else {
        return Vec::new();
    };
    let times = |member: &'_ MemberFigures| member.latency_mean_ns.map(|ns| ns / median);
    members
        .iter()
        .filter_map(|member| Some((member.path.as_str(), times(member)?)))
        .filter(|(_, times)| *times >= OUTLIER)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_slows_down_in_the_middle_is_noticed_and_noise_is_not() {
        assert_eq!(sag(&[100.0, 100.0, 100.0, 60.0, 50.0, 50.0]), Some(0.5));
        assert_eq!(sag(&[100.0, 90.0, 110.0, 80.0, 100.0, 90.0]), None);
        assert_eq!(sag(&[100.0, 10.0]), None);
    }

    #[test]
    fn a_member_slower_than_the_others_is_named() {
        let member = |path: &str, ns| MemberFigures { path: path.into(), latency_mean_ns: Some(ns), ..MemberFigures::default() };
        let members = [member("a", 100.0), member("b", 110.0), member("c", 900.0), member("d", 90.0)];
        assert_eq!(laggards(&members), [("c", 9.0)]);
        assert!(laggards(&members[..2]).is_empty());
    }
}
