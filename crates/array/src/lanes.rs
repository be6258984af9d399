//! One array on several lanes.
//!
//! A lane is a thread with an [`Engine`](crate::Engine) of its own. Engines share no state: each owns the stripes of its
//! [partition](Partition), with their locks, bits, log records and sweeps. What cannot be divided goes by message:
//! - a client's request, to the lanes that own its sectors ([`relay`]);
//! - what superblocks and bitmap must say, to the coordinator (lane 0), which makes one metadata update of it ([`coordinator`]);
//! - which member fills which slot, from the coordinator to all ([`peers`](crate::peers));
//! - the steps of a command, from the coordinator to all, and that they are taken ([`command`](crate::Command)).
//!
//! Reads need no message while their owner allows direct reads (`engine/lanes.rs`). One lane is the same engine with the whole
//! array as its partition. The simulator runs several lanes in one thread, by the same messages. See docs/LANES.md.

mod coordinator;
mod events;
mod relay;

pub(crate) use coordinator::{Coordinator, Instruction};
pub use events::LaneEvents;
pub(crate) use relay::{Relay, Way};

use crate::member::Slow;
use crate::partition::{GROUP_SECTORS, Partition};
use crate::{Geometry, IoFailures, MemberId, MetadataUpdate, Refusal, Step, UpdateEnd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use stria_block::{Completion, Mailbox, Request};

/// A message between lanes. `P`: where the members' logs lie.
pub(crate) enum Message<P> {
    /// Do this for a lane.
    Request { lane: usize, request: Request },
    /// Do this read for a lane, without asking the member that is slow.
    ReadAround { lane: usize, request: Request, slow: Slow },
    /// A request that was done for you has ended.
    Ended(Completion),
    /// A lane wants a metadata update.
    Update { lane: usize, update: MetadataUpdate },
    /// The metadata update that you wanted has ended, with failures on these members.
    Updated { end: UpdateEnd, failures: IoFailures },
    /// An instruction that follows from what other lanes want.
    Instruction(Instruction),
    /// From now on the logs lie here.
    LogLayout(P),
    /// A spare was given a slot.
    SpareTaken { member: MemberId, slot: usize },
    /// A lane has dropped a member.
    Dropped { lane: usize, member: MemberId },
    /// A lane no longer needs the log records of the last run.
    Replayed { lane: usize },
    /// No lane needs them.
    AllReplayed,
    /// The superblocks say that redundancy is consistent everywhere.
    AllResynced,
    /// A lane could not replay its records: no lane may write.
    GiveUp,
    /// A lane has rebuilt its partition of a member.
    Rebuilt { lane: usize, member: MemberId },
    /// All lanes have.
    AllRebuilt(MemberId),
    /// Take this step of a command.
    Step { number: u64, step: Step },
    /// A lane has taken it, or refuses it.
    StepDone { number: u64, result: Result<(), Refusal> },
}

struct Port<P> {
    mail: Mailbox<Message<P>>,
    nudge: OnceLock<Box<dyn Fn() + Send + Sync>>,
    plain: Plain,
}

/// True if other lanes may read a lane's partition directly. On a cache line of its own: it is read for every direct read, and
/// seldom written.
#[repr(align(128))]
struct Plain(AtomicBool);

/// The mailboxes between the lanes of one array. Clones are the same.
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
    /// The ports of this many lanes, 64 at most.
    ///
    /// # Panics
    /// If there are none, or more than 64.
    pub fn new(lane_count: usize) -> Self {
        assert!((1..=64).contains(&lane_count), "an array has 1 to 64 lanes");
        // The receiver looks on every iteration; `nudge` makes sure that there is one.
        let port = |_| Port { mail: Mailbox::new(|| {}), nudge: OnceLock::new(), plain: Plain(AtomicBool::new(false)) };
        Self { ports: Arc::new((0..lane_count).map(port).collect()), group_sectors: GROUP_SECTORS }
    }

    /// The same with groups of another size, a power of two, or of a strip where that is larger: simulations have small arrays.
    #[must_use]
    pub fn with_groups(self, group_sectors: u64) -> Self {
        Self { group_sectors, ..self }
    }

    pub(crate) fn partition(&self, geometry: &Geometry, lane: usize) -> Partition {
        Partition::new(geometry, lane, self.lane_count(), self.group_sectors)
    }

    /// The number of lanes.
    pub fn lane_count(&self) -> usize {
        self.ports.len()
    }

    /// Sets what makes a lane look at its mail soon. Only the first call counts.
    pub fn on_mail(&self, lane: usize, nudge: impl Fn() + Send + Sync + 'static) {
        // The first caller is the lane itself.
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

    /// Publishes whether others may read a lane's partition directly: before its clients and other lanes get an answer that makes
    /// that untrue (R44).
    fn publish_direct_reads(&self, lane: usize, plain: bool) {
        let word = &self.ports[lane].plain.0;
        if word.load(Ordering::Relaxed) != plain {
            word.store(plain, Ordering::Release);
        }
    }

    fn allows_direct_reads(&self, lane: usize) -> bool {
        self.ports[lane].plain.0.load(Ordering::Acquire)
    }

    fn has_mail(&self, lane: usize) -> bool {
        self.ports[lane].mail.is_filled()
    }
}
