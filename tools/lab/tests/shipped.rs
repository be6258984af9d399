//! Goal: every experiment that comes with the program runs end to end, and its page shows all its results. Method: the real
//! program, real fio, image files, the smallest trial that still measures every load once. Figures are not judged.

#[path = "../../../crates/manage/tests/support/mod.rs"]
mod support;

use serde_json::Value;
use stria_lab::shipped::EXPERIMENTS;
use support::Place;

/// The smallest trial, unless an experiment needs another.
const SMALLEST: [(&str, &str); 5] =
    [("span", "\"16M\""), ("rounds_max", "1"), ("passes_max", "1"), ("samples_max", "1"), ("seconds", "0.1")];

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// The shipped text with the smallest trial instead of its own; `scaled` replaces parts of that.
fn smallest(text: &str, scaled: &str) -> String {
    let others = SMALLEST.iter().filter(|(key, _)| !scaled.contains(&format!("{key} =")));
    let mut trial: Vec<String> = others.map(|(key, value)| format!("{key} = {value}")).collect();
    trial.extend((!scaled.is_empty()).then(|| scaled.to_owned()));
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("scaled = ")).collect();
    let after = lines.iter().position(|line| line.starts_with("question")).expect("experiments ask something") + 1;
    let trial = format!("scaled = {{ {} }}", trial.join(", "));
    lines.insert(after, &trial);
    lines.join("\n")
}

/// The experiment of this test with the smallest trial, run by the program on files; its page has a part of each of these
/// `anchors`.
fn runs(test: &str, scaled: &str, anchors: &[&str]) {
    let place = Place::new();
    let name = test.replace('_', "-");
    let (_, text) = EXPERIMENTS.iter().find(|(file, _)| *file == format!("{name}.toml")).expect("it is shipped");
    std::fs::write(place.path("it.toml"), smallest(text, scaled)).expect("a file");
    let on: &[&str] = match text.contains("[arrays]") {
        true => &["--pool", "pool", "--drive-size", "32MiB"],
        false => &["--target", "file:x.img", "--size", "64MiB"],
    };
    let arguments = |command: &'static str| [&["--json", "lab", command, "it.toml", "--scaled"], on].concat();
    let plan = json(&place.ok(&arguments("plan")));
    place.ok(&[&arguments("run")[..], &["--out", "run"]].concat());

    let read = |file: &str| std::fs::read_to_string(place.path("run").join(file));
    let lines = |text: String| -> Vec<Value> { text.lines().map(json).collect() };
    let records = lines(read("records.jsonl").expect("records"));
    // A run without remarks leaves no notes.
    let notes = lines(read("notes.jsonl").unwrap_or_default());
    let manifest = json(&read("manifest.json").expect("a manifest"));
    assert_eq!(manifest["status"], "done", "{notes:?}");
    assert!(manifest["scaled"]["words"].as_str().is_some_and(|words| words.starts_with("Scaled trial")));
    for planned in plan["sections"].as_array().expect("sections") {
        let id = &planned["id"];
        let is_result = |record: &&Value| record["section"] == *id && record["preparation"] == false && record["round"] == 1;
        let measured: Vec<&Value> = records.iter().filter(is_result).collect();
        let of_plan = planned["loads"].as_u64().expect("a number") as usize;
        // Loads that a target cannot run are left out with a note; loads beside a sweep may run more than once.
        let left_out = notes.iter().filter(|note| note["section"] == *id && note["kind"] == "fallback").count();
        let measured_count = measured.len();
        assert!(
            measured_count + left_out >= of_plan,
            "{id}: {of_plan} loads planned, {measured_count} measured, {left_out} left out"
        );
        assert!(measured.iter().all(|record| record["total"]["requests"].as_u64() > Some(0)), "{id}");
    }
    assert!(notes.iter().all(|note| note["kind"] != "error"), "{notes:?}");
    let page = read("report.html").expect("a page");
    for anchor in anchors.iter().chain(&["figures", "method"]) {
        assert!(page.contains(&format!("<section id=\"{anchor}\"")), "no part \"{anchor}\" on the page of {name}");
    }
    assert!(page.contains("scaled trial") && page.contains("<svg"), "{name}");
    assert!(!place.path("x.img").exists() && !place.path("pool/drive0.img").exists(), "what the run made is gone");
}

/// A test for each: its name is the experiment's, then what differs from the smallest trial, and the parts of its page.
macro_rules! experiments {
    ($($(#[$attribute:meta])* $test:ident $($scaled:literal)? [$($anchor:ident)*];)*) => {
        $(#[test] $(#[$attribute])* fn $test() { runs(stringify!($test), concat!($($scaled)?), &[$(stringify!($anchor)),*]); })*

        /// Every shipped experiment has a test.
        #[test]
        fn all_are_run() {
            let mut run = [$(stringify!($test).replace('_', "-")),*];
            run.sort_unstable();
            let mut shipped: Vec<&str> = EXPERIMENTS.iter().filter_map(|(file, _)| file.strip_suffix(".toml")).collect();
            shipped.sort_unstable();
            assert_eq!(run[..], shipped);
        }
    };
}

experiments! {
    quick [matrix depth];
    app_traces "members = [2]" [figures];
    scaling "members = [4]" [levels];
    #[ignore = "28 loads on each of three targets: most of a minute; threads and scaling run the same code"]
    queue_depth "members = [4]" [depth levels];
    #[ignore = "40 loads on each of three targets: a minute; trim and scaling run the same code"]
    access_suite "members = [2]" [states levels];
    #[ignore = "62 loads: half a minute; quick runs the same code"]
    block_mix [matrix];
    threads [figures];
    #[ignore = "eleven loads on 12 drives, three times: half a minute; scaling runs the same code"]
    many_drives "members = [12]" [matrix];
    #[ignore = "98 loads of up to 4096 requests at once: a minute; sustained runs the same code"]
    depth_threads [square];
    #[ignore = "64 loads with long runs of 256 threads: a minute; quick runs the same code"]
    sustained [sizes];
    #[ignore = "64 loads: half a minute; quick runs the same code"]
    places [places];
    read_share "members = [4]" [levels];
    trim [states];
    file_copy [figures];
    applications [depth];
    spread [figures];
    io_modes [variants];
    compressible [variants];
    raid_life "seconds = 0.6, members = [2]" [raid];
    #[ignore = "all of the tests below, one after the other: two minutes"]
    snia [steady time];
    snia_iops [matrix];
    snia_throughput [figures];
    snia_latency [figures];
    snia_wsat "samples_max = 6" [tail];
    snia_hir "seconds = 0.2" [time];
    snia_xsr "seconds = 0.5, samples_max = 2" [time];
    #[ignore = "the matrix of 49 cells of up to 1024 requests at once: most of a minute; snia-iops runs the same code"]
    snia_dirth [figures];
    snia_composite "seconds = 1" [tail];
}
