//! One array on several lanes, in one thread: requests come in on any of them, members fail under all of them.

mod support;
use stria_array::Synced;
use stria_array::*;
use stria_block::{BlockDevice, Buffer, Operation, Request, bytes};
use support::*;

fn each(name: &str, counts: std::ops::Range<usize>, test: impl FnMut(&mut World)) {
    each_on(|count, index| 2 + (count + index) % 3, name, counts, test);
}

#[test]
fn what_one_lane_wrote_all_read() {
    each("write and read", 1..8, write_and_read);
}

#[test]
fn members_that_one_lane_drops_are_dropped_by_all_and_spares_take_over() {
    each("fail and rebuild", 2..7, |world| {
        let losses = world.geometry.losses_survived();
        world.traffic(5);
        for _ in 0..losses.min(2) {
            let slots = world.status().slots;
            let Some(victim) = slots[world.chance.below(slots.len() as u64) as usize] else { continue };
            if world.chance.one_in(2) {
                world.faults[victim.0].borrow_mut().gone = true;
                world.traffic(5);
            }
            let _ = world.fail(victim.0);
            world.traffic(5);
            let failed = |lane: &ArrayDevice<NoMetadata>| lane.status().members[victim.0].state == MemberState::Failed;
            assert!(world.lanes.iter().all(failed), "all lanes know that member {} is out", victim.0);
        }
        if losses > 0 {
            world.check_all("while degraded or rebuilding");
            world.run_until_rebuilt();
            let slots: Vec<_> = world.lanes.iter().map(|lane| lane.status().slots).collect();
            assert!(slots.iter().all(|lane| *lane == slots[0]), "all lanes agree on who holds which role: {slots:?}");
            world.traffic(5);
            world.check_all("after the rebuild");
            assert_eq!(world.scrub(false), 0);
        }
    });
}

#[test]
fn a_member_is_replaced_under_load() {
    each("replace", 2..6, |world| {
        if !world.geometry.level().is_redundant() {
            return;
        }
        world.traffic(5);
        let spare = MemberId(world.geometry.slot_count());
        world.carry_out(Command::Replace { member: MemberId(0), spare }).expect("both are there");
        world.traffic(5);
        world.run_until_rebuilt();
        assert!(world.lanes.iter().all(|lane| lane.status().slots[0] == Some(spare)));
        world.check_all("after the replacement");
        assert_eq!(world.scrub(false), 0);
    });
}

/// A lane may be told of the replacement before it has heard that its member is in sync.
#[test]
fn a_member_is_replaced_as_soon_as_it_is_in_sync() {
    let mut behind = 0;
    each("replace a member that was just rebuilt", 2..6, |world| {
        if !world.geometry.level().is_redundant() {
            return;
        }
        world.traffic(5);
        let first = MemberId(world.geometry.slot_count());
        let second = MemberId(first.0 + 1);
        // Once the slot is filled from parity or a copy, and once a replacement takes it.
        match world.chance.one_in(2) {
            true => world.fail(0).expect("it can be spared"),
            false => world.carry_out(Command::Replace { member: MemberId(0), spare: first }).expect("both are there"),
        }
        let is_in_sync = |lane: &ArrayDevice<NoMetadata>| {
            lane.status().slots[0] == Some(first) && lane.status().members[first.0].state == MemberState::InSync
        };
        for _ in 0..1_000_000 {
            world.lanes[0].poll(world.now, &mut Vec::new());
            if is_in_sync(&world.lanes[0]) {
                break;
            }
            world.lanes[1..].iter_mut().for_each(|lane| lane.poll(world.now, &mut Vec::new()));
            let due = world.lanes.iter().filter_map(ArrayDevice::next_wake).min();
            world.now = due.expect("the rebuild goes on").max(world.now);
        }
        assert!(is_in_sync(&world.lanes[0]));
        behind += usize::from(!world.lanes[1..].iter().all(is_in_sync));
        world.carry_out(Command::Replace { member: first, spare: second }).expect("both are there");
        world.run_until_rebuilt();
        assert!(world.lanes.iter().all(|lane| lane.status().slots[0] == Some(second)));
        world.check_all("after the replacement");
        assert_eq!(world.scrub(false), 0);
    });
    assert!(behind > 20, "other lanes heard of it later {behind} times");
}

#[test]
fn a_resync_is_divided_between_lanes() {
    each("resync", 2..6, |world| {
        if !world.geometry.level().is_redundant() {
            return;
        }
        world.traffic(5);
        world.carry_out(Command::Stop).expect("it can be stopped");
        assert!(world.lanes.iter().all(|lane| lane.with_engine(|engine| engine.is_stopped())), "all lanes stop");
        let mut after = World::on_lanes(world.geometry.clone(), 0, 7, None, Synced::up_to(0), world.lanes.len());
        // Copies and parity that are inconsistent everywhere.
        for ram in &after.rams {
            let noise = after.chance.any() as u8;
            ram.0.borrow_mut().memory_mut().fill(noise);
        }
        after.run_until("resync", |status| status.synced == Synced::All && status.sweep.is_none());
        assert_eq!(after.scrub(false), 0);
    });
}

/// Lanes from 1 on each drop a member that the others still count on, before any hears of another's drop. With one lane the last
/// of these members would keep its slot.
fn lanes_drop_one_each(world: &mut World, victims: &[usize]) {
    for (lane, &victim) in (1..).zip(victims) {
        world.faults[victim].borrow_mut().gone = true;
        let from = std::iter::once(Buffer::zeroed(bytes(world.geometry.capacity_sectors())).freeze()).collect();
        let sectors = world.geometry.capacity_sectors();
        world.lanes[lane].submit(Request {
            tag: 1 << 40 | lane as u64,
            start_sector: 0,
            sectors,
            operation: Operation::Write { from, fua: false },
        });
        let has_dropped = |lane: &ArrayDevice<NoMetadata>| lane.status().members[victim].state == MemberState::Failed;
        for _ in 0..10_000 {
            world.lanes[lane].poll(world.now, &mut Vec::new());
            if has_dropped(&world.lanes[lane]) {
                break;
            }
            world.now = world.lanes[lane].next_wake().unwrap_or(world.now).max(world.now + 1000);
        }
        assert!(has_dropped(&world.lanes[lane]), "lane {lane} drops member {victim}");
        world.faults[victim].borrow_mut().gone = false;
    }
    for _ in 0..100 {
        world.step();
    }
}

#[test]
fn an_array_whose_lanes_have_dropped_too_much_says_yes_to_nothing() {
    // Of 5 and 7 the members of the first strip and its parity are left: a small write needs no other.
    for (level, slots, victims) in [
        (Level::Raid1, 2, &[0, 1][..]),
        (Level::Raid1, 3, &[0, 2]),
        (Level::Raid5, 3, &[0, 1]),
        (Level::Raid5, 5, &[2, 3]),
        (Level::Raid6, 7, &[1, 2, 3]),
        (Level::Raid10, 4, &[2, 3]),
    ] {
        for seed in 0..8 {
            let geometry = Geometry::new(level, level.default_layout(), 16, &vec![256; slots]).expect("good");
            let mut world = World::on_lanes(geometry, 0, seed, None, Synced::All, victims.len() + 1);
            // Of three copies the middle one is being filled.
            if slots == 3 && level == Level::Raid1 {
                let mut config = ArrayConfig::optimal("test", world.geometry.clone());
                config.slots[1].member.as_mut().expect("it is there").recovered = Synced::up_to(0);
                world = World::of(&config, seed, 3);
                world.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.pause(true)));
            }
            let tag = world.write(0, world.geometry.capacity_sectors());
            world.wait(tag).result.expect("all is well");
            lanes_drop_one_each(&mut world, victims);
            assert_eq!(world.status().health, Health::Failed, "{level:?} of {slots}, {victims:?}");
            for lane in 0..world.lanes.len() {
                let mut ask = |operation: Operation, sectors: u64| {
                    let tag = 1 << 41 | world.chance.any() >> 30;
                    world.lanes[lane].submit(Request { tag, start_sector: 0, sectors, operation });
                    world.wait(tag).result
                };
                let error = ask(Operation::Flush, 0).expect_err("what only those took may be lost").to_string();
                assert!(error.contains("flush failed: more members have failed"), "{error}");
                for sectors in [8, 128] {
                    let from = std::iter::once(Buffer::zeroed(bytes(sectors)).freeze()).collect();
                    ask(Operation::Write { from, fua: false }, sectors).expect_err("the array has failed");
                }
                ask(Operation::Flush, 0).expect_err("that does not pass");
            }
            world.carry_out(Command::Stop).expect_err("it does not stop well");
        }
    }
}

/// Its own members took it, and the drops were durable before it ended.
#[test]
fn a_write_under_way_when_lanes_have_dropped_too_much_fails() {
    for (level, slots, victims) in [(Level::Raid5, 5, &[2, 3][..]), (Level::Raid6, 7, &[1, 2, 3]), (Level::Raid10, 4, &[2, 3])] {
        for seed in 0..8 {
            let geometry = Geometry::new(level, level.default_layout(), 16, &vec![256; slots]).expect("good");
            let mut world = World::on_lanes(geometry, 0, seed, None, Synced::All, victims.len() + 1);
            let tag = world.write(0, world.geometry.capacity_sectors());
            world.wait(tag).result.expect("all is well");
            // Lane 0 owns the first strips.
            world.holds_writes[0].set(true);
            let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
            world.lanes[0].submit(Request {
                tag: 1 << 41,
                start_sector: 0,
                sectors: 8,
                operation: Operation::Write { from, fua: false },
            });
            // 1 ms: what it reads is read, and the superblocks do not say "clean" yet.
            let until = world.now + 1_000_000;
            let has_more = |world: &World| {
                let due = world.lanes.iter().filter_map(ArrayDevice::next_wake).min();
                world.now < until && due.is_some_and(|due| due <= until)
            };
            for _ in 0..10_000 {
                if has_more(&world) {
                    world.step();
                }
            }
            let in_flight = world.lanes[0].status().members.iter().filter(|member| member.in_flight > 0).count();
            assert_eq!(in_flight, if level == Level::Raid6 { 3 } else { 2 }, "{level:?}: it is being written");
            lanes_drop_one_each(&mut world, victims);
            assert_eq!(world.status().health, Health::Failed, "{level:?} of {slots}, {victims:?}");
            let are_recorded = |lane: &ArrayDevice<NoMetadata>| lane.with_engine(|engine| engine.drops_are_committed());
            assert!(world.lanes.iter().all(are_recorded), "{level:?} of {slots}: the superblocks name them");
            world.holds_writes[0].set(false);
            world.wait(1 << 41).result.expect_err("the array has failed");
        }
    }
}
