//! Commands: what an administrator asks of a running array, each with the waiting that makes it safe.
//!
//! A command is given to the coordinator's engine, and is a task there that reads in the order in which things happen. What must
//! hold or happen on every lane is a [`Step`]: the driver has every lane take it, the coordinator first, and reports when all
//! have. With one lane that lane takes it alone. The engine answers a command with [`Action::CommandDone`].
//!
//! Commands run one after the other, in the order in which they were given. A stop waits beside the others, since it may not
//! end before a member that hangs is failed.

use crate::action::Action;
use crate::core::Core;
use crate::log::StartStage;
use crate::{Command, CommandId, DropCause, Flaw, MemberId, Refusal, Step};
use stria_block::Nanos;

/// 5 s: the longest that a step waits. Only a long replay or a member that hangs takes more than moments.
pub(crate) const PATIENCE: Nanos = 5_000_000_000;
/// 200 ms: how long a command that fails a member during a stop waits for the drop to become durable.
const PATIENCE_IN_STOP: Nanos = 200_000_000;
/// 1 s: how long a member that is failed by command may remain a sole log holder (R26).
pub const RELIED_ON_MAX: Nanos = 1_000_000_000;
/// 1 ms: how often a command that waits looks again.
const LOOK_EVERY: Nanos = 1_000_000;

impl Core {
    /// True while log records of the last run are being replayed. No member may be failed by command meanwhile: its drop could
    /// become durable only after replay, and a crash before that would bring it back as in sync, with a log that its cache may
    /// have forgotten (R82).
    pub fn is_replaying(&self) -> bool {
        self.log.stage() < StartStage::Replayed && !self.run.is_read_only()
    }

    /// Makes every lane take a step, and waits until all have. If this lane refuses it, the others are not asked.
    async fn on_every_lane(&self, step: Step) -> Result<(), Refusal> {
        let number = self.commands.next_number();
        self.outbox.push(Action::EveryLane { number, step });
        self.commands.answer(&self.ready, number).await
    }

    pub async fn carry_out(&self, id: CommandId, command: Command) -> Result<(), Refusal> {
        let commands = &self.commands;
        let turn = commands.turn(&self.ready).await;
        if self.run.is_stopping() && !matches!(command, Command::Fail(_)) {
            return Err(Refusal::Stops);
        }
        match command {
            Command::Fail(member) => self.fail_by_command(member).await,
            Command::Remove(member) => {
                self.run.may_change()?;
                self.members.borrow().may_remove(member)?;
                self.on_every_lane(Step::Release(member)).await?;
                self.on_every_lane(Step::Remove(member)).await
            }
            Command::CommitDrops => self.commit_drops().await.map(|_| ()),
            Command::Add { replaces, offer, newcomer: () } => {
                self.run.may_change()?;
                let may_return = self.commit_drops().await?;
                let replaces = match replaces {
                    Some(member) => Some((member, self.members.borrow().slot_to_replace(member)?)),
                    None => None,
                };
                let number = commands.next_number();
                self.outbox.push(Action::Admit { id, number, offer, replaces, may_return });
                commands.answer(&self.ready, number).await
            }
            Command::Replace { member, spare } => {
                self.run.may_change()?;
                let slot = self.members.borrow().slot_to_replace(member)?;
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
                self.run.set_stopping();
                drop(turn);
                // Otherwise a lane that has stopped gets another one's request, and superblocks do not say "clean".
                self.on_every_lane(Step::EndRequests).await?;
                self.on_every_lane(Step::Stop).await
            }
        }
    }

    /// Waits until every drop is durable. `Ok` with a refusal: superblocks cannot be written, so that no dropped member may come
    /// back (R11). A new spare may come: it is the remedy, as it takes superblocks once it is in sync.
    async fn commit_drops(&self) -> Result<Result<(), Refusal>, Refusal> {
        let committed = self.on_every_lane(Step::CommitDrops).await;
        if committed.is_err() {
            self.on_every_lane(Step::HasCommittedDropsOrCannot).await?;
        }
        Ok(committed)
    }

    fn has_committed_drops_or_cannot(&self) -> bool {
        self.is_serving() && (!self.metadata.holds_acks() || self.metadata.refuses_acks())
    }

    async fn fail_by_command(&self, member: MemberId) -> Result<(), Refusal> {
        self.run.may_change()?;
        let name = self.members.borrow().name_in_use(member)?;
        self.on_every_lane(Step::EndReplay).await.map_err(|_| Refusal::FailsNotYet(name.clone()))?;
        self.on_every_lane(Step::StopRelyingOn(member)).await?;
        // It may have failed by itself meanwhile.
        let in_use = self.members.borrow().name_in_use(member);
        let failed = in_use.and_then(|name| match self.fail_member(member, DropCause::Failed) {
            true => Ok(()),
            false => Err(Refusal::NoRedundancyLeft(name)),
        });
        if failed.is_err() {
            self.on_every_lane(Step::RelyOnAll).await?;
        }
        failed?;
        // R92: an administrator may unplug the drive after the answer. The drive's cache is lost then.
        let early = self.has(Flaw::FailAnsweredEarly) || self.has(Flaw::ReturnBeforeDrop);
        // A stop waits for the drop by itself, and its answer says whether it is durable. Another member that is silent may be
        // next.
        let patience = if self.run.is_stopping() { PATIENCE_IN_STOP } else { PATIENCE };
        if early || self.wait_at_most(patience, |core| !core.metadata.holds_acks()).await {
            return Ok(());
        }
        Err(Refusal::FailedAndNotDurable(name))
    }

    /// Waits until a condition holds, but not for longer than `patience`. Returns whether it does.
    pub async fn wait_at_most(&self, patience: Nanos, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now() + patience;
        while !holds(self) && self.now() < end {
            self.sleep_until(end.min(self.now() + LOOK_EVERY)).await;
        }
        holds(self)
    }

    /// Takes a step that may have to wait.
    pub async fn take(&self, step: Step) -> Result<(), Refusal> {
        match step {
            Step::EndReplay if self.has(Flaw::FailedDuringReplay) => Ok(()),
            Step::StopRelyingOn(_) if self.has(Flaw::FailedWhileReliedOn) => Ok(()),
            Step::EndReplay => match self.wait_at_most(PATIENCE, |core| !core.is_replaying()).await {
                true => Ok(()),
                false => Err(Refusal::Replays),
            },
            Step::StopRelyingOn(member) => {
                // R26: a member that hangs does not end the writes in flight to it either.
                self.wait_at_most(RELIED_ON_MAX, |core| !core.log.behind.is_sole_log_holder(member, &core.members.borrow()))
                    .await;
                Ok(())
            }
            Step::CommitDrops if self.has(Flaw::ReturnBeforeDrop) => Ok(()),
            Step::CommitDrops => {
                self.wait_at_most(PATIENCE, Self::has_committed_drops_or_cannot).await;
                let is_done = self.is_serving() && !self.metadata.holds_acks();
                if is_done { Ok(()) } else { Err(Refusal::DropsNotDurable) }
            }
            Step::HasCommittedDropsOrCannot => match self.has_committed_drops_or_cannot() {
                true => Ok(()),
                false => Err(Refusal::DropsNotDurable),
            },
            Step::Release(member) => {
                let may_remove = |core: &Self| core.members.borrow().may_remove(member);
                self.wait_at_most(PATIENCE, |core| may_remove(core).is_ok()).await;
                may_remove(self)
            }
            other => unreachable!("{other:?} waits for nothing here"),
        }
    }
}
