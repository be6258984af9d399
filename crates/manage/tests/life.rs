//! Goal: an array survives what administrators do to it, and its bytes stay the same.
//! Method: the real program on image files, as an ordinary user; real NBD clients write and compare.

mod support;

use support::{Place, noise, run_tool, same, tool};

/// Create, serve, fill, fail, rebuild on a spare, scrub, stop, serve again: the same bytes throughout.
#[test]
fn array_keeps_its_bytes_through_failure_rebuild_scrub_and_restart() {
    let place = Place::new();
    let images = place.images(6, 64 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    let made = place.ok(&[
        "create", "tank", "--level", "6", "--strip", "64K", "--spare", drives[5], drives[0], drives[1], drives[2], drives[3],
        drives[4],
    ]);
    assert!(made.contains("RAID 6"), "{made}");
    let serve = place.serve(&drives);
    let uri = serve.uri("tank").to_owned();
    place.settled("tank");

    let source = place.path("source");
    let size_bytes = place.status("tank")["size_bytes"].as_u64().expect("a size") as usize;
    noise(&source, size_bytes, 1);
    let source_text = source.to_str().expect("a plain path");
    if run_tool("nbdcopy", &["--flush", source_text, &uri]).is_none() {
        return;
    }
    let read_back = |name: &str| {
        let copy = place.path(name);
        run_tool("nbdcopy", &[&uri, copy.to_str().expect("a plain path")]).expect("it was here before");
        assert!(same(&source, &copy), "{name}");
        std::fs::remove_file(copy).expect("it is there");
    };
    read_back("whole");

    // Without a terminal the program refuses a command that takes redundancy; with --force it carries it out.
    place.run(&["fail", "tank", "nosuch"]).refused(1, &["does not use nosuch", drives[1]]);
    place.run(&["fail", "tank", drives[1]]).refused(4, &["redundancy", "--yes"]);
    place.ok(&["pause", "tank"]);
    place.ok(&["fail", "tank", drives[1], "--yes"]);
    let degraded = place.run(&["status", "tank"]);
    assert_eq!(degraded.code, 3, "{degraded:?}");
    assert!(
        support::unwrapped(&degraded.stdout)
            .contains("DEGRADED: slot 1 missing, survives 1 more failure, 1 spare, sweeps paused"),
        "{}",
        degraded.stdout
    );
    read_back("degraded");
    place.ok(&["resume", "tank"]);
    let healed = place.settled("tank");
    let spare =
        healed["members"].as_array().expect("a list").iter().find(|member| member["path"] == drives[5]).expect("it is there");
    assert_eq!((&spare["role"], &spare["slot"]), (&"in sync".into(), &1.into()));
    read_back("healed");

    let scrubbed = place.ok(&["scrub", "tank", "--wait"]);
    assert!(scrubbed.contains("0 sectors with mismatches"), "{scrubbed}");
    assert_eq!(place.status("tank")["mismatch_sectors"], 0);

    // The failed drive is still listed, and returns nevertheless, as a spare.
    place.run(&["add", "tank", drives[2]]).refused(1, &["in use", "tank", "remove"]);
    place.ok(&["add", "tank", drives[1], "--yes"]);

    place.ok(&["stop", "tank"]);
    let log = serve.ended_well();
    assert!(log.contains("spare") && log.contains("has stopped: clean"), "{log}");
    let examined = place.ok(&["examine", drives[5]]);
    assert!(examined.contains("clean") && examined.contains("Active device 1"), "{examined}");

    let serve = place.serve(&drives);
    let status = place.status("tank");
    assert_eq!((&status["health"], &status["sweep"]), (&"optimal".into(), &serde_json::Value::Null), "nothing to resync");
    read_back("served again");
    // `timeout` sends the signal twice, to the process and to its group; both together mean one clean stop.
    serve.signal("-TERM");
    serve.signal("-TERM");
    serve.ended_well();
}

/// A working member is replaced by copy, under a verifying load, and redundancy never decreases.
#[test]
fn working_member_is_replaced_under_load() {
    let place = Place::new();
    let images = place.images(5, 64 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "5", drives[0], drives[1], drives[2], drives[3]]);
    let serve = place.serve(&drives[..4]);
    place.settled("tank");
    let uri = format!("--uri={}", serve.uri("tank"));
    let fio = [
        "--name=v",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=4k-64k",
        "--iodepth=8",
        "--size=48m",
        "--verify=crc32c",
        "--verify_backlog=64",
        "--verify_state_save=0",
    ];
    let Some(fio) = tool("fio", &fio) else { return };
    // By a spare of the array; a drive from outside is taken in the same way.
    place.ok(&["add", "tank", drives[4]]);
    let replaced = place.ok(&["replace", "tank", drives[2], drives[4], "--wait"]);
    assert!(replaced.contains("rebuild finished"), "{replaced}");
    let output = fio.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let status = place.status("tank");
    assert_eq!(
        (role(&status, drives[2]), role(&status, drives[4]), &status["health"]),
        ("failed".into(), "in sync".into(), &"optimal".into())
    );
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains("0 sectors with mismatches"));
    place.run(&["replace", "tank", drives[2], drives[0]]).refused(1, &["in use"]);
    place.ok(&["remove", "tank", drives[2]]);
    place.ok(&["replace", "tank", drives[3], drives[2], "--force", "--wait"]);
    let status = place.status("tank");
    assert_eq!(
        (role(&status, drives[3]), role(&status, drives[2]), &status["health"]),
        ("failed".into(), "in sync".into(), &"optimal".into())
    );
    place.ok(&["stop"]);
    serve.ended_well();
}

fn role(status: &serde_json::Value, path: &str) -> serde_json::Value {
    status["members"].as_array().expect("a list").iter().find(|member| member["path"] == path).expect("known")["role"].clone()
}

/// A drive that was away returns by the bitmap: little is copied, and everything is there.
#[test]
fn drive_that_was_away_comes_back_by_the_bitmap() {
    let place = Place::new();
    let images = place.images(3, 256 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "1", "--bitmap", "internal:1M", "--assume-clean", drives[0], drives[1], drives[2]]);
    let serve = place.serve(&drives);
    place.ok(&["fail", "tank", drives[0], "-y"]);
    place.ok(&["remove", "tank", drives[0]]);
    let mut client = serve.client("tank");
    client.send_writes(&[(5 << 20, vec![7; 4096])]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    drop(client);
    let back = place.ok(&["add", "tank", drives[0], "--wait"]);
    assert!(back.contains("is back in slot 0"), "{back}");
    let status = place.settled("tank");
    let member = &status["members"].as_array().expect("a list").last().expect("a member").clone();
    assert!(member["written_bytes"].as_u64().expect("a count") < 16 << 20, "only what changed is copied: {member}");
    // The other two members fail, so all data must be read from the one that returned.
    place.ok(&["fail", "tank", drives[1], "-y"]);
    place.ok(&["fail", "tank", drives[2], "-y"]);
    place.run(&["fail", "tank", drives[0], "-y"]).refused(1, &["no redundancy left"]);
    assert!(serve.client("tank").read(5 << 20, 4096).expect("it answers") == vec![7; 4096]);
}

/// RAID 50: spans are shown, healed and scrubbed, and their events are reported.
#[test]
fn spans_of_a_nested_array_heal_and_scrub() {
    let place = Place::new();
    let images = place.images(7, 64 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    let create = [&["create", "big", "--level", "50", "--spans", "2", "--spare", drives[6]], &drives[..6]].concat();
    place.ok(&create);
    let serve = place.serve(&drives);
    let status = place.settled("big");
    assert_eq!((&status["level"], status["spans"].as_array().expect("a list").len()), (&"50".into(), 2));
    let mut client = serve.client("big");
    let data: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 512) as u8 ^ 0x5a).collect();
    client.send_writes(&[(3 << 20, data.clone())]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    place.ok(&["fail", "big", drives[1], "-y"]);
    assert!(client.read(3 << 20, 1 << 20).expect("an answer") == data);
    place.settled("big");
    let scrubbed = place.ok(&["scrub", "big", "--wait"]);
    assert_eq!(scrubbed.matches("0 sectors with mismatches").count(), 2, "both spans: {scrubbed}");
    drop(client);
    place.ok(&["stop", "big"]);
    let log = serve.ended_well();
    assert!(log.contains("spare") && log.contains("takes slot 1"), "events of spans are told: {log}");
    // An array that is named brings its spans along, and the warning about the member that stays out.
    let named = [&["big"], &drives[..]].concat();
    let told = place.ok(&[&["assemble"], &named[..]].concat());
    assert!(told.contains("\"big-span0\"") && told.contains("\"big-span1\"") && told.contains("\"big\""), "{told}");
    let serve = place.serve(&named);
    place.ok(&["stop", "big"]);
    let log = serve.ended_well();
    assert!(log.contains(drives[1]) && log.contains("stays out"), "{log}");
}

/// Two arrays in one serve, each with its own name, state and end. The serve ends with the last one.
#[test]
fn one_serve_holds_two_arrays() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "left", "--level", "1", "--assume-clean", drives[0], drives[1]]);
    place.ok(&["create", "right", "--level", "0", drives[2], drives[3]]);
    // `--yes` answers no question that names what is lost: it overwrote the members of both arrays.
    place.run(&["create", "other", "--level", "1", "--yes", drives[0], drives[2]]).refused(4, &[drives[0], "--force"]);
    let serve = place.serve(&drives);
    for (array, byte) in [("left", 1), ("right", 2)] {
        let mut client = serve.client(array);
        client.send_writes(&[(0, vec![byte; 4096])]).expect("it listens");
        assert_eq!(client.reply().expect("an answer"), (0, 0));
    }
    place.run(&["status", "middle"]).refused(1, &["middle", "left, right"]);
    place.run(&["scrub", "right"]).refused(1, &["nothing to compare"]);
    place.ok(&["stop", "left"]);
    place.run(&["status", "left"]).refused(1, &["right"]);
    assert!(serve.client("right").read(0, 4096).expect("an answer") == vec![2; 4096]);
    place.ok(&["stop", "right"]);
    serve.ended_well();
    let serve = place.serve(&drives);
    assert!(serve.client("left").read(0, 4096).expect("an answer") == vec![1; 4096]);
}

/// `stop` under load: refused while clients are connected, carried out with --force, and then clean.
#[test]
fn stop_under_load_ends_clean() {
    let place = Place::new();
    let images = place.images(4, 64 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "5", drives[0], drives[1], drives[2], drives[3]]);
    let serve = place.serve(&drives);
    let peers = [serve.client("tank"), serve.client("tank")];
    place
        .run(&["stop", "tank"])
        .refused(4, &[&format!("in use by process {} of user", std::process::id()), "(2 connections); --force"]);
    drop(peers);
    let uri = format!("--uri={}", serve.uri("tank"));
    let fio = [
        "--name=load",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=16",
        "--size=64m",
        "--time_based",
        "--runtime=60",
    ];
    let Some(mut fio) = tool("fio", &fio) else { return };
    place.wait_for("tank", "load", |status| status["clients"][0]["requests"].as_u64() > Some(1000));
    place.run(&["stop", "tank"]).refused(4, &["in use", "--force"]);
    // It asks nothing, so there is nothing to say yes to.
    place.run(&["stop", "tank", "--yes"]).refused(2, &["--yes"]);
    place.ok(&["stop", "tank", "--force"]);
    assert!(serve.ended_well().contains("has stopped: clean"));
    assert!(!fio.wait().expect("it ends").success(), "its server is gone");
    assert!(place.ok(&["examine", drives[0]]).contains("clean"));
    // Stopped during a resync or not: the data is consistent once the rest is resynced.
    let serve = place.serve(&drives);
    place.settled("tank");
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains("0 sectors with mismatches"));
    drop(serve);
}

/// A lane often still knows a client that has just disconnected when `stop` comes.
#[test]
fn a_stop_waits_for_clients_that_are_leaving() {
    let place = Place::new();
    let images = place.images(2, 32 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let serve = place.serve(&[&images[0], &images[1]]);
    let client = serve.client("tank");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(client);
        });
        place.ok(&["stop", "tank"]);
    });
    serve.ended_well();
}

/// Trim is refused without --force; with it the range reads as zeros on files.
#[test]
fn trim_destroys_only_when_insisted_on() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "5", "--strip", "64K", drives[0], drives[1], drives[2], drives[3]]);
    let serve = place.serve(&drives);
    place.settled("tank");
    let mut client = serve.client("tank");
    client.send_writes(&[(0, vec![3; 6 << 20])]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    place.run(&["trim", "tank"]).refused(4, &["destroys", "--yes"]);
    place.run(&["trim", "tank", "--range", "1:1", "--force"]).refused(2, &["aligned"]);
    place.run(&["trim", "tank", "--range", "1GiB:1MiB", "--force"]).refused(2, &["leaves"]);
    assert!(client.read(0, 4096).expect("an answer") == vec![3; 4096]);
    place.ok(&["trim", "tank", "--range", "0:3MiB", "--force"]);
    assert!(client.read(0, 4096).expect("an answer") == vec![0; 4096]);
    assert!(client.read(3 << 20, 4096).expect("an answer") == vec![3; 4096]);
    // A part of a strip, parts of two stripes, and whole ones with parts of others at both ends.
    for (start, length) in [(3 << 20, 4096), ((3 << 20) + (150 << 10), 100 << 10), ((4 << 20) + 512, 1 << 20)] {
        place.ok(&["trim", "tank", "--range", &format!("{start}:{length}"), "--force"]);
        assert!(client.read(start, length).expect("an answer") == vec![0; length], "{length} bytes at {start} read as zeros");
        assert!(client.read(start + length as u64, 512).expect("an answer") == vec![3; 512]);
    }
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains("0 sectors with mismatches"));
}

/// A scrub finds what was changed behind the array's back and repairs it; the next scrub finds nothing.
#[test]
fn scrub_finds_and_repairs_what_changed_behind_its_back() {
    use std::os::unix::fs::FileExt;
    let place = Place::new();
    let images = place.images(5, 32 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "6", "--assume-clean", drives[0], drives[1], drives[2], drives[3], drives[4]]);
    let serve = place.serve(&drives);
    // 16 MiB lies in the data area, wherever that starts.
    let file = std::fs::OpenOptions::new().write(true).open(drives[2]).expect("an image");
    file.write_all_at(&[0xff; 4096], 16 << 20).expect("it writes");
    file.sync_all().expect("it syncs");
    let found = place.run(&["scrub", "tank", "--wait"]);
    assert!(found.code == 3 && found.stdout.contains("8 sectors with mismatches"), "{found:?}");
    let told = place.run(&["status", "tank"]);
    assert!(told.code == 3 && told.stdout.contains("found mismatches in 8 sectors;"), "{told:?}");
    assert_eq!(place.status("tank")["mismatch_sectors"], 8);
    // Two parities name the wrong member, so the command does not ask.
    place.ok(&["scrub", "tank", "--repair", "--wait"]);
    assert_eq!(place.run(&["status", "tank"]).code, 0, "what was found is repaired");
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains(" 0 sectors with mismatches"));
    place.ok(&["stop"]);
    assert!(serve.ended_well().contains("(slot 2) is wrong"), "RAID 6 tells which member it is");
}

/// A scrub of an array that lacks a member says that there was nothing to compare; it said "0 sectors with mismatches".
#[test]
fn a_scrub_without_redundancy_says_that_nothing_was_compared() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "5", "--assume-clean", drives[0], drives[1], drives[2]]);
    let _serve = place.serve(&drives[..3]);
    place.ok(&["fail", "tank", drives[1], "--yes"]);
    let scrubbed = place.run(&["scrub", "tank", "--wait"]);
    assert!(scrubbed.code == 3 && scrubbed.stdout.contains("could not be compared"), "{scrubbed:?}");
    let told = place.run(&["status", "tank"]);
    assert!(support::unwrapped(&told.stdout).contains("could not compare"), "{told:?}");
    let unchecked = place.status("tank")["unchecked_sectors"].as_u64();
    assert!(unchecked > Some((24 << 20) / 512), "the data of a member: {unchecked:?}");
    place.ok(&["add", "tank", drives[3]]);
    place.settled("tank");
    assert!(!place.ok(&["scrub", "tank", "--wait"]).contains("compared"));
    assert_eq!(place.status("tank")["unchecked_sectors"], 0);
    assert_eq!(place.run(&["status", "tank"]).code, 0);
}

/// A slow scrub can be watched and cancelled; a second one is refused; speed bounds hold.
#[test]
fn scrub_is_bounded_and_cancelled() {
    let place = Place::new();
    let images = place.images(2, 64 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", drives[0], drives[1]]);
    let serve = place.serve(&drives);
    place.run(&["speed", "tank"]).refused(2, &["--max"]);
    place.ok(&["speed", "tank", "--max", "1MiB"]);
    place.ok(&["scrub", "tank"]);
    place.run(&["scrub", "tank"]).refused(1, &["scrub runs"]);
    let status = place.status("tank");
    assert_eq!(status["sweep"]["kind"], "scrub", "{status:#}");
    place.ok(&["scrub", "tank", "--cancel"]);
    assert!(place.status("tank")["sweep"].is_null());
    place.run(&["scrub", "tank", "--cancel"]).refused(1, &["no scrub runs"]);
    // mdadm knows 0 as "no minimum". Without a bound on latency it would hold sweeps for ever, in either order.
    for none in ["0", "none"] {
        place.ok(&["speed", "tank", "--min", none]);
    }
    place.run(&["speed", "tank", "--latency", "off"]).refused(2, &["minimum above 0", "p99=1ms"]);
    place.ok(&["speed", "tank", "--min", "1M", "--latency", "off"]);
    place.run(&["speed", "tank", "--min", "0"]).refused(2, &["minimum above 0", "p99=1ms"]);
    place.run(&["speed", "tank", "--latency", "99=5ms"]).refused(2, &["p99=5ms"]);
    place.run(&["speed", "tank", "--latency", "p100=5ms"]).refused(2, &["from 50 to 99.99"]);
    place.ok(&["speed", "tank", "--max", "10GiB", "--latency", "p99.9=20ms"]);
    place.ok(&["speed", "tank", "--latency", "off"]);
    place.ok(&["scrub", "tank", "--wait"]);
    drop(serve);
}
