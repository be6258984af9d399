//! Crashes: what is lost with the process or the power, and what the next process finds.

use super::clients::{Kind, Pending};
use super::{Outcome, Stop, World, is_optimal};
use crate::drive::Presence;
use crate::lanes::{Array, Node};
use crate::member_drive::SUPERBLOCK;
use crate::mutant::Mutant;
use stria_array::{MemberState, SweepKind};

/// For each leaf and slot: the drive that is recorded as in sync there.
pub(super) type InSync = Vec<Vec<Option<usize>>>;

/// What a crash takes along besides the process.
enum Loss {
    /// The superblock of this drive cannot be read at the start.
    Superblock(usize),
    /// This sector of a drive's metadata cannot be read at the start.
    Log(usize, u64),
    /// This drive ends at this sector at the start.
    Short(usize, u64),
    /// Requests of the dead process hang on this drive.
    Hung(usize),
    /// This drive is gone at the start.
    Drive(usize),
}

/// What is known of the drives when the crash comes.
struct BeforeCrash {
    in_sync: InSync,
    /// Dropped members, by drive.
    dropped: Vec<usize>,
    /// True if a drive is gone, with its log, and superblocks do not say so yet.
    is_drop_unrecorded: bool,
}

impl World<'_> {
    /// Ends the process or the power, and starts the array again.
    pub(super) fn recover(&mut self) -> Outcome {
        self.checksums()?;
        let before = self.before_crash();
        let loss = self.draw_loss(&before.in_sync);
        let may_hang: Vec<bool> = (0..self.drives.len()).map(|drive| self.may_be_held(drive)).collect();
        let left = self.left_before();
        self.begun.clear();
        self.node = None;
        self.free_space();
        if let Some(loss) = &loss {
            self.lose(loss);
        }
        let takes_log =
            (loss.is_some() || before.is_drop_unrecorded || std::mem::take(&mut self.next_crash.sole_log_holder_is_gone))
                && self.history.setup.level.parity_count() > 0;
        self.notes.tally.crashes += 1;
        self.meet(if self.next_crash.kill { "process killed" } else { "power cut" });
        let hung = if let Some(Loss::Hung(drive)) = loss { Some(drive) } else { None };
        // What a killed process told a cache may have been found by a start that has written nothing since.
        let is_unsure: Vec<bool> = self.drives.iter().map(|drive| drive.borrow().is_cached(&SUPERBLOCK)).collect();
        let (held, held_now) = self.crash_drives(hung, &may_hang);
        self.note_rejoined(before.dropped, &left);
        self.crash_clients(takes_log);
        for index in held_now {
            self.meet(if hung == Some(index) {
                "member held when its process died"
            } else {
                "not in sync, and held when its process died"
            });
        }
        let found = self.find_drives(&held, &left);
        let may_be_dropped: Vec<bool> =
            (0..self.drives.len()).map(|drive| is_unsure[drive] || self.is_dropped_by(&found, drive)).collect();
        self.arm_next_crash();
        let mounted = self.mount("after a crash");
        if mounted.is_ok() && self.lacks_a_member() {
            self.model.lose_member();
        }
        mounted?;
        self.find_logs();
        self.check_in_sync(&before.in_sync, &may_be_dropped)?;
        self.repeat();
        if self.draws.first.one_in(2) { self.read_all() } else { Ok(()) }
    }

    fn before_crash(&self) -> BeforeCrash {
        let in_sync = match &self.node {
            // A rebuild that has just ended is not recorded yet.
            Some(node) => node
                .leaves()
                .iter()
                .map(|leaf| match leaf.status().sweep {
                    Some(sweep) if sweep.kind == SweepKind::Rebuild => vec![None; leaf.geometry().slot_count()],
                    _ => leaf.in_sync_drives(),
                })
                .collect(),
            None => Vec::new(),
        };
        // RULE of the unrecorded drop: a member that was dropped at a power cut may be in sync again, without the part of the log
        // in its cache. It counts as lost until a resync has ended.
        let dropped = |leaf: &Array<'_>| {
            let failed = leaf.status().members.into_iter().filter(|member| member.state == MemberState::Failed);
            failed.filter_map(|member| leaf.drive_of(member.id)).collect::<Vec<_>>()
        };
        let dropped = self.node.iter().flat_map(Node::leaves).flat_map(|leaf| dropped(&leaf)).collect();
        // A drive that left before the last start has no newer data that counts.
        let away = |&drive: &usize| self.drives[drive].borrow().presence() != Presence::There && !self.left.contains(&drive);
        let is_drop_unrecorded = self.node.is_some()
            && ((0..self.drives.len()).filter(away).any(|drive| !self.is_drop_recorded(drive)) || self.takes_log_along());
        BeforeCrash { in_sync, dropped, is_drop_unrecorded }
    }

    /// Sometimes a member is lost with the crash.
    fn draw_loss(&mut self, in_sync: &InSync) -> Option<Loss> {
        if let Some(drive) = self.loses_superblock(in_sync) {
            return Some(Loss::Superblock(drive));
        }
        if let Some((drive, sector)) = self.loses_log(in_sync) {
            return Some(Loss::Log(drive, sector));
        }
        if let Some((drive, end)) = self.shrinks_now(Some(in_sync)) {
            return Some(Loss::Short(drive, end));
        }
        if let Some(drive) = self.hangs_on(in_sync) {
            return Some(Loss::Hung(drive));
        }
        self.may_lose_with_power(in_sync).map(Loss::Drive)
    }

    fn lose(&mut self, loss: &Loss) {
        match *loss {
            Loss::Superblock(drive) => self.lose_with_power(drive, true),
            Loss::Log(drive, sector) => self.lose_log(drive, sector),
            Loss::Short(drive, end) => self.cut_short(drive, end),
            Loss::Hung(drive) => self.redundancy.suspect[drive] = true,
            Loss::Drive(drive) => self.lose_with_power(drive, false),
        }
    }

    /// Ends every drive's requests. Returns the drives that an earlier dead process holds, and those that this one holds.
    fn crash_drives(&mut self, hung: Option<usize>, may_hang: &[bool]) -> (Vec<usize>, Vec<usize>) {
        let (kill, keep) = (self.next_crash.kill, self.keep());
        let (mut held, mut held_now) = (Vec::new(), Vec::new());
        for (index, &may_hang) in may_hang.iter().enumerate() {
            let keep = if self.draws.first.one_in(2) { keep } else { self.keep() };
            let mut drive = self.drives[index].borrow_mut();
            match (drive.presence(), kill) {
                (Presence::Pulled, _) => {}
                (Presence::There, true) if drive.hangs() && drive.is_mutant(Mutant::OpenedWhileHeld) => drive.leave_unheld(),
                // A drive that is no longer a member may hang without limit.
                (Presence::There, true) if drive.hangs() && (hung == Some(index) || may_hang) => {
                    drive.hold();
                    held_now.push(index);
                }
                (Presence::There, true) => drive.orphan(),
                (Presence::There, false) => drive.cut(keep),
                (Presence::Held, true) => held.push(index),
                (Presence::Held, false) => drive.pull(keep),
            }
        }
        (held, held_now)
    }

    fn note_rejoined(&mut self, dropped: Vec<usize>, left: &[usize]) {
        if self.history.setup.level.parity_count() == 0 || dropped.is_empty() {
            return;
        }
        // A drive that left before the last start comes back like this too: rows whose log went with the dropped member were
        // written without it.
        self.redundancy.rejoined.extend(left);
        let kill = self.next_crash.kill;
        let cached = |drive: &usize| !kill && self.drives[*drive].borrow().model().volatile_cache;
        self.redundancy.rejoined.extend(dropped.into_iter().filter(cached));
    }

    /// Ends the clients' requests, and lets the power come back.
    fn crash_clients(&mut self, takes_log: bool) {
        let kill = self.next_crash.kill;
        // A lost drive takes its log along: writes that were acknowledged by that log are in the state after a power cut.
        self.model.crash(!kill, takes_log);
        self.redundancy.settled = false;
        self.clients.crash(kill);
        self.power.note(|| if kill { "the process is killed" } else { "power goes" }.into());
        self.power.on();
        self.power.set_now(self.power.now() + 1_000_000);
        self.look_due = None;
    }

    /// Sometimes a drive is found again that was away. Returns those.
    fn find_drives(&mut self, held: &[usize], left: &[usize]) -> Vec<usize> {
        let is_there = |world: &Self, drive: &usize| world.drives[*drive].borrow().presence() == Presence::There;
        let away: Vec<usize> = (0..self.drives.len()).filter(|drive| !is_there(self, drive)).collect();
        self.find_again(held);
        self.find_left(left);
        away.into_iter().filter(|drive| is_there(self, drive)).collect()
    }

    /// Sometimes crash recovery is cut short by another crash.
    fn arm_next_crash(&mut self) {
        let next = self.next_crash.again.take();
        let next = if self.draws.first.one_in(4) { Some((self.draws.first.one_in(3), self.draws.first.below(60))) } else { next };
        if let Some((kill, after)) = next {
            self.next_crash.kill = kill;
            self.power.allow(true);
            self.power.cut_after(after, kill);
        }
    }

    fn lacks_a_member(&self) -> bool {
        !self.statuses().iter().all(is_optimal) || (0..self.drives.len()).any(|drive| self.is_harmed(drive))
    }

    /// A drive that was in sync is in sync after the crash, but where a fault explains that it is not.
    fn check_in_sync(&self, before: &InSync, may_be_dropped: &[bool]) -> Outcome {
        let now: InSync = self.node().leaves().iter().map(|leaf| leaf.in_sync_drives()).collect();
        for (before, now) in before.iter().flatten().zip(now.iter().flatten()) {
            if let Some(drive) = before
                && now.is_none()
                && !self.redundancy.suspect[*drive]
                && !may_be_dropped[*drive]
            {
                return Err(Stop::Wrong(format!("after a crash drive {drive}, which was in sync, is not used")));
            }
        }
        Ok(())
    }

    /// Clients repeat the requests that earlier processes did not answer.
    fn repeat(&mut self) {
        for Pending { write, range, kind, again, .. } in self.clients.take_unanswered() {
            let Some(operation) = again else { continue };
            self.meet("request repeated to the next process");
            let ignored = self.rules.mutant == Some(Mutant::RepeatIgnored) && matches!(kind, Kind::Write { .. });
            if ignored {
                let begun = self.model.begin_write(write, range.clone(), false);
                self.model.end_write(write, range, begun, false);
            } else {
                self.begin(range, kind, operation, write);
            }
        }
    }

    /// A member to lose at the moment of a crash, where the atlas allows that.
    fn may_lose_with_power(&mut self, in_sync: &InSync) -> Option<usize> {
        let level = self.history.setup.level;
        if self.node.is_none() || !level.is_redundant() {
            return None;
        }
        let named = self.next_crash.member_to_lose.take();
        if !self.draws.first.one_in(4) && named.is_none() {
            return None;
        }
        if level.parity_count() > 0 && !(self.redundancy.survives_crash_with_loss()) {
            return None;
        }
        let leaf = named
            .map_or_else(|| self.draws.first.below(in_sync.len() as u64), |which| (which >> 32) % in_sync.len() as u64)
            as usize;
        let holders: Vec<usize> = in_sync[leaf].iter().copied().flatten().collect();
        let count = holders.len().max(1) as u64;
        let position = named.map_or_else(|| self.draws.first.below(count), |which| (which & 0xffff_ffff) % count);
        let drive = *holders.get(position as usize)?;
        self.may_lose(leaf, drive, false).then_some(drive)
    }
}
