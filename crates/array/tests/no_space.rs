//! Goal: a write that a member has no space for costs nothing but itself, also while another member is missing.
//! Method: a member of a degraded parity array takes no write and keeps what it had, as on a full file system that copies what it
//! overwrites; a plain array of bytes says what reads must give.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use stria_array::{
    ArrayConfig, ArrayDevice, ArrayState, ArrayStatus, Command, Copies, Event, Geometry, IntentConfig, Layout, Level, LogConfig,
    MemberConfig, MemberId, MemberSector, MemberState, MemberStatus, MetadataWrite, NEW_DATA_SECTORS_MAX, NoMetadata, Recorder,
    Synced,
};
use stria_block::ranges::without;
use stria_block::{
    BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, RamDevice, Request, SECTOR_BYTES, bytes,
};
use support::Chance;
use support::nowhere::Nowhere;

/// A file on a file system that copies what it overwrites, and that may be full.
struct Copying {
    ram: RamDevice,
    limits: Limits,
    is_full: Rc<Cell<bool>>,
    /// There is space below this sector all the same.
    full_from: Rc<Cell<u64>>,
    /// And from this one on.
    full_until: u64,
    /// There is space for so many sectors more. What took it can be overwritten.
    left: Rc<Cell<u64>>,
    taken: BTreeSet<u64>,
    /// How long a flush takes.
    flush_ns: Rc<Cell<Nanos>>,
    now: Nanos,
    flushes: Vec<(Nanos, Request)>,
    ended: Vec<Completion>,
}

impl Copying {
    fn new(
        sectors: u64,
        has_cache: bool,
        is_full: &Rc<Cell<bool>>,
        full_from: &Rc<Cell<u64>>,
        left: &Rc<Cell<u64>>,
        flush_ns: &Rc<Cell<Nanos>>,
    ) -> Self {
        let ram = RamDevice::new(sectors);
        let limits = Limits { volatile_cache: has_cache, ..ram.limits().clone() };
        let (is_full, full_from, flush_ns) = (Rc::clone(is_full), Rc::clone(full_from), Rc::clone(flush_ns));
        let (left, taken) = (Rc::clone(left), BTreeSet::new());
        Self {
            ram,
            limits,
            is_full,
            full_from,
            full_until: u64::MAX,
            left,
            taken,
            flush_ns,
            now: 0,
            flushes: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Writes the sectors before the first that finds no space. Returns whether these are all.
    fn take(&mut self, request: &Request) -> bool {
        let Operation::Write { from, .. } = &request.operation else { return false };
        let data: Vec<u8> = from.iter().flat_map(|data| data.iter().copied()).collect();
        for (sector, bytes_of) in (request.start_sector..).zip(data.chunks(SECTOR_BYTES)) {
            if !self.taken.contains(&sector) {
                if self.left.get() == 0 {
                    return false;
                }
                self.left.update(|left| left - 1);
                self.taken.insert(sector);
            }
            self.ram.memory_mut()[bytes(sector)..][..SECTOR_BYTES].copy_from_slice(bytes_of);
        }
        true
    }
}

impl BlockDevice for Copying {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        if matches!(request.operation, Operation::Flush) && self.flush_ns.get() > 0 {
            self.flushes.push((self.now + self.flush_ns.get(), request));
            return;
        }
        let writes = matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. });
        let has_place = request.end_sector() <= self.full_from.get() || request.start_sector >= self.full_until;
        match writes && self.is_full.get() && !has_place && !self.take(&request) {
            true => self.ended.push(request.complete(Err(IoError::new(ErrorKind::NoSpace, "the file system is full")))),
            false => self.ram.submit(request),
        }
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        let due = self.flushes.extract_if(.., |(due, _)| *due <= now).map(|(_, flush)| flush.complete(Ok(())));
        completions.extend(due);
        completions.append(&mut self.ended);
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        let flush = self.flushes.iter().map(|(due, _)| *due).min();
        if self.ended.is_empty() { self.ram.next_wake().into_iter().chain(flush).min() } else { Some(0) }
    }
}

/// What superblocks and lists of bad blocks say.
#[derive(Default)]
struct Told {
    in_sync: BTreeSet<MemberId>,
    has_bad: BTreeSet<MemberId>,
    /// The members whose rows are all alike.
    copies: usize,
    /// Members that were in sync with bad blocks at some time.
    were_both: BTreeSet<MemberId>,
    /// The bad blocks that the list of each member on disk names.
    listed: BTreeMap<MemberId, Vec<Range<MemberSector>>>,
    /// Rows that the lists of all copies named at once: nothing could be read there after a crash.
    nowhere: Vec<Range<MemberSector>>,
}

impl Told {
    fn look(&mut self) {
        self.were_both.extend(self.in_sync.intersection(&self.has_bad));
    }
}

/// Stores nothing, and has no space for the list of bad blocks of one member, nor for one of more than 512 rows.
#[derive(Clone)]
struct Lists(Rc<Cell<Option<MemberId>>>, Rc<RefCell<Told>>);

impl Recorder for Lists {
    type Log = NoMetadata;
    type Newcomer = ();

    fn record_state(&mut self, state: &ArrayState, _: u64) -> Vec<MetadataWrite> {
        let members = state.slots.iter().filter_map(|slot| slot.member.as_ref());
        let mut told = self.1.borrow_mut();
        told.in_sync = members.filter(|place| place.recovered == Synced::All).map(|place| place.member).collect();
        told.look();
        Vec::new()
    }
    fn record_intent(&mut self, _: &[u64], _: &[u64]) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_bad_blocks(&mut self, member: MemberId, rows: &[Range<MemberSector>], _: u64) -> Option<Vec<MetadataWrite>> {
        let has_space = self.0.get() != Some(member) && rows.len() <= 512;
        let mut told = self.1.borrow_mut();
        if has_space {
            told.listed.insert(member, rows.to_vec());
            let lists: Vec<_> =
                (0..told.copies).map(|copy| told.listed.get(&MemberId(copy)).cloned().unwrap_or_default()).collect();
            let in_all = lists.iter().cloned().reduce(|all, list| without(&all, &without(&all, &list))).unwrap_or_default();
            told.nowhere.extend(in_all);
        }
        match rows.is_empty() {
            true if has_space => drop(told.has_bad.remove(&member)),
            true => {}
            false => drop(told.has_bad.insert(member)),
        }
        told.look();
        has_space.then(Vec::new)
    }
    fn log_layout(&self) {}
}

struct World {
    array: ArrayDevice<Lists>,
    /// The member whose list has no space.
    unlisted: Rc<Cell<Option<MemberId>>>,
    told: Rc<RefCell<Told>>,
    full: Vec<Rc<Cell<bool>>>,
    full_from: Vec<Rc<Cell<u64>>>,
    left: Vec<Rc<Cell<u64>>>,
    flush_ns: Vec<Rc<Cell<Nanos>>>,
    model: Vec<u8>,
    /// What a sector may hold instead, after writes without space that left it unreadable.
    or_else: BTreeMap<usize, Vec<Vec<u8>>>,
    now: Nanos,
    chance: Chance,
    ended: Vec<Completion>,
}

impl World {
    fn new(level: Level, members: usize, seed: u64) -> Self {
        Self::with(level, members, seed, |_| 0)
    }

    /// `change` changes the configuration, and returns the number of further members that it names.
    fn with(level: Level, members: usize, seed: u64, change: impl FnOnce(&mut ArrayConfig) -> usize) -> Self {
        Self::of(level, level.default_layout(), (members, 512), false, seed, change)
    }

    fn of(
        level: Level,
        layout: Layout,
        (members, member_sectors): (usize, u64),
        have_caches: bool,
        seed: u64,
        change: impl FnOnce(&mut ArrayConfig) -> usize,
    ) -> Self {
        let geometry = Geometry::new(level, layout, 16, &vec![member_sectors; members]).expect("good");
        let model = vec![0; bytes(geometry.capacity_sectors())];
        let intent = Some(IntentConfig { chunk_sectors: 64, dirty: Vec::new() });
        let mut config = ArrayConfig { intent, ..ArrayConfig::optimal("test", geometry) };
        let members = members + change(&mut config);
        let full: Vec<Rc<Cell<bool>>> = (0..members).map(|_| Rc::default()).collect();
        let full_from: Vec<Rc<Cell<u64>>> = (0..members).map(|_| Rc::default()).collect();
        let left: Vec<Rc<Cell<u64>>> = (0..members).map(|_| Rc::default()).collect();
        let flush_ns: Vec<Rc<Cell<Nanos>>> = (0..members).map(|_| Rc::default()).collect();
        let devices = (0..members).map(|member| {
            let copying =
                Copying::new(member_sectors, have_caches, &full[member], &full_from[member], &left[member], &flush_ns[member]);
            Box::new(copying) as Box<dyn BlockDevice>
        });
        let (unlisted, told) = (Rc::default(), Rc::default());
        let array = ArrayDevice::new(&config, devices.collect(), Lists(Rc::clone(&unlisted), Rc::clone(&told)), 0);
        Self {
            array,
            unlisted,
            told,
            full,
            full_from,
            left,
            flush_ns,
            model,
            or_else: BTreeMap::new(),
            now: 0,
            chance: Chance::from_state(seed),
            ended: Vec::new(),
        }
    }

    fn fail(&mut self, member: usize) {
        let command = Command::Fail(MemberId(member));
        support::carry_out(std::slice::from_mut(&mut self.array), &mut self.now, &mut self.ended, command)
            .expect("it survives that");
    }

    fn ask(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        self.array.submit(Request { tag: 7, start_sector, sectors, operation });
        for _ in 0..100_000 {
            self.array.poll(self.now, &mut self.ended);
            if let Some(ended) = self.ended.pop() {
                return ended;
            }
            self.now = self.array.next_wake().expect("the request ends").max(self.now);
        }
        panic!("a request never ends");
    }

    fn read(&mut self, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let completion =
            self.ask(start, sectors, Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() });
        completion.result?;
        let Operation::Read { into } = completion.operation else { panic!("a read comes back as a read") };
        Ok(into.iter().flat_map(|buffer| buffer.to_vec()).collect())
    }

    /// Submits a write of random bytes, and returns them with its result.
    fn submit_write(&mut self, start: u64, sectors: u64) -> (Buffer, Result<(), IoError>) {
        let mut new = Buffer::zeroed(bytes(sectors));
        new.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.chance.any().to_le_bytes()));
        let from = std::iter::once(Buffer::copy_of(&new).freeze()).collect();
        let result = self.ask(start, sectors, Operation::Write { from, fua: false }).result;
        (new, result)
    }

    /// Writes. If there is no space, every sector is as before or as it should be.
    fn write(&mut self, start: u64, sectors: u64) -> Result<(), IoError> {
        let (new, result) = self.submit_write(start, sectors);
        let place = bytes(start)..bytes(start + sectors);
        let read = if result.is_ok() { new.to_vec() } else { self.read(start, sectors).expect("it is there") };
        let sector = SECTOR_BYTES;
        let parts = read.chunks(sector).zip(new.chunks(sector)).zip(self.model[place.clone()].chunks(sector));
        assert!(parts.into_iter().all(|((read, new), before)| read == new || read == before), "neither old nor new");
        self.model[place].copy_from_slice(&read);
        result
    }

    /// Writes. If there is no space, every sector is as before, as it should be, or unreadable.
    fn write_or_lose(&mut self, start: u64, sectors: u64) -> Result<(), IoError> {
        let (new, result) = self.submit_write(start, sectors);
        for (sector, new) in (usize::try_from(start).expect("small")..).zip(new.chunks(SECTOR_BYTES)) {
            if result.is_ok() {
                self.or_else.remove(&sector);
                self.model[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(new);
            } else {
                self.or_else.entry(sector).or_default().push(new.to_vec());
            }
        }
        result
    }

    /// Zeroes, as [`World::write`] writes.
    fn zero(&mut self, start: u64, sectors: u64) -> Result<(), IoError> {
        let result = self.ask(start, sectors, Operation::WriteZeroes { fua: false, unmap: false, fast: false }).result;
        let place = bytes(start)..bytes(start + sectors);
        let read = self.read(start, sectors).expect("it is there");
        let parts = read.chunks(SECTOR_BYTES).zip(self.model[place.clone()].chunks(SECTOR_BYTES));
        let is_zero = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
        assert!(
            parts.into_iter().all(|(read, before)| is_zero(read) || result.is_err() && read == before),
            "neither old nor zeros"
        );
        self.model[place].copy_from_slice(&read);
        result
    }

    /// Writes within strips, while one member may have no space. Returns how many it had none for.
    fn write_within_strips(&mut self, count: usize) -> usize {
        let size = self.model.len() as u64 / 512;
        let mut refused = 0;
        for _ in 0..count {
            let sectors = 1 + self.chance.below(8);
            let start = self.chance.below(size / 16) * 16 + self.chance.below(17 - sectors);
            if let Err(error) = self.write(start, sectors) {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                refused += 1;
            }
        }
        refused
    }

    /// Lets what is being filled be filled.
    fn fill(&mut self) {
        self.full.iter().for_each(|is_full| is_full.set(false));
        self.array.with_engine(|engine| engine.pause(false));
        let is_filled = |status: ArrayStatus| {
            status.members.iter().all(|member| !matches!(member.state, MemberState::Rebuilding | MemberState::Replacing))
        };
        loop {
            self.array.poll(self.now, &mut self.ended);
            if is_filled(self.array.status()) {
                return;
            }
            self.now = self.array.next_wake().expect("a rebuild goes on").max(self.now);
        }
    }

    fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.array.poll(self.now, &mut self.ended);
            self.now = self.array.next_wake().unwrap_or(end).clamp(self.now, end);
        }
    }

    /// There is space again: lets bad blocks be filled.
    fn refill(&mut self) {
        self.full.iter().for_each(|is_full| is_full.set(false));
        let until = self.now + 10_000_000_000;
        let is_open = |member: &MemberStatus| member.bad_sectors > 0 && member.state != MemberState::Failed;
        while self.array.status().members.iter().any(is_open) {
            assert!(self.now < until, "bad blocks stay although there is space");
            self.array.poll(self.now, &mut self.ended);
            self.now = self.array.next_wake().expect("bad blocks are filled").max(self.now);
        }
    }

    /// Reads every sector by itself, and returns how many are unreadable.
    fn check(&mut self) -> usize {
        let mut unreadable = 0;
        for sector in 0..self.model.len() / SECTOR_BYTES {
            let Ok(read) = self.read(sector as u64, 1) else {
                unreadable += 1;
                continue;
            };
            let held = &mut self.model[sector * SECTOR_BYTES..][..SECTOR_BYTES];
            let known = read == held || self.or_else.get(&sector).is_some_and(|others| others.contains(&read));
            assert!(known, "sector {sector} is neither old nor new");
            held.copy_from_slice(&read);
            self.or_else.remove(&sector);
        }
        unreadable
    }
}

/// R46. What the missing member held was lost in the rows that the other one had no space for.
#[test]
fn a_degraded_array_keeps_what_a_write_without_space_leaves_alone() {
    let mut refused = 0;
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 5)] {
        for seed in 1..20 {
            eprintln!("{level:?} of {members}, seed {seed}");
            let mut world = World::new(level, members, seed);
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            world.fail(1);
            world.full[if seed % 2 == 0 { 0 } else { members - 1 }].set(true);
            for _ in 0..60 {
                // Of one strip: of a larger write more may be lost (docs/MEMBERS.md).
                let sectors = 1 + world.chance.below(8);
                let start = world.chance.below(size / 16) * 16 + world.chance.below(17 - sectors);
                if let Err(error) = world.write(start, sectors) {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    refused += 1;
                }
            }
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
}

/// R46. The strip that was written and P each ran out of space at another place, and all rows of P were given up.
#[test]
fn a_degraded_array_keeps_what_a_write_leaves_alone_that_two_members_take_in_part() {
    let mut refused = 0;
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5)] {
        for seed in 1..20 {
            eprintln!("{level:?} of {members}, seed {seed}");
            let mut world = World::new(level, members, seed);
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            world.fail(1);
            let full = [0, members - 1];
            full.iter().for_each(|&member| world.full[member].set(true));
            for _ in 0..60 {
                full.iter().for_each(|&member| world.left[member].set(world.chance.below(8)));
                refused += world.write_within_strips(1);
            }
            assert!(world.array.status().members.iter().all(|member| member.bad_sectors == 0), "no row is given up");
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
}

/// R46. A write that covers the missing member's strip as well must not be taken back as if it were of one strip.
#[test]
fn a_large_write_without_space_leaves_old_or_new_bytes_or_errors() {
    let (mut refused, mut unreadable) = (0, 0);
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 5)] {
        for seed in 1..20 {
            let losses = 1 + usize::from(level == Level::Raid6 && seed % 3 == 0);
            eprintln!("{level:?} of {members}, seed {seed}, {losses} missing");
            let mut world = World::new(level, members, seed);
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            (1..=losses).for_each(|member| world.fail(member));
            world.full[if seed % 2 == 0 { 0 } else { members - 1 }].set(true);
            for _ in 0..40 {
                let sectors = 1 + world.chance.below(48);
                let start = world.chance.below(size - sectors);
                refused += usize::from(world.write_or_lose(start, sectors).is_err());
                unreadable += world.check();
            }
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
    eprintln!("{refused} writes had no space; {unreadable} sectors were unreadable");
}

/// R47. What is being filled takes new data that the member in sync has no space for. Once it has the slot, it gives what that
/// one gave: P was corrected on the one and not on the other, and a missing strip was recovered by both.
#[test]
fn a_replacement_holds_what_its_source_holds_after_writes_without_space() {
    let mut refused = 0;
    for (level, members, missing) in [
        (Level::Raid1, 2, None),
        (Level::Raid10, 4, None),
        (Level::Raid5, 4, None),
        (Level::Raid5, 4, Some(1)),
        (Level::Raid6, 5, Some(1)),
        (Level::Raid6, 6, Some(2)),
    ] {
        for seed in 1..25 {
            let slots = || (0..members).filter(|&slot| Some(slot) != missing);
            let filled = slots().nth(seed as usize % slots().count()).expect("there are some");
            let full = slots().nth(seed as usize / 3 % slots().count()).expect("there are some");
            eprintln!("{level:?} of {members}, {missing:?} missing, {filled} is replaced, {full} is full, seed {seed}");
            let mut world = World::with(level, members, seed, |config| {
                let source = config.slots[filled].member.clone().expect("it is there");
                let new = MemberConfig { id: MemberId(members), recovered: Synced::up_to(0), ..source };
                config.slots[filled].replacement = Some(new);
                1
            });
            world.array.with_engine(|engine| engine.pause(true));
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            missing.into_iter().for_each(|member| world.fail(member));
            world.full[full].set(true);
            refused += world.write_within_strips(60);
            world.fill();
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
    assert!(refused > 1000, "only {refused} writes had no space");
}

/// R46. P has no space for a write to the strip that is being rebuilt. Each sector is old or new: the rows were given up as bad
/// blocks.
#[test]
fn a_strip_under_rebuild_stays_readable_when_parity_has_no_space() {
    let mut refused = 0;
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 5)] {
        for seed in 1..15 {
            eprintln!("{level:?} of {members}, seed {seed}");
            let mut world = World::with(level, members, seed, |config| {
                config.slots[1].member.as_mut().expect("it is there").recovered = Synced::up_to(0);
                0
            });
            world.array.with_engine(|engine| engine.pause(true));
            world.write_within_strips(40);
            world.full[if seed % 2 == 0 { 0 } else { members - 1 }].set(true);
            refused += world.write_within_strips(60);
            world.fill();
            let size = world.model.len() as u64 / 512;
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
}

/// R65. What a member under rebuild holds counted like that of one in sync: what it alone had taken was lost with it. And a
/// member that was dropped in the same write kept parity from being left as it was.
#[test]
fn a_member_under_rebuild_may_leave_after_writes_without_space() {
    let mut refused = 0;
    for (level, members) in
        [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 5)]
    {
        for seed in 1..15 {
            for both in [false, true] {
                eprintln!("{level:?} of {members}, seed {seed}, both are full: {both}");
                let mut world = World::with(level, members, seed, |config| {
                    config.slots[1].member.as_mut().expect("it is there").recovered = Synced::up_to(128);
                    0
                });
                world.array.with_engine(|engine| engine.pause(true));
                let size = world.model.len() as u64 / 512;
                (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
                world.full[if seed % 2 == 0 { 0 } else { members - 1 }].set(true);
                world.full[1].set(both);
                refused += world.write_within_strips(30);
                if !both {
                    assert_eq!(world.array.status().members[1].state, MemberState::Rebuilding);
                    world.fail(1);
                }
                let read = world.read(0, size).expect("nothing is lost");
                assert!(read == world.model, "differs");
            }
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
}

/// R65. It held what the copy that counts holds, so nothing was written, and its rows stayed bad blocks until it had been in sync
/// for 2 s.
#[test]
fn what_a_member_under_rebuild_holds_of_a_write_without_space_is_no_bad_block() {
    let mut refused = 0;
    for (members, seed) in [3, 4].into_iter().flat_map(|members| (1..15).map(move |seed| (members, seed))) {
        let mut world = World::with(Level::Raid1, members, seed, |config| {
            config.slots[1].member.as_mut().expect("it is there").recovered = Synced::up_to(128);
            0
        });
        world.array.with_engine(|engine| engine.pause(true));
        world.full[0].set(true);
        refused += world.write_within_strips(30);
        let status = world.array.status();
        assert_eq!((status.members[1].state, status.members[1].bad_sectors), (MemberState::Rebuilding, 0), "seed {seed}");
        assert!(status.members[0].bad_sectors > 0);
    }
    assert!(refused > 300, "only {refused} writes had no space");
}

/// R96. Rows of a write without space were bad blocks on the member under rebuild while it came in sync. It held them, but a
/// start would not have read them there. Simulated seed 20700014454 lost such rows with the third copy.
#[test]
fn no_member_comes_in_sync_with_bad_blocks_of_a_write_without_space() {
    let three = Layout::Copies(Copies { near: 3, far: 1, offset: false });
    let two = Layout::Copies(Copies { near: 1, far: 2, offset: true });
    let mut refused = 0;
    for (level, layout, members) in [
        (Level::Raid1, Level::Raid1.default_layout(), 3),
        (Level::Raid10, three, 4),
        (Level::Raid10, two, 3),
        (Level::Raid6, Level::Raid6.default_layout(), 5),
    ] {
        for seed in 1..60 {
            let by_copy = seed % 3 == 0;
            let mut world = World::of(level, layout, (members, 512), true, seed, |config| {
                let member = config.slots[1].member.as_mut().expect("it is there");
                if !by_copy {
                    member.recovered = Synced::up_to(128);
                    return 0;
                }
                let new = MemberConfig { id: MemberId(members), recovered: Synced::up_to(0), ..member.clone() };
                config.slots[1].replacement = Some(new);
                1
            });
            let filled = MemberId(if by_copy { members } else { 1 });
            world.full[0].set(true);
            for flush_ns in &world.flush_ns {
                flush_ns.set(world.chance.below(3_000_000));
            }
            while world.array.status().members[filled.0].state != MemberState::InSync {
                refused += world.write_within_strips(1);
            }
            refused += world.write_within_strips(3);
            let found = world.told.borrow().were_both.contains(&filled);
            assert!(!found, "{level:?} {layout} of {members}, by copy: {by_copy}, seed {seed}");
            world.refill();
            world.fail(0);
            let size = world.model.len() as u64 / 512;
            assert!(world.read(0, size).expect("nothing is lost") == world.model, "differs, seed {seed}");
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
}

/// R96. No copy had space for a write. The replacement of one took it, and the slot as well while a list of bad blocks was
/// written: it kept the new data, the other copy the old.
#[test]
fn copies_stay_alike_when_a_replacement_takes_its_slot_beside_writes_without_space() {
    let mut refused = 0;
    for (members, seed) in [2, 3].into_iter().flat_map(|members| (1..40).map(move |seed| (members, seed))) {
        let filled = seed as usize % members;
        let mut world = World::of(Level::Raid1, Level::Raid1.default_layout(), (members, 512), true, seed, |config| {
            let source = config.slots[filled].member.clone().expect("it is there");
            let new = MemberConfig { id: MemberId(members), recovered: Synced::up_to(0), ..source };
            config.slots[filled].replacement = Some(new);
            1
        });
        world.full[..members].iter().for_each(|is_full| is_full.set(true));
        for flush_ns in &world.flush_ns {
            flush_ns.set(world.chance.below(3_000_000));
        }
        while world.array.status().members[members].state != MemberState::InSync {
            refused += world.write_within_strips(1);
        }
        world.refill();
        let size = world.model.len() as u64 / 512;
        for other in (0..members).filter(|&member| member != filled) {
            assert!(world.read(0, size).expect("nothing is lost") == world.model, "differs, {members} members, seed {seed}");
            world.fail(other);
        }
        assert!(world.read(0, size).expect("nothing is lost") == world.model, "differs, {members} members, seed {seed}");
    }
    assert!(refused > 100, "only {refused} writes had no space");
}

/// R64. No copy had space for a write, and the first counted. It was failed while the list of the second was written, and the
/// third became a bad block as well: no copy was left.
#[test]
fn the_next_copy_counts_once_the_first_is_failed_while_lists_are_written() {
    for (level, layout, members) in [
        (Level::Raid1, Level::Raid1.default_layout(), 3),
        (Level::Raid10, Layout::Copies(Copies { near: 3, far: 1, offset: false }), 3),
    ] {
        let mut world = World::of(level, layout, (members, 512), true, 1, |_| 0);
        world.write(0, 16).expect("there is space");
        world.full.iter().for_each(|is_full| is_full.set(true));
        world.flush_ns[2].set(1_000_000_000);
        let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
        world.array.submit(Request { tag: 1, start_sector: 0, sectors: 8, operation: Operation::Write { from, fua: false } });
        world.pass(500_000_000);
        assert!(world.ended.is_empty(), "its list is being written");
        world.fail(0);
        world.pass(60_000_000_000);
        let ended: Vec<_> =
            std::mem::take(&mut world.ended).into_iter().map(|ended| ended.result.map_err(|error| error.kind)).collect();
        assert_eq!(ended, [Err(ErrorKind::NoSpace)], "{level:?}");
        assert!(world.read(0, 16).expect("a copy is left") == world.model[..bytes(16)], "{level:?}");
    }
}

/// Of a write over several strips a member that had no space for one lost all of them.
#[test]
fn only_the_strips_without_space_become_bad_blocks() {
    let mut world = World::new(Level::Raid10, 4, 1);
    world.full[0].set(true);
    world.full_from[0].set(16);
    world.write(0, 64).expect_err("there is no space");
    assert_eq!(world.array.status().members[0].bad_sectors, 16);
    world.fail(1);
    assert!(world.read(0, 16).expect("another copy has it") == world.model[..bytes(16)]);
}

/// R97. The list of a copy that had no space was written while the list of the other one still named the same rows, which that copy
/// had just taken: after a crash in between neither could be read.
#[test]
fn rows_leave_the_list_of_one_copy_before_they_enter_that_of_another() {
    for full in [0, 1] {
        let mut world = World::of(Level::Raid1, Level::Raid1.default_layout(), (2, 512), true, 1, |_| 0);
        world.told.borrow_mut().copies = 2;
        let other = 1 - full;
        world.full[other].set(true);
        world.write(0, 8).expect_err("it has no space");
        // A list is being written, and waits for a flush.
        world.flush_ns[0].set(1_000_000_000);
        let submit = |world: &mut World, tag, start_sector| {
            let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
            world.array.submit(Request { tag, start_sector, sectors: 8, operation: Operation::Write { from, fua: false } });
            world.pass(100_000_000);
            assert!(world.ended.is_empty(), "lists wait");
        };
        submit(&mut world, 1, 16);
        world.full[other].set(false);
        world.full[full].set(true);
        submit(&mut world, 2, 0);
        world.pass(20_000_000_000);
        assert_eq!(world.ended.len(), 2);
        let told = world.told.borrow();
        assert!(told.listed.contains_key(&MemberId(full)) && told.nowhere.is_empty(), "member {full}: {:?}", told.nowhere);
    }
}

/// Each write left a bad block on each copy without space. When the list was full its member was dropped, then the next one, and
/// the last one answered flushes with errors.
#[test]
fn copies_on_a_full_file_system_keep_their_slots_however_many_writes_fail() {
    for (level, members, full) in [(Level::Raid1, 2, 1), (Level::Raid1, 2, 2), (Level::Raid1, 3, 2), (Level::Raid10, 3, 3)] {
        for seed in 1..5 {
            eprintln!("{level:?} of {members}, {full} are full, seed {seed}");
            let mut world = World::of(level, level.default_layout(), (members, 16384), false, seed, |_| 0);
            let size = world.model.len() as u64 / 512;
            world.told.borrow_mut().copies = if level == Level::Raid1 { members } else { 0 };
            world.full[..full].iter().for_each(|is_full| is_full.set(true));
            // Each can overwrite what it took, and one takes more than another.
            (400..).step_by(1200).zip(&world.left[..full]).for_each(|(sectors, left)| left.set(sectors));
            let mut refused = 0;
            for _ in 0..8000 {
                let sectors = 1 + world.chance.below(3);
                let start = world.chance.below(size / 4) * 4;
                refused += usize::from(world.write(start, sectors).is_err());
            }
            let status = world.array.status();
            for member in &status.members {
                assert_eq!(member.state, MemberState::InSync, "{:?}", world.array.take_events());
            }
            assert!(refused > 2000, "only {refused} writes had no space");
            assert_eq!(world.told.borrow().nowhere, [], "R97");
            world.ask(0, 0, Operation::Flush).result.expect("no written data is lost");
            world.refill();
            world.fail(seed as usize % members);
            assert!(world.read(0, size).expect("nothing is lost") == world.model, "differs");
        }
    }
}

/// Each write whose parity had no space left a bad block. When the list was full its member was dropped, and the next one after it.
#[test]
fn parity_on_a_full_file_system_keeps_its_slot_however_many_writes_fail() {
    let all = [
        (Level::Raid4, 4, &[3][..]),
        (Level::Raid5, 3, &[0]),
        (Level::Raid5, 3, &[0, 1]),
        (Level::Raid5, 4, &[0, 1, 2, 3]),
        (Level::Raid6, 5, &[1, 2]),
        (Level::Raid6, 4, &[0, 1, 2, 3]),
    ];
    for (level, members, full) in all {
        for (seed, losses) in [(1, 0), (2, 0), (3, 1), (4, level.parity_count())] {
            eprintln!("{level:?} of {members}, {full:?} are full, seed {seed}, {losses} missing");
            let mut world = World::of(level, level.default_layout(), (members, 16384), false, seed, |_| 0);
            // They are files with holes.
            world.array.with_engine(|engine| engine.expect_no_space());
            let size = world.model.len() as u64 / 512;
            let mut missing: Vec<usize> = (0..members).collect();
            missing.sort_by_key(|member| full.contains(member));
            missing.truncate(losses);
            missing.iter().for_each(|&member| world.fail(member));
            full.iter().for_each(|&member| world.full[member].set(true));
            // Each can overwrite what it took, and one takes more than another.
            (400..).step_by(1200).zip(full).for_each(|(sectors, &member)| world.left[member].set(sectors));
            let mut refused = 0;
            for _ in 0..6000 {
                // Some are of several strips.
                let is_large = world.chance.below(4) == 0;
                let sectors = 1 + world.chance.below(if is_large { 40 } else { 3 });
                let start = world.chance.below((size - sectors) / 4) * 4;
                refused += usize::from(world.write(start, sectors).is_err());
            }
            for member in world.array.status().members {
                let is_as_it_was = member.state == MemberState::InSync || missing.contains(&member.id.0);
                assert!(is_as_it_was, "{member:?}: {:?}", world.array.take_events());
            }
            assert!(refused > 1500, "only {refused} writes had no space");
            world.ask(0, 0, Operation::Flush).result.expect("no written data is lost");
            world.refill();
            if losses == 0 {
                world.fail(seed as usize % members);
            }
            assert!(world.read(0, size).expect("nothing is lost") == world.model, "differs");
        }
    }
}

/// R72. Parity that had no space was old, and once the list of its member was full, only memory knew that: flushes succeeded, and
/// after a restart another member could be recovered from it.
#[test]
fn parity_without_space_is_listed_or_its_member_dropped() {
    let mut world = World::new(Level::Raid5, 3, 1);
    world.unlisted.set(Some(MemberId(0)));
    world.full[0].set(true);
    let size = world.model.len() as u64 / 512;
    let mut turns = 0;
    while world.array.status().members[0].state == MemberState::InSync {
        turns += 1;
        assert!(turns < 100, "its list has no space");
        let start = world.chance.below(size / 16) * 16;
        let _ = world.submit_write(start, 8);
        let is_told = world.ask(0, 0, Operation::Flush).result.is_err();
        let member = world.array.status().members[0].clone();
        let listed =
            world.told.borrow().listed.get(&MemberId(0)).map_or(0, |rows| rows.iter().map(|rows| rows.end - rows.start).sum());
        let is_known = member.state == MemberState::Failed || member.bad_sectors <= listed;
        assert!(is_known || is_told, "write {turns}: {listed} of {} bad sectors are listed", member.bad_sectors);
    }
    world.ask(0, 0, Operation::Flush).result.expect("the others have all data");
}

/// R67. A rebuild passed over the bad blocks that a member brought along, and for 2 s it was in sync with them.
#[test]
fn a_member_that_comes_in_sync_brings_no_bad_blocks() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for by_bitmap in [false, true] {
            eprintln!("{level:?} of {members}, by bitmap: {by_bitmap}");
            let mut world = World::with(level, members, 1, |config| {
                let member = config.slots[1].member.as_mut().expect("it is there");
                member.recovered = Synced::up_to(if by_bitmap { 0 } else { 256 });
                member.by_bitmap = by_bitmap;
                member.bad_blocks =
                    [40..50, 128..129, 300..301].map(|rows| MemberSector::new(rows.start)..MemberSector::new(rows.end)).to_vec();
                0
            });
            world.fill();
            let status = world.array.status();
            assert_eq!((status.members[1].state, status.members[1].bad_sectors), (MemberState::InSync, 0));
            let events = world.array.take_events();
            assert!(!events.iter().any(|event| matches!(event, Event::BadBlocks { .. })), "nothing is lost: {events:?}");
            world.fail(0);
            let size = world.model.len() as u64 / 512;
            assert!(world.read(0, size).expect("nothing is lost") == world.model, "differs");
        }
    }
}

/// R68. It was given up for good, a minute after the last write without space, and the array stayed degraded when there was space
/// again.
#[test]
fn a_rebuild_is_tried_again_as_long_as_rows_lack_space() {
    let mut world = World::with(Level::Raid5, 3, 1, |config| {
        config.slots[1].member.as_mut().expect("it is there").recovered = Synced::up_to(0);
        0
    });
    world.array.with_engine(|engine| engine.pause(true));
    // The strip of the member under rebuild is lost with parity.
    world.full[2].set(true);
    world.write_or_lose(0, 32).expect_err("parity has no space");
    assert!(world.array.status().members[2].bad_sectors > 0);
    world.unlisted.set(Some(MemberId(1)));
    world.array.with_engine(|engine| engine.pause(false));
    world.pass(200_000_000_000);
    assert_eq!(world.array.status().members[1].state, MemberState::Rebuilding, "{:?}", world.array.take_events());
    world.full[2].set(false);
    world.write_or_lose(0, 32).expect("there is space");
    world.pass(20_000_000_000);
    assert_eq!(world.array.status().members[1].state, MemberState::InSync);
}

/// All rows of the request became bad blocks on each member without space, more than parity can make up for.
#[test]
fn zeroing_without_space_leaves_old_bytes_or_zeros() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 6)] {
        for seed in 1..15 {
            eprintln!("{level:?} of {members}, seed {seed}");
            let mut world = World::new(level, members, seed);
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            (0..members).filter(|member| member % 2 == seed as usize % 2).for_each(|member| world.full[member].set(true));
            for _ in 0..5 {
                let sectors = 1 + world.chance.below(size / 2);
                let start = world.chance.below(size - sectors);
                world.zero(start, sectors).expect_err("there is no space");
            }
            world.refill();
            world.fail(seed as usize % members);
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
}

/// R68. Lists of bad blocks waited for a member that hung. A minute later the next rows of the same write counted as lost, and
/// stayed bad.
#[test]
fn rows_without_space_are_filled_whatever_time_their_lists_take() {
    let mut refused = 0;
    let near_and_far = Layout::Copies(Copies { near: 2, far: 2, offset: false });
    for (level, layout, members) in [
        (Level::Raid1, Level::Raid1.default_layout(), 3),
        (Level::Raid10, Level::Raid10.default_layout(), 5),
        (Level::Raid10, near_and_far, 4),
        (Level::Raid5, Level::Raid5.default_layout(), 4),
        (Level::Raid6, Level::Raid6.default_layout(), 5),
    ] {
        for seed in 1..20 {
            let (full, hangs) = (seed as usize % members, (seed as usize + 1 + seed as usize / 5 % (members - 1)) % members);
            eprintln!("{level:?} {layout} of {members}, {full} is full, {hangs} hangs, seed {seed}");
            let mut world = World::of(level, layout, (members, 512), true, seed, |_| 0);
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            world.full[full].set(true);
            world.flush_ns[hangs].set(61_000_000_000);
            for _ in 0..4 {
                let sectors = 1 + world.chance.below(100);
                let start = world.chance.below(size - sectors);
                let result = if world.chance.one_in(3) { world.zero(start, sectors) } else { world.write(start, sectors) };
                refused += usize::from(result.is_err());
            }
            world.flush_ns[hangs].set(0);
            world.refill();
            let events = world.array.take_events();
            assert!(!events.iter().any(|event| matches!(event, Event::BadBlocks { .. })), "nothing is lost: {events:?}");
            world.fail(hangs);
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
    assert!(refused > 200, "only {refused} writes had no space");
}

/// The status said for a minute that a member had no space which the array had dropped.
#[test]
fn a_member_that_was_dropped_is_not_said_to_have_no_space() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let mut world = World::new(level, members, 1);
        let size = world.model.len() as u64 / 512;
        world.full[1].set(true);
        let errors = (0..size / 16).filter(|strip| world.write(strip * 16, 16).is_err()).count();
        assert!(errors > 0, "{level:?}: member 1 takes no write");
        let without = |world: &World| world.array.status().members.iter().map(|member| member.has_no_space).collect::<Vec<_>>();
        let only = (0..members).map(|member| member == 1).collect::<Vec<_>>();
        assert_eq!(without(&world), only, "{level:?}");
        world.fail(1);
        assert_eq!(without(&world), vec![false; members], "{level:?}: it holds no slot any more");
    }
}

/// A RAID 10 survives the loss of one member of each pair, and its status counted the worst pair for all.
#[test]
fn the_status_tells_which_members_the_array_cannot_do_without() {
    for (level, members, needed) in
        [(Level::Raid10, 4, vec![1]), (Level::Raid5, 3, vec![1, 2]), (Level::Raid6, 4, vec![]), (Level::Raid1, 3, vec![])]
    {
        let mut world = World::new(level, members, 1);
        let named = |world: &World| {
            let status = world.array.status();
            status.members.iter().filter(|member| member.is_needed).map(|member| member.id.0).collect::<Vec<_>>()
        };
        assert_eq!(named(&world), [0; 0], "{level:?}");
        world.fail(0);
        assert_eq!(named(&world), needed, "{level:?}");
    }
}

/// R49. Members that had all their space were trimmed, other software took the space, and a write there was acknowledged by its
/// log record: its bytes had no place, and only the next flush said so.
#[test]
fn a_write_to_what_a_trim_unmapped_fails_itself_if_there_is_no_space() {
    for (are_files, unmap) in [(true, true), (true, false), (false, true)] {
        let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 16, &[512; 4]).expect("it fits");
        let log = LogConfig { append_sectors_max: 1024, new_data_sectors_max: NEW_DATA_SECTORS_MAX, newest_only: false };
        let config = ArrayConfig { log: Some(log), ..ArrayConfig::optimal("test", geometry) };
        let is_full: Rc<Cell<bool>> = Rc::default();
        let devices = (0..4).map(|_| {
            let copying = Copying::new(512, false, &is_full, &Rc::default(), &Rc::default(), &Rc::default());
            // The log has its space, behind the data.
            let ram = RamDevice::new(Nowhere::START + 64);
            Box::new(Copying { limits: ram.limits().clone(), ram, full_until: Nowhere::START, ..copying }) as Box<dyn BlockDevice>
        });
        let mut array = ArrayDevice::new(&config, devices.collect(), Nowhere::default(), 0);
        if are_files {
            array.with_engine(|engine| engine.expect_no_space_after_trims());
        }
        let mut now = 0;
        let mut ask = |array: &mut ArrayDevice<Nowhere>, sectors, operation| {
            array.submit(Request { tag: 1, start_sector: 0, sectors, operation });
            let mut ended = Vec::new();
            while ended.is_empty() {
                array.poll(now, &mut ended);
                now += 1000;
            }
            // What was acknowledged early is carried out.
            (0..1000).for_each(|step| array.poll(now + step * 1000, &mut Vec::new()));
            now += 1_000_000;
            ended.remove(0).result
        };
        let write = || Operation::Write { from: std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect(), fua: false };
        let early = |array: &ArrayDevice<Nowhere>| array.status().log.expect("it has one").early_count;
        // The first write finds the array clean, and waits for superblock updates.
        ask(&mut array, 8, write()).expect("there is space");
        ask(&mut array, 8, write()).expect("there is space");
        let before = early(&array);
        assert!(before > 0, "the array acknowledges early");
        ask(&mut array, 16 * 3, Operation::WriteZeroes { fua: false, unmap, fast: false }).expect("that needs no space");
        let makes_holes = are_files && unmap;
        is_full.set(makes_holes);
        let wrote = ask(&mut array, 8, write());
        assert_eq!(wrote.err().map(|error| error.kind), makes_holes.then_some(ErrorKind::NoSpace), "files: {are_files}, {unmap}");
        assert_eq!(early(&array) > before, !makes_holes, "files: {are_files}, {unmap}");
        ask(&mut array, 0, Operation::Flush).expect("nothing that was acknowledged is lost");
    }
}
