//! Bounds of parameters: what lies outside of them cannot be modelled.

use std::ops::RangeInclusive;

/// A value that lies outside of what can be modelled, of values with their names and bounds.
pub fn out_of_bounds<'a>(values: impl IntoIterator<Item = (&'a str, u64, RangeInclusive<u64>)>) -> Option<String> {
    let (name, value, bounds) = values.into_iter().find(|(_, value, bounds)| !bounds.contains(value))?;
    Some(format!("{name} is {value}: {} to {} can be modelled", bounds.start(), bounds.end()))
}

/// 100 s: the longest time of a parameter. Source: none; a drive that takes longer is given up by every host.
pub const TIME_NS: RangeInclusive<u64> = 0..=100_000_000_000;
/// From 1 KB/s to 100 TB/s: rates of which a transfer's time fits.
pub const RATE: RangeInclusive<u64> = 1_000..=100_000_000_000_000;
