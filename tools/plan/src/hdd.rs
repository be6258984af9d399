//! A hard disk in virtual time: seek curve, rotation, zones, reordering, a write cache that is on or off.
//!
//! The head is on a track, and the platters turn for ever. A request costs the seek to its track, the wait until its first
//! sector comes round, and its transfer at the zone's rate. Of the requests that wait, up to `slots` of them, the one with the
//! shortest seek and wait is next, unless one has waited for [`WAIT_NS_MAX`]. A write that continues the last one and was queued
//! in time costs its transfer alone. After a read the drive reads ahead: what comes under the head sooner than another track on
//! average is read first, and a gap before it takes the time in which it passes.

use crate::bounds::{RATE, TIME_NS, out_of_bounds};
use crate::model::{Ask, Kind, Model, SECTOR_BYTES};
use crate::station::{Calendar, transfer_ns};
use serde::Deserialize;
use std::collections::VecDeque;
use stria_block::{Nanos, Tag};

/// 500 ms: a request that has waited so long is next, the oldest first; else a stream would starve it. Rule: B. Worthington, G.
/// Ganger, Y. Patt, "Scheduling algorithms for modern disk drives", 1994. Source of the number: none; above what random loads
/// wait, below timeouts.
pub const WAIT_NS_MAX: Nanos = 500_000_000;

/// A hard disk.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddConfig {
    /// Its usable size.
    pub capacity_bytes: u64,
    /// One turn of the platters.
    pub turn_ns: Nanos,
    /// Seek of a read to the next track.
    pub seek_track_ns: Nanos,
    /// Mean seek of a read over all pairs of places.
    pub seek_mean_ns: Nanos,
    /// Seek of a read over all tracks.
    pub seek_full_ns: Nanos,
    /// What a write's seek takes longer, as it must settle better.
    pub write_settle_ns: Nanos,
    /// Transfer at the first sector.
    pub outer_bytes_per_s: u64,
    /// Transfer at the last sector.
    pub inner_bytes_per_s: u64,
    /// Electronics' time for a command.
    pub command_ns: Nanos,
    /// Requests from which the drive chooses.
    pub slots: u32,
    /// True if a write ends when it is in the cache.
    pub write_cache: bool,
    /// Memory of the cache.
    pub cache_bytes: u64,
    /// The link.
    pub link_bytes_per_s: u64,
}

impl HddConfig {
    /// The reason why there is no such drive, if there is none.
    pub fn refusal(&self) -> Option<String> {
        let counts = [
            ("turn_ns", self.turn_ns),
            ("inner_bytes_per_s", self.inner_bytes_per_s),
            ("slots", self.slots.into()),
            ("link_bytes_per_s", self.link_bytes_per_s),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Some(format!("{name} must be above 0"));
        }
        let bounded = [
            ("turn_ns", self.turn_ns, TIME_NS),
            ("seek_track_ns", self.seek_track_ns, TIME_NS),
            ("seek_mean_ns", self.seek_mean_ns, TIME_NS),
            ("seek_full_ns", self.seek_full_ns, TIME_NS),
            ("write_settle_ns", self.write_settle_ns, TIME_NS),
            ("command_ns", self.command_ns, TIME_NS),
            ("outer_bytes_per_s", self.outer_bytes_per_s, RATE),
            ("inner_bytes_per_s", self.inner_bytes_per_s, RATE),
            ("link_bytes_per_s", self.link_bytes_per_s, RATE),
            ("slots", self.slots.into(), 1..=1 << 20),
        ];
        if let Some(sentence) = out_of_bounds(bounded) {
            return Some(sentence);
        }
        if !crate::ssd::config::CAPACITY_BYTES.contains(&self.capacity_bytes) {
            return Some(format!("capacity_bytes is {}: from 1 GiB to 1 PiB can be modelled", self.capacity_bytes));
        }
        if self.outer_bytes_per_s < self.inner_bytes_per_s {
            return Some("outer_bytes_per_s must be at least inner_bytes_per_s".to_owned());
        }
        let ordered = self.seek_track_ns <= self.seek_mean_ns && self.seek_mean_ns <= self.seek_full_ns;
        (!ordered).then(|| "seek_track_ns, seek_mean_ns and seek_full_ns must ascend".to_owned())
    }

    /// The same drive if all of it were as fast as at this place, from 0 for the first sector to 1 for the last.
    pub fn at_place(&self, place: f64) -> Self {
        let (outer, inner) = (self.outer_bytes_per_s as f64, self.inner_bytes_per_s as f64);
        let rate = (outer + (inner - outer) * place) as u64;
        Self { outer_bytes_per_s: rate, inner_bytes_per_s: rate, ..self.clone() }
    }

    /// `t(x) = a + b sqrt(x) + c x`, x being the distance over the full stroke, through the three seek times: a the seek to the
    /// next track, a + b + c the full one, and the mean over random places with E[sqrt x] = 8/15, E[x] = 1/3. Shape: C. Ruemmler,
    /// J. Wilkes, "An introduction to disk drive modeling", 1994.
    fn seek_curve(&self) -> (f64, f64, f64) {
        let a = self.seek_track_ns as f64;
        let (mean, full) = (self.seek_mean_ns as f64 - a, self.seek_full_ns as f64 - a);
        let b = (mean - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        (a, b, full - b)
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The mechanics have done a request that the host still waits for, or a cached write.
    Mechanics(Option<Tag>),
    Done(Tag),
}

/// One drive.
pub struct Hdd {
    config: HddConfig,
    curve: (f64, f64, f64),
    calendar: Calendar<Event>,
    /// Requests the mechanics may choose from, with the time of arrival and whether the host waits for them.
    queue: Vec<(Ask, Nanos, bool)>,
    waiting: VecDeque<Ask>,
    in_slots: u32,
    cached_bytes: u64,
    busy: bool,
    head_sector: u64,
    /// The time at which the head passed `head_sector`, and whether it read or wrote there.
    head_at: Nanos,
    head_wrote: bool,
}

impl Hdd {
    /// A drive at rest, its head at the outer edge.
    pub fn new(config: HddConfig) -> Self {
        assert!(config.slots > 0, "a drive takes one request at least");
        Self {
            curve: config.seek_curve(),
            config,
            calendar: Calendar::default(),
            queue: Vec::new(),
            waiting: VecDeque::new(),
            in_slots: 0,
            cached_bytes: 0,
            busy: false,
            head_sector: 0,
            head_at: 0,
            head_wrote: false,
        }
    }

    /// Its parameters.
    pub fn config(&self) -> &HddConfig {
        &self.config
    }

    fn place(&self, sector: u64) -> f64 {
        sector as f64 / (self.config.capacity_bytes / SECTOR_BYTES) as f64
    }

    fn media_bytes_per_s(&self, sector: u64) -> u64 {
        let (outer, inner) = (self.config.outer_bytes_per_s as f64, self.config.inner_bytes_per_s as f64);
        (outer + (inner - outer) * self.place(sector)) as u64
    }

    /// The angle of a sector, in parts of a turn. Tracks are skewed so that reading on loses nothing, which makes it the time at
    /// which a transfer from the start of the zone would reach it.
    fn angle(&self, sector: u64) -> f64 {
        let track = self.media_bytes_per_s(sector) as f64 * self.config.turn_ns as f64 / 1e9;
        ((sector * SECTOR_BYTES) as f64 / track).fract()
    }

    /// The time at which the transfer of a request could begin, from `now` on.
    fn reaches(&self, now: Nanos, ask: &Ask, arrived: Nanos) -> Nanos {
        if let Some(gap) = self.gap_ns(ask) {
            // The sectors that passed under the head since are in the cache.
            return (self.head_at + gap).max(now.saturating_sub(self.read_ahead_ns(ask)));
        }
        if ask.is_write() && self.head_wrote && ask.start_sector == self.head_sector && arrived < self.head_at {
            return now;
        }
        let distance = (self.place(ask.start_sector) - self.place(self.head_sector)).abs();
        let (a, b, c) = self.curve;
        let settle = if ask.is_write() { self.config.write_settle_ns } else { 0 };
        let seek = if distance == 0.0 { 0 } else { (a + b * distance.sqrt() + c * distance) as Nanos };
        let on_track = now + self.config.command_ns + seek + settle;
        let turn = self.config.turn_ns as f64;
        let wait = (self.angle(ask.start_sector) - (on_track as f64 / turn).fract()).rem_euclid(1.0);
        on_track + (wait * turn) as Nanos
    }

    /// The time until the start of a read comes under the head that reads on, if that is sooner than to leave the track and come
    /// back at any angle: the drive stays there.
    fn gap_ns(&self, ask: &Ask) -> Option<Nanos> {
        if ask.is_write() || self.head_wrote {
            return None;
        }
        let sectors = ask.start_sector.checked_sub(self.head_sector)?;
        let gap = transfer_ns(sectors * SECTOR_BYTES, self.media_bytes_per_s(self.head_sector));
        (gap <= self.config.seek_track_ns + self.config.turn_ns / 2).then_some(gap)
    }

    /// The time before a request in which its data may have passed under the head: a cache segment, assumed as long as the
    /// request.
    fn read_ahead_ns(&self, ask: &Ask) -> Nanos {
        transfer_ns(ask.bytes(), self.media_bytes_per_s(ask.start_sector))
    }

    fn choose(&mut self, now: Nanos) {
        if self.busy {
            return;
        }
        let reach = |(_, (ask, arrived, _)): &(usize, &(Ask, Nanos, bool))| match now.saturating_sub(*arrived) {
            WAIT_NS_MAX.. => (0, *arrived),
            _ => (1 + u8::from(self.gap_ns(ask).is_none()), self.reaches(now, ask, *arrived)),
        };
        let Some((index, _)) = self.queue.iter().enumerate().min_by_key(reach) else { return };
        let (ask, arrived, host_waits) = self.queue[index];
        let start = self.reaches(now, &ask, arrived);
        self.queue.swap_remove(index);
        let transfer = transfer_ns(ask.bytes(), self.media_bytes_per_s(ask.start_sector));
        let end = (start + transfer).max(now);
        self.busy = true;
        (self.head_sector, self.head_at, self.head_wrote) = (ask.end_sector(), end, ask.is_write());
        let link = if host_waits { transfer_ns(ask.bytes(), self.config.link_bytes_per_s) } else { 0 };
        // The link carries data while the head reads, so only the difference counts if the link is slower.
        let tag = host_waits.then_some(ask.tag);
        if !host_waits {
            self.cached_bytes -= ask.bytes();
        }
        self.calendar.add(end.max(now + link), Event::Mechanics(tag));
    }

    fn start(&mut self, now: Nanos, ask: Ask) {
        match ask.kind {
            Kind::Write { fua: false }
                if self.config.write_cache && self.cached_bytes + ask.bytes() <= self.config.cache_bytes =>
            {
                self.cached_bytes += ask.bytes();
                let crossed = now + self.config.command_ns + transfer_ns(ask.bytes(), self.config.link_bytes_per_s);
                self.calendar.add(crossed, Event::Done(ask.tag));
                self.queue.push((ask, now, false));
            }
            Kind::Read | Kind::Write { .. } => self.queue.push((ask, now, true)),
            Kind::Trim => self.calendar.add(now + self.config.command_ns, Event::Done(ask.tag)),
            // Cached writes are destaged in the best order: about one mean access each.
            Kind::Flush => {
                let cached = self.queue.iter().filter(|(_, _, host_waits)| !host_waits).count() as Nanos;
                let access = self.config.seek_mean_ns + self.config.turn_ns / 2;
                self.calendar.add(now + self.config.command_ns + cached * access, Event::Done(ask.tag));
            }
        }
        self.choose(now);
    }
}

impl Model for Hdd {
    fn size_sectors(&self) -> u64 {
        self.config.capacity_bytes / SECTOR_BYTES
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        assert!(ask.end_sector() <= self.size_sectors(), "{ask:?} reaches beyond the end of the drive");
        if self.in_slots == self.config.slots {
            self.waiting.push_back(ask);
        } else {
            self.in_slots += 1;
            self.start(now, ask);
        }
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        while let Some((at, event)) = self.calendar.take_due(now) {
            let done = match event {
                Event::Mechanics(tag) => {
                    self.busy = false;
                    tag
                }
                Event::Done(tag) => Some(tag),
            };
            if let Some(tag) = done {
                ended.push(tag);
                match self.waiting.pop_front() {
                    Some(next) => self.start(at, next),
                    None => self.in_slots -= 1,
                }
            }
            self.choose(at);
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.calendar.next_at()
    }
}
