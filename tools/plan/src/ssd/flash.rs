//! Dies and channels: how reads, programs and erases take time and meet.
//!
//! A die does one thing at a time. Reads go before programs and erases, and suspend the one that runs, but only so many go before
//! one program: flash bounds how often a program may be suspended, and a controller must empty its buffer (G. Wu, X. He,
//! "Reducing SSD read latency via NAND flash program and erase suspension", 2012). Further reads wait for its end. Programs go to
//! the die with the least programming ahead of it. A channel carries what a die reads or programs; its use bounds throughput, and
//! a transfer waits for the channel's earlier ones, but dies do not wait for a channel.

use super::config::SsdConfig;
use crate::chance::{Chance, mix};
use crate::station::{Station, transfer_ns};
use std::collections::VecDeque;
use stria_block::Nanos;

/// 20 ms: the time over which the use of the dies is averaged. Source: none; some tens of programs, well below any run.
const USE_WINDOW_NS: f64 = 20e6;

/// 8: dies of which one number tells the first end, so that the die that is free first is found among some dozens in a few looks.
const GROUP_DIES: usize = 8;

#[derive(Clone, Debug, Default)]
struct Die {
    reads_end: Nanos,
    /// The ends of the programs that have not ended, as far as they are known.
    ends: VecDeque<Nanos>,
    /// Reads that went before the first of them.
    yielded: u32,
    programs: u32,
    /// The unit that the last read brought into the die's page register, and when it is there.
    register: Option<(u64, Nanos)>,
}

impl Die {
    /// Forgets programs that ended.
    fn advance(&mut self, now: Nanos) {
        while let Some(&end) = self.ends.front()
            && end <= now
        {
            self.ends.pop_front();
            self.yielded = 0;
            self.register = self.register.filter(|&(_, at)| at > end);
        }
    }

    /// Postpones all programs but the first `kept`.
    fn delay(&mut self, kept: usize, by: Nanos) {
        self.ends.iter_mut().skip(kept).for_each(|end| *end += by);
    }

    /// When a unit is in the page register, if a read has brought it there or is about to. It stays until another unit is read, or
    /// a program, whose data come by the same register, goes on or has ended. Source: the ONFI specification, 4.0, *Change Read
    /// Column*: any part of the page in the register may be read out, and as often as the host likes.
    fn in_register(&mut self, now: Nanos, unit: u64) -> Option<Nanos> {
        self.advance(now);
        let (_, at) = self.register.filter(|&(held, at)| held == unit && (at > now || self.ends.is_empty()))?;
        Some(at.max(now))
    }

    /// Reads for `cells`, before the first program if it still yields, otherwise after it.
    fn read(&mut self, now: Nanos, cells: Nanos, suspend_ns: Option<Nanos>, yields_max: u32) {
        self.advance(now);
        let Some(&first) = self.ends.front() else {
            self.reads_end = self.reads_end.max(now) + cells;
            return;
        };
        let runs = self.reads_end <= now;
        let suspend = if runs { suspend_ns } else { Some(0) };
        match suspend {
            Some(suspend) if self.reads_end < first && self.yielded < yields_max => {
                let wait = suspend.min(first - now);
                self.yielded += 1;
                self.reads_end = self.reads_end.max(now) + wait + cells;
                self.delay(0, wait + cells);
            }
            _ => {
                self.reads_end = self.reads_end.max(first) + cells;
                self.delay(1, cells);
            }
        }
    }
}

/// The flash of one drive.
#[derive(Clone, Debug)]
pub struct Flash {
    dies: Vec<Die>,
    /// The end of each die's last program, and the first of each group's.
    programs_ends: Vec<Nanos>,
    group_ends: Vec<Nanos>,
    channels: Vec<Station>,
    channel_bytes_per_s: u64,
    program_bytes: u64,
    read_ns: Nanos,
    spread_ns: Nanos,
    program_ns: Nanos,
    erase_ns: Nanos,
    block_programs: u32,
    suspend_ns: Option<Nanos>,
    program_yields: u32,
    chance: Chance,
    /// The share of time that the dies program, as of a time.
    used: (f64, Nanos),
    programs: u64,
    erases: u64,
}

impl Flash {
    /// Idle flash.
    pub fn new(config: &SsdConfig, chance: Chance) -> Self {
        Self {
            dies: vec![Die::default(); config.dies as usize],
            programs_ends: vec![0; config.dies as usize],
            group_ends: vec![0; (config.dies as usize).div_ceil(GROUP_DIES)],
            channels: vec![Station::default(); config.channels as usize],
            channel_bytes_per_s: config.channel_bytes_per_s,
            program_bytes: config.program_bytes,
            read_ns: config.read_ns,
            spread_ns: (config.read_ns as f64 * config.read_spread) as Nanos,
            program_ns: config.program_ns,
            erase_ns: config.erase_ns,
            block_programs: config.block_programs,
            suspend_ns: config.suspend_ns,
            program_yields: config.program_yields,
            chance,
            used: (0.0, 0),
            programs: 0,
            erases: 0,
        }
    }

    /// Programs and erases since the start.
    pub fn programs_and_erases(&self) -> (u64, u64) {
        (self.programs, self.erases)
    }

    /// When a read of `bytes` within one program unit, the `unit`-th of the drive, is at the controller.
    pub fn read(&mut self, now: Nanos, unit: u64, bytes: u64) -> Nanos {
        let index = self.die_of(unit);
        let cells = self.read_ns - self.spread_ns + self.chance.below(2 * self.spread_ns + 1);
        let die = &mut self.dies[index];
        let read_end = match die.in_register(now, unit) {
            Some(at) => at,
            None => {
                die.read(now, cells, self.suspend_ns, self.program_yields);
                let (read_end, programs_end) = (die.reads_end, die.ends.back().copied());
                die.register = Some((unit, read_end));
                if let Some(end) = programs_end {
                    self.set_programs_end(index, end);
                }
                read_end
            }
        };
        let transfer = transfer_ns(bytes, self.channel_bytes_per_s);
        let channels = self.channels.len();
        let end = read_end + transfer;
        end.max(self.channels[index % channels].serve(now, transfer))
    }

    /// Puts a program on the die with the least ahead of it. `extra_ns` is spent on the die before it; `program_ns` replaces the
    /// flash's own time for one. Returns the die's backlog before it.
    pub fn program(&mut self, now: Nanos, extra_ns: Nanos, program_ns: Option<Nanos>) -> Nanos {
        let index = self.least_busy();
        let transfer = transfer_ns(self.program_bytes, self.channel_bytes_per_s);
        let channels = self.channels.len();
        let erase = self.erase_ns as f64 / f64::from(self.block_programs);
        let time = (extra_ns + program_ns.unwrap_or(self.program_ns)) as f64 + erase;
        self.used = (self.used_share(now) + time / self.dies.len() as f64 / USE_WINDOW_NS, now.max(self.used.1));
        let loaded = self.channels[index % channels].serve(now, transfer);
        let die = &mut self.dies[index];
        die.advance(now);
        let free = self.programs_ends[index].max(die.reads_end).max(now);
        let mut end = free.max(loaded) + extra_ns + program_ns.unwrap_or(self.program_ns);
        die.programs += 1;
        self.programs += 1;
        if die.programs == self.block_programs {
            die.programs = 0;
            end += self.erase_ns;
            self.erases += 1;
        }
        die.ends.push_back(end);
        self.set_programs_end(index, end);
        free - now
    }

    /// The share of time that the dies program, averaged over the last 20 ms with less weight on what is longer ago.
    pub fn used_share(&self, now: Nanos) -> f64 {
        self.used.0 * (-(now.saturating_sub(self.used.1) as f64) / USE_WINDOW_NS).exp()
    }

    /// When everything that was put on dies is done.
    pub fn programs_end(&self) -> Nanos {
        self.programs_ends.iter().copied().max().unwrap_or(0)
    }

    fn set_programs_end(&mut self, die: usize, end: Nanos) {
        self.programs_ends[die] = end;
        let group = die / GROUP_DIES;
        let dies = &self.programs_ends[group * GROUP_DIES..self.programs_ends.len().min((group + 1) * GROUP_DIES)];
        self.group_ends[group] = dies.iter().copied().min().expect("a group has dies");
    }

    /// The die whose last program ends first: of several the next one in turn.
    fn least_busy(&self) -> usize {
        let (dies, turn) = (self.programs_ends.len(), (self.programs % self.programs_ends.len() as u64) as usize);
        let first = self.group_ends.iter().copied().min().expect("there are dies");
        let within = |from: usize, to: usize| (from..to).find(|&die| self.programs_ends[die] == first);
        // The rest of the turn's group, the groups behind it, and those before it, the turn's own again.
        let group = turn / GROUP_DIES;
        let groups = (group + 1..self.group_ends.len()).chain(0..=group);
        let elsewhere = || {
            let group = groups.into_iter().find(|&group| self.group_ends[group] == first)?;
            within(group * GROUP_DIES, dies.min((group + 1) * GROUP_DIES))
        };
        within(turn, dies.min((group + 1) * GROUP_DIES)).or_else(elsewhere).expect("some die is the first")
    }

    /// Units are dealt to dies in rounds, each of which begins at a die that its number determines: neighbours lie on different
    /// dies, and units at random on random ones.
    fn die_of(&self, unit: u64) -> usize {
        let dies = self.dies.len() as u64;
        ((unit + mix(unit / dies)) % dies) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backplane::DriveConfig;

    /// Its plain twin: looks at every die in turn.
    fn first_in_turn(flash: &Flash) -> usize {
        let dies = flash.programs_ends.len();
        let turn = (flash.programs % dies as u64) as usize;
        (0..dies).map(|step| (turn + step) % dies).min_by_key(|&die| flash.programs_ends[die]).expect("there are dies")
    }

    #[test]
    fn a_program_goes_to_the_die_that_ends_first_in_turn() {
        let DriveConfig::Ssd(config) = crate::profile::drive("p4510").expect("a drive").config else { panic!("an SSD") };
        for dies in [1, 7, 8, 9, 64, 66] {
            let mut flash = Flash::new(&SsdConfig { dies, ..config.clone() }, Chance::new(1, 0));
            let (mut chance, mut now) = (Chance::new(2, 0), 0);
            for _ in 0..5_000 {
                assert_eq!(flash.least_busy(), first_in_turn(&flash), "{dies} dies");
                match chance.below(3) {
                    0 => _ = flash.read(now, chance.below(1 << 20), 4096),
                    // Few different times, so that several dies end at once.
                    _ => _ = flash.program(now, 1000 * chance.below(2), Some(1_000_000)),
                }
                now += 10_000 * chance.below(4);
            }
        }
    }

    /// Each of sixteen reads of a unit in order took a read of the cells, so that small reads in order were slower than at random.
    #[test]
    fn a_unit_in_the_page_register_is_read_out_in_parts() {
        let DriveConfig::Ssd(config) = crate::profile::drive("p4510").expect("a drive").config else { panic!("an SSD") };
        let config = SsdConfig { dies: 1, read_spread: 0.0, ..config };
        let part = transfer_ns(4096, config.channel_bytes_per_s);
        let mut flash = Flash::new(&config, Chance::new(1, 0));
        // A second part asked for while the cells are read, and a third later.
        assert_eq!(flash.read(0, 5, 4096), config.read_ns + part);
        assert!((config.read_ns..config.read_ns + 2 * part + 1).contains(&flash.read(10, 5, 4096)));
        assert_eq!(flash.read(200_000, 5, 4096), 200_000 + part);
        // Another unit takes the register, and so does a program.
        assert_eq!(flash.read(300_000, 6, 4096), 300_000 + config.read_ns + part);
        assert_eq!(flash.read(400_000, 5, 4096), 400_000 + config.read_ns + part);
        flash.program(500_000, 0, None);
        let later = 500_000 + 10 * config.program_ns;
        assert_eq!(flash.read(later, 5, 4096), later + config.read_ns + part);
    }
}
