//! Goal: a campaign's table does not depend on how its jobs ran: in one process, killed in the middle, by several processes, as
//! array jobs. Method: the real program on folders with the same jobs; the reference is the table of one process.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The fifth of the six jobs has no answer: no array is large enough.
const JOBS: &str = "# Strips and levels for a database\n\
    advise --drives 4xs3500 --purpose database --requests 1000 --strip 64K\n\
    what-if --drives 4xs3500 --level 5 --purpose vm --requests 1000\n\
    \n\
    advise --drives '2-4xs3500' --block 16K --reads 50 --requests 4000\n\
    advise --drives 6xp4510 --purpose vm --requests 1000 --strip 64K\n\
    advise --drives 4xs3500 --purpose media --capacity 100TB\n\
    what-if --drives 3xp4510 --level 5 --purpose desktop --requests 1000\n";
const COUNT: usize = 6;

fn folder(name: &str, jobs: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("jobs.txt"), jobs).expect("a file");
    path
}

fn campaign(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stria-plan"));
    command.arg("campaign").arg(folder).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn run(folder: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    ended(campaign(folder, more).spawn().expect("the program starts"))
}

/// The table of all answers, once all exist.
fn table(folder: &Path) -> String {
    let csv = folder.join("table.csv");
    let (code, _, error) = run(folder, &["--csv", csv.to_str().expect("text")]);
    assert_eq!(code, Some(1), "job 5 fails: {error}");
    std::fs::read_to_string(&csv).expect("a table")
}

fn answers(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder.join("answers")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "json")).count()
}

#[test]
fn a_table_is_the_same_after_a_kill_by_several_processes_and_as_array_jobs() {
    let whole = folder("campaign-whole", JOBS);
    let expected = table(&whole);
    assert!(expected.lines().count() > COUNT && expected.contains("no array of 4 x s3500 holds 100 TB"), "{expected}");

    let killed = folder("campaign-killed", JOBS);
    let mut child = campaign(&killed, &["--cores", "1"]).spawn().expect("the program starts");
    let begun = Instant::now();
    while answers(&killed) == 0 && begun.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let kept = answers(&killed);
    assert!((1..COUNT).contains(&kept), "killed in the middle: {kept}");
    // Half an answer, as a power cut leaves it, does not count.
    std::fs::write(killed.join("answers/00006.json"), "{\"job\": \"what-if").expect("a file");
    let first = std::fs::metadata(killed.join("answers/00001.json")).and_then(|file| file.modified()).expect("kept");
    assert_eq!(table(&killed), expected);
    let again = std::fs::metadata(killed.join("answers/00001.json")).and_then(|file| file.modified()).expect("kept");
    assert_eq!(first, again, "what is answered is not carried out again");

    let shared = folder("campaign-shared", JOBS);
    let processes: Vec<Child> = (0..3).map(|_| campaign(&shared, &["--cores", "1"]).spawn().expect("it starts")).collect();
    processes.into_iter().for_each(|child| assert_ne!(ended(child).0, Some(2)));
    assert_eq!((answers(&shared), table(&shared)), (COUNT, expected.clone()));

    let tasks = folder("campaign-tasks", JOBS);
    for task in (1..=COUNT).rev() {
        let (code, words, error) = run(&tasks, &["--task", &task.to_string()]);
        assert_eq!(code, Some(i32::from(task <= 5)), "{task}: {error}");
        assert_eq!(words.contains("stria plan campaign"), task > 1, "{words}");
    }
    assert_eq!(table(&tasks), expected);
}

/// A process skips a job that another process holds, and then prints no table.
#[test]
fn a_claimed_job_is_carried_out_once() {
    let folder = folder("campaign-claimed", "advise --drives 4xs3500 --purpose vm --requests 1000 --strip 64K\n");
    std::fs::create_dir_all(folder.join("claims")).expect("a folder");
    let claim = std::fs::File::create(folder.join("claims/00001")).expect("a file");
    claim.lock().expect("a lock");
    let (code, words, _) = run(&folder, &[]);
    assert!(code == Some(0) && words.contains("0 of 1 jobs are answered") && answers(&folder) == 0, "{words}");
    drop(claim);
    let (code, words, _) = run(&folder, &[]);
    assert!(code == Some(0) && words.contains("advised") && words.contains("RAID"), "{words}");
    // A changed line is another job, even if an answer exists.
    std::fs::write(folder.join("jobs.txt"), "advise --drives 4xs3500 --purpose backup --requests 1000 --strip 64K\n")
        .expect("a file");
    let (_, out, _) = run(&folder, &["--json"]);
    let told: Value = serde_json::from_str(&out).expect("JSON");
    let purpose = told["answers"][0]["answer"]["purpose"].as_str();
    assert!(told["answered"] == 1 && purpose.is_some_and(|purpose| purpose.contains("writes")), "{out}");
}

/// An answer was reused although the profile that its line names had changed.
#[test]
fn a_changed_profile_is_another_job() {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let text = |path: &str| std::fs::read_to_string(profiles.join(path)).expect("a profile");
    let folder = folder("campaign-profile", "");
    let [drive, platform] = ["mine.toml", "host.toml"].map(|name| folder.join(name).to_str().expect("text").to_owned());
    let job = format!("advise --drives '4x{drive}' --platform '{platform}' --purpose vm --requests 1000 --strip 64K\n");
    std::fs::write(folder.join("jobs.txt"), job).expect("a file");
    let slower = text("drives/s3500.toml").replace("read_ns = [143_000,", "read_ns = [1_543_000,");
    let dear = text("platforms/stria.toml").replace("serial_ns = [980,", "serial_ns = [98_000,");
    let mut speeds = Vec::new();
    for (own_drive, own_platform) in [
        (text("drives/s3500.toml"), text("platforms/stria.toml")),
        (slower.clone(), text("platforms/stria.toml")),
        (slower.clone(), dear.clone()),
        (slower, dear),
    ] {
        std::fs::write(&drive, own_drive).expect("a file");
        std::fs::write(&platform, own_platform).expect("a file");
        let (_, out, error) = run(&folder, &["--json"]);
        let told: Value = serde_json::from_str(&out).expect("JSON");
        let iops =
            told["answers"][0]["answer"]["ranking"][0]["loads"][0]["iops"].as_f64().unwrap_or_else(|| panic!("{out}{error}"));
        let written = std::fs::metadata(folder.join("answers/00001.json")).and_then(|file| file.modified()).expect("kept");
        speeds.push((iops, written));
    }
    let iops: Vec<f64> = speeds.iter().map(|(iops, _)| *iops).collect();
    assert!(iops[1] < 0.8 * iops[0] && iops[2] < 0.5 * iops[1], "{iops:?}");
    assert_eq!(speeds[2], speeds[3], "the same files are not planned for again");
}

#[test]
fn lines_that_are_no_jobs_are_refused_before_anything_is_done() {
    for (jobs, more, sentence) in [
        ("", &[][..], "has 0 jobs"),
        ("advise --drives 4xs3500 --purpose vm\nmeasure", &[], "job 2 of jobs.txt, \"measure\""),
        ("advise --drives", &[], "job 1 of jobs.txt"),
        ("advise --drives '4xs3500", &[], "a quote is not closed"),
        ("advise --drives here --purpose vm", &[], "the answer to --drives here depends on the machine"),
        ("what-if --drives 4xs3500 --level 5 --purpose vm --calibrated", &[], "the answer to --calibrated depends"),
        ("advise --drives 4xs3500 --purpose vm --out /tmp/page.html", &[], "a job writes no files of its own"),
        ("reproduce --csv x.csv", &[], "a job writes no files of its own"),
        ("reproduce", &["--task", "2"], "there is no job 2: use 1 to 1"),
        ("reproduce", &["--task", "0"], "use 1 to 1"),
        ("reproduce", &["--cores", "0"], "--cores"),
    ] {
        let folder = folder("campaign-refused", jobs);
        let (code, out, error) = run(&folder, more);
        assert_eq!((code, &*out, answers(&folder)), (Some(2), "", 0), "{jobs}: {error}");
        assert!(error.contains(sentence), "{jobs}: {error}");
    }
    let (code, _, error) = run(Path::new("/nowhere"), &[]);
    assert!(code == Some(2) && error.contains("/nowhere/jobs.txt"), "{error}");
}
