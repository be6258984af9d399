//! Goal: `bench` and `demo` run as a new user runs them, and print the expected text.
//! Method: short runs; the presence of figures and every verification is checked, but not the figures.

#[path = "../../../crates/manage/tests/support/mod.rs"]
mod support;

use serde_json::Value;
use support::{Place, contents, may_skip};

#[test]
fn bench_compares_verifies_and_spares_what_is_precious() {
    let place = Place::new();
    let quick = ["--runtime", "0.05", "--rounds", "1"];
    let table =
        place.ok(&[&["--json", "bench", "--ram", "5", "--level", "6", "--size", "8MiB", "--bs", "4K"], &quick[..]].concat());
    let table: Value = serde_json::from_str(&table).expect("JSON");
    let rows = table["comparison"]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row["share_of_allowed"].as_f64().is_some_and(|share| share > 0.0)), "{table:#}");

    let files = [
        "bench",
        "--files",
        "3",
        "--size",
        "8MiB",
        "--dir",
        ".",
        "--rw",
        "randrw",
        "--html",
        "page.html",
        "--csv",
        "figures.csv",
    ];
    let words = place.ok(&[&files[..], &quick[..]].concat());
    assert!(words.contains("4 KiB random 70 % read, QD 32"), "{words}");
    assert!(std::fs::read_to_string(place.path("page.html")).expect("a page").contains("<svg"));
    assert_eq!(std::fs::read_to_string(place.path("figures.csv")).expect("figures").lines().count(), 2);
    let verified = place.ok(&[
        &["bench", "--ram", "4", "--level", "10", "--size", "8MiB", "--rw", "randrw", "--verify"],
        &quick[..],
    ]
    .concat());
    assert!(verified.contains("none was wrong"), "{verified}");

    let images = place.images(3, 32 << 20);
    place.ok(&["create", "tank", "--level", "5", &images[0], &images[1], &images[2]]);
    let drives = [&*images[0], &*images[1], &*images[2]];
    let before = contents(&images);
    place.ok(&[&["bench"], &drives[..], &quick[..]].concat());
    place.run(&[&["bench", "--rw", "write"], &drives[..]].concat()).refused(4, &["overwrites", "--force"]);
    place.run(&[&["bench", "--verify"], &drives[..]].concat()).refused(4, &["overwrites", "--force"]);
    assert!(before == contents(&images), "reads change nothing");
    place.ok(&[&["bench", "--rw", "randwrite", "--force"], &drives[..], &quick[..]].concat());
    place.run(&["bench"]).refused(2, &["--ram"]);
    for other in [&["--bs", "8K"][..], &["--iodepth", "16"], &["--bs", "1M", "--iodepth", "128"], &["--bs", "8K", "--verify"]] {
        let words = ["no row of the usual table has --", "128 KiB at depth 1, 32", "--rw randwrite"];
        place.run(&[&["bench", "--ram", "4", "--size", "8MiB"], other, &quick[..]].concat()).refused(2, &words);
    }
}

#[test]
fn demo_tells_its_story() {
    let place = Place::new();
    let ran = place.run(&["demo", "--quick", "--dir", ".", "--out", "report.html"]);
    if ran.stderr.contains("apt-get install fio") {
        return may_skip(&ran.stderr, "run: apt-get install fio");
    }
    assert_eq!(ran.code, 0, "{ran:?}");
    for words in ["pull drive 4", "0 sectors with mismatches", "every byte was as written", "report.html"] {
        assert!(ran.stdout.contains(words), "\"{words}\" is missing: {}", ran.stdout);
    }
    let page = std::fs::read_to_string(place.path("report.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("loses two drives") && !page.contains("http://cdn"));
    let left: Vec<_> = std::fs::read_dir(place.path(".")).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["report.html"], "nothing is left behind");
}
