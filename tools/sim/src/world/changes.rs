//! Changes of an array's settings: of its metadata while it is stopped (R45), and of its write policy.

use super::{Outcome, Stop, World, is_optimal};
use crate::lanes::Array;
use crate::mutant::Mutant;
use crate::tree::{self, Write};
use stria_array::{MemberState, WritePolicy};
use stria_format::md::{BitmapChoice, Change, LogChoice};

impl World<'_> {
    pub(super) fn set_policy(&mut self, which: u64) -> Outcome {
        // Requests under way may have begun with either policy.
        self.drain()?;
        self.policy = [WritePolicy::Through, WritePolicy::Safe, WritePolicy::Back][which as usize % 3];
        self.hold_policy();
        self.meet(match self.policy {
            WritePolicy::Through => "write through",
            WritePolicy::Safe => "write back where safe",
            WritePolicy::Back => "write back",
        });
        Ok(())
    }

    /// The host does this at each start.
    pub(super) fn hold_policy(&mut self) {
        let (policy, node) = (self.policy, self.node.as_mut().expect("an array runs"));
        node.lanes_mut().iter_mut().for_each(|lane| lane.with_engine(|engine| engine.set_write_policy(policy)));
    }

    /// Stops the array, changes its metadata, half of the time not to the end, and starts it again.
    pub(super) fn change(&mut self, what: u64, cut: u64) -> Outcome {
        let is_calm = self.next_crash.shrinks_at_start.is_none() && !(0..self.drives.len()).any(|drive| self.is_harmed(drive));
        let was_optimal = is_calm && self.statuses().iter().all(is_optimal);
        let may_hold: Vec<_> = self.node().leaves().into_iter().flat_map(drives_of_slots).collect();
        self.stop()?;
        let change = match what % 4 {
            0 => Change::Bitmap(BitmapChoice::None),
            1 => Change::Bitmap(BitmapChoice::Internal { chunk_bytes: Some(4096 << ((what >> 8) % 3)) }),
            2 => Change::Log(LogChoice::None),
            _ => Change::Log(LogChoice::Auto),
        };
        let mut steps = tree::changes(&self.drives, change).unwrap_or_default();
        if self.rules.mutant == Some(Mutant::ChangedAtOnce) {
            steps = vec![steps.into_iter().rev().flatten().collect()];
        }
        let count: usize = steps.iter().map(Vec::len).sum();
        let end = if cut.is_multiple_of(2) { usize::MAX } else { (cut >> 1) as usize % (count + 1) };
        let is_cut = end < count;
        self.carry_out_steps(steps, end);
        if count > 0 {
            self.meet(if is_cut { "change cut short" } else { "metadata changed" });
        }
        // A crash may cut the start short, and the log is gone by then.
        self.redundancy.write_hole_closed &= !matches!(change, Change::Log(LogChoice::None));
        self.mount("after a change of the metadata")?;
        let holders: Vec<_> = self.node().leaves().into_iter().flat_map(Array::in_sync_drives).collect();
        let are_used = holders.iter().zip(&may_hold).all(|(holder, may)| holder.is_some_and(|drive| may.contains(&drive)));
        if was_optimal && !are_used {
            return Err(Stop::Wrong(format!("after a change of the metadata ({change:?}) members are not used: {holders:?}")));
        }
        // The log may be new or gone.
        let has_log = self.statuses().iter().all(|status| status.log.is_some());
        self.redundancy.write_hole_closed = self.history.setup.level.parity_count() > 0 && has_log;
        self.watch()
    }

    /// Carries out steps up to some write, of which a part survives the power cut. Any of the other writes of its step may
    /// survive.
    fn carry_out_steps(&mut self, steps: Vec<Vec<Write>>, end: usize) {
        let mut done = 0;
        for step in steps {
            let is_last = end < done + step.len();
            for (drive, start, bytes) in &step {
                let block = self.drives[*drive].borrow().model().block_sectors as usize * 512;
                let keeps = if !is_last {
                    bytes.len()
                } else {
                    match self.draws.more.below(3) {
                        0 => 0,
                        1 => bytes.len(),
                        _ => self.draws.more.below((bytes.len() / block) as u64 + 1) as usize * block,
                    }
                };
                if keeps > 0 {
                    self.drives[*drive].borrow_mut().put(*start, &bytes[..keeps]);
                }
            }
            done += step.len();
            if is_last {
                return;
            }
        }
    }
}

/// The drives that may hold each slot once the array has stopped: the member that is in sync, or its replacement, which may be
/// finished by then.
fn drives_of_slots(leaf: Array<'_>) -> Vec<Vec<usize>> {
    let members = leaf.status().members;
    let of_slot = |slot| {
        let holds = members.iter().filter(move |member| member.slot == Some(slot) && member.state != MemberState::Failed);
        holds.filter_map(|member| leaf.drive_of(member.id)).collect()
    };
    (0..leaf.geometry().slot_count()).map(of_slot).collect()
}
