//! The events of a history: steps drawn from the seed before anything runs, so that a failing history can be shrunk by
//! leaving steps out. A step that selects by a number takes it modulo the number of choices at that moment.

mod extras;

use crate::chance::Chance;
use crate::setup::Setup;
pub use extras::Extras;
use stria_array::NEW_DATA_SECTORS_MAX;
use stria_block::Nanos;

/// The member that hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hanging {
    /// The one that is replaced, or another one where a slot was empty.
    Source,
    /// Another member in sync, by number.
    Other(u64),
    /// The one that is filled.
    Filled,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client writes.
    Write {
        /// The position, modulo the size.
        at: u64,
        /// The number of sectors.
        sectors: u64,
        /// Durable when it ends.
        fua: bool,
    },
    /// A client reads.
    Read {
        /// The position.
        at: u64,
        /// The number of sectors.
        sectors: u64,
    },
    /// A client asks which parts are holes.
    Extents {
        /// The position.
        at: u64,
        /// The number of sectors.
        sectors: u64,
    },
    /// A client zeroes.
    Zero {
        /// The position.
        at: u64,
        /// The number of sectors.
        sectors: u64,
        /// Durable when it ends.
        fua: bool,
        /// True if space may be freed.
        unmap: bool,
    },
    /// A client discards: the range reads as zeros from then on.
    Discard {
        /// The position.
        at: u64,
        /// The number of sectors.
        sectors: u64,
    },
    /// A client flushes.
    Flush,
    /// Clients wait until all their requests have ended.
    Drain,
    /// No client sends a request for this time.
    Pause(Nanos),
    /// A member is failed by command.
    Fail(u64),
    /// A drive is pulled.
    Pull(u64),
    /// The next write to a drive fails.
    FailWrite(u64),
    /// The next flush of a drive fails, and its cache forgets a part of what it has.
    FailFlush(u64),
    /// Some sectors of a drive become unreadable until they are written.
    Spoil {
        /// The drive.
        drive: u64,
        /// The position in the data area.
        at: u64,
        /// Their number.
        sectors: u64,
    },
    /// A drive answers nothing for a while.
    Stall {
        /// The drive.
        drive: u64,
        /// The duration.
        pause: Nanos,
    },
    /// A drive is cut short.
    Shrink {
        /// The drive.
        drive: u64,
        /// The sector at which it ends then, modulo its size.
        at: u64,
        /// True if that happens the next time that no process runs.
        stopped: bool,
    },
    /// A member that hangs is failed by command.
    FailHung,
    /// A drive hangs while a member is filled.
    Hang {
        /// The drive.
        who: Hanging,
        /// The part of the rebuild that is done before.
        eighths: u64,
        /// The duration.
        pause: Nanos,
        /// True if it keeps only requests to data that are in flight then, or sent soon after.
        keeps: bool,
    },
    /// As `FailHung`; the member may also be one that is being filled.
    FailHanging,
    /// A member has no space for data.
    Full {
        /// The member.
        which: u64,
        /// So many of eight writes fail.
        eighths: u8,
    },
    /// It has space again.
    Space,
    /// Some sectors become unreadable, and more with each read that fails.
    Grow {
        /// The drive.
        drive: u64,
        /// The position in the data area.
        at: u64,
    },
    /// Bytes of a drive change while it is idle, and a scrub must find that.
    Rot {
        /// The drive.
        drive: u64,
        /// The position in the data area.
        at: u64,
        /// The kind of fault.
        rot: Rot,
    },
    /// The superblock of a member cannot be read when the array starts after the next crash.
    LoseSuperblock(u64),
    /// The array is served read-only at first when it starts next.
    ReadOnly,
    /// A sector of a member's bitmap or log cannot be read when the array starts after the next crash.
    LoseLog {
        /// The member.
        which: u64,
        /// The sector.
        at: u64,
    },
    /// A member is lost with the next power cut.
    LoseWithPower(u64),
    /// The start after the next crash is cut short by another.
    CrashAgain {
        /// The number of begun and ended requests until then.
        after: u64,
        /// True if only the process is killed.
        kill: bool,
    },
    /// A member is failed by command, and pulled once that is answered.
    Unplug(u64),
    /// The power fails while a loose drive gets its first metadata.
    AdoptTorn(u64),
    /// A failed or pulled drive comes back.
    Return(u64),
    /// A loose drive becomes a spare.
    AddSpare(u64),
    /// A failed member or a spare is removed.
    Remove(u64),
    /// A working member is replaced by a loose drive.
    Replace(u64),
    /// A scrub is started.
    Scrub {
        /// True if it repairs.
        repair: bool,
    },
    /// Sweeps are paused, or go on.
    Hold(bool),
    /// Sweeps are limited to a number of sectors per second.
    Speed(u64),
    /// Time passes until all rebuilds and resyncs have ended.
    Settle,
    /// The array is stopped cleanly, and started again.
    Restart,
    /// The same while requests are in flight.
    RestartAtOnce,
    /// A command is begun and not waited for.
    Begin {
        /// The command.
        what: u64,
        /// The member.
        which: u64,
    },
    /// The array is stopped cleanly, its metadata is changed (a bitmap or a write log is added or taken away), and it starts
    /// again. Every second time the power fails meanwhile.
    Change {
        /// The change.
        what: u64,
        /// The write at which the power fails.
        cut: u64,
    },
    /// The write policy changes.
    Policy(u64),
    /// After a number of events on the drives the power fails, or the process dies.
    Crash {
        /// The number of begun and ended requests until then.
        after: u64,
        /// True if only the process dies; drives keep their power.
        kill: bool,
    },
}

/// The ways in which bytes become wrong without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// They change at rest.
    Flipped,
    /// A write is acknowledged and not done.
    Lost,
    /// A write is done elsewhere.
    Misdirected,
}

/// 100 µs: how often arrays receive completions that come in batches.
pub const ENDS_EVERY: Nanos = 100_000;

/// The array and the steps of a seed.
#[derive(Clone, Debug)]
pub struct History {
    /// The seed of latencies, and of the data that survives power cuts.
    pub seed: u64,
    /// The array.
    pub setup: Setup,
    /// The steps.
    pub steps: Vec<Step>,
    /// The number of client requests at a time.
    pub depth: usize,
}

impl History {
    /// The history of a seed.
    pub fn draw(seed: u64, family: Option<&str>) -> Self {
        Self::draw_first(seed, family).with_drives_that_leave()
    }

    /// The history of a seed, without drives that are cut short or outlive their process.
    pub fn draw_first(seed: u64, family: Option<&str>) -> Self {
        let mut chance = Chance::new(seed, 1);
        let mut setup = Setup::draw(&mut chance, family);
        if Chance::new(seed, 10).one_in(4) {
            setup.ends_every = ENDS_EVERY;
        }
        setup.hedges = Chance::new(seed, 11).one_in(2);
        setup.run_on(Chance::new(seed, 12).pick(&[1, 1, 2, 3]));
        setup.late_sweeps = Chance::new(seed, 13).one_in(3);
        let count = 30 + chance.below(170);
        let bounded = !chance.one_in(4);
        let depth = chance.pick(&[1, 2, 4, 8, 8, 16]);
        let mut drawer = Drawer {
            block: setup.drives.iter().map(|drive| drive.block_sectors).max().unwrap_or(1),
            bounded,
            hot: chance.any(),
            next: chance.any(),
            largest: 8 << chance.below(5),
            troubled: chance.below(4),
            chance,
        };
        let mut steps = Vec::new();
        for _ in 0..count {
            drawer.draw(&mut steps);
        }
        Self { seed, setup, steps, depth }
    }
}

impl History {
    /// In one of three of them drives are cut short, or hang until they are failed, or outlive their process.
    fn with_drives_that_leave(mut self) -> Self {
        let mut chance = Chance::new(self.seed, 14);
        self.setup.holds = true;
        if !self.setup.level.is_redundant() || !chance.one_in(3) {
            return self;
        }
        for _ in 0..1 + chance.below(3) {
            let which = chance.any();
            let hang = Step::Stall {
                drive: which % self.setup.drives.len() as u64,
                pause: chance.pick(&[3_000_000_000, 30_000_000_000, 200_000_000_000]),
            };
            let kill = Step::Crash { after: chance.below(24), kill: true };
            let short = |stopped| Step::Shrink { drive: which, at: which.rotate_left(17) >> 1, stopped };
            let steps = match chance.below(8) {
                0 | 1 => vec![short(false)],
                2 => vec![short(true), if chance.one_in(2) { Step::Restart } else { kill }],
                3 | 4 => vec![hang, Step::FailHung],
                5 | 6 => vec![hang, kill],
                _ => vec![hang, Step::FailHung, kill],
            };
            // The next steps follow soon, since clients that wait for a hung drive send nothing. Later a drive returns.
            let mut place = chance.below(self.steps.len() as u64 + 1) as usize;
            for step in steps {
                self.steps.insert(place.min(self.steps.len()), step);
                place += 1 + chance.below(4) as usize;
            }
            place += chance.below(16) as usize;
            self.steps.insert(place.min(self.steps.len()), Step::Return(chance.any()));
        }
        self
    }
}

struct Drawer {
    chance: Chance,
    block: u64,
    /// No request is larger than the write log can protect from tearing.
    bounded: bool,
    /// The position of the hot spot, and of a sequential run.
    hot: u64,
    next: u64,
    largest: u64,
    /// The amount of faults: 0 to 3.
    troubled: u64,
}

impl Drawer {
    fn range(&mut self) -> (u64, u64) {
        let sectors = match self.chance.below(8) {
            0 => 1 + self.chance.below(self.largest * 4),
            1..=3 => 8,
            _ => 1 + self.chance.below(self.largest),
        };
        let most = if self.bounded { NEW_DATA_SECTORS_MAX } else { u64::MAX };
        let sectors = sectors.next_multiple_of(self.block).min(most);
        let at = match self.chance.below(4) {
            0 => self.hot.wrapping_add(self.chance.below(64)),
            1 => self.next,
            _ => self.chance.any(),
        };
        let at = at >> 1;
        self.next = (at + sectors) << 1;
        (at, sectors)
    }

    fn draw(&mut self, steps: &mut Vec<Step>) {
        let roll = self.chance.below(100);
        if roll < 88 || self.troubled == 0 && roll < 94 {
            return self.client(steps);
        }
        if roll < 91 {
            let pause = self.chance.pick(&[100_000, 2_000_000, 50_000_000, 1_100_000_000, 1_500_000_000, 6_500_000_000]);
            steps.push(Step::Pause(pause));
            return;
        }
        let which = self.chance.any();
        steps.push(match self.chance.below(24) {
            0 => Step::Fail(which),
            1 => Step::Pull(which),
            2 => Step::FailWrite(which),
            3 | 4 => Step::Spoil { drive: which, at: self.chance.any() >> 1, sectors: self.chance.pick(&[1, 8, 8, 16]) },
            5 => Step::Stall { drive: which, pause: self.chance.pick(&[1_000_000, 100_000_000, 2_000_000_000]) },
            6..=8 => Step::Return(which),
            9 => Step::AddSpare(which),
            10 => Step::Remove(which),
            11 => Step::Replace(which),
            12 => Step::Scrub { repair: self.chance.one_in(2) },
            13 => Step::Hold(self.chance.one_in(3)),
            14 => Step::Speed(self.chance.pick(&[64, 4096, u64::MAX])),
            15 | 16 => Step::Settle,
            17 => Step::Restart,
            18 => Step::Drain,
            _ => {
                Step::Crash { after: self.chance.pick(&[0, 4, 16, 64, 64]) + self.chance.below(64), kill: self.chance.one_in(3) }
            }
        });
    }

    fn client(&mut self, steps: &mut Vec<Step>) {
        let (at, sectors) = self.range();
        steps.push(match self.chance.below(32) {
            0..=15 => Step::Write { at, sectors, fua: false },
            16..=18 => Step::Write { at, sectors, fua: true },
            19..=25 => Step::Read { at, sectors },
            26 => Step::Zero { at, sectors, fua: self.chance.one_in(4), unmap: self.chance.one_in(2) },
            27 => Step::Discard { at, sectors: if self.bounded { sectors } else { sectors * 4 } },
            28 | 29 => Step::Flush,
            _ => Step::Drain,
        });
    }
}
