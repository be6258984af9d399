//! Goal: a daemon scrubs by schedule, in quiet hours, one array at a time on a link. What a scrub found and bounds on speed
//! outlive a restart. A member that is about to fail is copied to a spare while it stays a member.
//! Method: the real daemon on image files, with schedules of seconds; a program in place of `smartctl` gives the reports of the
//! drives below the images.

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use support::daemon::Daemon;
use support::{PATIENCE, Place, noise, run_tool, same};

const SIZE: u64 = 64 << 20;

/// A machine with adopted arrays of this level, each of so many images, the last `spares` of them spares.
fn machine(level: &str, names: &[&str], count: usize, spares: usize) -> (Place, Vec<Vec<String>>) {
    let place = Place::new();
    let images = place.images(names.len() * count, SIZE);
    place.is_a_machine();
    let drives: Vec<Vec<String>> = images.chunks(count).map(<[String]>::to_vec).collect();
    for (name, drives) in names.iter().zip(&drives) {
        let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
        let (members, spare) = drives.split_at(count - spares);
        let spare: Vec<&str> = spare.iter().flat_map(|spare| ["--spare", spare]).collect();
        place.ok(&[&["create", name, "--level", level, "--assume-clean"], members, &spare[..]].concat());
        place.ok(&[&["adopt"], &drives[..]].concat());
    }
    (place, drives)
}

/// Makes these the last parts of the configuration.
fn set(place: &Place, parts: &str) {
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let text = text.split("\n# test\n").next().expect("a part");
    fs::write(place.config(), format!("{text}\n# test\n{parts}\n")).expect("a file");
}

/// Events that the daemon has kept, as kind and text.
fn events(place: &Place) -> Vec<(String, String, String)> {
    let list: Value = serde_json::from_str(&place.ok(&["--json", "events"])).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.as_array()
        .expect("a list")
        .iter()
        .map(|event| (text(&event["array"]), text(&event["kind"]), text(&event["text"])))
        .collect()
}

fn wait_for_event(place: &Place, word: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some((_, _, text)) = events(place).into_iter().find(|(_, _, text)| text.contains(word)) {
            return text;
        }
        assert!(Instant::now() < end, "waited in vain for \"{word}\": {:#?}", events(place));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_a_scrub_by_schedule_finds_and_bounds_on_speed_outlive_a_restart() {
    let (place, drives) = machine("5", &["tank"], 3, 0);
    let image = fs::OpenOptions::new().write(true).open(&drives[0][1]).expect("an image");
    image.write_all_at(&[0xee; 4096], 32 << 20).expect("it writes");
    set(&place, "[routine]\nscrub = \"*:*:0/2\"");
    let daemon = Daemon::start(&place);
    let scrubbed = place.wait_for("tank", "a scrub", |status| status["last_scrub"]["mismatch_sectors"].as_u64() > Some(0));
    assert!(scrubbed["next_scrub_s"].as_u64() >= scrubbed["last_scrub"]["ended_s"].as_u64(), "{scrubbed:#}");
    assert!(wait_for_event(&place, "that was due at").contains("the scrub of \"tank\""));
    place.ok(&["speed", "tank", "--max", "200M"]);
    set(&place, "[routine]\nscrub = \"never\"");
    daemon.signal("-TERM");
    daemon.ended_well();

    let daemon = Daemon::start(&place);
    let status = place.status("tank");
    assert!(status["last_scrub"]["mismatch_sectors"].as_u64() > Some(0), "{status:#}");
    assert_eq!(status["last_scrub"]["repaired"], false);
    assert!(status["next_scrub_s"].is_null(), "never");
    let shown = place.run(&["status", "tank"]);
    assert!(
        shown.code == 3 && shown.stdout.contains("the last one on 20") && shown.stdout.contains("found mismatches"),
        "{shown:?}"
    );
    assert!(place.ok(&["routine"]).contains("nothing is done by schedule"));
    place.run(&["speed", "tank", "--min", "300M"]).refused(2, &["above the upper one of 200"]);

    // A repair is remembered too.
    place.ok(&["scrub", "tank", "--repair", "--force", "--wait"]);
    place.wait_for("tank", "the note of the repair", |status| status["last_scrub"]["repaired"] == true);
    set(&place, "[routine.scrubs]\ntank = \"Sun *-*-1..7 01:00\"");
    place.ok(&["reload"]);
    place.wait_for("tank", "the next scrub", |status| status["next_scrub_s"].is_u64());
    let shown = place.ok(&["routine"]);
    assert!(shown.contains("Sun *-*-1..7 01:00") && shown.contains("repaired"), "{shown}");
    set(&place, "[routine]\nscrub = \"every sunday\"");
    place.run(&["config", "check"]).refused(1, &["invalid calendar event", "systemd.time(7)"]);
    daemon.signal("-TERM");
    daemon.ended_well();
    // A file that cannot be read is left out, and the daemon starts.
    set(&place, "");
    fs::write(place.path("state").join("routine.json"), "{ torn").expect("a file");
    let daemon = Daemon::start(&place);
    assert!(place.status("tank")["last_scrub"].is_null());
    wait_for_event(&place, "routine.json.damaged");
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// All images lie on one disk, so the scrubs of two arrays take turns.
#[test]
fn scrubs_on_one_link_take_turns_and_pause_outside_of_quiet_hours() {
    let (place, _) = machine("5", &["tank", "pool"], 3, 0);
    // UTC, so that hours are known. One window ended long ago or is far away, whenever this test runs.
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let hour = |ahead: u64| (seconds / 3600 + ahead) % 24;
    let loud = format!("hours = \"{:02}:00-{:02}:00\"", hour(6), hour(12));
    set(&place, &format!("[routine]\nscrub = \"*:*:*\"\n{loud}"));
    let daemon = Daemon::start_with(&place, &[("TZ", "UTC")]);
    for name in ["tank", "pool"] {
        place.ok(&["speed", name, "--max", "4M"]);
        place.wait_for(name, "the schedule", |status| status["next_scrub_s"].is_u64());
    }
    assert!(events(&place).iter().all(|(_, kind, _)| kind != "sweep_started"), "hours are loud");

    // A window of quiet hours ends in the middle: the scrub goes on in the next window from its position.
    set(&place, "[routine]\nscrub = \"*:*:*\"");
    place.ok(&["reload"]);
    let begun = wait_for_event(&place, "that was due at");
    let name = if begun.contains("tank") { "tank" } else { "pool" };
    place.wait_for(name, "progress", |status| status["sweep"]["done_bytes"].as_u64() > Some(4 << 20));
    set(&place, &format!("[routine]\nscrub = \"*:*:*\"\n{loud}"));
    place.ok(&["reload"]);
    wait_for_event(&place, "the quiet hours are over");
    place.wait_for(name, "the pause", |status| status["sweep"].is_null());
    let shown = place.ok(&["routine"]);
    assert!(shown.contains("goes on"), "{shown}");
    // The same holds over a restart.
    daemon.signal("-TERM");
    daemon.ended_well();
    let daemon = Daemon::start_with(&place, &[("TZ", "UTC")]);
    for name in ["tank", "pool"] {
        place.ok(&["speed", name, "--max", "500M"]);
    }
    assert!(place.status(name)["last_scrub"].is_null(), "it has not ended");
    set(&place, "[routine]\nscrub = \"*:*:0/2\"");
    place.ok(&["reload"]);
    wait_for_event(&place, "goes on where it was interrupted");
    for name in ["tank", "pool"] {
        place.wait_for(name, "a scrub", |status| status["last_scrub"]["mismatch_sectors"] == 0);
    }
    daemon.signal("-TERM");
    daemon.ended_well();
    let mut running: Vec<String> = Vec::new();
    for (array, kind, text) in events(&place) {
        match kind.as_str() {
            "sweep_started" => {
                assert!(running.is_empty(), "{array} began beside {running:?}");
                running.push(array);
            }
            "sweep_finished" | "sweep_stopped" => {
                assert_eq!(running.pop(), Some(array), "{text}");
            }
            _ => {}
        }
    }
}

/// The drives below the images, as a program in place of `smartctl` reports them.
struct Drives<'a>(&'a Place);

impl<'a> Drives<'a> {
    fn new(place: &'a Place) -> Self {
        let folder = place.path("smart");
        fs::create_dir(&folder).expect("a folder");
        let drives = Self(place);
        drives.write("well", true, 0);
        // The first question after the start of a self-test finds it running, the second one finds its result. The one before has
        // passed.
        let program = format!(
            "#!/bin/sh\ncd {}\nfor drive; do :; done\nname=$(basename \"$drive\")\nstate=0\n\
             case \"$*\" in\n\
             *\"-t short\"*) echo \"$name\" >> tests; touch \"$name.runs\";;\n\
             *) if [ -e \"$name.runs\" ]; then mv \"$name.runs\" \"$name.ends\"; state=249\n\
             elif [ -e \"$name.ends\" ]; then rm \"$name.ends\"; echo >> \"$name.hours\"; fi;;\nesac\n\
             touch \"$name.hours\"; hours=$(wc -l < \"$name.hours\")\n\
             before=s/x/x/; [ $hours = 0 ] && before='s/\"value\": 112/\"value\": 0/'\n\
             file=well; [ -e \"$name\" ] && file=$name\nsed \"s/SERIAL/$name/;s/STATE/$state/;s/HOURS/$hours/;$before\" \"$file\"\n",
            folder.display()
        );
        stria_testkit::script(&place.path("smartctl"), &program);
        drives
    }

    /// The report of a drive: whether it is well, and the outcome of its last self-test.
    fn write(&self, name: &str, passed: bool, self_test: u8) {
        let text = format!(
            "{{\"smartctl\": {{\"exit_status\": 0}}, \"serial_number\": \"SERIAL\", \"smart_status\": {{\"passed\": {passed}}}, \
             \"ata_smart_data\": {{\"self_test\": {{\"status\": {{\"value\": STATE}}}}}}, \"ata_smart_self_test_log\": {{\"standard\": {{\"table\": [{{\"type\": {{\"value\": 1, \"string\": \"Short offline\"}}, \
             \"status\": {{\"value\": {self_test}}}, \"lifetime_hours\": HOURS}}]}}}}}}"
        );
        let new = self.0.path("smart").join(format!("{name}.new"));
        fs::write(&new, text).expect("a file");
        fs::rename(&new, self.0.path("smart").join(name)).expect("a move");
    }

    /// The configuration, with a threshold. If the threshold differs from the last one, the daemon asks all drives at once.
    fn ask(&self, threshold: u32, parts: &str) {
        let program = self.0.path("smartctl").display().to_string();
        set(self.0, &format!("[health]\nsmartctl = {program:?}\ntemperature-watch-c = {threshold}\n{parts}"));
    }
}

fn role(status: &Value, path: &str) -> String {
    let members = status["members"].as_array().expect("a list");
    let role = members.iter().rfind(|member| member["path"] == path).and_then(|member| member["role"].as_str());
    role.unwrap_or_default().to_owned()
}

/// Writes random bytes into the array. `false`: the tool is missing, and the environment permits that.
fn fill(place: &Place, daemon: &Daemon) -> bool {
    let source = place.path("source");
    noise(&source, 96 << 20, 3);
    run_tool("nbdcopy", &["--flush", source.to_str().expect("text"), &daemon.uri(place, "tank")]).is_some()
}

fn is_what_was_written(place: &Place, daemon: &Daemon) {
    let copy = place.path("copy");
    run_tool("nbdcopy", &[&daemon.uri(place, "tank"), copy.to_str().expect("text")]).expect("it was here before");
    fs::File::options().write(true).open(&copy).and_then(|file| file.set_len(96 << 20)).expect("a file");
    assert!(same(&place.path("source"), &copy), "the array holds what was written");
}

#[test]
fn a_member_that_expects_to_fail_is_copied_to_the_spare_while_it_stays_a_member() {
    let (place, drives) = machine("5", &["tank"], 4, 1);
    let health = Drives::new(&place);
    health.ask(70, "");
    let daemon = Daemon::start(&place);
    if !fill(&place, &daemon) {
        return;
    }
    let (member, spare) = (&drives[0][1], &drives[0][3]);
    health.write("d1", false, 0);
    health.ask(71, "");
    place.ok(&["reload"]);
    let told = wait_for_event(&place, "before it fails");
    assert!(told.contains(member) && told.contains(spare) && told.contains("expects to fail"), "{told}");
    let status = place.wait_for("tank", "the copy", |status| role(status, spare) == "in sync");
    assert_eq!(role(&status, member), "failed", "it was replaced: {status:#}");
    let is_loss = |(_, kind, text): &(String, String, String)| kind == "member_failed" && !text.contains("replaced");
    assert!(!events(&place).iter().any(is_loss), "redundancy was never less: {:#?}", events(&place));
    is_what_was_written(&place, &daemon);
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// The scrub was cancelled, before it was known whether the copy could begin, and again at every try.
#[test]
fn a_scrub_that_a_person_began_goes_on_after_a_member_was_copied() {
    let (place, drives) = machine("5", &["tank"], 4, 1);
    let health = Drives::new(&place);
    health.ask(70, "[routine]\nscrub = \"never\"");
    let daemon = Daemon::start(&place);
    place.ok(&["speed", "tank", "--max", "4M"]);
    place.ok(&["scrub", "tank"]);
    place.wait_for("tank", "progress", |status| status["sweep"]["done_bytes"].as_u64() > Some(2 << 20));
    health.write("d1", false, 0);
    health.ask(71, "[routine]\nscrub = \"never\"");
    place.ok(&["reload"]);
    wait_for_event(&place, "before it fails");
    place.ok(&["speed", "tank", "--max", "500M"]);
    place.wait_for("tank", "the copy", |status| role(status, &drives[0][3]) == "in sync");
    place.wait_for("tank", "the end of the scrub", |status| status["last_scrub"]["mismatch_sectors"] == 0);
    let told = events(&place);
    assert!(!told.iter().any(|(_, _, text)| text.contains("cancelled")), "{told:#?}");
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn a_member_that_dies_while_it_is_copied_costs_no_data() {
    let (place, drives) = machine("5", &["tank"], 4, 1);
    let health = Drives::new(&place);
    health.write("d1", false, 0);
    health.ask(70, "[replacement]\nfailing = false");
    let daemon = Daemon::start(&place);
    if !fill(&place, &daemon) {
        return;
    }
    let (member, spare) = (&drives[0][1], &drives[0][3]);
    place.ok(&["speed", "tank", "--max", "4M"]);
    health.ask(71, "");
    place.ok(&["reload"]);
    place.wait_for("tank", "a part of the copy", |status| {
        role(status, spare) == "replacing" && status["sweep"]["done_bytes"].as_u64() > Some(4 << 20)
    });
    fs::OpenOptions::new().write(true).open(member).and_then(|file| file.set_len(1 << 20)).expect("it is cut");
    place.wait_for("tank", "its failure", |status| role(status, member) == "failed");
    place.ok(&["speed", "tank", "--max", "500M"]);
    place.wait_for("tank", "the spare in its slot", |status| role(status, spare) == "in sync" && status["health"] == "optimal");
    is_what_was_written(&place, &daemon);
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn drives_test_themselves_by_schedule_one_at_a_time_and_a_failure_calls_for_replacement() {
    let (place, drives) = machine("1", &["tank"], 2, 0);
    let health = Drives::new(&place);
    health.write("d1", true, 0x70);
    health.ask(70, "[routine]\nscrub = \"never\"\nself-test = \"*:*:*\"\n[replacement]\nfailing = false");
    let daemon = Daemon::start(&place);
    let end = Instant::now() + PATIENCE;
    let done = || {
        let told = events(&place);
        let has = |drive: &str, word: &str| told.iter().any(|(_, _, text)| text.contains(drive) && text.contains(word));
        has(&drives[0][0], "self-test passed") && has(&drives[0][1], "self-test FAILED")
    };
    while !done() {
        assert!(Instant::now() < end, "{:#?}", events(&place));
        std::thread::sleep(Duration::from_millis(100));
    }
    let ran = place.run(&["health", "tank"]);
    assert!(ran.code == 3 && ran.stdout.contains("last short self-test failed"), "{ran:?}");
    assert!(Path::new(&place.path("smart").join("tests")).exists(), "the program was asked to begin");
    // Members of one array are not tested at once.
    let told = events(&place);
    let mut running = 0;
    for (_, _, text) in told.iter().filter(|(_, kind, _)| kind == "self_test") {
        running += if text.contains("begins") { 1 } else { -1 };
        assert!((0..=1).contains(&running), "{told:#?}");
    }
    // The event comes first.
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let shown = place.ok(&["routine"]);
        if shown.contains("self-test") && shown.contains("passed") && shown.contains("FAILED") {
            break;
        }
        assert!(Instant::now() < end, "{shown}");
        std::thread::sleep(Duration::from_millis(100));
    }
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// The last answer of a disk may be minutes old: a disk that had fallen asleep since was woken for its self-test.
#[test]
fn a_disk_that_sleeps_is_not_woken_for_its_self_test() {
    let (place, _) = machine("1", &["tank"], 2, 0);
    let health = Drives::new(&place);
    let (asleep, calls) = (place.path("asleep"), place.path("calls"));
    let program = place.path("smartctl-of-disks");
    let (as_it_was, asleep_text) =
        (fs::read_to_string(place.path("smartctl")).expect("a program"), "{\"smartctl\": {\"exit_status\": 3}}");
    let lines = format!(
        "#!/bin/sh\necho \"$*\" >> {}\n[ -e {} ] && {{ echo '{asleep_text}'; exit 3; }}\n",
        calls.display(),
        asleep.display()
    );
    stria_testkit::script(&program, &as_it_was.replacen("#!/bin/sh\n", &lines, 1));
    fs::rename(&program, place.path("smartctl")).expect("a move");
    health.ask(70, "[routine]\nscrub = \"never\"\nself-test = \"never\"");
    let daemon = Daemon::start(&place);
    let end = Instant::now() + PATIENCE;
    while !place.run(&["health", "tank"]).stdout.contains("good") {
        assert!(Instant::now() < end, "no health of the drives");
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::write(&asleep, "").expect("a file");
    let asked = || fs::read_to_string(&calls).expect("calls").lines().map(str::to_owned).collect::<Vec<_>>();
    let before = asked().len();
    health.ask(70, "[routine]\nscrub = \"never\"\nself-test = \"*:*:*\"");
    place.ok(&["reload"]);
    // Each is asked before its test would begin, and for what it does now.
    while asked().len() < before + 4 {
        assert!(Instant::now() < end, "no test was due: {:?}", asked());
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(2));
    assert!(!asked().iter().any(|call| call.contains("-t short")), "{:#?}", asked());
    let notes: Value = serde_json::from_str(&fs::read_to_string(place.path("state/routine.json")).expect("notes")).expect("JSON");
    let drives: Vec<&String> = notes["drives"].as_object().expect("drives").keys().collect();
    assert!(drives.iter().all(|drive| !drive.contains('/')), "{drives:?}");
    // It is still due.
    fs::remove_file(&asleep).expect("a file");
    health.ask(71, "[routine]\nscrub = \"never\"\nself-test = \"*:*:*\"");
    place.ok(&["reload"]);
    wait_for_event(&place, "a short self-test begins");
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// The restart of an array ends a scrub that a pause holds without an event of its own: it counted as running for ever, and kept
/// all routine work off its link.
#[test]
fn a_scrub_that_was_held_when_its_array_restarted_is_done_nevertheless() {
    let (place, _) = machine("5", &["tank"], 3, 0);
    set(&place, "[routine]\nscrub = \"*:*:*\"");
    let daemon = Daemon::start(&place);
    place.ok(&["speed", "tank", "--max", "4M"]);
    place.wait_for("tank", "progress", |status| status["sweep"]["done_bytes"].as_u64() > Some(2 << 20));
    place.ok(&["pause", "tank"]);
    place.wait_for("tank", "the pause", |status| status["paused"] == true && status["sweep"].is_null());
    place.ok(&["set", "tank", "--read-only", "on", "--force"]);
    place.ok(&["speed", "tank", "--max", "500M"]);
    place.wait_for("tank", "its end", |status| status["last_scrub"]["mismatch_sectors"] == 0);
    daemon.signal("-TERM");
    daemon.ended_well();
}
