//! Goal: random reads, writes, trims and zeroes leave exactly the bytes that a plain disk would hold, on every level, while a
//! member fails and a spare is filled.
//! Method: `tests/fsx/fsx` keeps a shadow copy. It drives libnbd, and the mount path of the README (nbdfuse and a loop device;
//! needs root), where a punched hole arrives as a trim.

mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::disk::Disk;
use support::{Place, Serve, may_skip, run_tool};

/// Levels with the count of members, and options of `create`.
const ARRAYS: [(&str, usize, &[&str]); 8] = [
    ("5", 3, &["--strip", "64K"]),
    ("5", 4, &["--strip", "4K", "--integrity"]),
    ("6", 4, &["--strip", "16K"]),
    ("6", 5, &["--strip", "32K", "--integrity"]),
    ("4", 3, &["--strip", "128K"]),
    ("50", 6, &["--spans", "2", "--strip", "16K"]),
    ("10", 4, &["--strip", "64K"]),
    ("1", 2, &["--integrity"]),
];

fn array(place: &Place, level: &str, members: usize, options: &[&str]) -> (Vec<String>, Serve) {
    let images = place.images(members + 1, 24 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    let spare: &[&str] = if matches!(level, "0" | "jbod") { &[] } else { &["--spare", drives[members]] };
    place.ok(&[&["create", "tank", "--level", level], options, spare, &drives[..members]].concat());
    let used = if spare.is_empty() { members } else { members + 1 };
    let serve = place.serve(&drives[..used]);
    (images, serve)
}

/// `None`: python or libnbd is missing, and the environment permits that.
fn start(arguments: &[&str]) -> Option<Child> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fsx/fsx");
    // Distributions build libnbd's module for their own python.
    let has = Command::new("/usr/bin/python3").args(["-c", "import nbd"]).status().is_ok_and(|status| status.success());
    if !has {
        may_skip("python has no libnbd", "run: apt-get install python3-libnbd");
        return None;
    }
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command.spawn().expect("python starts"))
}

fn ends_well(mut fsx: Child, what: &str) {
    drop(fsx.stdin.take());
    let mut said = String::new();
    let mut stderr = fsx.stderr.take().expect("a pipe");
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    fsx.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let status = fsx.wait().expect("it ends");
    let errors = errors.join().expect("it reads").expect("text");
    assert!(status.success(), "{what}: {said}{errors}");
}

/// Runs until a member has failed and a spare has taken its slot. Then another member fails, and everything is read without it.
fn lives_through_a_rebuild(place: &Place, images: &[String], serve: Serve, arguments: &[&str], what: &str) {
    place.settled("tank");
    let Some(fsx) = start(&[arguments, &["--while-open", "--also", serve.uri("tank")]].concat()) else { return };
    place.ok(&["fail", "tank", &images[1], "-y"]);
    place.settled("tank");
    place.ok(&["fail", "tank", &images[0], "-y"]);
    ends_well(fsx, what);
    place.calls_nothing_wrong();
}

#[test]
fn levels_hold_what_was_written_and_zeros_where_it_was_trimmed() {
    for (seed, (level, members, options)) in (1..).zip(ARRAYS) {
        let place = Place::new();
        let (images, serve) = array(&place, level, members, options);
        let (seed, uri, what) = (seed.to_string(), serve.uri("tank").to_owned(), format!("RAID {level} {options:?}"));
        let arguments = [&*uri, "--seed", &seed, "--count", "300", "--block", "512"];
        lives_through_a_rebuild(&place, &images, serve, &arguments, &what);
    }
}

#[test]
fn levels_without_redundancy_do_too() {
    for (seed, (level, options)) in (1..).zip([("0", &["--strip", "16K"][..]), ("0", &["--integrity"]), ("jbod", &[])]) {
        let place = Place::new();
        let (_, serve) = array(&place, level, 2, options);
        let seed: String = i32::to_string(&seed);
        let Some(fsx) = start(&[serve.uri("tank"), "--seed", &seed, "--count", "300", "--block", "512"]) else { return };
        ends_well(fsx, &format!("RAID {level} {options:?}"));
    }
}

#[test]
fn several_lanes_do_too() {
    let place = Place::new();
    let images = place.images(5, 24 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[
        "create", "tank", "--level", "5", "--strip", "32K", "--spare", drives[4], drives[0], drives[1], drives[2], drives[3],
    ]);
    let serve = place.serve(&[&drives[..], &["--lanes", "3"]].concat());
    let uri = serve.uri("tank").to_owned();
    lives_through_a_rebuild(&place, &images, serve, &[&uri, "--seed", "20", "--count", "300"], "3 lanes");
}

/// A hole that is punched through the mount path arrives as a trim, and the kernel expects zeros there.
#[test]
fn holes_punched_through_the_mount_path_read_as_zeros() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return may_skip("a loop device cannot be made here", "run as root with /dev/fuse");
    }
    for (seed, (level, members, options)) in (30..).zip([ARRAYS[0], ARRAYS[3], ARRAYS[5]]) {
        let place = Place::new();
        let (images, serve) = array(&place, level, members, options);
        let Some(disk) = Disk::attach(&place, serve.uri("tank")) else { return };
        // A file system asks for whole pages.
        let seed: String = i32::to_string(&seed);
        let arguments = [&*disk.loop_device, "--seed", &seed, "--count", "200", "--block", "4096"];
        lives_through_a_rebuild(&place, &images, serve, &arguments, &format!("RAID {level} {options:?}, mounted"));
        drop(disk);
    }
}

/// Whole stripes that were trimmed take no space, which clients can ask for, and read as zeros like the rest.
#[test]
fn what_was_trimmed_is_told_as_a_hole_and_gives_its_room_back() {
    let place = Place::new();
    let (images, serve) = array(&place, "5", 4, &["--strip", "64K"]);
    place.settled("tank");
    let taken = || -> u64 {
        let blocks = |path: &String| std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).expect("it is there"));
        images.iter().map(blocks).sum()
    };
    let mut client = serve.client("tank");
    client.send_writes(&[(0, vec![7; 12 << 20])]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    assert!(client.flush().expect("an answer"));
    let before = taken();
    place.ok(&["trim", "tank", "--range", "100K:8M", "--force"]);
    // Four members, three of them data.
    assert!(taken() + (7 << 20) / 512 * 4 / 3 < before, "room is given back: {before} sectors before, {} now", taken());
    let Some(map) = run_tool("nbdinfo", &["--map", serve.uri("tank")]) else { return };
    let zeros: u64 = map
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields[2] == "3" && fields[0].parse::<u64>().expect("a place") < 8 << 20)
        .map(|fields| fields[1].parse::<u64>().expect("a length"))
        .sum();
    assert!(zeros > 7 << 20, "holes are told:\n{map}");
    assert!(client.read(100 << 10, 8 << 20).expect("an answer") == vec![0; 8 << 20]);
    assert!(client.read(0, 100 << 10).expect("an answer") == vec![7; 100 << 10]);
}
