//! Goal: a read that overlaps writes in time returns no corrupt byte, neither of blocks being written nor of others, and is
//! refused only for corruption.
//! Method: every block carries the number of the write that filled it. Reads and writes overlap all the time, on a drive that
//! shows writes half done. For each read the possible content is known block by block.

use super::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// The second half is never written.
const HOT: Range<u64> = 1000..1030;
const ALL: Range<u64> = 1000..1060;

fn block_of(write: u64, block: u64) -> Vec<u8> {
    let mut chance = Chance::from_state(write << 32 | block);
    (0..512).flat_map(|_| chance.any().to_le_bytes()).collect()
}

fn write_of(number: u64, blocks: &Range<u64>) -> Operation {
    let bytes: Vec<u8> = blocks.clone().flat_map(|block| block_of(number, block)).collect();
    Operation::Write { from: std::iter::once(Buffer::copy_of(&bytes).freeze()).collect(), fua: false }
}

struct Pending {
    tag: Tag,
    blocks: Range<u64>,
    /// A write's number.
    write: Option<u64>,
    /// For a read, block by block: the writes that it may find.
    may: Vec<BTreeSet<u64>>,
    /// For a read: the corruption that it may be refused for.
    rotten: BTreeSet<u64>,
}

struct Traffic {
    world: World,
    /// The last write of each block that has ended.
    now: BTreeMap<u64, u64>,
    pending: Vec<Pending>,
    /// The blocks that are known to be corrupt now.
    rotten: BTreeSet<u64>,
    writes: u64,
    served: usize,
    refused: usize,
}

impl Traffic {
    fn new(seed: u64, tears: bool) -> Self {
        let mut world = World::open(Drive::new(None, seed), seed);
        let tag = world.submit(ALL.start, ALL.end - ALL.start, write_of(0, &ALL));
        world.wait(tag).result.expect("RAM does not fail");
        world.drive.0.borrow_mut().tears = tears;
        let now = ALL.map(|block| (block, 0)).collect();
        Self { world, now, pending: Vec::new(), rotten: BTreeSet::new(), writes: 0, served: 0, refused: 0 }
    }

    fn range(&mut self, within: Range<u64>) -> Range<u64> {
        let start = within.start + self.world.chance.below(within.end - within.start);
        start..within.end.min(start + 1 + self.world.chance.below(16))
    }

    fn overlaps(one: &Range<u64>, other: &Range<u64>) -> bool {
        one.start < other.end && other.start < one.end
    }

    /// Two writes never overlap here: it would be unknown which one won.
    fn write(&mut self, blocks: Range<u64>) {
        if self.pending.iter().any(|other| other.write.is_some() && Self::overlaps(&other.blocks, &blocks)) {
            return;
        }
        self.writes += 1;
        let number = self.writes;
        for read in self.pending.iter_mut().filter(|pending| pending.write.is_none()) {
            for (may, block) in read.may.iter_mut().zip(read.blocks.clone()) {
                may.extend(blocks.contains(&block).then_some(number));
            }
        }
        let tag = self.world.submit(blocks.start, blocks.end - blocks.start, write_of(number, &blocks));
        self.pending.push(Pending { tag, blocks, write: Some(number), may: Vec::new(), rotten: BTreeSet::new() });
    }

    fn read(&mut self, blocks: Range<u64>) {
        let writes = self.pending.iter().filter_map(|pending| Some((pending.write?, &pending.blocks)));
        let writes: Vec<_> = writes.collect();
        let may = |block: u64| {
            let under_way = writes.iter().filter(|(_, range)| range.contains(&block)).map(|(number, _)| *number);
            under_way.chain(Some(self.now[&block])).collect()
        };
        let may = blocks.clone().map(may).collect();
        let rotten = self.rotten.range(blocks.clone()).copied().collect();
        let tag = self.world.submit(blocks.start, blocks.end - blocks.start, World::read_operation(blocks.end - blocks.start));
        self.pending.push(Pending { tag, blocks, write: None, may, rotten });
    }

    fn spoil(&mut self, block: u64) {
        let at = self.world.chance.below(4096) as usize;
        self.world.drive.spoil(block, at);
        self.rotten.insert(block);
        for read in self.pending.iter_mut().filter(|pending| pending.blocks.contains(&block)) {
            read.rotten.insert(block);
        }
    }

    fn step(&mut self) {
        self.world.step();
        for Completion { tag, result, operation } in std::mem::take(&mut self.world.ended) {
            let place = self.pending.iter().position(|pending| pending.tag == tag).expect("it ends once");
            let Pending { blocks, write, may, rotten, .. } = self.pending.swap_remove(place);
            if let Some(number) = write {
                result.expect("RAM does not fail");
                for block in blocks {
                    self.now.insert(block, number);
                    // Corruption from before the write is gone; corruption from during it may remain.
                    if !rotten.contains(&block) {
                        self.rotten.remove(&block);
                    }
                }
                continue;
            }
            let Operation::Read { into } = operation else { panic!("it was a read") };
            if let Err(error) = result {
                assert_eq!(error.kind, ErrorKind::Medium);
                assert!(!rotten.is_empty(), "blocks {blocks:?} are right and refused: {error}");
                self.refused += 1;
                continue;
            }
            self.served += 1;
            for ((bytes, block), may) in into[0].chunks(4096).zip(blocks).zip(may) {
                let known = may.iter().any(|&write| block_of(write, block) == bytes);
                assert!(known, "block {block} holds none of writes {may:?}: rotten {}", rotten.contains(&block));
            }
        }
    }
}

#[test]
fn reads_beside_writes_bring_what_was_written_or_an_error() {
    for (seed, tears) in [(1, false), (2, true), (3, true)] {
        let mut traffic = Traffic::new(seed, tears);
        for round in 0..4_000 {
            match traffic.world.chance.below(40) {
                0 if round > 500 => {
                    let block = HOT.start + traffic.world.chance.below(HOT.end - HOT.start);
                    traffic.spoil(block);
                }
                1..=12 => {
                    let blocks = traffic.range(HOT);
                    traffic.write(blocks);
                }
                13..=25 => {
                    let blocks = traffic.range(ALL);
                    traffic.read(blocks);
                }
                _ => traffic.step(),
            }
            if round == 2_500 {
                traffic.spoil(1035);
                traffic.spoil(1050);
            }
        }
        let Traffic { served, refused, .. } = traffic;
        assert!(served > 200 && refused > 30, "seed {seed}: {served} served, {refused} refused");
    }
}

/// Corruption in a block that is not written is refused by every read, whatever writes run beside it.
#[test]
fn rot_is_refused_beside_any_write() {
    for seed in 0..200 {
        let mut traffic = Traffic::new(seed, seed % 2 == 0);
        let victim = 1000 + traffic.world.chance.below(20);
        traffic.spoil(victim);
        let blocks = victim - traffic.world.chance.below(8).min(victim - 1000)..victim + 1 + traffic.world.chance.below(8);
        let mut reads = 0;
        for turn in 0..12 {
            // Before it, behind it, or on both sides: never the block itself.
            for write in [victim.saturating_sub(9).max(990)..victim, victim + 1..victim + 9] {
                if traffic.world.chance.below(2) == 0 {
                    traffic.world.submit(write.start, write.end - write.start, write_of(turn, &write));
                }
            }
            let tag =
                traffic.world.submit(blocks.start, blocks.end - blocks.start, World::read_operation(blocks.end - blocks.start));
            for _ in 0..traffic.world.chance.below(4) {
                traffic.world.step();
            }
            if turn % 3 == 0 {
                reads += 1;
                let error = traffic.world.wait(tag).result.expect_err("the block is rotten");
                assert_eq!(error.kind, ErrorKind::Medium, "seed {seed}");
            }
        }
        assert_eq!(reads, 4);
    }
}

/// A block that is written without a pause: its reads end all the same, with right bytes, and so do the writes.
#[test]
fn reads_of_a_block_that_is_always_being_written_end() {
    for tears in [false, true] {
        let mut traffic = Traffic::new(7, tears);
        for _ in 0..3_000 {
            traffic.write(1000..1001);
            if traffic.pending.iter().filter(|pending| pending.write.is_none()).count() < 3 {
                traffic.read(1000..1002);
            }
            traffic.step();
        }
        assert!(traffic.served > 100 && traffic.writes > 100, "{} served, {} written", traffic.served, traffic.writes);
        while !traffic.pending.is_empty() {
            traffic.step();
        }
    }
}
