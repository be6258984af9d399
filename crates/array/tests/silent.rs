//! Goal: a scrub finds bytes that changed on a member without an error, names the member where redundancy can, and a repair
//! restores what was written.
//! Method: pages of RAM members are changed behind the array's back, then scrubbed, and compared byte for byte.

mod support;
use stria_array::Synced;
use stria_array::*;
use stria_block::bytes;
use support::*;

const PAGE: u64 = 8;
const STRIP: u64 = 16;

/// The change of a page: one bit, one word, or all of it.
fn spoil(world: &mut World, slot: usize, row: u64) {
    let at = bytes(row)..bytes(row + PAGE);
    let (kind, place) = (world.chance.below(3), world.chance.below(512) as usize * 8);
    let noise = world.pattern(PAGE);
    let mut ram = world.rams[slot].0.borrow_mut();
    let page = &mut ram.memory_mut()[at];
    match kind {
        0 => page[place] ^= 1 << (place % 7),
        1 => page[place..place + 8].copy_from_slice(&noise[..8]),
        _ => page.copy_from_slice(&noise),
    }
}

fn contents(world: &World) -> Vec<Vec<u8>> {
    world.rams.iter().map(|ram| ram.0.borrow().memory().to_vec()).collect()
}

fn filled(geometry: Geometry, seed: u64) -> World {
    eprintln!("{}, seed {seed}", describe(&geometry));
    let mut world = World::new(geometry, 0, seed, None);
    let tag = world.write(0, world.geometry.capacity_sectors());
    world.wait(tag).result.expect("a healthy array takes writes");
    world.run_until("quiet", |status| status.clean);
    world
}

fn each(level: Level, counts: std::ops::Range<usize>, mut test: impl FnMut(World)) {
    for count in counts {
        let of_level = geometries(count, STRIP, 2 * count as u64).into_iter().filter(|geometry| geometry.level() == level);
        for (index, geometry) in of_level.enumerate() {
            test(filled(geometry, (count * 100 + index) as u64));
        }
    }
}

fn counts(world: &World) -> Vec<(u64, u64)> {
    world.array.status().members.iter().map(|member| (member.wrong_sectors, member.repaired_sectors)).collect()
}

/// Every page of every member once, data and both parities. In one scrub each row of pages has another wrong member, so
/// neighbouring pages of one stripe have different ones.
#[test]
fn raid_6_names_and_repairs_the_one_wrong_page() {
    each(Level::Raid6, 3..8, |mut world| {
        let (members, rows) = (world.geometry.slot_count(), world.geometry.member_sectors(0));
        let right = contents(&world);
        let mut repaired = vec![0; members];
        for turn in 0..members as u64 {
            let mut expected = Vec::new();
            for row in (0..rows).step_by(PAGE as usize) {
                let slot = ((row / PAGE + turn) % members as u64) as usize;
                spoil(&mut world, slot, row);
                expected.push((row, PAGE, Some(slot)));
            }
            let wrong = contents(&world);
            assert_eq!(world.scrub(false), rows);
            world.mismatches.sort_unstable();
            assert_eq!(world.mismatches, expected, "turn {turn}");
            assert!(contents(&world) == wrong, "a scrub that is not to repair writes nothing");
            let found: Vec<u64> = counts(&world).iter().map(|count| count.0).collect();
            assert_eq!(found.iter().sum::<u64>(), rows, "every wrong sector is laid to one member");
            assert_eq!(world.scrub(true), rows);
            assert!(contents(&world) == right, "turn {turn}: the repair gives back what was there");
            found.iter().zip(&mut repaired).for_each(|(found, repaired)| *repaired += found);
            assert_eq!(world.scrub(false), 0);
            assert_eq!(counts(&world), repaired.iter().map(|&repaired| (0, repaired)).collect::<Vec<_>>());
        }
        world.check_all("after the repairs");
    });
}

/// If two members have wrong bytes in one page, a repair changes no third member: data stays as it is, and parity follows.
#[test]
fn raid_6_does_not_guess_when_two_members_are_wrong_in_one_page() {
    each(Level::Raid6, 4..7, |mut world| {
        let members = world.geometry.slot_count();
        for (first, second) in (0..members).flat_map(|first| (0..first).map(move |second| (first, second))) {
            for far_apart in [false, true] {
                let row = world.chance.below(world.geometry.member_sectors(0) / PAGE) * PAGE;
                let right = contents(&world);
                let noise = [world.pattern(PAGE), world.pattern(PAGE)];
                for (slot, noise, at) in [(first, &noise[0], 0..100), (second, &noise[1], 2000..2010)] {
                    let at = if far_apart { at } else { 0..4096 };
                    world.rams[slot].0.borrow_mut().memory_mut()[bytes(row)..][at.clone()].copy_from_slice(&noise[at]);
                }
                let wrong = contents(&world);
                assert_eq!(world.scrub(true), PAGE);
                assert_eq!(world.mismatches, [(row, PAGE, None)], "{first} and {second}, far apart: {far_apart}");
                let after = contents(&world);
                let map = world.geometry.stripe_map(row / STRIP);
                for &slot in &map.data {
                    assert!(after[usize::from(slot)] == wrong[usize::from(slot)], "data of slot {slot} were touched");
                }
                assert_eq!(world.scrub(false), 0, "parity follows the data as they lie");
                // Restored for the next pair.
                for (ram, right) in world.rams.iter().zip(&right) {
                    ram.0.borrow_mut().memory_mut().copy_from_slice(right);
                }
            }
        }
        assert!(counts(&world).iter().all(|&count| count == (0, 0)), "nobody was blamed");
    });
}

#[test]
fn single_parity_reports_and_follows_the_data_when_asked() {
    for level in [Level::Raid4, Level::Raid5] {
        each(level, 3..6, |mut world| {
            let right = contents(&world);
            for slot in 0..world.geometry.slot_count() {
                let row = world.chance.below(world.geometry.member_sectors(0) / PAGE) * PAGE;
                spoil(&mut world, slot, row);
                let wrong = contents(&world);
                assert_eq!(world.scrub(false), PAGE);
                assert_eq!(world.mismatches, [(row, PAGE, None)]);
                assert!(contents(&world) == wrong);
                assert_eq!(world.scrub(true), PAGE);
                assert_eq!(world.scrub(false), 0);
                let map = world.geometry.stripe_map(row / STRIP);
                let after = contents(&world);
                for &data in &map.data {
                    assert!(after[usize::from(data)] == wrong[usize::from(data)], "data stay");
                }
                let was_parity = map.parity.contains(&(slot as u16));
                assert_eq!(after == right, was_parity, "what parity lost is made again, what data lost is not");
                for (ram, right) in world.rams.iter().zip(&right) {
                    ram.0.borrow_mut().memory_mut().copy_from_slice(right);
                }
            }
        });
    }
}

/// The copies of the array's page at `sector`.
fn copies_of(world: &World, sector: u64) -> Vec<Copy> {
    world.geometry.copies_of(ArraySector::new(sector), PAGE).0.to_vec()
}

#[test]
fn the_majority_of_three_copies_wins() {
    for (level, counts) in [(Level::Raid1, 3..6), (Level::Raid10, 3..6)] {
        each(level, counts, |mut world| {
            let capacity = world.geometry.capacity_sectors();
            let copy_count = copies_of(&world, 0).len();
            if copy_count < 3 {
                return;
            }
            let right = contents(&world);
            for turn in 0..copy_count {
                let mut expected = Vec::new();
                for sector in (0..capacity).step_by(PAGE as usize) {
                    let copies = copies_of(&world, sector);
                    // The last of five copies may be wrong as well: three are still equal.
                    for culprit in [turn, turn + 1].into_iter().take((copy_count - 1) / 2) {
                        let copy = copies[(culprit + (sector / PAGE) as usize) % copy_count];
                        spoil(&mut world, copy.slot, copy.start_sector.get());
                        expected.push((sector, copy.slot));
                    }
                }
                assert_eq!(world.scrub(true), capacity);
                let pages = |&(start, sectors, culprit): &(u64, u64, Option<usize>)| {
                    let culprit = culprit.expect("there is a majority");
                    (start..start + sectors).step_by(PAGE as usize).map(move |sector| (sector, culprit)).collect::<Vec<_>>()
                };
                let mut told: Vec<(u64, usize)> = world.mismatches.iter().flat_map(pages).collect();
                told.sort_unstable();
                expected.sort_unstable();
                assert_eq!(told, expected, "turn {turn}");
                assert!(contents(&world) == right, "turn {turn}: the repair gives back what was there");
                assert_eq!(world.scrub(false), 0);
            }
            world.check_all("after the repairs");
        });
    }
}

#[test]
fn copies_without_a_majority_are_reported_and_follow_the_first_when_asked() {
    let raid_1 = |count| Geometry::new(Level::Raid1, Layout::Plain, STRIP, &vec![64; count]).expect("it is one");
    // One of two wrong; three that all differ; two against two.
    for (count, spoiled) in [(2, vec![1]), (2, vec![0]), (3, vec![0, 1]), (4, vec![2, 3])] {
        let mut world = filled(raid_1(count), count as u64);
        let noise = world.pattern(PAGE);
        for &slot in &spoiled {
            world.rams[slot].0.borrow_mut().memory_mut()[bytes(24)..][..4096].copy_from_slice(&noise);
            if count == 3 {
                world.rams[slot].0.borrow_mut().memory_mut()[bytes(24)] ^= slot as u8 + 1;
            }
        }
        let wrong = contents(&world);
        assert_eq!(world.scrub(false), PAGE);
        assert_eq!(world.mismatches, [(24, PAGE, None)], "{spoiled:?} of {count}");
        assert!(contents(&world) == wrong);
        assert_eq!(world.scrub(true), PAGE);
        let after = contents(&world);
        assert!(after.iter().all(|member| *member == wrong[0]), "all are like the first");
    }
}

/// A copy that cannot be read has no vote, and is rewritten from the majority.
#[test]
fn an_unreadable_copy_is_rewritten_with_what_the_majority_holds() {
    let geometry = Geometry::new(Level::Raid1, Layout::Plain, STRIP, &[64; 4]).expect("it is one");
    let mut world = filled(geometry, 4);
    let right = contents(&world);
    spoil(&mut world, 0, 8);
    world.faults[2].borrow_mut().bad.push((8..16, stria_block::FaultKind::Read));
    world.rams[2].0.borrow_mut().memory_mut()[bytes(8)..bytes(16)].fill(0);
    assert_eq!(world.scrub(true), PAGE);
    assert_eq!(world.mismatches, [(8, PAGE, Some(0))]);
    assert!(contents(&world) == right);
}

/// After a crash parity may be old. Rows that the bitmap marks are resynced from data, and a later scrub still reports a wrong
/// page elsewhere.
#[test]
fn stale_parity_after_a_crash_is_not_taken_for_wrong_data() {
    let all = geometries(6, STRIP, 12).into_iter().filter(|geometry| geometry.level() == Level::Raid6);
    for (seed, geometry) in all.enumerate() {
        let intent = IntentConfig { chunk_sectors: STRIP, dirty: vec![0, 3] };
        let mut world = World::with(geometry, 0, seed as u64, Some(intent), Synced::up_to(0));
        let slot = |world: &World, stripe| usize::from(world.geometry.stripe_map(stripe).data[1]);
        // The result of a write that was cut off after its data: to P and Q it looks like a wrong strip.
        for stripe in [0, 3] {
            let written = slot(&world, stripe);
            spoil(&mut world, written, stripe * STRIP);
        }
        // And a strip that changed by itself.
        let (victim, row) = (slot(&world, 7), 7 * STRIP + PAGE);
        spoil(&mut world, victim, row);
        let before = contents(&world);
        world.run_until("resync", |status| status.synced == Synced::All && status.sweep.is_none());
        for stripe in [0, 3] {
            for &data in &world.geometry.stripe_map(stripe).data {
                let rows = bytes(stripe * STRIP)..bytes((stripe + 1) * STRIP);
                let now = contents(&world);
                assert!(now[usize::from(data)][rows.clone()] == before[usize::from(data)][rows], "new data stay");
            }
        }
        assert_eq!(world.scrub(true), PAGE);
        assert_eq!(world.mismatches, [(row, PAGE, Some(victim))]);
        assert!(world.rams[victim].0.borrow().memory()[bytes(row)..bytes(row + PAGE)].iter().all(|&byte| byte == 0));
        assert_eq!(world.scrub(false), 0);
    }
}

/// The same for copies: sectors that were being written follow the first copy; elsewhere the majority decides.
#[test]
fn stale_copies_after_a_crash_are_not_outvoted() {
    let geometry = Geometry::new(Level::Raid1, Layout::Plain, STRIP, &[256; 3]).expect("it is one");
    let intent = IntentConfig { chunk_sectors: STRIP, dirty: vec![2] };
    let mut world = World::with(geometry, 0, 5, Some(intent), Synced::up_to(0));
    let (written, rotted) = (2 * STRIP, 5 * STRIP);
    spoil(&mut world, 0, written);
    spoil(&mut world, 0, rotted);
    let before = contents(&world);
    world.run_until("resync", |status| status.synced == Synced::All && status.sweep.is_none());
    for member in contents(&world) {
        assert!(member[bytes(written)..][..4096] == before[0][bytes(written)..][..4096], "the copy that was written stays");
    }
    assert_eq!(world.scrub(true), PAGE);
    assert_eq!(world.mismatches, [(rotted, PAGE, Some(0))]);
    assert!(world.rams[0].0.borrow().memory()[bytes(rotted)..][..4096].iter().all(|&byte| byte == 0));
}

/// Without all members there is too little redundancy to name the wrong one, so the scrub names none and changes nothing.
#[test]
fn a_degraded_raid_6_blames_nobody() {
    let geometry = geometries(5, STRIP, 10).into_iter().find(|geometry| geometry.level() == Level::Raid6).expect("there is one");
    let mut world = filled(geometry, 1);
    world.fail(2).expect("redundant");
    spoil(&mut world, 1, 8);
    let before = contents(&world);
    assert_eq!(world.scrub(true), 0);
    assert!(contents(&world) == before && world.mismatches.is_empty());
}
