//! The engine's interface. Its driver tells it what happened and asks it what to do next.
//!
//! An [`Engine`] decides everything about one array, or about one lane's partition of it, and does no I/O. Its methods are of
//! four kinds:
//! - getters: [`Engine::limits`], [`Engine::status`] and those that begin with `is_`;
//! - events: [`Engine::set_now`], [`Engine::submit`], [`Engine::complete`], and the answers to actions
//!   ([`Engine::state_committed`] and others);
//! - commands: [`Engine::fail`], [`Engine::add`], [`Engine::scrub`], [`Engine::stop`] and others;
//! - what to do: after any of these, call [`Engine::run`], and then [`Engine::next_action`] until it gives nothing.

use crate::core::{Core, Cutter, FailedPart, Fate, MemberIo, Pieces, Then, is_no_space, lacks_members, lost, slice_segments};
use crate::gather::Part;
use crate::lanes::{self, Partition};
use crate::log::Stage;
use crate::no_space::refill_forever;
use crate::plan::Presence;
use crate::status::{ArrayStatus, Event, Health, MemberState, Refusal};
use crate::sweep::{LatencyTarget, Sweeper};
use crate::task::Tasks;
use crate::{
    Action, ArrayConfig, Flaw, IoFailures, Level, LogRecord, MemberConfig, MemberId, align, hedge, mirror_io, mirror_write,
    parity_io, parity_write,
};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Completion, ErrorKind, Extent, IoError, Limits, Nanos, Operation, Request, Segments, bytes};

/// 1 s after the last write the superblocks say "clean". Sooner would cost a superblock update for every pause of a client.
const CLEAN_AFTER: Nanos = 1_000_000_000;

/// 32 MiB of each member at once: what a large trim or zeroing keeps locked.
const CLEAR_ROWS_SECTORS: u64 = 1 << 16;

/// A RAID engine without I/O, clock or thread.
pub struct Engine {
    pub(crate) core: Rc<Core>,
    tasks: Tasks,
    sweeper: Rc<Sweeper>,
    limits: Limits,
    /// A member has answered since the last [`Engine::run`].
    members_answered: bool,
}

/// The part of a request that lies in one piece on one member.
struct Run {
    slot: usize,
    start_sector: u64,
    sectors: u64,
    pieces: Pieces,
}

impl Engine {
    /// An engine for `config`. `member_limits` is indexed by [`MemberId`].
    pub fn new(config: &ArrayConfig, member_limits: &[Limits]) -> Self {
        Self::on_lane(config, member_limits, Partition::whole(&config.geometry))
    }

    /// An engine for one lane's partition of the array: clients' requests are within the partition, and sweeps keep to it.
    pub(crate) fn on_lane(config: &ArrayConfig, member_limits: &[Limits], partition: Partition) -> Self {
        let strip = config.geometry.strip_sectors();
        let replay: Vec<LogRecord> =
            config.replay.iter().filter(|record| partition.owns(record.stripe * strip)).cloned().collect();
        let replays = !replay.is_empty();
        let core = Rc::new(Core::new(config, partition, replay.len()));
        for (index, limits) in member_limits.iter().enumerate() {
            core.members.borrow_mut().get_mut(MemberId(index)).limits = limits.clone();
        }
        let sweeper = Rc::new(Sweeper::new());
        let states = Rc::clone(&core);
        core.ready.spawn(async move { states.record_states().await });
        let intents = Rc::clone(&core);
        core.ready.spawn(async move { intents.record_intents().await });
        let bad_blocks = Rc::clone(&core);
        core.ready.spawn(async move { bad_blocks.record_bad_blocks().await });
        if !core.prepared.get() {
            let (prepares, lacks) = (Rc::clone(&core), lacks_members(config));
            core.ready.spawn(async move { prepares.prepare(lacks, replays).await });
        }
        core.ready.spawn(settle(Rc::clone(&core)));
        if config.geometry.level().is_redundant() {
            core.ready.spawn(refill_forever(Rc::clone(&core)));
        }
        core.ready.spawn(clear_intents(Rc::clone(&core)));
        core.ready.spawn(crate::sweep::sweep_forever(Rc::clone(&core), Rc::clone(&sweeper)));
        if config.log.is_some() {
            let logs = Rc::clone(&core);
            core.ready.spawn(async move { logs.log_flush_forever().await });
        }
        if replays {
            core.ready.spawn(crate::log::replay(Rc::clone(&core), replay, lacks_members(config)));
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
        !self.core.serves()
    }

    /// True while log records of the last run are being replayed. No member may be failed by command meanwhile: its drop could
    /// become durable only after replay, and a crash before that would bring it back as in sync, with a log that its cache may
    /// have forgotten (R30).
    pub fn is_replaying(&self) -> bool {
        self.core.log.stage.get() < Stage::Replayed && !self.core.read_only.get()
    }

    /// True while a rebuild, resync or scrub runs.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweeper.is_running()
    }

    /// True if the superblocks name every dropped member as failed. Only then may one return (R11).
    pub fn drops_are_committed(&self) -> bool {
        !self.core.acks_are_held()
    }

    /// What the array can do as a device.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tells the time, which never goes back.
    pub fn set_now(&mut self, now: Nanos) {
        self.core.set_now(now);
    }

    /// When [`Engine::run`] next has something to do without an event.
    pub fn next_wake(&self) -> Option<Nanos> {
        match (self.core.next_timer(), self.core.hedge_wake()) {
            (Some(timer), Some(look)) => Some(timer.min(look)),
            (timer, look) => timer.or(look),
        }
    }

    /// Advances every task that can advance. Afterwards [`Engine::next_action`] gives what they want done.
    pub fn run(&mut self) {
        if !std::mem::take(&mut self.members_answered) {
            self.sweeper.widen(&self.core);
        }
        hedge::look(&self.core);
        self.advance();
        while !self.core.held.borrow().is_empty() && self.core.serves() {
            for request in self.core.held.take() {
                let core = Rc::clone(&self.core);
                self.submit(request, &mut |member, request| core.outbox.borrow_mut().push_back(Action::Io { member, request }));
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
        if self.core.abandoned.borrow().is_empty() {
            return false;
        }
        let abandoned = self.core.abandoned.take();
        for completion in abandoned {
            if let Some(done) = self.complete(completion) {
                self.core.done(done);
            }
        }
        true
    }

    /// Members dropped since the last call. The engine has ended their requests; the driver must do the same for their metadata
    /// writes (R16).
    pub fn take_dropped(&mut self) -> Vec<MemberId> {
        std::mem::take(&mut *self.core.dropped.borrow_mut())
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.core.outbox.borrow_mut().pop_front()
    }

    /// A client's request. Requests that one member can do alone go to `send` at once; for everything else see
    /// [`Engine::next_action`].
    pub fn submit(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) {
        if !self.core.serves() {
            return self.core.held.borrow_mut().push(request);
        }
        let mutates = matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. });
        if let Err(error) = request.check(&self.limits) {
            return self.core.done(request.complete(Err(error)));
        }
        if mutates && self.core.read_only.get() {
            let error = IoError::new(ErrorKind::Invalid, "the array is read-only: assemble it without --read-only to write");
            return self.core.done(request.complete(Err(error)));
        }
        self.core.gate_submit(&request);
        self.core.last_client.set(self.core.now());
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
            Operation::WriteZeroes { fua, unmap, fast } => self.clear(request, (fua, unmap, fast)),
            Operation::Extents { .. } => self.extents(request),
        }
    }

    /// Splits a range of the array into runs on members, for levels whose requests go to one place each. Runs that touch on a
    /// member are joined.
    fn runs(&self, range: Range<u64>) -> SmallVec<[Run; 8]> {
        let mut runs: SmallVec<[Run; 8]> = SmallVec::new();
        let mut next = range.start;
        while next < range.end {
            let (slot, start_sector, sectors) = self.place(next, range.end - next);
            let piece = (next - range.start, sectors);
            match runs.iter_mut().rev().find(|run| run.slot == slot) {
                Some(run) if run.start_sector + run.sectors == start_sector => {
                    run.sectors += sectors;
                    run.pieces.push(piece);
                }
                _ => runs.push(Run { slot, start_sector, sectors, pieces: smallvec![piece] }),
            }
            next += sectors;
        }
        runs
    }

    /// The slot and member sector of an array sector, and how far it is contiguous there, for levels whose requests go to one
    /// place each.
    #[inline(always)]
    pub(crate) fn place(&self, sector: u64, sectors: u64) -> (usize, u64, u64) {
        let geometry = &self.core.geometry;
        if geometry.level().parity_count() == 0 {
            let extent = geometry.extent(sector, sectors);
            return (extent.slot, extent.start_sector, extent.sectors);
        }
        let (stripe, index, in_strip) = geometry.strip_of(sector);
        let slot = usize::from(self.core.map(stripe).data[index]);
        let strip = geometry.strip_sectors();
        (slot, stripe * strip + in_strip, sectors.min(strip - in_strip))
    }

    /// Turns a read or write that one member can do alone into a request to that member.
    pub(crate) fn pass_on(&self, request: &mut Request) -> Option<MemberId> {
        let core = &self.core;
        let Request { start_sector, sectors, .. } = *request;
        let reads = matches!(request.operation, Operation::Read { .. });
        let (member, member_sector) = match core.geometry.level() {
            Level::Raid1 | Level::Raid10 if reads => {
                let (copy, member) = mirror_io::choose_for_all(core, start_sector, sectors)?;
                (member, copy.start_sector)
            }
            level if reads || (!level.is_redundant() && matches!(request.operation, Operation::Write { .. })) => {
                let (slot, member_sector, run) = self.place(start_sector, sectors);
                let members = core.members.borrow();
                let member = members.slots()[slot].member.filter(|_| run == sectors)?;
                let rows = member_sector..member_sector + sectors;
                let is_not_in_place = || core.log.is_not_in_place(slot, &rows) || members.get(member).is_unresponsive;
                let allows_direct_reads = || !level.is_redundant() || core.is_consistent(&rows) && !is_not_in_place();
                if reads && (members.presence(slot, &rows) != Presence::Whole || !allows_direct_reads()) {
                    return None;
                }
                (member, member_sector)
            }
            _ => return None,
        };
        core.whole(request, member, member_sector);
        Some(member)
    }

    pub(crate) fn read(&mut self, mut request: Request) {
        let core = &self.core;
        let range = request.start_sector..request.end_sector();
        let level = core.geometry.level();
        let mirrored = matches!(level, Level::Raid1 | Level::Raid10);
        if mirrored && core.needs_resync_on_read(&range) {
            return align::read_after_resync(core, request);
        }
        let mut runs: SmallVec<[(Run, Option<MemberId>); 8]> = SmallVec::new();
        if mirrored {
            for (start, sectors, copies) in mirror_io::read_runs(core, range.clone()) {
                let pieces = std::iter::once((start - range.start, sectors)).collect();
                let chosen = mirror_io::choose(core, start, &copies, sectors);
                let (copy, member) = chosen.map_or((copies[0], None), |(copy, member)| (copy, Some(member)));
                runs.push((Run { slot: copy.slot, start_sector: copy.start_sector, sectors, pieces }, member));
            }
        } else {
            let rows = |run: &Run| run.start_sector..run.start_sector + run.sectors;
            let found = self.runs(range);
            if level.is_redundant() && found.iter().any(|run| core.needs_resync_on_read(&rows(run))) {
                return align::read_after_resync(core, request);
            }
            let members = core.members.borrow();
            for run in found {
                let rows = rows(&run);
                let whole = members.presence(run.slot, &rows) == Presence::Whole && !core.log.is_not_in_place(run.slot, &rows);
                let member = members.slots()[run.slot].member.filter(|_| whole);
                runs.push((run, member));
            }
        }
        let parent = core.begin(&mut request, runs.len());
        let Operation::Read { into } = request.operation else { unreachable!("this is a read") };
        // A single run takes the memory as it is. Several take theirs piece by piece, in the order of the request.
        let memories: SmallVec<[Segments<Buffer>; 8]> =
            if runs.len() == 1 { std::iter::once(into).collect() } else { deal(into, &runs) };
        for ((run, member), into) in runs.into_iter().zip(memories) {
            let is_unresponsive = |&member: &MemberId| !mirrored && core.members.borrow().get(member).is_unresponsive;
            match member {
                Some(_) if member.as_ref().is_some_and(is_unresponsive) => {
                    self.read_elsewhere(parent, request.start_sector, run, into, member);
                }
                Some(member) => {
                    let operation = Operation::Read { into };
                    core.send_part(
                        parent,
                        run.pieces,
                        MemberIo { member, start_sector: run.start_sector, sectors: run.sectors, operation },
                    );
                }
                None => self.read_elsewhere(parent, request.start_sector, run, into, None),
            }
        }
    }

    /// Reads a run whose member is missing, cannot read it, or is unresponsive (`silent`).
    fn read_elsewhere(&self, parent: usize, array_start: u64, run: Run, into: Segments<Buffer>, silent: Option<MemberId>) {
        let mut memory = Cutter::new(into);
        let mut start_sector = run.start_sector;
        self.core.more_parts(parent, run.pieces.len() - 1);
        for (offset_sectors, sectors) in run.pieces {
            let part = FailedPart {
                parent,
                offset_sectors,
                array_sector: array_start + offset_sectors,
                member: silent.unwrap_or(MemberId(usize::MAX)),
                start_sector,
                sectors,
                into: memory.take(bytes(sectors)),
                error: IoError::new(ErrorKind::Failed, format!("the member in slot {} is missing", run.slot)),
            };
            start_sector += sectors;
            if silent.is_some() {
                self.core.ready.spawn(hedge::ask_others_first(Rc::clone(&self.core), part));
            } else if self.core.geometry.level().parity_count() > 0 {
                self.core.ready.spawn(parity_io::read_part(Rc::clone(&self.core), part, run.slot));
            } else if self.core.geometry.level().is_redundant() {
                // No copy has all of it, and several may have a part each.
                self.core.ready.spawn(mirror_io::correct_part(Rc::clone(&self.core), part, run.slot));
            } else {
                part.deliver(&self.core, None);
            }
        }
    }

    // Not inlined, so that reads stay small.
    #[inline(never)]
    fn write(&mut self, mut request: Request, send: &mut impl FnMut(MemberId, Request)) {
        match self.core.geometry.level() {
            Level::Raid4 | Level::Raid5 | Level::Raid6 => parity_write::write(&self.core, &mut request, send),
            Level::Raid1 | Level::Raid10 => mirror_write::write(&self.core, &mut request, send),
            Level::Linear | Level::Raid0 => self.write_striped(request),
        }
    }

    #[inline(never)]
    fn write_striped(&mut self, mut request: Request) {
        let core = &self.core;
        let runs = self.runs(request.start_sector..request.end_sector());
        let parent = core.begin(&mut request, runs.len());
        let Operation::Write { from, fua } = request.operation else { unreachable!("this is a write") };
        for run in runs {
            let piece = |&(offset, sectors): &(u64, u64)| slice_segments(&from, bytes(offset), bytes(sectors));
            let operation = Operation::Write { from: run.pieces.iter().flat_map(piece).collect(), fua };
            self.send_run(parent, run, operation);
        }
    }

    /// Sends a run of a level without redundancy.
    fn send_run(&self, parent: usize, run: Run, operation: Operation) {
        let member = self.core.members.borrow().slots()[run.slot].member;
        match member {
            Some(member) => {
                let io = MemberIo { member, start_sector: run.start_sector, sectors: run.sectors, operation };
                self.core.send_part(parent, run.pieces, io);
            }
            None => {
                let error = lost("request", &format!("the member in slot {} is missing", run.slot));
                self.core.part_done(parent, None, Err(error));
            }
        }
    }

    /// Write-zeroes, `how` with FUA, leave to unmap, and quickly or not at all.
    fn clear(&mut self, mut request: Request, how: (bool, bool, bool)) {
        let core = &self.core;
        let range = request.start_sector..request.end_sector();
        let level = core.geometry.level();
        let (fua, unmap, fast) = how;
        if fast && !self.limits.unmap_zeroes {
            let error = IoError::new(ErrorKind::Unsupported, "not every member can zero quickly");
            return core.done(request.complete(Err(error)));
        }
        if level.parity_count() > 0 {
            return self.clear_stripes(request, range, how);
        }
        if level.is_redundant() {
            let chunk = CLEAR_ROWS_SECTORS * 8;
            let parts = (range.end - range.start).div_ceil(chunk);
            let parent = core.begin(&mut request, parts as usize);
            for part in 0..parts {
                let start = range.start + part * chunk;
                let part = start..range.end.min(start + chunk);
                core.ready.spawn(mirror_write::clear_part(Rc::clone(core), parent, part, fua, unmap));
            }
            return;
        }
        let runs = self.runs(range);
        let parent = core.begin(&mut request, runs.len());
        for run in runs {
            self.send_run(parent, run, Operation::WriteZeroes { fua, unmap, fast });
        }
    }

    /// Zeroes full stripes on all members, parity included. The rest is written with zeros.
    fn clear_stripes(&mut self, mut request: Request, range: Range<u64>, how: (bool, bool, bool)) {
        let core = &self.core;
        let (fua, unmap, fast) = how;
        let strip = core.geometry.strip_sectors();
        let width = strip * core.geometry.data_count() as u64;
        // Small requests leave old data or zeros, as the log promises of small writes. Where the space may be unmapped a log
        // record of zeros does that; otherwise they are written as data.
        let small = core.log.keeps_bytes_of(request.sectors);
        let whole = range.start.div_ceil(width)..(range.end / width).max(range.start.div_ceil(width));
        let whole = if small && !unmap { whole.start..whole.start } else { whole };
        let edges: SmallVec<[Range<u64>; 2]> = if whole.is_empty() {
            std::iter::once(range.clone()).collect()
        } else {
            let edges = [range.start..whole.start * width, whole.end * width..range.end];
            edges.into_iter().filter(|edge| !edge.is_empty()).collect()
        };
        if fast && !edges.is_empty() {
            let error = IoError::new(ErrorKind::Unsupported, "parts of a stripe cannot be zeroed quickly");
            return core.done(request.complete(Err(error)));
        }
        let stripes_max =
            if core.log.config.is_some_and(|log| log.newest_only) { LogRecord::APPEND_COUNT_MAX as u64 } else { u64::MAX };
        let stripes_per_part = (CLEAR_ROWS_SECTORS / strip).clamp(1, stripes_max);
        let mut pieces: SmallVec<[(u64, u64); 8]> = SmallVec::new();
        for edge in edges {
            let mut next = edge.start;
            while next < edge.end {
                let sectors = (edge.end - next).min(strip - next % strip);
                pieces.push((next, sectors));
                next += sectors;
            }
        }
        let parts = (whole.end - whole.start).div_ceil(stripes_per_part) as usize + pieces.len();
        let parent = core.begin(&mut request, parts);
        let mut stripe = whole.start;
        while stripe < whole.end {
            let end = whole.end.min(stripe + stripes_per_part);
            core.ready.spawn(parity_io::zero_stripes(Rc::clone(core), parent, stripe..end, fua, unmap, small));
            stripe = end;
        }
        for (start, sectors) in pieces {
            let data = smallvec![core.zeros(sectors)];
            let part = Part { parent, offset_sectors: start % width, data, fua, small: true, alone: true, goes_on: false };
            parity_write::write_part(core, start / width, part);
        }
    }

    /// Asks the member that holds the first run. A range without a readable member counts as data.
    fn extents(&mut self, mut request: Request) {
        let core = &self.core;
        let mirrored = matches!(core.geometry.level(), Level::Raid1 | Level::Raid10);
        let (slot, start_sector, sectors) = if mirrored {
            let (copies, sectors) = core.geometry.copies_of(request.start_sector, request.sectors);
            let readable = mirror_io::readable(core, &copies, sectors);
            let copy = readable.first().map_or(copies[0], |(copy, _)| *copy);
            (copy.slot, copy.start_sector, sectors)
        } else {
            self.place(request.start_sector, request.sectors)
        };
        let rows = start_sector..start_sector + sectors;
        let whole = core.members.borrow().presence(slot, &rows) == Presence::Whole && !core.log.is_not_in_place(slot, &rows);
        let member = core.members.borrow().slots()[slot].member.filter(|_| whole);
        let Some(member) = member else {
            let extents = vec![Extent { sectors: request.sectors, hole: false }];
            request.operation = Operation::Extents { extents };
            return core.done(request.complete(Ok(())));
        };
        let parent = core.begin(&mut request, 1);
        let pieces = std::iter::once((0, sectors)).collect();
        core.send_part(parent, pieces, MemberIo { member, start_sector, sectors, operation: request.operation });
    }

    /// A member request has ended. Says what its completion is now. If it is [`Fate::Open`], give it to [`Engine::complete`].
    pub(crate) fn ends_client(&mut self, completion: &mut Completion) -> Fate {
        self.members_answered = true;
        self.core.ends_client(completion)
    }

    /// A member request has ended that does not end a client's request by itself. Returns the client's completion if it failed
    /// with it.
    pub fn complete(&mut self, completion: Completion) -> Option<Completion> {
        let failed = match self.core.complete(completion) {
            Then::Nothing => return None,
            Then::Done(completion) => return Some(completion),
            Then::Finish(write) => {
                self.core.ready.spawn(mirror_write::end(Rc::clone(&self.core), write));
                return None;
            }
            Then::Mend(failed) => failed,
        };
        for part in failed {
            let core = Rc::clone(&self.core);
            if core.is_foreign(part.array_sector) {
                core.ready.spawn(lanes::correct_part(Rc::clone(&core), part));
                continue;
            }
            let slot = core.members.borrow().get(part.member).slot.expect("clients read members with a role");
            match core.geometry.level() {
                Level::Linear | Level::Raid0 => {
                    let error = part.error.clone();
                    core.part_done(part.parent, Some((part.offset_sectors, part.into)), Err(error));
                }
                Level::Raid1 | Level::Raid10 => core.ready.spawn(mirror_io::correct_part(Rc::clone(&core), part, slot)),
                Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                    core.ready.spawn(parity_io::correct_part(Rc::clone(&core), part, slot))
                }
            }
        }
        None
    }

    /// A superblock update has ended, with failures on these members.
    pub fn state_committed(&mut self, failures: IoFailures) {
        self.core.record.state_busy.set(false);
        self.record_failures(failures);
        self.core.record.changed.wake_all(&self.core.ready);
    }

    /// A bitmap update has ended, with failures on these members.
    pub fn intent_committed(&mut self, failures: IoFailures) {
        self.core.record.intent_busy.set(false);
        self.record_failures(failures);
        self.core.record.intent_changed.wake_all(&self.core.ready);
    }

    /// A bad-block update has ended, with failures on these members. `had_room` is false if the format had no space for the
    /// list.
    pub fn bad_blocks_committed(&mut self, failures: IoFailures, had_room: bool) {
        self.core.record.bad_busy.set(false);
        self.core.record.bad_refused.set(!had_room);
        self.record_failures(failures);
        self.core.record.bad_waiters.wake_all(&self.core.ready);
    }

    /// A new log session has begun, with failures on these members.
    pub fn log_reset(&mut self, failures: IoFailures) {
        self.record_failures(failures);
        self.core.log.stage.set(Stage::Open);
        self.core.log.stage_changed.wake_all(&self.core.ready);
    }

    /// An append to a member's log has ended.
    pub fn log_appended(&mut self, member: MemberId, result: Result<(), IoError>) {
        let error = result.err().and_then(|error| {
            let holds_role = self.core.members.borrow().get(member).role == MemberState::InSync;
            if is_no_space(&error) && holds_role {
                return Some(self.core.meet_no_space(member, &error));
            }
            let dropped = self.core.fail_member(member, &format!("its write log could not be written: {error}"));
            (!dropped).then(|| lost("write", &error.context))
        });
        if self.core.log_appended(member, error) {
            let core = Rc::clone(&self.core);
            self.core.ready.spawn(async move { core.log_flush(member).await });
        }
    }

    /// An append to a member's log found no space.
    pub fn log_full(&mut self, member: MemberId, records: Vec<LogRecord>) {
        self.core.log_full(member, records);
    }

    /// Some member is a file with holes, so a write to it may find no room: none is acknowledged ahead of its place.
    pub fn expect_no_space(&mut self) {
        self.core.expect_no_space();
    }

    fn record_failures(&mut self, failures: IoFailures) {
        self.drop_unrecorded(&failures);
    }

    /// Drops members whose metadata could not be written, if they can be spared. Returns the dropped ones (R15).
    pub(crate) fn drop_unrecorded(&mut self, failures: &IoFailures) -> Vec<MemberId> {
        let drops = |(member, error): &(MemberId, IoError)| {
            self.core.fail_member(*member, &format!("its metadata could not be written: {error}")).then_some(*member)
        };
        failures.iter().filter_map(drops).collect()
    }

    /// Switches hedged reads on or off. They are on where there is redundancy.
    pub fn set_hedging(&mut self, on: bool) {
        self.core.hedging.on.set(on && self.core.geometry.level().is_redundant());
    }

    /// Has the engine break a rule of crash safety, for a simulator.
    #[doc(hidden)]
    pub fn set_flaw(&mut self, flaw: Option<Flaw>) {
        self.core.flaw.set(flaw);
    }

    /// Takes the events since the last call, for the event log.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.core.events.borrow_mut())
    }

    /// The array's state.
    pub fn status(&self) -> ArrayStatus {
        let members = self.core.members.borrow();
        let intent = self.core.intent.borrow();
        ArrayStatus {
            health: members.health(),
            read_only: self.core.read_only.get(),
            clean: self.core.record.clean.get(),
            resync_sector: self.core.resync_sector.get(),
            members: members.iter().map(|member| member.status(self.core.now())).collect(),
            slots: members.slots().iter().map(|slot| slot.member).collect(),
            sweep: self.sweeper.status(&self.core),
            mismatch_sectors: self.sweeper.last_mismatch().map(|(sectors, _)| sectors),
            mismatch_repaired: self.sweeper.last_mismatch().is_some_and(|(_, repaired)| repaired),
            losses_survived: self.core.members.borrow().losses_survived(),
            intent: intent.as_ref().map(|intent| {
                (intent.marked_count(), self.core.geometry.sync_sectors().div_ceil(intent.chunk_sectors()) as usize)
            }),
            log: self.core.log.status(),
            in_flight: self.core.requests_in_flight(),
        }
    }

    /// From now on no write is acknowledged early if only this member's log holds it. `None` lifts that. Call it before failing
    /// a member by command, until [`Engine::is_sole_log_holder`] is false (R26).
    pub fn stop_relying_on(&mut self, member: Option<MemberId>) {
        self.core.stop_relying_on(member);
    }

    /// True while a write-behind is held by no other log than this member's. Dropping the member now and crashing before the
    /// drop is durable could lose that write (R26).
    pub fn is_sole_log_holder(&self, member: MemberId) -> bool {
        self.core.is_sole_log_holder(member)
    }

    /// Whether members may change. On a read-only array they may not, since every change writes superblocks.
    ///
    /// # Errors
    /// When the array is read-only.
    pub fn may_change(&self) -> Result<(), Refusal> {
        match self.core.read_only.get() {
            true => {
                Err(Refusal("the array is read-only, and this would write to its members: serve it without --read-only".into()))
            }
            false => Ok(()),
        }
    }

    /// Drops a member as if it had failed.
    ///
    /// # Errors
    /// When the member is not in use, data would be lost, or the array is read-only or [replaying](Engine::is_replaying).
    pub fn fail(&mut self, member: MemberId) -> Result<(), Refusal> {
        self.may_change()?;
        let (role, name) = self.role_of(member)?;
        if role == MemberState::Failed {
            return Err(Refusal(format!("{name} has failed already; `remove` takes it out")));
        }
        if self.is_replaying() {
            return Err(Refusal(format!(
                "{name} cannot be failed yet: the array has just started, and carries out what a crash left; fail it again in a moment"
            )));
        }
        if !self.core.fail_member(member, "failed on command") {
            return Err(Refusal(format!(
                "{name} cannot be failed: the array has no redundancy left to replace it; add a member and let it rebuild first"
            )));
        }
        Ok(())
    }

    /// A member is gone, as its drive reports by itself.
    pub fn lose(&mut self, member: MemberId, reason: &str) {
        self.core.lose_member(member, reason);
    }

    /// Takes a member out: a failed one, or a spare, which then counts as failed.
    ///
    /// # Errors
    /// When the member fills a slot, or the array is read-only.
    pub fn remove(&mut self, member: MemberId) -> Result<(), Refusal> {
        self.may_change()?;
        match self.role_of(member)? {
            (MemberState::Failed, _) => Ok(()),
            (MemberState::Spare, _) => {
                self.core.fail_member(member, "removed on command");
                Ok(())
            }
            (MemberState::InSync | MemberState::Rebuilding | MemberState::Replacing, name) => {
                Err(Refusal(format!("{name} is in use: `fail` it first, or `replace` it to keep redundancy meanwhile")))
            }
        }
    }

    fn role_of(&self, member: MemberId) -> Result<(MemberState, String), Refusal> {
        let members = self.core.members.borrow();
        if member.0 >= members.count() {
            return Err(Refusal(format!("the array has no member {}", member.0)));
        }
        let member = members.get(member);
        Ok((member.role, member.config.name.clone()))
    }

    /// The handle that the next member gets.
    pub fn next_member(&self) -> MemberId {
        MemberId(self.core.members.borrow().count())
    }

    /// Adds a member: as a spare, or, if it was away, into the empty slot it had.
    ///
    /// # Errors
    /// When the array has no redundancy or is read-only, the member is too small, or its slot is filled.
    pub fn add(&mut self, config: MemberConfig, limits: &Limits, slot: Option<usize>) -> Result<(), Refusal> {
        self.may_change()?;
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
        if limits.logical_block_bytes > self.limits.logical_block_bytes {
            return Err(Refusal(format!(
                "{} has blocks of {} bytes, and the array serves blocks of {}: use a drive with blocks as small",
                config.name, limits.logical_block_bytes, self.limits.logical_block_bytes
            )));
        }
        // A drive may hold a superblock update that the crash tore, with as many events as this run's first one. It must not
        // return before that: later nobody could tell the two apart (R11, R27).
        if slot.is_some() && self.is_starting() {
            return Err(Refusal(format!(
                "{} cannot come back yet: the array has just started, and says so on its members first; add it again in a moment",
                config.name
            )));
        }
        let id = config.id;
        {
            let mut members = self.core.members.borrow_mut();
            if let Some(slot) = slot
                && members.slots()[slot].member.is_some()
            {
                return Err(Refusal(format!("slot {slot} has a member already")));
            }
            members.admit(config, slot);
            members.get_mut(id).limits = limits.clone();
        }
        self.core.request_commit();
        self.core.sweep_changed.wake_all(&self.core.ready);
        self.core.catch_up_on(id);
        Ok(())
    }

    /// Copies an in-sync member to a spare, which then takes its slot.
    ///
    /// # Errors
    /// When the member is not in sync, the other one is not a spare, or the array is read-only.
    pub fn replace(&mut self, member: MemberId, spare: MemberId) -> Result<(), Refusal> {
        self.may_change()?;
        let (role, name) = self.role_of(member)?;
        let (spare_role, spare_name) = self.role_of(spare)?;
        if role != MemberState::InSync {
            return Err(Refusal(format!("{name} cannot be replaced: it is not an in-sync member; its role is rebuilt instead")));
        }
        if spare_role != MemberState::Spare {
            return Err(Refusal(format!("{spare_name} is not a spare: `add` one first")));
        }
        let mut members = self.core.members.borrow_mut();
        let slot = members.get(member).slot.expect("in sync members have a role");
        if members.slots()[slot].replacement.is_some() {
            return Err(Refusal(format!("{name} is being replaced already")));
        }
        members.replace(slot, spare);
        drop(members);
        self.core.request_commit();
        self.core.sweep_changed.wake_all(&self.core.ready);
        Ok(())
    }

    /// Starts a scrub at a position of the sync space: 0, or where an earlier one was interrupted. On a read-only array it only
    /// reads.
    ///
    /// # Errors
    /// When another sweep runs, or there is nothing to compare. On a read-only array also with `repair`, and while redundancy
    /// is inconsistent after a crash.
    pub fn scrub(&mut self, repair: bool, from_sector: u64) -> Result<(), Refusal> {
        if !self.core.geometry.level().is_redundant() {
            return Err(Refusal(format!("RAID level {} has nothing to compare", self.core.geometry.level())));
        }
        if self.core.health() == Health::Failed {
            return Err(Refusal("scrub refused: the array has failed; assemble it with enough members first".into()));
        }
        self.sweeper.order(&self.core, repair, from_sector)
    }

    /// Ends a scrub for good.
    pub fn cancel_scrub(&mut self) {
        self.sweeper.cancel_scrub(&self.core);
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
        self.core.read_only.set(read_only);
        self.core.sweep_changed.wake_all(&self.core.ready);
    }

    /// Ends sweeps, waits for requests, makes everything durable and the superblocks clean. See [`Engine::is_stopped`].
    pub fn stop(&mut self) {
        if !self.core.stopping.replace(true) {
            self.sweeper.pause(&self.core, true);
            self.core.ready.spawn(stop(Rc::clone(&self.core), Rc::clone(&self.sweeper)));
        }
    }

    /// True once a stop has ended.
    pub fn is_stopped(&self) -> bool {
        self.sweeper.is_stopped()
    }
}

/// Deals the memory of a request out to its runs, in the order of the request.
fn deal(into: Segments<Buffer>, runs: &[(Run, Option<MemberId>)]) -> SmallVec<[Segments<Buffer>; 8]> {
    let mut order: SmallVec<[(u64, u64, usize); 16]> = SmallVec::new();
    for (index, (run, _)) in runs.iter().enumerate() {
        order.extend(run.pieces.iter().map(|&(offset, sectors)| (offset, sectors, index)));
    }
    order.sort_unstable();
    let mut memory = Cutter::new(into);
    let mut memories: SmallVec<[Segments<Buffer>; 8]> = runs.iter().map(|_| Segments::new()).collect();
    for (_, sectors, index) in order {
        memories[index].extend(memory.take(bytes(sectors)));
    }
    memories
}

fn array_limits(config: &ArrayConfig, members: &[Limits]) -> Limits {
    let geometry = &config.geometry;
    let all = |test: fn(&Limits) -> bool| members.iter().all(test);
    let largest = |of: fn(&Limits) -> u32| members.iter().map(of).max().unwrap_or(512);
    let width = match geometry.level() {
        Level::Linear | Level::Raid1 => 0,
        Level::Raid10 => geometry.strip_sectors() * geometry.slot_count() as u64,
        Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid6 => geometry.strip_sectors() * geometry.data_count() as u64,
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
        discard_granularity_bytes: match (unmap_zeroes, geometry.level().parity_count() > 0) {
            (false, _) => 0,
            // Parts of a stripe are zeroed and unmap nothing.
            (true, true) => u32::try_from(bytes(width)).unwrap_or(u32::MAX),
            (true, false) => largest(|limits| limits.discard_granularity_bytes),
        },
        unmap_zeroes,
        rotational: !all(|limits| !limits.rotational),
    }
}

/// A client's flush: write-behind first, then the members, then what dropped members hold back (R24, R9, R6, R40).
async fn flush(core: Rc<Core>, parent: usize) {
    core.wait_for_write_behind().await;
    let result = core.flush_volatile().await.and_then(|()| core.no_space.take_unflushed());
    core.wait_for_ack_barrier().await;
    core.part_done(parent, None, result);
}

/// Makes the superblocks clean once writes have paused.
async fn settle(core: Rc<Core>) {
    loop {
        core.ready.until(&core.record.state_waiters, || !core.record.clean.get()).await;
        loop {
            let due = core.last_write.get().saturating_add(CLEAN_AFTER);
            if core.writes_in_flight.get() == 0 && core.now() >= due {
                break;
            }
            core.sleep_until(due.max(core.now() + CLEAN_AFTER / 4)).await;
        }
        if core.stopping.get() {
            return;
        }
        core.record.clean.set(true);
        core.request_commit();
    }
}

/// Clears idle write-intent bits from time to time.
async fn clear_intents(core: Rc<Core>) {
    loop {
        let has_bits = || core.intent.borrow().as_ref().is_some_and(|intent| intent.has_bits());
        core.ready.until(&core.record.intent_waiters, has_bits).await;
        core.sleep_until(core.now() + crate::intent::CLEAR_AFTER).await;
        core.record.intent_changed.wake_all(&core.ready);
    }
}

async fn stop(core: Rc<Core>, sweeper: Rc<Sweeper>) {
    let replays = || core.log.stage.get() < Stage::Replayed && !core.read_only.get() || core.log.stage.get() == Stage::Opening;
    let is_busy = || core.requests_in_flight() > 0 || core.writes_in_flight.get() > 0 || sweeper.is_running() || replays();
    let flushed = loop {
        while is_busy() {
            core.sleep_until(core.now() + 1_000_000).await;
        }
        let last_write = core.last_write.get();
        let flushed = core.flush_volatile().await;
        // R4: "clean" speaks of writes that ended before the flush. A request that came during it is waited for as well.
        if !is_busy() && core.last_write.get() == last_write {
            break flushed;
        }
    };
    if flushed.is_ok() && core.health() != Health::Failed && !core.read_only.get() && core.geometry.level().is_redundant() {
        core.record.intent_changed.wake_all(&core.ready);
        core.record.clean.set(true);
        let number = core.request_commit();
        core.recorded(number).await;
        while core.record.intent_busy.get() {
            core.sleep_until(core.now() + 1_000_000).await;
        }
    }
    sweeper.set_stopped();
}
