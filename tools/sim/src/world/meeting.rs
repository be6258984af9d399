//! Commands that are begun and not waited for: clients, faults, crashes, a stop and other commands meet them.

use super::begun::Begun;
use super::{Outcome, World, is_optimal};
use stria_array::{Command, MemberState, RELIED_ON_MAX, Synced};
use stria_tree::ArrayCommand;

impl World<'_> {
    /// Begins a command.
    pub(super) fn begin_command(&mut self, what: u64, which: u64) -> Outcome {
        let leaf = (which >> 32) as usize % self.node().leaves().len();
        let status = self.node().leaf(leaf).status();
        let mut fails = None;
        let command: ArrayCommand = match what % 4 {
            // A scrub of an array that is not consistent finds mismatches that are no bugs.
            0 | 1 => {
                let is_spoiled = self.drives.iter().any(|drive| drive.borrow().is_spoiled());
                if is_spoiled || !is_optimal(&status) || status.synced != Synced::All {
                    return Ok(());
                }
                Command::Scrub { repair: what & 4 != 0, from_sector: 0 }
            }
            2 => Command::CancelScrub,
            _ if what & 4 != 0 => Command::CommitDrops,
            _ => {
                let found = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false));
                let Some((own, drive)) = found.filter(|&(own, _)| own == leaf) else { return Ok(()) };
                // It may leave at any time from now on.
                self.redundancy.suspect[drive] = true;
                self.model.lose_member();
                fails = self.node().leaf(own).handle_of(drive);
                Command::Fail(fails.expect("it holds a slot"))
            }
        };
        self.meet("command that is not waited for");
        let id = self.node().leaf(leaf).begin(command);
        self.begun.push(Begun { leaf, id, since: self.power.now(), fails, is_relied_on: false });
        Ok(())
    }

    /// Notes what the next turn may end.
    pub(super) fn before_turn(&mut self) {
        let mut begun = std::mem::take(&mut self.begun);
        for command in &mut begun {
            let is_sole = |member| self.node().leaf(command.leaf).is_sole_log_holder(member);
            command.is_relied_on = command.fails.is_some_and(is_sole);
        }
        self.begun = begun;
    }

    /// Takes the answers of commands that were begun. A refusal is as good as any other.
    pub(super) fn take_answers(&mut self) {
        for mut command in std::mem::take(&mut self.begun) {
            if let Some(member) = command.fails
                && self.node().leaf(command.leaf).status().members[member.0].state == MemberState::Failed
            {
                self.model.lose_member();
                let is_late = self.power.now() >= command.since + RELIED_ON_MAX;
                self.next_crash.sole_log_holder_is_gone |= command.is_relied_on && is_late;
                command.fails = None;
            }
            if self.node().leaf(command.leaf).take_answer(command.id).is_none() {
                self.begun.push(command);
            }
        }
    }
}
