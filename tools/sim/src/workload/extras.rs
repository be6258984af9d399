//! Steps of histories that seeds originally did not have. Each kind draws its own random numbers, so that the histories of seeds
//! stay the same.

use super::{Hanging, History, Rot, Step};
use crate::chance::Chance;
use crate::setup::PartialParity;
use std::fmt;
use stria_array::Level;

/// The additional steps of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Rot, lost and misdirected writes, errors that grow, torn metadata; and starts that meet another crash or lack a member.
    pub more_faults: bool,
    /// Clients outlive a killed process, and repeat the requests that it had not answered.
    pub repeats: bool,
    /// The arrays are RAID 5 or 50, and have md's partial parity log.
    pub partial_parity: bool,
    /// Metadata change while the array is stopped, and write policies while it runs.
    pub changes: bool,
    /// Drives hang while members are filled.
    pub hangs: bool,
    /// A member's file system is full for a while.
    pub full: bool,
    /// Faults of drives beyond the usual ones: logs that cannot be read at a start, flushes that fail, and writes that are done
    /// in part when they fail or their process is killed.
    pub harsh: bool,
}

impl Extras {
    /// None of them.
    pub const NONE: Self = Self {
        more_faults: false,
        repeats: false,
        partial_parity: false,
        changes: false,
        hangs: false,
        full: false,
        harsh: false,
    };
}

/// The options that ask for them.
impl fmt::Display for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = [
            (self.more_faults, " --more-faults"),
            (self.repeats, " --repeats"),
            (self.partial_parity, " --partial-parity"),
            (self.changes, " --changes"),
            (self.hangs, " --hangs"),
            (self.full, " --full"),
            (self.harsh, " --harsh"),
        ];
        options.iter().filter(|(set, _)| *set).try_for_each(|(_, option)| f.write_str(option))
    }
}

impl History {
    /// The history of a seed, with its extras.
    pub fn draw_with(seed: u64, family: Option<&str>, extras: Extras) -> Self {
        // Other levels have no partial parity log.
        let mut history = History::draw(seed, family.or(extras.partial_parity.then_some("5")));
        if extras.partial_parity {
            history = history.with_partial_parity();
        }
        if extras.more_faults {
            history = history.with_more_faults().with_troubled_starts();
        }
        if extras.repeats {
            history = history.with_repeats();
        }
        if extras.changes {
            history = history.with_changes();
        }
        if extras.hangs {
            history = history.with_hangs();
        }
        if extras.full {
            history = history.with_full_members();
        }
        if extras.harsh {
            history = history.with_harsh_drives();
        }
        history
    }

    /// The same with changes of metadata and of the write policy.
    #[must_use]
    pub fn with_changes(mut self) -> Self {
        let mut chance = Chance::new(self.seed, 19);
        for _ in 0..2 + chance.below(5) {
            let steps: &[Step] = match chance.below(3) {
                0 => &[Step::Policy(chance.any())],
                _ => &[Step::Settle, Step::Change { what: chance.any(), cut: chance.any() }],
            };
            let index = chance.below(self.steps.len() as u64 + 1) as usize;
            self.steps.splice(index..index, steps.iter().copied());
        }
        self
    }

    /// The same with one or two clusters of steps, each at a drawn place.
    fn with_clusters(mut self, mut chance: Chance, cluster: impl Fn(&mut Chance) -> Vec<Step>) -> Self {
        for _ in 0..1 + chance.below(2) {
            let cluster = cluster(&mut chance);
            let index = chance.below(self.steps.len() as u64 + 1) as usize;
            self.steps.splice(index..index, cluster);
        }
        self
    }

    /// The same with drives that hang while a member is filled, for up to 200 s.
    #[must_use]
    pub fn with_hangs(mut self) -> Self {
        if !self.setup.level.is_redundant() {
            return self;
        }
        let chance = Chance::new(self.seed, 20);
        self.setup.hangs = true;
        self.with_clusters(chance, hang_beside_a_rebuild)
    }

    /// The same with members that have no space for a while. In one of four arrays their lists of bad blocks count as half full,
    /// so that copies give such writes back (R85).
    #[must_use]
    pub fn with_full_members(mut self) -> Self {
        if !self.setup.level.is_redundant() {
            return self;
        }
        self.setup.short_lists = Chance::new(self.seed, 26).one_in(4);
        let chance = Chance::new(self.seed, 21);
        self.with_clusters(chance, full_member)
    }

    /// The same with harsher drives.
    #[must_use]
    pub fn with_harsh_drives(mut self) -> Self {
        if !self.setup.level.is_redundant() {
            return self;
        }
        let chance = Chance::new(self.seed, 22);
        self.setup.harsh = true;
        self.with_clusters(chance, harsh)
    }

    /// The same with clients that outlive a killed process, and repeat the requests that it had not answered.
    #[must_use]
    pub fn with_repeats(mut self) -> Self {
        self.setup.repeats = true;
        let mut chance = Chance::new(self.seed, 15);
        for _ in 0..2 {
            let index = chance.below(self.steps.len() as u64 + 1) as usize;
            self.steps.insert(index, Step::Crash { after: chance.below(40), kill: true });
        }
        self
    }

    /// The same with the first meaning of [`Extras::more_faults`]: faults in single steps.
    #[must_use]
    pub fn with_more_faults(self) -> Self {
        let seed = self.seed;
        let mut history = self;
        let small_blocks = history.setup.drives.iter().all(|drive| drive.block_sectors == 1);
        if history.setup.intent_chunk_bytes.is_some() && small_blocks && Chance::new(seed, 8).one_in(6) {
            history.setup = history.setup.with_bitmap_pages();
        }
        let mut chance = Chance::new(seed, 5);
        for _ in 0..1 + chance.below(6) {
            let which = chance.any();
            let crash = Step::Crash { after: chance.below(24), kill: chance.one_in(3) };
            let more: &[Step] = match chance.below(10) {
                0..=2 => {
                    let rot = chance.pick(&[Rot::Flipped, Rot::Lost, Rot::Misdirected]);
                    &[Step::Settle, Step::Rot { drive: which, at: chance.any() >> 1, rot }]
                }
                3 | 4 => &[Step::Grow { drive: which, at: chance.any() >> 1 }],
                5 => &[Step::LoseSuperblock(which), crash],
                6 => &[Step::AdoptTorn(which)],
                7 => &[crash, Step::AddSpare(which)],
                8 => &[crash, Step::Return(which)],
                _ => &[crash, Step::Replace(which)],
            };
            let index = chance.below(history.steps.len() as u64 + 1) as usize;
            history.steps.splice(index..index, more.iter().copied());
        }
        history
    }

    /// The same with crashes soon after one another, and members that leave between them and return at some later start.
    #[must_use]
    pub fn with_troubled_starts(mut self) -> Self {
        if !self.setup.level.is_redundant() {
            return self;
        }
        let mut chance = Chance::new(self.seed, 16);
        self.setup.found_again = true;
        // Otherwise a crash soon afterwards finds little to harm.
        self.setup.late_sweeps |= chance.one_in(2);
        self.with_clusters(chance, troubled_start)
    }

    /// The same on an array with a partial parity log. Crashes, reads before the first write, and first resyncs that find much to
    /// do.
    ///
    /// # Panics
    /// The level has no such log.
    #[must_use]
    pub fn with_partial_parity(mut self) -> Self {
        assert_eq!(self.setup.level, Level::Raid5, "only RAID 5 and 50 have a partial parity log");
        let mut chance = Chance::new(self.seed, 17);
        let log = PartialParity { sectors: chance.pick(&[264, 264, 400, 1024]), ring: chance.one_in(2) };
        self.setup = self.setup.with_partial_parity(log);
        self.setup.assume_clean = !chance.one_in(3);
        for _ in 0..1 + chance.below(3) {
            let at = chance.any() >> 1;
            let crash = Step::Crash { after: chance.below(40), kill: chance.one_in(2) };
            let read = |sectors| Step::Read { at, sectors };
            let steps = [Step::Write { at, sectors: 1 + chance.below(24), fua: false }, crash, read(8), read(64)];
            let index = chance.below(self.steps.len() as u64 + 1) as usize;
            self.steps.splice(index..index, steps);
        }
        if chance.one_in(2) { self.with_troubled_starts() } else { self }
    }
}

/// Clients write where a member has no space, a crash may come, and there is space again at some time.
fn full_member(chance: &mut Chance) -> Vec<Step> {
    let mut steps = Vec::new();
    if chance.one_in(3) {
        steps.push(Step::Fail(chance.any()));
    }
    steps.push(Step::Full { which: chance.any(), eighths: chance.pick(&[2, 4, 8]) });
    let at = chance.below(192);
    let clients = |chance: &mut Chance, steps: &mut Vec<Step>| {
        for _ in 0..2 + chance.below(10) {
            let (at, sectors) = (at + chance.below(96), 1 + chance.below(64));
            steps.push(match chance.below(8) {
                0 | 1 => Step::Read { at, sectors },
                2 => Step::Flush,
                3 => Step::Zero { at, sectors, fua: chance.one_in(4), unmap: chance.one_in(2) },
                _ => Step::Write { at, sectors, fua: chance.one_in(8) },
            });
        }
    };
    clients(chance, &mut steps);
    match chance.below(6) {
        0 => steps.push(Step::Crash { after: chance.below(40), kill: true }),
        1 => steps.push(Step::Crash { after: chance.below(40), kill: false }),
        2 => steps.push(Step::Fail(chance.any())),
        3 => steps.push(Step::Pause(3_000_000_000)),
        _ => {}
    }
    clients(chance, &mut steps);
    steps.extend((0..10).map(|part| Step::Read { at: at + 16 * part, sectors: 16 }));
    if chance.one_in(2) {
        steps.push(Step::Space);
        clients(chance, &mut steps);
    }
    steps
}

/// Clients write and read a part of the array.
fn clients_at(chance: &mut Chance, at: u64, steps: &mut Vec<Step>) {
    for _ in 0..2 + chance.below(10) {
        let (at, sectors) = (at + chance.below(64), 1 + chance.below(16));
        steps.push(match chance.below(16) {
            0 | 1 => Step::Read { at, sectors },
            2 | 3 => Step::Flush,
            4 => Step::Extents { at, sectors: sectors * 4 },
            5 => Step::Discard { at, sectors: sectors * 2 },
            _ => Step::Write { at, sectors, fua: chance.one_in(8) },
        });
    }
}

/// Clients write, and harsher faults meet them.
fn harsh(chance: &mut Chance) -> Vec<Step> {
    let at = chance.below(192);
    let mut steps = Vec::new();
    if chance.one_in(4) {
        steps.push(Step::Fail(chance.any()));
    }
    clients_at(chance, at, &mut steps);
    match chance.below(8) {
        0..=2 => lost_log(chance, &mut steps),
        3..=5 => failed_flush(chance, at, &mut steps),
        6 => read_only(chance, &mut steps),
        _ => meeting_commands(chance, at, &mut steps),
    }
    clients_at(chance, at, &mut steps);
    steps.extend((0..4).map(|part| Step::Read { at: at + 16 * part, sectors: 16 }));
    steps
}

/// A drive fails a flush, of a client or of the array, and more may happen before superblocks name it.
fn failed_flush(chance: &mut Chance, at: u64, steps: &mut Vec<Step>) {
    steps.push(Step::FailFlush(chance.any()));
    clients_at(chance, at, steps);
    match chance.below(6) {
        0 => steps.push(Step::Flush),
        1 => steps.push(Step::Pause(6_500_000_000)),
        2 => steps.push(Step::Restart),
        3 => steps.extend([Step::Flush, Step::Crash { after: chance.below(30), kill: false }]),
        4 => steps.extend([Step::Flush, Step::Crash { after: chance.below(30), kill: true }]),
        _ => steps.extend([Step::Flush, Step::FailWrite(chance.any())]),
    }
    clients_at(chance, at, steps);
    steps.push(Step::Return(chance.any()));
}

/// Commands meet each other, clients, and a stop or a crash.
fn meeting_commands(chance: &mut Chance, at: u64, steps: &mut Vec<Step>) {
    if chance.one_in(2) {
        steps.extend([Step::Settle, Step::Speed(chance.pick(&[4096, u64::MAX]))]);
    }
    for _ in 0..2 + chance.below(4) {
        steps.push(Step::Begin { what: chance.any(), which: chance.any() });
        if chance.one_in(2) {
            clients_at(chance, at, steps);
        }
    }
    match chance.below(4) {
        0 | 1 => steps.push(Step::RestartAtOnce),
        2 => steps.push(Step::Crash { after: chance.below(24), kill: chance.one_in(2) }),
        _ => steps.push(Step::Replace(chance.any())),
    }
    steps.extend([Step::Speed(u64::MAX), Step::Return(chance.any())]);
}

/// An array is served read-only after a crash, perhaps with a log that cannot be read or without a member.
fn read_only(chance: &mut Chance, steps: &mut Vec<Step>) {
    match chance.below(3) {
        0 => steps.push(Step::LoseLog { which: chance.any(), at: chance.any() }),
        1 => steps.push(Step::LoseWithPower(chance.any())),
        _ => {}
    }
    steps.extend([Step::ReadOnly, Step::Crash { after: chance.below(24), kill: chance.one_in(2) }]);
    if chance.one_in(2) {
        steps.extend([Step::Drain, Step::Pull(chance.any())]);
    }
}

/// The log of a member cannot be read after a crash. What is read then stays when another member is lost.
fn lost_log(chance: &mut Chance, steps: &mut Vec<Step>) {
    steps.push(Step::LoseLog { which: chance.any(), at: chance.any() });
    if chance.one_in(3) {
        steps.push(Step::CrashAgain { after: chance.below(60), kill: chance.one_in(2) });
    }
    steps.push(Step::Crash { after: chance.below(24), kill: !chance.one_in(3) });
    let at = chance.below(192);
    clients_at(chance, at, steps);
    if chance.one_in(2) {
        steps.push(if chance.one_in(2) { Step::Pull(chance.any()) } else { Step::Settle });
    }
}

/// A member is replaced, or a lost one rebuilt. A drive hangs with requests in its hands, and is waited for, failed by command,
/// or left by a process that dies or loses power.
fn hang_beside_a_rebuild(chance: &mut Chance) -> Vec<Step> {
    // A drive that has lost its slot may be the next replacement.
    let mut steps = vec![Step::Settle, Step::Remove(chance.any())];
    if chance.one_in(2) {
        steps.push(Step::Speed(chance.pick(&[64, 4096])));
    }
    match chance.below(4) {
        0 => steps.extend([Step::Fail(chance.any()), Step::AddSpare(chance.any())]),
        _ => steps.push(Step::Replace(chance.any())),
    }
    let at = chance.below(192);
    let clients = |chance: &mut Chance, steps: &mut Vec<Step>| {
        for _ in 0..chance.below(8) {
            let (at, sectors) = (at + chance.below(64), 1 + chance.below(16));
            steps.push(match chance.below(8) {
                0 | 1 => Step::Read { at, sectors },
                2 => Step::Flush,
                _ => Step::Write { at, sectors, fua: chance.one_in(8) },
            });
        }
    };
    clients(chance, &mut steps);
    let who = match chance.below(6) {
        0..=2 => Hanging::Source,
        3 | 4 => Hanging::Other(chance.any()),
        _ => Hanging::Filled,
    };
    let eighths = chance.pick(&[0, 2, 4, 6, 8, 8, 8, 8]);
    let pause = chance.pick(&[3_000_000_000, 30_000_000_000, 200_000_000_000]);
    steps.push(Step::Hang { who, eighths, pause, keeps: chance.one_in(2) });
    clients(chance, &mut steps);
    let crash = |chance: &mut Chance, kill| Step::Crash { after: chance.below(40), kill };
    match chance.below(8) {
        0 | 1 => {}
        2 => steps.push(Step::FailHanging),
        3 => steps.push(crash(chance, true)),
        4 => steps.push(crash(chance, false)),
        5 => {
            let kill = chance.one_in(2);
            steps.extend([Step::FailHanging, crash(chance, kill)]);
        }
        6 => steps.extend([Step::Fail(chance.any()), Step::FailHanging]),
        _ => steps.extend([Step::Pause(1_500_000_000), Step::FailHanging, Step::Flush]),
    }
    clients(chance, &mut steps);
    steps.extend((0..4).map(|part| Step::Read { at: at + 16 * part, sectors: 16 }));
    steps.extend([Step::Speed(u64::MAX), Step::Return(chance.any())]);
    clients(chance, &mut steps);
    steps
}

/// Small writes, a crash amid them, and events during the start after it.
fn troubled_start(chance: &mut Chance) -> Vec<Step> {
    let at = chance.below(192);
    let mut steps = Vec::new();
    let write = |chance: &mut Chance, steps: &mut Vec<Step>| {
        let sectors = 1 + chance.below(8);
        steps.push(Step::Write { at: at + chance.below(64), sectors, fua: chance.one_in(8) });
    };
    let reads = |steps: &mut Vec<Step>| steps.extend((0..4).map(|part| Step::Read { at: at + 16 * part, sectors: 16 }));
    let shape = chance.below(5);
    if shape == 4 {
        steps.extend([Step::Fail(chance.any()), Step::Flush, Step::Drain]);
    }
    for _ in 0..2 + chance.below(5) {
        write(chance, &mut steps);
    }
    let crash = Step::Crash { after: chance.below(40), kill: chance.one_in(2) };
    let power_cut = |chance: &mut Chance, after_max: u64| Step::Crash { after: chance.below(after_max), kill: false };
    match shape {
        // A member is failed while the log is replayed, and the power fails.
        0 => steps.extend([crash, Step::Fail(chance.any()), power_cut(chance, 40)]),
        // A start without a member is cut short.
        1 => {
            let again = Step::CrashAgain { after: chance.below(60), kill: chance.one_in(3) };
            steps.extend([Step::LoseWithPower(chance.any()), again, power_cut(chance, 40)]);
        }
        // A member is failed and unplugged while writes are in flight, and the process dies.
        2 => steps.extend([Step::Unplug(chance.any()), Step::Crash { after: chance.below(24), kill: true }]),
        // Data that was read after a crash stays the same when the next crash takes a member.
        3 => {
            steps.push(crash);
            reads(&mut steps);
            steps.extend([Step::Flush, Step::LoseWithPower(chance.any()), power_cut(chance, 12)]);
        }
        // A second member of a degraded array fails writes, and the power fails before that is recorded.
        _ => {
            steps.push(Step::FailWrite(chance.any()));
            write(chance, &mut steps);
            write(chance, &mut steps);
            steps.extend([power_cut(chance, 16), Step::Pause(1_500_000_000)]);
        }
    }
    reads(&mut steps);
    // Sectors that may be old or new are read by redundancy alone.
    steps.push(Step::Pull(chance.any()));
    reads(&mut steps);
    steps
}
