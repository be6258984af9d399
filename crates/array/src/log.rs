//! The write log: closes the write hole of parity arrays, also when members are lost before, with or after a crash.
//!
//! A write changes the data strips W of some rows and leaves the strips U alone. Before data and parity go out, the log of each
//! parity member j holds, durably, the partial parity of U (R17):
//! ```text
//! partial_j = Σ c_j(u) D_u over U        so that after a crash        P_j = partial_j + Σ c_j(w) D_w over W
//! ```
//! A small request also logs its new data (`new_data`), where several strips are written together or it is acknowledged early. A
//! record with neither is a *revoke record*: it overrides older records of its rows (R19).
//!
//! | a record is | when |
//! | --- | --- |
//! | logged | its append has ended: it survives a process crash |
//! | durable | it survives a power cut: at once by FUA, or after a flush that all logged appends share |
//! | retired | its write is durable in place; the next append to any member declares up to which number that is so (R21) |
//!
//! [`behind`] tracks writes that were acknowledged early, [`replay`] what a crash left. docs/WRITE_LOG.md has the argument.

mod behind;
mod replay;

use behind::Behind;
pub(crate) use behind::{BehindWrite, LogHolders};
pub(crate) use replay::replay;

use crate::core::{Action, Core, MemberIo, drop_failed_flushes, lost};
use crate::log_record::{AppendTerms, BAND_SECTORS, LogConfig, LogRecord, REDO_SECTORS_MAX};
use crate::plan::Rectangle;
use crate::task::{TaskId, Waiters};
use crate::{LogStatus, MemberId, MetadataUpdate};
use slab::Slab;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;
use stria_block::{Data, IoError, Operation};

/// 512: so many writes that wait for nothing but a flush to be retired get one, so that logs do not fill up.
const RETIRE_COUNT: usize = 512;

/// 1 s: the pause before a flush that failed is tried again.
const FLUSH_AGAIN_AFTER: stria_block::Nanos = 1_000_000_000;

/// Numbers that begin in order and end in any order.
#[derive(Default)]
struct Numbers {
    /// All smaller numbers have ended.
    first: u64,
    ended: VecDeque<bool>,
}

impl Numbers {
    /// The number that begins next.
    fn next(&self) -> u64 {
        self.first + self.ended.len() as u64
    }

    fn begin(&mut self) -> u64 {
        self.ended.push_back(false);
        self.next() - 1
    }

    fn end(&mut self, number: u64) {
        self.ended[(number - self.first) as usize] = true;
        while self.ended.front() == Some(&true) {
            self.ended.pop_front();
            self.first += 1;
        }
    }
}

/// The appends of one member.
#[derive(Default)]
struct Queue {
    /// Records to be appended, each with its entry in [`Log::waits`].
    waiting: VecDeque<(LogRecord, usize)>,
    /// An append runs.
    busy: bool,
    /// Waits that the running append concerns.
    in_flight: Vec<usize>,
    /// Its length.
    in_flight_sectors: u64,
    /// What the running append declares retired, and what it may take for free.
    retiring: u64,
    free_below: u64,
    /// The last append found no space.
    stalled: bool,
    /// The last append failed, though the member stays.
    is_failing: bool,
    /// Records below this number are durably declared retired on this member.
    retired_below: u64,
    /// Waits of appends that have ended in a volatile cache, the number of these appends, and what the newest declares.
    unflushed: Vec<usize>,
    unflushed_count: u32,
    unflushed_retiring: u64,
    /// A flush for them runs, or its task is about to send one.
    flushing: bool,
}

/// What waits for records.
#[derive(Clone, Copy)]
pub(crate) enum Waiter {
    Task(TaskId),
    /// A write within one strip, without a task.
    Straight(usize),
}

/// A write that waits for its records.
struct Wait {
    waiter: Waiter,
    /// Appends that have not ended.
    unkept: usize,
    /// Appends that are not durable.
    undurable: usize,
    error: Option<IoError>,
}

/// What replay might find about a stripe.
struct Covered {
    /// Its newest record.
    number: u64,
    /// All of its records are revoke records, over these rows.
    bare: Option<Range<u64>>,
}

/// Data of a stripe that a power cut may take back.
struct Unflushed {
    rows: Range<u64>,
    written: Range<usize>,
    /// Flushes that begin after this epoch cover it.
    epoch: u64,
}

/// How far the start of the array has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The log records of the last run are being evaluated. Nothing is served.
    Replaying,
    /// Reads are served through the overlay. Writes wait.
    Readable,
    /// The overlay is written. A new log session may begin.
    Replayed,
    /// A new log session begins.
    Opening,
    /// The log takes records.
    Open,
}

pub(crate) struct Log {
    pub config: Option<LogConfig>,
    pub stage: Cell<Stage>,
    pub stage_changed: Waiters,
    queues: RefCell<Vec<Queue>>,
    waits: RefCell<Slab<Wait>>,
    /// Numbers of writes with records, from 1, until they are retired.
    numbers: RefCell<Numbers>,
    behind: Behind,
    covered: RefCell<BTreeMap<u64, Covered>>,
    unflushed: RefCell<BTreeMap<u64, SmallVec<[Unflushed; 2]>>>,
    /// Numbers whose writes have ended and wait for a flush to be retired, with the epoch of their end.
    ended: RefCell<VecDeque<(u64, u64)>>,
    /// Counts flushes.
    epoch: Cell<u64>,
    flushing: Cell<bool>,
    /// The overlay: new data and parity that replay has computed and not written, by slot and row.
    overlay: RefCell<BTreeMap<(usize, u64), Data>>,
    /// The members that hold the last run's records, for each set of parity members that has some.
    replay_holders: RefCell<BTreeSet<replay::ReplayHolders>>,
    /// Why replay gave up.
    unreplayed: RefCell<Option<String>>,
    done: Cell<LogStatus>,
}

impl Log {
    /// `replayed_count`: how many log records the last run left.
    pub fn new(config: Option<LogConfig>, replayed_count: usize) -> Self {
        Self {
            config,
            stage: Cell::new(if replayed_count > 0 { Stage::Replaying } else { Stage::Replayed }),
            stage_changed: Waiters::default(),
            queues: RefCell::default(),
            waits: RefCell::default(),
            numbers: RefCell::new(Numbers { first: 1, ended: VecDeque::new() }),
            behind: Behind::default(),
            covered: RefCell::default(),
            unflushed: RefCell::default(),
            ended: RefCell::default(),
            epoch: Cell::new(1),
            flushing: Cell::new(false),
            overlay: RefCell::default(),
            replay_holders: RefCell::default(),
            unreplayed: RefCell::default(),
            done: Cell::new(LogStatus {
                append_count: 0,
                record_count: 0,
                append_sectors: 0,
                early_count: 0,
                full_count: 0,
                replaying: false,
                replayed_count: replayed_count as u64,
                newest_only: false,
            }),
        }
    }

    /// True if requests of this size log their new data where that is needed.
    pub fn keeps_bytes_of(&self, sectors: u64) -> bool {
        self.config.is_some_and(|config| sectors <= config.redo_sectors_max)
    }

    /// True if a write of this size would gain from early acknowledgement, with so many requests under way.
    pub fn would_benefit(&self, sectors: u64, requests: usize, volatile: impl FnOnce() -> bool) -> bool {
        self.config.is_some_and(|config| !config.newest_only) && self.behind.takes(sectors, requests, volatile)
    }

    /// True if one append has space for a record with this much new data.
    pub fn has_room_for(&self, redo_sectors: u64) -> bool {
        self.config.is_some_and(|config| 8 + BAND_SECTORS + redo_sectors <= config.append_sectors_max)
    }

    /// A write to these rows of slots is acknowledged early.
    pub fn acknowledge_early(&self, places: impl Iterator<Item = (usize, Range<u64>)>, log_holders: LogHolders) -> BehindWrite {
        let done = self.done.get();
        self.done.set(LogStatus { early_count: done.early_count + 1, ..done });
        self.behind.begin(places, log_holders)
    }

    /// True if a request of this size must not be coalesced with others: the log promises it old or new data only if it is
    /// written alone.
    pub fn keeps_apart(&self, sectors: u64) -> bool {
        let kept = |config: LogConfig| !config.newest_only && sectors <= config.redo_sectors_max;
        self.config.is_some_and(|config| sectors <= REDO_SECTORS_MAX && !kept(config))
    }

    /// How much small requests may write together, so that their new data fits into one append.
    pub fn together_sectors_max(&self) -> u64 {
        self.config.map_or(u64::MAX, |config| config.append_sectors_max.saturating_sub(8 + BAND_SECTORS))
    }

    pub fn status(&self) -> Option<LogStatus> {
        self.config.map(|config| LogStatus {
            newest_only: config.newest_only,
            replaying: self.stage.get() < Stage::Replayed,
            ..self.done.get()
        })
    }

    /// Why replay gave up, if it did.
    pub fn unreplayed(&self) -> Option<String> {
        self.unreplayed.borrow().clone()
    }

    /// Numbers below this are retired.
    fn retired_below(&self) -> u64 {
        self.numbers.borrow().first
    }

    fn retire(&self, number: u64) {
        self.numbers.borrow_mut().end(number);
    }

    /// Remembers the newest record of a stripe.
    fn cover(&self, number: u64, record: &LogRecord) {
        let mut covered = self.covered.borrow_mut();
        let before = covered.get(&record.stripe);
        let alike = before.is_none_or(|before| before.bare.as_ref() == Some(&record.rows));
        let bare = (record.is_revoke() && alike).then(|| record.rows.clone());
        covered.insert(record.stripe, Covered { number, bare });
    }

    /// True if some of these rows of a stripe hold data of another write that a power cut may take back.
    fn is_unflushed(&self, stripe: u64, rows: &Range<u64>, written: &Range<usize>) -> bool {
        let other = |old: &Unflushed| old.written != *written && old.rows.start < rows.end && rows.start < old.rows.end;
        self.unflushed.borrow().get(&stripe).is_some_and(|list| list.iter().any(other))
    }

    /// True if a client must not read these rows of a slot's member as they are: a write-behind is on its way there, or the
    /// overlay covers them (R24).
    #[inline]
    pub fn is_not_in_place(&self, slot: usize, rows: &Range<u64>) -> bool {
        self.behind.is_at(slot, rows) || self.overlay_covers(slot, rows)
    }

    /// True if replay has results that are not written yet.
    pub fn has_overlay(&self) -> bool {
        !self.overlay.borrow().is_empty()
    }

    /// True if something that was acknowledged is not in place on the members.
    pub fn has_writes_not_in_place(&self) -> bool {
        self.behind.is_any() || self.has_overlay()
    }

    fn overlay_covers(&self, slot: usize, rows: &Range<u64>) -> bool {
        let overlay = self.overlay.borrow();
        if overlay.is_empty() {
            return false;
        }
        let mut near = overlay.range((slot, rows.start.saturating_sub(BAND_SECTORS))..(slot, rows.end));
        near.any(|(&(_, start), data)| rows.start < start + (data.len() / 512) as u64)
    }

    /// Applies the overlay to `bytes`, which were read from some rows of a slot.
    pub fn correct(&self, slot: usize, rows: &Range<u64>, bytes: &mut [u8]) {
        let overlay = self.overlay.borrow();
        if overlay.is_empty() {
            return;
        }
        // No piece is longer than a band.
        let near = (slot, rows.start.saturating_sub(BAND_SECTORS))..(slot, rows.end);
        for (&(_, start), data) in overlay.range(near) {
            let end = start + (data.len() / 512) as u64;
            let both = start.max(rows.start)..end.min(rows.end);
            if both.start < both.end {
                let to = ((both.start - rows.start) * 512) as usize..((both.end - rows.start) * 512) as usize;
                let from = ((both.start - start) * 512) as usize;
                let len = to.len();
                bytes[to].copy_from_slice(&data[from..from + len]);
            }
        }
    }
}

/// A write whose log records are durable; end it with [`Core::log_end`].
pub(crate) struct Logged {
    numbers: SmallVec<[u64; 3]>,
    /// Its entry in [`Log::waits`], until the records are durable.
    wait: Option<usize>,
}

impl Logged {
    /// A write without records.
    pub fn nothing() -> Self {
        Self { numbers: SmallVec::new(), wait: None }
    }
}

impl Core {
    /// True if some member has a volatile cache.
    pub fn has_volatile_members(&self) -> bool {
        let members = self.members.borrow();
        members.active().any(|id| members.get(id).limits.volatile_cache)
    }

    /// True if a write to a part of one strip asks nothing of the log but to hold its record.
    pub fn log_takes_strip(&self, stripe: u64, part: &Rectangle) -> bool {
        let Some(config) = self.log.config else { return true };
        let fits = !config.newest_only && part.rows.end - part.rows.start <= BAND_SECTORS;
        fits && self.log.stage.get() == Stage::Open && !self.log.is_unflushed(stripe, &part.rows, &part.strips)
    }

    /// Waits until the log takes records. The first write of a run begins a new log session, after a flush: the old records
    /// count until then, and records of this run rely on what the last run left in caches (R32).
    ///
    /// # Errors
    /// When a member cannot flush and cannot be dropped.
    pub async fn log_open(&self) -> Result<(), IoError> {
        let log = &self.log;
        if log.config.is_none() || log.stage.get() == Stage::Open {
            return Ok(());
        }
        self.ready.until(&log.stage_changed, || log.stage.get() >= Stage::Replayed).await;
        if log.stage.get() == Stage::Replayed {
            log.stage.set(Stage::Opening);
            if let Err(error) = self.flush_volatile().await {
                log.stage.set(Stage::Replayed);
                log.stage_changed.wake_all(&self.ready);
                return Err(error);
            }
            if !self.all_replayed().await {
                log.stage.set(Stage::Replayed);
                log.stage_changed.wake_all(&self.ready);
                return Err(lost("write", "another lane could not carry out what the last run left"));
            }
            // R5, R32: a superblock update beside it would name a session that some member's log does not have yet.
            let lock = self.lock_updates().await;
            self.update(&lock, MetadataUpdate::ResetLog).await;
        }
        self.ready.until(&log.stage_changed, || log.stage.get() != Stage::Opening).await;
        match log.stage.get() {
            Stage::Open => Ok(()),
            _ => Err(lost("write", "members cannot flush what the last run left in their caches")),
        }
    }

    /// Before a write that relies on the strips beside `written`: makes durable what these hold (R20).
    ///
    /// # Errors
    /// When a member cannot flush and cannot be dropped.
    pub async fn flush_neighbours(&self, stripe: u64, rows: &Range<u64>, written: &Range<usize>) -> Result<(), IoError> {
        while self.log.is_unflushed(stripe, rows, written) {
            self.flush_volatile().await?;
        }
        Ok(())
    }

    /// Logs records, and makes them durable. The write may start when this returns (R17).
    ///
    /// # Errors
    /// When a member could not log its record and cannot be dropped either. Nothing was changed.
    pub async fn log_begin(&self, groups: Vec<SmallVec<[(MemberId, LogRecord); 2]>>) -> Result<Logged, IoError> {
        let mut logged = self.log_append_records(groups).await?;
        match self.log_make_durable(&mut logged).await {
            Ok(()) => Ok(logged),
            Err(error) => {
                self.log_forget(logged);
                Err(error)
            }
        }
    }

    /// Logs records: when this returns they survive a process crash. The write may start after [`Core::log_make_durable`].
    ///
    /// # Errors
    /// As [`Core::log_begin`].
    pub async fn log_append_records(&self, groups: Vec<SmallVec<[(MemberId, LogRecord); 2]>>) -> Result<Logged, IoError> {
        if groups.is_empty() {
            return Ok(Logged::nothing());
        }
        let mut logged = self.log_send(groups, Waiter::Task(self.ready.current()));
        let (log, wait) = (&self.log, logged.wait.expect("something was sent"));
        poll_fn(|_| if log.waits.borrow()[wait].unkept > 0 { Poll::Pending } else { Poll::Ready(()) }).await;
        if log.waits.borrow()[wait].error.is_none() {
            return Ok(logged);
        }
        let error = self.log_make_durable(&mut logged).await.expect_err("it is known");
        self.log_forget(logged);
        Err(error)
    }

    /// Sends records to their members, those of one write together. `waiter` is woken when they are logged, and when they are
    /// durable.
    pub fn log_send<G>(&self, groups: impl IntoIterator<Item = G>, waiter: Waiter) -> Logged
    where
        G: IntoIterator<Item = (MemberId, LogRecord)>,
    {
        let log = &self.log;
        let wait = log.waits.borrow_mut().insert(Wait { waiter, unkept: 0, undurable: 0, error: None });
        let mut logged = Logged { numbers: SmallVec::new(), wait: Some(wait) };
        let mut members: SmallVec<[MemberId; 6]> = SmallVec::new();
        let mut queues = log.queues.borrow_mut();
        for group in groups {
            let number = log.numbers.borrow_mut().begin();
            logged.numbers.push(number);
            for (index, (member, mut record)) in group.into_iter().enumerate() {
                if index == 0 {
                    log.cover(number, &record);
                }
                record.number = number;
                if queues.len() <= member.0 {
                    queues.resize_with(member.0 + 1, Queue::default);
                }
                queues[member.0].waiting.push_back((record, wait));
                members.push(member);
            }
        }
        drop(queues);
        {
            let state = &mut log.waits.borrow_mut()[wait];
            (state.unkept, state.undurable) = (members.len(), members.len());
        }
        members.into_iter().for_each(|member| self.log_append(member));
        logged
    }

    /// Whether records are logged, and whether they are durable or never will be.
    pub fn log_progress(&self, logged: &Logged) -> (bool, bool) {
        let waits = self.log.waits.borrow();
        let state = &waits[logged.wait.expect("somebody waits for it")];
        (state.unkept == 0 && state.error.is_none(), state.undurable == 0)
    }

    /// The result of logging, once it has ended.
    ///
    /// # Errors
    /// As [`Core::log_make_durable`].
    pub fn log_ended(&self, logged: &mut Logged) -> Result<(), IoError> {
        let Some(wait) = logged.wait.take() else { return Ok(()) };
        self.log.waits.borrow_mut().remove(wait).error.map_or(Ok(()), Err)
    }

    /// Waits until logged records are durable.
    ///
    /// # Errors
    /// When a member cannot flush and cannot be dropped either.
    pub async fn log_make_durable(&self, logged: &mut Logged) -> Result<(), IoError> {
        let Some(wait) = logged.wait else { return Ok(()) };
        let waits = &self.log.waits;
        poll_fn(|_| if waits.borrow()[wait].undurable > 0 { Poll::Pending } else { Poll::Ready(()) }).await;
        self.log_ended(logged)
    }

    /// A write did not happen: its records are retired.
    pub fn log_forget(&self, logged: Logged) {
        logged.numbers.iter().for_each(|&number| self.log.retire(number));
        self.log_retry();
    }

    /// A write to parts of a stripe has ended on all members. Its records are retired at once, or by the next flush where
    /// members have volatile caches (R21).
    pub fn log_end(&self, stripe: u64, parts: &[Rectangle], logged: Logged) {
        let log = &self.log;
        if log.config.is_none() {
            return;
        }
        if !self.has_volatile_members() {
            logged.numbers.into_iter().for_each(|number| log.retire(number));
        } else {
            let epoch = log.epoch.get();
            log.ended.borrow_mut().extend(logged.numbers.into_iter().map(|number| (epoch, number)));
            let mut unflushed = log.unflushed.borrow_mut();
            for Rectangle { rows, strips } in parts {
                let list = unflushed.entry(stripe).or_default();
                let touches =
                    |old: &&mut Unflushed| old.written == *strips && old.rows.start <= rows.end && rows.start <= old.rows.end;
                match list.iter_mut().find(touches) {
                    Some(old) => {
                        old.rows = old.rows.start.min(rows.start)..old.rows.end.max(rows.end);
                        old.epoch = epoch;
                    }
                    None => list.push(Unflushed { rows: rows.clone(), written: strips.clone(), epoch }),
                }
            }
            if log.ended.borrow().len() >= RETIRE_COUNT && !log.flushing.replace(true) {
                log.stage_changed.wake_all(&self.ready);
            }
            self.log_flush_if_stalled();
        }
        self.log_retry();
    }

    /// True if a write of all strips of `rows` (within the strips) needs a record: always with a partial parity log, otherwise
    /// if replay might find an older record of these rows (R19).
    pub fn needs_revoke(&self, stripe: u64, rows: &Range<u64>) -> bool {
        self.log.config.is_some_and(|config| config.newest_only) || self.may_be_replayed(stripe, rows)
    }

    fn may_be_replayed(&self, stripe: u64, rows: &Range<u64>) -> bool {
        let mut covered = self.log.covered.borrow_mut();
        let Some(last) = covered.get(&stripe) else { return false };
        let overtaken = last.bare.as_ref().is_some_and(|bare| bare.start <= rows.start && rows.end <= bare.end);
        let queues = self.log.queues.borrow();
        let members = self.members.borrow();
        let retired = self.map(stripe).parity.iter().all(|&slot| {
            // R18: replacements count too. Their logs take part when they take the slot.
            let mut log_holders = members.targets(usize::from(slot)).into_iter();
            log_holders.all(|id| queues.get(id.0).is_some_and(|queue| queue.retired_below > last.number))
        });
        if retired {
            covered.remove(&stripe);
        }
        !retired && !overtaken
    }

    /// The stripes of a range for which [`Core::needs_revoke`] is true, over all of their rows.
    pub fn log_covered(&self, stripes: &Range<u64>) -> Vec<u64> {
        let rows = 0..self.geometry.strip_sectors();
        if self.log.config.is_some_and(|config| config.newest_only) {
            return stripes.clone().collect();
        }
        let known: Vec<u64> = self.log.covered.borrow().range(stripes.clone()).map(|(&stripe, _)| stripe).collect();
        known.into_iter().filter(|&stripe| self.needs_revoke(stripe, &rows)).collect()
    }

    /// Revoke records over some rows of a stripe (within the strips), for its parity members.
    pub fn revoke_records(&self, stripe: u64, rows: &Range<u64>) -> SmallVec<[(MemberId, LogRecord); 2]> {
        let members = self.members.borrow();
        let map = self.map(stripe);
        let bare = |(parity, &slot): (usize, &u16)| {
            let record = LogRecord {
                number: 0,
                stripe,
                rows: rows.clone(),
                written: 0..map.data.len(),
                parity,
                partial: None,
                new_data: SmallVec::new(),
                zeros: false,
            };
            members.targets(usize::from(slot)).into_iter().map(move |member| (member, record.clone()))
        };
        map.parity.iter().enumerate().flat_map(bare).collect()
    }

    /// Sends as much of what waits for a member's log as one append holds.
    fn log_append(&self, member: MemberId) {
        let Some(config) = self.log.config else { return };
        let retired_below = self.log.retired_below();
        let mut queues = self.log.queues.borrow_mut();
        let queue = &mut queues[member.0];
        if queue.busy || queue.waiting.is_empty() {
            return;
        }
        let mut records = Vec::new();
        let mut sectors = 8;
        if queue.stalled && config.newest_only && retired_below == queue.retiring {
            return;
        }
        if queue.stalled && !config.newest_only {
            // R22: space becomes free when the log itself declares durably what is retired. An append that does only that
            // always fits.
            if retired_below == queue.retired_below.max(queue.unflushed_retiring) {
                return;
            }
        } else {
            while let Some((_, first)) = queue.waiting.front() {
                // All records of a write go together: a part would wait for the rest, and the rest for the part to be retired.
                let together = queue.waiting.iter().take_while(|(_, wait)| config.newest_only && wait == first).count().max(1);
                let payload: u64 = queue.waiting.iter().take(together).map(|(record, _)| record.payload_sectors()).sum();
                let fits =
                    records.len() + together <= LogRecord::APPEND_COUNT_MAX && sectors + payload <= config.append_sectors_max;
                if !fits && !records.is_empty() {
                    break;
                }
                sectors += payload;
                for (record, wait) in queue.waiting.drain(..together) {
                    records.push(record);
                    queue.in_flight.push(wait);
                }
            }
        }
        queue.busy = true;
        queue.in_flight_sectors = sectors;
        (queue.retiring, queue.free_below) = (retired_below, queue.retired_below);
        let terms = AppendTerms { retired_below, free_below: queue.free_below, unsure_count: queue.unflushed_count };
        drop(queues);
        let fua = config.newest_only || !self.members.borrow().get(member).limits.volatile_cache;
        self.outbox.borrow_mut().push_back(Action::AppendLog { member, records, terms, fua });
    }

    /// An append has ended. Returns whether [`Core::log_flush`] must make it durable.
    #[must_use]
    pub fn log_appended(&self, member: MemberId, error: Option<IoError>) -> bool {
        let log = &self.log;
        let config = log.config.expect("only a log is appended to");
        let volatile = !config.newest_only && self.members.borrow().get(member).limits.volatile_cache;
        let durable = !volatile || error.is_some() || self.members.borrow().get(member).role == crate::MemberState::Failed;
        let (waits, hopeless, sectors, flush) = {
            let mut queues = log.queues.borrow_mut();
            let queue = &mut queues[member.0];
            queue.busy = false;
            let waits = std::mem::take(&mut queue.in_flight);
            if !durable {
                queue.unflushed.extend_from_slice(&waits);
                queue.unflushed_count += 1;
                queue.unflushed_retiring = queue.retiring;
            } else if error.is_none() {
                queue.retired_below = queue.retiring;
                queue.stalled = false;
            }
            // A log that fails one append would fail the next too, so nothing waits for it.
            let hopeless: Vec<usize> = match &error {
                Some(_) => queue.waiting.drain(..).map(|(_, wait)| wait).collect(),
                None => Vec::new(),
            };
            queue.is_failing = error.is_some();
            (waits, hopeless, queue.in_flight_sectors, !durable && !std::mem::replace(&mut queue.flushing, true))
        };
        let mut done = log.done.get();
        done.append_count += 1;
        done.append_sectors += sectors;
        done.record_count += waits.len() as u64;
        log.done.set(done);
        self.log_release(&waits, error.as_ref(), |wait| {
            wait.unkept -= 1;
            wait.undurable -= usize::from(durable);
        });
        self.log_release(&hopeless, error.as_ref(), |wait| {
            wait.unkept -= 1;
            wait.undurable -= 1;
        });
        self.log_append(member);
        self.log_prune();
        flush
    }

    /// An append found no space. Its records wait until others are retired.
    pub fn log_full(&self, member: MemberId, records: Vec<LogRecord>) {
        let only_to_say = records.is_empty();
        let in_vain = {
            let mut queues = self.log.queues.borrow_mut();
            let queue = &mut queues[member.0];
            let waits = std::mem::take(&mut queue.in_flight);
            for (record, wait) in records.into_iter().zip(waits).rev() {
                queue.waiting.push_front((record, wait));
            }
            // If space became free since the append was sent, or may now be declared free, it is tried again: no other event
            // would trigger that.
            let freed = queue.retired_below > queue.free_below;
            (queue.busy, queue.stalled) = (false, !freed);
            only_to_say && !freed && self.log.retired_below() == queue.retiring
        };
        if in_vain {
            return self.log_give_up(member);
        }
        if !only_to_say {
            let done = self.log.done.get();
            self.log.done.set(LogStatus { full_count: done.full_count + 1, ..done });
        }
        self.log_append(member);
        self.log_flush_if_stalled();
    }

    /// A full log that cannot be written to declare space free never gets space. What waits for it fails.
    fn log_give_up(&self, member: MemberId) {
        let is_failing = self.log.queues.borrow()[member.0].is_failing;
        if is_failing {
            let error = lost("write", "the write log of a member is full and cannot be written");
            self.log_give_up_where(|index, _| index == member.0, &error);
        }
    }

    /// The same for full logs, when a member that cannot be dropped cannot flush.
    fn log_give_up_stalled(&self, error: &IoError) {
        self.log_give_up_where(|_, queue| queue.stalled, error);
    }

    fn log_give_up_where(&self, is_it: impl Fn(usize, &Queue) -> bool, error: &IoError) {
        let waits: Vec<usize> = {
            let mut queues = self.log.queues.borrow_mut();
            let found = queues.iter_mut().enumerate().filter(|(index, queue)| is_it(*index, queue));
            found.flat_map(|(_, queue)| queue.waiting.drain(..)).map(|(_, wait)| wait).collect()
        };
        self.log_release(&waits, Some(error), |wait| {
            wait.unkept -= 1;
            wait.undurable -= 1;
        });
    }

    /// Where appends find no space, starts a flush for writes that wait for nothing else.
    fn log_flush_if_stalled(&self) {
        let stalled = self.log.queues.borrow().iter().any(|queue| queue.stalled);
        if stalled && !self.log.ended.borrow().is_empty() && !self.log.flushing.replace(true) {
            self.log.stage_changed.wake_all(&self.ready);
        }
    }

    /// A dropped member's log no longer takes part.
    pub fn log_drop(&self, member: MemberId) {
        let taken = |queue: &mut Queue| {
            let waiting: Vec<usize> = queue.waiting.drain(..).map(|(_, wait)| wait).collect();
            (waiting, std::mem::take(&mut queue.unflushed))
        };
        let (waiting, unflushed) = self.log.queues.borrow_mut().get_mut(member.0).map(taken).unwrap_or_default();
        self.log_release(&waiting, None, |wait| {
            wait.unkept -= 1;
            wait.undurable -= 1;
        });
        self.log_release(&unflushed, None, |wait| wait.undurable -= 1);
        self.record.state_waiters.wake_all(&self.ready);
    }

    fn log_release(&self, waits: &[usize], error: Option<&IoError>, mut step: impl FnMut(&mut Wait)) {
        let mut all = self.log.waits.borrow_mut();
        for &wait in waits {
            let state = &mut all[wait];
            step(state);
            if state.error.is_none() {
                state.error = error.cloned();
            }
            if state.unkept == 0 || state.undurable == 0 {
                match state.waiter {
                    Waiter::Task(task) => self.ready.wake(task),
                    Waiter::Straight(write) => self.straight_writes.can_go_on(write),
                }
            }
        }
    }

    /// Flushes a member until all of its appends that have ended are durable.
    pub async fn log_flush(&self, member: MemberId) {
        loop {
            let (waits, count, retiring) = {
                let mut queues = self.log.queues.borrow_mut();
                let queue = &mut queues[member.0];
                if queue.unflushed_count == 0 {
                    queue.flushing = false;
                    return;
                }
                (std::mem::take(&mut queue.unflushed), queue.unflushed_count, queue.unflushed_retiring)
            };
            let flush = MemberIo { member, start_sector: 0, sectors: 0, operation: Operation::Flush };
            let result = self.io(std::iter::once(flush).collect()).await.pop().expect("one was sent").0;
            let result = drop_failed_flushes(self, std::iter::once((member, &result)));
            {
                let mut queues = self.log.queues.borrow_mut();
                let queue = &mut queues[member.0];
                queue.unflushed_count -= count;
                match result {
                    Ok(()) => (queue.retired_below, queue.stalled) = (retiring, false),
                    // What it declared must be declared again.
                    Err(_) if queue.unflushed_count == 0 => queue.unflushed_retiring = queue.retired_below,
                    Err(_) => {}
                }
            }
            self.log_release(&waits, result.as_ref().err(), |wait| wait.undurable -= 1);
            self.log_append(member);
        }
    }

    /// Records were retired: appends that found no space may find some now.
    fn log_retry(&self) {
        let stalled: SmallVec<[usize; 4]> = {
            let queues = self.log.queues.borrow();
            (0..queues.len()).filter(|&index| queues[index].stalled && !queues[index].busy).collect()
        };
        for index in stalled {
            self.log_append(MemberId(index));
        }
    }

    /// Forgets stripes whose records are long retired, to keep the list short.
    fn log_prune(&self) {
        let stripes: Vec<u64> = {
            let covered = self.log.covered.borrow();
            if covered.len() < 1 << 14 || !self.log.done.get().append_count.is_multiple_of(1 << 10) {
                return;
            }
            covered.keys().copied().collect()
        };
        for stripe in stripes {
            self.may_be_replayed(stripe, &(0..self.geometry.strip_sectors()));
        }
    }

    /// Makes durable what members with a volatile cache have ended, and retires the records of these writes, after every drop
    /// up to then is durable: a crash would bring a dropped member back without what it missed (R21).
    ///
    /// # Errors
    /// When a member cannot flush and cannot be dropped.
    pub async fn flush_volatile(&self) -> Result<(), IoError> {
        let log = &self.log;
        let epoch = log.epoch.replace(log.epoch.get() + 1);
        self.flush_members().await?;
        self.wait_for_ack_barrier().await;
        log.unflushed.borrow_mut().retain(|_, list| {
            list.retain(|old| old.epoch > epoch);
            !list.is_empty()
        });
        loop {
            let number = match log.ended.borrow_mut().front() {
                Some(&(ended, number)) if ended <= epoch => number,
                _ => break,
            };
            log.ended.borrow_mut().pop_front();
            log.retire(number);
        }
        self.log_retry();
        Ok(())
    }

    /// Flushes when a log is full of writes that wait for nothing else.
    pub async fn log_flush_forever(&self) {
        loop {
            self.ready.until(&self.log.stage_changed, || self.log.flushing.get()).await;
            // What cannot be flushed cannot be retired. Writes that need its space fail.
            let flushed = self.flush_volatile().await;
            self.log.flushing.set(false);
            if let Err(error) = flushed {
                self.log_give_up_stalled(&error);
                self.sleep_until(self.now() + FLUSH_AGAIN_AFTER).await;
                self.log_retry();
            }
            // Writes that ended meanwhile are not covered, and may be all that the others wait for.
            self.log_flush_if_stalled();
        }
    }
}
