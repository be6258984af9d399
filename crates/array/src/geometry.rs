//! The shape of an array: level, layout, strip and sizes, checked once.
//!
//! It leads from the array's sectors to members' and back; [`address`](crate::address) has the spaces. The sync space is as in md
//! (`resync_max_sectors`).

mod divisor;
mod footprint;
mod mirror;
mod parity;
mod stripe;

pub(crate) use divisor::Divisor;
pub use mirror::Copy;
pub use parity::StripeMap;
pub use stripe::Extent;

use crate::address::sync_of_rows;
use crate::{ArraySector, Family, Layout, Level, MemberSector, StripSector, SyncSector};
use std::ops::Range;

/// A checked geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    layout: Layout,
    strip_sectors: u64,
    /// Data area used on each member; all equal but for linear and RAID 0.
    member_sectors: Vec<u64>,
    zones: Vec<stripe::Zone>,
    /// The part of the array, from its start, over which a RAID 0 is striped over all members: most often all of it.
    even_sectors: u64,
    capacity_sectors: u64,
    by_slots: Divisor,
    /// Data strips in a stripe of a parity level.
    by_data: Divisor,
}

/// Why a geometry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Too few or too many members for the level.
    #[error("RAID level {level} takes {least} to {most} members, and {count} were given")]
    MemberCount {
        /// The level.
        level: Level,
        /// The least that it takes.
        least: usize,
        /// The most.
        most: usize,
        /// Given.
        count: usize,
    },
    /// More copies than an array may have members.
    #[error(
        "layout {layout} keeps {copies} copies, and RAID level 10 keeps at most {}: choose a layout with fewer",
        Geometry::MEMBER_COUNT_MAX
    )]
    CopyCount {
        /// The layout.
        layout: Layout,
        /// Its copies.
        copies: usize,
    },
    /// Fewer than two copies.
    #[error("RAID level 10 keeps at least 2 copies, and layout {layout} fewer: choose n2, f2 or o2")]
    NoCopies {
        /// The layout.
        layout: Layout,
    },
    /// A strip size that no level of ours can have.
    #[error("a strip of {strip_sectors} sectors cannot be used: choose a power of two from 4K to {}M", STRIP_SECTORS_MAX >> 11)]
    Strip {
        /// Asked for.
        strip_sectors: u64,
    },
    /// A layout of another level.
    #[error("layout {layout} does not belong to RAID level {level}: leave --layout out to take the default")]
    Layout {
        /// The layout.
        layout: Layout,
        /// The level.
        level: Level,
    },
    /// More than any address reaches.
    #[error("{count} members of {sectors} sectors are more than the 8 EiB that an array may have in all")]
    TooLarge {
        /// Members.
        count: usize,
        /// Space on the largest.
        sectors: u64,
    },
    /// No space for a single strip.
    #[error(
        "the members are too small: {sectors} sectors of data space do not hold one strip of {strip_sectors} sectors; use larger drives or a smaller --strip"
    )]
    TooSmall {
        /// Space on the smallest.
        sectors: u64,
        /// One strip.
        strip_sectors: u64,
    },
}

impl Geometry {
    /// 384: what a superblock of md 1.2 has space for in practice.
    pub const MEMBER_COUNT_MAX: usize = 384;

    /// A geometry on members whose data areas have `member_sectors` each. Redundant levels use as much of every member as the
    /// smallest has; lengths are rounded down to whole strips. RAID 1 ignores `strip_sectors`; linear rounds members down to it
    /// unless it is 0.
    ///
    /// # Errors
    /// [`GeometryError`], in words for the administrator.
    pub fn new(level: Level, layout: Layout, strip_sectors: u64, member_sectors: &[u64]) -> Result<Self, GeometryError> {
        let count = member_sectors.len();
        if !layout.suits(level) {
            return Err(GeometryError::Layout { layout, level });
        }
        if let Layout::Copies(copies) = layout
            && copies.count() < 2
        {
            return Err(GeometryError::NoCopies { layout });
        }
        let count_min = match level {
            Level::Linear | Level::Raid0 | Level::Raid1 => 1,
            Level::Raid4 | Level::Raid5 => 2,
            Level::Raid6 => 4,
            Level::Raid10 => copy_count(layout),
        };
        let count_max = count_max(level, layout);
        if count_min > count_max {
            return Err(GeometryError::CopyCount { layout, copies: count_min });
        }
        if count < count_min || count > count_max {
            return Err(GeometryError::MemberCount { level, least: count_min, most: count_max, count });
        }
        let strip_free = matches!(level, Level::Raid1) || (level == Level::Linear && strip_sectors == 0);
        let strip_sectors = if level == Level::Raid1 { 8 } else { strip_sectors };
        let strip_fits = strip_sectors.is_power_of_two() && (8..=STRIP_SECTORS_MAX).contains(&strip_sectors);
        if !strip_free && !strip_fits {
            return Err(GeometryError::Strip { strip_sectors });
        }
        let whole = |sectors: u64| {
            if level == Level::Raid1 || strip_sectors == 0 { sectors } else { sectors / strip_sectors * strip_sectors }
        };
        let smallest = member_sectors.iter().copied().min().expect("there is a member");
        let largest = member_sectors.iter().copied().max().expect("there is a member");
        // No sum or product of what follows wraps, counted in bytes either.
        if largest.checked_mul(count as u64).is_none_or(|sectors| sectors > stria_block::SECTORS_MAX) {
            return Err(GeometryError::TooLarge { count, sectors: largest });
        }
        if whole(smallest) == 0 {
            return Err(GeometryError::TooSmall { sectors: smallest, strip_sectors });
        }
        let member_sectors: Vec<u64> =
            member_sectors.iter().map(|&sectors| whole(if level.is_redundant() { smallest } else { sectors })).collect();
        let (by_slots, by_data) = (Divisor::new(count as u64), Divisor::new((count - level.parity_count()) as u64));
        let even_sectors = if level == Level::Raid0 && count > 1 { whole(smallest) * count as u64 } else { 0 };
        let (zones, capacity_sectors) = (Vec::new(), 0);
        let mut geometry =
            Self { level, layout, strip_sectors, zones, even_sectors, capacity_sectors, member_sectors, by_slots, by_data };
        geometry.zones = geometry.make_zones();
        geometry.capacity_sectors = match level.family() {
            Family::Striped => geometry.member_sectors.iter().sum(),
            Family::Mirror if level == Level::Raid1 => geometry.member_sectors[0],
            Family::Mirror => geometry.mirror_capacity_sectors(),
            Family::Parity => geometry.member_sectors[0] * geometry.data_count() as u64,
        };
        if geometry.capacity_sectors == 0 {
            return Err(GeometryError::TooSmall { sectors: smallest, strip_sectors });
        }
        Ok(geometry)
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Strip length; 0 for a linear array without rounding, 8 for RAID 1, where it means nothing.
    pub fn strip_sectors(&self) -> u64 {
        self.strip_sectors
    }

    /// The number of slots.
    pub fn slot_count(&self) -> usize {
        self.member_sectors.len()
    }

    /// The data area used on the member of a slot.
    pub fn member_sectors(&self, slot: usize) -> u64 {
        self.member_sectors[slot]
    }

    /// The size that clients see.
    pub fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    /// Size of the sync space; 0 for levels without redundancy.
    pub fn sync_sectors(&self) -> u64 {
        match self.level.family() {
            Family::Striped => 0,
            Family::Mirror => self.capacity_sectors,
            Family::Parity => self.member_sectors[0],
        }
    }

    /// The number of members that may be lost, whichever they are.
    pub fn losses_survived(&self) -> usize {
        match (self.level, self.layout) {
            (Level::Raid1, _) => self.slot_count() - 1,
            (_, Layout::Copies(copies)) => copies.count() - 1,
            (_, Layout::Plain | Layout::Zones(_) | Layout::Parity(_)) => self.level.parity_count(),
        }
    }

    /// The stripe of a parity level in which array sector `sector` lies, its data strip by address, and the sector in that.
    pub(crate) fn strip_of(&self, sector: ArraySector) -> (u64, usize, StripSector) {
        let sector = sector.get();
        let (stripe, index) = self.by_data.divide(sector >> self.strip_sectors.trailing_zeros());
        (stripe, index as usize, StripSector::new(sector & (self.strip_sectors - 1)))
    }

    /// The rows of members that are these sectors of a stripe's strips.
    #[inline]
    pub(crate) fn rows_of_strip(&self, stripe: u64, in_strip: &Range<StripSector>) -> Range<MemberSector> {
        let base = stripe * self.strip_sectors;
        MemberSector::new(base + in_strip.start.get())..MemberSector::new(base + in_strip.end.get())
    }

    /// Where a stripe of a parity level begins in the sync space.
    pub(crate) fn sync_of_stripe(&self, stripe: u64) -> SyncSector {
        sync_of_rows(&self.rows_of_strip(stripe, &StripSector::ZERO.run(self.strip_sectors))).start
    }

    /// The stripe of a parity level in which a row lies, and the sector in its strips.
    pub(crate) fn stripe_of_row(&self, row: MemberSector) -> (u64, StripSector) {
        (row.get() / self.strip_sectors, StripSector::new(row.get() % self.strip_sectors))
    }

    /// Data strips in a stripe of a parity level.
    pub fn data_count(&self) -> usize {
        self.slot_count() - self.level.parity_count()
    }
}

/// Copies of each sector.
fn copy_count(layout: Layout) -> usize {
    match layout {
        Layout::Copies(copies) => copies.count(),
        Layout::Plain | Layout::Zones(_) | Layout::Parity(_) => 1,
    }
}

/// The most members. What md has space for, or less where the parity code has fewer positions.
fn count_max(level: Level, layout: Layout) -> usize {
    match (level.family(), layout) {
        (Family::Striped | Family::Mirror, _) => Geometry::MEMBER_COUNT_MAX,
        (Family::Parity, layout) => {
            let parity_count = level.parity_count();
            let by_code = stria_parity::DATA_COUNT_MAX[parity_count];
            if layout.counts_parity() { by_code } else { by_code + parity_count }
        }
    }
}

/// 64 MiB: md takes strips as large as this. Commands and API create arrays with strips of up to 1 MiB.
const STRIP_SECTORS_MAX: u64 = (64 << 20) / 512;

#[cfg(test)]
mod tests;
