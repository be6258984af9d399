//! RAID 0 and linear: zones of equal shape.
//!
//! Members of different size make several zones. Zone 0 runs over all members up to the smallest, the next
//! over those that remain, and so on. A linear array is the extreme: one member a zone.
//! After `drivers/md/raid0.c` (`create_strip_zones`, `map_sector`).

use super::{Divisor, Geometry};
use crate::{ArraySector, Layout, Level, MemberSector, Zones};

/// A run of strips over the same members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// Where the zone starts in the array.
    start_sector: ArraySector,
    end_sector: ArraySector,
    /// Where it starts on each of its members.
    member_sector: MemberSector,
    /// Slots, in order.
    slots: Vec<usize>,
    by_slots: Divisor,
}

/// A run of sectors on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The slot.
    pub slot: usize,
    /// First sector in the member's data area.
    pub start_sector: MemberSector,
    /// Length.
    pub sectors: u64,
}

impl Geometry {
    pub(super) fn make_zones(&self) -> Vec<Zone> {
        let mut zones: Vec<Zone> = Vec::new();
        let mut add = |member_sector: u64, member_end: u64, slots: Vec<usize>| {
            let start_sector = zones.last().map_or(ArraySector::ZERO, |zone| zone.end_sector);
            let end_sector = start_sector + (member_end - member_sector) * slots.len() as u64;
            let by_slots = Divisor::new(slots.len() as u64);
            let member_sector = MemberSector::new(member_sector);
            zones.push(Zone { start_sector, end_sector, member_sector, slots, by_slots });
        };
        match self.level {
            Level::Linear => {
                for (slot, &sectors) in self.member_sectors.iter().enumerate() {
                    add(0, sectors, vec![slot]);
                }
            }
            Level::Raid0 => {
                let mut done = 0;
                while let Some(&end) = self.member_sectors.iter().filter(|&&sectors| sectors > done).min() {
                    let slots = (0..self.slot_count()).filter(|&slot| self.member_sectors[slot] > done).collect();
                    add(done, end, slots);
                    done = end;
                }
            }
            Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10 => {}
        }
        zones
    }

    /// Where array sector `sector` of a level without redundancy lies, and how far it runs on there, at most `sectors`.
    #[inline]
    pub fn extent(&self, sector: ArraySector, sectors: u64) -> Extent {
        if sector.get() < self.even_sectors {
            let (row, slot, in_strip) = self.strip_of(sector);
            let sectors = sectors.min(self.strip_sectors - in_strip.get());
            return Extent { slot, start_sector: MemberSector::new(row * self.strip_sectors) + in_strip.get(), sectors };
        }
        self.extent_of_zone(sector, sectors)
    }

    /// Behind the rows of all members, or where one is alone.
    fn extent_of_zone(&self, sector: ArraySector, sectors: u64) -> Extent {
        let zone = self.zones.iter().find(|zone| sector < zone.end_sector).expect("the sector is one of the array");
        if let [slot] = zone.slots[..] {
            let start_sector = zone.member_sector + (sector - zone.start_sector);
            return Extent { slot, start_sector, sectors: sectors.min(zone.end_sector - sector) };
        }
        let shift = self.strip_sectors.trailing_zeros();
        let (row, mut turn) = zone.by_slots.divide((sector - zone.start_sector) >> shift);
        if self.layout == Layout::Zones(Zones::Original) {
            turn = zone.by_slots.divide(sector.get() >> shift).1;
        }
        let in_strip = sector.get() & (self.strip_sectors - 1);
        Extent {
            slot: zone.slots[turn as usize],
            start_sector: zone.member_sector + (row << shift) + in_strip,
            sectors: sectors.min(self.strip_sectors - in_strip),
        }
    }
}
