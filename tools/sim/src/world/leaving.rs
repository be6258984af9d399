//! Drives that leave in other ways: files that are cut short, while the array runs or is stopped, and drives that hang for so
//! long that their member is dropped, and whose requests end later.

use super::{Outcome, World};
use crate::drive::Presence;
use crate::mutant::Mutant;
use stria_block::Nanos;

/// The time between two checks of the sizes of drives by the host.
const LOOK_EVERY: Nanos = 1_000_000_000;

impl World<'_> {
    /// A drive is cut short at `at`, modulo its size: now, or (`stopped`) when no process runs next.
    pub(super) fn shrink(&mut self, which: u64, at: u64, stopped: bool) -> Outcome {
        if stopped {
            self.next_crash.shrinks_at_start = Some((which, at));
            return Ok(());
        }
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false)) else {
            return Ok(());
        };
        self.meet(if self.node().leaf(leaf).is_replaying() { "cut short while replaying" } else { "cut short" });
        self.model.lose_member();
        let end = self.end_of(drive, at);
        self.cut_short(drive, end);
        self.look_due = Some((self.power.now() / LOOK_EVERY + 1) * LOOK_EVERY);
        Ok(())
    }

    fn end_of(&self, drive: usize, at: u64) -> u64 {
        let drive = self.drives[drive].borrow();
        let block = drive.model().block_sectors;
        // In half of the cases within the data, otherwise anywhere.
        let from = if at & 1 << 32 == 0 { drive.data_start_sector() } else { 0 };
        (from + at % (drive.sectors().max(from + 1) - from)) / block * block
    }

    pub(super) fn cut_short(&mut self, drive: usize, end: u64) {
        self.redundancy.suspect[drive] = true;
        self.drives[drive].borrow_mut().shrink(end);
    }

    /// Checks the sizes of drives as the host does, and reports those that were cut short to their arrays.
    pub(super) fn look_at_sizes(&mut self) {
        if self.look_due.is_none_or(|due| due > self.power.now()) {
            return;
        }
        self.look_due = None;
        if matches!(self.rules.mutant, Some(Mutant::ShortReadsUnreadable | Mutant::ShortReadsZeros)) {
            return;
        }
        for drive in (0..self.drives.len()).filter(|&drive| self.drives[drive].borrow().is_cut()) {
            if let Some(leaf) = self.leaf_of(drive) {
                let leaf = self.node().leaf(leaf);
                let member = leaf.handle_of(drive).expect("it is in use there");
                leaf.with_engine(|engine| {
                    engine.lose(member, stria_block::IoError::new(stria_block::ErrorKind::Gone, "it was cut short while in use"))
                });
            }
        }
    }

    /// The drive that is to be cut short while no process runs, and the sector. `crashed`: by leaf and slot the drives that were
    /// in sync.
    pub(super) fn shrinks_now(&mut self, crashed: Option<&[Vec<Option<usize>>]>) -> Option<(usize, u64)> {
        let (which, at) = self.next_crash.shrinks_at_start?;
        self.node.as_ref()?;
        let (leaf, drive) = self.holder(which)?;
        let allowed = match crashed {
            Some(in_sync) => self.may_lose_in_crash(in_sync, leaf, drive),
            None => self.history.setup.level.is_redundant() && self.may_lose(leaf, drive, false),
        };
        if !allowed {
            return None;
        }
        self.next_crash.shrinks_at_start = None;
        self.meet("cut short while the array is stopped");
        self.model.lose_member();
        Some((drive, self.end_of(drive, at)))
    }

    /// True if a member may be missing after a crash at this moment.
    pub(super) fn may_lose_in_crash(&self, in_sync: &[Vec<Option<usize>>], leaf: usize, drive: usize) -> bool {
        let level = self.history.setup.level;
        level.is_redundant()
            && (level.parity_count() == 0 || self.redundancy.survives_crash_with_loss())
            && in_sync[leaf].contains(&Some(drive))
            && self.may_lose(leaf, drive, false)
    }

    /// True if a drive that was cut short or hangs may take a log with it on which the superblocks of the others still count.
    pub(super) fn takes_log_along(&self) -> bool {
        let short = |drive: usize| self.drives[drive].borrow().is_cut();
        let drops_are_recorded = self.node().leaves().iter().all(|leaf| leaf.drops_are_committed());
        (0..self.drives.len()).any(|drive| {
            short(drive) && self.leaf_of(drive).is_some() || !drops_are_recorded && (short(drive) || self.may_be_held(drive))
        })
    }

    /// True if the requests of a drive that no array uses any more, or that is being filled, may outlive its process.
    pub(super) fn may_be_held(&self, drive: usize) -> bool {
        self.history.setup.holds
            && self.node.is_some()
            && self.next_crash.kill
            && self.drives[drive].borrow().hangs()
            && (self.leaf_of(drive).is_none() || self.history.setup.hangs && self.is_being_filled(drive))
    }

    /// Fails a drive by command while it hangs.
    pub(super) fn fail_hung(&mut self) -> Outcome {
        let hung = self.hung().find(|&(leaf, drive)| self.may_lose(leaf, drive, false));
        hung.map_or(Ok(()), |(leaf, drive)| self.fail(leaf, drive, true).map(drop))
    }

    /// Members in sync that hang, each with its leaf.
    pub(super) fn hung(&self) -> impl Iterator<Item = (usize, usize)> {
        let leaves = self.node().leaves();
        let in_sync: Vec<(usize, usize)> = (0..leaves.len())
            .flat_map(|leaf| leaves[leaf].in_sync_drives().into_iter().flatten().map(move |drive| (leaf, drive)))
            .collect();
        in_sync.into_iter().filter(|&(_, drive)| self.drives[drive].borrow().hangs())
    }

    /// The member with requests that outlive the process being killed, so that the next one starts without it.
    pub(super) fn hangs_on(&self, in_sync: &[Vec<Option<usize>>]) -> Option<usize> {
        let unheld = self.rules.mutant == Some(Mutant::OpenedWhileHeld);
        if !self.next_crash.kill || !self.history.setup.holds || self.node.is_none() || unheld {
            return None;
        }
        self.hung().find(|&(leaf, drive)| self.may_lose_in_crash(in_sync, leaf, drive)).map(|(_, drive)| drive)
    }

    /// Some of the drives that a dead process held are found by the next start, if their requests have ended.
    pub(super) fn find_again(&mut self, held: &[usize]) {
        for &index in held {
            let mut drive = self.drives[index].borrow_mut();
            if drive.is_let_go() && self.draws.more.one_in(2) {
                assert_eq!(drive.presence(), Presence::Held);
                drive.put_back();
                // A write that should fail still does.
                self.redundancy.suspect[index] = drive.grows_bad() || drive.is_failing();
                drop(drive);
                self.meet("held, and found again at a start");
            }
        }
    }
}
