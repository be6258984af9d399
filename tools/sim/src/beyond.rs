//! More members fail at once than the level survives. The rest must still answer.
//!
//! The [`world`](crate::world) places only faults that redundancy survives, and judges data. Here the data of a failed array is
//! not judged, but every request must end, and the array must be able to stop.

use crate::chance::Chance;
use crate::drive::{Drive, Keep, Refusal};
use crate::lanes::Node;
use crate::power::Power;
use crate::setup::Setup;
use crate::tree;
use std::cell::RefCell;
use std::rc::Rc;
use stria_block::{Buffer, Completion, ErrorKind, Nanos, Operation, Request, bytes};

/// A time far beyond every timer.
const PATIENCE: Nanos = 120_000_000_000;

/// A fault of a drive.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Refuses(Refusal),
    Pulled,
}

struct Beyond {
    power: Rc<Power>,
    drives: Vec<Rc<RefCell<Drive>>>,
    node: Node,
    chance: Chance,
    pending: Vec<(u64, String)>,
    tags: u64,
}

/// Runs the history of a seed, with an array of `family` if that is named.
///
/// # Errors
/// Requests that never end.
pub fn run(seed: u64, family: Option<&str>, hear: Option<Box<dyn FnMut(&str)>>) -> Result<(), String> {
    let mut chance = Chance::new(seed, 20);
    let mut setup = Setup::draw(&mut chance, family);
    let lanes = 1 + chance.below(3) as usize;
    setup.run_on(lanes);
    let power = Rc::new(Power::default());
    power.lanes.set(lanes);
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
    Beyond { power, drives, node, chance, pending: Vec::new(), tags: 0 }.run(&setup)
}

impl Beyond {
    fn run(mut self, setup: &Setup) -> Result<(), String> {
        let depth = self.chance.pick(&[1, 4, 16, 32]);
        for _ in 0..self.chance.below(200) {
            self.load(depth)?;
        }
        for _ in 0..1 + self.chance.below(3) {
            let struck = self.strike(setup);
            for _ in 0..self.chance.below(400) {
                self.load(depth)?;
            }
            // Space may become free again.
            if self.chance.one_in(3) {
                struck.iter().for_each(|&index| self.drives[index].borrow_mut().refuse(None));
                for _ in 0..self.chance.below(200) {
                    self.load(depth)?;
                }
            }
        }
        if self.chance.one_in(2) {
            self.wait("all requests to end", 0)?;
        }
        // Requests in flight end before the stop does.
        self.node.stop(&self.power).map_err(|error| format!("the stop does not end: {error:?}"))
    }

    fn strike(&mut self, setup: &Setup) -> Vec<usize> {
        let count = setup.member_count * setup.span_count;
        let refusal = Refusal {
            kind: self.chance.pick(&[ErrorKind::NoSpace, ErrorKind::NoSpace, ErrorKind::Other, ErrorKind::Medium]),
            eighths: self.chance.pick(&[1, 4, 8]),
            from_sector: self.chance.pick(&[0, 16, setup.data_start()]),
        };
        let blow = if self.chance.one_in(4) { Blow::Pulled } else { Blow::Refuses(refusal) };
        let among = if self.chance.one_in(3) { count } else { 1 + self.chance.below(count as u64) as usize };
        let mut struck: Vec<usize> = (0..count).collect();
        while struck.len() > among {
            struck.swap_remove(self.chance.below(struck.len() as u64) as usize);
        }
        for &index in &struck {
            let mut drive = self.drives[index].borrow_mut();
            match blow {
                Blow::Refuses(refusal) => drive.refuse(Some(refusal)),
                Blow::Pulled => drive.pull(Keep::All),
            }
        }
        struck
    }

    /// Sends one more request, and takes some turns.
    fn load(&mut self, depth: usize) -> Result<(), String> {
        self.wait("room for another request", depth - 1)?;
        let limits = self.node.limits().clone();
        let block = u64::from(limits.logical_block_bytes) / 512;
        let most = self.chance.pick(&[8, 8, 64, 300]);
        let sectors = ((1 + self.chance.below(most)).next_multiple_of(block)).min(limits.size_sectors / block * block);
        let start_sector = self.chance.below(limits.size_sectors - sectors + 1) / block * block;
        let buffer = Buffer::zeroed(bytes(sectors));
        let (operation, sectors) = match self.chance.below(16) {
            0..5 => (Operation::Read { into: std::iter::once(buffer).collect() }, sectors),
            5..14 => {
                let fua = self.chance.one_in(6);
                (Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua }, sectors)
            }
            14 => (Operation::WriteZeroes { fua: false, unmap: self.chance.one_in(2), fast: false }, sectors),
            _ => (Operation::Flush, 0),
        };
        self.tags += 1;
        let words = format!("{} at {start_sector}+{sectors}", words(&operation));
        self.power.note(|| format!("request {} begins: {words}", self.tags));
        self.pending.push((self.tags, words));
        let start_sector = if sectors == 0 { 0 } else { start_sector };
        self.node.submit(Request { tag: self.tags, start_sector, sectors, operation });
        if self.chance.one_in(8) {
            let until = self.power.now() + self.chance.below(3_000_000);
            while self.turn(until)? {}
            self.power.set_now(until);
        }
        Ok(())
    }

    fn turn(&mut self, limit: Nanos) -> Result<bool, String> {
        let mut ended: Vec<Completion> = Vec::new();
        self.node.poll(self.power.now(), &mut ended);
        for completion in ended {
            let known = self.pending.iter().position(|(tag, _)| *tag == completion.tag);
            let known = known.ok_or_else(|| format!("request {} ended twice", completion.tag))?;
            self.pending.swap_remove(known);
            self.power.note(|| format!("request {} ends: {:?}", completion.tag, completion.result));
        }
        for leaf in self.node.leaves() {
            for event in leaf.take_events() {
                self.power.note(|| format!("event: {event:?}"));
            }
        }
        match self.node.next_wake() {
            Some(due) if due <= limit => {
                self.power.set_now(self.power.now().max(due));
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Takes turns until at most this many requests are in flight.
    fn wait(&mut self, what: &str, most: usize) -> Result<(), String> {
        let limit = self.power.now() + PATIENCE;
        while self.pending.len() > most {
            if !self.turn(limit)? && self.pending.len() > most {
                let left: Vec<String> = self.pending.iter().map(|(tag, words)| format!("{tag} ({words})")).collect();
                let status = self.node.leaves()[0].status();
                return Err(format!(
                    "waited in vain for {what}: {} never end ({:?}, {})",
                    left.join(", "),
                    status.health,
                    if self.node.next_wake().is_none() { "nothing happens any more" } else { "something happens on and on" }
                ));
            }
        }
        Ok(())
    }
}

fn words(operation: &Operation) -> &'static str {
    match operation {
        Operation::Read { .. } => "read",
        Operation::Write { fua: true, .. } => "write FUA",
        Operation::Write { .. } => "write",
        Operation::WriteZeroes { .. } => "zeroes",
        Operation::Flush => "flush",
        Operation::Extents { .. } => "extents",
    }
}
