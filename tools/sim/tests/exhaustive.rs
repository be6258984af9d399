//! The power fails at every event of short histories, optimal and degraded.

use stria_sim::Rules;
use stria_sim::exhaustive::{cut_everywhere, history, setups};

fn everywhere(degraded: bool, lanes: usize) {
    for mut setup in setups() {
        setup.run_on(lanes);
        let name = setup.to_string();
        let cuts = cut_everywhere(&history(setup, degraded), Rules::default());
        let cuts = cuts.unwrap_or_else(|(after, keep, failure)| panic!("{name}: cut after {after}, {keep:?}: {}", failure.what));
        assert!(cuts > 100, "{name}: only {cuts} cuts");
    }
}

#[test]
fn a_power_cut_at_any_event_of_a_whole_array_loses_nothing() {
    everywhere(false, 1);
}

#[test]
fn a_power_cut_at_any_event_of_a_degraded_array_loses_nothing() {
    everywhere(true, 1);
}

#[test]
fn a_power_cut_at_any_event_of_an_array_on_two_lanes_loses_nothing() {
    everywhere(false, 2);
    everywhere(true, 2);
}
