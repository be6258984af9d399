//! Sets of sectors as lists of ranges, of whatever kind the positions are.

use std::ops::Range;

/// What two ranges share; empty if that is nothing.
#[inline(always)]
pub fn common<T: Ord + Copy>(one: &Range<T>, other: &Range<T>) -> Range<T> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// The smallest range that contains both.
pub fn around<T: Ord + Copy>(one: &Range<T>, other: &Range<T>) -> Range<T> {
    one.start.min(other.start)..one.end.max(other.end)
}

/// The same sectors in as few ranges as there can be: ascending, apart, none empty.
pub fn merged<T: Ord + Copy>(ranges: impl IntoIterator<Item = Range<T>>) -> Vec<Range<T>> {
    let mut ranges: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let touches = next.start <= before.end;
        if touches {
            before.end = before.end.max(next.end);
        }
        touches
    });
    ranges
}

/// What of some ranges is in none of the taken ones, in the order of the former. Of a range that is cut, the parts that are left
/// are ranges of their own.
pub fn without<T: Ord + Copy>(ranges: &[Range<T>], taken: &[Range<T>]) -> Vec<Range<T>> {
    let mut rest: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    for cut in taken {
        let keep = |range: Range<T>| {
            let (before, after) = (range.end.min(cut.start), range.start.max(cut.end));
            [range.start..before, after..range.end]
        };
        rest = rest.into_iter().flat_map(keep).filter(|range| !range.is_empty()).collect();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = Vec<Range<u8>>> {
        prop::collection::vec((0..40u8, 0..6u8).prop_map(|(start, len)| start..start + len), 0..8)
    }

    fn hold(ranges: &[Range<u8>], sector: u8) -> bool {
        ranges.iter().any(|range| range.contains(&sector))
    }

    proptest! {
        #[test]
        fn ranges_hold_what_they_are_to_hold(some in places(), others in places()) {
            let (all, rest) = (merged(some.iter().chain(&others).cloned()), without(&some, &others));
            for sector in 0..50 {
                prop_assert_eq!(hold(&all, sector), hold(&some, sector) || hold(&others, sector));
                prop_assert_eq!(hold(&rest, sector), hold(&some, sector) && !hold(&others, sector));
            }
            prop_assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?} are apart", all);
            prop_assert!(all.iter().chain(&rest).all(|range| !range.is_empty()));
            for (one, other) in some.iter().zip(&others) {
                let (shared, whole) = (common(one, other), around(one, other));
                for sector in 0..50 {
                    prop_assert_eq!(shared.contains(&sector), one.contains(&sector) && other.contains(&sector));
                    prop_assert!(whole.contains(&sector) || !one.contains(&sector) && !other.contains(&sector));
                }
            }
        }
    }
}
