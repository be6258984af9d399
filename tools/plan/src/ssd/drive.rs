//! The drive around its flash: queue slots, firmware, link, write buffer, flushes, and the states it can be brought to.
//!
//! A read: slot, processor, space for each of its parts in the read buffer, flash, link. A write: slot, processor, link, space in
//! the buffer; it ends when it has that space, and is programmed later. A flush ends at once if the buffer survives the loss of
//! power, otherwise when all is programmed.

use super::config::{IDLE_AFTER_NS, PAGE_BYTES, SsdConfig, TRACKED_BLOCK_PAGES};
use super::flash::Flash;
use super::map::Counts;
use super::sampled::SampledMap;
use crate::chance::Chance;
use crate::model::{Ask, Kind, Model, SECTOR_BYTES};
use crate::station::{Calendar, Station, transfer_ns};
use slab::Slab;
use std::collections::VecDeque;
use stria_block::{Nanos, Tag};

/// 128 KiB: a processor takes a command's further bytes in steps of it. Source: the usual largest transfer of one command.
const COMMAND_BYTES: u64 = 128 << 10;

/// 0.9: beyond it writes wait for space in the buffer anyway, which is counted by itself.
const CONTENTION_MAX: f64 = 0.9;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The parts of a read may go to flash.
    Flash(Ask),
    /// A part of a read is in the read buffer.
    Read(ReadPart),
    /// The read buffer has space again.
    Room,
    /// A write has its turn on the link.
    Link(Ask),
    /// The first of the writes that wait for the buffer gets space there.
    Admit,
    Done(Tag),
}

/// The part of a range within one program unit.
#[derive(Clone, Copy, Debug)]
struct ReadPart {
    read: usize,
    unit: u64,
    bytes: u64,
    /// The time of an answer without flash, if the drive gives one.
    without_flash_ns: Option<Nanos>,
}

/// Memory between flash and link. It is emptied in the order in which it is filled, at the link's rate.
#[derive(Debug, Default)]
struct ReadBuffer {
    used_bytes: u64,
    waiting: VecDeque<ReadPart>,
    link: Station,
    /// What leaves it, and when.
    leaving: VecDeque<(Nanos, u64)>,
    is_awaited: bool,
}

impl ReadBuffer {
    fn advance(&mut self, now: Nanos) {
        while let Some(&(at, bytes)) = self.leaving.front()
            && at <= now
        {
            self.leaving.pop_front();
            self.used_bytes -= bytes;
        }
    }
}

/// 64 GB/s: a link that is no limit.
const NO_LIMIT: u64 = 64_000_000_000;

/// One drive.
pub struct Ssd {
    config: SsdConfig,
    map: SampledMap,
    flash: Flash,
    processors: Vec<Station>,
    /// Reads of which parts are not yet read, with their number.
    reads: Slab<(Ask, u32)>,
    read_buffer: ReadBuffer,
    /// What empties the read buffer.
    drain_bytes_per_s: u64,
    /// The link to the host and from it; half-duplex links use the first alone.
    link: [Station; 2],
    calendar: Calendar<Event>,
    /// Draws how long writes wait for the firmware.
    chance: Chance,
    /// Requests that wait for a slot.
    waiting: VecDeque<Ask>,
    in_slots: u32,
    /// The time from which on the newest write has all of its space in the buffer; it may be yet to come.
    admitted_at: Nanos,
    /// Writes that wait for that, each with the firmware's time for it and when it has crossed the link.
    admitting: VecDeque<(Ask, Nanos, Nanos)>,
    /// Bytes that the host wrote, as they are stored, that wait for a program unit to be whole, and bytes of copies.
    gathered: f64,
    copies_gathered: f64,
    slc_used: u64,
    last_end: Nanos,
}

impl Ssd {
    /// A drive fresh from the factory, without slots and link of its own: the port has them, which takes at most so many bytes a
    /// second.
    pub fn on_port(config: &SsdConfig, port_bytes_per_s: u64, seed: u64) -> Self {
        let (link_bytes_per_s, slots, link_half_duplex) = (NO_LIMIT, u32::MAX, false);
        let drain_bytes_per_s = port_bytes_per_s.min(config.link_bytes_per_s);
        let inner = SsdConfig { link_bytes_per_s, slots, link_half_duplex, ..config.clone() };
        Self { drain_bytes_per_s, ..Self::new(inner, seed) }
    }

    /// A drive fresh from the factory.
    pub fn new(config: SsdConfig, seed: u64) -> Self {
        let map = SampledMap::new(
            config.pages(),
            config.effective_spare_share(),
            TRACKED_BLOCK_PAGES.min((config.pages() / 64).max(16) as u32),
            config.policy,
            config.tracked_pages_max,
        );
        Self {
            flash: Flash::new(&config, Chance::new(seed, 0)),
            map,
            processors: vec![Station::default(); config.processors as usize],
            reads: Slab::new(),
            read_buffer: ReadBuffer::default(),
            drain_bytes_per_s: config.link_bytes_per_s,
            link: [Station::default(); 2],
            calendar: Calendar::default(),
            chance: Chance::new(seed, 4),
            waiting: VecDeque::new(),
            in_slots: 0,
            admitted_at: 0,
            admitting: VecDeque::new(),
            gathered: 0.0,
            copies_gathered: 0.0,
            slc_used: 0,
            last_end: 0,
            config,
        }
    }

    /// The parameters.
    pub fn config(&self) -> &SsdConfig {
        &self.config
    }

    /// The count of programs and erases.
    pub fn counts(&self) -> Counts {
        self.map.counts()
    }

    /// The page map.
    pub fn map(&self) -> &SampledMap {
        &self.map
    }

    /// Programs and erases of the flash since the start.
    pub fn programs_and_erases(&self) -> (u64, u64) {
        self.flash.programs_and_erases()
    }

    /// Writes a range without taking time: the page map changes as by a request.
    pub fn write_at_once(&mut self, start_sector: u64, sectors: u64) {
        let (first, pages) = page_range(start_sector, sectors);
        self.map.write(first, pages);
    }

    /// Writes `share` of the drive in order, without taking time.
    pub fn fill_at_once(&mut self, share: f64) {
        let pages = (self.config.pages() as f64 * share) as u64;
        for first in (0..pages).step_by(256) {
            self.map.write(first, (pages - first).min(256));
        }
    }

    /// Writes `times` the drive in random places of 4 KiB within the first `share` of it, without taking time. Of writes that
    /// the page map does not track only the count matters, so they are left out.
    pub fn overwrite_at_once(&mut self, times: f64, share: f64, seed: u64) {
        let mut chance = Chance::new(seed, 1);
        let tracked = (f64::from(self.map.tracked().shape().logical_pages) * share) as u64;
        for _ in 0..(tracked as f64 * times) as u64 {
            self.map.write_group(chance.below(tracked) as u32);
        }
    }

    /// The state after many such overwrites of the whole drive. Under greedy collection it is computed, under other policies
    /// reached by overwriting.
    pub fn jump_to_used(&mut self, seed: u64) {
        self.map.jump_to_used(seed);
    }

    /// Trims the whole drive, without taking time.
    pub fn trim_at_once(&mut self) {
        self.map.trim_all();
    }

    /// The drive is idle for so long: the SLC cache is emptied and blocks are collected, as far as time allows.
    pub fn idle(&mut self, time_ns: Nanos) {
        let time = time_ns.saturating_sub(IDLE_AFTER_NS);
        let bytes = (self.config.program_bytes_per_s() * time as f64 / 1e9) as u64;
        let folded = self.slc_used.min(bytes);
        self.slc_used -= folded;
        if self.config.idle_free_share > 0.0 {
            self.map.collect_idle(self.config.idle_free_share, (bytes - folded) / PAGE_BYTES);
        }
    }

    fn start(&mut self, now: Nanos, ask: Ask) {
        let further = ask.bytes().div_ceil(COMMAND_BYTES).max(1);
        let service = match ask.kind {
            Kind::Read => self.config.command_read_ns,
            Kind::Write { .. } | Kind::Trim | Kind::Flush => self.config.command_write_ns,
        };
        let processor = (0..self.processors.len()).min_by_key(|&index| self.processors[index].serve_at(now)).unwrap_or(0);
        let taken = self.processors[processor].serve(now, service * further);
        match ask.kind {
            Kind::Read => self.calendar.add(taken, Event::Flash(ask)),
            Kind::Write { .. } => self.calendar.add(taken, Event::Link(ask)),
            Kind::Trim => {
                let (first, pages) = whole_page_range(ask.start_sector, ask.sectors);
                if pages > 0 {
                    self.map.trim(first, pages);
                }
                self.calendar.add(taken, Event::Done(ask.tag));
            }
            Kind::Flush => {
                let end = self.durable(taken);
                self.calendar.add(end, Event::Done(ask.tag));
            }
        }
    }

    /// The parts of a read ask for space in the read buffer.
    fn read(&mut self, now: Nanos, ask: Ask) {
        let unit_sectors = self.config.program_bytes / SECTOR_BYTES;
        let units = ask.start_sector / unit_sectors..ask.end_sector().div_ceil(unit_sectors);
        let read = self.reads.insert((ask, (units.end - units.start) as u32));
        for unit in units {
            let start = ask.start_sector.max(unit * unit_sectors);
            let sectors = ask.end_sector().min((unit + 1) * unit_sectors) - start;
            let (first, pages) = page_range(start, sectors);
            let without_flash_ns =
                self.config.unwritten_read_ns.filter(|_| !(first..first + pages).any(|page| self.map.is_mapped(page)));
            self.read_buffer.waiting.push_back(ReadPart { read, unit, bytes: sectors * SECTOR_BYTES, without_flash_ns });
        }
        self.fill_read_buffer(now);
    }

    fn fill_read_buffer(&mut self, now: Nanos) {
        let room = self.config.read_buffer_bytes();
        self.read_buffer.advance(now);
        while let Some(&part) = self.read_buffer.waiting.front() {
            if self.read_buffer.used_bytes + part.bytes > room {
                break;
            }
            self.read_buffer.waiting.pop_front();
            self.read_buffer.used_bytes += part.bytes;
            let end = match part.without_flash_ns {
                Some(time) => now + time,
                None => self.flash.read(now, part.unit, part.bytes),
            };
            self.calendar.add(end, Event::Read(part));
        }
        if let (false, false, Some(&(at, _))) =
            (self.read_buffer.waiting.is_empty(), self.read_buffer.is_awaited, self.read_buffer.leaving.front())
        {
            self.read_buffer.is_awaited = true;
            self.calendar.add(at, Event::Room);
        }
    }

    /// A part is in the read buffer. With the last of a read the whole goes to the link.
    fn part_read(&mut self, now: Nanos, part: ReadPart) {
        let gone = self.read_buffer.link.serve(now, transfer_ns(part.bytes, self.drain_bytes_per_s));
        self.read_buffer.leaving.push_back((gone, part.bytes));
        if !self.read_buffer.waiting.is_empty() {
            self.fill_read_buffer(now);
        }
        let (ask, parts) = &mut self.reads[part.read];
        *parts -= 1;
        if *parts == 0 {
            let ask = *ask;
            self.reads.remove(part.read);
            self.on_link(now, ask);
        }
    }

    /// The data of a write is in the controller. Returns when it gets space in the buffer.
    fn admit(&mut self, now: Nanos, ask: Ask) -> Nanos {
        let (first, pages) = page_range(ask.start_sector, ask.sectors);
        let (_, whole) = whole_page_range(ask.start_sector, ask.sectors);
        let mut now = now.max(self.admitted_at);
        if whole < pages {
            // A page that is written in part is read before.
            now = now.max(self.flash.read(now, first * PAGE_BYTES / self.config.program_bytes, PAGE_BYTES));
        }
        let copies = self.map.write(first, pages);
        self.gathered += pages as f64 * PAGE_BYTES as f64 * self.config.stored_share;
        self.copies_gathered += copies as f64 * PAGE_BYTES as f64 * self.config.stored_share;
        self.admitted_at = self.program_gathered(now);
        let kept = self.admitted_at;
        match ask.kind {
            Kind::Write { fua: true } => self.durable(kept),
            _ => kept,
        }
    }

    /// Programs whole units. Returns when the newest of them got space in the buffer.
    fn program_gathered(&mut self, now: Nanos) -> Nanos {
        let unit = self.config.program_bytes as f64;
        if self.gathered < unit && self.copies_gathered < unit {
            return now;
        }
        let backlog_max = self.backlog_max_ns();
        let mut admitted = now;
        let program_ns = self.config.program_ns;
        let waits = |backlog: Nanos| now + backlog.saturating_sub(backlog_max);
        while self.copies_gathered >= unit {
            self.copies_gathered -= unit;
            // One read of all planes finds the live pages of one unit that is collected.
            let live = 1.0 - 1.0 / self.recent_amplification();
            let reads = (self.config.read_ns as f64 / live.max(0.1)) as Nanos;
            admitted = admitted.max(waits(self.flash.program(now, reads, None)));
        }
        while self.gathered >= unit {
            self.gathered -= unit;
            let fast = self.config.slc.filter(|slc| self.slc_used + self.config.program_bytes <= slc.bytes);
            if fast.is_some() {
                self.slc_used += self.config.program_bytes;
            }
            let program_ns = fast.map_or(program_ns, |slc| slc.program_ns);
            admitted = admitted.max(waits(self.flash.program(now, 0, Some(program_ns))));
        }
        admitted
    }

    /// Programming that may lie ahead of a die while the buffer has room: its share of the buffer, one unit at least.
    fn backlog_max_ns(&self) -> Nanos {
        let units = self.config.buffer_bytes / (self.config.program_bytes * u64::from(self.config.dies));
        units.max(1) * self.config.program_ns
    }

    fn recent_amplification(&self) -> f64 {
        let counts = self.map.counts();
        (counts.programmed as f64 / counts.host.max(1) as f64).max(1.0)
    }

    /// The time at which everything is durable that was taken in by now.
    fn durable(&mut self, now: Nanos) -> Nanos {
        if self.config.power_loss_protection {
            return now;
        }
        let unit = self.config.program_bytes as f64;
        if self.gathered > 0.0 {
            let padding = ((unit - self.gathered) / PAGE_BYTES as f64) as u64;
            self.copies_gathered += self.map.pad(padding) as f64 * PAGE_BYTES as f64;
            self.gathered = unit;
            self.program_gathered(now);
        }
        self.flash.programs_end().max(now)
    }

    /// With contention the firmware is a server that writes share with programs. A write finds it at work with probability u, and
    /// waits then for a time that is distributed exponentially, with mean S / (1 - u); its own work takes S. That is an M/M/1
    /// queue (L. Kleinrock, "Queueing Systems", volume 1, 1975), of which S / (1 - u) is the mean time of a write in all.
    fn write_latency_ns(&mut self, now: Nanos) -> Nanos {
        let own = self.config.write_latency_ns;
        if !self.config.write_contention {
            return own;
        }
        let used = self.flash.used_share(now).min(CONTENTION_MAX);
        if self.chance.unit() >= used {
            return own;
        }
        own + (own as f64 / (1.0 - used) * -(1.0 - self.chance.unit()).ln()) as Nanos
    }

    fn on_link(&mut self, now: Nanos, ask: Ask) {
        let transfer = transfer_ns(ask.bytes(), self.config.link_bytes_per_s);
        let inbound = ask.is_write() && !self.config.link_half_duplex;
        let crossed = self.link[usize::from(inbound)].serve(now, transfer);
        if ask.is_write() {
            let latency = self.write_latency_ns(crossed);
            self.admitting.push_back((ask, latency, crossed));
            if self.admitting.len() == 1 {
                self.admit_next(now);
            }
        } else {
            self.calendar.add(crossed + self.config.read_latency_ns, Event::Done(ask.tag));
        }
    }

    /// Takes in the first writes that wait, as far as it is their time. The next one waits without a place on any channel or die,
    /// where reads would wait for it.
    fn admit_next(&mut self, now: Nanos) {
        while let Some(&(ask, latency, crossed)) = self.admitting.front() {
            let at = crossed.max(self.admitted_at);
            if at > now {
                self.calendar.add(at, Event::Admit);
                return;
            }
            self.admitting.pop_front();
            let end = self.admit(at, ask) + latency;
            self.calendar.add(end, Event::Done(ask.tag));
        }
    }
}

impl Model for Ssd {
    fn size_sectors(&self) -> u64 {
        self.config.capacity_bytes / SECTOR_BYTES
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        assert!(ask.end_sector() <= self.size_sectors(), "{ask:?} reaches beyond the end of the drive");
        if self.in_slots == 0 && now > self.last_end + IDLE_AFTER_NS {
            self.idle(now - self.last_end);
        }
        if self.in_slots == self.config.slots {
            self.waiting.push_back(ask);
        } else {
            self.in_slots += 1;
            self.start(now, ask);
        }
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        while let Some((at, event)) = self.calendar.take_due(now) {
            match event {
                Event::Flash(ask) => self.read(at, ask),
                Event::Read(part) => self.part_read(at, part),
                Event::Room => {
                    self.read_buffer.is_awaited = false;
                    self.fill_read_buffer(at);
                }
                Event::Link(ask) => self.on_link(at, ask),
                Event::Admit => self.admit_next(at),
                Event::Done(tag) => {
                    ended.push(tag);
                    self.last_end = at;
                    match self.waiting.pop_front() {
                        Some(next) => self.start(at, next),
                        None => self.in_slots -= 1,
                    }
                }
            }
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.calendar.next_at()
    }

    fn state_bytes(&self) -> u64 {
        self.map.tracked().state_bytes()
    }
}

/// The pages that a range touches: first and count.
fn page_range(start_sector: u64, sectors: u64) -> (u64, u64) {
    let page_sectors = PAGE_BYTES / SECTOR_BYTES;
    let first = start_sector / page_sectors;
    (first, (start_sector + sectors).div_ceil(page_sectors) - first)
}

/// The pages that lie within a range: first and count.
fn whole_page_range(start_sector: u64, sectors: u64) -> (u64, u64) {
    let page_sectors = PAGE_BYTES / SECTOR_BYTES;
    let first = start_sector.div_ceil(page_sectors);
    (first, ((start_sector + sectors) / page_sectors).saturating_sub(first))
}
