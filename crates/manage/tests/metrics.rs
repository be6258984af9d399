//! Goal: Prometheus accepts the metrics, and their values are right. The shipped rules and the board use no name that does not
//! exist.
//! Method: the real program; `promtool` judges text and rules.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use support::daemon::Daemon;
use support::{Place, run_tool, tool};

/// Reads the metrics. Returns the head and the body.
fn ask(mut stream: impl Read + Write) -> (String, String) {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: stria\r\nConnection: close\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

/// The value of a line that begins with `series`.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// Checks that `promtool` accepts this text. `false`: it is missing, and the environment permits that.
fn is_taken(place: &Place, text: &str) -> bool {
    let Some(mut there) = tool("promtool", &["--version"]) else { return false };
    assert!(there.wait().expect("it ends").success());
    let file = place.path("metrics");
    std::fs::write(&file, text).expect("a file");
    let said = run_tool("sh", &["-c", "promtool check metrics < \"$1\" 2>&1", "sh", file.to_str().expect("a plain path")]);
    assert_eq!(said.as_deref(), Some(""), "promtool finds nothing unusual");
    true
}

#[test]
fn prometheus_takes_the_metrics_of_every_state() {
    let place = Place::new();
    let images = place.images(7, 32 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place
        .ok(&[&["create", "tank", "--level", "5", "--assume-clean", "--integrity", "--spare", drives[3]], &drives[..3]].concat());
    place.ok(&[&["create", "twin\"\\", "--level", "1", "--assume-clean"], &drives[4..6]].concat());
    let serve = place.serve(&[&drives[..6], &["--metrics", "0"]].concat());
    let mut client = serve.client("tank");
    client.send_writes(&[(0, vec![7; 1 << 20])]).expect("it is taken");
    assert_eq!(client.reply().expect("an answer").1, 0);
    assert_eq!(client.read(0, 65536).expect("an answer").len(), 65536);
    assert!(client.flush().expect("an answer"));
    let url = serve.metrics.clone().expect("it says where");
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).expect("a URL");
    assert!(address.starts_with("127.0.0.1:"), "a port alone is on the loopback interface");
    let (head, text) = ask(TcpStream::connect(address).expect("it listens"));
    assert!(
        head.starts_with("HTTP/1.1 200") && head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    is_taken(&place, &text);
    let of = |name: &str, labels: &str| value(&text, &format!("{name}{{array=\"tank\"{labels}}}"));
    assert_eq!((of("stria_array_state", ",state=\"optimal\""), of("stria_array_degraded", "")), (1.0, 0.0));
    assert_eq!((of("stria_array_losses_survived", ""), of("stria_array_clients", "")), (1.0, 1.0));
    assert_eq!(of("stria_array_members", ",span=\"\",state=\"spare\""), 1.0);
    let member = format!(",span=\"\",member=\"{}\"", images[0]);
    assert!(of("stria_member_written_bytes_total", &member) >= f64::from(512 << 10));
    assert!(of("stria_member_latency_p99_seconds", &format!("{member},operation=\"write\"")) > 0.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    // The control socket gives the same text.
    let (_, same) = ask(UnixStream::connect(place.path("control.sock")).expect("it listens"));
    let names = |text: &str| text.lines().filter(|line| line.starts_with("# TYPE")).map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(names(&text), names(&same));
    // The member failed and was added again: it has two entries, and one series.
    place.ok(&["fail", "tank", "1", "--force"]);
    place.wait_for("tank", "the rebuild", |status| status["health"] == "optimal");
    place.ok(&["fail", "tank", &images[0], "--force"]);
    let (_, text) = ask(TcpStream::connect(address).expect("it listens"));
    is_taken(&place, &text);
    let of = |name: &str, labels: &str| value(&text, &format!("{name}{{array=\"tank\"{labels}}}"));
    assert_eq!((of("stria_array_state", ",state=\"degraded\""), of("stria_array_degraded", "")), (1.0, 1.0));
    place.ok(&["add", "tank", &images[0], "--wait"]);
    let (_, text) = ask(TcpStream::connect(address).expect("it listens"));
    is_taken(&place, &text);
    assert_eq!(
        value(&text, &format!("stria_member_info{{array=\"tank\",span=\"\",member=\"{}\",slot=\"0\",serial=\"\"}}", images[0])),
        1.0
    );
    drop(client);
    place.ok(&["stop", "--force"]);
    serve.ended_well();
}

/// It had no series at all, so no rule could fire.
#[test]
fn an_array_that_does_not_start_is_a_figure() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(4, 64 << 20);
    for (name, drives) in [("tank", &images[..2]), ("pool", &images[2..])] {
        place.ok(&["create", name, "--level", "1", "--assume-clean", &drives[0], &drives[1]]);
        place.ok(&["adopt", &drives[0], &drives[1]]);
    }
    place.configure("degraded-after = \"never\"");
    std::fs::rename(&images[0], place.path("elsewhere")).expect("a move");
    let daemon = Daemon::start(&place);
    let read = || ask(UnixStream::connect(place.path("control.sock")).expect("it listens")).1;
    let end = std::time::Instant::now() + support::PATIENCE;
    while !read().contains("stria_array_unscrubbed_since_timestamp_seconds{") {
        assert!(std::time::Instant::now() < end, "{}", read());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let text = read();
    is_taken(&place, &text);
    let served = |name: &str| value(&text, &format!("stria_array_served{{array=\"{name}\"}}"));
    assert_eq!((served("tank"), served("pool")), (0.0, 1.0));
    assert!(value(&text, "stria_array_unscrubbed_since_timestamp_seconds{array=\"pool\",span=\"\"}") > 1.6e9);
    place.ok(&["stop", "pool"]);
    let text = read();
    assert!(!text.contains("stria_array_served{array=\"pool\""), "it was stopped on purpose: {text}");
    daemon.signal("-TERM");
    daemon.ended_well();
}

fn packaged(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

#[test]
fn the_shipped_rules_fire_when_they_should() {
    for tests in ["prometheus/stria.rules.test.yml", "prometheus/stria.rules.months.test.yml"] {
        let tests = packaged(tests);
        if let Some(said) = run_tool("promtool", &["test", "rules", tests.to_str().expect("a plain path")]) {
            assert!(said.contains("SUCCESS"), "{said}");
        }
    }
}

/// Every word that begins with `stria_`.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("stria_")).map(str::to_owned).collect()
}

#[test]
fn rules_and_board_use_only_names_that_are_given_and_documented() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("text");
    let source = |file: &str| read(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/monitor").join(file));
    let given = names(&source("metrics.rs"));
    assert!(given.len() > 50, "{given:?}");
    let documented = names(&read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md")));
    // The names of crates begin with it as well.
    let given: BTreeSet<String> =
        given.into_iter().filter(|name| !["stria_alarm", "stria_health"].contains(&name.as_str())).collect();
    assert_eq!(given, documented);
    let board = read(packaged("grafana/stria.json"));
    serde_json::from_str::<Value>(&board).expect("JSON");
    for name in names(&read(packaged("prometheus/stria.rules.yml"))).union(&names(&board)) {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(given.contains(name) || given.contains(base), "{name} is not given");
    }
}
