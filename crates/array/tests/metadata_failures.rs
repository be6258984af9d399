//! Goal: nothing is acknowledged that relies on metadata which a member did not take (R2, R57, R70, R73).
//! Method: the only member that is left refuses metadata writes, or holds them; it takes data all the while.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{
    ArrayConfig, ArrayDevice, ArrayState, Command, DriveSector, Event, Geometry, IntentConfig, LaneLog, Level, MemberConfig,
    MemberId, MemberSector, MetadataWrite, NoMetadata, Recorder, Synced,
};
use stria_block::{
    BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, RamDevice, Request, SECTOR_BYTES, bytes,
};

/// Metadata begin here on each drive.
const METADATA: u64 = 512;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Refuses,
    Holds,
    /// What it has held fails, and what comes now does not.
    FailsHeld,
    Dead,
    /// It can be read and flushed, and takes no write: an SSD at the end of its life.
    ReadOnly,
    /// It takes metadata, and no data.
    NoData,
    /// Its next flush fails.
    FailsFlush,
    /// It takes superblocks, and no lists of bad blocks.
    NoLists,
}

/// A drive that takes data, and metadata unless it has a fault.
struct Drive {
    ram: RamDevice,
    limits: Limits,
    fault: Rc<Cell<Fault>>,
    held: Vec<Request>,
    ended: Vec<Completion>,
    updates: Rc<Cell<u64>>,
}

impl BlockDevice for Drive {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        match self.fault.get() {
            Fault::FailsFlush if matches!(request.operation, Operation::Flush) => {
                self.fault.set(Fault::None);
                self.ended.push(request.complete(Err(IoError::new(ErrorKind::Other, "the cache is lost"))));
            }
            Fault::Refuses if request.start_sector < METADATA => self.ram.submit(request),
            Fault::ReadOnly if !matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. }) => {
                self.ram.submit(request);
            }
            Fault::NoData if request.start_sector >= METADATA || matches!(request.operation, Operation::Read { .. }) => {
                self.ram.submit(request);
            }
            Fault::NoLists if request.start_sector != METADATA + 1 => {
                self.updates.set(self.updates.get() + u64::from(request.start_sector == METADATA));
                self.ram.submit(request);
            }
            Fault::Refuses | Fault::ReadOnly | Fault::NoData | Fault::Dead | Fault::NoLists => {
                self.ended.push(request.complete(Err(IoError::new(ErrorKind::Failed, "refused"))));
            }
            Fault::Holds if request.start_sector >= METADATA => self.held.push(request),
            _ => {
                self.updates.set(self.updates.get() + u64::from(request.start_sector >= METADATA));
                self.ram.submit(request);
            }
        }
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        if self.fault.get() == Fault::None {
            self.held.drain(..).for_each(|request| self.ram.submit(request));
        }
        if self.fault.get() == Fault::FailsHeld {
            let refused = |request: Request| request.complete(Err(IoError::new(ErrorKind::Failed, "refused")));
            self.ended.extend(self.held.drain(..).map(refused));
        }
        completions.append(&mut self.ended);
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        if self.ended.is_empty() { self.ram.next_wake() } else { Some(0) }
    }
}

/// Writes one sector for each update, and one before it for a list. Notes bits and lists.
#[derive(Clone, Default)]
struct OneSector {
    members: usize,
    bits: Rc<RefCell<Vec<u64>>>,
    lists: Rc<RefCell<Vec<Vec<Range<MemberSector>>>>>,
    /// The last superblocks say "clean".
    clean: Rc<Cell<bool>>,
    /// There is no space for lists.
    full: Rc<Cell<bool>>,
    /// Members that missed the last update get it before the next.
    rewrites: Rc<Cell<bool>>,
    missed: BTreeSet<usize>,
}

impl OneSector {
    fn write(member: usize) -> MetadataWrite {
        let data = Buffer::zeroed(SECTOR_BYTES).freeze();
        MetadataWrite { member: MemberId(member), start_sector: DriveSector::new(METADATA), data }
    }

    fn writes(&self) -> Vec<MetadataWrite> {
        (0..self.members).map(Self::write).collect()
    }
}

impl Recorder for OneSector {
    type Log = NoMetadata;
    type Newcomer = ();

    fn rewrite_last_update(&mut self) -> Vec<MetadataWrite> {
        std::mem::take(&mut self.missed).into_iter().filter(|_| self.rewrites.get()).map(Self::write).collect()
    }
    fn write_failed(&mut self, member: MemberId) {
        self.missed.insert(member.0);
    }
    fn record_state(&mut self, state: &ArrayState, _unix_seconds: u64) -> Vec<MetadataWrite> {
        self.clean.set(state.clean);
        self.writes()
    }
    fn record_intent(&mut self, set: &[u64], _clear: &[u64]) -> Vec<MetadataWrite> {
        self.bits.borrow_mut().extend(set);
        self.writes()
    }
    fn record_bad_blocks(
        &mut self,
        member: MemberId,
        blocks: &[Range<MemberSector>],
        _unix_seconds: u64,
    ) -> Option<Vec<MetadataWrite>> {
        if self.full.get() {
            return None;
        }
        self.lists.borrow_mut().push(blocks.to_vec());
        let superblock = Self::write(member.0);
        Some(vec![MetadataWrite { start_sector: superblock.start_sector + 1, ..superblock.clone() }, superblock])
    }
    fn log_layout(&self) -> <Self::Log as LaneLog>::Layout {}
}

struct World {
    array: ArrayDevice<OneSector>,
    recorder: OneSector,
    faults: Vec<Rc<Cell<Fault>>>,
    /// How many metadata writes drives have taken.
    updates: Rc<Cell<u64>>,
    now: Nanos,
    ended: Vec<Completion>,
}

impl World {
    /// A mirror of two, with these bad blocks on the second.
    fn new(bad: Vec<Range<MemberSector>>) -> Self {
        Self::of(Level::Raid1, bad)
    }

    fn of(level: Level, bad: Vec<Range<MemberSector>>) -> Self {
        Self::with(level, |second| second.bad_blocks = bad)
    }

    /// With what differs of the second member.
    fn with(level: Level, change: impl FnOnce(&mut MemberConfig)) -> Self {
        Self::with_members(level, 2, change)
    }

    fn with_members(level: Level, count: usize, change: impl FnOnce(&mut MemberConfig)) -> Self {
        Self::on_drives(level, count, false, change)
    }

    /// `have_caches`: on drives with volatile caches.
    fn on_drives(level: Level, count: usize, have_caches: bool, change: impl FnOnce(&mut MemberConfig)) -> Self {
        let geometry = Geometry::new(level, level.default_layout(), 16, &vec![512; count]).expect("good");
        let intent = level.is_redundant().then(|| IntentConfig { chunk_sectors: 64, dirty: Vec::new() });
        let mut config = ArrayConfig { intent, ..ArrayConfig::optimal("test", geometry) };
        change(config.slots[1].member.as_mut().expect("it is there"));
        let faults: Vec<Rc<Cell<Fault>>> = (0..count).map(|_| Rc::new(Cell::new(Fault::None))).collect();
        let updates = Rc::<Cell<u64>>::default();
        let device = |fault: &Rc<Cell<Fault>>| {
            let (ram, fault) = (RamDevice::new(METADATA + 8), Rc::clone(fault));
            let updates = Rc::clone(&updates);
            let limits = Limits { volatile_cache: have_caches, ..ram.limits().clone() };
            Box::new(Drive { ram, limits, fault, held: Vec::new(), ended: Vec::new(), updates }) as Box<dyn BlockDevice>
        };
        let recorder = OneSector { members: count, ..OneSector::default() };
        let array = ArrayDevice::new(&config, faults.iter().map(device).collect(), recorder.clone(), 0);
        Self { array, recorder, faults, updates, now: 0, ended: Vec::new() }
    }

    fn turn(&mut self) {
        self.array.poll(self.now, &mut self.ended);
        self.now = self.array.next_wake().unwrap_or(self.now + 1_000_000).max(self.now);
    }

    /// Asks, and waits for so many turns at most.
    fn ask(&mut self, start_sector: u64, sectors: u64, operation: Operation, turns: usize) -> Option<Result<(), IoError>> {
        self.array.submit(Request { tag: 7, start_sector, sectors, operation });
        self.wait(turns)
    }

    fn wait(&mut self, turns: usize) -> Option<Result<(), IoError>> {
        for _ in 0..turns {
            self.turn();
            if let Some(ended) = self.ended.pop() {
                return Some(ended.result);
            }
        }
        None
    }

    /// Begins a write of its own tag.
    fn begin(&mut self, tag: u64, start_sector: u64) {
        let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
        self.array.submit(Request { tag, start_sector, sectors: 8, operation: Operation::Write { from, fua: false } });
    }

    fn write(&mut self, start_sector: u64, turns: usize) -> Option<Result<(), IoError>> {
        let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
        self.ask(start_sector, 8, Operation::Write { from, fua: false }, turns)
    }
}

#[test]
fn a_write_whose_bits_the_last_member_does_not_take_fails() {
    let mut world = World::new(Vec::new());
    world.write(0, 1000).expect("it ends").expect("all is well");
    let fail = Command::Fail(MemberId(1));
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, fail).expect("one is left");
    world.faults[0].set(Fault::Refuses);
    for start in [128, 136, 256] {
        world.write(start, 1000).expect("it ends").expect_err("its bit is nowhere");
    }
    world.faults[0].set(Fault::None);
    for _ in 0..5000 {
        world.turn();
    }
    let before = world.recorder.bits.borrow().iter().filter(|&&chunk| chunk == 2).count();
    world.write(128, 1000).expect("it ends").expect("the member takes metadata again");
    let after = world.recorder.bits.borrow().iter().filter(|&&chunk| chunk == 2).count();
    assert!(after > before, "the bit was asked for again");
}

/// The member refuses one update, and takes the next. Writes whose bits are in the first fail, and no others.
#[test]
fn a_write_does_not_fail_for_bits_of_another_chunk() {
    let mut world = World::new(Vec::new());
    world.write(0, 1000).expect("it ends").expect("all is well");
    let fail = Command::Fail(MemberId(1));
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, fail).expect("one is left");
    world.write(0, 1000).expect("it ends").expect("the superblock says \"dirty\"");
    world.faults[0].set(Fault::Holds);
    world.begin(1, 128);
    (0..10).for_each(|_| world.turn());
    // The update of the first chunk is under way: the second write shares it, the third does not, and the fourth does in part.
    let (second, third, fourth) = (136, 256, 188);
    [(2, second), (3, third), (4, fourth)].into_iter().for_each(|(tag, start)| world.begin(tag, start));
    (0..10).for_each(|_| world.turn());
    assert_eq!(world.ended.len(), 0, "bits are not durable");
    world.faults[0].set(Fault::FailsHeld);
    (0..1000).for_each(|_| world.turn());
    let mut ended: Vec<(u64, bool)> = world.ended.iter().map(|ended| (ended.tag, ended.result.is_ok())).collect();
    ended.sort_unstable();
    assert_eq!(ended, [(1, false), (2, false), (3, true), (4, false)]);
    world.ended.clear();
    world.write(128, 1000).expect("it ends").expect("the member takes bits again");
}

#[test]
fn a_write_over_bad_blocks_waits_for_the_list_that_names_them_no_more() {
    let rows = || MemberSector::new(32)..MemberSector::new(40);
    let mut world = World::new(vec![rows()]);
    world.write(100, 1000).expect("it ends").expect("nothing bad there");
    world.faults[1].set(Fault::Holds);
    assert!(world.write(32, 200).is_none(), "acknowledged although the list still names the rows");
    world.faults[1].set(Fault::None);
    world.wait(1000).expect("it ends").expect("all is well");
    assert_eq!(world.recorder.lists.borrow().last().map(Vec::len), Some(0));
}

#[test]
fn without_redundancy_it_waits_as_well() {
    let mut world = World::of(Level::Raid0, vec![MemberSector::new(32)..MemberSector::new(40)]);
    // The second strip of each stripe is the second member's: its sector 32 is the array's 80.
    let read = |world: &mut World| {
        let into = std::iter::once(Buffer::zeroed(bytes(8))).collect();
        world.ask(80, 8, Operation::Read { into }, 1000).expect("it ends")
    };
    read(&mut world).expect_err("bad blocks");
    world.faults[1].set(Fault::Holds);
    world.write(40, 200).expect("it ends").expect("nothing bad there");
    assert!(world.write(80, 200).is_none(), "acknowledged although the list still names the rows");
    world.faults[1].set(Fault::None);
    world.wait(1000).expect("it ends").expect("all is well");
    assert_eq!(world.recorder.lists.borrow().last().map(Vec::len), Some(0));
    read(&mut world).expect("written");
    // The second write to bad blocks, whose list cannot be written.
    let mut world = World::of(Level::Raid0, vec![MemberSector::new(32)..MemberSector::new(40)]);
    world.faults[1].set(Fault::Refuses);
    world.write(80, 1000).expect("it ends").expect("a flush will tell");
    let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
    world.ask(80, 8, Operation::Write { from, fua: true }, 1000).expect("it ends").expect_err("FUA promises what a flush does");
}

#[test]
fn a_write_fails_while_nobody_records_that_a_member_was_dropped() {
    let mut world = World::new(Vec::new());
    world.write(0, 1000).expect("it ends").expect("all is well");
    world.faults[0].set(Fault::Refuses);
    world.faults[1].set(Fault::Dead);
    world.write(0, 1000).expect("it ends").expect_err("after a crash the dead member would count as before");
    world.write(0, 1000).expect("it ends").expect_err("still");
    world.ask(0, 0, Operation::Flush, 1000).expect("it ends").expect_err("a flush promises the same");
    let refusals = world.array.take_events().into_iter().filter(|event| matches!(event, Event::SuperblockRefused { .. }));
    assert_eq!(
        (refusals.count(), world.array.status().superblock_refused.map(|error| error.to_string())),
        (1, Some("refused".into()))
    );
    world.faults[0].set(Fault::None);
    // The superblock is written again by itself.
    for _ in 0..5000 {
        world.turn();
    }
    assert_eq!(world.array.status().superblock_refused, None, "over when a member has taken an update, not before");
    world.write(0, 1000).expect("it ends").expect("it is recorded");
    world.ask(0, 0, Operation::Flush, 1000).expect("it ends").expect("nothing is left");
}

/// R58: each update has one more event. A member under rebuild that took two alone would make those in sync count as away.
#[test]
fn a_member_under_rebuild_is_at_most_one_update_ahead_of_those_in_sync() {
    let mut world = World::with(Level::Raid1, |second| second.recovered = Synced::up_to(0));
    world.array.with_engine(|engine| engine.pause(true));
    (0..100).for_each(|_| world.turn());
    world.write(0, 1000).expect("it ends").expect("all is well");
    world.faults[0].set(Fault::Refuses);
    let before = world.updates.get();
    // The array becomes clean, and dirty again.
    (0..10_000).for_each(|_| world.turn());
    world.write(0, 1000).expect("it ends").expect_err("no member in sync says that the array is dirty");
    assert!(world.updates.get() <= before + 1, "the member under rebuild is {} ahead", world.updates.get() - before);
    world.faults[0].set(Fault::None);
    (0..10_000).for_each(|_| world.turn());
    assert!(world.updates.get() >= before + 3, "both take the next one");
    world.write(0, 1000).expect("it ends").expect("all is well again");
}

/// R57: a member two updates behind would count as away. The update that it must not miss is not made.
#[test]
fn writes_fail_while_a_member_that_must_stay_would_miss_a_second_update() {
    let mut world = World::with_members(Level::Raid5, 3, |_| ());
    world.recorder.rewrites.set(true);
    let fail = Command::Fail(MemberId(2));
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, fail).expect("two are left");
    world.write(0, 1000).expect("it ends").expect("all is well");
    world.faults[1].set(Fault::Refuses);
    // The array becomes clean: the first member takes that.
    (0..10_000).for_each(|_| world.turn());
    assert_eq!(world.array.status().superblock_refused, None);
    world.write(0, 1000).expect("it ends").expect_err("the second one is an update behind");
    let before = world.updates.get();
    world.write(0, 1000).expect("it ends").expect_err("still");
    assert_eq!(
        (world.updates.get(), world.array.status().superblock_refused.map(|error| error.to_string())),
        (before, Some("refused".into()))
    );
    let refusals: Vec<Event> = world.array.take_events();
    let is_of_second = |event: &&Event| matches!(event, Event::SuperblockRefused { member: MemberId(1), .. });
    assert_eq!(refusals.iter().filter(is_of_second).count(), 1);
    world.faults[1].set(Fault::None);
    (0..10_000).for_each(|_| world.turn());
    assert_eq!(world.array.status().superblock_refused, None);
    world.write(0, 1000).expect("it ends").expect("all is well again");
}

#[test]
fn a_stop_says_that_superblocks_are_not_clean() {
    let stop = |world: &mut World| {
        support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, Command::Stop)
    };
    let mut world = World::new(Vec::new());
    world.write(0, 1000).expect("it ends").expect("all is well");
    (0..2).for_each(|member| world.faults[member].set(Fault::Refuses));
    let refusal = stop(&mut world).expect_err("they say \"dirty\"");
    assert_eq!(world.array.stop_refusal(), Some(refusal));
    let mut world = World::new(Vec::new());
    world.write(0, 1000).expect("it ends").expect("all is well");
    stop(&mut world).expect("clean");
    assert!(world.array.has_stopped() && world.array.stop_refusal().is_none());
}

/// R73: the list on the drive still names rows that were written, as the new one has no space.
#[test]
fn flushes_fail_while_a_list_without_space_names_what_was_written() {
    let mut world = World::of(Level::Raid0, vec![MemberSector::new(32)..MemberSector::new(48)]);
    world.recorder.full.set(true);
    let flush = |world: &mut World| world.ask(0, 0, Operation::Flush, 1000).expect("it ends");
    world.write(0, 1000).expect("it ends").expect("nothing bad there");
    flush(&mut world).expect("the list is the one on the drive");
    world.write(80, 1000).expect("it ends").expect("a flush will tell");
    flush(&mut world).expect_err("after a crash the old list would make it unreadable");
    let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
    world.ask(80, 8, Operation::Write { from, fua: true }, 1000).expect("it ends").expect_err("FUA promises what a flush does");
    world.recorder.full.set(false);
    (0..5000).for_each(|_| world.turn());
    flush(&mut world).expect("it is listed");
    assert_eq!(
        world.recorder.lists.borrow().last().map(|list| list.as_slice()),
        Some(&[MemberSector::new(40)..MemberSector::new(48)][..])
    );
}

/// R52: both were written at once. The drive may have an old list in that place, which names rows that are good.
#[test]
fn no_superblock_speaks_of_a_list_that_was_not_written() {
    let mut world = World::of(Level::Raid0, vec![MemberSector::new(32)..MemberSector::new(48)]);
    world.write(0, 1000).expect("it ends").expect("nothing bad there");
    world.faults[1].set(Fault::NoLists);
    let before = world.updates.get();
    world.write(80, 1000).expect("it ends").expect("a flush will tell");
    world.ask(0, 0, Operation::Flush, 1000).expect("it ends").expect_err("the list is not written");
    assert_eq!(world.updates.get(), before, "no superblock");
    world.faults[1].set(Fault::None);
    (0..5000).for_each(|_| world.turn());
    assert_eq!(world.updates.get(), before + 2, "the list and the superblock");
    world.ask(0, 0, Operation::Flush, 1000).expect("it ends").expect("the list is there");
}

#[test]
fn a_flush_says_that_a_list_could_not_be_written() {
    let rows = || MemberSector::new(32)..MemberSector::new(40);
    let mut world = World::new(vec![rows()]);
    world.write(0, 1000).expect("it ends").expect("nothing bad there");
    let fail = Command::Fail(MemberId(0));
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, fail).expect("one is left");
    world.write(0, 1000).expect("it ends").expect("the superblock says \"dirty\"");
    world.faults[1].set(Fault::Refuses);
    world.write(32, 1000).expect("it ends").expect("its chunk has its bit");
    world.ask(0, 0, Operation::Flush, 1000).expect("it ends").expect_err("a crash would leave these rows unreadable");
    let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
    let write = Operation::Write { from, fua: true };
    world.ask(32, 8, write, 1000).expect("it ends").expect_err("FUA promises what a flush does");
    world.faults[1].set(Fault::None);
    // The list is written again by itself.
    for _ in 0..5000 {
        world.turn();
    }
    world.ask(0, 0, Operation::Flush, 1000).expect("it ends").expect("the list is there");
}

/// A RAID 5 of three that lacks the third, of which the second takes no write of data any more. Such a write has failed.
fn half_written(fault: Fault, has_list: bool) -> World {
    let mut world = World::with_members(Level::Raid5, 3, |_| ());
    let fail = Command::Fail(MemberId(2));
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, fail).expect("two are left");
    // The third stripe has parity on the first member, and this strip on the second.
    world.write(64, 1000).expect("it ends").expect("all is well");
    world.recorder.full.set(!has_list);
    world.faults[1].set(fault);
    world.write(64, 1000).expect("it ends").expect_err("the member that must stay takes nothing");
    assert_eq!(world.array.status().members[1].bad_sectors, 8);
    world
}

/// R21: "clean" voids the log. Its record of the write is all that makes up for rows that are bad and not listed: at the next
/// start the missing strip beside them would be recovered from old data and new parity.
#[test]
fn superblocks_are_not_clean_while_a_list_lacks_rows_that_are_half_written() {
    for (fault, has_list) in [(Fault::ReadOnly, true), (Fault::NoData, false)] {
        let mut world = half_written(fault, has_list);
        (0..20_000).for_each(|_| world.turn());
        assert!(!world.recorder.clean.get(), "the log is void");
        world.faults[1].set(Fault::None);
        world.recorder.full.set(false);
        (0..20_000).for_each(|_| world.turn());
        assert!(world.recorder.clean.get(), "the list is written");
    }
}

/// R21, R72: the record of the write was retired, as the list that has no space for its rows names no others.
#[test]
fn a_flush_fails_while_a_list_has_no_space_for_rows_that_are_half_written() {
    let mut world = half_written(Fault::NoData, false);
    world.faults[1].set(Fault::None);
    let flush = |world: &mut World| world.ask(0, 0, Operation::Flush, 1000).expect("it ends");
    flush(&mut world).expect_err("after a restart these rows would count as good");
    world.recorder.full.set(false);
    (0..5000).for_each(|_| world.turn());
    flush(&mut world).expect("they are listed");
}

/// R8: the flush that made superblocks clean had the error, and the next flush of a client succeeded.
#[test]
fn a_flush_that_a_member_which_must_stay_has_failed_is_told_to_the_next_client() {
    let mut world = World::on_drives(Level::Raid1, 2, true, |_| ());
    let fail = Command::Fail(MemberId(1));
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, fail).expect("one is left");
    let flush = |world: &mut World| world.ask(0, 0, Operation::Flush, 1000).expect("it ends");
    for _ in 0..2 {
        world.write(0, 1000).expect("it ends").expect("all is well");
        world.faults[0].set(Fault::FailsFlush);
        (0..20_000).for_each(|_| world.turn());
        assert!(world.faults[0].get() == Fault::None, "superblocks are written after a flush");
        flush(&mut world).expect_err("what was written may be lost");
        flush(&mut world).expect("that was told");
        world.faults[0].set(Fault::FailsFlush);
        flush(&mut world).expect_err("its own");
        flush(&mut world).expect("that was told, too");
    }
}
