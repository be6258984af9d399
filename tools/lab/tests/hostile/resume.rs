//! Untrusted folders that are resumed, used for a replay, or reported.

use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stria_lab::experiment::Experiment;
use stria_lab::fio::{Host, Place};
use stria_lab::result::{Manifest, Note, RunStatus};
use stria_lab::run::{Consent, Moment, Progress, Request, RunError, resume, run};
use stria_lab::target::TargetError;
use stria_lab::{export, report};

pub struct Deaf;

impl Progress for Deaf {
    fn at(&mut self, _: &Moment) {}
    fn say(&mut self, _: &Note) {}
}

/// Stops as soon as the run has its folder.
struct Stop<'a>(&'a AtomicBool);

impl Progress for Stop<'_> {
    fn at(&mut self, _: &Moment) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn say(&mut self, _: &Note) {}
}

const TEXT: &str = "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\nalways_scaled = true\n\
    scaled = { seconds = 0.5, span = \"8M\", passes_max = 1 }\n[[section]]\nname = \"s\"\ntest = \"sweep\"\n\
    load = [{ pattern = \"random\", read_percent = 0 }]\n";

/// The folder of a run on `x.img` in a folder, interrupted before it measured anything.
pub fn interrupted(within: &Path) -> PathBuf {
    let experiment = Experiment::parse("t.toml", TEXT).expect("sound");
    let target = format!("file:{}", within.join("x.img").display());
    let request = Request { targets: vec![target], size: Some(8 << 20), ..Request::default() };
    let (out, stop) = (within.join("run"), AtomicBool::new(false));
    let manifest = run(&experiment, TEXT, request, &out, &stop, &mut Stop(&stop)).expect("it begins");
    assert_eq!(manifest.status, RunStatus::Interrupted);
    out
}

fn go_on(folder: &Path, consent: &Consent) -> Result<Manifest, RunError> {
    resume(folder, consent, &AtomicBool::new(false), &mut Deaf)
}

fn edit(folder: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(name);
    let mut value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
    change(&mut value);
    std::fs::write(path, value.to_string()).expect("written");
}

fn is_unsafe(result: &Result<Manifest, RunError>) -> bool {
    matches!(result, Err(RunError::Target(TargetError::Unsafe(_))))
}

#[test]
fn a_run_goes_on_with_what_it_made_and_removes_it_in_the_end() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    assert!(place.path().join("x.img").exists());
    let request: Value = serde_json::from_slice(&std::fs::read(folder.join("request.json")).expect("there")).expect("JSON");
    assert!(["destroy", "program", "made", "sockets"].iter().all(|key| request.get(key).is_none()), "{request}");
    assert_eq!(go_on(&folder, &Consent::default()).expect("done").status, RunStatus::Done);
    assert!(!place.path().join("x.img").exists());
}

#[test]
fn a_folder_does_not_say_what_may_be_overwritten_or_removed() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let precious = place.path().join("precious");
    std::fs::create_dir_all(precious.join("deep")).expect("a folder");
    let image = precious.join("deep/data.img");
    std::fs::write(&image, vec![7; 8 << 20]).expect("a file");
    let name = image.display().to_string();
    edit(&folder, "request.json", |request| {
        request["targets"] = json!([format!("file:{name}")]);
        request["destroy"] = json!([name]);
        request["made"] = json!([name, place.path().join("x.img")]);
        request["sockets"] = json!(precious);
        request["program"] = json!("/bin/false");
    });
    edit(&folder, "manifest.json", |manifest| {
        let id = manifest["sections"][0]["id"]
            .as_str()
            .expect("a name")
            .replace(&place.path().join("x.img").display().to_string(), &name);
        manifest["sections"][0]["id"] = json!(id);
        manifest["sections"][0]["target"] = json!(name);
    });
    let refused = go_on(&folder, &Consent::default());
    assert!(is_unsafe(&refused), "{refused:?}");
    assert!(refused.expect_err("refused").to_string().contains(&format!("--destroy {name}")));
    assert!(std::fs::read(&image).expect("there").iter().all(|byte| *byte == 7));
    // With the user's consent it is measured; neither it nor the folder named for sockets is removed.
    let consent = Consent { destroy: vec![name], ..Consent::default() };
    assert_eq!(go_on(&folder, &consent).expect("done").status, RunStatus::Done);
    assert!(image.exists() && precious.exists());
}

#[test]
fn another_file_in_the_place_of_the_one_that_was_made_is_not_the_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let image = place.path().join("x.img");
    std::fs::rename(&image, place.path().join("away")).expect("moved");
    std::fs::write(&image, vec![7; 8 << 20]).expect("a file");
    assert!(is_unsafe(&go_on(&folder, &Consent::default())));
    std::fs::remove_file(&image).expect("mine");
    std::fs::write(place.path().join("precious"), vec![7; 8 << 20]).expect("a file");
    symlink(place.path().join("precious"), &image).expect("a link");
    assert!(is_unsafe(&go_on(&folder, &Consent::default())));
    // A hard link to something else, and a copy of the folder, own nothing either.
    std::fs::remove_file(&image).expect("mine");
    std::fs::hard_link(place.path().join("precious"), &image).expect("a link");
    assert!(is_unsafe(&go_on(&folder, &Consent::default())));
    assert!(std::fs::read(place.path().join("precious")).expect("there").iter().all(|byte| *byte == 7));
}

#[test]
fn drives_programs_and_hosts_of_a_folder_are_used_only_when_the_user_says_them() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let drives: Vec<PathBuf> = (0..3).map(|at| place.path().join(format!("d{at}"))).collect();
    drives.iter().for_each(|drive| std::fs::write(drive, vec![7; 16 << 20]).expect("a file"));
    let ran = place.path().join("ran");
    let program = place.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).expect("a script");
    std::process::Command::new("chmod").arg("+x").arg(&program).status().expect("chmod");
    edit(&folder, "request.json", |request| {
        request["targets"] = json!(["array:5:3"]);
        request["drives"] = json!(drives);
        request["program"] = json!(program);
        request["destroy"] = json!(drives);
    });
    edit(&folder, "manifest.json", |manifest| {
        manifest["sections"][0]["id"] = json!("1-s/RAID 5 of 3");
        manifest["sections"][0]["target"] = json!("RAID 5 of 3");
    });
    let refused = go_on(&folder, &Consent::default());
    assert!(is_unsafe(&refused) && !ran.exists(), "{refused:?}");
    for drive in &drives {
        assert!(std::fs::read(drive).expect("there").iter().all(|byte| *byte == 7));
    }
    for name in ["evil.example", "-oProxyCommand=touch /tmp/x"] {
        edit(&folder, "request.json", |request| request["hosts"] = json!([{"name": name, "place": null}]));
        assert!(is_unsafe(&go_on(&folder, &Consent::default())), "{name}");
    }
    // Not even with consent: it is not the name of a machine.
    let hosts = [Host::parse("-oProxyCommand"), Host::parse("a b"), Host::parse("a;b"), Host::parse("")];
    assert!(hosts.iter().all(|host| host.check().is_err()));
}

#[test]
fn nothing_is_written_through_links_of_a_folder() {
    for (name, is_folder) in [
        ("records.jsonl", false),
        ("lock", false),
        ("raw/00000.json", false),
        ("series/00000_bw.log", false),
        ("raw", true),
        ("report.html", false),
    ] {
        let place = tempfile::tempdir().expect("a folder");
        let folder = interrupted(place.path());
        let precious = place.path().join("precious");
        let path = folder.join(name);
        if is_folder {
            std::fs::create_dir(&precious).expect("a folder");
            std::fs::remove_dir_all(&path).expect("mine");
        } else {
            std::fs::write(&precious, "mine").expect("a file");
            let _ = std::fs::remove_file(&path);
        }
        symlink(&precious, &path).expect("a link");
        let words = go_on(&folder, &Consent::default()).expect_err(name).to_string();
        assert!(words.contains("link") || words.contains("not a folder"), "{name}: {words}");
        if is_folder {
            assert_eq!(std::fs::read_dir(&precious).expect("there").count(), 0, "{name}");
        } else {
            assert_eq!(std::fs::read(&precious).expect("there"), b"mine", "{name}");
        }
    }
    // A report replaces a link, and does not change the link's target.
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let precious = place.path().join("precious");
    std::fs::write(&precious, "mine").expect("a file");
    symlink(&precious, folder.join("report.html")).expect("a link");
    stria_lab::report::write(&folder, &folder.join("report.html")).expect("a page");
    assert_eq!(std::fs::read(&precious).expect("there"), b"mine");
    assert!(folder.join("report.html").symlink_metadata().expect("there").is_file());
}

#[test]
fn tables_pages_and_charts_replace_links_and_pipes_of_a_folder_and_enter_no_linked_folder() {
    type Output = fn(&Path, &Path) -> Result<Vec<PathBuf>, String>;
    fn only(folder: &Path) -> Vec<PathBuf> {
        vec![folder.to_path_buf()]
    }
    let outputs: [(&str, Output); 4] = [
        ("csv", |from, out| export::csv(&only(from), out).map_err(|error| error.to_string())),
        ("parquet", |from, out| export::parquet(&only(from), out).map_err(|error| error.to_string())),
        ("ods", |from, out| export::ods(&only(from), out).map_err(|error| error.to_string())),
        ("charts", |from, out| {
            report::write_charts(&only(from), out, report::Charts::default()).map_err(|error| error.to_string())
        }),
    ];
    for (name, write) in outputs {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("run");
        crate::fuzz::run(&folder);
        let files = write(&folder, &place.path().join("plain")).expect("written");
        let files: Vec<PathBuf> = files.iter().map(|file| file.file_name().expect("a name").into()).collect();
        assert!(!files.is_empty(), "{name}");
        let (precious, elsewhere) = (place.path().join("precious"), place.path().join("elsewhere"));
        std::fs::write(&precious, "mine").expect("a file");
        std::fs::create_dir(&elsewhere).expect("a folder");
        let out = folder.join(name);
        // The folder is a link.
        symlink(&elsewhere, &out).expect("a link");
        let refused = write(&folder, &out);
        assert_eq!(std::fs::read_dir(&elsewhere).expect("there").count(), 0, "{name}");
        let words = refused.expect_err(name);
        assert!(words.contains("is a link in a run's folder") && words.contains("name another folder"), "{words}");
        std::fs::remove_file(&out).and_then(|()| std::fs::create_dir(&out)).expect("a folder");
        // Its files are links.
        files.iter().for_each(|file| symlink(&precious, out.join(file)).expect("a link"));
        write(&folder, &out).expect("written");
        assert_eq!(std::fs::read(&precious).expect("there"), b"mine", "{name}");
        for file in files {
            let now = out.join(&file).symlink_metadata().expect("there");
            assert!(now.is_file() && now.permissions().mode() & 0o777 == 0o644, "{}", file.display());
        }
    }
    // A pipe with the page's name would wait for a reader.
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let page = folder.join("report.html");
    let made = std::process::Command::new("mkfifo").arg(&page).status().expect("mkfifo");
    assert!(made.success());
    let (send, ends) = std::sync::mpsc::channel();
    let there = folder.clone();
    std::thread::spawn(move || send.send(report::write(&there, &there.join("report.html")).map_err(|error| error.to_string())));
    ends.recv_timeout(std::time::Duration::from_secs(30)).expect("it ends").expect("a page");
    assert!(page.symlink_metadata().expect("there").is_file());
    // Elsewhere a name is followed: the user gave it.
    let (given, link) = (place.path().join("given.html"), place.path().join("link.html"));
    std::fs::write(&given, "").expect("a file");
    symlink(&given, &link).expect("a link");
    report::write(&folder, &link).expect("a page");
    assert!(link.symlink_metadata().expect("there").is_symlink() && std::fs::metadata(&given).expect("there").len() > 0);
}

#[test]
fn sections_that_are_not_the_experiments_are_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    for sections in [json!([]), json!(null)] {
        let there = std::fs::read(folder.join("manifest.json")).expect("there");
        edit(&folder, "manifest.json", |manifest| manifest["sections"] = sections);
        assert!(go_on(&folder, &Consent::default()).is_err());
        std::fs::write(folder.join("manifest.json"), there).expect("written");
    }
    let text = std::fs::read_to_string(folder.join("experiment.toml")).expect("there");
    let evil = text.replace("read_percent = 0", "read_percent = 0, fio = { ioengine = \"exec\", program = \"/bin/sh\" }");
    std::fs::write(folder.join("experiment.toml"), evil).expect("written");
    assert!(go_on(&folder, &Consent::default()).expect_err("refused").to_string().contains("LAB.md"));
}

#[test]
fn a_file_that_the_run_did_not_make_keeps_its_size_unless_it_is_named() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let reads =
        std::fs::read_to_string(folder.join("experiment.toml")).expect("there").replace("read_percent = 0", "read_percent = 100");
    std::fs::write(folder.join("experiment.toml"), reads).expect("written");
    let old = place.path().join("x.img").display().to_string();
    for length in [0, 5, 1 << 20] {
        let precious = place.path().join(format!("precious{length}"));
        std::fs::write(&precious, vec![7; length]).expect("a file");
        let name = precious.display().to_string();
        let manifest = std::fs::read(folder.join("manifest.json")).expect("there");
        edit(&folder, "request.json", |request| request["targets"] = json!([format!("file:{name}")]));
        edit(&folder, "manifest.json", |manifest| {
            let id = manifest["sections"][0]["id"].as_str().expect("a name").replace(&old, &name);
            (manifest["sections"][0]["id"], manifest["sections"][0]["target"]) = (json!(id), json!(name));
        });
        let refused = go_on(&folder, &Consent::default());
        assert!(is_unsafe(&refused), "{length}: {refused:?}");
        assert!(refused.expect_err("refused").to_string().contains(&format!("--destroy {name}")));
        assert_eq!(std::fs::read(&precious).expect("there"), vec![7; length]);
        std::fs::write(folder.join("manifest.json"), manifest).expect("written");
    }
}

/// A folder could have this machine contact any server that it reaches.
#[test]
fn an_export_over_a_network_is_contacted_only_if_the_user_names_it() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    let reads =
        std::fs::read_to_string(folder.join("experiment.toml")).expect("there").replace("read_percent = 0", "read_percent = 100");
    std::fs::write(folder.join("experiment.toml"), reads).expect("written");
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("a socket");
    let old = place.path().join("x.img").display().to_string();
    let port = server.local_addr().expect("bound").port();
    for uri in [format!("nbd://127.0.0.1:{port}/x"), format!("nbds://127.0.0.1:{port}/x"), format!("NBD://127.0.0.1:{port}")] {
        edit(&folder, "request.json", |request| request["targets"] = json!([uri]));
        let manifest = std::fs::read(folder.join("manifest.json")).expect("there");
        edit(&folder, "manifest.json", |manifest| {
            let id = manifest["sections"][0]["id"].as_str().expect("a name").replace(&old, &uri);
            (manifest["sections"][0]["id"], manifest["sections"][0]["target"]) = (json!(id), json!(uri));
        });
        let refused = go_on(&folder, &Consent::default());
        assert!(is_unsafe(&refused) && server.accept().is_err(), "{uri}: {refused:?}");
        assert!(refused.expect_err("refused").to_string().contains(&format!("--target {uri}")));
        std::fs::write(folder.join("manifest.json"), manifest).expect("written");
    }
    let uri = format!("nbd://127.0.0.1:{port}/x");
    edit(&folder, "request.json", |request| request["targets"] = json!([uri]));
    let consent = Consent { targets: vec![uri], ..Consent::default() };
    let refused = go_on(&folder, &consent);
    assert!(refused.is_err() && !is_unsafe(&refused), "it is no server: {refused:?}");
}

/// A folder could have root make a file that other programs obey, with a content that `buffer_pattern` gives.
#[test]
fn a_file_that_only_the_folder_asks_for_is_not_made() {
    for loads in ["read_percent = 0", "read_percent = 100"] {
        let place = tempfile::tempdir().expect("a folder");
        let folder = interrupted(place.path());
        let experiment = std::fs::read_to_string(folder.join("experiment.toml")).expect("there");
        std::fs::write(folder.join("experiment.toml"), experiment.replace("read_percent = 0", loads)).expect("written");
        let (old, new) = (place.path().join("x.img").display().to_string(), place.path().join("obeyed"));
        let name = new.display().to_string();
        for path in ["request.json", "manifest.json"] {
            let text = std::fs::read_to_string(folder.join(path)).expect("there").replace(&old, &name);
            std::fs::write(folder.join(path), text).expect("written");
        }
        let refused = go_on(&folder, &Consent::default());
        assert!(is_unsafe(&refused) && !new.exists(), "{loads}: {refused:?}");
        assert!(refused.expect_err("refused").to_string().contains(&format!("--destroy {name}")));
        // The user may have it made.
        let consent = Consent { destroy: vec![name], ..Consent::default() };
        assert_eq!(go_on(&folder, &consent).expect("done").status, RunStatus::Done);
    }
    // Nor are the images of a pool, and the pool itself.
    let place = tempfile::tempdir().expect("a folder");
    let (folder, pool) = (interrupted(place.path()), place.path().join("pool"));
    edit(&folder, "request.json", |request| {
        (request["targets"], request["pool"]) = (json!(["members:2"]), json!(pool));
        request["drive_bytes"] = json!(8 << 20);
    });
    let request = std::fs::read_to_string(folder.join("request.json")).expect("there");
    let request: Request = serde_json::from_str(&request).expect("sound");
    let experiment = Experiment::parse("t.toml", TEXT).expect("sound");
    let spec = request.target_specs(&experiment).expect("sound").remove(0);
    edit(&folder, "manifest.json", |manifest| {
        (manifest["sections"][0]["id"], manifest["sections"][0]["target"]) =
            (json!(format!("1-s/{}", spec.name)), json!(spec.name));
    });
    let refused = go_on(&folder, &Consent::default());
    assert!(is_unsafe(&refused) && !pool.exists(), "{refused:?}");
}

/// What an interrupted run had not made yet, it makes when it goes on.
#[test]
fn a_file_that_the_user_asked_for_is_made_by_the_resumed_run() {
    let place = tempfile::tempdir().expect("a folder");
    let experiment = Experiment::parse("t.toml", TEXT).expect("sound");
    let files = ["x.img", "y.img"].map(|name| place.path().join(name));
    let targets = files.iter().map(|file| format!("file:{}", file.display())).collect();
    let request = Request { targets, size: Some(8 << 20), ..Request::default() };
    let (out, stop) = (place.path().join("run"), AtomicBool::new(false));
    run(&experiment, TEXT, request, &out, &stop, &mut Stop(&stop)).expect("it begins");
    assert!(files[0].exists() && !files[1].exists());
    assert_eq!(go_on(&out, &Consent::default()).expect("done").status, RunStatus::Done);
    assert!(files.iter().all(|file| !file.exists()));
}

/// A folder may name a pipe as the target of its replay. The program waited for a writer, and no signal ended it.
#[test]
fn a_target_that_is_a_pipe_is_refused_at_once() {
    let place = tempfile::tempdir().expect("a folder");
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let words = stria_lab::replay::size_of(&Place::Path(pipe)).expect_err("no target").to_string();
    assert!(words.contains("neither a file nor a block device"), "{words}");
}

#[test]
fn a_part_beyond_all_numbers_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    for (offset, share) in [(u64::MAX, 16_u64 << 20), (1 << 60, 1 << 20), (0, u64::MAX)] {
        edit(&folder, "request.json", |request| {
            request["part"] = json!({ "offset": { "bytes": offset }, "share": { "bytes": share } });
        });
        assert!(go_on(&folder, &Consent::default()).is_err(), "{share} from {offset} on");
    }
}

#[test]
fn names_that_do_not_print_are_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = interrupted(place.path());
    for name in ["a\u{1b}[2J", "a\nb", "a\u{202e}b"] {
        edit(&folder, "request.json", |request| request["names"] = json!([name]));
        let words = go_on(&folder, &Consent::default()).expect_err("refused").to_string();
        assert!(words.contains("do not print") && !words.contains(name), "{words:?}");
    }
}

#[test]
fn a_file_that_was_replaced_by_nothing_is_made_and_measured_again_from_its_preparation() {
    let place = tempfile::tempdir().expect("a folder");
    let text =
        TEXT.replace("test = \"sweep\"", "test = \"sweep\"\nstate = \"filled\"\npasses = 1").replace("= 0 }", "= [0, 100] }");
    let experiment = Experiment::parse("t.toml", &text).expect("sound");
    let image = place.path().join("x.img");
    let request = Request { targets: vec![format!("file:{}", image.display())], size: Some(8 << 20), ..Request::default() };
    let (out, stop) = (place.path().join("run"), AtomicBool::new(false));
    struct StopAfterTwo<'a>(&'a Path, &'a AtomicBool);
    impl Progress for StopAfterTwo<'_> {
        fn at(&mut self, _: &Moment) {
            let text = std::fs::read_to_string(self.0.join("records.jsonl")).unwrap_or_default();
            self.1.fetch_or(text.lines().count() >= 2, Ordering::Relaxed);
        }
        fn say(&mut self, _: &Note) {}
    }
    let manifest = run(&experiment, &text, request, &out, &stop, &mut StopAfterTwo(&out, &stop)).expect("it begins");
    assert_eq!(manifest.status, RunStatus::Interrupted);
    std::fs::remove_file(&image).expect("there");
    let manifest = go_on(&out, &Consent::default()).expect("done");
    assert_eq!(manifest.status, RunStatus::Done);
    let there = stria_lab::result::Run::open(&out).expect("a run");
    assert_eq!(there.records.iter().filter(|record| record.preparation).count(), 1, "it is filled");
    assert_eq!(there.records.len(), 3);
    assert!(there.records.iter().all(|record| record.begun_ms >= manifest.resumed_ms[0]), "nothing of the old file counts");
}
