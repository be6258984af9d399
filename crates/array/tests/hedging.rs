//! Hedged reads: other members answer the reads of clients that one member has left unanswered for far longer than usual.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use stria_array::{ArrayConfig, ArrayDevice, Command, Geometry, Level, MemberId, MemberStatus, NoMetadata, Ports};
use stria_block::{BlockDevice, Buffer, Completion, Limits, Nanos, Operation, Request, bytes};
use support::SharedRam;

const MS: Nanos = 1_000_000;

/// Answers 100 µs after a request came, but not before `until`.
struct Late {
    ram: SharedRam,
    until: Rc<Cell<Nanos>>,
    now: Nanos,
    waiting: Vec<(Nanos, Request)>,
}

impl BlockDevice for Late {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }
    fn submit(&mut self, request: Request) {
        self.waiting.push(((self.now + MS / 10).max(self.until.get()), request));
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        let due = self.waiting.extract_if(.., |(due, _)| *due <= now);
        due.for_each(|(_, request)| self.ram.submit(request));
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.waiting.iter().map(|(due, _)| *due).min()
    }
}

struct World {
    /// The lane on which requests come in, and the other lanes.
    array: ArrayDevice<NoMetadata>,
    others: Vec<ArrayDevice<NoMetadata>>,
    until: Vec<Rc<Cell<Nanos>>>,
    now: Nanos,
    tags: u64,
    capacity: u64,
}

impl World {
    /// An array whose sectors hold their number, and whose members have shown their usual latency.
    fn new(level: Level, members: usize) -> Self {
        Self::on_lanes(level, members, 1)
    }

    /// Requests come in on the last lane.
    fn on_lanes(level: Level, members: usize, lane_count: usize) -> Self {
        let mut world = Self::never_read(level, members, lane_count);
        (0..world.capacity).for_each(|sector| assert!(world.read(sector, 1) < MS));
        assert_eq!(world.hedged(), 0);
        world
    }

    /// Nobody knows the usual latency of its members yet.
    fn never_read(level: Level, members: usize, lane_count: usize) -> Self {
        let geometry = Geometry::new(level, level.default_layout(), 16, &vec![1024; members]).unwrap();
        let capacity = geometry.capacity_sectors();
        let until: Vec<Rc<Cell<Nanos>>> = (0..members).map(|_| Rc::default()).collect();
        let rams: Vec<SharedRam> = (0..members).map(|_| SharedRam::new(1024)).collect();
        let devices = || {
            let late = |(until, ram): (&Rc<Cell<Nanos>>, &SharedRam)| Late {
                ram: ram.clone(),
                until: Rc::clone(until),
                now: 0,
                waiting: Vec::new(),
            };
            until.iter().zip(&rams).map(|late_ram| Box::new(late(late_ram)) as Box<dyn BlockDevice>).collect()
        };
        let (config, ports) = (ArrayConfig::optimal("test", geometry), Ports::new(lane_count).with_groups(16));
        let lane = |lane| ArrayDevice::on_lane(&config, devices(), (lane == 0).then_some(NoMetadata), 0, &ports, lane);
        let mut others: Vec<_> = (0..lane_count).map(lane).collect();
        let array = others.pop().expect("there is one");
        let mut world = Self { array, others, until, now: 0, tags: 0, capacity };
        for sector in 0..capacity {
            let mut buffer = Buffer::zeroed(512);
            buffer[..8].copy_from_slice(&sector.to_le_bytes());
            world.run(sector, 1, Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua: false });
        }
        world
    }

    fn run(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> (Nanos, Operation) {
        self.tags += 1;
        self.array.submit(Request { tag: self.tags, start_sector, sectors, operation });
        let begun = self.now;
        let mut ended = Vec::new();
        loop {
            self.poll(&mut ended);
            if let Some(completion) = ended.pop() {
                completion.result.unwrap();
                return (self.now - begun, completion.operation);
            }
            self.now = self.now.max(self.next_wake().expect("it ends"));
        }
    }

    fn poll(&mut self, ended: &mut Vec<Completion>) {
        self.others.iter_mut().chain([&mut self.array]).for_each(|lane| lane.poll(self.now, ended));
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.lanes().filter_map(ArrayDevice::next_wake).min()
    }

    fn lanes(&self) -> impl Iterator<Item = &ArrayDevice<NoMetadata>> {
        self.others.iter().chain([&self.array])
    }

    /// The sum of a count over a member's parts on all lanes.
    fn sum(&self, of: impl Fn(&MemberStatus) -> u64) -> Vec<u64> {
        let on_lane = |lane: &ArrayDevice<NoMetadata>| lane.status().members.iter().map(&of).collect::<Vec<_>>();
        let lanes: Vec<_> = self.lanes().map(on_lane).collect();
        (0..self.until.len()).map(|member| lanes.iter().map(|lane| lane[member]).sum()).collect()
    }

    /// Reads, and checks the data. Returns how long that took.
    fn read(&mut self, start: u64, sectors: u64) -> Nanos {
        let into = std::iter::once(Buffer::zeroed(bytes(sectors))).collect();
        let (time, operation) = self.run(start, sectors, Operation::Read { into });
        let Operation::Read { into } = operation else { panic!("a read comes back as a read") };
        assert_eq!(into.len(), 1, "one piece comes back as one piece");
        let read: Vec<u8> = into.iter().flat_map(|buffer| buffer.to_vec()).collect();
        assert_eq!(read.len(), bytes(sectors));
        for (sector, bytes) in (start..).zip(read.chunks(512)) {
            assert_eq!(u64::from_le_bytes(bytes[..8].try_into().unwrap()), sector);
        }
        time
    }

    /// Reads all of these at once, and checks the data. Returns how long the last one took.
    fn read_together(&mut self, reads: &[(u64, u64)]) -> Nanos {
        let begun = self.now;
        for (tag, &(start_sector, sectors)) in (1 << 40..).zip(reads) {
            let operation = Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() };
            self.array.submit(Request { tag, start_sector, sectors, operation });
        }
        let (mut ended, mut open) = (Vec::new(), reads.len());
        loop {
            self.poll(&mut ended);
            for Completion { tag, result, operation, .. } in ended.drain(..) {
                result.unwrap();
                let Operation::Read { into } = operation else { panic!("a read comes back as a read") };
                let read: Vec<u8> = into.iter().flat_map(|buffer| buffer.to_vec()).collect();
                for (sector, bytes) in (reads[(tag - (1 << 40)) as usize].0..).zip(read.chunks(512)) {
                    assert_eq!(u64::from_le_bytes(bytes[..8].try_into().unwrap()), sector);
                }
                open -= 1;
            }
            if open == 0 {
                return self.now - begun;
            }
            self.now = self.now.max(self.next_wake().expect("they end"));
        }
    }

    fn hedged(&self) -> u64 {
        self.sum(|member| member.hedged_count).iter().sum()
    }

    /// Lets all requests end.
    fn settle(&mut self) {
        while let Some(wake) = self.next_wake() {
            self.now = self.now.max(wake);
            self.poll(&mut Vec::new());
        }
    }
}

#[test]
fn others_answer_for_a_member_that_does_not() {
    let arrays =
        [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)];
    for ((level, members), lane_count) in arrays.into_iter().flat_map(|array| [1, 2].map(|lane_count| (array, lane_count))) {
        let mut world = World::on_lanes(level, members, lane_count);
        for sectors in [1, 16, 40] {
            let (before, mut total, mut count) = (world.hedged(), 0, 0);
            world.until[1].set(world.now + 60_000 * MS);
            let mut sector = 3;
            // Reads of this member, one after the other: once it is unresponsive, they go to the others at once.
            while sector + sectors <= world.capacity {
                let time = world.read(sector, sectors);
                assert!(time < 20 * MS, "{level} of {members}: {sectors} sectors took {} ms", time / MS);
                (total, count) = (total + time, count + 1);
                sector += 16;
            }
            let slow = world.sum(|member| member.hedged_count)[1];
            assert!(slow > before && slow == world.hedged(), "{level} of {members}: {:?}", world.array.status());
            assert!(total / count < MS, "{level} of {members}: {} us each", total / count / 1000);
            // It got some requests before that was clear, and none since.
            let waiting = world.sum(|member| member.in_flight as u64)[1];
            assert!((1..=8 * lane_count as u64).contains(&waiting), "{level} of {members}: {waiting} wait for it");
            world.until[1].set(0);
            world.settle();
            assert!(world.sum(|member| member.in_flight as u64).iter().all(|&waiting| waiting == 0), "{level}");
        }
    }
}

/// Before, a member that hung before its first reads had ended was waited for, for ever.
#[test]
fn others_answer_for_a_member_that_never_answered() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for lane_count in [1, 2] {
            let mut world = World::never_read(level, members, lane_count);
            world.until[1].set(world.now + 60_000 * MS);
            let times: Vec<Nanos> = (0..world.capacity).step_by(16).map(|sector| world.read(sector, 8)).collect();
            let longest = times.iter().max().expect("some") / MS;
            assert!((1000..1500).contains(&longest), "{level} of {members}: {longest} ms");
            // Then it counts as unresponsive.
            let slow = times.iter().filter(|&&time| time > MS).count();
            assert!(slow <= 8 * lane_count, "{level} of {members}: {slow} of {}", times.len());
        }
    }
}

/// Before, of two that fell silent at once each was asked to answer for the other, and nobody was asked after that.
#[test]
fn others_answer_for_members_that_fall_silent_together() {
    let arrays = [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid6, 4), (Level::Raid6, 5), (Level::Raid6, 8)];
    for ((level, members), lane_count) in arrays.into_iter().flat_map(|array| [1, 2].map(|lane_count| (array, lane_count))) {
        for is_known in [true, false] {
            let new = if is_known { World::on_lanes } else { World::never_read };
            let mut world = new(level, members, lane_count);
            [1, 2].into_iter().for_each(|member| world.until[member].set(world.now + 60_000 * MS));
            let of_all = world.read_together(&[(0, world.capacity)]) / MS;
            let reads: Vec<_> = (0..world.capacity / 8).map(|index| (index * 8, 8)).collect();
            let of_each = world.read_together(&reads) / MS;
            let limit = if is_known { 60 } else { 6000 };
            assert!(of_all < limit && of_each < limit, "{level} of {members}, {is_known}: {of_all} ms, {of_each} ms");
            world.until.iter().for_each(|until| until.set(0));
            world.settle();
            assert!(world.sum(|member| member.in_flight as u64).iter().all(|&waiting| waiting == 0), "{level}");
        }
    }
}

/// Before, 64 reads were asked of others, and the rest were waited for.
#[test]
fn others_answer_for_all_reads_that_a_silent_member_has() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let mut world = World::new(level, members);
        world.until[1].set(world.now + 60_000 * MS);
        let reads: Vec<_> = (0..world.capacity).chain(0..world.capacity).map(|sector| (sector, 1)).collect();
        let time = world.read_together(&reads) / MS;
        assert!(time < 60, "{level} of {members}: {time} ms for {} reads", reads.len());
        world.until[1].set(0);
        world.settle();
    }
}

/// A member that is slow all the time is waited for: the others do not take over all of its work.
#[test]
fn the_budget_holds() {
    let mut world = World::new(Level::Raid5, 4);
    let read_count = |world: &World| world.array.status().members.iter().map(|member| member.read_count).sum::<u64>();
    let (before, mut slow) = (read_count(&world), 0);
    for sector in (0..world.capacity).step_by(16).cycle().take(400) {
        // Each answer of this member takes 3 ms: slow, but not unresponsive.
        world.until[2].set(world.now + 3 * MS);
        slow += u64::from(world.read(sector, 8) >= 3 * MS);
    }
    let reads = read_count(&world) - before;
    assert!(world.hedged() > 0 && world.hedged() <= 32 + reads / 20, "{} of {reads}", world.hedged());
    assert!(slow > 0, "{} hedged of {reads}", world.hedged());
}

#[test]
fn where_nobody_else_can_answer_the_member_is_waited_for() {
    let mut world = World::new(Level::Raid0, 2);
    world.until[1].set(world.now + 700 * MS);
    assert!(world.read(16, 8) >= 700 * MS);
    // After lost members no other member is left to ask.
    let mut world = World::new(Level::Raid5, 3);
    world.array.begin(Command::Fail(MemberId(0)));
    world.settle();
    world.until[1].set(world.now + 700 * MS);
    let times: Vec<Nanos> = (0..8).map(|strip| world.read(strip * 16, 8)).collect();
    assert!(times.iter().any(|&time| time >= 500 * MS), "{times:?}");
    assert_eq!(world.hedged(), 0);
}

/// A cause that delays all members (one bus, one disk behind all of them) is not made worse by asking the others.
#[test]
fn who_stands_still_with_all_others_is_waited_for() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
        let mut world = World::new(level, members);
        let read_count = |world: &World| world.array.status().members.iter().map(|member| member.read_count).sum::<u64>();
        let (before, end) = (read_count(&world), world.now + 1000 * MS);
        world.until.iter().for_each(|until| until.set(end));
        let (mut ended, mut count) = (Vec::new(), 0);
        for moment in 0..100 {
            world.now = end - 1000 * MS + moment * 5 * MS;
            let into = std::iter::once(Buffer::zeroed(512)).collect();
            world.array.submit(Request {
                tag: 1 << 32 | moment,
                start_sector: moment * 7,
                sectors: 1,
                operation: Operation::Read { into },
            });
            count += 1;
            world.array.poll(world.now, &mut ended);
        }
        assert!(ended.is_empty(), "{level}: nobody can answer");
        world.settle();
        let reads = read_count(&world) - before;
        // Some reads were asked of two members before that was clear.
        assert!(reads <= count + 10 * members as u64, "{level}: {reads} reads of members for {count} of clients");
        // No member counts as unresponsive for it afterwards.
        world.until.iter().for_each(|until| until.set(0));
        let hedged = world.hedged();
        (0..100).for_each(|sector| assert!(world.read(sector, 1) < MS));
        assert_eq!(world.hedged(), hedged, "{level}");
    }
}

/// Before, a read of a missing strip was waited for as long as a member was silent that it had been asked of, although with two
/// parities the others can answer. Clients' reads alone showed that a member is silent.
#[test]
fn the_others_answer_for_a_missing_member_when_one_more_falls_silent() {
    for (members, lane_count) in [4, 5].into_iter().flat_map(|members| [1, 2].map(|lane_count| (members, lane_count))) {
        for is_known in [true, false] {
            let new = if is_known { World::on_lanes } else { World::never_read };
            let mut world = new(Level::Raid6, members, lane_count);
            let what = format!("{members} members on {lane_count} lanes, {is_known}");
            let coordinator = world.others.first().unwrap_or(&world.array);
            coordinator.begin(Command::Fail(MemberId(0)));
            world.settle();
            // One read at a time: some need the missing member's strip, and no other read shows that the member is silent.
            // The owners of the other lane have not read for clients yet: what is usual for its members is not known there.
            let limit = if is_known && lane_count == 1 { 20 } else { 6000 };
            for sector in (0..world.capacity).step_by(16) {
                world.until[1].set(world.now + 60_000 * MS);
                let time = world.read(sector, 8) / MS;
                assert!(time < limit, "{what}: sector {sector} took {time} ms");
                world.until[1].set(0);
                world.settle();
            }
            world.until[1].set(world.now + 60_000 * MS);
            let reads: Vec<_> = (0..world.capacity).map(|sector| (sector, 1)).collect();
            let time = world.read_together(&reads) / MS;
            assert!(time < limit.max(60), "{what}: all took {time} ms");
            // It answers again, and is read again.
            world.until[1].set(0);
            world.settle();
            assert!(world.sum(|member| member.in_flight as u64).iter().all(|&waiting| waiting == 0), "{what}");
            let reads_of_it = |world: &World| world.sum(|member| member.read_count)[1];
            let before = reads_of_it(&world);
            (0..world.capacity).for_each(|sector| assert!(world.read(sector, 1) < MS, "{what}"));
            assert!(reads_of_it(&world) > before, "{what}");
        }
    }
}

/// With one parity no other member is left to ask.
#[test]
fn a_missing_strip_waits_for_a_silent_member_that_it_needs() {
    let mut world = World::new(Level::Raid5, 4);
    world.array.begin(Command::Fail(MemberId(0)));
    world.settle();
    let times: Vec<Nanos> = (0..world.capacity)
        .step_by(16)
        .map(|sector| {
            world.until[1].set(world.now + 700 * MS);
            world.read(sector, 8)
        })
        .collect();
    assert!(times.iter().any(|&time| time >= 600 * MS) && times.iter().all(|&time| time < 710 * MS), "{times:?}");
}
