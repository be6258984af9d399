//! What a client reads after a crash stays what it is.
//!
//! A crash leaves writes half done: copies differ, or parity does not agree with data. A resync puts that right, but takes its time.
//! If a member is lost meanwhile, another copy counts, or what parity says, and a client would find other bytes than it has read
//! before, older or newer ones, or of a large write torn over a stripe even bytes that nobody wrote. So where redundancy is not
//! known to agree, a read first does there what the resync would do: copies are made like the first one, parity is made to follow
//! data. Then the member may go. A flush that comes after the read makes that as durable as what was read.
//!
//! Places where this was done are remembered, so that it is paid for once. A read-only array is left as it is.

use crate::Flaw;
use crate::core::{Core, lost};
use crate::status::Health;
use crate::sweep;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stria_block::Request;

/// How many places are remembered, so that memory stays bounded; of more all are forgotten, and looked at again.
const PLACES_MAX: usize = 1 << 14;

/// Reads that wait until redundancy agrees, and where it was made to.
#[derive(Default)]
pub(crate) struct Alignments {
    /// Of the sync space: start and end. None touches another.
    places: RefCell<BTreeMap<u64, u64>>,
    /// How many reads wait.
    pub waiting: Cell<usize>,
}

impl Alignments {
    /// Whether redundancy was made to agree in all of a range of the sync space.
    pub fn cover(&self, range: &Range<u64>) -> bool {
        let places = self.places.borrow();
        places.range(..=range.start).next_back().is_some_and(|(_, &end)| range.end <= end)
    }

    fn note(&self, range: Range<u64>) {
        let mut places = self.places.borrow_mut();
        if places.len() >= PLACES_MAX {
            places.clear();
        }
        let Range { mut start, mut end } = range;
        while let Some((&known, &known_end)) = places.range(..=end).next_back().filter(|(_, known_end)| **known_end >= start) {
            places.remove(&known);
            (start, end) = (start.min(known), end.max(known_end));
        }
        places.insert(start, end);
    }

    /// Redundancy agrees everywhere.
    pub fn forget(&self) {
        self.places.borrow_mut().clear();
    }
}

impl Core {
    /// Whether a client may read a part of the sync space only once redundancy was made to agree there.
    #[inline]
    pub fn aligns_first(&self, range: &Range<u64>) -> bool {
        !self.agrees(range)
            && !self.read_only.get()
            && self.health() != Health::Failed
            && self.flaw.get() != Some(Flaw::ReadsUnaligned)
    }

    /// Makes redundancy agree in a range of array sectors, piece by piece: rows of a strip, or a part of what copies hold.
    async fn align(&self, range: &Range<u64>) -> Result<(), String> {
        let mut next = range.start;
        while next < range.end {
            let (part, sectors) = match self.geometry.level().parity_count() {
                0 => (next..range.end.min(next + sweep::WINDOW_SECTORS), sweep::WINDOW_SECTORS),
                _ => {
                    let strip = self.geometry.strip_sectors();
                    let (stripe, _, in_strip) = self.geometry.strip_of(next);
                    let sectors = (strip - in_strip).min(range.end - next).min(sweep::WINDOW_SECTORS);
                    let row = stripe * strip + in_strip;
                    (row..row + sectors, sectors)
                }
            };
            if !self.agrees(&part) {
                sweep::align(self, &part).await?;
            }
            // Also what agreed before: it is asked for together with what lies beside it.
            self.alignments.note(part);
            next += sectors;
        }
        Ok(())
    }
}

/// A client's read of what is not known to agree: is made to agree, and then read.
pub(crate) fn read_later(core: &Rc<Core>, request: Request) {
    core.alignments.waiting.set(core.alignments.waiting.get() + 1);
    let aligns = Rc::clone(core);
    core.ready.spawn(async move {
        let core = aligns;
        let aligned = core.align(&(request.start_sector..request.end_sector())).await;
        core.alignments.waiting.set(core.alignments.waiting.get() - 1);
        match aligned {
            Ok(()) => core.held.borrow_mut().push(request),
            Err(reason) => {
                let what = format!("read at sector {}", request.start_sector);
                core.done(request.complete(Err(lost(&what, &reason))));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_touch_are_one_and_others_are_not() {
        let alignments = Alignments::default();
        for place in [8..16, 24..32, 40..48, 16..20] {
            alignments.note(place);
        }
        assert!(alignments.cover(&(8..20)) && alignments.cover(&(10..12)) && alignments.cover(&(24..32)));
        assert!(!alignments.cover(&(8..21)) && !alignments.cover(&(0..9)) && !alignments.cover(&(20..24)));
        alignments.note(18..44);
        assert!(alignments.cover(&(8..48)) && !alignments.cover(&(8..49)));
        assert_eq!(alignments.places.borrow().len(), 1);
        alignments.forget();
        assert!(!alignments.cover(&(8..9)));
    }

    #[test]
    fn of_too_many_places_all_are_forgotten_but_the_last() {
        let alignments = Alignments::default();
        (0..=PLACES_MAX as u64).for_each(|place| alignments.note(place * 2..place * 2 + 1));
        assert_eq!(alignments.places.borrow().len(), 1);
        assert!(alignments.cover(&(2 * PLACES_MAX as u64..2 * PLACES_MAX as u64 + 1)));
    }
}
