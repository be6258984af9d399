//! Goal: an array on several lanes is one array: for many clients at once, for commands, and after `kill -9`.
//! Method: the real program on image files; fio and a client of the test, with several connections, write and verify.

mod support;

use serde_json::Value;
use std::time::Duration;
use support::{Place, tool};

/// Sparse: only large drives have space for several lanes' logs before their data.
const DRIVE_BYTES: u64 = 4 << 30;

fn make(place: &Place, level: &str, count: usize, spares: usize) -> Vec<String> {
    let images = place.images(count + spares, DRIVE_BYTES);
    let mut create = vec!["create", "tank", "--level", level, "--size", "24M", "--bitmap", "internal:1M"];
    images[count..].iter().for_each(|spare| create.extend(["--spare", spare]));
    create.extend(images[..count].iter().map(String::as_str));
    place.ok(&create);
    images
}

fn serve(place: &Place, images: &[String], lanes: &str, more: &[&str]) -> support::Serve {
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.serve(&[&drives[..], &["--lanes", lanes], more].concat())
}

/// Runs fio over so many connections. Each writes a part of its own and reads it back.
fn fio(uri: &str, connections: u64, part_bytes: u64) -> Option<std::process::Child> {
    let (uri, jobs) = (format!("--uri={uri}"), format!("--numjobs={connections}"));
    let (size, step) = (format!("--size={part_bytes}"), format!("--offset_increment={part_bytes}"));
    tool(
        "fio",
        &[
            "--name=v",
            "--ioengine=nbd",
            &uri,
            &jobs,
            &size,
            &step,
            "--rw=randwrite",
            "--bs=4k-128k",
            "--bsrange=4k-128k",
            "--iodepth=8",
            "--verify=crc32c",
            "--verify_state_save=0",
            "--group_reporting",
        ],
    )
}

fn assert_verified(fio: std::process::Child) {
    let output = fio.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn connections_are_dealt_out_and_every_lane_works() {
    for (level, count, lanes, clients) in
        [("5", 4, "3", "lane"), ("6", 5, "2", "apart"), ("1", 2, "2", "lane"), ("10", 4, "3", "apart"), ("50", 6, "2", "lane")]
    {
        let place = Place::new();
        let images = make(&place, level, count, 0);
        let serve = serve(&place, &images, lanes, &["--clients", clients]);
        let size = place.status("tank")["size_bytes"].as_u64().expect("a size");
        let Some(fio) = fio(serve.uri("tank"), 6, size / 6 / (1 << 17) * (1 << 17)) else { return };
        assert_verified(fio);
        place.settled("tank");
        let status = place.status("tank");
        let lanes_shown = status["lanes"].as_array().expect("a list");
        assert_eq!(lanes_shown.len().to_string(), lanes, "{status:#}");
        for lane in lanes_shown {
            let setup = lane["setup"].as_str().expect("text");
            assert!(setup.contains(&format!("of {lanes} (--lanes)")), "{setup}");
            assert!(lane["ring_entries"].as_u64() > Some(100), "RAID {level}: every lane has its share: {status:#}");
        }
        assert!(place.ok(&["status", "tank", "-v"]).matches("io_uring with").count() == lanes_shown.len());
        assert!(place.ok(&["scrub", "tank", "--wait"]).contains("0 sectors with mismatches"));
        place.ok(&["stop", "tank"]);
        assert!(serve.ended_well().contains("has stopped: clean"));
    }
}

#[test]
fn people_command_all_lanes_at_once() {
    let place = Place::new();
    let images = make(&place, "5", 4, 1);
    let serve_ = serve(&place, &images, "3", &[]);
    let Some(load) = fio(serve_.uri("tank"), 4, 16 << 20) else { return };
    place.ok(&["fail", "tank", &images[1], "--yes"]);
    place.settled("tank");
    assert_verified(load);
    place.ok(&["remove", "tank", &images[1]]);
    place.ok(&["add", "tank", &images[1], "--yes"]);
    let replaced = place.ok(&["replace", "tank", &images[2], &images[1], "--wait"]);
    assert!(replaced.contains("rebuild finished"), "{replaced}");
    place.settled("tank");
    place.ok(&["pause", "tank"]);
    place.run(&["scrub", "tank"]).refused(1, &["paused", "resume"]);
    place.ok(&["resume", "tank"]);
    place.ok(&["speed", "tank", "--max", "200M", "--latency", "p99=5ms"]);
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains("0 sectors with mismatches"));
    let events: Value = serde_json::from_str(&place.ok(&["--json", "status", "tank"])).expect("JSON");
    assert_eq!(events[0]["health"], "optimal");
    place.ok(&["stop", "tank"]);
    let log: String =
        serve_.ended_well().lines().filter(|line| !line.contains("kind=alarm")).map(|line| format!("{line}\n")).collect();
    for told in ["failed on command", "takes slot 1", "is in sync in slot 1", "scrub started", "scrub finished"] {
        assert_eq!(log.matches(told).count(), 1, "{told}: {log}");
    }
}

#[test]
fn acknowledged_writes_outlive_kill_9_and_another_number_of_lanes() {
    for (level, count) in [("5", 4), ("10", 4), ("6", 5)] {
        let place = Place::new();
        let images = make(&place, level, count, 0);
        let stamp = |block: u64, round: u64| (block << 20 | (round + 1)).to_le_bytes().repeat(4096 / 8);
        // 200 blocks 96 KiB apart, so that every lane has some, in stripes that other clients write to as well.
        let offset = |block: u64| block * (96 << 10);
        for (round, lanes) in ["3", "2", "1", "3"].into_iter().enumerate() {
            let round = round as u64;
            let serve = serve(&place, &images, lanes, &[]);
            std::thread::scope(|scope| {
                for part in 0..4 {
                    let mut client = serve.client("tank");
                    scope.spawn(move || {
                        let own = || (0..200).filter(|block| block % 4 == part);
                        for block in own().filter(|_| round > 0) {
                            let found = client.read(offset(block), 4096).expect("it answers");
                            assert!(found == stamp(block, round - 1), "RAID {level}, round {round}: block {block}");
                        }
                        let writes: Vec<_> = own().map(|block| (offset(block), stamp(block, round))).collect();
                        client.send_writes(&writes).expect("it takes them");
                        writes.iter().for_each(|_| assert_eq!(client.reply().expect("it answers").1, 0));
                        assert!(client.flush().expect("it answers"));
                    });
                }
            });
            // Amid the writes of other clients, so a block may be old or new.
            let mut busy = serve.client("tank");
            let writes: Vec<_> = (0..200).map(|block| (offset(block) + 8192, stamp(block, round))).collect();
            busy.send_writes(&writes[..100 + 20 * round as usize]).expect("it takes them");
            std::thread::sleep(Duration::from_millis(round * 3));
            serve.kill();
        }
        let serve = serve(&place, &images, "2", &[]);
        place.settled("tank");
        assert!(place.ok(&["scrub", "tank", "--wait"]).contains(" 0 sectors with mismatches"));
        place.ok(&["fail", "tank", &images[0], "-y"]);
        let mut client = serve.client("tank");
        for block in 0..200 {
            assert!(client.read(offset(block), 4096).expect("it answers") == stamp(block, 3), "RAID {level} without a member");
        }
        drop(client);
        place.ok(&["stop", "tank", "--force"]);
        serve.ended_well();
    }
}

#[test]
fn what_belongs_to_one_lane_runs_on_one_and_says_so() {
    let place = Place::new();
    let images = place.images(3, 64 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "5", "--integrity"], &drives[..]].concat());
    let serve = serve(&place, &images, "2", &[]);
    assert_eq!(place.status("tank")["lanes"].as_array().map(Vec::len), Some(1));
    place.ok(&["stop", "tank"]);
    assert!(serve.ended_well().contains("was to run on 2 lanes and runs on 1"));
    place.run(&["serve", drives[0], "--lanes", "0"]).refused(2, &["not a count of lanes"]);
}

#[test]
fn lanes_keep_to_the_numa_node_that_is_asked_for() {
    let place = Place::new();
    let images = make(&place, "1", 2, 0);
    let serve = serve(&place, &images, "2", &["--numa-node", "0"]);
    let status = place.status("tank");
    for lane in status["lanes"].as_array().expect("a list") {
        assert!(lane["setup"].as_str().expect("a text").contains("on NUMA node 0 (--numa-node)"), "{lane}");
    }
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    let refused = place.run(&["serve", "--numa-node", "4000", &images[0], &images[1]]);
    refused.refused(1, &["there is no NUMA node 4000 with processors here", "lscpu"]);
}
