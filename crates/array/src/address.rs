//! Addresses, each a type of its own: two spaces cannot be confused, at no cost when the program runs.
//!
//! | space | one sector is | where it is used |
//! | --- | --- | --- |
//! | [`ArraySpace`] | of the array, as clients see it | requests, reads, mirrors |
//! | [`SyncSpace`] | of the sync space, where redundancy is kept consistent | locks, the write-intent bitmap, resync, partitions of lanes |
//! | [`MemberSpace`] | of a member's data area, wherever that lies on the drive | requests to members, bad blocks, rebuilt members |
//! | [`DriveSpace`] | of a member's drive, counted from the start of the drive | metadata, where a data area lies |
//! | [`StripeSpace`] | of the data of one stripe, in address order | coalesced writes |
//! | [`StripSpace`] | of a strip: the same rows of every strip of a stripe | plans, log records, replay |
//! | `SweepSpace` | a position of a sweep: a member's for a rebuild, of the sync space otherwise | windows, watermarks |
//!
//! On parity levels the sync space is the rows of the members, on mirrors the array's sectors. The functions at the end say
//! which: no other way leads from one space to another.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Range, Sub};
use stria_block::ranges::common;

/// A sector of the space `S`, counted from 0.
#[repr(transparent)]
pub struct Sector<S>(u64, PhantomData<S>);

/// The space that clients see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArraySpace {}

/// The space in which redundancy is kept consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncSpace {}

/// A member's data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberSpace {}

/// A member's drive, with the metadata before its data area and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveSpace {}

/// The data of one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StripeSpace {}

/// One strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StripSpace {}

/// The way of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SweepSpace {}

/// A sector as clients see it.
pub type ArraySector = Sector<ArraySpace>;
/// A sector of the sync space.
pub type SyncSector = Sector<SyncSpace>;
/// A sector of a member's data area: a row.
pub type MemberSector = Sector<MemberSpace>;
/// A sector of a member's drive, counted from the start of the drive.
pub type DriveSector = Sector<DriveSpace>;
/// A sector of a stripe's data, counted from the first of the stripe.
pub type StripeSector = Sector<StripeSpace>;
/// A sector of a strip, counted from the first of the strip. Ranges of these are rows of a stripe.
pub type StripSector = Sector<StripSpace>;
/// A position of a sweep.
pub(crate) type SweepSector = Sector<SweepSpace>;

impl<S> Sector<S> {
    /// The first sector.
    pub const ZERO: Self = Self::new(0);

    /// Sector `number`.
    #[inline(always)]
    pub const fn new(number: u64) -> Self {
        Self(number, PhantomData)
    }

    /// Its number.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sectors with these numbers.
    #[inline(always)]
    pub const fn span(numbers: Range<u64>) -> Range<Self> {
        Self::new(numbers.start)..Self::new(numbers.end)
    }

    /// So many sectors from this one on.
    #[inline(always)]
    pub fn run(self, sectors: u64) -> Range<Self> {
        self..self + sectors
    }

    /// The sector so many before, or the first.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, sectors: u64) -> Self {
        Self::new(self.0.saturating_sub(sectors))
    }

    /// The sector so many behind, or the last that has a number.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, sectors: u64) -> Self {
        Self::new(self.0.saturating_add(sectors))
    }
}

impl<S> Clone for Sector<S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Sector<S> {}

impl<S> Default for Sector<S> {
    fn default() -> Self {
        Self::ZERO
    }
}

impl<S> PartialEq for Sector<S> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<S> Eq for Sector<S> {}

impl<S> PartialOrd for Sector<S> {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
    #[inline(always)]
    fn lt(&self, other: &Self) -> bool {
        self.0 < other.0
    }
    #[inline(always)]
    fn le(&self, other: &Self) -> bool {
        self.0 <= other.0
    }
    #[inline(always)]
    fn gt(&self, other: &Self) -> bool {
        self.0 > other.0
    }
    #[inline(always)]
    fn ge(&self, other: &Self) -> bool {
        self.0 >= other.0
    }
}

impl<S> Ord for Sector<S> {
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<S> Hash for Sector<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<S> fmt::Debug for Sector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<S> fmt::Display for Sector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The sector so many further on.
impl<S> Add<u64> for Sector<S> {
    type Output = Self;
    #[inline(always)]
    fn add(self, sectors: u64) -> Self {
        Self::new(self.0 + sectors)
    }
}

impl<S> AddAssign<u64> for Sector<S> {
    #[inline(always)]
    fn add_assign(&mut self, sectors: u64) {
        self.0 += sectors;
    }
}

/// The number of sectors between two.
impl<S> Sub for Sector<S> {
    type Output = u64;
    #[inline(always)]
    fn sub(self, earlier: Self) -> u64 {
        self.0 - earlier.0
    }
}

/// Operations on ranges of sectors.
pub trait Sectors: Sized {
    /// The number of sectors.
    fn sectors(&self) -> u64;

    /// True if both contain some sector.
    fn overlaps(&self, other: &Self) -> bool;

    /// The smallest range of whole blocks that contains this one.
    fn in_blocks(&self, block_sectors: u64) -> Self;

    /// The range cut into steps of so many sectors; the last may be shorter.
    fn in_steps(&self, sectors: u64) -> impl Iterator<Item = Self> + use<Self>;
}

impl<S> Sectors for Range<Sector<S>> {
    #[inline(always)]
    fn sectors(&self) -> u64 {
        self.end - self.start
    }

    #[inline(always)]
    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn in_blocks(&self, block_sectors: u64) -> Self {
        Sector::new(self.start.0 / block_sectors * block_sectors)..Sector::new(self.end.0.next_multiple_of(block_sectors))
    }

    fn in_steps(&self, sectors: u64) -> impl Iterator<Item = Self> + use<S> {
        let Range { start: mut next, end } = *self;
        std::iter::from_fn(move || {
            let start = next;
            next = end.min(start.saturating_add(sectors));
            (start < end).then_some(start..next)
        })
    }
}

#[inline(always)]
fn moved<S, T>(range: &Range<Sector<S>>) -> Range<Sector<T>> {
    Sector::new(range.start.0)..Sector::new(range.end.0)
}

/// On parity levels: where these rows of members lie in the sync space.
#[inline(always)]
pub(crate) fn sync_of_rows(rows: &Range<MemberSector>) -> Range<SyncSector> {
    moved(rows)
}

/// On parity levels: the rows of members that are a range of the sync space.
#[inline(always)]
pub(crate) fn rows_of_sync(sync: &Range<SyncSector>) -> Range<MemberSector> {
    moved(sync)
}

/// On mirrors: where these array sectors lie in the sync space.
#[inline(always)]
pub(crate) fn sync_of_array(range: &Range<ArraySector>) -> Range<SyncSector> {
    moved(range)
}

/// On mirrors: the array sectors that are a range of the sync space.
#[inline(always)]
pub(crate) fn array_of_sync(sync: &Range<SyncSector>) -> Range<ArraySector> {
    moved(sync)
}

/// Where sectors of a member lie on its drive, whose data area starts at `data_start`.
pub fn on_drive(sectors: &Range<MemberSector>, data_start: DriveSector) -> Range<DriveSector> {
    data_start + sectors.start.0..data_start + sectors.end.0
}

/// The part of these sectors of a drive that lies in its data area, as sectors of the member. `None`: no part of them.
pub fn in_data_area(sectors: &Range<DriveSector>, data: &Range<DriveSector>) -> Option<Range<MemberSector>> {
    let part = common(sectors, data);
    (!part.is_empty()).then(|| Sector::new(part.start - data.start)..Sector::new(part.end - data.start))
}

impl SweepSector {
    /// The position of a rebuild at a row.
    pub(crate) fn of_row(row: MemberSector) -> Self {
        Self::new(row.0)
    }

    /// The position of a resync or scrub; on parity levels, of a rebuild as well.
    pub(crate) fn of_sync(sector: SyncSector) -> Self {
        Self::new(sector.0)
    }

    /// The position of a rebuild.
    pub(crate) fn row(self) -> MemberSector {
        Sector::new(self.0)
    }

    /// The position of a resync or scrub; on parity levels, of a rebuild as well.
    pub(crate) fn sync(self) -> SyncSector {
        Sector::new(self.0)
    }
}

/// The window of a rebuild: rows of members.
pub(crate) fn rows_of_sweep(window: &Range<SweepSector>) -> Range<MemberSector> {
    moved(window)
}

/// The window of a resync or scrub; and, on parity levels, of a rebuild.
pub(crate) fn sync_of_sweep(window: &Range<SweepSector>) -> Range<SyncSector> {
    moved(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_large_as_its_number() {
        assert_eq!(size_of::<Range<ArraySector>>(), 16);
        assert_eq!(size_of::<Option<MemberSector>>(), size_of::<Option<u64>>());
    }

    #[test]
    fn data_area_and_drive_lead_to_each_other() {
        let data = DriveSector::span(100..200);
        let sectors = MemberSector::span(3..20);
        assert_eq!(in_data_area(&on_drive(&sectors, data.start), &data), Some(sectors));
        assert_eq!(in_data_area(&DriveSector::span(90..101), &data), Some(MemberSector::span(0..1)));
        assert_eq!(in_data_area(&DriveSector::span(200..201), &data), None);
        assert_eq!(DriveSector::span(3..9).in_blocks(8), DriveSector::span(0..16));
    }

    #[test]
    fn steps_cover_a_range_once() {
        let range = SyncSector::span(3..20);
        let steps: Vec<_> = range.in_steps(8).map(|step| step.start.get()..step.end.get()).collect();
        assert_eq!(steps, [3..11, 11..19, 19..20]);
        assert_eq!(range.in_steps(u64::MAX).count(), 1);
        assert!((range.end..range.end).in_steps(8).next().is_none());
    }
}
