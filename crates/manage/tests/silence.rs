//! Goal: a member that does not answer is reported by name while its request waits, and so is its answer.
//! Method: one member is a file of nbdfuse, which is stopped like a drive that hangs. Needs FUSE.

mod support;

use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use support::hanging::Hanging;
use support::nbd::Client;
use support::{Place, may_skip};

fn waiting_ms(status: &Value, path: &str) -> u64 {
    let members = status["members"].as_array().expect("a list");
    let member = members.iter().find(|member| member["path"] == path).expect("a member");
    member["waiting_ms"].as_u64().unwrap_or(0)
}

/// Writes on all members, a few at a time.
fn fill(client: &mut Client, byte: u8) {
    for start in (0..64).step_by(4) {
        let writes: Vec<(u64, Vec<u8>)> = (start..start + 4).map(|index| (index * 65536, vec![byte; 65536])).collect();
        client.send_writes(&writes).expect("they are taken");
        (0..4).for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
    }
}

#[test]
fn member_that_does_not_answer_is_told_of() {
    if !Path::new("/dev/fuse").exists() {
        return may_skip("there is no FUSE", "run with /dev/fuse");
    }
    let (under, place) = (Place::new(), Place::new());
    let image = under.images(1, 32 << 20);
    under.ok(&["create", "under", "--level", "jbod", &image[0]]);
    let below = under.serve(&[&image[0]]);
    let Some(hanging) = Hanging::new(place.path("fuse"), below.uri("under")) else { return };
    let images = place.images(2, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let drives = [&*images[0], &*images[1], &*slow];
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    let mut client = serve.client("tank");
    fill(&mut client, 7);
    let status = place.status("tank");
    for member in status["members"].as_array().expect("a list") {
        assert!(member["write_latency"]["median_us"].as_u64().is_some_and(|median| median > 0), "{member:#}");
        assert!(member["waiting_ms"].as_u64().unwrap_or(0) < 1000, "{member:#}");
    }
    hanging.signal("-STOP");
    let writer = std::thread::spawn(move || fill(&mut client, 8));
    let status = place.wait_for("tank", "a request to wait for 6 s", |status| waiting_ms(status, &slow) > 6000);
    assert!(images.iter().all(|path| waiting_ms(&status, path) < 1000), "the others answer: {status:#}");
    let told = place.run(&["status", "tank"]);
    // Not while the FUSE file system stands still, as the server could not end.
    let shown = told.stdout.clone();
    let is_told = told.code == 3 && support::unwrapped(&shown).contains("no answer for") && shown.contains("NO ANSWER from");
    let is_written = writer.is_finished();
    hanging.signal("-CONT");
    assert!(is_told, "{told:?}");
    assert!(!is_written, "nothing is said to be written that the member has not got");
    writer.join().expect("written, if late");
    place.wait_for("tank", "the member's answer", |status| waiting_ms(status, &slow) < 1000);
    // The next look at the drives reports it.
    std::thread::sleep(Duration::from_millis(1500));
    place.ok(&["stop", "--force"]);
    let log = serve.ended_well();
    for words in [format!("{slow} has had a request outstanding for"), format!("{slow} answers again")] {
        assert!(log.contains(&words), "\"{words}\" is not in {log}");
    }
    assert!(!images.iter().any(|path| log.contains(&format!("{path} has had"))), "{log}");
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}
