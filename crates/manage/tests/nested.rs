//! Goal: the content that a client writes never decides what the program serves. Arrays over arrays are served if they are
//! marked, or if that is asked for.
//! Method: the real program on image files, with a client of the test.

mod support;

use serde_json::Value;
use std::os::unix::fs::FileExt;
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
