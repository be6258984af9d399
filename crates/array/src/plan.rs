//! Plans of writes to a part of a parity stripe: pure functions of which members are there and what is written.
//!
//! A request covers a stripe in at most three **rectangles**: rows over which the same data strips are written. Each is planned
//! by itself, for the fewest member reads:
//!
//! | method | reads | computes |
//! | --- | --- | --- |
//! | full-stripe write | nothing | parity of the new data |
//! | read-modify-write | the written strips, parity | parity plus the change |
//! | reconstruct-write | the other data strips | parity of all data |
//! | recover-write | all that can be read | lost data, then parity of all data |
//! | data only | nothing | nothing: no parity member is there |

use crate::lists::few;
use crate::{StripSector, StripeSector};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Small lists of strips.
pub type Strips = SmallVec<[usize; 6]>;

/// The access to a strip over some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Read and write.
    Readable,
    /// Write only: its member is rebuilding, or these sectors cannot be read.
    WriteOnly,
    /// Nothing.
    Missing,
}

/// Rows of a stripe over which the same data strips are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rectangle {
    /// The sectors of each strip.
    pub rows: Range<StripSector>,
    /// Data strips by address.
    pub strips: Range<usize>,
}

/// Cuts a range of a stripe's data into rectangles.
pub fn rectangles(range: Range<StripeSector>, strip_sectors: u64) -> SmallVec<[Rectangle; 3]> {
    let range = range.start.get()..range.end.get();
    let part = |rows, strips| Rectangle { rows: StripSector::span(rows), strips };
    let first = (range.start / strip_sectors) as usize;
    let last = ((range.end - 1) / strip_sectors) as usize;
    let head = range.start % strip_sectors;
    let tail = range.end - last as u64 * strip_sectors;
    if first == last {
        return smallvec![part(head..tail, first..last + 1)];
    }
    let low = part(0..head.min(tail), first + 1..last + 1);
    let middle = part(head.min(tail)..head.max(tail), if head < tail { first..last + 1 } else { first + 1..last });
    let high = part(head.max(tail)..strip_sectors, first..last);
    [low, middle, high].into_iter().filter(|part| !part.rows.is_empty() && !part.strips.is_empty()).collect()
}

/// The way in which parity is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All data strips are new.
    Full,
    /// Parity takes the change of the written strips (read-modify-write).
    ReadModifyWrite,
    /// Parity is computed from all data strips (reconstruct-write).
    ReconstructWrite,
    /// As reconstruct-write, after the missing data strips were recovered.
    RecoverWrite,
    /// No parity member is there.
    DataOnly,
}

/// The strips to read, and the way to keep parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePlan {
    /// The way parity is kept.
    pub method: Method,
    /// Data strips to read, by address.
    pub read_data: Strips,
    /// Parities to read: 0 is P, 1 is Q.
    pub read_parity: Strips,
    /// Parities to compute and write: those that have a member.
    pub write_parity: Strips,
}

impl WritePlan {
    /// The plan for an optimal, consistent stripe.
    ///
    /// # Panics
    /// Never: nothing is missing.
    pub fn optimal(data_count: usize, parity_count: usize, written: Range<usize>) -> Self {
        let readable = |count| SmallVec::<[Presence; 16]>::from_elem(Presence::Readable, count);
        plan_write(&readable(data_count), &readable(parity_count), written, true).expect("nothing is missing")
    }
}

/// More strips are lost than parity can recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecoverable;

pub(crate) fn indices(presences: &[Presence], wanted: impl Fn(usize, Presence) -> bool) -> Strips {
    few((0..presences.len()).filter(|&index| wanted(index, presences[index])))
}

/// Plans the write of data strips `written`. With `parity_is_consistent` false, parity may be inconsistent, so it must not be
/// updated by its change if all data that it covers can be read or recovered (R38).
///
/// # Errors
/// [`Unrecoverable`] when old data that parity must cover can neither be read nor recovered.
pub fn plan_write(
    data: &[Presence],
    parity: &[Presence],
    written: Range<usize>,
    parity_is_consistent: bool,
) -> Result<WritePlan, Unrecoverable> {
    use Presence::{Missing, Readable};
    let parity_there = indices(parity, |_, presence| presence != Missing);
    let plan =
        |method, read_data, read_parity| Ok(WritePlan { method, read_data, read_parity, write_parity: parity_there.clone() });
    // Strips without a member live in parity alone. Lanes may have dropped different members, and the array has failed.
    if written.clone().filter(|&index| data[index] == Missing).count() > parity_there.len() {
        return Err(Unrecoverable);
    }
    if written.len() == data.len() {
        return plan(Method::Full, Strips::new(), Strips::new());
    }
    let others = indices(data, |index, _| !written.contains(&index));
    let reconstruct = others.iter().all(|&index| data[index] == Readable);
    if parity_there.is_empty() {
        return plan(Method::DataOnly, Strips::new(), Strips::new());
    }
    let modify =
        written.clone().all(|index| data[index] == Readable) && parity_there.iter().all(|&index| parity[index] == Readable);
    let modify_reads = written.len() + parity_there.len();
    if reconstruct && !(modify && parity_is_consistent && modify_reads < others.len()) {
        return plan(Method::ReconstructWrite, others, Strips::new());
    }
    let recovered = sources(data, parity);
    if modify && (parity_is_consistent || recovered.is_err()) {
        return plan(Method::ReadModifyWrite, written.collect(), parity_there.clone());
    }
    // R38: the other strips are recovered from the first parities, as reads do, and all parities follow (R37).
    let (read_data, read_parity) = recovered?;
    plan(Method::RecoverWrite, read_data, read_parity)
}

/// The strips to read for recovering every data strip that cannot be read.
///
/// # Errors
/// [`Unrecoverable`] when there are more of them than parities to read.
pub fn sources(data: &[Presence], parity: &[Presence]) -> Result<(Strips, Strips), Unrecoverable> {
    let read_data = indices(data, |_, presence| presence == Presence::Readable);
    let mut read_parity = indices(parity, |_, presence| presence == Presence::Readable);
    let lost_count = data.len() - read_data.len();
    if read_parity.len() < lost_count {
        return Err(Unrecoverable);
    }
    read_parity.truncate(lost_count);
    Ok((read_data, read_parity))
}

#[cfg(test)]
mod tests {
    use super::Presence::*;
    use super::*;

    #[test]
    fn rectangles_cover_each_sector_of_the_range_once() {
        for start in 0..24 {
            for end in start + 1..=24 {
                let mut covered = vec![0; 24];
                for rectangle in rectangles(StripeSector::span(start..end), 6) {
                    for strip in rectangle.strips.clone() {
                        for row in rectangle.rows.start.get()..rectangle.rows.end.get() {
                            covered[strip * 6 + row as usize] += 1;
                        }
                    }
                }
                let expected: Vec<i32> = (0..24).map(|sector| i32::from((start..end).contains(&sector))).collect();
                assert_eq!(covered, expected, "{start}..{end}");
            }
        }
    }

    /// Two lanes may have dropped different members.
    #[test]
    fn nothing_is_written_of_strips_that_nobody_would_hold() {
        let lost_two = [Missing, Missing, Readable];
        for written in [0..3, 0..2] {
            assert_eq!(plan_write(&lost_two, &[Readable], written.clone(), true), Err(Unrecoverable), "{written:?}");
            assert!(
                plan_write(&lost_two, &[Readable, WriteOnly], written.clone(), true).is_ok(),
                "{written:?} is in two parities"
            );
        }
        assert_eq!(plan_write(&[Missing, Readable], &[Missing], 0..2, true), Err(Unrecoverable));
    }

    #[test]
    fn the_fewest_reads_win() {
        let method = |count: usize, written| {
            plan_write(&vec![Readable; count], &[Readable, Readable], written, true).expect("nothing is missing").method
        };
        assert_eq!(method(8, 0..1), Method::ReadModifyWrite, "3 reads against 7");
        assert_eq!(method(8, 0..4), Method::ReconstructWrite, "6 against 4");
        assert_eq!(method(3, 0..1), Method::ReconstructWrite, "3 against 2");
        assert_eq!(method(8, 0..8), Method::Full);
        let unsynced = plan_write(&[Readable; 8], &[Readable], 0..1, false).expect("nothing is missing");
        assert_eq!(unsynced.method, Method::ReconstructWrite, "parity that may be wrong is not carried forward");
        let degraded = [Readable, WriteOnly, Readable, Readable];
        let method = |parity: &[Presence], agrees| plan_write(&degraded, parity, 0..1, agrees).expect("one is missing").method;
        assert_eq!(method(&[Readable, Readable], true), Method::ReadModifyWrite);
        assert_eq!(method(&[Readable, Readable], false), Method::RecoverWrite, "P and Q may disagree, and must agree afterwards");
    }

    #[test]
    fn lost_strips_choose_the_method() {
        let plan =
            |data: &[Presence], parity: &[Presence], written| plan_write(data, parity, written, true).map(|plan| plan.method);
        assert_eq!(
            plan(&[Missing, Readable, Readable], &[Readable], 0..1),
            Ok(Method::ReconstructWrite),
            "the written strip lives in parity"
        );
        assert_eq!(plan(&[Readable, Missing, Readable], &[Readable], 0..1), Ok(Method::ReadModifyWrite));
        assert_eq!(plan(&[Missing, Missing, Readable], &[Readable, Readable], 0..1), Ok(Method::RecoverWrite));
        assert_eq!(plan(&[Missing, Missing, Readable], &[Readable], 0..1), Err(Unrecoverable));
        assert_eq!(plan(&[Readable, Readable], &[Missing], 0..1), Ok(Method::DataOnly));
        assert_eq!(plan(&[WriteOnly, Readable, Readable], &[Readable, Missing], 0..2), Ok(Method::ReconstructWrite));
    }
}
