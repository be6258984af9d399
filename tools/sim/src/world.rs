//! Runs one history: the clock, the clients, the faults, and the moments at which the checkers run.

mod changes;
mod commands;
mod crashes;
mod faults;
mod full;
mod hanging;
mod leaving;
mod starts;

use crate::chance::Chance;
use crate::crossed::{self, Crossed};
use crate::drive::{Drive, Keep, Presence};
use crate::hostile_client::HostileClient;
use crate::lanes::{Array, Node};
use crate::member_drive::{MountError, PATIENCE, SUPERBLOCK, superblock_of};
use crate::model::{Lie, Model, Moment, fill};
use crate::mutant::Mutant;
use crate::power::Power;
use crate::reference;
use crate::trace::{range_words, ranges_below};
use crate::tree;
use crate::workload::{History, Step};
use commands::{AllLanes, Done, Ended};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{
    ArrayStatus, Command, Event, Flaw, MemberId, MemberState, RELIED_ON_MAX, Refusal, SweepKind, Synced, WritePolicy,
};
use stria_block::{Buffer, Completion, Nanos, Operation, Request, SECTOR_BYTES, bytes};
use stria_format::md::{Role, Superblock, superblock::feature};
use stria_tree::{ArrayCommand, Lanes};

/// The rules of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Half of the drives with a volatile cache lie about flushes. Then losses are allowed, and a failure is no bug.
    pub lying_flush: bool,
    /// True if cases that occur together are counted.
    pub cross: bool,
    /// A deliberate bug.
    pub mutant: Option<Mutant>,
    /// The part that survives every power cut; `None`: drawn drive by drive.
    pub keep: Option<Keep>,
}

/// The cost of a run, and its coverage.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests to drives.
    pub requests: u64,
    /// Requests of clients.
    pub client_requests: u64,
    /// Crashes, of either kind.
    pub crashes: u64,
    /// The count of each event, by name.
    pub met: std::collections::BTreeMap<String, u64>,
    /// Client requests, by the cases that occurred together.
    pub crossed: Crossed,
}

/// A forbidden result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step; the count of steps stands for the end.
    pub step: usize,
    /// The result, in words.
    pub what: String,
}

struct Pending {
    tag: u64,
    write: u32,
    range: Range<u64>,
    kind: Kind,
    begun: Moment,
    since: Nanos,
    /// The request, if clients repeat unanswered requests.
    again: Option<Operation>,
}

/// The request. A read is left out: it changes nothing, and its client has seen no bytes.
fn again(operation: &Operation) -> Option<Operation> {
    match operation {
        Operation::Write { from, fua } => Some(Operation::Write { from: from.clone(), fua: *fua }),
        &Operation::WriteZeroes { fua, unmap, fast } => Some(Operation::WriteZeroes { fua, unmap, fast }),
        Operation::Flush => Some(Operation::Flush),
        Operation::Read { .. } | Operation::Extents { .. } => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write {
        fua: bool,
    },
    Discard,
    Flush,
    /// A flush that does not wait for the drives, by the write policy: it guarantees nothing.
    LooseFlush,
}

impl Kind {
    /// The guarantee for a request under a write policy.
    fn under(self, policy: WritePolicy) -> Self {
        match (self, policy) {
            (Kind::Write { .. }, WritePolicy::Through) => Kind::Write { fua: true },
            (Kind::Write { .. }, WritePolicy::Back) => Kind::Write { fua: false },
            (Kind::Flush, WritePolicy::Back) => Kind::LooseFlush,
            (kind, _) => kind,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write { fua: true } => "write FUA",
            Kind::Write { fua: false } => "write",
            Kind::Discard => "discard",
            Kind::Flush => "flush",
            Kind::LooseFlush => "flush that is not waited for",
        }
    }
}

/// The reason why a run stops early.
enum Stop {
    Crashed,
    Wrong(String),
}

type Outcome = Result<(), Stop>;

/// One world.
pub struct World<'a> {
    history: &'a History,
    rules: Rules,
    power: Rc<Power>,
    drives: Vec<Rc<RefCell<Drive>>>,
    node: Option<Node>,
    model: Model,
    chance: Chance,
    /// Random numbers for steps that histories originally did not have.
    more_chance: Chance,
    /// The client that writes superblocks.
    hostile_client: HostileClient,
    /// The array's identity.
    uuid: [u8; 16],
    /// The result of a scrub that runs to find a silent fault, once it has ended.
    examined: Option<Option<faults::Scrubbed>>,
    superblock_to_lose: Option<u64>,
    /// A drive that is to be cut short while no process runs, and the sector.
    shrinks_at_start: Option<(u64, u64)>,
    /// The member that is lost with the next power cut.
    member_to_lose: Option<u64>,
    /// The start after the next crash is cut short after this many events, by a kill (`true`) or a power cut.
    crash_again: Option<(bool, u64)>,
    /// Drives that left, and may return at any later start.
    left: BTreeSet<usize>,
    /// Random numbers for starts.
    start_chance: Chance,
    /// The drive that has no space for data.
    full: Option<usize>,
    /// The drive that had none, and may still have bad blocks for it.
    refilling: Option<usize>,
    /// Until when some drive had no space, if one ever had none.
    full_until: Option<Nanos>,
    /// The time of the next check of the sizes of drives.
    look_due: Option<Nanos>,
    /// The last time at which a drive in use hung.
    hung_at: Nanos,
    /// The time that the last command took.
    answer_took: Nanos,
    /// True if a sole log holder of an early acknowledgement was failed.
    sole_log_holder_is_gone: bool,
    pending: Vec<Pending>,
    /// Requests that killed processes had not answered, since the last process that served.
    unanswered: Vec<Pending>,
    ended: Vec<Completion>,
    tags: u64,
    /// True if the next crash kills the process only.
    kill: bool,
    /// True if a crash together with lost members harms no data at rest, and leaves each request done or not begun.
    write_hole_closed: bool,
    /// True if the log names all rows that may be inconsistent, and the superblocks make it valid. False before the end of the
    /// first resync.
    firm: bool,
    /// True if members or sweeps may still change by themselves.
    watched: bool,
    /// True if all redundancy is consistent.
    settled: bool,
    /// Drives that were dropped at a power cut, and returned as members in sync.
    rejoined: BTreeSet<usize>,
    /// True of each drive that the engine may drop.
    suspect: Vec<bool>,
    tally: Tally,
    /// The write policy, which each start sets anew.
    policy: WritePolicy,
    /// The present phase, for failures.
    phase: &'static str,
    /// The sectors whose requests a trace shows.
    only: Option<Range<u64>>,
}

/// Runs a history to its end.
///
/// # Errors
/// The first forbidden result.
pub fn run(history: &History, rules: Rules) -> Result<Tally, Failure> {
    World::new(history, rules).map_err(|what| Failure { step: 0, what })?.run()
}

/// Runs a history, and gives `hear` a line for each event; of client data, only requests on the sectors `only` of the array.
///
/// # Errors
/// The first forbidden result.
pub fn run_traced(
    history: &History,
    rules: Rules,
    only: Option<Range<u64>>,
    hear: Box<dyn FnMut(&str)>,
) -> Result<Tally, Failure> {
    let mut world = World::new(history, rules).map_err(|what| Failure { step: 0, what })?;
    world.power.trace.begin(only.clone().map(|only| ranges_below(world.node().coordinator(), only)), hear);
    world.only = only;
    world.note_state();
    world.run()
}

impl<'a> World<'a> {
    fn run(mut self) -> Result<Tally, Failure> {
        let mut step = 0;
        self.live(&mut step).map_err(|what| Failure { step, what })?;
        self.tally.requests = self.power.requests();
        Ok(self.tally)
    }

    fn new(history: &'a History, rules: Rules) -> Result<Self, String> {
        let power = Rc::new(Power::default());
        let setup = &history.setup;
        let drives: Vec<Rc<RefCell<Drive>>> = setup
            .drives
            .iter()
            .enumerate()
            .map(|(index, &model)| {
                let chance = Chance::new(history.seed, 100 + index as u64);
                Rc::new(RefCell::new(
                    Drive::new(model, Rc::clone(&power), chance).numbered(index).with_data_from(setup.data_start()),
                ))
            })
            .collect();
        power.bitmap_page_bytes.set(setup.bitmap_page_bytes);
        power.ends_every.set(setup.ends_every);
        power.hedges.set(setup.hedges);
        tree::create(setup, &drives, &power)?;
        power.mutant.set(rules.mutant);
        power.lanes.set(setup.lanes);
        power.late_sweeps.set(setup.late_sweeps);
        power.naps.set(setup.lanes_nap.then_some(history.seed));
        if let Some(mutant) = rules.mutant {
            for (index, drive) in drives.iter().enumerate() {
                if mutant != Mutant::OneSuperblockDropped || index == 1 {
                    drive.borrow_mut().set_mutant(mutant);
                }
            }
        }
        if rules.lying_flush {
            let mut chance = Chance::new(history.seed, 6);
            drives.iter().filter(|_| chance.one_in(2)).for_each(|drive| drive.borrow_mut().lie());
        }
        let node = tree::mount(&drives, &power).map_err(|error| format!("the new array does not start: {error:?}"))?;
        let sectors = node.limits().size_sectors;
        let hostile_client = HostileClient::new(&node, &drives, sectors, Chance::new(history.seed, 13));
        Ok(Self {
            history,
            rules,
            power,
            hostile_client,
            uuid: node.top().uuid(),
            suspect: vec![false; drives.len()],
            drives,
            node: Some(node),
            model: Model::new(sectors),
            chance: Chance::new(history.seed, 2),
            more_chance: Chance::new(history.seed, 9),
            examined: None,
            superblock_to_lose: None,
            shrinks_at_start: None,
            member_to_lose: None,
            crash_again: None,
            left: BTreeSet::new(),
            start_chance: Chance::new(history.seed, 18),
            full: None,
            refilling: None,
            full_until: None,
            look_due: None,
            hung_at: 0,
            answer_took: 0,
            sole_log_holder_is_gone: false,
            pending: Vec::new(),
            unanswered: Vec::new(),
            ended: Vec::new(),
            tags: 0,
            kill: false,
            write_hole_closed: setup.closes_write_hole(),
            firm: setup.assume_clean,
            watched: true,
            settled: false,
            rejoined: BTreeSet::new(),
            tally: Tally::default(),
            policy: WritePolicy::Safe,
            phase: "as it goes",
            only: None,
        })
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("an array runs")
    }

    fn meet(&mut self, what: &str) {
        match self.tally.met.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.tally.met.insert(what.to_owned(), 1)),
        }
    }

    fn live(&mut self, step: &mut usize) -> Result<(), String> {
        let steps = &self.history.steps;
        while *step < steps.len() {
            self.power.note(|| format!("step {step}: {:?}", steps[*step]));
            let outcome = self.step(steps[*step]).and_then(|()| self.turn(0).map(drop));
            self.after(outcome)?;
            *step += 1;
        }
        loop {
            self.power.disarm();
            match self.finish() {
                Ok(()) => return Ok(()),
                stopped => self.after(stopped)?,
            }
        }
    }

    fn after(&mut self, outcome: Outcome) -> Result<(), String> {
        let mut outcome = outcome;
        loop {
            match outcome {
                Ok(()) => return Ok(()),
                Err(Stop::Wrong(what)) => return Err(what),
                Err(Stop::Crashed) => outcome = self.recover(),
            }
        }
    }

    /// Counts a request by the state of the array and the present fault. With spans, the state of the first one counts.
    fn cross(&mut self, kind: Kind, range: &Range<u64>) {
        if !self.rules.cross {
            return;
        }
        let leaf = self.node().leaves()[0];
        let status = leaf.status();
        let request = match kind {
            Kind::Write { .. } if self.history.setup.span_count == 1 => crossed::write_kind(leaf.geometry(), &status, range),
            Kind::Write { .. } => "write",
            Kind::Read => "read",
            Kind::Discard => "discard",
            Kind::Flush | Kind::LooseFlush => "flush",
        };
        let state = crossed::state(&status);
        let is = |fault: fn(&Drive) -> bool| self.drives.iter().any(|drive| fault(&drive.borrow()));
        let fault = match () {
            () if self.power.is_armed() => {
                if self.kill {
                    "kill to come"
                } else {
                    "power cut to come"
                }
            }
            () if is(Drive::is_spoiled) => "unreadable sectors",
            () if is(Drive::is_failing) => "write error to come",
            () if is(|drive| drive.presence() == Presence::Pulled) => "drive pulled",
            () => "none",
        };
        *self.tally.crossed.entry((request, state, fault)).or_default() += 1;
    }

    // Traces.

    fn note_client(&self, range: &Range<u64>, words: impl FnOnce() -> String) {
        let concerns = |only: &Range<u64>| range.is_empty() || only.start < range.end && range.start < only.end;
        if self.only.as_ref().is_none_or(concerns) {
            self.power.note(words);
        }
    }

    /// Writes the state after a start to the trace.
    fn note_state(&self) {
        for leaf in self.node().leaves() {
            self.power.note(|| {
                let status = leaf.status();
                let members = status.members.iter().map(|member| {
                    let drive = leaf.drive_of(member.id);
                    format!("drive {drive:?} {:?} {:?}", member.state, member.slot)
                });
                let members: Vec<String> = members.collect();
                let events = leaf.recorder().superblock().header.events;
                let resync = range_words(status.synced.end_in(u64::MAX).get());
                format!(
                    "{} runs from record {events}, in sync to {resync}, bits {:?}: {}",
                    leaf.name(),
                    status.intent,
                    members.join(", ")
                )
            });
        }
    }

    // Clients.

    fn range_at(&self, at: u64, sectors: u64) -> Range<u64> {
        let size = self.model.sectors();
        let block = u64::from(self.node().limits().logical_block_bytes) / SECTOR_BYTES as u64;
        let sectors = sectors.next_multiple_of(block).min(size / block * block);
        let start = at % (size - sectors + 1) / block * block;
        start..start + sectors
    }

    fn submit(&mut self, range: Range<u64>, kind: Kind, operation: Operation, write: u32) -> Outcome {
        while self.pending.len() >= self.history.depth {
            self.wait_for_one()?;
        }
        self.begin(range, kind, operation, write);
        Ok(())
    }

    fn begin(&mut self, range: Range<u64>, kind: Kind, operation: Operation, write: u32) {
        let kind = kind.under(self.policy);
        self.tags += 1;
        self.tally.client_requests += 1;
        let begun = match kind {
            Kind::Read => self.model.begin_read(),
            Kind::Write { .. } | Kind::Discard => {
                let large = range.end - range.start > self.history.setup.untorn_sectors_max();
                self.model.begin_write(write, range.clone(), large)
            }
            Kind::Flush | Kind::LooseFlush => self.model.begin(),
        };
        if kind == Kind::Flush {
            self.power.client_flush.set(self.power.client_flush.get() + 1);
        }
        self.cross(kind, &range);
        let tag = self.tags;
        self.note_client(&range, || format!("request {tag} begins: {} {range:?}", kind.words()));
        let again = if self.history.setup.repeats { again(&operation) } else { None };
        self.pending.push(Pending { tag, write, range: range.clone(), kind, begun, since: self.power.now(), again });
        let request = Request { tag, start_sector: range.start, sectors: range.end - range.start, operation };
        self.node.as_mut().expect("an array runs").submit(request);
    }

    fn write(&mut self, range: Range<u64>, fua: bool) -> Outcome {
        let write = self.tags as u32 + 1;
        let mut buffer = Buffer::zeroed(bytes(range.end - range.start));
        fill(write, range.start, &mut buffer);
        let superblocks = self.hostile_client.fill(write, range.start, &mut buffer, &self.drives, &mut self.model.contents);
        if superblocks > 0 {
            self.meet("superblock written by a client");
        }
        let from = if buffer.len() > SECTOR_BYTES && self.chance.one_in(4) {
            let data = buffer.freeze();
            let cut = bytes(1 + self.chance.below(range.end - range.start - 1));
            [data.slice(0, cut), data.slice(cut, data.len() - cut)].into_iter().collect()
        } else {
            std::iter::once(buffer.freeze()).collect()
        };
        self.submit_write(range, fua, Operation::Write { from, fua }, write)
    }

    fn submit_write(&mut self, range: Range<u64>, fua: bool, operation: Operation, write: u32) -> Outcome {
        self.submit(range, Kind::Write { fua }, operation, write)
    }

    fn read(&mut self, range: Range<u64>) -> Outcome {
        let into = std::iter::once(Buffer::zeroed(bytes(range.end - range.start))).collect();
        self.submit(range, Kind::Read, Operation::Read { into }, 0)
    }

    fn read_all(&mut self) -> Outcome {
        let size = self.model.sectors();
        let mut start = 0;
        while start < size {
            let end = size.min(start + 256);
            self.read(start..end)?;
            start = end;
        }
        self.drain()
    }

    fn completed(&mut self, completion: Completion) -> Outcome {
        let index = self.pending.iter().position(|pending| pending.tag == completion.tag);
        let Some(index) = index else {
            return Err(Stop::Wrong(format!("request {} ended twice", completion.tag)));
        };
        let pending = self.pending.swap_remove(index);
        self.ended_in_time(pending.since)?;
        let Range { start, end } = pending.range;
        self.note_client(&(start..end), || format!("request {} ends: {:?}", completion.tag, completion.result));
        if let Err(error) = &completion.result {
            if matches!(pending.kind, Kind::Write { .. } | Kind::Discard) && self.may_lack_space(pending.since, error) {
                self.meet("write without space");
                self.model.fail_write(pending.write, start..end, pending.begun);
                return Ok(());
            }
            return Err(Stop::Wrong(format!("a client's request for sectors {start}..{end} failed: {error}")));
        }
        match (pending.kind, completion.operation) {
            (Kind::Read, Operation::Read { into }) => {
                let whole;
                let bytes: &[u8] = match &into[..] {
                    [one] => one,
                    several => {
                        whole = several.iter().map(|buffer| &buffer[..]).collect::<Vec<_>>().concat();
                        &whole
                    }
                };
                if bytes.len() != stria_block::bytes(end - start) {
                    return Err(Stop::Wrong(format!("a read of sectors {start}..{end} brought {} bytes", bytes.len())));
                }
                let result = self.model.end_read(pending.begun, start, Some(bytes));
                result.map_err(|lie| Stop::Wrong(self.describe(&lie, start..end)))
            }
            (Kind::Write { fua }, _) => {
                self.model.end_write(pending.write, start..end, pending.begun, fua);
                Ok(())
            }
            // Reads return zeros from now on.
            (Kind::Discard, _) => {
                self.model.end_write(pending.write, start..end, pending.begun, false);
                Ok(())
            }
            (Kind::Flush, _) => {
                self.power.client_flush.set(self.power.client_flush.get() - 1);
                self.model.end_flush(pending.begun);
                Ok(())
            }
            (Kind::LooseFlush, _) => Ok(()),
            (Kind::Read, _) => Err(Stop::Wrong("a read came back as something else".into())),
        }
    }

    fn describe(&self, lie: &Lie, range: Range<u64>) -> String {
        let found = match lie.found {
            Some(0) => "zeros".to_owned(),
            Some(write) => format!("write {write}"),
            None => "garbage".to_owned(),
        };
        format!(
            "a read of sectors {}..{} ({}) found {found} in sector {}, where only writes {:?} may be",
            range.start, range.end, self.phase, lie.sector, lie.allowed
        )
    }

    // Time.

    /// Carries out the events that are due, and moves the clock to the next one. `false`: there is none up to `limit`.
    fn turn(&mut self, limit: Nanos) -> Result<bool, Stop> {
        self.look_at_sizes();
        let mut ended = std::mem::take(&mut self.ended);
        let node = self.node.as_mut().expect("an array runs");
        node.poll(self.power.now(), &mut ended);
        let wake = node.next_wake().into_iter().chain(self.look_due).min();
        if self.power.bad_grew.take() {
            self.model.lose_member();
        }
        for completion in ended.drain(..) {
            self.completed(completion)?;
        }
        self.ended = ended;
        if self.power.is_off() {
            return Err(Stop::Crashed);
        }
        if self.watched {
            self.watch()?;
        }
        match wake {
            Some(due) if due <= limit => {
                let now = self.power.now().max(due);
                self.note_hangs(now);
                self.power.set_now(now);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn wait_for_one(&mut self) -> Outcome {
        let count = self.pending.len();
        while self.pending.len() >= count {
            let oldest = self.pending.iter().map(|pending| pending.since).min().expect("something is pending");
            if !self.turn(oldest + PATIENCE)? && self.pending.len() >= count {
                return Err(Stop::Wrong("a request never ends".into()));
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Outcome {
        while !self.pending.is_empty() {
            self.wait_for_one()?;
        }
        Ok(())
    }

    fn pause(&mut self, pause: Nanos) -> Outcome {
        let end = self.power.now() + pause;
        while self.turn(end)? {}
        self.power.set_now(end);
        Ok(())
    }

    // Watching the array.

    fn statuses(&self) -> Vec<ArrayStatus> {
        self.node().leaves().iter().map(|leaf| leaf.status()).collect()
    }

    /// In a world with checksums no bytes change at rest, so every checksum error is a bug.
    fn checksums(&self) -> Outcome {
        for checked in self.node.iter().flat_map(Node::leaves).flat_map(|leaf| leaf.all_checked()) {
            if let Some(range) = checked.take_findings().first() {
                return Err(Stop::Wrong(format!("checksums of {range:?} call bytes wrong that are right")));
            }
        }
        Ok(())
    }

    fn events(&mut self) -> Outcome {
        self.checksums()?;
        let mut all: Vec<(Event, Option<usize>, Vec<Option<usize>>)> = Vec::new();
        for leaf in self.node().leaves() {
            for event in leaf.take_events() {
                let drive = if let Event::MemberFailed { member, .. } = &event { leaf.drive_of(*member) } else { None };
                let wrong = if let Event::SweepFinished { wrong, .. } = &event { &wrong[..] } else { &[] };
                let named = wrong.iter().map(|(member, _)| leaf.drive_of(*member)).collect();
                all.push((event, drive, named));
            }
        }
        for (event, drive, named) in all {
            self.power.note(|| format!("event: {event:?}{}", drive.map_or(String::new(), |drive| format!(", drive {drive}"))));
            match &event {
                Event::MemberFailed { reason, .. } => {
                    self.meet("member failed");
                    self.model.lose_member();
                    if drive.is_some_and(|drive| self.drives[drive].borrow().hangs()) {
                        self.meet("dropped while it hangs");
                    }
                    let asked = reason.contains("on command") || reason == "replaced";
                    if !asked && drive.is_some_and(|drive| !self.suspect[drive]) {
                        return Err(Stop::Wrong(format!("drive {drive:?} was dropped for nothing: {reason}")));
                    }
                }
                Event::SweepFinished { kind: kind @ SweepKind::Scrub { .. }, mismatch_sectors, .. } => {
                    self.scrub_ended(*kind, *mismatch_sectors, named)?;
                }
                Event::SweepFinished { kind: SweepKind::Resync, .. } => self.meet("resync"),
                Event::SweepFinished { kind: SweepKind::Rebuild, .. } => self.meet("rebuild"),
                Event::ReadCorrected { .. } => self.meet("read corrected"),
                Event::BadBlocks { .. } | Event::Unreadable { .. } => {
                    return Err(Stop::Wrong(format!("something was lost: {event:?}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the state of the array, and decides which faults are allowed now.
    fn watch(&mut self) -> Outcome {
        self.events()?;
        self.watch_full();
        let statuses = self.statuses();
        // Entries of a partial parity log replace a resync, once they are replayed.
        let replays = |status: &ArrayStatus| status.log.is_some_and(|log| log.newest_only && log.replaying);
        self.settled = statuses.iter().all(|status| status.synced == Synced::All && !replays(status));
        if self.settled {
            self.rejoined.clear();
            if statuses.iter().all(is_optimal) {
                self.model.agrees();
            }
        }
        if statuses.iter().any(|status| status.log.is_some_and(|log| log.early_count > 0)) {
            self.meet("acknowledged early");
        }
        if statuses.iter().any(|status| status.log.is_some_and(|log| log.full_count > 0)) {
            self.meet("log full");
        }
        if statuses.iter().flat_map(|status| &status.members).any(|member| member.hedged_count > 0) {
            self.meet("slow read answered by others");
        }
        let redundant = self.history.setup.level.is_redundant();
        let spoiled = self.drives.iter().any(|drive| drive.borrow().is_spoiled() || drive.borrow().is_failing());
        let at_rest = statuses.iter().all(|status| is_optimal(status) && status.sweep.is_none());
        self.firm = self.firm || self.settled && self.is_recorded_firm();
        let allowed = self.may_crash(&statuses);
        self.power.allow(allowed);
        self.power.degraded.set(!statuses.iter().all(is_optimal));
        self.watched = redundant && !(at_rest && self.settled && !spoiled && allowed);
        Ok(())
    }

    /// True if the superblocks of all members say that redundancy is consistent, or that the log names the rows where it may not be.
    fn is_recorded_firm(&self) -> bool {
        let holders = self.node().leaves().into_iter().flat_map(|leaf| leaf.in_sync_drives()).flatten();
        holders.into_iter().all(|drive| {
            let superblock = superblock_of(&self.drives[drive].borrow());
            superblock.is_some_and(|superblock| superblock.vouches_for_parity())
        })
    }

    // The atlas: the faults that are allowed now.

    /// True if the power may fail. RULE of the write hole: without a log, a parity array that lacks a member may not lose power.
    fn may_crash(&self, statuses: &[ArrayStatus]) -> bool {
        if self.examined.is_some() {
            return false;
        }
        if self.write_hole_closed && self.firm || self.history.setup.level.parity_count() == 0 {
            return true;
        }
        let spoiled = (0..self.drives.len()).any(|drive| self.is_harmed(drive) && self.leaf_of(drive).is_some());
        let is_optimal_or_copied = |status: &ArrayStatus| {
            let copies = status.members.iter().any(|member| member.state == MemberState::Replacing);
            let rebuilds = status.sweep.as_ref().is_some_and(|sweep| sweep.kind == SweepKind::Rebuild);
            is_optimal(status) && (!rebuilds || copies)
        };
        // A dropped or replaced member returns with its unreadable sectors, unless the superblocks record that it left.
        let drops_are_recorded = self.node().leaves().iter().all(|leaf| leaf.drops_are_committed());
        !spoiled && drops_are_recorded && statuses.iter().all(is_optimal_or_copied)
    }

    fn is_harmed(&self, drive: usize) -> bool {
        if self.suspect[drive] {
            return true;
        }
        let drive = self.drives[drive].borrow();
        drive.is_spoiled() || drive.is_failing() || drive.presence() != Presence::There
    }

    /// The leaf in which a drive is in use.
    fn leaf_of(&self, drive: usize) -> Option<usize> {
        self.node().leaves().iter().position(|leaf| {
            let role = leaf.handle_of(drive).map(|member| leaf.status().members[member.0].state);
            role.is_some_and(|role| role != MemberState::Failed)
        })
    }

    /// True if a drive of a leaf may be lost, or (`one_place`) some of its sectors.
    fn may_lose(&self, leaf: usize, drive: usize, one_place: bool) -> bool {
        let setup = &self.history.setup;
        let node = self.node().leaf(leaf);
        let status = node.status();
        if setup.level.parity_count() > 0 && !(self.write_hole_closed && self.firm) {
            // A crash together with a lost member is the write hole, in either order.
            if status.synced != Synced::All || self.power.is_armed() {
                return false;
            }
        }
        let holders = node.in_sync_drives();
        let good: Vec<bool> = holders
            .iter()
            .map(|holder| {
                let counts = |holder: usize| {
                    !self.is_harmed(holder) && !self.rejoined.contains(&holder) && self.is_in_sync_on_disk(holder)
                };
                holder.is_some_and(|holder| holder != drive && counts(holder))
            })
            .collect();
        let filled = status.members.iter().any(|member| matches!(member.state, MemberState::Rebuilding | MemberState::Replacing));
        // A member that was just rebuilt is not in sync on disk yet. At a crash it counts as missing.
        if !filled && status.sweep.as_ref().is_some_and(|sweep| sweep.kind == SweepKind::Rebuild) {
            return false;
        }
        // While a member is filled its source must remain.
        if one_place && filled && setup.losses_survived() < 2 {
            return false;
        }
        good.iter().filter(|good| !**good).count() <= setup.losses_survived()
    }

    /// True if a drive's superblock does not say that it is rebuilding or a replacement. Otherwise a crash would make it
    /// rebuilding again.
    fn is_in_sync_on_disk(&self, drive: usize) -> bool {
        let filled = feature::RECOVERY_OFFSET | feature::REPLACEMENT;
        superblock_of(&self.drives[drive].borrow()).is_none_or(|superblock| !superblock.has(filled))
    }

    // Steps.

    fn holder(&self, which: u64) -> Option<(usize, usize)> {
        let leaves = self.node().leaves();
        let leaf = (which >> 32) as usize % leaves.len();
        let holders: Vec<usize> = leaves[leaf].in_sync_drives().into_iter().flatten().collect();
        (!holders.is_empty()).then(|| (leaf, holders[(which & 0xffff_ffff) as usize % holders.len()]))
    }

    /// Drives that no array uses now.
    fn loose(&self) -> Vec<usize> {
        (0..self.drives.len()).filter(|&drive| self.leaf_of(drive).is_none()).collect()
    }

    fn keep(&mut self) -> Keep {
        if let Some(keep) = self.rules.keep {
            return keep;
        }
        match self.chance.below(4) {
            0 => Keep::None,
            1 => Keep::All,
            _ => Keep::Some(self.chance.pick(&[1, 4, 7])),
        }
    }

    fn step(&mut self, step: Step) -> Outcome {
        match step {
            Step::Write { at, sectors, fua } => {
                let range = self.range_at(at, sectors);
                self.write(range, fua)
            }
            Step::Read { at, sectors } => {
                let range = self.range_at(at, sectors);
                self.read(range)
            }
            Step::Zero { at, sectors, fua, unmap } => {
                let range = self.range_at(at, sectors);
                self.submit_write(range, fua, Operation::WriteZeroes { fua, unmap, fast: false }, 0)
            }
            Step::Discard { at, sectors } => {
                let range = self.range_at(at, sectors);
                let operation = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
                self.submit(range, Kind::Discard, operation, 0)
            }
            Step::Flush => self.submit(0..0, Kind::Flush, Operation::Flush, 0),
            Step::Drain => self.drain(),
            Step::Pause(pause) => self.pause(pause),
            Step::Crash { after, kill } => {
                if !self.power.is_armed() {
                    self.kill = kill;
                    self.power.cut_after(after);
                }
                Ok(())
            }
            Step::Restart => {
                self.drain()?;
                self.meet("restart");
                self.restart()
            }
            Step::Settle => self.settle(),
            Step::Policy(which) => self.set_policy(which),
            Step::Change { what, cut } => {
                self.drain()?;
                self.change(what, cut)
            }
            _ if !self.history.setup.level.is_redundant() => Ok(()),
            _ => {
                self.watched = true;
                self.trouble(step)?;
                self.watch()
            }
        }
    }

    /// Carries out steps that concern members.
    fn trouble(&mut self, step: Step) -> Outcome {
        match step {
            Step::Fail(which) | Step::Pull(which) | Step::FailWrite(which) => self.lose_member(step, which),
            Step::Spoil { drive: which, at, sectors } => self.spoil(which, at, sectors),
            Step::Stall { drive, pause } => {
                self.meet("stall");
                let drive = drive as usize % self.drives.len();
                self.drives[drive].borrow_mut().stall(self.power.now() + pause);
                Ok(())
            }
            Step::Grow { drive, at } => self.grow_bad(drive, at),
            Step::Shrink { drive, at, stopped } => self.shrink(drive, at, stopped),
            Step::FailHung => self.fail_hung(),
            Step::Hang { who, eighths, pause, keeps } => self.hang(who, eighths, pause, keeps),
            Step::FailHanging => self.fail_hanging(),
            Step::Full { which, eighths } => self.fill_up(which, eighths),
            Step::Space => {
                self.free_space();
                Ok(())
            }
            Step::Rot { drive, at, rot } => self.rot(drive, at, rot),
            Step::LoseSuperblock(which) => {
                self.superblock_to_lose = Some(which);
                Ok(())
            }
            Step::LoseWithPower(which) => {
                self.member_to_lose = Some(which);
                Ok(())
            }
            Step::CrashAgain { after, kill } => {
                self.crash_again = Some((kill, after));
                Ok(())
            }
            Step::Unplug(which) => self.unplug(which),
            Step::AdoptTorn(which) => self.adopt_torn(which),
            Step::Return(which) => self.bring_back(which),
            Step::AddSpare(which) => self.add_spare(which),
            Step::Remove(which) => self.remove_idle(which),
            Step::Replace(which) => self.replace(which),
            Step::Scrub { repair } => self.scrub(repair),
            Step::Hold(hold) => {
                self.meet("sweeps held");
                for leaf in self.node().leaves() {
                    leaf.with_engine(|engine| engine.pause(hold));
                }
                Ok(())
            }
            Step::Speed(speed) => {
                for leaf in self.node().leaves() {
                    leaf.with_engine(|engine| engine.set_speed(Some(speed), Some(speed)));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A member is failed by command, pulled, or fails a write, where the atlas allows that.
    fn lose_member(&mut self, step: Step, which: u64) -> Outcome {
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, false)) else {
            return Ok(());
        };
        self.model.lose_member();
        match step {
            Step::Fail(_) => self.fail(leaf, drive, false).map(drop),
            Step::Pull(_) => {
                self.meet("pull");
                self.suspect[drive] = true;
                let keep = self.keep();
                self.drives[drive].borrow_mut().pull(keep);
                Ok(())
            }
            _ => {
                self.meet("write error");
                self.suspect[drive] = true;
                self.drives[drive].borrow_mut().fail_writes(1);
                Ok(())
            }
        }
    }

    /// Sectors of a member become unreadable, where the atlas allows that.
    fn spoil(&mut self, which: u64, at: u64, sectors: u64) -> Outcome {
        let Some((leaf, drive)) = self.holder(which).filter(|&(leaf, drive)| self.may_lose(leaf, drive, true)) else {
            return Ok(());
        };
        self.meet("unreadable sectors");
        self.model.lose_member();
        let member_sectors = self.node().leaf(leaf).geometry().member_sectors(0);
        let first = self.history.setup.data_start();
        let start = first + at % member_sectors;
        let spoiled = start..(start + sectors).min(first + member_sectors);
        // Between a corrective write and the read that verifies it, this looks like a drive that cannot be corrected.
        self.suspect[drive] |= self.drives[drive].borrow().is_at(&spoiled);
        self.drives[drive].borrow_mut().spoil(spoiled);
        Ok(())
    }

    /// Adds a loose drive that is present.
    fn add_spare(&mut self, which: u64) -> Outcome {
        let loose = self.loose();
        let there: Vec<usize> =
            loose.into_iter().filter(|&drive| self.drives[drive].borrow().presence() == Presence::There).collect();
        if there.is_empty() {
            return Ok(());
        }
        self.let_in(there[which as usize % there.len()], (which >> 32) as usize)
    }

    /// Removes a member that is failed or a spare.
    fn remove_idle(&mut self, which: u64) -> Outcome {
        let leaves = self.node().leaves();
        let leaf = (which >> 32) as usize % leaves.len();
        let idle = |role| matches!(role, MemberState::Failed | MemberState::Spare);
        let members = leaves[leaf].status().members.into_iter();
        let idle: Vec<_> = members
            .filter(|member| idle(member.state) && leaves[leaf].drive_of(member.id).is_some())
            .map(|member| member.id)
            .collect();
        if !idle.is_empty() && self.remove(leaf, idle[(which & 0xffff) as usize % idle.len()])? {
            self.meet("remove");
        }
        Ok(())
    }

    fn scrub(&mut self, repair: bool) -> Outcome {
        // A scrub needs readable members and a consistent array; otherwise it reports mismatches that are no bugs.
        let statuses = self.statuses();
        let spoiled = self.drives.iter().any(|drive| drive.borrow().is_spoiled());
        if self.settled && !spoiled {
            for (leaf, status) in statuses.iter().enumerate().filter(|(_, status)| is_optimal(status)) {
                if status.sweep.is_none() {
                    let _ = self.carry_out(leaf, Command::Scrub { repair, from_sector: 0 })?;
                }
            }
        }
        Ok(())
    }

    /// Gives a command to a leaf, and advances time until it is answered.
    fn carry_out(&mut self, leaf: usize, command: ArrayCommand) -> Result<Result<(), Refusal>, Stop> {
        let fails = if let Command::Fail(member) = command { Some(member) } else { None };
        let words = format!("{command:?}");
        let id = self.node().leaf(leaf).begin(command);
        let begun = self.power.now();
        let late = begun + PATIENCE;
        // First without advancing time: most commands do not wait.
        let mut limit = begun;
        loop {
            let relied_on = fails.filter(|&member| self.node().leaf(leaf).is_sole_log_holder(member));
            // A turn ends with the clock at the next event.
            self.answer_took = self.power.now() - begun;
            let turned = self.turn(limit);
            if let Some(member) = fails
                && self.node().leaf(leaf).status().members[member.0].state == MemberState::Failed
            {
                self.model.lose_member();
                // A member that hangs is failed nevertheless. The next crash may then take writes that were acknowledged early.
                self.sole_log_holder_is_gone |= relied_on.is_some() && self.power.now() >= begun + RELIED_ON_MAX;
            }
            let goes_on = turned?;
            if let Some(answer) = self.node().leaf(leaf).take_answer(id) {
                return Ok(answer);
            }
            if !goes_on && limit == late {
                return Err(Stop::Wrong(format!("a command never ends: {words}")));
            }
            if !goes_on {
                limit = late;
                self.meet("command waits");
            }
        }
    }

    /// Returns true if the command was carried out.
    fn fail(&mut self, leaf: usize, drive: usize, hangs: bool) -> Result<bool, Stop> {
        let member = self.node().leaf(leaf).handle_of(drive).expect("it holds a slot");
        let index = self.node().index_of(leaf);
        match AllLanes(self).fail(index, member) {
            Ok(()) => {
                self.meet(if hangs { "fail while it hangs" } else { "fail" });
                Ok(true)
            }
            Err(Ended::Stopped(stop)) => Err(stop),
            Err(Ended::Refused(refusal)) => {
                let node = self.node().leaf(leaf);
                // The member may have left by itself meanwhile.
                if node.in_sync_drives().contains(&Some(drive)) && !node.is_replaying() {
                    return Err(Stop::Wrong(format!("a failure that redundancy survives was refused: {refusal}")));
                }
                Ok(false)
            }
        }
    }

    /// Removes a member. `false`: it is in use.
    fn remove(&mut self, leaf: usize, member: MemberId) -> Result<bool, Stop> {
        let has_failed = self.node().leaf(leaf).has_failed(member);
        let index = self.node().index_of(leaf);
        match AllLanes(self).remove(index, member) {
            Ok(()) => Ok(true),
            Err(Ended::Stopped(stop)) => Err(stop),
            Err(Ended::Refused(why)) if has_failed => Err(Stop::Wrong(format!("a failed member could not be removed: {why}"))),
            Err(Ended::Refused(_)) => Ok(false),
        }
    }

    fn bring_back(&mut self, which: u64) -> Outcome {
        let away: Vec<usize> = self
            .loose()
            .into_iter()
            .filter(|&drive| {
                // A drive with requests under way is in use. RULE: a drive with a cache does not return before the superblocks of
                // the others record that it left. Only they record that its cache lost data.
                let held = self.drives[drive].borrow_mut().is_let_go();
                let idle = self.drives[drive].borrow().is_idle();
                let pulled = self.drives[drive].borrow().presence() == Presence::Pulled;
                let volatile = self.drives[drive].borrow().model().volatile_cache;
                let failed = || self.node().leaves().iter().any(|leaf| leaf.handle_of(drive).is_some());
                // It does not return before all lanes know that it failed either.
                let in_use = |leaf: &Array<'_>| leaf.handle_of(drive).is_some_and(|member| !leaf.is_idle(member));
                idle && !self.node().leaves().iter().any(in_use)
                    && if pulled && volatile || held { self.is_drop_recorded(drive) } else { pulled || failed() }
            })
            .collect();
        if away.is_empty() {
            return Ok(());
        }
        let drive = away[which as usize % away.len()];
        self.is_taken_out(drive)?;
        {
            let mut back = self.drives[drive].borrow_mut();
            back.put_back();
            back.fail_writes(0);
            if back.is_short() && which & 1 << 20 == 0 {
                back.renew();
            }
            // It returns with its unreadable sectors.
            self.suspect[drive] = back.grows_bad();
        }
        self.let_in(drive, (which >> 32) as usize)
    }

    /// True if the superblocks of the others record that a pulled drive is missing.
    fn is_drop_recorded(&self, drive: usize) -> bool {
        let superblock = |drive: usize| superblock_of(&self.drives[drive].borrow());
        let Some(Superblock { header, .. }) = superblock(drive) else { return true };
        let leaves = self.node().leaves();
        let Some(leaf) = leaves.into_iter().find(|leaf| leaf.uuid() == header.set_uuid) else { return true };
        let others: Vec<usize> = leaf.in_sync_drives().into_iter().flatten().filter(|&holder| holder != drive).collect();
        let others: Vec<_> = others.into_iter().map(superblock).collect();
        // A later superblock update may still include it, or its number may belong to another drive by now.
        let taken = others.iter().flatten().any(|other| other.header.dev_number == header.dev_number);
        let counts_on_it =
            |other: &Superblock| !taken && matches!(other.roles.get(header.dev_number as usize), Some(Role::Slot(_)));
        others.iter().all(|other| other.as_ref().is_some_and(|other| other.header.events > header.events && !counts_on_it(other)))
    }

    /// Removes a drive that has failed, since it cannot be opened before. `false`: not all lanes know that it failed.
    fn is_taken_out(&mut self, drive: usize) -> Result<bool, Stop> {
        for leaf in 0..self.node().leaves().len() {
            let Some(member) = self.node().leaf(leaf).handle_of(drive) else { continue };
            if !self.remove(leaf, member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a drive to the array to which it belonged, or otherwise to the `which`-th.
    fn let_in(&mut self, drive: usize, which: usize) -> Outcome {
        // The last owner keeps the drive until its requests have ended.
        let late = self.power.now() + PATIENCE;
        while self.drives[drive].borrow().is_busy() && self.turn(late)? {}
        if !self.is_taken_out(drive)? {
            self.meet("refused as a member");
            return Ok(());
        }
        let uuid = superblock_of(&self.drives[drive].borrow()).map(|superblock| superblock.header.set_uuid);
        let leaves = self.node().leaves();
        let leaf = leaves.iter().position(|leaf| Some(leaf.uuid()) == uuid).unwrap_or(which % leaves.len());
        let stale = self.rules.mutant == Some(Mutant::Engine(Flaw::StaleAccepted));
        // A drive that joins anew has no faults, unless one of its next writes fails.
        let anew = self.drives[drive].borrow().is_bad(&SUPERBLOCK) && !self.drives[drive].borrow().is_failing();
        self.suspect[drive] &= !anew;
        let mut comes_back = false;
        let joined = AllLanes(self).add(|lanes| {
            let prepared = tree::prepare(lanes.0.node(), leaf, &lanes.0.drives, drive, stale, None)
                .map_err(|error| Ended::Refused(error.to_string()))?;
            comes_back = !prepared.is_new;
            Ok(prepared)
        });
        self.meet(match (joined.done()?, comes_back) {
            (false, _) => "refused as a member",
            (true, true) => "came back by the bitmap",
            (true, false) => "joined as a spare",
        });
        Ok(())
    }

    fn replace(&mut self, which: u64) -> Outcome {
        let Some((leaf, old)) = self.holder(which) else { return Ok(()) };
        let loose = self.loose();
        let there = loose.into_iter().find(|&drive| {
            self.drives[drive].borrow().presence() == Presence::There
                && !self.drives[drive].borrow().is_busy()
                && self.node().leaves().iter().all(|leaf| leaf.handle_of(drive).is_none())
        });
        // A rebuild that has just ended is recorded first.
        let status = self.node().leaf(leaf).status();
        if !is_optimal(&status) || status.sweep.as_ref().is_some_and(|sweep| sweep.kind == SweepKind::Rebuild) {
            return Ok(());
        }
        let member = self.node().leaf(leaf).handle_of(old).expect("it holds a slot");
        let Some(new) = there else {
            let spare = status.members.iter().find(|member| member.state == MemberState::Spare);
            return spare.map_or(Ok(()), |spare| self.replace_by_spare(leaf, member, spare.id));
        };
        let Ok(prepared) = tree::prepare(self.node(), leaf, &self.drives, new, false, Some(member)) else {
            self.meet("refused as a member");
            return Ok(());
        };
        let joined = AllLanes(self).join(prepared).done()?;
        self.meet(if joined { "replace" } else { "refused as a member" });
        Ok(())
    }

    fn replace_by_spare(&mut self, leaf: usize, member: MemberId, spare: MemberId) -> Outcome {
        let index = self.node().index_of(leaf);
        let began = AllLanes(self).replace(index, member, spare).done()?;
        self.meet(if began { "replace by a spare" } else { "replace by a spare refused" });
        Ok(())
    }

    fn settle(&mut self) -> Outcome {
        self.drain()?;
        for leaf in self.node().leaves() {
            leaf.with_engine(|engine| {
                engine.set_speed(Some(u64::MAX), Some(u64::MAX));
                engine.pause(false);
            });
        }
        let late = self.power.now() + PATIENCE;
        let mut goes_on = true;
        loop {
            self.watch()?;
            let busy = self.statuses().iter().any(|status| {
                status.sweep.is_some()
                    || status.synced != Synced::All
                    || status
                        .members
                        .iter()
                        .any(|member| matches!(member.state, MemberState::Rebuilding | MemberState::Replacing))
            });
            if !busy {
                return Ok(());
            }
            if !goes_on {
                return Err(Stop::Wrong(format!("a sweep never ends: {:?}", self.statuses())));
            }
            goes_on = self.turn(late)?;
        }
    }

    // Ends and beginnings.

    fn restart(&mut self) -> Outcome {
        self.stop()?;
        self.mount("after a clean stop")
    }

    fn stop(&mut self) -> Outcome {
        self.free_space();
        let power = Rc::clone(&self.power);
        let stopped = self.node.as_mut().expect("an array runs").stop(&power);
        match stopped {
            Err(MountError::PowerLost) => return Err(Stop::Crashed),
            Err(MountError::Refused(what)) => return Err(Stop::Wrong(format!("the array does not stop: {what}"))),
            Ok(()) => {}
        }
        self.events()?;
        let short = self.shrinks_now(None);
        // A member that was dropped while no superblock could record that must not be found by the next start.
        self.node = None;
        for index in 0..self.drives.len() {
            let keep = self.keep();
            self.drives[index].borrow_mut().cut(keep);
        }
        if let Some((drive, end)) = short {
            self.cut_short(drive, end);
        }
        // After a clean stop no cache has data that is needed, so the power may fail too.
        let flushed = self.model.begin();
        self.model.end_flush(flushed);
        self.model.crash(true);
        Ok(())
    }

    fn mount(&mut self, when: &str) -> Outcome {
        match tree::mount(&self.drives, &self.power) {
            Ok(node) if (node.top().uuid(), node.limits().size_sectors) != (self.uuid, self.model.sectors()) => {
                Err(Stop::Wrong(format!("{when} another array is served: \"{}\"", node.top().name())))
            }
            Ok(node) => {
                self.node = Some(node);
                self.hold_policy();
                self.note_state();
                self.watched = true;
                self.watch()
            }
            Err(MountError::PowerLost) => Err(Stop::Crashed),
            Err(MountError::Refused(what)) => Err(Stop::Wrong(format!("{when} the array does not start: {what}"))),
        }
    }

    // The last checks.

    fn finish(&mut self) -> Outcome {
        self.drain()?;
        self.phase = "before all is at rest";
        self.read_all()?;
        self.settle()?;
        self.fill_bad_blocks()?;
        self.phase = "when all is at rest";
        self.read_all()?;
        self.check_redundancy("when all is at rest")?;
        self.restart()?;
        self.settle()?;
        self.phase = "after the last start";
        self.read_all()?;
        self.check_redundancy("after the last start")?;
        self.without_some()
    }

    /// If no member is missing, redundancy is consistent by the plain reference.
    fn check_redundancy(&mut self, when: &str) -> Outcome {
        for leaf in self.node().leaves() {
            let holders: Option<Vec<usize>> = leaf.in_sync_drives().into_iter().collect();
            let Some(holders) = holders else { continue };
            // A drive may have been pulled and not been used since, so the array does not know.
            if holders.iter().any(|&drive| {
                let drive = self.drives[drive].borrow();
                drive.presence() != Presence::There || drive.is_cut()
            }) {
                continue;
            }
            if self.drives.iter().any(|drive| drive.borrow().is_spoiled()) {
                continue;
            }
            let drives: Vec<_> = holders.iter().map(|&drive| self.drives[drive].borrow()).collect();
            let images: Vec<_> = drives.iter().map(|drive| (drive.image(), self.history.setup.data_start())).collect();
            if let Some(what) = reference::disagreement(leaf.geometry(), &images) {
                return Err(Stop::Wrong(format!("{when}, {what}")));
            }
        }
        Ok(())
    }

    /// All data is still there without as many members as the level survives.
    fn without_some(&mut self) -> Outcome {
        let setup = &self.history.setup;
        if setup.losses_survived() == 0 || !self.statuses().iter().all(is_optimal) {
            return Ok(());
        }
        let power = Rc::clone(&self.power);
        let stopped = self.node.as_mut().expect("an array runs").stop(&power);
        stopped.map_err(|error| Stop::Wrong(format!("the array does not stop: {error:?}")))?;
        let choices = self.choices_to_lose();
        self.node = None;
        choices.iter().try_for_each(|lost| self.holds_without(lost))
    }

    fn holds_without(&mut self, lost: &[usize]) -> Outcome {
        let power = Rc::clone(&self.power);
        let drives: Vec<Rc<RefCell<Drive>>> = (0..self.drives.len())
            .filter(|index| !lost.contains(index))
            .filter(|&index| self.drives[index].borrow().presence() == Presence::There)
            .map(|index| {
                let drive = self.drives[index].borrow();
                let mut copy = Drive::with_image(
                    *drive.model(),
                    Rc::clone(&power),
                    Chance::new(self.history.seed, 3),
                    drive.image().clone(),
                );
                if drive.is_short() {
                    copy.shrink(drive.sectors());
                }
                Rc::new(RefCell::new(copy))
            })
            .collect();
        let node = tree::mount(&drives, &power);
        let mut node =
            node.map_err(|error| Stop::Wrong(format!("without drives {lost:?} the array does not start: {error:?}")))?;
        let size = self.model.sectors();
        let mut start = 0;
        while start < size {
            let sectors = (size - start).min(256);
            let read = node.read(&power, start, sectors);
            let read = read.map_err(|error| Stop::Wrong(format!("without drives {lost:?}: {error}")))?;
            let begun = self.model.begin_read();
            let checked = self.model.end_read(begun, start, Some(&read));
            checked.map_err(|lie| {
                Stop::Wrong(format!("without drives {lost:?}, {}", self.describe(&lie, start..start + sectors)))
            })?;
            start += sectors;
        }
        Ok(())
    }
}

fn is_optimal(status: &ArrayStatus) -> bool {
    status.slots.iter().all(|slot| slot.is_some_and(|member| status.members[member.0].state == MemberState::InSync))
}
