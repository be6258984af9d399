//! Goal: whatever is wrong with drives, sockets or arguments is refused with a sentence that says what to do, and no byte is
//! changed.
//! Method: each case is tried with the real program; the drives are compared before and after.

#[path = "../../format/tests/support/firmware.rs"]
mod firmware;
mod support;

use std::os::unix::fs::FileExt;
use support::{Place, contents, may_skip, run_tool, unwrapped};

/// A stopped RAID 5 of three files with a spare file beside.
fn array(place: &Place) -> Vec<String> {
    let images = place.images(4, 32 << 20);
    place.ok(&["create", "tank", "--level", "5", "--assume-clean", &images[0], &images[1], &images[2]]);
    images
}

/// Before, a light was refused without a remedy, and an order that only the daemon takes with a path of the control socket.
#[test]
fn a_drive_that_is_not_there_and_an_order_to_the_wrong_process_are_told_with_a_remedy() {
    let place = Place::new();
    place.run(&["locate", "none"]).refused(1, &["none does not exist: check the name"]);
    let images = array(&place);
    let serve = place.serve(&[&images[0], &images[1], &images[2]]);
    place.run(&["start", "tank"]).refused(1, &["`stria daemon`", "not for `stria serve`"]);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

/// A user's archive has no signature that Stria knows. It counted as blank, and was overwritten without a question.
#[test]
fn a_file_full_of_data_without_a_signature_is_no_blank_drive() {
    let place = Place::new();
    let images = place.images(5, 32 << 20);
    // Data at the beginning of a file, and behind a hole.
    for (image, at) in [(&images[3], 0), (&images[4], 1_000_000)] {
        let file = std::fs::File::options().write(true).open(image).expect("an image file");
        file.write_all_at(b"holiday/sea.jpg: 1024 bytes of somebody's only copy", at).expect("it is written");
    }
    let old = [images[3].clone(), images[4].clone()];
    let before = contents(&old);
    let carries = "carries data without a known signature";
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let serve = place.serve(&[&images[0], &images[1]]);
    for image in &old {
        place.run(&["create", "x", "--level", "1", image, "missing"]).refused(4, &[carries, "--force"]);
        place.run(&["create", "x", "--level", "1", &images[2], "missing", "--spare", image]).refused(4, &[carries, "--force"]);
        place.run(&["add", "tank", image]).refused(4, &[carries, "--force"]);
        assert!(place.ok(&["examine", image]).contains(carries));
    }
    assert!(before == contents(&old));
    // An erasure makes it blank, and so does the end of an array.
    place.run(&["wipe", &images[3]]).refused(4, &[carries, "--yes"]);
    assert!(before == contents(&old));
    place.ok(&["wipe", "--yes", &images[3]]);
    place.ok(&["add", "tank", &images[3]]);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    place.ok(&["create", "x", "--level", "1", "--force", &images[4], "missing"]);
    for (array, images) in [("x", &old[1..]), ("tank", &[images[0].clone(), images[1].clone(), images[3].clone()])] {
        place.ok(&[&["destroy", array, "--force"], images.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat());
    }
    place.ok(&["create", "y", "--level", "5", &images[0], &images[3], &images[4]]);
}

#[test]
fn drives_named_twice_are_refused() {
    let place = Place::new();
    let images = place.images(3, 32 << 20);
    let link = place.path("link");
    std::os::unix::fs::symlink(&images[0], &link).expect("a link");
    let before = contents(&images);
    let link = link.to_str().expect("a plain path");
    place.run(&["create", "x", "--level", "1", &images[0], &images[0]]).refused(2, &["same drive", "once"]);
    place.run(&["create", "x", "--level", "1", &images[0], link]).refused(2, &["same drive", "once"]);
    place.run(&["create", "x", "--level", "1", "--spare", link, &images[0], &images[1]]).refused(2, &["same drive", "once"]);
    assert!(before == contents(&images));
    let place = Place::new();
    let images = array(&place);
    let before = contents(&images);
    place.run(&["serve", &images[0], &images[0], &images[1]]).refused(2, &["same drive", "once"]);
    // Nobody is asked to confirm that one drive is wiped twice.
    let link = place.path("link");
    std::os::unix::fs::symlink(&images[0], &link).expect("a link");
    for twin in [&images[0], link.to_str().expect("a plain path")] {
        for means in [&[][..], &["--discard"], &["--force"]] {
            place.run(&[&["wipe"], means, &[&images[1], &images[0], twin]].concat()).refused(2, &["same drive", "name it once"]);
        }
    }
    assert!(before == contents(&images));
}

/// A program parses all of standard output at once. `examine` once printed a list, and an error after it.
#[test]
fn json_output_is_one_value_whatever_fails() {
    let place = Place::new();
    let images = array(&place);
    let json = |arguments: &[&str], code: i32| -> serde_json::Value {
        let ran = place.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    };
    let absent = place.path("absent").to_str().expect("a plain path").to_owned();
    let examined = json(&["examine", &images[0], &absent, &images[3]], 1);
    let members: Vec<_> = examined.as_array().expect("a list").iter().map(|drive| drive["member"].as_bool()).collect();
    assert_eq!(members, [Some(true), Some(false), None], "{examined:#}");
    assert!(examined[2]["error"].as_str().is_some_and(|error| error.contains("does not exist")), "{examined:#}");
    let missed = json(&["assemble", "lake", &images[0], &images[1], &images[2]], 1);
    assert!(missed["error"]["message"].as_str().is_some_and(|text| text.contains("(there is tank)")), "{missed:#}");
    let unparsed = json(&["create", "x"], 2);
    assert!(unparsed["error"]["message"].as_str().is_some_and(|text| text.contains("--level <LEVEL> <DRIVE>")), "{unparsed:#}");
    json(&["wipe", &images[0]], 4);
    json(&["status", "lake"], 1);
    // The reason of a failure is on standard output here, and was once taken for the device.
    json(&["attach", "lake"], 1);
    assert_eq!(json(&["config", "show"], 0), serde_json::json!([]));
}

#[test]
fn usage_errors_exit_with_2_and_name_what_is_missing() {
    let place = Place::new();
    let images = array(&place);
    place.run(&["assemble", "lake"]).refused(2, &["no drive is named", "lake", "--scan"]);
    place.run(&["speed", "tank"]).refused(2, &["--min", "--max", "--latency"]);
    // Nobody is told of --force for an array that cannot be made.
    place.run(&["create", "x", "--level", "6", &images[0], &images[1], &images[2]]).refused(2, &["RAID level 6 takes 4"]);
    place.run(&["create", &"x".repeat(40), "--level", "5", &images[0], &images[1], &images[2]]).refused(2, &["31 bytes"]);
}

#[test]
fn commands_with_nothing_to_show_say_so() {
    let place = Place::new();
    let (state, tokens) = (place.path("state"), place.path("tokens"));
    std::fs::write(place.path("stria.toml"), format!("[daemon]\nstate = {state:?}\n[api]\ntokens = {tokens:?}\n"))
        .expect("a file");
    assert!(place.ok(&["token", "list"]).contains("stria token create"));
    let events = place.ok(&["events"]);
    assert!(events.contains("no event is stored in ") && events.contains("stria serve"), "{events}");
}

#[test]
fn commands_at_one_time_keep_each_others_tokens() {
    let place = Place::new();
    let tokens = place.path("tokens");
    std::fs::write(place.path("stria.toml"), format!("[api]\ntokens = {tokens:?}\n")).expect("a file");
    std::thread::scope(|scope| {
        for index in 0..12 {
            let place = &place;
            scope.spawn(move || place.ok(&["token", "create", &format!("user{index}")]));
        }
    });
    assert_eq!(place.ok(&["token", "list"]).lines().count(), 12);
}

#[test]
fn copied_member_is_refused() {
    let place = Place::new();
    let images = array(&place);
    std::fs::copy(&images[0], &images[3]).expect("a copy");
    let before = contents(&images);
    place.run(&["serve", &images[0], &images[1], &images[2], &images[3]]).refused(1, &["copies of the same member", "detach"]);
    assert!(before == contents(&images));
}

#[test]
fn an_array_that_cannot_start_for_a_damaged_superblock_names_that_drive() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    // Its first resync is still due.
    place.ok(&["create", "tank", "--level", "6", &images[0], &images[1], &images[2], &images[3]]);
    let drive = std::fs::OpenOptions::new().write(true).open(&images[1]).expect("an image");
    drive.write_all_at(&[0x77], 4096 + 100).expect("a byte");
    let before = contents(&images);
    let serve: Vec<&str> = std::iter::once("serve").chain(images.iter().map(String::as_str)).collect();
    place.run(&serve).refused(4, &["1 of 4 members", "--force", "d1 is not a member", "the md superblock is damaged"]);
    assert!(before == contents(&images));
}

#[test]
fn members_of_another_array_and_stale_ones_are_told_apart() {
    let place = Place::new();
    let images = place.images(6, 32 << 20);
    let (tank, barn) = images.split_at(3);
    for (name, drives) in [("tank", tank), ("barn", barn)] {
        place.ok(&["create", name, "--level", "5", "--assume-clean", &drives[0], &drives[1], &drives[2]]);
    }
    let stale = contents(&tank[2..]).remove(0);
    let serve = place.serve(&[&tank[0], &tank[1], &tank[2]]);
    let mut client = serve.client("tank");
    client.send_writes(&[(0, vec![1; 1 << 20])]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    drop(client);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    std::fs::write(&tank[2], stale).expect("an image");
    let before = contents(&images);
    let stranger: &[&str] = &["2 of 3 members are missing", "leave", "d4", "out"];
    place.run(&["serve", &tank[0], &tank[1], &barn[1]]).refused(1, stranger);
    place.run(&["serve", &tank[0], &tank[2]]).refused(1, &["d2 (slot 2) missed", "attach", "--force"]);
    let told = place.ok(&["assemble", &tank[0], &tank[1], &tank[2]]);
    assert!(told.contains("would start degraded, 1 missing") && told.contains("d2: slot 2, missed"), "{told}");
    assert!(before == contents(&images));
    // In another order, and without the stale drive, the array serves what was written.
    let serve = place.serve(&[&tank[1], &tank[0]]);
    assert!(serve.client("tank").read(0, 1 << 20).expect("an answer") == vec![1; 1 << 20]);
}

#[test]
fn drives_that_carry_something_are_refused() {
    let place = Place::new();
    let images = array(&place);
    if run_tool("mkfs.ext4", &["-q", &images[3]]).is_none() {
        return;
    }
    let before = contents(&images);
    place.run(&["create", "new", "--level", "1", &images[3], "missing"]).refused(4, &["ext4", "--force", "d3"]);
    place.run(&["create", "new", "--level", "1", &images[0], "missing"]).refused(4, &["tank", "--force"]);
    place.run(&["serve", &images[0], &images[1], &images[2], &images[3]]).refused(1, &["d3", "ext4"]);
    let examined = place.ok(&["examine", &images[3]]);
    assert!(examined.contains("ext4"), "{examined}");
    assert!(before == contents(&images));
    let serve = place.serve(&[&images[0], &images[1], &images[2]]);
    let foreign = contents(&images[3..]);
    place.run(&["add", "tank", &images[3]]).refused(4, &["ext4", "--force"]);
    place.run(&["replace", "tank", &images[0], &images[3]]).refused(4, &["ext4", "--force"]);
    // An answer in advance is no answer to a question that names what is lost.
    place.run(&["add", "tank", &images[3], "--yes"]).refused(4, &["ext4", "--force"]);
    place.run(&["replace", "tank", &images[0], &images[3], "-y"]).refused(4, &["ext4", "--force"]);
    assert!(foreign == contents(&images[3..]));
    place.ok(&["add", "tank", &images[3], "--force"]);
    drop(serve);
}

/// The marks of Promise, Adaptec, Silicon Image, NVIDIA, VIA, JMicron, LSI and HighPoint, in each place that they may have.
#[test]
fn firmware_raid_is_refused_by_name_and_leaves_nothing_when_it_is_overwritten_by_force() {
    let size = 64 << 20;
    for (offset, sector, name, _) in firmware::firmware_raids(size) {
        let place = Place::new();
        let images = place.images(2, size);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&images[1])
            .and_then(|image| image.write_all_at(&sector, offset))
            .expect("a mark");
        let before = contents(&images);
        let create = ["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]];
        let refused = place.run(&create);
        refused.refused(4, &["--force", "d1"]);
        assert!(unwrapped(&refused.stderr).contains(&name), "{name}: {refused:?}");
        assert!(before == contents(&images), "{name}: bytes were changed");
        let examined = unwrapped(&place.ok(&["examine", &images[1]]));
        assert!(examined.contains(&name), "{name}: {examined}");
        place.ok(&[&create[..], &["--force"]].concat());
        for image in &images {
            let Some(found) = run_tool("wipefs", &["-n", "-i", "-O", "TYPE,OFFSET", image]) else { return };
            let found: Vec<String> = found.lines().map(unwrapped).collect();
            assert_eq!(found, ["linux_raid_member 0x1000"], "{name}");
        }
    }
}

#[test]
fn drives_of_a_wrong_size_are_refused() {
    let place = Place::new();
    let images = array(&place);
    let small = place.path("small");
    std::fs::File::create(&small).and_then(|file| file.set_len(16 << 20)).expect("a file");
    let tiny = place.path("tiny");
    std::fs::File::create(&tiny).and_then(|file| file.set_len(4096)).expect("a file");
    let (small, tiny) = (small.to_str().expect("a plain path").to_owned(), tiny.to_str().expect("a plain path").to_owned());
    let before = contents(&[small.clone(), tiny.clone()]);
    place.run(&["create", "x", "--level", "1", &tiny, &small]).refused(1, &["too small"]);
    place.run(&["create", "x", "--level", "1", "--size", "1GiB", &small, "missing"]).refused(1, &["--size asks for"]);
    place
        .run(&["create", "x", "--level", "1", "--size", "4K", &small, "missing"])
        .refused(1, &["--size asks for 4 KiB", "one strip of"]);
    // An empty file is named as what it is; its size matters to `create` only.
    let empty = place.path("nothing").display().to_string();
    std::fs::File::create(&empty).expect("a file");
    place.run(&["create", "x", "--level", "1", &small, &empty]).refused(1, &["empty file", "truncate -s"]);
    let served = place.run(&["serve", &empty]);
    served.refused(1, &["empty file, which carries no array"]);
    assert!(!served.stderr.contains("truncate"), "{served:?}");
    place.run(&["serve", "--cpus", "1023", &small]).refused(2, &["--cpus", "processor 1023 is not there", "name some of these"]);
    let serve = place.serve(&[&images[0], &images[1], &images[2]]);
    place.run(&["add", "tank", &small]).refused(1, &["small", "needs"]);
    assert!(before == contents(&[small.clone(), tiny]));
    // The refusal left nothing behind: a drive that fits is taken, and rebuilt.
    place.ok(&["add", "tank", &images[3]]);
    place.ok(&["fail", "tank", &images[0], "-y"]);
    place.settled("tank");
    drop(serve);
}

#[test]
fn damaged_members_are_refused() {
    let place = Place::new();
    let images = array(&place);
    let all = [&*images[0], &*images[1], &*images[2]];
    let open = |index: usize| std::fs::OpenOptions::new().write(true).open(&images[index]).expect("an image");
    open(1).set_len(8 << 20).expect("it shrinks");
    let before = contents(&images);
    place.run(&[&["serve"], &all[..]].concat()).refused(1, &["d1"]);
    assert!(before == contents(&images));
    open(1).set_len(32 << 20).expect("it grows");
    // One bit of every tenth byte of the superblock, one at a time.
    let file = open(2);
    let mut superblock = [0; 256];
    std::fs::File::open(&images[2]).expect("an image").read_exact_at(&mut superblock, 4096).expect("it reads");
    for at in (0..256).step_by(23) {
        let mut damaged = superblock;
        damaged[at] ^= 1 << (at % 8);
        file.write_all_at(&damaged, 4096).expect("it writes");
        let before = contents(&images);
        place.run(&[&["serve"], &all[..]].concat()).refused(1, &["d2"]);
        let examined = place.ok(&["examine", "--raw", &images[2]]);
        assert!(examined.contains("no member"), "byte {at}: {examined}");
        assert!(before == contents(&images));
    }
    file.write_all_at(&superblock, 4096).expect("it writes");
    drop(place.serve(&all));
}

#[test]
fn second_serve_is_refused() {
    let place = Place::new();
    let images = array(&place);
    let all = [&*images[0], &*images[1], &*images[2]];
    let serve = place.serve(&all);
    place.settled("tank");
    let other = |arguments: &[&str]| {
        let socket = place.path("other.sock");
        let output =
            place.command(&[arguments, &all[..], &["--socket", socket.to_str().expect("a plain path")]].concat()).output();
        let output = output.expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for arguments in [&["serve"][..], &["serve", "--force"], &["serve", "--read-only"]] {
        let (code, said) = other(arguments);
        assert!(code == Some(1) && said.contains("in use"), "{arguments:?}: {code:?} {said}");
    }
    place.run(&["create", "x", "--level", "1", "--force", &images[0], &images[3]]).refused(1, &["in use"]);
    // Reading is allowed.
    assert!(place.ok(&["examine", &images[0]]).contains("raid5"));
    drop(serve);
}

#[test]
fn taken_sockets_are_refused_and_stale_ones_replaced() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    place.ok(&["create", "left", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    place.ok(&["create", "right", "--level", "1", "--assume-clean", &images[2], &images[3]]);
    let left = place.serve(&[&images[0], &images[1]]);
    let before = contents(&images[2..]);
    place.run(&["serve", &images[2], &images[3]]).refused(1, &["another `stria serve`", "--socket"]);
    let nbd = format!("unix:{}", place.path("nbd.sock").display());
    let other = place.path("other.sock");
    let other = other.to_str().expect("a plain path");
    place.run(&["serve", &images[2], &images[3], "--socket", other, "--nbd", &nbd]).refused(1, &["cannot listen", "nbd.sock"]);
    assert!(before == contents(&images[2..]), "nothing is written before everything is there");
    left.kill();
    assert!(place.path("control.sock").exists() && place.path("nbd.sock").exists(), "a killed serve leaves its sockets");
    let serve = place.serve(&[&images[0], &images[1]]);
    place.ok(&["stop", "left"]);
    serve.ended_well();
    assert!(!place.path("control.sock").exists() && !place.path("nbd.sock").exists());
    std::fs::write(place.path("control.sock"), "precious").expect("a file");
    place.run(&["serve", &images[0], &images[1]]).refused(1, &["not a socket"]);
    assert_eq!(std::fs::read(place.path("control.sock")).expect("a file"), b"precious");
}

#[test]
fn read_only_serve_changes_nothing() {
    let place = Place::new();
    let images = array(&place);
    let before = contents(&images);
    let serve = place.serve(&[&images[0], &images[1], &images[2], "--read-only"]);
    assert_eq!(place.status("tank")["read_only"], true);
    let mut client = serve.client("tank");
    assert!(client.read(0, 4096).expect("an answer") == vec![0; 4096]);
    client.send_writes(&[(0, vec![1; 4096])]).expect("it listens");
    assert_ne!(client.reply().expect("an answer").1, 0, "writes are refused");
    drop(client);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    assert!(before == contents(&images));
}

#[test]
fn nonsense_is_refused_with_words() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    let (a, b, c) = (&*images[0], &*images[1], &*images[2]);
    let before = contents(&images);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["create", "x", "--level", "7", a, b], 2, "unknown"),
        (&["create", "x", "--level", "5", "--layout", "n2", a, b, c], 2, "left-symmetric"),
        (&["create", "x", "--level", "5", "--strip", "3K", a, b, c], 2, "power of two"),
        (&["create", "x", "--level", "5", "--strip", "2M", a, b, c], 2, "power of two"),
        (&["create", "x", "--level", "5", "--spans", "2", a, b, c], 2, "50 and 60"),
        (&["create", "x", "--level", "50", a, b, c], 2, "equal spans"),
        (&["create", "x", "--level", "6", a, b, c], 2, "takes 4 to 255 members, and 3"),
        (&["create", "x", "--level", "0", a, "missing"], 2, "missing"),
        (&["create", "x", "--level", "5", a, "missing", "missing"], 2, "survives 1"),
        (&["create", "x", "--level", "1", "missing", "missing"], 2, "at least one drive"),
        (&["create", "a/b", "--level", "1", a, b], 2, "name"),
        (&["create", &"x".repeat(32), "--level", "1", a, b], 2, "31 bytes"),
        (&["create", "x", "--level", "1", a, "/nowhere"], 1, "does not exist"),
        (&["create", "x", "--level", "1", a, "/tmp"], 1, "directory"),
        (&["create", "x", "--level", "1", a, "/dev/null"], 1, "character device"),
        (&["serve", a, b], 1, "not a member"),
        (&["serve", "nobody"], 1, "nobody"),
        (&["serve", a, "--nbd", "here"], 2, "unix:PATH"),
        (&["status", "nobody"], 1, "is it running"),
        (&["examine", "/nowhere"], 1, "does not exist"),
        (&["frobnicate"], 2, "unrecognized"),
        (&["create", "x", "--level", "1", "--bitmap", "external", a, b], 2, "internal"),
        (&["trim", "x", "--range", "5"], 2, "OFFSET:LENGTH"),
    ];
    for (arguments, code, word) in cases {
        place.run(arguments).refused(*code, &[word]);
    }
    assert!(before == contents(&images));
}

/// A small file system, unmounted when dropped.
struct Small(String);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").args(["-l", &self.0]).status();
    }
}

/// A file of 64 MiB on a file system of 16 MiB.
fn thin_file(place: &Place) -> Option<(Small, String)> {
    let mount = place.path("small");
    std::fs::create_dir(&mount).expect("a folder");
    let mount_text = mount.to_str().expect("a plain path").to_owned();
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "none", &mount_text]).output();
    if !mounted.as_ref().is_ok_and(|output| output.status.success()) {
        may_skip("a small tmpfs cannot be mounted", "run as root");
        return None;
    }
    let thin = mount.join("thin");
    std::fs::File::create(&thin).and_then(|file| file.set_len(64 << 20)).expect("a file");
    Some((Small(mount_text), thin.to_str().expect("a plain path").to_owned()))
}

/// Before, `status` said "clean" while writes failed. A RAID 50 tells of its spans' members as before, and of no other.
#[test]
fn full_disk_below_a_level_without_redundancy_is_told_as_that() {
    for level in ["0", "jbod", "50"] {
        let place = Place::new();
        let images = place.images(5, 64 << 20);
        let Some((_small, thin)) = thin_file(&place) else { return };
        // The first member of a JBOD is written first.
        let count = if level == "50" { 5 } else { 1 };
        let drives = [vec![&*thin], images[..count].iter().map(String::as_str).collect()].concat();
        place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], &drives[..]].concat());
        let serve = place.serve(&drives);
        let mut client = serve.client("tank");
        let healthy = place.run(&["status", "tank"]);
        assert!(healthy.code == 0 && healthy.stdout.contains("clean"), "RAID {level}: {healthy:?}");
        let mut write = |index: u64| {
            client.send_writes(&[(index << 20, vec![index as u8 + 1; 1 << 20])]).expect("it listens");
            client.reply().expect("an answer").1
        };
        assert!((0..100).any(|index| write(index) == 28), "RAID {level}: no write failed for want of space");
        let told = place.run(&["status", "tank"]);
        let text = unwrapped(&told.stdout);
        assert!(
            told.code == 3 && text.contains(&format!("NO SPACE on {thin}: writes that need space")),
            "RAID {level}: {told:?}"
        );
        assert!(text.contains("state NO SPACE"), "RAID {level}: {told:?}");
        let status = place.status("tank");
        let members = |array: &serde_json::Value| array["members"].as_array().expect("a list").clone();
        let all: Vec<serde_json::Value> =
            members(&status).into_iter().chain(status["spans"].as_array().expect("a list").iter().flat_map(members)).collect();
        let full: Vec<_> = all.iter().filter(|member| member["no_room"] == true).map(|member| member["path"].clone()).collect();
        assert_eq!(full, [serde_json::Value::from(&*thin)], "RAID {level}");
        let explained = unwrapped(&place.run(&["explain", "tank"]).stdout);
        assert!(explained.contains(&format!("{thin} has no space for writes")), "RAID {level}: {explained}");
        assert!(explained.contains("make space there"), "RAID {level}: {explained}");
    }
}

/// The disk under one member is full: clients get "no space" and nothing is lost; without the member the array goes on.
#[test]
fn full_disk_under_a_member_is_told_as_that() {
    let place = Place::new();
    let images = place.images(1, 64 << 20);
    let Some((_small, thin)) = thin_file(&place) else { return };
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &thin]);
    let serve = place.serve(&[&images[0], &thin]);
    let mut client = serve.client("tank");
    let writes: Vec<(u64, Vec<u8>)> = (0..40).map(|index| (index << 20, vec![index as u8 + 1; 1 << 20])).collect();
    let mut write_each = || {
        let mut outcome = |write| {
            client.send_writes(std::slice::from_ref(write)).expect("it listens");
            client.reply().expect("an answer").1
        };
        writes.iter().map(&mut outcome).collect::<Vec<_>>()
    };
    const NO_SPACE: u32 = 28;
    let outcomes = write_each();
    assert!(outcomes.contains(&0) && outcomes.contains(&NO_SPACE), "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| [0, NO_SPACE].contains(outcome)), "{outcomes:?}");
    for ((offset, data), _) in writes.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == 0) {
        assert!(serve.client("tank").read(*offset, data.len()).expect("an answer") == *data);
    }
    place.ok(&["fail", "tank", &thin, "--force"]);
    assert!(write_each().iter().all(|outcome| *outcome == 0), "the other member has room");
    for (offset, data) in &writes {
        assert!(client.read(*offset, data.len()).expect("an answer") == *data);
    }
    drop(client);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

/// There are completions for every shell, and bash accepts them.
#[test]
fn completions_and_help_are_there() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = place.ok(&["completions", shell]);
        assert!(text.contains("scrub") && text.contains("assume-clean"), "{shell}: {} bytes", text.len());
    }
    // After `--level` the shells offer levels, no file names.
    let offered = |shell: &str, words: &[&str]| {
        let text = place.ok(&["completions", shell]);
        assert!(words.iter().all(|word| text.contains(word)), "{shell} offers no levels");
    };
    offered("zsh", &["LEVEL:(0 1 4 5 6 10 50 60 jbod)"]);
    offered("fish", &["-s l -l level", "jbod"]);
    let script = format!(
        "source <({} completions bash); COMP_WORDS=(stria create --level ''); COMP_CWORD=3; _stria stria '' --level; echo \"${{COMPREPLY[@]}}\"",
        env!("CARGO_BIN_EXE_stria")
    );
    let listed = run_tool("bash", &["-c", &script]).expect("bash is there");
    assert_eq!(listed.trim(), "0 1 4 5 6 10 50 60 jbod");
    place.run(&["completions", "dos"]).refused(2, &["bash"]);
    let script = format!("source <({} completions bash) && complete -p stria", env!("CARGO_BIN_EXE_stria"));
    run_tool("bash", &["-c", &script]);
    for arguments in [&["--help"][..], &["create", "--help"], &["serve", "--help"], &["--version"]] {
        assert!(!place.ok(arguments).is_empty());
    }
}
