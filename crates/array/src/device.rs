//! The engine's driver: connects an engine, the members' devices and the metadata of a format into one block device.
//!
//! It moves requests and metadata updates between the three and decides nothing. A handle may be cloned; all clones are the
//! same array, so an array can be a member of another while its owner still commands it. On one of several lanes it also
//! exchanges messages ([`mail`]); metadata updates are made by the coordinator, and commands given to it ([`commands`]).

mod commands;
mod mail;

use crate::action::Action;
use crate::core::Fate;
use crate::lanes::{Message, Ports, Relay};
use crate::partition::Partition;
use crate::refusal::Refusal;
use crate::status::{ArrayStatus, Event};
use crate::{
    ArrayConfig, Command, CommandId, DriveSector, Engine, IoFailures, LaneLog, MemberId, MetadataUpdate, MetadataWrite, Recorder,
    UpdateEnd,
};
use commands::Running;
use mail::CoordinatorLane;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use stria_block::{BlockDevice, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request, SECTOR_BYTES, Tag};

/// Tags of metadata writes have this bit; the engine's do not.
const METADATA: Tag = 1 << 63;
/// Marks the metadata writes that append to a log. All others belong to the metadata update that runs.
const LOG_APPEND: Tag = 1 << 62;
/// The bits of a metadata tag from here up are a count, which identifies late completions of dropped members. Those below are the
/// member.
const COUNT_SHIFT: u32 = 16;
const MEMBER_MASK: Tag = (1 << COUNT_SHIFT) - 1;

struct BoundMember {
    device: Option<Box<dyn BlockDevice>>,
    data_start_sector: DriveSector,
    in_flight: usize,
    /// It is released when nothing is in flight.
    leaves: bool,
    /// It leaves, or was dropped.
    is_closed: bool,
    /// It was dropped when this many metadata writes had been sent. It gets nothing more, and nothing sent before counts (R16).
    dropped_at: Option<Tag>,
    /// Writes of the running metadata update that it has not ended.
    updates: usize,
    /// The same of appends to its log.
    appends: usize,
}

impl BoundMember {
    fn new(device: Box<dyn BlockDevice>, data_start_sector: DriveSector) -> Self {
        Self {
            device: Some(device),
            data_start_sector,
            in_flight: 0,
            leaves: false,
            is_closed: false,
            dropped_at: None,
            updates: 0,
            appends: 0,
        }
    }

    /// Positions of the engine's requests are in the member's data area, those of metadata are not.
    fn submit(&mut self, mut request: Request, refused: &mut Vec<Completion>) {
        if request.tag & METADATA == 0 && !matches!(request.operation, Operation::Flush) {
            request.start_sector += self.data_start_sector.get();
        }
        match &mut self.device {
            Some(device) if !self.is_closed => {
                self.in_flight += 1;
                device.submit(request);
            }
            _ => {
                let error = IoError::new(ErrorKind::Gone, "the member was dropped or removed");
                refused.push(request.complete(Err(error)));
            }
        }
    }
}

/// The metadata update that runs.
struct RunningUpdate {
    update: MetadataUpdate,
    next: UpdateStep,
    /// Writes that have not ended.
    writes: usize,
    /// Writes that follow the others. If no member in sync took the update before: those to members that are not in sync, once a
    /// member in sync has taken this update (R58). Of a list of bad blocks: the superblock (R52).
    followers: Vec<MetadataWrite>,
    failures: IoFailures,
    /// Its end as the steps so far decide it.
    end: UpdateEnd,
}

/// The next step of a metadata update.
enum UpdateStep {
    /// Members that missed the last superblock update get it (R57).
    RewriteLast,
    Write,
    End,
}

type LogLayout<R> = <<R as Recorder>::Log as LaneLog>::Layout;

struct Driver<R: Recorder> {
    engine: Engine,
    /// `None`: the coordinator has it.
    recorder: Option<R>,
    log: R::Log,
    /// Where there are several lanes.
    relay: Option<Relay<LogLayout<R>>>,
    /// Each of several lanes owns a partition. Levels without redundancy need none: every lane does what it is asked.
    is_divided: bool,
    /// On the coordinator of a divided array.
    coordinator_lane: Option<CoordinatorLane>,
    /// Requests that have ended on other lanes.
    elsewhere: Vec<Completion>,
    members: Vec<BoundMember>,
    update: Option<RunningUpdate>,
    /// No member in sync took the last superblock update (R58). The engine's `MetadataUpdates` also counts one that was not made
    /// (R57).
    in_sync_refused: bool,
    /// Metadata writes sent so far.
    metadata_write_count: Tag,
    /// Real time for superblocks: seconds since 1970 when `now` was 0.
    unix_seconds_at_zero: u64,
    now: Nanos,
    /// Completions of member requests and metadata writes that are not clients' by themselves.
    others: Vec<Completion>,
    /// Member requests that no device took.
    refused: Vec<Completion>,
    running: Running<R::Newcomer>,
    /// The next poll has something to do besides members' answers.
    actions: bool,
    /// It has more to do than to begin submitted requests.
    others_due: bool,
}

/// An array as a block device.
pub struct ArrayDevice<R: Recorder> {
    driver: Rc<RefCell<Driver<R>>>,
    limits: Rc<Limits>,
}

impl<R: Recorder> Clone for ArrayDevice<R> {
    fn clone(&self) -> Self {
        Self { driver: Rc::clone(&self.driver), limits: Rc::clone(&self.limits) }
    }
}

impl<R: Recorder> ArrayDevice<R> {
    /// Connects `devices`, by member handle, to an engine for `config`. `unix_seconds_at_zero`: the date when `now` is 0.
    pub fn new(config: &ArrayConfig, devices: Vec<Box<dyn BlockDevice>>, recorder: R, unix_seconds_at_zero: u64) -> Self {
        Self::on_lane(config, devices, Some(recorder), unix_seconds_at_zero, &Ports::new(1), 0)
    }

    /// One lane of an array. All lanes get the same `config` and `ports`, `devices` that reach the same drives, and any of the
    /// clients' requests. Only lane 0 has the `recorder`.
    ///
    /// # Panics
    /// Lane 0 has no recorder, or another lane has one.
    pub fn on_lane(
        config: &ArrayConfig,
        devices: Vec<Box<dyn BlockDevice>>,
        recorder: Option<R>,
        unix_seconds_at_zero: u64,
        ports: &Ports<LogLayout<R>>,
        lane: usize,
    ) -> Self {
        assert_eq!(lane == 0, recorder.is_some(), "the coordinator records for all");
        let member_limits: Vec<Limits> = devices.iter().map(|device| device.limits().clone()).collect();
        let several = ports.lane_count() > 1;
        let is_divided = several && config.geometry.level().is_redundant();
        let partition = if is_divided { ports.partition(&config.geometry, lane) } else { Partition::whole(&config.geometry) };
        let engine = Engine::on_lane(config, &member_limits, partition);
        let mut starts = vec![DriveSector::ZERO; devices.len()];
        let places = config.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten().chain(&config.spares);
        for member in places {
            starts[member.id.0] = member.data_start_sector;
        }
        let members = devices.into_iter().zip(starts).map(|(device, start)| BoundMember::new(device, start)).collect();
        let limits = Rc::new(engine.limits().clone());
        let driver = Driver {
            engine,
            recorder,
            log: R::Log::default(),
            relay: several.then(|| Relay::new(ports.partition(&config.geometry, lane), ports.clone())),
            is_divided,
            coordinator_lane: (is_divided && lane == 0).then(|| CoordinatorLane::new(config, &member_limits, ports)),
            elsewhere: Vec::new(),
            members,
            update: None,
            in_sync_refused: false,
            metadata_write_count: 0,
            unix_seconds_at_zero,
            now: 0,
            others: Vec::new(),
            refused: Vec::new(),
            running: Running::default(),
            actions: true,
            others_due: true,
        };
        Self { driver: Rc::new(RefCell::new(driver)), limits }
    }

    /// The array's state.
    pub fn status(&self) -> ArrayStatus {
        let driver = self.driver.borrow();
        let mut status = driver.engine.status();
        // Where no lane owns rows, all know the same bad blocks.
        if !driver.is_divided && driver.relay.as_ref().is_some_and(|relay| relay.partition.lane > 0) {
            status.members.iter_mut().for_each(|member| member.bad_sectors = 0);
        }
        status
    }

    /// True if a lane has reported bad blocks of a member, whether or not its list on disk names them. On the coordinator only.
    pub fn has_bad_blocks_elsewhere(&self, member: MemberId) -> bool {
        let driver = self.driver.borrow();
        driver.coordinator_lane.as_ref().is_some_and(|lane| lane.coordinator.has_bad_blocks(member))
    }

    /// The number of consecutive sectors that belong to one of several lanes, from the coordinator on. `None`: no lane owns any.
    pub fn group_sectors(&self) -> Option<u64> {
        let driver = self.driver.borrow();
        driver.relay.as_ref().filter(|_| driver.is_divided).map(|relay| relay.partition.group_array_sectors())
    }

    /// Takes the events since the last call, for the event log.
    pub fn take_events(&self) -> Vec<Event> {
        self.driver.borrow_mut().engine.take_events()
    }

    /// Gives the array a command. The next polls of its lanes carry it out; [`ArrayDevice::take_answer`] tells its result. On the
    /// coordinator only.
    ///
    /// # Panics
    /// On another lane.
    pub fn begin(&self, command: Command<R::Newcomer>) -> CommandId {
        self.driver.borrow_mut().begin(command)
    }

    /// The result of a command, once it has ended.
    pub fn take_answer(&self, id: CommandId) -> Option<Result<(), Refusal>> {
        self.driver.borrow_mut().running.take_answer(id)
    }

    /// Offers the device of a drive that is to join by [`Command::Add`]. Every lane is offered its own before the command.
    pub fn offer(&self, number: u64, device: Box<dyn BlockDevice>) {
        self.driver.borrow_mut().running.offers.insert(number, device);
    }

    /// Takes back a device that was offered for a command that was refused.
    pub fn withdraw(&self, number: u64) -> Option<Box<dyn BlockDevice>> {
        self.driver.borrow_mut().running.offers.remove(&number)
    }

    /// The number of members that the array has had on this lane: handles are below.
    pub fn member_count(&self) -> usize {
        self.driver.borrow().members.len()
    }

    /// Gives [`Command::Stop`], if that was not done before.
    pub fn stop(&self) {
        self.driver.borrow_mut().stop();
    }

    /// True once [`Command::Stop`] has ended: on every lane. On the coordinator only.
    pub fn has_stopped(&self) -> bool {
        self.driver.borrow().running.stopped.is_some()
    }

    /// Why it has stopped without being clean, or without what clients wrote being durable. On the coordinator only.
    pub fn stop_refusal(&self) -> Option<Refusal> {
        self.driver.borrow().running.stopped.clone().and_then(Result::err)
    }

    /// Sets something on this lane's engine, or asks it; the next poll carries out what follows.
    pub fn with_engine<T>(&self, ask: impl FnOnce(&mut Engine) -> T) -> T {
        let mut driver = self.driver.borrow_mut();
        driver.note_due();
        ask(&mut driver.engine)
    }

    /// Tells the time without a poll: the next requests are submitted then.
    pub fn set_now(&self, now: Nanos) {
        let mut driver = self.driver.borrow_mut();
        driver.now = now.max(driver.now);
        let now = driver.now;
        driver.engine.set_now(now);
    }

    /// As [`BlockDevice::next_wake`], for members that begin a request without a poll, as models do. The array then needs no poll
    /// for each request either.
    pub fn next_wake_of_models(&self) -> Option<Nanos> {
        let driver = self.driver.borrow();
        let has_mail = driver.relay.as_ref().is_some_and(Relay::has_mail);
        if driver.others_due || has_mail || !driver.refused.is_empty() || driver.engine.has_work() {
            return Some(0);
        }
        driver.next_wake_of_parts()
    }

    /// The recorder, to prepare metadata for a new member. On the coordinator only.
    ///
    /// # Panics
    /// On another lane.
    pub fn recorder(&self) -> RefMut<'_, R> {
        RefMut::map(self.driver.borrow_mut(), |driver| driver.recorder.as_mut().expect("asked on the coordinator"))
    }
}

impl<R: Recorder> Driver<R> {
    /// The next poll has more to do than to begin submitted requests.
    fn note_due(&mut self) {
        (self.actions, self.others_due) = (true, true);
    }

    #[inline]
    fn next_wake_of_parts(&self) -> Option<Nanos> {
        let members = self.members.iter().filter_map(|member| member.device.as_ref()?.next_wake());
        members.chain(self.engine.next_wake()).min()
    }

    /// Which of the array's lanes this is.
    fn lane(&self) -> usize {
        self.relay.as_ref().map_or(0, |relay| relay.partition.lane)
    }

    fn poll(&mut self, ended: &mut Vec<Completion>) {
        self.engine.set_now(self.now);
        loop {
            let start = ended.len();
            ended.append(&mut self.refused);
            for bound in &mut self.members {
                let Some(device) = &mut bound.device else { continue };
                let before = ended.len();
                device.poll(self.now, ended);
                bound.in_flight -= ended.len() - before;
                if bound.leaves && bound.in_flight == 0 {
                    bound.device = None;
                }
            }
            self.others_due = false;
            let progress = std::mem::take(&mut self.actions) || ended.len() > start;
            self.sort_out(ended, start);
            let mut others = std::mem::take(&mut self.others);
            for completion in others.drain(..) {
                if completion.tag & METADATA == 0 {
                    ended.extend(self.engine.complete(completion));
                } else {
                    self.metadata_written(completion);
                }
            }
            self.others = others;
            self.engine.run();
            self.let_go_of_dropped();
            let mut performed = false;
            while let Some(action) = self.engine.next_action() {
                performed = true;
                self.perform(action, ended);
            }
            // Members were polled before: a member that was sent nothing since has no more completions.
            let may_go_on = progress && (performed || self.engine.is_sweeping());
            if !may_go_on && !self.actions {
                return;
            }
        }
    }

    /// Keeps in `ended`, from `start` on, the completions that have become clients'. Most stay where they are.
    fn sort_out(&mut self, ended: &mut Vec<Completion>, start: usize) {
        let mut kept = start;
        for index in start..ended.len() {
            let completion = &mut ended[index];
            let fate = if completion.tag & METADATA != 0 { Fate::Open } else { self.engine.ends_client(completion) };
            match fate {
                Fate::Client => {
                    if kept < index {
                        ended.swap(kept, index);
                    }
                    kept += 1;
                }
                Fate::Spent => {}
                Fate::Open => {
                    let nothing = Completion { tag: 0, result: Ok(()), operation: Operation::Flush };
                    self.others.push(std::mem::replace(completion, nothing));
                }
            }
        }
        ended.truncate(kept);
    }

    fn perform(&mut self, action: Action, ended: &mut Vec<Completion>) {
        match action {
            Action::Done(completion) => ended.push(completion),
            Action::Io { member, request } => self.submit(member, request),
            Action::Update(update) => self.request_update(update),
            Action::SpareTaken { member, slot } => self.others().tell_all(|| Message::SpareTaken { member, slot }),
            Action::Dropped(member) => self.report_drop(member),
            Action::Rebuilt(member) => self.report_rebuilt(member),
            Action::AskOwner { request, slow } => self.others().ask_owner(request, slow),
            Action::Replayed => self.report_replayed(),
            Action::GiveUp => self.others().tell_all(|| Message::GiveUp),
            Action::EveryLane { number, step } => self.on_every_lane(number, step),
            Action::StepDone { number, result } => self.step_done(number, result),
            Action::Admit { id, number, offer, replaces, may_return } => self.admit(id, number, offer, replaces, may_return),
            Action::CommandDone(id, result) => self.command_done(id, result),
            Action::AppendLog { member, records, terms, fua } => match self.log.append(member, &records, terms) {
                Some(write) => {
                    self.members[member.0].appends += 1;
                    self.submit_metadata(LOG_APPEND, write, fua);
                }
                None => {
                    self.engine.log_full(member, records);
                    self.note_due();
                }
            },
        }
    }

    /// Begins a metadata update.
    fn make(&mut self, update: MetadataUpdate) {
        // R57, R32: every member has the last superblock update before the next one, and before a new log session begins.
        let next = match update {
            MetadataUpdate::State(_) | MetadataUpdate::ResetLog => UpdateStep::RewriteLast,
            MetadataUpdate::Intent { .. } | MetadataUpdate::BadBlocks { .. } => UpdateStep::Write,
        };
        let running =
            RunningUpdate { update, next, writes: 0, followers: Vec::new(), failures: Vec::new(), end: UpdateEnd::Durable };
        let before = self.update.replace(running);
        assert!(before.is_none(), "two metadata updates at once");
        self.go_on_with_update();
    }

    /// No write of the running metadata update is in flight: takes its next step that has some, or ends it.
    fn go_on_with_update(&mut self) {
        let unix_seconds = self.unix_seconds();
        let recorder = self.recorder.as_mut().expect("the coordinator records");
        let running = self.update.as_mut().expect("an update runs");
        let mut followers = std::mem::take(&mut running.followers);
        let rewrites = matches!(running.next, UpdateStep::RewriteLast);
        if !running.failures.is_empty()
            && (self.engine.refuses_state(&running.failures) || rewrites && self.engine.must_not_miss_another(&running.failures))
        {
            followers.drain(..).for_each(|write| recorder.write_failed(write.member));
            running.next = UpdateStep::End;
            if rewrites {
                running.end = UpdateEnd::Unwritten;
            }
        }
        let has_failed = |member| running.failures.iter().any(|(failed, _)| *failed == member);
        followers.retain(|write| !self.engine.has_dropped(write.member) && !has_failed(write.member));
        let mut writes = loop {
            let writes = match running.next {
                _ if !followers.is_empty() => break followers,
                UpdateStep::RewriteLast => {
                    let mut writes = recorder.rewrite_last_update();
                    if writes.is_empty() {
                        running.next = UpdateStep::Write;
                    }
                    // A member that failed to take it is dropped at the end of this update, or gets it before the next.
                    writes.retain(|write| !self.engine.has_dropped(write.member) && !has_failed(write.member));
                    writes
                }
                UpdateStep::Write => {
                    running.next = UpdateStep::End;
                    match &running.update {
                        MetadataUpdate::State(state) => recorder.record_state(state, unix_seconds),
                        MetadataUpdate::Intent { set, clear } => recorder.record_intent(set, clear),
                        MetadataUpdate::BadBlocks { member, blocks } => {
                            match recorder.record_bad_blocks(*member, blocks, unix_seconds) {
                                Some(writes) => writes,
                                None => {
                                    running.end = UpdateEnd::NoSpace;
                                    break Vec::new();
                                }
                            }
                        }
                        MetadataUpdate::ResetLog => recorder.reset_log(),
                    }
                }
                UpdateStep::End => break Vec::new(),
            };
            if !writes.is_empty() {
                break writes;
            }
        };
        if !writes.is_empty() {
            // R58: a member that is not in sync must not get two events ahead of all that are: those would count as away.
            if self.in_sync_refused {
                let (leading, followers): (Vec<_>, Vec<_>) =
                    writes.into_iter().partition(|write| self.engine.is_in_sync(write.member));
                (writes, running.followers) = if leading.is_empty() { (followers, leading) } else { (leading, followers) };
            }
            if let MetadataUpdate::BadBlocks { .. } = running.update {
                running.followers = writes.split_off(1);
            }
            running.writes = writes.len();
            for write in writes {
                self.members[write.member.0].updates += 1;
                self.submit_metadata(0, write, true);
            }
            return;
        }
        let RunningUpdate { update, failures, end, .. } = self.update.take().expect("it runs");
        if let MetadataUpdate::State(_) = update {
            self.in_sync_refused = self.engine.refuses_state(&failures);
        }
        if let MetadataUpdate::ResetLog = update {
            self.update_layout();
        }
        if let (MetadataUpdate::BadBlocks { member, .. }, false) = (&update, failures.is_empty()) {
            self.recorder.as_mut().expect("the coordinator records").bad_blocks_failed(*member);
        }
        self.updated(&update, end, &failures);
    }

    /// The metadata update that the engine wanted has ended.
    fn end_update(&mut self, end: UpdateEnd, failures: &IoFailures) {
        self.engine.metadata_updated(end, failures);
        self.note_due();
    }

    fn take_request(&mut self, request: Request) {
        let Self { engine, members, refused, .. } = self;
        engine.submit(request, &mut |member, request| members[member.0].submit(request, refused));
        self.actions = true;
    }

    fn submit(&mut self, member: MemberId, request: Request) {
        self.members[member.0].submit(request, &mut self.refused);
        if !self.refused.is_empty() {
            self.note_due();
        }
    }

    fn unix_seconds(&self) -> u64 {
        self.unix_seconds_at_zero + self.now / 1_000_000_000
    }

    fn submit_metadata(&mut self, kind: Tag, write: MetadataWrite, fua: bool) {
        let MetadataWrite { member, start_sector, data } = write;
        let tag = METADATA | kind | self.metadata_write_count << COUNT_SHIFT | member.0 as Tag;
        self.metadata_write_count += 1;
        let sectors = (data.len() / SECTOR_BYTES) as u64;
        self.engine.core.gate_metadata(member, &start_sector.run(sectors));
        let operation = Operation::Write { from: std::iter::once(data).collect(), fua };
        self.submit(member, Request { tag, start_sector: start_sector.get(), sectors, operation });
    }

    fn metadata_written(&mut self, completion: Completion) {
        let member = MemberId((completion.tag & MEMBER_MASK) as usize);
        let count = (completion.tag & !(METADATA | LOG_APPEND)) >> COUNT_SHIFT;
        let bound = &mut self.members[member.0];
        if bound.dropped_at.is_some_and(|dropped_at| count < dropped_at) {
            return;
        }
        drop(completion.operation);
        if completion.tag & LOG_APPEND != 0 {
            bound.appends -= 1;
            self.append_written(member, completion.result);
        } else {
            bound.updates -= 1;
            self.update_written(member, completion.result);
        }
    }

    fn append_written(&mut self, member: MemberId, result: Result<(), IoError>) {
        if result.is_err() {
            self.log.append_failed(member);
        }
        self.engine.log_appended(member, result);
        self.note_due();
    }

    fn update_written(&mut self, member: MemberId, result: Result<(), IoError>) {
        let running = self.update.as_mut().expect("its write has ended");
        running.writes -= 1;
        if let Err(error) = result {
            running.failures.push((member, error));
            self.recorder.as_mut().expect("the coordinator records").write_failed(member);
        }
        if running.writes == 0 {
            self.go_on_with_update();
        }
    }

    /// Metadata updates do not wait for dropped members, which may never answer (R16).
    fn let_go_of_dropped(&mut self) {
        for member in self.engine.take_dropped() {
            let bound = &mut self.members[member.0];
            (bound.dropped_at, bound.is_closed) = (Some(self.metadata_write_count), true);
            let (updates, appends) = (std::mem::take(&mut bound.updates), std::mem::take(&mut bound.appends));
            let gone = || Err(IoError::new(ErrorKind::Gone, "the member was dropped before it answered"));
            (0..updates).for_each(|_| self.update_written(member, gone()));
            (0..appends).for_each(|_| self.append_written(member, gone()));
            self.note_due();
        }
    }
}

impl<R: Recorder> BlockDevice for ArrayDevice<R> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let mut driver = self.driver.borrow_mut();
        match driver.is_divided {
            true => driver.relay(request),
            false => driver.take_request(request),
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let mut driver = self.driver.borrow_mut();
        driver.now = now.max(driver.now);
        match driver.relay.is_some() {
            true => driver.poll_with_mail(completions),
            false => driver.poll(completions),
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        let driver = self.driver.borrow();
        if driver.actions || driver.relay.as_ref().is_some_and(Relay::has_mail) {
            return Some(0);
        }
        driver.next_wake_of_parts()
    }
}
