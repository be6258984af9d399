//! Runs one history: the clock, the clients, the faults, and the moments at which the checkers run.

mod atlas;
mod begun;
mod changes;
mod clients;
mod commands;
mod crashes;
mod draws;
mod end;
mod examination;
mod faults;
mod full;
mod hanging;
mod leaving;
mod meeting;
mod members;
mod next_crash;
mod notes;
mod redundancy;
mod requests;
mod space;
mod starts;
mod tally;
mod waits;

pub use tally::Tally;

use crate::chance::Chance;
use crate::crossed;
use crate::drive::{Drive, Keep, Presence};
use crate::hostile_client::HostileClient;
use crate::lanes::{Array, Node};
use crate::member_drive::{MountError, PATIENCE};
use crate::model::Model;
use crate::mutant::Mutant;
use crate::power::Power;
use crate::trace::{range_words, ranges_below};
use crate::tree;
use crate::workload::{History, Step};
use begun::Begun;
use clients::{Clients, Kind};
use draws::Draws;
use examination::Examination;
use next_crash::NextCrash;
use notes::Notes;
use redundancy::Redundancy;
use space::Space;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{ArrayStatus, Command, Event, MemberState, RELIED_ON_MAX, Refusal, SweepKind, Synced, WritePolicy};
use stria_block::{Nanos, Operation};
use stria_tree::ArrayCommand;
use waits::Waits;

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

/// A forbidden result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step; the count of steps stands for the end.
    pub step: usize,
    /// The result, in words.
    pub what: String,
}

/// The reason why a run stops early.
enum Stop {
    Crashed,
    Wrong(String),
}

type Outcome = Result<(), Stop>;

/// What a stop says of requests that came before the array could serve.
const UNSERVED: &str = "stopped before it could serve";

/// One world.
pub struct World<'a> {
    history: &'a History,
    rules: Rules,
    power: Rc<Power>,
    drives: Vec<Rc<RefCell<Drive>>>,
    node: Option<Node>,
    /// The array's identity.
    uuid: [u8; 16],
    /// The write policy, which each start sets anew.
    policy: WritePolicy,
    /// What reads may find.
    model: Model,
    draws: Draws,
    clients: Clients,
    /// The client that writes superblocks.
    hostile_client: HostileClient,
    redundancy: Redundancy,
    next_crash: NextCrash,
    /// Drives that left, and may return at any later start.
    left: BTreeSet<usize>,
    /// Drives that the array has had since its last start.
    had: BTreeSet<usize>,
    space: Space,
    waits: Waits,
    examination: Examination,
    /// Commands that are not answered yet.
    begun: Vec<Begun>,
    /// The array was stopped with nothing left to be made consistent.
    is_clean: bool,
    /// The time of the next check of the sizes of drives.
    look_due: Option<Nanos>,
    notes: Notes,
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
    world.notes.only = only;
    world.note_state();
    world.run()
}

impl<'a> World<'a> {
    fn run(mut self) -> Result<Tally, Failure> {
        let mut step = 0;
        self.live(&mut step).map_err(|what| Failure { step, what })?;
        self.notes.tally.requests = self.power.requests();
        Ok(self.notes.tally)
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
        power.short_lists.set(setup.short_lists);
        power.naps.set(setup.lanes_nap.then_some(history.seed));
        power.long_naps.set(setup.harsh && Chance::new(history.seed, 24).one_in(4));
        if let Some(mutant) = rules.mutant {
            for (index, drive) in drives.iter().enumerate() {
                if mutant != Mutant::OneSuperblockDropped || index == 1 {
                    drive.borrow_mut().set_mutant(mutant);
                }
            }
        }
        if setup.harsh {
            drives.iter().for_each(|drive| drive.borrow_mut().set_harsh());
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
            policy: WritePolicy::Safe,
            redundancy: Redundancy::new(setup.closes_write_hole(), setup.assume_clean, drives.len()),
            drives,
            node: Some(node),
            model: Model::new(sectors),
            draws: Draws::new(history.seed),
            clients: Clients::new(history.depth, setup.repeats),
            next_crash: NextCrash::default(),
            left: BTreeSet::new(),
            had: (0..setup.drives.len()).collect(),
            space: Space::default(),
            waits: Waits::default(),
            examination: Examination::default(),
            begun: Vec::new(),
            is_clean: false,
            look_due: None,
            notes: Notes::new(),
        })
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("an array runs")
    }

    fn meet(&mut self, what: &str) {
        self.notes.meet(what);
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
            Kind::Read | Kind::Extents => "read",
            Kind::Discard => "discard",
            Kind::Flush | Kind::LooseFlush => "flush",
        };
        let state = crossed::state(&status);
        let is = |fault: fn(&Drive) -> bool| self.drives.iter().any(|drive| fault(&drive.borrow()));
        let fault = match () {
            () if self.power.is_armed() => {
                if self.next_crash.kill {
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
        *self.notes.tally.crossed.entry((request, state, fault)).or_default() += 1;
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

    /// Carries out the events that are due, and moves the clock to the next one. `false`: there is none up to `limit`.
    fn turn(&mut self, limit: Nanos) -> Result<bool, Stop> {
        self.look_at_sizes();
        self.before_turn();
        let mut ended = Vec::new();
        let node = self.node.as_mut().expect("an array runs");
        node.poll(self.power.now(), &mut ended);
        let wake = node.next_wake().into_iter().chain(self.look_due).min();
        if self.power.bad_grew.take() {
            self.model.lose_member();
        }
        let is_behind = self.node().leaves().into_iter().any(Array::has_writes_not_in_place);
        for completion in ended {
            self.completed(completion, is_behind)?;
        }
        if !is_behind && self.model.has_behind() {
            self.model.is_in_place();
        }
        if !self.begun.is_empty() {
            self.take_answers();
        }
        if self.power.is_off() {
            return Err(Stop::Crashed);
        }
        if self.redundancy.watched {
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

    fn pause(&mut self, pause: Nanos) -> Outcome {
        let end = self.power.now() + pause;
        while self.turn(end)? {}
        self.power.set_now(end);
        Ok(())
    }

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
                Event::MemberFailed { cause, .. } => {
                    self.meet("member failed");
                    self.model.forget_passing_reads();
                    self.model.lose_member();
                    if drive.is_some_and(|drive| self.drives[drive].borrow().hangs()) {
                        self.meet("dropped while it hangs");
                    }
                    if !cause.is_intended() && drive.is_some_and(|drive| !self.redundancy.suspect[drive]) {
                        return Err(Stop::Wrong(format!("drive {drive:?} was dropped for nothing: {cause}")));
                    }
                }
                Event::SweepFinished { kind: kind @ SweepKind::Scrub { .. }, found, .. } => {
                    self.scrub_ended(*kind, found.mismatch_sectors, named)?;
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
        self.redundancy.settled = statuses.iter().all(|status| status.synced == Synced::All && !replays(status));
        if self.redundancy.settled {
            self.redundancy.rejoined.clear();
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
        self.redundancy.firm = self.redundancy.firm || self.redundancy.settled && self.is_recorded_firm();
        let allowed = self.may_crash(&statuses);
        self.power.allow(allowed);
        if self.power.flush_failed.get() && self.failed_flushes_are_recorded() {
            self.power.flush_failed.set(false);
            self.drives.iter().for_each(|drive| drive.borrow_mut().shows_lost = false);
        }
        self.power.degraded.set(!statuses.iter().all(is_optimal));
        self.redundancy.watched = redundant && !(at_rest && self.redundancy.settled && !spoiled && allowed);
        Ok(())
    }

    fn keep(&mut self) -> Keep {
        self.rules.keep.unwrap_or_else(|| self.draws.keep())
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
            Step::Extents { at, sectors } => {
                let range = self.range_at(at, sectors);
                self.submit(range, Kind::Extents, Operation::Extents { extents: Vec::new() }, 0)
            }
            Step::Flush => self.submit(0..0, Kind::Flush, Operation::Flush, 0),
            Step::Drain => self.drain(),
            Step::Pause(pause) => self.pause(pause),
            Step::Crash { after, kill } => {
                if !self.power.is_armed() {
                    self.next_crash.kill = kill;
                    self.power.cut_after(after, kill);
                }
                Ok(())
            }
            Step::Restart => {
                self.drain()?;
                self.meet("restart");
                self.restart()
            }
            Step::RestartAtOnce => {
                self.meet("restart with requests in flight");
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
                self.redundancy.watched = true;
                self.trouble(step)?;
                self.watch()
            }
        }
    }

    /// Carries out steps that concern members.
    fn trouble(&mut self, step: Step) -> Outcome {
        match step {
            Step::Fail(which) | Step::Pull(which) | Step::FailWrite(which) | Step::FailFlush(which) => {
                self.lose_member(step, which)
            }
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
                self.next_crash.superblock_to_lose = Some(which);
                Ok(())
            }
            Step::ReadOnly => {
                self.next_crash.read_only = true;
                Ok(())
            }
            Step::LoseLog { which, at } => {
                self.next_crash.log_to_lose = Some((which, at));
                Ok(())
            }
            Step::LoseWithPower(which) => {
                self.next_crash.member_to_lose = Some(which);
                Ok(())
            }
            Step::CrashAgain { after, kill } => {
                self.next_crash.again = Some((kill, after));
                Ok(())
            }
            Step::Begin { what, which } => self.begin_command(what, which),
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

    fn scrub(&mut self, repair: bool) -> Outcome {
        // A scrub needs readable members and a consistent array; otherwise it reports mismatches that are no bugs.
        let statuses = self.statuses();
        let spoiled = self.drives.iter().any(|drive| drive.borrow().is_spoiled());
        if self.redundancy.settled && !spoiled {
            for (leaf, status) in statuses.iter().enumerate().filter(|(_, status)| is_optimal(status)) {
                if status.sweep.is_none() {
                    let answer = self.carry_out(leaf, Command::Scrub { repair, from_sector: 0 })?;
                    let now = self.node().leaf(leaf).status();
                    // Something may have happened meanwhile.
                    if let Err(refusal) = answer
                        && refusal != Refusal::ScrubWhilePaused
                        && is_optimal(&now)
                        && now.synced == Synced::All
                        && now.sweep.is_none()
                    {
                        return Err(Stop::Wrong(format!("a scrub of an optimal array was refused: {refusal}")));
                    }
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
            self.waits.note_answer(self.power.now() - begun);
            let turned = self.turn(limit);
            if let Some(member) = fails
                && self.node().leaf(leaf).status().members[member.0].state == MemberState::Failed
            {
                self.model.lose_member();
                // A member that hangs is failed nevertheless. The next crash may then take writes that were acknowledged early.
                self.next_crash.sole_log_holder_is_gone |= relied_on.is_some() && self.power.now() >= begun + RELIED_ON_MAX;
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

    fn restart(&mut self) -> Outcome {
        self.stop()?;
        self.mount("after a clean stop")?;
        if self.is_clean && !self.statuses().iter().all(|status| status.synced == Synced::All) {
            return Err(Stop::Wrong("a resync is due after a clean stop".into()));
        }
        Ok(())
    }

    /// Stops the array. Redundancy is consistent then, unless the next start finds something to do anyway.
    fn stop(&mut self) -> Outcome {
        self.is_clean = false;
        self.free_space();
        if self.space.may_lose() {
            // What a flush has to report fails the stop otherwise.
            self.submit(0..0, Kind::Flush, Operation::Flush, 0)?;
            self.drain()?;
        }
        let power = Rc::clone(&self.power);
        let at_rest = |status: &ArrayStatus| is_optimal(status) && status.synced == Synced::All && status.sweep.is_none();
        let is_calm = self.statuses().iter().all(at_rest) && !(0..self.drives.len()).any(|drive| self.is_harmed(drive));
        let answers_by = self.hangs_until();
        let mut ended = Vec::new();
        let stopped = self.node.as_mut().expect("an array runs").stop_with(&power, &mut ended);
        // Requests in flight wait for a drive that hangs.
        if let Some(answers_by) = answers_by {
            self.waits.note_hang(answers_by.min(power.now()));
        }
        for completion in ended {
            let is_unserved = completion.result.as_ref().is_err_and(|error| error.context.contains(UNSERVED));
            match is_unserved && answers_by.is_some() {
                true => self.unserved(&completion),
                false => self.completed(completion, true)?,
            }
        }
        match stopped {
            Err(MountError::PowerLost) => return Err(Stop::Crashed),
            Err(MountError::Refused(what)) => return Err(Stop::Wrong(format!("the array does not stop: {what}"))),
            Ok(()) => {}
        }
        if let Some(why) = self.node().stop_refusal() {
            return Err(Stop::Wrong(format!("the array does not stop cleanly: {why}")));
        }
        if self.clients.pending_count() > 0 {
            return Err(Stop::Wrong("a stop leaves requests without an answer".into()));
        }
        self.begun.clear();
        self.events()?;
        if is_calm {
            self.check_clean()?;
        }
        let short = self.shrinks_now(None);
        self.is_clean = is_calm && short.is_none();
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
        self.model.crash(true, false);
        self.model.is_in_place();
        Ok(())
    }

    /// Reads all of an array that is served read-only, and then lets it be written to. What was read stays once a resync has
    /// ended: a read-only array cannot make copies and parity consistent before it reads (R36), so no member is lost by a step
    /// until then, and if one fails by itself, what was read may change. Where they are consistent, one is lost while the array
    /// is read-only, and superblocks name it once they may be written (R88).
    fn serve_read_only(&mut self) -> Outcome {
        // One whose next write fails would be lost with the first superblock.
        let fails_soon = self.drives.iter().any(|drive| drive.borrow().is_failing());
        if self.power.is_armed() || fails_soon {
            self.node().activate();
            return self.watch();
        }
        self.meet("served read-only");
        let is_whole = !(0..self.drives.len()).any(|drive| self.is_harmed(drive)) && self.statuses().iter().all(is_optimal);
        if !is_whole {
            self.model.lose_member();
        }
        let phase = std::mem::replace(&mut self.notes.phase, "read-only");
        let is_consistent = self.statuses().iter().all(|status| status.synced == Synced::All && status.clean);
        if !is_consistent {
            self.model.begin_passing_reads();
        }
        self.read_all()?;
        if is_whole && is_consistent {
            // The time serves as a draw: another would shift those of all steps that follow.
            let which = self.power.now();
            self.meet("member lost while read-only");
            self.lose_member(Step::Pull(which), which)?;
            self.read_all()?;
        }
        self.notes.phase = phase;
        self.node().activate();
        self.redundancy.watched = true;
        let settled = self.settle();
        self.model.keep_what_was_read();
        settled
    }

    fn mount(&mut self, when: &str) -> Outcome {
        // The choice is made by steps, since histories without harsh drives draw no more numbers.
        let read_only = std::mem::take(&mut self.next_crash.read_only) && self.history.setup.harsh;
        let mounted = match read_only {
            true => tree::open(&self.drives, &self.power),
            false => tree::mount(&self.drives, &self.power),
        };
        match mounted {
            Ok(node) if (node.top().uuid(), node.limits().size_sectors) != (self.uuid, self.model.sectors()) => {
                Err(Stop::Wrong(format!("{when} another array is served: \"{}\"", node.top().name())))
            }
            Ok(node) => {
                self.node = Some(node);
                self.had = (0..self.drives.len()).filter(|&drive| self.leaf_of(drive).is_some()).collect();
                self.hold_policy();
                self.note_state();
                self.redundancy.watched = true;
                self.watch()?;
                if read_only { self.serve_read_only() } else { Ok(()) }
            }
            Err(MountError::PowerLost) => Err(Stop::Crashed),
            Err(MountError::Refused(what)) => Err(Stop::Wrong(format!("{when} the array does not start: {what}"))),
        }
    }
}

fn is_optimal(status: &ArrayStatus) -> bool {
    status.slots.iter().all(|slot| slot.is_some_and(|member| status.members[member.0].state == MemberState::InSync))
}
