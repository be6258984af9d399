//! Goal: the same experiments run on models as on drives, and reproduce published results. Method: runs on models, in virtual
//! time, without fio.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use stria_lab::experiment::Experiment;
use stria_lab::result::{DriveState, Manifest, Note, Pattern, Record, Run, RunStatus};
use stria_lab::run::{Consent, Moment, Progress, Request, RunError, resume, run};
use stria_lab::{compare, report, verify};

/// Stops the run after this many measurements; stores its messages.
struct Watched<'a> {
    records: usize,
    folder: &'a Path,
    stop: &'a AtomicBool,
    notes: Vec<Note>,
}

impl Progress for Watched<'_> {
    fn at(&mut self, moment: &Moment) {
        // A run of two minutes said "4 d 21 h left".
        assert!(moment.is_virtual, "the time of models is told as that of this machine");
        let lines = std::fs::read_to_string(self.folder.join("records.jsonl")).unwrap_or_default().lines().count();
        if lines >= self.records {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn say(&mut self, note: &Note) {
        self.notes.push(note.clone());
    }
}

fn measured(sections: &str, request: Request, folder: &Path, stop_after: usize) -> (Result<Manifest, RunError>, Vec<Note>) {
    let text = format!("name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\n{sections}");
    let experiment = Experiment::parse("t.toml", &text).expect("it is sound");
    let stop = AtomicBool::new(false);
    let mut watched = Watched { records: stop_after, folder, stop: &stop, notes: Vec::new() };
    let ended = run(&experiment, &text, request, folder, &stop, &mut watched);
    (ended, watched.notes)
}

fn on(platform: &str) -> Request {
    Request { on: Some(platform.into()), ..Request::default() }
}

fn target(name: &str) -> Request {
    Request { targets: vec![name.into()], ..Request::default() }
}

fn rate(run: &Run, matches: impl Fn(&Record) -> bool) -> f64 {
    let found: Vec<f64> =
        run.records.iter().filter(|record| !record.preparation && matches(record)).map(|record| record.total.mb_per_s).collect();
    assert!(!found.is_empty(), "nothing of it was measured");
    found.iter().sum::<f64>() / found.len() as f64
}

/// A controller's RAID 0 reads as 18 drives and no faster, its parity writes as 8 data drives (LSI 2108), as published; and the
/// page of it has the theory of the modelled drives without an array.
#[test]
fn a_shipped_experiment_on_a_platform_shows_its_published_knees() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let sections = "[arrays]\nlevels = [\"0\", \"5\"]\nmembers = [1, 6, 9, 12, 16, 18, 20, 24]\nstrips = [\"256K\"]\n\
        [[section]]\nname = \"peak\"\ntest = \"sweep\"\npasses = 1\nload = [{ pattern = \"sequential\", block = \"256K\", \
        read_percent = [100, 0], queue_depth = 256, threads = 1 }]\n";
    let (ended, _) = measured(sections, on("lsi2108"), &out, usize::MAX);
    let manifest = ended.expect("it runs");
    assert_eq!(manifest.status, RunStatus::Done);
    assert!(manifest.fio.contains("virtual time") && manifest.targets[0].platform.contains("LSI 2108"), "{}", manifest.fio);
    let run = Run::open(&out).expect("a run");
    let of = |level: &str, members: u32, read_percent: u8| {
        rate(&run, |record| {
            let point = &record.point;
            (point.level.as_deref(), point.members, point.read_percent) == (Some(level), Some(members), read_percent)
        })
    };
    // Published: 18 drives, 3,000 MB/s. The slot of the model carries 3,200, which 19 drives reach.
    let (six, sixteen, eighteen) = (of("0", 6, 100), of("0", 16, 100), of("0", 18, 100));
    let (twenty, most) = (of("0", 20, 100), of("0", 24, 100));
    assert!(
        sixteen > 2.5 * six && eighteen > 1.08 * sixteen && most < 1.03 * twenty,
        "{six} {sixteen} {eighteen} {twenty} {most}"
    );
    assert!((2_700.0..3_300.0).contains(&most), "{most}");
    assert!(of("5", 9, 0) > 1.4 * of("5", 6, 0) && of("5", 18, 0) < 1.03 * of("5", 9, 0));
    let page = out.join("report.html");
    report::write(&out, &page).expect("a page");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("LSI 2108") && page.contains("Savvio 10K.5") && page.contains("each by itself") && page.contains("<svg")
    );
}

/// The states of the publications, by the experiment of the laboratory: a used RAID 0 of an Intel chipset is slow, and a trim
/// makes it fresh.
#[test]
fn states_are_reached_by_doing_what_publications_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let sections = "[[section]]\nname = \"states\"\ntest = \"states\"\npasses = 1\nseconds = 60\nidle = 1800\n\
        load = [{ pattern = \"random\", block = \"4K\", read_percent = 0, queue_depth = 32 }]\n";
    let out = folder.path().join("run");
    let (ended, notes) = measured(sections, target("model:ssd520@z87:0:4:32K"), &out, usize::MAX);
    assert_eq!(ended.expect("it runs").status, RunStatus::Done, "{notes:?}");
    let run = Run::open(&out).expect("a run");
    let of = |state| rate(&run, |record| record.point.drive_state == state);
    let (fresh, used, trimmed) = (of(DriveState::Fresh), of(DriveState::Used), of(DriveState::Trimmed));
    assert!(used < 0.7 * fresh && trimmed > 0.85 * fresh, "{used:.1} and {trimmed:.1} of {fresh:.1}");
    assert!(!notes.iter().any(|note| note.text.contains("do not reach")), "{notes:?}");
}

/// An interrupted run continues: its section begins again, because the state of models ends with the program.
#[test]
fn an_interrupted_run_on_models_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let sections = "[[section]]\nname = \"a\"\ntest = \"sweep\"\npasses = 2\nload = [{ pattern = \"random\", block = [\"4K\", \"64K\"], \
        read_percent = [100, 50], queue_depth = 4 }]\n";
    let (ended, _) = measured(sections, target("model:s3500"), &out, 3);
    assert_eq!(ended.expect("it runs").status, RunStatus::Interrupted);
    let stop = AtomicBool::new(false);
    let mut watched = Watched { records: usize::MAX, folder: &out, stop: &stop, notes: Vec::new() };
    let manifest = resume(&out, &Consent::default(), &stop, &mut watched).expect("it goes on");
    assert_eq!(manifest.status, RunStatus::Done);
    let run = Run::open(&out).expect("a run");
    let results: Vec<&Record> = run.records.iter().filter(|record| !record.preparation).collect();
    let mut places: Vec<_> = results.iter().map(|record| (record.round, record.step)).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!((results.len(), places.len(), run.records.len()), (8, 8, 9), "each step of each round once, and one fill");
    for record in &results {
        let latency = &record.total.latency;
        assert!(Some(latency.min_ns) <= latency.p50_ns && latency.p50_ns <= latency.p99_ns, "{latency:?}");
        assert_eq!(record.total.requests, latency.bins.iter().map(|(_, count)| count).sum::<u64>());
        // Little's law.
        let in_flight = record.total.iops * latency.mean_ns / 1e9;
        assert!((3.8..=4.2).contains(&in_flight), "{in_flight} of 4 in flight");
    }
    // Passes have random numbers of their own, and both are of one model.
    let comparison = compare::compare(&out, &out).expect("comparable");
    assert!(!comparison.rows.is_empty() && results[0].total.iops != results[4].total.iops);
}

/// SNIA's method on a model: purge, preconditioning, rounds until they are steady.
#[test]
fn a_model_becomes_steady_by_snias_method() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let (ended, notes) = measured("[[section]]\nname = \"l\"\ntest = \"latency\"\n", target("model:s3500"), &out, usize::MAX);
    let manifest = ended.expect("it runs");
    assert_eq!(manifest.status, RunStatus::Done, "{notes:?}");
    let section = &manifest.sections[0];
    assert!(section.steady.as_ref().is_some_and(|verdict| verdict.reached), "{:?}", section.steady);
    assert_eq!(section.purge.as_deref(), Some("fresh models"));
    let run = Run::open(&out).expect("a run");
    assert!(run.records.iter().filter(|record| !record.preparation).all(|record| record.point.pattern == Pattern::Random));
}

/// Three rounds cannot show a steady state, and the page says so.
#[test]
fn a_trial_of_fewer_than_five_rounds_is_not_steady() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let request = Request { scaled: true, ..target("model:s3500") };
    let sections = "[scaled]\nrounds_max = 3\n[[section]]\nname = \"l\"\ntitle = \"SNIA latency\"\ntest = \"latency\"\n";
    let (ended, notes) = measured(sections, request, &out, usize::MAX);
    let manifest = ended.expect("it runs");
    let steady = manifest.sections[0].steady.as_ref().expect("a verdict");
    assert!(!steady.reached && !steady.has_window() && steady.values.len() == 3, "{steady:?}, {notes:?}");
    let page = report::page(&Run::open(&out).expect("a run")).expect("a page");
    for words in ["steady state not reached", "SNIA latency did not become steady: it ended with 3 rounds that count"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("NaN"));
}

#[test]
fn what_is_not_modelled_is_refused_or_left_out_with_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |sections: &str, request: Request, words: &str| {
        let (ended, _) = measured(sections, request, &folder.path().join("refused"), usize::MAX);
        let error = ended.map(|_| ()).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    };
    let sweep = "[[section]]\nname = \"s\"\ntest = \"sweep\"\npasses = 1\nload = [{ pattern = \"random\", block = \"4K\", \
        read_percent = 100, queue_depth = 1 }]\n";
    refused(sweep, target("model:tape"), "there is no such drive");
    refused(sweep, target("model:p4510:1:1"), "Stria makes RAID 1 over 1 drives, but it is not modelled");
    refused(sweep, on("mars"), "there is no such platform");
    refused(sweep, on("stria"), "name the drives too");
    refused(
        "[[section]]\nname = \"r\"\ntest = \"raid\"\nload = [{ pattern = \"random\", block = \"4K\", read_percent = 0, queue_depth = 1 }]\n",
        target("model:p4510:5:4"),
        "no Stria array with redundancy",
    );
    let arrays = format!("[arrays]\nlevels = [\"4\"]\nmembers = [4]\nstrips = [\"64K\"]\nbare = false\n{sweep}");
    refused(&arrays, on("lsi2208"), "no array of this experiment is modelled");
    let mixed = format!(
        "{sweep}[[section]]\nname = \"z\"\ntest = \"sweep\"\npasses = 1\nload = [{{ pattern = \"random\", block = \"4K\", \
         read_percent = 0, queue_depth = 1, compressible_percent = [0, 100] }}]\n"
    );
    let out = folder.path().join("zeros");
    let (ended, notes) = measured(&mixed, target("model:ssd520"), &out, usize::MAX);
    assert_eq!(ended.expect("it runs").status, RunStatus::Done);
    assert!(notes.iter().any(|note| note.text.contains("data that compress are not modelled")), "{notes:?}");
    assert_eq!(Run::open(&out).expect("a run").records.iter().filter(|record| !record.preparation).count(), 2);
}

/// A run on a model has no error against that model, and an error against another one, which is stored for each load.
#[test]
fn a_run_is_verified_against_models_and_what_is_found_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let sections = "[[section]]\nname = \"s\"\ntest = \"sweep\"\npasses = 1\nload = [{ pattern = \"random\", block = \"4K\", \
        read_percent = [100, 0], queue_depth = [1, 16] }]\n";
    let request = target("model:s3500:10:4:64K");
    let (ended, _) = measured(sections, request.clone(), &out, usize::MAX);
    assert_eq!(ended.expect("it runs").status, RunStatus::Done);
    let text = std::fs::read_to_string(out.join("experiment.toml")).expect("stored");
    let experiment = Experiment::parse("t.toml", &text).expect("sound");
    let keep = folder.path().join("state");
    let stop = AtomicBool::new(false);
    let verified = |model: &str| {
        let mut watched = Watched { records: usize::MAX, folder: &out, stop: &stop, notes: Vec::new() };
        verify::verify((&experiment, &text), &request, &out, model, &keep, (&stop, &mut watched))
    };
    let same = verified("s3500").expect("it is modelled");
    assert_eq!((same.lines.len(), same.unmatched), (4, 0));
    assert!(same.lines.iter().all(|line| line.error_percent.abs() < 5.0), "{:?}", same.lines);
    assert!(same.calibration.factors.iter().all(|factor| (factor.factor - 1.0).abs() < 0.05), "{:?}", same.calibration);
    assert!(same.page.is_file() && same.stored.starts_with(&keep) && same.models.is_dir());
    let stored: serde_json::Value = serde_json::from_slice(&std::fs::read(&same.stored).expect("stored")).expect("JSON");
    assert_eq!((&stored["drive"], &stored["platform"]), (&"s3500".into(), &"stria".into()));
    let other = verified("p4510").expect("it is modelled");
    assert!(other.lines.iter().any(|line| line.error_percent > 50.0), "{:?}", other.lines);
    assert!(verified("tape").is_err_and(|error| error.to_string().contains("no such drive")));
    // A check that is interrupted half way says so, and leaves what is stored as it is.
    let models = folder.path().join("run-models-3");
    let before = std::fs::read(&other.stored).expect("stored");
    let mut watched = Watched { records: 4, folder: &models, stop: &stop, notes: Vec::new() };
    let broken = verify::verify((&experiment, &text), &request, &out, "p4510", &keep, (&stop, &mut watched));
    let words = broken.expect_err("it was interrupted").to_string();
    assert!(words.contains("was interrupted") && words.contains("--verify-plan"), "{words}");
    assert!(Run::open(&models).expect("a run").records.iter().any(|record| !record.preparation), "some of it was measured");
    assert_eq!(std::fs::read(&other.stored).expect("stored"), before);
}
