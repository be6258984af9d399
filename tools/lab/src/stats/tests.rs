//! Statistics against hand calculation, published figures, and synthetic data whose truth is known.

use super::*;

/// Numbers from 0 to 1 that are the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normal, by twelve uniform ones.
    fn noisy(&mut self, value: f64, sigma: f64) -> f64 {
        value * (1.0 + sigma * ((0..12).map(|_| self.next()).sum::<f64>() - 6.0))
    }

    fn sample(&mut self, count: usize, value: f64, sigma: f64) -> Vec<f64> {
        (0..count).map(|_| self.noisy(value, sigma)).collect()
    }
}

fn close(left: f64, right: f64, by: f64) {
    assert!((left - right).abs() <= by, "{left} is not {right} ± {by}");
}

#[test]
fn three_runs_give_the_published_mean_deviation_and_percent() {
    // A review's table of three runs each: mean, mean absolute deviation, percent.
    for (runs, mean, deviation, percent) in [
        ([425.66, 421.39, 421.62], 422.89, 1.85, 0.44),
        ([22.08, 24.43, 22.60], 23.04, 0.93, 4.03),
        ([253.03, 254.14, 254.14], 253.77, 0.49, 0.19),
        ([141.25, 141.03, 141.53], 141.27, 0.17, 0.12),
        ([71.71, 71.39, 68.89], 70.66, 1.18, 1.67),
        ([104.25, 104.47, 104.03], 104.25, 0.15, 0.14),
    ] {
        let summary = Summary::of(&runs).expect("three values");
        close(summary.mean, mean, 0.006);
        close(summary.mean_deviation, deviation, 0.006);
        close(summary.mean_deviation_percent(), percent, 0.006);
    }
}

#[test]
fn the_interval_of_the_median_says_how_sure_it_is() {
    // n = 3: the range holds the median with 1 - 2/8; n = 6 is the first that reaches 95 % (1 - 2/64).
    close(Summary::of(&[3.0, 1.0, 2.0]).expect("values").interval.confidence, 0.75, 1e-12);
    close(Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("values").interval.confidence, 1.0 - 2.0 / 64.0, 1e-12);
    // n = 10, tables: second lowest to second highest, 97.85 %.
    let ten: Vec<f64> = (1..=10).map(f64::from).collect();
    let Interval { low, high, confidence } = Summary::of(&ten).expect("values").interval;
    assert_eq!((low, high), (2.0, 9.0));
    close(confidence, 0.9785, 1e-4);
    assert_eq!(Summary::of(&[5.0]).expect("a value").interval, Interval { low: 5.0, high: 5.0, confidence: 0.0 });
    assert!(Summary::of(&[f64::NAN]).is_none());
    let many: Vec<f64> = (0..5000).map(f64::from).collect();
    let wide = Summary::of(&many).expect("values").interval;
    close(wide.low, 2430.0, 2.0);
}

#[test]
fn the_interval_of_the_median_holds_the_truth_as_often_as_it_says() {
    let mut chance = Chance(7);
    for count in [3, 6, 11] {
        let (mut held, mut confidence) = (0, 0.0);
        for _ in 0..2000 {
            let summary = Summary::of(&chance.sample(count, 100.0, 0.05)).expect("values");
            held += u32::from(summary.interval.contains(100.0));
            confidence = summary.interval.confidence;
        }
        close(f64::from(held) / 2000.0, confidence, 0.02);
    }
}

#[test]
fn mann_whitney_agrees_with_tables() {
    // n = m = 3, apart: 2/20. n = 5, m = 5, apart: 2/252. A known textbook case: U = 1 of 4 × 4: p = 4/70.
    close(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1, 1e-12);
    close(mann_whitney(&[1., 2., 3., 4., 5.], &[6., 7., 8., 9., 10.]), 2.0 / 252.0, 1e-12);
    close(mann_whitney(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0]), 4.0 / 70.0, 1e-12);
    // All tied: no difference.
    close(mann_whitney(&[1.0; 5], &[1.0; 5]), 1.0, 1e-12);
    // Exact and approximate agree where one hands over to the other.
    let mut chance = Chance(3);
    let (a, b) = (chance.sample(30, 100.0, 0.05), chance.sample(30, 103.0, 0.05));
    let exact = mann_whitney(&a, &b);
    let longer: Vec<f64> = b.iter().copied().chain([chance.noisy(103.0, 0.05)]).collect();
    close(mann_whitney(&a, &longer), exact, exact * 0.8 + 0.01);
}

#[test]
fn holm_raises_in_order_and_never_lets_a_later_one_fall_below() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(*found, expected, 1e-12);
    }
    assert!(holm(&[]).is_empty());
}

#[test]
fn noise_is_rarely_called_a_difference() {
    // 400 pairs of runs of 20 figures each that do not differ: at most some 5 % may raise an alarm.
    let mut chance = Chance(11);
    for (count, sigma) in [(5, 0.02), (12, 0.1)] {
        let mut alarms = 0;
        for _ in 0..400 {
            let p: Vec<f64> = (0..20)
                .map(|_| {
                    let (a, b) = (chance.sample(count, 100.0, sigma), chance.sample(count, 100.0, sigma));
                    difference(&a, &b, 20).expect("values").p
                })
                .collect();
            alarms += u32::from(holm(&p).iter().any(|p| *p < SIGNIFICANCE));
        }
        assert!(alarms <= 34, "{alarms} of 400 false alarms with {count} repeats"); // 20 expected, sd 4.4
    }
}

#[test]
fn a_true_difference_is_found_with_its_size() {
    let mut chance = Chance(5);
    for (count, method) in [(5, Method::Welch), (12, Method::MannWhitney)] {
        let (mut found, mut held) = (0, 0);
        for _ in 0..200 {
            let (a, b) = (chance.sample(count, 100.0, 0.01), chance.sample(count, 92.0, 0.01));
            let difference = difference(&a, &b, 20).expect("values");
            assert_eq!(difference.method, method);
            close(difference.ratio, 0.92, 0.03);
            found += u32::from(difference.p * 20.0 < SIGNIFICANCE);
            held += u32::from(difference.interval.expect("enough values").contains(0.92));
        }
        assert!(found >= 195, "{found} of 200 found");
        assert!((180..=200).contains(&held), "95 % intervals held the truth {held} times of 200");
    }
}

#[test]
fn one_wild_value_does_not_hide_or_make_a_difference_where_ranks_are_used() {
    let mut chance = Chance(9);
    let mut a = chance.sample(12, 100.0, 0.01);
    a[0] = 10_000.0;
    let same = difference(&a, &chance.sample(12, 100.0, 0.01), 5).expect("values");
    assert!(same.p > SIGNIFICANCE && (same.ratio - 1.0).abs() < 0.02, "{same:?}");
    let lower = difference(&a, &chance.sample(12, 90.0, 0.01), 5).expect("values");
    assert!(lower.p < 0.001, "{lower:?}");
    assert_eq!(outliers(&a), [0]);
}

#[test]
fn a_single_run_proves_nothing() {
    let found = difference(&[100.0], &[50.0], 1).expect("values");
    assert_eq!((found.method, found.p, found.ratio), (Method::TooFew, 1.0, 0.5));
    assert!(difference(&[], &[1.0], 1).is_none());
}

/// The plain twin: all ratios, stored and sorted.
#[test]
fn ratios_that_are_not_stored_are_those_that_would_be() {
    // With ties, within a sample and between the ratios.
    let mut state = 7_u32;
    let mut value = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(1 + (state >> 16) % 50) / 3.0
    };
    let mut values = |count: usize| (0..count).map(|_| value()).collect::<Vec<f64>>();
    for (n, m) in [(1, 1), (2, 3), (7, 4), (20, 31)] {
        let (a, b) = (values(n), values(m));
        let stored = Ratios::new(&a, &b);
        let ascending = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values
        };
        let implied = Ratios::Implied(ascending(a), ascending(b));
        assert_eq!(stored.len(), implied.len());
        for index in 0..stored.len() {
            assert_eq!(stored.at(index), implied.at(index), "{index} of {n} x {m}");
        }
        assert_eq!(stored.middle(), implied.middle());
    }
}

/// The records of a folder are counted by its owner: a comparison must not take memory or time by their square.
#[test]
fn a_hundred_thousand_repeats_a_side_are_compared() {
    let side = |factor: f64| (0..100_000_u32).map(|at| factor * (1000.0 + f64::from(at * 7919 % 1000))).collect::<Vec<f64>>();
    let found = difference(&side(1.0), &side(1.1), 1).expect("values");
    let interval = found.interval.expect("enough");
    assert!((found.ratio - 1.1).abs() < 1e-9 && interval.contains(1.1) && found.p < 1e-9, "{found:?}");
    assert!(interval.high - interval.low < 0.01, "{interval:?}");
}
