//! One array on several lanes, in one thread: requests come in on any of them, members fail under all of them.

mod support;
use stria_array::Synced;
use stria_array::*;
use stria_block::BlockDevice;
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
