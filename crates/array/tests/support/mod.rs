//! A small world for the engine: RAM members that answer late and out of order, faults on command, virtual time, and a plain
//! array of bytes to compare with.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod nowhere;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stria_array::Synced;
use stria_array::address::SyncSpace;
use stria_array::*;
use stria_block::*;
pub use stria_chance::Chance;

/// Carries each request out at a random later time.
pub struct LateDevice<D> {
    pub inner: D,
    chance: Chance,
    now: Nanos,
    waiting: Vec<(Nanos, Request)>,
    /// While this is true, writes wait.
    holds_writes: Rc<Cell<bool>>,
}

impl<D: BlockDevice> LateDevice<D> {
    pub fn new(inner: D, seed: u64) -> Self {
        Self { inner, chance: Chance::from_state(seed), now: 0, waiting: Vec::new(), holds_writes: Rc::default() }
    }

    /// True for requests that time alone makes run.
    fn runs(&self) -> impl Fn(&Request) -> bool + use<D> {
        let holds_writes = self.holds_writes.get();
        move |request| !holds_writes || !matches!(request.operation, Operation::Write { .. })
    }
}

impl<D: BlockDevice> BlockDevice for LateDevice<D> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
    fn submit(&mut self, request: Request) {
        let due = self.now + 1 + self.chance.below(100_000);
        self.waiting.push((due, request));
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        self.waiting.sort_by_key(|(due, _)| *due);
        let runs = self.runs();
        for (_, request) in self.waiting.extract_if(.., |(due, request)| *due <= now && runs(request)) {
            self.inner.submit(request);
        }
        self.inner.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        let runs = self.runs();
        let waiting = self.waiting.iter().filter(|(_, request)| runs(request));
        waiting.map(|(due, _)| *due).chain(self.inner.next_wake()).min()
    }
}

/// A RAM disk whose bytes the test can access.
#[derive(Clone)]
pub struct SharedRam(pub Rc<RefCell<RamDevice>>, Limits);

impl SharedRam {
    pub fn new(sectors: u64) -> Self {
        let ram = RamDevice::new(sectors);
        let limits = ram.limits().clone();
        Self(Rc::new(RefCell::new(ram)), limits)
    }
}

impl BlockDevice for SharedRam {
    fn limits(&self) -> &Limits {
        &self.1
    }
    fn submit(&mut self, request: Request) {
        self.0.borrow_mut().submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.0.borrow_mut().poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.0.borrow().next_wake()
    }
}

/// It runs on RAM, which answers at once.
pub fn on_ram(config: &ArrayConfig) -> ArrayDevice<NoMetadata> {
    let ram = |slot| Box::new(RamDevice::new(config.geometry.member_sectors(slot))) as Box<dyn BlockDevice>;
    let devices = (0..config.geometry.slot_count()).map(ram).collect();
    ArrayDevice::new(config, devices, NoMetadata, 0)
}

/// Gives an array a command, and lets time pass on its lanes until it is answered.
pub fn carry_out<R: Recorder<Newcomer = ()>>(
    lanes: &mut [ArrayDevice<R>],
    now: &mut Nanos,
    ended: &mut Vec<Completion>,
    command: Command,
) -> Result<(), Refusal> {
    let id = lanes[0].begin(command);
    for _ in 0..1_000_000 {
        lanes.iter_mut().for_each(|lane| lane.poll(*now, ended));
        if let Some(answer) = lanes[0].take_answer(id) {
            return answer;
        }
        let due = lanes.iter().filter_map(ArrayDevice::next_wake).min().expect("a command ends");
        *now = due.max(*now);
    }
    panic!("a command takes for ever");
}

/// One array under test.
pub struct World {
    /// The coordinator's.
    pub array: ArrayDevice<NoMetadata>,
    pub lanes: Vec<ArrayDevice<NoMetadata>>,
    pub rams: Vec<SharedRam>,
    pub faults: Vec<Rc<RefCell<FaultPlan>>>,
    /// By lane: while this is true, its members carry out no write.
    pub holds_writes: Vec<Rc<Cell<bool>>>,
    pub model: Vec<u8>,
    pub now: Nanos,
    pub chance: Chance,
    pub geometry: Geometry,
    /// The mismatches that the last scrub reported: first sector, length, and the wrong slot if known.
    pub mismatches: Vec<(u64, u64, Option<usize>)>,
    ended: Vec<Completion>,
    next_tag: Tag,
}

impl World {
    pub fn new(geometry: Geometry, spares: usize, seed: u64, intent_chunk: Option<u64>) -> Self {
        let intent = intent_chunk.map(|chunk_sectors| IntentConfig { chunk_sectors, dirty: Vec::new() });
        Self::with(geometry, spares, seed, intent, Synced::All)
    }

    /// The array as it is found: with the bits of a bitmap, and consistent redundancy below `synced`.
    pub fn with(geometry: Geometry, spares: usize, seed: u64, intent: Option<IntentConfig>, synced: Synced<SyncSpace>) -> Self {
        Self::on_lanes(geometry, spares, seed, intent, synced, 1)
    }

    /// On so many lanes.
    pub fn on_lanes(
        geometry: Geometry,
        spares: usize,
        seed: u64,
        intent: Option<IntentConfig>,
        synced: Synced<SyncSpace>,
        lane_count: usize,
    ) -> Self {
        let sectors = geometry.member_sectors(0);
        let config = ArrayConfig {
            spares: (geometry.slot_count()..geometry.slot_count() + spares)
                .map(|id| MemberConfig::in_sync(MemberId(id), sectors))
                .collect(),
            synced,
            intent,
            ..ArrayConfig::optimal("test", geometry)
        };
        Self::of(&config, seed, lane_count)
    }

    /// An array as it is described, on members of zeros.
    pub fn of(config: &ArrayConfig, seed: u64, lane_count: usize) -> Self {
        let mut chance = Chance::from_state(seed);
        let geometry = config.geometry.clone();
        let in_slots = config.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten();
        let sizes: BTreeMap<MemberId, u64> =
            in_slots.chain(&config.spares).map(|member| (member.id, member.data_sectors)).collect();
        let rams: Vec<SharedRam> = sizes.values().map(|&sectors| SharedRam::new(sectors)).collect();
        let faults: Vec<Rc<RefCell<FaultPlan>>> = sizes.values().map(|_| Rc::default()).collect();
        let holds_writes: Vec<Rc<Cell<bool>>> = (0..lane_count).map(|_| Rc::default()).collect();
        let mut devices = |lane: usize| {
            let device = |(ram, plan): (&SharedRam, &Rc<RefCell<FaultPlan>>)| {
                let faulty = FaultDevice::new(ram.clone(), Rc::clone(plan));
                let late = LateDevice { holds_writes: Rc::clone(&holds_writes[lane]), ..LateDevice::new(faulty, chance.any()) };
                Box::new(late) as Box<dyn BlockDevice>
            };
            rams.iter().zip(&faults).map(device).collect()
        };
        // Small arrays have several groups all the same.
        let ports = Ports::new(lane_count).with_groups(8);
        let lane = |lane| ArrayDevice::on_lane(config, devices(lane), (lane == 0).then_some(NoMetadata), 0, &ports, lane);
        let lanes: Vec<_> = (0..lane_count).map(lane).collect();
        let array = lanes[0].clone();
        let model = vec![0; bytes(geometry.capacity_sectors())];
        let (mismatches, ended) = (Vec::new(), Vec::new());
        Self { array, lanes, rams, faults, holds_writes, model, now: 0, chance, geometry, mismatches, ended, next_tag: 0 }
    }

    /// The status of all lanes together.
    pub fn status(&self) -> ArrayStatus {
        ArrayStatus::joined(self.lanes.iter().map(ArrayDevice::status).collect())
    }

    pub fn submit(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Tag {
        self.next_tag += 1;
        let lane = if self.lanes.len() == 1 { 0 } else { self.chance.below(self.lanes.len() as u64) as usize };
        self.lanes[lane].submit(Request { tag: self.next_tag, start_sector, sectors, operation });
        self.next_tag
    }

    /// One step of time. `false`: nothing will happen any more by itself.
    pub fn step(&mut self) -> bool {
        for lane in &mut self.lanes {
            lane.poll(self.now, &mut self.ended);
        }
        match self.lanes.iter().filter_map(ArrayDevice::next_wake).min() {
            Some(due) => {
                self.now = self.now.max(due);
                true
            }
            None => false,
        }
    }

    pub fn wait(&mut self, tag: Tag) -> Completion {
        for _ in 0..1_000_000 {
            if let Some(index) = self.ended.iter().position(|completion| completion.tag == tag) {
                return self.ended.swap_remove(index);
            }
            let goes_on = self.step();
            let ended = self.ended.iter().any(|completion| completion.tag == tag);
            assert!(goes_on || ended, "request {tag} will never end");
        }
        panic!("request {tag} takes for ever");
    }

    /// Gives the array a command, and waits for its answer.
    pub fn carry_out(&mut self, command: Command) -> Result<(), Refusal> {
        carry_out(&mut self.lanes, &mut self.now, &mut self.ended, command)
    }

    /// Fails a member by command.
    pub fn fail(&mut self, member: usize) -> Result<(), Refusal> {
        self.carry_out(Command::Fail(MemberId(member)))
    }

    /// Runs until `condition` holds.
    pub fn run_until(&mut self, what: &str, condition: impl Fn(&ArrayStatus) -> bool) {
        for _ in 0..1_000_000 {
            if condition(&self.status()) {
                return;
            }
            let goes_on = self.step();
            assert!(goes_on || condition(&self.status()), "{what}: nothing happens any more: {:?}", self.status());
        }
        panic!("{what}: takes for ever: {:?}", self.status());
    }

    pub fn pattern(&mut self, sectors: u64) -> Buffer {
        let mut buffer = Buffer::zeroed(bytes(sectors));
        for word in buffer.chunks_mut(8) {
            word.copy_from_slice(&self.chance.any().to_le_bytes());
        }
        buffer
    }

    pub fn write(&mut self, start: u64, sectors: u64) -> Tag {
        let buffer = self.pattern(sectors);
        self.model[bytes(start)..][..bytes(sectors)].copy_from_slice(&buffer);
        let fua = self.chance.one_in(4);
        // Sometimes in two pieces of memory, which need not be whole sectors.
        let from: Segments<Data> = if sectors > 1 && self.chance.one_in(3) {
            let data = buffer.freeze();
            let cut = bytes(1 + self.chance.below(sectors - 1)) - if self.chance.one_in(4) { 200 } else { 0 };
            [data.slice(0, cut), data.slice(cut, data.len() - cut)].into_iter().collect()
        } else {
            std::iter::once(buffer.freeze()).collect()
        };
        self.submit(start, sectors, Operation::Write { from, fua })
    }

    pub fn read(&mut self, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let tag =
            self.submit(start, sectors, Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() });
        let completion = self.wait(tag);
        completion.result?;
        let Operation::Read { into } = completion.operation else { panic!("a read comes back as a read") };
        Ok(into.iter().flat_map(|buffer| buffer.to_vec()).collect())
    }

    /// Reads every sector, all at once.
    pub fn read_each(&mut self) -> Vec<u8> {
        let read = || Operation::Read { into: std::iter::once(Buffer::zeroed(512)).collect() };
        let tags: Vec<Tag> = (0..self.geometry.capacity_sectors()).map(|sector| self.submit(sector, 1, read())).collect();
        let mut found = Vec::new();
        for tag in tags {
            let completion = self.wait(tag);
            completion.result.expect("a copy is left");
            let Operation::Read { into } = completion.operation else { panic!("a read comes back as a read") };
            found.extend_from_slice(&into[0]);
        }
        found
    }

    pub fn check_all(&mut self, when: &str) {
        let mut start = 0;
        while start < self.geometry.capacity_sectors() {
            let sectors = (1 + self.chance.below(300)).min(self.geometry.capacity_sectors() - start);
            let read = self.read(start, sectors).unwrap_or_else(|error| panic!("{when}: {error}"));
            let wrong = read.iter().zip(&self.model[bytes(start)..]).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "{when}: differs in sectors {start}+{sectors}");
            start += sectors;
        }
    }

    pub fn range(&mut self) -> (u64, u64) {
        let capacity = self.geometry.capacity_sectors();
        let largest = if self.chance.one_in(4) { capacity.min(400) } else { capacity.min(12) };
        let sectors = 1 + self.chance.below(largest);
        (self.chance.below(capacity - sectors + 1), sectors)
    }

    /// Some writes at once that do not overlap, reads beside them, and zeroes and discards between.
    pub fn traffic(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let mut taken: Vec<(u64, u64)> = Vec::new();
            let mut tags = Vec::new();
            for _ in 0..1 + self.chance.below(12) {
                let (start, sectors) = self.range();
                if taken.iter().any(|&(other, count)| start < other + count && other < start + sectors) {
                    continue;
                }
                taken.push((start, sectors));
                if self.chance.one_in(8) {
                    self.model[bytes(start)..][..bytes(sectors)].fill(0);
                    let zeroes = |unmap| Operation::WriteZeroes { fua: false, unmap, fast: false };
                    let unmap = self.chance.below(3) < 2;
                    tags.push(self.submit(start, sectors, zeroes(unmap)));
                } else {
                    tags.push(self.write(start, sectors));
                }
            }
            if self.chance.one_in(3) {
                tags.push(self.submit(0, 0, Operation::Flush));
            }
            for tag in tags {
                self.wait(tag).result.expect("a write within redundancy succeeds");
            }
            for _ in 0..3 {
                let (start, sectors) = self.range();
                let read = self.read(start, sectors).expect("a read within redundancy succeeds");
                assert!(
                    read == self.model[bytes(start)..][..bytes(sectors)],
                    "{}: read of {sectors} sectors at {start} is wrong",
                    describe(&self.geometry)
                );
            }
        }
    }

    pub fn scrub(&mut self, repair: bool) -> u64 {
        self.findings_of_scrub(repair).mismatch_sectors
    }

    pub fn findings_of_scrub(&mut self, repair: bool) -> Findings {
        self.lanes.iter().for_each(|lane| drop(lane.take_events()));
        self.carry_out(Command::Scrub { repair, from_sector: 0 }).expect("nothing else runs");
        self.mismatches.clear();
        let (mut finished, mut found) = (0, Findings::default());
        for _ in 0..1_000_000 {
            self.step();
            for event in self.lanes.iter().flat_map(ArrayDevice::take_events).collect::<Vec<_>>() {
                if let Event::SweepFinished { kind: SweepKind::Scrub { .. }, found: more, .. } = event {
                    (finished, found) = (finished + 1, found + more);
                    if finished == self.lanes.len() {
                        return found;
                    }
                }
                if let Event::Mismatch { sync_sector, sectors, culprit, repaired } = event {
                    assert_eq!(repaired, repair);
                    self.mismatches.push((sync_sector.get(), sectors, culprit.map(|(_, slot)| slot)));
                }
                assert!(!matches!(event, Event::SweepStopped { .. }), "{event:?}");
            }
        }
        panic!("the scrub takes for ever");
    }

    pub fn run_until_rebuilt(&mut self) {
        let in_making = |member: &MemberStatus| matches!(member.state, MemberState::Rebuilding | MemberState::Replacing);
        let made = |status: &ArrayStatus| status.sweep.is_none() && !status.members.iter().any(in_making);
        self.run_until("rebuild", |status| status.health == Health::Optimal && made(status));
    }
}

/// Every level and layout, small, with `count` members.
pub fn geometries(count: usize, strip: u64, strips: u64) -> Vec<Geometry> {
    let equal = vec![strip * strips; count];
    let unequal: Vec<u64> = (0..count as u64).map(|index| strip * (strips - 3 * (index % 3))).collect();
    let made = |(level, layout): (Level, Layout)| {
        Geometry::new(level, layout, strip, if level.is_redundant() { &equal } else { &unequal }).ok()
    };
    Layout::of_all_levels().filter_map(made).collect()
}

/// Tries every level and layout with so many members, on the number of lanes that `lanes` gives for the count and the geometry's
/// index.
pub fn each_on(
    lanes: impl Fn(usize, usize) -> usize,
    name: &str,
    counts: std::ops::Range<usize>,
    mut test: impl FnMut(&mut World),
) {
    for count in counts {
        for (index, geometry) in geometries(count, 8, 13).into_iter().enumerate() {
            let (what, lane_count) = (describe(&geometry), lanes(count, index));
            let seed = (count * 1000 + index) as u64;
            eprintln!("{name}: {what} on {lane_count} lanes, seed {seed}");
            let intent = index.is_multiple_of(2).then(|| IntentConfig { chunk_sectors: 16, dirty: Vec::new() });
            test(&mut World::on_lanes(geometry, 2, seed, intent, Synced::All, lane_count));
        }
    }
}

/// Reads return what was written, and redundancy is consistent.
pub fn write_and_read(world: &mut World) {
    world.traffic(30);
    world.check_all("at the end");
    if world.geometry.level().is_redundant() {
        assert_eq!(world.scrub(false), 0);
    }
}

pub fn describe(geometry: &Geometry) -> String {
    format!("RAID {} {} of {}", geometry.level(), geometry.layout(), geometry.slot_count())
}
