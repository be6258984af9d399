//! One array on several lanes.
//!
//! A lane is a thread with an [`Engine`](crate::Engine) of its own, and engines share nothing: each owns the stripes of its
//! [`Share`], with their locks, bits, records of the log and sweeps. What cannot be divided goes by message:
//! - a client's request, to the lanes that own its sectors ([`relay`]);
//! - what superblocks and bitmap must say, to the home lane, which makes one record of it ([`registrar`]);
//! - who holds which role, from the home lane to all ([`follow`]).
//!
//! Reads need none while their owner's share is [plain](guest).
//!
//! So one lane is the whole array as ever, and the simulator runs several in one thread, by the same messages.

mod events;
mod follow;
mod guest;
mod registrar;
mod relay;
mod share;

pub use events::LaneEvents;
pub(crate) use follow::Following;
pub(crate) use guest::{Asked, mend_part};
pub(crate) use registrar::{Ask, Order, Registrar};
pub(crate) use relay::{Relay, Way};
pub(crate) use share::Share;

use crate::{Geometry, IoFailures, MemberId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use stria_block::{Completion, Mailbox, Request};

/// What lanes say to each other. `P`: where the members' logs lie.
pub(crate) enum Message<P> {
    /// To be done for a lane.
    Request { lane: usize, request: Request },
    /// A read to be done for a lane without a member that is slow to it.
    ReadAround { lane: usize, request: Request, member: MemberId },
    /// It was done.
    Ended(Completion),
    /// A lane wants something durable.
    Ask { lane: usize, ask: Ask },
    /// It is.
    Answer(Answer),
    /// Because of what others asked for.
    Order(Order),
    /// The logs lie so from now on.
    Places(P),
    /// A spare was given a role.
    SpareTaken { member: MemberId, slot: usize },
    /// A lane needs the last run's records no more.
    Replayed { lane: usize },
    /// None does.
    AllReplayed,
    /// The members say that redundancy agrees everywhere.
    AllResynced,
    /// A lane could not carry them out: nobody may write.
    GiveUp,
    /// A lane has filled its share of a member.
    Filled { lane: usize, member: MemberId },
    /// All have.
    AllFilled(MemberId),
}

/// What a record has come to.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    State(IoFailures),
    Intent(IoFailures),
    BadBlocks(IoFailures, bool),
    LogReset(IoFailures),
}

impl Answer {
    pub fn failures(&self) -> &IoFailures {
        match self {
            Answer::State(failures) | Answer::Intent(failures) | Answer::BadBlocks(failures, _) | Answer::LogReset(failures) => {
                failures
            }
        }
    }
}

struct Port<P> {
    mail: Mailbox<Message<P>>,
    nudge: OnceLock<Box<dyn Fn() + Send + Sync>>,
    plain: Plain,
}

/// Whether others may read of a lane's share without asking. On a cache line of its own: it is read for every such read, and
/// seldom written.
#[repr(align(128))]
struct Plain(AtomicBool);

/// The ways between the lanes of one array. Clones are the same.
pub struct Ports<P> {
    ports: Arc<Vec<Port<P>>>,
    group_sectors: u64,
}

impl<P> Clone for Ports<P> {
    fn clone(&self) -> Self {
        Self { ports: Arc::clone(&self.ports), group_sectors: self.group_sectors }
    }
}

impl<P> Ports<P> {
    /// For so many lanes, 64 at most.
    ///
    /// # Panics
    /// For none, or more than 64.
    pub fn new(lane_count: usize) -> Self {
        assert!((1..=64).contains(&lane_count), "an array has 1 to 64 lanes");
        // Who receives looks at every turn; that a turn comes is for `nudge` to see to.
        let port = |_| Port { mail: Mailbox::new(|| {}), nudge: OnceLock::new(), plain: Plain(AtomicBool::new(false)) };
        Self { ports: Arc::new((0..lane_count).map(port).collect()), group_sectors: share::GROUP_SECTORS }
    }

    /// For simulations of small arrays: the sync space is dealt out in smaller groups, or strips where these are larger; powers of two.
    #[must_use]
    pub fn with_groups(self, group_sectors: u64) -> Self {
        Self { group_sectors, ..self }
    }

    pub(crate) fn share(&self, geometry: &Geometry, lane: usize) -> Share {
        Share::new(geometry, lane, self.lane_count(), self.group_sectors)
    }

    /// How many lanes there are.
    pub fn lane_count(&self) -> usize {
        self.ports.len()
    }

    /// What has a lane look at its mail soon; said once.
    pub fn on_mail(&self, lane: usize, nudge: impl Fn() + Send + Sync + 'static) {
        // Who said it first is the lane itself.
        let _ = self.ports[lane].nudge.set(Box::new(nudge));
    }

    fn post(&self, lane: usize, messages: &mut Vec<Message<P>>) {
        let port = &self.ports[lane];
        port.mail.push_all(messages.drain(..));
        if let Some(nudge) = port.nudge.get() {
            nudge();
        }
    }

    fn take(&self, lane: usize, into: &mut Vec<Message<P>>) {
        self.ports[lane].mail.take(into);
    }

    /// Says whether others may read of a lane's share: before its clients, and other lanes, hear of what makes it untrue.
    fn say_plain(&self, lane: usize, plain: bool) {
        let word = &self.ports[lane].plain.0;
        if word.load(Ordering::Relaxed) != plain {
            word.store(plain, Ordering::Release);
        }
    }

    fn is_plain(&self, lane: usize) -> bool {
        self.ports[lane].plain.0.load(Ordering::Acquire)
    }

    fn has_mail(&self, lane: usize) -> bool {
        self.ports[lane].mail.is_filled()
    }
}
