//! A member whose file system is full for a while (R40). Writes of data find no space there, all or some of them; metadata have
//! theirs. The drive counts as lost until nothing of it is a bad block any more.

use super::{Outcome, Stop, World};
use crate::drive::{Presence, Refusal};
use crate::member_drive::superblock_of;
use stria_array::MemberState;
use stria_block::{ErrorKind, Nanos};
use stria_format::md::superblock::feature;

/// Writes that were acknowledged early are in place by then.
const IN_PLACE: Nanos = 100_000_000;

/// Bad blocks are filled by then if there is space: it is tried every 2 s.
const FILLED: Nanos = 10_000_000_000;

impl World<'_> {
    /// A member has no space for data until [`free_space`](Self::free_space). Of its writes so many eighths fail.
    pub(super) fn fill_up(&mut self, which: u64, eighths: u8) -> Outcome {
        if self.space.full().is_some() {
            return Ok(());
        }
        self.drain()?;
        self.settle()?;
        // A write that was acknowledged early, and then has no space, is lost with the next flush (R87). Files with holes rule
        // that out.
        let is_expected = !self.history.setup.harsh || which & 1 << 20 == 0;
        if is_expected {
            self.node().leaves().iter().for_each(|leaf| leaf.with_engine(|engine| engine.expect_no_space()));
        }
        self.pause(IN_PLACE)?;
        // A drive that stalls has such a write still before it.
        if self.drives.iter().any(|drive| drive.borrow().is_stalled()) {
            return Ok(());
        }
        let found = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false));
        let Some((_, drive)) = found.filter(|&(_, drive)| !self.is_harmed(drive)) else { return Ok(()) };
        self.meet("member full");
        let from_sector = self.drives[drive].borrow().data_start_sector();
        let refusal = Refusal { kind: ErrorKind::NoSpace, eighths, from_sector };
        self.drives[drive].borrow_mut().refuse(Some(refusal));
        self.redundancy.suspect[drive] = true;
        self.space.fill_up(drive, is_expected);
        Ok(())
    }

    /// There is space again. What became a bad block is filled soon.
    pub(super) fn free_space(&mut self) {
        if let Some(drive) = self.space.free(self.power.now()) {
            self.drives[drive].borrow_mut().refuse(None);
        }
    }

    /// A drive that lost its slot has space for whatever it becomes next; one without bad blocks counts again.
    pub(super) fn watch_full(&mut self) {
        if self.space.full().is_some_and(|drive| self.leaf_of(drive).is_none()) {
            self.free_space();
        }
        let Some(drive) = self.space.refilling() else { return };
        // What met the lack of space may still wait to make bad blocks of its rows.
        let is_open = self.clients.oldest_since().is_some_and(|since| self.space.may_have_lacked(since));
        let is_filled = !is_open
            && self.leaf_of(drive).is_some_and(|leaf| {
                let leaf = self.node().leaf(leaf);
                let status = leaf.status();
                let member =
                    leaf.handle_of(drive).filter(|_| status.sweep.is_none()).map(|member| status.members[member.0].clone());
                // A crash would bring back what the superblock still names.
                let is_recorded =
                    superblock_of(&self.drives[drive].borrow()).is_some_and(|known| !known.has(feature::BAD_BLOCKS));
                is_recorded && member.is_some_and(|member| member.state == MemberState::InSync && member.bad_sectors == 0)
            });
        if is_filled {
            let harmed = {
                let drive = self.drives[drive].borrow();
                drive.presence() != Presence::There
                    || drive.grows_bad()
                    || drive.is_failing()
                    || drive.is_spoiled()
                    || drive.is_cut()
            };
            self.redundancy.suspect[drive] = harmed;
            self.space.is_refilled();
        }
    }

    /// Once there is space, bad blocks are filled, also those that a crash left.
    pub(super) fn fill_bad_blocks(&mut self) -> Outcome {
        self.free_space();
        let left = |world: &Self| -> Vec<String> {
            let members = world.statuses().into_iter().flat_map(|status| status.members);
            let left = members.filter(|member| member.bad_sectors > 0 && member.state != MemberState::Failed);
            left.map(|member| format!("{} of {} ({:?})", member.bad_sectors, member.name, member.state)).collect()
        };
        if !self.space.was_full() || left(self).is_empty() {
            return Ok(());
        }
        self.pause(FILLED)?;
        if !left(self).is_empty() {
            // A write that failed for another reason is tried again at the next start.
            self.restart()?;
            self.settle()?;
            self.pause(FILLED)?;
        }
        let left = left(self);
        match left.is_empty() {
            true => Ok(()),
            false => Err(Stop::Wrong(format!("bad blocks stay although there is space: {}", left.join(", ")))),
        }
    }
}
