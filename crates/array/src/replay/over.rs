//! Which record counts for which rows of a stripe: a walk over the rows, from where records begin to where they end.
//!
//! A log may hold a hundred thousand records of one stripe, by accident or because it is forged. So the walk takes one step for
//! the beginning and one for the end of each record, and one for each piece of rows. It never looks at all records of a stripe
//! for a piece of it.

use crate::StripSector;
use crate::log_record::LogRecord;
use crate::plan::Strips;
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stria_parity::PARITY_COUNT_MAX;

/// A record for each parity.
pub(super) type Newest<'a> = SmallVec<[&'a LogRecord; 2]>;

/// The records over the rows that a walk has come to.
#[derive(Default)]
pub(super) struct Over<'a> {
    /// The records, by number, parity and place in the log.
    records: BTreeMap<(u64, usize, usize), &'a LogRecord>,
    /// The numbers that have a record of every parity of a set; the index is the set, a bit for each parity.
    complete: [BTreeSet<u64>; 1 << PARITY_COUNT_MAX],
    /// The cost of the walk: looks for a record.
    steps: Cell<usize>,
}

impl<'a> Over<'a> {
    /// Goes through the rows of a stripe's records, in order, and stops at each piece over which the same records lie.
    pub fn walk(&mut self, records: &'a [LogRecord], mut at: impl FnMut(Range<StripSector>, &Self)) {
        let known = records.iter().enumerate().filter(|(_, record)| record.parity < PARITY_COUNT_MAX && !record.rows.is_empty());
        let mut ends: Vec<(StripSector, bool, usize)> =
            known.flat_map(|(place, record)| [(record.rows.start, true, place), (record.rows.end, false, place)]).collect();
        ends.sort_unstable();
        let mut from = None;
        for (row, begins, place) in ends {
            if let Some(from) = from.replace(row).filter(|from| *from < row) {
                at(from..row, self);
            }
            let record = &records[place];
            match begins {
                true => drop(self.records.insert((record.number, record.parity, place), record)),
                false => drop(self.records.remove(&(record.number, record.parity, place))),
            }
            self.changed(record.number);
        }
    }

    /// A record of this number has begun or ended.
    fn changed(&mut self, number: u64) {
        let there =
            (0..PARITY_COUNT_MAX).filter(|&parity| self.first(number, parity).is_some()).fold(0, |set, parity| set | 1 << parity);
        for (set, numbers) in self.complete.iter_mut().enumerate() {
            match set != 0 && there & set == set {
                true => numbers.insert(number),
                false => numbers.remove(&number),
            };
        }
    }

    /// Of several records of one write and parity the first in the log counts.
    fn first(&self, number: u64, parity: usize) -> Option<&'a LogRecord> {
        self.steps.set(self.steps.get() + 1);
        self.records.range((number, parity, 0)..=(number, parity, usize::MAX)).next().map(|(_, record)| *record)
    }

    /// As [`Over::newest`], where logs of these parities are lost: the records of the newest write of which at least one parity
    /// has one.
    pub fn newest_of_any(&self, parities: &Strips) -> Newest<'a> {
        let newest = parities.iter().filter_map(|&parity| self.complete[1 << parity].last().copied()).max();
        let of = |number: u64| parities.iter().filter_map(|&parity| self.first(number, parity)).collect();
        newest.map(of).unwrap_or_default()
    }

    /// R29: the records that count here, where these parities are present: those of the newest write of which each has one.
    pub fn newest(&self, parities: &Strips) -> Newest<'a> {
        let set = parities.iter().fold(0, |set, parity| set | 1 << parity);
        let number = self.complete.get(set).and_then(|numbers| numbers.last());
        let of = |&number: &u64| parities.iter().filter_map(|&parity| self.first(number, parity)).collect();
        number.map(of).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, parity: usize, rows: Range<u64>) -> LogRecord {
        LogRecord {
            number,
            stripe: 7,
            rows: StripSector::span(rows),
            written: 0..1,
            parity,
            partial: None,
            new_data: SmallVec::new(),
            new_data_is_zeros: true,
        }
    }

    /// A number below `bound`, by a multiplicative generator.
    fn below(state: &mut u64, bound: u64) -> u64 {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (*state >> 33) % bound
    }

    /// The same without any order: for each row, look at all records.
    fn plainly<'a>(records: &'a [LogRecord], row: u64, parities: &Strips) -> Newest<'a> {
        let over: Vec<&LogRecord> = records.iter().filter(|record| record.rows.contains(&StripSector::new(row))).collect();
        let of = |number, parity| over.iter().copied().find(|record| (record.number, record.parity) == (number, parity));
        let mut numbers: Vec<u64> = over.iter().map(|record| record.number).collect();
        numbers.sort_unstable();
        let complete = |number: &u64| !parities.is_empty() && parities.iter().all(|&parity| of(*number, parity).is_some());
        let newest = numbers.into_iter().rev().find(complete);
        newest.map_or_else(Newest::new, |number| parities.iter().filter_map(|&parity| of(number, parity)).collect())
    }

    #[test]
    fn every_row_gets_the_newest_record_that_all_its_parities_have() {
        let mut state = 1;
        for _ in 0..300 {
            let mut record = |_| {
                let (start, number) = (below(&mut state, 20), below(&mut state, 8));
                record(number, below(&mut state, 2) as usize, start..start + 1 + below(&mut state, 9))
            };
            let records: Vec<LogRecord> = (0..25).map(&mut record).collect();
            for parities in [&[][..], &[0], &[1], &[0, 1]].map(Strips::from_slice) {
                let mut seen = BTreeMap::new();
                Over::default().walk(&records, |rows, over| {
                    let newest = over.newest(&parities);
                    (rows.start.get()..rows.end.get())
                        .for_each(|row| assert!(seen.insert(row, newest.clone()).is_none(), "row {row} twice"));
                });
                for row in 0..40 {
                    let place = |newest: &Newest| newest.iter().map(|record| std::ptr::from_ref(*record)).collect::<Vec<_>>();
                    let found = seen.get(&row).map(place).unwrap_or_default();
                    assert_eq!(found, place(&plainly(&records, row, &parities)), "row {row} of {records:?}, {parities:?}");
                }
            }
        }
    }

    /// As many records of one stripe as the largest part of a log has room for: without bytes, over other rows each, of other
    /// writes each, all of one write, and of one parity where two are needed.
    #[test]
    fn a_log_full_of_records_of_one_stripe_costs_a_few_steps_for_each() {
        let count = (8 << 20) / 4096 * LogRecord::APPEND_COUNT_MAX as u64;
        let mut state = 2;
        let apart = |number: u64| record(number, 0, number % 131_000..number % 131_000 + 3);
        let mut wide = |number: u64| {
            let start = below(&mut state, 65_000);
            record(number, 0, start..start + 1 + below(&mut state, 65_000))
        };
        let one_write = |number: u64| record(1, 0, number % 1000..number % 1000 + 1000);
        let logs: [Vec<LogRecord>; 3] =
            [(1..=count).map(apart).collect(), (1..=count).map(&mut wide).collect(), (1..=count).map(one_write).collect()];
        for records in logs {
            for parities in [&[0][..], &[0, 1]].map(Strips::from_slice) {
                let (mut over, mut pieces) = (Over::default(), 0);
                over.walk(&records, |_, over| {
                    pieces += 1;
                    assert_eq!(
                        over.newest(&parities).is_empty() && parities.len() == 1,
                        over.records.is_empty() && parities.len() == 1
                    );
                });
                assert!(pieces > 1000, "{pieces} pieces");
                let steps = over.steps.get();
                assert!(steps <= 10 * records.len(), "{steps} steps for {} records", records.len());
                assert!(over.records.is_empty() && over.complete.iter().all(BTreeSet::is_empty));
            }
        }
    }
}
