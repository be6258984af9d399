//! Goal: an array that is attached to the kernel's NBD client is a block device like any other, and a restart of its server is
//! only a pause for it.
//! Method: this program runs again in a guest with NVMe drives and Linux 6.12 (tests/nvme). There fio and mke2fs of the machine
//! outside use the device while the real `stria` is killed and started again.

use crate::support::guest::{self, Load, RULES, fio, is_named, ok, wait_until, watchers};
use crate::support::running::Running;
use crate::support::{PATIENCE, Place};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Instant;
use stria_testkit::nvme;

const DRIVES: [&str; 4] = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1"];
const SPARE: &str = "/dev/nvme4n1";
const LINUX_6_12: nvme::Kernel = nvme::Kernel { version: "6.12", modules: &["nbd"] };
const PROGRAMS: [&str; 6] =
    [env!("CARGO_BIN_EXE_stria"), "/usr/bin/fio", "/usr/sbin/mke2fs", "/usr/sbin/blkdiscard", "/usr/bin/udevadm", RULES];
const DEVICE: &str = "/dev/nbd0";
const LINK: &str = "/dev/stria/tank";

fn is_connected() -> bool {
    Path::new("/sys/block/nbd0/pid").exists()
}

/// The bytes that clients of this serve have written without an error.
fn written(place: &Place) -> u64 {
    let status = place.status("tank");
    let clients = status["clients"].as_array().expect("a list");
    assert!(clients.iter().all(|client| client["errors"] == 0), "{status:#}");
    clients.iter().filter_map(|client| client["written_bytes"].as_u64()).sum()
}

fn is_loaded(place: &Place) {
    let before = written(place);
    wait_until("the load", || written(place) > before + (256 << 10));
}

/// Once a second Linux looks for requests of the device that take longer than a fifth of a second.
fn looks_soon() {
    wait_until("the time-out", || guest::queue(DEVICE, "io_timeout") == "200");
}

/// Prints the log of the watchers when a test fails.
struct Logs;

impl Drop for Logs {
    fn drop(&mut self) {
        for log in [0, 7].map(|index| format!("/run/stria/nbd-{index}.log")).iter().filter(|_| std::thread::panicking()) {
            eprintln!("{log}: {}", fs::read_to_string(log).unwrap_or_default());
        }
    }
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    let _logs = (guest::KernelLog::start(), Logs);
    guest::start_udev(PROGRAMS.len());
    let place = Place::new();
    place.ok(&[&["create", "tank", "--level", "5", "--spare", SPARE], &DRIVES[..]].concat());
    let drives = [&DRIVES[..], &[SPARE]].concat();
    let serve = place.serve(&drives);

    // The attributes of the device in the kernel.
    let told = place.ok(&["--json", "attach", "tank"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["device"], &told["driver"]), (&DEVICE.into(), &"nbd".into()));
    is_named(LINK, DEVICE);
    for (what, value) in [("write_cache", "write back"), ("fua", "1"), ("rotational", "0"), ("logical_block_size", "512")] {
        assert_eq!(guest::queue(DEVICE, what), value, "{what}");
    }
    looks_soon();
    let status = place.status("tank");
    let size: u64 = fs::read_to_string("/sys/block/nbd0/size").expect("sysfs").trim().parse().expect("a number");
    assert_eq!(Some(size * 512), status["size_bytes"].as_u64());
    assert_eq!(status["attached"], serde_json::json!([DEVICE]));
    assert!(place.ok(&["status", "tank"]).contains("attached  /dev/nbd0"));

    // One such message is enough.
    assert!(place.ok(&["attach", "tank"]).contains("is attached as /dev/nbd0 already"));
    place.run(&["attach", "tank", "/dev/nbd5"]).refused(1, &["attached as /dev/nbd0 already", "stria detach /dev/nbd0"]);
    place.run(&["attach", "tank", DRIVES[0]]).refused(1, &["no NBD device", "/dev/nbdN"]);
    assert_eq!(watchers().len(), 1);
    place.run(&["stop", "tank"]).refused(4, &["/dev/nbd0", "stria detach", "--force"]);

    // The bare device: mixed sizes at a depth, with FUA and flushes; then trims, which are read back.
    fio(
        "bare",
        DEVICE,
        &["--rw=randwrite", "--bsrange=512-256k", "--size=6m", "--iodepth=16", "--ioengine=libaio", "--fsync=32"],
    )
    .ends_well();
    ok("/usr/sbin/blkdiscard", &["-o", "1048576", "-l", "4194304", DEVICE]);
    assert!(guest::read(DEVICE, 1 << 20, 4 << 20).iter().all(|byte| *byte == 0), "what is discarded reads as zeros");

    // A file system under load. Its server is killed twice with writes under way, and a drive fails in between.
    ok("/usr/sbin/mke2fs", &["-q", "-t", "ext4", DEVICE]);
    fs::create_dir_all("/mnt/tank").expect("a folder");
    ok("mount", &["-t", "ext4", DEVICE, "/mnt/tank"]);
    place.run(&["detach", "tank"]).refused(4, &[DEVICE, "mounted", "--force"]);
    assert!(is_connected(), "a detach that is refused changes nothing");
    let load = Load::start("/mnt/tank/load");
    is_loaded(&place);
    let mut restarts = Vec::new();
    let mut killed = Instant::now();
    serve.kill();
    let serve = place.serve(&drives);
    restarts.push(killed.elapsed());
    is_loaded(&place);
    // A reconnection once left the time-out at 30 s, so the next reconnection took as long.
    looks_soon();
    place.ok(&["fail", "tank", "2", "--force"]);
    is_loaded(&place);
    killed = Instant::now();
    serve.kill();
    // Two deaths in a row: the second server has what Linux repeats, and little time to serve it.
    place.serve(&drives).kill();
    let serve = place.serve(&["tank"]);
    restarts.push(killed.elapsed());
    is_loaded(&place);
    guest::print_pause("NBD, attach", load.stop(), &restarts);

    // The watcher dies first, then the server. Requests wait until `attach` watches the device again.
    for watcher in watchers() {
        ok("kill", &["-9", &watcher]);
    }
    let load = Load::start("/mnt/tank/later");
    is_loaded(&place);
    serve.kill();
    let serve = place.serve(&drives);
    wait_until("the end of the old watcher", || watchers().is_empty());
    assert_eq!(place.ok(&["attach", "tank"]).trim(), DEVICE);
    load.stop();
    assert_eq!(watchers().len(), 1);

    // The array is renamed while nobody serves it. The device has the new name when it is connected again.
    serve.signal("-TERM");
    serve.ended_well();
    place.ok(&["rename", "tank", "lake"]);
    let serve = place.serve(&drives);
    is_named("/dev/stria/lake", DEVICE);
    wait_until("the end of the old name", || !Path::new(LINK).is_symlink());
    assert_eq!(place.status("lake")["attached"], serde_json::json!([DEVICE]));
    place.run(&["detach", "lake"]).refused(4, &[DEVICE, "mounted", "--force"]);
    serve.signal("-TERM");
    serve.ended_well();
    place.ok(&["rename", "lake", "tank"]);
    let serve = place.serve(&drives);
    is_named(LINK, DEVICE);

    // A watcher that is ended leaves a device that is in use, and `attach` watches it again.
    ok("kill", &watchers().iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the end of the watcher", || watchers().is_empty());
    assert!(is_connected());
    assert_eq!(place.ok(&["attach", "tank"]).trim(), DEVICE);
    ok("umount", &["/mnt/tank"]);
    assert!(place.ok(&["detach", DEVICE]).contains("/dev/nbd0 of array \"tank\" was detached"));
    wait_until("the end of the device", || !is_connected() && !Path::new(LINK).is_symlink() && watchers().is_empty());
    place.run(&["detach", "tank"]).refused(1, &["tank is neither a device", "stria status"]);

    // Several connections, to the device that is named. A watcher that is ended detaches a device that is not in use.
    assert_eq!(place.ok(&["attach", "tank", "/dev/nbd7", "--connections", "3"]).trim(), "/dev/nbd7");
    assert_eq!(place.status("tank")["clients"].as_array().expect("a list").len(), 3);
    assert_eq!(guest::queue("/dev/nbd7", "io_timeout"), "30000");
    fio("several", "/dev/nbd7", &["--rw=randwrite", "--bs=4k", "--size=1m", "--iodepth=16", "--ioengine=libaio"]).ends_well();
    ok("kill", &watchers().iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the end of the device", || !Path::new("/sys/block/nbd7/pid").exists() && watchers().is_empty());
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    place.run(&["attach", "tank"]).refused(1, &["does not answer"]);
}

#[test]
fn an_attached_array_outlives_its_server() {
    if nvme::wanted() {
        let drives = [nvme::Drive { bytes: 32 << 20, options: "" }; 5];
        print!("{}", nvme::run_test_on(LINUX_6_12, "attach", "attach::guests_half", &drives, &PROGRAMS));
    }
}

/// Most machines that run this test have no NBD client. On those that have one the test must not make a device.
#[test]
fn without_the_driver_the_remedy_is_named() {
    if Path::new("/sys/module/nbd").exists() {
        return;
    }
    let place = Place::new();
    let images = place.images(2, 16 << 20);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1"], &drives[..]].concat());
    place.run(&["attach", "tank"]).refused(1, &["does not answer"]);
    // A unit waits for the array, and counts as started meanwhile: the boot does not wait with it. It ends then for want of the
    // driver.
    let systemd = UnixDatagram::bind(place.path("systemd.sock")).expect("a socket");
    systemd.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut unit = place.command(&["attach", "tank", "--foreground"]);
    let (mut unit, _) = Running::start("attach", unit.env("NOTIFY_SOCKET", place.path("systemd.sock")));
    let mut heard = [0; 4096];
    let len = systemd.recv(&mut heard).expect("it speaks");
    let heard = String::from_utf8_lossy(&heard[..len]);
    assert!(heard.lines().any(|line| line == "READY=1") && heard.contains("STATUS=waits for array \"tank\""), "{heard}");
    assert!(unit.is_running());
    let serve = place.serve(&drives);
    let (status, log) = unit.ended();
    assert!(!status.success() && log.contains("waits for array \"tank\"") && log.contains("modprobe nbd"), "{status}: {log}");
    place.run(&["attach", "tank"]).refused(1, &["modprobe nbd"]);
    place.run(&["attach", "tank", "--foreground"]).refused(1, &["modprobe nbd"]);
    place.run(&["attach", "tank", "--connections", "0"]).refused(2, &["1 to 64"]);
    place.run(&["detach", "tank"]).refused(1, &["stria status"]);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}
