//! Times of requests, counted as they end: memory does not grow with their number.

use crate::result::Latency;
use std::collections::BTreeMap;

/// Nanoseconds of many requests: exact sums, and bins of 32 to a power of two, within 3 %.
#[derive(Clone, Debug, Default)]
pub struct Times {
    count: u64,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
    bins: BTreeMap<u64, u64>,
}

impl Times {
    /// One more.
    pub fn add(&mut self, ns: u64) {
        let shift = (64 - ns.leading_zeros()).saturating_sub(6);
        *self.bins.entry(ns >> shift << shift).or_insert(0) += 1;
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum += ns as f64;
        self.squares += (ns as f64).powi(2);
    }

    /// Those of another thread.
    pub fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.count += other.count;
            self.sum += other.sum;
            self.squares += other.squares;
            for (bin, count) in &other.bins {
                *self.bins.entry(*bin).or_insert(0) += count;
            }
        }
    }

    /// The time below which this share of the requests is.
    pub fn at(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bin = self.bins.iter().find(|(_, count)| {
            seen += *count;
            seen >= wanted
        });
        bin.map_or(0.0, |(ns, _)| (*ns).clamp(self.min, self.max) as f64)
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Of all.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// The figures of a report.
    pub fn latency(&self) -> Latency {
        Latency {
            min_ns: self.min as f64,
            mean_ns: self.mean(),
            stddev_ns: (self.squares / self.count.max(1) as f64 - self.mean().powi(2)).max(0.0).sqrt(),
            p50_ns: Some(self.at(0.5)),
            p99_ns: Some(self.at(0.99)),
            p999_ns: Some(self.at(0.999)),
            p99999_ns: Some(self.at(0.99999)),
            max_ns: self.max as f64,
            bins: self.bins.iter().map(|(ns, count)| ((*ns).clamp(self.min, self.max), *count)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two halves merged equal all values at once, and percentiles lie within a bin of the true ones.
    #[test]
    fn merged_parts_tell_what_all_of_them_tell() {
        let (mut all, mut even, mut odd) = (Times::default(), Times::default(), Times::default());
        for ns in 1..=100_000_u64 {
            all.add(ns);
            if ns % 2 == 0 { even.add(ns) } else { odd.add(ns) }
        }
        even.merge(&odd);
        assert_eq!(even.latency(), all.latency());
        let latency = all.latency();
        assert_eq!((latency.min_ns, latency.max_ns, latency.mean_ns), (1.0, 100_000.0, 50_000.5));
        for (found, truth) in [(latency.p50_ns, 50_000.0), (latency.p99_ns, 99_000.0), (latency.p999_ns, 99_900.0)] {
            let found = found.expect("it is known");
            assert!((found / truth - 1.0).abs() < 1.0 / 32.0, "{found} for {truth}");
        }
        // Of a uniform distribution: the width by the root of twelve.
        assert!((latency.stddev_ns / (100_000.0 / 12_f64.sqrt()) - 1.0).abs() < 1e-3, "{}", latency.stddev_ns);
    }
}
