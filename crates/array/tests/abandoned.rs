//! Goal: once a hanging member has been failed or replaced, nothing waits for it: reads, writes, flushes, sweeps and the stop end
//! without it, and its late answers harm nothing.
//! Method: one member of each level leaves everything unanswered from some moment on, with requests of all kinds under way; a
//! plain array of bytes says what reads must give.

mod support;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stria_array::{
    ArrayConfig, ArrayDevice, Command, Geometry, IntentConfig, Level, MemberConfig, MemberId, MemberState, NoMetadata, Ports,
};
use stria_block::{BlockDevice, Buffer, Completion, Limits, Nanos, Operation, Request, Tag, bytes};
use support::{Chance, SharedRam};

const MS: Nanos = 1_000_000;
const NEVER: Nanos = Nanos::MAX;

/// Answers some time after a request came, but not before `until`. It has a volatile cache, so flushes go to it.
struct Hanging {
    ram: SharedRam,
    limits: Limits,
    until: Rc<Cell<Nanos>>,
    /// Flushes are answered all the same.
    flushes: Rc<Cell<bool>>,
    now: Nanos,
    chance: Chance,
    waiting: Vec<(Nanos, Request)>,
}

impl Hanging {
    /// It does not answer a request before this.
    fn end(until: Nanos, flushes: bool, request: &Request) -> Nanos {
        if flushes && matches!(request.operation, Operation::Flush) { 0 } else { until }
    }
}

impl BlockDevice for Hanging {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        self.waiting.push((self.now + 1 + self.chance.below(MS), request));
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        let (until, flushes) = (self.until.get(), self.flushes.get());
        let due = self.waiting.extract_if(.., |(due, request)| *due <= now && Self::end(until, flushes, request) <= now);
        due.for_each(|(_, request)| self.ram.submit(request));
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        let end = |request: &Request| Self::end(self.until.get(), self.flushes.get(), request);
        let due = self.waiting.iter().map(|(due, request)| (*due).max(end(request))).min();
        due.filter(|&due| due < NEVER)
    }
}

struct World {
    lanes: Vec<ArrayDevice<NoMetadata>>,
    until: Vec<Rc<Cell<Nanos>>>,
    flushes: Rc<Cell<bool>>,
    now: Nanos,
    model: Vec<u8>,
    chance: Chance,
    open: BTreeMap<Tag, (u64, u64)>,
    next_tag: Tag,
}

impl World {
    fn new(level: Level, members: usize, spares: usize, lane_count: usize, seed: u64) -> Self {
        let geometry = Geometry::new(level, level.default_layout(), 16, &vec![512; members]).unwrap();
        let model = vec![0; bytes(geometry.capacity_sectors())];
        let until: Vec<Rc<Cell<Nanos>>> = (0..members + spares).map(|_| Rc::default()).collect();
        let flushes = Rc::new(Cell::new(false));
        let rams: Vec<SharedRam> = (0..members + spares).map(|_| SharedRam::new(512)).collect();
        let mut chance = Chance::from_state(seed);
        let mut devices = || {
            let mut hanging = |(until, ram): (&Rc<Cell<Nanos>>, &SharedRam)| Hanging {
                ram: ram.clone(),
                limits: Limits { volatile_cache: true, ..ram.limits().clone() },
                until: Rc::clone(until),
                flushes: Rc::clone(&flushes),
                now: 0,
                chance: Chance::from_state(chance.any()),
                waiting: Vec::new(),
            };
            until.iter().zip(&rams).map(|member| Box::new(hanging(member)) as Box<dyn BlockDevice>).collect()
        };
        let intent = Some(IntentConfig { chunk_sectors: 64, dirty: Vec::new() });
        let spares = (members..members + spares).map(|index| MemberConfig::in_sync(MemberId(index), 512)).collect();
        let config = ArrayConfig { intent, spares, ..ArrayConfig::optimal("test", geometry) };
        let ports = Ports::new(lane_count).with_groups(8);
        let lane = |lane| ArrayDevice::on_lane(&config, devices(), (lane == 0).then_some(NoMetadata), 0, &ports, lane);
        let lanes = (0..lane_count).map(lane).collect();
        Self { lanes, until, flushes, now: 0, model, chance, open: BTreeMap::new(), next_tag: 0 }
    }

    fn submit(&mut self, start_sector: u64, sectors: u64, operation: Operation) {
        self.next_tag += 1;
        let lane = self.chance.below(self.lanes.len() as u64) as usize;
        self.open.insert(self.next_tag, (start_sector, sectors));
        self.lanes[lane].submit(Request { tag: self.next_tag, start_sector, sectors, operation });
    }

    /// A request of any kind, in a range without another one.
    fn ask(&mut self) {
        let capacity = (self.model.len() / 512) as u64;
        let most = [1, 8, 16, 64, 200][self.chance.below(5) as usize];
        let sectors = 1 + self.chance.below(most);
        let start = self.chance.below(capacity - sectors);
        let (kind, overlaps) =
            (self.chance.below(8), |&(other, count): &(u64, u64)| other < start + sectors && start < other + count);
        if kind == 0 {
            return self.submit(0, 0, Operation::Flush);
        }
        if self.open.values().any(overlaps) {
            return;
        }
        let place = bytes(start)..bytes(start + sectors);
        match kind {
            1..4 => {
                self.submit(start, sectors, Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() })
            }
            4 => {
                self.model[place].fill(0);
                self.submit(start, sectors, Operation::WriteZeroes { fua: false, unmap: true, fast: false });
            }
            _ => {
                let mut buffer = Buffer::zeroed(bytes(sectors));
                buffer.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.chance.any().to_le_bytes()));
                self.model[place].copy_from_slice(&buffer);
                let fua = kind == 5;
                self.submit(start, sectors, Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua });
            }
        }
    }

    /// Lets time pass to the next event. `false`: nothing happens any more.
    fn step(&mut self) -> bool {
        let mut ended = Vec::new();
        self.lanes.iter_mut().for_each(|lane| lane.poll(self.now, &mut ended));
        for completion in ended {
            let (start, sectors) = self.open.remove(&completion.tag).expect("each ends once");
            completion.result.expect("what is left suffices");
            if let Operation::Read { into } = completion.operation {
                let read: Vec<u8> = into.iter().flat_map(|buffer| buffer.to_vec()).collect();
                assert!(read == self.model[bytes(start)..bytes(start + sectors)], "sectors {start} + {sectors}");
            }
        }
        let wake = self.lanes.iter().filter_map(ArrayDevice::next_wake).min();
        self.now = self.now.max(wake.unwrap_or(self.now));
        wake.is_some()
    }

    fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end && self.step() {}
        self.now = self.now.max(end);
    }

    fn check_all(&mut self) {
        self.pass(5_000 * MS);
        assert!(self.open.is_empty(), "still waiting: {:?}", self.open);
        for start in (0..(self.model.len() / 512) as u64).step_by(16) {
            self.submit(start, 16, Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(16))).collect() });
        }
        self.pass(5_000 * MS);
        assert!(self.open.is_empty());
    }

    fn carry_out(&mut self, command: Command) {
        let id = self.lanes[0].begin(command);
        self.pass(10_000 * MS);
        self.lanes[0].take_answer(id).expect("it has ended").expect("it can be done");
    }

    fn fail(&mut self, member: usize) {
        self.carry_out(Command::Fail(MemberId(member)));
    }
}

const ARRAYS: [(Level, usize); 6] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

fn each(story: impl FnMut(World, usize)) {
    each_with(0, story);
}

fn each_with(spares: usize, mut story: impl FnMut(World, usize)) {
    for seed in 0..12 {
        for (level, members) in ARRAYS {
            for lanes in [1, 3] {
                let hangs = seed as usize % members;
                eprintln!("{level:?} of {members}, {lanes} lanes, seed {seed}, member {hangs} hangs");
                let mut world = World::new(level, members, spares, lanes, seed);
                (0..40).for_each(|_| world.ask());
                world.pass(2_000 * MS);
                assert!(world.open.is_empty());
                story(world, hangs);
            }
        }
    }
}

#[test]
fn requests_end_once_the_member_that_hangs_is_failed() {
    each(|mut world, hangs| {
        world.until[hangs].set(NEVER);
        (0..60).for_each(|_| {
            world.ask();
            world.pass(MS / 20);
        });
        world.pass(10_000 * MS);
        assert!(!world.open.is_empty(), "writes and flushes wait for the member");
        world.fail(hangs);
        world.pass(10_000 * MS);
        assert!(world.open.is_empty(), "still waiting: {:?}", world.open);
        (0..60).for_each(|_| world.ask());
        world.check_all();
        // At last the drive answers, long after the array has gone on.
        world.until[hangs].set(world.now);
        world.check_all();
        let status = world.lanes[0].status();
        assert_eq!((status.in_flight, status.members[hangs].in_flight, status.members[hangs].read_errors), (0, 0, 0));
    });
}

/// R42. The drop of the first waited on other lanes for requests to the second, and they heard of the second drop with the next
/// update only, which waited for the first.
#[test]
fn requests_end_once_two_members_that_hang_are_failed() {
    let mut waited = 0;
    each(|mut world, first| {
        let members = world.until.len();
        // RAID 1 of 3 and RAID 6 of 5 survive two.
        if !matches!(members, 3 | 5) {
            return;
        }
        let second = (first + 1) % members;
        world.until[first].set(NEVER);
        (0..20).for_each(|_| world.ask());
        let begun = world.lanes[0].begin(Command::Fail(MemberId(first)));
        let soon = world.chance.below(3 * MS);
        world.pass(soon);
        world.until[second].set(NEVER);
        (0..20).for_each(|_| world.ask());
        world.pass(10_000 * MS);
        waited += usize::from(world.lanes[0].take_answer(begun).expect("it has ended").is_err());
        world.fail(second);
        world.pass(10_000 * MS);
        assert!(world.open.is_empty(), "still waiting: {:?}", world.open);
        (0..60).for_each(|_| world.ask());
        world.check_all();
    });
    assert!(waited > 5, "the first drop waits for the second member: {waited}");
}

#[test]
fn array_stops_while_a_failed_member_hangs() {
    each(|mut world, hangs| {
        world.until[hangs].set(NEVER);
        (0..30).for_each(|_| world.ask());
        world.pass(100 * MS);
        world.fail(hangs);
        world.pass(1000 * MS);
        world.carry_out(Command::Stop);
        assert!(world.lanes.iter().all(|lane| lane.with_engine(|engine| engine.is_stopped())));
        assert!(world.open.is_empty());
    });
}

#[test]
fn sweep_goes_on_or_ends_when_the_member_that_hangs_is_failed() {
    each(|mut world, hangs| {
        world.lanes[0].begin(Command::Scrub { repair: true, from_sector: 0 });
        world.pass(MS / 2);
        world.until[hangs].set(NEVER);
        world.pass(1000 * MS);
        world.fail(hangs);
        world.pass(60_000 * MS);
        assert!(world.lanes.iter().all(|lane| lane.status().sweep.is_none()), "{:?}", world.lanes[0].status());
        world.check_all();
    });
}

/// R16. The requests that a member had not answered when a replacement took its slot waited for ever, with their locks, and
/// `fail` refused the member as failed already.
#[test]
fn requests_end_once_a_replacement_has_the_slot_of_the_member_that_hangs() {
    let mut waited = 0;
    each_with(1, |mut world, hangs| {
        let (member, spare) = (MemberId(hangs), MemberId(world.until.len() - 1));
        world.lanes[0].begin(Command::Replace { member, spare });
        let mut began = vec![false; world.lanes.len()];
        // Until every lane has copied its partition, and superblocks are about to say so.
        let is_copied = (0..20_000).any(|_| {
            if world.open.len() < 8 {
                world.ask();
            }
            world.step();
            let sweeps = world.lanes.iter().map(|lane| lane.status().sweep);
            let copied = sweeps.zip(&mut began).map(|(sweep, began)| {
                *began |= sweep.is_some();
                *began && sweep.is_none_or(|sweep| sweep.done_sectors == sweep.total_sectors)
            });
            copied.fold(true, |all, copied| all & copied)
        });
        assert!(is_copied, "{:?}", world.lanes.iter().map(ArrayDevice::status).collect::<Vec<_>>());
        world.flushes.set(true);
        world.until[hangs].set(NEVER);
        assert_eq!(world.lanes[0].status().members[hangs].state, MemberState::InSync, "it still has its slot");
        (0..20).for_each(|_| world.ask());
        world.pass(10_000 * MS);
        let status = world.lanes[0].status();
        assert_eq!((status.members[hangs].state, status.members[spare.0].state), (MemberState::Failed, MemberState::InSync));
        waited += world.lanes.iter().filter(|lane| lane.status().members[hangs].in_flight > 0).count();
        assert!(world.open.is_empty(), "still waiting: {:?}", world.open);
        (0..60).for_each(|_| world.ask());
        world.check_all();
        world.until[hangs].set(world.now);
        world.check_all();
    });
    assert!(waited > 20, "the member has requests that it does not answer: {waited}");
}
