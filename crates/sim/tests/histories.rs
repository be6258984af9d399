//! A fixed number of random histories of every family: none may lose anything.

use stria_sim::Rules;
use stria_sim::campaign::{Plan, campaign};
use stria_sim::setup::FAMILIES;

fn none_fails(from: u64, count: u64) {
    for family in FAMILIES {
        let plan = Plan { from, count, time_max: None, family: Some(family.into()), jobs: 2, rules: Rules::default() };
        let report = campaign(&plan, &|_| true);
        assert_eq!(report.failure, None, "stria sim --from SEED --count 1 --level {family}");
        assert_eq!(report.histories, count);
    }
}

#[test]
fn histories_of_every_family_lose_nothing() {
    none_fails(1, 60);
}

/// `cargo test --release -p stria-sim --test histories -- --ignored`
#[test]
#[ignore = "some ten minutes"]
fn many_histories_of_every_family_lose_nothing() {
    none_fails(1_000_000, 10_000);
}

#[test]
fn a_seed_runs_the_same_every_time() {
    let history = stria_sim::History::draw(11, None);
    let tallies = [0; 2].map(|_| stria_sim::run(&history, Rules::default()).expect("it loses nothing"));
    assert_eq!(tallies[0].requests, tallies[1].requests);
    assert_eq!(tallies[0].met, tallies[1].met);
}
