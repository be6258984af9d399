//! Comparison of runs that differ in known ways.

use crate::sample::{Chance, Story, point, target};
use stria_lab::compare::{Change, Comparison, Metric, Outcome, compare};
use stria_lab::result::{Point, SectionKind, TargetKind};

/// A run of eight loads, 5 rounds each, whose rates are scaled by `factor` of the queue depth.
fn run(seed: u64, rounds: u32, name: &str, kernel: &str, factor: impl Fn(u32) -> f64) -> tempfile::TempDir {
    let target = target(name, TargetKind::Array, Some("5"), 4);
    let mut story = Story::new(&format!("run {seed}"), vec![target.clone()]);
    story.chance = Chance(seed);
    story.manifest.environment.kernel = kernel.into();
    let section = story.section("1", "sweep", SectionKind::Sweep, name);
    for round in 1..=rounds {
        for queue_depth in [1, 2, 4, 8, 16, 32, 64, 128] {
            let rate = story.chance.noisy(10_000.0 * f64::from(queue_depth).sqrt() * factor(queue_depth), 0.01);
            story.measure(&section, &Point { queue_depth, ..point(&target) }, round, rate, 1.0);
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    folder
}

fn compared(a: &tempfile::TempDir, b: &tempfile::TempDir) -> Comparison {
    compare(&a.path().join("run"), &b.path().join("run")).expect("two runs")
}

#[test]
fn runs_of_the_same_thing_do_not_differ() {
    let (a, b) = (run(1, 5, "x", "6.1", |_| 1.0), run(2, 5, "x", "6.1", |_| 1.0));
    let found = compared(&a, &b);
    assert_eq!((found.outcome(), found.rows.len(), found.unmatched), (Outcome::Same, 16, 0), "{:#?}", found.sentences());
    assert!(found.caveats.is_empty());
}

#[test]
fn one_load_that_fell_by_a_tenth_is_found_and_named() {
    for rounds in [5, 12] {
        let (a, b) =
            (run(3, rounds, "x", "6.1", |_| 1.0), run(4, rounds, "x", "6.6", |depth| if depth == 32 { 0.9 } else { 1.0 }));
        let found = compared(&a, &b);
        assert_eq!(found.outcome(), Outcome::Worse);
        let worse: Vec<_> = found.rows.iter().filter(|row| row.change == Change::Worse && row.metric == Metric::Rate).collect();
        assert_eq!(worse.len(), 1);
        assert_eq!(worse[0].point.queue_depth, 32);
        let interval = worse[0].difference.interval.expect("enough rounds");
        assert!(interval.contains(0.9), "{interval:?}");
        let words = found.sentences().join("\n");
        for part in ["QD 32", "IOPS", "Holm", "kernel differs: 6.1 and 6.6"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}

#[test]
fn a_gain_is_no_alarm_and_a_trifle_no_gain() {
    let (a, b) = (run(5, 12, "x", "6.1", |_| 1.0), run(6, 12, "x", "6.1", |depth| if depth < 8 { 1.2 } else { 1.02 }));
    let found = compared(&a, &b);
    assert_eq!(found.outcome(), Outcome::Better);
    assert!(found.rows.iter().any(|row| row.change == Change::Trifling), "{:#?}", found.sentences());
}

#[test]
fn different_arrays_are_compared_by_their_loads() {
    let (a, b) = (run(7, 5, "raid5 x4", "6.1", |_| 1.0), run(8, 5, "/dev/md0", "6.1", |_| 0.5));
    let found = compared(&a, &b);
    assert_eq!((found.outcome(), found.rows.len()), (Outcome::Worse, 16));
}

#[test]
fn single_measurements_prove_nothing_and_say_so() {
    let (a, b) = (run(9, 1, "x", "6.1", |_| 1.0), run(10, 1, "x", "6.1", |_| 0.5));
    let found = compared(&a, &b);
    assert_eq!(found.outcome(), Outcome::Nothing);
    assert!(found.sentences()[0].contains("repeat the runs"));
}

#[test]
fn noise_larger_than_the_difference_is_said_in_words() {
    let noisy = |seed: u64| {
        let chance = std::cell::RefCell::new(Chance(seed * 77));
        run(seed, 6, "x", "6.1", move |_| chance.borrow_mut().noisy(1.0, 0.25))
    };
    let found = compared(&noisy(11), &noisy(12));
    assert!(found.sentences().iter().any(|sentence| sentence.contains("told from noise")), "{:#?}", found.sentences());
}
