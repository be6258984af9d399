//! A device's allocation as descriptors of `base:allocation`.

use crate::wire::{ALLOCATION_CONTEXT_ID, STATE_HOLE, STATE_ZERO};
use stria_block::{Extent, bytes};

/// 4096: extents in one answer; the client continues from its end.
const EXTENT_COUNT_MAX: usize = 4096;
/// The context's id, and a length and flags of 32 bits each for every extent.
pub const REPLY_BYTES_MAX: usize = 4 + EXTENT_COUNT_MAX * 8;

/// The payload of a block status chunk for a range of `sectors`, which the device has described by `extents`.
///
/// Extents are joined, cut to the range and to whole blocks; a block that is partly a hole counts as data. With `one`, only the
/// first is reported. At least one is always reported, as the protocol demands.
pub fn descriptors(extents: &[Extent], sectors: u64, block_sectors: u64, one: bool) -> Vec<u8> {
    let mut runs = Runs::default();
    let mut start = 0u64;
    for extent in extents {
        let end = start.saturating_add(extent.sectors).min(sectors);
        if extent.hole {
            runs.extend_to(start.next_multiple_of(block_sectors), false);
            runs.extend_to(end / block_sectors * block_sectors, true);
        }
        runs.extend_to(end, false);
        start = end;
    }
    if runs.0.is_empty() {
        runs.extend_to(sectors, false);
    }
    let mut payload = Vec::with_capacity(4 + runs.0.len().min(EXTENT_COUNT_MAX) * 8);
    payload.extend_from_slice(&ALLOCATION_CONTEXT_ID.to_be_bytes());
    let mut start = 0;
    for (end, hole) in runs.0.into_iter().take(if one { 1 } else { EXTENT_COUNT_MAX }) {
        // Only the last run may end inside a block, if the device stopped early: the whole block is reported, as data.
        let end = end.next_multiple_of(block_sectors);
        let flags = if hole { STATE_HOLE | STATE_ZERO } else { 0 };
        payload.extend_from_slice(&(bytes(end - start) as u32).to_be_bytes());
        payload.extend_from_slice(&flags.to_be_bytes());
        start = end;
    }
    payload
}

/// Ends of runs and whether each is a hole; neighbours differ, ends grow.
#[derive(Default)]
struct Runs(Vec<(u64, bool)>);

impl Runs {
    fn extend_to(&mut self, end: u64, hole: bool) {
        let start = self.0.last().map_or(0, |run| run.0);
        match self.0.last_mut() {
            _ if end <= start => {}
            Some(last) if last.1 == hole => last.0 = end,
            _ => self.0.push((end, hole)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(payload: &[u8]) -> Vec<(u32, u32)> {
        let words: Vec<u32> = payload.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().expect("4"))).collect();
        assert_eq!(words[0], ALLOCATION_CONTEXT_ID);
        words[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    }

    fn extent(sectors: u64, hole: bool) -> Extent {
        Extent { sectors, hole }
    }

    #[test]
    fn neighbours_are_joined_and_a_partial_hole_is_data() {
        let extents = [extent(4, false), extent(4, false), extent(20, true), extent(4, false)];
        assert_eq!(decode(&descriptors(&extents, 32, 8, false)), [(8 * 512, 0), (16 * 512, 3), (8 * 512, 0)]);
        assert_eq!(decode(&descriptors(&extents, 32, 8, true)), [(8 * 512, 0)]);
    }

    #[test]
    fn silence_of_the_device_is_data() {
        assert_eq!(decode(&descriptors(&[], 32, 8, false)), [(32 * 512, 0)]);
        assert_eq!(decode(&descriptors(&[extent(3, true)], 32, 8, false)), [(8 * 512, 0)]);
    }

    proptest! {
        #[test]
        fn only_true_holes_are_told(
            extents in prop::collection::vec((0u64..40, any::<bool>()), 0..20),
            blocks in 1u64..50, block_sectors in prop::sample::select(vec![1u64, 8]), one: bool,
        ) {
            let extents: Vec<Extent> = extents.into_iter().map(|(sectors, hole)| extent(sectors, hole)).collect();
            let sectors = blocks * block_sectors;
            let holes: Vec<bool> = extents.iter().flat_map(|e| std::iter::repeat_n(e.hole, e.sectors as usize)).collect();
            let decoded = decode(&descriptors(&extents, sectors, block_sectors, one));
            prop_assert!(!decoded.is_empty() && (!one || decoded.len() == 1));
            let mut at = 0u64;
            for &(length, flags) in &decoded {
                prop_assert!(length > 0 && u64::from(length) % (block_sectors * 512) == 0);
                let end = at + u64::from(length) / 512;
                prop_assert!(flags == 0 || (at..end).all(|sector| holes[sector as usize]));
                at = end;
            }
            prop_assert!(at <= sectors);
        }
    }
}
