//! Small traces on a small file, by our threads and by the real fio.

use super::*;
use crate::trace::{self, Format, Trace, synthetic, synthetic::Application};
use std::process::Command;
use std::sync::atomic::AtomicBool;

const MIB: u64 = 1 << 20;

fn record(time_ms: u64, offset: u64, bytes: u64, op: Op) -> Record {
    Record { time_ns: time_ms * 1_000_000, device: 0, offset, bytes, op, took_ns: 0 }
}

/// Four requests over 300 ms.
pub(crate) fn small() -> Trace {
    let records = vec![
        record(0, 0, 4096, Op::Write),
        record(100, 8192, 4096, Op::Write),
        record(200, 0, 4096, Op::Read),
        record(200, 0, 0, Op::Flush),
        record(300, 4096, 8192, Op::Read),
    ];
    Trace { devices: vec!["x".into()], records }
}

pub(crate) fn target(bytes: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
    std::fs::write(file.path(), vec![0; bytes as usize]).expect("room");
    file
}

fn play_on(trace: &Trace, path: &Path, options: &Options) -> Outcome {
    let (source, target) = (Source::from(trace.clone()), Place::Path(path.into()));
    play(&source, &target, options, &AtomicBool::new(false), &mut |_| ()).expect("a replay")
}

/// Not every file system of the tests has direct I/O.
pub(crate) fn buffered(pace: Pace, depth: usize) -> Options {
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
    let trace = synthetic::trace(&Application::named("world-of-warcraft").expect("published"), 1);
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
