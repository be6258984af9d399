//! Goal: the health of a drive is what the drive reports, for NVMe without smartmontools.
//! Method: emulated NVMe drives in a guest (tests/nvme), where `smartctl` judges the output of `stria health`.

mod support;

use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use stria_testkit::nvme;
use support::{Place, may_skip};

/// Where `scripts/setup test` unpacks smartctl, or where it is installed.
fn smartctl() -> Option<PathBuf> {
    let unpacked = PathBuf::from(std::env::var_os("HOME")?).join(".cache/stria-tools/usr/sbin/smartctl");
    [unpacked, "/usr/sbin/smartctl".into()].into_iter().find(|path| path.exists())
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["--json", "health", "/dev/nvme0n1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let page: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let own = &page["drives"][0]["health"];
    assert_eq!((&own["source"], &own["verdict"]), (&"nvme".into(), &"good".into()), "{page:#}");
    // The guest names the programs that it was given in this order: this test, `stria`, `smartctl`.
    let smartctl = std::env::var("P2").expect("it came along");
    let judge = Command::new(smartctl).args(["--json", "-i", "-H", "-A", "/dev/nvme0n1"]).output().expect("it starts");
    let judge: Value = serde_json::from_slice(&judge.stdout).expect("JSON");
    let log = &judge["nvme_smart_health_information_log"];
    for (ours, theirs) in [
        (&own["temperature_c"], &log["temperature"]),
        (&own["spare_percent"], &log["available_spare"]),
        (&own["spare_threshold_percent"], &log["available_spare_threshold"]),
        (&own["wear_percent"], &log["percentage_used"]),
        (&own["critical_warning"], &log["critical_warning"]),
        (&own["media_errors"], &log["media_errors"]),
        (&own["power_cycles"], &log["power_cycles"]),
        (&own["unsafe_shutdowns"], &log["unsafe_shutdowns"]),
        (&own["model"], &judge["model_name"]),
        (&own["serial"], &judge["serial_number"]),
        (&own["firmware"], &judge["firmware_version"]),
    ] {
        assert!(!ours.is_null() && ours == theirs, "{ours} is not {theirs}\n{own:#}\n{judge:#}");
    }
    // The serve reads the health of the array's drives, although they are in use.
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", "/dev/nvme0n1", "/dev/nvme1n1"]);
    let serve = place.serve(&["/dev/nvme0n1", "/dev/nvme1n1"]);
    let end = std::time::Instant::now() + support::PATIENCE;
    let words = loop {
        let words = place.ok(&["health", "tank"]);
        if words.contains("good") {
            break words;
        }
        assert!(std::time::Instant::now() < end, "{words}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    };
    for word in ["/dev/nvme0n1", "/dev/nvme1n1", "°C"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    assert!(place.ok(&["status", "-v"]).contains("firmware"), "it is below the members");
    // QEMU's controller takes no firmware (OACS, bit 2): that is said before a byte is sent.
    let image = place.path("image");
    std::fs::write(&image, [7; 8192]).expect("a file");
    let image = image.to_str().expect("text");
    for arguments in [&["firmware", "tank", "0"][..], &["firmware", "tank", "0", "--image", image, "--force"]] {
        place.run(arguments).refused(1, &["/dev/nvme0n1: its controller takes no firmware", "nothing was changed"]);
    }
    place.run(&["firmware", "tank", "0", "--image", image]).refused(4, &["may make the drive unusable", "add --yes"]);
    place.run(&["wipe", "--secure-erase", "--force", "/dev/nvme0n1"]).refused(1, &["in use"]);
    caches(&place);
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    erasures(&place);
}

/// The setting of write caches holds for a drive that joins, and the controllers say so themselves.
fn caches(place: &Place) {
    let [first, second] = ["/dev/nvme0n1", "/dev/nvme1n1"].map(Path::new);
    let is_on = |drive| stria_health::write_cache(drive).expect("the controller tells");
    for (switch, on) in [("on", true), ("off", false)] {
        place.ok(&["set", "tank", "--drive-caches", switch]);
        assert_eq!((is_on(first), is_on(second)), (on, on), "{switch}");
    }
    place.ok(&["fail", "tank", "/dev/nvme1n1", "--yes"]);
    // As a reset of its controller does.
    stria_health::set_write_cache(second, true).expect("it is switched");
    assert!(is_on(second));
    place.ok(&["add", "tank", "/dev/nvme1n1", "--wait"]);
    assert!(!is_on(second), "it joined an array whose caches are off");
    // Sysfs names the subsystem of each drive, which has no other namespace.
    assert_eq!(stria_health::others_touched(first).expect("sysfs tells"), [""; 0].map(PathBuf::from));
}

/// By the drives' own means: QEMU's controller has Format NVM and unmaps, and does not have Sanitize.
fn erasures(place: &Place) {
    let drives = ["/dev/nvme0n1", "/dev/nvme1n1"];
    let at = 20 << 20;
    for drive in drives {
        let device = std::fs::OpenOptions::new().write(true).open(drive).expect("a drive");
        device.write_all_at(&[7; 4096], at).expect("it is written");
        device.sync_all().expect("it is durable");
    }
    let bytes = |drive: &str| {
        let mut bytes = vec![1; 4096];
        std::fs::File::open(drive).expect("a drive").read_exact_at(&mut bytes, at).expect("it is read");
        bytes
    };
    place.run(&["wipe", "--sanitize", "--force", drives[0]]).refused(1, &["does not offer Sanitize", "nothing was erased"]);
    place.run(&["wipe", "--secure-erase", drives[0]]).refused(4, &["member of array \"tank\"", "for good", "--yes"]);
    assert_eq!(bytes(drives[0]), [7; 4096]);
    assert!(place.ok(&["wipe", "--secure-erase", "--force", drives[0]]).contains("erased by NVMe's Format"));
    assert!(place.ok(&["wipe", "--discard", "--force", drives[1]]).contains("was discarded and reads as zeros"));
    for drive in drives {
        assert_eq!(bytes(drive), [0; 4096], "{drive}");
        assert!(place.ok(&["examine", drive]).contains("no member of an array"));
    }
    // They are drives as before.
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", drives[0], drives[1]]);
}

#[test]
fn nvme_health_is_what_smartctl_says() {
    if !nvme::wanted() {
        return;
    }
    let Some(smartctl) = smartctl() else {
        return may_skip("smartctl is missing", "run: scripts/setup test");
    };
    let drives = [nvme::Drive { bytes: 24 << 20, options: "" }; 2];
    let smartctl = smartctl.to_str().expect("a plain path");
    nvme::run_test("health", "guests_half", &drives, &[env!("CARGO_BIN_EXE_stria"), smartctl]);
}

#[test]
fn what_has_no_health_is_told() {
    let place = Place::new();
    let images = place.images(1, 1 << 20);
    place.run(&["health", &images[0]]).refused(1, &["it has no health of its own"]);
    let image = [images[0].as_str(), &place.images(2, 32 << 20)[1]];
    place.run(&["wipe", "--secure-erase", "--force", image[0]]).refused(1, &["only whole NVMe drives", "nothing was erased"]);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", "missing", image[1]]);
    let serve = place.serve(&[image[1]]);
    place.run(&["firmware", "tank", "1"]).refused(1, &["firmware of NVMe drives only", "maker's tool"]);
    place.run(&["firmware", "tank", "1", "--slot", "2"]).refused(2, &["--image"]);
    // The drive is looked at before the image, and a question that --yes has answered is no doubt that --force skips.
    for answer in ["--force", "--yes"] {
        let refused = place.run(&["firmware", "tank", "1", answer, "--image", "/nowhere/image"]);
        refused.refused(1, &["firmware of NVMe drives only", "nothing was changed"]);
    }
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    place.run(&["health", "/dev/stria-none"]).refused(1, &["No such file"]);
}

/// The daemon asks as this command does. A test of `smartctl`'s own would need a disk that sleeps.
#[test]
fn a_disk_that_sleeps_is_not_woken() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(1, 1 << 20);
    let (program, calls) = (place.path("smartctl"), place.path("calls"));
    let asleep = concat!(env!("CARGO_MANIFEST_DIR"), "/../health/tests/smartctl/asleep.json");
    stria_testkit::script(&program, &format!("#!/bin/sh\necho \"$@\" >>{}\ncat {asleep}\nexit 3\n", calls.display()));
    let config = std::fs::read_to_string(place.config()).expect("a configuration");
    std::fs::write(place.config(), format!("{config}\n[health]\nsmartctl = {program:?}\n")).expect("a file");
    assert!(place.ok(&["health", &images[0]]).contains("asleep"));
    let calls = std::fs::read_to_string(calls).expect("the calls");
    assert!(calls.lines().count() == 1 && calls.contains("-n standby,3"), "{calls}");
}
