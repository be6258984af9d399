//! Goal: the control socket answers whatever else is connected to it, and no connection makes its memory grow.
//! Method: the real program, plain sockets that break the rules, and `stria status` beside them.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use support::Place;

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

    let resident = std::fs::read_to_string(format!("/proc/{}/statm", serve.pid())).expect("statm");
    let resident = resident.split(' ').nth(1).expect("resident").parse::<u64>().expect("a number") * 4096;
    assert!(resident < 200 << 20, "{resident} bytes are resident");
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    drop((silent, halves, bodies, streams, askers));
}
