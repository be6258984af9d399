//! The write-intent bitmap in memory: which parts of the sync space may be inconsistent after a crash (R2, R3).
//!
//! | a chunk's bit on the members | when |
//! | --- | --- |
//! | set, durably | before the first write to the chunk starts |
//! | stays | while writes run, while it needs a resync, and while a missing member may need it |
//! | cleared | some idle time after all of these are over |

use crate::address::SyncSpace;
use crate::{IntentConfig, SyncSector, Synced};
use std::collections::BTreeMap;
use std::ops::Range;
use stria_block::Nanos;

/// 5 s, as md's `daemon_sleep`: clearing sooner would write the bitmap more often than it helps.
pub(crate) const CLEAR_AFTER: Nanos = 5_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    writers: u32,
    /// The bit is durable on the members.
    on_members: bool,
    /// A resync is due here since before the array started.
    needs_resync: bool,
    last_write: Nanos,
}

#[derive(Debug)]
pub(crate) struct Intent {
    chunk_sectors: u64,
    chunks: Vec<Chunk>,
    /// No chunk before this one needs a resync, so a resync visits each chunk once.
    consistent_below: usize,
    /// Bits to be set by the next update.
    wanted: Vec<u64>,
    /// The number of updates that could not be written.
    refusals: u64,
    /// Chunks whose bit an update that could not be written was to set, each with the number of the last such update, until the
    /// bit is durable.
    refused: BTreeMap<u64, u64>,
    /// Chunks whose bit is set, for the task that clears them: a superset, in no order.
    listed: Vec<u64>,
}

impl Intent {
    /// The bitmap as found. With `crashed`, every set bit needs a resync.
    pub fn new(config: &IntentConfig, sync_sectors: u64, crashed: bool) -> Self {
        let count = sync_sectors.div_ceil(config.chunk_sectors);
        let mut chunks = vec![Chunk::default(); count as usize];
        let listed: Vec<u64> = config.dirty.iter().copied().filter(|&chunk| chunk < count).collect();
        for &chunk in &listed {
            chunks[chunk as usize] = Chunk { on_members: true, needs_resync: crashed, ..Chunk::default() };
        }
        let (wanted, refused) = (Vec::new(), BTreeMap::new());
        Self { chunk_sectors: config.chunk_sectors, chunks, consistent_below: 0, wanted, refusals: 0, refused, listed }
    }

    pub fn chunk_sectors(&self) -> u64 {
        self.chunk_sectors
    }

    fn span(&self, range: &Range<SyncSector>) -> Range<usize> {
        (range.start.get() / self.chunk_sectors) as usize..range.end.get().div_ceil(self.chunk_sectors) as usize
    }

    /// A write to `range` begins. Returns whether its bits must still be made durable.
    pub fn begin(&mut self, range: &Range<SyncSector>) -> bool {
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

    /// A write has ended.
    pub fn end(&mut self, range: &Range<SyncSector>, now: Nanos) {
        for index in self.span(range) {
            let chunk = &mut self.chunks[index];
            chunk.writers -= 1;
            chunk.last_write = now;
        }
    }

    /// True if every bit of `range` is durable.
    pub fn is_durable(&self, range: &Range<SyncSector>) -> bool {
        self.chunks[self.span(range)].iter().all(|chunk| chunk.on_members)
    }

    /// Takes the bits for the next update.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.wanted)
    }

    /// The update that set these bits is durable.
    pub fn recorded(&mut self, set: &[u64]) {
        for &chunk in set {
            self.chunks[chunk as usize].on_members = true;
            self.refused.remove(&chunk);
        }
        self.listed.extend(set);
    }

    /// The update that set these bits could not be written: the writes that wait for it fail. Those that come meanwhile need
    /// them.
    pub fn refused(&mut self, set: &[u64]) {
        self.refusals += 1;
        for &chunk in set.iter().filter(|&&chunk| self.chunks[chunk as usize].writers > 0) {
            self.wanted.push(chunk);
            self.refused.insert(chunk, self.refusals);
        }
    }

    /// True if a bit of `range` was to be set by an update that could not be written. The first `before` such updates do not
    /// count.
    pub fn was_refused(&self, range: &Range<SyncSector>, before: u64) -> bool {
        self.span(range).any(|chunk| self.refused.get(&(chunk as u64)).is_some_and(|&number| number > before))
    }

    /// The number of updates that could not be written.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Chunks whose bits may be cleared, as far as writers and resync are concerned.
    pub fn idle(&self, now: Nanos, after: Nanos) -> Vec<u64> {
        let is_idle = |chunk: &Chunk| {
            chunk.on_members && chunk.writers == 0 && !chunk.needs_resync && now >= chunk.last_write.saturating_add(after)
        };
        self.listed.iter().copied().filter(|&index| is_idle(&self.chunks[index as usize])).collect()
    }

    /// The chunks among `idle` that were not written since then. From now on their bits count as clear.
    pub fn clear(&mut self, mut idle: Vec<u64>, since: Nanos) -> Vec<u64> {
        let chunks = &mut self.chunks;
        idle.retain(|&index| {
            let chunk = &mut chunks[index as usize];
            let still = chunk.on_members && chunk.writers == 0 && chunk.last_write <= since;
            if still {
                assert!(!chunk.needs_resync, "the bit of a chunk that needs a resync is cleared");
                chunk.on_members = false;
            }
            still
        });
        self.listed.retain(|&index| chunks[index as usize].on_members);
        idle
    }

    /// Looks at `idle` chunks again some time after `now`.
    pub fn postpone(&mut self, idle: &[u64], now: Nanos) {
        idle.iter().for_each(|&index| self.chunks[index as usize].last_write = now.saturating_add(CLEAR_AFTER));
    }

    /// True if any bit is set that may be cleared one day.
    pub fn has_bits(&self) -> bool {
        !self.listed.is_empty()
    }

    /// True if any chunk of `range` needs a resync.
    pub fn needs_resync(&self, range: &Range<SyncSector>) -> bool {
        self.chunks[self.span(range)].iter().any(|chunk| chunk.needs_resync)
    }

    /// True if any chunk of `range` has its bit set: a member that was away may lack it.
    pub fn is_marked(&self, range: &Range<SyncSector>) -> bool {
        self.chunks[self.span(range)].iter().any(|chunk| chunk.on_members || chunk.writers > 0)
    }

    /// Redundancy is consistent in the chunks that lie entirely below a position.
    pub fn mark_consistent_below(&mut self, synced: Synced<SyncSpace>) {
        let count = self.chunks.len();
        let end = synced.end_in(count as u64 * self.chunk_sectors).get() / self.chunk_sectors;
        let end = end as usize;
        for chunk in self.chunks.get_mut(self.consistent_below..end).unwrap_or_default() {
            chunk.needs_resync = false;
        }
        self.consistent_below = self.consistent_below.max(end);
    }

    /// Count of chunks whose bit is set on the members.
    pub fn marked_count(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.on_members).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_stays_until_it_is_cleared_and_longer_where_something_was_written_meanwhile() {
        let mut intent = Intent::new(&IntentConfig { chunk_sectors: 8, dirty: Vec::new() }, 32, false);
        assert!(intent.begin(&SyncSector::span(0..16)), "the bits of two chunks are to be set");
        let set = intent.take_wanted();
        intent.recorded(&set);
        intent.end(&SyncSector::span(0..16), 10);
        assert_eq!(intent.idle(14, 5), []);
        let idle = intent.idle(15, 5);
        assert_eq!(idle, [0, 1]);
        assert!(
            !intent.begin(&SyncSector::span(8..9)) && intent.is_marked(&SyncSector::span(0..8)),
            "what is to be cleared is set until it is"
        );
        intent.end(&SyncSector::span(8..9), 16);
        assert_eq!(intent.clear(idle, 15), [0]);
        assert!(!intent.is_marked(&SyncSector::span(0..8)) && intent.is_marked(&SyncSector::span(8..16)) && intent.has_bits());
        intent.postpone(&[1], 20);
        assert_eq!(intent.idle(21, 0), []);
    }
}
