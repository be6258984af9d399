//! The life of a mutant, and the harm that it must not do.

use super::alter::Mutant;
use super::scenes::{LOOKED_AT, Scene};
use super::support::MemoryDrive;
use super::support::running::pattern;
use super::tree::{Node, World, activate};
use std::collections::BTreeMap;
use stria_array::Health;
use stria_block::{BlockDevice, Operation};
use stria_chance::Chance;
use stria_format::detect::{detect, wipes};
use stria_format::md::{Candidate, Options, examine, raw};

/// The outcomes of the mutants.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
    pub fn add(&mut self, other: Self) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }
}

/// All commands of administrators for a drive.
fn examined(drive: &MemoryDrive) -> Candidate {
    let candidate = drive.candidate();
    examine::lines(&candidate);
    examine::span_of(&candidate);
    if let Ok(member) = &candidate.found {
        raw::fields(member, drive.size_sectors, &mut |start, count| drive.read(start, count));
    }
    candidate
}

/// Signatures that are found on a drive can be wiped, and are gone then.
fn wiped(drive: &MemoryDrive) {
    let mut drive = drive.clone();
    for _ in 0..8 {
        let found = detect(drive.size_sectors, &mut |start, count| drive.read(start, count));
        if found.is_empty() {
            return;
        }
        found.iter().for_each(|signature| assert!(!signature.to_string().is_empty()));
        for (start, count) in wipes(&found, 512) {
            drive.write(start, &vec![0; (count * 512) as usize]);
        }
    }
    panic!("{} still carries something after it was wiped eight times", drive.name);
}

/// Reads some sectors, and writes where that is allowed. Written data is read back.
fn use_array(world: &mut World, node: &mut Node, writes: bool, chance: &mut Chance) {
    let capacity = node.geometry().capacity_sectors();
    let block = u64::from(node.device.limits().logical_block_bytes) / 512;
    let cut = |start: u64, sectors: u64| {
        let start = start.min(capacity - 1) / block * block;
        (start, sectors.next_multiple_of(block).min((capacity - start) / block * block))
    };
    for start in [0, chance.below(capacity), capacity.saturating_sub(5)] {
        let (start, sectors) = cut(start, 1 + chance.below(40));
        if sectors == 0 {
            continue;
        }
        let _ = world.read(node, start, sectors);
        if !writes {
            continue;
        }
        let data = pattern(start, sectors, 3);
        let written = world.write(node, start, &data);
        let read = world.read(node, start, sectors);
        if let (Ok(()), Ok(read)) = (written, read) {
            assert!(read == data, "sectors {start}..{} are not what was just written", start + sectors);
        }
    }
    if writes {
        let _ = world.request(node, 0, 0, Operation::Flush).result;
        let (start, sectors) = cut(capacity / 2, 16);
        if sectors > 0 {
            let operation = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
            let _ = world.request(node, start, sectors, operation).result;
        }
    }
}

/// The whole life of a mutant: examined, found, opened, replayed, read, written, stopped and found again.
///
/// # Panics
/// It does harm.
pub fn life(scene: &Scene, mutant: &Mutant, chance: &mut Chance, tally: &mut Tally) {
    let force = chance.one_in(3);
    let read_only = chance.one_in(2);
    let how = Options { force, take_back: chance.one_in(2), read_only: true };
    let nested = chance.one_in(4);
    for drive in &mutant.drives {
        examined(drive);
        if !scene.marks.is_empty() || chance.one_in(16) {
            wiped(drive);
        }
    }
    let mut world = World::new(&mutant.drives, u64::MAX);
    world.power.frozen.set(read_only);
    let mut tops = world.open(&how, true, nested);
    world.refusals.iter().for_each(|sentence| assert!(!sentence.is_empty()));
    tally.count(if tops.is_empty() { "refused" } else { "opened" });
    let array = scene.drives[0].candidate().found.map_or([0; 16], |member| member.superblock.header.set_uuid);
    let mut stopped = Vec::new();
    for node in &mut tops {
        let replays = !node.config.replay.is_empty();
        node.each(&mut |node| {
            if !node.config.replay.is_empty() {
                tally.count("replayed");
            }
            if node.config.slots.iter().any(|slot| slot.member.is_none()) {
                tally.count("opened with a member missing");
            }
        });
        if !force && node.uuid == array && mutant.stays_stale(scene) {
            tally.count("opened beside a member that stays stale");
            let found = world.read(node, 0, LOOKED_AT).expect("the others hold it");
            assert!(found == pattern(0, LOOKED_AT, 2), "old bytes are served, of a member that missed them");
        }
        use_array(&mut world, node, false, chance);
        let _ = node.device.status();
        if read_only {
            continue;
        }
        activate(node);
        if chance.one_in(4) {
            node.each(&mut |node| node.device.with_engine(|engine| engine.pause(false)));
            for _ in 0..200 {
                world.turn(node, &mut Vec::new());
            }
        }
        use_array(&mut world, node, true, chance);
        if chance.one_in(4) {
            continue;
        }
        let lost = node.device.status().health == Health::Failed;
        world.stop(node);
        tally.count(if replays { "stopped after a replay" } else { "stopped" });
        stopped.extend((!force && !lost).then_some(node.uuid));
    }
    drop(tops);
    if read_only {
        assert!(world.images().iter().zip(&mutant.drives).all(|(now, before)| now.sectors == before.sectors));
        return;
    }
    let mut world = World::new(&world.images(), u64::MAX);
    let again = world.open(&Options { read_only: true, ..Options::default() }, true, nested);
    tally.count(if again.is_empty() { "not found again" } else { "found again" });
    let gone = stopped.iter().find(|uuid| !again.iter().any(|node| node.uuid == **uuid));
    assert!(gone.is_none(), "an array that was stopped does not start any more: {:?}", world.refusals);
}
