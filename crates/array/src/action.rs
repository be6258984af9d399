//! Requests of the engine to its driver, and its events.

use crate::log_record::{AppendTerms, LogRecord};
use crate::{CommandId, Event, MemberId, MetadataUpdate, Refusal, Step};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::VecDeque;
use stria_block::{Completion, Request};

/// A request of the engine to its driver.
#[derive(Debug)]
pub enum Action {
    /// Submit to a member; positions are in its data area. Answer with [`Engine::complete`](crate::Engine::complete).
    Io {
        /// The member.
        member: MemberId,
        /// The request.
        request: Request,
    },
    /// Make this metadata update. Answer with [`Engine::metadata_updated`](crate::Engine::metadata_updated); the next one comes
    /// after the answer.
    Update(MetadataUpdate),
    /// Several lanes: tell the others that a spare was given a slot. No answer.
    SpareTaken {
        /// The spare.
        member: MemberId,
        /// The slot.
        slot: usize,
    },
    /// Several lanes: this lane has dropped a member, and the others must follow. No answer.
    Dropped(MemberId),
    /// Several lanes: this lane no longer needs the log records of the last run. The answer comes when no lane needs them.
    Replayed,
    /// Several lanes: this lane could not replay the log records of the last run, so no lane may write. No answer.
    GiveUp,
    /// Several lanes: this lane's partition of a member is rebuilt. The answer comes when every lane's is.
    Rebuilt(MemberId),
    /// Several lanes: ask the owner of these sectors to read them. The answer is found by the tag.
    AskOwner {
        /// The read.
        request: Request,
        /// The first is slow and is not asked. The others are unresponsive, and are asked only where data is lacking. Mostly it
        /// is empty.
        slow: SmallVec<[MemberId; 2]>,
    },
    /// Append these records to the log of a member; an append without records only declares what is retired. Answer with
    /// [`Engine::log_appended`](crate::Engine::log_appended), or, if there is no space, with
    /// [`Engine::log_full`](crate::Engine::log_full). The next one for this member comes after the answer.
    AppendLog {
        /// The member.
        member: MemberId,
        /// In the order of their numbers, or nearly so.
        records: Vec<LogRecord>,
        /// Declarations of the append besides its records.
        terms: AppendTerms,
        /// True if it must be durable when it ends.
        fua: bool,
    },
    /// Have every lane take this step of a command, this one first. Answered when all have, or one has refused.
    EveryLane {
        /// The step's number.
        number: u64,
        /// The step.
        step: Step,
    },
    /// This lane has taken a step that had to wait.
    StepDone {
        /// The step's number.
        number: u64,
        /// The result.
        result: Result<(), Refusal>,
    },
    /// Admit the drive of a command on every lane. Answered as [`Action::EveryLane`] is.
    Admit {
        /// The command.
        id: CommandId,
        /// The step's number.
        number: u64,
        /// The number under which its devices were offered.
        offer: u64,
        /// The member that it is to replace, and that member's slot.
        replaces: Option<(MemberId, usize)>,
        /// Whether it may come back to a slot, or the refusal of that (R11).
        may_return: Result<(), Refusal>,
    },
    /// A command has ended.
    CommandDone(CommandId, Result<(), Refusal>),
    /// A client's request has ended.
    Done(Completion),
}

/// Actions that the driver has not taken yet.
#[derive(Default)]
pub(crate) struct Outbox {
    actions: RefCell<VecDeque<Action>>,
    events: RefCell<Vec<Event>>,
}

impl Outbox {
    #[inline]
    pub fn push(&self, action: Action) {
        self.actions.borrow_mut().push_back(action);
    }

    /// True if there is something to do.
    pub fn has_any(&self) -> bool {
        !self.actions.borrow().is_empty()
    }

    /// The next thing to do.
    #[inline]
    pub fn pop(&self) -> Option<Action> {
        self.actions.borrow_mut().pop_front()
    }

    /// Adds to the event log.
    pub fn event(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    /// Takes the events since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.take()
    }
}
