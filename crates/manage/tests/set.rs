//! Goal: `stria set` changes settings of a served or stopped array, says what a power cut costs, and keeps the settings over
//! restarts.
//! Method: image files, a serve or a daemon, a client with data before and after, and the superblocks as `examine` shows them.

mod support;

use serde_json::Value;
use support::daemon::Daemon;
use support::{Place, unwrapped};

const MIB: u64 = 1 << 20;

fn example(seed: u8) -> Vec<u8> {
    (0..8192u32).map(|at| (at as u8).wrapping_mul(7).wrapping_add(seed)).collect()
}

fn examined(place: &Place, image: &str) -> Value {
    serde_json::from_str::<Value>(&place.ok(&["--json", "examine", image])).expect("JSON")[0].clone()
}

#[test]
fn bitmap_and_log_of_a_served_array_come_and_go_in_a_pause() {
    let place = Place::new();
    let images = place.images(3, 64 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    let mut client = serve.client("tank");
    assert!(client.write(0, &example(1)).expect("it writes"));
    assert!(client.flush().expect("it flushes"));
    // If a client may not reconnect, the command asks first.
    place.run(&["set", "tank", "--bitmap", "none"]).refused(4, &["pause", "in use", "--force"]);
    // `--yes` answers a question. It does not allow clients to be disconnected.
    place.run(&["set", "tank", "--bitmap", "none", "--yes"]).refused(4, &["pause", "in use", "--force"]);
    assert!(place.status("tank")["bitmap"].is_object(), "nothing has changed");
    drop(client);
    for (arguments, has_bitmap, has_log) in [
        (&["--bitmap", "none"][..], false, true),
        (&["--log", "none"], false, false),
        (&["--bitmap", "internal:64K", "--log", "auto"], true, true),
    ] {
        let told = place.ok(&[&["set", "tank", "--force"], arguments].concat());
        assert!(told.contains("changed in a pause"), "{told}");
        let status = place.status("tank");
        assert_eq!((status["bitmap"].is_object(), status["log"].is_object()), (has_bitmap, has_log), "{arguments:?}: {status:#}");
        let mut client = serve.client("tank");
        assert_eq!(client.read(0, 8192).expect("it reads"), example(1), "{arguments:?}");
        assert!(client.write(8192, &example(arguments.len() as u8)).expect("it writes"));
    }
    assert_eq!(place.status("tank")["bitmap"]["chunk_bytes"], 65536);
    let again = place.ok(&["set", "tank", "--bitmap", "internal"]);
    assert!(again.contains("has these settings already"), "{again}");
    place.run(&["set", "tank", "--bitmap", "internal:1M", "--force"]).refused(1, &["another size", "take it away"]);
    place.run(&["set", "tank", "--integrity", "on", "--force"]).refused(1, &["no space", "--integrity"]);
    assert_eq!(serve.client("tank").read(0, 8192).expect("it reads"), example(1), "a refusal stops nothing");
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    // The same while the array is stopped.
    let told = place.ok(&[&["set", "tank", "--bitmap", "none"], &drives[..]].concat());
    assert!(told.contains("was changed"), "{told}");
    assert!(drives.iter().all(|drive| examined(&place, drive)["bitmap_dirty_count"].is_null()));
    place.run(&[&["set", "tank", "--write", "through"], &drives[..]].concat()).refused(1, &["neither served nor", "stria serve"]);
    let serve = place.serve(&drives);
    assert_eq!(serve.client("tank").read(0, 8192).expect("it reads"), example(1));
}

/// A question about the cost comes after the look for the array: without a terminal it is refused with code 4.
#[test]
fn nothing_is_asked_about_an_array_that_is_not_here() {
    let place = Place::new();
    let images = place.images(2, 32 * MIB);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    place.run(&["set", "lake", "--write", "back", &images[0], &images[1]]).refused(1, &["lake"]);
    place.run(&["set", "tank", "--write", "back", &images[0], &images[1]]).refused(4, &["--yes"]);
}

#[test]
fn the_write_policy_holds_at_once_and_says_what_a_power_cut_costs() {
    let place = Place::new();
    let images = place.images(2, 32 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&[&drives[..], &["--write", "through"]].concat());
    let shown = |place: &Place| unwrapped(&place.ok(&["status", "tank"]));
    assert!(shown(&place).contains("through: a power cut costs no write that was acknowledged"), "{}", shown(&place));
    let mut client = serve.client("tank");
    assert!(client.write(0, &example(3)).expect("it writes"));
    place.run(&["set", "tank", "--write", "back"]).refused(4, &["power cut", "--yes"]);
    place.ok(&["set", "tank", "--write", "back", "--force"]);
    assert!(shown(&place).contains("A POWER CUT COSTS THE WRITES OF THE LAST SECONDS"), "{}", shown(&place));
    assert_eq!(place.status("tank")["write"], "back");
    assert!(client.write(4096, &example(4)).expect("it writes"));
    assert!(client.flush().expect("it is answered"));
    let told = place.ok(&["set", "tank", "--write", "safe"]);
    assert!(told.contains("were not flushed") && told.contains("is lost when the array stops"), "{told}");
    assert_eq!(client.read(4096, 8192).expect("the same connection"), example(4));
    place.run(&["set", "tank", "--drive-caches", "off"]).refused(1, &["is a file", "no cache of its own"]);
    place.run(&["set", "tank"]).refused(2, &["--write"]);
}

#[test]
fn read_only_is_switched_and_a_read_only_array_is_not_changed() {
    let place = Place::new();
    let images = place.images(2, 32 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    assert!(serve.client("tank").write(0, &example(5)).expect("it writes"));
    place.ok(&["set", "tank", "--read-only", "on", "--force"]);
    assert_eq!(place.status("tank")["read_only"], true);
    let before = support::contents(&images);
    let mut client = serve.client("tank");
    assert_eq!(client.read(0, 8192).expect("it reads"), example(5));
    assert!(!client.write(0, &example(6)).expect("it is answered"), "it is read-only");
    place.run(&["set", "tank", "--bitmap", "none", "--force"]).refused(1, &["read-only", "--read-only off"]);
    drop(client);
    assert!(support::contents(&images) == before, "no byte of a member was written");
    place.ok(&["set", "tank", "--read-only", "off", "--force"]);
    let mut client = serve.client("tank");
    assert!(client.write(0, &example(7)).expect("it writes"));
    assert_eq!(client.read(0, 8192).expect("it reads"), example(7));
}

#[test]
fn checksums_go_and_come_back() {
    let place = Place::new();
    let images = place.images(3, 32 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean", "--integrity"], &drives[..]].concat());
    let serve = place.serve(&drives);
    assert!(serve.client("tank").write(0, &example(8)).expect("it writes"));
    let checked =
        |place: &Place| place.status("tank")["members"].as_array().expect("a list").iter().all(|m| m["checksums"].is_object());
    // What is written while there are none must not be judged by those of before. From the second time on they lie where they
    // lay.
    for (on, written) in [("off", 9), ("on", 10), ("off", 11), ("on", 11), ("off", 12), ("on", 12)] {
        place.ok(&["set", "tank", "--integrity", on, "--force"]);
        assert_eq!(checked(&place), on == "on");
        let mut client = serve.client("tank");
        if on == "off" || written == 10 {
            assert!(client.write(0, &example(written)).expect("it writes"));
        }
        assert_eq!(client.read(0, 8192).expect("it reads"), example(written), "{on}");
    }
    place.calls_nothing_wrong();
}

#[test]
fn the_daemon_keeps_settings_in_its_configuration() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(2, 32 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    place.ok(&[&["adopt"], &drives[..]].concat());
    let daemon = Daemon::start(&place);
    let told = place.ok(&["set", "tank", "--write", "through", "--read-only", "on", "--force"]);
    assert!(told.contains("stored in /") && !told.contains("applies when"), "{told}");
    let config = std::fs::read_to_string(place.config()).expect("a file");
    assert!(config.contains("write = \"through\"") && config.contains("read-only = true"), "{config}");
    assert_eq!(place.status("tank")["state"], "clean, read-only");
    daemon.signal("-TERM");
    daemon.ended_well();
    let _daemon = Daemon::start(&place);
    let status = place.status("tank");
    assert_eq!((&status["write"], &status["read_only"]), (&"through".into(), &true.into()), "{status:#}");
    // Settings that people write into the file hold after a reload, if they can be changed without a restart.
    std::fs::write(place.config(), config.replace("write = \"through\"", "write = \"safe\"").replace("read-only = true\n", ""))
        .expect("a file");
    let told = place.ok(&["reload"]);
    assert!(told.contains("back where safe") || told.contains("--read-only off"), "{told}");
    place.ok(&["set", "tank", "--read-only", "off", "--force"]);
    place.ok(&["reload"]);
    let status = place.status("tank");
    assert_eq!((&status["write"], &status["read_only"]), (&"safe".into(), &false.into()), "{status:#}");
    // By UUID, while the array is stopped.
    place.ok(&["stop", "tank", "--force"]);
    let uuid = status["uuid"].as_str().expect("text").to_owned();
    let told = place.ok(&[&["set", &uuid, "--bitmap", "none", "--write", "through"], &drives[..]].concat());
    assert!(told.contains("was changed") && told.contains("stored in /"), "{told}");
    place.ok(&["start", "tank"]);
    let status = place.status("tank");
    assert!(status["bitmap"].is_null() && status["write"] == "through", "{status:#}");
    assert!(place.ok(&["events", "--orders"]).contains("change of settings (read-only off)"), "who did it is kept");
}

/// Before that, the start after the pause named the drive that was gone, and failed for it.
/// Before, the answer was only that the file cannot be changed, while writes were acknowledged as the command asked.
#[test]
fn a_setting_that_cannot_be_stored_is_told_as_one_that_holds() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(2, 64 * MIB);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    place.ok(&["adopt", &images[0], &images[1]]);
    let _daemon = Daemon::start(&place);
    // The file that is locked for every change cannot be opened, as on a file system that is mounted read-only.
    let lock = place.path(".stria.lock");
    std::fs::remove_file(&lock).and_then(|()| std::fs::create_dir(&lock)).expect("a folder in its place");
    place.run(&["set", "tank", "--write", "back", "--yes"]).refused(1, &["writes BACK", "was not stored", "cannot be changed"]);
    assert!(unwrapped(&place.ok(&["status", "tank"])).contains("writes BACK"));
    std::fs::remove_dir(&lock).expect("an empty folder");
    place.ok(&["set", "tank", "--write", "back", "--yes"]);
    assert!(std::fs::read_to_string(place.config()).expect("a text").contains("write = \"back\""));
}

#[test]
fn a_drive_that_is_gone_at_the_pause_keeps_no_redundant_array_down() {
    let place = Place::new();
    let images = place.images(3, 32 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    assert!(serve.client("tank").write(0, &example(13)).expect("it writes"));
    std::fs::remove_file(drives[1]).expect("unplugged");
    place.ok(&["set", "tank", "--read-only", "on", "--force"]);
    let status = place.status("tank");
    assert_eq!((&status["health"], &status["read_only"]), (&"degraded".into(), &true.into()), "{status:#}");
    assert_eq!(serve.client("tank").read(0, 8192).expect("it reads"), example(13));
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains(&format!("{} does not exist", drives[1])) && log.contains("starts without this drive"), "{log}");
}

/// Before that, the daemon took an array that did not start after the pause for one that a command had stopped, and left it
/// stopped for ever.
#[test]
fn the_daemon_starts_an_array_that_a_pause_left_stopped() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(2, 32 * MIB);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "0"], &drives[..]].concat());
    place.ok(&[&["adopt"], &drives[..]].concat());
    let daemon = Daemon::start(&place);
    assert!(serves_after(&place, 0), "it starts");
    let kept = place.path("kept");
    std::fs::rename(drives[1], &kept).expect("unplugged");
    place.run(&["set", "tank", "--read-only", "on", "--force"]).refused(1, &["was stopped for a change and does not start"]);
    let waiting = place.run(&["status", "tank"]);
    assert!(waiting.stderr.contains("not served") && !waiting.stderr.contains("stria start tank` starts it"), "{waiting:?}");
    std::fs::rename(&kept, drives[1]).expect("plugged in");
    assert!(serves_after(&place, 20), "it is tried again");

    // A stop that fails leaves it as after a power cut, and it is tried again as well.
    let before = support::contents(&images);
    drives.iter().for_each(|drive| std::fs::OpenOptions::new().write(true).open(drive).and_then(|f| f.set_len(0)).expect("cut"));
    place.run(&["set", "tank", "--read-only", "on", "--force"]).refused(1, &["tank"]);
    drives.iter().zip(before).for_each(|(drive, bytes)| std::fs::write(drive, bytes).expect("whole again"));
    assert!(serves_after(&place, 20), "it is tried again");
    daemon.signal("-TERM");
}

/// True if the daemon serves "tank" within so many seconds.
fn serves_after(place: &Place, seconds: u64) -> bool {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    loop {
        if place.run(&["status", "tank"]).stdout.contains("nbd") {
            return true;
        }
        if std::time::Instant::now() > end {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
