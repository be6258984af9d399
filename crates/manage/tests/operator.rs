//! Goal: an administrator is told what is wrong, first and in few words; commands take drives as people name them; exit codes say
//! what scripts need to know.
//! Method: the real program on image files.

mod support;

use serde_json::Value;
use std::os::unix::fs::FileExt;
use support::{Place, contents, unwrapped};

fn create(place: &Place, level: &str, count: usize, more: &[&str]) -> Vec<String> {
    let images = place.images(count, 32 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], more, &drives[..]].concat());
    images
}

fn slices(images: &[String]) -> Vec<&str> {
    images.iter().map(String::as_str).collect()
}

/// The longest line that is no URI, which is told in one piece.
fn widest(text: &str) -> usize {
    text.lines().filter(|line| !line.contains("nbd+unix:")).map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn the_worst_comes_first_and_fits_a_terminal() {
    let place = Place::new();
    let images = create(&place, "6", 5, &[]);
    let serve = place.serve(&slices(&images));
    let healthy = place.run(&["status", "tank"]);
    assert_eq!(healthy.code, 0, "{healthy:?}");
    assert!(healthy.stdout.lines().nth(1).is_some_and(|line| line.contains("clean")), "{}", healthy.stdout);
    // By slot, and with words about what is left.
    place.ok(&["fail", "tank", "2", "--force"]);
    let told = place.run(&["status", "tank"]);
    assert_eq!(told.code, 3);
    let state = told.stdout.lines().nth(1).expect("a line of state").to_owned();
    assert!(state.contains("DEGRADED: slot 2 missing, survives 1 more failure, no spare"), "{}", told.stdout);
    assert!(!told.stdout.contains("clean"), "{}", told.stdout);
    assert!(widest(&told.stdout) <= 80, "{}", told.stdout);
    assert!(told.stdout.contains(&format!("{}: failed on command, since ", images[2])), "{}", told.stdout);
    assert!(told.stdout.lines().any(|line| line.starts_with("since ") && line.contains(':')), "{}", told.stdout);
    let status = place.status("tank");
    let since = status["since_s"].as_u64().expect("it was seen");
    let age = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() - since;
    let failed = |member: &&Value| member["role"] == "failed";
    let member = status["members"].as_array().expect("a list").iter().find(failed).expect("it is listed");
    assert!(age < 60 && member["since_s"] == since, "{status:#}");
    place.ok(&["fail", "tank", "tank:0", "--force"]);
    for option in ["--force", "--yes", "-y"] {
        place.run(&["remove", "tank", "tank:0", option]).refused(2, &["asks nothing", "leave the option out"]);
    }
    let status = place.status("tank");
    assert_eq!((&status["losses_survived"], &status["health"]), (&0.into(), &"degraded".into()), "{status:#}");
    assert!(status["headline"].as_str().is_some_and(|line| line.contains("ONE MORE FAILURE LOSES DATA")), "{status:#}");
    assert_eq!(status["state"], "degraded");
    // A drive that failed is still listed, and comes back without ceremony.
    place.ok(&["add", "tank", &images[2], "--wait"]);
    let status = place.status("tank");
    let roles: Vec<&str> =
        status["members"].as_array().expect("a list").iter().map(|member| member["role"].as_str().expect("text")).collect();
    assert_eq!((roles.iter().filter(|role| **role == "in sync").count(), &status["missing_slots"]), (4, &serde_json::json!([0])));
    place.run(&["fail", "tank", "9", "--force"]).refused(1, &["does not use 9", "slot 2"]);
    // A failed drive whose slot is filled again does no harm, but is not forgotten.
    let fresh = place.path("fresh").to_str().expect("a plain path").to_owned();
    std::fs::File::create(&fresh).and_then(|file| file.set_len(32 << 20)).expect("an image file");
    place.ok(&["add", "tank", &fresh, "--wait"]);
    let headline = |status: Value| status["headline"].as_str().expect("a line").to_owned();
    let replaced = headline(place.status("tank"));
    assert!(
        replaced.starts_with(&format!("{} failed, and {fresh} holds slot 0; it can be removed, otherwise ", images[0])),
        "{replaced}"
    );
    place.ok(&["remove", "tank", &images[0]]);
    assert!(["clean", "active"].contains(&&headline(place.status("tank"))[..]));
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

#[test]
fn several_arrays_take_a_line_each_the_worst_first() {
    let place = Place::new();
    let images = place.images(4, 32 << 20);
    let drives = slices(&images);
    for (name, pair) in [("aft", &drives[..2]), ("zeal", &drives[2..])] {
        place.ok(&[&["create", name, "--level", "1", "--assume-clean"], pair].concat());
    }
    let _serve = place.serve(&drives);
    place.ok(&["fail", "zeal", "1", "--force"]);
    let told = place.run(&["status"]);
    assert_eq!(told.code, 3);
    assert!(told.stdout.starts_with("zeal") && told.stdout.contains("aft"), "{}", told.stdout);
    assert!(widest(&told.stdout) <= 80 && told.stdout.lines().count() <= 4, "{}", told.stdout);
    assert!(place.run(&["status", "-v"]).stdout.contains("io_uring"), "lanes are told with -v");
}

/// Before, the failed member left the list first, and the refusal came after that.
#[test]
fn a_failed_member_stays_listed_if_the_drive_at_its_path_cannot_replace_it() {
    let place = Place::new();
    let images = create(&place, "6", 5, &[]);
    let _serve = place.serve(&slices(&images));
    let (lost, kept) = (&images[2], place.path("kept"));
    place.ok(&["fail", "tank", lost, "--force"]);
    let listed = || {
        let members = place.status("tank")["members"].as_array().expect("a list").clone();
        members.iter().any(|member| member["path"] == **lost && member["role"] == "failed")
    };
    let refused = |words: &[&str]| {
        place.run(&["add", "tank", lost, "--force"]).refused(1, words);
        assert!(listed(), "{words:?}: {:#}", place.status("tank"));
    };
    std::fs::rename(lost, &kept).expect("it moves away");
    refused(&[lost, "does not exist"]);
    std::fs::create_dir(lost).expect("a directory");
    refused(&[lost, "directory"]);
    std::fs::remove_dir(lost).expect("it is empty");
    let other = std::fs::File::create(lost).expect("another file");
    other.set_len(8 << 20).expect("too small");
    refused(&[lost, "needs"]);
    other.set_len(32 << 20).expect("as large as the others");
    other.lock().expect("nobody else has it");
    refused(&[lost, "in use"]);
    std::fs::rename(&kept, lost).expect("it comes back");
    let file = std::fs::OpenOptions::new().write(true).open(lost).expect("an image");
    file.set_len(8 << 20).expect("cut short");
    refused(&[lost, "needs"]);
    file.set_len(32 << 20).expect("as large as before");
    place.ok(&["add", "tank", lost, "--wait"]);
    assert!(!listed() && place.status("tank")["health"] == "optimal", "{:#}", place.status("tank"));
    // A new file at the path of a failed member takes its place.
    place.ok(&["fail", "tank", lost, "--force"]);
    drop(other);
    std::fs::remove_file(lost).expect("it goes");
    std::fs::File::create(lost).and_then(|file| file.set_len(32 << 20)).expect("another file");
    place.ok(&["add", "tank", lost, "--wait"]);
    assert!(!listed() && place.status("tank")["health"] == "optimal", "{:#}", place.status("tank"));
}

/// What is missing, what that means, what to do, and what a crash left: as warnings, which `--quiet` leaves.
#[test]
fn a_start_without_all_members_warns_of_what_is_left() {
    let place = Place::new();
    let images = create(&place, "6", 5, &[]);
    let drives = slices(&images);
    let warned = |drives: &[&str], more: &[&str], kill: bool| {
        let serve = place.serve(&[drives, &["--quiet"], more].concat());
        let mut client = serve.client("tank");
        let writes: Vec<(u64, Vec<u8>)> = (0..16).map(|index| (index * 40960, vec![7; 4096])).collect();
        client.send_writes(&writes).expect("they are taken");
        writes.iter().for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
        serve.signal(if kill { "-KILL" } else { "-TERM" });
        let log = serve.ended().1;
        log.lines().filter(|line| line.contains(" WARN ")).map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(warned(&drives, &[], false), "", "all are there, and the last stop was a good one");
    let one = warned(&[drives[0], drives[1], drives[3], drives[4]], &[], false);
    assert!(one.contains("DEGRADED: array \"tank\" starts with slot 2 missing: it survives 1 more failure; no spare"), "{one}");
    assert!(!one.contains("was not stopped cleanly"), "{one}");
    let two = warned(&[drives[0], drives[1], drives[4]], &[], true);
    assert!(two.contains("starts with slots 2, 3 missing: the next failure may lose data; no spare"), "{two}");
    let crashed = warned(&[drives[0], drives[1], drives[4]], &[], false);
    assert!(crashed.contains("starts with slots 2, 3 missing"), "{crashed}");
    let told = crashed.lines().find(|line| line.contains("was not stopped cleanly")).unwrap_or_else(|| panic!("{crashed}"));
    let count = told.split_once("stopped cleanly: ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(count.is_some_and(|count| count > 0) && told.contains("of its write log "), "{told}");
    assert!(told.contains("regions marked in its bitmap are resynced"), "{told}");
}

#[test]
fn a_repair_that_may_choose_the_wrong_side_asks() {
    for (level, count, words) in
        [("5", 3, "one parity"), ("1", 2, "two copies"), ("10", 4, "two copies"), ("50", 6, "one parity")]
    {
        let place = Place::new();
        let images = create(&place, level, count, &[]);
        let serve = place.serve(&slices(&images));
        let file = std::fs::OpenOptions::new().write(true).open(&images[1]).expect("an image");
        file.write_all_at(&[0xee; 4096], 16 << 20).expect("it writes");
        file.sync_all().expect("it syncs");
        let found = place.run(&["scrub", "tank", "--wait"]);
        assert!(found.code == 3, "RAID {level}: {found:?}");
        place.run(&["scrub", "tank", "--repair"]).refused(4, &[words, "may keep the wrong data", "--yes"]);
        assert_eq!(place.run(&["status", "tank"]).code, 3, "RAID {level}: still so");
        let mended = place.run(&["scrub", "tank", "--repair", "--force", "--wait"]);
        assert_eq!(mended.code, 0, "RAID {level}: {mended:?}");
        assert_eq!(place.run(&["status", "tank"]).code, 0, "RAID {level}");
        assert_eq!(place.run(&["scrub", "tank", "--wait"]).code, 0, "RAID {level}");
        drop(serve);
    }
}

#[test]
fn a_read_only_array_changes_no_byte() {
    for level in ["1", "5", "6", "50"] {
        let place = Place::new();
        let images = create(&place, level, 6, &[]);
        let extra = place.path("extra");
        std::fs::File::create(&extra).and_then(|file| file.set_len(32 << 20)).expect("an image");
        let extra = extra.to_str().expect("a plain path").to_owned();
        let all = [images.clone(), vec![extra.clone()]].concat();
        let before = contents(&all);
        let drives = slices(&images);
        let serve = place.serve(&[&drives[..], &["--read-only"]].concat());
        for command in [
            &["add", "tank", &extra, "--force"][..],
            &["fail", "tank", &images[0], "--force"],
            &["remove", "tank", &images[0]],
            &["replace", "tank", &images[0], &extra, "--force"],
            &["scrub", "tank", "--repair", "--force"],
        ] {
            place.run(command).refused(1, &["read-only", "without --read-only"]);
        }
        // Before anything is asked, and before an option is found wrong.
        for command in [&["fail", "tank", &images[0]][..], &["scrub", "tank", "--repair"], &["remove", "tank", "0", "--force"]] {
            place.run(command).refused(1, &["array \"tank\" is served read-only", "`stria set tank --read-only off`"]);
        }
        let scrubbed = place.run(&["scrub", "tank", "--wait"]);
        assert!(scrubbed.code == 0 && scrubbed.stdout.contains(" 0 sectors with mismatches"), "RAID {level}: {scrubbed:?}");
        assert_eq!(place.status("tank")["health"], "optimal");
        place.ok(&["stop", "tank"]);
        serve.ended_well();
        assert!(before == contents(&all), "RAID {level}: a byte changed");
    }
}

#[test]
fn create_says_what_one_should_know() {
    let place = Place::new();
    let images = place.images(6, 32 << 20);
    let large = place.path("large one");
    std::fs::File::create(&large).and_then(|file| file.set_len(64 << 20)).expect("an image");
    let large = large.to_str().expect("a plain path");
    let drives = slices(&images);
    let made = place.run(&["create", "tank", "--level", "5", drives[0], drives[1], large]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.stderr.contains("32 MiB to 64 MiB"), "{made:?}");
    assert!(made.stdout.contains(&format!("serve it: stria serve {} {} '{large}'", drives[0], drives[1])), "{made:?}");
    let made = place.run(&["--json", "create", "tank", "--level", "5", "--force", drives[0], drives[1], "missing"]);
    let told: Value = serde_json::from_str(&made.stdout).expect("JSON");
    assert!(told["warnings"][0].as_str().is_some_and(|text| text.contains("without redundancy")), "{told:#}");
    assert!(told["next"].as_str().is_some_and(|next| next.starts_with("stria serve /")), "{told:#}");
    let made = place.ok(&[&["create", "tank", "--level", "50", "--strip", "64K", "--force"], &drives[..]].concat());
    assert!(made.contains("strip 64 KiB (as asked for)"), "{made}");
}

#[test]
fn usage_errors_are_2_in_json_too() {
    let place = Place::new();
    for arguments in [
        &["--json", "frobnicate"][..],
        &["status", "--json", "--nonsense"],
        &["create", "x", "--level", "7", "a", "b", "--json"],
        &["--json", "create", "x", "--level", "6", "a", "b", "c"],
        &["--json", "scrub"],
    ] {
        let images = place.images(3, 32 << 20);
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|&argument| ["a", "b", "c"].iter().position(|name| *name == argument).map_or(argument, |index| &images[index]))
            .collect();
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        let told: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!(told["error"]["exit_code"], 2, "{ran:?}");
        assert!(told["error"]["message"].as_str().is_some_and(|message| message.len() > 5), "{ran:?}");
    }
}

#[test]
fn assemble_and_serve_refuse_alike() {
    let place = Place::new();
    let images = create(&place, "5", 3, &["--log", "none"]);
    let serve = place.serve(&slices(&images));
    let mut client = serve.client("tank");
    client.send_writes(&[(0, vec![1; 1 << 20])]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    serve.kill();
    for drives in [&[&images[0][..], &images[1]][..], &[&images[0]]] {
        let codes = ["assemble", "serve"].map(|command| place.run(&[&[command], drives].concat()).code);
        assert_eq!(codes[0], codes[1], "{drives:?}");
        assert_eq!(codes[0], if drives.len() == 2 { 4 } else { 1 });
    }

    // A drive without a superblock among the members, or alone: serve takes it for a member that was damaged.
    let other = Place::new();
    let members = create(&other, "5", 3, &[]);
    let elsewhere = Place::new();
    let stranger = elsewhere.images(1, 32 << 20).pop().expect("an image");
    let members = slices(&members);
    for drives in [&[members[0], members[1], members[2], &stranger][..], &["tank", members[0], members[1], members[2], &stranger]]
    {
        let told = other.run(&[&["assemble"], drives].concat());
        assert_eq!((told.code, other.run(&[&["serve"], drives].concat()).code), (1, 1), "{told:?}");
        let words = unwrapped(&told.stdout);
        assert!(
            words.contains("would start with all members") && words.contains("`stria serve` refuses these drives"),
            "{words}"
        );
        let told = other.run(&[&["--json", "assemble"], drives].concat());
        assert_eq!(told.code, 1, "{told:?}");
        let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert!(told["serve_refuses"].as_str().is_some_and(|words| words.contains("leave it out")), "{told:#}");
    }
    assert_eq!(["assemble", "serve"].map(|command| other.run(&[command, &stranger]).code), [1, 1]);
    assert_eq!(other.run(&["--json", "assemble", members[0], members[1]]).code, 0, "a degraded array starts");
}

#[test]
fn the_name_that_an_array_is_served_under_wins() {
    let place = Place::new();
    let images = create(&place, "1", 2, &[]);
    let serve = place.serve(&[&images[0], &images[1], "--name", "barn"]);
    let told = place.run(&["status", "barn"]);
    assert!(told.stdout.lines().next().is_some_and(|line| line.ends_with("barn")), "{told:?}");
    place.ok(&["fail", "barn", "1", "--force"]);
    place.ok(&["add", "barn", &images[1], "--wait"]);
    place.ok(&["stop", "barn"]);
    let log = serve.ended_well();
    assert!(log.contains("barn") && !log.contains("tank:"), "{log}");
}

#[test]
fn no_color_is_heard() {
    let place = Place::new();
    let images = create(&place, "1", 2, &[]);
    // On a terminal, which `script` plays, the log has colours, and with NO_COLOR none.
    let serve = |more: &str| {
        let program = env!("CARGO_BIN_EXE_stria");
        let command = format!("{more} timeout -s TERM 2 {program} serve {} {}", images[0], images[1]);
        let output = place.command_line("script", &["-qec", &command, "/dev/null"]).output().expect("script is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(serve("").contains("\x1b["), "colours on a terminal");
    let plain = serve("NO_COLOR=1");
    assert!(plain.contains("served") && !plain.contains("\x1b["), "{plain:?}");
}

/// The process has no event of the loss.
#[test]
fn a_start_without_a_member_says_not_since_when() {
    let place = Place::new();
    let images = create(&place, "5", 3, &[]);
    let _serve = place.serve(&slices(&images)[..2]);
    let told = place.run(&["status", "tank"]);
    assert!(told.stdout.contains("DEGRADED") && !told.stdout.lines().any(|line| line.starts_with("since ")), "{}", told.stdout);
    assert!(place.status("tank")["since_s"].is_null());
}
