//! Silent faults: bytes that rot, and writes that the drive acknowledges and loses, or puts elsewhere. They hit one member of an
//! array at rest, and a scrub runs before anything else happens. If redundancy can name the member, the scrub must correct only
//! that one. Otherwise it must report a mismatch and change nothing.
//!
//! Faults of metadata too: a superblock that cannot be read at a start, and a power cut while a drive gets its first metadata.

use super::examination::{Examination, Scrubbed};
use super::{Kind, Outcome, Stop, World, is_optimal};
use crate::drive::{Keep, Presence, Witness};
use crate::image::Image;
use crate::lanes::Array;
use crate::member_drive::{PATIENCE, SUPERBLOCK, superblock_of};
use crate::trace::ranges_below;
use crate::tree;
use crate::workload::Rot;
use std::ops::Range;
use stria_array::{Command, Layout, Level, MemberSector, MemberState, SweepKind, WritePolicy};
use stria_block::{Operation, bytes};

impl World<'_> {
    /// True if a scrub can name the member that is wrong.
    fn can_name(&self) -> bool {
        let setup = &self.history.setup;
        match (setup.level, setup.layout) {
            (Level::Raid1, _) => setup.member_count > 2,
            (_, Layout::Copies(copies)) => copies.count() > 2,
            (level, _) => level.parity_count() > 1,
        }
    }

    /// Waits for all requests, and until all write-behinds are in place.
    fn drain_down(&mut self) -> Outcome {
        self.drain()?;
        // With *back* a flush waits for nothing, and a write would reach its drives while the scrub runs.
        let policy = std::mem::replace(&mut self.policy, WritePolicy::Safe);
        self.hold_policy();
        let flushed = self.submit(0..0, Kind::Flush, Operation::Flush, 0).and_then(|()| self.drain());
        self.policy = policy;
        self.hold_policy();
        flushed
    }

    /// Changes bytes of one member without an error.
    pub(super) fn rot(&mut self, which: u64, at: u64, rot: Rot) -> Outcome {
        self.drain_down()?;
        self.watch()?;
        let idle = self.statuses().iter().all(|status| {
            let filled = |role| matches!(role, MemberState::Rebuilding | MemberState::Replacing);
            is_optimal(status) && status.sweep.is_none() && !status.members.iter().any(|member| filled(member.state))
        });
        let harmed = (0..self.drives.len()).any(|drive| self.is_harmed(drive) && self.leaf_of(drive).is_some());
        let Some((leaf, drive)) =
            self.holder(which).filter(|_| idle && self.redundancy.settled && !harmed && !self.power.is_armed())
        else {
            return Ok(());
        };
        let room = self.node().leaf(leaf).geometry().member_sectors(0);
        let sector = self.history.setup.data_start() + at % room;
        // The cache must not write older data over the changed bytes.
        self.drives[drive].borrow_mut().sync();
        match rot {
            Rot::Flipped => {
                let mut drive = self.drives[drive].borrow_mut();
                let right = drive.image().bytes_of(sector, 1);
                drive.corrupt(sector);
                drive.witnesses.push((sector, right));
            }
            Rot::Lost | Rot::Misdirected => {
                let strip = self.history.setup.strip_sectors;
                let range = self.range_at(at >> 16, strip);
                // Another part of the same write would read the changed bytes and make parity match them.
                let read_by_write = ranges_below(self.node().coordinator(), range.clone())
                    .iter()
                    .any(|rows| rows.start < sector + strip && sector < rows.end + strip);
                let elsewhere = (rot == Rot::Misdirected && !read_by_write).then_some(sector);
                self.drives[drive].borrow_mut().lose_next_write(elsewhere, self.history.setup.data_start() + room);
                self.write(range, false)?;
                self.drain_down()?;
                self.drives[drive].borrow_mut().lose_no_write();
            }
        }
        self.examine(leaf, drive, rot)
    }

    /// Runs a scrub after a silent fault, and checks the result by the witnesses of that drive.
    fn examine(&mut self, leaf: usize, drive: usize, rot: Rot) -> Outcome {
        let witnesses = std::mem::take(&mut self.drives[drive].borrow_mut().witnesses);
        let differs = |image: &Image, (sector, right): &Witness| image.bytes_of(*sector, right.len() as u64 / 512) != *right;
        let wrong = witnesses.iter().any(|witness| differs(self.drives[drive].borrow().image(), witness));
        let repair = self.can_name();
        // A write of a dropped member, which the engine has abandoned, may still arrive on its drive (R16).
        let arrives_late = |index: usize| self.drives[index].borrow().is_busy() && self.leaf_of(index).is_none();
        let image_of = |index: usize| self.drives[index].borrow().image().clone();
        let before: Vec<Option<Image>> =
            (0..self.drives.len()).map(|index| (!arrives_late(index)).then(|| image_of(index))).collect();
        let scrubbed = self.scrub_through(leaf, repair)?;
        if scrubbed.mismatch_sectors > 0 && !wrong {
            return Err(Stop::Wrong(format!("a scrub found {} mismatches where there are none", scrubbed.mismatch_sectors)));
        }
        if wrong && scrubbed.mismatch_sectors == 0 {
            // A part of the member that redundancy does not cover may rot unnoticed.
            if witnesses.iter().any(|witness| self.is_left(leaf, drive, witness)) {
                return Err(Stop::Wrong(format!("a scrub did not find {rot:?} on drive {drive}")));
            }
        } else if wrong && repair && scrubbed.named != [Some(drive)] {
            return Err(Stop::Wrong(format!("{rot:?} on drive {drive}, and a scrub names {:?}", scrubbed.named)));
        } else if wrong && !repair && !scrubbed.named.is_empty() {
            return Err(Stop::Wrong(format!("a scrub names {:?}, and redundancy cannot name a member", scrubbed.named)));
        }
        let data_end = self.history.setup.data_start() + self.node().leaf(leaf).geometry().member_sectors(0);
        for (index, before) in before.iter().enumerate() {
            let after = self.drives[index].borrow();
            let touched = before.as_ref().filter(|_| index != drive || !repair).and_then(|before| {
                first_difference(before, after.image(), self.history.setup.data_start()..data_end.min(after.model().sectors))
            });
            if let Some(sector) = touched {
                return Err(Stop::Wrong(format!("a scrub for drive {drive} rewrote sector {sector} of drive {index}")));
            }
        }
        for witness in &witnesses {
            if repair && scrubbed.mismatch_sectors > 0 && self.is_left(leaf, drive, witness) {
                return Err(Stop::Wrong(format!("a scrub left {rot:?} in sector {} of drive {drive}", witness.0)));
            }
            self.drives[drive].borrow_mut().put(witness.0, &witness.1);
        }
        if wrong {
            self.meet(match (repair, rot) {
                (true, Rot::Flipped) => "rot corrected",
                (true, Rot::Lost) => "lost write corrected",
                (true, Rot::Misdirected) => "misdirected write corrected",
                (false, Rot::Flipped) => "rot reported",
                (false, Rot::Lost) => "lost write reported",
                (false, Rot::Misdirected) => "misdirected write reported",
            });
        }
        Ok(())
    }

    /// True if a drive has other bytes than a witness, in a sector that redundancy covers.
    fn is_left(&self, leaf: usize, drive: usize, (start, right): &Witness) -> bool {
        let other = |sector: u64, right: &[u8]| self.drives[drive].borrow().image().bytes_of(sector, 1) != right;
        let mut sectors = (*start..).zip(right.chunks_exact(512));
        sectors.any(|(sector, right)| other(sector, right) && self.is_covered(leaf, drive, sector))
    }

    /// True if redundancy covers a sector of a drive.
    fn is_covered(&self, leaf: usize, drive: usize, sector: u64) -> bool {
        let leaf = &self.node().leaf(leaf);
        let slot = leaf.in_sync_drives().iter().position(|holder| *holder == Some(drive));
        let geometry = leaf.geometry();
        let (Some(slot), row) = (slot, sector - self.history.setup.data_start()) else { return false };
        if geometry.level().parity_count() > 0 {
            return row < geometry.stripe_count() * geometry.strip_sectors();
        }
        geometry.array_sector_of(slot, MemberSector::new(row), 1).0.is_some()
    }

    /// A complete scrub, without client requests.
    fn scrub_through(&mut self, leaf: usize, repair: bool) -> Result<Scrubbed, Stop> {
        self.node().leaf(leaf).with_engine(|engine| {
            engine.pause(false);
            engine.set_speed(Some(u64::MAX), Some(u64::MAX));
        });
        self.examination = Examination::Runs;
        let order = self.carry_out(leaf, Command::Scrub { repair, from_sector: 0 })?;
        order.map_err(|refusal| Stop::Wrong(format!("a scrub of an idle array was refused: {refusal}")))?;
        let late = self.power.now() + PATIENCE;
        loop {
            let goes_on = self.turn(late);
            self.events()?;
            if let Some(scrubbed) = self.examination.take() {
                return Ok(scrubbed);
            }
            if !goes_on? {
                return Err(Stop::Wrong("a scrub never ends".into()));
            }
        }
    }

    /// Sectors of a drive become unreadable, and more with each read that fails.
    pub(super) fn grow_bad(&mut self, which: u64, at: u64) -> Outcome {
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false)) else {
            return Ok(());
        };
        self.meet("unreadable sectors that grow");
        self.model.lose_member();
        // Corrected sectors may be unreadable again at once, so that the member is dropped.
        self.redundancy.suspect[drive] = true;
        let room = self.node().leaf(leaf).geometry().member_sectors(0);
        let start = self.history.setup.data_start() + at % room;
        self.drives[drive]
            .borrow_mut()
            .spoil_more(start..(start + 8).min(self.history.setup.data_start() + room), self.history.setup.data_start() + room);
        Ok(())
    }

    /// The member whose superblock cannot be read at the next start, where the atlas allows that.
    pub(super) fn loses_superblock(&mut self, in_sync: &[Vec<Option<usize>>]) -> Option<usize> {
        let which = self.next_crash.superblock_to_lose.take()?;
        let level = self.history.setup.level;
        if self.node.is_none() || level.parity_count() > 0 && !(self.redundancy.survives_crash_with_loss()) {
            return None;
        }
        let leaf = (which >> 32) as usize % in_sync.len();
        let holders: Vec<usize> = in_sync[leaf].iter().copied().flatten().collect();
        let drive = *holders.get((which & 0xffff_ffff) as usize % holders.len().max(1))?;
        self.may_lose(leaf, drive, false).then(|| {
            self.meet("superblock unreadable at the start");
            drive
        })
    }

    /// The member of whose log or bitmap a sector cannot be read at the next start, where the atlas allows that, and the sector.
    pub(super) fn loses_log(&mut self, in_sync: &[Vec<Option<usize>>]) -> Option<(usize, u64)> {
        let (which, at) = self.next_crash.log_to_lose.take()?;
        self.node.as_ref()?;
        let leaf = (which >> 32) as usize % in_sync.len();
        let holders: Vec<usize> = in_sync[leaf].iter().copied().flatten().collect();
        let drive = *holders.get((which & 0xffff_ffff) as usize % holders.len().max(1))?;
        if !self.may_lose_in_crash(in_sync, leaf, drive) {
            return None;
        }
        let header = superblock_of(&self.drives[drive].borrow())?.header;
        let end = self.history.setup.data_start();
        // The head of the log, the bitmap or what lies where it would be, or anything of both.
        let sector = match at % 3 {
            0 => end - 8,
            1 => SUPERBLOCK.end + (at >> 2) % 16,
            _ => SUPERBLOCK.end + (at >> 2) % (end - SUPERBLOCK.end),
        };
        // A member without its list of bad blocks is not used.
        let list = header.super_offset.saturating_add_signed(header.bblog_offset.into());
        let is_list = (list..list + u64::from(header.bblog_size)).contains(&sector);
        (!is_list).then(|| {
            self.meet("log or bitmap unreadable at the start");
            (drive, sector)
        })
    }

    /// A sector of a drive's metadata cannot be read.
    pub(super) fn lose_log(&mut self, drive: usize, sector: u64) {
        let block = self.drives[drive].borrow().model().block_sectors;
        let start = sector / block * block;
        self.drives[drive].borrow_mut().spoil(start..start + block);
        // Parity whose record went with the log is old or new until a resync has ended.
        self.redundancy.rejoined.insert(drive);
    }

    /// Every second time unreadable sectors of metadata can be read again once the array has started.
    pub(super) fn find_logs(&mut self) {
        if !self.history.setup.harsh {
            return;
        }
        for index in 0..self.drives.len() {
            let mut drive = self.drives[index].borrow_mut();
            let metadata = SUPERBLOCK.end..self.history.setup.data_start();
            if drive.is_bad(&metadata) && self.draws.harsh.one_in(2) {
                drive.find(metadata);
            }
        }
    }

    /// The power fails while a loose drive gets its first metadata.
    pub(super) fn adopt_torn(&mut self, which: u64) -> Outcome {
        let fresh: Vec<usize> = self
            .loose()
            .into_iter()
            .filter(|&drive| self.drives[drive].borrow().presence() == Presence::There)
            .filter(|&drive| self.node().leaves().iter().all(|leaf| leaf.handle_of(drive).is_none()))
            .collect();
        if fresh.is_empty() || !self.may_crash(&self.statuses()) {
            return Ok(());
        }
        let drive = fresh[which as usize % fresh.len()];
        let leaf = (which >> 32) as usize % self.node().leaves().len();
        let Ok(steps) = tree::adoption(self.node().leaf(leaf), &self.drives, drive) else { return Ok(()) };
        // Each step is durable before the next begins.
        let torn = self.draws.more.below(steps.len() as u64) as usize;
        let atom = self.drives[drive].borrow().model().atom_sectors;
        for (step, writes) in steps.iter().enumerate().take(torn + 1) {
            for (start_sector, data) in writes {
                for (index, part) in (0..).zip(data.chunks(bytes(atom))) {
                    if step < torn || self.draws.more.one_in(2) {
                        self.drives[drive].borrow_mut().put(start_sector + index * atom, part);
                    }
                }
            }
        }
        self.meet("adoption torn by a power cut");
        self.next_crash.kill = false;
        Err(Stop::Crashed)
    }

    /// The members to lose at the end: all choices for one history in eight and while there are few.
    pub(super) fn choices_to_lose(&mut self) -> Vec<Vec<usize>> {
        let survived = self.history.setup.losses_survived();
        // Of each array those that are left, and how many of them may be lost.
        let left = |leaf: &Array<'_>| {
            let slots = leaf.in_sync_drives();
            let missing = slots.iter().filter(|holder| holder.is_none()).count();
            (slots.into_iter().flatten().collect::<Vec<usize>>(), survived.saturating_sub(missing))
        };
        let holders: Vec<(Vec<usize>, usize)> = self.node().leaves().iter().map(left).collect();
        if self.history.seed.is_multiple_of(8) {
            let every = holders.iter().fold(vec![Vec::new()], |all: Vec<Vec<usize>>, (holders, count)| {
                let own = combinations(holders, *count);
                all.iter().flat_map(|before| own.iter().map(move |own| [&before[..], own].concat())).collect()
            });
            if every.len() <= 64 {
                self.meet("without every choice of members");
                return every;
            }
        }
        let mut lost = Vec::new();
        if self.history.setup.harsh && self.history.setup.level == Level::Raid10 {
            let slots = self.node().leaf(0).in_sync_drives();
            let mut good: Vec<bool> = slots.iter().map(Option::is_some).collect();
            // In any order, each that can be spared.
            let mut order: Vec<usize> = (0..slots.len()).filter(|&slot| good[slot]).collect();
            while !order.is_empty() {
                let slot = order.swap_remove(self.draws.harsh.below(order.len() as u64) as usize);
                good[slot] = false;
                match self.history.setup.survives(self.node().leaf(0).geometry(), &good) {
                    true => lost.extend(slots[slot]),
                    false => good[slot] = true,
                }
            }
            return vec![lost];
        }
        for (mut holders, count) in holders {
            for _ in 0..count {
                lost.push(holders.swap_remove(self.draws.first.below(holders.len() as u64) as usize));
            }
        }
        vec![lost]
    }

    /// The data of a lost member after a crash.
    pub(super) fn lose_with_power(&mut self, drive: usize, superblock: bool) {
        self.redundancy.suspect[drive] = true;
        if superblock {
            self.drives[drive].borrow_mut().spoil(SUPERBLOCK);
        } else {
            self.meet("member lost with the power");
            let keep: Keep = self.keep();
            self.drives[drive].borrow_mut().pull(keep);
            self.leave_behind(drive);
        }
    }

    /// True if the result of a scrub is a failure.
    pub(super) fn scrub_ended(&mut self, kind: SweepKind, mismatch_sectors: u64, named: Vec<Option<usize>>) -> Outcome {
        if !matches!(kind, SweepKind::Scrub { .. }) {
            return Ok(());
        }
        self.meet("scrub");
        let unexpected = self.examination.end(Scrubbed { mismatch_sectors, named });
        if unexpected.is_some_and(|scrubbed| scrubbed.mismatch_sectors > 0) {
            return Err(Stop::Wrong(format!("a scrub found {mismatch_sectors} mismatches")));
        }
        Ok(())
    }
}

/// Every choice of `count` of them.
fn combinations(of: &[usize], count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let with = |(index, &first): (usize, &usize)| {
        combinations(&of[index + 1..], count - 1).into_iter().map(move |rest| [&[first], &rest[..]].concat())
    };
    of.iter().enumerate().flat_map(with).collect()
}

/// The first sector of a range in which two images differ.
fn first_difference(one: &Image, other: &Image, range: Range<u64>) -> Option<u64> {
    range.step_by(8).find(|&sector| one.bytes_of(sector, 8) != other.bytes_of(sector, 8))
}
