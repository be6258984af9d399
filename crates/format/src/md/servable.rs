//! Checks whether Stria can serve the array of a superblock.

use super::ppl::PplLocation;
use super::shape::layout_of;
use super::superblock::{Role, Superblock, SuperblockError, feature};

impl Superblock {
    /// Checks that Stria can serve an array with this superblock.
    ///
    /// # Errors
    /// [`SuperblockError::Unserved`] with a sentence that names the feature and the remedy.
    pub fn servable(&self) -> Result<(), SuperblockError> {
        let header = &self.header;
        let unserved = |what: &str| Err(SuperblockError::Unserved(what.to_owned()));
        let known = feature::NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        if header.feature_map & !known != 0 {
            return Err(SuperblockError::Unserved(format!(
                "the superblock has feature bits 0x{:x} that this version of Stria does not know; \
                 use the software that wrote it, or a newer Stria",
                header.feature_map & !known
            )));
        }
        if header.pad0 != 0 || header.pad3.iter().any(|&byte| byte != 0) {
            return unserved("the superblock uses fields that this version of Stria does not know; use a newer Stria");
        }
        if self.has(feature::RESHAPE_ACTIVE | feature::RESHAPE_BACKWARDS | feature::NEW_OFFSET) {
            return unserved("a reshape is in progress; let Linux md finish it (mdadm --assemble), then come back");
        }
        if self.has(feature::CLUSTERED) {
            return unserved("the array is shared by a cluster, which Stria does not join; serve it where the cluster runs");
        }
        if self.has(feature::JOURNAL) || self.role() == Role::Journal {
            return unserved(
                "the array has a journal device, which may hold writes that the members lack; \
                 remove it under Linux first (assemble, then fail and remove the journal)",
            );
        }
        if let Some(place) = PplLocation::of(self) {
            if header.level != 5 || self.has(feature::BITMAP_OFFSET) || self.has(feature::PPL) == self.has(feature::MULTIPLE_PPLS)
            {
                return unserved(
                    "the superblock names a partial parity log where md keeps none: beside a bitmap, of two kinds, or at a \
                     level other than 5",
                );
            }
            if !place.suffices() {
                return unserved(
                    "the array's partial parity log has less than 132 KiB of space; \
                     under Linux, mdadm --grow --consistency-policy=resync removes it, and =ppl makes it anew",
                );
            }
        }
        let lbs = header.logical_block_size;
        if lbs != 0 && !(lbs.is_power_of_two() && (512..=4096).contains(&lbs)) {
            return Err(SuperblockError::Unserved(format!("the array has logical blocks of {lbs} bytes")));
        }
        if self.has(feature::RAID0_LAYOUT) && header.level != 0 {
            return unserved("the superblock has the RAID 0 layout bit at another level");
        }
        layout_of(&self.header).map(|_| ())
    }
}
