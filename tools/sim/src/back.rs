//! Many drives are gone at once, as with a controller that resets, and then all of them are back.
//!
//! The [`world`](crate::world) places only faults that redundancy survives. Here more are gone than that, so requests may fail.
//! But no data is lost with a drive that comes back: whatever was flushed is there, unless the array refuses to start.

use crate::chance::Chance;
use crate::drive::{Drive, Keep};
use crate::lanes::Node;
use crate::member_drive::MountError;
use crate::model::{Lie, Model, Moment, fill};
use crate::mutant::Mutant;
use crate::power::Power;
use crate::setup::Setup;
use crate::tree;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{Event, Synced};
use stria_block::{Buffer, Completion, Nanos, Operation, Request, bytes};

/// A time far beyond every timer.
const PATIENCE: Nanos = 120_000_000_000;

/// The result of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The array started each time that its drives were back.
    Started,
    /// A start was refused, with a reason.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write { fua: bool },
    Flush,
}

struct Pending {
    tag: u64,
    write: u32,
    range: Range<u64>,
    kind: Kind,
    begun: Moment,
}

struct Back {
    power: Rc<Power>,
    drives: Vec<Rc<RefCell<Drive>>>,
    setup: Setup,
    node: Option<Node>,
    chance: Chance,
    model: Model,
    pending: Vec<Pending>,
    tags: u64,
    /// What was acknowledged and is not known to be durable.
    unflushed: Vec<(Moment, Range<u64>)>,
    /// Sectors of writes that failed, were never answered, or were acknowledged and not flushed when more was lost than
    /// redundancy replaces: they may be bad blocks, or hold anything.
    doubtful: Vec<bool>,
}

/// Runs the history of a seed, with an array of `family` if that is named, and with a deliberate bug.
///
/// # Errors
/// Data that was flushed is gone, or a request never ends.
pub fn run(seed: u64, family: Option<&str>, mutant: Option<Mutant>, hear: Option<Box<dyn FnMut(&str)>>) -> Result<Ended, String> {
    let mut chance = Chance::new(seed, 25);
    let mut setup = Setup::draw(&mut chance, family);
    // Without these nothing is promised where a crash meets a member that counts as missing.
    setup.log = setup.level.parity_count() > 0;
    setup.assume_clean = true;
    let lanes = 1 + chance.below(3) as usize;
    setup.run_on(lanes);
    let power = Rc::new(Power::default());
    power.lanes.set(lanes);
    power.mutant.set(mutant);
    power.naps.set(chance.one_in(2).then_some(seed));
    let drive = |(index, &model): (usize, _)| {
        let drive = Drive::new(model, Rc::clone(&power), Chance::new(seed, 100 + index as u64));
        Rc::new(RefCell::new(drive.numbered(index).with_data_from(setup.data_start())))
    };
    let drives: Vec<_> = setup.drives.iter().enumerate().map(drive).collect();
    tree::create(&setup, &drives, &power)?;
    let node = tree::mount(&drives, &power).map_err(|error| format!("{error:?}"))?;
    if let Some(hear) = hear {
        power.trace.begin(None, hear);
        power.note(|| format!("{setup}, {lanes} lanes"));
    }
    let sectors = node.limits().size_sectors;
    let (model, doubtful) = (Model::new(sectors), vec![false; sectors as usize]);
    Back { power, drives, setup, node: Some(node), chance, model, pending: Vec::new(), tags: 0, unflushed: Vec::new(), doubtful }
        .run()
}

impl Back {
    fn run(mut self) -> Result<Ended, String> {
        let depth = self.chance.pick(&[1, 4, 16]);
        for _ in 0..1 + self.chance.below(3) {
            self.load(60, depth)?;
            self.strike(depth)?;
            self.load(60, depth)?;
            self.come_down()?;
            match tree::mount(&self.drives, &self.power) {
                Ok(node) => self.node = Some(node),
                Err(MountError::Refused(why)) => {
                    self.power.note(|| format!("the start is refused: {why}"));
                    return Ok(Ended::Refused);
                }
                Err(MountError::PowerLost) => unreachable!("nothing cuts the power"),
            }
            self.model.lose_member();
            self.read_all("after all drives are back")?;
            self.settle()?;
            self.read_all("when all is at rest")?;
        }
        Ok(Ended::Started)
    }

    fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("an array runs")
    }

    /// Pulls two members at least, at once or one soon after the other.
    fn strike(&mut self, depth: usize) -> Result<(), String> {
        let count = self.setup.member_count * self.setup.span_count;
        let among = if self.chance.one_in(2) { count } else { 1 + self.chance.below(count as u64) as usize };
        let mut struck: Vec<usize> = (0..count).collect();
        while struck.len() > among {
            struck.swap_remove(self.chance.below(struck.len() as u64) as usize);
        }
        let at_once = self.chance.one_in(2);
        for index in struck {
            let keep = self.chance.pick(&[Keep::None, Keep::All, Keep::Some(4)]);
            self.drives[index].borrow_mut().pull(keep);
            self.model.lose_member();
            if !at_once {
                self.load(8, depth)?;
            }
        }
        Ok(())
    }

    /// Ends the process: it is stopped, killed, or loses its power. All drives are back then.
    fn come_down(&mut self) -> Result<(), String> {
        let way = self.chance.below(3);
        if way == 0 {
            self.wait("all requests to end", 0)?;
            let power = Rc::clone(&self.power);
            match self.node().stop(&power) {
                // What was acknowledged is durable after a clean stop.
                Ok(()) if self.node().stop_refusal().is_some() => {}
                Ok(()) => {
                    let flushed = self.model.begin();
                    self.model.end_flush(flushed);
                }
                Err(error) => return Err(format!("a stop never ends: {error:?}")),
            }
        }
        self.node = None;
        for pending in std::mem::take(&mut self.pending) {
            self.doubt(pending.range);
        }
        for drive in &self.drives {
            let keep = self.chance.pick(&[Keep::None, Keep::All, Keep::Some(4)]);
            let mut drive = drive.borrow_mut();
            match way {
                1 => drive.orphan(),
                _ => drive.cut(keep),
            }
            drive.put_back();
        }
        self.model.crash(true, false);
        self.power.set_now(self.power.now() + 1_000_000);
        Ok(())
    }

    fn doubt(&mut self, range: Range<u64>) {
        range.for_each(|sector| self.doubtful[sector as usize] = true);
    }

    /// Clients send up to so many requests.
    fn load(&mut self, most: u64, depth: usize) -> Result<(), String> {
        for _ in 0..self.chance.below(most) {
            self.wait("room for another request", depth - 1)?;
            self.send();
            if self.chance.one_in(8) {
                let until = self.power.now() + self.chance.below(3_000_000);
                while self.turn(until)? {}
                self.power.set_now(until);
            }
        }
        Ok(())
    }

    fn send(&mut self) {
        let limits = self.node().limits().clone();
        let block = u64::from(limits.logical_block_bytes) / 512;
        let most = self.chance.pick(&[8, 8, 64]);
        let sectors = (1 + self.chance.below(most)).next_multiple_of(block).min(limits.size_sectors / block * block);
        let start = self.chance.below(limits.size_sectors - sectors + 1) / block * block;
        self.tags += 1;
        let (tag, write, range) = (self.tags, self.tags as u32, start..start + sectors);
        let (kind, operation) = match self.chance.below(8) {
            0 => (Kind::Read, Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() }),
            1 | 2 => (Kind::Flush, Operation::Flush),
            _ => {
                let mut buffer = Buffer::zeroed(bytes(sectors));
                fill(write, start, &mut buffer);
                let fua = self.chance.one_in(4);
                (Kind::Write { fua }, Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua })
            }
        };
        let range = if kind == Kind::Flush { 0..0 } else { range };
        let begun = match kind {
            Kind::Read => self.model.begin_read(),
            Kind::Write { .. } => {
                let large = sectors > self.setup.untorn_sectors_max();
                self.model.begin_write(write, range.clone(), large)
            }
            Kind::Flush => self.model.begin(),
        };
        self.power.note(|| format!("request {tag} begins: {} {range:?}", words(kind)));
        self.pending.push(Pending { tag, write, range: range.clone(), kind, begun });
        self.node().submit(Request { tag, start_sector: range.start, sectors: range.end - range.start, operation });
    }

    fn turn(&mut self, limit: Nanos) -> Result<bool, String> {
        let mut ended: Vec<Completion> = Vec::new();
        let now = self.power.now();
        self.node().poll(now, &mut ended);
        let leaves = self.node.as_ref().expect("an array runs").leaves();
        let events: Vec<_> = leaves.into_iter().flat_map(|leaf| leaf.take_events()).collect();
        for event in events {
            self.power.note(|| format!("event: {event:?}"));
            if matches!(event, Event::MemberGone { .. }) {
                // A flush says so.
                std::mem::take(&mut self.unflushed).into_iter().for_each(|(_, range)| self.doubt(range));
            }
        }
        for completion in ended {
            self.completed(completion)?;
        }
        match self.node().next_wake() {
            Some(due) if due <= limit => {
                self.power.set_now(self.power.now().max(due));
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn completed(&mut self, completion: Completion) -> Result<(), String> {
        let Completion { tag, result, operation } = completion;
        let known = self.pending.iter().position(|pending| pending.tag == tag);
        let Pending { write, range, kind, begun, .. } =
            self.pending.swap_remove(known.ok_or_else(|| format!("request {tag} ended twice"))?);
        self.power.note(|| format!("request {tag} ends: {result:?}"));
        match (kind, operation, result.is_ok()) {
            (Kind::Write { fua }, _, true) => {
                if !fua {
                    self.unflushed.push((self.model.begin(), range.clone()));
                }
                self.model.end_write(write, range, begun, fua);
            }
            (Kind::Write { .. }, _, false) => {
                self.model.fail_write(write, range.clone(), begun);
                self.doubt(range);
            }
            (Kind::Flush, _, true) => {
                self.unflushed.retain(|(acknowledged, _)| *acknowledged > begun);
                self.model.end_flush(begun);
            }
            (Kind::Flush, _, false) => {}
            (Kind::Read, Operation::Read { into }, true) => {
                let found = into.iter().map(|buffer| &buffer[..]).collect::<Vec<_>>().concat();
                let read = self.model.end_read(begun, range.start, Some(&found));
                self.judge(read, || format!("a read of sectors {range:?}"))?;
            }
            (Kind::Read, ..) => self.model.end_read(begun, range.start, None).expect("nothing was read"),
        }
        Ok(())
    }

    /// Takes turns until at most this many requests are in flight.
    fn wait(&mut self, what: &str, most: usize) -> Result<(), String> {
        let limit = self.power.now() + PATIENCE;
        while self.pending.len() > most {
            if !self.turn(limit)? && self.pending.len() > most {
                return Err(format!("waited in vain for {what}"));
            }
        }
        Ok(())
    }

    /// More was lost than redundancy replaces while a write in doubt was under way: its sectors may hold anything.
    fn judge(&self, read: Result<(), Lie>, what: impl Fn() -> String) -> Result<(), String> {
        match read {
            Err(lie) if !self.doubtful[lie.sector as usize] => Err(format!("{}: {lie:?}", what())),
            _ => Ok(()),
        }
    }

    /// Reads all sectors. What no write in doubt has touched must be readable.
    fn read_all(&mut self, when: &str) -> Result<(), String> {
        let block = u64::from(self.node().limits().logical_block_bytes) / 512;
        let (power, size) = (Rc::clone(&self.power), self.model.sectors() / block * block);
        for start in (0..size).step_by(block as usize) {
            let begun = self.model.begin_read();
            match self.node().read(&power, start, block) {
                Ok(found) => {
                    let read = self.model.end_read(begun, start, Some(&found));
                    self.judge(read, || format!("{when}, a read of sectors {start}+{block}"))?;
                }
                Err(error) => {
                    self.model.end_read(begun, start, None).expect("nothing was read");
                    if (start..start + block).all(|sector| !self.doubtful[sector as usize]) {
                        return Err(format!("{when}, sector {start} cannot be read: {error}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until nothing is left to be made consistent, or a minute has passed.
    fn settle(&mut self) -> Result<(), String> {
        let limit = self.power.now() + PATIENCE / 2;
        let is_busy = |node: &Node| {
            let statuses: Vec<_> = node.leaves().iter().map(|leaf| leaf.status()).collect();
            statuses.iter().any(|status| status.sweep.is_some() || status.synced != Synced::All)
        };
        while is_busy(self.node.as_ref().expect("an array runs")) && self.turn(limit)? {}
        Ok(())
    }
}

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write { fua: true } => "write FUA",
        Kind::Write { fua: false } => "write",
        Kind::Flush => "flush",
    }
}
