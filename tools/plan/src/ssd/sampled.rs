//! The page map of a drive of any size in bounded memory: one page in `every` is tracked.
//!
//! Pages are cut into groups of `every` neighbours, and a hash picks one page of each. Only writes and trims of picked pages
//! reach the [`PageMap`], whose spare share is the drive's own, so that its write amplification is the drive's (as in the
//! sampling of caches by hashed addresses, C. Waldspurger et al., "SHARDS", 2015). Each copy that it makes stands for `every`
//! copies on the drive. They are owed, and paid along with the pages that the host writes next, in a share of `SMOOTH_BLOCKS`: a
//! real drive collects a little with every write. With `every` = 1 the map is the whole drive's.

use super::jump;
use super::map::{Counts, PageMap, Policy, Shape};
use crate::chance::{Chance, mix};
use crate::queueing::amplification_greedy;

/// 32 tracked blocks: copies are made block by block, which leaves a ripple of 1/64 of their mean.
const SMOOTH_BLOCKS: u32 = 32;

/// 8: after so many random overwrites of all pages a drive's write amplification no longer drifts, as `tests/amplification.rs`
/// finds.
const OVERWRITES: u64 = 8;

/// The page map of a large drive (see the module).
#[derive(Clone, Debug)]
pub struct SampledMap {
    map: PageMap,
    every: u64,
    /// Pages that the host wrote, tracked or not.
    host_pages: u64,
    padding_pages: u64,
    /// Copies that the drive made, and such as it has still to make.
    copied_pages: u64,
    owed_pages: u64,
    /// The rest of a page that the last payment left.
    fraction: f64,
}

impl SampledMap {
    /// A fresh drive of `pages`, of which at most `tracked_max` are tracked.
    pub fn new(pages: u64, spare_share: f64, block_pages: u32, policy: Policy, tracked_max: u64) -> Self {
        let every = pages.div_ceil(tracked_max);
        let map = PageMap::new(Shape::with_spare((pages / every) as u32, block_pages, spare_share), policy);
        Self { map, every, host_pages: 0, padding_pages: 0, copied_pages: 0, owed_pages: 0, fraction: 0.0 }
    }

    /// The tracked pages' map.
    pub fn tracked(&self) -> &PageMap {
        &self.map
    }

    /// Pages that one tracked page stands for.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// True if a page holds data, as far as the tracked page of its group tells.
    pub fn is_mapped(&self, page: u64) -> bool {
        let last = self.map.shape().logical_pages - 1;
        self.map.is_mapped(u32::try_from(page / self.every).unwrap_or(last).min(last))
    }

    /// The host writes a range of pages. Returns the copies that the drive makes along with it.
    pub fn write(&mut self, first: u64, pages: u64) -> u64 {
        self.host_pages += pages;
        let every = self.every;
        if every == 1 {
            for page in first..first + pages {
                let copies = self.map.write(page as u32);
                self.owe(copies);
            }
        } else {
            for group in first / every..=(first + pages - 1) / every {
                if self.is_tracked(group, first, pages) {
                    let copies = self.map.write(group as u32);
                    self.owe(copies);
                }
            }
        }
        self.pay(pages)
    }

    /// The host writes one page of the `group`-th group and all others of other groups: for states that are reached without
    /// taking time. Copies are made along with it.
    pub fn write_group(&mut self, group: u32) {
        self.host_pages += self.every;
        let copies = self.map.write(group);
        self.owe(copies);
        self.pay(self.every);
    }

    /// Trims everything; copies that are owed are of pages without data now, and are not made.
    pub fn trim_all(&mut self) {
        (0..self.map.shape().logical_pages).for_each(|group| self.map.trim(group));
        self.owed_pages = 0;
    }

    /// The state that random overwrites lead to, computed: see [`super::jump`]. The open block's share of copies is owed. The
    /// computation holds for greedy collection only; under another policy the tracked pages are overwritten.
    pub fn jump_to_used(&mut self, seed: u64) {
        let (shape, policy) = (self.map.shape(), self.map.policy());
        if policy != Policy::Greedy {
            let mut chance = Chance::new(seed, 0);
            let pages = shape.logical_pages;
            (0..pages).for_each(|page| self.write_group(page));
            (0..u64::from(pages) * OVERWRITES).for_each(|_| self.write_group(chance.below(u64::from(pages)) as u32));
            return;
        }
        self.map = jump::overwritten(shape, seed);
        let copies = amplification_greedy(shape.alpha(), shape.block_pages) - 1.0;
        self.owed_pages = (copies * self.smooth_pages()) as u64;
    }

    /// Pages are programmed with nothing in them. Returns the copies that the drive makes along with them.
    pub fn pad(&mut self, pages: u64) -> u64 {
        let before = self.padding_pages / self.every;
        self.padding_pages += pages;
        for _ in before..self.padding_pages / self.every {
            let copies = self.map.pad();
            self.owe(copies);
        }
        self.pay(pages)
    }

    /// The host trims a range of pages.
    pub fn trim(&mut self, first: u64, pages: u64) {
        for group in first / self.every..=(first + pages - 1) / self.every {
            if self.is_tracked(group, first, pages) {
                self.map.trim(group as u32);
            }
        }
    }

    /// Collects in idle time: see [`PageMap::collect_idle`]; `copies_max` are the drive's. Returns the drive's copies.
    pub fn collect_idle(&mut self, free_share: f64, copies_max: u64) -> u64 {
        let free_blocks = (f64::from(self.map.shape().blocks) * free_share) as usize;
        let copies = self.map.collect_idle(free_blocks, copies_max / self.every) * self.every + self.owed_pages;
        self.copied_pages += copies;
        self.owed_pages = 0;
        copies
    }

    /// The drive's programs and erases, in its own pages; copies that are still owed are not counted.
    pub fn counts(&self) -> Counts {
        let Counts { erased, .. } = self.map.counts();
        let (host, copied, padding) = (self.host_pages, self.copied_pages, self.padding_pages);
        Counts { host, copied, padding, programmed: host + copied + padding, erased: erased * self.every }
    }

    /// Copies that are not yet made.
    pub fn owed_pages(&self) -> u64 {
        self.owed_pages
    }

    fn is_tracked(&self, group: u64, first: u64, pages: u64) -> bool {
        let page = group * self.every + mix(group) % self.every;
        group < u64::from(self.map.shape().logical_pages) && (first..first + pages).contains(&page)
    }

    fn owe(&mut self, copies: u64) {
        self.owed_pages += copies * self.every;
    }

    /// Host pages over which copies are spread.
    fn smooth_pages(&self) -> f64 {
        f64::from(SMOOTH_BLOCKS * self.map.shape().block_pages) * self.every as f64
    }

    fn pay(&mut self, pages: u64) -> u64 {
        let due = self.owed_pages as f64 * (pages as f64 / self.smooth_pages()).min(1.0) + self.fraction;
        self.fraction = due.fract();
        let paid = (due as u64).min(self.owed_pages);
        self.owed_pages -= paid;
        self.copied_pages += paid;
        paid
    }
}
