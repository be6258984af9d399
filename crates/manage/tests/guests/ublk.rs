//! Goal: an array is a block device like any other, and the device outlives its server.
//! Method: this program runs again in a guest with NVMe drives and Linux 6.12 (tests/nvme). There the real `stria` serves a RAID
//! 5 to the kernel, and fio and mke2fs of the machine outside use it.

use crate::support::Place;
use crate::support::daemon::Daemon;
use crate::support::guest::{self, Load, RULES, fio, is_named, ok, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use stria_testkit::nvme;

const DRIVES: [&str; 4] = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1"];
const SPARE: &str = "/dev/nvme4n1";
const LINUX_6_12: nvme::Kernel = nvme::Kernel { version: "6.12", modules: &["ublk_drv"] };
const PROGRAMS: [&str; 6] =
    [env!("CARGO_BIN_EXE_stria"), "/usr/bin/fio", "/usr/sbin/mke2fs", "/usr/sbin/blkdiscard", "/usr/bin/udevadm", RULES];
const DEVICE: &str = "/dev/ublkb3";

fn is_served(place: &Place, code: i32, words: &str) {
    let listed = place.run(&["ublk"]);
    assert!(listed.code == code && listed.stdout.contains(words), "{listed:?}");
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    guest::start_udev(PROGRAMS.len());
    let place = Place::new();
    place.ok(&[&["create", "tank", "--level", "5", "--spare", SPARE], &DRIVES[..]].concat());
    let drives = [&DRIVES[..], &[SPARE]].concat();
    let serve_with = |options: &[&str]| place.serve(&[&drives[..], options].concat());
    let serve = serve_with(&["--ublk=3"]);
    assert_eq!(serve.devices, [("tank".to_owned(), DEVICE.to_owned())]);
    is_served(&place, 0, &format!("served by process {}", serve.pid()));

    is_named("/dev/stria/tank", DEVICE);
    let uuid = place.status("tank")["uuid"].as_str().expect("text").replace(':', "");
    is_named(&format!("/dev/disk/by-id/stria-{uuid}"), DEVICE);

    // The attributes of the device in the kernel.
    for (what, value) in [("write_cache", "write back"), ("fua", "1"), ("rotational", "0"), ("logical_block_size", "512")] {
        assert_eq!(guest::queue(DEVICE, what), value, "{what}");
    }
    let (stripe, zeroes) = (guest::queue(DEVICE, "optimal_io_size"), guest::queue(DEVICE, "write_zeroes_max_bytes"));
    assert_eq!((stripe.as_str(), zeroes.as_str()), ("32768", "67108864"), "a strip of 32 KiB, as three are no power of two");
    let size: u64 = fs::read_to_string("/sys/block/ublkb3/size").expect("sysfs").trim().parse().expect("a number");
    assert_eq!(size * 512, place.status("tank")["size_bytes"].as_u64().expect("a size"));

    // The bare device: mixed sizes at a depth, with FUA and flushes; then trims and zeroes, which are read back.
    fio(
        "bare",
        DEVICE,
        &["--rw=randwrite", "--bsrange=512-256k", "--size=6m", "--iodepth=16", "--ioengine=libaio", "--fsync=32"],
    )
    .ends_well();
    fio("sync", DEVICE, &["--rw=randwrite", "--bs=4k", "--size=256k", "--offset=16m", "--ioengine=sync", "--sync=dsync"])
        .ends_well();
    assert!(guest::read(DEVICE, 0, 1 << 20).iter().any(|byte| *byte != 0));
    ok("/usr/sbin/blkdiscard", &["-o", "1048576", "-l", "4194304", DEVICE]);
    assert!(guest::read(DEVICE, 1 << 20, 4 << 20).iter().all(|byte| *byte == 0), "what is discarded reads as zeros");
    ok("/usr/sbin/blkdiscard", &["-z", "-o", "512", "-l", "100352", DEVICE]);
    assert!(guest::read(DEVICE, 512, 100_352).iter().all(|byte| *byte == 0));
    assert!(guest::read(DEVICE, 100_864, 4096).iter().any(|byte| *byte != 0));

    // A partition table: one partition of 8 MiB at 1 MiB.
    let mut table = vec![0; 512];
    table[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x40, 0, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    fs::File::options()
        .write(true)
        .open(DEVICE)
        .and_then(|mut device| std::io::Write::write_all(&mut device, &table))
        .expect("it writes");
    ok("blockdev", &["--rereadpt", DEVICE]);
    is_named("/dev/stria/tank-part1", "/dev/ublkb3p1");
    ok("/usr/sbin/blkdiscard", &[DEVICE, "-f"]);
    ok("blockdev", &["--rereadpt", DEVICE]);

    // A file system under load. Its server is killed twice with writes under way, and a drive fails in between.
    ok("/usr/sbin/mke2fs", &["-q", "-t", "ext4", DEVICE]);
    fs::create_dir_all("/mnt/tank").expect("a folder");
    ok("mount", &["-t", "ext4", DEVICE, "/mnt/tank"]);
    place.run(&["stop", "tank"]).refused(4, &["/dev/ublkb3", "mounted", "--force"]);
    let load = Load::start("/mnt/tank/load");
    let written = |place: &Place| {
        let status = place.status("tank");
        let clients = status["clients"].as_array().expect("a list");
        let device = clients.iter().find(|client| client["peer"] == DEVICE).expect("the device is a client");
        assert_eq!(device["errors"], 0, "{status:#}");
        device["written_bytes"].as_u64().expect("a count")
    };
    let is_loaded = |place: &Place| wait_until("the load", || written(place) > 256 << 10);
    is_loaded(&place);
    let killed = Instant::now();
    serve.kill();
    is_served(&place, 3, "LEFT BEHIND");
    // Two deaths in a row: the second server has the requests that the first one had, and little time to serve them.
    serve_with(&["--ublk"]).kill();
    // The array is found by its name, although its own device does not answer.
    let serve = place.serve(&["tank", "--ublk", "--clients", "apart"]);
    assert_eq!(serve.devices, [("tank".to_owned(), DEVICE.to_owned())], "the same device");
    let mut restarts = vec![killed.elapsed()];
    is_named("/dev/stria/tank", DEVICE);
    is_loaded(&place);
    place.ok(&["fail", "tank", "2", "--force"]);
    // A flush after these writes makes them durable.
    let before = written(&place);
    wait_until("the load without the drive", || written(&place) > before + (128 << 10));
    let killed = Instant::now();
    serve.kill();
    let serve = serve_with(&["--ublk=3"]);
    restarts.push(killed.elapsed());
    is_loaded(&place);
    guest::print_pause("ublk", load.stop(), &restarts);

    // SIGTERM, as for an upgrade: a mounted device waits for the next server.
    serve.signal("-TERM");
    let log = serve.ended_well();
    assert!(log.contains("/dev/ublkb3 is in use") && log.contains("was not removed"), "{log}");
    place.run(&[&["serve"], &drives[..], &["--ublk=4"]].concat()).refused(1, &["/dev/ublkb3", "--ublk=3", "stria ublk remove 3"]);
    // The device of an array that has been renamed meanwhile has the new name.
    place.ok(&["rename", "tank", "lake"]);
    let serve = serve_with(&["--ublk"]);
    is_named("/dev/stria/lake", DEVICE);
    wait_until("the end of the old name", || !Path::new("/dev/stria/tank").is_symlink());
    is_served(&place, 0, "/dev/ublkb3  lake");
    serve.signal("-TERM");
    serve.ended_well();
    place.ok(&["rename", "lake", "tank"]);
    let serve = serve_with(&["--ublk"]);
    is_named("/dev/stria/tank", DEVICE);
    fio("again", "/mnt/tank/load", &["--rw=randwrite", "--bs=4k", "--size=1m", "--ioengine=sync", "--end_fsync=1"]).ends_well();
    ok("umount", &["/mnt/tank"]);
    let status = place.wait_for("tank", "the rebuild", |status| status["health"] == "optimal" && status["sweep"].is_null());
    let spare = status["members"].as_array().expect("a list").iter().find(|member| member["path"] == SPARE);
    assert_eq!(
        spare.map(|spare| &spare["slot"]),
        Some(&2.into()),
        "the spare has the place of the drive that failed: {status:#}"
    );
    // A process that has the device open by a node of its own, as one in a container.
    let number = fs::read_to_string("/sys/block/ublkb3/dev").expect("sysfs");
    let (major, minor) = number.trim().split_once(':').expect("a number");
    ok("mknod", &["/tmp/xvda", "b", major, minor]);
    let mut opener =
        Command::new("sleep").arg("600").stdin(fs::File::open("/tmp/xvda").expect("it opens")).spawn().expect("it starts");
    place.run(&["stop", "tank"]).refused(4, &["/dev/ublkb3", "sleep (process"]);
    opener.kill().and_then(|()| opener.wait()).expect("it ran");
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    wait_until("the end of the names", || !Path::new("/dev/stria/tank").is_symlink());
    assert!(!Path::new(DEVICE).exists() && !Path::new("/dev/ublkc3").exists());
    is_served(&place, 0, "no array is a block device here");

    // A read-only device; and a device that no server takes over is removed by a command.
    let serve = place.serve(&[&drives[..], &["--ublk=3", "--read-only"]].concat());
    assert_eq!(fs::read_to_string("/sys/block/ublkb3/ro").expect("sysfs").trim(), "1");
    place.run(&["ublk", "remove", "3"]).refused(4, &["serves it", "stria stop tank"]);
    serve.kill();
    place
        .run(&[&["serve"], &drives[..], &["--ublk"]].concat())
        .refused(1, &["it is read-only, and the array is writable", "stria ublk remove 3"]);
    assert!(place.ok(&["ublk", "remove", "3"]).contains("/dev/ublkb3 of array \"tank\" was removed"));
    assert!(!Path::new(DEVICE).exists());
    place.run(&["ublk", "remove", "3"]).refused(1, &["no /dev/ublkb3 of Stria's"]);

    // Without the driver.
    ok("rmmod", &["ublk_drv"]);
    place.run(&[&["serve"], &drives[..], &["--ublk"]].concat()).refused(1, &["modprobe ublk_drv", "Linux 6.5", "NBD"]);
}

#[test]
fn an_array_is_a_block_device_that_outlives_its_server() {
    if nvme::wanted() {
        let drives = [nvme::Drive { bytes: 32 << 20, options: "" }; 5];
        print!("{}", nvme::run_test_on(LINUX_6_12, "ublk", "ublk::guests_half", &drives, &PROGRAMS));
    }
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn daemons_half() {
    if !nvme::is_guest() {
        return;
    }
    guest::start_udev(PROGRAMS.len());
    let place = Place::new();
    place.is_a_machine();
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &DRIVES[..]].concat());
    place.ok(&[&["adopt", "--ublk"], &DRIVES[..]].concat());
    let config = fs::read_to_string(place.config()).expect("a configuration");
    let config = config.replace("block-devices = false", "block-devices = true");
    let config = config.replace("[[array]]\n", "[[array]]\nublk-copy = \"driver\"\n");
    fs::write(place.config(), config).expect("a file");
    for round in 0..2 {
        let daemon = Daemon::start(&place);
        is_named("/dev/stria/tank", "/dev/ublkb0");
        assert!(place.ok(&["ublk"]).contains(", data copied by the driver"));
        if round == 0 {
            ok("/usr/sbin/mke2fs", &["-q", "-t", "ext4", "-L", "goods", "/dev/stria/tank"]);
        }
        // udev has looked at it, so fstab may name it by what lies on it.
        is_named("/dev/disk/by-label/goods", "/dev/ublkb0");
        let load = ["--rw=randwrite", "--bs=4k", "--size=1m", "--offset=8m", "--iodepth=8", "--ioengine=libaio"];
        fio("daemon", "/dev/stria/tank", &load).ends_well();
        daemon.signal("-TERM");
        daemon.ended_well();
        wait_until("the end of the device", || !Path::new("/dev/ublkb0").exists());
    }
}

#[test]
fn a_daemon_makes_the_device_as_its_configuration_says() {
    if nvme::wanted() {
        let drives = [nvme::Drive { bytes: 32 << 20, options: "" }; 4];
        print!("{}", nvme::run_test_on(LINUX_6_12, "ublk-daemon", "ublk::daemons_half", &drives, &PROGRAMS));
    }
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn settings_half() {
    if !nvme::is_guest() {
        return;
    }
    guest::start_udev(PROGRAMS.len());
    let place = Place::new();
    place.is_a_machine();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean", "--integrity"], &DRIVES[..2]].concat());
    place.ok(&[&["adopt", "--ublk"], &DRIVES[..2]].concat());
    let config = fs::read_to_string(place.config()).expect("a configuration");
    fs::write(place.config(), config.replace("block-devices = false", "block-devices = true")).expect("a file");
    let daemon = Daemon::start(&place);
    let (device, is_read_only) = ("/dev/ublkb0", || fs::read_to_string("/sys/block/ublkb0/ro").expect("sysfs").trim() == "1");
    ok("/usr/sbin/mke2fs", &["-q", "-t", "ext4", device]);
    fs::create_dir_all("/mnt/tank").expect("a folder");
    ok("mount", &["-t", "ext4", device, "/mnt/tank"]);
    // `--force` once left the array down, and the file system waited for ever.
    for setting in [&["--read-only", "on"][..], &["--integrity", "off"]] {
        for force in [&[][..], &["--force"]] {
            let refused = place.run(&[&["set", "tank"], setting, force].concat());
            refused.refused(1, &["\"tank\" stays as it is", device, "mounted", "--force does not end", "unmount", "`stria set`"]);
        }
        fs::write("/mnt/tank/after", setting[0])
            .and_then(|()| fs::File::open("/mnt/tank/after")?.sync_all())
            .expect("it goes on");
    }
    let status = place.status("tank");
    assert!(status["read_only"] == false && status["members"][0]["checksums"].is_object() && !is_read_only(), "{status:#}");
    assert!(
        !fs::read_to_string(place.config()).expect("a configuration").contains("read-only"),
        "what was refused is not stored"
    );
    // What leaves the device as it is may be forced: the file system sees a pause.
    place.ok(&["set", "tank", "--bitmap", "none", "--force"]);
    fs::write("/mnt/tank/after", "a pause").expect("it goes on");
    ok("umount", &["/mnt/tank"]);
    for (wanted, holds) in [("on", true), ("off", false)] {
        // udev may look at a drive for longer than the pause waits; then the keeper starts the array again, as it was.
        wait_until("the switch", || place.run(&["set", "tank", "--read-only", wanted]).code == 0);
        assert_eq!(is_read_only(), holds);
    }
    wait_until("the switch", || place.run(&["set", "tank", "--integrity", "off"]).code == 0);
    ok("mount", &["-t", "ext4", device, "/mnt/tank"]);
    assert_eq!(fs::read_to_string("/mnt/tank/after").expect("it reads"), "a pause");
    ok("umount", &["/mnt/tank"]);
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn a_device_in_use_keeps_its_array_as_it_is() {
    if nvme::wanted() {
        let drives = [nvme::Drive { bytes: 32 << 20, options: "" }; 2];
        print!("{}", nvme::run_test_on(LINUX_6_12, "ublk-settings", "ublk::settings_half", &drives, &PROGRAMS));
    }
}
