//! Goal: a failed load is never shown as a result, and a run that cannot succeed does not begin. Method: real fio on small files,
//! and on this test's own NBD server, which fails on demand.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stria_lab::compare::{Outcome, compare};
use stria_lab::experiment::Experiment;
use stria_lab::result::{DriveState, Manifest, Note, NoteKind, Run, RunStatus};
use stria_lab::run::{Consent, Moment, Progress, Request, RunError, resume, run};
use stria_lab::target::{Amount, Part, TargetError};

const BYTES: u64 = 16 << 20;

/// Once fio was started, until the kernel ended it, or another program, for want of memory.
#[test]
fn a_load_that_needs_more_memory_than_there_is_does_not_begin() {
    let place = tempfile::tempdir().expect("a folder");
    let text = |load: &str| {
        format!(
            "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\n[[section]]\nname = \"s\"\ntest = \"sweep\"\nstate = \"as-found\"\n\
             seconds = 0.5\nload = [{{ pattern = \"random\", threads = 1024, queue_depth = 4096, {load} }}]\n"
        )
    };
    for load in ["block = \"64M\"", "mix = \"m\", block_split = \"4K/99:64M/1\""] {
        let text = text(load);
        let experiment = Experiment::parse("t.toml", &text).expect("sound");
        let target = format!("file:{}", place.path().join("x.img").display());
        let request = Request { targets: vec![target], size: Some(BYTES), ..Request::default() };
        let begun = run(&experiment, &text, request, &place.path().join("out"), &AtomicBool::new(false), &mut Deaf);
        let words = begun.expect_err("no machine has 256 TiB").to_string();
        assert!(words.contains("256 TiB of data") && words.contains("smaller block, queue_depth or threads"), "{words}");
        assert!(!place.path().join("x.img").exists() && !place.path().join("out").exists());
    }
}

/// Before, these runs began, and stopped at their first step.
#[test]
fn a_target_that_cannot_be_made_or_reached_is_refused_before_the_run_begins() {
    let place = tempfile::tempdir().expect("a folder");
    let text = "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\n[[section]]\nname = \"s\"\ntest = \"sweep\"\n\
        state = \"as-found\"\nload = [{ pattern = \"random\" }]\n";
    let experiment = Experiment::parse("t.toml", text).expect("sound");
    let missing = place.path().join("missing");
    for (target, problem) in [
        (format!("file:{}", missing.join("x.img").display()), "there is no folder"),
        (format!("nbd+unix:///x?socket={}", missing.display()), "check that its server runs"),
    ] {
        let out = place.path().join("out");
        let request = Request { targets: vec![target], ..Request::default() };
        let begun = run(&experiment, text, request, &out, &AtomicBool::new(false), &mut Deaf);
        let words = begun.expect_err("refused").to_string();
        assert!(words.contains(problem) && !out.exists(), "{words}");
    }
}

/// An export of zeros.
struct Server {
    uri: String,
    /// Requests to write get EIO.
    fails: Arc<AtomicBool>,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(read_only: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let fails = Arc::new(AtomicBool::new(true));
        let told = Arc::clone(&fails);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let told = Arc::clone(&told);
                // The thread ends when its client disconnects.
                std::thread::spawn(move || serve(stream, read_only, &told));
            }
        });
        Self { uri: format!("nbd+unix:///?socket={}", socket.display()), fails, _folder: folder }
    }
}

/// Fixed newstyle with only `NBD_OPT_EXPORT_NAME`, and simple replies.
fn serve(mut stream: UnixStream, read_only: bool, fails: &AtomicBool) -> Option<()> {
    // Has flags, flush, FUA, trim; read-only on demand.
    let flags: u16 = 1 | u16::from(read_only) << 1 | 1 << 2 | 1 << 3 | 1 << 5;
    let mut hello = b"NBDMAGICIHAVEOPT".to_vec();
    hello.extend(3_u16.to_be_bytes());
    stream.write_all(&hello).ok()?;
    let mut number = [0; 4];
    stream.read_exact(&mut number).ok()?;
    let no_zeroes = u32::from_be_bytes(number) & 2 != 0;
    loop {
        let mut option = [0; 16];
        stream.read_exact(&mut option).ok()?;
        let kind = u32::from_be_bytes(option[8..12].try_into().expect("four"));
        let mut data = vec![0; u32::from_be_bytes(option[12..].try_into().expect("four")) as usize];
        stream.read_exact(&mut data).ok()?;
        if kind == 1 {
            break;
        }
        let mut reply = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        reply.extend(kind.to_be_bytes());
        // Not supported.
        reply.extend((1_u32 << 31 | 1).to_be_bytes());
        reply.extend(0_u32.to_be_bytes());
        stream.write_all(&reply).ok()?;
    }
    let mut facts = BYTES.to_be_bytes().to_vec();
    facts.extend(flags.to_be_bytes());
    facts.extend(vec![0; if no_zeroes { 0 } else { 124 }]);
    stream.write_all(&facts).ok()?;
    loop {
        let mut request = [0; 28];
        stream.read_exact(&mut request).ok()?;
        let length = u32::from_be_bytes(request[24..].try_into().expect("four")) as usize;
        let kind = u16::from_be_bytes(request[6..8].try_into().expect("two"));
        if kind == 1 {
            stream.read_exact(&mut vec![0; length]).ok()?;
        }
        if kind == 2 {
            return None;
        }
        let error = if kind == 1 && fails.load(Ordering::Relaxed) { 5_u32 } else { 0 };
        let mut reply = 0x6744_6698_u32.to_be_bytes().to_vec();
        reply.extend(error.to_be_bytes());
        reply.extend(&request[8..16]);
        reply.extend(vec![0; if kind == 0 { length } else { 0 }]);
        stream.write_all(&reply).ok()?;
    }
}

struct Deaf;

impl Progress for Deaf {
    fn at(&mut self, _: &Moment) {}
    fn say(&mut self, _: &Note) {}
}

const HEAD: &str = "name = \"test\"\ntitle = \"T\"\nquestion = \"Q?\"\nalways_scaled = true\n\
    scaled = { seconds = 0.5, span = \"16M\", rounds_max = 6, samples_max = 6, passes_max = 2 }\n";

fn measure(sections: &str, request: Request, out: &Path) -> Result<Manifest, RunError> {
    let text = format!("{HEAD}{sections}");
    let experiment = Experiment::parse("test.toml", &text).expect("sound");
    run(&experiment, &text, request, out, &AtomicBool::new(false), &mut Deaf)
}

fn on(target: &str) -> Request {
    Request { targets: vec![target.into()], size: Some(BYTES), destroy: vec![target.into()], ..Request::default() }
}

const READS_AND_WRITES: &str = "[[section]]\nname = \"s\"\ntest = \"sweep\"\nstate = \"as-found\"\npasses = 2\n\
    load = [{ pattern = \"random\", read_percent = [100, 0], queue_depth = 4 }]\n";
const FILLED: &str = "[[section]]\nname = \"f\"\ntest = \"sweep\"\nstate = \"filled\"\nload = [{ pattern = \"random\" }]\n";

/// Different loads with a result.
fn measured_points(run: &Run) -> usize {
    let results = run.records.iter().filter(|record| !record.preparation && record.failed.is_none());
    results.map(|record| &record.point).collect::<BTreeSet<_>>().len()
}

#[test]
fn loads_whose_requests_fail_are_no_results_and_are_measured_again_when_they_can_be() {
    let (folder, server) = (tempfile::tempdir().expect("a folder"), Server::start(false));
    let out = folder.path().join("run");
    let manifest = measure(&format!("{READS_AND_WRITES}{FILLED}"), on(&server.uri), &out).expect("it begins");
    let there = Run::open(&out).expect("a run");
    assert_eq!(manifest.status, RunStatus::WithFailures, "{:#?}", there.notes);
    let told = |read_percent: u8| {
        let records = there.records.iter().filter(move |record| record.point.read_percent == read_percent && !record.preparation);
        records.map(|record| record.failed.is_some()).collect::<Vec<_>>()
    };
    assert_eq!((told(100), told(0)), (vec![false; 2], vec![true; 2]), "{:#?}", there.records);
    assert_eq!(measured_points(&there), 1, "writes have no result");
    // The preparation of the second section failed, and it ended there.
    assert!(manifest.sections[0].failed.is_none() && manifest.sections[1].failed.is_some());
    let errors =
        there.notes.iter().filter(|note| note.kind == NoteKind::Error).map(|note| note.text.as_str()).collect::<Vec<_>>();
    assert!(errors.iter().any(|text| text.contains("no result of 2 measurements")), "{errors:?}");
    assert!(errors.iter().any(|text| text.contains("was given up")), "{errors:?}");
    let page = stria_lab::report::page(&there).expect("a page");
    assert!(page.contains("ended with failures") && !page.contains("✓ complete"));
    let compared = compare(&out, &out).expect("runs");
    assert!(compared.rows.iter().all(|row| row.point.read_percent == 100) && compared.outcome() == Outcome::Same);

    // The drive works again: failed loads are measured, and earlier results stay.
    server.fails.store(false, Ordering::Relaxed);
    let consent = Consent { destroy: vec![server.uri.clone()], ..Consent::default() };
    assert!(resume(&out, &Consent::default(), &AtomicBool::new(false), &mut Deaf).is_err(), "it writes again");
    let manifest = resume(&out, &consent, &AtomicBool::new(false), &mut Deaf).expect("it goes on");
    let after = Run::open(&out).expect("a run");
    assert_eq!(manifest.status, RunStatus::Done, "{:#?}", after.notes);
    assert!(after.records.iter().all(|record| record.failed.is_none()));
    assert_eq!(measured_points(&after), 3);
    let reads = |run: &Run| {
        run.records
            .iter()
            .filter(|record| record.section.starts_with("1-s") && record.point.read_percent == 100)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(reads(&after), reads(&there));
}

fn refused(sections: &str, request: Request) -> RunError {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let error = measure(sections, request, &out).expect_err(sections);
    assert!(!out.exists(), "nothing began");
    error
}

#[test]
fn what_cannot_be_written_or_has_no_room_does_not_begin() {
    let server = Server::start(true);
    let words = refused(READS_AND_WRITES, on(&server.uri)).to_string();
    assert!(words.contains("read-only") && words.contains(&server.uri), "{words}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.img");
    let target = format!("file:{}", file.display());
    let request = Request { size: Some(1 << 55), ..on(&target) };
    let text = READS_AND_WRITES;
    let unscaled = |text: &str| {
        let text = format!("name = \"t\"\ntitle = \"T\"\nquestion = \"?\"\n{text}");
        let experiment = Experiment::parse("t.toml", &text).expect("sound");
        run(&experiment, &text, request.clone(), &folder.path().join("run"), &AtomicBool::new(false), &mut Deaf)
    };
    let words = unscaled(text).expect_err("no room").to_string();
    assert!(words.contains("left") && words.contains("32 PiB") && !file.exists(), "{words}");
    let words = refused(text, on(&format!("file:{}/none/x.img", folder.path().display()))).to_string();
    assert!(words.contains("none") || words.contains("x.img"), "{words}");
    for odd in ["a;b", "a#b", "a\nb", "$HOME", "a\"b"] {
        let target = format!("file:{}/{odd}", folder.path().display());
        let words = refused(text, on(&target)).to_string();
        assert!(words.contains("plain name"), "{odd}: {words}");
    }
    for special in ["/dev/null", "/dev/full", "/tmp"] {
        assert!(refused(text, on(&format!("file:{special}"))).to_string().contains("not a plain file"), "{special}");
    }
}

#[test]
fn what_does_not_apply_to_any_target_does_not_begin() {
    let server = Server::start(false);
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("file:{}", folder.path().join("x.img").display());
    let raid = "[[section]]\nname = \"life\"\ntest = \"raid\"\nload = [{ pattern = \"random\" }]\n";
    let with = |load: &str| format!("[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{{ pattern = \"random\", {load} }}]\n");
    for (sections, target, wanted) in [
        (raid.to_owned(), &file, "array:5:4"),
        (format!("{READS_AND_WRITES}{raid}"), &file, "\"life\" can measure nothing"),
        (with("mode = \"sparse\""), &server.uri, "only a file of this machine is sparse"),
        (with("mode = [\"cached\", \"write_through\"]"), &server.uri, "no page cache"),
        (with("fio = { ioengine = \"libaio\" }"), &server.uri, "nbd engine"),
    ] {
        let error = refused(&sections, on(target));
        assert!(matches!(error, RunError::Target(TargetError::Usage(_))) && error.to_string().contains(wanted), "{error}");
    }
    assert!(!folder.path().join("x.img").exists());
}

#[test]
fn two_runs_do_not_measure_one_target_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.img");
    std::fs::write(&file, vec![1; BYTES as usize]).expect("a file");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let (started, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let name = file.display().to_string();
    std::thread::scope(|scope| {
        let out = folder.path().join("first");
        struct Tell<'a>(&'a AtomicBool);
        impl Progress for Tell<'_> {
            fn at(&mut self, _: &Moment) {
                self.0.store(true, Ordering::Relaxed);
            }
            fn say(&mut self, _: &Note) {}
        }
        let (name, started, stop) = (&name, &started, &stop);
        let first = scope.spawn(move || {
            let text = format!("{HEAD}{}", READS_AND_WRITES.replace("passes = 2", "passes = 2\nseconds = 600"));
            let experiment = Experiment::parse("test.toml", &text).expect("sound");
            run(&experiment, &text, on(name), &out, stop, &mut Tell(started)).expect("it begins")
        });
        while !started.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        for other in [name.clone(), link.display().to_string()] {
            let words = refused(READS_AND_WRITES, on(&other)).to_string();
            assert!(words.contains("another run"), "{words}");
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(first.join().expect("no panic").status, RunStatus::Interrupted);
    });
    let out: PathBuf = folder.path().join("second");
    assert_eq!(measure(READS_AND_WRITES, on(&name), &out).expect("free again").status, RunStatus::Done);
}

#[test]
fn images_that_another_program_serves_are_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let drives: Vec<PathBuf> = (0..4).map(|at| folder.path().join(format!("drive{at}.img"))).collect();
    drives.iter().for_each(|drive| std::fs::write(drive, vec![7; BYTES as usize]).expect("a file"));
    // As stria serve does.
    let served = std::fs::File::open(&drives[1]).expect("there");
    served.lock().expect("free");
    let destroy: Vec<String> = drives.iter().map(|drive| drive.display().to_string()).collect();
    let pool = Request { pool: Some(folder.path().into()), drive_bytes: Some(BYTES), ..Request::default() };
    let named = Request { drives: drives.clone(), ..Request::default() };
    for request in [pool, named] {
        for target in ["array:5:4:64K", "array:10:4", "members:4"] {
            let request = Request { targets: vec![target.into()], destroy: destroy.clone(), ..request.clone() };
            let words = refused(READS_AND_WRITES, request).to_string();
            assert!(words.contains("drive1.img") && words.contains("served by another program"), "{target}: {words}");
            for drive in &drives {
                assert!(std::fs::read(drive).expect("there").iter().all(|byte| *byte == 7), "{target}");
            }
        }
    }
    drop(served);
    let request = Request { targets: vec!["members:2".into()], pool: Some(folder.path().into()), ..Request::default() };
    let request = Request { drive_bytes: Some(BYTES), destroy, ..request };
    assert_eq!(measure(READS_AND_WRITES, request, &folder.path().join("run")).expect("free").status, RunStatus::Done);
}

#[test]
fn the_three_states_have_three_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = format!("file:{}", folder.path().join("x.img").display());
    let section = |state: &str| {
        format!(
            "[[section]]\nname = \"{state}\"\ntest = \"sweep\"\nstate = \"{state}\"\nload = [{{ pattern = \"random\", block = \"64K\" }}]\n"
        )
    };
    let out = folder.path().join("run");
    let all = ["fresh", "filled", "used"].map(section).concat();
    measure(&all, Request { destroy: vec![], ..on(&target) }, &out).expect("done");
    let run = Run::open(&out).expect("a run");
    assert_eq!(measured_points(&run), 3, "no two are repeats of one thing");
    // The one fill of `filled` was recorded as one of `used`.
    let fills: Vec<_> = run.records.iter().filter(|record| record.preparation).map(|record| record.point.drive_state).collect();
    assert_eq!(fills, [DriveState::Filled, DriveState::Used, DriveState::Used]);
    let page = stria_lab::report::page(&run).expect("a page");
    assert!(
        ["QD\u{a0}1, fresh", "QD\u{a0}1, filled", "QD\u{a0}1, used"]
            .iter()
            .all(|words| page.contains(words) || page.contains(&words.replace('\u{a0}', " ")))
    );
}

/// Reads before, between and after writes: the failed ones are in a state to which the target does not return.
#[test]
fn a_failed_load_of_an_earlier_state_is_not_skipped_when_the_run_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.img");
    std::fs::write(&file, vec![1; BYTES as usize]).expect("a file");
    let (name, out) = (file.display().to_string(), folder.path().join("run"));
    let states = "[[section]]\nname = \"t\"\ntest = \"states\"\nidle = 1\nload = [{ pattern = \"random\", read_percent = 0 }]\n";
    let last = states.replace("name = \"t\"", "name = \"u\"");
    assert_eq!(measure(&format!("{states}{last}"), on(&name), &out).expect("it begins").status, RunStatus::Done);
    // As if it had failed in the fresh state of the first section, and in the last state of the second.
    let records = |edit: &dyn Fn(usize, &mut serde_json::Value)| {
        let text = std::fs::read_to_string(out.join("records.jsonl")).expect("records");
        let mut lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        lines.iter_mut().enumerate().for_each(|(at, line)| edit(at, line));
        std::fs::write(out.join("records.jsonl"), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .expect("written");
        lines.len()
    };
    let count = records(&|_, _| {});
    assert_eq!(count, 2 * 6, "two fills and four states");
    records(&|at, line| {
        if at == 0 || at == count - 1 {
            line["failed"] = "1 requests failed".into();
        }
    });
    let path = out.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
    manifest["status"] = serde_json::to_value(RunStatus::WithFailures).expect("JSON");
    std::fs::write(&path, manifest.to_string()).expect("written");

    let consent = Consent { destroy: vec![name], ..Consent::default() };
    let manifest = resume(&out, &consent, &AtomicBool::new(false), &mut Deaf).expect("it goes on");
    let run = Run::open(&out).expect("a run");
    assert_eq!(manifest.status, RunStatus::Done, "{:#?}", run.notes);
    let again = |section: &str| {
        let of = run.records.iter().filter(|record| record.section.starts_with(section));
        of.map(|record| record.begun_ms >= manifest.resumed_ms[0]).collect::<Vec<_>>()
    };
    assert_eq!(again("1-t"), [true; 6], "all of the section: {:#?}", run.notes);
    assert_eq!(again("2-u"), [false, false, false, false, false, true], "the last state is still there");
    assert!(run.notes.iter().any(|note| note.text.contains("the section begins again")), "{:#?}", run.notes);
}

/// An export has no purge, so it is overwritten; the measured part begins after a quarter and ends after three.
#[test]
fn a_purge_by_overwriting_covers_all_of_the_target() {
    let (folder, server) = (tempfile::tempdir().expect("a folder"), Server::start(false));
    server.fails.store(false, Ordering::Relaxed);
    let section =
        "[[section]]\nname = \"s\"\ntest = \"sweep\"\nstate = \"fresh\"\nseconds = 1\nload = [{ pattern = \"random\" }]\n";
    let part = Part { offset: Some(Amount::Percent(25.0)), share: Some(Amount::Bytes(8 << 20)) };
    for (trial, wanted) in [(false, "size=16777216"), (true, "size=12582912")] {
        let text = format!("name = \"t\"\ntitle = \"T\"\nquestion = \"?\"\nalways_scaled = {trial}\n{section}");
        let experiment = Experiment::parse("t.toml", &text).expect("sound");
        let out = folder.path().join(format!("run-{trial}"));
        let request = Request { part, ..on(&server.uri) };
        let manifest = run(&experiment, &text, request, &out, &AtomicBool::new(false), &mut Deaf).expect("it begins");
        assert_eq!(manifest.status, RunStatus::Done, "{:#?}", Run::open(&out).expect("a run").notes);
        let job = std::fs::read_to_string(out.join("raw/purge.fio")).expect("a job");
        assert!(job.lines().any(|line| line == wanted) && !job.contains("offset="), "{trial}: {job}");
    }
}

/// A `stria` that serves nothing itself: its array is this test's export, and its status is a file.
struct Played {
    folder: tempfile::TempDir,
    server: Server,
}

impl Played {
    fn start(status: &str) -> Self {
        let played = Self { folder: tempfile::tempdir().expect("a folder"), server: Server::start(false) };
        played.server.fails.store(false, Ordering::Relaxed);
        let script = "#!/bin/sh\ncd '@' || exit 1\ncase $1 in\nserve) echo 'nbd lab %'; echo 'control x'; : > serves\n\
            while [ -e serves ]; do sleep 0.05; done;;\nstop) rm -f serves;;\n--json) cat status;;\nesac\n";
        let folder = played.folder.path().display().to_string();
        stria_testkit::script(&played.program(), &script.replace('@', &folder).replace('%', &played.server.uri));
        played.says(status);
        played
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("stria")
    }

    fn says(&self, status: &str) {
        let next = self.folder.path().join("next");
        let head = format!("\"size_bytes\": {BYTES}, \"strip_bytes\": 65536, \"uuid\": \"1:2:3:4\"");
        std::fs::write(&next, format!("[{{{head}, {status}}}]")).expect("written");
        std::fs::rename(next, self.folder.path().join("status")).expect("written");
    }

    fn request(&self) -> Request {
        Request {
            targets: vec!["array:5:3".into()],
            pool: Some(self.folder.path().join("pool")),
            drive_bytes: Some(BYTES),
            program: self.program(),
            ..Request::default()
        }
    }
}

const WHOLE: &str = r#""health": "optimal", "members": [{"role": "in sync"}], "missing_slots": [], "headline": "optimal""#;
const LOST: [&str; 2] = [
    r#""health": "degraded", "members": [{"role": "failed"}], "missing_slots": [2], "headline": "DEGRADED: slot 2 missing""#,
    // A spare took the slot, and the rebuild ran beside the load.
    r#""health": "optimal", "missing_slots": [], "headline": "DEGRADED: slot 2 missing", "spans": [{"members": [{"role": "rebuilding"}]}]"#,
];

/// Changes the status of the array after the first record, at that call of `at`.
struct Loses<'a> {
    played: &'a Played,
    status: &'a str,
    out: &'a Path,
    at_call: u32,
    calls: u32,
}

impl Progress for Loses<'_> {
    fn at(&mut self, _: &Moment) {
        let text = std::fs::read_to_string(self.out.join("records.jsonl")).unwrap_or_default();
        self.calls += u32::from(text.lines().count() > 0);
        if self.calls == self.at_call {
            self.played.says(self.status);
        }
    }
    fn say(&mut self, _: &Note) {}
}

#[test]
fn an_array_that_loses_a_member_in_mid_run_is_not_measured_as_a_whole_one() {
    let reads = "[[section]]\nname = \"s\"\ntest = \"sweep\"\nstate = \"as-found\"\nload = [{ pattern = \"random\", block = [\"4K\", \"8K\", \"16K\"] }]\n";
    let text = format!("{HEAD}{reads}");
    let experiment = Experiment::parse("test.toml", &text).expect("sound");
    for status in LOST {
        // Between two measurements: none is begun. Within the second: it is no result.
        for (at_call, stored) in [(1, vec![false]), (3, vec![false, true])] {
            let played = Played::start(WHOLE);
            let out = played.folder.path().join("run");
            let mut progress = Loses { played: &played, status, out: &out, at_call, calls: 0 };
            let manifest =
                run(&experiment, &text, played.request(), &out, &AtomicBool::new(false), &mut progress).expect("it begins");
            let run = Run::open(&out).expect("a run");
            assert_eq!(manifest.status, RunStatus::WithFailures, "{:#?}", run.notes);
            assert_eq!(run.records.iter().map(|record| record.failed.is_some()).collect::<Vec<_>>(), stored, "{:#?}", run.notes);
            let words = manifest.sections[0].failed.as_deref().expect("given up");
            assert!(words.contains("1 slot without a member in sync (DEGRADED: slot 2 missing)"), "{words}");
        }
    }
}

#[test]
fn a_first_resync_that_cannot_end_is_not_waited_for() {
    let spare = r#""health": "failed", "members": [{"role": "spare"}], "missing_slots": [0, 2], "headline": "FAILED: slots 0, 2 missing""#;
    let played = Played::start(spare);
    let out = played.folder.path().join("run");
    let (sender, ended) = std::sync::mpsc::channel();
    let (request, to) = (played.request(), out.clone());
    std::thread::spawn(move || {
        // After the time limit nothing receives it.
        let _ = sender.send(measure(READS_AND_WRITES, request, &to));
    });
    let manifest = ended.recv_timeout(std::time::Duration::from_secs(100)).expect("it ends").expect("it begins");
    let run = Run::open(&out).expect("a run");
    assert_eq!((manifest.status, run.records.len()), (RunStatus::Failed, 0));
    assert!(run.notes.iter().any(|note| note.text.contains("the first resync cannot end: FAILED")), "{:#?}", run.notes);
}
