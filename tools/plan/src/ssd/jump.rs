//! A drive that was overwritten at random until nothing changes any more, made at once.
//!
//! In that state a block that was just sealed is live throughout, and its live pages dwindle at the rate at which the host hits
//! them, until greedy collection takes it with `v` of `b` left. As many blocks pass every count in a time, so the number of
//! blocks with `j` live pages is proportional to 1/j, from b down to v
//! ([`amplification_greedy`](crate::queueing::amplification_greedy) has the same argument). The pages of these blocks are
//! drawn at random. The test compares counts and write amplification with those of a drive that was overwritten page by page.

use super::map::{PageMap, Policy, Shape};
use crate::chance::Chance;
use crate::queueing::greedy_live_share;

/// A map in the steady state of uniform random overwrites under greedy collection; every page is mapped.
pub fn overwritten(shape: Shape, seed: u64) -> PageMap {
    let mut map = PageMap::new(shape, Policy::Greedy);
    let mut chance = Chance::new(seed, 0);
    let mut pages: Vec<u32> = (0..shape.logical_pages).collect();
    for at in (1..pages.len()).rev() {
        pages.swap(at, chance.below(at as u64 + 1) as usize);
    }
    let mut rest = &pages[..];
    for live in live_counts(shape) {
        let (now, later) = rest.split_at(live as usize);
        map.lay_block(now);
        rest = later;
    }
    map.lay_open(rest);
    map
}

/// The live pages of each sealed block, fewest first; a block's worth of pages is left for the two open blocks.
fn live_counts(shape: Shape) -> Vec<u32> {
    let lowest = (greedy_live_share(shape.alpha(), shape.block_pages) * f64::from(shape.block_pages)).ceil() as u32;
    let sealed = shape.blocks - 3;
    let counts = lowest.max(1)..=shape.block_pages;
    let weight: f64 = counts.clone().map(|count| 1.0 / f64::from(count)).sum();
    let mut live = Vec::with_capacity(sealed as usize);
    let mut due = 0.0;
    for count in counts {
        due += f64::from(sealed) / weight / f64::from(count);
        while (live.len() as f64) < due.round() {
            live.push(count);
        }
    }
    // Counts are whole numbers: what that leaves over or takes too much is spread evenly.
    let target = i64::from(shape.logical_pages) - i64::from(shape.block_pages);
    let mut over = live.iter().map(|&count| i64::from(count)).sum::<i64>() - target;
    while over != 0 {
        for count in &mut live {
            match over {
                1.. if *count > 0 => (*count, over) = (*count - 1, over - 1),
                ..=-1 if *count < shape.block_pages => (*count, over) = (*count + 1, over + 1),
                _ => {}
            }
        }
    }
    live
}
