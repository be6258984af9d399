//! The lanes of one tree of arrays, in one thread. They exchange the same messages as threads do, and take turns in order.
//! Sometimes a lane misses turns for longer than drives take, like a thread that is not scheduled.
//!
//! Each lane has its part of the tree (`stria-tree`), as on the host. Work that the host does on one lane's thread, or on all
//! threads, is done here in turn.

use crate::chance::Chance;
use crate::member_drive::{Attached, Checked, MountError, OnLane, PATIENCE, Prepared, Ready, UNIX_SECONDS};
use crate::power::Power;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use stria_array::{ArrayStatus, CommandId, Engine, Event, Geometry, LaneEvents, MemberId, MemberState, Refusal};
use stria_block::{BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request, bytes};
use stria_format::md::{Candidate, MdRecorder};
use stria_tree::{ArrayCommand, JoinError, JoinRequest, Joined, NewDrive, Plan, Tree};

/// The number under which a drive joins; one joins at a time.
const OFFER: u64 = 0;

/// A lane pauses after one turn in this many, for at most this long.
const NAP_ONE_IN: u64 = 16;
const NAP_MAX: Nanos = 500_000;
/// A pause in this many is longer on harsh drives, beyond the timers of rules: 2 to 8 s.
const LONG_NAP_ONE_IN: u64 = 500;
const LONG_NAP: std::ops::Range<Nanos> = 2_000_000_000..8_000_000_000;

/// A tree of arrays that runs, on one or several lanes.
pub struct Node {
    /// The lanes' parts, the coordinator's first.
    lanes: Vec<Tree<Attached>>,
    /// The indices, in the tree, of the arrays whose members are drives.
    leaves: Vec<usize>,
    /// The events of each array, by its index in the tree.
    events: Vec<RefCell<LaneEvents>>,
    /// The lane that gets the next request.
    turn: Cell<usize>,
    /// The time until which each lane takes no turns.
    naps: Vec<Nanos>,
    /// The random numbers for pauses; `None`: lanes take all turns.
    chance: Option<Chance>,
    /// The random numbers for long pauses; `None`: there are none.
    long_chance: Option<Chance>,
}

/// One array of a tree, on all lanes.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    node: &'a Node,
    index: usize,
}

impl Node {
    /// Binds every lane's part of a plan, and sets up the engines for the history.
    pub(crate) fn bind(plan: &Plan<Ready>, power: &Rc<Power>) -> Self {
        let count = plan.lane_count();
        power.shares.set((count, plan.start.config.geometry.strip_sectors()));
        let mut binder = OnLane::new(power);
        let bind = |lane| plan.bind(lane, UNIX_SECONDS, binder.turn_to(lane));
        let lanes: Vec<Tree<Attached>> = (0..count).map(bind).collect();
        for array in lanes.iter().flat_map(Tree::tree) {
            array.with_engine(|engine| {
                engine.set_hedging(power.hedges.get());
                engine.set_flaw(power.mutant.get().and_then(crate::mutant::Mutant::flaw));
            });
        }
        let tree = lanes[0].tree();
        let leaves = (0..tree.len()).filter(|&index| tree[index].spans().next().is_none()).collect();
        let merged = |array: &&Tree<Attached>| if array.geometry().level().is_redundant() { count } else { 1 };
        let events = tree.iter().map(|array| RefCell::new(LaneEvents::new(merged(array)))).collect();
        let chance = power.naps.get().map(|seed| Chance::new(seed, 1000 + power.requests()));
        let long_chance = power.long_naps.get().then(|| Chance::new(power.requests(), 3000));
        Self { lanes, leaves, events, turn: Cell::new(0), naps: vec![0; count], chance, long_chance }
    }

    /// The coordinator's part.
    pub fn coordinator(&self) -> &Tree<Attached> {
        &self.lanes[0]
    }

    /// The index of the top array.
    pub fn top(&self) -> Array<'_> {
        Array { node: self, index: 0 }
    }

    /// The arrays whose members are drives.
    pub fn leaves(&self) -> Vec<Array<'_>> {
        (0..self.leaves.len()).map(|leaf| self.leaf(leaf)).collect()
    }

    /// The `leaf`-th of [`Node::leaves`].
    pub fn leaf(&self, leaf: usize) -> Array<'_> {
        Array { node: self, index: self.leaves[leaf] }
    }

    /// The limits of all lanes as one device.
    pub fn limits(&self) -> &Limits {
        self.coordinator().limits()
    }

    /// Gives a request to the lanes in turn.
    pub fn submit(&mut self, request: Request) {
        let lane = self.turn.get();
        self.turn.set((lane + 1) % self.lanes.len());
        self.lanes[lane].submit(request);
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
                    if let Some(chance) = self.long_chance.as_mut()
                        && chance.one_in(LONG_NAP_ONE_IN)
                    {
                        *nap = now + LONG_NAP.start + chance.below(LONG_NAP.end - LONG_NAP.start);
                    }
                }
            }
        }
    }

    /// True if some lane takes no turn for a second at least.
    pub fn is_asleep(&self, now: Nanos) -> bool {
        self.naps.iter().any(|&nap| nap > now + 1_000_000_000)
    }

    /// The time at which the next turn is due.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.lanes.iter().zip(&self.naps).filter_map(|(lane, nap)| Some(lane.next_wake()?.max(*nap))).min()
    }

    /// Allows writes and sweeps.
    pub fn activate(&self) {
        self.lanes.iter().for_each(Tree::activate);
    }

    /// Advances time until `done`, or until a power cut.
    fn run_until(
        &mut self,
        power: &Power,
        done: impl FnMut(&mut Self, &[Completion]) -> bool,
    ) -> Result<Vec<Completion>, MountError> {
        let mut ended = Vec::new();
        self.run_into(power, &mut ended, done)?;
        Ok(ended)
    }

    fn run_into(
        &mut self,
        power: &Power,
        ended: &mut Vec<Completion>,
        mut done: impl FnMut(&mut Self, &[Completion]) -> bool,
    ) -> Result<(), MountError> {
        let patience = power.now() + PATIENCE;
        loop {
            self.poll(power.now(), ended);
            if done(self, ended) {
                return Ok(());
            }
            if power.is_off() {
                return Err(MountError::PowerLost);
            }
            match self.next_wake() {
                Some(due) if due < patience => power.set_now(power.now().max(due)),
                _ => return Err(MountError::Refused("nothing happens any more".into())),
            }
        }
    }

    /// Carries out one request.
    ///
    /// # Errors
    /// The array's error, or a power cut.
    pub fn request(
        &mut self,
        power: &Power,
        start_sector: u64,
        sectors: u64,
        operation: Operation,
    ) -> Result<Operation, IoError> {
        self.submit(Request { tag: u64::MAX >> 1, start_sector, sectors, operation });
        let ended = self.run_until(power, |_, ended| !ended.is_empty());
        let completion = ended.map_err(|error| IoError::new(ErrorKind::Other, format!("{error:?}")))?.pop().expect("it ended");
        completion.result.map(|()| completion.operation)
    }

    /// Reads sectors.
    ///
    /// # Errors
    /// The array's error, or a power cut.
    pub fn read(&mut self, power: &Power, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let into = std::iter::once(Buffer::zeroed(bytes(sectors))).collect();
        let Operation::Read { into } = self.request(power, start_sector, sectors, Operation::Read { into })? else {
            unreachable!("a read comes back as a read")
        };
        Ok(into.iter().map(|buffer| &buffer[..]).collect::<Vec<_>>().concat())
    }

    /// The metadata on it of the array above; without one, of any array.
    pub(crate) fn candidate(&mut self, power: &Power, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, MountError> {
        let (name, limits): (String, Limits) = (self.coordinator().name().to_owned(), self.limits().clone());
        let (sectors, block) = (limits.size_sectors, limits.logical_block_bytes);
        let mut read = |start: u64, sectors: u64| self.read(power, start, sectors);
        let candidate = match upper_uuid {
            Some(upper_uuid) => Candidate::read_span(name, sectors, block, upper_uuid, &mut read),
            None => Candidate::read(name, sectors, block, &mut read),
        };
        if power.is_off() { Err(MountError::PowerLost) } else { Ok(candidate) }
    }

    /// Advances time until all drives are idle.
    ///
    /// # Errors
    /// A power cut.
    pub(crate) fn come_to_rest(&mut self, power: &Power) -> Result<(), MountError> {
        let is_busy = |node: &Self| {
            let tree = node.coordinator().tree();
            tree.iter().any(|array| array.members().iter().any(|member| member.drive().is_some_and(Attached::is_busy)))
        };
        self.run_until(power, |node, _| !is_busy(node)).map(drop)
    }

    /// Stops the array cleanly, and its spans after it.
    ///
    /// # Errors
    /// A power cut.
    pub fn stop(&mut self, power: &Power) -> Result<(), MountError> {
        self.stop_with(power, &mut Vec::new())
    }

    /// As [`stop`](Self::stop), and gives `ended` the requests that were in flight.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub fn stop_with(&mut self, power: &Power, ended: &mut Vec<Completion>) -> Result<(), MountError> {
        self.coordinator().begin_stop();
        self.run_into(power, ended, |node, _| node.coordinator().is_stopped())
    }

    /// The reason why the array has not stopped cleanly, once it has stopped.
    pub fn stop_refusal(&self) -> Option<String> {
        self.coordinator().stop_refusal().map(|(name, refusal)| format!("{name}: {refusal}"))
    }

    /// The index in the tree of a leaf.
    pub fn index_of(&self, leaf: usize) -> usize {
        self.leaves[leaf]
    }

    /// The leaf of an index in the tree.
    pub fn leaf_of(&self, index: usize) -> usize {
        self.leaves.iter().position(|&known| known == index).expect("its members are drives")
    }

    /// The parts of all lanes, the coordinator's first.
    pub(crate) fn lanes_mut(&mut self) -> &mut [Tree<Attached>] {
        &mut self.lanes
    }

    /// Prepares a drive to join a leaf: its metadata and the way in which it joins. `stale`: as a mutant does, regardless of what
    /// the drive missed.
    pub(crate) fn newcomer(
        &self,
        leaf: usize,
        mut new: NewDrive<(usize, u32)>,
        stale: bool,
        replaces: Option<MemberId>,
    ) -> (NewDrive<(usize, u32)>, JoinRequest) {
        let leaf = self.leaf(leaf);
        if let Ok(member) = &mut new.candidate.found
            && member.superblock.header.set_uuid == leaf.uuid()
            && stale
        {
            member.superblock.header.events = leaf.coordinator().recorder().events_for(&member.superblock);
        }
        let replaces = replaces.map(|member| (leaf.index, member));
        (new, JoinRequest { array: Some(leaf.name().to_owned()), force: true, return_only: false, replaces })
    }

    /// Offers a drive that was prepared to every lane.
    ///
    /// # Errors
    /// The drive may not join.
    pub(crate) fn offer(&mut self, prepared: &Prepared, power: &Rc<Power>) -> Result<Joined, JoinError> {
        let Prepared { new, intended, request, ready } = prepared;
        let mut binder = OnLane::new(power);
        let joined = self.lanes[0].offer_first(new, *intended, request, OFFER, || binder.attach(ready))?;
        for (lane, tree) in self.lanes.iter_mut().enumerate().skip(1) {
            let (device, drive) = binder.turn_to(lane).attach(ready);
            tree.offer(joined.array, joined.offer, device, drive);
        }
        Ok(joined)
    }
}

impl<'a> Array<'a> {
    fn lanes(self) -> impl Iterator<Item = &'a Tree<Attached>> {
        self.node.lanes.iter().map(move |lane| lane.array(self.index))
    }

    fn coordinator(self) -> &'a Tree<Attached> {
        self.node.coordinator().array(self.index)
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        self.coordinator().name()
    }

    /// Its identity.
    pub fn uuid(self) -> [u8; 16] {
        self.coordinator().uuid()
    }

    /// Its shape.
    pub fn geometry(self) -> &'a Geometry {
        self.coordinator().geometry()
    }

    /// The array now.
    pub fn status(self) -> ArrayStatus {
        ArrayStatus::joined(self.lanes().map(Tree::status).collect())
    }

    /// The events since the last call, of all lanes merged.
    pub fn take_events(self) -> Vec<Event> {
        let mut events = self.node.events[self.index].borrow_mut();
        let mut merged = Vec::new();
        for (lane, array) in self.lanes().enumerate() {
            merged.extend(array.take_events().into_iter().flat_map(|event| events.merge(lane, event, false)));
        }
        merged
    }

    /// The recorder of its metadata.
    pub fn recorder(self) -> RefMut<'a, MdRecorder> {
        self.coordinator().recorder()
    }

    /// Calls a function on every lane's engine. Returns the coordinator's answer.
    pub fn with_engine<T>(self, ask: impl Fn(&mut Engine) -> T) -> T {
        let mut said = self.lanes().map(|lane| lane.with_engine(&ask)).collect::<Vec<_>>();
        said.swap_remove(0)
    }

    /// True if any lane replays, so that no member may be failed.
    pub fn is_replaying(self) -> bool {
        self.lanes().any(|lane| lane.with_engine(|engine| engine.is_replaying()))
    }

    /// True if any lane relies on this member's log alone, so that the member may not be failed.
    pub fn has_writes_not_in_place(self) -> bool {
        self.lanes().any(|lane| lane.with_engine(|engine| engine.has_writes_not_in_place()))
    }

    /// True if some lane has a write-behind whose only log holder is this member.
    pub fn is_sole_log_holder(self, member: MemberId) -> bool {
        self.lanes().any(|lane| lane.with_engine(|engine| engine.is_sole_log_holder(member)))
    }

    /// True if the superblocks name every dropped member, of any lane.
    pub fn drops_are_committed(self) -> bool {
        self.lanes().all(|lane| lane.with_engine(|engine| engine.drops_are_committed()))
    }

    /// Gives the array a command.
    pub fn begin(self, command: ArrayCommand) -> CommandId {
        self.node.coordinator().begin(self.index, command)
    }

    /// The result of a command that has ended.
    pub fn take_answer(self, id: CommandId) -> Option<Result<(), Refusal>> {
        self.node.coordinator().take_answer(self.index, id)
    }

    /// True if all lanes have dropped a member.
    pub fn has_failed(self, member: MemberId) -> bool {
        self.lanes().all(|lane| lane.status().members[member.0].state == MemberState::Failed)
    }

    /// True if no lane uses a member.
    pub fn is_idle(self, member: MemberId) -> bool {
        let idle = |role| matches!(role, MemberState::Failed | MemberState::Spare);
        self.lanes().all(|lane| idle(lane.status().members[member.0].state))
    }

    /// The newest handle of a drive here.
    pub fn handle_of(self, drive: usize) -> Option<MemberId> {
        self.coordinator().handle_of(|known| known.index == drive)
    }

    /// The drive of a member.
    pub fn drive_of(self, member: MemberId) -> Option<usize> {
        self.coordinator().members().get(member.0)?.drive().map(|drive| drive.index)
    }

    /// The checksums of a member, if it has any.
    pub fn checked(self, member: MemberId) -> Option<&'a Checked> {
        self.coordinator().members().get(member.0)?.drive()?.checked.as_ref()
    }

    /// The checksums of all members that have any.
    pub fn all_checked(self) -> impl Iterator<Item = &'a Checked> {
        self.coordinator().members().iter().filter_map(|member| member.drive()?.checked.as_ref())
    }

    /// The metadata that make a drive a spare, and its identity.
    pub(crate) fn metadata_of_spare(
        self,
        adopt: &stria_format::md::recorder::Adopt,
    ) -> Result<stria_tree::NewMetadata, JoinError> {
        self.node.coordinator().metadata_of_spare(self.index, adopt)
    }

    /// The drives that are in sync, by slot.
    pub fn in_sync_drives(self) -> Vec<Option<usize>> {
        let status = self.status();
        let in_sync = |member: &MemberId| status.members[member.0].state == MemberState::InSync;
        status.slots.iter().map(|slot| slot.filter(in_sync).and_then(|member| self.drive_of(member))).collect()
    }
}
