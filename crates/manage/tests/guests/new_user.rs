//! Goal: the first days of a new user with an array, on a machine whose kernel has the drivers. The array is created, attached,
//! formatted and mounted; a drive fails, the server is killed, upgraded and stopped, and the machine boots again.
//! Method: this program runs again in two boots of a guest with Linux 6.12, two processors and NVMe drives (tests/nvme), whose
//! blocks are of 4 KiB and whose names change from one boot to the next. On the first day the array is served by NBD and has
//! ext4. On the second day it is served by ublk, on two lanes and so with two queues, whose data the driver copies, and gets XFS.
//! fsx, fio and the file systems' own checks judge the bytes. Clients of NBD need no guest: QEMU's and libnbd's own tools judge
//! the export.

use crate::support::guest::{self, Load, RULES, fio, is_named, ok, wait_until, watchers};
use crate::support::{Place, Serve, noise, run_tool, same, tool};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use stria_testkit::nvme;

const DRIVES: [&str; 5] = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1"];
const LINUX_6_12: nvme::Kernel = nvme::Kernel { version: "6.12", modules: &["nbd", "ublk_drv", "xfs"] };
const STRIA: &str = env!("CARGO_BIN_EXE_stria");
const PROGRAMS: [&str; 12] = [
    STRIA,
    "/usr/bin/lsblk",
    "/usr/sbin/blkid",
    "/usr/bin/fio",
    "/usr/sbin/mke2fs",
    "/usr/sbin/e2fsck",
    "/usr/sbin/mkfs.xfs",
    "/usr/sbin/xfs_repair",
    "/usr/sbin/fstrim",
    "/usr/sbin/blkdiscard",
    "/usr/bin/udevadm",
    RULES,
];
/// Its place among the programs, `$P13` in the guest, where the home folder is another.
const FSX: usize = PROGRAMS.len() + 1;
const LINK: &str = "/dev/stria/tank";
const MOUNTED: &str = "/mnt/tank";
/// A file that stays from one day to the next.
const LETTERS: &str = "/mnt/tank/letters";

/// The operations of fsx, by weight.
const FSX_OPERATIONS: &str = "flen = 4194304
[opsize]
max = 131072
[weights]
read = 10
write = 10
mapread = 5
mapwrite = 5
truncate = 2
close_open = 2
fsync = 3
fdatasync = 3
posix_fallocate = 2
punch_hole = 5
sendfile = 2
posix_fadvise = 5
copy_file_range = 3
";

/// fsx on a file of the mounted file system, round by round, with seeds from this one on.
fn fsx(first_seed: u64) -> Load {
    let program = std::env::var(format!("P{FSX}")).expect("nvme-guest names what it took along");
    fs::write("/tmp/fsx.toml", FSX_OPERATIONS).expect("a file");
    let mut seed = first_seed;
    Load::of(move || {
        let file = format!("{MOUNTED}/fsx");
        let arguments = ["-N", "150", "-f", "/tmp/fsx.toml", "-P", "/tmp", "-S", &seed.to_string(), &file];
        let output = Command::new(&program).args(arguments).output().expect("fsx starts");
        assert!(output.status.success(), "fsx with seed {seed}: {output:?}");
        seed += 1;
        Duration::ZERO
    })
}

fn start() -> (guest::KernelLog, Place) {
    let log = guest::KernelLog::start();
    guest::start_udev(PROGRAMS.len());
    fs::create_dir_all(MOUNTED).expect("a folder");
    (log, Place::new())
}

/// The tools that people ask say what the device is, and what lies on it.
fn is_recognized(place: &Place, device: &str, file_system: &str) {
    let uuid = place.status("tank")["uuid"].as_str().expect("text").replace(':', "");
    let ask = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("it starts");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    let columns = "MODEL,SERIAL,FSTYPE,LABEL,RO,ROTA";
    let expected = format!("Stria_tank {uuid} {file_system} goods 0 0");
    // udev looks at the device again when the program that wrote to it has closed it.
    wait_until(&expected, || {
        let said = ask("/usr/bin/lsblk", &["-dno", columns, device]);
        said.split_whitespace().eq(expected.split(' '))
    });
    let value = |key: &str| ask("/usr/sbin/blkid", &["-p", "-o", "value", "-s", key, LINK]);
    assert_eq!((value("TYPE").as_str(), value("LABEL").as_str()), (file_system, "goods"));
    is_named(&format!("/dev/disk/by-uuid/{}", value("UUID")), device);
    is_named("/dev/disk/by-label/goods", device);
    is_named(&format!("/dev/disk/by-id/stria-{uuid}"), device);
    let properties = ask("/usr/bin/udevadm", &["info", "--query=property", "--name", LINK]);
    for line in [&format!("ID_SERIAL=Stria_tank_{uuid}"), "STRIA_NAME=tank"] {
        assert!(properties.lines().any(|property| property == line), "no {line} in\n{properties}");
    }
}

fn mount(file_system: &str) {
    ok("mount", &["-t", file_system, LINK, MOUNTED]);
}

fn letters(at: &str) {
    noise(Path::new(at), 8 << 20, 4711);
}

/// Waits until more has been written to the array's present server without an error. On a busy machine a server may take longer
/// to answer than `status` waits.
fn goes_on(place: &Place) {
    let written = || {
        let ran = place.run(&["--json", "status", "tank"]);
        if ran.code == 1 {
            return None;
        }
        let status: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let clients = status[0]["clients"].as_array().expect("a list");
        assert!(clients.iter().all(|client| client["errors"] == 0), "{status:#}");
        Some(clients.iter().filter_map(|client| client["written_bytes"].as_u64()).sum::<u64>())
    };
    let mut before = None;
    wait_until("the load", || match before {
        None => {
            before = written();
            false
        }
        Some(before) => written().is_some_and(|now| now > before + (128 << 10)),
    });
}

/// Has the kernel log what waits in it, and which requests of the device are under way, if a test ends here by a panic.
struct KernelWaits;

impl Drop for KernelWaits {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Blocked tasks, and the threads that run.
            for letter in ["w", "l"] {
                let _ = fs::write("/proc/sysrq-trigger", letter);
            }
            let _ = std::process::Command::new("mount").args(["-t", "debugfs", "none", "/sys/kernel/debug"]).status();
            for queue in fs::read_dir("/sys/kernel/debug/block/ublkb0").into_iter().flatten().flatten() {
                let busy = queue.path().join("busy");
                eprintln!("{}: {}", busy.display(), fs::read_to_string(&busy).unwrap_or_default());
            }
        }
    }
}

/// Replaces the program `stria`, as the upgrade of a package does; the server is ended and started anew.
fn upgrade(place: &Place, serve: Serve, arguments: &[&str]) -> Serve {
    let new = format!("{STRIA}.new");
    fs::copy(STRIA, &new).expect("a copy");
    // Bytes behind the end of a program change nothing but the file.
    fs::File::options().append(true).open(&new).and_then(|mut file| file.write_all(b"upgraded")).expect("it writes");
    fs::rename(&new, STRIA).expect("another file in its place");
    serve.signal("-TERM");
    serve.ended_well();
    let serve = {
        // What holds a new server up is in the kernel: the guest's log has it, and is shown if the test fails.
        let _held_up = KernelWaits;
        place.serve(arguments)
    };
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).expect("a process").display().to_string();
    assert_eq!(program(&serve.pid().to_string()), STRIA);
    assert!(watchers().iter().all(|watcher| program(watcher).ends_with("(deleted)")), "the device keeps its watcher");
    serve
}

/// The first boot of the test below; not a test by itself.
#[test]
fn first_day() {
    if !nvme::is_guest() {
        return;
    }
    let (_log, place) = start();
    // Larger drives have space for several lanes' logs; a part of each is enough for the file systems.
    let options = ["--level", "5", "--assume-clean", "--size", "112M", "--spare", DRIVES[4]];
    place.ok(&[&["create", "tank"], &options[..], &DRIVES[..4]].concat());
    let serve = place.serve(&DRIVES);
    assert_eq!(place.ok(&["attach", "tank"]).trim(), "/dev/nbd0");
    assert_eq!(fs::canonicalize(LINK).expect("`attach` waits for udev"), Path::new("/dev/nbd0"));
    for (what, value) in [("logical_block_size", "4096"), ("physical_block_size", "4096"), ("write_cache", "write back")] {
        assert_eq!(guest::queue("/dev/nbd0", what), value, "{what}");
    }
    ok("/usr/sbin/mke2fs", &["-q", "-t", "ext4", "-L", "goods", LINK]);
    is_recognized(&place, "/dev/nbd0", "ext4");
    mount("ext4");
    letters(LETTERS);
    let load = fsx(1);
    goes_on(&place);
    place.ok(&["fail", "tank", "1", "--force"]);
    goes_on(&place);
    serve.kill();
    let serve = place.serve(&["tank"]);
    goes_on(&place);
    let serve = upgrade(&place, serve, &DRIVES);
    goes_on(&place);
    load.stop();
    place.settled("tank");
    ok("/usr/sbin/fstrim", &[MOUNTED]);
    ok("umount", &[MOUNTED]);
    ok("/usr/sbin/e2fsck", &["-fn", LINK]);
    place.run(&["stop", "tank"]).refused(4, &["/dev/nbd0", "stria detach"]);
    place.ok(&["detach", "tank"]);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

/// The second boot of the test below; not a test by itself.
#[test]
fn second_day() {
    if !nvme::is_guest() {
        return;
    }
    let (_log, place) = start();
    let serve_with = |options: &[&str]| place.serve(&[&DRIVES[..], &["--ublk"], options].concat());
    let serve = serve_with(&["--lanes", "2", "--ublk-copy", "driver"]);
    assert_eq!(serve.devices, [("tank".to_owned(), "/dev/ublkb0".to_owned())]);
    let is_copied_by_the_driver = || place.ok(&["ublk"]).contains(", data copied by the driver");
    assert!(is_copied_by_the_driver());
    is_named(LINK, "/dev/ublkb0");
    assert!(place.ok(&["attach", "tank"]).contains("/dev/ublkb0"), "it is a device already");
    for (what, value) in [("logical_block_size", "4096"), ("physical_block_size", "4096"), ("write_cache", "write back")] {
        assert_eq!(guest::queue("/dev/ublkb0", what), value, "{what}");
    }
    let queues = |index: u32| fs::read_to_string(format!("/sys/block/ublkb0/mq/{index}/cpu_list")).expect("a queue");
    let mut processors = [queues(0), queues(1)];
    processors.sort();
    assert_eq!(processors.each_ref().map(|list| list.trim()), ["0", "1"], "each processor has a queue");

    // The bytes of the first day.
    mount("ext4");
    letters("/tmp/letters");
    assert!(same(Path::new(LETTERS), Path::new("/tmp/letters")));
    let load = fsx(100);
    goes_on(&place);
    load.stop();
    ok("umount", &[MOUNTED]);

    // The bare device, by a job on each processor and so in each queue. Then everything is discarded, and reads as zeros.
    let jobs = ["--numjobs=2", "--cpus_allowed=0,1", "--cpus_allowed_policy=split", "--offset_increment=64m"];
    let sizes = ["--rw=randwrite", "--bsrange=4k-256k", "--size=8m", "--iodepth=16", "--ioengine=libaio", "--fsync=32"];
    fio("bare", LINK, &[&jobs[..], &sizes].concat()).ends_well();
    ok("/usr/sbin/blkdiscard", &["-f", LINK]);
    for at in [0, 64 << 20] {
        assert!(guest::read(LINK, at, 16 << 20).iter().all(|byte| *byte == 0), "at {at}");
    }

    // XFS. Its server is killed twice with writes under way. The second server has another number of lanes than the device has
    // queues.
    ok("/usr/sbin/mkfs.xfs", &["-q", "-L", "goods", LINK]);
    is_recognized(&place, "/dev/ublkb0", "xfs");
    mount("xfs");
    letters(LETTERS);
    let round =
        || fio("load", "/mnt/tank/load", &["--rw=randwrite", "--bs=4k", "--size=2m", "--iodepth=32", "--ioengine=libaio"]);
    let (files, requests) = (fsx(200), Load::of(move || round().ends_well()));
    goes_on(&place);
    serve.kill();
    // Without the option: the device stays as it was made.
    let serve = serve_with(&["--lanes", "2"]);
    goes_on(&place);
    assert!(is_copied_by_the_driver());
    place.ok(&["fail", "tank", "0", "--force"]);
    goes_on(&place);
    serve.kill();
    let serve = place.serve(&["tank", "--ublk", "--lanes", "1", "--clients", "apart"]);
    goes_on(&place);
    let serve = upgrade(&place, serve, &[&DRIVES[..], &["--ublk", "--lanes", "3"]].concat());
    goes_on(&place);
    files.stop();
    requests.stop();
    ok("umount", &[MOUNTED]);
    ok("/usr/sbin/xfs_repair", &["-n", LINK]);
    mount("xfs");
    assert!(same(Path::new(LETTERS), Path::new("/tmp/letters")));
    ok("umount", &[MOUNTED]);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

#[test]
fn the_first_days_of_an_array_go_well() {
    if nvme::wanted() {
        let tools = std::env::var("HOME").unwrap_or_default() + "/.cache/stria-tools";
        let fsx = format!("{tools}/usr/bin/fsx");
        assert!(Path::new(&fsx).exists(), "{fsx} is missing; run: scripts/setup test");
        let drives = [nvme::Drive { bytes: 4 << 30, options: nvme::BLOCKS_OF_4096 }; 5];
        let programs = [&PROGRAMS[..], &[&fsx]].concat();
        print!(
            "{}",
            nvme::run_boots_on(LINUX_6_12, "new-user", &["new_user::first_day", "new_user::second_day"], &drives, &programs)
        );
    }
}

/// What qemu-io writes and expects: patterns, FUA, zeroes, holes, requests that are not aligned to blocks, several at once.
const PATTERNS: [&str; 17] = [
    "write -P 0x5a 1M 3M",
    "read -P 0x5a 1M 3M",
    "write -f -P 0x33 2M 64k",
    "read -P 0x33 2M 64k",
    "write -z 1M 64k",
    "read -P 0 1M 64k",
    "write -z -u 1114112 64k",
    "read -P 0 1114112 64k",
    "discard 3M 256k",
    "flush",
    "read -P 0 3M 256k",
    "aio_write -P 0x77 8M 1M",
    "aio_write -P 0x78 9M 1M",
    "aio_flush",
    "read -P 0x77 8M 1M",
    "write -P 0x11 100 1000",
    "read -P 0x11 100 1000",
];

/// Clients are killed during a copy, again and again. Nothing of them remains, and the next copy is right.
#[test]
fn clients_own_tools_find_nothing_wrong_while_a_drive_fails_and_clients_are_killed() {
    let place = Place::new();
    let images = place.images(5, 48 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "6", "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    let uri = serve.uri("tank").to_owned();
    let patterns = || {
        let arguments: Vec<&str> = PATTERNS.iter().flat_map(|command| ["-c", command]).collect();
        let output = run_tool("qemu-io", &[&["-f", "raw"], &arguments[..], &[&uri]].concat())?;
        assert!(!output.contains("failed") && !output.contains("rror"), "{output}");
        Some(())
    };
    if patterns().is_none() {
        return;
    }
    place.ok(&["fail", "tank", drives[1], "--force"]);
    patterns();

    let source = place.path("source");
    noise(&source, 64 << 20, 3);
    let source_text = source.to_str().expect("a plain path");
    let clients = || place.status("tank")["clients"].as_array().expect("a list").clone();
    for round in 0..8_u64 {
        let Some(mut copy) = tool("nbdcopy", &["--connections=4", "--requests=16", source_text, &uri]) else { return };
        // A little later in each round.
        wait_until("the copy", || {
            let written: u64 = clients().iter().filter_map(|client| client["written_bytes"].as_u64()).sum();
            written > round << 20 || copy.try_wait().expect("it is ours").is_some()
        });
        copy.kill().expect("it is ours");
        copy.wait().expect("it ends");
        wait_until("the end of its connections", || clients().is_empty());
    }
    place.ok(&["fail", "tank", drives[3], "--force"]);
    run_tool("nbdcopy", &["--flush", "--connections=4", source_text, &uri]);
    let copy = place.path("copy");
    run_tool("nbdcopy", &["--connections=4", &uri, copy.to_str().expect("a plain path")]);
    let copied = fs::read(&copy).expect("a copy");
    assert!(copied[..64 << 20] == fs::read(&source).expect("the source"), "it is what was written");
    patterns();
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
}
