//! Goal: what a client is told to be a hole reads as zeros, whichever member is lost next (R93).
//! Method: members that a crash left different, holes on some of them, and the loss of each.

mod support;
use stria_array::*;
use stria_block::*;
use support::*;

const SECTORS: u64 = 4096;

fn world(level: Level, members: usize, synced: bool, lanes: usize) -> World {
    let geometry = Geometry::new(level, level.default_layout(), 16, &vec![SECTORS; members]).expect("good");
    let synced = if synced { Synced::All } else { Synced::up_to(0) };
    World::of(&ArrayConfig { synced, ..ArrayConfig::optimal("test", geometry) }, 1, lanes)
}

/// Has a member hold noise, as a torn write would leave it.
fn fill_with_noise(world: &mut World, member: usize) {
    let noise = world.pattern(SECTORS);
    world.rams[member].0.borrow_mut().memory_mut().copy_from_slice(&noise);
}

/// The sectors from `start` on that the array describes, and those of them that are holes.
fn ask(world: &mut World, start: u64) -> (u64, Vec<u64>) {
    let sectors = world.geometry.capacity_sectors() - start;
    let tag = world.submit(start, sectors, Operation::Extents { extents: Vec::new() });
    let completion = world.wait(tag);
    completion.result.expect("it can say \"data\" at least");
    let Operation::Extents { extents } = completion.operation else { panic!("extents come back as extents") };
    let (mut next, mut holes) = (start, Vec::new());
    for extent in extents {
        holes.extend((next..next + extent.sectors).filter(|_| extent.hole));
        next += extent.sectors;
    }
    assert!((start + 1..=start + sectors).contains(&next), "extents to {next}");
    (next, holes)
}

fn holes(world: &mut World) -> Vec<u64> {
    let (mut next, mut all) = (0, Vec::new());
    while next < world.geometry.capacity_sectors() {
        let (end, holes) = ask(world, next);
        (next, all) = (end, [all, holes].concat());
    }
    all
}

fn pause(world: &World, lane: usize) {
    world.lanes[lane].with_engine(|engine| engine.pause(true));
}

#[test]
fn a_hole_reads_as_zeros_after_any_loss() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)] {
        // Which lanes have resynced their partition.
        for resynced in [&[false][..], &[true], &[false, false], &[true, false], &[false, true]] {
            for (noisy, lost) in (0..members).flat_map(|noisy| (0..members).map(move |lost| (noisy, lost))) {
                let mut world = world(level, members, false, resynced.len());
                fill_with_noise(&mut world, noisy);
                (0..resynced.len()).filter(|&lane| !resynced[lane]).for_each(|lane| pause(&world, lane));
                let until = world.now + 1_000_000_000;
                while world.now < until && world.step() {}
                let holes = holes(&mut world);
                world.fail(lost).expect("it can be spared");
                for &sector in &holes {
                    let read = world.read(sector, 1).expect("redundancy is left");
                    assert!(read.iter().all(|&byte| byte == 0), "{level}, {resynced:?}, {noisy} noisy, {lost} lost: {sector}");
                }
            }
        }
    }
}

#[test]
fn holes_of_a_consistent_array_are_reported_on_any_number_of_lanes() {
    for (level, members) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)] {
        for lanes in [1, 2] {
            let mut world = world(level, members, true, lanes);
            let all = world.geometry.capacity_sectors();
            assert_eq!(holes(&mut world).len() as u64, all, "{level} on {lanes} lanes");
            let tag = world.write(all / 2, 8);
            world.wait(tag).result.expect("no member is missing");
            assert_eq!(holes(&mut world).len() as u64, all - 8, "{level} on {lanes} lanes");
        }
    }
}

#[test]
fn a_member_that_is_lost_while_it_is_asked_makes_no_request_fail() {
    for (level, members) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)] {
        for by_command in [false, true] {
            let mut world = world(level, members, true, 1);
            if by_command {
                if !level.is_redundant() {
                    continue;
                }
                // It never answers: the engine ends the request itself (R16).
                let asked = world.submit(0, 8, Operation::Extents { extents: Vec::new() });
                world.array.with_engine(|engine| {
                    engine.lose(MemberId(0), stria_block::IoError::new(stria_block::ErrorKind::Gone, "pulled"))
                });
                assert_eq!(world.wait(asked).result, Ok(()), "{level}");
            } else {
                (0..members).for_each(|member| world.faults[member].borrow_mut().gone = true);
                assert_eq!(ask(&mut world, 0).1, [0; 0], "{level}");
            }
        }
    }
}
