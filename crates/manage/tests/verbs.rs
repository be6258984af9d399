//! Goal: the verbs at the beginning and end of an array's life do what they say, on all drives, and only when nothing uses these.
//! Method: the real program on image files.

#[path = "support/member_name.rs"]
mod member_name;
mod support;

use support::daemon::Daemon;
use support::{Place, contents, unwrapped};

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
    // If the name is taken on this machine, or invalid, no drive is written.
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

/// The name of an array over spans lies within the spans, under their parity.
#[test]
fn an_array_over_spans_is_renamed_with_its_spans() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(6, SIZE);
    place.ok(&all(&["create", "tank", "--level", "50", "--assume-clean"], &images));
    place.ok(&all(&["adopt"], &images));
    let (long, before) = ("a-name-of-twenty-eight-bytes", contents(&images));
    place.run(&all(&["rename", "tank", long], &images)).refused(2, &[long, "31 bytes"]);
    assert!(contents(&images) == before, "a refusal writes nothing");
    let told = place.ok(&all(&["rename", "tank", "lake"], &images));
    assert!(told.contains("on 6 drives"), "{told}");
    let found = place.ok(&all(&["assemble"], &images));
    assert!(["\"lake\"", "\"lake-span0\"", "\"lake-span1\""].iter().all(|name| found.contains(name)), "{found}");
    assert!(!found.contains("tank"), "{found}");
    let _daemon = Daemon::start(&place);
    assert_eq!(place.settled("lake")["level"], "50");
    assert!(place.ok(&["scrub", "lake", "--wait"]).contains("0 sectors with mismatches"));
    // Again with another name of the same length, as after a crash.
    place.ok(&["stop", "lake"]);
    place.ok(&all(&["rename", "lake", "pond"], &images));
    place.ok(&["start", "pond"]);
    assert_eq!(place.status("pond")["full_name"], "pond");
}

/// Before that, a rename looked and started with force, so that a stale member took part in the place of the good one that was
/// absent.
#[test]
fn a_rename_of_spans_needs_every_member_that_took_part() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(6, SIZE);
    place.ok(&all(&["create", "tank", "--level", "50", "--assume-clean"], &images));
    // The first member was away for a run, and is back as it was; the second is away now.
    let serve = place.serve(&all(&[], &images[1..]));
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    let here = [&images[..1], &images[2..]].concat();
    let before = contents(&here);
    place.run(&all(&["rename", "tank", "lake"], &here)).refused(1, &["tank-span0", "cannot start"]);
    place.run(&all(&["import", "tank", "--name", "lake"], &here)).refused(1, &["tank-span0", "cannot start"]);
    place.run(&all(&["rename", "tank", "lake"], &images[..5])).refused(1, &["tank-span1", "not here: attach it"]);
    assert!(contents(&here) == before, "a refusal writes nothing");
    place.ok(&all(&["rename", "tank", "lake"], &images));
}

/// Before, only block devices were searched, and the answer for an array that `status` shows was that there is none.
#[test]
fn an_array_on_images_that_the_daemon_searches_is_found_by_its_name() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(3, SIZE);
    place.ok(&all(&["create", "tank", "--level", "5", "--assume-clean"], &images));
    // The configuration does not name them yet.
    place.run(&["destroy", "tank", "--yes"]).refused(1, &["no array \"tank\"", "name its drives if they are image files"]);
    place.ok(&all(&["adopt"], &images));
    let daemon = Daemon::start(&place);
    place.run(&["rename", "tank", "lake"]).refused(1, &["is served", "`stria stop tank` first, then rename it"]);
    place.run(&["destroy", "tank", "--yes"]).refused(1, &["is served", "`stria stop tank` first, then destroy it"]);
    let told = place.ok(&["set", "tank", "--bitmap", "none"]);
    assert!(told.contains("the next start after a crash resyncs everything"), "{told}");
    assert!(unwrapped(&place.ok(&["status", "tank"])).contains("bitmap none: the next start after a crash resyncs everything"));
    place.ok(&["stop", "tank"]);
    let told = place.ok(&["rename", "tank", "lake"]);
    assert!(told.contains("on 3 drives"), "{told}");
    place.ok(&["start", "lake"]);
    daemon.signal("-TERM");
    daemon.ended_well();
    // No daemon has it now.
    let told = place.ok(&["set", "lake", "--log", "none"]);
    assert!(told.contains("can damage data that was not being written"), "{told}");
    place.ok(&["destroy", "lake", "--yes"]);
    assert!(images.iter().all(|image| place.ok(&["examine", image]).contains("no member of an array")));
    place.run(&["import", "lake"]).refused(1, &["no array \"lake\""]);
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
    // Whatever the words are, the answer is no spelling hint.
    place.run(&["grow", "tank", "--raid-devices", "5"]).refused(1, &["cannot grow by more drives yet"]);
    place.run(&["grow", "tank", "--size", "max"]).refused(1, &["cannot grow to larger drives yet"]);
    place.run(&["grow", "tank", "-l6", "--chunk", "64K"]).refused(1, &["cannot change its level and strip yet", "mdadm --grow"]);
    place.run(&["reshape", "tank", "--layout", "n2"]).refused(1, &["cannot change its layout yet"]);
    place.ok(&["stop", "tank"]);
    let before = contents(&tank);
    place.run(&all(&["destroy"], &tank)).refused(4, &["all its data", &tank[3], "--yes"]);
    assert_eq!(contents(&tank), before);
    let told = place.ok(&all(&["destroy", "--yes"], &tank));
    assert!(told.contains("4 drives carry nothing"), "{told}");
    for image in &tank {
        assert!(place.ok(&["examine", image]).contains("no member of an array"));
    }
    assert!(!config().contains("[[array]]"), "{}", config());
    // The drives are as new: nothing has to be overwritten.
    place.ok(&all(&["create", "tank", "--level", "5"], &tank));
    place.run(&["wipe", &tank[0], &images[5]]).refused(4, &["member of array \"tank\"", "--yes"]);
    place.ok(&["wipe", "--force", &tank[0], &images[5]]);
    // A discard leaves nothing at all, so it asks although no signature tells of data.
    place.run(&["wipe", "--discard", &tank[0]]).refused(4, &[&tank[0], "All data is lost", "--yes"]);
    place.run(&["wipe", "--discard", "--sanitize", &tank[0]]).refused(2, &["cannot be used with"]);
    place.ok(&["wipe", "--discard", "--force", &tank[0], &tank[1]]);
    for image in &tank[..2] {
        let bytes = std::fs::read(image).expect("a file");
        assert!(bytes.len() as u64 == SIZE && bytes.iter().all(|&byte| byte == 0), "{image}");
    }
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
        let words = [
            "DEGRADED",
            "because",
            "failed on command",
            "loss of another drive loses data",
            "stria add tank DRIVE",
            "do not delete or move an image file that works",
        ];
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

#[test]
fn what_another_machine_left_is_listed_served_once_and_taken_under_another_name() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(6, SIZE);
    let (own, foreign) = (images[..2].to_vec(), images[2..4].to_vec());
    place.ok(&all(&["create", "tank", "--level", "1", "--assume-clean"], &own));
    place.ok(&all(&["adopt"], &own));
    place.ok(&all(&["create", "tank", "--level", "1", "--assume-clean"], &foreign));
    // mdadm puts its host before the name.
    foreign.iter().for_each(|image| member_name::rename(image, "elsewhere:tank"));
    // A member of firmware RAID: Intel's anchor in the last sector but one.
    let anchor = [&b"Intel Raid ISM Cfg Sig. 1.3.00"[..], &[0; 482]].concat();
    let file = std::fs::File::options().write(true).open(&images[4]).expect("an image");
    std::os::unix::fs::FileExt::write_all_at(&file, &anchor, file.metadata().expect("an image").len() - 1024).expect("it writes");
    let before = contents(&images);
    let listed = place.ok(&all(&["import"], &images));
    assert!(listed.contains("elsewhere") && listed.contains("under another name (--name)"), "{listed}");
    assert!(listed.contains("Intel RAID (IMSM)") && listed.contains("mdadm --assemble"), "{listed}");
    let listed: serde_json::Value = serde_json::from_str(&place.ok(&all(&["--json", "import"], &images))).expect("JSON");
    let arrays = listed["arrays"].as_array().expect("a list");
    assert_eq!((arrays.len(), &arrays[0]["host"], &arrays[0]["clash"]), (1, &"elsewhere".into(), &true.into()), "{listed:#}");
    place.run(&all(&["import"], &foreign[..1])).refused(0, &[]);
    place.run(&all(&["import", "tank"], &foreign)).refused(1, &["another array here is called \"tank\"", "--name"]);
    assert!(contents(&images) == before, "nothing was written so far");
    place.ok(&all(&["import", "--name", "theirs"], &foreign));
    let examined = place.ok(&["examine", &foreign[0]]);
    assert!(examined.contains("theirs") && !examined.contains("elsewhere"), "{examined}");
    let _daemon = Daemon::start(&place);
    assert_eq!((place.settled("theirs")["level"].clone(), place.settled("tank")["level"].clone()), ("1".into(), "1".into()));
}

/// Before, the refusal named the first drive that carries something, and the answer to it overwrote all of them.
#[test]
fn create_names_every_drive_that_carries_something() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(4, SIZE);
    place.ok(&all(&["create", "old", "--level", "1"], &images[..2]));
    place.ok(&["create", "other", "--level", "jbod", &images[3]]);
    let before = contents(&images);
    let (words, command) = (["a member of array \"old\"", "a member of array \"other\""], ["create", "tank", "--level", "5"]);
    let names = [&*images[0], &*images[1], &*images[3], words[0], words[1], "nothing was written; --force overwrites them"];
    place.run(&all(&command, &images)).refused(4, &names);
    assert!(contents(&images) == before);
    place.ok(&all(&["create", "tank", "--level", "5", "--force"], &images));
}

/// An absent member keeps the old name. Its superblock counts as many updates as the others, so the name is in doubt until the
/// array has run.
#[test]
fn a_rename_says_what_becomes_of_an_absent_member() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(3, SIZE);
    place.ok(&all(&["create", "tank", "--level", "5", "--assume-clean"], &images));
    let renamed = place.ok(&all(&["rename", "tank", "lake"], &images[..2]));
    for words in ["on 2 drives", "slot 2", "keeps the old name"] {
        assert!(renamed.contains(words), "\"{words}\" is not in {renamed}");
    }
    // The remedies: the command is repeated once the member is there, or the array runs without it.
    let remedy = renamed.split("`stria ").nth(1).and_then(|rest| rest.split('`').next()).expect("a command");
    place.ok(&all(&remedy.split(' ').collect::<Vec<_>>(), &images));
    let examined = place.ok(&["examine", &images[2]]);
    assert!(examined.contains("lake") && !examined.contains("tank"), "{examined}");
    let renamed = place.ok(&all(&["rename", "lake", "sea"], &images[..2]));
    assert!(renamed.contains("slot 2"), "{renamed}");
    let serve = place.serve(&[&images[0], &images[1]]);
    place.ok(&["add", "sea", &images[2]]);
    place.settled("sea");
    place.ok(&["stop", "sea"]);
    serve.ended_well();
    let examined = place.ok(&["examine", &images[2]]);
    assert!(examined.contains("sea") && !examined.contains("lake"), "{examined}");
    // A slot that is known to be empty is in no doubt.
    let serve = place.serve(&all(&[], &images));
    place.ok(&["fail", "sea", "2", "--force"]);
    place.ok(&["stop", "sea"]);
    serve.ended_well();
    let renamed = place.ok(&all(&["rename", "sea", "tank"], &images[..2]));
    assert!(!renamed.contains("slot 2"), "{renamed}");
}

/// Before, "does not exist: check the name" was all that a slot, an array or a name in `/dev` were told.
#[test]
fn what_is_no_path_is_told_as_what_it_is() {
    let place = Place::new();
    let images = place.images(5, SIZE);
    place.ok(&all(&["create", "tank", "--level", "5", "--assume-clean"], &images[..3]));
    let _serve = place.serve(&images[..3].iter().map(String::as_str).collect::<Vec<_>>());
    place.ok(&["fail", "tank", "1", "--force"]);
    let takes = |command: &str| format!("`{command}` takes a drive by its path, such as /dev/sdb");
    let of_slot = format!("1 is the number of a slot ({} (tank slot 1, failed))", images[1]);
    place.run(&["add", "tank", "1"]).refused(2, &[&of_slot, &takes("add"), "`stria replace ARRAY SLOT DRIVE`"]);
    place.run(&["replace", "tank", "0", "1"]).refused(2, &[&of_slot, &takes("replace")]);
    place.run(&["add", "tank", "tank"]).refused(2, &["tank is an array", &takes("add")]);
    place
        .run(&all(&["create", "lake", "--level", "5", "3"], &images[3..]))
        .refused(2, &["3 is the number of a slot", &takes("create")]);
    place.run(&["create", "lake", "--level", "1", &images[3], "--spare", "7"]).refused(2, &["7 is the number of a slot"]);
    place.run(&["wipe", "0"]).refused(2, &["0 is the number of a slot", &takes("wipe")]);
    place.run(&["locate", "0"]).refused(2, &[&format!("{} (tank slot 0)", images[0]), &takes("locate")]);
    place.run(&["examine", "null0"]).refused(1, &["null0 does not exist: check the name"]);
    place.run(&["examine", "null"]).refused(2, &["null does not exist here", "/dev/null"]);
    // A file that is called so is a drive.
    std::fs::rename(&images[4], place.path("1")).expect("another name");
    let added = place.command(&["add", "tank", "1"]).current_dir(place.path("")).output().expect("the program starts");
    assert!(added.status.success(), "{added:?}");
}

#[test]
fn a_bound_on_speed_is_lifted_again() {
    let place = Place::new();
    let images = place.images(2, SIZE);
    place.ok(&all(&["create", "tank", "--level", "1", "--assume-clean"], &images));
    let _serve = place.serve(&images.iter().map(String::as_str).collect::<Vec<_>>());
    for lifted in ["none", "0"] {
        place.ok(&["speed", "tank", "--max", "1"]);
        assert_eq!(place.status("tank")["speed"]["max_bytes_per_s"], 1);
        place.ok(&["scrub", "tank"]);
        // A minimum of which the bound that is lifted would make a contradiction.
        place.ok(&["speed", "tank", "--min", "1M", "--max", lifted]);
        assert!(place.status("tank")["speed"]["max_bytes_per_s"].is_null());
        // At one byte a second this would take years.
        place.settled("tank");
        place.ok(&["speed", "tank", "--min", "none"]);
    }
}
