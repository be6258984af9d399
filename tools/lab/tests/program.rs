//! Goal: a new user measures with `stria lab`, and the result shows an array's life under load. Method: the real program, real
//! fio, image files of a few MiB; figures are not judged, but independent counters must be equal.

#[path = "../../../crates/manage/tests/support/mod.rs"]
mod support;

use serde_json::Value;
use std::time::{Duration, Instant};
use support::{PATIENCE, Place};

const HEAD: &str = "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\nalways_scaled = true\n\
    scaled = { seconds = 1, span = \"32M\", rounds_max = 5, samples_max = 4 }\n[[section]]\nname = \"s\"\n";

/// The sum of a figure over all members of a record.
fn of_members(record: &Value, figure: &str) -> u64 {
    record["members"].as_array().expect("members").iter().filter_map(|member| member[figure].as_u64()).sum()
}

fn records(place: &Place, run: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path(run).join("records.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn experiments_are_listed_and_planned_without_touching_anything() {
    let place = Place::new();
    let list: Value = serde_json::from_str(&place.ok(&["--json", "lab", "list"])).expect("JSON");
    assert!(list.as_array().expect("a list").iter().any(|experiment| experiment["name"] == "quick"));
    let plan = place.ok(&["lab", "plan", "snia-iops", "--dry-run", "--target", "file:x.img", "--size", "1GiB", "--tbw", "100TB"]);
    assert!(
        plan.contains("56 loads of 1 min 00 s") && plan.contains("of what the maker allows") && !place.path("x.img").exists(),
        "{plan}"
    );
    place.run(&["lab", "plan", "quick"]).refused(2, &["--target"]);
    // The errors of a model against itself took the place of what was known of this machine's drives.
    place.run(&["lab", "run", "quick", "--target", "model:p4510", "--verify-plan", "p4510"]).refused(2, &["is a model itself"]);
    place.run(&["lab", "plan", "none"]).refused(2, &["stria lab list"]);
    std::fs::write(place.path("y.img"), vec![1; 16 << 20]).expect("a file");
    place.run(&["lab", "run", "quick", "--target", "file:y.img"]).refused(4, &["--destroy y.img"]);
}

/// SIGXFSZ ended the programs without a word, wherever the first file that became too large was no drive.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_with_a_sentence() {
    let place = Place::new();
    let limited = |kib: u32, command: &[&str]| {
        let script = "ulimit -f $(($0 * 2)) && exec \"$@\"";
        let program = ["-c", script, &kib.to_string(), env!("CARGO_BIN_EXE_stria-lab")];
        let output = place.command_line("sh", &[&program, command].concat()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {:?} {said}", output.status);
        assert!(said.contains("File too large"), "{command:?}: {said}");
    };
    limited(1024, &["run", "quick", "--target", "file:x.img", "--size", "32MiB", "--out", "run"]);
    limited(1, &["run", "scaling", "--on", "lsi2208", "--out", "modelled"]);
}

/// A fio that gets no thread for a job waits for ever for the others; the laboratory waited three minutes for each load.
#[test]
fn a_fio_that_cannot_start_its_threads_is_ended_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let fio = place.path("fio");
    let script = "#!/bin/sh\ncase \"$*\" in\n--version) echo fio-3.33;;\n--enghelp) echo io_uring;;\n*probe*) exit 0;;\n\
        *) echo 'pthread_create: Resource temporarily unavailable' >&2; exec sleep 600;;\nesac\n";
    std::fs::write(&fio, script).expect("a file");
    std::fs::set_permissions(&fio, std::fs::Permissions::from_mode(0o755)).expect("ours");
    std::fs::write(place.path("x.img"), vec![1; 32 << 20]).expect("a file");
    let load = "test = \"sweep\"\nload = [{ pattern = \"random\", block = \"4K\", threads = 16 }]\n";
    std::fs::write(place.path("e.toml"), [HEAD, load].concat()).expect("a file");
    let path = format!("{}:{}", place.path(".").display(), std::env::var("PATH").expect("a path"));
    let begun = Instant::now();
    let run = ["lab", "run", "e.toml", "--target", "file:x.img", "--read-only", "--out", "run"];
    let output = place.command(&run).env("PATH", path).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let all = said.clone() + &std::fs::read_to_string(place.path("run/notes.jsonl")).unwrap_or_default();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(all.contains("cannot start all threads") && all.contains("`ulimit -u`"), "{all}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn results_that_fio_wrote_by_itself_are_imported_drawn_and_tabled() {
    let place = Place::new();
    let words =
        ["--name=x", "--filename=x.img", "--size=8M", "--rw=randread", "--runtime=1", "--time_based", "--output-format=json"];
    let status = std::process::Command::new("fio").args(words).arg("--output=theirs.json").current_dir(place.path(".")).status();
    assert!(status.expect("fio").success());
    let said = place.ok(&["lab", "import", "theirs.json", "--target", "theirs", "--out", "run"]);
    assert!(said.contains("run/report.html") && records(&place, "run").len() == 1, "{said}");
    let said = place.ok(&["lab", "report", "run", "--charts", "charts", "--format", "png", "--dark"]);
    let charts: Vec<_> =
        std::fs::read_dir(place.path("charts")).expect("charts").map(|entry| entry.expect("a file").path()).collect();
    assert!(said.contains(&format!("{} charts are in charts", charts.len())) && !charts.is_empty(), "{said}");
    assert!(charts.iter().all(|chart| std::fs::read(chart).expect("a chart").starts_with(b"\x89PNG")));
    let said = place.ok(&["lab", "export", "run", "--format", "ods"]);
    assert!(said.trim().ends_with("tables.ods") && place.path("run/ods/tables.ods").exists(), "{said}");
    let said = place.ok(&["lab", "export", "run"]);
    assert!(said.lines().count() == 2 && said.lines().all(|file| place.path(file).exists()), "{said}");
    place.run(&["lab", "import", "none.json", "--target", "x"]).refused(1, &["none.json"]);
    place.run(&["lab", "export", "theirs.json"]).refused(1, &["is not a run's folder", "`stria lab run`"]);
    // The name of a stranger's file forged a line of the answer.
    std::fs::create_dir(place.path("strange")).expect("a folder");
    std::fs::write(place.path("strange/a\nstria: b.json"), "{\"fio version\":\"fio-3.33\",\"jobs\":[]}").expect("a file");
    let ran = place.run(&["lab", "import", "strange/a\nstria: b.json", "--target", "x"]);
    ran.refused(1, &["strange/a\\nstria: b.json"]);
    assert_eq!(ran.stderr.trim().lines().count(), 1, "{ran:?}");
    place.run(&["lab", "report", "run", "--format", "png"]).refused(2, &["--charts"]);
}

#[test]
fn an_array_is_measured_from_optimal_to_trimmed_and_its_members_agree_with_fio() {
    let place = Place::new();
    let experiment = format!(
        "{HEAD}test = \"raid\"\nload = [{{ pattern = \"random\", block = \"4K\", read_percent = 100, queue_depth = 4 }}]\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    let ended =
        place.ok(&["lab", "run", "t.toml", "--target", "array:10:4", "--pool", "pool", "--drive-size", "32MiB", "--out", "run"]);
    assert!(ended.contains("report.html"), "{ended}");
    let records = records(&place, "run");
    let results: Vec<&Value> = records.iter().filter(|record| record["preparation"] == false).collect();
    let state = |record: &Value| record["point"]["array_state"].as_str().expect("a state").to_owned();
    let mut states: Vec<String> = results.iter().map(|record| state(record)).collect();
    states.dedup();
    assert_eq!(states, ["optimal", "degraded", "rebuilding", "rebuilt", "scrubbing", "optimal"]);
    // Every byte that fio read was read from one member, and slow ones from others as well, one in twenty and some saved up. The
    // array counts those that the others answered first.
    let optimal = results[0];
    let (members, hedged) = (of_members(optimal, "read_bytes"), of_members(optimal, "hedged_reads"));
    let read = optimal["read"]["bytes"].as_u64().expect("bytes");
    assert!((read..=read + read / 20 + 64 * 4096).contains(&members), "{members} of {read}");
    assert!(hedged <= (members - read) / 4096 + 64, "{hedged} reads were asked twice, {members} of {read} bytes");
    let extra =
        |name: &str| results.iter().find_map(|record| record["extra"][name].as_f64()).unwrap_or_else(|| panic!("{name} is told"));
    assert!(extra("rebuild_alone_seconds") > 0.0 && extra("rebuild_seconds") > 0.0 && extra("scrub_seconds") > 0.0);
    assert_eq!(extra("mismatch_sectors"), 0.0);
    // Each duration is with the load under which the sweep began.
    for (name, of) in [("rebuild_seconds", "rebuilding"), ("scrub_seconds", "scrubbing"), ("mismatch_sectors", "scrubbing")] {
        let first = results.iter().find(|record| state(record) == of).expect("measured");
        assert!(first["extra"][name].is_number(), "{name} is not with {first}");
    }
    // The span of 32 MiB twice, and what the rebuild wrote beyond it; a superblock and a bitmap stay.
    let (back, before) = (extra("reclaimed_bytes"), extra("allocated_before_bytes"));
    assert!(back >= 0.95 * f64::from(64 << 20) && before - back < f64::from(2 << 20), "{back} of {before}");
    assert!(std::fs::read_to_string(place.path("run/report.html")).expect("a page").contains("<svg"));
    assert!(!place.path("pool/drive0.img").exists(), "what the run made is gone");
}

/// Without redundancy each read goes to one member: two independent counters are equal to the byte.
#[test]
fn members_count_every_byte_that_fio_does() {
    let place = Place::new();
    let loads = "load = [{ pattern = \"random\", block = \"4K\", read_percent = [100, 30, 0], queue_depth = 8 },\n\
        { pattern = \"sequential\", block = \"1M\", read_percent = [100, 0], queue_depth = 4 }]\n";
    std::fs::write(place.path("t.toml"), format!("{HEAD}test = \"sweep\"\nstate = \"as-found\"\n{loads}")).expect("a file");
    place.ok(&["lab", "run", "t.toml", "--target", "array:0:3", "--pool", "pool", "--drive-size", "32MiB", "--out", "run"]);
    let records = records(&place, "run");
    assert_eq!(records.len(), 5);
    for record in &records {
        let fio = |kind: &str| record[kind]["bytes"].as_u64().unwrap_or(0);
        assert_eq!((of_members(record, "read_bytes"), of_members(record, "hedged_reads")), (fio("read"), 0), "{record}");
        assert_eq!(of_members(record, "written_bytes"), fio("write"), "{record}");
    }
}

#[test]
fn a_part_of_a_target_is_measured_and_the_rest_stays() {
    let place = Place::new();
    std::fs::write(place.path("x.img"), vec![7; 48 << 20]).expect("a file");
    let load = "load = [{ pattern = \"sequential\", block = \"1M\", read_percent = 0, queue_depth = 4 }]";
    std::fs::write(place.path("t.toml"), format!("{HEAD}test = \"sweep\"\nstate = \"as-found\"\n{load}\n")).expect("a file");
    let part = ["t.toml", "--target", "x.img", "--offset", "25%", "--share", "16MiB"];
    let plan = place.ok(&[&["lab", "plan"][..], &part].concat());
    assert!(plan.contains("x.img, 16 MiB from 25 % on (16 MiB)"), "{plan}");
    place.ok(&[&["lab", "run"][..], &part, &["--destroy", "x.img", "--out", "run"]].concat());
    let bytes = std::fs::read(place.path("x.img")).expect("there");
    let untouched = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 7);
    assert!(untouched(0..12 << 20) && untouched(28 << 20..48 << 20), "what lies outside stays");
    let written = (12..28).filter(|mib| !untouched(mib << 20..(mib + 1) << 20)).count();
    assert_eq!(written, 16, "all of it was written");
    assert!(std::fs::read_to_string(place.path("run/report.html")).expect("a page").contains("x.img, 16 MiB from 25\u{a0}% on"));
    place.run(&["lab", "plan", "quick", "--target", "x.img", "--offset", "90%"]).refused(2, &["not a part of", "48 MiB"]);
    place.run(&["lab", "plan", "quick", "--target", "x.img", "--share", "x%"]).refused(2, &["0% to 100%"]);
    place.run(&["lab", "plan", "file-copy", "--target", "x.img", "--share", "50%"]).refused(2, &["complete target"]);
}

#[test]
fn md_arrays_are_planned_by_mdadms_words_and_refused_where_drives_would_be_lost() {
    let place = Place::new();
    let drives = place.images(3, 16 << 20);
    let drive: Vec<&str> = drives.iter().flat_map(|drive| ["--drive", drive.as_str()]).collect();
    let plan = place.ok(&[&["lab", "plan", "quick", "--dry-run", "--target", "md:5:3:64K"][..], &drive].concat());
    let all = drives.join(" ");
    for words in [
        "md RAID 5 of 3",
        &format!("--level=5 --raid-devices=3 --chunk=64 --bitmap=internal {all}"),
        "mdadm --stop /dev/md",
        &format!("--zero-superblock {all}"),
    ] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    // Creating an array overwrites its drives, even if nothing is written to it afterwards.
    for target in ["md:5:3:assume-clean", "array:5:3"] {
        let run = [&["lab", "run", "quick", "--read-only", "--target", target][..], &drive, &["--destroy", drives[0].as_str()]]
            .concat();
        place.run(&run).refused(4, &["--destroy", &drives[1]]);
    }
    for (target, words) in [
        ("md:50:6", "levels are 0, 1"),
        ("md:5:2", "there is no RAID 5"),
        ("md:5", "write md:LEVEL"),
        ("md:5:3:64K:x", "write md:"),
    ] {
        place.run(&[&["lab", "plan", "quick", "--target", target][..], &drive].concat()).refused(2, &[words]);
    }
    place.run(&["lab", "plan", "quick", "--target", "md:1:2", "--pool", "p"]).refused(2, &["block devices", "losetup"]);
}

/// A stand-in for mdadm whose array is a separate loop device; tools/lab/tests/md.rs uses the kernel's md.
#[test]
#[ignore = "needs root and free loop devices"]
fn an_md_array_is_made_measured_made_again_after_a_purge_and_undone() {
    let place = Place::new();
    let drives: Vec<Loop> = (0..3).map(|at| Loop::new(&place, &format!("drive{at}"), 32 << 20)).collect();
    std::fs::create_dir(place.path("bin")).expect("a folder");
    let script = "#!/bin/sh\ncd '@'; echo \"$*\" >> calls\ncase $1 in\n\
        --create|--assemble) truncate -s 64M md.img; made=$(losetup --find --show md.img); echo $made > made; cp -a $made $2;;\n\
        --stop) rm -f $2; losetup --detach $(cat made);;\nesac\n";
    let mdadm = place.path("bin/mdadm");
    stria_testkit::script(&mdadm, &script.replace('@', &place.path("").display().to_string()));
    let load = "state = \"fresh\"\nload = [{ pattern = \"random\", read_percent = [100, 0], queue_depth = 4 }]\n";
    std::fs::write(place.path("t.toml"), format!("{HEAD}test = \"sweep\"\n{load}")).expect("a file");
    let mut words = vec!["lab", "run", "t.toml", "--target", "md:5:3:64K", "--out", "run"];
    drives.iter().for_each(|drive| words.extend(["--drive", &drive.0, "--destroy", &drive.0]));
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("it is set"));
    let ran = place.command(&words).env("PATH", path).output().expect("the program starts");
    assert!(ran.status.success(), "{ran:?}");
    let calls = std::fs::read_to_string(place.path("calls")).expect("it was called");
    let asked: Vec<&str> = calls.lines().filter_map(|line| line.split(' ').next()).collect();
    let once = ["--create", "--detail", "--stop", "--zero-superblock"];
    assert_eq!(asked, [once, once].concat(), "made, purged, made again, undone: {calls}");
    let results = records(&place, "run");
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|record| record["point"]["target"] == "md RAID 5 of 3, strip 64 KiB" && record["errors"] == 0));
    let page = std::fs::read_to_string(place.path("run/report.html")).expect("a page");
    assert!(page.contains("RAID 5") && page.contains("blkdiscard"));
}

/// The fio of a killed run wrote on for its time, and another run on the same target was complete.
#[test]
fn a_target_is_in_use_until_the_fio_of_a_killed_run_has_ended() {
    let place = Place::new();
    let text = |seconds: u32| {
        format!(
            "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\n[[section]]\nname = \"s\"\ntest = \"sweep\"\nstate = \"as-found\"\n\
             seconds = {seconds}\nload = [{{ pattern = \"random\" }}]\n"
        )
    };
    std::fs::write(place.path("long.toml"), text(3600)).expect("a file");
    std::fs::write(place.path("short.toml"), text(1)).expect("a file");
    std::fs::write(place.path("x.img"), vec![1; 32 << 20]).expect("a file");
    let of = |experiment, out| ["lab", "run", experiment, "--target", "file:x.img", "--read-only", "--out", out];
    let mut child = place.command(&of("long.toml", "run")).spawn().expect("the program starts");
    let end = Instant::now() + PATIENCE;
    let fio = loop {
        assert!(Instant::now() < end, "no fio");
        std::thread::sleep(Duration::from_millis(50));
        let Ok(own) = std::fs::read_to_string(place.path("run/own")) else { continue };
        let text = std::fs::read_to_string(std::env::temp_dir().join(own).join("fio.pid")).unwrap_or_default();
        if let Some((pid, _)) = text.split_once(' ') {
            break pid.to_owned();
        }
    };
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    place.run(&of("short.toml", "again")).refused(1, &["x.img is measured by another run"]);
    assert!(std::process::Command::new("kill").args(["-KILL", &fio]).status().expect("kill").success());
    place.ok(&of("short.toml", "again"));
}

#[test]
fn a_killed_run_is_resumed_on_the_same_array() {
    let place = Place::new();
    let experiment = format!(
        "{HEAD}test = \"sweep\"\npasses = 2\n\
         load = [{{ pattern = \"random\", block = \"4K\", read_percent = [100, 0], queue_depth = 4 }}]\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    let arguments = ["lab", "run", "t.toml", "--target", "array:5:3", "--pool", "pool", "--drive-size", "32MiB", "--out", "run"];
    let mut child = place.command(&arguments).spawn().expect("the program starts");
    let end = Instant::now() + PATIENCE;
    while records(&place, "run").len() < 3 {
        assert!(Instant::now() < end, "no three records");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let before = records(&place, "run");
    place.ok(&["lab", "resume", "run"]);
    let after = records(&place, "run");
    assert_eq!(after[..before.len()], before[..], "what was measured stays");
    assert_eq!(after.len(), 1 + 2 * 2, "a fill and two passes of two loads");
    place.run(&["lab", "resume", "run"]).refused(1, &["nothing to resume"]);
}

#[test]
fn a_resumed_run_measures_no_array_that_another_target_left_on_its_drives() {
    let place = Place::new();
    let experiment = format!(
        "{HEAD}test = \"sweep\"\npasses = 1\nload = [{{ pattern = \"random\", block = \"4K\", read_percent = [100, 0] }}]\n\
         [arrays]\nlevels = [\"5\", \"6\"]\nmembers = [4]\nstrips = [\"64K\"]\nbare = true\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    let arguments = ["lab", "run", "t.toml", "--pool", "pool", "--drive-size", "32MiB", "--out", "run"];
    let mut child = place.command(&arguments).spawn().expect("the program starts");
    let end = Instant::now() + PATIENCE;
    let is_of = |record: &Value, level: &str| record["point"]["level"] == level && record["preparation"] != true;
    while !records(&place, "run").iter().any(|record| is_of(record, "6")) {
        assert!(Instant::now() < end && child.try_wait().expect("a child").is_none(), "no record of RAID 6");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // A load on the RAID 5 failed, and the drives hold the RAID 6 by now.
    let mut lines = records(&place, "run");
    let failed = lines.iter_mut().rfind(|record| is_of(record, "5")).expect("it was measured");
    failed["failed"] = "1 requests failed".into();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(place.path("run/records.jsonl"), text).expect("written");
    place.ok(&["lab", "resume", "run"]);
    let manifest: Value = serde_json::from_slice(&std::fs::read(place.path("run/manifest.json")).expect("there")).expect("JSON");
    let resumed_ms = manifest["resumed_ms"][0].as_u64().expect("it was resumed");
    let after = records(&place, "run");
    for level in ["5", "6"] {
        let again = after.iter().filter(|record| is_of(record, level));
        assert!(
            again.clone().count() == 2 && again.clone().all(|record| record["begun_ms"].as_u64() >= Some(resumed_ms)),
            "{level}"
        );
    }
    // The bare drives had been measured, and nothing of them is repeated.
    assert!(
        after
            .iter()
            .filter(|record| record["point"]["level"].is_null())
            .all(|record| record["begun_ms"].as_u64() < Some(resumed_ms))
    );
    let notes = std::fs::read_to_string(place.path("run/notes.jsonl")).expect("there");
    assert!(notes.contains("begins again: RAID 5 of 4") && notes.contains("begins again: RAID 6 of 4"), "{notes}");
}

#[test]
fn a_bare_nbd_uri_is_measured_and_replayed_on() {
    let place = Place::new();
    let images = place.images(2, 48 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let serve = place.serve(&[&images[0], &images[1]]);
    let uri = serve.uri("tank").to_owned();
    let experiment = format!(
        "{HEAD}test = \"sweep\"\nstate = \"as-found\"\nload = [{{ pattern = \"random\", read_percent = [100, 0], queue_depth = 4 }}]\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    place.run(&["lab", "run", "t.toml", "--target", &uri]).refused(4, &["--destroy", &uri]);
    place.ok(&["lab", "run", "t.toml", "--target", &uri, "--destroy", &uri, "--out", "run"]);
    let measured = records(&place, "run");
    assert_eq!(measured.len(), 2);
    assert!(measured.iter().all(|record| record["total"]["requests"].as_u64() > Some(0) && record["errors"] == 0));

    // The same trace by our own threads and by fio: equal counts, also in the member's counters.
    let trace = "fio version 3 iolog\n1 x add\n1 x open\n1 x write 0 8192\n50000 x write 65536 4096\n100000 x datasync\n\
        150000 x trim 1048576 4096\n200000 x read 0 8192\n250000 x read 65536 4096\n250000 x close\n";
    std::fs::write(place.path("x.log"), trace).expect("a file");
    let replay = ["lab", "replay", "x.log", "--format", "iolog", "--target", &uri, "--passes", "1"];
    place.run(&replay).refused(4, &["--destroy", &uri]);
    for (out, more) in [("own", &[][..]), ("fio", &["--fio", "--depth", "1"]), ("fast", &["--fio", "--pace", "closed"])] {
        let said = place.ok(&[&replay[..], &["--destroy", &uri, "--out", out], more].concat());
        let record = &records(&place, out)[0];
        let counts = ["read", "write", "trim"].map(|kind| record[kind]["requests"].as_u64());
        // fio 3.33 skips discards, and the lab reports this.
        assert_eq!(counts, [Some(2), Some(2), if out == "own" { Some(1) } else { None }], "{out}: {said}");
        let notes = std::fs::read_to_string(place.path(out).join("notes.jsonl")).unwrap_or_default();
        assert_eq!(notes.contains("0 of 1 discards"), out != "own", "{notes}");
        assert_eq!((record["read"]["bytes"].as_u64(), record["errors"].as_u64()), (Some(12_288), Some(0)), "{out}");
        let seconds = record["seconds"].as_f64().expect("seconds");
        assert!(if out == "fast" { seconds < 0.2 } else { (0.2..2.0).contains(&seconds) }, "{out} took {seconds} s");
    }
    serve.signal("-TERM");
    serve.ended_well();
}

#[test]
fn an_interrupted_replay_tells_its_progress_and_keeps_what_it_has() {
    let place = Place::new();
    std::fs::write(place.path("x.img"), vec![0; 8 << 20]).expect("a file");
    // Ten requests a second for a minute.
    let lines: String = (0..600).map(|at| format!("{} x read {} 4096\n", 1 + at * 100_000, at * 4096)).collect();
    std::fs::write(place.path("x.log"), format!("fio version 3 iolog\n1 x add\n1 x open\n{lines}")).expect("a file");
    let replay = ["lab", "replay", "x.log", "--format", "iolog", "--target", "x.img", "--out", "run", "--cached"];
    let child = place.command(&replay).stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    while !place.path("run/manifest.json").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    let ended = child.wait_with_output().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(20), "in good order, but soon");
    let (said, told) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{said} {told}");
    assert!(said.contains("cut short") && told.contains("left") && told.contains("of 600 requests"), "{said} {told}");
    let manifest = std::fs::read_to_string(place.path("run/manifest.json")).expect("there");
    assert!(manifest.contains("\"interrupted\""), "{manifest}");
    let done = records(&place, "run")[0]["read"]["requests"].as_u64().expect("a number");
    assert!((5..600).contains(&done), "{done}");
}

/// An `ssh` in the folder `bin` of a place: to a real sshd where one is installed, which ends with the child; else a stand-in
/// that hands to a shell here what it is given.
fn ssh(place: &Place) -> Option<std::process::Child> {
    let sh = |script: &str| {
        let done = std::process::Command::new("sh").args(["-ec", script]).current_dir(place.path("")).output().expect("sh");
        assert!(done.status.success(), "{done:?}");
    };
    sh("mkdir bin; printf '#!/bin/sh\\nexec sh\\n' > bin/ssh; chmod +x bin/ssh");
    if !std::path::Path::new("/usr/sbin/sshd").exists() {
        eprintln!("no /usr/sbin/sshd here: a stand-in takes the place of ssh; install openssh-server to test the real one");
        return None;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    // sshd needs this when root starts it.
    let _ = std::fs::create_dir_all("/run/sshd");
    sh(&format!(
        "d=$PWD; for key in host user; do ssh-keygen -q -t ed25519 -N '' -f $key; done
        printf '%s\\n' 'Port {port}' 'ListenAddress 127.0.0.1' \"HostKey $d/host\" \"AuthorizedKeysFile $d/user.pub\" 'PidFile none' \\
            'StrictModes no' 'UsePAM no' 'PasswordAuthentication no' > sshd_config
        printf '%s\\n' 'Host *' 'Port {port}' \"IdentityFile $d/user\" 'IdentitiesOnly yes' 'StrictHostKeyChecking no' 'LogLevel ERROR' \\
            \"UserKnownHostsFile $d/known\" > ssh_config
        printf '%s\\n' '#!/bin/sh' \"exec $(command -v ssh) -F $d/ssh_config \\\"\\$@\\\"\" > bin/ssh"
    ));
    let mut sshd = std::process::Command::new("/usr/sbin/sshd");
    sshd.args(["-D", "-e", "-f"]).arg(place.path("sshd_config")).stderr(std::process::Stdio::null());
    let sshd = sshd.spawn().expect("sshd starts");
    answers(port);
    Some(sshd)
}

/// Waits until a program listens on a port of this machine.
fn answers(port: u16) {
    let end = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "nobody listens on port {port}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Two fio servers of this machine are the hosts.
#[test]
fn several_hosts_are_measured_together_purged_and_tell_what_they_are() {
    let place = Place::new();
    let sshd = ssh(&place);
    let file = place.path("x.img");
    std::fs::write(&file, vec![1; 32 << 20]).expect("a file");
    let ports = [0, 1].map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port());
    let hosts = ports.map(|port| format!("127.0.0.1,{port}"));
    let serve = |host: &String| std::process::Command::new("fio").arg(format!("--server={host}")).spawn().expect("fio");
    let mut servers = [serve(&hosts[0]), serve(&hosts[1])];
    ports.into_iter().for_each(answers);
    let experiment = format!(
        "{HEAD}test = \"sweep\"\nstate = \"fresh\"\nload = [{{ pattern = \"random\", read_percent = 100, queue_depth = 4 }}]\n"
    );
    std::fs::write(place.path("t.toml"), experiment).expect("a file");
    let target = file.to_str().expect("a plain name");
    let mut arguments = vec!["lab", "run", "t.toml", "--target", target, "--destroy", target, "--out", "run"];
    // The second has the target under another name.
    let other = place.path("y.img");
    std::fs::write(&other, vec![1; 32 << 20]).expect("a file");
    let elsewhere = format!("{}={}", hosts[1], other.display());
    arguments.extend(["--host", &hosts[0], "--host", &elsewhere]);
    place.run(&arguments).refused(4, &["--destroy", &elsewhere]);
    arguments.extend(["--destroy", &elsewhere]);
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("it is set"));
    let ran = place.command(&arguments).env("PATH", &path).output().expect("the program starts");
    let end = |child: &mut std::process::Child| {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    };
    end(&mut servers[1]);
    let arguments: Vec<&str> = arguments.into_iter().map(|word| if word == "run" { "lonely" } else { word }).collect();
    let arguments: Vec<&str> = [&["lab", "run"], &arguments[2..]].concat();
    let lonely = place.command(&arguments).env("PATH", &path).output().expect("the program starts");
    end(&mut servers[0]);
    sshd.into_iter().for_each(|mut sshd| end(&mut sshd));
    assert!(ran.status.success(), "{ran:?}");
    let said = String::from_utf8_lossy(&lonely.stderr);
    assert!(
        !lonely.status.success() && said.contains("1 of 2 hosts gave a result"),
        "a host that is away is not a result: {said}"
    );
    let told: Vec<_> = records(&place, "run").iter().map(|record| record["host"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(told.len(), 3, "each host and all together: {told:?}");
    assert_eq!(told[0], "all");
    let manifest: Value = serde_json::from_slice(&std::fs::read(place.path("run/manifest.json")).expect("there")).expect("JSON");
    for host in &hosts {
        assert!(manifest["hosts"][host]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("Linux ")), "{manifest:#}");
        assert!(manifest["hosts"][host]["memory_bytes"].as_u64() > Some(1 << 20));
        let purge = manifest["sections"][0]["purge"].as_str().expect("it was purged");
        assert!(purge.contains(&format!("{host}: new empty file")), "{purge}");
    }
    for file in [&file, &other] {
        assert!(std::fs::read(file).expect("there").iter().all(|byte| *byte == 0), "as new");
    }
    let job = std::fs::read_to_string(place.path("run/raw/00000.fio.1")).expect("a job of its own");
    assert!(job.contains("y.img") && !job.contains("x.img"), "{job}");
    let page = std::fs::read_to_string(place.path("run/report.html")).expect("a page");
    assert!(page.contains("Other hosts") && page.contains("CPU") && page.contains(", Linux"));
}

/// A loop device of `bytes`, gone when dropped.
struct Loop(String);

impl Loop {
    fn new(place: &Place, name: &str, bytes: u64) -> Self {
        let image = place.path(name);
        std::fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file");
        let output = std::process::Command::new("losetup").args(["--find", "--show"]).arg(&image).output().expect("losetup");
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).expect("text").trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

const COPY: &str = "[[section]]\nname = \"s\"\ntest = \"file-copy\"\n\
    copy = [{ name = \"few\", sizes = \"8M/100\", total = \"32M\" }, { name = \"many\", sizes = \"4K/60:64K/40\", total = \"8M\" }]\n";

fn copies(place: &Place, target: &[&str], kind: &str) {
    let head = HEAD.split("[[section]]").next().expect("a head").replace("32M", "96M");
    std::fs::write(place.path("t.toml"), format!("{head}{}", COPY.replace("test", &format!("{kind}test")))).expect("a file");
    place.ok(&[&["lab", "run", "t.toml", "--out", "run"], target].concat());
    let all = records(place, "run");
    let notes = std::fs::read_to_string(place.path("run/notes.jsonl")).expect("notes");
    assert_eq!(all.len(), 2, "{notes}");
    let of = |name: &str| all.iter().find(|record| record["point"]["mix"] == name).expect("it was copied");
    assert_eq!((of("few")["total"]["requests"].as_u64(), of("few")["total"]["bytes"].as_u64()), (Some(4), Some(32 << 20)));
    assert!(of("many")["total"]["requests"].as_u64() > Some(200) && of("many")["extra"]["files_per_s"].as_f64() > Some(0.0));
    for record in &all {
        let sum = |key: &str| -> u64 {
            record["members"].as_array().expect("a list").iter().filter_map(|member| member[key].as_u64()).sum()
        };
        // The drives' own counters show at least all the files: nothing came from a cache.
        if sum("written_bytes") > 0 {
            let bytes = record["total"]["bytes"].as_u64().expect("bytes");
            assert!(sum("written_bytes") >= bytes && sum("read_bytes") >= bytes, "{record}");
        }
    }
}

#[test]
fn files_are_copied_in_the_folder_of_a_file_and_nothing_stays() {
    let place = Place::new();
    copies(&place, &["--target", "file:x.img", "--size", "128MiB"], "");
    let left: Vec<_> =
        std::fs::read_dir(place.path(".")).expect("there").map(|entry| entry.expect("there").file_name()).collect();
    assert_eq!(left.len(), 2, "the experiment and its run: {left:?}");
}

#[test]
#[ignore = "needs root, a free loop device, and mkfs"]
fn files_are_copied_on_a_file_system_made_on_a_device_and_on_an_array() {
    for kind in ["", "file_system = \"xfs\"\n"] {
        let place = Place::new();
        let device = Loop::new(&place, "loop.img", 400 << 20);
        place.run(&["lab", "run", "file-copy", "--scaled", "--target", &device.0]).refused(4, &["--destroy"]);
        copies(&place, &["--target", &device.0, "--destroy", &device.0], kind);
        let mounts = std::fs::read_to_string("/proc/mounts").expect("there");
        assert!(!mounts.contains(&device.0), "{mounts}");
    }
    let place = Place::new();
    copies(&place, &["--target", "array:5:3", "--pool", "pool", "--drive-size", "96MiB"], "");
}
