//! The last checks of a history.

use super::{Outcome, Stop, World, is_optimal};
use crate::chance::Chance;
use crate::drive::{Drive, Presence};
use crate::reference;
use crate::tree;
use std::cell::RefCell;
use std::rc::Rc;

impl World<'_> {
    pub(super) fn finish(&mut self) -> Outcome {
        self.drain()?;
        self.notes.phase = "before all is at rest";
        self.read_all()?;
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

    /// If no member is missing, redundancy is consistent by the plain reference.
    fn check_redundancy(&mut self, when: &str) -> Outcome {
        for leaf in self.node().leaves() {
            let holders: Option<Vec<usize>> = leaf.in_sync_drives().into_iter().collect();
            let Some(holders) = holders else { continue };
            // A drive may have been pulled and not been used since, so the array does not know.
            if holders.iter().any(|&drive| {
                let drive = self.drives[drive].borrow();
                drive.presence() != Presence::There || drive.is_cut()
            }) {
                continue;
            }
            if self.drives.iter().any(|drive| drive.borrow().is_spoiled()) {
                continue;
            }
            let drives: Vec<_> = holders.iter().map(|&drive| self.drives[drive].borrow()).collect();
            let images: Vec<_> = drives.iter().map(|drive| (drive.image(), self.history.setup.data_start())).collect();
            if let Some(what) = reference::disagreement(leaf.geometry(), &images) {
                return Err(Stop::Wrong(format!("{when}, {what}")));
            }
        }
        Ok(())
    }

    /// All data is still there without as many members as the level survives.
    fn without_some(&mut self) -> Outcome {
        let setup = &self.history.setup;
        if setup.losses_survived() == 0 || !self.statuses().iter().all(is_optimal) {
            return Ok(());
        }
        let power = Rc::clone(&self.power);
        let stopped = self.node.as_mut().expect("an array runs").stop(&power);
        stopped.map_err(|error| Stop::Wrong(format!("the array does not stop: {error:?}")))?;
        let choices = self.choices_to_lose();
        self.node = None;
        choices.iter().try_for_each(|lost| self.holds_without(lost))
    }

    fn holds_without(&mut self, lost: &[usize]) -> Outcome {
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
