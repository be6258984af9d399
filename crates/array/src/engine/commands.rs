//! Commands, and the steps that a lane takes for them.

use super::Engine;
use crate::action::Action;
use crate::member::Slot;
use crate::{Command, CommandId, DropCause, Flaw, Health, MemberConfig, MemberId, MemberState, Refusal, Step, Synced};
use std::rc::Rc;
use stria_block::Limits;

impl Engine {
    /// Gives the engine a command. Its answer is [`Action::CommandDone`].
    pub fn command(&mut self, command: Command) -> CommandId {
        let id = self.core.commands.next_id();
        let core = Rc::clone(&self.core);
        self.core.ready.spawn(async move {
            let result = core.carry_out(id, command).await;
            core.outbox.push(Action::CommandDone(id, result));
        });
        id
    }

    /// Takes a step of a command. `None`: [`Action::StepDone`] reports its end.
    pub(crate) fn take_step(&mut self, number: u64, step: Step) -> Option<Result<(), Refusal>> {
        let core = &self.core;
        match step {
            Step::RelyOnAll => core.log.behind.stop_relying_on(None),
            Step::Replace { member, slot, spare } => return Some(self.replace(member, slot, spare)),
            Step::MayScrub { repair } => return Some(self.may_scrub(repair)),
            Step::Scrub { repair, from_sector } => {
                let may = self.may_scrub(repair);
                return Some(may.map(|()| self.sweeper.order(&self.core, repair, from_sector)));
            }
            Step::CancelScrub => self.sweeper.cancel_scrub(core),
            Step::Stop => {
                self.stop(number);
                return None;
            }
            Step::Remove(member) => return Some(self.remove(member)),
            Step::Add { .. } | Step::EndRequests => unreachable!("the driver has the devices, and the requests on other lanes"),
            Step::StopRelyingOn(_) | Step::EndReplay | Step::CommitDrops | Step::HasCommittedDropsOrCannot | Step::Release(_) => {
                if let Step::StopRelyingOn(member) = step {
                    core.log.behind.stop_relying_on(Some(member));
                }
                let core = Rc::clone(core);
                self.core.ready.spawn(async move {
                    let result = core.take(step).await;
                    core.outbox.push(Action::StepDone { number, result });
                });
                return None;
            }
        }
        Some(Ok(()))
    }

    /// Every lane has taken a step, or one has refused it.
    pub(crate) fn step_answered(&mut self, number: u64, result: Result<(), Refusal>) {
        self.core.commands.step_answered(&self.core.ready, number, result);
    }

    fn may_scrub(&self, repair: bool) -> Result<(), Refusal> {
        if !self.core.geometry.level().is_redundant() {
            return Err(Refusal::ScrubWithoutRedundancy(self.core.geometry.level()));
        }
        if self.core.health() == Health::Failed {
            return Err(Refusal::ScrubOfFailed);
        }
        self.sweeper.may_order(&self.core, repair)
    }

    fn remove(&mut self, member: MemberId) -> Result<(), Refusal> {
        self.core.members.borrow().may_remove(member)?;
        if self.core.members.borrow().get(member).state == MemberState::Spare {
            self.core.fail_member(member, DropCause::Removed);
        }
        Ok(())
    }

    /// Adds a member: as a spare, or, if it was away, into the empty slot it had.
    ///
    /// # Errors
    /// The array has no redundancy, the member is too small, or its slot is filled.
    pub(crate) fn add(
        &mut self,
        config: MemberConfig,
        limits: &Limits,
        slot: Option<usize>,
        replaces: Option<(MemberId, usize)>,
    ) -> Result<(), Refusal> {
        let geometry = &self.core.geometry;
        if !geometry.level().is_redundant() {
            return Err(Refusal::NoUseForSpare(geometry.level()));
        }
        let needed = geometry.member_sectors(0);
        if config.data_sectors < needed {
            return Err(Refusal::TooSmall {
                name: config.name,
                missing_bytes: (needed - config.data_sectors).saturating_mul(512),
                needed_bytes: needed.saturating_mul(512),
            });
        }
        let blocks = self.limits().logical_block_bytes;
        if limits.logical_block_bytes > blocks {
            return Err(Refusal::BlocksTooLarge {
                name: config.name,
                block_bytes: limits.logical_block_bytes,
                array_bytes: blocks,
            });
        }
        if let Some((member, _)) = replaces.filter(|_| self.core.partition.lane == 0) {
            self.core.members.borrow().slot_to_replace(member)?;
        }
        let id = config.id;
        {
            let holder = |slot: usize| Some((slot, self.core.members.borrow().slots()[slot].member?));
            // Every lane admits what the coordinator has admitted. So the coordinator has dropped the members that hold the slot
            // here: the member, and a replacement that took the slot after it.
            while self.core.partition.lane > 0
                && let Some((_, dropped)) = slot.and_then(holder)
            {
                self.core.drop_as_others_did(dropped);
            }
            if let Some((slot, _)) = slot.and_then(holder) {
                return Err(Refusal::SlotTaken(slot));
            }
            let mut members = self.core.members.borrow_mut();
            let config = if slot.is_some() && self.core.has(Flaw::StaleAccepted) { as_in_sync(config) } else { config };
            members.admit(config, slot);
            members.get_mut(id).limits = limits.clone();
        }
        self.core.metadata.request_commit(&self.core.ready);
        self.core.sweep_changed.wake_all(&self.core.ready);
        self.core.catch_up_on(id);
        match replaces {
            Some((member, slot)) => self.replace(member, slot, id),
            None => Ok(()),
        }
    }

    /// Makes a spare the replacement of a slot's member.
    fn replace(&mut self, member: MemberId, slot: usize, spare: MemberId) -> Result<(), Refusal> {
        let core = &self.core;
        let (state, name) = core.members.borrow().state_of(spare)?;
        if state != MemberState::Spare {
            return Err(Refusal::NoSpare(name));
        }
        if core.partition.lane == 0 {
            core.members.borrow().slot_to_replace(member)?;
        } else if core.members.borrow().state_of(member)?.0 == MemberState::Failed {
            // This lane has dropped the member, and the coordinator will too: the spare takes the slot on every lane.
            self.assign_spare(spare, slot);
            return Ok(());
        } else {
            // On the coordinator this member is alone in its slot. This lane has not been told yet that another one there was
            // dropped or replaced.
            let Slot { member: holder, replacement } = core.members.borrow().slots()[slot];
            let others = [holder, replacement].into_iter().flatten().filter(|&other| other != member);
            others.for_each(|other| core.drop_as_others_did(other));
        }
        core.members.borrow_mut().replace(slot, spare);
        core.metadata.request_commit(&core.ready);
        core.sweep_changed.wake_all(&core.ready);
        Ok(())
    }
}

/// A member that comes back, taken for one that missed nothing: [`Flaw::StaleAccepted`].
fn as_in_sync(config: MemberConfig) -> MemberConfig {
    MemberConfig { recovered: Synced::All, by_bitmap: false, ..config }
}
