//! The engine's interface. Its driver tells it what happened and asks it what to do next.
//!
//! An [`Engine`] decides everything about one array, or about one lane's partition of it, and does no I/O. Its methods are of
//! four kinds:
//! - getters: [`Engine::limits`], [`Engine::status`], [`Engine::next_wake`], [`Engine::drops_are_committed`] and those that
//!   begin with `is_`;
//! - events: [`Engine::set_now`], [`Engine::submit`], [`Engine::complete`], and the answers to actions
//!   ([`Engine::metadata_updated`] and others);
//! - commands: [`Engine::command`], answered by an action, and settings that take effect at once ([`Engine::pause`] and others);
//! - what to do: after any of these, call [`Engine::run`], and then [`Engine::next_action`] until it gives nothing.
//!
//! [`Engine::on_lane`] starts these tasks. Two end with the start; all others run as long as the engine:
//!
//! | task | in | waits for | woken by |
//! | --- | --- | --- | --- |
//! | `record_states` | `metadata_io.rs` | a superblock update that was requested | `request_commit`, `raise_ack_barrier` |
//! | `record_intents` | `metadata_io.rs` | bits to set, or idle ones to clear | `write_begin`, `clear_intents` |
//! | `record_bad_blocks` | `metadata_io.rs` | a member whose bad blocks have changed | `mark_bad`, `mark_good` |
//! | `record_bad_blocks_again` | `metadata_io.rs` | lists that could not be written | `record_bad_blocks`, the time |
//! | `prepare_start` | `metadata_io.rs` | that the array may be written to; then superblocks and log. Ends | `set_read_only`, the updates |
//! | `replay` | `replay.rs` | the same; then members that take the overlay. Ends | `set_read_only`, members |
//! | `mark_clean_when_idle` | here | a second without a write | a superblock update that says dirty, the time |
//! | `clear_intents` | here | bits that may be idle | a bitmap update, the time |
//! | `refill_forever` | `refill.rs` | bad blocks for lack of space | `mark_bad`, the time |
//! | `sweep_forever` | `sweep.rs` | a sweep that is due | `sweep_changed` |
//! | `log_flush_forever` | `log_io.rs` | logs that are full of ended writes | `log_end`, `log_full` |

mod commands;
mod lanes;

use crate::address::Sectors as _;
use crate::command_tasks::PATIENCE;
use crate::core::{Core, Fate, Then, all_data, array_range, has_unsynced_slots, is_no_space, lost};
use crate::log::StartStage;
use crate::log_io::log_flush_forever;
use crate::member::Member;
use crate::member_requests::MemberIo;
use crate::of_level::of_level;
use crate::partition::Partition;
use crate::personality::{Personality, Zeroing};
use crate::plan::Presence;
use crate::refill::refill_forever;
use crate::refusal::Refusal;
use crate::status::{ArrayStatus, Event, Health, MemberState, MemberStatus};
use crate::steer::LatencyTarget;
use crate::sweep::Sweeper;
use crate::task::Tasks;
use crate::{
    Action, ArrayConfig, ArraySector, DropCause, Family, Flaw, IoFailures, Level, LogRecord, MemberId, UpdateEnd, WritePolicy,
    hedge, metadata_io, mirror_write, parity_write, resync_on_read, split_read,
};
use std::rc::Rc;
use stria_block::{Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request, bytes};

/// 1 s after the last write the superblocks say "clean". Sooner would cost a superblock update for every pause of a client.
const CLEAN_AFTER: Nanos = 1_000_000_000;

/// 1 s: with the write policy *back*, members are flushed this long after a client asked for it.
const FLUSH_BEHIND_AFTER: Nanos = 1_000_000_000;

/// A RAID engine without I/O, clock or thread.
pub struct Engine {
    pub(crate) core: Rc<Core>,
    tasks: Tasks,
    pub(crate) sweeper: Rc<Sweeper>,
    limits: Limits,
    /// A member has answered since the last [`Engine::run`].
    members_answered: bool,
}

impl Engine {
    /// An engine for `config`. `member_limits` is indexed by [`MemberId`].
    pub fn new(config: &ArrayConfig, member_limits: &[Limits]) -> Self {
        Self::on_lane(config, member_limits, Partition::whole(&config.geometry))
    }

    /// An engine for one lane's partition of the array: clients' requests are within the partition, and sweeps keep to it.
    pub(crate) fn on_lane(config: &ArrayConfig, member_limits: &[Limits], partition: Partition) -> Self {
        let is_own = |record: &&LogRecord| partition.owns(config.geometry.sync_of_stripe(record.stripe));
        let replay: Vec<LogRecord> = config.replay.iter().filter(is_own).cloned().collect();
        let renews_log = !replay.is_empty() || config.session_is_torn;
        let core = Rc::new(Core::new(config, partition, replay.len()));
        core.members.borrow_mut().set_limits(member_limits);
        let sweeper = Rc::new(Sweeper::new());
        core.ready.spawn(metadata_io::record_states(Rc::clone(&core)));
        core.ready.spawn(metadata_io::record_intents(Rc::clone(&core)));
        core.ready.spawn(metadata_io::record_bad_blocks(Rc::clone(&core)));
        core.ready.spawn(metadata_io::record_bad_blocks_again(Rc::clone(&core)));
        if !core.run.is_prepared() {
            core.ready.spawn(metadata_io::prepare_start(Rc::clone(&core), has_unsynced_slots(config), renews_log));
        }
        core.ready.spawn(mark_clean_when_idle(Rc::clone(&core)));
        if config.geometry.level().is_redundant() {
            core.ready.spawn(refill_forever(Rc::clone(&core)));
        }
        core.ready.spawn(clear_intents(Rc::clone(&core)));
        core.ready.spawn(crate::sweep::sweep_forever(Rc::clone(&core), Rc::clone(&sweeper)));
        if config.log.is_some() {
            core.ready.spawn(log_flush_forever(Rc::clone(&core)));
        }
        if !replay.is_empty() {
            let lost_logs = config.lost_logs.clone();
            core.ready.spawn(crate::replay::replay(Rc::clone(&core), replay, lost_logs, has_unsynced_slots(config)));
        }
        let limits = array_limits(config, member_limits);
        core.steering.set_target(Some(LatencyTarget::usual(limits.rotational)));
        let mut engine = Self { core, tasks: Tasks::default(), sweeper, limits, members_answered: false };
        engine.tasks.run(&engine.core.ready);
        engine
    }

    /// True while the array starts: a crash is being repaired, or the superblocks do not name the missing members yet. Requests
    /// wait, and no member may return (R31).
    pub fn is_starting(&self) -> bool {
        !self.core.is_serving()
    }

    /// True while log records of the last run are being replayed (R82).
    pub fn is_replaying(&self) -> bool {
        self.core.is_replaying()
    }

    /// True while a rebuild, resync or scrub runs.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweeper.is_running()
    }

    /// True if the superblocks name every dropped member as failed. Only then may one return (R11).
    pub fn drops_are_committed(&self) -> bool {
        !self.core.metadata.holds_acks()
    }

    /// The properties of the array as a device.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tells the time, which never goes back.
    pub fn set_now(&mut self, now: Nanos) {
        self.core.clock.set(&self.core.ready, now);
    }

    /// The time at which [`Engine::run`] next has something to do without an event.
    pub fn next_wake(&self) -> Option<Nanos> {
        match (self.core.clock.next_timer(), self.core.hedge_wake()) {
            (Some(timer), Some(look)) => Some(timer.min(look)),
            (timer, look) => timer.or(look),
        }
    }

    /// True if [`Engine::run`] or [`Engine::next_action`] has something to do now, though no time has passed and no member has
    /// answered.
    pub(crate) fn has_work(&self) -> bool {
        let Core { ready, outbox, straight_writes, member_requests, requests, .. } = &*self.core;
        let may_begin = requests.has_held() && self.core.is_serving();
        ready.has_any() || outbox.has_any() || straight_writes.has_ready() || member_requests.has_made_up() || may_begin
    }

    /// Advances every task that can advance. Afterwards [`Engine::next_action`] gives what they want done.
    pub fn run(&mut self) {
        if !std::mem::take(&mut self.members_answered) {
            self.sweeper.widen(&self.core);
        }
        hedge::look(&self.core);
        self.advance();
        while self.core.requests.has_held() && self.core.is_serving() {
            for request in self.core.requests.take_held() {
                let core = Rc::clone(&self.core);
                self.submit(request, &mut |member, request| core.outbox.push(Action::Io { member, request }));
            }
            self.advance();
        }
    }

    /// Runs until every task waits for an event.
    fn advance(&mut self) {
        loop {
            self.tasks.run(&self.core.ready);
            if !parity_write::go_on(&self.core) && !self.end_abandoned() {
                return;
            }
        }
    }

    /// Completes the requests that dropped members have not answered. Returns whether there were any.
    fn end_abandoned(&mut self) -> bool {
        let abandoned = self.core.member_requests.take_made_up();
        let has_some = !abandoned.is_empty();
        for completion in abandoned {
            if let Some(done) = self.complete(completion) {
                self.core.done(done);
            }
        }
        has_some
    }

    /// Members dropped since the last call. The engine has ended their requests; the driver must do the same for their metadata
    /// writes (R16).
    pub fn take_dropped(&mut self) -> Vec<MemberId> {
        self.core.member_requests.take_dropped()
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.core.outbox.pop()
    }

    /// A client's request. Requests that one member can do alone go to `send` at once; for everything else see
    /// [`Engine::next_action`].
    pub fn submit(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) {
        if !self.core.is_serving() {
            return self.core.requests.hold(request);
        }
        let mutates = matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. });
        if let Err(error) = request.check(&self.limits) {
            return self.core.done(request.complete(Err(error)));
        }
        if mutates && self.core.run.is_read_only() {
            let error = IoError::new(ErrorKind::Invalid, "the array is read-only: serve it without --read-only to write");
            return self.core.done(request.complete(Err(error)));
        }
        self.core.gate_submit(&request);
        self.core.activity.note_request(self.core.now());
        if self.core.run.write_policy() != WritePolicy::Safe && self.is_answered_at_once(&mut request) {
            let result = self.core.run.take_flush_error();
            return self.core.done(request.complete(result));
        }
        if let Some(member) = self.pass_on(&mut request) {
            return send(member, request);
        }
        match request.operation {
            Operation::Read { .. } => self.read(request),
            Operation::Write { .. } => self.write(request, send),
            Operation::Flush => {
                let parent = self.core.begin(&mut request, 1);
                self.core.ready.spawn(flush(Rc::clone(&self.core), parent));
            }
            // R41: a trim is one of these.
            Operation::WriteZeroes { fua, unmap, fast } => self.clear(request, Zeroing { fua, unmap, fast }),
            Operation::Extents { .. } => self.extents(request),
        }
    }

    /// Applies the write policy to a request. True if it is a flush that its client does not wait for.
    #[inline(never)]
    fn is_answered_at_once(&self, request: &mut Request) -> bool {
        let through = self.core.run.write_policy() == WritePolicy::Through;
        match &mut request.operation {
            Operation::Write { fua, .. } | Operation::WriteZeroes { fua, .. } if through || *fua => {
                *fua = through;
                if !through {
                    self.flush_behind();
                }
                false
            }
            Operation::Flush if !through => {
                self.flush_behind();
                true
            }
            Operation::Write { .. } | Operation::WriteZeroes { .. } | Operation::Flush => false,
            Operation::Read { .. } | Operation::Extents { .. } => false,
        }
    }

    /// Flushes members a second later. One such flush serves all requests that wanted one meanwhile.
    fn flush_behind(&self) {
        if self.core.run.want_flush_behind() {
            let core = Rc::clone(&self.core);
            self.core.ready.spawn(async move {
                core.sleep_until(core.now() + FLUSH_BEHIND_AFTER).await;
                core.run.begin_flush_behind();
                if let Err(error) = flush_all(&core).await {
                    core.run.keep_flush_error(error);
                }
            });
        }
    }

    /// Sets when writes are acknowledged, and what flushes mean. For requests from now on.
    pub fn set_write_policy(&mut self, policy: WritePolicy) {
        self.core.run.set_write_policy(policy);
    }

    /// Turns a read or write that one member can do alone into a request to that member.
    pub(crate) fn pass_on(&self, request: &mut Request) -> Option<MemberId> {
        let (member, member_sector) = of_level!(self.core, P => P::alone(&self.core, request))?;
        self.core.pass_through(request, member, member_sector);
        Some(member)
    }

    #[inline(never)]
    pub(crate) fn read(&mut self, request: Request) {
        let range = array_range(&request);
        match of_level!(self.core, P => P::read(&self.core, range)) {
            Some(runs) => split_read::read(&self.core, request, runs),
            None => resync_on_read::read_after_resync(&self.core, request),
        }
    }

    // Not inlined, so that reads stay small.
    #[inline(never)]
    fn write(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) {
        of_level!(self.core, P => P::write(&self.core, &mut request, send));
    }

    #[inline(never)]
    fn clear(&mut self, request: Request, zeroing: Zeroing) {
        if zeroing.fast && !self.limits.unmap_zeroes {
            let error =
                IoError::new(ErrorKind::Unsupported, "not every member can zero quickly: send the request without the fast flag");
            return self.core.done(request.complete(Err(error)));
        }
        of_level!(self.core, P => P::clear(&self.core, request, zeroing));
    }

    /// Asks the member that holds the first run. A run counts as data, not as a hole, if its member is not readable, or if it may
    /// be inconsistent: a client takes a hole for zeros without a read (R93).
    fn extents(&mut self, mut request: Request) {
        let core = &self.core;
        let start = ArraySector::new(request.start_sector);
        let owned = core.partition.owned_sectors(start, request.sectors);
        let (slot, start_sector, sectors, sync) = of_level!(core, P => P::extents(core, start, owned));
        let rows = start_sector.run(sectors);
        let is_readable = core.members.borrow().presence(slot, &rows) == Presence::Readable
            && !core.log.is_not_in_place(slot, &rows)
            && !core.needs_resync_on_read(&sync);
        let member = core.members.borrow().slots()[slot].member.filter(|_| is_readable);
        let Some(member) = member else {
            request.operation = all_data(sectors);
            return core.done(request.complete(Ok(())));
        };
        let parent = core.begin(&mut request, 1);
        let pieces = std::iter::once((0, sectors)).collect();
        core.send_part(parent, pieces, MemberIo { member, start_sector, sectors, operation: request.operation });
    }

    /// A member request has ended. Returns what its completion has become. [`Fate::Open`]: give it to [`Engine::complete`].
    pub(crate) fn ends_client(&mut self, completion: &mut Completion) -> Fate {
        self.members_answered = true;
        self.core.ends_client(completion)
    }

    /// A member request has ended that does not end a client's request by itself. Returns the client's completion if that request
    /// failed with it.
    pub fn complete(&mut self, completion: Completion) -> Option<Completion> {
        let failed = match self.core.complete(completion) {
            Then::Nothing => return None,
            Then::Done(completion) => return Some(completion),
            Then::Finish(write) => {
                self.core.ready.spawn(mirror_write::end(Rc::clone(&self.core), write));
                return None;
            }
            Then::Correct(failed) => failed,
        };
        for part in failed {
            let core = Rc::clone(&self.core);
            if core.partition.is_foreign(part.array_sector) {
                core.ready.spawn(lanes::correct_direct_read(Rc::clone(&core), part));
                continue;
            }
            let member = part.member.expect("a member failed it");
            let slot = core.members.borrow().get(member).slot.expect("clients read members with a slot");
            of_level!(core, P => P::correct(&core, part, slot));
        }
        None
    }

    /// The metadata update has ended, with failures on these members.
    pub fn metadata_updated(&mut self, end: UpdateEnd, failures: &IoFailures) {
        let dropped = self.drop_unrecorded(failures);
        let is_of_state = self.core.metadata.is_of_state();
        let is_refused = if is_of_state { self.refuses_state(failures) } else { dropped.len() < failures.len() };
        let is_unwritten = is_refused || end == UpdateEnd::Unwritten;
        let end = if is_unwritten { UpdateEnd::Unwritten } else { end };
        if is_unwritten && is_of_state {
            let (member, error) = failures.last().expect("some failed");
            if self.core.metadata.note_refusal(error) {
                self.core.event(Event::SuperblockRefused { member: *member, error: error.clone() });
            }
        }
        let update = self.core.metadata.end(end);
        self.core.wake_updater(&update);
    }

    /// True if a member holds a slot and all that the slot should hold.
    pub(crate) fn is_in_sync(&self, member: MemberId) -> bool {
        self.core.members.borrow().is_member_in_sync(member)
    }

    /// True if a member was dropped in this run.
    pub(crate) fn has_dropped(&self, member: MemberId) -> bool {
        self.core.members.borrow().get(member).state == MemberState::Failed
    }

    /// True if no member in sync took a superblock update. After a crash one that was taken outvotes those of the others.
    pub(crate) fn refuses_state(&self, failures: &IoFailures) -> bool {
        self.core.members.borrow().are_all_in_sync(|member| failures.iter().any(|(failed, _)| *failed == member))
    }

    /// R57: true if one of these members must stay, and so must not miss another superblock update. One whose file system is full
    /// may: the next start asks before it takes that member, as its list of bad blocks had no space either.
    pub(crate) fn must_not_miss_another(&self, failures: &IoFailures) -> bool {
        let failed: Vec<MemberId> = failures.iter().filter(|(_, error)| !is_no_space(error)).map(|(member, _)| *member).collect();
        let members = self.core.members.borrow();
        failed.iter().any(|&member| members.is_member_in_sync(member)) && !members.may_lose_all(&failed)
    }

    /// An append to a member's log has ended.
    pub fn log_appended(&mut self, member: MemberId, result: Result<(), IoError>) {
        let error = result.err().and_then(|error| {
            let is_in_sync = self.core.members.borrow().get(member).state == MemberState::InSync;
            if is_no_space(&error) && is_in_sync {
                return Some(self.core.meet_no_space(member, &error));
            }
            let dropped = self.core.fail_member(member, DropCause::Log(error.clone()));
            (!dropped).then(|| lost("write", &error.context))
        });
        if self.core.log_appended(member, error.as_ref()) {
            let core = Rc::clone(&self.core);
            self.core.ready.spawn(async move { core.log_flush(member).await });
        }
    }

    /// An append to a member's log found no space.
    pub fn log_full(&mut self, member: MemberId, records: Vec<LogRecord>) {
        self.core.log_full(member, records);
    }

    /// Some member is a file with holes, so a write to it may find no space: no write is acknowledged early (R49).
    pub fn expect_no_space(&mut self) {
        self.core.no_space.expect();
    }

    /// Some member is a file, so that a trim makes a hole of it: after the first one no write is acknowledged early (R49).
    pub fn expect_no_space_after_trims(&mut self) {
        self.core.no_space.expect_of_unmapping();
    }

    /// Drops members whose metadata could not be written, if they can be spared. Returns the dropped ones (R15).
    pub(crate) fn drop_unrecorded(&mut self, failures: &IoFailures) -> Vec<MemberId> {
        let drops = |(member, error): &(MemberId, IoError)| {
            self.core.fail_member(*member, DropCause::Metadata(error.clone())).then_some(*member)
        };
        failures.iter().filter_map(drops).collect()
    }

    /// Switches hedged reads on or off. They are on where there is redundancy.
    pub fn set_hedging(&mut self, on: bool) {
        self.core.hedging.set_on(on && self.core.geometry.level().is_redundant());
    }

    /// Members are models that keep no data, so no parity is computed. Not for drives: their parity would be garbage
    /// (`tests/walls` finds such a call in what serves drives).
    #[doc(hidden)]
    pub fn set_members_keep_no_data(&mut self) {
        self.core.stripes.compute_nothing();
    }

    /// Makes the engine break a rule of crash safety, for a simulator.
    #[doc(hidden)]
    pub fn set_flaw(&mut self, flaw: Option<Flaw>) {
        self.core.flaw.set(flaw);
        if flaw == Some(Flaw::SuspectParityTrusted) {
            self.core.consistency.trust_parity();
        }
    }

    /// Takes the events since the last call, for the event log.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.core.outbox.take_events()
    }

    /// A lane counts only the bad blocks in its own partition: it is not told which ones other lanes fill.
    fn member_status(&self, member: &Member) -> MemberStatus {
        let is_needed = member.state == MemberState::InSync && !self.core.members.borrow().may_lose(member.config.id);
        let mut status = member.status(self.core.now(), is_needed);
        if let (Some(slot), true) = (member.slot, self.core.partition.lane_count > 1) {
            let own = |rows| of_level!(self.core, P => P::recoverable(&self.core, slot, rows));
            status.bad_sectors = member.config.bad_blocks.iter().flat_map(own).map(|(rows, _)| rows.sectors()).sum();
        }
        status
    }

    /// The array's state.
    pub fn status(&self) -> ArrayStatus {
        let members = self.core.members.borrow();
        let intent = self.core.consistency.intent.borrow();
        ArrayStatus {
            health: members.health(),
            read_only: self.core.run.is_read_only(),
            unreplayed: self.core.log.overlay.unreplayed(),
            superblock_refused: self.core.metadata.refusal(),
            clean: self.core.metadata.is_clean() && !self.core.log.overlay.is_any(),
            synced: self.core.consistency.resync_from(),
            members: members.iter().map(|member| self.member_status(member)).collect(),
            slots: members.slots().iter().map(|slot| slot.member).collect(),
            sweep: self.sweeper.status(&self.core),
            last_scrub: self.sweeper.last_scrub().map(|(found, _)| found),
            mismatch_repaired: self.sweeper.last_scrub().is_some_and(|(_, repaired)| repaired),
            losses_survived: self.core.members.borrow().losses_survived(),
            intent: intent.as_ref().map(|intent| {
                (intent.marked_count(), self.core.geometry.sync_sectors().div_ceil(intent.chunk_sectors()) as usize)
            }),
            log: self.core.log.status(),
            in_flight: self.core.requests_in_flight(),
        }
    }

    /// True while a write that was acknowledged is not in place: a write-behind, or what replay has still to write.
    pub fn has_writes_not_in_place(&self) -> bool {
        self.core.log.has_writes_not_in_place() || self.is_replaying()
    }

    /// True while a write-behind is held by no other log than this member's. If the member were dropped now, a crash before the
    /// drop is durable could lose that write (R26).
    pub fn is_sole_log_holder(&self, member: MemberId) -> bool {
        self.core.log.behind.is_sole_log_holder(member, &self.core.members.borrow())
    }

    /// Whether members may change. On a read-only array they may not, since every change writes superblocks.
    ///
    /// # Errors
    /// The array is read-only.
    pub fn may_change(&self) -> Result<(), Refusal> {
        self.core.run.may_change()
    }

    /// A member is gone, as its drive reports by itself.
    pub fn lose(&mut self, member: MemberId, error: IoError) {
        self.core.lose_member(member, DropCause::Gone(error));
    }

    /// The handle that the next member gets.
    pub fn next_member(&self) -> MemberId {
        MemberId(self.core.members.borrow().count())
    }

    /// Pauses sweeps at the end of their windows, or resumes them.
    pub fn pause(&mut self, pause: bool) {
        self.sweeper.pause(&self.core, pause);
    }

    /// Bounds the speed of sweeps, in sectors of each member per second. `min` is kept even while clients work; `max` is never
    /// exceeded. `None` leaves a bound as it is.
    pub fn set_speed(&mut self, min: Option<u64>, max: Option<u64>) {
        self.sweeper.set_speed(&self.core, min, max);
    }

    /// Sets the latency that sweeps leave to clients. `None`: sweeps keep to the lower speed bound while clients work.
    pub fn set_latency_target(&mut self, target: Option<LatencyTarget>) {
        self.core.steering.set_target(target);
    }

    /// Refuses writes and sweeps, or allows them from now on.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.core.run.set_read_only(read_only);
        self.core.sweep_changed.wake_all(&self.core.ready);
    }

    /// Begins no more sweeps, as the array is being stopped.
    pub(crate) fn begin_stop(&mut self) {
        self.core.run.set_stopping();
        self.sweeper.pause(&self.core, true);
    }

    /// Stops this lane: the step of this number of [`Command::Stop`](crate::Command).
    pub(crate) fn stop(&mut self, number: u64) {
        self.begin_stop();
        let (core, sweeper) = (Rc::clone(&self.core), Rc::clone(&self.sweeper));
        self.core.ready.spawn(async move {
            let result = stop(&core, &sweeper).await.map_err(Refusal::StopFailed);
            core.outbox.push(Action::StepDone { number, result });
        });
    }

    /// True once a stop has ended on this lane.
    pub fn is_stopped(&self) -> bool {
        self.sweeper.is_stopped()
    }
}

fn array_limits(config: &ArrayConfig, members: &[Limits]) -> Limits {
    let geometry = &config.geometry;
    let all = |test: fn(&Limits) -> bool| members.iter().all(test);
    let largest = |of: fn(&Limits) -> u32| members.iter().map(of).max().unwrap_or(512);
    let width = match geometry.level() {
        Level::Linear | Level::Raid1 => 0,
        Level::Raid0 | Level::Raid10 | Level::Raid4 | Level::Raid5 | Level::Raid6 => {
            geometry.strip_sectors() * geometry.data_count() as u64
        }
    };
    let unmap_zeroes = all(|limits| limits.unmap_zeroes);
    Limits {
        size_sectors: geometry.capacity_sectors(),
        logical_block_bytes: largest(|limits| limits.logical_block_bytes),
        physical_block_bytes: largest(|limits| limits.physical_block_bytes),
        optimal_io_bytes: u32::try_from(bytes(width)).unwrap_or(0),
        // R9: clients ask once, and a member with a cache may join later.
        volatile_cache: geometry.level().is_redundant() || !all(|limits| !limits.volatile_cache),
        // A trim reads as zeros, so every member must be able to zero and unmap.
        discard_granularity_bytes: match (unmap_zeroes, geometry.level().family()) {
            (false, _) => 0,
            // Parts of a stripe are zeroed and unmap nothing.
            (true, Family::Parity) => u32::try_from(bytes(width)).unwrap_or(u32::MAX),
            (true, Family::Striped | Family::Mirror) => largest(|limits| limits.discard_granularity_bytes),
        },
        unmap_zeroes,
        rotational: !all(|limits| !limits.rotational),
    }
}

/// A client's flush: write-behind is in place (R24, R87), members are flushed (R9), and drops are durable (R6).
async fn flush(core: Rc<Core>, parent: usize) {
    let result = flush_all(&core).await.and_then(|()| core.run.take_flush_error());
    core.part_done(parent, None, result);
}

async fn flush_all(core: &Core) -> Result<(), IoError> {
    let reported_count = core.no_space.reported_count();
    if !core.has(Flaw::FlushBesideBehind) {
        core.log.behind.wait_for_present(&core.ready).await;
    }
    // What was written over bad blocks must be readable after a power cut.
    core.metadata.bad_blocks_written(&core.ready).await;
    let listed = core.bad_blocks_are_listed("flush");
    let result = core.flush_volatile().await.and(listed).and(core.no_space.report_lost(reported_count));
    core.wait_for_ack_barrier().await;
    result.and(core.drops_are_recorded("flush"))
}

/// Makes the superblocks clean once writes have paused.
async fn mark_clean_when_idle(core: Rc<Core>) {
    loop {
        core.ready.until(&core.metadata.state_waiters, || !core.metadata.is_clean()).await;
        loop {
            let due = core.activity.last_write().saturating_add(CLEAN_AFTER);
            if core.run.is_stopping() {
                return;
            }
            // R21: "clean" voids the log, whose records may be all that makes up for rows which no list on disk names.
            if !core.activity.writes() && core.now() >= due && core.bad_blocks_are_listed("stop").is_ok() {
                break;
            }
            core.sleep_until(due.max(core.now() + CLEAN_AFTER / 4)).await;
        }
        core.metadata.set_clean();
        core.metadata.request_commit(&core.ready);
    }
}

/// Clears idle write-intent bits from time to time.
async fn clear_intents(core: Rc<Core>) {
    loop {
        core.ready.until(&core.metadata.intent_waiters, || core.consistency.has_bits()).await;
        core.sleep_until(core.now() + crate::intent::CLEAR_AFTER).await;
        core.metadata.intent_changed.wake_all(&core.ready);
    }
}

/// Ends what is under way, flushes, and makes the superblocks clean.
///
/// # Errors
/// The array has stopped, but what clients wrote may not be durable, or the superblocks do not say "clean".
async fn stop(core: &Core, sweeper: &Sweeper) -> Result<(), IoError> {
    let replays =
        || core.log.stage() < StartStage::Replayed && !core.run.is_read_only() || core.log.stage() == StartStage::Opening;
    let has_requests = || core.requests_in_flight() > 0 || core.requests.has_held();
    let is_busy = || has_requests() || core.activity.writes() || sweeper.is_running() || replays();
    let mut result = loop {
        // Requests that came before what the start relies on was durable (R31).
        core.wait_at_most(PATIENCE, |core| !core.requests.has_held()).await;
        for request in core.requests.take_held() {
            core.done(request.complete(Err(IoError::new(ErrorKind::Other, "the array was stopped before it could serve"))));
        }
        while is_busy() {
            core.sleep_until(core.now() + 1_000_000).await;
        }
        let last_write = core.activity.last_write();
        core.metadata.bad_blocks_written(&core.ready).await;
        let flushed = core.flush_volatile().await.and(core.bad_blocks_are_listed("flush"));
        // R4: "clean" speaks of writes that ended before the flush. A request that came during it is waited for as well.
        if !is_busy() && core.activity.last_write() == last_write {
            break flushed;
        }
    };
    if result.is_ok() && core.health() != Health::Failed && !core.run.is_read_only() && core.geometry.level().is_redundant() {
        core.metadata.intent_changed.wake_all(&core.ready);
        core.metadata.set_clean();
        result = core.try_record("stop", core.metadata.request_commit(&core.ready)).await;
        while core.metadata.is_intent_busy() {
            core.sleep_until(core.now() + 1_000_000).await;
        }
    }
    sweeper.set_stopped();
    // An error that was kept for the next flush is reported now at the latest.
    result.and(core.run.take_flush_error()).and(core.no_space.report_lost(core.no_space.reported_count()))
}
