//! Messages between the lanes of an array, and what a lane does with them.

use super::{Driver, LogLayout};
use crate::lanes::{Coordinator, Instruction, Message, Ports, Relay, Way};
use crate::member::Members;
use crate::{ArrayConfig, IoFailures, LaneLog, LogRecord, MemberId, MetadataUpdate, Recorder, Synced, UpdateEnd};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use stria_block::{Completion, Limits, Request};

/// The state that the coordinator keeps for all lanes.
pub(super) struct CoordinatorLane {
    pub coordinator: Coordinator,
    /// Lanes that have rebuilt their partition of a member.
    rebuilt: BTreeMap<MemberId, BTreeSet<usize>>,
    /// Lanes that still need log records of the last run.
    replaying: BTreeSet<usize>,
}

impl CoordinatorLane {
    pub fn new<P>(config: &ArrayConfig, limits: &[Limits], ports: &Ports<P>) -> Self {
        let replaying = replaying(config, ports);
        let replays: Vec<bool> = (0..ports.lane_count()).map(|lane| replaying.contains(&lane)).collect();
        let coordinator = coordinator(config, limits, &replays);
        Self { coordinator, rebuilt: BTreeMap::new(), replaying }
    }
}

fn coordinator(config: &ArrayConfig, limits: &[Limits], replays: &[bool]) -> Coordinator {
    let mut members = Members::new(config);
    members.set_limits(limits);
    let state = members.state(!config.suspects_parity, config.synced);
    let bad = members.iter().map(|member| (member.config.id, member.config.bad_blocks.clone())).collect();
    Coordinator::new(&state, replays, config.intent.as_ref(), bad)
}

/// Lanes whose partition has log records of the last run.
fn replaying<P>(config: &ArrayConfig, ports: &Ports<P>) -> BTreeSet<usize> {
    let partitions: Vec<_> = (0..ports.lane_count()).map(|lane| ports.partition(&config.geometry, lane)).collect();
    let owner = |record: &LogRecord| {
        partitions.iter().position(|partition| partition.owns(config.geometry.sync_of_stripe(record.stripe)))
    };
    config.replay.iter().filter_map(owner).collect()
}

impl<R: Recorder> Driver<R> {
    /// The messages to and from the other lanes.
    pub(super) fn others(&mut self) -> &mut Relay<LogLayout<R>> {
        self.relay.as_mut().expect("there are several lanes")
    }

    fn coordinator_lane(&mut self) -> &mut CoordinatorLane {
        self.coordinator_lane.as_mut().expect("lanes turn to the coordinator")
    }

    /// Takes a client's request to the lanes that own it.
    pub(super) fn relay(&mut self, request: Request) {
        let request = match self.others().way(&request) {
            Way::Own => return self.take_request(request),
            Way::Direct => match self.read_directly(request) {
                Some(back) => back,
                None => return,
            },
            Way::Owners => request,
        };
        let mut to_do = SmallVec::<[Request; 1]>::new();
        let relay = self.relay.as_mut().expect("there are several lanes");
        relay.submit(request, self.engine.limits(), self.now, |request| to_do.push(request));
        for request in to_do {
            match self.others().is_own(&request) {
                true => self.take_request(request),
                false => {
                    if let Some(back) = self.read_directly(request) {
                        self.others().forward(back);
                    }
                }
            }
        }
    }

    fn read_directly(&mut self, request: Request) -> Option<Request> {
        let Self { engine, members, refused, .. } = self;
        self.actions = true;
        engine.read_directly(request, &mut |member, request| members[member.0].submit(request, refused))
    }

    pub(super) fn poll_with_mail(&mut self, completions: &mut Vec<Completion>) {
        self.engine.set_now(self.now);
        self.take_mail();
        if !self.is_divided {
            self.poll(completions);
            return self.others().post();
        }
        if self.elsewhere.is_empty() && self.others().has_no_tickets() {
            self.poll(completions);
            self.look_for_end_of_requests();
            return self.post();
        }
        let mut ended = std::mem::take(&mut self.elsewhere);
        self.poll(&mut ended);
        let relay = self.others();
        completions.extend(ended.drain(..).filter_map(|completion| relay.ended(completion)));
        self.look_for_end_of_requests();
        self.post();
        self.elsewhere = ended;
    }

    /// Publishes whether direct reads are allowed, and sends messages, before clients get the completions of this iteration
    /// (R44).
    fn post(&mut self) {
        let may_read_directly = self.engine.may_read_directly();
        let allows_direct_reads = may_read_directly && self.engine.allows_direct_reads();
        let relay = self.others();
        relay.publish_direct_reads(may_read_directly, allows_direct_reads);
        relay.post();
    }

    /// Does what other lanes ask for.
    fn take_mail(&mut self) {
        let Some(relay) = &mut self.relay else { return };
        let mut inbox = relay.take_mail();
        for message in inbox.drain(..) {
            match message {
                Message::Request { lane, request } => {
                    let request = self.others().accept(lane, request);
                    self.take_request(request);
                }
                Message::ReadAround { lane, request, slow } => {
                    let request = self.others().accept(lane, request);
                    self.engine.read_around(request, slow);
                }
                Message::Ended(completion) => match self.others().engines_key(&completion) {
                    Some(key) => self.engine.owner_answered(key, completion),
                    None => self.elsewhere.push(completion),
                },
                Message::Update { lane, update } => self.register(lane, update),
                Message::Updated { end, failures } => self.end_update(end, &failures),
                Message::Instruction(instruction) => self.follow(instruction),
                Message::LogLayout(layout) => {
                    let lane = self.others().partition.lane;
                    self.log.set_layout(lane, layout);
                }
                Message::SpareTaken { member, slot } => self.engine.assign_spare(member, slot),
                Message::Dropped { lane, member } => self.note_drop(lane, member),
                Message::Rebuilt { lane, member } => self.note_rebuilt(lane, member),
                Message::Replayed { lane } => self.note_replayed(lane),
                Message::Step { number, step } => self.take_step_for_coordinator(number, step),
                Message::StepDone { number, result } => self.note_step(number, result),
                Message::AllReplayed => self.engine.all_replayed(),
                Message::AllResynced => self.engine.all_resynced(),
                Message::GiveUp => self.engine.set_read_only(true),
                Message::AllRebuilt(member) => self.engine.all_rebuilt(member),
            }
            self.note_due();
        }
        self.others().reuse(inbox);
    }

    /// The engine wants a metadata update.
    pub(super) fn request_update(&mut self, update: MetadataUpdate) {
        match self.relay.as_mut().filter(|_| self.is_divided) {
            None => self.make(update),
            Some(relay) if relay.partition.lane == 0 => self.register(0, update),
            Some(relay) => relay.send(0, Message::Update { lane: relay.partition.lane, update }),
        }
    }

    fn register(&mut self, lane: usize, update: MetadataUpdate) {
        let instructions = self.coordinator_lane().coordinator.ask(lane, update);
        self.give(instructions);
        self.make_next();
    }

    fn give(&mut self, instructions: Vec<(usize, Instruction)>) {
        for (lane, instruction) in instructions {
            match lane {
                0 => self.follow(instruction),
                _ => self.others().send(lane, Message::Instruction(instruction)),
            }
        }
    }

    fn make_next(&mut self) {
        let lane = self.coordinator_lane();
        let done = lane.coordinator.done_already();
        let next = lane.coordinator.next();
        self.report_end(done, UpdateEnd::Durable, &Vec::new());
        if let Some(update) = next {
            self.make(update);
        }
    }

    /// A metadata update has ended: answers the lanes that wanted it.
    pub(super) fn updated(&mut self, update: &MetadataUpdate, end: UpdateEnd, failures: &IoFailures) {
        let Some(lane) = &mut self.coordinator_lane else { return self.end_update(end, failures) };
        let mut lanes = lane.coordinator.recorded();
        // R15: a member that could not be written is dropped before the next metadata update.
        let dropped = self.engine.drop_unrecorded(failures);
        let is_written = dropped.len() == failures.len();
        if let (MetadataUpdate::ResetLog, true) = (update, is_written) {
            lane.coordinator.log_is_reset();
        }
        let instructions = lane.coordinator.drop_members(0, &dropped);
        self.give(instructions);
        let is_taken = end != UpdateEnd::Unwritten && !self.engine.refuses_state(failures);
        let resynced = matches!(update, MetadataUpdate::State(state) if state.synced == Synced::All && is_taken);
        if resynced && !self.engine.knows_all_resynced() {
            self.engine.all_resynced();
            self.others().tell_all(|| Message::AllResynced);
        }
        if matches!(update, MetadataUpdate::State(_)) && !is_taken {
            lanes.extend(self.coordinator_lane().coordinator.state_is_refused());
        }
        self.report_end(lanes, end, failures);
        self.make_next();
    }

    fn report_end(&mut self, lanes: Vec<usize>, end: UpdateEnd, failures: &IoFailures) {
        for lane in lanes {
            match lane {
                0 => self.end_update(end, failures),
                _ => self.others().send(lane, Message::Updated { end, failures: failures.clone() }),
            }
        }
    }

    fn follow(&mut self, instruction: Instruction) {
        match instruction {
            // R42: this lane does what it owed to the member, and then asks for the update itself.
            Instruction::Drop(member) => self.engine.dropped_elsewhere(member),
            Instruction::AskAgain => self.engine.metadata_updated(UpdateEnd::Overtaken, &Vec::new()),
        }
        self.note_due();
    }

    /// This lane has dropped a member.
    pub(super) fn report_drop(&mut self, member: MemberId) {
        match self.others().partition.lane {
            0 => self.note_drop(0, member),
            lane => self.others().send(0, Message::Dropped { lane, member }),
        }
    }

    fn note_drop(&mut self, lane: usize, member: MemberId) {
        let instructions = self.coordinator_lane().coordinator.drop_members(lane, &[member]);
        self.give(instructions);
    }

    /// This lane's partition of a member is rebuilt.
    pub(super) fn report_rebuilt(&mut self, member: MemberId) {
        match self.others().partition.lane {
            0 => self.note_rebuilt(0, member),
            lane => self.others().send(0, Message::Rebuilt { lane, member }),
        }
    }

    /// This lane no longer needs the log records of the last run.
    pub(super) fn report_replayed(&mut self) {
        match self.others().partition.lane {
            0 => self.note_replayed(0),
            lane => self.others().send(0, Message::Replayed { lane }),
        }
    }

    fn note_replayed(&mut self, lane: usize) {
        let replaying = &mut self.coordinator_lane().replaying;
        if replaying.remove(&lane) && replaying.is_empty() {
            self.others().tell_all(|| Message::AllReplayed);
            self.engine.all_replayed();
            self.note_due();
        }
    }

    fn note_rebuilt(&mut self, lane: usize, member: MemberId) {
        let lane_count = self.others().partition.lane_count;
        // A member that is gone may hold what this one could not be given.
        let has_failed = self.engine.has_failed();
        let rebuilt = &mut self.coordinator_lane().rebuilt;
        let lanes = rebuilt.entry(member).or_default();
        lanes.insert(lane);
        if lanes.len() == lane_count && !has_failed {
            rebuilt.remove(&member);
            self.others().tell_all(|| Message::AllRebuilt(member));
            self.engine.all_rebuilt(member);
            self.note_due();
        }
    }
}
