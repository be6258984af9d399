//! The page map: the position of each logical page, the block that is collected next, and the copies that that takes.
//!
//! Blocks are filled page by page through two open blocks, one for the host and one for copies. A page that is written again
//! or trimmed leaves a hole. When free blocks run short, a victim is chosen, its live pages are copied, and it is erased.
//!
//! Invariants: `holder[place[page]] == page` for every mapped page; a block's `live` is the count of its pages for which
//! that holds; pages programmed = written by the host + copied + padding ([`Counts::programmed`]).

/// No page, or no block.
const NONE: u32 = u32::MAX;

/// Free blocks that are kept: one for each open block, and one to copy into. Source: a collection needs at most one block.
const RESERVE_BLOCKS: usize = 3;

/// Blocks that hold no data in the mean: the free one, and half of each open one.
const EMPTY_BLOCKS: u32 = 2;

/// The rule by which a block is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The block with the fewest live pages; of several the one that reached that count first.
    Greedy,
    /// The block with the largest age * (1 - u) / 2u, u being its share of live pages. Of the blocks with one count of live pages
    /// only the one that reached it first is looked at. Source: M. Rosenblum, J. Ousterhout, "The design and implementation of a
    /// log-structured file system", 1992.
    CostBenefit,
    /// The block that was filled first.
    Fifo,
}

/// The size of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pages that the host sees.
    pub logical_pages: u32,
    /// Pages of a block, the unit of erasing.
    pub block_pages: u32,
    /// Blocks of the drive, those of the spare area included.
    pub blocks: u32,
}

impl Shape {
    /// The shape with a spare area of `spare_share` of the logical pages.
    pub fn with_spare(logical_pages: u32, block_pages: u32, spare_share: f64) -> Self {
        let blocks = (f64::from(logical_pages) * (1.0 + spare_share) / f64::from(block_pages)).ceil() as u32;
        Self { logical_pages, block_pages, blocks: blocks + EMPTY_BLOCKS }
    }

    /// True if the spare area is large enough to collect: the blocks that are kept free, and one that is collected.
    pub fn has_spare(&self) -> bool {
        let physical = u64::from(self.blocks) * u64::from(self.block_pages);
        physical.saturating_sub(u64::from(self.logical_pages)) >= (RESERVE_BLOCKS as u64 + 1) * u64::from(self.block_pages)
    }

    /// Pages that can hold data in the long run, over logical pages: the `alpha` of the closed forms.
    pub fn alpha(&self) -> f64 {
        f64::from(self.blocks - EMPTY_BLOCKS) * f64::from(self.block_pages) / f64::from(self.logical_pages)
    }
}

/// The counts of programs and erases since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that the host wrote.
    pub host: u64,
    /// Live pages that collection copied.
    pub copied: u64,
    /// Pages programmed with nothing in them.
    pub padding: u64,
    /// Pages programmed, counted where they are programmed.
    pub programmed: u64,
    /// Blocks erased.
    pub erased: u64,
}

impl Counts {
    /// Pages programmed for a page of the host between `before` and now.
    pub fn amplification_since(&self, before: &Self) -> f64 {
        (self.programmed - before.programmed) as f64 / (self.host - before.host) as f64
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    live: u32,
    filled: u32,
    /// The block's place in the list of blocks with as many live pages (greedy), or of all (FIFO).
    newer: u32,
    older: u32,
    listed: bool,
    sealed_at: u64,
}

/// A page map. It knows no time: see [`flash`](super::flash).
#[derive(Clone, Debug)]
pub struct PageMap {
    shape: Shape,
    policy: Policy,
    place: Vec<u32>,
    holder: Vec<u32>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// Lists of sealed blocks by live pages, oldest first: (oldest, newest).
    lists: Vec<(u32, u32)>,
    /// No list below this one has a block.
    lowest: usize,
    host_open: u32,
    copy_open: u32,
    counts: Counts,
}

/// The purpose of an open block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Host,
    Copies,
}

impl PageMap {
    /// A drive fresh from the factory: nothing mapped, every block erased.
    ///
    /// # Panics
    /// If there is no spare block, or more pages than fit 32 bits.
    pub fn new(shape: Shape, policy: Policy) -> Self {
        let physical = u64::from(shape.blocks) * u64::from(shape.block_pages);
        assert!(physical < u64::from(NONE), "{physical} pages do not fit the map: track fewer of them");
        assert!(shape.has_spare(), "the spare area is smaller than four blocks: {shape:?}");
        let empty = Block { live: 0, filled: 0, newer: NONE, older: NONE, listed: false, sealed_at: 0 };
        let mut map = Self {
            shape,
            policy,
            place: vec![NONE; shape.logical_pages as usize],
            holder: vec![NONE; physical as usize],
            blocks: vec![empty; shape.blocks as usize],
            free: (0..shape.blocks).rev().collect(),
            lists: vec![(NONE, NONE); shape.block_pages as usize + 1],
            lowest: 0,
            host_open: NONE,
            copy_open: NONE,
            counts: Counts::default(),
        };
        map.host_open = map.free.pop().expect("there are blocks");
        map.copy_open = map.free.pop().expect("there are blocks");
        map
    }

    /// The size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The rule by which blocks are collected.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What was programmed and erased since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Erased blocks that wait to be filled.
    pub fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// Pages that hold data.
    pub fn mapped_pages(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.live)).sum()
    }

    /// True if a page holds data.
    pub fn is_mapped(&self, page: u32) -> bool {
        self.place[page as usize] != NONE
    }

    /// How many sealed blocks have each count of live pages.
    pub fn live_histogram(&self) -> Vec<u64> {
        let mut histogram = vec![0; self.shape.block_pages as usize + 1];
        for block in self.blocks.iter().filter(|block| block.listed) {
            histogram[block.live as usize] += 1;
        }
        histogram
    }

    /// Bytes of memory of the state.
    pub fn state_bytes(&self) -> u64 {
        let vectors = size_of_val(&self.place[..]) + size_of_val(&self.holder[..]) + size_of_val(&self.blocks[..]);
        (vectors + size_of_val(&self.lists[..]) + self.blocks.len() * size_of::<u32>()) as u64
    }

    /// The host writes a page. Returns the pages that had to be copied for it.
    pub fn write(&mut self, page: u32) -> u64 {
        self.forget(page);
        self.counts.host += 1;
        self.append(page, Stream::Host)
    }

    /// A page is programmed with nothing in it. Returns the pages that had to be copied for it.
    pub fn pad(&mut self) -> u64 {
        self.counts.padding += 1;
        self.append(NONE, Stream::Host)
    }

    /// The host trims a page.
    pub fn trim(&mut self, page: u32) {
        self.forget(page);
        self.place[page as usize] = NONE;
    }

    /// Collects in idle time, until `free_blocks` are free, no victim has a hole, or `copies_max` pages were copied. Returns the
    /// pages copied.
    pub fn collect_idle(&mut self, free_blocks: usize, copies_max: u64) -> u64 {
        let mut copies = 0;
        while self.free.len() < free_blocks && copies < copies_max {
            let Some(victim) = self.victim() else { break };
            if self.blocks[victim as usize].live == self.shape.block_pages {
                break;
            }
            copies += self.collect(victim);
        }
        copies
    }

    /// Programs a page into an open block, and seals that if it is full. Returns the pages copied to make room.
    fn append(&mut self, page: u32, stream: Stream) -> u64 {
        let open = if stream == Stream::Host { self.host_open } else { self.copy_open };
        let block = &mut self.blocks[open as usize];
        let at = open * self.shape.block_pages + block.filled;
        block.filled += 1;
        self.counts.programmed += 1;
        self.holder[at as usize] = page;
        if page != NONE {
            block.live += 1;
            self.place[page as usize] = at;
        }
        if block.filled < self.shape.block_pages {
            return 0;
        }
        self.list_newest(open, true);
        let copies = if stream == Stream::Host { self.make_room() } else { 0 };
        let next = self.free.pop().expect("collection keeps blocks free");
        match stream {
            Stream::Host => self.host_open = next,
            Stream::Copies => self.copy_open = next,
        }
        copies
    }

    fn make_room(&mut self) -> u64 {
        let mut copies = 0;
        while self.free.len() < RESERVE_BLOCKS - 1 {
            let victim = self.victim().expect("there are sealed blocks");
            let stuck = self.blocks[victim as usize].live == self.shape.block_pages && self.policy != Policy::Fifo;
            assert!(!stuck, "no block has a hole although pages are spare");
            copies += self.collect(victim);
        }
        copies
    }

    fn collect(&mut self, victim: u32) -> u64 {
        self.unlist(victim);
        let start = victim * self.shape.block_pages;
        let live = self.blocks[victim as usize].live;
        let mut left = live;
        for at in start..start + self.shape.block_pages {
            if left == 0 {
                break;
            }
            let page = self.holder[at as usize];
            if page != NONE && self.place[page as usize] == at {
                left -= 1;
                self.append(page, Stream::Copies);
                self.counts.copied += 1;
            }
        }
        self.holder[start as usize..(start + self.shape.block_pages) as usize].fill(NONE);
        self.blocks[victim as usize].live = 0;
        self.blocks[victim as usize].filled = 0;
        self.counts.erased += 1;
        self.free.push(victim);
        u64::from(live)
    }

    /// The page's old place becomes a hole.
    fn forget(&mut self, page: u32) {
        let at = self.place[page as usize];
        if at == NONE {
            return;
        }
        let index = at / self.shape.block_pages;
        if self.blocks[index as usize].listed && self.policy != Policy::Fifo {
            self.unlist(index);
            self.blocks[index as usize].live -= 1;
            self.list_newest(index, false);
        } else {
            self.blocks[index as usize].live -= 1;
        }
    }

    fn list_of(&self, index: u32) -> usize {
        if self.policy == Policy::Fifo { 0 } else { self.blocks[index as usize].live as usize }
    }

    fn list_newest(&mut self, index: u32, sealed: bool) {
        let list = self.list_of(index);
        let (oldest, newest) = self.lists[list];
        let block = &mut self.blocks[index as usize];
        (block.older, block.newer, block.listed) = (newest, NONE, true);
        if sealed {
            block.sealed_at = self.counts.programmed;
        }
        match newest {
            NONE => self.lists[list] = (index, index),
            _ => {
                self.blocks[newest as usize].newer = index;
                self.lists[list] = (oldest, index);
            }
        }
        self.lowest = self.lowest.min(list);
    }

    fn unlist(&mut self, index: u32) {
        let list = self.list_of(index);
        let Block { older, newer, .. } = self.blocks[index as usize];
        match older {
            NONE => self.lists[list].0 = newer,
            _ => self.blocks[older as usize].newer = newer,
        }
        match newer {
            NONE => self.lists[list].1 = older,
            _ => self.blocks[newer as usize].older = older,
        }
        self.blocks[index as usize].listed = false;
    }

    fn victim(&mut self) -> Option<u32> {
        while self.lists.get(self.lowest)?.0 == NONE {
            self.lowest += 1;
        }
        match self.policy {
            Policy::Greedy | Policy::Fifo => Some(self.lists[self.lowest].0),
            Policy::CostBenefit => self.best_by_age(),
        }
    }

    /// Of every count of live pages the block that reached it first stands for the others.
    fn best_by_age(&self) -> Option<u32> {
        let value = |index: u32| {
            let block = &self.blocks[index as usize];
            let share = f64::from(block.live) / f64::from(self.shape.block_pages);
            (self.counts.programmed - block.sealed_at) as f64 * (1.0 - share) / (2.0 * share).max(f64::MIN_POSITIVE)
        };
        let heads = self.lists[self.lowest..].iter().map(|list| list.0).filter(|&oldest| oldest != NONE);
        heads.max_by(|&a, &b| value(a).total_cmp(&value(b)))
    }

    /// Lays out a map by hand, for [`jump`](super::jump): `pages` are placed in `block`, which is sealed with holes for the rest.
    pub(super) fn lay_block(&mut self, pages: &[u32]) {
        assert!(pages.len() <= self.shape.block_pages as usize);
        let index = self.free.pop().expect("a free block to lay out");
        let start = index * self.shape.block_pages;
        for (at, &page) in (start..).zip(pages) {
            self.holder[at as usize] = page;
            self.place[page as usize] = at;
        }
        self.blocks[index as usize].live = pages.len() as u32;
        self.blocks[index as usize].filled = self.shape.block_pages;
        self.list_newest(index, true);
    }

    /// The same for the open blocks, each of which gets half of `pages`, less than a block.
    pub(super) fn lay_open(&mut self, pages: &[u32]) {
        assert!(pages.len() < 2 * self.shape.block_pages as usize - 1);
        let (host, copies) = pages.split_at(pages.len() / 2);
        host.iter().for_each(|&page| _ = self.append(page, Stream::Host));
        copies.iter().for_each(|&page| _ = self.append(page, Stream::Copies));
        self.counts = Counts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// Every invariant of the module's head, by plain code.
    fn check(map: &PageMap) {
        let mut live = vec![0; map.blocks.len()];
        for (page, &at) in map.place.iter().enumerate().filter(|(_, at)| **at != NONE) {
            assert_eq!(map.holder[at as usize], page as u32);
            live[(at / map.shape.block_pages) as usize] += 1;
        }
        for (index, block) in map.blocks.iter().enumerate() {
            assert_eq!(block.live, live[index], "live pages of block {index}");
        }
        let Counts { host, copied, padding, programmed, .. } = map.counts;
        assert_eq!(programmed, host + copied + padding);
        let mapped = map.place.iter().filter(|at| **at != NONE).count();
        assert_eq!(map.mapped_pages(), mapped as u64);
    }

    #[test]
    fn writes_trims_and_padding_at_random_keep_every_invariant() {
        for policy in [Policy::Greedy, Policy::CostBenefit, Policy::Fifo] {
            let mut map = PageMap::new(Shape::with_spare(600, 16, 0.2), policy);
            let mut chance = Chance::new(7, 7);
            for step in 0..20_000 {
                let page = chance.below(600) as u32;
                match chance.below(20) {
                    0..=2 => map.trim(page),
                    3 => _ = map.pad(),
                    4 => _ = map.collect_idle(8, 100),
                    _ => _ = map.write(page),
                }
                if step % 500 == 0 {
                    check(&map);
                }
            }
            check(&map);
            assert!(map.counts.copied > 0 && map.counts.erased > 0 && map.counts.padding > 0);
        }
    }

    #[test]
    #[should_panic(expected = "smaller than four blocks")]
    fn a_drive_without_spare_area_is_refused() {
        PageMap::new(Shape { logical_pages: 1024, block_pages: 64, blocks: 16 }, Policy::Greedy);
    }
}
