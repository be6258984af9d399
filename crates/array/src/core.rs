//! The state that the engine's tasks share: members, locks, metadata updates, requests, and the way to members and back.
//!
//! [`member_io`] sends member requests and hands back their completions. [`metadata`] makes metadata durable before the data that
//! relies on it. [`failures`] drops members whose requests fail. [`client`] tracks clients' requests while parts of them run.
//! [`peers`] speaks to other lanes. [`gates`] asserts what must hold.

mod client;
mod failures;
mod gates;
mod member_io;
mod metadata;
mod peers;

pub(crate) use client::{FailedPart, all_data, array_range, lost};
pub(crate) use failures::{
    BadCause, drop_failed, drop_failed_flushes, drop_failed_writes, is_no_space, lacks_space, mark_half_written, rewrite,
    write_for_sweep,
};
pub(crate) use gates::gate_plan;
pub(crate) use member_io::{Fate, Then};

use crate::action::Outbox;
use crate::activity::{Activity, RunState};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::coalesce::Coalescer;
use crate::command::Commands;
use crate::consistency::Consistency;
use crate::lock::{Guard, Locks, Mode};
use crate::log::{Log, StartStage, Waiter};
use crate::member::Members;
use crate::member_requests::MemberRequests;
use crate::metadata::MetadataUpdates;
use crate::mirror_writes::MirrorWrites;
use crate::partition::Partition;
use crate::peers::Peers;
use crate::races::Hedging;
use crate::requests::Requests;
use crate::space::NoSpace;
use crate::steer::Steering;
use crate::straight_writes::StraightWrites;
use crate::stripes::Stripes;
use crate::task::{Ready, Waiters};
use crate::{ArrayConfig, Event, Flaw, Geometry, Health, SlotConfig, StripeMap, SyncSector};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use stria_block::Nanos;

pub(crate) struct Core {
    pub geometry: Geometry,
    pub stripes: Stripes,
    pub ready: Ready,
    pub clock: Clock,
    pub locks: Locks,
    pub members: RefCell<Members>,
    pub outbox: Outbox,
    pub buffers: Buffers,
    pub member_requests: MemberRequests,
    pub requests: Requests,
    pub mirror_writes: MirrorWrites,
    pub straight_writes: StraightWrites,
    pub consistency: Consistency,
    pub metadata: MetadataUpdates,
    pub log: Log,
    pub coalescer: Coalescer,
    pub hedging: Hedging,
    /// This engine's partition of the array.
    pub partition: Partition,
    pub peers: Peers,
    pub commands: Commands,
    pub activity: Activity,
    pub run: RunState,
    pub no_space: NoSpace,
    /// The latency that sweeps leave to clients.
    pub steering: Steering,
    /// The sweeper should look for work.
    pub sweep_changed: Waiters,
    /// A deliberate bug.
    pub flaw: Cell<Option<Flaw>>,
}

/// True if some slot is not in sync: it is empty, its member is rebuilding, or it has a replacement.
pub(crate) fn has_unsynced_slots(config: &ArrayConfig) -> bool {
    config.geometry.level().is_redundant() && !config.slots.iter().all(SlotConfig::is_in_sync)
}

impl Core {
    /// `replayed_count`: how many log records the last run left in this partition.
    pub fn new(config: &ArrayConfig, partition: Partition, replayed_count: usize) -> Self {
        let geometry = config.geometry.clone();
        Self {
            stripes: Stripes::new(&geometry),
            ready: Ready::default(),
            clock: Clock::default(),
            locks: Locks::default(),
            members: RefCell::new(Members::new(config)),
            outbox: Outbox::default(),
            buffers: Buffers::new(geometry.strip_sectors()),
            member_requests: MemberRequests::default(),
            requests: Requests::default(),
            mirror_writes: MirrorWrites::default(),
            straight_writes: StraightWrites::new(&config.geometry),
            consistency: Consistency::new(config, &geometry),
            metadata: MetadataUpdates::new(),
            log: Log::new(config.log, replayed_count),
            coalescer: Coalescer::default(),
            hedging: Hedging::new(geometry.level().is_redundant()),
            partition,
            peers: Peers::new(config, partition),
            commands: Commands::default(),
            activity: Activity::default(),
            run: RunState::new(config.read_only, replayed_count == 0 && !config.session_is_torn && !has_unsynced_slots(config)),
            no_space: NoSpace::default(),
            steering: Steering::default(),
            sweep_changed: Waiters::default(),
            flaw: Cell::new(None),
            geometry,
        }
    }

    /// True if the engine breaks this rule on purpose.
    pub fn has(&self, flaw: Flaw) -> bool {
        self.flaw.get() == Some(flaw)
    }

    /// True if clients' requests may begin.
    pub fn is_serving(&self) -> bool {
        self.run.is_prepared() || self.run.is_read_only() && self.log.stage() > StartStage::Replaying
    }

    pub fn map(&self, stripe: u64) -> &StripeMap {
        self.stripes.map(stripe)
    }

    /// The waker of writes whose log records have made progress.
    pub fn waker(&self) -> impl FnMut(Waiter) + '_ {
        |waiter| match waiter {
            Waiter::Task(task) => self.ready.wake(task),
            Waiter::Straight(write) => self.straight_writes.can_go_on(write),
        }
    }

    pub fn event(&self, event: Event) {
        self.outbox.event(event);
    }

    /// True if a client's read of a range must wait for a resync of it.
    #[inline]
    pub fn needs_resync_on_read(&self, range: &Range<SyncSector>) -> bool {
        !self.consistency.covers(range)
            && !self.run.is_read_only()
            && self.health() != Health::Failed
            && !self.has(Flaw::ReadsUnaligned)
    }

    pub async fn lock(&self, range: Range<SyncSector>, mode: Mode) -> Guard<'_> {
        self.locks.lock(&self.ready, range, mode).await
    }

    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    pub async fn sleep_until(&self, due: Nanos) {
        self.clock.sleep_until(&self.ready, due).await;
    }
}
