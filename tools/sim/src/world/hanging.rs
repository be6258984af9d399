//! Drives that hang while a member is filled: its source, another member, or the member itself. They hang as a whole, or keep
//! only what they were asked to do with data, as drives do that retry one command and answer others.

use super::clients::Kind;
use super::{Outcome, Stop, World};
use crate::workload::Hanging;
use stria_array::{MemberState, SweepKind};
use stria_block::{Buffer, Nanos, Operation, bytes};

/// The longest wait for a rebuild to come so far that a drive hangs.
const FILL_MAX: Nanos = 60_000_000_000;

/// Requests to data that are sent within this time are kept too.
const KEPT_FOR: Nanos = 300_000;

/// The most client requests while the rebuild is waited for.
const ASKED_MAX: u32 = 64;

/// A drive that is silent for so long hangs.
const SILENCE_MIN: Nanos = 1_000_000_000;

/// A member that is being filled.
struct Filling {
    leaf: usize,
    drive: usize,
    source: Option<usize>,
    others: Vec<usize>,
    /// What is done of it, in eighths.
    done_eighths: u64,
}

impl World<'_> {
    fn filling(&self) -> Option<Filling> {
        let leaves = self.node().leaves();
        (0..leaves.len()).find_map(|leaf| {
            let status = leaves[leaf].status();
            let sweep = status.sweep.as_ref().filter(|sweep| sweep.kind == SweepKind::Rebuild)?;
            let filled = |state| matches!(state, MemberState::Rebuilding | MemberState::Replacing);
            let member = status.members.iter().find(|member| filled(member.state))?;
            let source = member.slot.and_then(|slot| status.slots[slot]).filter(|&source| source != member.id);
            let source = source.and_then(|source| leaves[leaf].drive_of(source));
            let holders = leaves[leaf].in_sync_drives().into_iter().flatten();
            Some(Filling {
                leaf,
                drive: leaves[leaf].drive_of(member.id)?,
                source,
                others: holders.filter(|&holder| Some(holder) != source).collect(),
                done_eighths: sweep.done_sectors * 8 / sweep.total_sectors.max(1),
            })
        })
    }

    /// Waits until a rebuild is done to so many eighths, while clients send requests. Then a drive hangs for `pause`.
    pub(super) fn hang(&mut self, who: Hanging, eighths: u64, pause: Nanos, keeps: bool) -> Outcome {
        let late = self.power.now() + FILL_MAX;
        let mut asked = 0;
        while let Some(filling) = self.filling() {
            if filling.done_eighths < eighths {
                asked += u32::from(asked < ASKED_MAX && self.ask_meanwhile()?);
                if !self.turn(late)? {
                    return Ok(());
                }
                continue;
            }
            let other = |which: u64| filling.others.get(which as usize % filling.others.len().max(1)).copied();
            let (drive, words) = match (who, filling.source) {
                (Hanging::Filled, _) => (Some(filling.drive), "filled member hangs"),
                (Hanging::Source, Some(source)) => (Some(source), "source of a replacement hangs"),
                (Hanging::Source, None) => (other(0), "member hangs beside a rebuild"),
                (Hanging::Other(which), None) => (other(which), "member hangs beside a rebuild"),
                (Hanging::Other(which), Some(_)) => (other(which), "member hangs beside a replacement"),
            };
            let Some(drive) = drive else { return Ok(()) };
            self.meet(words);
            let until = self.power.now() + pause;
            let mut drive = self.drives[drive].borrow_mut();
            match keeps {
                true => drive.stick(KEPT_FOR, until),
                false => drive.stall(until),
            }
            return Ok(());
        }
        Ok(())
    }

    /// A client sends a request, unless all of them wait. `false`: they do.
    fn ask_meanwhile(&mut self) -> Result<bool, Stop> {
        if self.clients.are_busy() || self.draws.more.one_in(2) {
            return Ok(false);
        }
        let (at, sectors) = (self.draws.more.any() >> 1, 1 + self.draws.more.below(16));
        let range = self.range_at(at, sectors);
        if self.draws.more.one_in(4) {
            let into = std::iter::once(Buffer::zeroed(bytes(range.end - range.start))).collect();
            self.submit(range, Kind::Read, Operation::Read { into }, 0)?;
        } else {
            self.write(range, false)?;
        }
        Ok(true)
    }

    /// Fails by command a member that hangs: one that may be lost, or one that is filled.
    pub(super) fn fail_hanging(&mut self) -> Outcome {
        let in_sync = self.hung().find(|&(leaf, drive)| self.may_lose(leaf, drive, false));
        let filled = || self.filling().map(|filling| (filling.leaf, filling.drive));
        let filled = || filled().filter(|&(_, drive)| self.drives[drive].borrow().hangs());
        let Some((leaf, drive)) = in_sync.or_else(filled) else { return Ok(()) };
        let others = self.hang_in_use().any(|other| other != drive);
        let waits = others || self.node().leaf(leaf).is_replaying();
        let failed = self.fail(leaf, drive, true)?;
        if failed
            && !waits
            && let Some(took) = self.waits.late_answer_s()
        {
            return Err(Stop::Wrong(format!("drive {drive} hung, and the command that fails it took {took} s")));
        }
        Ok(())
    }

    /// Drives that hold or fill a slot, and have a request that they do not end for a second at least.
    pub(super) fn hang_in_use(&self) -> impl Iterator<Item = usize> {
        let late = self.power.now() + SILENCE_MIN;
        (0..self.drives.len())
            .filter(move |&drive| self.drives[drive].borrow().is_silent_beyond(late) && self.leaf_of(drive).is_some())
    }

    /// The time by which all requests to drives in use end.
    pub(super) fn answers_by(&self) -> Nanos {
        let in_use = (0..self.drives.len()).filter(|&drive| self.leaf_of(drive).is_some());
        in_use.map(|drive| self.drives[drive].borrow().ends_by()).max().unwrap_or(0)
    }

    /// That time, if a drive in use hangs: a spare that stalls counts before it has a request, as it may take a slot.
    pub(super) fn hangs_until(&self) -> Option<Nanos> {
        Some(self.answers_by()).filter(|&until| until > self.power.now() + SILENCE_MIN)
    }

    /// Time passes until `now`. Requests may wait meanwhile for a drive that hangs.
    pub(super) fn note_hangs(&mut self, now: Nanos) {
        if self.hang_in_use().next().is_some() || self.node.as_ref().is_some_and(|node| node.is_asleep(self.power.now())) {
            self.waits.note_hang(now);
        }
    }

    /// R16. Nothing waits for a drive that has lost its slot. `since`: when the request began.
    pub(super) fn ended_in_time(&self, since: Nanos) -> Outcome {
        if let Some(waited) = self.waits.late_s(since, self.power.now()) {
            return Err(Stop::Wrong(format!("a request waited for {waited} s although no member in use hung")));
        }
        Ok(())
    }

    /// True if a drive is filled, and starts of the array can do without it.
    pub(super) fn is_being_filled(&self, drive: usize) -> bool {
        let filled = |state| matches!(state, MemberState::Rebuilding | MemberState::Replacing);
        let state = self.node().leaves().iter().find_map(|leaf| {
            let member = leaf.handle_of(drive)?;
            Some(leaf.status().members[member.0].state)
        });
        state.is_some_and(filled) && !self.is_in_sync_on_disk(drive)
    }
}
