//! Sweeps: resync, rebuild and scrub, window by window, beside clients.
//!
//! A window locks its part of the sync space, so a client waits for at most one. Several windows run at once where members are
//! slower than the processor. The **watermark** is the position below which all windows are done: below it a rebuilding member
//! is trusted, and from it a sweep resumes after a restart. Beside clients, windows keep to a speed that leaves clients their
//! latency ([`steer`](crate::steer)), but not below the lower bound.

use crate::address::{SweepSector, SweepSpace, rows_of_sweep, sync_of_sweep};
use crate::core::Core;
use crate::member::RebuildTarget;
use crate::of_level::of_level;
use crate::personality::Personality;
use crate::refusal::Refusal;
use crate::space::Arriving;
use crate::status::{Event, Findings, StopCause, SweepFault, SweepKind, SweepStatus, percent};
use crate::task::Waiters;
use crate::window::{WINDOW_SECTORS, Work, check_health};
use crate::{DropCause, Family, Flaw, Level, MemberSector, MemberState, Synced, mirror_sweep};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use stria_block::Nanos;
use stria_block::ranges::without;

/// The most windows at once, 4 MiB of each member: enough to keep members busy while parity is computed and other answers are on
/// their way. With 2 MiB, members of 200 MB/s that answer after 4 ms were rebuilt at 0.76 of their speed.
const WINDOW_COUNT_MAX: usize = 32;
/// The most steps over ranges that are not due before clients get their turn.
const SKIPS_MAX: u32 = 512;
/// Clients count as working for this long after their last request.
const CLIENT_PAUSE: Nanos = 20_000_000;
/// The time between two writes of progress to the superblocks: the most that a crash costs.
const CHECKPOINT: Nanos = 10_000_000_000;
/// 20 s: reported speed and time left are based on so long a time.
const SPEED_OVER: Nanos = 20_000_000_000;
/// The time between two samples of progress for that.
const MARK_EVERY: Nanos = 1_000_000_000;
/// 20 MiB/s of each member: the lower bound, also while clients work.
const SPEED_MIN: u64 = (20 << 20) / 512;
/// A bound that no sweep reaches, in sectors per second.
const UNBOUNDED: u64 = u64::MAX;

/// A running sweep.
struct Sweep {
    kind: SweepKind,
    targets: SmallVec<[RebuildTarget; 2]>,
    /// Only chunks that the write-intent bitmap marks.
    by_bitmap: bool,
    window: u64,
    /// R51: one member is rebuilt alone, and nothing of it was filled before.
    from_nothing: bool,
    /// Its start.
    from: SweepSector,
    end: SweepSector,
    next: Cell<SweepSector>,
    running: RefCell<BTreeSet<SweepSector>>,
    workers: Cell<usize>,
    error: RefCell<Option<SweepFault>>,
    found: Cell<Findings>,
    started: Nanos,
    /// Times, each with the watermark at that time, from which the speed is computed. The oldest is [`SPEED_OVER`] old, or as old
    /// as the sweep.
    marks: RefCell<VecDeque<(Nanos, SweepSector)>>,
    checkpoint: Cell<Nanos>,
    finished: Waiters,
}

impl Sweep {
    fn watermark(&self) -> SweepSector {
        self.running.borrow().first().copied().unwrap_or(self.next.get()).min(self.end)
    }

    /// Samples the progress.
    fn mark(&self, now: Nanos) {
        let mut marks = self.marks.borrow_mut();
        if marks.back().is_none_or(|&(then, _)| now >= then + MARK_EVERY) {
            marks.push_back((now, self.watermark()));
            while marks.get(1).is_some_and(|&(then, _)| now >= then + SPEED_OVER) {
                marks.pop_front();
            }
        }
    }

    /// Sectors per second, over the last seconds.
    fn speed(&self, now: Nanos) -> u64 {
        let marks = self.marks.borrow();
        let old = marks.iter().rev().find(|&&(then, _)| now >= then + SPEED_OVER).or(marks.front());
        let Some(&(then, before)) = old.filter(|&&(then, _)| now > then) else { return 0 };
        (u128::from(self.watermark().max(before) - before) * 1_000_000_000 / u128::from(now - then)) as u64
    }
}

/// Decides which sweep runs, and runs it.
pub(crate) struct Sweeper {
    current: RefCell<Option<Rc<Sweep>>>,
    /// A scrub that was requested: repair, start position, and what earlier parts of it found.
    ordered: Cell<Option<(bool, u64, Findings)>>,
    /// The running scrub must end.
    cancelled: Cell<bool>,
    paused: Cell<bool>,
    stopped: Cell<bool>,
    /// What the last finished scrub found, and whether it repaired the mismatches.
    last_scrub: Cell<Option<(Findings, bool)>>,
    speed_min: Cell<u64>,
    speed_max: Cell<u64>,
    next_allowed: Cell<Nanos>,
    /// Counts changes of the speed bounds.
    bounds: Cell<u64>,
    /// The speed that is kept to because clients work.
    held: Cell<Option<u64>>,
    /// A rebuild that failed is not tried again with the same members.
    gave_up: RefCell<SmallVec<[crate::MemberId; 4]>>,
}

impl Sweeper {
    pub fn new() -> Self {
        Self {
            current: RefCell::default(),
            ordered: Cell::new(None),
            cancelled: Cell::new(false),
            paused: Cell::new(false),
            stopped: Cell::new(false),
            last_scrub: Cell::new(None),
            speed_min: Cell::new(SPEED_MIN),
            speed_max: Cell::new(UNBOUNDED),
            next_allowed: Cell::new(0),
            bounds: Cell::new(0),
            held: Cell::new(None),
            gave_up: RefCell::default(),
        }
    }

    /// The running sweep, or the scrub that is about to run.
    pub fn status(&self, core: &Core) -> Option<SweepStatus> {
        let current = self.current.borrow();
        let Some(sweep) = current.as_ref() else {
            let due = !self.paused.get() && core.health() != crate::Health::Failed;
            let (repair, from, found) = self.ordered.get().filter(|_| due)?;
            return Some(SweepStatus {
                kind: SweepKind::Scrub { repair },
                done_sectors: from,
                total_sectors: core.geometry.sync_sectors(),
                sectors_per_s: 0,
                eta_s: None,
                held_sectors_per_s: None,
                found,
                paused: false,
            });
        };
        let done = sweep.watermark();
        let speed = sweep.speed(core.now());
        Some(SweepStatus {
            kind: sweep.kind,
            done_sectors: done.get(),
            total_sectors: sweep.end.get(),
            sectors_per_s: speed,
            eta_s: (sweep.end - done).checked_div(speed),
            held_sectors_per_s: self.held.get(),
            found: sweep.found.get(),
            paused: self.paused.get(),
        })
    }

    /// Starts one more window of the running sweep, while members are waited for or clients leave time for more. As long as
    /// members answer at once a single window is enough, and its buffers stay in the processor's caches.
    pub fn widen(self: &Rc<Self>, core: &Rc<Core>) {
        let Some(sweep) = self.current.borrow().clone() else { return };
        if (1..WINDOW_COUNT_MAX).contains(&sweep.workers.get()) {
            sweep.workers.set(sweep.workers.get() + 1);
            core.ready.spawn(work(Rc::clone(core), Rc::clone(self), sweep));
        }
    }

    /// What the last finished scrub found, and whether it repaired the mismatches.
    pub fn last_scrub(&self) -> Option<(Findings, bool)> {
        self.last_scrub.get()
    }

    pub fn is_running(&self) -> bool {
        self.current.borrow().is_some()
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    pub fn set_stopped(&self) {
        self.stopped.set(true);
    }

    pub fn set_speed(&self, core: &Core, min: Option<u64>, max: Option<u64>) {
        self.speed_min.set(min.unwrap_or(self.speed_min.get()).max(1));
        self.speed_max.set(max.unwrap_or(self.speed_max.get()).max(1));
        self.next_allowed.set(0);
        self.bounds.set(self.bounds.get() + 1);
        core.sweep_changed.wake_all(&core.ready);
    }

    /// True if the running sweep must end after its current windows.
    fn halts(&self, core: &Core, kind: SweepKind) -> bool {
        // An array becomes read-only when another lane gives up replay.
        let must_not_write = core.run.is_read_only() && kind != (SweepKind::Scrub { repair: false });
        self.paused.get() || self.cancelled.get() || core.run.is_stopping() || must_not_write || self.gives_way(core, kind)
    }

    /// True if this is no rebuild, and there is a member to fill: redundancy must not wait for hours until all is compared.
    fn gives_way(&self, core: &Core, kind: SweepKind) -> bool {
        match kind {
            SweepKind::Scrub { .. } | SweepKind::Resync => {
                may_rebuild(core) && (core.wants_spare() || self.has_new(&rebuild_targets(core).0))
            }
            SweepKind::Rebuild => false,
        }
    }

    /// True if one of these was not tried in vain.
    fn has_new(&self, targets: &[RebuildTarget]) -> bool {
        targets.iter().any(|target| !self.gave_up.borrow().contains(&target.member))
    }

    /// Whether a scrub may start.
    pub fn may_order(&self, core: &Core, repair: bool) -> Result<(), Refusal> {
        if let Some(sweep) = self.status(core) {
            return Err(Refusal::scrub_beside(&sweep));
        }
        if self.paused.get() {
            return Err(Refusal::ScrubWhilePaused);
        }
        if core.run.is_read_only() && repair {
            return Err(Refusal::RepairOfReadOnly);
        }
        if core.run.is_read_only() && (core.consistency.resync_from() != Synced::All || core.log.overlay.is_any()) {
            return Err(Refusal::ScrubBeforeResync);
        }
        Ok(())
    }

    /// Starts a scrub.
    pub fn order(&self, core: &Core, repair: bool, from_sector: u64) {
        self.ordered.set(Some((repair, from_sector, Findings::default())));
        core.sweep_changed.wake_all(&core.ready);
    }

    pub fn cancel_scrub(&self, core: &Core) {
        if let Some((repair, from, _)) = self.ordered.take() {
            let cause = StopCause::Cancelled { percent: percent(from, core.geometry.sync_sectors()) };
            core.event(Event::SweepStopped { kind: SweepKind::Scrub { repair }, cause, at_sector: from, goes_on: false });
        }
        let scrubs = self.current.borrow().as_ref().is_some_and(|sweep| matches!(sweep.kind, SweepKind::Scrub { .. }));
        self.cancelled.set(scrubs);
        core.sweep_changed.wake_all(&core.ready);
    }

    /// Pauses the running sweep at the end of its windows, or resumes it there.
    pub fn pause(&self, core: &Core, pause: bool) {
        self.paused.set(pause);
        core.sweep_changed.wake_all(&core.ready);
    }
}

/// Members that are rebuilding, the position from which they lack data, and whether they lack only marked chunks.
fn rebuild_targets(core: &Core) -> (SmallVec<[RebuildTarget; 2]>, Synced<SweepSpace>, bool) {
    let members = core.members.borrow();
    let mut found: SmallVec<[RebuildTarget; 2]> = SmallVec::new();
    let (mut from, mut by_bitmap) = (Synced::All, true);
    for id in members.active() {
        let member = members.get(id);
        if matches!(member.state, MemberState::Rebuilding | MemberState::Replacing) && core.peers.rebuilt(id).is_none() {
            let copied = member.state == MemberState::Replacing;
            found.push(RebuildTarget { slot: member.slot.expect("it has a slot"), member: id, copied });
            from = from.min(member.config.recovered);
            by_bitmap &= member.config.by_bitmap;
        }
    }
    (found, from.map(SweepSector::of_row), by_bitmap)
}

/// True if members may be filled.
fn may_rebuild(core: &Core) -> bool {
    !core.run.is_read_only() && core.log.stage() >= crate::log::StartStage::Replayed
}

/// A sweep to run: kind, members to rebuild, start, only marked chunks, and what was found so far.
type Job = (SweepKind, SmallVec<[RebuildTarget; 2]>, Synced<SweepSpace>, bool, Findings);

/// The sweep that should run now. On a read-only array only a scrub without repair.
fn next_job(core: &Core, sweeper: &Sweeper) -> Option<Job> {
    if sweeper.paused.get() || core.run.is_stopping() || !core.geometry.level().is_redundant() {
        return None;
    }
    if core.health() == crate::Health::Failed {
        return None;
    }
    if core.run.is_read_only() {
        return ordered_scrub(sweeper).filter(|(kind, ..)| *kind == SweepKind::Scrub { repair: false });
    }
    if !may_rebuild(core) {
        return None;
    }
    while let Some((member, slot)) = core.take_spare() {
        core.event(Event::SpareTaken { member, slot });
        core.metadata.request_commit(&core.ready);
    }
    let (targets, from, by_bitmap) = rebuild_targets(core);
    if sweeper.has_new(&targets) {
        return Some((SweepKind::Rebuild, targets, from, by_bitmap, Findings::default()));
    }
    let resync = core.consistency.resync_from();
    if resync != Synced::All {
        return Some((
            SweepKind::Resync,
            SmallVec::new(),
            resync.map(SweepSector::of_sync),
            core.consistency.has_bitmap(),
            Findings::default(),
        ));
    }
    ordered_scrub(sweeper)
}

fn ordered_scrub(sweeper: &Sweeper) -> Option<Job> {
    let (repair, from, found) = sweeper.ordered.take()?;
    Some((SweepKind::Scrub { repair }, SmallVec::new(), Synced::up_to(from), false, found))
}

/// Runs one sweep after the other for as long as the array lives.
pub(crate) async fn sweep_forever(core: Rc<Core>, sweeper: Rc<Sweeper>) {
    loop {
        let mut job = None;
        core.ready
            .until(&core.sweep_changed, || {
                job = next_job(&core, &sweeper);
                job.is_some()
            })
            .await;
        let (kind, targets, from, by_bitmap, found) = job.expect("waited for one");
        run(&core, &sweeper, kind, targets, from, by_bitmap, found).await;
    }
}

/// 10 s: the pause after a sweep that failed.
const AGAIN_AFTER: Nanos = 10_000_000_000;

async fn run(
    core: &Rc<Core>,
    sweeper: &Rc<Sweeper>,
    kind: SweepKind,
    targets: SmallVec<[RebuildTarget; 2]>,
    from: Synced<SweepSpace>,
    by_bitmap: bool,
    found: Findings,
) {
    sweeper.cancelled.set(false);
    if matches!(kind, SweepKind::Scrub { .. }) && found.mismatch_sectors == 0 {
        core.members.borrow_mut().forget_wrong();
    }
    let geometry = &core.geometry;
    let window = core.partition.window(WINDOW_SECTORS);
    let end = if kind == SweepKind::Rebuild { geometry.member_sectors(0) } else { geometry.sync_sectors() };
    let end = SweepSector::new(end);
    let filled = from.end_in(end.get()).get();
    let from = SweepSector::new(filled / window * window);
    let from_nothing = filled == 0 && !by_bitmap && targets.len() == 1;
    let sweep = Rc::new(Sweep {
        kind,
        targets,
        by_bitmap,
        window,
        from_nothing,
        from,
        end,
        next: Cell::new(from),
        running: RefCell::default(),
        workers: Cell::new(1),
        error: RefCell::default(),
        found: Cell::new(found),
        started: core.now(),
        marks: RefCell::new(VecDeque::from([(core.now(), from)])),
        checkpoint: Cell::new(core.now()),
        finished: Waiters::default(),
    });
    *sweeper.current.borrow_mut() = Some(Rc::clone(&sweep));
    core.steering.watch(true);
    core.event(Event::SweepStarted(kind));
    // R18: a rebuilding member takes part in this run's log, and had none in the last one's.
    if kind == SweepKind::Rebuild
        && let Err(error) = core.log_open().await
    {
        let cause = StopCause::Failed(SweepFault::LogCannotBegin { reason: error });
        core.event(Event::SweepStopped { kind, cause, at_sector: from.get(), goes_on: true });
        let due = core.clock.wake_at(&core.ready, core.now() + AGAIN_AFTER);
        core.ready.until(&core.sweep_changed, || core.now() >= due || sweeper.halts(core, kind)).await;
        return ended(core, sweeper);
    }
    core.ready.spawn(work(Rc::clone(core), Rc::clone(sweeper), Rc::clone(&sweep)));
    core.ready.until(&sweep.finished, || sweep.workers.get() == 0).await;
    let mut error = sweep.error.borrow_mut().take();
    if kind == SweepKind::Rebuild && error.is_none() && sweep.watermark() == end {
        error = fill_again(core, &sweep).await.err();
    }
    // A member may take a slot that a member which is gone could not read all of.
    error = error.or_else(|| check_health(core).err());
    if kind == (SweepKind::Scrub { repair: true }) && error.is_none() {
        // Repairs must survive a power cut.
        error = core.flush_volatile().await.err().map(SweepFault::from);
    }
    if let Some(reason) = error {
        failed(core, sweeper, &sweep, reason).await;
    } else if sweep.watermark() < end {
        interrupted(core, sweeper, &sweep);
    } else {
        finished(core, sweeper, &sweep).await;
    }
    if !matches!(kind, SweepKind::Scrub { .. }) {
        core.recorded(core.metadata.request_commit(&core.ready)).await;
    }
    ended(core, sweeper);
}

/// No sweep runs any more: the next one may begin.
fn ended(core: &Core, sweeper: &Sweeper) {
    *sweeper.current.borrow_mut() = None;
    core.steering.watch(false);
    core.sweep_changed.wake_all(&core.ready);
    core.metadata.intent_waiters.wake_all(&core.ready);
}

/// Fills bad blocks of members before they are in sync: those in rows before the sweep's start (R67), and once more all that a
/// replacement lacks (R90). The replaced member could not read these rows before. It may be the only one that holds them, and is
/// about to be let go.
async fn fill_again(core: &Core, sweep: &Sweep) -> Result<(), SweepFault> {
    for target in &sweep.targets {
        let passed = if target.copied { sweep.end } else { sweep.from };
        fill(core, target, SweepSector::ZERO..passed).await?;
    }
    Ok(())
}

/// Fills the bad blocks of a member that is not in sync yet, among the rows of this range.
async fn fill(core: &Core, target: &RebuildTarget, range: Range<SweepSector>) -> Result<(), SweepFault> {
    let work = Work { kind: SweepKind::Rebuild, targets: std::slice::from_ref(target) };
    let bad = core.members.borrow().get(target.member).bad_rows(&rows_of_sweep(&range));
    for (rows, _) in bad.iter().flat_map(|rows| of_level!(core, P => P::recoverable(core, target.slot, rows))) {
        if core.run.is_stopping() {
            return Err(SweepFault::ArrayStops);
        }
        let window = SweepSector::of_row(rows.start)..SweepSector::of_row(rows.end);
        of_level!(core, P => P::sweep(core, &work, window).await)?;
    }
    Ok(())
}

/// A sweep that failed now may work later; at once it would fail again.
async fn failed(core: &Rc<Core>, sweeper: &Rc<Sweeper>, sweep: &Sweep, reason: SweepFault) {
    let kind = sweep.kind;
    let is_rebuild = kind == SweepKind::Rebuild && targets_alive(core, sweep);
    // R68: what others have no space for may be written, or filled, at any time.
    let waits = is_rebuild && {
        let members = core.members.borrow();
        members.active().any(|member| members.get(member).lacks_space)
    };
    let targets = sweep.targets.iter().map(|target| target.member).filter(|_| is_rebuild);
    *sweeper.gave_up.borrow_mut() = targets.collect();
    let cause = StopCause::Failed(reason);
    core.event(Event::SweepStopped { kind, cause, at_sector: sweep.watermark().get(), goes_on: false });
    if waits {
        core.ready.spawn(rebuild_again(Rc::clone(core), Rc::clone(sweeper)));
    }
    let due = core.now() + AGAIN_AFTER;
    while kind == SweepKind::Resync && core.now() < due && !core.run.is_stopping() {
        core.sleep_until((core.now() + AGAIN_AFTER / 100).min(due)).await;
    }
}

/// Forgets later that a rebuild failed. Meanwhile others may run: bad blocks are not filled before a resync that is due.
async fn rebuild_again(core: Rc<Core>, sweeper: Rc<Sweeper>) {
    core.sleep_until(core.now() + AGAIN_AFTER).await;
    sweeper.gave_up.borrow_mut().clear();
    core.sweep_changed.wake_all(&core.ready);
}

/// A sweep was stopped before its end. A scrub that was not cancelled goes on later.
fn interrupted(core: &Core, sweeper: &Sweeper, sweep: &Sweep) {
    let (kind, at) = (sweep.kind, sweep.watermark());
    let percent = percent(at.get(), sweep.end.get());
    let for_rebuild = !core.run.is_stopping() && !sweeper.paused.get();
    let mut cause = if for_rebuild { StopCause::GivesWay { percent } } else { StopCause::Paused { percent } };
    let mut goes_on = !core.run.is_stopping();
    if let SweepKind::Scrub { repair } = kind {
        if sweeper.cancelled.replace(false) {
            cause = StopCause::Cancelled { percent };
            goes_on = false;
        } else if core.run.is_stopping() {
            cause = StopCause::ArrayStops { percent };
        } else {
            sweeper.ordered.set(Some((repair, at.get(), sweep.found.get())));
        }
    }
    core.event(Event::SweepStopped { kind, cause, at_sector: at.get(), goes_on });
}

async fn finished(core: &Core, sweeper: &Sweeper, sweep: &Sweep) {
    let (kind, found, duration) = (sweep.kind, sweep.found.get(), core.now() - sweep.started);
    let mut wrong = Vec::new();
    match kind {
        SweepKind::Rebuild => {
            if core.report_rebuilt(&sweep.targets, sweep.from_nothing) {
                take_slots(core, &sweep.targets, sweep.from_nothing).await;
            }
        }
        SweepKind::Resync => core.consistency.mark_consistent_below(Synced::All),
        SweepKind::Scrub { repair } => {
            sweeper.last_scrub.set(Some((found, repair)));
            let members = core.members.borrow();
            let blamed = members.iter().filter(|member| member.wrong_sectors > 0);
            wrong.extend(blamed.map(|member| (member.config.id, member.wrong_sectors)));
        }
    }
    core.event(Event::SweepFinished { kind, found, wrong, duration });
}

fn targets_alive(core: &Core, sweep: &Sweep) -> bool {
    let members = core.members.borrow();
    sweep.targets.iter().all(|target| members.get(target.member).state != MemberState::Failed)
}

/// Writes superblocks that call rebuilt members in sync, before they count as such. What is in sync only in memory is
/// rebuilding again after a power cut. A replacement gets its slot after that, in an update of its own: torn, it must leave the
/// old member or the new (R12).
async fn commit_rebuilt(core: &Core, targets: &[RebuildTarget]) {
    for target in targets {
        let mut members = core.members.borrow_mut();
        let member = members.get_mut(target.member);
        if member.state != MemberState::Failed {
            (member.config.recovered, member.config.by_bitmap) = (Synced::All, false);
        }
    }
    core.recorded(core.metadata.request_commit(&core.ready)).await;
}

/// Waits until no rows of these members are bad blocks for a write without space elsewhere, and the lists on disk say so (R96).
/// What such writes have left since the sweep passed is filled before.
async fn await_arrival<'a>(core: &'a Core, targets: &[RebuildTarget]) -> Arriving<'a> {
    loop {
        for target in targets {
            let lacks_space = core.members.borrow().get(target.member).lacks_space;
            let all = SweepSector::ZERO..SweepSector::of_row(MemberSector::new(core.geometry.member_sectors(target.slot)));
            if lacks_space {
                // What it cannot fill is tried again once the member is in sync (R48).
                let _ = fill(core, target, all).await;
            }
        }
        let bad = || -> Vec<_> {
            let members = core.members.borrow();
            targets.iter().map(|target| members.get(target.member).config.bad_blocks.clone()).collect()
        };
        let left = bad();
        let arriving = core.no_space.arrive(&core.ready).await;
        if bad().iter().zip(&left).all(|(now, left)| without(now, left).is_empty()) {
            core.metadata.bad_blocks_written(&core.ready).await;
            return arriving;
        }
    }
}

/// Rebuilt members take their slots. `from_nothing`: one alone, all of which was rebuilt in this run.
pub(crate) async fn take_slots(core: &Core, targets: &[RebuildTarget], from_nothing: bool) {
    let _step = core.no_space.step(&core.ready).await;
    // R12: the update that says they are back writes the heads of their logs. Together with the one that calls them in sync, a
    // crash could leave a member in sync without a log, and such a member is not trusted.
    core.recorded(core.metadata.wanted()).await;
    let _arriving = if core.has(Flaw::InSyncBesideNoSpace) { None } else { Some(await_arrival(core, targets).await) };
    commit_rebuilt(core, targets).await;
    for target in targets {
        let mut members = core.members.borrow_mut();
        if members.get(target.member).state == MemberState::Failed {
            continue;
        }
        let replaced = members.take_slot(target.member);
        // R48: also what it brought, or could not be given.
        let bad = &members.get(target.member).config.bad_blocks;
        bad.iter().for_each(|rows| core.no_space.add_unfilled(target.member, rows.clone()));
        drop(members);
        core.event(Event::MemberInSync { member: target.member, slot: target.slot });
        core.no_space.retry_unrecoverable(&core.ready);
        if let Some(member) = replaced {
            match core.has(Flaw::ReplacedKeepsRequests) {
                true => core.exclude(member),
                false => core.let_go(member),
            }
            core.event(Event::MemberFailed { member, slot: Some(target.slot), cause: DropCause::Replaced });
        }
    }
    // Data rebuilt from parity, and parity rebuilt from data, is consistent by construction (R51). A copy is not. Nor is what the
    // member held before: a rebuild that goes on leaves the rows below its start as they are.
    let copied = targets.iter().any(|target| target.copied);
    let level = core.geometry.level();
    let is_computed = match level.family() {
        Family::Parity => level.parity_count() == 1,
        Family::Mirror | Family::Striped => false,
    };
    if !copied && is_computed && from_nothing && core.members.borrow().is_optimal() {
        let all = targets.iter().all(|target| core.members.borrow().slots()[target.slot].member == Some(target.member));
        if all && core.consistency.resync_from() != Synced::All {
            core.consistency.mark_consistent_below(Synced::All);
        }
    }
}

/// One worker: performs windows until there are none.
async fn work(core: Rc<Core>, sweeper: Rc<Sweeper>, sweep: Rc<Sweep>) {
    let mut skips = 0u32;
    loop {
        let stop = sweeper.halts(&core, sweep.kind) || sweep.error.borrow().is_some();
        if !stop && let Err(failed) = check_health(&core) {
            sweep.error.borrow_mut().get_or_insert(failed);
            break;
        }
        let before = sweep.next.get();
        // A rebuild of copies goes by member rows, which belong to no lane.
        let by_partition = sweep.kind != SweepKind::Rebuild
            || match core.geometry.level().family() {
                Family::Parity => true,
                Family::Mirror | Family::Striped => false,
            };
        let start = if by_partition { SweepSector::of_sync(core.partition.next(before.sync())).min(sweep.end) } else { before };
        if stop {
            break;
        }
        let window = start..sweep.end.min(start + sweep.window);
        if window.is_empty() {
            sweep.next.set(window.end);
            advance(&core, &sweep);
            break;
        }
        if let Some(end) = skipped(&core, &sweep, &window) {
            sweep.next.set(end);
            advance(&core, &sweep);
            skips += 1;
            if skips.is_multiple_of(SKIPS_MAX) {
                core.sleep_until(core.now() + 1).await;
            }
            continue;
        }
        sweep.next.set(window.end);
        sweep.running.borrow_mut().insert(start);
        if !pace(&core, &sweeper, sweep.kind, window.end - before).await {
            // The window stays in `running`: a resumed sweep begins with it.
            break;
        }
        let result =
            of_level!(core, P => P::sweep(&core, &Work { kind: sweep.kind, targets: &sweep.targets }, window.clone()).await);
        match result.and_then(|found| check_health(&core).map(|()| found)) {
            Ok(found) => {
                sweep.found.set(sweep.found.get() + found.sectors);
                sweep.running.borrow_mut().remove(&start);
                advance(&core, &sweep);
            }
            Err(reason) => {
                sweep.error.borrow_mut().get_or_insert(reason);
                // The window stays in `running`: the watermark never passes it.
                break;
            }
        }
    }
    sweep.workers.set(sweep.workers.get() - 1);
    sweep.finished.wake_all(&core.ready);
}

/// True if a member's rows that follow one another hold array sectors that lie apart.
fn has_scattered_rows(core: &Core) -> bool {
    match core.geometry.level() {
        Level::Raid10 => true,
        Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6 => false,
    }
}

/// True if members have bad blocks among these rows.
fn have_bad(core: &Core, targets: &[RebuildTarget], rows: &Range<MemberSector>) -> bool {
    let members = core.members.borrow();
    members.have_bad_blocks() && targets.iter().any(|target| members.get(target.member).has_bad(rows))
}

/// True if a window needs work.
fn is_due(core: &Core, sweep: &Sweep, window: &Range<SweepSector>) -> bool {
    if !sweep.by_bitmap {
        return true;
    }
    // R67: no bit needs to mark the bad blocks that a member brings along.
    if sweep.kind == SweepKind::Rebuild && have_bad(core, &sweep.targets, &rows_of_sweep(window)) {
        return true;
    }
    let intent = core.consistency.intent.borrow();
    let Some(intent) = intent.as_ref() else { return true };
    match sweep.kind {
        SweepKind::Resync => intent.needs_resync(&sync_of_sweep(window)),
        SweepKind::Rebuild if has_scattered_rows(core) => sweep.targets.iter().any(|target| {
            mirror_sweep::sync_range(core, target.slot, &rows_of_sweep(window)).is_some_and(|range| intent.is_marked(&range))
        }),
        SweepKind::Rebuild => intent.is_marked(&sync_of_sweep(window)),
        SweepKind::Scrub { .. } => true,
    }
}

/// Where the next window begins if this one is not due; `None`: it is due. The bitmap of a large array mostly marks a few chunks,
/// so the sweep passes over what lies between them in steps that double.
fn skipped(core: &Core, sweep: &Sweep, window: &Range<SweepSector>) -> Option<SweepSector> {
    if is_due(core, sweep, window) {
        return None;
    }
    let (mut end, mut step) = (window.end, sweep.window);
    // The array sectors of a RAID 10's member rows have to be looked up strip by strip.
    let leaps = sweep.kind != SweepKind::Rebuild || !has_scattered_rows(core);
    while leaps && end < sweep.end {
        let further = sweep.end.min(end.saturating_add(step));
        if is_due(core, sweep, &(end..further)) {
            break;
        }
        (end, step) = (further, step.saturating_mul(2));
    }
    Some(end)
}

/// Waits for the window's turn under the speed bounds. Returns `false` if the sweep must end, which waits for no bound.
async fn pace(core: &Rc<Core>, sweeper: &Rc<Sweeper>, kind: SweepKind, sectors: u64) -> bool {
    loop {
        let Some(due) = turn(core, sweeper, sectors) else { return true };
        let bounds = sweeper.bounds.get();
        if core.now() < due {
            core.clock.wake_at(&core.ready, due);
        }
        let goes_on = || core.now() >= due || sweeper.halts(core, kind) || sweeper.bounds.get() != bounds;
        core.ready.until(&core.sweep_changed, goes_on).await;
        if sweeper.halts(core, kind) {
            return false;
        }
        if core.now() >= due {
            return true;
        }
    }
}

/// The time at which a window of this size may start; `None`: now.
fn turn(core: &Rc<Core>, sweeper: &Rc<Sweeper>, sectors: u64) -> Option<Nanos> {
    let clients = core.requests_in_flight() > 0 || core.now() < core.activity.last_request().saturating_add(CLIENT_PAUSE);
    let (min, max) = (sweeper.speed_min.get().min(sweeper.speed_max.get()), sweeper.speed_max.get());
    let (speed, lags) = if clients { core.steering.speed(core.now(), min, max, sectors) } else { (max, false) };
    if lags {
        sweeper.widen(core);
    }
    sweeper.held.set((clients && speed < max).then_some(speed));
    if !clients {
        core.steering.begin(core.now());
    }
    if speed == UNBOUNDED {
        return None;
    }
    let due = core.now().max(sweeper.next_allowed.get());
    let cost = (u128::from(sectors) * 1_000_000_000 / u128::from(speed)) as Nanos;
    sweeper.next_allowed.set(due.saturating_add(cost));
    Some(due)
}

/// Applies the watermark: rebuilding members are trusted below it, and now and then the superblocks are updated (R4).
fn advance(core: &Core, sweep: &Sweep) {
    let watermark = sweep.watermark();
    match sweep.kind {
        SweepKind::Rebuild => {
            let mut members = core.members.borrow_mut();
            for target in &sweep.targets {
                let member = members.get_mut(target.member);
                if matches!(member.state, MemberState::Rebuilding | MemberState::Replacing) {
                    member.config.recovered = member.config.recovered.max(Synced::UpTo(watermark.min(sweep.end).row()));
                }
            }
        }
        SweepKind::Resync => core.consistency.mark_consistent_below(Synced::UpTo(watermark.sync())),
        SweepKind::Scrub { .. } => {}
    }
    let now = core.now();
    sweep.mark(now);
    if now >= sweep.checkpoint.get() + CHECKPOINT && !matches!(sweep.kind, SweepKind::Scrub { .. }) {
        sweep.checkpoint.set(now);
        core.metadata.request_commit(&core.ready);
    }
}
