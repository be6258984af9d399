//! Goal: a member that hangs takes nothing but itself along: the others and other arrays answer, `fail` and `stop` get through,
//! and the drives that are left can be served again at once.
//! Method: one member is a file of nbdfuse that is stopped. Needs FUSE.

mod support;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::hanging::Hanging;
use support::nbd::Client;
use support::{PATIENCE, Place, may_skip};

/// An array `under` on one image, exported to be a file of FUSE.
fn hanging(under: &Place, place: &Place) -> Option<(Hanging, support::Serve)> {
    if !Path::new("/dev/fuse").exists() {
        may_skip("there is no FUSE", "run with /dev/fuse");
        return None;
    }
    let image = under.images(1, 32 << 20);
    under.ok(&["create", "under", "--level", "jbod", &image[0]]);
    let below = under.serve(&[&image[0]]);
    let hanging = Hanging::new(place.path("fuse"), below.uri("under"))?;
    Some((hanging, below))
}

/// Writes and flushes; the byte that everything then holds.
fn write(client: &mut Client, byte: u8) {
    for start in (0..64).step_by(4) {
        let writes: Vec<(u64, Vec<u8>)> = (start..start + 4).map(|index| (index * 65536, vec![byte; 65536])).collect();
        client.send_writes(&writes).expect("they are taken");
        (0..4).for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
        assert!(client.flush().expect("an answer"));
    }
}

fn holds(client: &mut Client, byte: u8) {
    let read = client.read(0, 64 * 65536).expect("it answers");
    assert!(read.iter().all(|&found| found == byte), "all that was written and flushed is there");
}

/// Does `work` on a thread of its own, and tells when it has ended.
fn beside(work: impl FnOnce() + Send + 'static) -> std::sync::mpsc::Receiver<()> {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    ended
}

fn story(level: &str, image_count: usize, lanes: &str, fails: bool) {
    let (under, place, beside_it) = (Place::new(), Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    eprintln!("RAID {level}, {lanes} lanes, failed on command: {fails}");
    let images = place.images(image_count, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    let drives = [&images[..], &[&*slow]].concat();
    place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&[&drives[..], &["--lanes", lanes]].concat());
    // Another array of this machine is not to notice.
    let image = beside_it.images(1, 16 << 20);
    beside_it.ok(&["create", "other", "--level", "jbod", &image[0]]);
    let other = beside_it.serve(&[&image[0]]);
    write(&mut serve.client("tank"), 1);

    hanging.signal("-STOP");
    let mut clients: Vec<Client> = (0..4).map(|_| serve.client("tank")).collect();
    let writers = clients.drain(..).map(|mut client| beside(move || write(&mut client, 2))).collect::<Vec<_>>();
    place.wait_for("tank", "the drive to be seen to hang", |status| {
        let members = status["members"].as_array().expect("a list");
        members.iter().any(|member| member["path"] == *slow && member["waiting_ms"].as_u64().unwrap_or(0) > 1500)
    });
    let status = place.status("tank");
    for member in status["members"].as_array().expect("a list").iter().filter(|member| member["path"] != *slow) {
        assert!(member["waiting_ms"].as_u64().unwrap_or(0) < 1000, "the others are not held up: {member:#}");
    }
    assert_eq!(beside_it.status("other")["health"], "optimal");
    assert!(writers.iter().all(|writer| writer.try_recv().is_err()), "nothing is durable that one member has not got");

    if fails {
        place.ok(&["fail", "tank", &slow, "--force"]);
        for writer in &writers {
            writer.recv_timeout(PATIENCE).expect("what waited for the failed drive alone is answered");
        }
        holds(&mut serve.client("tank"), 2);
        write(&mut serve.client("tank"), 3);
    }
    place.ok(&["stop", "tank", "--force"]);
    // The drive still hangs, and nobody needs it.
    let again = place.serve(&images);
    let mut client = again.client("tank");
    if fails {
        holds(&mut client, 3);
    }
    write(&mut client, 4);
    holds(&mut client, 4);
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    again.ended_well();
    hanging.signal("-CONT");
    let log = serve.ended_well();
    assert!(log.contains(if fails { "failed on command" } else { "the array stops without it" }), "{log}");
    drop(hanging);
    beside_it.ok(&["stop", "--force"]);
    other.ended_well();
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

#[test]
fn failed_drive_that_hangs_is_not_waited_for() {
    for (level, images, lanes) in [("1", 1, "1"), ("5", 2, "1"), ("6", 3, "2"), ("10", 3, "2")] {
        story(level, images, lanes, true);
    }
}

#[test]
fn stop_goes_on_without_a_drive_that_hangs() {
    story("5", 3, "2", false);
}

/// Nothing can be done without the drive; the stop says so and ends.
#[test]
fn stop_of_an_array_without_redundancy_does_not_wait_for_ever() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let images = place.images(1, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    place.ok(&["create", "tank", "--level", "0", &images[0], &slow]);
    let serve = place.serve(&[&images[0], &slow]);
    write(&mut serve.client("tank"), 1);
    hanging.signal("-STOP");
    let mut client = serve.client("tank");
    let writes: Vec<(u64, Vec<u8>)> = (0..16).map(|index| (index * 65536, vec![2; 65536])).collect();
    client.send_writes(&writes).expect("they are taken");
    place.run(&["stop", "tank", "--force"]).refused(1, &[&slow, "has not answered for", "as after a power cut"]);
    hanging.signal("-CONT");
    assert!(!serve.ended().0.success());
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// A serve that is stopped as a whole keeps nobody's status back.
#[test]
fn status_tells_of_a_serve_that_does_not_answer() {
    let place = Place::new();
    let image = place.images(1, 16 << 20);
    place.ok(&["create", "tank", "--level", "jbod", &image[0]]);
    let serve = place.serve(&[&image[0]]);
    serve.signal("-STOP");
    let ran = place.run(&["status"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("does not answer") && ran.stdout.contains("(pid "), "{ran:?}");
    let ran = place.run(&["--json", "status"]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert!(told[0]["pid"].as_u64().is_some() && told[0]["error"].is_string(), "{told:#}");
    place.run(&["status", "tank"]).refused(1, &["does not answer"]);
    serve.signal("-CONT");
    std::thread::sleep(Duration::from_millis(100));
    place.wait_for("tank", "an answer", |status| status["name"] == "tank");
    place.ok(&["stop"]);
    serve.ended_well();
}

/// A sweep that is held to next to nothing is stopped at once, by command and by signal, and told as slow as it is.
#[test]
fn stop_waits_for_no_speed_bound() {
    for by_signal in [false, true] {
        let place = Place::new();
        let images = place.images(3, 64 << 20);
        let drives: Vec<&str> = images.iter().map(String::as_str).collect();
        place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
        let serve = place.serve(&drives);
        place.run(&["speed", "tank", "--min", "2M", "--max", "1M"]).refused(2, &["--min", "above"]);
        place.ok(&["speed", "tank", "--max", "1"]);
        place.run(&["speed", "tank", "--min", "1M"]).refused(2, &["above"]);
        place.ok(&["scrub", "tank"]);
        let slow = place
            .wait_for("tank", "the sweep to crawl", |status| status["sweep"]["done_bytes"].as_u64().is_some_and(|done| done > 0));
        assert_eq!(slow["sweep"]["kind"], "scrub");
        place.ok(&["speed", "tank", "--max", "1000"]);
        place.ok(&["scrub", "tank", "--cancel"]);
        place.ok(&["scrub", "tank"]);
        if by_signal {
            serve.signal("-TERM");
        } else {
            place.ok(&["stop", "tank"]);
        }
        let log = serve.ended_well();
        assert!(log.contains("goes on from there"), "{log}");
    }
}
