//! Goal: the API does for any program what it does for the command line, and refuses an invalid request with JSON that says why.
//! Method: plain HTTP over the control socket, by our client and by hand.

mod support;

use hyper::Method;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use stria_manage::client::Client;
use support::Place;

/// Sends one request, written by hand. Returns the status and the body.
fn raw(place: &Place, request: &str) -> (u16, Value) {
    let mut socket = UnixStream::connect(place.path("control.sock")).expect("it listens");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it answers");
    let status = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn post(place: &Place, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    raw(place, &format!("{head}\r\n\r\n{body}"))
}

#[test]
fn api_answers_refuses_and_tells_events() {
    let place = Place::new();
    let images = place.images(3, 32 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", "--spare", &images[2], &images[0], &images[1]]);
    let serve = place.serve(&[&images[0], &images[1], &images[2]]);

    let client = Client::at(place.path("control.sock"));
    let about: Value = client.get("/v1").expect("an answer");
    assert_eq!(about["arrays"], json!(["tank"]));
    let arrays: Value = client.get("/v1/arrays").expect("an answer");
    assert_eq!((&arrays[0]["level"], &arrays[0]["health"]), (&json!("1"), &json!("optimal")));
    let uri = arrays[0]["exports"][0].as_str().expect("a URI");
    assert_eq!(uri, serve.uri("tank"));

    let kind = |(status, body): (u16, Value)| (status, body["error"]["kind"].as_str().unwrap_or("none").to_owned());
    assert_eq!(kind(raw(&place, "GET /v2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")), (404, "not_found".into()));
    assert_eq!(kind(post(&place, "/v1/arrays/none/scrub", "{}")), (404, "not_found".into()));
    assert_eq!(kind(post(&place, "/v1/arrays/tank/scrub", "{")), (400, "invalid".into()));
    assert_eq!(kind(post(&place, "/v1/arrays/tank/members/fail", "{}")), (400, "invalid".into()));
    assert_eq!(kind(post(&place, "/v1/arrays/tank/trim", r#"{"start_bytes":0,"length_bytes":4096}"#)), (409, "unsafe".into()));
    assert_eq!(kind(post(&place, "/v1/arrays/tank/members/fail", r#"{"path":"/nowhere"}"#)), (409, "refused".into()));
    assert_eq!(kind(post(&place, "/v1/arrays/tank/members", r#"{"path":"/nowhere"}"#)), (409, "refused".into()));

    // A stream sends earlier and later events, each once and in order.
    let mut stream = UnixStream::connect(place.path("control.sock")).expect("it listens");
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n").expect("it reads");
    let _: Value = client.send(Method::POST, "/v1/arrays/tank/members/fail", &json!({"path": images[0]})).expect("an answer");
    let mut kinds = Vec::new();
    let mut sequences = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("text");
        if let Some(data) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(data).expect("JSON");
            sequences.push(event["sequence"].as_u64().expect("a number"));
            kinds.push(event["kind"].as_str().expect("a word").to_owned());
            if event["kind"] == "sweep_finished" {
                break;
            }
        }
    }
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    for kind in ["started", "member_failed", "spare_taken", "sweep_started", "member_in_sync"] {
        assert!(kinds.iter().any(|other| other == kind), "{kind} is missing: {kinds:?}");
    }
    let later: Value = client.get(&format!("/v1/events?since={}", sequences.len() - 1)).expect("an answer");
    assert_eq!(later[0]["kind"], "sweep_finished");

    // An open stream does not delay the end of the process.
    let _open = UnixStream::connect(place.path("control.sock")).and_then(|mut stream| {
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n").map(|()| stream)
    });
    serve.signal("-INT");
    serve.ended_well();
}
