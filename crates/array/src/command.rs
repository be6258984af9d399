//! Commands: what an administrator asks of a running array, each with the waiting that makes it safe.
//!
//! A command is given to the coordinator's engine, and is a task there that reads in the order in which things happen. What must
//! hold or happen on every lane is a [`Step`]: the driver has every lane take it, the coordinator first, and reports when all
//! have. With one lane that lane takes it alone. The engine answers a command with [`Action::CommandDone`].
//!
//! Commands run one after the other, in the order in which they were given. A stop waits beside the others, since it may not
//! end before a member that hangs is failed.

use crate::core::{Action, Core};
use crate::log::Stage;
use crate::task::Waiters;
use crate::{Engine, Health, MemberConfig, MemberId, MemberState, Refusal};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stria_block::{Limits, Nanos};

/// 5 s: how long a command waits for what takes moments, unless there is much to replay after a crash.
const PATIENCE: Nanos = 5_000_000_000;
/// 1 s: how long a member that is failed by command may remain a sole log holder (R26).
const RELIED_ON_MAX: Nanos = 1_000_000_000;
/// 1 ms: how often a command that waits looks again.
const LOOK_EVERY: Nanos = 1_000_000;

/// What an administrator may ask of a running array. `N`: a drive that joins, as the format describes it.
#[derive(Clone, Debug)]
pub enum Command<N = ()> {
    /// Drops a member as if it had failed, once replay has ended (R30) and no write relies on the member's log alone (R26).
    Fail(MemberId),
    /// Takes out a failed member or a spare. Its device is released when everything it was given has ended.
    Remove(MemberId),
    /// Waits until the array has started, and superblocks name every dropped member as failed. What a drive lacks that comes
    /// back can be told only then.
    CommitDrops,
    /// Adds a drive that every lane was [offered](crate::ArrayDevice::offer): as a spare, or, if it was away, into the slot it
    /// had. Waits as [`Command::CommitDrops`] does (R11, R31).
    Add {
        /// The drive.
        newcomer: N,
        /// By which number it was offered.
        offer: u64,
        /// The in-sync member that it is to replace.
        replaces: Option<MemberId>,
    },
    /// Copies an in-sync member to a spare, which then takes its slot.
    Replace {
        /// The member.
        member: MemberId,
        /// The spare.
        spare: MemberId,
    },
    /// Starts a scrub at a position of the sync space: 0, or where an earlier one was interrupted. On a read-only array it only
    /// reads.
    Scrub {
        /// True if mismatches are corrected.
        repair: bool,
        /// The position.
        from_sector: u64,
    },
    /// Ends a scrub for good.
    CancelScrub,
    /// Ends sweeps, waits for requests, makes everything durable and the superblocks clean. Its answer comes when all lanes
    /// have. Afterwards members can only be failed.
    Stop,
}

impl<N> Command<N> {
    /// The command, and the drive that joins by it.
    pub(crate) fn split(self) -> (Command, Option<N>) {
        let plain = match self {
            Command::Add { newcomer, offer, replaces } => {
                return (Command::Add { newcomer: (), offer, replaces }, Some(newcomer));
            }
            Command::Fail(member) => Command::Fail(member),
            Command::Remove(member) => Command::Remove(member),
            Command::CommitDrops => Command::CommitDrops,
            Command::Replace { member, spare } => Command::Replace { member, spare },
            Command::Scrub { repair, from_sector } => Command::Scrub { repair, from_sector },
            Command::CancelScrub => Command::CancelScrub,
            Command::Stop => Command::Stop,
        };
        (plain, None)
    }
}

/// A command that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(u64);

/// What every lane does for a command.
#[derive(Clone, Debug)]
pub enum Step {
    /// Waits until the log records of the last run are replayed (R30).
    EndReplay,
    /// Acknowledges no more writes early on the word of this member's log alone, and waits until those that were are in place,
    /// or the member hangs (R26).
    StopRelyingOn(MemberId),
    /// Relies on every log holder again.
    RelyOnAll,
    /// Waits until the lane has started, and the superblocks name every member that it has dropped (R11, R31).
    CommitDrops,
    /// Adds a member by the device that was offered under this number.
    Add {
        /// The member.
        config: MemberConfig,
        /// The slot that it comes back to.
        slot: Option<usize>,
        /// The device's number.
        offer: u64,
        /// The member that it is to replace, and that member's slot.
        replaces: Option<(MemberId, usize)>,
    },
    /// Waits until this member is a spare, or was dropped, on this lane too.
    Release(MemberId),
    /// Takes it out.
    Remove(MemberId),
    /// Makes a spare the replacement of a slot's member.
    Replace {
        /// The member.
        member: MemberId,
        /// Its slot.
        slot: usize,
        /// The spare.
        spare: MemberId,
    },
    /// Says whether a scrub may start.
    MayScrub {
        /// True if it is to correct mismatches.
        repair: bool,
    },
    /// Starts a scrub.
    Scrub {
        /// True if it corrects mismatches.
        repair: bool,
        /// From which position of the sync space.
        from_sector: u64,
    },
    /// Ends a scrub for good.
    CancelScrub,
    /// Stops.
    Stop,
}

/// The commands of an engine.
#[derive(Default)]
pub(crate) struct Commands {
    /// Numbers commands and steps.
    count: Cell<u64>,
    is_busy: Cell<bool>,
    turn_waiters: Waiters,
    /// Steps that every lane has taken, or one has refused.
    answers: RefCell<BTreeMap<u64, Result<(), Refusal>>>,
    answered: Waiters,
}

impl Commands {
    fn next_number(&self) -> u64 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }
}

/// The right to change the array, until this is dropped.
struct CommandTurn<'a>(&'a Core);

impl Drop for CommandTurn<'_> {
    fn drop(&mut self) {
        self.0.commands.is_busy.set(false);
        self.0.commands.turn_waiters.wake_all(&self.0.ready);
    }
}

impl Core {
    /// True while log records of the last run are being replayed. No member may be failed by command meanwhile: its drop could
    /// become durable only after replay, and a crash before that would bring it back as in sync, with a log that its cache may
    /// have forgotten (R30).
    pub fn is_replaying(&self) -> bool {
        self.log.stage.get() < Stage::Replayed && !self.read_only.get()
    }

    /// Whether members may change. On a read-only array they may not, since every change writes superblocks.
    pub fn may_change(&self) -> Result<(), Refusal> {
        match self.read_only.get() {
            true => {
                Err(Refusal("the array is read-only, and this would write to its members: serve it without --read-only".into()))
            }
            false => Ok(()),
        }
    }

    fn role_of(&self, member: MemberId) -> Result<(MemberState, String), Refusal> {
        let members = self.members.borrow();
        if member.0 >= members.count() {
            return Err(Refusal(format!("the array has no member {}", member.0)));
        }
        let member = members.get(member);
        Ok((member.role, member.config.name.clone()))
    }

    /// The name of a member that is in use.
    fn name_in_use(&self, member: MemberId) -> Result<String, Refusal> {
        match self.role_of(member)? {
            (MemberState::Failed, name) => Err(Refusal(format!("{name} has failed already; `remove` takes it out"))),
            (_, name) => Ok(name),
        }
    }

    /// The slot of a member that may be replaced.
    fn slot_to_replace(&self, member: MemberId) -> Result<usize, Refusal> {
        let (role, name) = self.role_of(member)?;
        if role != MemberState::InSync {
            return Err(Refusal(format!("{name} cannot be replaced: it is not an in-sync member; its role is rebuilt instead")));
        }
        let members = self.members.borrow();
        let slot = members.get(member).slot.expect("in sync members have a role");
        match members.slots()[slot].replacement {
            Some(_) => Err(Refusal(format!("{name} is being replaced already"))),
            None => Ok(slot),
        }
    }

    /// A member may be taken out: it has failed, or is a spare.
    fn may_remove(&self, member: MemberId) -> Result<(), Refusal> {
        match self.role_of(member)? {
            (MemberState::Failed | MemberState::Spare, _) => Ok(()),
            (MemberState::InSync | MemberState::Rebuilding | MemberState::Replacing, name) => {
                Err(Refusal(format!("{name} is in use: `fail` it first, or `replace` it to keep redundancy meanwhile")))
            }
        }
    }

    /// Has every lane take a step, and waits until all have. If this lane refuses it, the others are not asked.
    async fn on_every_lane(&self, step: Step) -> Result<(), Refusal> {
        let number = self.commands.next_number();
        self.outbox.borrow_mut().push_back(Action::EveryLane { number, step });
        self.step_answered(number).await
    }

    async fn step_answered(&self, number: u64) -> Result<(), Refusal> {
        let answers = &self.commands.answers;
        self.ready.until(&self.commands.answered, || answers.borrow().contains_key(&number)).await;
        answers.borrow_mut().remove(&number).expect("it is there")
    }

    async fn carry_out(&self, id: CommandId, command: Command) -> Result<(), Refusal> {
        let commands = &self.commands;
        self.ready.until(&commands.turn_waiters, || !commands.is_busy.get()).await;
        commands.is_busy.set(true);
        let turn = CommandTurn(self);
        if self.stopping.get() && !matches!(command, Command::Fail(_)) {
            return Err(Refusal("the array is being stopped".into()));
        }
        match command {
            Command::Fail(member) => self.fail_by_command(member).await,
            Command::Remove(member) => {
                self.may_change()?;
                self.may_remove(member)?;
                self.on_every_lane(Step::Release(member)).await?;
                self.on_every_lane(Step::Remove(member)).await
            }
            Command::CommitDrops => self.on_every_lane(Step::CommitDrops).await,
            Command::Add { replaces, offer, newcomer: () } => {
                self.may_change()?;
                self.on_every_lane(Step::CommitDrops).await?;
                let replaces = match replaces {
                    Some(member) => Some((member, self.slot_to_replace(member)?)),
                    None => None,
                };
                let number = commands.next_number();
                self.outbox.borrow_mut().push_back(Action::Admit { id, number, offer, replaces });
                self.step_answered(number).await
            }
            Command::Replace { member, spare } => {
                self.may_change()?;
                let slot = self.slot_to_replace(member)?;
                self.on_every_lane(Step::Replace { member, slot, spare }).await
            }
            Command::Scrub { repair, from_sector } => {
                self.on_every_lane(Step::MayScrub { repair }).await?;
                let started = self.on_every_lane(Step::Scrub { repair, from_sector }).await;
                if started.is_err() {
                    // Lanes that have started the scrub must not run it alone.
                    self.on_every_lane(Step::CancelScrub).await?;
                }
                started
            }
            Command::CancelScrub => self.on_every_lane(Step::CancelScrub).await,
            Command::Stop => {
                self.stopping.set(true);
                drop(turn);
                self.on_every_lane(Step::Stop).await
            }
        }
    }

    async fn fail_by_command(&self, member: MemberId) -> Result<(), Refusal> {
        self.may_change()?;
        let name = self.name_in_use(member)?;
        self.on_every_lane(Step::EndReplay).await.map_err(|_| {
            Refusal(format!(
                "{name} cannot be failed yet: the array has just started, and carries out what a crash left; fail it again in a moment"
            ))
        })?;
        self.on_every_lane(Step::StopRelyingOn(member)).await?;
        // It may have failed by itself meanwhile.
        let failed = self.name_in_use(member).and_then(|name| match self.fail_member(member, "failed on command") {
            true => Ok(()),
            false => Err(Refusal(format!(
                "{name} cannot be failed: the array has no redundancy left to replace it; add a member and let it rebuild first"
            ))),
        });
        if failed.is_err() {
            self.on_every_lane(Step::RelyOnAll).await?;
        }
        failed
    }

    /// Waits until a condition holds, but not for longer than `patience`. Returns whether it does.
    async fn wait_at_most(&self, patience: Nanos, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now() + patience;
        while !holds(self) && self.now() < end {
            self.sleep_until(end.min(self.now() + LOOK_EVERY)).await;
        }
        holds(self)
    }

    /// Takes a step that may have to wait.
    async fn take(&self, step: Step) -> Result<(), Refusal> {
        match step {
            Step::EndReplay => match self.wait_at_most(PATIENCE, |core| !core.is_replaying()).await {
                true => Ok(()),
                false => Err(Refusal("the array still carries out what a crash left".into())),
            },
            Step::StopRelyingOn(member) => {
                // R26: a member that hangs does not end the writes in flight to it either.
                self.wait_at_most(RELIED_ON_MAX, |core| !core.is_sole_log_holder(member)).await;
                Ok(())
            }
            Step::CommitDrops => match self.wait_at_most(PATIENCE, |core| core.serves() && !core.acks_are_held()).await {
                true => Ok(()),
                false => Err(Refusal(
                    "the array is still starting, or still writes down that a member failed; add it again in a moment".into(),
                )),
            },
            Step::Release(member) => match self.wait_at_most(PATIENCE, |core| core.may_remove(member).is_ok()).await {
                true => Ok(()),
                false => self.may_remove(member),
            },
            other => unreachable!("{other:?} waits for nothing here"),
        }
    }
}

impl Engine {
    /// Gives the engine a command. Its answer is [`Action::CommandDone`].
    pub fn command(&mut self, command: Command) -> CommandId {
        let id = CommandId(self.core.commands.next_number());
        let core = Rc::clone(&self.core);
        self.core.ready.spawn(async move {
            let result = core.carry_out(id, command).await;
            core.outbox.borrow_mut().push_back(Action::CommandDone(id, result));
        });
        id
    }

    /// Takes a step of a command. `None`: [`Action::StepDone`] reports its end.
    pub(crate) fn take_step(&mut self, number: u64, step: Step) -> Option<Result<(), Refusal>> {
        let core = &self.core;
        match step {
            Step::RelyOnAll => core.stop_relying_on(None),
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
            Step::Add { .. } => unreachable!("the driver has the device"),
            Step::StopRelyingOn(_) | Step::EndReplay | Step::CommitDrops | Step::Release(_) => {
                if let Step::StopRelyingOn(member) = step {
                    core.stop_relying_on(Some(member));
                }
                let core = Rc::clone(core);
                self.core.ready.spawn(async move {
                    let result = core.take(step).await;
                    core.outbox.borrow_mut().push_back(Action::StepDone { number, result });
                });
                return None;
            }
        }
        Some(Ok(()))
    }

    /// Every lane has taken a step, or one has refused it.
    pub(crate) fn step_answered(&mut self, number: u64, result: Result<(), Refusal>) {
        self.core.commands.answers.borrow_mut().insert(number, result);
        self.core.commands.answered.wake_all(&self.core.ready);
    }

    fn may_scrub(&self, repair: bool) -> Result<(), Refusal> {
        if !self.core.geometry.level().is_redundant() {
            return Err(Refusal(format!("RAID level {} has nothing to compare", self.core.geometry.level())));
        }
        if self.core.health() == Health::Failed {
            return Err(Refusal("scrub refused: the array has failed; assemble it with enough members first".into()));
        }
        self.sweeper.may_order(&self.core, repair)
    }

    fn remove(&mut self, member: MemberId) -> Result<(), Refusal> {
        self.core.may_remove(member)?;
        if self.core.role_of(member)?.0 == MemberState::Spare {
            self.core.fail_member(member, "removed on command");
        }
        Ok(())
    }

    /// Adds a member: as a spare, or, if it was away, into the empty slot it had.
    ///
    /// # Errors
    /// When the array has no redundancy, the member is too small, or its slot is filled.
    pub(crate) fn add(
        &mut self,
        config: MemberConfig,
        limits: &Limits,
        slot: Option<usize>,
        replaces: Option<(MemberId, usize)>,
    ) -> Result<(), Refusal> {
        let geometry = &self.core.geometry;
        if !geometry.level().is_redundant() {
            return Err(Refusal(format!("RAID level {} has no use for a spare: it cannot rebuild", geometry.level())));
        }
        if config.data_sectors < geometry.member_sectors(0) {
            return Err(Refusal(format!(
                "{} is too small: {} sectors of data room, {} are needed; use a larger drive",
                config.name,
                config.data_sectors,
                geometry.member_sectors(0)
            )));
        }
        let blocks = self.limits().logical_block_bytes;
        if limits.logical_block_bytes > blocks {
            return Err(Refusal(format!(
                "{} has blocks of {} bytes, and the array serves blocks of {blocks}: use a drive with blocks as small",
                config.name, limits.logical_block_bytes
            )));
        }
        if let Some((member, _)) = replaces.filter(|_| self.core.partition.lane == 0) {
            self.core.slot_to_replace(member)?;
        }
        let id = config.id;
        {
            let filled = slot.and_then(|slot| Some((slot, self.core.members.borrow().slots()[slot].member?)));
            match filled {
                // The coordinator has dropped it: what it has admitted every lane admits.
                Some((_, dropped)) if self.core.partition.lane > 0 => self.dropped_elsewhere(dropped),
                Some((slot, _)) => return Err(Refusal(format!("slot {slot} has a member already"))),
                None => {}
            }
            let mut members = self.core.members.borrow_mut();
            members.admit(self.core.as_flawed(config, slot), slot);
            members.get_mut(id).limits = limits.clone();
        }
        self.core.request_commit();
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
        let (role, name) = core.role_of(spare)?;
        if role != MemberState::Spare {
            return Err(Refusal(format!("{name} is not a spare: `add` one first")));
        }
        if core.partition.lane > 0 && core.slot_to_replace(member).is_err() {
            // This lane has dropped the member, and the coordinator hears of that next: the spare takes the slot there, as here.
            self.assign_spare(spare, slot);
            return Ok(());
        }
        core.slot_to_replace(member)?;
        core.members.borrow_mut().replace(slot, spare);
        core.request_commit();
        core.sweep_changed.wake_all(&core.ready);
        Ok(())
    }
}
