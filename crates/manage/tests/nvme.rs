//! Goal: arrays on real NVMe drivers, by whichever way requests reach the drives.
//! Method: this very program runs again in a guest with emulated NVMe drives (tests/nvme), where the real `stria` makes and
//! serves a RAID 5, one of whose drives is pulled out under a client's writes.

mod support;

use stria_testkit::nvme;
use support::Place;

const DRIVES: [&str; 4] = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1"];
const PART: usize = 128 << 10;

/// Writes that a client sends at once, of bytes that tell the round and the place.
fn writes(round: u8, size_bytes: u64) -> Vec<(u64, Vec<u8>)> {
    let bytes = |at: u64| (0..PART).map(|index| round ^ (at as usize / PART + index / 512) as u8).collect();
    (0..size_bytes / PART as u64).map(|index| index * PART as u64).map(|at| (at, bytes(at))).collect()
}

/// Not a test of its own: the guest's half of the next one.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    let place = Place::new();
    place.ok(&[&["create", "tank", "--level", "5"], &DRIVES[..]].concat());
    let mut left = Vec::new();
    for (round, (options, way)) in [
        (&["--io-poll"][..], "polled"),
        (&["--passthrough"], "passthrough"),
        (&["--io-poll", "--passthrough"], "passthrough, polled"),
    ]
    .into_iter()
    .enumerate()
    {
        let serve = place.serve(&[&DRIVES[..], options].concat());
        let status = place.settled("tank");
        for member in status["members"].as_array().expect("a list") {
            assert_eq!(member["way"], way, "{status:#}");
        }
        assert!(place.ok(&["status", "tank", "-v"]).contains(&format!("direct, {way}")));
        let mut client = serve.client("tank");
        let read_all = |client: &mut support::nbd::Client, sent: &[(u64, Vec<u8>)]| {
            for (at, bytes) in sent {
                assert!(client.read(*at, PART).expect("an answer") == *bytes, "{way}: {PART} bytes at {at}");
            }
        };
        // What another way wrote is read by this one.
        read_all(&mut client, &left);
        let sent = writes(round as u8 + 1, client.size_bytes.min(16 << 20));
        for (index, batch) in sent.chunks(16).enumerate() {
            client.send_writes(batch).expect("it listens");
            if round == 2 && index == 4 {
                std::fs::write("/sys/block/nvme2n1/device/device/remove", "1").expect("it can be pulled out");
            }
            batch.iter().for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0, "{way}"));
        }
        assert!(client.flush().expect("an answer"));
        read_all(&mut client, &sent);
        left = sent;
        drop(client);
        if round == 2 {
            let status = place.status("tank");
            assert_eq!(status["health"], "degraded", "{status:#}");
        }
        place.ok(&["stop", "tank"]);
        serve.ended_well();
    }
    let rest: Vec<&str> = DRIVES.into_iter().filter(|drive| !drive.contains("nvme2")).collect();
    let serve = place.serve(&rest);
    let mut client = serve.client("tank");
    for (at, bytes) in &left {
        assert!(client.read(*at, PART).expect("an answer") == *bytes, "by the block devices: {PART} bytes at {at}");
    }
    let member = &place.status("tank")["members"][0];
    assert_eq!((&member["way"], &member["direct"]), (&"interrupts".into(), &true.into()));
    // The drives' own write caches, under a client. The controller says whether it obeys.
    for (switch, shown) in [("off", "off, as set"), ("on", "on, as set")] {
        let told = place.ok(&["set", "tank", "--drive-caches", switch]);
        assert!(told.contains(&format!("the write caches of 3 drives are {switch}")), "{told}");
        assert!(place.status("tank")["drive_caches"].as_str().is_some_and(|words| words.starts_with(shown)));
        assert!(client.write(0, &left[0].1).expect("an answer") && client.flush().expect("an answer"));
    }
}

#[test]
fn an_array_of_nvme_drives_is_served_on_every_way_and_survives_a_drive_that_is_pulled_out() {
    if nvme::wanted() {
        let drives = DRIVES.map(|_| nvme::Drive { bytes: 24 << 20, options: "" });
        nvme::run_test("raid", "guests_half", &drives, &[env!("CARGO_BIN_EXE_stria")]);
    }
}

#[test]
fn what_the_drives_do_not_offer_is_refused_with_the_remedy() {
    let place = Place::new();
    let images = place.images(2, 16 << 20);
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1"], &images[..]].concat());
    let serve = |option| place.run(&[&["serve", option], &images[..]].concat());
    serve("--io-poll").refused(1, &["none of the drives offers polled completion", "nvme.poll_queues=N"]);
    serve("--passthrough").refused(1, &["cannot be reached by NVMe commands: it is a file", "without --passthrough"]);
}
