//! The expected content of every block of a region, to verify reads.
//!
//! Each sector of a written block carries its writer (the ledger's seed), its position and generation, a check of these, and a
//! body that follows from them:
//!
//! ```text
//! bytes 0..8 seed · 8..16 sector · 16..24 generation · 24..32 check of the three · 32..512 SplitMix64 from the check
//! ```
//!
//! So a wrong sector shows the kind of fault, see [`Fault`]. For each block the ledger stores the acknowledged generation and the
//! newest attempted one. After a failed write any sector may have either.
//! Memory: some 50 bytes for each block that was written, however large the region is.

use std::collections::BTreeMap;
use std::ops::Range;
use stria_block::{SECTOR_BYTES, bytes};
use stria_chance::{Chance, mix};

/// The difference between a block that was read and its expected content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An acknowledged write is missing, and the one before it is there.
    #[error("sector {sector}: write lost: generation {found} where {expected} was acknowledged")]
    Lost {
        /// Where.
        sector: u64,
        /// What is there; 0: zeros, as if never written.
        found: u64,
        /// What should be.
        expected: u64,
    },
    /// Sectors of one write are of different generations.
    #[error("sector {sector}: write torn: generation {found} beside {expected} in the same block")]
    Torn {
        /// The first with the older one.
        sector: u64,
        /// The older one.
        found: u64,
        /// The newer one.
        expected: u64,
    },
    /// The data belongs elsewhere.
    #[error("sector {sector}: it has the data of sector {found_sector} (generation {found}): a misplaced write or read")]
    Misplaced {
        /// Where.
        sector: u64,
        /// Where it belongs.
        found_sector: u64,
        /// Its generation.
        found: u64,
    },
    /// The data is of another run.
    #[error("sector {sector}: it has data of another run (seed {found_seed:#x}): a lost write over old data")]
    Foreign {
        /// Where.
        sector: u64,
        /// Whose.
        found_seed: u64,
    },
    /// A generation that was never written.
    #[error("sector {sector}: generation {found} is newer than {expected}, the newest written")]
    Future {
        /// Where.
        sector: u64,
        /// What is there.
        found: u64,
        /// The newest.
        expected: u64,
    },
    /// Bytes that were never written.
    #[error("sector {sector}: corrupt: {wrong_bytes} bytes differ from generation {expected}, the first at byte {first_byte}")]
    Corrupt {
        /// Where.
        sector: u64,
        /// How many differ.
        wrong_bytes: usize,
        /// The first of them.
        first_byte: usize,
        /// What should be.
        expected: u64,
    },
}

#[derive(Clone, Copy, Default)]
struct Block {
    /// Newest generation acknowledged; 0: contents unknown.
    sure: u32,
    /// Newest generation tried.
    newest: u32,
    /// True if a request is in flight, as a block has only one at a time.
    busy: bool,
}

/// The expected contents of a region, block by block. It outlives a load, so that a later one, or
/// [`Load::check`](crate::Load::check), knows the writes of earlier ones.
pub struct Ledger {
    seed: u64,
    start_sector: u64,
    block_sectors: u64,
    block_count: u64,
    /// Those that were written or are in flight.
    blocks: BTreeMap<u64, Block>,
}

impl Ledger {
    /// A ledger of `region` (in sectors; what is left of the last block is unused) that knows nothing of its contents yet.
    /// `seed` marks this run's data.
    ///
    /// # Panics
    /// When `block_bytes` is 0 or not a multiple of 512.
    pub fn new(seed: u64, region: Range<u64>, block_bytes: u32) -> Self {
        assert!(block_bytes > 0 && block_bytes.is_multiple_of(512), "a block is some sectors, not {block_bytes} bytes");
        let block_sectors = u64::from(block_bytes) / SECTOR_BYTES as u64;
        let block_count = (region.end - region.start) / block_sectors;
        Self { seed, start_sector: region.start, block_sectors, block_count, blocks: BTreeMap::new() }
    }

    /// The region that whole blocks cover, in sectors.
    pub fn region(&self) -> Range<u64> {
        self.start_sector..self.start_sector + self.block_count * self.block_sectors
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        bytes(self.block_sectors) as u32
    }

    /// Blocks whose contents are known.
    pub fn known_blocks(&self) -> usize {
        self.blocks.values().filter(|block| block.sure > 0).count()
    }

    /// The first block from `block` on whose contents are known.
    pub(crate) fn known_from(&self, block: u64) -> Option<u64> {
        self.blocks.range(block..).find(|(_, block)| block.sure > 0).map(|(block, _)| *block)
    }

    /// A new load: requests that an earlier one left in flight are forgotten.
    pub(crate) fn begin(&mut self) {
        self.blocks.values_mut().for_each(|block| block.busy = false);
        self.blocks.retain(|_, block| block.newest > 0);
    }

    /// Takes block `wanted`, or the next that is not in flight. `None`: all are.
    pub(crate) fn reserve(&mut self, wanted: u64) -> Option<u64> {
        let is_busy = |block: &u64| self.blocks.get(block).is_some_and(|block| block.busy);
        let free = (0..self.block_count).map(|step| (wanted + step) % self.block_count).find(|block| !is_busy(block))?;
        self.blocks.entry(free).or_default().busy = true;
        Some(free)
    }

    /// Fills `into` with the next generation of a reserved block.
    pub(crate) fn write_begin(&mut self, block: u64, into: &mut [u8]) {
        let newest = &mut self.blocks.entry(block).or_default().newest;
        *newest += 1;
        let generation = u64::from(*newest);
        let first = self.start_sector + block * self.block_sectors;
        for (sector, into) in (first..).zip(into.chunks_exact_mut(SECTOR_BYTES)) {
            fill_sector(into, self.seed, sector, generation);
        }
    }

    /// The write has ended; the block is free again.
    pub(crate) fn write_end(&mut self, block: u64, acknowledged: bool) {
        let block = self.blocks.entry(block).or_default();
        if acknowledged {
            block.sure = block.newest;
        }
        block.busy = false;
    }

    /// The read has ended; the block is free again.
    ///
    /// `Ok(false)`: nothing is known of the block, so nothing was compared.
    pub(crate) fn read_end(&mut self, block: u64, data: Option<&[u8]>) -> Result<bool, Fault> {
        let known = self.blocks.entry(block).or_default();
        known.busy = false;
        let Block { sure, newest, .. } = *known;
        if newest == 0 {
            self.blocks.remove(&block);
        }
        let Some(data) = data.filter(|_| sure > 0) else { return Ok(false) };
        let (sure, newest) = (u64::from(sure), u64::from(newest));
        let first = self.start_sector + block * self.block_sectors;
        let sectors = || (first..).zip(data.chunks_exact(SECTOR_BYTES));
        let fault = sectors().find_map(|(sector, bytes)| self.judge(sector, bytes, sure, newest).err());
        Err(match fault {
            None => return Ok(true),
            Some(Fault::Lost { sector, found, .. })
                if sectors().any(|(other, bytes)| other != sector && self.judge(other, bytes, sure, newest).is_ok()) =>
            {
                Fault::Torn { sector, found, expected: sure }
            }
            Some(fault) => fault,
        })
    }

    fn judge(&self, sector: u64, bytes: &[u8], sure: u64, newest: u64) -> Result<(), Fault> {
        let word = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("eight bytes"));
        let (seed, found_sector, found) = (word(0), word(1), word(2));
        if word(3) != check(seed, found_sector, found) {
            if bytes.iter().all(|&byte| byte == 0) {
                return Err(Fault::Lost { sector, found: 0, expected: sure });
            }
        } else if seed != self.seed {
            return Err(Fault::Foreign { sector, found_seed: seed });
        } else if found_sector != sector {
            return Err(Fault::Misplaced { sector, found_sector, found });
        } else if found > newest {
            return Err(Fault::Future { sector, found, expected: newest });
        }
        let whole = word(3) == check(seed, found_sector, found);
        let expected = if whole { found } else { sure };
        let mut should = [0; SECTOR_BYTES];
        fill_sector(&mut should, self.seed, sector, expected);
        if bytes != should {
            let differs = |&index: &usize| bytes[index] != should[index];
            let first_byte = (0..SECTOR_BYTES).find(differs).expect("they differ");
            return Err(Fault::Corrupt { sector, wrong_bytes: (0..SECTOR_BYTES).filter(differs).count(), first_byte, expected });
        }
        if found < sure {
            return Err(Fault::Lost { sector, found, expected: sure });
        }
        Ok(())
    }
}

fn check(seed: u64, sector: u64, generation: u64) -> u64 {
    mix(mix(mix(seed ^ 0x7374_7269_612d_6c64) ^ sector) ^ generation)
}

fn fill_sector(into: &mut [u8], seed: u64, sector: u64, generation: u64) {
    let check = check(seed, sector, generation);
    for (word, value) in into.chunks_exact_mut(8).zip([seed, sector, generation, check]) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    Chance::from_state(check).fill(&mut into[32..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two generations of block 1 of a ledger with 4 KiB blocks at sector 16, the second acknowledged.
    fn written() -> (Ledger, Vec<u8>, Vec<u8>) {
        let mut ledger = Ledger::new(7, 16..16 + 64, 4096);
        let mut generations = [vec![0; 4096], vec![0; 4096]];
        for generation in &mut generations {
            assert_eq!(ledger.reserve(1), Some(1));
            ledger.write_begin(1, generation);
            ledger.write_end(1, true);
        }
        let [first, second] = generations;
        (ledger, first, second)
    }

    fn fault(ledger: &mut Ledger, data: &[u8]) -> Fault {
        ledger.read_end(1, Some(data)).expect_err("the data is wrong")
    }

    #[test]
    fn the_newest_generation_is_right_and_unknown_blocks_are_not_judged() {
        let (mut ledger, _, second) = written();
        assert_eq!(ledger.read_end(1, Some(&second)), Ok(true));
        assert_eq!(ledger.read_end(2, Some(&second)), Ok(false));
        assert_eq!((ledger.known_blocks(), ledger.region()), (1, 16..80));
    }

    #[test]
    fn each_way_to_be_wrong_is_told() {
        let (mut ledger, first, second) = written();
        assert_eq!(fault(&mut ledger, &first), Fault::Lost { sector: 24, found: 1, expected: 2 });
        assert_eq!(fault(&mut ledger, &[0; 4096]), Fault::Lost { sector: 24, found: 0, expected: 2 });
        let mut torn = second.clone();
        torn[1536..].copy_from_slice(&first[1536..]);
        assert_eq!(fault(&mut ledger, &torn), Fault::Torn { sector: 27, found: 1, expected: 2 });
        let mut turned = second.clone();
        turned.rotate_left(512);
        assert_eq!(fault(&mut ledger, &turned), Fault::Misplaced { sector: 24, found_sector: 25, found: 2 });
        let mut flipped = second.clone();
        flipped[700] ^= 4;
        let corrupt = Fault::Corrupt { sector: 25, wrong_bytes: 1, first_byte: 188, expected: 2 };
        assert_eq!(fault(&mut ledger, &flipped), corrupt);
        let mut header = second.clone();
        header[0] ^= 1;
        let corrupt = Fault::Corrupt { sector: 24, wrong_bytes: 1, first_byte: 0, expected: 2 };
        assert_eq!(fault(&mut ledger, &header), corrupt);
        let mut other = Ledger::new(8, 16..80, 4096);
        let mut foreign = vec![0; 4096];
        other.write_begin(1, &mut foreign);
        assert_eq!(fault(&mut ledger, &foreign), Fault::Foreign { sector: 24, found_seed: 8 });
        ledger.blocks.insert(1, Block { sure: 1, newest: 1, busy: false });
        assert_eq!(fault(&mut ledger, &second), Fault::Future { sector: 24, found: 2, expected: 1 });
    }

    #[test]
    fn a_failed_write_may_leave_either_generation_in_each_sector() {
        let (mut ledger, _, second) = written();
        let mut third = vec![0; 4096];
        ledger.write_begin(1, &mut third);
        ledger.write_end(1, false);
        third[..512].copy_from_slice(&second[..512]);
        assert_eq!(ledger.read_end(1, Some(&third)), Ok(true));
    }

    #[test]
    fn a_region_of_petabytes_costs_only_what_was_written() {
        let mut ledger = Ledger::new(7, 0..1 << 42, 4096);
        for block in [1 << 38, 5, 9] {
            assert_eq!(ledger.reserve(block), Some(block));
            ledger.write_begin(block, &mut [0; 4096]);
            ledger.write_end(block, block != 9);
        }
        assert_eq!(ledger.reserve(6), Some(6));
        assert_eq!(ledger.read_end(6, Some(&[0; 4096])), Ok(false));
        assert_eq!([0, 6, (1 << 38) + 1].map(|from| ledger.known_from(from)), [Some(5), Some(1 << 38), None]);
        assert_eq!((ledger.known_blocks(), ledger.blocks.len(), ledger.region()), (2, 3, 0..1 << 42));
    }

    #[test]
    fn no_two_requests_meet_on_a_block() {
        let mut ledger = Ledger::new(7, 0..16, 4096);
        assert_eq!([ledger.reserve(1), ledger.reserve(1), ledger.reserve(0)], [Some(1), Some(0), None]);
        ledger.write_end(0, true);
        assert_eq!(ledger.reserve(1), Some(0));
    }
}
