//! Goal: the content that a client writes never decides what the program serves. Arrays over arrays are served if they are
//! marked, or if that is asked for.
//! Method: the real program on image files, with a client of the test.

mod support;

use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::Path;
use support::daemon::Daemon;
use support::hanging::{Hanging, LoopOver};
use support::{Place, contents};

fn with<'a>(first: &[&'a str], images: &'a [String]) -> Vec<&'a str> {
    first.iter().copied().chain(images.iter().map(String::as_str)).collect()
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[&["--json"], arguments].concat())).expect("JSON")
}

/// The state in which an early Stria left drives: no mark behind the superblocks.
fn unmark(images: &[String]) {
    for image in images {
        let image = std::fs::OpenOptions::new().write(true).open(image).expect("an image");
        image.write_all_at(&[0; 64], 8192 - 64).expect("writable");
    }
}

#[test]
fn superblocks_of_a_client_change_nothing() {
    let place = Place::new();
    let images = place.images(3, 32 << 20);
    place.ok(&with(&["create", "tank", "--level", "5", "--assume-clean"], &images));
    let member = std::fs::read(&images[0]).expect("an image");
    let serve = place.serve(&with(&[], &images));
    let mut client = serve.client("tank");
    // The image of a member, with its superblock where the others of its kind have theirs.
    client.send_writes(&[(0, member[..1 << 20].to_vec())]).expect("sent");
    assert_eq!(client.reply().expect("an answer").1, 0);
    assert!(client.flush().expect("an answer"));
    drop(client);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    for read_only in [&["--read-only"][..], &[], &["--name", "tank"]] {
        let serve = place.serve(&with(read_only, &images));
        assert!(serve.client("tank").read(0, 1 << 20).expect("an answer") == member[..1 << 20]);
        place.ok(&["stop", "tank"]);
        serve.ended_well();
    }
    assert_eq!(json(&place, &with(&["assemble"], &images))["arrays"].as_array().expect("a list").len(), 1);
}

#[test]
fn striped_array_without_marks_is_served_when_it_is_asked_for() {
    let place = Place::new();
    let images = place.images(6, 32 << 20);
    let made = json(&place, &with(&["create", "tank", "--level", "50", "--assume-clean"], &images));
    let examined = json(&place, &["examine", &images[0]]);
    assert_eq!(examined[0]["span_of"], made["uuid"]);
    unmark(&images);
    let before = contents(&images);
    place.run(&with(&["serve"], &images)).refused(1, &["tank-span0, tank-span1", "--nested"]);
    place.run(&with(&["serve", "tank"], &images)).refused(1, &["--nested"]);
    place.run(&with(&["serve"], &images[..3])).refused(1, &["tank-span0", "--nested"]);
    assert!(before == contents(&images));

    let serve = place.serve(&with(&["--nested"], &images));
    place.status("tank");
    place.ok(&["stop", "tank"]);
    assert!(serve.ended_well().contains("starts without --nested from now on"));
    assert!(contents(&images).iter().all(|image| image[8192 - 64..].starts_with(b"StriaSpn")));
    let serve = place.serve(&with(&[], &images));
    place.status("tank");
    place.ok(&["stop", "tank"]);
    serve.ended_well();

    // One span alone, by its name.
    unmark(&images);
    let serve = place.serve(&with(&["tank-span0"], &images));
    place.status("tank-span0");
    place.ok(&["stop", "tank-span0"]);
    serve.ended_well();
}

#[test]
fn create_tells_of_the_array_that_it_has_made() {
    let place = Place::new();
    let images = place.images(8, 32 << 20);
    let mut uuids = Vec::new();
    for level in ["50", "60", "50", "5", "6", "10", "0", "jbod", "60"] {
        let made = json(&place, &with(&["create", "tank", "--force", "--assume-clean", "--level", level], &images));
        let uuid = made["uuid"].as_str().expect("text").to_owned();
        assert!(!uuids.contains(&uuid), "{level}: an array of before is told of");
        let serve = place.serve(&with(&[], &images));
        let status = place.status("tank");
        assert_eq!((&status["uuid"], &status["size_bytes"]), (&made["uuid"], &made["size_bytes"]), "{level}");
        place.ok(&["stop", "tank"]);
        serve.ended_well();
        uuids.push(uuid);
    }
}

/// The members of arrays that a search finds. What else is on this machine decides on the exit code.
fn members_found(place: &Place) -> String {
    let found: Value = serde_json::from_str(&place.run(&["--json", "assemble", "--scan"]).stdout).expect("JSON");
    found["arrays"].to_string()
}

/// A client copies the image of another array's member into its own array, newer than the member. The export is mounted as README
/// says, by nbdfuse and a loop device. A search took the copy for the member: the client's bytes were served, and the real member
/// stayed out. Where no other drive is that member, such a device is a drive like any other.
#[test]
fn a_copy_behind_nbdfuse_and_a_loop_device_takes_no_members_place() {
    let (under, place) = (Place::new(), Place::new());
    if !Path::new("/dev/fuse").exists() {
        return support::may_skip("there is no FUSE", "run with /dev/fuse");
    }
    let images = place.images(2, 16 << 20);
    let loops: Vec<LoopOver> = images.iter().filter_map(|image| LoopOver::new(Path::new(image))).collect();
    let [first, second] = &loops[..] else { return };
    place.ok(&["create", "forged", "--level", "1", "--assume-clean", &first.0, &second.0]);
    let serve = place.serve(&["forged"]);
    let mut client = serve.client("forged");
    client.send_writes(&[(0, vec![1; 65536])]).expect("sent");
    assert_eq!(client.reply().expect("an answer").1, 0);
    drop(client);
    place.ok(&["stop", "forged"]);
    serve.ended_well();

    let large = under.images(1, 32 << 20);
    under.ok(&["create", "under", "--level", "jbod", &large[0]]);
    let below = under.serve(&[&large[0]]);
    let mut client = below.client("under");
    let mut copy = std::fs::read(&images[0]).expect("an image");
    let data = u64::from_le_bytes(copy[4096 + 128..][..8].try_into().expect("8 bytes")) as usize * 512;
    copy[data..data + 65536].fill(2);
    for newer in [0, 1, 40] {
        // Offset 200 of a superblock counts its updates, and 216 is its checksum, a sum of words.
        copy[4096 + 200] += newer;
        let checksum = u32::from_le_bytes(copy[4096 + 216..][..4].try_into().expect("4 bytes")).wrapping_add(newer.into());
        copy[4096 + 216..][..4].copy_from_slice(&checksum.to_le_bytes());
        for (index, part) in copy.chunks(1 << 20).enumerate() {
            client.send_writes(&[((index << 20) as u64, part.to_vec())]).expect("sent");
            assert_eq!(client.reply().expect("an answer").1, 0);
        }
        let Some(mount) = Hanging::new(place.path(&format!("fuse{newer}")), below.uri("under")) else { return };
        let Some(device) = LoopOver::new(&mount.file()) else { return };
        let serve = place.serve(&["forged"]);
        let status = place.status("forged");
        assert_eq!(status["health"], "optimal", "{newer} ahead: {status:#}");
        assert!(serve.client("forged").read(0, 65536).expect("an answer") == [1; 65536], "{newer} ahead");
        place.ok(&["stop", "forged"]);
        let log = serve.ended_well();
        assert!(log.contains(&format!("{} is a copy of {}", device.0, first.0)), "{log}");
        place.is_a_machine();
        place.configure(&format!("search = {:?}", [&first.0, &second.0, &device.0]));
        place.ok(&["adopt", &first.0, &second.0]);
        let daemon = Daemon::start(&place);
        let status = place.wait_for("forged", "its two members", |status| status["health"] == "optimal");
        assert!(!status.to_string().contains(&format!("{:?}", device.0)), "{newer} ahead: {status:#}");
        place.ok(&["stop", "forged"]);
        place.ok(&["release", "forged"]);
        daemon.signal("-TERM");
        daemon.ended_well();
        let found = members_found(&place);
        assert!(found.contains(&format!("{:?}", first.0)) && !found.contains(&format!("{:?}", device.0)), "{found}");
    }

    // The only member 0 that is here.
    drop(client);
    let Some(mount) = Hanging::new(place.path("fuse"), below.uri("under")) else { return };
    let Some(device) = LoopOver::new(&mount.file()) else { return };
    let mut alone = loops.into_iter();
    drop(alone.next());
    let found = members_found(&place);
    assert!(found.contains(&format!("{:?}", device.0)), "{found}");
    drop((device, mount, alone));
    under.ok(&["stop", "--force"]);
    below.ended_well();
}
