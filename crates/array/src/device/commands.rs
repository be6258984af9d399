//! The driver's part in commands: has every lane take their steps, and admits new members with their devices.

use super::{BoundMember, Driver};
use crate::command::{Command, CommandId, Step};
use crate::lanes::Message;
use crate::{LaneLog, MemberId, Recorder, Refusal};
use std::collections::BTreeMap;
use stria_block::BlockDevice;

/// Commands under way.
pub(super) struct Running<N> {
    /// Drives that join, by command.
    newcomers: BTreeMap<CommandId, N>,
    /// Devices of drives that join, by the number under which they were offered.
    pub offers: BTreeMap<u64, Box<dyn BlockDevice>>,
    /// On the coordinator: by step, how many lanes have not answered, and the first refusal.
    steps: BTreeMap<u64, (usize, Result<(), Refusal>)>,
    answers: BTreeMap<CommandId, Result<(), Refusal>>,
    stop: Option<CommandId>,
    /// The step of a stop that waits for requests on other lanes.
    pub ends_requests: Option<u64>,
    /// How the stop has ended.
    pub stopped: Option<Result<(), Refusal>>,
}

impl<N> Default for Running<N> {
    fn default() -> Self {
        Self {
            newcomers: BTreeMap::new(),
            offers: BTreeMap::new(),
            steps: BTreeMap::new(),
            answers: BTreeMap::new(),
            stop: None,
            ends_requests: None,
            stopped: None,
        }
    }
}

impl<N> Running<N> {
    pub fn take_answer(&mut self, id: CommandId) -> Option<Result<(), Refusal>> {
        self.answers.remove(&id)
    }
}

impl<R: Recorder> Driver<R> {
    pub(super) fn begin(&mut self, command: Command<R::Newcomer>) -> CommandId {
        assert_eq!(self.lane(), 0, "commands are given to the coordinator");
        self.note_due();
        let stops = matches!(command, Command::Stop);
        let (command, newcomer) = command.split();
        let id = self.engine.command(command);
        self.running.newcomers.extend(newcomer.map(|newcomer| (id, newcomer)));
        if stops {
            self.running.stop.get_or_insert(id);
        }
        id
    }

    pub(super) fn stop(&mut self) {
        if self.running.stop.is_none() {
            self.begin(Command::Stop);
        }
    }

    pub(super) fn command_done(&mut self, id: CommandId, result: Result<(), Refusal>) {
        self.running.newcomers.remove(&id);
        if self.running.stop == Some(id) {
            self.running.stopped = Some(result.clone());
        }
        self.running.answers.insert(id, result);
    }

    /// Makes every lane take a step, this one first: if it refuses, the others are not asked.
    pub(super) fn on_every_lane(&mut self, number: u64, step: Step) {
        let own = self.take_step(number, step.clone());
        if let Some(Err(refusal)) = own {
            return self.step_answered(number, Err(refusal));
        }
        let mut waits = usize::from(own.is_none());
        if let Some(relay) = &mut self.relay {
            waits += relay.partition.lane_count - 1;
            relay.tell_all(|| Message::Step { number, step: step.clone() });
        }
        match waits {
            0 => self.step_answered(number, Ok(())),
            waits => drop(self.running.steps.insert(number, (waits, Ok(())))),
        }
    }

    fn step_answered(&mut self, number: u64, result: Result<(), Refusal>) {
        self.engine.step_answered(number, result);
        self.note_due();
    }

    /// Takes a step of a command. `None`: its end comes later.
    fn take_step(&mut self, number: u64, step: Step) -> Option<Result<(), Refusal>> {
        self.note_due();
        match step {
            Step::Add { config, slot, offer, replaces } => {
                let device = self.running.offers.remove(&offer).expect("every lane is offered the device before the command");
                self.update_layout();
                let (member, start, bad_blocks) = (config.id, config.data_start_sector, config.bad_blocks.clone());
                let added = self.engine.add(config, device.limits(), slot, replaces);
                assert!(added.is_ok() || self.lane() == 0, "lanes admit the members of the coordinator: {added:?}");
                if added.is_err() {
                    // The caller takes it back: to drop it here might wait for the drive.
                    self.running.offers.insert(offer, device);
                    return Some(added);
                }
                if let Some(lane) = &mut self.coordinator_lane {
                    lane.coordinator.admit(member, &bad_blocks);
                }
                self.members.push(BoundMember::new(device, start));
                Some(added)
            }
            Step::Remove(member) => {
                let removed = self.engine.take_step(number, step);
                if removed == Some(Ok(())) {
                    self.release(member);
                }
                removed
            }
            Step::EndRequests => {
                self.engine.begin_stop();
                self.running.ends_requests = Some(number).filter(|_| self.has_requests_elsewhere());
                self.running.ends_requests.is_none().then_some(Ok(()))
            }
            step => self.engine.take_step(number, step),
        }
    }

    fn release(&mut self, member: MemberId) {
        let bound = &mut self.members[member.0];
        (bound.leaves, bound.is_closed) = (true, true);
        if bound.in_flight == 0 {
            bound.device = None;
        }
    }

    fn has_requests_elsewhere(&self) -> bool {
        self.relay.as_ref().is_some_and(|relay| !relay.has_no_tickets())
    }

    /// Ends the step that waits for requests on other lanes, once they have ended.
    pub(super) fn look_for_end_of_requests(&mut self) {
        if let Some(number) = self.running.ends_requests.filter(|_| !self.has_requests_elsewhere()) {
            self.running.ends_requests = None;
            self.step_done(number, Ok(()));
        }
    }

    /// Takes a step for the coordinator.
    pub(super) fn take_step_for_coordinator(&mut self, number: u64, step: Step) {
        if let Some(result) = self.take_step(number, step) {
            self.step_done(number, result);
        }
    }

    /// This lane has taken a step.
    pub(super) fn step_done(&mut self, number: u64, result: Result<(), Refusal>) {
        match self.lane() {
            0 => self.note_step(number, result),
            _ => self.others().send(0, Message::StepDone { number, result }),
        }
    }

    /// A lane has taken a step.
    pub(super) fn note_step(&mut self, number: u64, result: Result<(), Refusal>) {
        let (waits, all) = self.running.steps.get_mut(&number).expect("lanes answer once");
        *waits -= 1;
        if all.is_ok() {
            *all = result;
        }
        if *waits == 0 {
            let (_, all) = self.running.steps.remove(&number).expect("just seen");
            self.step_answered(number, all);
        }
    }

    /// Admits the drive of a command on every lane.
    pub(super) fn admit(
        &mut self,
        id: CommandId,
        number: u64,
        offer: u64,
        replaces: Option<(MemberId, usize)>,
        may_return: Result<(), Refusal>,
    ) {
        let newcomer = self.running.newcomers.remove(&id).expect("it came with the command");
        let recorder = self.recorder.as_mut().expect("the coordinator records");
        let before = recorder.clone();
        let admitted = recorder.admit(self.engine.next_member(), &newcomer);
        // R11: a new spare may come although a drop is not recorded.
        let admitted = admitted.and_then(|(config, slot)| match may_return {
            Err(refusal) if slot.is_some() => Err(refusal),
            _ => Ok((config, slot)),
        });
        match admitted {
            Ok((config, slot)) => {
                let count = self.members.len();
                self.on_every_lane(number, Step::Add { config, slot, offer, replaces });
                if self.members.len() == count {
                    self.recorder = Some(before);
                    self.update_layout();
                }
            }
            Err(refusal) => {
                self.recorder = Some(before);
                self.step_answered(number, Err(refusal));
            }
        }
    }

    /// Gives every lane the positions of the logs, as the recorder knows them.
    pub(super) fn update_layout(&mut self) {
        let Some(recorder) = &self.recorder else { return };
        let layout = recorder.log_layout();
        if let Some(relay) = self.relay.as_mut().filter(|_| self.is_divided) {
            relay.tell_all(|| Message::LogLayout(layout.clone()));
            // R39: the next message may add a member on another lane, which then appends to its log.
            relay.post();
        }
        self.log.set_layout(0, layout);
    }
}
