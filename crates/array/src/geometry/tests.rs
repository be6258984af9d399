//! Every place of every small geometry is used once, and the maps there and back agree.

use super::*;
use crate::{Copies, ParityLayout, Zones};
use std::collections::HashSet;

#[test]
fn raid0_of_unequal_members_uses_every_sector_once() {
    for zones in [Zones::Original, Zones::Alternate] {
        let geometry = Geometry::new(Level::Raid0, Layout::Zones(zones), 8, &[20, 45, 33, 8]).expect("good");
        assert_eq!(geometry.capacity_sectors(), 16 + 40 + 32 + 8);
        let mut seen = HashSet::new();
        let mut sector = ArraySector::ZERO;
        while sector.get() < geometry.capacity_sectors() {
            let extent = geometry.extent(sector, u64::MAX);
            for offset in 0..extent.sectors {
                assert!((extent.start_sector + offset).get() < geometry.member_sectors(extent.slot));
                assert!(seen.insert((extent.slot, extent.start_sector + offset)));
            }
            sector += extent.sectors;
        }
        assert_eq!(seen.len() as u64, geometry.capacity_sectors());
    }
}

#[test]
fn every_stripe_places_each_strip_on_its_own_member() {
    for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
        let layouts: Vec<Layout> = match level {
            Level::Raid4 => vec![Layout::Plain],
            _ => ParityLayout::all().filter(|layout| layout.suits(level)).map(Layout::Parity).collect(),
        };
        for layout in layouts {
            for count in 4..9 {
                let geometry = Geometry::new(level, layout, 8, &vec![800; count]).expect("good");
                for stripe in 0..2 * count as u64 + 1 {
                    let map = geometry.stripe_map(stripe);
                    let slots: HashSet<u16> = map.data.iter().chain(&map.parity).copied().collect();
                    assert_eq!(slots.len(), count, "{level} {layout} {map:?}");
                    let code: HashSet<u16> = map.code.iter().copied().collect();
                    assert_eq!(code.len(), map.data.len());
                    assert!(code.iter().all(|&position| usize::from(position) < map.code_count));
                }
            }
        }
    }
}

#[test]
fn left_symmetric_is_what_the_books_draw() {
    // D0 D1 D2 P / D4 D5 P D3 / ...: five members rotate P from the last to the first, data follows it.
    let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 8, &[80; 4]).expect("good");
    let rows: Vec<_> = (0..3).map(|stripe| geometry.stripe_map(stripe)).collect();
    assert_eq!((rows[0].data.as_slice(), rows[0].parity[0]), (&[0, 1, 2][..], 3));
    assert_eq!((rows[1].data.as_slice(), rows[1].parity[0]), (&[3, 0, 1][..], 2));
    assert_eq!((rows[2].data.as_slice(), rows[2].parity[0]), (&[2, 3, 0][..], 1));
}

#[test]
fn copies_lie_on_different_members_and_lead_back() {
    for (near, far, offset) in
        [(2, 1, false), (3, 1, false), (1, 2, false), (1, 3, false), (1, 2, true), (1, 3, true), (2, 2, false), (2, 2, true)]
    {
        let copies = Copies { near, far, offset };
        for count in copies.count().max(2)..8 {
            let geometry = Geometry::new(Level::Raid10, Layout::Copies(copies), 8, &vec![8 * 13; count]).expect("good");
            let mut seen = HashSet::new();
            for strip in 0..geometry.capacity_sectors() / 8 {
                let (found, run) = geometry.copies_of(ArraySector::new(strip * 8 + 3), 100);
                assert_eq!((found.len(), run), (copies.count(), 5));
                let members: HashSet<usize> = found.iter().map(|copy| copy.slot).collect();
                assert_eq!(members.len(), copies.count(), "{copies:?} of {count}: {found:?}");
                for copy in found {
                    assert!((copy.start_sector + 5).get() <= geometry.member_sectors(copy.slot), "{copies:?} of {count}");
                    assert!(seen.insert((copy.slot, copy.start_sector.get())));
                    assert_eq!(
                        geometry.array_sector_of(copy.slot, copy.start_sector, 100),
                        (Some(ArraySector::new(strip * 8 + 3)), 5)
                    );
                }
            }
            for slot in 0..count {
                for row in 0..13 {
                    let known = geometry.array_sector_of(slot, MemberSector::new(row * 8 + 3), 1).0.is_some();
                    assert_eq!(known, seen.contains(&(slot, row * 8 + 3)), "{copies:?} of {count}: member {slot} row {row}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let refuse = |level: Level, strip, members: &[u64]| {
        Geometry::new(level, level.default_layout(), strip, members).unwrap_err().to_string()
    };
    assert!(refuse(Level::Raid6, 8, &[80; 3]).contains("takes 4 to 255 members"));
    assert!(refuse(Level::Raid5, 12, &[80; 3]).contains("power of two"));
    assert!(refuse(Level::Raid0, 64, &[80, 63]).contains("too small"));
    assert!(Geometry::new(Level::Raid1, Layout::Zones(Zones::Original), 8, &[80; 2]).is_err());
    // It was a RAID 10 that no loss leaves readable, and Linux refuses it.
    for (near, far, offset) in [(1, 1, false), (1, 1, true), (0, 2, false)] {
        let layout = Layout::Copies(Copies { near, far, offset });
        let refusal = Geometry::new(Level::Raid10, layout, 8, &[80; 4]).unwrap_err().to_string();
        assert!(refusal.contains("at least 2 copies") && refusal.contains("choose n2, f2 or o2"), "{refusal}");
    }
}

/// The refusal of a layout with more copies than members once asked for "400 to 384 members".
#[test]
fn a_layout_with_more_copies_than_an_array_has_members_names_the_bound() {
    let with = |near, far| {
        let layout = Layout::Copies(Copies { near, far, offset: false });
        Geometry::new(Level::Raid10, layout, 8, &vec![1 << 20; 384])
    };
    assert!(with(192, 2).is_ok());
    let refusal = with(200, 2).unwrap_err().to_string();
    assert!(refusal.contains("400 copies") && refusal.contains("at most 384"), "{refusal}");
}

/// More members than the parity code has positions were created once, and the start panicked.
#[test]
fn parity_levels_have_as_many_members_as_the_code_has_positions() {
    for (level, layout) in Layout::of_all_levels() {
        let with = |count: usize| Geometry::new(level, layout, 8, &vec![80; count]);
        let count_max = (1..=Geometry::MEMBER_COUNT_MAX).rev().find(|&count| with(count).is_ok()).expect("some count is good");
        let expected = match (level, layout) {
            (Level::Raid4 | Level::Raid5, _) => 256,
            (Level::Raid6, layout) if layout.counts_parity() => 253,
            (Level::Raid6, _) => 255,
            _ => 384,
        };
        assert_eq!(count_max, expected, "{level} {layout}");
        let geometry = with(count_max).expect("just seen");
        if level.family() == Family::Parity {
            // It panics at a count that it does not serve.
            let _ = stria_parity::Code::new(geometry.stripe_map(0).code_count, level.parity_count());
        }
        let refusal = with(count_max + 1).unwrap_err().to_string();
        assert!(refusal.contains(&format!(" to {count_max} members, and {} were given", count_max + 1)), "{refusal}");
    }
}

/// Every small geometry of every level and layout.
fn all() -> Vec<Geometry> {
    let sizes =
        |level: Level, count: usize| (0..count as u64).map(move |n| if level.is_redundant() { 96 } else { 64 + 24 * (n % 3) });
    let counts = |shape| (4..7).map(move |count| (shape, count));
    let made = Layout::of_all_levels()
        .flat_map(counts)
        .map(|((level, layout), count)| Geometry::new(level, layout, 8, &sizes(level, count).collect::<Vec<_>>()).expect("good"));
    made.collect()
}

#[test]
fn footprint_holds_all_that_array_sectors_are_made_of_and_no_more() {
    for geometry in all() {
        let capacity = geometry.capacity_sectors();
        for (start, sectors) in [(0, 1), (0, 8), (3, 30), (capacity - 1, 1), (capacity - 29, 29), (0, capacity), (5, 0)] {
            let footprint = geometry.footprint(ArraySector::new(start).run(sectors));
            let has = |slot: usize, sector: u64| footprint[slot].iter().any(|run| run.contains(&MemberSector::new(sector)));
            let mut wanted = vec![HashSet::new(); geometry.slot_count()];
            for sector in start..start + sectors {
                match geometry.level() {
                    Level::Linear | Level::Raid0 => {
                        let extent = geometry.extent(ArraySector::new(sector), 1);
                        wanted[extent.slot].insert(extent.start_sector.get());
                    }
                    Level::Raid1 | Level::Raid10 => {
                        for copy in geometry.copies_of(ArraySector::new(sector), 1).0 {
                            wanted[copy.slot].insert(copy.start_sector.get());
                        }
                    }
                    Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                        let row = sector / 8 / geometry.data_count() as u64 * 8 + sector % 8;
                        wanted.iter_mut().for_each(|rows| {
                            rows.insert(row);
                        });
                    }
                }
            }
            for (slot, wanted) in wanted.iter().enumerate() {
                let length: u64 = footprint[slot].iter().map(|run| run.end - run.start).sum();
                assert_eq!(length as usize, wanted.len(), "{geometry:?} {start} {sectors}");
                assert!(wanted.iter().all(|&sector| has(slot, sector)), "{geometry:?} {start} {sectors}");
                assert!(footprint[slot].windows(2).all(|pair| pair[0].end < pair[1].start), "apart and in order");
            }
        }
    }
}

/// Goal: the space that is told before an array exists is the space that it has.
#[test]
fn the_data_members_of_a_level_are_the_space_of_its_geometry() {
    let layouts = |names: &[&str]| names.iter().map(|name| Level::Raid10.parse_layout(name).expect("known")).collect();
    for level in [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10] {
        let layouts: Vec<Layout> = match level {
            Level::Raid10 => layouts(&["n2", "n3", "f2", "o3"]),
            _ => vec![level.default_layout()],
        };
        for (layout, count) in layouts.into_iter().flat_map(|layout| (4..9).map(move |count| (layout, count))) {
            let each = 8 * 1200;
            let geometry = Geometry::new(level, layout, 8, &vec![each; count]).expect("good");
            let (told, had) = (level.data_members(layout, count) * each as f64, geometry.capacity_sectors() as f64);
            assert!(had <= told && told - had < 8.0 * count as f64, "{level} {layout} of {count}: {told} told, {had} had");
        }
    }
}
