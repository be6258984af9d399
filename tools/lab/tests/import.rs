//! fio's own result files become a run: their figures are stored, and missing data is marked as unknown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use stria_lab::compare::{Outcome, compare};
use stria_lab::import::{Request, import};
use stria_lab::report;
use stria_lab::result::{IoMode, Note, NoteKind, Pattern, Run};
use stria_lab::run::{Consent, Moment, Progress, resume};

/// Lets fio measure a small file in `folder` for a second, and write its usual output.
fn fio(folder: &Path, output: &Path, words: &[&str]) {
    fs::create_dir_all(output.parent().expect("a folder")).expect("a folder");
    let filename = format!("--filename={}", folder.join("x.img").display());
    let common = ["--name=FIOJOB", "--size=16M", "--runtime=1", "--time_based", "--ioengine=libaio", "--direct=1"];
    let status = Command::new("fio")
        .args(common)
        .arg(filename)
        .args(words)
        .args(["--output-format=json", "--output"])
        .arg(output)
        .current_dir(output.parent().expect("a folder"))
        .status()
        .expect("fio");
    assert!(status.success());
}

fn request(from: Vec<PathBuf>) -> Request {
    Request { from, target: "old drive".into(), note: "from a friend".into(), ..Request::default() }
}

#[test]
fn folders_of_bench_fio_become_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("benchmarks");
    let at = |path: &str| there.join("x.img").join(path);
    let logs = |depth: u32, jobs: u32| {
        let prefix = format!("randread-iodepth-{depth}-numjobs-{jobs}");
        ["bw", "lat", "iops"].map(|log| format!("--write_{log}_log={prefix}"))
    };
    for (depth, jobs, group) in [(1, 1, true), (8, 2, true), (4, 2, false)] {
        let (depth_word, jobs_word) = (format!("--iodepth={depth}"), format!("--numjobs={jobs}"));
        let logs = logs(depth, jobs);
        let mut words = vec!["--rw=randread", "--bs=4k", "--log_avg_msec=250", &depth_word, &jobs_word];
        words.extend(logs.iter().map(String::as_str));
        words.extend(group.then_some("--group_reporting"));
        fio(folder.path(), &at(&format!("4k/randread-{depth}-{jobs}.json")), &words);
    }
    fio(folder.path(), &at("randrw70/64k/randrw-2-1.json"), &["--rw=randrw", "--rwmixread=70", "--bs=64k", "--iodepth=2"]);
    fs::write(there.join("settings.json"), "{\"benchmarks\": 4}").expect("a file that is not of fio");

    let out = folder.path().join("run");
    let manifest = import(&request(vec![there.clone()]), &out).expect("a run");
    assert!(manifest.fio.starts_with("fio-3") && manifest.title.contains("old drive"));
    let run = Run::open(&out).expect("a run");
    let points: Vec<_> = run
        .records
        .iter()
        .map(|record| {
            let point = &record.point;
            assert_eq!((point.pattern, point.mode, point.variant.as_str()), (Pattern::Random, IoMode::Direct, ""));
            (point.block_bytes, point.read_percent, point.queue_depth, point.threads, record.round)
        })
        .collect();
    assert_eq!(points, [(4096, 100, 1, 1, 1), (4096, 100, 4, 2, 1), (4096, 100, 8, 2, 1), (65536, 70, 2, 1, 1)]);
    for record in &run.records {
        let raw: serde_json::Value = serde_json::from_slice(&fs::read(out.join(&record.raw)).expect("raw")).expect("JSON");
        let jobs = raw["jobs"].as_array().expect("jobs");
        let all = |key: &str| -> u64 {
            let of = |job: &serde_json::Value| job["read"][key].as_u64().unwrap() + job["write"][key].as_u64().unwrap();
            jobs.iter().map(of).sum()
        };
        assert_eq!((record.total.requests, record.total.bytes), (all("total_ios"), all("io_bytes")));
        if let [job] = &jobs[..] {
            // One job, and one direction at a time: the percentiles are fio's own.
            let read = record.read.as_ref().expect("reads");
            let printed = |percent: &str| job["read"]["clat_ns"]["percentile"][percent].as_f64().expect("a percentile");
            let latency = &read.latency;
            assert_eq!((latency.p50_ns, latency.p99_ns), (Some(printed("50.000000")), Some(printed("99.000000"))));
            assert_eq!(latency.p999_ns, Some(printed("99.900000")));
            // A sum divided by its count: equal except for the last bits.
            let mean = job["read"]["lat_ns"]["mean"].as_f64().expect("a mean");
            assert!((latency.mean_ns / mean - 1.0).abs() < 1e-9, "{} beside fio's {mean}", latency.mean_ns);
        }
    }
    // Logs at four a second become samples of a second, which count the same requests.
    let series = run.series(&run.records[0]).expect("a series").expect("fio logged");
    let log = fs::read_to_string(at("4k/randread-iodepth-1-numjobs-1_iops.1.log")).expect("fio's log");
    let rate = |line: &str| line.split(',').nth(1).expect("a rate").trim().parse::<f64>().expect("a number");
    let logged = log.lines().map(rate).sum::<f64>() * 250.0;
    let (mut counted, mut from_ms) = (0.0, 0);
    for sample in &series.samples {
        counted += sample.read_iops * (sample.at_ms - from_ms) as f64;
        from_ms = sample.at_ms;
    }
    assert!((0.99..1.01).contains(&(counted / logged)), "{counted} of {logged} in {:?} from {log}", series.samples);
    assert!(run.series(&run.records[3]).expect("readable").is_none(), "this one had no logs");
    let notes: Vec<(NoteKind, &str)> = run.notes.iter().map(|note| (note.kind, note.text.as_str())).collect();
    let warned = |words: &str| notes.iter().any(|(kind, text)| *kind == NoteKind::Fallback && text.contains(words));
    assert!(warned("whether it was steady are unknown") && warned("settings.json") && warned("4 of 4 files"), "{notes:?}");
    let page = report::page(&run).expect("a page");
    assert!(page.contains("imported results of fio") && page.contains("from a friend") && !page.contains("0 CPUs"));
    assert!(import(&request(vec![at("4k")]), &out).is_err(), "the folder is taken");
    struct Deaf;
    impl Progress for Deaf {
        fn at(&mut self, _: &Moment) {}
        fn say(&mut self, _: &Note) {}
    }
    let said = resume(&out, &Consent::default(), &AtomicBool::new(false), &mut Deaf).expect_err("nothing was run").to_string();
    assert!(["run", "stria lab import read", "measure with"].iter().all(|words| said.contains(words)), "{said}");
}

#[test]
fn repeats_are_compared_and_other_loads_do_not_pass_for_repeats() {
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<PathBuf> = ["one", "two", "odd"].map(|name| folder.path().join(name).with_extension("json")).into();
    for (file, size) in files.iter().zip(["--offset=0", "--offset=0", "--offset=4M"]) {
        fio(folder.path(), file, &["--rw=write", "--bs=128k", "--iodepth=4", size, "--output-format=json+"]);
    }
    let (all, alike) = (folder.path().join("all"), folder.path().join("alike"));
    import(&request(files.clone()), &all).expect("a run");
    import(&request(files[..2].to_vec()), &alike).expect("a run");
    let run = Run::open(&all).expect("a run");
    let told: Vec<_> = run.records.iter().map(|record| (record.round, record.point.variant.as_str())).collect();
    assert_eq!(told, [(1, "offset=0"), (2, "offset=0"), (1, "offset=4M")]);
    assert!(Run::open(&alike).expect("a run").records.iter().all(|record| record.point.variant.is_empty()));
    let same = compare(&alike, &alike).expect("runs");
    assert_eq!((same.outcome(), same.rows.len()), (Outcome::Same, 2));
}

#[test]
fn what_is_not_of_fio_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.json");
    for (text, words) in [
        ("no JSON at all", "it holds no JSON"),
        ("{\"jobs\": []}", "names no fio version"),
        ("{\"fio version\": \"fio-2.2.10\", \"jobs\": [{}]}", "fio-2.2.10 wrote other figures"),
        ("{\"fio version\": \"fio-3.33\", \"jobs\": []}", "no jobs"),
        ("{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\"}]}", "nothing was measured"),
    ] {
        fs::write(&file, text).expect("a file");
        let said = import(&request(vec![file.clone()]), &folder.path().join("run")).expect_err(text).to_string();
        assert!(said.contains("x.json") && said.contains(words) || words == "no jobs" && said.contains("list of jobs"), "{said}");
    }
    let said = import(&request(vec![folder.path().into()]), &folder.path().join("run")).expect_err("no results").to_string();
    assert!(said.contains("no file of fio's JSON"), "{said}");
    assert!(!folder.path().join("run").exists());
}
