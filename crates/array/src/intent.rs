//! The write-intent bitmap in memory: which parts of the sync space may disagree after a crash.
//!
//! | a chunk's bit on the members | when |
//! | --- | --- |
//! | set, durably | before the first write to the chunk starts |
//! | stays | while writes run, while it needs resync, and while a member that is away may need it |
//! | cleared | some idle time after all of these are over |

use crate::IntentConfig;
use std::ops::Range;
use stria_block::Nanos;

/// 5 s, as md's `daemon_sleep`: clearing sooner would write the bitmap more often than it helps.
pub(crate) const CLEAR_AFTER: Nanos = 5_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    writers: u32,
    /// The bit is durably set on the members.
    on_members: bool,
    /// Redundancy may disagree here since before the array started.
    needs_resync: bool,
    /// Written while a member was missing.
    kept: bool,
    last_write: Nanos,
}

#[derive(Debug)]
pub(crate) struct Intent {
    chunk_sectors: u64,
    chunks: Vec<Chunk>,
    /// Bits that wait to be set by the next record.
    wanted: Vec<u64>,
    /// Chunks whose bit is set, for the sweep that clears them: a superset, in no order.
    listed: Vec<u64>,
}

impl Intent {
    /// The bitmap as found; with `crashed`, every set bit needs a resync.
    pub fn new(config: &IntentConfig, sync_sectors: u64, crashed: bool) -> Self {
        let count = sync_sectors.div_ceil(config.chunk_sectors);
        let mut chunks = vec![Chunk::default(); count as usize];
        let listed: Vec<u64> = config.dirty.iter().copied().filter(|&chunk| chunk < count).collect();
        for &chunk in &listed {
            chunks[chunk as usize] = Chunk { on_members: true, needs_resync: crashed, kept: true, ..Chunk::default() };
        }
        Self { chunk_sectors: config.chunk_sectors, chunks, wanted: Vec::new(), listed }
    }

    pub fn chunk_sectors(&self) -> u64 {
        self.chunk_sectors
    }

    fn span(&self, range: &Range<u64>) -> Range<usize> {
        (range.start / self.chunk_sectors) as usize..range.end.div_ceil(self.chunk_sectors) as usize
    }

    /// A write to `range` begins. Whether its bits must still be made durable.
    pub fn begin(&mut self, range: &Range<u64>) -> bool {
        let mut wait = false;
        for index in self.span(range) {
            let chunk = &mut self.chunks[index];
            chunk.writers += 1;
            if !chunk.on_members {
                wait = true;
                if chunk.writers == 1 {
                    self.wanted.push(index as u64);
                }
            }
        }
        wait
    }

    /// The write has ended. `whole`: no member misses it.
    pub fn end(&mut self, range: &Range<u64>, whole: bool, now: Nanos) {
        for index in self.span(range) {
            let chunk = &mut self.chunks[index];
            chunk.writers -= 1;
            chunk.kept |= !whole;
            chunk.last_write = now;
        }
    }

    /// Whether every bit of `range` is durably set.
    pub fn is_durable(&self, range: &Range<u64>) -> bool {
        self.chunks[self.span(range)].iter().all(|chunk| chunk.on_members)
    }

    /// Bits to set with the next record.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.wanted)
    }

    /// The record that set these bits is durable.
    pub fn recorded(&mut self, set: &[u64]) {
        for &chunk in set {
            self.chunks[chunk as usize].on_members = true;
        }
        self.listed.extend(set);
    }

    /// Bits that need not be set any more; from now on they count as clear.
    pub fn take_idle(&mut self, whole: bool, now: Nanos, after: Nanos) -> Vec<u64> {
        if !whole {
            return Vec::new();
        }
        let chunks = &mut self.chunks;
        let mut idle = Vec::new();
        self.listed.retain(|&index| {
            let chunk = &mut chunks[index as usize];
            let keep = chunk.writers > 0 || chunk.needs_resync || now < chunk.last_write.saturating_add(after);
            if !keep && chunk.on_members {
                (chunk.on_members, chunk.kept) = (false, false);
                idle.push(index);
            }
            keep
        });
        idle
    }

    /// Whether any bit is set that may be cleared one day.
    pub fn has_bits(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Whether any chunk of `range` needs a resync.
    pub fn needs_resync(&self, range: &Range<u64>) -> bool {
        self.chunks[self.span(range)].iter().any(|chunk| chunk.needs_resync)
    }

    /// Whether any chunk of `range` has its bit set: what a member that was away may lack.
    pub fn is_marked(&self, range: &Range<u64>) -> bool {
        self.chunks[self.span(range)].iter().any(|chunk| chunk.on_members || chunk.writers > 0)
    }

    /// Redundancy agrees in the chunks that lie wholly in `range`.
    pub fn resynced(&mut self, range: &Range<u64>) {
        let last = if range.end >= self.chunks.len() as u64 * self.chunk_sectors {
            self.chunks.len() as u64
        } else {
            range.end / self.chunk_sectors
        };
        for index in range.start.div_ceil(self.chunk_sectors)..last {
            self.chunks[index as usize].needs_resync = false;
        }
    }

    /// Everything agrees.
    pub fn all_resynced(&mut self) {
        for chunk in &mut self.chunks {
            chunk.needs_resync = false;
        }
    }

    /// Count of chunks whose bit is set on the members.
    pub fn marked_count(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.on_members).count()
    }
}
