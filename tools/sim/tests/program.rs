//! Goal: `stria sim` prints correct results. Method: the real program; figures of virtual time are the same on every machine.

#[path = "../../../crates/manage/tests/support/mod.rs"]
mod support;

use support::Place;

#[test]
fn a_rebuild_beside_clients_is_foretold() {
    let place = Place::new();
    let arguments =
        ["sim", "rebuild", "--json", "--level", "1", "--members", "2", "--depth", "1", "--runtime", "500ms", "--p99", "1ms"];
    let told: serde_json::Value = serde_json::from_str(&place.ok(&arguments)).expect("JSON");
    let speed = |line: usize| told["lines"][line]["rebuild_bytes_per_s"].as_f64().expect("a number");
    assert_eq!((speed(0), told["lines"][2]["latency"].as_str()), (0.0, Some("p99=1ms")), "{told:#}");
    assert!(speed(2) > 10.0 * speed(1) && speed(1) > 0.0, "{told:#}");
}

#[test]
fn json_may_be_asked_for_before_and_after_the_commands() {
    let place = Place::new();
    let price = ["--drive", "p4510", "--level", "5", "--depth", "1", "--writes", "100"];
    for words in [&["--json", "sim", "price"][..], &["sim", "--json", "price"], &["sim", "price", "--json"]] {
        let told: serde_json::Value = serde_json::from_str(&place.ok(&[words, &price].concat())).expect("JSON");
        assert_eq!(told["lines"].as_array().map(Vec::len), Some(1), "{told:#}");
    }
}

/// Such numbers led to a panic, to one UUID of two drives, or to memory without end.
#[test]
fn numbers_beyond_what_is_simulated_are_refused() {
    let place = Place::new();
    for (line, sentence) in [
        ("rebuild --runtime 600years", "use 1ms to 1m"),
        ("rebuild --runtime 5", "write it like 500us"),
        ("rebuild --p99 600years", "use 1us to 1m"),
        ("rebuild --p99 0s", "use 1us to 1m"),
        ("rebuild --members 385", "not in 2..=384"),
        ("rebuild --depth 4097", "not in 1..=4096"),
        ("price --level 5 --members 99999999999", "not in 2..=384"),
        ("price --depth 99999999999", "not in 1..=4096"),
        ("price --depth 0", "not in 1..=4096"),
        ("price --writes 99999999999", "not in 100..=10000000"),
    ] {
        place.run(&[&["sim"][..], &line.split(' ').collect::<Vec<_>>()].concat()).refused(2, &[sentence]);
    }
}
