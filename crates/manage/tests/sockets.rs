//! Goal: a socket appears when its array is served, only permitted users can connect, and every end removes it.
//! Method: the real program, started and ended at many moments, with clients that wait only for the file.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stria_testkit::certificates::Authority;
use support::{PATIENCE, Place, contents};

fn mirror(place: &Place) -> Vec<String> {
    let images = place.images(2, 32 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    images
}

fn spawn(place: &Place, images: &[String], nbd: &str, more: &[&str]) -> Child {
    // Also where the tests run under nohup, or in the background of a script: such a shell ignores SIGINT for them.
    let program = ["--default-signal=HUP,INT", env!("CARGO_BIN_EXE_stria")];
    let arguments = [&program[..], &["serve", &images[0], &images[1], "--nbd", nbd], more].concat();
    let mut command = place.command_line("env", &arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Waits until the array is served. Returns the lines up to then.
fn ready(child: &mut Child) -> Vec<String> {
    let mut told = Vec::new();
    for line in BufReader::new(child.stdout.as_mut().expect("a pipe")).lines().map_while(Result::ok) {
        told.push(line);
        if told.last().is_some_and(|line| line.starts_with("control ")) {
            return told;
        }
    }
    panic!("it ended before it served: {told:?}");
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill is everywhere");
    assert!(sent.success());
}

fn end(mut child: Child) -> (std::process::ExitStatus, String) {
    let patience = Instant::now() + PATIENCE;
    while child.try_wait().expect("it is ours").is_none() {
        assert!(Instant::now() < patience, "serve does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ended");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sockets in a folder, hidden ones too.
fn sockets(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(".")).expect("a folder").map(|entry| entry.expect("an entry"));
    let sockets = entries.filter(|entry| entry.file_type().expect("a type").is_socket());
    sockets.map(|entry| entry.file_name().into_string().expect("plain")).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn modes_and_groups_are_as_asked_whatever_the_umask() {
    let place = Place::new();
    let images = mirror(&place);
    let path = place.path("nbd.sock");
    let nbd = format!("unix:{}", path.display());
    let group = std::fs::metadata(place.path(".")).expect("a folder").gid().to_string();
    let cases: [(&[&str], u32); 4] = [
        (&[], 0o700),
        (&["--nbd-mode", "0660"], 0o660),
        (&["--nbd-group", &group], 0o660),
        (&["--nbd-mode", "666", "--nbd-group", &group], 0o666),
    ];
    for (umask, (arguments, wanted)) in ["0000", "0077", "0777", "0022"].into_iter().zip(cases) {
        let serve = place.command(&[&["serve", &images[0], &images[1], "--nbd", &nbd], arguments].concat());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(serve.get_program()).args(serve.get_args());
        shell.envs(serve.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
        ready(&mut child);
        assert_eq!((mode(&path), mode(&place.path("control.sock"))), (wanted, 0o700), "{umask} {arguments:?}");
        signal(&child, "-TERM");
        assert!(end(child).0.success());
        assert!(sockets(&place).is_empty());
    }
    for wrong in [["--nbd-mode", "0999"], ["--nbd-mode", "01777"], ["--nbd-mode", "rw"], ["--nbd-group", "no such group"]] {
        place.run(&["serve", &images[0], &images[1], wrong[0], wrong[1]]).refused(2, &[wrong[0], wrong[1]]);
    }
}

#[test]
fn other_machines_get_in_only_when_that_is_asked_for() {
    let place = Place::new();
    let images = mirror(&place);
    let before = contents(&images);
    for address in ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:10809", "tcp:[::ffff:192.0.2.1]:0"] {
        let local = format!("unix:{}", place.path("nbd.sock").display());
        let ran = place.run(&["serve", &images[0], &images[1], "--nbd", &local, "--nbd", address]);
        ran.refused(2, &["--nbd-insecure", "other machines", "unix:PATH"]);
        let ran = place.run(&["assemble", "--start", &images[0], &images[1], "--nbd", address]);
        ran.refused(2, &["--nbd-insecure"]);
    }
    assert!(before == contents(&images) && sockets(&place).is_empty());
    for (address, more) in [("tcp:127.0.0.1:0", None), ("tcp:127.8.9.1:0", None), ("tcp:0.0.0.0:0", Some("--nbd-insecure"))] {
        let mut child = spawn(&place, &images, address, more.as_slice());
        let told = ready(&mut child);
        assert!(told[0].starts_with("nbd tank nbd://") && !told[0].contains(":0/"), "{told:?}");
        signal(&child, "-INT");
        assert!(end(child).0.success());
    }
}

/// `stria stop` is answered a moment before the process ends, and scripts go on at once.
#[test]
fn the_control_socket_of_a_serve_that_ends_is_waited_for() {
    let place = Place::new();
    let images = mirror(&place);
    let control = place.path("control.sock");
    let ending = std::os::unix::net::UnixListener::bind(&control).expect("a socket");
    let mut child = spawn(&place, &images, &format!("unix:{}", place.path("nbd.sock").display()), &[]);
    std::thread::sleep(Duration::from_millis(300));
    std::fs::remove_file(&control).expect("there");
    drop(ending);
    ready(&mut child);
    signal(&child, "-TERM");
    assert!(end(child).0.success());
}

/// Before, the answer was "Resource temporarily unavailable", and no process was named.
#[test]
fn a_full_queue_of_the_control_socket_names_its_process() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let place = Place::new();
    let control = place.path("control.sock");
    let stuck = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    bind(&stuck, &SocketAddrUnix::new(&control).expect("a short path")).expect("nothing is there");
    listen(&stuck, 0).expect("it listens");
    let _waits = UnixStream::connect(&control).expect("the queue takes one");
    let pid = std::process::id();
    for command in ["status", "pause", "stop"] {
        let ran = place.run(&[command, "tank"]);
        ran.refused(1, &["queue of connections is full", &format!("(pid {pid})"), &format!("`kill {pid}`")]);
    }
}

/// systemd holds the socket: a client that connects before the serve has begun, or while it restarts, waits and is served.
#[test]
fn clients_of_a_socket_that_was_passed_wait_over_a_restart() {
    let place = Place::new();
    let images = mirror(&place);
    let path = place.path("passed.sock");
    let held = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    for round in 0..2 {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| hurried_client(|| UnixStream::connect(&path)));
            std::thread::sleep(Duration::from_millis(100));
            // As systemd passes it: file 3 of the process that these variables name.
            let line = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" serve \"$@\"";
            let control = place.path("control.sock").display().to_string();
            let program = env!("CARGO_BIN_EXE_stria");
            let mut command = place.command_line("sh", &["-c", line, program, &images[0], &images[1], "--socket", &control]);
            let passed = std::os::fd::OwnedFd::from(held.try_clone().expect("a copy"));
            command.stdin(Stdio::from(passed)).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("it starts");
            let told = ready(&mut child);
            assert!(told[0].ends_with(&format!("socket={}", path.display())), "{told:?}");
            assert!(client.join().expect("no panic") > 16 << 20);
            signal(&child, "-TERM");
            let (status, log) = end(child);
            assert!(status.success(), "round {round}: {log}");
        });
        assert!(path.exists(), "it belongs to whoever passed it");
    }
}

#[test]
fn only_addresses_that_are_listed_get_in() {
    let place = Place::new();
    let images = mirror(&place);
    for (allowed, gets_in) in [("127.0.0.0/8", true), ("127.0.0.1", true), ("192.0.2.0/24", false), ("::1", false)] {
        let mut child = spawn(&place, &images, "tcp:127.0.0.1:0", &["--nbd-allow", allowed]);
        let told = ready(&mut child);
        let address = told[0].trim_start_matches("nbd tank nbd://").trim_end_matches("/tank").to_owned();
        let mut greeting = [0; 18];
        let greeted = TcpStream::connect(&address).and_then(|mut socket| socket.read_exact(&mut greeting));
        assert_eq!(greeted.is_ok(), gets_in, "{allowed}: {greeted:?}");
        signal(&child, "-TERM");
        let (status, log) = end(child);
        assert!(status.success() && log.contains("--nbd-allow") != gets_in, "{log}");
    }
    place.run(&["serve", &images[0], &images[1], "--nbd-allow", "everybody"]).refused(2, &["192.0.2.0/24"]);
}

#[test]
fn tls_takes_the_place_of_insisting() {
    let place = Place::new();
    let images = mirror(&place);
    let keys = place.path("keys");
    let authority = Authority::with_both(&keys);
    let file = |name: &str| authority.file(name).display().to_string();
    let [cert, key, ca] = ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(file);
    let pair = ["--tls-cert", &cert, "--tls-key", &key];
    let refused = |more: &[&str], code, words: &[&str]| {
        let arguments = [&["serve", &images[0], &images[1], "--nbd", "tcp:0.0.0.0:0"], more].concat();
        place.run(&arguments).refused(code, words);
    };
    refused(&pair, 2, &["--tls-ca", "--nbd-insecure"]);
    refused(&[&pair[..], &["--tls-ca", &ca, "--tls", "offered"]].concat(), 2, &["--nbd-insecure"]);
    refused(&["--tls-cert", &cert], 2, &["--tls-key"]);
    refused(&["--tls-ca", &ca], 2, &["--tls-cert"]);
    refused(&["--tls-cert", &key, "--tls-key", &key, "--tls-ca", &ca], 1, &["server-key.pem", "certificate"]);

    let mut child = spawn(&place, &images, "tcp:0.0.0.0:0", &[&pair[..], &["--tls-ca", &ca]].concat());
    let told = ready(&mut child);
    let uri = told[0].trim_start_matches("nbd tank ").replace("0.0.0.0", "127.0.0.1");
    assert!(uri.starts_with("nbds://"), "{uri}");
    let uri = format!("{uri}?tls-certificates={}", keys.display());
    let size =
        Command::new("nbdinfo").args(["--size", &uri]).output().expect("nbdinfo is installed (apt-get install libnbd-bin)");
    assert!(size.status.success(), "{}", String::from_utf8_lossy(&size.stderr));
    signal(&child, "-TERM");
    assert!(end(child).0.success());
}

/// The size that a client reads which asks for `tank` as soon as it can connect.
fn hurried_client(connect: impl Fn() -> std::io::Result<UnixStream>) -> u64 {
    let patience = Instant::now() + PATIENCE;
    let mut socket = loop {
        match connect() {
            Ok(socket) => break socket,
            // The file must not exist before its server listens.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
        }
        assert!(Instant::now() < patience, "it never listens");
    };
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut bytes = [0; 18];
    socket.read_exact(&mut bytes).expect("it greets");
    socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04tank").expect("it listens");
    let mut facts = [0; 10];
    socket.read_exact(&mut facts).expect("it has this export from the first moment on");
    u64::from_be_bytes(facts[..8].try_into().expect("8 bytes"))
}

#[test]
fn whoever_sees_the_socket_finds_the_export() {
    let place = Place::new();
    let images = mirror(&place);
    let path = place.path("nbd.sock");
    for _ in 0..10 {
        let child = spawn(&place, &images, &format!("unix:{}", path.display()), &[]);
        assert!(hurried_client(|| UnixStream::connect(&path)) > 0);
        // The control socket is there before the NBD socket, so `status` can report a client as soon as it connects.
        assert_eq!(place.status("tank")["name"], "tank");
        signal(&child, "-TERM");
        assert!(end(child).0.success());
        assert!(sockets(&place).is_empty());
    }
}

#[test]
fn no_socket_is_left_whenever_the_signal_comes() {
    let place = Place::new();
    let images = mirror(&place);
    let nbd = format!("unix:{}", place.path("nbd.sock").display());
    let mut seen_late = 0;
    for round in 0..40_u64 {
        let child = spawn(&place, &images, &nbd, &[]);
        let from = Instant::now();
        // Half of them by the clock, half at the very moment in which a socket appears.
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(round * 13 % 400));
        } else {
            while sockets(&place).is_empty() && from.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            seen_late += 1;
        }
        // SIGINT only after a socket is there: until `env` has run, it may be ignored, as a shell leaves it for background jobs.
        signal(&child, if round % 4 == 1 { "-INT" } else { "-TERM" });
        let (status, log) = end(child);
        // A signal before the process listens for it ends the process, which has made nothing by then.
        assert!(status.success() || log.is_empty() || !log.contains("stopping"), "round {round}: {status}: {log}");
        assert!(sockets(&place).is_empty(), "round {round}: {:?} are left: {log}", sockets(&place));
    }
    assert!(seen_late > 0);
}

/// The terminal is closed: the array is stopped cleanly, although its log can no longer be written.
#[test]
fn hangup_ends_a_serve_in_good_order() {
    let place = Place::new();
    let images = mirror(&place);
    for deaf in [false, true] {
        let mut child = spawn(&place, &images, &format!("unix:{}", place.path("nbd.sock").display()), &[]);
        ready(&mut child);
        if deaf {
            child.stderr.take();
        }
        signal(&child, "-HUP");
        let (status, log) = end(child);
        assert!(status.success(), "{status}: {log}");
        assert!(deaf || log.contains("SIGHUP: stopping") && log.contains("has stopped: clean"), "{log}");
        assert!(sockets(&place).is_empty());
        assert!(place.ok(&["examine", &images[0]]).contains("clean"));
    }
}

#[test]
fn hangup_stays_ignored_under_nohup() {
    let place = Place::new();
    let images = mirror(&place);
    let nbd = format!("unix:{}", place.path("nbd.sock").display());
    let arguments = [env!("CARGO_BIN_EXE_stria"), "serve", &images[0], &images[1], "--nbd", &nbd];
    let mut command = place.command_line("nohup", &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nohup is everywhere");
    ready(&mut child);
    signal(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().expect("it is ours").is_none(), "it goes on");
    assert_eq!(place.status("tank")["health"], "optimal");
    signal(&child, "-TERM");
    let (status, log) = end(child);
    assert!(status.success() && !log.contains("SIGHUP"), "{status}: {log}");
}

#[test]
fn a_start_that_fails_leaves_no_socket() {
    let place = Place::new();
    let images = mirror(&place);
    let before = contents(&images);
    let nowhere = format!("unix:{}", place.path("no/such/folder/nbd.sock").display());
    let long = format!("unix:{}", place.path(&"n".repeat(120)).display());
    std::fs::write(place.path("file"), "precious").expect("a file");
    let file = format!("unix:{}", place.path("file").display());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = format!("tcp:{}", taken.local_addr().expect("an address"))
        + &{
            std::mem::forget(taken);
            String::new()
        };
    for (address, words) in [(&nowhere, "folder"), (&long, "at most 107"), (&file, "not a socket"), (&taken, "cannot listen")] {
        place.run(&["serve", &images[0], &images[1], "--nbd", address]).refused(1, &["cannot listen", words]);
        assert!(sockets(&place).is_empty(), "{address}");
    }
    assert!(before == contents(&images), "the addresses are looked at before anything is written");
    assert_eq!(std::fs::read(place.path("file")).expect("the file"), b"precious");
}

#[test]
fn a_serve_that_is_interrupted_twice_takes_its_sockets_along() {
    let place = Place::new();
    let images = mirror(&place);
    let mut child = spawn(&place, &images, &format!("unix:{}", place.path("nbd.sock").display()), &[]);
    ready(&mut child);
    // A client with half a request does not delay the end.
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(600));
    // The process has ended by itself by now, or ends at once.
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status();
    end(child);
    assert!(sockets(&place).is_empty());
}

/// Before, the log said that the array is served, then that a socket cannot be made; the members were left as after a crash.
#[test]
fn a_serve_that_lacks_files_for_its_sockets_does_not_claim_to_serve_and_leaves_its_members_clean() {
    let place = Place::new();
    let images = mirror(&place);
    let mut failed_late = 0;
    for files in 8..64 {
        let limited = format!("ulimit -n {files}; exec \"$@\"");
        let serve = [env!("CARGO_BIN_EXE_stria"), "serve", &images[0], &images[1]];
        let mut child = place
            .command_line("sh", &[&["-c", &limited, "sh"], &serve[..]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let is_ready = BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .lines()
            .map_while(Result::ok)
            .any(|line| line.starts_with("control "));
        if is_ready {
            place.ok(&["stop", "tank"]);
        }
        let output = child.wait_with_output().expect("it ends");
        let log = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.success(), is_ready, "{files} files: {log}");
        assert!(is_ready || log.contains("`ulimit -n`"), "{files} files: {log}");
        assert_eq!(log.contains("is served"), is_ready, "{files} files: {log}");
        failed_late += usize::from(!is_ready && log.contains("has stopped"));
        for image in &images {
            let examined = place.ok(&["examine", image]);
            assert!(examined.contains("State : clean"), "{files} files: {log}{examined}");
        }
        if is_ready {
            assert!(failed_late > 0, "no number of files fails between the start of the array and its sockets");
            return;
        }
    }
    panic!("64 files are not enough to serve");
}
