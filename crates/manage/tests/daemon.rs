//! Goal: one process serves the arrays that belong to Stria on a machine, also when drives come late, leave, or are in use.
//! Method: the real program on image files, which `stria incremental` reports as udev would; real NBD clients.

mod support;

use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stria_testkit::certificates::Authority;
use support::daemon::Daemon;
use support::{Place, noise, run_tool, same};

const SIZE: u64 = 64 << 20;

/// A machine with a RAID 5 of three images and a RAID 1 of two, adopted, and a folder `elsewhere` for drives that are not here.
fn machine() -> (Place, Vec<String>, Vec<String>) {
    let place = Place::new();
    let images = place.images(5, SIZE);
    let (tank, pool) = (images[..3].to_vec(), images[3..].to_vec());
    place.is_a_machine();
    place.ok(&["create", "tank", "--level", "5", "--assume-clean", &tank[0], &tank[1], &tank[2]]);
    place.ok(&["create", "pool", "--level", "1", "--assume-clean", &pool[0], &pool[1]]);
    for drives in [&tank, &pool] {
        let arguments: Vec<&str> = ["adopt"].into_iter().chain(drives.iter().map(String::as_str)).collect();
        place.ok(&arguments);
    }
    fs::create_dir(place.path("elsewhere")).expect("a folder");
    (place, tank, pool)
}

fn elsewhere(place: &Place, drive: &str) -> PathBuf {
    place.path("elsewhere").join(PathBuf::from(drive).file_name().expect("a name"))
}

fn unplug(place: &Place, drive: &str) {
    fs::rename(drive, elsewhere(place, drive)).expect("a move");
}

fn plug_in(place: &Place, drive: &str) {
    fs::rename(elsewhere(place, drive), drive).expect("a move");
}

fn adopted(place: &Place, name: &str) -> Value {
    let ran = place.run(&["--json", "status"]);
    let list: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    list.as_array().expect("a list").iter().find(|array| array["name"] == name).cloned().unwrap_or_default()
}

fn wait_for(place: &Place, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + support::PATIENCE;
    loop {
        let view = adopted(place, name);
        if wanted(&view) {
            return view;
        }
        assert!(Instant::now() < end, "waited in vain for {what}: {view:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_served(view: &Value) -> bool {
    view["health"] == "optimal"
}

/// Before, Nagios was told that all is well, as the array that could not start was left out, and nothing named a drive that was
/// missing.
#[test]
fn an_array_that_cannot_start_names_its_lost_drives_and_is_critical_for_nagios() {
    let (place, tank, _) = machine();
    place.configure("degraded-after = \"never\"");
    let notes = place.path("state").join("routine.json");
    let daemon = Daemon::start(&place);
    let end = Instant::now() + support::PATIENCE;
    while !fs::read_to_string(&notes).is_ok_and(|text| tank.iter().all(|drive| text.contains(drive))) {
        assert!(Instant::now() < end, "the daemon has not noted its drives");
        std::thread::sleep(Duration::from_millis(50));
    }
    let nagios = || place.run(&["status", "--nagios"]);
    assert!(nagios().code == 0 && nagios().stdout.starts_with("STRIA OK"), "{:?}", nagios());
    daemon.signal("-TERM");
    daemon.ended_well();
    for lost in 1..=3 {
        // One missing drive: it waits. Two: it cannot start. Three: nothing of it is here.
        unplug(&place, &tank[3 - lost]);
        let daemon = Daemon::start(&place);
        let status = place.run(&["status"]);
        assert_eq!(status.code, 3, "{status:?}");
        for (slot, drive) in tank.iter().enumerate() {
            let named = status.stdout.contains(&format!("slot {slot} last had {drive}"));
            assert_eq!(named, slot >= 3 - lost, "slot {slot} with {lost} lost: {status:?}");
        }
        assert!(place.run(&["explain"]).stdout.contains(&format!("slot 2 last had {}", tank[2])));
        let told = nagios();
        assert_eq!(told.code, 2, "{told:?}");
        assert!(
            told.stdout.starts_with("STRIA CRITICAL - tank NOT SERVED: ") && told.stdout.contains(" not_served=1\n"),
            "{told:?}"
        );
        let told = place.run(&["status", "tank", "--nagios"]);
        assert!(told.code == 2 && told.stdout.contains(&format!("slot 2 last had {}", tank[2])), "{told:?}");
        let mdstat = place.run(&["status", "--mdstat"]);
        assert!(mdstat.stdout.starts_with("Personalities : "), "{mdstat:?}");
        assert_eq!(mdstat.stdout.contains("\ntank : inactive "), lost < 3, "{mdstat:?}");
        mdstat.refused(3, &["tank: NOT SERVED"]);
        daemon.signal("-TERM");
        daemon.ended_well();
    }
    (0..3).for_each(|slot| plug_in(&place, &tank[slot]));
    // Of a drive that came twice, the one that the array has used is named.
    unplug(&place, &tank[1]);
    fs::copy(&tank[2], &tank[1]).expect("a copy");
    let daemon = Daemon::start(&place);
    let told = place.run(&["status"]).stdout;
    assert!(told.contains("copies of the same member") && told.contains(&format!("slot 2 last had {}", tank[2])), "{told}");
    daemon.signal("-TERM");
    daemon.ended_well();
    plug_in(&place, &tank[1]);
    // A configuration that was emptied is a valid one; the arrays that it has lost are told of once.
    let config = fs::read_to_string(place.config()).expect("a text");
    let (head, _) = config.split_once("[[array]]").expect("arrays");
    for told in [2, 0] {
        fs::write(place.config(), head).expect("a file");
        let daemon = Daemon::start(&place);
        daemon.signal("-TERM");
        let log = daemon.ended_well();
        assert_eq!(log.matches("the configuration does not name it any more").count(), told, "{log}");
        assert_eq!(log.contains(&format!("; slot 2 last had {}", tank[2])), told > 0, "{log}");
    }
    fs::write(place.config(), config).expect("a file");
    // An array that was stopped on purpose is no fault.
    let _daemon = Daemon::start(&place);
    place.ok(&["stop", "tank"]);
    assert!(nagios().code == 0 && nagios().stdout.contains("tank stopped"), "{:?}", nagios());
    place.ok(&["stop", "pool"]);
    assert_eq!(nagios().code, 3, "{:?}", nagios());
}

#[test]
fn an_adoption_says_if_the_array_is_not_served_and_events_say_what_has_changed() {
    let (place, ..) = machine();
    place.configure("degraded-after = \"never\"");
    let lake: Vec<String> = ["l0", "l1"].iter().map(|name| place.path(name).display().to_string()).collect();
    for image in &lake {
        fs::File::create(image).and_then(|file| file.set_len(SIZE)).expect("an image");
    }
    place.ok(&["create", "lake", "--level", "1", "--assume-clean", &lake[0], &lake[1]]);
    unplug(&place, &lake[1]);
    let _daemon = Daemon::start(&place);
    let told = place.ok(&["adopt", "lake", &lake[0]]);
    assert!(told.contains("it is not served: \"lake\" lacks the drive of slot 1"), "{told}");
    place.ok(&["release", "lake"]);
    plug_in(&place, &lake[1]);
    let told = place.ok(&["adopt", "lake", &lake[0], &lake[1]]);
    assert!(!told.contains("not served"), "{told}");
    // Orders say that the configuration was read; events say what that changed.
    let blank = place.path("blank").display().to_string();
    fs::File::create(&blank).and_then(|file| file.set_len(SIZE)).expect("an image");
    place.ok(&["spare", "add", &blank]);
    place.ok(&["spare", "remove", &blank]);
    place.ok(&["stop", "lake"]);
    place.ok(&["rename", "lake", "pond"]);
    let events = place.ok(&["events"]);
    let seen: Vec<&str> = ["adopted", "released", "pool", "renamed"].into_iter().filter(|kind| events.contains(kind)).collect();
    assert_eq!(seen.len(), 4, "{events}");
    let said = [
        "belongs to Stria now",
        "is no longer Stria's",
        "blank is in the pool of spares now",
        "blank is no longer in the pool of spares",
        "is called \"pond\" now",
    ];
    said.iter().for_each(|words| assert!(events.contains(words), "{words}: {events}"));
}

#[test]
fn the_daemon_serves_its_arrays_and_stays_when_they_stop() {
    let (place, ..) = machine();
    let daemon = Daemon::start(&place);
    for name in ["tank", "pool"] {
        assert!(is_served(&adopted(&place, name)));
    }
    // Both arrays are served at one socket, and keep their data over a restart.
    let source = place.path("source");
    noise(&source, 16 << 20, 7);
    let uri = daemon.uri(&place, "pool");
    if run_tool("nbdcopy", &["--flush", source.to_str().expect("text"), &uri]).is_none() {
        return;
    }
    daemon.signal("-TERM");
    daemon.ended_well();
    let daemon = Daemon::start(&place);
    let copy = place.path("copy");
    run_tool("nbdcopy", &[&uri, copy.to_str().expect("text")]).expect("it was here before");
    fs::File::options().write(true).open(&copy).and_then(|file| file.set_len(16 << 20)).expect("a file");
    assert!(same(&source, &copy));

    // An array that was stopped by command stays stopped when drives come. A command starts it.
    place.ok(&["stop", "tank"]);
    let stopped = adopted(&place, "tank");
    assert_eq!(stopped["state"], "stopped", "{stopped:#}");
    place.ok(&["incremental", &place.path("d0").display().to_string(), "--plugged-in"]);
    place.ok(&["reload"]);
    assert_eq!(adopted(&place, "tank")["state"], "stopped");
    assert_eq!(place.run(&["status"]).code, 0, "what was stopped on purpose is not a fault");
    place.ok(&["start", "tank"]);
    assert!(is_served(&adopted(&place, "tank")));
    assert!(place.ok(&["stop"]).contains("the daemon goes on"));
    place.run(&["start", "lake"]).refused(1, &["lake", "tank", "stria adopt"]);
    place.ok(&["start", "pool"]);
    place.ok(&["fail", "pool", "0", "--force"]);
    daemon.signal("-TERM");
    let log = daemon.ended_well();
    assert!(log.contains("has stopped"), "{log}");

    // The orders and their users are still recorded after the end.
    let events = place.ok(&["events", "pool"]);
    assert!(events.contains("array \"pool\" is served from 2 drives") && events.contains("stops"), "{events}");
    let user = rustix::process::geteuid().as_raw();
    let orders = place.ok(&["events", "--orders"]);
    let words = format!("(user {user})");
    assert!(orders.contains(&words) && orders.contains("dropping of member ") && orders.contains("process "), "{orders}");
    assert!(orders.contains("refused or failed (status 404)"), "{orders}");
}

/// A start waits for missing drives. It waits for nothing once all are here, nor for members that the array had lost before.
#[test]
fn arrays_start_when_their_drives_are_here() {
    let (place, tank, pool) = machine();
    place.configure("degraded-after = \"never\"");
    unplug(&place, &tank[1]);
    pool.iter().for_each(|drive| unplug(&place, drive));
    let daemon = Daemon::start(&place);
    let waiting = adopted(&place, "tank");
    assert_eq!(waiting["state"], "waiting");
    // `start = false` holds for it, too.
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let uuid = adopted(&place, "pool")["uuid"].as_str().expect("a UUID").to_owned();
    let stays = text.replace(&format!("uuid = \"{uuid}\""), &format!("uuid = \"{uuid}\"\nstart = false"));
    assert_ne!(text, stays);
    fs::write(place.config(), stays).expect("a file");
    place.ok(&["reload"]);
    assert_eq!(adopted(&place, "pool")["state"], "stopped");
    fs::write(place.config(), text).expect("a file");
    place.ok(&["reload"]);
    assert_eq!(adopted(&place, "pool")["state"], "absent");
    assert!(
        waiting["text"].as_str().is_some_and(|text| text.contains("slot 1") && text.contains("stria start tank")),
        "{waiting:#}"
    );
    assert_eq!(adopted(&place, "pool")["state"], "absent");
    let status = place.run(&["status"]);
    assert!(
        status.code == 3 && status.stdout.contains("tank: NOT SERVED") && status.stdout.contains("pool: NOT SERVED"),
        "{status:?}"
    );
    place.run(&["status", "tank"]).refused(1, &["not served", "slot 1"]);

    // Drives come: one of them twice, and one that belongs to no array.
    plug_in(&place, &tank[1]);
    place.ok(&["incremental", &tank[1], "--plugged-in"]);
    place.ok(&["incremental", &tank[1], "--plugged-in"]);
    wait_for(&place, "tank", "its start", is_served);
    plug_in(&place, &pool[0]);
    place.ok(&["incremental", &pool[0]]);
    wait_for(&place, "pool", "its first drive", |view| view["state"] == "waiting");
    plug_in(&place, &pool[1]);
    place.ok(&["incremental", &pool[1]]);
    wait_for(&place, "pool", "its start", is_served);
    let stranger = place.path("stranger");
    fs::File::create(&stranger).and_then(|file| file.set_len(SIZE)).expect("a file");
    let stranger = stranger.display().to_string();
    place.run(&["incremental", &stranger]).refused(1, &["not a member"]);

    // A start does not wait for members that were lost while the array ran.
    place.ok(&["fail", "tank", &tank[2], "--force"]);
    place.ok(&["stop"]);
    unplug(&place, &tank[2]);
    place.ok(&["start", "tank"]);
    assert_eq!(adopted(&place, "tank")["health"], "degraded");
    daemon.signal("-TERM");
    daemon.ended_well();
    let daemon = Daemon::start(&place);
    assert_eq!(adopted(&place, "tank")["health"], "degraded", "it knows that it lacks one");

    // The drive comes back. It returns by the bitmap, as it was plugged in just now.
    plug_in(&place, &tank[2]);
    place.ok(&["incremental", &tank[2]]);
    assert_eq!(adopted(&place, "tank")["health"], "degraded", "nobody plugged it in");
    place.ok(&["incremental", &tank[2], "--plugged-in"]);
    wait_for(&place, "tank", "the return", is_served);

    // A second path to a member in use, or a copy of it, stays out. Nothing is written to it, because the write could reach the
    // member.
    let (copy, before) = (place.path("copy"), place.path("before"));
    for path in [&copy, &before] {
        fs::copy(&tank[1], path).expect("a copy");
    }
    let shown = copy.display().to_string();
    place.ok(&["incremental", &shown, "--plugged-in"]);
    for command in [&["add", "tank", &shown, "--force"][..], &["replace", "tank", &tank[0], &shown, "--force"]] {
        place.run(command).refused(1, &["carries the same member as", &tank[1], "detach it"]);
    }
    assert!(same(&copy, &before));
    daemon.signal("-TERM");
    let log = daemon.ended_well();
    assert!(log.contains("is back in slot 2") && log.contains("stays out of \"tank\": it is a copy of"), "{log}");
}

#[test]
fn an_array_starts_degraded_when_time_is_up() {
    let (place, tank, _) = machine();
    place.configure("degraded-after = \"2s\"");
    unplug(&place, &tank[0]);
    let daemon = Daemon::start(&place);
    let view = wait_for(&place, "tank", "its start", |view| view["health"] == "degraded");
    assert_eq!(view["members"].as_array().map(Vec::len), Some(2), "{view:#}");
    // With too few drives an array never starts; the daemon forces nothing.
    daemon.kill();
    unplug(&place, &tank[1]);
    let daemon = Daemon::start(&place);
    let view = wait_for(&place, "tank", "the reason", |view| view["state"] == "waiting");
    assert!(view["text"].as_str().is_some_and(|text| text.contains("missing")), "{view:#}");
    place.run(&["start", "tank"]).refused(1, &["missing"]);
    let end = Instant::now() + support::PATIENCE;
    while !place.ok(&["alarm"]).contains("NotServed") {
        assert!(Instant::now() < end, "no alarm tells that the array does not start");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Of two copies of a member the daemon chooses none.
    fs::copy(&tank[2], place.path("copy")).expect("a copy");
    plug_in(&place, &tank[1]);
    let copy = place.path("copy").display().to_string();
    place.ok(&["incremental", &copy]);
    place.run(&["start", "tank"]).refused(1, &["copies of the same member"]);
    fs::remove_file(copy).expect("it is there");
    // The array is degraded and was not stopped cleanly, but its write log suffices.
    place.ok(&["start", "tank"]);
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Before, one try that found a drive in use was the last: the daemon then looked at all drives without a pause, for ever.
#[test]
fn an_array_that_waited_long_enough_is_tried_until_its_drives_are_free() {
    let (place, tank, _) = machine();
    place.configure("degraded-after = \"1s\"");
    unplug(&place, &tank[0]);
    let holder = fs::File::open(&tank[1]).expect("an image");
    holder.lock().expect("a lock");
    let daemon = Daemon::start(&place);
    let is_in_use = |view: &Value| view["text"].as_str().is_some_and(|text| text.contains("in use by"));
    wait_for(&place, "tank", "the reason", is_in_use);
    // Reads of the process: each look at all drives costs some.
    let reads = || {
        let text = fs::read_to_string(format!("/proc/{}/io", daemon.pid())).expect("its counters");
        let line = text.lines().find_map(|line| line.strip_prefix("syscr: ")).expect("a counter");
        line.parse::<u64>().expect("a number")
    };
    let before = reads();
    // Two tries further on.
    std::thread::sleep(Duration::from_secs(8));
    let view = adopted(&place, "tank");
    assert!(is_in_use(&view), "it says what it waits for: {view:#}");
    let looks = reads() - before;
    assert!(looks < 20_000, "{looks} reads in eight seconds");
    drop(holder);
    wait_for(&place, "tank", "its start", |view| view["health"] == "degraded");
    let events = place.ok(&["events", "tank"]);
    assert_eq!(events.matches("starts without the missing drives").count(), 1, "{events}");
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Another process runs the array, so what a member that stays out has missed is more at each try: it is reported once all the same.
#[test]
fn a_member_that_stays_out_is_reported_once_while_its_array_is_in_use() {
    let (place, tank, _) = machine();
    let socket = place.path("other.sock").display().to_string();
    let serve = |drives: &[String]| {
        let arguments: Vec<&str> = drives.iter().map(String::as_str).chain(["--socket", &socket]).collect();
        place.serve(&arguments)
    };
    let first = serve(&tank);
    place.ok(&["fail", "tank", &tank[2], "--force", "--socket", &socket]);
    place.ok(&["stop", "tank", "--socket", &socket]);
    first.ended_well();
    let serve = serve(&tank[..2]);
    let daemon = Daemon::start(&place);
    let is_in_use = |view: &Value| view["text"].as_str().is_some_and(|text| text.contains("in use by"));
    for _ in 0..3 {
        wait_for(&place, "tank", "the reason", is_in_use);
        // More superblock updates, and another try.
        let mut client = serve.client("tank");
        assert!(client.write(0, &[7; 8192]).expect("it writes"));
        drop(client);
        std::thread::sleep(Duration::from_secs(6));
    }
    let events = place.ok(&["events", "tank"]);
    assert_eq!(events.matches("stays out").count(), 1, "{events}");
    drop(serve);
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn a_daemon_that_looks_at_no_block_devices_names_its_configuration() {
    let (place, tank, _) = machine();
    tank.iter().for_each(|drive| unplug(&place, drive));
    let daemon = Daemon::start(&place);
    let view = adopted(&place, "tank");
    let text = view["text"].as_str().expect("a reason");
    assert!(view["state"] == "absent" && text.contains("`block-devices = false`"), "{view:#}");
    place.run(&["start", "tank"]).refused(1, &["none of its drives is here", "`block-devices = false`"]);
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// A second process on the same drives is refused with a reason, and a second daemon ends.
#[test]
fn an_array_has_one_master() {
    let (place, tank, pool) = machine();
    let elsewhere = place.path("other.sock").display().to_string();
    let serve = place
        .serve(&[&tank[..], &["--socket".to_owned(), elsewhere.clone()]].concat().iter().map(String::as_str).collect::<Vec<_>>());
    let daemon = Daemon::start(&place);
    assert!(is_served(&adopted(&place, "pool")), "the other array does not suffer");
    let view =
        wait_for(&place, "tank", "the reason", |view| view["text"].as_str().is_some_and(|text| text.contains("in use by")));
    assert_eq!(view["state"], "waiting", "{view:#}");
    place.run(&["start", "tank"]).refused(1, &["in use by", &tank[0], &format!("pid {}", serve.pid())]);
    let second = [&["serve"], &pool.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--socket", &elsewhere]].concat();
    place.run(&second).refused(1, &["in use by"]);
    place.run(&["daemon"]).refused(1, &["another `stria serve` or `stria daemon` listens"]);
    drop(serve);
    place.ok(&["start", "tank"]);
    assert!(is_served(&adopted(&place, "tank")));

    // An invalid configuration changes nothing. A released array goes back to mdadm.
    let text = fs::read_to_string(place.config()).expect("a text");
    fs::write(place.config(), format!("{text}\n[daemn]\n")).expect("a file");
    place.run(&["reload"]).refused(1, &["daemn", "goes on as it was"]);
    place.run(&["config", "check"]).refused(1, &["daemn", "stria.toml:"]);
    fs::write(place.config(), text).expect("a file");
    place.run(&["release", "pool"]).refused(1, &["is served", "stria stop pool"]);
    place.ok(&["stop", "pool"]);
    place.ok(&["release", "pool"]);
    assert_eq!(adopted(&place, "pool"), Value::Null);
    place.run(&["start", "pool"]).refused(1, &["no array \"pool\" belongs"]);
    assert!(!place.ok(&["config", "show"]).contains("pool"));
    // SIGHUP makes the daemon read its configuration again.
    place.ok(&[&["adopt", "--socket", &elsewhere], &pool.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    daemon.signal("-HUP");
    wait_for(&place, "pool", "the reload", is_served);
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// The notifications that systemd gets: ready when clients can connect, watchdog while lanes answer, and none when a lane hangs.
#[test]
fn the_supervisor_hears_what_it_must() {
    let (place, ..) = machine();
    let path = place.path("notify");
    let supervisor = UnixDatagram::bind(&path).expect("a socket");
    supervisor.set_read_timeout(Some(support::PATIENCE)).expect("a time-out");
    let path = path.display().to_string();
    let daemon = Daemon::start_with(&place, &[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", "2000000")]);
    let hear = |wanted: &str| {
        let end = Instant::now() + support::PATIENCE;
        let mut text = [0; 4096];
        while Instant::now() < end {
            let len = supervisor.recv(&mut text).expect("it speaks");
            if String::from_utf8_lossy(&text[..len]).lines().any(|line| line == wanted) {
                return;
            }
        }
        panic!("{wanted} was not said");
    };
    hear("READY=1");
    (0..3).for_each(|_| hear("WATCHDOG=1"));
    daemon.signal("-TERM");
    hear("STOPPING=1");
    daemon.ended_well();
}

/// A configuration that was cut short is valid if the cut is between two keys. When it is whole again, the arrays are the
/// daemon's as before.
#[test]
fn an_array_that_is_in_the_configuration_again_is_still_served() {
    let (place, _, _) = machine();
    let daemon = Daemon::start(&place);
    let whole = fs::read_to_string(place.config()).expect("a configuration");
    fs::write(place.config(), whole.split("[[array]]").next().expect("a part")).expect("a file");
    assert!(place.ok(&["reload"]).contains("served until it is stopped"));
    fs::write(place.config(), whole).expect("a file");
    assert!(place.ok(&["reload"]).contains("2 arrays, 2 served"));
    let shown = place.ok(&["status"]);
    assert!(!shown.contains("NOT SERVED"), "{shown}");
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Events wait in memory while the disk takes none, and none is lost.
#[test]
fn events_that_the_disk_did_not_take_are_written_when_it_does() {
    let (place, tank, _) = machine();
    let file = place.path("state/events.jsonl");
    // A folder in its place takes no events, as a full disk.
    fs::create_dir_all(&file).expect("a folder");
    let daemon = Daemon::start(&place);
    place.ok(&["fail", "tank", &tank[0], "--force"]);
    wait_for(&place, "tank", "the loss", |view| view["health"] == "degraded");
    fs::remove_dir(&file).expect("a folder");
    let end = Instant::now() + support::PATIENCE;
    while !fs::read_to_string(&file).is_ok_and(|events| events.contains("member_failed") && events.contains("\"started\"")) {
        assert!(Instant::now() < end, "{:?}", fs::read_to_string(&file));
        std::thread::sleep(Duration::from_millis(100));
    }
    daemon.signal("-TERM");
    assert!(daemon.ended_well().contains("events are not kept"));
}

/// Found by hand: the array once came back degraded, as only block devices and the files of `search` are looked at.
#[test]
fn an_image_file_that_joined_an_array_is_found_at_the_next_start() {
    let (place, tank, pool) = machine();
    let [added, copied, spare] = ["added", "copied", "spare"].map(|name| {
        let path = place.path(name);
        fs::File::create(&path).and_then(|file| file.set_len(SIZE)).expect("an image file");
        path.to_str().expect("a plain path").to_owned()
    });
    let daemon = Daemon::start(&place);
    let joined = place.ok(&["add", "tank", &added]);
    assert!(joined.contains("names it under `search`"), "{joined}");
    place.ok(&["fail", "tank", &tank[1], "--yes"]);
    place.settled("tank");
    let replaced = place.ok(&["replace", "tank", &tank[2], &copied, "--wait"]);
    assert!(replaced.contains("names it under `search`"), "{replaced}");
    // A spare of the pool stays in its array when it leaves the pool.
    place.ok(&["spare", "add", &spare]);
    place.ok(&["fail", "pool", &pool[1], "--yes"]);
    place.wait_for("pool", "the spare of the pool", |status| status["health"] == "optimal");
    place.ok(&["spare", "remove", &spare]);
    for name in ["tank", "pool"] {
        place.ok(&["stop", name]);
    }
    for name in ["tank", "pool"] {
        place.ok(&["start", name]);
        assert!(is_served(&adopted(&place, name)), "{name}");
    }
    daemon.signal("-TERM");
    daemon.ended_well();
    let _daemon = Daemon::start(&place);
    for name in ["tank", "pool"] {
        assert!(is_served(&wait_for(&place, name, "its start", |view| view["health"].is_string())), "{name}");
    }
}

/// A certificate that cannot be read kept the daemon, and with it every array, from starting.
#[test]
fn arrays_and_unix_sockets_are_served_although_a_certificate_cannot_be_read() {
    let (place, ..) = machine();
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let files = |name: &str| format!("tls-cert = \"/nowhere/{name}.pem\"\ntls-key = \"/nowhere/{name}-key.pem\"\n");
    let listen = "listen = [\"tcp:127.0.0.1:0\"]\n";
    let api = "[api]\nlisten = [\"127.0.0.1:0\"]\n";
    fs::write(place.config(), format!("{text}\n[nbd]\n{listen}{}{api}{}", files("nbd"), files("api"))).expect("a file");
    place.run(&["config", "check"]).refused(1, &["[nbd]", "/nowhere/nbd.pem", "NBD over TCP is not"]);
    let daemon = Daemon::start(&place);
    wait_for(&place, "tank", "the array", |view| view["state"] == "served" || view["health"] == "optimal");
    let uri = daemon.uri(&place, "tank");
    assert!(uri.starts_with("nbd+unix:"), "{uri}");
    let end = Instant::now() + support::PATIENCE;
    let alarms = loop {
        let told = place.ok(&["alarm"]);
        if told.matches("ConfigFault").count() == 2 {
            break support::unwrapped(&told);
        }
        assert!(Instant::now() < end, "{told}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(alarms.contains("/nowhere/nbd.pem") && alarms.contains("/nowhere/api.pem"), "{alarms}");
    let explained = place.run(&["explain"]);
    assert_eq!(explained.code, 3, "{explained:?}");
    assert!(
        explained.stdout.contains("configuration: [nbd]: ") && explained.stdout.contains("configuration: [api]: "),
        "{explained:?}"
    );
    // Another configuration ends the alarms; they lasted until the restart.
    fs::write(place.config(), &text).expect("a file");
    place.ok(&["reload"]);
    let end = Instant::now() + support::PATIENCE;
    while place.ok(&["alarm"]).contains("ConfigFault") {
        assert!(Instant::now() < end, "{}", place.ok(&["alarm"]));
        std::thread::sleep(Duration::from_millis(200));
    }
    daemon.signal("-TERM");
    daemon.ended_well();
    // Orders are words in the events.
    let orders = support::unwrapped(&place.ok(&["events", "--orders"]));
    assert!(orders.contains("ordered: reload of the configuration; done") && !orders.contains("/v1/"), "{orders}");
}

/// The answer of the API's unix socket to a user whose only group is this one.
fn asked_as(group: &str, socket: &str) -> String {
    let user = ["--reuid", "65534", "--regid", group, "--clear-groups"];
    let curl = ["curl", "-sS", "--unix-socket", socket, "http://localhost/api/v1"];
    let asked = std::process::Command::new("setpriv").args(user).args(curl).output().expect("setpriv is part of util-linux");
    String::from_utf8_lossy(&[asked.stdout, asked.stderr].concat()).into_owned()
}

/// A directory on the network comes later than the daemon, and a package makes its group when it is installed.
#[test]
fn sockets_get_groups_that_come_after_the_start() {
    const TEST: &str = "sockets_get_groups_that_come_after_the_start";
    if std::env::var_os("STRIA_GROUPS_INSIDE").is_none() {
        if !std::process::Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
            return support::may_skip("there is no mount namespace to be had", "run as root");
        }
        let this = std::env::current_exe().expect("a path");
        let mut again = std::process::Command::new("unshare");
        again.args(["-m"]).arg(this).args(["--exact", TEST, "--nocapture"]).env("STRIA_GROUPS_INSIDE", "1");
        assert!(again.status().expect("unshare was there").success(), "see above");
        return;
    }
    let (place, ..) = machine();
    // The machine's groups, to which only this namespace adds some.
    let groups = place.path("group");
    let known = fs::read_to_string("/etc/group").expect("a file");
    fs::write(&groups, &known).expect("a file");
    let bound = std::process::Command::new("mount").arg("--bind").arg(&groups).arg("/etc/group").status();
    assert!(bound.is_ok_and(|status| status.success()), "it is root here");
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let keys = "[nbd]\ngroup = \"late-users\"\n[api]\ngroup = \"late-operators\"\nadmin-group = \"late-admins\"\n";
    fs::write(place.config(), format!("{text}\n{keys}")).expect("a file");
    let begun = Instant::now();
    let daemon = Daemon::start(&place);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let uri = daemon.uri(&place, "tank");
    let nbd = uri.split_once("socket=").expect("a unix socket").1.to_owned();
    let api = nbd.replace(".nbd", ".api");
    let access = |socket: &str| fs::metadata(socket).map(|file| (file.gid(), file.mode() & 0o777)).expect("a socket");
    assert_eq!((access(&nbd).1, access(&api).1), (0o700, 0o600), "root alone");
    let wait = |wanted: [(u32, u32); 2]| {
        let end = Instant::now() + support::PATIENCE;
        while [access(&nbd), access(&api)] != wanted {
            assert!(Instant::now() < end, "{:?} {:?}", access(&nbd), access(&api));
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    fs::write(&groups, format!("{known}late-users:x:54321:\nlate-admins:x:54323:\n")).expect("a file");
    wait([(54321, 0o660), (54323, 0o660)]);
    fs::write(&groups, format!("{known}late-users:x:54321:\nlate-admins:x:54323:\nlate-operators:x:54322:\n")).expect("a file");
    wait([(54321, 0o660), (54322, 0o660)]);
    // Both reach the socket, with their roles. Others must be able to enter the folder, as they can enter /run/stria.
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).expect("its own folder");
    assert!(asked_as("54322", &api).contains("\"role\":\"operate\""), "{}", asked_as("54322", &api));
    assert!(asked_as("54323", &api).contains("\"role\":\"admin\""), "{}", asked_as("54323", &api));
    daemon.signal("-TERM");
    let log = daemon.ended_well();
    assert!(log.contains("group \"late-users\" is there now"), "{log}");
}

/// Before, the socket belonged to `group` alone, so members of `admin-group` could not connect.
#[test]
fn both_groups_of_the_api_reach_its_socket() {
    if !rustix::process::geteuid().is_root() {
        return support::may_skip("a program cannot take other groups", "run as root");
    }
    let (place, ..) = machine();
    let text = fs::read_to_string(place.config()).expect("a configuration");
    fs::write(place.config(), format!("{text}\n[api]\ngroup = \"54322\"\nadmin-group = \"54323\"\n")).expect("a file");
    // Others must be able to enter the folder, as they can enter /run/stria.
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).expect("its own folder");
    let daemon = Daemon::start(&place);
    let socket = place.path("control.api").display().to_string();
    assert!(asked_as("54322", &socket).contains("\"role\":\"operate\""), "{}", asked_as("54322", &socket));
    assert!(asked_as("54323", &socket).contains("\"role\":\"admin\""), "{}", asked_as("54323", &socket));
    assert!(!asked_as("54324", &socket).contains("role"), "{}", asked_as("54324", &socket));
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Before, NBD over TCP stayed away until a restart, and a port that another program had kept the daemon from starting.
#[test]
fn nbd_over_tcp_is_served_once_its_files_are_good_and_its_port_is_free() {
    let (place, ..) = machine();
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let keys = place.path("keys");
    let file = |name: &str| format!("{:?}", keys.join(name).display().to_string());
    let [cert, key, authority] = ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(file);
    let nbd = format!("[nbd]\nlisten = [\"tcp:127.0.0.1:{port}\"]\ntls-cert = {cert}\ntls-key = {key}\ntls-ca = {authority}\n");
    fs::write(place.config(), format!("{text}\n{nbd}")).expect("a file");
    let daemon = Daemon::start(&place);
    wait_for(&place, "tank", "its start", is_served);
    let exports = |place: &Place| place.status("tank")["exports"].clone();
    assert!(exports(&place)[0].as_str().is_some_and(|uri| uri.starts_with("nbd+unix:")), "{}", exports(&place));
    let wait_for_alarm = |words: &str| {
        let end = Instant::now() + support::PATIENCE;
        while !support::unwrapped(&place.ok(&["alarm"])).contains(words) {
            assert!(Instant::now() < end, "{words} is not in {}", place.ok(&["alarm"]));
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    wait_for_alarm("server-cert.pem");
    Authority::with_both(&keys);
    wait_for_alarm(&format!("127.0.0.1:{port}"));
    drop(taken);
    let uri = format!("nbds://127.0.0.1:{port}/tank");
    let end = Instant::now() + support::PATIENCE;
    while !exports(&place).as_array().expect("a list").contains(&uri.as_str().into()) {
        assert!(Instant::now() < end, "{} lacks {uri}; {}", exports(&place), place.ok(&["events"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    let end = Instant::now() + support::PATIENCE;
    while place.ok(&["alarm"]).contains("ConfigFault") {
        assert!(Instant::now() < end, "{}", place.ok(&["alarm"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    // A client with a certificate is served, and one without encryption is not.
    let uri = format!("{uri}?tls-certificates={}", keys.display());
    if run_tool("nbdinfo", &["--size", &uri]).is_some() {
        let plain = std::process::Command::new("nbdinfo").args(["--size", &format!("nbd://127.0.0.1:{port}/tank")]).output();
        assert!(plain.is_ok_and(|plain| !plain.status.success()));
        // All files are renewed: the client of the old authority is served no more, and the new one is.
        Authority::with_both(&keys);
        let answers =
            || std::process::Command::new("nbdinfo").args(["--size", &uri]).output().is_ok_and(|it| it.status.success());
        let end = Instant::now() + support::PATIENCE;
        while !answers() {
            assert!(Instant::now() < end, "the renewed files are not used");
            std::thread::sleep(Duration::from_millis(100));
        }
        fs::write(keys.join("server-key.pem"), "no key").expect("a file");
        wait_for_alarm("new connections use what was read before");
        assert!(answers());
    }
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Waits for an event whose text has these words.
fn wait_for_event(place: &Place, words: &[&str]) {
    let end = Instant::now() + support::PATIENCE;
    loop {
        let events = support::unwrapped(&place.ok(&["events"]));
        if words.iter().all(|word| events.contains(word)) {
            return;
        }
        assert!(Instant::now() < end, "{words:?} are in no event: {events}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn image(place: &Place, name: &str) -> String {
    let path = place.path(name);
    fs::File::create(&path).and_then(|file| file.set_len(SIZE)).expect("an image file");
    path.to_str().expect("a plain path").to_owned()
}

/// Before, the daemon made a new spare of it, which overwrote what it held.
#[test]
fn a_former_member_whose_slot_is_taken_is_not_overwritten_when_it_is_plugged_in() {
    let (place, tank, _) = machine();
    let _daemon = Daemon::start(&place);
    place.ok(&["fail", "tank", &tank[2], "--force"]);
    place.ok(&["remove", "tank", &tank[2]]);
    unplug(&place, &tank[2]);
    // The rebuild has not ended when the drive returns, so the bitmap still tells what it missed.
    place.ok(&["speed", "tank", "--max", "1M"]);
    place.ok(&["add", "tank", &image(&place, "added")]);
    wait_for(&place, "tank", "the rebuild", |view| view["sweep"]["kind"] == "rebuild");
    plug_in(&place, &tank[2]);
    let before = support::contents(&tank[2..]);
    place.ok(&["incremental", &tank[2], "--plugged-in"]);
    let remedy = format!("stria add tank {}", tank[2]);
    wait_for_event(&place, &[&tank[2], "slot 2", "was left as it is", &remedy, "stria wipe"]);
    assert!(support::contents(&tank[2..]) == before, "something was written");
    let view = adopted(&place, "tank");
    assert!(view["members"].as_array().expect("a list").iter().all(|member| member["path"] != *tank[2]), "{view:#}");
    // An administrator may decide so.
    place.ok(&["add", "tank", &tank[2]]);
    wait_for(&place, "tank", "the spare", |view| {
        view["members"].as_array().expect("a list").iter().any(|member| member["path"] == *tank[2] && member["role"] == "spare")
    });
}

/// Before, an event was the only trace of such a drive.
#[test]
fn a_drive_that_is_left_alone_is_told_of_until_it_is_gone_or_carries_something_else() {
    let (place, tank, _) = machine();
    let _daemon = Daemon::start(&place);
    place.ok(&["fail", "tank", &tank[2], "--force"]);
    place.ok(&["remove", "tank", &tank[2]]);
    unplug(&place, &tank[2]);
    place.ok(&["add", "tank", &image(&place, "added")]);
    wait_for(&place, "tank", "the spare", is_served);
    assert!(place.ok(&["explain", "tank"]).contains("nothing is wrong"));
    for ends_by_a_wipe in [false, true] {
        plug_in(&place, &tank[2]);
        place.ok(&["incremental", &tank[2], "--plugged-in"]);
        wait_for(&place, "tank", "the word about it", |view| view["left_alone"][0]["path"] == *tank[2]);
        let told = support::unwrapped(&place.ok(&["status", "tank"]));
        assert!(told.contains(&format!("{} came back and", tank[2])), "{told}");
        let explained = place.run(&["--json", "explain", "tank"]);
        let matters: Value = serde_json::from_str(&explained.stdout).expect("JSON");
        assert_eq!((explained.code, &matters[0]["kind"], &matters[0]["urgency"]), (3, &"left_alone".into(), &"notice".into()));
        assert!(matters[0]["what"].as_str().is_some_and(|what| what.contains("stria add tank")), "{matters:#}");
        match ends_by_a_wipe {
            true => drop(place.ok(&["wipe", "--force", &tank[2]])),
            false => unplug(&place, &tank[2]),
        }
        wait_for(&place, "tank", "its end", |view| view["left_alone"].is_null());
        assert!(place.ok(&["explain", "tank"]).contains("nothing is wrong"));
    }
}

/// Before, a drive that came back before the array had noticed its loss stayed out for good.
#[test]
fn a_drive_that_returns_before_its_array_has_missed_it_is_taken_back_later() {
    let (place, tank, _) = machine();
    let _daemon = Daemon::start(&place);
    // What the daemon has open is gone from its path, and a drive with the same content is there.
    let gone = elsewhere(&place, &tank[2]);
    unplug(&place, &tank[2]);
    fs::copy(&gone, &tank[2]).expect("a copy");
    place.ok(&["incremental", &tank[2], "--plugged-in"]);
    wait_for_event(&place, &[&tank[2], "still counts"]);
    assert!(is_served(&adopted(&place, "tank")));
    place.ok(&["fail", "tank", "2", "--force"]);
    wait_for_event(&place, &["is back in slot 2"]);
    wait_for(&place, "tank", "the return", is_served);
}

/// Before, a spare of the array that came late was ignored without a word.
#[test]
fn a_spare_of_an_array_that_is_plugged_in_later_joins_it() {
    let (place, ..) = machine();
    let spare = image(&place, "spare");
    let daemon = Daemon::start(&place);
    place.ok(&["add", "tank", &spare]);
    daemon.signal("-TERM");
    daemon.ended_well();
    unplug(&place, &spare);
    let _daemon = Daemon::start(&place);
    let has_spare = |view: &Value| view["members"].as_array().expect("a list").iter().any(|member| member["path"] == *spare);
    assert!(!has_spare(&wait_for(&place, "tank", "its start", is_served)));
    plug_in(&place, &spare);
    place.ok(&["incremental", &spare, "--plugged-in"]);
    wait_for(&place, "tank", "its spare", has_spare);
    // While it is used, another message about it changes nothing.
    place.ok(&["incremental", &spare, "--plugged-in"]);
    place.ok(&["reload"]);
    let events = support::unwrapped(&place.ok(&["events"]));
    assert!(!events.contains("does not join"), "{events}");
}
