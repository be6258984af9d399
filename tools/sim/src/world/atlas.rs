//! The atlas: the faults that are allowed now.

use super::{World, is_optimal};
use crate::drive::Presence;
use crate::member_drive::superblock_of;
use stria_array::{ArrayStatus, MemberState, SweepKind, Synced};
use stria_format::md::superblock::feature;

impl World<'_> {
    /// True if the superblocks of all members say that redundancy is consistent, or that the log names the rows where it may not
    /// be.
    pub(super) fn is_recorded_firm(&self) -> bool {
        let holders = self.node().leaves().into_iter().flat_map(|leaf| leaf.in_sync_drives()).flatten();
        holders.into_iter().all(|drive| {
            let superblock = superblock_of(&self.drives[drive].borrow());
            superblock.is_some_and(|superblock| superblock.vouches_for_parity())
        })
    }

    /// True if the power may fail. RULE of the write hole: without a log, a parity array that lacks a member may not lose power.
    pub(super) fn may_crash(&self, statuses: &[ArrayStatus]) -> bool {
        if self.examination.is_open() {
            return false;
        }
        if self.redundancy.survives_crash_with_loss() || self.history.setup.level.parity_count() == 0 {
            return true;
        }
        let spoiled = (0..self.drives.len()).any(|drive| self.is_harmed(drive) && self.leaf_of(drive).is_some());
        let is_optimal_or_copied = |status: &ArrayStatus| {
            let copies = status.members.iter().any(|member| member.state == MemberState::Replacing);
            let rebuilds = status.sweep.as_ref().is_some_and(|sweep| sweep.kind == SweepKind::Rebuild);
            is_optimal(status) && (!rebuilds || copies)
        };
        // A dropped or replaced member returns with its unreadable sectors, unless the superblocks record that it left.
        let drops_are_recorded = self.node().leaves().iter().all(|leaf| leaf.drops_are_committed());
        !spoiled && drops_are_recorded && statuses.iter().all(is_optimal_or_copied)
    }

    /// True if no member whose flush has failed is in use, and superblocks say so.
    pub(super) fn failed_flushes_are_recorded(&self) -> bool {
        let is_in_use = |drive: usize| self.drives[drive].borrow().shows_lost && self.leaf_of(drive).is_some();
        !(0..self.drives.len()).any(is_in_use) && self.node().leaves().iter().all(|leaf| leaf.drops_are_committed())
    }

    /// True if a drive may lack something that its array needs. One that had no space for a while does until its bad blocks are
    /// filled, also after it was away.
    pub(super) fn is_harmed(&self, drive: usize) -> bool {
        if self.redundancy.suspect[drive] {
            return true;
        }
        let has_lacked = self.space.has_lacked(drive);
        let drive = self.drives[drive].borrow();
        let has_bad_blocks = || has_lacked && superblock_of(&drive).is_some_and(|superblock| superblock.has(feature::BAD_BLOCKS));
        drive.is_spoiled() || drive.is_failing() || drive.presence() != Presence::There || has_bad_blocks()
    }

    /// The leaf in which a drive is in use.
    pub(super) fn leaf_of(&self, drive: usize) -> Option<usize> {
        self.node().leaves().iter().position(|leaf| {
            let role = leaf.handle_of(drive).map(|member| leaf.status().members[member.0].state);
            role.is_some_and(|role| role != MemberState::Failed)
        })
    }

    /// True if a drive of a leaf may be lost, or (`one_place`) some of its sectors.
    pub(super) fn may_lose(&self, leaf: usize, drive: usize, one_place: bool) -> bool {
        let setup = &self.history.setup;
        let node = self.node().leaf(leaf);
        let status = node.status();
        if setup.level.parity_count() > 0 && !(self.redundancy.survives_crash_with_loss()) {
            // A crash together with a lost member is the write hole, in either order.
            if status.synced != Synced::All || self.power.is_armed() {
                return false;
            }
        }
        let holders = node.in_sync_drives();
        let good: Vec<bool> = holders
            .iter()
            .map(|holder| {
                let counts = |holder: usize| {
                    !self.is_harmed(holder) && !self.redundancy.rejoined.contains(&holder) && self.is_in_sync_on_disk(holder)
                };
                holder.is_some_and(|holder| holder != drive && counts(holder))
            })
            .collect();
        let filled = status.members.iter().any(|member| matches!(member.state, MemberState::Rebuilding | MemberState::Replacing));
        // A member that was just rebuilt is not in sync on disk yet. At a crash it counts as missing.
        if !filled && status.sweep.as_ref().is_some_and(|sweep| sweep.kind == SweepKind::Rebuild) {
            return false;
        }
        // While a member is filled its source must remain.
        if one_place && filled && setup.losses_survived() < 2 {
            return false;
        }
        setup.survives(node.geometry(), &good)
    }

    /// True if a drive's superblock does not say that it is rebuilding or a replacement. Otherwise a crash would make it
    /// rebuilding again.
    pub(super) fn is_in_sync_on_disk(&self, drive: usize) -> bool {
        let filled = feature::RECOVERY_OFFSET | feature::REPLACEMENT;
        superblock_of(&self.drives[drive].borrow()).is_none_or(|superblock| !superblock.has(filled))
    }
}
