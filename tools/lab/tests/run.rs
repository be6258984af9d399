//! Real runs of fio in seconds: stored results, resuming, refusals, and the truth of fio's figures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stria_lab::experiment::Experiment;
use stria_lab::plan::{plan, stages_apart};
use stria_lab::result::{DriveState, Manifest, Note, NoteKind, Pattern, Run, RunStatus};
use stria_lab::run::{Consent, Moment, Progress, Request, RunError, resume, run};
use stria_lab::shipped::EXPERIMENTS;
use stria_lab::stage::{Load, Scale, Step};
use stria_lab::target::{Pool, TargetError, TargetSpec};

/// Stops the run after this many measurements.
struct StopAfter<'a> {
    records: usize,
    folder: &'a Path,
    stop: &'a AtomicBool,
}

impl Progress for StopAfter<'_> {
    fn at(&mut self, _: &Moment) {
        let lines = std::fs::read_to_string(self.folder.join("records.jsonl")).unwrap_or_default().lines().count();
        if lines >= self.records {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn say(&mut self, _: &Note) {}
}

fn experiment(sections: &str) -> (Experiment, String) {
    let text = format!(
        "name = \"test\"\ntitle = \"T\"\nquestion = \"Q?\"\nalways_scaled = true\n\
         scaled = {{ seconds = 0.5, span = \"16M\", rounds_max = 6, samples_max = 6 }}\n{sections}"
    );
    (Experiment::parse("test.toml", &text).expect("it is sound"), text)
}

const SWEEP: &str = "[[section]]\nname = \"s\"\ntest = \"sweep\"\npasses = 2\n\
    load = [{ pattern = \"random\", block = [\"4K\", \"64K\"], read_percent = [100, 50], queue_depth = 4 }]\n";

fn run_on(target: String, sections: &str, folder: &Path, stop_after: usize, destroy: Vec<String>) -> Result<Manifest, RunError> {
    let (experiment, text) = experiment(sections);
    let request = Request { targets: vec![target], size: Some(16 << 20), destroy, ..Request::default() };
    let stop = AtomicBool::new(false);
    run(&experiment, &text, request, folder, &stop, &mut StopAfter { records: stop_after, folder, stop: &stop })
}

fn file(folder: &Path) -> (PathBuf, String) {
    let path = folder.join("x.img");
    let target = format!("file:{}", path.display());
    (path, target)
}

/// Different loads with a result.
fn measured_points(run: &Run) -> usize {
    let results = run.records.iter().filter(|record| !record.preparation && record.failed.is_none());
    results.map(|record| &record.point).collect::<BTreeSet<_>>().len()
}

#[test]
fn a_run_on_an_image_file_keeps_everything_and_removes_what_it_made() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = file(folder.path());
    let out = folder.path().join("run");
    let manifest = run_on(target, SWEEP, &out, usize::MAX, vec![]).unwrap();
    assert_eq!(manifest.status, RunStatus::Done);
    assert!(!path.exists(), "the file was made for the run");
    let run = Run::open(&out).unwrap();
    assert!(run.manifest.scaled.as_ref().unwrap().words.contains("Scaled trial"));
    assert!(run.manifest.environment.kernel.starts_with("Linux") && run.manifest.fio.starts_with("fio-"));
    assert_eq!(run.manifest.sections[0].purge.as_deref(), Some("new empty file"));
    let results: Vec<_> = run.records.iter().filter(|record| !record.preparation).collect();
    assert_eq!(results.len(), 4 * 2);
    assert_eq!(measured_points(&run), 4);
    for record in &results {
        assert_eq!((record.point.pattern, record.point.drive_state), (Pattern::Random, DriveState::Filled));
        assert_eq!(record.total.bytes, record.total.requests * record.point.block_bytes, "{:?}", record.point);
        assert_eq!(record.total.requests, record.total.latency.bins.iter().map(|(_, count)| count).sum::<u64>());
        let latency = &record.total.latency;
        assert!(Some(latency.min_ns) <= latency.p50_ns && latency.p50_ns <= latency.p99_ns && latency.p99_ns <= latency.p999_ns);
        // Little's law: requests in flight are rate times latency.
        let in_flight = record.total.iops * latency.mean_ns / 1e9;
        assert!((1.0..=4.6).contains(&in_flight), "{in_flight} of 4 in flight");
        let raw: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join(&record.raw)).unwrap()).unwrap();
        let of = |direction: &str| raw["jobs"][0][direction]["io_bytes"].as_u64().unwrap();
        assert_eq!(record.total.bytes, of("read") + of("write"));
    }
    let fill = run.records.iter().find(|record| record.preparation).unwrap();
    assert_eq!(fill.write.as_ref().unwrap().bytes, 16 << 20, "one fill of the span");
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = file(folder.path());
    let out = folder.path().join("run");
    assert_eq!(run_on(target, SWEEP, &out, 4, vec![]).unwrap().status, RunStatus::Interrupted);
    let before = Run::open(&out).unwrap();
    assert_eq!(before.records.len(), 4);
    // A kill may cut the last line short.
    let lines = std::fs::read_to_string(out.join("records.jsonl")).unwrap();
    std::fs::write(out.join("records.jsonl"), format!("{lines}{{\"index\":9,\"sect")).unwrap();

    let stop = AtomicBool::new(false);
    let manifest =
        resume(&out, &Consent::default(), &stop, &mut StopAfter { records: usize::MAX, folder: &out, stop: &stop }).unwrap();
    assert_eq!((manifest.status, manifest.resumed_ms.len()), (RunStatus::Done, 1));
    let after = Run::open(&out).unwrap();
    assert_eq!(after.records[..4], before.records[..], "what was measured stays");
    let mut places: Vec<_> = after.records.iter().map(|record| (record.round, record.step)).collect();
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    assert_eq!((count, places.len()), (9, 9), "each step of each round once");
    let words = resume(&out, &Consent::default(), &stop, &mut StopAfter { records: usize::MAX, folder: &out, stop: &stop })
        .unwrap_err()
        .to_string();
    assert!(words.contains("nothing to resume"), "{words}");
}

#[test]
fn a_file_that_appears_after_the_check_is_not_overwritten_when_its_turn_comes() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first.img", "second.img"].map(|name| folder.path().join(name));
    let out = folder.path().join("run");
    /// Somebody makes the second target while the first one is measured.
    struct Appears<'a>(&'a Path);
    impl Progress for Appears<'_> {
        fn at(&mut self, _: &Moment) {
            if !self.0.exists() {
                std::fs::write(self.0, vec![7; 16 << 20]).unwrap();
            }
        }
        fn say(&mut self, _: &Note) {}
    }
    let (experiment, text) = experiment(&SWEEP.replace("[100, 50]", "[0]"));
    let targets = [&first, &second].map(|path| format!("file:{}", path.display())).to_vec();
    let request = Request { targets, size: Some(16 << 20), ..Request::default() };
    let manifest = run(&experiment, &text, request, &out, &AtomicBool::new(false), &mut Appears(&second)).expect("it begins");
    assert_eq!(manifest.status, RunStatus::Failed);
    let words = Run::open(&out).unwrap().notes.pop().expect("the reason").text;
    assert!(words.contains("would be overwritten") && words.contains(&format!("--destroy {}", second.display())), "{words}");
    assert_eq!(std::fs::read(&second).unwrap(), vec![7; 16 << 20]);
}

#[test]
fn logs_that_a_killed_run_left_do_not_count_in_the_series_after_resume() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = file(folder.path());
    let out = folder.path().join("run");
    // fio logs whole seconds only.
    let text = experiment(SWEEP).1.replace("seconds = 0.5", "seconds = 2.5");
    let experiment = Experiment::parse("test.toml", &text).expect("it is sound");
    let request = Request { targets: vec![target], size: Some(16 << 20), ..Request::default() };
    let stop = AtomicBool::new(false);
    let manifest =
        run(&experiment, &text, request, &out, &stop, &mut StopAfter { records: 3, folder: &out, stop: &stop }).expect("begun");
    assert_eq!(manifest.status, RunStatus::Interrupted);
    let next = Run::open(&out).unwrap().records.iter().map(|record| record.index + 1).max().unwrap();
    for kind in ["bw", "iops", "lat"] {
        let lines = "1000, 500000000, 0, 0, 0\n1000, 500000000, 1, 0, 0\n";
        std::fs::write(out.join(format!("series/{next:05}_{kind}.log")), lines).unwrap();
    }
    let stop = AtomicBool::new(false);
    let manifest = resume(&out, &Consent::default(), &stop, &mut StopAfter { records: 100, folder: &out, stop: &stop }).unwrap();
    assert_eq!(manifest.status, RunStatus::Done);
    let run = Run::open(&out).unwrap();
    let record = run.records.iter().find(|record| record.index == next).unwrap();
    let samples = run.series(record).unwrap().expect("a series").samples;
    assert!(!samples.is_empty() && samples.iter().all(|sample| sample.read_iops < 1e8 && sample.write_iops < 1e8), "{samples:?}");
}

#[test]
fn a_series_that_was_interrupted_before_the_steady_state_begins_again_with_its_preparation() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = file(folder.path());
    let out = folder.path().join("run");
    let throughput = "[[section]]\nname = \"t\"\ntest = \"throughput\"\n";
    // The fill, then a read and a write each round: after two complete ones.
    assert_eq!(run_on(target, throughput, &out, 5, vec![]).unwrap().status, RunStatus::Interrupted);
    assert_eq!(Run::open(&out).unwrap().records.len(), 5);
    let stop = AtomicBool::new(false);
    let manifest =
        resume(&out, &Consent::default(), &stop, &mut StopAfter { records: usize::MAX, folder: &out, stop: &stop }).unwrap();
    let run = Run::open(&out).unwrap();
    assert!(run.notes.iter().any(|note| note.text.contains("the section begins again")));
    assert!(run.records.iter().all(|record| record.begun_ms >= manifest.resumed_ms[0]), "SNIA allows no idle gap");
    assert!(run.records[0].preparation, "the fill comes again");
    let steady = manifest.sections[0].steady.as_ref().expect("a verdict, whichever");
    assert_eq!((steady.unit.as_str(), steady.rounds_max), ("MB/s", 6));
    assert!((5..=6).contains(&steady.values.len()) && manifest.sections[0].rounds as usize >= steady.values.len());
    for block_bytes in [1 << 20, 128 << 10] {
        let cells = run
            .records
            .iter()
            .filter(|record| record.round == 1 && !record.preparation && record.point.block_bytes == block_bytes);
        assert_eq!(cells.count(), 2, "a read and a write of {block_bytes}");
    }
    assert!(run.notes.iter().any(|note| note.kind == NoteKind::Verdict));
}

#[test]
fn what_is_there_is_not_overwritten_without_being_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = file(folder.path());
    std::fs::write(&path, vec![1; 16 << 20]).unwrap();
    let out = folder.path().join("run");
    let error = run_on(target.clone(), SWEEP, &out, usize::MAX, vec![]).unwrap_err();
    assert!(matches!(&error, RunError::Target(TargetError::Unsafe(words)) if words.contains("--destroy")), "{error}");
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 1) && !out.exists());
    // If named, it is overwritten; and a file that existed before is not removed afterwards.
    let manifest = run_on(target, SWEEP, &out, usize::MAX, vec![path.display().to_string()]).unwrap();
    assert_eq!(manifest.status, RunStatus::Done);
    assert!(path.exists());
}

#[test]
fn four_states_are_measured_in_order_and_a_trim_gives_blocks_back() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = file(folder.path());
    let out = folder.path().join("run");
    let states = "[[section]]\nname = \"t\"\ntest = \"states\"\nidle = 1\n\
        load = [{ pattern = \"random\", block = \"4K\", read_percent = 0, queue_depth = 8 }]\n";
    run_on(target, states, &out, usize::MAX, vec![]).unwrap();
    let run = Run::open(&out).unwrap();
    let order: Vec<DriveState> =
        run.records.iter().filter(|record| !record.preparation).map(|record| record.point.drive_state).collect();
    assert_eq!(order, [DriveState::Fresh, DriveState::Used, DriveState::Idle, DriveState::Trimmed]);
    let reclaimed = run.records.last().unwrap().extra["reclaimed_bytes"];
    assert!((reclaimed - (16 << 20) as f64).abs() < 1e6, "{reclaimed}");
}

#[test]
fn a_file_that_the_run_makes_is_not_read_before_it_has_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = file(folder.path());
    let reads =
        "[[section]]\nname = \"t\"\ntest = \"sweep\"\nstate = \"as-found\"\npasses = 2\nload = [{ pattern = \"random\" }]\n";
    let out = folder.path().join("run");
    // Interrupted, so that the file is still there.
    run_on(target.clone(), reads, &out, 1, vec![]).unwrap();
    let allocated = |path: &Path| std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap()) * 512;
    assert!(allocated(&path) >= 16 << 20, "{} bytes have blocks", allocated(&path));
    assert!(Run::open(&out).unwrap().notes.iter().any(|note| note.text.contains("filled once")));
    // An existing file is read as it is.
    std::fs::File::create(&path).unwrap().set_len(16 << 20).unwrap();
    run_on(target, reads, &folder.path().join("again"), usize::MAX, vec![]).unwrap();
    assert_eq!(allocated(&path), 0);
}

#[test]
fn look_alikes_of_applications_are_replayed_in_passes() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = file(folder.path());
    let out = folder.path().join("run");
    let traces = "[[section]]\nname = \"t\"\ntest = \"replay\"\nstate = \"filled\"\npasses = 2\ntraces = [\"word\", \"excel\"]\n";
    // The fill, and the first of four replays.
    assert_eq!(run_on(target, traces, &out, 2, vec![]).unwrap().status, RunStatus::Interrupted);
    let stop = AtomicBool::new(false);
    let manifest =
        resume(&out, &Consent::default(), &stop, &mut StopAfter { records: usize::MAX, folder: &out, stop: &stop }).unwrap();
    assert_eq!(manifest.status, RunStatus::Done);
    let run = Run::open(&out).unwrap();
    let results: Vec<_> = run.records.iter().filter(|record| !record.preparation).collect();
    // Half a second for a minute: the first 120th of 5407 and 3426 requests.
    let told: Vec<_> = results.iter().map(|record| (record.round, record.point.mix.as_str(), record.total.requests)).collect();
    assert_eq!(told, [(1, "word", 45), (1, "excel", 28), (2, "word", 45), (2, "excel", 28)]);
    for record in results {
        assert_eq!((record.errors, record.point.drive_state), (0, DriveState::Filled));
        assert!(
            record.extra["busy_mb_per_s"] >= record.total.mb_per_s * 0.99 && record.total.latency.p50_ns > Some(0.0),
            "{record:?}"
        );
        assert!(out.join(&record.raw).exists());
    }
    let page = stria_lab::report::page(&run).unwrap();
    assert!(page.contains("word replayed, filled") && page.contains("MB/s") && !page.contains("IOPS"), "rates are MB/s");
}

#[test]
fn bad_experiments_are_refused_with_file_key_and_what_is_allowed() {
    let head = "name = \"a\"\ntitle = \"A\"\nquestion = \"?\"\n";
    for (body, wanted) in [
        ("[[section]]\nname = \"s\"\ntest = \"sweeep\"\n", &["a.toml", "line 6", "sweeep", "sweep", "wsat"][..]),
        ("[[section]]\nname = \"s\"\ntest = \"sweep\"\nlod = 1\n", &["a.toml", "line 7", "lod", "load"]),
        ("[[section]]\nname = \"s\"\ntest = \"sweep\"\n", &["section \"s\"", "needs at least one load"]),
        ("[[section]]\nname = \"s\"\ntest = \"iops\"\nload = [{ pattern = \"random\" }]\n", &["fixed by SNIA"]),
        (
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{ pattern = \"random\", block = \"4X\" }]\n",
            &["line 7", "4X", "like 4K, 1MiB"],
        ),
        (
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{ pattern = \"random\", block = 1000 }]\n",
            &["load 1: block", "multiple of 512"],
        ),
        (
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{ pattern = \"random\", read_percent = 101 }]\n",
            &["101", "0 to 100"],
        ),
        (
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{ pattern = \"up\" }]\n",
            &["line 7", "up", "sequential", "random"],
        ),
        (
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{ pattern = \"random\", mix = \"m\", block_split = \"4K/50\" }]\n",
            &["block_split", "must make 100"],
        ),
        ("arrays = { levels = [\"7\"], members = [4] }\n[[section]]\nname = \"s\"\ntest = \"iops\"\n", &["\"7\"", "jbod"]),
        (
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{ pattern = \"random\", mix = \"m\", block_split = \"4K/100\" }, \
             { pattern = \"random\", mix = \"m\", block_split = \"8K/100\" }]\n",
            &["\"m\"", "two different mixes", "a name of its own"],
        ),
        (
            "[[section]]\nname = \"s\"\ntest = \"replay\"\ntraces = [\"wrod\"]\n",
            &["\"wrod\" is not an application", "word", "battlefield-3"],
        ),
        ("[[section]]\nname = \"s\"\ntest = \"replay\"\n", &["at least one of traces"]),
        ("section = []\n", &["[[section]]"]),
    ] {
        let words = Experiment::parse("a.toml", &format!("{head}{body}")).expect_err(body).to_string();
        for wanted in wanted {
            assert!(words.contains(wanted), "\"{wanted}\" in: {words}");
        }
    }
    assert!(Experiment::find("no-such").unwrap_err().to_string().contains("stria lab list"));
}

/// By hand: 56 cells of a minute (and 0.3 s for fio to start and end), five to 25 rounds, after a purge (1 s) and two fills of
/// 1 GiB at 500 MB/s. Half of the seven mixes' requests are writes: 8 x 3.5 minutes of writing a round.
#[test]
fn a_plan_adds_up_time_bytes_and_wear() {
    let (experiment, _) = Experiment::find("snia-iops").unwrap();
    let pool = Pool { folder: Some("/nowhere".into()), drive_bytes: Some((1 << 30) / 3 + 1), ..Pool::default() };
    let target = TargetSpec::array("5", 4, Some(65536), None, &pool).unwrap();
    let plan = plan(&experiment, std::slice::from_ref(&target), &Scale::new(None), 500.0, Some(100 * 1_000_000_000_000));
    let near = |ours: f64, hand: f64| assert!((ours / hand - 1.0).abs() < 1e-3, "{ours}, by hand {hand}");
    let fill_seconds = 2.0 * (1 << 30) as f64 / 500e6;
    near(plan.seconds_min, 1.0 + fill_seconds + 5.0 * 56.0 * 60.3);
    near(plan.seconds_max, 1.0 + fill_seconds + 25.0 * 56.0 * 60.3);
    let bytes = 2.0 * (1 << 30) as f64 + 25.0 * 8.0 * 3.5 * 60.0 * 500e6;
    near(plan.bytes_max as f64, bytes);
    // A random write of a RAID 5 writes data and parity, and a log record that is three times as long, to the four drives in
    // turn.
    near(plan.drive_bytes_max as f64, bytes * 5.0 / 4.0);
    near(plan.endurance_percent.unwrap(), bytes * 5.0 / 4.0 / 1e14 * 100.0);
    assert_eq!((plan.sections[0].loads, plan.sections[0].rounds), (56, (5, 25)));
    assert!(plan.sections[0].destroys && plan.scaled.is_none());
}

#[test]
fn arrays_of_an_experiment_are_all_that_can_be_and_their_bare_drives() {
    let (experiment, _) = Experiment::find("scaling").unwrap();
    let pool = Pool { folder: Some("/nowhere".into()), ..Pool::default() };
    let all = TargetSpec::all(experiment.arrays.as_ref().unwrap(), &pool).unwrap();
    let named = |name: &str| all.iter().filter(|spec| spec.name == name).count();
    assert_eq!(named("RAID 60 of 24, strip 256 KiB, 4 spans"), 1);
    assert_eq!((named("1 drive"), named("24 drives, each by itself"), named("RAID 1 of 2")), (1, 1, 1));
    assert!(!all.iter().any(|spec| spec.name.starts_with("RAID 6 of 3") || spec.name.starts_with("RAID 50 of 4")));
    let mut names: Vec<&str> = all.iter().map(|spec| spec.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len(), "every target has a name of its own");
    let few = Pool { drives: vec!["/dev/a".into(), "/dev/b".into()], ..Pool::default() };
    assert!(TargetSpec::all(experiment.arrays.as_ref().unwrap(), &few).unwrap().iter().all(|spec| spec.drives.len() <= 2));
    assert!(matches!(TargetSpec::all(experiment.arrays.as_ref().unwrap(), &Pool::default()), Err(TargetError::Usage(_))));
}

/// The fields of all records without preparation that identify a load.
fn points(experiment: &Experiment, at: usize, scale: &Scale) -> Vec<String> {
    let stages = stages_apart(experiment, at, 1 << 30, true, scale);
    let steps = stages.iter().flat_map(|stage| &stage.steps);
    let of = |load: &Load| {
        let mix = load.mix.as_ref().map(|mix| &mix.name);
        let what = (load.pattern, load.block_bytes, mix, load.read_percent, load.queue_depth, load.threads);
        format!("{what:?} {:?}", (load.compressible_percent, load.mode, load.drive_state, load.array_state, &load.variant))
    };
    steps.filter_map(Step::load).filter(|load| !load.preparation).map(of).collect()
}

#[test]
fn what_two_sections_measure_does_not_pass_for_repeats() {
    for (name, _) in EXPERIMENTS {
        let (experiment, _) = Experiment::find(name.trim_end_matches(".toml")).unwrap();
        let mut known = BTreeMap::new();
        for scale in [Scale::new(None), Scale::new(Some(experiment.scaled.clone()))] {
            known.clear();
            for at in 0..experiment.section.len() {
                for point in points(&experiment, at, &scale) {
                    assert_eq!(*known.entry(point.clone()).or_insert(at), at, "{name}: {point}");
                }
            }
        }
    }
    let same = |seconds: [u32; 3]| {
        let section = |(name, seconds): (&str, u32)| {
            let load = "{ pattern = \"random\" }, { pattern = \"random\", block = \"8K\", flush_every = 8 }";
            format!(
                "[[section]]\nname = \"{name}\"\ntest = \"sweep\"\nstate = \"as-found\"\nseconds = {seconds}\nload = [{load}]\n"
            )
        };
        let sections: String = ["a", "b", "c"].into_iter().zip(seconds).map(section).collect();
        let text = format!("name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\n{sections}");
        let experiment = Experiment::parse("t.toml", &text).unwrap();
        [0, 1, 2].map(|at| {
            let stages = stages_apart(&experiment, at, 1 << 30, true, &Scale::new(None));
            let variants = stages.iter().flat_map(|stage| &stage.steps).filter_map(Step::load).map(|load| load.variant.clone());
            variants.collect::<Vec<String>>()
        })
    };
    let [first, second, third] = same([60, 1200, 1200]);
    assert_eq!(first, ["", "a flush after 8 writes"], "the first is as it always was");
    assert_eq!(second, ["for 20 min 00 s", "a flush after 8 writes, for 20 min 00 s"]);
    assert_eq!(third, ["c", "a flush after 8 writes, c"], "as long as another, but after it");
}

/// A loop device has its own counters. Needs root: cargo test -p stria-lab --test run -- --ignored
#[test]
#[ignore = "needs root and a free loop device"]
fn the_loop_device_counts_the_bytes_that_fio_tells() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("loop.img");
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let words = |words: &[&str]| {
        let output = std::process::Command::new("losetup").args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let device = words(&["--find", "--show", image.to_str().unwrap()]);
    let out = folder.path().join("run");
    let error = run_on(device.clone(), SWEEP, &out, usize::MAX, vec![]).unwrap_err();
    let done = run_on(device.clone(), SWEEP, &out, usize::MAX, vec![device.clone()]);
    words(&["--detach", &device]);
    assert!(matches!(error, RunError::Target(TargetError::Unsafe(_))), "{error}");
    assert_eq!(done.unwrap().status, RunStatus::Done);
    let run = Run::open(&out).unwrap();
    assert_eq!(run.manifest.sections[0].purge.as_deref(), Some("blkdiscard"));
    for record in run.records.iter().filter(|record| !record.preparation) {
        let member = &record.members[0];
        let bytes = |figures: &Option<stria_lab::result::Figures>| figures.as_ref().map_or(0, |figures| figures.bytes) as f64;
        for (counted, told) in
            [(member.read_bytes as f64, bytes(&record.read)), (member.written_bytes as f64, bytes(&record.write))]
        {
            // fio reads the first blocks when it opens the device, and does not wait for the last requests.
            let slack = 16.0 * record.point.block_bytes as f64 + 0.01 * told;
            assert!((counted - told).abs() <= slack, "the device counted {counted}, fio tells {told}");
        }
        assert!(member.latency_mean_ns.is_some());
    }
}
