//! An array on its lanes, and the commands for it.
//!
//! Each lane is a thread with a ring and its part of the array, a [`HostedArray`]. The first is the coordinator. Its engine
//! receives each command, makes the other lanes take part, and answers; all waiting is in the engine. This module turns paths
//! into members, opens drives that join, and offers them to every lane.

use crate::hosted::EventSender;
use crate::merger::EventMerger;
use crate::newcomer::{JoinByPath, PreparedDrive};
use crate::open::open_on_coordinator;
use crate::warning::OpenWarning;
use crate::{ArrayReport, HostError, HostedArray, HostedDrive, MemberReport, Notice, OpenOptions, OpenedDrive};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_array::{Command, Engine, LatencyTarget, MemberState, Refusal, WritePolicy};
use stria_block::{RemoteDevice, SectorDevice};
use stria_drive::{Lane, LaneHandle, LaneRouter, PanicGroup, RingCounters, monotonic_now, real_path_within};
use stria_tree::{ArrayCommand, Joined, Lanes, Tree};

/// The time between two checks whether a stop is done.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The time that looking up a path may take; a file system that hangs does not answer.
const LOOK_UP: Duration = Duration::from_secs(1);
/// The time that a stop waits for a drive that ends no request, before it goes on without it.
const STOP_WITHOUT: Duration = Duration::from_secs(10);
/// The same for a stop in a hurry, for which the time before the stop counts as well. A healthy drive may flush or retry for
/// seconds, and must not lose its slot for that.
const HURRIED_STOP_WITHOUT: Duration = Duration::from_secs(5);
/// A stop names the drives that it waits for once they are silent for so long.
const STOP_TELLS_AFTER: Duration = Duration::from_secs(3);
/// The time between two checks whether a drive has been silent for that long.
const LOOK_FOR_SILENCE: Duration = Duration::from_secs(1);
/// The same for a stop in a hurry.
const HURRIED_LOOK: Duration = Duration::from_millis(200);

/// What a lane tells of itself.
#[derive(Clone, Copy, Debug)]
pub struct LaneReport {
    /// The set-up of its ring.
    pub ring: &'static str,
    /// The work of its ring so far.
    pub counters: RingCounters,
    /// The processor time that its thread has used.
    pub processor_time: Duration,
}

impl LaneReport {
    /// Of the lane whose thread calls.
    fn of(array: &SectorDevice<HostedArray>) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let processor_time = Duration::try_from(time).unwrap_or_default();
        Self { ring: array.ring().setup(), counters: array.ring().counters(), processor_time }
    }
}

/// A drive that has requests and has ended none for so long.
struct SilentDrive {
    path: PathBuf,
    seconds: u64,
}

/// An array that runs on one lane or several.
pub struct ArrayLanes {
    /// The coordinator first.
    lanes: Vec<LaneHandle<SectorDevice<HostedArray>>>,
    merger: Arc<EventMerger>,
    remote: Arc<dyn RemoteDevice>,
    order: Mutex<()>,
    /// Numbers the drives that are offered to the lanes.
    offer_count: AtomicU64,
}

impl ArrayLanes {
    /// Opens the one array on `drives`, on as many of `lanes` as it can have, and sends its events to `notices`. Returns also the
    /// warnings about its start.
    ///
    /// # Errors
    /// As [`open`](crate::open), or when the lanes cannot be started; then nothing was written.
    ///
    /// # Panics
    /// Without lanes.
    pub fn open(
        drives: &[PathBuf],
        options: OpenOptions,
        lanes: Vec<Lane>,
        notices: Sender<Notice>,
    ) -> Result<(Self, Vec<OpenWarning>), HostError> {
        let (panic_group, lanes_wanted) = (PanicGroup::default(), lanes.len());
        let mut to_start = lanes.into_iter().map(|lane| lane.bound_by(&panic_group));
        let coordinator = to_start.next().expect("an array runs on a lane");
        let (found, plans) = channel();
        let drives = drives.to_vec();
        let coordinator = coordinator.spawn(move |ring| {
            let (array, plan, warnings) = open_on_coordinator(&drives, ring, options, lanes_wanted)?;
            array.start_threads()?;
            let _ = found.send((array.group_sectors(), plan, warnings));
            // Such arrays run on one lane, so all writes to a block pass here.
            let serves_sectors = array.has_checksums();
            Ok::<_, HostError>(SectorDevice::new(array, serves_sectors))
        })?;
        let (group_sectors, plan, warnings) = plans.recv().expect("sent before the lane has started");
        let mut lanes = vec![coordinator];
        for (lane, index) in to_start.zip(1..plan.lane_count()) {
            let plan = plan.clone();
            lanes.push(lane.spawn(move |ring| {
                let (array, _) = HostedArray::bind(&plan, ring, index);
                array.start_threads()?;
                Ok::<_, HostError>(SectorDevice::new(array, false))
            })?);
        }
        let remotes: Vec<_> = lanes.iter().map(LaneHandle::remote).collect();
        let remote = match &remotes[..] {
            [only] => Arc::clone(only),
            _ => Arc::new(LaneRouter::new(remotes, group_sectors)),
        };
        let merger = Arc::new(EventMerger::new(lanes.len()));
        let array = Self { lanes, merger, remote, order: Mutex::default(), offer_count: AtomicU64::new(0) };
        let reporter = EventSender { notices, merger: Arc::clone(&array.merger) };
        array.each(move |array| array.report_to(reporter.clone()))?;
        array.each(|array| array.look_for_holes())?;
        if !options.read_only {
            array.each(|array| array.activate())?;
        }
        Ok((array, warnings))
    }

    /// The number of lanes.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// The device for front ends. It distributes clients over the lanes.
    pub fn remote(&self) -> Arc<dyn RemoteDevice> {
        Arc::clone(&self.remote)
    }

    /// True if on-lane clients may run on the lanes.
    pub fn takes_clients(&self) -> bool {
        self.lanes[0].takes_clients()
    }

    /// The present state of the array.
    ///
    /// # Errors
    /// A lane has ended.
    pub fn report(&self) -> Result<ArrayReport, HostError> {
        Ok(ArrayReport::joined(self.each(|array| ArrayReport::of(array))?))
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A drive's path as the array knows it.
    fn known(&self, path: PathBuf) -> Result<PathBuf, HostError> {
        let asked = path.clone();
        match self.on_coordinator(move |array| array.knows(&asked))? {
            true => Ok(path),
            false => Ok(real_path_within(&path, LOOK_UP)),
        }
    }

    /// Runs `work` on every lane, the coordinator first.
    fn each<T: Send + 'static>(
        &self,
        work: impl Fn(&mut HostedArray) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, HostError> {
        let each = self.lanes.iter().map(|lane| {
            let work = work.clone();
            Ok(lane.call(move |array| work(array))?)
        });
        each.collect()
    }

    fn on_coordinator<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut HostedArray) -> T + Send + 'static,
    ) -> Result<T, HostError> {
        Ok(self.lanes[0].call(|array| work(array))?)
    }

    /// Gives a command to an array of the tree, and waits for its answer.
    fn carry_out(&self, index: usize, command: ArrayCommand) -> Result<(), HostError> {
        let Ok(answer) = self.on_coordinator(move |array| array.give(index, command))?.recv() else {
            // The lane has ended, and the error has the reason.
            self.on_coordinator(|_| ())?;
            unreachable!("a lane answers its commands")
        };
        Ok(answer?)
    }

    /// Refuses what needs redundancy on an array that has none.
    fn needs_redundancy(&self) -> Result<(), HostError> {
        let (found, level) = self.on_coordinator(|array| (array.redundant(), array.geometry().level()))?;
        match found.is_empty() {
            true => {
                Err(HostError::Refused(format!("RAID level {level} has no redundancy: there is nothing to compare or rebuild")))
            }
            false => Ok(()),
        }
    }

    /// Sets something on the engines of the array and its spans that have redundancy.
    fn engines(&self, set: impl Fn(&mut Engine) + Clone + Send + 'static) -> Result<(), HostError> {
        self.needs_redundancy()?;
        let redundant = self.on_coordinator(|array| array.redundant())?;
        self.each(move |array| {
            let tree = array.tree();
            redundant.iter().for_each(|&index| tree[index].with_engine(&set));
        })?;
        Ok(())
    }

    /// Drops a drive as if it had failed.
    ///
    /// # Errors
    /// Data would be lost.
    pub fn fail(&self, path: PathBuf) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        self.on_coordinator(|array| array.with_engine(|engine| engine.may_change()))??;
        let path = self.known(path)?;
        self.fail_known(path)
    }

    fn fail_known(&self, path: PathBuf) -> Result<(), HostError> {
        let (index, member) = self.on_coordinator(move |array| array.place_of(&path))??;
        AllLanes(self).fail(index, member)
    }

    /// Removes a failed drive or a spare, and closes it.
    ///
    /// # Errors
    /// The drive is in a slot.
    pub fn remove(&self, path: PathBuf) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        self.remove_in_turn(path)
    }

    fn remove_in_turn(&self, path: PathBuf) -> Result<(), HostError> {
        let path = self.known(path)?;
        let opened = path.clone();
        // Closed here, and not on a lane: the close may wait for the drive.
        let _opened = self.on_coordinator(move |array| array.opened(&opened))?;
        let (index, member) = self.on_coordinator(move |array| array.place_of(&path))??;
        AllLanes(self).remove(index, member)
    }

    /// Adds a drive: a member that was away returns by the write-intent bitmap, any other becomes a spare. Returns what it did,
    /// in words. `open` opens the drive; `span`: the array of the tree to add it to, by name.
    ///
    /// # Errors
    /// As `open`; the drive carries something and `force` is not set, or it is unsuitable.
    pub fn add(
        &self,
        open: impl FnOnce() -> Result<OpenedDrive, HostError>,
        span: Option<String>,
        force: bool,
    ) -> Result<String, HostError> {
        self.join(open, JoinByPath { span, force, return_only: false, replaces: None }, None)
    }

    /// Adds a drive that is at the path of a failed member, which leaves the list once the drive has its metadata.
    ///
    /// # Errors
    /// As [`ArrayLanes::add`], or [`ArrayLanes::take_back`] if `return_only`.
    pub fn add_at(
        &self,
        failed: PathBuf,
        drive: OpenedDrive,
        span: Option<String>,
        force: bool,
        return_only: bool,
    ) -> Result<String, HostError> {
        self.join(move || Ok(drive), JoinByPath { span, force, return_only, replaces: None }, Some(failed))
    }

    /// Checks that a drive could be added, and allocates the space of its metadata where it is a file with holes; nothing else
    /// changes.
    ///
    /// # Errors
    /// As [`ArrayLanes::add`], or [`ArrayLanes::take_back`] if `return_only`.
    pub fn may_add(&self, drive: OpenedDrive, span: Option<String>, force: bool, return_only: bool) -> Result<(), HostError> {
        // What a dropped member lacks is known once the drop is recorded.
        let mut lanes = AllLanes(self);
        lanes.redundant_arrays()?.into_iter().try_for_each(|array| lanes.command(array, Command::CommitDrops))?;
        let (found, join) = (drive.found(), JoinByPath { span, force, return_only, replaces: None });
        let joining = self.on_coordinator(move |array| array.plan_for(&found, &join))??;
        drive.allocate(&joining)
    }

    /// Adds a drive that has come back by itself: a member returns to the slot that it held by the write-intent bitmap, and a
    /// spare becomes a spare again. Every other drive is left as it is. Returns what it did, in words.
    ///
    /// # Errors
    /// As `open`; the drive cannot return, for example because its slot has another member.
    pub fn take_back(&self, open: impl FnOnce() -> Result<OpenedDrive, HostError>) -> Result<String, HostError> {
        self.join(open, JoinByPath { span: None, force: false, return_only: true, replaces: None }, None)
    }

    /// `leaves`: the path of a failed member that leaves the list just before the drive joins.
    fn join(
        &self,
        open: impl FnOnce() -> Result<OpenedDrive, HostError>,
        join: JoinByPath,
        leaves: Option<PathBuf>,
    ) -> Result<String, HostError> {
        self.on_coordinator(|array| array.with_engine(|engine| engine.may_change()))??;
        let mut held = None;
        let text = AllLanes(self).add(|_| {
            let (drive, turn) = self.prepare(open()?, join)?;
            leaves.map_or(Ok(()), |path| self.remove_in_turn(path))?;
            held = Some((drive.0.ready.drive.clone(), turn));
            Ok(drive)
        })?;
        self.each(|array| array.look_for_holes())?;
        Ok(text)
    }

    /// Prepares a drive to join. Its metadata are written on a thread of their own, beside other commands. So the array may have
    /// changed, and the drive is checked again when it joins, in the turn that this returns. As long as the caller holds the
    /// drive too, no lane is its last owner, which may have to wait for it.
    fn prepare(
        &self,
        new: OpenedDrive,
        join: JoinByPath,
    ) -> Result<((PreparedDrive, JoinByPath), MutexGuard<'_, ()>), HostError> {
        let (found, first) = (new.found(), join.clone());
        let joining = self.on_coordinator(move |array| array.plan_for(&found, &first))??;
        let prepared = new.prepare(joining)?;
        Ok(((prepared, join), self.one_at_a_time()))
    }

    /// Replaces a drive that still works: the new one is added as a spare, filled by copy, and then takes the slot.
    ///
    /// # Errors
    /// As [`ArrayLanes::add`].
    pub fn replace(&self, old: PathBuf, new: OpenedDrive, force: bool) -> Result<String, HostError> {
        let old = self.known(old)?;
        let (drive, _turn) = self.prepare(new, JoinByPath { span: None, force, return_only: false, replaces: Some(old) })?;
        let _held = drive.0.ready.drive.clone();
        let text = AllLanes(self).join(drive)?;
        self.each(|array| array.look_for_holes())?;
        Ok(text)
    }

    /// As [`ArrayLanes::replace`], with a spare that is there already; `None`: `spare` is not one.
    ///
    /// # Errors
    /// The drive `old` is not in sync, or the drives belong to different spans.
    pub fn replace_by_spare(&self, old: PathBuf, spare: PathBuf) -> Result<Option<String>, HostError> {
        let _turn = self.one_at_a_time();
        let (old, spare) = (self.known(old)?, self.known(spare)?);
        let is_spare = spare.clone();
        if !self.on_coordinator(move |array| array.has_spare(&is_spare))? {
            return Ok(None);
        }
        let (index, member, spare, text) = self.on_coordinator(move |array| array.replace_by_spare(&old, &spare))??;
        AllLanes(self).replace(index, member, spare)?;
        Ok(Some(text))
    }

    /// Starts a scrub of the array and its spans at a position of the sync space: 0, or the position at which an earlier scrub
    /// was stopped.
    ///
    /// # Errors
    /// Another sweep runs on some lane, or there is nothing to compare.
    pub fn scrub(&self, repair: bool, from_sector: u64) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        if self.merger.is_paused() {
            return Err(Refusal::ScrubWhilePaused.into());
        }
        let report = self.report()?;
        if let Some(sweep) = report.tree().into_iter().find_map(|array| array.status.sweep.as_ref()) {
            return Err(Refusal::scrub_beside(sweep).into());
        }
        self.needs_redundancy()?;
        AllLanes(self).scrub(repair, from_sector)
    }

    /// Stops a scrub before its end.
    ///
    /// # Errors
    /// There is nothing to compare.
    pub fn cancel_scrub(&self) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        self.needs_redundancy()?;
        AllLanes(self).cancel_scrub()
    }

    /// Pauses sweeps at the end of their windows, or lets them go on.
    ///
    /// # Errors
    /// The array has no redundancy.
    pub fn pause(&self, paused: bool) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        self.merger.set_paused(paused);
        self.engines(move |engine| engine.pause(paused))
    }

    /// Bounds the speed of sweeps, in sectors of each member per second, and sets what latency they leave to clients. `None`
    /// leaves a setting as it is.
    ///
    /// # Errors
    /// The array has no redundancy.
    pub fn set_speed(&self, min: Option<u64>, max: Option<u64>, target: Option<Option<LatencyTarget>>) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        self.engines(move |engine| {
            engine.set_speed(min, max);
            if let Some(target) = target {
                engine.set_latency_target(target);
            }
        })
    }

    /// Sets when writes are acknowledged, and what flushes mean. Spans follow the array above them.
    ///
    /// # Errors
    /// When a lane has ended.
    pub fn set_write_policy(&self, policy: WritePolicy) -> Result<(), HostError> {
        self.each(move |array| array.with_engine(|engine| engine.set_write_policy(policy))).map(drop)
    }

    /// The present state of the array, and of its lanes; `None` if a lane does not answer in time.
    ///
    /// # Errors
    /// A lane has ended.
    pub fn report_within(&self, patience: Duration) -> Result<Option<(ArrayReport, Vec<LaneReport>)>, HostError> {
        let end = Instant::now() + patience;
        let (mut reports, mut lanes) = (Vec::new(), Vec::new());
        for lane in &self.lanes {
            let report = |array: &mut SectorDevice<HostedArray>| (ArrayReport::of(array), LaneReport::of(array));
            match lane.call_within(end.saturating_duration_since(Instant::now()), report)? {
                Some((report, lane)) => {
                    reports.push(report);
                    lanes.push(lane);
                }
                None => return Ok(None),
            }
        }
        Ok(Some((ArrayReport::joined(reports), lanes)))
    }

    /// True if any lane is at work, or will be without a message. Does not wake a lane.
    pub fn is_awake(&self) -> bool {
        self.lanes.iter().any(LaneHandle::is_awake)
    }

    /// The lane that has made no progress for longest: for how long, its name, and where in the kernel its thread waits.
    pub fn stands_still(&self) -> (Duration, String, Option<String>) {
        let longest = self.lanes.iter().max_by_key(|lane| lane.stands_still()).expect("an array runs on a lane");
        let (name, place) = longest.whereabouts();
        (longest.stands_still(), name, place)
    }

    /// Drives in use that have requests and have ended none for this long.
    fn silent_drives(&self, patience: Duration) -> Result<Vec<SilentDrive>, HostError> {
        let (report, now) = (self.report()?, monotonic_now());
        let mut silent = Vec::new();
        for array in report.tree() {
            for (member, status) in array.members.iter().zip(&array.status.members) {
                if let MemberReport::Drive(drive) = member
                    && status.state != MemberState::Failed
                    && let silence = Duration::from_nanos(drive.silence(now))
                    && silence >= patience
                {
                    silent.push(SilentDrive { path: drive.info.path.clone(), seconds: silence.as_secs() });
                }
            }
        }
        Ok(silent)
    }

    /// Fails drives that do not answer, so that a stop can go on without them. Returns those that the array cannot fail, each
    /// with the reason.
    fn stop_without(
        &self,
        patience: Duration,
        told: &mut impl FnMut(String),
    ) -> Result<Vec<(SilentDrive, HostError)>, HostError> {
        let mut silent = self.silent_drives(patience)?;
        loop {
            let (before, mut needed) = (silent.len(), Vec::new());
            for drive in silent {
                // It may have failed all the same: the array may have failed it before, or the other members cannot record it
                // yet, as another one does not answer either.
                match self.fail_known(drive.path.clone()) {
                    Err(refusal) if !self.has_failed(&drive.path)? => needed.push((drive, refusal)),
                    Ok(()) | Err(_) => told(format!(
                        "{} has not answered for {} s, and the array stops without it: it counts as failed; `add` brings it back",
                        drive.path.display(),
                        drive.seconds
                    )),
                }
            }
            // One may have answered meanwhile, and one may be dispensable now that another has failed.
            silent = self.silent_drives(patience)?;
            needed.retain(|(drive, _)| silent.iter().any(|silent| silent.path == drive.path));
            if needed.is_empty() || needed.len() == before {
                return Ok(needed);
            }
        }
    }

    /// Fails drives that have been silent for longer than a stop in a hurry waits, so that the requests of clients can end before the
    /// array stops; `told` receives what was done.
    ///
    /// # Errors
    /// One of them is needed, or nothing may be failed since the array is read-only; or a lane has ended.
    pub fn go_on_without_silent(&self, mut told: impl FnMut(String)) -> Result<(), HostError> {
        let _turn = self.one_at_a_time();
        match self.stop_without(HURRIED_STOP_WITHOUT, &mut told)?.pop() {
            Some((_, refusal)) => Err(refusal),
            None => Ok(()),
        }
    }

    /// True if the drive at `path` has failed in this run.
    fn has_failed(&self, path: &Path) -> Result<bool, HostError> {
        let path = path.to_owned();
        self.on_coordinator(move |array| array.has_failed(&path))
    }

    /// Ends the lanes without waiting for drives.
    fn leave(&self) -> Result<(), HostError> {
        Ok(self.lanes.iter().rev().map(LaneHandle::leave).fold(Ok(()), Result::and)?)
    }

    /// Waits for the end of submitted requests, marks the members clean, and ends the lanes. Returns the last state. The wait for
    /// drives that do not answer is limited, see `ArrayLanes::stop_without`; `told` receives what was done about them.
    ///
    /// # Errors
    /// A lane has ended before, or ends by a panic, or a drive does not answer that the array cannot fail. Or the array has
    /// stopped, and what clients wrote may not be durable, or superblocks do not say "clean".
    pub fn stop(&self, told: impl FnMut(String)) -> Result<ArrayReport, HostError> {
        self.stop_within(false, told)
    }

    /// As [`ArrayLanes::stop`], with less patience for drives that do not answer.
    ///
    /// # Errors
    /// The same.
    pub fn stop_in_a_hurry(&self, told: impl FnMut(String)) -> Result<ArrayReport, HostError> {
        self.stop_within(true, told)
    }

    fn stop_within(&self, hurries: bool, mut told: impl FnMut(String)) -> Result<ArrayReport, HostError> {
        let _turn = self.one_at_a_time();
        self.on_coordinator(|array| array.begin_stop())?;
        let (patience, pause) = match hurries {
            true => (HURRIED_STOP_WITHOUT, HURRIED_LOOK),
            false => (STOP_WITHOUT, LOOK_FOR_SILENCE),
        };
        let mut waits_for = BTreeSet::new();
        let begun = Instant::now();
        let mut look_at = begun + pause;
        while !self.on_coordinator(|array| array.is_stopped())? {
            if Instant::now() >= look_at {
                look_at = Instant::now() + pause;
                if !hurries && begun.elapsed() < STOP_WITHOUT {
                    for SilentDrive { path, seconds } in self.silent_drives(STOP_TELLS_AFTER)? {
                        if waits_for.insert(path.clone()) {
                            let (path, limit) = (path.display(), STOP_WITHOUT.as_secs());
                            told(format!(
                                "the stop waits for {path}, which has not answered for {seconds} s; it goes on without it after {limit} s"
                            ));
                        }
                    }
                    continue;
                }
                let report = self.report()?;
                if report.tree().into_iter().all(|array| array.status.read_only) {
                    // No member may be failed, and nothing is left to write.
                    let Some(SilentDrive { path, seconds }) = self.silent_drives(patience)?.pop() else { continue };
                    self.leave()?;
                    told(format!(
                        "{} has not answered for {seconds} s, and the array stops without waiting for it: the array is read-only, so nothing is lost",
                        path.display()
                    ));
                    return Ok(report);
                }
                let needed = self.stop_without(patience, &mut told)?;
                if let Some((SilentDrive { path, seconds }, refusal)) = needed.first() {
                    self.leave()?;
                    return Err(HostError::Refused(format!(
                        "{} has not answered for {seconds} s, and the array cannot stop cleanly without it: the members are left as after a \
                         power cut, and the next start recovers from that ({refusal})",
                        path.display()
                    )));
                }
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let report = self.report()?;
        let is_clean = self.on_coordinator(|array| array.has_stopped_cleanly())?;
        // The coordinator makes the metadata updates of all lanes, so it ends last.
        self.lanes.iter().rev().map(LaneHandle::stop).fold(Ok(()), Result::and)?;
        is_clean.map(|()| report)
    }
}

/// The lanes, for changes that concern all of them.
struct AllLanes<'a>(&'a ArrayLanes);

impl Lanes for AllLanes<'_> {
    type Drive = HostedDrive;
    type Prepared = (PreparedDrive, JoinByPath);
    type Error = HostError;

    fn on_each(&mut self, work: impl Fn(&mut Tree<HostedDrive>) + Clone + Send + 'static) -> Result<(), HostError> {
        self.0.each(move |array| work(array.tree_mut())).map(drop)
    }

    fn redundant_arrays(&mut self) -> Result<Vec<usize>, HostError> {
        self.0.on_coordinator(|array| array.redundant())
    }

    fn command(&mut self, array: usize, command: ArrayCommand) -> Result<(), HostError> {
        self.0.carry_out(array, command)
    }

    fn offer(&mut self, (prepared, join): (PreparedDrive, JoinByPath)) -> Result<Joined, HostError> {
        let drive = prepared.ready.drive.clone();
        let number = self.0.offer_count.fetch_add(1, Ordering::SeqCst);
        let joined = self.0.on_coordinator(move |array| array.offer_first(prepared, &join, number))??;
        let (index, number) = (joined.array, joined.offer);
        for lane in &self.0.lanes[1..] {
            let drive = drive.clone();
            lane.call(move |array| array.offer(index, number, drive))?;
        }
        Ok(joined)
    }
}

impl Drop for ArrayLanes {
    fn drop(&mut self) {
        while self.lanes.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayLevel, CreateSpec, create};
    use std::sync::mpsc::channel;
    use stria_array::Level;
    use stria_format::md::BitmapChoice;

    /// Two drives were added at once to a RAID 50 that lacked one in each span. Both were prepared for the first span, and the
    /// second one joined the other span with the metadata of the first.
    #[test]
    fn a_drive_joins_no_other_span_than_the_one_it_was_prepared_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let image = |index: usize| {
            let path = folder.path().join(format!("d{index}"));
            std::fs::File::create(&path).and_then(|file| file.set_len(8 << 20)).expect("an image");
            path
        };
        let drives: Vec<Option<PathBuf>> = (0..6).map(|index| (index % 3 != 0).then(|| image(index))).collect();
        let spec = CreateSpec {
            strip_sectors: Some(16),
            drives: drives.clone(),
            bitmap: BitmapChoice::Internal { chunk_bytes: Some(65536) },
            ..CreateSpec::new("tank", ArrayLevel::Striped(Level::Raid5), &[])
        };
        create(&spec).expect("an array");
        let drives: Vec<PathBuf> = drives.into_iter().flatten().collect();
        let (notices, _events) = channel();
        let (array, _) =
            ArrayLanes::open(&drives, OpenOptions::default(), vec![Lane::new("lane 0")], notices).expect("it starts");
        let anywhere = || JoinByPath { span: None, force: false, return_only: false, replaces: None };
        let open = |index: usize| OpenedDrive::open(&image(index), stria_drive::IoOptions::default());
        let (late, turn) = array.prepare(open(7).expect("it opens"), anywhere()).expect("it is prepared");
        drop(turn);
        array.add(|| open(8), None, false).expect("it joins the first span");
        let refused = AllLanes(&array).join(late).expect_err("its place is taken").to_string();
        assert!(refused.ends_with("d7 did not join, as the array has changed meanwhile: add it again"), "{refused}");
        let added = array.add(|| open(9), None, false).expect("the other span lacks one");
        assert!(added.contains("tank-span1"), "{added}");
        array.stop(drop).expect("it stops");
    }
}
