//! An array of modelled drives behind a platform: itself a model.
//!
//! A request passes the platform's serial part and its ceiling, becomes requests to members ([`steps`](crate::array::steps)),
//! and ends when the last of them does. A member's data pass its port. While a transfer waits for the shared link it holds
//! its port, so that throughput falls off before the link is full. With a write-back cache a write ends when it has room there;
//! stripes are written when they are whole, or when the cache runs short.

use crate::array::steps::{self, MemberAsk};
use crate::array::{Layout, Level};
use crate::chance::Chance;
use crate::hdd::{Hdd, HddConfig};
use crate::model::{Ask, Kind, Model, SECTOR_BYTES};
use crate::platform::PlatformConfig;
use crate::ssd::{Ssd, SsdConfig};
use crate::station::{Calendar, Station, transfer_ns};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use stria_block::{Nanos, Tag};

/// 64 GB/s: a link that is no limit.
const NO_LIMIT: u64 = 64_000_000_000;

/// 128 KiB: reads of that size are taken for parts of a stream. Source: the usual read-ahead of operating systems.
const STREAM_BYTES: u64 = 128 << 10;

/// 4 MiB: how much of a stream one copy reads. Source: none; long beside a seek, short beside what is under way.
const STREAM_TURN_BYTES: u64 = 4 << 20;

/// A drive of a profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::large_enum_variant)]
pub enum DriveConfig {
    /// An SSD.
    Ssd(SsdConfig),
    /// A hard disk.
    Hdd(HddConfig),
}

/// A drive.
#[allow(clippy::large_enum_variant)]
pub enum Drive {
    /// An SSD.
    Ssd(Ssd),
    /// A hard disk.
    Hdd(Hdd),
}

impl Drive {
    fn model(&mut self) -> &mut dyn Model {
        match self {
            Self::Ssd(drive) => drive,
            Self::Hdd(drive) => drive,
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        match self {
            Self::Ssd(drive) => drive.next_wake(),
            Self::Hdd(drive) => drive.next_wake(),
        }
    }
}

struct Member {
    drive: Drive,
    port_bytes_per_s: u64,
    half_duplex: bool,
    slots: u32,
    in_slots: u32,
    waiting: VecDeque<Passing>,
    /// Transfers to the drive and from it; a half-duplex port uses the second alone.
    port: [Port; 2],
}

#[derive(Default)]
struct Port {
    busy: bool,
    queue: VecDeque<Passing>,
}

/// A request to a member, on behalf of a job.
#[derive(Clone, Copy, Debug)]
struct Passing {
    job: usize,
    ask: Ask,
}

struct Job {
    /// The client's request, or none: a stripe that the cache writes back.
    ask: Option<Ask>,
    last: Vec<MemberAsk>,
    left: usize,
    /// Stripes that no other write may touch meanwhile.
    stripes: Range<u64>,
    /// Bytes that the cache gets back in the end.
    cached_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Begin(usize),
    Member { member: usize, passing: Passing },
    Port { member: usize, passing: Passing },
    Done(Tag),
}

/// See the module.
pub struct Rig {
    platform: PlatformConfig,
    layout: Layout,
    members: Vec<Member>,
    /// The host's and the controller's serial parts.
    serial: [Station; 2],
    link: [Station; 2],
    ceilings: [Station; 4],
    jobs: Vec<Job>,
    free_jobs: Vec<usize>,
    passing: Vec<Passing>,
    free_passing: Vec<usize>,
    calendar: Calendar<Event>,
    chance: Chance,
    cache: Cache,
    /// Stripes of parity levels that are being written, with the writes that wait for each.
    locks: HashMap<u64, VecDeque<usize>>,
    ended: Vec<Tag>,
}

/// Writes that are acknowledged and not yet with the members.
#[derive(Default)]
struct Cache {
    /// Dirty sectors of each stripe, by its number.
    dirty: BTreeMap<u64, u64>,
    bytes: u64,
    in_write_back: usize,
    waiting: VecDeque<usize>,
}

impl Rig {
    /// An array of drives, fresh from the factory.
    ///
    /// # Panics
    /// If there is no such array: ask [`Level::refusal`] before.
    pub fn new(platform: PlatformConfig, drives: &[DriveConfig], level: Level, strip_bytes: u64, seed: u64) -> Self {
        assert_eq!(level.refusal(drives.len()), None);
        let member = |(index, drive): (usize, &DriveConfig)| {
            let (drive, own, half_duplex, slots) = match drive {
                DriveConfig::Ssd(config) => {
                    let inner =
                        SsdConfig { link_bytes_per_s: NO_LIMIT, slots: u32::MAX, link_half_duplex: false, ..config.clone() };
                    let drive = Drive::Ssd(Ssd::new(inner, seed * 1000 + index as u64));
                    (drive, config.link_bytes_per_s, config.link_half_duplex, config.slots)
                }
                DriveConfig::Hdd(config) => {
                    let inner = HddConfig { slots: u32::MAX, ..config.clone() };
                    (Drive::Hdd(Hdd::new(inner)), config.link_bytes_per_s, false, config.slots)
                }
            };
            Member {
                drive,
                port_bytes_per_s: platform.port_of(index).unwrap_or(NO_LIMIT).min(own),
                half_duplex,
                slots: platform.member_slots.unwrap_or(u32::MAX).min(slots),
                in_slots: 0,
                waiting: VecDeque::new(),
                port: [Port::default(), Port::default()],
            }
        };
        let mut members: Vec<Member> = drives.iter().enumerate().map(member).collect();
        let layout = Layout {
            level,
            members: members.len(),
            strip_sectors: strip_bytes / SECTOR_BYTES,
            member_sectors: members.iter_mut().map(|member| member.drive.model().size_sectors()).min().unwrap_or(0),
        };
        Self {
            platform,
            layout,
            members,
            serial: [Station::default(); 2],
            link: [Station::default(); 2],
            ceilings: [Station::default(); 4],
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            passing: Vec::new(),
            free_passing: Vec::new(),
            calendar: Calendar::default(),
            chance: Chance::new(seed, 3),
            cache: Cache::default(),
            locks: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// The drives, to bring them to a state before a load.
    pub fn ssds(&mut self) -> impl Iterator<Item = &mut Ssd> {
        self.members.iter_mut().filter_map(|member| match &mut member.drive {
            Drive::Ssd(drive) => Some(drive),
            Drive::Hdd(_) => None,
        })
    }

    /// The platform.
    pub fn platform(&self) -> &PlatformConfig {
        &self.platform
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn new_job(&mut self, job: Job) -> usize {
        match self.free_jobs.pop() {
            Some(index) => {
                self.jobs[index] = job;
                index
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() - 1
            }
        }
    }

    /// When a request has passed the platform's serial part and the ceilings of its kind of work.
    fn pass_platform(&mut self, now: Nanos, ask: &Ask) -> Nanos {
        let level = self.layout.level;
        let (mirror, parity) = (level.copies() > 1, level.parities() > 0);
        let platform = &self.platform;
        let touched = match ask.is_write() {
            _ if ask.kind == Kind::Flush => 1,
            true if mirror => level.copies(),
            true if parity => 2 * (1 + level.parities()),
            _ => 1,
        };
        let mirrored = match (mirror, ask.kind) {
            (true, Kind::Read) => platform.mirror_read_ns,
            (true, Kind::Write { .. }) => platform.mirror_write_ns,
            _ => 0,
        };
        // Where there is no controller the host does its work.
        let raid = mirrored + platform.member_ns * (touched as u64 - 1);
        let (host, controller) = match platform.controller_ns {
            0 => (platform.serial_ns + raid, 0),
            own => (platform.serial_ns, own + raid),
        };
        let sent = self.serial[0].serve(now, host);
        let mut end = self.serial[1].serve(sent, controller);
        let ceilings = platform.ceilings;
        let columns = self.layout.columns();
        let to_members = (columns + level.parities()) as f64 * level.copies() as f64 / columns as f64;
        let limits = [
            (ask.kind == Kind::Read, ceilings.read, 1.0),
            (ask.is_write(), ceilings.write_to_members, to_members),
            (mirror || parity, ceilings.redundant, if ask.is_write() { level.copies() as f64 } else { 1.0 }),
            (ask.is_write() && parity, ceilings.parity_write, 1.0),
        ];
        for (station, (concerned, limit, factor)) in self.ceilings.iter_mut().zip(limits) {
            if let (true, Some(limit)) = (concerned, limit) {
                end = end.max(station.serve(now, (transfer_ns(ask.bytes(), limit) as f64 * factor) as Nanos));
            }
        }
        end
    }

    fn begin(&mut self, now: Nanos, index: usize) {
        let ask = self.jobs[index].ask.expect("a client's job");
        match ask.kind {
            Kind::Read => {
                let steps = self.read_steps(&ask);
                self.run_steps(now, index, steps);
            }
            Kind::Write { fua: false } if self.platform.write_back_bytes > 0 => {
                self.cache.waiting.push_back(index);
                self.take_into_cache(now);
            }
            Kind::Trim if !self.platform.trims(self.layout.level) => self.finish(now, index),
            Kind::Write { .. } | Kind::Trim => self.begin_write(now, index, &ask),
            Kind::Flush => {
                let last = (0..self.members.len()).map(|member| (member, ask)).collect();
                self.run_steps(now, index, steps::Steps { reads: Vec::new(), last });
            }
        }
    }

    /// Starts a write once it has the locks of its stripes, which it takes all at once; on levels without parity at once.
    fn begin_write(&mut self, now: Nanos, index: usize, ask: &Ask) {
        if self.layout.level.parities() > 0 {
            let stripe_sectors = self.layout.columns() as u64 * self.layout.strip_sectors;
            let stripes = ask.start_sector / stripe_sectors..ask.end_sector().div_ceil(stripe_sectors);
            if let Some(taken) = stripes.clone().find(|stripe| self.locks.contains_key(stripe)) {
                self.locks.entry(taken).or_default().push_back(index);
                return;
            }
            stripes.clone().for_each(|stripe| _ = self.locks.insert(stripe, VecDeque::new()));
            self.jobs[index].stripes = stripes;
        }
        let steps = steps::write(&self.layout, ask);
        self.run_steps(now, index, steps);
    }

    /// Gives back a job's locks and starts what waited for them, as far as it gets its own.
    fn unlock(&mut self, now: Nanos, stripes: Range<u64>) {
        let waiting: Vec<usize> = stripes.filter_map(|stripe| self.locks.remove(&stripe)).flatten().collect();
        for index in waiting {
            let ask = self.jobs[index].ask.expect("what waits for a stripe is a client's write");
            self.begin_write(now, index, &ask);
        }
    }

    /// Of copies the one is read whose member has the least to do; of those alike one at random. Large reads take the copies in
    /// turns of some MiB, so that each streams.
    fn read_steps(&mut self, ask: &Ask) -> steps::Steps {
        let (members, chance) = (&self.members, &mut self.chance);
        let large = ask.bytes() >= STREAM_BYTES;
        steps::read(&self.layout, ask, |first, copies, sector| {
            if copies == 1 {
                return first;
            }
            if large {
                return first + (sector * SECTOR_BYTES / STREAM_TURN_BYTES) as usize % copies;
            }
            let turn = chance.below(copies as u64) as usize;
            let order = (0..copies).map(|copy| first + (copy + turn) % copies);
            order.min_by_key(|&member| members[member].in_slots as usize + members[member].waiting.len()).unwrap_or(first)
        })
    }

    fn run_steps(&mut self, now: Nanos, index: usize, steps: steps::Steps) {
        let (first, last) = if steps.reads.is_empty() { (steps.last, Vec::new()) } else { (steps.reads, steps.last) };
        self.jobs[index].last = last;
        self.issue(now, index, &first);
    }

    fn issue(&mut self, now: Nanos, index: usize, asks: &[MemberAsk]) {
        self.jobs[index].left = asks.len();
        for &(member, ask) in asks {
            let passing = Passing { job: index, ask };
            if self.members[member].in_slots == self.members[member].slots {
                self.members[member].waiting.push_back(passing);
            } else {
                self.members[member].in_slots += 1;
                self.start_member(now, member, passing);
            }
        }
    }

    fn start_member(&mut self, now: Nanos, member: usize, passing: Passing) {
        match passing.ask.is_write() {
            true => self.queue_port(now, member, passing),
            false => self.submit_to_drive(now, member, passing),
        }
    }

    fn submit_to_drive(&mut self, now: Nanos, member: usize, passing: Passing) {
        let tag = match self.free_passing.pop() {
            Some(index) => {
                self.passing[index] = passing;
                index
            }
            None => {
                self.passing.push(passing);
                self.passing.len() - 1
            }
        };
        self.members[member].drive.model().submit(now, Ask { tag: tag as Tag, ..passing.ask });
    }

    fn queue_port(&mut self, now: Nanos, member: usize, passing: Passing) {
        let way = usize::from(!passing.ask.is_write() || self.members[member].half_duplex);
        self.members[member].port[way].queue.push_back(passing);
        self.turn_port(now, member, way);
    }

    fn turn_port(&mut self, now: Nanos, member: usize, way: usize) {
        let rate = self.members[member].port_bytes_per_s;
        let port = &mut self.members[member].port[way];
        if port.busy {
            return;
        }
        let Some(passing) = port.queue.pop_front() else { return };
        port.busy = true;
        let own = transfer_ns(passing.ask.bytes(), rate);
        let mut end = now + own;
        let (read, write) = (self.platform.link_read_bytes_per_s, self.platform.link_write_bytes_per_s);
        if let Some(shared) = if passing.ask.is_write() { write } else { read } {
            let service = transfer_ns(passing.ask.bytes(), shared);
            let granted = self.link[usize::from(passing.ask.is_write())].serve(now, service) - service;
            end = granted + own.max(service);
        }
        self.calendar.add(end, Event::Port { member, passing });
    }

    fn member_done(&mut self, now: Nanos, member: usize, passing: Passing) {
        match self.members[member].waiting.pop_front() {
            Some(next) => self.start_member(now, member, next),
            None => self.members[member].in_slots -= 1,
        }
        let job = &mut self.jobs[passing.job];
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        let last = std::mem::take(&mut job.last);
        match last.is_empty() {
            true => self.finish(now, passing.job),
            false => self.issue(now, passing.job, &last),
        }
    }

    fn finish(&mut self, now: Nanos, index: usize) {
        let job = &mut self.jobs[index];
        let (stripes, ask, cached_bytes) = (job.stripes.clone(), job.ask.take(), job.cached_bytes);
        self.free_jobs.push(index);
        self.unlock(now, stripes);
        match ask {
            Some(ask) => self.calendar.add(now, Event::Done(ask.tag)),
            None => {
                self.cache.bytes -= cached_bytes;
                self.cache.in_write_back -= 1;
                self.take_into_cache(now);
            }
        }
    }

    fn take_into_cache(&mut self, now: Nanos) {
        let stripe_sectors = self.layout.columns() as u64 * self.layout.strip_sectors;
        while let Some(&index) = self.cache.waiting.front() {
            let ask = self.jobs[index].ask.expect("a client's job");
            if self.cache.bytes + ask.bytes() > self.platform.write_back_bytes {
                break;
            }
            self.cache.waiting.pop_front();
            self.cache.bytes += ask.bytes();
            for piece in self.layout.pieces(ask.start_sector, ask.sectors) {
                *self.cache.dirty.entry(piece.stripe).or_default() += piece.sectors;
            }
            let touched = ask.start_sector / stripe_sectors..=(ask.end_sector() - 1) / stripe_sectors;
            self.finish(now, index);
            for stripe in touched {
                if self.cache.dirty.get(&stripe).is_some_and(|&sectors| sectors >= stripe_sectors) {
                    self.write_back(now, stripe);
                }
            }
        }
        // Half of the cache waits for stripes to become whole.
        while self.cache.bytes > self.platform.write_back_bytes / 2 && self.cache.in_write_back < self.members.len() {
            let Some((&stripe, _)) = self.cache.dirty.first_key_value() else { break };
            self.write_back(now, stripe);
        }
    }

    fn write_back(&mut self, now: Nanos, stripe: u64) {
        let stripe_sectors = self.layout.columns() as u64 * self.layout.strip_sectors;
        let dirty = self.cache.dirty.remove(&stripe).unwrap_or(0);
        let ask = Ask {
            tag: 0,
            kind: Kind::Write { fua: false },
            start_sector: stripe * stripe_sectors,
            sectors: dirty.min(stripe_sectors),
        };
        self.cache.in_write_back += 1;
        let steps = steps::write(&self.layout, &ask);
        let index = self.new_job(Job { ask: None, last: Vec::new(), left: 0, stripes: 0..0, cached_bytes: dirty * SECTOR_BYTES });
        self.run_steps(now, index, steps);
    }
}

impl Model for Rig {
    fn size_sectors(&self) -> u64 {
        self.layout.size_sectors()
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        let at = self.pass_platform(now, &ask);
        let index = self.new_job(Job { ask: Some(ask), last: Vec::new(), left: 0, stripes: 0..0, cached_bytes: 0 });
        self.calendar.add(at, Event::Begin(index));
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        loop {
            let drive = self.members.iter().filter_map(|member| member.drive.next_wake()).min();
            let own = self.calendar.next_at();
            let Some(at) = [drive, own].into_iter().flatten().min().filter(|&at| at <= now) else { break };
            if drive == Some(at) {
                for member in 0..self.members.len() {
                    if self.members[member].drive.next_wake() == Some(at) {
                        let mut done = std::mem::take(&mut self.ended);
                        self.members[member].drive.model().poll(at, &mut done);
                        for tag in done.drain(..) {
                            let passing = self.passing[tag as usize];
                            self.free_passing.push(tag as usize);
                            self.calendar.add(at, Event::Member { member, passing });
                        }
                        self.ended = done;
                    }
                }
            }
            while let Some((_, event)) = self.calendar.take_due(at) {
                match event {
                    Event::Begin(index) => self.begin(at, index),
                    Event::Member { member, passing } if passing.ask.kind == Kind::Read => self.queue_port(at, member, passing),
                    Event::Member { member, passing } => self.member_done(at, member, passing),
                    Event::Port { member, passing } => {
                        let way = usize::from(!passing.ask.is_write() || self.members[member].half_duplex);
                        self.members[member].port[way].busy = false;
                        match passing.ask.is_write() {
                            true => self.submit_to_drive(at, member, passing),
                            false => self.member_done(at, member, passing),
                        }
                        self.turn_port(at, member, way);
                    }
                    Event::Done(tag) => ended.push(tag),
                }
            }
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        let drives = self.members.iter().filter_map(|member| member.drive.next_wake());
        drives.chain(self.calendar.next_at()).min()
    }
}
