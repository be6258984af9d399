//! Goal: the verbs at the ends of an array's life do what they say, on all drives, and only when nothing uses them.
//! Method: the real program on image files.

mod support;

use support::daemon::Daemon;
use support::{Place, contents};

const SIZE: u64 = 64 << 20;

fn all<'a>(first: &[&'a str], rest: &'a [String]) -> Vec<&'a str> {
    first.iter().copied().chain(rest.iter().map(String::as_str)).collect()
}

#[test]
fn an_array_takes_another_name_and_keeps_the_rest() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(5, SIZE);
    let (tank, pool) = (images[..3].to_vec(), images[3..].to_vec());
    place.ok(&all(&["create", "tank", "--level", "5", "--integrity", "--assume-clean"], &tank));
    place.ok(&all(&["create", "pool", "--level", "1", "--assume-clean"], &pool));
    place.ok(&all(&["adopt"], &tank));
    place.ok(&all(&["adopt"], &pool));
    let daemon = Daemon::start(&place);
    let uuid = place.status("tank")["uuid"].clone();
    let before = contents(&images);
    place.run(&all(&["rename", "tank", "lake"], &tank)).refused(1, &["served", "stria stop tank"]);
    place.ok(&["stop", "tank"]);
    // The name is taken on this machine, or cannot be one: then no drive is written.
    let stopped = contents(&tank);
    place.run(&all(&["rename", "tank", "pool"], &tank)).refused(1, &["both called \"pool\""]);
    place.run(&all(&["rename", "tank", "a/b"], &tank)).refused(2, &["a/b"]);
    place.run(&all(&["rename", "lake", "tank"], &tank)).refused(1, &["no array \"lake\""]);
    assert_eq!(contents(&tank), stopped);
    assert_ne!(before, stopped, "it was served before");
    place.ok(&all(&["rename", "tank", "lake"], &tank));
    for image in &tank {
        let examined = place.ok(&["examine", image]);
        assert!(examined.contains("lake") && !examined.contains("tank"), "{examined}");
    }
    place.ok(&["start", "lake"]);
    let status = place.settled("lake");
    assert_eq!(status["uuid"], uuid);
    assert!(place.ok(&["scrub", "lake", "--wait"]).contains("0 sectors with mismatches"));
    daemon.signal("-TERM");
    daemon.ended_well();
    assert!(place.ok(&["config", "show"]).contains("lake"));
}

#[test]
fn a_destroyed_array_is_gone_from_every_drive_and_from_the_configuration() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(6, SIZE);
    let tank = images[..4].to_vec();
    place.ok(&all(&["create", "tank", "--level", "50", "--assume-clean"], &tank));
    place.ok(&all(&["adopt"], &tank));
    let config = || std::fs::read_to_string(place.config()).expect("a text");
    assert_eq!(config().matches("spans = [").count(), 1, "{}", config());
    let daemon = Daemon::start(&place);
    place.run(&all(&["destroy", "--force"], &tank)).refused(1, &["served", "stria stop tank"]);
    place.run(&["wipe", "--force", &tank[0]]).refused(1, &["in use by"]);
    place.run(&["grow", "tank", &images[4]]).refused(1, &["cannot grow by more drives yet", "because", "mdadm --grow"]);
    place.ok(&["stop", "tank"]);
    let before = contents(&tank);
    place.run(&all(&["destroy"], &tank)).refused(4, &["all its data", &tank[3], "--force"]);
    assert_eq!(contents(&tank), before);
    let told = place.ok(&all(&["destroy", "--yes"], &tank));
    assert!(told.contains("4 drives carry nothing"), "{told}");
    for image in &tank {
        assert!(place.ok(&["examine", image]).contains("no member of an array"));
    }
    assert!(!config().contains("[[array]]"), "{}", config());
    // They are as new: nothing is to be overwritten.
    place.ok(&all(&["create", "tank", "--level", "5"], &tank));
    place.run(&["wipe", &tank[0], &images[5]]).refused(4, &["member of array \"tank\"", "--force"]);
    place.ok(&["wipe", "--force", &tank[0], &images[5]]);
    assert!(place.ok(&["examine", &tank[0]]).contains("no member of an array"));
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn what_is_wrong_is_explained() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(4, SIZE);
    place.ok(&all(&["create", "tank", "--level", "5", "--assume-clean"], &images[..3]));
    place.ok(&all(&["adopt"], &images[..3]));
    let daemon = Daemon::start(&place);
    assert_eq!(place.ok(&["explain"]), "nothing is wrong\n");
    place.ok(&["fail", "tank", "1", "--force"]);
    for arguments in [&["explain"][..], &["explain", "tank"]] {
        let ran = place.run(arguments);
        let words = ["DEGRADED", "loss of another drive loses data", "stria add tank DRIVE", "serial number"];
        assert!(ran.code == 3 && words.iter().all(|word| ran.stdout.contains(word)), "{ran:?}");
    }
    daemon.signal("-TERM");
    daemon.ended_well();
    std::fs::remove_file(&images[0]).expect("it is there");
    let daemon = Daemon::start(&place);
    let ran = place.run(&["--json", "explain", "tank"]);
    assert!(ran.code == 3 && ran.stdout.contains("not served") && ran.stdout.contains("avoid"), "{ran:?}");
    place.run(&["explain", "lake"]).refused(1, &["lake"]);
    daemon.signal("-TERM");
    daemon.ended_well();
}
