//! The lanes of one array, in one thread: they talk by the same messages as threads do, and take their turns in order, but for now
//! and then: a thread may be kept from its turn for longer than drives take.

use crate::chance::Chance;
use std::cell::{Cell, RefCell, RefMut};
use stria_array::{
    ArrayConfig, ArrayDevice, ArrayStatus, Command, CommandId, Engine, Event, LaneEvents, MemberId, MemberState, Ports, Refusal,
};
use stria_block::{BlockDevice, Completion, Limits, Nanos, Request};
use stria_format::md::MdMetadata;
use stria_format::md::recorder::Newcomer;

/// A command for an array.
pub type ArrayCommand = Command<Newcomer>;

/// An array on one or several lanes.
pub struct Lanes {
    lanes: Vec<ArrayDevice<MdMetadata>>,
    events: RefCell<LaneEvents>,
    /// The lane that takes the next request.
    turn: Cell<usize>,
    /// Until when each takes no turns.
    naps: Vec<Nanos>,
    /// `None`: they take all.
    chance: Option<Chance>,
}

/// A lane of several naps after one turn in so many, for so long at most.
const NAP_ONE_IN: u64 = 16;
const NAP_MAX: Nanos = 500_000;

impl Lanes {
    /// `devices`: for each lane, by member handle. `group_sectors`: how the array is dealt out.
    pub fn new(
        config: &ArrayConfig,
        devices: Vec<Vec<Box<dyn BlockDevice>>>,
        recorder: MdMetadata,
        unix_seconds: u64,
        group_sectors: u64,
        chance: Option<Chance>,
    ) -> Self {
        let ports = Ports::new(devices.len()).with_groups(group_sectors);
        let events = RefCell::new(LaneEvents::new(if config.geometry.level().is_redundant() { devices.len() } else { 1 }));
        let naps = vec![0; devices.len()];
        let mut recorder = Some(recorder);
        let lane = |(lane, devices)| ArrayDevice::on_lane(config, devices, recorder.take(), unix_seconds, &ports, lane);
        Self { lanes: devices.into_iter().enumerate().map(lane).collect(), events, turn: Cell::new(0), naps, chance }
    }

    /// A device for each lane of the array above, which has as many.
    pub fn for_above(&self) -> Vec<Box<dyn BlockDevice>> {
        self.lanes.iter().map(|lane| Box::new(lane.clone()) as _).collect()
    }

    fn home(&self) -> &ArrayDevice<MdMetadata> {
        &self.lanes[0]
    }

    /// What all lanes are as one device.
    pub fn limits(&self) -> &Limits {
        self.home().limits()
    }

    /// The array now.
    pub fn status(&self) -> ArrayStatus {
        self.look().0
    }

    /// The array now, and whether all lanes know of each other's dropped members.
    pub fn look(&self) -> (ArrayStatus, bool) {
        let statuses: Vec<ArrayStatus> = self.lanes.iter().map(ArrayDevice::status).collect();
        let failed = |lane: usize| statuses[lane].members.iter().map(|member| member.role == MemberState::Failed);
        let agree = (1..statuses.len()).all(|lane| failed(lane).eq(failed(0)));
        (ArrayStatus::joined(statuses), agree)
    }

    /// What a log should have.
    pub fn take_events(&self) -> Vec<Event> {
        let mut told = Vec::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            told.extend(lane.take_events().into_iter().flat_map(|event| self.events.borrow_mut().hear(index, event, false)));
        }
        told
    }

    /// The home lane's.
    pub fn recorder(&self) -> RefMut<'_, MdMetadata> {
        self.home().recorder()
    }

    /// Sets something on every lane's engine, or asks it; what the home lane says to it.
    pub fn command<T>(&self, command: impl Fn(&mut Engine) -> T) -> T {
        let said = self.home().command(&command);
        self.lanes[1..].iter().for_each(|lane| drop(lane.command(&command)));
        said
    }

    /// Whether any lane still carries out what a crash left, so that nobody may be failed.
    pub fn is_replaying(&self) -> bool {
        self.lanes.iter().any(|lane| lane.command(|engine| engine.is_replaying()))
    }

    /// Whether any lane left to this member's log alone what clients know, so that it may not be failed.
    pub fn is_sole_log_holder(&self, member: MemberId) -> bool {
        self.lanes.iter().any(|lane| lane.command(|engine| engine.is_sole_log_holder(member)))
    }

    /// Whether all who were dropped are known as such on the others.
    pub fn drops_are_committed(&self) -> bool {
        self.lanes.iter().all(|lane| lane.command(|engine| engine.drops_are_committed()))
    }

    /// Gives the array a command.
    pub fn begin(&self, command: ArrayCommand) -> CommandId {
        self.home().begin(command)
    }

    /// Its result, once it has ended.
    pub fn take_answer(&self, id: CommandId) -> Option<Result<(), Refusal>> {
        self.home().take_answer(id)
    }

    /// Begins to stop.
    pub fn stop(&self) {
        self.home().stop();
    }

    /// Whether all lanes have stopped.
    pub fn has_stopped(&self) -> bool {
        self.home().has_stopped()
    }

    /// Offers a drive that is to join. `devices`: for each lane.
    pub fn offer(&self, number: u64, devices: Vec<Box<dyn BlockDevice>>) {
        self.lanes.iter().zip(devices).for_each(|(lane, device)| lane.offer(number, device));
    }

    /// It did not join.
    pub fn withdraw(&self, number: u64) {
        self.lanes.iter().for_each(|lane| drop(lane.withdraw(number)));
    }

    /// How many members all lanes know of.
    pub fn member_count(&self) -> usize {
        self.lanes.iter().map(ArrayDevice::member_count).min().expect("there is a lane")
    }

    /// Whether all lanes have dropped a member.
    pub fn has_failed(&self, member: MemberId) -> bool {
        self.lanes.iter().all(|lane| lane.status().members[member.0].role == MemberState::Failed)
    }

    /// Whether no lane uses a member.
    pub fn is_idle(&self, member: MemberId) -> bool {
        let idle = |role| matches!(role, MemberState::Failed | MemberState::Spare);
        self.lanes.iter().all(|lane| idle(lane.status().members[member.0].role))
    }

    fn next_lane(&self) -> &ArrayDevice<MdMetadata> {
        let lane = self.turn.get();
        self.turn.set((lane + 1) % self.lanes.len());
        &self.lanes[lane]
    }

    /// Gives a request to the lanes in turn.
    pub fn submit(&self, request: Request) {
        self.next_lane().clone().submit(request);
    }

    /// Lets every lane take a turn.
    pub fn poll(&mut self, now: Nanos, ended: &mut Vec<Completion>) {
        let several = self.lanes.len() > 1;
        for (lane, nap) in self.lanes.iter_mut().zip(&mut self.naps) {
            if *nap <= now {
                lane.poll(now, ended);
                if let Some(chance) = self.chance.as_mut().filter(|_| several)
                    && chance.one_in(NAP_ONE_IN)
                {
                    *nap = now + chance.below(NAP_MAX);
                }
            }
        }
    }

    /// When the next turn is due.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.lanes.iter().zip(&self.naps).filter_map(|(lane, nap)| Some(lane.next_wake()?.max(*nap))).min()
    }

    /// How many lanes there are.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }
}
