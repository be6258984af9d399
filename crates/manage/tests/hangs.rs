//! Goal: a member that hangs stops nothing else. The other members and other arrays answer, `fail` and `stop` succeed, and the
//! remaining drives can be served again at once.
//! Method: one member is a file of nbdfuse that is stopped. Needs FUSE.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::daemon::Daemon;
use support::hanging::{Hanging, LoopOver};
use support::nbd::Client;
use support::{PATIENCE, Place, may_skip};

/// An array `under` on one image, whose export is a file of FUSE.
fn hanging(under: &Place, place: &Place) -> Option<(Hanging, support::Serve)> {
    hanging_at(under, place, "fuse")
}

fn hanging_at(under: &Place, place: &Place, mount: &str) -> Option<(Hanging, support::Serve)> {
    if !Path::new("/dev/fuse").exists() {
        may_skip("there is no FUSE", "run with /dev/fuse");
        return None;
    }
    let image = under.images(1, 32 << 20);
    under.ok(&["create", "under", "--level", "jbod", &image[0]]);
    let below = under.serve(&[&image[0]]);
    let hanging = Hanging::new(place.path(mount), below.uri("under"))?;
    Some((hanging, below))
}

/// Writes and flushes. Returns the byte that all of the range then holds.
fn write(client: &mut Client, byte: u8) {
    for start in (0..64).step_by(4) {
        let writes: Vec<(u64, Vec<u8>)> = (start..start + 4).map(|index| (index * 65536, vec![byte; 65536])).collect();
        client.send_writes(&writes).expect("they are taken");
        (0..4).for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
        assert!(client.flush().expect("an answer"));
    }
}

fn holds(client: &mut Client, byte: u8) {
    let read = client.read(0, 64 * 65536).expect("it answers");
    assert!(read.iter().all(|&found| found == byte), "all that was written and flushed is there");
}

/// Lets the drive hang under a write of a client, until the server has seen that. Returns what tells the end of the client.
fn hang_under_a_write(hanging: &Hanging, place: &Place, serve: &support::Serve, slow: &str) -> std::sync::mpsc::Receiver<()> {
    hanging.signal("-STOP");
    let mut client = serve.client("tank");
    let writer = beside(move || {
        let _ = client.send_writes(&[(0, vec![1; 65536])]);
        let _ = client.reply();
    });
    place.wait_for("tank", "the drive to be seen to hang", |status| {
        members(status).iter().any(|member| member["path"] == *slow && member["waiting_ms"].as_u64().unwrap_or(0) > 500)
    });
    writer
}

/// Runs `work` on a thread of its own, and reports its end.
fn beside(work: impl FnOnce() + Send + 'static) -> std::sync::mpsc::Receiver<()> {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    ended
}

/// The members of an array and of its spans.
fn members(status: &Value) -> Vec<&Value> {
    let list = |key: &str| status[key].as_array().expect("a list").iter();
    list("members").chain(list("spans").flat_map(members)).collect()
}

fn story(level: &str, image_count: usize, lanes: &str, fails: bool, by_loop: bool) {
    let (under, place, beside_it) = (Place::new(), Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    eprintln!("RAID {level}, {lanes} lanes, failed on command: {fails}, a loop device over it: {by_loop}");
    let images = place.images(image_count, 24 << 20);
    let mut slow = hanging.file().to_str().expect("a plain path").to_owned();
    let over = if by_loop { LoopOver::new(&hanging.file()) } else { None };
    if by_loop {
        let Some(device) = &over else { return };
        slow.clone_from(&device.0);
    }
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    let drives = [&images[..], &[&*slow]].concat();
    place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&[&drives[..], &["--lanes", lanes]].concat());
    // Another array of this machine is not affected.
    let image = beside_it.images(1, 16 << 20);
    beside_it.ok(&["create", "other", "--level", "jbod", &image[0]]);
    let other = beside_it.serve(&[&image[0]]);
    write(&mut serve.client("tank"), 1);

    hanging.signal("-STOP");
    let mut clients: Vec<Client> = (0..4).map(|_| serve.client("tank")).collect();
    let writers = clients.drain(..).map(|mut client| beside(move || write(&mut client, 2))).collect::<Vec<_>>();
    place.wait_for("tank", "the drive to be seen to hang", |status| {
        members(status).iter().any(|member| member["path"] == *slow && member["waiting_ms"].as_u64().unwrap_or(0) > 1500)
    });
    let status = place.status("tank");
    let is_drive = |member: &&&Value| member["path"].as_str().is_some_and(|path| path.starts_with('/'));
    for member in members(&status).iter().filter(is_drive).filter(|member| member["path"] != *slow) {
        assert!(member["waiting_ms"].as_u64().unwrap_or(0) < 1000, "the others are not held up: {member:#}");
    }
    assert_eq!(beside_it.status("other")["health"], "optimal");
    assert!(writers.iter().all(|writer| writer.try_recv().is_err()), "nothing is durable that one member has not got");

    if fails {
        place.ok(&["fail", "tank", &slow, "--force"]);
        for writer in &writers {
            writer.recv_timeout(PATIENCE).expect("what waited for the failed drive alone is answered");
        }
        holds(&mut serve.client("tank"), 2);
        write(&mut serve.client("tank"), 3);
        // The member is removed while it hangs, and nothing waits.
        goes_on(&place, &serve, || place.ok(&["remove", "tank", &slow]));
        assert!(!members(&place.status("tank")).iter().any(|member| member["path"] == *slow), "it is out");
    }
    place.ok(&["stop", "tank", "--force"]);
    // The drive still hangs, and nothing needs it.
    let again = place.serve(&images);
    let mut client = again.client("tank");
    if fails {
        holds(&mut client, 3);
    }
    write(&mut client, 4);
    holds(&mut client, 4);
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    again.ended_well();
    hanging.signal("-CONT");
    let log = serve.ended_well();
    assert!(log.contains(if fails { "failed on command" } else { "the array stops without it" }), "{log}");
    assert!(!log.contains("has stood still"), "{log}");
    drop(over);
    drop(hanging);
    beside_it.ok(&["stop", "--force"]);
    other.ended_well();
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

#[test]
fn failed_drive_that_hangs_is_not_waited_for() {
    for (level, images, lanes) in [("1", 1, "1"), ("5", 2, "1"), ("6", 3, "2"), ("10", 3, "2")] {
        story(level, images, lanes, true, false);
    }
}

#[test]
fn failed_drive_of_a_span_that_hangs_is_not_waited_for() {
    for (level, images, lanes) in [("50", 5, "2"), ("60", 7, "1")] {
        story(level, images, lanes, true, false);
    }
}

/// The last flush waits in the kernel, and so does the end of the process. It holds no other drive, and says so.
#[test]
fn stop_names_the_loop_device_that_holds_the_process() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let Some(over) = LoopOver::new(&hanging.file()) else { return };
    let images = place.images(2, 24 << 20);
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&["create", "tank", "--level", "5", "--assume-clean", images[0], images[1], &over.0]);
    let serve = place.serve(&[images[0], images[1], &over.0]);
    write(&mut serve.client("tank"), 1);
    hanging.signal("-STOP");
    place.ok(&["stop", "tank", "--force"]);
    let again = place.serve(&images);
    holds(&mut again.client("tank"), 1);
    place.ok(&["stop", "tank", "--force"]);
    again.ended_well();
    hanging.signal("-CONT");
    let log = serve.ended_well();
    assert!(log.contains("has not answered a request that waits in the kernel"), "{log}");
    drop(over);
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

#[test]
fn failed_loop_device_over_a_file_that_hangs_is_not_waited_for() {
    for (level, images, lanes) in [("5", 2, "1"), ("1", 2, "2")] {
        story(level, images, lanes, true, true);
    }
}

/// While `command` runs, the array answers and takes writes.
fn goes_on<T: Send>(place: &Place, serve: &support::Serve, command: impl FnOnce() -> T + Send) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut client = serve.client("tank");
            client.waits_at_most(Duration::from_secs(5));
            while !over.load(Ordering::SeqCst) {
                client.send_writes(&[(4 << 20, vec![9; 65536])]).expect("it is taken");
                assert_eq!(client.reply().expect("an answer in time").1, 0);
                let since = Instant::now();
                let status = place.status("tank");
                assert!(status["silent_s"].is_null(), "its lanes answer: {status:#}");
                assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let done = command();
        over.store(true, Ordering::SeqCst);
        watch.join().expect("it goes on");
        done
    })
}

/// The drive hangs before, while, or just after it is opened, read and written. The command ends with success or a reason, and
/// the array goes on. Once the drive answers it can be added.
#[test]
fn add_and_replace_of_a_drive_that_hangs_stop_nobody() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let images = place.images(4, 16 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "6", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&[&drives[..], &["--lanes", "2"]].concat());
    hanging.signal("-STOP");
    let refused = |command: &[&str]| goes_on(&place, &serve, || place.run(command).refused(1, &[&slow, "does not answer"]));
    refused(&["add", "tank", &slow, "--force"]);
    refused(&["replace", "tank", drives[0], &slow, "--force"]);
    hanging.signal("-CONT");
    let mut ended_well = 0;
    for delay_ms in [5, 15, 40, 90] {
        let ran = goes_on(&place, &serve, || {
            std::thread::scope(|scope| {
                let command = scope.spawn(|| place.run(&["add", "tank", &slow, "--force"]));
                std::thread::sleep(Duration::from_millis(delay_ms));
                hanging.signal("-STOP");
                std::thread::sleep(Duration::from_secs(3));
                hanging.signal("-CONT");
                command.join().expect("it ends")
            })
        });
        assert!(ran.code == 0 || ran.stderr.contains("in use"), "{delay_ms} ms: {ran:?}");
        if ran.code == 0 {
            ended_well += 1;
            place.ok(&["remove", "tank", &slow]);
        }
    }
    // An attempt that timed out may hold the drive for a moment.
    assert!(ended_well > 0, "it answers again, and joins");
    // A member that hangs is replaced. The copy waits for it, and goes on without it once it has failed.
    place.ok(&["add", "tank", &slow, "--force"]);
    place.ok(&["fail", "tank", drives[3], "--force"]);
    place.settled("tank");
    place.ok(&["remove", "tank", drives[3]]);
    write(&mut serve.client("tank"), 5);
    hanging.signal("-STOP");
    for command in
        [&["replace", "tank", &slow, drives[3], "--force"][..], &["fail", "tank", &slow, "--force"], &["remove", "tank", &slow]]
    {
        let since = Instant::now();
        place.ok(command);
        assert!(since.elapsed() < Duration::from_secs(5) && place.status("tank")["silent_s"].is_null(), "{command:?}");
    }
    place.settled("tank");
    holds(&mut serve.client("tank"), 5);
    hanging.signal("-CONT");
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(!log.contains("has stood still"), "{log}");
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// A command that looks at all drives, or at all loop devices, names the one that does not answer, goes on, and ends.
#[test]
fn commands_go_on_beside_a_drive_that_hangs() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let Some(over) = LoopOver::new(&hanging.file()) else { return };
    let file = hanging.file().to_str().expect("a plain path").to_owned();
    let images = place.images(3, 24 << 20);
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    hanging.signal("-STOP");
    // The kernel asks the server about files again after a second.
    std::thread::sleep(Duration::from_millis(1500));
    let since = Instant::now();
    place.ok(&["create", "tank", "--level", "1", images[0], images[1]]);
    let bound = Duration::from_secs(10);
    assert!(since.elapsed() < bound, "nothing was asked of the drive that hangs, but its path: {:?}", since.elapsed());
    let slow = [&*file, &*over.0];
    let ran = place.run(&["examine", images[0], slow[0], slow[1]]);
    ran.refused(1, &[slow[0], slow[1], "does not answer: it was given", "does not answer: it is a loop device over"]);
    assert!(ran.stdout.contains("tank"), "the other drive is shown: {ran:?}");
    place.run(&["create", "late", "--level", "1", images[2], slow[0]]).refused(1, &[slow[0], "does not answer"]);
    place.run(&["assemble", images[0], images[1], slow[1]]).refused(1, &[slow[1], "does not answer"]);
    place.run(&["serve", images[0], images[1], slow[1]]).refused(1, &[slow[1], "does not answer"]);
    let ran = place.run(&["assemble", "--scan"]);
    assert!(ran.stdout.contains(&over.0) && ran.stdout.contains("does not answer"), "{ran:?}");
    // Loop devices of other tests may hold a member of a "tank".
    let ran = place.run(&["serve", "lake"]);
    ran.refused(1, &["no array \"lake\"", &over.0, "does not answer"]);
    let serve = place.serve(&images[..2]);
    write(&mut serve.client("tank"), 1);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    hanging.signal("-CONT");
    drop(over);
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

#[test]
fn stop_goes_on_without_a_drive_that_hangs() {
    story("5", 3, "2", false, false);
}

/// The monitor looks at all block devices every five minutes, and left a thread behind each time, one for each loop device over
/// such a file. The test is a process of its own, since threads of other tests wait as well.
#[test]
fn looks_at_a_loop_device_over_a_file_that_hangs_leave_one_thread() {
    const ALONE: &str = "STRIA_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().expect("this program"));
        alone.args(["--exact", "looks_at_a_loop_device_over_a_file_that_hangs_leave_one_thread", "--nocapture"]).env(ALONE, "1");
        let output = alone.output().expect("it starts");
        let [printed, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}{errors}");
        return;
    }
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let Some(over) = LoopOver::new(&hanging.file()) else { return };
    hanging.signal("-STOP");
    let waiting = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
        threads
            .filter(|thread| std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name == "stria may wait\n"))
            .count()
    };
    // The kernel knows the file's state for a second.
    std::thread::sleep(Duration::from_secs(2));
    let before = waiting();
    let devices = (0..10).map(|_| stria_host::block_devices()).collect::<Vec<_>>();
    assert!(
        devices.iter().all(|devices| devices.contains(&Path::new(&over.0).to_owned())),
        "its file may be anything: {devices:?}"
    );
    // Files under loop devices of other tests may hang as well.
    let mut loops = devices.concat();
    loops.retain(|device| device.to_string_lossy().starts_with("/dev/loop"));
    loops.sort();
    loops.dedup();
    let loops = loops.len();
    // A thread that has its answer is on its way out. One that waits stays.
    let left = || waiting() - before;
    support::guest::wait_until("the end of threads that need not wait", || left() <= loops);
    assert!(left() >= 1, "the file hangs");
    hanging.signal("-CONT");
    drop(over);
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// Before that, the array was stopped without the drive, and did not start again for it.
#[test]
fn a_pause_goes_on_without_a_drive_that_hangs() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let images = place.images(2, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let drives = [&*images[0], &images[1], &slow];
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    write(&mut serve.client("tank"), 1);
    let writer = hang_under_a_write(&hanging, &place, &serve, &slow);
    place.ok(&["set", "tank", "--read-only", "on", "--force"]);
    assert_eq!(place.status("tank")["health"], "degraded");
    holds(&mut serve.client("tank"), 1);
    let _ = writer.recv_timeout(PATIENCE);
    hanging.signal("-CONT");
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains("the array stops without it") && log.contains("starts without this drive"), "{log}");
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// The array can do nothing without the drive. `stop` says so and ends.
#[test]
fn stop_of_an_array_without_redundancy_does_not_wait_for_ever() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let images = place.images(1, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    place.ok(&["create", "tank", "--level", "0", &images[0], &slow]);
    let serve = place.serve(&[&images[0], &slow]);
    write(&mut serve.client("tank"), 1);
    hanging.signal("-STOP");
    let mut client = serve.client("tank");
    let writes: Vec<(u64, Vec<u8>)> = (0..16).map(|index| (index * 65536, vec![2; 65536])).collect();
    client.send_writes(&writes).expect("they are taken");
    place.run(&["stop", "tank", "--force"]).refused(1, &[&slow, "has not answered for", "as after a power cut"]);
    hanging.signal("-CONT");
    assert!(!serve.ended().0.success());
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// Before, it took 21 s: clients had ten seconds for their last requests, and then the array as many for the drive.
#[test]
fn a_forced_stop_soon_goes_on_without_a_drive_that_hangs() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let images = place.images(2, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let drives = [&*images[0], &images[1], &slow];
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    write(&mut serve.client("tank"), 1);
    let writer = hang_under_a_write(&hanging, &place, &serve, &slow);
    let since = Instant::now();
    place.ok(&["stop", "tank", "--force"]);
    let took = since.elapsed();
    assert!(took < Duration::from_secs(9), "it took {took:?}");
    writer.recv_timeout(PATIENCE).expect("its session has ended");
    hanging.signal("-CONT");
    let log = serve.ended_well();
    assert!(log.contains("the array stops without it"), "{log}");
    // It was clean without the drive.
    let serve = place.serve(&drives[..2]);
    let status = place.status("tank");
    assert!(status["health"] == "degraded" && status["resync_pending"] == false, "{status:#}");
    holds(&mut serve.client("tank"), 1);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

#[test]
fn a_stop_says_which_drive_it_waits_for() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let image = place.images(1, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    let drives = [&*image[0], &slow];
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    write(&mut serve.client("tank"), 1);
    hanging.signal("-STOP");
    let ran = place.run(&["stop", "tank"]);
    let told = format!("the stop waits for {slow}, which has not answered for");
    assert!(ran.code == 0 && ran.stderr.contains(&told), "{ran:?}");
    hanging.signal("-CONT");
    let log = serve.ended_well();
    assert!(log.contains(&told) && log.contains("the array stops without it"), "{log}");
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// The stop ended with an error: "no redundancy is left", and "the next start resyncs". Neither was true.
#[test]
fn stop_of_a_read_only_array_does_without_a_drive_that_hangs() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let images = place.images(1, 24 << 20);
    let slow = hanging.file().to_str().expect("a plain path").to_owned();
    place.ok(&["create", "tank", "--level", "0", &images[0], &slow]);
    let serve = place.serve(&[&images[0], &slow, "--read-only"]);
    hanging.signal("-STOP");
    let mut client = serve.client("tank");
    let reader = beside(move || {
        let _ = client.read(0, 1 << 20);
    });
    place.wait_for("tank", "the drive to be seen to hang", |status| {
        members(status).iter().any(|member| member["path"] == *slow && member["waiting_ms"].as_u64().unwrap_or(0) > 500)
    });
    place.ok(&["stop", "tank", "--force"]);
    reader.recv_timeout(PATIENCE).expect("its session has ended");
    hanging.signal("-CONT");
    let log = serve.ended_well();
    assert!(log.contains("the array stops without waiting for it: the array is read-only, so nothing is lost"), "{log}");
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// A serve that is stopped as a whole still answers `status` while arrays stop.
#[test]
fn status_tells_of_a_serve_that_does_not_answer() {
    let place = Place::new();
    let image = place.images(1, 16 << 20);
    place.ok(&["create", "tank", "--level", "jbod", &image[0]]);
    let serve = place.serve(&[&image[0]]);
    serve.signal("-STOP");
    let ran = place.run(&["status"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("does not answer") && ran.stdout.contains("(pid "), "{ran:?}");
    let ran = place.run(&["--json", "status"]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert!(told[0]["pid"].as_u64().is_some() && told[0]["error"].is_string(), "{told:#}");
    let asked = Instant::now();
    place.run(&["status", "tank"]).refused(1, &["does not answer"]);
    assert!(asked.elapsed() < Duration::from_secs(4), "status says so within 2 s, and the system may be busy");
    // Any other command waits for a serve that is only slow.
    std::thread::scope(|scope| {
        let command = scope.spawn(|| place.ok(&["trim", "tank", "--force"]));
        std::thread::sleep(Duration::from_secs(4));
        assert!(!command.is_finished(), "it waits");
        serve.signal("-CONT");
    });
    place.wait_for("tank", "an answer", |status| status["name"] == "tank");
    place.ok(&["stop"]);
    serve.ended_well();
}

/// Before, these commands passed over a server that did not answer: "no alarm is open", and `stop` stopped the only other one.
#[test]
fn commands_for_all_servers_tell_of_one_that_does_not_answer() {
    let (one, other) = (Place::new(), Place::new());
    let folder = one.path("run").join("stria");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a folder of ours");
    let start = |place: &Place, name: &str| {
        let (image, socket) = (place.images(1, 16 << 20).remove(0), folder.join(format!("{name}.sock")));
        place.ok(&["create", name, "--level", "jbod", &image]);
        place.serve(&[&image, "--socket", socket.to_str().expect("a plain path"), "--alarm-exec", "/bin/true"])
    };
    let (well, stuck) = (start(&one, "tank"), start(&other, "lake"));
    let run = |arguments: &[&str]| {
        let mut command = one.command(arguments);
        let ran =
            command.env_remove("STRIA_SOCKET").env("XDG_RUNTIME_DIR", one.path("run")).output().expect("the program starts");
        let text = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
        (ran.status.code(), text)
    };
    assert_eq!(run(&["alarm"]), (Some(0), ["no alarm is open\n".to_owned(), String::new()]));
    stuck.signal("-STOP");
    let pid = format!("(pid {})", stuck.pid());
    for arguments in [&["health"][..], &["alarm"], &["alarm", "test"]] {
        let (code, [told, _]) = run(arguments);
        assert!(code == Some(1) && told.contains(&pid) && told.contains("does not answer"), "{arguments:?}: {code:?} {told}");
        assert!(!told.contains("no alarm"), "{told}");
        let (code, [told, _]) = run(&[arguments, &["--json"]].concat());
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let silent = told.get("silent").unwrap_or(&told).as_array().expect("a list").last().expect("a server");
        assert!(code == Some(1) && silent["pid"] == stuck.pid(), "{arguments:?}: {told:#}");
    }
    let (code, [_, error]) = run(&["stop"]);
    assert!(code == Some(1) && error.contains(&pid) && error.contains("--socket"), "{code:?} {error}");
    assert_eq!(run(&["status", "tank"]).0, Some(0), "it was not stopped");
    assert_eq!(run(&["stop", "tank"]).0, Some(0));
    well.ended_well();
    stuck.signal("-CONT");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(run(&["stop", "lake"]).0, Some(0));
    stuck.ended_well();
}

/// A sweep with a very low speed bound stops at once, by command and by signal, and shows its real speed.
#[test]
fn stop_waits_for_no_speed_bound() {
    for by_signal in [false, true] {
        let place = Place::new();
        let images = place.images(3, 64 << 20);
        let drives: Vec<&str> = images.iter().map(String::as_str).collect();
        place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
        let serve = place.serve(&drives);
        place.run(&["speed", "tank", "--min", "2M", "--max", "1M"]).refused(2, &["--min", "above"]);
        place.ok(&["speed", "tank", "--max", "1"]);
        place.run(&["speed", "tank", "--min", "1M"]).refused(2, &["above"]);
        place.ok(&["scrub", "tank"]);
        let slow = place
            .wait_for("tank", "the sweep to crawl", |status| status["sweep"]["done_bytes"].as_u64().is_some_and(|done| done > 0));
        assert_eq!(slow["sweep"]["kind"], "scrub");
        place.ok(&["speed", "tank", "--max", "1000"]);
        place.ok(&["scrub", "tank", "--cancel"]);
        place.ok(&["scrub", "tank"]);
        if by_signal {
            serve.signal("-TERM");
        } else {
            place.ok(&["stop", "tank"]);
        }
        let log = serve.ended_well();
        assert!(log.contains("` resumes it"), "{log}");
    }
}

/// A drive that does not answer while the daemon starts is waited for, and nobody need say `stria start`: an array that needs it
/// starts when it answers, and one that started without it takes it back.
#[test]
fn a_drive_that_is_silent_at_the_start_joins_when_it_answers() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let Some(device) = LoopOver::new(&hanging.file()) else { return };
    place.is_a_machine();
    place.configure("degraded-after = \"1s\"");
    place.configure(&format!("search = [{:?}]", device.0));
    let images = place.images(2, 24 << 20);
    for (level, drives, is_needed) in
        [("0", vec![&*images[0], &*device.0], true), ("5", vec![&*images[0], &*images[1], &*device.0], false)]
    {
        place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], &drives[..]].concat());
        place.ok(&[&["adopt"], &drives[..]].concat());
        hanging.signal("-STOP");
        // The kernel knows the file's state for a second.
        std::thread::sleep(Duration::from_secs(2));
        let daemon = Daemon::start(&place);
        let list = || place.run(&["--json", "status"]).stdout;
        if is_needed {
            assert!(place.run(&["status"]).stdout.contains("NOT SERVED"), "{}", list());
        } else {
            let end = Instant::now() + PATIENCE;
            while !list().contains("DEGRADED") {
                assert!(Instant::now() < end, "it does not start without the drive: {}", list());
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        hanging.signal("-CONT");
        let end = Instant::now() + PATIENCE;
        while !list().contains("\"health\": \"optimal\"") && !list().contains("\"health\":\"optimal\"") {
            assert!(Instant::now() < end, "level {level}: {}\n{}", list(), place.ok(&["events"]));
            std::thread::sleep(Duration::from_millis(200));
        }
        daemon.signal("-TERM");
        let log = daemon.ended_well();
        assert!(log.contains(&format!("{} does not answer", device.0)), "{log}");
        place.ok(&["release", "tank"]);
        place.ok(&[&["destroy", "--force"], &drives[..]].concat());
    }
    drop(device);
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// Waits until the status of the daemon's arrays has these words.
fn shows(place: &Place, words: &str) {
    let end = Instant::now() + PATIENCE;
    while !place.run(&["--json", "status"]).stdout.contains(words) {
        let list = place.run(&["--json", "status"]).stdout;
        assert!(Instant::now() < end, "\"{words}\": {list}\n{}", place.ok(&["events"]));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A drive that has begun to hang since the daemon looked at all drives: an array waits for it no longer than for one that is
/// missing, and another drive returns meanwhile. Before, the array waited for its answer without a limit, and the drive that
/// returned stayed out.
#[test]
fn an_array_does_without_a_drive_that_falls_silent() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let Some(device) = LoopOver::new(&hanging.file()) else { return };
    place.is_a_machine();
    place.configure("degraded-after = \"10s\"");
    place.configure(&format!("search = [{:?}]", device.0));
    let images = place.images(3, 24 << 20);
    let drives = [&*images[0], &*images[1], &*images[2], &*device.0];
    place.ok(&[&["create", "tank", "--level", "6", "--assume-clean"], &drives[..]].concat());
    place.ok(&[&["adopt"], &drives[..]].concat());
    let (away, away_too) = (place.path("away"), place.path("away-too"));
    std::fs::rename(&images[1], &away).expect("unplugged");
    std::fs::rename(&images[2], &away_too).expect("unplugged");
    let daemon = Daemon::start(&place);
    shows(&place, "waiting");
    hanging.signal("-STOP");
    // The kernel knows the file's state for a second.
    std::thread::sleep(Duration::from_secs(2));
    std::fs::rename(&away, &images[1]).expect("plugged in");
    place.ok(&["incremental", &images[1], "--plugged-in"]);
    shows(&place, "DEGRADED");
    std::fs::rename(&away_too, &images[2]).expect("plugged in");
    place.ok(&["incremental", &images[2], "--plugged-in"]);
    let has_it = format!("\"{}\"", images[2]);
    shows(&place, &has_it);
    hanging.signal("-CONT");
    place.wait_for("tank", "the drive that answers", |status| status["health"] == "optimal");
    daemon.signal("-TERM");
    daemon.ended_well();
    drop(device);
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// Before, each look at the pool waited 20 s for the drive, several times for each event.
#[test]
fn a_drive_of_the_pool_that_hangs_keeps_no_other_from_its_array() {
    let (under, place) = (Place::new(), Place::new());
    let Some((hanging, below)) = hanging(&under, &place) else { return };
    let Some(device) = LoopOver::new(&hanging.file()) else { return };
    place.is_a_machine();
    let images = place.images(3, 24 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    place.ok(&["adopt", &images[0], &images[1]]);
    place.ok(&["spare", "add", &device.0, &images[2]]);
    hanging.signal("-STOP");
    std::thread::sleep(Duration::from_secs(2));
    let daemon = Daemon::start(&place);
    place.ok(&["fail", "tank", &images[0], "--force"]);
    place.wait_for("tank", "the spare that answers", |status| status["health"] == "optimal");
    // It is known to be silent by now, so nobody waits for it any more.
    let begun = Instant::now();
    for _ in 0..3 {
        place.ok(&["reload"]);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "the keeper waits for a drive that is known to be silent");
    hanging.signal("-CONT");
    daemon.signal("-TERM");
    let log = daemon.ended_well();
    assert!(log.contains(&format!("{} does not answer", device.0)), "{log}");
    drop(device);
    drop(hanging);
    under.ok(&["stop", "--force"]);
    below.ended_well();
}

/// A thread of another process that a tracer holds, as a lane that waits in the kernel. It goes on when this is dropped.
struct Held(std::process::Child);

impl Held {
    /// Holds the first lane of an array that `pid` serves.
    fn lane(pid: u32, array: &str) -> Option<Self> {
        let is_lane = |thread: &std::fs::DirEntry| {
            std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim_end() == array)
        };
        let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let lane = threads().find(is_lane).expect("a lane has the name of its array").path();
        // sys/ptrace.h: PTRACE_SEIZE and PTRACE_INTERRUPT; the tracer must live.
        let hold = r#"my $thread = 0 + shift; exit 1 if syscall(101, 0x4206, $thread, 0, 0) || syscall(101, 0x4207, $thread, 0, 0); sleep 600"#;
        let id = lane.file_name()?.to_str()?.to_owned();
        let mut held = Self(support::tool("perl", &["-e", hold, &id])?);
        let end = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(lane.join("status")).is_ok_and(|status| status.contains("State:\tt")) {
            if held.0.try_wait().expect("it is ours").is_some() {
                may_skip("no thread may be traced", "run as root, with CAP_SYS_PTRACE");
                return None;
            }
            assert!(Instant::now() < end, "the lane is not held");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The stop of one array waited for ever for a lane that stood still. Only the stop of all arrays gave it up.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_stop_by_name_ends_beside_a_lane_that_stands_still() {
    let place = Place::new();
    let images = place.images(3, 24 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    write(&mut serve.client("tank"), 1);
    let Some(held) = Held::lane(serve.pid(), "tank") else { return };
    let since = Instant::now();
    let ran = place.run(&["stop", "tank", "--force"]);
    assert!(since.elapsed() < Duration::from_secs(50), "it took {:?}", since.elapsed());
    ran.refused(1, &["\"tank\" did not stop cleanly", "a lane has stood still for", "the next start resyncs"]);
    // The process ends although its lane is held; its tracer keeps it as a zombie.
    let end = Instant::now() + PATIENCE;
    let status = format!("/proc/{}/status", serve.pid());
    while !std::fs::read_to_string(&status).is_ok_and(|status| status.contains("State:\tZ")) {
        assert!(Instant::now() < end, "the process waits for its lane");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(held);
    assert!(!serve.ended().0.success());
    let serve = place.serve(&drives);
    holds(&mut serve.client("tank"), 1);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
}

/// In a daemon the stop ends later, by itself.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_daemon_stops_an_array_once_its_lane_answers() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(2, 24 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    place.ok(&[&["adopt"], &drives[..]].concat());
    let daemon = Daemon::start(&place);
    let Some(held) = Held::lane(daemon.pid(), "tank") else { return };
    place.run(&["stop", "tank", "--force"]).refused(1, &["\"tank\" has not stopped", "`systemctl restart stria`"]);
    drop(held);
    let end = Instant::now() + PATIENCE;
    while !place.run(&["events"]).stdout.contains("\"tank\" has stopped: clean") {
        assert!(Instant::now() < end, "{:?}", place.run(&["events"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    place.ok(&["start", "tank"]);
    daemon.signal("-TERM");
    daemon.ended_well();
}
