//! Goal: a sweep loses nothing that a member still holds, whatever fails beside it.
//! Method: members of noise are filled and compared while others cannot be read or are pulled.

mod support;
use std::cell::Cell;
use std::rc::Rc;
use stria_array::*;
use stria_block::*;
use support::nowhere::Nowhere;
use support::*;

const SECTORS: u64 = 16384;
const STRIP: u64 = 16;
const PAGE: u64 = 8;

fn config(level: Level, members: usize) -> ArrayConfig {
    let geometry = Geometry::new(level, level.default_layout(), STRIP, &vec![SECTORS; members]).expect("good");
    ArrayConfig::optimal("test", geometry)
}

/// Empties slot 1, and has slot `replaced` replaced by another member. The handles then are those of the slots that are left, in
/// their order.
fn replacing(mut config: ArrayConfig, replaced: usize) -> (ArrayConfig, MemberId, MemberId) {
    config.slots[1].member = None;
    let members = config.slots.iter_mut().filter_map(|slot| slot.member.as_mut());
    let count = members.zip(0..).map(|(member, id)| member.id = MemberId(id)).count();
    let source = config.slots[replaced].member.as_ref().expect("it is there").id;
    let replacement = MemberConfig { recovered: Synced::up_to(0), ..MemberConfig::in_sync(MemberId(count), SECTORS) };
    config.slots[replaced].replacement = Some(replacement);
    (config, source, MemberId(count))
}

fn fill_with_noise(world: &mut World, member: MemberId) {
    let noise = world.pattern(SECTORS);
    world.rams[member.0].0.borrow_mut().memory_mut().copy_from_slice(&noise);
}

fn content(world: &World, member: MemberId) -> Vec<u8> {
    world.rams[member.0].0.borrow().memory().to_vec()
}

fn state(world: &World, member: MemberId) -> (MemberState, u64) {
    let status = world.status();
    (status.members[member.0].state, status.members[member.0].bad_sectors)
}

fn unreadable(rows: std::ops::Range<u64>) -> FaultPlan {
    FaultPlan { bad: vec![(rows, FaultKind::Read)], gone: false }
}

#[test]
fn a_replacement_is_copied_where_another_slot_is_unreadable() {
    for level in [Level::Raid4, Level::Raid5] {
        let (config, source, copy) = replacing(config(level, 4), 2);
        let mut world = World::of(&config, 1, 1);
        fill_with_noise(&mut world, source);
        let other = config.slots[3].member.as_ref().expect("it is there").id;
        *world.faults[other.0].borrow_mut() = unreadable(5 * PAGE..7 * PAGE);
        world.run_until("copied", |status| status.slots[2] == Some(copy) && status.sweep.is_none());
        assert_eq!(state(&world, copy), (MemberState::InSync, 0), "{level}");
        assert!(content(&world, copy) == content(&world, source), "{level}: the copy is one");
    }
}

/// Runs until the sweep has read an eighth of a member, pulls it, and runs on until the sweep has stopped.
fn pull_during_sweep(world: &mut World, member: MemberId) {
    world.run_until("an eighth", |status| status.members[member.0].read_sectors > SECTORS / 8);
    world.faults[member.0].borrow_mut().gone = true;
    world.run_until("ended", |status| status.health == Health::Failed && status.sweep.is_none());
    while world.now < 100_000_000_000 && world.step() {}
}

/// The array is served again with the member that was pulled: what it holds must not count as lost.
#[test]
fn a_rebuild_ends_when_a_member_that_it_needs_is_pulled() {
    for (level, lanes) in [(Level::Raid1, 1), (Level::Raid5, 1), (Level::Raid1, 2), (Level::Raid5, 2), (Level::Raid6, 1)] {
        let slots = 2 + level.parity_count();
        let mut config = config(level, slots);
        for filled in 1..2.max(1 + level.parity_count()) {
            config.slots[filled].member.as_mut().expect("it is there").recovered = Synced::up_to(0);
        }
        let mut world = World::of(&config, 1, lanes);
        (0..slots).for_each(|member| fill_with_noise(&mut world, MemberId(member)));
        pull_during_sweep(&mut world, MemberId(0));
        let what = format!("{level} on {lanes} lanes");
        assert_eq!(state(&world, MemberId(1)), (MemberState::Rebuilding, 0), "{what}");
        assert_eq!(state(&world, MemberId(0)), (MemberState::InSync, 0), "{what}");
    }
}

#[test]
fn a_replaced_member_that_is_pulled_keeps_its_slot() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let (config, source, copy) = replacing(config(level, members), 0);
        let mut world = World::of(&config, 1, 1);
        fill_with_noise(&mut world, source);
        pull_during_sweep(&mut world, source);
        assert_eq!(state(&world, copy), (MemberState::Replacing, 0), "{level}");
        assert_eq!(state(&world, source), (MemberState::InSync, 0), "{level}");
    }
}

#[test]
fn a_resync_ends_when_too_many_members_are_pulled() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let mut world = World::of(&ArrayConfig { synced: Synced::up_to(0), ..config(level, members) }, 1, 1);
        world.faults[1].borrow_mut().gone = true;
        pull_during_sweep(&mut world, MemberId(0));
        assert_ne!(world.status().synced, Synced::All, "{level}");
    }
}

#[test]
fn what_a_replaced_member_could_not_read_is_read_again_before_it_is_let_go() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let (config, source, copy) = replacing(config(level, members), 0);
        let mut world = World::of(&config, 1, 1);
        fill_with_noise(&mut world, source);
        *world.faults[source.0].borrow_mut() = unreadable(5 * PAGE..7 * PAGE);
        world.run_until("passed over", |status| status.members[copy.0].bad_sectors == 2 * PAGE);
        *world.faults[source.0].borrow_mut() = FaultPlan::default();
        world.run_until("copied", |status| status.slots[0] == Some(copy) && status.sweep.is_none());
        assert_eq!(state(&world, copy), (MemberState::InSync, 0), "{level}");
        assert!(content(&world, copy) == content(&world, source), "{level}: the copy is one");
    }
}

/// R51: the members hold noise, so parity fits nowhere until a rebuild or a resync has been there. A rebuild begins at the start
/// of a window.
#[test]
fn a_rebuild_that_goes_on_leaves_the_resync_that_is_due() {
    for (level, members) in [(Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid5, 4)] {
        for (filled, lanes) in
            [0, 1, PAGE, 5 * STRIP + 3, 1024, 2048 + PAGE, SECTORS].into_iter().flat_map(|at| [(at, 1), (at, 2)])
        {
            let mut config = ArrayConfig { synced: Synced::up_to(0), ..config(level, members) };
            config.slots[1].member.as_mut().expect("it is there").recovered = Synced::UpTo(MemberSector::new(filled));
            let mut world = World::of(&config, 1, lanes);
            (0..members).for_each(|member| fill_with_noise(&mut world, MemberId(member)));
            world.run_until("consistent", |status| status.synced == Synced::All && status.sweep.is_none());
            let what = format!("{level} of {members} on {lanes} lanes, filled to {filled}");
            assert_eq!(state(&world, MemberId(1)), (MemberState::InSync, 0), "{what}");
            let held: Vec<Vec<u8>> = (0..members).map(|member| content(&world, MemberId(member))).collect();
            let wrong = (0..bytes(SECTORS)).find(|&at| held.iter().fold(0, |sum, member| sum ^ member[at]) != 0);
            assert_eq!(wrong, None, "{what}: parity");
        }
    }
}

/// R51: the sweep begins at the first row for the sake of the replacement. The other member is half full.
#[test]
fn a_replacement_beside_a_rebuild_that_goes_on_leaves_the_resync_that_is_due() {
    for (lanes, filled) in [(1, 1024), (2, 1024), (2, 8192), (4, 8192)] {
        let mut config = ArrayConfig { synced: Synced::up_to(0), ..config(Level::Raid5, 4) };
        config.slots[1].member.as_mut().expect("it is there").recovered = Synced::UpTo(MemberSector::new(filled));
        let replacement = MemberConfig { recovered: Synced::up_to(0), ..MemberConfig::in_sync(MemberId(4), SECTORS) };
        config.slots[0].replacement = Some(replacement);
        let mut world = World::of(&config, 1, lanes);
        (0..5).for_each(|member| fill_with_noise(&mut world, MemberId(member)));
        world.run_until("consistent", |status| {
            status.synced == Synced::All && status.sweep.is_none() && status.slots[0] == Some(MemberId(4))
        });
        let held: Vec<Vec<u8>> = (1..5).map(|member| content(&world, MemberId(member))).collect();
        let wrong = (0..bytes(SECTORS)).find(|&at| held.iter().fold(0, |sum, member| sum ^ member[at]) != 0);
        assert_eq!(wrong, None, "filled to {filled}, on {lanes} lanes: parity");
    }
}

/// Rows of a member that is back by the bitmap were bad before it left, and what lies there has not changed since.
#[test]
fn bad_blocks_of_a_member_that_is_back_are_filled_once_it_is_in_sync() {
    for (level, members, lanes) in [(Level::Raid1, 2, 1), (Level::Raid5, 3, 1), (Level::Raid5, 3, 2)] {
        let mut config = config(level, members);
        config.intent = Some(IntentConfig { chunk_sectors: 128, dirty: Vec::new() });
        let back = config.slots[1].member.as_mut().expect("it is there");
        (back.recovered, back.by_bitmap) = (Synced::up_to(0), true);
        back.bad_blocks = vec![MemberSector::new(5 * PAGE)..MemberSector::new(7 * PAGE)];
        let mut world = World::of(&config, 1, lanes);
        fill_with_noise(&mut world, MemberId(0));
        world.run_until("filled", |status| status.members[1].state == MemberState::InSync && status.members[1].bad_sectors == 0);
        let at = bytes(5 * PAGE)..bytes(7 * PAGE);
        assert!(content(&world, MemberId(1))[at.clone()] == content(&world, MemberId(0))[at], "{level} on {lanes} lanes");
    }
}

/// A monthly scrub may take days. A second failure in that time would lose data.
#[test]
fn a_scrub_gives_way_to_a_rebuild_and_goes_on_after_it() {
    for lanes in [1, 2] {
        for replaces in [false, true] {
            let mut config = config(Level::Raid5, 3);
            config.spares = vec![MemberConfig::in_sync(MemberId(3), SECTORS)];
            let mut world = World::of(&config, 1, lanes);
            world.rams[0].0.borrow_mut().memory_mut()[..bytes(PAGE)].fill(0xaa);
            world.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_speed(None, Some(SECTORS / 64))));
            world.carry_out(Command::Scrub { repair: false, from_sector: 0 }).expect("nothing else runs");
            world.run_until("a quarter", |status| status.members[1].read_sectors > SECTORS / 4);
            let command = match replaces {
                false => Command::Fail(MemberId(1)),
                true => Command::Replace { member: MemberId(1), spare: MemberId(3) },
            };
            world.carry_out(command).expect("it can be spared");
            let (mut merged, mut told) = (LaneEvents::new(lanes), Vec::new());
            for _ in 0..1_000_000 {
                let goes_on = world.step();
                for (lane, device) in world.lanes.iter().enumerate() {
                    told.extend(device.take_events().into_iter().flat_map(|event| merged.merge(lane, event, false)));
                }
                if told.iter().any(|event| matches!(event, Event::SweepFinished { kind: SweepKind::Scrub { .. }, .. })) {
                    break;
                }
                assert!(goes_on, "nothing happens any more: {told:?}");
            }
            let place =
                |what: &dyn Fn(&Event) -> bool| told.iter().position(what).unwrap_or_else(|| panic!("missing in {told:?}"));
            let stopped = place(&|event| matches!(event, Event::SweepStopped { goes_on: true, .. }));
            let in_sync = place(&|event| matches!(event, Event::MemberInSync { member: MemberId(3), slot: 1 }));
            let finished = place(&|event| matches!(event, Event::SweepFinished { kind: SweepKind::Scrub { .. }, .. }));
            assert!(stopped < in_sync && in_sync < finished, "{lanes} lanes: {told:?}");
            assert_eq!(
                world.status().last_scrub.map(|found| found.mismatch_sectors),
                Some(PAGE),
                "{lanes} lanes: what was found before it gave way counts"
            );
        }
    }
}

/// The lanes of an array are at different positions. What is named must leave out nothing that one of them has not compared.
#[test]
fn a_cancelled_scrub_names_a_position_from_which_the_next_finds_all_the_rest() {
    for (fast, slow) in [(0, 1), (1, 0)] {
        let mut world = World::of(&config(Level::Raid5, 3), 1, 2);
        // Noise in a stripe of the slow lane, which the fast one has passed.
        let slow_rows = |row: &u64| row / STRIP % 2 == slow as u64;
        let row = (0..SECTORS).step_by(STRIP as usize).filter(slow_rows).nth(40).expect("there are many");
        world.rams[0].0.borrow_mut().memory_mut()[bytes(row)..bytes(row + PAGE)].fill(0xaa);
        world.lanes[slow].with_engine(|engine| engine.set_speed(None, Some(SECTORS / 64)));
        world.lanes[fast].with_engine(|engine| engine.set_speed(None, Some(SECTORS / 4)));
        world.carry_out(Command::Scrub { repair: false, from_sector: 0 }).expect("nothing else runs");
        while world.lanes[fast].status().sweep.is_none_or(|sweep| sweep.done_sectors < SECTORS / 2) {
            assert!(world.step());
        }
        let (mut merged, mut told) = (LaneEvents::new(2), Vec::new());
        world.carry_out(Command::CancelScrub).expect("it runs");
        while told.is_empty() {
            assert!(world.step());
            for (lane, device) in world.lanes.iter().enumerate() {
                let events = device.take_events().into_iter().flat_map(|event| merged.merge(lane, event, false));
                told.extend(events.filter(|event| matches!(event, Event::SweepStopped { .. })));
            }
        }
        let [Event::SweepStopped { cause: StopCause::Cancelled { percent }, at_sector, .. }] = &told[..] else {
            panic!("{told:?}")
        };
        let from_sector = *at_sector;
        world.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_speed(None, Some(u64::MAX))));
        world.carry_out(Command::Scrub { repair: false, from_sector }).expect("nothing else runs");
        world.run_until("compared", |status| status.sweep.is_none() && status.last_scrub.is_some());
        assert_eq!(
            world.status().last_scrub.map(|found| found.mismatch_sectors),
            Some(PAGE),
            "lane {fast} was ahead, at {percent} %"
        );
    }
}

/// A member with a volatile cache, whose flushes fail while `fails` is true.
struct Cached {
    ram: RamDevice,
    limits: Limits,
    fails: Rc<Cell<bool>>,
    ended: Vec<Completion>,
}

impl BlockDevice for Cached {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        match self.fails.get() && matches!(request.operation, Operation::Flush) {
            true => self.ended.push(request.complete(Err(IoError::new(ErrorKind::Failed, "the cache does not answer")))),
            false => self.ram.submit(request),
        }
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        if self.ended.is_empty() { self.ram.next_wake() } else { Some(0) }
    }
}

/// R18: the rebuilding member takes part in the log, and the log begins after a flush of members that the array needs.
#[test]
fn a_rebuild_that_could_not_open_the_write_log_is_tried_again() {
    let mut config = config(Level::Raid5, 3);
    config.slots[2].member.as_mut().expect("it is there").recovered = Synced::up_to(0);
    config.log = Some(LogConfig { append_sectors_max: 1024, new_data_sectors_max: NEW_DATA_SECTORS_MAX, newest_only: false });
    let fails = Rc::new(Cell::new(true));
    let device = |member| {
        let ram = RamDevice::new(Nowhere::START + 64);
        let limits = Limits { volatile_cache: member == 0, ..ram.limits().clone() };
        Box::new(Cached { ram, limits, fails: Rc::clone(&fails), ended: Vec::new() }) as Box<dyn BlockDevice>
    };
    let mut array = ArrayDevice::new(&config, (0..3).map(device).collect(), Nowhere::default(), 0);
    let (mut now, mut told) = (0, Vec::new());
    while array.status().members[2].state != MemberState::InSync {
        array.poll(now, &mut Vec::new());
        told.extend(array.take_events());
        now = array.next_wake().unwrap_or(now + 1_000_000).max(now);
        // The member flushes again after half a minute.
        fails.set(now < 30_000_000_000);
        assert!(now < 100_000_000_000, "{told:?}");
    }
    let stops = told.iter().filter(|event| matches!(event, Event::SweepStopped { kind: SweepKind::Rebuild, .. })).count();
    assert!((1..10).contains(&stops), "now and then an event says why: {told:?}");
    // A stop does not wait for the next attempt.
    fails.set(true);
    let mut array = ArrayDevice::new(&config, (0..3).map(device).collect(), Nowhere::default(), 0);
    let mut now = 0;
    while array.take_events().is_empty() {
        array.poll(now, &mut Vec::new());
        now += 1_000_000;
    }
    let stop = array.begin(Command::Stop);
    let begun = now;
    while array.take_answer(stop).is_none() {
        array.poll(now, &mut Vec::new());
        now += 1_000_000;
        assert!(now < begun + 1_000_000_000, "it takes a second");
    }
}

/// A scrub of a RAID 5 that lacked a member ended with no mismatch, and the page ticked it.
#[test]
fn a_scrub_tells_what_it_had_nothing_to_compare_with() {
    // Of the sync space, with one member lost: of copies on four members every other pair is left, of three copies two.
    let levels =
        [(Level::Raid1, 2, 1.0), (Level::Raid1, 3, 0.0), (Level::Raid10, 4, 0.5), (Level::Raid5, 4, 1.0), (Level::Raid6, 5, 1.0)];
    for (level, members, unchecked) in levels {
        for lanes in [1, 2] {
            let mut world = World::of(&config(level, members), 1, lanes);
            let what = format!("{level} of {members} on {lanes} lanes");
            assert_eq!(world.findings_of_scrub(false), Findings::default(), "{what}, whole");
            world.fail(1).expect("it can be spared");
            let wanted = (world.geometry.sync_sectors() as f64 * unchecked) as u64;
            let found = Findings { mismatch_sectors: 0, unchecked_sectors: wanted };
            assert_eq!(world.findings_of_scrub(false), found, "{what}, degraded");
            assert_eq!(world.status().last_scrub, Some(found), "{what}");
        }
    }
}

/// Of rows that are bad blocks of every copy, or of more strips than parity replaces, nothing is read at all.
#[test]
fn a_scrub_counts_what_no_member_holds_any_more() {
    // 128 KiB: the rows that a scrub compares at once.
    const WINDOW: u64 = 256;
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        for lanes in [1, 2] {
            let mut config = config(level, members);
            for slot in &mut config.slots[..2] {
                slot.member.as_mut().expect("it is there").bad_blocks = vec![MemberSector::new(0)..MemberSector::new(WINDOW)];
            }
            let mut world = World::of(&config, 1, lanes);
            let found = Findings { mismatch_sectors: 0, unchecked_sectors: WINDOW };
            assert_eq!(world.findings_of_scrub(false), found, "{level} on {lanes} lanes");
        }
    }
}

/// All at once, as the world's time moves on to the next event with each answer that is waited for.
fn read_all(world: &mut World) -> Vec<u8> {
    let read = || Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(256))).collect() };
    let starts = (0..world.geometry.capacity_sectors()).step_by(256);
    let tags: Vec<Tag> = starts.map(|start| world.submit(start, 256, read())).collect();
    let read = |completion: Completion| {
        completion.result.expect("redundancy is left");
        let Operation::Read { into } = completion.operation else { panic!("a read comes back as a read") };
        into[0].to_vec()
    };
    tags.into_iter().flat_map(|tag| read(world.wait(tag))).collect()
}

/// The first resync of large members takes a day. A second failure in that time would lose data.
#[test]
fn a_resync_gives_way_to_a_rebuild_and_goes_on_after_it() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for lanes in [1, 2] {
            for replaces in [false, true] {
                let mut config = ArrayConfig { synced: Synced::up_to(0), ..config(level, members) };
                let spare = MemberId(members);
                config.spares = vec![MemberConfig::in_sync(spare, SECTORS)];
                let mut world = World::of(&config, 1, lanes);
                let what = format!("{level} on {lanes} lanes, replaces: {replaces}");
                (0..members).for_each(|member| fill_with_noise(&mut world, MemberId(member)));
                world.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_speed(None, Some(SECTORS / 64))));
                world.run_until("a quarter", |status| status.members[0].read_sectors > SECTORS / 4);
                let command = match replaces {
                    false => Command::Fail(MemberId(1)),
                    true => Command::Replace { member: MemberId(1), spare },
                };
                world.carry_out(command).expect("it can be spared");
                // What clients read meanwhile stays.
                let before = read_all(&mut world);
                world.run_until("in sync", |status| status.members[spare.0].state == MemberState::InSync);
                let done = world.status();
                // R51: with one parity the rebuild of a lost member does what the resync would have done.
                let is_done = level == Level::Raid5 && !replaces;
                assert!(is_done || done.synced != Synced::All, "{what}: the rebuild came last");
                world.run_until("consistent", |status| status.synced == Synced::All && status.sweep.is_none());
                assert!(read_all(&mut world) == before, "{what}: what was read has changed");
                assert_eq!(world.scrub(false), 0, "{what}");
            }
        }
    }
}

/// Counts the sectors that requests of its device hold, with those of other devices.
struct Counted<D> {
    inner: D,
    /// Now, and the most so far.
    held: Rc<Cell<(u64, u64)>>,
    sizes: std::collections::BTreeMap<Tag, u64>,
}

impl<D: BlockDevice> BlockDevice for Counted<D> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
    fn submit(&mut self, request: Request) {
        let (now, most) = self.held.get();
        let now = now + request.sectors;
        self.held.set((now, most.max(now)));
        self.sizes.insert(request.tag, request.sectors);
        self.inner.submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.inner.poll(now, completions);
        for completion in &completions[before..] {
            let (now, most) = self.held.get();
            let size = self.sizes.remove(&completion.tag).expect("it was submitted");
            self.held.set((now - size, most));
        }
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.inner.next_wake()
    }
}

/// 32 windows of 128 KiB of each member, whatever the strip.
#[test]
fn the_memory_of_a_sweep_does_not_grow_with_the_strip() {
    const SECTORS: u64 = 1 << 16;
    for (level, members) in [(Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 4)] {
        for strip in [16, 256, 1 << 13, 1 << 15] {
            for kind in [SweepKind::Resync, SweepKind::Rebuild, SweepKind::Scrub { repair: true }] {
                let geometry = Geometry::new(level, level.default_layout(), strip, &vec![SECTORS; members]).expect("good");
                let mut config = ArrayConfig::optimal("test", geometry);
                match kind {
                    SweepKind::Resync => config.synced = Synced::up_to(0),
                    SweepKind::Rebuild => config.slots[1].member.as_mut().expect("there").recovered = Synced::up_to(0),
                    SweepKind::Scrub { .. } => {}
                }
                let held = Rc::new(Cell::new((0, 0)));
                let device = |seed| {
                    let mut ram = RamDevice::new(SECTORS);
                    Chance::from_state(seed).fill(ram.memory_mut());
                    let (inner, held) = (LateDevice::new(ram, seed), Rc::clone(&held));
                    Box::new(Counted { inner, held, sizes: Default::default() }) as Box<dyn BlockDevice>
                };
                let mut array = ArrayDevice::new(&config, (0..members as u64).map(device).collect(), NoMetadata, 0);
                if kind == (SweepKind::Scrub { repair: true }) {
                    array.begin(Command::Scrub { repair: true, from_sector: 0 });
                }
                let (mut now, mut is_done) = (0, false);
                while !is_done {
                    array.poll(now, &mut Vec::new());
                    let ends = |event: Event| matches!(event, Event::SweepFinished { kind: ended, .. } if ended == kind);
                    is_done = array.take_events().into_iter().any(ends);
                    now = array.next_wake().unwrap_or(now + 1).max(now);
                }
                let most = held.get().1;
                assert!(most <= 32 * 256 * members as u64, "{level}, strip of {strip}, {kind:?}: {most} sectors at once");
                assert!(most > 256, "{level}, strip of {strip}, {kind:?}: {most} sectors at once");
            }
        }
    }
}
