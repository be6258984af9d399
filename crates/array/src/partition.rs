//! The partition of an array that a lane owns.
//!
//! The sync space is dealt out in groups of some stripes, one lane after the other. Whatever must stay consistent lies in one
//! group, so an engine that leaves other groups alone needs to know nothing of them.

use crate::geometry::Divisor;
use crate::{ArraySector, Family, Geometry, SyncSector};
use std::ops::Range;

/// 256 KiB of the sync space: a stream of a few requests reaches all lanes, and most requests one.
pub(crate) const GROUP_SECTORS: u64 = 512;

/// A lane's partition of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub lane: usize,
    /// 1: the partition is the whole array.
    pub lane_count: usize,
    /// In the sync space. A power of two, as strips and windows of sweeps are.
    group_sectors: u64,
    /// Array sectors for each sector of the sync space.
    data_count: u64,
    by_data: Divisor,
    by_lanes: Divisor,
}

impl Partition {
    /// The whole array. Also for levels that need no partitions.
    pub fn whole(geometry: &Geometry) -> Self {
        Self::new(geometry, 0, 1, GROUP_SECTORS)
    }

    /// Lane `lane` of `lane_count`, dealt out in groups of this many sectors or a strip.
    pub fn new(geometry: &Geometry, lane: usize, lane_count: usize, group_sectors: u64) -> Self {
        let group_sectors = group_sectors.max(geometry.strip_sectors());
        assert!(group_sectors.is_power_of_two(), "groups of {group_sectors} sectors");
        let data_count = match geometry.level().family() {
            Family::Parity => geometry.data_count() as u64,
            Family::Striped | Family::Mirror => 1,
        };
        let (by_data, by_lanes) = (Divisor::new(data_count), Divisor::new(lane_count as u64));
        Self { lane, lane_count, group_sectors, data_count, by_data, by_lanes }
    }

    /// The part of a window that lies in one group, if it starts with one.
    pub fn window(&self, sectors: u64) -> u64 {
        if self.lane_count == 1 { sectors } else { sectors.min(self.group_sectors) }
    }

    fn owner(&self, group: u64) -> usize {
        self.by_lanes.divide(group).1 as usize
    }

    /// True if this partition contains a position of the sync space.
    pub fn owns(&self, sync_sector: SyncSector) -> bool {
        self.lane_count == 1 || self.owner(sync_sector.get() / self.group_sectors) == self.lane
    }

    /// The first position of the partition from here on.
    pub fn next(&self, sync_sector: SyncSector) -> SyncSector {
        if self.owns(sync_sector) {
            return sync_sector;
        }
        let group = sync_sector.get() / self.group_sectors;
        let away = (self.lane + self.lane_count - self.owner(group)) % self.lane_count;
        SyncSector::new((group + away as u64) * self.group_sectors)
    }

    /// The parts of a range of the sync space that this partition contains.
    pub fn parts(&self, range: Range<SyncSector>) -> impl Iterator<Item = Range<SyncSector>> + use<> {
        let partition = *self;
        let mut next = range.start;
        std::iter::from_fn(move || {
            let start = partition.next(next);
            let group_end = (start.get() / partition.group_sectors + 1) * partition.group_sectors;
            next = if partition.lane_count == 1 { range.end } else { range.end.min(SyncSector::new(group_end)) };
            (start < range.end).then_some(start..next)
        })
    }

    /// Array sectors of a group.
    pub fn group_array_sectors(&self) -> u64 {
        self.group_sectors * self.data_count
    }

    /// How many of these array sectors, from the first on, belong to one lane.
    pub fn owned_sectors(&self, start: ArraySector, sectors: u64) -> u64 {
        if self.lane_count == 1 { sectors } else { sectors.min(self.lane_of(start).1 - start) }
    }

    /// True if another lane owns an array sector.
    pub fn is_foreign(&self, array_sector: ArraySector) -> bool {
        self.lane_count > 1 && self.lane_of(array_sector).0 != self.lane
    }

    /// The lane that owns an array sector, and the end of its group.
    pub fn lane_of(&self, array_sector: ArraySector) -> (usize, ArraySector) {
        let (group, _) = self.by_data.divide(array_sector.get() >> self.group_sectors.trailing_zeros());
        (self.owner(group), ArraySector::new((group + 1) * self.group_array_sectors()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Level, ParityLayout};

    #[test]
    fn every_sector_belongs_to_one_lane_by_its_stripe() {
        let layout = Layout::Parity(ParityLayout::LeftSymmetric);
        for strip in [8, 128, 1024] {
            let geometry = Geometry::new(Level::Raid5, layout, strip, &[1 << 14; 4]).unwrap();
            let shares: Vec<Partition> = (0..3).map(|lane| Partition::new(&geometry, lane, 3, 512)).collect();
            for stripe in 0..(1 << 14) / strip {
                let owners: Vec<usize> = (0..3).filter(|&lane| shares[lane].owns(SyncSector::new(stripe * strip))).collect();
                let (lane, end) = shares[0].lane_of(ArraySector::new(stripe * strip * 3));
                assert_eq!(owners, [lane]);
                assert!(
                    shares
                        .iter()
                        .all(|partition| partition.owns(SyncSector::new(stripe * strip + strip - 1)) == (partition.lane == lane))
                );
                assert_eq!(shares[0].lane_of(ArraySector::new((stripe + 1) * strip * 3 - 1)), (lane, end));
            }
        }
    }

    #[test]
    fn shares_are_apart_and_leave_nothing_out() {
        let geometry = Geometry::new(Level::Raid1, Level::Raid1.default_layout(), 8, &[5000; 2]).unwrap();
        let mut parts: Vec<Range<SyncSector>> =
            (0..3).flat_map(|lane| Partition::new(&geometry, lane, 3, 512).parts(SyncSector::span(100..4999))).collect();
        parts.sort_by_key(|part| part.start);
        assert_eq!((parts[0].start, parts.last().unwrap().end), (SyncSector::new(100), SyncSector::new(4999)));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(Partition::whole(&geometry).parts(SyncSector::span(100..4999)).eq(std::iter::once(SyncSector::span(100..4999))));
        let partition = Partition::new(&geometry, 1, 3, 512);
        assert_eq!(
            [0, 511, 512, 1023, 1024, 4096].map(|sector| partition.next(SyncSector::new(sector)).get()),
            [512, 512, 512, 1023, 2048, 5120]
        );
    }
}
