//! Goal: a member that does not answer is told of, by name, while its request waits, and so is its answer.
//! Method: one member is a file of nbdfuse, which is stopped as a drive that hangs. Needs FUSE.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use support::nbd::Client;
use support::{PATIENCE, Place, may_skip, tool};

/// A file that can be made to hang; goes on and is undone when dropped.
struct Hanging {
    fuse: Child,
    mount: PathBuf,
}

impl Hanging {
    fn new(mount: PathBuf, uri: &str) -> Option<Self> {
        std::fs::create_dir(&mount).expect("a folder");
        let fuse = tool("nbdfuse", &[mount.to_str().expect("a plain path"), uri])?;
        let hanging = Self { fuse, mount };
        let end = std::time::Instant::now() + PATIENCE;
        while !hanging.file().exists() {
            assert!(std::time::Instant::now() < end, "nbdfuse does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(hanging)
    }

    fn file(&self) -> PathBuf {
        self.mount.join("nbd")
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.fuse.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()), "kill is everywhere");
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.fuse.id().to_string()]).status();
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mount).status();
        let _ = self.fuse.wait();
    }
}

fn waiting_ms(status: &Value, path: &str) -> u64 {
    let members = status["members"].as_array().expect("a list");
    let member = members.iter().find(|member| member["path"] == path).expect("a member");
    member["waiting_ms"].as_u64().unwrap_or(0)
}

/// Writes on all members, a few at a time: the kernel carries out what waits for FUSE on a few worker threads, which other
/// files of the same ring need too.
fn fill(client: &mut Client, byte: u8) {
    for start in (0..64).step_by(4) {
        let writes: Vec<(u64, Vec<u8>)> = (start..start + 4).map(|index| (index * 65536, vec![byte; 65536])).collect();
        client.send_writes(&writes).expect("they are taken");
        (0..4).for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
    }
}

#[test]
fn member_that_does_not_answer_is_told_of() {
    if !Path::new("/dev/fuse").exists() {
        return may_skip("there is no FUSE", "run with /dev/fuse");
    }
    let (under, place) = (Place::new(), Place::new());
    let image = under.images(1, 32 << 20);
    under.ok(&["create", "under", "--level", "jbod", &image[0]]);
    let below = under.serve(&[&image[0]]);
    let Some(hanging) = Hanging::new(place.path("fuse"), below.uri("under")) else { return };
    let images = place.images(2, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let drives = [&*images[0], &*images[1], &*slow];
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    let mut client = serve.client("tank");
    fill(&mut client, 7);
    let status = place.status("tank");
    for member in status["members"].as_array().expect("a list") {
        assert!(member["write_latency"]["median_us"].as_u64().is_some_and(|median| median > 0), "{member:#}");
        assert!(member["waiting_ms"].as_u64().unwrap_or(0) < 1000, "{member:#}");
    }
    hanging.signal("-STOP");
    let writer = std::thread::spawn(move || fill(&mut client, 8));
    let status = place.wait_for("tank", "a request to wait for 6 s", |status| waiting_ms(status, &slow) > 6000);
    assert!(images.iter().all(|path| waiting_ms(&status, path) < 1000), "the others answer: {status:#}");
    let shown = place.ok(&["status", "tank"]);
    let line = shown.lines().find(|line| line.contains(&slow)).expect("a line for each member");
    assert!(line.contains("in sync, no answer for"), "{shown}");
    assert!(!writer.is_finished(), "nothing is said to be written that the member has not got");
    hanging.signal("-CONT");
    writer.join().expect("written, if late");
    place.wait_for("tank", "the member's answer", |status| waiting_ms(status, &slow) < 1000);
    // The next look at the drives tells of it.
    std::thread::sleep(Duration::from_millis(1500));
    place.ok(&["stop", "--force"]);
    let log = serve.ended_well();
    for words in [format!("{slow} has had a request outstanding for"), format!("{slow} answers again")] {
        assert!(log.contains(&words), "\"{words}\" is not in {log}");
    }
    assert!(!images.iter().any(|path| log.contains(&format!("{path} has had"))), "{log}");
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}
