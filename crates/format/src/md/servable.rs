//! Checks whether Stria can serve the array of a superblock.

use super::ppl::PplLocation;
use super::shape::layout_of;
use super::superblock::{Role, Superblock, feature};
use super::unserved::Unserved;

impl Superblock {
    /// Checks that Stria can serve an array with this superblock.
    ///
    /// # Errors
    /// What it asks for that Stria does not serve.
    pub fn servable(&self) -> Result<(), Unserved> {
        let header = &self.header;
        let known = feature::NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        if header.feature_map & !known != 0 {
            return Err(Unserved::Features { bits: header.feature_map & !known });
        }
        if header.pad0 != 0 || header.pad3.iter().any(|&byte| byte != 0) {
            return Err(Unserved::Fields);
        }
        if self.has(feature::RESHAPE_ACTIVE | feature::RESHAPE_BACKWARDS | feature::NEW_OFFSET) {
            return Err(Unserved::Reshape);
        }
        if self.has(feature::CLUSTERED) {
            return Err(Unserved::Cluster);
        }
        if self.has(feature::JOURNAL) || self.role() == Role::Journal {
            return Err(Unserved::JournalDevice);
        }
        if let Some(place) = PplLocation::of(self) {
            if header.level != 5 || self.has(feature::BITMAP_OFFSET) || self.has(feature::PPL) == self.has(feature::MULTIPLE_PPLS)
            {
                return Err(Unserved::PartialParityLogMisplaced);
            }
            if !place.suffices() {
                return Err(Unserved::PartialParityLogTooShort);
            }
        }
        let block_bytes = header.logical_block_size;
        if block_bytes != 0 && !(block_bytes.is_power_of_two() && (512..=4096).contains(&block_bytes)) {
            return Err(Unserved::Blocks { block_bytes });
        }
        if self.has(feature::RAID0_LAYOUT) && header.level != 0 {
            return Err(Unserved::LayoutBit);
        }
        layout_of(&self.header).map(|_| ())
    }
}
