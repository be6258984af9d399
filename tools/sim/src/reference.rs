//! Redundancy computed again, plainly, from the bytes of the drives, to check the engine.
//!
//! `P = sum of D`, `Q = sum of g^i D` over GF(2^8), polynomial 0x11d, g = 2, by Horner's rule

use crate::image::Image;
use stria_array::{ArraySector, Geometry, Level, MemberSector};
use stria_block::bytes;

/// Multiplies eight bytes by g.
fn double(x: u64) -> u64 {
    let carry = (x >> 7) & 0x0101_0101_0101_0101;
    ((x << 1) & 0xfefe_fefe_fefe_fefe) ^ (carry * 0x1d)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
}

/// The first mismatch of redundancy, in words, on members whose data areas start at these sectors of these images. `None`: the
/// member is missing, and what remains is compared.
pub fn disagreement(geometry: &Geometry, members: &[Option<(&Image, u64)>]) -> Option<String> {
    match geometry.level() {
        Level::Linear | Level::Raid0 => None,
        Level::Raid1 | Level::Raid10 => copies_apart(geometry, members),
        Level::Raid4 | Level::Raid5 | Level::Raid6 => parity_apart(geometry, members),
    }
}

fn copies_apart(geometry: &Geometry, members: &[Option<(&Image, u64)>]) -> Option<String> {
    let mut sector = 0;
    while sector < geometry.capacity_sectors() {
        let (copies, run) = geometry.copies_of(ArraySector::new(sector), (geometry.capacity_sectors() - sector).min(8));
        let of = |slot: usize, start: MemberSector| {
            let (image, data) = members[slot]?;
            Some((slot, image.bytes_of(data + start.get(), run)))
        };
        let there: Vec<_> = copies.iter().filter_map(|copy| of(copy.slot, copy.start_sector)).collect();
        if let Some(pair) = there.windows(2).find(|pair| pair[0].1 != pair[1].1) {
            return Some(format!("array sector {sector}: the copies in slots {} and {} differ", pair[0].0, pair[1].0));
        }
        sector += run;
    }
    None
}

fn parity_apart(geometry: &Geometry, members: &[Option<(&Image, u64)>]) -> Option<String> {
    let strip = geometry.strip_sectors();
    let mut read: Vec<Vec<u8>> = vec![vec![0; bytes(strip)]; members.len()];
    let (mut p, mut q) = (vec![0u64; bytes(strip) / 8], vec![0u64; bytes(strip) / 8]);
    for stripe in 0..geometry.stripe_count() {
        let start = stripe * strip;
        if members.iter().flatten().all(|(image, data)| image.is_empty(data + start, strip)) {
            continue;
        }
        for (member, into) in members.iter().zip(&mut read) {
            match member {
                Some((image, data)) => image.read(data + start, into),
                None => into.fill(0),
            }
        }
        let map = geometry.stripe_map(stripe);
        let lost: Vec<usize> = map.data.iter().map(|&slot| usize::from(slot)).filter(|&slot| members[slot].is_none()).collect();
        let first = map.parity.first().map(|&slot| usize::from(slot)).filter(|&slot| members[slot].is_some());
        match (&lost[..], first) {
            ([], _) => {}
            // P gives the missing strip, and Q must be of the same one.
            (&[lost], Some(first)) => {
                let sum = map.data.iter().map(|&slot| usize::from(slot)).filter(|&slot| slot != lost).fold(
                    read[first].clone(),
                    |mut sum, slot| {
                        sum.iter_mut().zip(&read[slot]).for_each(|(sum, byte)| *sum ^= byte);
                        sum
                    },
                );
                read[lost] = sum;
            }
            // Nothing is left to compare.
            _ => continue,
        }
        let mut at: Vec<Option<usize>> = vec![None; map.code_count];
        for (&slot, &position) in map.data.iter().zip(&map.code) {
            at[usize::from(position)] = Some(usize::from(slot));
        }
        p.fill(0);
        q.fill(0);
        for slot in at.iter().rev() {
            match slot {
                Some(slot) => {
                    for ((p, q), word) in p.iter_mut().zip(&mut q).zip(words(&read[*slot])) {
                        (*p, *q) = (*p ^ word, double(*q) ^ word);
                    }
                }
                None => q.iter_mut().for_each(|q| *q = double(*q)),
            }
        }
        let parities = map.parity.iter().zip([("P", &p), ("Q", &q)]);
        for (&slot, (name, expected)) in parities.filter(|(slot, _)| members[usize::from(**slot)].is_some()) {
            let found = words(&read[usize::from(slot)]);
            if let Some(word) = found.zip(expected).position(|(found, &expected)| found != expected) {
                return Some(format!("stripe {stripe}: {name} in slot {slot} is wrong in row {} of the stripe", word / 64));
            }
        }
    }
    None
}
