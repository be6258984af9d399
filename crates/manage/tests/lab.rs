//! Goal: a stranger measures with `stria lab`, and an array's life under load is told.
//! Method: the real program, real fio, image files of a few MiB; figures are not judged, what is counted twice must agree.

mod support;

use serde_json::Value;
use std::time::{Duration, Instant};
use support::{PATIENCE, Place};

const HEAD: &str = "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\nalways_scaled = true\n\
    scaled = { seconds = 1, span = \"32M\", rounds_max = 5, samples_max = 4 }\n[[section]]\nname = \"s\"\n";

fn records(place: &Place, run: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path(run).join("records.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn experiments_are_listed_and_planned_without_touching_anything() {
    let place = Place::new();
    let list: Value = serde_json::from_str(&place.ok(&["--json", "lab", "list"])).expect("JSON");
    assert!(list.as_array().expect("a list").iter().any(|experiment| experiment["name"] == "quick"));
    let plan = place.ok(&["lab", "plan", "snia-iops", "--dry-run", "--target", "file:x.img", "--size", "1GiB", "--tbw", "100TB"]);
    assert!(
        plan.contains("56 loads of 1 min 00 s") && plan.contains("of what the maker allows") && !place.path("x.img").exists(),
        "{plan}"
    );
    place.run(&["lab", "plan", "quick"]).refused(2, &["--target"]);
    place.run(&["lab", "plan", "none"]).refused(2, &["stria lab list"]);
    std::fs::write(place.path("y.img"), vec![1; 16 << 20]).expect("a file");
    place.run(&["lab", "run", "quick", "--target", "file:y.img"]).refused(4, &["--destroy y.img"]);
}

#[test]
fn an_array_is_measured_from_optimal_to_trimmed_and_its_members_agree_with_fio() {
    let place = Place::new();
    let experiment = format!(
        "{HEAD}test = \"raid\"\nload = [{{ pattern = \"random\", block = \"4K\", read_percent = 100, queue_depth = 4 }}]\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    let ended =
        place.ok(&["lab", "run", "t.toml", "--target", "array:10:4", "--pool", "pool", "--drive-size", "32MiB", "--out", "run"]);
    assert!(ended.contains("report.html"), "{ended}");
    let records = records(&place, "run");
    let results: Vec<&Value> = records.iter().filter(|record| record["preparation"] == false).collect();
    let state = |record: &Value| record["point"]["array_state"].as_str().expect("a state").to_owned();
    let mut states: Vec<String> = results.iter().map(|record| state(record)).collect();
    states.dedup();
    assert_eq!(states, ["optimal", "degraded", "rebuilding", "rebuilt", "scrubbing", "optimal"]);
    // Every byte that fio read was read from one member: two counters that know nothing of each other.
    let optimal = results[0];
    let members: u64 =
        optimal["members"].as_array().expect("members").iter().filter_map(|member| member["read_bytes"].as_u64()).sum();
    assert_eq!(members, optimal["read"]["bytes"].as_u64().expect("bytes"));
    let extra =
        |name: &str| results.iter().find_map(|record| record["extra"][name].as_f64()).unwrap_or_else(|| panic!("{name} is told"));
    assert!(extra("rebuild_alone_seconds") > 0.0 && extra("rebuild_seconds") > 0.0 && extra("scrub_seconds") > 0.0);
    assert_eq!(extra("mismatch_sectors"), 0.0);
    // The span of 32 MiB twice, and what the rebuild wrote beyond it; a superblock and a bitmap stay.
    let (back, before) = (extra("reclaimed_bytes"), extra("allocated_before_bytes"));
    assert!(back >= 0.95 * f64::from(64 << 20) && before - back < f64::from(2 << 20), "{back} of {before}");
    assert!(std::fs::read_to_string(place.path("run/report.html")).expect("a page").contains("<svg"));
    assert!(!place.path("pool/drive0.img").exists(), "what the run made is gone");
}

#[test]
fn a_killed_run_is_resumed_on_the_same_array() {
    let place = Place::new();
    let experiment = format!(
        "{HEAD}test = \"sweep\"\npasses = 2\n\
         load = [{{ pattern = \"random\", block = \"4K\", read_percent = [100, 0], queue_depth = 4 }}]\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    let arguments = ["lab", "run", "t.toml", "--target", "array:5:3", "--pool", "pool", "--drive-size", "32MiB", "--out", "run"];
    let mut child = place.command(&arguments).spawn().expect("the program starts");
    let end = Instant::now() + PATIENCE;
    while records(&place, "run").len() < 3 {
        assert!(Instant::now() < end, "no three records");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let before = records(&place, "run");
    place.ok(&["lab", "resume", "run"]);
    let after = records(&place, "run");
    assert_eq!(after[..before.len()], before[..], "what was measured stays");
    assert_eq!(after.len(), 1 + 2 * 2, "a fill and two passes of two loads");
    place.run(&["lab", "resume", "run"]).refused(1, &["nothing to resume"]);
}
