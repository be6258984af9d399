//! Untrusted run folders and results that are only read.

use crate::fuzz::sample;
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::Path;
use stria_lab::compare::compare;
use stria_lab::import::{Request, import};
use stria_lab::result::Run;
use stria_lab::{export, report};

fn folder(within: &Path) -> std::path::PathBuf {
    let run = within.join("run");
    crate::fuzz::run(&run);
    run
}

#[test]
fn a_series_is_read_from_the_folder_or_not_at_all() {
    let place = tempfile::tempdir().expect("a folder");
    let run = folder(place.path());
    let there = std::fs::read_to_string(run.join("records.jsonl")).expect("there");
    let series = std::fs::read_to_string(run.join("series/00000.json")).expect("there");
    let outside = place.path().join("00000.json");
    std::fs::write(&outside, series).expect("a file");
    for name in
        ["../00000.json", outside.to_str().expect("text"), "series/../../00000.json", "series/00001.json", "/etc/passwd", "", "."]
    {
        std::fs::write(run.join("records.jsonl"), there.replace("series/00000.json", name)).expect("written");
        let words = report::write(&run, &place.path().join("x.html")).expect_err(name).to_string();
        assert!(words.contains("records.jsonl"), "{name}: {words}");
        assert!(export::csv(std::slice::from_ref(&run), &place.path().join("csv")).is_err(), "{name}");
    }
    std::fs::write(run.join("records.jsonl"), &there).expect("written");
    // A link to a file, a link to a folder, or a pipe.
    let path = run.join("series/00000.json");
    std::fs::remove_file(&path).and_then(|()| symlink(&outside, &path)).expect("a link");
    assert!(report::write(&run, &place.path().join("x.html")).expect_err("a link").to_string().contains("link"));
    std::fs::remove_file(&path).expect("mine");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    assert!(report::write(&run, &place.path().join("x.html")).expect_err("a pipe").to_string().contains("plain file"));
    std::fs::remove_dir_all(run.join("series")).expect("mine");
    symlink(place.path(), run.join("series")).expect("a link");
    assert!(report::write(&run, &place.path().join("x.html")).expect_err("a link").to_string().contains("link"));
    for name in ["manifest.json", "records.jsonl", "notes.jsonl"] {
        let run = place.path().join(format!("of-{name}"));
        crate::fuzz::run(&run);
        std::fs::rename(run.join(name), place.path().join(name)).expect("moved");
        symlink(place.path().join(name), run.join(name)).expect("a link");
        assert!(Run::open(&run).expect_err("a link").to_string().contains("link"), "{name}");
    }
}

#[test]
fn a_folder_without_a_run_is_named_with_what_to_name_instead() {
    let place = tempfile::tempdir().expect("a folder");
    let (run, empty, missing) = (folder(place.path()), place.path().join("empty"), place.path().join("missing"));
    std::fs::create_dir(&empty).expect("a folder");
    for (folder, problem) in
        [(&empty, "is not a run's folder, as it has no manifest.json"), (&missing, "there is no such folder")]
    {
        let words = format!("{}: {problem}; name", folder.display());
        let said = [
            report::write(folder, &place.path().join("x.html")).expect_err("no run").to_string(),
            compare(&run, folder).expect_err("no run").to_string(),
            export::csv(std::slice::from_ref(folder), &place.path().join("csv")).expect_err("no run").to_string(),
        ];
        for said in said {
            assert!(said.contains(&words) && !said.contains("os error"), "{said}");
        }
    }
}

#[test]
fn figures_that_nothing_has_are_an_error_that_names_the_line() {
    let place = tempfile::tempdir().expect("a folder");
    let run = folder(place.path());
    let there = std::fs::read_to_string(run.join("records.jsonl")).expect("there");
    for figure in ["1e308", "-1e300", "18446744073709551615", "1e19"] {
        let mut lines: Vec<serde_json::Value> = there.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        lines[1]["total"]["iops"] = serde_json::from_str(figure).expect("a number");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(run.join("records.jsonl"), text).expect("written");
        let words = Run::open(&run).expect_err(figure).to_string();
        assert!(words.contains("records.jsonl") && words.contains("line 2") && words.contains("10^18"), "{words}");
    }
    std::fs::write(run.join("records.jsonl"), format!("{}\n{there}", "[".repeat(100_000))).expect("written");
    assert!(Run::open(&run).is_err());
    std::fs::write(run.join("records.jsonl"), vec![b'1'; 8 << 20]).expect("written");
    assert!(Run::open(&run).expect_err("endless").to_string().contains("4 MiB"));
}

#[test]
fn record_numbers_that_no_run_has_are_an_error_and_great_figures_add_up() {
    let place = tempfile::tempdir().expect("a folder");
    let run = folder(place.path());
    let there = std::fs::read_to_string(run.join("records.jsonl")).expect("there");
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut text = String::new();
        for line in there.lines() {
            let mut record: serde_json::Value = serde_json::from_str(line).expect("JSON");
            change(&mut record);
            text += &format!("{record}\n");
        }
        std::fs::write(run.join("records.jsonl"), text).expect("written");
    };
    for field in ["index", "round", "step"] {
        for number in [u32::MAX, 1_000_000] {
            with(&|record| record[field] = number.into());
            let words = Run::open(&run).expect_err("a number that no record has").to_string();
            assert!(words.contains(&number.to_string()) && words.contains("measure anew"), "{words}");
        }
    }
    let most = 1_000_000_000_000_000_000_u64;
    with(&|record| {
        for side in ["read", "write", "total"] {
            for figure in ["bytes", "requests"] {
                if let Some(figure) = record.pointer_mut(&format!("/{side}/{figure}")) {
                    *figure = most.into();
                }
            }
            let bins = record.pointer_mut(&format!("/{side}/latency/bins"));
            bins.and_then(|bins| bins.as_array_mut()).into_iter().flatten().for_each(|bin| bin[1] = most.into());
        }
    });
    report::write(&run, &place.path().join("great.html")).expect("a page");
}

/// An imported run can be reported: figures beyond the bounds are refused with the file's name, before a folder is created.
#[test]
fn results_of_fio_that_no_report_could_show_are_not_imported() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("x.json");
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = json!({"fio version": "fio-3.33", "timestamp_ms": 1, "jobs": [{"jobname": "a", "error": 0, "job_runtime": 1000,
            "job options": {"rw": "randread", "bs": "4k"},
            "read": {"total_ios": 10, "io_bytes": 40960, "runtime": 1000, "iops": 10.0, "bw_bytes": 40960,
                     "lat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "bins": {"5": 10}}}}]});
        change(&mut value);
        std::fs::write(&file, value.to_string()).expect("a file");
        let out = place.path().join(format!("run-{}", std::fs::read_dir(place.path()).expect("there").count()));
        let request = Request { from: vec![file.clone()], target: "x".into(), ..Request::default() };
        let imported = import(&request, &out);
        if imported.is_ok() {
            report::write(&out, &out.join("report.html")).expect("what is imported can be shown");
        }
        imported.map(|_| ()).map_err(|error| error.to_string())
    };
    with(&|_| {}).expect("sound");
    for (key, figure) in
        [("iops", json!(1e308)), ("io_bytes", json!(u64::MAX)), ("total_ios", json!(u64::MAX)), ("runtime", json!(1e300))]
    {
        let words = with(&|value| value["jobs"][0]["read"][key] = figure.clone()).expect_err(key);
        assert!(words.contains("x.json") && words.contains("no measurement has"), "{words}");
    }
    let words =
        with(&|value| value["jobs"][0]["read"]["lat_ns"]["bins"] = json!({"5": u64::MAX, "6": u64::MAX})).expect_err("bins");
    assert!(words.contains("no measurement has"), "{words}");
    // Two figures that are within bounds, but whose sum is not.
    let words = with(&|value| {
        value["jobs"][0]["read"]["iops"] = json!(9e14);
        let job = value["jobs"][0].clone();
        value["jobs"].as_array_mut().expect("a list").push(job);
    });
    assert!(words.expect_err("their sum").contains("the sum of the jobs"));
    for (key, value) in [("timestamp_ms", json!(u64::MAX)), ("timestamp", json!(u64::MAX)), ("jobs", json!([]))] {
        let _ = with(&|json| {
            json[key] = value.clone();
            json["timestamp_ms"] = if key == "timestamp" { json!(null) } else { json["timestamp_ms"].clone() };
        });
    }
    for option in [("numjobs", "4294967295"), ("log_avg_msec", "18446744073709551615"), ("iodepth", "-1"), ("rwmixwrite", "300")]
    {
        let _ = with(&|json| json["jobs"][0]["job options"][option.0] = json!(option.1));
    }
    // Failed requests are evidence, not a repeat.
    with(&|json| json["jobs"][0]["error"] = json!(5)).expect("kept");
    // Links in a folder of results are not followed.
    let results = place.path().join("results");
    std::fs::create_dir(&results).expect("a folder");
    symlink(&results, results.join("again")).expect("a link");
    symlink("/dev/zero", results.join("zero.json")).expect("a link");
    let request = Request { from: vec![results], target: "x".into(), ..Request::default() };
    assert!(import(&request, &place.path().join("none")).expect_err("nothing").to_string().contains("no file of fio's JSON"));
}

#[test]
fn the_sample_itself_is_sound() {
    let place = tempfile::tempdir().expect("a folder");
    let run = folder(place.path());
    report::write(&run, &place.path().join("x.html")).expect("a page");
    let _ = sample::full;
}

/// A law's cost must not grow with the size of requests, which is a number in a file.
#[test]
fn sizes_of_requests_that_nothing_has_are_an_error_and_great_ones_are_shown() {
    let place = tempfile::tempdir().expect("a folder");
    let run = folder(place.path());
    let there = std::fs::read_to_string(run.join("records.jsonl")).expect("there");
    let with = |bytes: u64, strip: u64| {
        let mut text = String::new();
        for line in there.lines() {
            let mut record: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let point = &mut record["point"];
            (point["level"], point["members"], point["pattern"]) = (json!("5"), json!(3), json!("random"));
            (point["strip_bytes"], point["block_bytes"], point["read_percent"]) = (json!(strip), json!(bytes), json!(0));
            text += &format!("{record}\n");
        }
        std::fs::write(run.join("records.jsonl"), text).expect("written");
        report::write(&run, &place.path().join("x.html")).map_err(|error| error.to_string())
    };
    let words = with(1_000_000_000_000_000_000, 4096).expect_err("no request has an exabyte");
    assert!(words.contains("1000000000000000000 bytes") && words.contains("measure anew"), "{words}");
    for (bytes, strip) in [(1 << 40, 4096), ((1 << 40) - 1, 4096), (4097, 16 << 20), (0, 4096)] {
        with(bytes, strip).unwrap_or_else(|words| panic!("{bytes} on {strip}: {words}"));
    }
}

#[test]
fn numbers_of_members_and_requests_that_nothing_has_are_an_error() {
    let place = tempfile::tempdir().expect("a folder");
    let run = folder(place.path());
    let there = std::fs::read_to_string(run.join("records.jsonl")).expect("there");
    for (key, number) in
        [("members", u32::MAX), ("members", 5000), ("spans", u32::MAX), ("queue_depth", u32::MAX), ("threads", u32::MAX)]
    {
        let mut lines: Vec<serde_json::Value> = there.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        lines[1]["point"][key] = json!(number);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(run.join("records.jsonl"), text).expect("written");
        let words = report::write(&run, &place.path().join("x.html")).expect_err(key).to_string();
        assert!(words.contains(&key.replace('_', " ")) && words.contains(&number.to_string()), "{words}");
    }
    // The product of the largest that are allowed is no error.
    let mut lines: Vec<serde_json::Value> = there.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &mut lines {
        (line["point"]["queue_depth"], line["point"]["threads"]) = (json!(1 << 20), json!(1 << 20));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(run.join("records.jsonl"), text).expect("written");
    report::write(&run, &place.path().join("x.html")).expect("a page");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("manifest.json")).expect("there")).expect("JSON");
    manifest["targets"][0]["members"] = json!(u32::MAX);
    std::fs::write(run.join("manifest.json"), manifest.to_string()).expect("written");
    assert!(Run::open(&run).expect_err("refused").to_string().contains("members"));
}
