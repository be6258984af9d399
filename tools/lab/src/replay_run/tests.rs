//! Small traces, stored as runs.

use super::*;
use crate::replay::tests::{buffered, small, target};
use crate::result::Run;

const MIB: u64 = 1 << 20;

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
    let run = Run::open(&out).expect("a run folder");
    assert_eq!((run.records.len(), run.notes.len(), run.records[1].total.requests), (2, 2, 4));
    let page = crate::report::page(&run).expect("a page");
    assert!(page.contains("Replay of small") && page.contains("drift p99") && page.contains("busy "), "{page}");
}

/// Before, such a replay waited for centuries.
#[test]
fn damaged_times_are_refused_with_their_line_and_the_ways_around() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = target(16 * MIB);
    let out = folder.path().join("run");
    let request = |options: Options| Request {
        origin: Origin::default(),
        name: "damaged".into(),
        target: Place::Path(file.path().into()),
        options,
        through_fio: false,
        passes: 1,
        destroy: true,
        command: Vec::new(),
    };
    // Alibaba's: microseconds. A gap of years; a time that goes back, of which all others are far; the largest time that a trace
    // may have.
    for (name, times, line) in [
        ("gap", [1_000_000, 2_000_000, 200_000_000_000_000, 200_000_000_000_001], 3),
        ("back", [200_000_000_000_000, 200_000_000_000_001, 5, 200_000_000_000_002], 1),
        ("huge", [1_000_000, 1_000_001, 1 << 53, 1_000_002], 3),
    ] {
        let path = folder.path().join(name);
        let lines: String = times.iter().map(|time: &u64| format!("0,R,0,4096,{time}\n")).collect();
        fs::write(&path, lines).expect("a trace");
        let source = Source::open(&path, crate::trace::Format::Alibaba).expect("it is well-formed");
        let stop = AtomicBool::new(false);
        let mut options = buffered(Pace::Open { stretch: 1.0 }, 4);
        let refused =
            keep(&source, &request(options.clone()), &out, &stop, &mut Quiet).expect_err("it would take years").to_string();
        let words = format!("before the request of line {line},");
        assert!(
            refused.contains(&words) && refused.contains("--pace think") && refused.contains("--gap-max"),
            "{name}: {refused}"
        );
        assert!(!out.exists());
        // Without recorded pauses no gap counts. `--gap-max` allows any gap.
        assert_eq!(Options { pace: Pace::Closed, ..options.clone() }.check_gap(source.gap()), Ok(()));
        options.gap_max_s = 1e12;
        assert_eq!(options.check_gap(source.gap()), Ok(()));
        assert_eq!(
            buffered(Pace::Open { stretch: 1e-6 }, 4).check_gap(crate::trace::Gap { ns: 3_600_000_000_000, line: 1 }),
            Ok(())
        );
    }
}

struct Quiet;

impl Progress for Quiet {
    fn at(&mut self, _: &Moment) {}
    fn say(&mut self, _: &Note) {}
}

/// Stops when the second request is done.
struct StopsSoon<'a>(&'a AtomicBool, Vec<Moment>);

impl Progress for StopsSoon<'_> {
    fn at(&mut self, moment: &Moment) {
        self.0.store(moment.words.contains("2 of 5 requests"), Ordering::Relaxed);
        self.1.push(moment.clone());
    }
    fn say(&mut self, _: &Note) {}
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
    assert_eq!((manifest.status, outcomes.len()), (RunStatus::Interrupted, 1));
    assert!(outcomes[0].cut_short && outcomes[0].total.requests == 2, "{outcomes:?}");
    let first = &progress.1[0];
    assert!((first.total_seconds - 9.0).abs() < 0.1, "three times three seconds: {first:?}");
    let run = Run::open(&folder.path().join("run")).expect("a run folder");
    assert!(run.records[0].point.variant.contains("cut short"));
    assert!(run.notes.iter().any(|note| note.text.contains("after 2 of 5 requests")), "{:?}", run.notes);
    assert!(crate::report::page(&run).expect("a page").contains("cut short"));

    // It is resumed with the interrupted pass. Another trace is refused.
    let out = folder.path().join("run");
    let stored = Request { options: buffered(Pace::Closed, 4), ..asked(&out).expect("readable").expect("a replay") };
    let go_on = AtomicBool::new(false);
    // The folder cannot allow overwriting: the user must, each time.
    let refused = resume(&small().into(), &stored, &out, &go_on, &mut Quiet);
    assert!(matches!(refused, Err(KeepError::NotAllowed { .. })), "{refused:?}");
    let asked = Request { destroy: true, ..stored };
    let mut other = small();
    other.records.pop();
    assert!(resume(&other.into(), &asked, &out, &go_on, &mut Quiet).expect_err("refused").to_string().contains("not the trace"));
    let (manifest, outcomes) = resume(&small().into(), &asked, &out, &go_on, &mut Quiet).expect("a run");
    assert_eq!((manifest.status, manifest.resumed_ms.len(), outcomes.len()), (RunStatus::Done, 1, 3));
    let run = Run::open(&out).expect("a run folder");
    let passes: Vec<(u32, u64)> = run.records.iter().map(|record| (record.round, record.total.requests)).collect();
    assert_eq!(passes, [(1, 4), (2, 4), (3, 4)], "what was cut short is gone");
    assert!(
        resume(&small().into(), &asked, &out, &go_on, &mut Quiet).expect_err("done").to_string().contains("nothing to resume")
    );
}

#[test]
fn a_pass_without_a_result_is_replayed_again_wherever_it_stands() {
    let (file, folder) = (target(MIB), tempfile::tempdir().expect("a folder"));
    let request = Request {
        origin: Origin::default(),
        name: "small".into(),
        target: Place::Path(file.path().into()),
        options: buffered(Pace::Closed, 4),
        through_fio: false,
        passes: 3,
        destroy: true,
        command: Vec::new(),
    };
    let (out, stop) = (folder.path().join("run"), AtomicBool::new(false));
    keep(&small().into(), &request, &out, &stop, &mut Quiet).expect("a run");
    let (writer, mut run) = RunWriter::resume(&out).expect("a run folder");
    run.records[0].measured.failed = Some("1 requests failed".into());
    run.manifest.status = RunStatus::WithFailures;
    writer.rewrite_records(&run.records).and_then(|()| writer.save_manifest(&run.manifest)).expect("written");
    let (manifest, outcomes) = resume(&small().into(), &request, &out, &stop, &mut Quiet).expect("it goes on");
    assert_eq!((manifest.status, outcomes.len()), (RunStatus::Done, 1));
    let run = Run::open(&out).expect("a run folder");
    let mut passes: Vec<u32> = run.records.iter().map(|record| record.round).collect();
    passes.sort_unstable();
    assert_eq!(passes, [1, 2, 3]);
    assert!(run.records.iter().all(|record| record.failed.is_none()));
    assert!(run.notes.iter().any(|note| note.text.contains("resumed with pass 1,")), "{:?}", run.notes);
}

#[test]
fn a_pass_of_fio_that_served_less_than_the_trace_is_no_result() {
    let file = target(16 * MIB);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("raw")).expect("a folder");
    let request = Request {
        origin: Origin::default(),
        name: "small".into(),
        target: Place::Path(file.path().into()),
        options: buffered(Pace::Closed, 4),
        through_fio: true,
        passes: 1,
        destroy: true,
        command: Vec::new(),
    };
    let fio = Fio::find().expect("fio is installed");
    let one_pass = |source: &Source, index| {
        let stop = AtomicBool::new(false);
        through_fio(source, &request, 16 * MIB, (&fio, folder.path(), index, &Held::default()), &stop, &mut |_| {})
            .expect("fio runs")
    };
    assert_eq!(one_pass(&small().into(), 0).failed(), None);
    let outcome = Outcome { shortfall: Some("fio ended with 1".into()), ..one_pass(&small().into(), 1) };
    assert_eq!(outcome.failed().as_deref(), Some("fio ended with 1"));
}
