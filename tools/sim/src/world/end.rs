//! The last checks of a history.

use super::{Outcome, Stop, World, is_optimal};
use crate::chance::Chance;
use crate::drive::{Drive, Presence};
use crate::member_drive::{PATIENCE, superblock_of};
use crate::reference;
use crate::tree;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

impl World<'_> {
    pub(super) fn finish(&mut self) -> Outcome {
        self.drain()?;
        self.notes.phase = "before all is at rest";
        self.read_all()?;
        self.settle()?;
        let late = self.power.now() + PATIENCE;
        while self.is_slot_forgotten() {
            if !self.turn(late)? {
                return Err(Stop::Wrong(format!("a spare never takes an empty slot: {:?}", self.statuses())));
            }
        }
        self.settle()?;
        self.fill_bad_blocks()?;
        self.notes.phase = "when all is at rest";
        self.read_all()?;
        self.check_redundancy("when all is at rest")?;
        self.restart()?;
        self.settle()?;
        self.notes.phase = "after the last start";
        self.read_all()?;
        self.check_redundancy("after the last start")?;
        self.without_some()
    }

    /// After the stop of an array at rest every superblock is clean: the next start has nothing to make consistent.
    pub(super) fn check_clean(&mut self) -> Outcome {
        self.meet("clean after a stop");
        let holders = self.node().leaves().into_iter().flat_map(|leaf| leaf.in_sync_drives()).flatten();
        for drive in holders.collect::<Vec<_>>() {
            if !superblock_of(&self.drives[drive].borrow()).is_some_and(|superblock| superblock.clean()) {
                return Err(Stop::Wrong(format!("after a stop the superblock of drive {drive} is not clean")));
            }
        }
        Ok(())
    }

    /// The redundancy that is left is consistent by the plain reference.
    fn check_redundancy(&mut self, when: &str) -> Outcome {
        let mut is_degraded = false;
        for leaf in self.node().leaves() {
            let holders = leaf.in_sync_drives();
            // A drive may have been pulled and not been used since, so the array does not know.
            let is_unknown = |&drive: &usize| {
                let drive = self.drives[drive].borrow();
                drive.presence() != Presence::There || drive.is_cut() || drive.is_bad(&self.data_area())
            };
            if holders.iter().flatten().any(is_unknown) {
                continue;
            }
            is_degraded |= holders.contains(&None);
            let drives: Vec<_> = holders.iter().map(|&drive| drive.map(|drive| self.drives[drive].borrow())).collect();
            let start = self.history.setup.data_start();
            let images: Vec<_> = drives.iter().map(|drive| drive.as_ref().map(|drive| (drive.image(), start))).collect();
            if let Some(what) = reference::disagreement(leaf.geometry(), &images) {
                return Err(Stop::Wrong(format!("{when}, {what}")));
            }
        }
        if is_degraded {
            self.meet("degraded redundancy compared");
        }
        Ok(())
    }

    /// The sectors of data on drives.
    pub(super) fn data_area(&self) -> Range<u64> {
        self.history.setup.data_start()..u64::MAX
    }

    /// All data is still there without as many members as the level survives.
    fn without_some(&mut self) -> Outcome {
        // What a member under rebuild holds, or one with unreadable sectors, counts for nothing.
        let is_spoiled = |drive: usize| self.drives[drive].borrow().is_bad(&self.data_area());
        let is_degraded = !self.statuses().iter().all(is_optimal);
        let holders = || self.node().leaves().into_iter().flat_map(|leaf| leaf.in_sync_drives()).flatten();
        if self.history.setup.losses_survived() == 0 || is_degraded && holders().any(is_spoiled) {
            return Ok(());
        }
        let power = Rc::clone(&self.power);
        let stopped = self.node.as_mut().expect("an array runs").stop(&power);
        stopped.map_err(|error| Stop::Wrong(format!("the array does not stop: {error:?}")))?;
        let choices = self.choices_to_lose();
        let loose = self.loose();
        self.node = None;
        if is_degraded {
            self.meet("more members lost of a degraded array");
        }
        choices.iter().try_for_each(|lost| self.holds_without(lost, &loose))
    }

    /// Starts copies of the drives but those `lost`. `loose`: those that no array uses.
    fn holds_without(&mut self, lost: &[usize], loose: &[usize]) -> Outcome {
        let power = Rc::clone(&self.power);
        let drives: Vec<Rc<RefCell<Drive>>> = (0..self.drives.len())
            .filter(|index| !lost.contains(index))
            .filter(|&index| self.drives[index].borrow().presence() == Presence::There)
            .map(|index| {
                let drive = self.drives[index].borrow();
                let mut copy = Drive::with_image(
                    *drive.model(),
                    Rc::clone(&power),
                    Chance::new(self.history.seed, 3),
                    drive.image().clone(),
                );
                if drive.is_short() {
                    copy.shrink(drive.sectors());
                }
                // It may hide a superblock that a client has written.
                if loose.contains(&index) {
                    copy.spoil_as(&drive);
                }
                Rc::new(RefCell::new(copy))
            })
            .collect();
        let node = tree::mount(&drives, &power);
        let mut node =
            node.map_err(|error| Stop::Wrong(format!("without drives {lost:?} the array does not start: {error:?}")))?;
        let size = self.model.sectors();
        let mut start = 0;
        while start < size {
            let sectors = (size - start).min(256);
            let read = node.read(&power, start, sectors);
            let read = read.map_err(|error| Stop::Wrong(format!("without drives {lost:?}: {error}")))?;
            let begun = self.model.begin_read();
            let checked = self.model.end_read(begun, start, Some(&read));
            checked.map_err(|lie| {
                Stop::Wrong(format!("without drives {lost:?}, {}", self.describe(&lie, start..start + sectors)))
            })?;
            start += sectors;
        }
        Ok(())
    }
}
