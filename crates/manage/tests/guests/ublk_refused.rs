//! Goal: a block device that the kernel refuses to start is removed at once, and the array goes on without it.
//! Method: this program runs again in a guest with NVMe drives and Linux 6.12 (tests/nvme). Another disk, of the driver null_blk, has
//! the name there, so Linux adds no disk of that name.

use crate::support::Place;
use crate::support::guest::{ok, wait_until};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use stria_testkit::nvme;

const LINUX_6_12: nvme::Kernel = nvme::Kernel { version: "6.12", modules: &["ublk_drv", "configfs", "null_blk"] };
const PROGRAMS: [&str; 1] = [env!("CARGO_BIN_EXE_stria")];
const DRIVES: [&str; 2] = ["/dev/nvme0n1", "/dev/nvme1n1"];

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn refused_half() {
    if !nvme::is_guest() {
        return;
    }
    ok("mount", &["-t", "configfs", "none", "/sys/kernel/config"]);
    let other = Path::new("/sys/kernel/config/nullb/ublkb3");
    fs::create_dir(other).and_then(|()| fs::write(other.join("power"), "1")).expect("another disk");
    wait_until("the other disk", || Path::new("/sys/block/ublkb3").exists());
    let place = Place::new();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &DRIVES[..]].concat());
    for clients in ["lane", "apart"] {
        let begun = Instant::now();
        let ran = place.run(&[&["serve"], &DRIVES[..], &["--ublk=3", "--clients", clients]].concat());
        let took = begun.elapsed();
        println!("clients {clients}: {took:.1?}: {}", ran.stderr);
        ran.refused(1, &["cannot start /dev/ublkb3"]);
        assert!(!ran.stderr.contains("left behind"), "{ran:?}");
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert!(!Path::new("/dev/ublkc3").exists(), "it was left behind");
    }
    fs::write(other.join("power"), "0").and_then(|()| fs::remove_dir(other)).expect("the other disk goes");
    let serve = place.serve(&[&DRIVES[..], &["--ublk=3"]].concat());
    place.ok(&["stop", "tank"]);
    serve.ended_well();
}

/// The driver deletes no device whose queues have commands under way, and rings stay open as long as their threads. So the removal
/// took 10 s and failed, and the device was there until the server had ended.
#[test]
fn a_block_device_that_cannot_start_is_removed_at_once() {
    if nvme::wanted() {
        let drives = [nvme::Drive { bytes: 32 << 20, options: "" }; 2];
        print!("{}", nvme::run_test_on(LINUX_6_12, "ublk-refused", "ublk_refused::refused_half", &drives, &PROGRAMS));
    }
}
