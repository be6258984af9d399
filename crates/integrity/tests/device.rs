//! Goal: no corrupt byte is served, and no correct byte is refused, whatever happens in between.
//! Method: random requests that overlap in time, on a RAM drive that answers late and out of order. The drive's memory is
//! corrupted, or copied at any moment, as in a power cut.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stria_block::*;
use stria_chance::Chance;
use stria_integrity::*;

#[path = "device/beside_writes.rs"]
mod beside_writes;
#[path = "device/few_pages.rs"]
mod few_pages;
#[path = "device/flushes.rs"]
mod flushes;
#[path = "device/sparse.rs"]
mod sparse;

const DATA: std::ops::Range<u64> = 64..64 + 1500 * BLOCK_SECTORS;

/// A RAM drive with two handles: requests run late and out of order, and end later still.
#[derive(Clone)]
struct Drive(Rc<RefCell<Late>>, Limits);

struct Late {
    ram: RamDevice,
    to_do: Vec<(Nanos, Request)>,
    to_tell: Vec<(Nanos, Completion)>,
    chance: Chance,
    now: Nanos,
    /// Writes to the region's headers end without being executed.
    forgets_headers: bool,
    /// Writes to the region's headers execute so many bytes, and fail.
    cuts_headers: Option<usize>,
    /// The next flush fails.
    fails_flush: bool,
    /// A write to the data shows in the first sector of each block as soon as it is submitted, and in the rest later.
    tears: bool,
}

impl Drive {
    fn new(memory: Option<&[u8]>, seed: u64) -> Self {
        let sectors = Region::behind(DATA).end_sector();
        let mut ram = RamDevice::new(sectors);
        if let Some(memory) = memory {
            ram.memory_mut().copy_from_slice(memory);
        } else {
            ram.memory_mut().fill(0x5a);
            let header = Header::new(&Region::behind(DATA), [[1; 16], [2; 16]], seed);
            let at = bytes(Region::behind(DATA).start_sector);
            ram.memory_mut()[at..at + 4096].copy_from_slice(&header.encode());
        }
        let limits = ram.limits().clone();
        let late = Late {
            ram,
            to_do: Vec::new(),
            to_tell: Vec::new(),
            chance: Chance::from_state(seed),
            now: 0,
            forgets_headers: false,
            cuts_headers: None,
            fails_flush: false,
            tears: false,
        };

        Self(Rc::new(RefCell::new(late)), limits)
    }

    fn memory(&self) -> Vec<u8> {
        self.0.borrow().ram.memory().to_vec()
    }

    fn header(&self) -> Header {
        let at = bytes(Region::behind(DATA).start_sector);
        Header::choose(&self.memory()[at..at + 8192], |_| true).expect("there is one")
    }

    fn spoil(&self, block: u64, at: usize) {
        self.0.borrow_mut().ram.memory_mut()[bytes(DATA.start + block * BLOCK_SECTORS) + at] ^= 4;
    }
}

impl BlockDevice for Drive {
    fn limits(&self) -> &Limits {
        &self.1
    }
    fn submit(&mut self, request: Request) {
        let late = &mut *self.0.borrow_mut();
        if let (true, Operation::Write { from, .. }) = (late.tears && DATA.contains(&request.start_sector), &request.operation) {
            let new = from.iter().flat_map(|data| data.iter().copied()).collect::<Vec<u8>>();
            let old = &mut late.ram.memory_mut()[bytes(request.start_sector)..][..new.len()];
            old.chunks_mut(4096).zip(new.chunks(4096)).for_each(|(old, new)| old[..512].copy_from_slice(&new[..512]));
        }
        late.to_do.push((late.now + 1 + late.chance.below(100_000), request));
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let late = &mut *self.0.borrow_mut();
        let Late { ram, to_do, to_tell, chance, now: known, forgets_headers, cuts_headers, fails_flush, .. } = late;
        *known = now;
        to_do.sort_by_key(|(due, _)| *due);
        let ripe = to_do.partition_point(|(due, _)| *due <= now);
        let mut done = Vec::new();
        let head = Region::behind(DATA).start_sector;
        for (_, request) in to_do.drain(..ripe) {
            let is_header = (head..head + HEADERS_SECTORS).contains(&request.start_sector);
            let Operation::Write { from, .. } = &request.operation else {
                match matches!(request.operation, Operation::Flush) && std::mem::take(fails_flush) {
                    true => done.push(request.complete(Err(IoError::new(ErrorKind::Other, "the cache is lost")))),
                    false => ram.submit(request),
                }
                continue;
            };
            if is_header && *forgets_headers {
                done.push(request.complete(Ok(())));
            } else if let (true, Some(cut)) = (is_header, *cuts_headers) {
                ram.memory_mut()[bytes(request.start_sector)..][..cut].copy_from_slice(&from[0][..cut]);
                done.push(request.complete(Err(IoError::new(ErrorKind::Medium, "cut short"))));
            } else {
                ram.submit(request);
            }
        }
        ram.poll(now, &mut done);
        to_tell.extend(done.into_iter().map(|completion| (now + chance.below(100_000), completion)));
        to_tell.sort_by_key(|(due, _)| *due);
        let ripe = to_tell.partition_point(|(due, _)| *due <= now);
        completions.extend(to_tell.drain(..ripe).map(|(_, completion)| completion));
    }
    fn next_wake(&self) -> Option<Nanos> {
        let late = self.0.borrow();
        let told = late.to_tell.iter().map(|(due, _)| *due);
        late.to_do.iter().map(|(due, _)| *due).chain(told).chain(late.ram.next_wake()).min()
    }
}

struct World {
    drive: Drive,
    device: IntegrityDevice<Drive>,
    now: Nanos,
    ended: Vec<Completion>,
    next_tag: Tag,
    chance: Chance,
}

impl World {
    fn open(drive: Drive, seed: u64) -> Self {
        let header = drive.header();
        Self::open_with(drive, header, seed)
    }

    fn open_with(drive: Drive, header: Header, seed: u64) -> Self {
        let device = IntegrityDevice::new(drive.clone(), "d0", header, false);
        Self { drive, device, now: 1, ended: Vec::new(), next_tag: 0, chance: Chance::from_state(seed) }
    }

    fn submit(&mut self, block: u64, count: u64, operation: Operation) -> Tag {
        self.next_tag += 1;
        let (start_sector, sectors) = (DATA.start + block * BLOCK_SECTORS, count * BLOCK_SECTORS);
        self.device.submit(Request { tag: self.next_tag, start_sector, sectors, operation });
        self.next_tag
    }

    fn step(&mut self) {
        self.device.poll(self.now, &mut self.ended);
        self.now = self.device.next_wake().unwrap_or(self.now + 1_000_000_000).max(self.now);
    }

    fn wait(&mut self, tag: Tag) -> Completion {
        for _ in 0..100_000 {
            if let Some(at) = self.ended.iter().position(|completion| completion.tag == tag) {
                return self.ended.swap_remove(at);
            }
            self.step();
        }
        panic!("request {tag} takes for ever");
    }

    fn read_operation(count: u64) -> Operation {
        Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(count * BLOCK_SECTORS))).collect() }
    }

    fn read(&mut self, block: u64, count: u64) -> Result<(), IoError> {
        let tag = self.submit(block, count, Self::read_operation(count));
        self.wait(tag).result
    }

    /// A change of any kind, sometimes with its memory in pieces that are not whole blocks.
    fn change(&mut self, block: u64, count: u64) -> Tag {
        let operation = match self.chance.below(8) {
            0 | 1 => Operation::WriteZeroes { fua: false, unmap: true, fast: false },
            _ => {
                let mut buffer = Buffer::zeroed(bytes(count * BLOCK_SECTORS));
                buffer.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.chance.any().to_le_bytes()));
                let data = buffer.freeze();
                let cut = bytes(1 + self.chance.below(count * BLOCK_SECTORS - 1));
                let from = [data.slice(0, cut), data.slice(cut, data.len() - cut)].into_iter().collect();
                Operation::Write { from, fua: self.chance.below(4) == 0 }
            }
        };
        self.submit(block, count, operation)
    }

    /// Requests that overlap in time and place; every one must succeed.
    fn traffic(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let count = 1 + self.chance.below(12);
            let tags: Vec<Tag> = (0..count)
                .map(|_| {
                    // Near each other, across the border of two checksum pages.
                    let block = 1000 + self.chance.below(60);
                    let count = 1 + self.chance.below(16);
                    match self.chance.below(2) {
                        0 => self.change(block, count),
                        _ => self.submit(block, count, Self::read_operation(count)),
                    }
                })
                .collect();
            for tag in tags {
                self.wait(tag).result.expect("right bytes are not refused");
            }
        }
    }

    fn close(&mut self) {
        self.device.close();
        for _ in 0..10_000 {
            if let Some(result) = self.device.closed() {
                return result.expect("RAM does not fail");
            }
            self.step();
        }
        panic!("the close takes for ever");
    }

    /// Blocks that are refused, reading each by itself.
    fn refused(&mut self, blocks: std::ops::Range<u64>) -> Vec<u64> {
        blocks.filter(|&block| self.read(block, 1).is_err()).collect()
    }
}

#[test]
fn what_overlaps_in_time_is_never_refused_and_what_rots_always_is() {
    for seed in 0..30 {
        let mut world = World::open(Drive::new(None, seed), seed);
        world.traffic(40);
        assert_eq!(world.refused(990..1080), []);
        let victims: Vec<u64> = (0..5).map(|turn| 1000 + turn * 11 + world.chance.below(11)).collect();
        for &block in &victims {
            let at = world.chance.below(4096) as usize;
            world.drive.spoil(block, at);
        }
        assert_eq!(world.refused(990..1080), victims, "seed {seed}");
        let error = world.read(990, 80).expect_err("a larger request meets them too");
        assert_eq!(error.kind, ErrorKind::Medium);
        let sector = DATA.start + victims[0] * BLOCK_SECTORS;
        assert!(error.context.contains(&format!("d0: the bytes at sector {sector} ")), "{error}");
        for &block in &victims {
            world.change(block, 1);
        }
        assert_eq!(world.refused(990..1080), [], "what is written anew is right");
    }
}

#[test]
fn sums_outlive_a_close_and_are_dropped_when_somebody_else_wrote() {
    let mut world = World::open(Drive::new(None, 1), 1);
    world.traffic(20);
    assert_eq!(world.refused(990..1080), []);
    world.close();
    world.drive.spoil(1010, 0);
    let mut again = World::open(Drive::new(Some(&world.drive.memory()), 2), 2);
    assert_eq!(again.refused(990..1080), [1010]);
    assert_eq!(again.device.counts().learned, 0, "all was known");
    let drive = Drive::new(Some(&world.drive.memory()), 3);
    let void = drive.header().void();
    let mut elsewhere = World::open_with(drive, void, 3);
    assert_eq!(elsewhere.refused(990..1080), [], "what nobody knows is learned");
    elsewhere.close();
    let mut later = World::open(Drive::new(Some(&elsewhere.drive.memory()), 4), 4);
    later.drive.spoil(1011, 9);
    assert_eq!(later.refused(990..1080), [1011]);
}

/// The memory of the drive is copied at every step of a history and opened. Counts how often correct bytes are refused.
fn crash_everywhere(seed: u64, forgets_headers: bool) -> (Vec<u64>, usize) {
    let mut world = World::open(Drive::new(None, seed), seed);
    world.drive.0.borrow_mut().forgets_headers = forgets_headers;
    world.traffic(3);
    world.now += 10_000_000_000;
    let (mut refused, mut crashes) = (Vec::new(), 0);
    let mut crash = |world: &World, blocks| {
        crashes += 1;
        refused.extend(World::open(Drive::new(Some(&world.drive.memory()), seed), seed).refused(blocks));
    };
    for _ in 0..30 {
        let (block, count) = (1000 + world.chance.below(60), 1 + world.chance.below(16));
        let tag = world.change(block, count);
        while !world.ended.iter().any(|completion| completion.tag == tag) {
            world.step();
            crash(&world, 995..1080);
        }
        // Sometimes long enough for checksums to be written back and groups to become clean.
        if world.chance.below(3) == 0 {
            let until = world.now + 8_000_000_000;
            while world.now < until {
                world.step();
                crash(&world, 1018..1022);
            }
        }
    }
    (refused, crashes)
}

#[test]
fn a_crash_at_any_moment_refuses_nothing_that_is_right() {
    for seed in 0..3 {
        let (refused, crashes) = crash_everywhere(seed, false);
        assert!(crashes >= 30, "there were crashes: {crashes}");
        assert_eq!(refused, [], "seed {seed}");
    }
}

/// The same, where a fault must show: if groups were not dirty before they are written, older checksums would be trusted.
#[test]
fn a_head_that_is_not_written_first_is_found() {
    assert_ne!((0..3).flat_map(|seed| crash_everywhere(seed, true).0).count(), 0);
}

/// After a failed write of a header the next one went to the slot of the only valid header.
#[test]
fn a_header_that_is_cut_short_after_another_leaves_the_last_durable_one() {
    let cuts = (0..=4096).step_by(512).chain([17, 130, 4090]);
    for (first, second) in cuts.clone().flat_map(|first| cuts.clone().map(move |second| (first, second))) {
        let mut world = World::open(Drive::new(None, 7), 7);
        let tag = world.change(0, 2);
        world.wait(tag).result.expect("all is well");
        let durable = world.drive.header();
        // A write to the other group needs a header.
        for cut in [first, second] {
            world.drive.0.borrow_mut().cuts_headers = Some(cut);
            let tag = world.change(1100, 2);
            world.wait(tag).result.expect_err("its header fails");
            let found = world.drive.header();
            assert!(found.sequence >= durable.sequence, "cut after {first} and {second} bytes: {found:?}");
        }
        world.drive.0.borrow_mut().cuts_headers = None;
        let tag = world.change(1100, 2);
        world.wait(tag).result.expect("the drive works again");
        assert_eq!(world.drive.header().sequence, durable.sequence + 1);
        assert!(world.drive.header().trusted_from.iter().all(|&session| session > durable.session), "both groups are dirty");
    }
}

#[test]
fn sums_that_have_settled_outlive_a_crash_too() {
    let mut world = World::open(Drive::new(None, 5), 5);
    let tag = world.submit(7, 9, Operation::WriteZeroes { fua: false, unmap: true, fast: false });
    world.wait(tag).result.expect("RAM does not fail");
    let crashed = |world: &World| World::open(Drive::new(Some(&world.drive.memory()), 6), 6);
    let mut early = crashed(&world);
    early.drive.spoil(8, 0);
    assert_eq!(early.refused(7..16), [], "it was written just now: nobody can tell");
    let until = world.now + 10_000_000_000;
    while world.now < until {
        world.step();
    }
    let mut late = crashed(&world);
    late.drive.spoil(8, 0);
    assert_eq!(late.refused(7..16), [8]);
}

/// Requests beside the data pass unchanged; a failed write makes checksums unknown; the checksum table may be corrupted as
/// well.
#[test]
fn faults_around_the_data_harm_nobody() {
    let drive = Drive::new(None, 8);
    let plan = Rc::<RefCell<FaultPlan>>::default();
    let faulty = FaultDevice::new(drive.clone(), Rc::clone(&plan));
    let mut device = IntegrityDevice::new(faulty, "d0", drive.header(), false);
    let (mut now, mut ended) = (1, Vec::new());
    let mut run = |start_sector, sectors, operation| {
        device.submit(Request { tag: 1, start_sector, sectors, operation });
        while ended.is_empty() {
            now += 1_000;
            device.poll(now, &mut ended);
        }
        let Completion { result, .. } = ended.remove(0);
        result
    };
    let write =
        |sectors| Operation::Write { from: std::iter::once(Buffer::zeroed(bytes(sectors)).freeze()).collect(), fua: false };
    let read = |sectors| Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() };
    run(3, 5, write(5)).expect("beside the data any sector may be written");
    assert_eq!(run(DATA.start + 1, 8, read(8)).expect_err("not whole blocks").kind, ErrorKind::Invalid);
    assert_eq!(run(DATA.start - 8, 16, read(16)).expect_err("half outside").kind, ErrorKind::Invalid);
    run(DATA.start, 64, write(64)).expect("RAM does not fail");
    plan.borrow_mut().bad.push((DATA.start..DATA.start + 8, FaultKind::Write));
    run(DATA.start, 16, write(16)).expect_err("the drive refuses");
    plan.borrow_mut().bad.clear();
    drive.spoil(0, 0);
    run(DATA.start, 64, read(64)).expect("what the write left is what is right");
    // The header cannot be written: no write may start.
    let region = Region::behind(DATA);
    let other_group = DATA.start + 1400 * BLOCK_SECTORS;
    plan.borrow_mut().bad.push((region.start_sector..region.start_sector + 16, FaultKind::ReadWrite));
    let before = drive.memory();
    run(other_group, 8, write(8)).expect_err("the header says nothing of it");
    assert!(before == drive.memory());
    plan.borrow_mut().bad.clear();
    run(other_group, 8, write(8)).expect("it is tried anew");
}

/// Compared with a map of the readable blocks, with many pages and a corrupted table.
#[test]
fn a_spoiled_page_of_sums_knows_nothing_and_refuses_nothing() {
    let mut world = World::open(Drive::new(None, 9), 9);
    world.traffic(10);
    assert_eq!(world.refused(990..1080), []);
    world.close();
    let region = Region::behind(DATA);
    let mut memory = world.drive.memory();
    memory[bytes(region.start_sector + 16) + 100] ^= 1;
    let mut again = World::open(Drive::new(Some(&memory), 9), 9);
    let counted: BTreeMap<u64, bool> = (990..1080).map(|block| (block, again.read(block, 1).is_ok())).collect();
    assert!(counted.values().all(|&fine| fine));
    let counts = again.device.counts();
    assert_eq!((counts.learned, counts.verified, counts.wrong), (1020 - 990, 1080 - 1020, 0), "one page of two was lost");
}
