//! The bad-block log: sectors of a member that are known to be unreadable.
//!
//! 64-bit entries, little-endian: 54 bits of sector (from the start of the drive), 10 bits of length,
//! both in units of 2^`bblog_shift` sectors; all ones ends the list. It is valid only while the superblock has
//! [`feature::BAD_BLOCKS`](super::superblock::feature::BAD_BLOCKS).
//!
//! A power cut may tear a log of several sectors. An entry that stays therefore keeps its place, and an entry that goes leaves
//! its place to a new one or to a copy of another (R52). Linux reads entries in any order, and refuses those of length 0.
//!
//! Source: `super_1_load` and `super_1_sync` in Linux' `md.c`.

use std::ops::Range;
use std::slice;
use stria_array::{BAD_BLOCK_SECTORS_MAX, DriveSector};
use stria_block::ranges::{common, merged, without};

/// The largest log that Linux reads, in sectors.
pub const SECTORS_MAX: u16 = 8;
/// Entries in 512 bytes, which a drive writes whole or not at all.
pub const IN_A_SECTOR: usize = 64;

/// The entries of a log in the order in which they lie on the drive. An empty one is a free place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlockLog(Vec<Range<u64>>);

impl BadBlockLog {
    /// The entries of a log.
    ///
    /// # Errors
    /// A sentence, if an entry is beyond the end of the drive.
    pub fn parse(bytes: &[u8], shift: u8, drive_sectors: u64) -> Result<Self, String> {
        let mut entries = Vec::new();
        for entry in bytes.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes"))) {
            if entry == u64::MAX {
                break;
            }
            let (start, length) = (entry >> 10, entry & 0x3ff);
            let sectors = |units: u64| units.checked_shl(u32::from(shift)).filter(|sectors| sectors >> shift == units);
            let range = sectors(start).and_then(|start| Some(start..start.checked_add(sectors(length)?)?));
            match range {
                Some(range) if range.end <= drive_sectors => entries.push(range),
                _ => return Err(format!("the bad-block log names sector {start}, beyond the end of the drive")),
            }
        }
        Ok(Self(entries))
    }

    /// True if it names no bad block.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Range::is_empty)
    }

    /// The bad blocks, ascending and apart.
    pub fn blocks(&self) -> Vec<Range<DriveSector>> {
        merged(self.0.iter().cloned()).into_iter().map(DriveSector::span).collect()
    }

    /// The log that names `blocks` from now on; `None`: they do not fit into so many sectors.
    ///
    /// If a power cut leaves some sectors as they were and others as they will be, the log still names every block that is bad
    /// before and after. Where the places run out, the entries are put together anew, and this does not hold.
    pub fn changed_to(&self, blocks: &[Range<DriveSector>], size_sectors: u16) -> Option<Self> {
        let wanted = merged(blocks.iter().map(|block| block.start.get()..block.end.get()));
        let capacity = usize::from(size_sectors) * IN_A_SECTOR;
        let in_place = self.changed_in_place(&wanted, capacity);
        in_place.or_else(|| {
            let entries: Vec<_> = wanted.iter().flat_map(entries_of).collect();
            (entries.len() <= capacity).then_some(Self(entries))
        })
    }

    fn changed_in_place(&self, wanted: &[Range<u64>], capacity: usize) -> Option<Self> {
        let mut entries: Vec<Range<u64>> = Vec::with_capacity(self.0.len());
        let mut further = Vec::new();
        for entry in &self.0 {
            let mut pieces = shared_by(slice::from_ref(entry), wanted);
            let is_copy = entries.iter().any(|before| pieces.iter().all(|piece| holds(before, piece)));
            if pieces.is_empty() || is_copy {
                entries.push(0..0);
            } else {
                further.push((entries.len(), pieces.split_off(1)));
                entries.push(pieces.remove(0));
            }
        }
        // The pieces of an entry stay in its sector. Without a place there, its entry names what lies between them, too.
        for (at, pieces) in further {
            let sector = at / IN_A_SECTOR * IN_A_SECTOR;
            for piece in pieces {
                match free_place(&mut entries, sector..capacity.min(sector + IN_A_SECTOR)) {
                    Some(place) => *place = piece,
                    None => entries[at].end = piece.end,
                }
            }
        }
        for new in without(wanted, &entries) {
            let new = lengthen(&mut entries, new);
            for entry in entries_of(&new) {
                *free_place(&mut entries, 0..capacity)? = entry;
            }
        }
        let last = entries.iter().rposition(|entry| !entry.is_empty());
        entries.truncate(last.map_or(0, |last| last + 1));
        let copy = entries.iter().find(|entry| !entry.is_empty()).cloned();
        entries.iter_mut().filter(|entry| entry.is_empty()).for_each(|entry| entry.clone_from(copy.as_ref().expect("the last")));
        Some(Self(entries))
    }

    /// So many sectors that hold the log, in units of one sector.
    pub fn encode(&self, size_sectors: u16) -> Vec<u8> {
        let entry = |range: &Range<u64>| (range.start << 10 | (range.end - range.start)).to_le_bytes();
        let mut bytes: Vec<u8> = self.0.iter().flat_map(entry).collect();
        bytes.resize(usize::from(size_sectors) * 512, 0xff);
        bytes
    }
}

/// What each of some ranges shares with each of others.
fn shared_by(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let shared = ranges.iter().flat_map(|range| others.iter().map(|other| common(range, other)));
    shared.filter(|part| !part.is_empty()).collect()
}

fn holds(range: &Range<u64>, part: &Range<u64>) -> bool {
    range.start <= part.start && part.end <= range.end
}

/// Lets an entry that ends where a new block begins grow into it; returns the rest of the block.
fn lengthen(entries: &mut [Range<u64>], new: Range<u64>) -> Range<u64> {
    let before = entries.iter_mut().find(|entry| !entry.is_empty() && entry.end == new.start);
    let Some(before) = before else { return new };
    before.end = new.end.min(before.start + BAD_BLOCK_SECTORS_MAX).max(before.end);
    before.end..new.end
}

fn entries_of(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = range.end;
    range.clone().step_by(BAD_BLOCK_SECTORS_MAX as usize).map(move |start| start..end.min(start + BAD_BLOCK_SECTORS_MAX))
}

/// The first free place among these, or a new one at the end, if that is among them.
fn free_place(entries: &mut Vec<Range<u64>>, places: Range<usize>) -> Option<&mut Range<u64>> {
    let there = places.clone().take_while(|place| *place < entries.len()).find(|place| entries[*place].is_empty());
    let place = there.or_else(|| places.contains(&entries.len()).then_some(entries.len()))?;
    if place == entries.len() {
        entries.push(0..0);
    }
    Some(&mut entries[place])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u16 = 8;

    fn blocks(at_most: usize) -> impl Strategy<Value = Vec<Range<DriveSector>>> {
        let block = (0u64..9000, 1u64..30).prop_map(|(start, length)| DriveSector::span(start..start + length));
        prop::collection::vec(block, 0..at_most)
    }

    fn numbers(blocks: &[Range<DriveSector>]) -> Vec<Range<u64>> {
        merged(blocks.iter().map(|block| block.start.get()..block.end.get()))
    }

    proptest! {
        /// Lists of up to some 250 entries, each changed from the one before: what is bad before and after is bad in every
        /// mixture of their sectors.
        #[test]
        fn a_torn_log_names_what_stays_bad(lists in prop::collection::vec((blocks(60), any::<bool>()), 2..12), torn in any::<[u8; 12]>()) {
            let (mut log, mut all) = (BadBlockLog::default(), Vec::new());
            for ((list, is_more), torn) in lists.into_iter().zip(torn) {
                // More bad blocks, or every third less.
                match is_more {
                    true => all.extend(list),
                    false => all = all.into_iter().enumerate().filter(|(at, _)| at % 3 != 0).map(|(_, block)| block).collect(),
                }
                let next = log.changed_to(&all, SIZE).expect("space");
                let (before, after) = (log.encode(SIZE), next.encode(SIZE));
                let sector = |at: usize| if torn >> at & 1 == 1 { &after[at * 512..][..512] } else { &before[at * 512..][..512] };
                let mixture = BadBlockLog::parse(&(0..8).flat_map(sector).copied().collect::<Vec<_>>(), 0, 1 << 20).expect("sound");
                for block in shared_by(&numbers(&log.blocks()), &numbers(&all)) {
                    prop_assert!(without(slice::from_ref(&block), &mixture.0).is_empty(), "{block:?} of {before:?} to {after:?}");
                }
                let read = BadBlockLog::parse(&after, 0, 1 << 20).expect("sound");
                prop_assert_eq!(&read, &next);
                prop_assert!(read.0.iter().all(|entry| !entry.is_empty() && entry.end - entry.start <= BAD_BLOCK_SECTORS_MAX));
                for block in numbers(&all) {
                    prop_assert!(without(slice::from_ref(&block), &read.0).is_empty());
                }
                log = next;
            }
        }

        /// While each sector has free places, exactly the bad blocks are named.
        #[test]
        fn a_log_of_few_entries_names_nothing_else(lists in prop::collection::vec(blocks(20), 1..12)) {
            let mut log = BadBlockLog::default();
            for list in lists {
                log = log.changed_to(&list, SIZE).expect("space");
                prop_assert_eq!(numbers(&log.blocks()), numbers(&list));
            }
        }
    }

    #[test]
    fn a_list_fits_until_the_space_is_used_up_and_no_longer() {
        let list = |count: u64| (0..count).map(|at| DriveSector::span(at * 2..at * 2 + 1)).collect::<Vec<_>>();
        let full = BadBlockLog::default().changed_to(&list(512), SIZE).expect("512 entries");
        assert_eq!(full.blocks().len(), 512);
        assert_eq!(full.changed_to(&list(513), SIZE), None);
        // One long block instead: as many entries of 512 sectors as it takes.
        let one = full.changed_to(&[DriveSector::span(0..512 * 512)], SIZE).expect("512 entries");
        assert_eq!(numbers(&one.blocks()).first(), Some(&(0..512 * 512)));
        assert!(one.changed_to(&[], SIZE).expect("none").is_empty());
    }
}
