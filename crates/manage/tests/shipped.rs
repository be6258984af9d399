//! Goal: every experiment that comes with the program runs end to end, and its page shows what it asked for.
//! Method: the real program, real fio, image files, the smallest trial that still measures every load once. Figures are not judged.

mod support;

use serde_json::Value;
use stria_lab::shipped::EXPERIMENTS;
use support::Place;

/// The experiment with the smallest trial, run by the program on files; its page has a part of each of these `anchors`.
fn runs(name: &str, scaled: &str, anchors: &[&str]) {
    let place = Place::new();
    let (_, text) = EXPERIMENTS.iter().find(|(file, _)| *file == format!("{name}.toml")).expect("it is shipped");
    let own = |line: &&str| !line.starts_with("scaled = ");
    let mut lines: Vec<String> = text.lines().filter(own).map(str::to_owned).collect();
    let after = lines.iter().position(|line| line.starts_with("question")).expect("experiments ask something") + 1;
    let samples = if scaled.contains("samples_max") { "" } else { "samples_max = 1, " };
    lines.insert(after, format!("scaled = {{ span = \"16M\", rounds_max = 1, passes_max = 1, {samples}{scaled} }}"));
    std::fs::write(place.path("it.toml"), lines.join("\n")).expect("a file");
    let arrays = text.contains("[arrays]");
    let on: &[&str] =
        if arrays { &["--pool", "pool", "--drive-size", "32MiB"] } else { &["--target", "file:x.img", "--size", "64MiB"] };
    let arguments = |command: &'static str| [&["--json", "lab", command, "it.toml", "--scaled"], on].concat();
    let plan: Value = serde_json::from_str(&place.ok(&arguments("plan"))).expect("JSON");
    place.ok(&[&arguments("run")[..], &["--out", "run"]].concat());

    let lines = |file: &str| -> Vec<Value> {
        let path = place.path(&format!("run/{file}.jsonl"));
        // Who has nothing to note leaves no notes.
        let text =
            if file == "notes" && !path.exists() { String::new() } else { std::fs::read_to_string(path).expect("it is there") };
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let manifest: Value = serde_json::from_slice(&std::fs::read(place.path("run/manifest.json")).expect("there")).expect("JSON");
    assert_eq!(manifest["status"], "done", "{:?}", lines("notes"));
    assert!(manifest["scaled"]["words"].as_str().is_some_and(|words| words.starts_with("Scaled trial")));
    let records = lines("records");
    for planned in plan["sections"].as_array().expect("sections") {
        let id = &planned["id"];
        let is_result = |record: &&Value| record["section"] == *id && record["preparation"] == false && record["round"] == 1;
        let measured = records.iter().filter(is_result).count();
        let of_plan = planned["loads"].as_u64().expect("a number") as usize;
        // What cannot be on a target is left out with a note; what runs while a sweep does may come more than once.
        let left_out = lines("notes").iter().filter(|note| note["section"] == *id && note["kind"] == "fallback").count();
        assert!(measured + left_out >= of_plan, "{id}: {of_plan} loads planned, {measured} measured, {left_out} left out");
        assert!(records.iter().filter(is_result).all(|record| record["total"]["requests"].as_u64() > Some(0)), "{id}");
    }
    assert!(lines("notes").iter().all(|note| note["kind"] != "error"), "{:?}", lines("notes"));
    let page = std::fs::read_to_string(place.path("run/report.html")).expect("a page");
    for anchor in anchors.iter().chain(&["figures", "method"]) {
        assert!(page.contains(&format!("<section id=\"{anchor}\"")), "no part \"{anchor}\" on the page of {name}");
    }
    assert!(page.contains("scaled trial") && page.contains("<svg"), "{name}");
    assert!(!place.path("x.img").exists() && !place.path("pool/drive0.img").exists(), "what the run made is gone");
}

macro_rules! experiments {
    ($($(#[$attribute:meta])* $test:ident: $name:literal $scaled:literal [$($anchor:literal)*];)*) => {
        $(#[test] $(#[$attribute])* fn $test() { runs($name, $scaled, &[$($anchor),*]); })*

        /// Who ships an experiment writes its test.
        #[test]
        fn all_are_run() {
            let mut run = [$($name),*];
            run.sort_unstable();
            let mut shipped: Vec<&str> = EXPERIMENTS.iter().filter_map(|(file, _)| file.strip_suffix(".toml")).collect();
            shipped.sort_unstable();
            assert_eq!(run[..], shipped);
        }
    };
}

experiments! {
    quick: "quick" "seconds = 0.1" ["matrix" "depth"];
    scaling: "scaling" "seconds = 0.1, members = [4]" ["levels"];
    #[ignore = "28 loads on each of three targets: most of a minute; threads and scaling run the same code"]
    queue_depth: "queue-depth" "seconds = 0.1, members = [4]" ["depth" "levels"];
    #[ignore = "40 loads on each of three targets: a minute; trim and scaling run the same code"]
    access_suite: "access-suite" "seconds = 0.1, members = [2]" ["states" "levels"];
    #[ignore = "62 loads: half a minute; quick runs the same code"]
    block_mix: "block-mix" "seconds = 0.1" ["matrix"];
    threads: "threads" "seconds = 0.1" ["figures"];
    #[ignore = "eleven loads on 12 drives, three times: half a minute; scaling runs the same code"]
    many_drives: "many-drives" "seconds = 0.1, members = [12]" ["matrix"];
    #[ignore = "98 loads of up to 4096 requests at once: a minute; sustained runs the same code"]
    depth_threads: "depth-threads" "seconds = 0.1" ["square"];
    #[ignore = "64 loads with long runs of 256 threads: a minute; quick runs the same code"]
    sustained: "sustained" "seconds = 0.1" ["sizes"];
    #[ignore = "64 loads: half a minute; quick runs the same code"]
    places: "places" "seconds = 0.1" ["places"];
    read_share: "read-share" "seconds = 0.1, members = [4]" ["levels"];
    trim: "trim" "seconds = 0.1" ["states"];
    file_copy: "file-copy" "seconds = 0.1" ["figures"];
    applications: "applications" "seconds = 0.1" ["depth"];
    spread: "spread" "seconds = 0.1" ["figures"];
    io_modes: "io-modes" "seconds = 0.1" ["variants"];
    compressible: "compressible" "seconds = 0.1" ["variants"];
    raid_life: "raid-life" "seconds = 0.6, members = [2]" ["raid"];
    #[ignore = "all of the tests below, one after the other: two minutes"]
    snia: "snia" "seconds = 0.1" ["steady" "time"];
    snia_iops: "snia-iops" "seconds = 0.1" ["matrix"];
    snia_throughput: "snia-throughput" "seconds = 0.1" ["figures"];
    snia_latency: "snia-latency" "seconds = 0.1" ["figures"];
    snia_wsat: "snia-wsat" "seconds = 0.1, samples_max = 6" ["tail"];
    snia_hir: "snia-hir" "seconds = 0.2" ["time"];
    snia_xsr: "snia-xsr" "seconds = 0.5, samples_max = 2" ["time"];
    #[ignore = "the matrix of 49 cells of up to 1024 requests at once: most of a minute; snia-iops runs the same code"]
    snia_dirth: "snia-dirth" "seconds = 0.1" ["figures"];
    snia_composite: "snia-composite" "seconds = 1" ["tail"];
}
