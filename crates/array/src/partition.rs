//! The partition of an array that a lane owns.
//!
//! The sync space is dealt out in groups of some stripes, one lane after the other. Whatever must stay consistent lies in one
//! group, so an engine that leaves other groups alone needs to know nothing of them.

use crate::Geometry;
use crate::geometry::Divisor;
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
        let data_count = if geometry.level().parity_count() > 0 { geometry.data_count() as u64 } else { 1 };
        let (by_data, by_lanes) = (Divisor::new(data_count), Divisor::new(lane_count as u64));
        Self { lane, lane_count, group_sectors, data_count, by_data, by_lanes }
    }

    /// How much of a window lies in one group, if it starts with one.
    pub fn window(&self, sectors: u64) -> u64 {
        if self.lane_count == 1 { sectors } else { sectors.min(self.group_sectors) }
    }

    fn owner(&self, group: u64) -> usize {
        self.by_lanes.divide(group).1 as usize
    }

    /// True if this partition contains a position of the sync space.
    pub fn owns(&self, sync_sector: u64) -> bool {
        self.lane_count == 1 || self.owner(sync_sector / self.group_sectors) == self.lane
    }

    /// The first position of the partition from here on.
    pub fn next(&self, sync_sector: u64) -> u64 {
        if self.owns(sync_sector) {
            return sync_sector;
        }
        let group = sync_sector / self.group_sectors;
        let away = (self.lane + self.lane_count - self.owner(group)) % self.lane_count;
        (group + away as u64) * self.group_sectors
    }

    /// The parts of a range of the sync space that this partition contains.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let partition = *self;
        let mut next = range.start;
        std::iter::from_fn(move || {
            let start = partition.next(next);
            let group_end = if partition.lane_count == 1 {
                u64::MAX
            } else {
                (start / partition.group_sectors + 1) * partition.group_sectors
            };
            next = group_end.min(range.end);
            (start < range.end).then_some(start..next)
        })
    }

    /// Array sectors of a group.
    pub fn group_array_sectors(&self) -> u64 {
        self.group_sectors * self.data_count
    }

    /// The lane that owns an array sector, and the end of its group.
    pub fn lane_of(&self, array_sector: u64) -> (usize, u64) {
        let (group, _) = self.by_data.divide(array_sector >> self.group_sectors.trailing_zeros());
        (self.owner(group), (group + 1) * self.group_array_sectors())
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
                let owners: Vec<usize> = (0..3).filter(|&lane| shares[lane].owns(stripe * strip)).collect();
                let (lane, end) = shares[0].lane_of(stripe * strip * 3);
                assert_eq!(owners, [lane]);
                assert!(shares.iter().all(|partition| partition.owns(stripe * strip + strip - 1) == (partition.lane == lane)));
                assert_eq!(shares[0].lane_of((stripe + 1) * strip * 3 - 1), (lane, end));
            }
        }
    }

    #[test]
    fn shares_are_apart_and_leave_nothing_out() {
        let geometry = Geometry::new(Level::Raid1, Level::Raid1.default_layout(), 8, &[5000; 2]).unwrap();
        let mut parts: Vec<Range<u64>> =
            (0..3).flat_map(|lane| Partition::new(&geometry, lane, 3, 512).parts(100..4999)).collect();
        parts.sort_by_key(|part| part.start);
        assert_eq!((parts[0].start, parts.last().unwrap().end), (100, 4999));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(Partition::whole(&geometry).parts(100..4999).eq(std::iter::once(100..4999)));
        let partition = Partition::new(&geometry, 1, 3, 512);
        assert_eq!([0, 511, 512, 1023, 1024, 4096].map(|sector| partition.next(sector)), [512, 512, 512, 1023, 2048, 5120]);
    }
}
