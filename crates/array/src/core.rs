//! What the engine's tasks share: members, locks, records, requests, and the way to members and back.
//!
//! [`member_io`] sends to members and hands back, [`recording`] keeps the metadata ahead of the data, [`client`] holds
//! clients' requests together while parts of them run.

mod client;
mod member_io;
mod recording;
mod segments;

pub(crate) use client::{FailedPart, Parent, lost};
pub(crate) use member_io::{Batch, Ended, Fate, MemberIo, Outcomes, Pieces, Then, Waiting, write_io};
pub(crate) use segments::{Cutter, DataCutter, of_sectors, one_piece, sectors_of, shared, slice_segments};

use crate::align::Alignments;
use crate::at_once::AtOnce;
use crate::gather::Gathers;
use crate::geometry::Divisor;
use crate::hedge::Hedging;
use crate::intent::Intent;
use crate::lanes::{Asked, Following, Share};
use crate::lock::{Guard, Locks, Mode};
use crate::log::{AppendTerms, Log, LogRecord, Stage};
use crate::member::Members;
use crate::mirror_io::MirrorWrite;
use crate::no_room::NoRoom;
use crate::strip_write::StripWrites;
use crate::sweep::Steering;
use crate::task::{Crew, Ready, Waiters};
use crate::{ArrayConfig, ArrayState, Event, Flaw, Geometry, MemberId, SlotConfig, StripeMap};
use member_io::{BatchState, InFlight};
use recording::Recording;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;
use stria_block::{Completion, Data, Nanos, Pool, Request, bytes};
use stria_parity::Code;

/// What the engine asks of whoever drives it.
#[derive(Debug)]
pub enum Action {
    /// Submit to a member; positions are in its data area. Answer with [`Engine::complete`](crate::Engine::complete).
    Io {
        /// To whom.
        member: MemberId,
        /// What.
        request: Request,
    },
    /// Make this durable on the members. Answer with [`Engine::state_recorded`](crate::Engine::state_recorded);
    /// the next one comes after the answer.
    RecordState(ArrayState),
    /// Make these write-intent bits durable. Answer with [`Engine::intent_recorded`](crate::Engine::intent_recorded);
    /// the next one comes after the answer.
    RecordIntent {
        /// Chunks to set.
        set: Vec<u64>,
        /// Chunks to clear.
        clear: Vec<u64>,
    },
    /// Make these the bad blocks of a member, durably. Answer with
    /// [`Engine::bad_blocks_recorded`](crate::Engine::bad_blocks_recorded); the next one comes after the answer.
    RecordBadBlocks {
        /// Whose.
        member: MemberId,
        /// In sectors of its data area.
        blocks: Vec<Range<u64>>,
    },
    /// Begin the members' logs anew, durably: what they hold counts no more. Answer with
    /// [`Engine::log_reset`](crate::Engine::log_reset).
    ResetLog,
    /// One of several lanes: tell the others that a spare was given a role. No answer.
    SpareTaken {
        /// Who.
        member: MemberId,
        /// Which.
        slot: usize,
    },
    /// One of several lanes: it needs the last run's records no more. The answer comes when none does.
    Replayed,
    /// One of several lanes: it could not carry out the last run's records, so that nobody may write. No answer.
    GiveUp,
    /// One of several lanes: its share of a member is filled. The answer comes when every lane's is.
    Filled(MemberId),
    /// One of several lanes: have the owner of this place read it. Answered by the tag.
    AskOwner {
        /// The read.
        request: Request,
        /// Who is slow, so that the others are to be asked.
        slow: Option<MemberId>,
    },
    /// Append these records to the log of a member, or none, only to say what is retired. Answer with
    /// [`Engine::log_appended`](crate::Engine::log_appended), or, when there is no room, with
    /// [`Engine::log_full`](crate::Engine::log_full). The next one for this member comes after the answer.
    AppendLog {
        /// Whose log.
        member: MemberId,
        /// In the order of their numbers, or nearly so.
        records: Vec<LogRecord>,
        /// What it says beside them.
        terms: AppendTerms,
        /// Whether it must be durable when it ends.
        fua: bool,
    },
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
    in_flight: RefCell<Slab<InFlight>>,
    /// Ends of requests that dropped members have not answered, to be taken like theirs.
    pub abandoned: RefCell<VecDeque<Completion>>,
    /// Members dropped since the binder last asked.
    pub dropped: RefCell<Vec<MemberId>>,
    batches: RefCell<Slab<BatchState>>,
    spare_batches: RefCell<Vec<Vec<Ended>>>,
    parents: RefCell<Slab<Parent>>,
    pub at_once: RefCell<Slab<AtOnce>>,
    pub strip_writes: StripWrites,
    /// Requests that went to one member as they were.
    whole_requests: Cell<usize>,
    pub intent: RefCell<Option<Intent>>,
    pub resync_sector: Cell<u64>,
    /// [`ArrayConfig::doubts_parity`]: from here on.
    pub doubt_sector: Cell<u64>,
    pub record: Recording,
    pub log: Log,
    pub gathers: Gathers,
    pub hedging: Hedging,
    /// What of the array is this engine's.
    pub share: Share,
    pub following: Following,
    pub asked: Asked,
    pub mirror_crew: Crew<MirrorWrite>,
    pub alignments: Alignments,
    /// Requests that wait until the array serves, or were held back for something that is over.
    pub held: RefCell<Vec<Request>>,
    timers: RefCell<BTreeSet<(Nanos, usize)>>,
    pub pool: RefCell<Pool>,
    pub events: RefCell<Vec<Event>>,
    pub writes_in_flight: Cell<usize>,
    pub last_client: Cell<Nanos>,
    pub last_write: Cell<Nanos>,
    pub read_only: Cell<bool>,
    pub stopping: Cell<bool>,
    /// What another crash must not undo once clients have read: see [`Core::prepare`].
    pub prepared: Cell<bool>,
    pub no_room: NoRoom,
    /// What sweeps leave to clients.
    pub steering: Steering,
    /// Something changed that the sweeper should look at.
    pub sweep_changed: Waiters,
    /// A deliberate bug.
    pub flaw: Cell<Option<Flaw>>,
    /// As much zeros as one strip or a MiB.
    zeros: Data,
}

/// Whether a role has nobody, or somebody in the making.
pub(crate) fn lacks_members(config: &ArrayConfig) -> bool {
    config.geometry.level().is_redundant() && !config.slots.iter().all(SlotConfig::is_whole)
}

impl Core {
    /// `replayed_count`: how many records the last run left of this share.
    pub fn new(config: &ArrayConfig, share: Share, replayed_count: usize) -> Self {
        let geometry = config.geometry.clone();
        let parity_count = geometry.level().parity_count();
        let period = geometry.stripe_map_period();
        let maps: Vec<StripeMap> = (0..period).map(|stripe| geometry.stripe_map(stripe)).collect();
        let code = maps.first().map(|map| Code::new(map.code_count, parity_count));
        let crashed = config.resync_sector != u64::MAX || config.doubts_parity;
        let intent = config.intent.as_ref().map(|intent| Intent::new(intent, geometry.sync_sectors(), crashed));
        let zeros = Data::zeros(bytes(geometry.strip_sectors()).max(1 << 20));
        let record = Recording::default();
        record.clean.set(true);
        Self {
            maps,
            map_period: Divisor::new(period.max(1)),
            code,
            ready: Ready::default(),
            locks: Locks::default(),
            now: Cell::new(0),
            members: RefCell::new(Members::new(config)),
            outbox: RefCell::default(),
            in_flight: RefCell::default(),
            abandoned: RefCell::default(),
            dropped: RefCell::default(),
            batches: RefCell::default(),
            spare_batches: RefCell::default(),
            parents: RefCell::default(),
            at_once: RefCell::default(),
            strip_writes: StripWrites::default(),
            whole_requests: Cell::new(0),
            intent: RefCell::new(intent),
            resync_sector: Cell::new(if geometry.level().is_redundant() { config.resync_sector } else { u64::MAX }),
            doubt_sector: Cell::new(if config.doubts_parity { 0 } else { u64::MAX }),
            record,
            log: Log::new(config.log, replayed_count),
            gathers: Gathers::default(),
            hedging: Hedging::new(geometry.level().is_redundant()),
            share,
            following: Following::new(config, share),
            asked: Asked::default(),
            mirror_crew: Crew::default(),
            alignments: Alignments::default(),
            held: RefCell::default(),
            timers: RefCell::default(),
            pool: RefCell::default(),
            events: RefCell::default(),
            writes_in_flight: Cell::new(0),
            last_client: Cell::new(0),
            last_write: Cell::new(0),
            read_only: Cell::new(config.read_only),
            stopping: Cell::new(false),
            prepared: Cell::new(replayed_count == 0 && !lacks_members(config)),
            no_room: NoRoom::default(),
            steering: Steering::default(),
            sweep_changed: Waiters::default(),
            flaw: Cell::new(None),
            zeros,
            geometry,
        }
    }

    /// Whether clients' requests may begin.
    pub fn serves(&self) -> bool {
        self.prepared.get() || self.read_only.get() && self.log.stage.get() > Stage::Replaying
    }

    /// Makes durable what the assembler found, before clients read by it. Who `lacks` is said on the members: one that comes back
    /// after another crash could else not be told from one that was there all the time, though what its cache held is gone. And
    /// the records of the last run are made void: replayed with a member less, they may give the new bytes of a write of which
    /// clients have read the old.
    pub async fn prepare(&self, lacks: bool, replays: bool) {
        self.ready.until(&self.sweep_changed, || !self.read_only.get()).await;
        if lacks {
            self.raise_barrier();
            self.record_barrier().await;
        }
        if replays {
            // Who cannot flush fails writes; there is no better time for reads.
            let _ = self.log_open().await;
        }
        self.prepared.set(true);
    }

    pub fn map(&self, stripe: u64) -> &StripeMap {
        &self.maps[self.map_period.divide(stripe).1 as usize]
    }

    /// Zeros to write, at most as many as fit; at least one strip.
    pub fn zeros(&self, sectors: u64) -> Data {
        self.zeros.slice(0, bytes(sectors).min(self.zeros.len()))
    }

    /// Zeros to compute with; at least one strip.
    pub fn zero_bytes(&self, len: usize) -> &[u8] {
        &self.zeros[..len]
    }

    pub fn event(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    /// Where a resync is due from; `u64::MAX`: none is.
    pub fn resync_from(&self) -> u64 {
        self.resync_sector.get().min(self.doubt_sector.get())
    }

    /// Redundancy agrees below a position.
    pub fn resynced(&self, below: u64) {
        for place in [&self.resync_sector, &self.doubt_sector] {
            place.set(if place.get() == u64::MAX { u64::MAX } else { below });
        }
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            match below {
                u64::MAX => intent.all_resynced(),
                _ => intent.resynced(&(0..below)),
            }
        }
        if below == u64::MAX {
            self.alignments.forget();
        }
    }

    /// Whether redundancy of a part of the sync space is known to agree: not where a resync is still due, and nobody has read.
    #[inline]
    pub fn agrees(&self, range: &Range<u64>) -> bool {
        range.end <= self.resync_from() || self.agrees_here(range)
    }

    // Kept out of the way of requests to an array that agrees.
    #[inline(never)]
    fn agrees_here(&self, range: &Range<u64>) -> bool {
        let unmarked = self.intent.borrow().as_ref().is_some_and(|intent| !intent.needs_resync(range));
        unmarked || self.alignments.cover(range)
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

    /// Has the task that runs now woken at `due`, which is given back.
    pub fn wake_at(&self, due: Nanos) -> Nanos {
        self.timers.borrow_mut().insert((due, self.ready.current()));
        due
    }
}
