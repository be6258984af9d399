//! Members that left before a start, and are present again at a later one.
//!
//! A drive that is lost with a power cut loses the same data as all others, and nothing is written before the superblocks name it
//! as missing (R30, R31). So it may be present again at any later start, whatever the other superblocks record by then. The same
//! holds for a drive that is pulled once the command that fails it was answered.

use super::{Outcome, World};
use crate::drive::Presence;
use crate::member_drive::superblock_of;
use stria_format::md::{Role, Superblock};

impl World<'_> {
    /// A drive is lost with the power.
    pub(super) fn leave_behind(&mut self, drive: usize) {
        if self.history.setup.found_again && !self.next_crash.kill {
            self.left.insert(drive);
        }
    }

    /// A member is failed by command, and pulled once that is answered.
    pub(super) fn unplug(&mut self, which: u64) -> Outcome {
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false)) else {
            return Ok(());
        };
        if !self.fail(leaf, drive, false)? {
            return Ok(());
        }
        self.meet("unplugged after it was failed");
        self.redundancy.suspect[drive] = true;
        let keep = self.keep();
        self.drives[drive].borrow_mut().pull(keep);
        self.left.insert(drive);
        Ok(())
    }

    /// Drives that left before the present crash.
    pub(super) fn left_before(&mut self) -> Vec<usize> {
        self.left.retain(|&drive| self.drives[drive].borrow().presence() == Presence::Pulled);
        self.left.iter().copied().collect()
    }

    /// True if one of the drives that were `found` has an update that drops a drive of its array: a crash tore it, so starts
    /// without the found drive know nothing of it, and the next start with it follows it. A start in between may have made another
    /// update with the same number.
    pub(super) fn is_dropped_by(&self, found: &[usize], drive: usize) -> bool {
        let superblock = |drive: usize| superblock_of(&self.drives[drive].borrow());
        let Some(own) = superblock(drive) else { return false };
        let drops = |other: Superblock| {
            let counts = matches!(other.roles.get(own.header.dev_number as usize), Some(Role::Slot(_)));
            other.header.set_uuid == own.header.set_uuid && other.header.events >= own.header.events && !counts
        };
        found.iter().filter_map(|&found| superblock(found)).any(drops)
    }

    /// Some of them are present when the array starts.
    pub(super) fn find_left(&mut self, left: &[usize]) {
        for &index in left {
            if self.draws.starts.one_in(2) {
                let mut drive = self.drives[index].borrow_mut();
                drive.put_back();
                self.redundancy.suspect[index] = drive.grows_bad() || drive.is_failing();
                drop(drive);
                self.left.remove(&index);
                self.meet("left, and found again at a start");
            }
        }
    }
}
