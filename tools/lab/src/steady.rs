//! Steady state by SNIA PTS 2.0, section 3.1: over a window of five rounds
//!
//! ```text
//!   max(y) - min(y) <= 20 % of mean(y)      and      |slope| * (5 - 1) <= 10 % of mean(y)
//! ```
//! with the slope of the least-squares line. Both, and both bounds themselves still allowed.

use crate::result::SteadyVerdict;

/// Rounds of the window.
pub const WINDOW_ROUNDS: u32 = 5;
const EXCURSION_SHARE: f64 = 0.20;
const SLOPE_SHARE: f64 = 0.10;
/// So that rounding does not exclude a value exactly on a bound.
const ROUNDING: f64 = 1e-9;

/// The tracked figure, for the verdict's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// `IOPS of random 4 KiB writes`.
    pub tracked: String,
    /// `IOPS`.
    pub unit: String,
    /// Rounds allowed.
    pub rounds_max: u32,
    /// Only every n-th round counts, from the first: 30 selects minutes 1, 31, 61 …
    pub stride: u32,
}

/// The verdict on the values of rounds 1, 2, 3 …; with fewer than five that count it is not steady and has no window. Rounds in
/// it count from 1 over those that count.
pub fn verdict(values: &[f64], tracker: &Tracker) -> SteadyVerdict {
    let values: Vec<f64> = values.iter().step_by(tracker.stride.max(1) as usize).copied().collect();
    let none = SteadyVerdict {
        reached: false,
        first_round: 0,
        last_round: 0,
        tracked: tracker.tracked.clone(),
        unit: tracker.unit.clone(),
        values: Vec::new(),
        mean: 0.0,
        excursion: 0.0,
        excursion_allowed: 0.0,
        slope: 0.0,
        intercept: 0.0,
        slope_excursion: 0.0,
        slope_excursion_allowed: 0.0,
        stride: tracker.stride.max(1),
        rounds_max: tracker.rounds_max,
        steps: None,
    };
    let Some(start) = values.len().checked_sub(WINDOW_ROUNDS as usize) else { return SteadyVerdict { values, ..none } };
    let window = &values[start..];
    let count = f64::from(WINDOW_ROUNDS);
    let first_round = (values.len() - window.len()) as u32 + 1;
    let mean = window.iter().sum::<f64>() / count;
    let (low, high) = window.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &y| (low.min(y), high.max(y)));
    // x runs from -2 to 2 around the middle round, so sum(x) = 0 and sum(x^2) = 10.
    let slope = window.iter().zip([-2.0, -1.0, 0.0, 1.0, 2.0]).map(|(y, x)| x * y).sum::<f64>() / 10.0;
    let excursion = high - low;
    let slope_excursion = slope.abs() * (count - 1.0);
    let allowed = |share: f64| share * mean.abs();
    let holds = |value: f64, share: f64| value <= allowed(share) * (1.0 + ROUNDING);
    SteadyVerdict {
        reached: mean > 0.0 && holds(excursion, EXCURSION_SHARE) && holds(slope_excursion, SLOPE_SHARE),
        first_round,
        last_round: values.len() as u32,
        mean,
        excursion,
        excursion_allowed: allowed(EXCURSION_SHARE),
        slope,
        intercept: mean - slope * (f64::from(first_round) + 2.0),
        slope_excursion,
        slope_excursion_allowed: allowed(SLOPE_SHARE),
        values,
        ..none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// None without a window.
    fn reached(values: &[f64]) -> Option<bool> {
        let tracker = Tracker { tracked: "IOPS".into(), unit: "IOPS".into(), rounds_max: 25, stride: 1 };
        let found = verdict(values, &tracker);
        found.has_window().then_some(found.reached)
    }

    /// Windows with verdicts worked out by hand from the definition; data/steady.toml shows how.
    #[test]
    fn recorded_series_get_their_known_verdicts() {
        #[derive(serde::Deserialize)]
        struct Cases {
            case: Vec<Case>,
        }
        #[derive(serde::Deserialize)]
        struct Case {
            name: String,
            values: Vec<f64>,
            /// The first round at whose end it is steady; absent: never within the series.
            steady_at: Option<usize>,
            mean: Option<f64>,
            slope: Option<f64>,
            excursion: Option<f64>,
        }
        let cases: Cases = toml::from_str(include_str!("../tests/data/steady.toml")).expect("the data are TOML");
        assert!(cases.case.len() >= 8);
        for case in cases.case {
            let at = (1..=case.values.len()).find(|&rounds| reached(&case.values[..rounds]) == Some(true));
            assert_eq!(at, case.steady_at, "{}", case.name);
            let tracker = Tracker { tracked: String::new(), unit: String::new(), rounds_max: 25, stride: 1 };
            let end = verdict(&case.values[..at.unwrap_or(case.values.len())], &tracker);
            for (what, hand, ours) in
                [("mean", case.mean, end.mean), ("slope", case.slope, end.slope), ("excursion", case.excursion, end.excursion)]
            {
                assert!(hand.is_none_or(|hand| (hand - ours).abs() < 1e-6), "{}: {what} {ours}, by hand {hand:?}", case.name);
            }
        }
    }

    #[test]
    fn four_rounds_have_no_window_and_nothing_is_never_steady() {
        assert_eq!(reached(&[100.0; 4]), None);
        let tracker = Tracker { tracked: String::new(), unit: String::new(), rounds_max: 25, stride: 1 };
        let four = verdict(&[100.0; 4], &tracker);
        assert!(!four.reached && four.values.len() == 4 && (four.first_round, four.last_round) == (0, 0), "{four:?}");
        assert_eq!(reached(&[0.0; 5]), Some(false));
    }

    #[test]
    fn with_a_stride_only_every_so_manieth_round_counts() {
        let tracker = Tracker { tracked: String::new(), unit: String::new(), rounds_max: 25, stride: 2 };
        // Rounds 1, 3, 5, 7, 9 are 100; those between are wild.
        let values = [100.0, 5.0, 100.0, 900.0, 100.0, 3.0, 100.0, 70.0, 100.0];
        assert!(!verdict(&values[..8], &tracker).has_window());
        let end = verdict(&values, &tracker);
        assert!(end.reached);
        assert_eq!((end.first_round, end.last_round, end.stride, end.values.len()), (1, 5, 2, 5));
    }

    #[test]
    fn the_line_goes_through_the_window_by_round_number() {
        let values = [500.0, 10.0, 20.0, 30.0, 40.0, 50.0];
        let tracker = Tracker { tracked: String::new(), unit: String::new(), rounds_max: 25, stride: 1 };
        let end = verdict(&values, &tracker);
        // Rounds 2 to 6 lie on y = 10 x - 10.
        assert!((end.slope - 10.0).abs() < 1e-9 && (end.intercept + 10.0).abs() < 1e-9, "{end:?}");
        assert!(!end.reached);
    }
}
