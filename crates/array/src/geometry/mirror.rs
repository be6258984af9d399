//! RAID 1 and 10: where the copies of a sector lie. After `drivers/md/raid10.c` (`__raid10_find_phys`,
//! `raid10_find_virt`, `calc_sectors`).

use super::Geometry;
use crate::{ArraySector, Copies, Layout, MemberSector};
use smallvec::SmallVec;

/// One copy of a run of array sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The slot that holds it.
    pub slot: usize,
    /// First sector in the member's data area.
    pub start_sector: MemberSector,
}

impl Geometry {
    fn copies(&self) -> Copies {
        match self.layout {
            Layout::Copies(copies) => copies,
            Layout::Plain | Layout::Zones(_) | Layout::Parity(_) => {
                Copies { near: self.slot_count() as u8, far: 1, offset: false }
            }
        }
    }

    pub(super) fn mirror_capacity_sectors(&self) -> u64 {
        let copies = self.copies();
        let strips = self.member_sectors[0] / self.strip_sectors / u64::from(copies.far);
        strips * self.slot_count() as u64 / u64::from(copies.near) * self.strip_sectors
    }

    /// Distance on a member between the parts that hold the far copies.
    fn far_stride_sectors(&self) -> u64 {
        let copies = self.copies();
        if copies.offset {
            return self.strip_sectors;
        }
        let strips = self.capacity_sectors / self.strip_sectors * copies.count() as u64;
        strips.div_ceil(self.slot_count() as u64) / u64::from(copies.far) * self.strip_sectors
    }

    /// The longest run from array sector `sector`, at most `sectors`, whose copies lie each in one piece, and the
    /// copies, first the one that md reads by preference.
    pub fn copies_of(&self, sector: ArraySector, sectors: u64) -> (SmallVec<[Copy; 4]>, u64) {
        let sector = sector.get();
        let Layout::Copies(copies) = self.layout else {
            let mut found = SmallVec::new();
            for slot in 0..self.slot_count() {
                found.push(Copy { slot, start_sector: MemberSector::new(sector) });
            }
            return (found, sectors);
        };
        let slots = self.slot_count() as u64;
        let strip = self.strip_sectors;
        let (near, far) = (u64::from(copies.near), u64::from(copies.far));
        let in_strip = sector & (strip - 1);
        let first = (sector >> strip.trailing_zeros()) * near;
        let (mut row, mut slot) = self.by_slots.divide(first);
        let stride = if far > 1 { self.far_stride_sectors() } else { 0 };
        let mut found = SmallVec::new();
        for _ in 0..near {
            let stripe = if copies.offset { row * far } else { row };
            for distance in 0..far {
                let turned = slot + distance * near;
                found.push(Copy {
                    slot: (if turned < slots { turned } else { turned - slots }) as usize,
                    start_sector: MemberSector::new(stripe * strip + distance * stride + in_strip),
                });
            }
            slot += 1;
            if slot == slots {
                (slot, row) = (0, row + 1);
            }
        }
        (found, sectors.min(strip - in_strip))
    }

    /// Which array sector member sector `sector` of `slot` is a copy of, and the longest run from there, at most
    /// `sectors`. `None`: nothing lies there (the odd end of a member), for that run.
    pub fn array_sector_of(&self, slot: usize, sector: MemberSector, sectors: u64) -> (Option<ArraySector>, u64) {
        let sector = sector.get();
        let Layout::Copies(copies) = self.layout else {
            return (Some(ArraySector::new(sector)), sectors);
        };
        let slots = self.slot_count() as u64;
        let strip = self.strip_sectors;
        let (near, far) = (u64::from(copies.near), u64::from(copies.far));
        let in_strip = sector % strip;
        let run = sectors.min(strip - in_strip);
        let (row, distance) = if copies.offset {
            (sector / strip / far, sector / strip % far)
        } else {
            let stride = self.far_stride_sectors();
            (sector % stride / strip, sector / stride)
        };
        if distance >= far {
            return (None, run);
        }
        // A copy `distance` away was pushed that many times `near` members on, going round.
        let first_slot = (slot as u64 + slots * far - distance * near % (slots * far)) % slots;
        let array_sector = (row * slots + first_slot) / near * strip + in_strip;
        ((array_sector < self.capacity_sectors).then(|| ArraySector::new(array_sector)), run)
    }
}
