//! Steps that concern members: they leave, return, join and are replaced.

use super::commands::{AllLanes, Done, Ended};
use super::{Outcome, Stop, World, is_optimal};
use crate::drive::Presence;
use crate::lanes::Array;
use crate::member_drive::{PATIENCE, SUPERBLOCK, superblock_of};
use crate::mutant::Mutant;
use crate::tree;
use crate::workload::Step;
use stria_array::{Flaw, MemberId, MemberState, Refusal, SweepKind};
use stria_format::md::{Role, Superblock};
use stria_tree::{JoinError, Lanes};

/// What a command may answer although the drive has all that is asked for: a drop is not on disk yet, an earlier command has begun
/// the same, or a spare was faster.
fn is_of_the_moment(refusal: &JoinError) -> bool {
    use Refusal::{DropsNotDurable, ReplacedAlready, SlotTaken};
    matches!(refusal, JoinError::Engine(DropsNotDurable | ReplacedAlready(_) | SlotTaken(_)))
}

impl World<'_> {
    pub(super) fn holder(&self, which: u64) -> Option<(usize, usize)> {
        let leaves = self.node().leaves();
        let leaf = (which >> 32) as usize % leaves.len();
        let holders: Vec<usize> = leaves[leaf].in_sync_drives().into_iter().flatten().collect();
        (!holders.is_empty()).then(|| (leaf, holders[(which & 0xffff_ffff) as usize % holders.len()]))
    }

    /// Drives that no array uses now.
    pub(super) fn loose(&self) -> Vec<usize> {
        (0..self.drives.len()).filter(|&drive| self.leaf_of(drive).is_none()).collect()
    }

    /// A member is failed by command, pulled, or fails a write or a flush, where the atlas allows that.
    pub(super) fn lose_member(&mut self, step: Step, which: u64) -> Outcome {
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false)) else {
            return Ok(());
        };
        self.model.lose_member();
        self.space.forget(drive);
        match step {
            Step::Fail(_) => self.fail(leaf, drive, false).map(drop),
            Step::Pull(_) => {
                self.meet("pull");
                self.redundancy.suspect[drive] = true;
                let keep = self.keep();
                self.drives[drive].borrow_mut().pull(keep);
                Ok(())
            }
            Step::FailFlush(_) => {
                // Without a cache there is nothing to flush.
                if self.drives[drive].borrow().model().volatile_cache {
                    self.meet("flush error");
                    self.redundancy.suspect[drive] = true;
                    self.drives[drive].borrow_mut().fail_flush();
                }
                Ok(())
            }
            _ => {
                self.meet("write error");
                self.redundancy.suspect[drive] = true;
                self.drives[drive].borrow_mut().fail_writes(1);
                Ok(())
            }
        }
    }

    /// Sectors of a member become unreadable, where the atlas allows that.
    pub(super) fn spoil(&mut self, which: u64, at: u64, sectors: u64) -> Outcome {
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, true)) else {
            return Ok(());
        };
        self.meet("unreadable sectors");
        self.model.lose_member();
        let member_sectors = self.node().leaf(leaf).geometry().member_sectors(0);
        let first = self.history.setup.data_start();
        let start = first + at % member_sectors;
        let spoiled = start..(start + sectors).min(first + member_sectors);
        // Between a corrective write and the read that verifies it, this looks like a drive that cannot be corrected.
        self.redundancy.suspect[drive] |= self.drives[drive].borrow().is_at(&spoiled);
        self.drives[drive].borrow_mut().spoil(spoiled);
        Ok(())
    }

    /// Adds a loose drive that is present.
    pub(super) fn add_spare(&mut self, which: u64) -> Outcome {
        let loose = self.loose();
        let there: Vec<usize> =
            loose.into_iter().filter(|&drive| self.drives[drive].borrow().presence() == Presence::There).collect();
        if there.is_empty() {
            return Ok(());
        }
        self.let_in(there[which as usize % there.len()], (which >> 32) as usize)
    }

    /// Removes a member that is failed or a spare.
    pub(super) fn remove_idle(&mut self, which: u64) -> Outcome {
        let leaves = self.node().leaves();
        let leaf = (which >> 32) as usize % leaves.len();
        let idle = |role| matches!(role, MemberState::Failed | MemberState::Spare);
        let members = leaves[leaf].status().members.into_iter();
        let idle: Vec<_> = members
            .filter(|member| idle(member.state) && leaves[leaf].drive_of(member.id).is_some())
            .map(|member| member.id)
            .collect();
        if !idle.is_empty() && self.remove(leaf, idle[(which & 0xffff) as usize % idle.len()])? {
            self.meet("remove");
        }
        Ok(())
    }

    /// Returns true if the command was carried out.
    pub(super) fn fail(&mut self, leaf: usize, drive: usize, hangs: bool) -> Result<bool, Stop> {
        let member = self.node().leaf(leaf).handle_of(drive).expect("it holds a slot");
        let index = self.node().index_of(leaf);
        match AllLanes(self).fail(index, member) {
            Ok(()) => {
                self.meet(if hangs { "fail while it hangs" } else { "fail" });
                Ok(true)
            }
            Err(Ended::Stopped(stop)) => Err(stop),
            Err(Ended::Refused(refusal)) => {
                let node = self.node().leaf(leaf);
                // The member may have left by itself meanwhile.
                if node.in_sync_drives().contains(&Some(drive)) && !node.is_replaying() {
                    return Err(Stop::Wrong(format!("a failure that redundancy survives was refused: {refusal}")));
                }
                Ok(false)
            }
        }
    }

    /// Removes a member. `false`: it is in use.
    pub(super) fn remove(&mut self, leaf: usize, member: MemberId) -> Result<bool, Stop> {
        let has_failed = self.node().leaf(leaf).has_failed(member);
        let index = self.node().index_of(leaf);
        match AllLanes(self).remove(index, member) {
            Ok(()) => Ok(true),
            Err(Ended::Stopped(stop)) => Err(stop),
            Err(Ended::Refused(why)) if has_failed => Err(Stop::Wrong(format!("a failed member could not be removed: {why}"))),
            Err(Ended::Refused(_)) => Ok(false),
        }
    }

    pub(super) fn bring_back(&mut self, which: u64) -> Outcome {
        let away: Vec<usize> = self
            .loose()
            .into_iter()
            .filter(|&drive| {
                // A drive with requests under way is in use. RULE: a drive with a cache does not return before the superblocks of
                // the others record that it left. Only they record that its cache lost data.
                let held = self.drives[drive].borrow_mut().is_let_go();
                let idle = self.drives[drive].borrow().is_idle();
                let pulled = self.drives[drive].borrow().presence() == Presence::Pulled;
                let volatile = self.drives[drive].borrow().model().volatile_cache;
                let failed = || self.node().leaves().iter().any(|leaf| leaf.handle_of(drive).is_some());
                // It does not return before all lanes know that it failed either.
                let in_use = |leaf: &Array<'_>| leaf.handle_of(drive).is_some_and(|member| !leaf.is_idle(member));
                idle && !self.node().leaves().iter().any(in_use)
                    && if pulled && volatile || held { self.is_drop_recorded(drive) } else { pulled || failed() }
            })
            .collect();
        if away.is_empty() {
            return Ok(());
        }
        let drive = away[which as usize % away.len()];
        // If it leaves again, its cache may lose data.
        self.left.remove(&drive);
        self.is_taken_out(drive)?;
        {
            let mut back = self.drives[drive].borrow_mut();
            back.put_back();
            back.fail_writes(0);
            if back.is_short() && which & 1 << 20 == 0 {
                back.renew();
            }
            // It returns with its unreadable sectors.
            self.redundancy.suspect[drive] = back.grows_bad();
        }
        self.let_in(drive, (which >> 32) as usize)
    }

    /// True if the superblocks of the others record that a pulled drive is missing.
    pub(super) fn is_drop_recorded(&self, drive: usize) -> bool {
        let superblock = |drive: usize| superblock_of(&self.drives[drive].borrow());
        let Some(Superblock { header, .. }) = superblock(drive) else { return true };
        let leaves = self.node().leaves();
        let Some(leaf) = leaves.into_iter().find(|leaf| leaf.uuid() == header.set_uuid) else { return true };
        let others: Vec<usize> = leaf.in_sync_drives().into_iter().flatten().filter(|&holder| holder != drive).collect();
        let others: Vec<_> = others.into_iter().map(superblock).collect();
        // A later superblock update may still include it, or its number may belong to another drive by now.
        let taken = others.iter().flatten().any(|other| other.header.dev_number == header.dev_number);
        let counts_on_it =
            |other: &Superblock| !taken && matches!(other.roles.get(header.dev_number as usize), Some(Role::Slot(_)));
        others.iter().all(|other| other.as_ref().is_some_and(|other| other.header.events > header.events && !counts_on_it(other)))
    }

    /// Removes a drive that has failed, since it cannot be opened before. `false`: not all lanes know that it failed.
    fn is_taken_out(&mut self, drive: usize) -> Result<bool, Stop> {
        for leaf in 0..self.node().leaves().len() {
            let Some(member) = self.node().leaf(leaf).handle_of(drive) else { continue };
            if !self.remove(leaf, member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a drive to the array to which it belonged, or otherwise to the `which`-th.
    fn let_in(&mut self, drive: usize, which: usize) -> Outcome {
        // The last owner keeps the drive until its requests have ended.
        let late = self.power.now() + PATIENCE;
        while self.drives[drive].borrow().is_busy() && self.turn(late)? {}
        if !self.is_taken_out(drive)? {
            self.meet("refused as a member");
            return Ok(());
        }
        let uuid = superblock_of(&self.drives[drive].borrow()).map(|superblock| superblock.header.set_uuid);
        let leaves = self.node().leaves();
        let leaf = leaves.iter().position(|leaf| Some(leaf.uuid()) == uuid).unwrap_or(which % leaves.len());
        let stale = self.rules.mutant == Some(Mutant::Engine(Flaw::StaleAccepted));
        // A drive that joins anew has no faults, unless one of its next writes fails.
        let anew = self.drives[drive].borrow().is_bad(&SUPERBLOCK) && !self.drives[drive].borrow().is_failing();
        self.redundancy.suspect[drive] &= !anew;
        let is_fit = self.is_fit(drive) && self.is_large_enough(drive, leaf) && self.is_drop_recorded(drive);
        let mut comes_back = false;
        let joined = AllLanes(self).add(|lanes| {
            let prepared = tree::prepare(lanes.0.node(), leaf, &lanes.0.drives, drive, stale, None).map_err(Ended::Refused)?;
            comes_back = !prepared.intended.is_new;
            Ok(prepared)
        });
        let joined = self.may_be_refused("add", drive, is_fit, joined).done()?;
        self.had.extend(joined.then_some(drive));
        self.meet(match (joined, comes_back) {
            (false, _) => "refused as a member",
            (true, true) => "came back by the bitmap",
            (true, false) => "joined as a spare",
        });
        Ok(())
    }

    /// True if a drive has all that a member needs.
    fn is_fit(&self, drive: usize) -> bool {
        let drive = self.drives[drive].borrow();
        drive.presence() == Presence::There && !drive.is_short() && !drive.is_failing() && !drive.is_spoiled() && !drive.is_busy()
    }

    /// True if a drive has space for the data of a member of a leaf.
    fn is_large_enough(&self, drive: usize, leaf: usize) -> bool {
        let needed = self.history.setup.data_start() + self.node().leaf(leaf).geometry().member_sectors(0);
        self.drives[drive].borrow().sectors() >= needed
    }

    /// A command that refuses a drive which has all that is asked for is wrong, unless the drive left before the last start and
    /// lacks members that have returned since (the limit of R78).
    fn may_be_refused<T>(&self, what: &str, drive: usize, is_fit: bool, ended: Result<T, Ended>) -> Result<T, Ended> {
        match ended {
            Err(Ended::Refused(refusal))
                if is_fit
                    && self.is_fit(drive)
                    && !is_of_the_moment(&refusal)
                    && (self.had.contains(&drive) || !refusal.to_string().contains("run without members")) =>
            {
                Err(Ended::Stopped(Stop::Wrong(format!("the command to {what} drive {drive} was refused: {refusal}"))))
            }
            ended => ended,
        }
    }

    /// True if a slot is empty and some spare could take it.
    pub(super) fn is_slot_forgotten(&self) -> bool {
        self.node().leaves().into_iter().any(|leaf| {
            let status = leaf.status();
            let spares = status.members.iter().filter(|member| member.state == MemberState::Spare);
            let fit =
                |drive: usize| self.is_fit(drive) && !self.redundancy.suspect[drive] && !self.drives[drive].borrow().is_cut();
            status.slots.contains(&None) && spares.filter_map(|spare| leaf.drive_of(spare.id)).any(fit)
        })
    }

    pub(super) fn replace(&mut self, which: u64) -> Outcome {
        let Some((leaf, old)) = self.holder(which) else { return Ok(()) };
        let loose = self.loose();
        let there = loose.into_iter().find(|&drive| {
            self.drives[drive].borrow().presence() == Presence::There
                && !self.drives[drive].borrow().is_busy()
                && self.node().leaves().iter().all(|leaf| leaf.handle_of(drive).is_none())
        });
        // A rebuild that has just ended is recorded first.
        let status = self.node().leaf(leaf).status();
        if !is_optimal(&status) || status.sweep.as_ref().is_some_and(|sweep| sweep.kind == SweepKind::Rebuild) {
            return Ok(());
        }
        let member = self.node().leaf(leaf).handle_of(old).expect("it holds a slot");
        let Some(new) = there else {
            let spare = status.members.iter().find(|member| member.state == MemberState::Spare);
            return spare.map_or(Ok(()), |spare| self.replace_by_spare(leaf, member, spare.id));
        };
        let is_fit = self.is_fit(new) && self.is_large_enough(new, leaf);
        let prepared = tree::prepare(self.node(), leaf, &self.drives, new, false, Some(member));
        let prepared = prepared.map_err(Ended::Refused);
        let joined = prepared.and_then(|prepared| AllLanes(self).join(prepared));
        // The member may have left by itself meanwhile.
        let is_fit = is_fit && self.node().leaf(leaf).in_sync_drives().contains(&Some(old));
        let joined = self.may_be_refused("replace a member by", new, is_fit, joined).done()?;
        self.had.extend(joined.then_some(new));
        self.meet(if joined { "replace" } else { "refused as a member" });
        Ok(())
    }

    fn replace_by_spare(&mut self, leaf: usize, member: MemberId, spare: MemberId) -> Outcome {
        let index = self.node().index_of(leaf);
        let began = AllLanes(self).replace(index, member, spare).done()?;
        self.meet(if began { "replace by a spare" } else { "replace by a spare refused" });
        Ok(())
    }
}
