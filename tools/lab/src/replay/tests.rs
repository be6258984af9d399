//! Small traces on a small file, by our threads and by the real fio.

use super::*;
use crate::trace::{self, Format, Trace, synthetic::Application};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;

fn record(time_ms: u64, offset: u64, bytes: u64, op: Op) -> Record {
    Record { time_ns: time_ms * 1_000_000, device: 0, offset, bytes, op, took_ns: 0 }
}

/// Four requests over 300 ms.
fn small() -> Trace {
    let records = vec![
        record(0, 0, 4096, Op::Write),
        record(100, 8192, 4096, Op::Write),
        record(200, 0, 4096, Op::Read),
        record(200, 0, 0, Op::Flush),
        record(300, 4096, 8192, Op::Read),
    ];
    Trace { devices: vec!["x".into()], records }
}

fn target(bytes: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
    std::fs::write(file.path(), vec![0; bytes as usize]).expect("room");
    file
}

fn play_on(trace: &Trace, path: &Path, options: &Options) -> Outcome {
    let (source, target) = (Source::from(trace.clone()), Place::Path(path.into()));
    play(&source, &target, options, &AtomicBool::new(false), &mut |_| ()).expect("a replay")
}

/// Not every file system that tests run on has direct I/O.
fn buffered(pace: Pace, depth: usize) -> Options {
    Options { pace, depth, direct: false, ..Options::default() }
}

#[test]
fn an_open_loop_keeps_the_traces_times_and_scaling_stretches_them() {
    let file = target(MIB);
    for (stretch, seconds) in [(1.0, 0.3), (0.5, 0.15)] {
        let options = buffered(Pace::Open { stretch }, 4);
        let outcome = play_on(&small(), file.path(), &options);
        assert!((seconds..seconds + 1.0).contains(&outcome.seconds), "{outcome:?}");
        assert_eq!((outcome.total.requests, outcome.flushes, outcome.errors), (4, 1, 0));
        assert_eq!(outcome.read.as_ref().map(|read| read.bytes), Some(12_288));
        assert!(outcome.busy_seconds < outcome.seconds, "idle time is not busy: {outcome:?}");
        assert!(outcome.drift.max_ns > 0.0 && outcome.drift.p50_ns < 50e6, "{:?}", outcome.drift);
    }
}

#[test]
fn a_closed_loop_does_not_wait_and_think_time_does_within_its_limit() {
    let file = target(MIB);
    let closed = play_on(&small(), file.path(), &buffered(Pace::Closed, 1));
    assert!(closed.seconds < 0.3 && closed.drift == Drift::default(), "{closed:?}");
    let pace = Pace::ThinkTime { pause_max: Duration::from_millis(40) };
    let thinking = play_on(&small(), file.path(), &buffered(pace, 1));
    // Pauses of 100, 100, 0 and 100 ms, each cut to 40.
    assert!((0.12..1.0).contains(&thinking.seconds), "{thinking:?}");
}

#[test]
fn a_replay_that_cannot_keep_up_says_so() {
    let file = target(MIB);
    // 2000 flushed writes all due at once, one at a time.
    let records = (0..2000).flat_map(|_| [record(0, 0, 65_536, Op::Write), record(0, 0, 0, Op::Flush)]).collect();
    let trace = Trace { devices: vec!["x".into()], records };
    let outcome = play_on(&trace, file.path(), &buffered(Pace::Open { stretch: 1.0 }, 1));
    assert!(outcome.drift.late_share > 0.5, "{:?}", outcome.drift);
    assert!(outcome.drift.sentence().contains("could not keep up"));
    assert!(Drift::default().sentence().contains("on time"));
}

#[test]
fn writes_land_where_the_trace_says_and_discards_clear_them() {
    let file = target(MIB);
    let written = Trace { devices: vec!["x".into()], records: vec![record(0, 8192, 4096, Op::Write)] };
    play_on(&written, file.path(), &buffered(Pace::Closed, 1));
    let bytes = std::fs::read(file.path()).expect("the file");
    let zero = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 0);
    assert!(zero(0..8192) && !zero(8192..12_288) && zero(12_288..MIB as usize));
    let discarded = Trace { records: vec![record(0, 8192, 4096, Op::Discard)], ..written };
    let outcome = play_on(&discarded, file.path(), &buffered(Pace::Closed, 1));
    assert_eq!(outcome.trim.map(|trim| trim.bytes), Some(4096));
    assert!(std::fs::read(file.path()).expect("the file").iter().all(|byte| *byte == 0));
}

#[test]
fn requests_beyond_the_end_are_folded_or_scaled_and_aligned() {
    let trace = Trace {
        devices: vec!["x".into()],
        records: vec![record(0, 5 * MIB + 512, 512, Op::Read), record(1, 9 * MIB, MIB, Op::Read)],
    };
    let places = |fit| {
        let fitting = Fitting::new(&trace.totals(), 4 * MIB, &Options { fit, ..Options::default() }).expect("it fits");
        trace.records.iter().map(|record| fitting.of(*record)).map(|record| (record.offset, record.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(places(Fit::Fold), [(MIB, 4096), (MIB, MIB)]);
    assert_eq!(places(Fit::Scale), [(2 * MIB, 4096), (3 * MIB, MIB)]);
    assert!(matches!(Fitting::new(&trace.totals(), MIB / 2, &Options::default()), Err(ReplayError::TooSmall { .. })));
}

#[test]
fn a_look_alike_of_an_application_moves_its_published_bytes() {
    let file = target(16 * MIB);
    let trace = Application::named("world-of-warcraft").expect("published").trace(1);
    let outcome = play_on(&trace, file.path(), &buffered(Pace::Closed, 1));
    assert_eq!(outcome.total.requests, 1415 + 14_927 + 10 + 659);
    let published = (390 + 5) * 1_000_000;
    assert!(published - outcome.total.bytes < 2 * 4096, "{}", outcome.total.bytes);
    assert!(outcome.busy_mb_per_s() > 0.0 && outcome.busy_seconds <= outcome.seconds);
}

#[test]
fn fio_replays_the_log_in_its_times_and_reads_back_as_written() {
    let file = target(MIB);
    let log = tempfile::NamedTempFile::new().expect("a file");
    let options = buffered(Pace::Open { stretch: 2.0 }, 4);
    let name = file.path().to_str().expect("a plain name");
    let job = iolog(&small().into(), name, MIB, &options, log.path(), &log.path().display().to_string()).expect("a log");
    let again = trace::read(log.path(), Format::Iolog).expect("our own log");
    let ops = |trace: &Trace| trace.records.iter().map(|record| (record.op, record.offset, record.bytes)).collect::<Vec<_>>();
    assert_eq!(ops(&again), ops(&small()));
    assert_eq!(again.span_ns(), 600_000_000);
    let run = Command::new("fio")
        .args(["--name=replay", "--ioengine=psync", "--output-format=json"])
        .args(job.iter().map(|(key, value)| format!("--{key}={value}")))
        .output()
        .expect("fio runs; `scripts/setup` installs it");
    let text = String::from_utf8_lossy(&run.stdout);
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    let job = &json["jobs"][0];
    assert_eq!(
        (job["read"]["total_ios"].as_u64(), job["write"]["total_ios"].as_u64(), job["error"].as_u64()),
        (Some(2), Some(2), Some(0)),
        "{job}"
    );
    let took = job["job_runtime"].as_f64().expect("a time");
    assert!((590.0..1200.0).contains(&took), "600 ms became {took}");
}

#[test]
fn think_time_is_refused_where_fio_would_replay_it() {
    let options = Options { pace: Pace::ThinkTime { pause_max: Duration::from_secs(1) }, ..Options::default() };
    let log = tempfile::NamedTempFile::new().expect("a file");
    assert!(iolog(&small().into(), "x", MIB, &options, log.path(), "x.log").expect_err("refused").to_string().contains("pause"));
}

#[test]
fn a_replay_is_kept_as_a_run_that_can_be_reported() {
    let file = target(16 * MIB);
    let folder = tempfile::tempdir().expect("a folder");
    let mut request = Request {
        origin: Origin::default(),
        name: "small".into(),
        target: Place::Path(file.path().into()),
        options: buffered(Pace::Open { stretch: 0.1 }, 4),
        through_fio: false,
        passes: 2,
        destroy: false,
        command: Vec::new(),
    };
    let out = folder.path().join("run");
    let (source, stop) = (Source::from(small()), AtomicBool::new(false));
    let refused = keep(&source, &request, &out, &stop, &mut Quiet).expect_err("it writes").to_string();
    assert!(refused.contains("--destroy") && !out.exists(), "{refused}");
    request.destroy = true;
    keep(&source, &request, &out, &stop, &mut Quiet).expect("a run");
    let run = crate::result::Run::open(&out).expect("a run folder");
    assert_eq!((run.records.len(), run.notes.len(), run.records[1].total.requests), (2, 2, 4));
    let page = crate::report::page(&run).expect("a page");
    assert!(page.contains("Replay of small") && page.contains("drift p99") && page.contains("busy "), "{page}");
}

struct Quiet;

impl crate::run::Progress for Quiet {
    fn at(&mut self, _: &crate::run::Moment) {}
    fn say(&mut self, _: &crate::result::Note) {}
}

/// Stops when the second request is done.
struct StopsSoon<'a>(&'a AtomicBool, Vec<crate::run::Moment>);

impl crate::run::Progress for StopsSoon<'_> {
    fn at(&mut self, moment: &crate::run::Moment) {
        self.0.store(moment.words.contains("2 of 5 requests"), Ordering::Relaxed);
        self.1.push(moment.clone());
    }
    fn say(&mut self, _: &crate::result::Note) {}
}

#[test]
fn an_interrupted_replay_keeps_what_it_measured_and_says_that_it_was_cut_short() {
    let file = target(MIB);
    let folder = tempfile::tempdir().expect("a folder");
    let request = Request {
        origin: Origin::default(),
        name: "small".into(),
        target: Place::Path(file.path().into()),
        options: buffered(Pace::Open { stretch: 10.0 }, 4),
        through_fio: false,
        passes: 3,
        destroy: true,
        command: Vec::new(),
    };
    let stop = AtomicBool::new(false);
    let mut progress = StopsSoon(&stop, Vec::new());
    let (manifest, outcomes) = keep(&small().into(), &request, &folder.path().join("run"), &stop, &mut progress).expect("a run");
    assert_eq!((manifest.status, outcomes.len()), (crate::result::RunStatus::Interrupted, 1));
    assert!(outcomes[0].cut_short && outcomes[0].total.requests == 2, "{outcomes:?}");
    let first = &progress.1[0];
    assert!((first.total_seconds - 9.0).abs() < 0.1, "three times three seconds: {first:?}");
    let run = crate::result::Run::open(&folder.path().join("run")).expect("a run folder");
    assert!(run.records[0].point.variant.contains("cut short"));
    assert!(run.notes.iter().any(|note| note.text.contains("after 2 of 5 requests")), "{:?}", run.notes);
    assert!(crate::report::page(&run).expect("a page").contains("cut short"));

    // It is taken up with the pass that was broken off; another trace is not.
    let out = folder.path().join("run");
    let kept = Request { options: buffered(Pace::Closed, 4), ..asked(&out).expect("readable").expect("a replay") };
    let go_on = AtomicBool::new(false);
    // The folder cannot allow to overwrite: the user does, each time.
    let refused = resume(&small().into(), &kept, &out, &go_on, &mut Quiet);
    assert!(matches!(refused, Err(KeepError::NotAllowed { .. })), "{refused:?}");
    let asked = Request { destroy: true, ..kept };
    let mut other = small();
    other.records.pop();
    assert!(resume(&other.into(), &asked, &out, &go_on, &mut Quiet).expect_err("refused").to_string().contains("not the trace"));
    let (manifest, outcomes) = resume(&small().into(), &asked, &out, &go_on, &mut Quiet).expect("a run");
    assert_eq!((manifest.status, manifest.resumed_ms.len(), outcomes.len()), (crate::result::RunStatus::Done, 1, 3));
    let run = crate::result::Run::open(&out).expect("a run folder");
    let passes: Vec<(u32, u64)> = run.records.iter().map(|record| (record.round, record.total.requests)).collect();
    assert_eq!(passes, [(1, 4), (2, 4), (3, 4)], "what was cut short is gone");
    assert!(
        resume(&small().into(), &asked, &out, &go_on, &mut Quiet).expect_err("done").to_string().contains("nothing to resume")
    );
}
