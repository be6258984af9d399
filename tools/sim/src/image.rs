//! The bytes of a drive, in pages that exist only after a write, and are shared between copies until the copies differ.

use std::rc::Rc;
use stria_block::{SECTOR_BYTES, bytes};

const PAGE: usize = 4096;

/// Sparse bytes. A clone costs one reference for each page.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Option<Rc<[u8]>>>,
}

impl Image {
    /// Zeros.
    pub fn new(sectors: u64) -> Self {
        Self { pages: vec![None; bytes(sectors).div_ceil(PAGE)] }
    }

    /// Cuts a range at page borders: page, first byte in it, length.
    fn cuts(start: usize, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut next = start;
        std::iter::from_fn(move || {
            let left = start + len - next;
            (left > 0).then(|| {
                let at = next % PAGE;
                let take = left.min(PAGE - at);
                let cut = (next / PAGE, at, take);
                next += take;
                cut
            })
        })
    }

    /// Fills `into` from a sector on.
    pub fn read(&self, start_sector: u64, into: &mut [u8]) {
        let mut rest = into;
        for (page, at, len) in Self::cuts(bytes(start_sector), rest.len()) {
            let (front, back) = rest.split_at_mut(len);
            match &self.pages[page] {
                Some(page) => front.copy_from_slice(&page[at..at + len]),
                None => front.fill(0),
            }
            rest = back;
        }
    }

    /// The bytes of some sectors.
    pub fn bytes_of(&self, start_sector: u64, sectors: u64) -> Vec<u8> {
        // Zeros from the allocator cost nothing until they are accessed, and most of a drive is empty.
        let mut into = vec![0; bytes(sectors)];
        let mut rest = &mut into[..];
        for (page, at, len) in Self::cuts(bytes(start_sector), bytes(sectors)) {
            let (front, back) = rest.split_at_mut(len);
            if let Some(page) = &self.pages[page] {
                front.copy_from_slice(&page[at..at + len]);
            }
            rest = back;
        }
        into
    }

    /// Writes from a sector on.
    pub fn write(&mut self, start_sector: u64, from: &[u8]) {
        let mut rest = from;
        for (page, at, len) in Self::cuts(bytes(start_sector), rest.len()) {
            let (front, back) = rest.split_at(len);
            let slot = &mut self.pages[page];
            match slot.as_mut().and_then(Rc::get_mut) {
                Some(page) => page[at..at + len].copy_from_slice(front),
                None if len == PAGE => *slot = Some(Rc::from(front)),
                None => {
                    let mut own: Rc<[u8]> = slot.as_deref().map_or_else(|| Rc::from(&[0; PAGE][..]), Rc::from);
                    Rc::get_mut(&mut own).expect("it was just made")[at..at + len].copy_from_slice(front);
                    *slot = Some(own);
                }
            }
            rest = back;
        }
    }

    /// Zeros some sectors.
    pub fn zero(&mut self, start_sector: u64, sectors: u64) {
        for (page, at, len) in Self::cuts(bytes(start_sector), bytes(sectors)) {
            if len == PAGE {
                self.pages[page] = None;
            } else if self.pages[page].is_some() {
                self.write((page * PAGE + at) as u64 / SECTOR_BYTES as u64, &[0; PAGE][..len]);
            }
        }
    }

    /// True if nothing but zeros was ever written to any page of a range.
    pub fn is_empty(&self, start_sector: u64, sectors: u64) -> bool {
        Self::cuts(bytes(start_sector), bytes(sectors)).all(|(page, ..)| self.pages[page].is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_bytes_when_the_other_is_written() {
        let mut image = Image::new(64);
        image.write(7, &[1; 1024]);
        let copy = image.clone();
        image.write(8, &[2; 512]);
        image.zero(7, 1);
        assert_eq!((image.bytes_of(7, 2)[0], image.bytes_of(7, 2)[512]), (0, 2));
        assert_eq!(copy.bytes_of(7, 2), [1; 1024]);
        let mut again = copy.clone();
        again.clone_from(&image);
        assert_eq!(again.bytes_of(0, 64), image.bytes_of(0, 64));
        image.zero(0, 64);
        assert!(image.is_empty(0, 64) && !copy.is_empty(0, 8) && copy.is_empty(16, 48));
    }
}
