//! How long a drive's requests take: one histogram for reads and one for writes, owned by the thread that has the drive.
//!
//! Buckets are an eighth of a power of two wide, so the results are exact to 12 %. They follow the drive: once 65536 requests
//! are counted, all counts are halved. Recording costs a few nanoseconds, takes no lock and allocates nothing.

use crate::Nanos;

/// Buckets of one power of two.
const STEPS: usize = 8;
/// Counts are halved at this count: the older half then weighs half.
const COUNT_MAX: u32 = 1 << 16;
/// The bound above which a request is slow is computed again after so many requests.
const LEARN_EVERY: u32 = 1 << 10;
/// The same for the first time.
const LEARN_FIRST: u32 = 1 << 4;
/// A request is slow if it takes more than so many times the median and more than [`SLOW_MIN`].
const SLOW_FACTOR: Nanos = 10;
/// 1 ms: nothing that a drive does in less is slow.
const SLOW_MIN: Nanos = 1_000_000;

/// The times of one kind of request.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: [u32; 64 * STEPS],
    count: u32,
    until_learned: u32,
    slow_above: Nanos,
    max: Nanos,
    slow_count: u64,
}

/// The summary of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The recent requests that median and 99th percentile are of.
    pub count: u32,
    /// Half of the requests took no longer.
    pub median: Nanos,
    /// 99 of 100 took no longer.
    pub p99: Nanos,
    /// The longest since the drive was opened.
    pub max: Nanos,
    /// Requests since then that took over ten times the median of that time, and over a millisecond.
    pub slow_count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = [0; 64 * STEPS];
        Self { buckets, count: 0, until_learned: LEARN_FIRST, slow_above: Nanos::MAX, max: 0, slow_count: 0 }
    }
}

/// Reads and writes of one drive.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// Reads.
    pub read: Histogram,
    /// Writes.
    pub write: Histogram,
}

impl Timings {
    /// Adds the counts of another, for display only: the result may not record requests any more.
    pub fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
    }
}

impl Histogram {
    /// Forgets the recent requests. The figures since the drive was opened stay.
    pub fn forget_recent(&mut self) {
        (self.buckets, self.count) = ([0; 64 * STEPS], 0);
    }

    fn bucket(time: Nanos) -> usize {
        let time = time.max(STEPS as Nanos);
        let exponent = time.ilog2() as usize;
        exponent * STEPS + ((time >> (exponent - STEPS.ilog2() as usize)) as usize & (STEPS - 1))
    }

    /// The longest time that falls into a bucket.
    fn end_of(bucket: usize) -> Nanos {
        let (exponent, step) = (bucket / STEPS, (bucket % STEPS) as u128);
        let end = ((STEPS as u128 + step + 1) << exponent) / STEPS as u128 - 1;
        Nanos::try_from(end).unwrap_or(Nanos::MAX)
    }

    /// Counts a request that took `time`.
    pub fn record(&mut self, time: Nanos) {
        self.buckets[Self::bucket(time)] += 1;
        self.count += 1;
        self.max = self.max.max(time);
        self.slow_count += u64::from(time > self.slow_above);
        self.until_learned -= 1;
        if self.until_learned == 0 {
            self.until_learned = LEARN_EVERY;
            self.slow_above = (self.quantile(1, 2) * SLOW_FACTOR).max(SLOW_MIN);
        }
        if self.count == COUNT_MAX {
            self.buckets.iter_mut().for_each(|count| *count /= 2);
            self.count = self.buckets.iter().sum();
        }
    }

    /// Adds the counts of another histogram.
    fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.max = self.max.max(other.max);
        self.slow_count += other.slow_count;
    }

    /// A request that takes longer is slow; `None` while too few are known.
    pub fn slow_above(&self) -> Option<Nanos> {
        (self.slow_above != Nanos::MAX).then_some(self.slow_above)
    }

    /// The time that `part` of `whole` requests did not exceed.
    fn quantile(&self, part: u64, whole: u64) -> Nanos {
        let wanted = (u64::from(self.count) * part).div_ceil(whole);
        let mut below = 0;
        let bucket = self.buckets.iter().position(|&count| {
            below += u64::from(count);
            below >= wanted
        });
        bucket.map_or(0, Self::end_of).min(self.max)
    }

    /// The summary so far; `None` if nothing was counted.
    pub fn latency(&self) -> Option<Latency> {
        let (max, slow_count) = (self.max, self.slow_count);
        let (median, p99) = (self.quantile(1, 2), self.quantile(99, 100));
        (self.count > 0).then_some(Latency { count: self.count, median, p99, max, slow_count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket() {
        for time in (3..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3, (1 << bit) - 1]).chain([0, u64::MAX]) {
            let bucket = Histogram::bucket(time);
            assert!(Histogram::end_of(bucket) >= time, "{time}");
            assert!(time < 9 || Histogram::end_of(bucket - 1) < time, "{time}");
        }
    }

    /// What a member did as it was rebuilt says nothing of its answers to clients.
    #[test]
    fn requests_are_forgotten_but_not_the_longest_since_the_start() {
        let mut histogram = Histogram::default();
        (0..300).for_each(|_| histogram.record(50_000_000));
        assert_eq!(histogram.latency().map(|latency| latency.count), Some(300));
        histogram.forget_recent();
        assert_eq!(histogram.latency(), None);
        histogram.record(100_000);
        let latency = histogram.latency().expect("one request");
        assert!(latency.count == 1 && latency.median <= 112_500 && latency.max == 50_000_000, "{latency:?}");
    }

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.latency(), None);
        (1..=1000).for_each(|n| histogram.record(n * 1000));
        let latency = histogram.latency().unwrap();
        assert!((500_000..562_500).contains(&latency.median), "{latency:?}");
        assert!((990_000..=1_000_000).contains(&latency.p99), "{latency:?}");
        assert_eq!((latency.max, latency.slow_count), (1_000_000, 0));
    }

    #[test]
    fn two_histograms_of_a_drive_tell_what_one_would() {
        let (mut all, mut halves) = (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for n in 1..=3000_u64 {
            all.record(n * 1000);
            halves[(n % 2) as usize].record(n * 1000);
        }
        let [mut one, other] = halves;
        one.add(&other);
        let seen = |histogram: &Histogram| histogram.latency().map(|latency| (latency.median, latency.p99, latency.max));
        assert_eq!(seen(&one), seen(&all));
    }

    #[test]
    fn slow_ones_are_counted_and_the_usual_is_what_was_lately() {
        let mut histogram = Histogram::default();
        (0..2 * LEARN_EVERY).for_each(|_| histogram.record(200_000));
        [1_999_999, 2_300_000, 900_000_000].into_iter().for_each(|time| histogram.record(time));
        let latency = histogram.latency().unwrap();
        assert_eq!((latency.slow_count, latency.max), (2, 900_000_000));
        (0..8 * COUNT_MAX).for_each(|_| histogram.record(20_000));
        assert!(histogram.latency().unwrap().p99 < 25_000, "{:?}", histogram.latency());
    }
}
