//! Goal: a stop of an array ends although a member hangs below its block device, and loses nothing that was acknowledged.
//! Method: this program runs again in a guest with NVMe drives and Linux 6.12 (tests/nvme). One member is a linear device of the
//! device mapper, which is suspended: requests wait there until it is resumed.

use crate::support::Place;
use crate::support::guest::{self, RULES, ok, wait_until};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stria_testkit::nvme;

const LINUX_6_12: nvme::Kernel = nvme::Kernel { version: "6.12", modules: &["ublk_drv", "dm_mod"] };
const PROGRAMS: [&str; 6] =
    [env!("CARGO_BIN_EXE_stria"), "/usr/bin/fio", "/usr/sbin/mke2fs", "/usr/sbin/dmsetup", "/usr/bin/udevadm", RULES];
const DEVICE: &str = "/dev/ublkb3";
const SLOW: &str = "/dev/dm-0";

fn dmsetup(arguments: &[&str]) {
    ok("/usr/sbin/dmsetup", &[&["--noudevsync", "--noudevrules"], arguments].concat());
}

/// Before, the kernel had 60 s for requests that the drive held, and only then the drive was failed. As mke2fs trims, the size of the
/// drive could not be asked either, and the stop waited for ever.
///
/// Serves an array whose file system is under load, lets the member hang, and stops the array. `code`, `told`: what the stop says.
fn story(place: &Place, level: &str, code: i32, told: &[&str]) {
    let drives = ["/dev/nvme0n1", "/dev/nvme1n1", SLOW];
    place.ok(&[&["create", "tank", "--level", level, "--assume-clean", "--force"], &drives[..]].concat());
    let serve = place.serve(&[&drives[..], &["--ublk=3"]].concat());
    ok("/usr/sbin/mke2fs", &["-q", "-t", "ext4", DEVICE]);
    ok("mount", &["-t", "ext4", DEVICE, "/mnt/tank"]);
    let kept: Vec<u8> = (0..2_u32 << 18).flat_map(u32::to_le_bytes).collect();
    fs::write("/mnt/tank/kept", &kept).and_then(|()| fs::File::open("/mnt/tank/kept")?.sync_all()).expect("it writes");
    dmsetup(&["suspend", "--noflush", "--nolockfs", "slow"]);
    let load =
        ["--name=load", "--filename=/mnt/tank/load", "--size=2m", "--rw=write", "--bs=64k", "--end_fsync=1", "--eta=never"];
    let mut writer = Command::new("/usr/bin/fio").args(load).stdout(Stdio::null()).spawn().expect("it starts");
    place.wait_for("tank", "the drive to be seen to hang", |status| {
        let members = status["members"].as_array().expect("a list");
        members.iter().any(|member| member["path"] == SLOW && member["waiting_ms"].as_u64().unwrap_or(0) > 500)
    });
    let begun = Instant::now();
    let ran = place.run(&["stop", "tank", "--force"]);
    let took = begun.elapsed();
    println!("RAID {level}: the stop took {took:.1?}");
    dmsetup(&["resume", "slow"]);
    let (status, log) = serve.ended();
    assert!(status.success() == (code == 0) && log.contains("unmount what lies on it"), "{status}: {log}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(ran.code == code && told.iter().all(|words| ran.stderr.contains(words)), "{ran:?}");
    assert!(!writer.wait().expect("it ran").success(), "what was not written is no success");
    ok("umount", &["/mnt/tank"]);
    assert!(!Path::new(DEVICE).exists() && place.run(&["ublk"]).code == 0, "{:?}", place.run(&["ublk"]));
    // Everything that was acknowledged is there.
    let serve = place.serve(&[&drives[..], &["--ublk=3"]].concat());
    ok("mount", &["-t", "ext4", DEVICE, "/mnt/tank"]);
    assert!(fs::read("/mnt/tank/kept").expect("it reads") == kept, "bytes were lost");
    ok("umount", &["/mnt/tank"]);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn hangs_half() {
    if !nvme::is_guest() {
        return;
    }
    guest::start_udev(PROGRAMS.len());
    fs::create_dir_all("/mnt/tank").expect("a folder");
    let sectors = fs::read_to_string("/sys/block/nvme2n1/size").expect("sysfs");
    dmsetup(&["create", "slow", "--table", &format!("0 {} linear /dev/nvme2n1 0", sectors.trim())]);
    wait_until("the slow device", || Path::new(SLOW).exists());
    let place = Place::new();
    story(&place, "5", 0, &[]);
    story(&place, "0", 1, &[SLOW, "has not answered for", "as after a power cut"]);
}

#[test]
fn a_stop_ends_although_a_member_hangs_below_the_block_device() {
    if nvme::wanted() {
        let drives = [nvme::Drive { bytes: 32 << 20, options: "" }; 3];
        print!("{}", nvme::run_test_on(LINUX_6_12, "ublk-hangs", "ublk_hangs::hangs_half", &drives, &PROGRAMS));
    }
}
