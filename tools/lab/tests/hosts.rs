//! Goal: a run on other hosts neither touches nor watches paths of this machine, and overwrites nothing there that was not named.
//! Method: `fio --server` of this machine, which reaches the host's file under another name, and an `ssh` that never connects.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use stria_lab::experiment::Experiment;
use stria_lab::fio::Host;
use stria_lab::result::{Manifest, Note, NoteKind, Run, RunStatus};
use stria_lab::run::{Moment, Progress, Request, RunError, run};
use stria_lab::target::TargetError;

const BYTES: u64 = 16 << 20;

struct Deaf;

impl Progress for Deaf {
    fn at(&mut self, _: &Moment) {}
    fn say(&mut self, _: &Note) {}
}

/// `fio --server`, ended when dropped.
struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
        let name = format!("127.0.0.1,{port}");
        let child = Command::new("fio").arg(format!("--server={name}")).spawn().expect("fio");
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "nothing listens on port {port}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self(child, name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const HEAD: &str = "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\nalways_scaled = true\n\
    scaled = { seconds = 0.5, span = \"16M\", rounds_max = 6, samples_max = 6, passes_max = 1 }\n";

fn measure(sections: &str, request: Request, out: &Path) -> Result<Manifest, RunError> {
    let text = format!("{HEAD}{sections}");
    let experiment = Experiment::parse("t.toml", &text).expect("sound");
    run(&experiment, &text, request, out, &AtomicBool::new(false), &mut Deaf)
}

const LOAD: &str = "load = [{ pattern = \"random\", read_percent = 0, queue_depth = 4 }]\n";

fn section(test: &str, load: &str) -> String {
    format!("[[section]]\nname = \"s\"\ntest = \"{test}\"\n{load}")
}

#[test]
fn a_file_on_hosts_is_not_overwritten_without_being_named_although_none_is_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("elsewhere.img");
    let here = folder.path().join("here");
    std::os::unix::fs::symlink(&file, &here).expect("a link");
    let name = file.display().to_string();
    let out = folder.path().join("run");
    for state in ["as-found", "fresh", "used"] {
        for (target, destroy) in [
            (format!("file:{name}"), Vec::new()),
            (format!("dir:{}", folder.path().display()), Vec::new()),
            // A link of this machine does not name a file of another.
            (format!("file:{name}"), vec![here.display().to_string()]),
        ] {
            let request = Request {
                targets: vec![target.clone()],
                size: Some(BYTES),
                hosts: vec![Host::parse("nowhere.invalid")],
                destroy,
                ..Request::default()
            };
            let error = measure(&section("sweep", &format!("state = \"{state}\"\n{LOAD}")), request, &out).expect_err(&target);
            let is_unsafe = matches!(&error, RunError::Target(TargetError::Unsafe(words)) if words.contains("--destroy"));
            assert!(is_unsafe && !out.exists(), "{state}, {target}: {error}");
        }
    }
}

fn request(file: &Path, there: &Path, host: &str) -> Request {
    let host = Host::parse(&format!("{host}={}", there.display()));
    let name = file.display().to_string();
    Request {
        targets: vec![format!("file:{name}")],
        size: Some(BYTES),
        destroy: vec![name, host.to_string()],
        hosts: vec![host],
        ..Request::default()
    }
}

fn files(folder: &Path) -> (PathBuf, PathBuf) {
    let (here, there) = (folder.join("here.img"), folder.join("there.img"));
    [&here, &there].iter().for_each(|file| std::fs::write(file, vec![7; BYTES as usize]).expect("a file"));
    (here, there)
}

#[test]
fn states_on_hosts_leave_the_file_of_that_name_here_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = files(folder.path());
    let server = Server::start();
    let out = folder.path().join("run");
    let manifest = measure(&section("states", &format!("idle = 1\n{LOAD}")), request(&here, &there, &server.1), &out);
    let run = Run::open(&out).expect("a run");
    assert_eq!(manifest.expect("it begins").status, RunStatus::Done, "{:#?}", run.notes);
    let metadata = std::fs::metadata(&here).expect("there");
    assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 >= BYTES, "no hole was made");
    assert!(std::fs::read(&here).expect("there").iter().all(|byte| *byte == 7));
    assert!(std::fs::read(&there).expect("there").iter().any(|byte| *byte != 7), "the host's file is measured");
    for record in &run.records {
        assert!(record.members.is_empty(), "nothing of this machine is watched: {:?}", record.members);
        assert!(!record.extra.contains_key("reclaimed_bytes"), "{:?}", record.extra);
    }
    assert!(run.notes.iter().any(|note| note.kind == NoteKind::Fallback && note.text.contains("discards")), "{:#?}", run.notes);
}

#[test]
fn sparse_files_are_refused_on_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = files(folder.path());
    let sparse = |modes: &str| LOAD.replace("queue_depth", &format!("mode = {modes}, queue_depth"));
    let out = folder.path().join("run");
    let error =
        measure(&section("sweep", &format!("state = \"as-found\"\n{}", sparse("\"sparse\""))), request(&here, &there, "x"), &out);
    let words = error.expect_err("refused").to_string();
    assert!(words.contains("only a file of this machine is sparse") && !out.exists(), "{words}");
    // Beside others it is left out.
    let server = Server::start();
    let both = section("sweep", &format!("state = \"as-found\"\n{}", sparse("[\"sparse\", \"direct\"]")));
    let manifest = measure(&both, request(&here, &there, &server.1), &out).expect("it begins");
    let run = Run::open(&out).expect("a run");
    assert_eq!((manifest.status, run.records.len()), (RunStatus::Done, 1), "{:#?}", run.notes);
    assert!(run.notes.iter().any(|note| note.text.contains("Sparse is left out")), "{:#?}", run.notes);
    assert!(std::fs::read(&here).expect("there").iter().all(|byte| *byte == 7));
}
