//! Every write to every small parity or mirrored array, with all members and with every set of members lost that it survives,
//! against a plain model: what each remaining member holds afterwards is what a page of arithmetic says.

mod support;
use stria_array::*;
use stria_block::bytes;
use support::*;

const STRIP: u64 = 8;

/// Doubles in GF(2^8), polynomial 0x11d, by the textbook.
fn double(byte: u8) -> u8 {
    (byte << 1) ^ if byte & 0x80 != 0 { 0x1d } else { 0 }
}

/// The content of every member when the array holds `model`. This uses none of our kernels, only the geometry.
fn members_of(geometry: &Geometry, model: &[u8]) -> Vec<Vec<u8>> {
    let mut members = vec![vec![0; bytes(geometry.member_sectors(0))]; geometry.slot_count()];
    let sector = |index: u64| &model[bytes(index)..bytes(index + 1)];
    if geometry.level().parity_count() == 0 {
        for index in 0..geometry.capacity_sectors() {
            for copy in geometry.copies_of(ArraySector::new(index), 1).0 {
                members[copy.slot][bytes(copy.start_sector.get())..][..512].copy_from_slice(sector(index));
            }
        }
        return members;
    }
    for stripe in 0..geometry.stripe_count() {
        let map = geometry.stripe_map(stripe);
        for row in 0..STRIP {
            let at = bytes(stripe * STRIP + row);
            let mut by_code = vec![vec![0_u8; 512]; map.code_count];
            for (strip, (&slot, &position)) in map.data.iter().zip(&map.code).enumerate() {
                let data = sector((stripe * map.data.len() as u64 + strip as u64) * STRIP + row);
                members[usize::from(slot)][at..][..512].copy_from_slice(data);
                by_code[usize::from(position)].copy_from_slice(data);
            }
            // P is the sum, Q the sum of 2^i times strip i: by Horner's rule from the last strip.
            let (mut p, mut q) = (vec![0_u8; 512], vec![0_u8; 512]);
            for data in by_code.iter().rev() {
                for byte in 0..512 {
                    p[byte] ^= data[byte];
                    q[byte] = double(q[byte]) ^ data[byte];
                }
            }
            for (&slot, parity) in map.parity.iter().zip([p, q]) {
                members[usize::from(slot)][at..][..512].copy_from_slice(&parity);
            }
        }
    }
    members
}

/// Sets of at most `most` slots that the array survives.
fn losses(count: usize, most: usize) -> Vec<Vec<usize>> {
    let sets = (0_u32..1 << count).filter(|set| set.count_ones() as usize <= most);
    sets.map(|set| (0..count).filter(|slot| set & (1 << slot) != 0).collect()).collect()
}

#[test]
fn every_write_with_every_loss_leaves_what_arithmetic_says() {
    let mut writes = 0_u64;
    for (count, stripes) in [(2, 2), (3, 2), (4, 2), (5, 1), (6, 1)] {
        for geometry in geometries(count, STRIP, 7).into_iter().filter(|geometry| geometry.level().is_redundant()) {
            // Two stripes or strips are enough for every shape of request; steps of three sectors meet every alignment.
            let span = match geometry.level() {
                Level::Raid1 | Level::Raid10 => geometry.capacity_sectors().min(3 * STRIP),
                _ => stripes * geometry.data_count() as u64 * STRIP,
            };
            for lost in losses(count, geometry.losses_survived().min(2)) {
                let mut world = World::new(geometry.clone(), 0, writes, None);
                world.traffic(2);
                for &slot in &lost {
                    world.fail(slot).expect("survivable");
                }
                for start in (0..span).step_by(3) {
                    for end in (start + 1..=span).step_by(5) {
                        let tag = world.write(start, end - start);
                        world.wait(tag).result.expect("survivable");
                        writes += 1;
                    }
                    let expected = members_of(&geometry, &world.model);
                    for slot in (0..count).filter(|slot| !lost.contains(slot)) {
                        let ram = world.rams[slot].0.borrow();
                        let wrong = ram.memory().iter().zip(&expected[slot]).position(|(a, b)| a != b);
                        // The odd end of a RAID 10 member holds nothing, and is never written.
                        assert_eq!(
                            wrong,
                            None,
                            "{} without {lost:?}: slot {slot} after writes from {start}",
                            describe(&geometry)
                        );
                    }
                }
                world.check_all("after all writes");
            }
        }
    }
    assert!(writes > 40_000, "only {writes} writes were tried");
}
