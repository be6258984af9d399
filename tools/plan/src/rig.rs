//! An array of modelled drives behind a platform: itself a model.
//!
//! A request passes the platform's serial part and its ceiling, and goes to the array, which is Stria's engine or its plain twin
//! ([`Maker`]). With a write-back cache a write ends when it has space there. Stripes are written when they are full, or when the
//! cache runs short.

use crate::array::engine::{Condition, EngineArray};
use crate::array::stepped::Stepped;
use crate::array::{Layout, Level, steps};
use crate::backplane::{Backplane, DriveConfig};
use crate::model::{Ask, Kind, Model, SECTOR_BYTES};
use crate::platform::PlatformConfig;
use crate::station::{Calendar, Station, transfer_ns};
use slab::Slab;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Nanos, Tag};

/// The implementation of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The engine that serves drives.
    Engine,
    /// Its plain twin, without coalescing.
    Steps,
}

enum Array {
    Engine(Box<EngineArray>),
    Steps(Box<Stepped>),
}

impl Array {
    fn model(&mut self) -> &mut dyn Model {
        match self {
            Self::Engine(array) => &mut **array,
            Self::Steps(array) => &mut **array,
        }
    }

    fn take_requests(&mut self) -> u64 {
        match self {
            Self::Engine(array) => array.take_requests(),
            Self::Steps(array) => array.take_requests(),
        }
    }

    fn as_model(&self) -> &dyn Model {
        match self {
            Self::Engine(array) => &**array,
            Self::Steps(array) => &**array,
        }
    }
}

/// # Panics
/// If the level takes no such count of members.
fn layout(level: Level, drives: &[DriveConfig], members: usize, strip_bytes: u64) -> Layout {
    assert_eq!(level.model_refusal(members), None);
    let smallest = drives.iter().map(DriveConfig::capacity_bytes).min().unwrap_or(0);
    Layout { level, members, strip_sectors: strip_bytes / SECTOR_BYTES, member_sectors: smallest / SECTOR_BYTES }
}

/// 16 MiB: a longer strip is a whole drive, without an array.
const STRIP_BYTES_MAX: u64 = 16 << 20;
/// 1 MiB: the part of a drive without an array that a cache writes back at once. Drives begin at multiples of it.
const BARE_LINE_BYTES: u64 = 1 << 20;

/// A client's request; `None` with the bytes that the cache gets back in the end: a stripe that it writes back.
type Job = Result<Ask, u64>;

#[derive(Clone, Copy, Debug)]
enum Event {
    Begin(usize),
    Done(usize),
}

/// An array behind a platform (see the module).
pub struct Rig {
    platform: PlatformConfig,
    layout: Layout,
    backplane: Rc<RefCell<Backplane>>,
    array: Array,
    now: Nanos,
    /// The serial parts of the host and of the controller.
    serial: [Station; 2],
    ceilings: [Station; 5],
    members: MemberTime,
    jobs: Slab<Job>,
    calendar: Calendar<Event>,
    cache: Cache,
    ended: Vec<Tag>,
}

/// The processor's account of requests to members. A client's request pays at first for those that its level needs, so that its
/// latency has their time. What the array then sends in fact is charged where it is more (degraded reads, rebuilds) and credited
/// where it is less (writes that share a stripe).
#[derive(Default)]
struct MemberTime {
    /// Requests that were paid for and not yet sent.
    paid: u64,
    /// Those of them that belong to clients' requests under way, which may still send them.
    open: u64,
    /// The same of each job.
    of_jobs: Vec<u64>,
}

impl MemberTime {
    /// A client's request begins; returns how many of its requests to members are to be paid for now.
    fn begin(&mut self, job: usize, planned: u64) -> u64 {
        let credit = self.paid.saturating_sub(self.open).min(planned);
        self.of_jobs.resize(self.of_jobs.len().max(job + 1), 0);
        self.of_jobs[job] = planned;
        self.open += planned;
        self.paid += planned - credit;
        planned - credit
    }

    fn end(&mut self, job: usize) {
        if let Some(planned) = self.of_jobs.get_mut(job) {
            self.open -= std::mem::take(planned);
        }
    }

    /// The array has sent so many; returns how many of them are not paid for.
    fn sent(&mut self, requests: u64) -> u64 {
        let unpaid = requests.saturating_sub(self.paid);
        self.paid = self.paid.saturating_sub(requests);
        unpaid
    }
}

/// Writes that are acknowledged and not yet on the members.
#[derive(Default)]
struct Cache {
    /// Dirty stripes by number; those of all spans count as one.
    dirty: BTreeMap<u64, Dirty>,
    bytes: u64,
    in_write_back: usize,
    waiting: VecDeque<usize>,
    /// Flushes that wait for all that is dirty. No write is taken in meanwhile, so that they end.
    flushes: Vec<usize>,
}

/// The dirty sectors of a stripe: ranges that neither overlap nor touch, in ascending order.
#[derive(Default)]
struct Dirty(Vec<Range<u64>>);

impl Dirty {
    /// Returns how many of these sectors were not dirty before.
    fn add(&mut self, mut range: Range<u64>) -> u64 {
        let before = self.sectors();
        self.0.retain(|other| {
            let apart = other.end < range.start || range.end < other.start;
            if !apart {
                range = range.start.min(other.start)..range.end.max(other.end);
            }
            apart
        });
        let at = self.0.partition_point(|other| other.start < range.start);
        self.0.insert(at, range);
        self.sectors() - before
    }

    fn sectors(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    fn start_sector(&self) -> u64 {
        self.0[0].start
    }
}

impl Rig {
    /// An array of drives, fresh from the factory: of Stria's engine, or of its twin on a platform that does not coalesce writes,
    /// chooses among copies in its own way, or has no queues.
    ///
    /// # Panics
    /// If there is no such array: ask [`Level::model_refusal`] before, and take a strip that is a power of two.
    pub fn new(platform: PlatformConfig, drives: &[DriveConfig], level: Level, strip_bytes: u64, seed: u64) -> Self {
        let maker = if platform.is_served_by_engine(level) { Maker::Engine } else { Maker::Steps };
        Self::made_by(maker, platform, drives, level, strip_bytes, seed).expect("there is such an array")
    }

    /// The same with one of the two implementations.
    ///
    /// # Errors
    /// If the engine knows no such array.
    ///
    /// # Panics
    /// If the level takes no such count of drives: ask [`Level::model_refusal`] before.
    pub fn made_by(
        maker: Maker,
        platform: PlatformConfig,
        drives: &[DriveConfig],
        level: Level,
        strip_bytes: u64,
        seed: u64,
    ) -> Result<Self, String> {
        if maker == Maker::Engine {
            return Self::in_condition(Condition::Optimal, platform, drives, level, strip_bytes, seed);
        }
        let layout = layout(level, drives, drives.len(), strip_bytes);
        let backplane = Rc::new(RefCell::new(Backplane::new(&platform, drives, seed)));
        let array = Array::Steps(Box::new(Stepped::new(layout, Rc::clone(&backplane), &platform, seed)));
        Ok(Self::over(platform, layout, backplane, array))
    }

    /// An array of the engine. If it is not optimal, it lacks its first member. With [`Condition::Rebuilding`] the last drive is
    /// the spare.
    ///
    /// # Errors
    /// If the engine knows no such array.
    ///
    /// # Panics
    /// If the level takes no such count of drives, or lacks a member without redundancy.
    pub fn in_condition(
        condition: Condition,
        platform: PlatformConfig,
        drives: &[DriveConfig],
        level: Level,
        strip_bytes: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let members = drives.len() - usize::from(condition == Condition::Rebuilding);
        let layout = layout(level, drives, members, strip_bytes);
        let backplane = Rc::new(RefCell::new(Backplane::new(&platform, drives, seed)));
        let array = EngineArray::new(&layout, condition, &platform, drives, Rc::clone(&backplane))?;
        Ok(Self::over(platform, layout, backplane, Array::Engine(Box::new(array))))
    }

    fn over(platform: PlatformConfig, layout: Layout, backplane: Rc<RefCell<Backplane>>, array: Array) -> Self {
        Self {
            platform,
            layout,
            backplane,
            array,
            now: 0,
            serial: [Station::default(); 2],
            ceilings: [Station::default(); 5],
            members: MemberTime::default(),
            jobs: Slab::new(),
            calendar: Calendar::default(),
            cache: Cache::default(),
            ended: Vec::new(),
        }
    }

    /// Holds a rebuild to so many bytes of each member a second, whatever clients feel; `u64::MAX`: as fast as the members are.
    pub fn set_rebuild_speed(&mut self, bytes_per_s: u64) {
        if let Array::Engine(array) = &mut self.array {
            array.set_rebuild_speed(if bytes_per_s == u64::MAX { bytes_per_s } else { bytes_per_s / SECTOR_BYTES });
        }
    }

    /// Sectors of the spare that are filled; `None` if no rebuild runs.
    pub fn rebuilt_sectors(&self) -> Option<u64> {
        match &self.array {
            Array::Engine(array) => array.rebuilt_sectors(),
            Array::Steps(_) => None,
        }
    }

    /// The bytes of a write-back cache that the drives do not have yet.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes
    }

    /// Writes back all that the cache holds, while no client's request is under way. Returns the time at which the members have
    /// it.
    pub fn write_back_all(&mut self, now: Nanos) -> Nanos {
        let mut ended = Vec::new();
        self.now = self.now.max(now);
        loop {
            self.write_back_down_to(0, self.now);
            let Some(wake) = self.next_wake().filter(|_| self.cache.in_write_back > 0) else { return self.now };
            self.advance(wake, &mut ended);
        }
    }

    /// The SSDs, so that they can be brought to a state before a load.
    pub fn backplane(&self) -> RefMut<'_, Backplane> {
        self.backplane.borrow_mut()
    }

    /// The platform.
    pub fn platform(&self) -> &PlatformConfig {
        &self.platform
    }

    /// A thread's own time for a read, beside that for each request.
    pub fn thread_read_ns(&self) -> Nanos {
        if self.layout.level.is_mirrored() { self.platform.mirror_read_thread_ns } else { 0 }
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Data of a stripe of every span; without an array, where each strip is a whole drive, a part of it.
    fn stripe_sectors(&self) -> u64 {
        if self.layout.strip_sectors > STRIP_BYTES_MAX / SECTOR_BYTES {
            return BARE_LINE_BYTES / SECTOR_BYTES;
        }
        (self.layout.columns() * self.layout.level.spans()) as u64 * self.layout.strip_sectors
    }

    /// Requests to members that a client's request needs by its level.
    fn planned(&self, ask: &Ask) -> u64 {
        match ask.kind {
            Kind::Read | Kind::Write { .. } => steps::count(&self.layout, ask).max(1) as u64,
            Kind::Trim | Kind::Flush => 1,
        }
    }

    /// Charges the processor for what the array has sent and nobody paid for.
    fn charge_members(&mut self, now: Nanos) {
        if self.platform.member_ns == 0 {
            return;
        }
        let unpaid = self.members.sent(self.array.take_requests());
        if unpaid > 0 {
            self.serial[usize::from(self.platform.controller_ns > 0)].serve(now, self.platform.member_ns * unpaid);
        }
    }

    /// The time at which a request has passed the platform's serial part and the ceilings of its kind of work.
    fn pass_platform(&mut self, now: Nanos, job: usize, ask: &Ask) -> Nanos {
        let level = self.layout.level;
        let (mirror, parity) = (level.is_mirrored(), level.parities() > 0);
        // The first is part of the time of each request.
        let further = if self.platform.member_ns > 0 { self.members.begin(job, self.planned(ask)).saturating_sub(1) } else { 0 };
        let platform = &self.platform;
        let mirrored = match (mirror, ask.kind) {
            (true, Kind::Read) => platform.mirror_read_ns,
            (true, Kind::Write { .. }) => platform.mirror_write_ns,
            _ => 0,
        };
        // If there is no controller the host does its work.
        let logged = if parity && ask.is_write() { platform.log_ns + platform.parity_write_ns } else { 0 };
        let raid = mirrored + logged + platform.member_ns * further;
        let (host, controller) = match platform.controller_ns {
            0 => (platform.serial_ns + raid, 0),
            own => (platform.serial_ns, own + raid),
        };
        let sent = self.serial[0].serve(now, host);
        let mut end = self.serial[1].serve(sent, controller);
        let ceilings = platform.ceilings;
        let (columns, copies) = (self.layout.columns(), self.layout.copies() as f64);
        let to_members = (columns + level.parities()) as f64 * copies / columns as f64;
        let limits = [
            (ask.kind == Kind::Read, ceilings.read, 1.0),
            (ask.is_write(), ceilings.write, 1.0),
            (ask.is_write(), ceilings.write_to_members, to_members),
            (mirror || parity, ceilings.redundant, if ask.is_write() { copies } else { 1.0 }),
            (ask.is_write() && parity, ceilings.parity_write, 1.0),
        ];
        for (station, (concerned, limit, factor)) in self.ceilings.iter_mut().zip(limits) {
            if let (true, Some(limit)) = (concerned, limit) {
                end = end.max(station.serve(now, (transfer_ns(ask.bytes(), limit) as f64 * factor) as Nanos));
            }
        }
        end
    }

    fn end(&mut self, now: Nanos, index: usize, ended: &mut Vec<Tag>) {
        self.members.end(index);
        match self.jobs.remove(index) {
            Ok(ask) => ended.push(ask.tag),
            Err(cached_bytes) => {
                self.cache.bytes -= cached_bytes;
                self.cache.in_write_back -= 1;
                self.flush_when_clean(now);
                self.take_into_cache(now);
            }
        }
    }

    fn begin(&mut self, now: Nanos, index: usize) {
        let ask = self.jobs[index].expect("a client's job");
        match ask.kind {
            // A write that is larger than the cache passes it by; it would wait for room for ever.
            Kind::Write { fua: false } if self.platform.write_back_bytes >= ask.bytes() => {
                self.cache.waiting.push_back(index);
                self.take_into_cache(now);
            }
            Kind::Flush if self.platform.write_back_is_volatile => {
                self.cache.flushes.push(index);
                self.flush_when_clean(now);
            }
            Kind::Trim if !self.platform.trims(self.layout.level) => self.calendar.add(now, Event::Done(index)),
            Kind::Read | Kind::Write { .. } | Kind::Trim | Kind::Flush => {
                self.array.model().submit(now, Ask { tag: index as Tag, ..ask });
            }
        }
    }

    /// Writes back all that is dirty for the flushes that wait, and passes them on when it is written.
    fn flush_when_clean(&mut self, now: Nanos) {
        if self.cache.flushes.is_empty() {
            return;
        }
        self.write_back_down_to(0, now);
        if self.cache.in_write_back > 0 {
            return;
        }
        for index in std::mem::take(&mut self.cache.flushes) {
            let ask = self.jobs[index].expect("a client's job");
            self.array.model().submit(now, Ask { tag: index as Tag, ..ask });
        }
    }

    fn take_into_cache(&mut self, now: Nanos) {
        if !self.cache.flushes.is_empty() {
            return;
        }
        let stripe_sectors = self.stripe_sectors();
        while let Some(&index) = self.cache.waiting.front() {
            let ask = self.jobs[index].expect("a client's job");
            if self.cache.bytes + ask.bytes() > self.platform.write_back_bytes {
                break;
            }
            self.cache.waiting.pop_front();
            self.calendar.add(now, Event::Done(index));
            for stripe in ask.start_sector / stripe_sectors..ask.end_sector().div_ceil(stripe_sectors) {
                let from = ask.start_sector.max(stripe * stripe_sectors);
                let to = ask.end_sector().min((stripe + 1) * stripe_sectors);
                let dirty = self.cache.dirty.entry(stripe).or_default();
                self.cache.bytes += dirty.add(from..to) * SECTOR_BYTES;
                if dirty.sectors() >= stripe_sectors {
                    self.write_back(now, stripe);
                }
            }
        }
        // Half of the cache waits for full stripes; less of it does while a write that needs more than the other half waits.
        let waits = self.cache.waiting.front().map_or(0, |&index| self.jobs[index].expect("a client's job").bytes());
        let size = self.platform.write_back_bytes;
        self.write_back_down_to((size / 2).min(size - waits), now);
    }

    /// Begins to write stripes back, one for each member at a time, until no more than so many bytes are left.
    fn write_back_down_to(&mut self, bytes: u64, now: Nanos) {
        while self.cache.bytes > bytes && self.cache.in_write_back < self.layout.members {
            let Some((&stripe, _)) = self.cache.dirty.first_key_value() else { break };
            self.write_back(now, stripe);
        }
    }

    fn write_back(&mut self, now: Nanos, stripe: u64) {
        let Some(dirty) = self.cache.dirty.remove(&stripe) else { return };
        self.cache.in_write_back += 1;
        let index = self.jobs.insert(Err(dirty.sectors() * SECTOR_BYTES));
        // Of several parts of a stripe that are dirty it is as if they lay side by side.
        let (start_sector, sectors) = (dirty.start_sector(), dirty.sectors());
        let sectors = sectors.min((stripe + 1) * self.stripe_sectors() - start_sector);
        self.array.model().submit(now, Ask { tag: index as Tag, kind: Kind::Write { fua: false }, start_sector, sectors });
    }
}

impl Model for Rig {
    fn size_sectors(&self) -> u64 {
        self.array.as_model().size_sectors()
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        let index = self.jobs.insert(Ok(ask));
        let at = self.pass_platform(now, index, &ask);
        self.calendar.add(at, Event::Begin(index));
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        while self.next_wake().is_some_and(|at| at <= now) {
            self.advance(now, ended);
        }
    }

    fn advance(&mut self, mut until: Nanos, ended: &mut Vec<Tag>) -> Nanos {
        loop {
            // Asked once: an array looks at every member for it.
            let (array, own) = (self.array.as_model().next_wake(), self.calendar.next_at());
            let at = [array, own].into_iter().flatten().min().map(|at| at.max(self.now));
            let Some(at) = at.filter(|&at| at <= until) else { return until };
            self.now = at;
            if array.is_some_and(|wake| wake <= at) {
                let mut done = std::mem::take(&mut self.ended);
                let limit = own.map_or(until, |own| own.clamp(at, until));
                self.now = self.array.model().advance(limit, &mut done);
                for tag in done.drain(..) {
                    self.end(self.now, tag as usize, ended);
                }
                self.ended = done;
            }
            while let Some((_, event)) = self.calendar.take_due(self.now) {
                match event {
                    Event::Begin(index) => self.begin(self.now, index),
                    Event::Done(index) => self.end(self.now, index, ended),
                }
            }
            self.charge_members(self.now);
            if !ended.is_empty() {
                until = self.now;
            }
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        [self.array.as_model().next_wake(), self.calendar.next_at()].into_iter().flatten().min().map(|at| at.max(self.now))
    }
}
