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
//! This is what the log knows; [`log_io`](crate::log_io) is what the engine does with it. [`behind`] tracks writes that were
//! acknowledged early, [`overlay`] what [`replay`](crate::replay) has computed and not written. docs/WRITE_LOG.md has the
//! argument.

mod behind;
mod overlay;

pub(crate) use behind::{BehindWrite, LogHolders, WriteBehind};
pub(crate) use overlay::{Overlay, ReplayHolders, has_stayed};

use crate::address::Sectors;
use crate::log_record::{AppendTerms, BAND_SECTORS, LogConfig, LogRecord, NEW_DATA_SECTORS_MAX};
use crate::member::Members;
use crate::plan::Rectangle;
use crate::task::{Ready, TaskId, Waiters};
use crate::{LogStatus, MemberId, MemberSector, StripSector};
use slab::Slab;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;
use stria_block::IoError;
use stria_block::ranges::around;

/// 512: members are flushed when so many writes wait only for a flush to be retired, so that logs do not fill up.
const RETIRE_COUNT: usize = 512;
/// 16384: members are flushed when so many stripes hold data that a power cut may take back: 3 MiB of memory, and 1 GiB of data
/// at least where no write has a record.
const UNFLUSHED_COUNT: usize = 1 << 14;

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
    /// The number below which the running append declares records retired, and the one below which space is free for it.
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
    /// Appends that have ended in a volatile cache so far.
    cached_count: u64,
    /// The last flush of the member that failed, though the member stays: its error, and `cached_count` then. The drive may have
    /// lost these appends, and says so once.
    failed_flush: Option<(IoError, u64)>,
    /// Appends from the oldest that may be lost in this way to the newest that a flush has made durable.
    lost_count: u32,
    /// The lost ones count until all numbers up to here are retired.
    lost_up_to: u64,
    /// A flush for them runs, or its task is about to send one.
    flushing: bool,
}

/// The waiter of records.
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
    not_logged: usize,
    /// Appends that are not durable.
    not_durable: usize,
    error: Option<IoError>,
}

impl Wait {
    /// An append is durable, or never will be.
    fn end(&mut self) {
        self.not_logged -= 1;
        self.not_durable -= 1;
    }
}

/// The consequence of an append that found no space.
pub(crate) enum Full {
    /// Its records wait.
    Waits,
    /// It had no records and was to declare space free, and there is none. The next retirement declares it.
    InVain,
    /// The same, and the log cannot be written either.
    Hopeless,
}

/// Appends that a flush makes durable.
pub(crate) struct AppendFlush {
    waits: Vec<usize>,
    count: u32,
    /// The number of appends before them.
    from: u64,
    /// The number below which the newest declares records retired.
    retiring: u64,
}

/// Records of a stripe that replay might find.
struct Covered {
    /// Its newest record.
    number: u64,
    /// All of its records are revoke records, over these rows.
    bare: Option<Range<StripSector>>,
}

/// Data of a stripe that a power cut may take back.
struct Unflushed {
    rows: Range<StripSector>,
    written: Range<usize>,
    /// Flushes that begin after this epoch cover it.
    epoch: u64,
}

/// The stage that the start of the array has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartStage {
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
    stage: Cell<StartStage>,
    pub stage_changed: Waiters,
    pub behind: WriteBehind,
    pub overlay: Overlay,
    queues: RefCell<Vec<Queue>>,
    waits: RefCell<Slab<Wait>>,
    /// Numbers of writes with records, from 1, until they are retired.
    numbers: RefCell<Numbers>,
    covered: RefCell<BTreeMap<u64, Covered>>,
    unflushed: RefCell<BTreeMap<u64, SmallVec<[Unflushed; 2]>>>,
    /// Numbers whose writes have ended and wait for a flush to be retired, with the epoch of their end.
    ended: RefCell<VecDeque<(u64, u64)>>,
    /// Counts flushes.
    epoch: Cell<u64>,
    flushing: Cell<bool>,
    done: Cell<LogStatus>,
}

impl Log {
    /// `replayed_count`: how many log records the last run left.
    pub fn new(config: Option<LogConfig>, replayed_count: usize) -> Self {
        Self {
            config,
            stage: Cell::new(if replayed_count > 0 { StartStage::Replaying } else { StartStage::Replayed }),
            stage_changed: Waiters::default(),
            queues: RefCell::default(),
            waits: RefCell::default(),
            numbers: RefCell::new(Numbers { first: 1, ended: VecDeque::new() }),
            behind: WriteBehind::default(),
            covered: RefCell::default(),
            unflushed: RefCell::default(),
            ended: RefCell::default(),
            epoch: Cell::new(1),
            flushing: Cell::new(false),
            overlay: Overlay::default(),
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

    /// True if a crash leaves only the newest append of each member to be found, as with md's partial parity log.
    pub fn is_newest_only(&self) -> bool {
        self.config.is_some_and(|config| config.newest_only)
    }

    /// True if a write to a part of one strip needs nothing of the log but to hold its record.
    pub fn takes_strip(&self, stripe: u64, part: &Rectangle) -> bool {
        let Some(config) = self.config else { return true };
        let fits = !config.newest_only && part.rows.sectors() <= BAND_SECTORS;
        fits && self.stage() == StartStage::Open && !self.is_unflushed(stripe, &part.rows, &part.strips)
    }

    /// True if requests of this size log their new data where that is needed.
    pub fn logs_new_data_of(&self, sectors: u64) -> bool {
        self.config.is_some_and(|config| sectors <= config.new_data_sectors_max)
    }

    /// True if a write of this size would gain from early acknowledgement, with so many requests under way.
    pub fn would_benefit(&self, sectors: u64, requests: usize, volatile: impl FnOnce() -> bool) -> bool {
        self.config.is_some_and(|config| !config.newest_only) && self.behind.takes(sectors, requests, volatile)
    }

    /// True if one append has space for a record with this much new data.
    pub fn has_space_for(&self, new_data_sectors: u64) -> bool {
        self.config.is_some_and(|config| 8 + BAND_SECTORS + new_data_sectors <= config.append_sectors_max)
    }

    /// The stage that the start of the array has reached.
    pub fn stage(&self) -> StartStage {
        self.stage.get()
    }

    /// The start has come this far.
    pub fn enter(&self, stage: StartStage, ready: &Ready) {
        self.stage.set(stage);
        self.stage_changed.wake_all(ready);
    }

    /// A new log session is about to begin. No task waits for that.
    pub fn begin_opening(&self) {
        self.stage.set(StartStage::Opening);
    }

    /// A write to these rows of slots is acknowledged early.
    pub fn acknowledge_early(
        &self,
        places: impl Iterator<Item = (usize, Range<MemberSector>)>,
        log_holders: LogHolders,
    ) -> BehindWrite {
        let done = self.done.get();
        self.done.set(LogStatus { early_count: done.early_count + 1, ..done });
        self.behind.begin(places, log_holders)
    }

    /// True if a request of this size must not be coalesced with others: the log promises it old or new data only if it is
    /// written alone.
    pub fn must_not_coalesce(&self, sectors: u64) -> bool {
        let kept = |config: LogConfig| !config.newest_only && sectors <= config.new_data_sectors_max;
        self.config.is_some_and(|config| sectors <= NEW_DATA_SECTORS_MAX && !kept(config))
    }

    /// The most that small requests may write together, so that their new data fits into one append. `None`: any amount.
    pub fn together_sectors_max(&self) -> Option<u64> {
        self.config.map(|config| config.append_sectors_max.saturating_sub(8 + BAND_SECTORS))
    }

    pub fn status(&self) -> Option<LogStatus> {
        self.config.map(|config| LogStatus {
            newest_only: config.newest_only,
            replaying: self.stage() < StartStage::Replayed,
            ..self.done.get()
        })
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
    pub fn is_unflushed(&self, stripe: u64, rows: &Range<StripSector>, written: &Range<usize>) -> bool {
        let other = |old: &Unflushed| old.written != *written && old.rows.overlaps(rows);
        self.unflushed.borrow().get(&stripe).is_some_and(|list| list.iter().any(other))
    }

    /// True if a client must not read these rows of a slot's member as they are: a write-behind is on its way there, or the
    /// overlay covers them (R24).
    #[inline]
    pub fn is_not_in_place(&self, slot: usize, rows: &Range<MemberSector>) -> bool {
        self.behind.is_at(slot, rows) || self.overlay.covers(slot, rows)
    }

    /// True if something that was acknowledged is not in place on the members.
    pub fn has_writes_not_in_place(&self) -> bool {
        self.behind.is_any() || self.overlay.is_any()
    }

    /// Takes records for their members, those of one write together. Returns the members, each with a record to
    /// [append](Log::next_append).
    pub fn take<G>(&self, groups: impl IntoIterator<Item = G>, waiter: Waiter) -> (Logged, SmallVec<[MemberId; 6]>)
    where
        G: IntoIterator<Item = (MemberId, LogRecord)>,
    {
        debug_assert!(self.stage() == StartStage::Open, "a record is logged before this run's log session began");
        let wait = self.waits.borrow_mut().insert(Wait { waiter, not_logged: 0, not_durable: 0, error: None });
        let mut logged = Logged { numbers: SmallVec::new(), wait: Some(wait) };
        let mut members: SmallVec<[MemberId; 6]> = SmallVec::new();
        let mut queues = self.queues.borrow_mut();
        for group in groups {
            let number = self.numbers.borrow_mut().begin();
            logged.numbers.push(number);
            for (index, (member, mut record)) in group.into_iter().enumerate() {
                if index == 0 {
                    self.cover(number, &record);
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
        let state = &mut self.waits.borrow_mut()[wait];
        (state.not_logged, state.not_durable) = (members.len(), members.len());
        (logged, members)
    }

    /// Whether records are logged, and whether they are durable or never will be.
    pub fn progress(&self, logged: &Logged) -> (bool, bool) {
        let waits = self.waits.borrow();
        let state = &waits[logged.wait.expect("somebody waits for it")];
        (state.not_logged == 0 && state.error.is_none(), state.not_durable == 0)
    }

    /// The result of logging, once it has ended.
    ///
    /// # Errors
    /// A member could not log its record and cannot be dropped either.
    pub fn result(&self, logged: &mut Logged) -> Result<(), IoError> {
        let Some(wait) = logged.wait.take() else { return Ok(()) };
        self.waits.borrow_mut().remove(wait).error.map_or(Ok(()), Err)
    }

    /// Waits until records are logged. Returns whether they are.
    pub async fn logged(&self, logged: &Logged) -> bool {
        let wait = logged.wait.expect("something was sent");
        poll_fn(|_| if self.waits.borrow()[wait].not_logged > 0 { Poll::Pending } else { Poll::Ready(()) }).await;
        self.waits.borrow()[wait].error.is_none()
    }

    /// Waits until logged records are durable.
    ///
    /// # Errors
    /// As [`Log::result`].
    pub async fn durable(&self, logged: &mut Logged) -> Result<(), IoError> {
        let Some(wait) = logged.wait else { return Ok(()) };
        poll_fn(|_| if self.waits.borrow()[wait].not_durable > 0 { Poll::Pending } else { Poll::Ready(()) }).await;
        self.result(logged)
    }

    /// A write did not happen, or is durable in place: its records are retired.
    pub fn retire_all(&self, logged: Logged) {
        logged.numbers.iter().for_each(|&number| self.retire(number));
    }

    /// A write to parts of a stripe has ended on members with volatile caches: its records are retired by the next flush.
    pub fn retire_by_flush(&self, stripe: u64, parts: &[Rectangle], logged: Logged) {
        let epoch = self.epoch.get();
        self.ended.borrow_mut().extend(logged.numbers.into_iter().map(|number| (epoch, number)));
        let mut unflushed = self.unflushed.borrow_mut();
        for Rectangle { rows, strips } in parts {
            let list = unflushed.entry(stripe).or_default();
            let touches =
                |old: &&mut Unflushed| old.written == *strips && old.rows.start <= rows.end && rows.start <= old.rows.end;
            match list.iter_mut().find(touches) {
                Some(old) => {
                    old.rows = around(&old.rows, rows);
                    old.epoch = epoch;
                }
                None => list.push(Unflushed { rows: rows.clone(), written: strips.clone(), epoch }),
            }
        }
    }

    /// Starts a flush of members if too many writes wait for nothing else, or too many stripes are not durable.
    pub fn flush_if_full(&self, ready: &Ready) {
        if self.ended.borrow().len() >= RETIRE_COUNT || self.unflushed.borrow().len() >= UNFLUSHED_COUNT {
            self.start_flushing(ready);
        }
    }

    /// Where appends find no space, starts a flush of members for writes that wait for nothing else.
    pub fn flush_if_stalled(&self, ready: &Ready) {
        if self.queues.borrow().iter().any(|queue| queue.stalled) && !self.ended.borrow().is_empty() {
            self.start_flushing(ready);
        }
    }

    fn start_flushing(&self, ready: &Ready) {
        if !self.flushing.replace(true) {
            self.stage_changed.wake_all(ready);
        }
    }

    /// True while such a flush is due or runs.
    pub fn is_flushing(&self) -> bool {
        self.flushing.get()
    }

    pub fn end_flushing(&self) {
        self.flushing.set(false);
    }

    /// A flush of all members begins. Returns its epoch.
    pub fn begin_epoch(&self) -> u64 {
        self.epoch.replace(self.epoch.get() + 1)
    }

    /// Everything that ended up to this epoch is durable: its records are retired.
    pub fn retire_up_to(&self, epoch: u64) {
        self.unflushed.borrow_mut().retain(|_, list| {
            list.retain(|old| old.epoch > epoch);
            !list.is_empty()
        });
        loop {
            let number = match self.ended.borrow_mut().front() {
                Some(&(ended, number)) if ended <= epoch => number,
                _ => break,
            };
            self.ended.borrow_mut().pop_front();
            self.retire(number);
        }
    }

    /// True if replay might find an older record of these rows, whose holders are given.
    pub fn may_be_replayed(&self, stripe: u64, rows: &Range<StripSector>, mut holders: impl Iterator<Item = MemberId>) -> bool {
        let mut covered = self.covered.borrow_mut();
        let Some(last) = covered.get(&stripe) else { return false };
        let overtaken = last.bare.as_ref().is_some_and(|bare| bare.start <= rows.start && rows.end <= bare.end);
        let queues = self.queues.borrow();
        let retired = holders.all(|id| queues.get(id.0).is_some_and(|queue| queue.retired_below > last.number));
        if retired {
            covered.remove(&stripe);
        }
        !retired && !overtaken
    }

    /// Stripes of a range with records that replay might find.
    pub fn covered(&self, stripes: Range<u64>) -> Vec<u64> {
        self.covered.borrow().range(stripes).map(|(&stripe, _)| stripe).collect()
    }

    /// Stripes whose records may be long retired, now and then, to keep the list short.
    pub fn covered_to_prune(&self) -> Vec<u64> {
        let covered = self.covered.borrow();
        if covered.len() < 1 << 14 || !self.done.get().append_count.is_multiple_of(1 << 10) {
            return Vec::new();
        }
        covered.keys().copied().collect()
    }

    /// The next append to a member's log: as many of the waiting records as it holds, and what it declares. `None`: nothing
    /// waits, an append runs, or there is no space.
    pub fn next_append(&self, member: MemberId) -> Option<(Vec<LogRecord>, AppendTerms)> {
        let config = self.config?;
        let retired_below = self.retired_below();
        let mut queues = self.queues.borrow_mut();
        let queue = &mut queues[member.0];
        if queue.busy || queue.waiting.is_empty() {
            return None;
        }
        let mut records = Vec::new();
        let mut sectors = 8;
        if queue.stalled && config.newest_only && retired_below == queue.retiring {
            return None;
        }
        if queue.stalled && !config.newest_only {
            // R22: space becomes free when the log itself declares durably what is retired. An append that does only that
            // always fits.
            if retired_below == queue.retired_below.max(queue.unflushed_retiring) {
                return None;
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
        if retired_below > queue.lost_up_to {
            queue.lost_count = 0;
        }
        let unsure_count = queue.unflushed_count + queue.lost_count;
        let terms = AppendTerms { retired_below, free_below: queue.free_below, unsure_count };
        Some((records, terms))
    }

    /// An append has ended. `durable`: it lies in no volatile cache, or never will be durable. Returns whether
    /// [`Log::begin_flush`] must make it so.
    #[must_use]
    pub fn appended(&self, member: MemberId, durable: bool, error: Option<&IoError>, wake: &mut impl FnMut(Waiter)) -> bool {
        let (waits, hopeless, sectors, flush) = {
            let mut queues = self.queues.borrow_mut();
            let queue = &mut queues[member.0];
            queue.busy = false;
            let waits = std::mem::take(&mut queue.in_flight);
            if !durable {
                queue.unflushed.extend_from_slice(&waits);
                queue.unflushed_count += 1;
                queue.cached_count += 1;
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
        let mut done = self.done.get();
        done.append_count += 1;
        done.append_sectors += sectors;
        done.record_count += waits.len() as u64;
        self.done.set(done);
        self.release(&waits, error, wake, |wait| {
            wait.not_logged -= 1;
            wait.not_durable -= usize::from(durable);
        });
        self.release(&hopeless, error, wake, Wait::end);
        flush
    }

    /// An append found no space. Its records wait until others are retired. Returns what follows.
    pub fn full(&self, member: MemberId, records: Vec<LogRecord>) -> Full {
        let only_to_say = records.is_empty();
        let in_vain = {
            let mut queues = self.queues.borrow_mut();
            let queue = &mut queues[member.0];
            let waits = std::mem::take(&mut queue.in_flight);
            for (record, wait) in records.into_iter().zip(waits).rev() {
                queue.waiting.push_front((record, wait));
            }
            // If space became free since the append was sent, or may now be declared free, it is tried again: no other event
            // would trigger that.
            let freed = queue.retired_below > queue.free_below;
            (queue.busy, queue.stalled) = (false, !freed);
            only_to_say && !freed && self.retired_below() == queue.retiring
        };
        if in_vain {
            return if self.queues.borrow()[member.0].is_failing { Full::Hopeless } else { Full::InVain };
        }
        if !only_to_say {
            let done = self.done.get();
            self.done.set(LogStatus { full_count: done.full_count + 1, ..done });
        }
        Full::Waits
    }

    /// A full log that cannot be written to declare space free never gets space. What waits for it fails.
    pub fn give_up(&self, member: MemberId, error: &IoError, wake: &mut impl FnMut(Waiter)) {
        self.give_up_where(|index, _| index == member.0, error, wake);
    }

    /// The same for full logs, when a member that cannot be dropped cannot flush.
    pub fn give_up_stalled(&self, error: &IoError, wake: &mut impl FnMut(Waiter)) {
        self.give_up_where(|_, queue| queue.stalled, error, wake);
    }

    fn give_up_where(&self, is_it: impl Fn(usize, &Queue) -> bool, error: &IoError, wake: &mut impl FnMut(Waiter)) {
        let waits: Vec<usize> = {
            let mut queues = self.queues.borrow_mut();
            let found = queues.iter_mut().enumerate().filter(|(index, queue)| is_it(*index, queue));
            found.flat_map(|(_, queue)| queue.waiting.drain(..)).map(|(_, wait)| wait).collect()
        };
        self.release(&waits, Some(error), wake, Wait::end);
    }

    /// A dropped member's log no longer takes part.
    pub fn drop_member(&self, member: MemberId, wake: &mut impl FnMut(Waiter)) {
        let taken = |queue: &mut Queue| {
            queue.stalled = false;
            let waiting: Vec<usize> = queue.waiting.drain(..).map(|(_, wait)| wait).collect();
            (waiting, std::mem::take(&mut queue.unflushed))
        };
        let (waiting, unflushed) = self.queues.borrow_mut().get_mut(member.0).map(taken).unwrap_or_default();
        self.release(&waiting, None, wake, Wait::end);
        self.release(&unflushed, None, wake, |wait| wait.not_durable -= 1);
    }

    fn release(&self, waits: &[usize], error: Option<&IoError>, wake: &mut impl FnMut(Waiter), mut step: impl FnMut(&mut Wait)) {
        let mut all = self.waits.borrow_mut();
        for &wait in waits {
            let state = &mut all[wait];
            step(state);
            if state.error.is_none() {
                state.error = error.cloned();
            }
            if state.not_logged == 0 || state.not_durable == 0 {
                wake(state.waiter);
            }
        }
    }

    /// The appends of a member that have ended and are not durable, for a flush that begins now. `None`: all are.
    pub fn begin_flush(&self, member: MemberId) -> Option<AppendFlush> {
        let mut queues = self.queues.borrow_mut();
        let queue = &mut queues[member.0];
        if queue.unflushed_count == 0 {
            queue.flushing = false;
            return None;
        }
        let (count, retiring) = (queue.unflushed_count, queue.unflushed_retiring);
        let from = queue.cached_count - u64::from(count);
        Some(AppendFlush { waits: std::mem::take(&mut queue.unflushed), count, from, retiring })
    }

    /// Ends that flush.
    pub fn flushed(&self, member: MemberId, flush: &AppendFlush, result: Result<(), &IoError>, wake: &mut impl FnMut(Waiter)) {
        let error = {
            let mut queues = self.queues.borrow_mut();
            let queue = &mut queues[member.0];
            queue.unflushed_count -= flush.count;
            // Another flush of the member may have had the one report of what was lost.
            let told = queue.failed_flush.as_ref().filter(|(_, count)| flush.from < *count).map(|(error, _)| error.clone());
            let error = result.err().cloned().or(told);
            match error {
                None => {
                    (queue.retired_below, queue.stalled) = (flush.retiring, false);
                    if queue.lost_count > 0 {
                        queue.lost_count += flush.count;
                    }
                }
                Some(_) => {
                    // R22: they are not known to be durable, and must not look like damage if they are missing.
                    queue.lost_count += flush.count;
                    queue.lost_up_to = self.numbers.borrow().next();
                    // Its declaration must be repeated.
                    if queue.unflushed_count == 0 {
                        queue.unflushed_retiring = queue.retired_below;
                    }
                }
            }
            error
        };
        self.release(&flush.waits, error.as_ref(), wake, |wait| wait.not_durable -= 1);
    }

    /// A flush of a member has failed, of whatever it was, and the member stays: its appends that have ended may be lost.
    pub fn flush_failed(&self, member: MemberId, error: &IoError) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(member.0) {
            queue.failed_flush = Some((error.clone(), queue.cached_count));
        }
    }

    /// Members whose appends found no space, and may find some now.
    pub fn stalled(&self) -> SmallVec<[MemberId; 4]> {
        let queues = self.queues.borrow();
        (0..queues.len()).filter(|&index| queues[index].stalled && !queues[index].busy).map(MemberId).collect()
    }

    /// True if replay may go on whichever members are dropped: the remaining ones hold every log record that awaits it (R30).
    pub fn replay_has_holders(&self, members: &Members) -> bool {
        self.stage() >= StartStage::Replayed || self.overlay.has_holders(members)
    }
}

/// A write whose log records are durable; end it with [`Core::log_end`](crate::core::Core).
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

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::{Data, ErrorKind};

    const MEMBER: MemberId = MemberId(0);

    fn open() -> Log {
        let log = Log::new(
            Some(LogConfig { append_sectors_max: LogRecord::APPEND_SECTORS_MIN, new_data_sectors_max: 128, newest_only: false }),
            0,
        );
        log.enter(StartStage::Open, &Ready::default());
        log
    }

    /// Appends a record to the log of a member with a volatile cache. Returns how many appends before it are in doubt.
    fn append(log: &Log) -> (Logged, u32) {
        let record = LogRecord {
            number: 0,
            stripe: 0,
            rows: StripSector::span(0..8),
            written: 0..1,
            parity: 0,
            partial: Some(Data::zeros(4096)),
            new_data: SmallVec::new(),
            new_data_is_zeros: false,
        };
        let (logged, _) = log.take([[(MEMBER, record)]], Waiter::Straight(0));
        let (_, terms) = log.next_append(MEMBER).expect("it has space");
        let _ = log.appended(MEMBER, false, None, &mut |_| ());
        (logged, terms.unsure_count)
    }

    fn lost() -> IoError {
        IoError::new(ErrorKind::Other, "the cache is lost")
    }

    /// The next append said that all before it were durable. A crash then left a gap that looked like damage, and a degraded array
    /// started by force only.
    #[test]
    fn what_a_failed_flush_may_have_lost_stays_in_doubt_while_an_older_append_counts() {
        let log = open();
        let flush = |result: Result<(), IoError>| {
            let flush = log.begin_flush(MEMBER).expect("there is an append");
            log.flushed(MEMBER, &flush, result.as_ref().map(|&()| ()), &mut |_| ());
        };
        let mut all = Vec::new();
        for (result, unsure_count) in [(Ok(()), 0), (Err(lost()), 0), (Ok(()), 1), (Ok(()), 2)] {
            let (mut logged, unsure) = append(&log);
            assert_eq!(unsure, unsure_count, "append {}", all.len());
            flush(result.clone());
            assert_eq!(log.result(&mut logged), result);
            all.push(logged);
        }
        let first = all.remove(0);
        all.into_iter().for_each(|logged| log.retire_all(logged));
        let (logged, unsure) = append(&log);
        assert_eq!(unsure, 3, "the first one counts");
        flush(Ok(()));
        log.retire_all(first);
        log.retire_all(logged);
        assert_eq!(append(&log).1, 0, "what is lost is retired");
    }

    /// The kernel reports a lost write once: to a client's flush, say.
    #[test]
    fn an_append_is_not_durable_by_a_flush_after_one_that_failed() {
        let log = open();
        let (mut before, _) = append(&log);
        let flush = log.begin_flush(MEMBER).expect("there is an append");
        let (mut beside, _) = append(&log);
        log.flush_failed(MEMBER, &lost());
        let (mut after, _) = append(&log);
        log.flushed(MEMBER, &flush, Ok(()), &mut |_| ());
        assert_eq!(log.result(&mut before), Err(lost()));
        let flush = log.begin_flush(MEMBER).expect("there are two more");
        log.flushed(MEMBER, &flush, Ok(()), &mut |_| ());
        assert_eq!([log.result(&mut beside), log.result(&mut after)], [Err(lost()), Err(lost())], "they share a flush");
        let (mut next, _) = append(&log);
        let flush = log.begin_flush(MEMBER).expect("there is an append");
        log.flushed(MEMBER, &flush, Ok(()), &mut |_| ());
        assert_eq!(log.result(&mut next), Ok(()));
    }
}
