//! Goal: each fault of a member or an array raises one alarm, under the name that `mdadm --monitor` has for it, and no other
//! alarm; its end is reported too; every channel works.
//! Method: the real program, with faults on its real members; HTTP and SMTP servers of the test, and a program that is called as
//! mdadm would call it.

mod support;

use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use support::daemon::Daemon;
use support::hanging::Hanging;
use support::sink::Sink;
use support::{PATIENCE, Place, Serve, may_skip};

/// An array of images, served with a webhook.
struct Watched {
    place: Place,
    images: Vec<String>,
    sink: Sink,
    serve: Serve,
}

impl Watched {
    /// A RAID 5 of three, and so many spares that the configuration asks for.
    fn new(spares: usize) -> Self {
        let (place, sink) = (Place::new(), Sink::http());
        let images = place.images(3 + spares, 32 << 20);
        let drives: Vec<&str> = images.iter().map(String::as_str).collect();
        let mut create = vec!["create", "tank", "--level", "5", "--assume-clean"];
        drives[3..].iter().for_each(|spare| create.extend(["--spare", spare]));
        place.ok(&[&create, &drives[..3]].concat());
        let file = place.path("alarms.toml");
        std::fs::write(&file, format!("[alarms]\nspares = {{ tank = {spares} }}\n")).expect("a file");
        let url = format!("http://{}/", sink.address);
        let options = ["--alarms", file.to_str().expect("a plain path"), "--alarm-webhook", &url];
        let serve = place.serve(&[&drives[..], &options].concat());
        Self { place, images, sink, serve }
    }

    /// No other alarm was sent.
    fn ends_with(self, alarms: &[&str]) {
        self.place.ok(&["stop", "tank", "--force"]);
        self.serve.ended_well();
        assert_eq!(self.sink.alarms(), alarms);
    }
}

#[test]
fn a_member_that_is_failed_on_command_is_told_until_it_is_back() {
    let watched = Watched::new(0);
    let (place, sink, member) = (&watched.place, &watched.sink, watched.images[1].clone());
    let (raised, cleared) = (format!("raised Fail {member}"), format!("cleared Fail {member}"));
    place.settled("tank");
    place.ok(&["fail", "tank", "1", "--force"]);
    sink.wait_for_alarm(&raised);
    assert!(place.ok(&["alarm"]).contains("Fail"), "it stands");
    assert!(sink.all()[0].contains("ONE MORE FAILURE LOSES DATA"), "{:?}", sink.all());
    place.ok(&["add", "tank", &member, "--wait"]);
    sink.wait_for_alarm(&cleared);
    assert!(place.ok(&["alarm"]).contains("no alarm"), "nothing stands any more");
    watched.ends_with(&[&raised, &cleared]);
}

#[test]
fn a_truncated_member_is_told_and_over_when_the_spare_has_taken_its_slot() {
    let watched = Watched::new(0);
    let (place, sink, member) = (&watched.place, &watched.sink, watched.images[2].clone());
    place.settled("tank");
    std::fs::OpenOptions::new().write(true).open(&member).and_then(|file| file.set_len(1 << 20)).expect("it is cut");
    let (raised, cleared) = (format!("raised Fail {member}"), format!("cleared Fail {member}"));
    sink.wait_for_alarm(&raised);
    let spare = place.path("spare");
    std::fs::File::create(&spare).and_then(|file| file.set_len(32 << 20)).expect("an image");
    place.ok(&["add", "tank", spare.to_str().expect("a plain path"), "--wait"]);
    sink.wait_for_alarm(&cleared);
    watched.ends_with(&[&raised, &cleared]);
}

/// It was an event alone: `status` and `explain` said that all is well, and a restart lost the bytes.
#[test]
fn a_deleted_image_is_told_until_it_is_replaced() {
    let watched = Watched::new(0);
    let (place, sink, member) = (&watched.place, &watched.sink, watched.images[1].clone());
    place.settled("tank");
    std::fs::remove_file(&member).expect("it was there");
    let (raised, cleared) = (format!("raised FileDeleted {member}"), format!("cleared FileDeleted {member}"));
    sink.wait_for_alarm(&raised);
    let explained = place.run(&["explain", "tank"]);
    assert_eq!(explained.code, 3, "{}", explained.stdout);
    for part in [&*format!("stria replace tank {member} NEW"), "do not stop the array"] {
        assert!(explained.stdout.contains(part), "{part}: {}", explained.stdout);
    }
    let status = place.run(&["status", "tank"]);
    assert!(status.code == 3 && status.stdout.contains("FILE DELETED"), "{status:?}");
    let new = place.path("new");
    std::fs::File::create(&new).and_then(|file| file.set_len(32 << 20)).expect("an image");
    place.ok(&["replace", "tank", &member, new.to_str().expect("a plain path"), "--wait"]);
    sink.wait_for_alarm(&cleared);
    watched.ends_with(&[&raised, &cleared]);
}

#[test]
fn mismatches_that_a_scrub_found_are_told_until_they_are_repaired() {
    let watched = Watched::new(0);
    let (place, sink) = (&watched.place, &watched.sink);
    place.settled("tank");
    let image = std::fs::OpenOptions::new().write(true).open(&watched.images[1]).expect("an image");
    image.write_all_at(&[0xee; 4096], 16 << 20).expect("it writes");
    image.sync_all().expect("it syncs");
    assert_eq!(place.run(&["scrub", "tank", "--wait"]).code, 3);
    sink.wait_for_alarm("raised Mismatch -");
    place.ok(&["scrub", "tank", "--repair", "--force", "--wait"]);
    sink.wait_for_alarm("cleared Mismatch -");
    watched.ends_with(&["raised Mismatch -", "cleared Mismatch -"]);
}

#[test]
fn a_spare_that_is_missing_is_told_until_there_is_one() {
    let watched = Watched::new(1);
    let (place, sink, spare) = (&watched.place, &watched.sink, watched.images[3].clone());
    place.settled("tank");
    place.ok(&["remove", "tank", &spare]);
    sink.wait_for_alarm("raised SparesMissing -");
    place.ok(&["add", "tank", &spare, "--force"]);
    sink.wait_for_alarm("cleared SparesMissing -");
    watched.ends_with(&["raised SparesMissing -", "cleared SparesMissing -"]);
}

/// A member on FUSE, served by another array: it hangs when nbdfuse is stopped, and gives EIO when that array is gone.
#[test]
fn a_member_that_hangs_and_then_fails_every_request_is_two_causes() {
    if !Path::new("/dev/fuse").exists() {
        return may_skip("there is no FUSE", "run with /dev/fuse");
    }
    let (place, under, sink) = (Place::new(), Place::new(), Sink::http());
    let image = under.images(1, 40 << 20);
    under.ok(&["create", "under", "--level", "jbod", &image[0]]);
    let below = under.serve(&[&image[0]]);
    let Some(hanging) = Hanging::new(place.path("fuse"), below.uri("under")) else { return };
    let images = place.images(2, 32 << 20);
    let odd = hanging.file().to_str().expect("a plain path").to_owned();
    let drives = [&images[0], &images[1], &odd];
    place.ok(&["create", "tank", "--level", "5", "--assume-clean", drives[0], drives[1], drives[2]]);
    let url = format!("http://{}/", sink.address);
    let serve = place.serve(&[drives[0], drives[1], drives[2], "--alarm-webhook", &url]);
    let mut client = serve.client("tank");
    let writes: Vec<(u64, Vec<u8>)> = (0..8).map(|index| (index * 65536, vec![7; 65536])).collect();
    hanging.signal("-STOP");
    client.send_writes(&writes).expect("they are taken");
    sink.wait_for_alarm(&format!("raised MemberSilent {odd}"));
    hanging.signal("-CONT");
    (0..8).for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
    sink.wait_for_alarm(&format!("cleared MemberSilent {odd}"));
    below.kill();
    client.send_writes(&writes).expect("they are taken");
    (0..8).for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
    sink.wait_for_alarm(&format!("raised Fail {odd}"));
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    let told: Vec<String> =
        ["raised MemberSilent", "cleared MemberSilent", "raised Fail"].map(|alarm| format!("{alarm} {odd}")).into();
    assert_eq!(sink.alarms(), told);
}

/// The images lie on a full file system, in a mount namespace of the test.
#[test]
fn a_full_file_system_is_told_until_writes_find_space() {
    const TEST: &str = "a_full_file_system_is_told_until_writes_find_space";
    let run =
        |program: &str, arguments: &[&str]| Command::new(program).args(arguments).status().is_ok_and(|status| status.success());
    if std::env::var_os("STRIA_ALARMS_INSIDE").is_none() {
        let way: &[&str] = if run("unshare", &["-m", "true"]) { &["-m"] } else { &["-r", "-m"] };
        if !run("unshare", &[way, &["true"]].concat()) {
            return may_skip("there is no mount namespace to be had", "run as root, or allow user namespaces");
        }
        let this = std::env::current_exe().expect("a path");
        let mut again = Command::new("unshare");
        again.args(way).arg(this).args(["--exact", TEST, "--nocapture"]).env("STRIA_ALARMS_INSIDE", "1");
        assert!(again.status().expect("unshare was there").success(), "see above");
        return;
    }
    let (place, sink) = (Place::new(), Sink::http());
    let full = place.path("full");
    std::fs::create_dir(&full).expect("a folder");
    assert!(run("mount", &["-t", "tmpfs", "-o", "size=48M", "none", full.to_str().expect("a plain path")]));
    let image = |index: usize| {
        let path = full.join(format!("d{index}"));
        std::fs::File::create(&path).and_then(|file| file.set_len(32 << 20)).expect("an image");
        path.to_str().expect("a plain path").to_owned()
    };
    let images = [0, 1, 2].map(image);
    place.ok(&["create", "tank", "--level", "5", "--assume-clean", &images[0], &images[1], &images[2]]);
    let url = format!("http://{}/", sink.address);
    let serve = place.serve(&[&images[0], &images[1], &images[2], "--alarm-webhook", &url]);
    let ballast = full.join("ballast");
    let mut file = std::fs::File::create(&ballast).expect("a file");
    while file.write_all(&[1; 65536]).is_ok() {}
    drop(file);
    let mut client = serve.client("tank");
    client.send_writes(&[(0, vec![7; 1 << 20])]).expect("it is taken");
    assert_eq!(client.reply().expect("an answer").1, 28, "NBD's ENOSPC");
    sink.wait_for_alarm("raised NoSpace -");
    std::fs::remove_file(&ballast).expect("it was there");
    sink.wait_for_alarm("cleared NoSpace -");
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    assert_eq!(sink.alarms(), ["raised NoSpace -", "cleared NoSpace -"]);
}

/// Makes a file immutable or mutable again: an open file of ext4 or XFS takes no writes meanwhile.
fn set_immutable(file: &str, is_immutable: bool) -> bool {
    let flag = if is_immutable { "+i" } else { "-i" };
    let done = Command::new("chattr").args([flag, file]).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output();
    done.is_ok_and(|done| done.status.success())
}

/// The images of a test, which are mutable again when it ends.
struct Immutable<'a>(&'a [String]);

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        for image in self.0 {
            set_immutable(image, false);
        }
    }
}

/// One of the two is dropped, and no superblock says so. Reads go on.
#[test]
fn members_that_take_no_superblock_are_told_until_one_takes_one() {
    let (place, sink) = (Place::new(), Sink::http());
    let images = place.images(2, 32 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let url = format!("http://{}/", sink.address);
    let serve = place.serve(&[&images[0], &images[1], "--alarm-webhook", &url]);
    let mut client = serve.client("tank");
    place.settled("tank");
    let _mutable_again = Immutable(&images);
    if !images.iter().all(|image| set_immutable(image, true)) {
        return may_skip("no file can be made immutable", "run as root, with temporary files on ext4 or XFS");
    }
    client.send_writes(&[(0, vec![7; 65536])]).expect("it is taken");
    assert_ne!(client.reply().expect("an answer").1, 0, "nothing says which member it is on");
    sink.wait_for_alarm("raised SuperblockRefused -");
    assert!(client.read(0, 65536).expect("it answers").iter().all(|&byte| byte == 0), "reads go on");
    let status = place.run(&["status", "tank"]);
    assert!(status.stdout.contains("WRITES FAIL: superblocks cannot be written"), "{}", status.stdout);
    let explained = place.run(&["explain", "tank"]);
    assert_eq!(explained.code, 3, "{}", explained.stdout);
    assert!(
        explained.stdout.contains("tried again every second") && explained.stdout.contains("do not stop the array"),
        "{}",
        explained.stdout
    );
    assert!(images.iter().all(|image| set_immutable(image, false)));
    sink.wait_for_alarm("cleared SuperblockRefused -");
    client.send_writes(&[(0, vec![8; 65536])]).expect("it is taken");
    assert_eq!(client.reply().expect("an answer").1, 0);
    assert!(!place.run(&["explain", "tank"]).stdout.contains("superblock"));
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    let mut alarms = sink.alarms();
    assert!(alarms.remove(0).starts_with("raised Fail "), "one of the two was dropped");
    assert_eq!(alarms, ["raised SuperblockRefused -", "cleared SuperblockRefused -"]);
}

/// `stria alarm test` reaches mail, webhook, program and journal, and names the one that does not work; the heartbeat beats.
#[test]
fn every_channel_is_reached_and_one_that_is_not_is_named() {
    let (place, http, smtp) = (Place::new(), Sink::http(), Sink::smtp());
    let images = place.images(2, 16 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let (program, told) = (place.path("hook"), place.path("told"));
    stria_testkit::script(&program, &format!("#!/bin/sh\necho \"$*\" >> {}\n", told.display()));
    let socket = place.path("journal");
    let journal = UnixDatagram::bind(&socket).expect("a socket");
    journal.set_read_timeout(Some(PATIENCE)).expect("a time");
    let beat = Sink::http();
    let file = place.path("alarms.toml");
    let text = format!(
        "[alarms]\nprogram = {program:?}\nwebhook = \"http://{}/\"\njournal = {{ socket = {socket:?} }}\n\
         [alarms.mail]\nto = [\"storage@example.org\"]\nsmtp = \"smtp://{}\"\n\
         [alarms.heartbeat]\nurl = \"http://{}/alive\"\n",
        http.address, smtp.address, beat.address
    );
    std::fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("a plain path");
    let serve = place.serve(&[&images[0], &images[1], "--alarms", file]);
    beat.wait_for("a sign of life", |all| all.iter().any(|line| line.starts_with("GET /alive")));
    // The program also gets events that are only for the record.
    let end = std::time::Instant::now() + PATIENCE;
    let ran = || std::fs::read_to_string(&told).unwrap_or_default();
    while ran() != "NewArray tank\n" {
        assert!(std::time::Instant::now() < end, "{}", ran());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let words = place.ok(&["alarm", "test"]);
    for channel in ["program", "mail", "webhook", "journal"] {
        assert!(words.lines().any(|line| line.starts_with(channel) && line.contains("delivered")), "{channel}: {words}");
    }
    assert_eq!(http.alarms(), ["raised TestMessage -"]);
    let mails = smtp.all();
    assert_eq!(mails.len(), 1);
    for part in ["To: storage@example.org", "TestMessage on array tank", "alarms of this kind reach you"] {
        assert!(mails[0].contains(part), "{part}: {}", mails[0]);
    }
    assert_eq!(ran(), "NewArray tank\nTestMessage tank\n");
    let mut entry = [0; 4096];
    let is_test = |entry: &[u8]| String::from_utf8_lossy(entry).contains("TestMessage");
    while {
        let length = journal.recv(&mut entry).expect("an entry");
        !is_test(&entry[..length])
    } {}
    std::fs::remove_file(&program).expect("it was there");
    let ran = place.run(&["alarm", "test"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.lines().any(|line| line.starts_with("program") && line.contains("No such file")), "{ran:?}");
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

/// Only the start read the table, and the reload told success.
#[test]
fn a_reload_applies_the_table_of_alarms() {
    let (place, sink, beat) = (Place::new(), Sink::http(), Sink::http());
    let images = place.images(2, 16 << 20);
    place.is_a_machine();
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    place.ok(&["adopt", &images[0], &images[1]]);
    let adopted = std::fs::read_to_string(place.config()).expect("a configuration");
    let set = |parts: &str| std::fs::write(place.config(), format!("{adopted}\n{parts}\n")).expect("a file");
    set("[alarms]\nspares = { tank = 1 }");
    let daemon = Daemon::start(&place);
    let end = std::time::Instant::now() + PATIENCE;
    while !place.ok(&["alarm"]).contains("SparesMissing") {
        assert!(std::time::Instant::now() < end, "{}", place.ok(&["alarm"]));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    place.run(&["alarm", "test"]).refused(1, &["no channel"]);
    // A new channel is told of what lasts, and the heartbeat begins.
    let channel = format!("webhook = \"http://{}/\"\n[alarms.heartbeat]\nurl = \"http://{}/alive\"", sink.address, beat.address);
    set(&format!("[alarms]\nspares = {{ tank = 1 }}\n{channel}\n[metrics]\nlisten = \"1\""));
    let told = place.ok(&["reload"]);
    assert!(told.contains("[metrics] applies when the daemon restarts") && !told.contains("[alarms]"), "{told}");
    sink.wait_for_alarm("repeated SparesMissing -");
    beat.wait_for("a sign of life", |all| all.iter().any(|line| line.starts_with("GET /alive")));
    assert!(place.ok(&["alarm", "test"]).contains("webhook"));
    set(&format!("[alarms]\n{channel}"));
    place.ok(&["reload"]);
    sink.wait_for_alarm("cleared SparesMissing -");
    daemon.signal("-TERM");
    daemon.ended_well();
    assert_eq!(sink.alarms(), ["repeated SparesMissing -", "raised TestMessage -", "cleared SparesMissing -"]);
}

/// Goal: whoever knows of an alarm gets no reminders of it, over a restart too, until it becomes worse; and nothing looks well
/// meanwhile.
#[test]
fn an_alarm_that_a_person_knows_of_is_silent_over_a_restart_until_it_becomes_worse() {
    let (place, sink) = (Place::new(), Sink::http());
    let images = place.images(4, 32 << 20);
    place.is_a_machine();
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "6", "--assume-clean"], &drives[..]].concat());
    place.ok(&[&["adopt"], &drives[..]].concat());
    let text = std::fs::read_to_string(place.config()).expect("a configuration");
    let text = format!("{text}\n[alarms]\nwebhook = \"http://{}/\"\nspares = {{ tank = 1 }}\n", sink.address);
    std::fs::write(place.config(), text).expect("a file");
    let daemon = Daemon::start(&place);
    place.settled("tank");
    place.ok(&["fail", "tank", "1", "--force"]);
    let raised = format!("raised Fail {}", images[1]);
    [&*raised, "raised SparesMissing -"].into_iter().for_each(|alarm| sink.wait_for_alarm(alarm));

    place.run(&["alarm", "acknowledge", "lake"]).refused(1, &["no such alarm is open on array lake", "stria alarm"]);
    place.run(&["alarm", "acknowledge", "tank", "--event", "Mismatch"]).refused(1, &["no such alarm"]);
    let told = place.ok(&["alarm", "acknowledge", "tank", "--event", "fail"]);
    let known = "acknowledged by";
    assert!(told.contains(&format!("Fail on array tank ({}): {known}", images[1])) && !told.contains("SparesMissing"), "{told}");
    let listed = support::unwrapped(&place.ok(&["alarm"]));
    assert_eq!(listed.matches(known).count(), 1, "{listed}");
    let status = place.run(&["status"]);
    assert!(status.code == 3 && status.stdout.contains("DEGRADED"), "{status:?}");
    assert!(
        support::unwrapped(&status.stdout).contains(&format!("alarm Fail on array tank ({}): {known}", images[1])),
        "{status:?}"
    );
    let mut lines = status.stdout.lines().filter(|line| !line.contains("nbd+unix:"));
    assert!(lines.all(|line| line.chars().count() <= 80), "{}", status.stdout);
    assert_eq!(place.run(&["explain"]).code, 3);
    let orders = place.ok(&["events", "--orders"]);
    assert!(orders.contains(&format!("ordered: acknowledgement of alarm Fail on array tank ({})", images[1])), "{orders}");
    place.ok(&["alarm", "acknowledge", "tank", "--event", "SparesMissing"]);
    let taken_back = place.ok(&["alarm", "acknowledge", "tank", "--event", "SparesMissing", "--undo"]);
    assert!(taken_back.contains("nobody has acknowledged it"), "{taken_back}");

    // As a power cut ends it. Which member had failed is not known any more.
    daemon.kill();
    let count = sink.alarms().len();
    let daemon = Daemon::start(&place);
    sink.wait_for("what was not acknowledged", |all| all.len() > count);
    let listed = support::unwrapped(&place.ok(&["alarm"]));
    assert!(listed.contains("DegradedArray") && listed.matches(known).count() == 1, "{listed}");
    place.ok(&["fail", "tank", "2", "--force"]);
    sink.wait_for_alarm("raised DegradedArray -");
    sink.wait_for_alarm(&format!("raised Fail {}", images[2]));
    let worse = sink.all().into_iter().find(|body| body.contains("DegradedArray")).expect("it has just come");
    assert!(worse.contains("worse than when") && worse.contains("acknowledged it"), "{worse}");
    let listed = place.ok(&["alarm"]);
    assert!(!listed.contains(known), "{listed}");
    daemon.signal("-TERM");
    daemon.ended_well();
    assert_eq!(std::fs::read_to_string(place.path("state").join("acknowledged.json")).expect("it is stored"), "[]\n");
}

/// A person could not say what was done about an alarm, `explain` did not say that anybody knew of it, and a rename of the array
/// lost the acknowledgement.
#[test]
fn an_acknowledgement_has_a_note_and_stays_with_its_array_over_kills_and_renames() {
    let (place, sink) = (Place::new(), Sink::http());
    let images = place.images(4, 32 << 20);
    place.is_a_machine();
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "6", "--assume-clean"], &drives[..]].concat());
    place.ok(&[&["adopt"], &drives[..]].concat());
    let text = std::fs::read_to_string(place.config()).expect("a configuration");
    std::fs::write(place.config(), format!("{text}\n[alarms]\nwebhook = \"http://{}/\"\n", sink.address)).expect("a file");
    let daemon = Daemon::start(&place);
    place.settled("tank");
    place.ok(&["fail", "tank", "1", "--force"]);
    sink.wait_for_alarm(&format!("raised Fail {}", images[1]));
    assert!(!place.run(&["explain"]).stdout.contains("acknowledged"));

    let (note, shown) = ("the drive is\u{1b}[2J ordered", "the drive is\\u{1b}[2J ordered");
    place.run(&["alarm", "acknowledge", "tank", "--note", note, "--undo"]).refused(2, &["--undo"]);
    place.run(&["alarm", "acknowledge", "tank", "--note", &"x".repeat(401)]).refused(2, &["401 characters", "at most 400"]);
    place.ok(&["alarm", "acknowledge", "tank"]);
    let told = place.ok(&["alarm", "acknowledge", "tank", "--note", note]);
    assert!(told.contains("acknowledged by ") && told.contains(&format!(": {shown}")), "{told}");
    assert!(place.ok(&["alarm", "acknowledge", "tank"]).contains(shown), "a second one without a note changes nothing");
    let orders = place.ok(&["events", "--orders"]);
    assert!(orders.contains(&format!("with the note \"{shown}\"")), "{orders}");
    let is_known = |name: &str| {
        let end = std::time::Instant::now() + PATIENCE;
        while !support::unwrapped(&place.ok(&["alarm"])).contains(shown) {
            assert!(std::time::Instant::now() < end, "{}", place.ok(&["alarm"]));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        for command in [&["status"][..], &["explain"], &["explain", name]] {
            let ran = place.run(command);
            let text = support::unwrapped(&ran.stdout);
            let is_told = text.contains("acknowledged by ") && text.contains(&format!(": {shown}"));
            assert!(ran.code == 3 && is_told && !ran.stdout.contains('\u{1b}'), "{command:?}: {ran:?}");
        }
        let explained: Value = serde_json::from_str(&place.run(&["explain", "--json"]).stdout).expect("JSON");
        assert_eq!(explained[0]["acknowledged"]["note"], note, "{explained:#}");
    };
    is_known("tank");
    let told = sink.alarms();

    daemon.kill();
    let daemon = Daemon::start(&place);
    is_known("tank");
    place.ok(&["stop", "tank"]);
    place.ok(&["rename", "tank", "lake"]);
    place.ok(&["start", "lake"]);
    is_known("lake");
    daemon.kill();
    place.ok(&["rename", "lake", "pond"]);
    let daemon = Daemon::start(&place);
    is_known("pond");
    assert_eq!(sink.alarms(), told, "nobody is told again");
    place.ok(&["alarm", "acknowledge", "pond", "--undo"]);
    assert!(!place.run(&["explain"]).stdout.contains("acknowledged"));
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_served() {
    let place = Place::new();
    let images = place.images(2, 16 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let serve = |options: &[&str]| place.run(&[&["serve", &images[0], &images[1]], options].concat());
    serve(&["--alarm-webhook", "example.org"]).refused(2, &["webhook", "no URL"]);
    serve(&["--alarm-mail", "nobody in particular"]).refused(2, &["mail", "is not an address"]);
    let file = place.path("alarms.toml");
    std::fs::write(&file, "[alarms]\nwebhok = \"http://x/\"\n").expect("a file");
    serve(&["--alarms", file.to_str().expect("a plain path")]).refused(2, &["alarms.toml:2: unknown field", "webhok"]);
}
