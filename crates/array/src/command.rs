//! Commands of an administrator to a running array, and the steps that each lane takes for them.
//!
//! [`command_tasks`](crate::command_tasks) has what each command waits for.

use crate::task::{Ready, Waiters};
use crate::{MemberConfig, MemberId, Refusal};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A request of an administrator to a running array. `N`: a drive that joins, as the format describes it.
#[derive(Clone, Debug)]
pub enum Command<N = ()> {
    /// Drops a member as if it had failed, once replay has ended (R82) and no write relies on the member's log alone (R26).
    Fail(MemberId),
    /// Takes out a failed member or a spare. Its device is released when everything it was given has ended.
    Remove(MemberId),
    /// Waits until the array has started, and superblocks name every dropped member as failed. Only then do they show what a
    /// returning drive lacks. Does not wait for superblocks that cannot be written.
    CommitDrops,
    /// Adds a drive that every lane was [offered](crate::ArrayDevice::offer): as a spare, or, if it was away, into the slot it
    /// had. Waits as [`Command::CommitDrops`] does (R11, R31).
    Add {
        /// The drive.
        newcomer: N,
        /// The number under which it was offered.
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

/// A part of a command that every lane carries out.
#[derive(Clone, Debug)]
pub enum Step {
    /// Waits until the log records of the last run are replayed (R82).
    EndReplay,
    /// Acknowledges no write early of which this member would be the sole log holder, and waits until those that were are in
    /// place, for one second at most (R26).
    StopRelyingOn(MemberId),
    /// Relies on every log holder again.
    RelyOnAll,
    /// Waits until the lane has started, and the superblocks name every member that it has dropped (R11, R31).
    CommitDrops,
    /// Says whether that is so now, or would be if superblocks could be written.
    HasCommittedDropsOrCannot,
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
    /// Begins a stop: waits until no request of this lane's clients is under way on another lane.
    EndRequests,
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
    /// A number for the next command.
    pub fn next_id(&self) -> CommandId {
        CommandId(self.next_number())
    }

    /// A number for the next step.
    pub fn next_number(&self) -> u64 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// Waits until no other command changes the array.
    pub async fn turn<'a>(&'a self, ready: &'a Ready) -> CommandTurn<'a> {
        ready.until(&self.turn_waiters, || !self.is_busy.get()).await;
        self.is_busy.set(true);
        CommandTurn { commands: self, ready }
    }

    /// Every lane has taken a step, or one has refused it.
    pub fn step_answered(&self, ready: &Ready, number: u64, result: Result<(), Refusal>) {
        self.answers.borrow_mut().insert(number, result);
        self.answered.wake_all(ready);
    }

    /// Waits for that.
    pub async fn answer(&self, ready: &Ready, number: u64) -> Result<(), Refusal> {
        ready.until(&self.answered, || self.answers.borrow().contains_key(&number)).await;
        self.answers.borrow_mut().remove(&number).expect("it is there")
    }
}

/// The right to change the array, until this is dropped.
pub(crate) struct CommandTurn<'a> {
    commands: &'a Commands,
    ready: &'a Ready,
}

impl Drop for CommandTurn<'_> {
    fn drop(&mut self) {
        self.commands.is_busy.set(false);
        self.commands.turn_waiters.wake_all(self.ready);
    }
}
