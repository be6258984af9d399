//! What the engine's tasks share: members, locks, metadata updates, requests, and the way to members and back.
//!
//! [`member_io`] sends member requests and hands back their completions. [`metadata`] keeps metadata ahead of the data it
//! speaks of. [`failures`] is what a failed member request costs. [`client`] tracks clients' requests while parts of them run.

mod client;
mod failures;
mod member_io;
mod metadata;
mod peers;

pub(crate) use client::{FailedPart, lost};
pub(crate) use failures::{drop_failed, drop_failed_flushes, drop_failed_writes, is_no_space, mark_half_written, rewrite};
pub(crate) use member_io::{Fate, Then};

use crate::command::{CommandId, Commands, Step};
use crate::consistent_ranges::ConsistentRanges;
use crate::gather::Coalescer;
use crate::geometry::Divisor;
use crate::intent::Intent;
use crate::lock::{Guard, Locks, Mode};
use crate::log::{Log, Stage, Waiter};
use crate::log_record::{AppendTerms, LogRecord};
use crate::member::Members;
use crate::member_requests::MemberRequests;
use crate::metadata::MetadataUpdates;
use crate::mirror_ledger::MirrorWrites;
use crate::parity_ledger::StraightWrites;
use crate::partition::Partition;
use crate::peers::Peers;
use crate::races::Hedging;
use crate::requests::Requests;
use crate::space::NoSpace;
use crate::steer::Steering;
use crate::task::{Ready, Waiters};
use crate::{ArrayConfig, Event, Flaw, Geometry, MemberConfig, MemberId, MetadataUpdate, Refusal, SlotConfig, StripeMap};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;
use stria_block::{Completion, Data, Nanos, Pool, Request, bytes};
use stria_parity::Code;

/// What the engine asks of its driver.
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
    /// Several lanes: this lane no longer needs the log records of the last run. The answer comes when no lane needs them.
    Replayed,
    /// Several lanes: this lane could not replay the log records of the last run, so no lane may write. No answer.
    GiveUp,
    /// Several lanes: this lane's partition of a member is rebuilt. The answer comes when every lane's is.
    Filled(MemberId),
    /// Several lanes: ask the owner of these sectors to read them. The answer is found by the tag.
    AskOwner {
        /// The read.
        request: Request,
        /// The member that is slow, so that the owner asks others.
        slow: Option<MemberId>,
    },
    /// Append these records to the log of a member; an append without records only declares what is retired. Answer with
    /// [`Engine::log_appended`](crate::Engine::log_appended), or, if there is no space, with
    /// [`Engine::log_full`](crate::Engine::log_full). The next one for this member comes after the answer.
    AppendLog {
        /// The member.
        member: MemberId,
        /// In the order of their numbers, or nearly so.
        records: Vec<LogRecord>,
        /// What the append declares besides its records.
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
    },
    /// A command has ended.
    CommandDone(CommandId, Result<(), Refusal>),
    /// A client's request has ended.
    Done(Completion),
}

pub(crate) struct Core {
    pub geometry: Geometry,
    maps: Vec<StripeMap>,
    map_period: Divisor,
    pub code: Option<Code>,
    pub ready: Ready,
    pub locks: Locks,
    now: Cell<Nanos>,
    pub members: RefCell<Members>,
    pub outbox: RefCell<VecDeque<Action>>,
    pub member_requests: MemberRequests,
    pub requests: Requests,
    pub mirror_writes: MirrorWrites,
    pub straight_writes: StraightWrites,
    pub intent: RefCell<Option<Intent>>,
    pub resync_sector: Cell<u64>,
    /// Parity is suspect from here on, see [`ArrayConfig::suspects_parity`]; `u64::MAX`: nowhere.
    pub suspect_parity_from: Cell<u64>,
    pub metadata: MetadataUpdates,
    pub log: Log,
    pub gathers: Coalescer,
    pub hedging: Hedging,
    /// This engine's partition of the array.
    pub partition: Partition,
    pub peers: Peers,
    pub commands: Commands,
    pub consistent_ranges: ConsistentRanges,
    timers: RefCell<BTreeSet<(Nanos, usize)>>,
    pub pool: RefCell<Pool>,
    pub events: RefCell<Vec<Event>>,
    pub writes_in_flight: Cell<usize>,
    pub last_client: Cell<Nanos>,
    pub last_write: Cell<Nanos>,
    pub read_only: Cell<bool>,
    pub stopping: Cell<bool>,
    /// [`Core::prepare`] has ended: another crash can no longer undo what clients read.
    pub prepared: Cell<bool>,
    pub no_space: NoSpace,
    /// The latency that sweeps leave to clients.
    pub steering: Steering,
    /// The sweeper should look for work.
    pub sweep_changed: Waiters,
    /// A deliberate bug.
    pub flaw: Cell<Option<Flaw>>,
    /// Zeros: one strip, or a MiB if that is more.
    zeros: Data,
}

/// True if some slot is empty, rebuilding, or has a replacement.
pub(crate) fn lacks_members(config: &ArrayConfig) -> bool {
    config.geometry.level().is_redundant() && !config.slots.iter().all(SlotConfig::is_whole)
}

impl Core {
    /// `replayed_count`: how many log records the last run left in this partition.
    pub fn new(config: &ArrayConfig, partition: Partition, replayed_count: usize) -> Self {
        let geometry = config.geometry.clone();
        let parity_count = geometry.level().parity_count();
        let period = geometry.stripe_map_period();
        let maps: Vec<StripeMap> = (0..period).map(|stripe| geometry.stripe_map(stripe)).collect();
        let code = maps.first().map(|map| Code::new(map.code_count, parity_count));
        let crashed = config.resync_sector != u64::MAX || config.suspects_parity;
        let intent = config.intent.as_ref().map(|intent| Intent::new(intent, geometry.sync_sectors(), crashed));
        let zeros = Data::zeros(bytes(geometry.strip_sectors()).max(1 << 20));
        Self {
            maps,
            map_period: Divisor::new(period.max(1)),
            code,
            ready: Ready::default(),
            locks: Locks::default(),
            now: Cell::new(0),
            members: RefCell::new(Members::new(config)),
            outbox: RefCell::default(),
            member_requests: MemberRequests::default(),
            requests: Requests::default(),
            mirror_writes: MirrorWrites::default(),
            straight_writes: StraightWrites::new(&config.geometry),
            intent: RefCell::new(intent),
            resync_sector: Cell::new(if geometry.level().is_redundant() { config.resync_sector } else { u64::MAX }),
            suspect_parity_from: Cell::new(if config.suspects_parity { 0 } else { u64::MAX }),
            metadata: MetadataUpdates::new(),
            log: Log::new(config.log, replayed_count),
            gathers: Coalescer::default(),
            hedging: Hedging::new(geometry.level().is_redundant()),
            partition,
            peers: Peers::new(config, partition),
            commands: Commands::default(),
            consistent_ranges: ConsistentRanges::default(),
            timers: RefCell::default(),
            pool: RefCell::default(),
            events: RefCell::default(),
            writes_in_flight: Cell::new(0),
            last_client: Cell::new(0),
            last_write: Cell::new(0),
            read_only: Cell::new(config.read_only),
            stopping: Cell::new(false),
            prepared: Cell::new(replayed_count == 0 && !lacks_members(config)),
            no_space: NoSpace::default(),
            steering: Steering::default(),
            sweep_changed: Waiters::default(),
            flaw: Cell::new(None),
            zeros,
            geometry,
        }
    }

    /// What a member that comes back (`slot`) lacks, as an engine with a flaw sees it.
    pub fn as_flawed(&self, config: MemberConfig, slot: Option<usize>) -> MemberConfig {
        match slot.is_some() && self.flaw.get() == Some(Flaw::StaleAccepted) {
            true => MemberConfig { recovered_sector: u64::MAX, by_bitmap: false, ..config },
            false => config,
        }
    }

    /// True if clients' requests may begin.
    pub fn serves(&self) -> bool {
        self.prepared.get() || self.read_only.get() && self.log.stage() > Stage::Replaying
    }

    pub fn map(&self, stripe: u64) -> &StripeMap {
        &self.maps[self.map_period.divide(stripe).1 as usize]
    }

    /// Zeros to write: `sectors` of them, or fewer, but at least one strip if that many are asked for.
    pub fn zeros(&self, sectors: u64) -> Data {
        self.zeros.slice(0, bytes(sectors).min(self.zeros.len()))
    }

    /// `len` zeros to compute with; one strip of them is always there.
    pub fn zero_bytes(&self, len: usize) -> &[u8] {
        &self.zeros[..len]
    }

    /// What lets a write go on whose log records have made progress.
    pub fn waker(&self) -> impl FnMut(Waiter) + '_ {
        |waiter| match waiter {
            Waiter::Task(task) => self.ready.wake(task),
            Waiter::Straight(write) => self.straight_writes.can_go_on(write),
        }
    }

    pub fn event(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    /// The position from which a resync is due; `u64::MAX`: none is.
    pub fn resync_from(&self) -> u64 {
        self.resync_sector.get().min(self.suspect_parity_from.get())
    }

    /// Redundancy is consistent below a position.
    pub fn resynced(&self, below: u64) {
        for place in [&self.resync_sector, &self.suspect_parity_from] {
            place.set(if place.get() == u64::MAX { u64::MAX } else { below });
        }
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.resynced(below);
        }
        if below == u64::MAX {
            self.consistent_ranges.forget();
        }
    }

    /// True if redundancy of a range of the sync space is known to be consistent: no resync is due there, or a read has
    /// resynced it.
    #[inline]
    pub fn is_consistent(&self, range: &Range<u64>) -> bool {
        range.end <= self.resync_from() || self.is_consistent_here(range)
    }

    // Not inlined, so that requests to a consistent array stay small.
    #[inline(never)]
    fn is_consistent_here(&self, range: &Range<u64>) -> bool {
        let unmarked = self.intent.borrow().as_ref().is_some_and(|intent| !intent.needs_resync(range));
        unmarked || self.consistent_ranges.cover(range)
    }

    pub async fn lock(&self, range: Range<u64>, mode: Mode) -> Guard<'_> {
        self.locks.lock(&self.ready, range, mode).await
    }

    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    pub fn set_now(&self, now: Nanos) {
        self.now.set(now);
        let mut timers = self.timers.borrow_mut();
        while let Some(&(due, task)) = timers.first()
            && due <= now
        {
            timers.pop_first();
            self.ready.wake(task);
        }
    }

    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.borrow().first().map(|&(due, _)| due)
    }

    pub async fn sleep_until(&self, due: Nanos) {
        poll_fn(|_| {
            if self.now() >= due {
                return Poll::Ready(());
            }
            self.wake_at(due);
            Poll::Pending
        })
        .await;
    }

    /// Wakes the current task at `due`, which is returned.
    pub fn wake_at(&self, due: Nanos) -> Nanos {
        self.timers.borrow_mut().insert((due, self.ready.current()));
        due
    }
}
