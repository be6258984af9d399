//! All strips, copies and parity that some array sectors consist of.

use super::Geometry;
use crate::{ArraySector, Family, MemberSector};
use std::ops::Range;
use stria_block::ranges::merged;

impl Geometry {
    /// The runs of each slot's data area that hold these array sectors, copies of them, or parity over them, in order and
    /// disjoint. On parity levels whole rows: zeros written to all of them leave parity right.
    pub fn footprint(&self, range: Range<ArraySector>) -> Vec<Vec<Range<MemberSector>>> {
        let mut runs = vec![Vec::new(); self.slot_count()];
        let mut sector = range.start;
        while sector < range.end {
            let left = range.end - sector;
            sector += match self.level.family() {
                Family::Striped => {
                    let extent = self.extent(sector, left);
                    runs[extent.slot].push(extent.start_sector.run(extent.sectors));
                    extent.sectors
                }
                Family::Mirror => {
                    let (copies, sectors) = self.copies_of(sector, left);
                    for copy in copies {
                        runs[copy.slot].push(copy.start_sector.run(sectors));
                    }
                    sectors
                }
                Family::Parity => {
                    let (stripe, _, in_strip) = self.strip_of(sector);
                    let sectors = left.min(self.strip_sectors - in_strip.get());
                    let rows = self.rows_of_strip(stripe, &in_strip.run(sectors));
                    runs.iter_mut().for_each(|runs| runs.push(rows.clone()));
                    sectors
                }
            };
        }
        runs.into_iter().map(merged).collect()
    }
}
