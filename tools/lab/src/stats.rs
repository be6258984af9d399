//! Statistics for few and noisy figures.
//!
//! The methods: the **median** with its exact order-statistic interval (binomial; it
//! assumes only independent repeats, and gives its true confidence when there are too few repeats for 95 %); the **mean absolute
//! deviation** about the mean, as benchmark reviews print it; the **median absolute deviation** for outliers. Two samples are
//! compared by the **Mann-Whitney** test (the exact permutation distribution of mid-ranks, so ties are no approximation) with the
//! **Hodges-Lehmann** ratio and its interval; where the samples are too small for Mann-Whitney to reach the level that **Holm's**
//! correction will ask for, by **Welch's t test on logarithms**. Which of both is decided by sample sizes alone, never by the
//! data.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The probability of calling noise a difference, over all comparisons of one pair of runs together.
pub const SIGNIFICANCE: f64 = 0.05;
/// Above this many values in all, ranks are compared by the normal approximation, with the correction for ties.
const EXACT_MAX: usize = 60;
/// Above this many ratios between two samples they are not stored.
const RATIOS_MAX: usize = 1_000_000;
/// From the median absolute deviation to the standard deviation of normal data.
const MAD_TO_SIGMA: f64 = 1.482_602_2;

/// An interval with its confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// 0.95 or, with few values, the confidence that they allow.
    pub confidence: f64,
}

impl Interval {
    /// Whether `value` lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Repeats of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Mean absolute deviation about the mean.
    pub mean_deviation: f64,
    /// Median absolute deviation about the median, times 1.4826: comparable with a standard deviation.
    pub mad: f64,
    /// Of the median; the whole range when there are fewer than six values, with the confidence that it then has.
    pub interval: Interval,
}

impl Summary {
    /// Of the finite ones among `values`; `None` when there is none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let median = middle(&sorted);
        let deviations = |centre: f64| sorted.iter().map(move |value| (value - centre).abs());
        let mut absolute: Vec<f64> = deviations(median).collect();
        absolute.sort_by(f64::total_cmp);
        Some(Self {
            count,
            mean,
            median,
            min,
            max,
            mean_deviation: deviations(mean).sum::<f64>() / count as f64,
            mad: middle(&absolute) * MAD_TO_SIGMA,
            interval: median_interval(&sorted),
        })
    }

    /// The mean deviation in percent of the mean, as reviews print it.
    pub fn mean_deviation_percent(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.mean_deviation / self.mean.abs() * 100.0 }
    }

    /// Half the distance between the ends of the interval, in percent of the median: the ± of a figure.
    pub fn plus_minus_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.interval.high - self.interval.low) / 2.0 / self.median.abs() * 100.0 }
    }
}

/// Of ascending values, at least one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// The innermost pair of order statistics that contains the median with 95 %: `P = 1 - 2 P(B < k)`, `B` binomial(n, 1/2).
fn median_interval(sorted: &[f64]) -> Interval {
    let count = sorted.len();
    let mut term = 0.5f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut below, mut depth, mut outside) = (0.0, 0, term);
    // For many values the first terms round to 0; they add nothing either way.
    if term == 0.0 {
        let half = 1.96 * (count as f64).sqrt() / 2.0;
        depth = ((count as f64 / 2.0 - half).floor().max(0.0)) as usize;
        return Interval { low: sorted[depth], high: sorted[count - 1 - depth], confidence: 0.95 };
    }
    for k in 0..count / 2 {
        below += term;
        if 2.0 * below > SIGNIFICANCE {
            break;
        }
        (depth, outside) = (k, below);
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    Interval { low: sorted[depth], high: sorted[count - 1 - depth], confidence: 1.0 - (2.0 * outside).min(1.0) }
}

/// Outliers: their distance to the median is over 3.5 times the scaled MAD (Iglewicz and Hoaglin) and over 10 % of the median, so
/// that a sample without noise has no outliers by rounding.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(summary) = Summary::of(values) else { return Vec::new() };
    let far = (3.5 * summary.mad).max(summary.median.abs() * 0.1);
    (0..values.len()).filter(|&index| (values[index] - summary.median).abs() > far).collect()
}

/// The method by which two samples were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Method {
    /// Mann-Whitney; the ratio and interval by Hodges and Lehmann.
    MannWhitney,
    /// Welch's t test on logarithms.
    Welch,
    /// Fewer than two values on a side.
    TooFew,
}

impl Method {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MannWhitney => "Mann-Whitney test with Hodges-Lehmann ratio",
            Self::Welch => "Welch's t test on logarithms",
            Self::TooFew => "too few repeats for a test",
        }
    }
}

/// One figure before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The first sample.
    pub before: Summary,
    /// The second.
    pub after: Summary,
    /// The second over the first.
    pub ratio: f64,
    /// Of the ratio.
    pub interval: Option<Interval>,
    /// The probability of such a difference when there is none; not yet corrected for the number of comparisons.
    pub p: f64,
    /// The method of the comparison.
    pub method: Method,
}

/// True if a test can compare two samples: each has two values or more.
pub fn can_test(before: &[f64], after: &[f64]) -> bool {
    [before, after].iter().all(|values| values.iter().filter(|value| value.is_finite()).count() > 1)
}

/// Compares two samples of positive values as one of `comparisons`, of which only those count that [`can_test`]. `None` when a
/// sample is empty.
pub fn difference(before: &[f64], after: &[f64], comparisons: usize) -> Option<Difference> {
    let clean = |values: &[f64]| values.iter().copied().filter(|value| value.is_finite()).collect::<Vec<f64>>();
    let (a, b) = (clean(before), clean(after));
    let (before, after) = (Summary::of(&a)?, Summary::of(&b)?);
    let ratio = if before.median == 0.0 { f64::NAN } else { after.median / before.median };
    if !can_test(&a, &b) {
        return Some(Difference { before, after, ratio, interval: None, p: 1.0, method: Method::TooFew });
    }
    let positive = a.iter().chain(&b).all(|value| *value > 0.0);
    let reachable = 2.0 / choose(a.len() + b.len(), a.len()) <= SIGNIFICANCE / comparisons.max(1) as f64;
    if reachable || !positive {
        let p = mann_whitney(&a, &b);
        let (ratio, interval) = if positive { hodges_lehmann(&a, &b) } else { (ratio, None) };
        Some(Difference { before, after, ratio, interval, p, method: Method::MannWhitney })
    } else {
        let (ratio, interval, p) = welch(&a, &b);
        Some(Difference { before, after, ratio, interval: Some(interval), p, method: Method::Welch })
    }
}

/// Raises each probability so that the chance of one false alarm among all of them stays what one test's was
/// (Holm 1979: the smallest times n, the next times n - 1, …, never falling).
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut highest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max((p[index] * (p.len() - rank) as f64).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}

/// n over k.
fn choose(n: usize, k: usize) -> f64 {
    (1..=k.min(n - k)).fold(1.0, |product, i| product * (n + 1 - i) as f64 / i as f64)
}

/// Twice the mid-rank of each value of `a`, then of `b`, among all of them.
fn double_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let mut all: Vec<(usize, f64)> = a.iter().chain(b).copied().enumerate().collect();
    all.sort_by(|one, other| one.1.total_cmp(&other.1));
    let (mut ranks, mut below) = (vec![0; all.len()], 0);
    for group in all.chunk_by(|one, other| one.1 == other.1) {
        for (index, _) in group {
            ranks[*index] = 2 * below + group.len() + 1;
        }
        below += group.len();
    }
    ranks
}

/// Two-sided probability that the ranks of `a` lie as far from their mean.
fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let ranks = double_ranks(a, b);
    let (n, total) = (a.len(), ranks.len());
    let observed: usize = ranks[..n].iter().sum();
    let mean = n * (total + 1); // doubled, as the ranks are
    let distance = observed.abs_diff(mean);
    if total <= EXACT_MAX {
        let ways = subset_sums(&ranks, n);
        let far: f64 = ways.iter().enumerate().filter(|(sum, _)| sum.abs_diff(mean) >= distance).map(|(_, ways)| ways).sum();
        return (far / choose(total, n)).min(1.0);
    }
    let mut ties: Vec<usize> = ranks.clone();
    ties.sort_unstable();
    let tied: f64 = ties.chunk_by(|a, b| a == b).map(|group| (group.len() as f64).powi(3) - group.len() as f64).sum();
    let (n, m, total) = (n as f64, b.len() as f64, total as f64);
    let variance = n * m / 12.0 * (total + 1.0 - tied / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((distance as f64 / 2.0) - 0.5).max(0.0) / variance.sqrt();
    2.0 * Normal::standard().sf(z)
}

/// For each sum: in how many ways `count` of `values` have it.
fn subset_sums(values: &[usize], count: usize) -> Vec<f64> {
    let highest: usize = values.iter().sum();
    let mut ways = vec![vec![0.0; highest + 1]; count + 1];
    ways[0][0] = 1.0;
    for &value in values {
        for chosen in (1..=count).rev() {
            for sum in (value..=highest).rev() {
                ways[chosen][sum] += ways[chosen - 1][sum - value];
            }
        }
    }
    ways.swap_remove(count)
}

/// All ratios between two samples of positive values, in ascending order.
enum Ratios {
    Stored(Vec<f64>),
    /// Of large samples only the samples, ascending: the square of their size does not fit in memory.
    Implied(Vec<f64>, Vec<f64>),
}

impl Ratios {
    fn new(a: &[f64], b: &[f64]) -> Self {
        if a.len().saturating_mul(b.len()) > RATIOS_MAX {
            let ascending = |values: &[f64]| {
                let mut values = values.to_vec();
                values.sort_by(f64::total_cmp);
                values
            };
            return Self::Implied(ascending(a), ascending(b));
        }
        let mut ratios: Vec<f64> = b.iter().flat_map(|after| a.iter().map(move |before| after / before)).collect();
        ratios.sort_by(f64::total_cmp);
        Self::Stored(ratios)
    }

    fn len(&self) -> usize {
        match self {
            Self::Stored(ratios) => ratios.len(),
            Self::Implied(a, b) => a.len() * b.len(),
        }
    }

    /// The ratio at a position of the order.
    fn at(&self, index: usize) -> f64 {
        let (a, b) = match self {
            Self::Stored(ratios) => return ratios[index],
            Self::Implied(a, b) => (a, b),
        };
        // The lowest number that so many ratios do not exceed. Positive floats are in the order of their bits.
        let (mut low, mut high) = (0, f64::INFINITY.to_bits());
        while low < high {
            let middle = low + (high - low) / 2;
            let bound = f64::from_bits(middle);
            let (mut below, mut count) = (0, 0);
            for before in a {
                while below < b.len() && b[below] / before <= bound {
                    below += 1;
                }
                count += below;
            }
            if count > index { high = middle } else { low = middle + 1 }
        }
        f64::from_bits(low)
    }

    fn middle(&self) -> f64 {
        let half = self.len() / 2;
        if self.len() % 2 == 1 { self.at(half) } else { (self.at(half - 1) + self.at(half)) / 2.0 }
    }
}

/// The median of all ratios between the samples, and the pair of them that contains the true ratio with 95 %.
fn hodges_lehmann(a: &[f64], b: &[f64]) -> (f64, Option<Interval>) {
    let ratios = Ratios::new(a, b);
    let (n, m) = (a.len(), b.len());
    let depth = if n + m <= EXACT_MAX {
        let untied: Vec<usize> = (1..=n + m).collect();
        let ways = subset_sums(&untied, n);
        let all = choose(n + m, n);
        let lowest = n * (n + 1) / 2;
        let mut below = 0.0;
        let mut fit = |ways: &&f64| {
            below += **ways / all;
            below <= SIGNIFICANCE / 2.0
        };
        ways[lowest..].iter().take_while(&mut fit).count()
    } else {
        let (n, m) = (n as f64, m as f64);
        (n * m / 2.0 - 1.96 * (n * m * (n + m + 1.0) / 12.0).sqrt()).floor().max(0.0) as usize
    };
    // The k-th lowest and highest ratio leave out what k - 1 and fewer would.
    let interval = (depth > 0).then(|| Interval {
        low: ratios.at(depth - 1),
        high: ratios.at(ratios.len() - depth),
        confidence: 1.0 - SIGNIFICANCE,
    });
    (ratios.middle(), interval)
}

/// The ratio of geometric means, its 95 % interval, and the probability of such a ratio when there is no difference.
fn welch(a: &[f64], b: &[f64]) -> (f64, Interval, f64) {
    let moments = |values: &[f64]| {
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
        let variance = values.iter().map(|value| (value.ln() - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Repeats that are equal to the last digit prove a coarse clock, not certainty: figures are exact only to 0.1 %.
        (mean, variance.max(1e-6) / count, count)
    };
    let ((mean_a, error_a, count_a), (mean_b, error_b, count_b)) = (moments(a), moments(b));
    let (shift, error) = (mean_b - mean_a, error_a + error_b);
    let freedom = error.powi(2) / (error_a.powi(2) / (count_a - 1.0) + error_b.powi(2) / (count_b - 1.0));
    let t = StudentsT::new(0.0, 1.0, freedom).expect("at least two values with some variance on each side");
    let half = t.inverse_cdf(1.0 - SIGNIFICANCE / 2.0) * error.sqrt();
    let interval = Interval { low: (shift - half).exp(), high: (shift + half).exp(), confidence: 1.0 - SIGNIFICANCE };
    (shift.exp(), interval, 2.0 * t.sf(shift.abs() / error.sqrt()))
}

#[cfg(test)]
mod tests;
