//! The pages of checksums that are in memory.

use crate::region::PAGE_BLOCKS;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeBounds};

/// 16384 pages are 64 MiB of checksums for 64 GiB of data. If there are more, the oldest are dropped.
pub(crate) const PAGES_MAX: usize = 16384;

/// One page.
pub(crate) struct Page {
    pub sums: Box<[u32]>,
    /// Its bytes have been read.
    pub ready: bool,
    /// It differs from the page on the drive.
    pub dirty: bool,
    /// It is being written back.
    pub saving: bool,
    /// Requests in flight for its blocks: while there are any, it is not dropped.
    pins: u32,
    /// Used since it was last considered for dropping.
    used: bool,
}

/// The pages in memory, by number. Their count follows from use, and not from the size of the drive, which may be a file of 8 EiB
/// with nothing in it.
pub(crate) struct Table {
    pages: BTreeMap<usize, Page>,
    order: VecDeque<usize>,
    pages_max: usize,
}

/// The pages of some blocks: page number, and the entries within it.
pub(crate) fn parts(blocks: &Range<u64>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
    let blocks = blocks.clone();
    (blocks.start / PAGE_BLOCKS..blocks.end.div_ceil(PAGE_BLOCKS)).map(move |page| {
        let first = page * PAGE_BLOCKS;
        let (start, end) = (blocks.start.max(first), blocks.end.min(first + PAGE_BLOCKS));
        (page as usize, (start - first) as usize..(end - first) as usize)
    })
}

impl Table {
    pub fn new(pages_max: usize) -> Self {
        Self { pages: BTreeMap::new(), order: VecDeque::new(), pages_max }
    }

    pub fn page(&mut self, page: usize) -> &mut Page {
        self.pages.get_mut(&page).expect("a page that is in use stays")
    }

    /// Pins the pages of some blocks in memory. Pages that are not there yet must be read, and are added to `lacking`. True if
    /// other requests pin one of them too.
    pub fn pin(&mut self, blocks: &Range<u64>, lacking: &mut Vec<usize>) -> bool {
        let mut shared = false;
        for (number, _) in parts(blocks) {
            let page = self.pages.entry(number).or_insert_with(|| {
                self.order.push_back(number);
                lacking.push(number);
                let sums = vec![0; PAGE_BLOCKS as usize].into_boxed_slice();
                Page { sums, ready: false, dirty: false, saving: false, pins: 0, used: true }
            });
            shared |= page.pins > 0;
            page.pins += 1;
            page.used = true;
        }
        shared
    }

    pub fn unpin(&mut self, blocks: &Range<u64>) {
        parts(blocks).for_each(|(page, _)| self.page(page).pins -= 1);
    }

    pub fn is_ready(&self, blocks: &Range<u64>) -> bool {
        parts(blocks).all(|(page, _)| self.pages.get(&page).is_some_and(|page| page.ready))
    }

    /// Drops old pages while there are too many. Returns those that must be written back first.
    pub fn shrink(&mut self) -> Vec<usize> {
        let mut to_save = Vec::new();
        let mut looks = 64;
        while self.order.len() > self.pages_max && looks > 0 {
            looks -= 1;
            let number = self.order.pop_front().expect("it is not empty");
            let page = self.page(number);
            if page.ready && !page.dirty && !page.saving && page.pins == 0 && !page.used {
                self.pages.remove(&number);
                continue;
            }
            // If there are few pages, the looks come to one twice.
            if page.ready && page.dirty && !page.saving && !page.used && !to_save.contains(&number) {
                to_save.push(number);
            }
            page.used = false;
            self.order.push_back(number);
        }
        to_save
    }

    /// Pages of a range that differ from the drive.
    pub fn dirty(&self, pages: impl RangeBounds<usize>) -> Vec<usize> {
        self.pages.range(pages).filter(|(_, page)| page.dirty && !page.saving).map(|(&number, _)| number).collect()
    }

    /// True if some of these pages are on their way to the drive.
    pub fn is_saving(&self, pages: impl RangeBounds<usize>) -> bool {
        self.pages.range(pages).any(|(_, page)| page.saving)
    }

    /// True if the drive has the current content of these pages.
    pub fn is_saved(&self, pages: impl RangeBounds<usize>) -> bool {
        self.pages.range(pages).all(|(_, page)| !page.dirty && !page.saving)
    }
}
