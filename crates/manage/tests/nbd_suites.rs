//! Goal: the test programs of other NBD projects find nothing wrong with a served array.
//! Method: nbd-tester-client of nbd and the tests of libnbd, which `scripts/setup test` builds from Debian's sources
//! (tests/nbd-suites), judge arrays of the sizes that they expect.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use stria_testkit::certificates::Authority;
use support::{Place, Serve, may_skip};

/// Where `scripts/setup test` puts the programs. `None`: they are missing, and the environment permits that.
fn suites() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var("HOME").unwrap_or_default()).join(".cache/stria-tools/nbd-suites");
    if folder.join("recipe").exists() {
        return Some(folder);
    }
    may_skip(&format!("{} is missing", folder.display()), "run: scripts/setup test");
    None
}

/// A served array of this size, with clients on its lane or apart.
struct Judged {
    suites: PathBuf,
    place: Place,
    serve: Serve,
}

impl Judged {
    fn new(suites: &Path, level: &str, member: &str, options: &[&str]) -> Self {
        let place = Place::new();
        let images = place.images(if level == "1" { 2 } else { 4 }, 96 << 20);
        let drives: Vec<&str> = images.iter().map(String::as_str).collect();
        place.ok(&[&["create", "tank", "--level", level, "--size", member, "--assume-clean"], &drives[..]].concat());
        let serve = place.serve(&[&drives[..], options].concat());
        Self { suites: suites.to_owned(), place, serve }
    }

    fn socket(&self) -> String {
        self.place.path("nbd.sock").to_str().expect("a plain path").to_owned()
    }

    /// Runs a program of the suites. The tests of libnbd start `nbdkit`, and find certificates in the folder `pki`.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let stand_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/nbd-suites");
        let path = format!("{stand_in}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("timeout");
        command.arg("120").arg(self.suites.join("bin").join(program)).args(arguments);
        command.current_dir(self.place.path(".")).env("PATH", path).env("STRIA_NBD", self.socket());
        command.output().expect("timeout is everywhere")
    }

    fn passes(&self, program: &str, arguments: &[&str]) {
        let output = self.run(program, arguments);
        // nbd-tester-client counts requests on one long line.
        let tail = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.char_indices().rev().nth(2000).map_or(text.clone().into_owned(), |(at, _)| text[at..].to_owned())
        };
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}\n{}\n{}",
            output.status,
            tail(&output.stdout),
            tail(&output.stderr)
        );
    }

    fn tester(&self, options: &[&str]) {
        self.passes("nbd-tester-client", &[&["-u", &self.socket(), "-N", "tank"], options].concat());
    }

    fn end(self) {
        self.place.ok(&["scrub", "tank", "--wait"]);
        self.place.ok(&["stop", "tank"]);
        self.serve.ended_well();
    }
}

/// What the random tests of libnbd expect to read before they write: each word is its own offset.
fn fill_with_offsets(judged: &Judged, size_bytes: u64) {
    let bytes: Vec<u8> = (0..size_bytes).step_by(8).flat_map(u64::to_be_bytes).collect();
    std::fs::write(judged.place.path("offsets"), bytes).expect("a file");
    let [file, socket] = ["offsets", "nbd.sock"].map(|name| judged.place.path(name).display().to_string());
    support::run_tool("nbdcopy", &[&file, &format!("nbd+unix:///tank?socket={socket}")]);
}

fn random_and_single_tests_pass(clients: &str) {
    let Some(suites) = suites() else { return };
    let options = ["--clients", clients];
    std::thread::scope(|scope| {
        // 64 MiB: a RAID 6 with two strips of data.
        scope.spawn(|| {
            let judged = Judged::new(&suites, "6", "32M", &options);
            fill_with_offsets(&judged, 64 << 20);
            judged.passes("aio-parallel", &[&judged.socket()]);
            judged.passes("aio-parallel-load", &[&judged.socket()]);
            // Requests larger than the socket holds.
            judged.passes("shutdown-flags", &[]);
            judged.end();
        });
        // 8 MiB.
        scope.spawn(|| {
            let judged = Judged::new(&suites, "6", "4M", &options);
            fill_with_offsets(&judged, 8 << 20);
            judged.passes("synch-parallel", &[&judged.socket()]);
            for options in [&[][..], &["-w"], &["-w", "-f"], &["-h"], &["-o"]] {
                judged.tester(options);
            }
            judged.end();
        });
        // 60 MiB that read as zeros.
        scope.spawn(|| {
            let judged = Judged::new(&suites, "6", "30M", &options);
            let transactions = suites.join("transactions/integrity-test.tr");
            judged.tester(&["-i", "-t", transactions.to_str().expect("a plain path")]);
            judged.end();
        });
        // 1 MiB.
        scope.spawn(|| {
            let judged = Judged::new(&suites, "1", "1M", &options);
            for test in [
                "errors-bad-cookie",
                "errors-client-unaligned",
                "errors-client-unknown-flags",
                "errors-client-zerosize",
                "errors-connect-twice",
                "errors-not-negotiating",
                "errors-notify-not-blocked",
                "errors-pread-structured",
                "errors-server-invalid-offset",
                "errors-server-unknown-flags",
                "opt-abort",
                "opt-list-meta",
                "pread-initialize",
                "read-write-flag",
            ] {
                judged.passes(test, &[]);
            }
            judged.end();
        });
    });
}

#[test]
fn suites_pass_with_clients_on_the_lane() {
    random_and_single_tests_pass("lane");
}

#[test]
fn suites_pass_with_clients_apart() {
    random_and_single_tests_pass("apart");
}

#[test]
fn suites_see_that_an_export_is_read_only() {
    let Some(suites) = suites() else { return };
    let judged = Judged::new(&suites, "1", "1M", &["--read-only"]);
    judged.passes("read-only-flag", &[]);
    // It expects that its writes fail.
    judged.tester(&["-w", "-F"]);
    judged.place.ok(&["stop", "tank"]);
    judged.serve.ended_well();
}

#[test]
fn suites_pass_over_tls() {
    let Some(suites) = suites() else { return };
    let keys = tempfile::tempdir().expect("a folder");
    let authority = Authority::with_both(keys.path());
    let [certificate, key, ca] =
        ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(|name| authority.file(name).display().to_string());
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port().to_string();
    let address = format!("tcp:127.0.0.1:{port}");
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &ca, "--nbd", &address];
    let with_keys = |judged: &Judged| std::os::unix::fs::symlink(keys.path(), judged.place.path("pki")).expect("a link");

    let judged = Judged::new(&suites, "1", "1M", &tls);
    with_keys(&judged);
    for test in ["connect-tls", "interop-tls-require", "interop-tls-allow"] {
        judged.passes(test, &[]);
    }
    judged.end();

    let judged = Judged::new(&suites, "6", "32M", &tls);
    with_keys(&judged);
    let [certificate, key] = ["client-cert.pem", "client-key.pem"].map(|name| authority.file(name).display().to_string());
    let transactions = suites.join("transactions/integrity-test.tr");
    let tester = |more: &[&str]| {
        let ours = ["127.0.0.1", &port, "-N", "tank", "-H", "localhost"];
        judged.run("nbd-tester-client", &[&ours[..], more, &["-i", "-t", transactions.to_str().expect("plain")]].concat())
    };
    assert!(!tester(&[]).status.success(), "TCP requires TLS");
    let ran = tester(&["-C", &certificate, "-K", &key, "-A", &ca]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr).chars().rev().take(2000).collect::<String>());
    fill_with_offsets(&judged, 64 << 20);
    judged.passes("aio-parallel-tls", &[&judged.socket()]);
    judged.passes("aio-parallel-load-tls", &[&judged.socket()]);
    judged.end();

    // A server without TLS: a client that may go on without it does.
    let judged = Judged::new(&suites, "1", "1M", &[]);
    with_keys(&judged);
    judged.passes("interop-tls-fallback", &[]);
    assert!(!judged.run("interop-tls-require", &[]).status.success());
    judged.end();
}

/// libnbd makes the socket, listens, and starts `stria serve` with it, as systemd does.
#[test]
fn a_suite_hands_its_socket_over() {
    let Some(suites) = suites() else { return };
    let place = Place::new();
    let images = place.images(2, 96 << 20);
    place.ok(&["create", "tank", "--level", "1", "--size", "1M", "--assume-clean", &images[0], &images[1]]);
    let mut command =
        place.command_line("timeout", &["120", suites.join("bin/interop-socket-activation").to_str().expect("plain")]);
    let output =
        command.env("STRIA", support::stria()).env("DRIVE0", &images[0]).env("DRIVE1", &images[1]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("has stopped: clean"), "{log}");
}
