//! What lies between a load and the drives: host, controller, cache, ports and the link that they share.

use crate::bounds::{RATE, TIME_NS, out_of_bounds};
use crate::level::Level;
use serde::Deserialize;
use stria_block::Nanos;

/// A platform. A value that is left out costs nothing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlatformConfig {
    /// A thread's own time for each request.
    pub thread_ns: Nanos,
    /// Time for each request that only one at a time can spend.
    pub serial_ns: Nanos,
    /// The same in the controller, beside the host.
    pub controller_ns: Nanos,
    /// The same in the controller, or else in the host, in addition on mirrors, for a read.
    pub mirror_read_ns: Nanos,
    /// The same for a write.
    pub mirror_write_ns: Nanos,
    /// A thread's own time in addition on mirrors, for each read. It lies outside of the latency that load generators report.
    pub mirror_read_thread_ns: Nanos,
    /// The same in addition on levels with parity, for a write.
    pub parity_write_ns: Nanos,
    /// The same in addition, for each request to a member beyond the first, as the array sends them: those of rebuilds as well,
    /// without metadata.
    pub member_ns: Nanos,
    /// True if the driver has one request at each member at a time, and of a level with parity one write at a time.
    pub one_at_a_time: bool,
    /// Payload of the link that all ports share, towards the host; a port is held while it waits for the link.
    pub link_read_bytes_per_s: Option<u64>,
    /// The same towards the drives.
    pub link_write_bytes_per_s: Option<u64>,
    /// Payload of each port; the last value stands for all further ones.
    pub port_bytes_per_s: Vec<u64>,
    /// The number of ports, each for one drive; `None`: unknown, or there are expanders.
    pub ports: Option<usize>,
    /// The most that the controller passes of each kind of work.
    pub ceilings: Ceilings,
    /// Memory in which writes are collected to full stripes.
    pub write_back_bytes: u64,
    /// True if that memory loses its content with the power, as the host's does: a flush then waits until all of it is written
    /// back.
    pub write_back_is_volatile: bool,
    /// The levels of which trims reach the drives.
    pub trim: Vec<TrimLevel>,
    /// The smallest strip.
    pub strip_kib_min: u64,
    /// The levels that it allows, or of which figures are known; empty: all.
    pub levels: Vec<LevelName>,
    /// A parity level's time for the log record of a write, in the host, with its requests to members.
    pub log_ns: Nanos,
    /// True if the array has the metadata that `stria create` gives it: superblocks, write-intent bitmap and write log.
    pub metadata: bool,
    /// True if writes that wait for one stripe become one write, as in Stria's engine; false if each is carried out by itself.
    pub coalesces: bool,
    /// True if the other members answer a read that one member answers late, as in Stria's engine.
    pub hedges_reads: bool,
    /// True if the copy with the nearer head is read, of copies that are about as busy; false if Stria's engine chooses.
    pub reads_nearest_copy: bool,
}

impl Default for PlatformConfig {
    fn default() -> Self {
        Self {
            thread_ns: 0,
            serial_ns: 0,
            controller_ns: 0,
            mirror_read_ns: 0,
            mirror_write_ns: 0,
            mirror_read_thread_ns: 0,
            parity_write_ns: 0,
            member_ns: 0,
            one_at_a_time: false,
            link_read_bytes_per_s: None,
            link_write_bytes_per_s: None,
            port_bytes_per_s: Vec::new(),
            ports: None,
            ceilings: Ceilings::default(),
            write_back_bytes: 0,
            write_back_is_volatile: false,
            trim: Vec::new(),
            strip_kib_min: 0,
            levels: Vec::new(),
            log_ns: 0,
            metadata: false,
            coalesces: true,
            hedges_reads: false,
            reads_nearest_copy: false,
        }
    }
}

/// Payload of the host in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ceilings {
    /// Reads of any level.
    pub read: Option<u64>,
    /// Writes of any level, as they come from the host: the slot.
    pub write: Option<u64>,
    /// Writes of any level, as they go to members: copies and parity included.
    pub write_to_members: Option<u64>,
    /// Redundant levels: reads and writes of levels with parity, without the parity; of levels with copies, each copy.
    pub redundant: Option<u64>,
    /// Writes of levels with parity, without the parity: the parity engine.
    pub parity_write: Option<u64>,
}

/// A level in the list of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimLevel {
    /// One drive.
    Single,
    /// RAID 0.
    Raid0,
    /// Every other.
    Redundant,
}

/// A level by name; 50 and 60 of any spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum LevelName {
    Single,
    Raid0,
    Raid1,
    Raid10,
    Raid4,
    Raid5,
    Raid6,
    Raid50,
    Raid60,
}

impl PlatformConfig {
    /// The reason why there is no such platform, if there is none.
    pub fn refusal(&self) -> Option<String> {
        let times = [
            ("thread_ns", self.thread_ns),
            ("serial_ns", self.serial_ns),
            ("controller_ns", self.controller_ns),
            ("mirror_read_ns", self.mirror_read_ns),
            ("mirror_write_ns", self.mirror_write_ns),
            ("mirror_read_thread_ns", self.mirror_read_thread_ns),
            ("parity_write_ns", self.parity_write_ns),
            ("member_ns", self.member_ns),
            ("log_ns", self.log_ns),
        ];
        let rates = [
            ("link_read_bytes_per_s", self.link_read_bytes_per_s),
            ("link_write_bytes_per_s", self.link_write_bytes_per_s),
            ("ceilings.read", self.ceilings.read),
            ("ceilings.write", self.ceilings.write),
            ("ceilings.write_to_members", self.ceilings.write_to_members),
            ("ceilings.redundant", self.ceilings.redundant),
            ("ceilings.parity_write", self.ceilings.parity_write),
        ];
        let ports = self.port_bytes_per_s.iter().map(|&rate| ("port_bytes_per_s", Some(rate)));
        let rates = rates.into_iter().chain(ports).filter_map(|(name, rate)| Some((name, rate?, RATE)));
        let times = times.into_iter().map(|(name, time)| (name, time, TIME_NS));
        out_of_bounds(times.chain(rates).chain([
            ("write_back_bytes", self.write_back_bytes, 0..=1 << 40),
            ("ports", self.ports.map_or(1, |ports| ports as u64), 1..=1 << 16),
        ]))
    }

    /// True if the platform makes arrays of the level.
    pub fn allows(&self, level: Level) -> bool {
        let name = match level {
            Level::Single => LevelName::Single,
            Level::Raid0 => LevelName::Raid0,
            Level::Raid1 => LevelName::Raid1,
            Level::Raid10 => LevelName::Raid10,
            Level::Raid4 => LevelName::Raid4,
            Level::Raid5 { spans: 1 } => LevelName::Raid5,
            Level::Raid6 { spans: 1 } => LevelName::Raid6,
            Level::Raid5 { .. } => LevelName::Raid50,
            Level::Raid6 { .. } => LevelName::Raid60,
        };
        self.levels.is_empty() || self.levels.contains(&name)
    }

    /// The reason why the level cannot be modelled over so many members on the platform, if it cannot; `name` is the platform's.
    pub fn level_refusal(&self, level: Level, members: usize, name: &str) -> Option<String> {
        if !self.allows(level) {
            return Some(format!(
                "{level} cannot be modelled on {name}: the platform lacks it, or nothing is published about it"
            ));
        }
        // Only Stria's platforms have its metadata.
        if self.metadata {
            return None;
        }
        let copies = (level == Level::Raid1 && members > 2).then_some(("more than two copies", "2 drives"));
        let rare = || Some(("such arrays", level.instead_of_rare(members)?));
        copies.or_else(rare).map(|(what, usual)| {
            format!(
                "{level} over {members} drives cannot be modelled on {name}: nothing is published about {what}; ask for {usual}, or for --platform stria"
            )
        })
    }

    /// True if Stria's engine stands for the platform's array of the level; else its plain twin does, which knows no missing
    /// drives.
    pub fn is_served_by_engine(&self, level: Level) -> bool {
        let own_choice = self.reads_nearest_copy && level.is_mirrored();
        self.coalesces && !own_choice && !self.one_at_a_time
    }

    /// Why there is no strip of so many KiB, if there is none; `name` is the platform's.
    pub fn strip_refusal(&self, strip_kib: u64, name: &str) -> Option<String> {
        (strip_kib < self.strip_kib_min).then(|| format!("{name} has no strips below {} KiB", self.strip_kib_min))
    }

    /// The reason why so many drives cannot be attached, if they cannot; `name` is the platform's.
    pub fn ports_refusal(&self, drives: usize, name: &str) -> Option<String> {
        let ports = self.ports.filter(|ports| drives > *ports)?;
        Some(format!("{name} has {ports} ports, too few for {drives} drives: take {ports} drives at most, or another platform"))
    }

    /// Payload of a port.
    pub fn port_of(&self, member: usize) -> Option<u64> {
        self.port_bytes_per_s.get(member).or(self.port_bytes_per_s.last()).copied()
    }

    /// True if trims reach the drives.
    pub fn trims(&self, level: Level) -> bool {
        let kind = match level {
            Level::Single => TrimLevel::Single,
            Level::Raid0 => TrimLevel::Raid0,
            Level::Raid1 | Level::Raid10 | Level::Raid4 | Level::Raid5 { .. } | Level::Raid6 { .. } => TrimLevel::Redundant,
        };
        self.trim.contains(&kind)
    }
}
