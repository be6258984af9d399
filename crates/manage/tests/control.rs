//! Goal: the control socket answers whatever else is connected to it, and no connection makes its memory grow.
//! Method: the real program, plain sockets that break the rules, and `stria status` beside them; altered requests, more of them
//! by `STRIA_FUZZ_REQUESTS=100000 STRIA_FUZZ_SEED=1 cargo test -p stria-manage --test control altered`.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use stria_chance::Chance;
use support::{Place, Serve};

fn connect(place: &Place) -> UnixStream {
    let socket = UnixStream::connect(place.path("control.sock")).expect("it listens");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    socket.set_write_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    socket
}

/// Reads to the end. Returns the bytes that are text.
fn answer(mut socket: UnixStream) -> String {
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn commands_are_answered_beside_hostile_connections() {
    let place = Place::new();
    let images = place.images(2, 32 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let serve = place.serve(&[&images[0], &images[1]]);
    let is_well = |when: &str| {
        let started = Instant::now();
        assert!(place.ok(&["status"]).contains("tank"), "{when}");
        assert!(started.elapsed() < Duration::from_secs(20), "{when}: {:?}", started.elapsed());
    };

    let silent: Vec<UnixStream> = (0..200).map(|_| connect(&place)).collect();
    is_well("silent connections");
    let halves: Vec<UnixStream> = (0..80)
        .map(|_| {
            let mut socket = connect(&place);
            let _ = socket.write_all(b"GET /v1/arrays HTTP/1.1\r\nhost: x\r\n");
            socket
        })
        .collect();
    is_well("half a head each");
    let bodies: Vec<UnixStream> = (0..80)
        .map(|_| {
            let mut socket = connect(&place);
            let _ = socket.write_all(b"POST /v1/stop HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{");
            socket
        })
        .collect();
    is_well("half a body each");
    let streams: Vec<UnixStream> = (0..80)
        .map(|_| {
            let mut socket = connect(&place);
            let _ = socket.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n");
            socket
        })
        .collect();
    is_well("streams that nobody reads");
    let askers: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut socket = connect(&place);
            socket.set_write_timeout(Some(Duration::from_millis(100))).expect("a time-out");
            while socket.write_all(&b"GET /v1/arrays HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100)).is_ok() {}
            socket
        })
        .collect();
    is_well("answers that nobody reads");

    let mut socket = connect(&place);
    let _ = socket.write_all(&[b"GET /v1 HTTP/1.1\r\nx: ".as_slice(), &vec![b'x'; 1 << 20], b"\r\n\r\n"].concat());
    let told = answer(socket);
    assert!(told.is_empty() || told.contains("431"), "{told}");
    let mut socket = connect(&place);
    let head = b"POST /v1/stop HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100000000\r\n\r\n";
    let _ = socket.write_all(&[head.as_slice(), &vec![b' '; 1 << 20]].concat());
    let told = answer(socket);
    assert!(told.is_empty() || told.contains("413"), "{told}");
    let mut socket = connect(&place);
    let _ = socket.write_all(b"POST /v1/stop HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{");
    let told = answer(socket);
    assert!(told.contains("408"), "a body that does not come ends: {told}");
    is_well("endless requests");

    is_small(&serve);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    drop((silent, halves, bodies, streams, askers));
}

fn is_small(serve: &Serve) {
    let resident = std::fs::read_to_string(format!("/proc/{}/statm", serve.pid())).expect("statm");
    let resident = resident.split(' ').nth(1).expect("resident").parse::<u64>().expect("a number") * 4096;
    assert!(resident < 200 << 20, "{resident} bytes are resident");
}

/// A body that a command might have, with values of every kind under the keys of all.
fn body(chance: &mut Chance, drives: &[String]) -> Vec<u8> {
    const KEYS: [&str; 18] = [
        "path",
        "old",
        "new",
        "span",
        "force",
        "repair",
        "min",
        "max",
        "min_bytes_per_s",
        "max_bytes_per_s",
        "latency",
        "write",
        "read_only",
        "bitmap",
        "log",
        "checksums",
        "start_bytes",
        "length_bytes",
    ];
    const VALUES: [&str; 16] = [
        "0",
        "1",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "1e308",
        "null",
        "true",
        "\"\"",
        "\"tank\"",
        "\"through\"",
        "\"/dev/null\"",
        "\"\\u202e\\n\"",
        "[]",
        "{}",
        "{\"a\": [1, {}]}",
    ];
    match chance.below(12) {
        0 => return (0..chance.below(60)).map(|_| chance.any() as u8).collect(),
        1 => return vec![b'['; chance.pick(&[10, 1000, 60_000])],
        _ => {}
    }
    let pair = |chance: &mut Chance| {
        let drive = format!("\"{}\"", drives[chance.below(drives.len() as u64) as usize]);
        let value = if chance.one_in(4) { drive } else { chance.pick(&VALUES).to_owned() };
        format!("\"{}\": {value}", chance.pick(&KEYS))
    };
    let pairs: Vec<String> = (0..chance.below(5)).map(|_| pair(chance)).collect();
    format!("{{{}}}", pairs.join(", ")).into_bytes()
}

/// No request panics, hangs or takes memory for good, and the array is served as before. Those that would stop it are left out.
#[test]
fn altered_requests_are_answered() {
    const METHODS: [&str; 6] = ["GET", "POST", "POST", "PUT", "DELETE", "PATCH"];
    const PATHS: [&str; 16] = [
        "",
        "/arrays",
        "/arrays/tank",
        "/arrays/tank/members",
        "/arrays/tank/members/fail",
        "/arrays/tank/members/remove",
        "/arrays/tank/members/replace",
        "/arrays/tank/scrub",
        "/arrays/tank/pause",
        "/arrays/tank/resume",
        "/arrays/tank/speed",
        "/arrays/tank/settings",
        "/arrays/tank/trim",
        "/events?since=0",
        "/arrays/%00%ff/scrub",
        "/arrays/tank/../../x",
    ];
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let place = Place::new();
    let images = place.images(4, 16 << 20);
    place.ok(&["create", "tank", "--level", "6", "--assume-clean", &images[0], &images[1], &images[2], &images[3]]);
    let serve = place.serve(&[&images[0], &images[1], &images[2], &images[3]]);
    let first = number("STRIA_FUZZ_SEED", 0);
    for seed in first..first + number("STRIA_FUZZ_REQUESTS", 1500) {
        let mut chance = Chance::new(seed, 0);
        let body = body(&mut chance, &images);
        let (method, path) = (chance.pick(&METHODS), chance.pick(&PATHS));
        let kind = if chance.one_in(10) { "text/plain" } else { "application/json" };
        let length = body.len();
        let head = format!(
            "{method} /v1{path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut request = [head.as_bytes(), &body].concat();
        let alterations = if chance.one_in(3) { 1 + chance.below(3) } else { 0 };
        for _ in 0..alterations {
            let at = chance.below(request.len() as u64) as usize;
            request[at] = chance.any() as u8;
        }
        let mut socket = connect(&place);
        let _ = socket.write_all(&request);
        if alterations > 0 {
            // It may ask for more than comes. A client that has gone may get no answer.
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
        let begun = Instant::now();
        let told = answer(socket);
        let words = || format!("STRIA_FUZZ_SEED={seed} STRIA_FUZZ_REQUESTS=1: {} got {told}", String::from_utf8_lossy(&request));
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", words());
        assert!(!told.contains("internal error"), "{}", words());
        assert!(alterations > 0 || told.starts_with("HTTP/1.1 "), "{}", words());
    }
    is_small(&serve);
    place.status("tank");
    place.ok(&["stop", "--force"]);
    let log = serve.ended_well();
    assert!(!log.contains("panicked"), "{log}");
}
