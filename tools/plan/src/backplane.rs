//! Drives behind their ports and the link that the ports share.
//!
//! A request takes one of its drive's slots. Data pass the port: those of a write before the drive works, those of a read after.
//! While a transfer waits for the shared link it holds its port, so that throughput falls off before the link is full.

use crate::hdd::{Hdd, HddConfig};
use crate::model::{Ask, Kind, Model};
use crate::platform::PlatformConfig;
use crate::ssd::{Ssd, SsdConfig};
use crate::station::{Calendar, Station, transfer_ns};
use slab::Slab;
use std::collections::VecDeque;
use stria_block::{Nanos, Tag};

/// 64 GB/s: a link that is no limit.
const NO_LIMIT: u64 = 64_000_000_000;

/// A drive of a profile.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum DriveConfig {
    /// An SSD.
    Ssd(SsdConfig),
    /// A hard disk.
    Hdd(HddConfig),
}

impl DriveConfig {
    /// Usable size.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::Ssd(config) => config.capacity_bytes,
            Self::Hdd(config) => config.capacity_bytes,
        }
    }

    /// The reason why there is no such drive, if there is none.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Ssd(config) => config.refusal(),
            Self::Hdd(config) => config.refusal(),
        }
    }

    /// True if the drive has moving parts.
    pub fn is_rotational(&self) -> bool {
        matches!(self, Self::Hdd(_))
    }

    /// True if a power cut may take writes that have ended.
    pub fn has_volatile_cache(&self) -> bool {
        match self {
            Self::Ssd(config) => !config.power_loss_protection,
            Self::Hdd(config) => config.write_cache,
        }
    }
}

#[allow(clippy::large_enum_variant)]
enum Drive {
    Ssd(Ssd),
    Hdd(Hdd),
}

impl Drive {
    fn submit(&mut self, now: Nanos, ask: Ask) {
        match self {
            Self::Ssd(drive) => drive.submit(now, ask),
            Self::Hdd(drive) => drive.submit(now, ask),
        }
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        match self {
            Self::Ssd(drive) => drive.poll(now, ended),
            Self::Hdd(drive) => drive.poll(now, ended),
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
    /// Requests that wait for a slot.
    waiting: VecDeque<Ask>,
    /// Transfers to the drive and from it; a half-duplex port uses the second alone.
    port: [Port; 2],
    /// Requests in slots, by the drive's own tag.
    passing: Slab<Ask>,
    /// Where the last request ended: there is the head of a disk.
    head_sector: u64,
}

#[derive(Default)]
struct Port {
    busy: bool,
    queue: VecDeque<Ask>,
}

/// Drives on a link (see the module).
pub struct Backplane {
    members: Vec<Member>,
    /// The next wake of each drive, `Nanos::MAX` for none: side by side, as they are looked at in every step.
    wakes: Vec<Nanos>,
    /// Reads and writes on the shared link, and its payload for each.
    link: [Station; 2],
    link_bytes_per_s: [Option<u64>; 2],
    /// The ends of transfers on ports: members and requests.
    transfers: Calendar<(usize, Ask)>,
    ended: Vec<Tag>,
    due: Vec<(usize, Ask)>,
    from_drives: Vec<(usize, Ask)>,
    served: u64,
    stepped_at: Nanos,
    /// The first of `wakes`, and whose it is: of several the first member's.
    drives_wake: Nanos,
    next_drive: usize,
}

impl Backplane {
    /// Drives fresh from the factory.
    pub fn new(platform: &PlatformConfig, drives: &[DriveConfig], seed: u64) -> Self {
        let member = |(index, drive): (usize, &DriveConfig)| {
            let (drive, own, half_duplex, slots) = match drive {
                DriveConfig::Ssd(config) => {
                    let port = platform.port_of(index).unwrap_or(NO_LIMIT);
                    let drive = Drive::Ssd(Ssd::on_port(config, port, seed * 1000 + index as u64));
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
                slots: if platform.one_at_a_time { 1 } else { slots },
                in_slots: 0,
                waiting: VecDeque::new(),
                port: [Port::default(), Port::default()],
                passing: Slab::new(),
                head_sector: 0,
            }
        };
        Self {
            members: drives.iter().enumerate().map(member).collect(),
            wakes: vec![Nanos::MAX; drives.len()],
            link: [Station::default(); 2],
            link_bytes_per_s: [platform.link_read_bytes_per_s, platform.link_write_bytes_per_s],
            transfers: Calendar::default(),
            ended: Vec::new(),
            due: Vec::new(),
            from_drives: Vec::new(),
            served: 0,
            stepped_at: 0,
            drives_wake: Nanos::MAX,
            next_drive: 0,
        }
    }

    /// Requests that members have ended since the start.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// The time of the last step.
    pub fn stepped_at(&self) -> Nanos {
        self.stepped_at
    }

    /// The SSDs, so that they can be brought to a state before a load. Requests go through [`Backplane::submit`] alone.
    pub fn ssds(&mut self) -> impl Iterator<Item = &mut Ssd> {
        self.members.iter_mut().filter_map(|member| match &mut member.drive {
            Drive::Ssd(drive) => Some(drive),
            Drive::Hdd(_) => None,
        })
    }

    /// Requests that a member has not ended.
    pub fn load_of(&self, member: usize) -> usize {
        self.members[member].in_slots as usize + self.members[member].waiting.len()
    }

    /// How far a disk's head is from a sector; 0 on an SSD.
    pub fn distance_of(&self, member: usize, sector: u64) -> u64 {
        let member = &self.members[member];
        if matches!(member.drive, Drive::Hdd(_)) { member.head_sector.abs_diff(sector) } else { 0 }
    }

    /// Gives a member a request. Its end is reported with its tag.
    pub fn submit(&mut self, now: Nanos, member: usize, ask: Ask) {
        if self.members[member].in_slots == self.members[member].slots {
            self.members[member].waiting.push_back(ask);
        } else {
            self.members[member].in_slots += 1;
            self.start(now, member, ask);
        }
    }

    fn start(&mut self, now: Nanos, member: usize, ask: Ask) {
        match ask.is_write() {
            true => self.queue_port(now, member, ask),
            false => self.submit_to_drive(now, member, ask),
        }
    }

    fn submit_to_drive(&mut self, now: Nanos, member: usize, ask: Ask) {
        let Member { drive, passing, .. } = &mut self.members[member];
        let tag = passing.insert(ask) as Tag;
        drive.submit(now, Ask { tag, ..ask });
        let wake = drive.next_wake().unwrap_or(Nanos::MAX);
        self.wakes[member] = wake;
        if wake < self.drives_wake || (wake == self.drives_wake && member < self.next_drive) {
            (self.drives_wake, self.next_drive) = (wake, member);
        }
    }

    /// Looks for the drive that is due first. Most steps are of one drive, so this is the only look at the others.
    fn find_next_drive(&mut self) {
        let (mut wake, mut drive) = (Nanos::MAX, 0);
        for (index, &at) in self.wakes.iter().enumerate() {
            (wake, drive) = if at < wake { (at, index) } else { (wake, drive) };
        }
        (self.drives_wake, self.next_drive) = (wake, drive);
    }

    /// The port of a member that a request passes.
    fn way(&self, member: usize, ask: &Ask) -> usize {
        usize::from(!ask.is_write() || self.members[member].half_duplex)
    }

    fn queue_port(&mut self, now: Nanos, member: usize, ask: Ask) {
        let way = self.way(member, &ask);
        let port = &mut self.members[member].port[way];
        if port.busy || !port.queue.is_empty() {
            port.queue.push_back(ask);
            self.turn_port(now, member, way);
        } else {
            port.busy = true;
            self.transfer(now, member, ask);
        }
    }

    fn turn_port(&mut self, now: Nanos, member: usize, way: usize) {
        let port = &mut self.members[member].port[way];
        if !port.busy
            && let Some(ask) = port.queue.pop_front()
        {
            port.busy = true;
            self.transfer(now, member, ask);
        }
    }

    /// The data of a request begin to pass its port.
    fn transfer(&mut self, now: Nanos, member: usize, ask: Ask) {
        let rate = self.members[member].port_bytes_per_s;
        let own = transfer_ns(ask.bytes(), rate);
        let mut end = now + own;
        let direction = usize::from(ask.is_write());
        if let Some(shared) = self.link_bytes_per_s[direction] {
            let service = transfer_ns(ask.bytes(), shared);
            let granted = self.link[direction].serve(now, service) - service;
            end = granted + own.max(service);
        }
        self.transfers.add(end, (member, ask));
    }

    fn done(&mut self, now: Nanos, member: usize, ask: Ask, ended: &mut Vec<(usize, Tag)>) {
        self.served += 1;
        self.members[member].head_sector = ask.end_sector();
        match self.members[member].waiting.pop_front() {
            Some(next) => self.start(now, member, next),
            None => self.members[member].in_slots -= 1,
        }
        ended.push((member, ask.tag));
    }

    /// Carries out what is due at `now`, and appends the members and tags of requests that ended. Call it at every wake.
    pub fn poll(&mut self, now: Nanos, ended: &mut Vec<(usize, Tag)>) {
        // Most polls of an array are not for a drive.
        if self.wake() > now {
            return;
        }
        self.stepped_at = now;
        // Transfers that end now began before: they come before the drives, and those that begin and end now come last.
        while let Some((_, transfer)) = self.transfers.take_due(now) {
            self.due.push(transfer);
        }
        while self.drives_wake <= now {
            let index = self.next_drive;
            let Member { drive, passing, .. } = &mut self.members[index];
            drive.poll(now, &mut self.ended);
            self.wakes[index] = drive.next_wake().unwrap_or(Nanos::MAX);
            for tag in self.ended.drain(..) {
                self.from_drives.push((index, passing.remove(tag as usize)));
            }
            self.find_next_drive();
        }
        // Most steps of a drive end nothing.
        if self.due.is_empty() && self.from_drives.is_empty() {
            return;
        }
        for index in 0..self.due.len() {
            let (member, ask) = self.due[index];
            self.transferred(now, member, ask, ended);
        }
        self.due.clear();
        for index in 0..self.from_drives.len() {
            let (member, ask) = self.from_drives[index];
            match ask.kind {
                Kind::Read => self.queue_port(now, member, ask),
                Kind::Write { .. } | Kind::Trim | Kind::Flush => self.done(now, member, ask, ended),
            }
        }
        self.from_drives.clear();
        while let Some((_, (member, ask))) = self.transfers.take_due(now) {
            self.transferred(now, member, ask, ended);
        }
    }

    /// A port has ended a transfer.
    fn transferred(&mut self, now: Nanos, member: usize, ask: Ask, ended: &mut Vec<(usize, Tag)>) {
        let way = self.way(member, &ask);
        self.members[member].port[way].busy = false;
        match ask.is_write() {
            true => self.submit_to_drive(now, member, ask),
            false => self.done(now, member, ask, ended),
        }
        self.turn_port(now, member, way);
    }

    /// Polls at every wake up to `until` until requests end. Returns the time of the last poll if it is `until` or requests ended
    /// then, and `None` if nothing is left to do up to `until`.
    pub fn advance(&mut self, until: Nanos, ended: &mut Vec<(usize, Tag)>) -> Option<Nanos> {
        loop {
            let at = self.next_wake().filter(|&at| at <= until)?;
            self.poll(at, ended);
            if at == until || !ended.is_empty() {
                return Some(at);
            }
        }
    }

    /// The time at which polling next makes progress.
    pub fn next_wake(&self) -> Option<Nanos> {
        Some(self.wake()).filter(|&at| at < Nanos::MAX)
    }

    /// The same, `Nanos::MAX` for none.
    fn wake(&self) -> Nanos {
        self.transfers.next_at().map_or(self.drives_wake, |at| at.min(self.drives_wake))
    }
}
