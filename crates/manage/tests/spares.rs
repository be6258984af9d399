//! Goal: an array of the daemon that lacks a member takes a fitting spare of the pool. One spare goes to one array, also if two
//! members fail at once. If the daemon is killed meanwhile, the spare belongs to the pool or to the array, never to both.
//! Method: image files, members failed by command, `kill -9` at several moments.

mod support;

use serde_json::Value;
use std::time::{Duration, Instant};
use support::daemon::Daemon;
use support::{PATIENCE, Place, contents};

const MIB: u64 = 1 << 20;

fn pool(place: &Place) -> Vec<Value> {
    serde_json::from_str::<Vec<Value>>(&place.ok(&["--json", "spare", "list"])).expect("JSON")
}

/// Makes RAID 1 arrays of two drives each, called `a`, `b` …, which the daemon serves.
fn arrays(place: &Place, images: &[String], count: usize) {
    for (index, name) in ["a", "b"][..count].iter().enumerate() {
        let drives = [images[index * 2].as_str(), images[index * 2 + 1].as_str()];
        place.ok(&[&["create", name, "--level", "1", "--assume-clean"], &drives[..]].concat());
        place.ok(&[&["adopt"], &drives[..]].concat());
    }
}

fn is_whole(place: &Place, name: &str) -> bool {
    let status = place.status(name);
    status["health"] == "optimal" && status["missing_slots"] == serde_json::json!([])
}

#[test]
fn one_spare_goes_to_one_of_two_arrays_that_fail_at_once() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(6, 32 * MIB);
    arrays(&place, &images, 2);
    let _daemon = Daemon::start(&place);
    // A drive that carries something is wiped only when that is confirmed.
    place.run(&["spare", "add", &images[0]]).refused(4, &["blank", "member of array", "--yes"]);
    // A drive that is named twice was called in use.
    place.run(&["spare", "add", &images[4], &images[4]]).refused(2, &["same drive", "name it once"]);
    assert_eq!(pool(&place).len(), 0);
    // If one drive is refused, none is wiped.
    let old = place.path("old").to_str().expect("a plain path").to_owned();
    std::fs::File::create(&old).and_then(|file| file.set_len(32 * MIB)).expect("an image file");
    place.ok(&["create", "old", "--level", "1", &old, "missing"]);
    let before = contents(std::slice::from_ref(&old));
    place.run(&["spare", "add", "--force", &old, &images[0]]).refused(1, &["in use"]);
    assert!(contents(std::slice::from_ref(&old)) == before);
    std::fs::remove_file(&old).expect("its own file");
    place.ok(&["spare", "add", &images[4]]);
    assert_eq!((pool(&place).len(), &pool(&place)[0]["free"]), (1, &Value::Bool(true)));
    // While the drive is in the pool no other program takes it.
    place.run(&["create", "c", "--level", "0", &images[4]]).refused(1, &["in use"]);
    place.ok(&["fail", "a", &images[0], "--force"]);
    place.ok(&["fail", "b", &images[2], "--force"]);
    let end = std::time::Instant::now() + PATIENCE;
    while [is_whole(&place, "a"), is_whole(&place, "b")] == [false, false] {
        assert!(std::time::Instant::now() < end, "nobody took the spare: {}", place.ok(&["events"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    let taken = pool(&place)[0]["state"].as_str().expect("text").to_owned();
    assert!(taken.starts_with("taken by"), "{taken}");
    let (winner, loser) = if is_whole(&place, "a") { ("a", "b") } else { ("b", "a") };
    assert!(taken.contains(winner) && !is_whole(&place, loser), "{taken}, {winner}");
    let events = place.ok(&["events"]);
    assert!(
        events.contains("takes") && events.contains("pool of spares") && events.contains("no spare of the pool suits"),
        "{events}"
    );
    // The next drive of the pool goes to the other array.
    place.ok(&["spare", "add", &images[5]]);
    place.wait_for(loser, "the spare of the pool", |status| status["health"] == "optimal");
    // A drive that is taken out and wiped is in the pool again.
    let member = if winner == "a" { &images[1] } else { &images[3] };
    place.wait_for(winner, "the end of the rebuild", |status| status["sweep"].is_null());
    place.ok(&["fail", winner, &images[4], "--force"]);
    place.ok(&["remove", winner, &images[4]]);
    assert!(place.status(winner)["members"].as_array().expect("a list").iter().any(|m| m["path"] == member.as_str()));
    place.ok(&["wipe", &images[4], "--force"]);
    place.ok(&["reload"]);
    place.wait_for(winner, "the same drive from the pool", |status| status["health"] == "optimal");
    place.ok(&["spare", "remove", &images[4], &images[5]]);
    assert!(pool(&place).is_empty());
}

#[test]
fn a_spare_that_does_not_suit_is_not_taken() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(2, 32 * MIB);
    arrays(&place, &images, 1);
    let small = place.path("small").display().to_string();
    std::fs::File::create(&small).and_then(|file| file.set_len(8 * MIB)).expect("a file");
    let _daemon = Daemon::start(&place);
    place.ok(&["spare", "add", &small]);
    place.ok(&["fail", "a", &images[0], "--force"]);
    let end = std::time::Instant::now() + PATIENCE;
    while !place.ok(&["events"]).contains("no spare of the pool suits") {
        assert!(std::time::Instant::now() < end, "{}", place.ok(&["events"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!is_whole(&place, "a"));
    assert_eq!(pool(&place)[0]["free"], true);
}

#[test]
fn a_daemon_that_is_killed_while_a_spare_moves_loses_neither() {
    let place = Place::new();
    place.is_a_machine();
    place.configure("degraded-after = \"2s\"");
    let images = place.images(7, 32 * MIB);
    arrays(&place, &images, 1);
    let mut daemon = Daemon::start(&place);
    let mut failing = images[0].clone();
    for (round, spare) in images[2..].iter().enumerate() {
        place.ok(&["spare", "add", spare]);
        place.ok(&["fail", "a", &failing, "--force"]);
        // Somewhere between the failure and the end of the rebuild.
        std::thread::sleep(Duration::from_millis(round as u64 * 15));
        daemon.kill();
        daemon = Daemon::start(&place);
        // If the members knew of the spare and the spare did not yet know of them, the daemon first waits for the drive that is
        // missing.
        let end = Instant::now() + PATIENCE;
        while place.run(&["status", "a"]).code == 1 {
            assert!(Instant::now() < end, "\"a\" is not served");
            std::thread::sleep(Duration::from_millis(100));
        }
        let status = place.wait_for("a", "the spare of the pool", |status| status["health"] == "optimal");
        let members: Vec<&str> =
            status["members"].as_array().expect("a list").iter().filter_map(|m| m["path"].as_str()).collect();
        assert!(members.contains(&spare.as_str()), "{members:?}");
        assert!(pool(&place)[0]["state"].as_str().is_some_and(|state| state.contains("taken by \"a\"")), "{:?}", pool(&place));
        place.ok(&["spare", "remove", spare]);
        place.wait_for("a", "the end of the rebuild", |status| status["sweep"].is_null());
        failing.clone_from(spare);
    }
}

/// A paused array takes no spare. The end of the pause is the time to look again: nothing else happens to an array that waits.
#[test]
fn an_array_that_failed_while_it_was_paused_takes_a_spare_when_it_resumes() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(3, 32 * MIB);
    arrays(&place, &images, 1);
    let _daemon = Daemon::start(&place);
    place.ok(&["spare", "add", &images[2]]);
    place.ok(&["pause", "a"]);
    place.ok(&["fail", "a", &images[0], "--force"]);
    let explained = place.run(&["explain", "a"]);
    assert!(explained.stdout.contains("stria resume a") && explained.stdout.contains("pool"), "{explained:?}");
    // The daemon has looked by then.
    place.ok(&["reload"]);
    assert_eq!(pool(&place)[0]["free"], true);
    place.ok(&["resume", "a"]);
    place.wait_for("a", "the spare of the pool", |status| status["health"] == "optimal");
    let events = place.ok(&["events"]);
    assert!(events.contains("are paused") && events.contains("are resumed"), "{events}");
}

/// A drive of the pool that another program held for a moment was tried again only after an hour.
#[test]
fn a_spare_that_was_refused_is_tried_again() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(3, 32 * MIB);
    arrays(&place, &images, 1);
    place.ok(&["spare", "add", &images[2]]);
    let other = std::fs::File::open(&images[2]).expect("an image file");
    other.lock().expect("nobody uses it");
    let _daemon = Daemon::start(&place);
    place.ok(&["fail", "a", &images[0], "--force"]);
    let end = Instant::now() + PATIENCE;
    while !place.ok(&["events"]).contains("no spare of the pool suits") {
        assert!(Instant::now() < end, "{}", place.ok(&["events"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(other);
    place.wait_for("a", "the spare of the pool", |status| status["health"] == "optimal");
}

/// Before, the drives were wiped, and then the configuration could not name them.
#[test]
fn a_pool_that_cannot_be_stored_leaves_the_drives_as_they_are() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(2, 32 * MIB);
    place.ok(&["create", "old", "--level", "1", &images[0], &images[1]]);
    let text = std::fs::read_to_string(place.config()).expect("a configuration");
    std::fs::write(place.config(), format!("spares = {{ drives = [] }}\n{text}")).expect("a file");
    let before = contents(&images);
    place.run(&["spare", "add", "--force", &images[0], &images[1]]).refused(1, &["[spares]"]);
    assert!(contents(&images) == before, "something was wiped");
}
